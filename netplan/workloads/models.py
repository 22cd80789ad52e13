"""Model files: the hyperparameters of what is trained or computed, transformers in full.

Blocks of a model file: experts, and kinds of attention beside the plain one.

A block says how many of the layers have it; all others are plain. Names are those of the papers:
mixtures of experts (Lepikhin et al., GShard, arXiv:2006.16668; shared experts and dense first
layers: Dai et al., DeepSeekMoE, arXiv:2401.06066), latent attention (DeepSeek-V2, arXiv:2405.04434,
Sec. 2.1), sliding windows (Beltagy et al., Longformer, arXiv:2004.05150), gated delta nets (Yang et
al., arXiv:2412.06464), the lightning indexer of sparse attention (DeepSeek-V3.2, arXiv:2512.02556,
Sec. 2.1), Mamba 2 (Dao and Gu, arXiv:2405.21060) and experts of latent vectors (Nemotron 3 Super).
"""

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from netplan.catalog import Catalog, Record, RecordT
from netplan.documents import Document
from netplan.errors import CatalogError, InputError
from netplan.records import Entry, LayerCount, NonNegativeInt, PositiveFloat, PositiveInt
from netplan.workloads.expert_load import ExpertLoad

ExpertCount = Annotated[int, Meta(ge=2, le=100_000)]
Scales = Literal["block", "tensor"]
"""What shares a scale of 8-bit weights: a block of them, or a whole matrix."""


class Experts(Entry, frozen=True, kw_only=True):
    """A mixture of experts in place of the feed-forward part of some layers.

    Parameters
    ----------
    count, per_token
        Routed experts of a layer; how many of them each token visits [1].
    ffn_size
        Inner width of one; the model's ``ffn_size``, which dense layers have, if absent [1].
    shared_ffn_size
        Inner width of the experts that every token visits, together; 0 without them [1].
    dense_first_layers, every
        So many layers from the first on are dense; behind them every so many-th layer, counted
        from the first of all, is sparse [1].
    latent_size
        Width of the vectors that experts take and give, if not the hidden size [1].
    capacity_factor
        A GPU's experts get at most so many times their mean load; the rest is dropped. Nothing is
        dropped if it is absent [1].
    scales
        Whether its 8-bit weights have a scale for each ``block`` of them or one a ``tensor``, which
        other kernels multiply; serving stacks of ``tensor_scales_on`` load a checkpoint with the
        latter.
    load
        How unevenly tokens choose them, and where they lie; all alike if it is absent.
    """

    count: ExpertCount
    per_token: PositiveInt
    ffn_size: PositiveInt | None = None
    shared_ffn_size: NonNegativeInt = 0
    dense_first_layers: NonNegativeInt = 0
    every: PositiveInt = 1
    latent_size: PositiveInt | None = None
    capacity_factor: PositiveFloat | None = None
    scales: Scales = "block"
    tensor_scales_on: tuple[str, ...] = ()  # no mapping: models are keys of what is kept
    load: ExpertLoad | None = None

    def __post_init__(self) -> None:
        """Refuse tokens that visit more experts than there are."""
        if self.per_token > self.count:
            raise ValueError(
                f"per_token {self.per_token:,} is more than the {self.count:,} experts there are"
            )

    @property
    def held(self) -> int:
        """Experts of a layer that GPUs hold, with further copies of them [1]."""
        return self.count + (self.load.redundant if self.load else 0)

    def sparse_layers(self, layers: int) -> int:
        """How many of so many layers have experts [1].

        Examples
        --------
        DeepSeek-V3, and Llama 4 Maverick:

        >>> Experts(count=256, per_token=8, dense_first_layers=3).sparse_layers(61)
        58
        >>> Experts(count=128, per_token=1, every=2).sparse_layers(48)
        24
        """
        return layers // self.every - min(self.dense_first_layers, layers) // self.every


