"""Convolutions and pooling: windows that move over a feature map, and the kernels that they are.

A window of R x S places moves over H x W places of C channels, ``stride`` places at a time, and
comes to lie at

    Ho x Wo,   Ho = (H + 2 padding - R) // stride + 1,   and Wo likewise.

=============  ==================  ============  ===============  ==============================
operator       FLOP of a pass      input         weights          as a kernel, m x k times k x n
=============  ==================  ============  ===============  ==============================
convolution    2 Ho Wo R S C K     H W C         R S C K          ``gemm``, K x RSC times RSC x HoWo
pooling        2 Ho Wo R S C       H W C         none             ``simd``, 2RSC x HoWo
=============  ==================  ============  ===============  ==============================

Each place of the result has K numbers of a convolution, one a filter, and C of pooling. Forward
pass, gradients of inputs and gradients of weights take the same FLOPs each. Places of the result
take the part of tokens: who shares them shares the image, who shares m shares filters, who shares k
shares channels. Bytes are those of the feature maps: nothing is unrolled in memory.

Source: Fang et al., PALM (arXiv:2406.03868), Table III and Sec. IV-B; its public code counts the
places of the input, H W, where a window of stride 2 lies at a quarter of them. Left out: channels
in groups (depthwise convolutions), dilation, and rows that neighbours of a part of an image need
of it.
"""

from msgspec import Struct

from netplan.workloads.kernel_graph import Kernel

Pair = tuple[int, int]
"""Rows and columns [1]."""

VALUE_BYTES = 2.0
"""Inputs, weights and results are 16-bit numbers [B]."""


class Window(Struct, frozen=True):
    """A convolution, or pooling, of one sample.

    Parameters
    ----------
    size
        Rows and columns of the input, H and W [1].
    window
        Rows and columns that are looked at together, R and S [1].
    channels
        Numbers at each place of the input, C [1].
    filters
        Numbers at each place of a convolution's result, K; 0: it pools, each channel alone [1].
    stride
        Places from one window to the next [1].
    padding
        Rows and columns of zeros around the input; None: as many as leave its size at stride 1, of
        an even window one fewer [1].

    Examples
    --------
    The first convolution of ResNet-50: 118 million multiply-adds.

    >>> first = Window((224, 224), (7, 7), channels=3, filters=64, stride=2)
    >>> first.result, first.flops / 2, first.weights
    ((112, 112), 118013952.0, 9408)
    """

    size: Pair
    window: Pair
    channels: int
    filters: int = 0
    stride: int = 1
    padding: int | None = None

    @property
    def around(self) -> Pair:
        """Zeros before the first row and the first column [1]."""
        if self.padding is not None:
            return self.padding, self.padding
        return (self.window[0] - 1) // 2, (self.window[1] - 1) // 2

    @property
    def result(self) -> Pair:
        """Rows and columns of the result, Ho and Wo [1]."""
        rows, columns = (
            (size + 2 * zeros - window) // self.stride + 1
            for size, window, zeros in zip(self.size, self.window, self.around, strict=True)
        )
        return rows, columns

    @property
    def places(self) -> int:
        """Places of the result [1]."""
        return self.result[0] * self.result[1]

    @property
    def looked_at(self) -> int:
        """Numbers in one window, R S C [1]."""
        return self.window[0] * self.window[1] * self.channels

    @property
    def flops(self) -> float:
        """Work of one pass [FLOP]."""
        return 2.0 * self.places * self.looked_at * (self.filters or 1)

    @property
    def inputs(self) -> int:
        """Numbers of the input [1]."""
        return self.size[0] * self.size[1] * self.channels

    @property
    def weights(self) -> int:
        """Numbers of all filters [1]."""
        return self.looked_at * self.filters

    @property
    def results(self) -> int:
        """Numbers of the result [1]."""
        return self.places * (self.filters or self.channels)

    def kernel(self, name: str, *, filter_values: int = 0, from_outside: bool = False) -> Kernel:
        """The window as a kernel of a graph, 16 bits a number.

        Parameters
        ----------
        name
            What it is called.
        filter_values
            Numbers that a filter has beside its window: 1 for a bias, 2 for a batch norm [1].
        from_outside
            Whether no other kernel makes its input, which is then one of the whole graph.

        Examples
        --------
        >>> pool = Window((112, 112), (3, 3), channels=64, stride=2).kernel("pool")
        >>> pool.kind, pool.m, pool.n, pool.flops, pool.output_bytes
        ('simd', 1152, 3136, 3612672.0, 401408.0)
        """
        output_bytes = VALUE_BYTES * self.results
        outside_bytes = VALUE_BYTES * self.inputs if from_outside else 0.0
        if not self.filters:
            sizes = 2 * self.looked_at, 1, self.places
            return Kernel(name, "simd", *sizes, output_bytes, outside_bytes=outside_bytes)
        weight_bytes = VALUE_BYTES * (self.weights + filter_values * self.filters)
        sizes = self.filters, self.looked_at, self.places
        return Kernel(name, "gemm", *sizes, output_bytes, weight_bytes, outside_bytes=outside_bytes)
