"""Ways to go on after a failed GPU or port, what hardware they need, and what it costs.

Wang et al. (arXiv:2307.12169), section 4.1, gives three recoveries for a rail-only network:

1. an idle GPU of the same HB domain takes over, brought onto the failed one's rail by optical
   circuit switches between GPUs and rail switches;
2. the whole HB domain moves to an idle one: one of the present ones, or one more than the job has;
3. traffic is forwarded through HB domains, which needs no hardware but bandwidth.

A Clos that joins all rails needs no circuit switches for the first.
"""

from msgspec import Struct

from netplan.costing.fabric_bill import Bill, BillBooks, make_bill
from netplan.costing.prices import PriceBook
from netplan.costing.switches import SwitchModel
from netplan.errors import InputError, NetplanError
from netplan.faults.impact import Subject
from netplan.faults.link_parts import ENDS_OF_A_LINK
from netplan.faults.pace import Option
from netplan.performance.search import SearchResult
from netplan.records import replace
from netplan.topologies.build import build_fabric
from netplan.topologies.fabric import Fabric
from netplan.topologies.families.clos import ceil_div

SINGLE_MODE, PAIR_OF_FIBRES = "singlemode-fibre", "lc-singlemode"
"""Form of circuit switches with mirrors, which pass single-mode light alone, and its cables."""


class Recovery(Struct, frozen=True):
    """One way to go on after a failed GPU.

    Parameters
    ----------
    way
        What takes over: an ``idle GPU`` of the same HB domain, an ``idle domain`` of the present
        ones, a ``further domain`` that a larger network joins, or the ``forwarding`` through the
        other GPUs of the domain.
    hardware
        What it needs, in words; or why it cannot be.
    circuit_switches, single_mode_modules
        Optical circuit switches, and single-mode modules on the links through them, instead of
        those that the links have without [1].
    idle_gpus
        GPUs of the present ones that stand by idle [1].
    extra_gpus, extra_switches, extra_links
        What the fabric has to be larger by [1].
    price, price_complete
        Base price of network hardware that it takes, the share of idle GPUs in the network
        included, and whether all of it has one; None where nothing has a price or is needed.
    iteration_time_s
        Time of an iteration afterwards [s]; None without training, or where it cannot be.
    """

    way: str
    hardware: str
    circuit_switches: int = 0
    single_mode_modules: int = 0
    idle_gpus: int = 0
    extra_gpus: int = 0
    extra_switches: int = 0
    extra_links: int = 0
    price: float | None = None
    price_complete: bool = True
    iteration_time_s: float | None = None


class IdlePrice(Struct, frozen=True):
    """Base prices of the network of some idle HB domains: of present ones, and of more of them.

    None where none is needed or nothing has a price; ``complete`` says whether everything has one.
    """

    present: float | None
    larger: float | None
    complete: bool


