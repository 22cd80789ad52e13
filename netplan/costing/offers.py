"""Offers on one request: what they cost whole, and the cheapest mix of them, proven.

A line is bought whole from one offer, at least in its minimum order:

    c[l, s] = max(order_l, minimum[l, s]) * price[l, s] * rate[l, s]

An offer may take a share off a *lot* if every line of it is bought there, and a share off all that
is left if what is bought there, before discounts, reaches a sum (or, where it names none, if every
line is bought there); delivery is a lump sum as soon as anything is. The cheapest mix is a mixed
integer program of these terms, solved to its end by HiGHS, of equal mixes that of the fewest
offers; the sum of what it chooses is then added up term by term, as that of any other choice is. To
HiGHS a number within a millionth of a whole one is whole: so sharply are discounts on orders
weighed.

The lead time of a choice is the longest among its lines.

A request for quotation: the lines of one bill that suppliers are asked for, and no prices.

A line has an id made from its place (``L2-01`` is the first line of lot 2), and the request a
*fingerprint*: what was asked, as a hash. A reader of filled-in requests so knows its lines again,
and sees what was changed.
"""

import hashlib
import json
from collections.abc import Collection, Iterator, Sequence
from math import inf, isnan, nan
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from netplan.arrays import Floats
from netplan.costing.materials import BillItem, Category
from netplan.reports.escape import strip_control

if TYPE_CHECKING:
    from scipy.sparse import csr_array


LOTS: dict[Category, str] = {
    "switches": "Switches",
    "circuits": "Optical circuit switches",
    "transceivers": "Transceivers",
    "cables": "Cables",
    "cards": "Network cards",
    "racks": "Racks",
    "installation": "Installation",
    "hb-gear": "Gear inside HB domains",
    "memory": "Expanded memory",
    "accelerators": "Accelerators",
}
"""Lots by category of the bill: each is what one kind of supplier has."""

UNASKED: tuple[Category, ...] = ("hb-gear",)
"""Lots that come with the servers: asked for by name alone."""

MAX_TEXT = 1000
BETWEEN = "; "
"""Between accepted equals in one cell."""


class RequestLine(Struct, frozen=True):
    """One line of a request.

    Parameters
    ----------
    id
        Such as ``L2-01``.
    lot
        Group of lines that a supplier may take whole.
    part_number, accepted
        Order number that is asked for, empty where there is none, and equals that will do.
    description, unit
        What it is, and what one of it is.
    quantity, spares
        Units for the build, and beyond it [1].
    """

    json_parts = "*", "order"

    id: str
    lot: str
    part_number: str
    accepted: tuple[str, ...]
    description: str
    unit: str
    quantity: int
    spares: int

    @property
    def order(self) -> int:
        """Units to order [1]."""
        return self.quantity + self.spares

    @property
    def title(self) -> str:
        """What it is, in short."""
        return self.description.partition(BETWEEN)[0]

    def takes(self, part_number: str, also: Sequence[str] = ()) -> bool:
        """Whether a part of this number will do, or one of some others; any where none is asked.

        Examples
        --------
        >>> line = RequestLine("L1-01", "Switches", "MQM9700-NS2F", ("MQM9790-NS2F",), "", "", 4, 0)
        >>> line.takes("mqm9790-ns2f"), line.takes(""), line.takes("SN5600")
        (True, True, False)
        >>> line.takes("SN5600", also=["SN 5600"])
        True
        """
        wanted = {_same_number(number) for number in (self.part_number, *self.accepted) if number}
        if not wanted or not part_number:
            return True
        return _same_number(part_number) in wanted.union(map(_same_number, also))


def _same_number(part_number: str) -> str:
    """An order number as it is compared: small letters, no spaces."""
    return "".join(part_number.split()).casefold()


def _cell_text(text: str) -> str:
    """A text as one cell holds it: in one line, without control signs, cut to a length."""
    return strip_control(" ".join(text.split()))[:MAX_TEXT].strip()


