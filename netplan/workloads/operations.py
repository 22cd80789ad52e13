"""What one transformer layer does with one microbatch: a list of operations.

An operation says how many FLOPs it takes, how many bytes it moves, what it stores and what it
communicates, forward and backward. All amounts are arrays: one entry a *sharding*, that is a way
to cut one microbatch over the GPUs. No accelerator and no fabric is known here.

The three strategies of tensor parallelism (arXiv:2410.00273, Tables I, II and A2):

``1d``     heads and feed-forward columns over ``tensor`` GPUs, the rest of the tokens likewise;
``2d``     the same, and the sequence over ``context`` GPUs (2D-context);
``summa``  every weight matrix on a ``tensor`` x ``context`` grid, multiplied in panels.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, get_args

import numpy as np
from msgspec import Struct

from netplan.arrays import Amount, Columns, Counts, Floats, Ints, Numbers, real
from netplan.errors import InputError
from netplan.inputs.choices import Precision, Recompute, ServingFormat
from netplan.records import replace
from netplan.workloads.expert_load import ExpertLoad
from netplan.workloads.models import Model

CollectiveKind = Literal[
    "all_gather", "reduce_scatter", "all_reduce", "broadcast", "reduce", "all_to_all"
]
GroupName = Literal["tensor", "context", "expert"]
Module = Literal["mlp", "attention", "head"]
Routing = Literal["even", "random"]

EXPERTS, COPIES = ("experts",), ("copies",)
"""Groups in place of dimensions: GPUs that exchange tokens of folded experts, and that hold the
same ones (`netplan.traffic.placement`)."""

ELEMENT_BYTES = 2.0
"""Weights, activations and gradients are 16-bit numbers [B]."""

MASK_BYTES = 1.0
"""One element of a dropout mask [B]."""


class Variant(Struct, frozen=True):
    """What the model file leaves open: recomputation, experts, and the ends of the network.

    Parameters
    ----------
    recompute
        ``selective`` computes the attention scores again in the backward pass (fused attention),
        ``none`` stores them, ``full`` stores only the input of a layer and runs it twice, ``half``
        does so with every other layer.
    experts
        Feed-forward parts of a layer; 1 is a dense layer [1].
    top_k
        Experts that each token visits [1].
    embedding, lm_head
        Whether the token embedding and the output head (with its loss) are counted.
    fused
        Whether attention never stores its scores, whatever is computed again.
    sequence_parallel
        Whether norms and dropouts are cut over the tensor GPUs too.
    again
        What else is computed again, by word, and in which share of the layers
        (`netplan.workloads.recomputation`).

    Raises
    ------
    InputError
        If the numbers of experts make no sense.

    Examples
    --------
    >>> Variant(experts=8, top_k=2).sparse
    True
    """

    recompute: Recompute = "selective"
    experts: int = 1
    top_k: int = 1
    embedding: bool = False
    lm_head: bool = False
    fused: bool = False
    sequence_parallel: bool = True
    again: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        """Refuse what no model can be."""
        if self.recompute not in get_args(Recompute):
            raise InputError(
                f"unknown recomputation {self.recompute!r}: use {', '.join(get_args(Recompute))}"
            )
        if self.experts < 1:
            raise InputError(f"a layer has at least 1 expert, got {self.experts}")
        if not 1 <= self.top_k <= self.experts:
            alone = self.experts == 1 and self.top_k > 1
            raise InputError(
                f"--top-k {self.top_k}: a token visits 1 to {self.experts} experts (all there are)"
                f"{': give --experts, too' if alone else ''}"
            )

    @property
    def sparse(self) -> bool:
        """Whether the layer is a mixture of experts."""
        return self.experts > 1

    @property
    def stores_scores(self) -> bool:
        """Whether attention scores are kept for the backward pass."""
        return not self.fused and self.recompute in ("none", "half")


PLAIN = Variant()


class Sharding(Columns, frozen=True, eq=False):
    """Ways to cut one microbatch, one entry each, all of shape (shardings,).

    Parameters
    ----------
    microbatch
        Sequences of one microbatch, b; tiled layers take fractions of one [1].
    tensor, context
        GPUs over heads and columns, n1; GPUs over the sequence, n2 [1].
    panels
        SUMMA panels of one product, n_b; 1 for the other strategies [1].
    expert
        GPUs over which the experts are spread beside those that share the rest of a layer [1].
    experts_over, expert_tensor
        GPUs over which the experts are spread in all, x, and GPUs that share one, e; of iteration
        models that do not fold experts over tensor and context GPUs those of ``expert`` and
        ``tensor`` [1].
    """

    microbatch: Numbers
    tensor: Ints
    context: Ints
    panels: Ints
    expert: Ints
    experts_over: Ints
    expert_tensor: Ints

    @classmethod
    def of(  # noqa: PLR0913 - a number for each way to cut
        cls,
        microbatch: float,
        tensor: int,
        context: int = 1,
        panels: int = 1,
        expert: int = 1,
        *,
        experts_over: int | None = None,
        expert_tensor: int | None = None,
    ) -> "Sharding":
        """A single sharding.

        Examples
        --------
        >>> Sharding.of(1, tensor=8).tensor
        array([8])
        """
        sequences: Numbers = np.array([microbatch])
        over, shared_by = experts_over or expert, expert_tensor or tensor
        degrees = (tensor, context, panels, expert, over, shared_by)
        return cls(sequences, *(np.full(1, degree, np.int64) for degree in degrees))

    def folded(self, row: int) -> tuple[int, int]:
        """GPUs over which experts are spread, and that share one, of one entry [1]."""
        return int(self.experts_over[row]), int(self.expert_tensor[row])


class CollectiveCall(Struct, frozen=True, eq=False):
    """One collective: its kind, its full message (gathered or unreduced) [B], and its group."""

    kind: CollectiveKind
    message_bytes: Amount
    group: GroupName
    uneven: "Uneven | None" = None

    @property
    def busiest_bytes(self) -> Amount:
        """Message of a collective of even shares that takes as long as the busiest GPU here [B]."""
        return self.message_bytes * (self.uneven.busiest if self.uneven else 1.0)


class Uneven(Struct, frozen=True, eq=False):
    """An exchange whose bytes follow the load of the experts that GPUs have.

    Parameters
    ----------
    load, over, shared_by
        Load of the experts, GPUs over which they are spread, and GPUs beside each other in the
        group that share one [1].
    back
        Whether results come back from the experts; else rows go to them.
    """

    load: ExpertLoad
    over: Amount | Counts
    shared_by: Amount = 1.0
    back: bool = False

    @property
    def busiest(self) -> Amount:
        """Bytes of the busiest GPU's links over the mean [1]."""
        return self.load.imbalance(self.over)

    @property
    def weights(self) -> tuple[float, ...]:
        """Bytes of every GPU of the group over the mean, of the only sharding [1]."""
        over, shared_by = (int(np.ravel(part)[0]) for part in (self.over, self.shared_by))
        return self.load.weights(over, shared_by)


