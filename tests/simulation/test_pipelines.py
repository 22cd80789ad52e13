"""Schedules against closed forms, extrapolated runs against full ones."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.errors import InputError
from netplan.records import replace
from netplan.simulation.run import simulate_pipelines
from netplan.simulation.schedule import BACKWARD, FORWARD, SEND_FORWARD
from netplan.simulation.tasks import Burst, Message, Pass, Pipeline, delay, joined
from netplan.workloads.program import stage_layers

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


@given(st.lists(st.integers(1, 5), min_size=1, max_size=10), st.integers(1, 40))
@settings(max_examples=100)
def test_uneven_stages_take_no_longer_than_if_all_were_the_fullest(
    layers: list[int], microbatches: int
) -> None:
    """In turns: passes in a fixed order end no later where none takes longer."""
    found = simulate_pipelines([_uneven(layers, microbatches)], links=0, full=True)
    rounds, both = microbatches + len(layers) - 1, FORWARD_S + BACKWARD_S
    assert sum(layers) * both <= found.iteration_time_s <= max(layers) * rounds * both


def test_eager_stages_fall_behind_where_they_are_uneven() -> None:
    """Two of ten stages have four layers, eight three; 64 rounds and the bubble of the closed form.

    Counted by the rules of the published simulator, which takes any backward pass that is ready.
    """
    turns = _uneven([3, 4, 4, *[3] * 7], 64)
    eager = replace(turns, eager=True)
    in_turns_s, eager_s = (
        simulate_pipelines([one], links=0).iteration_time_s for one in (turns, eager)
    )
    closed_s = 3 * (63 * 4 + 32)
    assert 0.97 * closed_s < in_turns_s < closed_s
    assert eager_s == pytest.approx(1.1585 * closed_s, rel=1e-4)


def _uneven(layers: list[int], microbatches: int) -> Pipeline:
    """Stages of so many layers each, with free transfers."""
    free = ((),) * (len(layers) - 1)
    forward, backward = (
        tuple(Pass(delay(each * count)) for count in layers) for each in (FORWARD_S, BACKWARD_S)
    )
    return Pipeline(len(layers), microbatches, forward, backward, free, free)


@pytest.mark.parametrize("chunks", [2, 3, 4])
def test_interleaved_stages_have_a_shorter_bubble(chunks: int) -> None:
    found = simulate_pipelines([chain(4, 16, "interleaved", chunks)], links=0)
    both = FORWARD_S + BACKWARD_S
    assert found.iteration_time_s == pytest.approx(16 * both + 3 * both / chunks + FINISH_S)


@pytest.mark.parametrize("chunks", [2, 3])
@pytest.mark.parametrize("microbatches", [2, 4, 5, 6, 7, 8, 11, 30])
def test_the_first_interleaved_stage_holds_its_limit(microbatches: int, chunks: int) -> None:
    """S + (S - 1)/v microbatches, and more of those that fill no whole group of S = 4."""
    run = chain(4, microbatches, "interleaved", chunks)
    found = simulate_pipelines([run], links=0, full=True, spans=True)
    steps = {FORWARD: 1, BACKWARD: -1}
    passes = [one for one in found.spans if one.stage == 0 and one.kind in steps]
    # A pass is held from its begin forward to its end backward.
    events = sorted((one.end_s if one.kind else one.start_s, steps[one.kind]) for one in passes)
    held = max(np.cumsum([step for _, step in events])) / chunks
    limit = 4 + 3 / chunks + (chunks - 1) / chunks * (microbatches % 4)
    assert held == pytest.approx(min(limit, microbatches), rel=1e-12)


@given(st.integers(1, 9), st.integers(1, 30), st.integers(2, 5), st.sampled_from([1.0, 2.0, 3.5]))
@settings(max_examples=150)
def test_interleaved_stages_take_their_closed_form(
    p: int, m: int, v: int, backward_s: float
) -> None:
    """Also where the microbatches fill no group, or are fewer than the stages."""
    chunk = Pass(delay(1 / v)), Pass(delay(backward_s / v))
    found = simulate_pipelines([_interleaved(p, m, [chunk] * (p * v))], links=0)
    both_s = 1 + backward_s
    assert found.pipelines[0].busy_s == pytest.approx(m * both_s)
    # The last stage waits for its first chunk, or its last chunk for the first microbatch.
    expected_s = max(m + (p - 1) / v, p + (m - 1) / v) * both_s
    assert found.iteration_time_s == pytest.approx(expected_s, rel=1e-12)


@given(st.integers(2, 8), st.integers(1, 20), st.integers(2, 4), st.sampled_from([0.01, 0.1, 0.5]))
@settings(max_examples=60)
def test_closed_form_pays_all_transfers_that_are_waited_for(
    p: int, m: int, v: int, hop_s: float
) -> None:
    """2 m v + 2 (p - 1) of them, and 2 (v - 1) (p - m) where m < p; some hide behind passes."""
    chunk = Pass(delay(1 / v)), Pass(delay(2 / v))
    found = simulate_pipelines([_interleaved(p, m, [chunk] * (p * v), hop_s)], links=0)
    paid = 2 * (m * v + p - 1) + 2 * (v - 1) * max(p - m, 0)
    most_s = 3 * max(m + (p - 1) / v, p + (m - 1) / v) + paid * hop_s
    assert found.iteration_time_s <= most_s * (1 + 1e-12)
    if m == 1:  # all there and back, but for the transfer that nobody sends
        assert found.iteration_time_s == pytest.approx(most_s - 2 * hop_s, rel=1e-12)


def test_virtual_stages_prepare_and_settle_beside_passes() -> None:
    """Two of one GPU, passes of 1 s: forward 0 to 1 and 5 to 6, backward 6 to 7 and 7 to 8.

    The second one prepares for 4 s as soon as the first pass is through, and settles from 7 to 10
    behind the last of its passes; then comes the end, of half a second. The first prepares nothing.
    """
    one = (Pass(delay(1.0)),) * 2
    # Of eight microbatches one follows the other: 4 s of waiting, 31 passes, and as much behind.
    for microbatches, expected_s in ((1, 10.5), (8, 38.5)):
        pipeline = Pipeline(
            1,
            microbatches,
            one,
            one,
            ((),),
            ((),),
            prepare=((), delay(4.0)),
            settle=((), delay(3.0)),
            finish=(delay(FINISH_S),),
            schedule="interleaved",
        )
        found = simulate_pipelines([pipeline], links=0)
        assert found.iteration_time_s == expected_s
        assert found.pipelines[0].busy_s == pytest.approx(4 * microbatches + FINISH_S)
    with pytest.raises(InputError, match="prepares in its begin"):
        replace(pipeline, prepare=(delay(4.0), ()))


@given(st.integers(2, 9), st.integers(1, 24), st.integers(2, 4), st.integers(1, 3), st.data())
@settings(max_examples=100)
def test_uneven_interleaved_stages_take_at_most_one_bubble_less(
    p: int, m: int, v: int, part: int, data: st.DataObject
) -> None:
    """Stages that hold a layer less than the fullest wait a little less than their closed form."""
    n = v * part
    layers = data.draw(st.integers(max(p, p * n - p + 1), p * n))
    held, passes = stage_layers(layers, p), []
    for at in range(p * v):
        stage, number = at % p, at // p
        short = number == (
            0 if stage == 0 else v - 1
        )  # as `netplan.simulation.program_work` has it
        size = part - (n - int(held[stage])) * short
        passes.append((Pass(delay(size)), Pass(delay(2 * size))))
    found_s = simulate_pipelines([_interleaved(p, m, passes)], links=0).iteration_time_s
    most_s = 3 * (m * n + (layers - n) / v + (v - 1) / v * max(layers - m * n, 0))
    bubble_s = most_s - 3 * max(m * n, layers)
    assert most_s - bubble_s - 1e-9 <= found_s <= most_s + 1e-9


def _interleaved(
    stages: int, microbatches: int, passes: Sequence[tuple[Pass, Pass]], hop_s: float = 0.0
) -> Pipeline:
    """A pipeline whose virtual stages have these passes, forward and back."""
    hops = (joined((hop_s,)),) * (len(passes) - 1)
    forward, backward = zip(*passes, strict=True)
    return Pipeline(stages, microbatches, forward, backward, hops, hops, schedule="interleaved")


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


def test_spans_say_what_waits() -> None:
    """Two stages, three microbatches, a transfer of 5 s: the second waits 4 s, the third 8 s."""
    slow = (Burst((Message((0,), 5.0),)),)
    stage = (Pass(delay(1.0)),) * 2
    pipeline = Pipeline(2, 3, stage, (), (slow,), (), schedule="gpipe", trains=False)
    spans = simulate_pipelines([pipeline], links=1, spans=True).spans
    sent = [(one.start_s, one.end_s, one.waited_s) for one in spans if one.kind == SEND_FORWARD]
    assert sent == [(1.0, 6.0, 0.0), (2.0, 11.0, 4.0), (3.0, 16.0, 8.0)]
    passes = [(one.stage, one.start_s, one.waited_s) for one in spans if one.kind == FORWARD]
    assert sorted(passes) == [(0, 0, 0), (0, 1, 0), (0, 2, 0), (1, 6, 0), (1, 11, 0), (1, 16, 0)]


@pytest.mark.parametrize("seed", range(40))
def test_spans_fill_the_time_of_every_stage(seed: int) -> None:
    """No two passes of a stage at once; together they are its busy time; waiting is part of it."""
    pipeline = random_pipeline(seed)
    found = simulate_pipelines([pipeline], links=LINKS, full=True, spans=True)
    for stage, busy_s in enumerate(found.pipelines[0].busy_s):
        mine = [one for one in found.spans if one.stage == stage and one.kind < SEND_FORWARD]
        mine.sort(key=lambda one: one.start_s)
        assert all(a.end_s <= b.start_s for a, b in pairwise(mine))
        assert sum(one.end_s - one.start_s for one in mine) == pytest.approx(busy_s)
        assert all(0 <= one.waited_s <= one.end_s - one.start_s for one in mine)
