"""Iteration models: three named parts, each chosen and set by a catalog file.

*Compute* turns operations into seconds, *communication* turns messages on levels into seconds,
*overlap* says what runs at the same time and what is stored. The presets ``ptd-p`` (rail-only
paper) and ``4d`` (foundation-models paper) are two such files of one evaluator; a file may combine
the parts in any other way. Models that have no closed forms, but are simulated only, say so by
their ``family`` (`netplan.simulation.palm_model`).
"""

from typing import Literal

from netplan.catalog import Record, Shelf
from netplan.documents import Document
from netplan.errors import CatalogError
from netplan.records import Entry, NonNegativeFloat, PositiveFloat, PositiveInt, PositiveShare
from netplan.traffic.hierarchy import Communication, Schedule
from netplan.workloads.program import Counting, Zero


class ComputePart(Entry, frozen=True, kw_only=True):
    """How long the operations take.

    ``detailed`` operations follow the roofline, ``counted`` ones are closed forms of matrix
    products and move no bytes. ``kernel_latency_s`` is paid once an operation and direction;
    ``attention_slowdown`` stretches the FLOPs of the attention part.
    """

    operations: Counting
    kernel_latency_s: NonNegativeFloat
    tensor_efficiency: PositiveShare
    vector_efficiency: PositiveShare
    attention_slowdown: PositiveFloat


class CommunicationPart(Entry, frozen=True, kw_only=True):
    """How long messages take.

    A ``ring`` runs through all levels at once, its slowest level counts; ``phased`` collectives
    use one level after the other.
    """

    collectives: Literal["ring", "phased"]
    bandwidth_efficiency: PositiveShare

    @property
    def used(self) -> Communication:
        """The same for the engine of collective times."""
        schedule: Schedule = "flat_ring" if self.collectives == "ring" else "hierarchical"
        return Communication(schedule, self.bandwidth_efficiency)


class OverlapPart(Entry, frozen=True, kw_only=True):
    """What happens at the same time, and what is stored meanwhile.

    ``bubble`` is a number of whole layers or of their computation only; ``hop`` says whether a
    microbatch pays the mean or the slowest transfer between stages. ``data`` collectives are
    hidden behind the computation of one layer each, or exposed as one. ``in_flight`` counts the
    stored microbatches: of the 1F1B schedule, or always of a full pipeline (``interleaved``: more
    of them with interleaved stages; ``plain``: not).
    """

    bubble: Literal["layer", "compute"]
    hop: Literal["mean", "slowest"]
    data: Literal["overlapped", "exposed"]
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
    """

    tensor: Literal["heads", "sequence"]
    smallest_block: PositiveInt
    smallest_panel: PositiveInt
    interleave: Literal["none", "whole", "any"]
    divisibility: Literal["exact", "free"] = "exact"


class IterationModel(Record, frozen=True, kw_only=True):
    """An iteration model, as its catalog file describes it."""

    compute: ComputePart
    communication: CommunicationPart
    overlap: OverlapPart
    space: SpacePart
    notes: tuple[str, ...] = ()


SIMULATED = ("palm",)
"""Families of iteration models that only the simulator runs."""


class IterationModelShelf(Shelf[IterationModel], frozen=True):
    """Iteration models that a search evaluates, beside which simulated ones stand."""

    def schema_of(self, document: Document) -> type[IterationModel]:
        """Type of the record in a file.

        Raises
        ------
        CatalogError
            If only the simulator runs it.
        """
        if document.data.get("family") in SIMULATED:
            raise CatalogError(
                f"{document.path}:{document.line(['family'])}: an iteration model of family"
                f" {document.data['family']} has no closed forms: only netplan simulate takes it"
            )
        return self.schema


ITERATION_MODELS = IterationModelShelf(
    "iteration-model", "traffic/iteration-models", IterationModel
)
