"""Published training runs: `reports/published/measured-runs.csv`, one row a run.

Facts only, each row with its source: sizes of the model, the plan, the software, and the seconds of
an iteration. Rows of ``use`` ``dev`` and ``fit`` have all that iteration model ``calibrated`` needs
and are scored; those of ``context`` are not, and say why.
"""

import csv
from collections.abc import Mapping
from typing import cast

from netplan.calibration.runs import MeasuredRun, RunDegrees
from netplan.catalog import shipped_root
from netplan.inputs.choices import NetworkKind, Recompute, ScheduleName
from netplan.performance.stacks import STACKS, Stack
from netplan.records import replace
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.models import Model
from netplan.workloads.precision import precision_named
from netplan.workloads.program import Zero

SCORED = ("dev", "fit")
RECOMPUTED = {"attention": "selective"}
"""What rows call a kind of recomputation, where it has another name here."""


def published_rows() -> list[dict[str, str]]:
    """All rows of the table, as texts."""
    path = shipped_root() / "reports" / "published" / "measured-runs.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def published_runs(*, scored: bool = True) -> list[MeasuredRun]:
    """Runs of the table, by default those that are scored.

    Examples
    --------
    >>> runs = published_runs()
    >>> len(runs), runs[0].name, runs[0].seconds
    (181, 'KORTH-22b-full', 1.42)
    """
    rows = published_rows()
    return [published_run(row) for row in rows if not scored or row["use"] in SCORED]


def published_run(row: Mapping[str, str]) -> MeasuredRun:
    """The run of one row."""
    whole = {name: int(float(row[name])) for name in COUNTS if row[name]}
    flags = {name: row[name] == "True" for name in FLAGS}
    recompute = RECOMPUTED.get(row["recompute"], row["recompute"])
    return MeasuredRun(
        name=row["id"],
        source=row["source"],
        model=_model(row, whole, flags),
        accelerator=ACCELERATORS.load(row["accelerator"]),
        stack=_stack(row),
        degrees=RunDegrees(*(whole[name] for name in DEGREES)),
        hb_size=whole["hb_domain"],
        network_bytes_per_s=float(row["network_bytes_per_s"]),
        network_kind=cast("NetworkKind", row["network_kind"]),
        precision=precision_named(row["precision"]),
        recompute=cast("Recompute", recompute),
        sequence_parallel=flags["sequence_parallel"],
        tensor_overlap=flags["tp_overlap"],
        zero_stage=cast("Zero", whole["zero"]),
        schedule=cast("ScheduleName", row["schedule"]),
        seconds=float(row["sec_per_iter"]),
    )


DEGREES = ("tp", "cp", "dp", "pp", "vp", "micro_batch", "microbatches")
SIZES = ("layers", "hidden", "ffn", "heads", "kv_heads", "head_dim", "vocab", "seq")
COUNTS = (*DEGREES, *SIZES, "hb_domain", "zero", "global_batch")
FLAGS = ("gated", "rotary", "sequence_parallel", "tp_overlap")


def _model(row: Mapping[str, str], sizes: Mapping[str, int], flags: Mapping[str, bool]) -> Model:
    return Model(
        name=row["model"],
        title=row["model"],
        source=row["url"],
        date=row["year"],
        hidden_size=sizes["hidden"],
        layers=sizes["layers"],
        heads=sizes["heads"],
        kv_heads=sizes["kv_heads"],
        head_size=sizes["head_dim"],
        ffn_size=sizes["ffn"],
        vocabulary=sizes["vocab"],
        sequence_length=sizes["seq"],
        batch=sizes["global_batch"],
        gated_ffn=flags["gated"],
        rotary=flags["rotary"],
    )


def _stack(row: Mapping[str, str]) -> Stack:
    """The stack with what the run did otherwise: its attention kernel, and what it sent."""
    stack = STACKS.load(row["stack"])
    return replace(
        stack,
        attention=(row["attention"],) if stack.fused else stack.attention,
        gradient_bytes=float(row["gradient_bytes"]),
        gather_bytes=float(row["gather_bytes"]),
        zero3_gradient_bytes=None,
        zero3_gather_bytes=None,
        zero3_narrow_gather_bytes=None,
    )
