"""Configuration files of published models: small ones with the same keys, and hostile ones."""

import json
from pathlib import Path
from typing import Any

import pytest

import netplan
from netplan.errors import CatalogError
from netplan.workloads.models import MODELS, WORKLOADS, Model
from netplan.workloads.parameters import parameter_count

DENSE = {
    "hidden_size": 64,
    "num_hidden_layers": 6,
    "num_attention_heads": 8,
    "intermediate_size": 96,
    "vocab_size": 1000,
    "max_position_embeddings": 512,
}
LLAMA = DENSE | {"architectures": ["LlamaForCausalLM"], "num_key_value_heads": 2}
MIXTRAL = DENSE | {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2}
DEEPSEEK = DENSE | {
    "model_type": "deepseek_v3",
    "num_key_value_heads": 8,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "n_shared_experts": 1,
    "first_k_dense_replace": 2,
    "moe_layer_freq": 1,
    "kv_lora_rank": 16,
    "q_lora_rank": 24,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4,
    "v_head_dim": 8,
    "num_nextn_predict_layers": 1,
    "n_group": 4,
}
GLM = DEEPSEEK | {
    "model_type": "glm_moe_dsa",
    "index_topk": 128,
    "index_n_heads": 2,
    "index_head_dim": 8,
    "indexer_types": ["full", "full", "shared", "shared", "full", "shared"],
    "mlp_layer_types": ["dense", "dense", "sparse", "sparse", "sparse", "sparse"],
}
QWEN = DENSE | {
    "model_type": "qwen3_moe",
    "head_dim": 16,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "decoder_sparse_step": 2,
    "mlp_only_layers": [],
}
QWEN_NEXT = {
    "architectures": ["Qwen3_5MoeForConditionalGeneration"],
    "tie_word_embeddings": True,
    "vision_config": {"hidden_size": 4},
    "text_config": QWEN
    | {
        "model_type": "qwen3_5_moe_text",
        "decoder_sparse_step": 1,
        "attn_output_gate": True,
        "full_attention_interval": 3,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
        "shared_expert_intermediate_size": 32,
        "mtp_num_hidden_layers": 1,
    },
}
GPT_OSS = MIXTRAL | {
    "model_type": "gpt_oss",
    "sliding_window": 32,
    "layer_types": ["sliding_attention", "full_attention"] * 3,
    "attention_bias": True,
}
GEMMA = {
    "model_type": "gemma4",
    "text_config": DENSE
    | {
        "model_type": "gemma4_text",
        "head_dim": 8,
        "global_head_dim": 16,
        "num_key_value_heads": 4,
        "num_global_key_value_heads": 2,
        "attention_k_eq_v": True,
        "sliding_window": 32,
        "layer_types": ["sliding_attention"] * 5 + ["full_attention"],
        "num_experts": 4,
        "top_k_experts": 2,
        "moe_intermediate_size": 16,
    },
}
LLAMA_4 = {
    "text_config": DENSE
    | {
        "model_type": "llama4_text",
        "num_local_experts": 4,
        "num_experts_per_tok": 1,
        "intermediate_size_mlp": 128,
        "interleave_moe_layer_step": 2,
        "attention_chunk_size": 64,
    }
}
GPT_2 = {
    "model_type": "gpt2", "n_embd": 64, "n_layer": 6, "n_head": 8, "n_positions": 512,
    "vocab_size": 1000,
}  # fmt: skip
ENDS = 2 * 64 * 1000
NORMS = 64 * 13
ATTENTION = 4 * 64 * 64


def load(folder: Path, data: object, name: str = "small.json") -> Model:
    path = folder / name
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return MODELS.load(str(path))


def latent(*, indexed: int = 0) -> int:
    """Weights of latent attention by hand, with an indexer in some of six layers."""
    one = 64 * (24 + 16 + 4) + 24 * 8 * 12 + 16 * 8 * (8 + 8) + 8 * 8 * 64
    return 6 * one + indexed * (24 * 2 * 8 + 64 * (2 + 8))


NEMOTRON = DENSE | {"model_type": "nemotron_h", "hybrid_override_pattern": "M-M*-M"} | {
    "num_key_value_heads": 2, "mamba_num_heads": 8, "mamba_head_dim": 16, "ssm_state_size": 4,
    "n_groups": 2, "conv_kernel": 4, "chunk_size": 128, "expand": 2,
}  # fmt: skip
NEMOTRON_3 = NEMOTRON | {"hybrid_override_pattern": "MEM*-E", "n_routed_experts": 8} | {
    "num_experts_per_tok": 2, "moe_intermediate_size": 32, "n_shared_experts": 1,
    "moe_shared_expert_intermediate_size": 48, "moe_latent_size": 16, "tie_word_embeddings": False,
}  # fmt: skip
SCANNED = 64 * (2 * 128 + 2 * 2 * 4 + 8) + 128 * 64 + 4 * (128 + 16) + 128 + 3 * 8
"""A block of Mamba: 8 heads of 16, 2 groups of 4; convolution, norm, three numbers a head."""

