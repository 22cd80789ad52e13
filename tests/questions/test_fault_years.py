"""Years of failures and the scenario are one model: repairs, idle domains, groups, slowdowns."""

from math import exp
from pathlib import Path

import numpy as np
import pytest
from msgspec import Struct

from netplan.answers.faults_rows import FabricFaults, ScenarioImpact
from netplan.faults.damage.impact import Impact, Subject, single_failures, single_parts
from netplan.faults.damage.inventory import Inventory, Parts
from netplan.faults.years.checkpoints import exact_time_ratio
from netplan.faults.years.effects import (
    FailureEffects,
    effect_of,
    effects_of,
    kinds_of_units,
    searched,
)
from netplan.faults.years.forecast import (
    CheckpointPolicy,
    ForecastOptions,
    ReliabilityForecast,
    reliability_forecast,
)
from netplan.faults.years.group_failures import group_failures
from netplan.faults.years.rates import FAILURE_BOOKS, FailureBook, unit_counts
from netplan.questions.cost import cost
from netplan.questions.faults import Faults, faults
from netplan.setup.faults_inputs import read_shared, risk_groups
from netplan.topologies.build import build_fabric

BOOK = FAILURE_BOOKS.load("2026").placed(8)
JOB = CheckpointPolicy(10 / 3600, 10 / 60)
KNOWN = ("gpu", "memory", "nic", "transceiver", "link", "switch")
"""Kinds of rows of the book whose parts the scenario fails one by one."""


def asked(name: str = "rail-optimized", **question: object) -> FabricFaults:
    common = {"gpus": 512, "radix": 32, "hb_size": 8, "model": "gpt-22b", "batch": 512}
    return faults(
        "rail-only-paper", **(common | {"years": 400, "fabrics": (name,)} | question)
    ).fabrics[0]


class Case(Struct, frozen=True):
    """A fabric with the impact of one part of each kind."""

    subject: Subject
    impacts: dict[str, Impact]
    effects: FailureEffects

    def forecast(self, book: FailureBook, **options: object) -> ReliabilityForecast:
        common = {"checkpoints": JOB, "years": 2000}
        chosen = ForecastOptions(**(common | options))  # type: ignore[arg-type]
        return reliability_forecast(self.subject.fabric, book, chosen, effects=self.effects)


def subject_of(name: str, **question: object) -> Subject:
    failing = Faults.make("rail-only-paper", radix=32, hb_size=8, fabrics=(name,), **question)
    shared = read_shared(failing)
    spec = shared.specs[name]
    return Subject(spec, shared.sizing, build_fabric(spec, shared.sizing), shared.search)


def case(name: str) -> Case:
    subject = subject_of(name, gpus=512, model="gpt-22b", batch=512)
    fabric, inventory = subject.fabric, Inventory(subject.graph)
    parts = single_parts(inventory)
    impacts = [subject.impact(inventory.damage([one])) for one in parts]
    singles = list(single_failures(inventory, zip(parts, impacts, strict=True)))
    units, slowness = unit_counts(fabric), searched(subject)
    effects = effects_of(fabric, units, singles=singles, slowness=slowness)
    return Case(subject, {one.kind: one.impact for one in singles}, effects)


def test_one_part_stands_for_most_of_its_kind() -> None:
    """Every sixteenth domain begins a pipeline and sends less: the middle one is such a one."""
    subject = subject_of("dragonfly", gpus=1024, batch=1024)
    inventory = Inventory(subject.graph)
    one = next(one for one in single_parts(inventory) if one.kind.name == "nic")
    drawn = np.random.default_rng(0).choice(one.kind.numbers, 9, replace=False)
    shares = [
        subject.impact(inventory.damage([Parts(one.kind, np.array([part]))])).network_share
        for part in drawn
    ]
    found = subject.impact(inventory.damage([one])).network_share
    assert found == pytest.approx(np.median(shares))
    assert found < 1


@pytest.fixture(scope="module", params=["rail-optimized", "rail-only", "dragonfly", "torus-3d"])
def one(request: pytest.FixtureRequest) -> Case:
    return case(request.param)


def changed_repairs(book: FailureBook, times: float) -> FailureBook:
    """The book with all repairs so many times as long."""
    rows = [
        row.changed(**{end: times * getattr(row.range, end) for end in ("low", "base", "high")})
        for row in book.repairs
    ]
    return book.changed(repairs=tuple(rows))


