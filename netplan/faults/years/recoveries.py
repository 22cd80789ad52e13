"""Ways to go on after a failed GPU or port, what hardware they need, and what it costs.

Wang et al. (arXiv:2307.12169), section 4.1, gives three recoveries for a rail-only network:

1. an idle GPU of the same HB domain takes over, brought onto the failed one's rail by optical
   circuit switches between GPUs and rail switches (:mod:`netplan.faults.years.policies`);
2. the whole HB domain moves to an idle one: one of the present ones, or one more than the job has;
3. traffic is forwarded through HB domains, which needs no hardware but bandwidth.

A Clos that joins all rails needs no circuit switches for the first.
"""

from msgspec import Struct

from netplan.costing.fabric_bill import Bill, BillBooks, make_bill
from netplan.costing.switches import SwitchModel
from netplan.errors import InputError, NetplanError
from netplan.faults.damage.cuts import CutOption
from netplan.faults.damage.impact import Subject
from netplan.faults.years.rates import ENDS_OF_A_LINK
from netplan.performance.plan import SearchResult
from netplan.records import replace
from netplan.topologies.build import build_fabric
from netplan.topologies.fabric import Fabric
from netplan.topologies.rail_circuits import CircuitPlan

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
    >>> from netplan.costing.prices import POWER_BOOKS
    >>> from netplan.costing.prices import PRICE_BOOKS
    >>> from netplan.topologies.specs import FABRICS
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=1024, radix=64)
    >>> spec, sizing = FABRICS.load("rail-only"), scenario.sizing
    >>> books = BillBooks(PRICE_BOOKS.load("rail-only-2023"), POWER_BOOKS.load("2026"),
    ...                   CABLING_BOOKS.load("2026"))
    >>> subject = Subject(spec, sizing, build_fabric(spec, sizing), None)
    >>> idle_price(subject, books, 2)
    IdlePrice(present=59840.0, larger=264044.0, complete=False)
    """
    if not domains:
        return IdlePrice(None, None, complete=True)
    bill, size = bill_of(subject, books), domains * subject.sizing.hb_size
    larger = _larger(subject, size)
    return IdlePrice(
        present=_share(bill, size) if domains < subject.sizing.full_domains else None,
        larger=_step_price(bill, bill_of(subject, books, larger) if larger else None),
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

    What circuit switches cost is what they add to the fabric's own bill: nothing where its file
    names them.

    Examples
    --------
    The fibres of a domain of eight GPUs and of their rail ports take 16 of 136 ports, so that eight
    of 128 domains meet on a circuit switch.

    >>> from netplan import Scenario
    >>> from netplan.costing.cabling import CABLING_BOOKS
    >>> from netplan.costing.prices import POWER_BOOKS
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
    books = replace(books, ocs=circuit) if subject.spec.circuit_switch else books
    bill, sizing = bill_of(subject, books), subject.sizing
    ways = [_idle_domain(subject, bill), _larger_fabric(subject, bill, books)]
    if sizing.hb_size > 1:
        ways.insert(0, behind_rails(subject, bill, books, circuit))
    if sizing.hb_size > 1 and subject.fabric.link_count:
        ways.append(Recovery(way="forwarding", hardware="none", iteration_time_s=forwarding_s))
    return tuple(way for way in ways if way is not None)


def rail_plan(subject: Subject, circuit: SwitchModel) -> CircuitPlan:
    """Circuit switches that bring any GPU of a domain onto the rails of those on its own ones.

    Parameters
    ----------
    subject
        A fabric of rails.
    circuit
        Model of the circuit switches.

    Examples
    --------
    >>> from netplan import Scenario
    >>> from netplan.costing.switches import SWITCHES
    >>> from netplan.topologies.specs import FABRICS
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=1024, radix=128)
    >>> spec, sizing = FABRICS.load("rail-only"), scenario.sizing
    >>> subject = Subject(spec, sizing, build_fabric(spec, sizing), None)
    >>> plan = rail_plan(subject, SWITCHES.load("palomar"))
    >>> plan.switches, plan.ports, plan.ports_used, plan.domains_each
    (16, 2176, 2048, 8)
    """
    sizing = subject.sizing
    return CircuitPlan(circuit.cages, sizing.domains, sizing.hb_size, subject.fabric.ports_per_gpu)


def needs_circuits(subject: Subject) -> bool:
    """Whether an idle GPU cannot take a failed one's rail as it is wired."""
    fabric = subject.fabric
    return fabric.network == "rail-only" and subject.sizing.domains > 1 and fabric.switches > 0


