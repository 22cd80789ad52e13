"""Layers that are unlike: experts, latent vectors, windows, linear attention, further tokens."""

from typing import Any

import numpy as np
import pytest

from netplan.errors import InputError
from netplan.records import RecordError
from netplan.workloads.closed_forms import counted_layer, iteration_flops
from netplan.workloads.model_graphs import layer_graph
from netplan.workloads.models import Model
from netplan.workloads.operations import ELEMENT_BYTES, Sharding, Variant
from netplan.workloads.parameters import parameter_count, stack_of
from netplan.workloads.program import TrainingMethod, training_program

PLAIN = {"name": "one", "title": "", "source": "", "date": "", "batch": 8} | {
    "hidden_size": 512, "layers": 12, "heads": 8, "ffn_size": 1024, "gated_ffn": True,
    "sequence_length": 256, "vocabulary": 1000,
}  # fmt: skip
EXPERTS = {"count": 16, "per_token": 4, "ffn_size": 128, "shared_ffn_size": 256}
LATENT = {"kv_rank": 64, "query_rank": 96, "head_size": 32, "rotary_head_size": 16} | {
    "value_head_size": 48
}
WINDOW = {"tokens": 64, "layers": 9}
LINEAR = {"layers": 8, "key_heads": 4, "value_heads": 8, "key_head_size": 16} | {
    "value_head_size": 32
}
MAMBA = {"layers": 5, "heads": 16, "head_size": 32, "state": 64, "groups": 4}
HYBRID = {"mamba": MAMBA, "attention_layers": 3, "gated_ffn": False, "head_size": 64}
INDEX = {"tokens": 128, "heads": 4, "head_size": 16}
UNLIKE: list[dict[str, Any]] = [
    {"experts": EXPERTS},
    {"experts": EXPERTS | {"dense_first_layers": 3}},
    {"experts": EXPERTS | {"every": 2}, "kv_heads": 2},
    {"latent_attention": LATENT},
    {"latent_attention": {key: LATENT[key] for key in LATENT if key != "query_rank"}},
    {"window_attention": WINDOW},
    {"window_attention": WINDOW | {"kv_heads": 4, "head_size": 32}, "head_size": 128},
    {"window_attention": WINDOW | {"layers": 12}},
    {"linear_attention": LINEAR, "gated_attention": True, "kv_heads": 4},
    {"index_attention": INDEX, "latent_attention": LATENT},
    {"latent_attention": LATENT, "window_attention": WINDOW},
    {"latent_attention": LATENT, "linear_attention": LINEAR},
    {"index_attention": INDEX | {"layers": 3}},
    {"prediction_layers": 1, "experts": EXPERTS, "latent_attention": LATENT},
    {"value_head_size": 32, "kv_heads": 4},
    {"experts": EXPERTS | {"latent_size": 128}},
    HYBRID | {"kv_heads": 4},
    HYBRID | {"experts": EXPERTS, "prediction_layers": 2},
    HYBRID | {"experts": EXPERTS | {"latent_size": 128, "dense_first_layers": 1}},
]


def made(**blocks: Any) -> Model:  # noqa: ANN401 - keys of a file
    return Model.read(PLAIN | blocks)


@pytest.mark.parametrize("blocks", UNLIKE)
def test_the_program_holds_what_is_counted(blocks: dict[str, Any]) -> None:
    """Weights of all layers, by two ways to count them; biases and norms are the difference."""
    model = made(**blocks)
    program = training_program(model, Sharding.of(1, tensor=1))
    held = sum(program.weight_bytes(experts=some) for some in (True, False)) / ELEMENT_BYTES
    stack = stack_of(model)
    assert held * model.depth == pytest.approx(stack.attention + stack.feed_forward, rel=0.02)
    products = [one for one in program.layer.operations if not one.name.endswith("bias")]
    exact = sum(
        one.share * one.weight_bytes
        for one in products
        if not one.name.startswith(("ln", "latent-norm"))
    )
    assert exact / ELEMENT_BYTES * model.depth == pytest.approx(
        stack.attention + stack.feed_forward, rel=1e-12
    )


