"""How long a collective takes on so many GPUs, by what was measured on their links."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from msgspec import Struct

from netplan.answers.optimum_answer import OptimumAnswer, optimum_answer, read_network, shown_size
from netplan.answers.screen_titles import screen_heading
from netplan.arrays import Floats
from netplan.errors import InputError
from netplan.inputs.option import Option, check_range
from netplan.records import replace
from netplan.reports.answer import Answer
from netplan.reports.axes import ChartAxis, spread
from netplan.reports.charts import Chart, hover
from netplan.reports.plots import Points, line_chart
from netplan.reports.quantities import Words
from netplan.reports.screen import Screen, columns_of, more_of
from netplan.reports.sections import Column, Heading, Notes, Section, Table, column, columns
from netplan.scenarios.parts import LARGEST_CLUSTER
from netplan.setup.asking import function_of
from netplan.setup.inputs import replaced_lines, short_inputs
from netplan.setup.own_inputs import option_field, required_field
from netplan.setup.question import FOUND, Question
from netplan.topologies.specs import FABRICS
from netplan.traffic.algorithms import COLLECTIVE_ALGORITHM
from netplan.traffic.gpu_group import KINDS, GpuGroup, GroupKind, bus_factor
from netplan.units import counted, si
from netplan.workloads.accelerators import Accelerator

SWEEP = (2.0**10, 2.0**34)
"""Least and largest message where none is asked for [B]."""

LARGEST_BYTES = 1e15
SCREEN_SIZES = 8
"""Sizes of a sweep that a screen shows [1]."""
TAKING_PART = Option("GPUs that take part.", "whole", low=2, high=LARGEST_CLUSTER)
REGIMES = {
    "small": "small (low latency)",
    "large": "large (pipelined)",
    "in-switch": "in-switch (sums in the switches)",
    "tree": "tree (two domains exchange sums)",
}


class SizeRow(Struct, frozen=True):
    """What one size takes, in the words of nccl-tests; nine of ten times lie from low to high."""

    message_bytes: float
    time_s: float
    time_low_s: float
    time_high_s: float
    algbw_bytes_per_s: float
    busbw_bytes_per_s: float
    bound_s: float
    regime: str


@dataclass(frozen=True, slots=True, repr=False)
class CollectiveAnswer(Answer):
    """The answer of :func:`netplan.collective`: one size, or a sweep of them."""

    json_parts = "*measures", "group.domains", "group.basis", "network_basis", "notes"

    inputs: dict[str, Any]
    group: GpuGroup
    rows: tuple[SizeRow, ...]

    @property
    def kind(self) -> GroupKind:
        """What the GPUs do."""
        kind: GroupKind = self.inputs["kind"]
        return kind

    @property
    def sweep(self) -> bool:
        """Whether sizes are compared."""
        return not isinstance(self.inputs["message_bytes"], float)

    @property
    def notes(self) -> list[str]:
        """What the measured form cannot say."""
        return list(self.group.notes(self.kind, self.inputs.get("collective_algorithm")))

    @property
    def measures(self) -> "SizeRow | dict[str, tuple[SizeRow, ...]]":
        """What the one size takes, or each of several."""
        return {"sizes": self.rows} if self.sweep else self.rows[0]

    @property
    def network_basis(self) -> str | None:
        """What its time between HB domains rests on; None where there is one domain."""
        return self.group.network_basis(self.kind)

    def summary(self) -> Iterator[Section]:
        """The ends of the sweep and where bandwidth begins, some sizes, notes."""
        table = self._sizes()
        names = ("size", "time_s", "between", "busbw_bytes_per_s", "bound_s", "regime")
        yield from Screen(
            screen_heading(self.inputs, self._heading(), lower=False),
            tuple(self._verdict()),
            replace(
                table,
                columns=columns_of(table, *names),
                rows=spread(self.rows, SCREEN_SIZES),
                legend=table.legend[1:3],
            ),
            tuple(self.notes),
            more_of("every size", "--bytes 512MiB", "--kind all_to_all"),
        ).sections()

    def in_a_line(self) -> str:
        """Time and bus bandwidth of the largest message."""
        last = self.rows[-1]
        rate = si(last.busbw_bytes_per_s, "B/s")
        return f"{shown_size(last.message_bytes)} in {si(last.time_s, 's', 4)}, bus {rate}"

    def _verdict(self) -> Iterator[str]:
        """Times of the smallest and the largest message, and where half of the bandwidth is."""
        first, last = self.rows[0], self.rows[-1]
        if self.sweep:
            least = shown_size(first.message_bytes)
            yield f"{least} takes {si(first.time_s, 's', 4)} ({_between(first)})."
        yield (
            f"{shown_size(last.message_bytes)} takes {si(last.time_s, 's', 4)} ({_between(last)}):"
            f" bus bandwidth {si(last.busbw_bytes_per_s, 'B/s')}, {last.time_s / last.bound_s:.3g}"
            " times as long as the bound."
        )
        half = max(row.busbw_bytes_per_s for row in self.rows) / 2
        reached = next(row for row in self.rows if row.busbw_bytes_per_s >= half)
        if self.sweep and reached is not first:
            size = shown_size(reached.message_bytes)
            yield f"Half of the most bandwidth is there from {size} on."

    def sections(self) -> Iterator[Section]:
        """Heading, a row a size, notes, bus bandwidth over the sizes."""
        yield self._heading()
        yield self._sizes()
        yield Notes(tuple(("", note) for note in self.notes))
        if self.sweep:
            yield self._chart()

    def _sizes(self) -> Table[SizeRow]:
        """A row a size, and what its columns mean."""
        shown: list[Column[SizeRow]] = [
            column("size", lambda row: shown_size(row.message_bytes), shown="people", form="code"),
            *columns("message_bytes", shown="data"),
            column("time_s", digits=4),
            column("between", _between, shown="people", form="code"),
            *columns("time_low_s", "time_high_s", shown="data"),
            *columns("algbw_bytes_per_s", "busbw_bytes_per_s", "bound_s", "regime"),
        ]
        factor = bus_factor(self.kind, self.group.gpus)
        met = {row.regime: None for row in self.rows}
        legend = (
            "between: nine of ten such times lie there, or all that may be of assumed ones.",
            f"bus GB/s: {factor:.4g} x size / time, as nccl-tests has it.",
            "bound: no algorithm is faster on these links.",
            f"regime: {', '.join(REGIMES.get(regime, regime) for regime in met)}.",
        )
        return Table("sizes", shown, self.rows, legend=legend)

    def _heading(self) -> Heading:
        group, inputs = self.group, short_inputs(self.inputs)
        inside, outside = group.levels
        rate = si(inside.link_bytes_per_s, "B/s")
        where = [f"HB domains of {inside.size}: {group.links.domain.title}, {rate} a GPU one way"]
        if group.domains > 1:
            share = inputs.get("as_found", 1.0)
            part = f" at {100 * share:.4g} % of its rate" if share < 1 else ""
            rate = si(outside.link_bytes_per_s, "B/s")
            where.append(
                f"between {group.domains:,} of them: {outside.network_kind}{part}, {rate} a GPU,"
                f" {group.network_basis(self.kind)}"
            )
        title = f"{self.kind} on {counted(group.gpus, 'GPU')} ({inputs['accelerator']})"
        return Heading(title, (*where, *replaced_lines(inputs)))

    def _chart(self) -> Chart:
        """Bus bandwidth by the form, and at the bound."""
        factor, rows = bus_factor(self.kind, self.group.gpus), self.rows
        bounds = [factor * row.message_bytes / row.bound_s for row in rows]
        boxes = [
            hover(
                shown_size(row.message_bytes),
                f"{si(row.time_s, 's')}, {_between(row)}",
                f"bus bandwidth {si(row.busbw_bytes_per_s, 'B/s')}",
                REGIMES.get(row.regime, row.regime),
            )
            for row in rows
        ]
        return line_chart(
            Points(
                key="bus-bandwidth",
                label="Bus bandwidth over the size of the message",
                x=ChartAxis(Words("size", "B"), log=True),
                y=ChartAxis(Words("bus bandwidth", "B/s")),
                xs=[row.message_bytes for row in rows] * 2,
                ys=[row.busbw_bytes_per_s for row in rows] + bounds,
                series=[(name,) for name in ("measured links", "bound") for _ in rows],
                name=lambda key: str(key[0]),
                box=lambda index: boxes[index % len(rows)],
            ),
            room=2 * len(rows),
        )


def _between(row: SizeRow) -> str:
    """Low and high of a time."""
    (low, unit), (high, other) = (si(end, "s").split() for end in (row.time_low_s, row.time_high_s))
    return f"{low} to {high} {unit}" if unit == other else f"{low} {unit} to {high} {other}"


@dataclass(frozen=True, kw_only=True)
class Collective(Question[CollectiveAnswer | OptimumAnswer]):
    """Time a collective on so many GPUs as it was measured on such links: one size, or a sweep.

    Sizes are those of nccl-tests: of an all_gather the gathered result, else the input of one GPU.
    A send goes from each GPU to the next one. Without --bytes, or with a range of them, sizes
    double from row to row.

    With --graph: the least time of an all_gather, reduce_scatter or all_reduce over all GPUs of
    somebody's graph, whatever the algorithm, by its bottleneck cut; bandwidth alone.

    Raises
    ------
    NetplanError
        If an input is not allowed.

    Examples
    --------
    Measured: 2.111 ms on eight H100 (NCCL 2.29.2).

    >>> answer = collective(
    ...     "hgx-h100", kind="all_reduce", message_bytes=512 * 2**20, gpus=8,
    ...     accelerator="h100-80gb")
    >>> round(1e3 * answer.rows[0].time_s, 3), answer.rows[0].regime
    (2.07, 'in-switch')
    """

    command: ClassVar[str] = "collective"
    examples: ClassVar[tuple[str, ...]] = (
        "netplan collective hgx-h100 --kind all_reduce --bytes 512MiB --gpus 64",
        "netplan collective nvl72-gb200 --kind all_gather --gpus 72",
        "netplan collective --kind all_to_all --gpus 32 --bytes 1MiB..1GiB",
        "netplan collective --kind all_reduce --gpus 32 --collective-algorithm double_binary_tree",
        "netplan collective --kind all_gather --bytes 8e9 --graph ring.graphml",
    )

    reads: ClassVar[frozenset[str]] = (
        frozenset({"gpus", "accelerator", "hb_size", "graph", "nic_gbps"}) | FOUND
    )

    kind: GroupKind = required_field("What the GPUs do.", "choice", choices=KINDS)
    message_bytes: float | tuple[float, float] | None = option_field(
        "Message: 8e9, 512MiB, 512MB, or from..to.",
        "size",
        flag="--bytes",
        unit="bytes",
        metavar="SIZE",
        otherwise="1KiB..16GiB",
    )
    collective_algorithm: str | None = option_field(
        COLLECTIVE_ALGORITHM, metavar="NAME", otherwise="as measured", quiet=True
    )

    def __post_init__(self) -> None:
        """Refuse numbers out of range."""
        super().__post_init__()
        if self.cluster.graph is None:
            check_range("gpus", TAKING_PART, self.cluster.gpus)
        self.check_parts()
        low, high = self._ends
        if not 1 <= low <= high <= LARGEST_BYTES:
            sizes = shown_size(low) if low == high else f"{shown_size(low)}..{shown_size(high)}"
            raise InputError(
                f"--bytes {sizes} is out of range: give 1 B to {si(LARGEST_BYTES, 'B')}, the"
                " smaller size first"
            )

    @property
    def _ends(self) -> tuple[float, float]:
        """Least and largest message [B]."""
        given = self.message_bytes
        if given is None:
            return SWEEP
        return given if isinstance(given, tuple) else (given, given)

    @property
    def sizes(self) -> Floats:
        """Messages, doubling up to the last one, shape (messages,) [B]."""
        low, high = self._ends
        doubled: Floats = low * 2.0 ** np.arange(np.floor(np.log2(high / low)) + 1)
        return doubled if doubled[-1] == high else np.append(doubled, high)

    def ask(self) -> CollectiveAnswer | OptimumAnswer:
        """Time every size."""
        reader, chip = self.reader_and_chip()
        if self.cluster.graph is not None:
            return self._on_graph(Path(self.cluster.graph), chip, reader.replaced())
        cluster = self.cluster
        group = GpuGroup.of(chip, cluster.gpus, cluster.hb_size, reader.load)
        kind = cluster.network_kind or FABRICS.load(cluster.fabric, reader.roots).network_kind
        group = group.as_found(kind, cluster.as_found)
        sizes = self.sizes
        times = group.times(self.kind, sizes, self.collective_algorithm)
        algorithm = sizes / times.time_s
        bus = bus_factor(self.kind, self.cluster.gpus) * algorithm
        numbers = (sizes, times.time_s, times.low_s, times.high_s, algorithm, bus, times.bound_s)
        rows = zip(*(values.tolist() for values in (*numbers, times.regime)), strict=True)
        inputs = self.inputs(hb_size=group.members, network_kind=kind, set=reader.replaced())
        del inputs["graph"]
        return CollectiveAnswer(inputs, group, tuple(SizeRow(*row) for row in rows))

    def _on_graph(
        self, path: Path, chip: Accelerator, replaced: dict[str, object]
    ) -> OptimumAnswer:
        """The optimum on somebody's graph."""
        mine = {"collective_algorithm", "nic_gbps", *FOUND}
        self.reject_inputs(
            mine, "the optimum on a graph, whatever the algorithm, at the graph's rates"
        )
        if "gpus" in self.given:
            raise InputError("--gpus with --graph, which has its own: leave one of them out")
        graph, directed, notes = read_network(path, self.cluster.hb_size, chip)
        inputs = self.inputs(graph=str(path), hb_size=graph.hb_size, set=replaced)
        inputs = {name: value for name, value in inputs.items() if name not in {"gpus", *mine}}
        return optimum_answer(inputs, graph, self.sizes, directed=directed, notes=notes)


collective = function_of(Collective)
