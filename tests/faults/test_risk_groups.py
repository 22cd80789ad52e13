"""Risk groups in the simulated years: rates, weights, and what a failed group takes from a job."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.arrays import NO_NUMBERS, Ints
from netplan.errors import InputError
from netplan.faults.damage.damage import Components, Damage, Effects, find_effects, network_links
from netplan.faults.damage.groups import (
    RiskGroups,
    card_groups,
    hall_risk_groups,
    racks_by_count,
    racks_of_layout,
    weighted_rates,
)
from netplan.faults.years.forecast import CheckpointPolicy, ForecastOptions, reliability_forecast
from netplan.faults.years.group_failures import group_failures, group_hits
from netplan.faults.years.rates import FAILURE_BOOKS, FailureBook
from netplan.records import replace
from netplan.topologies.build import build_fabric
from netplan.topologies.cabling.floor_plan import FLOOR_PLANS, lay_out
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Fabric, Sizing
from netplan.topologies.graph import HB_SWITCH, FabricGraph
from netplan.topologies.specs import FABRICS
from tests.faults.damaged import small_cases

CASES = small_cases()
BOOK = FAILURE_BOOKS.load("2026")
POLICY = CheckpointPolicy(1 / 60, 10 / 60)


def built(name: str, gpus: int, radix: int) -> tuple[Fabric, FabricGraph]:
    spec, sizing = FABRICS.load(name), Sizing(gpus, radix, 8, 450e9, 50e9)
    return build_fabric(spec, sizing), expand(spec, sizing)


# --- what a failed group takes -------------------------------------------------------------------


def groups_of(sets: list[tuple[list[int], list[int]]]) -> RiskGroups:
    """Groups of nodes and links, by number."""

    def pairs(side: int) -> tuple[Ints, Ints]:
        held = [(number, one) for number, both in enumerate(sets) for one in both[side]]
        found = np.array(held, np.int64).reshape(-1, 2)
        return found[:, 0], found[:, 1]

    names = [f"box-{number}" for number in range(len(sets))]
    return RiskGroups("box", names, *pairs(0), *pairs(1))


def assert_hits(graph: FabricGraph, groups: RiskGroups) -> None:
    """One group after the other against the effects of its damage."""
    hits = group_hits(graph, groups)
    for number in range(len(groups)):
        damage = groups.damage(graph, np.array([number]))
        effects = find_effects(graph, damage)
        gear = bool(damage.node_down[graph.node_kind == HB_SWITCH].any())
        gone = len(effects.gpus_down) + len(effects.cut_off)
        assert bool(hits.interrupts[number]) == (gear or gone > 0)
        lost = {*(effects.gpus_down // graph.hb_size).tolist()}
        lost |= {*(effects.cut_off_forwarding // graph.hb_size).tolist()}
        found = {*hits.domain[hits.group == number].tolist()}
        if len(effects.gpus_down):
            # Who else is left alone by so many dead GPUs is not asked: they stop the job anyway.
            assert found >= {*(effects.gpus_down // graph.hb_size).tolist()}
        else:
            assert found == lost
            assert int(hits.cut_off[number]) == len(effects.cut_off)


@pytest.mark.parametrize("name", CASES)
def test_single_nodes_and_links(name: str) -> None:
    graph = CASES[name].graph
    inside = graph.group_names.index("hb") if "hb" in graph.group_names else -1
    nodes = [([node], list[int]()) for node in range(graph.node_count)]
    links = [(list[int](), [link]) for link in np.flatnonzero(graph.group != inside).tolist()]
    assert_hits(graph, groups_of(nodes + links))


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(CASES)), st.integers(0, 1000))
def test_any_switches_and_links(name: str, seed: int) -> None:
    graph, rng = CASES[name].graph, np.random.default_rng(seed)
    switches = np.flatnonzero(graph.node_kind >= 1)
    inside = graph.group_names.index("hb") if "hb" in graph.group_names else -1
    links = np.flatnonzero(graph.group != inside)
    sets = [
        (
            rng.choice(switches, min(len(switches), int(rng.integers(0, 5))), False).tolist(),
            rng.choice(links, int(rng.integers(0, 6)), replace=False).tolist(),
        )
        for _ in range(4)
    ]
    assert_hits(graph, groups_of(sets))


@pytest.mark.parametrize("name", CASES)
def test_cards_and_pairs_of_cards(name: str) -> None:
    graph = CASES[name].graph
    ends = np.minimum(graph.source, graph.target)
    outside = network_links(graph)
    cards = [np.flatnonzero(outside & (ends == gpu)).tolist() for gpu in range(graph.gpus)]
    pairs = [one + other for one, other in zip(cards, cards[1:] + cards[:1], strict=True)]
    assert_hits(graph, groups_of([(list[int](), links) for links in cards + pairs]))


@pytest.mark.parametrize("hb_size", [1, 4])
def test_cards_in_planes_need_few_searches(hb_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = expand(FABRICS.load("two-planes"), Sizing(48, 16, hb_size, 450e9, 50e9))
    assert_hits(graph, card_groups(graph))
    searched = list[int]()

    def counted(
        graph: FabricGraph, damage: Damage, *intact: tuple[Components, Components]
    ) -> Effects:
        searched.append(1)
        return find_effects(graph, damage, *intact)

    monkeypatch.setattr(sys.modules[group_hits.__module__], "find_effects", counted)
    hits = group_hits(graph, card_groups(graph))
    # Each card takes its GPU; 13 links at GPUs join 12 domains and two planes to a forest.
    assert hits.interrupts.all()
    assert hits.cut_off.tolist() == [1] * 48
    assert len(hits.domain) == (48 if hb_size == 1 else 0)
    assert len(searched) <= 13


def test_a_rack_of_gpus_takes_their_domains_and_a_rack_of_leaves_all_of_a_fat_tree() -> None:
    # Eight domains of eight; racks of 32 GPUs hold four. Leaves of radix 16 hold a domain each.
    _, graph = built("fat-tree", 64, 16)
    racks = hall_risk_groups(graph, racks_by_count(graph, gpus_per_rack=32, switches_per_rack=8))[0]
    hits = group_hits(graph, racks)
    taken = [hits.domain[hits.group == number].tolist() for number in range(len(racks))]
    assert taken == [[0, 1, 2, 3], [4, 5, 6, 7], [0, 1, 2, 3, 4, 5, 6, 7], [0, 1, 2, 3, 4, 5, 6, 7]]
    assert hits.cut_off.tolist() == [0, 0, 64, 64]


# --- rates -------------------------------------------------------------------------------------


def test_weights_become_rates() -> None:
    # 12 failures a year over weights 1, 2 and 3: 2, 4 and 6.
    assert weighted_rates(12, np.array([1.0, 2.0, 3.0])).tolist() == [2.0, 4.0, 6.0]


@pytest.mark.parametrize("weights", [[0.0, 0.0], [1.0, -0.5], [float("inf"), 1.0], []])
def test_weights_without_a_choice_are_refused(weights: list[float]) -> None:
    with pytest.raises(InputError, match="weights of at least 0, and one above 0"):
        weighted_rates(1.0, np.array(weights))


def test_each_kind_fails_at_the_rate_of_its_row() -> None:
    _, graph = built("rail-only", 2048, 64)
    layout = lay_out(FLOOR_PLANS.load("example-hall"), graph)
    groups = hall_risk_groups(graph, racks_of_layout(layout, graph))
    own = replace(groups[0], kind="chassis", weight=np.arange(len(groups[0]), dtype=float))
    found = {kind.name: kind for kind in group_failures(graph, (*groups, own), BOOK)}
    # The hall has no row, since cooling is not in the book.
    assert list(found) == ["Rack", "Power feed", "Row", "Cable tray", "Own group: chassis"]
    sizes = {kind.kind: len(kind) for kind in groups}
    expected = {
        "Rack": 0.022 * sizes["rack"],
        "Power feed": 0.28 * 2,
        "Row": 0.02 * sizes["row"],
        "Cable tray": 0.01 * sizes["tray"],
        "Own group: chassis": 0.02 * sizes["rack"],
    }
    assert {name: kind.failures_per_year for name, kind in found.items()} == expected
    for kind in found.values():
        total = sum(cause.failures_per_year for cause in kind.causes)
        assert total == pytest.approx(kind.failures_per_year)
    hours = [{cause.repair_h for cause in kind.causes} for kind in found.values()]
    assert hours == [{3.5}, {6.0}, {3.5}, {24.0}, {3.5}]
    high = group_failures(graph, groups[:1], BOOK, end="high")[0]
    assert high.failures_per_year == pytest.approx(0.44 * sizes["rack"])
    # A book without such rows leaves them out.
    assert group_failures(graph, groups, FAILURE_BOOKS.load("rsc-1")) == ()


# --- years -------------------------------------------------------------------------------------


def only_racks(book: FailureBook) -> FailureBook:
    """The book with its racks alone."""
    kept = [row for row in book.rates if row.cause == "Rack"]
    return book.changed(rates=tuple(kept))


@pytest.mark.parametrize(("idle", "waits_h"), [(0, 3.5), (4, 0.0)])
def test_racks_enter_the_years_in_closed_form(idle: int, waits_h: float) -> None:
    # 32 racks of 32 GPUs, four domains each, two of leaves and one of spines, at 0.022 a year: each
    # stops the job, 0.77 a year.
    fabric, graph = built("rail-only", 1024, 64)
    racking = racks_by_count(graph, gpus_per_rack=32, switches_per_rack=16)
    groups = group_failures(graph, hall_risk_groups(graph, racking)[:1], only_racks(BOOK))
    assert groups[0].failures_per_year == pytest.approx(35 * 0.022)
    assert groups[0].interruptions_per_year == pytest.approx(35 * 0.022)
    options = ForecastOptions(POLICY, years=40_000, idle_domains=idle, wait=True)
    found = reliability_forecast(fabric, only_racks(BOOK), options, groups=groups)
    assert found.interruptions_closed_form == pytest.approx(0.77)
    assert abs(found.interruptions_per_year - 0.77) < 2 * found.interruptions_half_width
    # Without idle domains the job waits for each rack of GPUs, 3.5 h on average, and for the
    # spines, without which the leaves of a rail are alone; two racks of leaves leave half of the
    # rails. Four idle domains take over from a rack, but not from the 96 that spines take.
    waits = 0.704 * waits_h + 0.022 * 3.5
    assert found.lost_h["waiting"] == pytest.approx(waits, rel=0.05, abs=0.01)
    assert [one.cause for one in found.causes] == ["Rack"]
    assert found.causes[0].failures_per_year == pytest.approx(0.77)
    # Without a layout the book guesses 64 racks of 16 GPUs: 1.41 stops a year.
    guessed = reliability_forecast(fabric, only_racks(BOOK), options)
    assert guessed.interruptions_closed_form == pytest.approx(64 * 0.022)


def test_larger_racks_stop_a_job_less_often_and_take_more() -> None:
    fabric, graph = built("rail-optimized", 1024, 64)
    stops, waits = [], []
    for size in (8, 16, 32, 64):
        racking = racks_by_count(graph, gpus_per_rack=size, switches_per_rack=16)
        groups = group_failures(graph, hall_risk_groups(graph, racking)[:1], only_racks(BOOK))
        options = ForecastOptions(POLICY, years=20_000, idle_domains=2, wait=True)
        found = reliability_forecast(fabric, only_racks(BOOK), options, groups=groups)
        stops.append(found.interruptions_closed_form)
        waits.append(found.lost_h["waiting"] / found.interruptions_per_year)
    assert stops == sorted(stops, reverse=True)
    # Two idle domains take over from racks of one or two, and never from those of four or eight.
    assert max(waits[:2]) < 0.5
    assert min(waits[2:]) > 3


def test_six_hours_without_a_feed_cost_them() -> None:
    # Two feeds of 512 GPUs, 0.56 failures a year of 6 h: a job that goes on has the other half of
    # its domains left, one that waits has nothing; a restart of ten minutes is not all.
    fabric, graph = built("rail-only", 1024, 64)
    racking = racks_by_count(graph, gpus_per_rack=32, switches_per_rack=16)
    feeds = hall_risk_groups(graph, racking)[1:2]
    book = BOOK.changed(rates=(BOOK.rate("Power feed"),))
    groups = group_failures(graph, feeds, book)
    lost = []
    for wait in (False, True):
        options = ForecastOptions(POLICY, years=20_000, wait=wait)
        found = reliability_forecast(fabric, book, options, groups=groups)
        lost.append(found.lost_h["waiting"] + found.slowed_h)
        closed = (found.effective_closed_form - found.goodput_closed_form) * 8760
        assert found.slowed_h == pytest.approx(closed, rel=0.1, abs=0.02)
    taken = [cause.effect.domains for cause in groups[0].causes for _ in range(cause.count)]
    assert min(taken) > 50
    assert lost[1] == pytest.approx(0.56 * 6, rel=0.05)
    assert 0.4 * lost[1] < lost[0] < lost[1]


def test_two_feeds_survive_one_where_the_book_says_so() -> None:
    fabric, graph = built("rail-only", 1024, 64)
    racking = racks_by_count(graph, gpus_per_rack=32, switches_per_rack=16)
    feeds = hall_risk_groups(graph, racking)[1:2]
    row = BOOK.rate("Power feed").changed(interrupts=0.0)
    book = BOOK.changed(rates=(row,))
    (found,) = group_failures(graph, feeds, book)
    assert (found.failures_per_year, found.interruptions_per_year) == (0.56, 0.0)
    years = reliability_forecast(fabric, book, ForecastOptions(POLICY, years=50), groups=(found,))
    assert years.interruptions_per_year == years.lost_h["waiting"] == 0


# --- refused -----------------------------------------------------------------------------------


def made(**changes: object) -> RiskGroups:
    values: dict[str, object] = {
        "kind": "rack",
        "names": ("rack-0", "rack-1"),
        "node_group": np.array([0, 1]),
        "node": np.array([5, 7]),
        "link_group": NO_NUMBERS,
        "link": NO_NUMBERS,
    }
    return RiskGroups(**(values | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"node_group": np.array([0, 2])}, "memberships name group 0 to 2: there are 2"),
        ({"node_group": np.array([0, -1])}, "memberships name group -1 to 0"),
        ({"node": np.array([5])}, "2 groups, 1 members: give pairs"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(changes: dict[str, Ints], message: str) -> None:
    assert len(made()) == 2
    with pytest.raises(InputError, match=message):
        made(**changes)
