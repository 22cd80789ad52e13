"""Cable plans made and written; ``cable_comparison`` reads them back, beside what is built.

In a written table text stays text, and a plan of 10^5 rows takes seconds.
"""

import io
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from operator import itemgetter
from pathlib import Path
from tempfile import gettempdir
from typing import Any, ClassVar, NamedTuple

import numpy as np
import xlsxwriter
from xlsxwriter.exceptions import FileCreateError

from netplan.answers.screen_titles import titled
from netplan.arrays import Floats
from netplan.costing.cabling import CablingBook
from netplan.costing.fabric_bill import hardware_of
from netplan.costing.installation import HallFabric, install, place
from netplan.costing.site_bill import SiteBooks, fitting, sized_networks
from netplan.costing.switches import SWITCHES, SwitchModel
from netplan.costing.wiring import Hardware, wire
from netplan.errors import CatalogError, InfeasibleError, InputError
from netplan.files import reachable
from netplan.inputs.choices import AS_PUBLISHED
from netplan.progress import with_progress
from netplan.questions import cable_comparison
from netplan.questions.export import GraphFile, fabric_asked, links_in_a_cage
from netplan.records import replace
from netplan.reports.answer import Answer
from netplan.reports.screen import Screen, more_of
from netplan.reports.sections import Column, Heading, Section, Table, column
from netplan.reports.tables import FORMULA_STARTS
from netplan.reports.xlsx import CREATED, SAFE, WIDE, set_page
from netplan.scenarios.bill_books import read_books, site_networks
from netplan.scenarios.reading import CatalogReader
from netplan.setup.asking import function_of
from netplan.setup.inputs import short_inputs
from netplan.setup.own_inputs import option_field
from netplan.setup.question import NETWORK, WEIGHED, Question
from netplan.topologies.build import build_fabric
from netplan.topologies.cabling import cable_plan as plans
from netplan.topologies.cabling.floor_plan import FloorPlan
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Fabric
from netplan.topologies.formats.netbox import NETBOX, NetBoxHall
from netplan.topologies.formats.subnet_files import subnet_of
from netplan.topologies.formats.tables import ufm_ethernet, ufm_hca, ufm_infiniband, ufm_racks
from netplan.topologies.graph import SWITCH
from netplan.topologies.site_networks import SITE_NETWORKS
from netplan.topologies.specs import FABRICS
from netplan.units import counted

SCREEN_ROWS = 15
"""Rows of a table that a screen shows [1]."""

ENDS = ("a_device", "a_port", "z_device", "z_port")
"""Columns of a plan that its labels say, too."""

QUOTED = frozenset(',"\n\r')
NUMBERS = ("gbps", "length_m", "length")
ENDINGS = (".csv", ".xlsx")
MAX_SHEET_ROWS = 1_048_576


def check_ending(path: Path) -> str:
    """Ending of a table's name; refuse a file whose name does not say which kind of table it is.

    Raises
    ------
    InputError
        If the ending is neither ``.csv`` nor ``.xlsx``.
    """
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise InputError(
            f"-o {path}: unknown kind of table: name it .csv or .xlsx, or say --format"
        )
    return ending


def sheet_csv(sheet: plans.PlanSheet) -> Iterator[str]:
    r"""Lines of a CSV file; text that a spreadsheet would take for a formula gets an apostrophe.

    Examples
    --------
    >>> list(sheet_csv(plans.PlanSheet("P2P", ("name", "note"), iter([("=1+1", "a,b")]))))
    ['name,note\n', '\'=1+1,"a,b"\n']
    """
    yield ",".join(sheet.header) + "\n"
    for row in sheet.rows:
        yield ",".join([_field(cell) if cell else "" for cell in row]) + "\n"


