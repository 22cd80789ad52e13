"""Cable plans made and read back, and plan against as built."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from netplan.arrays import Floats
from netplan.costing.cabling import CABLING_BOOKS
from netplan.costing.installation import Site, install, place
from netplan.costing.materials import switch_units
from netplan.costing.switches import SWITCHES, SwitchModel, cage_links, check_switch
from netplan.costing.wiring import Hardware
from netplan.errors import CatalogError, InfeasibleError, InputError
from netplan.questions.export import read_graph
from netplan.questions.inputs import CatalogReader, sizing_on
from netplan.reports.text import Cell
from netplan.topologies.as_built import (
    Cable,
    Difference,
    End,
    cables_of,
    differences,
    require_free_ports,
)
from netplan.topologies.build import build_fabric
from netplan.topologies.cable_hosts import with_hosts
from netplan.topologies.cable_plan import ROLES, CablePlan, Sheet, cable_plan, media_of, plan_sheet
from netplan.topologies.cages import CableList, named_alike
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Fabric
from netplan.topologies.floor_plan import FLOOR_PLANS, FloorPlan
from netplan.topologies.formats.cable_tables import is_cable_table, read_cable_table, read_table
from netplan.topologies.formats.edge_list import NEEDED
from netplan.topologies.formats.ibnetdiscover import ibnetdiscover_draft
from netplan.topologies.formats.netbox import netbox_cables, netbox_devices
from netplan.topologies.formats.ufm import ufm_ethernet, ufm_hca, ufm_infiniband, ufm_racks
from netplan.topologies.specs import FABRICS
from netplan.units import gbps
from netplan.version import __version__
from netplan.workloads.accelerators import ACCELERATORS

if TYPE_CHECKING:
    import pandas as pd

SHEETS: Mapping[str, Callable[[CablePlan], Sheet]] = {
    "plan": plan_sheet,
    "netbox-cables": netbox_cables,
    "netbox-devices": netbox_devices,
    "ufm-ethernet": ufm_ethernet,
    "ufm-infiniband": ufm_infiniband,
}
LENGTHS, RACKS, UFM_RACKS, UFM_HCA = "lengths", "racks", "ufm-racks", "ufm-hca"
ON_A_FLOOR = (LENGTHS, RACKS, UFM_RACKS)
CABLING = "2026"
LENGTH_COLUMNS = ("group", "length_m", "cables", "total_m", "medium")
RACK_COLUMNS = ("rack", "what", "length_m", "count")
MEDIA = {"dac": "copper", "aec": "copper"} | dict.fromkeys(
    ("aoc", "multimode", "singlemode"), "fibre"
)
"""Medium in a cable plan, by kind of cable."""
COLUMNS = ("kind", "instruction", "planned", "built")


def cables(  # noqa: PLR0913 - one keyword an input, as on the command line
    *,
    gpus: int,
    radix: int,
    fabric: str = "rail-only",
    to: str = "plan",
    hb_size: int | None = None,
    accelerator: str = "gh200-96gb",
    oversubscription: float | None = None,
    floor_plan: str | None = None,
    switch: str | None = None,
    host_gpus: int | None = None,
    catalog: str | Path | None = None,
    overrides: Mapping[str, str] | None = None,
) -> Sheet:
    """Make the cable plan of a fabric, in our own columns or in another tool's.

    Parameters
    ----------
    to
        ``plan``, ``lengths``, ``racks``, ``netbox-cables``, ``netbox-devices``, ``ufm-ethernet``,
        ``ufm-infiniband``, ``ufm-hca`` or ``ufm-racks``.
    floor_plan
        Hall that gives racks, units and lengths, by catalog name or path; ``lengths``, ``racks``
        and ``ufm-racks`` need one.
    switch
        Switch model whose ports at the link rate are the radix: ports are then named by cage.
    host_gpus
        GPUs of a server; the plan then names hosts instead of GPUs. ``ufm-hca`` takes the HB
        domain for a host if absent [1].
    gpus, radix, fabric, hb_size, accelerator, oversubscription, catalog, overrides
        As in :func:`netplan.compare`, for one fabric.

    Raises
    ------
    InputError
        If an input is not allowed.

    Examples
    --------
    >>> sheet = cables(gpus=64, radix=16, hb_size=8, fabric="rail-optimized")
    >>> next(sheet.rows)[0]
    'gpu-0:1--rail-0/leaf-0:1'
    """
    reader = CatalogReader(catalog, overrides)
    on, spec = reader.load(ACCELERATORS, accelerator), reader.load(FABRICS, fabric)
    hall = reader.load(FLOOR_PLANS, floor_plan) if floor_plan else None
    book = reader.load(CABLING_BOOKS, CABLING)
    model = reader.load(SWITCHES, switch) if switch else None
    reader.replaced()
    _check_floor(to, hall, host_gpus)
    sizing = sizing_on(
        on, gpus=gpus, radix=radix, hb_size=hb_size, oversubscription=oversubscription
    )
    built = build_fabric(spec, sizing)
    cage = _links_in_a_cage(model, built, reader.roots)
    if hall is None:
        plan = cable_plan(expand(spec, sizing), media=media_of(built), cage_links=cage)
    else:
        hardware = Hardware(book, model)
        site = place(hall, spec, sizing, switch_units(hardware))
        if to == UFM_RACKS:
            return ufm_racks(site.layout)
        cables = _cables(built, site, hardware)
        if to in (LENGTHS, RACKS):
            return (racks_sheet if to == RACKS else lengths_sheet)(site, cables)
        plan = cable_plan(
            site.network,
            media=[MEDIA.get(kind, "") for kind in cables.kind],
            places=site.layout.places(site.network),
            length_m=cables.length_m,
            cage_links=cage,
        )
    if to == UFM_HCA:
        return ufm_hca(plan, built.sizing.hb_size if host_gpus is None else host_gpus)
    return SHEETS[to](with_hosts(plan, host_gpus) if host_gpus is not None else plan)


def _check_floor(to: str, hall: FloorPlan | None, host_gpus: int | None) -> None:
    """Refuse a table that lacks its hall, and hosts that racks cannot hold whole."""
    if hall is None:
        if to in ON_A_FLOOR:
            raise InputError(f"--to {to} needs --floor-plan, such as example-hall")
    elif host_gpus and hall.gpus_per_rack % host_gpus:
        raise InputError(
            f"hosts of {host_gpus} GPUs do not fill the racks of {hall.name}, which hold"
            f" {hall.gpus_per_rack} GPUs: give a divisor of that as --host-gpus"
        )


def _links_in_a_cage(model: SwitchModel | None, fabric: Fabric, roots: Sequence[Path]) -> int:
    """Links in a cage of the switch chosen, which must fit the fabric; 1 if none is chosen."""
    if model is None:
        return 1
    if not fabric.tiers:
        raise InputError(f"{fabric.name} has no switches: leave out --switch {model.name}")
    sizing = fabric.sizing
    others = [SWITCHES.load(str(path)) for path in SWITCHES.paths(roots).values()]
    check_switch(model, sizing.radix, sizing.speed_gbps, others)
    return model.links_per_cage(sizing.speed_gbps)


class Cables(NamedTuple):
    """Cables of a fabric in a hall: their lengths as sold [m], and their kinds, where known."""

    length_m: Floats
    kind: Sequence[str]


def _cables(fabric: Fabric, site: Site, hardware: Hardware) -> Cables:
    """The cables that the bill orders; those that no book has keep the length that they need."""
    try:
        installed = install(fabric, site, hardware)
    except (InfeasibleError, CatalogError):
        return Cables(site.length_m, [""] * site.network.link_count)
    return Cables(installed.length_m, installed.kinds)


def racks_sheet(site: Site, cables: Cables) -> Sheet:
    """What stands in each rack, and the cables that begin there, by length: for installers."""
    network, places = site.network, site.layout.places(site.network)
    racks = [places[name].rack for name in network.node_names()]
    kinds = [ROLES[kind] for kind in network.node_kind.tolist()]
    devices = Counter(zip(racks, kinds, strict=True))
    begins = np.array(racks, object)[network.source].tolist()
    counts = Counter(zip(begins, cables.length_m.tolist(), strict=True))
    lines = [(rack, 0, kind, "", count) for (rack, kind), count in devices.items()]
    lines += [(rack, 1, "cable", f"{length:g}", count) for (rack, length), count in counts.items()]
    lines.sort(key=lambda line: (line[0], line[1], line[2], float(line[3] or 0)))
    rows = ((rack, what, length, str(count)) for rack, _, what, length, count in lines)
    return Sheet("Racks", RACK_COLUMNS, rows)


def lengths_sheet(site: Site, cables: Cables) -> Sheet:
    """Cables by link group, length and kind, as on the bill."""
    groups = np.array(site.network.group_names, object)[site.network.group].tolist()
    counts = Counter(zip(groups, cables.length_m.tolist(), cables.kind, strict=True))
    order = {name: at for at, name in enumerate(site.network.group_names)}
    lines = sorted(counts.items(), key=lambda line: (order[line[0][0]], *line[0][1:]))
    rows = (
        (group, f"{length:g}", str(count), f"{count * length:g}", kind)
        for (group, length, kind), count in lines
    )
    return Sheet("Cable lengths", LENGTH_COLUMNS, rows)


def read_cables(path: Path) -> list[Cable]:
    """Read cables from any file that names both ends of each.

    Parameters
    ----------
    path
        A cable plan, NetBox cables or UFM P2P (``.csv``, ``.xlsx``); an edge list, GraphML,
        ibdiagnet topology or the output of ``ibnetdiscover``.

    Raises
    ------
    CatalogError
        If the file is malformed: file and line.
    """
    ending = path.suffix.lower()
    if ending == ".ibnetdiscover":
        return [
            Cable(
                End(link.source, str((link.source_port or 0) + 1)),
                End(link.target, str((link.target_port or 0) + 1)),
                gbps(link.bytes_per_s),
                link.line,
            )
            for link in ibnetdiscover_draft(path).links
        ]
    if ending == ".xlsx" or (ending == ".csv" and not _is_edge_list(path)):
        return read_cable_table(path)
    return list(cables_of(read_graph(path)))


def _is_edge_list(path: Path) -> bool:
    """Whether a CSV file is a graph's edge list, by its header."""
    _, header = next(read_table(path), (1, []))
    return set(NEEDED) <= set(header) and not is_cable_table(header)


