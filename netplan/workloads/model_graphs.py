"""The kernel graph of a transformer layer on one chip of a tensor-parallel group.

Forward 18 kernels, backward 17, and an update of each of the six weight matrices. Results that are
partial sums (Proj, FFN1 forward; FFN0_b, V_b backward) are summed over the group; V_b carries the
sum of the gradients of queries, keys and values, those of Q_b and K_b are added for free: four
all-reduces a layer, as published. Normalisation, dropout and residual sums see whole rows on every
chip. A gated feed-forward part has one more product, ``Gate``, whose backward and update are as
FFN0's (netplan's reading: none is published); fewer heads of keys and values make K
and V smaller.

Source: DFModel (Ko et al., ACM TACO 2024), Sec. III, and the input files of its public code.

The kernel graph of a recommendation model (DLRM) on one chip.

Rows of the tables lie on all chips. Each chip computes the layers for the samples of its own local
batch; at the last layer of the bottom stack every chip gets from every other the rows that its
samples look up, and sends their gradients back: two all-to-alls of

    tables pooled embedding / chips x local batch x word bytes        a pair of chips

for which each chip reads from memory as much as it sends to all chips. Of rows that are summed up
before they are sent, a table's count once. Pairs that interact are multiplied between the stacks.
Weights of the layers are
the same on all chips; summing up their gradients is left out, as in the paper: a few MB, once for
many micro-batches.

Source: DFModel (Ko et al., ACM TACO 2024), Sec. VI, and the input files of its public code.

The kernel graph of a Fourier transform on one chip.

n points lie as a square of sqrt(n) x sqrt(n): transform the columns, transpose, multiply by the
twiddle factors, transform the rows, transpose. That are 5 n log2(n) FLOP in two equal kernels on
the vector units, each of which reads and writes the chip's points (a transpose needs all of them,
so that nothing passes on in pieces), and after each of them an all-to-all of n word / chips^2 bytes
a pair of chips.

The published generator of DFModel (Ko et al., ACM TACO 2024, Sec. VI) is not stored anywhere: this
is netplan's definition.
"""

from itertools import pairwise
from math import log2
from typing import NamedTuple

from netplan.errors import InputError
from netplan.records import replace
from netplan.workloads.families import FLOPS_PER_POINT, FourierModel, RecommendationModel
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
    gate = [replace(kernel, name="Gate") for kernel in forward if kernel.name == "FFN0"]
    if model.gated_ffn:
        forward.insert([kernel.name for kernel in forward].index("GeLU"), *gate)
        edges += " LN2-Gate Gate-GeLU"
    if direction != "forward":
        updates = _updates(sizes)
        edges = f"{edges} {BACKWARD_EDGES} {UPDATE_EDGES}"
        if model.gated_ffn:
            back, updates = _with_gate(back), _with_gate(updates)
            edges += f" {GATE_EDGES}"
        kernels = [*forward, *back, *updates]
        if again:
            scores = [kernel for kernel in forward if kernel.name in SCORES]
            repeated = [replace(score, name=f"{score.name}_r", backward=True) for score in scores]
            kernels[len(forward) : len(forward)] = repeated
            edges = f"{edges.replace('Drop1-AV_b2', 'Drop1_r-AV_b2')} {SCORE_EDGES}"
    else:
        kernels = forward
    pairs = (edge.partition("-") for edge in edges.split())
    return KernelGraph.of(kernels, ((first, second) for first, _, second in pairs))


def divides(model: Model, tensor: int) -> bool:
    """Whether heads and columns divide by so many chips."""
    return all(number % tensor == 0 for _, number in _divided(model))


def _divided(model: Model) -> tuple[tuple[str, int], ...]:
    """What the chips of a tensor group share, by key."""
    shared = ("heads", model.heads), ("kv_heads", model.key_heads)
    return *shared, ("ffn_size", model.inner_size)


