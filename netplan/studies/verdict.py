"""What a study answers in sentences: who leads and where that turns, the knee, or the best point.

They are read off the points of the first chart, one sentence a drawing. Inputs that are given
rather than chosen, such as a model or a number of GPUs, make a sentence each as well.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from netplan.reports.axes import finite
from netplan.reports.plots import Key
from netplan.reports.quantities import listed
from netplan.studies.charts import Panel, Reader, Row, front_of, inputs_behind, panels_of
from netplan.studies.definition import ChartSpec, StudyDefinition

SCALE = frozenset(("gpus", "batch", "model", "prompt", "output", "concurrency", "requests_a_stage"))
GIVEN = SCALE | {"seed", "iteration_model", "acceptance", "ttft_ms", "tpot_ms"}
"""Inputs that a study compares under, not among."""

LOW_UNITS = frozenset(("s", "ms", "µs", "USD", "W", "kW", "MW", "kWh", "B", "m"))
LOW_WORDS = ("days", "million", "usd", "switches", "links", "transceivers")
HIGH_WORDS = ("mfu", "throughput", "utilisation", "efficiency", "rate", "speed", "goodput")
"""Units and words of outputs of which less, or more, is better."""

MOST_SAID = 4
"""Sentences of a verdict [1]."""

MOST_TURNS = 3
"""Changes of the leader up to which each is said [1]."""

SAME = 1e-6
"""Values this close to the best share its place [1]."""

KNEE = 0.05
"""A knee has at least all but this share of what there is to gain [1]."""

Line = Mapping[float, float]


class Span(Struct, frozen=True):
    """A stretch of the horizontal axis with the same leaders, and how far the next is behind."""

    leaders: frozenset[Key]
    first: float
    last: float
    leads: tuple[float, ...]


def verdict(rows: Sequence[Row], reader: Reader, *, complete: bool = True) -> str:
    """Say what the points of a study answer; empty where there is nothing to compare."""
    specs = reader.spec.charts
    said = list(_of_chart(rows, specs[0], reader)) if specs else _of_outputs(rows, reader)
    if not said:
        return ""
    more = len(said) - MOST_SAID
    text = " ".join(f"{one}." for one in said[:MOST_SAID])
    text += f" The charts show {more:,} more cases." if more > 0 else ""
    return _capital(text) if complete else f"So far: {text}"


def _capital(text: str) -> str:
    """With a capital first, but for names such as gpt-1t."""
    first = text.split(maxsplit=1)[0]
    return text if set("-0123456789") & set(first) else text[:1].upper() + text[1:]


def lower_is_better(spec: StudyDefinition, name: str, unit: str, quantity: str) -> bool | None:
    """Whether less of an output is better; None where its name does not tell.

    Examples
    --------
    >>> from netplan.studies.definition import STUDIES
    >>> spec = STUDIES.load("batch-size")
    >>> lower_is_better(spec, "iteration_time_s", "s", "iteration time")
    True
    >>> lower_is_better(spec, "of_ideal", "", "of ideal"), lower_is_better(spec, "plan", "", "plan")
    (False, None)
    """
    for row in spec.relative:
        if row.name == name:
            # The reference over the point's own: a short time is a high speed.
            own = lower_is_better(spec, row.of, "s" if row.of.endswith("_s") else "", row.of)
            return None if own is None else not own
    per = name.rpartition(".")[2].endswith(("_per_s", "_per_s_per_gpu"))
    if per or any(word in quantity for word in HIGH_WORDS):
        return False
    return True if unit in LOW_UNITS or any(word in quantity for word in LOW_WORDS) else None


def _of_outputs(rows: Sequence[Row], reader: Reader) -> list[str]:
    """The best and worst point by the first output that has a better end; without any chart."""
    for name in reader.spec.output_names:
        if _lower(reader, name) is not None:
            return list(_ends("", rows, reader.spec.axis_names, name, reader))
    return []


def _of_chart(rows: Sequence[Row], chart: ChartSpec, reader: Reader) -> Iterator[str]:
    """One sentence for each drawing and each case in it."""
    over_input = chart.kind == "lines" and inputs_behind(reader.spec, chart.x) is not None
    for panel in panels_of(rows, chart, reader):
        if chart.kind == "heat":
            yield from _ends(panel.heading, panel.rows, (chart.x, chart.y), str(chart.z), reader)
        elif chart.kind == "scatter" and chart.front:
            yield from _front(panel, chart)
        elif over_input:
            yield from _cases(panel, chart)
        else:
            names = (*panel.series, chart.x)
            yield from _ends(panel.heading, panel.rows, names, chart.y, reader)


def _lower(reader: Reader, name: str) -> bool | None:
    found = reader.words(name)
    if found.unit and found.unit in (reader.currency, reader.book_currency):
        return True
    return lower_is_better(reader.spec, name, found.unit, found.quantity)


def _ends(
    heading: str, rows: Sequence[Row], names: Sequence[str], name: str, reader: Reader
) -> Iterator[str]:
    """The points with the least and most of an output, the better one first."""
    known = [(value, row) for row in rows if (value := finite(row.get(name))) is not None]
    if len(known) < 2:  # noqa: PLR2004 - one point compares with nothing
        return
    quantity = reader.words(name).quantity
    low, high = (pick(known, key=lambda one: one[0]) for pick in (min, max))
    start = f"{heading}: {quantity}" if heading else quantity
    if high[0] - low[0] <= SAME * abs(high[0]):
        yield f"{start} is {reader.shown(name, low[0])} at every point"
        return
    varied = [one for one in names if len({reader.value(row, one) for _, row in known}) > 1]
    ends = {"lowest": low, "highest": high}
    order = ("lowest", "highest") if _lower(reader, name) in (True, None) else ("highest", "lowest")
    said = [
        f"{word} with {_at(varied, row, reader)} ({reader.shown(name, value)})"
        for word in order
        for value, row in (ends[word],)
    ]
    times = f", {high[0] / low[0]:.3g} times apart" if low[0] > 0 else ""
    yield f"{start} is {said[0]} and {said[1]}{times}"


def _at(names: Sequence[str], row: Row, reader: Reader) -> str:
    """Where a point stands; what it does not have goes unsaid."""
    told = [(name, value) for name in names if (value := reader.value(row, name)) is not None]
    return reader.texts(told) or "none"


def _front(panel: Panel, chart: ChartSpec) -> Iterator[str]:
    """How many designs nothing beats, and the two ends of them."""
    front = [panel.rows[at] for at in front_of(panel.rows, chart)]
    reader = panel.reader
    if not front:
        return
    x, y = (reader.words(name).quantity for name in (chart.x, chart.y))
    ends = [
        f"{reader.shown(chart.x, row[chart.x])} for {reader.shown(chart.y, row[chart.y])}"
        + (f" ({_at(chart.series, row, reader)})" if chart.series else "")
        for row in (front[0], front[-1])
    ]
    start = f"{panel.heading}: " if panel.heading else ""
    span = " to ".join(dict.fromkeys(ends))
    count = f"{len(front):,} of {len(panel.rows):,} designs"
    yield f"{start}{count} are beaten by none, {x} for {y}: {span}"


def _cases(panel: Panel, chart: ChartSpec) -> Iterator[str]:
    """Lines over an input, apart by what is given."""
    reader = panel.reader
    given = tuple(name for name in panel.series if name in GIVEN)
    chosen = tuple(name for name in panel.series if name not in GIVEN)
    cases: dict[Key, list[Row]] = {}
    for row in panel.rows:
        cases.setdefault(tuple(reader.value(row, name) for name in given), []).append(row)
    for values, rows in cases.items():
        # A value that all cases share goes without saying.
        told = zip(given, values, strict=True) if len(cases) > 1 else ()
        heading = ", ".join(filter(None, (panel.heading, reader.texts(told))))
        start = f"{heading}: " if heading else ""
        lower = _lower(reader, chart.y)
        lines = _lines(rows, chart, chosen, reader)
        if lower is None or not any(lines.values()) or _own_scales(chart, reader.spec):
            yield from _ends(heading, rows, (*chosen, chart.x), chart.y, reader)
            continue
        teller = Teller(chart, chosen, lower, reader)
        yield start + teller.sentence(lines)


def _own_scales(chart: ChartSpec, spec: StudyDefinition) -> bool:
    """Whether every line is compared with a point of its own, so that all cross there."""
    behind = inputs_behind(spec, chart.x) or frozenset()
    return any(row.name == chart.y and behind & set(row.to) for row in spec.relative)


def _lines(
    rows: Sequence[Row], chart: ChartSpec, chosen: tuple[str, ...], reader: Reader
) -> dict[Key, dict[float, float]]:
    """Values over x of each series but the one that all are compared with."""
    relative = next((one for one in reader.spec.relative if one.name == chart.y), None)
    reference = None
    if relative is not None and set(chosen) & set(relative.to):
        reference = tuple(relative.to.get(name) for name in chosen)
    lines: dict[Key, dict[float, float]] = {}
    for row in rows:
        key = tuple(reader.value(row, name) for name in chosen)
        x, y = finite(reader.value(row, chart.x)), finite(row[chart.y])
        if x is not None and y is not None and key != reference:
            lines.setdefault(key, {})[x] = y
    return lines


class Teller(Struct, frozen=True):
    """Says of some lines which leads, where that turns, and where the leader's knee is."""

    chart: ChartSpec
    chosen: tuple[str, ...]
    lower: bool
    reader: Reader

    @property
    def word(self) -> str:
        """Which end is the better one."""
        return "lowest" if self.lower else "highest"

    @property
    def _relative(self) -> bool:
        """Whether 1 is what all are compared with."""
        return any(row.name == self.chart.y for row in self.reader.spec.relative)

    def sentence(self, lines: Mapping[Key, Line]) -> str:
        """The answer of one case."""
        quantity = self.reader.words(self.chart.y).quantity
        if len(lines) == 1:
            return f"{quantity}: {self._course(next(iter(lines.values())))}"
        spans = spans_of(lines, lower=self.lower)
        if len(spans) == 1:
            return f"{quantity} {self._one(spans[0], lines)}"
        if len(spans) - 1 > MOST_TURNS:
            best = max(spans, key=lambda span: len(span.leads))
            count = sum(len(one.leads) for one in spans)
            where = self.reader.words(self.chart.x).quantity
            return (
                f"{quantity}: which is {self.word} changes {len(spans) - 1} times over {where};"
                f" longest it is {self._names(best.leaders)}, at {len(best.leads)} of {count}"
            )
        parts = ", ".join(self._part(at, spans) for at in range(len(spans)))
        crossed = [
            self._x(place)
            for one, two in pairwise(spans)
            if (place := crossing(lines, one, two)) is not None
        ]
        places = f"; lines cross at about {listed(crossed)}" if crossed else ""
        return f"{quantity} is {self.word} {parts}{places}"

    def _names(self, keys: frozenset[Key]) -> str:
        """Names of some series."""
        texts = (self.reader.texts(zip(self.chosen, key, strict=True)) for key in keys)
        return listed(sorted(texts))

    def _x(self, value: float, *, named: bool = False) -> str:
        """A place on the horizontal axis."""
        whole = int(value) if value == int(value) else float(f"{value:.4g}")
        form = self.reader.named if named else self.reader.shown
        return form(self.chart.x, whole)

    def _part(self, at: int, spans: Sequence[Span]) -> str:
        """One stretch: who leads, where, and by how much at most."""
        span = spans[at]
        where = f"from {self._x(span.first)} to {self._x(span.last)}"
        if at == 0:
            where = f"up to {self._x(span.last, named=True)}"
        elif at == len(spans) - 1:
            where = f"from {self._x(span.first)} on"
        elif span.first == span.last:
            where = f"at {self._x(span.first)}"
        return f"with {self._names(span.leaders)} {where}{_by(span, most=True)}"

    def _one(self, span: Span, lines: Mapping[Key, Line]) -> str:
        """One leader all along."""
        leader = next(key for key in lines if key in span.leaders)
        course, names = self._course(lines[leader]), self._names(span.leaders)
        if len(span.leaders) == len(lines):
            return f"is the same with {names}: {course}"
        return f"is {self.word} with {names} throughout{_by(span)}: {course}"

    def _course(self, line: Line) -> str:
        """The best point of a line, its knee, or only its ends."""
        places = sorted(line)
        first, last = places[0], places[-1]
        values = [line[x] for x in places]
        best = (min if self.lower else max)(places, key=lambda x: line[x])
        at = {x: self.reader.shown(self.chart.y, line[x]) for x in places}
        if max(values) - min(values) <= SAME * abs(line[best]):
            return f"{at[best]} at every point"
        if best not in (first, last):
            ends = " and ".join(f"{at[x]} at {self._x(x)}" for x in (first, last))
            return f"best at {self._x(best, named=True)} ({at[best]}, against {ends})"
        course = f"{at[first]} at {self._x(first, named=True)}, {at[last]} at {self._x(last)}"
        even = even_at(line) if self._relative else None
        if even is not None:
            course += f"; even (1) at about {self._x(even)}"
        knee = knee_of(line, lower=self.lower) if best == last else None
        if knee is None or knee in (first, last):
            return course
        return f"{course}; from {self._x(knee)} on less than {100 * KNEE:.0f} % is left to gain"


