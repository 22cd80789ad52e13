"""Price books: what one part costs, as a range, with currency, date, source and evidence.

A book is in one currency. A row may be in another where the book has a dated rate for it. What a
buyer pays for one unit is the row at its length, its quantity break, the book's discount and the
rate, in this order (:meth:`PriceBook.offer`). A cable costs base + per_metre x stock length.

Power books: what one part of a network draws.
"""

from functools import cached_property
from itertools import pairwise
from math import isclose
from typing import Annotated, Literal

from msgspec import Meta, field, structs

from netplan.catalog import Catalog, Record, Sourced
from netplan.costing.ranges import Estimate, Range
from netplan.errors import CatalogError, one_line
from netplan.inputs.choices import Cooling, Evidence
from netplan.records import Entry, NonNegativeFloat, PositiveFloat, PositiveInt

Part = Literal[
    "switch_port",
    "switch",
    "transceiver",
    "copper_cable",
    "active_copper_cable",
    "optical_cable",
    "fibre",
    "nic_port",
    "ocs_port",
    "hb_gear",
    "rack",
    "installation",
    "memory",
    "accelerator",
    "coherent_module",
    "amplifier",
    "lit_fibre",
]

BASIS: dict[str, str] = {
    "switch_port": "port",
    "nic_port": "port",
    "ocs_port": "port",
    "hb_gear": "GPU",
    "memory": "GB",
}
"""What one unit of a part is; each one, of the others."""

PART_NAMES: dict[str, str] = {
    "switch_port": "switch ports",
    "switch": "switches",
    "transceiver": "transceivers",
    "copper_cable": "copper cables",
    "active_copper_cable": "active copper cables",
    "optical_cable": "optical cables",
    "fibre": "fibre cables",
    "nic_port": "network card ports",
    "ocs_port": "ports of optical circuit switches",
    "hb_gear": "GPUs' HB-domain gear",
    "rack": "racks",
    "installation": "cables laid",
    "memory": "GB of expanded memory",
    "accelerator": "accelerators",
    "coherent_module": "coherent modules",
    "amplifier": "amplifiers",
    "lit_fibre": "fibre pairs between sites",
}
"""Units of each part in words."""

PART_WORDS: dict[str, tuple[str, str]] = {
    "switches": ("switch", "switches"),
    "transceivers": ("module", "modules"),
    "cables": ("cable", "cables"),
    "cards": ("network card", "network cards"),
    "circuits": ("optical circuit switch", "optical circuit switches"),
    "hb-gear": ("gear inside HB domains", "gear inside HB domains"),
    "racks": ("rack", "racks"),
    "installation": ("cable laid", "cables laid"),
    "memory": ("expanded memory", "expanded memory"),
    "accelerators": ("accelerator", "accelerators"),
    "long-haul": ("part between sites", "parts between sites"),
}
"""Categories of a bill in words, one and several."""


BESIDE = frozenset({"memory", "accelerator"})
"""Parts that are no network's, priced by model: a kind of memory, an accelerator of the catalog."""

PER_GB_S = frozenset({"hb-switch", "hb-board", "hb-copper", "hb-optic"})
"""Parts of the gear inside HB domains, priced by the GB/s one way; that of a size by the GPU."""

SPEEDLESS = BESIDE | frozenset(
    {"fibre", "ocs_port", "hb_gear", "rack", "installation", "amplifier", "lit_fibre"}
)
"""Parts whose price does not depend on the link rate."""

HB_KIND = "hb-"
"""Start of the names of gear inside HB domains."""

US_DOLLAR = "USD"
Currency = Annotated[str, Meta(pattern=r"^[A-Z]{3}$")]


class Rate(Entry, frozen=True, kw_only=True):
    """Exchange rate of a currency: how many units one US dollar buys, on a date."""

    per_usd: PositiveFloat
    date: str
    source: str


class Break(Entry, frozen=True, kw_only=True):
    """Quantity break: the base price of a unit from this quantity on, for the whole order."""

    quantity: PositiveInt
    price: NonNegativeFloat


QuotedKind = Literal["list", "street", "volume", "analyst", "rental", "estimate"]
"""Who asks a price: a shop for one piece, a dealer, a maker for thousands, ..."""


