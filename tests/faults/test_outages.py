"""Simulated outages: against closed forms, and what must hold."""

from itertools import pairwise
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.errors import InputError, UnknownNameError
from netplan.faults.damage.cuts import CutOption
from netplan.faults.years import outages
from netplan.faults.years.checkpoints import CheckpointTimes, exact_time_ratio
from netplan.faults.years.effects import EXACT, searched
from netplan.faults.years.forecast import causes_of
from netplan.faults.years.outages import (
    REASONS,
    Cause,
    Effect,
    Exposure,
    Mean,
    Outages,
    Repair,
    ThroughputTable,
    simulate_outages,
)
from netplan.faults.years.rates import FAILURE_BOOKS
from netplan.faults.years.reliability import mtbf_h, outstanding, service_level
from netplan.questions.faults import Faults
from netplan.records import replace
from netplan.setup.faults_inputs import read_shared, subject_of
from netplan.topologies.specs import FABRICS

JOB = CheckpointTimes(0.5, 0.02, 0.3)
GPUS = Cause("GPU slot", 0.17, 4096)  # 696 interruptions a year, one each 12.6 h
SERVER = Cause("server", 0.5, 100, lead_h=300.0, pool="servers")
SEEDS = range(5)


def run(
    exposure: Exposure,
    job: CheckpointTimes = JOB,
    *,
    years: int = 200,
    seed: int = 1,
    repair: Repair = "exponential",
) -> Outages:
    return simulate_outages(
        exposure, job, years=years, rng=np.random.default_rng(seed), repair=repair
    )


def agrees(found: Mean, exact: float) -> bool:
    """Within four standard errors, twice the half-width of the 95 % interval."""
    return abs(found.value - exact) <= 2 * found.half_width


def found_at_once(found: Outages) -> float:
    """Share of all failures that find a spare on the shelf [1]."""
    return float(found.met.sum() / found.demands.sum())


# --- closed forms ------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "job", [JOB, CheckpointTimes(0.1, 0.001, 0.05), CheckpointTimes(6.0, 1.0, 5.0)], ids=str
)
def test_effective_time_is_the_exact_one(job: CheckpointTimes, seed: int) -> None:
    found = run(Exposure((GPUS,)), job, seed=seed)
    exact = exact_time_ratio(job, mtbf_h(0.17 * 4096))
    assert agrees(found.effective_time_ratio, exact)
    assert agrees(found.interruptions_a_year, 0.17 * 4096)
    # 200 years x 696 interruptions: 0.3 % of the mean at 95 %, with room.
    assert found.interruptions_a_year.relative < 0.01


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("repair", ["fixed", "exponential"])
@pytest.mark.parametrize("spares", [0, 1, 2, 4])
def test_service_level_is_palms(spares: int, repair: Repair, seed: int) -> None:
    found = run(Exposure((SERVER,), {"servers": spares}), years=1000, seed=seed, repair=repair)
    failures = outstanding(0.5, 100, 300.0)  # 50 a year x 300 h / 8760 h = 1.712
    assert agrees(found.service_level("servers"), service_level(spares, failures))
    at_once = service_level(spares - 1, failures) if spares else 0.0
    assert found_at_once(found) == pytest.approx(at_once, abs=0.02)


@pytest.mark.parametrize("seed", SEEDS)
def test_waiting_for_each_repair_is_availability(seed: int) -> None:
    # No spares, nothing else lost, failures go on during repairs: the job is up while no server
    # is down, exp(-1.712) = 0.1804 of the time.
    job = CheckpointTimes(1e-3, 0.0, 0.0)
    found = run(Exposure((SERVER,), {"servers": 0}), job, years=1000, seed=seed)
    assert agrees(found.effective_time_ratio, float(np.exp(-outstanding(0.5, 100, 300.0))))


@pytest.mark.parametrize("seed", SEEDS)
def test_llama_3_is_one_of_its_runs(seed: int) -> None:
    book = FAILURE_BOOKS.load("llama-3-54-days")
    found = simulate_outages(
        Exposure(causes_of(book, {"gpu": 16_384})),
        CheckpointTimes(0.13, 10 / 3600, 10 / 60),
        years=300,
        rng=np.random.default_rng(seed),
        hours=54 * 24,
    )
    low, high = found.interruptions_interval()
    # 419 +- 1.96 x sqrt(419) = 379 to 459.
    assert low == pytest.approx(379, abs=8)
    assert high == pytest.approx(459, abs=8)
    mtbf_h = found.hours * found.years / found.interruptions.sum()
    assert mtbf_h == pytest.approx(3.093, rel=0.01)
    for row in book.rates:
        assert row.observed is not None
        low, high = found.interruptions_interval(row.cause)
        assert low <= row.observed.events <= high
    assert found.effective_time_ratio.value > 0.9


