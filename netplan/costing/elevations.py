"""What stands in every rack: device by device, with power and weight; racks alike are one.

Racks are those of the cable plan where a hall is given, else the switch racks of the bill, filled
in the order of the switches. Devices are named as in a cable plan of hosts.

Power is the bill's, spread over the devices: a switch has that of its box, every end of a fibre an
equal share of all modules, every GPU one of all cards. That of servers stands beside it where the
floor plan states it. Weights are those of the switch model and of the floor plan's server; where
one is missing, none is given.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import isnan

import numpy as np
from msgspec import Struct

from netplan.arrays import Floats, Ints, distinct_values
from netplan.costing.fabric_bill import Bill, BillBooks, hardware_of
from netplan.costing.installation import install, place
from netplan.costing.materials import switch_units
from netplan.costing.prices import PowerBook
from netplan.costing.switches import SwitchModel
from netplan.inputs.choices import AS_PUBLISHED
from netplan.topologies.cabling.device_names import host_name
from netplan.topologies.cabling.floor_plan import FloorPlan, Layout
from netplan.topologies.drawings.racks import Slot
from netplan.topologies.expand import network_of
from netplan.topologies.graph import GPU, FabricGraph
from netplan.topologies.specs import FabricSpec

MODULED = frozenset({"multimode", "singlemode", "fibre"})
"""Kinds of cables with a module at each end."""


class RackKind(Struct, frozen=True):
    """Racks that hold the same.

    Parameters
    ----------
    names
        Racks of this kind, in the order of the hall.
    slots
        Devices of the first of them, from the bottom.
    units
        Height of a rack [U].
    typical_w
        Power of the network's parts in one; None where that of one is not known [W].
    weight_kg
        Weight of its devices; None where one is not known [kg].
    server_w
        Power of a server at most, its cards included, if the floor plan has it [W].
    """

    names: tuple[str, ...]
    slots: tuple[Slot, ...]
    units: int
    typical_w: float | None
    weight_kg: float | None
    server_w: float | None = None

    @property
    def servers(self) -> int:
        """Servers in the rack [1]."""
        return sum(not slot.switch for slot in self.slots)

    @property
    def used_units(self) -> int:
        """Rack units in use [U]."""
        return sum(slot.units for slot in self.slots)

    @property
    def title(self) -> str:
        """How many there are, and where.

        Examples
        --------
        >>> RackKind(("01-01", "01-02", "01-05"), (), 42, None, None).title
        '3 racks: 01-01 to 01-02, 01-05'
        """
        count = len(self.names)
        return f"{count:,} rack{'s' if count > 1 else ''}: {ranges_of(self.names)}"


class Elevations(Struct, frozen=True, eq=False):
    """Racks by kind, and the layout they stand in; None without a hall."""

    kinds: tuple[RackKind, ...]
    layout: Layout | None
    network: FabricGraph


def ranges_of(names: Sequence[str], shown: int = 3) -> str:
    """Rack names as ranges of neighbours, the first few of them.

    Examples
    --------
    >>> ranges_of(["1", "2", "3", "5"]), ranges_of(["1", "3", "5", "7", "9"])
    ('1 to 3, 5', '1, 3, 5 and 2 more')
    """
    # Where each stands, so that neighbours in a row follow each other.
    parts = (name.rpartition("-") for name in names)
    numbers = [int(row or 0) * ROW + int(position) for row, _, position in parts]
    breaks = [place for place, (a, b) in enumerate(pairwise(numbers), start=1) if b != a + 1]
    bounds = list(pairwise([0, *breaks, len(names)]))
    texts = [
        names[start] if end == start + 1 else f"{names[start]} to {names[end - 1]}"
        for start, end in bounds
    ]
    more = sum(end - start for start, end in bounds[shown:])
    return ", ".join(texts[:shown]) + (f" and {more:,} more" if more else "")


ROW = 1_000_000


def elevations(bill: Bill, spec: FabricSpec, books: BillBooks) -> Elevations:
    """Racks of a fabric, by what they hold.

    Parameters
    ----------
    bill
        The fabric's bill.
    spec
        Its file.
    books
        What the bill was made from.

    Examples
    --------
    1,024 GPUs in racks of 32; 32 leaves and 16 spines, 16 a rack.

    >>> from netplan import Scenario
    >>> from netplan.costing.cabling import CABLING_BOOKS
    >>> from netplan.costing.fabric_bill import make_bill
    >>> from netplan.costing.prices import POWER_BOOKS
    >>> from netplan.costing.prices import PRICE_BOOKS
    >>> from netplan.costing.switches import SWITCHES
    >>> from netplan.topologies.cabling.floor_plan import FLOOR_PLANS
    >>> from netplan.topologies.specs import FABRICS
    >>> books = BillBooks(PRICE_BOOKS.load("2026"), POWER_BOOKS.load("2026"),
    ...                   CABLING_BOOKS.load("2026"), SWITCHES.load("qm9700"),
    ...                   hall=FLOOR_PLANS.load("example-hall"))
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=1024, radix=64)
    >>> spec, sizing = FABRICS.load("rail-optimized"), scenario.sizing
    >>> made = elevations(make_bill(spec, sizing, books), spec, books)
    >>> sum(len(kind.names) * len(kind.slots) for kind in made.kinds if not kind.servers)
    48
    """
    fabric, hall = bill.fabric, books.hall
    hardware = hardware_of(books, fabric.sizing)
    if hall is None or bill.hall == AS_PUBLISHED:
        network, layout = network_of(spec, fabric.sizing), None
        moduled = np.full(network.link_count, 1.0)
    else:
        site = place(hall, spec, fabric.sizing, hardware)
        network, layout = site.network, site.layout
        kinds = install(fabric, site, hardware).kinds
        moduled = np.array([kind in MODULED for kind in kinds], float)
    power = _power(bill, books.power, books.switch, network, moduled)
    server = None
    if layout is not None:
        kept = _in_hall(layout, layout.plan, network, switch_units(hardware))
        server = layout.plan.whole_server
    else:
        racks = bill.racks
        node = np.flatnonzero(network.node_kind != GPU)[: racks.devices]
        slot = np.arange(len(node))
        rack, place_ = np.divmod(slot, racks.each)
        names = [str(number) for number in range(1, racks.count + 1)]
        units = np.full(len(node), racks.switch_units)
        kept = _Devices(node, rack, 1 + place_ * racks.pitch, units, names, racks.units)
    # The weight of a server is at its first GPU.
    heavy = server.weight_kg if server is not None else None
    known = books.switch.weight_kg if books.switch is not None else None
    weights = np.where(network.node_kind == GPU, heavy or np.nan, known or np.nan)
    return Elevations(tuple(_kinds(kept, network, power, weights)), layout, network)


class _Devices(Struct, frozen=True, eq=False):
    """Devices that stand in racks, by rack and unit: node, rack, unit and height, (devices,)."""

    node: Ints
    rack: Ints
    unit: Ints
    units: Ints
    rack_names: Sequence[str]
    rack_units: int
    gpus: int = 1  # GPUs of a server [1]
    server_w: float | None = None  # of a server at most [W]

    def name(self, network: FabricGraph, node: int) -> str:
        """Name of a device as in a cable plan of hosts."""
        if node >= network.gpus or self.gpus == 1:
            return network.node_name(node)
        return host_name(node // self.gpus)


def _in_hall(layout: Layout, hall: FloorPlan, network: FabricGraph, height: int) -> _Devices:
    """Servers and switches where the cable plan has them."""
    server = hall.whole_server
    gpus = server.gpus if server is not None else 1
    servers = np.arange(0, network.gpus, gpus)
    others = np.flatnonzero(network.node_kind != GPU)
    tall = server.units if server is not None else 1
    node = np.concatenate((servers, others))
    units = np.concatenate((np.full(len(servers), tall), np.full(len(others), height)))
    used = distinct_values(layout.rack[node])
    rack = np.searchsorted(used, layout.rack[node])
    names = [rack_place.name for rack_place in layout.racks()]
    most = server.max_w if server is not None else None
    return _Devices(node, rack, layout.unit[node], units, names, hall.rack_units, gpus, most)


def _kinds(
    devices: _Devices, network: FabricGraph, power: Floats, weights: Floats
) -> Iterator[RackKind]:
    """Racks alike, in the order of the first of each kind."""
    order = np.lexsort((devices.unit, devices.rack))
    node, rack = devices.node[order], devices.rack[order]
    starts = np.searchsorted(rack, np.arange(len(devices.rack_names) + 1))
    watts, kilograms = power[node], weights[node]
    if devices.gpus > 1:  # the cards of all GPUs of a server
        first = node < network.gpus
        totals = np.concatenate(([0.0], np.cumsum(power[: network.gpus])))
        ends = np.minimum(node[first] + devices.gpus, network.gpus)
        watts[first] += totals[ends] - totals[node[first]] - power[node[first]]
    tier = np.where(node < network.gpus, -1, network.node_tier[node])
    kind_of = np.stack((devices.unit[order], devices.units[order], tier), axis=1)
    alike: dict[tuple[bytes, float | None, float | None], list[int]] = {}
    for number, (start, end) in enumerate(pairwise(starts.tolist())):
        key = kind_of[start:end].tobytes()
        load, mass = _known(watts[start:end]), _known(kilograms[start:end])
        alike.setdefault((key, load, mass), []).append(number)
    for (_, load, mass), racks in alike.items():
        here = slice(starts[racks[0]], starts[racks[0] + 1])
        slots = zip(
            node[here].tolist(),
            devices.unit[order][here].tolist(),
            devices.units[order][here].tolist(),
            strict=True,
        )
        yield RackKind(
            tuple(devices.rack_names[rack_number] for rack_number in racks),
            tuple(
                Slot(devices.name(network, node_number), node_number >= network.gpus, unit, units)
                for node_number, unit, units in slots
            ),
            devices.rack_units,
            load,
            mass,
            devices.server_w,
        )


def _known(parts: Floats) -> float | None:
    """Sum to two decimals; None where a part is not known (nan)."""
    whole = float(parts.sum())
    return None if isnan(whole) else round(whole, 2)


def _power(
    bill: Bill, book: PowerBook, model: SwitchModel | None, network: FabricGraph, moduled: Floats
) -> Floats:
    """Power of every node: its box, its share of the modules and cards [W], shape (nodes,)."""
    watts_of = dict.fromkeys(("switches", "transceivers", "cards", "cables"), 0.0)
    for line in (item.line for item in bill.quote.items if not item.line.network):
        if line.category not in watts_of:
            continue
        line_w = line.typical_w
        if line_w is None and model is not None and line.model == model.name:
            line_w = model.typical_w
        draw = book.draw(line.part, line.speed_gbps)
        if line_w is None and draw is not None:
            line_w = line.price_units * draw.typical_w
        known = line_w if line_w is not None else (0.0 if line.category == "cables" else np.nan)
        watts_of[line.category] += line.quantity * known
    ends = np.zeros(network.node_count)
    np.add.at(ends, network.source, moduled)
    np.add.at(ends, network.target, moduled)
    joined = np.bincount(network.source, minlength=network.node_count)
    joined += np.bincount(network.target, minlength=network.node_count)
    gpu = network.node_kind == GPU
    shares = (("transceivers", ends), ("cables", joined), ("cards", gpu), ("switches", ~gpu))
    watts = np.zeros(network.node_count)
    for category, weight in shares:
        total = float(weight.sum())
        if total:
            watts += np.where(weight > 0, watts_of[category] / total * weight, 0.0)
    return watts
