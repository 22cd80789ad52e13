"""Simulated iterations against the closed forms of the search, and against themselves."""

from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from netplan.errors import InputError
from netplan.inputs.choices import Recompute
from netplan.questions.loads import Loads
from netplan.records import replace
from netplan.setup.runs import place_training
from netplan.simulation.linked_work import Reduced
from netplan.simulation.links import LinkTimes
from netplan.simulation.outcome import SimulationOutcome
from netplan.simulation.program_work import plan_work
from netplan.simulation.run import simulate_pipelines
from netplan.simulation.schedule import FORWARD, SEND_FORWARD
from netplan.simulation.simulate import Conditions, simulate_training
from netplan.simulation.tasks import Part, alone_s, branch_alone_s, mapped_pipeline
from netplan.topologies.expand import expand
from netplan.traffic.matrix import KINDS, TrafficMatrix, combine
from netplan.traffic.patterns import both_ways
from netplan.traffic.routing import link_loads
from tests.turns import one_in

from .placed import Case, placed, simulated

ALONE = Conditions(contention=False)
GRAPH = "examples/gpt-layer.yaml"
"""Kernels of one's own, whose time their mapping to the chip says."""

BRANCHED: Case = {
    "model": "dlrm-1.2t",
    "batch": None,
    "accelerator": "a100-comet",
    "overrides": ("iteration-model.compute.operations=tiled",),
}
"""Tables and layers of a recommendation model beside each other."""

ONE_STAGE: list[Case] = [
    {"fixed": {"pipeline": 1}},
    {"fixed": {"pipeline": 1}, "zero_stage": 0},
    {"fixed": {"pipeline": 1, "tensor": 4, "microbatch": 1}, "zero_stage": 2},
    {"fixed": {"pipeline": 1, "tensor": 4, "microbatch": 1}, "zero_stage": 3},
    {"fixed": {"pipeline": 1}, "recompute": "full"},
    {
        "fixed": {"pipeline": 1, "tensor": 4, "microbatch": 1},
        "zero_stage": 1,
        "recompute": "block:9",
        "accelerator": "h100-80gb",
        "iteration_model": "measured",
    },
    {"fixed": {"pipeline": 1}, "embedding": True, "lm_head": True},
    {"fixed": {"pipeline": 1, "context": 4}, "strategy": "2d"},
    {"fixed": {"pipeline": 1, "tensor": 4, "context": 2}, "strategy": "summa"},
    {"fixed": {"pipeline": 1, "expert": 8}, "experts": 8, "top_k": 2},
    {"fixed": {"pipeline": 1, "tensor": 2, "expert": 4}, "model": "deepseek-v3"},
    {"fixed": {"pipeline": 1, "tensor": 2}, "model": "gpt-oss-20b"},
    {"fixed": {"pipeline": 1, "tensor": 8}, "iteration_model": "ptd-p"},
    {"fixed": {"pipeline": 1, "tensor": 8}, "iteration_model": "ptd-p", "zero_stage": 3},
    {"model": "dlrm-793b", "batch": None},
    BRANCHED,
    {"model": "fft-1t", "batch": None, "gpus": 256, "radix": 64},
    {"model": "hpl-5m", "batch": None, "gpus": 1024, "radix": 64},
    {"model": "examples/mixer.yaml", "fixed": {"pipeline": 1, "data": 4}},
    {"model": GRAPH, "fixed": {"pipeline": 1, "tensor": 16}},
    {"model": GRAPH, "fixed": {"pipeline": 1, "tensor": 8}, "accelerator": "sn10"},
]
STAGES: list[Case] = [
    {"fixed": {"pipeline": 4}},
    {"fixed": {"pipeline": 4}, "zero_stage": 0},
    {"fixed": {"pipeline": 16}},
    {"fixed": {"pipeline": 4, "tensor": 4, "context": 2}, "strategy": "summa"},
    {"fixed": {"pipeline": 2, "expert": 4}, "experts": 8, "top_k": 2},
    {"model": GRAPH, "fixed": {"pipeline": 4, "tensor": 4}, "accelerator": "sn10"},
]
OTHERS: list[Case] = [
    {"fixed": {"pipeline": 3}},
    {"fixed": {"pipeline": 7}, "gpus": 72},
    {"fixed": {"pipeline": 4, "data": 3}, "batch": 100},
    {"fixed": {"pipeline": 4, "tensor": 2}, "zero_stage": 3},
    {"fixed": {"pipeline": 4}, "iteration_model": "ptd-p"},
    {"fixed": {"pipeline": 8, "interleave": 2}, "interleave": "any", "iteration_model": "ptd-p"},
    {"fixed": {"pipeline": 4, "interleave": 5}, "interleave": "any"},
]
FABRICS = ("fat-tree", "rail-only", "torus-2d", "torus-3d", "dragonfly", "nvl72", "bcube", "dgx-1")


