"""What a map question answers: partitions, kernels, and pictures of both."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
from msgspec import Struct

from netplan.answers.screen_titles import screen_heading
from netplan.arrays import Bools, Floats, Ints
from netplan.costing.dfmodel import SystemAmounts
from netplan.performance.mapping.fusion import Fusion, kernel_by_kernel
from netplan.performance.mapping.partitions import BOTTLENECKS
from netplan.performance.mapping.system import LinpackSteps, RunTotals, SystemRun
from netplan.reports import sections as show
from netplan.reports.answer import Answer
from netplan.reports.charts import GREY, Chart, Json, hover, marks
from netplan.reports.escape import chart_label
from netplan.reports.layered_drawing import layered_drawing
from netplan.reports.quantities import quantity
from netplan.reports.screen import Screen, more_of, shares_of
from netplan.setup.inputs import found_words, replaced_lines, short_inputs
from netplan.units import counted, rounded, si
from netplan.workloads.accelerators import Accelerator
from netplan.workloads.kernel_graph import KernelGraph

COLOURS = ("#3b74c9", "#d9782d", "#2e9e74", "#b0569c", "#c2a02f", "#8a94a3", "#c0504d", "#4bacc6")
ROOFLINE_PX, LEGEND_PX, LAYER_PX, MAX_GRAPH_PX = 460, 110, 34, 2_400
LABEL_SPACE, LEAST_COLUMNS = 1.2, 4
"""Room right of the last column for its labels, and columns that a drawing spans [columns]."""

SHOWN_STEPS, SCREEN_ROWS = 12, 8
"""Partitions that people see of a long run of them, and on a screen [1]."""

WAITS = {
    "compute": "computing",
    "memory": "waiting for memory",
    "network": "waiting for the network",
    "setup": "set-up",
}
"""What the time of a mapping goes to, in words."""

LEAST_SHARE = 1e-9
"""Share of the interval below which a rest is one of rounding [1]."""

DEGREES = ("tensor", "pipeline", "data")
PASSES = {"forward": "forward", "backward": "backward", "both": "forward and backward"}
TILED = {
    "recommendation": "tiles of {:,} samples",
    "fft": "tiles of {:,} rows",
    "graph": "tiles of {:,} columns",
}
"""What is cut into tiles, where it is no sequence."""
STEP_KERNELS = ("FACT", "BCAST", "SWAP", "UPDATE")
ROOFLINE_POINTS = 61
LOWEST, HIGHEST = -2.0, 6.0  # decades of FLOP/B that a roofline spans


class PartitionRow(Struct, frozen=True, rename={"bottleneck": "binds"}):
    """One partition: its kernels, what it takes, and what it needs of the chip."""

    kernels: tuple[str, ...]
    time_s: float
    compute_s: float
    memory_s: float
    network_s: float
    setup_s: float
    tiles: int
    sram_bytes: float
    bottleneck: str


class KernelRow(Struct, frozen=True):
    """One kernel alone on the chip; its partition counts from 1."""

    name: str
    kind: str
    m: int
    k: int
    n: int
    time_s: float
    weight_bytes: float
    edge_bytes: float
    all_reduce_bytes: float
    all_to_all_bytes: float
    flops: float
    partition: int


class ChipRates(Struct, frozen=True):
    """What the chip offers and draws: tiles, SRAM, memory, peak; links where the kernels talk."""

    tiles: int
    sram_bytes: float
    memory_bytes_per_s: float
    flops_per_s: float
    link_bytes_per_s: float
    power_w: float

    @classmethod
    def of(cls, chip: Accelerator, link_bytes_per_s: float = 0.0) -> "ChipRates":
        """Those of a chip, with links of this rate."""
        return cls(
            *(chip.tiles or 0, chip.sram_bytes, chip.memory_bytes_per_s, chip.tensor_flops_per_s),
            *(link_bytes_per_s, chip.power_w),
        )


class MapResult(Struct, frozen=True, eq=False):
    """What was found: the whole, its parts, and the partitions behind them, if there are any."""

    totals: RunTotals
    partitions: tuple[PartitionRow, ...]
    kernels: tuple[KernelRow, ...]
    notes: tuple[str, ...]
    fusion: Fusion | None = None
    graph: KernelGraph | None = None

    @property
    def sequence_tile(self) -> int | None:
        """Tokens of a sequence tile [1]."""
        return self.fusion.sequence_tile if self.fusion else None

    @classmethod
    def of(cls, run: SystemRun, notes: tuple[str, ...], rates: ChipRates) -> "MapResult":
        """Rows of what a system makes of a model."""
        fusion, counted = run.fusion, run.counted
        if fusion is None or counted is None:
            rows = step_rows(run.steps, rates.tiles) if run.steps else ()
            return cls(run.totals, rows, (), notes)
        parts, kernels = partition_rows(fusion, counted), kernel_rows(fusion, counted)
        graph = fusion.graph if counted.all() else None
        return cls(run.totals, parts, kernels, notes, fusion, graph)


@dataclass(frozen=True, slots=True, repr=False)
class MapAnswer(Answer):
    """The answer of :func:`netplan.map`."""

    json_parts = (
        *("*found.totals", "-unit", "throughput_unit=found.totals.unit", "exact", "breakdown_s"),
        *("chips", "flops_per_byte", "power_w", "system", "found.partitions", "found.kernels"),
        *("chip=rates", "found.notes"),
    )

    inputs: dict[str, Any]
    found: MapResult
    rates: ChipRates
    system: SystemAmounts | None = None
    alone: bool = False
    """Whether the chip was named and no fabric joins it: nothing is of the scenario's cluster."""

    @property
    def exact(self) -> bool:
        """Whether no partitions are faster."""
        fusion = self.found.fusion
        return self.inputs["execution"] == "fused" and fusion is not None and fusion.exact

    @property
    def chips(self) -> int:
        """Chips in use, or those that were asked for [1]."""
        inputs = self.inputs
        used: int = inputs["tensor"] * inputs["pipeline"] * inputs["data"]
        return inputs["gpus"] or used

    @property
    def breakdown_s(self) -> dict[str, float]:
        """The interval by what its partitions wait for, and set-up [s]."""
        rows = self.found.partitions
        waits = {
            cause: sum(row.time_s for row in rows if row.bottleneck == cause)
            for cause in BOTTLENECKS
        }
        waits["network"] += self.between_stages_s
        return waits | {"setup": self.found.totals.setup_s}

    @property
    def between_stages_s(self) -> float:
        """What the interval is longer than its partitions: stages wait for a transfer [s]."""
        totals, rows = self.found.totals, self.found.partitions
        rest = totals.interval_s - sum(row.time_s + row.setup_s for row in rows)
        return rest if rest > LEAST_SHARE * totals.interval_s else 0.0

    @property
    def flops_per_byte(self) -> dict[str, float | None]:
        """Work over what goes through memory, set-up included, and over links [FLOP/B].

        None where nothing goes there.
        """
        totals, rows, chip = self.found.totals, self.found.partitions, self.rates
        work = totals.utilisation * totals.interval_s * chip.flops_per_s
        memory_s = sum(row.memory_s for row in rows) + totals.setup_s
        network_s = sum(row.network_s for row in rows)
        moved_bytes = {
            "memory": memory_s * chip.memory_bytes_per_s,
            "network": network_s * chip.link_bytes_per_s,
        }
        return {name: work / moved if moved else None for name, moved in moved_bytes.items()}

    @property
    def power_w(self) -> float:
        """Power of the chips [W]."""
        return self.chips * self.rates.power_w

    def summary(self) -> Iterator[show.Section]:
        """The interval, the partitions that take longest, what they wait for, notes."""
        rows = list(enumerate(self.found.partitions, start=1))
        whole_s, title = self.found.totals.interval_s, "Partitions"
        if len(rows) > SCREEN_ROWS:
            rows.sort(key=lambda row: -row[1].time_s)
            title = f"The slowest of {len(rows):,} partitions"
        table = show.Table("partitions", partition_columns(self.rates), rows, title)
        parts = [(WAITS[reason], time_s) for reason, time_s in self.breakdown_s.items()]
        other = "kernel-by-kernel" if self.inputs["execution"] == "fused" else "fused"
        yield from Screen(
            screen_heading({} if self.alone else self.inputs, self._heading(), lower=False),
            (self._verdict(),),
            table,
            (f"Of the interval: {shares_of(parts, whole_s)}.", *self.found.notes),
            more_of("kernels", f"--execution {other}"),
            most_rows=SCREEN_ROWS,
        ).sections()

    def in_a_line(self) -> str:
        """The interval, and the rate."""
        totals = self.found.totals
        rate = f"{rounded(totals.throughput_per_s)} {totals.unit}/s"
        return f"{si(totals.interval_s, 's', 4)}, {rate}"

    def sections(self) -> Iterator[show.Section]:
        """Heading, totals in words, pictures, partitions, a bar of time each, kernels, notes."""
        yield self._heading()
        yield show.Table("totals", TOTALS, [self.found.totals], shown="data")
        yield show.Paragraph(self._verdict(), "strong")
        if self.found.graph is not None:
            yield _graph_chart(self.found.graph, self.found.kernels, self.found.partitions)
            yield _roofline(self.found, self.rates)
        rows = list(enumerate(self.found.partitions, start=1))
        yield show.Table("partitions", partition_columns(self.rates), rows, shown="data")
        yield self._people(rows)
        yield show.Bars(
            "time",
            f"Interval: {si(self.found.totals.interval_s, 's', 4)}, set-up included",
            quantity("time_s", form="si", digits=4),
            tuple(self._bars()),
            self.found.totals.interval_s,
        )
        if self.found.kernels:
            shown = "One kernel after the other, alone on the chip, with its set-up"
            yield show.Table("kernels", KERNELS, self.found.kernels, shown)
        yield show.Notes.of([("", self.found.notes)])

    def _heading(self) -> show.Heading:
        inputs = short_inputs(self.inputs)
        where = inputs["accelerator"]
        where += "" if inputs["family"] == "linpack" else f", {inputs['execution']}"
        family, tile = inputs["family"], inputs["sequence_tile"]
        steps = [PASSES[inputs["direction"]]] * (family == "transformer")
        steps += [f"micro-batch {inputs['micro_batch']:,}"] * (family != "linpack")
        if family == "graph":
            steady = "a steady stream" if inputs["batch"] is None else f"batch {inputs['batch']:,}"
            where += f", 16-bit peak, {steady}"
        cut = TILED.get(family, "sequence tiles of {:,}")
        steps += [] if tile is None else [cut.format(tile)]
        degrees = (f"{name} {inputs[name]:,}" for name in DEGREES if inputs[name] > 1)
        chips = ", ".join(degrees) or "one chip"
        if inputs["family"] not in ("transformer", "graph"):
            chips = counted(inputs["gpus"], "chip")
        network = inputs["fabric"] or inputs["dimensions"] or "a ring of the chip's own links"
        for part in (found_words(inputs), inputs["memory"], inputs["link"]):
            network += f", {part}" if part else ""
        return show.Heading(
            f"{inputs['model']} on {where}",
            (f"{', '.join([chips, network, *steps])} ({inputs['mode']})", *replaced_lines(inputs)),
        )

    def _verdict(self) -> str:
        totals = self.found.totals
        proven = ", the fastest of all" if self.exact else ""
        number = (
            f"{len(self.found.partitions):,} partition{'s' * (len(self.found.partitions) != 1)}"
        )
        bound = ""
        if totals.lower_bound_s:
            bound = f"; no mapping takes less than {si(totals.lower_bound_s, 's', 4)}"
        percent = 100 * totals.utilisation
        return (
            f"{si(totals.interval_s, 's', 4)} in {number}{proven}{bound}."
            f" {rounded(totals.throughput_per_s)} {totals.unit}/s,"
            f" {percent:.{1 if percent >= 1 else 2}{'f' if percent >= 1 else 'g'}} % of the peak."
        )

    def _people(self, rows: "Sequence[tuple[int, PartitionRow]]") -> show.Table[Any]:
        """Partitions for people; of a long run some, evenly over it."""
        title = "Partitions"
        if len(rows) > SHOWN_STEPS and not self.found.kernels:
            indices = np.unique(np.linspace(0, len(rows) - 1, SHOWN_STEPS).round().astype(int))
            rows = [rows[index] for index in indices.tolist()]
            title = f"Steps, {len(rows)} of {len(self.found.partitions):,}"
        shown_columns = partition_columns(self.rates)
        return show.Table("partitions", shown_columns, rows, title, shown="people")

    def _bars(self) -> Iterator[tuple[str, float]]:
        """Time of each partition, or of all that wait for the same thing."""
        if len(self.found.partitions) > SHOWN_STEPS:
            for reason in BOTTLENECKS:
                yield f"bound by {reason}", self.breakdown_s[reason]
        else:
            for number, partition in enumerate(self.found.partitions, start=1):
                yield f"{number}, by {partition.bottleneck}", partition.time_s
            if self.between_stages_s:
                yield "between stages", self.between_stages_s
        yield "set-up", self.breakdown_s["setup"]


