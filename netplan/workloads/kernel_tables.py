"""Tables of measured kernels, interpolated over the closed forms of `netplan.workloads.kernels`.

A closed form f(x) of three numbers knows how a time grows, a table of measured times what it is at
some sizes. Of a point x at or between them

    time = f(x) exp(r(x)),  r = ln(table / f) at the points of the table, without corrections

so that the points themselves are met, and outside of them the form extrapolates with the r of the
edge: every size is clamped to those of the table before r is taken.

================  ==========================  =====================================================
kernel            rows of the same            r between points
================  ==========================  =====================================================
products          precision                   linear in ln m; over (ln n, ln k) the mean of the four
                                              nearest by 1 / (d + 0.001)^2, d their distance
routed experts    stack, dtype, distribution  linear in ln tokens; the same mean over the logarithms
                  of tokens, shape of the     of inter / tensor and experts / expert
                  layer
the same, others  the same, of any shape      tokens become tokens x top_k / experts
latent attention  format of the cache         at batches and contexts of the table the mean of the
of one new token                              six nearest in the logarithms of batch, context and
                                              heads by 1 / (d + 0.001)^3
================  ==========================  =====================================================

More rows of a product, more tokens, or more of a batch or context take no less time. Products and
experts lie between the running maxima over the table's columns to their left and to their right.
Latent attention is linear between running maxima over batches and contexts, in all logarithms: six
nearest points, which change from place to place, would make it fall now and then.

A table is a CSV file, compressed or not, in `traffic/kernel-tables` of a catalog, named by the
`tables:` of an accelerator's file. Times are in microseconds; cells may be empty. It is read when
it is asked for, as far as a key needs it, and kept.
"""

import re
import zlib
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from math import isnan, nan
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from netplan.arrays import Amount, Floats, Ints
from netplan.errors import CatalogError, InputError, one_line
from netplan.files import Version, reachable, read_bounded, text_of, version_of
from netplan.inputs.choices import Precision, TimeOrigin
from netplan.records import replace
from netplan.workloads import kernels
from netplan.workloads.accelerators import TABLES_FOLDER, Accelerator
from netplan.workloads.corrections import Corrections, entry_before
from netplan.workloads.measured_rates import MeasuredAttention, MeasuredExperts, MeasuredProduct
from netplan.workloads.operations import ExpertShape, Routing

Form = Callable[..., Floats]
LARGEST_FILE, LARGEST_TEXT = 1 << 22, 1 << 26
"""Size of a file, thirty times that of the largest shipped one, and of its text [B]."""
LARGEST_NUMBER = 1e12
TIME = "time_us"
MICROSECONDS = 1e6
CLOSE, FALLING = 1e-3, 2.0
"""Added to distances; power by which the weight of a point falls with its distance [1]."""
NEIGHBOURS = 4
FINER = 8
"""Columns in place of one by which times are made to rise [1]."""
LATENT_NEIGHBOURS, LATENT_FALLING = 6, 3.0
STACKS = ("sglang", "tensorrt-llm", "vllm")
"""Stacks whose experts stand in for those of another, in this order."""


class KernelColumns(NamedTuple):
    """Columns of a kind of table: what is equal in a row's key, sizes, letter before the last."""

    keys: tuple[str, ...]
    sizes: tuple[str, ...]
    letter: str = ""


PRODUCTS = KernelColumns(("dtype",), ("n", "k"), "m")
EXPERTS = KernelColumns(
    ("stack", "dtype", "distribution"),
    ("hidden", "inter", "top_k", "experts", "tensor", "expert"),
    "t",
)
LATENT = KernelColumns(("cache",), ("batch", "context", "heads"))


Measured = tuple[Floats, Floats, Floats]
"""Rows of a table with the same key.

Sizes of each, shape (rows, sizes) [1]; rows of a product, or tokens, of each column, a single 1
where a row has one time [1]; seconds, (rows, columns), not a number where a cell is empty [s].
"""


class File(NamedTuple):
    """A file and its version, which says whether it has changed."""

    path: Path
    version: Version


