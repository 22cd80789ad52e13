"""Rungs of the ladder that a search climbs for every plan (`netplan.performance.ladder`)."""

from typing import Literal

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Numbers
from netplan.performance.stack_memory import StackMemory
from netplan.workloads.program import SHARDED_GRADIENTS, SHARDED_WEIGHTS, Zero
from netplan.workloads.recomputation import NOTHING, Recomputation, RecomputedModule

FULL, AS_FEW = Recomputation("full"), Recomputation("block")
FAST_HOST_BYTES_PER_S = 1e11
"""Link to the host from which on a search tries to send activations there [B/s]."""


class Rung(Struct, frozen=True):
    """What a plan keeps: what it computes again, what it shards, whether it offloads activations.

    ``block`` without a number stands for as few layers as fit.
    """

    recompute: Recomputation
    zero: Zero
    offloads: bool = False
    stages: Literal["any", "one", "several"] = "any"

    def possible(self, stages: Numbers) -> Bools:
        """Whether plans of so many pipeline stages have it, shape (plans,)."""
        if self.stages == "any":
            return np.ones_like(stages, dtype=np.bool_)
        return (stages == 1) if self.stages == "one" else (stages > 1)

    def less_than(self, other: "Rung") -> bool:
        """Whether it takes no longer than another one, and less is computed again or offloaded."""
        less, more = self.recompute, other.recompute
        if less == NOTHING and not self.offloads:
            return True
        part = less.layers == more.layers == "none" and {*less.modules} <= {*more.modules}
        return not self.offloads and (more == FULL or (part and not other.offloads))


def rungs_of(
    memory: StackMemory,
    *,
    zero: Zero,
    sparse: bool,
    shards_gradients: bool,
    host_bytes_per_s: float,
) -> tuple[Rung, ...]:
    """All rungs that a search climbs, those that keep more first.

    Parameters
    ----------
    memory
        What training software holds.
    zero
        ZeRO stage of all but one of them.
    sparse
        Whether the model has experts.
    shards_gradients
        Whether pipelines may shard their gradients, too.
    host_bytes_per_s
        Link to the host's memory [B/s].

    Returns
    -------
    tuple[Rung, ...]
        Blocks of layers and offloaded activations stand there without a number.

    Examples
    --------
    >>> from netplan.performance.stacks import MemoryOfStack
    >>> from netplan.workloads.models import MODELS
    >>> memory = StackMemory(MODELS.load("llama-3-8b"), MemoryOfStack(software="megatron"))
    >>> given = {"zero": 1, "sparse": False, "shards_gradients": True, "host_bytes_per_s": 0.0}
    >>> [(str(rung.recompute), rung.zero) for rung in rungs_of(memory, **given)]
    [('none', 1), ('none', 2), ('block:0', 1), ('full', 1)]
    """
    rungs = [Rung(NOTHING, zero)]
    if shards_gradients:
        rungs.append(Rung(NOTHING, SHARDED_GRADIENTS, stages="several"))
    rungs += [Rung(Recomputation(modules=names), zero) for names in _modules(memory, sparse)]
    if memory.stack.keeps not in ("torch", "compiled"):
        rungs.append(Rung(AS_FEW, zero))
    rungs.append(Rung(FULL, zero))
    if zero == SHARDED_WEIGHTS and host_bytes_per_s >= FAST_HOST_BYTES_PER_S:
        rungs.append(Rung(NOTHING, zero, offloads=True, stages="one"))
    return tuple(rungs)


def _modules(memory: StackMemory, sparse: bool) -> list[tuple[RecomputedModule, ...]]:  # noqa: FBT001 - private
    """Names of modules that a search tries, those that keep more first."""
    if memory.stack.keeps in ("torch", "compiled"):
        return [("sac-op",)]
    if not sparse:
        return []
    latent = memory.model.latent_attention is not None
    if memory.precision == "fp8-delayed":  # keeps norms and activations of experts
        return [("mla_up_proj",)] if latent else []
    if not latent:
        return [("moe_act",), ("moe_act", "layernorm")]
    return [
        ("moe_act",),
        ("mla_up_proj",),
        ("mla_up_proj", "moe_act"),
        ("moe_act", "layernorm", "mla_up_proj"),
    ]
