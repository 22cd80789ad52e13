"""Error bars: which runs have which, where they end, and what two plans share of an error."""

import csv
from itertools import combinations
from pathlib import Path

import pytest

from netplan.calibration.published import published_runs
from netplan.calibration.runs import MeasuredRun
from netplan.levels import Level
from netplan.performance.calibrated_run import CalibratedRun, CalibrationPart, Factors
from netplan.performance.error_bars import ErrorBar, error_bar, own_times
from netplan.performance.iteration_model import ITERATION_MODELS
from netplan.performance.plan import PlanTime
from netplan.performance.search import search_plans
from netplan.performance.setting import Fixed, Options, TrainedModel
from netplan.performance.stacks import STACKS
from netplan.published.measured_runs import plan_time
from netplan.records import replace
from netplan.reports.schema import plain_data
from netplan.traffic.placement import Degrees, Placement
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.models import MODELS, Model

MODEL = ITERATION_MODELS.load("calibrated")
RUNS = Path("reports/published/measured-runs.csv")
PLAN = Placement((Degrees(tensor=8), Degrees(data=4, pipeline=4)))
BAR = ErrorBar(Factors(low=0.93, high=1.08), Factors(low=0.5, high=1.5), 0.01)


def part() -> CalibrationPart:
    """Parameters of the iteration model."""
    assert MODEL.calibration is not None
    return MODEL.calibration


def run_of(accelerator: str, stack: str, precision: str = "bf16") -> CalibratedRun:
    """An accelerator under a stack."""
    on, by = ACCELERATORS.load(accelerator), STACKS.load(stack)
    return CalibratedRun.of(on, by, part(), precision=precision)  # type: ignore[arg-type]


def gpt(length: int) -> Model:
    """A model with sequences of some length."""
    return replace(MODELS.load("gpt-175b"), sequence_length=length)


def test_factors_are_those_of_the_specification() -> None:
    errors = part().errors
    assert (errors.calibrated.low, errors.calibrated.high) == (0.93, 1.08)
    assert (errors.transferred.low, errors.transferred.high) == (0.93, 1.18)


def test_seventeen_pairs_have_scored_runs() -> None:
    files = (ACCELERATORS.load(name) for name in ACCELERATORS.paths())
    pairs = {(one.name, stack) for one in files if one.training for stack in one.training.scored}
    assert len(pairs) == 17
    assert ("a100-80gb", "megatron-2025") not in pairs
    assert all(stack in STACKS.paths() for _, stack in pairs)


def test_scored_pairs_are_those_of_the_published_runs() -> None:
    with RUNS.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["use"] in ("fit", "dev")]
    known = {(row["accelerator"], row["stack"], row["precision"]) for row in rows}
    found = {
        (name, stack, precision)
        for name in ACCELERATORS.paths()
        if (rates := ACCELERATORS.load(name).training)
        for stack, precisions in rates.scored.items()
        for precision in precisions
    }
    assert found == {(*pair, "bf16" if one == "fp16" else one) for *pair, one in known}


def test_a_scored_pair_has_the_narrow_bar() -> None:
    bar = error_bar(run_of("h100-80gb", "megatron-2025", "fp8"), gpt(4096), PLAN, 1)
    assert (bar.basis, bar.reasons, bar.whole.of(100.0)) == ("calibrated", (), (93.0, 108.0))
    assert bar.whole.of_rate(1.0) == (1 / 1.08, 1 / 0.93)


@pytest.mark.parametrize(
    ("accelerator", "stack", "precision", "reason"),
    [
        ("a100-80gb", "megatron-2025", "bf16", "no run of stack megatron-2025 on a100-80gb"),
        ("h200", "megatron-2025", "bf16", "no run of h200 in bf16"),
        ("gh200-96gb", "megatron-2025", "bf16", "no run of gh200-96gb was scored"),
    ],
)
def test_other_runs_have_the_wide_bar(
    accelerator: str, stack: str, precision: str, reason: str
) -> None:
    bar = error_bar(run_of(accelerator, stack, precision), gpt(4096), PLAN, 1)
    assert bar.basis == "transferred"
    assert bar.whole.of(100.0) == pytest.approx((93.0, 118.0))
    assert [one[: len(reason)] for one in bar.reasons] == [reason]


@pytest.mark.parametrize(
    ("length", "microbatch", "placement", "reason"),
    [
        (1024, 1, PLAN, ""),
        (16_384, 1, PLAN, ""),
        (1023, 2, PLAN, "sequences of 1,023 tokens"),
        (16_385, 1, PLAN, "sequences of 16,385 tokens"),
        (2048, 1, Placement((Degrees(tensor=4, context=2),)), ""),
        (2047, 1, Placement((Degrees(tensor=4, context=2),)), "microbatches of 1,023 tokens"),
        (8192, 1, Placement((Degrees(context=4),)), "context degree 4"),
        (4096, 1, Placement((Degrees(tensor=8), Degrees(data=1500))), ""),
        (4096, 1, Placement((Degrees(tensor=8), Degrees(data=1501))), "12,008 GPUs"),
    ],
)
def test_the_domain_ends_where_runs_do(
    length: int, microbatch: int, placement: Placement, reason: str
) -> None:
    run = run_of("a100-80gb", "megatron-2022")
    bar = error_bar(run, gpt(length), placement, microbatch)
    assert len(bar.reasons) == bool(reason)
    assert all(one.startswith(reason) for one in bar.reasons)


