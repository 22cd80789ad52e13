"""Published training runs: tables of `reports/published/`, one row a run.

Facts only, each row with its source: sizes of the model, the plan, the software, and the seconds of
an iteration. Rows of ``use`` ``dev`` and ``fit`` have all that iteration model ``calibrated`` needs
and are scored; those of ``context`` are not, and say why. `measured-runs.csv` has dense models;
rows of `dated-runs.csv` say the date of their software, too, and what it did with experts.
"""

from collections.abc import Mapping
from functools import cache
from math import gcd
from typing import Any, cast

from netplan.calibration.runs import MeasuredRun, RunDegrees
from netplan.catalog import shipped_rows
from netplan.errors import InputError
from netplan.inputs.choices import (
    Dispatcher,
    Graphs,
    NetworkKind,
    Recompute,
    ScheduleName,
    Strategy,
)
from netplan.levels import Level
from netplan.performance.dated.recipe import Recipe
from netplan.performance.iteration_model import ITERATION_MODELS
from netplan.performance.plan import Plan, PlanTime
from netplan.performance.published_runs import published_rows
from netplan.performance.search import evaluate_plan
from netplan.performance.setting import Options, TrainedModel
from netplan.performance.stack_memory import Held, PlanSizes, StackMemory
from netplan.performance.stacks import STACKS, MemoryOfStack, MemoryRow, Stack
from netplan.records import replace
from netplan.traffic.placement import Degrees, Placement
from netplan.workloads.accelerators import ACCELERATORS, AttentionKernel
from netplan.workloads.models import Experts, LatentAttention, Mamba, Model, WindowAttention
from netplan.workloads.operations import Variant
from netplan.workloads.precision import precision_named
from netplan.workloads.program import Zero
from netplan.workloads.recomputation import Recomputation

CALIBRATED = "calibrated"
SCORED = ("dev", "fit")
RECOMPUTED = {"attention": "selective"}
"""What rows call a kind of recomputation, where it has another name here."""
TPU = "tpu"
"""Attention of TPUs, which is no kernel that a stack chooses."""


def published_runs(table: str = "measured-runs", *, scored: bool = True) -> list[MeasuredRun]:
    """Runs of a table, by default those that are scored.

    Parameters
    ----------
    table
        ``measured-runs``, or ``dated-runs`` of runs whose software has a date.
    scored
        Whether rows that are not scored are left out.

    Returns
    -------
    list[MeasuredRun]
        In the order of the table.

    Examples
    --------
    >>> runs = published_runs()
    >>> len(runs), runs[0].name, runs[0].seconds
    (181, 'KORTH-22b-full', 1.42)
    >>> len(published_runs("dated-runs"))
    352
    """
    rows = published_rows(table)
    return [published_run(row) for row in rows if not scored or row["use"] in SCORED]


def published_run(row: Mapping[str, str]) -> MeasuredRun:
    """The run of one row.

    Parameters
    ----------
    row
        Texts by column; rows with a ``software_date`` are runs under software of it.

    Returns
    -------
    MeasuredRun
        What ran, on what, by which plan, and its time.
    """
    whole = {name: int(float(row[name])) for name in (*COUNTS, *DATED_COUNTS) if row.get(name)}
    flags = {name: row.get(name) == "True" for name in (*FLAGS, *DATED_FLAGS)}
    recompute = RECOMPUTED.get(row["recompute"], row["recompute"])
    dated: dict[str, Any] = {}
    if row.get("software_date"):
        dated = {
            "detail": row["precision_detail"],
            "again": Recomputation.read(row["redo_modules"] or row["recompute"]),
            "recipe": Recipe(
                float(row["software_date"]),
                dispatcher=cast("Dispatcher", row["dispatcher"] or "fsdp"),
                expert_overlap=flags["a2a_overlap"],
                graphs=cast("Graphs", row["graphs"]),
                fused_experts=flags["fused_experts"],
            ),
        }
    return MeasuredRun(
        name=row["id"],
        source=row["source"],
        model=_model(row, whole, flags),
        accelerator=ACCELERATORS.load(row["accelerator"]),
        stack=_stack(row),
        degrees=RunDegrees(*(whole.get(name, 1) for name in DEGREES)),
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
        **dated,
    )


