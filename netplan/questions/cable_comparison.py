"""A plan against the cables as built, and readers of files that name both ends of each cable.

The form of a file is told here; how it is read, in ``topologies/formats``.

A plan booted before it is bought: OpenSM routes it on a simulator, what is found is compared.

Which engine fits is told by the fabric: ``ftree`` a Clos, then ``updn`` where it is no fat tree to
OpenSM; ``torus-2QoS`` a torus of up to three axes without a twist; ``updn`` or ``dfsssp`` all
else; ``minhop`` one switch alone.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from netplan.costing.switches import SWITCHES, cage_links
from netplan.errors import InputError
from netplan.files import read_lines
from netplan.records import replace
from netplan.reports.answer import Answer
from netplan.reports.screen import Screen, more_of
from netplan.reports.sections import Heading, Paragraph, Section, Table, column, columns
from netplan.scenarios.reading import CatalogReader
from netplan.topologies.cabling import rehearsal
from netplan.topologies.cabling.as_built import (
    Cable,
    Difference,
    Hall,
    cables_of,
    cabling_differences,
    named_alike,
    require_free_ports,
)
from netplan.topologies.cabling.device_names import node_of_guid
from netplan.topologies.cabling.halls import read_node_names, subnet_cables
from netplan.topologies.cabling.matching import MatchedPorts, match_halls
from netplan.topologies.fabric import Sizing
from netplan.topologies.families.switched import SwitchTrees
from netplan.topologies.families.torus import Torus, torus_shape
from netplan.topologies.formats.edge_list import NEEDED
from netplan.topologies.formats.graph_files import read_graph
from netplan.topologies.formats.infiniband import Subnet, found_by_ibdiagnet, found_by_ibnetdiscover
from netplan.topologies.formats.kinds import CSV, SUBNET, TOPO, XLSX, kind_of
from netplan.topologies.formats.subnet_files import PlannedSubnet, top_switches
from netplan.topologies.formats.tables import is_cable_table, read_cable_table, read_table
from netplan.topologies.graph import FabricGraph
from netplan.topologies.specs import FabricSpec

SCREEN_ROWS = 12
"""Differences that a screen shows [1]."""

TO_DO, BOTH = ("kind", "instruction"), ("planned", "built")


def read_cables(path: Path) -> Sequence[Cable]:
    """Cables of :func:`read_cable_hall`."""
    return read_cable_hall(path).cables


def read_cable_hall(path: Path, names: Mapping[str, str] | None = None) -> Hall:
    """Read cables from any file that names both ends of each.

    Parameters
    ----------
    path
        A cable plan, NetBox cables or UFM P2P (``.csv``, ``.xlsx``); an edge list, GraphML,
        ibdiagnet topology or the output of ``ibnetdiscover``: told by what it holds.
    names
        Names of devices of a subnet, by GUID or description.

    Raises
    ------
    CatalogError
        If the file is malformed: file and line.
    """
    kind = kind_of(path)
    if kind in FOUND_BY:
        return subnet_cables(FOUND_BY[kind](path), names)
    if kind == XLSX or (kind == CSV and not _is_edge_list(path)):
        return Hall(str(path), read_cable_table(path))
    return Hall(str(path), list(cables_of(read_graph(path))))


FOUND_BY: Mapping[str, Callable[[Path], Subnet]] = {
    SUBNET: found_by_ibnetdiscover,
    TOPO: found_by_ibdiagnet,
}
"""Files that say what was found, by kind."""


def _is_edge_list(path: Path) -> bool:
    """Whether a CSV file is a graph's edge list, by its header."""
    _, header = next(read_table(path), (1, []))
    return set(NEEDED) <= set(header) and not is_cable_table(header)


@dataclass(frozen=True, slots=True, repr=False)
class CableComparison(Answer):
    """The answer of :func:`compare_cables`: cables in both files, and what to put right."""

    json_parts = "planned", "built", "differences", "notes", "known"

    plan: str
    as_built: str
    planned: int
    built: int
    differences: tuple[Difference, ...]
    notes: tuple[str, ...] = ()
    known: tuple[MatchedPorts, ...] = ()

    @property
    def inputs(self) -> dict[str, str]:
        """What was asked about."""
        return {"plan": self.plan, "as_built": self.as_built}

    @property
    def sentence(self) -> str:
        """One line for people.

        Examples
        --------
        >>> CableComparison("plan.csv", "hall.csv", 8, 8, ()).sentence
        '8 cables planned, 8 built: no difference.'
        """
        kinds = Counter(difference.kind for difference in self.differences)
        counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items()) or "no difference"
        return f"{self.planned:,} cables planned, {self.built:,} built: {counts}."

    def in_a_line(self) -> str:
        """How many cables differ."""
        return self.sentence.removesuffix(".")

    @property
    def exit_code(self) -> int:
        """1 if anything differs."""
        return int(bool(self.differences))

    def summary(self) -> Iterator[Section]:
        """How many cables differ, the first of them with what to do, notes."""
        yield from Screen(
            Heading(f"{Path(self.plan).name} against {Path(self.as_built).name}"),
            (self.sentence,),
            Table("differences", columns(*TO_DO), self.differences),
            tuple(self._sentences()),
            more_of("every difference", "--format csv -o todo.csv") if self.differences else "",
            most_rows=SCREEN_ROWS,
        ).sections()

    def sections(self) -> Iterator[Section]:
        """One row a difference, with what to do about it."""
        shown = [*columns(*TO_DO), *columns(*BOTH, shown="data")]
        yield Table("differences", shown, self.differences)
        yield Paragraph(self.sentence)
        yield from map(Paragraph, self._sentences())

    def _sentences(self) -> Iterator[str]:
        """The notes as sentences."""
        for note in self.notes:
            yield f"{note[0].upper()}{note[1:]}{'' if note.endswith('?') else '.'}"


