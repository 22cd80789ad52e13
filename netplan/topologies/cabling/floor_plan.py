"""Halls: where racks stand, what stands in them, and so how long every cable is.

Racks stand in straight rows under overhead trays. A cable between two racks climbs to the tray,
runs along it at right angles, and comes down; a cable inside a rack runs straight. To both comes a
slack, and the sum is rounded up to a length that is sold.

Racks are numbered row by row. GPUs fill racks in their own order, as many as a rack can feed and
cool. Leaves stand in the racks of their own GPUs, in racks of their own in the middle or at the end
of each row, or with all other switches; those fill racks in the middle of the hall or at its end,
and optical circuit switches the racks after them.
Everything is arrays: a million GPUs are placed in a second.
"""

from math import ceil, isfinite, sqrt
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from netplan.arrays import NO_NUMBERS, AnyInts, Bools, Floats, Ints, ceil_div, distinct_values
from netplan.catalog import Catalog, Record, Sourced
from netplan.documents import Document
from netplan.errors import CatalogError, InputError
from netplan.records import (
    Entry,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    replace,
)
from netplan.topologies.graph import GPU, HB_SWITCH, LINKS_AT_A_TIME, SWITCH, FabricGraph

Leaves = Literal["in-rack", "middle-of-row", "end-of-row", "network"]


class Server(Entry, frozen=True, kw_only=True):
    """A server of a hall: its GPUs [1] and height [U], its power at most, cards included [W].

    Power and weight [kg] are left out where nobody has said them.
    """

    gpus: PositiveInt
    units: PositiveInt
    max_w: PositiveFloat | None = None
    weight_kg: PositiveFloat | None = None
    date: str
    source: str


class Feed(Sourced, frozen=True, kw_only=True):
    """How racks are fed and cooled.

    ``rack_w`` is what a rack takes, of which ``leaf_w`` are kept for switches [W]; ``gpus`` is how
    many it holds at most. HB domains take the first feed that holds one whole, or racks of the
    last.
    """

    cooling: Literal["air", "liquid"]
    rack_w: PositiveFloat
    leaf_w: NonNegativeFloat = 0.0
    gpus: PositiveInt

    def __post_init__(self) -> None:
        """Refuse racks that feed no GPU."""
        if self.leaf_w >= self.rack_w:
            raise ValueError(
                f"leaf_w {self.leaf_w:,g} leaves GPUs none of the {self.rack_w:,g} W of a rack:"
                " lower leaf_w, or raise rack_w"
            )


class Racked(NamedTuple):
    """What a rack of GPUs holds: GPUs, servers, and what is left for leaves."""

    gpus: int
    server: Server | None
    left_w: float
    left_units: int