# --- one model ---------------------------------------------------------------------------------


def test_the_scenario_weighted_by_its_rates_is_what_the_years_lose(one: Case) -> None:
    book = BOOK.changed(rates=tuple(row for row in BOOK.rates if row.kind in KNOWN))
    units = unit_counts(one.subject.fabric)
    kinds = kinds_of_units(one.subject.fabric, one.impacts)
    lost = 0.0
    for row in book.rates:
        parts = kinds[row.unit]
        weight = {kind: len(Inventory(one.subject.graph).kinds[kind].numbers) for kind in parts}
        for kind in parts:
            slowdown = one.impacts[kind].slowdown
            under = row.rate_per_year.base * row.count_in(units) * book.repair_h(row.kind).base
            share = 1 - 1 / (1 + slowdown) if slowdown is not None else 1.0
            lost += under / 8760 * weight[kind] / sum(weight.values()) * share
    # No restart, which repairs would overlap; 2.5 % of the time two failures at once.
    job = CheckpointPolicy(1 / 60, 0.0)
    found = one.forecast(book, checkpoints=job, years=4000)
    never = exact_time_ratio(job.times_at(found.mtbf_h), found.mtbf_h)
    assert lost > 0
    assert never - found.goodput_closed_form == pytest.approx(lost * never, rel=0.03)
    cost_h = found.slowed_h + found.lost_h["waiting"]
    assert cost_h == pytest.approx(8760 * lost * never, rel=0.06)


def test_a_failed_gpu_costs_the_same_alone_and_in_the_years(one: Case) -> None:
    gpu = one.impacts["gpu"]
    assert gpu.slowdown is not None
    effect = effect_of(gpu, one.effects.slowness)
    (found,) = one.effects.of(BOOK.rate("GPU"))
    assert found[1] == effect
    missing = one.effects.slowness(effect.domains, effect.whole)
    assert missing * (1 + effect.slowdown) == pytest.approx(1 + gpu.slowdown)


def test_racks_of_the_scenario_are_those_of_the_years() -> None:
    found = asked(gpus_per_rack=32, fail=["rack-3"], years=20)
    assert isinstance(found.scenario, ScenarioImpact)
    assert [cause.cause for cause in found.forecast.causes if cause.cause == "Rack"] == ["Rack"]
    question = Faults.make(
        "rail-only-paper",
        gpus=512,
        radix=32,
        hb_size=8,
        model="gpt-22b",
        batch=512,
        gpus_per_rack=32,
    )
    shared = read_shared(question)
    base = case("rail-optimized")
    groups = risk_groups(question, base.subject.graph, shared)
    slowness = base.effects.slowness
    failing = group_failures(
        base.subject.graph,
        groups,
        shared.book.placed(8),
        effects_of=lambda damages: [
            effect_of(base.subject.impact(one), slowness) for one in damages
        ],
    )
    racks = next(kind for kind in failing if kind.name == "Rack")
    gpus = max(racks.causes, key=lambda cause: cause.rate_per_year).effect
    assert gpus.domains == 4
    impact = found.scenario.impact
    assert impact.slowdown is not None
    assert slowness(4, True) * (1 + gpus.slowdown) == pytest.approx(1 + impact.slowdown)


def test_slowdowns_enter_the_goodput_and_its_price() -> None:
    found = asked().forecast
    assert found.goodput < found.effective_time_ratio
    assert found.slowed_h == pytest.approx(8760 * (found.effective_time_ratio - found.goodput))
    assert found.goodput == pytest.approx(found.goodput_closed_form, rel=0.002)


# --- repairs, waiting, idle domains ------------------------------------------------------------


def test_longer_repairs_cost_more(one: Case) -> None:
    ratios = []
    for wait in (False, True):
        found = [one.forecast(changed_repairs(BOOK, times), wait=wait) for times in (0.5, 1, 4)]
        goodput = [years.goodput for years in found]
        assert goodput == sorted(goodput, reverse=True)
        assert goodput[0] > goodput[-1]
        ratios.append(goodput[-1])
        assert len({years.interruptions_closed_form for years in found}) == 1
    assert ratios[1] < ratios[0]


def test_waiting_for_repairs_in_closed_form() -> None:
    going, waiting = (asked(while_down=how).forecast for how in ("go-on", "wait"))
    # The one feed takes all domains, 0.28 times a year for 6 h: nothing is left to go on.
    assert going.lost_h["waiting"] == pytest.approx(0.28 * 6, rel=0.3)
    assert waiting.effective_time_ratio == pytest.approx(waiting.effective_closed_form, abs=0.001)
    assert waiting.effective_closed_form < going.effective_closed_form
    assert waiting.goodput < going.goodput