def _model(row: Mapping[str, str], whole: Mapping[str, int], flags: Mapping[str, bool]) -> Model:
    """The model of a row; sizes that the row does not have are those of no model's block."""
    sizes: dict[str, Any] = {key: whole.get(column) for key, column in SIZES.items()}
    hybrid = bool(whole.get("mamba_layers"))
    if whole.get("experts"):
        sizes["experts"] = Experts(
            count=whole["experts"],
            per_token=whole["top_k"],
            ffn_size=whole["expert_ffn"],
            shared_ffn_size=whole.get("shared_ffn", 0),
            dense_first_layers=whole.get("dense_layers", 0),
            latent_size=whole.get("expert_latent"),
        )
    if whole.get("kv_rank"):
        sizes |= {"kv_heads": None, "head_size": None}
        sizes["latent_attention"] = LatentAttention(
            kv_rank=whole["kv_rank"],
            query_rank=whole["q_rank"],
            head_size=whole["qk_nope"],
            rotary_head_size=whole["qk_rope"],
            value_head_size=whole["v_dim"],
        )
    if whole.get("window"):
        sizes["window_attention"] = WindowAttention(
            tokens=whole["window"], layers=whole["window_layers"]
        )
    if hybrid:
        sizes["attention_layers"] = whole["attn_layers"]
        sizes["mamba"] = Mamba(
            layers=whole["mamba_layers"],
            heads=whole["mamba_heads"],
            head_size=whole["mamba_head_dim"],
            state=whole["mamba_state"],
            groups=whole["mamba_groups"],
        )
    return Model(
        name=row["model"],
        title=row["model"],
        source=row["url"],
        date=row["year"],
        gated_ffn=flags["gated"],
        rotary=flags["rotary"],
        attention_sinks=flags["attention_sinks"],
        prediction_layers=whole.get("mtp", 0),
        **sizes,
    )


def time_as_made(run: MeasuredRun) -> PlanTime:
    """Time and memory of a run by iteration model ``calibrated``, by its own plan and software.

    Parameters
    ----------
    run
        The run; its stack, precision, recomputation, ZeRO stage and interleaving count, whatever
        searches leave out.

    Returns
    -------
    PlanTime
        Iteration time and its parts [s], memory and its parts [B]; under software of a date memory
        is as that keeps it, and there is the error bar that its plan has.

    Raises
    ------
    InputError
        If the accelerator lacks the precision of the run.

    Examples
    --------
    >>> run = published_run(published_rows()[1])
    >>> run.name, run.seconds, round(time_as_made(run).iteration_time_s, 4)
    ('KORTH-22b-selective', 1.1, 1.1007)
    """
    assumptions = ITERATION_MODELS.load(CALIBRATED)
    part = assumptions.calibration
    if part is None:
        raise InputError(f"iteration model {CALIBRATED} has no calibration: give its file one")
    calibrated = run.calibrated(part)
    training = TrainedModel.make(run.accelerator, run.model, assumptions, calibrated=calibrated)
    variant = Variant(
        recompute=run.recompute if run.recipe is None else "none",
        embedding=True,
        lm_head=True,
        fused=run.stack.fused,
        sequence_parallel=run.sequence_parallel or run.degrees.tensor == 1,
    )
    options = Options(variant, zero_stage=run.zero_stage, schedule=run.schedule)
    levels, plan = as_it_lay(run)
    if run.recipe is not None and run.stack.memory is not None:
        # What is computed again by module stands in memory as software keeps it.
        memory = StackMemory(
            *(run.model, run.stack.memory, run.timed_precision),
            sequence_parallel=variant.sequence_parallel,
            fused_attention=run.stack.fused,
            dropout=run.stack.dropout,
            schedule=run.schedule,
        )
        training = replace(training, stack_memory=memory, ignore_memory=True)
        options = replace(options, recomputation=run.again)
        plan = replace(plan, recompute=run.again, zero=run.zero_stage)
    return evaluate_plan(training, levels, plan, strategy=strategy_of(run), options=options)


