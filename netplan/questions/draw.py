"""``netplan draw``: any fabric as a drawing, small ones node by node, with loads or failures."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

from markupsafe import Markup

from netplan.answers.loads_answer import LoadsAnswer
from netplan.answers.screen_titles import screen_heading
from netplan.questions.loads import Loads, what_failed
from netplan.records import replace
from netplan.reports.answer import Answer
from netplan.reports.page import drawing_style
from netplan.reports.screen import Screen, more_of
from netplan.reports.sections import Heading, Inset, Notes, Section, Table, column, columns
from netplan.reports.svg import standalone
from netplan.scenarios.reading import sized
from netplan.setup.asking import function_of
from netplan.setup.inputs import refuse_two_networks
from netplan.setup.own_inputs import default_field, list_field, option_field
from netplan.setup.question import FOUND, RUNS, WEIGHED, Question
from netplan.setup.runs import PATTERN
from netplan.topologies.build import build_fabric
from netplan.topologies.colours import Coloured
from netplan.topologies.drawings.network import drawing_of
from netplan.topologies.drawings.places import NetworkMap, network_map
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Fabric
from netplan.topologies.graph import SWITCH, FabricGraph
from netplan.topologies.specs import FabricSpec
from netplan.traffic.patterns import Pattern
from netplan.units import counted, gbps

Show = Literal["links", "loads"]


@dataclass(frozen=True, slots=True, repr=False)
class DrawAnswer(Answer):
    """The answer of :func:`draw`: the drawing, and its links by group."""

    json_parts = (
        *("layout", "nodes=graph.node_count", "links=graph.link_count", "groups", "notes"),
        "svg=svg_text",
    )

    inputs: dict[str, object]
    graph: FabricGraph
    fabric: Fabric | None
    places: NetworkMap | None
    coloured: Coloured
    notes: tuple[str, ...] = ()

    @property
    def drawn(self) -> Markup:
        """The drawing."""
        return drawing_of(self.graph, self.fabric, self.places, self.coloured)

    def svg(self) -> str:
        """The drawing as a file of its own."""
        return standalone(self.drawn, drawing_style())

    @property
    def svg_text(self) -> str:
        """The same."""
        return self.svg()

    @property
    def layout(self) -> str:
        """How nodes are laid out, or that kinds of devices are drawn."""
        return self.places.layout if self.places else "overview"

    @property
    def groups(self) -> list[dict[str, Any]]:
        """Links of each group, their rate, and what the colours say of them."""
        graph, rows = self.graph, []
        for code, name in enumerate(graph.group_names):
            here = graph.group == code
            if not here.any():
                continue
            row: dict[str, Any] = {
                "group": name,
                "links": int(here.sum()),
                "link_gbps": float(gbps(graph.bytes_per_s[here].max())),
            }
            if self.coloured.share is not None:
                row["busiest_share"] = float(self.coloured.share[here].max())
            if self.coloured.links_out is not None:
                row["links_out"] = int((here & self.coloured.links_out).sum())
            rows.append(row)
        return rows

    def summary(self) -> Iterator[Section]:
        """What is drawn, links by group, notes."""
        yield from Screen(
            screen_heading(self.inputs, self._heading, lower=False),
            (f"{'; '.join(self._what())}.",),
            self._links(),
            self.notes,
            more_of("", "-o fabric.svg (the drawing)", "--show loads", "--fail leaf=1", page=False),
        ).sections()

    def in_a_line(self) -> str:
        """What is drawn."""
        return next(self._what())

    def sections(self) -> Iterator[Section]:
        """Heading, the drawing on pages, links by group, notes."""
        yield replace(self._heading, lines=tuple(self._what()))
        yield Inset("", lambda: self.drawn)
        yield self._links()
        yield Notes.of([("", self.notes)])

    @property
    def _heading(self) -> Heading:
        """The network and its size."""
        where = f"{counted(self.graph.gpus, 'GPU')} in HB domains of {self.graph.hb_size:,}"
        return Heading(f"{self.graph.name}: {where}")

    def _links(self) -> Table[dict[str, Any]]:
        """Links of each group."""
        shown = [*columns("group", "links"), column("drawn_gbps", "link_gbps")]
        shown += [column("busiest_share")] if self.coloured.share is not None else []
        shown += [column("links_out")] if self.coloured.links_out is not None else []
        return Table("groups", shown, self.groups)

    def _what(self) -> Iterator[str]:
        """What is drawn, and what its colours are."""
        switches = counted(int((self.graph.node_kind == SWITCH).sum()), "switch", "switches")
        yield f"{switches}, {counted(self.graph.link_count, 'link')}"
        if self.coloured.share is not None:
            yield f"colour: time of each link, of the busiest one's {self.coloured.words}"
        if self.coloured.links_out is not None:
            yield f"failed: {', '.join(map(str, self.inputs['fail']))}"  # type: ignore[call-overload]


@dataclass(frozen=True, kw_only=True)
class Draw(Question[DrawAnswer]):
    """Draw a fabric as SVG: small ones node by node, large ones by kinds of devices.

    With --show loads each link has the colour of what one iteration sends over it; with --fail,
    what has failed and which GPUs are cut off; with both, loads of the links that are left.
    --graph draws somebody's network instead.

    Raises
    ------
    NetplanError
        If an input is not allowed, or the fabric cannot be built.

    Examples
    --------
    >>> answer = draw("rail-only-paper", gpus=64, radix=16, hb_size=8, fabric="rail-only")
    >>> answer.to_dict()["layout"], answer.svg().startswith("<svg xmlns=")
    ('rows', True)
    """

    command: ClassVar[str] = "draw"
    examples: ClassVar[tuple[str, ...]] = (
        "netplan draw hgx-h100 --gpus 64 --radix 16 -o fabric.svg",
        "netplan draw hgx-h100 --gpus 64 --model gpt-22b --show loads -o loads.svg",
        "netplan draw hgx-h100 --gpus 64 --radix 16 --fail leaf=1 -o failed.svg",
        "netplan draw --graph fabric.graphml -o fabric.svg",
    )

    reads: ClassVar[frozenset[str]] = Loads.reads
    reads_from: ClassVar[frozenset[str]] = WEIGHED

    seed: int = option_field("Seed of all that is drawn.", "whole", default=0, high=2**64)
    matrix: str | Path | None = option_field("This traffic (.npz, .csv), not a plan's.", "path")
    algorithm: Pattern = default_field(PATTERN, "choice", choices=get_args(Pattern))
    show: Show = option_field(
        "Colour of links: none, or by what an iteration sends over them.",
        "choice",
        default="links",
        choices=("links", "loads"),
    )
    fail: Sequence[str] = list_field(
        "What has failed, as netplan faults has it: leaf=1, rail-0/leaf-3.", metavar="FAULT"
    )

    def ask(self) -> DrawAnswer:
        """Make the graph, find what its colours say, place its nodes."""
        if self.cluster.graph is not None:
            refuse_two_networks(self)
        if self.show == "loads" or self.matrix is not None:
            return self._loaded()
        self.reject_inputs(
            OF_RUNS - ({"seed"} if self.fail else set()), "a drawing without --show loads"
        )
        self.reader_and_chip()  # a value that is replaced is refused beside a graph, too
        fabric: Fabric | None = None
        notes: tuple[str, ...] = ()
        if self.cluster.graph is not None:
            from netplan.topologies.formats.graph_files import read_graph

            graph = read_graph(Path(self.cluster.graph), hb_size=self.cluster.hb_size)
        else:
            spec, fabric = self.built()
            graph, notes = expand(spec, fabric.sizing), fabric.notes
        return self._placed(graph, fabric, what_failed(graph, self.fail, self.seed), notes)

    def built(self) -> tuple[FabricSpec, Fabric]:
        """The file of the fabric, and its counts, which say how much there is to draw.

        Raises
        ------
        NetplanError
            If it cannot be built.
        """
        reader, on = self.reader_and_chip()
        spec = reader.fabric(self.cluster.fabric, self.cluster)
        return spec, build_fabric(spec, sized(self.cluster, on))

    def _loaded(self) -> DrawAnswer:
        """Links coloured by what `netplan loads` says of them."""
        loads_answer: LoadsAnswer = self.also(
            Loads,
            seed=self.seed,
            matrix=self.matrix,
            algorithm=self.algorithm,
            fail=self.fail,
            hot=0,
        ).ask()
        fabric = loads_answer.run.fabric if loads_answer.run else None
        return self._placed(loads_answer.graph, fabric, loads_answer.coloured, loads_answer.notes)

    def _placed(
        self, graph: FabricGraph, fabric: Fabric | None, coloured: Coloured, notes: tuple[str, ...]
    ) -> DrawAnswer:
        levels = fabric.levels if fabric else ()
        inputs = self.inputs(hb_size=graph.hb_size, gpus=graph.gpus)
        kept = {name: inputs[name] for name in KEPT if name in inputs}
        places = network_map(graph, levels, legible=fabric is not None)
        return DrawAnswer(kept, graph, fabric, places, coloured, notes)


KEPT = (
    *("scenario", "gpus", "radix", "hb_size", "fabric", "accelerator"),
    *("show", "fail", "seed", "graph", "matrix"),
)
"""Inputs that a drawing answers to."""

OF_RUNS = (RUNS | FOUND | {"workload", "expanded_memory", "seed", "matrix", "algorithm"}) - {
    "graph"
}
"""Inputs that say what runs: a drawing of the links alone has no use for them."""

draw = function_of(Draw)
