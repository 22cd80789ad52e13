"""Which plans teams run: limits that published recipes keep, as a restriction of a plan search.

A search may find plans that nobody runs: tensor groups over many HB domains, 62 stages,
microbatches of 32 sequences. They are timed by the same formulas, but no run has shown that
software and cluster bear them. Beside the best plan stands the best of those that keep to recipes:

===============  ===================================================================================
tensor           at most 8 GPUs, inside an HB domain, where a cluster has some (a TPU pod has none)
context          4,096 tokens of a sequence or more on each GPU
stages           at most 64, a power of two or three times one, and even: they divide the layers, or
                 these with one or two more for embedding and head
interleaving     the same for the stages of all GPUs
microbatch       up to 16,384 tokens a GPU with stages, 65,536 without; one sequence is never less
experts          degrees from 8, or all experts or replicas if these are fewer, to 64; or all
                 experts on every GPU where ZeRO 3 gathers them
ZeRO 3           without stages
offload          activations of at most half of the layers
replicas         their microbatches divide the batch
===============  ===================================================================================

Sources: 152 recipes among the runs of `reports/published/measured-runs.csv`, 145 of which keep all
limits, and 134 of `reports/published/recipes.csv` (mixtures of experts, hybrids, later software),
of which 128 do; a recipe is model, accelerator, precision, degrees, microbatch, ZeRO and
recomputation, whatever its GPUs and batch.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from msgspec import Struct

from netplan.arrays import Amount, Bools
from netplan.performance.ladder import MOST_OFFLOADED
from netplan.performance.plan import Plan, PlanTime
from netplan.performance.setting import Setting
from netplan.performance.stack_memory import PlanSizes
from netplan.units import PERCENT
from netplan.workloads.program import SHARDED_WEIGHTS

MOST_TENSOR = 8
"""Tensor GPUs of all 286 recipes at most [1]."""

LEAST_TOKENS = 4096
"""Tokens of a sequence on each context GPU, of all recipes with several, at least [1]."""

MOST_STAGES = 64
"""Stages of all recipes at most: GPT 1T (arXiv:2205.05198, Table 3) [1]."""

STAGE_COUNTS = [1, 2, 4, 8, 16, 32, 64, 3, 6, 12, 24, 48]
"""Stages: powers of two, and three times one, but for 35 of GPT 530B (arXiv:2201.11990) [1]."""

ENDS = (0, 1, 2)
"""Layers that embedding and head may stand for, as in Llama 3 405B (arXiv:2407.21783, Sec. 3.3.2):
126 and two of them on 16 stages [1]."""

PIPED_TOKENS, UNPIPED_TOKENS = 16_384, 65_536
"""Tokens of a microbatch on a GPU with stages (gpt-oss 120B in Megatron-Bridge 26.06) and without
(DeepSeek-V3 on TPU v7) at most; three recipes have 131,072 and more [1]."""

ODD = 8
"""Batches of recipes divide by it: of others nothing is even [1]."""

LEAST_EXPERT, MOST_EXPERT = 8, 64
"""Expert degrees of all recipes that spread experts [1]."""

WHOLE_PERCENT = 10
"""From where on percentages have no digits behind the point [%]."""


class UsualPlans(Struct, frozen=True):
    """Limits of plans that teams run, of one model on one cluster.

    Parameters
    ----------
    layers, sequence_length, experts
        Of the model, prediction layers among its layers; 1 expert is a dense model [1].
    hb_size
        GPUs of an HB domain [1].
    batch
        Sequences of an iteration [1]; None leaves open whether it is even.

    Examples
    --------
    Llama 3 405B on H100 (arXiv:2407.21783, Table 4), and with tensor groups over eight domains:

    >>> usual = UsualPlans(layers=126, sequence_length=8192, hb_size=8, batch=2048)
    >>> tensor, pipeline, data = np.array([[8, 64, 8], [16, 8, 62], [128, 32, 33]])
    >>> usual.keep(PlanSizes(1, 1, tensor, 1, pipeline, 1, data))
    array([ True, False, False])
    """

    layers: int
    sequence_length: int
    hb_size: int
    experts: int = 1
    batch: int | None = None

    @classmethod
    def of(cls, setting: Setting, hb_size: int) -> "UsualPlans":
        """Those of what a search trains."""
        experts = setting.experts.held if setting.experts else 1
        length = setting.transformer.sequence_length
        used = min(hb_size, setting.options.use_per_domain or hb_size)
        return cls(setting.layers, length, used, experts, setting.training.batch)

    def keep(self, plans: PlanSizes, zero: Amount = 1) -> Bools:
        """Whether plans keep all limits.

        Parameters
        ----------
        plans
            Degrees and microbatches, numbers or arrays of shape (plans,) [1].
        zero
            ZeRO stage.

        Returns
        -------
        Bools
            True for plans that teams run, shape (plans,).
        """
        kept = np.asarray(True)
        for limit in self._limits(plans, zero).values():
            kept = kept & limit
        return kept

    def unusual(self, plan: Plan, zero: int = 1) -> tuple[str, ...]:
        """What of a plan no team does.

        Parameters
        ----------
        plan
            The plan.
        zero
            Its ZeRO stage.

        Returns
        -------
        tuple[str, ...]
            A noun with its numbers each; empty where the plan keeps all limits.

        Examples
        --------
        >>> from netplan.traffic.placement import Degrees, Placement
        >>> plan = Plan(Placement((Degrees(tensor=8), Degrees(tensor=8, pipeline=62))), 32, 4)
        >>> UsualPlans(layers=126, sequence_length=8192, hb_size=8).unusual(plan)
        ('tensor degree 64 over 8 HB domains', '62 stages', 'microbatches of 32 sequences')
        """
        tensor, context, pipeline = plan.tensor, plan.context, plan.pipeline
        degrees = (tensor, context, pipeline, plan.interleave)
        data = plan.gpus / (tensor * context * pipeline)
        sizes = PlanSizes(plan.microbatch, plan.microbatches, *degrees, data, plan.expert)
        limits = self._limits(sizes, zero)
        inside = plan.placement.levels[0].tensor
        if self.hb_size > 1:
            limits["tensor"] = limits["tensor"] & (inside == plan.tensor)
        if not np.all(limits["stages"]):  # which says it already
            del limits["layers"]
        words = dict(self._words(plan, zero))
        limits["offload"] = np.asarray(plan.offload_layers <= self.most_offloaded)
        return tuple(words[name] for name, kept in limits.items() if not np.all(kept))

    def is_even(self, data: Amount, microbatch: Amount) -> Bools:
        """Whether microbatches of so many sequences, on so many replicas, divide the batch."""
        batch = self.batch or 0
        if batch % ODD:  # recipes have none that divides so little
            batch = 0
        return np.asarray(np.equal(batch % (data * microbatch), 0))

    @property
    def most_offloaded(self) -> float:
        """Layers whose activations teams send to the host's memory at most [1]."""
        return self.layers * MOST_OFFLOADED

    def _limits(self, plans: PlanSizes, zero: Amount) -> dict[str, Bools]:
        """Whether plans keep each of the limits."""
        stages, chunks = plans.stages, plans.stages * plans.interleave
        piped = np.greater(stages, 1)
        tokens = plans.microbatch * self.sequence_length / plans.context
        most_tokens = np.where(piped, PIPED_TOKENS, UNPIPED_TOKENS)
        gathering = np.equal(zero, SHARDED_WEIGHTS)
        # Where all GPUs are domains of their own, none holds a tensor group.
        most_tensor = min(MOST_TENSOR, self.hb_size) if self.hb_size > 1 else MOST_TENSOR
        limits = {
            "tensor": np.less_equal(plans.tensor, most_tensor),
            "context": np.equal(plans.context, 1)
            | np.greater_equal(self.sequence_length / plans.context, LEAST_TOKENS),
            "stages": np.isin(stages, STAGE_COUNTS),
            "layers": self._even(stages),
            "interleave": np.equal(plans.interleave, 1) | self._even(chunks),
            "microbatch": np.less_equal(plans.microbatch, 1) | (tokens <= most_tokens),
            "zero": ~(gathering & piped),
        }
        if self.experts > 1:
            least = np.minimum(min(LEAST_EXPERT, self.experts), plans.data)
            spread = np.greater_equal(plans.expert, least) & np.less_equal(
                plans.expert, MOST_EXPERT
            )
            limits["expert"] = spread | (gathering & np.equal(plans.expert, 1))
        if self.batch is not None:
            limits["replicas"] = self.is_even(plans.data, plans.microbatch)
        return limits

    def _even(self, parts: Amount) -> Bools:
        """Whether so many parts of the layers are alike, with their ends."""
        layers = self.layers + np.array(ENDS)[:, None]
        return np.asarray(np.any(layers % np.atleast_1d(parts) == 0, axis=0))

    def _words(self, plan: Plan, zero: int) -> Iterator[tuple[str, str]]:
        """What to say where a limit is not kept."""
        domains = plan.tensor // plan.placement.levels[0].tensor if self.hb_size > 1 else 1
        where = f" over {domains:,} HB domains" if domains > 1 else ""
        yield "tensor", f"tensor degree {plan.tensor:,}{where}"
        yield (
            "context",
            f"context degree {plan.context:,} on sequences of {self.sequence_length:,} tokens",
        )
        yield "stages", f"{plan.pipeline:,} stages"
        yield "layers", f"{self.layers:,} layers uneven on {plan.pipeline:,} stages"
        yield "interleave", f"{plan.interleave:,} uneven interleaved stages a GPU"
        yield "microbatch", f"microbatches of {plan.microbatch:,g} sequences"
        yield "zero", f"ZeRO {zero} under {plan.pipeline:,} stages"
        yield "expert", f"expert degree {plan.expert:,}"
        replicas = plan.gpus // (plan.tensor * plan.context * plan.pipeline)
        offloaded = f"{plan.offload_layers} of {self.layers:,}"
        yield "offload", f"activations of {offloaded} layers in the host's memory"
        yield "replicas", f"a batch uneven on {replicas:,} replicas"


