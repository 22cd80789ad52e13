"""Iteration models: named parts, each chosen and set by a catalog file.

*Compute* turns operations into seconds, *communication* turns messages on levels into seconds,
*overlap* says what runs at the same time and what is stored, *space* which plans there are, and
*memory* in which tier things lie. The presets ``ptd-p`` (rail-only paper), ``4d``
(foundation-models paper) and ``comet`` are such files of one evaluator; a file may combine the
parts in any other way. Models that have no closed forms, but are simulated only, say so by their
``family`` (`netplan.simulation.palm_model`).
"""

from collections.abc import Mapping
from typing import Literal

from netplan.catalog import Catalog, Record
from netplan.documents import Document
from netplan.errors import CatalogError, InputError
from netplan.inputs.choices import MemoryPart as Part
from netplan.inputs.choices import Optimizer, Policy, Recompute
from netplan.performance.calibrated_run import CalibrationPart
from netplan.records import (
    Entry,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    PositiveShare,
    replace,
)
from netplan.traffic.hierarchy import Communication, Schedule
from netplan.workloads.operations import Operation
from netplan.workloads.program import Counting, Zero

OPTIMIZER_BYTES: dict[Optimizer, float] = {"adam": 12.0, "sgd": 4.0}
"""What optimizers hold beside 16-bit weights and gradients [B a parameter].

Both a 32-bit copy of the weights (Micikevicius et al., arXiv:1710.03740, Sec. 3.1); Adam momentum
and variance too, of 32 bits each (Rajbhandari et al., arXiv:1910.02054, Sec. 3.1: K = 12), which
SGD without momentum has not.
"""


class ComputePart(Entry, frozen=True, kw_only=True):
    """How long the operations take.

    ``detailed`` operations follow the roofline, ``counted`` ones are closed forms of matrix
    products and move no bytes, ``tiled`` ones read their operands again as far as the accelerator's
    ``sram_bytes`` do not hold them (`netplan.workloads.tiled_layer`). ``kernel_latency_s`` is paid
    once an operation and direction; ``attention_slowdown`` stretches the FLOPs of the attention
    part, or of its ``scores`` alone (queries by keys, and their result by values), as
    ``attention_slowdown_of`` says. ``kernels`` follow the ``roofline``, are timed as they were
    ``measured`` one by one, or as whole runs were ``calibrated``. ``recompute`` is what the
    backward pass computes again where nothing else is asked for.
    """

    operations: Counting
    kernels: Literal["roofline", "measured", "calibrated"] = "roofline"
    recompute: Recompute = "selective"
    kernel_latency_s: NonNegativeFloat = 0.0
    tensor_efficiency: PositiveShare = 1.0
    vector_efficiency: PositiveShare = 1.0
    attention_slowdown: PositiveFloat = 1.0
    attention_slowdown_of: Literal["attention", "scores"] = "attention"

    def slowdown_of(self, operation: Operation) -> float:
        """What the FLOPs of an operation are stretched by [1].

        Parameters
        ----------
        operation
            An operation of a layer, by its module and whether it is products of scores.

        Returns
        -------
        float
            1 where it is not stretched [1].

        Examples
        --------
        >>> from netplan.workloads.operations import NO_WORK
        >>> part = ComputePart(
        ...     operations="counted", attention_slowdown=2.5, attention_slowdown_of="scores"
        ... )
        >>> projections = Operation("qkv", "attention", 0.0, 0.0, NO_WORK, NO_WORK)
        >>> part.slowdown_of(projections), part.slowdown_of(replace(projections, scores=True))
        (1.0, 2.5)
        """
        whole = self.attention_slowdown_of == "attention"
        stretched = operation.module == "attention" and (whole or operation.scores)
        return self.attention_slowdown if stretched else 1.0