def sheet_xlsx(sheet: plans.PlanSheet) -> bytes:
    """Write the sheet as a workbook: rates and lengths are numbers, all else is text.

    Raises
    ------
    InputError
        If the sheet has more rows than a spreadsheet holds.
    """
    buffer = io.BytesIO()
    try:
        with xlsxwriter.Workbook(buffer, SAFE | {"constant_memory": True}) as book:
            _write_sheet(book, sheet)
    except (FileCreateError, OSError) as error:  # of its temporary files
        cause = error.args[0] if isinstance(error, FileCreateError) else error
        raise InputError(
            f"the spreadsheet cannot be made: {getattr(cause, 'strerror', cause)}: free room in"
            f" {gettempdir()}, or write .csv"
        ) from None
    return buffer.getvalue()


def _write_sheet(book: xlsxwriter.Workbook, sheet: plans.PlanSheet) -> None:
    """Write the rows, one by one, so that none stays in memory."""
    book.set_properties({"title": sheet.name, "created": CREATED})
    page = book.add_worksheet(sheet.name)
    bold = book.add_format({"bold": True})
    page.freeze_panes(1, 0)
    for position, title in enumerate(sheet.header):
        page.write_string(0, position, title, bold)
    numbers = [title in NUMBERS for title in sheet.header]
    widths = [len(title) for title in sheet.header]
    turn = with_progress(("rows of the sheet", "the file"), str)
    next(turn)
    for line, row in enumerate(sheet.rows, start=1):
        if line >= MAX_SHEET_ROWS:
            raise InputError(
                f"a spreadsheet holds {MAX_SHEET_ROWS:,} rows, this table has more: write .csv"
            )
        for position, cell in enumerate(row):
            if not cell:
                continue
            widths[position] = max(widths[position], len(cell))
            if numbers[position]:
                page.write_number(line, position, float(cell))
            else:
                page.write_string(line, position, cell)
    next(turn)
    for position, width in enumerate(widths):
        page.set_column(position, position, min(width, WIDE) + 2)
    page.repeat_rows(0)
    set_page(page, sheet.name)


def _field(text: str) -> str:
    """One field of CSV."""
    if text.startswith(FORMULA_STARTS):
        text = "'" + text
    if QUOTED.isdisjoint(text):
        return text
    return '"' + text.replace('"', '""') + '"'


SHEETS: Mapping[str, Callable[[plans.CablePlan], plans.PlanSheet]] = {
    "plan": plans.plan_sheet,
    "ufm-ethernet": ufm_ethernet,
    "ufm-infiniband": ufm_infiniband,
}
LENGTHS, RACKS, UFM_RACKS, UFM_HCA = "lengths", "racks", "ufm-racks", "ufm-hca"
IBNETDISCOVER = "ibnetdiscover"
ON_A_FLOOR = (LENGTHS, RACKS, UFM_RACKS, "netbox-racks")
TABLES = ("plan", LENGTHS, RACKS, *NETBOX, *tuple(SHEETS)[1:], UFM_HCA, UFM_RACKS)
TARGETS = (*TABLES, IBNETDISCOVER)
LENGTH_COLUMNS = ("group", "length_m", "cables", "total_m", "medium")
RACK_COLUMNS = ("rack", "what", "length_m", "count")
MEDIA = {"dac": "copper", "acc": "copper", "aec": "copper"} | dict.fromkeys(
    ("aoc", "multimode", "singlemode"), "fibre"
)
"""Medium in a cable plan, by kind of cable."""


