"""What a comparison says of steps of post-training: how far bounds rank fabrics, and what pays.

Networks of several oversubscriptions, or with HB domains of several sizes, are weighed by what a
step costs on each. A saving of time is GPU hours; what it costs is the network's share of a year,
and the gear inside HB domains, whose price stands beside that of the network. The order of two has
to hold with nothing added to a bound and with as much as printed steps take longer at most, since
software adds the same to both.
"""

from collections.abc import Iterator, Sequence
from math import isclose
from typing import ClassVar

from msgspec import Struct

from netplan.answers.compare_rows import Compared, FabricRow
from netplan.costing.lifetime import annuity_factor
from netplan.costing.ranges import Range
from netplan.decide.candidates import AS_FAST
from netplan.decide.verdict import HAIR
from netplan.reports.quantities import Quantity, listed, short_money
from netplan.reports.sections import Table, column, columns
from netplan.setup.money.run_cost import RunTerms
from netplan.setup.money.step_cost import PricedStep, Stepped, amount
from netplan.units import YEAR_S, si

CALLED = {"hb-size": "HB size"}
"""What an input is called where its flag is no word."""
SAME = 1e-6
"""Share of a price below which two are one [1]."""
OVERSUBSCRIPTIONS, DOMAINS = (1.0, 2.0, 4.0), (8, 72)
"""Uplinks and HB domains that a step is asked about beside its own: 1:1 to 4:1; servers, racks."""


def step_verdict(answer: Compared) -> Iterator[str]:
    """How far apart steps are, and how fine bounds rank fabrics."""
    stepped = [row.stepped for row in answer.rows if row.stepped and row.bill]
    if not stepped:
        return
    times = [step.step_s for step in stepped]
    apart = max(times) / min(times) - 1
    same = "the same on all fabrics" if apart < AS_FAST else f"up to {100 * apart:.2g} % apart"
    low, high = stepped[0].printed
    if high == 1:
        yield f"Steps are {same}, estimates by your own measurements."
        return
    alone = answer.verdict is not None and not answer.verdict.sentence.startswith("Undecided")
    holds = "the order holds with as much added to each" if alone else "they rank no finer"
    yield (
        f"Steps are {same}; they are bounds (published ones, on H100, are {low:g} to {high:g} times"
        f" as long), and {holds}."
    )


def step_remarks(answer: Compared) -> Iterator[str]:
    """What a run costs on the fabric that leads."""
    row = leading(answer)
    if row is None or row.stepped is None or row.stepped.price.run is None:
        return
    run, price = row.stepped.price.run, row.stepped.price
    yield (
        f"{price.steps:,} steps on {row.label}: {price.least}"
        f"{short_money(run.total.base, price.currency)} and {run.gpu_hours:,.0f} GPU hours, in"
        f" {run.days:,.3g} days."
    )


def leading(answer: Compared) -> FabricRow | None:
    """The fabric where a step costs least, or the first of those that may be it."""
    verdict = answer.verdict
    names = (verdict.fabric, *verdict.tied[:1]) if verdict else ()
    rows = [row for row in answer.rows if row.stepped]
    return next((row for row in rows if row.label in names), rows[0] if rows else None)