class FloorPlan(Record, frozen=True, kw_only=True):
    """A hall, as its catalog file describes it.

    ``network`` says where the racks of switches stand, ``leaves`` where those do that GPUs are
    joined to. Of ``rows`` and ``racks_per_row`` there are as many as are needed where they are left
    out: such a hall is an assumption. ``server`` is what the racks of GPUs hold; without its
    ``max_w`` it stands for those of accelerators that say none, and a bill takes the power of the
    power book. ``gpus_per_rack`` follows from the power of the racks (``feeds``) and of a server
    where it is left out, ``switches_per_rack`` from power and height, with ``cable_units`` for the
    cables beside every switch. A server as high as a rack is a rack of its own, fed as it needs.
    ``stock_lengths_m`` are the lengths that cables are sold in, rising; those of the cabling book
    where they are left out.
    """

    rows: PositiveInt | None = None
    racks_per_row: PositiveInt | None = None
    rack_width_m: PositiveFloat
    row_pitch_m: PositiveFloat
    tray_height_m: PositiveFloat
    rack_units: Annotated[int, Meta(ge=1, le=60)]
    unit_height_m: PositiveFloat
    gpus_per_rack: PositiveInt | None = None
    switches_per_rack: PositiveInt | None = None
    cable_units: NonNegativeInt = 0
    feeds: tuple[Feed, ...] = ()
    leaves: Leaves = "network"
    network: Literal["middle", "end"]
    slack_m: NonNegativeFloat
    rack_slack_m: NonNegativeFloat | None = None
    stock_lengths_m: tuple[PositiveFloat, ...] = ()
    server: Server | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse halls that do not say what their racks hold."""
        if self.gpus_per_rack is None and not self.feeds:
            raise ValueError("gpus_per_rack is missing: give it, or feeds, from which it follows")
        if self.gpus_per_rack is None and self.server is None:
            raise ValueError("server is missing: give the GPUs and units of one, which feeds feed")
        if self.rows is not None and self.racks_per_row is None:
            raise ValueError("rows needs racks_per_row: give both, or leave both out")

    @property
    def by_rule(self) -> bool:
        """Whether it is a rule how racks stand, and no hall that somebody has measured."""
        return self.rows is None

    @property
    def whole_server(self) -> Server | None:
        """The server, where its like fill the racks of GPUs whole; None where they do not."""
        server = self.server
        if server is None or self.gpus_per_rack is None or self.gpus_per_rack % server.gpus:
            return None
        return (
            server if self.gpus_per_rack // server.gpus * server.units <= self.rack_units else None
        )

    def length_m(self, near: tuple[int, int, float], far: tuple[int, int, float]) -> float:
        """Length of a cable between two places, before it is rounded up.

        Parameters
        ----------
        near, far
            Row, rack in the row, and rack unit of either end [1].

        Returns
        -------
        float
            In a rack straight along it; else up to the tray, along, across and down. Both with
            slack [m].

        Examples
        --------
        >>> hall = FLOOR_PLANS.load("leaves-in-rack")
        >>> round(hall.length_m((0, 0, 20), (0, 1, 30)), 3)  # 0.6 + 5.4 - 50 x 0.04445 + 1
        4.777
        """
        ends = np.array([near, far], float)
        (row, end_row), (column, end_column) = ends[:, 0], ends[:, 1]
        rows, racks = np.abs(row - end_row), np.abs(column - end_column)
        return float(self.lengths_m(rows, racks, ends[0, 2], ends[1, 2]))

    def lengths_m(self, rows: Floats, racks: Floats, near_unit: Floats, far_unit: Floats) -> Floats:
        """Lengths over so many rows and racks, between rack units [m]."""
        near, far = self.unit_height_m * near_unit, self.unit_height_m * far_unit
        across = rows * self.row_pitch_m + racks * self.rack_width_m
        over = 2 * self.tray_height_m - near - far + across + self.slack_m
        slack_m = self.slack_m if self.rack_slack_m is None else self.rack_slack_m
        inside = np.abs(near - far) + slack_m
        return np.where(rows + racks == 0, inside, over)

    def racked(self, hb_size: int) -> Racked:
        """What a rack of GPUs holds in HB domains of a size.

        Parameters
        ----------
        hb_size
            GPUs of an HB domain [1].

        Examples
        --------
        Four servers of 10.2 kW in 44 kW, of which 3 kW are the leaves'; two of 14.3 kW. A domain of
        72 in nine such servers takes 129 kW, and so a liquid-cooled rack.

        >>> hall = FLOOR_PLANS.load("leaves-in-rack")
        >>> hall.of_servers(max_w=10200).racked(8).gpus, hall.of_servers(max_w=14300).racked(8).gpus
        (32, 16)
        >>> hall.of_servers(max_w=14300).racked(72).gpus
        72
        """
        server = self.server
        if self.gpus_per_rack is not None or server is None:
            whole_server, gpus = self.whole_server, self.gpus_per_rack or 1
            units = 0 if whole_server is None else gpus // whole_server.gpus * whole_server.units
            left = self.rack_units - units if whole_server else 0
            return Racked(gpus, whole_server, float("inf"), left)
        if server.units >= self.rack_units:
            # A rack of its own has domains whole, or an even share of one.
            share = ceil_div(hb_size, ceil_div(hb_size, server.gpus))
            return self._full_rack(share * max(1, server.gpus // hb_size), server)
        whole, gpu_w = max(hb_size, server.gpus), (server.max_w or 0.0) / server.gpus
        feed = next((feed for feed in self.feeds if _held(feed, whole, gpu_w)), self.feeds[-1])
        system_w, systems = whole * gpu_w, _held(feed, whole, gpu_w)
        if whole == server.gpus:
            systems = max(1, min(systems, self.rack_units // server.units))
            left = self.rack_units - systems * server.units
            left_w = max(0.0, feed.rack_w - systems * system_w)
            return Racked(systems * server.gpus, server, left_w, left)
        racks = max(ceil_div(whole, feed.gpus), ceil(system_w / (feed.rack_w - feed.leaf_w)))
        return self._full_rack(systems * whole if systems else ceil_div(whole, racks), server)

    def _full_rack(self, gpus: int, server: Server) -> Racked:
        """A rack that is full of GPUs, and no place for leaves."""
        max_w = server.max_w and gpus / server.gpus * server.max_w
        return Racked(gpus, server.changed(gpus=gpus, units=self.rack_units, max_w=max_w), 0.0, 0)

    def of_servers(self, **changes: Any) -> "FloorPlan":  # noqa: ANN401 - values of a server
        """The hall with other servers: ``gpus``, ``units``, ``max_w`` and so on of one."""
        return self.changed(server=self.server and self.server.changed(**changes))

    def switches_in_rack(self, switch_units: int, switch_w: float = 0.0) -> int:
        """Switches that a rack of switches holds: by height, their cables, and power [1].

        Parameters
        ----------
        switch_units, switch_w
            Height and power of one, its modules included [U, W].

        Examples
        --------
        44 kW feed 12 switches of 3.5 kW; 48 units would hold 16 of 2 units and one for cables.

        >>> hall = FLOOR_PLANS.load("leaves-in-rack")
        >>> hall.switches_in_rack(2, 3500), hall.switches_in_rack(2)
        (12, 16)
        """
        most = self.rack_units // (switch_units + self.cable_units)
        if self.switches_per_rack is not None:
            most = min(self.switches_per_rack, self.rack_units // switch_units)
        if self.feeds and switch_w:
            most = min(most, int(self.feeds[0].rack_w // switch_w))
        return max(1, most)


def _held(feed: Feed, whole: int, gpu_w: float) -> int:
    """HB domains of so many GPUs that a rack holds whole [1]."""
    system_w = whole * gpu_w
    by_power = int((feed.rack_w - feed.leaf_w) // system_w) if system_w else feed.gpus
    return min(feed.gpus // whole, by_power)


class FloorPlanCatalog(Catalog[FloorPlan], frozen=True):
    """Files of halls, of which one may be ``like`` another but for the keys that it has."""

    def read(self, path: Path) -> Document:
        """A file as parsed, with all that it does not say from the hall that it is like.

        Raises
        ------
        CatalogError
            If there is no such hall, or that one is like another itself.
        """
        document = super().read(path)
        like = document.data.get("like")
        if like is None:
            return document
        where = f"{path}:{document.line(['like'])}: like {like!r:.60}"
        if not isinstance(like, str) or Path(like).name != like:
            raise CatalogError(f"{where}: give the name of another hall, such as leaves-in-rack")
        neighbour = path.with_name(f"{like}.yaml")
        hall = super().read(neighbour if neighbour.is_file() else self.find(like)).data
        if "like" in hall:
            raise CatalogError(f"{where}: that hall is like another: name this one")
        changed = {key: value for key, value in document.data.items() if key != "like"}
        return replace(document, data=hall | changed)


FLOOR_PLANS = FloorPlanCatalog("floor-plan", "topologies/floor-plans", FloorPlan)


class Place(Struct, frozen=True):
    """Where a device stands: its rack, and the lowest rack unit that it takes."""

    rack: str = ""
    unit: str = ""


class Rack(NamedTuple):
    """A rack: its name, its row and its position in the row, both from 1."""

    name: str
    row: int
    position: int


class Layout(Struct, frozen=True, eq=False):
    """Rack of every node of a graph, and its lowest rack unit, from 1, shape (nodes,).

    ``plan`` is the hall with its rows, and what its racks of GPUs hold. ``network_devices`` of the
    switches and hosts of the fabric manager stand in ``network_racks`` of their own, ``per_rack``
    to a rack at most [1]. ``note`` says where leaves stand, if not where the hall would have them.
    Optical circuit switches, which are no nodes, have their own racks and lowest units, shape
    (circuit switches,).
    """

    plan: FloorPlan
    rack: Ints
    unit: Ints
    network_devices: int
    network_racks: int
    per_rack: int
    note: str = ""
    circuit_rack: Ints = NO_NUMBERS
    circuit_unit: Ints = NO_NUMBERS

    @property
    def per_row(self) -> int:
        """Racks in a row [1]."""
        return self.plan.racks_per_row or 1

    @property
    def shape(self) -> tuple[int, int]:
        """Rows of the hall, and racks in a row [1]."""
        return self.plan.rows or 1, self.per_row

    def racks(self) -> list[Rack]:
        """Racks that hold anything, row by row."""
        used = distinct_values(np.concatenate((self.rack, self.circuit_rack)))
        return [self._rack(number) for number in used.tolist()]

    def place(self, node: int) -> Place:
        """Rack and unit of a node, as a label."""
        return Place(self._rack(int(self.rack[node])).name, str(int(self.unit[node])))

    def places(self, graph: FabricGraph) -> dict[str, Place]:
        """Places of all nodes outside HB domains, by name."""
        nodes = np.flatnonzero(graph.node_kind != HB_SWITCH).tolist()
        return {graph.node_name(node): self.place(node) for node in nodes}

    def cable_m(
        self,
        first: NDArray[np.integer],
        second: NDArray[np.integer],
        places: tuple[Floats, Floats, Floats] | None = None,
    ) -> Floats:
        """Length of a cable between two nodes, before rounding up [m].

        Circuit switches are numbered after all nodes. ``places`` are those of all, once worked out.
        """
        row, column, unit = self._places if places is None else places
        rows, racks = (np.abs(line[first] - line[second]) for line in (row, column))
        return self.plan.lengths_m(rows, racks, unit[first], unit[second])

    @property
    def _places(self) -> tuple[Floats, Floats, Floats]:
        """Row, place in the row and unit of all nodes, then of circuit switches, shape (all,)."""
        rack, units = self.rack, self.unit
        if len(self.circuit_rack):
            rack = np.concatenate((rack, self.circuit_rack))
            units = np.concatenate((units, self.circuit_unit))
        row, column = np.divmod(rack, self.per_row)
        across, along, unit = (line.astype(np.float64) for line in (row, column, units))
        return across, along, unit

    def stock_of(
        self, network: FabricGraph, stock_lengths_m: tuple[float, ...]
    ) -> tuple[Floats, AnyInts]:
        """Lengths that the cables of a network are bought in, rising, and which each link has.

        Parameters
        ----------
        network
            The graph that is laid out.
        stock_lengths_m
            Lengths that are sold [m].

        Returns
        -------
        lengths_m
            Those lengths, and beyond the longest whole metres [m], shape (lengths,).
        of_link
            Place of every link's length among them, shape (links,).
        """
        stock, longest = np.array(stock_lengths_m), len(stock_lengths_m)
        of_link = np.empty(network.link_count, np.int32)
        places = self._places
        beyond: list[tuple[Ints, Floats]] = []
        for start in range(0, network.link_count, LINKS_AT_A_TIME):  # as fits into a cache
            part = slice(start, start + LINKS_AT_A_TIME)
            length_m = self.cable_m(network.source[part], network.target[part], places)
            of_link[part] = places_sold(length_m, stock)
            far = np.flatnonzero(of_link[part] == longest)
            if len(far):
                beyond.append((start + far, np.ceil(length_m[far])))
        if not beyond:
            return stock, of_link
        links = np.concatenate([far for far, _ in beyond])
        metres = np.concatenate([far_m for _, far_m in beyond])
        more, place = np.unique(metres, return_inverse=True)
        of_link[links] = longest + place
        return np.concatenate((stock, more)), of_link

    def _rack(self, number: int) -> Rack:
        row, position = divmod(number, self.per_row)
        return Rack(f"{row + 1:02}-{position + 1:02}", row + 1, position + 1)


def places_sold(length_m: Floats, stock_m: Floats) -> AnyInts:
    """Place of the shortest length on sale that is long enough, after the last where none is.

    Examples
    --------
    >>> places_sold(np.array([1.834, 2.0, 7.0]), np.array([1.0, 2.0, 5.0])).tolist()
    [1, 1, 3]
    """
    return np.searchsorted(stock_m, length_m - 1e-9)


def lay_out(
    plan: FloorPlan,
    graph: FabricGraph,
    *,
    switch_units: int = 1,
    switch_w: float = 0.0,
    circuits: tuple[int, int] = (0, 1),
) -> Layout:
    """Put every node of a fabric into a rack of a hall.

    A rack takes as many switches as the plan says and its units and power allow.

    Parameters
    ----------
    plan, graph
        The hall and the fabric.
    switch_units, switch_w
        Height of a switch, and its power with modules in all ports [U, W].
    circuits
        Optical circuit switches, and the height of one [1, U].

    Raises
    ------
    InputError
        If the hall has too few racks, or more devices stand in a rack than it has units.

    Examples
    --------
    >>> from netplan import Scenario
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=1024, radix=64)
    >>> graph = scenario.fabric("rail-only").graph()
    >>> layout = lay_out(FLOOR_PLANS.load("example-hall"), graph)
    >>> len(layout.racks()), layout.place(0), layout.place(1023)
    (35, Place(rack='01-01', unit='1'), Place(rack='01-35', unit='41'))
    """
    switches = plan.switches_per_rack
    if switches is not None and switches > plan.rack_units:
        raise InputError(
            f"floor plan {plan.name}: {switches} switches do not fit {plan.rack_units} rack units:"
            " lower switches_per_rack"
        )
    racked = plan.racked(graph.hb_size)
    _check_height(plan, graph.gpus)
    compute = ceil_div(graph.gpus, racked.gpus)
    per_rack = plan.switches_in_rack(switch_units, switch_w)
    others = (graph.node_kind != GPU) & (graph.node_kind != HB_SWITCH)
    leaf, home = _homes(graph, others, compute)
    where, note = plan.leaves, ""
    if where == "in-rack" and len(home):
        # By units with their cables, and by power.
        fits = racked.left_units // (switch_units + plan.cable_units)
        if switch_w and isfinite(racked.left_w):
            fits = min(fits, int(racked.left_w // switch_w))
        held = int(np.bincount(home).max())
        if held > fits:
            where = "middle-of-row"
            note = (
                f"Leaves stand in the middle of their rows: a rack of {racked.gpus} GPUs has no"
                f" place for {held} of {switch_units} U and {switch_w / 1e3:.1f} kW."
            )
    apart = np.flatnonzero(others if where == "network" else others & ~leaf)
    seated = np.flatnonzero(leaf & (where != "network"))
    rowed = 0 if where == "in-rack" else len(seated)
    mirrors, held_circuits = circuits[0], plan.switches_in_rack(circuits[1])
    packet_racks = ceil_div(len(apart), per_rack)
    counts = (
        *(compute, packet_racks + ceil_div(mirrors, held_circuits)),
        ceil_div(rowed, per_rack),
    )
    rows = _RackRows.of(plan, counts, last=where == "end-of-row")
    rows = rows.with_room(home, per_rack) if rowed else rows
    rows.check(plan)
    rack = np.zeros(graph.node_count, np.int64)
    unit = np.ones(graph.node_count, np.int64)
    step = plan.rack_units // per_rack
    slot = np.arange(len(apart))
    rack[apart] = rows.network[slot // per_rack]
    unit[apart] = 1 + slot % per_rack * step
    gpu = np.arange(graph.gpus)
    rack[: graph.gpus] = rows.compute[gpu // racked.gpus]
    taken = 0
    if rowed:
        row, nth = rows.seats(home)
        rack[seated] = row * rows.per_row + rows.leaf_column + nth // per_rack
        unit[seated] = 1 + nth % per_rack * step
    elif len(seated):
        height, nth = switch_units + plan.cable_units, _turn(home)
        taken = height * (1 + int(nth.max(initial=0)))
        rack[seated] = rows.compute[home]
        unit[seated] = 1 + _below(racked) * _pitch(plan, racked, taken) + nth * height
    unit[: graph.gpus] = _gpu_units(plan, racked, gpu % racked.gpus, taken)
    slot = np.arange(mirrors)
    circuit_rack = rows.network[packet_racks + slot // held_circuits]
    circuit_unit = 1 + slot % held_circuits * (plan.rack_units // held_circuits)
    network = len(distinct_values(np.concatenate((rack[apart], circuit_rack))))
    network += len(distinct_values(rack[seated])) if rowed else 0
    built = plan.changed(
        rows=plan.rows or 1 + int(rack.max(initial=0)) // rows.per_row,
        racks_per_row=rows.per_row,
        gpus_per_rack=racked.gpus,
        server=racked.server or plan.server,
    )
    places = rack, unit, len(apart) + rowed, network, per_rack, note
    return Layout(built, *places, circuit_rack, circuit_unit)


def _check_height(plan: FloorPlan, gpus: int) -> None:
    """Refuse racks without room for a server, or for those of the GPUs that they are to hold."""
    server = plan.server
    if server is None:
        return
    held = server.gpus if plan.gpus_per_rack is None else min(gpus, plan.gpus_per_rack)
    units = ceil_div(held, server.gpus) * server.units
    if units > plan.rack_units:
        raise InputError(
            f"floor plan {plan.name}: {held:,} GPUs a rack take {units:,} U of {plan.rack_units} U"
            f" ({server.gpus} in {server.units} U): lower gpus_per_rack, or raise rack_units"
        )


def _homes(graph: FabricGraph, others: Bools, compute: int) -> tuple[Bools, Ints]:
    """Which nodes are leaves, and the rack of GPUs that each belongs to, from 0, in their order.

    The leaves of each group of host links are spread over the racks in the order of their GPUs, so
    that one which serves a rack stands there, and one of a rail among the racks that it serves.
    """
    leaf = np.zeros(graph.node_count, bool)
    home = np.zeros(graph.node_count, np.int64)
    for number, kind in enumerate(graph.groups):
        if kind.role != "host":
            continue
        links = graph.group == number
        source, target = graph.source[links], graph.target[links]
        turned = source >= graph.gpus
        gpu, switch = np.where(turned, target, source), np.where(turned, source, target)
        if not len(gpu):
            continue
        there = (gpu < graph.gpus) & others[switch] & (graph.node_kind[switch] == SWITCH)
        count = np.bincount(switch[there], minlength=graph.node_count)
        place = np.bincount(switch[there], weights=gpu[there], minlength=graph.node_count)
        leaves = np.flatnonzero(count)
        order = leaves[np.argsort(place[leaves] / count[leaves], kind="stable")]
        upto = np.cumsum(count[order])
        middle = upto - count[order] / 2
        home[order] = (middle * compute / upto[-1]).astype(np.int64)
        leaf[leaves] = True
    return leaf, np.minimum(home[leaf], max(0, compute - 1))


def _turn(group: AnyInts) -> Ints:
    """Number of each entry among those of its group that stand before it, from 0."""
    order = np.argsort(group, kind="stable")
    ordered = np.asarray(group)[order]
    first = np.searchsorted(ordered, ordered)
    turn = np.empty(len(order), np.int64)
    turn[order] = np.arange(len(order)) - first
    return turn


def _below(racked: Racked) -> int:
    """Servers of a rack that stand below its leaves [1]."""
    servers = racked.gpus // racked.server.gpus if racked.server is not None else 0
    return ceil_div(servers, 2)


def _pitch(plan: FloorPlan, racked: Racked, taken: int) -> int:
    """Units from one server to the next where leaves take some units of the rack [U]."""
    servers = racked.gpus // racked.server.gpus if racked.server is not None else 1
    return (plan.rack_units - taken) // max(1, servers)


def _gpu_units(plan: FloorPlan, racked: Racked, rank: Ints, taken: int) -> Ints:
    """Unit of GPUs by their number in the rack, leaves in its middle."""
    units: Ints = 1 + rank * plan.rack_units // racked.gpus
    if taken and racked.server is not None:
        server, place = np.divmod(rank, racked.server.gpus)
        inside = place * racked.server.units // racked.server.gpus
        above = (server >= _below(racked)) * taken
        units = 1 + server * _pitch(plan, racked, taken) + above + inside
    return units


class _RackRows(NamedTuple):
    """Racks of a hall: of GPUs, of switches together, and of leaves in every row.

    Leaves stand at the end of a row or in its middle, and so do all other switches in the hall.
    """

    compute_racks: int
    network_racks: int
    leaf_racks: int  # in a row
    per_row: int
    most: int | None  # rows; None where the hall is a rule
    last: tuple[bool, bool]  # whether leaves, and the other switches, come last

    @classmethod
    def of(cls, plan: FloorPlan, racks: tuple[int, int, int], *, last: bool) -> "_RackRows":
        """As many rows as the racks need, the hall as square as can be if it has no measures."""
        compute, network, leaf = racks
        per_row, among = plan.racks_per_row, min(1, leaf)
        if per_row is None:
            square = ceil(sqrt(sum(racks) * plan.row_pitch_m / plan.rack_width_m))
            per_row = max(1 + among, min(square, sum(racks)))
        return cls(compute, network, among, per_row, plan.rows, (last, plan.network == "end"))

    def with_room(self, home: Ints, per_rack: int) -> "_RackRows":
        """The same with as many racks of leaves in every row as the fullest one needs."""
        rows = self
        while int(rows.seats(home)[1].max(initial=-1)) >= rows.leaf_racks * per_rack:
            more = rows.leaf_racks + 1
            if rows.most is not None and more >= rows.per_row:
                raise InputError(
                    f"a row of {rows.per_row} racks has no place for its leaves: lengthen the rows,"
                    " or put leaves with the other switches (leaves: network)"
                )
            rows = rows._replace(leaf_racks=more, per_row=max(rows.per_row, more + 1))
        return rows

    def check(self, plan: FloorPlan) -> None:
        """Refuse more racks than the hall has."""
        if self.most is None:
            return
        held = self.most * (self.per_row - self.leaf_racks)
        if self.compute_racks + self.network_racks > held:
            raise InputError(
                f"floor plan {plan.name} holds {held:,} racks, {self.compute_racks:,} for GPUs and"
                f" {self.network_racks:,} for switches are needed: add rows, or put more into a"
                " rack"
            )

    @property
    def leaf_column(self) -> int:
        """First place of a row's leaves."""
        between = self.per_row - self.leaf_racks
        return between if self.last[0] else between // 2

    @property
    def begin(self) -> int:
        """First rack of switches among all: in the middle, so that small clusters stay close."""
        return self.compute_racks if self.last[1] else self.compute_racks // 2

    def _numbers(self, slots: Ints) -> Ints:
        """Racks by their number without those of leaves.

        Where the hall is a rule every other row is filled backwards, so that racks that follow each
        other stand beside or behind each other.
        """
        between = self.per_row - self.leaf_racks
        row, column = np.divmod(slots, between)
        if self.most is None:
            column = np.where(row % 2, between - 1 - column, column)
        numbers: Ints = row * self.per_row + column + (column >= self.leaf_column) * self.leaf_racks
        return numbers

    @property
    def network(self) -> Ints:
        """Racks of switches."""
        return self._numbers(np.arange(self.begin, self.begin + self.network_racks))

    @property
    def compute(self) -> Ints:
        """Racks of GPUs."""
        slots = np.arange(self.compute_racks)
        return self._numbers(slots + (slots >= self.begin) * self.network_racks)

    def seats(self, home: Ints) -> tuple[Ints, Ints]:
        """Row of every leaf, and its number among the leaves of the row."""
        row = self.compute[home] // self.per_row
        return row, _turn(row)
