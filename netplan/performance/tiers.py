"""Memory tiers: what of a plan lies in the expanded memory, and what that costs.

An accelerator may have an expanded memory behind its own: CXL, the host's, a second kind on the
board. A plan fits if both hold it. With a footprint F, a local memory of M bytes at b bytes/s and
an expanded one at e bytes/s, F - M bytes *spill*:

``states-first``  they are the optimizer's, then gradients, weights and activations, in this order,
                  each as far as needed. An operation reads its weights, and writes and reads what
                  it keeps for the backward pass, as far as these have spilled, at e;
``uniform``       of everything the same share f = (F - M)/F, so that all traffic has the bandwidth
                  F / (M/b + (F - M)/e) (COMET, Eq. 3).

The roofline (`netplan.performance.compute`) counts bytes at the local rate: spilled ones count b/e
times, that is f (b/e - 1) more than before, so that nothing changes where nothing spills, and where
both tiers are equally fast. An operation with operands there pays the tier's latency once a pass.

*Offloaded* parts lie in the expanded memory whatever room there is, as far as it holds them. Under
ZeRO 2 and 3 it has the GPU's own share of gradients and weights, which is what moves.

The optimizer's update moves ``update_bytes`` a parameter once an iteration: by Adam with a 32-bit
copy 2 of the gradient, 12 of states read and written, and 2 of the weight, 28 in all, by SGD
without momentum 4 of states and 12 in all. Iteration models that leave the update out (``update:
spilled``) count what it takes longer than in the local memory; others count all of it. With the
states in the host's memory 24 of them cross the link to it. ZeRO-Offload (arXiv:2101.06840, Sec. 4)
lets the host update instead: 2 bytes of gradients go there and 2 of weights come back, and its
processor takes the time that is counted here.

What is kept for the backward pass is written once and read once. Each operation takes the longer of
its FLOPs and its traffic, so that both overlap inside of it, and nothing overlaps the update. Left
out: collectives that read from the expanded memory, transfers ahead of their operation (which hide
more) or on few links of a host that GPUs share (which hide less), the room that an operation needs
for what it reads from there, and buffers, which spill last and move nothing. What spills on the
fullest GPU is taken to spill on all.

Source: COMET (arXiv:2211.16648), Sec. III-C2; order of the states as in ZeRO-Infinity
(arXiv:2104.07857), Sec. 5, which moves them by how often they are used.
"""

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from netplan.arrays import Amount, Floats
from netplan.errors import InputError
from netplan.inputs.choices import MemoryPart as Part
from netplan.inputs.choices import Policy
from netplan.workloads.accelerators import Accelerator

if TYPE_CHECKING:
    from netplan.workloads.operations import Operation, OperationCost


ORDER: tuple[Part, ...] = ("optimizer", "gradients", "weights", "activations", "buffers")
"""Parts of the memory in the order in which they spill."""

SHOWN: tuple[Part, ...] = ("weights", "gradients", "optimizer", "activations", "buffers")
"""The same as pictures of the memory name them."""


class Expanded(Struct, frozen=True):
    """Expanded memory of one GPU.

    Examples
    --------
    >>> Expanded(480e9, 500e9).latency_s
    0.0
    """

    capacity_bytes: float
    bytes_per_s: float
    latency_s: float = 0.0

    @classmethod
    def of(cls, on: Accelerator) -> "Expanded | None":
        """That of an accelerator, if it has one."""
        if not on.expanded_bytes:
            return None
        return cls(on.expanded_bytes, on.expanded_bytes_per_s, on.expanded_latency_s)


