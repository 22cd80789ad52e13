"""Collectives on GPUs, as measured and as timed by the links' records.

Sources: measured tables of AIConfigurator 0.12.0 (NVIDIA, Apache-2.0) inside of one domain, on
whose points the records are fitted in part; nccl-tests of coreweave/nccl-tests and NVIDIA/nccl
issue 1801 over several, on few of which they are.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby

import numpy as np

from netplan.arrays import Floats
from netplan.published.checks import Check, Verdict, known, published
from netplan.records import replace
from netplan.traffic.gpu_group import GpuGroup, GroupKind
from netplan.units import si
from netplan.workloads.accelerators import ACCELERATORS

INSIDE = "Measured collectives, AIConfigurator 0.12.0 (NVIDIA, Apache-2.0)"
ACROSS = "Measured collectives, {url}"
MEAN, MOST = 0.085, 0.25
"""Relative errors that mean and 95th percentile of an accelerator stay below [1]."""

HEADLINE = ("h100-80gb", "fp16", "8", "536870912")
"""The point by which in-switch reduction shows best: accelerator, type, GPUs, bytes."""

WITHIN = {("72", "1"): 0.10, ("144", "2"): 0.10}
"""Relative errors of runs over so many GPUs and domains; of others a twentieth [1]."""

WHY = {
    "144": "of two racks the form is up to a fifth too fast below 2 GB",
    "1440": "on 20 racks times grow with the racks as no form here does: nothing is claimed there",
    "tree": "NCCL's tree beats its ring on three domains; only rings are timed",
}
"""Why a run over several domains is known not to reproduce."""


def collective_checks() -> Iterator[Check]:
    """Errors of all measured points by accelerator, and every run over several domains."""
    rows = published("collectives")
    inside = [row for row in rows if "aiconfigurator" in row["source"]]
    for accelerator, some in groupby(inside, key=lambda row: row["accelerator"]):
        yield from _errors(accelerator, list(some))
    for row in rows:
        point = tuple(row[key] for key in ("accelerator", "dtype", "gpus", "message_bytes"))
        if row["collective"] == "all_reduce" and point == HEADLINE:
            yield _point(row, INSIDE, 0.08)
    for row in rows[len(inside) :]:
        yield _across(row)


def _errors(accelerator: str, rows: list[dict[str, str]]) -> Iterator[Check]:
    """Mean and 95th percentile of the errors on one accelerator."""
    off: list[float] = []
    alike = ("collective", "dtype", "gpus")
    for _, some in groupby(rows, key=lambda row: [row[key] for key in alike]):
        points = list(some)
        taken_s = np.array([float(row["time_s"]) for row in points])
        off += np.abs(_seconds(points) / taken_s - 1).tolist()
    for name, found, most in (
        ("mean", float(np.mean(off)), MEAN),
        ("95th percentile", float(np.quantile(off, 0.95)), MOST),
    ):
        yield Check(
            f"{accelerator}: {name} of the error of {len(off)} collectives",
            INSIDE,
            f"{100 * most:g} % or less",
            f"{100 * found:.1f} %",
            "pass" if found <= most else "fail",
        )


def _across(row: dict[str, str]) -> Check:
    """One run over one domain or several."""
    source = ACROSS.format(url=row["source"].removeprefix("https://github.com/"))
    one = _point(row, source, WITHIN.get((row["gpus"], row["domains"]), 0.05))
    reason = next((why for part, why in WHY.items() if part in (row["gpus"], _way(row))), "")
    if one.verdict == "fail" and reason:
        return known(one.name, one.source, one.expected, one.got, reason)
    return one


def _point(row: dict[str, str], source: str, within: float) -> Check:
    """One measured time, and netplan's within a share of it."""
    measured_s, found_s = float(row["time_s"]), float(_seconds([row])[0])
    way = f" ({_way(row)})" if _way(row) else ""
    size = si(float(row["message_bytes"]), "B")
    name = f"{row['collective']}{way} of {size} on {row['gpus']} {row['accelerator']}"
    verdict: Verdict = "pass" if abs(found_s / measured_s - 1) <= within else "fail"
    return Check(name, source, si(measured_s, "s", 4), si(found_s, "s", 4), verdict)


def _way(row: dict[str, str]) -> str:
    """Ring or tree, where a run says so."""
    last = row["software"].rpartition(" ")[2]
    return last if last in ("ring", "tree") else ""


def _seconds(rows: list[dict[str, str]]) -> Floats:
    """Netplan's times of rows that differ in their bytes alone [s]."""
    first = rows[0]
    group = _group(first["accelerator"], int(first["gpus"]), int(first["domains"]))
    if first["dtype"] == "int8":  # which switches do not sum up
        links = replace(group.links, domain=replace(group.links.domain, in_switch=()))
        group = replace(group, links=links)
    kind: GroupKind = first["collective"]  # type: ignore[assignment]
    return group.times(kind, np.array([float(row["message_bytes"]) for row in rows])).time_s


@lru_cache
def _group(accelerator: str, gpus: int, domains: int) -> GpuGroup:
    return GpuGroup.of(ACCELERATORS.load(accelerator), gpus, gpus // domains)
