"""Model files of other families: recommendation models, LINPACK, FFT, graphs.

``family`` in a file says which keys it has; without it, a file describes a transformer
(`netplan.workloads.models`). Sources: DFModel (Ko et al., ACM TACO 2024), Sec. VI, and the input
files of its public code.
"""

from collections.abc import Mapping
from itertools import pairwise
from math import log2
from typing import ClassVar, Literal

import numpy as np

from netplan.arrays import Ints
from netplan.catalog import Record
from netplan.errors import InputError
from netplan.records import NonNegativeFloat, PositiveFloat, PositiveInt
from netplan.units import si
from netplan.workloads.graph_model import GraphModel

WORD_BYTES = 2.0
"""Numbers in tables are 16-bit ones [B]."""

FLOPS_PER_POINT = 5.0
"""Additions and multiplications of a radix-2 transform, over n log2(n) [FLOP]."""

MAX_STEPS = 1_000_000
"""Steps of a model at most [1]."""


class SpreadModel(Record, frozen=True, kw_only=True):
    """A model that lies on all GPUs alike: of a plan only their number and their grid are open.

    ``spread`` are the dimensions over which it lies, ``takes`` the inputs of training questions
    that mean something for it beside model, iteration model and space; ``counts`` is what its batch
    counts.
    """

    family: str
    spread: ClassVar[tuple[Literal["tensor", "context", "expert"], ...]]
    takes: ClassVar[tuple[str, ...]] = ()
    counts: ClassVar[str]

    @property
    def open_degrees(self) -> tuple[str, ...]:
        """What a search of its plans leaves open."""
        return self.spread

    def batch_on(self, gpus: int) -> int:  # noqa: ARG002 - by family
        """Global batch of one iteration where none is asked for [samples, or transforms]."""
        return 1

    def flops(self, batch: int) -> float:
        """Useful work of one iteration [FLOP]."""
        raise NotImplementedError

    def laid_out(self, degrees: Mapping[str, int], batch: int) -> str:
        """Sentences: what each GPU has of it, by the degrees, and which it does not have."""
        raise NotImplementedError


class RecommendationModel(SpreadModel, frozen=True, kw_only=True):
    """A recommendation model: tables of embeddings between two stacks of layers.

    Layers are square, all of one ``width``, ``bottom_layers`` before and ``top_layers`` behind the
    tables; or ``bottom`` and ``top`` list the numbers that go into each and out of the last. Of
    each table a sample looks up ``pooled`` rows. Their ``exchange`` sends the rows one by one
    (``unpooled``), or the sum of a table's (``pooled``); an ``interaction`` by ``dot`` multiplies
    each pair of these vectors and the bottom stack's. ``row_state_bytes`` is the optimizer's state
    of a row. ``batch`` is that of one chip. ``parameters`` is the published count, for checks only.
    """

    spread: ClassVar[tuple[Literal["expert"], ...]] = ("expert",)
    takes: ClassVar[tuple[str, ...]] = (
        *("batch", "zero_stage", "inference"),
        *("optimizer", "offload", "memory_policy"),
    )
    counts: ClassVar[str] = "samples"

    family: Literal["recommendation"]
    width: PositiveInt | None = None
    bottom_layers: PositiveInt | None = None
    top_layers: PositiveInt | None = None
    bottom: tuple[PositiveInt, ...] = ()
    top: tuple[PositiveInt, ...] = ()
    tables: PositiveInt
    rows: PositiveInt
    embedding: PositiveInt
    pooled: PositiveInt
    exchange: Literal["unpooled", "pooled"] = "unpooled"
    interaction: Literal["none", "dot"] = "none"
    row_state_bytes: NonNegativeFloat = 0.0
    batch: PositiveInt
    parameters: PositiveFloat | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse layers that are described in part, or twice."""
        square = [self.width, self.bottom_layers, self.top_layers]
        listed = [self.bottom, self.top]
        if all(square) and not any(listed):
            return
        if any(square) or not all(listed):
            raise ValueError(
                "layers are square (width, bottom_layers and top_layers) or listed (bottom and"
                " top): give all of the one and none of the other"
            )
        if min(map(len, listed)) == 1:
            raise ValueError(
                "a list of layers has the numbers that go into each and out of the last, got one"
                " number: give two or more"
            )

    @property
    def bottom_products(self) -> tuple[tuple[int, int], ...]:
        """Numbers into and out of each layer before the tables [1]."""
        return _products(self.bottom, self.width, self.bottom_layers)

    @property
    def top_products(self) -> tuple[tuple[int, int], ...]:
        """The same of the layers behind the tables [1].

        Examples
        --------
        >>> from netplan.workloads.models import WORKLOADS
        >>> WORKLOADS.load("dlrm-astra-sim").top_products
        ((1040, 512), (512, 512), (512, 512))
        """
        return _products(self.top, self.width, self.top_layers)

    @property
    def layers(self) -> int:
        """Layers of both stacks [1]."""
        return len(self.bottom_products) + len(self.top_products)

    @property
    def pairs(self) -> int:
        """Pairs of vectors that interact in a sample, those of the tables and the bottom's [1]."""
        return self.tables * (self.tables + 1) // 2 if self.interaction == "dot" else 0

    @property
    def table_bytes(self) -> float:
        """All tables, of 16-bit numbers, with the optimizer's state of each row [B]."""
        states = self.row_state_bytes * self.tables * self.rows
        return WORD_BYTES * self.tables * self.rows * self.embedding + states

    @property
    def sample_bytes(self) -> float:
        """All rows that one sample looks up [B]."""
        return WORD_BYTES * self.tables * self.pooled * self.embedding

    @property
    def state_bytes(self) -> float:
        """States of these rows [B]."""
        return self.row_state_bytes * self.tables * self.pooled

    @property
    def sent_bytes(self) -> float:
        """What of one sample's rows goes to the GPU that has the sample [B]."""
        pooled = self.exchange == "pooled"
        return WORD_BYTES * self.tables * self.embedding if pooled else self.sample_bytes

    def batch_on(self, gpus: int) -> int:
        """The batch of one chip on each GPU [samples]."""
        return self.batch * gpus

    def flops(self, batch: int) -> float:
        """Three products of every layer, and of every pair: 6 k n of k x n weights [FLOP]."""
        weights = sum(k * n for k, n in (*self.bottom_products, *self.top_products))
        return 6.0 * (weights + self.pairs * self.embedding) * batch

    def laid_out(self, degrees: Mapping[str, int], batch: int) -> str:
        """Tables on all GPUs, the layers on each."""
        gpus = degrees["expert"]
        return (
            f"Tables lie on {gpus:,} GPUs, {si(self.table_bytes / gpus, 'B')} on each, every one"
            f" has all layers and {-(-batch // gpus):,} samples; a recommendation model has no"
            " tensor, context or pipeline degree."
        )


