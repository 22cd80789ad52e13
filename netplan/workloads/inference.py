"""What one step of inference runs: the prompt of a request (prefill), or its next tokens (decode).

The same layers as in training, forward only, of any transformer of the catalog. A copy of the model
lies on tensor x attention-data GPUs of each pipeline stage: attention is cut over ``tensor`` GPUs
and copied ``attention_data`` times, each copy with requests of its own; experts are spread
``expert``-fold over the same GPUs and cut over tensor x attention-data / expert of them. Degrees
that divide neither heads nor heads of keys are padded, or these are copied.

==============  ==================================================================================
attention       qkv and output projections, one all_reduce behind them. Tokens are stored in a cache
                that every later token reads; latent attention stores its latent vectors, makes keys
                and values of them in a prefill, and in decode works on them as they are
                (DeepSeek-V2, arXiv:2405.04434, Sec. 2.1.2: the up-projections are absorbed)
linear          gated delta nets: a state of 32-bit numbers for each head, read and written a token
Mamba           the same of Mamba 2, in blocks of a hybrid, which attend or are feed-forward parts
                otherwise
feed-forward    two or three products, one all_reduce behind them
experts         all copies send tokens to the GPUs of their experts and take sums back (all_to_all),
                or, where no expert lies apart (expert 1) or the stack's ``exchange`` is ``gather``,
                gather all tokens and scatter sums; the
                GPUs of a copy then gather its tokens. With one copy of attention all its GPUs have
                the tokens already, and sums are reduced. Experts of latent vectors have a
                projection before and behind, by weights on every GPU; such vectors are exchanged
head            one row of scores for each token that is sampled
==============  ==================================================================================

Left out: embedding lookups, sampling, norms of queries and keys, layers that predict further
tokens, and moving tokens into the order of their experts, which fused kernels contain.

The program of servers: what one *round* of a cluster that serves runs, and who sends to whom.

In a round every server that decodes makes one step of all its requests, so that a round takes as
long as a token (TPOT), and the prompts that end in that time fall on the servers that take prompts:
of B requests with R tokens of output each, B / R in the mean. Passes through the layers repeat as
often as microbatches of a pipeline, forward only, and nothing is kept in step between replicas.

The ``expert`` group of a stage are all its GPUs: those of one copy of attention (``tensor``), and
its copies, which stand in the place of the expert degree.
"""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
from msgspec import Struct

from netplan.arrays import Amount, Columns, Floats
from netplan.errors import InputError
from netplan.inputs.choices import Exchange, Precision, ServingFormat, WindowCache
from netplan.records import replace
from netplan.workloads import operations as ops
from netplan.workloads.attention import INDEX_FLOPS, STATE_BYTES
from netplan.workloads.models import (
    Experts,
    IndexAttention,
    LatentAttention,
    LinearAttention,
    Mamba,
    Model,
)
from netplan.workloads.parameters import StateBlock, state_block
from netplan.workloads.precision import NUMBER_BYTES
from netplan.workloads.program import Program, Repetition

Phase = Literal["prefill", "decode"]


class NumberFormat(Struct, frozen=True):
    """What products take, and how their weights are stored, in so many bytes each [B].

    ``kernel`` is what tables of measured kernels call fused experts of such weights.
    """

    precision: Precision = "bf16"
    weight_bytes: float = 2.0
    stored: ServingFormat = "bf16"
    kernel: str = "bf16"


class Formats(Struct, frozen=True):
    """How a served model is kept and sent.

    Parameters
    ----------
    attention, feed_forward
        Numbers of both.
    cache_bytes
        Those of its cache [B].
    window_cache
        What layers with windows keep of a request.
    exchange
        How copies of attention bring tokens to the experts that they share.
    """

    attention: NumberFormat = NumberFormat()
    feed_forward: NumberFormat = NumberFormat()
    cache_bytes: float = 2.0
    window_cache: WindowCache = "window"
    exchange: Exchange = "deepep"


SIXTEEN = Formats()
"""Everything in 16 bits."""

