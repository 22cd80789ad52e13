"""Training runs of your own: tables of plans and the seconds of an iteration.

A row is a run on one kind of accelerator under one training stack, as those that others published
(`netplan.calibration.published`). With a month of its software it may have experts, or Mamba
blocks; what software does with experts is that of the month where a row does not say it.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast, get_args

from netplan.calibration.measurements import (
    CsvColumn,
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
from netplan.inputs.choices import Dispatcher, Graphs, NetworkKind, Precision, Recompute
from netplan.inputs.readers import NEWEST_SCORED, UNDATED, software_month
from netplan.performance.dated.recipe import SERVER_GPUS, Recipe, date_of
from netplan.performance.stacks import Stack
from netplan.workloads.accelerators import Accelerator
from netplan.workloads.models import Model
from netplan.workloads.precision import ALIASES, NUMBER_BYTES, precision_named
from netplan.workloads.program import Zero
from netplan.workloads.recomputation import NOTHING, Recomputation

DETAILS: dict[str, Precision] = {
    "fp8-current": "fp8",
    "fp8-cs": "fp8",
    "fp8-delayed": "fp8",
    "mxfp8": "fp8",
    "nvfp4": "fp4",
}
"""Numbers of products that have the peak of others, by their names."""


def recomputation(text: str) -> Recomputation:
    """What is computed again: none, half, full, selective, block:K, or modules joined by +."""
    return Recomputation.read(text)


def month(text: str) -> str | None:
    """A month of software as YYYY-MM, or none."""
    known = software_month(text)
    return None if known == UNDATED else known


def at_least_one(text: str) -> float:
    """A number from 1 on."""
    value = positive(text)
    if value < 1:
        raise ValueError
    return value


SCHEDULES = ("1f1b", "interleaved", "zb-1p", "zb-2p")
STEP_COLUMNS = (
    CsvColumn("model", name, needed=True),
    CsvColumn("gpus", read_integer, needed=True),
    CsvColumn("batch", read_integer),
    CsvColumn("sequence_length", read_integer),
    CsvColumn("microbatch", read_integer, default=1),
    CsvColumn("tensor", read_integer, default=1),
    CsvColumn("context", read_integer, default=1),
    CsvColumn("pipeline", read_integer, default=1),
    CsvColumn("interleave", read_integer, default=1),
    CsvColumn("precision", one_of(*NUMBER_BYTES, *ALIASES, *DETAILS), default="bf16"),
    CsvColumn("recompute", recomputation, default=NOTHING),
    CsvColumn("zero", one_of("0", "1", "2", "3"), default="1"),
    CsvColumn("sequence_parallel", yes_or_no),
    CsvColumn("tensor_overlap", yes_or_no, default=True),
    CsvColumn("schedule", one_of(*SCHEDULES), default="1f1b"),
    CsvColumn("network_kind", one_of(*get_args(NetworkKind)), default="infiniband"),
    CsvColumn("software_date", month),
    CsvColumn("expert", read_integer, default=1),
    CsvColumn("expert_tensor", read_integer, default=1),
    CsvColumn("dispatcher", one_of(*get_args(Dispatcher))),
    CsvColumn("expert_overlap", yes_or_no),
    CsvColumn("graphs", one_of(*get_args(Graphs))),
    CsvColumn("fused_experts", yes_or_no),
    CsvColumn("imbalance", at_least_one, default=1.0),
    CsvColumn("seconds", positive, needed=True),
)
PLAIN_EXAMPLE = "llama-3-70b,64,128,8192,1,4,1,4,5,bf16,none,1,true,true,interleaved,infiniband"
SPARSE_EXAMPLE = "qwen3-30b-a3b,16,512,4096,1,1,1,2,12,fp8,moe_act,1,,,interleaved,infiniband"
STEP_EXAMPLES = (
    f"{PLAIN_EXAMPLE},2026-06,,,,,,,,9.80",
    f"{SPARSE_EXAMPLE},2026-06,8,1,hybridep,false,attn,false,1.1,21.4",
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
    _check_model(line, model)
    model = model.changed(
        sequence_length=values["sequence_length"] or model.sequence_length,
        batch=values["batch"] or model.batch,
    )
    parallel, detail = values["sequence_parallel"], values["precision"]
    again: Recomputation = values["recompute"]
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
        precision=DETAILS.get(detail) or precision_named(detail),
        detail=detail,
        recompute=cast("Recompute", PLAIN_AGAIN.get(str(again), "none")),
        again=again,
        recipe=_recipe(line, model, accelerator),
        imbalance=values["imbalance"],
        sequence_parallel=values["tensor"] > 1 if parallel is None else parallel,
        tensor_overlap=values["tensor_overlap"],
        zero_stage=cast("Zero", int(values["zero"])),
        schedule=values["schedule"],
        seconds=values["seconds"],
    )


PLAIN_AGAIN = {"none": "none", "core_attn": "selective", "half": "half", "full": "full"}
"""What may be computed again without a date of software, by the words of all."""


def _check_model(line: Line, model: Model) -> None:
    """Refuse a model, or what a run of it does, that no fit knows."""
    values = line.values
    if values["software_date"] is not None:
        if model.unknown:
            raise InputError(
                f"{model.name} has {model.unknown}, of which no published run tells how long it"
                " takes: leave the run out"
            )
        return
    if model.unlike:
        raise InputError(
            f"{model.name} has {model.unlike}, which fits know under software of a date alone: give"
            f" the column software_date, such as {NEWEST_SCORED}"
        )
    if str(values["recompute"]) not in PLAIN_AGAIN or values["precision"] in DETAILS:
        raise InputError(
            f"recompute {values['recompute']} in {values['precision']} is told apart under software"
            f" of a date alone: give the column software_date, such as {NEWEST_SCORED}"
        )


def _recipe(line: Line, model: Model, accelerator: Accelerator) -> Recipe | None:
    """What software did with experts, that of its month where a row does not say it."""
    values, rates = line.values, accelerator.training
    if values["software_date"] is None or rates is None or rates.dated is None:
        if values["software_date"] is not None:
            raise InputError(
                f"{accelerator.name} has no rates under software of a date: leave software_date out"
            )
        return None
    asked = Recipe(
        date_of(values["software_date"]),
        *(values[name] for name in ("dispatcher", "expert_overlap", "graphs", "fused_experts")),
    )
    return asked.completed(
        generation=rates.dated.generation,
        rack=accelerator.hb_size > SERVER_GPUS,
        precision_detail=values["precision"],
        gated=model.gated_ffn,
        hybrid=model.mamba is not None,
        sparse=model.experts is not None,
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
    _check_experts(line, model)
    given = {name: values[name] for name in RunDegrees._fields if name in values}
    return RunDegrees(**given, data=data, microbatches=microbatches)


def _check_experts(line: Line, model: Model) -> None:
    """Refuse expert degrees that divide neither GPUs nor experts."""
    values = line.values
    over, cut = values["expert"], values["expert_tensor"]
    count = model.experts.count if model.experts else 1
    if count % over:
        raise InputError(f"expert {over}: {model.name} has {count} experts: use a divisor")
    if cut not in (1, values["tensor"]):
        raise InputError(f"expert_tensor {cut}: use 1, or tensor, {values['tensor']}")
    stage = values["gpus"] // values["pipeline"]
    if model.experts and stage % (over * cut):
        raise InputError(
            f"expert x expert_tensor are {over * cut:,}, which do not divide the {stage:,} GPUs of"
            " a stage"
        )
