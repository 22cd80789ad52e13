"""Verdicts: the rule that chose, ties below the model's error, and what would change them."""

from math import inf
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import netplan
from netplan.costing.lifetime import Lifetime
from netplan.costing.ranges import Range
from netplan.decide.candidates import Basis, Candidate, Rule, RunBudget
from netplan.decide.verdict import Verdict, decide
from netplan.errors import InputError
from netplan.reports.quantities import Scale
from netplan.workloads.accelerators import ACCELERATORS

MONEY = Scale(1e6, "M USD", 1)
RUN = RunBudget(iterations=86_400, hour=1_000.0)
"""As many days as an iteration has seconds; a day of all GPUs is worth 24,000 USD."""


def life(per_year: float) -> Lifetime:
    """A network of this annuity a year, without energy."""
    none, annuity = Range.point(0.0), Range.point(per_year)
    return Lifetime(none, none, annuity, 1)


def fabric(name: str, price: float, time_s: float, **facts: Any) -> Candidate:  # noqa: ANN401
    """A fabric with a whole price, whose annuity is a fifth of it."""
    usual: dict[str, Any] = {"complete": True, "life": life(price / 5), "gpu_bytes_per_s": 50e9}
    return Candidate(name=name, price=price, time_s=time_s, **(usual | facts))


def verdict(rule: Rule, *candidates: Candidate, within: float = 0.05) -> Verdict:
    """What is decided."""
    found = decide(candidates, Basis(rule, within, RUN, MONEY))
    assert found is not None
    return found


CLOS, RAILS = fabric("clos", 100e6, 10.0), fabric("rails", 60e6, 10.2)
TORUS = fabric("torus", 20e6, 20.0)


def test_each_rule_has_its_winner() -> None:
    assert verdict("near-fastest", CLOS, RAILS, TORUS).fabric == "rails"
    assert verdict("price", CLOS, RAILS, TORUS).fabric == "torus"
    assert verdict("fastest", CLOS, RAILS, TORUS, within=0.01).fabric == "clos"
    # 10.2 days of (24,000 + 60e6 / 5 / 365 = 32,877) against 20 days of (24,000 + 10,959).
    found = verdict("run-cost", CLOS, RAILS, TORUS)
    assert found.fabric == "rails"
    assert "0.6 M USD in 10.2 days" in found.sentence


def test_what_is_nearer_than_the_models_error_is_a_tie() -> None:
    found = verdict("fastest", CLOS, RAILS, TORUS)
    assert (found.fabric, set(found.tied)) == (None, {"clos", "rails"})
    assert "as fast as each other" in found.sentence
    # A faster, dearer network whose run is cheaper by a time within the error only.
    fast, slow = fabric("fast", 61e6, 10.0), fabric("slow", 60e6, 10.2)
    assert RUN.cost(fast) < RUN.cost(slow)
    assert verdict("run-cost", fast, slow).tied == ("slow", "fast")
    assert verdict("run-cost", fast, slow, within=0.01).fabric == "fast"
    # Cheaper, too slow by the fastest, but not by what would be bought.
    three = CLOS, fabric("middle", 60e6, 10.4), fabric("late", 30e6, 10.6)
    found = verdict("near-fastest", *three)
    assert (found.fabric, found.tied) == (None, ("late", "middle"))
    assert "neither is recommended" in found.sentence


def test_equal_costs_are_a_tie_and_missing_prices_stand_aside() -> None:
    twin = fabric("twin", 60e6, 10.0)
    assert verdict("near-fastest", CLOS, RAILS, twin).fabric is None
    open_one = fabric("open", 10e6, 10.0, complete=False, lacking=True)
    bare = fabric("bare", 0.0, 10.0, complete=False, lacking=True)
    found = verdict("near-fastest", CLOS, RAILS, open_one, bare)
    assert found.fabric == "rails"
    assert found.caveats == ("Aside, since parts have no price: open and bare.",)
    # A network with nothing to buy, of one HB domain, lacks no price.
    nothing = fabric("nothing", 0.0, 10.0, complete=False)
    assert verdict("near-fastest", CLOS, RAILS, nothing).caveats == ()
    assert decide([open_one], Basis("price", 0.05, None, MONEY)) is None


