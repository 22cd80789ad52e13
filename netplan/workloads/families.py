"""Model files of other families: recommendation models, LINPACK, FFT, graphs.

``family`` in a file says which keys it has; without it, a file describes a transformer
(`netplan.workloads.models`). Sources: DFModel (Ko et al., ACM TACO 2024), Sec. VI, and the input
files of its public code.
"""

from collections.abc import Mapping
from math import log2
from typing import ClassVar, Literal

import numpy as np

from netplan.arrays import Ints
from netplan.catalog import Record
from netplan.errors import InputError
from netplan.records import PositiveFloat, PositiveInt
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
    """A recommendation model: tables of embeddings between two stacks of square layers.

    ``width`` is that of all layers; ``bottom_layers`` and ``top_layers`` stand before and after the
    tables, of each of which a sample looks up ``pooled`` rows. ``batch`` is that of one chip.
    ``parameters`` is the published count, for checks only.
    """

    spread: ClassVar[tuple[Literal["expert"], ...]] = ("expert",)
    takes: ClassVar[tuple[str, ...]] = ("batch", "zero_stage", "inference")
    counts: ClassVar[str] = "samples"

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
        return WORD_BYTES * self.tables * self.rows * self.embedding

    def exchange_bytes(self, chips: int) -> float:
        """What each chip sends to each other one for its lookups, one way [B].

        Rows are sent one by one, not summed first.
        """
        return self.sample_bytes / chips * self.batch

    @property
    def sample_bytes(self) -> float:
        """All rows that one sample looks up [B]."""
        return WORD_BYTES * self.tables * self.pooled * self.embedding

    def batch_on(self, gpus: int) -> int:
        """The batch of one chip on each GPU [samples]."""
        return self.batch * gpus

    def flops(self, batch: int) -> float:
        """Three products of every layer, forward and backward: 6 width^2 a sample [FLOP]."""
        return 6.0 * self.layers * self.width**2 * batch

    def laid_out(self, degrees: Mapping[str, int], batch: int) -> str:
        """Tables on all GPUs, the layers on each."""
        gpus = degrees["expert"]
        return (
            f"Tables lie on {gpus:,} GPUs, {si(self.table_bytes / gpus, 'B')} on each, every one"
            f" has all layers and {-(-batch // gpus):,} samples; a recommendation model has no"
            " tensor, context or pipeline degree."
        )


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
        sides: Ints = n - block * np.arange(-(-n // block))
        return sides

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
