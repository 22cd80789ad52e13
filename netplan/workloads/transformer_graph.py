"""The kernel graph of a transformer layer on one chip of a tensor-parallel group.

Forward 18 kernels, backward 17, and an update of each of the six weight matrices. Results that are
partial sums (Proj, FFN1 forward; FFN0_b, V_b backward) are summed over the group; V_b carries the
sum of the gradients of queries, keys and values, those of Q_b and K_b are added for free: four
all-reduces a layer, as published. Normalisation, dropout and residual sums see whole rows on every
chip. A gated feed-forward part has one more product, ``Gate``, whose backward and update are as
FFN0's (netplan's reading: none is published); fewer heads of keys and values make K
and V smaller.

Source: DFModel (Ko et al., ACM TACO 2024), Sec. III, and the input files of its public code.
"""

from typing import NamedTuple

from netplan.errors import InputError
from netplan.records import replace
from netplan.workloads.kernel_graph import Direction, Kernel, KernelGraph
from netplan.workloads.models import Model, refuse_unlike
from netplan.workloads.operations import ELEMENT_BYTES

FORWARD_EDGES = (
    "AddPrev-LN1 LN1-Q LN1-K LN1-V Q-QK K-QK QK-Softmax Softmax-Drop1 V-AV Drop1-AV AV-Proj"
    " Proj-Drop2 Drop2-Add1 AddPrev-Add1 Add1-LN2 LN2-FFN0 FFN0-GeLU GeLU-FFN1 FFN1-Drop3"
    " Drop3-Add2 Add1-Add2"
)
BACKWARD_EDGES = (
    "Loss_b-Drop3_b Drop3_b-FFN1_b FFN1_b-GeLU_b GeLU_b-FFN0_b FFN0_b-LN2_b LN2_b-Drop2_b"
    " Drop2_b-Proj_b Proj_b-AV_b1 V-AV_b1 Proj_b-AV_b2 Drop1-AV_b2 AV_b1-Drop1_b AV_b2-V_b"
    " Drop1_b-Softmax_b Softmax_b-QK_b1 Softmax_b-QK_b2 K-QK_b1 Q-QK_b2 QK_b1-Q_b QK_b2-K_b"
)
UPDATE_EDGES = (
    "Drop3_b-FFN1_u GeLU-FFN1_u GeLU_b-FFN0_u LN2-FFN0_u Drop2_b-Proj_u AV-Proj_u AV_b2-V_u"
    " LN1-V_u QK_b2-K_u LN1-K_u QK_b1-Q_u LN1-Q_u"
)

SCORES = ("QK", "Softmax", "Drop1")
SCORE_EDGES = "Q-QK_r K-QK_r QK_r-Softmax_r Softmax_r-Drop1_r"
GATE_EDGES = "GeLU_b-Gate_b Gate_b-LN2_b GeLU_b-Gate_u LN2-Gate_u"


class LayerSizes(NamedTuple):
    """Sizes of a layer on one chip: the letters of the table in DFModel's Sec. III [1]."""

    hidden: int
    queries: int  # columns of Q, and of the heads' results
    keys: int  # columns of K, and of V
    inner: int  # columns of the feed-forward part
    maps: int  # rows of all attention scores, tokens x heads
    head: int
    tokens: int

    def rows(self, width: int) -> float:
        """Bytes of one row of this width for every token [B]."""
        return ELEMENT_BYTES * width * self.tokens


def layer_graph(
    model: Model,
    tensor: int = 1,
    direction: Direction = "forward",
    *,
    uneven: bool = False,
    again: bool = False,
) -> KernelGraph:
    """One layer of a transformer on each of so many chips, one sequence at a time.

    Parameters
    ----------
    model
        The transformer.
    tensor
        Chips that share the layer [1].
    direction
        ``forward`` alone, or with the backward pass and the weight updates, which need its results.
    uneven
        Whether heads and columns need not divide by the chips: the fullest chip counts.
    again
        Whether the backward pass computes the scores of the attention again (``QK_r`` and so on).

    Raises
    ------
    InputError
        If heads or columns do not divide by the chips and have to.

    Examples
    --------
    >>> from netplan.workloads.models import MODELS
    >>> graph = layer_graph(MODELS.load("gpt-175b"), tensor=8, direction="both")
    >>> graph.count, len(graph.source), sum(k.all_reduce_bytes > 0 for k in graph.kernels)
    (41, 53, 4)
    """
    refuse_unlike(model, "kernels on a chip")
    sizes = layer_sizes(model, tensor, uneven=uneven)
    forward, back = _forward(sizes), _backward(sizes)
    edges = FORWARD_EDGES
    gate = [replace(one, name="Gate") for one in forward if one.name == "FFN0"]
    if model.gated_ffn:
        forward.insert([one.name for one in forward].index("GeLU"), *gate)
        edges += " LN2-Gate Gate-GeLU"
    if direction != "forward":
        updates = _updates(sizes)
        edges = f"{edges} {BACKWARD_EDGES} {UPDATE_EDGES}"
        if model.gated_ffn:
            back, updates = _with_gate(back), _with_gate(updates)
            edges += f" {GATE_EDGES}"
        kernels = [*forward, *back, *updates]
        if again:
            scores = [one for one in forward if one.name in SCORES]
            repeated = [replace(one, name=f"{one.name}_r", backward=True) for one in scores]
            kernels[len(forward) : len(forward)] = repeated
            edges = f"{edges.replace('Drop1-AV_b2', 'Drop1_r-AV_b2')} {SCORE_EDGES}"
    else:
        kernels = forward
    return KernelGraph.of(kernels, (_ends(edge) for edge in edges.split()))


