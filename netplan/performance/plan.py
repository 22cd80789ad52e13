"""A parallel plan, its time and memory, and the answer of a search."""

from dataclasses import asdict, dataclass, field
from typing import Any

from netplan.levels import Level
from netplan.performance.setting import Setting
from netplan.workloads.operations import Strategy

PARTS = ("compute", "memory", "tensor_comm", "data_comm", "pipeline_comm", "bubble")
"""Parts of an iteration; with experts there is `expert_comm` too."""


@dataclass(frozen=True, slots=True)
class Degrees:
    """Parallel degrees of one level, or of a whole plan [1]."""

    tensor: int = 1
    context: int = 1
    expert: int = 1
    data: int = 1
    pipeline: int = 1


@dataclass(frozen=True, slots=True)
class Plan:
    """One parallel plan.

    Parameters
    ----------
    tensor, pipeline, data
        Parallel degrees [1]. Data parallel GPUs that share no expert are counted by ``expert``.
    microbatch
        Sequences of one microbatch, b [1].
    microbatches
        Microbatches of one pipeline in an iteration, m [1].
    interleave
        Interleaved stages of one GPU, v [1].
    degrees
        Tensor, data and pipeline degree at each level, innermost level first [1].
    context, expert
        GPUs over the sequence; GPUs over the experts [1].
    panels
        SUMMA panels, n_b [1].
    further
        Context and expert degree at each level; empty where both are 1 [1].
    """

    tensor: int
    pipeline: int
    data: int
    microbatch: int
    microbatches: int
    interleave: int
    degrees: tuple[tuple[int, int, int], ...]
    context: int = 1
    expert: int = 1
    panels: int = 1
    further: tuple[tuple[int, int], ...] = ()

    @property
    def gpus(self) -> int:
        """GPUs that the plan uses [1]."""
        return self.tensor * self.context * self.expert * self.data * self.pipeline

    @property
    def levels(self) -> tuple[Degrees, ...]:
        """All degrees at each level, innermost level first.

        Examples
        --------
        >>> Plan(8, 4, 2, 1, 16, 1, degrees=((8, 1, 1), (1, 2, 4))).levels[1].pipeline
        4
        """
        further = self.further or ((1, 1),) * len(self.degrees)
        return tuple(
            Degrees(tensor, context, expert, data, pipeline)
            for (tensor, data, pipeline), (context, expert) in zip(
                self.degrees, further, strict=True
            )
        )

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON: degrees, schedule, and what of each degree lies at each level."""
        levels = [asdict(level) for level in self.levels]
        return {
            "tensor": self.tensor,
            "context": self.context,
            "expert": self.expert,
            "pipeline": self.pipeline,
            "data": self.data,
            "microbatch": self.microbatch,
            "microbatches": self.microbatches,
            "interleave": self.interleave,
            "panels": self.panels,
            "hb": levels[0],
            "levels": levels,
        }


@dataclass(frozen=True, slots=True)
class PlanTime:
    """A plan with its iteration time, the parts that add up to it, and its memory.

    Parameters
    ----------
    plan, strategy
        The plan, and how its layers are cut.
    iteration_time_s, breakdown_s
        Time of one iteration and its parts [s].
    memory_bytes, memory_parts_bytes
        Memory of the fullest GPU and its parts: weights, gradients, optimizer, activations and
        buffers [B].
    mfu, hfu
        Utilisation of the matrix units, without and with recomputed FLOPs [1].
    """

    plan: Plan
    iteration_time_s: float
    breakdown_s: dict[str, float]
    memory_bytes: float
    mfu: float
    hfu: float
    strategy: Strategy = "1d"
    memory_parts_bytes: dict[str, float] = field(default_factory=dict)

    def to_dict(self, rank: int) -> dict[str, Any]:
        """One plan of the JSON answer."""
        return {
            "rank": rank,
            "strategy": self.strategy,
            "iteration_time_s": self.iteration_time_s,
            "mfu": self.mfu,
            "memory_bytes": self.memory_bytes,
            "memory_parts_bytes": self.memory_parts_bytes,
            "plan": self.plan.to_dict(),
            "breakdown_s": self.breakdown_s,
        }


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The best plans of a whole space.

    Parameters
    ----------
    plans
        Best first.
    enumerated
        Plans in the space [1].
    feasible
        Plans that fit the memory [1].
    seconds
        Time of the search [s].
    levels
        The levels that the plans fill; smaller than the fabric if no plan fills all of it.
    settings
        What was asked: one setting a strategy.
    """

    plans: tuple[PlanTime, ...]
    enumerated: int
    feasible: int
    seconds: float
    levels: tuple[Level, ...]
    settings: tuple[Setting, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The JSON answer: inputs, size of the space, plans."""
        return {
            "inputs": self._inputs(),
            "space": {
                "enumerated": self.enumerated,
                "feasible": self.feasible,
                "seconds": self.seconds,
            },
            "plans": [plan.to_dict(rank) for rank, plan in enumerate(self.plans, start=1)],
        }

    def _inputs(self) -> dict[str, Any]:
        if not self.settings:
            return {}
        first = self.settings[0]
        training = first.training
        return {
            "model": training.model.name,
            "batch": training.batch,
            "flops_per_s": training.flops_per_s,
            "vector_flops_per_s": training.vector_flops_per_s,
            "memory_bytes": training.memory_bytes,
            "memory_bytes_per_s": training.memory_bytes_per_s,
            "levels": [asdict(level) for level in self.levels],
            "iteration_model": first.assumptions.name,
            "strategies": [setting.strategy for setting in self.settings],
            "mode": first.mode,
            "zero_stage": first.zero_stage,
            "interleave": first.interleave,
            **asdict(first.variant),
        }
