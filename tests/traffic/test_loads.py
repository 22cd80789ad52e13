"""What is asked of loads: hottest and idle links, groups, the time of the busiest link."""

import numpy as np
import pytest

from netplan.errors import InputError
from netplan.records import replace
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.graph import FabricGraph
from netplan.topologies.specs import FABRICS
from netplan.traffic.loads import LinkLoads
from netplan.traffic.matrix import flows_matrix, no_traffic
from netplan.traffic.placement import Degrees, Placement
from netplan.traffic.routing import link_loads
from netplan.traffic.training import training_traffic
from netplan.workloads.models import MODELS
from netplan.workloads.operations import Sharding
from netplan.workloads.program import TrainingMethod, training_program


@pytest.fixture(scope="module")
def graph() -> FabricGraph:
    """32 GPUs, HB domains of 4, leaves of 4 ports down: two for each rail of 8 GPUs."""
    spec = FABRICS.load("rail-optimized")
    return expand(spec, Sizing(32, 8, 4, hb_bytes_per_s=400e9, network_bytes_per_s=50e9))


def test_a_single_flow_by_hand(graph: FabricGraph) -> None:
    """8 leaves with 4 GPUs and 4 uplinks each: a flow from rail 0 to rail 1 of 100 GB.

    Host links 100 GB / 50 GB/s = 2 s; each of 4 uplinks carries 25 GB: 0.5 s.
    """
    matrix = flows_matrix(32, source=[0], destination=[5], flow_bytes=[100e9])
    loads = link_loads(graph, matrix)
    assert loads.busiest_s == pytest.approx(2.0)
    groups = {group.group: group for group in loads.by_group()}
    assert groups["hb"].unused == groups["hb"].directions == 64
    assert groups["host"].directions - groups["host"].unused == 2
    spine = groups["leaf-spine"]
    assert spine.largest_bytes == pytest.approx(25e9)
    assert spine.busiest_s == pytest.approx(0.5)
    # 200 GB on 2 x 32 links that could carry 100 GB each in the 2 s.
    assert spine.utilisation == pytest.approx(200 / 6400)
    first, second, third, *_ = loads.hottest(4)
    assert (first.sender, first.group) == ("gpu-0", "host")
    assert (second.receiver, second.group) == ("gpu-5", "host")
    assert third.group == "leaf-spine"
    assert [first.time_s, third.load_bytes] == pytest.approx([2.0, 25e9])
    # Two host links and eight of the spine carry something; no idle link is called hot.
    assert len(loads.hottest(1000)) == 10
    assert len(loads.unused_links) == graph.link_count - 10


def test_hottest_links_are_the_longest_times_in_order(graph: FabricGraph) -> None:
    rng = np.random.default_rng(0)
    loads = LinkLoads(graph, rng.integers(0, 5, (2, graph.link_count)).astype(float))
    times = np.sort((loads.link_bytes / graph.bytes_per_s).ravel())[::-1]
    for count in (1, 7, 60):
        found = loads.hottest(count)
        assert [hot.time_s for hot in found] == pytest.approx(times[:count])
    assert loads.hottest(0) == ()


def test_no_traffic_takes_no_time(graph: FabricGraph) -> None:
    loads = link_loads(graph, no_traffic(32))
    assert loads.busiest_s == 0
    assert loads.hottest() == ()
    assert len(loads.unused_links) == graph.link_count
    assert all(group.utilisation == 0 for group in loads.by_group())


def test_a_link_without_capacity_may_stay_idle_but_not_be_used(graph: FabricGraph) -> None:
    dead = replace(graph, bytes_per_s=np.where(np.arange(graph.link_count) == 3, 0.0, 50e9))
    quiet = flows_matrix(32, source=[0], destination=[1], flow_bytes=[1.0])
    assert link_loads(dead, quiet).busiest_s > 0
    noisy = flows_matrix(32, source=[3], destination=[2], flow_bytes=[1.0])
    with pytest.raises(InputError, match="link 3 from gpu-3 to domain-0/nvswitch-0 carries"):
        link_loads(dead, noisy)


def test_training_uses_rails_and_leaves_the_spine_idle() -> None:
    """The claim of arXiv:2307.12169, section 3, on 512 GPUs: all else is on rails.

    The same loads then need no spine: rail-only takes the same time.
    """
    model = MODELS.load("gpt-1t")
    placement = Placement((Degrees(tensor=8), Degrees(data=4, pipeline=16)))
    ptdp = TrainingMethod(counting="counted", zero_stage=0)
    program = training_program(model, Sharding.of(1, tensor=8), ptdp)
    matrix = training_traffic(program, placement, gpus=512, microbatches=512 // 4)
    sizing = Sizing(512, 128, 8, hb_bytes_per_s=450e9, network_bytes_per_s=50e9)
    times = {}
    for name in ("rail-optimized", "rail-only"):
        loads = link_loads(expand(FABRICS.load(name), sizing), matrix)
        times[name] = loads.busiest_s
        for group in loads.by_group():
            assert (group.total_bytes == 0) == (group.group == "leaf-spine")
    assert times["rail-only"] == times["rail-optimized"]
    # The tensor ring fills the HB links: 7/8 x 8 x 8 x 128 x 104.86 MB a GPU at 450 GB/s.
    ring_bytes = 8 * (128 / 16) * (512 / 4) * 2 * 2048 * 25_600 * 7 / 8
    assert times["rail-only"] == pytest.approx(ring_bytes / 450e9)
