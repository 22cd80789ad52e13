"""Serving in closed form: TTFT of a prompt and TPOT of a batch, kernel by kernel, by DFModel.

One pass takes n new tokens (a batch's next ones, the tokens of a prompt, those that a draft
proposes) through L layers of hidden size h on t chips that share every layer, 2 bytes a number:

===========  =======================================================================================
products     max(2 P n / (t F), 2 P' / (t M)) of P weights, of which P' are read: all but the input
             embedding; of E experts with k of a token, drawn alike, those that somebody visits,
             1 - (1 - k/E)^n of them
attention    max(2 S n (c + (n' + 1)/2) / (t F), 2 N c v H / M): S numbers of queries and values, N
             requests of n' new tokens each behind c in the cache; of v numbers a KV head and token
             a chip reads H = ceil(KV heads / t) heads
collectives  2 L (2 sum(r - 1) hops + 2 (t-1)/t * 2 n h / link) over the rings of r chips of a torus
stages       p - 1 hops more, each of latency and 2 n h / link
===========  =======================================================================================

F is what a chip computes, M its memory rate. Nothing overlaps. TPOT is that of a batch's next
tokens, TTFT that of a prompt, of which the head takes the last token alone. With a batch in each
of p stages, p times as many tokens pass in that time.

Source: Ko et al., DFModel (arXiv:2412.16432), Sec. VIII-A, which prints no formula: this one gives
its 1,100 measured tokens/s of Llama 3 8B on 16 SN40L within 1 %. Latent attention reads its latent
vectors as one KV head that all chips hold. Left out: norms and softmax, writing to the cache,
choosing tokens from logits, and windows, linear attention and indexers, which are refused.
"""

from math import prod
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from netplan.arrays import Amount, Counts
from netplan.errors import InputError
from netplan.traffic.algorithms import as_amount, check_number
from netplan.workloads.accelerators import Accelerator
from netplan.workloads.models import Model
from netplan.workloads.operations import ELEMENT_BYTES
from netplan.workloads.parameters import parameter_count

COLLECTIVES = 2
"""All-reduces of a layer: behind attention and behind the feed-forward part [1]."""

FLOPS = 2.0
"""Of a multiplication and an addition [FLOP]."""


class Sizes(NamedTuple):
    """What a pass through a model reads and computes.

    Examples
    --------
    >>> from netplan.workloads.models import MODELS
    >>> sizes = Sizes.of(MODELS.load("llama-3-8b"))
    >>> f"{sizes.dense + sizes.head:,}", sizes.kv_heads, sizes.kv_numbers
    ('7,504,924,672', 8, 8192)
    """

    hidden: int
    layers: int
    dense: int  # weights that every token takes, without embedding and head [1]
    head: int  # weights of the head [1]
    routed: int  # weights of all routed experts [1]
    visited_share: float  # of these experts, by one token [1]
    kv_heads: int
    kv_numbers: int  # that one KV head has of a token in the cache, all layers together [1]
    score_numbers: int  # of queries and values that meet each token of the cache [1]

    @classmethod
    def of(cls, model: Model) -> "Sizes":
        """Sizes of a model.

        Raises
        ------
        InputError
            If it decodes no tokens, or not all of its layers have full attention.
        """
        _reject_unknown(model)
        count, experts = parameter_count(model), model.experts
        share, routed = 1.0, 0
        if experts is not None and experts.per_token < experts.count:
            share = experts.per_token / experts.count
            routed = (count.total - count.active) * experts.count
            routed //= experts.count - experts.per_token
        key, value = model.head_elements, model.value_elements
        kv_heads, kept = model.key_heads, key + value
        if model.latent_attention is not None:
            value = model.latent_attention.kv_rank
            key = kept = value + model.latent_attention.rotary_head_size
            kv_heads = 1
        head = model.hidden_size * model.vocabulary
        return cls(
            hidden=model.hidden_size,
            layers=model.layers,
            dense=count.total - count.embedding - head - routed,
            head=head,
            routed=routed,
            visited_share=share,
            kv_heads=kv_heads,
            kv_numbers=model.layers * kept,
            score_numbers=model.layers * model.heads * (key + value),
        )