@pytest.mark.parametrize("blocks", UNLIKE)
def test_flops_of_both_counts_agree(blocks: dict[str, Any]) -> None:
    """FLOPs of products forward: 2 k of the closed form for 2 k - 1 of the program."""
    model = made(**blocks)
    operations = training_program(model, Sharding.of(2, tensor=1)).layer.operations
    forward = sum(one.share * float(np.sum(one.forward.tensor_flops)) for one in operations)
    head = 6 * 512 * 1000 * 256 * 2 * (1 + model.prediction_layers)
    useful = iteration_flops(model, 2).model - head
    assert 3 * forward * model.depth == pytest.approx(useful, rel=0.01)


@pytest.mark.parametrize("blocks", UNLIKE)
@pytest.mark.parametrize("strategy", ["1d", "2d"])
def test_tensor_gpus_share_the_work(blocks: dict[str, Any], strategy: Any) -> None:  # noqa: ANN401
    """FLOPs of four tensor GPUs are those of one, but for heads of keys that several hold."""
    method = TrainingMethod(strategy=strategy)

    def flops(tensor: int, context: int) -> float:
        program = training_program(made(**blocks), Sharding.of(4, tensor, context), method)
        return sum(
            one.share * float(np.sum(one.forward.tensor_flops)) for one in program.layer.operations
        )

    assert 2 * flops(2, 1) == pytest.approx(flops(1, 1), rel=0.01)
    if strategy == "2d":
        assert 4 * flops(2, 2) == pytest.approx(flops(1, 1), rel=0.03)


def test_a_stack_is_the_mean_of_its_layers() -> None:
    """Of four layers one is dense: a quarter of the dense part, three of the experts'."""
    model = made(layers=4, experts=EXPERTS | {"dense_first_layers": 1})
    shares = {
        one.name: one.share
        for one in training_program(model, Sharding.of(1, tensor=1)).layer.operations
    }
    assert (shares["dense-fc1"], shares["fc1"], shares["shared-fc2"]) == (0.25, 0.75, 0.75)
    assert (shares["ln1"], shares["attention"], shares["router"]) == (1, 1, 0.75)


def test_windows_see_so_many_keys() -> None:
    """Of 12 layers 9 see 64 of 256 tokens: X = 8 x 256 x 64 scores of 2 x 64 - 1 FLOPs."""
    operations = training_program(
        made(window_attention=WINDOW), Sharding.of(1, tensor=1)
    ).layer.operations
    one = next(one for one in operations if one.name == "window-attention")
    scores = 8 * 256 * 64
    assert float(one.forward.tensor_flops[0]) == scores * (2 * 64 - 1) + 8 * 256 * 64 * 127  # type: ignore[index]
    assert one.share == 0.75


def test_published_counts_of_a_sparse_file() -> None:
    """By hand: 12 layers of 16 experts of 3 x 512 x 128, a shared one of 256, a router."""
    count = parameter_count(made(experts=EXPERTS))
    attention, norms, words = 4 * 512 * 512, 2 * 512, 512 * 1000
    shared, router, expert = 3 * 512 * 256, 512 * 16, 3 * 512 * 128
    layer = attention + norms + shared + router
    assert count.total == 12 * (layer + 16 * expert) + 512 + 2 * words
    assert count.active == 12 * (layer + 4 * expert) + 512 + 2 * words
    assert count.active_without_embedding == count.active - words
    assert parameter_count(made(tied_embeddings=True)).embedding == 0
    assert parameter_count(made(experts=EXPERTS, prediction_layers=2)).total == count.total


def test_what_knows_plain_layers_refuses_others() -> None:
    model = made(experts=EXPERTS)
    one = Sharding.of(1, tensor=1)
    with pytest.raises(InputError, match=r"closed forms cover plain layers.*one has experts"):
        counted_layer(model, one)
    with pytest.raises(InputError, match="has experts: use the iteration model calibrated or 4d"):
        layer_graph(model)
    with pytest.raises(InputError, match="under SUMMA"):
        training_program(model, one, TrainingMethod(strategy="summa"))
    with pytest.raises(InputError, match="one has 16 experts, 4 of a token, got 8 and 2"):
        training_program(model, one, TrainingMethod(variant=Variant(experts=8, top_k=2)))
    same = TrainingMethod(variant=Variant(experts=16, top_k=4))
    assert training_program(model, one, same).layer.operations[0].name == "router"