class Request(Struct, frozen=True):
    """What suppliers are asked for."""

    json_parts = "title", "fingerprint", "lines"

    title: str
    lines: tuple[RequestLine, ...]

    @property
    def lots(self) -> tuple[str, ...]:
        """Its lots, in their order."""
        return tuple(dict.fromkeys(line.lot for line in self.lines))

    @property
    def fingerprint(self) -> str:
        """A hash of what is asked; sixteen hexadecimal digits."""
        asked = [_cells(line) for line in self.lines]
        text = json.dumps([self.title, asked], ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]


def _cells(line: RequestLine) -> tuple[str | int, ...]:
    """What the fingerprint hashes of a line; requests that suppliers have hold hashes of these."""
    return (
        *(line.id, line.lot, line.part_number, BETWEEN.join(line.accepted)),
        *(line.description, line.unit, line.quantity, line.spares),
    )


def request_of(title: str, lines: Sequence[BillItem], lots: Collection[Category]) -> Request:
    """The request for the lines of a bill that belong to some lots.

    Examples
    --------
    >>> switch = BillItem("switches", "Switch", "32 cages", 48, "each", "switch_port", 400.0,
    ...                   spares=1)
    >>> rack = BillItem("racks", "Rack", "", 2, "each", "rack", 400.0)
    >>> [(one.id, one.lot, one.order) for one in request_of("A pod", [rack, switch], LOTS).lines]
    [('L1-01', 'Racks', 2), ('L2-01', 'Switches', 49)]
    """
    numbers: dict[Category, list[RequestLine]] = {}
    for line in lines:
        if line.category in lots and line.order:
            lot_lines = numbers.setdefault(line.category, [])
            lot = list(numbers).index(line.category) + 1
            words = BETWEEN.join(text for text in (line.title, line.specification) if text)
            equals = (_cell_text(text) for text in line.accepted)
            lot_lines.append(
                RequestLine(
                    id=f"L{lot}-{len(lot_lines) + 1:02d}",
                    lot=LOTS[line.category],
                    part_number=_cell_text(line.part_number),
                    accepted=tuple(text for text in equals if text),
                    description=_cell_text(words),
                    unit=_cell_text(line.unit),
                    quantity=line.quantity,
                    spares=line.spares,
                )
            )
    return Request(
        _cell_text(title), tuple(line for lot_lines in numbers.values() for line in lot_lines)
    )


SAME = 1e-9
"""Share of a sum within which two sums are the same: they differ by how they were added up."""

SHARP = 1e4
"""How much larger the solver sees sums that have to be reached: its tolerance is absolute."""

LARGE, FEWER = 1e6, 1e-5
"""All that is offered as the solver sees it, for that reason, and what an offer weighs there."""

MAX_STEPS = 64
"""Lead times that the front of price and time is asked at."""


class OfferedLine(Struct, frozen=True):
    """What an offer says of one line.

    Parameters
    ----------
    part_number
        The supplier's; empty where it is that of the request.
    unit_price, currency, rate
        Price of one unit in its currency, and what one of that is in the currency of the answer.
    minimum
        Units that are sold at least [1].
    lead_weeks
        Weeks until delivery; None if not said.
    remarks
        The supplier's words.
    accepted
        Whether the part is what was asked for, or an accepted equal.
    """

    part_number: str
    unit_price: float
    currency: str
    rate: float
    minimum: int = 0
    lead_weeks: float | None = None
    remarks: str = ""
    accepted: bool = True


class Offer(Struct, frozen=True):
    """One supplier's offer.

    Parameters
    ----------
    name, file
        The supplier, and where the offer stands.
    lines
        What it says of the lines that it offers, by their ids.
    lot_discounts
        Share off a lot that is bought whole here, by lot [1].
    discount, discount_from
        Share off all that is bought here [1] once it reaches a sum before discounts, in the
        currency of the answer; None if every line has to be bought here.
    delivery
        Lump sum as soon as anything is bought here, in the currency of the answer.
    terms
        Further terms in words: validity, delivery terms.
    """

    json_parts = "*", "terms=terms_by_name"

    name: str
    file: str
    lines: dict[str, OfferedLine]
    lot_discounts: dict[str, float] = {}
    discount: float = 0.0
    discount_from: float | None = None
    delivery: float = 0.0
    terms: tuple[tuple[str, str], ...] = ()

    @property
    def terms_by_name(self) -> dict[str, str]:
        """Its further terms by what they are about."""
        return dict(self.terms)