def idle_price(subject: Subject, books: BillBooks, domains: int) -> IdlePrice:
    """Price of idle HB domains, both ways.

    Parameters
    ----------
    subject
        The fabric.
    books
        Prices and parts.
    domains
        Idle HB domains [1].

    Examples
    --------
    Two idle domains are 16 of 1,024 GPUs of the present network; a larger one costs its next step.

    >>> from netplan import Scenario
    >>> from netplan.costing.cabling import CABLING_BOOKS
    >>> from netplan.costing.power import POWER_BOOKS
    >>> from netplan.costing.prices import PRICE_BOOKS
    >>> from netplan.topologies.specs import FABRICS
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=1024, radix=64)
    >>> spec, sizing = FABRICS.load("rail-only"), scenario.sizing
    >>> books = BillBooks(PRICE_BOOKS.load("rail-only-2023"), POWER_BOOKS.load("2026"),
    ...                   CABLING_BOOKS.load("2026"))
    >>> subject = Subject(spec, sizing, build_fabric(spec, sizing), None)
    >>> idle_price(subject, books, 2)
    IdlePrice(present=59840.0, larger=819808.0, complete=False)
    """
    if not domains:
        return IdlePrice(None, None, complete=True)
    bill, size = _bill(subject, books), domains * subject.sizing.hb_size
    try:
        larger = build_fabric(
            subject.spec, replace(subject.sizing, gpus=subject.sizing.gpus + size)
        )
    except InputError:
        larger = None  # such as a torus without a free port for one more
    more = _bill(subject, books, larger) if larger and subject.fabric.tiers else None
    return IdlePrice(
        present=_share(bill, size) if domains < subject.sizing.full_domains else None,
        larger=more.capital.base - bill.capital.base if more and bill and more.cost else None,
        complete=_complete(bill),
    )


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
    The fibres of a domain of eight GPUs and of their rail ports take 16 of 136 ports, so that eight
    of 128 domains meet on a circuit switch.

    >>> from netplan import Scenario
    >>> from netplan.costing.cabling import CABLING_BOOKS
    >>> from netplan.costing.power import POWER_BOOKS
    >>> from netplan.costing.prices import PRICE_BOOKS
    >>> from netplan.costing.switches import SWITCHES
    >>> from netplan.topologies.specs import FABRICS
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=1024, radix=128)
    >>> spec, sizing = FABRICS.load("rail-only"), scenario.sizing
    >>> subject = Subject(spec, sizing, build_fabric(spec, sizing), None)
    >>> books = BillBooks(
    ...     PRICE_BOOKS.load("2026"), POWER_BOOKS.load("2026"), CABLING_BOOKS.load("2026")
    ... )
    >>> found = recoveries(subject, books, SWITCHES.load("palomar"), None)
    >>> [(way.circuit_switches, way.idle_gpus, way.extra_gpus) for way in found]
    [(16, 128, 0), (0, 8, 0), (0, 0, 8), (0, 0, 0)]
    """
    bill = _bill(subject, books)
    found = [
        _idle_gpus(subject, bill, books.prices, circuit),
        _idle_domain(subject, bill),
        _larger_fabric(subject, bill, books),
    ]
    if subject.sizing.hb_size > 1 and subject.fabric.link_count:
        found.append(Recovery(way="forwarding", hardware="none", iteration_time_s=forwarding_s))
    return tuple(way for way in found if way is not None)


def reconfigured(subject: Subject, books: BillBooks, circuit: SwitchModel, idle: int) -> Recovery:
    """Some idle GPUs in every domain, which circuit switches bring onto a failed one's rail."""
    found = _idle_gpus(subject, _bill(subject, books), books.prices, circuit, idle)
    if found is None:
        raise InputError(f"{idle:,} idle GPUs leave a domain of {subject.sizing.hb_size:,} none")
    return found


def _idle_gpus(
    subject: Subject, bill: Bill | None, prices: PriceBook, circuit: SwitchModel, each: int = 1
) -> Recovery | None:
    """Some idle GPUs in every domain; on separate rails behind circuit switches."""
    sizing = subject.sizing
    if sizing.hb_size <= each:
        return None
    idle = each * sizing.domains
    share = Recovery(
        way="idle GPU",
        hardware=("an idle GPU" if each == 1 else f"{each:,} idle GPUs")
        + (f" in each of {sizing.domains:,} domains" if sizing.domains > 1 else ""),
        idle_gpus=idle,
        price=_share(bill, idle),
        price_complete=_complete(bill),
        iteration_time_s=_time_s(subject.on_fewer_gpus(each)),
    )
    if subject.fabric.network != "rail-only" or sizing.domains == 1 or not subject.fabric.switches:
        return share
    return _behind_circuits(subject, share, prices, circuit)