class Residuals(NamedTuple):
    """What forms leave of a table: r at its points.

    Parameters
    ----------
    points
        Logarithms of the sizes that are interpolated over, shape (rows, axes).
    steps
        Rows of a product, or tokens, of each column, shape (steps,) [1].
    values
        r, shape (rows, steps); of empty cells that of the cells beside them.
    moved
        What is added to the logarithm of a column before a row is looked up, shape (rows,).
    """

    points: Floats
    steps: Floats
    values: Floats
    moved: Floats

    def mean(self, near: "NearestPoints", sizes: Floats) -> Floats:
        """The r of so many rows or tokens at each place, in the mean of its nearest points."""
        logs = np.log(sizes)[:, None] + self.moved[near.rows]
        return np.asarray(
            (near.weights * _between(self.steps, self.values, near.rows, logs)).sum(axis=1)
        )


def _between(steps: Floats, values: Floats, rows: Ints, logs: Floats) -> Floats:
    """Values of some rows between columns, at logarithms that are clamped to those of the steps."""
    before, share = entry_before(np.log(steps), logs)
    low = values[rows, before]
    return low + share * (values[rows, before + 1] - low)


class NearestPoints(NamedTuple):
    """The nearest points of each place, shape (places, points), and their weights, 1 together."""

    rows: Ints
    weights: Floats

    def take(self, places: Ints) -> "NearestPoints":
        """Of some of the places."""
        return NearestPoints(self.rows[places], self.weights[places])


def nearest(points: Floats, places: Floats, count: int, falling: float) -> NearestPoints:
    """The nearest points of each place, places clamped to the box that holds all points.

    Parameters
    ----------
    points, places
        Shapes (rows, axes) and (places, axes).
    count
        How many count, if there are so many.
    falling
        A point at the distance d weighs 1 / (d + 0.001)^falling.

    Examples
    --------
    >>> mean = nearest(np.array([[0.0], [1.0], [5.0]]), np.array([[0.5], [-9.0]]), 2, 2.0)
    >>> mean.rows.tolist(), mean.weights.round(6).tolist()
    ([[0, 1], [0, 1]], [[0.5, 0.5], [0.999999, 1e-06]])
    """
    count = min(count, len(points))
    inside = np.clip(places, points.min(axis=0), points.max(axis=0))
    apart = np.zeros((len(inside), len(points)))
    for axis in range(points.shape[1]):
        apart += (inside[:, axis, None] - points[:, axis]) ** 2
    apart = np.sqrt(apart)
    rows = np.sort(np.argpartition(apart, count - 1, axis=1)[:, :count], axis=1)
    weights = (np.take_along_axis(apart, rows, axis=1) + CLOSE) ** -falling
    return NearestPoints(rows, weights / weights.sum(axis=1, keepdims=True))


def product_table_s(
    chip: Accelerator, precision: Precision, m: Floats, n: Floats, k: Floats
) -> Floats | None:
    """Products (m x k) (k x n) by the chip's table; None without rows of this precision [s].

    Examples
    --------
    Of fp8 on a B200 the table has 53 us at m = 1024, n = 8192, k = 8192.

    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> sizes = (np.array([float(size)]) for size in (1024, 8192, 8192))
    >>> (1e6 * product_table_s(ACCELERATORS.load("b200"), "fp8", *sizes)).round(2)
    array([53.])
    """
    residuals = product_residuals(chip, precision)
    if residuals is None:
        return None
    rates = kernels.product_rates(chip, precision)

    def form_s(rows: Floats, n_of: Floats, k_of: Floats) -> Floats:
        return np.asarray(kernels.product_form_s(rates, precision, rows, n_of, k_of))

    return _interpolated_s(residuals, form_s, m, (n, k))


def _interpolated_s(
    residuals: Residuals, form_s: Form, counts: Amount, pairs: tuple[Amount, Amount]
) -> Floats:
    """Times of so many rows or tokens where the nearest points have such pairs of sizes [s]."""
    counts, first, second = np.broadcast_arrays(counts, *pairs)
    distinct, which = np.unique(np.ravel(first) + 1j * np.ravel(second), return_inverse=True)

    def at_places_s(some: Floats, place: Ints) -> Floats:
        return form_s(some, distinct.real[place], distinct.imag[place])

    places = np.log(np.stack([distinct.real, distinct.imag], axis=1))
    mean = nearest(residuals.points, places, NEIGHBOURS, FALLING)
    seconds = _rising_s(residuals, mean, at_places_s, np.ravel(counts), which.ravel())
    return seconds.reshape(counts.shape)