class Bought(Struct, frozen=True):
    """What a choice of offers costs.

    Parameters
    ----------
    chosen
        Number of the offer for each line of the request, -1 where it is not bought.
    goods
        Sum of the lines, minimum orders included, before discounts.
    lot_discounts, order_discounts, delivery
        What comes off for whole lots and for whole orders, and lump sums.
    weeks
        Longest lead time; None if that of a line is not known.
    binding
        Lines that take so long.
    """

    chosen: tuple[int, ...]
    goods: float
    lot_discounts: float
    order_discounts: float
    delivery: float
    weeks: float | None
    binding: tuple[str, ...]

    @property
    def total(self) -> float:
        """What is paid."""
        return self.goods - self.lot_discounts - self.order_discounts + self.delivery

    @property
    def offers(self) -> tuple[int, ...]:
        """Numbers of the offers that it takes."""
        return tuple(sorted({offer for offer in self.chosen if offer >= 0}))


class Market(Struct, frozen=True):
    """A request and the offers on it, as arrays over lines and offers.

    Parameters
    ----------
    request, offers
        What was asked, and what came back.
    cost
        Price of each line from each offer, minimum order included; nan where it is not offered.
    weeks
        Lead times [weeks]; nan where not said.
    discounts
        Whether discounts count.
    """

    request: Request
    offers: tuple[Offer, ...]
    cost: Floats
    weeks: Floats
    discounts: bool = True

    @classmethod
    def of(cls, request: Request, offers: Sequence[Offer]) -> "Market":
        """The market of some offers; parts that nobody accepts are not on it."""
        cost, weeks = np.full((2, len(request.lines), len(offers)), nan)
        for row, line in enumerate(request.lines):
            for column, offer in enumerate(offers):
                offered = offer.lines.get(line.id)
                if offered is not None and offered.accepted:
                    units = max(line.order, offered.minimum)
                    cost[row, column] = units * offered.unit_price * offered.rate
                    weeks[row, column] = nan if offered.lead_weeks is None else offered.lead_weeks
        return cls(request, tuple(offers), cost, weeks)

    @property
    def needed(self) -> tuple[int, ...]:
        """Numbers of the lines that anybody offers."""
        return tuple(np.flatnonzero(~np.isnan(self.cost).all(axis=1)).tolist())

    def lot_lines(self, lot: str) -> list[int]:
        """Numbers of all lines of a lot, offered or not."""
        return [row for row, line in enumerate(self.request.lines) if line.lot == lot]

    def lot_saving(self, lot: str, offer: int) -> float:
        """What an offer takes off a lot bought whole there; 0 if it cannot be."""
        if not self.discounts:
            return 0.0
        goods = float(self.cost[self.lot_lines(lot), offer].sum())
        return 0.0 if isnan(goods) else self.offers[offer].lot_discounts.get(lot, 0.0) * goods

    def bought(self, chosen: Sequence[int]) -> Bought:
        """Add up a choice: the number of an offer for each line, -1 where it is not bought."""
        goods, lots, orders, delivery = 0.0, 0.0, 0.0, 0.0
        for number, offer in enumerate(self.offers):
            rows = [row for row, offer_number in enumerate(chosen) if offer_number == number]
            if not rows:
                continue
            here = float(self.cost[rows, number].sum())
            off = sum(
                self.lot_saving(lot, number)
                for lot in offer.lot_discounts
                if (lines := self.lot_lines(lot)) and set(lines) <= set(rows)
            )
            goods, lots, delivery = goods + here, lots + off, delivery + offer.delivery
            reached = len(rows) == len(self.request.lines)
            if offer.discount_from is not None:
                reached = here >= offer.discount_from * (1 - SAME)
            if self.discounts and reached:
                orders += offer.discount * (here - off)
        weeks = [
            self.weeks[row, offer_number]
            for row, offer_number in enumerate(chosen)
            if offer_number >= 0
        ]
        longest = None if any(map(isnan, weeks)) else max(map(float, weeks), default=0.0)
        most = max(
            (float(offer_number) for offer_number in weeks if not isnan(offer_number)), default=nan
        )
        binding = tuple(
            line.id
            for line, offer_number, row in zip(self.request.lines, chosen, self.weeks, strict=True)
            if offer_number >= 0 and row[offer_number] == most
        )
        return Bought(tuple(chosen), goods, lots, orders, delivery, longest, binding)

    def all_lines_of(self, offer: int) -> Bought:
        """All lines that one offer has."""
        has = ~np.isnan(self.cost[:, offer])
        return self.bought([offer if offers_it else -1 for offers_it in has.tolist()])

    def is_whole(self, offer: int) -> bool:
        """Whether an offer has every line that anybody offers."""
        return not np.isnan(self.cost[list(self.needed), offer]).any()

    def within(self, weeks: float) -> Floats:
        """Cost of what is delivered in time; of an unknown lead time only without a limit."""
        if weeks == inf:
            return self.cost
        with np.errstate(invalid="ignore"):
            return np.where(self.weeks <= weeks * (1 + SAME), self.cost, nan)


