"""What a training run of iteration model ``calibrated`` reaches: accelerator, stack, network."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from netplan import records
from netplan.errors import InputError
from netplan.inputs.choices import NetworkKind, Precision
from netplan.levels import Level
from netplan.performance.calibrated import TILE_OUTPUTS, Reached, Sharing
from netplan.performance.dated.blocks import DatedReach
from netplan.performance.dated.numbers import DatedNumbers
from netplan.performance.dated.run import DatedRun
from netplan.performance.stacks import Stack
from netplan.workloads.accelerators import (
    ACCELERATORS,
    Accelerator,
    HeldOut,
    ModelClass,
    TrainingRates,
)
from netplan.workloads.program import SHARDED_WEIGHTS, Zero


class NetworkEfficiency(records.Entry, frozen=True, kw_only=True):
    """Shares of the network's bandwidth that collectives get, by its kind [1]."""

    infiniband: records.PositiveShare
    roce: records.PositiveShare
    omni_path: records.PositiveShare
    efa: records.PositiveShare
    tcpxo: records.PositiveShare
    slingshot: records.PositiveShare
    torus: records.PositiveShare

    def of(self, kind: NetworkKind) -> float:
        """That of one kind [1]."""
        share: float = getattr(self, kind.replace("-", "_"))
        return share


class Factors(records.Entry, frozen=True, kw_only=True):
    """Measured over predicted times, their 5th and 95th percentile [1]."""

    low: records.PositiveFloat
    high: records.PositiveFloat

    def __post_init__(self) -> None:
        """Refuse a bar whose ends are swapped, or that lies beside the time."""
        if self.low > self.high:
            raise ValueError(f"low {self.low:g} is above high {self.high:g}: swap them")
        if not self.low <= 1 <= self.high:
            raise ValueError(
                f"from {self.low:g} to {self.high:g}: 1, the time itself, lies between"
            )

    def of(self, seconds: float) -> tuple[float, float]:
        """Low and high end of a time, or of what grows with it.

        Examples
        --------
        >>> Factors(low=0.5, high=1.5).of(10.0)
        (5.0, 15.0)
        """
        return self.low * seconds, self.high * seconds

    def of_rate(self, rate: float) -> tuple[float, float]:
        """Low and high end of what falls as the time grows, such as utilisation."""
        return rate / self.high, rate / self.low

    @property
    def half_overlap(self) -> float:
        """Ratio of two times whose bars overlap by half of the narrower [1].

        Examples
        --------
        Bars of 1 s and 2 s, from 0.5 and from 1 s on: half of 0.5 to 1.5 s is in both.

        >>> Factors(low=0.5, high=1.5).half_overlap
        2.0
        """
        return (self.low + self.high) / (2 * self.low)


class Domain(records.Entry, frozen=True, kw_only=True):
    """What scored runs have in common: sequences, microbatches of a GPU [tokens], degrees [1]."""

    least_sequence: records.PositiveInt
    most_sequence: records.PositiveInt
    least_tokens: records.PositiveInt
    most_gpus: records.PositiveInt
    most_context: records.PositiveInt


class ClassBar(records.Entry, frozen=True, kw_only=True):
    """Error bars of models of one class under software of a date.

    ``scored`` of runs like those that were predicted by fits without their source or release,
    ``preset`` of those whose recipe was taken from the date. ``transferred`` counts of all others,
    as many times less as more: from predictions by fits without the model.
    """

    scored: Factors
    preset: Factors | None = None
    transferred: records.PositiveFloat

    @property
    def wide(self) -> Factors:
        """Ends of a transferred bar."""
        return Factors(low=1 / self.transferred, high=self.transferred)


class DatedDomain(records.Entry, frozen=True, kw_only=True):
    """What runs under software of a date have in common, by which their bars hold.

    Sequences [tokens], GPUs, experts and those of a token [1]; names of hybrids, each of which was
    itself scored; stacks of which dense models alone were.
    """

    least_sequence: records.PositiveInt
    most_sequence: records.PositiveInt
    most_gpus: records.PositiveInt
    least_experts: records.PositiveInt
    most_experts: records.PositiveInt
    least_per_token: records.PositiveInt
    most_per_token: records.PositiveInt
    networks: tuple[NetworkKind, ...]
    hybrids: tuple[str, ...]
    dense_stacks: tuple[str, ...] = ()