def _reject_unknown(model: Model) -> None:
    """Refuse what this form does not know."""
    others = {
        "windows": model.window_attention,
        "linear attention": model.linear_attention,
        "an index": model.index_attention,
    }
    words = ", ".join(name for name, block in others.items() if block)
    if words or not (model.vocabulary and model.causal):
        raise InputError(
            f"the closed form of serving covers models that decode by full attention, and"
            f" {model.name} has {words or 'no next token'}: take a model such as llama-3-8b"
        )


class TensorGroup(Struct, frozen=True, eq=False):
    """Chips that share every layer: the rings of a torus, or one ring.

    Parameters
    ----------
    sides
        Chips of each ring; numbers or arrays that broadcast [1].
    flops_per_s, memory_bytes_per_s
        What one chip computes and reads [FLOP/s, B/s].
    link_bytes_per_s, hop_s
        Rate, one way, and latency of one link [B/s, s].
    ways
        Ways round a ring that all-reduces send: 1, or 2 as DFModel's own algebra counts every ring,
        one of two chips too [1].

    Examples
    --------
    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> TensorGroup.of(ACCELERATORS.load("sn40l"), 4, 4).all_reduce(8192)
    (6.144e-07, 1.8e-06)
    """

    sides: tuple[Counts, ...]
    flops_per_s: float
    memory_bytes_per_s: float
    link_bytes_per_s: float
    hop_s: float
    ways: int = 1

    @classmethod
    def of(cls, chip: Accelerator, *sides: Counts, ways: int = 1) -> "TensorGroup":
        """So many of these chips on rings of their own links."""
        check_number("chips of a ring", np.concatenate([*map(np.atleast_1d, sides)]), minimum=1)
        return cls(
            sides,
            chip.tensor_flops_per_s * (chip.compute_utilisation or 1.0),
            chip.memory_bytes_per_s,
            chip.hb_bytes_per_s,
            chip.hb_latency_s,
            ways,
        )

    @property
    def chips(self) -> Counts:
        """Chips of all rings [1]."""
        return prod(self.sides)

    def all_reduce(self, data_bytes: Amount) -> tuple[Amount, Amount]:
        """Time on the links and in hops of an all-reduce over all rings, one by one [s].

        A ring adds what the one before left to each of its members, so that the bytes of all of
        them together are those of one ring.
        """
        steps = 2 * sum(side - 1 for side in self.sides)
        sent = 2 / self.ways * (1 - 1 / np.asarray(self.chips)) * data_bytes
        return as_amount(sent / self.link_bytes_per_s), as_amount(steps * self.hop_s)


class TokenPass(NamedTuple):
    """New tokens of some requests; numbers or arrays that broadcast.

    Parameters
    ----------
    requests
        Requests that pass together [1].
    tokens
        New tokens of each [1].
    context
        Tokens of each that are in the cache [1].
    last
        Whether the head takes the last token of each alone.
    """

    requests: Counts = 1
    tokens: Counts = 1
    context: Counts = 0
    last: bool = False


class PassTime(NamedTuple):
    """Time of one pass, and what it is made of; shapes are those that all numbers broadcast to.

    Parameters
    ----------
    compute_s, memory_s
        All kernels if nothing but computing, or reading, took time [s].
    kernels_s
        The longer of both, kernel by kernel [s].
    sent_s, hops_s
        Bytes on links, and latency of hops [s].
    """

    compute_s: Amount
    memory_s: Amount
    kernels_s: Amount
    sent_s: Amount
    hops_s: Amount

    @property
    def total_s(self) -> Amount:
        """The whole pass [s]."""
        return self.kernels_s + self.sent_s + self.hops_s


