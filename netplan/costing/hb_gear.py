"""Gear inside HB domains for every number of GPUs: switches, copper and optics, step by step.

Kept apart from the network of a cluster. A domain of K GPUs, each with B bytes/s one way into it,
is joined by ASICs of A bytes/s that have P ports, in racks of R GPUs (as the
accelerator's file says, else P):

=========  ==========================  ===================  =========  ==============
step       where                       ASICs                copper     optical hops
=========  ==========================  ===================  =========  ==============
board      K of a server               ceil(K B / A)        none       none
rack       K up to P and R             ceil(K B / A)        K B        none
optics     beyond                      ceil(K B (1+u) / A)  K B        K B u
=========  ==========================  ===================  =========  ==============

with u = 1 for no oversubscription, and beyond a rack a second tier of ceil(K B u / A) ASICs
(``clos``), or none where racks are joined directly (``all-to-all``). So the gear of a GPU costs the
same inside a step but for whole ASICs, and jumps only where the physics does: from the board to the
rack, and at the rack's limit from copper to optics.

What stands on the board of a server is in its price: it is shown, and added to no sum. Accelerators
that are joined by links of their own (MI300X, Trainium2) have no switch there.
"""

from collections.abc import Iterator
from math import ceil, inf
from typing import Literal

from msgspec import Struct

from netplan.arrays import ceil_div
from netplan.catalog import Catalog, Record, Sourced
from netplan.costing import pricing
from netplan.costing.materials import BillItem
from netplan.costing.prices import PriceBook, hb_kind
from netplan.costing.ranges import NOTHING, Estimate, Range
from netplan.records import PositiveFloat, PositiveInt
from netplan.topologies.fabric import Fabric
from netplan.units import GIGA, gbps
from netplan.workloads.accelerators import Housing

HB_GEAR_BOOK = "2026"
HB_GEAR_TOO = "hb-gear"
"""What is asked for with the network like one of its neighbours: the gear inside HB domains."""

SecondTier = Literal["clos", "all-to-all"]
GearStep = Literal["board", "rack", "optics"]
WHOLE = 1e-9
"""Share of an ASIC that is rounding, not another one [1]."""


class HbSwitch(Sourced, frozen=True, kw_only=True):
    """A switch ASIC of HB domains; ``bytes_per_s`` is its rate one way [B/s]."""

    name: str
    title: str
    bytes_per_s: PositiveFloat
    ports: PositiveInt
    accelerators: tuple[str, ...] = ()

    @property
    def port_bytes_per_s(self) -> float:
        """Rate of one port, one way [B/s]."""
        return self.bytes_per_s / self.ports


