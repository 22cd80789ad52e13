"""What a step of post-training costs: worked by hand, of all GPUs held, by their own price."""

from itertools import pairwise
from typing import Any

import pytest
from msgspec import structs

from netplan.answers.compare_cases import ComparisonCases
from netplan.costing.fabric_bill import Bill
from netplan.errors import InputError
from netplan.procurement.report import procurement
from netplan.questions.compare import Compare, compare
from netplan.questions.cost import cost
from netplan.questions.diff import diff
from netplan.questions.search import search
from netplan.reports.schema import plain_data
from netplan.reports.sections import Heading
from netplan.scenarios.reading import CatalogReader
from netplan.setup.money.step_cost import (
    Stepped,
    StepPrice,
    StepTerms,
    cheapest_step,
    held,
    step_price,
)
from netplan.setup.post_training_step import PostTrained, post_train

SHIPPED = "grpo-70b-h100"
FABRIC = "rail-optimized"
HOUR_S, YEAR_S = 3600.0, 365 * 24 * 3600.0


def priced(**given: object) -> tuple[PostTrained, StepPrice]:
    """The step of the shipped scenario with some inputs, and its price on one fabric."""
    asked = Compare.make(SHIPPED, **given)
    reader = CatalogReader(asked.catalog, asked.overrides)
    trained = post_train(asked, reader, FABRIC)
    return trained, step_price(asked, reader, trained)


def bill_of(**given: object) -> tuple[float, float]:
    """Price and power of the network, from the plain bill of a cluster without a workload."""
    (row,) = compare(SHIPPED, fabrics=(FABRIC,), timing=False, **given).rows
    assert row.cost is not None
    assert row.power_w is not None
    return row.cost.base, row.power_w


def test_price_of_a_step_by_hand() -> None:
    trained, price = priced()
    capital, power_w = bill_of()
    # Book 2026: 6 years at 8.5 %, 0.0869 USD/kWh, a PUE of 1.42; an H100 costs 2.995 USD an hour.
    annuity = capital * 0.085 / (1 - 1.085**-6)
    energy = power_w / 1000 * 8760 * 1.42 * 0.0869
    step_s = trained.step.seconds
    network = (annuity + energy) * step_s / YEAR_S
    hours = 64 * step_s / HOUR_S * 2.995
    assert price.step is not None
    assert price.step.network.base == pytest.approx(network, rel=1e-9)
    assert price.step.gpus.base == pytest.approx(hours, rel=1e-9)
    assert price.usd_per_step == pytest.approx(network + hours, rel=1e-9)
    assert price.usd_per_run == pytest.approx(1000 * (network + hours), rel=1e-9)
    assert price.network_share == pytest.approx(network / (network + hours), rel=1e-9)
    assert price.gpu_hours_per_run == pytest.approx(1000 * 64 * step_s / HOUR_S, rel=1e-9)


def test_run_has_as_many_steps_as_are_asked_for() -> None:
    _, price = priced(steps=250)
    assert price.usd_per_run == pytest.approx(250 * (price.usd_per_step or 0.0), rel=1e-12)
    assert price.run is not None
    assert price.step is not None
    assert price.run.total.high == pytest.approx(250 * price.step.total.high, rel=1e-12)


def test_idle_gpus_are_paid_for() -> None:
    # 16 GPUs that score nothing are held by the job, and cost their hours as the others do.
    trained, price = priced(gpus=80, score_gpus=16, score=("old", "reference"))
    assert sum(pool.gpus for pool in trained.pools if pool.role != "score") == 64
    assert price.step is not None
    assert price.step.gpus.base == pytest.approx(80 * 2.995 * trained.step.seconds / HOUR_S)


def test_pools_cost_the_hours_of_their_own_accelerators() -> None:
    trained, price = priced(rollout_accelerator="h200", rollout_gpus=24)
    assert held(trained) == {"h100-80gb": 40, "h200": 24}
    assert price.step is not None
    seconds = trained.step.seconds
    h200 = (price.step.gpus.base / seconds * HOUR_S - 40 * 2.995) / 24
    alone = priced(accelerator="h200")[1].step
    assert alone is not None
    assert h200 == pytest.approx(alone.gpu_hour, rel=1e-9)
    assert h200 > 2.995