def hybrid_bytes_per_s(
    local_bytes: Amount,
    expanded_bytes: Amount,
    local_bytes_per_s: Amount,
    expanded_bytes_per_s: Amount,
) -> Amount:
    """Bandwidth of bytes in two memories, all read alike (COMET, arXiv:2211.16648, Eq. 3) [B/s].

    Raises
    ------
    InputError
        If a number of bytes is negative, there are none, or a bandwidth is not positive.

    Examples
    --------
    >>> hybrid_bytes_per_s(80e9, 160e9, 2e12, 1e12)
    1200000000000.0
    """
    held = np.asarray(local_bytes), np.asarray(expanded_bytes)
    rates = np.asarray(local_bytes_per_s), np.asarray(expanded_bytes_per_s)
    if any((amount < 0).any() for amount in held) or any((rate <= 0).any() for rate in rates):
        raise InputError("two memories hold at least 0 bytes each at more than 0 bytes/s")
    whole = held[0] + held[1]
    if not (whole > 0).all():
        raise InputError("two memories hold more than 0 bytes together, got none")
    bandwidth = whole / (held[0] / rates[0] + held[1] / rates[1])
    return float(bandwidth) if bandwidth.ndim == 0 else bandwidth


class Spill(Struct, frozen=True, eq=False):
    """What of the traffic of operations goes to the expanded tier, and how long that takes.

    Parameters
    ----------
    everything, weights, gradients, activations
        Share of all traffic, or of weights, gradients and what is kept for the backward pass [1].
    expert_weights, expert_gradients
        The same of weights that belong to experts [1].
    slower
        How many times longer a byte takes from there, less one [1].
    latency_bytes
        Bytes that the local memory moves in the latency of an operation with operands there [B].
    """

    everything: Amount
    weights: Amount
    gradients: Amount
    expert_weights: Amount
    expert_gradients: Amount
    activations: Amount
    slower: float
    latency_bytes: Amount

    def there_bytes(self, operation: "Operation", work: "OperationCost") -> Amount:
        """What a work of an operation moves from and to the tier [B]."""
        experts = operation.expert_weights
        weights = self.expert_weights if experts else self.weights
        gradients = self.expert_gradients if experts else self.gradients
        there = self.everything * work.moved_bytes + weights * work.weight_bytes
        there = there + gradients * work.gradient_bytes
        return there + self.activations * operation.kept_bytes(work)

    def moved_bytes(self, operation: "Operation", work: "OperationCost") -> Amount:
        """Traffic of a work of an operation, as if all of it were local [B]."""
        there = self.there_bytes(operation, work)
        latency_bytes = np.where(there == 0, 0.0, self.latency_bytes)
        return work.moved_bytes + self.slower * there + latency_bytes


def expanded_parts(
    parts: dict[Part, Floats],
    local_bytes: float,
    expanded: Expanded,
    policy: Policy,
    offload: tuple[Part, ...] = (),
) -> dict[Part, Floats]:
    """What of every part of the memory lies in the expanded tier [B].

    Parameters
    ----------
    parts
        Bytes of every part, arrays of one shape [B].
    local_bytes
        The local memory [B].
    expanded
        The tier behind it; what exceeds both counts as lying there.
    policy, offload
        What spills first, and what lies there in any case.

    Examples
    --------
    >>> held = {part: np.array([30e9]) for part in ORDER}
    >>> there = expanded_parts(held, 80e9, Expanded(480e9, 500e9), "states-first")
    >>> [float(there[part][0]) for part in ORDER]
    [30000000000.0, 30000000000.0, 10000000000.0, 0.0, 0.0]
    """
    total = sum(parts.values(), np.zeros_like(next(iter(parts.values()))))
    spilled = np.maximum(total - local_bytes, 0.0)
    if policy == "uniform":
        share = np.divide(spilled, total, out=np.zeros_like(total), where=total > 0)
        return {name: held * share for name, held in parts.items()}
    wanted = sum((parts[name] for name in offload), np.zeros_like(total))
    rest = np.maximum(spilled, np.minimum(wanted, expanded.capacity_bytes))
    there: dict[Part, Floats] = {}
    for name in dict.fromkeys((*offload, *ORDER)):
        there[name] = np.minimum(parts[name], rest)
        rest = rest - there[name]
    return {name: there[name] for name in parts}


def expanded_share(there: Floats, held: Floats) -> Floats:
    """Share of a part that lies in the expanded tier, none of nothing [1]."""
    return np.divide(there, held, out=np.zeros_like(held), where=held > 0)
