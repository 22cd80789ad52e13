"""Several comparisons as one answer: what to order by the values of repeated flags, and all in.

Each case is a comparison of its own, with its own evidence: whose runs its times were scored by,
and what is known of its GPU hour. Cases are weighed by what a training run costs *all in*, GPU
hours and the network's share of its days: the price of what is delivered, since all train the same
model on as many tokens. They are weighed only where all of that has a price.

Of one accelerator times move together, and so do prices: the range of a difference is that of
`netplan.costing.pricing.difference_range`. Two accelerators share little: each has its error bar
and the range of its GPU hour, and where the ranges of two overlap offers are to be asked for.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from msgspec import Struct

from netplan.answers import compare_screen
from netplan.answers.compare_answer import Comparison
from netplan.answers.compare_rows import Compared, FabricRow
from netplan.answers.compare_steps import StepPays, step_pays
from netplan.answers.diff_sides import time_ratio
from netplan.costing.pricing import difference_range
from netplan.costing.ranges import Range
from netplan.decide.difference import differences, money_words
from netplan.records import replace
from netplan.reports import sections as show
from netplan.reports.answer import Answer
from netplan.reports.quantities import Quantity, listed, quantity, short_money
from netplan.reports.schema import plain_at
from netplan.reports.screen import Screen, fitting_screen
from netplan.reports.sections import Column, Heading, Section, column
from netplan.setup.money.run_cost import RunCost, RunTerms
from netplan.units import DAYS_PER_YEAR, PERCENT, si

MOST_INSTEAD = 2
"""Cases beside the first that are told apart from it in words [1]."""
UNITS = {"nic_gbps": "G"}
"""What stands behind a value of a flag, where others stand beside it."""


class AllIn(Struct, frozen=True):
    """What a training run costs all in, by case: the cheapest, or those that may be.

    Parameters
    ----------
    costs
        By the label of a case, of those that have a price: low, base and high [currency].
    winner
        Label of the cheapest; None where several may be.
    tied
        Labels of those that may be, the cheapest at base prices first.
    left_out
        Why others are not weighed.
    sentence
        All of that in words.
    """

    costs: dict[str, Range]
    winner: str | None
    tied: tuple[str, ...]
    left_out: tuple[str, ...]
    sentence: str


class _Weighed(Struct, frozen=True):
    """A case with what its order costs all in."""

    label: str
    row: FabricRow
    terms: RunTerms
    run: RunCost
    alike: tuple[object, ...]

    @property
    def cost_range(self) -> Range:
        """Cost with the ends of the time, of the GPU hour and of prices."""
        best = self.row.best
        hour = self.terms.hour.range if self.terms.hour else Range.point(self.terms.gpu_hour)
        scale = self.terms.gpu_hour / hour.base if hour.base else 1.0
        bar = best.error.whole if best and best.error else None
        low, high = (bar.low, bar.high) if bar else (1.0, 1.0)
        hours, network = self.run.gpu_hours * scale, self.run.network + self.run.memory
        return Range(
            low * (hours * hour.low + network.low),
            self.run.total.base,
            high * (hours * hour.high + network.high),
        )

    def margin(self, other: "_Weighed") -> Range:
        """What another case costs more, low to high."""
        base = other.run.total.base - self.run.total.base
        ours, theirs = self.row.bill, other.row.bill
        if self.alike != other.alike or ours is None or theirs is None:
            mine, its = self.cost_range, other.cost_range
            return Range(its.low - mine.high, base, its.high - mine.low)
        weights = [_paid_back(case) for case in (self, other)]
        prices = difference_range(ours.quote, theirs.quote, (weights[0], weights[1]))
        rest = base - prices.base
        if self.row.best and other.row.best and self.row.best.as_fast_as(other.row.best):
            # Hours that are not told apart may be the same, or apart by twice as much.
            hours = other.run.gpus.base - self.run.gpus.base
            return prices + Range(rest - max(hours, 0.0), rest, rest - min(hours, 0.0))
        return prices + Range.point(rest)


def _paid_back(case: _Weighed) -> float:
    """Share of a network's price that the annuities of the run's days are [1]."""
    life = case.row.candidate(case.terms).life
    price = case.row.cost.base if case.row.cost else 0.0
    if life is None or not price:
        return 0.0
    return case.run.days * life.annuity_per_year.base / price / DAYS_PER_YEAR


def all_in(cases: Sequence[tuple[str, Compared]]) -> AllIn | None:
    """Weigh the orders of several cases by what a training run costs all in.

    Parameters
    ----------
    cases
        Comparisons by their labels.

    Returns
    -------
    AllIn or None
        None where fewer than two can be weighed, or they train several models.
    """
    weighed, left_out = [], []
    for label, compared in cases:
        row = next(iter(decisive(compared)), [None])[0]
        run = row.training_run if row else None
        if compared.serves or not compared.inputs.get("timing"):
            return None
        if row is None or run is None or compared.terms is None or not run.complete:
            lacking = "a time" if row and not row.best else "a GPU hour"
            left_out.append(f"{label} without {'a whole price' if run else lacking}")
            continue
        alike = (compared.about.accelerator, compared.about.model, compared.about.batch)
        weighed.append(_Weighed(label, row, compared.terms, run, alike))
    sizes = {case.row.fabric.sizing.hb_size for case in weighed if case.row.fabric}
    chips = {case.alike[0] for case in weighed}
    if len(sizes) > len(chips):
        return None  # an hour of a GPU is the same in domains of any size
    if len(weighed) < 2 or len({case.alike[1] for case in weighed}) > 1:  # noqa: PLR2004 - a pair
        return None
    best = min(weighed, key=lambda case: case.run.total.base)
    open_ones = [case for case in weighed if case is not best and best.margin(case).low <= 0]
    ranked = sorted(weighed, key=lambda case: case.run.total.base)
    tied = tuple(case.label for case in ranked if case is best or case in open_ones)
    currency = cases[0][1].currency
    costs = {case.label: case.cost_range for case in ranked}
    length = _run_words(weighed, cases[0][1])
    alone = best.label if len(tied) == 1 else None
    sentence = _all_in_words((costs, length), currency, () if alone else tied, left_out)
    return AllIn(costs, alone, () if alone else tied, tuple(left_out), sentence)


def _run_words(weighed: Sequence[_Weighed], compared: Compared) -> str:
    """How long a run is: its tokens, where their number is from, and days at base prices."""
    about, terms = compared.about, weighed[0].terms
    whose = "as asked" if compared.inputs.get("tokens") else "the model's"
    tokens = terms.iterations * about.batch * (about.sequence_length or 1)
    days = sorted(case.run.days for case in weighed)
    ends = dict.fromkeys(f"{day:,.0f}" for day in (days[0], days[-1]))
    return f"{si(tokens)} tokens, {whose}, in {'-'.join(ends)} days"


def _all_in_words(
    weighed: tuple[Mapping[str, Range], str],
    currency: str,
    tied: Sequence[str],
    left_out: Sequence[str],
) -> str:
    """Who costs least all in, or may, and what the others cost."""
    costs, run = weighed
    (best, least), *others = costs.items()
    texts = [
        f"{label} {short_money(cost.base)} ({PERCENT * (cost.base / least.base - 1):+.0f} %)"
        for label, cost in others
    ]
    verdict = f"ask for offers on {listed(tied)}" if tied else f"{best} costs least"
    words = (
        f"All in (GPU hours and network of a run of {run})"
        f" {'undecided, ' if tied else ''}{verdict}:"
        f" {best} {short_money(least.base, currency)}, {', '.join(texts)}"
    )
    words += f"; not weighed: {listed(left_out)}" if left_out else ""
    return f"{words}."


def cases_verdict(flag: str, cases: Sequence[tuple[str, Compared]]) -> tuple[str, ...]:
    """What to order in each case, which costs least all in, and what the others change.

    Parameters
    ----------
    flag, cases
        The flags, and a comparison for each label.

    Returns
    -------
    tuple of str
        Sentences, the orders first.
    """
    orders = [
        f"{label} {_ordered(comparison)}" for label, comparison in cases if comparison.verdict
    ]
    label, first = cases[0]
    weighed, name = all_in(cases), flag.replace("--", "")
    steps = step_pays(name, cases)
    return (
        f"What to order by {name}: {', '.join(orders)}.",
        *([weighed.sentence] if weighed else []),
        *(steps.sentences if steps else ()),
        *(
            f"{name} instead of {label}: {words}."
            for name, other in cases[1 : 1 + MOST_INSTEAD]
            if (words := _instead(first, other))
        ),
    )


def case_basis(compared: Compared) -> str:
    """What a case rests on: whose runs its times were scored by, and its GPU hour.

    Parameters
    ----------
    compared
        The case.

    Returns
    -------
    str
        The line.
    """
    inputs, terms = compared.inputs, compared.terms
    words = []
    best = next((row.best for row in compared.rows if row.best), None)
    if best is not None:
        known = {"calibrated": "times scored", "transferred": "times carried over"}
        words.append(known[best.error.basis] if best.error else "times without a bar")
    if not compared.serves and inputs.get("timing"):
        hour = terms.hour if terms else None
        if terms is None:
            words.append("no GPU hour")
        elif hour is None:
            words.append(f"GPU hour {terms.gpu_hour:.2f}")
        else:
            words.append(f"GPU hour {terms.gpu_hour:.2f} ({hour.evidence}, {hour.date})")
    return ", ".join(words)


def cases_screen(flag: str, cases: Sequence[tuple[str, Compared]]) -> Iterator[Section]:
    """A row a fabric and value of a repeated flag, with the gear inside HB domains apart.

    Parameters
    ----------
    flag, cases
        The flags, and a comparison for each label.

    Yields
    ------
    Section
        Heading, what is cheapest in each case, one table, what more there is.
    """
    labels = [label for label, _ in cases]
    compared = [comparison for _, comparison in cases]
    first, name = compared[0], flag.replace("--", "")
    switches = [
        f"{comparison.inputs['radix']} of {comparison.inputs['link_gbps']:g}G"
        for comparison in compared
    ]
    lines = [*compare_screen.subtitle(first, *compared[1:])]
    if first.budget:
        budgets = [case.budget for case in compared if case.budget]
        held = [f"{budget.gpus:,} {budget.chip}" for budget in budgets]
        if len({budget.words for budget in budgets}) == 1:
            lines.append(f"{first.budget.words}: {', '.join(held)}")
        else:
            lines += [f"{gpus} in {b.words}" for gpus, b in zip(held, budgets, strict=True)]
    if len(set(switches)) > 1 and flag.count("--") == 1:
        pairs = zip(labels, switches, strict=True)
        lines.append(f"Switches: {', '.join(f'{switch} at {label}' for label, switch in pairs)}")
    known: dict[str, list[str]] = {}
    for label, comparison in cases:
        known.setdefault(case_basis(comparison), []).append(label)
    lines += [f"{', '.join(names)}: {words}" for words, names in known.items() if words]
    chips = dict.fromkeys(case.about.accelerator for case in compared)
    size = f"{first.inputs['gpus']:,} {listed([*chips], 'or')}"
    if first.budget and not first.budget.given:
        size = f"as many GPUs as {si(first.budget.budget_w, 'W')} hold"
    title = f"{first.inputs['scenario']}: {size}"
    verdict = cases_verdict(flag, cases)
    groups = [
        [
            compare_screen.ScreenCase(comparison, tuple(group), label)
            for group in decisive(comparison)
            if group[0].fabric is not None
        ]
        for label, comparison in zip(labels, compared, strict=True)
    ]

    def with_rows(most: int) -> Screen:
        rows = [row for group in groups for row in group[:most]]
        left = sum(len(group[most:]) for group in groups)
        remarks = [f"{left:,} rows more: --details."] if left else []
        if any(len(row.rows) > 1 for row in rows):
            remarks.append("Of fabrics that are the same network the first stands for all.")
        if not first.reinforces:
            remarks.append(f"saves: against the base of the same {name}.")
        remarks += compare_screen.legend(rows)
        remarks += compare_screen.gear_words([row.row for row in rows])
        table = compare_screen.networks(rows, several=True, legend=(" ".join(remarks),))
        value: Column[Any] = column(
            Quantity("value", name if len(name) < compare_screen.LONG_NAME else "", form="code"),
            "1.value",
        )
        return Screen(
            heading=Heading(f"{title}, by {flag}", tuple(lines)),
            verdict=verdict,
            table=replace(table, columns=[value, *table.columns]),
            more="More: --details (every fabric of every case), --format json",
            gives_way=compare_screen.GIVES_WAY,
            least_gap=1,
        )

    yield from fitting_screen(with_rows, max(map(len, groups)), least=2).sections()


def value_text(value: object) -> str:
    """A value of an input as people write it.

    Examples
    --------
    >>> value_text(400.0), value_text(32768), value_text("b200")
    ('400', '32,768', 'b200')
    """
    if isinstance(value, float):
        return f"{value:,g}"
    return f"{value:,}" if isinstance(value, int) else f"{value}"


def _ordered(answer: Compared) -> str:
    """What to order, in a word or two."""
    verdict = answer.verdict
    if verdict is None or verdict.fabric:
        return verdict.fabric or "" if verdict else ""
    if compare_screen.same_network(answer, verdict):
        return f"the Clos ({' = '.join(verdict.tied)})"
    return " or ".join(verdict.tied) or "undecided"


def _instead(first: Compared, other: Compared) -> str:
    """What another value means for money and time of what is ordered, in words."""
    row_a, row_b = (next(iter(decisive(answer)), [None])[0] for answer in (first, other))
    if row_a is None or row_b is None or row_a.bill is None or row_b.bill is None:
        return ""
    parts = differences(row_a.bill, row_b.bill)
    words = [money_words([part for part in parts if part.part != "hb-gear"], first.currency)]
    if not (row_a.bill.inside.known and row_b.bill.inside.known):
        words.append("gear inside HB domains without a price")
    elif apart := row_b.bill.gear - row_a.bill.gear:
        words.append(f"gear {short_money(apart, sign=True)}")
    rates = [
        answer.budget and answer.budget.rate_of(row)
        for answer, row in ((first, row_a), (other, row_b))
    ]
    if rates[0] and rates[1]:
        words.append(f"{PERCENT * (rates[1] / rates[0] - 1):+.0f} % tokens/s")
    elif row_a.best and row_b.best and first.about.model == other.about.model:
        alike = first.about == other.about
        words.append(time_ratio(row_a.best, row_b.best, alike=alike).words)
    same = "" if row_a.name == row_b.name else f" ({row_b.name} instead of {row_a.name})"
    return f"{', '.join(words)}{same}"


def decisive(answer: Compared) -> list[list[FabricRow]]:
    """Networks of a comparison, the one to order first, fabrics that are the same together.

    Parameters
    ----------
    answer
        The comparison.

    Returns
    -------
    list of list of FabricRow
        Rows of fabrics that are the same network.
    """
    verdict = answer.verdict
    wanted = {verdict.fabric, *verdict.tied[:1]} if verdict else set()
    return sorted(
        compare_screen.groups_of(answer.rows),
        key=lambda group: (not wanted & {row.label for row in group}, not group[0].sold),
    )


@dataclass(frozen=True, slots=True, repr=False)
class ComparisonCases(Answer):
    """The answer of :func:`netplan.compare` with several values of an input: one each."""

    json_parts = "cases.0.1.currency", "cases=case_rows", "all_in=weighed", "?step_pays"

    names: tuple[str, ...]
    flag: str
    cases: tuple[tuple[tuple[Any, ...], Comparison], ...]

    @property
    def inputs(self) -> dict[str, Any]:
        """Inputs of the first case, with all values of those that differ."""
        columns = zip(*(values for values, _ in self.cases), strict=True)
        values = {
            name: [*dict.fromkeys(column)] for name, column in zip(self.names, columns, strict=True)
        }
        cautions = {"cautions": self.cautions} if self.cautions else {}
        return self.cases[0][1].inputs | values | cautions

    @property
    def case_rows(self) -> list[dict[str, Any]]:
        """The cases as JSON: their values, and what is compared and decided."""
        return [
            dict(zip(self.names, values, strict=True))
            | {"evidence": case_basis(comparison)}
            | plain_at(comparison, "rows", "verdict", "decision")
            for values, comparison in self.cases
        ]

    @property
    def weighed(self) -> AllIn | None:
        """Sums of network and all that differs, where they can be weighed."""
        return all_in(self.compared)

    @property
    def step_pays(self) -> StepPays | None:
        """Which value pays for a step of post-training, where steps are asked about."""
        return step_pays(self.flag.replace("--", ""), self.compared)

    @property
    def cautions(self) -> tuple[str, ...]:
        """What any of the cases says first."""
        cautions = (caution for _, case in self.cases for caution in case.cautions)
        return tuple(dict.fromkeys(cautions))

    def summary(self) -> Iterator[show.Section]:
        """The verdict of each case, and the fabrics that matter there."""
        yield from cases_screen(self.flag, self.compared)

    def in_a_line(self) -> str:
        """What to order by the values of the flag."""
        sentence = cases_verdict(self.flag, self.compared)[0]
        return f"{sentence[0].lower()}{sentence[1:]}".rstrip(".")

    def sections(self) -> Iterator[show.Section]:
        """What to order, then one comparison behind the other, each under its value."""
        scenario = self.cases[0][1].inputs["scenario"]
        yield show.Heading(f"{scenario}, by {self.flag}")
        yield show.Paragraph(" ".join(cases_verdict(self.flag, self.compared)), "strong")
        for label, comparison in self.compared:
            yield show.Heading(f"{self.flag} {label}", (case_basis(comparison),))
            for section in comparison.sections():
                if not isinstance(section, show.Table):
                    yield section
                elif section.shown != "data":
                    yield replace(section, shown="people")
        yield self._as_one()

    @property
    def compared(self) -> list[tuple[str, Comparison]]:
        """Comparisons by the labels of their cases."""
        return [(self._label(values), case) for values, case in self.cases]

    def _label(self, values: tuple[Any, ...]) -> str:
        """The values of a case as people write them."""
        if len(values) == 1:
            return value_text(values[0])
        named = zip(self.names, values, strict=True)
        return " ".join(f"{value_text(value)}{UNITS.get(name, '')}" for name, value in named)

    def _as_one(self) -> show.Table[dict[str, Any]]:
        """The fabrics of all cases, for programs: the first columns are the values of a case."""
        quantities, rows = {name: quantity(name) for name in self.names}, []
        for values, comparison in self.cases:
            fabrics = show.data_tables(comparison.sections())[0]
            quantities |= {known.name: known for known in fabrics.quantities}
            named = dict(zip(self.names, values, strict=True))
            rows += [{**named, **record} for record in fabrics.records()]
        columns: list[show.Column[dict[str, Any]]] = [
            show.column(known, itemgetter(name)) for name, known in quantities.items()
        ]
        missing = dict.fromkeys(quantities)
        return show.Table("fabrics", columns, [{**missing, **row} for row in rows], shown="data")
