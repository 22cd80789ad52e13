"""DFModel against measurements and other models: Fig. 6 to 8, and the last row of Table VI.

The figures print no values, and the text means over points that it does not list. What can be
computed of each stands beside the printed mean: of Fig. 6 the one run whose solver log is published
(a trillion parameters on 3,072 A100) against what Megatron-LM measured there; of Fig. 7 and 8 the
same model by DFModel's algebra and by the closed forms of the rail-only paper, whose GPUs, batch
and overlap are not printed. Calculon, with which Fig. 8 compares, is another program: the closed
forms stand in for it.

Source: Ko et al., DFModel (ACM TACO 2024; arXiv:2412.16432), Sec. VI-A and B; Narayanan et al.,
Megatron-LM (arXiv:2104.04473), Table 1.
"""

from collections.abc import Iterator
from math import inf
from statistics import fmean

from netplan.levels import Level
from netplan.performance.iteration_model import ITERATION_MODELS
from netplan.performance.plan import Plan
from netplan.performance.search import evaluate_plan
from netplan.performance.setting import TrainedModel
from netplan.published.checks import Measured, suite
from netplan.published.tiled import measured_per_s
from netplan.questions.map import map as ask_map
from netplan.traffic.placement import Degrees, Placement
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.models import MODELS

MODEL, BATCH, STAGES = "gpt-1t", 3072, 64
TENSOR = (2, 4, 8)
MEGATRON_FLOPS_PER_S = 163e12
"""FLOP/s of a GPU that Megatron-LM prints for a trillion parameters on 3,072 A100 [FLOP/s]."""


@suite("dataflow")
def model_comparison_checks() -> Iterator[Measured]:
    """Means of Fig. 6 to 8, as far as they can be computed."""
    modelled = BATCH / dataflow_s("a100-80gb", 3072, 8)
    measured = measured_per_s(MODEL, 3072, MEGATRON_FLOPS_PER_S)
    yield "modelled over measured performance, on average", modelled / measured
    for figure, accelerator, chips in (
        ("Fig. 7: off the rail-only paper's model on average, %", "h100-80gb", 1024),
        ("Fig. 8: off a kernel-by-kernel model on average, %", "a100-80gb", 3072),
    ):
        errors = [
            abs(dataflow_s(accelerator, chips, size) / _closed_form_s(accelerator, chips, size) - 1)
            for size in TENSOR
        ]
        yield figure, 100 * fmean(errors)


def dataflow_s(accelerator: str, chips: int, tensor: int) -> float:
    """Time of an iteration by DFModel's algebra, kernel by kernel at the whole peak [s]."""
    answer = ask_map(
        model=MODEL,
        accelerator=accelerator,
        gpus=chips,
        tensor=tensor,
        pipeline=STAGES,
        data=chips // tensor // STAGES,
        batch=BATCH,
        direction="both",
        execution="kernel-by-kernel",
        mode="published-code",
        sequence_tile=32,
        compute_utilisation=1.0,
    ).found
    return BATCH / answer.totals.throughput_per_s


def _closed_form_s(accelerator: str, chips: int, tensor: int) -> float:
    """The same by the closed forms of the rail-only paper [s]."""
    on, data = ACCELERATORS.load(accelerator), chips // tensor // STAGES
    levels = (
        Level("switch", tensor, on.hb_bytes_per_s),
        Level("switch", data * STAGES, on.network_bytes_per_s),
    )
    placement = Placement((Degrees(tensor), Degrees(data=data, pipeline=STAGES)))
    case = MODELS.load(MODEL), BATCH, on.tensor_flops_per_s, inf, ITERATION_MODELS.load("ptd-p")
    plan = Plan(placement, 1, BATCH // data, 1)
    return evaluate_plan(TrainedModel(*case), levels, plan).iteration_time_s