def test_unequal_bandwidth_is_said() -> None:
    wide = fabric("wide", 50e6, 10.0, gpu_bytes_per_s=300e9)
    said = verdict("near-fastest", CLOS, RAILS, wide).sentence
    assert "Not like for like: wide has 300 GB/s a GPU, clos and rails 50." in said
    assert "Not like" not in verdict("near-fastest", CLOS, RAILS).sentence


def test_price_at_which_the_next_one_wins() -> None:
    (change, *_) = verdict("near-fastest", CLOS, RAILS).changes
    assert (change.fabric, change.lever, change.now, change.value) == ("clos", "price", 60e6, 100e6)
    # The cost of the run is linear in the price: at the break-even both runs cost the same.
    (change, *_) = verdict("run-cost", CLOS, RAILS).changes
    assert change.value is not None
    dearer = fabric("rails", change.value, 10.2)
    assert RUN.cost(dearer) == pytest.approx(RUN.cost(CLOS))
    (change, *_) = verdict("run-cost", fabric("torus", 20e6, 40.0), RAILS).changes
    assert change.fabric == "torus"
    assert "No price in the book flips it" in change.sentence


def test_where_none_is_near_or_cheaper_the_next_one_would_need_bandwidth() -> None:
    late = fabric("late", 30e6, 30.0)

    def probe(name: str, limit_s: float) -> float:
        assert name == "late"
        assert limit_s == pytest.approx(10.5)
        return 200e9

    fast = fabric("fast", 20e6, 10.0)
    found = decide([fast, late, TORUS], Basis("near-fastest", 0.25, None, MONEY), None)
    assert found is not None
    assert found.changes == ()  # nobody can tell what bandwidth would do
    found = decide([fast, late], Basis("near-fastest", 0.05, None, MONEY), probe)
    assert found is not None
    (change,) = found.changes
    assert (change.fabric, change.lever, change.value) == ("late", "bandwidth", 200e9)
    assert change.sentence == (
        "late costs 10.0 M USD more and trains 200.0 % slower than fast: it counts as fast from 200"
        " GB/s a GPU on (now 50)."
    )


def test_value_of_a_day_at_which_a_faster_one_wins() -> None:
    change = verdict("price", CLOS, TORUS).changes[-1]
    # 10 days at 20e6 / 365 a day against 20 at 4e6 / 365: 120e6 / 365 more, for 10 days less.
    assert (change.fabric, change.lever) == ("clos", "day_value")
    assert change.value == pytest.approx(120e6 / 365 / 10)
    assert change.value is not None
    at_that = RunBudget(RUN.iterations, change.value / 24)
    assert at_that.cost(CLOS) == pytest.approx(at_that.cost(TORUS))


@given(
    st.lists(st.tuples(st.floats(1e6, 1e9), st.floats(1.0, 50.0)), min_size=2, max_size=6),
    st.sampled_from(["near-fastest", "run-cost", "price", "fastest"]),
)
def test_what_is_recommended_is_beaten_by_none(
    facts: list[tuple[float, float]], rule: Rule
) -> None:
    rows = [fabric(str(at), price, time_s) for at, (price, time_s) in enumerate(facts)]
    found = verdict(rule, *rows)
    chosen = next((row for row in rows if row.name == found.fabric), None)
    if chosen is None:
        assert len(found.tied) > 1
        return
    for row in rows:
        if row is not chosen:
            assert not (row.price <= chosen.price and row.time_s <= chosen.time_s)
    assert all(
        change.value is None or (0 <= change.value < inf and change.fabric != chosen.name)
        for change in found.changes
    )
    assert all("whatever" in change.sentence for change in found.changes if change.value == 0)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A catalog with an H100 of a user's own, of which no file says who sells what for it."""
    folder = tmp_path_factory.mktemp("own") / "traffic" / "accelerators"
    folder.mkdir(parents=True)
    lines = ACCELERATORS.paths()["h100-96gb-500w"].read_text(encoding="utf-8").splitlines()
    kept = ["name: mine", *(line for line in lines[1:] if not line.startswith("sold_"))]
    (folder / "mine.yaml").write_text("\n".join(kept) + "\n", encoding="utf-8")
    return folder.parents[1]


