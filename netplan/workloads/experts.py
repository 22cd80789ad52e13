"""A mixture of experts in place of the feed-forward part.

Every token visits ``top_k`` of the experts, which are spread over ``expert`` GPUs of the data
parallel group; within one expert the weights are cut over the tensor GPUs. Tokens leave from where
the sequence is cut, travel by all_to_all to their experts, and are gathered over the tensor GPUs
there; the results take the way back. Tokens are spread evenly: capacity factors, dropped tokens and
imbalance are left out.

Sources: Lepikhin et al., GShard (arXiv:2006.16668), Sec. 3 for the exchange; Singh et al.
(arXiv:2303.06318) for experts under tensor parallelism.
"""

from collections.abc import Sequence
from dataclasses import replace

from netplan.arrays import Floats
from netplan.workloads.operations import (
    ELEMENT_BYTES,
    INPUT,
    Collective,
    Local,
    Operation,
    Tensor,
    Variant,
    Work,
)
from netplan.workloads.products import Product, column_product, row_product
from netplan.workloads.vector_operations import activation, bias, dropout

ROUTER_FLOPS = 5
"""Softmax over the experts and choice of the best: vector work [FLOP a token and expert]."""


def expert_operations(local: Local, variant: Variant, expert_gpus: Floats) -> Sequence[Operation]:
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
