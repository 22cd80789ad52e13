"""Ways to go on after a failed GPU or port, what hardware they need, and what it costs.

Wang et al. (arXiv:2307.12169), section 4.1, gives three recoveries for a rail-only network:

1. an idle GPU of the same HB domain takes over, brought onto the failed one's rail by optical
   circuit switches between GPUs and rail switches;
2. the whole HB domain moves to an idle one;
3. traffic is forwarded through HB domains, which needs no hardware but bandwidth.

A Clos that joins all rails needs no circuit switches for the first.
"""

from msgspec import Struct

from netplan.costing.fabric_bill import Bill, BillBooks, make_bill
from netplan.costing.prices import PriceBook
from netplan.costing.switches import SwitchModel
from netplan.errors import InputError
from netplan.faults.impact import Subject
from netplan.records import replace
from netplan.topologies.build import build_fabric
from netplan.topologies.clos import ceil_div

ENDS_OF_A_LINK = 2


class Recovery(Struct, frozen=True):
    """One way to go on after a failed GPU.

    Parameters
    ----------
    way
        What is done.
    hardware
        What it needs beyond the fabric, in words.
    circuit_switches, extra_gpus, extra_switches, extra_links
        The same in numbers [1].
    price
        Base price of that network hardware; None where the book lacks a price or nothing is needed.
    iteration_time_s
        Time of an iteration afterwards [s]; None without training.
    """

    way: str
    hardware: str
    circuit_switches: int = 0
    extra_gpus: int = 0
    extra_switches: int = 0
    extra_links: int = 0
    price: float | None = None
    iteration_time_s: float | None = None


def recoveries(
    subject: Subject, books: BillBooks, circuit: SwitchModel, forwarding_s: float | None
) -> tuple[Recovery, ...]:
    """All ways to recover that a fabric has.

    Parameters
    ----------
    subject
        The fabric.
    books
        Prices and parts of the extra hardware.
    circuit
        Model of the optical circuit switches.
    forwarding_s
        Time of an iteration while a GPU sends through its HB domain [s].

    Examples
    --------
    1,024 GPUs, a fibre from each and one to each rail switch port: 2,048 ports of 136.

    >>> from netplan.costing.cabling import CABLING_BOOKS
    >>> from netplan.costing.power import POWER_BOOKS
    >>> from netplan.costing.prices import PRICE_BOOKS
    >>> from netplan.costing.switches import SWITCHES
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.topologies.specs import FABRICS
    >>> spec, sizing = FABRICS.load("rail-only"), Sizing(1024, 128, 8, 450e9, 50e9)
    >>> subject = Subject(spec, sizing, build_fabric(spec, sizing), None)
    >>> books = BillBooks(
    ...     PRICE_BOOKS.load("2026"), POWER_BOOKS.load("2026"), CABLING_BOOKS.load("2026")
    ... )
    >>> found = recoveries(subject, books, SWITCHES.load("palomar"), None)
    >>> [(way.circuit_switches, way.extra_gpus) for way in found]
    [(16, 1), (0, 8), (0, 0)]
    """
    intact = subject.intact
    intact_s = intact.time_s if intact else None
    found = [
        _idle_gpu(subject, books.prices, circuit, intact_s),
        _spare_domain(subject, books, intact_s),
    ]
    if subject.sizing.hb_size > 1 and subject.fabric.link_count:
        found.append(
            Recovery(
                way="send through the other GPUs of the HB domain (a lost port or rail switch)",
                hardware="none",
                iteration_time_s=forwarding_s,
            )
        )
    return tuple(way for way in found if way is not None)


def _idle_gpu(
    subject: Subject, prices: PriceBook, circuit: SwitchModel, intact_s: float | None
) -> Recovery | None:
    """An idle GPU of the domain; on separate rails behind circuit switches."""
    if subject.sizing.hb_size == 1:
        return None
    if subject.fabric.network != "rail-only" or not subject.fabric.link_count:
        return Recovery(
            way="an idle GPU of the same HB domain takes over",
            hardware="an idle GPU a domain",
            extra_gpus=1,
            iteration_time_s=intact_s,
        )
    ports = ENDS_OF_A_LINK * subject.fabric.nic_ports
    switches = ceil_div(ports, circuit.cages)
    price = prices.price("ocs_port", subject.sizing.speed_gbps)
    return Recovery(
        way="an idle GPU of the same HB domain takes over, moved to the rail by circuit switches",
        hardware=f"an idle GPU a domain, {switches:,} {circuit.name} between GPUs and rails",
        circuit_switches=switches,
        extra_gpus=1,
        price=switches * circuit.cages * price.base if price else None,
        iteration_time_s=intact_s,
    )


def _spare_domain(subject: Subject, books: BillBooks, intact_s: float | None) -> Recovery | None:
    """One idle HB domain beside the job's, and the network that it needs."""
    size = subject.sizing.hb_size
    if not subject.fabric.tiers:
        return None  # a torus has no free port for one more
    wanted = replace(subject.sizing, gpus=subject.sizing.gpus + size)
    try:
        larger = build_fabric(subject.spec, wanted)
    except InputError:
        return None  # such as groups that cannot be filled so far
    extra = larger.switches - subject.fabric.switches
    links = larger.link_count - subject.fabric.link_count
    tier = f" in {len(larger.tiers)} tiers" if len(larger.tiers) > len(subject.fabric.tiers) else ""
    more = make_bill(subject.spec, wanted, books, fabric=larger)
    less = make_bill(subject.spec, subject.sizing, books, fabric=subject.fabric)
    return Recovery(
        way="the whole HB domain moves to an idle one",
        hardware=f"a domain of {size:,} idle GPUs, and a network for {wanted.gpus:,} GPUs{tier}:"
        f" switches {extra:+,}, links {links:+,}",
        extra_gpus=size,
        extra_switches=extra,
        extra_links=links,
        price=None if _lacks(more) else more.capital.base - less.capital.base,
        iteration_time_s=intact_s,
    )


def _lacks(bill: Bill) -> bool:
    """Whether anything lacks a price that a spare domain brings with it, its cards included."""
    return bool(bill.unpriced_apart) or any(line.part == "nic_port" for line in bill.quote.unpriced)