# Every expected number is a sum by hand: attention, feed-forward parts, routers, ends, norms.
COUNTS: list[tuple[str, dict[str, Any], int]] = [
    ("llama", LLAMA, 6 * (2 * 64 * 64 + 2 * 64 * 16 + 3 * 64 * 96) + ENDS + NORMS),
    ("mixtral", MIXTRAL, 6 * (ATTENTION + 4 * 3 * 64 * 96 + 64 * 4) + ENDS + NORMS),
    (
        "deepseek",
        DEEPSEEK,
        latent() + 2 * 3 * 64 * 96 + 4 * (9 * 3 * 64 * 32 + 64 * 8) + ENDS + NORMS,
    ),
    (
        "glm",
        GLM,
        latent(indexed=3) + 2 * 3 * 64 * 96 + 4 * (9 * 3 * 64 * 32 + 64 * 8) + ENDS + NORMS,
    ),
    (
        "qwen",
        QWEN,
        6 * 4 * 64 * 128 + 3 * (3 * 64 * 96 + 4 * 3 * 64 * 32 + 64 * 4) + ENDS + NORMS,
    ),
    (
        "qwen-next",
        QWEN_NEXT,
        2 * 5 * 64 * 128  # two layers of full attention with a gate
        + 4 * (64 * (32 + 32 + 32 + 8) + 64 * 4 + 8 + 32 * 64)  # four linear ones
        + 6 * (5 * 3 * 64 * 32 + 64 * 4)
        + ENDS // 2
        + NORMS,
    ),
    ("gpt-oss", GPT_OSS, 6 * (ATTENTION + 4 * 3 * 64 * 96 + 64 * 4) + ENDS + NORMS),
    (
        "gemma",
        GEMMA,
        2 * 64 * 128 + 2 * 64 * 32  # one full layer, heads of 16
        + 5 * (2 * 64 * 64 + 2 * 64 * 32)
        + 6 * (3 * 64 * 96 + 4 * 3 * 64 * 16 + 64 * 4)
        + ENDS // 2
        + NORMS,
    ),
    (
        "llama-4",
        LLAMA_4,
        6 * ATTENTION + 3 * (3 * 64 * 128 + 5 * 3 * 64 * 96 + 64 * 4) + ENDS + NORMS,
    ),
    ("gpt-2", GPT_2, 6 * (ATTENTION + 2 * 64 * 256) + ENDS // 2 + NORMS),
    (
        "nemotron-h",
        NEMOTRON,
        3 * SCANNED + 2 * 64 * 64 + 2 * 64 * 16 + 2 * 2 * 64 * 96 + ENDS + 7 * 64,
    ),
    (
        "nemotron-3",
        NEMOTRON_3,
        2 * SCANNED + 2 * 64 * 64 + 2 * 64 * 16 + 2 * 64 * 96
        + 2 * (8 * 2 * 16 * 32 + 2 * 64 * 48 + 2 * 64 * 16 + 64 * 8)
        + ENDS + 7 * 64,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "data", "count"), COUNTS)
def test_parameters_of_a_configuration(
    tmp_path: Path, name: str, data: dict[str, Any], count: int
) -> None:
    model = load(tmp_path, data, f"{name}.json")
    assert (model.name, parameter_count(model).total) == (name, count)
    assert (model.layers, model.sequence_length, model.batch) == (6, 512, 8192)
    assert f"{name}.json, which says nothing of training" in model.left_out[0]


def test_kinds_of_layers_are_counted(tmp_path: Path) -> None:
    model = load(tmp_path, GPT_OSS)
    assert model.window_attention is not None
    assert (model.window_attention.layers, model.window_attention.tokens) == (3, 32)
    assert model.attention_sinks
    assert "biases of queries, keys and values" in model.left_out[1]
    assert model.adds_biases
    assert "biases of projections" in load(tmp_path, LLAMA | {"attention_bias": True}).left_out[1]
    gemma = load(tmp_path, GEMMA).window_attention
    assert gemma is not None
    assert (gemma.head_size, gemma.kv_heads, gemma.layers) == (8, 4, 5)
    chunked = load(tmp_path, LLAMA_4).window_attention
    assert chunked is not None
    assert (chunked.tokens, chunked.layers) == (64, 5)
    assert load(tmp_path, DEEPSEEK).depth == 7
    assert "groups of experts" in load(tmp_path, DEEPSEEK).left_out[1]
    assert "its vision encoder" in load(tmp_path, QWEN_NEXT).left_out[1]
    unused = LLAMA | {"sliding_window": 32, "use_sliding_window": False}
    assert load(tmp_path, unused).window_attention is None


def test_a_plain_config_json_has_its_folders_name(tmp_path: Path) -> None:
    folder = tmp_path / "Llama-3.1-Tiny"
    folder.mkdir()
    assert load(folder, LLAMA, "config.json").name == "llama-3.1-tiny"
    assert load(folder, LLAMA, "sizes.yaml").name == "sizes"  # what is in it counts
    assert WORKLOADS.load(str(folder / "config.json")).heads == 8
    changed = MODELS.load(str(folder / "config.json"), overrides={"model.batch": "64"})
    assert changed.batch == 64


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (DENSE | {"model_type": "mamba2"}, "architecture 'mamba2' is not known: known are llama"),
        (NEMOTRON | {"hybrid_override_pattern": "M-M*-"}, "give one sign for each of num_hidden"),
        (NEMOTRON | {"hybrid_override_pattern": "------"}, "among them: give one sign"),
        (NEMOTRON | {"ssm_state_size": 0}, "ssm_state_size: got 0: give a whole number from 1"),
        (DENSE, "architecture 'none' is not known"),
        (LLAMA | {"hidden_size": 10**30}, "hidden_size: got 1000.*a whole number from 1"),
        (LLAMA | {"hidden_size": "64"}, "hidden_size: got '64'"),
        (LLAMA | {"hidden_size": True}, "hidden_size: got True"),
        (LLAMA | {"num_hidden_layers": 10**9}, "at most 100,000"),
        (LLAMA | {"num_attention_heads": None}, "num_attention_heads is missing"),
        (LLAMA | {"num_key_value_heads": 3}, "heads 8 is not a multiple of kv_heads 3"),
        (MIXTRAL | {"num_experts_per_tok": 9}, "per_token 9 is more than the 4 experts"),
        (DENSE | {"model_type": "mixtral"}, "mixtral has experts, and n_routed_experts, .* none"),
        (MIXTRAL | {"num_local_experts": 0}, "mixtral has experts"),
        (DEEPSEEK | {"kv_lora_rank": None}, "kv_lora_rank is missing"),
        (LLAMA | {"text_config": {"model_type": []}}, "is not known|is missing"),
        ("[1, 2]", "expected an object"),
        ("{", "not valid JSON"),
        ('{"a": ' * 100_000, "nested too deeply"),
        ('{"hidden_size": ' + "9" * 5000 + "}", "not valid JSON"),
    ],
)
def test_bad_configurations_are_refused(tmp_path: Path, data: object, said: str) -> None:
    with pytest.raises(CatalogError, match=said) as error:
        load(tmp_path, data)
    assert "\n" not in str(error.value)