def product_residuals(chip: Accelerator, precision: Precision) -> Residuals | None:
    """The r of all products of a chip's table in a precision; None without any.

    Examples
    --------
    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> product_residuals(ACCELERATORS.load("h200"), "fp8").values.shape
    (399, 11)
    """
    tables = chip.tables
    if tables is None or not tables.products:
        return None
    file = _file_of(tables.products)
    _, by_precision = _lines(file, PRODUCTS)
    if (precision,) not in by_precision:
        return None
    rates = kernels.product_rates(chip, precision)
    return _product_residuals(file, precision, _at_full_speed(rates, tables.speed))


def _rising_s(
    residuals: Residuals, near: NearestPoints, form_s: Form, sizes: Floats, which: Ints
) -> Floats:
    """Times of so many rows or tokens at some places each, none less than that of fewer [s].

    Between two columns, whatever form and r make of it, a time is none beyond those of both.
    """
    steps, places = residuals.steps, np.arange(len(near.rows))
    every, column = np.repeat(places, len(steps)), np.tile(steps, len(places))
    means = residuals.mean(near.take(every), column).reshape(len(places), len(steps))

    def plain_s(some: Floats, place: Ints) -> Floats:
        # A mean between two columns is that of both: of rows that are moved, too, lest they fall.
        return form_s(some, place) * np.exp(_between(steps, means, place, np.log(some)))

    finer = np.arange(FINER * (len(steps) - 1) + 1) / FINER
    columns = np.exp(np.interp(finer, np.arange(len(steps)), np.log(steps)))
    columns[::FINER] = steps
    every, column = np.repeat(places, len(columns)), np.tile(columns, len(places))
    columns_s = plain_s(column, every).reshape(len(places), len(columns))
    ends = np.pad(np.maximum.accumulate(columns_s, axis=1), ((0, 0), (1, 1)))
    ends[:, -1] = np.inf
    after = np.searchsorted(columns, sizes, side="right")
    return np.clip(plain_s(sizes, which), ends[which, after], ends[which, after + 1])


class ExpertKernel(NamedTuple):
    """Which kernel runs routed experts.

    Parameters
    ----------
    stack, dtype, distribution
        Key of its rows: whose kernel, of which weights, how tokens lie on experts.
    compute, weight_bytes
        What its products are computed in, and bytes of a weight [B].
    """

    stack: str
    dtype: str
    distribution: str
    compute: Precision
    weight_bytes: float


def expert_table_s(
    chip: Accelerator, kernel: ExpertKernel, tokens: Floats, shape: ExpertShape
) -> tuple[Floats, TimeOrigin] | None:
    """Routed experts of one GPU by the chip's table, and what of it; None if it has no such [s].

    Rows of the stack and the shape count, else those of its other shapes, else other stacks'.

    Raises
    ------
    InputError
        If the table knows neither the stack nor the distribution of tokens.

    Examples
    --------
    DeepSeek-R1 on eight groups of B200, 1,024 tokens: the table has 470.3 us.

    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> kernel = ExpertKernel("vllm", "fp8-block", "power_law_1.01", "fp8", 1.0)
    >>> shape = ExpertShape(7168.0, 2048.0, 8.0, 256.0, np.array([1.0]), np.array([8.0]))
    >>> seconds, source = expert_table_s(
    ...     ACCELERATORS.load("b200"), kernel, np.array([1024.0]), shape)
    >>> (1e6 * seconds).round(1), source
    (array([470.3]), 'table')
    """
    tables = chip.tables
    if tables is None or not tables.experts:
        return None
    file = _file_of(tables.experts)
    _, known = _lines(file, EXPERTS)
    stacks, distributions = ({key[place] for key in known} for place in (0, 2))
    _check_key(file, "stack", kernel.stack, {*stacks, *STACKS})
    _check_key(file, "distribution", kernel.distribution, distributions)
    names = (kernel.stack, *(stack for stack in STACKS if stack != kernel.stack))
    for name in names:
        key = (name, kernel.dtype, kernel.distribution)
        if key in known:
            seconds, exact = _experts_s(chip, file, kernel._replace(stack=name), tokens, shape)
            of_its_own = exact and name == kernel.stack
            return seconds, "table" if of_its_own else "table-other-shape"
    return None


