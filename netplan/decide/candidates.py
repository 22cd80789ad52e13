"""Who may be bought, what it is decided by, and whose iteration times can be told apart.

Times that carry error bars are told apart by them (`netplan.performance.error_bars`): two networks
under one plan differ by what they communicate alone, and share all other error. Times without are
as good as each other within a tolerance, the same for all.
"""

from collections.abc import Iterable, Sequence
from math import inf
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from netplan.costing.lifetime import Lifetime
from netplan.reports.quantities import Scale, money
from netplan.units import DAY_S, DAYS_PER_YEAR, HOURS_PER_DAY

if TYPE_CHECKING:
    from netplan.costing.fabric_bill import Bill
    from netplan.performance.plan import PlanTime

AS_FAST = 5e-4
"""Difference of times below which two are as fast: a reader of a tenth of a percent sees none."""

Rule = Literal["near-fastest", "run-cost", "price", "fastest"]
"""Rules that a planner may name."""


UNITS = {
    "tokens": ("a million tokens", "A million tokens cost"),
    "step": ("a step", "A step costs"),
}
"""Rules that follow from what runs, the lowest price of what a cluster gives: what that is called
in a rule, and before its price."""


class Candidate(Struct, frozen=True):
    """A fabric that may be bought.

    Parameters
    ----------
    name
        Name of the fabric.
    price
        Base price of its network, of the parts that have one.
    ends
        Low to high of that in brackets, for people; empty where nobody needs it.
    complete
        Whether that holds all that sets fabrics apart.
    time_s
        Iteration time; infinite without one [s].
    life
        What the network costs in its years of use, if that is known.
    gpu_bytes_per_s
        Network bandwidth of a GPU [B/s].
    lacking
        Whether parts that set it apart have no price.
    direct
        Whether its GPUs are joined to each other, without switches.
    built_with
        Accelerators of the product, if they are others than those asked for.
    unsold
        Whether no maker joins its accelerators by such a fabric.
    timed
        The plan behind the time.
    gear, geared
        Base price of the gear inside its HB domains, and whether all of that has one.
    bill
        What it is made of, if that is known.
    share
        What a unit of money of the bill weighs in the price: less than 1 of a price of tokens [1].
    """

    name: str
    price: float
    complete: bool
    time_s: float
    life: Lifetime | None
    gpu_bytes_per_s: float
    lacking: bool = False
    direct: bool = False
    built_with: tuple[str, ...] = ()
    unsold: bool = False
    timed: "PlanTime | None" = None
    ends: str = ""
    gear: float = 0.0
    geared: bool = True
    bill: "Bill | None" = None
    share: float = 1.0

    @property
    def barred(self) -> bool:
        """Whether its time has an error bar."""
        return self.timed is not None and self.timed.error is not None

    @property
    def floor(self) -> str:
        """The sign of a price without what joins sites, which every network lacks; else empty."""
        haul = self.bill.haul if self.bill else None
        return "≥ " if haul and haul.unpriced else ""

    @property
    def media_given(self) -> str:
        """What its file says of media that no hall confirms; empty without."""
        return self.bill.media_given if self.bill is not None else ""

    @property
    def time_text(self) -> str:
        """The iteration time for people."""
        if self.timed is None or self.timed.error is None:
            return f"{self.time_s:.3f} s"
        from netplan.performance.error_bars import time_text

        return time_text(self.time_s, self.timed.error)

    def barred_text(self, amount: float, digits: int) -> str:
        """What grows with its time, to so many digits behind the point, with the bar of that."""
        text = f"{amount:,.{digits}f}"
        if self.timed is None or self.timed.error is None:
            return text
        low, high = self.timed.error.whole.of(amount)
        return f"{text} ({low:,.{digits}f}-{high:,.{digits}f})"

    @property
    def per_year(self) -> float:
        """Annuity and energy of the network in a year."""
        return self.life.per_year.base if self.life else 0.0


def bought(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Candidates that somebody sells for these accelerators; all if nobody sells any.

    Never one whose file gives the medium of its links: what all others pay for by one rule.
    """
    native = [candidate for candidate in candidates if not candidate.built_with]
    native = [candidate for candidate in native if not candidate.media_given]
    return [candidate for candidate in native if not candidate.unsold] or native


class RunBudget(Struct, frozen=True):
    """A training run: its iterations [1], and what an hour of all GPUs costs."""

    iterations: int
    hour: float

    @property
    def day(self) -> float:
        """What a day of all GPUs costs."""
        return HOURS_PER_DAY * self.hour

    def days(self, candidate: Candidate) -> float:
        """Days of the run on a fabric."""
        return self.iterations * candidate.time_s / DAY_S

    def network(self, candidate: Candidate) -> float:
        """The network's share: its yearly cost for so many days."""
        return self.days(candidate) * candidate.per_year / DAYS_PER_YEAR

    def paid_back(self, candidate: Candidate) -> float:
        """Share of a network's price that the annuities of its days are [1]."""
        if candidate.life is None or not candidate.price:
            return 0.0
        yearly = candidate.life.annuity_per_year.base / candidate.price
        return self.days(candidate) * yearly / DAYS_PER_YEAR

    def cost(self, candidate: Candidate) -> float:
        """Cost of the run: GPU hours, and the network's share."""
        return self.days(candidate) * self.day + self.network(candidate)


class Basis(Struct, frozen=True):
    """What is decided by: the rule, the error of iteration times [1], and the training run."""

    rule: Rule | Literal["tokens", "step"]
    within: float
    run: RunBudget | None
    money: Scale
    timing: bool = True
    """Whether iteration times were asked for."""
    bought: str = "network"
    barred: bool = False
    """Whether times carry error bars, which tell them apart then."""
    least: str = ""
    """What stands before a price that follows from a bound."""

    @property
    def near(self) -> str:
        """The model's error, in words."""
        return "error" if self.barred else f"{100 * self.within:g} %"

    def same_time(self, first: Candidate, other: Candidate) -> bool:
        """Whether two iteration times cannot be told apart.

        Examples
        --------
        >>> basis = Basis("fastest", 0.05, None, Scale(1e6, "M USD", 1))
        >>> clos = Candidate("clos", 100e6, True, 10.0, None, 50e9)
        >>> rails = Candidate("rails", 60e6, True, 10.2, None, 50e9)
        >>> basis.same_time(clos, rails)
        True
        """
        if first.timed and other.timed and (first.barred or other.barred):
            return first.timed.as_fast_as(other.timed)
        short, long = sorted((first.time_s, other.time_s))
        return long <= short * (1 + self.within)

    def nearly(self, candidate: Candidate, best: Candidate) -> bool:
        """Whether one is as fast as another for a buyer: in tolerance, or for all that is known."""
        within = candidate.time_s <= nearly_fastest_s([best.time_s], self.within)
        return within or (candidate.time_s < inf and self.same_time(candidate, best))

    def amount(self, value: float) -> str:
        """An amount with its unit."""
        return f"{self.money.number(value)} {self.money.title}"

    def unscaled(self, value: float) -> str:
        """An amount that has nothing to do with prices of networks: in millions or thousands."""
        return money(value, self.money.title.rpartition(" ")[2])


def nearly_fastest_s(times_s: Iterable[float], within: float) -> float:
    """Longest iteration that counts as fast as the shortest; infinite where none is timed [s]."""
    return min(times_s, default=inf) * (1 + within)
