"""Which operators make a stage, on how many tiles, cut how: the least time of the slowest stage.

The operators of a model run in their order; a stage is a run of them, on a group of tiles that all
have a part of each, one operator after the other. By closed forms, where nothing waits, an operator
takes on g tiles, in microbatches of B samples,

    gather + compute + sum

with rings of (p - 1)/p and 2 (p - 1)/p times the bytes over the rate of a link, for the fastest of
all ways to cut it (`netplan.workloads.tile_operators`) that keep within a share of its tiles'
memory. With these times the slowest stage is as fast as can be, exactly: a bisection over its time
asks for each run of operators how few tiles keep it, with room for all or not, and the shortest
path through them whether all tiles together suffice.

Of these shares, with and without room for all, and of microbatches of 1, 2, 4 ... samples, the one
counts that gives the most samples a second where all channels carry the traffic that is left.
Source: PALM (arXiv:2406.03868, Sec. IV-B), whose default shares tiles out by work alone.
"""

from collections.abc import Iterator
from functools import cached_property
from math import inf

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Floats, Ints
from netplan.errors import InputError
from netplan.records import replace
from netplan.workloads.tile_operators import (
    Held,
    TileOperator,
    TileParts,
    held_on_chip,
    operand_bytes,
    splits_of,
    tile_parts,
)

BISECTIONS, ROUNDING = 24, 1e-12
"""Halvings of the interval in which the time of the slowest stage lies; what sums are off by [1].
"""

HELD_SHARES = (1.0, 0.25, 1 / 16, 1 / 64)
"""Shares of a tile's memory that one operator may keep, of which the best counts [1]."""

Run = tuple[int, int, int]
"""First operator of a stage, the one behind its last, and its tiles."""

MOST_OPERATORS = 600
"""Operators whose runs are weighed against each other, at most [1]."""

MICROBATCHES = (1, 2, 4, 8)
"""Samples of a microbatch that are tried where none are asked for [1]."""


class TileRates(Struct, frozen=True):
    """What a tile and the links between tiles do.

    Parameters
    ----------
    product_flops_per_s, other_flops_per_s
        Products and convolutions, and what works element by element [FLOP/s].
    link_bytes_per_s
        A link, one direction [B/s].
    memory_bytes_per_s
        All channels together [B/s].
    sram_bytes
        Memory of a tile [B].
    state_bytes
        What a weight has beside it, gradient and optimizer, for each of its bytes: 0 where nothing
        is trained [B].
    """

    product_flops_per_s: float
    other_flops_per_s: float
    link_bytes_per_s: float
    memory_bytes_per_s: float
    sram_bytes: float
    state_bytes: float = 0.0

    def flops_per_s(self, operator: TileOperator) -> float:
        """Rate of a tile at an operator [FLOP/s]."""
        return self.product_flops_per_s if operator.product else self.other_flops_per_s

    @property
    def trains(self) -> bool:
        """Whether there are backward passes."""
        return self.state_bytes > 0


class TilePiece(Struct, frozen=True):
    """One operator of a stage on its fullest tile.

    Parameters
    ----------
    operator
        The operator.
    split
        Tiles over samples, outputs, tokens and inner sizes [1].
    flops, input_bytes, weight_bytes, output_bytes, beside_bytes
        Parts of that tile [FLOP], [B].
    alone_s
        Computing and sending where nothing waits, forward and backward [s].
    """

    operator: TileOperator
    split: tuple[int, ...]
    flops: float
    input_bytes: float
    weight_bytes: float
    output_bytes: float
    beside_bytes: float
    alone_s: float

    @property
    def at_once_bytes(self) -> float:
        """What it takes and gives, and what lies beside it [B]."""
        return self.input_bytes + self.output_bytes + self.beside_bytes

    def forward_bytes(self, held: Held, sram_bytes: float) -> float:
        """What the forward pass moves through memory [B]."""
        weights = self.weight_bytes
        sizes = self.input_bytes, weights, self.output_bytes
        return operand_bytes(*sizes, held, sram_bytes=sram_bytes, weights=1 if weights else 0)

    def backward_bytes(self, held: Held, sram_bytes: float) -> float:
        """What the gradients of inputs, and those of weights, move through memory [B]."""
        inputs, weights, outputs = self.input_bytes, self.weight_bytes, self.output_bytes
        if not weights:
            return operand_bytes(outputs, inputs, inputs, held, sram_bytes=sram_bytes, weights=0)
        of_inputs = operand_bytes(outputs, weights, inputs, held, sram_bytes=sram_bytes, weights=1)
        of_weights = operand_bytes(inputs, outputs, weights, held, sram_bytes=sram_bytes, weights=2)
        return of_inputs + of_weights


