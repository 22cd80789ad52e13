"""The optimum of a collective on a graph: least time, what binds, and the trees that take it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any, get_args

from msgspec import Struct

from netplan.answers.screen_titles import screen_heading
from netplan.arrays import Floats
from netplan.errors import InputError
from netplan.progress import share_done
from netplan.records import replace
from netplan.reports import sections as show
from netplan.reports.answer import Answer
from netplan.reports.axes import spread
from netplan.reports.schema import plain_at, plain_data
from netplan.reports.screen import Screen, more_of
from netplan.setup.inputs import replaced_lines, short_inputs
from netplan.setup.own_domains import with_own_domains
from netplan.topologies.formats.graph_files import read_graph
from netplan.topologies.formats.graphml import read_directed_graphml
from netplan.topologies.formats.kinds import GRAPHML, kind_of
from netplan.topologies.graph import HB_SWITCH, SWITCH, FabricGraph
from netplan.topologies.graph.symmetry import CapacityGraph
from netplan.traffic.gpu_group import bus_factor
from netplan.traffic.msccl import Gathering, msccl_lines
from netplan.traffic.optimum import CollectiveOptimum, collective_optimum
from netplan.traffic.trees import Forest, Tree, pack_trees
from netplan.units import counted, si
from netplan.workloads.accelerators import Accelerator

BINARY = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
SHOWN_TREE_GPUS = 8
"""GPUs up to which the trees stand in every answer [1]."""

NAMED_GPUS = 4
SCREEN_SIZES = 8
"""Sizes of a sweep that a screen shows [1]."""


class OptimumRow(Struct, frozen=True):
    """What one size takes: the optimum where it is proven, else None, and what encloses it."""

    message_bytes: float
    optimum_s: float | None
    bound_s: float
    reached_s: float | None
    algbw_bytes_per_s: float | None
    busbw_bytes_per_s: float | None


def shown_size(size: float) -> str:
    """A size as people say it: in powers of two where it is a whole number of them.

    Examples
    --------
    >>> shown_size(512 * 2.0**20), shown_size(8e9), shown_size(512)
    ('512 MiB', '8 GB', '512 B')
    """
    for unit, whole in reversed(BINARY.items()):
        if whole <= size < 1024 * whole and size % whole == 0:
            return f"{size / whole:,.0f} {unit}"
    return si(size, "B", 4)


@dataclass(frozen=True, slots=True, repr=False)
class OptimumAnswer(Answer):
    """The answer of :func:`netplan.collective` on a graph: one size, or a sweep of them."""

    json_parts = (
        *("*measures", "optimum.worst.gpus", "switches", "optimum.exact", "optimum.gap", "cut"),
        *("optimum.worst.representatives", "optimum.worst.asked", "unproven=optimum.worst.left"),
        *("trees=_named_trees", "notes"),
    )

    inputs: dict[str, Any]
    graph: FabricGraph
    network: CapacityGraph
    optimum: CollectiveOptimum
    rows: tuple[OptimumRow, ...]
    given_notes: tuple[str, ...] = ()
    forest: Forest | None = field(default=None, repr=False)

    @property
    def switches(self) -> int:
        """Nodes that forward, those of HB domains included [1]."""
        kinds = self.graph.node_kind
        return int(((kinds == SWITCH) | (kinds == HB_SWITCH)).sum())

    @property
    def cut(self) -> dict[str, Any]:
        """What binds: GPUs that the worst cut leaves out, and the capacity to them."""
        worst = self.optimum.worst
        return {
            "inside_gpus": worst.gpus - len(worst.outside),
            "outside_gpus": len(worst.outside),
            "outside": [self.network.names[gpu] for gpu in worst.outside[:64].tolist()],
            "bytes_per_s": worst.out_bytes_per_s,
        }

    @property
    def bottleneck(self) -> str:
        """The worst cut in words: who sends what to whom over how much."""
        cut = self.cut
        outside = ", ".join(cut["outside"][:NAMED_GPUS])
        more = cut["outside_gpus"] - NAMED_GPUS
        outside += f" and {more:,} more" if more > 0 else ""
        inside = counted(cut["inside_gpus"], "GPU")
        rate = si(cut["bytes_per_s"], "B/s")
        if self.optimum.toward_gpus:
            return f"all that {inside} have goes to {outside} over {rate}"
        return f"sums for {inside} leave {outside} over {rate}"

    @property
    def notes(self) -> list[str]:
        """What binds, what is proven, and what the numbers leave out."""
        return [
            f"What binds: {self.bottleneck}.",
            *self.optimum.notes(),
            "Bandwidth alone: no latency, full rates of all links, no sums inside switches.",
            *self.given_notes,
        ]

    def trees(self) -> Forest:
        """Spanning trees that take the optimum, packed when they are asked for.

        Raises
        ------
        InputError
            If the graph is too large, or the optimum is not proven.
        """
        if self.forest is not None:
            return self.forest
        worst = self.optimum.worst
        if not worst.exact:
            raise InputError(f"{self.graph.name}: its optimum is not proven, there are no trees")
        gathers = self.inputs["kind"] != "reduce_scatter"
        return pack_trees(self.network if gathers else self.network.reversed, worst.ratio)

    def xml(self) -> Iterator[str]:
        """The trees as an MSCCL program, line by line.

        Raises
        ------
        InputError
            If there are no trees, or they cut messages into too many chunks.
        """
        if self.inputs["kind"] == "all_reduce" and not self.network.mirrored:
            raise InputError(
                f"{self.graph.name}: its links carry more one way than the other, trees of an"
                " all_reduce cannot be turned round: ask for reduce_scatter and all_gather"
            )
        return msccl_lines(self.graph.name, self.inputs["kind"], self.trees())

    @property
    def measures(self) -> dict[str, Any]:
        """The one size, or the sweep, as JSON."""
        single = isinstance(self.inputs["message_bytes"], float)
        return plain_data(self.rows[0]) if single else plain_at(self, "sizes=rows")

    def summary(self) -> Iterator[show.Section]:
        """The least time of the largest message, its bottleneck, some sizes, notes."""
        table = self._sizes()
        yield from Screen(
            screen_heading(self.inputs, self._heading()),
            (f"{self._verdict}.", f"Bottleneck: {self.bottleneck}."),
            replace(table, rows=spread(self.rows, SCREEN_SIZES)),
            tuple(self.notes[1:]),
            more_of("every size, trees", "--bytes 8e9", "--xml trees.xml", page=False),
        ).sections()

    def in_a_line(self) -> str:
        """The least time of the largest message."""
        return self._verdict

    @property
    def _verdict(self) -> str:
        """The least time of the largest message, or what it lies between."""
        last = self.rows[-1]
        size = shown_size(last.message_bytes)
        if last.optimum_s is not None:
            return f"{size} takes {si(last.optimum_s, 's', 4)} at best, whatever the algorithm"
        bound = si(last.bound_s, "s", 4)
        if last.reached_s is None:
            return f"{size} takes no less than {bound}; the optimum is not proven"
        return f"{size} takes {bound} to {si(last.reached_s, 's', 4)} at best"

    def sections(self) -> Iterator[show.Section]:
        """Heading, a row a size, the trees of a small graph, notes."""
        yield self._heading()
        yield self._sizes()
        if self.forest:
            yield self._trees(self.forest)
        yield show.Notes(tuple(("", note) for note in self.notes))

    def _heading(self) -> show.Heading:
        """The collective, the graph and its size."""
        gpus = counted(self.optimum.worst.gpus, "GPU")
        ways = "each way" if self.network.mirrored else "as directed"
        return show.Heading(
            f"Optimum of {self.inputs['kind']} on {short_inputs(self.inputs)['graph']}",
            (
                f"{gpus}, {counted(self.switches, 'switch', 'switches')}, links {ways}",
                *replaced_lines(self.inputs),
            ),
        )

    def _sizes(self) -> show.Table[OptimumRow]:
        """A row a size."""
        shown: list[show.Column[OptimumRow]] = [
            show.column(
                "size", lambda row: shown_size(row.message_bytes), shown="people", form="code"
            ),
            *show.columns("message_bytes", shown="data"),
            show.column("optimum_s"),
            *show.columns("bound_s", "reached_s", shown="data" if self.optimum.exact else "all"),
            *show.columns("algbw_bytes_per_s", "busbw_bytes_per_s"),
        ]
        return show.Table("sizes", shown, self.rows)

    @property
    def _named_trees(self) -> list[dict[str, Any]] | None:
        """Trees with the names of their GPUs; of a reduce_scatter towards their roots."""
        if self.forest is None:
            return None
        names = self.network.names
        toward = self.inputs["kind"] == "reduce_scatter"
        return [
            {
                "root": names[tree.root],
                "count": tree.count,
                "arcs": [[names[a], names[b]][:: -1 if toward else 1] for a, b in tree.arcs],
            }
            for tree in self.forest.trees
        ]

    def _trees(self, forest: Forest) -> show.Table[Tree]:
        """Trees of a small graph."""
        rate, names = si(forest.tree_bytes_per_s, "B/s"), self.network.names
        turned = {
            "all_gather": "from their roots on",
            "reduce_scatter": "towards their roots, arcs turned round",
            "all_reduce": "towards their roots, then back",
        }
        title = f"Trees, {forest.per_root} of {rate} a GPU, {turned[self.inputs['kind']]}"

        def arcs(tree: Tree) -> str:
            return ", ".join(f"{names[a]} > {names[b]}" for a, b in tree.arcs)

        shown: list[show.Column[Tree]] = [
            show.column("root", lambda tree: names[tree.root], form="text"),
            show.column("trees", "count", form="count"),
            show.column("hops", "depth", form="count"),
            show.column("arcs", arcs, form="text", shown="wide"),
        ]
        return show.Table("trees", shown, forest.trees, title=title, shown="people")


def read_network(
    path: Path, hb_size: int | None, chip: Accelerator
) -> tuple[FabricGraph, bool, tuple[str, ...]]:
    """Somebody's graph with HB domains, whether its links have a direction, and notes on it."""
    if kind_of(path) == GRAPHML:
        graph, directed = read_directed_graphml(path, hb_size=hb_size)
        if directed:
            return graph, True, ()
    else:
        graph = read_graph(path, hb_size=hb_size)
    graph, notes = with_own_domains(graph, path, chip)
    return graph, False, notes


