"""Times of iteration model ``calibrated``: formulas of one layer, on numbers or arrays.

A layer of b s / c = T tokens, hidden size h, on t tensor and c context GPUs, has four products with
weights, attention, vector operations, and collectives. Symbols: q and k columns of queries and of
keys of one GPU, f of its feed-forward part, w words of its vocabulary, E = T / t rows where the
sequence is cut over tensor GPUs too, else T; P a rate of products, B of memory, t0 of a kernel.

=============  =====================================================================================
product        t0 + max(2 inner (rows columns + a) / P, 2 (rows inner + inner columns + rows
               columns) / B); a = wave x SMs x 32,768 outputs of a wave of tiles that are lost.
               Backward two of them. Below bf16 casts move 4 T (inner, backward columns) bytes more
attention      fused: 2 T s q FLOPs (half of the square) at A s / (s + 530), backward 2.5 times as
               many; unfused: 4 T s q at A, and 13 bytes a score forward, 21 backward; computed
               again half the FLOPs and 13 bytes
vectors        v (2 E h (10 + dropout) + (6 if gated else 4) T f + 4 T (q + 2 k), rotary 4 T (q + k)
               more) / B + 6 t0; backward 20 for 10, 10 and 8 for 6 and 4, 9 for 6
ends           head: three products with the words, 24 T w bytes, 6 t0; embedding 12 T h, 4 t0
               (forward alone: one product, 12 T w, 3 t0; 4 T h, 2 t0)
=============  =====================================================================================

All of them are numbers of one plan or arrays that broadcast, so that fits evaluate all runs at
once. How layers make an iteration says `netplan.performance.calibrated_terms`. Source: fitted to
published runs (reports/published/measured-runs.csv); half length from FlashAttention-2's tables
(arXiv:2307.08691), 13 and 21 bytes count the passes of unfused softmax and dropout.
"""

from collections.abc import Sequence

import numpy as np

from netplan.arrays import Amount, Bools, Columns, Floats, SummedColumns
from netplan.inputs.choices import Recompute
from netplan.records import replace
from netplan.workloads.models import Model
from netplan.workloads.operations import ELEMENT_BYTES, Sharding

TILE_OUTPUTS = 128 * 256
"""Outputs of one tile of a matrix product [1]."""

CAST_BYTES = 4.0
"""Read in 16 bits, written in fewer, transposed as well [B a number]."""

SCORE_BYTES, SCORE_GRADIENT_BYTES = 13.0, 21.0
"""Passes over unfused scores: QK write 2, softmax 4, dropout 5, PV read 2; and backwards [B]."""

FUSED_BACKWARD = 2.5
"""FLOPs of fused attention backward: five products for two (arXiv:2205.14135)."""

LOGIT_BYTES, WORD_BYTES = 24.0, 12.0
"""Loss and its gradients, a logit; look-up and its gradients, an element [B]."""

FORWARD_LOGIT_BYTES, FORWARD_WORD_BYTES = 12.0, 4.0
"""What of them the forward pass moves: half of the loss's bytes (assumed); a row that is read and
written [B]."""

FORWARD_LAUNCHES = 1 / 3
"""Share of the host's time that launches the forward pass: one of three passes, as of products. No
run tells; autograd launches with less work than a program, so that it is rather more [1]."""


Shapes = Sequence[tuple[Amount, Amount]]
"""Inner and outer size of products with weights [1]."""


class ReachedRates(Columns, frozen=True, eq=True):
    """What products and memory reach on an accelerator; numbers, or arrays of one shape.

    Parameters
    ----------
    product_flops_per_s, head_flops_per_s
        Products of layers in the precision of the run, and of the head in bf16, P e [FLOP/s].
    casts
        Whether operands are cast below bf16 (1) or not (0).
    lost_outputs
        Outputs of a wave of tiles that are lost, a [1].
    memory_bytes_per_s
        Bandwidth that kernels get, B [B/s].
    kernel_s
        Start of a kernel, t0 [s].
    vector
        Passes over memory against fused kernels [1].
    """

    product_flops_per_s: Amount
    head_flops_per_s: Amount
    casts: Amount
    lost_outputs: Amount
    memory_bytes_per_s: Amount
    kernel_s: Amount
    vector: Amount