class CommunicationPart(Entry, frozen=True, kw_only=True):
    """How long messages take.

    A ``ring`` runs through all levels at once, its slowest level counts; ``phased`` collectives
    use one level after the other; ``measured`` ones are rings with the protocols, ramps and
    in-switch reductions that were measured. Messages are cut into equal ``chunks`` that follow each
    other, so that levels work at the same time.
    """

    collectives: Literal["ring", "phased", "measured"]
    bandwidth_efficiency: PositiveShare = 1.0
    chunks: PositiveInt = 1

    def __post_init__(self) -> None:
        """Refuse chunks of messages that were measured whole."""
        if self.collectives == "measured" and self.chunks > 1:
            raise ValueError("measured collectives have their own chunks: leave chunks out")

    @property
    def used(self) -> Communication:
        """The same for the engine of collective times."""
        schedule: Schedule = "hierarchical" if self.collectives == "phased" else "flat_ring"
        return Communication(schedule, self.bandwidth_efficiency, self.chunks)


class OverlapPart(Entry, frozen=True, kw_only=True):
    """What happens at the same time, and what is stored meanwhile.

    ``bubble`` is a number of whole layers or of their computation only. Of interleaved stages
    ``interleaved_bubble`` is ``ideal`` for any number of microbatches, as papers have it, or as
    ``scheduled``: longer where these are fewer than the stages (`netplan.performance.iteration`).
    ``hop`` says whether a microbatch pays the mean or the slowest transfer between stages.
    ``data`` collectives are ``overlapped`` with the computation of one layer each, ``exposed`` as
    one, ``queued`` (those of a layer wait until its gradients are there and those before them are
    through; once an iteration) or ``hidden`` altogether, whatever they take. ``in_flight`` counts
    the stored microbatches: of the 1F1B schedule, or always of a full pipeline (``interleaved``:
    more of them with interleaved stages; ``plain``: not).
    """

    bubble: Literal["layer", "compute"]
    interleaved_bubble: Literal["ideal", "scheduled"] = "ideal"
    hop: Literal["mean", "slowest"]
    data: Literal["overlapped", "exposed", "queued", "hidden"]
    in_flight: Literal["1f1b", "interleaved", "plain"]
    zero_stage: Zero
    gradient_bytes: PositiveFloat
    optimizer_bytes: PositiveFloat


class SpacePart(Entry, frozen=True, kw_only=True):
    """Which plans exist.

    ``divisibility`` is ``exact`` where batch, layers and GPUs must divide by the degrees, as the
    papers have it, and ``free`` where they need not: stages and replicas are uneven then, and GPUs
    may be idle (`netplan.performance.free_space`). Questions take the free space unless they are
    asked for the iteration model's own.
    ``tensor`` degrees divide the hidden size and the ``heads`` or the ``sequence``. Blocks stay at
    least ``smallest_block`` wide and SUMMA panels ``smallest_panel``. ``interleave`` allows
    ``none`` of the interleaved schedules, ``whole`` ones (microbatches in groups of the pipeline's
    length) or ``any``.
    ``plans`` of ``powers-of-two`` are few (`netplan.performance.search`), whatever the rest
    says; of these a replica runs ``any`` number of ``microbatches``, or ``one``.
    """

    tensor: Literal["heads", "sequence"]
    smallest_block: PositiveInt
    smallest_panel: PositiveInt
    interleave: Literal["none", "whole", "any"]
    divisibility: Literal["exact", "free"] = "exact"
    plans: Literal["all", "powers-of-two"] = "all"
    microbatches: Literal["any", "one"] = "any"


class MemoryPart(Entry, frozen=True, kw_only=True):
    """What lies in the memory, in which tier, and what the optimizer's update moves there.

    ``policy`` says what lies in the expanded tier of an accelerator that has one, ``offload`` which
    parts do so in any case (`netplan.performance.tiers`). ``buffers`` of sharding and recomputation
    are those of a ``layer``, or ``none``. ``activations`` are those that are ``stored`` for the
    backward pass, the ``working`` ones of COMET, or ``none``.

    The ``update`` counts as far as it ``spilled``, or as a ``whole``. It moves ``update_bytes`` a
    parameter, all that it needs if absent, of the GPU's own share where it is ``update_sharded``.
    """

    policy: Policy = "states-first"
    offload: tuple[Part, ...] = ()
    buffers: Literal["layer", "none"] = "layer"
    activations: Literal["stored", "working", "none"] = "stored"
    update: Literal["spilled", "whole"] = "spilled"
    update_bytes: NonNegativeFloat | None = None
    update_sharded: bool = True

    def __post_init__(self) -> None:
        """Refuse parts that are offloaded where all parts spill alike."""
        if self.offload and self.policy == "uniform":
            raise ValueError(
                "policy uniform spreads all parts alike: leave offload out, or take states-first"
            )


