"""Idle GPUs behind optical circuit switches as a policy, beside that of going on without a domain.

Wang et al. (arXiv:2307.12169), section 4.1, "Single GPU failures with idle GPU in the HB domain",
adds "a small number of optical switches between the GPU and rail switches": a switch "reconfigures
to bring a healthy, idle GPU to replace the failed one". It gives no count of them or of their
ports. We read it so:

where spares stand
    Of the K GPUs of each of D present HB domains, s stand by idle from the start, whatever their
    rank. The job has K - s of each, and as many rails: (K - s)/K of the bandwidth between domains,
    before a failure and after it. Inside the domain an idle GPU reaches all others already.
what is switched
    The p links of every GPU to its rails, and nothing inside HB domains or among rail switches. An
    idle GPU may have to take any rail, so that the K GPUs of a domain and its K rail ports meet on
    one circuit switch of C ports, each of the p ports of a GPU on a switch of its own.
how many
    2 K ports of a switch a domain and port: D p / floor(C / 2K) switches, rounded up, 2 K D p of
    their ports in use, all C bought. A link becomes two fibres, one to each side of the switch.
    Domains of more than C/2 GPUs, as the paper's 256, are refused: parts of them, each with idle
    GPUs and switches of its own, would do.
what else fails
    A circuit switch that fails takes all domains on it from the job, a failed fibre or module
    either side the link. That a failed GPU stops the job to start it again from its checkpoint
    stays; the circuits turn within that restart.

The second case of the section, switches inside large HB domains whose GPUs are all in use, is not
this one: a failure that finds no idle GPU takes its domain from the job, as without the policy. The
lists of what is bought and the years are those of `netplan.faults.years.recoveries` and
`netplan.faults.years.forecast`; the power is that of the switches alone.

Ways to go on after a failed GPU or port, what hardware they need, and what it costs.

Wang et al. (arXiv:2307.12169), section 4.1, gives three recoveries for a rail-only network:

1. an idle GPU of the same HB domain takes over, brought onto the failed one's rail by optical
   circuit switches between GPUs and rail switches;
2. the whole HB domain moves to an idle one: one of the present ones, or one more than the job has;
3. traffic is forwarded through HB domains, which needs no hardware but bandwidth.

A Clos that joins all rails needs no circuit switches for the first.
"""

from msgspec import Struct

