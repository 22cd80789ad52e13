"""Memory model ``stack``: vectors, properties, least counts against loops, refusals."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.arrays import Floats
from netplan.errors import InputError
from netplan.performance.memory_verdict import (
    check_offload,
    check_recomputation,
    memory_verdict,
    peaks_of,
)
from netplan.performance.stack_memory import FORMATS, Held, PlanSizes, StackMemory
from netplan.performance.stacks import STACKS, MemoryOfStack, MemoryRow, Stack
from netplan.performance.stage_layers import heaviest_stages
from netplan.published.measured_runs import run_memories
from netplan.records import RecordError, replace
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.models import MODELS, Experts, Mamba, Model
from netplan.workloads.program import stage_layers
from netplan.workloads.recomputation import NOTHING, Recomputation

HERE = Path(__file__).parent
H100_BYTES = ACCELERATORS.load("h100-80gb").usable_bytes
LLAMA, DEEPSEEK = MODELS.load("llama-3-405b"), MODELS.load("deepseek-v3")
MEGATRON = MemoryOfStack(software="megatron")
PLAN = PlanSizes(1, 16, tensor=8, context=1, stages=16, interleave=8, data=128)
EXPERT_PLAN = PlanSizes(1, 120, tensor=1, context=1, stages=16, interleave=1, data=128, expert=64)


def rows(name: str) -> list[dict[str, str]]:
    with (HERE / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def model_of(**sizes: object) -> Model:
    return Model.read(
        {"name": "some", "title": "some", "source": "a test", "date": "2026-11", "batch": 1} | sizes
    )


@pytest.mark.parametrize("row", rows("stack_memory_vectors"), ids=lambda row: row["case"])
def test_every_path_gives_what_was_computed_elsewhere(row: dict[str, str]) -> None:
    rules, asked = json.loads(row["rules"]), json.loads(row["held"])
    memory = StackMemory(
        model_of(**json.loads(row["model"])), MemoryOfStack(software=rules.pop("software")), **rules
    )
    recompute = Recomputation.read(asked.pop("recompute", "none"))
    held = memory.held(PlanSizes(**json.loads(row["sizes"])), recompute=recompute, **asked)
    assert held.total[0] == pytest.approx(float(row["bytes"]), rel=1e-6)
    assert held.stage[0] == int(row["stage"])
    for part, expected in json.loads(row["parts"]).items():
        assert getattr(held, part)[0] == pytest.approx(expected, rel=1e-6), part


def test_every_published_run_gives_what_was_computed_elsewhere() -> None:
    expected = {(row["table"], row["id"]): row for row in rows("stack_memory_rows")}
    runs = {(table, run.name): run for table, some in run_memories().items() for run in some}
    assert runs.keys() == expected.keys()
    for key, run in runs.items():
        assert run.bytes == pytest.approx(float(expected[key]["bytes"]), rel=1e-6), key
        assert run.verdict == expected[key]["verdict"], key


def test_llama_405b_by_hand() -> None:
    # T h / t = 8,192 x 16,384 / 8 = 16.78e6. A layer keeps of it: norm 1 (2 + 2), q, k, v
    # 2 (1 + 2 x 8 / 128), attention 2 + 4 x 16 x 8 / 16,384 (log-sums of 16 heads), norm 2 4,
    # feed-forward 3.25 (2 x 2 + 2).
    unit = 8192 * 16384 / 8
    kept = {"norm 1": 4.0, "qkv": 2.25, "attention": 2.03125, "norm 2": 4.0, "ffn": 19.5}
    memory = StackMemory(LLAMA, MEGATRON)
    rows_of = memory.by_operation(PLAN)["dense"]
    # log-sums: 4 T n = 4 x 8,192 x 16 bytes, 0.03125 of T h / t = 16.78e6 bytes
    assert {name: amount / unit for name, amount in rows_of.items()} == pytest.approx(kept)
    # In flight of stage 1: min(16 x 8, 2 (16 - 2) + 7 x 16 + 1) / 8 = 128 / 8 = 16; 8 layers.
    held = memory.held(PLAN)
    assert (held.stage[0], held.in_flight[0], held.layers[0]) == (1, 16, 8)
    assert held.activations[0] == pytest.approx(16 * 8 * 31.78125 * unit)
    # Backward: 2 T h + 2 T f g = (16 + 2 x 2 x 53,248 / 16,384 = 13) unit.
    assert held.head_or_backward[0] == pytest.approx(29 * unit)
    assert held.states[0] / 1e9 == pytest.approx(19.43, abs=0.005)
    assert [round(held.total[0] / 1e9, 1), round(memory.held(PLAN, zero=2).total[0] / 1e9, 1)] == [
        88.3,
        75.6,
    ]
    blocked = memory.held(PLAN, recompute=Recomputation.read("block:2")).total[0]
    assert round(blocked / 1e9, 1) == 72.8
    shown = [memory_verdict(float(peak), H100_BYTES) for peak in (held.total[0], blocked)]
    assert shown == ["tight", "fit"]
    default = StackMemory(LLAMA, MemoryOfStack(software="megatron-bridge")).held(PLAN)
    assert round(default.total[0] / 1e9, 1) == 81.9


def oracle_stages(layers: int, stages: int) -> list[int]:
    """The rest goes to the second stage on, then to the first; never to the last."""
    whole, rest = divmod(layers, stages)
    cut = [whole] * stages
    for stage in [*range(1, stages - 1), 0][:rest]:
        cut[stage] += 1
    return cut


@settings(deadline=None, max_examples=60)
@given(
    layers=st.integers(1, 70),
    stages=st.integers(1, 70),
    sparse=st.tuples(st.integers(0, 12), st.integers(1, 4)),
    recompute=st.sampled_from(["none", "half", "full", "moe_act", "block:1"]),
    schedule=st.sampled_from([None, "gpipe", "zb-2p", "v-min"]),
    interleave=st.sampled_from([1, 2]),
)
def test_no_stage_holds_more_than_the_fullest(
    layers: int,
    stages: int,
    sparse: tuple[int, int],
    recompute: str,
    schedule: str | None,
    interleave: int,
) -> None:
    stages = min(stages, layers)
    dense, every = sparse
    experts = Experts(count=8, per_token=2, ffn_size=96, dense_first_layers=dense, every=every)
    if not experts.sparse_layers(layers):
        return
    model = model_of(
        layers=layers, hidden_size=64, heads=4, vocabulary=512, sequence_length=128, ffn_size=256,
        experts=experts,
    )  # fmt: skip
    memory = StackMemory(model, MEGATRON, schedule=schedule)
    plan = PlanSizes(1, 2 * stages, 2, 1, stages, interleave, 4, 2)
    asked = Recomputation.read(recompute)
    held = memory.held(plan, recompute=asked)
    all_stages = [memory.held(plan, recompute=asked, stage=i).total[0] for i in range(stages)]
    assert held.total[0] == max(all_stages)
    assert held.stage[0] == int(np.argmax(all_stages))
    spelled = replace(memory, stage_layers=tuple(oracle_stages(layers, stages)))
    assert spelled.held(plan, recompute=asked).total[0] == held.total[0]


def test_stages_have_all_layers() -> None:
    for stages in range(1, 127):
        cut = oracle_stages(126, stages)
        index = np.arange(stages)
        parts = [heaviest_stages(LLAMA, np.array([float(stages)]), (), float(i)) for i in index]
        assert [int(part.layers[0, 0]) for part in parts] == cut
        assert stage_layers(126, stages).tolist() == cut  # where their time is counted
        assert [int(part.first[0, 0]) for part in parts] == [sum(cut[:i]) for i in index]


def test_torch_with_shared_weights_has_states_of_its_optimizer() -> None:
    """Of a weight 4 bytes, and of Adam 8 more, of which the host may hold some; of SGD none."""
    torch = StackMemory(MODELS.load("llama-3-8b"), MemoryOfStack(software="fsdp2"))
    plan = PlanSizes(1, 1, 1, 1, 1, 1, 64)
    adam = torch.held(plan, zero=3)
    assert adam.optimizer[0] == 2 * adam.weights[0]
    assert replace(torch, optimizer_offload=0.75).held(plan, zero=3).optimizer[0] == (
        pytest.approx(adam.optimizer[0] / 4)
    )
    assert replace(torch, optimizer_bytes=4.0).held(plan, zero=3).optimizer[0] == 0


SIZES = st.fixed_dictionaries(
    {
        "microbatch": st.sampled_from([1, 2, 4]),
        "microbatches": st.sampled_from([1, 7, 16, 64]),
        "tensor": st.sampled_from([1, 2, 4, 8]),
        "context": st.sampled_from([1, 2]),
        "stages": st.sampled_from([1, 2, 3, 8, 16]),
        "interleave": st.sampled_from([1, 2, 3]),
        "data": st.sampled_from([1, 8, 64]),
        "expert": st.sampled_from([1, 8]),
    }
)
SOFTWARE = st.sampled_from(["megatron", "megatron-bridge", "fsdp2", "deepspeed", "maxtext"])
MODELS_OF_TESTS = st.sampled_from([LLAMA, DEEPSEEK, MODELS.load("mixtral-8x7b")])


@settings(deadline=None, max_examples=80)
@given(
    model=MODELS_OF_TESTS,
    software=SOFTWARE,
    sizes=SIZES,
    zero=st.integers(0, 3),
    precision=st.sampled_from(sorted(FORMATS)),
)
def test_more_of_anything_takes_more(
    model: Model, software: MemoryRow, sizes: dict[str, int], zero: int, precision: str
) -> None:
    memory = StackMemory(model, MemoryOfStack(software=software), precision=precision)
    total = memory.held(PlanSizes(**sizes), zero=zero).total[0]

    def other(memory: StackMemory = memory, **changed: int) -> float:
        return float(memory.held(PlanSizes(**(sizes | changed)), zero=zero).total[0])

    assert other(microbatch=2 * sizes["microbatch"]) > total
    for key, more in (("sequence_length", 1024), ("layers", 1), ("vocabulary", 1024)):
        larger = model.changed(**{key: getattr(model, key) + more})
        assert other(replace(memory, model=larger)) >= total
    assert other(data=2 * sizes["data"]) <= total
    # Experts are shared by no more GPUs for a larger tensor degree.
    if model.experts is None or sizes["expert"] == 1:
        assert other(tensor=2 * sizes["tensor"]) <= total or sizes["tensor"] == 1
    if sizes["stages"] == 1:
        assert other(interleave=4) == total


@settings(deadline=None, max_examples=60)
@given(sizes=SIZES, zero=st.integers(1, 3))
def test_every_rung_frees_memory(sizes: dict[str, int], zero: int) -> None:
    plan = PlanSizes(**sizes)
    ladder = ["none", "moe_act", "moe_act+layernorm", "moe_act+layernorm+mla_up_proj", "full"]
    memory = StackMemory(DEEPSEEK, MEGATRON)
    held = [memory.held(plan, recompute=Recomputation.read(rung), zero=zero) for rung in ladder]
    activations = [float(rung.activations[0]) for rung in held]
    assert activations == sorted(activations, reverse=True)
    for less, more in zip(activations[1:4], activations[:3], strict=True):
        assert less < more
    assert memory.held(plan, zero=2).total[0] <= memory.held(plan, zero=1).total[0]


@settings(deadline=None, max_examples=40)
@given(sizes=SIZES, model=MODELS_OF_TESTS, rung=st.sampled_from(["none", "full", "core_attn"]))
def test_operations_add_up_to_the_activations(
    sizes: dict[str, int], model: Model, rung: str
) -> None:
    memory, plan = StackMemory(model, MEGATRON), PlanSizes(**sizes)
    recompute = Recomputation.read(rung)
    held = memory.held(plan, recompute=recompute)
    kinds = memory.by_operation(plan, recompute=recompute)
    cut = oracle_stages(model.layers, sizes["stages"])
    stage = int(held.stage[0])
    first = sum(cut[:stage])
    dense = model.experts.dense_first_layers if model.experts else model.layers
    layers = ["dense" if i < dense else "experts" for i in range(first, first + cut[stage])]
    if stage == sizes["stages"] - 1:
        layers += ["experts"] * model.prediction_layers
    kept = sum(sum(kinds[kind].values()) for kind in layers)
    tokens = sizes["microbatch"] * model.sequence_length / sizes["context"]
    kept += 2 * tokens / sizes["tensor"] * model.hidden_size if stage == 0 else 0.0
    assert held.activations[0] == pytest.approx(held.in_flight[0] * kept)


def test_sequence_parallelism_needs_several_tensor_gpus() -> None:
    for tensor, same in ((1, True), (2, False)):
        plan = PlanSizes(1, 16, tensor, 1, 16, 1, 128)
        totals = [
            StackMemory(LLAMA, MEGATRON, sequence_parallel=cut).held(plan).total[0]
            for cut in (True, False)
        ]
        assert bool(totals[0] == totals[1]) is same


def many_plans(count: int = 60, expert: float = 8.0) -> PlanSizes:
    random = np.random.default_rng(3)

    def some(*values: float) -> Floats:
        return random.choice(np.array(values), count)

    return PlanSizes(
        some(1, 2),
        some(4, 16, 64),
        some(1, 2, 4, 8),
        1.0,
        some(1, 2, 4, 6, 16),
        1.0,
        some(8, 128),
        expert,
    )


def loop_least(most: int, held: Callable[[float], Held]) -> int:
    for count in range(1, most + 1):
        if memory_verdict(float(held(float(count)).total[0]), H100_BYTES) == "fit":
            return count
    return 0


@pytest.mark.parametrize(
    ("model", "expert"), [("llama-3-70b", 1.0), ("mixtral-8x7b", 8.0), ("deepseek-v3", 64.0)]
)
def test_least_counts_are_those_of_a_loop(model: str, expert: float) -> None:
    memory = StackMemory(MODELS.load(model), MEGATRON)
    plans = many_plans(expert=expert)
    sure_bytes, _ = peaks_of(H100_BYTES)
    blocks = memory.on_stages(plans, zero=1).least_block(sure_bytes)
    layers = memory.on_stages(plans, zero=3).least_offload(sure_bytes)
    assert len({*blocks}) > 2
    for number in range(len(blocks)):
        plan = plans.take(slice(number, number + 1))
        stages = int(np.ravel(plan.stages)[0])

        def blocked(count: float, plan: PlanSizes = plan) -> Held:
            return memory.held(plan, block=count)

        def offloaded(count: float, plan: PlanSizes = plan) -> Held:
            return memory.held(plan, zero=3, offload_layers=count)

        most = -(-memory.model.layers // stages) - 1
        assert blocks[number] == loop_least(most, blocked)
        most = memory.model.layers - 1 if stages == 1 else 0
        assert layers[number] == loop_least(most, offloaded)


def test_plans_together_are_plans_alone() -> None:
    memory, plans = StackMemory(DEEPSEEK, MEGATRON), many_plans()
    block: Floats = np.arange(60, dtype=np.float64) % 3
    together = memory.held(plans, zero=2, block=block)
    for number in range(60):
        alone = memory.held(plans.take(slice(number, number + 1)), zero=2, block=float(number % 3))
        for name in Held.__struct_fields__:
            assert getattr(alone, name)[0] == getattr(together, name)[number], name


def test_offloaded_layers_are_those_that_keep_least() -> None:
    # Mixtral with dense layers of the width of one expert, which keep less: they go first.
    experts = Experts(count=8, per_token=2, ffn_size=512, every=2)
    model = model_of(
        layers=6, hidden_size=256, heads=4, vocabulary=512, sequence_length=128, ffn_size=512,
        experts=experts,
    )  # fmt: skip
    memory, plan = StackMemory(model, MEGATRON), PlanSizes(1, 1, 1, 1, 1, 1, 8)
    kinds = {kind: sum(ops.values()) for kind, ops in memory.by_operation(plan).items()}
    assert kinds["dense"] < kinds["experts"]
    kept = [memory.held(plan, offload_layers=count).activations[0] for count in range(6)]
    steps = [kinds["dense"]] * 3 + [kinds["experts"]] * 2
    assert -np.diff(kept) == pytest.approx(steps)


def test_a_hybrid_has_its_share_of_blocks_everywhere() -> None:
    model = model_of(
        layers=12, hidden_size=256, heads=4, vocabulary=512, sequence_length=128, ffn_size=512,
        mamba=Mamba(layers=6, heads=8, head_size=32, state=16, groups=2), attention_layers=2,
    )  # fmt: skip
    memory = StackMemory(model, MEGATRON)
    whole = memory.held(PlanSizes(1, 1, 1, 1, 1, 1, 8))
    kinds = {k: sum(ops.values()) for k, ops in memory.by_operation(
        PlanSizes(1, 1, 1, 1, 1, 1, 8)).items()}  # fmt: skip
    kept = 6 * kinds["mamba"] + 2 * kinds["attention"] + 4 * kinds["ffn"]
    assert whole.activations[0] == pytest.approx(kept + 2 * 128 * 256)
    halves = [memory.held(PlanSizes(1, 8, 1, 1, 2, 1, 8), stage=i) for i in (0, 1)]
    both = [half.activations[0] / half.in_flight[0] for half in halves]
    assert both[0] - 2 * 128 * 256 == pytest.approx(both[1]) == pytest.approx(kept / 2)
    assert (memory.basis, memory.checked_kind) == ("unchecked", False)


def test_what_may_be_refused() -> None:
    assert StackMemory(LLAMA, MEGATRON).basis == "checked"
    low = StackMemory(LLAMA, MEGATRON, precision="fp8")
    assert (low.basis, low.checked_kind) == ("unchecked", True)
    software: MemoryRow
    for software in ("deepspeed", "maxtext"):
        other = StackMemory(LLAMA, MemoryOfStack(software=software))
        assert (other.basis, other.checked_kind) == ("unchecked", False)
    assert memory_verdict(2e11, H100_BYTES) == "no"
    assert memory_verdict(2e11, H100_BYTES, checked_kind=False) == "tight"
    # 0.88 x 94.3 + 2 = 84.98 of 84.94 GB; 1.03 x 80.5 + 2 = 84.92
    assert [memory_verdict(peak, H100_BYTES) for peak in (94.2e9, 94.3e9)] == ["tight", "no"]
    assert [memory_verdict(peak, H100_BYTES) for peak in (80.5e9, 80.6e9)] == ["fit", "tight"]


def test_stack_files_say_what_they_hold() -> None:
    held = {name: STACKS.load(name).memory for name in STACKS.paths()}
    assert {name: memory.software for name, memory in held.items() if memory} == {
        "fsdp-compiled": "fsdp2-2024-compile",
        "fsdp-eager": "fsdp2-2024",
        "llm-foundry-2023": "llm-foundry",
        "maxtext": "maxtext",
        "megatron-2022": "megatron-2022",
        "megatron-2025": "megatron-bridge",
        "megatron-deepspeed-2022": "megatron-2022",
        "nemo-2024": "megatron",
        "zero-bubble-2023": "megatron-2022",
    }
    own = STACKS.load("nemo-2024", overrides={"stack.memory.head_bytes": "10"}).memory
    assert own == MemoryOfStack(software="megatron", head_bytes=10.0, tensor_head_bytes=10.0)
    assert MemoryOfStack(software="fsdp2").tensor_head_bytes == 20
    with pytest.raises(RecordError, match=r"memory\.software: got 'other'"):
        Stack.read(STACKS.load("nemo-2024").to_dict() | {"memory": {"software": "other"}})


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"precision": "fp16"}, "precision 'fp16' is none of training: use bf16, fp8"),
        ({"optimizer_offload": 1.5}, "optimizer: got 1.5"),
        ({"imbalance": 0.5}, "imbalance: got 0.5"),
        ({"stage_layers": (63, 64)}, "stages of 63, 64 layers have 127 of the 126"),
    ],
)
def test_rules_that_no_software_has_are_refused(rules: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        StackMemory(LLAMA, MEGATRON, **rules)


@pytest.mark.parametrize(
    ("recompute", "model", "software", "precision", "message"),
    [
        ("moe_act", LLAMA, "megatron", "bf16", "llama-3-405b has no experts"),
        ("moe", LLAMA, "megatron", "bf16", "llama-3-405b has no experts"),
        ("shared_experts", LLAMA, "megatron", "bf16", "llama-3-405b has no experts"),
        ("mla_up_proj", LLAMA, "megatron", "bf16", "no latent attention"),
        ("layernorm", LLAMA, "megatron", "bf16", "it frees nothing in llama-3-405b"),
        ("sac-op", LLAMA, "megatron", "bf16", "software of torch"),
        ("moe_act", DEEPSEEK, "megatron", "fp8-delayed", "delayed scaling"),
        ("moe_act+layernorm", DEEPSEEK, "megatron", "fp8-delayed", "delayed scaling"),
        ("block:127", LLAMA, "megatron", "bf16", "a stage has 126 layers"),
        ("mlp", MODELS.load("mixtral-8x7b"), "megatron", "bf16", "no dense layers"),
    ],
)
def test_what_cannot_be_computed_again_is_refused(
    recompute: str, model: Model, software: MemoryRow, precision: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        check_recomputation(
            Recomputation.read(recompute), model, MemoryOfStack(software=software), precision
        )


def test_what_can_be_computed_again_is_not_refused() -> None:
    for recompute, model, software in (
        ("sac-op", LLAMA, "fsdp2"),
        ("moe_act+layernorm+mla_up_proj", DEEPSEEK, "megatron-bridge"),
        ("mlp", DEEPSEEK, "megatron"),
        ("block:8", LLAMA, "megatron"),
        ("none", LLAMA, "megatron"),
    ):
        stack = MemoryOfStack(software=software)  # type: ignore[arg-type]
        check_recomputation(Recomputation.read(recompute), model, stack, "bf16", stage_layers=8)
    with pytest.raises(InputError, match="a stage has 8 layers"):
        check_recomputation(Recomputation.read("block:9"), LLAMA, MEGATRON, "bf16", stage_layers=8)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"attention_layers": 2}, "mamba and attention_layers describe a hybrid together"),
        (
            {"mamba": {"layers": 6, "heads": 8, "head_size": 2, "state": 4}, "attention_layers": 7},
            "together more than the 12 layers",
        ),
        ({"mamba": {"layers": 6, "heads": 8, "head_size": 2, "state": 4, "groups": 3}}, "groups 3"),
        ({"experts": {"count": 8, "per_token": 2, "capacity_factor": 0}}, "greater than 0"),
    ],
)
def test_models_that_do_not_add_up_are_refused(changed: dict[str, Any], message: str) -> None:
    sizes = {"layers": 12, "hidden_size": 64, "heads": 4, "vocabulary": 8, "sequence_length": 8}
    with pytest.raises(RecordError, match=message):
        model_of(**sizes, **changed)


def test_another_capacity_is_usable_in_the_same_share() -> None:
    chip = ACCELERATORS.load("h100-80gb")
    half = ACCELERATORS.load("h100-80gb", overrides={"accelerator.memory_bytes": "40e9"})
    assert half.usable_bytes == pytest.approx(chip.usable_bytes / 2)
    given = {"h100-80gb.memory_bytes": "40e9", "h100-80gb.usable_bytes": "39e9"}
    assert ACCELERATORS.load("h100-80gb", overrides=given).usable_bytes == 39e9
    assert ACCELERATORS.load("mi300x").usable_bytes == 0.98 * 192e9
    with pytest.raises(ValueError, match=r"more than 1\.08 x memory_bytes"):
        chip.changed(usable_bytes=87e9)


def test_activations_are_offloaded_of_one_stage_alone() -> None:
    half = Recomputation.read("half")
    for layers, stages, recompute, message in (
        (126, 1, NOTHING, "give 0 to 125"),
        (-1, 1, NOTHING, "give 0 to 125"),
        (40, 2, NOTHING, "with 2 pipeline stages"),
        (40, 1, half, "with --recompute half"),
    ):
        with pytest.raises(InputError, match=message):
            check_offload(layers, LLAMA, stages=stages, recompute=recompute)
    check_offload(125, LLAMA, stages=1, recompute=NOTHING)
    check_offload(0, LLAMA, stages=16, recompute=half)
