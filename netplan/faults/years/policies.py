"""What a job does after a failed GPU: go on without its domain, or let spares take its place.

Wang et al. (arXiv:2307.12169), section 4.1, has two policies beside that of going on. It prints no
count of switches or ports; how blocks, their places and spares meet on circuit switches is that of
:mod:`netplan.topologies.rail_circuits`. We read them so:

``reconfigure``, "single GPU failures with idle GPU in the HB domain"
    Of the K GPUs of each of D present HB domains, s stand by idle from the start, spread over the
    domain's circuit switches, whatever their rank. The job has K - s of each, and as many rails:
    (K - s)/K of the bandwidth between domains, before a failure and after it. Inside the domain an
    idle GPU reaches all others already. The p links of every GPU to its rails are switched, and
    nothing inside HB domains or among rail switches: blocks of one GPU and p fibres.
``replace``, "single GPU failure in fully occupied HB domains"
    The job has all GPUs. Blocks of b more stand by outside its domains. "For smaller HB domain
    designs (e.g., K = 8 with DGX servers)" the block is the domain: its K p links to the rails are
    switched. "For larger HB domains (e.g., GH200 supercomputers with K = 256)", which are
    "composed of a multi-tiered topology with an optical core-layer", it is "a small set of GPUs
    (including the failed one)", such as those of a tray: between the trays of a domain and its core
    the b B / r links of rate r that carry the B bytes/s of its GPUs are switched, too, so that a
    block has b p + b B / r fibres.

What else fails: a circuit switch in front of rails takes all domains on it from the job, one inside
domains a fibre of every block: they go on slower by no more than that fibre's share. A failed fibre
or module at either side of a circuit takes the link. That a failed GPU stops the job to start it
again from its checkpoint stays; the circuits turn within that restart. A link becomes two fibres. A
failure that finds no spare takes its domain from the job, as without the policy.

Left out: the gear of the spare blocks, which the bill of the network has not either; that links
inside domains are of fibre in any case; and their fibres' failures, which the book has in its row
of the gear. The power is that of the circuit switches alone.
"""

from math import ceil

from msgspec import Struct

from netplan.costing.fabric_bill import BillBooks
from netplan.costing.hb_gear import WHOLE
from netplan.costing.switches import SwitchModel
from netplan.errors import InputError
from netplan.faults.damage.impact import Impact, Subject
from netplan.faults.years import recoveries
from netplan.faults.years.effects import FailureEffects, idle_gpus
from netplan.faults.years.forecast import ForecastOptions, ReliabilityForecast, reliability_forecast
from netplan.faults.years.group_failures import GroupFailures
from netplan.faults.years.outages import Effect
from netplan.faults.years.rates import ENDS_OF_A_LINK, FailureBook, Unit
from netplan.inputs.choices import AfterFailure
from netplan.records import replace
from netplan.topologies.families.switched import RailOnly
from netplan.topologies.rail_circuits import CircuitPlan
from netplan.topologies.specs import FabricSpec

GO_ON, RECONFIGURE, REPLACE = "go-on", "reconfigure", "replace"


class SparesPolicy(Struct, frozen=True):
    """Which spares a policy has.

    ``spare_gpus`` stand by in every domain, or beside the domains that share circuit switches;
    None for one a circuit switch, or one block. A block has ``block_gpus`` [1].
    """

    policy: AfterFailure
    model: SwitchModel
    block_gpus: int = 1
    spare_gpus: int | None = None


