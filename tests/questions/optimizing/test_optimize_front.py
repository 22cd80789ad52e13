"""Fronts, knees, and the proof that leaves out searches, with costs of any kind."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netplan
from netplan.performance.iteration_model import ITERATION_MODELS
from netplan.performance.pareto import Point, comparable, knee, pareto_front
from netplan.performance.plan import SearchResult
from netplan.performance.proof import Levels, ProofResult, time_designs
from netplan.performance.search import PlanSearch
from netplan.performance.setting import TrainedModel
from netplan.scenarios.reading import sizing_on
from netplan.topologies.build import build_fabric
from netplan.topologies.specs import FABRICS
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.models import MODELS

POINTS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12)


def beats(one: Point, other: Point) -> bool:
    return one[0] <= other[0] and one[1] <= other[1] and one != other


@given(POINTS)
def test_front_holds_exactly_what_nothing_beats(points: list[Point]) -> None:
    front = pareto_front(points)
    kept = {at for group in front for at in group}
    assert kept == {
        at for at, one in enumerate(points) if not any(beats(other, one) for other in points)
    }
    assert all(points[at] == points[group[0]] for group in front for at in group)
    values = [points[group[0]] for group in front]
    assert values == sorted(set(values))


@given(POINTS, st.tuples(st.integers(0, 6), st.integers(0, 6)))
def test_a_further_point_removes_only_what_it_beats(points: list[Point], more: Point) -> None:
    before = {points[group[0]] for group in pareto_front(points)}
    grown = [*points, more]
    after = {grown[group[0]] for group in pareto_front(grown)}
    assert before - after == {one for one in before if beats(more, one)}
    assert after - before <= {more}


def test_rounding_noise_is_no_gain() -> None:
    assert comparable(0.1 + 0.2) == 0.3
    assert comparable(3.1334105853098846) == comparable(3.1334105853098842)
    assert comparable(3.13341058531) != comparable(3.13341058532)


@given(POINTS)
def test_the_knee_lies_below_the_line_between_the_ends(points: list[Point]) -> None:
    front = [points[group[0]] for group in pareto_front(points)]
    bend = knee(front)
    if bend is None:
        return
    (left, top), (right, bottom), (x, y) = front[0], front[-1], front[bend]
    assert left < x < right
    assert y < top + (bottom - top) * (x - left) / (right - left)


def test_a_front_that_bends_outward_has_no_knee() -> None:
    assert knee([(0, 10), (9, 9), (10, 0)]) is None


TRAINED = {
    name: TrainedModel.make(
        ACCELERATORS.load("h100-80gb"),
        MODELS.load("gpt-22b"),
        ITERATION_MODELS.load(name),
        batch=96,
    )
    for name in ("ptd-p", "4d")
}


@cache
def pool(gpus: int) -> tuple[Levels, ...]:
    """Levels of all fabrics, some of which no plan fills."""
    levels: dict[Levels, None] = {}
    names = [
        name
        for name in FABRICS.paths()
        # Others take sizes of their own only.
        if name not in ("bcube", "frontier", "ring-8-mesh-16", "palm-wafer", "grayskull")
    ]
    for name in names:
        for hb_size in (1, 8, 24):
            for ratio in (1.0, 3.0):
                sizing = sizing_on(
                    ACCELERATORS.load("h100-80gb"),
                    gpus=gpus,
                    radix=16,
                    hb_size=hb_size,
                    oversubscription=ratio,
                )
                levels[build_fabric(FABRICS.load(name), sizing).levels] = None
    return tuple(one for one in levels if one)


def front_of(
    designs: Sequence[tuple[float, Levels]], found: dict[Levels, ProofResult]
) -> set[object]:
    timed = {
        (cost, levels): (cost, comparable(result.plans[0].iteration_time_s))
        for cost, levels in designs
        if isinstance(result := found.get(levels), SearchResult)
    }
    keys, points = list(timed), list(timed.values())
    return {keys[at] for group in pareto_front(points) for at in group}


@settings(deadline=None, max_examples=50)
@given(st.data(), st.sampled_from(("ptd-p", "4d")), st.sampled_from((192, 200, 336)))
def test_pruning_never_changes_the_front(data: st.DataObject, name: str, gpus: int) -> None:
    # Costs have nothing to do with the levels here, and often tie.
    levels = st.sampled_from(pool(gpus))
    designs = data.draw(st.lists(st.tuples(st.integers(1, 8), levels), min_size=1, max_size=24))
    known, _ = time_designs(PlanSearch(TRAINED[name]), designs, prune=False)
    found, searches = time_designs(PlanSearch(TRAINED[name]), designs)
    assert front_of(designs, found) == front_of(designs, known)
    assert searches.run + searches.spared == searches.levels == len({one for _, one in designs})


@pytest.mark.parametrize("name", ["ptd-p", "4d"])
def test_cheap_fast_networks_spare_the_rest(name: str) -> None:
    levels = pool(192)
    training = TRAINED[name]
    known, _ = time_designs(PlanSearch(training), [(1.0, one) for one in levels], prune=False)
    times_s = {
        one: result.plans[0].iteration_time_s
        for one, result in known.items()
        if isinstance(result, SearchResult)
    }
    fastest = min(times_s, key=times_s.__getitem__)
    _, searches = time_designs(
        PlanSearch(training), [(1.0, fastest), *((2.0, one) for one in levels)]
    )
    assert searches.spared > len(levels) / 4


def test_price_of_gear_at_which_hb_domains_are_even() -> None:
    asked: dict[str, Any] = {"gpus": 576, "model": "gpt-22b", "batch": 512, "hb_sizes": (8, 72)}
    asked |= {"fabrics": ("rail-only",), "prices": "2026", "iteration_model": "ptd-p"}
    servers, rack = netplan.optimize("rail-only-paper", **asked, radices=(64, 128)).sizes.rows
    assert (servers.name, rack.name, rack.trust) == ("HB 8", "HB 72", "derived")
    # Of each GB/s one way: a switch with its tray at 5.79 USD, copper at 2.28; a GPU has 450.
    gear = 450 * (5.79 + 2.28)
    assert rack.gear.base == pytest.approx(gear)
    even = rack.pays_below
    assert even is not None
    # A year: 8.5 % over 6 years of the price, energy at PUE 1.42, 576 GH200 at 1.49 USD an hour.
    due = 0.085 / (1 - 1.085**-6)
    for size, price in ((servers, 0), (rack, even - gear)):
        energy = 1.42 * 0.0869 * 8.76 * (size.design.row.power_w or 0)
        year = due * (size.design.value("cost") + 576 * price) + energy + 576 * 8760 * 1.49
        per_iteration = size.best.iteration_time_s * year / (365 * 86_400)
        assert per_iteration == pytest.approx(servers.per_iteration, rel=1e-3)
    for price, best in ((0.98 * even, "HB 72"), (1.02 * even, "HB 8")):
        ends = {
            f"prices.prices.{part}.{end}": f"{each * price / gear}"
            for part, each in (("hb-switch", 5.79), ("hb-copper", 2.28))
            for end in ("low", "base", "high")
        }
        answer = netplan.optimize("rail-only-paper", **asked, overrides=ends, radices=(64, 128))
        assert answer.sizes.best
        assert answer.sizes.best.name == best