class OperationCost(Struct, frozen=True, eq=False):
    """One direction of one operation; amounts of several steps have the shape (steps, shardings).

    Parameters
    ----------
    tensor_flops, vector_flops
        On the matrix units and on the others [FLOP].
    moved_bytes
        Read from and written to memory [B].
    weight_bytes, gradient_bytes
        What of them is weights that are read, and their gradients that are written [B].
    collectives
        What it communicates; a group of one member costs nothing.
    panels
        SUMMA panels that overlap with the computation; None where nothing overlaps.
    """

    tensor_flops: Amount = 0.0
    vector_flops: Amount = 0.0
    moved_bytes: Amount = 0.0
    collectives: tuple[CollectiveCall, ...] = ()
    panels: Floats | None = None
    weight_bytes: Amount = 0.0
    gradient_bytes: Amount = 0.0

    def with_collectives(self, collectives: Iterable[CollectiveCall]) -> "OperationCost":
        """The same with other collectives."""
        return replace(self, collectives=tuple(collectives))

    def twice(self, gradient_bytes: Amount) -> "OperationCost":
        """Twice the FLOPs and the bytes, with gradients: a backward pass of such a forward one."""
        return replace(
            self,
            tensor_flops=2 * self.tensor_flops,
            vector_flops=2 * self.vector_flops,
            moved_bytes=2 * self.moved_bytes,
            gradient_bytes=gradient_bytes,
        )