WIDE = NumberFormat()
"""Routers, embedding and head are 16-bit numbers whatever the rest is."""


class Cut(Struct, frozen=True, eq=False):
    """How one pipeline stage is cut, one entry a plan, shape (plans,) [1].

    Examples
    --------
    >>> Cut.of(tensor=4, attention_data=2, expert=8).expert_tensor
    array([1.])
    """

    tensor: Floats
    attention_data: Floats
    expert: Floats

    @classmethod
    def of(cls, tensor: int, attention_data: int = 1, expert: int = 1) -> "Cut":
        """A single plan."""
        return cls(*(np.array([float(degree)]) for degree in (tensor, attention_data, expert)))

    @property
    def gpus(self) -> Floats:
        """GPUs of a stage [1]."""
        return self.tensor * self.attention_data

    @property
    def expert_tensor(self) -> Floats:
        """GPUs that one expert is cut over [1]."""
        return self.gpus / self.expert


class ServingStep(Columns, frozen=True, eq=False):
    """What each copy of attention does in one step.

    Parameters
    ----------
    phase
        ``prefill`` works on prompts, ``decode`` on tokens that follow them.
    sequences
        Requests of one copy, shape (plans,) or a number [1].
    tokens
        New tokens of each: the prompt, or one, or what speculation proposes [1].
    context
        Tokens that the last of them attends to, itself included [1].
    """

    phase: Phase
    sequences: Amount
    tokens: Amount
    context: Amount

    @property
    def rows(self) -> Amount:
        """Tokens of a copy [1]."""
        return self.sequences * self.tokens

    @property
    def sampled(self) -> Amount:
        """Tokens whose scores are asked for: the last of a prompt, or all [1]."""
        return self.sequences if self.phase == "prefill" else self.rows


def inference_layer(
    model: Model, cut: Cut, step: ServingStep, formats: Formats = SIXTEEN
) -> ops.Layer:
    """The operations of one layer in one step, for many plans at once.

    Parameters
    ----------
    model
        The transformer.
    cut
        How a stage is cut, shape (plans,).
    step
        What one copy of attention works on.
    formats
        Numbers of weights and cache.

    Raises
    ------
    InputError
        If the model generates no tokens.

    Examples
    --------
    >>> from netplan.workloads.models import MODELS
    >>> layer = inference_layer(
    ...     MODELS.load("llama-3-70b"), Cut.of(8), ServingStep("decode", 16.0, 1.0, 2048.0))
    >>> [one.name for one in layer.operations if one.shapes]
    ['qkv', 'output', 'up', 'down']
    """
    if not (model.causal and model.vocabulary):
        raise InputError(f"{model.name} does not generate tokens one by one: serve a causal model")
    rows, hidden = step.rows, float(model.hidden_size)
    norm, second = (
        _vector("norm", "attention", rows, hidden),
        _vector("norm-2", "mlp", rows, hidden),
    )
    if model.mamba is not None:  # a block attends or holds a state, or is a feed-forward part
        blocks = model.forward_blocks / model.layers
        norm, second = replace(norm, share=1 - blocks), replace(second, share=blocks)
    operations = [
        norm,
        *_attention(model, cut, step, formats),
        second,
        *_feed_forward(model, cut, step, formats),
    ]
    return ops.Layer(tuple(operations), ops.ELEMENT_BYTES * rows * hidden / cut.tensor)


def inference_head(model: Model, cut: Cut, step: ServingStep) -> ops.Operation:
    """Scores of the words for the tokens that are sampled."""
    share = model.vocabulary / cut.tensor
    return _product("head", "head", step.sampled, float(model.hidden_size), share, WIDE)


def embedding_bytes(model: Model, cut: Cut) -> Floats:
    """Weights of the token embedding on one GPU of the first stage [B]."""
    return ops.ELEMENT_BYTES * model.hidden_size * model.vocabulary / cut.tensor


