"""Training software as it is asked for: stack, date, numbers, what it does with experts.

Iteration model ``calibrated`` alone times software, and by its date only where stack and
accelerator have numbers of dates (`netplan.performance.dated`).

What a training run reaches under software of the date that is asked for.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from netplan.errors import InputError
from netplan.inputs.choices import Precision
from netplan.inputs.option import flag_text
from netplan.inputs.readers import NEWEST_SCORED, UNDATED, software_month
from netplan.performance.calibrated_run import CalibrationPart
from netplan.performance.dated.recipe import SERVER_GPUS, Recipe, date_of
from netplan.performance.dated.run import DatedRun, TimedPrecision
from netplan.performance.iteration_model import IterationModel
from netplan.performance.setting import BUBBLE_SHARE
from netplan.performance.stacks import DEFAULT_STACK, STACKS, Stack, default_stack
from netplan.scenarios.reading import sized
from netplan.scenarios.scenario import all_places
from netplan.setup.inputs import found_words
from netplan.setup.question import AnyQuestion
from netplan.workloads.accelerators import ACCELERATORS, Accelerator
from netplan.workloads.models import Model
from netplan.workloads.operations import Variant
from netplan.workloads.precision import precision_named
from netplan.workloads.transformer import experts_of

if TYPE_CHECKING:
    from netplan.performance.dated.numbers import DatedNumbers

OF_EXPERTS = ("dispatcher", "expert_overlap", "fused_experts")
"""What software does with experts, and with nothing else."""
SWITCHES = (*OF_EXPERTS, "graphs")
"""What the date of software says where nothing else does."""
CALIBRATED = (
    *("precision", "stack", "software_date", *SWITCHES, "hybrid_stages"),
    *("tensor_overlap", "network_kind"),
)
"""Inputs that mean something under iteration model ``calibrated`` alone, or under few more."""


def switches_asked(asked: AnyQuestion) -> Iterator[tuple[str, str]]:
    """What of :data:`SWITCHES` is asked for, by name, as a command line has it."""
    options = {name: place.option for name, place in all_places("training").items()}
    for name in SWITCHES:
        if (value := getattr(asked.training.software, name)) is not None:
            yield name, flag_text(options[name].flag_of(name), value)


def recipe_of(
    asked: AnyQuestion, numbers: "DatedNumbers | None", stack: Stack, on: Accelerator
) -> Recipe | None:
    """What software of the date that is asked for does with experts.

    Parameters
    ----------
    asked
        The question.
    numbers
        Those of the iteration model by date.
    stack, on
        Stack and accelerator.

    Returns
    -------
    Recipe or None
        As asked for: None of what is taken from the date, or may be; None where software has no
        date, since that is asked for, or stack or accelerator have no numbers of dates.

    Raises
    ------
    InputError
        If something is asked for of software without a date.
    """
    software = asked.training.software
    month = software_month(software.software_date or NEWEST_SCORED)
    lacking = without_dates(numbers, stack, on)
    if month == UNDATED or lacking:
        for _, text in switches_asked(asked):
            why, other = f"under {lacking}, which has no numbers by date", "take another one"
            if month == UNDATED:
                why, other = "of software without a date", "leave --software-date none out"
            raise InputError(f"{text} means nothing {why}: leave it out, or {other}")
        return None
    return Recipe(
        date_of(month),
        software.dispatcher,
        software.expert_overlap,
        software.graphs,
        software.fused_experts,
    )


def without_dates(numbers: "DatedNumbers | None", stack: Stack, on: Accelerator) -> str:
    """What has no numbers of dates; empty if all of them have."""
    if numbers is None:
        return "this iteration model"
    if stack.dated is None:
        return f"stack {stack.name}"
    return "" if on.training and on.training.dated else on.name


def timed_precision(asked: AnyQuestion, on: Accelerator, *, dated: bool) -> Precision:
    """The precision whose rates products have, before any factor of its scales.

    fp8 with delayed scaling takes as long as fp8, mxfp8 starts from its rates.

    Parameters
    ----------
    asked
        The question.
    on
        The accelerator.
    dated
        Whether software has a date.

    Returns
    -------
    Precision
        One of which the accelerator has a share, if runs of it have any.

    Raises
    ------
    InputError
        If no training run says what its products reach, or the chip multiplies no numbers that
        share a scale in blocks, as those of mxfp8 and fp4 do; the message names accelerators that
        do.
    """
    named = asked.training.precision or "bf16"
    if named == "mxfp8" and "fp4" not in on.narrow_flops_per_s:
        having = _accelerators_with("fp4", dated=True)
        raise InputError(
            f"{on.name} multiplies no numbers that share a scale in blocks, as mxfp8: take"
            f" --precision fp8, or an --accelerator of {', '.join(having)}"
        )
    if named == "mxfp8" and not dated:
        undated = asked.training.software.software_date == UNDATED
        leave = "leave --software-date none out, " if undated else ""
        other = "fp8" if "fp8" in _shares(on, dated=False) else "bf16"
        raise InputError(
            f"--precision mxfp8 is timed under software of a date alone: {leave}take a stack and an"
            f" accelerator with numbers by date, or --precision {other}"
        )
    precision = precision_named("fp8" if named in ("fp8-delayed", "mxfp8") else named)
    shares = _shares(on, dated=dated)
    if shares and precision not in shares:
        having = _accelerators_with(precision, dated=dated)
        raise InputError(
            f"no training run says what products in {named} reach on {on.name}: take --precision"
            f" {' or '.join(shares)}, or an --accelerator of {', '.join(having)}"
        )
    return precision


@cache
def _accelerators_with(precision: Precision, *, dated: bool) -> tuple[str, ...]:
    """Names of accelerators of which runs say what products in a precision reach."""
    every = (ACCELERATORS.load(name) for name in ACCELERATORS.paths())
    return tuple(other.name for other in every if precision in _shares(other, dated=dated))


def _shares(on: Accelerator, *, dated: bool) -> Mapping[Precision, float]:
    """Shares of the peaks that runs on an accelerator reach, by precision; empty without any."""
    rates = on.training
    if rates is None:
        return {}
    if not dated:
        return rates.gemm
    return rates.dated.gemm if rates.dated else {}


def software_inputs(asked: AnyQuestion, assumptions: IterationModel) -> dict[str, object]:
    """Stack, numbers and date of software as the answer shows them, with what was filled in.

    A date that was moved, or that means nothing here, stands beside the one that is timed.
    """
    if assumptions.calibration is None:
        return {}
    reader, on = asked.reader_and_chip()
    stack = reader.load(STACKS, asked.training.stack or default_stack(on))
    training, lacking = asked.training, without_dates(assumptions.calibration.dated, stack, on)
    given = training.software.software_date
    month = software_month(given or NEWEST_SCORED)
    shown: dict[str, object] = {
        "stack": training.stack or stack.name,
        "precision": training.precision or "bf16",
        "software_date": (UNDATED if given else None) if lacking else month,
    }
    if given not in (None, shown["software_date"]):
        shown["software_asked"] = given
    return shown


def calibrated_alone(
    asked: AnyQuestion, assumptions: IterationModel, *, by_stack: bool
) -> Iterator[str]:
    """What is asked for that only calibrated iteration models time, as a command line has it."""
    training = asked.training
    if training.recompute == "half" and not by_stack:
        yield "--recompute half"
    if training.precision not in (None, "bf16"):
        yield f"--precision {training.precision}"
    if training.stack is not None and not by_stack:
        yield f"--stack {training.stack}"
    if training.software.software_date not in (None, UNDATED):
        yield f"--software-date {training.software.software_date}"
    yield from (text for _, text in switches_asked(asked))
    if training.software.hybrid_stages:
        yield "--force"
    if not training.tensor_overlap:
        yield "--no-tensor-overlap"
    measured = assumptions.communication.collectives == "measured"
    if asked.cluster.network_kind is not None and not measured:
        yield f"--network-kind {asked.cluster.network_kind}"
    if training.schedule in BUBBLE_SHARE:
        yield f"--schedule {training.schedule}"


def stack_words(inputs: Mapping[str, Any]) -> Iterator[str]:
    """What of software, numbers and schedule is other than where nothing is asked for.

    >>> list(stack_words({"precision": "fp8", "stack": "nemo-2024", "tensor_overlap": False}))
    ['fp8', 'stack nemo-2024', 'no tensor overlap']
    """
    if (precision := inputs.get("precision") or "bf16") != "bf16":
        yield precision
    if (stack := inputs.get("stack") or DEFAULT_STACK) != DEFAULT_STACK:
        yield f"stack {stack}"
    yield from software_words(inputs)
    for name in ("sequence_parallel", "tensor_overlap"):
        if inputs.get(name) is False:
            yield f"no {name.replace('_', ' ')}"
    if words := found_words(inputs):
        yield words
    if (schedule := inputs.get("schedule")) in BUBBLE_SHARE:
        yield f"schedule {schedule}"


def software_words(inputs: Mapping[str, Any]) -> Iterator[str]:
    """The date of software where it is not the newest, and what is not taken from it.

    Examples
    --------
    >>> asked = {"software_date": "2026-09", "software_asked": "2027-01", "graphs": "full"}
    >>> list(software_words(asked | {"fused_experts": False}))
    ['software of 2026-09 (for 2027-01: no run is later)', 'no fused experts', 'graphs full']
    >>> list(software_words({"software_date": "none"}))
    ['software of no date']
    """
    date, asked = inputs.get("software_date"), inputs.get("software_asked")
    if asked or date not in (None, NEWEST_SCORED):
        why = f" (for {asked}: no run is {'later' if asked > date else 'earlier'})" if asked else ""
        if date == UNDATED:
            why = f" (for {asked}: stack or accelerator have no numbers by date)" if asked else ""
        yield f"software of {'no date' if date == UNDATED else date}{why}"
    for name in SWITCHES:
        value, words = inputs.get(name), name.replace("_", " ")
        if isinstance(value, bool):
            yield words if value else f"no {words}"
        elif value is not None:
            yield f"{words} {value}"


MERGING = ("deepep", "hybridep")
"""Dispatchers that send a token once to each place."""
WITHOUT_DATE = (
    *("training.gemm", "training.wave", "training.attention", "stack.vector"),
    *("stack.tensor_visible", "stack.layer_s", "stack.dropout", "stack.gather_again", "stack.data"),
    *("calibration.kernel_s", "calibration.contention", "calibration.iteration_s"),
    "calibration.half_recompute",
)
"""Keys of values that software of a date has others of."""


def dated_run(
    asked: AnyQuestion,
    on: Accelerator,
    stack: Stack,
    model: Model,
    part: CalibrationPart,
    recipe: Recipe,
) -> DatedRun | None:
    """What a run reaches under software of the date that is asked for.

    Parameters
    ----------
    asked
        The question.
    on, stack, model, part
        What the files say.
    recipe
        What of software is asked for.

    Returns
    -------
    DatedRun or None
        None where the iteration model has no numbers of dates.

    Raises
    ------
    InputError
        If something is asked for that software, chip or model does not have.
    """
    if part.dated is None:
        return None
    rates, training = on.training, asked.training
    dated = rates.dated if rates else None
    named = training.precision or "bf16"
    precision = cast("TimedPrecision", {"fp8-delayed": "fp8"}.get(named, named))
    variant = Variant(experts=training.experts, top_k=training.top_k)
    experts = experts_of(model, variant)
    if model.experts is None and experts is not None:
        model = model.changed(experts=experts)
    if dated is not None and dated.generation == "tpu" and recipe.dispatcher in MERGING:
        raise InputError(
            f"--dispatcher {recipe.dispatcher} is a library of GPUs, and {on.name} gathers its"
            " experts: leave it out, or take fsdp or alltoall"
        )
    members = sized(asked.cluster, on).hb_size
    recipe = recipe.completed(
        generation=dated.generation if dated else "hopper",
        rack=max(members, on.hb_size) > SERVER_GPUS,
        precision_detail=named,
        gated=model.gated_ffn,
        hybrid=model.mamba is not None,
        sparse=experts is not None,
    )
    return DatedRun.of(
        on,
        stack,
        part.dated,
        model,
        recipe,
        precision=precision,
        memory_bytes_per_s=on.memory_bytes_per_s * part.memory_efficiency,
        attention_half_s=part.attention_half_s,
        collective_s=part.collective_s,
        tensor_overlap=training.tensor_overlap,
    )


def check_replaced(replaced: Iterable[str], *, dated: bool) -> None:
    """Refuse values that mean nothing under software of a date, or without one.

    Parameters
    ----------
    replaced
        Keys of values that are given instead of those in the files.
    dated
        Whether software has a date.

    Raises
    ------
    InputError
        If one of them does not count.

    Examples
    --------
    >>> check_replaced(["accelerator.training.gemm.bf16"], dated=False)
    >>> check_replaced(["accelerator.training.dated.gemm.bf16"], dated=False)
    Traceback (most recent call last):
    netplan.errors.InputError: --set accelerator.training.dated.gemm.bf16 counts under software of \
a date alone: leave --software-date none out
    """
    for key in replaced:
        _, _, value = key.partition(".")
        role = key.partition(".")[0]
        named = value if role != "stack" else f"stack.{value}"
        by_date = ".dated." in f".{value}."
        if dated and not by_date and named.startswith(WITHOUT_DATE):
            head, _, rest = value.partition(".")
            other = f"{role}.{head}.dated.{rest}" if rest else f"{role}.dated.{head}"
            raise InputError(
                f"--set {key} counts without a date of software alone: give {other}, or"
                " --software-date none"
            )
        if by_date and not dated:
            raise InputError(
                f"--set {key} counts under software of a date alone: leave --software-date none out"
            )
