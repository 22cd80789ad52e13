"""Time of one step of inference on one server: its layers, its head, its messages.

A *server* is one copy of the model, pipeline stages of tensor x attention-data GPUs each. All
amounts are arrays, one entry a plan. Operations follow each other, and nothing overlaps: DFModel
says so of decode (arXiv:2412.16432, Sec. VIII), and measured servers agree (`netplan verify`).
"""

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from netplan.arrays import Amount, Floats, Ints
from netplan.performance.serving.kernel_times import ServingKernels
from netplan.performance.serving.plans import laid
from netplan.performance.serving.serving_stack import DirectSum
from netplan.traffic.hierarchy import Group, Network
from netplan.workloads.inference import Cut, Formats, Step, inference_head, inference_layer
from netplan.workloads.models import Model
from netplan.workloads.operations import CollectiveKind, Operation
from netplan.workloads.serving_program import SERVED_SPANS


class StepTime(NamedTuple):
    """Time of a step, one entry a plan, and what of it computes, reads memory, sends [s]."""

    seconds: Floats
    compute_s: Floats
    memory_s: Floats
    network_s: Floats

    def scaled(self, times: Amount) -> "StepTime":
        """So many of them."""
        return StepTime(*(times * part for part in self))

    def plus(self, other: "StepTime") -> "StepTime":
        """One behind the other."""
        return StepTime(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    def take(self, index: Ints) -> "StepTime":
        """Some of the entries."""
        return StepTime(*(part[index] for part in self))


class Served(Struct, frozen=True, eq=False):
    """What a step is timed for: a model in its formats, kernels, and the levels below it."""

    model: Model
    formats: Formats
    kernels: ServingKernels
    network: Network
    direct_sum: DirectSum | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """Members of each level, the HB domain first [1]."""
        return tuple(level.size for level in self.network.levels)

    def step(self, cut: Cut, step: Step) -> tuple[StepTime, StepTime]:
        """Time of a layer in the mean, and of the head."""
        layer = inference_layer(self.model, cut, step, self.formats)
        whole = _nothing(cut)
        for one in layer.operations:
            whole = whole.plus(self._operation(one, cut).scaled(one.share))
        return whole, self._operation(inference_head(self.model, cut, step), cut)

    def hop_s(self, cut: Cut, rows: Amount) -> Floats:
        """Time in which the tokens of a step reach the next stage [s].

        Each GPU sends its part to the one in its place; where a stage fills its HB domains, this is
        in another one.
        """
        message = 2.0 * rows * self.model.hidden_size / cut.tensor
        inside = cut.gpus < self.sizes[0]
        pair = np.where(inside, 2, 1)
        members = np.stack([pair, 3 - pair, *(np.ones_like(pair) for _ in self.sizes[2:])])
        members = members[: len(self.sizes)]
        return self._time("all_to_all", 2 * message, members)

    def _operation(self, one: Operation, cut: Cut) -> StepTime:
        kernel = self.kernels.time(one, self.formats.cache_bytes)
        shape = cut.tensor.shape
        seconds = np.broadcast_to(kernel.seconds, shape)
        computing = np.broadcast_to(kernel.computes, shape)
        sent = np.zeros(shape)
        for each in one.forward.collectives:
            over = SERVED_SPANS.get(each.group, (each.group,))
            sent = sent + self.collective_s(each.kind, each.message_bytes, over, cut)
        return StepTime(
            seconds + sent,
            np.where(computing, seconds, 0.0),
            np.where(computing, 0.0, seconds),
            sent,
        )

    def collective_s(
        self, kind: CollectiveKind, message: Amount, dimensions: Collection[str], cut: Cut
    ) -> Floats:
        """Time of a collective over the GPUs of a stage that differ in some dimensions [s].

        Each level takes as many members as it has room for, the innermost first.
        """
        degrees = {"tensor": cut.tensor, "expert": cut.attention_data}
        whole = [degrees[name].astype(np.int64) for name in degrees if name in dimensions]
        members: Ints = laid(whole, self.sizes).prod(axis=1)
        return self._time(kind, message, members)

    def _time(self, kind: CollectiveKind, message: Amount, members: Ints) -> Floats:
        message = np.broadcast_to(message, members.shape[1:])
        if not message.any():
            return np.zeros(message.shape)
        way = self.network.collective(kind, Group(members, np.ones_like(members)))
        seconds = way.seconds(message)
        if kind == "all_reduce" and self.direct_sum is not None:
            seconds = np.minimum(seconds, self._direct_s(self.direct_sum, message, members))
        alone = members.prod(axis=0) <= 1
        return np.where(alone | (message <= 0), 0.0, seconds)

    def _direct_s(self, direct: DirectSum, message: Amount, members: Ints) -> Floats:
        """All_reduces in one kernel, infinite where groups leave their HB domain [s]."""
        inside = (members[1:] <= 1).all(axis=0)
        sent = 2 * (members[0] - 1) / members[0] * message
        domain = self.network.levels[0]
        links = members[0] - 1 if domain.kind == "mesh" else 1
        rate = direct.efficiency * np.maximum(links, 1) * domain.link_bytes_per_s
        return np.where(inside, direct.start_s + sent / rate, np.inf)


def _nothing(cut: Cut) -> StepTime:
    zero = np.zeros(cut.tensor.shape)
    return StepTime(zero, zero, zero, zero)