class StepCase(Struct, frozen=True):
    """A case of several: the fabric that leads in it, and what a step costs there.

    Parameters
    ----------
    label, fabric
        Its value of the flags, and the fabric.
    hb_size
        GPUs of an HB domain [1].
    stepped
        The step.
    row
        The fabric's row.
    gear
        Price of gear inside HB domains that is in no sum; None where nobody knows it.
    gear_share
        What a unit of money of that weighs in a step [1].
    """

    json_parts: ClassVar[tuple[str, ...]] = (
        *("label", "fabric", "hb_size"),
        *("stepped.facts.step_s", "stepped.facts.sync_s", "stepped.facts.sync_bound_s"),
        *("stepped.price.usd_per_step", "stepped.price.network_share"),
        *("gear_per_step=gear_cost.base", "cost_per_step_with_gear=cost"),
    )

    label: str
    fabric: str
    hb_size: int
    stepped: Stepped
    row: FabricRow
    gear: Range | None
    gear_share: float

    @classmethod
    def of(cls, label: str, answer: Compared) -> "StepCase | None":
        """The case; None where no fabric does a step."""
        row, terms = leading(answer), answer.terms
        if row is None or row.stepped is None or row.fabric is None or row.bill is None:
            return None
        gear: Range | None = Range.point(0.0)
        if not (row.gear_in_server or row.gear_counted):
            gear = row.gear_cost
        share = gear_share(terms, row.stepped.step_s) if terms else 0.0
        size = row.fabric.sizing.hb_size
        return cls(label, row.label, size, row.stepped, row, gear, share)

    @property
    def chips(self) -> tuple[str, ...]:
        """Accelerators of its pools."""
        return tuple(pool.accelerator for pool in self.stepped.trained.pools)

    @property
    def priced(self) -> PricedStep | None:
        """Its step with a price; None without one."""
        step = self.stepped.price.step
        if step is None:
            return None
        return PricedStep(self.label, self.stepped.step_s, step, self.row.bill)

    @property
    def gear_cost(self) -> Range | None:
        """What gear inside HB domains weighs in a step."""
        return None if self.gear is None else self.gear_share * self.gear

    @property
    def cost(self) -> float | None:
        """Base price of a step, gear inside HB domains included; None without a price."""
        step, gear = self.stepped.price.step, self.gear_cost
        return None if step is None or gear is None else step.total.base + gear.base

    def more(self, other: "StepCase", added_s: float) -> Range | None:
        """What another costs more a step of so much longer [s]; None where that is not known."""
        ours, theirs = self.priced, other.priced
        gear, its = self.gear_cost, other.gear_cost
        if ours is None or theirs is None or gear is None or its is None:
            return None
        longer, later = (1 + added_s / case.stepped.step_s for case in (self, other))
        gear, its = longer * gear, later * its
        between = Range(its.low - gear.high, its.base - gear.base, its.high - gear.low)
        return ours.more(theirs, added_s) + between


def gear_share(terms: RunTerms, step_s: float) -> float:
    """What a unit of capital weighs in a step: its annuity over so many seconds [1].

    Examples
    --------
    Without interest a step of a year costs a sixth of what is bought for six years.

    >>> from netplan.costing.lifetime import Opex
    >>> free = Opex(6, Range.point(1.0), Range.point(0.0), Range.point(0.0))
    >>> round(6 * gear_share(RunTerms(1, 2.0, free), YEAR_S), 9)
    1.0
    """
    opex = terms.opex
    return annuity_factor(opex.interest.base, opex.years) * step_s / YEAR_S


class StepPays(Struct, frozen=True):
    """Which of several cases a step costs least in, or may.

    Parameters
    ----------
    name
        What tells cases apart.
    cases
        All that do a step.
    winner
        Label of the cheapest; None where several may be.
    tied
        Labels of those that may be, the cheapest at base prices first.
    sentences
        All of that in words.
    """

    json_parts: ClassVar[tuple[str, ...]] = ("by=name", "cases", "winner", "tied", "sentences")

    name: str
    cases: tuple[StepCase, ...]
    winner: str | None
    tied: tuple[str, ...]
    sentences: tuple[str, ...]

    def table(self, currency: str) -> Table[StepCase]:
        """The cases as a table."""
        shown = (
            column(Quantity("case", self.name, form="code"), "label"),
            *columns("fabric", "step_s=stepped.step_s"),
            *columns("sync_s", "sync_bound_s", of="stepped.facts"),
            column("cost_per_step", "stepped.price.step.total.base", title=f"{currency}/step"),
            column("bill_per_step", "stepped.price.step.network.base"),
            column("gear_per_step", "gear_cost.base"),
        )
        return Table(f"by_{self.name.replace('-', '_')}", shown, self.cases, f"By {self.name}")


def step_pays(name: str, cases: Sequence[tuple[str, Compared]]) -> StepPays | None:
    """Which of several cases pays for the synchronisation, by what a step costs in each.

    Parameters
    ----------
    name
        What tells cases apart, in words.
    cases
        Comparisons by their labels.

    Returns
    -------
    StepPays or None
        None where fewer than two do a step.
    """
    every = (StepCase.of(label, compared) for label, compared in cases)
    known = tuple(case for case in every if case is not None)
    if len(known) < 2:  # noqa: PLR2004 - a pair
        return None
    sentences = [_times(name, known)]
    priced = [case for case in known if case.cost is not None]
    tied: tuple[str, ...] = ()
    if len(priced) > 1:
        ranked = sorted(priced, key=lambda case: case.cost or 0.0)
        best, *others = ranked
        open_ones = [case for case in others if not _holds(best, case)]
        tied = tuple(case.label for case in (best, *open_ones)) if open_ones else ()
        sentences.append(_costs(name, ranked, tied))
        winner = None if tied else best.label
    else:
        winner = None
    sentences += _gear(known)
    return StepPays(name, known, winner, tied, tuple(sentences))


