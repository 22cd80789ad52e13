"""Times of groups on levels: the published branches, link loads on rings, by hand on meshes."""

from itertools import permutations
from math import prod
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netplan.levels import Level, LevelKind
from netplan.traffic.hierarchy import CollectiveNetwork, Communication, group_of
from netplan.traffic.placement import DATA, PIPELINE, TENSOR, Placements
from netplan.workloads.operations import CollectiveKind

RING = Communication("flat_ring")
PHASED = Communication("hierarchical")
KINDS: tuple[CollectiveKind, ...] = (
    "all_gather",
    "reduce_scatter",
    "all_reduce",
    "broadcast",
    "reduce",
)


def placed(*levels: tuple[int, int, int]) -> Placements:
    """One placement from (tensor, data, pipeline) degrees at each level."""
    rows = [[tensor, 1, 1, data, pipeline] for tensor, data, pipeline in levels]
    return Placements(np.array(rows)[:, :, None])


def seconds(
    network: CollectiveNetwork,
    kind: CollectiveKind,
    placements: Placements,
    dimension: int,
    data: float,
) -> float:
    time = network.collective(kind, group_of(placements, dimension))
    return float(time.seconds(data)[0])


def published_s(kind: str, g: int, v: int, data: float, fast: Level, slow: Level) -> float:
    """The three branches of arXiv:2410.00273, Sec. III, as its text has them."""
    if g == 1:
        return 0.0
    if kind == "all_reduce":
        return 2 * published_s("reduce_scatter", g, v, data, fast, slow)
    c = 1.0 if kind in ("broadcast", "reduce") else (g - 1) / g
    if v == 1:
        return slow.step_s * (g - 1) + c * data / slow.link_bytes_per_s
    if g == v:
        return fast.step_s * (g - 1) + c * data / fast.link_bytes_per_s
    nodes = g // v
    slowest = max(c * data / (v * slow.link_bytes_per_s), c * data / fast.link_bytes_per_s)
    return slowest + slow.step_s * (nodes - 1) + fast.step_s * (g - nodes)


@given(
    inside=st.integers(1, 16),
    outside=st.integers(1, 16),
    kind=st.sampled_from(KINDS),
    ratio=st.floats(0.1, 50),
)
def test_ring_on_two_switches_is_the_published_formula(
    inside: int, outside: int, kind: CollectiveKind, ratio: float
) -> None:
    fast = Level("switch", inside, ratio * 50e9, step_latency_s=2.5e-6)
    slow = Level("switch", outside, 50e9, step_latency_s=5e-6)
    network = CollectiveNetwork((fast, slow), RING)
    got = seconds(network, kind, placed((inside, 1, 1), (outside, 1, 1)), TENSOR, 1e9)
    assert got == pytest.approx(published_s(kind, inside * outside, inside, 1e9, fast, slow))


