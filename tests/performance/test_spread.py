"""One job over several sites: losses by hand, what never falls, ways over others."""

from math import inf

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from netplan.errors import InputError
from netplan.inputs.choices import Layout
from netplan.performance.sites import Exchange, pipeline_s
from netplan.performance.spread import (
    Borders,
    Haul,
    OverSites,
    SpreadRun,
    data_time,
    flat_time,
    largest_below,
    pipeline_times,
)
from netplan.records import replace
from netplan.topologies.sites import Sites, deal_gpus

NIC = 50e9

RUN = SpreadRun(
    time_s=20.0,
    stages=16,
    chunks=1,
    microbatches=128,
    schedule="1f1b",
    forward_s=0.02,
    backward_s=0.04,
    gradient_bytes=8.1e11,
    collectives=2,
    inside_s=0.5,
    hidden_s=0.0,
    pieces=1,
    boundary_bytes=0.0,
    ahead_bytes=1e9,
    room_bytes=4.5e9,
    members=64,
    rings=256,
)


def joined(
    km: float, ratio: float, count: int = 2, layout: Layout = "mesh", gpus: int = 8192
) -> Sites:
    dealt = deal_gpus(count * gpus, count, 8)
    return Sites.laid_out(dealt, layout, km=km, ratio=ratio, gpu_rate=NIC)


@pytest.mark.parametrize(
    ("ratio", "chunks", "hidden_s", "pieces", "exchange_s", "loss"),
    [
        # W = 8,192 x 50 GB/s / 512 = 0.8 TB/s; 8.1e11 / W = 1.0125 s, two ways of 4.897 ms.
        (512, 1, 0.0, 1, 1.0125 + 0.5 + 0.009794, 1.022294 / 20),
        (512, 8, 8.0, 16, 1.0125 + 0.0625 + 0.009794, (1.084794 - 0.5) / 16 / 20),
        # 8.1e11 / 6.4e12 = 0.1265625 s: what is within takes longer.
        (64, 1, 0.0, 1, 0.5 + 0.1265625 + 0.009794, 0.1363565 / 20),
    ],
)
def test_gradients_over_two_sites(
    ratio: float, chunks: int, hidden_s: float, pieces: int, exchange_s: float, loss: float
) -> None:
    run = replace(RUN, hidden_s=hidden_s, pieces=pieces)
    time = data_time(run, joined(1000.0, ratio), Haul(chunks=chunks))
    assert time.exchange_s == pytest.approx(exchange_s, abs=1e-9)
    assert time.loss == pytest.approx(loss, abs=1e-9)


@pytest.mark.parametrize(
    ("layout", "exchange", "wires", "trips"),
    [
        # Four sites with G = 1 and W = 1 send 2 x 3/4 each; in these units a pair of a mesh has
        # 1/3, of a ring and a line 1/2, of a hub 1/3.
        ("mesh", "direct", 1.5, 2),
        ("mesh", "ring", 1.5, 6),
        ("ring", "ring", 1.5, 6),
        # Ring neighbours on a line: 1.5 over 1/2; its ends are three fibres apart.
        ("line", "ring", 3.0, 18),
        # The middle fibre of a line carries 4 ordered pairs of 2/4 each over 1/2.
        ("line", "direct", 4.0, 6),
        # A fibre of a hub: of the hub and of two others to one, 3 x 2/4 over 1/3.
        ("hub", "direct", 4.5, 4),
    ],
)
def test_layouts_by_hand(layout: Layout, exchange: Exchange, wires: float, trips: int) -> None:
    sites = joined(1000.0, 512.0, 4, layout)
    rate = sites.egress_bytes_per_s[0]
    run = replace(RUN, gradient_bytes=rate, inside_s=0.0)
    time = data_time(run, sites, Haul(exchange=exchange, chunks=1))
    assert time.exchange_s == pytest.approx(wires + trips * 4.897e-3)


