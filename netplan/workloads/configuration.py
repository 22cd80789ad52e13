"""Configuration files of published models (Hugging Face ``config.json``) as model files.

A configuration says sizes, not how a model was trained: sequence length and batch are assumed, and
the record says so. What has no counterpart here stands in ``left_out``. Keys that change neither
sizes nor work (rope, precision, tokens) are passed over. Nothing is fetched from a network.

Layers of a kind are counted, not placed (`netplan.workloads.models`).
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, cast

from netplan.documents import Document, lineless
from netplan.errors import CatalogError
from netplan.files import read_bounded, text_of
from netplan.records import MAX_COUNT

SUFFIX = ".json"
MAX_BYTES = 8 << 20
"""Of a configuration; those of quantized models list every matrix [bytes]."""

SEQUENCE_LENGTH = 4096
"""Assumed of training, or as long as the model takes if that is less [tokens]."""

BATCH_TOKENS = 4 << 20
"""Assumed of one iteration [tokens]."""

LONGEST_LIST = 100_000
MAX_NAME = 40

Data = Mapping[str, object]
ConfigurationFields = dict[str, object]


class Family(NamedTuple):
    """What the type of a model says beside its keys."""

    gated: bool = True  # three matrices in a feed-forward part
    tied: bool = False  # where the configuration does not say
    gated_attention: bool = False
    experts: bool = False  # in all models of the type: a configuration without any is cut short
    latent: bool = False  # attention, likewise
    biases: bool = False


PLAIN, SPARSE = Family(), Family(experts=True)
FAMILIES: dict[str, Family] = {
    **dict.fromkeys(("llama", "mistral", "ministral3", "mimo", "phi3", "olmo2", "glm4"), PLAIN),
    **dict.fromkeys(("qwen2", "qwen3", "qwen3_vl_text", "qwen3_5_text"), PLAIN),
    **dict.fromkeys(("qwen2_moe", "qwen3_moe", "qwen3_vl_moe_text", "qwen3_5_moe_text"), SPARSE),
    **dict.fromkeys(("mixtral", "llama4_text", "minimax_m2", "glm4_moe"), SPARSE),
    **dict.fromkeys(
        ("deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2", "glm_moe_dsa"),
        Family(experts=True, latent=True),
    ),
    "mimo_v2_flash": SPARSE,
    "gpt_oss": Family(experts=True, biases=True),
    **dict.fromkeys(("gemma", "gemma2", "gemma3_text", "gemma4_text"), Family(tied=True)),
    "qwen3_next": Family(gated_attention=True, experts=True),
    "gpt2": Family(gated=False, tied=True, biases=True),
    "nemotron_h": Family(gated=False),
}
"""Types of models that are read, by their ``model_type``."""

OLD_NAMES = {
    "n_embd": "hidden_size",
    "n_layer": "num_hidden_layers",
    "n_head": "num_attention_heads",
    "n_inner": "intermediate_size",
    "n_positions": "max_position_embeddings",
}
"""Keys of GPT-2, and what the others call them."""

OF_LAYERS = re.compile(r"layer|expert|moe|attn|attention|head|hidden|intermediate|lora|ffn|mlp|ssm")
"""Keys that may say how large layers are, or how many."""

HARMLESS = re.compile(
    r"dropout|_act|eps|norm|bias|loss|coef|scal|soft|impl|output|token|rope|quant|cache|prob|func"
    r"|bucket|partition|pad|sink|max_window_layers|chunk|routed_scaling|multiplier|tp_size|ep_size|^num_key_value_heads$|^(qk_)?head_dim$"
)
"""Those of them that change neither sizes nor work."""

MAX_UNREAD = 6

BLOCKS = {"M": "mamba", "*": "attention", "E": "moe", "-": "mlp"}
"""Kinds of blocks of hybrids, by their signs in a pattern."""
UNPLACED = ("gpt2", "nemotron_h")
"""Types whose queries and keys are not rotated by their position."""

VISION = ("vision_config", "audio_config")


def read_configuration(path: Path) -> Document:
    """A JSON configuration as the document of a model file.

    Raises
    ------
    CatalogError
        If the file cannot be read, is too large, is no JSON object, of an unknown architecture, or
        a number in it is missing or out of range.
    """
    content = read_bounded(path, MAX_BYTES, "no configuration is so large: give the config.json")
    try:
        data = json.loads(text_of(path, content))
    except RecursionError:
        raise CatalogError(f"{path}:1: not valid JSON: nested too deeply") from None
    except ValueError as error:
        raise CatalogError(f"{path}:1: not valid JSON: {error!s:.80}") from None
    if not isinstance(data, dict):
        raise CatalogError(f"{path}:1: expected an object with the keys of a configuration")
    return as_model_file(path, data)


def as_model_file(path: Path, data: Data) -> Document:
    """The data of a configuration as the document of a model file; errors as above."""
    # The language model of a configuration that may have other parts, too.
    parts = (data.get(key) for key in ("text_config", "language_config", "llm_config"))
    text: Data = next((part for part in parts if isinstance(part, dict) and part), data)
    reader = _Reader(path, {OLD_NAMES.get(key, key): value for key, value in text.items()})
    record = reader.model(_family(path, data, text))
    tied = data.get("tie_word_embeddings")
    if isinstance(tied, bool) and "tie_word_embeddings" not in text:
        record["tied_embeddings"] = tied
    left_out = cast("list[str]", record["left_out"])
    left_out += [f"its {key.partition('_')[0]} encoder" for key in VISION if data.get(key)]
    assumed = (
        f"From {path.name}, which says nothing of training: sequences of"
        f" {record['sequence_length']:,} tokens and a batch of {record['batch']:,} are assumed"
        " (--set model.sequence_length=8192, --batch)."
    )
    without = [f"Left out of {record['name']}: {'; '.join(left_out)}."] if left_out else []
    record["left_out"] = [assumed, *without]
    return lineless(path, record)


def _family(path: Path, data: Data, text: Data) -> tuple[str, Family]:
    """The type of the model, or a refusal that says what is known."""
    kinds = [str(part.get("model_type", ""))[:MAX_NAME] for part in (text, data)]
    names = data.get("architectures")
    if isinstance(names, list) and names:
        # LlamaForCausalLM stands for llama where a file does not say its type.
        stem = re.sub(r"For\w*$", "", str(names[0])[:MAX_NAME])
        kinds.append(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", stem).lower())
    for kind in kinds:
        for known in (kind, f"{kind}_text"):
            if known in FAMILIES:
                return known, FAMILIES[known]
    got = next((kind for kind in kinds if kind), "none")
    raise CatalogError(
        f"{path}:1: architecture {got!r} is not known: known are {', '.join(FAMILIES)}: write a"
        " model file with its sizes (traffic/README.md)"
    )


class _NotedKeys(dict[str, object]):
    """A configuration that notes which of its keys were asked for."""

    def __init__(self, data: Data) -> None:
        super().__init__(data)
        self.asked: set[str] = set()

    def get(self, key: str, default: object = None) -> object:
        """The value of a key; the key counts as read."""
        self.asked.add(key)
        return super().get(key, default)

    def unread(self) -> Iterator[str]:
        """Keys of sizes or layers that nobody asked for, by their names."""
        for key, value in self.items():
            several = isinstance(value, int) and not isinstance(value, bool) and value > 1
            says_sizes = several or (isinstance(value, list | dict) and bool(value))
            if (
                says_sizes
                and key not in self.asked
                and OF_LAYERS.search(key)
                and not HARMLESS.search(key)
            ):
                yield re.sub(r"[^A-Za-z0-9_.-]+", "?", key)[:MAX_NAME]


class _Reader:
    """Reads one configuration; every number is checked when it is asked for."""

    def __init__(self, path: Path, data: Data) -> None:
        self.path, self.data = path, _NotedKeys(data)
        self.left_out: list[str] = []

    def model(self, typed: tuple[str, Family]) -> ConfigurationFields:
        """The record of the whole model."""
        kind, family = typed
        layers, hidden = self.number("num_hidden_layers"), self.number("hidden_size")
        heads = self.number("num_attention_heads")
        longest = self.given("max_position_embeddings")
        length = min(longest or SEQUENCE_LENGTH, SEQUENCE_LENGTH)
        name = self.name()
        tied = self.data.get("tie_word_embeddings")
        record: ConfigurationFields = {
            "name": name,
            "title": name,
            "source": f"configuration file {self.path.name}",
            "date": "of the file",
            "hidden_size": hidden,
            "layers": layers,
            "heads": heads,
            "gated_ffn": family.gated,
            "rotary": kind not in UNPLACED,
            "biases": family.biases or bool(self.data.get("mlp_bias")),
            "sequence_length": length,
            "context_length": longest,
            "vocabulary": self.given("vocab_size") or 0,
            "batch": max(BATCH_TOKENS // length, 1),
            "tied_embeddings": tied if isinstance(tied, bool) else family.tied,
            "gated_attention": bool(self.data.get("attn_output_gate", family.gated_attention)),
            "attention_sinks": kind == "gpt_oss",
            "prediction_layers": self.prediction_layers(),
            "left_out": self.left_out,
        }
        if layers > LONGEST_LIST:
            raise self.fault("num_hidden_layers", layers, f"at most {LONGEST_LIST:,}")
        record |= self.attention(kind, layers, hidden // heads if hidden % heads == 0 else 0)
        record |= self.feed_forward(kind, layers)
        if kind == "nemotron_h":
            self.hybrid(record, layers)
        self.left_out += self.passed_over(kind)
        if unread := sorted(self.data.unread()):
            more = f" and {len(unread) - MAX_UNREAD} more" if len(unread) > MAX_UNREAD else ""
            self.left_out.append(f"what {', '.join(unread[:MAX_UNREAD])}{more} say")
        return record

    def name(self) -> str:
        """The file's name, or its folder's where it is a plain config.json."""
        stem = self.path.stem
        if stem == "config":
            stem = self.path.absolute().parent.name
        stem = re.sub(r"[^A-Za-z0-9._-]+", "-", stem.removesuffix("_config"))
        return stem.strip("-").lower()[:MAX_NAME] or "model"

    def prediction_layers(self) -> int:
        """Layers that predict further tokens; their number stands in different keys."""
        if self.data.get("use_mtp") and self.given("num_mtp_modules"):
            return self.number("num_mtp_modules") * (self.given("mtp_transformer_layers") or 1)
        keys = ("num_nextn_predict_layers", "mtp_num_hidden_layers")
        return next((number for key in keys if (number := self.given(key))), 0)

    def attention(self, kind: str, layers: int, even: int) -> ConfigurationFields:
        """Heads of full attention, and blocks of other kinds."""
        blocks: ConfigurationFields = {}
        if FAMILIES[kind].latent or self.given("kv_lora_rank"):
            blocks |= {"latent_attention": self.latent()}
        else:
            blocks |= self.heads(even)
        if self.given("index_topk"):
            kinds = self.kinds("indexer_types")
            own_indexers = sum(layer_kind == "full" for layer_kind in kinds)
            block = self.numbers(
                tokens="index_topk", heads="index_n_heads", head_size="index_head_dim"
            )
            blocks["index_attention"] = block | ({"layers": own_indexers} if own_indexers else {})
        linear = self.linear(layers)
        if linear:
            blocks["linear_attention"] = linear
        window = self.window(kind, layers)
        if window:
            blocks |= window
        return blocks

    def heads(self, even: int) -> ConfigurationFields:
        """Sizes of plain heads, as far as they are not what a model file takes for granted."""
        sizes: ConfigurationFields = {}
        heads, size = self.number("num_attention_heads"), self.given("head_dim")
        key_heads = self.given("num_global_key_value_heads")
        key_heads = key_heads or self.given("num_key_value_heads") or heads
        size = self.given("global_head_dim") or size
        if key_heads != heads:
            sizes["kv_heads"] = key_heads
        if size and size != even:
            sizes["head_size"] = size
        value = self.given("v_head_dim")
        if value and value != (size or even):
            sizes["value_head_size"] = value
        return sizes

    def latent(self) -> ConfigurationFields:
        """The block of latent attention."""
        query = self.given("q_lora_rank")
        block = self.numbers(
            kv_rank="kv_lora_rank", head_size="qk_nope_head_dim", value_head_size="v_head_dim"
        )
        block["rotary_head_size"] = self.given("qk_rope_head_dim") or 0
        return block | ({"query_rank": query} if query else {})

    def linear(self, layers: int) -> ConfigurationFields:
        """The block of gated delta nets, if some layers have them."""
        if not self.given("linear_num_value_heads"):
            return {}
        kinds = self.kinds("layer_types")
        interval = self.given("full_attention_interval") or 4
        count = sum(kind == "linear_attention" for kind in kinds) or layers - layers // interval
        heads = {"key_heads": "linear_num_key_heads", "value_heads": "linear_num_value_heads"}
        block = self.numbers(
            **heads, key_head_size="linear_key_head_dim", value_head_size="linear_value_head_dim"
        )
        return block | {"layers": count, "convolution": self.given("linear_conv_kernel_dim") or 4}

    def window(self, kind: str, layers: int) -> ConfigurationFields:
        """The block of windows, if some layers have them, and the heads of the others."""
        tokens = self.given("sliding_window") or self.given("attention_chunk_size")
        if not tokens or self.data.get("use_sliding_window") is False:
            return {}
        names = ("sliding_attention", "chunked_attention")
        pattern = self.data.get("hybrid_layer_pattern")
        given = pattern if isinstance(pattern, list) else []
        count = sum(layer_kind in names for layer_kind in self.kinds("layer_types"))
        count += given.count(1)
        if not count:
            count = self.windows_by_rule(kind, layers)
        if not count:
            return {}
        block: ConfigurationFields = {"tokens": tokens, "layers": count}
        full, head_size = self.given("global_head_dim"), self.given("head_dim")
        if full and head_size and full != head_size:
            block["head_size"] = head_size
        for key, ours in (("swa_head_dim", "head_size"), ("swa_v_head_dim", "value_head_size")):
            if self.given(key) and self.given(key) != self.given(key[4:]):
                block[ours] = self.number(key)
        other = self.given("swa_num_key_value_heads")
        if self.given("num_global_key_value_heads"):
            other = self.number("num_key_value_heads")
        if other:
            block["kv_heads"] = other
        return {"window_attention": block}

    def windows_by_rule(self, kind: str, layers: int) -> int:
        """Layers with windows where no list says which: by the rule of the type [1]."""
        if kind == "llama4_text":
            return layers - layers // (self.given("no_rope_layer_interval") or 4)
        if kind == "gemma2":
            return -(-layers // 2)
        if kind == "gemma3_text":
            return layers - layers // (self.given("sliding_window_pattern") or 6)
        if kind in ("qwen2", "qwen2_moe", "qwen3", "qwen3_moe"):
            return max(layers - (self.given("max_window_layers") or 0), 0)
        return layers

    def feed_forward(self, kind: str, layers: int) -> ConfigurationFields:
        """Width of dense layers, and the block of experts."""
        keys: tuple[str, ...] = ("n_routed_experts", "num_experts", "num_local_experts")
        count = next((number for key in keys if (number := self.given(key))), 1)
        width = self.given("intermediate_size")
        if count == 1 and FAMILIES[kind].experts:
            raise CatalogError(
                f"{self.path}:1: {kind} has experts, and {', '.join(keys)} give none: give how many"
            )
        if count == 1:
            return {"ffn_size": width} if width else {}
        keys = ("num_experts_per_tok", "top_k_experts", "experts_per_token")
        visited = next((key for key in keys if self.given(key)), keys[0])
        expert_size = self.given("moe_intermediate_size") or self.number("intermediate_size")
        shared = (self.given("n_shared_experts") or 0) * expert_size
        shared = shared or self.given("shared_expert_intermediate_size") or 0
        dense = width
        if kind == "llama4_text":
            shared, dense = expert_size, self.given("intermediate_size_mlp") or width
        if kind == "gemma4_text":
            shared = width or 0
        block: ConfigurationFields = {
            "count": count,
            "per_token": self.number(visited),
            "ffn_size": expert_size,
            "shared_ffn_size": shared,
            **self.sparse_layers(layers),
        }
        return {"experts": block} | ({"ffn_size": dense} if dense else {})

    def hybrid(self, record: ConfigurationFields, layers: int) -> None:
        """Blocks of a hybrid, one kind each: what is neither Mamba nor attention has experts."""
        pattern = self.data.get("hybrid_override_pattern")
        kinds = self.kinds("layers_block_type")
        if isinstance(pattern, str):
            kinds = [BLOCKS.get(sign) for sign in pattern[:LONGEST_LIST]]
        count = {kind: kinds.count(kind) for kind in BLOCKS.values()}
        if sum(count.values()) != layers or not (count["mamba"] and count["attention"]):
            raise CatalogError(
                f"{self.path}:1: hybrid_override_pattern: {layers:,} blocks of M, *, E and - make a"
                " hybrid, with M and * among them: give one sign for each of num_hidden_layers"
            )
        record["attention_layers"] = count["attention"]
        record["mamba"] = {
            "layers": count["mamba"],
            "groups": self.given("n_groups") or 1,
            **self.numbers(
                heads="mamba_num_heads", head_size="mamba_head_dim", state="ssm_state_size"
            ),
        }
        experts = cast("ConfigurationFields", record.pop("experts", {}))
        if not count["moe"]:  # sizes of experts stand in files of models without any
            return
        shared = self.given("moe_shared_expert_intermediate_size")
        latent = self.given("moe_latent_size")
        experts |= {"shared_ffn_size": shared} if shared else {}
        experts |= {"latent_size": latent} if latent else {}
        record["experts"] = experts | {"dense_first_layers": count["mlp"]}

    def sparse_layers(self, layers: int) -> ConfigurationFields:
        """Which layers have experts."""
        first = self.given("first_k_dense_replace") or 0
        listed = self.data.get("moe_layer_freq")
        dense = sum(kind == "dense" for kind in self.kinds("mlp_layer_types"))
        if isinstance(listed, list):
            dense = min(listed.count(0), layers)
        also = self.data.get("mlp_only_layers")
        if isinstance(also, list):
            dense = max(dense, len(also))
        for key in ("decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_freq"):
            step = self.data.get(key)
            if isinstance(step, int) and not isinstance(step, bool) and step > 1:
                return {"every": self.number(key), "dense_first_layers": max(first, dense)}
        return {"dense_first_layers": max(first, dense)}

    def passed_over(self, kind: str) -> Iterator[str]:
        """What changes counts and has no counterpart here."""
        if self.data.get("attention_k_eq_v"):
            yield "that full attention takes keys as values (counted as two matrices)"
        if kind == "gpt2":
            yield "embeddings of positions"
        if self.given("n_group") not in (None, 0, 1):
            yield "the limit on groups of experts of a token"
        if self.data.get("attention_bias") or self.data.get("qkv_bias"):
            counted = FAMILIES[kind].biases or self.data.get("mlp_bias")
            yield f"biases of {'queries, keys and values' if counted else 'projections'}"
        if self.given("num_kv_shared_layers"):
            yield "keys and values that layers share"
        if self.given("hidden_size_per_layer_input"):
            yield "embeddings of single layers"

    def kinds(self, key: str) -> list[object]:
        """A list with an entry for each layer, or none."""
        entries = self.data.get(key)
        return entries[:LONGEST_LIST] if isinstance(entries, list) else []

    def number(self, key: str) -> int:
        """A whole number above 0."""
        value = self.data.get(key)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= MAX_COUNT:
            raise self.fault(key, value, f"a whole number from 1 to {MAX_COUNT:,}")
        return value

    def numbers(self, **keys: str) -> ConfigurationFields:
        """Numbers of a block by what a model file calls them."""
        return {name: self.number(key) for name, key in keys.items()}

    def given(self, key: str) -> int | None:
        """The same, or None where it is absent, null or 0."""
        value = self.data.get(key)
        if value is None or value is False or (isinstance(value, int | float) and value == 0):
            return None
        return self.number(key)

    def fault(self, key: str, value: object, allowed: str) -> CatalogError:
        """The error of one value."""
        if value is None:
            return CatalogError(f"{self.path}:1: {key} is missing: give {allowed}")
        return CatalogError(f"{self.path}:1: {key}: got {value!r:.40}: give {allowed}")
