"""A transformer under each strategy of tensor parallelism: its layer, and the ends of the network.

In both modes the layer has the operations of arXiv:2410.00273: the feed-forward part, then
attention. Mode ``published-code`` repeats two slips of that paper's code, which `corrected` mends:
the SUMMA norm is l // n1 wide instead of e // n1, and the biases of fc2 and vproj act on rows that
were scattered before. Left out, as there: the qkv bias, residual sums, loss and optimizer.

A mixture of experts may take the place of the feed-forward part. Every token visits ``top_k`` of
the experts, which are spread over ``expert`` GPUs of the data parallel group; within one expert the
weights are cut over the tensor GPUs. Tokens leave from where the sequence is cut, travel by
all_to_all to their experts, and are gathered over the tensor GPUs there; the results take the way
back. Tokens are spread evenly: capacity factors, dropped tokens and imbalance are left out.
Sources: Lepikhin et al., GShard (arXiv:2006.16668), Sec. 3 for the exchange; Singh et al.
(arXiv:2303.06318) for experts under tensor parallelism.

Token embedding (at the first stage) and head with loss (at the last) hold the vocabulary cut over
the tensor GPUs, whatever the strategy, and see the tokens of their context GPU (Shoeybi et al.,
arXiv:1909.08053, Sec. 3). Their weights are counted apart; a model that ties them saves one of the
two.
"""

from collections.abc import Sequence

import numpy as np

from netplan.arrays import Floats
from netplan.errors import InputError
from netplan.records import replace
from netplan.workloads.kernels import (
    Product,
    activation,
    bias,
    block_norm,
    column_product,
    dropout,
    layer_norm,
    row_product,
    summa_product,
)
from netplan.workloads.models import Model
from netplan.workloads.operations import (
    ELEMENT_BYTES,
    INPUT,
    MASK_BYTES,
    PLAIN,
    Collective,
    Layer,
    Local,
    Mode,
    Operation,
    Shape,
    Sharding,
    Strategy,
    Tensor,
    Variant,
    Work,
    local_sizes,
)

ROUTER_FLOPS = 5
"""Softmax over the experts and choice of the best: vector work [FLOP a token and expert]."""

LOSS_FLOPS = 5
"""Shift, exponential, sum, quotient and logarithm of the loss [FLOP a logit]."""

STATISTIC_BYTES = 4.0
"""Largest logit and sum of a token travel as 32-bit numbers [B]."""


def _attention(local: Local, *, stores_scores: bool) -> Operation:
    """Attention of all local heads.

    Symbols: X = b H lk l scores, Y = b H lk (l - 1) sums; softmax and its dropout take 3X + Y
    vector FLOPs forward and 4X + Y backward. Selective recomputation (fused attention) computes
    scores and softmax again; without it the softmax, its dropout mask and its dropped result are
    stored, 5 bytes a score (arXiv:2205.05198, Sec. 4.1).
    """
    maps, q = local.microbatch * local.heads, local.head_size
    keys, queries = local.sequence, local.queries
    rows = maps * queries
    scores, sums, query = rows * keys, rows * (keys - 1), rows * q
    key = local.microbatch * local.kv_heads * keys * q  # as many values as keys
    softmax = 3 * scores + sums
    again = not stores_scores
    scores_bytes = 0.0 if again else (2 * ELEMENT_BYTES + MASK_BYTES) * scores

    query_key = scores * (2 * q - 1)
    attend = query * (2 * keys - 1)
    key_gradient = maps * keys * q * (2 * queries - 1)
    # Gradients of queries, values, probabilities and keys; then the scores once more.
    backward_flops = attend + 2 * key_gradient + query_key + (query_key if again else 0.0)
    stored = _stored_bytes(local) + scores_bytes
    gather = Collective("all_gather", ELEMENT_BYTES * 2 * key, "context")
    scatter = Collective("reduce_scatter", ELEMENT_BYTES * 2 * key, "context")
    return Operation(
        "attention",
        "attention",
        0.0,
        stored,
        forward=Work(
            tensor_flops=query_key + attend,
            vector_flops=softmax,
            moved_bytes=ELEMENT_BYTES * (2 * query + 2 * key + rows) + scores_bytes,
            collectives=(gather,),
        ),
        backward=Work(
            tensor_flops=backward_flops,
            vector_flops=softmax + scores + (softmax if again else 0.0),
            moved_bytes=ELEMENT_BYTES * (2 * key + 2 * query) + stored,
            collectives=(gather, scatter),
        ),
        result=Tensor(rows, q),
        shapes=(Shape(rows, q, keys, maps), Shape(rows, keys, q, maps)),
    )