NO_WORK = OperationCost()
"""A direction that an operation does not have: it takes no time at all."""


class ProductShape(Struct, frozen=True, eq=False):
    """Matrix products of one size on one GPU: m rows by matrices of k x n [1].

    The rows are shared evenly by ``copies`` of the matrix, such as experts or attention heads.

    Examples
    --------
    >>> ProductShape(m=4096.0, k=64.0, n=512.0, copies=8.0).flops
    268435456.0
    """

    m: Amount
    k: Amount
    n: Amount
    copies: Amount = 1.0

    @property
    def flops(self) -> Amount:
        """2 m k n; exact sums have one addition less an element [FLOP]."""
        return 2.0 * self.m * self.k * self.n


class AttentionShape(Struct, frozen=True, eq=False):
    """Attention on one GPU: so many sequences and heads, each of queries on keys [1].

    Fewer queries than keys are those of a GPU that shares the sequence with others. A ``window``
    bounds how many keys a query sees; causal ones see what came before them. With a
    ``latent_rank`` all heads attend to the same stored vectors of ``head_size`` numbers, of which
    so many are values, too.
    """

    sequences: Amount
    heads: Amount
    kv_heads: Amount
    queries: Amount
    keys: Amount
    head_size: Amount
    causal: bool = True
    window: float | None = None
    latent_rank: float | None = None


class ExpertShape(Struct, frozen=True, eq=False):
    """Routed experts of one layer, numbers or arrays of a common shape [1].

    Parameters
    ----------
    hidden, inter
        Numbers of a token, and inner size of a whole expert.
    top_k, experts
        Experts of a token, and of the layer.
    tensor, expert
        GPUs that each expert is cut over, and that the experts are divided over.
    products
        Products of an expert: three with a gate, two without.
    load
        How unevenly tokens choose experts; active experts and rows are those of the busiest GPU.
    """

    hidden: Amount
    inter: Amount
    top_k: Amount
    experts: Amount
    tensor: Amount = 1.0
    expert: Amount = 1.0
    products: Amount = 3.0
    load: ExpertLoad | None = None

    @property
    def inner(self) -> Amount:
        """Inner size of what a GPU has of an expert [1]."""
        return np.asarray(self.inter) / self.tensor

    def active(self, tokens: Amount, routing: Routing = "even") -> Amount:
        """Experts of a GPU that have a row, one at least [1].

        ``even`` routing meets as many as there are rows, ``random`` (E / p) (1 - (1 - k/E)^T).

        Parameters
        ----------
        tokens
            Tokens of all GPUs that share the experts, before routing, T [1].
        routing
            ``even`` or ``random``.

        Returns
        -------
        Amount
            Experts of a GPU, as tokens and sizes broadcast [1].

        Examples
        --------
        >>> shape = ExpertShape(hidden=7168, inter=2048, top_k=8, experts=256, expert=8)
        >>> float(shape.active(16)), round(float(shape.active(16, "random")), 2)
        (16.0, 12.75)
        """
        if self.load is not None and self.load.shares:
            per_token = float(np.ravel(self.top_k)[0])
            return np.maximum(self.load.active(tokens, self.expert, per_token), 1.0)
        here = np.asarray(self.experts) / self.expert
        share = np.asarray(self.top_k) / self.experts
        if routing == "random":
            return np.maximum(here * (1 - (1 - share) ** tokens), 1.0)
        return np.clip(np.asarray(tokens) * share * here, 1.0, np.maximum(here, 1.0))

    def weights(self, tokens: Amount, routing: Routing = "even") -> Amount:
        """Weights of the experts that have a row [1].

        Parameters
        ----------
        tokens, routing
            As of :meth:`active`.

        Returns
        -------
        Amount
            Numbers of all their products, as tokens and sizes broadcast [1].
        """
        return self.active(tokens, routing) * self.products * self.hidden * self.inner

    def rows(self, tokens: Amount) -> Amount:
        """Rows of a GPU, one for each expert that a token visits [1].

        Parameters
        ----------
        tokens
            Tokens of all GPUs that share the experts, before routing [1].

        Returns
        -------
        Amount
            Rows, as tokens and sizes broadcast [1].
        """
        even = np.asarray(tokens) * self.top_k / self.expert
        return even if self.load is None else even * self.load.imbalance(self.expert)