@pytest.mark.parametrize(
    ("blocks", "said"),
    [
        ({"experts": EXPERTS | {"per_token": 17}}, "per_token 17 is more than the 16 experts"),
        ({"experts": EXPERTS | {"dense_first_layers": 12}}, "experts are in none of the 12"),
        ({"window_attention": WINDOW | {"layers": 13}}, "13 layers, more than the 12"),
        ({"window_attention": WINDOW, "linear_attention": LINEAR}, "17 layers, more than the 12"),
        ({"latent_attention": LATENT, "kv_heads": 4}, "has head sizes of its own"),
        ({"window_attention": WINDOW | {"kv_heads": 3}}, "multiple of the windows' kv_heads 3"),
        ({"experts": EXPERTS | {"counts": 3}}, "unknown key"),
    ],
)
def test_impossible_files_are_refused(blocks: dict[str, Any], said: str) -> None:
    with pytest.raises(RecordError, match=said):
        made(**blocks)


def experts_part(sharding: Sharding, **variant: Any) -> dict[str, Any]:  # noqa: ANN401 - of a Variant
    """Operations of experts by name, of 16 of 128 with 4 of a token."""
    method = TrainingMethod(variant=Variant(**variant))
    layer = training_program(made(experts=EXPERTS), sharding, method).layer
    return {one.name: one for one in layer.operations}


def sent(work: Any) -> list[tuple[str, str, float]]:  # noqa: ANN401 - work of an operation
    return [
        (one.kind, one.group, float(np.ravel(one.message_bytes)[0])) for one in work.collectives
    ]


def test_whole_experts_are_spread_over_tensor_gpus_too() -> None:
    """2 x 256 tokens on 4 tensor GPUs: 128 leave each, 512 rows of 512 numbers of 2 bytes.

    Of experts on 8 GPUs two lie on each, whole: 2 x (512 x 256 + 128 x 512) weights. Cut over the
    4 tensor GPUs, 32 GPUs hold a quarter of two each, and all 512 tokens' rows are gathered.
    """
    rows_bytes = 4 * 128 * 512 * 2.0
    whole = experts_part(Sharding.of(2, tensor=4, expert=2, experts_over=8, expert_tensor=1))
    cut = experts_part(Sharding.of(2, tensor=4, expert=8, experts_over=8, expert_tensor=4))
    for operations, gathered, shared_by in ((whole, 0.0, 1), (cut, 4 * rows_bytes, 4)):
        weights = [float(operations[name].weight_bytes[0]) for name in ("fc1", "fc2")]
        assert weights == [2 * 2 * 512 * 256 / shared_by, 2 * 2 * 128 * 512 / shared_by]
        dispatch, combine = operations["dispatch"], operations["combine"]
        assert sent(dispatch.forward) == [
            ("all_to_all", "expert", rows_bytes),
            ("all_gather", "tensor", gathered),
        ]
        assert sent(combine.forward) == [("all_to_all", "expert", rows_bytes)]
        assert sent(operations["fc2"].forward) == [("reduce_scatter", "tensor", gathered)]
        # Four choices of the own tokens, of all GPUs that share an expert together.
        (shape,) = operations["fc1"].shapes
        assert float(np.ravel(shape.m)[0]) == 4 * 128 * shared_by
        assert float(np.ravel(operations["fc1"].forward.tensor_flops)[0]) == pytest.approx(
            2 * 4 * 128 * 512 * 256, rel=0.01
        )


def test_without_sequence_parallelism_every_tensor_gpu_sends_all_its_rows() -> None:
    """All 512 tokens leave each GPU; the dense part beside them reduces and gathers nothing."""
    sharding = Sharding.of(2, tensor=4, expert=2, experts_over=8, expert_tensor=1)
    operations = experts_part(sharding, sequence_parallel=False)
    assert sent(operations["dispatch"].forward)[0] == ("all_to_all", "expert", 4 * 512 * 512 * 2.0)
    assert sent(operations["shared-fc1"].forward) == []
    assert sent(operations["shared-fc2"].forward) == [("all_reduce", "tensor", 512 * 512 * 2.0)]
    assert sent(operations["vproj"].forward) == [("all_reduce", "tensor", 512 * 512 * 2.0)]
