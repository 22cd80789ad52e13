"""Matrices on links: hand-worked transfers, bounds, and bytes that arrive."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netplan import Scenario
from netplan.records import replace
from netplan.simulation.congestion import FabricLinks, book_matrix, share_matrix
from netplan.traffic.flow_paths import PathRouter
from netplan.traffic.matrix import KINDS, TrafficMatrix, UniformGroups, flows_matrix, no_traffic

SCENARIO = Scenario.load("hgx-h100").replace(gpus=32, radix=16)
GRAPH = SCENARIO.fabric("rail-only").graph()
LINKS = FabricLinks(PathRouter(GRAPH, "auto"), np.tile(GRAPH.bytes_per_s, 2), "split")
"""Links of 50 GB/s, one a GPU; rails of GPUs of the same number in their servers of eight."""


def _matrix(source: list[int], destination: list[int], flow_bytes: list[float]) -> TrafficMatrix:
    return flows_matrix(
        32, source=source, destination=destination, flow_bytes=flow_bytes, kind="other"
    )


def test_flows_share_the_link_that_they_end_at() -> None:
    """100 and 50 GB to GPU 16: half of 50 GB/s each for 2 s, then all of it for 1 s."""
    matrix = _matrix([0, 8], [16, 16], [100e9, 50e9])
    shared, booked = share_matrix(LINKS, matrix), book_matrix(LINKS, matrix)
    assert (shared.time_s, booked.time_s) == pytest.approx((3.0, 3.0))
    assert shared.alone_s == pytest.approx(3.0)
    assert (shared.flows, booked.flows) == (2, 2)
    assert shared.carried_bytes == pytest.approx(booked.carried_bytes)


def test_fair_shares_may_take_longer_than_the_busiest_link() -> None:
    """GPU 0 sends 100 GB to 8 and 16, and 24 sends 50 to 16.

    The link of 0 has 200 GB: 4 s. Of fair shares 0 has 25 GB/s to both; 16 takes 25 of 24 too, all
    of which ends after 2 s; then 0 still has 50 GB to each at 25 GB/s: 4 s in all. With 150 GB of
    24 to 16 its link has 250 GB: 5 s; fair shares of 25 GB/s until 4 s, when 0 is done; then 50 GB
    at 50 GB/s: 5 s.
    """
    small = _matrix([0, 0, 24], [8, 16, 16], [100e9, 100e9, 50e9])
    large = _matrix([0, 0, 24], [8, 16, 16], [100e9, 100e9, 150e9])
    for matrix, seconds in ((small, 4.0), (large, 5.0)):
        assert share_matrix(LINKS, matrix).time_s == pytest.approx(seconds)
        assert book_matrix(LINKS, matrix).time_s == pytest.approx(seconds)


@given(st.integers(0, 2**32), st.integers(1, 40))
def test_no_transfer_beats_its_busiest_link(seed: int, count: int) -> None:
    """Bytes on links are the same however these are shared, by classes of like flows or not."""
    rng = np.random.default_rng(seed)
    source, step = rng.integers(32, size=count), rng.integers(1, 32, size=count)
    sizes = rng.choice([1e9, 2e9, 5e9], count)
    matrix = _matrix(source.tolist(), ((source + step) % 32).tolist(), sizes.tolist())
    shared, booked = share_matrix(LINKS, matrix), book_matrix(LINKS, matrix)
    assert shared.time_s >= booked.time_s * (1 - 1e-9)
    assert shared.carried_bytes.sum() == pytest.approx(booked.carried_bytes.sum())
    assert share_matrix(LINKS, matrix, check=True).time_s == shared.time_s


def test_groups_are_sent_as_their_flows() -> None:
    """All of a server to each other: 7 GB each way at 450 GB/s."""
    members = np.arange(8, dtype=np.int32)[None]
    groups = (UniformGroups(members, 1e9, KINDS.index("other")),)
    matrix = replace(no_traffic(32), groups=groups)
    assert matrix.flow_count == 56
    assert share_matrix(LINKS, matrix).time_s == pytest.approx(7 / 450, rel=1e-6)
    assert book_matrix(LINKS, matrix).time_s == pytest.approx(7 / 450, rel=1e-6)


def test_nothing_takes_no_time() -> None:
    assert share_matrix(LINKS, no_traffic(32)).time_s == 0
    assert book_matrix(LINKS, no_traffic(32)).time_s == 0