# --- what must hold ----------------------------------------------------------------------------

causes = st.builds(
    Cause,
    st.just("part"),
    st.floats(0.0, 3.0),
    st.integers(0, 200),
    interrupts=st.floats(0.0, 1.0),
    repair_h=st.floats(0.0, 500.0),
    lead_h=st.floats(0.0, 500.0),
    pool=st.sampled_from(["", "shelf"]),
    effect=st.builds(
        Effect, st.integers(0, 4), st.booleans(), st.booleans(), st.sampled_from([0.0, 0.1, 2.0])
    ),
)
PACE = ThroughputTable(
    1, False, np.array([0, 1, 2, 5]), np.array([[1, 1.1, 1.2, 2], [1, 1.2, 1.3, 2]])
)


@settings(max_examples=60)
@given(
    st.lists(causes, max_size=4),
    st.builds(CheckpointTimes, st.floats(0.05, 50.0), st.floats(0.0, 5.0), st.floats(0.0, 50.0)),
    st.sampled_from(["fixed", "exponential"]),
    st.floats(0.0, 1.0),
    st.sampled_from([ThroughputTable(), ThroughputTable(2, wait=True), PACE]),
)
def test_hours_add_up_and_shares_are_shares(
    parts: list[Cause], job: CheckpointTimes, repair: Repair, share: float, pace: ThroughputTable
) -> None:
    held = sum(cause.count for cause in parts if cause.pool)
    named = tuple(replace(cause, name=f"part {number}") for number, cause in enumerate(parts))
    found = run(Exposure(named, {"shelf": min(2, held)}, pace, share), job, years=4, repair=repair)
    assert found.time_h.sum(axis=1) == pytest.approx(np.full(4, 8760.0))
    assert found.time_h.min() > -1e-6
    assert (found.interruptions <= found.failures).all()
    assert 0 <= found.goodput.value <= found.effective_time_ratio.value + 1e-12 <= 1 + 1e-9
    assert (found.met <= found.demands).all()
    assert -1e-6 <= found.short_h.min() <= found.short_h.max() <= 8760 + 1e-6


def test_more_failures_never_raise_goodput() -> None:
    ratios = [
        run(Exposure((Cause("GPU", rate, 4096),)), years=50).goodput
        for rate in (0.0, 0.05, 0.2, 0.8, 3.2)
    ]
    assert ratios[0].value == pytest.approx(JOB.interval_h / JOB.cycle_h)
    for seldom, often in pairwise(ratios):
        apart = seldom.value - often.value
        assert apart > often.half_width + seldom.half_width


@pytest.mark.parametrize("repair", ["fixed", "exponential"])
def test_more_spares_never_lower_service_or_goodput(repair: Repair) -> None:
    found = [
        run(Exposure((SERVER,), {"servers": spares}), repair=repair) for spares in (0, 1, 2, 4, 8)
    ]
    # The seed draws the same failures, so that this holds year by year; useful hours up to a cycle
    # for each of some 50 stops, which a shift of the restart may cost.
    for few, many in pairwise(found):
        assert (many.short_h <= few.short_h + 1e-6).all()
        assert (many.time_h[:, 0] >= few.time_h[:, 0] - JOB.cycle_h * 60).all()
        assert many.goodput.value >= few.goodput.value


def test_same_seed_same_answer() -> None:
    exposure = Exposure((GPUS, SERVER), {"servers": 1})
    first, again, other = (run(exposure, seed=seed, years=20) for seed in (3, 3, 4))
    assert (first.time_h == again.time_h).all()
    assert (first.failures == again.failures).all()
    assert (first.time_h != other.time_h).any()


def test_chunks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    exposure = Exposure((GPUS, SERVER), {"servers": 1})
    exact = service_level(1, outstanding(0.5, 100, 300.0))
    for size in (500, 1_000_000):
        monkeypatch.setattr(outages, "CHUNK_EVENTS", size)
        found = run(exposure, years=600)
        assert found.years == 600
        assert agrees(found.service_level("servers"), exact)


def test_a_job_on_half_the_cluster_is_hit_half_as_often() -> None:
    found = run(Exposure((GPUS,), share=0.5))
    assert agrees(found.interruptions_a_year, 0.17 * 4096 / 2)
    assert agrees(Mean.of(found.failures.sum(axis=1)), 0.17 * 4096)