def partition_columns(rates: ChipRates) -> list[show.Column[Any]]:
    """Columns of the partitions; tiles and SRAM against what is there."""
    return [
        show.column("partition", "0"),
        show.column("kernels", lambda row: ", ".join(row[1].kernels), form="prose"),
        show.column("time_s", "1.time_s", form="si", digits=4),
        *show.columns("compute_s", "memory_s", "network_s", "setup_s", of="1", shown="wide"),
        show.column("tiles", "1.tiles", shown="data"),
        show.column("tiles_used", lambda row: _of(row[1].tiles, rates.tiles), shown="people"),
        show.column("sram_bytes", "1.sram_bytes", shown="data"),
        show.column(
            "sram_used", lambda row: _of(row[1].sram_bytes, rates.sram_bytes), shown="people"
        ),
        show.column("binds", "1.bottleneck"),
    ]


def _of(used: float, there: float) -> float | None:
    """Share of what is there; None where nothing is, or a kernel alone streams through it [1]."""
    return used / there if 0 < used <= there else None


TOTALS = [
    *show.columns(
        "interval_s", "setup_s", "time_per_sequence_s", "throughput_per_s", "utilisation"
    ),
    *show.columns("memory_bytes", "lower_bound_s"),
]
KERNELS: list[show.Column[KernelRow]] = [
    *show.columns("kernel=name", "kind", "m", "k", "n"),
    show.column("time_s", form="si", digits=4),
    show.column("partition"),
    *show.columns(
        "weight_bytes", "edge_bytes", "all_reduce_bytes", "all_to_all_bytes", shown="wide"
    ),
    show.column("flops", shown="data"),
]