def test_a_huge_configuration_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.truncate(100 << 20)
    with pytest.raises(CatalogError, match="larger than 8 MiB"):
        MODELS.load(str(path))


def test_every_question_about_a_run_says_what_is_assumed(tmp_path: Path) -> None:
    path = tmp_path / "small.json"
    path.write_text(json.dumps(DEEPSEEK))
    asked: dict[str, Any] = {"model": str(path), "gpus": 8, "accelerator": "h100-80gb"}
    for answer in (
        netplan.search("rail-only-paper", **asked),
        netplan.loads("rail-only-paper", **asked),
        netplan.simulate("rail-only-paper", **asked),
    ):
        told = " ".join(answer.notes)
        assert "small.json, which says nothing of training" in told
        assert "Layers of small are unlike" in told
        assert "The 7 layers contain 1 layer that predicts further tokens" in told
    best = netplan.compare("rail-only-paper", **asked, fabrics=("fat-tree",)).to_dict()["fabrics"][
        0
    ]
    assert best["iteration_time_s"] > 0


def test_keys_of_layers_that_nothing_reads_are_named(tmp_path: Path) -> None:
    path = tmp_path / "odd" / "config.json"
    path.parent.mkdir()
    sizes = {
        "model_type": "llama",
        "hidden_size": 512,
        "num_hidden_layers": 4,
        "num_attention_heads": 8,
        "intermediate_size": 1024,
        "vocab_size": 1000,
    }
    harmless = {"hidden_act": "silu", "attention_dropout": 0.1, "rope_theta": 10_000}
    path.write_text(json.dumps(sizes | harmless), encoding="utf-8")
    assert not any("what " in one for one in WORKLOADS.load(str(path)).left_out)
    path.write_text(json.dumps(sizes | {"moe_num_experts": 16, "mlp_widths": [1, 2]}))
    said = WORKLOADS.load(str(path)).left_out
    assert any("what mlp_widths, moe_num_experts say" in one for one in said)
