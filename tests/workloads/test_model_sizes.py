"""Models of the catalog against their published configuration files, kept as one table."""

import csv
import json
from pathlib import Path

import pytest

from netplan.workloads.models import MODELS, Model
from netplan.workloads.parameters import parameter_count

TABLE = Path(__file__).parents[1] / "golden" / "model_configurations.csv"
NAMES = {
    "Meta-Llama-3.1-8B": "llama-3.1-8b",
    "Meta-Llama-3.1-70B": "llama-3.1-70b",
    "Llama-4-Scout-17B-16E-Instruct": "llama-4-scout",
    "Llama-4-Maverick-17B-128E-Instruct": "llama-4-maverick",
    "Mixtral-8x7B-v0.1": "mixtral-8x7b",
    "Qwen3-30B-A3B-FP8": "qwen3-30b-a3b",
    "Qwen3-Coder-480B-A35B-Instruct": "qwen3-coder-480b-a35b",
    "MiniMax-M2.5-NVFP4": "minimax-m2.5",
    "gemma-4-26B-A4B": "gemma-4-26b-a4b",
    "Gemma-4-31B-IT-NVFP4": "gemma-4-31b",
}
"""What files call models; the others are called so in lower case."""

NOT_IN_THE_TABLE: dict[str, dict[str, object]] = {
    "MiniMaxM2ForCausalLM": {"model_type": "minimax_m2"},
    "DeepseekV32ForCausalLM": {"index_n_heads": 64, "index_head_dim": 128},
    "GlmMoeDsaForCausalLM": {"index_n_heads": 32, "index_head_dim": 128},
    "Llama4ForConditionalGeneration": {"attention_chunk_size": 8192},
    "Qwen3_5MoeForConditionalGeneration": {"attn_output_gate": True},
}
SERVED = (
    "llama-3.1-8b",
    "llama-3.1-70b",
    "deepseek-r1",
    "deepseek-v3",
    "qwen3-32b",
    "qwen3-235b-a22b",
    "qwen3.5-397b-a17b",
    "gpt-oss-120b",
    "kimi-k2.5",
    "minimax-m2.5",
    "glm-5",
)
with TABLE.open(encoding="utf-8", newline="") as file:
    ROWS = {row["model"].partition("/")[2]: row for row in csv.DictReader(file)}


def catalog_name(published: str) -> str:
    return NAMES.get(published, published.lower())


def configuration(row: dict[str, str]) -> dict[str, object]:
    """The configuration file of a row: numbers, and a list of layers such as "full 3; linear 9"."""
    data: dict[str, object] = {"architectures": [row["architectures"]]}
    for key, text in row.items():
        if text in ("True", "False"):
            data[key] = text == "True"
        elif text.isdigit():
            data[key] = int(text)
    if row["layer_types"]:
        counts = (one.split() for one in row["layer_types"].split("; "))
        data["layer_types"] = [kind for kind, count in counts for _ in range(int(count))]
    return data | NOT_IN_THE_TABLE.get(row["architectures"], {})


def sizes(model: Model) -> dict[str, object]:
    """What a configuration says of a model, each quantity once."""
    experts = model.experts
    return {
        "hidden": model.hidden_size,
        "layers": (model.layers, model.full_layers - model.prediction_layers),
        "heads": (model.heads, model.kv_heads or model.heads, model.query_size),
        "vocabulary": (model.vocabulary, model.tied_embeddings),
        "context": model.context_length,
        "experts": experts and (experts.count, experts.per_token),
        "blocks": (model.latent_attention, model.linear_attention, model.index_attention),
        "windows": model.window_attention,
        "parameters": parameter_count(model).total,
        "of a token": parameter_count(model).active,
    }


# Rows of Gemma leave out the heads of its full layers.
@pytest.mark.parametrize("published", [one for one in ROWS if "emma-4" not in one])
def test_sizes_are_those_of_the_configuration(tmp_path: Path, published: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(configuration(ROWS[published])))
    assert sizes(MODELS.load(catalog_name(published))) == sizes(MODELS.load(str(path)))


@pytest.mark.parametrize("published", ROWS)
def test_context_is_that_of_the_configuration(published: str) -> None:
    model = MODELS.load(catalog_name(published))
    assert model.context_length == int(ROWS[published]["max_position_embeddings"])
    assert model.sequence_length <= model.context_length


def test_served_models_are_in_the_table() -> None:
    assert {catalog_name(one) for one in ROWS} >= set(SERVED)


def test_a_model_of_unknown_context_has_none(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    row = configuration(ROWS["Qwen3-32B"])
    del row["max_position_embeddings"]
    path.write_text(json.dumps(row))
    model = MODELS.load(str(path))
    assert (model.context_length, model.sequence_length) == (None, 4096)
    assert MODELS.load("gpt-175b").context_length is None


def test_models_are_keys_of_what_is_kept() -> None:
    for name in ("llama-3-8b", "qwen3-235b-a22b", "gpt-oss-120b", "deepseek-r1"):
        assert hash(MODELS.load(name)) == hash(MODELS.load(name))
