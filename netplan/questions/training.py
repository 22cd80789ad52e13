"""Inputs of all questions about a training run: model, batch, iteration model, parallelism."""

from dataclasses import dataclass
from typing import Literal

from netplan.performance.search import PlanSearch
from netplan.performance.setting import AnyStrategy, Fixed, Options, Training
from netplan.questions.question import AnswerT_co, Question, optional, shared
from netplan.workloads.operations import Mode, Recompute, Variant


@dataclass(frozen=True, kw_only=True)
class TrainingQuestion(Question[AnswerT_co]):
    """Inputs of all questions about a training run."""

    model: str = shared("What is trained.")
    batch: int | None = optional(
        "Global batch.", "whole", unit="sequences", low=1, otherwise="the model's"
    )
    iteration_model: str = shared("How time is modelled: 4d, ptd-p, or a file.")
    strategy: AnyStrategy = shared(
        "Tensor parallelism.", "choice", choices=("1d", "2d", "summa", "all")
    )
    mode: Mode = shared("Of the 4d model.", "choice", choices=("corrected", "published-code"))
    recompute: Recompute = shared(
        "Activations computed again in the backward pass.",
        "choice",
        choices=("none", "selective", "full"),
    )
    experts: int = shared("Experts of a layer.", "whole", low=1)
    top_k: int = shared("Experts of a token.", "whole", low=1)
    expert_degree: int | None = optional(
        "GPUs that share the experts.", "whole", unit="GPUs", low=1, otherwise="searched"
    )
    zero_stage: Literal[0, 1, 2, 3] | None = optional(
        "ZeRO stage.", "whole", flag="--zero", low=0, high=3, otherwise="the iteration model's"
    )

    def options(self, fixed: Fixed | None = None) -> Options:
        """What the search leaves open or not, as the performance room takes it.

        Raises
        ------
        InputError
            If a choice is unknown or does not fit another one.
        """
        return Options(
            variant=Variant(self.recompute, self.experts, self.top_k),
            zero_stage=self.zero_stage,
            expert_degree=self.expert_degree,
            fixed=fixed or Fixed(),
        )

    def search(self, training: Training) -> PlanSearch:
        """The search for the best plan of a training run."""
        return PlanSearch(training, self.strategy, self.mode, self.options())
