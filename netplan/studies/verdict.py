"""What a study answers, in a sentence or two: who leads and by how much, where that turns, knees.

The study's file says which ``answers`` its points are to give; one without any is read off all its
charts.

Which way an output is better: less of it, more of it, or neither, by its unit and name.

One answer of a study in words, computed from its points.

Points that differ in what the answer does not name are cases: cases with the same answer are said
together, others side by side or as a range, never a sentence each.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

from msgspec import Struct

from netplan.records import replace
from netplan.reports.axes import finite, in_order
from netplan.reports.plots import Key
from netplan.reports.quantities import listed
from netplan.studies import leaders
from netplan.studies.charts import (
    Reader,
    Row,
    front_of,
    inputs_behind,
    left_open,
    open_axes,
    panels_of,
)
from netplan.studies.definition import ChartSpec, Finding, StudyDefinition
from netplan.studies.lower_bounds import bounds_of

LOW_UNITS = frozenset(("s", "ms", "µs", "USD", "W", "kW", "MW", "kWh", "B", "m"))
LOW_WORDS = (
    "days",
    "million",
    "usd",
    "cost",
    "switches",
    "links",
    "transceivers",
    "gap",
    "over what no",
)
HIGH_WORDS = ("mfu", "throughput", "utilisation", "efficiency", "rate", "speed", "goodput")
"""Units and whole words of outputs of which less, or more, is better."""

WORD = r"[^\W_]+"


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
    >>> lower_is_better(spec, "mfu", "", "MFU"), lower_is_better(spec, "separate", "", "separate")
    (False, None)
    """
    for row in spec.relative:
        if row.name == name:
            # The reference over the point's own: a short time is a high speed.
            base_lower = lower_is_better(spec, row.of, "s" if row.of.endswith("_s") else "", row.of)
            return None if base_lower is None else not base_lower
    text = f" {' '.join(re.findall(WORD, quantity.casefold()))} "
    per = name.rpartition(".")[2].endswith(("_per_s", "_per_s_per_gpu"))
    if per or any(f" {word} " in text for word in HIGH_WORDS):
        return False
    return True if unit in LOW_UNITS or any(f" {word} " in text for word in LOW_WORDS) else None


def is_relative(spec: StudyDefinition, name: str) -> bool:
    """Whether 1 is what all are compared with."""
    return any(row.name == name for row in spec.relative)


def better_low(reader: Reader, name: str) -> bool | None:
    """Whether less of an output is better, amounts of money among them."""
    wording = reader.words(name)
    if wording.unit and wording.unit.removeprefix("M ") in (reader.currency, reader.book_currency):
        return True
    return lower_is_better(reader.spec, name, wording.unit, wording.quantity)


NEAR = 0.01
"""Share within which no best is told from the next, where prices have ends [1]."""

MOST_TURNS = 3
"""Changes of the leader up to which each is said [1]."""

MOST_TOLD = 2
"""Cases up to which the turns of each are told [1]."""

MOST_GROUPS = 4
"""Answers up to which each is said with its cases; of more the range [1]."""

MOST_NAMED = 3
"""Different best points of one case up to which each is named [1]."""

Lines = Mapping[Key, leaders.Line]
Cases = Mapping[Key, Sequence[Lines]]
"""Lines by what leads, in cases that are the same but for what goes unsaid."""


class AxisFinding(Struct, frozen=True):
    """What an answer found, and how its sentence starts.

    Only a ``plain`` one fits the study's own sentence: where the leader changes, or the course of
    an output is another than asked for, the start says which.
    """

    start: str = ""
    text: str = ""
    plain: bool = True


