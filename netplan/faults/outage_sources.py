"""What happens on the line of time of :mod:`netplan.faults.outages`, as arrays.

An event that may or may not stop the job is split into two kinds, each a Poisson process of its
own. Kinds that neither stop it nor take a scarce spare leave the line and are only counted.
"""

from dataclasses import dataclass

import numpy as np

from netplan.arrays import Floats, Ints


@dataclass(frozen=True, slots=True)
class Sources:
    """Kinds of events.

    Parameters
    ----------
    names
        Causes and labels of risk groups: the columns of the answer.
    pools, spares
        Pools and their spares, shape (pools,) [1].
    slowdown_h
        Hours of work that one failure of a cause costs without stopping the job, shape (causes,).
    counted_per_year
        Events of each column that are only counted, shape (columns,) [1/year].
    rate_per_year
        Rate of each kind on the line, shape (kinds,) [1/year].
    column
        Column of each kind, shape (kinds,).
    stops
        Whether a kind stops the job, shape (kinds,).
    taken
        Spares that one event takes, shape (kinds, pools) [1].
    lead_h
        Mean time until they are back, shape (kinds, pools) [h].
    """

    names: tuple[str, ...]
    pools: tuple[str, ...]
    spares: Ints
    slowdown_h: Floats
    counted_per_year: Floats
    rate_per_year: Floats
    column: Ints
    stops: Ints
    taken: Ints
    lead_h: Floats

    @classmethod
    def of(  # noqa: PLR0913 - the columns of one table
        cls,
        *,
        names: tuple[str, ...],
        pools: tuple[str, ...],
        spares: Ints,
        slowdown_h: Floats,
        column: Ints,
        rate_per_year: Floats,
        stop_share: Floats,
        taken: Ints,
        lead_h: Floats,
    ) -> "Sources":
        """Split events into those that stop the job and those that do not."""
        stopping, other = rate_per_year * stop_share, rate_per_year * (1 - stop_share)
        scarce = taken.any(axis=1)
        counted = _total(column, np.where(scarce, 0.0, other), len(names))
        rate = np.concatenate([stopping, np.where(scarce, other, 0.0)])
        stops = np.repeat([1, 0], len(column))
        column, taken, lead_h = (np.concatenate([a, a]) for a in (column, taken, lead_h))
        if not pools:
            # Nothing tells events of one column apart: as many kinds as columns are enough.
            rate = _total(column, rate, len(names))
            column, stops = np.arange(len(names)), np.ones(len(names), np.int64)
            taken, lead_h = np.zeros((len(names), 0), np.int64), np.zeros((len(names), 0))
        happens = rate > 0
        return cls(
            names,
            pools,
            spares,
            slowdown_h,
            counted,
            rate[happens],
            column[happens],
            stops[happens],
            taken[happens],
            lead_h[happens],
        )

    @property
    def timed_per_year(self) -> float:
        """Events on the line [1/year]."""
        return float(self.rate_per_year.sum())

    @property
    def stops_per_year(self) -> float:
        """Events that stop the job [1/year]."""
        return float(self.rate_per_year[self.stops > 0].sum())


def _total(column: Ints, rate: Floats, columns: int) -> Floats:
    """Rates summed by column, shape (columns,) [1/year]."""
    # Without events numpy counts in integers.
    return np.bincount(column, rate, minlength=columns).astype(np.float64)