def spans_of(lines: Mapping[Key, Line], *, lower: bool) -> list[Span]:
    """Stretches of x with the same leaders; equal values lead together.

    Examples
    --------
    >>> lines = {("a",): {1: 1.0, 2: 2.0, 3: 3.0}, ("b",): {1: 2.0, 2: 2.0, 3: 2.0}}
    >>> [(sorted(one.leaders), one.first, one.last) for one in spans_of(lines, lower=True)]
    [([('a',)], 1.0, 2.0), ([('b',)], 3.0, 3.0)]
    """
    found: list[Span] = []
    for x in sorted({float(x) for line in lines.values() for x in line}):
        values = {key: line[x] for key, line in lines.items() if x in line}
        best = (min if lower else max)(values.values())
        ahead = frozenset(
            key for key, value in values.items() if abs(value - best) <= SAME * abs(best)
        )
        others = [value for key, value in values.items() if key not in ahead]
        following = (min if lower else max)(others) if others else best
        lead = abs(following - best) / abs(following) if following else 0.0
        both = found[-1].leaders & ahead if found else frozenset()
        if both:
            found[-1] = Span(both, found[-1].first, x, (*found[-1].leads, lead))
        else:
            found.append(Span(ahead, x, x, (lead,)))
    return found


def crossing(lines: Mapping[Key, Line], one: Span, two: Span) -> float | None:
    """Where the leaders of two neighbouring stretches cross, on straight lines between points.

    Examples
    --------
    >>> lines = {("a",): {1: 1.0, 3: 3.0}, ("b",): {1: 2.5, 3: 2.5}}
    >>> crossing(lines, *spans_of(lines, lower=True))
    2.5
    """
    here, there = one.last, two.first
    first, second = (min(span.leaders, key=str) for span in (one, two))
    places = [(lines[key].get(here), lines[key].get(there)) for key in (first, second)]
    (a, c), (b, d) = places
    if a is None or b is None or c is None or d is None or (a - b) * (c - d) >= 0:
        return None
    share = (a - b) / ((a - b) - (c - d))
    return here + share * (there - here)