class TileStage(Struct, frozen=True, dict=True):
    """A run of operators on a group of tiles, which hold the inputs of samples under way."""

    pieces: tuple[TilePiece, ...]
    tiles: int
    under_way: float
    rates: TileRates

    @cached_property
    def held(self) -> Held:
        """What its tiles hold from one sample to the next."""
        weights = sum(piece.weight_bytes for piece in self.pieces)
        activations = max(piece.at_once_bytes for piece in self.pieces)
        if self.rates.trains:
            activations = self.under_way * sum(piece.input_bytes for piece in self.pieces)
        kept = (1 + self.rates.state_bytes) * weights, activations
        return held_on_chip(*kept, self.rates.sram_bytes)

    @cached_property
    def moved_bytes(self) -> float:
        """What one tile moves through memory for a microbatch [B]."""
        given = self.held, self.rates.sram_bytes
        forward = sum(piece.forward_bytes(*given) for piece in self.pieces)
        if not self.rates.trains:
            return forward
        return forward + sum(piece.backward_bytes(*given) for piece in self.pieces)

    @property
    def busy_s(self) -> float:
        """What it takes for a microbatch where nothing waits, memory left out [s]."""
        return sum(piece.alone_s for piece in self.pieces)


def ring_s(tiles: Ints, size_bytes: Floats, rates: TileRates) -> Floats:
    """A ring around so many tiles, once, where nothing waits [s]."""
    return (tiles - 1) / tiles * size_bytes / rates.link_bytes_per_s


def _alone_s(operator: TileOperator, parts: TileParts, rates: TileRates) -> Floats:
    """Computing and sending of an operator by the way to cut it, shape (splits,) [s]."""
    gather_s = ring_s(parts.gathered, parts.input_bytes, rates)
    sum_s = 2 * ring_s(parts.summed, parts.output_bytes, rates)
    forward_s = parts.flops / rates.flops_per_s(operator)
    if not rates.trains:
        return forward_s + gather_s + sum_s
    passes = 1 + operator.backward_flops / operator.flops
    return passes * forward_s + 3 * gather_s + 1.5 * sum_s


class TileMapping(Struct, frozen=True, dict=True):
    """Stages in their order, and samples of a microbatch [1]."""

    stages: tuple[TileStage, ...]
    microbatch: int
    rates: TileRates

    @property
    def tiles(self) -> int:
        """Tiles that have work [1]."""
        return sum(stage.tiles for stage in self.stages)

    @cached_property
    def samples_per_s(self) -> float:
        """Samples a second by closed forms: of the slowest stage, or of all channels [1/s]."""
        moved = sum(stage.tiles * stage.moved_bytes for stage in self.stages)
        slowest_s = max(stage.busy_s for stage in self.stages)
        return self.microbatch / max(slowest_s, moved / self.rates.memory_bytes_per_s)


