"""Model files of every family: transformers, recommendation models, LINPACK, FFT, graphs.

``family`` in a file says which keys it has; without it, a file describes a transformer. Sources:
DFModel (Ko et al., ACM TACO 2024), Sec. VI, and the input files of its public code.
"""

from typing import Any, Literal

from netplan.catalog import Record, Shelf
from netplan.documents import Document
from netplan.errors import CatalogError
from netplan.records import PositiveFloat, PositiveInt
from netplan.workloads.graph_model import GraphModel
from netplan.workloads.models import Model
from netplan.workloads.operations import ELEMENT_BYTES


class RecommendationModel(Record, frozen=True, kw_only=True):
    """A recommendation model: tables of embeddings between two stacks of square layers.

    ``width`` is that of all layers; ``bottom_layers`` and ``top_layers`` stand before and after the
    tables, of each of which a sample looks up ``pooled`` rows. ``batch`` is that of one chip.
    ``parameters`` is the published count, for checks only.
    """

    family: Literal["recommendation"]
    width: PositiveInt
    bottom_layers: PositiveInt
    top_layers: PositiveInt
    tables: PositiveInt
    rows: PositiveInt
    embedding: PositiveInt
    pooled: PositiveInt
    batch: PositiveInt
    parameters: PositiveFloat | None = None
    notes: tuple[str, ...] = ()

    @property
    def layers(self) -> int:
        """Layers of both stacks [1]."""
        return self.bottom_layers + self.top_layers

    @property
    def table_bytes(self) -> float:
        """All tables, of 16-bit numbers [B]."""
        return ELEMENT_BYTES * self.tables * self.rows * self.embedding

    def exchange_bytes(self, chips: int) -> float:
        """What each chip sends to each other one for its lookups, one way [B].

        Rows are sent one by one, not summed first.
        """
        looked_up = self.tables * self.pooled * self.embedding
        return ELEMENT_BYTES * looked_up / chips * self.batch


class LinpackModel(Record, frozen=True, kw_only=True):
    """A dense system of equations (LINPACK), solved in steps of a block of columns.

    ``unknowns`` is the order of the matrix, ``block`` the columns of a step, ``word_bytes`` the
    size of a number.
    """

    family: Literal["linpack"]
    unknowns: PositiveInt
    block: PositiveInt
    word_bytes: PositiveFloat
    notes: tuple[str, ...] = ()

    @property
    def flops(self) -> float:
        """2/3 n^3 + 2 n^2 [FLOP]."""
        n = float(self.unknowns)
        return 2 / 3 * n**3 + 2 * n**2


class FourierModel(Record, frozen=True, kw_only=True):
    """A Fourier transform of a square of points.

    ``side`` is the number of its rows and columns, ``word_bytes`` the size of a point, 8 for a
    complex number of two 32-bit ones.
    """

    family: Literal["fft"]
    side: PositiveInt
    word_bytes: PositiveFloat
    notes: tuple[str, ...] = ()


AnyModel = Model | RecommendationModel | LinpackModel | FourierModel | GraphModel

FAMILIES: dict[str, type[Record]] = {
    "transformer": Model,
    "recommendation": RecommendationModel,
    "linpack": LinpackModel,
    "fft": FourierModel,
    "graph": GraphModel,
}


class WorkloadShelf(Shelf[Any], frozen=True):
    """Model files, each of the type that its family says."""

    def schema_of(self, document: Document) -> type[Any]:
        """Type of the record in a file.

        Raises
        ------
        CatalogError
            If the family is unknown.
        """
        family = document.data.get("family", "transformer")
        if family not in FAMILIES:
            line = document.line(["family"])
            raise CatalogError(
                f"{document.path}:{line}: family {family!r:.40} is unknown: known are"
                f" {', '.join(FAMILIES)}"
            )
        return FAMILIES[family]


WORKLOADS = WorkloadShelf("model", "traffic/models", Model)
