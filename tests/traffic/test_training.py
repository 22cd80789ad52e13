"""Traffic of an iteration: bytes of the program in the matrix, published values, bad input."""

import csv
from collections.abc import Iterator
from itertools import product
from math import inf
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from netplan.errors import InputError
from netplan.inputs.choices import Recompute, Strategy
from netplan.levels import Level
from netplan.performance.plan import Plan
from netplan.performance.search import evaluate_plan
from netplan.performance.setting import Options, Setting, TrainedModel
from netplan.records import replace
from netplan.traffic.matrix import KINDS, TrafficMatrix
from netplan.traffic.patterns import Pattern
from netplan.traffic.placement import Degrees, Placement
from netplan.traffic.statistics import hb_share, idle_pairs_share, kind_shares
from netplan.traffic.training import collectives_of, training_traffic
from netplan.workloads.models import MODELS
from netplan.workloads.operations import Operation, Sharding, Variant
from netplan.workloads.program import Program, TrainingMethod, Zero, dealt, training_program
from tests.performance.cases import PTDP as PTDP_MODEL
from tests.performance.cases import small_model, training
from tests.traffic.matrix_ends import end_bytes
from tests.turns import one_in

PUBLISHED = Path(__file__).parents[1] / "published" / "traffic_stats.csv"
GPT_1T = MODELS.load("gpt-1t")
PTDP = TrainingMethod(counting="counted", zero_stage=0)
M = 4
"""Microbatches [1]."""


def dense(matrix: TrafficMatrix) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """The N x N cells."""
    listed = matrix.listed()
    cells = np.zeros((matrix.gpus, matrix.gpus))
    np.add.at(cells, (listed.source, listed.destination), listed.flow_bytes)
    return cells


def number(amount: object) -> float:
    return float(np.sum(np.asarray(amount)))


def sent(collective: str, members: int, message: float) -> float:
    """Bytes that one member sends in a ring (all_to_all: to every other member)."""
    return (2 if collective == "all_reduce" else 1) * (members - 1) / members * message


def operation_bytes(
    operation: Operation, totals: Degrees, *, again: bool
) -> Iterator[tuple[str, float]]:
    """Kind and bytes of one GPU of what one operation sends for one microbatch."""
    works = [operation.forward, operation.backward, *([operation.forward] if again else [])]
    for work in works:
        for one in work.collectives:
            members = getattr(totals, one.group)
            yield one.group, sent(one.kind, members, number(one.message_bytes))


def program_bytes(
    program: Program, placement: Placement, method: TrainingMethod, interleave: int
) -> dict[str, float]:
    """Bytes of an iteration by kind, operation by operation, without the program's own sums."""
    totals, gpus = placement.totals, placement.gpus
    found = dict.fromkeys(KINDS, 0.0)
    layers = program.repetition.layers / totals.pipeline
    again = method.variant.recompute == "full"
    for operation in program.layer.operations:
        for kind, amount in operation_bytes(operation, totals, again=again):
            found[kind] += gpus * M * layers * operation.share * amount
    # Gathered and scattered weights of a stage, by ZeRO stage; an all_reduce counts as two.
    passes = {0: 2, 1: 2, 2: 1 + M, 3: 3 * M}[method.zero_stage]
    shared = totals.data * (totals.context if method.strategy == "2d" else 1)
    for operation in program.layer.operations:
        members = shared if operation.expert_weights else shared * totals.expert
        amount = layers * operation.share * number(operation.weight_bytes)
        found["data"] += gpus * passes * sent("all_gather", members, amount)
    for end in (program.first, program.last):
        if end is not None:
            on_stage = gpus / totals.pipeline
            for kind, amount in operation_bytes(end, totals, again=False):
                found[kind] += on_stage * M * amount
            amount = number(end.weight_bytes)
            found["data"] += on_stage * 2 * sent("all_gather", shared * totals.expert, amount)
    if totals.pipeline > 1:
        chains, message = gpus / totals.pipeline, number(program.layer.boundary_bytes)
        steps = (totals.pipeline - 1) * interleave + (interleave - 1)
        found["pipeline"] = chains * 2 * M * steps * message
    return found