def best_mapping(
    operators: tuple[TileOperator, ...],
    tiles: int,
    rates: TileRates,
    *,
    stages: int | None = None,
    microbatches: tuple[int, ...] = MICROBATCHES,
) -> TileMapping:
    """The mapping of the most samples a second.

    Parameters
    ----------
    operators
        What runs, in its order.
    tiles
        Tiles there are [1].
    rates
        What they do.
    stages
        Stages of the pipeline; None: as many as are the fastest [1].
    microbatches
        Samples of a microbatch that are tried [1].

    Raises
    ------
    InputError
        If the stages are more than operators or tiles, or the operators too many.

    Examples
    --------
    Four equal products, whose rings cost more than a microsecond: a tile each.

    >>> sizes = 64, 64, 64, 2 * 64.0**3, 8192.0, 8192.0, 8192.0
    >>> operators = tuple(TileOperator(name, *sizes, product=True) for name in "abcd")
    >>> rates = TileRates(1e12, 1e12, 1e9, 1e9, 1e6)
    >>> found = best_mapping(operators, 4, rates, stages=4, microbatches=(1,))
    >>> [(len(stage.pieces), stage.tiles, stage.held) for stage in found.stages]
    [(1, 1, 'all'), (1, 1, 'all'), (1, 1, 'all'), (1, 1, 'all')]
    >>> round(found.samples_per_s * 2 * 64**3 / 1e12, 6)
    1.0
    """
    if len(operators) > MOST_OPERATORS:
        raise InputError(
            f"{len(operators):,} operators are too many to share tiles out among them: at most"
            f" {MOST_OPERATORS:,}; take a model of fewer layers, or fewer kernels a layer"
        )
    most = min(len(operators), tiles)
    if stages is not None and not 1 <= stages <= most:
        raise InputError(
            f"--fix pipeline={stages}: {len(operators):,} operators on {tiles:,} tiles make 1 to"
            f" {most:,} stages"
        )
    mappings = (
        mapping
        for samples in microbatches
        for mapping in _mappings(operators, tiles, rates, stages=stages, microbatch=samples)
    )
    return max(mappings, key=lambda mapping: mapping.samples_per_s)


def _mappings(
    operators: tuple[TileOperator, ...],
    tiles: int,
    rates: TileRates,
    *,
    stages: int | None,
    microbatch: int,
) -> Iterator[TileMapping]:
    """The fastest stages for microbatches of so many samples, by what they may hold."""
    under_way = float(stages or 1) if rates.trains else 1.0
    known: dict[tuple[float, ...], list[list[TilePiece]]] = {}
    for operator in operators:
        if operator.sizes not in known:
            groups = range(1, tiles + 1)
            by_group = [_pieces(operator, group, microbatch, rates) for group in groups]
            known[operator.sizes] = [list(pieces) for pieces in zip(*by_group, strict=True)]
    for number in range(len(HELD_SHARES)):
        pieces = [known[operator.sizes][number] for operator in operators]
        times_s = np.array([[piece.alone_s for piece in row] for row in pieces])
        # What a tile keeps of an operator from one sample to the next, if it keeps all.
        weights = np.array([[piece.weight_bytes for piece in row] for row in pieces])
        kept = (1 + rates.state_bytes) * weights
        most = np.zeros_like(kept)
        if rates.trains:
            kept += under_way * np.array([[piece.input_bytes for piece in row] for row in pieces])
        else:
            most = np.array([[piece.at_once_bytes for piece in row] for row in pieces])
        for limit_bytes in (rates.sram_bytes, inf):
            runs = stage_runs(times_s, stages, kept=(kept, most), limit=limit_bytes)
            if runs is None:
                continue
            made = []
            for place, (first, last, group) in enumerate(runs):
                held = tuple(
                    replace(row[group - 1], operator=operator)
                    for row, operator in zip(pieces[first:last], operators[first:last], strict=True)
                )
                # Of each sample whose backward pass is still to come a stage holds the inputs.
                waiting = float(len(runs) - place) if rates.trains else 1.0
                made.append(TileStage(held, group, waiting, rates))
            yield TileMapping(tuple(made), microbatch, rates)


def _pieces(operator: TileOperator, tiles: int, samples: int, rates: TileRates) -> list[TilePiece]:
    """The fastest ways to cut an operator that keep within each share of the SRAM.

    Where none does, the one that keeps least; tiles are idle where there is no part for each.
    """
    for used in range(tiles, 0, -1):
        splits = splits_of(used)
        parts = tile_parts(operator, samples, splits)
        if parts.allowed.any():
            break
    alone_s = np.where(parts.allowed, _alone_s(operator, parts, rates), inf)
    left_bytes = samples * operator.beside_bytes / used
    results = 0.0 if rates.trains else parts.output_bytes + left_bytes
    kept = (1 + rates.state_bytes) * parts.weight_bytes + parts.input_bytes + results
    kept = np.where(parts.allowed, kept, inf)
    chosen = []
    for share in HELD_SHARES:
        within = kept <= share * rates.sram_bytes
        fastest = np.where(within, alone_s, inf).argmin() if within.any() else kept.argmin()
        chosen.append(int(fastest))
    return [
        TilePiece(
            operator,
            tuple(splits[index].tolist()),
            float(parts.flops[index]),
            float(parts.input_bytes[index]),
            float(parts.weight_bytes[index]),
            float(parts.output_bytes[index]),
            left_bytes,
            float(alone_s[index]),
        )
        for index in chosen
    ]


