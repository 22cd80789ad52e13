"""Training runs of your own: tables of plans and the seconds of an iteration.

A row is a run on one kind of accelerator under one training stack, as those that others published
(`netplan.calibration.published`).
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast, get_args

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
from netplan.errors import InputError, NetplanError
from netplan.inputs.choices import NetworkKind, Recompute
from netplan.performance.stacks import Stack
from netplan.workloads.accelerators import Accelerator
from netplan.workloads.models import Model, refuse_unlike
from netplan.workloads.precision import ALIASES, NUMBER_BYTES, precision_named
from netplan.workloads.program import Zero

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