@pytest.mark.parametrize(
    ("strategy", "experts"), [("1d", 1), ("1d", 4), ("2d", 1), ("2d", 4), ("summa", 1)]
)
def test_bytes_of_the_program_are_those_of_the_matrix(strategy: Strategy, experts: int) -> None:
    degrees = [1, 2] if experts > 1 else [1]
    context = 1 if strategy == "1d" else 2
    for zero, again, expert, interleave, ends in product(
        get_args(Zero), get_args(Recompute), degrees, (1, 2), (False, True)
    ):
        placement = Placement(
            (Degrees(tensor=2, context=context, expert=expert), Degrees(data=2, pipeline=2))
        )
        variant = Variant(again, experts, min(2, experts), embedding=ends, lm_head=ends)
        method = TrainingMethod(strategy=strategy, variant=variant, zero_stage=zero)
        sharding = Sharding.of(1, 2, context, panels=4 if strategy == "summa" else 1, expert=expert)
        program = training_program(small_model(), sharding, method)
        matrix = training_traffic(
            program, placement, gpus=placement.gpus, microbatches=M, interleave=interleave
        )
        expected = program_bytes(program, placement, method, interleave)
        got = {kind: matrix.of_kind(kind).total_bytes for kind in KINDS}
        assert got == pytest.approx(expected, rel=1e-12), (zero, again, expert, interleave, ends)
        sent, received = end_bytes(matrix)
        np.testing.assert_allclose(sent.sum(), received.sum())
        assert (got["expert"] > 0) == (expert > 1)
        assert (got["context"] > 0) == (context > 1)


def test_bytes_of_unlike_layers_are_those_of_the_matrix() -> None:
    """Some layers dense, some with windows, latent vectors and a layer that predicts further."""
    latent = {"kv_rank": 16, "query_rank": 32, "head_size": 16, "rotary_head_size": 8}
    model = small_model(
        layers=5,
        experts={"count": 4, "per_token": 2, "shared_ffn_size": 64, "dense_first_layers": 1},
        latent_attention=latent | {"value_head_size": 16},
        window_attention={"tokens": 16, "layers": 2},
        prediction_layers=1,
    )
    outer = Degrees(data=2, pipeline=2)
    for zero, expert, context in product(get_args(Zero), (1, 2), (1, 2)):
        inner = Degrees(tensor=2, context=context, expert=expert)
        strategy: Strategy = "2d" if context > 1 else "1d"
        method = TrainingMethod(
            strategy=strategy, variant=Variant(embedding=True, lm_head=True), zero_stage=zero
        )
        sharding = Sharding.of(1, 2, context, expert=expert)
        program = training_program(model, sharding, method)
        placement = Placement((inner, outer))
        matrix = training_traffic(program, placement, gpus=placement.gpus, microbatches=M)
        got = {kind: matrix.of_kind(kind).total_bytes for kind in KINDS}
        assert got == pytest.approx(program_bytes(program, placement, method, 1), rel=1e-12)
        assert (got["expert"] > 0) == (expert > 1)


