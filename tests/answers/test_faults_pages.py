"""Pages about failures: what has failed is in colour, what is left is a curve a fabric."""

import json

import pytest

from netplan.answers.faults_answer import FaultsAnswer
from netplan.reports.charts import Chart
from netplan.reports.sections import Inset, data_tables
from tests.questions.fault_cases import small


@pytest.fixture(scope="module")
def answer() -> FaultsAnswer:
    asked = {"gpus": 128, "hb_size": 8, "radix": 16, "years": 1}
    return small(**asked, fabrics=("rail-only", "torus-2d"), fail=["links=2"])


def test_each_fabric_is_drawn_with_its_failures(answer: FaultsAnswer) -> None:
    drawn = [one for one in answer.sections() if isinstance(one, Inset)]
    assert [one.title.partition(":")[0] for one in drawn] == ["rail-only", "torus-2d"]
    rails, torus = drawn
    # Two of the links of a rail are those of two GPUs, which lose their network.
    assert rails.title == "rail-only: links=2 failed, 2 GPUs cut off"
    assert str(rails.markup).count(" failed</title>") == 2
    assert str(rails.markup).count('class="node gpus cut"') == 3  # two, and one in the legend
    assert torus.title == "torus-2d: links=2 failed, no GPU cut off"


def test_without_failures_asked_for_the_worst_single_one_is_drawn() -> None:
    alone = small(gpus=128, hb_size=8, radix=16, years=1, fabrics=("rail-only",))
    (drawn,) = (one for one in alone.sections() if isinstance(one, Inset))
    assert "/leaf-0 failed, 16 GPUs cut off" in drawn.title
    assert 'class="node switch failed"' in str(drawn.markup)


def test_curves_rows_and_json_say_the_same(answer: FaultsAnswer) -> None:
    charts = {one.key: one for one in answer.sections() if isinstance(one, Chart)}
    links = charts["capacity-link"]
    assert [series["name"] for series in links.data] == ["rail-only", "torus-2d"]
    assert "torus-2d" not in str(charts["capacity-switch"].data)  # it has none
    (rows,) = (one for one in data_tables(answer.sections()) if one.name == "capacity")
    told = [row for row in rows.records() if (row["fabric"], row["kind"]) == ("rail-only", "link")]
    left = json.loads(answer.json())["fabrics"][0]["capacity"]
    found = [row for row in left if row["kind"] == "link"]
    assert [{key: row[key] for key in found[0]} for row in told] == found
    shares = [100 * row["gpus_left_share"] for row in found]
    assert shares == pytest.approx(links.data[0]["y"])


def test_a_large_fabric_says_how_much_of_which_kind_has_failed() -> None:
    many = small(gpus=8192, hb_size=8, radix=64, years=1, fabrics=("rail-only",), fail=["leaf=1"])
    (drawn,) = (one for one in many.sections() if isinstance(one, Inset))
    assert "a kind of links of which some have failed" in str(drawn.markup)
    assert "of 8,192 host links" in str(drawn.markup)