def _behind_circuits(
    subject: Subject, share: Recovery, prices: PriceBook, circuit: SwitchModel
) -> Recovery:
    """The same where the idle GPU must be brought onto the rail of the failed one.

    All fibres of a domain's GPUs and of their rail ports meet on one circuit switch, each of the
    ports of a GPU on one of its own. A link takes one port at either side, so that its modules have
    one pair of fibres (FR4, LR4); those of parallel fibres would take four. Its second fibre is
    priced where the book prices single-mode ones, though the first has other connectors then.
    """
    sizing, fabric = subject.sizing, subject.fabric
    fibres = ENDS_OF_A_LINK * sizing.hb_size
    if fibres > circuit.cages:
        reason = (
            f"not possible: {fibres:,} fibres of a domain must meet on one switch, {circuit.name}"
            f" has {circuit.cages:,} ports"
        )
        return Recovery(way=share.way, hardware=reason)
    switches = ceil_div(sizing.domains * fabric.ports_per_gpu, circuit.cages // fibres)
    modules = ENDS_OF_A_LINK * fabric.nic_ports if circuit.form == SINGLE_MODE else 0
    ports, module = (prices.price(part, sizing.speed_gbps) for part in ("ocs_port", "transceiver"))
    # A book has one price for all modules: single-mode ones cost more only in place of copper.
    host = next(group for group in fabric.links if group.name == "host")
    added = modules if host.medium == "copper" else 0
    fibre = prices.price("fibre", None, PAIR_OF_FIBRES)
    further = fabric.nic_ports if fibre is not None else 0
    bought = [(switches * circuit.cages, ports), (added, module), (further, fibre)]
    known = [(count, row) for count, row in bought if row is not None and count]
    sums = [prices.offer(row, count).base * count for count, row in known]
    return replace(
        share,
        hardware=f"{share.hardware}, {switches:,} {circuit.name} between GPUs and rails"
        + (f", {modules:,} single-mode modules" if modules else ""),
        circuit_switches=switches,
        single_mode_modules=modules,
        price=sum(sums, share.price or 0.0) if sums or share.price else None,
        price_complete=share.price_complete and all(row for count, row in bought if count),
    )


def _idle_domain(subject: Subject, bill: Bill | None) -> Recovery | None:
    """One of the present HB domains stands by idle."""
    sizing = subject.sizing
    if sizing.full_domains < 2:  # noqa: PLR2004 - none is left
        return None
    size = sizing.hb_size
    return Recovery(
        way="idle domain",
        hardware=f"{_gpus(size)} of the present ones idle",
        idle_gpus=size,
        price=_share(bill, size),
        price_complete=_complete(bill),
        iteration_time_s=_time_s(subject.at(Option(1, size, 1.0, 1.0))),
    )


def _larger_fabric(subject: Subject, bill: Bill | None, books: BillBooks) -> Recovery | None:
    """One idle HB domain beside the job's, and the larger network that it needs."""
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
    step = ", the step to the next size" if extra else ", within the present size"
    more = _bill(subject, books, larger)
    price = more.capital.base - bill.capital.base if more and bill and more.cost else None
    return Recovery(
        way="further domain",
        hardware=f"{_gpus(size, 'more ')} and a network for {wanted.gpus:,} GPUs"
        f"{tier}: switches {extra:+,}, links {links:+,}{step}",
        extra_gpus=size,
        extra_switches=extra,
        extra_links=links,
        price=price,
        price_complete=_complete(more),
        iteration_time_s=_time_s(subject.intact),
    )


def _bill(subject: Subject, books: BillBooks, larger: Fabric | None = None) -> Bill | None:
    """Bill of the fabric, or of a larger one; None where it cannot be wired."""
    fabric = larger or subject.fabric
    sizing = replace(subject.sizing, gpus=fabric.sizing.gpus)
    try:
        return make_bill(subject.spec, sizing, books, fabric=fabric)
    except NetplanError:
        return None  # its price is not the question here


def _share(bill: Bill | None, gpus: int) -> float | None:
    """Share of some GPUs in the network's price; None without one."""
    return gpus * bill.per_gpu.base if bill and bill.cost else None


def _complete(bill: Bill | None) -> bool:
    return bill is not None and not bill.quote.unpriced


def _gpus(count: int, kind: str = "") -> str:
    return f"{count:,} {kind}GPU{'s' * (count != 1)}"


def _time_s(found: SearchResult | None) -> float | None:
    return found.time_s if found else None
