"""A fabric, or somebody's graph of one, in the file formats of other tools."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from netplan.added import added
from netplan.answers.screen_titles import titled
from netplan.costing.switches import SWITCHES, SwitchModel, check_switch
from netplan.errors import InputError
from netplan.records import replace
from netplan.reports.answer import Answer
from netplan.reports.screen import Screen, more_of
from netplan.reports.sections import Heading, Section, Table, Verbatim, column
from netplan.scenarios.reading import CatalogReader, sized
from netplan.setup.asking import function_of
from netplan.setup.footprint import Footprint, footprint_of
from netplan.setup.inputs import refuse_two_networks
from netplan.setup.own_inputs import list_field, required_field
from netplan.setup.question import NETWORK, WEIGHED, AnyQuestion, Question
from netplan.topologies.build import build_fabric
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Fabric, Sizing
from netplan.topologies.families.switched import RailOnly
from netplan.topologies.formats import writers
from netplan.topologies.formats.edge_list import COLUMNS, edge_list_lines, edge_rows
from netplan.topologies.formats.graph_files import read_graph
from netplan.topologies.formats.graphml import graphml_lines
from netplan.topologies.formats.nvidia import air_lines, operator_lines
from netplan.topologies.formats.slurm import slurm_block_lines, slurm_lines, slurm_yaml_lines
from netplan.topologies.formats.subnet_files import ibnetdiscover_lines, topo_lines
from netplan.topologies.graph import FabricGraph
from netplan.topologies.rail_circuits import CircuitPlan
from netplan.topologies.specs import FabricSpec
from netplan.workloads.accelerators import ACCELERATORS

if TYPE_CHECKING:
    import pandas as pd

EDGES = "edges"
WRITERS: Mapping[str, Callable[[FabricGraph], Iterable[str]]] = {
    "graphml": graphml_lines,
    "dot": writers.dot_lines,
    EDGES: edge_list_lines,
    "simai": writers.simai_lines,
}
HOST_WRITERS: Mapping[str, Callable[..., Iterable[str]]] = {
    "topo": topo_lines,
    "ibnetdiscover": ibnetdiscover_lines,
    "slurm": slurm_lines,
    "slurm-block": slurm_block_lines,
    "slurm-yaml": slurm_yaml_lines,
}
PORT_WRITERS: Mapping[str, Callable[..., Iterable[str]]] = {
    "air": air_lines,
    "network-operator": operator_lines,
}
"""Formats that name ports of switches as these do, in cages of several links too."""

NAMES_HOSTS = (*HOST_WRITERS, *PORT_WRITERS)
"""Formats that can name servers in place of GPUs."""

SCREEN_ROWS = 15
"""Lines of a file that a screen shows [1]."""

ASTRA_SIM = "astra-sim"
CIRCUITS = "circuits"
FORMATS = (*WRITERS, *NAMES_HOSTS, ASTRA_SIM, CIRCUITS, *added("netplan.formats"))


def fabric_asked(asked: AnyQuestion, reader: CatalogReader) -> tuple[FabricSpec, Sizing]:
    """The fabric's spec, and the size that is asked for, at the rates that are bought."""
    cluster = replace(asked.cluster, as_found=1.0)
    on = reader.load(ACCELERATORS, cluster.accelerator)
    return reader.fabric(cluster.fabric, cluster), sized(cluster, on)


