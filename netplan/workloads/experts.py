"""Feed-forward parts with experts: routed ones, those that every token visits, and dense layers.

Every token visits some of the routed experts, which are spread over ``expert`` GPUs of the data
parallel group; within one expert the weights are cut over the tensor GPUs. Tokens leave from where
the sequence is cut, travel by all_to_all to their experts, and are gathered over the tensor GPUs
there; the results take the way back. Tokens are spread evenly: capacity factors, dropped tokens and
imbalance are left out. Sources: Lepikhin et al., GShard (arXiv:2006.16668), Sec. 3 for the
exchange; Singh et al. (arXiv:2303.06318) for experts under tensor parallelism.

Shared experts are one more feed-forward part of every token, and layers without experts have a
dense one: their weights belong to all data parallel GPUs. Both gather the tokens themselves, since
the norm in front of experts does not.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from netplan.arrays import Floats
from netplan.errors import InputError
from netplan.records import replace
from netplan.workloads.layer_kernels import (
    Product,
    activation,
    bias,
    column_product,
    dropout,
    row_product,
)
from netplan.workloads.model_parts import Experts
from netplan.workloads.models import Model
from netplan.workloads.operations import (
    ELEMENT_BYTES,
    INPUT,
    Collective,
    Local,
    Operation,
    Sharding,
    Tensor,
    Variant,
    Work,
)

ROUTER_FLOPS = 5
"""Softmax over the experts and choice of the best: vector work [FLOP a token and expert]."""


def experts_of(model: Model, variant: Variant) -> Experts | None:
    """Experts that a model is trained with: those of its file, or those that are asked for.

    Raises
    ------
    InputError
        If the file has others than those that are asked for.

    Examples
    --------
    >>> from netplan.workloads.models import MODELS
    >>> experts = experts_of(MODELS.load("llama-3-8b"), Variant(experts=8, top_k=2))
    >>> experts.count, experts.per_token
    (8, 2)
    """
    asked = Experts(count=variant.experts, per_token=variant.top_k) if variant.sparse else None
    own = model.experts
    if own is None or asked is None:
        return own or asked
    if (own.count, own.per_token) != (asked.count, asked.per_token):
        raise InputError(
            f"{model.name} has {own.count:,} experts, {own.per_token:,} of a token, got"
            f" {asked.count:,} and {asked.per_token:,}: leave them out, or change the file's, such"
            f" as --set model.experts.count={asked.count}"
        )
    return own


def expert_feed_forward(
    model: Model, sharding: Sharding, local: Local, experts: Experts
) -> Iterator[Operation]:
    """Operations of the feed-forward part: of layers with experts, then of those without."""
    routed = _of_width(local, experts.ffn_size or local.ffn, sharding)
    # Experts that are asked for stand in every layer.
    share = model.sparse_layers / model.depth if model.experts else 1.0
    if share < 1:
        dense = _whole(local, local, "dense-")
        yield from (replace(one, share=1 - share) for one in dense)
    operations = [*_routed(routed, experts, sharding.expert.astype(np.float64))]
    if experts.shared_ffn_size:
        operations += _whole(local, _of_width(local, experts.shared_ffn_size, sharding), "shared-")
    yield from (replace(one, share=share) for one in operations)


def _of_width(local: Local, width: float, sharding: Sharding) -> Local:
    """The sizes of a GPU with another inner width of the feed-forward part."""
    inner: Floats = (int(width) // sharding.tensor).astype(np.float64)
    return replace(local, ffn=float(width), ffn_local=inner)


def _whole(local: Local, inner: Local, name: str) -> list[Operation]:
    """A feed-forward part of all tokens, which gathers and scatters them itself."""
    rows = local.rows
    columns = (2 if local.gated else 1) * inner.ffn_local
    gather = Collective("all_gather", ELEMENT_BYTES * rows * local.hidden, "tensor")
    first = column_product(Product("fc1", "mlp", rows, local.hidden, columns))
    last = row_product(
        Product("fc2", "mlp", rows, inner.ffn_local, local.hidden), local.scattered_rows
    )
    found = [
        replace(first, forward=replace(first.forward, collectives=(gather,)), inputs=(INPUT,)),
        bias("fc1-bias", rows, columns),
        activation(inner, rows),
        dropout("drop1", rows * inner.ffn_local),
        replace(last, backward=replace(last.backward, collectives=(gather,))),
        bias("fc2-bias", local.scattered_rows, local.hidden),
    ]
    return [replace(one, name=f"{name}{one.name}") for one in found]


def _routed(local: Local, experts: Experts, expert_gpus: Floats) -> Sequence[Operation]:
    """Router, dispatch, the experts' own operations, and the combination of their results."""
    visits, scattered = experts.per_token * local.rows, experts.per_token * local.scattered_rows
    copies = experts.count / expert_gpus
    columns = (2 if local.gated else 1) * local.ffn_local
    own = (
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
        _router(local, experts),
        _dispatch(local, experts),
        *(replace(operation, expert_weights=True) for operation in own),
        _combine(local, experts),
    )


def _router(local: Local, experts: Experts) -> Operation:
    """A product of the local tokens with one column an expert, and a softmax; not cut."""
    product = Product("router", "mlp", local.scattered_rows, local.hidden, float(experts.count))
    whole = product.operation(forward=(), backward=())
    choices = local.scattered_rows * experts.count
    softmax = ROUTER_FLOPS * choices
    return replace(
        whole,
        inputs=(INPUT,),
        activation_bytes=whole.activation_bytes + ELEMENT_BYTES * choices,
        forward=replace(whole.forward, vector_flops=softmax),
        backward=replace(whole.backward, vector_flops=softmax),
    )


def _sent_bytes(local: Local, experts: Experts) -> Floats:
    """What one GPU sends to the experts: its scattered tokens, once for each of its experts [B]."""
    return ELEMENT_BYTES * experts.per_token * local.scattered_rows * local.hidden


def _gathered_bytes(local: Local, experts: Experts) -> Floats:
    """All tokens that the tensor GPUs of one expert have received together [B]."""
    return ELEMENT_BYTES * experts.per_token * local.rows * local.hidden


def _dispatch(local: Local, experts: Experts) -> Operation:
    """Copy the tokens in the order of their experts, send them, gather them there."""
    sent = _sent_bytes(local, experts)
    send = Collective("all_to_all", sent, "expert")
    gather = Collective("all_gather", _gathered_bytes(local, experts), "tensor")
    # The conjugate of the gather is the reduce_scatter of the first product's gradients.
    return Operation(
        "dispatch",
        "mlp",
        0.0,
        0.0,
        Work(moved_bytes=2 * sent, collectives=(send, gather)),
        Work(moved_bytes=2 * sent, collectives=(send,)),
        result=Tensor(experts.per_token * local.rows, local.hidden),
        inputs=(INPUT, "router"),
    )


def _combine(local: Local, experts: Experts) -> Operation:
    """Send the results back and add them up, weighted by the router."""
    sent = _sent_bytes(local, experts)
    back = Collective("all_to_all", sent, "expert")
    gather = Collective("all_gather", _gathered_bytes(local, experts), "tensor")
    work = Work(
        vector_flops=2 * sent / ELEMENT_BYTES,
        moved_bytes=sent + sent / experts.per_token,
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
