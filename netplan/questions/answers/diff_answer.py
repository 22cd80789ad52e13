"""Two scenarios side by side, as an answer: lines of both bills, totals, one closing sentence."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any, NamedTuple

from netplan.costing.fabric_bill import Bill
from netplan.decide.difference import (
    CENT,
    PartDifference,
    bound_of,
    differences,
    line_differences,
    signed,
    telling,
    unpriced_words,
)
from netplan.questions.answers.bill_columns import open_above
from netplan.questions.answers.diff_sides import Pace, Side, pace_of, served_words, token_cost
from netplan.reports.answer import Answer, answer_dict
from netplan.reports.escape import short
from netplan.reports.quantities import DASH, Scale
from netplan.reports.sections import (
    Column,
    Heading,
    Notes,
    Paragraph,
    Section,
    Table,
    Verbatim,
    column,
    columns,
    value_at,
)
from netplan.reports.terminal import folded
from netplan.units import MILLI

WIDTH, MOST_LINES = 80, 25
"""Columns and lines of a screen [1]."""
MOST_BELOW, LEAST_LINES, GAPS = 4, 5, 5
"""Lines of the closing sentence at most, of the bills at least, and of gaps and what more [1]."""
LONGEST_WORD = 12
"""Columns that a line may leave free for a word that does not fit [1]."""
GIVE_WAY = ("TPOT, ms", "TTFT, ms", "MFU", "  low to high")
"""Figures that a screen leaves to ``--details`` where it has no room for all."""
GAP, LEAST_ITEM = "  ", 12
"""Between two columns; and columns that what a line is keeps [1]."""
NO_PRICE = "no price"
LEAST_POINTS = 5e-4
"""Difference of two shares below which a reader of a tenth of a percent sees none [1]."""
ALL = 1 - 1e-9
"""Share from which one part makes all of a difference [1]."""
KILO, MEGA = 1e3, 1e6
MEGAWATTS_FROM = 1e6
"""Watts from which megawatts are shown."""


class Total(NamedTuple):
    """A figure of both, such as the price of the network: what it is, and its two values."""

    name: str
    a: float | None
    b: float | None

    @property
    def difference(self) -> float | None:
        """What the second has more."""
        return None if self.a is None or self.b is None else self.b - self.a


class Shown(NamedTuple):
    """A figure of both for people: what it is, its two values, and their difference."""

    title: str
    a: str
    b: str
    difference: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class DiffAnswer(Answer):
    """The answer of :func:`netplan.diff`."""

    inputs: dict[str, Any]
    a: Side
    b: Side

    @property
    def currency(self) -> str:
        """Currency of both bills."""
        return self.a.currency

    @property
    def lines(self) -> tuple[PartDifference, ...]:
        """Lines of both bills, the largest difference first."""
        return line_differences(self.a.bill, self.b.bill)

    @property
    def parts(self) -> tuple[PartDifference, ...]:
        """The same by part: all switches together, all modules."""
        return differences(self.a.bill, self.b.bill)

    @property
    def scale(self) -> Scale:
        """Scale of all amounts, by the dearer network."""
        return Scale.of(max(self.a.bill.capital.base, self.b.bill.capital.base), self.currency)

    @property
    def totals(self) -> tuple[Total, ...]:
        """Figures of both networks, and of what runs on them."""
        return tuple(Total(name, *values) for name, values in self._values())

    def _values(self) -> Iterator[tuple[str, tuple[float | None, float | None]]]:
        a, b = self.a, self.b
        for case in ("low", "base", "high"):
            yield f"cost_{case}", (getattr(a.bill.capital, case), getattr(b.bill.capital, case))
        yield "power_w", (a.bill.power_w, b.bill.power_w)
        if a.best or b.best:
            times = [side.best.iteration_time_s if side.best else None for side in (a, b)]
            ends = [side.best.bar if side.best else {} for side in (a, b)]
            yield "iteration_time_s", (times[0], times[1])
            for name in ("iteration_time_low_s", "iteration_time_high_s"):
                yield name, (ends[0].get(name), ends[1].get(name))
            yield "mfu", (a.row.mfu, b.row.mfu)
        plans = [side.row.served.plan if side.row.served else None for side in (a, b)]
        if any(plans):
            for name in ("tokens_per_s", "ttft_s", "tpot_s"):
                yield name, (getattr(plans[0], name, None), getattr(plans[1], name, None))
            yield "cost_per_million_tokens", (token_cost(a), token_cost(b))
        if a.goodput or b.goodput:
            yield "goodput", (getattr(a.goodput, "value", None), getattr(b.goodput, "value", None))

    @property
    def pace(self) -> Pace | None:
        """How the iteration times compare; None where they are of two models, or not known."""
        return pace_of(self.a, self.b)

    @property
    def sentence(self) -> str:
        """What the second one means instead of the first: money, time, what makes most of it."""
        pace = self.pace
        words = (
            self._money_words(),
            pace.words if pace is not None else self._untimed_words(),
            served_words(self.a, self.b),
        )
        text = f"{self.b.short} instead of {self.a.short}: {', '.join(filter(None, words))}"
        if share := self._share_words():
            text += f"; {share}"
        if lacking := unpriced_words(self.parts):
            text += f"; without a price, so not in it: {lacking}"
        return f"{text}."

    @property
    def more(self) -> float:
        """What the second network costs more at base prices [currency]."""
        return fsum(part.difference for part in self.parts)

    def _money_words(self) -> str:
        """The difference of the totals in words; with a word for its sign where it is a bound."""
        bound, more = bound_of(self.parts), self.more
        if abs(more) < CENT:
            return "the same money but for parts without a price" if bound else "the same money"
        if not bound:
            return f"{signed(more)} {self.currency}"
        if bound == "? " or not all(side.priced for side in (self.a, self.b)):
            return f"{signed(more)} {self.currency} of what has a price"
        least = "at least" if (bound == "≥ ") == (more > 0) else "at most"
        amount, way = signed(more).lstrip("+-"), "more" if more > 0 else "less"
        return f"{least} {amount} {self.currency} {way}"

    def _untimed_words(self) -> str:
        """Which of the two is not timed where the other is."""
        untimed = [side.short for side in (self.a, self.b) if not side.best]
        alike = self.a.workload == self.b.workload == "training"
        return f"no time for {untimed[0]}" if alike and len(untimed) == 1 else ""

    def _share_words(self) -> str:
        """Which part makes most of the difference; both where one more part outweighs it."""
        parts = telling(self.parts)
        if not parts or abs(self.more) < CENT:
            return ", ".join(part.words for part in parts[:2])
        share = parts[0].difference / self.more
        if share >= ALL and len(parts) == 1:
            return f"all of it {parts[0].name()}"
        if 0 < share <= 1:
            return f"{100 * share:.0f} % of it {parts[0].name()}"
        return ", ".join(f"{part.name()} {signed(part.difference)}" for part in parts[:2])

    def in_a_line(self) -> str:
        """The closing sentence."""
        return self.sentence.removesuffix(".")

    def to_dict(self) -> dict[str, Any]:
        """Exactly the JSON of ``netplan diff --format json``."""
        pace = self.pace
        totals: dict[str, dict[str, Any]] = {
            total.name: {"a": total.a, "b": total.b, "difference": total.difference}
            for total in self.totals
        }
        totals["cost_base"]["bound"] = bound_of(self.parts).strip()
        if pace is not None:
            totals["iteration_time_s"] |= {
                "equal": pace.equal,
                "more": pace.more,
                "of_a_sequence": pace.each,
            }
        return answer_dict(
            self.inputs,
            currency=self.currency,
            a=self.a.to_dict(),
            b=self.b.to_dict(),
            lines=[_line_dict(line) for line in self.lines],
            parts=[_line_dict(part) for part in self.parts],
            totals=totals,
            sentence=self.sentence,
        )

    def sections(self) -> Iterator[Section]:
        """Both in words, every line, parts, totals, the closing sentence, notes."""
        yield self._heading()
        yield Table("lines", [*self._columns()], self.lines, self._title(), self._legend())
        yield Table("parts", [*self._columns()], self.parts, "By part", only="programs")
        figures: list[Column[Total]] = [column("total", "name"), *columns("a", "b", "difference")]
        yield Table("totals", figures, self.totals, only="programs")
        shown: list[Column[Shown]] = [
            column("total", "title", title="", form="prose"),
            column("a", title="A", form="code"),
            column("b", title="B", form="code"),
            column("difference", title="B - A", form="code"),
        ]
        yield Table("totals", shown, [*self._shown()], "Totals", only="people")
        yield Paragraph(self.sentence, "strong")
        sides = ((side.label, side.row.notes) for side in (self.a, self.b))
        yield Notes.of(sides, "both")

    def summary(self) -> Iterator[Section]:
        """Lines with the largest differences, totals, the closing sentence: a screen."""
        heading, sentence = self._heading(), self.sentence
        if len(folded(sentence, WIDTH)) > MOST_BELOW:
            sentence = short(sentence, MOST_BELOW * WIDTH - MOST_BELOW * LONGEST_WORD)
        totals = [*self._shown()]
        room = self._room(heading, sentence, totals)
        if room < LEAST_LINES:
            heading = Heading(
                short(heading.title, WIDTH), tuple(short(line, WIDTH) for line in heading.lines)
            )
            room = self._room(heading, sentence, totals)
        for title in GIVE_WAY:
            if room < LEAST_LINES:
                totals = [row for row in totals if row.title != title]
                room = self._room(heading, sentence, totals)
        yield heading
        yield Verbatim(tuple(self._screen_lines(room)))
        yield Verbatim(tuple(_aligned([["", "A", "B", "B - A"], *totals])))
        yield Paragraph(sentence, "strong")
        yield Paragraph(self._more_words(), "quiet")

    def _room(self, heading: Heading, sentence: str, totals: Sequence[Shown]) -> int:
        """Lines of a screen that are left for those of the bills [1]."""
        texts = (heading.title, *heading.lines, sentence)
        taken = sum(len(folded(text, WIDTH)) for text in texts)
        return MOST_LINES - taken - len(totals) - 1 - GAPS

    def _heading(self) -> Heading:
        """What is laid beside what."""
        sides = (self.a, self.b)
        prices = " and ".join(dict.fromkeys(side.prices for side in sides))
        models = " and ".join(dict.fromkeys(side.model for side in sides if side.model))
        about = ", ".join(filter(None, (models, f"prices {prices} in {self.currency}")))
        named = {side.scenario for side in sides}
        whose = f"{named.pop()}, two bills" if len(named) == 1 else "Bills"
        lines = tuple(f"{sign}  {side.words}" for sign, side in zip("AB", sides, strict=True))
        return Heading(f"{whose} side by side: {about}", lines)

    def _title(self) -> str:
        return f"Lines of both bills, in {self.scale.title}"

    def _legend(self) -> tuple[str, ...]:
        """What signs mean that occur."""
        lacking = any(line.unpriced_a or line.unpriced_b for line in self.lines)
        return ("≥, ≤: lines without a price are not in the sum.",) if lacking else ()

    def _columns(self) -> Iterator[Column[PartDifference]]:
        """Columns of lines and parts."""
        scale = self.scale
        yield column("part", shown="never")
        yield column("network", shown="never")
        yield column("item", _item)
        yield column("unit", form="code", shown="wide")
        yield column("count_a", title="A", form="count")
        yield column("count_b", title="B", form="count")
        yield column(scale.of_money("money_a", "A, money"), "money_a", mark=_bare("a"))
        yield column(scale.of_money("money_b", "B, money"), "money_b", mark=_bare("b"))
        yield column(scale.of_money("difference", "B - A"), "difference")
        yield column("unpriced_a", shown="never")
        yield column("unpriced_b", shown="never")

    def _shown(self) -> Iterator[Shown]:
        """Totals for people."""
        yield from self._money_rows()
        yield from self._power_rows()
        yield from self._time_rows()
        yield from self._served_rows()
        first, second = self.a.goodput, self.b.goodput
        if first is not None and second is not None:
            difference = second.value - first.value
            equal = abs(difference) <= (first.half_width or 0.0) + (second.half_width or 0.0)
            more = "equal" if equal else _points(difference)
            yield Shown("Goodput", _percent(first.value), _percent(second.value), more)

    def _money_rows(self) -> Iterator[Shown]:
        scale, bills = self.scale, (self.a.bill, self.b.bill)
        bases = [
            f"{_least(side.bill)}{scale.one(side.bill.capital.base)}" if side.priced else NO_PRICE
            for side in (self.a, self.b)
        ]
        own = bills[0].capital.base
        share = f" ({100 * self.more / own:+,.0f} %)" if own else ""
        more = f"{bound_of(self.parts)}{_signed(scale, self.more)}{share}"
        more = more if abs(self.more) >= CENT else "0"
        if NO_PRICE in bases:
            yield Shown(f"Network, {scale.title}", bases[0], bases[1])
            return
        yield Shown(f"Network, {scale.title}", bases[0], bases[1], more)
        yield Shown("  low to high", _span(scale, bills[0]), _span(scale, bills[1]))
        each = [bill.per_gpu.base for bill in bills]
        if bills[0].gpus != bills[1].gpus:
            texts = [f"{_least(bill)}{bill.per_gpu.base:,.0f}" for bill in bills]
            share = f"{100 * (each[1] / each[0] - 1):+,.0f} %" if each[0] else ""
            yield Shown(f"  {self.currency} a GPU", texts[0], texts[1], share)

    def _power_rows(self) -> Iterator[Shown]:
        watts = (self.a.bill.power_w, self.b.bill.power_w)
        known = [value for value in watts if value is not None]
        if not known:
            return
        factor, unit = (MEGA, "MW") if max(known) >= MEGAWATTS_FROM else (KILO, "kW")
        texts = [
            DASH
            if value is None
            else f"{'≥ ' if side.bill.draw.unknown else ''}{value / factor:,.2f}"
            for value, side in zip(watts, (self.a, self.b), strict=True)
        ]
        first, second = watts
        more = ""
        if first is not None and second is not None:
            more = f"{(second - first) / factor:+,.2f}" if second != first else "0"
        yield Shown(f"Power, {unit}", texts[0], texts[1], more)

    def _time_rows(self) -> Iterator[Shown]:
        sides = (self.a, self.b)
        if all(side.best is None for side in sides):
            return
        texts = [side.best.time_text if side.best else DASH for side in sides]
        pace, more = self.pace, ""
        if pace is not None:
            each = " a sequence" if pace.each else ""
            more = "equal" if pace.equal else f"{100 * pace.more:+.1f} %{each}"
        yield Shown("Iteration", texts[0], texts[1], more)
        first, second = self.a.row.mfu, self.b.row.mfu
        points = _points(second - first) if first is not None and second is not None else ""
        points = "equal" if pace and pace.equal and self.a.alike == self.b.alike else points
        yield Shown("MFU", _percent(first), _percent(second), points)

    def _served_rows(self) -> Iterator[Shown]:
        plans = [side.row.served.plan if side.row.served else None for side in (self.a, self.b)]
        if not any(plans):
            return
        apart = served_words(self.a, self.b).removesuffix(" tokens a second")
        rates = [_number(value_at(plan, "tokens_per_s"), ",.0f") for plan in plans]
        yield Shown("Tokens/s", rates[0], rates[1], apart if apart[:1] in "+-" else "equal")
        for name, title in (("ttft_s", "TTFT, ms"), ("tpot_s", "TPOT, ms")):
            times = [getattr(plan, name) / MILLI if plan else None for plan in plans]
            yield Shown(title, _number(times[0], ",.4g"), _number(times[1], ",.4g"))
        costs = [_number(token_cost(side), ",.3g") for side in (self.a, self.b)]
        yield Shown(f"{self.currency}/M tokens", costs[0], costs[1])

    def _screen_lines(self, room: int) -> Iterator[str]:
        """Lines that differ, as many as there is room for, the others summed up."""
        scale = self.scale
        changed = [line for line in self.lines if line.changed]
        equal = [line for line in self.lines if not line.changed]
        kept = max(1, room - 2 - bool(equal))
        if len(changed) > kept:
            kept = max(1, kept - 1)
        rows = [["", f"Line, {scale.title}", "A", "B", "A", "B", "B - A"]]
        rows += [self._cells(line) for line in changed[:kept]]
        for sign, words, rest in (
            ("", "{} more line{}: --details", changed[kept:]),
            ("=", "{} equal line{}", equal),
        ):
            if rest:
                sums = [fsum(line.money_a for line in rest), fsum(line.money_b for line in rest)]
                more = "" if rest is equal else _signed(scale, sums[1] - sums[0])
                title = words.format(len(rest), "s" * (len(rest) > 1))
                rows.append([sign, title, "", "", *map(scale.one, sums), more])
        drawn = [*_aligned(rows, texts=2)]
        yield drawn[0]
        yield "─" * max(map(len, drawn))
        yield from drawn[1:]

    def _cells(self, line: PartDifference) -> list[str]:
        """The texts of one line."""
        scale = self.scale
        sign = "~" if line.count_a and line.count_b else "+" if line.count_b else "-"
        counts = [f"{count:,}" if count else "" for count in (line.count_a, line.count_b)]
        money = [
            NO_PRICE if bare else scale.one(amount) if count else ""
            for count, bare, amount in (
                (line.count_a, line.unpriced_a, line.money_a),
                (line.count_b, line.unpriced_b, line.money_b),
            )
        ]
        more = "" if line.unpriced_a or line.unpriced_b else _signed(scale, line.difference)
        return [sign, _item(line), *counts, *money, more]

    def _more_words(self) -> str:
        """What more there is to ask."""
        timed = self.a.best is not None and self.a.goodput is None
        return f"More: --details (every line), {'--goodput, ' if timed else ''}-o page.html"


def _item(line: PartDifference) -> str:
    """A line, with the network beside that it belongs to."""
    return f"{line.network} network: {line.item}" if line.network else line.item


def _line_dict(line: PartDifference) -> dict[str, Any]:
    """A line, or a part, as JSON; without a price its money is none."""
    return {
        "part": line.part,
        "network": line.network,
        "item": line.item,
        "unit": line.unit,
        "count_a": line.count_a,
        "count_b": line.count_b,
        "money_a": line.money_a,
        "money_b": line.money_b,
        "difference": line.difference,
        "unpriced_a": line.unpriced_a,
        "unpriced_b": line.unpriced_b,
    }


def _bare(side: str) -> Callable[[PartDifference], tuple[str, str]]:
    """The sign of money that leaves units without a price out."""
    return lambda line: ("≥ " if getattr(line, f"unpriced_{side}") else "", "")


def _least(bill: Bill) -> str:
    """The sign of a sum that leaves lines without a price out."""
    return "≥ " if bill.quote.unpriced else ""


def _span(scale: Scale, bill: Bill) -> str:
    """Low to high of a total."""
    price = bill.capital
    return scale.span(price.low, price.high, least=price.base if open_above(bill) else None)


def _signed(scale: Scale, amount: float) -> str:
    """An amount in a scale, with its sign."""
    return f"{amount / scale.factor:+,.{scale.digits}f}" if abs(amount) >= CENT else "0"


def _percent(share: float | None) -> str:
    """A share of one."""
    return DASH if share is None else f"{100 * share:.1f} %"


def _number(value: float | None, form: str) -> str:
    """A number in a form of Python's."""
    return DASH if value is None else f"{value:{form}}"


def _points(share: float) -> str:
    """A difference of two shares."""
    return f"{100 * share:+.1f} points" if abs(share) >= LEAST_POINTS else "0"


def _aligned(rows: Sequence[Sequence[str]], texts: int = 1) -> Iterator[str]:
    """Rows in columns, the first ones to the left; the last of these is cut where there is no room.

    Examples
    --------
    >>> [*_aligned([["", "A"], ["MFU", "9 %"]])]
    ['       A', 'MFU  9 %']
    """
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    room = WIDTH - sum(widths) - len(GAP) * (len(widths) - 1)
    widths[texts - 1] = max(LEAST_ITEM, widths[texts - 1] + room) if room < 0 else widths[texts - 1]
    for row in rows:
        cells = [
            f"{short(cell, width):<{width}}" if number < texts else f"{cell:>{width}}"
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield GAP.join(cells).rstrip()
