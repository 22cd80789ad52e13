"""What runs on a cluster: training, or serving by the plan that `netplan serving` finds."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Literal, NamedTuple, get_args

from netplan.questions.answers.serving_answer import ServedPlan, served_plans
from netplan.questions.question import (
    AnswerT_co,
    Question,
    check_ranges,
    default_of,
    optional,
    shared,
)
from netplan.questions.serving import Known, Searched, Serving
from netplan.questions.setup.inputs import CatalogReader
from netplan.questions.setup.serving_inputs import ServingQuestion
from netplan.questions.setup.training import PlanQuestion, fixed_option
from netplan.workloads.precision import ServingFormat

Workload = Literal["training", "serving"]
SERVED_DEFAULTS = ("model", "accelerator", "precision")
"""Inputs whose defaults are those of `netplan serving` where that is what runs."""


class ServedBest(NamedTuple):
    """The best plan of a served model on one fabric."""

    searched: Searched
    plan: ServedPlan


@dataclass(frozen=True, kw_only=True)
class WorkloadQuestion(ServingQuestion[AnswerT_co]):
    """Inputs of all questions about a cluster that trains or serves."""

    workload: Workload = optional(
        "What runs: training, or serving of requests.",
        "choice",
        choices=get_args(Workload),
        default="training",
    )
    model: str = shared("What is trained, computed or served: a model of any family.")
    batch: int | None = optional(
        "Global batch, or requests that one server decodes together.",
        "whole",
        low=1,
        otherwise="the model's",
    )
    precision: ServingFormat | None = optional(
        "Numbers of the layers' products, under iteration model calibrated; of served weights.",
        "choice",
        choices=(*get_args(ServingFormat), "fp16", "nvfp4", "mxfp4"),
        otherwise="bf16",
    )
    stack: str | None = optional(
        "Software: of training under iteration model calibrated, or of servers.",
        metavar="NAME",
        otherwise="the usual one",
    )
    fixed: Mapping[str, int] | None = fixed_option()

    def __post_init__(self) -> None:
        """Take defaults of the workload; refuse inputs that mean nothing for it."""
        if not self.trains:
            for name in SERVED_DEFAULTS:
                if getattr(self, name) is None:
                    value = default_of(Serving.command, name, self.catalog)
                    object.__setattr__(self, name, value)
        super().__post_init__()
        if self.trains:
            self.refuse(served_alone(type(self)), "training (--workload serving takes it)")
        else:
            self.refuse(trained_alone(), "--workload serving")
            check_ranges(self)

    @classmethod
    def names(cls, workload: str = "training") -> frozenset[str]:
        """Inputs that mean something for a workload."""
        others = trained_alone() if workload == "serving" else served_alone(cls)
        return super().names() - others

    @property
    def trains(self) -> bool:
        """Whether it is asked about training."""
        return self.workload == "training"

    def inputs(self, **resolved: object) -> dict[str, object]:
        """The inputs that mean something for the workload."""
        if self.trains:
            shown = super().inputs(**resolved)
            names = served_alone(type(self)) | {"workload"}
        else:
            shown, names = Question.inputs(self, **resolved), trained_alone()
        return {name: value for name, value in shown.items() if name not in names}

    def serves(self, reader: CatalogReader, fabric: str, known: Known | None = None) -> ServedBest:
        """The best plan on a fabric, as `netplan serving` has it for these inputs.

        Raises
        ------
        NetplanError
            As that question.
        """
        asked = self.part(Serving, fabric=fabric, top=1)
        searched = asked.searched(reader, known)
        found = searched.found
        (plan,) = served_plans(found.ranked, found.pools, searched.case, asked.gpus, 1)
        return ServedBest(searched, plan)


@cache
def trained_alone() -> frozenset[str]:
    """Inputs that mean nothing for serving."""
    names = {one.name for one in fields(PlanQuestion)}
    return frozenset(names - {one.name for one in fields(Serving)})


def served_alone(kind: type[Question[Any]]) -> frozenset[str]:
    """Inputs of a question that mean nothing for training."""
    others = (one for one in kind.__mro__[1:] if issubclass(one, Question))
    known = (fields(one) for one in others if not issubclass(one, ServingQuestion))
    trained = {one.name for group in known for one in group}
    return frozenset({one.name for one in fields(WorkloadQuestion)} - trained - {"workload"})
