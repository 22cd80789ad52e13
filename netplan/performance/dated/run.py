"""What a training run under software of a date reaches: accelerator, stack, model, recipe."""

from math import exp
from typing import Literal

import numpy as np
from msgspec import Struct

from netplan.arrays import Amount, Counts
from netplan.errors import InputError
from netplan.inputs.choices import Precision
from netplan.performance.calibrated import TILE_OUTPUTS
from netplan.performance.dated.blocks import DatedReach
from netplan.performance.dated.exchange import ExchangeShares
from netplan.performance.dated.numbers import DatedNumbers
from netplan.performance.dated.recipe import Recipe, month_of
from netplan.performance.stacks import DatedStack, Stack
from netplan.workloads.accelerators import Accelerator, DatedRates, ModelClass, TrainingRates
from netplan.workloads.models import Model

TimedPrecision = Literal["bf16", "fp8", "mxfp8", "fp4"]
"""Numbers of products that are told apart; fp8 with a scale a tensor, mxfp8 with one a block."""
Kind = ModelClass
"""What software gets faster at: models of each kind have a drift of their own."""

FIRST_DATE, LAST_DATE = 2024.5, 2026.75
"""Dates that runs tell something of; others count as the nearest of both [years]."""
DRIFT_SINCE = 2026.0
"""Date at which software is as fast as the rates say [years]."""
SMALLEST_JOB = 8
"""GPUs up to which a job has no jitter [1]."""
MATRIX_UNIT = 128.0
"""Width of a TPU's matrix unit, which narrower heads do not fill (Google, TPU system
architecture) [1]."""
TORCH = ("torch", "compiled")
"""What memory of stacks of torch keeps, whose products below bf16 have a factor of their own."""


def model_kind(model: Model) -> Kind:
    """Kind of a model.

    >>> from netplan.workloads.models import MODELS
    >>> model_kind(MODELS.load("deepseek-v3")), model_kind(MODELS.load("llama-3-8b"))
    ('moe', 'dense')
    """
    if model.mamba is not None:
        return "hybrid"
    return "moe" if model.experts is not None else "dense"


class SoftwareGrowth(Struct, frozen=True):
    """What the date of the software and the number of GPUs make of an iteration's time.

    Parameters
    ----------
    software_date
        Month of the software.
    software_factor, jitter_factor
        How many times as long an iteration takes as with software of January 2026, and on few
        GPUs [1].
    """

    software_date: str
    software_factor: float
    jitter_factor: float