class SummaryWriter(Struct, frozen=True):
    """Says what the points of a study answer to one of its questions."""

    finding: Finding
    reader: Reader

    def sentence(self, rows: Sequence[Row]) -> str:
        """The answer; empty where the points have nothing to compare."""
        if self.finding.kind == "front":
            return self._front(rows)
        cases = self.cases(rows)
        if not cases:
            return ""
        kinds = {
            "best": self._best,
            "knee": self._knee,
            "even": self._even,
            "worth": self._worth,
            "range": self._reach,
        }
        answer = kinds[self.finding.kind](cases)
        if self.finding.ends and answer.text:
            answer = replace(answer, text=self._between(rows))
        if not answer.text:
            return ""
        if self.finding.says is not None and answer.plain:
            return self.finding.says.replace("{}", answer.text)
        return f"{self._where()}{answer.start}{answer.text}"

    def _where(self) -> str:
        """Which points are read, if not all."""
        conditions = []
        for name, value in self.finding.where.items():
            if isinstance(value, bool):
                conditions.append(("" if value else "not ") + self.reader.words(name).quantity)
            else:
                conditions.append(self.reader.texts([(name, value)]))
        return f"with {listed(conditions)}, " if conditions else ""

    @property
    def _lower(self) -> bool | None:
        return better_low(self.reader, self.finding.of)

    @property
    def _quantity(self) -> str:
        return self.reader.words(self.finding.of).quantity

    @property
    def _word(self) -> str:
        return "lowest" if self._lower else "highest"

    def cases(self, rows: Sequence[Row]) -> Cases:
        """Lines of each case; of points apart only by what is tuned the best stays."""
        finding, reader = self.finding, self.reader
        over = (finding.over,) if finding.over else ()
        named = (*finding.by, *over, *finding.each, *finding.tuned)
        others = open_axes(reader.spec, named)
        reference = self._reference()
        pick = min if self._lower else max
        cases: dict[Key, dict[Key, dict[Key, dict[float, float]]]] = {}
        for row in rows:
            y = finite(row.get(finding.of))
            x = finite(reader.value(row, finding.over)) if finding.over else 0.0
            case, other, by = (
                tuple(reader.value(row, name) for name in names)
                for names in (finding.each, others, finding.by)
            )
            if y is None or x is None or (finding.kind == "best" and by == reference):
                continue
            line = cases.setdefault(case, {}).setdefault(other, {}).setdefault(by, {})
            line[x] = pick(y, line.get(x, y))
        return {case: tuple(lines.values()) for case, lines in cases.items()}

    def _reference(self) -> Key | None:
        """The series that all are compared with, which is never the best."""
        of = self.finding.of
        to = next((row.to for row in self.reader.spec.relative if row.name == of), {})
        by = self.finding.by
        return (
            tuple(to.get(name) for name in by) if set(by) & set(to) and self.finding.over else None
        )

    # Who leads.

    def _best(self, cases: Cases) -> AxisFinding:
        """Which is best, where that turns, or how often each is."""
        every = [lines for group in cases.values() for lines in group]
        if self._lower is None or (len(every) == 1 and not self.finding.over):
            return self._ends(every)
        points = {key: list(self._points(group)) for key, group in cases.items()}
        bests = [best for case_bests in points.values() for best in case_bests]
        if not bests:  # nowhere are there two to choose from
            return AxisFinding()
        if all(len(lines) == 1 for lines in every):
            relative = is_relative(self.reader.spec, self.finding.of)
            course = self._even if relative else self._knee
            return replace(course(cases), plain=False) if self.finding.over else AxisFinding()
        start = f"{self._quantity} is {self._word} "
        before = f"at {self._title(self.finding.by[0])} " if self._numbers else "with "
        if self._numbers:
            start, before = f"{start}{before}", ""
        common = frozenset.intersection(*(keys for keys, _ in bests))
        if common:
            where = f" at all {len(bests)} points" if len(bests) > 1 else ""
            text = f"{before}{self._winners(bests)}{where}"
            return AxisFinding(start, f"{text}{self._ahead(bests)}")
        if self.finding.over and len(every) <= MOST_TOLD:
            text = "; ".join(
                f"{self._case(key, cases)}{self._turns(lines)}"
                for key, group in cases.items()
                for lines in group
            )
            return AxisFinding("", text, plain=False)
        winners = {key: self._winners(case_bests) for key, case_bests in points.items()}
        text = self._grouped(winners, self._winners(bests))
        return AxisFinding(start, f"{before}{text}{self._ahead(bests)}")

    def contenders(self, rows: Sequence[Row]) -> dict[Key, set[Key]]:
        """Which is best in each case, and what may be: by the rule that orders are given by.

        Another one may be best where the difference has no sign between the ends, or is less than
        a percent at one. What moves the ends moves all points together, and so does the model's
        error of a time: each end is compared in itself.
        """
        best_of: dict[Key, set[Key]] = {}
        firsts: dict[tuple[Key, int], Key] = {}
        for name in (self.finding.of, *self.finding.ends):
            writer = replace(self, finding=replace(self.finding, of=name, ends=()))
            for case, group in writer.cases(rows).items():
                for number, lines in enumerate(group):
                    pick = min if self._lower else max
                    values = {key: pick(line.values()) for key, line in lines.items()}
                    first = firsts.setdefault((case, number), pick(values, key=values.__getitem__))
                    least = values.get(first, pick(values.values()))
                    sign = 1 if self._lower else -1
                    near = {
                        key for key, y in values.items() if sign * (y - least) < NEAR * abs(least)
                    }
                    best_of.setdefault(case, set()).update(near)
        return best_of

    def _between(self, rows: Sequence[Row]) -> str:
        """Which is best in each case, or between which it is undecided."""
        texts = {}
        for case, keys in self.contenders(rows).items():
            named = [self._key(key, ()) for key in sorted(keys, key=str)]
            if self._numbers:
                sizes = sorted(float(key[0] or 0) for key in keys)
                named = [self._place(self.finding.by[0], size) for size in sizes]
            alone = len(named) == 1
            texts[case] = named[0] if alone else f"{listed(named, 'or')} (undecided)"
        return self._grouped(texts, "; ".join(dict.fromkeys(texts.values())))

    def _ahead(self, bests: Sequence[leaders.Leaders]) -> str:
        """How far the best is ahead; of numbers the next are its neighbours, and go unsaid."""
        return "" if self._numbers else leaders.ahead_by([lead for _, lead in bests])

    def _points(self, group: Sequence[Lines]) -> Iterator[leaders.Leaders]:
        """The best at every place of some cases, where there are several to choose from."""
        for lines in group:
            for x in sorted({x for line in lines.values() for x in line}):
                values = {key: line[x] for key, line in lines.items() if x in line}
                if len(values) > 1 or len(lines) == 1:
                    yield leaders.leaders_of(values, lower=bool(self._lower))

    @property
    def _numbers(self) -> bool:
        """Whether what is compared is one input of numbers."""
        spec, by = self.reader.spec, self.finding.by
        behind = [inputs_behind(spec, name) or () for name in by]
        values = [
            row[axis.names.index(name)]
            for names in behind
            for name in names
            for axis in spec.axes
            if name in axis.names
            for row in axis.rows
        ]
        return len(by) == 1 and not any(isinstance(value, (str, bool)) for value in values)

    def _winners(self, bests: Sequence[leaders.Leaders]) -> str:
        """Which are best in some cases: one in all, a range of numbers, or each and how often."""
        common = frozenset.intersection(*(keys for keys, _ in bests))
        if self._numbers:
            keys = common or frozenset(key for best, _ in bests for key in best)
            return self._range(self.finding.by[0], [float(key[0] or 0) for key in keys])
        if common:
            return self._names(common)
        counts = Counter(self._names(keys) for keys, _ in bests).most_common()
        named = MOST_NAMED + (len(counts) == MOST_NAMED + 1)  # not "1 others"
        counted = [f"{name} at {count}" for name, count in counts[:named]]
        more = len(counts) - named
        counted += [f"{more} others at the rest"] * (more > 0)
        counted[0] += f" of {len(bests)} points"
        return listed(counted)

    def _ends(self, every: Sequence[Lines]) -> AxisFinding:
        """The least and the most of all points, the better one first."""
        known = [
            (value, key)
            for lines in every
            for key, line in lines.items()
            for value in line.values()
        ]
        if len(known) < 2:  # noqa: PLR2004 - one point compares with nothing
            return AxisFinding()
        low, high = (pick(known, key=lambda pair: pair[0]) for pick in (min, max))
        if high[0] - low[0] <= leaders.SAME * abs(high[0]):
            return AxisFinding(f"{self._quantity} is ", f"{self._value(low[0])} at every point")
        ends = {"lowest": low, "highest": high}
        order = ("highest", "lowest") if self._lower is False else ("lowest", "highest")
        keys = [key for _, key in known]
        parts = [
            f"{word} with {self._key(key, keys)} ({self._value(value)})"
            for word in order
            for value, key in (ends[word],)
        ]
        times = f", {high[0] / low[0]:.3g} times apart" if low[0] > 0 else ""
        return AxisFinding(
            f"{self._quantity} is ", f"{parts[0]} and {parts[1]}{times}", plain=False
        )

    def _turns(self, lines: Lines) -> str:
        """Who leads on which stretch, and where the leaders' lines cross."""
        spans = leaders.intervals_of(lines, lower=bool(self._lower))
        if len(spans) - 1 > MOST_TURNS:
            best = max(spans, key=lambda span: len(span.leads))
            count = sum(len(interval.leads) for interval in spans)
            where = self.reader.words(str(self.finding.over)).quantity
            return (
                f"{self._quantity}: which is {self._word} changes {len(spans) - 1} times over"
                f" {where}; longest it is {self._names(best.leaders)}, at {len(best.leads)} of"
                f" {count}"
            )
        parts = ", ".join(self._part(index, spans) for index in range(len(spans)))
        crossed = [
            self._x(place)
            for interval, following in pairwise(spans)
            if (place := leaders.crossing(lines, interval, following)) is not None
        ]
        places = f"; lines cross at about {listed(crossed)}" if crossed else ""
        return f"{self._quantity} is {self._word} {parts}{places}"

    def _part(self, index: int, spans: Sequence[leaders.AxisInterval]) -> str:
        """One stretch: who leads, where, and by how much at most."""
        span = spans[index]
        where = f" from {self._x(span.first)} to {self._x(span.last)}"
        if len(spans) == 1:
            where = " throughout"
        elif index == 0:
            where = f" up to {self._x(span.last, named=True)}"
        elif index == len(spans) - 1:
            where = f" from {self._x(span.first)} on"
        elif span.first == span.last:
            where = f" at {self._x(span.first)}"
        most = [max(span.leads)] if len(spans) == 1 else span.leads
        return f"with {self._names(span.leaders)}{where}{leaders.ahead_by(most, most=True)}"

    # What more of an input brings.

    def _knee(self, cases: Cases) -> AxisFinding:
        """From where on more of an input brings next to nothing, or where its best value is."""
        over = str(self.finding.over)
        every = [line for group in cases.values() for lines in group for line in lines.values()]
        if self._lower is None or len({x for line in every for x in line}) <= 1:
            return replace(self._reach(cases), plain=False)
        inside = any(self._inside(line) for line in every)
        place = self._peak if inside else self._knee_of
        places = {
            key: [place(line) for lines in group for line in lines.values()]
            for key, group in cases.items()
        }
        whole = self._range(over, [place(line) for line in every])
        text = self._grouped({key: self._range(over, xs) for key, xs in places.items()}, whole)
        if inside:
            start = f"{self._quantity} is {self._word} at {self._title(over)} "
            return AxisFinding(start, text, plain=False)
        left = f"less than {100 * leaders.KNEE:.0f} % of {self._quantity} is left to gain"
        return AxisFinding(f"{left} beyond {self._title(over)} ", text)

    def _inside(self, line: leaders.Line) -> bool:
        """Whether both ends of a line are worse than its best value by more than a knee."""
        best = line[self._peak(line)]
        return all(abs(line[x] - best) > leaders.KNEE * abs(best) for x in (min(line), max(line)))

    def _peak(self, line: leaders.Line) -> float:
        return (min if self._lower else max)(sorted(line), key=lambda x: line[x])

    def _knee_of(self, line: leaders.Line) -> float:
        knee = leaders.knee_of(line, lower=bool(self._lower))
        return max(line) if knee is None else knee

    def _reach(self, cases: Cases) -> AxisFinding:
        """The least and the most of an output."""
        values = {
            key: [y for lines in group for line in lines.values() for y in line.values()]
            for key, group in cases.items()
        }
        every = [y for ys in values.values() for y in ys]
        if len(every) <= 1:
            return AxisFinding()
        ranges = {key: self._span(ys, max(every)) for key, ys in values.items()}
        text = self._grouped(ranges, self._span(every, max(every)))
        return AxisFinding(f"{self._quantity} is ", text)

    def _span(self, values: Sequence[float], most: float) -> str:
        """Least to most of some values of the output; of what is compared, in percent or times."""
        ends = min(values), max(values)
        if not is_relative(self.reader.spec, self.finding.of):
            return leaders.low_to_high(*map(self._value, ends))
        if most >= leaders.DOUBLE:
            return f"{leaders.low_to_high(*(f'{end:.3g}' for end in ends))} times"
        return leaders.low_to_high(*(f"{100 * end:.0f} %" for end in ends))

    def _even(self, cases: Cases) -> AxisFinding:
        """Up to where an output is above or below 1."""
        over = str(self.finding.over)
        ranges: dict[Key, str] = {}
        every: list[float] = []
        sides = set()
        for key, group in cases.items():
            lines = [line for series in group for line in series.values()]
            passed = [x for line in lines if (x := leaders.even_at(line)) is not None]
            sides |= {line[min(line)] > 1 for line in lines}
            every += passed
            ranges[key] = self._range(over, passed) if len(passed) == len(lines) else "no value"
        if not every or len(sides) > 1:
            return replace(self._knee(cases), plain=False)
        above = sides.pop()
        side = "above" if above else "below"
        text = self._grouped(ranges, self._range(over, every))
        start = f"{self._quantity} is {side} 1 up to about {self._title(over)} "
        return AxisFinding(start, text, plain=above)

    def _worth(self, cases: Cases) -> AxisFinding:
        """How an output changes from the first value of an input, or that given, to the others."""
        (name,) = self.finding.by
        values = in_order(key[0] for group in cases.values() for lines in group for key in lines)
        start = self.finding.start if self.finding.start is not None else values[0]
        others = [value for value in values if value != start]
        gone = self.finding.says is not None and self.finding.end not in (None, *others)
        if start not in values or not others or gone:
            return AxisFinding()
        numbers = all(finite(value) is not None for value in values)
        last = self.finding.end if self.finding.end in others else None
        if last is None and numbers:
            last = others[-1]
        pick = min if self._lower else max
        changes: dict[Key, list[float]] = {}
        for key, group in cases.items():
            for lines in group:
                first = lines.get((start,), {})
                for x, base in first.items():
                    rest = [
                        line[x]
                        for other, line in lines.items()
                        if x in line and other != (start,) and last in (None, other[0])
                    ]
                    if rest and base:
                        changes.setdefault(key, []).append(pick(rest) / base)
        every = [ratio for ratios in changes.values() for ratio in ratios]
        if not every:
            return AxisFinding()
        quantity = self.reader.words(name).quantity
        if numbers:
            ends = [self.reader.shown(name, value) for value in (start, last)]
            what = f"{quantity} from {leaders.low_to_high(*ends)}"
        else:
            ends = [self.reader.texts([(name, value)]) for value in (last or others[0], start)]
            best = "the best " + quantity if last is None and len(others) > 1 else ends[0]
            what = f"{best} against {ends[1]}"
        phrases = {key: leaders.changed(ratios) for key, ratios in changes.items()}
        return AxisFinding(
            f"{what}: {self._quantity} ", self._grouped(phrases, leaders.changed(every))
        )

    def _front(self, rows: Sequence[Row]) -> str:
        """How many designs nothing beats, and the two ends of them."""
        finding, reader = self.finding, self.reader
        chart = next(
            candidate
            for candidate in reader.spec.charts
            if candidate.front and (candidate.x, candidate.y) == (finding.over, finding.of)
        )
        sentences = []
        for panel in panels_of(rows, chart, reader):
            front = [panel.rows[index] for index in front_of(panel.rows, chart)]
            ends = [self._design(row, chart) for row in (front[:1] + front[-1:])]
            if ends:
                start = f"{panel.heading}: " if panel.heading else ""
                count = f"{len(front):,} of {len(panel.rows):,} designs"
                span = f"from {' to '.join(ends)}" if len(front) > 1 else ends[0]
                sentences.append(f"{start}{count} are on the Pareto front, {span}")
        return "; ".join(sentences)

    def _design(self, row: Row, chart: ChartSpec) -> str:
        """What a design costs, what one gets for it, and which it is."""
        x, y = (self.reader.shown(name, row[name]) for name in (chart.x, chart.y))
        named = self.reader.texts((name, self.reader.value(row, name)) for name in chart.series)
        return f"{x} for {y}" + (f" ({named})" if named else "")

    # Words.

    def _grouped(self, answers: Mapping[Key, str], whole: str) -> str:
        """Answers with the cases that have them; the one of all where they are too many."""
        groups: dict[str, list[str]] = {}
        for key, text in answers.items():
            named = self.reader.texts(zip(self.finding.each, key, strict=True))
            groups.setdefault(text, []).append(named)
        if len(groups) == 1 or len(groups) > MOST_GROUPS or len(answers) > 2 * MOST_GROUPS:
            return whole
        between = "; " if len(self.finding.each) > 1 else ", "
        return between.join(f"{text} for {listed(names)}" for text, names in groups.items())

    def _case(self, key: Key, cases: Cases) -> str:
        """Start of a sentence about one of several cases."""
        if len(cases) == 1 or not key:
            return ""
        return f"{self.reader.texts(zip(self.finding.each, key, strict=True))}: "

    def _names(self, keys: frozenset[Key]) -> str:
        """Names of some series."""
        return listed(sorted(self._key(key, ()) for key in keys))

    def _key(self, key: Key, among: Sequence[Key]) -> str:
        """Name of a series, by what differs among some; what it does not have goes unsaid."""
        named = [
            (name, value)
            for index, (name, value) in enumerate(zip(self.finding.by, key, strict=True))
            if value is not None and (not among or len({other[index] for other in among}) > 1)
        ]
        return self.reader.texts(named) or "none"

    def _value(self, value: float) -> str:
        unit = self.reader.words(self.finding.of).unit
        return self.reader.shown(self.finding.of, value if unit else float(f"{value:.3g}"))

    def _x(self, value: float, *, named: bool = False) -> str:
        """A place on the horizontal axis."""
        return self._place(str(self.finding.over), value, named=named)

    def _place(self, name: str, value: float, *, named: bool = False) -> str:
        whole = int(value) if value == int(value) else float(f"{value:.4g}")
        return (self.reader.named if named else self.reader.shown)(name, whole)

    def _title(self, name: str) -> str:
        return self.reader.words(name).quantity

    def _range(self, name: str, values: Sequence[float]) -> str:
        """Least to most of some values of an input."""
        return leaders.low_to_high(*(self._place(name, end) for end in (min(values), max(values))))


