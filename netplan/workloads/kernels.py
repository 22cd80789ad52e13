"""The kernels that a layer consists of: matrix products, biases, activations, dropout, norms.

Products have their weights cut by columns, by rows, or on a SUMMA grid. FLOPs are exact: a dot
product of length k takes 2k - 1 (arXiv:2410.00273, Tables I, II and A2; backward passes from its
published code). Of all others the counts per element are those of that code (its tables leave them
out); the gated activation is counted here the same way. A bias works as hard backward as forward.

How long kernels take that were measured one by one, `product_time_s` and `attention_time_s` say.
"""

from netplan.workloads.expert_exchange import expert_exchange_s
from netplan.workloads.fused_experts import fused_experts_time_s
from netplan.workloads.layer_kernels import (
    activation,
    bias,
    column_product,
    dropout,
    layer_norm,
    row_product,
    summa_product,
)
from netplan.workloads.measured_attention import (
    attention_backward_time_s,
    attention_time_s,
    generation_time_s,
    latent_generation_time_s,
)
from netplan.workloads.measured_products import kernel_error, product_time_s
from netplan.workloads.operations import ExpertShape

__all__ = (
    "ExpertShape",
    "activation",
    "attention_backward_time_s",
    "attention_time_s",
    "bias",
    "column_product",
    "dropout",
    "expert_exchange_s",
    "fused_experts_time_s",
    "generation_time_s",
    "kernel_error",
    "latent_generation_time_s",
    "layer_norm",
    "product_time_s",
    "row_product",
    "summa_product",
)
