"""One side of two scenarios that are laid side by side, and how the times of both compare."""

from math import isclose
from typing import NamedTuple

from msgspec import Struct

from netplan.answers.compare_rows import FabricRow
from netplan.costing.fabric_bill import Bill
from netplan.decide.candidates import AS_FAST
from netplan.performance.plan import PlanTime
from netplan.units import PERCENT


class Goodput(Struct, frozen=True):
    """Share of the time that counts, less what a slower pace costs [1].

    ``half_width`` is half of the interval of its mean; ``low`` and ``high`` are what other clusters
    make of it; ``is_upper_bound`` says that work which is rolled back is left out, ``recovery``
    how the job comes back, and ``counts_rolled_back`` that what others leave out is in it.
    """

    value: float
    half_width: float | None
    low: float
    high: float
    is_upper_bound: bool = False
    recovery: str = ""
    counts_rolled_back: bool = False

    @property
    def shown(self) -> str:
        """Share and range, for people."""
        ends = (min(self.low, self.value), max(self.high, self.value))
        between = "-".join(f"{PERCENT * end:.0f}" for end in ends)
        return f"{'≤ ' * self.is_upper_bound}{PERCENT * self.value:.2f} % ({between})"


def not_ranked_words(first: Goodput | None, second: Goodput | None) -> str:
    """Why two goodputs are not to be ranked, where one counts what the other leaves out."""
    if first is None or second is None or first.counts_rolled_back == second.counts_rolled_back:
        return ""
    more, less = (first, second) if first.counts_rolled_back else (second, first)
    return (
        f"do not rank them by goodput: {more.recovery} counts work rolled back, manual restarts"
        f" and NaN, which {less.recovery} leaves out"
    )


class ScenarioSide(Struct, frozen=True):
    """One of the two: its bill, and how it trains or serves.

    Parameters
    ----------
    label, short
        What it is called in headings, and in the closing sentence.
    scenario, workload
        Name of its scenario, and whether that trains or serves.
    accelerator, prices
        Short name of the accelerator, and name of the price book.
    bill, row
        Its bill, and the fabric with its time.
    model, batch, sequence_length
        What runs; sequences of an iteration, None where there are none, and tokens of each [1].
    alike
        What two plans have in common whose times share most of their error.
    goodput
        What failures leave of the time, where that was asked for.
    """

    json_parts = (
        *("label", "scenario", "workload", "fabric=bill.name", "bill.fabric.sizing.gpus"),
        *("accelerator", "bill.fabric.sizing.hb_size", "bill.fabric.sizing.radix"),
        *("link_gbps=bill.fabric.sizing.speed_gbps", "prices", "model?", "batch"),
        *("cost_complete=bill.complete", "media_given=bill.media_given?"),
        *("unpriced=bill.quote.unpriced.*.title", "row.notes"),
    )

    label: str
    short: str
    scenario: str
    workload: str
    accelerator: str
    prices: str
    bill: Bill
    row: FabricRow
    model: str = ""
    batch: int | None = None
    sequence_length: int = 0
    alike: tuple[str, ...] = ()
    goodput: Goodput | None = None

    @property
    def best(self) -> PlanTime | None:
        """Its best plan; None where it is not timed."""
        return self.row.best

    @property
    def priced(self) -> bool:
        """Whether anything that sets it apart has a price."""
        return self.bill.cost is not None

    @property
    def currency(self) -> str:
        """Currency of its bill."""
        return self.bill.quote.currency

    @property
    def words(self) -> str:
        """The cluster, its fabric and its batch in a line."""
        sizing = self.bill.fabric.sizing
        batch = f", batch {self.batch:,}" if self.batch else ""
        return (
            f"{self.short}: {sizing.gpus:,} {self.accelerator}, HB {sizing.hb_size:,},"
            f" {self.bill.name} of {sizing.radix} x {sizing.speed_gbps:g}G{batch}"
        )


class TimeRatio(NamedTuple):
    """How two times of an iteration compare.

    Parameters
    ----------
    more
        What the second takes more than the first, as a share of that [1].
    equal
        Whether they cannot be told apart.
    each
        Whether times of a sequence are compared, since the batches differ.
    """

    more: float
    equal: bool
    each: bool

    @property
    def words(self) -> str:
        """In a few words, for a sentence."""
        if abs(self.more) < AS_FAST:
            return "as fast"
        within = ", within the error" if self.equal else ""
        return f"{100 * self.more:+.1f} % time{' a sequence' if self.each else ''}{within}"


