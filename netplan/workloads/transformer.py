"""A transformer under each strategy of tensor parallelism: its layer, and the ends of the network.

In both modes the layer has the operations of arXiv:2410.00273: the feed-forward part, then
attention. Mode ``published-code`` repeats two slips of that paper's code, which `corrected` mends:
the SUMMA norm is l // n1 wide instead of e // n1, and the biases of fc2 and vproj act on rows that
were scattered before. Left out, as there: the qkv bias, residual sums, loss and optimizer. A model
without biases (`netplan.workloads.models.Model.adds_biases`) has none of the others either.

Layers of a model may be unlike: some with experts (`netplan.workloads.transformer`), with windows,
latent vectors or linear attention (`netplan.workloads.attention`). A stack of them is so many times
their mean: every operation says which share of the layers has it.

Token embedding (at the first stage) and head with loss (at the last) hold the vocabulary cut over
the tensor GPUs, whatever the strategy, and see the tokens of their context GPU (Shoeybi et al.,
arXiv:1909.08053, Sec. 3). Their weights are counted apart; a model that ties them saves one of the
two.

Feed-forward parts with experts: routed ones, those that every token visits, and dense layers.

Every token visits some of the routed experts, which are spread over ``expert`` GPUs of the data
parallel group; within one expert the weights are cut over the tensor GPUs, or whole where experts
are folded (`netplan.workloads.operations.Sharding`). Tokens leave from where the sequence is cut,
travel by all_to_all to their experts, and are gathered over the GPUs that share one there; the
results take the way back. Tokens are spread evenly: capacity factors, dropped tokens and imbalance
are left out. Sources: Lepikhin et al., GShard (arXiv:2006.16668), Sec. 3 for the exchange; Singh et
al. (arXiv:2303.06318) for experts under tensor parallelism.

Shared experts are one more feed-forward part of every token, and layers without experts have a
dense one: their weights belong to all data parallel GPUs. Both gather the tokens themselves, since
the norm in front of experts does not.
"""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from netplan.arrays import Amount, Floats, Ints
from netplan.errors import InputError
from netplan.inputs.choices import Mode, Strategy
from netplan.records import replace
from netplan.workloads import layer_kernels as kernels
from netplan.workloads import operations as ops
from netplan.workloads.attention import attention, attention_operations
from netplan.workloads.models import Experts, Model
from netplan.workloads.recomputation import is_routed

LOSS_FLOPS = 5
"""Shift, exponential, sum, quotient and logarithm of the loss [FLOP a logit]."""

STATISTIC_BYTES = 4.0
"""Largest logit and sum of a token travel as 32-bit numbers [B]."""