@dataclass(frozen=True, slots=True)
class CableComparison:
    """The answer of :func:`compare_cables`.

    Parameters
    ----------
    plan, as_built
        The two files.
    planned, built
        Cables in each [1].
    differences
        What to put right, swaps and moves first.
    """

    plan: str
    as_built: str
    planned: int
    built: int
    differences: tuple[Difference, ...]

    @property
    def summary(self) -> str:
        """One line for people.

        Examples
        --------
        >>> CableComparison("plan.csv", "hall.csv", 8, 8, ()).summary
        '8 cables planned, 8 built: no difference.'
        """
        kinds = Counter(difference.kind for difference in self.differences)
        found = ", ".join(f"{count} {kind}" for kind, count in kinds.items()) or "no difference"
        return f"{self.planned:,} cables planned, {self.built:,} built: {found}."

    def to_dict(self) -> dict[str, Any]:
        """Exactly the JSON of ``netplan cables --compare``."""
        return {
            "netplan_version": __version__,
            "inputs": {"plan": self.plan, "as_built": self.as_built},
            "planned": self.planned,
            "built": self.built,
            "differences": self.to_rows(),
        }

    def to_rows(self) -> list[dict[str, Cell]]:
        """One flat row a difference."""
        rows = [asdict(difference) for difference in self.differences]
        return [{column: row[column] for column in COLUMNS} for row in rows]

    def to_sheet(self) -> Sheet:
        """One row a difference, as a sheet."""
        rows = (tuple(str(cell) for cell in row.values()) for row in self.to_rows())
        return Sheet("Differences", COLUMNS, rows)

    def to_frame(self) -> "pd.DataFrame":
        """One row a difference."""
        import pandas as pd

        return pd.DataFrame(self.to_rows(), columns=list(COLUMNS))

    def _repr_html_(self) -> str:
        return str(self.to_frame().to_html(escape=True, index=False))


def compare_cables(
    plan: Path,
    as_built: Path,
    *,
    switch: str | None = None,
    radix: int = 64,
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
    files = [CableList(str(path), read_cables(path)) for path in (plan, as_built)]
    for file in files:
        require_free_ports(file.path, file.cables)
    wanted, found = named_alike(files[0], files[1], links)
    return CableComparison(
        str(plan), str(as_built), len(wanted), len(found), tuple(differences(wanted, found))
    )