def test_price_of_a_gpu_hour_that_is_given_is_that_of_all() -> None:
    trained, price = priced(rollout_accelerator="h200", gpu_hour=1.5)
    assert price.step is not None
    assert price.step.gpus.base == pytest.approx(64 * 1.5 * trained.step.seconds / HOUR_S)


def test_no_price_is_guessed() -> None:
    asked = Compare.make(SHIPPED)
    trained = post_train(asked, CatalogReader(asked.catalog, asked.overrides), FABRIC)
    terms = StepTerms(currency="USD", hours={"h100-80gb": None}, usd=1.0)
    price = StepPrice.of(trained, None, terms)
    assert price.usd_per_step is None
    assert "no price of a GPU hour of h100-80gb" in price.words
    assert "--gpu-hour" in price.words


def test_one_step_and_one_price_on_every_fabric_and_in_every_command() -> None:
    answer = compare(SHIPPED)
    asked = Compare.make(SHIPPED)
    reader = CatalogReader(asked.catalog, asked.overrides)
    for row in answer.rows:
        trained = post_train(asked, reader, row.name)
        price = step_price(asked, reader, trained)
        assert row.stepped is not None
        facts = plain_data(row)
        assert facts["step_s"] == plain_data(trained)["step_s"]
        assert facts["sync_s"] == plain_data(trained)["sync_s"]
        assert facts["usd_per_step"] == price.usd_per_step
        assert facts["usd_per_run"] == price.usd_per_run


def test_bill_has_the_same_step_and_price_as_the_comparison() -> None:
    compared = {row.name: plain_data(row) for row in compare(SHIPPED).rows}
    bills = {row["fabric"]: row for row in cost(SHIPPED).to_dict()["fabrics"]}
    assert {"fat-tree", "rail-only", "dgx-superpod"} <= bills.keys()
    names = ("step_s", "sync_s", "sync_bound_s", "usd_per_step", "usd_per_run", "network_share")
    for name, row in bills.items():
        for key in names:
            assert row[key] == pytest.approx(compared[name][key], rel=1e-12), (name, key)


def test_bought_accelerators_cost_their_annuity_and_no_hours() -> None:
    answer = cost(SHIPPED, fabrics=("fat-tree",), networks=("accelerators",))
    (row,) = answer.stepped
    (bill,) = answer.bills
    step = row.stepped.price.step
    assert step is not None
    assert step.gpus.base == 0
    annuity = bill.capital.base * 0.085 / (1 - 1.085**-6)
    energy = (bill.power_w or 0.0) / 1000 * 8760 * 1.42 * 0.0869
    assert step.total.base == pytest.approx((annuity + energy) * row.stepped.step_s / YEAR_S)


def test_bill_has_no_price_of_a_pool_of_other_accelerators() -> None:
    given = {"rollout_accelerator": "h200", "networks": ("accelerators",)}
    (row,) = cost(SHIPPED, fabrics=("fat-tree",), **given).stepped
    assert row.stepped.price.usd_per_step is None
    assert "accelerators of one kind" in row.stepped.price.words


def test_bill_of_what_trains_reads_nothing_of_training() -> None:
    with pytest.raises(InputError, match="means nothing for training: leave it out, or take --w"):
        cost("hgx-h100", iteration_model="4d")


def test_network_that_is_dearer_and_no_faster_never_wins() -> None:
    answer = compare(SHIPPED, fabrics=("fat-tree", "dgx-superpod"))
    assert answer.verdict is not None
    assert answer.verdict.fabric == "fat-tree"
    cheap, dear = (row.stepped.price.step for row in answer.rows if row.stepped)
    assert cheap is not None
    assert dear is not None
    assert dear.total.base - cheap.total.base == pytest.approx(
        dear.network.base - cheap.network.base
    )


def two_priced(longer: float, network: float) -> list[tuple[str, Stepped | None, Bill | None]]:
    """The same step on two fabrics: as it is, and longer on a network of a share of the price."""
    (row,) = compare(SHIPPED, fabrics=("fat-tree",)).rows
    assert row.stepped is not None
    step = row.stepped.price.step
    assert step is not None
    assert row.bill is not None
    bill = structs.replace(row.bill, quote=structs.replace(row.bill.quote, items=()))
    trained, seconds = row.stepped.trained, row.stepped.step_s
    later = structs.replace(trained, step=structs.replace(trained.step, other_s=longer * seconds))
    cost = structs.replace(
        step, network=(1 + longer) * network * step.network, gpu_hours=(1 + longer) * step.gpu_hours
    )
    other = Stepped(later, structs.replace(row.stepped.price, step=cost))
    return [("fast", row.stepped, bill), ("cheap", other, bill)]