SCALE = frozenset(("gpus", "batch", "model", "prompt", "output", "concurrency", "requests_a_stage"))
GIVEN = SCALE | {"seed", "iteration_model", "acceptance", "ttft_ms", "tpot_ms"}
"""Inputs that a study compares under, not among."""

MOST_SAID = 3
"""Sentences of a verdict [1]."""


def verdict(rows: Sequence[Row], reader: Reader, *, complete: bool = True) -> str:
    """Say what the points of a study answer; empty where there is nothing to compare."""
    sentences = _sentences_of(reader.spec.answers, rows, reader)
    if not sentences:
        sentences = _sentences_of(tuple(_of_charts(reader.spec, reader)), rows, reader)
    sentences = _joined(sentences)
    text = " ".join(f"{_capital(sentence)}." for sentence in sentences[:MOST_SAID])
    more = len(sentences) - MOST_SAID
    text += f" The charts show {more} more." if more > 0 else ""
    return text if complete or not text else f"So far: {text[:1].lower()}{text[1:]}"


def _sentences_of(findings: Sequence[Finding], rows: Sequence[Row], reader: Reader) -> list[str]:
    """Sentences of some findings, each once."""
    sentences: dict[str, None] = {}
    for finding in findings:
        left = _read(finding, rows, reader)
        text = SummaryWriter(finding, reader).sentence(left)
        if text and any(finding.of in bounds_of(row) for row in left):
            text += " (≥)"
        if text:
            sentences[text] = None
    return list(sentences)