def _stored_bytes(local: Local) -> Floats:
    """Queries and results, keys and values of the local tokens, and two sums a row [B]."""
    b, q, queries = local.microbatch, local.head_size, local.queries
    elements = 2 * b * (local.heads + local.kv_heads) * queries * q + 2 * b * local.heads * queries
    return ELEMENT_BYTES * elements


def transformer_layer(
    model: Model,
    sharding: Sharding,
    *,
    strategy: Strategy = "1d",
    mode: Mode = "corrected",
    variant: Variant = PLAIN,
) -> Layer:
    """The operations of one layer for many shardings at once.

    Parameters
    ----------
    model
        The transformer.
    sharding
        Ways to cut one microbatch, shape (shardings,).
    strategy
        ``1d``, ``2d`` (2D-context) or ``summa``.
    mode
        ``corrected``, or ``published-code`` with its slips.
    variant
        Recomputation and experts.

    Returns
    -------
    Layer
        Amounts of shape (shardings,): FLOPs, bytes.

    Raises
    ------
    InputError
        If experts are asked for under ``summa``, or either without sequence parallelism.

    Examples
    --------
    >>> from netplan.workloads.models import MODELS
    >>> layer = transformer_layer(MODELS.load("gpt-1t"), Sharding.of(1, tensor=8))
    >>> [operation.name for operation in layer.operations][:4]
    ['fc1', 'fc1-bias', 'gelu', 'drop1']
    >>> layer.operations[0].forward.tensor_flops
    array([1.34215107e+12])
    """
    local = local_sizes(model, sharding)
    _check_modelled(strategy, variant)
    if strategy == "summa":
        return _summa_layer(model, sharding, local, mode, variant)
    if not variant.sequence_parallel:
        local = _whole_rows(local)
    feed_forward = _feed_forward(local, strategy, mode)
    if variant.sparse:
        feed_forward = tuple(_expert_operations(local, variant, sharding.expert.astype(float)))
    norm = layer_norm("ln1", local)
    operations = (
        *feed_forward,
        dropout("drop2", local.dropped),
        norm,
        column_product(Product("qkv", "attention", local.rows, local.hidden, local.qkv_local)),
        _attention(local, stores_scores=variant.stores_scores),
        row_product(
            Product("vproj", "attention", local.rows, local.queries_local, local.hidden),
            local.scattered_rows,
        ),
        bias("vproj-bias", *_bias_shape(local, strategy, mode, "vproj")),
        dropout("drop_v", local.dropped),
        layer_norm("ln2", local, gathers=not variant.sparse),
    )
    if not variant.sequence_parallel:
        # The next stage takes a share of the rows from each tensor GPU all the same
        # (arXiv:2104.04473, Sec. 4.1).
        return Layer(_reduced(operations), norm.activation_bytes / local.tensor)
    return Layer(operations, norm.activation_bytes)


def _check_modelled(strategy: Strategy, variant: Variant) -> None:
    """Refuse what no layer is known for."""
    if not variant.sequence_parallel and (strategy == "summa" or variant.sparse):
        raise InputError(
            "experts and SUMMA are modelled with sequence parallelism: leave"
            " --no-sequence-parallel out"
        )
    if strategy == "summa" and variant.sparse:
        raise InputError("experts under SUMMA are not modelled: use strategy 1d or 2d")


def _whole_rows(local: Local) -> Local:
    """Sizes without sequence parallelism: norms and dropouts have all rows on every tensor GPU."""
    return replace(local, scattered_rows=local.rows, dropped=local.rows * local.hidden)


def _reduced(operations: Sequence[Operation]) -> tuple[Operation, ...]:
    """Operations without sequence parallelism: partial sums are reduced, and nothing is gathered.

    Of the four collectives of a layer and direction two all_reduces are left, of the same bytes
    (arXiv:2205.05198, Sec. 4.2.2).
    """

    def work_of(one: Operation, work: Work) -> Work:
        kept = () if one.name.startswith("ln") else work.collectives
        return replace(work, collectives=tuple(_whole(sent) for sent in kept))

    return tuple(
        replace(one, forward=work_of(one, one.forward), backward=work_of(one, one.backward))
        for one in operations
    )


