"""COMET's model (arXiv:2211.16648) against its arithmetic, by hand and event by event.

Regression values were rebuilt from the paper's text, apart from this code.
"""

from itertools import pairwise
from math import ceil, inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netplan.errors import InputError, NoPlanError
from netplan.levels import Level
from netplan.performance.iteration_model import ITERATION_MODELS, IterationModel
from netplan.performance.mapping.layers import LayerExecution
from netplan.performance.plan import PlanTime
from netplan.performance.search import PlanSearch, search_largest, search_plans
from netplan.performance.setting import Fixed, Options, TrainedModel
from netplan.performance.tiers import Expanded
from netplan.records import replace
from netplan.simulation.program_work import plan_work
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.closed_forms import layer_parameters
from netplan.workloads.models import MODELS
from netplan.workloads.operations import Sharding, Variant
from netplan.workloads.program import Zero
from netplan.workloads.tiled_layer import gemm_traffic_bytes, tiled_layer

PODS = Level("switch", 8, 300e9), Level("switch", 128, 31.25e9)
DEGREES = [1 << bit for bit in range(11)]
PARAMETERS = 12 * 128 * 25600**2


def training(model: str = "comet-fit", **changes: object) -> TrainedModel:
    found = TrainedModel.make(
        ACCELERATORS.load("a100-comet"), MODELS.load("transformer-1t"), ITERATION_MODELS.load(model)
    )
    return replace(found, **({"memory_bytes": inf} | changes))


def timed(
    tensor: int, model: str = "comet-fit", microbatch: int | None = None, **changes: object
) -> PlanTime:
    only = Options(fixed=Fixed(tensor=tensor, pipeline=1, microbatch=microbatch))
    return search_plans(training(model, **changes), PODS, options=only).best