def _read(finding: Finding, rows: Sequence[Row], reader: Reader) -> list[Row]:
    """Points that a finding is about."""
    wanted = finding.where.items()
    return [row for row in rows if all(reader.value(row, key) == val for key, val in wanted)]


def decisions(rows: Sequence[Row], reader: Reader) -> list[dict[str, Any]]:
    """Who is best where, of every answer that asks which: one entry a stretch of its input.

    Parameters
    ----------
    rows, reader
        Points of the study, and what reads their values.

    Returns
    -------
    list of dict
        What is compared and in which case, from where to where, the winner, or who ties, and by
        which share the next is behind at least and at most [1].
    """
    entries = []
    for finding in reader.spec.answers or tuple(_of_charts(reader.spec, reader)):
        lower = better_low(reader, finding.of)
        if finding.kind != "best" or lower is None:
            continue
        kept = _read(finding, rows, reader)
        writer = SummaryWriter(finding, reader)
        either = writer.contenders(kept) if finding.ends else {}
        for case, every in writer.cases(kept).items():
            for span in (
                span for lines in every for span in leaders.intervals_of(lines, lower=lower)
            ):
                leading = either.get(case, span.leaders)
                names = sorted(" ".join(map(str, key)) for key in leading)
                alone = len(names) == 1
                entries.append(
                    {
                        "of": finding.of,
                        "over": finding.over,
                        "case": dict(zip(finding.each, case, strict=True)),
                        "first": span.first if finding.over else None,
                        "last": span.last if finding.over else None,
                        "kind": "buy" if alone else "undecided",
                        "winner": names[0] if alone else None,
                        "tied": [] if alone else names,
                        "lead": [min(span.leads), max(span.leads)],
                        "lower_bounds": any(finding.of in bounds_of(row) for row in kept),
                    }
                )
    return entries