TAKEN = PartitionRow.__struct_fields__[1:-1]
"""What a partition takes of each kind."""


def partition_rows(fusion: Fusion, chosen: Bools) -> tuple[PartitionRow, ...]:
    """Rows of the partitions that hold some of the chosen kernels."""
    times, names = fusion.times, fusion.graph.names
    return tuple(
        PartitionRow(
            kernels=tuple(names[kernel] for kernel in np.flatnonzero(fusion.members[row]).tolist()),
            bottleneck=BOTTLENECKS[int(times.bottleneck[row])],
            **{name: getattr(times, name)[row].item() for name in TAKEN},
        )
        for row in fusion.partitions_of(chosen).tolist()
    )


def step_rows(steps: LinpackSteps, tiles: int) -> tuple[PartitionRow, ...]:
    """Rows of the steps of LINPACK, a partition each."""
    parts = (steps.time_s, steps.compute_s, steps.memory_s, steps.network_s)
    columns_ = zip(*(part.tolist() for part in parts), steps.bottleneck.tolist(), strict=True)
    return tuple(
        PartitionRow(
            STEP_KERNELS, time, compute, memory, network, 0.0, tiles, 0.0, BOTTLENECKS[bottleneck]
        )
        for time, compute, memory, network, bottleneck in columns_
    )


