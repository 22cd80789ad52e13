"""Blocks under software of a date as one layer in the mean, which a pipeline is made of.

A microbatch keeps the GPU for ``gpu_s``, and the host for ``waits_s`` to launch its kernels. Both
work beside each other, so that together they take

    whole = (gpu^4 + waits^4)^(1/4),

which is the longer of both where they differ, and a fifth more where they are equal. Prediction
layers take the time of one block of attention and one behind it, longer by whole / gpu. A layer is
the mean of all of them: ``whole`` over the layers, as pipelines that are unlike are not modelled.
"""

from collections.abc import Iterable, Mapping
from operator import mul

import numpy as np
from msgspec import field

from netplan.arrays import Amount, Columns
from netplan.performance.calibrated import (
    GATHERED_AGAIN,
    Both,
    Passes,
    ReachedRates,
    Sharing,
    Stages,
    embedding_s,
    head_s,
    shown_s,
)
from netplan.performance.dated.blocks import BlockCollectives, DatedReach, blocks_of
from netplan.performance.dated.part import Part
from netplan.records import replace

TOGETHER = 4
"""Power in which times of GPU and host add up; fitted with all else [1]."""

SUPERSEDED_BY = {"moe_act": "moe", "shared_experts": "moe"}
"""Words of recomputation that mean nothing beside another one."""


