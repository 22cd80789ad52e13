"""Times of one layer of iteration model ``calibrated``, for many shardings at once.

Its collectives are those of the levels of the fabric: a tensor collective is one ring through all
levels on which the group lies, the ring of context GPUs is as slow as its slowest hop. What they
show beside computing says `netplan.performance.calibrated`, how layers make an iteration
`netplan.performance.calibrated_terms`.
"""

import numpy as np
from msgspec import Struct

from netplan.arrays import Floats, Ints
from netplan.performance.calibrated import Kernels, LayerCollectives, Passes, Redone, Slice
from netplan.performance.setting import Setting
from netplan.records import replace
from netplan.traffic.hierarchy import Group, Network, group_of
from netplan.traffic.placement import CONTEXT, TENSOR, Placements
from netplan.workloads.operations import ELEMENT_BYTES


class CalibratedLayer(Struct, frozen=True, eq=False):
    """Times of a layer and of the ends, each of shape (shardings,) [s], and their weights [1]."""

    passes: Passes
    products_s: Floats  # there and back, without what is computed again
    attention_s: Floats
    vectors_s: Floats
    layer_weights: Floats
    end_weights: Floats

    @property
    def communication_s(self) -> Floats:
        """Tensor collectives and context ring, there and back [s]."""
        return np.asarray(self.passes.forward_comm_s + self.passes.backward_comm_s)

    def spilling(self, forward_s: Floats, backward_s: Floats) -> "CalibratedLayer":
        """The same with so much more memory traffic of what lies in an expanded memory [s]."""
        one = self.passes
        passes = one._replace(
            forward_s=one.forward_s + forward_s, backward_s=one.backward_s + backward_s
        )
        return replace(self, passes=passes, vectors_s=self.vectors_s + forward_s + backward_s)


def layer_collectives(
    network: Network, placements: Placements, index: Ints, part: Slice, collective_s: float
) -> LayerCollectives:
    """Their times alone; groups of one GPU have none.

    ``index`` says which placement each sharding belongs to.
    """
    tensor, context = (group_of(placements, at) for at in (TENSOR, CONTEXT))
    rows = network.collective("all_gather", tensor).take(index)
    several = tensor.members.prod(axis=0)[index] > 1
    tensor_s = rows.seconds(ELEMENT_BYTES * part.tokens * part.hidden) + collective_s * several
    # Keys and values of the other GPUs, one neighbour's after the other: the slowest hop counts.
    others = context.members.prod(axis=0)[index] - 1
    keys_bytes = 2 * ELEMENT_BYTES * part.tokens * part.key
    return LayerCollectives(tensor_s, keys_bytes * others * slowest_hop(network, context)[index])


def slowest_hop(network: Network, group: Group) -> Floats:
    """Time of a byte from one member to the next, at the slowest level with several [s/B]."""
    slowest = np.zeros(group.members.shape[1])
    for at, level in enumerate(network.levels):
        members = group.members[at]
        slowest = np.maximum(slowest, np.where(members > 1, 1 / level.link_bytes_per_s, 0.0))
    return slowest


def calibrated_layer(setting: Setting, part: Slice, sent: LayerCollectives) -> CalibratedLayer:
    """Times of one layer and of the ends for the slices of many shardings at once."""
    kernels = Kernels.of(part, setting.reached)
    again = Redone.of(
        setting.variant.recompute,
        setting.calibration.half_recompute,
        # One tensor GPU has nothing to cut over others.
        sequence_parallel=np.less(part.scattered, part.tokens),
    )
    one = kernels.beside(sent, again, setting.sharing)
    none = np.zeros(np.shape(part.query))
    return CalibratedLayer(
        passes=Passes(*(none + column for column in one)),
        products_s=none + kernels.products.forward_s + kernels.products.backward_s,
        attention_s=none + kernels.attention.forward_s + kernels.attention.backward_s,
        vectors_s=none + kernels.vectors.forward_s + kernels.vectors.backward_s,
        layer_weights=none + part.layer_weights,
        end_weights=none + part.end_weights,
    )
