"""Choices that a search leaves open, or not: degrees, schedules, recomputation, ZeRO."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, Optional, get_args

from msgspec import Struct, field

from netplan.errors import InputError
from netplan.inputs.choices import ScheduleName
from netplan.records import asdict
from netplan.workloads.operations import PLAIN, Variant
from netplan.workloads.program import Zero

if TYPE_CHECKING:
    from netplan.performance.layer_execution import LayerExecution


BUBBLE_SHARE: dict[str, float] = {"zb-1p": 1 / 3, "zb-2p": 0.0}
"""What of the 1F1B bubble zero-bubble schedules have (arXiv:2401.10241, Table 2) [1]."""


class Fixed(Struct, frozen=True):
    """What a search leaves no choice of; None searches it [1].

    Examples
    --------
    >>> Fixed(pipeline=64).given
    {'pipeline': 64}
    """

    tensor: int | None = None
    context: int | None = None
    expert: int | None = None
    data: int | None = None
    pipeline: int | None = None
    microbatch: int | None = None
    interleave: int | None = None

    @property
    def given(self) -> dict[str, int]:
        """The values that are fixed, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}


class Options(Struct, frozen=True):
    """Choices beside the iteration model.

    Parameters
    ----------
    variant
        Recomputation, experts, embedding and head.
    zero_stage
        What is sharded over the data parallel group: nothing (0), the optimizer (1), gradients
        too (2), weights too (3); the iteration model's own if absent.
    interleave
        Which interleaved schedules are searched; the iteration model's own if absent.
    expert_degree
        GPUs over which the experts are spread; searched if absent [1].
    fixed
        Degrees, microbatch and interleaving that are given.
    execution
        How the kernels of a layer lie on the chip; absent: its operations run one by one, as the
        iteration model times them.
    schedule
        Order of the passes of a pipeline; absent: 1f1b, interleaved where stages are.

    Raises
    ------
    InputError
        If a choice is unknown, or the expert degree does not divide the experts, or is given twice.

    Examples
    --------
    >>> Options(zero_stage=3).zero_stage
    3
    """

    variant: Variant = field(default=PLAIN)
    zero_stage: Zero | None = None
    interleave: Literal["none", "whole", "any"] | None = None
    expert_degree: int | None = None
    fixed: Fixed = field(default_factory=Fixed)
    execution: Optional["LayerExecution"] = None
    schedule: ScheduleName | None = None

    def __post_init__(self) -> None:
        """Refuse what does not exist."""
        self._check_schedule()
        if self.zero_stage not in (None, 0, 1, 2, 3):
            raise InputError(f"ZeRO has the stages 0 to 3, got {self.zero_stage}")
        if self.interleave not in (None, "none", "whole", "any"):
            raise InputError(f"unknown interleaving {self.interleave!r}: use none, whole or any")
        degree = self.expert_degree
        if self.variant.sparse:
            self.check_experts(self.variant.experts)
        if degree is not None and self.fixed.expert not in (None, degree):
            raise InputError(
                f"the expert degree is {degree}, and fixed as {self.fixed.expert}: give one of them"
            )

    def _check_schedule(self) -> None:
        """Refuse schedules that contradict what else is asked for."""
        if self.schedule not in (None, *get_args(ScheduleName)):
            known = ", ".join(get_args(ScheduleName))
            raise InputError(f"unknown schedule {self.schedule!r}: use one of {known}")
        chunks, asked = self.fixed.interleave, self.schedule
        if asked == "interleaved" and (self.interleave == "none" or chunks == 1):
            raise InputError(
                "schedule interleaved runs several stages a GPU, and they are ruled out: leave"
                " --interleave none or --fix interleave=1 out"
            )
        if asked not in (None, "interleaved") and (
            self.interleave in ("whole", "any") or (chunks or 1) > 1
        ):
            raise InputError(
                f"schedule {asked} runs one stage a GPU, and several are asked for: leave the"
                " schedule or the interleaved stages out"
            )

    def check_experts(self, experts: int) -> None:
        """Refuse an expert degree that does not divide so many experts."""
        degree = self.expert_degree
        if degree is not None and (degree < 1 or experts % degree):
            raise InputError(
                f"{experts} experts cannot be spread evenly over {degree} GPUs: use a divisor"
            )


DEFAULT_OPTIONS = Options()


def fixed_values(values: Mapping[str, int]) -> Fixed:
    """Values that are given instead of searched.

    Raises
    ------
    InputError
        If a name is unknown or a value below 1.
    """
    known = Fixed.__struct_fields__
    for name, value in values.items():
        check_name("fixed value", name, known)
        if value < 1:
            raise InputError(f"fixed {name} is at least 1, got {value}")
    return Fixed(**values)


def check_name(role: str, name: str, known: tuple[str, ...]) -> None:
    """Refuse a name that is none of the known ones, and offer the nearest."""
    if name in known:
        return
    import difflib  # noqa: PLC0415 - seldom used

    near = difflib.get_close_matches(str(name), known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"use one of {', '.join(known)}"
    raise InputError(f"unknown {role} {name!r}: {hint}")