def _whole(sent: Collective) -> Collective:
    return replace(sent, kind="all_reduce") if sent.kind == "reduce_scatter" else sent


def _feed_forward(local: Local, strategy: Strategy, mode: Mode) -> tuple[Operation, ...]:
    """The dense feed-forward part of 1D and 2D-context (Tables I and II)."""
    rows = local.rows
    columns = (2 if local.gated else 1) * local.ffn_local
    return (
        column_product(Product("fc1", "mlp", rows, local.hidden, columns)),
        bias("fc1-bias", rows, columns),
        activation(local, rows),
        dropout("drop1", rows * local.ffn_local),
        row_product(
            Product("fc2", "mlp", rows, local.ffn_local, local.hidden), local.scattered_rows
        ),
        bias("fc2-bias", *_bias_shape(local, strategy, mode, "fc2")),
    )


def _bias_shape(
    local: Local, strategy: Strategy, mode: Mode, product: str
) -> tuple[Floats, Floats | float]:
    """Rows and width of the bias behind a row product; correct are scattered rows, all columns.

    Slip of the published code: 1D adds both biases before the scatter, 2D-context that of vproj to
    all rows and the columns of one GPU.
    """
    if mode == "published-code" and strategy == "1d":
        return local.rows, local.hidden
    if mode == "published-code" and product == "vproj":
        return local.rows, local.hidden_local
    return local.scattered_rows, local.hidden