def cached_bytes(
    model: Model,
    cut: Cut,
    context: Amount,
    cache_bytes: float,
    window_cache: WindowCache = "window",
) -> Floats:
    """What one request of so many tokens stores on one GPU, of all layers [B].

    Keys and values of the local heads, at least one; latent vectors on every tensor GPU; windows
    store what they see, or all of it where software does not shrink their caches; linear attention
    and Mamba a state whatever came before.

    Examples
    --------
    >>> from netplan.workloads.models import MODELS
    >>> cached_bytes(MODELS.load("llama-3-70b"), Cut.of(1), 1, 2.0)
    array([327680.])
    """
    total = np.zeros(cut.tensor.shape)
    for part in _attention_parts(model):
        if part.states is not None:
            held = STATE_BYTES * _state_block(part.states, cut).states
            total = total + part.layers * held
        else:
            windowed = window_cache == "window" and part.kind == "window"
            held = np.minimum(context, part.keys) if windowed else context
            total = total + part.layers * cache_bytes * held * _stored(part.model, cut)
            if model.index_attention is not None:
                total = total + part.layers * cache_bytes * held * model.index_attention.head_size
    return total


class _Part(Struct, frozen=True):
    """Layers with one kind of attention: how many, whose heads, how many keys a token sees."""

    kind: Literal["full", "window", "linear", "mamba"]
    layers: int
    model: Model
    keys: float = np.inf
    states: LinearAttention | Mamba | None = None

    @property
    def window(self) -> float | None:
        """Keys that a token sees at most, if that is bounded [1]."""
        return None if np.isinf(self.keys) else self.keys


def _attention_parts(model: Model) -> Iterator[_Part]:
    window, full = model.window_attention, model.full_layers - model.prediction_layers
    if full:
        keys = float(model.index_attention.tokens) if model.index_attention else np.inf
        yield _Part("full", full, model, keys)
    if window is not None:
        yield _Part("window", window.layers, model.in_windows(), float(window.tokens))
    for kind in model.with_states:
        name: Literal["linear", "mamba"] = "mamba" if kind is model.mamba else "linear"
        yield _Part(name, kind.layers, model, states=kind)


def _stored(model: Model, cut: Cut) -> Floats:
    """Numbers that one token stores on one GPU, a layer [1]."""
    latent = model.latent_attention
    if latent is not None:
        return np.full(cut.tensor.shape, float(latent.kv_rank + latent.rotary_head_size))
    return _heads(model.key_heads, cut.tensor) * (model.head_elements + model.value_elements)


def _heads(heads: int, tensor: Floats) -> Floats:
    """Heads of one GPU: padded where they do not divide, at least one [1]."""
    return np.maximum(np.ceil(heads / tensor), 1.0)


def _product(  # noqa: PLR0913, PLR0917 - sizes of both factors
    name: str,
    module: ops.Module,
    rows: Amount,
    inner: Amount,
    columns: Amount,
    number: NumberFormat,
    collectives: tuple[ops.CollectiveCall, ...] = (),
) -> ops.Operation:
    """Rows times a matrix of inner x columns, which one GPU holds."""
    shape = ops.ProductShape(rows, inner, columns)
    weights = number.weight_bytes * inner * columns
    input_bytes = NUMBER_BYTES[number.precision] * rows * inner
    moved = weights + input_bytes + ops.ELEMENT_BYTES * rows * columns
    work = ops.OperationCost(shape.flops, 0.0, moved, collectives, weight_bytes=weights)
    return ops.Operation(
        *(name, module, weights, 0.0, work, ops.NO_WORK),
        shapes=(shape,),
        precision=number.precision,
    )


def _vector(name: str, module: ops.Module, rows: Amount, columns: Amount) -> ops.Operation:
    """An operation that reads and writes rows once."""
    work = ops.OperationCost(
        vector_flops=rows * columns, moved_bytes=2 * ops.ELEMENT_BYTES * rows * columns
    )
    return ops.Operation(name, module, 0.0, 0.0, work, ops.NO_WORK)