def cheapest_mix(
    market: Market, *, weeks: float = inf, most_offers: int | None = None
) -> Bought | None:
    """The cheapest way to buy every line that is offered; None if there is none.

    Parameters
    ----------
    market
        Request and offers.
    weeks
        Longest lead time allowed [weeks]; lines of unknown lead time are left out under a limit.
    most_offers
        Suppliers at most [1].

    Examples
    --------
    The switches are cheaper at a, the cables at b, but a takes a fifth off all of it.

    >>> from netplan.costing.offers import RequestLine
    >>> lines = [RequestLine(f"L{i}-01", lot, "", (), lot, "each", 10, 0)
    ...          for i, lot in enumerate(("Switches", "Cables"), start=1)]
    >>> def offer(name, prices, discount):
    ...     offered = {line.id: OfferedLine("", price, "USD", 1.0)
    ...                for line, price in zip(lines, prices)}
    ...     return Offer(name, name, offered, discount=discount)
    >>> request = Request("", tuple(lines))
    >>> market = Market.of(request, [offer("a", (100.0, 20.0), 0.2), offer("b", (110.0, 10.0), 0)])
    >>> cheapest_mix(market).total, cheapest_mix(market).chosen
    (960.0, (0, 0))
    """
    from scipy.optimize import LinearConstraint, milp  # noqa: PLC0415 - takes a while to import

    cost, needed = market.within(weeks), market.needed
    if not needed or np.isnan(cost[list(needed)]).all(axis=1).any():
        return None
    program = _Program(market, cost, most_offers)
    rows, low, high = program.constraints()
    solved = milp(
        program.objective,
        constraints=LinearConstraint(rows, low, high),
        integrality=program.all_lines_of,
        bounds=(0, np.where(program.all_lines_of == 1, 1.0, np.inf)),
        options={"mip_rel_gap": 0.0},
    )
    if solved.x is None:
        return None
    chosen = [-1] * len(market.request.lines)
    for (row, offer), value in zip(program.pairs, solved.x, strict=False):
        if value > 0.5:  # noqa: PLR2004 - the solver's 1
            chosen[row] = offer
    return market.bought(chosen)