class PolicyCase(Struct, frozen=True):
    """A fabric, what its years of failures assume without circuit switches, and these years."""

    subject: Subject
    books: BillBooks
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
        ``go-on``, ``wait``, ``reconfigure`` or ``replace``.
    idle_gpus, extra_gpus
        GPUs of the present ones that stand by in their domains, and spare ones beside them [1].
    circuit_switches, single_mode_modules, circuit_ports, circuit_ports_used
        Circuit switches, modules of the links through them, and their ports, bought and in use [1].
    circuits_inside
        Those of the circuit switches that are inside HB domains [1].
    block_gpus, set_gpus
        GPUs that move as a whole, and GPUs of a domain whose place a spare may take [1].
    set_domains
        HB domains that share spares and circuit switches [1].
    circuit_power_w
        Power of the circuit switches [W]; None where the model has none.
    price, price_complete
        Base price that it adds to the fabric's own bill, and whether all has one. Idle GPUs are on
        that bill: what they cost is work that is not done.
    bandwidth_share, iteration_time_s
        Bandwidth of the worst pair of HB domains [1], and time of an iteration [s], after a failed
        GPU; None where there is none.
    replaced_share
        Share of the failures of what spares may replace that find one [1]; None without any.
    forecast
        Years of failures of the job, as it is without any.
    work_share
        Useful work of the years over that of the job on all GPUs without failures [1]; None where
        no plan fits. Without iteration times idle GPUs count by their share.
    """

    policy: str
    forecast: ReliabilityForecast
    idle_gpus: int = 0
    extra_gpus: int = 0
    circuit_switches: int = 0
    circuits_inside: int = 0
    single_mode_modules: int = 0
    circuit_ports: int = 0
    circuit_ports_used: int = 0
    block_gpus: int = 0
    set_gpus: int = 0
    set_domains: int = 0
    circuit_power_w: float | None = None
    price: float | None = None
    price_complete: bool = True
    bandwidth_share: float | None = None
    iteration_time_s: float | None = None
    replaced_share: float | None = None
    work_share: float | None = None


def check_rails(spec: FabricSpec, policy: str = RECONFIGURE) -> None:
    """Refuse a fabric whose rails need no circuit switches, or that has none."""
    if not isinstance(spec, RailOnly):
        raise InputError(
            f"--policy {policy} on {spec.name}: circuit switches bring an idle GPU onto a failed"
            " one's rail, which takes fabrics whose rails are apart: give --fabric rail-only, or a"
            " file with family: rail-only"
        )


def links_inside(subject: Subject, block_gpus: int) -> int:
    """Links of a block into the optical core of its domain, at the rate of the network's [1].

    Examples
    --------
    Eight GPUs of 450 GB/s need 72 links of 50 GB/s; a whole domain has none.

    >>> from netplan import Scenario
    >>> from netplan.topologies.build import build_fabric
    >>> from netplan.topologies.specs import FABRICS
    >>> spec = FABRICS.load("rail-only")
    >>> sizing = Scenario.load("hgx-h100").replace(gpus=16384, radix=64, hb_size=256).sizing
    >>> subject = Subject(spec, sizing, build_fabric(spec, sizing), None)
    >>> links_inside(subject, 8), links_inside(subject, 256)
    (72, 0)
    """
    sizing = subject.sizing
    if block_gpus == sizing.hb_size:
        return 0
    return ceil(block_gpus * sizing.hb_bytes_per_s / sizing.network_bytes_per_s - WHOLE)


def circuits(subject: Subject, asked: SparesPolicy) -> CircuitPlan:
    """Circuit switches of a policy.

    Parameters
    ----------
    subject
        A fabric of separate rails.
    asked
        Policy, spares, and model of the switches.

    Raises
    ------
    InputError
        If the job gets no GPU of a domain, blocks do not fit it or the switches, or there is no
        rail.

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
    >>> palomar = SWITCHES.load("palomar")
    >>> circuits(subject, SparesPolicy("reconfigure", palomar)).switches
    16

    Whole domains take a port on each of their eight rails, 67 of them and a spare one on a switch.

    >>> plan = circuits(subject, SparesPolicy("replace", palomar, block_gpus=8))
    >>> plan.switches, plan.spare_blocks, plan.domains_each
    (16, 2, 67)
    """
    check_rails(subject.spec, asked.policy)
    sizing, flag = subject.sizing, f"--policy {asked.policy}"
    if not recoveries.needs_circuits(subject):
        raise InputError(
            f"{flag} on {subject.spec.name}: one HB domain has no rails to switch:"
            " give more --gpus or a smaller --hb-size"
        )
    if asked.policy == REPLACE:
        return _of_blocks(subject, asked)
    idle = asked.spare_gpus or 1
    if idle >= sizing.hb_size:
        raise InputError(
            f"{flag} with --spare-gpus {idle:,} in HB domains of {sizing.hb_size:,}"
            f" leaves the job no GPU: give --hb-size {idle + 1:,} or more, or fewer --spare-gpus"
        )
    return recoveries.rail_plan(subject, asked.model)


def _of_blocks(subject: Subject, asked: SparesPolicy) -> CircuitPlan:
    """Circuit switches of all fibres of blocks, those into the core of their domain too."""
    sizing, block, model = subject.sizing, asked.block_gpus, asked.model
    if sizing.hb_size % block:
        raise InputError(
            f"--policy replace moves blocks of {block:,} GPUs, got HB domains of"
            f" {sizing.hb_size:,}: give a --block-gpus that divides --hb-size"
        )
    if sizing.gpus % sizing.hb_size:
        raise InputError(
            f"--policy replace needs whole HB domains of {sizing.hb_size:,}, got {sizing.gpus:,}"
            f" GPUs: give {sizing.gpus - sizing.gpus % sizing.hb_size:,} or"
            f" {sizing.domains * sizing.hb_size:,} --gpus"
        )
    spare_gpus = asked.spare_gpus or block
    if spare_gpus % block:
        raise InputError(
            f"--spare-gpus {spare_gpus:,} stand by in blocks of {block:,}: give a multiple of"
            f" {block:,}, or another --block-gpus"
        )
    plan = CircuitPlan(
        model.cages,
        sizing.domains,
        sizing.hb_size // block,
        block * subject.fabric.ports_per_gpu + links_inside(subject, block),
        spare_gpus // block,
    )
    if not plan.fits:
        most = (model.cages - ENDS_OF_A_LINK) * block
        raise InputError(
            f"--spare-gpus {spare_gpus:,}: {model.name} has {model.cages:,} ports, two of them for"
            f" a block and its place: give at most {most:,}, or another --ocs"
        )
    return plan


def policies(case: PolicyCase, *, asked: SparesPolicy, gpu: Impact) -> tuple[Policy, ...]:
    """The job as it goes on without circuit switches, and with them.

    Parameters
    ----------
    case
        A fabric of separate rails, prices, and what the years assume without them.
    asked
        Policy, spares, and model of the switches.
    gpu
        What one failed GPU does without them.
    """
    subject, today = case.subject, case.today
    plan = circuits(subject, asked)
    before = Policy(
        policy="wait" if case.options.wait else GO_ON,
        forecast=today,
        bandwidth_share=gpu.bandwidth_share,
        iteration_time_s=gpu.iteration_time_s,
        work_share=today.goodput,
    )
    block_gpus = subject.sizing.hb_size // plan.blocks
    # The last domain may be filled in part.
    used = plan.ports_used if plan.spares else ENDS_OF_A_LINK * subject.fabric.nic_ports
    added, known = recoveries.added_by_circuits(subject, case.books, asked.model, plan)
    after = Policy(
        policy=asked.policy,
        forecast=today,
        circuit_switches=plan.switches,
        circuit_ports=plan.ports,
        circuit_ports_used=used,
        circuit_power_w=asked.model.typical_w and plan.switches * asked.model.typical_w,
        block_gpus=block_gpus,
        set_gpus=plan.largest * block_gpus,
        set_domains=plan.domains_each if plan.spares else 1,
        price=added,
        price_complete=known,
    )
    make = _replaced if plan.spares else _reconfigured
    return before, make(case, asked, plan, after)


def _reconfigured(
    case: PolicyCase, asked: SparesPolicy, plan: CircuitPlan, policy: Policy
) -> Policy:
    """Idle GPUs in every domain, one a circuit switch if nothing else is said."""
    subject, books = case.subject, case.books
    idle = asked.spare_gpus or min(plan.sets, subject.sizing.hb_size - 1)
    bought = recoveries.behind_rails(subject, None, books, asked.model, idle=idle)
    effects = _behind(case, plan, bought.single_mode_modules, idle=idle)
    policy = _with_forecast(case, policy, effects)
    # The job has as many GPUs of each domain left as rails.
    left = (subject.sizing.hb_size - idle) / subject.sizing.hb_size
    goodput = policy.forecast.goodput
    work_share: float | None = goodput * left
    if subject.search:
        intact, fewer = subject.intact, subject.on_fewer_gpus(idle)
        work_share = goodput * intact.time_s / fewer.time_s if intact and fewer else None
    return replace(
        policy,
        idle_gpus=bought.idle_gpus,
        single_mode_modules=bought.single_mode_modules,
        bandwidth_share=left,
        iteration_time_s=bought.iteration_time_s,
        work_share=work_share,
    )


def _replaced(case: PolicyCase, asked: SparesPolicy, plan: CircuitPlan, policy: Policy) -> Policy:
    """Spare blocks beside domains that the job fills."""
    subject, books = case.subject, case.books
    fabric, sizing = subject.fabric, subject.sizing
    block_gpus = policy.block_gpus
    extra, inside = plan.spare_blocks * block_gpus, links_inside(subject, block_gpus)
    lit = asked.model.form == recoveries.SINGLE_MODE
    modules = ENDS_OF_A_LINK * fabric.nic_ports if lit else 0
    hosts = plan.domains * plan.blocks * block_gpus * fabric.ports_per_gpu
    through = plan.domains * plan.blocks * plan.fibres - hosts
    spare_fibres = plan.spare_blocks * plan.fibres
    # A spare block has the card, the module at it, and its share of both for the core, too.
    prices = books.prices
    bought = [(spare_fibres, prices.price("transceiver", sizing.speed_gbps))] if lit else []
    # Links into the core of a domain are on no bill: each takes a second fibre.
    fibre = prices.price("fibre", None, recoveries.PAIR_OF_FIBRES)
    if fibre is not None:
        bought.append((through + spare_fibres, fibre))
    if books.cards:
        cards = extra * fabric.cards // sizing.gpus
        bought.append((cards, prices.price("nic_port", sizing.card_gbps)))
    length_m = books.cabling.length("host", "optical").length_m
    more = [
        prices.offer(row, count, length_m=length_m).base * count for count, row in bought if row
    ]
    effects = _behind(case, plan, modules, idle=0, inside=inside / plan.fibres)
    policy = _with_forecast(case, policy, effects)
    intact = subject.intact
    return replace(
        policy,
        extra_gpus=extra,
        circuits_inside=plan.switches * inside // plan.fibres,
        single_mode_modules=modules + (spare_fibres if lit else 0),
        price=None if policy.price is None else sum(more, policy.price),
        price_complete=policy.price_complete and len(more) == len(bought),
        bandwidth_share=1.0,
        iteration_time_s=intact.time_s if intact else None,
        work_share=policy.forecast.goodput,
    )


def _with_forecast(case: PolicyCase, policy: Policy, effects: FailureEffects) -> Policy:
    """The policy with the years of its job, and how many failures find a spare."""
    forecast = reliability_forecast(
        case.subject.fabric, case.book, case.options, effects=effects, groups=case.groups
    )
    replaced = 1 - effects.idle.missed if effects.idle else None
    return replace(policy, forecast=forecast, replaced_share=replaced)


def _behind(
    case: PolicyCase, plan: CircuitPlan, modules: int, *, idle: int, inside: float = 0.0
) -> FailureEffects:
    """Effects of failures with circuit switches on the host links and spares behind them.

    ``inside`` is the share of the circuit switches that are inside HB domains [1].
    """
    effects, links = case.effects, case.subject.fabric.nic_ports
    units = dict(effects.units)
    # A link becomes two fibres, whatever it was.
    placed: tuple[tuple[Unit, Unit, int], ...] = (
        ("fibre", "host_fibre", ENDS_OF_A_LINK * links),
        ("transceiver", "host_transceiver", modules or units["host_transceiver"]),
        ("copper_cable", "host_copper_cable", 0),
        ("dac", "host_dac", 0),
        ("aec", "host_aec", 0),
        ("aoc", "host_aoc", 0),
    )
    for whole, host, count in placed:
        units[whole] += count - units[host]
        units[host] = count
    units["circuit_switch"] = plan.switches
    in_domains = round(plan.switches * inside)
    taken, fibres = Effect(domains=plan.domains_each, whole=True), round(plan.fibres * inside)
    slower = Effect(all_gpus=True, slowdown=1 / (fibres - 1)) if fibres > 1 else taken
    lost = tuple(
        (number, effect)
        for number, effect in ((plan.switches - in_domains, taken), (in_domains, slower))
        if number
    )
    standing_by = idle_gpus(case.book, units, plan=plan, idle=idle, end=case.options.end)
    of_units = {**effects.of_units, "circuit_switch": lost}
    return replace(effects, of_units=of_units, units=units, idle=standing_by)
