"""What one GPU has of a model's blocks under software of a date, for many shardings at once.

Sizes and counts alone: how long blocks of them take says `netplan.performance.dated.blocks`.
"""

import numpy as np

from netplan.arrays import Amount
from netplan.performance.calibrated import Share
from netplan.workloads.models import Model
from netplan.workloads.operations import Sharding


class Part(Share, frozen=True, eq=False):
    """What one GPU has of all blocks; numbers, or arrays of one shape [1].

    Parameters
    ----------
    layers, prediction_layers
        Of the model; those that predict further tokens apart.
    attention_blocks, dense_blocks, expert_blocks, mamba_blocks
        Blocks of each kind, without those of prediction layers.
    predicts_by_experts
        Whether prediction layers have experts (1 or 0).
    gates
        Matrices of a feed-forward part beside the last one.
    heads, key_size, value_size, key
        Heads of a GPU, elements of a key and of a value, elements of all its keys.
    rotary, latent, sinks
        Whether keys are rotated, made of a latent vector, and have sinks beside them (1 or 0).
    query_rank, kv_rank, plain_size, rotated_size
        Of latent attention: its two ranks (of queries 0: made directly), elements of a key without
        and with a position.
    seen
        Tokens that attention sees, in the mean of its blocks, twice those of a causal one.
    ffn, expert_ffn, shared_ffn
        Inner width of a GPU's part of a dense part, of an expert, of shared experts.
    experts, held_experts, chosen, expert_size
        Experts of a block, those of a GPU, experts a token goes to, elements that they take.
    own_rows, imbalance, capacity
        Rows that a GPU starts with; rows of the busiest GPU over the mean, and the most of them
        that are not dropped.
    latent_experts
        Whether experts take latent vectors (1 or 0).
    inner, state, groups, mamba_heads
        Of a Mamba block: inner elements, those of a state, groups and heads of a GPU.
    """

    layers: Amount
    prediction_layers: Amount
    attention_blocks: Amount
    dense_blocks: Amount
    expert_blocks: Amount
    mamba_blocks: Amount
    predicts_by_experts: Amount
    gates: Amount
    heads: Amount
    key_size: Amount
    value_size: Amount
    key: Amount
    rotary: Amount
    latent: Amount
    sinks: Amount
    query_rank: Amount
    kv_rank: Amount
    plain_size: Amount
    rotated_size: Amount
    seen: Amount
    ffn: Amount
    expert_ffn: Amount
    shared_ffn: Amount
    experts: Amount
    held_experts: Amount
    chosen: Amount
    expert_size: Amount
    own_rows: Amount
    imbalance: Amount
    capacity: Amount
    latent_experts: Amount
    inner: Amount
    state: Amount
    groups: Amount
    mamba_heads: Amount
    hottest: Amount = 1.0

    @classmethod
    def of(
        cls, model: Model, sharding: Sharding, *, sequence_parallel: bool, imbalance: float = 1.0
    ) -> "Part":
        """The part of each sharding, of shape (shardings,).

        Parameters
        ----------
        model
            Whose experts are those of its file.
        sharding
            How a microbatch is cut.
        sequence_parallel
            Whether rows between blocks are cut over tensor GPUs.
        imbalance
            Rows of the busiest GPU over the mean [1].

        Returns
        -------
        Part
            What depends on the sharding as arrays of shape (shardings,), the rest as numbers.
        """
        tensor = sharding.tensor.astype(np.float64)
        tokens = sharding.microbatch * model.sequence_length / sharding.context
        scattered = tokens / tensor if sequence_parallel else tokens
        share: dict[str, Amount] = {
            "tokens": tokens,
            "scattered": scattered,
            "hidden": float(model.hidden_size),
            "sequence": float(model.sequence_length),
            "words": model.vocabulary / tensor,
        }
        blocks: dict[str, Amount] = {
            "layers": float(model.layers),
            "prediction_layers": float(model.prediction_layers),
            "gates": model.ffn_matrices - 1.0,
            "ffn": model.inner_size / tensor,
            **_blocks_of(model),
        }
        attention, mamba = _attention_of(model, tensor), _mamba_of(model, tensor)
        return cls(
            **share,
            **blocks,
            **attention,
            **_experts_of(model, sharding, scattered, imbalance),
            **mamba,
        )


