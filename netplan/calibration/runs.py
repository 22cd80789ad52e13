"""Training runs that were measured, as arrays for iteration model ``calibrated``.

A run says what it trained, on what, by which plan, and the seconds of an iteration. Many of them
become arrays of one shape, so that a fit evaluates all runs at once, by the formulas of
`netplan.performance.calibrated`. They lie on two levels, HB domains and the network, tensor GPUs
inside, then those of context and data, then the stages.

Which numbers of iteration model ``calibrated`` are fitted on runs: calibrations, and places.

A *calibration* is a catalog file that lists numbers: one may stand at several places (the same
kernel on two boards), has a prior, where that is not what the files say, and its width. Places are
named as by ``--set``: ``NAME.KEY`` or ``ROLE.KEY``.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct, field

from netplan.arrays import Amount, Floats
from netplan.catalog import Catalog, Record
from netplan.inputs.choices import NetworkKind, Precision, Recompute, ScheduleName
from netplan.performance import calibrated
from netplan.performance.calibrated_run import CalibratedRun, CalibrationPart
from netplan.performance.dated.recipe import Recipe
from netplan.performance.dated.run import DatedRun, TimedPrecision
from netplan.performance.setting import BUBBLE_SHARE
from netplan.performance.stacks import Stack
from netplan.records import Entry, PositiveFloat, replace
from netplan.workloads.accelerators import Accelerator, TrainingRates
from netplan.workloads.models import Model
from netplan.workloads.operations import ELEMENT_BYTES, Sharding
from netplan.workloads.program import Zero, missing_layers
from netplan.workloads.recomputation import NOTHING, Recomputation


class RunDegrees(NamedTuple):
    """How a run is cut: GPUs of each kind, interleaved stages, and microbatches [1].

    Experts lie on tensor, context and data GPUs: on ``expert`` times ``expert_tensor`` of them, of
    whom the latter share one.
    """

    tensor: int = 1
    context: int = 1
    data: int = 1
    pipeline: int = 1
    interleave: int = 1
    microbatch: int = 1
    microbatches: int = 1
    expert: int = 1
    expert_tensor: int = 1

    @property
    def gpus(self) -> int:
        """All GPUs [1]."""
        return self.tensor * self.context * self.data * self.pipeline


class MeasuredRun(Struct, frozen=True, kw_only=True):
    """One training run: what, on what, how, and how long an iteration took [s].

    ``source`` says who published it, or the file that it stands in. Under software of a date it has
    a ``recipe``, and computes ``again`` what that says in place of ``recompute``; ``detail`` are
    its numbers as published, such as fp8-cs.
    """

    name: str
    source: str
    model: Model
    accelerator: Accelerator
    stack: Stack
    degrees: RunDegrees
    hb_size: int
    network_bytes_per_s: float
    network_kind: NetworkKind = "infiniband"
    precision: Precision = "bf16"
    detail: str = ""
    recompute: Recompute = "none"
    again: Recomputation = NOTHING
    recipe: Recipe | None = None
    sequence_parallel: bool = True
    tensor_overlap: bool = True
    zero_stage: Zero = 1
    schedule: ScheduleName = "1f1b"
    seconds: float

    def on(self, accelerator: Accelerator) -> "MeasuredRun":
        """The same run, as said of another file of its accelerator."""
        return replace(self, accelerator=accelerator)

    @property
    def attention(self) -> str:
        """Kernel that the stack takes on this accelerator."""
        known = self.accelerator.training.attention if self.accelerator.training else {}
        return next((kernel for kernel in self.stack.attention if kernel in known), "")

    @property
    def redone(self) -> dict[str, float]:
        """What share of its layers computes what again, by word, under software of a date [1]."""
        return self.again.shares(self.model.layers / self.degrees.pipeline)

    @property
    def timed_precision(self) -> TimedPrecision:
        """Its numbers as software of a date tells them apart: fp8 with a scale a block is mxfp8."""
        return "mxfp8" if self.detail == "mxfp8" else self.precision

    def calibrated(self, part: CalibrationPart) -> CalibratedRun:
        """What it reaches, by the files and numbers of iteration model ``calibrated``.

        Raises
        ------
        InputError
            If its accelerator or its stack has no rates of such runs.
        """
        dated = None
        if self.recipe is not None and part.dated is not None:
            dated = DatedRun.of(
                *(self.accelerator, self.stack, part.dated, self.model, self.recipe),
                precision=self.timed_precision,
                memory_bytes_per_s=self.accelerator.memory_bytes_per_s * part.memory_efficiency,
                attention_half_s=part.attention_half_s,
                tensor_overlap=self.tensor_overlap,
            )
        return CalibratedRun.of(
            *(self.accelerator, self.stack, part),
            precision=self.precision,
            tensor_overlap=self.tensor_overlap,
            network_kind=self.network_kind,
            dated=dated,
        )


class Scaling(NamedTuple):
    """What fitted numbers are of those in the files, each of a shape that ends with (runs,) [1]."""

    products: Amount = 1.0
    head: Amount = 1.0
    wave: Amount = 1.0
    attention: Amount = 1.0
    vector: Amount = 1.0
    tensor_visible: Amount = 1.0
    layer_s: Amount = 1.0
    contention: Amount = 1.0
    iteration_s: Amount = 1.0
    network: Amount = 1.0


NO_CHANGE = Scaling()


class Bandwidths(NamedTuple):
    """Bandwidths that collectives get, and who lies where; each of shape (runs,)."""

    hb_bytes_per_s: Floats
    network_bytes_per_s: Floats
    hb_size: Floats

    def pace(self, members: Floats, before: Floats, network: Amount) -> Floats:
        """A ring through all members, ``before`` GPUs apart: its share c of a byte [s/B]."""
        inside = np.minimum(members, np.maximum(1.0, self.hb_size // before))
        outer = np.minimum(self.hb_bytes_per_s, inside * self.network_bytes_per_s * network)
        rate = np.where(inside >= members, self.hb_bytes_per_s, outer)
        s_per_byte: Floats = (members - 1) / members / rate
        return s_per_byte

    def hop(self, members: Floats, network: Amount) -> Floats:
        """One hop between neighbours of so many GPUs that follow each other [s/B]."""
        outer = self.network_bytes_per_s * network
        s_per_byte: Floats = 1 / np.where(members <= self.hb_size, self.hb_bytes_per_s, outer)
        return s_per_byte


class MeasuredRuns(Struct, frozen=True, eq=False):
    """Measured runs, every array of shape (runs,)."""

    runs: tuple[MeasuredRun, ...]
    measured_s: Floats
    part: calibrated.Slice
    stages: calibrated.Stages
    again: calibrated.Redone
    degrees: Floats  # shape (9, runs), as in RunDegrees
    links: Bandwidths
    reached: calibrated.Reached
    sharing: calibrated.Sharing
    pipeline_visible: Floats  # of the stack, before contention
    zero_stage: Floats
    model: CalibrationPart

    @classmethod
    def of(cls, runs: Sequence[MeasuredRun], model: CalibrationPart) -> "MeasuredRuns":
        """Bring runs into arrays.

        Raises
        ------
        InputError
            If an accelerator lacks the precision of a run, or every attention kernel of its stack.
        """
        on = [run.calibrated(model) for run in runs]
        degrees = np.array([run.degrees for run in runs], np.float64).T
        hb = [run.accelerator.hb_bytes_per_s * model.hb_efficiency for run in runs]
        network = [
            run.network_bytes_per_s * model.network_efficiency.of(run.network_kind) for run in runs
        ]
        links = (np.array(x, np.float64) for x in (hb, network, [run.hb_size for run in runs]))
        return cls(
            runs=tuple(runs),
            measured_s=np.array([run.seconds for run in runs]),
            part=calibrated.Slice.stacked([_slice(run) for run in runs]),
            stages=_stages(runs, degrees),
            again=calibrated.Redone.stacked(
                [
                    calibrated.Redone.of(
                        run.recompute, model.half_recompute, sequence_parallel=run.sequence_parallel
                    )
                    for run in runs
                ]
            ),
            degrees=degrees,
            links=Bandwidths(*links),
            reached=calibrated.Reached.stacked(
                [run.reached for run in on if isinstance(run.reached, calibrated.Reached)]
            ),
            sharing=calibrated.Sharing.stacked(
                [
                    calibrated_run.sharing(run.zero_stage)
                    for calibrated_run, run in zip(on, runs, strict=True)
                ]
            ),
            pipeline_visible=np.array([run.stack.pipeline_visible for run in runs]),
            zero_stage=np.array([run.zero_stage for run in runs], np.float64),
            model=model,
        )

    def seconds(self, by: Scaling = NO_CHANGE) -> Floats:
        """Iteration times, for files whose numbers are changed by such factors [s]."""
        on, sharing = self._reached(by), self._sharing(by)
        kernels = calibrated.Kernels.of(self.part, on)
        passes = kernels.beside(self._sent(by), self.again, sharing)
        total = self.stages.pipeline_s(passes) + self._transfers_s(by, sharing)
        exchange = self._exchange(by)
        total = total + exchange.data_s(self.stages, passes, sharing)
        optimizer_s = exchange.optimizer_s(self.stages, sharing, on)
        total_s: Floats = np.asarray(total + optimizer_s + sharing.iteration_s)
        return total_s

    def _reached(self, by: Scaling) -> calibrated.Reached:
        on = self.reached
        return replace(
            on,
            product_flops_per_s=on.product_flops_per_s * by.products,
            head_flops_per_s=on.head_flops_per_s * by.head,
            lost_outputs=on.lost_outputs * by.wave,
            attention_flops_per_s=on.attention_flops_per_s * by.attention,
            vector=on.vector * by.vector,
        )

    def _sharing(self, by: Scaling) -> calibrated.Sharing:
        sharing = self.sharing
        contention = sharing.contention * by.contention
        return replace(
            sharing,
            tensor_visible=sharing.tensor_visible * by.tensor_visible,
            pipeline_visible=np.maximum(self.pipeline_visible, contention),
            contention=contention,
            layer_s=sharing.layer_s * by.layer_s,
            iteration_s=sharing.iteration_s * by.iteration_s,
        )

    def _sent(self, by: Scaling) -> calibrated.LayerCollectives:
        """Tensor collectives and context rings of a layer, alone."""
        part, links, model = self.part, self.links, self.model
        tensor, context = self.degrees[:2]
        outside = tensor / np.minimum(tensor, links.hb_size)
        steps_s = model.hb_step_s * (tensor - outside) + model.network_step_s * (outside - 1)
        pace = links.pace(tensor, np.ones_like(tensor), by.network)
        tensor_s = ELEMENT_BYTES * part.tokens * part.hidden * pace + steps_s
        tensor_s = tensor_s + np.where(tensor > 1, model.collective_s, 0.0)
        keys_bytes = 2 * ELEMENT_BYTES * part.tokens * part.key
        ring_s = keys_bytes * (context - 1) * links.hop(tensor * context, by.network)
        return calibrated.LayerCollectives(tensor_s, ring_s)

    def _transfers_s(self, by: Scaling, sharing: calibrated.Sharing) -> Floats:
        """Transfers between stages, as far as they show."""
        tensor, context, data, pipeline = self.degrees[:4]
        sent_bytes = ELEMENT_BYTES * self.part.tokens * self.part.hidden / tensor
        hop_s = sent_bytes * self.links.hop(tensor * context * data * pipeline, by.network)
        hop_s = hop_s + self.model.collective_s + self.model.network_step_s
        transfers_s: Floats = self.stages.transfers * hop_s * sharing.pipeline_visible
        return transfers_s

    def _exchange(self, by: Scaling) -> calibrated.Exchange:
        tensor, context, data = self.degrees[:3]
        members = context * data
        return calibrated.Exchange(
            self.links.pace(members, tensor, by.network),
            members,
            self.part.layer_weights,
            self.part.end_weights,
            self.zero_stage,
        )


def _slice(run: MeasuredRun) -> calibrated.Slice:
    cut = run.degrees
    sharding = Sharding.of(cut.microbatch, tensor=cut.tensor, context=cut.context)
    return calibrated.Slice.of(run.model, sharding, sequence_parallel=run.sequence_parallel)


def _stages(runs: Sequence[MeasuredRun], degrees: Floats) -> calibrated.Stages:
    """Pipelines of runs."""
    layers = np.array([run.model.layers for run in runs], np.float64)
    stages, interleave, microbatches = degrees[3], degrees[4], degrees[6]
    fullest = interleave * -(-layers // (stages * interleave))
    less = missing_layers(layers, stages, interleave)
    bubble = np.array([BUBBLE_SHARE.get(run.schedule, 1.0) for run in runs])
    chunk = fullest / interleave
    return calibrated.Stages(
        layers, stages, interleave, microbatches, fullest, chunk, less.first, less.last, bubble
    )


class Parameter(Entry, frozen=True, kw_only=True):
    """One number to fit: where it stands, its prior, and the width of that.

    Without a prior it is what the files say.
    """

    values: tuple[str, ...]
    width: PositiveFloat
    prior: PositiveFloat | None = None


class Calibration(Record, frozen=True, kw_only=True):
    """Numbers that are fitted together; ``noise`` is the error of a run, as a share of it.

    ``kernel_noise`` is that of a product or collective, ``kernel_widths`` has the widths of their
    numbers by key; ``start`` stands for the block ``training`` of accelerators that have none.
    """

    noise: PositiveFloat
    parameters: tuple[Parameter, ...]
    kernel_noise: PositiveFloat = 0.05
    kernel_widths: dict[str, PositiveFloat] = field(default_factory=dict)
    start: TrainingRates | None = None
    notes: tuple[str, ...] = ()


CALIBRATIONS = Catalog("calibration", "traffic/calibrations", Calibration)

Applies = Callable[[MeasuredRun], bool]


class Place(Struct, frozen=True):
    """Where a number stands in formulas: what it is a factor of, and in which runs."""

    factor: str
    applies: Applies = lambda _: True
    largest: float = np.inf


def _overlaps(run: MeasuredRun) -> bool:
    """Whether a run has the share of a stack's own overlap."""
    return run.tensor_overlap or run.stack.tensor_visible_without_overlap is None


def places_of(key: str) -> tuple[Place, ...]:
    """What a key of a record is in formulas; none if nothing is known of it."""
    part, _, name = key.rpartition(".")
    if part == "training.gemm":
        product_place = Place("products", lambda run: run.precision == name, 1.0)
        return (product_place, Place("head", largest=1.0)) if name == "bf16" else (product_place,)
    if part == "training.attention":
        return (Place("attention", lambda run: run.attention == name, 1.0),)
    if part == "calibration.network_efficiency":
        kind = name.replace("_", "-")
        return (Place("network", lambda run: run.network_kind == kind, 1.0),)
    return (SINGLE[key],) if key in SINGLE else ()


SINGLE: Mapping[str, Place] = {
    "training.wave": Place("wave"),
    "vector": Place("vector"),
    "tensor_visible": Place("tensor_visible", _overlaps, 1.0),
    "tensor_visible_without_overlap": Place("tensor_visible", lambda r: not _overlaps(r), 1.0),
    "layer_s": Place("layer_s"),
    "calibration.contention": Place("contention", largest=1.0),
    "calibration.iteration_s": Place("iteration_s"),
}