def layer_sizes(model: Model, tensor: int, *, uneven: bool = False) -> LayerSizes:
    """Sizes on one of so many chips, of uneven ones the fullest.

    Raises
    ------
    InputError
        If heads or columns do not divide by the chips and have to.
    """
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
        keys=-(-model.key_heads // tensor) * head,
        inner=-(-model.inner_size // tensor),
        maps=tokens * heads,
        head=head,
        tokens=tokens,
    )


def _simd(name: str, width: int, sizes: LayerSizes) -> Kernel:
    norm = name.startswith("LN")
    return Kernel(name, "simd", width, 1, sizes.tokens, sizes.rows(width), whole_rows=norm)


def _gemm(name: str, m: int, k: int, sizes: LayerSizes, *, weights: bool = True) -> Kernel:
    held = ELEMENT_BYTES * m * k if weights else 0.0
    return Kernel(name, "gemm", m, k, sizes.tokens, sizes.rows(m), held)


def _summed(kernel: Kernel) -> Kernel:
    """A kernel whose results are partial sums over the group."""
    return replace(kernel, all_reduce_bytes=kernel.output_bytes)


def _forward(sizes: LayerSizes) -> list[Kernel]:
    hidden, maps = sizes.hidden, sizes.maps
    return [
        *(_simd(name, hidden, sizes) for name in ("AddPrev", "LN1")),
        _gemm("Q", sizes.queries, hidden, sizes),
        *(_gemm(name, sizes.keys, hidden, sizes) for name in ("K", "V")),
        _gemm("QK", maps, sizes.head, sizes, weights=False),
        *(_simd(name, maps, sizes) for name in ("Softmax", "Drop1")),
        _gemm("AV", sizes.queries, sizes.tokens, sizes, weights=False),
        _summed(_gemm("Proj", hidden, sizes.queries, sizes)),
        *(_simd(name, hidden, sizes) for name in ("Drop2", "Add1", "LN2")),
        _gemm("FFN0", sizes.inner, hidden, sizes),
        _simd("GeLU", sizes.inner, sizes),
        _summed(_gemm("FFN1", hidden, sizes.inner, sizes)),
        *(_simd(name, hidden, sizes) for name in ("Drop3", "Add2")),
    ]


def _backward(sizes: LayerSizes) -> list[Kernel]:
    hidden, maps, queries, tokens = sizes.hidden, sizes.maps, sizes.queries, sizes.tokens
    kernels = [
        *(_simd(name, hidden, sizes) for name in ("Loss_b", "Drop3_b")),
        _gemm("FFN1_b", sizes.inner, hidden, sizes),
        _simd("GeLU_b", sizes.inner, sizes),
        _summed(_gemm("FFN0_b", hidden, sizes.inner, sizes)),
        *(_simd(name, hidden, sizes) for name in ("LN2_b", "Drop2_b")),
        _gemm("Proj_b", queries, hidden, sizes),
        _gemm("AV_b1", maps, sizes.head, sizes, weights=False),
        _gemm("AV_b2", queries, tokens, sizes, weights=False),
        _summed(_gemm("V_b", hidden, sizes.keys, sizes)),
        *(_simd(name, maps, sizes) for name in ("Drop1_b", "Softmax_b")),
        *(_gemm(name, queries, tokens, sizes, weights=False) for name in ("QK_b1", "QK_b2")),
        _gemm("Q_b", queries, hidden, sizes),
        _gemm("K_b", sizes.keys, hidden, sizes),
    ]
    added = ("Q_b", "K_b")
    return [
        replace(kernel, backward=True, added_elsewhere=kernel.name in added) for kernel in kernels
    ]


def _with_gate(kernels: list[Kernel]) -> list[Kernel]:
    """Kernels with those of the gate, as large as FFN0's, whose partial sums are added to them."""
    gated = []
    for kernel in kernels:
        gated.append(kernel)
        if kernel.name.startswith("FFN0"):
            gate = replace(kernel, name=kernel.name.replace("FFN0", "Gate"), all_reduce_bytes=0.0)
            gated.append(replace(gate, added_elsewhere=kernel.kind == "gemm"))
    return gated


def _updates(sizes: LayerSizes) -> list[Kernel]:
    """Updates of the weight matrices, m by n each, over all tokens."""
    shapes = {
        "FFN1_u": (sizes.inner, sizes.hidden),
        "FFN0_u": (sizes.queries, sizes.inner * sizes.hidden // sizes.queries),
        "Proj_u": (sizes.queries, sizes.hidden),
        **dict.fromkeys(("V_u", "K_u"), (sizes.keys, sizes.hidden)),
        "Q_u": (sizes.queries, sizes.hidden),
    }
    return [
        Kernel(name, "update", m, sizes.tokens, n, backward=True) for name, (m, n) in shapes.items()
    ]


def recommendation_graph(model: RecommendationModel, chips: int) -> KernelGraph:
    """One local batch on one of so many chips: forward, backward and updates of every layer.

    Parameters
    ----------
    model
        The model.
    chips
        Chips that share the tables [1].

    Examples
    --------
    >>> from netplan.workloads.models import WORKLOADS
    >>> graph = recommendation_graph(WORKLOADS.load("dlrm-12t"), chips=128)
    >>> graph.count, len(graph.source), float(graph.column("all_to_all_bytes").max())
    (21, 24, 4096000.0)
    """
    products = (*model.bottom_products, *model.top_products)
    kernels = [*_products(model, chips, "f"), *_products(model, chips, "b")]
    kernels += [
        Kernel(f"L{index}_u", "update", width, model.batch, columns, backward=True)
        for index, (width, columns) in enumerate(products)
    ]
    order = [f"L{index}" for index in range(model.layers)]
    if model.pairs:
        order.insert(len(model.bottom_products), "pairs")
        kernels += [_pairs(model, "f"), _pairs(model, "b")]
    edges = [(f"{before}_f", f"{after}_f") for before, after in pairwise(order)]
    edges += [(f"{after}_b", f"{before}_b") for before, after in pairwise(order)]
    updated = [(before, after) for before, after in pairwise(order) if after != "pairs"]
    edges += [(f"{before}_f", f"{after}_u") for before, after in updated]
    updated = [(before, after) for before, after in pairwise(order) if before != "pairs"]
    edges += [(f"{after}_b", f"{before}_u") for before, after in updated]
    return KernelGraph.of(kernels, edges)


def _pairs(model: RecommendationModel, mark: str) -> Kernel:
    """Products of all pairs of vectors of a sample, or both of their gradients."""
    runs = model.batch if mark == "f" else 2 * model.batch
    result = (model.pairs if mark == "f" else (model.tables + 1) * model.embedding) * model.batch
    return Kernel(
        *(f"pairs_{mark}", "gemm", model.pairs, model.embedding, runs),
        output_bytes=ELEMENT_BYTES * result,
        backward=mark == "b",
    )


def _products(model: RecommendationModel, chips: int, mark: str) -> list[Kernel]:
    """Products of all layers in one direction, the exchange at the last of the bottom stack."""
    batch, bottom = model.batch, len(model.bottom_products)
    sent = model.sent_bytes / chips * batch  # to each other chip for its lookups, one way
    read = chips * (model.sample_bytes / chips * batch)
    products = []
    for index, (width, columns) in enumerate((*model.bottom_products, *model.top_products)):
        # Gradients of the inputs have their size, and are products of the results' gradients.
        rows, inner = (columns, width) if mark == "f" else (width, columns)
        exchanges = index == bottom - 1
        products.append(
            Kernel(
                *(f"L{index}_{mark}", "gemm", rows, inner, batch),
                output_bytes=ELEMENT_BYTES * rows * batch,
                weight_bytes=ELEMENT_BYTES * width * columns,
                all_to_all_bytes=sent if exchanges else 0.0,
                read_bytes=read if exchanges else 0.0,
                backward=mark == "b",
            )
        )
    return products


def fourier_graph(model: FourierModel, chips: int) -> KernelGraph:
    """Both halves of a transform on one of so many chips.

    Raises
    ------
    InputError
        If the side of the square does not divide by the chips.

    Examples
    --------
    2^40 points on 1,024 chips: 5 x 40 x 2^30 FLOP, 8 MiB a pair, twice.

    >>> from netplan.workloads.models import WORKLOADS
    >>> graph = fourier_graph(WORKLOADS.load("fft-1t"), chips=1024)
    >>> float(graph.flops.sum() / 2**30), graph.column("all_to_all_bytes") / 2**20
    (200.0, array([8., 8.]))
    """
    side, points = model.side, float(model.side) ** 2
    if side % chips:
        raise InputError(
            f"{model.name}: {side:,} rows and columns do not divide by {chips:,} chips: give a"
            f" divisor of {side:,}"
        )
    flops = FLOPS_PER_POINT / 2 * log2(points) * points / chips
    held = points * model.word_bytes / chips
    halves = [
        Kernel(
            *(name, "simd", round(flops / (side // chips)), 1, side // chips),
            all_to_all_bytes=held / chips,
            outside_bytes=2 * held,  # in and out
        )
        for name in ("columns", "rows")
    ]
    return KernelGraph.of(halves, [("columns", "rows")])