def test_idle_domains_are_never_worse_and_are_paid_for() -> None:
    found = [asked(spare_domains=number, prices="2026").forecast for number in (0, 1, 2, 4)]
    goodput = [years.goodput for years in found]
    assert goodput == sorted(goodput)
    assert goodput[0] < goodput[1]
    prices = [years.network_cost_per_effective_gpu_hour for years in found]
    assert prices[0] is not None
    for number, years, price in zip((0, 1, 2, 4), found, prices, strict=True):
        # 64 domains, and some that stand by at the same price.
        expected = prices[0] * goodput[0] * (1 + number / 64) / years.goodput
        assert price == pytest.approx(expected)
        assert years.idle_domains == number
    assert found[0].idle_domains_needed == 1


def test_no_switch_down_follows_the_rates() -> None:
    for end, rate, hours in (("low", 0.00612, 0.5), ("base", 0.00612, 4), ("high", 0.0808, 32.5)):
        found = asked(rates=end, years=2, timing=False)
        expected = exp(-found.switches * rate * hours / 8760)
        assert found.forecast.no_switch_down == pytest.approx(expected)


def test_spread_from_year_to_year_beside_the_interval_of_the_mean() -> None:
    found = asked(years=2000).forecast
    mean = found.interruptions_closed_form
    # A Poisson number of mean 87: 1.96 standard deviations of 9.4, over the years and over 2,000.
    spread = 1.96 * mean**0.5
    assert found.interruptions_low == pytest.approx(mean - spread, abs=2)
    assert found.interruptions_high == pytest.approx(mean + spread, abs=2)
    assert found.interruptions_half_width == pytest.approx(spread / 2000**0.5, rel=0.3)


def test_without_times_the_share_of_domains_that_is_left_counts() -> None:
    found = asked(timing=False).forecast
    assert 0 < found.slowed_h < found.domains_down * 8760 / 64


def test_own_book(tmp_path: Path) -> None:
    text = """name: own
title: One kind of failure
source: none
date: "2026"
rates:
  - {cause: GPU, kind: gpu, unit: gpu, base: 0.5, date: "2026", source: own, confidence: low}
repairs:
  - {kind: gpu, base: 24, date: "2026", source: own, confidence: low}
"""
    path = tmp_path / "own.yaml"
    path.write_text(text)
    found = asked(failures=str(path), while_down="wait", years=2000).forecast
    # 256 failures a year of 24 h: 0.7014 under repair, none of them e^-0.7014 of the time.
    assert found.domains_down == pytest.approx(256 * 24 / 8760)
    counts = exact_time_ratio(JOB.times_at(8760 / 256), 8760 / 256) * exp(-256 * 24 / 8760)
    assert found.effective_closed_form == pytest.approx(counts)
    assert found.effective_time_ratio == pytest.approx(counts, abs=2 * found.effective_half_width)
    assert found.idle_domains_needed == 3


def test_idle_domains_have_a_price_both_ways() -> None:
    found = asked(prices="2026", years=2, service_level=0.9999)
    needed = found.forecast.idle_domains_needed
    assert needed > 1
    present = compare_price(512)
    assert found.idle_price.present == pytest.approx(present * needed * 8 / 512)
    assert found.idle_price.larger == pytest.approx(compare_price(512 + needed * 8) - present)
    assert asked("torus-3d", prices="2026", years=2).idle_price.larger is None
    # Where one domain is all there is, none of the present ones can idle.
    assert asked(hb_size=512, years=2).idle_price.present is None
    assert asked(hb_size=512, years=2).forecast.idle_domains_needed == 1


@pytest.mark.parametrize("name", ["rail-optimized", "rail-only", "dragonfly"])
def test_domains_are_down_as_long_without_iteration_times(name: str) -> None:
    untimed, timed = (asked(name, timing=timing, years=2).forecast for timing in (False, True))
    assert untimed.domains_down == pytest.approx(timed.domains_down)


def compare_price(gpus: int) -> float:
    bill = cost(
        "rail-only-paper",
        gpus=gpus,
        radix=32,
        hb_size=8,
        prices="2026",
        fabrics=("rail-optimized",),
    ).bills[0]
    return bill.capital.base
