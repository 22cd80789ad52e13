"""Orders of passes: bubbles of published schedules, and a plain event loop that says the same."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.errors import InputError
from netplan.inputs.choices import ScheduleName
from netplan.performance.fixed_orders import BACKWARD, FORWARD, PassOrder, order_times_s, pass_order
from netplan.simulation.run import simulate_pipelines
from netplan.simulation.tasks import Pass, Pipeline, SimulatedSchedule, delay


def none(stages: int) -> np.ndarray:
    return np.zeros(stages, np.int64)


def plainly_s(order: PassOrder, times: list[list[float]], between: list[float]) -> float:
    """The same by walking round the stages until all of their passes are done."""
    done: dict[tuple[int, int, int], float] = {}
    stages, passes = order.kinds.shape
    virtual = len(times[0])
    place, clock = [0] * stages, [0.0] * stages
    while sum(place) < stages * passes:
        before = sum(place)
        for stage in range(stages):
            while place[stage] < passes:
                row = stage, place[stage]
                kind, at = int(order.kinds[row]), int(order.virtual[row])
                index = int(order.index[row])
                wire = 0.0
                if kind == FORWARD:
                    ready = 0.0 if at == 0 else done.get((FORWARD, at - 1, index))
                    wire = 0.0 if at == 0 else between[at - 1]
                elif kind == BACKWARD and at < virtual - 1:
                    ready, wire = done.get((BACKWARD, at + 1, index)), between[at]
                else:
                    ready = done.get((kind - 1, at, index))
                if ready is None:
                    break
                clock[stage] = max(clock[stage], ready + wire) + times[kind][at]
                done[kind, at, index] = clock[stage]
                place[stage] += 1
        assert sum(place) > before
    return max(clock)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["1f1b", "gpipe", "interleaved", "zb-1p", "zb-2p"]),
    st.integers(1, 6),
    st.integers(1, 12),
    st.integers(1, 3),
    st.integers(0, 3),
    st.randoms(use_true_random=False),
)
def test_a_walk_round_the_stages_takes_as_long(
    schedule: ScheduleName, stages: int, microbatches: int, chunks: int, ahead: int, random: object
) -> None:
    chunks = chunks if schedule == "interleaved" else 1
    held = none(stages) if schedule == "interleaved" else np.full(stages, ahead)
    if schedule not in ("gpipe", "interleaved"):
        held[-1] = 0
    draw = random.uniform  # type: ignore[attr-defined]
    virtual = stages * chunks
    times = [[draw(0.5, 2.0) for _ in range(virtual)] for _ in range(3)]
    between = [draw(0.0, 3.0) for _ in range(virtual - 1)]
    order = pass_order(schedule, stages, microbatches, chunks=chunks, ahead=held)
    seconds = order_times_s(
        order,
        np.array(times[0]),
        np.array(times[1]),
        np.array(between).reshape(-1, 1),
        np.array(times[2]),
    )
    assert seconds[0] == pytest.approx(plainly_s(order, times, between), rel=1e-12)


@pytest.mark.parametrize(("stages", "microbatches"), [(4, 8), (8, 16), (3, 9)])
def test_bubbles_are_those_of_the_papers(stages: int, microbatches: int) -> None:
    """Beside 3 m of work, passes of 1, 1 and 1: (S - 1)(F + B), its v-th part, (S - 1)(F + B - W).

    Times end with the last stage, so that of ZB-H2, which has no bubble, is (S - 1) F later.
    """
    apart, more = np.zeros((stages - 1, 1)), stages - 1
    one = np.ones(stages)
    seconds = {
        name: order_times_s(
            pass_order(name, stages, microbatches, ahead=none(stages)),
            one,
            one if name.startswith("zb") else 2 * one,
            apart,
            one,
        )[0]
        - 3 * microbatches
        for name in ("1f1b", "gpipe", "zb-1p", "zb-2p")
    }
    assert seconds == {"1f1b": 3 * more, "gpipe": 3 * more, "zb-1p": more, "zb-2p": more}
    for chunks in (2, 3):
        order = pass_order("interleaved", stages, microbatches, chunks=chunks, ahead=none(stages))
        half = np.full(stages * chunks, 1 / chunks)
        time_s = order_times_s(order, half, 2 * half, np.zeros((stages * chunks - 1, 1)))[0]
        assert time_s - 3 * microbatches == pytest.approx(3 * more / chunks)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(["1f1b", "gpipe", "interleaved"]),
    st.integers(2, 5),
    st.integers(1, 10),
    st.floats(0.0, 2.0),
)
def test_the_simulated_schedule_with_delays_takes_as_long(
    schedule: SimulatedSchedule, stages: int, microbatches: int, apart_s: float
) -> None:
    """What `netplan simulate` runs event by event, with a delay for each transfer."""
    chunks = 2 if schedule == "interleaved" else 1
    virtual = stages * chunks
    passes = (Pass(delay(0.25)),) * virtual, (Pass(delay(0.5)),) * virtual
    send = ((apart_s,),) * (virtual - 1)
    pipeline = Pipeline(stages, microbatches, *passes, send, send, schedule=schedule)
    simulated = simulate_pipelines([pipeline], links=0, full=True)
    order = pass_order(schedule, stages, microbatches, chunks=chunks, ahead=none(stages))
    seconds = order_times_s(
        order, np.full(virtual, 0.25), np.full(virtual, 0.5), np.full((virtual - 1, 1), apart_s)
    )
    assert seconds[0] == pytest.approx(simulated.pipelines[0].iteration_time_s, rel=1e-6)


def test_orders_that_do_not_exist_are_refused() -> None:
    with pytest.raises(InputError, match="unknown: use one of"):
        pass_order("dualpipe", 2, 4, ahead=none(2))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="hold no microbatches ahead"):
        pass_order("interleaved", 2, 4, chunks=2, ahead=none(2) + 1)


def test_stages_that_wait_for_each_other_are_refused() -> None:
    """The second stage wants its backward pass before the forward pass that it follows."""
    order = PassOrder(
        np.array([[FORWARD, BACKWARD], [BACKWARD, FORWARD]]),
        np.array([[0, 0], [1, 1]]),
        np.zeros((2, 2), np.int64),
        1,
    )
    with pytest.raises(InputError, match="wait for each other forever"):
        order_times_s(order, np.ones(2), np.ones(2), np.zeros((1, 1)))
