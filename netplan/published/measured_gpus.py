"""Kernels and collectives on GPUs, as measured and as timed by accelerators' and links' records.

*Kernels*: measured tables of AIConfigurator 0.12.0 (NVIDIA, Apache-2.0). The rates are fitted to
other points of the same tables, corrections to the products of a grid; what is checked are means of
the relative errors on shapes of transformer layers, on attention of usual sizes, and of generated
tokens and fused experts on every third shape or row, which fitted nothing.

*Collectives*: the same tables inside of one domain, on whose points the records are fitted in part;
nccl-tests of coreweave/nccl-tests and NVIDIA/nccl issue 1801 over several, on few of which they
are.

Tables of measured kernels against what serving makes of them.

Points of a table are met, as far as it does not fall with more rows or tokens; every second column,
left out, is met from those beside it; no time falls with rows or tokens; and chips that are nearly
alike take nearly as long.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

import numpy as np

from netplan.arrays import Bools, Floats
from netplan.inputs.choices import NetworkKind, Precision
from netplan.published.checks import Check, check, claim, order_kept, published
from netplan.records import replace
from netplan.traffic.gpu_group import GpuGroup, GroupKind
from netplan.units import PERCENT, si
from netplan.workloads import kernel_tables, kernels
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.measured_rates import ExchangeKind, ExchangePhase
from netplan.workloads.operations import ExpertShape

SOURCE = "Measured kernels, AIConfigurator 0.12.0 (NVIDIA, Apache-2.0)"
MOST = {
    "products": 0.07,
    "attention": 0.09,
    "small attention": 0.09,
    "generation": 0.20,
    "experts": 0.15,
    "exchange": 0.20,
}
"""Mean relative errors that stay below these, by kind [1]."""

LARGE_FLOPS, WIDE, LONG, MANY_HEADS, FULL_HEAD = 1e11, 1024, 1024, 8, 128
"""Large products and their least size; usual attention: tokens, heads of all sequences, head."""


ATTENTION_SIZES = ("batch", "context", "heads", "kv_heads", "head_size")
EXPERT_SHAPE = ("hidden", "inter", "top_k", "experts", "tensor", "expert", "products")

EXCHANGES: Mapping[str, ExchangeKind] = {
    "normal": "normal",
    "low-latency": "low-latency",
    "NVLinkTwoSided": "rack",
}
"""Kinds of exchange by the last word of the software that was measured."""


class Errors(NamedTuple):
    """Relative errors of one kind of kernel, what they are of, and measured times [s]."""

    kind: str
    what: str
    off: Floats
    taken_s: Floats

    @property
    def in_order(self) -> bool:
        """Whether kernels that take longer do so here."""
        return order_kept(self.taken_s, self.taken_s * (1 + self.off))


def kernel_checks() -> Iterator[Check]:
    """Mean errors by accelerator: products, attention, generated tokens, experts, exchanges."""
    for errors in (*_products(), *_attention(), *_experts(), *_exchanges()):
        most, mean = MOST[errors.kind], float(np.mean(np.abs(errors.off)))
        name = f"{errors.what}: mean error of {len(errors.off)}"
        expected, got = f"{100 * most:g} % or less", f"{100 * mean:.1f} %"
        yield check(name, SOURCE, expected, got, met=errors.in_order, gap=mean)


def _products() -> Iterator[Errors]:
    """Wide 16-bit products of any shape; large ones, and all with corrections, of transformers."""
    shapes: dict[str, list[tuple[Floats, Floats]]] = {}
    rows = published("measured-products")
    for (name, dtype), some in groupby(rows, key=lambda row: (row["accelerator"], row["dtype"])):
        points = list(some)
        m, n, k, taken_s = _columns(points, "m", "n", "k", "time_s")
        corrected = (
            np.asarray(kernels.product_time_s(name, dtype, m, n, k, corrections=True)) / taken_s - 1
        )
        used = np.asarray(kernels.product_time_s(name, dtype, m, n, k)) / taken_s - 1
        layers: Bools = np.array([row["use"] != "grid" for row in points])
        if dtype == "bf16":
            wide = (m >= WIDE) & (n >= WIDE) & (k >= WIDE)
            what = f"{name}, {dtype} products of 1,024 and more"
            yield Errors("products", what, used[wide], taken_s[wide])
        large = layers & (2 * m * n * k >= LARGE_FLOPS)
        what = f"{name}, {dtype} products of 1e11 FLOP and more"
        yield Errors("products", what, used[large], taken_s[large])
        shapes.setdefault(dtype, []).append((corrected[layers], taken_s[layers]))
    for dtype, errors in shapes.items():
        what = f"{len(errors)} accelerators, {dtype} products of transformers, corrected"
        yield Errors("products", what, *map(np.concatenate, zip(*errors, strict=True)))


def _attention() -> Iterator[Errors]:
    """Whole sequences with heads of 128, few of them apart, and tokens one by one."""
    rows = published("measured-attention")
    # Every third shape of all accelerators together: no table is fitted to it.
    held_out = {*sorted({_shape(row) for row in rows if row["phase"] == "generation"})[2::3]}
    for (name, phase), some in groupby(rows, key=lambda row: (row["accelerator"], row["phase"])):
        points = list(some)
        *sizes, taken_s = _columns(points, *ATTENTION_SIZES, "time_s")
        batch, context, heads, _, head_size = sizes
        if phase == "generation":
            off = np.asarray(kernels.generation_time_s(name, *sizes)) / taken_s - 1
            unseen = np.array([_shape(row) in held_out for row in points])
            what = f"{name}, attention of new tokens"
            yield Errors("generation", what, off[unseen], taken_s[unseen])
            continue
        off = np.asarray(kernels.attention_time_s(name, *sizes)) / taken_s - 1
        long = (context >= LONG) & (head_size == FULL_HEAD)
        few = batch * heads < MANY_HEADS
        for kind, some_of in (("attention", long & ~few), ("small attention", long & few)):
            yield Errors(kind, f"{name}, {kind}", off[some_of], taken_s[some_of])


def _shape(row: Mapping[str, str]) -> tuple[int, ...]:
    return tuple(int(row[key]) for key in ATTENTION_SIZES)


def _experts() -> Iterator[Errors]:
    """Fused experts; those that A100s divide among them apart."""
    rows = published("measured-experts")
    for (name, dtype), some in groupby(rows, key=lambda row: (row["accelerator"], row["dtype"])):
        tokens, *sizes, taken_s = _columns(list(some), "tokens", *EXPERT_SHAPE, "time_s")
        hidden, inter, top_k, experts, tensor, expert, products = sizes
        shape = ExpertShape(hidden, inter, top_k, experts, tensor, expert, products)
        off = np.asarray(kernels.fused_experts_time_s(name, dtype, tokens, shape)) / taken_s - 1
        what, whole = f"{name}, {dtype} fused experts", shape.expert == 1
        if name == "a100-80gb":
            yield Errors("experts", f"{what}, divided", off[~whole], taken_s[~whole])
            off, taken_s = off[whole], taken_s[whole]
        yield Errors("experts", what, off, taken_s)


def _exchanges() -> Iterator[Errors]:
    """Dispatch and combine of each kind of exchange."""
    errors_by_kind: dict[tuple[ExchangeKind, ExchangePhase], list[tuple[float, float]]] = {}
    for row in published("measured-expert-exchange"):
        kind = EXCHANGES[row["software"].rpartition(" ")[2]]
        phase: ExchangePhase = "dispatch" if row["phase"] == "dispatch" else "combine"
        hidden, top_k, gpus, nodes = (int(row[key]) for key in ("hidden", "top_k", "gpus", "nodes"))
        exchange = kernels.ExpertExchange(hidden, top_k, gpus, nodes, kind, row["dtype"])
        time_s = kernels.expert_exchange_s(
            row["accelerator"], phase, int(row["tokens_per_gpu"]), exchange
        )
        taken_s = float(row["time_s"])
        errors_by_kind.setdefault((kind, phase), []).append((float(time_s) / taken_s - 1, taken_s))
    for (kind, phase), errors in errors_by_kind.items():
        yield Errors("exchange", f"{phase} of experts, {kind}", *np.array(errors).T)


def _columns(rows: list[dict[str, str]], *names: str) -> list[Floats]:
    return [np.array([float(row[name]) for row in rows]) for name in names]


INSIDE = "Measured collectives, AIConfigurator 0.12.0 (NVIDIA, Apache-2.0)"
MEAN_ERROR, LARGEST_ERROR = 0.085, 0.25
"""Relative errors that mean and 95th percentile of an accelerator stay below [1]."""

HEADLINE = ("h100-80gb", "fp16", "8", "536870912")
"""The point by which in-switch reduction shows best: accelerator, type, GPUs, bytes."""

GITHUB = "https://github.com/"


def collective_checks() -> Iterator[Check]:
    """Errors of all measured points by accelerator, and every run over several domains."""
    rows = published("collectives")
    inside = [row for row in rows if "aiconfigurator" in row["source"]]
    for accelerator, some in groupby(inside, key=lambda row: row["accelerator"]):
        yield from _errors(accelerator, list(some))
    for row in rows:
        point = tuple(row[key] for key in ("accelerator", "dtype", "gpus", "message_bytes"))
        if row["collective"] == "all_reduce" and point == HEADLINE:
            yield from _points([row], INSIDE)
    for (address, _), some in groupby(rows[len(inside) :], lambda row: (row["source"], _way(row))):
        yield from _points(list(some), f"Measured collectives, {address.removeprefix(GITHUB)}")
    for kind, some in groupby(published("two-domain-allreduce"), lambda row: row["network_kind"]):
        yield from _between_two(kind, list(some))


class AllReduceShares(NamedTuple):
    """What holds of all_reduces between two servers on a kind of network, as shares [1]."""

    mean: float
    largest: float
    from_large: float
    in_bars: float


LARGE_BYTES = 2**26
BETWEEN_TWO: Mapping[str, AllReduceShares] = {
    "efa": AllReduceShares(0.081, 0.23, 0.06, 0.9),
    "tcpxo": AllReduceShares(0.081, 0.23, 0.12, 0.9),
}
"""Errors that the 15 sizes of EFA have at most, mean and largest, and those from 64 MiB on; what
lies in bars, which are half to twice the time of TCPXO."""


def _between_two(kind: str, rows: list[dict[str, str]]) -> Iterator[Check]:
    """All_reduces between two servers: mean and largest error, that of large ones, and bars."""
    held, first = BETWEEN_TWO[kind], rows[0]
    group = _group(first["accelerator"], int(first["gpus"]), int(first["gpus"]) // 2)
    domain, network = group.levels
    network = replace(network, link_bytes_per_s=float(first["nic_bytes_per_s_per_gpu"]))
    made_of: NetworkKind = kind  # type: ignore[assignment]
    group = replace(group, levels=(domain, network)).as_found(made_of)
    data, taken_s = _columns(rows, "bytes", "time_s")
    times = group.times("all_reduce", data)
    off, order = np.abs(times.time_s / taken_s - 1), order_kept(taken_s, times.time_s)
    source = f"Measured collectives, {first['source'].removeprefix(GITHUB)}"
    what = f"all_reduce between two servers on {kind}"
    for name, error, most in (
        (f"mean error of {len(off)} sizes", off.mean(), held.mean),
        ("largest error", off.max(), held.largest),
        ("mean error from 64 MiB on", off[data >= LARGE_BYTES].mean(), held.from_large),
    ):
        expected, got = f"{100 * most:g} % or less", f"{100 * error:.1f} %"
        yield check(f"{what}: {name}", source, expected, got, met=order, gap=error)
    inside = float(((times.low_s <= taken_s) & (taken_s <= times.high_s)).mean())
    expected, got = f"{100 * held.in_bars:g} % or more", f"{100 * inside:.0f} %"
    short = inside / held.in_bars - 1 if inside < held.in_bars else None
    met = inside > 1 / 2  # bars that hold most sizes are the right order of width
    yield check(f"{what}: sizes in bars", source, expected, got, met=met, gap=short)


def _errors(accelerator: str, rows: list[dict[str, str]]) -> Iterator[Check]:
    """Mean and 95th percentile of the errors on one accelerator."""
    times_s: list[float] = []
    alike = ("collective", "dtype", "gpus")
    for _, some in groupby(rows, key=lambda row: [row[key] for key in alike]):
        times_s += _seconds(list(some)).tolist()
    (taken_s,) = _columns(rows, "time_s")
    off, order = np.abs(np.array(times_s) / taken_s - 1), order_kept(taken_s, times_s)
    for name, error, most in (
        ("mean", float(np.mean(off)), MEAN_ERROR),
        ("95th percentile", float(np.quantile(off, 0.95)), LARGEST_ERROR),
    ):
        named = f"{accelerator}: {name} of the error of {len(off)} collectives"
        expected, got = f"{100 * most:g} % or less", f"{100 * error:.1f} %"
        yield check(named, INSIDE, expected, got, met=order, gap=error)


def _points(rows: list[dict[str, str]], source: str) -> Iterator[Check]:
    """Measured times beside netplan's, and whether all of them stand in the same order."""
    times_s = np.concatenate([_seconds([row]) for row in rows])
    (taken,) = _columns(rows, "time_s")
    order = len(rows) == 1 or order_kept(taken, times_s)
    for row, taken_s, found_s in zip(rows, taken, times_s, strict=True):
        way = f" ({_way(row)})" if _way(row) else ""
        size = si(float(row["message_bytes"]), "B")
        name = f"{row['collective']}{way} of {size} on {row['gpus']} {row['accelerator']}"
        yield check(
            name,
            source,
            si(taken_s, "s", 4),
            si(found_s, "s", 4),
            met=order,
            gap=found_s / taken_s - 1,
        )