def even_at(line: Line) -> float | None:
    """Where a line first passes 1, on straight lines between its points.

    Examples
    --------
    >>> even_at({0: 1.5, 10: 0.5}), even_at({0: 1.5, 10: 1.25})
    (5.0, None)
    """
    for here, there in pairwise(sorted(line)):
        one, two = line[here] - 1, line[there] - 1
        if one * two < 0:
            return here + (there - here) * one / (one - two)
    return None


def knee_of(line: Line, *, lower: bool) -> float | None:
    """The first x from which on no further one is better by more than the share of a knee.

    Examples
    --------
    >>> knee_of({1: 8.0, 2: 4.0, 4: 2.0, 8: 1.95, 16: 1.94}, lower=True)
    4
    """
    for x in sorted(line):
        later = [value for place, value in line.items() if place >= x]
        best = min(later) if lower else max(later)
        if abs(best - line[x]) <= KNEE * abs(line[x]):
            return x
    return None


def _by(span: Span, *, most: bool = False) -> str:
    """By how much the leader is ahead of the next."""
    low, high = min(span.leads), max(span.leads)
    if high <= SAME:
        return ""
    low_text, high_text = (_percent(one) for one in (low, high))
    if low <= SAME or (most and len(span.leads) > 1):
        return f" (by up to {high_text} %)"
    between = high_text if low_text == high_text else f"{low_text} to {high_text}"
    return f" (by {between} %)"


def _percent(share: float) -> str:
    return f"{100 * share:.2g}" if share < 1 else f"{100 * share:,.0f}"