class DatedLayer(Columns, frozen=True, eq=False):
    """A microbatch through all layers of a model; numbers, or arrays of one shape [s].

    Parameters
    ----------
    gpu_s, waits_s, ahead_s
        The GPU, the host, and what of the former is the forward pass with its collectives.
    ahead_comm_s, back_comm_s
        What of ``gpu_s`` collectives show, forward and backward.
    last_s
        The GPU in one prediction layer.
    layers, prediction_layers
        Layers of the model [1].
    head_s, embedding_s
        The ends, of every prediction layer too.
    products_s, attention_s, vectors_s, tensor_s, exchange_s
        Parts of ``gpu_s``, those of prediction layers too.
    weights, expert_weights, end_weights
        Of a GPU in all layers, those of its experts, and those of one end [1].
    growth
        How many times as long iterations take at least as all of this says [1].
    again, again_last
        What computing again takes, by word, in all layers and in one prediction layer.
    again_s, again_last_s
        What of it is computed again, in all layers and in one prediction layer.
    """

    gpu_s: Amount
    waits_s: Amount
    ahead_s: Amount
    ahead_comm_s: Amount
    back_comm_s: Amount
    last_s: Amount
    layers: Amount
    prediction_layers: Amount
    head_s: Amount
    embedding_s: Amount
    products_s: Amount
    attention_s: Amount
    vectors_s: Amount
    tensor_s: Amount
    exchange_s: Amount
    weights: Amount
    expert_weights: Amount
    end_weights: Amount
    growth: Amount = 1.0
    again: dict[str, Amount] = field(default_factory=dict)
    again_last: dict[str, Amount] = field(default_factory=dict)
    again_s: Amount = 0.0
    again_last_s: Amount = 0.0

    @classmethod
    def of(
        cls,
        part: Part,
        on: DatedReach,
        sent: BlockCollectives,
        half: Amount,
        windows: Part | None = None,
        *,
        trains: bool = True,
    ) -> "DatedLayer":
        """That of a part of a model.

        Parameters
        ----------
        part, on, sent
            What a GPU has, what it reaches, and what collectives show.
        half
            Share of the forward pass that recomputation ``half`` runs again [1].
        windows
            The part of layers that have windows with heads of their own.
        trains
            Whether there is a way back.
        """
        blocks, predicted = blocks_of(part, on, sent, windows), part.prediction_layers
        if not trains:
            blocks = tuple(block.forward_alone for block in blocks)
        gathered = np.where(np.less(part.scattered, part.tokens), GATHERED_AGAIN, 1.0)
        words = [block.again_with(half, gathered) for block in blocks]
        known = dict.fromkeys(word for again in words for word in again)
        again = {word: [taken.get(word, 0.0) for taken in words] for word in known}
        counts, lasts = [block.count for block in blocks], [block.last for block in blocks]

        def all_of(name: str) -> Amount:
            """A field in all layers, those that predict too, there and back."""
            values = [getattr(block, name) for block in blocks]
            amounts = [
                value.forward_s + value.backward_s if isinstance(value, Both) else value
                for value in values
            ]
            numbers = (block.count + predicted * block.last for block in blocks)
            return _sum(map(mul, numbers, amounts))

        exchange_s = all_of("exchange_s")
        comm_s = all_of("forward_comm_s") + all_of("backward_comm_s")
        ahead_s = _sum(block.count * (block.forward_s + block.forward_comm_s) for block in blocks)
        return cls(
            gpu_s=_sum(block.count * block.gpu_s for block in blocks),
            waits_s=_sum(block.count * block.host_s for block in blocks),
            ahead_s=ahead_s,
            ahead_comm_s=_sum(block.count * block.forward_comm_s for block in blocks),
            back_comm_s=_sum(block.count * block.backward_comm_s for block in blocks),
            last_s=_sum(block.last * block.gpu_s for block in blocks),
            layers=part.layers,
            prediction_layers=predicted,
            head_s=head_s(part, on, trains=trains) * (1 + predicted),
            embedding_s=embedding_s(part, on, trains=trains),
            products_s=all_of("products"),
            attention_s=all_of("attention"),
            vectors_s=all_of("vectors"),
            tensor_s=comm_s - exchange_s,
            exchange_s=exchange_s,
            weights=all_of("weights"),
            expert_weights=all_of("expert_weights"),
            end_weights=part.end_weights,
            again={word: _sum(map(mul, counts, amounts)) for word, amounts in again.items()},
            again_last={word: _sum(map(mul, lasts, amounts)) for word, amounts in again.items()},
        )

    @property
    def depth(self) -> Amount:
        """Layers, those that predict too [1]."""
        return self.layers + self.prediction_layers

    def redoing(self, shares: Mapping[str, Amount]) -> "DatedLayer":
        """The same with so large shares of the layers computed again, by word [1]."""
        again_s, again_last_s = self.again_s, self.again_last_s
        for word, share in shares.items():
            if word in self.again:
                counts = share * np.equal(shares.get(SUPERSEDED_BY.get(word, ""), 0.0), 0.0)
                again_s = again_s + counts * self.again[word]
                again_last_s = again_last_s + counts * self.again_last[word]
        return replace(self, again_s=again_s, again_last_s=again_last_s)

    @property
    def busy_s(self) -> Amount:
        """The GPU, with what is computed again [s]."""
        return self.gpu_s + self.again_s

    @property
    def together_s(self) -> Amount:
        """GPU and host in all layers but those that predict [s]."""
        busy_s: Amount = np.asarray(self.busy_s)
        return (busy_s**TOGETHER + self.waits_s**TOGETHER) ** (1 / TOGETHER)

    @property
    def least_again_s(self) -> dict[str, Amount]:
        """What computing again adds to a layer at least, by word [s].

        A second more of the GPU adds (busy / whole)^3 to the whole, and more the more there are;
        what it takes from the lengthening of prediction layers counts against it.
        """
        whole_s, busy_s = self.together_s, self.busy_s
        slope = (busy_s / whole_s) ** (TOGETHER - 1)
        predicted = self.prediction_layers * (self.last_s + self.again_last_s) / busy_s
        slope = self.growth * np.maximum(slope + predicted * (slope - whole_s / busy_s), 0.0)
        return {word: slope * again_s / self.depth for word, again_s in self.again.items()}

    def offloading(self, layer_s: Amount) -> "DatedLayer":
        """The same where the host's memory may hold activations: a word more, of each layer [s]."""
        again = self.again | {"offload": self.layers * layer_s}
        return replace(self, again=again, again_last=self.again_last | {"offload": layer_s})

    def spilling(self, forward_s: Amount, backward_s: Amount) -> "DatedLayer":
        """The same with so much more memory traffic of each layer in an expanded memory [s]."""
        more_s = forward_s + backward_s
        return replace(
            self,
            gpu_s=self.gpu_s + self.layers * more_s,
            ahead_s=self.ahead_s + self.layers * forward_s,
            last_s=self.last_s + more_s,
            vectors_s=self.vectors_s + self.depth * more_s,
        )

    @property
    def passes(self) -> Passes:
        """A layer in the mean, and the ends: as pipelines and other collectives see them.

        Host time and what is computed again lengthen the passes, behind which others hide;
        prediction layers do not, and stand where the host does.
        """
        whole_s, depth = self.together_s, self.depth
        blown = whole_s / self.busy_s
        share = blown / depth
        last_s = self.prediction_layers * blown * (self.last_s + self.again_last_s)
        forward_s, back_s = self.ahead_s - self.ahead_comm_s, self.gpu_s - self.ahead_s
        return Passes(
            forward_s=share * forward_s,
            backward_s=share * (back_s - self.back_comm_s),
            forward_comm_s=share * self.ahead_comm_s,
            backward_comm_s=share * self.back_comm_s,
            again_s=share * self.again_s,
            layer_s=last_s / depth,
            head_s=self.head_s,
            embedding_s=self.embedding_s,
        )

    def parts_s(self) -> dict[str, Amount]:
        """What a microbatch takes in all layers, part by part [s].

        ``host`` is what launching kernels adds to the GPU's own time.
        """
        again_s = self.again_s + self.prediction_layers * self.again_last_s
        parts: dict[str, Amount] = {
            "compute": self.products_s,
            "attention": self.attention_s,
            "memory": self.vectors_s,
            "tensor_comm": self.tensor_s,
            "expert_comm": self.exchange_s,
            "recompute": again_s,
        }
        waited_s = self.depth * self.passes.whole_s - _sum(parts.values())
        parts["host"] = np.where(np.asarray(self.waits_s) > 0, waited_s, 0.0)
        return parts