def _way(row: dict[str, str]) -> str:
    """Ring or tree, where a run says so."""
    last = row["software"].rpartition(" ")[2]
    return last if last in ("ring", "tree") else ""


def _seconds(rows: list[dict[str, str]]) -> Floats:
    """Netplan's times of rows that differ in their bytes alone [s]."""
    first = rows[0]
    gpus = int(first["gpus"])
    group = _group(first["accelerator"], gpus, gpus // int(first["domains"]))
    if first["dtype"] == "int8":  # which switches do not sum up
        links = replace(group.links, domain=replace(group.links.domain, in_switch=()))
        group = replace(group, links=links)
    kind: GroupKind = first["collective"]  # type: ignore[assignment]
    return group.times(kind, np.array([float(row["message_bytes"]) for row in rows])).time_s


@lru_cache
def _group(accelerator: str, gpus: int, domain_gpus: int) -> GpuGroup:
    return GpuGroup.of(ACCELERATORS.load(accelerator), gpus, domain_gpus)


TABLES = "Tables of kernels, AIConfigurator 0.12.0 (NVIDIA, Apache-2.0)"
CHIPS = ("a100-80gb", "h100-80gb", "h200", "b200", "b300", "gb200", "gb300")
PRECISIONS: tuple[Precision, ...] = ("bf16", "fp8", "fp4")
MOST_BETWEEN, NEARLY = 0.08, 0.10
"""Mean error of columns that were left out; apart of chips that are nearly alike [1]."""
MET = 1e-4
"""Relative error up to which a point is met: others beside it have weights of 1e-6 [1]."""
LATENT_STEP = (320.0, 5120.0, 128.0)
"""Batch, context and heads of a step of DeepSeek-R1 [1]."""
RISING = np.geomspace(1.0, 32768.0, 400)
"""Rows of a product, or tokens [1]."""
LAYERS = ((7168.0, 2048.0, 8.0, 256.0), (2880.0, 2880.0, 4.0, 128.0), (5120.0, 1536.0, 6.0, 160.0))
"""Hidden and inner size, experts of a token and of a layer: two of the tables, one of none [1]."""


def table_checks() -> Iterator[Check]:
    """Points, left-out columns and rising times of every chip with tables; one latent step."""
    for name in CHIPS:
        yield from _table_points(name)
    yield from _rising()
    yield _latent_step()


def _table_points(name: str) -> Iterator[Check]:
    """Points of a chip's products, and columns that were left out."""
    chip, missed, off = ACCELERATORS.load(name), list[Floats](), list[Floats]()
    for precision in PRECISIONS:
        residuals = kernel_tables.product_residuals(chip, precision)
        if residuals is None:
            continue
        n, k = (size[:, None] for size in np.exp(residuals.points).T.round())
        rates = kernels.product_rates(chip, precision)
        form_s = np.asarray(kernels.product_form_s(rates, precision, residuals.steps, n, k))
        table_s = np.maximum.accumulate(form_s * np.exp(residuals.values), axis=1)
        taken_s = kernel_tables.product_table_s(chip, precision, residuals.steps, n, k)
        missed.append(np.abs(taken_s / table_s - 1).ravel())
        odd = np.arange(1, len(residuals.steps) - 1, 2)
        logs = np.log(residuals.steps)
        share = (logs[odd] - logs[odd - 1]) / (logs[odd + 1] - logs[odd - 1])
        low, high = residuals.values[:, odd - 1], residuals.values[:, odd + 1]
        between = low + share * (high - low)
        off.append(np.abs(np.expm1(between - residuals.values[:, odd])).ravel())
    largest, mean = float(np.concatenate(missed).max()), float(np.concatenate(off).mean())
    points, columns = (sum(map(np.size, some)) for some in (missed, off))
    yield check(
        f"{name}: largest error of {points:,} points of products",
        TABLES,
        f"{PERCENT * MET:g} % or less",
        f"{PERCENT * largest:.1g} %",
        met=largest <= MET,
        gap=largest,
    )
    yield check(
        f"{name}: mean error of {columns:,} points, every second column left out",
        TABLES,
        f"{PERCENT * MOST_BETWEEN:g} % or less",
        f"{PERCENT * mean:.1f} %",
        met=mean <= MOST_BETWEEN,
        gap=mean,
    )


def _rising() -> Iterator[Check]:
    """How often a time falls with rows of a product, or tokens of experts."""
    times = {"products": list[Floats](), "experts": list[Floats]()}
    for name in CHIPS:
        chip = ACCELERATORS.load(name)
        for precision in PRECISIONS:
            for n, k in ((1280.0, 8192.0), (7168.0, 3000.0), (100.0, 40000.0)):
                taken_s = kernel_tables.product_table_s(
                    chip, precision, RISING, np.array(n), np.array(k)
                )
                times["products"] += [] if taken_s is None else [taken_s]
        for hidden, inter, top_k, experts in LAYERS:
            kernel = kernel_tables.ExpertKernel("vllm", "bf16", "power_law_1.01", "bf16", 2.0)
            cut = (np.array(2.0), np.array(8.0))
            shape = ExpertShape(hidden, inter, top_k, experts, *cut)
            by_table = kernel_tables.expert_table_s(chip, kernel, RISING, shape)
            times["experts"] += [] if by_table is None else [by_table[0]]
    for kind, rows in times.items():
        falls = sum(int((np.diff(row) < -1e-12 * row[1:]).sum()) for row in rows)
        what = "rows" if kind == "products" else "tokens"
        yield check(f"{kind}: times of {len(rows)} that fall with {what}", TABLES, "0", f"{falls}")


def _latent_step() -> Check:
    """Latent attention of a step on GB200 over that on B200."""
    kept = kernel_tables.StoredNumbers(512.0, 64.0, 1.0)
    ours, theirs = (
        kernel_tables.latent_table_s(ACCELERATORS.load(name), "fp8", *LATENT_STEP, kept)
        for name in ("gb200", "b200")
    )
    ratio = float(ours / theirs) if ours is not None and theirs is not None else np.nan
    name, met = "latent attention of a step, gb200 over b200", bool(abs(ratio - 1) <= NEARLY)
    return claim(name, f"{ratio:.2f}", met=met, gap=ratio - 1)
