"""The kernel graph of a recommendation model (DLRM) on one chip.

Rows of the tables lie on all chips. Each chip computes the layers for the samples of its own local
batch; at the last layer of the bottom stack every chip gets from every other the rows that its
samples look up, and sends their gradients back: two all-to-alls of

    tables pooled embedding / chips x local batch x word bytes        a pair of chips

for which each chip reads from memory as much as it sends to all chips. Weights of the layers are
the same on all chips; summing up their gradients is left out, as in the paper: a few MB, once for
many micro-batches.

Source: DFModel (Ko et al., ACM TACO 2024), Sec. VI, and the input files of its public code.
"""

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
    inner = range(model.layers - 1)
    edges = [(f"L{at}_f", f"L{at + 1}_f") for at in inner]
    edges += [(f"L{at + 1}_b", f"L{at}_b") for at in inner]
    edges += [(f"L{at}_f", f"L{at + 1}_u") for at in inner]
    edges += [(f"L{at + 1}_b", f"L{at}_u") for at in inner]
    kernels = [*_products(model, chips, "f"), *_products(model, chips, "b")]
    kernels += [
        Kernel(f"L{at}_u", "update", model.width, model.batch, model.width, backward=True)
        for at in range(model.layers)
    ]
    return KernelGraph.of(kernels, edges)


def _products(model: RecommendationModel, chips: int, mark: str) -> list[Kernel]:
    """Products of all layers in one direction, the exchange at the last of the bottom stack."""
    width, batch = model.width, model.batch
    sends = [0.0] * model.layers
    sends[model.bottom_layers - 1] = model.exchange_bytes(chips)
    return [
        Kernel(
            *(f"L{at}_{mark}", "gemm", width, width, batch),
            output_bytes=ELEMENT_BYTES * width * batch,
            weight_bytes=ELEMENT_BYTES * width * width,
            all_to_all_bytes=each,
            read_bytes=chips * each,
            backward=mark == "b",
        )
        for at, each in enumerate(sends)
    ]