def _experts_s(
    chip: Accelerator, file: File, kernel: ExpertKernel, tokens: Floats, shape: ExpertShape
) -> tuple[Floats, bool]:
    """Routed experts by rows of the shape, or of all shapes; and whether of the shape [s]."""
    rates = kernels.expert_rates(chip, kernel.compute)
    speed = chip.tables.speed if chip.tables else 1.0
    sizes, residuals = _expert_residuals(file, kernel, _at_full_speed(rates, speed))
    layer = (shape.hidden, shape.inter, shape.top_k, shape.experts)
    same = (sizes[:, : len(layer)] == layer).all(axis=1)
    share = np.log(shape.top_k / shape.experts)
    chosen = np.flatnonzero(same) if same.any() else np.arange(len(sizes))
    residuals = Residuals(
        residuals.points[chosen],
        residuals.steps,
        residuals.values[chosen],
        np.zeros(len(chosen)) if same.any() else share - residuals.moved,
    )

    def form_s(some: Floats, inner: Floats, here: Floats) -> Floats:
        cut = replace(shape, tensor=shape.inter / inner, expert=shape.experts / here)
        return np.asarray(kernels.experts_form_s(rates, kernel.weight_bytes, some, cut, ROUTING))

    held = shape.experts / np.asarray(shape.expert)
    return _interpolated_s(residuals, form_s, tokens, (shape.inner, held)), bool(same.any())


class StoredNumbers(NamedTuple):
    """What is stored of a token: numbers of which keys and values are made, and of its place [1].

    Each takes ``number_bytes``.
    """

    rank: float
    rotary: float
    number_bytes: float

    def form_s(
        self, rates: MeasuredAttention, batch: Amount, context: Amount, heads: Amount
    ) -> Floats:
        """Time of latent attention to it at a batch, context and number of heads [s]."""
        sizes = (batch, context, heads, self.rank, self.rotary)
        return np.asarray(kernels.latent_form_s(rates, *sizes, kv_bytes=self.number_bytes))


def latent_table_s(
    chip: Accelerator,
    cache: str,
    batch: Amount,
    context: Amount,
    heads: Amount,
    kept: StoredNumbers,
) -> Floats | None:
    """Latent attention of one new token by the chip's table; None without rows of this cache [s].

    Parameters
    ----------
    chip
        The accelerator.
    cache
        Format of the cache, ``bfloat16`` or ``fp8``.
    batch, context, heads
        As of `netplan.workloads.kernels.latent_generation_time_s`.
    kept
        What of a token is stored.

    Examples
    --------
    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> sizes, kept = (128.0, 4096.0, 128.0), StoredNumbers(512.0, 64.0, 1.0)
    >>> float((1e6 * latent_table_s(ACCELERATORS.load("b200"), "fp8", *sizes, kept)).round(1))
    83.9
    """
    tables = chip.tables
    if tables is None or not tables.latent:
        return None
    file = _file_of(tables.latent)
    _, by_cache = _lines(file, LATENT)
    if (cache,) not in by_cache:
        return None
    rates = latent_rates(chip)
    batch, context, heads = np.broadcast_arrays(batch, context, heads)
    seconds = np.empty(batch.shape)
    for count in np.unique(heads):
        some = heads == count
        grid = _latent_grid(file, cache, float(count), kept, (rates, tables.speed))
        sizes = batch[some], context[some]
        edges = (np.exp(axis[[0, -1]]) for axis in grid.axes)
        first, second = (np.clip(size, *ends) for size, ends in zip(sizes, edges, strict=True))
        beyond = kept.form_s(rates, *sizes, count) / kept.form_s(rates, first, second, count)
        seconds[some] = grid.factor(*sizes) * beyond
    return seconds


def latent_rates(chip: Accelerator) -> MeasuredAttention:
    """Rates of latent attention of one new token: its own where the file has some."""
    measured = chip.measured
    return (
        measured.latent
        if measured and measured.latent
        else kernels.attention_rates(chip, "generation")
    )


ROUTING: Routing = "random"
"""Of experts by which forms count those that have any tokens, as served ones do."""


