"""Servers whose experts are loaded unevenly: the busiest GPU's time, memory, and bytes by hand."""

import numpy as np
import pytest

from netplan.performance.serving.cases import (
    ServingSoftware,
    domain_levels,
    formats_of,
    serving_case,
)
from netplan.performance.serving.outcomes import Requests, ServingCase, aggregated, decode_steps
from netplan.performance.serving.plans import ServingPlans, serving_plans
from netplan.performance.serving.rounds import serving_round
from netplan.performance.serving.server import held_bytes
from netplan.performance.stacks import SERVING_STACKS
from netplan.records import replace
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.expert_load import ExpertLoad
from netplan.workloads.inference import Cut, ServingStep, inference_layer
from netplan.workloads.models import MODELS, Model
from netplan.workloads.operations import Operation

R1 = MODELS.load("deepseek-r1")
EVEN = ExpertLoad.of("gini:0", 256)
SHUFFLED = ExpertLoad.of("gini:0.24", 256)
COPIED = ExpertLoad.of("gini:0.24", 256, placement="eplb", redundant=32)
FIXED = {"tensor": 1, "attention_data": 32, "expert": 32, "pipeline": 1}
WIDE = serving_plans(R1, 32, (8, 4), FIXED)


def loaded(load: ExpertLoad | None) -> Model:
    assert R1.experts is not None
    return R1.changed(experts=replace(R1.experts, load=load))


def served(load: ExpertLoad | None, kernels: str = "measured") -> ServingCase:
    chip = ACCELERATORS.load("h200")
    stack = SERVING_STACKS.load("sglang").changed(exchange="deepep")  # whose bytes follow loads
    software = ServingSoftware(stack, kernels)  # type: ignore[arg-type]
    formats = formats_of(chip, R1, "fp8")
    levels = domain_levels(chip, 32)
    return serving_case(chip, loaded(load), levels, Requests(1024, 512), formats, software)


def experts_of(load: ExpertLoad | None, sequences: float) -> Operation:
    step = ServingStep("decode", sequences, 1.0, 1024.0)
    layer = inference_layer(loaded(load), Cut.of(1, 32, 32), step)
    return next(operation for operation in layer.operations if operation.experts)


def test_even_shares_are_as_fast_as_experts_alike() -> None:
    for kernels in ("measured", "fitted", "roofline"):
        alike, even = (aggregated(served(load, kernels), WIDE, 2048.0) for load in (None, EVEN))
        for name in ("ttft_s", "tpot_s", "memory_bytes"):
            assert getattr(even, name) == pytest.approx(getattr(alike, name))


def test_the_busiest_gpu_has_so_many_rows() -> None:
    alike, uneven = (experts_of(load, 64.0).forward for load in (None, SHUFFLED))
    # 1.25866 of the expected values, for 32 GPUs.
    assert uneven.tensor_flops / alike.tensor_flops == pytest.approx(1.25866, abs=1e-5)
    for there, back in zip(alike.collectives, uneven.collectives, strict=True):
        # The program sends as much; the busiest GPU's links have more of it.
        assert np.all(there.message_bytes == back.message_bytes)
        sent = np.any(there.message_bytes) and there.kind == "all_to_all"
        factor = 1.25866 if sent else 1.0
        assert back.busiest_bytes == pytest.approx(factor * there.message_bytes, rel=1e-5)


def test_weights_that_are_read_are_those_of_its_active_experts() -> None:
    # One token of each GPU: 1 - (1 - 8 s)^32 of the eight experts with the most load together.
    own = SHUFFLED.spread(32).busiest
    active = sum(1 - (1 - 8 * share) ** 32 for share in own.tolist())
    matrices = 3 * 7168 * 2048 * 2.0
    assert experts_of(SHUFFLED, 1.0).forward.weight_bytes == pytest.approx(active * matrices)