@dataclass(frozen=True, slots=True, repr=False)
class GraphFile(Answer):
    """The answer of :func:`export`: a file of another tool, made line by line when it is read."""

    json_parts = ("text=whole_text",)

    inputs: dict[str, object]
    make: Callable[[], Iterable[str]]
    graph: Callable[[], FabricGraph] | None = None

    def lines(self) -> Iterator[str]:
        """Lines of the file, each with its end."""
        return (line if line.endswith("\n") else line + "\n" for line in self.make())

    @property
    def whole_text(self) -> str:
        """The file as one text."""
        return "".join(self.lines())

    def to_frame(self) -> "pd.DataFrame":
        """One row a link, in the columns of an edge list; a network without links has its lines."""
        import pandas as pd

        if self.graph is None:
            return pd.DataFrame({"line": [line.rstrip("\n") for line in self.lines()]})
        return pd.DataFrame(edge_rows(self.graph()), columns=COLUMNS)

    def csv(self) -> str:
        """The edge list as it is, a table; of any other format its lines, one a row.

        Returns
        -------
        str
            One CSV with a header.
        """
        if self.inputs["to"] == EDGES:
            return self.whole_text
        return Answer.csv(self)

    def summary(self) -> Iterator[Section]:
        """How long the file is, and its first lines."""
        lines = [line.rstrip("\n") for line in self.lines()]
        yield from Screen(
            Heading(titled(self.inputs, f"a fabric for {self.inputs['to']}")),
            (f"{len(lines):,} lines; the first of them.",),
            Table("lines", [column("line", str.expandtabs)], lines),
            (),
            more_of("the whole file", "-o FILE", page=False),
            most_rows=SCREEN_ROWS,
        ).sections()

    def sections(self) -> Iterator[Section]:
        """The file as it is."""
        lines = tuple(line.rstrip("\n") for line in self.lines())
        yield Heading(f"A fabric for {self.inputs['to']}")
        yield Verbatim(lines)
        yield Table("lines", [column("line", str)], lines, shown="data")


