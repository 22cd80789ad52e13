"""Fits of measured products and collectives: the forms of one GPU, one link, around known values.

Products of one precision have latency, efficiency and share of the memory's bandwidth
(`netplan.workloads.kernels`); where a table corrects them, the fitted form is corrected
by the same table. Collectives of one kind have the protocols of `netplan.traffic.measured`, and an
all_reduce the reduction inside switches. What the rows say little about stays what the files have.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from netplan.arrays import Floats
from netplan.calibration import measurements
from netplan.calibration.fit import Fitted, Measurements, Priors, Rows, fit_rows
from netplan.calibration.runs import Calibration
from netplan.errors import InputError
from netplan.inputs.choices import Precision
from netplan.traffic.gpu_group import bus_factor
from netplan.traffic.measured import LevelUse, regimes
from netplan.traffic.measured_links import InSwitch, MeasuredCollective, MeasuredLink, Protocol
from netplan.workloads.accelerators import Accelerator
from netplan.workloads.corrections import corrections_of
from netplan.workloads.kernels import RESULT_BYTES, product_parts_s, product_rates
from netplan.workloads.measured_rates import MeasuredProduct, pooled, with_rates
from netplan.workloads.operations import CollectiveKind
from netplan.workloads.precision import ALIASES, NUMBER_BYTES, precision_named

LEAST_ROWS = 6
"""Measurements of one kind that a fit takes at least [1]."""

HOST_GPUS = 8
"""Largest HB domain that is one host; larger ones hold several [GPUs]."""

PRODUCT_COLUMNS = (
    measurements.CsvColumn("dtype", measurements.one_of(*NUMBER_BYTES, *ALIASES), needed=True),
    *(measurements.CsvColumn(size, measurements.read_integer, needed=True) for size in "mnk"),
    measurements.CsvColumn("time_s", measurements.positive, needed=True),
)
PRODUCT_EXAMPLES = (
    "bf16,16,1024,1024,5.065e-06",
    "bf16,16,4096,8192,3.056e-05",
    "bf16,256,4096,1024,9.207e-06",
    "bf16,256,14336,8192,0.000134",
    "bf16,2048,4096,8192,0.0002063",
    "bf16,2048,14336,8192,0.0007073",
)
"""Rows of `examples/own-cluster/gemm.csv`: as many as a fit takes."""
PRODUCT_KEYS = ("kernel_latency_s", "efficiency", "memory_efficiency")
REDUCED_IN_SWITCH = ("half", "bfloat16", "float")
"""Types of nccl-tests that switches sum up: of 16 and 32 bits."""

PartT = TypeVar("PartT", Protocol, InSwitch)
Values = Mapping[str, Floats]
"""Numbers by key, each of a shape (..., 1)."""


def fit_products(
    paths: Iterable[Path], accelerator: Accelerator, calibration: Calibration
) -> dict[Precision, Fitted]:
    """Fits of the products in tables, one a precision.

    Raises
    ------
    CatalogError
        If a file is no such table.
    InputError
        If a precision has too few rows, or the accelerator does not know it.
    """
    lines = [
        line for path in paths for line in measurements.read_rows(path, PRODUCT_COLUMNS, "gemm")
    ]
    named: dict[Precision, list[measurements.Line]] = {}
    for line in lines:
        named.setdefault(precision_named(line.values["dtype"]), []).append(line)
    return {
        dtype: _fit_product(dtype, rows, accelerator, calibration) for dtype, rows in named.items()
    }


def require_rows(what: str, count: int) -> None:
    """Refuse fewer measurements than a fit takes."""
    if count < LEAST_ROWS:
        given = f"{count} measurement{'s' if count > 1 else ''}"
        raise InputError(f"{what}: {given}, a fit takes {LEAST_ROWS} or more: measure further ones")


def starting_rates(accelerator: Accelerator, dtype: Precision) -> MeasuredProduct:
    """Rates with which a fit of products begins: the file's, or medians of other GPUs.

    Raises
    ------
    InputError
        If nothing says how fast products of a narrow precision could be.
    """
    known = accelerator.measured.products if accelerator.measured else {}
    if dtype == "bf16" or dtype in known:
        return product_rates(accelerator, dtype)
    if dtype not in accelerator.narrow_flops_per_s:
        raise InputError(
            f"{accelerator.name} computes no {dtype}, as far as its file says: give"
            f" --set accelerator.narrow_flops_per_s.{dtype}"
        )
    peak = accelerator.narrow_flops_per_s[dtype]
    memory = accelerator.memory_bytes_per_s
    return with_rates(MeasuredProduct, pooled().products, peak, memory).changed(combine="sum")


def _fit_product(
    dtype: Precision,
    lines: Sequence[measurements.Line],
    accelerator: Accelerator,
    calibration: Calibration,
) -> Fitted:
    require_rows(f"{dtype} products", len(lines))
    base = starting_rates(accelerator, dtype)
    m, n, k, seconds = (
        np.array([line.values[column] for line in lines]) for column in ("m", "n", "k", "time_s")
    )
    flops = 2.0 * m * n * k
    moved_bytes = NUMBER_BYTES[dtype] * (m * k + k * n) + RESULT_BYTES * (m * n)
    factor = np.ones_like(m, dtype=np.float64)
    table = accelerator.measured.corrections if accelerator.measured else ""
    if dtype != "bf16" and table and dtype in corrections_of(Path(table)):
        factor = np.asarray(corrections_of(Path(table))[dtype].factor(m, n, k))

    def times(values: Values) -> Floats:
        rates = base.changed(**values)
        return np.asarray(sum(product_parts_s(rates, flops, moved_bytes)) * factor)

    labels = tuple("{m} x {n} x {k}".format(**line.values) for line in lines)
    places = tuple(line.place for line in lines)
    rows = Measurements(f"{dtype} products", labels, places, seconds)
    before = {key: getattr(base, key) for key in PRODUCT_KEYS}
    return _fit(rows, times, before, calibration)


def _fit(
    rows: Measurements,
    times: Callable[[Values], Floats],
    before: Mapping[str, float],
    calibration: Calibration,
) -> Fitted:
    """Fit the numbers of one form around the file's, each by the width of its key."""
    names = tuple(name for name, value in before.items() if value > 0)
    keys = [name.rpartition(".")[2] for name in names]
    widths = np.array([calibration.kernel_widths[key] for key in keys])
    largest = np.array([1.0 if key.endswith("efficiency") else inf for key in keys])
    priors = Priors(np.log([before[name] for name in names]), widths, largest)

    def predict(logs: Floats) -> Floats:
        values = {name: np.exp(logs[..., index : index + 1]) for index, name in enumerate(names)}
        return np.log(times(values))

    held_to = Rows(rows.seconds, calibration.kernel_noise)
    return fit_rows(rows, predict, names, priors, held_to)