def usual_sentence(best: PlanTime, usual: PlanTime | None, unusual: tuple[str, ...]) -> str:
    """What teams would run instead of the best plan, what that costs, and why it is another.

    Parameters
    ----------
    best
        The best plan with its time.
    usual
        The best of those that teams run; None where none fits.
    unusual
        What of the best plan no team does.

    Returns
    -------
    str
        One sentence; empty where the best plan is one that teams run.

    Examples
    --------
    >>> from netplan.traffic.placement import Degrees, Placement
    >>> plans = [Plan(Placement((Degrees(8, pipeline=p), Degrees(data=2))), 1, 16) for p in (2, 3)]
    >>> usual, best = (PlanTime(plan, t, {}, 0, 0, 0) for plan, t in zip(plans, (6.9, 6.7)))
    >>> text = usual_sentence(best, usual, ("62 stages",))
    >>> text.partition(": ")[2]
    '6.9 s, 3 % slower; plan 1 has 62 stages.'
    """
    if not unusual:
        return ""
    has = f"plan 1 has {', '.join(unusual)}"
    if usual is None:
        return f"No plan as teams usually run them fits: {has}."
    slower = PERCENT * (usual.iteration_time_s / best.iteration_time_s - 1)
    equal = " (equal within the model's error)" if usual.equals(best) else ""
    apart = abs(slower)
    percent = f"{apart:,.0f}" if apart >= WHOLE_PERCENT else f"{apart:.2g}"
    how = "slower" if slower >= 0 else "faster"  # within 1 % less computed again goes before
    stages = (f"{usual.plan.interleave} stages a GPU",) if usual.plan.interleave > 1 else ()
    named = (usual.plan.degrees, usual.plan.schedule_words, *stages, *usual.plan.kept_words)
    return (
        f"Teams usually run {', '.join(named)}: {usual.time_text}, {percent} % {how}{equal}; {has}."
    )


def usual_dict(best: PlanTime, usual: PlanTime | None, unusual: tuple[str, ...]) -> dict[str, Any]:
    """The same as JSON.

    Parameters
    ----------
    best, usual, unusual
        As in :func:`usual_sentence`.

    Returns
    -------
    dict[str, Any]
        ``unusual`` about the best plan, and ``iteration_time_s`` [s], ``gpus_used`` [1] and
        ``plan`` of the one that teams run, with ``slower`` [1]; None each where none fits.
    """
    if usual is None:
        values: dict[str, Any] = dict.fromkeys(("iteration_time_s", "gpus_used", "plan", "slower"))
    else:
        slower = usual.iteration_time_s / best.iteration_time_s - 1
        values = {**usual.in_short(), "slower": slower}
    return values | {"unusual": list(unusual)}