class Reached(ReachedRates, frozen=True, eq=True):
    """What an accelerator and a training stack reach together; numbers, or arrays of one shape.

    Parameters
    ----------
    fused, attention_flops_per_s, attention_half_s
        Whether attention keeps no scores (1 or 0), its rate on long sequences [FLOP/s], and the
        sequence of half that rate [tokens].
    dropout
        Whether there is dropout (1 or 0).
    """

    fused: Amount
    attention_flops_per_s: Amount
    attention_half_s: Amount
    dropout: Amount


class Share(Columns, frozen=True, eq=False):
    """What one GPU has of a microbatch and of the words; numbers, or arrays of one shape [1].

    ``tokens`` it computes, of which it keeps ``scattered`` where the sequence is cut over tensor
    GPUs; ``hidden`` elements of each, ``words`` of the vocabulary.
    """

    tokens: Amount
    scattered: Amount
    hidden: Amount
    sequence: Amount
    words: Amount

    @property
    def end_weights(self) -> Amount:
        """Weights of the embedding, or of the head, on one GPU [1]."""
        return self.words * self.hidden


class Slice(Share, frozen=True, eq=False):
    """What one GPU has of a microbatch and of a layer; numbers, or arrays of one shape [1]."""

    query: Amount
    key: Amount
    ffn: Amount
    gates: Amount
    heads: Amount
    rotary: Amount

    @classmethod
    def of(cls, model: Model, sharding: Sharding, *, sequence_parallel: bool) -> "Slice":
        """The part of each sharding, of shape (shardings,)."""
        tensor = sharding.tensor.astype(np.float64)
        tokens = sharding.microbatch * model.sequence_length / sharding.context
        size = model.head_elements
        return cls(
            tokens=tokens,
            scattered=tokens / tensor if sequence_parallel else tokens,
            hidden=float(model.hidden_size),
            sequence=float(model.sequence_length),
            query=model.query_size / tensor,
            key=np.maximum(model.key_heads * size / tensor, size),
            ffn=model.inner_size / tensor,
            gates=model.ffn_matrices - 1.0,
            words=model.vocabulary / tensor,
            heads=model.heads / tensor,
            rotary=float(model.rotates),
        )

    @property
    def products(self) -> Shapes:
        """Inner and outer size of the products with weights: qkv, projection, fc1, fc2 [1]."""
        return (
            (self.hidden, self.query + 2 * self.key),
            (self.query, self.hidden),
            (self.hidden, self.gates * self.ffn),
            (self.ffn, self.hidden),
        )

    @property
    def layer_weights(self) -> Amount:
        """Weights of a layer on one GPU [1]."""
        return sum((inner * outer for inner, outer in self.products), 0.0)


class Both(SummedColumns, frozen=True, eq=False):
    """Times of the forward and of the backward pass, and of what is computed again [s]."""

    forward_s: Amount
    backward_s: Amount
    again_s: Amount = 0.0

    @property
    def forward_alone(self) -> "Both":
        """The same without a way back."""
        return Both(self.forward_s, 0.0)


def product_s(
    rows: Amount, inner: Amount, columns: Amount, rate: Amount, on: ReachedRates
) -> Amount:
    """Time of one product: rows x inner times inner x columns [s].

    Examples
    --------
    >>> ones = dict.fromkeys(ReachedRates.__struct_fields__, 1.0) | {"lost_outputs": 0.0}
    >>> float(product_s(2.0, 3.0, 5.0, 1.0, ReachedRates(**ones)))
    63.0
    """
    computing_s = 2 * inner * (rows * columns + on.lost_outputs) / rate
    moved = 2 * (rows * inner + inner * columns + rows * columns)
    return on.kernel_s + np.maximum(computing_s, moved / on.memory_bytes_per_s)


def dense_products(rows: Amount, shapes: Shapes, on: ReachedRates, where: Amount = 1.0) -> Both:
    """Products with weights there and back, with casts below bf16.

    Parameters
    ----------
    rows, shapes
        Rows of each, and its inner and outer size [1].
    on
        What kernels reach.
    where
        1, or 0 where there are no such products.

    Returns
    -------
    Both
        Of the shape of rows and sizes [s].
    """
    forward_s: Amount = 0.0
    backward_s: Amount = 0.0
    cast_s = on.casts * CAST_BYTES * rows / on.memory_bytes_per_s
    for inner, outer in shapes:
        rate = on.product_flops_per_s
        forward_s = forward_s + product_s(rows, inner, outer, rate, on) + cast_s * inner
        backward_s = backward_s + product_s(rows, outer, inner, rate, on)
        backward_s = backward_s + product_s(inner, rows, outer, rate, on) + cast_s * outer
    return Both(where * forward_s, where * backward_s)