class TransferredErrors(Entry, frozen=True, kw_only=True):
    """Error bars of an iteration model that no run was fitted with, by class of the model.

    The true time lies between the predicted one divided and multiplied by that, nine times of ten.
    """

    dense: PositiveFloat
    moe: PositiveFloat
    hybrid: PositiveFloat


SHARES = ("kernel_latency_s", "tensor_efficiency", "vector_efficiency", "attention_slowdown")
ROOFLINE = {"compute": SHARES, "communication": ("bandwidth_efficiency",)}
"""Keys of parts that a roofline needs; measured and calibrated kernels have rates elsewhere."""


class IterationModel(Record, frozen=True, kw_only=True):
    """An iteration model, as its catalog file describes it.

    ``evaluator`` names what makes iterations of layers (`netplan.performance.evaluation`): by
    default ``layers``, or ``calibrated`` with its kernels. ``errors`` are its bars, where a
    ``calibration`` has none.
    """

    compute: ComputePart
    communication: CommunicationPart
    overlap: OverlapPart
    space: SpacePart
    memory: MemoryPart = MemoryPart()
    calibration: CalibrationPart | None = None
    errors: TransferredErrors | None = None
    evaluator: str = ""
    notes: tuple[str, ...] = ()

    @classmethod
    def check_first(cls, data: Mapping[str, object]) -> None:
        """Refuse a roofline without its shares: one that is left out is not all of a peak."""
        parts = {name: data.get(name) for name in ROOFLINE}
        compute = parts["compute"]
        if isinstance(compute, Mapping) and compute.get("kernels", "roofline") != "roofline":
            return
        for name, part in parts.items():
            for key in ROOFLINE[name]:
                if isinstance(part, Mapping) and key not in part:
                    raise ValueError(f"{name}.{key} is missing, which a roofline needs")

    def __post_init__(self) -> None:
        """Refuse a calibration that nothing takes, or none where kernels need it."""
        if (self.compute.kernels == "calibrated") != (self.calibration is not None):
            raise ValueError("compute.kernels: calibrated and a calibration belong together")
        if self.compute.kernels == "measured" and self.compute.operations != "detailed":
            raise ValueError(
                f"measured kernels take detailed operations, got {self.compute.operations}:"
                " change compute.operations, or compute.kernels"
            )

    def under(self, optimizer: Optimizer) -> "IterationModel":
        """The same under an optimizer: what it holds, and so what its update moves.

        Raises
        ------
        InputError
            If the file says what the update moves, whatever the optimizer holds.

        Examples
        --------
        >>> ITERATION_MODELS.load("4d").under("sgd").overlap.optimizer_bytes
        4.0
        """
        held = OPTIMIZER_BYTES[optimizer]
        if held == self.overlap.optimizer_bytes:
            return self
        if self.memory.update_bytes is not None:
            raise InputError(
                f"iteration model {self.name} says that the update moves"
                f" {self.memory.update_bytes:g} bytes a parameter (memory.update_bytes), which"
                f" --optimizer {optimizer} does not: leave it out, or take another model"
            )
        return replace(self, overlap=replace(self.overlap, optimizer_bytes=held))


SIMULATED = ("palm",)
"""Families of iteration models that only the simulator runs."""


def _with_closed_forms(document: Document) -> type[IterationModel]:
    """Models that a search evaluates, beside which simulated ones stand."""
    family = document.data.get("family")
    if family in SIMULATED:
        raise CatalogError(
            f"{document.path}:{document.line(['family'])}: an iteration model of family {family}"
            " has no closed forms: only netplan simulate takes it"
        )
    return IterationModel


ITERATION_MODELS = Catalog(
    "iteration-model",
    "traffic/iteration-models",
    IterationModel,
    kind_of=_with_closed_forms,
    group="netplan.iteration_models",
)