def kernel_rows(fusion: Fusion, chosen: Bools) -> tuple[KernelRow, ...]:
    """Rows of the chosen kernels, each alone on the chip."""
    graph, problem, members = fusion.graph, fusion.problem, fusion.members
    seconds, edges = problem.alone.interval_s.tolist(), problem.border_bytes.tolist()
    number = np.cumsum((members & chosen).any(axis=1))  # among those that are shown
    partition = number[members.argmax(axis=0)].tolist()
    return tuple(
        KernelRow(
            *(kernel.name, kernel.kind, kernel.m, kernel.k, kernel.n),
            time_s=seconds[index],
            weight_bytes=kernel.weight_bytes,
            edge_bytes=edges[index],
            all_reduce_bytes=kernel.all_reduce_bytes,
            all_to_all_bytes=kernel.all_to_all_bytes,
            flops=kernel.flops,
            partition=partition[index],
        )
        for index, kernel in enumerate(graph.kernels)
        if chosen[index]
    )


def _layers(graph: KernelGraph) -> Ints:
    """Layer of each kernel, from the top: its depth, the backward pass below the forward one."""
    layer, late = graph.depth.copy(), graph.backward
    if late.any() and not late.all():
        within = (late[graph.source] == late[graph.target]).nonzero()[0]
        alone = KernelGraph(graph.kernels, graph.source[within], graph.target[within]).depth
        layer = alone + np.where(late, alone[~late].max() + 1, 0)
    return layer