def attention_s(part: Slice, on: Reached) -> Both:
    """Time of attention in a layer [s]."""
    t0, memory, length = on.kernel_s, on.memory_bytes_per_s, part.sequence
    square = part.tokens * length * part.query
    fused_s = 2 * square * (1 + on.attention_half_s / length) / on.attention_flops_per_s
    fused = Both(t0 + fused_s, 2 * t0 + FUSED_BACKWARD * fused_s)
    whole_s = 4 * square / on.attention_flops_per_s
    score_s = part.tokens * length * part.heads / memory
    scored = Both(
        4 * t0 + whole_s + SCORE_BYTES * score_s,
        8 * t0 + 2 * whole_s + SCORE_GRADIENT_BYTES * score_s,
        4 * t0 + whole_s / 2 + SCORE_BYTES * score_s,
    )
    return fused * on.fused + scored * (1 - on.fused)


def vectors_s(part: Slice, on: Reached) -> Both:
    """Time of norms, activations, residual sums and what else moves through memory [s]."""
    gated = part.gates - 1
    rows, wide = 2 * part.scattered * part.hidden, part.tokens * part.ffn
    copied = 4 * part.tokens * (part.query + 2 * part.key)
    copied = copied + part.rotary * 4 * part.tokens * (part.query + part.key)
    vector_s_per_byte = on.vector / on.memory_bytes_per_s
    return Both(
        vector_s_per_byte * (rows * (10 + on.dropout) + (4 + 2 * gated) * wide + copied)
        + 6 * on.kernel_s,
        vector_s_per_byte * (rows * (20 + on.dropout) + (8 + 2 * gated) * wide + copied)
        + 9 * on.kernel_s,
    )


def feed_forward_s(part: Slice, on: Reached) -> Amount:
    """Time of the feed-forward part forward: both products, and what lies between them [s]."""
    gated, forward_s = part.gates - 1, 3 * on.kernel_s
    for inner, outer in part.products[2:]:
        cast_s = on.casts * CAST_BYTES * part.tokens * inner / on.memory_bytes_per_s
        product = product_s(part.tokens, inner, outer, on.product_flops_per_s, on)
        forward_s = forward_s + product + cast_s
    moved = on.vector * (4 + 2 * gated) * part.tokens * part.ffn
    return forward_s + moved / on.memory_bytes_per_s


def head_s(part: Share, on: ReachedRates, *, trains: bool = True) -> Amount:
    """Time of the head with its loss, there and back or there alone, of one microbatch [s]."""
    rate = on.head_flops_per_s
    tokens, hidden, words = part.tokens, part.hidden, part.words
    products = product_s(tokens, hidden, words, rate, on)
    if not trains:
        moved = FORWARD_LOGIT_BYTES * part.tokens * part.words
        return products + moved / on.memory_bytes_per_s + 3 * on.kernel_s
    products = products + product_s(tokens, words, hidden, rate, on)
    products = products + product_s(hidden, tokens, words, rate, on)
    moved = LOGIT_BYTES * part.tokens * part.words
    return products + moved / on.memory_bytes_per_s + 6 * on.kernel_s


def embedding_s(part: Share, on: ReachedRates, *, trains: bool = True) -> Amount:
    """Time of the embedding, there and back or there alone, of one microbatch [s]."""
    if not trains:
        moved = FORWARD_WORD_BYTES * part.tokens * part.hidden
        return moved / on.memory_bytes_per_s + 2 * on.kernel_s
    moved = WORD_BYTES * part.tokens * part.hidden
    return moved / on.memory_bytes_per_s + 4 * on.kernel_s


def shown_s(beside_s: Amount, behind_s: Amount, contention: Amount) -> Amount:
    """What communication shows beside computing that it hides behind [s].

    What is longer than that shows whole, what it hides by the share ``contention``.

    >>> float(shown_s(3.0, 2.0, 0.25)), float(shown_s(1.0, 2.0, 0.25))
    (1.5, 0.25)
    """
    hidden_s = np.minimum(beside_s, behind_s)
    return beside_s - hidden_s + contention * hidden_s


EVERY_OTHER = 0.5
"""Products that torch's selective checkpointing of operations computes again [1]."""