class DatedErrors(records.Entry, frozen=True, kw_only=True):
    """Error bars under software of a date, by class of the model and kind of the chip.

    Recomputed by ``netplan verify --bars``, never set by hand.
    """

    dense: ClassBar
    moe: ClassBar
    hybrid: ClassBar
    tpu_dense: ClassBar
    tpu_moe: ClassBar
    domain: DatedDomain

    def of(self, kind: str, *, tpu: bool) -> ClassBar:
        """That of a class; on TPUs hybrids count as experts do."""
        sparse = "dense" if kind == "dense" else "moe"
        bar: ClassBar = getattr(self, f"tpu_{sparse}" if tpu else kind)
        return bar


class ErrorPart(records.Entry, frozen=True, kw_only=True):
    """Error bars: of runs like those that were scored, of all others, and where the former end.

    ``own`` is that of what two plans do not share; times of one plan that is measured twice differ
    by ``repeat``. A plan that a search chose took ``chosen`` times the published time in the
    median: the least of many times is one of those that are too small. ``dated`` counts in place of
    the first two under software of a date.
    """

    calibrated: Factors
    transferred: Factors
    own: Factors
    repeat: records.NonNegativeFloat
    chosen: records.PositiveShare
    domain: Domain
    dated: DatedErrors | None = None


class CalibrationPart(records.Entry, frozen=True, kw_only=True):
    """Parameters of iteration model ``calibrated`` that belong to no accelerator and no stack.

    Kernels get ``memory_efficiency`` of the memory's bandwidth and start in ``kernel_s``;
    collectives get ``hb_efficiency`` and ``network_efficiency`` of the links', start in
    ``collective_s`` and take ``hb_step_s`` or ``network_step_s`` a step. ``contention`` is the
    share of hidden communication that shows all the same. Attention reaches half its rate at
    sequences of ``attention_half_s`` tokens. The optimizer moves ``optimizer_bytes`` a parameter,
    buffers of gradients ``gradient_buffer_bytes``; ``iteration_s`` is what an iteration takes
    beside all that, ``half_recompute`` the share of the forward pass that recomputation ``half``
    runs again. ``errors`` are the bars of its times (`netplan.performance.error_bars`).
    ``dated`` is what counts under software of a date, in place of what has the same name.
    """

    memory_efficiency: records.PositiveShare
    kernel_s: records.NonNegativeFloat
    collective_s: records.NonNegativeFloat
    hb_step_s: records.NonNegativeFloat
    network_step_s: records.NonNegativeFloat
    hb_efficiency: records.PositiveShare
    network_efficiency: NetworkEfficiency
    contention: records.Share
    attention_half_s: records.NonNegativeFloat
    optimizer_bytes: records.NonNegativeFloat
    gradient_buffer_bytes: records.NonNegativeFloat
    iteration_s: records.NonNegativeFloat
    half_recompute: records.PositiveShare
    errors: ErrorPart
    dated: DatedNumbers | None = None