@pytest.mark.parametrize("inside", [1, 4, 8])
def test_published_code_doubles_only_all_reduces_on_both_tiers(inside: int) -> None:
    levels = (Level("switch", 8, 100.0, 0, 1.0), Level("switch", 8, 10.0, 0, 10.0))
    where = placed((inside, 8 // inside, 1), (8 // inside, inside, 1))
    # 80 bytes over 8 GPUs: 70/10 + 7*10; 2*max(70/(4*10), 70/100) + 10 + 6; 70/100 + 7.
    published = {1: 77.0, 4: 19.5, 8: 7.7}[inside]
    # Twice the reduce_scatter: 77; 17.75; 7.7.
    corrected = {1: 154.0, 4: 35.5, 8: 15.4}[inside]
    slips = CollectiveNetwork(levels, RING, "published-code")
    assert seconds(slips, "all_reduce", where, TENSOR, 80.0) == pytest.approx(published)
    got = seconds(CollectiveNetwork(levels, RING), "all_reduce", where, TENSOR, 80.0)
    assert got == pytest.approx(corrected)


class RingLoads:
    """Bytes on every directed link of a ring of ``size`` positions; messages go link by link."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.clockwise = np.zeros(size)  # link from i to i + 1
        self.back = np.zeros(size)  # link from i + 1 to i

    def send(self, source: int, target: int, amount: float, *, clockwise: bool) -> None:
        loads, step = (self.clockwise, 1) if clockwise else (self.back, -1)
        while source != target:
            loads[source if clockwise else (source - 1) % self.size] += amount
            source = (source + step) % self.size

    def send_shortest(self, source: int, target: int, amount: float) -> None:
        forth, back = (target - source) % self.size, (source - target) % self.size
        if forth == back and self.size > 2:  # both ways are shortest; two GPUs share one link
            self.send(source, target, amount / 2, clockwise=True)
            self.send(source, target, amount / 2, clockwise=False)
        else:
            self.send(
                source, target, amount, clockwise=target > source if forth == back else forth < back
            )

    @property
    def busiest(self) -> float:
        return float(max(self.clockwise.max(), self.back.max()))


def groups_on_ring(size: int, members: int, stride: int) -> list[list[int]]:
    """All groups: stretches of members x stride positions, ``stride`` groups in each."""
    return [
        [stretch + first + stride * number for number in range(members)]
        for stretch in range(0, size, members * stride)
        for first in range(stride)
    ]


def all_gather_load(size: int, members: int, stride: int) -> float:
    """Every member passes all blocks but one on: half each way if the group closes the ring."""
    loads = RingLoads(size)
    amount = (members - 1) / members
    closed = members * stride == size > 2
    for group in groups_on_ring(size, members, stride):
        for source, target in zip(group, [*group[1:], group[0]], strict=True):
            if closed:
                loads.send(source, target, amount / 2, clockwise=True)
                loads.send(target, source, amount / 2, clockwise=False)
            else:  # the last member reaches the first back through the others' links
                loads.send(source, target, amount, clockwise=target > source)
    return loads.busiest


def all_to_all_load(size: int, members: int, stride: int) -> float:
    """Every pair exchanges one part in ``members``, on the shortest way."""
    loads = RingLoads(size)
    for group in groups_on_ring(size, members, stride):
        for source, target in permutations(group, 2):
            loads.send_shortest(source, target, 1 / members)
    return loads.busiest


RINGS = [
    (size, members, stride)
    for size in (2, 3, 4, 6, 8, 12)
    for members in range(2, size + 1)
    for stride in range(1, size + 1)
    if size % (members * stride) == 0
]


@pytest.mark.parametrize(("size", "members", "stride"), RINGS)
@pytest.mark.parametrize("kind", ["all_gather", "all_to_all"])
@pytest.mark.parametrize("part", [RING, PHASED], ids=["ring", "phased"])
def test_ring_time_is_the_load_of_the_busiest_link(
    size: int, members: int, stride: int, kind: CollectiveKind, part: Communication
) -> None:
    network = CollectiveNetwork((Level("ring", size, 1.0),), part)
    where = placed((stride, members, size // (stride * members)))
    load = (all_to_all_load if kind == "all_to_all" else all_gather_load)(size, members, stride)
    assert seconds(network, kind, where, DATA, 1.0) == pytest.approx(load)


def test_mesh_uses_all_links_to_the_members() -> None:
    # 4 of 8 GPUs: 3 links each; all_gather of 1 B moves 3/4 B into each, 1/4 B a link.
    network = CollectiveNetwork((Level("mesh", 8, 2.0, step_latency_s=3.0),), PHASED)
    where = placed((2, 4, 1))
    assert seconds(network, "all_gather", where, DATA, 1.0) == pytest.approx(1 / 8 + 3.0)
    # A pair exchanges 1/4 B.
    assert seconds(network, "all_to_all", where, DATA, 1.0) == pytest.approx(1 / 8 + 3.0)


def test_three_levels_share_the_work_of_the_inner_ones() -> None:
    sizes, rates, steps = (4, 2, 3), (100.0, 10.0, 1.0), (1.0, 2.0, 4.0)
    levels = tuple(
        Level("switch", *one) for one in zip(sizes, rates, (0.0,) * 3, steps, strict=True)
    )
    where = placed((4, 1, 1), (2, 1, 1), (3, 1, 1))
    # g = 24, c = 23/24, D = 240: 230/100, 230/(4*10), 230/(8*1); the last is the slowest.
    # Steps: 24 - 6 = 18 of 1 s, 6 - 3 = 3 of 2 s, 3 - 1 = 2 of 4 s.
    got = seconds(CollectiveNetwork(levels, RING), "all_gather", where, TENSOR, 240.0)
    assert got == pytest.approx(28.75 + 18 + 6 + 8)
    # Phases: 3/4*240/100, 1/2*240/(4*10), 2/3*240/8; one step each.
    got = seconds(CollectiveNetwork(levels, PHASED), "all_gather", where, TENSOR, 240.0)
    assert got == pytest.approx(1.8 + 3 + 20 + 7)


@pytest.mark.parametrize(
    ("mode", "total"),
    # p = 2 x 4: 4 hops of 1 + 80/100 s, 3 of 10 + 80/10 s; published: the slow ones are free.
    [("corrected", 4 * 1.8 + 3 * 18), ("published-code", 4 * 1.8)],
)
def test_pipeline_hops(mode: str, total: float) -> None:
    levels = (Level("switch", 8, 100.0, 0, 1.0), Level("switch", 4, 10.0, 0, 10.0))
    network = CollectiveNetwork(levels, RING, mode)  # type: ignore[arg-type]
    hops, slowest = network.hops(placed((4, 1, 2), (1, 1, 4)))
    assert float(hops.seconds(80.0)[0]) == pytest.approx(total)
    assert float(slowest.seconds(80.0)[0]) == pytest.approx(18.0)


def test_pipelines_between_each_other_share_the_links_of_a_ring() -> None:
    network = CollectiveNetwork((Level("ring", 8, 10.0, step_latency_s=1.0),), PHASED)
    hops, slowest = network.hops(placed((2, 1, 4)))
    assert float(slowest.seconds(10.0)[0]) == pytest.approx(2 * 10 / 10 + 1)
    assert float(hops.seconds(10.0)[0]) == pytest.approx(3 * 3)


def test_efficiency_stretches_bandwidth_and_not_latency() -> None:
    part = Communication("flat_ring", 0.5)
    network = CollectiveNetwork((Level("switch", 4, 10.0, 0, 1.0),), part)
    assert seconds(network, "all_gather", placed((4, 1, 1)), TENSOR, 40.0) == pytest.approx(9.0)


@given(
    data=st.data(),
    part=st.sampled_from([RING, PHASED]),
    kind=st.sampled_from((*KINDS, "all_to_all")),
)
def test_levels_of_one_member_change_nothing(
    data: st.DataObject, part: Communication, kind: CollectiveKind
) -> None:
    kinds = st.sampled_from(get_args(LevelKind))
    degrees = data.draw(
        st.lists(
            st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3)),
            min_size=1,
            max_size=3,
        )
    )
    levels = [Level(data.draw(kinds), prod(one), 10.0, 0, 1.0) for one in degrees]
    where = data.draw(st.integers(0, len(levels)))
    more = [*levels[:where], Level(data.draw(kinds), 1, 3.0, 0, 7.0), *levels[where:]]
    wider = [*degrees[:where], (1, 1, 1), *degrees[where:]]
    for dimension in (TENSOR, DATA, PIPELINE):
        plain = seconds(
            CollectiveNetwork(tuple(levels), part), kind, placed(*degrees), dimension, 100.0
        )
        got = seconds(CollectiveNetwork(tuple(more), part), kind, placed(*wider), dimension, 100.0)
        assert got == pytest.approx(plain)
