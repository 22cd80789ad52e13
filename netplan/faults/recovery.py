"""Ways to recover from a failed GPU, and what hardware each needs.

Wang et al. (arXiv:2307.12169), section 4.1, gives three for a rail-only network:

1. an idle GPU of the same HB domain takes over, brought onto the failed one's rail by optical
   circuit switches between GPUs and rail switches;
2. the whole HB domain moves to an idle one;
3. traffic is forwarded through HB domains, which needs no hardware but bandwidth.

A Clos that joins all rails needs no circuit switches for the first.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

from netplan.costing.bill import Cost, bill_cost, bill_of_materials
from netplan.costing.prices import PriceBook
from netplan.costing.switches import SwitchModel
from netplan.errors import InputError
from netplan.faults.impact import Subject
from netplan.topologies.build import build_fabric
from netplan.topologies.clos import ceil_div

ENDS_OF_A_LINK = 2


@dataclass(frozen=True, slots=True)
class Recovery:
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

    def to_dict(self) -> dict[str, Any]:
        """The recovery as JSON."""
        return asdict(self)


def recoveries(
    subject: Subject, prices: PriceBook, circuit: SwitchModel, forwarding_s: float | None
) -> tuple[Recovery, ...]:
    """All ways to recover that a fabric has.

    Parameters
    ----------
    subject
        The fabric.
    prices
        Prices of the extra hardware.
    circuit
        Model of the optical circuit switches.
    forwarding_s
        Time of an iteration while a GPU sends through its HB domain [s].

    Examples
    --------
    1,024 GPUs, a fibre from each and one to each rail switch port: 2,048 ports of 136.

    >>> from netplan.costing.prices import PRICE_BOOKS
    >>> from netplan.costing.switches import SWITCHES
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.topologies.specs import FABRICS
    >>> spec, sizing = FABRICS.load("rail-only"), Sizing(1024, 128, 8, 450e9, 50e9)
    >>> subject = Subject(spec, sizing, build_fabric(spec, sizing), None)
    >>> found = recoveries(subject, PRICE_BOOKS.load("2026"), SWITCHES.load("palomar"), None)
    >>> [(way.circuit_switches, way.extra_gpus) for way in found]
    [(16, 1), (0, 8), (0, 0)]
    """
    intact = subject.intact
    intact_s = intact.plans[0].iteration_time_s if intact else None
    found = [
        _idle_gpu(subject, prices, circuit, intact_s),
        _spare_domain(subject, prices, intact_s),
    ]
    if subject.sizing.hb_size > 1:
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
    if subject.fabric.network != "rail-only":
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


def _spare_domain(subject: Subject, prices: PriceBook, intact_s: float | None) -> Recovery | None:
    """One idle HB domain beside the job's, and the network that it needs."""
    size = subject.sizing.hb_size
    if not subject.fabric.tiers:
        return None  # a torus has no free port for one more
    try:
        larger = build_fabric(
            subject.spec, replace(subject.sizing, gpus=subject.sizing.gpus + size)
        )
    except InputError:
        return None  # such as groups that cannot be filled so far
    extra = larger.switches - subject.fabric.switches
    links = larger.link_count - subject.fabric.link_count
    costs = [bill_cost(bill_of_materials(one), prices) for one in (larger, subject.fabric)]
    return Recovery(
        way="the whole HB domain moves to an idle one",
        hardware=f"a domain of {size:,} idle GPUs, {extra:,} switches and {links:,} links",
        extra_gpus=size,
        extra_switches=extra,
        extra_links=links,
        price=_difference(*costs),
        iteration_time_s=intact_s,
    )


def _difference(more: Cost, less: Cost) -> float | None:
    return more.base - less.base if not more.unpriced else None