def transformer_layer(
    model: Model,
    sharding: ops.Sharding,
    *,
    strategy: Strategy = "1d",
    mode: Mode = "corrected",
    variant: ops.Variant = ops.PLAIN,
) -> ops.Layer:
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
        If unlike layers, or norms on all tensor GPUs, are asked for under ``summa``.

    Examples
    --------
    >>> from netplan.workloads.models import MODELS
    >>> layer = transformer_layer(MODELS.load("gpt-1t"), ops.Sharding.of(1, tensor=8))
    >>> [operation.name for operation in layer.operations][:4]
    ['fc1', 'fc1-bias', 'gelu', 'drop1']
    >>> layer.operations[0].forward.tensor_flops
    array([1.34215107e+12])
    """
    _check_modelled(model, strategy, variant)
    if strategy == "summa":
        layer = _summa_layer(model, sharding, mode, variant)
    else:
        layer = _ring_layer(model, sharding, strategy, mode, variant)
    if model.adds_biases:
        return layer
    left = (operation for operation in layer.operations if not operation.name.endswith("-bias"))
    return replace(layer, operations=tuple(left))


def _ring_layer(
    model: Model, sharding: ops.Sharding, strategy: Strategy, mode: Mode, variant: ops.Variant
) -> ops.Layer:
    """The layer of 1D and 2D-context (Tables I and II), whose blocks go round rings of GPUs."""
    local, experts = ops.local_sizes(model, sharding), experts_of(model, variant)
    if not variant.sequence_parallel:
        # Sizes without sequence parallelism: norms and dropouts have all rows on every tensor GPU.
        local = replace(local, scattered_rows=local.rows, dropped=local.rows * local.hidden)
    products = _two_products(local, local.rows, local.scattered_rows)
    feed_forward = (
        *products[:-1],
        kernels.bias("fc2-bias", *_bias_shape(local, strategy, mode, "fc2")),
    )
    if experts is not None:
        feed_forward = tuple(expert_feed_forward(model, sharding, local, experts))
    norm = kernels.layer_norm("ln1", local, gathers=model.latent_attention is None)
    mixing, forward = _blocks(model)
    if experts is None and model.mamba is not None:
        feed_forward = tuple(replace(operation, share=forward) for operation in feed_forward)
    shape = _bias_shape(local, strategy, mode, "vproj")
    operations = (
        *_prediction(model, local),
        *feed_forward,
        replace(kernels.dropout("drop2", local.dropped), share=forward),
        replace(norm, share=mixing),
        *attention_operations(model, sharding, local, stores_scores=variant.stores_scores),
        replace(kernels.bias("vproj-bias", *shape), share=mixing),
        replace(kernels.dropout("drop_v", local.dropped), share=mixing),
        replace(kernels.layer_norm("ln2", local, gathers=experts is None), share=forward),
    )
    if not variant.sequence_parallel:
        # The next stage takes a share of the rows from each tensor GPU all the same
        # (arXiv:2104.04473, Sec. 4.1).
        return ops.Layer(_reduced(operations), norm.activation_bytes / local.tensor)
    return ops.Layer(operations, norm.activation_bytes)


def _blocks(model: Model) -> tuple[float, float]:
    """Shares of the layers that attend or hold a state, and that are feed-forward parts [1].

    Each layer of a transformer is both, each block of a hybrid one of them.
    """
    if model.mamba is None:
        return 1.0, 1.0
    mixing, forward = model.full_layers + model.mamba.layers, model.dense_layers
    return mixing / model.depth, (forward + model.sparse_layers) / model.depth


def _check_modelled(model: Model, strategy: Strategy, variant: ops.Variant) -> None:
    """Refuse what no layer is known for."""
    unlike = "experts" if variant.sparse else model.unlike
    if not variant.sequence_parallel and strategy == "summa":
        raise InputError(
            "SUMMA is modelled with sequence parallelism alone: leave --no-sequence-parallel out"
        )
    if strategy == "summa" and unlike:
        raise InputError(f"{unlike} under SUMMA are not modelled: use strategy 1d or 2d")


def _reduced(operations: Sequence[ops.Operation]) -> tuple[ops.Operation, ...]:
    """Operations without sequence parallelism: partial sums are reduced, and nothing is gathered.

    Of the four collectives of a layer and direction two all_reduces are left, of the same bytes
    (arXiv:2205.05198, Sec. 4.2.2). Rows of routed experts travel as ever: every tensor GPU sends
    all of its own.
    """

    def summed(sent: ops.CollectiveCall) -> ops.CollectiveCall:
        scattered = sent.group == "tensor" and sent.kind == "reduce_scatter"
        return replace(sent, kind="all_reduce") if scattered else sent

    def reduced(work: ops.OperationCost, *, norm: bool) -> ops.OperationCost:
        return work.with_collectives(
            summed(sent)
            for sent in work.collectives
            if sent.group != "tensor" or not (norm or sent.kind == "all_gather")
        )

    return tuple(
        operation
        if is_routed(operation)
        else operation.changed_both_ways(
            partial(reduced, norm=operation.name.startswith(("ln", "latent-norm")))
        )
        for operation in operations
    )


def _prediction(model: Model, local: ops.Local) -> Iterator[ops.Operation]:
    """What stands before a layer that predicts a token further on: two vectors become one.

    The hidden vectors and the embeddings of the tokens one further, projected together; such a
    layer is one more layer of the stack (DeepSeek-V3, arXiv:2412.19437, Sec. 2.2).
    """
    if not model.prediction_layers:
        return
    product = kernels.LocalProduct(
        "mtp-proj", "mlp", local.rows, 2 * local.hidden, local.hidden / local.tensor
    )
    given = replace(local, hidden=2 * local.hidden).all_tokens("all_gather")
    back = ops.CollectiveCall("reduce_scatter", given.message_bytes, "tensor")
    made = product.operation(forward=(given,), backward=(back,))
    yield replace(made, share=model.prediction_layers / model.depth)


def _two_products(
    local: ops.Local, rows: Floats, scattered: Floats, copies: Amount = 1.0
) -> tuple[ops.Operation, ...]:
    """A feed-forward part on some rows, whose results are scattered; of experts by the copy."""
    columns = (2 if local.model.gated_ffn else 1) * local.ffn_local
    back = kernels.LocalProduct("fc2", "mlp", rows, local.ffn_local, local.hidden, copies)
    return (
        kernels.column_product(
            kernels.LocalProduct("fc1", "mlp", rows, local.hidden, columns, copies)
        ),
        kernels.bias("fc1-bias", rows, columns, copies),
        kernels.activation(local, rows),
        kernels.dropout("drop1", rows * local.ffn_local),
        kernels.row_product(back),
        kernels.bias("fc2-bias", scattered, local.hidden, copies),
    )


def _bias_shape(
    local: ops.Local, strategy: Strategy, mode: Mode, product: str
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
    model: Model, sharding: ops.Sharding, mode: Mode, variant: ops.Variant
) -> ops.Layer:
    """All products on the tensor x context grid (Table A2)."""
    local = ops.local_sizes(model, sharding)
    e, rows = local.hidden, local.rows
    block = rows * local.hidden_local
    columns = (2 if local.model.gated_ffn else 1) * local.ffn_local
    width = local.hidden_local
    if mode == "published-code":  # slip: the sequence in place of the embedding
        width = (model.sequence_length // sharding.tensor).astype(np.float64)
    tokens = 2 * sharding.microbatch * model.sequence_length // sharding.context
    gradients = (2 * model.hidden_size // sharding.tensor + tokens).astype(np.float64)
    norm = kernels.block_norm("ln1", local, width, gradients)
    operations = (
        kernels.summa_product("fc1", "mlp", local, e, columns),
        kernels.bias("fc1-bias", rows, columns),
        kernels.activation(local, rows),
        kernels.dropout("drop1", rows * local.ffn_local),
        kernels.summa_product("fc2", "mlp", local, local.ffn, local.hidden_local),
        kernels.bias("fc2-bias", rows, local.hidden_local),
        kernels.dropout("drop2", block),
        norm,
        kernels.summa_product("qkv", "attention", local, e, local.qkv_local),
        attention(local, stores_scores=variant.stores_scores),
        kernels.summa_product(
            "vproj", "attention", local, float(model.query_size), local.hidden_local
        ),
        kernels.bias("vproj-bias", rows, local.hidden_local),
        kernels.dropout("drop_v", block),
        kernels.block_norm("ln2", local, width, gradients),
    )
    return ops.Layer(operations, norm.activation_bytes)


def embedding(model: Model, sharding: ops.Sharding) -> ops.Operation:
    """Look up the local part of the vocabulary; rows found elsewhere come by reduce_scatter.

    Raises
    ------
    InputError
        If the model has no vocabulary.

    Examples
    --------
    >>> from netplan.workloads.models import MODELS
    >>> embedding(MODELS.load("gpt-1t"), ops.Sharding.of(1, tensor=8)).weight_bytes
    array([3.2768e+08])
    """
    local = ops.local_sizes(model, sharding)
    words = _local_words(model, sharding)
    scatter, gather = local.all_tokens("reduce_scatter"), local.all_tokens("all_gather")
    message = gather.message_bytes
    return ops.Operation(
        "embedding",
        "head",
        ops.ELEMENT_BYTES * words * local.hidden,
        0.0,
        ops.OperationCost(moved_bytes=2 * message, collectives=(scatter,), weight_bytes=message),
        ops.OperationCost(moved_bytes=2 * message, collectives=(gather,), gradient_bytes=message),
    )


def lm_head(model: Model, sharding: ops.Sharding) -> ops.Operation:
    """Multiply by the vocabulary and take the loss over the local words.

    Once more for every layer that predicts a token further on, with the same weights.

    Raises
    ------
    InputError
        If the model has no vocabulary.
    """
    local = ops.local_sizes(model, sharding)
    words = _local_words(model, sharding)
    logits = local.rows * words
    statistics = ops.CollectiveCall("all_reduce", 2 * STATISTIC_BYTES * local.rows, "tensor")
    product = kernels.LocalProduct("lm-head", "head", local.rows, local.hidden, words)
    whole = product.operation(
        forward=(local.all_tokens("all_gather"), statistics),
        backward=(local.all_tokens("reduce_scatter"),),
    )
    head = replace(
        whole,
        activation_bytes=whole.activation_bytes + ops.ELEMENT_BYTES * logits,
        forward=replace(whole.forward, vector_flops=LOSS_FLOPS * logits),
        backward=replace(whole.backward, vector_flops=2 * logits),
    )
    return _repeated(head, 1 + model.prediction_layers) if model.prediction_layers else head


def _repeated(operation: ops.Operation, times: int) -> ops.Operation:
    """An operation so many times over, with the same weights."""

    def again(work: ops.OperationCost) -> ops.OperationCost:
        return replace(
            work,
            tensor_flops=times * work.tensor_flops,
            vector_flops=times * work.vector_flops,
            moved_bytes=times * work.moved_bytes,
            weight_bytes=times * work.weight_bytes,
            collectives=work.collectives * times,
        )

    kept = times * operation.activation_bytes
    return replace(operation.changed_both_ways(again), activation_bytes=kept)


def _local_words(model: Model, sharding: ops.Sharding) -> Floats:
    """Words on one GPU; the vocabulary is padded to a multiple of the tensor GPUs."""
    if not model.vocabulary:
        raise InputError(f"{model.name} has no vocabulary: leave out the embedding and the head")
    return (-(-model.vocabulary // sharding.tensor)).astype(np.float64)


ROUTER_FLOPS = 5
"""Softmax over the experts and choice of the best: vector work [FLOP a token and expert]."""


def experts_of(model: Model, variant: ops.Variant) -> Experts | None:
    """Experts that a model is trained with: those of its file, or those that are asked for.

    Raises
    ------
    InputError
        If the file has others than those that are asked for.

    Examples
    --------
    >>> from netplan.workloads.models import MODELS
    >>> experts = experts_of(MODELS.load("llama-3-8b"), ops.Variant(experts=8, top_k=2))
    >>> experts.count, experts.per_token
    (8, 2)
    """
    asked = Experts(count=variant.experts, per_token=variant.top_k) if variant.sparse else None
    model_experts = model.experts
    if model_experts is None or asked is None:
        return model_experts or asked
    if (model_experts.count, model_experts.per_token) != (asked.count, asked.per_token):
        raise InputError(
            f"{model.name} has {model_experts.count:,} experts, {model_experts.per_token:,} of a"
            f" token, got {asked.count:,} and {asked.per_token:,}: leave them out, or change the"
            f" file's, such as --set model.experts.count={asked.count}"
        )
    return model_experts


def expert_feed_forward(
    model: Model, sharding: ops.Sharding, local: ops.Local, experts: Experts
) -> Iterator[ops.Operation]:
    """Operations of the feed-forward part: of layers with experts, then of those without."""
    dense_share = model.dense_layers / model.depth
    # Experts that are asked for stand in every layer.
    share = model.sparse_layers / model.depth if model.experts else dense_share
    if model.experts and dense_share:
        dense = _dense(local, "dense-")
        yield from (replace(operation, share=dense_share) for operation in dense)
    operations = [*_routed(local, experts, sharding)]
    if experts.shared_ffn_size:
        inner = _of_width(local, experts.shared_ffn_size, sharding.tensor)
        operations += _dense(inner, "shared-")
    yield from (replace(operation, share=share) for operation in operations)


def _of_width(local: ops.Local, width: float, shared_by: Ints) -> ops.Local:
    """The sizes of a GPU with another inner width of a feed-forward part, cut over so many."""
    inner: Floats = (int(width) // shared_by).astype(np.float64)
    return replace(local, ffn=float(width), ffn_local=inner)


def _dense(local: ops.Local, name: str) -> list[ops.Operation]:
    """A feed-forward part of all tokens, which gathers and scatters them itself."""
    gather = local.all_tokens("all_gather")
    first, *between, last, summed = _two_products(local, local.rows, local.scattered_rows)
    sent = first.sending("forward", gather), *between, last.sending("backward", gather), summed
    return [replace(operation, name=f"{name}{operation.name}") for operation in sent]


def _routed(local: ops.Local, experts: Experts, sharding: ops.Sharding) -> Sequence[ops.Operation]:
    """Router, dispatch, the experts' own operations, and the combination of their results.

    Experts of latent vectors have a projection before the dispatch and one behind the combination,
    of the scattered tokens by weights on every tensor GPU.
    """
    router, hidden = _router(local, experts), local.hidden
    shared_by, scattered = sharding.expert_tensor, local.scattered_rows
    local = _of_width(local, experts.ffn_size or local.ffn, shared_by)
    if experts.latent_size:
        local = replace(local, hidden=float(experts.latent_size))
    # Tokens that the GPUs of one expert have together, before they are routed.
    cut_alike = (shared_by == sharding.tensor) & (scattered < local.rows)
    together = np.where(cut_alike, local.rows, scattered * shared_by)
    visits, scattered = experts.per_token * together, experts.per_token * scattered
    copies = experts.held / sharding.experts_over.astype(np.float64)
    products = _two_products(local, visits, scattered, copies)
    dispatch, combine = _exchange(local, experts, visits, sharding)
    inside = (
        dispatch,
        *(replace(operation, expert_weights=True) for operation in products),
        combine,
    )
    if np.any(shared_by < sharding.tensor):
        change = partial(_unshared, shared_by=shared_by)
        inside = tuple(operation.changed_both_ways(change) for operation in inside)
    if not experts.latent_size:
        return router, *inside
    rows, width = local.scattered_rows, local.hidden
    down = kernels.LocalProduct("expert-down", "mlp", rows, hidden, width).operation()
    up = kernels.LocalProduct("expert-up", "mlp", rows, width, hidden).operation()
    return router, down, *inside, up


def _unshared(work: ops.OperationCost, shared_by: Ints) -> ops.OperationCost:
    """The cost of experts, of which those that no GPUs share gather and reduce nothing."""
    return work.with_collectives(
        replace(sent, message_bytes=sent.message_bytes * (shared_by > 1))
        if sent.group == "tensor"
        else sent
        for sent in work.collectives
    )


def _router(local: ops.Local, experts: Experts) -> ops.Operation:
    """A product of the local tokens with one column an expert, and a softmax; not cut."""
    product = kernels.LocalProduct(
        "router", "mlp", local.scattered_rows, local.hidden, float(experts.count)
    )
    whole = product.operation()
    choices = local.scattered_rows * experts.count
    softmax = ROUTER_FLOPS * choices
    return replace(
        whole,
        activation_bytes=whole.activation_bytes + ops.ELEMENT_BYTES * choices,
        forward=replace(whole.forward, vector_flops=softmax),
        backward=replace(whole.backward, vector_flops=softmax),
    )


def _exchange(
    local: ops.Local, experts: Experts, visits: Floats, sharding: ops.Sharding
) -> tuple[ops.Operation, ops.Operation]:
    """Tokens to their experts, gathered there; results back, added up as the router weighs them.

    A GPU sends its scattered tokens, once for each of their experts. Rows to experts, and results
    back, follow the load of these, where it is known.
    """
    sent = ops.ELEMENT_BYTES * experts.per_token * local.scattered_rows * local.hidden
    there = back = ops.CollectiveCall("all_to_all", sent, "expert")
    if experts.load is not None:
        uneven = ops.Uneven(experts.load, sharding.experts_over)
        there = replace(there, uneven=uneven)
        back = replace(back, uneven=replace(uneven, back=True))
    # What the GPUs that share an expert have received together; the conjugate of the gather is the
    # reduce_scatter of the first product's gradients.
    gather = ops.CollectiveCall("all_gather", ops.ELEMENT_BYTES * visits * local.hidden, "tensor")
    dispatch = ops.Operation(
        *("dispatch", "mlp", 0.0, 0.0),
        ops.OperationCost(moved_bytes=2 * sent, collectives=(there, gather)),
        ops.OperationCost(moved_bytes=2 * sent, collectives=(back,)),
    )
    work = ops.OperationCost(
        vector_flops=2 * sent / ops.ELEMENT_BYTES,
        moved_bytes=sent + sent / experts.per_token,
        collectives=(back,),
    )
    combine = ops.Operation(
        *("combine", "mlp", 0.0, sent), *(work, work.with_collectives((there, gather)))
    )
    return dispatch, combine