COLLECTIVES = 4
"""Tensor collectives of a layer in each direction: two all_gathers, two reduce_scatters [1]."""

GATHERED_AGAIN = 0.75
"""Those of the forward pass that run again where all of it is computed again: three of four, as
the last one's result is not needed (arXiv:2205.05198, Sec. 4.2.2) [1]."""


class Sharing(Columns, frozen=True, eq=False):
    """How a stack hides communication; numbers, or arrays of one shape.

    ``tensor_visible`` and ``pipeline_visible`` are the shares of tensor collectives and of
    transfers that nothing hides, ``contention`` what hidden communication shows all the same [1];
    ``overlapped`` says whether data parallel collectives run beside passes (1 or 0), ``repeats``
    how often gradients are exchanged. ``layer_s`` is host time of a layer and microbatch.
    """

    tensor_visible: Amount
    pipeline_visible: Amount
    contention: Amount
    overlapped: Amount
    repeats: Amount
    layer_s: Amount
    gradient_bytes: Amount
    gather_bytes: Amount
    collective_s: Amount
    optimizer_bytes: Amount
    gradient_buffer_bytes: Amount
    iteration_s: Amount

    def tensor_s(self, one_s: Amount) -> Amount:
        """What the tensor collectives of a layer show in one direction, each ``one_s`` long [s]."""
        return COLLECTIVES * self.tensor_share * one_s

    @property
    def tensor_share(self) -> Amount:
        """What of a tensor collective shows, hidden ones too as far as they contend [1]."""
        return self.tensor_visible + (1 - self.tensor_visible) * self.contention


class Passes(Columns, frozen=True, eq=False):
    """One layer and the ends of a microbatch; numbers, or arrays of one shape [s].

    Communication stands apart, as far as it shows; ``again_s`` has all that is computed again.
    """

    forward_s: Amount
    backward_s: Amount
    forward_comm_s: Amount
    backward_comm_s: Amount
    again_s: Amount
    layer_s: Amount  # of the host
    head_s: Amount
    embedding_s: Amount

    @property
    def forward_alone(self) -> "Passes":
        """The same without a way back, but for the ends."""
        layer_s = FORWARD_LAUNCHES * self.layer_s
        return replace(self, backward_s=0.0, backward_comm_s=0.0, again_s=0.0, layer_s=layer_s)

    @property
    def ahead_s(self) -> Amount:
        """Forward pass, collectives included, behind which others hide [s]."""
        return self.forward_s + self.forward_comm_s

    @property
    def back_s(self) -> Amount:
        """The same of the backward pass [s]."""
        return self.backward_s + self.backward_comm_s + self.again_s

    @property
    def whole_s(self) -> Amount:
        """All that a layer takes [s]."""
        return self.ahead_s + self.back_s + self.layer_s


class Redone(Columns, frozen=True, eq=False):
    """What the backward pass computes again; shares, or arrays of one shape [1].

    ``scores`` of attention, the ``forward`` pass of the layer, and the ``collectives`` in it.
    """

    scores: Amount
    forward: Amount
    collectives: Amount

    @classmethod
    def of(cls, recompute: Recompute, half: float, *, sequence_parallel: bool | Bools) -> "Redone":
        """That of a kind of recomputation, of which ``half`` runs a share of the forward pass."""
        gathered = np.where(sequence_parallel, GATHERED_AGAIN, 1.0)
        return {
            "none": cls(0.0, 0.0, 0.0),
            "selective": cls(1.0, 0.0, 0.0),
            "half": cls(0.0, half, 0.0),
            "full": cls(0.0, 1.0, gathered),
        }[recompute]


