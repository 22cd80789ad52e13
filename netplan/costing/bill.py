"""The short bill of a fabric, by port and link end, and what it costs and draws.

It sets fabrics side by side: switch ports, transceivers, copper cables, network ports. The bill
to buy from, with models, modules by cage and lengths, is :mod:`netplan.costing.materials`. Money
comes only from a bill, and a bill only from counts. All ports of a bought switch are paid, used or
not (arXiv:2307.12169, footnote 1). Before anything is priced the ports must close.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from netplan.costing.power import PowerBook
from netplan.costing.prices import Part, PriceBook
from netplan.errors import NetplanError
from netplan.topologies.fabric import Fabric


@dataclass(frozen=True, slots=True)
class BillLine:
    """One part of the bill: what, at which speed, how many."""

    part: Part
    speed_gbps: float
    quantity: int


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of a bill.

    Parameters
    ----------
    low, base, high
        Sum over the priced parts, in the book's currency; a part without a spread counts with its
        base price.
    unpriced
        Parts that the book has no price for.
    """

    low: float
    base: float
    high: float
    unpriced: tuple[BillLine, ...]


@dataclass(frozen=True, slots=True)
class Power:
    """Power of a bill: sum over the parts that the book knows, and the parts it does not know."""

    typical_w: float
    unknown: tuple[BillLine, ...]


def bill_of_materials(fabric: Fabric) -> tuple[BillLine, ...]:
    """Parts of the network of a fabric, without the gear inside HB domains.

    Raises
    ------
    NetplanError
        If the ports do not close, which would be a fault of the fabric's builder.

    Examples
    --------
    >>> from netplan.topologies.build import build_fabric
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.topologies.specs import FABRICS
    >>> sizing = Sizing(32_768, 128, 256, hb_bytes_per_s=450e9, network_bytes_per_s=50e9)
    >>> for line in bill_of_materials(build_fabric(FABRICS.load("rail-only"), sizing)):
    ...     print(line.part, line.quantity)
    switch_port 32768
    transceiver 65536
    nic_port 32768
    """
    _require_closed_ports(fabric)
    quantities: dict[Part, int] = {
        "switch_port": fabric.switches * fabric.sizing.radix,
        "transceiver": fabric.transceivers,
        "copper_cable": fabric.copper_cables,
        "nic_port": fabric.nic_ports,
    }
    speed = fabric.sizing.speed_gbps
    return tuple(BillLine(part, speed, count) for part, count in quantities.items() if count)


def bill_cost(bill: Sequence[BillLine], book: PriceBook) -> Cost:
    """Price a bill.

    Parameters
    ----------
    bill
        Parts and quantities.
    book
        Prices; a part is priced only at exactly its speed.
    """
    low = base = high = 0.0
    unpriced = []
    for line in bill:
        price = book.price(line.part, line.speed_gbps)
        if price is None:
            unpriced.append(line)
            continue
        offer = book.offer(price, line.quantity)
        base += line.quantity * offer.base
        low += line.quantity * offer.low
        high += line.quantity * offer.high
    return Cost(low, base, high, tuple(unpriced))


def bill_power(bill: Sequence[BillLine], book: PowerBook) -> Power:
    """Typical power of a bill [W]."""
    typical = 0.0
    unknown = []
    for line in bill:
        draw = book.draw(line.part, line.speed_gbps)
        if draw is None:
            unknown.append(line)
        else:
            typical += line.quantity * draw.typical_w
    return Power(typical, tuple(unknown))


def _require_closed_ports(fabric: Fabric) -> None:
    """Every cable end needs a port: on a switch, or on a GPU's network card."""
    used = sum(tier.ports_used for tier in fabric.tiers)
    ends = 2 * fabric.link_count
    if fabric.spare_ports < 0 or ends - used > fabric.nic_ports + _management_ends(fabric):
        raise NetplanError(
            f"{fabric.name}: {ends:,} cable ends do not fit {used:,} switch ports in use and"
            f" {fabric.nic_ports:,} network ports"
        )


def _management_ends(fabric: Fabric) -> int:
    """Cable ends of management servers, which are no GPUs."""
    hosts = sum(group.links for group in fabric.links if group.name == "host")
    return max(0, hosts - fabric.sizing.gpus)
