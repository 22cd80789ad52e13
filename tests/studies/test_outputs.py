"""Outputs by the path that leads to them, in answers of every question that studies put."""

import subprocess
import sys
from typing import Any

import pytest

import netplan
from netplan.answers.outputs import NoRowError, output
from netplan.errors import InputError, NetplanError, UnknownNameError
from netplan.records import RecordError
from netplan.setup.asking import question_class, signature_of
from netplan.setup.question import Question
from netplan.studies.definition import ASKED, FILES, StudyDefinition
from netplan.studies.questions import answer
from netplan.studies.study import make_study

ANSWER: dict[str, Any] = {
    "groups": [
        {"group": "hb", "busiest_s": 1.5, "kind": "links"},
        {"group": "rail-0/up", "busiest_s": 2.5, "kind": "links"},
    ],
    "sizes": [1, 2],
    "notes": ["One.", "Two."],
    "llama-3.1-70b": {"days": 3},
    "timed": None,
}
OF_A_PAPER = "rail-only-figures"
"""A question about figures of one paper, which studies alone put: it is no command."""

SMALL: dict[str, Any] = {"gpus": 1024, "model": "llama-3-8b", "batch": 1024}


def made(ask: str, outputs: list[Any], axes: list[Any], **more: Any) -> StudyDefinition:  # noqa: ANN401
    """A study that asks for these outputs over these axes."""
    head = {"name": "mine", "title": "Mine", "source": "me", "date": "2026"}
    return StudyDefinition.read({**head, "ask": ask, "outputs": outputs, "axes": axes, **more})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("groups.hb.busiest_s", 1.5),
        ("groups.1.busiest_s", 2.5),
        ("groups.rail-0/up.busiest_s", 2.5),
        ("sizes.1", 2),
        ("notes", "One.; Two."),
        ("llama-3.1-70b.days", 3),  # a key with dots
        ("timed.plan.tensor", None),
    ],
)
def test_a_path_leads_through_keys_and_rows(name: str, value: object) -> None:
    assert output(ANSWER, name) == value


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("group.hb", UnknownNameError, "key 'group': did you mean groups?"),
        ("groups.hb.busy_s", UnknownNameError, "key 'busy_s': did you mean busiest_s?"),
        ("groups.hub.busiest_s", NoRowError, "row 'hub': did you mean hb"),
        ("groups.2.busiest_s", NoRowError, "there are 2 rows, from 0 on"),
        ("groups.links.busiest_s", InputError, "2 rows are called links: write one of 0, 1"),
        ("groups.hb", InputError, "more than one value: name one of group, busiest_s, kind"),
        ("groups", InputError, "more than one value: name one of hb, links, rail-0/up"),
        ("sizes.1.days", UnknownNameError, "sizes.1 alone, which is one value"),
    ],
)
def test_a_wrong_path_says_what_there_is(name: str, error: type, message: str) -> None:
    with pytest.raises(error, match=message.replace("?", r"\?")):
        output(ANSWER, name)


def test_studies_ask_every_question_about_a_scenario_or_say_which_has_its_counts() -> None:
    for name in netplan.__all__:
        getattr(netplan, name)
    kinds: list[type[Question[Any]]] = [Question]
    for kind in kinds:
        kinds += kind.__subclasses__()
    about = {kind.command for kind in kinds if hasattr(kind, "command") and kind.reads}
    assert {*ASKED, *FILES} == {*about, OF_A_PAPER}
    for ask, other in FILES.items():
        assert other in ASKED
        with pytest.raises(RecordError, match=f"{ask} makes a file for others: {other} has"):
            made(ask, ["cost"], [{"input": "gpus", "values": [64]}])
    with pytest.raises(RecordError, match="unknown question 'verify'"):
        made("verify", ["cost"], [{"input": "gpus", "values": [64]}])
    for ask in ASKED:
        question = question_class(ask)
        assert question.command == ask
        assert question.ask.__annotations__["return"] is not None
        if ask != OF_A_PAPER:
            assert signature_of(question) == getattr(netplan, ask).__signature__


def test_fabrics_side_by_side_or_one_a_point() -> None:
    alone = answer("compare", {**SMALL, "fabric": "rail-only", "timing": False})
    both = answer("compare", {**SMALL, "fabrics": "rail-only, fat-tree", "timing": False})
    assert output(alone, "cost.base") == output(both, "fabrics.rail_only.cost.base")
    assert output(alone, "fabrics.rail-only.cost.base") == output(alone, "cost.base")
    assert output(both, "fabrics.1.fabric") == "fat-tree"
    with pytest.raises(UnknownNameError, match="key 'cost'"):
        output(both, "cost.base")


def test_outputs_of_fabrics_are_of_all_that_the_scenario_names() -> None:
    wanted = ["fabrics.rail-only.cost.base", "fabrics.fat_tree.cost.base", "verdict.fabric"]
    ratio = {"name": "ratio", "formula": "fabrics.fat_tree.cost.base / gpus"}
    axes = [{"input": "cluster.radix", "values": [64, 128]}]
    study = make_study(made("compare", [*wanted, ratio], axes, inputs={"timing": False}))
    found = study.evaluate(study.points([0])[0])
    compared = netplan.compare("hgx-b200", radix=64, timing=False)
    prices = {row.name: row.cost.base if row.cost else None for row in compared.rows}
    assert [found[name] for name in wanted[:2]] == [prices["rail-only"], prices["fat-tree"]]
    assert study.spec.inputs["gpus"] == 32_768  # the formula needs it, the scenario says it
    assert found["ratio"] == float(prices["fat-tree"] or 0) / 32_768


