"""The kernel graph of a Fourier transform on one chip.

n points lie as a square of sqrt(n) x sqrt(n): transform the columns, transpose, multiply by the
twiddle factors, transform the rows, transpose. That are 5 n log2(n) FLOP in two equal kernels on
the vector units, each of which reads and writes the chip's points (a transpose needs all of them,
so that nothing passes on in pieces), and after each of them an all-to-all of n word / chips^2 bytes
a pair of chips.

The published generator of DFModel (Ko et al., ACM TACO 2024, Sec. VI) is not stored anywhere: this
is netplan's definition.
"""

from math import log2

from netplan.errors import InputError
from netplan.workloads.families import FLOPS_PER_POINT, FourierModel
from netplan.workloads.kernel_graph import Kernel, KernelGraph


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