class Naming(Struct, frozen=True):
    """What a user says of names as built: a node-name map, and the GPUs of a server [1]."""

    node_names: Path | None = None
    host_gpus: int | None = None


def compare_cables(
    plan: Path,
    as_built: Path,
    *,
    switch: str | None = None,
    radix: int = 64,
    naming: Naming | None = None,
    catalog: str | Path | None = None,
) -> CableComparison:
    """Compare a plan with the cables as built; both in any form of :func:`read_cables`.

    Parameters
    ----------
    plan, as_built
        The two files.
    switch, radix
        Switch model, and its ports in the plan [1]: needed where one file names ports by cage and
        half and the other numbers them.
    naming
        What is said of the names of devices as built.
    catalog
        Folder of the user's own catalogs.

    Raises
    ------
    InputError
        If ports are named in two ways and no switch is given, or one that has not as many ports.
    CatalogError
        If a file is malformed or uses a port twice: file and line.
    """
    reader = CatalogReader(catalog)
    links = cage_links(reader.load(SWITCHES, switch), radix) if switch else None
    names = naming or Naming()
    known = read_node_names(names.node_names) if names.node_names else {}
    wanted, hall_built = read_cable_hall(plan), read_cable_hall(as_built, known)
    for hall in (wanted, hall_built):
        require_free_ports(hall.path, hall.cables)
    match = match_halls(wanted, hall_built, host_gpus=names.host_gpus, cage_links=links)
    notes = match.notes
    if known and not hall_built.renamed:
        notes += (f"no device of {hall_built.path} stands in {names.node_names}",)
    alike = named_alike(wanted, replace(hall_built, cables=match.cables), links)
    return CableComparison(
        str(plan),
        str(as_built),
        len(alike[0]),
        len(alike[1]),
        tuple(cabling_differences(*alike, match.host_of)),
        notes,
        match.known,
    )


"""Families of fabrics that are fat trees."""

MAX_AXES = 3
"""Axes of a torus that OpenSM's engine knows [1]."""


BOOTED_ROWS = 12
"""Subnets, or differences, that a screen shows [1]."""

Comparing = Callable[[Path, Path], CableComparison]
"""How a plan is compared with cables as built."""


@dataclass(frozen=True, slots=True, repr=False)
class Rehearsal(Answer):
    """The answer of ``netplan cables --rehearse``: subnets with their routing, and what differs."""

    json_parts = "subnets=booted", "*compared", "-inputs"

    inputs: dict[str, object]
    booted: tuple[rehearsal.Booted, ...]
    compared: CableComparison

    @property
    def sentence(self) -> str:
        """One line for people."""
        return f"{self._routed} {self.compared.sentence}"

    def in_a_line(self) -> str:
        """How many subnets are routed, and what differs."""
        return self.sentence.removesuffix(".")

    @property
    def _routed(self) -> str:
        routed, many = sum(subnet.routed for subnet in self.booted), "s" * (len(self.booted) != 1)
        return f"{routed:,} of {len(self.booted):,} subnet{many} routed."

    @property
    def exit_code(self) -> int:
        """1 if a subnet is not routed by an engine that fits it, or anything differs."""
        return int(self.compared.exit_code or not all(subnet.routed for subnet in self.booted))

    def summary(self) -> Iterator[Section]:
        """How many subnets are routed, what differs, and the first of what to do."""
        differ = bool(self.compared.differences)
        parts = [part for part in self.sections() if isinstance(part, Table)]
        yield from Screen(
            Heading("Rehearsal: booted on a simulator, and found again"),
            (self.sentence,),
            parts[-1] if differ else parts[0],
            self.compared.notes,
            more_of("every subnet, every difference", page=False),
            most_rows=BOOTED_ROWS,
        ).sections()

    def sections(self) -> Iterator[Section]:
        """One row a subnet, then one a difference with what to do about it."""
        shown = [
            column("subnet", lambda subnet: subnet.part.name),
            *(
                column(name, attrgetter(f"part.{name}"))
                for name in ("switches", "adapters", "cables")
            ),
            column("engine", lambda subnet: subnet.engine),
            column("routed", lambda subnet: "yes" if subnet.routed else "no"),
        ]
        yield Table("subnets", shown, self.booted)
        if self.compared.differences:
            yield Paragraph(self._routed)
            yield from self.compared.sections()
        else:
            yield Paragraph(self.sentence)