def stage_runs(
    times_s: Floats,
    stages: int | None,
    *,
    kept: tuple[Floats, Floats] | None = None,
    limit: float = inf,
) -> list[Run] | None:
    """Runs of operators, and tiles for each, whose slowest is as fast as can be.

    Parameters
    ----------
    times_s
        Time of each operator on 1, 2, 3 ... tiles, shape (operators, tiles) [s].
    stages
        Runs to make; None: any number [1].
    kept, limit
        What a tile keeps of each operator for good, and what only while it runs, each of the same
        shape; and what of a run it may at most [B].

    Returns
    -------
    list or None
        First operator, the one behind the last, and tiles of each run; None if there is no room.

    Examples
    --------
    Work of 1, 1 and 4 on three tiles, two operators of which one tile has room for:

    >>> work = np.array([1.0, 1.0, 4.0])
    >>> times_s, kept = work[:, None] / np.array([1, 2, 3]), np.full((3, 3), 8.0)
    >>> stage_runs(times_s, None, kept=(kept, 0 * kept), limit=20.0)
    [(0, 2, 1), (2, 3, 2)]
    """
    total_s = _sums(times_s)
    spans_s = total_s[None, :, :] - total_s[:, None, :]
    has_room = np.ones(times_s.shape[1], np.bool_)
    if kept is not None and limit < inf:
        total, most = _sums(kept[0]), np.zeros_like(spans_s)
        for first in range(len(times_s)):
            most[first, first + 1 :] = np.maximum.accumulate(kept[1][first:], axis=0)
        has_room = total[None, :, :] - total[:, None, :] + most <= limit
    longest_s, shortest_s = float(total_s[-1].max()), 0.0
    best = _runs_within(spans_s, has_room, longest_s, stages)
    for _ in range(BISECTIONS if best else 0):
        middle_s = (longest_s + shortest_s) / 2
        runs = _runs_within(spans_s, has_room, middle_s, stages)
        if runs is None:
            shortest_s = middle_s
        else:
            best, longest_s = runs, middle_s
    return best


def _sums(rows: Floats) -> Floats:
    """Sums of the first 0, 1, 2 ... rows."""
    return np.vstack([np.zeros(rows.shape[1]), rows.cumsum(axis=0)])


def _runs_within(
    spans_s: Floats, has_room: Bools, limit_s: float, stages: int | None
) -> list[Run] | None:
    """Runs on the fewest tiles of which none takes longer; None if there are too few tiles."""
    count, tiles = spans_s.shape[0] - 1, spans_s.shape[2]
    fits = (spans_s <= limit_s * (1 + ROUNDING)) & has_room
    needed = np.where(fits.any(axis=2), fits.argmax(axis=2) + 1.0, np.inf)
    needed[np.tril_indices(count + 1)] = np.inf
    fewest = np.full(count + 1, np.inf)
    fewest[0] = 0.0
    before: list[Ints] = []
    if stages is None:
        came = np.zeros(count + 1, np.int64)
        for end in range(1, count + 1):
            reached = fewest[:end] + needed[:end, end]
            came[end] = reached.argmin()
            fewest[end] = reached.min()
    else:
        for _ in range(stages):
            reached = fewest[:, None] + needed
            before.append(reached.argmin(axis=0))
            fewest = reached.min(axis=0)
    if fewest[count] > tiles:
        return None
    runs, end = [], count
    while end:
        first = int(came[end] if stages is None else before.pop()[end])
        runs.append((first, end, int(needed[first, end])))
        end = first
    return runs[::-1]