class Kernels(Columns, frozen=True, eq=False):
    """What computing a layer and the ends of a microbatch takes [s]."""

    products: Both
    attention: Both
    vectors: Both
    head_s: Amount
    embedding_s: Amount

    @classmethod
    def of(cls, part: Slice, on: Reached, *, trains: bool = True) -> "Kernels":
        """That of a slice of a layer, there and back or there alone."""
        products = dense_products(part.tokens, part.products, on)
        attention = attention_s(part, on)
        vectors = vectors_s(part, on)
        ends_s = head_s(part, on, trains=trains), embedding_s(part, on, trains=trains)
        if trains:
            return cls(products, attention, vectors, *ends_s)
        layer = products.forward_alone, attention.forward_alone, vectors.forward_alone
        return cls(*layer, *ends_s)

    def again_s(self, part: Slice, on: Reached, passes: Passes, half: float) -> dict[str, Amount]:
        """What a layer takes to compute again, by word, one after the other [s].

        Of ``half`` the share ``half`` of the forward pass; of ``full`` its collectives, too.
        """
        gathered = np.where(np.less(part.scattered, part.tokens), GATHERED_AGAIN, 1.0)
        return {
            "core_attn": self.attention.again_s,
            "half": half * passes.forward_s,
            "full": passes.forward_s + gathered * passes.forward_comm_s,
            "sac-op": EVERY_OTHER * self.products.forward_s,
            "mlp": feed_forward_s(part, on),
        }

    def with_exposed(
        self, tensor_s: Amount, ring_s: Amount, again: Redone, sharing: Sharing
    ) -> Passes:
        """The same with what is computed again, and what shows of collectives beside it.

        These are a tensor collective and a round of the context ring, each alone [s].
        """
        attention, whole = self.attention, self.products + self.attention + self.vectors
        tensor_s = sharing.tensor_s(tensor_s)
        ahead_s = tensor_s + shown_s(ring_s, attention.forward_s, sharing.contention)
        back_s = tensor_s + shown_s(2 * ring_s, attention.backward_s, sharing.contention)
        again_s = again.scores * attention.again_s + again.forward * whole.forward_s
        again_s = again_s + again.collectives * ahead_s
        computed = whole.forward_s, whole.backward_s, ahead_s, back_s, again_s
        return Passes(*computed, sharing.layer_s, self.head_s, self.embedding_s)


class Stages(Columns, frozen=True, eq=False):
    """A pipeline and its microbatches; numbers, or arrays of one shape [1].

    ``fullest`` layers stand on the fullest stage, ``chunk`` on a virtual one; the first and the
    last may hold some less. ``bubble`` is the share of the 1F1B bubble that the schedule has.
    """

    layers: Amount
    stages: Amount
    interleave: Amount
    microbatches: Amount
    fullest: Amount
    chunk: Amount
    first_less: Amount
    last_less: Amount
    bubble: Amount

    def slowest(self, passes: Passes) -> tuple[Floats, Floats]:
        """Layers of the slowest stage [1], and what its ends take of a microbatch [s]."""
        layer_s = passes.whole_s
        first, last = self.fullest - self.first_less, self.fullest - self.last_less
        first_s, last_s = first * layer_s + passes.embedding_s, last * layer_s + passes.head_s
        is_last = last_s >= first_s
        is_middle = (self.stages > 2) & (  # noqa: PLR2004 - those between both ends
            self.fullest * layer_s > np.maximum(first_s, last_s)
        )
        layers = np.where(is_middle, self.fullest, np.where(is_last, last, first))
        ends_s = np.where(is_middle, 0.0, np.where(is_last, passes.head_s, passes.embedding_s))
        both_s = passes.head_s + passes.embedding_s
        return layers, np.where(self.stages == 1, both_s, ends_s)

    def slowest_s(self, passes: Passes) -> Amount:
        """What one microbatch takes on the slowest stage [s]."""
        layers, ends_s = self.slowest(passes)
        return layers * passes.whole_s + ends_s

    def through_s(self, passes: Passes) -> Amount:
        """What one microbatch takes through all stages [s]."""
        return self.layers * passes.whole_s + (passes.head_s + passes.embedding_s)

    def pipeline_s(self, passes: Passes) -> Amount:
        """What all microbatches take, and the bubble [s]."""
        slowest_s = self.slowest_s(passes)
        bubble_s = self.bubble * (self.through_s(passes) - slowest_s) / self.interleave
        return self.microbatches * slowest_s + bubble_s

    @property
    def transfers(self) -> Amount:
        """Transfers between stages that a GPU waits for [1]."""
        steady = 2 * self.microbatches * self.interleave + 2 * (self.stages - 1)
        return np.where(self.stages > 1, steady, 0.0)


