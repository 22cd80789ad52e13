"""The kernel graph of a recommendation model (DLRM) on one chip.

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
"""

from itertools import pairwise

from netplan.workloads.families import RecommendationModel
from netplan.workloads.kernel_graph import Kernel, KernelGraph
from netplan.workloads.operations import ELEMENT_BYTES


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
        Kernel(f"L{at}_u", "update", width, model.batch, columns, backward=True)
        for at, (width, columns) in enumerate(products)
    ]
    order = [f"L{at}" for at in range(model.layers)]
    if model.pairs:
        order.insert(len(model.bottom_products), "pairs")
        kernels += [_pairs(model, "f"), _pairs(model, "b")]
    edges = [(f"{one}_f", f"{two}_f") for one, two in pairwise(order)]
    edges += [(f"{two}_b", f"{one}_b") for one, two in pairwise(order)]
    updated = [(one, two) for one, two in pairwise(order) if two != "pairs"]
    edges += [(f"{one}_f", f"{two}_u") for one, two in updated]
    updated = [(one, two) for one, two in pairwise(order) if one != "pairs"]
    edges += [(f"{two}_b", f"{one}_u") for one, two in updated]
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
    sent, read = model.exchange_bytes(chips), chips * (model.sample_bytes / chips * batch)
    found = []
    for at, (width, columns) in enumerate((*model.bottom_products, *model.top_products)):
        # Gradients of the inputs have their size, and are products of the results' gradients.
        rows, inner = (columns, width) if mark == "f" else (width, columns)
        exchanges = at == bottom - 1
        found.append(
            Kernel(
                *(f"L{at}_{mark}", "gemm", rows, inner, batch),
                output_bytes=ELEMENT_BYTES * rows * batch,
                weight_bytes=ELEMENT_BYTES * width * columns,
                all_to_all_bytes=sent if exchanges else 0.0,
                read_bytes=read if exchanges else 0.0,
                backward=mark == "b",
            )
        )
    return found
