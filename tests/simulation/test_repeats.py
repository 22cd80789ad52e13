"""Jobs that repeat their iterations beside each other, by hand."""

import pytest

from netplan.errors import InputError
from netplan.simulation.run import PipelineResult, sharing, simulate_pipelines
from netplan.simulation.tasks import Burst, Message, Pass, Pipeline, delay


def job(compute_s: float, link_s: float, *, link: int = 0, microbatches: int = 1) -> Pipeline:
    """One stage that computes, and then sends over a link."""
    sends = (((Burst((Message((link,), link_s),)),),),)
    return Pipeline(1, microbatches, (Pass(delay(compute_s)),), (Pass(sends),), (), ())


def beside(*jobs: Pipeline, full: bool = False) -> list[PipelineResult]:
    """What becomes of jobs that share two links."""
    return list(simulate_pipelines(jobs, links=2, repeat=True, full=full).pipelines)


def test_a_short_job_meets_a_long_one_for_all_of_its_time() -> None:
    """1 s iterations, 0.5 s of them on the link, beside one of 10 s, 5 s of them on the link.

    Five iterations end at 1, 2, 3, 4, 5 s, when the long job takes the link until 10 s, its end.
    The sixth has computed by 5.5 s, waits until 10 and ends at 10.5 s: 10.5 s / 6 = 1.75 s.
    """
    short, long = beside(job(0.5, 0.5), job(5.0, 5.0))
    assert (long.iteration_time_s, long.iterations) == (10.0, 1)
    assert (short.iteration_time_s, short.iterations) == (1.75, 6)
    assert short.busy_s[0] * 6 == 10.5  # it is in a pass all the time
    # In the other order of the file the tie at 5 s goes the same way: the link was asked at 4.5 s.
    assert [one.iteration_time_s for one in beside(job(5.0, 5.0), job(0.5, 0.5))] == [10.0, 1.75]


def test_a_long_job_of_many_messages_lets_the_short_one_in_between() -> None:
    """Ten microbatches of 0.5 s computing and 0.5 s sending meet 1 s iterations of the same.

    Both ask for the link at 0.5 s. The first one has it until 1 s, the second until 1.5 s; from
    then on each computes while the other one sends: all ten end 0.5 s later than alone.
    """
    short, long = beside(job(0.5, 0.5), job(0.5, 0.5, microbatches=10))
    assert (long.iteration_time_s, long.iterations) == (10.5, 1)
    # The eleventh ends at 11 s.
    assert (short.iteration_time_s, short.iterations) == (1.0, 11)


def test_equal_jobs_and_jobs_apart_run_once() -> None:
    apart = beside(job(0.5, 0.5), job(5.0, 5.0, link=1))
    assert [(one.iteration_time_s, one.iterations) for one in apart] == [(1.0, 1), (10.0, 1)]
    jobs = [job(0.5, 0.5), job(5.0, 5.0, link=1), job(1.0, 1.0)]
    assert sharing(jobs) == [[1], [0, 2]]
    # The two that share a link do not wait for the third: 0.5 on its way twice in 2 s.
    assert [one.iterations for one in beside(*jobs)][1] == 1
    assert beside(*jobs)[0].iterations <= 3


@pytest.mark.parametrize("microbatches", [5, 40, 1_000])
def test_counted_on_is_simulated_in_full(microbatches: int) -> None:
    jobs = [job(1.0, 0.5, microbatches=microbatches), job(0.75, 0.75, microbatches=microbatches)]
    for short, full in zip(beside(*jobs), beside(*jobs, full=True), strict=True):
        assert short.iteration_time_s == pytest.approx(full.iteration_time_s, rel=1e-12)
        assert short.iterations == full.iterations
        assert short.busy_s == pytest.approx(full.busy_s, rel=1e-12)


def test_a_job_far_shorter_than_another_one_is_refused() -> None:
    with pytest.raises(InputError, match="job 1 has ended 10,000 iterations beside one"):
        beside(job(0.0005, 0.0005), job(10.0, 10.0))