def rehearse_plan(
    inputs: dict[str, object], subnet: PlannedSubnet, spec: FabricSpec, sizing: Sizing
) -> Rehearsal:
    """Boot a fabric as planned, and compare what is found with the plan.

    Parameters
    ----------
    inputs
        What was asked.
    subnet
        The network as its subnet manager sees it.
    spec, sizing
        The fabric.

    Raises
    ------
    InputError
        If a program is missing, or a speed cannot be simulated.
    NetplanError
        If a program fails.
    """
    tools = _tools()
    if subnet.network.source.size == 0:
        raise InputError(f"{spec.name} has no cables at this size: nothing to boot")
    text = "".join(subnet.blocks(subnet.stand_ins()))
    with TemporaryDirectory(prefix="netplan-") as folder:
        plan = Path(folder) / "plan.ibnetdiscover"
        plan.write_text(text, encoding="utf-8")
        return _compared(
            inputs, (plan, plan), (_routing(spec, sizing, subnet.network), compare_cables), tools
        )


def rehearse_files(
    inputs: dict[str, object], plan: Path, as_built: Path, compared: Comparing = compare_cables
) -> Rehearsal:
    """Boot a network as ``ibnetdiscover`` printed it, and compare what is found with a plan.

    Parameters
    ----------
    inputs
        What was asked.
    plan, as_built
        The two files.
    compared
        How a plan is compared with what is found.

    Raises
    ------
    InputError
        If a program is missing, or a speed cannot be simulated.
    NetplanError
        If a program fails, such as on a file of another form.
    """
    return _compared(inputs, (plan, as_built), (_trees, compared), _tools())


def _tools() -> rehearsal.Tools:
    tools = rehearsal.find_tools()
    if tools is None:
        raise InputError(f"--rehearse runs OpenSM on a simulator: install {rehearsal.PACKAGES}")
    return tools


def _compared(
    inputs: dict[str, object],
    files: tuple[Path, Path],
    how: tuple[Callable[[rehearsal.SubnetPart], rehearsal.Routing], Comparing],
    tools: rehearsal.Tools,
) -> Rehearsal:
    """Boot the second file, and compare what is found with the first."""
    (plan, network), (routing, compared) = files, how
    if kind_of(network) != SUBNET:
        raise InputError(f"--rehearse: {network} is not what ibnetdiscover prints: give its output")
    text = "\n".join(read_lines(network))
    network_text, booted = rehearsal.rehearse(text, routing, tools)
    with TemporaryDirectory(prefix="netplan-") as folder:
        seen = Path(folder) / "found.ibnetdiscover"
        seen.write_text(network_text, encoding="utf-8")
        return Rehearsal(inputs, tuple(booted), compared(plan, seen))


def _trees(part: rehearsal.SubnetPart) -> rehearsal.Routing:
    """A fat tree where OpenSM sees one, any tree else."""
    return rehearsal.Routing(("minhop",) if part.switches == 1 else ("ftree", "updn"))


def _routing(
    spec: FabricSpec, sizing: Sizing, network: FabricGraph
) -> Callable[[rehearsal.SubnetPart], rehearsal.Routing]:
    """Engines that fit the subnets of a fabric."""
    if isinstance(spec, SwitchTrees):
        trees = spec.trees(sizing)
        roots = (
            () if all(tree.ftree_ready for tree in trees) else tuple(top_switches(network).tolist())
        )

        def tree(part: rehearsal.SubnetPart) -> rehearsal.Routing:
            return replace(_trees(part), roots=roots if part.switches > 1 else ())

        return tree
    rails, sizes = sizing.hb_size, torus_shape(spec, sizing) if isinstance(spec, Torus) else ()
    whole = prod(sizes) * rails == sizing.gpus
    # The engine of tori knows no twist: a ring around leads it to other rows than it expects.
    if not (isinstance(spec, Torus) and whole) or len(sizes) > MAX_AXES or spec.twist:
        return lambda part: rehearsal.Routing(
            ("minhop",) if part.switches == 1 else ("updn", "dfsssp")
        )

    def torus(part: rehearsal.SubnetPart) -> rehearsal.Routing:
        # One torus a rail; its first switch is the member at the origin.
        rank = node_of_guid(int(part.node.partition("-")[2], 16)) % rails
        config = rehearsal.torus_config(sizes, first=rank, step=rails, closed=spec.wraparound)
        return rehearsal.Routing(("torus-2QoS",), config)

    return torus