def pass_time(sizes: Sizes, group: TensorGroup, *, work: TokenPass, stages: Counts = 1) -> PassTime:
    """Time of one pass through all stages (formulas of this module).

    Parameters
    ----------
    sizes
        The model.
    group
        Chips of one stage.
    work
        What passes.
    stages
        Pipeline stages, of as many chips each [1].

    Raises
    ------
    InputError
        If there are no requests, tokens or stages.

    Examples
    --------
    Five tokens that a draft proposes cost hardly more than one.

    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> from netplan.workloads.models import MODELS
    >>> sizes = Sizes.of(MODELS.load("llama-3-405b"))
    >>> group = TensorGroup.of(ACCELERATORS.load("sn40l"), 16)
    >>> times = pass_time(sizes, group, work=TokenPass(tokens=np.array([1, 5])))
    >>> (1e3 * times.total_s).round(1)
    array([33.3, 35.8])
    """
    for name, value in (("requests", work.requests), ("tokens", work.tokens), ("stages", stages)):
        check_number(name, value, minimum=1)
    check_number("context", work.context)
    chips, tokens = np.asarray(group.chips), work.requests * np.asarray(work.tokens)
    heads = np.ceil(sizes.kv_heads / chips) * chips  # copies included
    met = work.context + (np.asarray(work.tokens) + 1) / 2
    visited = 1 - (1 - sizes.visited_share) ** tokens
    cached = heads * work.requests * work.context
    kernels = (  # products, and numbers that are read
        (sizes.dense * tokens, sizes.dense),
        (sizes.head * (work.requests if work.last else tokens), sizes.head),
        (sizes.routed * sizes.visited_share * tokens, sizes.routed * visited),
        (sizes.score_numbers * tokens * met, sizes.kv_numbers * cached),
    )
    compute_s = [FLOPS * products / (chips * group.flops_per_s) for products, _ in kernels]
    memory_s = [ELEMENT_BYTES * read / (chips * group.memory_bytes_per_s) for _, read in kernels]
    crossing = ELEMENT_BYTES * sizes.hidden * tokens
    sent_s, hops_s = group.all_reduce(crossing)
    further = np.asarray(stages) - 1
    return PassTime(
        as_amount(sum(compute_s)),
        as_amount(sum(memory_s)),
        as_amount(sum(map(np.maximum, compute_s, memory_s))),
        as_amount(
            COLLECTIVES * sizes.layers * sent_s + further * crossing / group.link_bytes_per_s
        ),
        as_amount(COLLECTIVES * sizes.layers * hops_s + further * group.hop_s),
    )


class ServingPhase(NamedTuple):
    """How long requests wait in one phase of serving, and how many tokens pass.

    Parameters
    ----------
    wait_s
        TPOT, or TTFT [s].
    tokens_per_s
        Tokens that all stages give, or take in, in a second [1/s].
    parts
        What the wait is made of.
    """

    wait_s: Amount
    tokens_per_s: Amount
    parts: PassTime


def _phase(sizes: Sizes, group: TensorGroup, work: TokenPass, stages: Counts) -> ServingPhase:
    """A pass with as many in flight as there are stages."""
    parts = pass_time(sizes, group, work=work, stages=stages)
    wait_s = parts.total_s
    return ServingPhase(
        wait_s, as_amount(stages * work.requests * np.asarray(work.tokens) / wait_s), parts
    )


def decode(
    sizes: Sizes, group: TensorGroup, *, batch: Counts = 1, context: Counts = 0, stages: Counts = 1
) -> ServingPhase:
    """TPOT of a batch, and output tokens/s with such a batch in each stage.

    Parameters
    ----------
    sizes, group, stages
        The model, chips of a stage, and stages, as of `pass_time`.
    batch
        Requests that decode together [1].
    context
        Tokens of each in the cache [1].

    Examples
    --------
    Llama 3 8B on 16 SN40L: measured were 1,100 tokens/s. Half the chips a stage, more tokens.

    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> from netplan.workloads.models import MODELS
    >>> sizes = Sizes.of(MODELS.load("llama-3-8b"))
    >>> group = TensorGroup.of(ACCELERATORS.load("sn40l"), np.array([16, 8]))
    >>> decode(sizes, group, stages=np.array([1, 2])).tokens_per_s.round()
    array([1095., 1488.])
    """
    return _phase(sizes, group, TokenPass(batch, 1, context), stages)


def prefill(
    sizes: Sizes, group: TensorGroup, *, prompt: Counts, batch: Counts = 1, stages: Counts = 1
) -> ServingPhase:
    """TTFT of prompts, and prompt tokens/s with as many in each stage.

    Parameters
    ----------
    sizes, group, stages
        The model, chips of a stage, and stages, as of `pass_time`.
    prompt
        Tokens of a prompt [1].
    batch
        Prompts that pass together [1].

    Examples
    --------
    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> from netplan.workloads.models import MODELS
    >>> sizes = Sizes.of(MODELS.load("llama-3-8b"))
    >>> group = TensorGroup.of(ACCELERATORS.load("sn40l"), 16)
    >>> round(1e3 * prefill(sizes, group, prompt=1024).wait_s, 1)
    42.2
    """
    return _phase(sizes, group, TokenPass(batch, prompt, last=True), stages)
