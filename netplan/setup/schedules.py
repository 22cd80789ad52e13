"""The schedule that an iteration is simulated by."""

from typing import Any, get_args

from netplan.errors import InputError
from netplan.performance.plan import PlanTime
from netplan.setup.question import Question
from netplan.simulation.tasks import SimulatedSchedule


def asked_schedule(asked: Question[Any]) -> SimulatedSchedule | None:
    """The schedule that a question asks for, if any; servers have none.

    Parameters
    ----------
    asked
        The question.

    Returns
    -------
    SimulatedSchedule or None
        Its schedule.

    Raises
    ------
    InputError
        If closed forms alone know it.
    """
    wanted = asked.training.schedule if asked.trains else None
    known = next((name for name in get_args(SimulatedSchedule) if name == wanted), None)
    if wanted is not None and known is None:
        raise InputError(
            f"--schedule {wanted} has closed forms alone (netplan search): netplan {asked.command}"
            f" runs {', '.join(get_args(SimulatedSchedule))}"
        )
    return known


def schedule_of(asked: Question[Any], timed: PlanTime) -> SimulatedSchedule:
    """The schedule that is asked for, or that of the plan.

    Parameters
    ----------
    asked, timed
        The question, and the plan.

    Returns
    -------
    SimulatedSchedule
        One that runs the plan.

    Raises
    ------
    InputError
        If the one that is asked for does not.
    """
    stages = timed.plan.interleave
    usual: SimulatedSchedule = "interleaved" if stages > 1 else "1f1b"
    schedule = asked_schedule(asked) or usual
    if (schedule == "interleaved") != (stages > 1):
        advice = "--fix interleave=1" if stages > 1 else "--fix interleave=2"
        raise InputError(
            f"--schedule {schedule} does not run a plan of {stages} stage{'s' * (stages > 1)} a"
            f" GPU: leave it out, or give {advice}"
        )
    return schedule