def uneven_bytes(
    program: Program, placement: Placement, method: TrainingMethod, interleave: int, rounds: int
) -> dict[str, float]:
    """The same GPU by GPU: layers of its stage, microbatches of its replica."""
    totals = placement.totals
    found = dict.fromkeys(KINDS, 0.0)
    layers, stages, replicas = program.repetition.layers, totals.pipeline, totals.data
    again = method.variant.recompute == "full"
    shared = replicas * (totals.context if method.strategy == "2d" else 1)
    slowest = -(-rounds // replicas)
    passes = {0: 2, 1: 2, 2: 1 + slowest, 3: 3 * slowest}[method.zero_stage]
    # All layers are somewhere; so are all microbatches. One GPU of each other coordinate.
    others = placement.gpus / stages / replicas
    for operation in program.layer.operations:
        for kind, amount in operation_bytes(operation, totals, again=again):
            found[kind] += others * rounds * layers * amount
        members = shared if operation.expert_weights else shared * totals.expert
        amount = number(operation.weight_bytes)
        message = sent("all_gather", members, amount)
        found["data"] += others * replicas * layers * passes * message
    for end in (program.first, program.last):
        if end is not None:
            for kind, amount in operation_bytes(end, totals, again=False):
                found[kind] += others * rounds * amount
            message = sent("all_gather", shared * totals.expert, number(end.weight_bytes))
            found["data"] += others * replicas * 2 * message
    steps = (stages - 1) * interleave + (interleave - 1)
    found["pipeline"] += others * 2 * rounds * steps * number(program.layer.boundary_bytes)
    return found


@pytest.mark.parametrize(
    ("pattern", "strategy", "experts"),
    one_in(
        2,
        (
            (pattern, *case)
            for pattern in ("ring", "hierarchical")
            for case in (("1d", 1), ("1d", 4), ("2d", 1), ("2d", 4), ("summa", 1))
        ),
    ),
)
def test_bytes_of_uneven_programs(pattern: Pattern, strategy: Strategy, experts: int) -> None:
    """Eleven layers on three stages, five microbatches over three replicas, idle GPUs."""
    context, expert = (1 if strategy == "1d" else 2), (2 if experts > 1 else 1)
    levels = Degrees(2, context, expert), Degrees(data=3), Degrees(pipeline=3)
    sizes = (2 * context * expert + 1, 4, 3)
    placement = Placement(levels, sizes)
    cluster = sizes[0] * 12 + 1  # and a last HB domain that is not full
    working = placement.gpu_of_rank
    for zero, again, interleave, ends in product(
        get_args(Zero), get_args(Recompute), (1, 2, 4), (False, True)
    ):
        variant = Variant(again, experts, min(2, experts), embedding=ends, lm_head=ends)
        method = TrainingMethod(strategy=strategy, variant=variant, zero_stage=zero)
        sharding = Sharding.of(1, 2, context, panels=4 if strategy == "summa" else 1, expert=expert)
        program = training_program(small_model(layers=11), sharding, method)
        matrix = training_traffic(
            program,
            placement,
            gpus=cluster,
            microbatches=dealt(5, 3),
            interleave=interleave,
            algorithm=pattern,
        )
        expected = uneven_bytes(program, placement, method, interleave, 5)
        got = {kind: matrix.of_kind(kind).total_bytes for kind in KINDS}
        assert got == pytest.approx(expected, rel=1e-12), (zero, again, interleave, ends)
        sends = end_bytes(matrix)[0] > 0
        assert sends.sum() == len(working) == placement.gpus
        assert sends[working].all()


def test_short_stages_and_replicas_send_less() -> None:
    """Five layers on stages of 3 and 2, three microbatches on replicas of 2 and 1."""
    placement = Placement((Degrees(tensor=2), Degrees(data=2, pipeline=2)))
    method = TrainingMethod(counting="counted", zero_stage=0)
    program = training_program(small_model(layers=5), Sharding.of(1, 2), method)
    matrix = training_traffic(program, placement, gpus=8, microbatches=dealt(3, 2))
    # Tensor: eight collectives of 2 h s a layer and microbatch, of which (t-1)/t leave each GPU.
    layer = 8 * 2 * 512 * 256 / 2
    tensor = end_bytes(matrix.of_kind("tensor"))[0]
    assert tensor == pytest.approx(np.repeat([3 * 2, 3 * 1, 2 * 2, 2 * 1], 2) * layer)
    data = end_bytes(matrix.of_kind("data"))[0]
    assert data == pytest.approx(np.repeat([3, 3, 2, 2], 2) * 2 / 2 * 12 * 512**2)
    between = end_bytes(matrix.of_kind("pipeline"))[0]
    assert between == pytest.approx(np.tile(np.repeat([2, 1], 2), 2) * 2 * 512 * 256 / 2)


@pytest.mark.parametrize("zero", get_args(Zero))
@pytest.mark.parametrize("recompute", get_args(Recompute))
def test_bytes_of_counted_programs(zero: Zero, recompute: Recompute) -> None:
    """t = 2, p = 2, d = 4: 8 or, computed again, 12 collectives of 2 b h s a layer."""
    placement = Placement((Degrees(tensor=2, data=2), Degrees(data=2, pipeline=2)))
    method = TrainingMethod(counting="counted", variant=Variant(recompute), zero_stage=zero)
    program = training_program(small_model(), Sharding.of(1, 2), method)
    matrix = training_traffic(program, placement, gpus=16, microbatches=M)
    expected = program_bytes(program, placement, method, 1)
    assert {kind: matrix.of_kind(kind).total_bytes for kind in KINDS} == pytest.approx(expected)
    ring = 2 * 512 * 256 / 2 * M * 2  # 2 b h s (t-1)/t, m microbatches, 2 layers
    assert expected["tensor"] == 16 * (12 if recompute == "full" else 8) * ring
    weights = 2 * 12 * 512**2 / 2 * 2 * 3 / 4  # 2 layers of 12 h^2 / t, (d-1)/d
    assert expected["data"] == 16 * {0: 2, 1: 2, 2: 1 + M, 3: 3 * M}[zero] * weights


@pytest.mark.parametrize("pattern", ["ring", "hierarchical"])
def test_patterns_move_the_same_bytes(pattern: Pattern) -> None:
    """Rings through all members and rings a level send (n-1)/n of each message."""
    placement = Placement(
        (Degrees(tensor=2, context=2), Degrees(tensor=2, data=2), Degrees(context=2))
    )
    method = TrainingMethod(strategy="2d")
    program = training_program(small_model(), Sharding.of(1, 4, 4), method)
    matrix = training_traffic(program, placement, gpus=32, microbatches=M, algorithm=pattern)
    expected = program_bytes(program, placement, method, 1)
    assert {kind: matrix.of_kind(kind).total_bytes for kind in KINDS} == pytest.approx(expected)


@pytest.mark.parametrize("recompute", get_args(Recompute))
@pytest.mark.parametrize(("strategy", "experts"), [("1d", 1), ("1d", 4), ("2d", 1), ("2d", 4)])
def test_time_and_traffic_count_the_same_bytes(
    strategy: Strategy, experts: int, recompute: Recompute
) -> None:
    """One switch, no latency: seconds of collectives are bytes of a GPU over 70 % of 1 GB/s."""
    context, expert = (2 if strategy == "2d" else 1), (2 if experts > 1 else 1)
    placement = Placement((Degrees(2, context, expert, data=2),))
    plan = Plan(placement, 1, 16 // (2 * expert))
    options = Options(Variant(recompute, experts, min(2, experts)))
    case, levels = training(small_model()), (Level("switch", placement.gpus, 1e9),)
    timed = evaluate_plan(case, levels, plan, strategy=strategy, options=options)
    program = Setting(case, strategy, options=options).program(plan.sharding)
    matrix = training_traffic(
        program, placement, gpus=placement.gpus, microbatches=plan.microbatches
    )
    for part, kinds in (("tensor_comm", ("tensor", "context")), ("expert_comm", ("expert",))):
        amount = sum(matrix.of_kind(kind).total_bytes for kind in kinds) / placement.gpus
        assert timed.breakdown_s.get(part, 0.0) == pytest.approx(amount / 0.7e9)


@pytest.mark.parametrize("zero", get_args(Zero))
def test_exposed_synchronisation_takes_the_time_of_its_bytes(zero: Zero) -> None:
    placement = Placement((Degrees(tensor=2, data=4),))
    plan, options = Plan(placement, 1, 4), Options(zero_stage=zero)
    case = TrainedModel(small_model(), 16, 1e12, inf, PTDP_MODEL)
    timed = evaluate_plan(case, (Level("switch", 8, 1e9),), plan, options=options)
    program = Setting(case, options=options).program(plan.sharding)
    matrix = training_traffic(program, placement, gpus=8, microbatches=4)
    seconds = matrix.of_kind("data").total_bytes / 8 / 1e9
    assert timed.breakdown_s["data_comm"] == pytest.approx(seconds)


def test_zero_stage_3_gathers_in_every_microbatch() -> None:
    """GPT-146B on 1,024 GPUs, t = p = 8, d = 16, m = 64: 64 x 3/2 times the bytes of stage 1."""
    placement = Placement((Degrees(tensor=8), Degrees(data=16, pipeline=8)))
    model, found = MODELS.load("gpt-146b"), {}
    for zero in get_args(Zero):
        program = training_program(model, Sharding.of(1, 8), TrainingMethod(zero_stage=zero))
        matrix = training_traffic(program, placement, gpus=1024, microbatches=64)
        found[zero] = matrix.of_kind("data").total_bytes
    # 1,024 x 2 x 15/16 x 2 x 80 x 12 h^2 / 64 bytes, biases and norms aside.
    assert found[1] == pytest.approx(1024 * 2 * 15 / 16 * 160 * 12 * 12288**2 / 64, rel=1e-3)
    assert found[0] == found[1] == pytest.approx(8.697e12, rel=1e-3)
    assert found[2] == pytest.approx(65 / 2 * found[1])
    assert found[3] == pytest.approx(96 * found[1]) == pytest.approx(835e12, rel=1e-3)


def test_summa_sends_panels_of_inputs_and_weights() -> None:
    """One layer of h = 512 on a 2 x 2 grid: half of each panel comes from the other GPU."""
    placement = Placement((Degrees(tensor=2, context=2),))
    program = training_program(
        small_model(layers=1), Sharding.of(1, 2, 2, panels=4), TrainingMethod(strategy="summa")
    )
    uses = collectives_of(program, placement, 1)
    panels = {use.collective for use in uses if use.kind == "context"}
    assert panels >= {"broadcast", "reduce"}
    matrix = training_traffic(program, placement, gpus=4, microbatches=1)
    rows, h = 128, 512
    # Inputs of fc1, qkv, vproj are h wide, that of fc2 4h: broadcast twice and reduced once; norms
    # all_reduce 2 x 128 sums forward, 2h/2 + 2 x 128 gradients backward, each of two.
    inputs = 3 * 2 * rows * (3 * h + 4 * h) / 2
    norms = 2 * 2 * (2 * rows + (2 * h / 2 + 2 * rows)) * 2 / 2
    assert matrix.of_kind("tensor").total_bytes == pytest.approx(4 * (inputs + norms))


def test_ends_communicate_on_their_own_stage() -> None:
    """Three stages in a chain: the word table is gathered by the first, the head's by the last."""
    placement = Placement((Degrees(tensor=2), Degrees(data=2, pipeline=4)))
    plain, ended = (
        dense(
            training_traffic(
                training_program(
                    small_model(),
                    Sharding.of(1, 2),
                    TrainingMethod(variant=Variant(embedding=ends, lm_head=ends)),
                ),
                placement,
                gpus=16,
                microbatches=M,
            )
        )
        for ends in (False, True)
    )
    more = (ended - plain).sum(axis=1)
    assert set(np.flatnonzero(more > 1)) == {0, 1, 2, 3, 12, 13, 14, 15}


def test_published_shares_of_megatron_strategies() -> None:
    with PUBLISHED.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2
    for row in rows:
        model = GPT_1T.changed(
            hidden_size=int(row["h"]),
            layers=int(row["l"]),
            heads=int(row["heads"]),
            sequence_length=int(row["s"]),
        )
        t, p, d, gpus = (int(row[name]) for name in ("t", "p", "d", "N"))
        placement = Placement((Degrees(tensor=t), Degrees(data=d, pipeline=p)))
        program = training_program(model, Sharding.of(int(row["b"]), t), PTDP)
        matrix = training_traffic(
            program,
            placement,
            gpus=gpus,
            microbatches=int(row["B"]) // (d * int(row["b"])),
            interleave=int(row["v"]),
        )
        shares = {share.kind: share for share in kind_shares(matrix)}
        for kind, short in (("tensor", "tp"), ("data", "dp"), ("pipeline", "pp")):
            found = shares[kind]
            assert found.pair_bytes / 1e9 == pytest.approx(float(row[f"{short}_pair_GB"]), rel=1e-9)
            assert 100 * found.bytes_share == pytest.approx(
                float(row[f"{short}_share_pct"]), rel=1e-9
            )
            assert 100 * found.pairs_share == pytest.approx(
                float(row[f"{short}_pairs_pct"]), rel=1e-9
            )
        idle = 100 * idle_pairs_share(matrix)
        assert idle == pytest.approx(float(row["no_traffic_pairs_pct"]), rel=1e-9)
        # All tensor traffic is inside domains of 8, all other on rails (arXiv:2307.12169, 3.2).
        inside = matrix.source // 8 == matrix.destination // 8
        assert np.array_equal(inside, matrix.kind == KINDS.index("tensor"))
        assert np.array_equal(matrix.source[~inside] % 8, matrix.destination[~inside] % 8)


def test_hierarchical_all_reduce_stays_inside_domains_as_in_figure_5() -> None:
    """32 GPUs in each of 2 domains: (31/32) / (31/32 + 1/64) = 62/63 = 98.41 %."""
    placement = Placement((Degrees(tensor=8, data=32), Degrees(data=2, pipeline=8)))
    program = training_program(GPT_1T, Sharding.of(1, 8), PTDP)
    matrix = training_traffic(
        program, placement, gpus=4096, microbatches=64, algorithm="hierarchical"
    )
    matrix = matrix.of_kind("data")
    assert hb_share(matrix, 256) == pytest.approx(62 / 63, rel=1e-12)
    assert np.all(
        (matrix.source - matrix.destination)
        % 256
        * (matrix.source // 256 != matrix.destination // 256)
        == 0
    )


def test_interleaving_returns_from_the_last_stage_to_the_first() -> None:
    """4 stages, v = 3: each edge carries 3 m D_p a way, the way back 2 m D_p."""
    model = GPT_1T.changed(layers=12)
    program = training_program(model, Sharding.of(1, 1), PTDP)
    step = 8 * 2 * model.hidden_size * model.sequence_length

    def cells(stages: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        placement = Placement((Degrees(pipeline=stages),))
        return dense(
            training_traffic(program, placement, gpus=stages, microbatches=8, interleave=3)
        )

    expected = np.array([[0, 3, 0, 2], [3, 0, 3, 0], [0, 3, 0, 3], [2, 0, 3, 0]])
    np.testing.assert_allclose(cells(4) / step, expected)
    # 2 stages: the way back is the edge itself, 3 forward and 2 of the gradients that wrap.
    np.testing.assert_allclose(cells(2) / step, [[0, 5], [5, 0]])


def test_context_and_expert_traffic_by_hand() -> None:
    """A layer of h = 4 over 2 tensor x 2 context x 2 expert GPUs, one microbatch of 8 tokens."""
    model = GPT_1T.changed(layers=1, hidden_size=4, heads=2, sequence_length=8)
    placement = Placement((Degrees(tensor=2, context=2, expert=2),))
    method = TrainingMethod(strategy="2d", variant=Variant(experts=4, top_k=2), zero_stage=0)
    program = training_program(model, Sharding.of(1, 2, 2, expert=2), method)
    found: dict[tuple[str, str, tuple[str, ...]], float] = {}
    for use in collectives_of(program, placement, 1):
        key = use.kind, use.collective, use.dimensions
        found[key] = found.get(key, 0.0) + use.data_bytes * use.times
    d = 2 * 8 * 4 / 2  # 2 b h s / c
    # Outside its experts a layer has a router of h E weights, 4 h^2, a bias and two norms of 2 h;
    # an expert 8 h^2 and biases of 4h and h. Tensor GPUs share all but the router, vproj's and
    # fc2's bias and the norms.
    dense_weights = 4 * 4 + 4 * 16 / 2 + 4 + 2 * 8
    expert_weights = 4 / 2 * (8 * 16 / 2 + 16 / 2 + 4)
    assert found == {
        # Forward: dispatch gathers k D, ln1 D; backward: combine gathers k D.
        ("tensor", "all_gather", ("tensor",)): (2 + 1 + 2) * d,
        # Forward: fc2 k D, vproj D; backward: fc1 k D, qkv D, ln1 D.
        ("tensor", "reduce_scatter", ("tensor",)): (2 + 1 + 2 + 1 + 1) * d,
        ("context", "all_gather", ("context",)): 2 * 4 * 8 * 4 / 2,  # 2 x 4 b h s / t
        ("context", "reduce_scatter", ("context",)): 4 * 8 * 4 / 2,
        ("expert", "all_to_all", ("expert",)): 4 * 2 * 8 * 4 * 2 / 4,  # 4 x 2 b h s k / (t c)
        ("data", "all_reduce", ("context", "expert", "data")): 2 * dense_weights,
        ("data", "all_reduce", ("context", "data")): 2 * expert_weights,
    }
    matrix = training_traffic(program, placement, gpus=8, microbatches=1)
    np.testing.assert_allclose(*end_bytes(matrix))
    assert [group.kind for group in matrix.groups] == [KINDS.index("expert")]


def test_a_large_plan_stays_sparse() -> None:
    placement = Placement((Degrees(tensor=8, data=32), Degrees(data=2, pipeline=64)))
    program = training_program(GPT_1T, Sharding.of(1, 8), PTDP)
    matrix = training_traffic(
        program, placement, gpus=32_768, microbatches=64, algorithm="hierarchical"
    )
    # 3 rings a GPU (tensor, data inside, data across) and 2 directions of 63 stage borders.
    assert len(matrix.source) == 3 * 32_768 + 2 * 63 * 512
    sent, received = end_bytes(matrix)
    np.testing.assert_allclose(sent.sum(), received.sum())


def test_placements_and_programs_that_cannot_be() -> None:
    placement = Placement((Degrees(tensor=8), Degrees(data=3, pipeline=4)))
    program = training_program(GPT_1T, Sharding.of(1, 8))
    with pytest.raises(InputError, match=r"covers 96 GPUs \(8 x 12\), the cluster has 128"):
        training_traffic(program, placement, gpus=128, microbatches=32)
    with pytest.raises(InputError, match="128 layers do not split into 4 pipeline stages x 5"):
        training_traffic(program, placement, gpus=96, microbatches=32, interleave=5)
    with pytest.raises(InputError, match="give 5 whole numbers"):
        Placement((Degrees(tensor=8, data=0),))
    with pytest.raises(InputError, match=r"GPUs \(4, 1, 1\), the placement has \(8, 1, 1\)"):
        collectives_of(training_program(GPT_1T, Sharding.of(1, 4)), placement, 32)
    two = replace(program, sharding=Sharding(*(np.array([1, 1]) for _ in range(7))))
    with pytest.raises(InputError, match="those of one sharding"):
        two.collectives(stages=1, microbatches=1)