@lru_cache(maxsize=64)
def _product_residuals(file: File, precision: Precision, rates: MeasuredProduct) -> Residuals:
    """The r of all products of a precision."""
    sizes, steps, seconds = _rows(file, PRODUCTS, (precision,))
    n, k = sizes.T[:, :, None]
    form_s = np.asarray(kernels.product_form_s(rates, precision, steps, n, k))
    values = _filled(steps, seconds / form_s)
    return Residuals(np.log(sizes), steps, values, np.zeros(len(sizes)))


@lru_cache(maxsize=64)
def _expert_residuals(
    file: File, kernel: ExpertKernel, rates: MeasuredExperts
) -> tuple[Floats, Residuals]:
    """Sizes of all rows of a key, and r of them; what moves a row is ln (top_k / experts)."""
    key = kernel.stack, kernel.dtype, kernel.distribution
    sizes, steps, seconds = _rows(file, EXPERTS, key)
    hidden, inter, top_k, experts, tensor, expert = sizes.T[:, :, None]
    layers = ExpertShape(hidden, inter, top_k, experts, tensor, expert)
    form_s = np.asarray(kernels.experts_form_s(rates, kernel.weight_bytes, steps, layers, ROUTING))
    points = np.log(np.concatenate([inter / tensor, experts / expert], axis=1))
    moved = np.log(top_k / experts)[:, 0]
    return sizes, Residuals(points, steps, _filled(steps, seconds / form_s), moved)


@lru_cache(maxsize=256)
def _latent_grid(
    file: File,
    cache: str,
    heads: float,
    kept: StoredNumbers,
    rated: tuple[MeasuredAttention, float],
) -> Corrections:
    """Times of latent attention of so many heads at all batches and contexts of a table."""
    rates, speed = rated
    measured, *_ = _rows(file, LATENT, (cache,))
    batches, contexts = (np.unique(measured[:, axis]) for axis in range(2))
    if min(len(batches), len(contexts)) < 2:  # noqa: PLR2004 - ends of an axis
        raise CatalogError(
            f"{file.path}: {cache} has one batch or context: a table has two of each"
        )
    shape = len(batches), len(contexts)
    sizes = np.repeat(batches, shape[1]), np.tile(contexts, shape[0])
    places = np.log(np.stack([*sizes, np.full(len(sizes[0]), heads)], axis=1))
    near = nearest(np.log(measured), places, LATENT_NEIGHBOURS, LATENT_FALLING)
    values = _latent_residuals(file, cache, _at_full_speed(rates, speed), kept.number_bytes)
    factor = np.exp((near.weights * values[near.rows]).sum(axis=1))
    seconds = (kept.form_s(rates, *sizes, heads) * factor).reshape(shape)
    for axis in range(2):
        seconds = np.maximum.accumulate(seconds, axis=axis)
    return Corrections((np.log(batches), np.log(contexts)), np.log(seconds))


@lru_cache(maxsize=16)
def _latent_residuals(
    file: File, cache: str, rates: MeasuredAttention, number_bytes: float
) -> Floats:
    """The r of all latent attention by a format of the cache, shape (rows,)."""
    sizes, _, seconds = _rows(file, LATENT, (cache,))
    form_s = kernels.latent_form_s(rates, *sizes.T, kv_bytes=number_bytes)
    return np.log(seconds[:, 0] / form_s)


def _filled(steps: Floats, ratios: Floats) -> Floats:
    """The r of a table; of empty cells as between those beside them, or as the last one."""
    values, steps = np.log(ratios), np.log(steps)
    for row in np.flatnonzero(np.isnan(values).any(axis=1)):
        known = ~np.isnan(values[row])
        values[row] = np.interp(steps, steps[known], values[row, known])
    return values


RatesT = TypeVar("RatesT", MeasuredProduct, MeasuredExperts, MeasuredAttention)


def _at_full_speed(rates: RatesT, speed: float) -> RatesT:
    """Rates of a chip without the power cap under which it has such a share of its speed."""
    return rates.changed(peak_flops_per_s=rates.peak_flops_per_s / speed) if speed < 1 else rates


def _check_key(file: File, what: str, key: str, known: Collection[str]) -> None:
    if key not in known:
        raise InputError(
            f"{file.path} has no {what} {one_line(key)!r:.40}: measured kernels are there of"
            f" {', '.join(sorted(known))}; take one of them, or --kernels fitted"
        )


