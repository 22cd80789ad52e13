"""Several sites: pipelines with delays, and gradients between sites."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.errors import InputError
from netplan.performance.sites import (
    ahead_of_stages,
    exchange_s,
    exposed_s,
    one_way_s,
    pipeline_s,
    pipeline_times_s,
)


def longest_path_s(
    windows: list[int],
    microbatches: int,
    passes_s: tuple[list[float], list[float]],
    delay_s: list[float],
) -> float:
    """The same by following every pass back to what it waits for."""
    forward_s, backward_s = passes_s
    stages = len(windows)
    before: dict[tuple[str, int, int], tuple[str, int, int] | None] = {}
    for stage, window in enumerate(windows):
        order = [("F", stage, k) for k in range(window)]
        for k in range(microbatches):
            order += [("B", stage, k)]
            order += [("F", stage, window + k)] if window + k < microbatches else []
        before |= dict(zip(order, [None, *order], strict=False))
    ends: dict[tuple[str, int, int], float] = {}

    def end_of(step: tuple[str, int, int]) -> float:
        stack = [step]
        while stack:
            kind, stage, k = stack[-1]
            needs = [(before[stack[-1]], 0.0)]
            if kind == "F" and stage:
                needs += [(("F", stage - 1, k), delay_s[stage - 1])]
            if kind == "B":
                last = stage == stages - 1
                needs += [(("F", stage, k), 0.0) if last else (("B", stage + 1, k), delay_s[stage])]
            missing = [need for need, _ in needs if need is not None and need not in ends]
            if missing:
                stack += missing
                continue
            start_s = max(0.0 if need is None else ends[need] + wire for need, wire in needs)
            takes_s = forward_s[stage] if kind == "F" else backward_s[stage]
            ends[stack.pop()] = start_s + takes_s
        return ends[step]

    return max(end_of(step) for step in before)


@st.composite
def pipelines(
    draw: st.DrawFn,
) -> tuple[int, int, tuple[list[float], list[float]], list[int], list[float], int]:
    stages = draw(st.integers(1, 8))
    passes = st.lists(st.floats(0.0, 2.0), min_size=stages, max_size=stages)
    borders = sorted(draw(st.sets(st.integers(0, stages - 2), max_size=3))) if stages > 1 else []
    delays = draw(st.lists(st.floats(0.0, 5.0), min_size=len(borders), max_size=len(borders)))
    times = draw(passes), draw(passes)
    return stages, draw(st.integers(1, 14)), times, borders, delays, draw(st.integers(0, 4))


@given(pipelines())
@settings(max_examples=200, deadline=None)
def test_a_pipeline_takes_its_longest_path(
    case: tuple[int, int, tuple[list[float], list[float]], list[int], list[float], int],
) -> None:
    stages, microbatches, times, borders, delays, ahead = case
    more = ahead_of_stages(stages, borders, ahead).tolist()
    windows = [min(microbatches, stages - i + more[i]) for i in range(stages)]
    delay_s = [0.0] * (stages - 1)
    for border, delay in zip(borders, delays, strict=True):
        delay_s[border] = delay
    plain = longest_path_s(windows, microbatches, times, delay_s)
    assert pipeline_s(stages, microbatches, *times, borders, delays, ahead) == pytest.approx(
        plain, rel=1e-12, abs=1e-12
    )


@pytest.mark.parametrize(
    ("pipeline", "borders", "km", "transfer_ms", "ahead", "iteration_ms"),
    [
        # Longest paths through all passes, followed one by one in another program (2026-11-29).
        ((4, 32, 35, 70), [1, 2], 300, 0.5, 1, 3682.8764),
        ((4, 8, 10, 20), [1], 1000, 8.0, 0, 433.176),
        ((16, 64, 20, 40), [6, 8], 100, 8.0, 1, 5189.382),
        ((8, 8, 20, 40), [0, 6], 3000, 0.0, 4, 958.764),
        ((8, 64, 10, 20), [3, 6], 300, 8.0, 2, 2687.0842),
        ((16, 16, 20, 40), [6], 300, 0.5, 0, 1875.7528),
    ],
)  # fmt: skip
def test_pipelines_over_borders(
    pipeline: tuple[int, int, float, float],
    borders: list[int],
    km: float,
    transfer_ms: float,
    ahead: int,
    iteration_ms: float,
) -> None:
    stages, microbatches, forward_ms, backward_ms = pipeline
    delay_s = float(one_way_s(km)) + transfer_ms / 1e3
    passes_s = forward_ms / 1e3, backward_ms / 1e3
    time_s = pipeline_s(stages, microbatches, *passes_s, borders, delay_s, ahead)
    assert 1e3 * time_s == pytest.approx(iteration_ms, rel=1e-7)


@pytest.mark.parametrize("ahead", [0, 1, 2, 5])
@pytest.mark.parametrize("delay_s", [0.0, 0.4, 1.3, 4.0])
def test_a_long_run_has_the_period_of_its_border(delay_s: float, ahead: int) -> None:
    """max(c, (2 c + 2 D) / (2 + ahead)) a microbatch, with c = 1 + 2; 252 is of whole periods."""
    longer, shorter = (pipeline_s(6, m, 1.0, 2.0, [2], delay_s, ahead) for m in (442, 190))
    period = max(3.0, (2 * 3.0 + 2 * delay_s) / (2 + ahead))
    assert (longer - shorter) / 252 == pytest.approx(period, rel=1e-6)


def test_without_distance_it_is_1f1b_and_with_all_in_flight_the_way_there_and_back() -> None:
    assert pipeline_s(8, 32, 0.5, 1.0, [3], 0.0) == pytest.approx((32 + 7) * 1.5, rel=1e-12)
    assert pipeline_s(8, 32, 0.5, 1.0, [3], 0.0, 9) == pytest.approx((32 + 7) * 1.5, rel=1e-12)
    assert pipeline_s(8, 32, 0.5, 1.0, [3], 2.0, 32) == pytest.approx(39 * 1.5 + 4.0, rel=1e-12)
    assert pipeline_s(1, 5, 0.5, 1.0, [], 3.0) == pytest.approx(7.5)


@given(st.lists(st.floats(0.0, 3.0), min_size=2, max_size=6))
@settings(max_examples=60, deadline=None)
def test_no_pipeline_is_faster_over_more_distance(delays: list[float]) -> None:
    between_s = np.zeros((5, len(delays)))
    between_s[2] = sorted(delays)
    times = pipeline_times_s(12, np.full(6, 0.3), np.full(6, 0.6), between_s, np.zeros(6, np.int64))
    assert all(far >= near - 1e-12 for near, far in pairwise(times.tolist()))


@pytest.mark.parametrize(
    ("pipeline", "border", "ahead", "km"),
    [
        ((16, 128, 0.02, 0.04), 7, 0, 718.071),
        ((16, 128, 0.02, 0.04), 7, 1, 7045.130),
        ((16, 128, 0.02, 0.04), 7, 2, 13270.139),
        ((8, 64, 0.01, 0.02), 3, 0, 350.774),
        ((8, 64, 0.01, 0.02), 3, 1, 3435.048),
        ((8, 16, 0.01, 0.02), 3, 0, 503.224),
    ],
)
def test_where_a_pipeline_loses_5_percent(
    pipeline: tuple[int, int, float, float], border: int, ahead: int, km: float
) -> None:
    """The border in the middle: by bisection in km in another program (2026-11-29).

    Plain 1F1B of 143 x 60 ms waits 122 times for D: 5 % at 0.05 x 143 x 60 / 122 = 3.516 ms.
    """
    alone_s = pipeline_s(*pipeline, [border], 0.0, ahead)

    def loss(length_km: float) -> float:
        return pipeline_s(*pipeline, [border], float(one_way_s(length_km)), ahead) / alone_s - 1

    assert loss(km - 0.1) < 0.05 < loss(km + 0.1)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ((0, 4, 1.0, 1.0, [], 0.0), "at least 1 stage"),
        ((4, 0, 1.0, 1.0, [], 0.0), "at least 1 microbatch"),
        ((4, 4, 1.0, 1.0, [3], 0.0), "behind stage 3"),
        ((4, 4, 1.0, 1.0, [-1], 0.0), "behind stage -1"),
        ((4, 4, 1.0, 1.0, [1, 1], 0.0), "twice"),
        ((4, 4, -1.0, 1.0, [1], 0.0), "0 s or more"),
        ((4, 4, 1.0, 1.0, [1], float("inf")), "0 s or more"),
        ((4, 4, [1.0, 2.0], 1.0, [1], 0.0), "forward passes are 4"),
        ((4, 4, 1.0, 1.0, [1], 0.0, -1), "-1 microbatches more"),
    ],
)
def test_what_is_no_pipeline_is_refused(arguments: tuple[object, ...], word: str) -> None:
    with pytest.raises(InputError, match=word):
        pipeline_s(*arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sites", "egress", "km", "pattern", "chunks", "inside_s", "exchange"),
    [
        # 405e9 parameters in 2 B over 2 sites: wire 8.1e11 / 8e11 = 1.0125 s, and 0.5 s inside
        # behind it whole, and 2 x 4.897 ms; in 8 chunks 0.0625 s of the inside show.
        (2, 8e11, 1000.0, "direct", 1, 0.5, 1.0125 + 0.5 + 2 * 4.897e-3),
        (2, 8e11, 1000.0, "direct", 8, 0.5, 1.0125 + 0.5 / 8 + 2 * 4.897e-3),
        # 4 sites in a ring: wire 1.5 x 8.1e11 / 2.048e12 s, and 6 trips of 14.691 ms.
        (4, 2.048e12, 3000.0, "ring", 4, 0.5, 1.215e12 / 2.048e12 + 0.5 / 4 + 6 * 14.691e-3),
        (1, 8e11, 1000.0, "direct", 1, 0.5, 0.5),
    ],
)  # fmt: skip
def test_gradients_between_sites(  # noqa: PLR0913, PLR0917
    sites: int,
    egress: float,
    km: float,
    pattern: str,
    chunks: int,
    inside_s: float,
    exchange: float,
) -> None:
    time_s = exchange_s(
        8.1e11,
        sites=sites,
        egress_bytes_per_s=egress,
        delay_s=one_way_s(km),
        inside_s=inside_s,
        exchange=pattern,  # type: ignore[arg-type]
        chunks=chunks,
    )
    assert float(time_s) == pytest.approx(exchange, rel=1e-12)


def test_many_sites_send_all_gradients_twice() -> None:
    many = exchange_s(1e12, sites=10**6, egress_bytes_per_s=1e12, delay_s=0.0)
    assert float(many) == pytest.approx(2.0, rel=1e-5)


def test_a_transfer_shows_what_its_pieces_cannot_hide() -> None:
    """1.0848 s beside 8 s of work in 16 pieces: the last piece alone; beside none, all of it."""
    assert float(exposed_s(1.0848, 8.0, 16)) == pytest.approx(0.0678)
    assert float(exposed_s(1.0848, 0.0, 1)) == pytest.approx(1.0848)
    assert float(exposed_s(9.0, 8.0, 16)) == pytest.approx(9.0 - 7.5)


def test_light_takes_its_time() -> None:
    """10 km and back 98 us, 700 miles and back 11.03 ms; 5 us of equipment each way."""
    assert 2e6 * float(one_way_s(10.0)) == pytest.approx(98, abs=0.1)
    assert 2e3 * float(one_way_s(1126.5)) == pytest.approx(11.03, abs=0.005)
    assert float(one_way_s(0.0, 5e-6)) == 5e-6


@pytest.mark.parametrize("km", [-1.0, 40_001.0, float("nan")])
def test_what_joins_no_sites_is_refused(km: float) -> None:
    with pytest.raises(InputError, match="joins no sites"):
        one_way_s(km)
    with pytest.raises(InputError, match="1 site and 1 chunk"):
        exchange_s(1.0, sites=0, egress_bytes_per_s=1.0, delay_s=0.0)
    with pytest.raises(InputError, match="more than 0"):
        exchange_s(1.0, sites=2, egress_bytes_per_s=0.0, delay_s=0.0)
    with pytest.raises(InputError, match="at least 1 piece"):
        exposed_s(1.0, 1.0, 0)