class _Program:
    """The mixed integer program of a market: its variables in a row, its constraints.

    One variable for a line from an offer; then, where an offer has such terms, one for a whole lot,
    one for its discount reached and one for what that takes off, and one for its being used. Sums
    are scaled by all that is offered.
    """

    def __init__(self, market: Market, cost: Floats, most_offers: int | None) -> None:
        self.market, self.cost, self.most_offers = market, cost, most_offers
        self.scale = (float(np.nansum(cost)) or 1.0) / LARGE
        offers = range(len(market.offers))
        self.pairs = [(row, s) for row in market.needed for s in offers if cost[row, s] >= 0]
        self.at = {pair: number for number, pair in enumerate(self.pairs)}
        self.lots = [
            (lot, s)
            for s in offers
            for lot in market.request.lots
            if market.lot_saving(lot, s) > 0
            and all((row, s) in self.at for row in market.lot_lines(lot))
        ]
        self.reduced = [s for s in offers if market.discounts and market.offers[s].discount > 0]
        lines, lots = len(self.pairs), len(self.lots)
        self.first_reached = lines + lots
        self.first_off = self.first_reached + len(self.reduced)
        self.first_used = self.first_off + len(self.reduced)
        self.count = self.first_used + len(market.offers)
        self.all_lines_of = np.ones(self.count)
        self.all_lines_of[self.first_off : self.first_used] = 0
        self.objective = np.zeros(self.count)
        for number, (row, s) in enumerate(self.pairs):
            self.objective[number] = cost[row, s] / self.scale
        for number, (lot, s) in enumerate(self.lots, start=lines):
            self.objective[number] = -market.lot_saving(lot, s) / self.scale
        self.objective[self.first_off : self.first_used] = -1.0
        for s in offers:
            self.objective[self.first_used + s] = market.offers[s].delivery / self.scale + FEWER
        self.rows: list[dict[int, float]] = []
        self.low: list[float] = []
        self.high: list[float] = []

    def constraints(self) -> "tuple[csr_array, list[float], list[float]]":
        """Every line once, lots whole, discounts reached, offers counted."""
        from scipy.sparse import csr_array  # noqa: PLC0415 - takes a while to import

        for row in self.market.needed:
            self._add({self.at[pair]: 1.0 for pair in self.pairs if pair[0] == row}, 1.0, 1.0)
        for number, (lot, s) in enumerate(self.lots, start=len(self.pairs)):
            for row in self.market.lot_lines(lot):
                self._add({self.at[row, s]: 1.0, number: -1.0}, 0.0)
        for number, s in enumerate(self.reduced):
            self._discount(self.first_reached + number, self.first_off + number, s)
        for number, (_, s) in enumerate(self.pairs):
            self._add({self.first_used + s: 1.0, number: -1.0}, 0.0)
        if self.most_offers is not None:
            used = {self.first_used + s: 1.0 for s in range(len(self.market.offers))}
            self._add(used, 0.0, float(self.most_offers))
        ends = np.cumsum([0, *map(len, self.rows)])
        columns = [number for row in self.rows for number in row]
        values = [value for row in self.rows for value in row.values()]
        shape = len(self.rows), self.count
        return csr_array((values, columns, ends), shape=shape), self.low, self.high

    def _discount(self, reached: int, off: int, s: int) -> None:
        """What comes off is at most its share, and nothing unless the sum is reached."""
        offer = self.market.offers[s]
        goods = {
            number: self.objective[number] for number, pair in enumerate(self.pairs) if pair[1] == s
        }
        lots = {
            number: self.objective[number]
            for number, (_, other) in enumerate(self.lots, start=len(self.pairs))
            if other == s
        }
        share = {number: offer.discount * value for number, value in (goods | lots).items()}
        self._add(share | {off: -1.0}, 0.0)
        self._add({reached: offer.discount * sum(goods.values()), off: -1.0}, 0.0)
        if offer.discount_from is None:
            for row in range(len(self.market.request.lines)):
                pair = self.at.get((row, s))
                self._add(({} if pair is None else {pair: 1.0}) | {reached: -1.0}, 0.0)
        elif offer.discount_from > 0:
            sums = {line_number: SHARP * value * self.scale for line_number, value in goods.items()}
            sums = {line_number: value / offer.discount_from for line_number, value in sums.items()}
            self._add(sums | {reached: -SHARP}, 0.0)

    def _add(self, terms: dict[int, float], low: float, high: float = inf) -> None:
        self.rows.append(terms)
        self.low.append(low)
        self.high.append(high)


def front(market: Market, *, most_offers: int | None = None) -> Iterator[Bought]:
    """Cheapest mixes from the cheapest one to the soonest: each is dearer and sooner.

    Mixes with a line of unknown lead time come first, if they are cheapest.
    """
    known = sorted({float(lead) for lead in market.weeks.ravel() if not isnan(lead)}, reverse=True)
    held = cheapest_mix(market, most_offers=most_offers)
    for limit in known[-MAX_STEPS:]:
        if held is None:
            return
        if held.weeks is not None and limit >= held.weeks:
            continue
        sooner = cheapest_mix(market, weeks=limit, most_offers=most_offers)
        if sooner is None:
            break
        if sooner.total > held.total * (1 + SAME):
            yield held
        held = sooner
    if held is not None:
        yield held
