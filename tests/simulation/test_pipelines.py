"""Schedules against closed forms, extrapolated runs against full ones."""

import numpy as np
import pytest

from netplan.simulation.run import simulate_pipelines
from netplan.simulation.work import Burst, Message, Pass, Pipeline, delay

from .random_pipelines import LINKS, random_pipeline

FORWARD_S, BACKWARD_S, FINISH_S = 1.0, 2.0, 0.5


def chain(stages: int, microbatches: int, schedule: str = "1f1b", chunks: int = 1) -> Pipeline:
    """Equal stages with free transfers."""
    virtual = stages * chunks
    return Pipeline(
        stages,
        microbatches,
        (Pass(delay(FORWARD_S / chunks)),) * virtual,
        (Pass(delay(BACKWARD_S / chunks)),) * virtual,
        ((),) * (virtual - 1),
        ((),) * (virtual - 1),
        finish=(delay(FINISH_S),) * stages,
        schedule=schedule,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
@pytest.mark.parametrize(("stages", "microbatches"), [(1, 1), (1, 7), (4, 2), (4, 4), (8, 96)])
def test_equal_stages_take_equation_1(schedule: str, stages: int, microbatches: int) -> None:
    found = simulate_pipelines([chain(stages, microbatches, schedule)], links=0)
    both = FORWARD_S + BACKWARD_S
    assert found.iteration_time_s == (microbatches - 1 + stages) * both + FINISH_S


@pytest.mark.parametrize("chunks", [2, 3, 4])
def test_interleaved_stages_have_a_shorter_bubble(chunks: int) -> None:
    found = simulate_pipelines([chain(4, 16, "interleaved", chunks)], links=0)
    both = FORWARD_S + BACKWARD_S
    assert found.iteration_time_s == pytest.approx(16 * both + 3 * both / chunks + FINISH_S)


@pytest.mark.parametrize("seed", range(150))
def test_extrapolated_runs_equal_full_ones(seed: int) -> None:
    pipeline = random_pipeline(seed)
    short, full = (simulate_pipelines([pipeline], links=LINKS, full=full) for full in (False, True))
    assert full.pipelines[0].simulated == pipeline.microbatches
    assert short.iteration_time_s == pytest.approx(full.iteration_time_s, rel=1e-12)
    assert short.tally.bookings == full.tally.bookings
    waited = [sum(one.tally.waited_s.values()) for one in (short, full)]
    assert waited[0] == pytest.approx(waited[1], rel=1e-9)
    np.testing.assert_allclose(short.pipelines[0].busy_s, full.pipelines[0].busy_s, rtol=1e-9)


def test_most_random_runs_are_extrapolated() -> None:
    found = [simulate_pipelines([random_pipeline(seed)], links=LINKS) for seed in range(60)]
    assert sum(one.period is not None for one in found) > 20


def test_a_long_run_is_not_simulated_as_a_whole() -> None:
    found = simulate_pipelines([chain(8, 100_000)], links=0)
    assert found.iteration_time_s == (100_000 + 7) * 3.0 + FINISH_S
    assert found.pipelines[0].simulated < 50


def test_microbatches_meet_on_a_slow_link() -> None:
    """Two stages, a transfer that takes longer than both passes: it sets the pace."""
    slow = (Burst((Message((0,), 5.0),)),)
    pipeline = Pipeline(2, 40, (Pass(delay(1.0)),) * 2, (Pass(delay(1.0)),) * 2, (slow,), ((),))
    found = simulate_pipelines([pipeline], links=1)
    # All but the first wait for the one before, on a link that is never idle.
    assert found.iteration_time_s == pytest.approx(1 + 40 * 5 + 1 + 1 + 1)


def test_inference_ends_with_the_last_forward_pass() -> None:
    stage = (Pass(delay(2.0)),) * 3
    pipeline = Pipeline(3, 10, stage, (), ((),) * 2, (), trains=False)
    assert simulate_pipelines([pipeline], links=0).iteration_time_s == (10 + 2) * 2.0