def behind_rails(
    subject: Subject, bill: Bill | None, books: BillBooks, circuit: SwitchModel, idle: int = 0
) -> Recovery:
    """Some idle GPUs in every domain; on separate rails behind circuit switches.

    Parameters
    ----------
    subject, bill, books
        A fabric, its bill if it has one, and prices of what comes on top.
    circuit
        Model of the circuit switches.
    idle
        GPUs of each domain that stand by; one for each of its circuit switches if 0 [1].
    """
    sizing, fabric = subject.sizing, subject.fabric
    behind = needs_circuits(subject)
    plan = rail_plan(subject, circuit)
    idle = idle or (min(plan.sets, sizing.hb_size - 1) if behind else 1)
    share = Recovery(
        way="idle GPU",
        hardware=("an idle GPU" if idle == 1 else f"{idle:,} idle GPUs")
        + (f" in each of {sizing.domains:,} domains" if sizing.domains > 1 else ""),
        idle_gpus=idle * sizing.domains,
        price=_share(bill, idle * sizing.domains),
        price_complete=_complete(bill),
        iteration_time_s=_time_s(subject.on_fewer_gpus(idle)),
    )
    if not behind:
        return share
    links = fabric.nic_ports
    modules = ENDS_OF_A_LINK * links if circuit.form == SINGLE_MODE else 0
    added, known = added_by_circuits(subject, books, circuit, plan)
    spread = f" ({plan.sets:,} a domain and port)" if plan.sets > 1 else ""
    return replace(
        share,
        hardware=f"{share.hardware}, {plan.switches:,} {circuit.name} between GPUs and rails"
        + spread
        + (f", {modules:,} single-mode modules" if modules else ""),
        circuit_switches=plan.switches,
        single_mode_modules=modules,
        price=None if added is None else added + (share.price or 0.0),
        price_complete=share.price_complete and known,
    )


def added_by_circuits(
    subject: Subject, books: BillBooks, circuit: SwitchModel, plan: CircuitPlan
) -> tuple[float | None, bool]:
    """Base price that circuit switches add to a fabric's own bill, and whether all has one.

    It is the difference of two bills in one hall: switches, second fibres, single-mode modules in
    place of copper or of other modules, their racks and the laying of cables. A fabric whose file
    names circuit switches has them on its bill, and they add nothing.

    Parameters
    ----------
    subject, books
        The fabric, and prices.
    circuit, plan
        Model of the circuit switches, and what is on them.

    Returns
    -------
    tuple
        The price; None where the fabric cannot be wired or nothing has a price.
    """
    if subject.spec.circuit_switch:
        books = replace(books, ocs=circuit)
    bill = bill_of(subject, books)
    more = bill_of(subject, replace(books, ocs=circuit, rail_circuits=plan))
    return _step_price(bill, more), _complete(more)


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
        iteration_time_s=_time_s(subject.best_at(CutOption(1, size, 1.0, 1.0))),
    )


def _larger_fabric(subject: Subject, bill: Bill | None, books: BillBooks) -> Recovery | None:
    """One idle HB domain beside the job's, and the larger network that it needs."""
    size = subject.sizing.hb_size
    larger = _larger(subject, size)
    if larger is None:
        return None
    extra = larger.switches - subject.fabric.switches
    links = larger.link_count - subject.fabric.link_count
    tier = f" in {len(larger.tiers)} tiers" if len(larger.tiers) > len(subject.fabric.tiers) else ""
    step = ", the step to the next size" if extra else ", within the present size"
    more = bill_of(subject, books, larger)
    return Recovery(
        way="further domain",
        hardware=f"{_gpus(size, 'more ')} and a network for {subject.sizing.gpus + size:,} GPUs"
        f"{tier}: switches {extra:+,}, links {links:+,}{step}",
        extra_gpus=size,
        extra_switches=extra,
        extra_links=links,
        price=_step_price(bill, more),
        price_complete=_complete(more),
        iteration_time_s=_time_s(subject.intact),
    )


def _larger(subject: Subject, gpus: int) -> Fabric | None:
    """The fabric with more GPUs; None for a torus, which has no free port, and for full groups."""
    if not subject.fabric.tiers:
        return None
    try:
        return build_fabric(subject.spec, replace(subject.sizing, gpus=subject.sizing.gpus + gpus))
    except InputError:
        return None


def _step_price(bill: Bill | None, more: Bill | None) -> float | None:
    """Base price of the step to a larger network; None without a price."""
    return more.capital.base - bill.capital.base if more and bill and more.cost else None


def bill_of(subject: Subject, books: BillBooks, larger: Fabric | None = None) -> Bill | None:
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


def _time_s(result: SearchResult | None) -> float | None:
    return result.time_s if result else None
