"""Model files of family ``graph``: kernels, sliding windows among them, and who needs whose result.

Any workload that no other family has is such a file:

    family: graph
    chips: 4            # that share every kernel: sizes are those on one of them
    layers: 12          # how often the graph runs, one after the other
    batch: 64           # runs of all layers in one iteration
    kernels:
      - {name: up, kind: gemm, m: 4096, k: 1024, n: 2048, output_bytes: 16e6, weight_bytes: 8e6}
      - {name: down, kind: gemm, m: 1024, k: 4096, n: 2048, output_bytes: 4e6, weight_bytes: 8e6}
    edges:
      - [up, down]

Kernels and their keys are those of `netplan.workloads.kernel_graph`; convolutions and pooling have
sizes of their own, of which :class:`Window` makes all others:

      - {name: first, kind: conv, size: 224, window: 7, stride: 2, channels: 3, filters: 64}
      - {name: most, kind: pool, size: 112, window: 3, stride: 2, channels: 64}

Without ``chips`` sizes are whole, and any number of chips may share the graph, cut at the least
volume (`netplan.workloads.graph_sharding`).

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

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct
from msgspec.structs import fields

from netplan import records
from netplan.catalog import Record
from netplan.errors import InputError
from netplan.workloads.graph_sharding import shared_graph
from netplan.workloads.kernel_graph import Kernel, KernelGraph, KernelKind

MAX_KERNELS = 2048
"""Kernels of a graph at most: their partitions grow with the square of it [1]."""

MAX_CHIPS = 4096
"""Chips that share a graph at most [1]."""

MAX_EDGES = 16_384
"""Edges of a graph at most [1]."""

MAX_WORK = 1 << 61
"""Multiplications of one kernel at most: cycles are whole numbers of 64 bits [1]."""

SEPARATORS = (",", "..")
"""What stands between the kernels of ``--cut``."""

Name = Annotated[str, Meta(min_length=1, max_length=40)]

WINDOWS = ("conv", "pool")
"""Kinds of kernels that are windows on a feature map."""

OF_WINDOWS = ("size", "window", "channels", "filters", "stride", "padding", "filter_values")
OF_PRODUCTS = ("m", "k", "n", "output_bytes", "weight_bytes", "outside_bytes", "whole_rows")
"""Keys of windows, and those that follow from them; ``added_elsewhere`` is of gradients alone."""

MAX_PLACES = 65_536
"""Rows and columns of a feature map at most [1]."""


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


class GraphKernel(records.Entry, frozen=True, kw_only=True):
    """One kernel of a file, on one of the chips that share it.

    ``k`` of a ``simd`` kernel is 1; see `netplan.workloads.kernel_graph.Kernel` for the other keys.

    A ``conv`` or ``pool`` has a ``window`` of so many places that moves over an input of ``size``
    places and ``channels`` by ``stride``, both as one number or as rows and columns. A ``conv`` has
    ``filters`` and, in each of them, ``filter_values`` beside its window (1 for a bias, 2 for scale
    and shift of a batch norm). ``padding`` is zeros around the input: as many as leave its size at
    stride 1, if not said.
    """

    name: Name
    kind: Literal[KernelKind, "conv", "pool"]
    m: records.PositiveInt | None = None
    k: records.PositiveInt = 1
    n: records.PositiveInt | None = None
    size: records.PositiveInt | tuple[records.PositiveInt, ...] | None = None
    window: records.PositiveInt | tuple[records.PositiveInt, ...] | None = None
    channels: records.PositiveInt | None = None
    filters: records.PositiveInt | None = None
    stride: records.PositiveInt = 1
    padding: records.NonNegativeInt | None = None
    filter_values: records.NonNegativeInt = 0
    output_bytes: records.NonNegativeFloat = 0.0
    weight_bytes: records.NonNegativeFloat = 0.0
    all_reduce_bytes: records.NonNegativeFloat = 0.0
    all_to_all_bytes: records.NonNegativeFloat = 0.0
    outside_bytes: records.NonNegativeFloat = 0.0
    read_bytes: records.NonNegativeFloat = 0.0
    backward: bool = False
    whole_rows: bool = False
    added_elsewhere: bool = False

    @property
    def fault(self) -> tuple[str, str] | None:
        """Key and words of what is wrong with it."""
        if not self.name.isprintable() or any(separator in self.name for separator in SEPARATORS):
            return "name", f"name: got {self.name!r:.60}: it has no commas, '..' or control signs"
        return self._fault_of_keys or self._fault_of_sizes

    @property
    def _fault_of_keys(self) -> tuple[str, str] | None:
        """What is missing of its kind, or belongs to another one."""
        windowed = self.kind in WINDOWS
        of_others = OF_PRODUCTS if windowed else OF_WINDOWS
        usual = {field.name: field.default for field in fields(type(self))}
        for key in (*of_others, *(["filters", "filter_values"] if self.kind == "pool" else [])):
            if getattr(self, key) != usual[key]:
                return key, f"{self.name}.{key}: a {self.kind} kernel has no {key}: leave it out"
        wanted = ("size", "window", "channels") if windowed else ("m", "n")
        for key in (*wanted, *(["filters"] if self.kind == "conv" else [])):
            if getattr(self, key) is None:
                return key, f"{self.name}.{key} is missing: a {self.kind} kernel needs it"
        for key in ("size", "window"):
            places = getattr(self, key)
            if isinstance(places, tuple) and len(places) != len(("rows", "columns")):
                text = (
                    f"{self.name}.{key}: got {len(places):,} numbers: give one, or rows and columns"
                )
                return key, text
        return None

    @property
    def _fault_of_sizes(self) -> tuple[str, str] | None:
        """Sizes that contradict each other, or are too large."""
        if self.kind == "simd" and self.k != 1:
            return "k", f"{self.name}.k: got {self.k:,}: a simd kernel has no inner size: leave it"
        if self.kind in WINDOWS:
            moving = self.moving
            if max(moving.size) > MAX_PLACES:
                text = f"{self.name}.size: got {max(moving.size):,}: at most {MAX_PLACES:,} places"
                return "size", text
            zeros = zip(moving.size, moving.around, strict=True)
            padded = [size + 2 * around for size, around in zeros]
            if padded[0] < moving.window[0] or padded[1] < moving.window[1]:
                rows, columns = moving.window
                wide = " x ".join(f"{places:,}" for places in padded)
                text = (
                    f"{self.name}.window: {rows:,} x {columns:,} do not lie in the input, {wide}"
                    " with its padding: give a smaller window, or more padding"
                )
                return "window", text
        kernel = self.kernel(from_outside=False)
        if kernel.m * kernel.k * kernel.n > MAX_WORK:
            work = f"{kernel.m * kernel.k * kernel.n:.2g} multiplications, more than {MAX_WORK:.2g}"
            which = "its sizes" if self.kind in WINDOWS else "m x k x n"
            key = "size" if self.kind in WINDOWS else "m"
            return key, f"{self.name}: {which} are {work}: cut it in several kernels"
        return None

    @property
    def moving(self) -> Window:
        """The window of a ``conv`` or ``pool``."""
        return Window(
            _both(self.size),
            _both(self.window),
            channels=self.channels or 1,
            filters=self.filters or 0,
            stride=self.stride,
            padding=self.padding,
        )

    def kernel(self, *, from_outside: bool) -> Kernel:
        """As graphs take it; ``from_outside`` where no other kernel makes its input."""
        rest = {key: getattr(self, key) for key in REST}
        if self.kind in WINDOWS:
            window = self.moving.kernel(
                self.name, filter_values=self.filter_values, from_outside=from_outside
            )
            return records.replace(window, **rest)
        sizes = {key: getattr(self, key) for key in ("name", "kind", *OF_PRODUCTS)}
        return Kernel(**sizes, **rest)


REST = ("all_reduce_bytes", "all_to_all_bytes", "read_bytes", "backward", "added_elsewhere")
"""Keys that kernels of all kinds have."""


def _both(places: int | tuple[int, ...] | None) -> tuple[int, int]:
    """Rows and columns; one number for both."""
    rows, columns = places if isinstance(places, tuple) else (places or 1, places or 1)
    return rows, columns


class GraphModel(Record, frozen=True, kw_only=True):
    """A kernel graph, as its file describes it.

    ``chips`` share every kernel and its collectives; ``layers`` copies of the graph run one after
    the other, ``batch`` times in an iteration; ``edges`` are pairs of names, the result's kernel
    first. ``takes`` are the inputs of training questions that mean something for it, ``counts`` is
    what its batch counts.
    """

    takes: ClassVar[tuple[str, ...]] = (
        *("batch", "zero_stage", "interleave", "execution", "schedule", "inference"),
        *("optimizer", "offload", "memory_policy"),
    )
    counts: ClassVar[str] = "runs"

    family: Literal["graph"]
    chips: Annotated[int, Meta(gt=0, le=MAX_CHIPS)] = 1
    layers: records.LayerCount = 1
    batch: records.PositiveInt = 1
    kernels: Annotated[tuple[GraphKernel, ...], Meta(min_length=1, max_length=MAX_KERNELS)]
    edges: Annotated[tuple[tuple[str, str], ...], Meta(max_length=MAX_EDGES)] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def read(cls, data: object) -> "GraphModel":
        """The model of plain data; errors as `netplan.records.Entry.read`."""
        model = super().read(data)
        faults = [*_faults_of_kernels(model), *_faults_of_edges(model)]
        if faults:
            raise records.RecordError(faults)
        try:
            model.graph()
        except InputError as error:
            raise records.RecordError([records.Fault(("edges",), str(error))]) from None
        return model

    def graph(self, chips: int | None = None) -> KernelGraph:
        """The kernels of one layer on one of so many chips; as the file has them, if not said.

        Raises
        ------
        InputError
            If the file is for another number of chips, or cannot be shared out exactly.
        """
        if chips not in (None, self.chips) and self.chips > 1:
            raise InputError(
                f"{self.name} is cut for {self.chips} chips, not {chips}: leave chips out of its"
                " file and give whole sizes, and netplan cuts it"
            )
        fed = {target for _, target in self.edges}
        kernels = [kernel.kernel(from_outside=kernel.name not in fed) for kernel in self.kernels]
        graph = KernelGraph.of(kernels, self.edges)
        if chips is None or self.chips > 1:
            return graph
        return shared_graph(graph, chips, repeated=self.layers > 1)

    @property
    def open_degrees(self) -> tuple[str, ...]:
        """What a search of its plans leaves open."""
        return "tensor", "data", "pipeline", "microbatch", "interleave"

    @property
    def trains(self) -> bool:
        """Whether it has a backward pass or updates of weights, and so gradients."""
        return any(kernel.backward or kernel.kind == "update" for kernel in self.kernels)

    def batch_on(self, gpus: int) -> int:  # noqa: ARG002 - of other families it grows with them
        """Runs of one iteration where none are asked for [1]."""
        return self.batch

    def flops(self, batch: int) -> float:
        """Work of one iteration [FLOP]."""
        return float(self.graph().flops.sum()) * self.chips * self.layers * batch


def _faults_of_kernels(model: GraphModel) -> Iterator[records.Fault]:
    """Names that stand twice, and sizes that no kernel has."""
    count = Counter(kernel.name for kernel in model.kernels)
    for index, kernel in enumerate(model.kernels):
        fault = kernel.fault
        if fault:
            yield records.Fault(("kernels", index, fault[0]), fault[1])
        if count[kernel.name] > 1:
            text = (
                f"{count[kernel.name]} kernels are called {kernel.name!r}: give each its own name"
            )
            yield records.Fault(("kernels", index, "name"), text)


def _faults_of_edges(model: GraphModel) -> Iterator[records.Fault]:
    """Ends that are no kernels, edges that stand twice, results that go backward in time."""
    late = {kernel.name: kernel.backward for kernel in model.kernels}
    count = Counter(model.edges)
    for index, (source, target) in enumerate(model.edges):
        for end, name in enumerate((source, target)):
            if name not in late:
                text = f"edges: {name!r:.60} is no kernel of the graph"
                yield records.Fault(("edges", index, end), text)
        if late.get(source) and late.get(target) is False:
            text = f"edges: {target} runs forward and needs {source}, which runs backward"
            yield records.Fault(("edges", index), text)
        if count[source, target] > 1:
            yield records.Fault(
                ("edges", index), f"edges: {source} to {target} stands more than once"
            )