class Quoted(Entry, frozen=True, kw_only=True):
    """Quotations of `quotations.csv` that a row is the median of, or the line through them.

    All are of one ``kind``, in US dollars, for ``units`` units of the row each; ``of`` are their
    models, ``count`` how many there are.
    """

    kind: QuotedKind
    of: tuple[str, ...]
    speed_gbps: PositiveFloat | None = None
    count: PositiveInt
    units: PositiveInt = 1


class PerMetre(Entry, frozen=True, kw_only=True):
    """What every metre of a cable adds to its price, and how far quotations reach [m].

    A missing end is the base.
    """

    base: NonNegativeFloat
    low: NonNegativeFloat | None = None
    high: NonNegativeFloat | None = None
    to_m: PositiveFloat

    @property
    def range(self) -> Range:
        """Price of a metre [currency]."""
        return Range.around(self.low, self.base, self.high)


class Quotation(Entry, frozen=True, kw_only=True):
    """What one source says a part costs, as its page prints it.

    ``amount`` is for ``units`` units of the row, in the row's currency: a twin-port module of
    1,200 USD is two ends of a link. ``what`` is the product, ``page`` where it was read.
    """

    amount: NonNegativeFloat
    units: PositiveInt = 1
    what: str = ""
    date: str
    source: str
    page: str = ""

    @property
    def price(self) -> float:
        """Price of one unit of the row [currency].

        Examples
        --------
        >>> Quotation(amount=1200, units=2, date="2025", source="a shop").price
        600.0
        """
        return self.amount / self.units


Trust = str
"""How a price is known, in words: ``three sources``, ``one source``, ``derived``, ..."""

OWN_FIGURE, DERIVED, ASSUMPTION = "own figure", "derived", "assumption"
ROUNDED = 1e-3
"""Rounding by which a price and a quotation are the same [1]."""
COUNTS = {1: "one source", 2: "two sources", 3: "three sources", 4: "four sources"}