def test_a_torus_is_not_recommended_for_ports_that_nobody_has(own: Path) -> None:
    # With six 400G ports a GPU it trains as fast as the others; with one, it does not. Of this GPU
    # the catalog does not say what networks it is sold with: any may be advised.
    asked: dict[str, Any] = {
        "gpus": 2048,
        "radix": 64,
        "accelerator": "mine",
        "catalog": own,
        "prices": "2026",
        "model": "gpt-175b",
        "fabrics": ("rail-only", "torus-3d"),
    }
    equal, full = (
        netplan.compare("rail-only-paper", **asked),
        netplan.compare("rail-only-paper", **asked, ports="full"),
    )
    rates = [row.fabric.gpu_bytes_per_s for row in equal.rows if row.fabric]
    assert rates == pytest.approx([50e9, 50e9])
    assert [row.fabric.ports_per_gpu for row in equal.rows if row.fabric] == [1, 6]
    assert not equal.rows[1].cost_complete  # no part runs at 66.7 Gb/s
    assert equal.rows[1].time_s > full.rows[1].time_s
    assert equal.verdict is not None
    assert full.verdict is not None
    assert (equal.verdict.fabric, full.verdict.fabric) == ("rail-only", "torus-3d")
    assert "Not like for like: torus-3d has 300 GB/s a GPU, rail-only 50." in full.verdict.sentence


def test_where_one_domain_holds_all_no_network_is_recommended_and_the_verdict_says_why() -> None:
    answer = netplan.compare(
        "rail-only-paper",
        gpus=8,
        radix=64,
        hb_size=8,
        model="gpt-22b",
        prices="2026",
        fabrics=("torus-3d", "rail-only"),
    )
    assert answer.verdict is not None
    assert answer.verdict.fabric is None
    said = answer.verdict.sentence
    assert "No network between HB domains is needed: one holds all 8 GPUs" in said
    assert "what joins them comes with the servers" in said
    bare = netplan.compare("rail-only-paper", gpus=64, fabrics=("rail-only",), timing=False)
    assert "the gear inside it has no price in this book" in " ".join(str(bare).split())
    # Beyond the board 64 GPUs of 900 GB/s pay 16 ASICs of 3,600 GB/s and 57,600 GB/s of copper.
    rack = netplan.compare("hgx-b200", gpus=64, hb_size=64, timing=False).verdict
    assert rack is not None
    assert f"costs {64 * 900 * (5.79 + 2.28) / 1e3:.0f} k USD" in rack.sentence


def test_bandwidth_that_brings_a_slow_one_near(own: Path) -> None:
    asked: dict[str, Any] = {
        "gpus": 16_384,
        "radix": 64,
        "accelerator": "mine",
        "catalog": own,
        "prices": "2026",
        "model": "llama-3-405b",
        "recompute": "full",
        "fabrics": ("rail-only", "torus-2d"),
    }
    found = netplan.compare("rail-only-paper", **asked).verdict
    assert found is not None
    change = next(one for one in found.changes if one.lever == "bandwidth")
    assert change.value is not None
    wider = {"accelerator.network_bytes_per_s": str(change.value)}
    torus = netplan.compare(
        "rail-only-paper", **asked | {"fabrics": ("torus-2d",)}, overrides=wider
    ).rows[0]
    rails = netplan.compare("rail-only-paper", **asked).rows[0]
    assert torus.time_s <= 1.05 * rails.time_s
    # A few percent less is not enough.
    wider = {"accelerator.network_bytes_per_s": str(0.97 * change.value)}
    torus = netplan.compare(
        "rail-only-paper", **asked | {"fabrics": ("torus-2d",)}, overrides=wider
    ).rows[0]
    assert torus.time_s > 1.05 * rails.time_s


def test_products_of_other_accelerators_never_win() -> None:
    # dgx-2 is the fastest and the cheapest, and would be the pace of all others.
    other = fabric("dgx-2", 10e6, 5.0, built_with=("v100-32gb",))
    for rule in ("near-fastest", "run-cost", "price", "fastest"):
        assert verdict(rule, other, CLOS, RAILS) == verdict(rule, CLOS, RAILS)
    assert decide([other], Basis("price", 0.05, RUN, MONEY)) is None


LLAMA: dict[str, Any] = {
    "gpus": 16_384,
    "radix": 64,
    "accelerator": "h100-80gb",
    "model": "llama-3-405b",
    "fabrics": ("rail-optimized", "rail-only", "dgx-superpod", "dgx-2"),
}