def _attention(
    model: Model, cut: Cut, step: ServingStep, formats: Formats
) -> Iterator[ops.Operation]:
    """Attention of every kind, each with its share of the layers."""
    for part in _attention_parts(model):
        share = part.layers / model.layers
        if part.states is not None:
            operations = _with_states(model, part.states, cut, step, formats)
        elif model.latent_attention is not None:
            operations = _latent(part, model.latent_attention, cut, step, formats)
        else:
            operations = _full(part, cut, step, formats)
        prefix = "" if part.kind == "full" else f"{part.kind}-"
        yield from (
            replace(operation, name=prefix + operation.name, share=share)
            for operation in operations
        )


def _reduced(model: Model, step: ServingStep) -> tuple[ops.CollectiveCall, ...]:
    """Sum of results over the tensor GPUs, which all need it."""
    message = ops.ELEMENT_BYTES * step.rows * model.hidden_size
    return (ops.CollectiveCall("all_reduce", message, "tensor"),)


def _full(part: _Part, cut: Cut, step: ServingStep, formats: Formats) -> list[ops.Operation]:
    """Projections, rotation and storing of keys, attention, projection of the results."""
    model, rows, number = part.model, step.rows, formats.attention
    size, values = model.head_elements, model.value_elements
    heads, kv_heads = _heads(model.heads, cut.tensor), _heads(model.key_heads, cut.tensor)
    hidden, gates = float(model.hidden_size), values if model.gated_attention else 0
    columns = heads * (size + gates) + kv_heads * (size + values)
    shape = ops.AttentionShape(
        *(step.sequences, heads, kv_heads, step.tokens, step.context, (size + values) / 2),
        causal=step.phase == "prefill",
        window=part.window,
    )
    operations = [_product("qkv", "attention", rows, hidden, columns, number)]
    if model.index_attention is not None:
        operations.append(_index(model, model.index_attention, step, formats))
    stored = kv_heads * (size + values)
    operations += [
        _vector("rotate", "attention", rows, columns),
        _attend(shape, stored, formats.cache_bytes),
        _product(
            *("output", "attention", rows, heads * values, hidden, number), _reduced(model, step)
        ),
    ]
    return operations


def _attend(shape: ops.AttentionShape, stored: Amount, cache_bytes: float) -> ops.Operation:
    """Attention to what is stored; a prompt attends to itself, and reads all of its keys."""
    seen = shape.keys if shape.window is None else np.minimum(shape.window, shape.keys)
    pairs = seen - seen * seen / (2 * shape.keys) if shape.causal else seen
    queries = shape.sequences * shape.heads * shape.queries
    inner = 2 * shape.head_size
    if shape.latent_rank is not None:
        inner = shape.head_size + shape.latent_rank
    read = shape.keys if shape.causal else seen
    moved = cache_bytes * shape.sequences * read * stored + ops.ELEMENT_BYTES * queries * inner
    work = ops.OperationCost(2 * queries * pairs * inner, 3 * queries * pairs, moved)
    return ops.Operation(
        *("attention", "attention", 0.0, 0.0, work, ops.NO_WORK), scores=True, attention=shape
    )


def _latent(
    part: _Part, latent: LatentAttention, cut: Cut, step: ServingStep, formats: Formats
) -> list[ops.Operation]:
    """Latent vectors on every GPU, heads cut; what follows depends on the phase."""
    model, rows, number = part.model, step.rows, formats.attention
    heads, hidden = _heads(model.heads, cut.tensor), float(model.hidden_size)
    rank, rotary = latent.kv_rank, latent.rotary_head_size
    ranks = float(latent.query_rank or 0)
    query = latent.head_size + latent.rotary_head_size
    down = ranks + rank + rotary
    operations = [_product("latent-down", "attention", rows, hidden, down, number)]
    operations.append(
        _product("query-up", "attention", rows, ranks or hidden, heads * query, number)
    )
    if model.index_attention is not None:
        operations.append(_index(model, model.index_attention, step, formats))
    operations.append(_vector("rotate", "attention", rows, heads * rotary + down))
    inside = _made if step.phase == "prefill" else _stored_as_made
    operations += inside(part, latent, heads, step, formats)
    columns = heads * latent.value_head_size
    output = _product(
        *("output", "attention", rows, columns, hidden, number), _reduced(model, step)
    )
    return [*operations, output]