@dataclass(frozen=True, slots=True, repr=False)
class CableSheet(Answer):
    """The answer of :func:`cables`: one table, whose rows are made when they are read."""

    json_parts = ("*named_rows",)

    inputs: dict[str, object]
    sheet: Callable[[], plans.PlanSheet]

    def csv(self) -> str:
        """The table in the columns of the tool that reads it."""
        return "".join(sheet_csv(self.sheet()))

    def xlsx(self) -> bytes:
        """The same as a spreadsheet of one sheet."""
        return sheet_xlsx(self.sheet())

    @property
    def named_rows(self) -> dict[str, Any]:
        """The name of the table, and its rows by its header."""
        sheet = self.sheet()
        rows = [dict(zip(sheet.header, row, strict=True)) for row in sheet.rows]
        return {"table": sheet.name, "rows": rows}

    def summary(self) -> Iterator[Section]:
        """How many rows there are, of which roles, and the first of them."""
        sheet = self.sheet()
        rows = list(sheet.rows)
        counts = counted(len(rows), "row")
        groups = (
            Counter(map(itemgetter(sheet.header.index("group")), rows)) if _named(sheet) else {}
        )
        if groups:
            counts += ": " + ", ".join(f"{count:,} {name}" for name, count in groups.items())
        filled = [any(cells) for cells in zip(*rows[:SCREEN_ROWS], strict=True)]
        shown = [
            column
            for column, full in zip(_sheet_columns(sheet), filled, strict=bool(rows))
            if full and not (_named(sheet) and column.quantity.name in ENDS)
        ]
        yield from Screen(
            Heading(titled(self.inputs, f"{sheet.name} of {short_inputs(self.inputs)['fabric']}")),
            (f"{counts}.",),
            Table(sheet.name, shown, rows),
            (),
            more_of("every row", "-o plan.xlsx", "--hall example-hall", page=False),
            most_rows=SCREEN_ROWS,
        ).sections()

    def sections(self) -> Iterator[Section]:
        """The table under its name."""
        sheet = self.sheet()
        rows = list(sheet.rows)
        count = f"{len(rows):,} row{'s' * (len(rows) != 1)}"
        yield Heading(f"{sheet.name} of {short_inputs(self.inputs)['fabric']}", (count,))
        yield Table(sheet.name, _sheet_columns(sheet), rows)


def _named(sheet: plans.PlanSheet) -> bool:
    """Whether the rows are cables of groups, whose labels name both ends."""
    return {"label", "group", *ENDS} <= {*sheet.header}


def _sheet_columns(sheet: plans.PlanSheet) -> list[Column[tuple[str, ...]]]:
    """The columns of a sheet as it names them."""
    return [column(name, itemgetter(index), title=name) for index, name in enumerate(sheet.header)]