class LatentAttention(Entry, frozen=True, kw_only=True):
    """Keys and values, and queries, made from small latent vectors (multi-head latent attention).

    Parameters
    ----------
    kv_rank, query_rank
        Elements of the latent vector of keys and values, and of queries, which are made from the
        whole hidden vector if it is absent [1].
    head_size, rotary_head_size
        Elements of a head's query and key without position, and those that are rotated, which all
        heads share of a key [1].
    value_head_size
        Elements of a head's value [1].
    """

    kv_rank: PositiveInt
    query_rank: PositiveInt | None = None
    head_size: PositiveInt
    rotary_head_size: NonNegativeInt
    value_head_size: PositiveInt


class WindowAttention(Entry, frozen=True, kw_only=True):
    """Attention of some layers to so many tokens: a sliding window, or a chunk of the sequence.

    Parameters
    ----------
    tokens
        Tokens that a token attends to [1].
    layers
        Layers that have it [1].
    kv_heads, head_size, value_head_size
        Theirs, if they are others than those of the model [1].
    """

    tokens: PositiveInt
    layers: LayerCount
    kv_heads: PositiveInt | None = None
    head_size: PositiveInt | None = None
    value_head_size: PositiveInt | None = None

    @property
    def own_heads(self) -> bool:
        """Whether its heads are others than those of full attention."""
        return bool(self.kv_heads or self.head_size or self.value_head_size)


class LinearAttention(Entry, frozen=True, kw_only=True):
    """Gated delta nets in place of the attention of some layers.

    Parameters
    ----------
    layers
        Layers that have it [1].
    key_heads, value_heads
        Heads of queries and keys; heads of values, gates and states [1].
    key_head_size, value_head_size
        Elements of one head; a state has as many as their product [1].
    convolution
        Tokens that the convolution in front of queries, keys and values sees [1].
    """

    layers: LayerCount
    key_heads: PositiveInt
    value_heads: PositiveInt
    key_head_size: PositiveInt
    value_head_size: PositiveInt
    convolution: PositiveInt = 4

    @property
    def state_heads(self) -> tuple[int, int]:
        """Heads of values, each with a state, and of the keys that they share [1]."""
        return self.value_heads, self.key_heads


class IndexAttention(Entry, frozen=True, kw_only=True):
    """Attention to the tokens that an indexer finds most telling (sparse attention of DeepSeek).

    Parameters
    ----------
    tokens
        Tokens that a token attends to [1].
    heads, head_size
        Heads of the indexer, and elements of each [1].
    layers
        Layers with an indexer of their own, if not all [1].
    """

    tokens: PositiveInt
    heads: PositiveInt
    head_size: PositiveInt
    layers: LayerCount | None = None

    def weights(self, hidden_size: int, latent: "LatentAttention | None") -> int:
        """Weights of one indexer, whose queries come from latent ones where there are [1]."""
        queries = latent.query_rank if latent and latent.query_rank else hidden_size
        return queries * self.heads * self.head_size + hidden_size * (self.head_size + self.heads)


class Mamba(Entry, frozen=True, kw_only=True):
    """Mamba 2 in place of attention and feed-forward part: the model is a hybrid.

    Of a hybrid every block is a layer: attention, a feed-forward part, experts or Mamba.

    Parameters
    ----------
    layers
        Blocks of the kind [1].
    heads, head_size
        Heads, and elements of one [1].
    state
        Elements that a head remembers of each of its own [1].
    groups
        Groups of heads that share what they write and read [1].
    """

    layers: LayerCount
    heads: PositiveInt
    head_size: PositiveInt
    state: PositiveInt
    groups: PositiveInt = 1

    def __post_init__(self) -> None:
        """Refuse groups of unequal size."""
        if self.heads % self.groups:
            raise ValueError(f"heads {self.heads} is not a multiple of groups {self.groups}")

    @property
    def state_heads(self) -> tuple[int, int]:
        """Heads, each with a state, and groups that share what is read and written of it [1]."""
        return self.heads, self.groups