def test_order_that_software_may_turn_is_undecided() -> None:
    # A step of 10.13 USD, 0.256 of it for the network. On half of that network a step that is
    # 1 % longer costs 0.128 less and 0.100 more: cheaper, whatever is added.
    verdict = cheapest_step(two_priced(0.01, 0.5), "USD")
    assert verdict is not None
    assert verdict.fabric == "cheap"
    # 1.5 % longer: 0.126 less and 0.148 more. With half of the bound added to both, less than
    # printed steps of dense models have, 0.190 less and 0.148 more.
    verdict = cheapest_step(two_priced(0.015, 0.5), "USD")
    assert verdict is not None
    assert verdict.fabric is None
    assert set(verdict.tied) == {"fast", "cheap"}
    assert "bounds do not tell them apart" in verdict.sentence
    assert (verdict.decision.kind, verdict.decision.winner) == ("undecided", None)
    assert verdict.decision.tied == verdict.tied
    # 5 % longer: 0.122 less and 0.494 more; with twice the bound added 0.378 less and 0.494 more.
    verdict = cheapest_step(two_priced(0.05, 0.5), "USD")
    assert verdict is not None
    assert verdict.fabric == "fast"


def test_oversubscription_that_no_step_feels_pays() -> None:
    given = {"gpus": 1024, "rollout_gpus": 512, "fabrics": ("fat-tree",)}
    answer = Compare.make(SHIPPED, oversubscription=(1.0, 2.0, 4.0), **given).ask()
    assert isinstance(answer, ComparisonCases)
    weighed = answer.to_dict()["step_pays"]
    costs = {case["label"]: case["usd_per_step"] for case in weighed["cases"]}
    steps = {case["label"]: case["step_s"] for case in weighed["cases"]}
    for label, ratio in (("1", 1.0), ("2", 2.0), ("4", 4.0)):
        alone = plain_data(compare(SHIPPED, oversubscription=ratio, **given).rows[0])
        assert costs[label] == alone["usd_per_step"]
        assert steps[label] == alone["step_s"]
    if len(set(steps.values())) == 1:
        assert weighed["winner"] == "4"
    assert weighed["winner"] in (None, min(costs, key=lambda label: costs[label]))


def test_gear_of_a_domain_pays_up_to_what_it_saves() -> None:
    answer = Compare.make(SHIPPED, hb_size=(8, 16), fabrics=("fat-tree",)).ask()
    assert isinstance(answer, ComparisonCases)
    weighed = answer.to_dict()["step_pays"]
    small, large = weighed["cases"]
    assert large["sync_bound_s"] <= small["sync_bound_s"]
    saved = small["usd_per_step"] - large["usd_per_step"]
    # Capital that an annuity of six years at 8.5 % pays of it, over the seconds of the step.
    annuity = 0.085 / (1 - 1.085**-6)
    most = saved / (annuity * large["step_s"] / YEAR_S) / 64
    assert f"gear up to {most:,.0f} USD a GPU" in " ".join(weighed["sentences"])
    assert large["cost_per_step_with_gear"] > small["cost_per_step_with_gear"]
    assert weighed["winner"] == "8"