def _file_of(path: str) -> File:
    """A table's file as it is now."""
    place = reachable(Path(path))
    version = version_of(place)
    if version is None:
        names = sorted(file.name.removesuffix(".gz") for file in place.parent.glob("*.csv*"))
        known = ", ".join(name.removesuffix(".csv") for name in names) or "none"
        name = place.name.removesuffix(".gz").removesuffix(".csv")
        raise CatalogError(
            f"no table of kernels {one_line(name)!r:.60} in {TABLES_FOLDER} (there are {known}):"
            " name one of them in the accelerator's tables, or take --kernels fitted"
        )
    return File(place, version)


Lines = tuple[Floats, Mapping[tuple[str, ...], list[tuple[int, str]]]]
"""A table as text: its steps, and lines by their keys, each with its number."""


@lru_cache(maxsize=32)
def _lines(file: File, columns: KernelColumns) -> Lines:
    """Lines of a table; no number in them is read."""
    content = read_bounded(file.path, LARGEST_FILE, "thin the table out")
    if file.path.suffix == ".gz":
        content = _unpacked(file.path, content)
    header, *lines = text_of(file.path, content).splitlines() or [""]
    steps = _steps_of(file.path, columns, header)
    by_key: dict[tuple[str, ...], list[tuple[int, str]]] = {}
    count = len(columns.keys)
    for number, line in enumerate(lines, start=2):
        *key, rest = line.split(",", count)
        if len(key) < count:
            raise CatalogError(f"{file.path}:{number}: got {line!r:.60}: a row has {header!r:.120}")
        by_key.setdefault(tuple(key), []).append((number, rest))
    return steps, by_key


def _rows(file: File, columns: KernelColumns, key: tuple[str, ...]) -> Measured:
    """Rows of one key.

    Raises
    ------
    CatalogError
        If one has no sizes, or no time: with file and line.
    """
    steps, by_key = _lines(file, columns)
    count = len(columns.sizes)
    rows = []
    for number, rest in by_key[key]:
        try:
            row = [float(cell) if cell else nan for cell in rest.split(",")]
        except ValueError:
            row = []
        times = [time for time in row[count:] if not isnan(time)]
        sound = len(row) == count + len(steps) and times
        if not (sound and all(0 < value <= LARGEST_NUMBER for value in (*row[:count], *times))):
            raise CatalogError(
                f"{file.path}:{number}: got {rest!r:.60}: a row has {', '.join(columns.sizes)} and"
                f" {len(steps)} times in us, one of them at least, above 0 and at most"
                f" {LARGEST_NUMBER:g}"
            )
        rows.append(row)
    numbers = np.array(rows)
    return numbers[:, :count], steps, numbers[:, count:] / MICROSECONDS


def _unpacked(path: Path, content: bytes) -> bytes:
    """Content of a compressed file, of a bounded size."""
    reader = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)  # with the header of gzip
    try:
        text = reader.decompress(content, LARGEST_TEXT)
    except zlib.error:
        raise CatalogError(f"{path}: no gzip file: compress it again") from None
    if not reader.eof:
        raise CatalogError(
            f"{path}: cut short, or larger than {LARGEST_TEXT >> 20} MiB when unpacked: thin the"
            " table out"
        )
    return text


def _steps_of(path: Path, columns: KernelColumns, header: str) -> Floats:
    """Rows of a product, or tokens, of each column of a header; a 1 where it has one time."""
    names, fixed = header.split(","), [*columns.keys, *columns.sizes]
    steps = [
        re.fullmatch(f"{columns.letter}([1-9][0-9]{{0,9}})", name) for name in names[len(fixed) :]
    ]
    wanted = f"{columns.letter}1, {columns.letter}2 and so on" if columns.letter else TIME
    if columns.letter:
        numbers = [float(match[1]) for match in steps if match]
        good = len(numbers) == len(steps) > 1 and numbers == sorted(set(numbers))
    else:
        numbers, good = [1.0], names[len(fixed) :] == [TIME]
    if names[: len(fixed)] != fixed or not good:
        raise CatalogError(
            f"{path}:1: got columns {header!r:.120}: such a table has {','.join(fixed)}, and then"
            f" {wanted}"
        )
    return np.array(numbers)