def test_replaced_values_of_the_fit_widen_the_bar() -> None:
    run = run_of("a100-80gb", "megatron-2022")
    same = ("accelerator.network_bytes_per_s", "stack.gradient_bytes", "accelerator.memory_bytes")
    fitted = (
        *("stack.vector", "h100-80gb.training.gemm.bf16", "accelerator.memory_bytes_per_s"),
        "iteration-model.calibration.contention",
    )
    assert run.without(same) == run
    assert len(run.without(fitted).untried) == len(fitted)
    assert error_bar(run.without(fitted[:1]), gpt(2048), PLAN, 1).basis == "transferred"


def test_own_times_are_what_is_left_of_the_smaller_of_each_part() -> None:
    first, second = {"a": 5.0, "b": 3.0}, {"a": 4.0, "b": 3.5, "c": 1.0}
    assert own_times(first, second) == (1.0, 1.5)  # a: 1; b: 0.5 and c: 1
    assert own_times(second, first) == (1.5, 1.0)


def test_an_error_that_is_shared_makes_no_plans_equal() -> None:
    # 3 % apart, one part alone: whole bars overlap by far more than half.
    assert not BAR.equal({"compute": 100.0}, {"compute": 100.0, "bubble": 3.0})
    # As far apart, but 9 s of one part are traded for 12 s of another: 12 < 2 x 9.
    assert BAR.equal({"compute": 91.0, "bubble": 9.0}, {"compute": 91.0, "tensor": 12.0})
    # 19 s for 10 s would be equal by parts (below 2), but 9 % of the whole are not (1.0806).
    assert not BAR.equal({"compute": 90.0, "bubble": 10.0}, {"compute": 90.0, "tensor": 19.0})


def test_plans_of_a_search_carry_their_bars() -> None:
    on, model = ACCELERATORS.load("a100-80gb"), MODELS.load("gpt-175b")
    run = run_of("a100-80gb", "megatron-2022")
    levels = (Level("switch", 8, 300e9, 0, 2.5e-6), Level("switch", 64, 25e9, 0, 5e-6))
    training = TrainedModel.make(on, model, MODEL, calibrated=run)
    inside = Options(fixed=Fixed(tensor=8))
    best, second, *_ = search_plans(training, levels, options=inside, top=2).plans
    said = plain_data(best)
    assert said["error_basis"] == "calibrated"
    assert said["iteration_time_low_s"] == pytest.approx(0.93 * best.iteration_time_s)
    assert said["iteration_time_high_s"] == pytest.approx(1.08 * best.iteration_time_s)
    assert best.equals(best)
    assert best.equals(second) == second.equals(best)
    fourd = TrainedModel.make(on, model, ITERATION_MODELS.load("4d"))
    plain = search_plans(fourd, levels).best
    assert plain_data(plain)["error_basis"] is None
    assert not plain.equals(plain)


def test_published_runs_lie_in_their_bars_and_in_the_order_that_is_told() -> None:
    timed = [(one, plan_time(one, "calibrated")) for one in published_runs()]
    inside = 0
    alike: dict[tuple[object, ...], list[tuple[MeasuredRun, PlanTime]]] = {}
    for one, plan in timed:
        assert plan.error is not None
        assert plan.error.basis == "calibrated", plan.error.reasons
        low, high = plan.error.whole.of(plan.iteration_time_s)
        inside += low <= one.seconds <= high
        sizes = one.model.name, one.model.sequence_length, one.model.batch, one.degrees.gpus
        chip, stack = one.accelerator.name, one.stack.name
        alike.setdefault((one.source, chip, stack, one.precision, *sizes), []).append((one, plan))
    assert inside >= 0.89 * len(timed)  # 5th to 95th percentile, ends rounded to a percent
    equal: list[bool] = []
    apart: list[bool] = []
    for group in alike.values():
        for (first, early), (second, late) in combinations(group, 2):
            sooner = early.iteration_time_s < late.iteration_time_s
            ordered = sooner == (first.seconds < second.seconds)
            (equal if early.equals(late) else apart).append(ordered)
    assert (len(equal), sum(equal), len(apart), sum(apart)) == (33, 19, 94, 89)


def test_tensor_groups_over_several_domains_were_not_tried() -> None:
    wide = Placement((Degrees(tensor=8), Degrees(tensor=2, data=8)))
    bar = error_bar(run_of("h100-80gb", "megatron-2025"), gpt(2048), wide, 1)
    assert bar.reasons == ("tensor degree 16 over several HB domains, tried were those inside one",)
    with RUNS.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["use"] in ("fit", "dev")]
    assert all(int(row["tp"]) <= int(row["hb_domain"]) for row in rows)
