"""Published training runs: `reports/published/measured-runs.csv`, one row a run.

Facts only, each row with its source: sizes of the model, the plan, the software, and the seconds of
an iteration. Rows of ``use`` ``dev`` and ``fit`` have all that iteration model ``calibrated`` needs
and are scored; those of ``context`` are not, and say why.

Training runs of your own: a table of plans and the seconds of an iteration.
"""

import csv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast, get_args

from netplan.calibration.measurements import (
    Column,
    Line,
    name,
    one_of,
    positive,
    read_integer,
    read_rows,
    yes_or_no,
)
from netplan.calibration.runs import MeasuredRun, RunDegrees
from netplan.catalog import shipped_root
from netplan.errors import InputError, NetplanError
from netplan.inputs.choices import NetworkKind, Recompute, ScheduleName
from netplan.performance.stacks import STACKS, Stack
from netplan.records import replace
from netplan.workloads.accelerators import ACCELERATORS, Accelerator
from netplan.workloads.models import Model, refuse_unlike
from netplan.workloads.precision import ALIASES, NUMBER_BYTES, precision_named
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
    sizes: dict[str, Any] = {key: whole[column] for key, column in SIZES.items()}
    recompute = RECOMPUTED.get(row["recompute"], row["recompute"])
    return MeasuredRun(
        name=row["id"],
        source=row["source"],
        model=Model(
            name=row["model"],
            title=row["model"],
            source=row["url"],
            date=row["year"],
            gated_ffn=flags["gated"],
            rotary=flags["rotary"],
            **sizes,
        ),
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
SIZES = {
    "layers": "layers",
    "hidden_size": "hidden",
    "ffn_size": "ffn",
    "heads": "heads",
    "kv_heads": "kv_heads",
    "head_size": "head_dim",
    "vocabulary": "vocab",
    "sequence_length": "seq",
    "batch": "global_batch",
}
"""Columns of a model's sizes, by its keys."""
COUNTS = (*DEGREES, *SIZES.values(), "hb_domain", "zero")
FLAGS = ("gated", "rotary", "sequence_parallel", "tp_overlap")


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


SCHEDULES = ("1f1b", "interleaved", "zb-1p", "zb-2p")
STEP_COLUMNS = (
    Column("model", name, needed=True),
    Column("gpus", read_integer, needed=True),
    Column("batch", read_integer),
    Column("sequence_length", read_integer),
    Column("microbatch", read_integer, default=1),
    Column("tensor", read_integer, default=1),
    Column("context", read_integer, default=1),
    Column("pipeline", read_integer, default=1),
    Column("interleave", read_integer, default=1),
    Column("precision", one_of(*NUMBER_BYTES, *ALIASES), default="bf16"),
    Column("recompute", one_of(*get_args(Recompute)), default="none"),
    Column("zero", one_of("0", "1", "2", "3"), default="1"),
    Column("sequence_parallel", yes_or_no),
    Column("tensor_overlap", yes_or_no, default=True),
    Column("schedule", one_of(*SCHEDULES), default="1f1b"),
    Column("network_kind", one_of(*get_args(NetworkKind)), default="infiniband"),
    Column("seconds", positive, needed=True),
)
STEP_EXAMPLES = (
    "llama-3-70b,64,128,8192,1,4,1,4,5,bf16,none,1,true,true,interleaved,infiniband,9.80",
    "llama-3-8b,8,128,8192,1,1,1,1,1,bf16,none,1,,,,,5.10",
)
LoadModel = Callable[[str], Model]


def read_steps(
    paths: Sequence[Path], accelerator: Accelerator, stack: Stack, load: LoadModel
) -> list[MeasuredRun]:
    """Runs of tables, on one accelerator under one stack.

    Raises
    ------
    CatalogError
        If a file is no such table.
    InputError
        If a row is no plan: file and line.
    """
    runs = []
    for line in (line for path in paths for line in read_rows(path, STEP_COLUMNS, "steps")):
        try:
            runs.append(_run(line, accelerator, stack, load(line.values["model"])))
        except NetplanError as error:
            raise InputError(f"{line.place}: {error}") from None
    return runs


def _run(line: Line, accelerator: Accelerator, stack: Stack, model: Model) -> MeasuredRun:
    values = line.values
    refuse_unlike(model, "fits of training runs")
    model = model.changed(
        sequence_length=values["sequence_length"] or model.sequence_length,
        batch=values["batch"] or model.batch,
    )
    parallel = values["sequence_parallel"]
    return MeasuredRun(
        name=f"{model.name}, {values['gpus']:,} GPUs, line {line.place.rpartition(':')[2]}",
        source=line.place.rpartition(":")[0],
        model=model,
        accelerator=accelerator,
        stack=stack,
        degrees=_degrees(line, model),
        hb_size=accelerator.hb_size,
        network_bytes_per_s=accelerator.network_bytes_per_s,
        network_kind=values["network_kind"],
        precision=precision_named(values["precision"]),
        recompute=values["recompute"],
        sequence_parallel=values["tensor"] > 1 if parallel is None else parallel,
        tensor_overlap=values["tensor_overlap"],
        zero_stage=cast("Zero", int(values["zero"])),
        schedule=values["schedule"],
        seconds=values["seconds"],
    )


def _degrees(line: Line, model: Model) -> RunDegrees:
    """Degrees of a row; what is left of the GPUs are replicas."""
    values = line.values
    cut = values["tensor"] * values["context"] * values["pipeline"]
    data, rest = divmod(values["gpus"], cut)
    if rest or not data:
        raise InputError(
            f"tensor x context x pipeline are {cut:,}, which do not divide {values['gpus']:,} GPUs"
        )
    microbatches, rest = divmod(model.batch, data * values["microbatch"])
    if rest or not microbatches:
        raise InputError(
            f"a batch of {model.batch:,} is no multiple of {data:,} replicas with microbatches of"
            f" {values['microbatch']}: give the column batch"
        )
    stages = values["pipeline"] * values["interleave"]
    if stages > model.layers or stages == values["interleave"] > 1:
        raise InputError(
            f"{model.layers} layers on {values['pipeline']} stages, interleaved"
            f" {values['interleave']} times: give fewer"
        )
    if values["tensor"] > model.heads:
        raise InputError(f"tensor {values['tensor']}: {model.name} has {model.heads} heads")
    return RunDegrees(
        values["tensor"],
        values["context"],
        data,
        values["pipeline"],
        values["interleave"],
        values["microbatch"],
        microbatches,
    )