def _joined(sentences: Sequence[str]) -> list[str]:
    """Sentences on the same subject as one."""
    joined: list[str] = []
    for text in sentences:
        subject, colon, rest = text.partition(": ")
        if colon and joined and joined[-1].startswith(subject + colon):
            joined[-1] += f"; {rest}"
        else:
            joined.append(text)
    return joined


def _capital(text: str) -> str:
    """With a capital first, but for names such as gpt-1t."""
    first = text.split(maxsplit=1)[0]
    return text if set("-0123456789") & set(first) else text[:1].upper() + text[1:]


def _of_charts(spec: StudyDefinition, reader: Reader) -> Iterator[Finding]:
    """What each chart of a study that names no answers shows; bars only where nothing else is."""
    charts = [chart for chart in spec.charts if chart.kind != "bars"] or spec.charts
    for chart in charts:
        yield from _of_chart(chart, spec)
    if not charts:
        for name in spec.output_names:
            if better_low(reader, name) is not None:
                yield Finding(kind="best", of=name, by=spec.axis_names)
                return


def _of_chart(chart: ChartSpec, spec: StudyDefinition) -> Iterator[Finding]:
    """What a chart shows."""
    panel_names = (chart.each,) if chart.each else ()
    series = (*chart.series, *(left_open(spec, chart) if chart.kind == "lines" else ()))
    given = (*panel_names, *(name for name in series if name in GIVEN))
    chosen = tuple(name for name in series if name not in GIVEN)
    if chart.kind == "heat":
        yield Finding(kind="best", of=str(chart.z), by=(chart.x, chart.y), each=panel_names)
    elif chart.kind == "scatter" and chart.front:
        yield Finding(kind="front", of=chart.y, over=chart.x, each=panel_names)
    elif inputs_behind(spec, chart.x) is None or chart.kind != "lines" or _own_scales(chart, spec):
        by = (*chart.series, *((chart.x,) if inputs_behind(spec, chart.x) else ()))
        yield Finding(kind="best", of=chart.y, by=by or spec.axis_names, each=panel_names)
    elif chosen:
        yield Finding(kind="best", of=chart.y, by=chosen, over=chart.x, each=given)
    else:
        kind: Literal["even", "knee"] = "even" if is_relative(spec, chart.y) else "knee"
        yield Finding(kind=kind, of=chart.y, over=chart.x, each=given)


def _own_scales(chart: ChartSpec, spec: StudyDefinition) -> bool:
    """Whether every line is compared with a point of its own, so that all cross there."""
    behind = inputs_behind(spec, chart.x) or frozenset()
    return any(row.name == chart.y and behind & set(row.to) for row in spec.relative)