def test_rows_of_tables_count_so_many_times() -> None:
    operations = {load: experts_of(load, 64.0) for load in (EVEN, SHUFFLED)}
    kernels = served(None).served.kernels
    even_s, uneven_s = (
        float(np.ravel(kernels.time(operation, 1.0).seconds)[0])
        for operation in operations.values()
    )
    assert uneven_s / even_s == pytest.approx(1.25866, rel=1e-5)
    alike_s = np.ravel(kernels.time(experts_of(None, 64.0), 1.0).seconds)
    assert even_s == pytest.approx(alike_s)
    fitted = replace(kernels, source="fitted")
    assert fitted.time(operations[SHUFFLED], 1.0).seconds < uneven_s * 1.3


def test_copies_take_their_memory() -> None:
    alike, copied = (
        held_bytes(loaded(load), WIDE, served(None).served.formats, 1536.0)
        for load in (None, COPIED)
    )
    # 58 layers of 256 experts on 32 GPUs, 3 x 7168 x 2048 weights of a byte: an eighth more.
    experts = 58 * 256 / 32 * 3 * 7168 * 2048
    assert copied.weights - alike.weights == pytest.approx(experts / 8)
    assert copied.request == alike.request


def test_uneven_experts_cost_time_and_eplb_gives_it_back() -> None:
    alike, shuffled, packed = (
        float(aggregated(served(load), WIDE, 8192.0).tpot_s[0]) for load in (EVEN, SHUFFLED, COPIED)
    )
    assert alike < packed < shuffled
    assert 1.02 < shuffled / alike < 1.26
    assert packed / alike < 1.02


def test_an_imbalance_alone_is_that_of_rows_and_links() -> None:
    known = ExpertLoad(busiest=1.25866)
    for name in ("network_s", "seconds"):
        by_load, by_number = (
            getattr(decode_steps(served(load), WIDE, np.array([256.0])).parts, name)[0]
            for load in (SHUFFLED, known)
        )
        # Of many tokens every expert has a row in both.
        assert by_load == pytest.approx(by_number, rel=2e-3)


def test_traffic_is_that_of_the_program() -> None:
    matrices = {
        name: serving_round(served(load), WIDE, 64.0).matrix(32, "direct")
        for name, load in {"alike": None, "uneven": SHUFFLED, "copied": COPIED}.items()
    }
    total = matrices["alike"].total_bytes
    for matrix in matrices.values():
        assert matrix.total_bytes == pytest.approx(total, rel=1e-12)
    program = serving_round(served(SHUFFLED), WIDE, 64.0).pools[0]
    # Of an all_to_all of D each of 32 GPUs sends 31/32 of D.
    sent = sum(31 * use.data_bytes * use.times for use in program.collectives)
    assert total == pytest.approx(sent)
    flows = matrices["uneven"].listed()
    received = np.bincount(flows.destination, flows.flow_bytes, 32)
    returned = np.bincount(flows.source, flows.flow_bytes, 32)
    loads = SHUFFLED.spread(32).loads * 32
    # A byte a number there, two back: what GPUs get beside what everybody gets of results.
    there, back = 1 / 3, 2 / 3
    mean = total / 32
    senders = (32 - loads) / 31  # a GPU sends nothing to itself
    assert received == pytest.approx(mean * (there * loads + back * senders))
    assert returned == pytest.approx(mean * (back * loads + there * senders))
    assert max(received.max(), returned.max()) > mean


def test_plans_that_do_not_divide_experts_are_left_out() -> None:
    plans: ServingPlans = serving_plans(loaded(SHUFFLED), 48, (8, 6), {})
    assert {3, 6, 24} & {*serving_plans(R1, 48, (8, 6), {}).expert.tolist()}
    assert not np.any(256 % plans.expert)
    copied = serving_plans(loaded(COPIED), 48, (8, 6), {})
    assert not np.any(288 % copied.expert)
    assert {3, 6, 24} < {*copied.expert.tolist()}
