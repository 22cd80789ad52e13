"""One round of servers: bytes of the program in the matrix, by hand, and caches on their way."""

from itertools import product

import numpy as np
import pytest

from netplan.levels import Level
from netplan.performance.serving.kernel_times import ServingKernels
from netplan.performance.serving.outcomes import Requests, ServingCase
from netplan.performance.serving.plans import ServingPlans, laid, placed, serving_plans
from netplan.performance.serving.rounds import serving_round
from netplan.performance.serving.server import ServingTimes
from netplan.performance.stacks import DEFAULT_SERVING_STACK, SERVING_STACKS
from netplan.traffic.hierarchy import CollectiveNetwork, Communication
from netplan.traffic.matrix import TrafficMatrix
from netplan.traffic.patterns import homes, overlaps
from netplan.traffic.statistics import hb_share
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.inference import Formats, cached_bytes, inference_layer
from netplan.workloads.models import MODELS

S, R, B = 2048, 256, 12.0
"""Prompt, output [tokens]; requests of a copy [1]."""
H100 = ACCELERATORS.load("h100-80gb")


def case(model: str, gpus: int, domain: int = 8) -> ServingCase:
    levels = (Level("switch", domain, 450e9), Level("switch", gpus // domain, 50e9))
    served = ServingTimes(
        MODELS.load(model),
        Formats(),
        ServingKernels.of(H100),
        CollectiveNetwork(levels, Communication("flat_ring")),
    )
    stack = SERVING_STACKS.load(DEFAULT_SERVING_STACK)
    return ServingCase(served, stack, Requests(S, R), 80e9, 3e12)


def plan(served: ServingCase, gpus: int, **fixed: int) -> ServingPlans:
    found = serving_plans(served.served.model, gpus, served.served.sizes, fixed)
    assert found.count == 1, found
    return found


def by_kind(matrix: TrafficMatrix) -> dict[str, float]:
    kinds = ("tensor", "expert", "pipeline", "cache", "data")
    return {kind: matrix.of_kind(kind).total_bytes for kind in kinds}


def group_bytes(kind: str, members: float, message: float) -> float:
    """Bytes that all members of a group send."""
    return (2 if kind == "all_reduce" else 1) * (members - 1) * message


@pytest.mark.parametrize("algorithm", ["ring", "direct"])
@pytest.mark.parametrize(("tensor", "pipeline"), [(8, 1), (2, 4), (6, 1), (16, 2)])
def test_dense_models_send_two_sums_a_layer(tensor: int, pipeline: int, algorithm: str) -> None:
    """By hand: 2 (t-1) (2 L) 2 h n bytes of n tokens, and 2 h n a border of stages."""
    served = case("llama-3-70b", 32)
    one = plan(served, 32, tensor=tensor, pipeline=pipeline)
    matrix = serving_round(served, one, B).matrix(32, algorithm)
    tokens = B + B / R * S
    layers = -(-80 // pipeline) * pipeline
    servers = int(one.replicas[0])
    found = by_kind(matrix)
    assert found["tensor"] == pytest.approx(
        servers * 2 * (tensor - 1) * 2 * layers * 2 * 8192 * tokens
    )
    assert found["pipeline"] == pytest.approx(servers * (pipeline - 1) * 2 * 8192 * tokens)
    assert found["expert"] == found["data"] == found["cache"] == 0


@pytest.mark.parametrize("model", ["qwen3-235b-a22b", "deepseek-r1", "gpt-oss-120b"])
@pytest.mark.parametrize(("tensor", "copies"), [(1, 16), (4, 4), (8, 2), (8, 1)])
@pytest.mark.parametrize("expert", ["one", "some", "all"])
def test_the_matrix_has_the_bytes_of_the_program(
    model: str, tensor: int, copies: int, expert: str
) -> None:
    """Operation by operation, without the program's own sums; groups of experts are whole stages.

    Rings send an all_to_all directly: D/n to every other member, as all others send (n-1)/n D.
    """
    served, gpus = case(model, 32), tensor * copies
    degree = {"one": 1, "some": 4, "all": gpus}[expert]
    one = plan(served, 32, tensor=tensor, attention_data=copies, expert=degree, pipeline=2)
    found = serving_round(served, one, B)
    wanted = dict.fromkeys(("tensor", "expert"), 0.0)
    shape, layers = served.served.model, served.served.model.layers
    rounds = ((served.decodes(B / 2), 2.0), (served.prompts(), B / R))
    stages = float(np.ceil(layers / 2)) + layers // 2
    for step, times in rounds:
        for operation in inference_layer(shape, one.cut, step).operations:
            for each in operation.forward.collectives:
                members = tensor if each.group == "tensor" else gpus
                groups = gpus // members * int(one.replicas[0])
                amount = group_bytes(each.kind, members, float(np.max(each.message_bytes)))
                wanted[each.group] += times * operation.share * stages * groups * amount
    got = by_kind(found.matrix(32, "ring"))
    assert {kind: got[kind] for kind in wanted} == pytest.approx(wanted)
    assert got["data"] == 0


@pytest.mark.parametrize("model", ["llama-3-70b", "deepseek-r1"])
@pytest.mark.parametrize(("first", "second"), list(product((1, 2, 8), (2, 4))))
def test_caches_reach_every_gpu_that_stores_them(model: str, first: int, second: int) -> None:
    """All requests that end in a round, each once on every GPU of its home."""
    served = case(model, 96)
    fixed = {"attention_data": 1, "expert": 1} if model == "deepseek-r1" else {}
    prefill = plan(served, 96, tensor=first, pipeline=2, replicas=2, **fixed)
    decode = plan(served, 96, tensor=second, pipeline=3, replicas=4, **fixed)
    found = serving_round(served, decode, B, prefill=prefill)
    matrix = found.matrix(96, "ring").of_kind("cache")
    ended = 4 * B / R
    whole = float(cached_bytes(served.served.model, decode.cut, float(S), 2.0)[0])
    assert matrix.total_bytes == pytest.approx(ended * second * whole)
    one, other = (homes(pool.placement) for pool in found.pools)
    assert other.min() > one.max()
    assert (other // 8 == other[:, :, :1] // 8).all()
    assert {*matrix.source.tolist()} == {*one.ravel().tolist()}
    received = np.bincount(matrix.destination, matrix.flow_bytes, 96)[other]
    assert received == pytest.approx(np.full(other.shape, matrix.total_bytes / other.size))
    prompts = by_kind(found.matrix(96, "ring"))["tensor"]
    assert prompts > by_kind(serving_round(served, decode, B).matrix(96, "ring"))["tensor"] * 0.01


def test_parts_of_a_whole_overlap() -> None:
    for parts, others in product(range(1, 13), repeat=2):
        one, other, share = overlaps(parts, others)
        assert np.bincount(one, share) == pytest.approx(np.full(parts, 1 / parts))
        assert np.bincount(other, share) == pytest.approx(np.full(others, 1 / others))


@pytest.mark.parametrize("domain", [7, 8, 72])
def test_tensor_groups_stay_in_their_domains(domain: int) -> None:
    """No group of at most a domain crosses its border, servers fit, and none stands on another."""
    gpus = 4 * domain
    served = case("glm-5", gpus, domain)
    plans = serving_plans(served.served.model, gpus, served.served.sizes, {"pipeline": 2})
    for at in range(0, plans.count, 7):
        one = plans.take(np.array([at]))
        where = placed(one, served.served.sizes)
        where.check_covers(gpus)
        stands = where.gpu_of_rank
        assert len(np.unique(stands)) == where.gpus == int(one.gpus_used[0])
        if where.totals.tensor <= domain:
            groups = stands[where.groups("tensor")] // domain
            assert (groups == groups[:, :1]).all(), (where, domain)


def test_levels_are_filled_in_order() -> None:
    """Brute force: of all ways to cut 24 GPUs, the first level holds most of the first degree."""
    tensor, copies = np.array([1, 2, 3, 4, 6, 8, 12, 24]), np.array([24, 12, 8, 6, 4, 3, 2, 1])
    found = laid((tensor, copies), (8, 4))
    assert (found.prod(axis=0) == np.stack([tensor, copies])).all()
    for at, (t, a) in enumerate(zip(tensor.tolist(), copies.tolist(), strict=True)):
        inner = max(d for d in range(1, 9) if t % d == 0)
        beside = max(d for d in range(1, 9) if a % d == 0 and inner * d <= 8)
        assert found[0, :, at].tolist() == [inner, beside]


def test_a_round_within_domains_stays_there() -> None:
    served = case("llama-3-70b", 32)
    one = plan(served, 32, tensor=8, pipeline=1)
    assert hb_share(serving_round(served, one, B).matrix(32, "direct"), 8) == 1.0
    crossing = plan(served, 32, tensor=16, pipeline=1)
    assert hb_share(serving_round(served, crossing, B).matrix(32, "direct"), 8) < 1.0