class HbGearBook(Record, frozen=True, kw_only=True):
    """What HB domains are joined by: ASICs by generation, steps, and power.

    ``board_gpus`` come inside a server where the accelerator's file says no other;
    ``oversubscription`` is what enters a rack over what leaves it.
    """

    board_gpus: PositiveInt
    board_source: str
    second_tier: SecondTier = "clos"
    oversubscription: PositiveFloat = 1
    usual: str
    switches: tuple[HbSwitch, ...]
    switch_w: Estimate
    switch_w_bytes_per_s: PositiveFloat
    optic_w: Estimate
    optic_w_bytes_per_s: PositiveFloat
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a usual switch that is none of the book."""
        names = [switch.name for switch in self.switches]
        if self.usual not in names:
            raise ValueError(f"usual: no switch {self.usual}; there are {', '.join(names)}")

    def switch_of(self, accelerator: str) -> HbSwitch:
        """The switch that joins an accelerator's HB domains; the usual one where none names it.

        Parameters
        ----------
        accelerator
            Its name in the catalog.

        Returns
        -------
        HbSwitch
            The switch.

        Examples
        --------
        >>> book = HB_GEAR_BOOKS.load("2026")
        >>> book.switch_of("gb200").name, "h100-80gb" in book.switch_of("h100-80gb").accelerators
        ('nvlink5', False)
        """
        named = (row for row in self.switches if accelerator in row.accelerators)
        usual = next(row for row in self.switches if row.name == self.usual)
        return next(named, usual)


HB_GEAR_BOOKS = Catalog("hb-gear", "costing/hb-gear", HbGearBook)


class HbParts(Struct, frozen=True):
    """What joins one full HB domain: ASICs, links and GB/s of copper, GB/s of optics [1, GB/s]."""

    step: GearStep
    asics_1: int
    asics_2: int
    copper_links: int
    copper_gb_s: float
    optic_gb_s: float


def hb_parts(
    hb_size: int,
    bytes_per_s: float,
    switch: HbSwitch,
    *,
    most: tuple[int, float] = (8, inf),
    up: float = 1.0,
    second_tier: SecondTier = "clos",
) -> HbParts:
    """Count what joins one HB domain.

    Parameters
    ----------
    hb_size
        GPUs of the domain, K [1].
    bytes_per_s
        Bandwidth of a GPU into it, one way, B [B/s].
    switch
        The ASIC.
    most
        GPUs of the largest domain on the board of a server, and of a rack [1].
    up
        What leaves a rack over what enters it, u [1].
    second_tier
        Switches between racks, or racks joined directly.

    Returns
    -------
    HbParts
        Of one domain that is full.

    Examples
    --------
    A rack of 72 GB200 has 18 ASICs and no optics; 576 need eight such racks of twice the ASICs,
    144 more between them, and light for all that leaves.

    >>> nvlink5 = HB_GEAR_BOOKS.load("2026").switch_of("gb200")
    >>> hb_parts(72, 900e9, nvlink5).asics_1
    18
    >>> parts = hb_parts(576, 900e9, nvlink5)
    >>> parts.asics_1, parts.asics_2, parts.optic_gb_s
    (288, 144, 518400.0)
    """
    inside, rate = hb_size * bytes_per_s, switch.bytes_per_s
    if hb_size <= most[0]:
        return HbParts("board", ceil(inside / rate - WHOLE), 0, 0, 0.0, 0.0)
    links = hb_size * ceil(bytes_per_s / switch.port_bytes_per_s - WHOLE)
    if hb_size <= min(switch.ports, most[1]):
        return HbParts("rack", ceil(inside / rate - WHOLE), 0, links, inside / GIGA, 0.0)
    out = inside * up
    second = ceil(out / rate - WHOLE) if second_tier == "clos" else 0
    return HbParts(
        "optics", ceil((inside + out) / rate - WHOLE), second, links, inside / GIGA, out / GIGA
    )


class DomainGear(Struct, frozen=True):
    """Gear inside the HB domains of one fabric, priced apart from its network.

    Parameters
    ----------
    quote
        What is bought beside the servers, line by line; nothing where all is on their boards.
    in_server
        What of it the servers' price holds.
    power
        What the bought gear draws [W].
    notes
        What was assumed.
    """

    quote: pricing.Quote
    in_server: Range = NOTHING
    power: Range = NOTHING
    notes: tuple[str, ...] = ()

    @property
    def bought(self) -> bool:
        """Whether any of it is bought beside the servers."""
        return bool(self.quote.items)

    @property
    def known(self) -> bool:
        """Whether all that is bought has a price."""
        return not self.quote.unpriced


class GearChoice(Struct, frozen=True):
    """Whose domains are joined, by which book, and whether their gear counts with the network.

    ``housing`` is the server or rack of the accelerator, as its file says.
    """

    book: HbGearBook
    accelerator: str = ""
    housing: Housing | None = None
    counted: bool = False

    @property
    def switch(self) -> HbSwitch:
        """The ASIC that joins the domains."""
        return self.book.switch_of(self.accelerator)

    @property
    def switched(self) -> bool:
        """Whether GPUs of a server are joined by switches, not by links of their own."""
        return self.housing is None or self.housing.switched

    @property
    def board(self) -> int:
        """GPUs of the largest HB domain that comes inside a server [1]."""
        of = self.housing
        return of.gpus if of and (of.units or not of.switched) else self.book.board_gpus

    @property
    def rack(self) -> int:
        """GPUs of the largest HB domain that copper joins in a rack [1]."""
        of, ports = self.housing, self.switch.ports
        return min(ports, of.gpus) if of and of.switched and not of.units else ports


def domain_gear(
    fabric: Fabric, choice: GearChoice | None, prices: PriceBook, currency: str = ""
) -> DomainGear:
    """Count and price what joins the HB domains of a fabric.

    A price book that prices the gear of domains of some size by the GPU, as an offer does, is
    taken at its word; else the parts are priced, each by its GB/s.

    Parameters
    ----------
    fabric
        The sized fabric.
    choice
        Accelerator and book; nothing is counted without.
    prices
        Prices of the parts.
    currency
        Currency of the quote; that of the prices if empty.

    Returns
    -------
    DomainGear
        Lines, prices, power and notes.

    Examples
    --------
    14,526 USD a GPU at 1,800 GB/s would be 7,263 USD at the 900 GB/s of a GB200.

    >>> from netplan import Scenario
    >>> from netplan.costing.prices import PRICE_BOOKS
    >>> fabric = Scenario.load("nvl72-gb200").replace(gpus=1152).fabric("rail-only").counts
    >>> choice = GearChoice(HB_GEAR_BOOKS.load("2026"), "gb200")
    >>> gear = domain_gear(fabric, choice, PRICE_BOOKS.load("2026"))
    >>> round(gear.quote.total.base / 1152, 2)
    7263.0
    """
    if choice is None:
        return DomainGear(pricing.price_bill((), prices, currency))
    offered = tuple(_offered(fabric, choice, prices))
    sizes = {size for size, _ in offered}
    lines = [line for _, line in offered]
    boards: list[BillItem] = []
    notes: list[str] = []
    power = NOTHING
    for size, gpus in domains_of(fabric):
        if size == 1 or size in sizes:
            continue
        made, draws, step = _lines(fabric, choice, size, gpus)
        (boards if step == "board" else lines).extend(made)
        power += draws
        notes.extend(_assumed(choice, size, step))
    quote = pricing.price_bill(lines, prices, currency)
    inside = pricing.price_bill(boards, prices, currency).total
    return DomainGear(quote, inside, power, tuple(dict.fromkeys(notes)))


def domains_of(fabric: Fabric) -> tuple[tuple[int, int], ...]:
    """Sizes of a fabric's HB domains, each with the GPUs in domains of it [1].

    Parameters
    ----------
    fabric
        The sized fabric.

    Returns
    -------
    tuple of pairs of int
        Size and GPUs.
    """
    sizing = fabric.sizing
    return fabric.domain_gpus or ((sizing.hb_size, sizing.gpus),)


def _offered(
    fabric: Fabric, choice: GearChoice, prices: PriceBook
) -> Iterator[tuple[int, BillItem]]:
    """Lines of sizes that the price book prices by the GPU; a price for all is of no server."""
    for size, gpus in domains_of(fabric):
        kind = hb_kind(size)
        kinds = (kind, "") if size > choice.board else (kind,)
        if size == 1 or prices.price("hb_gear", None, *kinds) is None:
            continue
        line = BillItem(
            category="hb-gear",
            item=f"Gear inside HB domains of {size:,} GPUs",
            specification="switches, cables and boards of the high-bandwidth domain",
            quantity=gpus,
            unit="GPU",
            part="hb_gear",
            speed_gbps=fabric.sizing.speed_gbps,
            kinds=(kind,),
            notes=(f"{ceil_div(gpus, size):,} domains",),
        )
        yield size, line


def _lines(
    fabric: Fabric, choice: GearChoice, size: int, gpus: int
) -> tuple[list[BillItem], Range, GearStep]:
    """Lines of the domains of one size, what they draw [W], and their step."""
    book, switch, rate = choice.book, choice.switch, fabric.sizing.hb_bytes_per_s
    parts = hb_parts(
        size,
        rate,
        switch,
        most=(choice.board, choice.rack),
        up=1 / book.oversubscription,
        second_tier=book.second_tier,
    )
    if parts.step == "board" and not choice.switched:
        return [], NOTHING, parts.step
    domains = ceil_div(gpus, size)
    carried = round(switch.bytes_per_s / GIGA)
    joined, where = f"HB domains of {size:,}", f"{domains:,} domains"
    speed = fabric.sizing.speed_gbps

    watts = {
        "hb-switch": switch.bytes_per_s / book.switch_w_bytes_per_s * book.switch_w.range,
        "hb-copper": NOTHING,
        "hb-optic": 2 * GIGA / book.optic_w_bytes_per_s * book.optic_w.range,
    }

    def line(kind: str, item: str, quantity: int, unit: str, note: str) -> BillItem:
        whole = carried if unit == "ASIC" else 1
        return BillItem(
            category="hb-gear",
            item=f"{item}, {joined}",
            specification=f"{switch.title}, {8 * switch.bytes_per_s / 1e12:g} Tb/s each way"
            if unit == "ASIC"
            else f"{gbps(rate):,.6g} Gb/s a GPU, one way",
            quantity=quantity,
            unit=unit,
            part="hb_gear",
            speed_gbps=speed,
            price_units=whole,
            kinds=(kind,),
            notes=(where, note),
            typical_w=watts[kind].base if kind in watts else None,
        )

    first = domains * parts.asics_1
    if parts.step == "board":
        note = "on the board of the servers, in their price"
        made = [line("hb-board", "Switches on boards", first, "ASIC", note)]
        return made, NOTHING, parts.step
    second = domains * parts.asics_2
    copper, optic = (
        ceil(gpus / size * rate - WHOLE) for rate in (parts.copper_gb_s, parts.optic_gb_s)
    )  # of the GPUs that there are, also where the last domain is not full
    links = f"{gpus * parts.copper_links // size:,} links"
    made = [
        line("hb-switch", "Scale-up switches", first, "ASIC", f"{parts.asics_1:,} a domain"),
        line(
            "hb-switch", "Scale-up switches, tier 2", second, "ASIC", f"{parts.asics_2:,} a domain"
        ),
        line("hb-copper", "Copper backplanes", copper, "GB/s", links),
        line("hb-optic", "Optical hops", optic, "GB/s", "two modules of 1.6T for 200 GB/s"),
    ]
    power = (first + second) * watts["hb-switch"] + optic * watts["hb-optic"]
    return [row for row in made if row.quantity], power, parts.step


def _assumed(choice: GearChoice, size: int, step: GearStep) -> Iterator[str]:
    """What stands in for what nobody sells or prints."""
    switch, chip = choice.switch, choice.accelerator
    if step == "board" and not choice.switched:
        yield f"HB domains of {size:,} {chip} are joined by links of their own, without a switch."
    elif chip and chip not in switch.accelerators:
        yield (
            f"HB domains of {size:,} {chip} are counted with the ASICs of {switch.title}, an"
            " assumption."
        )
    elif switch.evidence != "shipping":
        yield f"HB domains of {size:,}: {switch.title} is {switch.evidence}."