def compare_times(first: ScenarioSide, second: ScenarioSide) -> TimeRatio | None:
    """How the iteration times of two sides compare.

    Times of one model on like GPUs are told apart by the rule of their error bars
    (`netplan.performance.error_bars`), which share most of their error. Others are equal where each
    lies within the bar of the other.

    Parameters
    ----------
    first, second
        The two sides.

    Returns
    -------
    TimeRatio or None
        None where one is not timed, or they are of two models.
    """
    plan_a, plan_b = first.best, second.best
    if plan_a is None or plan_b is None or first.model != second.model:
        return None
    alike = first.alike == second.alike
    if first.batch == second.batch:
        return time_ratio(plan_a, plan_b, alike=alike)
    return time_ratio(plan_a, plan_b, (first.batch or 0, second.batch or 0), alike=alike)


def time_ratio(
    plan_a: PlanTime, plan_b: PlanTime, batches: tuple[int, int] | None = None, *, alike: bool
) -> TimeRatio:
    """How two iteration times compare.

    Parameters
    ----------
    plan_a, plan_b
        The timed plans.
    batches
        Sequences of an iteration of each, where they differ and times of a sequence count [1].
    alike
        Whether they are of one model on like GPUs, so that their times share most of their error.

    Returns
    -------
    TimeRatio
        What the second takes more.
    """
    time_a, bar_a = _barred(plan_a, batches[0] if batches else 1)
    time_b, bar_b = _barred(plan_b, batches[1] if batches else 1)
    if alike and not batches:
        equal = plan_a.as_fast_as(plan_b)
    else:
        within = [bar_a[0] <= time_b <= bar_a[1]] if bar_a else []
        within += [bar_b[0] <= time_a <= bar_b[1]] if bar_b else []
        equal = bool(within) and all(within)
    return TimeRatio(
        time_b / time_a - 1, equal or isclose(time_a, time_b, rel_tol=1e-9), bool(batches)
    )


def _barred(plan: PlanTime, sequences: int) -> tuple[float, tuple[float, float] | None]:
    """Time of an iteration, or of each of its sequences, and the ends of its error bar [s]."""
    time_s = plan.iteration_time_s / sequences
    return time_s, plan.error.whole.of(time_s) if plan.error else None


def served_words(first: ScenarioSide, second: ScenarioSide) -> str:
    """How many more tokens a second the second side answers with; empty where nothing says it.

    Parameters
    ----------
    first, second
        The two sides.

    Returns
    -------
    str
        Such as ``+12.0 % tokens a second``; as many where the bars of both hold the other.
    """
    served_a, served_b = first.row.served, second.row.served
    if served_a is None or served_b is None or first.model != second.model:
        return ""
    plan_a, plan_b = served_a.plan, served_b.plan
    more = plan_b.tokens_per_s / plan_a.tokens_per_s - 1
    if abs(more) < AS_FAST:
        return "as many tokens a second"
    if (
        plan_b.tokens_per_s_low <= plan_a.tokens_per_s <= plan_b.tokens_per_s_high
        and plan_a.tokens_per_s_low <= plan_b.tokens_per_s <= plan_a.tokens_per_s_high
    ):
        return "as many tokens a second within the error"
    return f"{100 * more:+.1f} % tokens a second"


def step_words(first: ScenarioSide, second: ScenarioSide) -> str:
    """How much longer a step of post-training is on the second side; empty where nothing says it.

    Parameters
    ----------
    first, second
        The two sides.

    Returns
    -------
    str
        Such as ``+12.0 % step``. Steps that are bounds are not told apart where one, as long as
        printed steps are at least, is below the other as long as they are at most.
    """
    step_a, step_b = first.row.stepped, second.row.stepped
    if step_a is None or step_b is None or first.model != second.model:
        return ""
    more = step_b.step_s / step_a.step_s - 1
    if abs(more) < AS_FAST:
        return "as long a step"
    low, high = step_a.printed
    near = max(1 + more, 1 / (1 + more)) < high / low
    network_alone = step_a.job == step_b.job
    untold = ", which bounds do not tell apart" if near and not network_alone else ""
    return f"{100 * more:+.1f} % step{untold}"