class CalibratedRun(Struct, frozen=True):
    """An accelerator under a training stack, in one precision.

    Parameters
    ----------
    accelerator, stack, part
        Name of the accelerator, the stack, and the iteration model's parameters.
    precision, peak_flops_per_s
        That of the layers' products, and the accelerator's peak in it [FLOP/s].
    reached
        Rates of kernels.
    tensor_visible
        Share of tensor collectives that nothing hides [1].
    network_kind
        Kind of the network, whatever the fabric says; None takes the fabric's.
    untried
        Why no scored run is like it, a clause each; none if some are.
    chip_bytes_per_s
        All links of a GPU to its HB domain, or of a chip to its neighbours [B/s].
    dated
        What counts instead under software of a date.
    held_out
        Bars of runs of one's own that were left out of a fit, each behind its class of models.
    """

    accelerator: str
    stack: Stack
    part: CalibrationPart
    precision: Precision
    peak_flops_per_s: float
    reached: Reached | DatedReach
    tensor_visible: float
    network_kind: NetworkKind | None = None
    untried: tuple[str, ...] = ()
    chip_bytes_per_s: float = 0.0
    dated: DatedRun | None = None
    held_out: tuple[tuple[ModelClass, HeldOut], ...] = ()

    @classmethod
    def of(  # noqa: PLR0913 - what a run is made of
        cls,
        accelerator: Accelerator,
        stack: Stack,
        part: CalibrationPart,
        *,
        precision: Precision = "bf16",
        tensor_overlap: bool = True,
        network_kind: NetworkKind | None = None,
        dated: DatedRun | None = None,
    ) -> "CalibratedRun":
        """Join what the files say; under software of a date, what that makes of them.

        Raises
        ------
        InputError
            If the accelerator has no rates of training runs, of the precision, or of any attention
            kernel of the stack.
        """
        rates = accelerator.training
        if rates is None:
            like = f"{accelerator.name}-"  # another one that is called so, with more behind
            kin = next((known for known in ACCELERATORS.paths() if known.startswith(like)), "")
            near = f"--accelerator {kin}, " if kin else ""
            alone = "" if precision == "bf16" else " without --precision"
            raise InputError(
                f"{accelerator.name} has no training block, the rates that training runs reach:"
                f" take {near}--iteration-model measured or 4d{alone}, or fit one with netplan"
                " calibrate"
            )
        peak = peak_of(accelerator, precision)
        if dated is not None:
            return cls(
                *(accelerator.name, stack, part, precision, peak),
                *(dated.reach, dated.tensor_visible, network_kind),
                untried=tuple(_unscored(accelerator, stack, precision, dated=True)),
                chip_bytes_per_s=accelerator.hb_bytes_per_s,
                dated=dated,
                held_out=(*(rates.dated.held_out if rates.dated else {}).items(),),
            )
        visible = stack.tensor_visible
        if not tensor_overlap and stack.tensor_visible_without_overlap is not None:
            visible = stack.tensor_visible_without_overlap
        reached = Reached(
            product_flops_per_s=peak * share_of(accelerator, precision),
            head_flops_per_s=accelerator.tensor_flops_per_s * share_of(accelerator, "bf16"),
            casts=float(precision != "bf16"),
            lost_outputs=rates.wave * rates.sms * TILE_OUTPUTS,
            fused=float(stack.fused),
            attention_flops_per_s=accelerator.tensor_flops_per_s * _attention(accelerator, stack),
            attention_half_s=part.attention_half_s,
            memory_bytes_per_s=accelerator.memory_bytes_per_s * part.memory_efficiency,
            kernel_s=part.kernel_s,
            vector=stack.vector,
            dropout=float(stack.dropout),
        )
        return cls(
            *(accelerator.name, stack, part, precision, peak, reached, visible, network_kind),
            tuple(_unscored(accelerator, stack, precision)),
            held_out=(*rates.held_out.items(),),
        )

    def bar_of(
        self, kind: ModelClass, scored: Factors, wide: Factors, reasons: tuple[str, ...]
    ) -> tuple[Factors, tuple[str, ...]]:
        """Ends of the error bar of a class of models, and why they are no narrower.

        Parameters
        ----------
        kind
            The class.
        scored, wide
            Bars of published runs: of those that are like this one, and of all others.
        reasons
            Why no published run is like it; none if some are.

        Returns
        -------
        tuple[Factors, tuple[str, ...]]
            Where the files were fitted to runs of one's own, the bar is theirs, if they have runs
            of the class; what they did not try is at least as wide.
        """
        if not self.held_out:
            return (wide if reasons else scored), reasons
        held = dict(self.held_out).get(kind)
        if held is None:
            name = {"dense": "dense models", "moe": "experts", "hybrid": "hybrids"}[kind]
            return wide, (*reasons, f"{self.accelerator} was fitted to too few runs of {name}")
        if reasons:
            low, high = min(held.low, wide.low), max(held.high, wide.high)
            return Factors(low=low, high=high), reasons
        return Factors(low=held.low, high=held.high), reasons

    def without(self, replaced: Iterable[str]) -> "CalibratedRun":
        """The same where values of the files are others, by their keys such as ``stack.vector``.

        No scored run had those that a fit gave, or was made with.
        """
        return records.replace(self, untried=(*self.untried, *_unfitted(replaced)))

    def sharing(self, zero_stage: Zero) -> Sharing:
        """How communication is hidden, and what is sent, under a ZeRO stage."""
        stack, part = self.stack, self.part
        numbers = part if self.dated is None else self.dated.numbers
        gradient_bytes, gather_bytes = stack.gradient_bytes, stack.gather_bytes
        if zero_stage >= SHARDED_WEIGHTS:
            narrow = stack.zero3_narrow_gather_bytes if self.precision != "bf16" else None
            gradient_bytes = stack.zero3_gradient_bytes or gradient_bytes
            gather_bytes = narrow or stack.zero3_gather_bytes or gather_bytes
        return Sharing(
            tensor_visible=self.tensor_visible,
            pipeline_visible=max(stack.pipeline_visible, numbers.contention),
            contention=numbers.contention,
            overlapped=float(stack.data == "overlapped"),
            repeats=2.0 if stack.gather_again else 1.0,
            layer_s=stack.layer_s,
            gradient_bytes=gradient_bytes,
            gather_bytes=gather_bytes,
            collective_s=part.collective_s,
            optimizer_bytes=part.optimizer_bytes,
            gradient_buffer_bytes=part.gradient_buffer_bytes,
            iteration_s=numbers.iteration_s,
        )

    @property
    def one_domain(self) -> bool:
        """Whether chips are joined directly, so that a whole slice is like one HB domain."""
        return self.dated is not None and self.dated.generation == "tpu"

    def raw_share(self, index: int, level: Level) -> float:
        """What of the raw rate of a level :meth:`levels` leaves [1]."""
        if not index or self.one_domain:
            return self.part.hb_efficiency
        return self.part.network_efficiency.of(self.network_kind or level.network_kind)

    def levels(self, levels: Sequence[Level]) -> tuple[Level, ...]:
        """The levels with the bandwidth and the steps that collectives get, the HB domain first."""
        part, reached = self.part, []
        for index, level in enumerate(levels):
            rate = level.link_bytes_per_s * self.raw_share(index, level)
            step_s = part.network_step_s if index else part.hb_step_s
            changes: dict[str, Any] = {}
            if self.one_domain:
                changes = {"kind": "switch", "tiers": ()}
                rate, step_s = self.chip_bytes_per_s * part.hb_efficiency, part.hb_step_s
            changes |= {"link_bytes_per_s": rate, "link_latency_s": 0.0, "step_latency_s": step_s}
            reached.append(records.replace(level, **changes))
        return tuple(reached)