def held_as_made(run: MeasuredRun) -> Held:
    """What the fullest GPU of a published run holds by memory model ``stack``.

    Parameters
    ----------
    run
        A run of the table; `reports/published/memory-runs.csv` says by which software's rules its
        memory is counted, what it computed again, and what the host's memory held.

    Returns
    -------
    Held
        Parts of its memory, shape (1,) [B].

    Examples
    --------
    >>> rows = {row["id"]: row for row in published_rows()}
    >>> held = held_as_made(published_run(rows["LLAMA3-T4-2"]))
    >>> f"{held.total[0] / 1e9:.1f} GB on stage {held.stage[0]}"
    '71.4 GB on stage 1'
    """
    row = _memory_rows()[run.name]
    software = cast("MemoryRow", row["software"])
    own_gradients = software == "megatron-bridge" or software.startswith("fsdp2")
    memory = StackMemory(
        run.model,
        MemoryOfStack(software=software),
        precision=run.precision,
        sequence_parallel=run.sequence_parallel,
        fused_attention=run.stack.fused,
        dropout=run.stack.dropout,
        schedule=run.schedule,
        gradient_bytes=None if own_gradients else run.stack.gradient_bytes,
    )
    cut = run.degrees
    sizes = PlanSizes(
        *(cut.microbatch, cut.microbatches, cut.tensor, cut.context),
        *(cut.pipeline, cut.interleave, cut.data),
    )
    return memory.held(
        sizes,
        recompute=Recomputation.read(row["recompute"]),
        zero=run.zero_stage,
        offload_layers=float(row["offload_layers"]),
    )


@cache
def _memory_rows() -> dict[str, dict[str, str]]:
    """What memory model ``stack`` takes of each run, by its id."""
    return {row["id"]: row for row in shipped_rows("reports/published/memory-runs.csv")}


def strategy_of(run: MeasuredRun) -> Strategy:
    """How the layers of a run are cut."""
    return "2d" if run.degrees.context > 1 else "1d"


def as_it_lay(run: MeasuredRun) -> tuple[tuple[Level, Level], Plan]:
    """HB domains and network of a run, and its plan: tensor GPUs inside, stages outside.

    Data parallel GPUs that experts are folded over come before those that hold the same ones.
    """
    degrees, on = run.degrees, run.accelerator
    size = room = min(run.hb_size, degrees.gpus)
    inside, outside = {}, {}
    group, folded = degrees.expert * degrees.expert_tensor, None
    groups = 1
    if run.model.experts is not None:
        folded = degrees.expert, degrees.expert_tensor
        groups = gcd(group // gcd(group, degrees.tensor * degrees.context), degrees.data)
    parts = degrees._asdict() | {"data": degrees.data // groups, "expert": groups}
    for kind in ("tensor", "context", "expert", "data", "pipeline"):
        degree = parts[kind]
        inside[kind] = gcd(degree, room)
        outside[kind] = degree // inside[kind]
        room //= inside[kind]
    domain = Level("switch", size, on.hb_bytes_per_s, step_latency_s=on.hb_latency_s)
    network = Level(
        "switch",
        degrees.gpus // size,
        run.network_bytes_per_s,
        step_latency_s=on.network_latency_s,
        network_kind=run.network_kind,
    )
    placement = Placement((Degrees(**inside), Degrees(**outside)))
    plan = Plan(
        *(placement, degrees.microbatch, degrees.microbatches, degrees.interleave), folded=folded
    )
    return (domain, network), plan


DEGREES = ("tp", "cp", "dp", "pp", "vp", "micro_batch", "microbatches", "ep", "etp")
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
DATED_COUNTS = (
    *("experts", "top_k", "expert_ffn", "shared_ffn", "expert_latent", "dense_layers", "mtp"),
    *("q_rank", "kv_rank", "qk_nope", "qk_rope", "v_dim", "window", "window_layers"),
    *("mamba_layers", "mamba_heads", "mamba_head_dim", "mamba_state", "mamba_groups"),
    "attn_layers",
)
DATED_FLAGS = ("attention_sinks", "a2a_overlap", "fused_experts")
"""Columns of rows whose software has a date."""


def _stack(row: Mapping[str, str]) -> Stack:
    """The stack with what the run did otherwise: its attention kernel, and what it sent."""
    stack = STACKS.load(row["stack"])
    return replace(
        stack,
        attention=(cast("AttentionKernel", row["attention"]),)
        if stack.fused and row["attention"] != TPU
        else stack.attention,
        gradient_bytes=float(row["gradient_bytes"]),
        gather_bytes=float(row["gather_bytes"]),
        zero3_gradient_bytes=None,
        zero3_gather_bytes=None,
        zero3_narrow_gather_bytes=None,
    )
