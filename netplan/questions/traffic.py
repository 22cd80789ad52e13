"""Who sends how much to whom in one training iteration, or in one round of servers."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from netplan.errors import InputError
from netplan.files import replacing
from netplan.questions.placed_run import PlacedRun
from netplan.questions.question import asks
from netplan.questions.run_question import RunQuestion
from netplan.questions.served_run import ServedRun
from netplan.records import asdict
from netplan.reports.answer import Answer, answer_dict
from netplan.reports.html import html_page
from netplan.reports.quantities import quantity
from netplan.reports.sections import Heat, Paragraph, Section, Table, columns
from netplan.traffic.matrix import TrafficMatrix
from netplan.traffic.matrix_files import save_csv, save_npz
from netplan.traffic.statistics import (
    KindShare,
    hb_share,
    heat_map,
    idle_pairs_share,
    kind_shares,
)
from netplan.units import si

HEAT_BLOCKS = 32


@dataclass(frozen=True, slots=True, repr=False)
class TrafficAnswer(Answer):
    """The answer of :func:`netplan.training_traffic`."""

    run: PlacedRun | ServedRun
    matrix: TrafficMatrix
    shares: tuple[KindShare, ...]
    idle_pairs_share: float
    hb_share: float
    heat_bytes: tuple[tuple[float, ...], ...]

    def to_dict(self) -> dict[str, Any]:
        """Exactly the JSON of ``netplan traffic --format json``."""
        return answer_dict(
            self.run.inputs,
            **self.run.in_short,
            total_bytes=self.matrix.total_bytes,
            hb_share=self.hb_share,
            idle_pairs_share=self.idle_pairs_share,
            kinds=[{**asdict(share), "pair_bytes": share.pair_bytes} for share in self.shares],
            heat_map_bytes=[list(row) for row in self.heat_bytes],
        )

    def sections(self) -> Iterator[Section]:
        """Heading, shares of every kind, the whole in words, the heat map."""
        yield self.run.heading("Traffic")
        yield Table(
            "kinds",
            columns("kind", "total_bytes", "bytes_share", "pairs", "pairs_share", "pair_bytes"),
            self.shares,
        )
        yield Paragraph(
            f"{si(self.matrix.total_bytes, 'B')} {self.run.each}; {100 * self.hb_share:.2f} % stay"
            f" inside HB domains; {100 * self.idle_pairs_share:.2f} % of all pairs of GPUs"
            " exchange nothing."
        )
        yield self._heat()

    def _heat(self) -> Heat:
        """Blocks of GPUs against blocks of GPUs."""
        gpus, blocks = self.matrix.gpus, len(self.heat_bytes)
        size = -(-gpus // blocks)
        return Heat(
            "heat_map",
            f"Heat map: rows send, {size:,} GPUs a block, a shade is a factor of 100.",
            quantity("total_bytes"),
            tuple(f"GPU {at * size:,} to {(at + 1) * size - 1:,}" for at in range(blocks)),
            self.heat_bytes,
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
class Traffic(RunQuestion[TrafficAnswer]):
    """Show the traffic matrix of a training run, or of servers: shares, pairs, heat map.

    Raises
    ------
    NetplanError
        If an input is not allowed, or there is no plan.

    Examples
    --------
    GPT-1T as in Fig. 4 of arXiv:2307.12169: ring collectives, 8 x 64 x 6.

    >>> answer = training_traffic(
    ...     gpus=3072, hb_size=8, batch=3072, algorithm="ring", iteration_model="ptd-p",
    ...     fixed={"tensor": 8, "pipeline": 64, "microbatch": 1, "interleave": 1})
    >>> [(share.kind, round(100 * share.bytes_share, 2)) for share in answer.shares]
    [('tensor', 97.44), ('data', 0.85), ('pipeline', 1.71)]
    """

    command: ClassVar[str] = "traffic"
    examples: ClassVar[tuple[str, ...]] = (
        "netplan traffic --gpus 32768 --radix 128",
        "netplan traffic --gpus 3072 --hb-size 8 --batch 3072 --algorithm ring --fix tensor=8",
        "netplan traffic --gpus 64 --workload serving --model deepseek-r1 --precision fp8",
        "netplan traffic --gpus 4096 --save matrix.npz --heat-map traffic.html",
    )

    def ask(self) -> TrafficAnswer:
        """Place the run and sum up its matrix."""
        run = self.run()
        matrix = run.matrix()
        heat = heat_map(matrix, min(HEAT_BLOCKS, matrix.gpus))
        return TrafficAnswer(
            run=run,
            matrix=matrix,
            shares=kind_shares(matrix),
            idle_pairs_share=idle_pairs_share(matrix),
            hb_share=hb_share(matrix, run.fabric.sizing.hb_size),
            heat_bytes=tuple(tuple(float(cell) for cell in row) for row in heat),
        )


traffic = training_traffic = asks(Traffic)