def _made(
    part: _Part, latent: LatentAttention, heads: Floats, step: ServingStep, formats: Formats
) -> list[ops.Operation]:
    """Keys and values made of the latent vectors of a prompt, and attention to them."""
    size = (latent.head_size + latent.rotary_head_size + latent.value_head_size) / 2
    shape = ops.AttentionShape(
        *(step.sequences, heads, heads, step.tokens, step.context, size), window=part.window
    )
    columns = heads * (latent.head_size + latent.value_head_size)
    rank, number = float(latent.kv_rank), formats.attention
    return [
        _product("key-value-up", "attention", step.rows, rank, columns, number),
        _attend(shape, heads * 2 * size, ops.ELEMENT_BYTES),
    ]


def _stored_as_made(
    part: _Part, latent: LatentAttention, heads: Floats, step: ServingStep, formats: Formats
) -> list[ops.Operation]:
    """Attention to the latent vectors as they are stored, between two small products a head.

    Each is half of the up-projection by 16-bit weights, timed as one product.
    """
    rank, rows = float(latent.kv_rank), step.rows
    stored = rank + latent.rotary_head_size
    shape = ops.AttentionShape(
        *(step.sequences, heads, np.ones_like(heads), step.tokens, step.context, stored),
        causal=False,
        window=part.window,
        latent_rank=rank,
    )
    return [
        _product("key-absorb", "attention", rows, float(latent.head_size), rank * heads, WIDE),
        _attend(shape, stored, formats.cache_bytes),
        _product("value-absorb", "attention", rows, rank, latent.value_head_size * heads, WIDE),
    ]


def _index(
    model: Model, index: IndexAttention, step: ServingStep, formats: Formats
) -> ops.Operation:
    """Scores of all stored tokens by small heads, whose keys are stored beside the cache."""
    rows, matrix = step.rows, index.weights(model.hidden_size, model.latent_attention)
    weights = formats.attention.weight_bytes * matrix
    pairs = step.context - step.tokens / 2 if step.phase == "prefill" else step.context
    scores = rows * pairs * index.heads
    keys = formats.cache_bytes * step.sequences * step.context * index.head_size
    work = ops.OperationCost(
        tensor_flops=2.0 * rows * matrix + 2 * scores * index.head_size,
        vector_flops=INDEX_FLOPS * scores,
        moved_bytes=weights + keys + ops.ELEMENT_BYTES * rows * (index.heads + 1) * index.head_size,
        weight_bytes=weights,
    )
    return ops.Operation("index", "attention", weights, 0.0, work, ops.NO_WORK)


def _state_block(kind: LinearAttention | Mamba, cut: Cut) -> StateBlock:
    """What one GPU has of a layer that keeps states."""
    return state_block(kind, *(_heads(heads, cut.tensor) for heads in kind.state_heads))


def _with_states(
    model: Model, kind: LinearAttention | Mamba, cut: Cut, step: ServingStep, formats: Formats
) -> list[ops.Operation]:
    """Projections, and states that every token reads and writes; a prompt does so in chunks."""
    rows, number, hidden = step.rows, formats.attention, float(model.hidden_size)
    block = _state_block(kind, cut)
    mixed, values = block.mixed, block.values
    states = 2 * step.sequences * (STATE_BYTES * block.states)
    if step.phase == "decode":
        states = states * step.tokens
    moved = states + 2 * ops.ELEMENT_BYTES * rows * (mixed + values)
    flops = rows * block.chains * block.chain_flops
    work = ops.OperationCost(flops, rows * mixed * 2 * block.convolution, moved)
    name = "scan" if isinstance(kind, Mamba) else "states"
    return [
        _product("in", "attention", rows, hidden, block.columns, number),
        _vector("convolution", "attention", rows, mixed),
        ops.Operation(name, "attention", 0.0, 0.0, work, ops.NO_WORK),
        _vector("gate", "attention", rows, values),
        _product(*("output", "attention", rows, values, hidden, number), _reduced(model, step)),
    ]