from netplan.costing.fabric_bill import Bill, BillBooks, make_bill
from netplan.costing.switches import SwitchModel
from netplan.errors import InputError, NetplanError
from netplan.faults.damage.cuts import Option
from netplan.faults.damage.impact import Impact, Subject
from netplan.faults.years.effects import FailureEffects, idle_gpus
from netplan.faults.years.forecast import ForecastOptions, ReliabilityForecast, reliability_forecast
from netplan.faults.years.group_failures import GroupFailures
from netplan.faults.years.outages import Effect
from netplan.faults.years.rates import ENDS_OF_A_LINK, FailureBook, Unit
from netplan.performance.search import SearchResult
from netplan.records import replace
from netplan.topologies.build import build_fabric
from netplan.topologies.fabric import Fabric
from netplan.topologies.families.clos import ceil_div
from netplan.topologies.families.switched import RailOnly
from netplan.topologies.specs import FabricSpec

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
    bill, size = _bill(subject, books), domains * subject.sizing.hb_size
    larger = _larger(subject, size)
    return IdlePrice(
        present=_share(bill, size) if domains < subject.sizing.full_domains else None,
        larger=_step_price(bill, _bill(subject, books, larger) if larger else None),
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
    bill, sizing = _bill(subject, books), subject.sizing
    ways = [_idle_domain(subject, bill), _larger_fabric(subject, bill, books)]
    if sizing.hb_size > 1:
        ways.insert(0, _idle_gpus(subject, bill, books, circuit))
    if sizing.hb_size > 1 and subject.fabric.link_count:
        ways.append(Recovery(way="forwarding", hardware="none", iteration_time_s=forwarding_s))
    return tuple(way for way in ways if way is not None)


def _idle_gpus(
    subject: Subject, bill: Bill | None, books: BillBooks, circuit: SwitchModel, per_domain: int = 1
) -> Recovery:
    """Some idle GPUs in every domain; on separate rails behind circuit switches."""
    sizing, idle = subject.sizing, per_domain * subject.sizing.domains
    share = Recovery(
        way="idle GPU",
        hardware=("an idle GPU" if per_domain == 1 else f"{per_domain:,} idle GPUs")
        + (f" in each of {sizing.domains:,} domains" if sizing.domains > 1 else ""),
        idle_gpus=idle,
        price=_share(bill, idle),
        price_complete=_complete(bill),
        iteration_time_s=_time_s(subject.on_fewer_gpus(per_domain)),
    )
    if subject.fabric.network != "rail-only" or sizing.domains == 1 or not subject.fabric.switches:
        return share
    return _behind_circuits(subject, share, books, circuit)


def _behind_circuits(
    subject: Subject, share: Recovery, books: BillBooks, circuit: SwitchModel
) -> Recovery:
    """The same where the idle GPU must be brought onto the rail of the failed one.

    All fibres of a domain's GPUs and of their rail ports meet on one circuit switch, each of the
    ports of a GPU on one of its own. A link takes one port at either side, so that its modules have
    one pair of fibres (FR4, LR4); those of parallel fibres would take four. Its second fibre is
    priced where the book prices single-mode ones, at the length class of links to GPUs, though the
    first has other connectors then.
    """
    fabric, speed_gbps, prices = subject.fabric, subject.sizing.speed_gbps, books.prices
    layer = _circuits(subject, circuit)
    if layer is None:
        reason = (
            f"not possible: {ENDS_OF_A_LINK * subject.sizing.hb_size:,} fibres of a domain must"
            f" meet on one switch, {circuit.name} has {circuit.cages:,} ports"
        )
        return Recovery(way=share.way, hardware=reason)
    modules = ENDS_OF_A_LINK * fabric.nic_ports if circuit.form == SINGLE_MODE else 0
    bought = [(layer.ports, prices.price("ocs_port", speed_gbps))]
    # A book has one price for all modules: single-mode ones cost more only in place of copper.
    if modules and next(group.medium for group in fabric.links if group.role == "host") == "copper":
        bought.append((modules, prices.price("transceiver", speed_gbps)))
    fibre = prices.price("fibre", None, PAIR_OF_FIBRES)
    if fibre is not None:
        bought.append((fabric.nic_ports, fibre))
    length_m = books.cabling.length("host", "optical").length_m
    sums = [
        prices.offer(row, count, length_m=length_m).base * count
        for count, row in bought
        if row is not None
    ]
    return replace(
        share,
        hardware=f"{share.hardware}, {layer.switches:,} {circuit.name} between GPUs and rails"
        + (f", {modules:,} single-mode modules" if modules else ""),
        circuit_switches=layer.switches,
        single_mode_modules=modules,
        price=sum(sums, share.price or 0.0) if sums or share.price else None,
        price_complete=share.price_complete and len(sums) == len(bought),
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
    larger = _larger(subject, size)
    if larger is None:
        return None
    extra = larger.switches - subject.fabric.switches
    links = larger.link_count - subject.fabric.link_count
    tier = f" in {len(larger.tiers)} tiers" if len(larger.tiers) > len(subject.fabric.tiers) else ""
    step = ", the step to the next size" if extra else ", within the present size"
    more = _bill(subject, books, larger)
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


def _time_s(result: SearchResult | None) -> float | None:
    return result.time_s if result else None


class Circuits(Struct, frozen=True):
    """Circuit switches between GPUs and rails [1], their ports, bought and in use.

    ``domains_each`` HB domains meet on one. Their power [W] is None where the model has none.
    """

    switches: int
    ports: int
    ports_used: int
    domains_each: int
    power_w: float | None


class Assumed(Struct, frozen=True):
    """What years of failures assume without circuit switches, and the years themselves."""

    options: ForecastOptions
    book: FailureBook
    effects: FailureEffects
    groups: tuple[GroupFailures, ...]
    today: ReliabilityForecast


class Policy(Struct, frozen=True):
    """What a job does after a failed GPU, and what it gets over the years.

    Parameters
    ----------
    policy
        ``go-on``, ``wait`` or ``reconfigure``.
    idle_gpus, circuit_switches, single_mode_modules, circuit_ports, circuit_ports_used
        GPUs of the present ones that stand by in their domains; circuit switches, modules of the
        links through them, and their ports, bought and in use [1].
    circuit_power_w
        Power of the circuit switches [W]; None where the model has none.
    price, price_complete
        Base price of it, the share of idle GPUs in the network included, and whether all has one.
    bandwidth_share, iteration_time_s
        Bandwidth of the worst pair of HB domains [1], and time of an iteration [s], after a failed
        GPU; None where there is none.
    replaced_share
        Share of the failures of GPUs and cards that find an idle GPU [1]; None without any.
    forecast
        Years of failures of the job, as it is without any.
    work_share
        Useful work of the years over that of the job on all GPUs without failures [1]; None where
        no plan fits. Without iteration times idle GPUs count by their share.
    """

    policy: str
    forecast: ReliabilityForecast
    idle_gpus: int = 0
    circuit_switches: int = 0
    single_mode_modules: int = 0
    circuit_ports: int = 0
    circuit_ports_used: int = 0
    circuit_power_w: float | None = None
    price: float | None = None
    price_complete: bool = True
    bandwidth_share: float | None = None
    iteration_time_s: float | None = None
    replaced_share: float | None = None
    work_share: float | None = None


def check_rails(spec: FabricSpec) -> None:
    """Refuse a fabric whose rails need no circuit switches, or that has none."""
    if not isinstance(spec, RailOnly):
        raise InputError(
            f"--policy reconfigure on {spec.name}: circuit switches bring an idle GPU onto a failed"
            " one's rail, which takes fabrics whose rails are apart: give --fabric rail-only, or a"
            " file with family: rail-only"
        )


def circuits(subject: Subject, model: SwitchModel, idle: int) -> Circuits:
    """Circuit switches that bring any of some idle GPUs of a domain onto any of its rails.

    Raises
    ------
    InputError
        If the job gets no GPU of a domain, fibres of one fit no switch, or there is no rail.

    Examples
    --------
    Domains of 8 take 16 of 136 ports: 8 on each of 16 switches.

    >>> from netplan import Scenario
    >>> from netplan.costing.switches import SWITCHES
    >>> from netplan.topologies.build import build_fabric
    >>> from netplan.topologies.specs import FABRICS
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=1024, radix=128)
    >>> spec, sizing = FABRICS.load("rail-only"), scenario.sizing
    >>> subject = Subject(spec, sizing, build_fabric(spec, sizing), None)
    >>> circuits(subject, SWITCHES.load("palomar"), 1)
    Circuits(switches=16, ports=2176, ports_used=2048, domains_each=8, power_w=1728.0)
    """
    check_rails(subject.spec)
    sizing, fabric = subject.sizing, subject.fabric
    if idle >= sizing.hb_size:
        raise InputError(
            f"--policy reconfigure with --spare-gpus {idle:,} in HB domains of {sizing.hb_size:,}"
            f" leaves the job no GPU: give --hb-size {idle + 1:,} or more, or fewer --spare-gpus"
        )
    if not fabric.switches or sizing.domains == 1:
        raise InputError(
            f"--policy reconfigure on {subject.spec.name}: one HB domain has no rails to switch:"
            " give more --gpus or a smaller --hb-size"
        )
    layer = _circuits(subject, model)
    if layer is None:
        raise InputError(
            f"--policy reconfigure: {ENDS_OF_A_LINK * sizing.hb_size:,} fibres of a domain must"
            f" meet on one switch, {model.name} has {model.cages:,} ports: give --hb-size up to"
            f" {model.cages // ENDS_OF_A_LINK:,}, or another --ocs"
        )
    return layer


def _circuits(subject: Subject, model: SwitchModel) -> Circuits | None:
    """Circuit switches of all domains; None where the fibres of one domain fit no switch."""
    sizing, fabric = subject.sizing, subject.fabric
    domains_each = model.cages // (ENDS_OF_A_LINK * sizing.hb_size)
    if not domains_each:
        return None
    switches = ceil_div(sizing.domains * fabric.ports_per_gpu, domains_each)
    return Circuits(
        switches=switches,
        ports=switches * model.cages,
        ports_used=ENDS_OF_A_LINK * fabric.nic_ports,
        domains_each=min(domains_each, sizing.domains),
        power_w=None if model.typical_w is None else switches * model.typical_w,
    )


def _behind(
    subject: Subject, layer: Circuits, assumed: Assumed, *, bought: Recovery, idle: int
) -> FailureEffects:
    """Effects of failures with idle GPUs in every domain and circuit switches on the host links."""
    effects, sizing = assumed.effects, subject.sizing
    units = dict(effects.units)
    modules = bought.single_mode_modules or units["host_transceiver"]
    links = subject.fabric.nic_ports
    # A link becomes two fibres, whatever it was.
    placed: tuple[tuple[Unit, Unit, int], ...] = (
        ("fibre", "host_fibre", ENDS_OF_A_LINK * links),
        ("transceiver", "host_transceiver", modules),
        ("copper_cable", "host_copper_cable", 0),
        ("dac", "host_dac", 0),
        ("aec", "host_aec", 0),
        ("aoc", "host_aoc", 0),
    )
    for whole, host, count in placed:
        units[whole] += count - units[host]
        units[host] = count
    units["circuit_switch"] = layer.switches
    lost = Effect(domains=layer.domains_each, whole=True)
    standing_by = idle_gpus(
        assumed.book,
        units,
        per_domain=idle,
        domains=sizing.domains,
        hb_size=sizing.hb_size,
        end=assumed.options.end,
    )
    of_units = {**effects.of_units, "circuit_switch": ((layer.switches, lost),)}
    return replace(effects, of_units=of_units, units=units, idle=standing_by)


def policies(
    subject: Subject,
    books: BillBooks,
    model: SwitchModel,
    assumed: Assumed,
    *,
    idle: int,
    gpu: Impact,
) -> tuple[Policy, ...]:
    """The job as it goes on without circuit switches, and with them.

    Parameters
    ----------
    subject, books
        A fabric of separate rails; prices and parts.
    model
        Model of the circuit switches.
    assumed
        What the years assume without them.
    idle
        GPUs of each domain that stand by [1].
    gpu
        What one failed GPU does without them.
    """
    layer = circuits(subject, model, idle)
    bought = _idle_gpus(subject, _bill(subject, books), books, model, idle)
    effects = _behind(subject, layer, assumed, bought=bought, idle=idle)
    years = reliability_forecast(
        subject.fabric, assumed.book, assumed.options, effects=effects, groups=assumed.groups
    )
    # The job has as many GPUs of each domain left as rails.
    left = (subject.sizing.hb_size - idle) / subject.sizing.hb_size
    work_share: float | None = years.goodput * left
    if subject.search:
        intact, fewer = subject.intact, subject.on_fewer_gpus(idle)
        work_share = years.goodput * intact.time_s / fewer.time_s if intact and fewer else None
    before = Policy(
        policy="wait" if assumed.options.wait else "go-on",
        forecast=assumed.today,
        bandwidth_share=gpu.bandwidth_share,
        iteration_time_s=gpu.iteration_time_s,
        work_share=assumed.today.goodput,
    )
    after = Policy(
        policy="reconfigure",
        forecast=years,
        idle_gpus=bought.idle_gpus,
        circuit_switches=layer.switches,
        single_mode_modules=bought.single_mode_modules,
        circuit_ports=layer.ports,
        circuit_ports_used=layer.ports_used,
        circuit_power_w=layer.power_w,
        price=bought.price,
        price_complete=bought.price_complete,
        bandwidth_share=left,
        iteration_time_s=bought.iteration_time_s,
        replaced_share=1 - effects.idle.missed if effects.idle else None,
        work_share=work_share,
    )
    return before, after