@dataclass(frozen=True, kw_only=True)
class Export(Question[GraphFile]):
    """Write a fabric, port to port, in the format of another tool.

    ``simai`` is also that of ns-3, ``topo`` that of ibdiagnet, ``ibnetdiscover`` what that would
    find and ibsim simulates, ``slurm`` a topology.conf of switches, ``slurm-block`` one of blocks,
    ``slurm-yaml`` both in a topology.yaml; ``air`` is NVIDIA DSX Air's import, ``network-operator``
    the topology.json of its network operator, by rail and plane; ``astra-sim`` is a network in
    YAML, made from the fabric's levels; ``circuits`` are the ports that the circuit switches of a
    torus of cubes join, also around cubes that failed, or what is on each of those in front of
    rails. Those of InfiniBand, Slurm and NVIDIA name
    servers with --host-gpus.

    Raises
    ------
    InputError
        If an input is not allowed, or the fabric has no levels to write for ASTRA-sim.
    CatalogError
        If a graph to convert is malformed: file and line.

    Examples
    --------
    >>> file = export("rail-only-paper", to="slurm", gpus=64, radix=8, hb_size=8, fabric="fat-tree")
    >>> print(next(file.lines()).strip())
    SwitchName=s1-0 Nodes=host-0

    In Python its links are a frame, whatever the format:

    >>> file.to_frame()[["source", "target", "gbps"]].values[-1].tolist()
    ['plane-3/spine-3', 'plane-3/core-1', 400.0]
    """

    command: ClassVar[str] = "export"
    examples: ClassVar[tuple[str, ...]] = (
        "netplan export hgx-h100 --gpus 1024 --to graphml -o fabric.graphml",
        "netplan export nvl72-gb200 --gpus 1152 --host-gpus 4 --to slurm-block",
        "netplan export tpu-v7 --gpus 4096 --to astra-sim",
        "netplan export hgx-b200 --gpus 1024 --switch sn5600 --to air",
        "netplan export --gpus 4096 --fabric torus-ocs --to circuits --lost-cube 5",
        "netplan export hgx-h100 --gpus 4096 --fabric rail-only-ocs --to circuits",
        "netplan export --graph fabric.graphml --to edges -o cables.csv",
    )

    reads: ClassVar[frozenset[str]] = NETWORK | {"fabric", "switch", "graph", "host_gpus"}
    reads_from: ClassVar[frozenset[str]] = WEIGHED

    to: str = required_field("Format to write.", "choice", choices=FORMATS)
    lost_cubes: Sequence[int] = list_field(
        "For circuits: a cube that failed, from 0 (repeatable).", "whole", flag="--lost-cube"
    )

    @cached_property
    def footprint(self) -> Footprint | None:
        """What it takes of the machine."""
        where = self.cluster, self.reader(), self.weighed_fabrics
        return footprint_of(f"export {self.to}", *where, limited=self.max_memory is not None)

    def ask(self) -> GraphFile:
        """Expand the fabric, or read the graph."""
        if self.to not in FORMATS:
            raise InputError(f"unknown format {self.to!r}: use one of {', '.join(FORMATS)}")
        if self.cluster.host_gpus is not None and self.to not in NAMES_HOSTS:
            named = ", ".join(NAMES_HOSTS)
            raise InputError(f"--to {self.to} names GPUs: leave out --host-gpus, or use {named}")
        if self.cluster.switch is not None and (
            self.to not in PORT_WRITERS or self.cluster.graph is not None
        ):
            named = " and ".join(PORT_WRITERS)
            raise InputError(f"--switch names the ports of a fabric in --to {named}: leave it out")
        if self.lost_cubes and self.to != CIRCUITS:
            raise InputError(f"--lost-cube is for --to {CIRCUITS}: leave it out")
        if self.cluster.graph is not None:
            refuse_two_networks(self)
            return self._converted(Path(self.cluster.graph))
        reader = self.reader()
        spec, sizing = fabric_asked(self, reader)
        model = reader.named(SWITCHES, self.cluster.switch)
        inputs = self.inputs(hb_size=sizing.hb_size, set=reader.replaced())
        built = build_fabric(spec, sizing)
        if self.to == CIRCUITS:
            return self._circuits(inputs, spec, built.sizing)
        if self.to != ASTRA_SIM:
            cage_links = links_in_a_cage(model, built, reader.roots)
            return self._file(inputs, lambda: expand(spec, sizing), cage_links)
        if not built.levels:
            raise InputError(f"{spec.name} has no levels in this size: ASTRA-sim cannot take it")
        return GraphFile(inputs, writers.astra_sim_network(built.levels).splitlines)

    def _circuits(self, inputs: dict[str, object], spec: FabricSpec, sizing: Sizing) -> GraphFile:
        """Circuits of a torus of cubes, without the cubes that failed; ports in front of rails."""
        ports = SWITCHES.load(spec.circuit_switch).cages if spec.circuit_switch else 0
        if isinstance(spec, RailOnly) and ports:
            if self.lost_cubes:
                raise InputError(f"--lost-cube: {spec.name} has no cubes, leave it out")
            ports_of_gpu = build_fabric(spec, sizing).ports_per_gpu
            plan = CircuitPlan(ports, sizing.domains, sizing.hb_size, ports_of_gpu)
            return GraphFile(inputs, lambda: plan.table().lines("gpu", "rail-port"))
        circuits = writers.cube_circuits(spec, sizing, ports=ports, lost=self.lost_cubes)
        return GraphFile(inputs, circuits.lines)

    def _converted(self, path: Path) -> GraphFile:
        if self.to in (ASTRA_SIM, CIRCUITS):
            raise InputError(
                f"{self.to} is written from a fabric's levels, not from a graph: use --fabric"
            )
        read = read_graph(path, hb_size=self.cluster.hb_size)
        inputs = {"to": self.to, "graph": str(path), "hb_size": read.hb_size}
        inputs |= {} if self.cluster.host_gpus is None else {"host_gpus": self.cluster.host_gpus}
        return self._file(inputs, lambda: read)

    def _file(
        self, inputs: dict[str, object], graph: Callable[[], FabricGraph], cage_links: int = 1
    ) -> GraphFile:
        if self.to in PORT_WRITERS:
            write = partial(
                PORT_WRITERS[self.to], host_gpus=self.cluster.host_gpus, cage_links=cage_links
            )
            return GraphFile(inputs, lambda: write(graph()), graph)
        if self.to in HOST_WRITERS:
            write = partial(HOST_WRITERS[self.to], host_gpus=self.cluster.host_gpus)
            return GraphFile(inputs, lambda: write(graph()), graph)
        plain = WRITERS.get(self.to) or added("netplan.formats")[self.to].load()
        return GraphFile(inputs, lambda: plain(graph()), graph)


export = function_of(Export)


def links_in_a_cage(model: SwitchModel | None, fabric: Fabric, roots: Sequence[Path]) -> int:
    """Links in a cage of the switch chosen, which must fit the fabric; 1 if none is chosen.

    Raises
    ------
    InputError
        If the fabric has no switches, or the model has not as many ports of its rate.
    """
    if model is None:
        return 1
    if not fabric.tiers:
        raise InputError(f"{fabric.name} has no switches: leave out --switch {model.name}")
    sizing = fabric.sizing
    others = [SWITCHES.load(str(path)) for path in SWITCHES.paths(roots).values()]
    check_switch(model, sizing.radix, sizing.speed_gbps, others)
    return model.links_per_cage(sizing.speed_gbps)
