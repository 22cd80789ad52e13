"""Two scenarios side by side, as an answer: lines of both bills, totals, one closing sentence."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any, NamedTuple

from netplan.answers import diff_sides
from netplan.answers.bill_columns import sum_range
from netplan.costing.fabric_bill import Bill
from netplan.costing.pricing import difference_range
from netplan.costing.ranges import Range
from netplan.decide.candidates import AS_FAST
from netplan.decide.difference import (
    CENT,
    PartDifference,
    bound_of,
    differences,
    line_differences,
    money_words,
    signed,
    telling,
    unpriced_words,
)
from netplan.records import replace, value_at
from netplan.reports import sections as show
from netplan.reports.answer import Answer
from netplan.reports.escape import short
from netplan.reports.quantities import DASH, Quantity, Scale
from netplan.reports.schema import plain_at
from netplan.reports.screen import WIDTH, Screen, fitting_screen
from netplan.reports.terminal import part_count
from netplan.units import MILLI, power_scale, si

GIVE_WAY = ("Tokens/s/GPU", "TPOT, ms", "TTFT, ms", "MFU", "  low to high")
"""Figures that a screen leaves to ``--details`` where it has no room for all."""
MOST_ITEM = 34
"""Letters of what a line is that a screen shows [1]."""
NO_PRICE = "no price"
LEAST_POINTS = 5e-4
"""Difference of two shares below which a reader of a tenth of a percent sees none [1]."""
ALL = 1 - 1e-9
"""Share from which one part makes all of a difference [1]."""


TOTALS = {
    "bill": (
        *(f"cost_{case}=bill.capital.{case}" for case in ("low", "base", "high")),
        *("bill.gear", "bill.power_w"),
    ),
    "best": (
        *("best.iteration_time_s", "best.bar.iteration_time_low_s"),
        *("best.bar.iteration_time_high_s", "row.mfu"),
    ),
    "row.served": (
        *("row.served.plan.tokens_per_s", "row.served.plan.ttft_s", "row.served.plan.tpot_s"),
        "cost_per_million_tokens=row.served.cost.total.base",
    ),
    "row.stepped": (
        *("row.stepped.facts.step_s", "row.stepped.facts.sync_s"),
        "row.stepped.facts.tokens_per_s_per_gpu",
        *("row.stepped.price.usd_per_step", "row.stepped.price.usd_per_run"),
    ),
    "goodput": ("goodput=goodput.value",),
}
"""Figures of each side, by what it must have that they are told."""


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

    json_parts = "currency", "a", "b", "*differences", "totals=totals_by_name", "sentence"

    inputs: dict[str, Any]
    a: diff_sides.ScenarioSide
    b: diff_sides.ScenarioSide

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
        sides = (self.a, self.b)
        named = [
            path.rpartition("=")
            for of, paths in TOTALS.items()
            if any(value_at(side, of) for side in sides)
            for path in paths
        ]
        return tuple(
            Total(name or path.rpartition(".")[2], *(value_at(side, path) for side in sides))
            for name, _, path in named
        )

    @property
    def time_ratio(self) -> diff_sides.TimeRatio | None:
        """How the iteration times compare; None where they are of two models, or not known."""
        return diff_sides.compare_times(self.a, self.b)

    @property
    def sentence(self) -> str:
        """What the second one means instead of the first: money, time, what makes most of it."""
        compared, sides = self.time_ratio, (self.a, self.b)
        money = money_words(self.parts, self.currency)
        if abs(self.more) >= CENT and not all(side.priced for side in sides):
            money = f"{signed(self.more)} {self.currency}"
            money += " of what has a price" if bound_of(self.parts) else ""
        margin = self.margin
        if max(abs(margin.low), abs(margin.high)) >= CENT and margin.spread:
            ends = f" ({signed(margin.low)} to {signed(margin.high)} by the book)"
            money += ends if all(side.priced for side in sides) else ""
        untimed = [side.short for side in sides if not side.best]
        trains = all(side.workload == "training" for side in sides) and len(untimed) == 1
        absent = f"no time for {untimed[0]}" if trains else ""
        gear = self.b.bill.gear - self.a.bill.gear
        if abs(gear) >= CENT and not any(side.bill.gear_counted for side in sides):
            money += f", gear inside HB domains {signed(gear)} beside it"
        runs = (diff_sides.served_words(*sides), diff_sides.step_words(*sides))
        words = (money, compared.words if compared is not None else absent, *runs)
        text = f"{self.b.short} instead of {self.a.short}: {', '.join(filter(None, words))}"
        if share := self._share_words():
            text += f"; {share}"
        if lacking := unpriced_words(self.parts):
            text += f"; without a price, so not in it: {lacking}"
        for side in sides:
            if side.bill.media_given:
                text += f"; medium given by the file of {side.bill.name} ({side.bill.media_given})"
                text += ", so decide nothing by it until a hall confirms it"
        if unlike := diff_sides.not_ranked_words(self.a.goodput, self.b.goodput):
            text += f"; {unlike}"
        return f"{text}."

    @property
    def margin(self) -> Range:
        """What the second network costs more, low to high; a part costs the same in both."""
        return difference_range(self.a.bill.quote, self.b.bill.quote)

    @property
    def more(self) -> float:
        """What the second network costs more at base prices [currency]."""
        return fsum(part.difference for part in self.parts)

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

    @property
    def differences(self) -> dict[str, list[dict[str, Any]]]:
        """Lines and parts, as JSON."""
        tables = {"lines": self.lines, "parts": self.parts}
        return {name: [plain_at(row, *OF_LINES) for row in rows] for name, rows in tables.items()}

    @property
    def totals_by_name(self) -> dict[str, dict[str, Any]]:
        """Figures of both as JSON: with their difference, and how far it can be told."""
        totals = {total.name: plain_at(total, "a", "b", "difference") for total in self.totals}
        totals["cost_base"] |= {"bound": bound_of(self.parts).strip(), "margin": self.margin}
        if self.time_ratio is not None:
            of_times = plain_at(self.time_ratio, "equal", "more", "of_a_sequence=each")
            totals["iteration_time_s"] |= of_times
        if "goodput" in totals:
            apart = diff_sides.not_ranked_words(self.a.goodput, self.b.goodput)
            totals["goodput"]["alike"] = not apart
        return totals

    def sections(self) -> Iterator[show.Section]:
        """Both in words, every line, parts, totals, the closing sentence, notes."""
        yield self._heading()
        lacking = any(line.unpriced_a or line.unpriced_b for line in self.lines)
        legend = ("≥, ≤: lines without a price are not in the sum.",) if lacking else ()
        title = f"Lines of both bills, in {self.scale.title}"
        yield show.Table("lines", [*self._columns()], self.lines, title, legend)
        yield show.Table("parts", [*self._columns()], self.parts, "By part", shown="data")
        figures: list[show.Column[Total]] = [*show.columns("total=name", "a", "b", "difference")]
        yield show.Table("totals", figures, self.totals, shown="data")
        yield replace(self._totals([*self._shown()]), title="Totals")
        yield show.Paragraph(self.sentence, "strong")
        sides = ((side.label, side.row.notes) for side in (self.a, self.b))
        yield show.Notes.of(sides, "both")

    def summary(self) -> Iterator[show.Section]:
        """Lines with the largest differences, totals, the closing sentence: a screen."""
        most = sum(line.changed for line in self.lines)
        screen = fitting_screen(self._screen, max(most, 1))
        hidden: list[str] = []
        for title in GIVE_WAY:
            if screen.fits:
                break
            hidden.append(title)
            screen = self._screen(1, hidden)
        yield from screen.sections()

    def _screen(self, most: int, hidden: Sequence[str] = ()) -> Screen:
        """The screen with so many of the lines that differ, and without some of the totals.

        Ranges behind figures are left to ``--details`` where they would split the totals.
        """
        totals = self._totals([row for row in self._shown() if row.title not in hidden])
        if part_count(totals, WIDTH) > 1:
            bare = [[text.partition(" (")[0] for text in (row.a, row.b)] for row in totals.rows]
            rows = [row._replace(a=a, b=b) for row, (a, b) in zip(totals.rows, bare, strict=True)]
            totals = replace(totals, rows=rows)
        timed = self.a.best is not None and self.a.goodput is None
        return Screen(
            heading=self._heading(),
            verdict=(self.sentence,),
            table=self._screen_lines(most),
            remarks=(totals,),
            more=f"More: --details (every line), {'--goodput, ' if timed else ''}-o page.html",
            closes=True,
            least_gap=2,
        )

    def _totals(self, rows: Sequence[Shown]) -> show.Table[Shown]:
        """Totals for people."""
        shown: list[show.Column[Shown]] = [
            show.column("total", "title", title="", form="text"),
            show.column("a", title="A", form="code"),
            show.column("b", title="B", form="code"),
            show.column("difference", title="B - A", form="code"),
        ]
        return show.Table("totals", shown, rows, gap=2, shown="people")

    def _heading(self) -> show.Heading:
        """What is laid beside what."""
        sides = (self.a, self.b)
        prices = " and ".join(dict.fromkeys(side.prices for side in sides))
        models = " and ".join(dict.fromkeys(side.model for side in sides if side.model))
        about = ", ".join(filter(None, (models, f"prices {prices} in {self.currency}")))
        named = {side.scenario for side in sides}
        whose = f"{named.pop()}, two bills" if len(named) == 1 else "Bills"
        lines = tuple(f"{sign}  {side.words}" for sign, side in zip("AB", sides, strict=True))
        return show.Heading(f"{whose} side by side: {about}", lines)

    def _columns(self) -> Iterator[show.Column[PartDifference]]:
        """Columns of lines and parts."""
        scale = self.scale
        yield from show.columns("part", "network", shown="data")
        yield show.column("item", _item)
        yield show.column("unit", form="code", shown="wide")
        yield show.column("count_a", title="A", form="count")
        yield show.column("count_b", title="B", form="count")
        yield show.column(scale.of_money("money_a", "A, money"), "money_a", mark=_bare("a"))
        yield show.column(scale.of_money("money_b", "B, money"), "money_b", mark=_bare("b"))
        yield show.column(scale.of_money("difference", "B - A"), "difference")
        yield from show.columns("unpriced_a", "unpriced_b", shown="data")

    def _shown(self) -> Iterator[Shown]:
        """Totals for people."""
        yield from self._money_rows()
        yield from self._gear_rows()
        yield from self._power_rows()
        yield from self._time_rows()
        yield from self._served_rows()
        yield from self._step_rows()
        first, second = self.a.goodput, self.b.goodput
        if first is not None and second is not None:
            difference = second.value - first.value
            equal = abs(difference) <= (first.half_width or 0.0) + (second.half_width or 0.0)
            more = "equal" if equal else _points(difference)
            more = "not alike" if diff_sides.not_ranked_words(first, second) else more
            yield Shown("Goodput (clusters)", first.shown, second.shown, more)

    def _money_rows(self) -> Iterator[Shown]:
        scale, bills = self.scale, (self.a.bill, self.b.bill)
        bases = [
            f"{_least(side.bill)}{scale.number(side.bill.capital.base)}"
            if side.priced
            else NO_PRICE
            for side in (self.a, self.b)
        ]
        first_base = bills[0].capital.base
        share = f" ({100 * self.more / first_base:+,.0f} %)" if first_base else ""
        more = f"{bound_of(self.parts)}{_signed(scale, self.more)}{share}"
        more = more if abs(self.more) >= CENT else "0"
        if NO_PRICE in bases:
            yield Shown(f"Network, {scale.title}", bases[0], bases[1])
            return
        yield Shown(f"Network, {scale.title}", bases[0], bases[1], more)
        yield Shown("  low to high", *(sum_range(scale, bill.capital, bill) for bill in bills))
        per_gpu = [bill.per_gpu.base for bill in bills]
        if bills[0].gpus != bills[1].gpus:
            texts = [f"{_least(bill)}{bill.per_gpu.base:,.0f}" for bill in bills]
            share = f"{100 * (per_gpu[1] / per_gpu[0] - 1):+,.0f} %" if per_gpu[0] else ""
            share = f"{bound_of(self.parts)}{share}" if share else ""
            yield Shown(f"  {self.currency} a GPU", texts[0], texts[1], share)

    def _gear_rows(self) -> Iterator[Shown]:
        """What lies inside HB domains, which no sum of the network holds unless it is asked for."""
        bills = (self.a.bill, self.b.bill)
        if not any(bill.inside.bought for bill in bills):
            return
        texts = [
            "in server"
            if not bill.inside.bought
            else self.scale.number(bill.gear)
            if bill.inside.known
            else NO_PRICE
            for bill in bills
        ]
        more = "" if NO_PRICE in texts else _signed(self.scale, bills[1].gear - bills[0].gear)
        counted = any(bill.gear_counted for bill in bills)
        title = f"HB gear, {'in it' if counted else 'beside'}"
        yield Shown(title, texts[0], texts[1], more)

    def _power_rows(self) -> Iterator[Shown]:
        watts = (self.a.bill.power_w, self.b.bill.power_w)
        known = [value for value in watts if value is not None]
        if not known:
            return
        factor, unit = power_scale(max(known))
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
        compared, more = self.time_ratio, ""
        if compared is not None:
            unit = " a sequence" if compared.each else ""
            within = ", within the error" if compared.equal else ""
            more = (
                "0"
                if abs(compared.more) < AS_FAST
                else f"{100 * compared.more:+.1f} %{unit}{within}"
            )
        yield Shown("Iteration", texts[0], texts[1], more)
        first, second = self.a.row.mfu, self.b.row.mfu
        points = _points(second - first) if first is not None and second is not None else ""
        yield Shown("MFU", _percent(first), _percent(second), points)

    def _served_rows(self) -> Iterator[Shown]:
        plans = [side.row.served.plan if side.row.served else None for side in (self.a, self.b)]
        if not any(plans):
            return
        apart = diff_sides.served_words(self.a, self.b).removesuffix(" tokens a second")
        rates = [_number(value_at(plan, "tokens_per_s"), ",.0f") for plan in plans]
        yield Shown("Tokens/s", rates[0], rates[1], apart if apart[:1] in "+-" else "equal")
        for name, title in (("ttft_s", "TTFT, ms"), ("tpot_s", "TPOT, ms")):
            times = [getattr(plan, name) / MILLI if plan else None for plan in plans]
            yield Shown(title, _number(times[0], ",.4g"), _number(times[1], ",.4g"))
        costs = [
            _number(value_at(side.row, "served.cost.total.base"), ",.3g")
            for side in (self.a, self.b)
        ]
        yield Shown(f"{self.currency}/M tokens", costs[0], costs[1])

    def _step_rows(self) -> Iterator[Shown]:
        steps = [side.row.stepped for side in (self.a, self.b)]
        if not any(steps):
            return
        from netplan.setup.post_training_words import least

        apart = diff_sides.step_words(self.a, self.b).removesuffix(" step")
        times = [least(step.trained) if step else DASH for step in steps]
        yield Shown("Step", times[0], times[1], apart.partition(" step")[0])
        syncs = [si(step.facts["sync_s"], "s") if step else DASH for step in steps]
        yield Shown("New weights", syncs[0], syncs[1])
        rates = [step.facts["tokens_per_s_per_gpu"] if step else None for step in steps]
        yield Shown("Tokens/s/GPU", _number(rates[0], ",.0f"), _number(rates[1], ",.0f"))
        costs = [value_at(side.row, "stepped.price.step.total.base") for side in (self.a, self.b)]
        share = f"{100 * (costs[1] / costs[0] - 1):+.1f} %" if costs[0] and costs[1] else ""
        texts = [_number(cost, ",.4g") for cost in costs]
        yield Shown(f"{self.currency}/step", texts[0], texts[1], share)

    def _screen_lines(self, most: int) -> show.Table[tuple[str, ...]]:
        """So many lines that differ, the others summed up."""
        scale = self.scale
        changed = [line for line in self.lines if line.changed]
        equal = [line for line in self.lines if not line.changed]
        rows = [self._cells(line) for line in changed[:most]]
        for sign, words, rest in (
            ("", "{} more line{}: --details", changed[most:]),
            ("=", "{} equal line{}", equal),
        ):
            if rest:
                sums = [fsum(line.money_a for line in rest), fsum(line.money_b for line in rest)]
                more = "" if rest is equal else _signed(scale, sums[1] - sums[0])
                title = words.format(len(rest), "s" * (len(rest) > 1))
                rows.append((sign, title, "", "", *map(scale.number, sums), more))
        sides = [f"{what} {side}" for what in ("count", scale.title) for side in "AB"]
        titles = ("", "Line", *sides, "B - A")
        shown: list[show.Column[tuple[str, ...]]] = [
            show.column(Quantity(title, title, form="code" if place > 1 else "text"), str(place))
            for place, title in enumerate(titles)
        ]
        return show.Table("lines", shown, rows)

    def _cells(self, line: PartDifference) -> tuple[str, ...]:
        """The texts of one line."""
        scale = self.scale
        sign = "~" if line.count_a and line.count_b else "+" if line.count_b else "-"
        counts = [f"{count:,}" if count else "" for count in (line.count_a, line.count_b)]
        money = [
            NO_PRICE if bare else scale.number(amount) if count else ""
            for count, bare, amount in (
                (line.count_a, line.unpriced_a, line.money_a),
                (line.count_b, line.unpriced_b, line.money_b),
            )
        ]
        more = "" if line.unpriced_a or line.unpriced_b else _signed(scale, line.difference)
        return (sign, short(_item(line), MOST_ITEM), *counts, *money, more)


def _item(line: PartDifference) -> str:
    """A line, with the network beside that it belongs to."""
    return f"{line.network} network: {line.item}" if line.network else line.item


OF_LINES = (
    *("part", "network", "item", "unit", "count_a", "count_b", "money_a", "money_b"),
    *("difference", "unpriced_a", "unpriced_b"),
)
"""What the JSON has of a line, or a part."""


def _bare(side: str) -> Callable[[PartDifference], tuple[str, str]]:
    """The sign of money that leaves units without a price out."""
    return lambda line: ("≥ " if getattr(line, f"unpriced_{side}") else "", "")


def _least(bill: Bill) -> str:
    """The sign of a sum that leaves lines without a price out."""
    return "≥ " if bill.quote.unpriced else ""


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
