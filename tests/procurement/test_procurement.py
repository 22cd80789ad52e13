"""The procurement report's answer: verdict, totals, hash, refusals."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from netplan.errors import CatalogError, InputError, NetplanError, UnknownNameError
from netplan.procurement.report import Procurement, procurement
from netplan.questions.compare import compare
from netplan.questions.cost import cost
from netplan.reports.charts import Chart
from netplan.reports.sections import Table

MIXER = str(Path(__file__).parents[2] / "examples" / "mixer.yaml")
PAIR = ("rail-optimized", "rail-only")


@pytest.fixture(scope="module")
def published() -> Procurement:
    """The main job at the rail-only paper's prices."""
    return procurement(
        "rail-only-paper", gpus=32768, radix=128, prices="rail-only-2023", fabrics=PAIR
    )


def test_published_totals(published: Procurement) -> None:
    # Table 2 of arXiv:2307.12169: 196 M and 49 M USD.
    bases = {bill.name: bill.capital.base for bill in published.cost.bills}
    assert bases == {"rail-optimized": 196_083_712.0, "rail-only": 49_020_928.0}
    assert published.recommendation.fabric == "rail-only"
    # 196.1 - 49.0 = 147.1 of 196.1 is 75 %.
    assert "147.1 M USD (75 %) less than rail-optimized" in published.recommendation.sentence


def test_answer_is_that_of_cost_and_compare() -> None:
    size = {"gpus": 1024, "radix": 64, "hb_size": 8, "accelerator": "h100-80gb", "fabrics": PAIR}
    answer = procurement("rail-only-paper", **size, batch=512, prices="2026").to_dict()
    assert answer["cost"] == cost("rail-only-paper", **size, prices="2026").to_dict()
    compared = compare("rail-only-paper", **size, batch=512, prices="2026")
    assert answer["comparison"] == compared.to_dict()


def test_hash_is_of_the_printed_inputs(published: Procurement) -> None:
    data = published.to_dict()
    text = json.dumps(data["inputs"], sort_keys=True, separators=(",", ":"))
    assert data["input_sha256"] == hashlib.sha256(text.encode()).hexdigest()
    assert text in published.html().replace("&#34;", '"')


def test_date_changes_no_hash() -> None:
    one, two = (
        procurement(
            "rail-only-paper",
            gpus=1024,
            radix=64,
            fabrics=PAIR,
            timing=False,
            date=date,
            prices="2026",
        )
        for date in ("", "2026-01-31")
    )
    assert one.input_sha256 == two.input_sha256
    assert (one.to_dict()["date"], two.to_dict()["date"]) == (None, "2026-01-31")


def test_a_fabric_that_nobody_sells_is_not_recommended_however_cheap() -> None:
    answer = procurement(
        "rail-only-paper",
        gpus=32768,
        radix=128,
        fabrics=("dragonfly", "rail-optimized"),
        iteration_model="ptd-p",
        within=0.01,
        prices="2026",
    )
    bases = {bill.name: bill.capital.base for bill in answer.cost.bills}
    assert bases["dragonfly"] < bases["rail-optimized"]
    assert answer.recommendation.fabric == "rail-optimized"
    assert not any("dragonfly" in text for text in answer.recommendation.reasons)


def test_no_recommendation_where_prices_that_decide_are_missing() -> None:
    answer = procurement(
        "rail-only-paper",
        gpus=1024,
        radix=64,
        fabrics=PAIR,
        prices="rail-only-2023",
        overrides={"accelerator.network_bytes_per_s": "62.5e9"},
    )
    assert answer.recommendation.fabric is None
    assert answer.recommendation.sentence.startswith("Order none yet")
    assert "<html" in answer.html()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("economics.pue.base", "1.5"),
        ("model.layers", "64"),
        ("prices.discount", "0.1"),
        ("cabling.racks.units", "48"),
        ("report.drivers_shown", "1"),
    ],
)
def test_values_of_every_file_can_be_replaced(key: str, value: str) -> None:
    answer = procurement(
        "rail-only-paper",
        gpus=1024,
        radix=64,
        fabrics=PAIR,
        timing=False,
        overrides={key: value},
        prices="2026",
    )
    assert answer.to_dict()["inputs"]["set"] == {key: json.loads(value)}


