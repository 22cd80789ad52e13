"""What a request asks for, and what the offers on one come to."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from math import inf, isnan
from typing import Any, NamedTuple

from netplan.answers.screen_titles import screen_heading
from netplan.costing.offers import BETWEEN, Bought, Market, OfferedLine, Request, RequestLine
from netplan.decide.candidates import Candidate
from netplan.decide.record import Decision, beside_the_next
from netplan.records import replace
from netplan.reports import sections as show
from netplan.reports.answer import Answer
from netplan.reports.quantities import listed, quantity
from netplan.reports.schema import plain_at, plain_data
from netplan.reports.screen import Screen, columns_of, more_of
from netplan.units import counted

SHOWN_LINES = 4
"""Lines that a sentence names before it counts the rest."""


@dataclass(frozen=True, slots=True, repr=False)
class Requested(Answer):
    """A request for quotation; as a spreadsheet it is what suppliers fill in."""

    json_parts = ("request",)

    inputs: dict[str, Any]
    request: Request
    unasked: tuple[str, ...] = ()

    def summary(self) -> Iterator[show.Section]:
        """How much is asked for, the first lines, what the spreadsheet is for."""
        request = self.request
        lots = list(dict.fromkeys(line.lot for line in request.lines))
        table = show.Table("request", self._columns(), request.lines)
        yield from Screen(
            screen_heading(self.inputs, show.Heading(f"Request for quotation: {request.title}")),
            (f"{self.in_a_line()}: {listed(lots)}.",) if lots else (f"{self.in_a_line()}.",),
            replace(table, columns=columns_of(table, "line_id", "item", "order", "unit")),
            tuple(self._missing()),
            more_of("accepted parts, spares", "--template rfq.xlsx (to fill in)", page=False),
        ).sections()

    def in_a_line(self) -> str:
        """How many lines are asked for."""
        lots = {line.lot for line in self.request.lines}
        return f"{counted(len(self.request.lines), 'line')} in {counted(len(lots), 'lot')}"

    def _columns(self) -> list[show.Column[RequestLine]]:
        """What is said of a line."""
        return [
            show.column("line_id", "id"),
            *show.columns("lot", shown="wide"),
            show.column("item", "title"),
            show.column("specification", "description", shown="wide"),
            *show.columns("part_number"),
            show.column("accepted", lambda line: BETWEEN.join(line.accepted)),
            *show.columns("quantity", shown="wide"),
            *show.columns("spares", "order", "unit"),
        ]

    def _missing(self) -> Iterator[str]:
        """What is on the bill and not asked for."""
        if self.unasked:
            yield f"On the bill, not asked for: {listed(self.unasked)} (--lot)."

    def sections(self) -> Iterator[show.Section]:
        """The lines that are asked for."""
        request = self.request
        yield show.Heading(
            f"Request for quotation: {request.title}", (f"fingerprint {request.fingerprint}",)
        )
        yield show.Table("request", self._columns(), request.lines)
        yield show.Paragraph(
            "As a spreadsheet (--template rfq.xlsx) it has blank cells for price, currency, minimum"
            " order and lead time, and no price of ours; netplan offers a.xlsx b.xlsx reads what"
            " comes back."
        )
        if self.unasked:
            yield show.Notes(tuple(("", text) for text in self._missing()))

    def xlsx(self) -> bytes:
        """The spreadsheet for suppliers."""
        from netplan.procurement.offer_files import request_xlsx

        return request_xlsx(self.request)


class OfferChoice(NamedTuple):
    """One row: a way to buy, and what it costs."""

    choice: str
    bought: Bought
    kind: str


class OfferRow(NamedTuple):
    """One row: an offer taken whole."""

    number: int
    name: str
    bought: Bought
    missing: tuple[str, ...]


class LineRow(NamedTuple):
    """One row: a line, what each offer says of it and asks for it, and whose is the cheapest."""

    line: RequestLine
    offered: tuple[OfferedLine | None, ...]
    costs: tuple[float, ...]
    chosen: int

    @property
    def taken(self) -> OfferedLine | None:
        """What the cheapest mix takes."""
        return self.offered[self.chosen] if self.chosen >= 0 else None

    def price(self, number: int) -> float | str | None:
        """What an offer asks for the whole order."""
        offered = self.offered[number]
        if offered is None:
            return None
        return self.costs[number] if offered.accepted else OTHER

    def mark(self, number: int) -> tuple[str, str]:
        """A star where its minimum order is more."""
        offered = self.offered[number]
        more = offered is not None and offered.accepted and offered.minimum > self.line.order
        return "", "*" if more else ""


class LineOffer(NamedTuple):
    """One row for programs: what one offer says of one line."""

    line: RequestLine
    offer: str
    offered: OfferedLine
    total: float | None
    chosen: bool
    estimate: float | None


@dataclass(frozen=True, slots=True, repr=False)
class OffersAnswer(Answer):
    """The answer of :func:`netplan.offers` on filled-in requests.

    Parameters
    ----------
    front
        Cheapest mixes, from the cheapest to the soonest.
    undiscounted
        The cheapest mix as if nobody gave a discount.
    limited
        The cheapest mix within the lead time that is asked for, if one is; None if none keeps it.
    """

    json_parts = (
        *("currency", "market.request", "offers=offer_facts", "choices=choice_facts"),
        *("unoffered", "estimates", "verdict", "decision"),
    )

    inputs: dict[str, Any]
    currency: str
    market: Market
    front: tuple[Bought, ...]
    undiscounted: Bought | None
    limited: Bought | None
    estimates: dict[str, float]

    @property
    def best(self) -> Bought:
        """The cheapest mix."""
        return self.front[0]

    @property
    def wholes(self) -> list[OfferRow]:
        """Every offer with what it lacks of the lines that anybody offers; the cheapest first."""
        market, rows = self.market, []
        for number, offer in enumerate(market.offers):
            bought = market.all_lines_of(number)
            missing = [line.id for line, seller in self._bought(bought) if seller < 0]
            rows.append(OfferRow(number, offer.name, bought, tuple(missing)))
        return sorted(rows, key=lambda row: (len(row.missing), row.bought.total))

    @property
    def unoffered(self) -> tuple[str, ...]:
        """Lines that nobody offers."""
        needed = set(self.market.needed)
        lines = enumerate(self.market.request.lines)
        return tuple(line.id for number, line in lines if number not in needed)

    @property
    def rows(self) -> list[OfferChoice]:
        """Ways to buy: mixes from cheapest to soonest, whole offers, the mix without discounts."""
        ways = [OfferChoice("cheapest mix", self.best, "mix")]
        ways += [
            OfferChoice(f"mix, {_weeks(sooner)}", sooner, "sooner mix") for sooner in self.front[1:]
        ]
        if self.limited is not None:
            asked = f"{self.inputs['weeks']:g}"
            limited = OfferChoice(f"mix within {asked} weeks", self.limited, "limited mix")
            ways += [limited] if limited.bought not in self.front else []
        for row in self.wholes:
            if self.market.is_whole(row.number):
                ways.append(OfferChoice(f"all from {row.name}", row.bought, "whole offer"))
        if self.undiscounted is not None and self._discounted:
            bare = self.undiscounted
            ways.append(OfferChoice("mix without discounts", bare, "undiscounted mix"))
        return ways

    @property
    def _discounted(self) -> bool:
        return any(offer.lot_discounts or offer.discount for offer in self.market.offers)

    def _bought(self, bought: Bought) -> Iterator[tuple[RequestLine, int]]:
        yield from zip(self.market.request.lines, bought.chosen, strict=True)

    def _line(self, identity: str) -> str:
        """A line by id and name."""
        titles = {line.id: line.title for line in self.market.request.lines}
        return f"{identity} {titles[identity]}"

    def names(self, bought: Bought) -> str:
        """Names of the offers that a choice takes."""
        return listed([self.market.offers[number].name for number in bought.offers])

    @property
    def offer_facts(self) -> list[dict[str, Any]]:
        """Every offer with what it lacks, and what it costs as a whole."""
        return [
            {
                **plain_data(self.market.offers[row.number]),
                "missing": row.missing,
                "whole": self._bought_dict(row.bought),
            }
            for row in sorted(self.wholes)
        ]

    @property
    def choice_facts(self) -> list[dict[str, Any]]:
        """Every way to buy, and what it costs."""
        return [
            {"choice": row.choice, "kind": row.kind, **self._bought_dict(row.bought)}
            for row in self.rows
        ]

    @property
    def decision(self) -> Decision:
        """The cheapest mix beside the cheapest whole offer, or the next way to buy."""
        best, *others = (
            Candidate(self.names(bought), bought.total, complete, inf, None, 0.0)
            for bought, complete in (
                (self.best, True),
                *((row.bought, self.market.is_whole(row.number)) for row in self.wholes),
                *((row.bought, True) for row in self.rows),
            )
        )
        return beside_the_next(Decision("buy", "lowest total of every line offered"), best, others)

    def _bought_dict(self, bought: Bought) -> dict[str, Any]:
        names = [offer.name for offer in self.market.offers]
        lines = {line.id: names[seller] for line, seller in self._bought(bought) if seller >= 0}
        return {
            **plain_at(bought, "goods", "lot_discounts", "order_discounts", "delivery", "total"),
            **plain_at(bought, "lead_weeks=weeks", "binding"),
            "offers": [names[number] for number in bought.offers],
            "lines": lines,
        }

    @property
    def verdict(self) -> list[str]:
        """What to do, in sentences: the cheapest mix, the cheapest whole offer, time, discounts."""
        best = self.best
        # The first of those that lack nothing that anybody offers: the cheapest.
        whole = next((row for row in self.wholes if self.market.is_whole(row.number)), None)
        sentences = [
            f"Cheapest mix: {self._money(best.total)} from {self.names(best)}{self._lead(best)}."
        ]
        if whole is None:
            sentences.append("No offer is whole: each lacks a line that another has.")
        elif len(best.offers) == 1 and best.offers[0] == whole.number:
            sentences.append("It is the cheapest whole offer, too: no mix saves anything.")
        else:
            sentences.append(
                f"Cheapest whole offer: {whole.name}, {self._money(whole.bought.total)}"
                f" ({_against(whole.bought.total, best.total)}){self._lead(whole.bought)}."
            )
        return [*sentences, *self._time_said(), *self._discounts_said(), *self._estimate_said()]

    def _time_said(self) -> Iterator[str]:
        """What sooner delivery costs, and whether the limit can be kept."""
        front, limit = self.front, self.inputs["weeks"]
        if len(front) > 1:
            soonest = front[-1]
            yield (
                f"Soonest: {_weeks(soonest)} for {self._money(soonest.total)}"
                f" ({_against(soonest.total, self.best.total)})."
            )
        if limit is None:
            return
        kept = self.limited
        if kept is not None:
            more = _against(kept.total, self.best.total)
            yield f"Within {limit:g} weeks: {self._money(kept.total)} ({more})."
            return
        late = [
            f"{self._line(line.id)} ({self._soonest(number)})"
            for number, line in enumerate(self.market.request.lines)
            if number in self.market.needed and not (self.market.weeks[number] <= limit).any()
        ]
        why = _some(late) if late else "not from so few suppliers"
        yield f"No mix is delivered within {limit:g} weeks: {why}."

    def _soonest(self, number: int) -> str:
        """Who delivers a line first, and when."""
        known = [
            (float(weeks), offer.name)
            for weeks, offer in zip(self.market.weeks[number], self.market.offers, strict=True)
            if not isnan(weeks)
        ]
        if not known:
            return "lead time not said"
        weeks, name = min(known)
        return f"{weeks:g} weeks from {name}"

    def _discounts_said(self) -> Iterator[str]:
        best, bare = self.best, self.undiscounted
        taken = best.lot_discounts + best.order_discounts
        if not self._discounted or bare is None:
            return
        more = self._money(bare.total - best.total)
        if taken:
            yield (
                f"Discounts take {self._money(taken)} off it; without any the cheapest mix costs"
                f" {more} more."
            )
        else:
            yield "No discount is worth what else it would ask for."

    def _estimate_said(self) -> Iterator[str]:
        """The offers against the price book, over the lines that both price."""
        both = [
            (self.market.cost[number, seller], self.estimates[line.id])
            for number, (line, seller) in enumerate(self._bought(self.best))
            if seller >= 0 and line.id in self.estimates
        ]
        if both:
            paid, book = (float(sum(amounts)) for amounts in zip(*both, strict=True))
            yield (
                f"{counted(len(both), 'line')} of it cost {self._money(paid)} before discounts;"
                f" price book {self.inputs['prices']} has {self._money(book)} for them at base"
                f" prices ({_against(paid, book)})."
            )

    def _money(self, amount: float) -> str:
        return f"{amount:,.0f} {self.currency}"

    def _lead(self, bought: Bought) -> str:
        """Lead time, and the line that it hangs on."""
        lines = _some([self._line(line_id) for line_id in bought.binding])
        if bought.weeks is None:
            known = f"; of those said, {lines} takes longest" if lines else ""
            return f", lead time not said for every line{known}"
        return (
            f", {_weeks(bought)}: {lines} {'takes' if len(bought.binding) == 1 else 'take'} longest"
        )

    def summary(self) -> Iterator[show.Section]:
        """The cheapest mix and the cheapest whole offer, all ways to buy, what to know of them."""
        heading, table = self._heading(), self._choices_table()
        first, second, *more = self.verdict
        notes = (f"{name}: {text}" if name else text for name, text in self._notes())
        names = ("choice", "offer_total", "against", "lead_weeks", "bought_from")
        yield from Screen(
            screen_heading(self.inputs, heading, lower=False),
            (first, second),
            replace(table, columns=columns_of(table, *names), title=""),
            (*more, *notes),
            more_of("line by line, terms", "--weeks 12", "--suppliers 1"),
        ).sections()

    def in_a_line(self) -> str:
        """The cheapest mix, and from whom."""
        return f"cheapest mix {self._money(self.best.total)} from {self.names(self.best)}"

    def sections(self) -> Iterator[show.Section]:
        """Verdict, ways to buy, offers, line by line, what is missing."""
        yield self._heading()
        first, second, *more = self.verdict
        yield show.Paragraph(f"{first} {second}", "strong")
        if more:
            yield show.Paragraph(" ".join(more))
        yield self._choices_table()
        yield self._offers_table()
        yield self._lines_table()
        yield show.Table("line offers", LINE_DATA, list(self._line_offers()), shown="data")
        yield show.Notes(tuple(self._notes()))

    def _heading(self) -> show.Heading:
        """How many offers on how many lines of which request."""
        request = self.market.request
        lines = counted(len(request.lines), "line")
        return show.Heading(
            f"{counted(len(self.market.offers), 'offer')} on {lines}: {request.title}",
            (f"request {request.fingerprint}, amounts in {self.currency}",),
        )

    def _choices_table(self) -> show.Table[OfferChoice]:
        best = self.best.total
        shown: list[show.Column[OfferChoice]] = [
            *show.columns("choice", "offer_total=bought.total"),
            show.column("against", lambda row: row.bought.total / best - 1 if best else None),
            show.column("lead_weeks", "bought.weeks"),
            show.column("bought_from", lambda row: self.names(row.bought)),
            show.column("slowest", lambda row: ", ".join(row.bought.binding)),
            show.column("currency", lambda _: self.currency, shown="data"),
        ]
        return show.Table("choices", shown, self.rows, "Ways to buy every line that is offered")

    def _offers_table(self) -> show.Table[OfferRow]:
        shown: list[show.Column[OfferRow]] = [
            show.column("offer", "name"),
            show.column(
                "lines_offered", lambda row: sum(seller >= 0 for seller in row.bought.chosen)
            ),
            show.column("goods", "bought.goods"),
            show.column(
                "discounts", lambda row: row.bought.lot_discounts + row.bought.order_discounts
            ),
            *show.columns("delivery", "offer_total=total", "lead_weeks=weeks", of="bought"),
            show.column("missing", lambda row: ", ".join(row.missing)),
            show.column("file", lambda row: self.market.offers[row.number].file, shown="data"),
        ]
        return show.Table("offers", shown, self.wholes, "Each offer alone, all that it has")

    def _lines_table(self) -> show.Table["LineRow"]:
        """Line by line: what each offer asks, and what the cheapest mix takes."""
        rows = []
        for number, (line, seller) in enumerate(self._bought(self.best)):
            offered = tuple(offer.lines.get(line.id) for offer in self.market.offers)
            costs = tuple(map(float, self.market.cost[number]))
            rows.append(LineRow(line, offered, costs, seller))
        names = [offer.name for offer in self.market.offers]
        shown: list[show.Column[LineRow]] = [
            *show.columns("line_id=id", "item=title", "order", of="line"),
            *(
                show.column(
                    quantity(f"total of {name}", form="money", title=name),
                    partial(LineRow.price, number=number),
                    mark=partial(LineRow.mark, number=number),
                )
                for number, name in enumerate(names)
            ),
            show.column(
                "bought_from",
                lambda row: names[row.chosen] if row.chosen >= 0 else "",
                title="cheapest mix",
            ),
            show.column("lead_weeks", lambda row: row.taken.lead_weeks if row.taken else None),
        ]
        legend = [f"Amounts in {self.currency} for the whole order, before discounts."]
        if any(row.mark(number)[1] for row in rows for number in range(len(names))):
            legend.append("*: the minimum order is more than what is asked for; all of it is paid.")
        if any(row.price(number) == OTHER for row in rows for number in range(len(names))):
            legend.append(f"{OTHER}: a part that was not asked for (see the notes).")
        return show.Table("lines", shown, rows, "Line by line", tuple(legend))

    def _line_offers(self) -> Iterator[LineOffer]:
        for number, (line, seller) in enumerate(self._bought(self.best)):
            for index, offer in enumerate(self.market.offers):
                offered = offer.lines.get(line.id)
                if offered is not None:
                    total = float(self.market.cost[number, index]) if offered.accepted else None
                    estimate = self.estimates.get(line.id)
                    yield LineOffer(line, offer.name, offered, total, seller == index, estimate)

    def _notes(self) -> Iterator[tuple[str, str]]:
        """What nobody offers, other parts, terms, rates."""
        if self.unoffered:
            lines = _some([self._line(line_id) for line_id in self.unoffered])
            yield "", f"Nobody offers {lines}: in no sum, and no lot with them is whole."
        for offer in self.market.offers:
            texts = [f"{label}: {text}." for label, text in offer.terms]
            texts += [
                f"{self._line(line_id)} is offered as {offered.part_number}, which was not asked"
                f" for and does not count; --accept {offered.part_number} takes it."
                for line_id, offered in offer.lines.items()
                if not offered.accepted
            ]
            free = [self._line(key) for key, line in offer.lines.items() if not line.unit_price]
            if free:
                texts.append(f"A price of 0 for {_some(free)}: taken as free; ask if it is meant.")
            rates = {line.currency: line.rate for line in offer.lines.values()}
            texts += [
                f"1 {name} is {rate:.6g} {self.currency}."
                for name, rate in rates.items()
                if name != self.currency
            ]
            texts += [
                f"{100 * share:g} % off {lot} if ordered whole."
                for lot, share in offer.lot_discounts.items()
            ]
            if offer.discount:
                start = offer.discount_from
                when = (
                    "if every line is ordered" if start is None else f"from {self._money(start)} on"
                )
                texts.append(f"{100 * offer.discount:g} % off all {when}.")
            if texts:
                yield offer.name, " ".join(texts)


OTHER = "other"
LINE_DATA: tuple[show.Column[LineOffer], ...] = (
    *show.columns("line_id=id", "lot", "part_number", "order", of="line"),
    *show.columns("item=line.description", "offer", "offered_part_number=offered.part_number"),
    *show.columns("fits=accepted", "offered_price=unit_price", of="offered"),
    *show.columns("currency", "rate", "minimum_order=minimum", "lead_weeks", of="offered"),
    *show.columns("remarks=offered.remarks", "line_total=total", "chosen", "estimate"),
)


def _weeks(bought: Bought) -> str:
    return "lead time not said" if bought.weeks is None else f"{bought.weeks:g} weeks"


def _against(amount: float, base: float) -> str:
    """How much more or less than something: ``+3.2 %``."""
    return f"{100 * (amount / base - 1):+.1f} %" if base else "it costs nothing"


def _some(lines: list[str]) -> str:
    """Some lines by name, the rest counted."""
    more = len(lines) - SHOWN_LINES
    return listed([*lines[:SHOWN_LINES], f"{more} more"] if more > 0 else lines) if lines else ""