def _feed_forward(
    model: Model, cut: Cut, step: ServingStep, formats: Formats
) -> Iterator[ops.Operation]:
    """Dense layers and those with experts, each with its share of all layers."""
    sparse = model.expert_layers
    dense = (model.forward_blocks if model.mamba is not None else model.layers) - sparse
    if dense:
        inner = model.inner_size / cut.tensor
        operations = _dense("", model, inner, step, formats, _reduced(model, step))
        yield from (replace(operation, share=dense / model.layers) for operation in operations)
    if sparse:
        operations = _sparse(model, cut, step, formats)
        yield from (replace(operation, share=sparse / model.layers) for operation in operations)


def _dense(
    prefix: str,
    model: Model,
    inner: Amount,
    step: ServingStep,
    formats: Formats,
    collectives: tuple[ops.CollectiveCall, ...] = (),
) -> list[ops.Operation]:
    """Up, activation, down."""
    rows, hidden, number = step.rows, float(model.hidden_size), formats.feed_forward
    ways = 2 if model.gated_ffn else 1
    return [
        _product(f"{prefix}up", "mlp", rows, hidden, ways * inner, number),
        _vector(f"{prefix}activation", "mlp", rows, (ways + 1) * inner / 2),
        _product(*(f"{prefix}down", "mlp", rows, inner, hidden, number), collectives),
    ]


def _sparse(model: Model, cut: Cut, step: ServingStep, formats: Formats) -> list[ops.Operation]:
    """Router, shared experts, the exchange of tokens, routed experts."""
    experts = model.experts
    if experts is None:
        return []
    rows, hidden = step.rows, float(model.hidden_size)
    operations = [_product("router", "mlp", rows, hidden, float(experts.count), WIDE)]
    if experts.shared_ffn_size:
        inner = experts.shared_ffn_size / cut.tensor
        # With latent vectors its sums are none of those that experts send back.
        summed = _reduced(model, step) if experts.latent_size else ()
        operations += _dense("shared-", model, inner, step, formats, summed)
    number, tokens = formats.feed_forward, rows * cut.attention_data
    width, after = hidden, list[ops.Operation]()
    if experts.latent_size:
        width = float(experts.latent_size)
        operations.append(_product("expert-down", "mlp", rows, hidden, width, number))
        after.append(_product("expert-up", "mlp", rows, width, hidden, number))
    shape = ops.ExpertShape(
        hidden=width,
        inter=float(experts.ffn_size or model.inner_size),
        top_k=float(experts.per_token),
        experts=float(experts.count),
        tensor=cut.expert_tensor,
        expert=cut.expert,
        products=float(model.ffn_matrices),
        load=experts.load,
    )
    matrix = shape.products * width * shape.inner
    read = number.weight_bytes * shape.weights(tokens, "random")
    moved = read + ops.ELEMENT_BYTES * shape.rows(tokens) * (2 * width + 3 * shape.inner)
    sent = _exchange(experts, width, cut, step, formats)
    work = ops.OperationCost(2.0 * shape.rows(tokens) * matrix, 0.0, moved, sent, weight_bytes=read)
    held = ops.Operation(
        *("experts", "mlp", number.weight_bytes * experts.held / cut.expert * matrix, 0.0),
        *(work, ops.NO_WORK),
        expert_weights=True,
        experts=ops.RoutedTokens(tokens, shape, number.stored, number.weight_bytes, number.kernel),
        precision=number.precision,
    )
    return [*operations, held, *after]


