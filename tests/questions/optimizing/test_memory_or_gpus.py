"""Expanded memory or more GPUs: by hand, by brute force, and one price whoever asks."""

import json
from math import inf
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netplan
from netplan.errors import InfeasibleError, InputError
from netplan.inputs.choices import End
from netplan.performance.pareto import pareto_front
from netplan.procurement.report import procurement
from netplan.reports.schema import plain_data
from netplan.scenarios.reading import NONE
from netplan.setup.money.memory_or_gpus import (
    MOST_TIMES,
    SCANNED,
    Fewest,
    MemoryTradeoff,
    fewest_gpus,
)
from netplan.studies.questions import answer as study_point
from tests.cli.command import netplan as command

TIER = "comet-480gb"
ASKED: dict[str, Any] = {
    "gpus": 1024,
    "accelerator": "h100-80gb",
    "prices": "2026",
    "fabrics": ("rail-only",),
}


def compared(*memories: str, **more: Any) -> Any:  # noqa: ANN401 - a comparison
    """A comparison of expanded memories."""
    return netplan.compare(
        "rail-only-paper", **{"radix": 64, **ASKED, **more}, expanded_memories=memories
    )


def weighed(*memories: str, **more: Any) -> MemoryTradeoff:  # noqa: ANN401
    """The only trade of a comparison."""
    (trade,) = compared(NONE, *memories, **more).trades
    assert isinstance(trade, MemoryTradeoff)
    return trade