class RoutedTokens(Struct, frozen=True, eq=False):
    """Tokens of all GPUs that share the experts of a layer, before routing [1].

    Weights of the experts are ``stored`` in a format, in so many bytes each [B]; ``kernel`` is what
    tables of measured kernels call what multiplies them.
    """

    tokens: Amount
    shape: ExpertShape
    stored: ServingFormat
    weight_bytes: float = 0.0
    kernel: str = ""


class Operation(Struct, frozen=True, eq=False):
    """One operation of a layer.

    Parameters
    ----------
    name
        Such as ``fc1``.
    module
        The part of the layer it belongs to.
    weight_bytes, activation_bytes
        16-bit weights of one GPU; what the backward pass needs of the forward pass [B].
    forward, backward
        The work of both directions.
    expert_weights
        Whether the weights belong to experts, which ``expert`` GPUs do not share.
    shapes
        The matrix products of the forward pass; none where it has none or they are not known.
    recomputed
        Share of the layers in which the forward pass runs once more before the backward pass [1].
    weight_gradient
        Work of the backward pass for the weights' gradients alone, where it is a phase of its own;
        ``backward`` is that for the gradients of the inputs then.
    stored_bytes
        Weights of one GPU that have neither gradients nor an optimizer's state of their size, such
        as rows of tables, which change one by one [B].
    input_bytes
        What a layer that is computed again keeps instead of activations: its input, which the
        first of its operations reads [B].
    scores
        Whether it is products of queries by keys, and of what comes of them by values.
    attention, experts
        Shape of its attention on one GPU, or tokens and shape of its fused experts, where it is
        one; None of all others.
    precision
        Numbers that its products take.
    branch
        Operations of different branches that follow each other in a list run beside each other, and
        those of one branch one by one; 0 waits for all before it, and all behind wait for it [1].
    share
        Of the layers, those that have the operation. All amounts are those of a layer that has it;
        a stack of unlike layers is so many times their mean, in which it counts that much [1].
    """

    name: str
    module: Module
    weight_bytes: Amount
    activation_bytes: Amount
    forward: OperationCost
    backward: OperationCost
    expert_weights: bool = False
    shapes: tuple[ProductShape, ...] = ()
    recomputed: float = 0.0
    stored_bytes: Amount = 0.0
    weight_gradient: OperationCost = NO_WORK
    input_bytes: Amount = 0.0
    scores: bool = False
    attention: AttentionShape | None = None
    experts: RoutedTokens | None = None
    precision: Precision = "bf16"
    branch: int = 0
    share: float = 1.0

    def sending(
        self, way: Literal["forward", "backward"], *collectives: CollectiveCall
    ) -> "Operation":
        """The same with these collectives forward, or backward."""
        return replace(self, **{way: replace(getattr(self, way), collectives=collectives)})

    def changed_both_ways(self, change: Callable[[OperationCost], OperationCost]) -> "Operation":
        """The same with another cost forward, and another one backward."""
        return replace(self, forward=change(self.forward), backward=change(self.backward))

    def kept_bytes(self, work: OperationCost) -> Amount:
        """What one of the works writes for the backward pass, or reads of what was written [B].

        The forward pass writes it, and the first work of the backward pass that needs it reads it.
        """
        if work is NO_WORK or work is self.weight_gradient:
            return 0.0
        kept = (1 - self.recomputed) * self.activation_bytes
        return kept + self.recomputed * self.input_bytes if work is self.forward else kept

    @property
    def backward_works(self) -> tuple[OperationCost, ...]:
        """Work of the backward pass, the last first, what it computes again included."""
        last = () if self.weight_gradient is NO_WORK else (self.weight_gradient,)
        again = (self.forward,) if self.recomputed else ()
        return (*last, self.backward, *again)