def _summa_layer(
    model: Model, sharding: Sharding, local: Local, mode: Mode, variant: Variant
) -> Layer:
    """All products on the tensor x context grid (Table A2)."""
    e, rows = local.hidden, local.rows
    block = rows * local.hidden_local
    columns = (2 if local.gated else 1) * local.ffn_local
    width = local.hidden_local
    if mode == "published-code":  # slip: the sequence in place of the embedding
        width = (model.sequence_length // sharding.tensor).astype(np.float64)
    tokens = 2 * sharding.microbatch * model.sequence_length // sharding.context
    gradients = (2 * model.hidden_size // sharding.tensor + tokens).astype(np.float64)
    norm = block_norm("ln1", local, width, gradients)
    operations = (
        summa_product("fc1", "mlp", local, e, columns),
        bias("fc1-bias", rows, columns),
        activation(local, rows),
        dropout("drop1", rows * local.ffn_local),
        summa_product("fc2", "mlp", local, local.ffn, local.hidden_local),
        bias("fc2-bias", rows, local.hidden_local),
        dropout("drop2", block),
        norm,
        summa_product("qkv", "attention", local, e, local.qkv_local),
        _attention(local, stores_scores=variant.stores_scores),
        summa_product("vproj", "attention", local, float(model.query_size), local.hidden_local),
        bias("vproj-bias", rows, local.hidden_local),
        dropout("drop_v", block),
        block_norm("ln2", local, width, gradients),
    )
    return Layer(operations, norm.activation_bytes)


def _expert_operations(local: Local, variant: Variant, expert_gpus: Floats) -> Sequence[Operation]:
    """Router, dispatch, the experts' own operations, and the combination of their results."""
    visits, scattered = variant.top_k * local.rows, variant.top_k * local.scattered_rows
    copies = variant.experts / expert_gpus
    columns = (2 if local.gated else 1) * local.ffn_local
    experts = (
        column_product(Product("fc1", "mlp", visits, local.hidden, columns, copies)),
        bias("fc1-bias", visits, columns, copies),
        activation(local, visits),
        dropout("drop1", visits * local.ffn_local),
        row_product(
            Product("fc2", "mlp", visits, local.ffn_local, local.hidden, copies), scattered
        ),
        bias("fc2-bias", scattered, local.hidden, copies),
    )
    return (
        _router(local, variant),
        _dispatch(local, variant),
        *(replace(operation, expert_weights=True) for operation in experts),
        _combine(local, variant),
    )


def _router(local: Local, variant: Variant) -> Operation:
    """A product of the local tokens with one column an expert, and a softmax; not cut."""
    product = Product("router", "mlp", local.scattered_rows, local.hidden, float(variant.experts))
    whole = product.operation(forward=(), backward=())
    choices = local.scattered_rows * variant.experts
    softmax = ROUTER_FLOPS * choices
    return replace(
        whole,
        activation_bytes=whole.activation_bytes + ELEMENT_BYTES * choices,
        forward=replace(whole.forward, vector_flops=softmax),
        backward=replace(whole.backward, vector_flops=softmax),
    )


def _sent_bytes(local: Local, variant: Variant) -> Floats:
    """What one GPU sends to the experts: its scattered tokens, ``top_k`` times [B]."""
    return ELEMENT_BYTES * variant.top_k * local.scattered_rows * local.hidden


def _gathered_bytes(local: Local, variant: Variant) -> Floats:
    """All tokens that the tensor GPUs of one expert have received together [B]."""
    return ELEMENT_BYTES * variant.top_k * local.rows * local.hidden


def _dispatch(local: Local, variant: Variant) -> Operation:
    """Copy the tokens in the order of their experts, send them, gather them there."""
    sent = _sent_bytes(local, variant)
    send = Collective("all_to_all", sent, "expert")
    gather = Collective("all_gather", _gathered_bytes(local, variant), "tensor")
    # The conjugate of the gather is the reduce_scatter of the first product's gradients.
    return Operation(
        "dispatch",
        "mlp",
        0.0,
        0.0,
        Work(moved_bytes=2 * sent, collectives=(send, gather)),
        Work(moved_bytes=2 * sent, collectives=(send,)),
        result=Tensor(variant.top_k * local.rows, local.hidden),
        inputs=(INPUT, "router"),
    )


def _combine(local: Local, variant: Variant) -> Operation:
    """Send the results back and add them up, weighted by the router."""
    sent = _sent_bytes(local, variant)
    back = Collective("all_to_all", sent, "expert")
    gather = Collective("all_gather", _gathered_bytes(local, variant), "tensor")
    work = Work(
        vector_flops=2 * sent / ELEMENT_BYTES,
        moved_bytes=sent + sent / variant.top_k,
        collectives=(back,),
    )
    return Operation(
        "combine",
        "mlp",
        0.0,
        sent,
        work,
        replace(work, collectives=(back, gather)),
        result=Tensor(local.scattered_rows, local.hidden),
        inputs=("fc2-bias", "router"),
    )


def embedding(model: Model, sharding: Sharding) -> Operation:
    """Look up the local part of the vocabulary; rows found elsewhere come by reduce_scatter.

    Raises
    ------
    InputError
        If the model has no vocabulary.

    Examples
    --------
    >>> from netplan.workloads.models import MODELS
    >>> embedding(MODELS.load("gpt-1t"), Sharding.of(1, tensor=8)).weight_bytes
    array([3.2768e+08])
    """
    local = local_sizes(model, sharding)
    words = _local_words(model, sharding)
    message = ELEMENT_BYTES * local.rows * local.hidden
    return Operation(
        "embedding",
        "head",
        ELEMENT_BYTES * words * local.hidden,
        0.0,
        Work(
            moved_bytes=2 * message,
            collectives=(Collective("reduce_scatter", message, "tensor"),),
            weight_bytes=message,
        ),
        Work(
            moved_bytes=2 * message,
            collectives=(Collective("all_gather", message, "tensor"),),
            gradient_bytes=message,
        ),
        result=Tensor(local.rows / local.tensor, local.hidden),
    )


def lm_head(model: Model, sharding: Sharding) -> Operation:
    """Multiply by the vocabulary and take the loss over the local words.

    Raises
    ------
    InputError
        If the model has no vocabulary.
    """
    local = local_sizes(model, sharding)
    words = _local_words(model, sharding)
    logits = local.rows * words
    message = ELEMENT_BYTES * local.rows * local.hidden
    statistics = Collective("all_reduce", 2 * STATISTIC_BYTES * local.rows, "tensor")
    product = Product("lm-head", "head", local.rows, local.hidden, words)
    whole = product.operation(
        forward=(Collective("all_gather", message, "tensor"), statistics),
        backward=(Collective("reduce_scatter", message, "tensor"),),
    )
    return replace(
        whole,
        activation_bytes=whole.activation_bytes + ELEMENT_BYTES * logits,
        forward=replace(whole.forward, vector_flops=LOSS_FLOPS * logits),
        backward=replace(whole.backward, vector_flops=2 * logits),
    )


def _local_words(model: Model, sharding: Sharding) -> Floats:
    """Words on one GPU; the vocabulary is padded to a multiple of the tensor GPUs."""
    if not model.vocabulary:
        raise InputError(f"{model.name} has no vocabulary: leave out the embedding and the head")
    return (-(-model.vocabulary // sharding.tensor)).astype(np.float64)