def test_details_weigh_oversubscriptions_and_domains() -> None:
    answer = compare(SHIPPED, gpus=256, rollout_gpus=128, fabrics=("fat-tree",))
    assert answer.pays is not None
    weighed: list[dict[str, Any]] = [plain_data(group) for group in answer.pays()]
    assert [group["by"] for group in weighed] == ["oversubscription", "hb-size"]
    assert [case["label"] for case in weighed[0]["cases"]] == ["1", "2", "4"]
    assert [case["hb_size"] for case in weighed[1]["cases"]] == [8, 72]
    assert weighed[0]["cases"][0]["usd_per_step"] == plain_data(answer.rows[0])["usd_per_step"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"sites": "2", "km": 10.0}, "both pools of post-training are in one site"),
        ({"rule": "fastest"}, "--rule fastest means nothing for --workload post-training"),
        ({"expanded_memory": ("cxl-box",)}, "means nothing for --workload post-training"),
    ],
)
def test_what_means_nothing_for_a_step_is_refused(given: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        compare(SHIPPED, **given)


def test_report_has_a_chapter_on_the_step_with_the_same_numbers() -> None:
    report = procurement(SHIPPED)
    compared = {row.name: plain_data(row) for row in compare(SHIPPED).rows}
    known = report.to_dict()
    for row in known["comparison"]["fabrics"]:
        assert row["usd_per_step"] == compared[row["fabric"]]["usd_per_step"]
    assert all("usd_per_step" not in row for row in known["cost"]["fabrics"])
    assert known["step"]["step_s"] == compared[report.chosen.name]["step_s"]
    assert known["training_runs"] == []
    page = report.html()
    assert "The step" in page
    assert "training run" not in page
    assert f"{compared[report.chosen.name]['usd_per_step']:.3f} USD" in page
    sections = [*report.sections()]
    chapters = [section for section in sections if isinstance(section, Heading)]
    assert len(chapters) > 10
    for first, second in pairwise(sections):  # no chapter without anything in it
        assert not (isinstance(first, Heading) and isinstance(second, Heading) and first.key)
    assert len(report.xlsx()) > 10_000


def test_report_without_times_has_no_step() -> None:
    report = procurement(SHIPPED, timing=False)
    assert report.step is None
    assert "The step" not in report.html()


def test_two_sides_have_the_steps_and_prices_of_their_own() -> None:
    answer = diff(SHIPPED, b={"staleness": 2})
    totals = answer.to_dict()["totals"]
    (now,) = compare(SHIPPED, fabrics=(FABRIC,)).rows
    (later,) = compare(SHIPPED, fabrics=(FABRIC,), staleness=2).rows
    for name in ("step_s", "sync_s", "usd_per_step", "usd_per_run", "tokens_per_s_per_gpu"):
        assert totals[name]["a"] == pytest.approx(plain_data(now)[name], rel=1e-12)
        assert totals[name]["b"] == pytest.approx(plain_data(later)[name], rel=1e-12)
    more = totals["step_s"]["b"] / totals["step_s"]["a"] - 1
    assert f"{100 * more:+.1f} % step" in answer.sentence


def test_steps_that_bounds_do_not_tell_apart_say_so() -> None:
    answer = diff(
        SHIPPED, b={"accelerator": "h200"}
    )  # 15 % sooner, in the range of what is printed
    assert "which bounds do not tell apart" in answer.sentence
    with pytest.raises(InputError, match="leave it out under post-training"):
        diff(SHIPPED, b={"staleness": 2}, goodput=True)


@pytest.mark.parametrize(("gpus", "staleness"), [(16, 0), (24, 2), (56, 0)])
def test_one_answer_at_every_size(gpus: int, staleness: int) -> None:
    given: dict[str, Any] = {
        "gpus": gpus,
        "staleness": staleness,
        "model": "llama-3.1-8b",
        "prompts": 16,
        "sync": "full",
    }
    (row,) = compare(SHIPPED, fabrics=(FABRIC,), **given).rows
    (bill,) = cost(SHIPPED, fabrics=(FABRIC,), **given).to_dict()["fabrics"]
    found, compared = search(SHIPPED, fabric=FABRIC, **given).to_dict(), plain_data(row)
    for name in ("step_s", "sync_s", "usd_per_step", "usd_per_run"):
        assert found[name] == pytest.approx(compared[name], rel=1e-12), name
        assert found[name] == pytest.approx(bill[name], rel=1e-12), name


def test_details_mark_every_bound_and_nothing_that_is_unknown() -> None:
    """A rate that follows from a bound is one, too; a fabric without a price has no sign."""
    answer = compare("grpo-70b-h100", fabrics=("rail-optimized", "torus-2d"))
    lines = answer.text(details=True).splitlines()
    (bought, unpriced) = (
        next(line.split() for line in lines if line.startswith(name) and " s " in line)
        for name in ("rail-optimized", "torus-2d")
    )
    assert bought.count("\u2265") == 3  # the step, its price, that of the run
    assert unpriced.count("\u2265") == 1
    assert bought.count("\u2264") == unpriced.count("\u2264") == 1