@pytest.mark.parametrize(
    ("question", "error", "message"),
    [
        ({"date": "31.1.2026"}, InputError, "--date '31.1.2026' is not a date"),
        ({"date": "2026-02-30"}, InputError, "write YYYY-MM-DD"),
        ({"report": "procurment"}, UnknownNameError, "did you mean procurement"),
        ({"currency": "CHF"}, CatalogError, "no rate from USD to CHF"),
        ({"overrides": {"study.x": "1"}}, NetplanError, "study"),
    ],
)
def test_refusals(question: dict[str, object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        procurement("rail-only-paper", gpus=1024, radix=64, timing=False, **question, prices="2026")


def test_two_fabrics_of_one_name_are_refused_and_one_that_is_named_twice_is_one(
    tmp_path: Path,
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "name: rail-only\ntitle: x\nsource: x\ndate: '2026'\nfamily: rail-only\n", encoding="utf-8"
    )
    asked: dict[str, Any] = {"gpus": 1024, "radix": 64, "timing": False, "prices": "2026"}
    with pytest.raises(InputError, match="two fabrics are called 'rail-only'"):
        procurement("rail-only-paper", **asked, fabrics=("rail-only", str(path)))
    once = procurement("rail-only-paper", **asked, fabrics=("rail-only", "rail-only"))
    assert [bill.name for bill in once.cost.bills] == ["rail-only"]


def test_own_definition_and_unknown_template(tmp_path: Path) -> None:
    path = tmp_path / "short.yaml"
    text = (
        'name: short\ntitle: Short\nsource: us\ndate: "2026"\nfabrics: [rail-only]\n'
        "drivers_shown: 3\nsections: [price, bill]\ntemplate: procurement.html.j2\n"
    )
    path.write_text(text, encoding="utf-8")
    html = procurement(
        "rail-only-paper", gpus=1024, radix=64, timing=False, report=str(path), prices="2026"
    ).html()
    assert 'id="bill"' in html
    assert 'id="sources"' not in html
    path.write_text(text.replace("procurement.html", "other.html"), encoding="utf-8")
    with pytest.raises(CatalogError, match="no template"):
        procurement(
            "rail-only-paper", gpus=1024, radix=64, timing=False, report=str(path), prices="2026"
        ).html()


def test_of_equal_fabrics_none_is_recommended() -> None:
    for fabrics in (("fat-tree", "rail-optimized"), ("rail-optimized", "fat-tree")):
        found = procurement(
            "rail-only-paper", gpus=1024, radix=64, fabrics=fabrics, timing=False, prices="2026"
        )
        recommended = found.recommendation
        assert recommended.fabric is None
        assert recommended.verdict is not None
        assert recommended.verdict.tied == fabrics
        assert recommended.sentence.startswith(f"Order none yet: {' and '.join(fabrics)} tie for")
        assert found.chosen.name == fabrics[0]


def test_cost_of_a_training_run_by_hand() -> None:
    answer = procurement(
        "rail-only-paper", gpus=32_768, radix=128, fabrics=("rail-only",), batch=4096, prices="2026"
    )
    run = answer.runs[0]
    # 450e9 tokens of 4096 x 2048 an iteration: 53,644.2, rounded up.
    assert run.iterations == 53_645
    seconds = 53_645 * answer.timed["rail-only"].iteration_time_s
    assert run.days == pytest.approx(seconds / 86_400)
    per_year = answer.cost.bills[0].life.per_year.base
    assert run.cost is not None
    assert run.cost.base == pytest.approx(per_year * seconds / (365 * 86_400))
    assert "One training run" in answer.html()
    assert answer.to_dict()["training_runs"][0]["iterations"] == 53_645
    # Useful rate: MFU x GPUs x peak.
    row = next(row for row in answer.comparison.rows if row.name == "rail-only")
    assert row.best is not None
    assert run.price_per_pflops.base == pytest.approx(
        answer.chosen.capital.base / (row.best.mfu * 32_768 * 0.9894)
    )


@pytest.mark.parametrize("model", ["dlrm-793b", "hpl-16k", "fft-1t", MIXER])
def test_other_families_have_no_run_of_known_length_and_a_price_of_useful_work(model: str) -> None:
    ask: dict[str, Any] = {"gpus": 256, "radix": 64, "hb_size": 8, "accelerator": "h100-80gb"}
    ask |= {"model": model, "fabrics": PAIR}
    answer = procurement("rail-only-paper", **ask, prices="2026")
    compared = compare("rail-only-paper", **ask, prices="2026")
    assert answer.to_dict()["comparison"] == compared.to_dict()
    assert answer.inputs["tokens"] is None
    run, row = answer.runs[0], compared.rows[0]
    assert (run.fabric, run.iterations, run.days, run.cost) == (row.name, None, None, None)
    assert row.effective_flops_per_s is not None
    base = answer.cost.bills[0].capital.base
    assert run.price_per_pflops.base == pytest.approx(base * 1e15 / row.effective_flops_per_s)
    page = answer.html()
    assert "has no tokens, and so no run of known length." in page
    assert "One training run" not in page
    for more in ({"tokens": 1e9}, {"rule": "run-cost"}):
        with pytest.raises(InputError, match="has no tokens"):
            procurement("rail-only-paper", **ask, **more, prices="2026")


def test_tokens_are_asked_published_or_twenty_a_parameter() -> None:
    def tokens(**question: object) -> float:
        asked = {"gpus": 1024, "radix": 64, "timing": False, "model": "gpt-22b"}
        answer = procurement("rail-only-paper", **(asked | question), prices="2026")
        return float(answer.inputs["tokens"])

    # 48 layers of 12 x 6144^2 weights.
    assert tokens() == 20 * 48 * 12 * 6144**2
    assert tokens(tokens=1e12) == 1e12
    assert tokens(model="llama-3-405b") == 15.6e12
    with pytest.raises(InputError, match="--tokens -1"):
        tokens(tokens=-1)


def test_what_no_price_is_known_of_has_no_mark_and_no_ends() -> None:
    answer = procurement(
        "rail-only-paper", gpus=32768, radix=128, fabrics=("rail-only", "torus-3d"), prices="2026"
    )
    charts = [part for part in answer.sections() if isinstance(part, Chart)]
    series = [data for chart in charts for data in chart.data]
    whiskers = [data["y"] for data in series if data.get("name") == "low to high"]
    assert whiskers == [[0], [0]]
    paper = procurement("rail-only-paper", gpus=32768, radix=128, fabrics=("rail-only",))
    tables = [part for part in paper.sections() if isinstance(part, Table)]
    prices = next(table for table in tables if table.name == "prices")
    module = next(row for row in prices.rows if row[0].startswith("transceiver"))
    told = {one.quantity.title: one.get(module) for one in prices.columns}
    assert (told["low, USD"], told["base"], told["high"]) == (None, "374", None)


def test_ranges_that_meet_are_told_apart_where_one_has_fewer_of_all_parts() -> None:
    asked = {"gpus": 4096, "radix": 64, "hb_size": 8, "accelerator": "h100-80gb"}
    fewer = procurement("rail-only-paper", **asked, fabrics=PAIR, prices="2026")
    many, few = (bill.capital for bill in fewer.cost.bills)
    assert few.high > many.low  # rail-only at its dearest, rail-optimized at its cheapest
    said = " ".join(fewer.recommendation.reasons)
    assert "costs less than rail-optimized at all prices within the book's ranges" in said
    assert "ask for offers" not in said