def test_a_failure_that_does_not_interrupt_slows() -> None:
    # 100 links fail twice a year for 10 h each: none is down exp(-200 x 10 / 8760) = 79.6 % of the
    # time; else an iteration takes 5 % longer, of one as of several.
    effect = Effect(slowdown=0.05)
    link = Cause("link", 2.0, 100, interrupts=0.0, repair_h=10.0, effect=effect)
    for repair in ("fixed", "exponential"):
        found = run(Exposure((link,)), years=2000, repair=repair)
        whole = JOB.interval_h / JOB.cycle_h
        assert found.effective_time_ratio.value == pytest.approx(whole)
        assert agrees(found.goodput, whole * (1 - (1 - np.exp(-2000 / 8760)) * (1 - 1 / 1.05)))
        assert found.interruptions.sum() == 0


def test_nothing_fails() -> None:
    for exposure in (Exposure(()), Exposure((Cause("GPU", 0.0, 8),)), Exposure((GPUS,), share=0)):
        found = run(exposure, years=3)
        assert not found.interruptions.any()
        assert found.effective_time_ratio.value == pytest.approx(0.5 / 0.52)
    assert found.failures.sum() > 0


def test_everything_is_always_down() -> None:
    # 100 failures a year of one part that takes 500 h to repair: never up.
    found = run(Exposure((Cause("part", 100.0, 50, lead_h=500.0, pool="p"),), {"p": 0}), years=3)
    assert found.effective_time_ratio.value == 0
    assert found.lost_h["waiting"].value == pytest.approx(8760)
    assert found.service_level("p").value == pytest.approx(0, abs=1e-9)


# --- groups ------------------------------------------------------------------------------------


def test_a_rack_takes_all_its_domains_at_once() -> None:
    # 25 racks of four domains, 0.4 failures a year each, 50 h: with four idle domains the job waits
    # while two racks are down, with three for every rack. 10 x 50 / 8760 = 0.0571 are down.
    rack = Cause("rack", 0.4, 25, repair_h=50.0, effect=Effect(domains=4, whole=True))
    down = 10 * 50 / 8760
    for idle, level in ((4, service_level(1, down)), (3, service_level(0, down))):
        found = run(Exposure((rack,), throughput=ThroughputTable(idle, wait=True)), years=5000)
        assert agrees(Mean.of(found.time_h[:, 4]), 8760 * (1 - level))


def test_causes_of_one_name_are_one_column() -> None:
    # 100 servers at 0.4 a year: 40. Ten racks at 0.5, three of which stop nothing: 3.5 of 5.
    racks = [Cause("rack", 0.5, 7), Cause("rack", 0.5, 3, interrupts=0.0)]
    found = run(Exposure((Cause("server", 0.4, 100), *racks)), years=2000)
    assert found.causes == ("server", "rack")
    assert agrees(found.interruptions_a_year, 43.5)
    assert agrees(found.interruptions_of("rack"), 3.5)
    assert agrees(Mean.of(found.failures[:, 1]), 5.0)


# --- means -------------------------------------------------------------------------------------


def test_mean_by_hand() -> None:
    # 1, 2, 3, 4: s = sqrt(5/3) = 1.291, t(3) = 3.182, half-width 3.182 x 1.291 / 2 = 2.054.
    mean = Mean.of(np.array([1.0, 2.0, 3.0, 4.0]))
    assert (mean.value, mean.years) == (2.5, 4)
    assert mean.half_width == pytest.approx(2.054, abs=1e-3)
    assert abs(mean.value - 2.5) <= mean.half_width < abs(mean.value - 5.0)
    assert str(mean) == "2.5 +- 2.1"
    # 2.054 / 2.5 = 82 %; 1 % takes 4 x 82^2 years.
    assert mean.years_for(0.01) == pytest.approx(4 * (2.054 / 0.025) ** 2, rel=1e-3)


def test_convergence_falls_with_the_root_of_the_years() -> None:
    few, many = (run(Exposure((GPUS,)), years=years) for years in (100, 10_000))
    ratio = few.interruptions_a_year.half_width / many.interruptions_a_year.half_width
    assert ratio == pytest.approx(10, rel=0.25)
    asked = few.interruptions_a_year.years_for(0.001)
    assert asked == pytest.approx(many.interruptions_a_year.years_for(0.001), rel=0.5)