def _exchange(
    experts: Experts, hidden: float, cut: Cut, step: ServingStep, formats: Formats
) -> tuple[ops.CollectiveCall, ...]:
    """Tokens to their experts and sums back (table of this module); messages of 0 are none."""
    rows = step.rows
    sent = max(NUMBER_BYTES[formats.feed_forward.precision], NUMBER_BYTES["fp8"])
    several, spread = cut.attention_data > 1, cut.expert > 1
    # Groups of GPUs with different experts that even choices of a token meet.
    met = cut.expert * (1 - (1 - 1 / cut.expert) ** experts.per_token) * cut.expert_tensor
    own_elements, every = rows / cut.tensor * hidden, rows * cut.attention_data * hidden
    # Where experts lie apart, tokens go to those met alone, or all of them to everybody.
    apart = several & spread & (formats.exchange != "gather")
    gathered = several & ~apart
    again = np.where(several & (cut.tensor > 1), ops.ELEMENT_BYTES * rows * hidden, 0.0)
    alone = np.where(several, 0.0, ops.ELEMENT_BYTES * rows * hidden)
    there = back = None
    if experts.load is not None:
        there = ops.Uneven(experts.load, cut.expert, cut.expert_tensor)
        back = replace(there, back=True)
    taken, returned = (
        np.where(apart, number_bytes * own_elements * met, 0.0)
        for number_bytes in (sent, ops.ELEMENT_BYTES)
    )
    return (
        ops.CollectiveCall("all_to_all", taken, "expert", there),
        ops.CollectiveCall("all_gather", np.where(gathered, sent * every, 0.0), "expert"),
        ops.CollectiveCall("all_to_all", returned, "expert", back),
        ops.CollectiveCall(
            "reduce_scatter", np.where(gathered, ops.ELEMENT_BYTES * every, 0.0), "expert"
        ),
        ops.CollectiveCall("all_gather", again, "tensor"),
        ops.CollectiveCall("all_reduce", alone, "tensor"),
    )


SERVED_SPANS: dict[ops.GroupName, tuple[str, ...]] = {"expert": ("tensor", "expert")}
"""Dimensions of the GPUs that exchange the tokens of experts."""


class StepPasses(NamedTuple):
    """Steps of one copy of attention that are alike, and how often a microbatch makes them [1]."""

    step: ServingStep
    times: float = 1.0


def serving_program(
    model: Model, cut: Cut, passes: Sequence[StepPasses], formats: Formats = SIXTEEN
) -> Program:
    """The program of one round, for one way to cut a stage.

    Parameters
    ----------
    model
        The transformer.
    cut
        How a stage is cut, one plan.
    passes
        What every microbatch of a round does: decode, prompts, or both.
    formats
        Numbers of weights and cache.

    Raises
    ------
    InputError
        If the model's attention cannot be served.

    Examples
    --------
    Eight requests decode, and one prompt in 256 rounds is theirs.

    >>> from netplan.workloads.models import MODELS
    >>> decode = ServingStep("decode", 8.0, 1.0, 2176.0)
    >>> prompt = ServingStep("prefill", 1.0, 2048.0, 2048.0)
    >>> program = serving_program(
    ...     MODELS.load("llama-3-70b"), Cut.of(8),
    ...     [StepPasses(decode), StepPasses(prompt, 8 / 256)])
    >>> for use in program.collectives(stages=1, microbatches=1):
    ...     print(use.kind, use.collective, use.data_bytes, use.times)
    tensor all_reduce 131072.0 160.0
    tensor all_reduce 33554432.0 5.0
    """
    layers = [inference_layer(model, cut, run.step, formats) for run in passes]
    operations = tuple(
        replace(
            operation, name=f"{run.step.phase}-{operation.name}", share=run.times * operation.share
        )
        for run, layer in zip(passes, layers, strict=True)
        for operation in layer.operations
    )
    boundaries = zip(passes, layers, strict=True)
    boundary_bytes = sum(run.times * layer.boundary_bytes for run, layer in boundaries)
    sampled = sum(run.times * run.step.sampled for run in passes)
    tensor, copies = (int(degree[0]) for degree in (cut.tensor, cut.attention_data))
    return Program(
        sharding=ops.Sharding.of(1, tensor=tensor, expert=copies),
        layer=ops.Layer(operations, boundary_bytes),
        first=None,
        last=inference_head(model, cut, ServingStep("decode", sampled, 1.0, 1.0)),
        repetition=Repetition(model.layers, 0, "1d", trains=False, spans=SERVED_SPANS),
    )
