"""Training runs under software of a date, as they are asked for."""

from collections.abc import Iterable
from typing import Any, cast

from netplan.errors import InputError
from netplan.performance.calibrated_run import CalibrationPart
from netplan.performance.dated.recipe import SERVER_GPUS, Recipe
from netplan.performance.dated.run import DatedRun, TimedPrecision
from netplan.performance.stacks import Stack
from netplan.scenarios.reading import sized
from netplan.setup.question import Question
from netplan.workloads.accelerators import Accelerator
from netplan.workloads.models import Model
from netplan.workloads.operations import Variant
from netplan.workloads.transformer import experts_of

Asked = Question[Any]

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
    asked: Asked, on: Accelerator, stack: Stack, model: Model, part: CalibrationPart, recipe: Recipe
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
    recipe = recipe.on(
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