@dataclass(frozen=True, kw_only=True)
class Cables(Question[Answer]):
    """Write the cable plan of a fabric, or compare one with the cables as built.

    The comparison names what is missing, extra, swapped, in a wrong port or at a wrong speed, and
    what to do about it; it exits with 1 if anything differs. Where one file names ports by cage and
    the other numbers them, --switch and --radix say how they match.

    A rehearsal boots the plan, or what was built, where ibsim, OpenSM and ibnetdiscover are there:
    every subnet is routed and found again, and what is found compared.

    Raises
    ------
    InputError
        If an input is not allowed.
    CatalogError
        If a file to compare is malformed or uses a port twice: file and line.

    Examples
    --------
    >>> print(cables("rail-only-paper", gpus=64, radix=16, hb_size=8,
    ...     fabric="rail-optimized").csv().splitlines()[1])
    gpu-0:1--rail-0/leaf-0:1,gpu-0,1,,,rail-0/leaf-0,1,,,400,fibre,row,,host
    """

    command: ClassVar[str] = "cables"
    examples: ClassVar[tuple[str, ...]] = (
        "netplan cables hgx-h100 --gpus 1024 --switch qm9700 -o plan.xlsx",
        "netplan cables hgx-b200 --hall example-hall --to lengths",
        "netplan cables hgx-h100 --gpus 1024 --with storage -o site.csv",
        "netplan cables hgx-h100 --gpus 1024 --to netbox-cables -o cables.csv",
        "netplan cables hgx-h100 --switch qm9700 --to ufm-infiniband -o p2p.xlsx",
        "netplan cables hgx-h100 --gpus 128 --rehearse",
        "netplan cables --compare plan.csv fabric.ibnetdiscover",
    )

    reads: ClassVar[frozenset[str]] = NETWORK | {
        "fabric",
        "switch",
        "hall",
        "cabling",
        "host_gpus",
        "networks",
    }
    reads_from: ClassVar[frozenset[str]] = WEIGHED

    to: str = option_field(
        "Which table; ibnetdiscover is what that would find.",
        "choice",
        choices=TARGETS,
        default="plan",
    )
    compare: tuple[str | Path, str | Path] | None = option_field(
        "Say what differs between two tables or graphs instead.",
        "path",
        values=2,
        metavar="PLAN AS_BUILT",
    )
    node_names: str | Path | None = option_field(
        "With --compare: names of devices as built, by GUID or description (a node-name map).",
        "path",
        flag="--names",
        metavar="FILE",
    )

    rehearse: bool = option_field(
        "Boot the plan, or AS_BUILT of --compare: OpenSM on a simulator.", "flag", default=False
    )

    @property
    def weighed_fabrics(self) -> Sequence[str]:
        """The fabric, but of files that are compared."""
        return () if self.compare else (self.cluster.fabric,)

    def ask(self) -> Answer:
        """The table, or the comparison."""
        if self.compare is not None:
            plan, as_built = map(Path, self.compare)
            for path in (plan, as_built):
                if not reachable(path).is_file():
                    wrong = "is no regular file" if path.exists() else "does not exist"
                    raise InputError(f"--compare: file '{path}' {wrong}")
            compared = partial(
                cable_comparison.compare_cables,
                switch=self.cluster.switch,
                radix=self.cluster.switch_radix,
                naming=cable_comparison.Naming(
                    Path(self.node_names) if self.node_names else None, self.cluster.host_gpus
                ),
                catalog=self.catalog,
            )
            if self.rehearse:
                return cable_comparison.rehearse_files(self.inputs(), plan, as_built, compared)
            return compared(plan, as_built)
        if self.node_names is not None:
            raise InputError("--names renames what is built: give --compare PLAN AS_BUILT, too")
        if self.to == IBNETDISCOVER or self.rehearse:
            return self._subnet()
        return CableSheet(self.inputs(), self.table())

    def _subnet(self) -> GraphFile | cable_comparison.Rehearsal:
        """The network as a subnet manager finds it, or what it finds."""
        reader = self.reader()
        spec, sizing = fabric_asked(self, reader)
        reader.replaced()
        what = "--rehearse" if self.rehearse else f"--to {self.to}"
        for name, flag in (("hall", "--hall"), ("switch", "--switch")):
            if name in self.given:
                raise InputError(f"{what} has no racks or cages: leave out {flag}")
        if "networks" in self.given:
            raise InputError(f"{what} is of one network: leave out --with")
        subnet = subnet_of(expand(spec, sizing), self.cluster.host_gpus)
        if self.rehearse:
            sizing_built = build_fabric(spec, sizing).sizing
            return cable_comparison.rehearse_plan(self.inputs(), subnet, spec, sizing_built)
        return GraphFile(self.inputs(), subnet.blocks, lambda: subnet.network)

    def table(self) -> Callable[[], plans.PlanSheet]:
        """The plan, as a table that can be made more than once."""
        if self.to not in TABLES:
            raise InputError(f"unknown table {self.to!r}: use one of {', '.join(TARGETS)}")
        reader = self.reader()
        spec, sizing = fabric_asked(self, reader)
        known = read_books(self.cluster, self.books, reader)
        model = reader.named(SWITCHES, self.cluster.switch)
        hardware = hardware_of(replace(known, switch=model), build_fabric(spec, sizing).sizing)
        as_named = spec.hall == AS_PUBLISHED or spec.media_named or spec.circuit_switch
        hall = None if as_named else known.hall
        books = self._other_networks(reader, hardware.cabling)
        reader.replaced()
        _check_floor(self.to, hall, self.cluster.host_gpus)
        built = build_fabric(spec, sizing)
        cage = links_in_a_cage(model, built, reader.roots)
        racks: tuple[str, ...] = ()
        if hall is None:
            kinds = _kinds(built, hardware) if self.to in NETBOX else ()
            graph, media = expand(spec, sizing), plans.media_of(built)
            plan = plans.cable_plan(graph, media=media, cage_links=cage, kinds=kinds)
        else:
            site = place(hall, spec, sizing, hardware)
            hall = site.layout.plan
            if self.to == UFM_RACKS:
                return partial(ufm_racks, site.layout)
            ordered = _ordered(built, site, hardware)
            if self.to in (LENGTHS, RACKS):
                return partial(racks_sheet if self.to == RACKS else lengths_sheet, site, ordered)
            plan = plans.cable_plan(
                site.network,
                media=[MEDIA.get(kind, "") for kind in ordered.kinds],
                places=site.layout.places(site.network),
                length_m=ordered.length_m,
                cage_links=cage,
                kinds=ordered.kinds,
            )
            racks = tuple(rack.name for rack in site.layout.racks())
        if self.to in NETBOX:
            netbox = _netbox_hall(hall, racks, model, self.cluster.host_gpus)
            return partial(NETBOX[self.to], self._named(plan), netbox)
        if self.to == UFM_HCA:
            members = (
                built.sizing.hb_size if self.cluster.host_gpus is None else self.cluster.host_gpus
            )
            return partial(ufm_hca, plan, members)
        if books.networks:
            return partial(_with_networks, self._named(plan), books, built)
        return partial(SHEETS[self.to], self._named(plan))

    def _named(self, plan: plans.CablePlan) -> plans.CablePlan:
        """The plan with servers for GPUs, where it is to name those."""
        hosts = self.cluster.host_gpus
        return plan if hosts is None else plans.with_hosts(plan, hosts)

    def _other_networks(self, reader: CatalogReader, cabling: CablingBook) -> SiteBooks:
        """Networks beside that the plan holds, too."""
        if "networks" in self.given and self.to != "plan":
            raise InputError(f"--to {self.to} is of one network: leave --with out, or write a plan")
        asked = "networks" in self.given
        every = self.cluster.networks if asked else site_networks(self.cluster)
        names = dict.fromkeys(every if self.to == "plan" else ())
        nets = [reader.load(SITE_NETWORKS, name) for name in names]
        named = {net.name: reader.named(SWITCHES, net.switch or None) for net in nets}
        return SiteBooks(
            tuple(
                (net, reader.load_other(FABRICS, net.fabric), fitting(net, named[net.name]))
                for net in nets
            ),
            cabling,
        )