def optimum_answer(
    inputs: dict[str, Any],
    graph: FabricGraph,
    sizes: Floats,
    *,
    directed: bool = False,
    notes: Sequence[str] = (),
) -> OptimumAnswer:
    """The optimum of a collective over all GPUs of a graph, for messages of some sizes [B].

    Raises
    ------
    InputError
        If the collective has none, or the links do not join all GPUs.
    """
    kind = inputs["kind"]
    if kind not in get_args(Gathering):
        named = ", ".join(get_args(Gathering))
        raise InputError(f"--kind {kind} has no optimum by cuts on a graph: use {named}")
    network = CapacityGraph.of(graph, directed=directed)
    optimum = collective_optimum(kind, network, tell=share_done("GPUs proven"))
    rows = tuple(_row(optimum, kind, size, network.gpus) for size in sizes.tolist())
    answer = OptimumAnswer(inputs, graph, network, optimum, rows, tuple(notes))
    small = network.gpus <= SHOWN_TREE_GPUS and optimum.worst.exact
    return replace(answer, forest=answer.trees()) if small else answer


def _row(best: CollectiveOptimum, kind: Gathering, size: float, gpus: int) -> OptimumRow:
    """Times and bandwidths of one size [B]."""
    reached = best.reached_s_per_byte * size
    known = None if reached == inf else reached
    optimum = known if best.worst.exact else None
    bandwidth = None if known is None else size / known
    return OptimumRow(
        message_bytes=size,
        optimum_s=optimum,
        bound_s=best.bound_s_per_byte * size,
        reached_s=known,
        algbw_bytes_per_s=bandwidth,
        busbw_bytes_per_s=None if bandwidth is None else bus_factor(kind, gpus) * bandwidth,
    )