def _drawn(graph: KernelGraph) -> tuple[Ints, Floats, float, tuple[Json, Json]]:
    """Layer and place of each kernel, the width, and lines: within a pass, and between passes."""
    layer, late = _layers(graph), graph.backward
    crossing = late[graph.source] != late[graph.target]
    passes = []
    for is_backward in (False, True):
        mine, inside = late == is_backward, ~crossing & (late[graph.source] == is_backward)
        place = np.cumsum(mine) - 1
        ends = place[graph.source[inside]], place[graph.target[inside]]
        passes.append(layered_drawing(layer[mine], *ends))
    wide = max(drawing.width for drawing in passes)
    forward, backward = (drawing.moved((wide - drawing.width) / 2) for drawing in passes)
    across = np.zeros(graph.count)
    across[~late], across[late] = forward.across, backward.across
    pairs = zip(graph.source[crossing].tolist(), graph.target[crossing].tolist(), strict=True)
    joined = [[(float(across[index]), int(layer[index])) for index in pair] for pair in pairs]
    lines = _lines((*forward.edges, *backward.edges), "solid"), _lines(joined, "dot")
    return layer, across, wide, lines


def _graph_chart(
    graph: KernelGraph, kernels: Sequence[KernelRow], partitions: Sequence[PartitionRow]
) -> Chart:
    """The graph from top to bottom, one colour a partition; passes are joined by dotted lines."""
    layer, across, wide, lines = _drawn(graph)
    data = list(lines)
    for number, part in enumerate(partitions, start=1):
        mine = [place for place, kernel in enumerate(kernels) if kernel.partition == number]
        boxes = [
            hover(kernels[place].name,
                  f"{kernels[place].kind}, alone {si(kernels[place].time_s, 's', 4)}",
                  f"partition {number}: {si(part.time_s, 's', 4)}, by {part.bottleneck}")
            for place in mine
        ]  # fmt: skip
        data.append(
            marks(
                "scatter",
                [float(across[place]) for place in mine],
                [-float(layer[place]) for place in mine],
                boxes,
                mode="markers+text",
                name=f"{number}: {si(part.time_s, 's', 3)}, {part.bottleneck}",
                text=[chart_label(kernels[place].name, 12) for place in mine],
                textposition="middle right",
                marker={"size": 14, "color": COLOURS[(number - 1) % len(COLOURS)]},
            )
        )
    rows = int(layer.max(initial=0))
    free = max(LEAST_COLUMNS - wide, 0.0) / 2
    # Labels stand right of their marks.
    sides = [-LABEL_SPACE / 4 - free, wide + LABEL_SPACE + free]
    layout: Json = {
        "xaxis": {"visible": False, "range": sides, "fixedrange": True},
        "yaxis": {"visible": False, "range": [-rows - 0.7, 0.7], "fixedrange": True},
        "showlegend": len(partitions) <= SHOWN_STEPS,
    }
    height = min(LEGEND_PX + LAYER_PX * (rows + 1), MAX_GRAPH_PX)
    return Chart("graph", "Kernels, a colour a partition", height, tuple(data), layout)


def _lines(ways: Iterable[Sequence[tuple[float, int]]], dash: str) -> Json:
    """Edges as one series of lines."""
    x: list[float | None] = []
    y: list[float | None] = []
    for way in ways:
        x += [*(across for across, _ in way), None]
        y += [*(-float(layer) for _, layer in way), None]
    line: Json = {"color": GREY, "width": 1, "dash": dash}
    return {"type": "scatter", "mode": "lines", "x": x, "y": y, "line": line, "hoverinfo": "skip",
            "showlegend": False}  # fmt: skip