def peak_of(accelerator: Accelerator, precision: Precision) -> float:
    """Peak of an accelerator in a precision, as iteration model ``calibrated`` counts it [FLOP/s].

    Raises
    ------
    InputError
        If its file has none.
    """
    if precision == "bf16":
        return accelerator.tensor_flops_per_s
    rates = accelerator.training
    if rates is None or precision not in rates.peaks:
        raise InputError(
            f"{accelerator.name} computes no {precision}, as far as its file says: take --precision"
            " bf16, or another accelerator"
        )
    return rates.peaks[precision]


def share_of(accelerator: Accelerator, precision: Precision) -> float:
    """Share of the peak that its products reach in a precision [1].

    Raises
    ------
    InputError
        If no training run says so.
    """
    rates: TrainingRates | None = accelerator.training
    if rates is None or precision not in rates.gemm:
        known = (", ".join(rates.gemm) if rates else "") or "none"
        raise InputError(
            f"no training run says what {precision} products reach on {accelerator.name} (its"
            f" training.gemm has {known}): take another --precision"
        )
    return rates.gemm[precision]


def _attention(accelerator: Accelerator, stack: Stack) -> float:
    """Share of the peak that the stack's first known kernel reaches [1]."""
    rates = accelerator.training
    known = rates.attention if rates else {}
    for kernel in stack.attention:
        if kernel in known:
            return known[kernel]
    raise InputError(
        f"stack {stack.name} runs attention by {' or '.join(stack.attention)}, and"
        f" {accelerator.name} has rates of {', '.join(known) or 'none'} (training.attention): take"
        " another --stack"
    )


def _unscored(
    accelerator: Accelerator, stack: Stack, precision: Precision, *, dated: bool = False
) -> Iterator[str]:
    """What of them no scored run has, under software of a date or of none."""
    rates = accelerator.training
    block = rates.dated if rates and dated else rates
    scored = block.scored if block else ()
    if accelerator.power_cap_w:
        yield f"no run of {accelerator.name} under a power cap was scored"
    if rates and not rates.fitted and not dated:
        yield f"no run of {accelerator.name} was scored, its rates are carried over"
    elif stack.name not in scored:
        yield f"no run of stack {stack.name} on {accelerator.name} was scored"
    elif isinstance(scored, dict) and all(precision not in known for known in scored.values()):
        yield f"no run of {accelerator.name} in {precision} was scored"


FITTED = ("tensor_flops_per_s", "memory_bytes_per_s", "hb_bytes_per_s")
"""Rates of an accelerator that the shares were fitted with."""
NOT_FITTED = ("gradient_bytes", "gather_bytes")
"""What of a stack differs from run to run."""


def _unfitted(replaced: Iterable[str]) -> Iterator[str]:
    """Values that a fit gave, or was made with, of those that were replaced."""
    for key in replaced:
        _, _, value = key.partition(".")
        block = value.partition(".")[0]
        of_stack = value in Stack.__struct_fields__ and not value.endswith(NOT_FITTED)
        fitted = ("training", "calibration", "dated")
        if block in fitted or value in FITTED or of_stack:
            yield f"{key} is not as it was fitted"
