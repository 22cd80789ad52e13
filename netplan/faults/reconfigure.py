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
lists of what is bought and the years are those of `netplan.faults.recoveries` and
`netplan.faults.forecast`; the power is that of the switches alone.
"""

from msgspec import Struct

from netplan.costing.fabric_bill import BillBooks
from netplan.costing.switches import SwitchModel
from netplan.errors import InputError
from netplan.faults.downtime import Effect
from netplan.faults.effects import FailureEffects
from netplan.faults.forecast import ForecastOptions, ReliabilityForecast, reliability_forecast
from netplan.faults.group_failures import GroupFailures
from netplan.faults.idle_gpus import idle_gpus
from netplan.faults.impact import Impact, Subject
from netplan.faults.link_parts import ENDS_OF_A_LINK
from netplan.faults.rates import FailureBook, Unit
from netplan.faults.recoveries import Recovery, reconfigured
from netplan.records import replace
from netplan.topologies.families.clos import ceil_div
from netplan.topologies.specs import FabricSpec


class Circuits(Struct, frozen=True):
    """Circuit switches between GPUs and rails [1], their ports, bought and in use.

    ``domains_each`` HB domains meet on one. Their power [W] is None where the model has none.
    """

    switches: int
    ports: int
    ports_used: int
    domains_each: int
    power_w: float | None


class Standby(Struct, frozen=True):
    """Idle GPUs in each HB domain [1], and the model of the circuit switches."""

    each: int
    circuit: SwitchModel


class Assumed(Struct, frozen=True):
    """What years of failures assume: options, failure rates, effects, groups that fail whole."""

    options: ForecastOptions
    book: FailureBook
    effects: FailureEffects
    groups: tuple[GroupFailures, ...]


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
    if spec.family != "rail-only":
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
    fibres = ENDS_OF_A_LINK * sizing.hb_size
    if fibres > model.cages:
        raise InputError(
            f"--policy reconfigure: {fibres:,} fibres of a domain must meet on one switch,"
            f" {model.name} has {model.cages:,} ports: give --hb-size up to"
            f" {model.cages // ENDS_OF_A_LINK:,}, or another --ocs"
        )
    each = model.cages // fibres
    pairs = sizing.domains * fabric.ports_per_gpu
    switches = ceil_div(pairs, each)
    return Circuits(
        switches=switches,
        ports=switches * model.cages,
        ports_used=ENDS_OF_A_LINK * fabric.nic_ports,
        domains_each=min(each, sizing.domains),
        power_w=None if model.typical_w is None else switches * model.typical_w,
    )


def _behind(
    subject: Subject, found: Circuits, assumed: Assumed, *, bought: Recovery, idle: int
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
    )
    for whole, host, count in placed:
        units[whole] += count - units[host]
        units[host] = count
    units["circuit_switch"] = found.switches
    lost = Effect(domains=found.domains_each, whole=True)
    standing_by = idle_gpus(
        assumed.book,
        units,
        each=idle,
        domains=sizing.domains,
        hb_size=sizing.hb_size,
        end=assumed.options.end,
    )
    of_units = {**effects.of_units, "circuit_switch": ((found.switches, lost),)}
    return replace(effects, of_units=of_units, units=units, idle=standing_by)


def policies(
    subject: Subject,
    books: BillBooks,
    standby: Standby,
    assumed: Assumed,
    *,
    gpu: Impact,
    today: ReliabilityForecast,
) -> tuple[Policy, ...]:
    """The job as it goes on without circuit switches, and with them.

    Parameters
    ----------
    subject, books
        A fabric of separate rails; prices and parts.
    standby, assumed
        What stands by, and what the years assume without it.
    gpu, today
        What one failed GPU does without it, and the years without it.
    """
    model, idle = standby.circuit, standby.each
    layer = circuits(subject, model, idle)
    bought = reconfigured(subject, books, model, idle)
    changed = _behind(subject, layer, assumed, bought=bought, idle=idle)
    years = reliability_forecast(
        subject.fabric, assumed.book, assumed.options, effects=changed, groups=assumed.groups
    )
    before = Policy(
        policy="wait" if assumed.options.wait else "go-on",
        forecast=today,
        bandwidth_share=gpu.bandwidth_share,
        iteration_time_s=gpu.iteration_time_s,
        work_share=today.goodput,
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
        bandwidth_share=_left(subject, idle),
        iteration_time_s=bought.iteration_time_s,
        replaced_share=1 - changed.idle.missed if changed.idle else None,
        work_share=_work(subject, idle, years.goodput),
    )
    return before, after


def _left(subject: Subject, idle: int) -> float:
    """Share of the GPUs of a domain, and so of its rails, that the job has [1]."""
    return (subject.sizing.hb_size - idle) / subject.sizing.hb_size


def _work(subject: Subject, idle: int, goodput: float) -> float | None:
    """Useful work without the idle GPUs over that of all GPUs [1]; None without a plan."""
    if not subject.search:
        return goodput * _left(subject, idle)
    intact, fewer = subject.intact, subject.on_fewer_gpus(idle)
    return goodput * intact.time_s / fewer.time_s if intact and fewer else None
