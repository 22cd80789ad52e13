"""Lengths and media of a fabric's cables on a floor plan: what to order, by length."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from netplan.costing.cabling import ANY, CablingBook
from netplan.costing.wiring import MANAGEMENT, Lengths
from netplan.topologies.cable_plan import ROLES, Place, Sheet
from netplan.topologies.floor_plan import (
    Floats,
    FloorPlan,
    Layout,
    lay_out,
    shortest_media,
    stock_length_m,
)
from netplan.topologies.graph import MANAGER, FabricGraph

LENGTH_COLUMNS = ("group", "length_m", "cables", "total_m", "medium")
RACK_COLUMNS = ("rack", "what", "length_m", "count")


class Placed(NamedTuple):
    """Where all nodes stand, places of devices by name, and lengths of cables as sold [m]."""

    layout: Layout
    places: Mapping[str, Place]
    length_m: Floats


def placed(plan: FloorPlan, network: FabricGraph) -> Placed:
    """Put a network into a hall.

    Parameters
    ----------
    plan
        The hall.
    network
        The fabric, without links inside HB domains.

    Raises
    ------
    InputError
        If the hall is too small.
    """
    layout = lay_out(plan, network)
    length = layout.cable_m(network.source, network.target)
    return Placed(layout, layout.places(network), stock_length_m(plan, length))


def racks_sheet(network: FabricGraph, placed_at: Placed) -> Sheet:
    """What stands in each rack, and the cables that begin there, by length: for installers.

    Parameters
    ----------
    network, placed_at
        The fabric, its places and its lengths.
    """
    names = np.array(network.node_names(), object)
    racks = [placed_at.places[name].rack for name in names.tolist()]
    kinds = [ROLES[kind] for kind in network.node_kind.tolist()]
    devices = Counter(zip(racks, kinds, strict=True))
    begins = np.array(racks, object)[network.source].tolist()
    cables = Counter(zip(begins, placed_at.length_m.tolist(), strict=True))
    lines = [(rack, 0, kind, "", count) for (rack, kind), count in devices.items()]
    lines += [(rack, 1, "cable", f"{length:g}", count) for (rack, length), count in cables.items()]
    lines.sort(key=lambda line: (line[0], line[1], line[2], float(line[3] or 0)))
    rows = ((rack, what, length, str(count)) for rack, _, what, length, count in lines)
    return Sheet("Racks", RACK_COLUMNS, rows)


def measured_links(network: FabricGraph, length_m: Floats) -> Lengths:
    """Lengths of each link group with how many links are that long, for the bill.

    Links of hosts that are no GPUs, those of a fabric manager, are a group of their own.

    Parameters
    ----------
    network, length_m
        The fabric, and the lengths of its cables as sold [m].
    """
    servers = (network.node_kind[network.source] == MANAGER) | (
        network.node_kind[network.target] == MANAGER
    )
    found: dict[str, list[tuple[float, int]]] = {}
    for at, name in enumerate(network.group_names):
        for title, apart in ((name, False), (f"{MANAGEMENT}{name}", True)):
            lengths = length_m[(network.group == at) & (servers == apart)]
            if len(lengths):
                values, counts = np.unique(lengths, return_counts=True)
                found[title] = list(zip(values.tolist(), counts.tolist(), strict=True))
    return found


def reaches_m(book: CablingBook) -> dict[str, float]:
    """Reach of every medium that is not tied to a form factor [m].

    Examples
    --------
    >>> from netplan.costing.cabling import CABLING_BOOKS
    >>> reaches_m(CABLING_BOOKS.load("2026"))
    {'dac': 3.0, 'aec': 5.0, 'aoc': 30.0, 'multimode': 50.0, 'singlemode': 500.0}
    """
    found: dict[str, float] = {
        cable.kind: cable.reach_m
        for cable in book.cables
        if cable.forms == (ANY, ANY) and cable.speed_gbps is None
    }
    found |= {module.fibre: module.reach_m for module in book.modules if module.form == ANY}
    return found


def lengths_sheet(network: FabricGraph, length_m: Floats, book: CablingBook) -> Sheet:
    """Cables by link group and length, with the medium of the shortest reach that spans it.

    Parameters
    ----------
    network, length_m
        The fabric, and the lengths of its cables as sold [m].
    book
        Reaches of the media.
    """
    lengths, which = np.unique(length_m, return_inverse=True)
    counts = np.zeros((len(network.group_names), len(lengths)), np.int64)
    np.add.at(counts, (network.group, which), 1)
    media = shortest_media(reaches_m(book), lengths)
    rows = (
        (name, f"{lengths[at]:g}", str(count), f"{count * lengths[at]:g}", media[at])
        for name, line in zip(network.group_names, counts.tolist(), strict=True)
        for at, count in enumerate(line)
        if count
    )
    return Sheet("Cable lengths", LENGTH_COLUMNS, rows)
