"""Clusters against each other: what the failures of some predict for one that is left out.

Clusters differ by more than chance: their rates per accelerator and year are taken as draws from a
gamma distribution, and the failures of one as a Poisson count at its own rate. The count of a new
cluster is then negative binomial (Greenwood and Yule, J. Royal Statistical Society 83, 1920), and
the gamma distribution is fitted by its moments, less what chance adds to them (Gaver and
O'Muircheartaigh, Technometrics 29, 1987).
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from statistics import mean, variance

from msgspec import Struct

from netplan.errors import InputError
from netplan.faults.years.group_failures import GroupFailures
from netplan.faults.years.rates import NETWORK_KINDS, FailureBook, Kind, Unit
from netplan.inputs.choices import End

COVERAGE = 0.9
"""Coverage of the interval of a predicted count [1]."""

LARGEST_COUNT = 10**9


class ClusterCount(Struct, frozen=True):
    """Failures that a cluster saw [1] in so many accelerator-years [1]."""

    name: str
    failures: int
    accelerator_years: float

    @property
    def rate_per_year(self) -> float:
        """Failures per accelerator and year."""
        return self.failures / self.accelerator_years


class RateSpread(Struct, frozen=True):
    """Rates of clusters as a gamma distribution of this mean and variance [1/year, 1/year^2]."""

    mean: float
    variance: float

    @classmethod
    def of(cls, clusters: Sequence[ClusterCount]) -> "RateSpread":
        """Spread that k clusters with rates r_i = y_i / E_i show.

        ======  ====================================================================
        m       mean of the r_i
        s^2     their sample variance, of which chance makes m mean(1 / E_i)
        v       (s^2 - m mean(1 / E_i)) (1 + 1/k), at least 0: m itself is estimated
        ======  ====================================================================

        Raises
        ------
        InputError
            If there are fewer than two clusters, or none has failures.

        Examples
        --------
        >>> spread = RateSpread.of([ClusterCount("a", 100, 1000.0), ClusterCount("b", 300, 1000.0)])
        >>> round(spread.mean, 3), round(spread.variance, 4)  # 0.02 - 0.0002, times 1.5
        (0.2, 0.0297)
        """
        rates = [cluster.rate_per_year for cluster in clusters]
        if len(rates) < 2 or not sum(rates):  # noqa: PLR2004 - a spread needs two
            raise InputError(
                f"{len(rates)} clusters with {sum(c.failures for c in clusters)} failures say"
                " nothing about how clusters differ: give two or more, and some failures"
            )
        middle = mean(rates)
        chance = middle * mean(1 / cluster.accelerator_years for cluster in clusters)
        spread = max(0.0, variance(rates) - chance)
        return cls(middle, spread * (1 + 1 / len(rates)))

    def count_interval(
        self, accelerator_years: float, coverage: float = COVERAGE
    ) -> tuple[int, int]:
        """Interval of the failures of a new cluster in so many accelerator-years [1].

        With the gamma distribution's shape a = m^2 / v and E accelerator-years a count of k or less
        has the probability I_p(a, k + 1), p = m / (m + v E), the regularised incomplete beta
        function; without a spread the count is Poisson.

        Examples
        --------
        >>> RateSpread(0.2, 0.01).count_interval(100.0), RateSpread(0.2, 0.0).count_interval(100.0)
        ((6, 41), (13, 28))
        """
        # Loaded only where counts are asked for: it takes longer than all catalogs together.
        from scipy.special import betainc, gammaincc  # noqa: PLC0415

        expected = self.mean * accelerator_years

        def at_most(count: int) -> float:
            if not self.variance:
                return float(gammaincc(count + 1, expected))
            shape = self.mean**2 / self.variance
            share = self.mean / (self.mean + self.variance * accelerator_years)
            return float(betainc(shape, count + 1, share))

        tail = (1 - coverage) / 2
        low, high = (
            bisect_left(range(LARGEST_COUNT), chance, key=at_most) for chance in (tail, 1 - tail)
        )
        return low, high


class Prediction(Struct, frozen=True):
    """What the spread of the other clusters predicts for one: an interval of its failures [1]."""

    cluster: ClusterCount
    others: RateSpread
    low: int
    high: int

    @property
    def holds(self) -> bool:
        """Whether the failures that were seen lie inside."""
        return self.low <= self.cluster.failures <= self.high


def leave_one_out(clusters: Sequence[ClusterCount]) -> tuple[Prediction, ...]:
    """The failures of every cluster, predicted from the rates of all others.

    Examples
    --------
    Three clusters alike, and one with ten times their rate.

    >>> alike = [ClusterCount(name, count, 1000.0) for name, count in zip("abc", (90, 100, 120))]
    >>> for found in leave_one_out([*alike, ClusterCount("d", 1000, 1000.0)]):
    ...     print(found.cluster.name, found.cluster.failures, found.low, found.high, found.holds)
    a 90 1 1597 True
    b 100 1 1600 True
    c 120 0 1604 True
    d 1000 77 132 False
    """
    predictions = []
    for cluster in clusters:
        others = RateSpread.of([other for other in clusters if other is not cluster])
        predictions.append(
            Prediction(cluster, others, *others.count_interval(cluster.accelerator_years))
        )
    return tuple(predictions)


RECORD_OF_KIND: Mapping[Kind, str] = {
    **dict.fromkeys(NETWORK_KINDS, "network"),
    "gpu": "GPU and HB gear",
    "hb-gear": "GPU and HB gear",
    "memory": "GPU memory",
    "nic": "NIC",
    "server": "server hardware",
    "maintenance": "host maintenance",
    "software": "software and unknown",
    "unknown": "software and unknown",
    "rack": "racks",
    "power-feed": "power feeds",
}
"""What a record of one cluster tells apart, by kind."""


def interruptions_by_record(
    book: FailureBook,
    units: Mapping[Unit, int],
    *,
    end: End = "base",
    groups: Sequence[GroupFailures] = (),
) -> dict[str, float]:
    """Interruptions of a job by what a record tells apart [1/year].

    Parameters
    ----------
    book
        Failure rates, their parts placed by :meth:`FailureBook.placed`.
    units
        Units of the cluster, of :func:`netplan.faults.years.rates.unit_counts` [1].
    end
        Which end of the ranges counts.
    groups
        Groups that fail as a whole, in place of those that the book guesses from the GPUs.

    Examples
    --------
    Table 5 of Llama 3: 35 network interruptions in 54 days, 236.6 a year.

    >>> from netplan.faults.years.rates import FAILURE_BOOKS
    >>> found = interruptions_by_record(FAILURE_BOOKS.load("llama-3-54-days"), {"gpu": 16_384})
    >>> round(found["network"], 1), round(found["GPU memory"], 1)
    (236.6, 615.1)
    """
    rates: dict[str, float] = {}
    whole = {kind.row.cause: kind.interruptions_per_year for kind in groups}
    for row in book.rates:
        name = RECORD_OF_KIND.get(row.kind)
        if name is not None:
            per_unit = row.rate_per_year.at_end(end) * row.interrupts
            alone = per_unit * row.count_in(units) if row.cause not in whole else 0.0
            rates[name] = rates.get(name, 0.0) + whole.get(row.cause, alone)
    return rates