@given(
    st.integers(1, 300), st.sampled_from([1, 4, 8, 64]), st.integers(1, 12_000), st.integers(0, 9)
)
def test_the_fewest_gpus_are_those_of_brute_force(
    domains: int, domain: int, enough: int, odd: int
) -> None:
    first = max(domain, domains * domain - odd)
    counts = [first, *range((first // domain + 1) * domain, MOST_TIMES * first + 1, domain)]
    found = fewest_gpus(lambda gpus: gpus >= enough, first, domain)
    assert found.gpus == next((gpus for gpus in counts if gpus >= enough), None)


@given(st.integers(1, 6), st.sets(st.integers(0, 60)))
def test_few_counts_are_all_tried_whatever_their_times_do(domains: int, enough: set[int]) -> None:
    first = 8 * domains
    fast = {8 * step for step in enough}
    counts = range(first, MOST_TIMES * first + 1, 8)
    assert len(counts) - 1 <= SCANNED
    found = fewest_gpus(lambda gpus: gpus in fast, first, 8)
    assert found.proven
    assert found.gpus == next((gpus for gpus in counts if gpus in fast), None)


@given(st.integers(1, 300), st.sampled_from([1, 6, 8, 64]), st.integers(1, 40_000))
def test_all_powers_of_two_are_tried_where_others_have_no_plans(
    domains: int, domain: int, enough: int
) -> None:
    first = domains * domain
    counts = [first, *range(first + domain, MOST_TIMES * first + 1, domain)]
    fast = [gpus for gpus in counts if gpus >= enough and gpus.bit_count() == 1]
    found = fewest_gpus(fast.__contains__, first, domain, powers_of_two=True)
    assert found.proven
    assert found.gpus == next(iter(fast), None)


def test_the_fewest_gpus_of_comet_are_a_power_of_two() -> None:
    asked: dict[str, Any] = {"accelerator": "a100-comet", "fabrics": ("comet-pods",)}
    asked |= {"iteration_model": "comet", "model": "transformer-1t", "batch": 768, "gpus": 64}
    trade = weighed(TIER, **asked)
    # 128 GPUs do not hold it without, 256 do, slower; 512 reach it. Between them are no plans.
    assert (trade.fewest.gpus, trade.fewest.proven) == (512, True)
    assert trade.more is not None
    assert trade.more.time_s < trade.expanded.time_s


def test_both_sides_are_the_bills_of_cost() -> None:
    trade = weighed(TIER)
    assert trade.more is not None
    bill = {"radix": 64, **ASKED, "networks": ("accelerators",)}
    (ours,) = netplan.cost("rail-only-paper", **bill, expanded_memory=TIER).bills
    (theirs,) = netplan.cost("rail-only-paper", **{**bill, "gpus": trade.more.gpus}).bills
    assert trade.memory_cost is not None
    assert trade.memory_cost.base == 1024 * 480 * 7.03
    assert trade.saving == theirs.capital.base - ours.capital.base
    assert trade.cheaper == ("expanded memory" if trade.saving > 0 else "more GPUs")
    # What more GPUs cost, at each end: all but the memory is on both.
    assert trade.more_cost is not None
    ends: tuple[End, ...] = ("low", "base", "high")
    for end in ends:
        more = theirs.capital.at_end(end) - (ours.capital.at_end(end) - ours.memory.at_end(end))
        assert trade.more_cost.at_end(end) == pytest.approx(more, rel=1e-12)


def test_more_gpus_without_it_are_as_fast_and_fewer_are_not() -> None:
    trade = weighed(TIER)
    assert trade.more is not None
    assert trade.fewest.proven
    for gpus in range(1024, trade.more.gpus, 8):
        row = netplan.compare("rail-only-paper", **{"radix": 64, **ASKED, "gpus": gpus}).rows[0]
        assert row.time_s > trade.expanded.time_s
    last = netplan.compare(
        "rail-only-paper", **{"radix": 64, **ASKED, "gpus": trade.more.gpus}
    ).rows[0]
    assert last.time_s == trade.more.time_s <= trade.expanded.time_s


def test_at_the_even_price_of_a_gpu_both_cost_the_same() -> None:
    even = weighed(TIER).even
    assert even is not None
    at = weighed(TIER, overrides={"prices.prices.h100-80gb.base": repr(even)})
    assert at.saving == pytest.approx(0.0, abs=1e-3)
    cheap = weighed(TIER, overrides={"prices.prices.h100-80gb.base": repr(0.9 * even)})
    assert cheap.cheaper == "more GPUs"
    assert "more GPUs are cheaper by" in cheap.sentence


def test_a_range_of_memory_that_reaches_over_is_said() -> None:
    trade = weighed(TIER)
    assert trade.sure
    assert trade.sentence.count("at all prices of the book") == 1
    # 1,024 x 480 GB at 40 USD are 19.7 M, more than the GPUs' price at its low.
    dear = weighed(TIER, overrides={"prices.prices.ddr5.high": "40"})
    assert (dear.cheaper, dear.sure) == ("expanded memory", False)
    assert "at base prices, not at all" in dear.sentence


def test_what_has_no_price_is_said_in_the_sentence() -> None:
    unpriced = "h100-96gb-500w"
    chip = weighed(TIER, accelerator=unpriced, batch=8192)
    assert chip.cheaper is None
    words = f"the book has no price of {unpriced}: expanded memory is cheaper where one"
    assert words in chip.sentence
    assert chip.even is not None
    # The rest of the bills, shared by the GPUs that one side has more.
    ours, theirs = (
        netplan.cost("rail-only-paper", radix=64, **{**ASKED, "accelerator": unpriced} | more)
        .bills[0]
        .capital.base
        for more in ({"expanded_memory": TIER}, {"gpus": chip.more.gpus if chip.more else 0})
    )
    assert chip.more is not None
    assert chip.even == pytest.approx((ours - theirs) / (chip.more.gpus - 1024), rel=1e-12)
    memory = weighed(TIER, overrides={f"{TIER}.kind": "unheard-of"})
    assert memory.memory_cost is None
    assert "no price of GB of expanded memory (unheard-of): neither can be" in memory.sentence


def test_memory_that_makes_nothing_faster() -> None:
    trade = weighed("cxl-256gb", model="gpt-22b", batch=1024, gpus=64)
    assert trade.needless
    assert trade.sentence.endswith("It makes nothing faster: 115.2 k USD for nothing.")
    # 64 x 256 GB x 7.03 USD = 115,179.52.


def test_a_trade_without_enough_gpus_says_so() -> None:
    plain = weighed(TIER)
    none = MemoryTradeoff(
        **{name: getattr(plain, name) for name in plain.__struct_fields__}
        | {"more": None, "without_s": inf, "fewest": Fewest(None, 8192, proven=True)}
    )
    assert "without it no plan fits. No number of GPUs up to 8,192 that fills HB domains" in (
        none.sentence
    )
    assert plain_data(none)["without_s"] is None


def test_compare_optimize_and_cost_have_one_price() -> None:
    rows = compared(NONE, TIER, "cxl-256gb").rows
    for row in rows:
        (bill,) = netplan.cost(
            "rail-only-paper", **ASKED, radix=64, expanded_memory=row.memory
        ).bills
        assert row.cost == bill.cost
    found = netplan.optimize(
        "rail-only-paper",
        **ASKED,
        hb_sizes=(8,),
        radices=(64,),
        oversubscriptions=(1.0,),
        expanded_memories=(NONE, TIER, "cxl-256gb"),
    )
    prices = {row.memory: row.cost for row in rows}
    assert {row.design.memory for row in found.rows} <= set(prices)
    assert all(row.row.cost == prices[row.design.memory] for row in found.rows)
    trades = {trade.memory: plain_data(trade) for trade in compared(NONE, TIER, "cxl-256gb").trades}
    for trade in found.trades:
        own = plain_data(trade)
        skipped = {"run_cost", "run_cost_without", "sentence"}
        assert {key: own[key] for key in own if key not in skipped} == {
            key: value for key, value in trades[trade.memory].items() if key not in skipped
        }


def test_a_memory_that_no_design_may_have_is_told_where_nothing_else_fits() -> None:
    asked: dict[str, Any] = {"gpus": 64, "accelerator": "h200", "fabrics": ("rail-only",)}
    asked |= {"expanded_memories": (NONE, TIER), "overrides": {f"{TIER}.kind": "unheard-of"}}
    words = r"fits on no plan: .*; no design with comet-480gb meets the demands: ask for it alone$"
    with pytest.raises(InfeasibleError, match=words):
        netplan.optimize("rail-only-paper", **asked, radices=(64, 128))


def test_a_memory_that_is_on_no_front_is_told() -> None:
    """GPT-22B fits without it, so that it only costs."""
    asked: dict[str, Any] = {"gpus": 64, "accelerator": "h100-80gb", "model": "gpt-22b"}
    asked |= {"fabrics": ("rail-only",), "hb_sizes": (8,), "prices": "2026"}
    found = netplan.optimize(
        "rail-only-paper", **asked, expanded_memories=(NONE, "cxl-256gb"), radices=(64, 128)
    )
    assert {row.design.memory for row in found.rows} == {NONE}
    assert found.notes[0] == (
        "No design with cxl-256gb is on the front: others are no dearer and no slower."
    )
    priceless = {"cxl-256gb.kind": "unheard-of"}
    found = netplan.optimize(
        "rail-only-paper",
        **asked,
        expanded_memories=(NONE, "cxl-256gb"),
        overrides=priceless,
        radices=(64, 128),
    )
    assert found.notes[0] == "No design with cxl-256gb meets the demands."
    alone = netplan.optimize(
        "rail-only-paper", **asked, expanded_memories=("cxl-256gb",), radices=(64, 128)
    )
    assert not any("No design" in note for note in alone.notes)


def test_the_front_of_all_memories_is_that_of_each_together() -> None:
    asked = {
        **ASKED,
        "fabrics": ("rail-only", "fat-tree", "torus-2d"),
        "gpus": 256,
        "model": "gpt-175b",
        "hb_sizes": (8, 16),
    }
    memories = (NONE, TIER, "cxl-256gb", "host-ddr5")
    together = netplan.optimize(
        "rail-only-paper", **asked, expanded_memories=memories, radices=(64, 128)
    )
    each = [
        netplan.optimize("rail-only-paper", **asked, expanded_memories=(one,), radices=(64, 128))
        for one in memories
    ]
    points = [point for answer in each for point in answer.points]
    best = sorted({points[group[0]] for group in pareto_front(points)})
    assert sorted(together.points) == best


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from(["rail-only", "rail-optimized", "fat-tree", "torus-2d"]),
    st.sampled_from([64, 256, 1000]),
    st.sampled_from(["h100-80gb", "b200"]),
    st.sampled_from(["gpt-22b", "gpt-175b"]),
)
def test_without_a_tier_the_answer_is_that_of_before(
    fabric: str, gpus: int, accelerator: str, model: str
) -> None:
    asked: dict[str, Any] = {
        "gpus": gpus,
        "radix": 64,
        "accelerator": accelerator,
        "model": model,
        "fabrics": (fabric,),
    }
    plain = netplan.compare("rail-only-paper", **asked).to_dict()
    none = netplan.compare("rail-only-paper", **asked, expanded_memories=(NONE,)).to_dict()
    assert plain["inputs"].pop("expanded_memories") == []
    assert none["inputs"].pop("expanded_memories") == [NONE]
    assert plain["inputs"].pop("expanded_memory") is None
    assert none["inputs"].pop("expanded_memory") == NONE
    assert plain["inputs"] == none["inputs"]
    for row in none["fabrics"]:
        assert row.pop("expanded_memory") == NONE
        assert row.pop("memory_cost") in (None, {"low": 0.0, "base": 0.0, "high": 0.0})
        row.pop("training_run")
    assert json.dumps(plain["fabrics"]) == json.dumps(none["fabrics"])
    assert "memory_or_gpus" not in plain


def test_a_run_costs_the_network_and_memory_for_its_days_and_gpu_hours() -> None:
    plain, tier = compared(NONE, TIER, tokens=1e12, gpu_hour=2.0).to_dict()["fabrics"]
    (bill,) = netplan.cost("rail-only-paper", **ASKED, radix=64).bills
    (whole,) = netplan.cost("rail-only-paper", **ASKED, radix=64, expanded_memory=TIER).bills
    for row, gpus in ((plain, 1024), (tier, 1024)):
        run = row["training_run"]
        iterations = -(-1e12 // (4096 * 2048))
        days = iterations * row["iteration_time_s"] / 86_400
        assert run["iterations"] == iterations
        assert run["days"] == pytest.approx(days, rel=1e-12)
        assert run["gpus"]["base"] == pytest.approx(days * 24 * gpus * 2.0, rel=1e-12)
        share = days / 365
        assert run["network"]["base"] == pytest.approx(share * bill.life.per_year.base, rel=1e-12)
        memory = whole.life.per_year.base - bill.life.per_year.base
        expected = share * memory if row is tier else 0.0
        assert run["memory"]["base"] == pytest.approx(expected, rel=1e-9)
        parts = (run[part]["base"] for part in ("network", "memory", "gpus"))
        assert run["total"]["base"] == pytest.approx(sum(parts), rel=1e-12)


def test_a_run_on_parts_without_a_price_is_marked() -> None:
    # 250 Gb/s have no price: GPU hours, memory and fibre are known, the rest of the network is not.
    answer = compared(NONE, TIER, accelerator="a100-comet", fabrics=("comet-pods",))
    plain, tier = (row["training_run"] for row in answer.to_dict()["fabrics"])
    assert (plain["complete"], tier["complete"]) == (False, False)
    assert plain["memory"]["base"] == 0.0
    assert 0 < plain["network"]["base"] < 0.01 * plain["gpus"]["base"]
    assert tier["memory"]["base"] > 0
    assert "≥ " in answer.text(200, details=True).partition("run, ")[2]


def test_a_run_of_a_row_without_a_plan_has_no_sign() -> None:
    dear: dict[str, Any] = {"prices": "rail-only-2023", "fabrics": ("dragonfly",)}
    answer = compared(NONE, TIER, accelerator="h200", gpus=64, **dear)
    plain, tier = answer.to_dict()["fabrics"]
    assert plain["training_run"] is None
    assert not tier["training_run"]["complete"]
    shown = answer.text(200, details=True)
    assert "≥ -" not in shown
    assert f"≥ {tier['training_run']['total']['base'] / 1e6:,.2f}" in shown


def test_a_report_counts_no_accelerators() -> None:
    words = (
        r"--with accelerators: a report recommends a network, .* leave it out, and ask netplan c"
    )
    with pytest.raises(InputError, match=words):
        procurement("rail-only-paper", gpus=64, radix=64, networks=("accelerators",), prices="2026")


def test_a_study_names_one_memory_a_point() -> None:
    asked: dict[str, Any] = {"gpus": 1024, "radix": 64, "accelerator": "h100-80gb"}
    asked["fabric"] = "rail-only"
    base = "rail-only-paper"
    priced = {**asked, "prices": "2026"}
    plain = study_point("compare", priced, scenario=base)
    tier = study_point("compare", {**priced, "expanded_memory": TIER}, scenario=base)
    assert "expanded_memory" not in plain
    assert tier["expanded_memory"] == TIER
    assert tier["iteration_time_s"] < plain["iteration_time_s"]
    assert tier["training_run"]["memory"]["base"] > 0
    found = study_point("search", {**asked, "expanded_memory": TIER}, scenario=base)
    assert found["iteration_time_s"] == tier["iteration_time_s"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ddr4", "netplan: --expanded-memory ddr4: its file leaves the capacity open: take one of"),
        ("cxl-256", "netplan: unknown memory 'cxl-256': did you mean cxl-256gb?"),
    ],
)
@pytest.mark.parametrize("asked", ["compare", "optimize", "search", "cost"])
def test_bad_input_in_one_line(asked: str, name: str, words: str) -> None:
    radix = () if asked == "optimize" else ("--radix", "64")
    done = command(asked, "rail-only-paper", "--gpus", "64", *radix, "--expanded-memory", name)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(words)
    assert done.stderr.count("\n") == 1
