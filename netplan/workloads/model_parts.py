"""Blocks of a model file: experts, and kinds of attention beside the plain one.

A block says how many of the layers have it; all others are plain. Names are those of the papers:
mixtures of experts (Lepikhin et al., GShard, arXiv:2006.16668; shared experts and dense first
layers: Dai et al., DeepSeekMoE, arXiv:2401.06066), latent attention (DeepSeek-V2, arXiv:2405.04434,
Sec. 2.1), sliding windows (Beltagy et al., Longformer, arXiv:2004.05150), gated delta nets (Yang et
al., arXiv:2412.06464) and the lightning indexer of sparse attention (DeepSeek-V3.2,
arXiv:2512.02556, Sec. 2.1).
"""

from typing import Annotated

from msgspec import Meta

from netplan.records import Entry, LayerCount, NonNegativeInt, PositiveInt

ExpertCount = Annotated[int, Meta(ge=2, le=100_000)]


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
    """

    count: ExpertCount
    per_token: PositiveInt
    ffn_size: PositiveInt | None = None
    shared_ffn_size: NonNegativeInt = 0
    dense_first_layers: NonNegativeInt = 0
    every: PositiveInt = 1

    def __post_init__(self) -> None:
        """Refuse tokens that visit more experts than there are."""
        if self.per_token > self.count:
            raise ValueError(
                f"per_token {self.per_token:,} is more than the {self.count:,} experts there are"
            )

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
    def key_size(self) -> int:
        """Elements of all keys of a token [1]."""
        return self.key_heads * self.key_head_size

    @property
    def value_size(self) -> int:
        """Elements of all values of a token [1]."""
        return self.value_heads * self.value_head_size


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
