"""What cannot be answered is refused with one line: what, got, allowed, what to do next."""

from math import inf

import pytest

from netplan.errors import InfeasibleError, InputError, NetplanError
from netplan.levels import Level
from netplan.performance.plan import Plan
from netplan.performance.search import evaluate_plan, search_largest, search_plans
from netplan.performance.setting import TrainedModel
from netplan.records import RecordError
from netplan.traffic.placement import Degrees, Placement
from netplan.workloads.models import MODELS
from tests.performance.cases import FOURD, PTDP, small_model, training, two_tiers

LEVELS = two_tiers("B200", 8, 64)


def message(error: pytest.ExceptionInfo[NetplanError]) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


def test_heads_that_do_not_divide_the_hidden_size() -> None:
    with pytest.raises(RecordError, match="hidden_size 512 is not a multiple of heads 7"):
        small_model(heads=7)


def test_a_model_that_fits_nowhere_says_by_how_much() -> None:
    # 64 GPUs of 192 GB for a trillion parameters. By hand: tensor 32, pipeline 2 leave the most
    # room: the message says what the search found.
    with pytest.raises(InfeasibleError) as error:
        search_plans(training(MODELS.load("gpt-1t")), LEVELS)
    assert "gpt-1t fits on no plan: the nearest needs 286 GB a GPU, 94.2 GB more" in message(error)
    rich = training(MODELS.load("gpt-1t"))
    enough = TrainedModel(
        rich.model, rich.batch, rich.flops_per_s, 287e9, FOURD,
        rich.vector_flops_per_s, rich.memory_bytes_per_s,
    )  # fmt: skip
    assert search_plans(enough, LEVELS).feasible > 0


def test_a_batch_too_small_for_the_cluster() -> None:
    # 4 layers, 8 heads, batch 1: no more than 4 x 8 = 32 GPUs.
    with pytest.raises(InfeasibleError) as error:
        search_plans(training(small_model(), batch=1), LEVELS)
    assert "divide 8, 1 (the batch) and 4 (the layers)" in message(error)
    with pytest.raises(InfeasibleError):
        search_largest(training(small_model(), batch=1), (Level("ring", 64, 50e9),))
    found = search_largest(training(small_model(), batch=1), LEVELS)
    assert found.plans[0].plan.gpus == 32


@pytest.mark.parametrize("gpus", [7 * 8, 11 * 8])
def test_numbers_of_gpus_that_no_degree_divides(gpus: int) -> None:
    with pytest.raises(InfeasibleError, match=f"no plan of small uses {gpus} GPUs"):
        search_plans(training(small_model()), two_tiers("B200", 8, gpus))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"strategy": "suma"}, "unknown strategy 'suma': did you mean summa?"),
        ({"strategy": "3d-x"}, "unknown strategy '3d-x'"),
        ({"mode": "published"}, "unknown mode 'published': did you mean published-code?"),
        ({"top": 0}, "at least 1 plan, got 0"),
    ],
)
def test_unknown_names_offer_the_nearest(options: dict[str, object], expected: str) -> None:
    with pytest.raises(InputError) as error:
        search_plans(training(small_model()), LEVELS, **options)  # type: ignore[arg-type]
    assert expected in message(error)


def test_a_batch_below_one_and_missing_rates() -> None:
    with pytest.raises(InputError, match="at least 1 sequence, got 0"):
        TrainedModel(small_model(), 0, 1e15, inf, PTDP)
    with pytest.raises(InputError, match="needs the accelerator's vector rate"):
        TrainedModel(small_model(), 16, 1e15, inf, FOURD)


def test_a_plan_for_other_levels() -> None:
    plan = Plan(Placement((Degrees(tensor=8, data=8),)), 1, 2)
    with pytest.raises(InputError, match="got 1 for 2 levels"):
        evaluate_plan(training(small_model()), LEVELS, plan)