class Price(Entry, frozen=True, kw_only=True):
    """Price of one part at one speed.

    ``unit`` is a currency per basis, for example ``USD/port``. ``low`` and ``high`` are left out
    where no source states a spread; the answer then has none. ``model`` names one product, such
    as a switch of the catalog, or a kind of it (:attr:`BillItem.kinds`); without it the row stands
    for all makes. Gear inside HB domains of one size has the number of GPUs that one joins, too.

    ``sources`` are the quotations that low, base and high are taken from; ``date`` and ``source``
    sum them up, and may be left out beside them. ``quoted`` names quotations that stand in a table
    of their own instead. ``derived`` says how the price follows from others, ``assumption`` what
    had to be assumed, ``evidence`` what it is made of. A cable that is sold by length has
    ``per_metre``; base, low and high are then those of no length.
    """

    part: Part
    model: str = ""
    hb_size: PositiveInt | None = None
    speed_gbps: PositiveFloat | None = None
    unit: str
    base: NonNegativeFloat
    low: NonNegativeFloat | None = None
    high: NonNegativeFloat | None = None
    per_metre: PerMetre | None = None
    breaks: tuple[Break, ...] = ()
    date: str = ""
    source: str = ""
    sources: tuple[Quotation, ...] = ()
    quoted: Quoted | None = None
    derived: str = ""
    assumption: str = ""
    evidence: Evidence | None = None
    confidence: Literal["high", "medium", "low"]
    note: str = ""

    def __post_init__(self) -> None:
        """Refuse a price of no source, and a range or quantity breaks out of order."""
        if not self.sources and not (self.date and self.source):
            raise ValueError(f"{self.what} needs a date and a source, or sources that have both")
        # A row is frozen once it is made; this is part of its making.
        if not self.date:
            structs.force_setattr(self, "date", max(row.date for row in self.sources))
        if not self.source:
            texts = dict.fromkeys(row.source for row in self.sources)
            structs.force_setattr(self, "source", "; ".join(texts))
        for row in (self, *([self.per_metre] if self.per_metre else ())):
            if not Range.around(row.low, row.base, row.high).rising:
                raise ValueError(
                    f"prices run low <= base <= high, got {row.low}, {row.base}, {row.high}"
                )
        steps = [(1, self.base), *((step.quantity, step.price) for step in self.breaks)]
        for (few, dear), (many, cheap) in pairwise(steps):
            if many <= few or cheap > dear:
                raise ValueError(
                    f"breaks run to larger quantities and lower prices, got {many:,} at {cheap:g}"
                    f" after {few:,} at {dear:g}"
                )

    @property
    def trust(self) -> Trust:
        """How the price is known.

        Examples
        --------
        >>> one = Quotation(amount=8, date="2026", source="a shop")
        >>> two = one.changed(amount=9, source="another")
        >>> row = Price(part="rack", unit="USD/each", base=8, sources=(one, two), confidence="low")
        >>> row.trust, row.changed(base=7.0).trust, row.changed(derived="2 x 4").trust
        ('two sources', 'own figure', 'derived')
        """
        if self.assumption or self.evidence == "assumed":
            return ASSUMPTION
        if self.derived or self.evidence == "derived":
            return DERIVED
        if self.quoted is not None:
            return COUNTS.get(self.quoted.count, f"{self.quoted.count} sources")
        if self.sources and not any(
            isclose(self.base, source.price, rel_tol=ROUNDED) for source in self.sources
        ):
            return OWN_FIGURE
        sources = len({source.source for source in self.sources}) or 1
        return COUNTS.get(sources, f"{sources} sources")

    @property
    def kind(self) -> str:
        """Name under which a bill asks for it: its model, or the HB domains that it joins.

        Examples
        --------
        >>> row = Price(part="hb_gear", model="nvl72", hb_size=72, unit="USD/GPU", base=7000,
        ...             date="2026", source="an offer", confidence="low")
        >>> row.kind, row.what
        ('hb-72', 'hb_gear nvl72')
        """
        return self.model if self.hb_size is None else hb_kind(self.hb_size)

    @property
    def currency(self) -> str:
        """Currency of the row."""
        return self.unit.partition("/")[0]

    @property
    def what(self) -> str:
        """The part in words, for messages."""
        speed = "" if self.speed_gbps is None else f" at {self.speed_gbps:g} Gb/s"
        return f"{self.part}{' ' if self.model else ''}{self.model}{speed}"

    def range_at(self, quantity: int, length_m: float = 0.0) -> Range:
        """Price of one unit in an order of this quantity; a break moves low and high alike.

        Parameters
        ----------
        quantity
            Units in the order [1].
        length_m
            Stock length of a cable, which only prices by the metre depend on [m].

        Returns
        -------
        Range
            Low, base and high price [the row's currency].

        Examples
        --------
        >>> row = Price(part="rack", unit="USD/each", base=10, high=20, date="2026",
        ...             source="an offer", confidence="low", breaks=(Break(quantity=5, price=8),))
        >>> row.range_at(4), row.range_at(5)
        (Range(low=10, base=10, high=20), Range(low=8.0, base=8.0, high=16.0))
        >>> cable = row.changed(part="fibre", per_metre=PerMetre(base=2, to_m=30), breaks=())
        >>> cable.range_at(1, 15)
        Range(low=40, base=40, high=50)
        """
        full = Range.around(self.low, self.base, self.high)
        if self.per_metre is not None:
            full += length_m * self.per_metre.range
        reached = [step.price for step in self.breaks if quantity >= step.quantity]
        if not reached or not self.base:
            return full
        return (reached[-1] / self.base) * full


def hb_kind(hb_size: int) -> str:
    """Name of the gear inside HB domains, in a price book.

    Parameters
    ----------
    hb_size
        GPUs of a domain [1].

    Returns
    -------
    str
        The kind of its price row.
    """
    return f"{HB_KIND}{hb_size}"


def hb_size_of(kind: str) -> int:
    """GPUs of the HB domains whose gear has this name.

    Parameters
    ----------
    kind
        The kind of a price row.

    Returns
    -------
    int
        GPUs of a domain [1].

    Examples
    --------
    >>> hb_size_of(hb_kind(72))
    72
    """
    return int(kind.removeprefix(HB_KIND))


_PriceKey = tuple[str, float | None, str]
"""Part, speed [Gb/s] and kind of a row."""


def _by_key(prices: tuple[Price, ...]) -> dict[_PriceKey, Price]:
    return {(price.part, price.speed_gbps, price.kind): price for price in prices}