class DatedRun(Struct, frozen=True):
    """A training run under software of a date.

    Parameters
    ----------
    reach, shares
        Rates of kernels, and what exchanges of tokens reach of the links.
    recipe
        What software does with experts, all of it filled in.
    kind, generation
        Of the model, and of the chip.
    software_factor
        How many times as long an iteration takes as at :data:`DRIFT_SINCE` [1].
    jitter
        Growth of an iteration with a doubling of the GPUs above :data:`SMALLEST_JOB` [1].
    numbers
        What belongs to no accelerator and no stack.
    tensor_visible
        Share of tensor collectives that nothing hides [1].
    precision
        Numbers of its products.
    """

    reach: DatedReach
    shares: ExchangeShares
    recipe: Recipe
    kind: Kind
    generation: str
    software_factor: float
    jitter: float
    numbers: DatedNumbers
    tensor_visible: float
    precision: TimedPrecision = "bf16"

    @classmethod
    def of(  # noqa: PLR0913 - what a run is made of
        cls,
        accelerator: Accelerator,
        stack: Stack,
        numbers: DatedNumbers,
        model: Model,
        recipe: Recipe,
        *,
        precision: TimedPrecision = "bf16",
        memory_bytes_per_s: float,
        attention_half_s: float,
        collective_s: float,
        tensor_overlap: bool = True,
    ) -> "DatedRun":
        """Join what the files say.

        Parameters
        ----------
        accelerator, stack, numbers, model
            What they are.
        recipe
            Resolved for this model, chip and precision.
        precision
            Numbers of the products: bf16, fp8, mxfp8 or fp4.
        memory_bytes_per_s, attention_half_s
            As without a date: bandwidth that kernels get [B/s], and the sequence of half the rate
            of attention [tokens].
        collective_s
            Start of a collective, a plain exchange of tokens among them [s].
        tensor_overlap
            Whether tensor collectives overlap where the stack can.

        Raises
        ------
        InputError
            If accelerator or stack have no rates of software of a date, or none of the precision
            or of any attention kernel of the stack.
        """
        rates, dated = _rates_of(accelerator, stack)
        low, peak = precision != "bf16", accelerator.tensor_flops_per_s
        format_name: Precision = "fp8" if precision == "mxfp8" else precision
        flops_per_s = (rates.peaks[format_name] if low else peak) * dated.gemm[format_name]
        flops_per_s *= numbers.mxfp8 if precision == "mxfp8" else 1.0
        if low and stack.memory is not None and stack.memory.keeps in TORCH:
            flops_per_s *= numbers.torch_fp8
        fused, tpu = bool(recipe.fused_experts), dated.generation == "tpu"
        grouped = format_name if format_name != "fp8" else "fused" if fused else "low"
        kind, host, passes = model_kind(model), numbers.host, numbers.passes
        grace = {"grace": host.grace, "tpu": 0.0}.get(dated.host, 1.0)
        graphs = {"full": 0.0, "attn": host.graphs, "router": host.graphs}
        launched = graphs.get(recipe.graphs or "", 1.0)
        of_experts = grace * launched * (host.fused if fused else 1.0)
        of_others = 0.0 if recipe.graphs in ("attn", "mixer", "full") else grace
        scan = numbers.scan.hopper if dated.generation == "hopper" else numbers.scan.blackwell
        software = stack.dated or DatedStack(vector=stack.vector)
        grouped_share = getattr(numbers.grouped, "tpu" if tpu else grouped) * software.experts
        return cls(
            reach=DatedReach(
                product_flops_per_s=flops_per_s,
                head_flops_per_s=peak * dated.gemm["bf16"],
                casts=float(low),
                lost_outputs=0.0 if tpu else numbers.wave * rates.sms * TILE_OUTPUTS,
                memory_bytes_per_s=memory_bytes_per_s,
                kernel_s=numbers.kernel_s,
                vector=software.vector,
                attention_flops_per_s=peak * _attention(stack, rates, dated, numbers),
                attention_half_s=attention_half_s,
                latent=numbers.attention.latent,
                sinks=1.0 if tpu else numbers.attention.sinks,
                head_width=MATRIX_UNIT if tpu else 1.0,
                grouped_flops_per_s=flops_per_s * grouped_share,
                scan_flops_per_s=peak * scan,
                pad_rows=numbers.pad_rows,
                busiest=numbers.imbalance,
                permuted=passes.tpu if tpu else passes.fused if fused else passes.plain,
                cast=passes.quant,
                routed=passes.router,
                scanned=passes.scan,
                fused_experts=float(fused),
                attention_host_s=of_others * host.attention,
                experts_host_s=of_experts * host.experts,
                expert_host_s=of_experts * host.each_expert,
            ),
            shares=ExchangeShares(
                a2a_network=numbers.exchange.a2a_network * software.exchange,
                a2a_hb=numbers.exchange.a2a_hb * software.exchange,
                ep_network=numbers.exchange.ep_network * software.exchange,
                ep_hb=numbers.exchange.ep_hb * software.exchange,
                visible=min(1.0, numbers.exchange.visible) if recipe.expert_overlap else 1.0,
                a2a_start_s=collective_s,
                ep_start_s=numbers.exchange.ep_start_s,
            ),
            recipe=recipe,
            kind=kind,
            generation=dated.generation,
            software_factor=software_factor(
                numbers, kind, dated.generation, precision, recipe.date
            ),
            jitter=numbers.jitter.low if low else numbers.jitter.bf16,
            numbers=numbers,
            tensor_visible=_tensor_visible(stack, numbers, tensor_overlap=tensor_overlap),
            precision=precision,
        )

    def jitter_factor(self, gpus: Counts) -> Amount:
        """How many times as long an iteration takes on so many GPUs as on few [1].

        Beyond 2,048 GPUs it is extrapolated from what series of runs from 8 on show.
        """
        doublings = np.log2(np.maximum(np.asarray(gpus, np.float64) / SMALLEST_JOB, 1.0))
        return 1 + self.jitter * doublings

    def growth(self, gpus: int) -> SoftwareGrowth:
        """What the date and so many GPUs make of an iteration's time."""
        month, jitter = month_of(self.recipe.date), float(self.jitter_factor(gpus))
        return SoftwareGrowth(month, self.software_factor, jitter)