def name_of(case: Case) -> str:
    """A case in short."""
    return ",".join(f"{name}={value}" for name, value in case.items())


@pytest.mark.parametrize("batch", [10**5, 10**7, 10**9])
def test_very_many_microbatches_are_as_exact_as_few(batch: int) -> None:
    fixed = {"pipeline": 1, "tensor": 2, "microbatch": 1}
    found = simulated(model="bert-base", batch=batch // 32 * 32, fixed=fixed)
    assert found.iteration_time_s == pytest.approx(found.analytic_time_s, rel=1e-9)
    assert found.lower_bound_s <= found.iteration_time_s


@pytest.mark.parametrize("case", ONE_STAGE, ids=name_of)
def test_one_stage_takes_what_the_search_says(case: Case) -> None:
    run, _ = placed(**case)
    found = simulated(ALONE, **case)
    parts = run.timed.breakdown_s
    # Eq. 6 charges a transfer where there is none.
    expected = run.timed.iteration_time_s - parts["pipeline_comm"]
    assert found.iteration_time_s == pytest.approx(expected, rel=1e-9)
    (stage,) = found.stages
    assert stage.waiting_s == stage.idle_s == 0
    if run.setting.assumptions.overlap.data == "exposed":
        assert stage.compute_s == pytest.approx(parts["compute"] + parts["memory"], rel=1e-9)
        assert stage.communication_s == pytest.approx(
            parts["tensor_comm"] + parts["data_comm"], rel=1e-9
        )


@pytest.mark.parametrize("zero_stage", [1, 2])
def test_parts_of_a_single_stage_take_no_longer_than_all_of_it(zero_stage: int) -> None:
    fixed = {"pipeline": 1, "tensor": 2, "data": 2, "microbatch": 1, "interleave": 4}
    found = simulated(ALONE, fixed=fixed, interleave="any", batch=4, zero_stage=zero_stage)
    assert found.iteration_time_s == pytest.approx(found.analytic_time_s, rel=1e-9)
    whole = fixed | {"interleave": 1}
    assert found.stages == simulated(ALONE, fixed=whole, batch=4, zero_stage=zero_stage).stages


@pytest.mark.parametrize("case", STAGES, ids=name_of)
def test_equal_stages_with_free_transfers_take_what_the_search_says(case: Case) -> None:
    """Equation 1, and what is exposed of the data parallel collectives."""
    run, _ = placed(**case)
    plan, parts = run.timed.plan, run.timed.breakdown_s
    (pipeline,) = plan_work(run.setting, run.timed, run.fabric.levels).pipelines
    free = ((),) * (plan.pipeline - 1)
    linked = mapped_pipeline(pipeline, _without_links)
    found = simulate_pipelines([replace(linked, send_forward=free, send_backward=free)], links=0)
    # 2 m v h of the steady state, and 2 (p - 1) h of the bubble, with the mean h.
    runs = plan.microbatches * plan.interleave
    hops = parts["pipeline_comm"] * (1 + (plan.pipeline - 1) / runs)
    expected = run.timed.iteration_time_s - hops
    assert found.iteration_time_s == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("zero_stage", [0, 1, 3])
@pytest.mark.parametrize("name", ["bert-base", "bert-large"])
def test_inference_is_a_line_of_forward_passes(name: str, zero_stage: int) -> None:
    case: Case = {"model": name, "batch": 512, "zero_stage": zero_stage}
    case |= {"fixed": {"tensor": 1, "data": 4, "pipeline": 4, "microbatch": 2}}
    run, _ = placed(**case)
    found = simulated(Conditions(trains=False, spans=True), **case)
    (pipeline,) = plan_work(run.setting, run.timed, run.fabric.levels, trains=False).pipelines
    # Four equal stages, 64 microbatches of 2 sequences a replica; replicas share nothing.
    forward_s = alone_s(pipeline.forward[0].middle)
    hops_s = sum(map(branch_alone_s, pipeline.send_forward))
    expected_s = (64 + 4 - 1) * forward_s + hops_s
    assert found.iteration_time_s == pytest.approx(expected_s, rel=1e-9)
    assert found.sequences_per_s == pytest.approx(512 / expected_s, rel=1e-9)
    assert {span.kind for span in found.spans} == {FORWARD, SEND_FORWARD}
    assert (found.analytic_time_s, found.waiting_s) == (None, 0)
    assert f"{2 * 4 / forward_s:,.4g} sequences/s, filling and draining left out" in found.notes[-1]
    trained = simulated(**case)
    assert found.iteration_time_s < trained.iteration_time_s / 2
    check(found)


@pytest.mark.parametrize("case", [*ONE_STAGE[:4], *STAGES, *OTHERS], ids=name_of)
def test_inference_never_takes_longer_than_training(case: Case) -> None:
    found = simulated(Conditions(trains=False), **case)
    check(found)
    assert found.iteration_time_s < simulated(**case).iteration_time_s


def _without_links(part: Part) -> float:
    """A delay or a message, as long as it takes alone."""
    return part if isinstance(part, float) else part.alone_s


PLANS = st.fixed_dictionaries(
    {
        "fabric": st.sampled_from(FABRICS[:4]),
        "model": st.sampled_from(["gpt-22b", "gpt-146b", "llama-3-8b"]),
        "batch": st.sampled_from([32, 64, 128]),
        "zero_stage": st.sampled_from([0, 1]),
        "recompute": st.sampled_from(["none", "selective", "full"]),
        "iteration_model": st.sampled_from(["4d", "ptd-p"]),
        "fixed": st.fixed_dictionaries(
            {
                "pipeline": st.sampled_from([1, 2, 4, 8]),
                "tensor": st.sampled_from([1, 2, 4]),
                "microbatch": st.sampled_from([1, 2]),
                "interleave": st.just(1),
            }
        ),
    }
)


@pytest.mark.parametrize("recompute", ["selective", "full"])
def test_what_spills_takes_as_long_as_in_the_search(recompute: Recompute) -> None:
    """One stage, nothing shared: weights and activations from the host, and the update."""
    fixed = {"tensor": 4, "data": 16, "pipeline": 1, "microbatch": 1}
    tiers = {"bytes": "480e9", "bytes_per_s": "20e9", "latency_s": "1e-5"}
    overrides = {f"accelerator.expanded_{name}": value for name, value in tiers.items()}
    overrides["accelerator.memory_bytes"] = "10e9"
    case = Loads.make(
        "rail-only-paper",
        gpus=64,
        hb_size=4,
        fabric="fat-tree",
        accelerator="h100-80gb",
        model="gpt-22b",
        batch=64,
        recompute=recompute,
        fixed=fixed,
        overrides=overrides,
    )
    run = place_training(case, case.algorithm)
    assert run.timed.breakdown_s["update"] > 0
    graph = expand(run.spec, run.fabric.sizing)
    found = simulate_training(
        run.setting, run.timed, run.fabric, graph, Conditions(contention=False)
    )
    assert found.iteration_time_s == pytest.approx(run.timed.iteration_time_s, rel=1e-9)


@given(PLANS)
@settings(max_examples=24)
def test_any_plan_of_equal_stages_takes_what_the_search_says(case: Case) -> None:
    """But for transfers, and for what the bubble of PTD-P leaves out (Eq. 3)."""
    run, _ = placed(**case)
    plan, parts = run.timed.plan, run.timed.breakdown_s
    assume(run.setting.transformer.layers % plan.pipeline == 0)
    (pipeline,) = plan_work(run.setting, run.timed, run.fabric.levels).pipelines
    free = ((),) * (plan.pipeline - 1)
    linked = mapped_pipeline(pipeline, _without_links)
    found = simulate_pipelines([replace(linked, send_forward=free, send_backward=free)], links=0)
    passes = sum(parts[name] for name in ("compute", "memory", "tensor_comm"))
    rounds = (plan.microbatches + plan.pipeline - 1) / plan.microbatches
    expected = rounds * passes + parts["data_comm"]
    assert found.iteration_time_s == pytest.approx(expected, rel=1e-9)


INTERLEAVED = st.fixed_dictionaries(
    {
        "model": st.sampled_from(["gpt-22b", "gpt-146b", "llama-3-8b"]),
        "batch": st.integers(1, 24),
        "zero_stage": st.sampled_from([0, 1]),
        "recompute": st.sampled_from(["none", "full"]),
        "iteration_model": st.just("4d"),
        "interleave": st.just("any"),
        "fixed": st.fixed_dictionaries(
            {
                "pipeline": st.sampled_from([2, 4, 8]),
                "interleave": st.sampled_from([1, 2, 4]),
                "tensor": st.sampled_from([1, 4]),
                "microbatch": st.just(1),
                "data": st.sampled_from([1, 2, 8]),
            }
        ),
    }
)


@given(INTERLEAVED)
@settings(max_examples=20)
def test_interleaved_stages_take_what_the_search_says_for_any_microbatches(case: Case) -> None:
    """But for transfers. Of replicas, collectives hide behind more than the closed form has."""
    layers = {"gpt-22b": 48, "gpt-146b": 80, "llama-3-8b": 32}[case["model"]]
    fixed = case["fixed"]
    assume(layers % (fixed["pipeline"] * fixed["interleave"]) == 0)
    assume(fixed["pipeline"] * fixed["tensor"] * fixed["data"] <= 64)
    assume(fixed["data"] <= case["batch"])
    run, _ = placed(**case)
    plan, parts = run.timed.plan, run.timed.breakdown_s
    m, p, v = plan.microbatches, plan.pipeline, plan.interleave
    (pipeline,) = plan_work(run.setting, run.timed, run.fabric.levels).pipelines
    linked = mapped_pipeline(pipeline, _without_links)
    free = ((),) * (p * v - 1)
    found = simulate_pipelines([replace(linked, send_forward=free, send_backward=free)], links=0)
    # 2 (m v + (v - 1) (p - m)) h, the second where m < p, and 2 (p - 1) h in the bubble.
    hops = m * v + (v - 1) * max(p - m, 0)
    transfers_s = parts["pipeline_comm"] * (1 + (p - 1) / hops)
    expected_s = run.timed.iteration_time_s - transfers_s
    assert found.iteration_time_s <= expected_s * (1 + 1e-9)
    assert found.iteration_time_s >= (expected_s - parts["data_comm"]) * (1 - 1e-9)
    if plan.data == 1:
        assert found.iteration_time_s == pytest.approx(expected_s, rel=1e-9)


@pytest.mark.parametrize("case", [*ONE_STAGE[1:4], *STAGES, *OTHERS], ids=name_of)
def test_links_are_as_busy_as_their_loads(case: Case) -> None:
    """Bytes of all messages together are those of the traffic matrix, where replicas are equal."""
    run, graph = placed(**case)
    found = simulated(Conditions(busiest=1), **case)
    loads = link_loads(graph, run.matrix())
    share = run.setting.assumptions.communication.bandwidth_efficiency
    assert found.iteration_time_s >= loads.busiest_s
    assert found.lower_bound_s >= loads.busiest_s
    runs = run.setting.microbatches(run.timed.plan.microbatch, run.placement.totals)
    if runs.min() == runs.max():
        assert found.links[0].busy_s * share == pytest.approx(loads.busiest_s, rel=1e-9)


def check(found: SimulationOutcome) -> None:
    """What holds of every outcome."""
    assert found.iteration_time_s >= found.lower_bound_s * (1 - 1e-12)
    for stage in found.stages:
        parts = stage.compute_s, stage.communication_s, stage.waiting_s, stage.idle_s
        assert min(parts) >= 0
        assert sum(parts) == pytest.approx(found.iteration_time_s, rel=1e-9)


@given(
    st.sampled_from(FABRICS),
    st.sampled_from([*ONE_STAGE[:12], *STAGES, *OTHERS]),
    st.sampled_from(["hierarchical", "ring", "direct"]),
    st.sampled_from([None, "gpipe", "1f1b"]),
)
@settings(max_examples=12)
def test_contention_costs_time(
    fabric: str, case: Case, algorithm: str, schedule: str | None
) -> None:
    # Not all fabrics hold every number of GPUs.
    given_: Case = {**case, "fabric": "fat-tree" if "gpus" in case else fabric}
    conditions = Conditions(algorithm=algorithm, schedule=schedule)  # type: ignore[arg-type]
    with_it = simulated(conditions, **given_)
    without = simulated(replace(conditions, contention=False), **given_)
    full = simulated(replace(conditions, full=True), **given_)
    assert without.iteration_time_s <= with_it.iteration_time_s
    assert full.iteration_time_s == pytest.approx(with_it.iteration_time_s, rel=1e-9)
    assert full.waiting_s == pytest.approx(with_it.waiting_s, rel=1e-6, abs=1e-9)
    check(with_it)
    check(without)


@pytest.mark.parametrize(
    ("fabric", "case"),
    one_in(
        3,
        product(
            ["fat-tree", "torus-3d", "dragonfly"], [*ONE_STAGE[2:4], BRANCHED, *STAGES, *OTHERS[2:]]
        ),
    ),
    ids=lambda one: one if isinstance(one, str) else name_of(one),
)
def test_links_left_out_change_nothing(
    fabric: str, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = simulated(**case, fabric=fabric)
    monkeypatch.setattr("netplan.simulation.linked_work.reduce_links", _all_links)
    assert simulated(**case, fabric=fabric).iteration_time_s == short.iteration_time_s


def _all_links(columns: list[LinkTimes], issuers: object) -> Reduced:  # noqa: ARG001
    """Keep every link."""
    links = np.unique(np.concatenate([one.links for one in columns]))
    times = tuple(
        (tuple(np.searchsorted(links, one.links).tolist()), tuple(one.seconds_per_byte.tolist()))
        for one in columns
    )
    return links, times


@pytest.mark.parametrize(
    ("fabric", "case"),
    one_in(2, product(["fat-tree", "rail-only", "nvl72"], [*STAGES[:3], STAGES[4], OTHERS[4]])),
    ids=lambda one: one if isinstance(one, str) else name_of(one),
)
def test_one_replica_stands_for_all(fabric: str, case: Case) -> None:
    """Where replicas meet in data collectives alone; rings hand on from one to the next."""
    each = Conditions(algorithm="ring", each_replica=True)
    alone = simulated(replace(each, each_replica=False), **case, fabric=fabric)
    found = simulated(each, **case, fabric=fabric)
    assert found.replicas_simulated == found.replicas
    assert alone.replicas_simulated == 1
    assert found.iteration_time_s == pytest.approx(alone.iteration_time_s, rel=1e-12)


def test_a_link_at_half_rate_takes_twice_as_long() -> None:
    case: Case = {"fixed": {"pipeline": 4, "tensor": 4}, "fabric": "rail-only"}
    _, graph = placed(**case)
    whole = simulated(Conditions(busiest=2 * graph.link_count), **case)
    slow = int(graph.links_of("host")[3])
    rates = np.ones(graph.link_count)
    rates[slow] = 0.5
    found = simulated(Conditions(busiest=2 * graph.link_count, rates=rates), **case)
    before = {one.link: one.busy_s for one in whole.links}
    after = {one.link: one.busy_s for one in found.links}
    assert before.keys() == after.keys()
    for link, busy_s in before.items():
        factor = 2 if link % graph.link_count == slow else 1
        assert after[link] == pytest.approx(factor * busy_s, rel=1e-9)
    assert found.iteration_time_s > whole.iteration_time_s
    same = Conditions(rates=np.ones(graph.link_count))
    assert simulated(same, **case).iteration_time_s == whole.iteration_time_s


@given(st.integers(0, 127), st.sampled_from([0.1, 0.5, 0.9]), st.sampled_from(FABRICS[:3]))
@settings(max_examples=8)
def test_a_slower_link_is_never_faster(link: int, share: float, fabric: str) -> None:
    case: Case = {"fixed": {"pipeline": 4, "tensor": 4}, "fabric": fabric}
    _, graph = placed(**case)
    rates = np.ones(graph.link_count)
    rates[link] = share
    slower = simulated(Conditions(rates=rates), **case)
    assert slower.iteration_time_s >= simulated(**case).iteration_time_s


def test_an_all_to_all_on_a_blocking_tree_takes_what_its_links_take() -> None:
    case: Case = {
        "model": "dlrm-793b",
        "batch": None,
        "gpus": 512,
        "hb_size": 8,
        "radix": 32,
        "oversubscription": 2.0,
    }
    run, graph = placed(**case)
    found = simulated(**case)
    expert = run.matrix().of_kind("expert")
    by_link = link_loads(graph, expert).busiest_s
    share = run.setting.assumptions.communication.bandwidth_efficiency
    exchange = run.timed.breakdown_s["expert_comm"]
    compute = found.stages[0].compute_s
    took = found.iteration_time_s - compute - run.timed.breakdown_s["data_comm"]
    assert took == pytest.approx(by_link / share, rel=0.01)
    assert took >= exchange * (1 - 1e-9)


@pytest.mark.parametrize(
    ("conditions", "case", "message"),
    [
        (Conditions(rates=np.ones(3)), {}, "rates are given for 3 links"),
        (Conditions(schedule="interleaved"), STAGES[0], "fix interleave"),
        (Conditions(routing="valiant"), STAGES[0], "no dragonfly"),
    ],
)
def test_what_cannot_be_simulated_is_refused(
    conditions: Conditions, case: Case, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        simulated(conditions, **case)


def test_a_dead_link_that_is_needed_is_refused() -> None:
    _, graph = placed(**STAGES[0])
    rates = np.ones(graph.link_count)
    rates[graph.links_of("host")] = 0
    with pytest.raises(InputError, match="has no rate left"):
        simulated(Conditions(rates=rates), **STAGES[0])


def test_hashed_paths_are_those_of_the_seed() -> None:
    case = {**STAGES[0], "gpus": 128, "radix": 8}
    times = [
        simulated(Conditions(routing="hashed", seed=seed), **case).iteration_time_s
        for seed in (0, 0, 1, 2, 3)
    ]
    assert times[0] == times[1]
    assert len(set(times)) > 1
    assert min(times) >= simulated(**case).iteration_time_s


def test_gpus_may_stand_elsewhere() -> None:
    """In reverse order everything is as before; scattered over the leaves it is not faster."""
    case = {**STAGES[0], "radix": 8}
    _, graph = placed(**case)
    reverse = np.arange(graph.gpus)[::-1]
    before = simulated(**case).iteration_time_s
    assert simulated(Conditions(gpus=reverse), **case).iteration_time_s == before
    domains = np.arange(16).reshape(4, 4).T.ravel()
    scattered = (4 * domains[:, None] + np.arange(4)).ravel()
    assert simulated(Conditions(gpus=scattered), **case).iteration_time_s >= before


def _as_wired(matrix: TrafficMatrix) -> TrafficMatrix:
    parts = {kind: matrix.of_kind(kind) for kind in KINDS}
    return combine([one if kind == "pipeline" else both_ways(one) for kind, one in parts.items()])


@pytest.mark.parametrize("fabric", ["torus-2d", "torus-3d"])
def test_rings_carry_half_of_a_collective_each_way(fabric: str) -> None:
    case = {**STAGES[0], "fabric": fabric}
    run, graph = placed(**case)
    share = run.setting.assumptions.communication.bandwidth_efficiency
    busiest_s = link_loads(graph, _as_wired(run.matrix())).busiest_s
    assert simulated(**case).links[0].busy_s * share == pytest.approx(busiest_s, rel=1e-9)


def test_spans_and_progress() -> None:
    run, graph = placed(**STAGES[0])
    seen: list[tuple[int, int]] = []
    found = simulate_training(
        run.setting,
        run.timed,
        run.fabric,
        graph,
        Conditions(spans=True, full=True),
        tick=lambda done, of: seen.append((done, of)),
    )
    plan = run.timed.plan
    assert seen[-1] == (plan.microbatches, plan.microbatches)
    passes = [span for span in found.spans if span.kind in (0, 1)]
    assert len(passes) == 2 * plan.pipeline * plan.microbatches
    assert max(span.end_s for span in found.spans) == found.iteration_time_s