class PriceBook(Record, frozen=True, kw_only=True, dict=True):
    """Prices of one source or date, in one currency.

    ``rates`` convert other currencies; ``discount`` is taken off every price of the book. What a
    book does not price has no price: no bill has rows of two books, and sums without it are lower
    bounds, save of parts that its source ``leaves_out``.
    """

    currency: Currency
    rates: dict[Currency, Rate] = field(default_factory=dict)
    discount: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    prices: tuple[Price, ...]
    leaves_out: tuple[Part, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse rows of a wrong unit, ones that stand twice, and ones of what is left out."""
        seen = set()
        for price in self.prices:
            self._check_row(price)
            if price.part in self.leaves_out:
                raise ValueError(f"leaves_out names {price.part}, which has a price: keep one")
            key = (price.part, price.speed_gbps, price.kind)
            if key in seen:
                raise ValueError(f"{price.what} is priced twice: keep one")
            seen.add(key)

    def _check_row(self, price: Price) -> None:
        """Refuse a row whose unit, currency or speed does not go with its part."""
        basis = BASIS.get(price.part, "each")
        if price.part == "hb_gear" and price.model in PER_GB_S:
            basis = "GB/s"
        unit = f"{self.currency}/{basis}"
        if price.unit.partition("/")[2] != basis:
            raise ValueError(f"{price.what}: unit must be {unit!r}, got {price.unit!r}")
        if price.currency != self.currency and not self.knows(price.currency):
            raise ValueError(
                f"{price.what}: unit must be {unit!r}, got {price.unit!r}, and the book has no"
                f" rate for {price.currency}: add one under rates"
            )
        if (price.speed_gbps is None) != (price.part in SPEEDLESS):
            verb = "has no" if price.part in SPEEDLESS else "needs a"
            raise ValueError(f"{price.what} {verb} speed_gbps")
        if price.hb_size is not None and price.part != "hb_gear":
            raise ValueError(f"{price.what} has no hb_size, which is for hb_gear")
        if price.part in BESIDE and not price.model:
            known = "its kind, such as ddr5" if price.part == "memory" else "an accelerator's name"
            raise ValueError(f"{price.what} needs a model: {known}")

    def price(self, part: str, speed_gbps: float | None = None, *kinds: str) -> Price | None:
        """Entry of a part at exactly this speed, or None if the book does not have it.

        The first of the kinds that it has counts: a model, or what a model is one of; without any,
        the row for all makes.

        Parameters
        ----------
        part
            Kind of part, such as ``switch_port``.
        speed_gbps
            Its speed [Gb/s]; None of parts without one.
        *kinds
            Models, the most special first.

        Returns
        -------
        Price or None
            The row.
        """
        rows, by_key = self._price_rows
        if rows is not self.prices:  # a copy with other rows
            by_key = _by_key(self.prices)
        speed = None if part in SPEEDLESS else speed_gbps
        rows_of_kinds = (by_key.get((part, speed, kind)) for kind in kinds or ("",))
        return next((row for row in rows_of_kinds if row is not None), None)

    @cached_property
    def hb_sizes(self) -> tuple[int, ...]:
        """Sizes of HB domains whose gear has a price of its own, smallest first [1]."""
        return tuple(sorted(row.hb_size for row in self.prices if row.hb_size is not None))

    @cached_property
    def _price_rows(self) -> tuple[tuple[Price, ...], dict[_PriceKey, Price]]:
        """The rows, and where each is: a study prices hundreds of thousands of bills."""
        return self.prices, _by_key(self.prices)

    def offer(
        self, price: Price, quantity: int = 1, currency: str = "", *, length_m: float = 0.0
    ) -> Range:
        """What one unit costs in an order: length, break, discount and rate applied.

        Parameters
        ----------
        price
            A row of this book.
        quantity
            Units in the order [1].
        currency
            Currency of the answer; the book's own if empty.
        length_m
            Stock length of a cable [m].

        Returns
        -------
        Range
            Low, base and high price of a unit [currency].

        Raises
        ------
        CatalogError
            If the book has no rate for the currency.
        """
        rate = self.exchange(price.currency, currency or self.currency)
        return (rate * (1 - self.discount)) * price.range_at(quantity, length_m)

    def exchange(self, source: str, target: str) -> float:
        """Units of the target currency for one of the source.

        Parameters
        ----------
        source, target
            Currencies, such as ``USD``.

        Returns
        -------
        float
            The rate [1].

        Raises
        ------
        CatalogError
            If the book has no rate for one of them.
        """
        if source == target:
            return 1.0
        for currency in (source, target):
            if not self.knows(currency):
                known = ", ".join([US_DOLLAR, *self.rates])
                raise CatalogError(
                    f"prices {self.name}: no rate from {source} to {one_line(target)}: known:"
                    f" {known}; add {one_line(currency)} under rates, with per_usd, date and source"
                )
        per_usd = {US_DOLLAR: 1.0} | {name: rate.per_usd for name, rate in self.rates.items()}
        return per_usd[target] / per_usd[source]

    def knows(self, currency: str) -> bool:
        """Whether prices in a currency can be told in the book's own.

        Parameters
        ----------
        currency
            Such as ``USD``.

        Returns
        -------
        bool
            Dollars always, others by their rate.
        """
        return currency == US_DOLLAR or currency in self.rates


PRICE_BOOKS = Catalog("prices", "costing/prices", PriceBook)


class PartPower(Sourced, frozen=True, kw_only=True):
    """Power of one part at one speed, typical and at most [W]."""

    part: Part
    speed_gbps: PositiveFloat
    typical_w: NonNegativeFloat
    max_w: NonNegativeFloat | None = None
    note: str = ""

    def __post_init__(self) -> None:
        """Refuse a most that is below the typical value."""
        if self.max_w is not None and self.max_w < self.typical_w:
            raise ValueError(f"max_w {self.max_w:g} is below typical_w {self.typical_w:g}")


class ServerPower(Entry, frozen=True, kw_only=True):
    """Power of a GPU's share of its server, without GPU and cards of the training network [W].

    ``base_w`` is what the maker rates, switches of the HB domain included; ``cards_w`` is what the
    rating holds for those cards. ``cooling`` are the ways of cooling that the server is sold with.
    """

    accelerators: tuple[str, ...]
    base_w: NonNegativeFloat
    low_w: NonNegativeFloat | None = None
    high_w: NonNegativeFloat | None = None
    cards_w: NonNegativeFloat = 0.0
    cooling: tuple[Cooling, ...]
    evidence: Evidence
    date: str
    source: str

    def __post_init__(self) -> None:
        """Refuse ends out of order."""
        if not self.rest.rising:
            raise ValueError(
                f"power runs low_w <= base_w <= high_w, got {self.low_w}, {self.base_w},"
                f" {self.high_w}"
            )

    @property
    def rest(self) -> Range:
        """The power as a range; a missing end is the base [W]."""
        return Range.around(self.low_w, self.base_w, self.high_w)


class PowerBook(Record, frozen=True, kw_only=True):
    """Power of the parts of a network, and of the servers that it joins.

    ``other_servers`` is the power of a server beside its GPUs, over that of these, where
    ``servers`` has no row of the GPU.
    """

    draws: tuple[PartPower, ...]
    servers: tuple[ServerPower, ...] = ()
    other_servers: Estimate | None = None
    notes: tuple[str, ...] = ()

    def draw(self, part: str, speed_gbps: float) -> PartPower | None:
        """Power of a part at exactly this speed, or None if the book does not have it.

        Parameters
        ----------
        part
            Kind of part, such as ``switch_port``.
        speed_gbps
            Its speed [Gb/s].

        Returns
        -------
        PartPower | None
            Power of the part, typical and at most [W].
        """
        key = part, speed_gbps
        return next((draw for draw in self.draws if (draw.part, draw.speed_gbps) == key), None)

    def server(self, accelerator: str) -> ServerPower | None:
        """Power of the servers of an accelerator, or None if the book does not have them.

        Parameters
        ----------
        accelerator
            Its catalog name.

        Returns
        -------
        ServerPower | None
            The row of its servers [W a GPU].

        Examples
        --------
        >>> POWER_BOOKS.load("2026").server("gb300").cooling
        ('cold-plate',)
        """
        return next((row for row in self.servers if accelerator in row.accelerators), None)

    def server_w(self, accelerator: str, full_w: float) -> float | None:
        """Power of a GPU's share of its server, without the GPU but with its cards [W].

        Parameters
        ----------
        accelerator, full_w
            Catalog name of the GPU, and its power without a cap [W].

        Returns
        -------
        float | None
            As the maker rates it; None if the book knows no servers.

        Examples
        --------
        A DGX H100 draws 10.2 kW at most, a server of 1,000 W GPUs that no row names 12.8 kW.

        >>> book = POWER_BOOKS.load("2026")
        >>> [round(8 * (book.server_w(*gpu) + gpu[1])) for gpu in (("h200", 700), ("mi325x", 1000))]
        [10199, 12800]
        """
        row, other = self.server(accelerator), self.other_servers
        if row is not None:
            return row.base_w + row.cards_w
        return None if other is None else other.base * full_w


POWER_BOOKS = Catalog("power", "costing/power", PowerBook)