def test_no_distance_and_no_transfer_is_one_site_to_the_last_bit() -> None:
    sites = joined(0.0, 0.1)
    (time,) = pipeline_times(RUN, Borders.of(RUN, (8, 8), [sites], Haul()), 0)
    assert time.time_s == RUN.time_s
    run = replace(RUN, gradient_bytes=0.0)
    assert data_time(run, sites, Haul()).time_s == RUN.time_s


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["mesh", "ring", "line", "hub"]),
    st.integers(2, 5),
    st.sampled_from(["direct", "ring"]),
    st.lists(st.floats(0.0, 30_000.0), min_size=2, max_size=2),
    st.lists(st.floats(0.1, 2000.0), min_size=2, max_size=2),
)
def test_losses_never_fall_with_length_or_ratio(
    layout: Layout, count: int, exchange: Exchange, lengths: list[float], ratios: list[float]
) -> None:
    haul = Haul(exchange=exchange, in_flight_bytes=1e8)
    run = replace(RUN, boundary_bytes=1e9, hidden_s=0.04, pieces=8, ahead_bytes=0.0)
    cases = [
        joined(km, ratio, count, layout, 64) for ratio in sorted(ratios) for km in sorted(lengths)
    ]
    dealt = (16 - 3 * (count - 1), *[3] * (count - 1))
    data = [data_time(run, case, haul).time_s for case in cases]
    borders = Borders.of(run, dealt, cases, haul)
    pipelines = [time.time_s for time in pipeline_times(run, borders, 0)]
    for times in (data, pipelines):
        assert times[0] <= times[1] + 1e-9
        assert times[0] <= times[2] + 1e-9
        assert times[1] <= times[3] + 1e-9


def test_many_sites_send_all_gradients_twice() -> None:
    sites = joined(0.0, 512.0, 16)
    run = replace(RUN, inside_s=0.0)
    wire_s = data_time(run, sites, Haul(chunks=1)).exchange_s
    assert wire_s == pytest.approx(2 * 15 / 16 * 8.1e11 / 8e11)


@pytest.mark.parametrize(("ahead", "km"), [(0, 718.071), (1, 7045.130), (2, 13270.139)])
def test_where_a_pipeline_loses_five_percent(ahead: int, km: float) -> None:
    """16 stages, 128 microbatches of 20 and 40 ms, the border in the middle."""
    run = replace(RUN, time_s=pipeline_s(16, 128, 0.02, 0.04, [], 0.0))

    def losses(lengths: np.ndarray) -> np.ndarray:
        cases = [joined(float(length), 1.0) for length in lengths]
        times = pipeline_times(run, Borders.of(run, (8, 8), cases, Haul()), ahead)
        return np.array([time.loss for time in times])

    assert largest_below(losses, 0.05, (0.0, 40_000.0)) == pytest.approx(km, abs=0.1)


def test_auto_holds_the_least_that_hides_or_what_fits() -> None:
    # 2 D / c = 2 x 0.1 / 0.06: four microbatches hide it, and four of 1 GB fit into 4.5 GB.
    km = 0.1 / 4.897e-6
    borders = Borders.of(RUN, (8, 8), [joined(km, 1.0)], Haul())
    (time,) = pipeline_times(RUN, borders, None)
    assert (time.ahead, time.bottleneck) == (4, "delay")
    assert time.exposed_s == pytest.approx(2 * 0.1, rel=1e-6)  # hidden but for the way and back
    tight = replace(RUN, room_bytes=2.5e9)
    (short,) = pipeline_times(tight, borders, None)
    assert (short.ahead, short.bottleneck) == (2, "memory")
    assert short.time_s > time.time_s
    with pytest.raises(InputError, match="leave room for 2"):
        pipeline_times(tight, borders, 3)
    with pytest.raises(InputError, match="take 1f1b"):
        pipeline_times(replace(RUN, schedule="interleaved", chunks=2), borders, 1)


def test_schedules_that_hold_none_ahead_are_not_short_of_memory() -> None:
    for schedule in ("gpipe", "interleaved"):
        run = replace(RUN, schedule=schedule, stages=2, chunks=1 + (schedule != "gpipe"))
        borders = Borders.of(run, (1, 1), [joined(3000.0, 1.0)], Haul())
        (time,) = pipeline_times(run, borders, None)
        assert (time.ahead, time.bottleneck) == (0, "delay")


def test_a_wire_carries_one_microbatch_at_a_time() -> None:
    # 0.1 s a microbatch over the border where passes take 0.06 s: 129 of them, 127 passes hidden.
    rate = joined(0.0, 512.0).egress_bytes_per_s[0]
    run = replace(RUN, boundary_bytes=0.1 * rate, room_bytes=inf)
    borders = Borders.of(run, (8, 8), [joined(0.0, 512.0)], Haul())
    (time,) = pipeline_times(run, borders, None)
    assert time.exposed_s == pytest.approx(129 * 0.1 - 127 * 0.06)
    assert time.bottleneck == "wire"


def test_interleaved_stages_cross_every_border_for_each_chunk() -> None:
    """With one microbatch nothing hides: a pipeline of v chunks crosses 2 (2 v - 1) times."""
    run = replace(RUN, stages=2, chunks=3, microbatches=1, schedule="interleaved")
    borders = Borders.of(run, (1, 1), [joined(1000.0, 1.0)], Haul())
    (time,) = pipeline_times(run, borders, 0)
    assert time.exposed_s == pytest.approx(10 * 4.897e-3)