def test_dgx_2_is_not_bought_for_h100() -> None:
    answer = netplan.compare("rail-only-paper", **LLAMA, prices="2026")
    rows = {row.name: row for row in answer.rows}
    assert rows["dgx-2"].time_s < rows["rail-only"].time_s  # domains of 16 V100, of 8 H100
    assert answer.verdict is not None
    assert answer.verdict.fabric == "rail-only"
    assert "dgx-2" not in str(answer.verdict)
    assert rows["dgx-2"].notes[-1] == "Built with v100-32gb, so not recommended here."
    assert rows["dgx-superpod"].built_with == ()
    report = netplan.procurement("rail-only-paper", **LLAMA, prices="2026").recommendation
    assert report.fabric == "rail-only"
    assert "dgx-2: Built with v100-32gb, so not recommended here." in report.reasons
    # On V100 they are designs like all others.
    mine = netplan.compare("rail-only-paper", **LLAMA | {"accelerator": "v100-32gb"}, timing=False)
    assert [row.built_with for row in mine.rows][2:] == [("h100-80gb", "h200", "gh200-96gb"), ()]


def test_no_switches_is_said_with_what_switches_cost() -> None:
    direct = fabric("torus", 20e6, 10.0, direct=True)
    found = verdict("near-fastest", CLOS, RAILS, direct)
    said = "torus has no switches: a GPU reaches its neighbours, all others through them"
    assert found.caveats == (f"{said}; the cheapest with switches is rails, 60.0 M USD.",)
    assert found.sentence.endswith(found.caveats[0])
    assert verdict("price", direct).caveats == (f"{said}.",)
    assert verdict("near-fastest", CLOS, RAILS).caveats == ()


def test_where_nothing_trains_nothing_is_recommended() -> None:
    for gpus in (9, 12, 13):
        asked: dict[str, Any] = {"gpus": gpus, "radix": 64, "accelerator": "h100-80gb"}
        found = netplan.compare("rail-only-paper", **asked).verdict
        assert found is not None
        assert (found.fabric, found.tied, found.changes) == (None, (), ())
        assert "none is recommended" in found.sentence
        report = netplan.procurement("rail-only-paper", **asked, prices="2026").recommendation
        assert report.sentence.startswith("Order none yet: No fabric trains")
        # By price alone, or without times, there is a cheapest.
        for told in ({"rule": "price"}, {"timing": False}):
            by_price = netplan.compare("rail-only-paper", **asked, **told).verdict
            assert by_price is not None
            assert by_price.rule == "lowest cost"
            assert by_price.tied or by_price.fabric


def test_the_card_ports_of_a_torus_decide() -> None:
    # 4 links a GPU, 131,072 ports of 100G: a module at 69.45 and a card port at 659 each. Rail-only
    # has 256 switches at 85,000, 65,536 modules at 611.95, 32,768 card ports at 1,499, 19 racks of
    # 14 at 10,200. A fibre is 74.17 + 7.817 x 15 or 30 USD, and 87 to lay.
    asked: dict[str, Any] = {"gpus": 32_768, "radix": 128, "fabrics": ("rail-only", "torus-2d")}
    rails, torus = netplan.compare("rail-only-paper", **asked, prices="2026").rows
    assert torus.cost is not None
    assert rails.cost is not None
    near, far = 191.425 + 87, 308.68 + 87
    assert torus.cost.base == pytest.approx(131_072 * (69.45 + 659) + 65_536 * far)
    parts = 256 * 85_000 + 65_536 * 611.95 + 32_768 * 1_499 + 19 * 10_200
    assert rails.cost.base == pytest.approx(parts + 32_768 * near)
    # The paper prices no card: rail-only has one like all others, the torus four of its own.
    rails, torus = netplan.compare("rail-only-paper", **asked).rows
    assert (rails.cost_complete, torus.cost_complete) == (True, False)