def test_a_study_of_failures() -> None:
    axes = [{"input": "fabric", "values": ["rail-only", "fat-tree"]}]
    inputs = {**SMALL, "timing": False, "years": 20, "books.rates": "high"}
    study = make_study(made("faults", ["outlook.interruptions_per_year"], axes, inputs=inputs))
    study.check_outputs()
    rows = netplan.faults(
        **SMALL, timing=False, years=20, rates="high", fabrics=("rail-only", "fat-tree")
    ).to_dict()["fabrics"]
    found = [study.evaluate(point) for point in study.points([0, 1])]
    for mine, row in zip(found, rows, strict=True):
        wanted = row["outlook"]["interruptions_per_year"]
        assert mine["outlook.interruptions_per_year"] == wanted


def test_a_study_of_loads() -> None:
    axes = [{"input": "cluster.fabric", "values": ["rail-only", "fat-tree"]}]
    study = make_study(made("loads", ["groups.hb.busiest_s", "busiest_s"], axes, inputs=SMALL))
    study.check_outputs()
    for point in study.points([0, 1]):
        found = study.evaluate(point)
        data = netplan.loads(**SMALL, fabric=point.inputs["fabric"]).to_dict()
        (row,) = (one for one in data["groups"] if one["group"] == "hb")
        assert found["groups.hb.busiest_s"] == row["busiest_s"]
        assert found["busiest_s"] == data["busiest_s"]


@pytest.mark.parametrize(
    ("ask", "inputs", "outputs"),
    [
        ("traffic", SMALL, ["hb_share", "kinds.data.total_bytes", "plan"]),
        ("optimize", SMALL, ["front.0.fabric", "front.0.cost.base", "space.designs"]),
        (
            "congestion",
            {"gpus": 64, "radix": 16, "cluster.fabric": "fat-tree", "draws": 2, "traffic": "ring"},
            ["designs.hashed.slowdown_p50", "designs.ecmp.uncontended_time_s"],
        ),
        (
            "jobs",
            {"gpus": 64, "radix": 16, "cluster.fabric": "fat-tree", "draws": 1, "count": 40},
            ["rows.0.mean_slowdown.mean", "rows.0.sor_to_last_arrival.mean"],
        ),
        ("collective", {"kind": "all_reduce"}, ["sizes.0.time_s", "basis"]),
        ("grow", {"phases": "1024 4096"}, ["currency"]),
        ("diff", {"a.gpus": 64, "b.gpus": 128}, ["totals.cost_base.difference", "b.label"]),
    ],
)
def test_studies_of_every_other_question(
    ask: str, inputs: dict[str, Any], outputs: list[str]
) -> None:
    axes = [{"input": "accelerator", "values": ["b200-1000w", "h100-80gb"]}]
    study = make_study(made(ask, outputs, axes, inputs=inputs))
    study.check_outputs()
    for point in study.points([0, 1]):
        found = study.evaluate(point)
        assert found["status"] == "ok"
        assert all(found[name] is not None for name in outputs)


def test_a_row_that_one_point_lacks_is_no_value_there() -> None:
    axes = [{"input": "model", "values": ["llama-3-8b", "llama-3-405b"]}]
    inputs = {"gpus": 1024, "batch": 1024}
    outputs = ["kinds.tensor.total_bytes", "total_bytes"]
    study = make_study(made("traffic", outputs, axes, inputs=inputs))
    study.check_outputs()
    found = [study.evaluate(point)["kinds.tensor.total_bytes"] for point in study.points([0, 1])]
    assert found[0] is None
    assert float(found[1] or 0) > 0


def test_a_formula_that_counts_with_nothing_known_is_refused() -> None:
    axes = [{"input": "gpus", "values": [512, 1024]}]
    wrong = {"name": "wrong", "formula": "iteration_time * gpus"}
    with pytest.raises(NetplanError, match="name in the formula of wrong 'iteration_time': did"):
        make_study(made("search", ["iteration_time_s", wrong], axes))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cluster.radiks", "field of the scenario 'radiks': did you mean radix"),
        ("prompt", "prompt means nothing for search"),
        ("tensor", "write fixed.tensor"),
    ],
)
def test_a_wrong_input_says_which_there_are(name: str, message: str) -> None:
    with pytest.raises(NetplanError, match=message):
        make_study(made("search", ["mfu"], [{"input": name, "values": [1, 2]}]))


def test_a_study_of_searches_loads_no_rooms_of_serving() -> None:
    code = (
        "import sys; from netplan.studies.sessions import study;"
        "study('batch-size', vary={'hb_size': 8}).text();"
        "rooms = ('performance.serving', 'questions.serving', 'questions.compare', 'faults');"
        "print([one for one in sys.modules if one[8:].startswith(rooms)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