def software_factor(
    numbers: DatedNumbers, kind: Kind, generation: str, precision: str, date: float
) -> float:
    """How many times as long an iteration takes with software of a date as with that of 2026.0 [1].

    Parameters
    ----------
    numbers
        Whose drift counts.
    kind, generation, precision
        Of the model, of the chip, and of its products.
    date
        Year and the part of it that is over, from :data:`FIRST_DATE` to :data:`LAST_DATE`.

    Examples
    --------
    Four months of 2026, dense models in fp4 on Blackwell:

    >>> from netplan.performance.iteration_model import ITERATION_MODELS
    >>> numbers = ITERATION_MODELS.load("calibrated").calibration.dated
    >>> run = "dense", "blackwell", "fp4"
    >>> february, june = (software_factor(numbers, *run, date) for date in (2026.08, 2026.42))
    >>> round(june / february, 3)
    0.9
    """
    drifts = getattr(numbers.drift, kind)
    name = "blackwell_fp4" if (kind, generation, precision) == ("dense", "blackwell", "fp4") else ""
    drift: float = getattr(drifts, name or generation, 0.0)
    return exp(-drift * (min(max(date, FIRST_DATE), LAST_DATE) - DRIFT_SINCE))


def _rates_of(accelerator: Accelerator, stack: Stack) -> tuple[TrainingRates, DatedRates]:
    rates = accelerator.training
    if rates is None or rates.dated is None or stack.dated is None:
        which = accelerator.name if rates is None or rates.dated is None else f"stack {stack.name}"
        raise InputError(
            f"{which} has no rates under software of a date: take --software-date none, for dense"
            " models alone, or another"
        )
    return rates, rates.dated


def _attention(
    stack: Stack, rates: TrainingRates, dated: DatedRates, numbers: DatedNumbers
) -> float:
    """Share of the 16-bit peak of the stack's first kernel that the chip has [1]."""
    known = numbers.attention
    if dated.generation == "tpu":
        return known.tpu
    kernel = next((name for name in stack.attention if name in rates.attention), "")
    if kernel == "cudnn":
        return known.cudnn_hopper if dated.generation == "hopper" else known.cudnn_blackwell
    if kernel == "fa2":
        return known.fa2
    raise InputError(
        f"stack {stack.name} runs attention by {' or '.join(stack.attention)}, of which software of"
        " a date knows cudnn and fa2: take another --stack, or --software-date none"
    )


def _tensor_visible(stack: Stack, numbers: DatedNumbers, *, tensor_overlap: bool) -> float:
    """Share of tensor collectives that nothing hides: as the stack overlaps them [1]."""
    plain = stack.tensor_visible_without_overlap
    if plain is None:
        return stack.tensor_visible
    if not tensor_overlap:
        return plain
    visible = stack.dated.tensor_visible if stack.dated else None
    return numbers.tensor_visible if visible is None else visible