class Exchange(Columns, frozen=True, eq=False):
    """Data parallel GPUs and their weights; numbers, or arrays of one shape.

    ``passes`` are those of a layer, behind which collectives hide. ``s_per_byte`` is the time of
    gathering one byte over the group of D = ``members`` GPUs, the share (D - 1)/D of it over the
    slowest level [s/B]. ``layer_weights`` and ``end_weights`` are those of one GPU [1];
    ``zero_stage`` says whether the optimizer (from 1 on) and the weights (3) are cut over the
    group.
    """

    passes: Passes
    s_per_byte: Amount
    members: Amount
    layer_weights: Amount
    end_weights: Amount
    zero_stage: Amount

    @property
    def sharded(self) -> Floats:
        """Whether the optimizer is cut over the group (1 or 0)."""
        return np.where(np.asarray(self.zero_stage) >= 1, 1.0, 0.0)

    @property
    def gathered(self) -> Bools:
        """Whether weights are."""
        return np.equal(self.zero_stage, 3)

    def held(self, stages: Stages) -> Amount:
        """Weights of the fullest stage on one GPU, of even stages, with its ends [1]."""
        ends = np.where(stages.stages == 1, 2.0, 1.0)
        return self.layer_weights * stages.layers / stages.stages + self.end_weights * ends

    def data_s(self, stages: Stages, sharing: Sharing) -> Amount:
        """What collectives over data parallel GPUs show in an iteration [s]."""
        # Gradients summed, and weights gathered, once an iteration.
        held, sharded, passes = self.held(stages), self.sharded, self.passes
        twice = 2 - sharded  # unsharded, gradients come back, and no weights
        scatter_s = sharing.repeats * twice * sharing.gradient_bytes * held * self.s_per_byte
        gather_s = sharded * sharing.gather_bytes * held * self.s_per_byte
        layers_per_stage = stages.layers / stages.stages
        pieces = np.where(
            stages.stages > 1, np.maximum(1.0, layers_per_stage / stages.chunk), stages.layers
        )
        hidden_s: Amount = 0.0
        for exchange_s, pass_s in ((scatter_s, passes.back_s), (gather_s, passes.ahead_s)):
            behind_s = pass_s * layers_per_stage
            last_s = np.maximum(exchange_s / pieces, exchange_s - behind_s * (1 - 1 / pieces))
            hidden_s = hidden_s + last_s + sharing.contention * np.minimum(exchange_s, behind_s)
        once_s = np.where(sharing.overlapped > 0, hidden_s, scatter_s + gather_s)
        if np.any(self.gathered):
            once_s = np.where(self.gathered, self._gathered_s(stages, sharing), once_s)
        return np.where(self.members > 1, once_s, 0.0)

    def _gathered_s(self, stages: Stages, sharing: Sharing) -> Amount:
        """Weights gathered for every pass of every microbatch, gradients scattered likewise."""
        start_s, s_per_byte = sharing.collective_s, self.s_per_byte
        gather_s = sharing.gather_bytes * self.layer_weights * s_per_byte + start_s
        scatter_s = sharing.gradient_bytes * self.layer_weights * s_per_byte + start_s
        layer_s = shown_s(gather_s, self.passes.ahead_s, sharing.contention)
        layer_s = layer_s + shown_s(gather_s + scatter_s, self.passes.back_s, sharing.contention)
        # The ends: gathered twice in 16 bits, their gradients summed once.
        ends = 2 * self.end_weights * s_per_byte * (ELEMENT_BYTES + sharing.gradient_bytes)
        return stages.microbatches * stages.layers / stages.stages * layer_s + ends

    def forward_s(self, stages: Stages, sharing: Sharing) -> Amount:
        """What they show in forward passes alone: weights that are cut, gathered for each [s]."""
        gather_s = sharing.gather_bytes * self.layer_weights * self.s_per_byte
        gather_s = gather_s + sharing.collective_s
        layer_s = shown_s(gather_s, self.passes.ahead_s, sharing.contention)
        # Both ends once in 16 bits.
        ends_s = 2 * self.end_weights * self.s_per_byte * ELEMENT_BYTES
        whole_s = stages.microbatches * stages.layers / stages.stages * layer_s + ends_s
        return np.where(self.gathered & np.greater(self.members, 1), whole_s, 0.0)

    def optimizer_s(self, stages: Stages, sharing: Sharing, on: ReachedRates) -> Amount:
        """The update of the weights, and buffers of gradients [s]."""
        held = self.held(stages)
        states = sharing.optimizer_bytes * held / np.where(self.sharded > 0, self.members, 1.0)
        buffers = sharing.gradient_buffer_bytes * held
        buffers = buffers / np.where(self.gathered, self.members, 1.0)
        return (states + buffers) / on.memory_bytes_per_s