class ByHand:
    """Sections 2 to 4 of the paper's model for one tensor degree, in plain Python."""

    hidden, layers, heads, length, gpus = 25600, 128, 160, 2048, 1024
    flops_per_s, bytes_per_s, sram_bytes = 624e12, 2039e9, 40e6
    pod, inside, outside = 8, 300e9, 31.25e9

    def __init__(self, tensor: int, *, chunks: int = 4, tokens: int = 262_144) -> None:
        self.tensor, self.data, self.chunks = tensor, self.gpus // tensor, chunks
        self.tokens = tokens / self.data

    def traffic(self, rows: float, inner: float, columns: float) -> float:
        u, v, w = 2 * rows * inner, 2 * inner * columns, 2 * rows * columns
        s = self.sram_bytes
        return min(ceil(u / s) * v + u, ceil(v / s) * u + v) + w

    def gemm_s(self, rows: float, inner: float, columns: float) -> float:
        flops_s = 2 * rows * inner * columns / self.flops_per_s
        return max(flops_s, self.traffic(rows, inner, columns) / self.bytes_per_s)

    def phases(self) -> tuple[float, float, float]:
        """Seconds of a layer forward, for gradients of inputs, and of weights."""
        h, t, s, m = self.hidden, self.tensor, self.length, self.tokens
        maps = m / s * self.heads / t
        products = [
            (m, h, 3 * h / t, 1),
            (s, h / self.heads, s, maps),
            (s, s, h / self.heads, maps),
            (m, h / t, h, 1),
            (m, h, 4 * h / t, 1),
            (m, 4 * h / t, h, 1),
        ]
        elementwise = (20 * m * h + 16 * m * h / t) / self.bytes_per_s
        return (
            sum(n * self.gemm_s(a, b, c) for a, b, c, n in products) + elementwise,
            sum(n * self.gemm_s(a, c, b) for a, b, c, n in products) + 2 * elementwise,
            sum(n * self.gemm_s(b, a, c) for a, b, c, n in products),
        )

    def all_reduce_s(self, inside: int, outside: int, size: float) -> float:
        a = 2 * (inside - 1) / inside * size / self.inside
        e = 2 * (outside - 1) / outside * size / inside / self.outside
        return a if outside == 1 else max(a, e + a / self.chunks)

    def tensor_s(self) -> float:
        inside = min(self.tensor, self.pod)
        size = 2 * self.tokens * self.hidden
        return 4 * self.layers * self.all_reduce_s(inside, self.tensor // inside, size)

    def gradients_s(self) -> tuple[float, float, float]:
        """all_reduce of a layer's gradients, their reduce_scatter, and an all_gather of weights."""
        inside = self.pod // min(self.tensor, self.pod)
        outside = self.data // inside
        size = 2 * PARAMETERS / self.tensor / self.layers
        a = (inside - 1) / inside * size / self.inside
        e = (outside - 1) / outside * size / inside / self.outside
        half = max(a, e) + min(a, e) / self.chunks
        return self.all_reduce_s(inside, outside, size), half, half

    def queued_s(self, update_s: float, microbatches: int = 1, zero: int = 2) -> float:
        """Exposed gradient collectives, served layer by layer in the order they are ready.

        Of a replica that accumulates: sharded gradients are reduced after each microbatch, and
        sharded weights gathered for each pass.
        """
        reduced, scattered, gathered = self.gradients_s()
        last = reduced + (gathered if zero == 3 else 0.0)
        earlier = {0: 0.0, 1: 0.0, 2: scattered, 3: last}[zero]
        forward, inputs, weights = self.phases()
        passed = forward + inputs + weights + self.tensor_s() / self.layers
        done = 0.0
        for microbatch in range(microbatches):
            start = microbatch * self.layers * passed + self.layers * (passed - weights)
            final = microbatch == microbatches - 1
            every = weights + (update_s / self.layers if final else 0.0)
            for layer in range(1, self.layers + 1):
                done = max(done, start + layer * every) + (last if final else earlier)
        return done - microbatches * self.layers * passed - update_s


@pytest.mark.parametrize(
    ("tensor", "compute_s", "tensor_s", "iteration_s"),
    [
        (8, 3.7555342619051566, 0.31317469866666664, 4.068708960571823),
        (64, 4.27390827269476, 3.632826504533333, 7.906734777228093),
    ],
)
def test_regression_values(
    tensor: int, compute_s: float, tensor_s: float, iteration_s: float
) -> None:
    found = timed(tensor)
    parts = found.breakdown_s
    assert found.iteration_time_s == pytest.approx(iteration_s, rel=1e-12)
    assert parts["tensor_comm"] == pytest.approx(tensor_s, rel=1e-12)
    computed = parts["compute"] + parts["memory"] + parts["update"]
    assert computed == pytest.approx(compute_s, rel=1e-12)
    assert parts["data_comm"] == parts["bubble"] == parts["pipeline_comm"] == 0


@pytest.mark.parametrize("tensor", DEGREES)
def test_every_degree_as_by_hand(tensor: int) -> None:
    expected, found = ByHand(tensor), timed(tensor)
    ahead, back, last = (128 * one for one in expected.phases())
    update_s = 16 * PARAMETERS / tensor / 2039e9
    assert found.phases_s == pytest.approx(
        {
            "forward_compute": ahead,
            "forward_comm": expected.tensor_s() / 2,
            "input_gradient_compute": back,
            "input_gradient_comm": expected.tensor_s() / 2,
            "weight_gradient_compute": last + update_s,
            "weight_gradient_comm": 0.0,
        },
        rel=1e-12,
    )
    assert sum(found.phases_s.values()) == pytest.approx(found.iteration_time_s, rel=1e-12)
    # ZeRO-2 without activations and buffers: 2 P/t + 14 P/n.
    footprint = 2 * PARAMETERS / tensor + 14 * PARAMETERS / 1024
    assert found.memory_bytes == pytest.approx(footprint, rel=1e-12)


@pytest.mark.parametrize("tensor", DEGREES)
def test_physical_reading_as_by_hand(tensor: int) -> None:
    expected, found = ByHand(tensor, chunks=16), timed(tensor, "comet", tensor // 8 or None)
    update_s = 28 * PARAMETERS / 1024 / 2039e9
    assert found.breakdown_s["update"] == pytest.approx(update_s, rel=1e-12)
    assert found.breakdown_s["data_comm"] == pytest.approx(expected.queued_s(update_s), rel=1e-9)
    assert found.breakdown_s["tensor_comm"] == pytest.approx(expected.tensor_s(), rel=1e-12)
    working = expected.tokens * (16 * 25600 + 2 * 160 * 2048)
    assert found.memory_parts_bytes["activations"] == pytest.approx(working, rel=1e-12)


@pytest.mark.parametrize("tensor", DEGREES)
@pytest.mark.parametrize(("size", "rate"), [(480e9, 500e9), (201e9, 1000e9), (1e13, 2039e9)])
def test_expanded_memory_as_by_hand(tensor: int, size: float, rate: float) -> None:
    """Eq. 3 where it does not fit, whether both memories hold it or not."""
    footprint = 2 * PARAMETERS / tensor + 14 * PARAMETERS / 1024
    spilled = max(footprint - 80e9, 0)
    expected = ByHand(tensor)
    expected.bytes_per_s = footprint / ((footprint - spilled) / 2039e9 + spilled / rate)
    update_s = 16 * PARAMETERS / tensor / expected.bytes_per_s
    seconds = 128 * sum(expected.phases()) + update_s + expected.tensor_s()
    both = Expanded(size, rate)
    found = timed(tensor, memory_bytes=80e9, expanded=both, ignore_memory=True)
    assert found.iteration_time_s == pytest.approx(seconds, rel=1e-12)


@pytest.mark.parametrize("tensor", [1, 8, 64])
@pytest.mark.parametrize("model", ["comet", "comet-fit"])
def test_an_expanded_memory_that_is_as_fast_is_one_memory(model: str, tensor: int) -> None:
    one = timed(tensor, model)
    two = timed(tensor, model, memory_bytes=80e9, expanded=Expanded(4e12, 2039e9))
    assert two.iteration_time_s == pytest.approx(one.iteration_time_s, rel=1e-12)
    slower = timed(tensor, model, memory_bytes=80e9, expanded=Expanded(4e12, 100e9))
    assert (slower.iteration_time_s > one.iteration_time_s * 1.001) == (one.memory_bytes > 80e9)


def test_the_batch_of_megatron_gives_other_optima_than_the_papers_figures() -> None:
    """What the physical reading makes of 3,072 sequences, to the digits that were found for it."""
    states = _with(
        memory={"policy": "uniform", "activations": "none"}, space={"microbatches": "one"}
    )
    setting = training(batch=3072, assumptions=states)
    assert search_plans(setting, PODS).best.plan.tensor == 2

    def seconds(tensor: int, **changes: object) -> float:
        only = Options(fixed=Fixed(tensor=tensor))
        return search_plans(replace(setting, **changes), PODS, options=only).best.iteration_time_s

    assert seconds(8, flops_per_s=312e12) / seconds(8) == pytest.approx(1.8, abs=0.01)
    both = {"memory_bytes": 80e9, "ignore_memory": True}
    assert seconds(8, **both, expanded=Expanded(480e9, 180e9)) > seconds(64)
    assert seconds(8, **both, expanded=Expanded(480e9, 210e9)) < seconds(64)


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
@pytest.mark.parametrize(
    ("tensor", "batch", "microbatches"),
    [
        *((tensor, 3072, several) for tensor in (1, 2, 8, 64) for several in (1, 3)),
        *((8, 3072, several) for several in (2, 8, 24)),
        *((64, 48, several) for several in (1, 3)),
        (8, 128, 1),
    ],
)
def test_accumulated_gradients_as_in_a_queue(
    tensor: int, batch: int, microbatches: int, zero: Zero
) -> None:
    share = batch * tensor // 1024
    fixed = Fixed(tensor=tensor, microbatch=share // microbatches)
    setting = training("comet", batch=batch)
    found = search_plans(setting, PODS, options=Options(zero_stage=zero, fixed=fixed)).best
    assert found.plan.microbatches == microbatches
    expected = ByHand(tensor, chunks=16, tokens=2048 * batch // microbatches)
    parts = found.breakdown_s
    update_s = parts["update"]
    assert parts["tensor_comm"] == pytest.approx(microbatches * expected.tensor_s(), rel=1e-12)
    queued_s = expected.queued_s(update_s, microbatches, zero)
    assert parts["data_comm"] == pytest.approx(queued_s, rel=1e-9)
    assert sum(found.phases_s.values()) == pytest.approx(found.iteration_time_s, rel=1e-12)


def test_the_batch_of_megatron_fits_in_microbatches() -> None:
    """One of 192 sequences needs 45.2 GB and 418.8 GB; 16 of 12 need 45.2 and 26.2."""
    found = search_plans(training("comet", memory_bytes=80e9, batch=3072), PODS, top=1000)
    plan = found.best.plan
    assert (plan.tensor, plan.microbatches, plan.microbatch) == (64, 16, 12)
    working = 12 * 2048 * (16 * 25600 + 2 * 160 * 2048)
    states = 2 * PARAMETERS / 64 + 14 * PARAMETERS / 1024
    assert found.best.memory_bytes == pytest.approx(states + working, rel=1e-12)
    assert all(entry.plan.microbatches > 1 for entry in found.plans)
    # More of them read the weights more often.
    tensor = [entry for entry in found.plans if entry.plan.tensor == 64]
    tensor.sort(key=lambda entry: entry.plan.microbatches)
    assert all(a.iteration_time_s <= b.iteration_time_s for a, b in pairwise(tensor))
    assert all(a.memory_bytes > b.memory_bytes for a, b in pairwise(tensor))


def test_gradients_wait_for_their_layers_and_for_those_before() -> None:
    """Both regimes occur: a queue that never empties, and one that does after each layer."""
    ours = [timed(tensor, "comet", batch=batch) for tensor, batch in ((8, 128), (8, 8192))]
    slow, fast = (one.breakdown_s["data_comm"] for one in ours)
    whole = ByHand(8).all_reduce_s(1, 128, 2 * PARAMETERS / 8)
    assert whole == pytest.approx(15.98029824, rel=1e-9)
    assert fast == pytest.approx(whole / 128, rel=1e-12)  # the last layer's alone
    assert whole / 128 < slow < whole


@pytest.mark.parametrize("model", ["comet", "comet-fit"])
def test_the_space_is_all_powers_of_two(model: str) -> None:
    found = search_plans(training(model), PODS, top=100)
    # Replicas of degrees 8 and more have 1, 2, 4 ... sequences, which are cut in 1, 2, 3 ... ways.
    ways = [1, 1, 1, *range(1, 9)] if model == "comet" else [1] * 11
    assert found.enumerated == found.feasible == len(found.plans) == sum(ways)
    tensors = sorted(one.plan.tensor for one in found.plans)
    assert tensors == [tensor for tensor, n in zip(DEGREES, ways, strict=True) for _ in range(n)]
    for one in found.plans:
        assert one.plan.gpus == 1024
        assert one.plan.microbatch * one.plan.microbatches * one.plan.data == 128
        assert one.plan.microbatches == 1 or one.plan.microbatch >= 1
        assert one.plan.pipeline == one.plan.context == 1
    inside = {one.plan.tensor: one.plan.placement.levels[0].tensor for one in found.plans}
    assert [inside[tensor] for tensor in DEGREES] == [1, 2, 4, *[8] * 8]
    assert found.best.iteration_time_s == min(one.iteration_time_s for one in found.plans)


@pytest.mark.parametrize(
    ("memory_bytes", "fewest"), [(80e9, 32), (560e9, 4), (281e9, 8), (15.8e9, 1024)]
)
def test_smallest_degree_that_fits(memory_bytes: float, fewest: int) -> None:
    found = search_plans(training(memory_bytes=memory_bytes), PODS, top=100)
    assert min(one.plan.tensor for one in found.plans) == fewest
    fitting = {one.plan.tensor for one in found.plans}
    assert fitting == {tensor for tensor in DEGREES if tensor >= fewest}


@given(st.floats(1e-2, 1e5), st.floats(1e-2, 1e5), st.floats(1e-2, 1e5), st.floats(1e3, 1e9))
def test_traffic_is_between_one_pass_and_a_piece_at_a_time(
    rows: float, inner: float, columns: float, sram: float
) -> None:
    once = 2 * (rows * inner + inner * columns + rows * columns)
    moved = gemm_traffic_bytes(rows, inner, columns, sram_bytes=sram)
    assert once * (1 - 1e-12) <= moved
    assert moved == pytest.approx(gemm_traffic_bytes(columns, inner, rows, sram_bytes=sram))
    assert moved >= gemm_traffic_bytes(rows, inner, columns, sram_bytes=2 * sram) * (1 - 1e-12)
    fits = 2 * inner * min(rows, columns)
    assert gemm_traffic_bytes(rows, inner, columns, sram_bytes=fits) == pytest.approx(once)


def _refused(setting: TrainedModel, options: Options, words: dict[str, Any]) -> str:
    with pytest.raises((InputError, NoPlanError)) as error:
        search_largest(setting, options=options, **{"levels": PODS} | words)
    return str(error.value)


@pytest.mark.parametrize(
    ("options", "words", "said"),
    [
        (Options(Variant(experts=8)), {}, "tiled operations cover dense 1d layers"),
        (Options(Variant(lm_head=True)), {}, "tiled operations cover dense 1d layers"),
        (Options(Variant(embedding=True)), {}, "tiled operations cover dense 1d layers"),
        (Options(), {"strategy": "2d"}, "tiled operations cover dense 1d layers"),
        (Options(), {"strategy": "summa"}, "tiled operations cover dense 1d layers"),
        (Options(interleave="any"), {}, "no pipeline whose stages interleave"),
        (Options(fixed=Fixed(pipeline=2)), {}, "has pipeline 2: free one of them"),
        (Options(fixed=Fixed(tensor=3)), {}, "has tensor 3: free one of them"),
        (Options(), {"levels": (PODS[0], Level("switch", 125, 31.25e9))}, "give 512 or 1,024"),
    ],
)
def test_what_is_not_covered_is_refused(options: Options, words: dict[str, Any], said: str) -> None:
    message = _refused(training(), options, words)
    assert said in message
    assert "\n" not in message


def test_memory_on_the_chip_is_needed() -> None:
    with pytest.raises(InputError, match=r"needs the accelerator's memory on the chip, got none"):
        training(sram_bytes=0.0)


def test_other_degrees_are_those_that_the_bounds_are_not_proven_for() -> None:
    assert not PlanSearch(training()).dense


def _with(**parts: dict[str, object]) -> IterationModel:
    model = ITERATION_MODELS.load("comet")
    changed = {name: replace(getattr(model, name), **part) for name, part in parts.items()}
    return replace(model, **changed)


def test_sharded_weights_move_half_as_much_again() -> None:
    """ZeRO 3 gathers weights once more: 1.5 times the bytes of an all_reduce, in one chunk."""
    exposed = _with(communication={"chunks": 1})
    by_stage = [
        search_plans(
            training(batch=1, assumptions=exposed),
            PODS,
            options=Options(zero_stage=stage, fixed=Fixed(tensor=8)),
        ).best.breakdown_s["data_comm"]
        for stage in (0, 1, 2, 3)
    ]
    # Whole states take longer to update, behind which more hides.
    assert by_stage[0] < by_stage[1] == by_stage[2]
    # With a batch of one sequence nothing hides: the queue takes as long as all of it, but for the
    # time until the first layer's gradients are there.
    whole = ByHand(8).all_reduce_s(1, 128, 2 * PARAMETERS / 8)
    assert by_stage[2] == pytest.approx(whole, rel=0.05)
    assert by_stage[3] - by_stage[2] == pytest.approx(whole / 2, rel=1e-9)


def test_full_recomputation_runs_forward_twice() -> None:
    plain, again = (
        search_plans(
            training(), PODS, options=Options(Variant(one), fixed=Fixed(tensor=8))
        ).best.phases_s
        for one in ("none", "full")
    )
    more = again["input_gradient_compute"] - plain["input_gradient_compute"]
    assert more == pytest.approx(plain["forward_compute"], rel=1e-12)
    assert again["input_gradient_comm"] == pytest.approx(2 * plain["input_gradient_comm"])


def test_mapped_kernels_are_not_tiled() -> None:
    chip = replace(ACCELERATORS.load("a100-80gb"), sram_bytes=40e6)
    mapped = Options(execution=LayerExecution(chip, "fused"))
    message = _refused(training(), mapped, {})
    assert message.startswith("kernels are mapped onto the chip or tiled, and iteration model")


@pytest.mark.parametrize("model", ["comet", "comet-fit"])
def test_closed_forms_alone_are_not_simulated(model: str) -> None:
    found = search_plans(training(model), PODS)
    with pytest.raises(InputError, match=f"iteration model {model} has some of them"):
        plan_work(found.settings[0], found.best, PODS)


@pytest.mark.parametrize("name", ["llama-3-70b", "gpt-175b", "transformer-1t"])
def test_weights_and_flops_are_those_of_the_model(name: str) -> None:
    """Grouped keys and gates included: 24 h^2 bytes of a plain layer, 2 FLOP a weight and token."""
    model = MODELS.load(name)
    layer = tiled_layer(model, Sharding.of(0.25, tensor=4), sram_bytes=40e6)
    weights = sum(float(np.sum(one.weight_bytes)) for one in layer.operations)
    assert weights == pytest.approx(2 * layer_parameters(model) / 4, rel=1e-12)
    tokens, length = 0.25 * model.sequence_length, model.sequence_length
    products = 2 * tokens * layer_parameters(model) / 4
    scores = 4 * tokens * length * model.hidden_size / 4
    for phase in ("forward", "backward", "weight_gradient"):
        works = [getattr(one, phase) for one in layer.operations]
        flops = sum(float(np.sum(work.tensor_flops)) for work in works)
        assert flops == pytest.approx(products + scores, rel=1e-12)


def test_weights_that_are_read_are_part_of_the_traffic() -> None:
    layer = tiled_layer(MODELS.load("transformer-1t"), Sharding.of(1, tensor=8), sram_bytes=40e6)
    up = next(one for one in layer.operations if one.name == "up")
    # 105 MB of inputs in three pieces: the weights are read three times forward. Backward the
    # gradients of the results, 52 MB, have two pieces; the weights' own are written once.
    assert up.forward.weight_bytes == pytest.approx(3 * 655_360_000)
    assert up.backward.weight_bytes == pytest.approx(2 * 655_360_000)
    assert up.weight_gradient.gradient_bytes == pytest.approx(655_360_000)
    for work in (up.forward, up.backward, up.weight_gradient):
        assert np.all(work.weight_bytes + work.gradient_bytes <= work.moved_bytes)