def _with_networks(plan: plans.CablePlan, books: SiteBooks, built: Fabric) -> plans.PlanSheet:
    """The plan of the fabric, and after it those of the networks beside."""
    sheet, fabrics = plans.plan_sheet(plan), sized_networks(books, built)
    gpus = built.sizing.gpus
    kept: dict[str, plans.SiteCables] = {}
    for network, _, model in books.networks:
        links = model.links_per_cage(network.link_gbps) if model is not None else 1
        kept[network.name] = plans.SiteCables(
            network, fabrics[network.name], gpus, cage_links=links
        )
        kept[network.name].require_plan()
    switches = [device.name for device in plan.devices if device.role == plans.ROLES[SWITCH]]
    rows = [sheet.rows]
    for name, cabled in kept.items():
        others = [
            switch for other, made in kept.items() if other != name for switch in made.switch_names
        ]
        ends = [
            end
            for made in kept.values()
            if made.network.uplinks_to == name
            for end in made.uplink_ends
        ]
        managed = (*switches, *others) if cabled.network.ports_per_switch else ()
        rows.append(replace(cabled, managed=managed, uplinks=ends).rows())
    return plans.PlanSheet(sheet.name, sheet.header, chain.from_iterable(rows))


cables = function_of(Cables)


def _check_floor(to: str, hall: FloorPlan | None, host_gpus: int | None) -> None:
    """Refuse a table that lacks its hall, and hosts that racks cannot hold whole."""
    if hall is None:
        if to in ON_A_FLOOR:
            raise InputError(f"--to {to} needs a hall: --hall example-hall, or another")
    elif host_gpus and hall.gpus_per_rack and hall.gpus_per_rack % host_gpus:
        raise InputError(
            f"hosts of {host_gpus} GPUs do not fill the racks of {hall.name}, which hold"
            f" {hall.gpus_per_rack} GPUs: give a divisor of that as --host-gpus"
        )


