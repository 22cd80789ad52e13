"""Floor plans: where racks stand, and so how long every cable is.

Racks stand in straight rows under overhead trays. A cable between two racks climbs to the tray,
runs along it at right angles, and comes down; a cable inside a rack runs straight. To both comes a
slack, and the sum is rounded up to a length that is sold.

Racks are numbered row by row. GPUs fill racks in their own order; switches, and the hosts of the
fabric manager, fill racks of their own, in the middle of the hall or at its end.
"""

from typing import Annotated, Literal, NamedTuple

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from netplan.arrays import Floats, Ints
from netplan.catalog import Catalog, Record
from netplan.errors import InputError
from netplan.records import Entry, NonNegativeFloat, PositiveFloat, PositiveInt
from netplan.topologies.families.clos import ceil_div
from netplan.topologies.graph import GPU, HB_SWITCH, FabricGraph


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


class FloorPlan(Record, frozen=True, kw_only=True):
    """A hall, as its catalog file describes it.

    ``network`` says where the racks of switches stand; ``stock_lengths_m`` are the lengths that
    cables are sold in, rising. ``server`` is what the racks of GPUs hold, for elevations.
    """

    rows: PositiveInt
    racks_per_row: PositiveInt
    rack_width_m: PositiveFloat
    row_pitch_m: PositiveFloat
    tray_height_m: PositiveFloat
    rack_units: Annotated[int, Meta(ge=1, le=60)]
    unit_height_m: PositiveFloat
    gpus_per_rack: PositiveInt
    switches_per_rack: PositiveInt
    network: Literal["middle", "end"]
    slack_m: NonNegativeFloat
    stock_lengths_m: tuple[PositiveFloat, ...]
    server: Server | None = None
    notes: tuple[str, ...] = ()

    @property
    def whole_server(self) -> Server | None:
        """The server, where its like fill the racks of GPUs whole; None where they do not."""
        server = self.server
        if server is None or self.gpus_per_rack % server.gpus:
            return None
        return (
            server if self.gpus_per_rack // server.gpus * server.units <= self.rack_units else None
        )


FLOOR_PLANS = Catalog("floor-plan", "topologies/floor-plans", FloorPlan)


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

    Switches, and hosts of the fabric manager, stand in racks of their own, ``per_rack`` to a rack
    [1].
    """

    plan: FloorPlan
    rack: Ints
    unit: Ints
    network_devices: int
    per_rack: int

    def racks(self) -> list[Rack]:
        """Racks that hold anything, row by row."""
        return [self._rack(number) for number in np.unique(self.rack).tolist()]

    def place(self, node: int) -> Place:
        """Rack and unit of a node, as a label."""
        return Place(self._rack(int(self.rack[node])).name, str(int(self.unit[node])))

    def places(self, graph: FabricGraph) -> dict[str, Place]:
        """Places of all nodes outside HB domains, by name."""
        nodes = np.flatnonzero(graph.node_kind != HB_SWITCH).tolist()
        return {graph.node_name(node): self.place(node) for node in nodes}

    def cable_m(self, first: NDArray[np.integer], second: NDArray[np.integer]) -> Floats:
        """Length of a cable between two nodes, before rounding up [m]."""
        plan = self.plan
        height = plan.unit_height_m * (self.unit - 0.5)
        row, column = np.divmod(self.rack, plan.racks_per_row)
        rows, racks = (np.abs(line[first] - line[second]) for line in (row, column))
        across = rows * plan.row_pitch_m + racks * plan.rack_width_m
        over = 2 * plan.tray_height_m - height[first] - height[second] + across
        inside = np.abs(height[first] - height[second])
        same = self.rack[first] == self.rack[second]
        length: Floats = np.where(same, inside, over) + plan.slack_m
        return length

    def _rack(self, number: int) -> Rack:
        row, position = divmod(number, self.plan.racks_per_row)
        return Rack(f"{row + 1:02}-{position + 1:02}", row + 1, position + 1)


def lay_out(plan: FloorPlan, graph: FabricGraph, *, switch_units: int = 1) -> Layout:
    """Put every node of a fabric into a rack of a hall.

    A rack takes as many switches as the plan says and its units allow, of ``switch_units`` each.

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
    compute = ceil_div(graph.gpus, plan.gpus_per_rack)
    devices = np.flatnonzero((graph.node_kind != GPU) & (graph.node_kind != HB_SWITCH))
    per_rack = min(plan.switches_per_rack, max(1, plan.rack_units // switch_units))
    network = ceil_div(len(devices), per_rack)
    held = plan.rows * plan.racks_per_row
    if compute + network > held:
        raise InputError(
            f"floor plan {plan.name} holds {held:,} racks, {compute:,} for GPUs and {network:,}"
            " for switches are needed: add rows, or put more into a rack"
        )
    if plan.switches_per_rack > plan.rack_units:
        raise InputError(
            f"floor plan {plan.name}: {plan.switches_per_rack} switches do not fit"
            f" {plan.rack_units} rack units: lower switches_per_rack"
        )
    # The middle of the racks that are used, so that small clusters are not spread out.
    begin = compute if plan.network == "end" else compute // 2
    order = np.arange(begin, begin + network)
    racks = np.setdiff1d(np.arange(held), order)[:compute]
    rack = np.zeros(graph.node_count, np.int64)
    unit = np.ones(graph.node_count, np.int64)
    gpu = np.arange(graph.gpus)
    rack[: graph.gpus] = racks[gpu // plan.gpus_per_rack]
    unit[: graph.gpus] = 1 + gpu % plan.gpus_per_rack * plan.rack_units // plan.gpus_per_rack
    slot = np.arange(len(devices))
    rack[devices] = order[slot // per_rack]
    height = plan.rack_units // per_rack
    unit[devices] = 1 + slot % per_rack * height
    return Layout(plan, rack, unit, len(devices), per_rack)


def stock_length_m(plan: FloorPlan, length_m: Floats) -> Floats:
    """Round lengths up to what is sold; beyond the longest, to whole metres [m].

    Examples
    --------
    >>> stock_length_m(FLOOR_PLANS.load("example-hall"), np.array([0.7, 3.0, 16.2, 250.5]))
    array([  1.,   3.,  20., 251.])
    """
    stock = np.array(plan.stock_lengths_m)
    place = np.searchsorted(stock, length_m - 1e-9)
    rounded: Floats = np.where(
        place < len(stock), stock[np.minimum(place, len(stock) - 1)], np.ceil(length_m)
    )
    return rounded