def fit_collectives(
    messages: Sequence[measurements.MeasuredMessage],
    accelerator: Accelerator,
    link: MeasuredLink,
    calibration: Calibration,
) -> dict[CollectiveKind, Fitted]:
    """Fits of collectives inside one HB domain, one a kind.

    Raises
    ------
    InputError
        If a kind has too few rows, or a row has more GPUs than an HB domain.
    """
    kinds: dict[CollectiveKind, list[measurements.MeasuredMessage]] = {}
    for message in messages:
        size = accelerator.hb_size
        if message.gpus > size or (message.hosts > 1 and size <= HOST_GPUS):
            raise InputError(
                f"{message.place}: {message.gpus} GPUs of {message.hosts} hosts are more than an HB"
                f" domain of {size}: links inside of one are fitted, so leave this file out, or say"
                " --set accelerator.hb_size"
            )
        kinds.setdefault(message.kind, []).append(message)
    return {
        kind: _fit_collective(kind, rows, accelerator, link, calibration)
        for kind, rows in kinds.items()
    }


def _fit_collective(
    kind: CollectiveKind,
    messages: Sequence[measurements.MeasuredMessage],
    accelerator: Accelerator,
    link: MeasuredLink,
    calibration: Calibration,
) -> Fitted:
    require_rows(f"{kind} of {messages[0].place.rpartition(':')[0]}", len(messages))
    members = np.array([message.gpus for message in messages], np.float64)
    message_bytes = np.array([message.message_bytes for message in messages])
    sums = np.array([message.dtype in REDUCED_IN_SWITCH for message in messages])
    rate = accelerator.hb_bytes_per_s
    share = np.array([bus_factor(kind, message.gpus) for message in messages])

    def times(values: Values) -> Floats:
        changed = changed_link(link, kind, values)
        whole_s, ring_s = (
            regimes(
                kind, [LevelUse(variant, members, np.ones_like(members), share / rate, rate)]
            ).seconds(message_bytes)
            for variant in (changed, changed.changed(in_switch=()))
        )
        return np.where(sums, whole_s, ring_s)

    labels = tuple(f"{message.gpus} GPUs, {message.message_bytes:,.0f} B" for message in messages)
    seconds = np.array([message.seconds for message in messages])
    before = _link_values(link, kind, members[sums])
    places = tuple(message.place for message in messages)
    return _fit(Measurements(kind, labels, places, seconds), times, before, calibration)


def _link_values(link: MeasuredLink, kind: CollectiveKind, members: Floats) -> dict[str, float]:
    """Numbers of a collective by name, with those of the switches where groups use them."""
    sent: MeasuredCollective = getattr(link, kind)
    parts: dict[str, Any] = {"large": sent.large, "small": sent.small}
    rows = enumerate(link.in_switch if kind == "all_reduce" else ())
    used = [index for index, row in rows if np.any(members >= row.least_members)]
    parts |= {f"in_switch.{index}": link.in_switch[index] for index in used[-1:]}
    keys = ("start_s", "step_s", "efficiency", "ramp_s")
    return {
        f"{name}.{key}": getattr(part, key)
        for name, part in parts.items()
        if part is not None
        for key in keys
        if hasattr(part, key)
    }


def changed_link(
    link: MeasuredLink, kind: CollectiveKind, values: Mapping[str, Any]
) -> MeasuredLink:
    """A link with other numbers of one collective, by their names such as ``large.start_s``."""
    sent: MeasuredCollective = getattr(link, kind)
    small = _changed(sent.small, "small", values) if sent.small else None
    large = _changed(sent.large, "large", values)
    rows = enumerate(link.in_switch)
    switches = tuple(_changed(row, f"in_switch.{index}", values) for index, row in rows)
    return link.changed(**{kind: MeasuredCollective(large=large, small=small)}, in_switch=switches)


def _changed(part: PartT, name: str, values: Mapping[str, Any]) -> PartT:
    changed = {
        key.rpartition(".")[2]: value for key, value in values.items() if key.startswith(f"{name}.")
    }
    return part.changed(**changed)
