"""Who sends how much to whom: in an iteration, a round of servers, a step of post-training."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, get_args

from netplan.answers.borders import borders_table, borders_words
from netplan.answers.screen_titles import screen_heading
from netplan.errors import InputError
from netplan.files import replacing
from netplan.performance.spread import OverSites
from netplan.reports.answer import Answer
from netplan.reports.html import html_page
from netplan.reports.quantities import quantity
from netplan.reports.screen import Screen, more_of
from netplan.reports.sections import Heat, Notes, Paragraph, Section, Table, columns
from netplan.setup.asking import function_of
from netplan.setup.over_sites import place_run
from netplan.setup.own_inputs import default_field
from netplan.setup.placed_run import PlacedRun, Run
from netplan.setup.question import NETWORK, RUNS, SPAN, WEIGHED, Question
from netplan.setup.runs import PATTERN, PLACED
from netplan.traffic.matrix import TrafficMatrix
from netplan.traffic.matrix_files import save_csv, save_npz
from netplan.traffic.patterns import Pattern
from netplan.traffic.statistics import KindShare, hb_share, heat_map, idle_pairs_share, kind_shares
from netplan.units import counted, si

HEAT_BLOCKS = 32
"""Blocks of GPUs of a heat map, each way, at the most [1]."""


@dataclass(frozen=True, slots=True, repr=False)
class TrafficAnswer(Answer):
    """The answer of :func:`netplan.training_traffic`."""

    json_head = "netplan_version", "run.inputs"
    json_parts = (
        *("*run.in_short", "matrix.total_bytes", "hb_share", "idle_pairs_share", "kinds=shares"),
        *("heat_map_block_gpus=block_gpus", "heat_map_bytes=heat_bytes"),
    )

    run: Run
    matrix: TrafficMatrix
    shares: tuple[KindShare, ...]
    idle_pairs_share: float
    hb_share: float
    heat_bytes: tuple[tuple[float, ...], ...]
    block_gpus: int

    def summary(self) -> Iterator[Section]:
        """The whole in words, shares of every kind, which blocks exchange most."""
        outside = (1 - self.hb_share) * self.matrix.total_bytes
        per_gpu = f"{si(outside / self.matrix.gpus, 'B')} a GPU"
        yield from Screen(
            screen_heading(self.run.inputs, self.run.heading("Traffic")),
            (self._verdict, f"The network carries {si(outside, 'B')}, {per_gpu}."),
            self._kinds,
            (*self._border_words(), *self._heat_words()),
            more_of("the heat map", "--save matrix.npz", "--heat-map map.html", page=False),
        ).sections()

    def in_a_line(self) -> str:
        """How much is sent, and what of it stays inside HB domains."""
        whole = f"{si(self.matrix.total_bytes, 'B')} {self.run.each}"
        return f"{whole}, {100 * self.hb_share:.2f} % inside HB domains"

    def sections(self) -> Iterator[Section]:
        """Heading, shares of every kind, the whole in words, the heat map."""
        yield self.run.heading("Traffic")
        yield self._kinds
        yield Paragraph(self._verdict)
        if self._over is not None:
            yield borders_table(self._over)
            yield Notes.of([("", [*self._border_words()])])
        yield self._heat()

    @property
    def _over(self) -> OverSites | None:
        """How the run lies over several sites; None in one."""
        return self.run.over if isinstance(self.run, PlacedRun) else None

    def _border_words(self) -> Iterator[str]:
        """What goes over the borders of sites, and that pairs of GPUs are as in one site."""
        if self._over is not None:
            yield from borders_words(self._over)
            yield (
                "The matrix is of all GPUs in one site: over several, gradients are reduced in each"
                " and cross between like GPUs."
            )

    @property
    def _kinds(self) -> Table[KindShare]:
        """Bytes and pairs of every kind."""
        names = ("kind", "total_bytes", "bytes_share", "pairs", "pairs_share", "pair_bytes")
        return Table("kinds", columns(*names), self.shares)

    @property
    def _verdict(self) -> str:
        """How much is sent, what of it stays inside HB domains, which pairs are idle."""
        return (
            f"{si(self.matrix.total_bytes, 'B')} {self.run.each}; {100 * self.hb_share:.2f} % stay"
            f" inside HB domains; {100 * self.idle_pairs_share:.2f} % of all pairs of GPUs"
            " exchange nothing."
        )

    def _heat(self) -> Heat:
        """Blocks of GPUs against blocks of GPUs."""
        gpus, size, hb_size = self.matrix.gpus, self.block_gpus, self.run.fabric.sizing.hb_size
        inside = f"{counted(size // hb_size, 'HB domain')}" if size >= hb_size else ""
        part = inside or (f"1/{hb_size // size} of an HB domain" if hb_size % size == 0 else "")
        starts = range(0, gpus, size)
        return Heat(
            "heat_map",
            f"Who sends to whom: rows send, columns receive, {counted(size, 'GPU')} a block",
            quantity("total_bytes"),
            self._blocks,
            self.heat_bytes,
            tuple(f"{gpu:,}" for gpu in starts),
            f"first GPU of a block{f' ({part})' if part else ''}",
            hb_size // size if size < hb_size else 0,
            tuple(self._heat_words()),
        )

    @property
    def _blocks(self) -> tuple[str, ...]:
        """What each block is called."""
        gpus, size = self.matrix.gpus, self.block_gpus
        starts = range(0, gpus, size)
        return tuple(f"GPU {gpu:,} to {min(gpu + size, gpus) - 1:,}" for gpu in starts)

    def _heat_words(self) -> Iterator[str]:
        """What the heat map shows, for those who do not see it."""
        cells = self.heat_bytes
        whole = self.matrix.total_bytes
        if not whole:
            return
        pairs = len(cells) ** 2
        used = sum(cell > 0 for row in cells for cell in row)
        inside_bytes = sum(row[index] for index, row in enumerate(cells))
        most, sender, receiver = max(
            (cell, row, column)
            for row, line in enumerate(cells)
            for column, cell in enumerate(line)
        )
        names = self._blocks
        toward = "among themselves" if sender == receiver else f"to {names[receiver]}"
        yield (
            f"{used:,} of {pairs:,} pairs of blocks exchange something;"
            f" {100 * inside_bytes / whole:.4g} % of all bytes stay inside a block. Most,"
            f" {si(most, 'B')} {self.run.each}: {names[sender]} {toward}."
        )

    def heat_page(self) -> str:
        """The heat map as one page that works offline; hovering shows amounts."""
        return html_page([self.run.heading("Traffic"), self._heat()])

    def save(self, path: Path) -> None:
        """Save the matrix as ``.npz`` (any size) or ``.csv`` (listed flows).

        Raises
        ------
        InputError
            If the ending is another one, or the file cannot be written.
        """
        writers = {".npz": save_npz, ".csv": save_csv}
        if path.suffix not in writers:
            raise InputError(f"--save {path}: name it .npz or .csv")
        with replacing(path) as new:
            writers[path.suffix](self.matrix, new)


@dataclass(frozen=True, kw_only=True)
class Traffic(Question[TrafficAnswer]):
    """Show the traffic matrix of training, servers or post-training: shares, pairs, heat map.

    Raises
    ------
    NetplanError
        If an input is not allowed, or there is no plan.

    Examples
    --------
    GPT-1T as in Fig. 4 of arXiv:2307.12169: ring collectives, 8 x 64 x 6.

    >>> answer = training_traffic(
    ...     "rail-only-paper", gpus=3072, hb_size=8, batch=3072, algorithm="ring",
    ...     iteration_model="ptd-p",
    ...     fixed={"tensor": 8, "pipeline": 64, "microbatch": 1, "interleave": 1})
    >>> [(share.kind, round(100 * share.bytes_share, 2)) for share in answer.shares]
    [('tensor', 97.44), ('data', 0.85), ('pipeline', 1.71)]
    """

    command: ClassVar[str] = "traffic"
    examples: ClassVar[tuple[str, ...]] = (
        "netplan traffic hgx-h100 --gpus 4096",
        "netplan traffic nvl72-gb200 --model deepseek-v3 --iteration-model 4d",
        "netplan traffic serving-r1-h200",
        "netplan traffic grpo-70b-h100 --staleness 2",
        "netplan traffic hgx-h100 --save matrix.npz --heat-map traffic.html",
    )

    reads: ClassVar[frozenset[str]] = NETWORK | RUNS | PLACED | SPAN
    reads_from: ClassVar[frozenset[str]] = WEIGHED
    algorithm: Pattern = default_field(PATTERN, "choice", choices=get_args(Pattern))

    def ask(self) -> TrafficAnswer:
        """Place the run and sum up its matrix."""
        run = place_run(self, self.algorithm)
        matrix = run.matrix()
        block = _block_gpus(matrix.gpus, run.fabric.sizing.hb_size)
        heat = heat_map(matrix, -(-matrix.gpus // block), block)
        return TrafficAnswer(
            run=run,
            matrix=matrix,
            shares=kind_shares(matrix),
            idle_pairs_share=idle_pairs_share(matrix),
            hb_share=hb_share(matrix, run.fabric.sizing.hb_size),
            heat_bytes=tuple(tuple(float(cell) for cell in row) for row in heat),
            block_gpus=block,
        )


def _block_gpus(gpus: int, hb_size: int) -> int:
    """GPUs of one block of the heat map: an even part of an HB domain, or whole domains [1].

    Examples
    --------
    >>> _block_gpus(32_768, 256), _block_gpus(64, 8), _block_gpus(4608, 512)
    (1024, 2, 256)
    """
    for size in range(1, hb_size + 1):
        if hb_size % size == 0 and size * HEAT_BLOCKS >= gpus:
            return size
    return hb_size * -(-gpus // (hb_size * HEAT_BLOCKS))


traffic = training_traffic = function_of(Traffic)