class Model(Record, frozen=True, kw_only=True):
    """A transformer, as its catalog file describes it.

    Unless the file says otherwise, ``ffn_size`` is 4 x hidden size, ``kv_heads`` the number of
    heads, ``head_size`` an even share of the hidden size, ``value_head_size`` as large, ``rotary``
    what ``gated_ffn`` is, ``biases`` what it is not, and ``batch`` absent; heads together may be
    wider or narrower than the hidden size. With ``biases`` feed-forward parts and the output of
    attention add one to their products. Tokens of a ``causal`` model attend to those before them,
    of others to all.
    ``gated_attention`` makes a gate of results beside each query; ``attention_sinks`` let a head
    attend to nothing, by one number of its own beside its scores. ``vocabulary`` is 0
    for a model without one, such as a vision transformer. ``sequence_length`` is that of training;
    ``context_length`` is the most that it takes, prompt and answer, where that is known.
    ``weights`` says in which format of fewer bits experts are published; without it there are
    others' checkpoints of any.
    ``prediction_layers`` predict a token further on each. In a hybrid, which has ``mamba``,
    ``attention_layers`` blocks are attention; all others are experts, or feed-forward parts without
    them, as are ``dense_first_layers`` of those others. Layers may be unlike
    (`netplan.workloads.models`): heads are those of full attention then, and ``ffn_size`` that
    of dense layers. ``training_tokens`` is the length of its published run; ``parameters`` and
    ``active_parameters`` of a token are published counts, for checks only; plans say what of the
    model is ``left_out``. ``counts`` is what its batch counts.
    """

    counts: ClassVar[str] = "sequences"

    family: Literal["transformer"] = "transformer"
    hidden_size: PositiveInt
    layers: LayerCount
    heads: PositiveInt
    sequence_length: PositiveInt
    context_length: PositiveInt | None = None
    vocabulary: NonNegativeInt
    batch: PositiveInt
    kv_heads: PositiveInt | None = None
    head_size: PositiveInt | None = None
    value_head_size: PositiveInt | None = None
    gated_attention: bool = False
    attention_sinks: bool = False
    ffn_size: PositiveInt | None = None
    gated_ffn: bool = False
    rotary: bool | None = None
    biases: bool | None = None
    causal: bool = True
    experts: Experts | None = None
    latent_attention: LatentAttention | None = None
    window_attention: WindowAttention | None = None
    linear_attention: LinearAttention | None = None
    index_attention: IndexAttention | None = None
    mamba: Mamba | None = None
    attention_layers: PositiveInt | None = None
    prediction_layers: Annotated[int, Meta(ge=0, le=1000)] = 0
    tied_embeddings: bool = False
    weights: Literal["mxfp4"] | None = None
    training_tokens: PositiveFloat | None = None
    parameters: PositiveFloat | None = None
    active_parameters: PositiveFloat | None = None
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def head_elements(self) -> int:
        """Elements of one attention head, of queries and keys [1]."""
        return self.head_size or self.hidden_size // self.heads

    @property
    def query_size(self) -> int:
        """Elements of all heads together: width of the queries and of what attention gives [1]."""
        return self.heads * self.head_elements

    @property
    def key_heads(self) -> int:
        """Heads of keys and values [1]."""
        return self.kv_heads or self.heads

    @property
    def value_elements(self) -> int:
        """Elements of one head's values [1]."""
        return self.value_head_size or self.head_elements

    @property
    def inner_size(self) -> int:
        """Inner width of a feed-forward part, of dense layers [1]."""
        return self.ffn_size or 4 * self.hidden_size

    @property
    def ffn_matrices(self) -> int:
        """Matrices of a feed-forward part: up and down, and a gate where it has one [1]."""
        return 3 if self.gated_ffn else 2

    @property
    def rotates(self) -> bool:
        """Whether queries and keys are rotated by their position."""
        return self.gated_ffn if self.rotary is None else self.rotary

    @property
    def adds_biases(self) -> bool:
        """Whether products of feed-forward parts and of attention's output add a bias."""
        return not self.gated_ffn if self.biases is None else self.biases

    @property
    def depth(self) -> int:
        """Layers that are trained, those that predict further tokens included [1]."""
        return self.layers + self.prediction_layers

    @property
    def expert_layers(self) -> int:
        """Layers with experts of the file's own, without those that predict further tokens [1]."""
        if self.experts is None:
            return 0
        if self.mamba is not None:
            return self.forward_blocks - self.experts.dense_first_layers
        return self.experts.sparse_layers(self.layers)

    @property
    def sparse_layers(self) -> int:
        """Layers with experts of the file's own, of all that are trained [1]."""
        return self.expert_layers + self.prediction_layers if self.experts else 0

    @property
    def dense_layers(self) -> int:
        """Feed-forward parts without experts, of all layers that are trained [1]."""
        if self.mamba is not None:
            return self.forward_blocks + self.prediction_layers - self.sparse_layers
        return self.depth - self.sparse_layers

    @property
    def full_layers(self) -> int:
        """Layers whose attention is neither a window nor linear, of all that are trained [1].

        Of a hybrid, in which a prediction layer is one of attention and what follows it.
        """
        if self.mamba is not None:
            return (self.attention_layers or 0) + self.prediction_layers
        others = (self.window_attention, self.linear_attention)
        return self.depth - sum(other.layers for other in others if other is not None)

    @property
    def forward_blocks(self) -> int:
        """Blocks of a hybrid that are feed-forward parts or experts [1]."""
        mamba = self.mamba.layers if self.mamba else 0
        return self.layers - mamba - (self.attention_layers or 0)

    @property
    def with_states(self) -> tuple[LinearAttention | Mamba, ...]:
        """Its blocks that keep a state in place of keys and values."""
        return tuple(block for block in (self.linear_attention, self.mamba) if block)

    def in_windows(self) -> "Model":
        """The model with the heads of its windows in place of those of full attention."""
        window = self.window_attention
        if window is None or not window.own_heads:
            return self
        return self.changed(
            kv_heads=window.kv_heads or self.kv_heads,
            head_size=window.head_size or self.head_size,
            value_head_size=window.value_head_size or self.value_head_size,
        )

    @property
    def unlike(self) -> str:
        """What no plain layer has: words for a question that knows plain layers only, or none."""
        blocks = {
            "experts": self.experts,
            "latent attention": self.latent_attention,
            "windows": self.window_attention,
            "linear attention": self.linear_attention,
            "an index": self.index_attention,
            "gated attention": self.gated_attention,
            "attention sinks": self.attention_sinks,
            "values of another size": self.value_head_size,
            "prediction layers": self.prediction_layers,
            "Mamba": self.mamba,
        }
        return ", ".join(name for name, block in blocks.items() if block)

    @property
    def unknown(self) -> str:
        """What of its layers no published run has, whatever the software: words, or none."""
        never = ("linear attention", "an index", "gated attention")
        return ", ".join(name for name in never if name in self.unlike.split(", "))

    def batch_on(self, gpus: int) -> int:  # noqa: ARG002 - of other families it grows with them
        """Global batch of one iteration where none is asked for [sequences]."""
        return self.batch

    def __post_init__(self) -> None:
        """Refuse heads without a whole number of elements each."""
        if self.head_size is None and self.hidden_size % self.heads:
            raise ValueError(
                f"hidden_size {self.hidden_size:,} is not a multiple of heads {self.heads}:"
                " each head needs a whole number of elements: change one, or give head_size"
            )
        if self.kv_heads and self.heads % self.kv_heads:
            raise ValueError(f"heads {self.heads} is not a multiple of kv_heads {self.kv_heads}")
        window_heads = self.window_attention and self.window_attention.kv_heads
        if window_heads and self.heads % window_heads:
            raise ValueError(
                f"heads {self.heads} is not a multiple of the windows' kv_heads {window_heads}"
            )
        if self.full_layers < self.prediction_layers:
            raise ValueError(
                f"windows and linear attention have {self.depth - self.full_layers:,} layers, more"
                f" than the {self.layers:,} there are"
            )
        if self.experts is not None and self.sparse_layers == self.prediction_layers:
            raise ValueError(
                f"experts are in none of the {self.layers:,} layers: lower dense_first_layers or"
                " every"
            )
        if self.mamba is not None or self.attention_layers is not None:
            self._check_hybrid()
        own_sizes = self.kv_heads or self.head_size or self.value_head_size
        windows = self.window_attention
        if self.latent_attention and (own_sizes or (windows and windows.own_heads)):
            raise ValueError(
                "latent_attention has head sizes of its own: leave out kv_heads, head_size and"
                " value_head_size, those of windows too"
            )

    def _check_hybrid(self) -> None:
        """Refuse a hybrid whose blocks do not add up to its layers, or of other kinds."""
        if self.mamba is None or self.attention_layers is None:
            raise ValueError("mamba and attention_layers describe a hybrid together: give both")
        dense = self.experts.dense_first_layers if self.experts else 0
        if self.forward_blocks < dense:
            raise ValueError(
                f"mamba has {self.mamba.layers:,} layers, attention_layers are"
                f" {self.attention_layers:,} and dense_first_layers {dense:,}: together more than"
                f" the {self.layers:,} layers there are"
            )
        others = (self.window_attention, self.linear_attention, self.latent_attention)
        if any(others) or (self.experts and self.experts.every > 1):
            raise ValueError(
                "mamba: blocks of a hybrid have plain attention, and experts in all that are not"
                " dense: leave out windows, linear and latent attention, and every"
            )