def _holds(best: StepCase, other: StepCase) -> bool:
    """Whether one costs less than another with nothing and with the most added to bounds.

    By all prices of the book, and by more than a percent of what the network weighs. Software may
    add more to one than to the other where their accelerators are not the same.
    """
    if best.chips != other.chips:
        least, most = best.stepped.printed
        return most * (best.cost or 0.0) < least * (other.cost or 0.0)
    most = max(case.stepped.printed[1] for case in (best, other))
    shortest = min(case.stepped.step_s for case in (best, other))
    for added_s in (0.0, (most - 1) * shortest):
        more = best.more(other, added_s)
        network = other.stepped.price.step.network.base if other.stepped.price.step else 0.0
        if more is None or more.low <= 0 or more.base < HAIR * network:
            return False
    return True


def _times(name: str, cases: Sequence[StepCase]) -> str:
    """Steps and new weights of all cases."""
    steps = [case.stepped.step_s for case in cases]
    syncs = [case.stepped.facts["sync_s"] for case in cases]
    least = cases[0].stepped.price.least
    words = []
    for what, times in (("A step takes", steps), ("new weights take", syncs)):
        if max(times) <= (1 + AS_FAST) * min(times):
            words.append(f"{what} {least}{_seconds(times[0])} at each {name}")
            continue
        texts = [
            f"{_seconds(time_s)} ({case.label})" for time_s, case in zip(times, cases, strict=True)
        ]
        words.append(f"{what} {least}{listed(texts)}")
    return f"{'; '.join(words)}."


def _seconds(time_s: float) -> str:
    """A time that stands beside others, in four digits."""
    return f"{time_s:,.4g} s" if time_s >= 1 else si(time_s, "s")


def _costs(name: str, ranked: Sequence[StepCase], tied: Sequence[str]) -> str:
    """Which case costs least, and what the others cost."""
    best, second = ranked[:2]
    price = best.stepped.price
    words = ", ".join(f"{case.label} {case.cost:,.4g}" for case in ranked if case.cost is not None)
    words = f"{words} {price.currency} a step, {price.least.strip()}"
    costs = [case.cost for case in ranked if case.cost is not None]
    if isclose(min(costs), max(costs), rel_tol=SAME):
        cost = amount(costs[0], price.currency)
        return f"A step costs the same at each {name}, {price.least}{cost}."
    if tied:
        return (
            f"Undecided between {listed(tied)}, which bounds and prices do not tell apart: {words}."
        )
    sooner = second.stepped.step_s - best.stepped.step_s
    bought = "network costs" if best.hb_size == second.hb_size else "network and gear cost"
    why = f"its step is as long, and its {bought} less"
    if abs(sooner) > AS_FAST * best.stepped.step_s:
        gap = si(abs(sooner), "s")
        why = f"its step is {gap} shorter"
        if sooner < 0:
            why = f"its step is {gap} longer, but its {bought} less"
    called = CALLED.get(name, name)
    return f"{called[:1].upper()}{called[1:]} {best.label} pays: {why} ({words})."


def _gear(cases: Sequence[StepCase]) -> Iterator[str]:
    """What gear inside HB domains may cost at most, or costs, where domains differ."""
    first = cases[0]
    if len({case.hb_size for case in cases}) == 1:
        return
    yield "A GPU hour has one price here, in HB domains of any size; their gear counts beside it."
    for case in cases[1:]:
        ours, theirs = case.priced, first.priced
        if ours is None or theirs is None or case.gear_share == 0 or case.hb_size == first.hb_size:
            continue
        saved = theirs.step.total.base - ours.step.total.base
        most = saved / case.gear_share / case.stepped.trained.run.gpus
        known = "" if case.gear is None else f" (it costs {_gear_price_a_gpu(case)})"
        if saved <= 0:
            yield f"Domains of {case.hb_size:,} save nothing that would pay for gear{known}."
            continue
        currency = first.stepped.price.currency
        yield (
            f"Domains of {case.hb_size:,} save {amount(saved, currency)} a step: that pays for gear"
            f" up to {most:,.0f} {currency} a GPU{known}."
        )


def _gear_price_a_gpu(case: StepCase) -> str:
    """Price of gear inside HB domains for one GPU."""
    if case.gear is None or case.row.fabric is None:
        return ""
    gpus = case.row.fabric.sizing.gpus
    return f"{case.gear.base / gpus:,.0f}" if case.gear.base else "none beside the servers"