def test_interleaved_stages_send_all_their_bytes_over_the_fibre() -> None:
    """v chunks forward, and v - 1 from the last site to the first: 2 v - 1 transfers each way."""
    run = replace(RUN, stages=8, chunks=4, schedule="interleaved", boundary_bytes=0.1 * 8192 * NIC)
    sites = joined(0.0, 1.0)
    (time,) = pipeline_times(run, Borders.of(run, (4, 4), [sites], Haul()), 0)
    assert time.exposed_s == pytest.approx(7 * 128 * 0.1 - 127 * 0.06)
    over = OverSites(sites=sites, haul=Haul(), run=run, dealt=(4, 4), time=time)
    assert max(crossing.utilisation for crossing in over.crossings) <= 1


def test_bytes_in_flight_limit_the_rate() -> None:
    """8,192 queue pairs of 1 MB over a round trip of 9.794 ms: 836.4 GB/s of 409.6 TB/s."""
    haul = Haul(in_flight_bytes=1e6)
    sites = haul.limited(joined(1000.0, 1.0))
    assert sites.egress_bytes_per_s[0] == pytest.approx(8192 * 1e6 / 9.794e-3)
    twice = replace(haul, in_flight_bytes=2e6).limited(joined(1000.0, 1.0))
    assert twice.egress_bytes_per_s[0] == pytest.approx(2 * sites.egress_bytes_per_s[0])
    assert haul.limited(joined(0.0, 1.0)).egress_bytes_per_s[0] == 8192 * NIC


def test_collectives_that_know_no_sites_send_over_border_gpus_alone() -> None:
    run = replace(RUN, rings=4)
    flat = flat_time(run, joined(0.0, 1.0), Haul(), NIC)
    # Four rings of 64 members: 2 x 63/64 G over 4 cards.
    assert flat.exchange_s == pytest.approx(2 * 63 / 64 * 8.1e11 / (4 * NIC))
    far = flat_time(run, joined(1000.0, 1.0), Haul(), NIC)
    way_s, hop_s = 4.897e-3, flat.exchange_s / 126
    assert far.exchange_s - flat.exchange_s == pytest.approx(4 * way_s)
    assert ring_s(64, {31, 63}, hop_s, way_s) == pytest.approx(far.exchange_s, rel=1e-9)


def ring_s(members: int, borders: set[int], hop_s: float, way_s: float) -> float:
    """A ring all-reduce chunk by chunk: 2 (D - 1) steps, each when its chunk has come."""
    come_s, sent_s = [0.0] * members, [0.0] * members
    for _ in range(2 * (members - 1)):
        sent_s = [max(pair) + hop_s for pair in zip(come_s, sent_s, strict=True)]
        come_s = [sent_s[i - 1] + way_s * ((i - 1) % members in borders) for i in range(members)]
    return max(come_s)


def test_sites_that_exchange_seldom_pay_seldom() -> None:
    sites = joined(1000.0, 512.0)
    every = data_time(RUN, sites, Haul()).loss
    assert data_time(RUN, sites, Haul(sync_every=100)).loss == pytest.approx(every / 100)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(2, 6),
    st.integers(100, 400),
    st.integers(0, 4),
    st.lists(st.floats(0.0, 0.5), min_size=1, max_size=3),
    st.floats(0.01, 0.05),
)
@example(3, 100, 0, [0.5, 0.5], 0.03125)  # two borders wait for each other only late: 68 s, not 56
def test_long_runs_take_what_every_pass_says(
    stages: int, microbatches: int, ahead: int, delays: list[float], forward_s: float
) -> None:
    run = replace(
        *(RUN,), stages=stages, microbatches=microbatches, forward_s=forward_s, ahead_bytes=0.0
    )
    cuts = tuple(range(min(stages - 1, len(delays))))
    way_s = np.array([*delays[: len(cuts)], 0.0])[:, None]
    borders = Borders(cuts, way_s, np.zeros_like(way_s), np.zeros(1))
    (time,) = pipeline_times(run, borders, ahead)
    passes = stages, microbatches, forward_s, 0.04
    exact_s = pipeline_s(*passes, cuts, delays[: len(cuts)], ahead) - pipeline_s(*passes, [], 0.0)
    assert time.exposed_s == pytest.approx(exact_s, rel=1e-8, abs=1e-9)


def test_a_target_that_nothing_meets_has_no_value() -> None:
    assert np.isnan(largest_below(lambda km: 1 + 0 * km, 0.05, (0.0, 10.0)))
    assert largest_below(lambda km: 0 * km, 0.05, (0.0, 10.0)) == 10.0