def _sum(terms: Iterable[Amount]) -> Amount:
    return sum(terms, 0.0)


class DatedExchange(Columns, frozen=True, eq=False):
    """GPUs that hold the same weights, and these; numbers, or arrays of one shape.

    Parameters
    ----------
    layer
        A microbatch through all layers, behind which collectives hide.
    s_per_byte, expert_s_per_byte
        Time of gathering one byte over the group of dense weights, and of experts: the share
        (D - 1)/D of it over the slowest level; 0 of a group of one [s/B].
    members, expert_members
        GPUs of these groups [1].
    zero_stage
        What of the states is cut over them: nothing (0), the optimizer (1, 2), weights too (3).
    """

    layer: DatedLayer
    s_per_byte: Amount
    expert_s_per_byte: Amount
    members: Amount
    expert_members: Amount
    zero_stage: Amount

    def data_s(self, stages: Stages, sharing: Sharing) -> Amount:
        """What collectives over these groups show in an iteration [s].

        Gradients of a chunk are ready before the end, with interleaving min(m, p) microbatches of
        it; weights that are cut are gathered for every pass of every microbatch.
        """
        passes, whole = self.layer.passes, np.equal(self.zero_stage, 3)
        gather_s = sharing.gather_bytes * self._stage_s(stages)
        scatter_s = sharing.gradient_bytes * self._stage_s(stages)
        depth = self.layer.depth
        per_stage = depth / stages.stages
        ahead_s, back_s = passes.ahead_s * per_stage, passes.back_s * per_stage
        together_s = gather_s + scatter_s
        each_s = shown_s(gather_s, ahead_s, sharing.contention)
        each_s = each_s + shown_s(together_s, back_s, sharing.contention)
        summed = np.where(np.equal(self.zero_stage, 0), 2.0, 1.0)
        pieces = np.where(stages.stages > 1, np.maximum(1.0, per_stage / stages.chunk), depth)
        before = np.where(
            stages.interleave > 1, np.minimum(stages.microbatches, stages.stages), 1.0
        )
        once_s: Amount = 0.0
        for exchange_s, pass_s in (
            (summed * scatter_s, back_s),
            ((2 - summed) * gather_s, ahead_s),
        ):
            behind_s = before * pass_s
            last_s = np.maximum(exchange_s / pieces, exchange_s - behind_s * (1 - 1 / pieces))
            once_s = once_s + last_s + sharing.contention * np.minimum(exchange_s, behind_s)
        return np.where(whole, stages.microbatches * each_s, once_s)

    def forward_s(self, stages: Stages, sharing: Sharing) -> Amount:
        """What they show in forward passes alone: weights that are cut, gathered for each [s].

        Parameters
        ----------
        stages
            The pipeline.
        sharing
            What is sent, and how it hides.
        """
        gather_s = sharing.gather_bytes * self._stage_s(stages)
        ahead_s = self.layer.passes.ahead_s * self.layer.depth / stages.stages
        each_s = shown_s(gather_s, ahead_s, sharing.contention)
        return np.where(np.equal(self.zero_stage, 3), stages.microbatches * each_s, 0.0 * each_s)

    def _stage_s(self, stages: Stages) -> Amount:
        """A byte of each weight of a stage over its group [s]."""
        dense, experts = self._held(stages)
        return dense * self.s_per_byte + experts * self.expert_s_per_byte

    def _held(self, stages: Stages) -> tuple[Amount, Amount]:
        """Weights of a stage on one GPU with its ends, and those of experts [1]."""
        ends = np.where(stages.stages == 1, 2.0, 1.0)
        dense = self.layer.weights / stages.stages + ends * self.layer.end_weights
        return dense, self.layer.expert_weights / stages.stages

    def optimizer_s(self, stages: Stages, sharing: Sharing, on: ReachedRates) -> Amount:
        """The update of the weights, and buffers of gradients [s]."""
        cut, whole = np.greater_equal(self.zero_stage, 1), np.equal(self.zero_stage, 3)
        moved: Amount = 0.0
        groups = (self.members, self.expert_members)
        for held, members in zip(self._held(stages), groups, strict=True):
            moved = moved + sharing.optimizer_bytes * held / np.where(cut, members, 1.0)
            moved = moved + sharing.gradient_buffer_bytes * held / np.where(whole, members, 1.0)
        return moved / on.memory_bytes_per_s
