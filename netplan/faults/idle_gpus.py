"""Idle GPUs of HB domains over the years: how often one takes a failed GPU's place.

Of K GPUs of a domain s stand by. Failures under repair among the K are an M/G/inf queue: a Poisson
number N whose mean m is rate x repair hours. A failure that finds N >= s has nobody to take over,
and is P(N >= s) of all (Poisson arrivals see time averages); the domain is short of GPUs P(N > s)
of the time, so that by Little's law each of these failures takes it for
P(N > s) / (m P(N >= s)) of its repair, about 1/(s + 1). For s = 0 these are 1 and, for small m, 1.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from netplan.faults.downtime import Effect
from netplan.faults.outages import Cause
from netplan.faults.rates import FailureBook, FailureRate, Unit
from netplan.inputs.choices import End
from netplan.records import replace
from netplan.units import HOURS_PER_YEAR

REPLACED: frozenset[Unit] = frozenset({"gpu", "nic_port"})
"""Units that an idle GPU, which has a network card of its own, takes the place of."""


class IdleGpus(Struct, frozen=True):
    """Idle GPUs in every HB domain of a job, of ``hb_size`` GPUs [1].

    ``missed`` is the share of the failures that find none left, ``short`` the share of the time in
    which a domain is short of GPUs, ``mean_down`` the mean number of its GPUs under repair [1].
    """

    each: int
    hb_size: int
    missed: float
    short: float
    mean_down: float

    def split(self, row: FailureRate, parts: Iterable[Cause]) -> tuple[Cause, ...]:
        """The causes of a row of a book, told apart by whether an idle GPU takes over.

        Where one does, the job starts again and has lost nothing; a failed idle GPU stops nothing.

        Examples
        --------
        >>> from netplan.faults.rates import FAILURE_BOOKS
        >>> row = FAILURE_BOOKS.load("2026").rate("GPU")
        >>> idle = IdleGpus(1, 8, missed=0.002, short=0.000002, mean_down=0.002)
        >>> taken, lost = idle.split(row, [Cause("GPU", 0.5, 1024, repair_h=24.0)])
        >>> taken.effect.domains, taken.stops_per_year, lost.failures_per_year, lost.repair_h
        (0, 447.104, 1.024, 12.0)
        """
        if row.unit not in REPLACED or row.kind == "hb-gear":
            return tuple(parts)
        used = (self.hb_size - self.each) / self.hb_size
        held = self.short / (self.mean_down * self.missed) if self.missed else 0.0
        found: list[Cause] = []
        for one in parts:
            rate = one.rate_per_year
            taken = replace(
                one,
                rate_per_year=rate * (1 - self.missed),
                interrupts=one.interrupts * used,
                effect=Effect(),
            )
            lost = replace(
                one, rate_per_year=rate * self.missed, repair_h=one.repair_h * min(held, 1.0)
            )
            found += [taken, lost]
        return tuple(found)


def idle_gpus(
    book: FailureBook,
    units: Mapping[Unit, int],
    *,
    each: int,
    domains: int,
    hb_size: int,
    end: End = "base",
) -> IdleGpus:
    """Chances that the idle GPUs of a domain are all in use, by a book and the units there are [1].

    Examples
    --------
    >>> from netplan.faults.rates import FAILURE_BOOKS
    >>> book = FAILURE_BOOKS.load("2026")
    >>> found = idle_gpus(book, {"gpu": 1024, "nic_port": 1024}, each=1, domains=128, hb_size=8)
    >>> 0 < found.short < found.missed < found.mean_down < 0.1
    True
    """
    # Loaded only where idle GPUs are asked for: it takes longer than all catalogs together.
    from scipy.special import gammainc  # noqa: PLC0415

    hours = sum(
        row.rate_per_year.at(end) * row.count_in(units) * book.repair_h(row.kind).at(end)
        for row in book.rates
        if row.unit in REPLACED and row.kind != "hb-gear"
    )
    mean = hours / HOURS_PER_YEAR / domains
    # P(N >= s) of a Poisson number is the lower incomplete gamma function, exact where it is tiny.
    missed = float(gammainc(each, mean)) if each else 1.0
    return IdleGpus(each, hb_size, missed, float(gammainc(each + 1, mean)), mean)