def _ends(edge: str) -> tuple[str, str]:
    first, _, second = edge.partition("-")
    return first, second


def divides(model: Model, tensor: int) -> bool:
    """Whether heads and columns divide by so many chips."""
    return all(number % tensor == 0 for _, number in _divided(model))


def _inner(model: Model) -> int:
    return model.ffn_size or 4 * model.hidden_size


def _divided(model: Model) -> tuple[tuple[str, int], ...]:
    """What the chips of a tensor group share, by key."""
    kv_heads = model.kv_heads or model.heads
    return ("heads", model.heads), ("kv_heads", kv_heads), ("ffn_size", _inner(model))


def layer_sizes(model: Model, tensor: int, *, uneven: bool = False) -> LayerSizes:
    """Sizes on one of so many chips, of uneven ones the fullest.

    Raises
    ------
    InputError
        If heads or columns do not divide by the chips and have to.
    """
    inner, kv_heads = _inner(model), model.kv_heads or model.heads
    for name, number in _divided(model):
        if number % tensor and not uneven:
            raise InputError(
                f"{model.name}: {number:,} {name} do not divide by {tensor} chips: give --tensor a"
                f" divisor of {number:,}"
            )
    head = model.head_elements
    tokens, heads = model.sequence_length, -(-model.heads // tensor)
    return LayerSizes(
        hidden=model.hidden_size,
        queries=heads * head,
        keys=-(-kv_heads // tensor) * head,
        inner=-(-inner // tensor),
        maps=tokens * heads,
        head=head,
        tokens=tokens,
    )


def _simd(name: str, width: int, one: LayerSizes) -> Kernel:
    norm = name.startswith("LN")
    return Kernel(name, "simd", width, 1, one.tokens, one.rows(width), whole_rows=norm)


def _gemm(name: str, m: int, k: int, one: LayerSizes, *, weights: bool = True) -> Kernel:
    held = ELEMENT_BYTES * m * k if weights else 0.0
    return Kernel(name, "gemm", m, k, one.tokens, one.rows(m), held)


def _summed(kernel: Kernel) -> Kernel:
    """A kernel whose results are partial sums over the group."""
    return replace(kernel, all_reduce_bytes=kernel.output_bytes)


def _forward(one: LayerSizes) -> list[Kernel]:
    hidden, maps = one.hidden, one.maps
    return [
        *(_simd(name, hidden, one) for name in ("AddPrev", "LN1")),
        _gemm("Q", one.queries, hidden, one),
        *(_gemm(name, one.keys, hidden, one) for name in ("K", "V")),
        _gemm("QK", maps, one.head, one, weights=False),
        *(_simd(name, maps, one) for name in ("Softmax", "Drop1")),
        _gemm("AV", one.queries, one.tokens, one, weights=False),
        _summed(_gemm("Proj", hidden, one.queries, one)),
        *(_simd(name, hidden, one) for name in ("Drop2", "Add1", "LN2")),
        _gemm("FFN0", one.inner, hidden, one),
        _simd("GeLU", one.inner, one),
        _summed(_gemm("FFN1", hidden, one.inner, one)),
        *(_simd(name, hidden, one) for name in ("Drop3", "Add2")),
    ]


def _backward(one: LayerSizes) -> list[Kernel]:
    hidden, maps, queries, tokens = one.hidden, one.maps, one.queries, one.tokens
    kernels = [
        *(_simd(name, hidden, one) for name in ("Loss_b", "Drop3_b")),
        _gemm("FFN1_b", one.inner, hidden, one),
        _simd("GeLU_b", one.inner, one),
        _summed(_gemm("FFN0_b", hidden, one.inner, one)),
        *(_simd(name, hidden, one) for name in ("LN2_b", "Drop2_b")),
        _gemm("Proj_b", queries, hidden, one),
        _gemm("AV_b1", maps, one.head, one, weights=False),
        _gemm("AV_b2", queries, tokens, one, weights=False),
        _summed(_gemm("V_b", hidden, one.keys, one)),
        *(_simd(name, maps, one) for name in ("Drop1_b", "Softmax_b")),
        *(_gemm(name, queries, tokens, one, weights=False) for name in ("QK_b1", "QK_b2")),
        _gemm("Q_b", queries, hidden, one),
        _gemm("K_b", one.keys, hidden, one),
    ]
    added = ("Q_b", "K_b")
    return [
        replace(kernel, backward=True, added_elsewhere=kernel.name in added) for kernel in kernels
    ]


def _with_gate(kernels: list[Kernel]) -> list[Kernel]:
    """Kernels with those of the gate, as large as FFN0's, whose partial sums are added to them."""
    found = []
    for one in kernels:
        found.append(one)
        if one.name.startswith("FFN0"):
            gate = replace(one, name=one.name.replace("FFN0", "Gate"), all_reduce_bytes=0.0)
            found.append(replace(gate, added_elsewhere=one.kind == "gemm"))
    return found


def _updates(one: LayerSizes) -> list[Kernel]:
    """Updates of the weight matrices, m by n each, over all tokens."""
    shapes = {
        "FFN1_u": (one.inner, one.hidden),
        "FFN0_u": (one.queries, one.inner * one.hidden // one.queries),
        "Proj_u": (one.queries, one.hidden),
        **dict.fromkeys(("V_u", "K_u"), (one.keys, one.hidden)),
        "Q_u": (one.queries, one.hidden),
    }
    return [
        Kernel(name, "update", m, one.tokens, n, backward=True) for name, (m, n) in shapes.items()
    ]
