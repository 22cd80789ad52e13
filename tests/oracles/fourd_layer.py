"""The 14 operations of one transformer layer and microbatch on one GPU, as counts.

Source: Subramanian et al., Sec. III (S1), Table I (1D), Table II (2D-context), Table A2
(2D-SUMMA), and the authors' code where the tables are silent (backward passes, vector operations).
Nothing is counted for the qkv bias, residual sums, embedding, output head, loss and optimizer.

Every sharded size is an integer division, and FLOPs are exact: a dot product of length k takes
2k - 1. Elements become GB with `FP16_GB`; a dropout mask takes one byte (`MASK_GB`) per element.
"""

from dataclasses import dataclass

from .fourd_inputs import Mode, Model, Split, System
from .fourd_times import Collective, Group, Kind, Work

FP16_GB = 2e-9
MASK_GB = 1e-9


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation: what it stores (weights, activations for the backward pass) and does."""

    name: str
    weights_gb: float
    activations_gb: float
    forward: Work
    backward: Work


@dataclass(frozen=True, slots=True)
class Shard:
    """Sizes of the tensors that one GPU holds.

    L = rows = b*(l//n2), lk = l//n2, R = scattered_rows = b*((l//n2)//n1), el = e//n1, fl = f//n1,
    H = h//n1, q = e//h.
    """

    b: int
    n1: int
    n2: int
    sequence: int
    sequence_local: int
    rows: int
    scattered_rows: int
    embedding: int
    embedding_local: int
    hidden: int
    hidden_local: int
    heads_local: int
    head_size: int
    group1: Group
    group2: Group
    panels: int


def shard(model: Model, split: Split) -> Shard:
    """Return the local tensor sizes of a split."""
    sequence_local = model.sequence // split.n2
    return Shard(
        b=split.b,
        n1=split.n1,
        n2=split.n2,
        sequence=model.sequence,
        sequence_local=sequence_local,
        rows=split.b * sequence_local,
        scattered_rows=split.b * (sequence_local // split.n1),
        embedding=model.embedding,
        embedding_local=model.embedding // split.n1,
        hidden=4 * model.embedding,
        hidden_local=4 * model.embedding // split.n1,
        heads_local=model.heads // split.n1,
        head_size=model.embedding // model.heads,
        group1=Group(split.n1, split.v1),
        group2=Group(split.n2, split.v2),
        panels=split.n_b,
    )


def communication(group: Group, *messages: tuple[Kind, float]) -> tuple[Collective, ...]:
    """Return the collectives of a group; a group of one GPU has none."""
    if group.members == 1:
        return ()
    return tuple(Collective(kind, gigabytes, group) for kind, gigabytes in messages)


def column_linear(name: str, s: Shard, i: int, o: int) -> Operation:
    """Linear i -> o, weights split by columns (Tables I and II: Q, K, V and W1)."""
    rows, o1 = s.rows, o // s.n1
    return Operation(
        name,
        weights_gb=FP16_GB * i * o1,
        activations_gb=FP16_GB * rows * i,
        forward=Work(
            "tensor", flop=rows * o1 * (2 * i - 1), hbm_gb=FP16_GB * (rows * i + rows * o1 + i * o1)
        ),
        backward=Work(
            "tensor",
            flop=rows * i * (2 * o1 - 1) + i * o1 * (2 * rows - 1),
            hbm_gb=FP16_GB * 2 * (i * o1 + rows * i + rows * o1),
            collectives=communication(s.group1, ("reducescatter", FP16_GB * rows * i)),
        ),
    )


def row_linear(name: str, s: Shard, i: int, o: int) -> Operation:
    """Linear i -> o, weights split by rows (Tables I and II: Wp and W2)."""
    rows, i1 = s.rows, i // s.n1
    return Operation(
        name,
        weights_gb=FP16_GB * i1 * o,
        activations_gb=FP16_GB * rows * i1,
        forward=Work(
            "tensor",
            flop=rows * o * (2 * i1 - 1),
            hbm_gb=FP16_GB * (rows * i1 + rows * o + i1 * o),
            collectives=communication(s.group1, ("reducescatter", FP16_GB * rows * o)),
        ),
        backward=Work(
            "tensor",
            flop=rows * i1 * (2 * o - 1) + i1 * o * (2 * rows - 1),
            hbm_gb=FP16_GB * 2 * (i1 * o + rows * i1 + rows * o),
        ),
    )


def summa_linear(name: str, s: Shard, i: int, o: int) -> Operation:
    """Linear i -> o by SUMMA on an n1 x n2 grid in n_b panels (Table A2, Algorithm 1)."""
    rows, o1 = s.rows, o // s.n1
    input_gb, weight_gb = FP16_GB * rows * i, FP16_GB * i * o1
    partial = rows * o1 * s.panels  # C is read and written once per panel
    return Operation(
        name,
        weights_gb=FP16_GB * (i // s.n2) * o1,
        activations_gb=FP16_GB * rows * (i // s.n1),
        forward=Work(
            "tensor",
            flop=2 * rows * o1 * i,
            hbm_gb=FP16_GB * (rows * i + i * o1 + partial),
            collectives=communication(s.group1, ("broadcast", input_gb))
            + communication(s.group2, ("broadcast", weight_gb)),
            panels=s.panels,
        ),
        backward=Work(
            "tensor",
            flop=rows * i * (2 * o1 - 1) + i * o1 * (2 * rows - 1),
            hbm_gb=FP16_GB * 2 * (i * o1 + partial + rows * i),
            collectives=communication(s.group2, ("broadcast", weight_gb))
            + communication(s.group1, ("reduce", input_gb), ("broadcast", input_gb))
            + communication(s.group2, ("reduce", weight_gb)),
            panels=s.panels,
        ),
    )


def layer_norm(name: str, s: Shard) -> Operation:
    """LayerNorm on scattered rows, whole embedding (Tables I and II)."""
    rows, width = s.scattered_rows, s.embedding
    count = rows * width
    gathered_gb = FP16_GB * s.rows * width
    return Operation(
        name,
        weights_gb=FP16_GB * 2 * width,
        activations_gb=FP16_GB * count,
        forward=Work(
            "vector",
            flop=9 * count,
            hbm_gb=FP16_GB * (2 * count + 2 * rows + 2 * width),
            collectives=communication(s.group1, ("allgather", gathered_gb)),
        ),
        backward=Work(
            "vector",
            flop=8 * count + 4 * rows * (width - 1),
            hbm_gb=FP16_GB * (5 * count + 2 * width),
            collectives=communication(s.group1, ("reducescatter", gathered_gb)),
        ),
    )


def summa_layer_norm(name: str, s: Shard, mode: Mode) -> Operation:
    """LayerNorm on a block of e//n1 columns (Table A2); the published code takes l//n1 columns."""
    width = s.embedding_local if mode == "corrected" else s.sequence // s.n1
    count = s.rows * width
    # Divided after the product, unlike every other size; the same in both modes.
    gradient_gb = FP16_GB * ((2 * s.embedding) // s.n1 + (2 * s.b * s.sequence) // s.n2)
    return Operation(
        name,
        weights_gb=FP16_GB * 2 * width,
        activations_gb=FP16_GB * count,
        forward=Work(
            "vector",
            flop=9 * count,
            hbm_gb=FP16_GB * (2 * count + 2 * s.rows + 2 * width),
            collectives=communication(s.group1, ("allreduce", FP16_GB * 2 * s.rows)),
        ),
        backward=Work(
            "vector",
            flop=8 * count + 4 * s.rows * (width - 1),
            hbm_gb=FP16_GB * (5 * count + 2 * width),
            collectives=communication(s.group1, ("allreduce", gradient_gb)),
        ),
    )


def bias(name: str, rows: int, width: int) -> Operation:
    """Bias on (rows, width); the backward pass counts as the forward pass."""
    work = Work("vector", flop=rows * width, hbm_gb=FP16_GB * (rows * width + width))
    return Operation(name, FP16_GB * width, 0.0, work, work)


def gelu(name: str, count: int) -> Operation:
    """GeLU of `count` elements."""
    forward = Work("vector", flop=8 * count, hbm_gb=FP16_GB * 2 * count)
    backward = Work("vector", flop=13 * count, hbm_gb=FP16_GB * 3 * count)
    return Operation(name, 0.0, FP16_GB * count, forward, backward)


def dropout(name: str, count: int) -> Operation:
    """Dropout of `count` elements; only the mask is stored."""
    work = Work("vector", flop=count, hbm_gb=FP16_GB * 2 * count + MASK_GB * count)
    return Operation(name, 0.0, MASK_GB * count, work, work)


def attention(s: Shard, system: System) -> Operation:
    """Fused logit-attend (Sec. III "Fused Operations"): the backward pass computes A again.

    The softmax and its dropout are vector work, charged at the tensor peak: each of their FLOPs
    counts as P_T/P_V. No causal saving: all l x l logits are computed.
    """
    maps, q = s.b * s.heads_local, s.head_size
    keys, queries = s.sequence, s.sequence_local  # l, lk
    ratio = system.tensor_tflops / system.vector_tflops
    logits = maps * queries * keys  # X
    sums = maps * queries * (keys - 1)  # Y
    query, key_value = maps * queries * q, maps * keys * q

    query_key = logits * (2 * q - 1)
    softmax = ratio * (2 * logits + sums) + ratio * logits
    attend = query * (2 * keys - 1)
    softmax_gradient = ratio * (3 * logits + sums) + ratio * logits
    value_gradient = key_gradient = key_value * (2 * queries - 1)
    query_gradient = attend
    score_gradient = query_key
    recompute = query_key + softmax

    activations_gb = FP16_GB * (4 * query + 2 * maps * queries)
    gathered_gb = FP16_GB * 2 * key_value
    return Operation(
        "attention",
        weights_gb=0.0,
        activations_gb=activations_gb,
        forward=Work(
            "tensor",
            flop=query_key + softmax + attend,
            hbm_gb=FP16_GB * (2 * query + 2 * key_value + maps * queries),
            collectives=communication(s.group2, ("allgather", gathered_gb)),
        ),
        backward=Work(
            "tensor",
            flop=query_gradient
            + value_gradient
            + softmax_gradient
            + score_gradient
            + key_gradient
            + recompute,
            hbm_gb=FP16_GB * (2 * key_value + 2 * query) + activations_gb,
            collectives=communication(
                s.group2, ("allgather", gathered_gb), ("reducescatter", gathered_gb)
            ),
        ),
    )


def ring_layer(model: Model, system: System, split: Split, mode: Mode) -> tuple[Operation, ...]:
    """Table I (1D, n2 = 1) and Table II (2D-context): eight MLP operations, then six of S/A."""
    s = shard(model, split)
    e, f = s.embedding, s.hidden
    scattered = (s.scattered_rows, e)
    fc2_bias = vproj_bias = scattered
    if mode == "published-code":
        # The strategy decides, not the degree: 2D-context with n2 = 1 is not 1D here.
        fc2_bias = (s.rows, e) if split.strategy == "1d" else scattered
        vproj_bias = (s.rows, e) if split.strategy == "1d" else (s.rows, s.embedding_local)
    dropped = s.b * (s.sequence // (s.n1 * s.n2)) * e
    return (
        column_linear("fc1", s, e, f),
        bias("fc1-bias", s.rows, s.hidden_local),
        gelu("gelu", s.rows * s.hidden_local),
        dropout("drop1", s.rows * s.hidden_local),
        row_linear("fc2", s, f, e),
        bias("fc2-bias", *fc2_bias),
        dropout("drop2", dropped),
        layer_norm("ln1", s),
        column_linear("qkv", s, e, 3 * e),
        attention(s, system),
        row_linear("vproj", s, e, e),
        bias("vproj-bias", *vproj_bias),
        dropout("drop_v", dropped),
        layer_norm("ln2", s),
    )


def summa_layer(model: Model, system: System, split: Split, mode: Mode) -> tuple[Operation, ...]:
    """Table A2 (2D-SUMMA): eight MLP operations, then six of S/A."""
    s = shard(model, split)
    e, f = s.embedding, s.hidden
    local = s.rows * s.embedding_local
    return (
        summa_linear("fc1", s, e, f),
        bias("fc1-bias", s.rows, s.hidden_local),
        gelu("gelu", s.rows * s.hidden_local),
        dropout("drop1", s.rows * s.hidden_local),
        summa_linear("fc2", s, f, e),
        bias("fc2-bias", s.rows, s.embedding_local),
        dropout("drop2", local),
        summa_layer_norm("ln1", s, mode),
        summa_linear("qkv", s, e, 3 * e),
        attention(s, system),
        summa_linear("vproj", s, e, e),
        bias("vproj-bias", s.rows, s.embedding_local),
        dropout("drop_v", local),
        summa_layer_norm("ln2", s, mode),
    )


def layer_operations(
    model: Model, system: System, split: Split, mode: Mode
) -> tuple[Operation, ...]:
    """Return the 14 operations of one layer, MLP first."""
    build = summa_layer if split.strategy == "2d-summa" else ring_layer
    return build(model, system, split, mode)
