"""Which plans cannot be told apart, in words (`netplan.performance.error_bars` has the rule)."""

from collections.abc import Iterator, Sequence

from netplan.performance.error_bars import own_times
from netplan.performance.plan import PlanTime
from netplan.reports.quantities import listed
from netplan.units import si


def equal_to_best(plans: Sequence[PlanTime]) -> Iterator[str]:
    """Ranks of the plans that are as fast as the first, for all that is known."""
    if plans[0].error is None or len(plans) == 1:
        return
    ranks = [f"{rank}" for rank, one in enumerate(plans, 1) if rank > 1 and one.equals(plans[0])]
    who = f"plan{'s' * (len(ranks) > 1)} {listed(ranks)}" if ranks else "none of these plans"
    yield (
        f"Equal to plan 1 within the model's error: {who} (less than"
        f" {100 * plans[0].error.repeat:g} % apart, or by less than is known of what they do not"
        " share)."
    )


def told_apart(names: Sequence[str], first: PlanTime, second: PlanTime) -> str:
    """Whether two plans are equal, with what they share and what they do not."""
    own = own_times(first.breakdown_s, second.breakdown_s)
    times = f"{si(first.iteration_time_s, 's')} and {si(second.iteration_time_s, 's')}"
    shared = si(first.iteration_time_s - own[0], "s")
    apart = (
        f"of {times} they share {shared}, whose error changes no order; {si(own[0], 's')} and"
        f" {si(own[1], 's')} are their own{_doubt(first)}"
    )
    more = abs(second.iteration_time_s / first.iteration_time_s - 1)
    if first.equals(second):
        told = f"are equal within the model's error: {100 * more:.1f} % apart"
    else:
        told = f"are {100 * more:.1f} % apart, more than the model's error"
    return f"{listed(names).capitalize()} {told}; {apart}."


def _doubt(one: PlanTime) -> str:
    """How little is known of what a plan does not share."""
    bar = one.error.own if one.error else None
    return f", each {bar.low:g} to {bar.high:g} times as long" if bar else ""
