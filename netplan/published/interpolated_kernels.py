"""Tables of measured kernels against what serving makes of them.

Points of a table are met, as far as it does not fall with more rows or tokens; every second column,
left out, is met from those beside it; no time falls with rows or tokens; and chips that are nearly
alike take nearly as long.
"""

from collections.abc import Iterator

import numpy as np

from netplan.arrays import Floats
from netplan.inputs.choices import Precision
from netplan.published.checks import Check, check, claim
from netplan.units import PERCENT
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.kernel_tables import (
    ExpertKernel,
    Kept,
    expert_table_s,
    latent_table_s,
    product_residuals,
    product_table_s,
)
from netplan.workloads.kernels import product_form_s, product_rates
from netplan.workloads.operations import ExpertShape

SOURCE = "Tables of kernels, AIConfigurator 0.12.0 (NVIDIA, Apache-2.0)"
CHIPS = ("a100-80gb", "h100-80gb", "h200", "b200", "b300", "gb200", "gb300")
PRECISIONS: tuple[Precision, ...] = ("bf16", "fp8", "fp4")
MOST, NEARLY = 0.08, 0.10
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
        yield from _products(name)
    yield from _rising()
    yield _latent_step()


def _products(name: str) -> Iterator[Check]:
    """Points of a chip's products, and columns that were left out."""
    chip, missed, off = ACCELERATORS.load(name), list[Floats](), list[Floats]()
    for precision in PRECISIONS:
        residuals = product_residuals(chip, precision)
        if residuals is None:
            continue
        n, k = (size[:, None] for size in np.exp(residuals.points).T.round())
        rates = product_rates(chip, precision)
        form_s = np.asarray(product_form_s(rates, precision, residuals.steps, n, k))
        table_s = np.maximum.accumulate(form_s * np.exp(residuals.values), axis=1)
        taken_s = product_table_s(chip, precision, residuals.steps, n, k)
        missed.append(np.abs(taken_s / table_s - 1).ravel())
        off.append(np.abs(_left_out(residuals.steps, residuals.values)).ravel())
    largest, mean = float(np.concatenate(missed).max()), float(np.concatenate(off).mean())
    points, columns = (sum(map(np.size, some)) for some in (missed, off))
    yield check(
        f"{name}: largest error of {points:,} points of products",
        SOURCE,
        f"{PERCENT * MET:g} % or less",
        f"{PERCENT * largest:.1g} %",
        met=largest <= MET,
        gap=largest,
    )
    yield check(
        f"{name}: mean error of {columns:,} points, every second column left out",
        SOURCE,
        f"{PERCENT * MOST:g} % or less",
        f"{PERCENT * mean:.1f} %",
        "between columns up to four times apart every second one is left out here: more than"
        " interpolation adds",
        met=mean <= MOST,
        gap=mean,
    )


def _left_out(steps: Floats, values: Floats) -> Floats:
    """Relative errors of every second column by those beside it, the ends kept [1]."""
    odd = np.arange(1, len(steps) - 1, 2)
    logs = np.log(steps)
    share = (logs[odd] - logs[odd - 1]) / (logs[odd + 1] - logs[odd - 1])
    between = values[:, odd - 1] + share * (values[:, odd + 1] - values[:, odd - 1])
    off: Floats = np.expm1(between - values[:, odd])
    return off


def _rising() -> Iterator[Check]:
    """How often a time falls with rows of a product, or tokens of experts."""
    times = {"products": list[Floats](), "experts": list[Floats]()}
    for name in CHIPS:
        chip = ACCELERATORS.load(name)
        for precision in PRECISIONS:
            for n, k in ((1280.0, 8192.0), (7168.0, 3000.0), (100.0, 40000.0)):
                taken_s = product_table_s(chip, precision, RISING, np.array(n), np.array(k))
                times["products"] += [] if taken_s is None else [taken_s]
        for hidden, inter, top_k, experts in LAYERS:
            kernel = ExpertKernel("vllm", "bf16", "power_law_1.01", "bf16", 2.0)
            cut = (np.array(2.0), np.array(8.0))
            shape = ExpertShape(hidden, inter, top_k, experts, *cut)
            by_table = expert_table_s(chip, kernel, RISING, shape)
            times["experts"] += [] if by_table is None else [by_table[0]]
    for kind, rows in times.items():
        falls = sum(int((np.diff(row) < -1e-12 * row[1:]).sum()) for row in rows)
        what = "rows" if kind == "products" else "tokens"
        yield check(f"{kind}: times of {len(rows)} that fall with {what}", SOURCE, "0", f"{falls}")


def _latent_step() -> Check:
    """Latent attention of a step on GB200 over that on B200."""
    kept = Kept(512.0, 64.0, 1.0)
    ours, theirs = (
        latent_table_s(ACCELERATORS.load(name), "fp8", *LATENT_STEP, kept)
        for name in ("gb200", "b200")
    )
    ratio = float(ours / theirs) if ours is not None and theirs is not None else np.nan
    name, met = "latent attention of a step, gb200 over b200", bool(abs(ratio - 1) <= NEARLY)
    return claim(name, f"{ratio:.2f}", met=met, gap=ratio - 1)
