"""The iteration model ``palm``: the rules of the published PALM code, as a catalog file.

It has parts of its own, as its operations wait for shared links and no closed form times them.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from netplan.catalog import Catalog, Record
from netplan.documents import Document
from netplan.performance.iteration_model import SIMULATED, IterationModel
from netplan.records import Entry, NonNegativeFloat, PositiveFloat, PositiveInt, PositiveShare
from netplan.simulation.handover import HandoverRule

MOST_ADAPTERS = 10_000
"""Adapter tiles of a tensor group [1]."""


class Access(Struct, frozen=True):
    """Bytes that one GPU writes to memory and reads from it."""

    write_bytes: float
    read_bytes: float

    def times(self, factor: float) -> "Access":
        """The same with every byte counted so many times."""
        return Access(factor * self.write_bytes, factor * self.read_bytes)


class PalmMemoryPart(Entry, frozen=True, kw_only=True):
    """How long accesses to memory take.

    ``stationary_factor`` is the share of traffic that remains where weights or activations stay on
    the chip, for each fill of the SRAM; left out, it is that of GPUs or of tiles. The optimizer
    writes ``update_write_bytes`` of every weight and reads ``update_read_bytes``.
    """

    access_latency_s: NonNegativeFloat
    update_write_bytes: NonNegativeFloat
    update_read_bytes: NonNegativeFloat
    gpu_stationary_factor: PositiveFloat
    tile_stationary_factor: PositiveFloat
    stationary_factor: PositiveFloat | None = None

    @property
    def update(self) -> Access:
        """What the optimizer moves for one weight."""
        return Access(self.update_write_bytes, self.update_read_bytes)


class PalmCommunicationPart(Entry, frozen=True, kw_only=True):
    """How long messages take.

    Rings of GPUs reach a share of the rate inside a node and between nodes. On tiles ``borders``
    says which of them slow a path down: those it crosses in ``x`` only, or ``all``. ``handover``
    says how stages hand over there, with so many ``adapters`` in each tensor group
    (`netplan.simulation.handover`). Of tensor groups whose tiles are no ring of neighbours
    ``broken_rings`` says whether they sum up in a ring all the same (``closed``), or from tile to
    tile and back (``line``).
    """

    hb_efficiency: PositiveShare
    network_efficiency: PositiveShare
    borders: Literal["x", "all"]
    handover: HandoverRule = "ends"
    adapters: Annotated[int, Meta(ge=1, le=MOST_ADAPTERS)] = 1
    broken_rings: Literal["closed", "line"] = "closed"


class PipelinePart(Entry, frozen=True, kw_only=True):
    """How many microbatches are simulated before the slowest stage's time is added for each."""

    simulated_microbatches: PositiveInt


class UnitsPart(Entry, frozen=True, kw_only=True):
    """Bytes of what the file of an accelerator or fabric calls a megabyte."""

    megabyte_bytes: PositiveFloat


class PalmModel(Record, frozen=True, kw_only=True):
    """The iteration model of PALM, as its catalog file describes it."""

    family: Literal["palm"]
    memory: PalmMemoryPart
    communication: PalmCommunicationPart
    pipeline: PipelinePart
    units: UnitsPart
    notes: tuple[str, ...] = ()

    @property
    def unit(self) -> float:
        """Bytes that count as one byte of a rate or capacity [1]."""
        return self.units.megabyte_bytes / 1e6


def _any_family(document: Document) -> type[Any]:
    """The type of an iteration model, with closed forms or without."""
    return PalmModel if document.data.get("family") in SIMULATED else IterationModel


ANY_ITERATION_MODEL = Catalog[Any](
    "iteration-model", "traffic/iteration-models", IterationModel, kind_of=_any_family
)