def refuse_unlike(model: Model, who: str) -> None:
    """Refuse a model with what plain layers do not have, where somebody knows these only.

    Raises
    ------
    InputError
        If it has.
    """
    if model.unlike:
        raise InputError(
            f"{who} cover plain layers that are all alike, and {model.name} has {model.unlike}: use"
            " the iteration model calibrated or 4d, or another model"
        )


class ModelCatalog(Catalog[RecordT], frozen=True):
    """Model files, and configurations of published models."""

    other_suffixes: ClassVar[tuple[str, ...]] = (".json",)

    def read(self, path: Path) -> Document:
        """A file as parsed; a configuration with the keys of a model file."""
        document = None if path.suffix == ".json" else super().read(path)
        if document is not None and not {"model_type", "architectures"} & document.data.keys():
            return document
        from netplan.workloads.configuration import as_model_file, read_configuration  # noqa: PLC0415 - seldom used

        return as_model_file(path, document.data) if document else read_configuration(path)


def _transformer(document: Document) -> type[Model]:
    """Transformers alone, beside which other families stand."""
    family = document.data.get("family", "transformer")
    if family != "transformer":
        raise CatalogError(
            f"{document.path}:{document.line(['family'])}: a model of family {family!r:.40}:"
            " this question takes transformers"
        )
    return Model


def _any_family(document: Document) -> type[Any]:
    """The type that the family of a file says (`netplan.workloads.families`)."""
    family = document.data.get("family", "transformer")
    if family == "transformer":
        return Model
    from netplan.workloads.families import FAMILIES  # noqa: PLC0415 - seldom used

    if not isinstance(family, str) or family not in FAMILIES:  # a list is no key
        line = document.line(["family"])
        raise CatalogError(
            f"{document.path}:{line}: family {family!r:.40} is unknown: known are"
            f" transformer, {', '.join(FAMILIES)}"
        )
    return FAMILIES[family]


MODELS = ModelCatalog("model", "traffic/models", Model, kind_of=_transformer)
WORKLOADS = ModelCatalog[Any]("model", "traffic/models", Model, kind_of=_any_family)