def test_report_and_compare_decide_alike() -> None:
    asked: dict[str, Any] = {
        "gpus": 2048,
        "radix": 64,
        "accelerator": "h100-80gb",
        "model": "gpt-175b",
        "fabrics": ("rail-optimized", "dragonfly", "torus-2d"),
    }
    for rule in ("near-fastest", "run-cost", "price", "fastest"):
        compared = netplan.compare("rail-only-paper", **asked, rule=rule, prices="2026").verdict
        reported = netplan.procurement(
            "rail-only-paper", **asked, rule=rule, prices="2026"
        ).recommendation.verdict
        assert compared is not None
        assert reported is not None
        assert (compared.fabric, compared.tied, compared.rule) == (
            reported.fabric,
            reported.tied,
            reported.rule,
        )
        assert [one.value for one in compared.changes] == pytest.approx(
            [one.value for one in reported.changes]
        )


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"rule": "cheapest"}, "unknown --rule 'cheapest': use near-fastest, run-cost"),
        ({"within": 1.0}, "--within 100%"),
        ({"gpu_hour": -1.0}, "--gpu-hour -1"),
        ({"ports": "six"}, "unknown --ports 'six': use shared, full"),
    ],
)
def test_refusals(inputs: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        netplan.compare("rail-only-paper", gpus=1024, radix=64, timing=False, **inputs)


def test_a_difference_that_prints_as_none_is_no_lever() -> None:
    # 0.04 % faster reads as 0.0 %; 0.2 % is said, with amounts that read in millions.
    assert [
        change.lever for change in verdict("price", RAILS, fabric("clos", 100e6, 10.196)).changes
    ] == ["price"]
    faster = verdict("price", RAILS, fabric("clos", 62e6, 10.0)).changes[-1]
    assert faster.lever == "day_value"
    assert "clos trains 2.0 % faster, less than the model's error" in faster.sentence
    # 10 days of 62e6 / 1825 less 10.2 of 60e6 / 1825 for 0.2 days: 21,918 a day.
    assert "is worth more than 21.9 k USD (its GPU hours cost 24.0 k USD)" in faster.sentence
    # 10.18 days of 100e6 / 1825 for 0.02 days are 11.1 million a day: no day is worth that.
    far = verdict("price", RAILS, fabric("clos", 100e6, 10.18)).changes
    assert [change.lever for change in far] == ["price"]


def test_of_a_tie_none_is_too_slow() -> None:
    # Two of one price and time: no bandwidth brings one near that is near already.
    found = netplan.compare(
        "rail-only-paper",
        gpus=1024,
        radix=64,
        accelerator="h100-80gb",
        fabrics=("rail-optimized", "dgx-superpod"),
    ).to_dict()["verdict"]
    assert found["tied"] == ["rail-optimized", "dgx-superpod"]
    assert found["changes"] == []


def test_a_cheap_network_whose_run_pays_more_for_it_is_told() -> None:
    # A year costs a fifth of the price: 27.4 days of 20e6 / 1825 are 300,000, 10 of 40e6 219,178.
    slow, fast = fabric("slow", 20e6, 27.375), fabric("fast", 40e6, 10.0)
    dear = fabric("dear", 60e6, 10.0)  # as fast, for more: never what pays
    change = verdict("price", slow, dear, fast).changes[-1]
    assert (change.fabric, change.lever, change.value) == ("fast", "day_value", 0.0)
    assert "fast trains 173.7 % faster" in change.sentence
    assert "is 219.2 k USD, of slow 300.0 k USD" in change.sentence


def test_gpus_of_one_domain_need_no_network() -> None:
    """The switches of a Clos that joins nothing are paid for; rails without any cost nothing."""
    found = netplan.compare("rail-only-paper", gpus=128, radix=64, model="dlrm-793b").to_dict()
    prices = {row["fabric"]: row["cost_usd"] for row in found["fabrics"]}
    assert prices["rail-only"] == prices["torus-3d"] == {"low": 0.0, "base": 0.0, "high": 0.0}
    assert prices["rail-optimized"]["base"] > 0
    assert (found["verdict"]["fabric"], found["verdict"]["tied"]) == (None, [])
    notes = {row["fabric"]: " ".join(row["notes"]) for row in found["fabrics"]}
    assert "no network between domains to pay for" in notes["rail-only"]
    assert "no network between domains to pay for" not in notes["fat-tree"]


def test_prices_with_gear_inside_hb_domains_beside_prices_without_say_so() -> None:
    bare, paid = fabric("bare", 60e6, 10.0, geared=False), fabric("paid", 64e6, 10.0, gear=4.2e6)
    said = (
        "Prices do not hold the same: gear inside HB domains has none for bare, and is 4.2 M USD in"
        " that of paid."
    )
    assert verdict("near-fastest", bare, paid).caveats == (said,)
    assert verdict("near-fastest", bare, CLOS).caveats == ()
    assert verdict("near-fastest", RAILS, paid).caveats == ()
    assert verdict("fastest", bare, paid).caveats == ()


def test_larger_domains_than_asked_for_prove_nothing_while_their_gear_is_in_no_sum() -> None:
    asked: dict[str, Any] = {"gpus": 1152, "hb_size": 64, "accelerator": "h200", "prices": "2026"}
    asked |= {"model": "gpt-22b", "fabrics": ("rail-optimized", "mixed-domains")}
    found = netplan.compare("rail-only-paper", **asked)
    clos, mixed = found.rows
    assert (clos.cost_complete, mixed.cost_complete) == (True, False)
    assert any("HB domains of 72, whose gear is not in its price" in note for note in mixed.notes)
    assert found.verdict is not None
    assert found.verdict.fabric == "rail-optimized"
    both = netplan.compare("rail-only-paper", **asked, networks=("hb-gear",))
    assert all(row.cost_complete for row in both.rows)


def test_less_than_a_percent_of_money_tells_no_two_apart() -> None:
    # Other cables for 0.2 M of 149 M USD, at every price of the book: too little to order by.
    asked = {"gpus": 4096, "accelerator": "mi455x"}
    compared, bills = netplan.compare("hgx-b200", **asked), netplan.cost("hgx-b200", **asked)
    for verdict in (compared.verdict, bills.verdict):
        assert verdict is not None
        assert verdict.fabric is None
        assert set(verdict.tied) == {"fat-tree", "rail-optimized"}
        margin = verdict.decision.margin_money
        assert margin is not None
        assert 0 < margin.low < margin.base < 0.01 * bills.bills[0].capital.base


@pytest.mark.parametrize("scenario", ["hgx-h100", "nvl72-gb200"])
def test_a_bill_and_a_comparison_are_of_the_same_fabrics(scenario: str) -> None:
    compared, bills = netplan.compare(scenario), netplan.cost(scenario)
    assert {bill.name for bill in bills.bills} <= {row.name for row in compared.bought}
    first, second = compared.verdict, bills.verdict
    assert first is not None
    assert second is not None
    assert (first.fabric, first.tied) == (second.fabric, second.tied)
    assert first.decision.runner_up == second.decision.runner_up


def test_rails_alone_compete_where_they_save_money() -> None:
    # At 4,096 GPUs rail-only has the switches of a fat tree, and more modules: nothing is saved.
    fabrics = ("fat-tree", "rail-only")
    verdict = netplan.compare("hgx-b200", gpus=4096, fabrics=fabrics).verdict
    assert verdict is not None
    assert verdict.fabric == "fat-tree"
    assert any("rail-only gives up" in caveat for caveat in verdict.caveats)


def test_what_flips_it_names_halls_in_which_the_order_turns() -> None:
    # Under one leaf a server's copper is short; at the end of a row it is optics in every fabric.
    asked = {"gpus": 4096, "accelerator": "h100-80gb", "timing": False}
    here = netplan.compare("hgx-b200", **asked, hall="leaves-in-rack")
    there = netplan.compare("hgx-b200", **asked, hall="leaves-end-of-row")
    assert here.verdict is not None
    assert there.verdict is not None
    assert (here.verdict.fabric, there.verdict.fabric) == ("fat-tree", None)
    decision = here.decision
    assert decision is not None
    assert decision.answers is not None
    words = "In hall leaves-end-of-row or leaves-mid-row it is undecided (--hall)."
    assert decision.answers.flips.endswith(words)
    assert words in " ".join(here.text().split())


def test_halls_are_asked_of_the_cluster_not_of_the_ports_that_planes_split() -> None:
    """The order has two planes, its runner-up one: both are wired for whole ports of 400G."""
    asked = {"gpus": 2048, "accelerator": "b200", "timing": False}
    answer = netplan.compare("hgx-b200", **asked, fabrics=("rail-only-redundant", "fat-tree"))
    assert answer.verdict is not None
    assert answer.verdict.fabric == "rail-only-redundant"
    assert answer.decision is not None
    assert answer.decision.answers is not None