def _blocks_of(model: Model) -> dict[str, Amount]:
    """Blocks of each kind."""
    experts = model.experts
    sparse = model.sparse_layers - (model.prediction_layers if experts else 0)
    if model.mamba is not None:
        attention, mamba = model.attention_layers or 0, model.mamba.layers
        dense = model.forward_blocks - sparse
    else:
        attention, mamba, dense = model.layers, 0, model.layers - sparse
    return {
        "attention_blocks": float(attention),
        "dense_blocks": float(dense),
        "expert_blocks": float(sparse),
        "mamba_blocks": float(mamba),
        "predicts_by_experts": float(experts is not None),
    }


def _attention_of(model: Model, tensor: Amount) -> dict[str, Amount]:
    """Attention of a GPU."""
    latent, size = model.latent_attention, float(model.head_elements)
    heads, seen = model.heads / tensor, float(model.sequence_length)
    window = model.window_attention
    if window is not None and window.tokens < model.sequence_length:
        share = window.layers / (model.attention_layers or model.layers)
        short = 2 * window.tokens - window.tokens**2 / model.sequence_length
        seen = (1 - share) * seen + share * short
    sizes: dict[str, Amount] = {
        "heads": heads,
        "key_size": size,
        "value_size": float(model.value_elements),
        "key": np.maximum(model.key_heads * size / tensor, size),
        "latent": float(latent is not None),
        "query_rank": 0.0,
        "kv_rank": 0.0,
        "plain_size": 0.0,
        "rotated_size": 0.0,
        "rotary": float(model.rotates),
        "sinks": float(model.attention_sinks),
        "seen": seen if model.causal else 2 * seen,
    }
    if latent is None:
        return sizes
    key_size = float(latent.head_size + latent.rotary_head_size)
    return sizes | {
        "key_size": key_size,
        "value_size": float(latent.value_head_size),
        "key": heads * (key_size + latent.value_head_size) / 2,
        "query_rank": float(latent.query_rank or 0),
        "kv_rank": float(latent.kv_rank),
        "plain_size": float(latent.head_size),
        "rotated_size": float(latent.rotary_head_size),
    }


def _experts_of(
    model: Model, sharding: Sharding, scattered: Amount, imbalance: float
) -> dict[str, Amount]:
    """Experts of a GPU; of a dense model one that no block has."""
    experts = model.experts
    if experts is None:
        none = ("expert_ffn", "shared_ffn", "chosen", "own_rows", "latent_experts")
        ones = ("experts", "held_experts", "imbalance", "capacity")
        sizes: dict[str, Amount] = dict.fromkeys(none, 0.0)
        return sizes | dict.fromkeys(ones, 1.0) | {"expert_size": float(model.hidden_size)}
    cut, load = sharding.expert_tensor.astype(np.float64), experts.load
    over = sharding.experts_over
    # The busiest of p GPUs has all rows at most.
    busiest = np.minimum(imbalance, over) if load is None else load.imbalance(over)
    return {
        "expert_ffn": (experts.ffn_size or model.inner_size) / cut,
        "shared_ffn": experts.shared_ffn_size / sharding.tensor.astype(np.float64),
        "experts": float(experts.count),
        "held_experts": experts.held / sharding.experts_over.astype(np.float64),
        "chosen": float(experts.per_token),
        "expert_size": float(experts.latent_size or model.hidden_size),
        "own_rows": scattered * cut,
        "imbalance": busiest,
        "hottest": 1.0 if load is None else busiest,
        "capacity": experts.capacity_factor or np.inf,
        "latent_experts": float(experts.latent_size is not None),
    }


def _mamba_of(model: Model, tensor: Amount) -> dict[str, Amount]:
    """Mamba of a GPU."""
    mamba = model.mamba
    if mamba is None:
        return {"inner": 0.0, "state": 0.0, "mamba_heads": 0.0, "groups": 1.0}
    return {
        "inner": mamba.heads * mamba.head_size / tensor,
        "state": float(mamba.state),
        "groups": np.maximum(1.0, mamba.groups / tensor),
        "mamba_heads": mamba.heads / tensor,
    }