def _products(
    sizes: tuple[int, ...], width: int | None, layers: int | None
) -> tuple[tuple[int, int], ...]:
    """Numbers into and out of layers, which are listed or square."""
    return tuple(pairwise(sizes)) or ((width or 0, width or 0),) * (layers or 0)


class LinpackModel(SpreadModel, frozen=True, kw_only=True):
    """A dense system of equations (LINPACK), solved in steps of a block of columns.

    ``unknowns`` is the order of the matrix, ``block`` the columns of a step, ``word_bytes`` the
    size of a number.
    """

    spread: ClassVar[tuple[Literal["tensor", "context"], ...]] = ("tensor", "context")
    counts: ClassVar[str] = "solutions"

    family: Literal["linpack"]
    unknowns: PositiveInt
    block: PositiveInt
    word_bytes: PositiveFloat
    notes: tuple[str, ...] = ()

    def flops(self, batch: int = 1) -> float:
        """2/3 n^3 + 2 n^2 [FLOP]."""
        n = float(self.unknowns)
        return (2 / 3 * n**3 + 2 * n**2) * batch

    @property
    def sides(self) -> Ints:
        """Rows and columns that are left at the begin of each step, shape (steps,) [1].

        Raises
        ------
        InputError
            If the blocks do not divide the matrix into a number of steps that can be listed.
        """
        n, block = self.unknowns, self.block
        if not 0 < n // block <= MAX_STEPS:
            raise InputError(
                f"{self.name}: {n:,} unknowns in blocks of {block:,} are {n // block:,} steps: give"
                f" 1 to {MAX_STEPS:,}"
            )
        return n - block * np.arange(-(-n // block))

    def laid_out(self, degrees: Mapping[str, int], batch: int) -> str:  # noqa: ARG002 - one solution
        """A grid of rows and columns."""
        rows, columns = degrees["tensor"], degrees["context"]
        held = self.word_bytes * -(-self.unknowns // rows) * -(-self.unknowns // columns)
        return (
            f"The matrix lies on a grid of {rows:,} x {columns:,} GPUs (tensor x context),"
            f" {si(held, 'B')} on each, and is solved in {len(self.sides):,} steps; LINPACK has no"
            " expert, data or pipeline degree, and no batch."
        )


class FourierModel(SpreadModel, frozen=True, kw_only=True):
    """A Fourier transform of a square of points.

    ``side`` is the number of its rows and columns, ``word_bytes`` the size of a point, 8 for a
    complex number of two 32-bit ones.
    """

    spread: ClassVar[tuple[Literal["tensor"], ...]] = ("tensor",)
    counts: ClassVar[str] = "transforms"

    family: Literal["fft"]
    side: PositiveInt
    word_bytes: PositiveFloat
    notes: tuple[str, ...] = ()

    def flops(self, batch: int) -> float:
        """5 n log2(n) for n points [FLOP]."""
        points = float(self.side) ** 2
        return FLOPS_PER_POINT * points * log2(points) * batch

    def laid_out(self, degrees: Mapping[str, int], batch: int) -> str:  # noqa: ARG002 - one transform
        """Rows on all GPUs."""
        gpus = degrees["tensor"]
        return (
            f"Each of {gpus:,} GPUs has {-(-self.side // gpus):,} of the {self.side:,} rows; a"
            " Fourier transform has no context, expert, data or pipeline degree, and no batch."
        )


OtherModel = RecommendationModel | LinpackModel | FourierModel | GraphModel

FAMILIES: dict[str, type[Record]] = {
    "recommendation": RecommendationModel,
    "linpack": LinpackModel,
    "fft": FourierModel,
    "graph": GraphModel,
}
