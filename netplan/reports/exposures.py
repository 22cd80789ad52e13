"""What a cluster is exposed to: a failure book times the units of a fabric."""

from collections.abc import Mapping
from typing import Literal

from netplan.catalog import unknown_name
from netplan.costing.failures import FailureBook, FailureRate, Unit
from netplan.errors import InputError
from netplan.performance.outages import Cause

End = Literal["low", "base", "high"]
Times = Literal["repair", "lead"]


def causes_of(
    book: FailureBook,
    units: Mapping[Unit, int],
    *,
    end: End = "base",
    times: Times = "repair",
    pools: Mapping[str, str] | None = None,
    interrupts: Mapping[str, float] | None = None,
) -> tuple[Cause, ...]:
    """Causes of a simulation: each row of the book with the units that a cluster has of it.

    Parameters
    ----------
    book
        Failure rates.
    units
        Units of the cluster, as :func:`netplan.costing.failures.unit_counts` gives them [1].
    end
        Which end of the ranges counts, for rates and times alike.
    times
        Whether a pool is filled again by repairs or by deliveries.
    pools
        Pool of spares by kind of unit; kinds that it does not name never lack a spare.
    interrupts
        Share of the failures that stop the job, by cause, in place of the book's [1].

    Raises
    ------
    UnknownNameError
        If ``interrupts`` names a cause that the book does not have.

    Examples
    --------
    >>> from netplan.costing.failures import FAILURE_BOOKS
    >>> cause = causes_of(FAILURE_BOOKS.load("rsc-1"), {"gpu": 16_384})[0]
    >>> cause.count, cause.rate_per_year
    (2048, 2.3725)
    """
    shares = dict(interrupts or {})
    names = [row.cause for row in book.rates]
    for name in shares:
        if name not in names:
            raise unknown_name("cause", name, names)
    for kind in pools or {}:
        if kind not in {row.kind for row in book.rates}:
            raise InputError(
                f"a pool for {kind!r}, of which failures {book.name} has no row: known:"
                f" {', '.join(sorted({row.kind for row in book.rates}))}"
            )

    def cause(row: FailureRate) -> Cause:
        hours = book.repair_h(row.kind) if times == "repair" else book.lead_h(row.kind)
        return Cause(
            name=row.cause,
            rate_per_year=getattr(row.rate_per_year, end),
            count=row.count_in(units),
            interrupts=shares.get(row.cause, row.interrupts),
            repair_h=getattr(hours, end),
            pool=(pools or {}).get(row.kind, ""),
        )

    return tuple(cause(row) for row in book.rates)
