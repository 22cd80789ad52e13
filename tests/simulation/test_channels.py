"""Memory behind channels: which one a core uses, what its traffic does to links, and what waits."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.errors import InputError
from netplan.performance.compute import memory_traffic_s
from netplan.records import replace
from netplan.simulation.links import FlowRouter, Transport, channels_of
from netplan.simulation.program_work import plan_work
from netplan.simulation.simulate import Conditions, simulate_training
from netplan.simulation.tasks import FlowMessage, Flows, parts_of_pipeline
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.families.tiles import mesh_of
from netplan.topologies.graph import FabricGraph
from netplan.topologies.specs import FABRICS, FabricSpec
from netplan.workloads.program import stage_layers
from tests.cli.command import netplan
from tests.simulation.placed import Case, placed, simulated
from tests.topologies.families.test_tiles import asked, wafers

WAFER = FABRICS.load("palm-wafer")
ON_WAFER: Case = {
    "fabric": "palm-wafer",
    "accelerator": "palm-wafer-core",
    "gpus": 64,
    "model": "bert-large",
    "batch": 64,
}
ALONE = Conditions(contention=False)


def wafer_case(**degrees: int) -> Case:
    """BERT on four tiles of 16 cores."""
    return ON_WAFER | {"fixed": {"data": 1, "microbatch": 1, "interleave": 1} | degrees}


@settings(deadline=None, max_examples=60)
@given(st.one_of(st.just((WAFER, 320)), wafers()))
def test_cores_use_the_channels_of_the_published_mode(wafer: tuple[FabricSpec, int]) -> None:
    """The nearest of their tile, as `test_tiles` has it, read off the graph alone."""
    spec, gpus = wafer
    if gpus < 8:
        return
    found, mesh = channels_of(expand(spec, asked(gpus))), mesh_of(spec, gpus)
    assert (found is not None) == bool(mesh.channels)
    for gpu in range(gpus if found else 0):
        assert found is not None
        assert mesh.channel_of(gpu) == (found.link[gpu] - found.link.min(), found.core[gpu])


def test_a_core_without_a_channel_is_told() -> None:
    graph = expand(WAFER, asked(32))
    # Only the links of the first tile, and no borders.
    kept = (graph.source < 16) & ((graph.target < 16) | (graph.target >= 32))
    arrays = ("source", "target", "source_port", "target_port", "bytes_per_s", "length_class")
    cut = replace(graph, **{name: getattr(graph, name)[kept] for name in (*arrays, "group")})
    assert channels_of(graph) is not None
    assert channels_of(cut) is None


def of_memory(graph: FabricGraph, case: Case, stage: int) -> dict[int, float]:
    """Time of every link for one byte of every core of a stage, by code."""
    run, _ = placed(**case)
    transport = Transport(graph, run.placement, run.placement.gpu_of_rank, efficiency=0.5)
    times = FlowRouter(transport).times(Flows(stage, stage, memory=True))
    assert times.delayed_s_per_byte == 0
    return dict(zip(times.links.tolist(), times.seconds_per_byte.tolist(), strict=True))


def test_bytes_take_the_way_to_the_channel_and_the_channel() -> None:
    case = wafer_case(tensor=8, pipeline=8)
    run, graph = placed(**case)
    mesh, channels = mesh_of(WAFER, 64), channels_of(graph)
    assert channels is not None
    ends = list(zip(graph.source.tolist(), graph.target.tolist(), strict=True))
    codes = {pair: link for link, pair in enumerate(ends)}
    codes |= {pair[::-1]: graph.link_count + link for link, pair in enumerate(ends)}
    chains = run.placement.gpu_of_rank[run.placement.groups("pipeline", snake=True)]
    for stage in range(8):
        expected: dict[int, float] = {}
        for gpu in chains[:, stage].tolist():
            way = [codes[step] for step in pairwise(mesh.path(gpu, int(channels.core[gpu])))]
            for code in (*way, int(channels.link[gpu])):
                rate = graph.bytes_per_s[code % graph.link_count]
                # All of the rate: the efficiency of messages is none of memory traffic.
                expected[code] = expected.get(code, 0.0) + 1 / rate
        found = of_memory(graph, case, stage)
        assert found == pytest.approx(expected, rel=1e-11)
        assert max(found.values()) <= (1 + 1e-11) / 64e9, "as the file of the core has it"


MOVING = (
    wafer_case(tensor=16, data=4, pipeline=1),
    wafer_case(tensor=16, pipeline=4),
    wafer_case(tensor=4, pipeline=16),
    wafer_case(tensor=4, context=4, pipeline=4) | {"strategy": "summa"},
    wafer_case(tensor=4, context=4, data=4, pipeline=1) | {"strategy": "summa"},
)


@pytest.mark.parametrize("case", MOVING)
def test_channels_carry_what_operations_move(case: Case) -> None:
    """Bytes of all operations, layers and microbatches over the rate of all channels."""
    run, graph = placed(**case)
    plan, setting = run.timed.plan, run.setting
    found = simulate_training(setting, run.timed, run.fabric, graph)
    program = setting.program(plan.sharding)
    moved_s = 0.0
    for one in program.layer.operations:
        for work in (one.forward, *((one.forward,) if one.recomputed else ()), one.backward):
            moved_s += float(np.sum(memory_traffic_s(one, work, setting)))
    layers = stage_layers(program.repetition.layers, plan.pipeline).sum()
    cores = plan.gpus / plan.pipeline
    total_bytes = 64e9 * moved_s * layers * plan.microbatches * cores
    (group,) = [one for one in found.groups if one.group == "memory"]
    # Of the two directions of each of 16 channels one counts.
    busy_s = group.utilisation * found.iteration_time_s * group.directions
    assert group.directions == 32
    assert busy_s == pytest.approx(total_bytes / 256e9)
    assert any("Memory lies behind channels" in note for note in found.notes)
    # Nothing is faster than alone, and alone it is what the search says of a single stage.
    alone = simulate_training(setting, run.timed, run.fabric, graph, ALONE)
    assert found.iteration_time_s >= alone.iteration_time_s * (1 - 1e-9)
    if plan.pipeline == 1:
        parts = run.timed.breakdown_s
        expected = run.timed.iteration_time_s - parts["pipeline_comm"]
        assert alone.iteration_time_s == pytest.approx(expected, rel=1e-9)


def test_stages_that_share_a_channel_wait_for_it() -> None:
    """Four stages a tile, one in each row: rows 0 and 1, and 2 and 3, use the same two channels."""
    shared = simulated(**wafer_case(tensor=4, pipeline=16))
    whole = simulated(**wafer_case(tensor=16, pipeline=4))
    waited = {one.group: one.waited_s for one in shared.groups}
    assert waited["memory"] > 0
    assert waited["memory"] > 10 * sum(s for name, s in waited.items() if name != "memory")
    assert {one.group: one.waited_s for one in whole.groups}["memory"] == 0
    alone = simulated(ALONE, **wafer_case(tensor=4, pipeline=16))
    assert shared.iteration_time_s > 1.001 * alone.iteration_time_s
    assert sum(one.waited_s for one in shared.groups) == pytest.approx(shared.waiting_s)


def test_slow_channels_cost_time_where_memory_does() -> None:
    case = wafer_case(tensor=16, pipeline=4)
    run, graph = placed(**case)
    shares = np.ones(graph.link_count)
    times = []
    for share in (1.0, 0.5, 0.1):
        shares[graph.links_of("memory")] = share
        conditions = Conditions(rates=shares.copy())
        found = simulate_training(run.setting, run.timed, run.fabric, graph, conditions)
        times.append(found.iteration_time_s)
    assert times == sorted(times)
    # At a tenth of the rate little but memory is left: 16 cores on four channels.
    moved_s = sum(
        float(np.sum(memory_traffic_s(one, work, run.setting)))
        for one in run.setting.program(run.timed.plan.sharding).layer.operations
        for work in (one.forward, one.backward, *((one.forward,) if one.recomputed else ()))
    )
    runs = run.timed.plan.microbatches + 3
    assert times[-1] >= 0.99 * 10 * moved_s * 6 * runs


def test_other_fabrics_have_no_messages_of_memory() -> None:
    cases: list[Case] = [{}, {"fabric": "torus-3d", "fixed": {"pipeline": 2}}]
    for case in cases:
        run, _ = placed(**case)
        work = plan_work(run.setting, run.timed, run.fabric.levels)
        assert not any(flows.memory for flows in work.uses)
        assert not any("channels" in note for note in simulated(**case).notes)


def test_memory_beside_panels_is_of_no_thread_alone() -> None:
    """Panels of SUMMA and memory traffic are under way at once: neither waits for its turn."""
    case = wafer_case(tensor=4, context=4, pipeline=4) | {"strategy": "summa"}
    run, _ = placed(**case)
    work = plan_work(run.setting, run.timed, run.fabric.levels, channels=True)
    uses = {flows: use for flows, use in work.uses.items() if flows.memory}
    assert {flows.stage for flows in uses} == set(range(4))
    assert all(use.threads == {0, 1} for use in uses.values())
    numbers = {use.number for use in uses.values()}
    (pipeline,) = work.pipelines
    sent = [part for part, _ in parts_of_pipeline(pipeline) if isinstance(part, FlowMessage)]
    assert numbers <= {one.flows for one in sent}


def test_all_replicas_are_one_that_stands_for_all() -> None:
    case = wafer_case(tensor=2, data=4, pipeline=8)
    one, each = simulated(**case), simulated(Conditions(each_replica=True), **case)
    assert one.iteration_time_s == pytest.approx(each.iteration_time_s, rel=0.02)
    assert (one.replicas_simulated, each.replicas_simulated) == (1, 4)


WORDS = (
    *(
        "simulate",
        "rail-only-paper",
        "--fabric",
        "palm-wafer",
        "--accelerator",
        "palm-wafer-core",
        "--gpus",
        "64",
    ),
    *("--model", "bert-large", "--fix", "tensor=16", "--fix", "pipeline=4"),
)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--fail", "row-0/tile-1/memory-2"), "only memory of 4 GPUs in use"),
        (("--fail", "memory=1"), "to which no route leads round: leave it out, or give --slow"),
        (("--fail", "gpu-3"), "1 GPU in use, gpu-3 first"),
    ],
)
def test_failures_without_a_way_round_are_refused(more: tuple[str, ...], message: str) -> None:
    done = netplan(*WORDS, *more)
    assert done.returncode == 2
    assert message in done.stderr


@pytest.mark.parametrize(
    "more",
    [
        ("--fail", "ring 1 tile=3", "--fail", "ring 2 border=1"),
        ("--slow", "memory=0.5", "--schedule", "gpipe"),
        ("--placement", "line", "--groups", "strided"),
        ("--placement", "snake"),
        ("--inference",),
    ],
)
def test_conditions_of_a_wafer(more: tuple[str, ...]) -> None:
    done = netplan(*WORDS, *more)
    assert done.returncode == 0, done.stderr
    assert "memory" in done.stdout


def test_memory_needs_channels() -> None:
    run, _ = placed(**wafer_case(tensor=16, pipeline=4))
    bare = expand(FABRICS.load("torus-2d"), Sizing(64, 64, 1, 1e9, 1e9))
    router = FlowRouter(Transport(bare, run.placement, run.placement.gpu_of_rank))
    with pytest.raises(InputError, match="has no memory channel for every core"):
        router.times(Flows(0, 0, memory=True))
