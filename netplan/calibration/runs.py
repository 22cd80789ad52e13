"""Training runs that were measured, as arrays for iteration model ``calibrated``.

A run says what it trained, on what, by which plan, and the seconds of an iteration. Many of them
become arrays of one shape, so that a fit evaluates all runs at once, by the formulas of
`netplan.performance.calibrated`. They lie on two levels, HB domains and the network, tensor GPUs
inside, then those of context and data, then the stages.

Which numbers of iteration model ``calibrated`` are fitted on runs, calibrations say.

A *calibration* is a catalog file that lists numbers: one may stand at several places (the same
kernel on two boards), has a prior, where that is not what the files say, and its width. Places are
named as by ``--set``: ``NAME.KEY`` or ``ROLE.KEY``.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from msgspec import Struct, field

from netplan.arrays import Amount, Columns, Floats
from netplan.catalog import Catalog, Record
from netplan.inputs.choices import NetworkKind, Precision, Recompute, ScheduleName
from netplan.performance import calibrated
from netplan.performance.calibrated_run import CalibratedRun, CalibrationPart
from netplan.performance.dated.layer import DatedExchange
from netplan.performance.dated.recipe import Recipe
from netplan.performance.dated.run import DatedRun, TimedPrecision
from netplan.performance.setting import BUBBLE_SHARE
from netplan.performance.stacks import Stack
from netplan.records import Entry, PositiveFloat
from netplan.workloads.accelerators import Accelerator, TrainingRates
from netplan.workloads.models import Model
from netplan.workloads.operations import ELEMENT_BYTES, Sharding
from netplan.workloads.program import Zero, missing_layers
from netplan.workloads.recomputation import NOTHING, Recomputation

ColumnsT = TypeVar("ColumnsT", bound=Columns)


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
    its numbers as published, such as fp8-cs. ``imbalance`` is the load of its busiest expert rank
    over the mean.
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
    imbalance: float = 1.0
    zero_stage: Zero = 1
    schedule: ScheduleName = "1f1b"
    seconds: float

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
                collective_s=part.collective_s,
                tensor_overlap=self.tensor_overlap,
            )
        return CalibratedRun.of(
            *(self.accelerator, self.stack, part),
            precision=self.precision,
            tensor_overlap=self.tensor_overlap,
            network_kind=self.network_kind,
            dated=dated,
        )


Quantities = Mapping[str, Amount]
"""What files say of runs, by name; each of a shape that ends with (runs,)."""
NOTHING_ELSE: Quantities = MappingProxyType({})


def quantities_of(run: MeasuredRun, part: CalibrationPart) -> dict[str, float]:
    """What numbers of the files make of a run: rates that it reaches, what shows of its transfers.

    Parameters
    ----------
    run
        The run; nothing of its sizes and degrees counts.
    part
        Numbers of the iteration model.

    Returns
    -------
    dict[str, float]
        By the names of the records that formulas take.
    """
    on = run.calibrated(part)
    known = vars_of(on.reached) | vars_of(on.sharing(run.zero_stage))
    known["network"] = part.network_efficiency.of(run.network_kind)
    if on.dated is not None:
        known |= vars_of(on.dated.shares) | {"half": on.dated.numbers.half_recompute}
        known |= {"software": on.dated.software_factor, "jitter": on.dated.jitter}
    return known


def vars_of(record: Struct) -> dict[str, float]:
    """Fields of a record of numbers."""
    return {name: float(getattr(record, name)) for name in record.__struct_fields__}


def record_of(kind: type[ColumnsT], values: Quantities) -> ColumnsT:
    """A record of numbers or arrays by the names of its fields."""
    return kind(*(values[name] for name in kind.__struct_fields__))


class Bandwidths(NamedTuple):
    """Bandwidths, and who lies where; each of shape (runs,).

    That inside an HB domain is what collectives get, that of the network the links'.
    """

    hb_bytes_per_s: Floats
    network_bytes_per_s: Floats
    hb_size: Floats

    @classmethod
    def of(cls, runs: Sequence[MeasuredRun], model: CalibrationPart) -> "Bandwidths":
        """Those of runs."""
        hb = [run.accelerator.hb_bytes_per_s * model.hb_efficiency for run in runs]
        columns = hb, [run.network_bytes_per_s for run in runs], [run.hb_size for run in runs]
        return cls(*(np.array(column, np.float64) for column in columns))

    def ring_share(self, members: Floats, before: Floats, network: Amount) -> Floats:
        """A ring through all members, ``before`` GPUs apart: its share c of a byte [s/B]."""
        inside = np.minimum(members, np.maximum(1.0, self.hb_size // before))
        outer = np.minimum(self.hb_bytes_per_s, inside * self.network_bytes_per_s * network)
        rate = np.where(inside >= members, self.hb_bytes_per_s, outer)
        return np.asarray((members - 1) / members / rate)

    def hop(self, members: Floats, network: Amount) -> Floats:
        """One hop between neighbours of so many GPUs that follow each other [s/B]."""
        outer = self.network_bytes_per_s * network
        return np.asarray(1 / np.where(members <= self.hb_size, self.hb_bytes_per_s, outer))


class RunArrays(Struct, frozen=True, eq=False):
    """Measured runs, every array of shape (runs,)."""

    runs: tuple[MeasuredRun, ...]
    measured_s: Floats
    part: calibrated.Share
    stages: calibrated.Stages
    degrees: Floats  # shape (9, runs), as in RunDegrees
    links: Bandwidths
    zero_stage: Floats
    model: CalibrationPart
    quantities: dict[str, Floats]

    @staticmethod
    def columns(runs: Sequence[MeasuredRun], model: CalibrationPart) -> dict[str, Any]:
        """What runs have in arrays, with software of a date or without, by field."""
        known = [quantities_of(run, model) for run in runs]
        degrees = np.array([run.degrees for run in runs], np.float64).T
        return {
            "runs": tuple(runs),
            "measured_s": np.array([run.seconds for run in runs]),
            "stages": run_stages(runs, degrees),
            "degrees": degrees,
            "links": Bandwidths.of(runs, model),
            "zero_stage": np.array([run.zero_stage for run in runs], np.float64),
            "model": model,
            "quantities": {name: np.array([row[name] for row in known]) for name in known[0]},
        }

    def tensor_s(self, network: Amount) -> Amount:
        """One tensor collective of a layer, alone [s]."""
        tensor, links, model = self.degrees[0], self.links, self.model
        outside = tensor / np.minimum(tensor, links.hb_size)
        steps_s = model.hb_step_s * (tensor - outside) + model.network_step_s * (outside - 1)
        s_per_byte = links.ring_share(tensor, np.ones_like(tensor), network)
        sent_s = ELEMENT_BYTES * self.part.tokens * self.part.hidden * s_per_byte + steps_s
        tensor_s: Amount = sent_s + np.where(tensor > 1, model.collective_s, 0.0)
        return tensor_s

    def iteration_s(
        self,
        passes: calibrated.Passes,
        exchange: calibrated.Exchange | DatedExchange,
        sharing: calibrated.Sharing,
        on: calibrated.ReachedRates,
        network: Amount,
    ) -> Amount:
        """Passes, transfers between stages, collectives over replicas, and the update [s]."""
        sent_bytes = ELEMENT_BYTES * self.part.tokens * self.part.hidden / self.degrees[0]
        hop_s = sent_bytes * self.links.hop(self.degrees[:4].prod(axis=0), network)
        hop_s = hop_s + self.model.collective_s + self.model.network_step_s
        total = self.stages.pipeline_s(passes)
        total = total + self.stages.transfers * hop_s * sharing.pipeline_visible
        total = total + exchange.data_s(self.stages, sharing)
        total = total + exchange.optimizer_s(self.stages, sharing, on)
        whole_s: Amount = total + sharing.iteration_s
        return whole_s


class MeasuredRuns(RunArrays, frozen=True, eq=False):
    """Measured runs of dense models without a date of software, every array of shape (runs,)."""

    part: calibrated.Slice
    again: calibrated.Redone

    @classmethod
    def of(cls, runs: Sequence[MeasuredRun], model: CalibrationPart) -> "MeasuredRuns":
        """Bring runs into arrays.

        Raises
        ------
        InputError
            If an accelerator lacks the precision of a run, or every attention kernel of its stack.
        """
        parts, again = [], []
        for run in runs:
            cut, parallel = run.degrees, run.sequence_parallel
            sharding = Sharding.of(cut.microbatch, tensor=cut.tensor, context=cut.context)
            parts.append(calibrated.Slice.of(run.model, sharding, sequence_parallel=parallel))
            half = model.half_recompute
            again.append(calibrated.Redone.of(run.recompute, half, sequence_parallel=parallel))
        part, redone = calibrated.Slice.stacked(parts), calibrated.Redone.stacked(again)
        return cls(part=part, again=redone, **cls.columns(runs, model))

    def seconds(self, changed: Quantities = NOTHING_ELSE) -> Floats:
        """Iteration times, with other values of some quantities than the files have [s]."""
        values = {**self.quantities, **changed}
        on, sharing = record_of(calibrated.Reached, values), record_of(calibrated.Sharing, values)
        part, network = self.part, values["network"]
        keys_bytes = 2 * ELEMENT_BYTES * part.tokens * part.key
        tensor, context, data = self.degrees[:3]
        ring_s = keys_bytes * (context - 1) * self.links.hop(tensor * context, network)
        kernels = calibrated.Kernels.of(part, on)
        passes = kernels.with_exposed(self.tensor_s(network), ring_s, self.again, sharing)
        members = context * data
        s_per_byte = self.links.ring_share(members, tensor, network)
        weights = part.layer_weights, part.end_weights
        exchange = calibrated.Exchange(passes, s_per_byte, members, *weights, self.zero_stage)
        return np.asarray(self.iteration_s(passes, exchange, sharing, on, network))


def run_stages(runs: Sequence[MeasuredRun], degrees: Floats) -> calibrated.Stages:
    """Pipelines of runs; layers that predict further tokens are on them, too."""
    layers = np.array([run.model.depth for run in runs], np.float64)
    stages, interleave, microbatches = degrees[3], degrees[4], degrees[6]
    fullest = interleave * -(-layers // (stages * interleave))
    first_less, last_less = missing_layers(layers, stages, interleave)
    bubble = np.array([BUBBLE_SHARE.get(run.schedule, 1.0) for run in runs])
    chunk = fullest / interleave
    return calibrated.Stages(
        layers, stages, interleave, microbatches, fullest, chunk, first_less, last_less, bubble
    )


class Parameter(Entry, frozen=True, kw_only=True):
    """One number to fit: where it stands, its prior, and the width of that.

    Without a prior it is what the files say. It is fitted as its logarithm, or ``lin``, as it is,
    where it may be 0 or below; it is at most ``largest``.
    """

    values: tuple[str, ...]
    width: PositiveFloat
    prior: float | None = None
    scale: Literal["log", "lin"] = "log"
    largest: PositiveFloat | None = None

    def __post_init__(self) -> None:
        """Refuse a prior without a logarithm."""
        if self.scale == "log" and self.prior is not None and self.prior <= 0:
            raise ValueError(f"prior {self.prior:g} has no logarithm: give one above 0")


class Calibration(Record, frozen=True, kw_only=True):
    """Numbers that are fitted together; ``noise`` is the error of a run, as a share of it.

    ``sparse_noise`` is that of a run with experts or Mamba, if another. Errors beyond ``soft``
    times the noise count less than their squares. With ``in_series`` runs of a plan that differ in
    their number of GPUs alone count as one together.
    ``kernel_noise`` is that of a product or collective, ``kernel_widths`` has the widths of their
    numbers by key; ``start`` stands for the block ``training`` of accelerators that have none.
    """

    noise: PositiveFloat
    sparse_noise: PositiveFloat | None = None
    soft: PositiveFloat = 1.0
    in_series: bool = False
    parameters: tuple[Parameter, ...]
    kernel_noise: PositiveFloat = 0.05
    kernel_widths: dict[str, PositiveFloat] = field(default_factory=dict)
    start: TrainingRates | None = None
    notes: tuple[str, ...] = ()


CALIBRATIONS = Catalog("calibration", "traffic/calibrations", Calibration)