def test_one_year_has_no_interval() -> None:
    mean = Mean.of(np.array([3.0]))
    assert mean.half_width == mean.relative == mean.years_for(0.01) == inf
    assert Mean.of(np.zeros(5)).relative == 0
    assert Mean.of(np.zeros(5)).years_for(0.01) == 1
    assert str(mean) == "3 +- inf"


def test_coverage_of_the_interval() -> None:
    # 95 % of the intervals hold the exact value: of 200, 181 to 198 at four standard errors.
    exact = exact_time_ratio(JOB, mtbf_h(0.17 * 4096))
    means = [
        run(Exposure((GPUS,)), years=20, seed=seed).effective_time_ratio for seed in range(200)
    ]
    hits = sum(abs(exact - mean.value) <= mean.half_width for mean in means)
    assert 178 <= hits <= 199


# --- refused -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Cause("GPU", -1.0, 8), "GPU: a rate of -1: give 0 or more"),
        (lambda: Cause("GPU", inf, 8), "GPU: a rate of inf"),
        (lambda: Cause("GPU", 1.0, 8, repair_h=-1), "GPU: a repair time of -1"),
        (lambda: Cause("GPU", 1.0, -8), "GPU: -8 units"),
        (lambda: Cause("GPU", 1.0, 8, interrupts=30), "interrupts is a probability, got 30"),
        (lambda: Cause("GPU", 1.0, 8, lead_h=inf), "GPU: a delivery time of inf"),
        (lambda: Effect(slowdown=-0.1), "takes 0 HB domains and slows by -0.1: give 0 or more"),
        (
            lambda: Cause("GPU", 1.0, 8, interrupts=0.5, effect=Effect(slowdown=inf)),
            "GPU: the job cannot go on: let all failures interrupt it",
        ),
        (
            lambda: Exposure((Cause("GPU", 1.0, 8, pool="shelf"),)),
            "GPU takes spares from 'shelf', known: none: say how many",
        ),
        (
            lambda: Exposure((Cause("GPU", 1.0, 8, pool="shelf"),), {"shelf": 9}),
            "9 spares of 'shelf' for 8 parts in service: give 0 to 8",
        ),
        (
            lambda: Exposure((Cause("GPU", 1.0, 8, pool="shelf"),), {"shelf": -1}),
            "-1 spares of 'shelf'",
        ),
        (lambda: Exposure((), share=1.5), "the share of the cluster .* got 1.5"),
        (lambda: run(Exposure((GPUS,)), years=0), "0 years of 8760 h: give at least one"),
        (lambda: run(Exposure((GPUS,)), CheckpointTimes(0, 0, 0)), "a checkpoint interval of 0 h"),
        (
            lambda: run(Exposure((Cause("GPU", 100.0, 1_000_000),))),
            "100,000,000 failures a year, .* are more than 5,000,000: check the rates",
        ),
    ],
)
def test_impossible_input_is_refused(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(InputError, match=message):
        make()


def test_unknown_names_offer_the_nearest() -> None:
    found = run(Exposure((GPUS, SERVER), {"servers": 1}), years=1)
    with pytest.raises(UnknownNameError, match="unknown cause 'serve': did you mean server"):
        found.interruptions_of("serve")
    with pytest.raises(UnknownNameError, match="unknown pool 'server'"):
        found.service_level("server")
    assert set(found.lost_h) == set(REASONS[1:])


def test_free_plans_that_do_not_fit_leave_no_room_on_fewer_gpus() -> None:
    """Beside leaving out more and more domains, which plans that must divide may need."""
    question = Faults.make(
        "hgx-h100", gpus=24, hb_size=3, radix=16, fabrics=("slim-fly",), model="llama-3-70b"
    )
    subject = subject_of(FABRICS.load("slim-fly"), question, read_shared(question))
    assert subject.intact is not None
    slowness, domains = searched(subject), subject.sizing.domains

    def tried(missing: int, whole: bool) -> float:  # noqa: FBT001 - as Slowness says
        assert subject.intact is not None
        for out in range(missing, missing + 2 * EXACT):
            plans = subject.best_at(CutOption(out, 3 if whole else 1, 1.0, 1.0))
            if plans is not None:
                return plans.time_s / subject.intact.time_s
        return inf

    cases = [(missing, whole) for whole in (False, True) for missing in range(1, domains)]
    found = [slowness(*case) for case in cases]
    assert found == [tried(*case) for case in cases]
    assert inf in found
    # From many missing domains to few, what is known of fewer says nothing.
    again = searched(subject)
    assert [again(*case) for case in reversed(cases)] == found[::-1]