class Layer(Struct, frozen=True, eq=False):
    """The operations of one layer, and what passes between layers.

    Parameters
    ----------
    operations
        In their order of execution.
    boundary_bytes
        Activations that one GPU sends to the next pipeline stage, one microbatch [B].
    """

    operations: tuple[Operation, ...]
    boundary_bytes: Amount


class Local(Struct, frozen=True, eq=False):
    """Sizes of what one GPU holds; every division is one of integers, as in the published code.

    ======================  ====================================================================
    rows                    L = b * (l // n2), tokens of the microbatch
    scattered_rows          b * ((l // n2) // n1), tokens where the sequence is cut again
    sequence, queries       l; l // n2
    hidden, hidden_local    e; e // n1
    ffn_local               f // n1
    heads, kv_heads         h // n1; heads of keys and values, at least one a GPU
    head_size               q, e // h unless the model says otherwise
    queries_local           h q // n1, columns of the local queries
    value_size              elements of a head's values, q unless the model says otherwise
    values_local            h value_size // n1, columns of the local results of attention
    keys                    tokens that a token attends to, l without windows
    dropped                 b * (l // (n1 * n2)) * e, elements of a scattered activation
    ======================  ====================================================================
    """

    microbatch: Floats
    tensor: Floats
    context: Floats
    panels: Floats
    rows: Floats
    scattered_rows: Floats
    sequence: float
    queries: Floats
    hidden: float
    hidden_local: Floats
    ffn: float
    ffn_local: Floats
    heads: Floats
    kv_heads: Floats
    head_size: float
    queries_local: Floats
    value_size: float
    values_local: Floats
    keys: float
    dropped: Floats
    model: Model

    @property
    def attention(self) -> AttentionShape:
        """Shape of its attention: a head at least, as wide as keys and values in the mean."""
        return AttentionShape(
            self.microbatch,
            np.maximum(self.heads, 1.0),
            self.kv_heads,
            self.queries,
            self.sequence,
            (self.head_size + self.value_size) / 2,
            self.model.causal,
            self.keys,
        )

    def all_tokens(self, kind: CollectiveKind) -> CollectiveCall:
        """A collective of the tensor GPUs over all local rows of the whole embedding."""
        return CollectiveCall(kind, ELEMENT_BYTES * self.rows * self.hidden, "tensor")

    @property
    def qkv_local(self) -> Floats:
        """Columns of the local query, key and value projection: 3e // n1 without sharing."""
        return self.queries_local + (self.head_size + self.value_size) * self.kv_heads


def local_sizes(model: Model, sharding: Sharding) -> Local:
    """Sizes of the tensors that one GPU holds.

    Examples
    --------
    >>> from netplan.workloads.models import MODELS
    >>> local_sizes(MODELS.load("gpt-1t"), Sharding.of(1, tensor=8)).hidden_local
    array([3200.])
    """
    b, n1, n2 = sharding.microbatch, sharding.tensor, sharding.context
    l, e = model.sequence_length, model.hidden_size  # noqa: E741 - the papers' letters
    f, kv_heads, values = model.inner_size, model.key_heads, model.value_elements

    return Local(
        microbatch=real(b),
        tensor=real(n1),
        context=real(n2),
        panels=real(sharding.panels),
        rows=real(b * (l // n2)),
        scattered_rows=real(b * ((l // n2) // n1)),
        sequence=float(l),
        queries=real(l // n2),
        hidden=float(e),
        hidden_local=real(e // n1),
        ffn=float(f),
        ffn_local=real(f // n1),
        heads=real(model.heads // n1),
        kv_heads=real(np.maximum(kv_heads // n1, 1)),
        head_size=float(model.head_elements),
        queries_local=real(model.query_size // n1),
        value_size=float(values),
        values_local=real(model.heads * values // n1),
        keys=float(l),
        dropped=real(b * (l // (n1 * n2))) * e,
        model=model,
    )


def total_bytes(amounts: Sequence[Amount], count: int) -> Floats:
    """Sum of several amounts, of all steps if they have some, one entry a sharding [B].

    Examples
    --------
    >>> total_bytes([1.0, np.array([2.0, 3.0])], 2)
    array([3., 4.])
    """
    total = np.zeros(count)
    for amount in amounts:
        total += np.sum(amount, axis=0) if np.ndim(amount) > 1 else amount
    return total