def _roofline(result: MapResult, rates: ChipRates) -> Chart:
    """Mappings and kernels under the roofs of compute, memory and links (DFModel, Fig. 18)."""
    kernels = result.kernels
    intensity = np.logspace(LOWEST, HIGHEST, ROOFLINE_POINTS)
    data: list[Json] = []
    roofs = [("memory", rates.memory_bytes_per_s), ("link", rates.link_bytes_per_s)]
    for (name, rate), colour in zip(roofs, COLOURS, strict=False):
        roof = np.minimum(intensity * rate, rates.flops_per_s)
        text = f"{name}: {si(rate, 'B/s')}"
        line: Json = {"color": colour, "width": 2}
        boxes = [hover(text)] * len(intensity)
        data.append(
            marks("scatter", intensity.tolist(), roof.tolist(), boxes, mode="lines", name=text,
                  line=line)
        )  # fmt: skip
    for (name, _), moved, colour in zip(roofs, _alone_bytes(result, rates), COLOURS, strict=False):
        mine = [(kernel, size) for kernel, size in zip(kernels, moved, strict=True) if size > 0]
        intensities = [kernel.flops / size for kernel, size in mine]
        reached = [kernel.flops / kernel.time_s if kernel.time_s else 0.0 for kernel, _ in mine]
        boxes = [hover(kernel.name, f"{si(rate, 'FLOP/s', 3)} reached") for (kernel, _), rate in
                 zip(mine, reached, strict=True)]  # fmt: skip
        data.append(
            marks("scatter", intensities, reached, boxes, mode="markers",
                  name=f"kernels, over {name} bytes", marker={"size": 9, "color": colour})
        )  # fmt: skip
    if result.fusion is not None:
        data.append(_mapping_marks("this mapping", result.fusion, rates, "diamond"))
        alone = kernel_by_kernel(result.fusion.problem)
        if len(alone.members) > len(result.fusion.members) and isfinite(alone.interval_s):
            data.append(_mapping_marks("kernel by kernel", alone, rates, "square"))
    scale = {"type": "log", "exponentformat": "SI", "dtick": 1}
    layout: Json = {
        "xaxis": {"title": {"text": "FLOP/B"}, **scale},
        "yaxis": {"title": {"text": "FLOP/s"}, **scale},
        "showlegend": True,
    }
    label = "Roofs of the chip, and what mappings and kernels reach"
    return Chart("roofline", label, ROOFLINE_PX, tuple(data), layout)


def _alone_bytes(result: MapResult, rates: ChipRates) -> tuple[list[float], list[float]]:
    """What each kernel alone moves, by the time it takes: through memory, over the links [B]."""
    if result.fusion is None:
        return [], []
    alone = result.fusion.problem.alone
    place = {name: index for index, name in enumerate(result.fusion.graph.names)}
    mine = [place[kernel.name] for kernel in result.kernels]
    through = rates.memory_bytes_per_s * (alone.memory_s + alone.setup_s)[mine]
    over = rates.link_bytes_per_s * alone.network_s[mine]
    return through.tolist(), over.tolist()


def _mapping_marks(name: str, fusion: Fusion, rates: ChipRates, symbol: str) -> Json:
    """All kernels together: one rate, over what goes through memory and over the links."""
    times, work = fusion.times, float(fusion.graph.flops.sum())
    moved_bytes = {
        "memory": rates.memory_bytes_per_s * float((times.memory_s + times.setup_s).sum()),
        "link": rates.link_bytes_per_s * float(times.network_s.sum()),
    }
    reached = work / fusion.interval_s
    points = {over: work / moved for over, moved in moved_bytes.items() if moved > 0}
    boxes = [
        hover(name, f"{si(reached, 'FLOP/s', 3)} reached", f"{si(ratio, 'FLOP', 3)} a {over} byte")
        for over, ratio in points.items()
    ]
    return marks(
        "scatter",
        points.values(),
        [reached] * len(points),
        boxes,
        mode="lines+markers",
        name=f"{name}: {si(reached, 'FLOP/s')}",
        line={"color": COLOURS[2], "width": 1, "dash": "dot"},
        marker={"size": 13, "symbol": symbol, "color": COLOURS[: len(points)]},
    )