def _netbox_hall(
    hall: FloorPlan | None, racks: tuple[str, ...], model: SwitchModel | None, host_gpus: int | None
) -> NetBoxHall:
    """What NetBox wants to know of the hall and of device types."""
    heights = {"switch": (model and model.rack_units) or 1}
    server = hall.whole_server if hall else None
    if server and server.gpus == host_gpus:
        heights["host"] = server.units
    netbox = NetBoxHall(racks=racks, heights=heights)
    if hall is not None:
        netbox = replace(netbox, site=hall.name, rack_units=hall.rack_units)
    if model is not None:
        netbox = replace(netbox, switch=model.name, infiniband="InfiniBand" in model.title)
    return netbox


def _kinds(fabric: Fabric, hardware: Hardware) -> dict[str, str]:
    """Kind of cable or fibre of every link group, as the bill orders it without a hall."""
    try:
        runs = wire(fabric, hardware).runs
    except (InfeasibleError, CatalogError):
        return {}
    return {
        run.name: (run.plugs[0].fibre or "") if run.medium == "fibre" else run.medium
        for run in runs
    }


class OrderedCables(NamedTuple):
    """Cables of a fabric in a hall: their lengths as sold [m], and their kinds, where known."""

    length_m: Floats
    kinds: Sequence[str]


def _ordered(fabric: Fabric, site: HallFabric, hardware: Hardware) -> OrderedCables:
    """The cables that the bill orders; those that no book has keep the length that they need."""
    try:
        installed = install(fabric, site, hardware)
    except (InfeasibleError, CatalogError):
        return OrderedCables(site.length_m, [""] * site.network.link_count)
    return OrderedCables(installed.length_m, installed.kinds)


def racks_sheet(site: HallFabric, cables: OrderedCables) -> plans.PlanSheet:
    """What stands in each rack, and the cables that begin there, by length: for installers."""
    network, places = site.network, site.layout.places(site.network)
    racks = [places[name].rack for name in network.node_names()]
    kinds = [plans.ROLES[kind] for kind in network.node_kind.tolist()]
    devices = Counter(zip(racks, kinds, strict=True))
    begins = np.array(racks, object)[network.source].tolist()
    counts = Counter(zip(begins, cables.length_m.tolist(), strict=True))
    lines = [(rack, 0, kind, "", count) for (rack, kind), count in devices.items()]
    lines += [(rack, 1, "cable", f"{length:g}", count) for (rack, length), count in counts.items()]
    lines.sort(key=lambda line: (line[0], line[1], line[2], float(line[3] or 0)))
    rows = ((rack, what, length, str(count)) for rack, _, what, length, count in lines)
    return plans.PlanSheet("Racks", RACK_COLUMNS, rows)


def lengths_sheet(site: HallFabric, cables: OrderedCables) -> plans.PlanSheet:
    """Cables by link group, length and kind, as on the bill."""
    groups = np.array(site.network.group_names, object)[site.network.group].tolist()
    counts = Counter(zip(groups, cables.length_m.tolist(), cables.kinds, strict=True))
    order = site.network.group_names.index
    lines = sorted(counts.items(), key=lambda line: (order(line[0][0]), *line[0][1:]))
    rows = (
        (group, f"{length:g}", str(count), f"{count * length:g}", kind)
        for (group, length, kind), count in lines
    )
    return plans.PlanSheet("Cable lengths", LENGTH_COLUMNS, rows)
