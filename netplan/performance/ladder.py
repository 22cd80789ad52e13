"""The ladder of what plans keep: what is computed again, ZeRO 2, and what goes to the host.

Where training software says what memory holds (`netplan.performance.stack_memory`), a search tries
for every plan

======  ==========================================================================================
dense   nothing computed again; the same with gradients sharded too, where there are stages; the
        first layers of each stage, as few as fit; every layer
experts before whole layers: activations of experts, up-projections of latent attention, both,
        norms too
torch   nothing; every other product (``sac-op``); every layer
======  ==========================================================================================

and, on one stage under ZeRO 3 beside a fast link to the host, the activations of as few layers as
fit there. A rung that computes again a part of what another one does is never slower: of a plan
those rungs are timed that fit while no such part of them does. Names and a block are both timed,
since a small block can be cheaper. `tests/performance/test_ladder.py` compares all of this with
every plan on every rung.

Of plans within 1 % of the fastest, whose error bars move together, that one is preferred that
computes least again, then the one of the smallest tensor degree, pipeline degree, ZeRO stage,
which offloads nothing, and of the smallest expert degree.
"""

from math import inf

import numpy as np

from netplan.arrays import Amount, Bools, Columns, Floats, Ints, real
from netplan.performance.memory_verdict import HIGH, LOW, OUTSIDE_BYTES, PlanMemory, memory_verdict
from netplan.performance.plan import Plan
from netplan.performance.rungs import AS_FEW, Rung
from netplan.performance.setting import Setting
from netplan.performance.stack_memory import Held, PlanSizes
from netplan.records import replace
from netplan.traffic.placement import CONTEXT, DATA, EXPERT, PIPELINE, TENSOR
from netplan.workloads.operations import Sharding
from netplan.workloads.recomputation import NOTHING, Recomputation

MOST_OFFLOADED = 0.5
"""Share of the layers whose activations recipes send to the host's memory at most: 40 of 80 of
Llama 3 70B on GB200 (Megatron-Bridge 067f987d, perf_recipes/llama) [1]."""
WHOLE, A_MODULE = {"full": 1.0, "half": 0.5}, 0.01
"""How much of a layer computing again stands for, where plans are put in order [1]."""
NEAR = 1.01
"""Plans within this of the fastest are told apart by what they compute again and by degrees [1]."""


def given_to(plan: Plan, rung: Rung, layers: int) -> Plan:
    """A plan that keeps so, with so many layers computed again or sent to the host.

    Examples
    --------
    >>> from netplan.traffic.placement import Degrees, Placement
    >>> plan = Plan(Placement((Degrees(pipeline=4, data=8),)), 1, 16)
    >>> given_to(plan, Rung(AS_FEW, zero=1), 3).kept_words
    ('block:3',)
    """
    recompute = rung.recompute
    if recompute == AS_FEW:
        recompute = Recomputation("block", layers)
    offloaded = layers if rung.offloads else 0
    return replace(plan, recompute=recompute, zero=rung.zero, offload_layers=offloaded)


class Kept(Columns, frozen=True, eq=False):
    """What plans hold on every rung of a setting, shape (rungs, plans).

    Parameters
    ----------
    total
        On the fullest stage; infinite where a rung is not possible or no block fits [B].
    layers
        Layers of a stage that are computed again, or sent to the host, as few as fit [1].
    fits
        Whether plans stay below the peak; with sharded gradients only where that is needed.
    counts
        Whether one that fits may be the best: nothing that computes less again fits.
    """

    total: Floats
    layers: Floats
    fits: Bools
    counts: Bools


def sizes_of(setting: Setting, totals: Ints, sharding: Sharding, *rest: Amount) -> PlanSizes:
    """Plans as memory sees them, of total degrees of shape (dimensions, plans).

    ``sharding`` says how each cuts a microbatch and its experts, ``rest`` are microbatches and
    interleaved stages.
    """
    degrees = real(totals)
    sparse = setting.experts is not None
    return PlanSizes(
        microbatch=real(sharding.microbatch),
        microbatches=rest[0],
        tensor=degrees[TENSOR],
        context=degrees[CONTEXT],
        stages=degrees[PIPELINE],
        interleave=rest[1],
        data=degrees[DATA] * degrees[EXPERT],
        expert=real(sharding.experts_over),
        expert_tensor=real(sharding.expert_tensor) if sparse else 1.0,
    )


def keep(setting: Setting, sizes: PlanSizes, peak_bytes: float) -> Kept:
    """What plans hold on all rungs, with as few layers computed again as this peak allows.

    A rung does not count where another one fits that computes a part of the same again: it takes no
    less time.

    Raises
    ------
    TypeError
        If no stack says what memory holds.
    """
    rungs = setting.rungs
    plans = setting.stack_memory.on_stages(sizes, zero=rungs[0].zero)
    stages, given = plans.gpu.stages, float(setting.options.offload_layers or 0)
    total, layers = np.full((2, len(rungs), len(stages)), inf)
    for row, rung in enumerate(rungs):
        here = plans if rung.zero == rungs[0].zero else plans.sharing(rung.zero)
        if rung.recompute == AS_FEW or (rung.offloads and not given):
            least = here.least_offload if rung.offloads else here.least_block
            count = least(peak_bytes)
            held = here.total(offload_layers=count) if rung.offloads else here.total(block=count)
            total[row] = np.where(count > 0, held, inf)
            layers[row] = count
        else:
            total[row] = here.total(rung.recompute, offload_layers=given)
            layers[row] = given or rung.recompute.block
        total[row, ~rung.possible(stages)] = inf
    fits = total <= peak_bytes
    counts = fits.copy()
    for row, rung in enumerate(rungs):
        for before, other in enumerate(rungs[:row]):
            if other.less_than(rung):
                counts[row] &= ~fits[before]
        if rung.stages == "several":
            fits[row] &= ~fits[0]
    return Kept(total, layers, fits, counts)


def recomputed_shares(
    setting: Setting, rung: Ints, layers: Floats, fullest: Floats, stages: Floats
) -> dict[str, Floats]:
    """What share of the layers of plans computes what again, by word; each of shape (plans,).

    Parameters
    ----------
    setting
        Whose rungs they are.
    rung, stages
        On which each plan stands, and its pipeline stages [1].
    layers, fullest
        Layers of a stage that block and offload mean; those of the fullest one [1]. Under software
        of a date, which knows stages in the mean, those of such a stage count.
    """
    fullest = setting.stage_layers(stages, fullest)
    shares: dict[str, Floats] = {}
    for index, step in enumerate(setting.rungs):
        words: dict[str, Amount] = dict(step.recompute.shares(1))
        if step.recompute.layers == "block":
            words = {"full": np.minimum(layers / fullest, 1.0)}
        if step.offloads:
            words = {"offload": layers / fullest}
        for word, share in words.items():
            mine = np.where(rung == index, share, 0.0)
            shares[word] = shares.get(word, 0.0) + mine
    return shares


def plan_memory(setting: Setting, sizes: PlanSizes, held: Held) -> PlanMemory:
    """That of a single plan of a setting.

    Raises
    ------
    TypeError
        If no stack says what memory holds.
    """
    memory, rung = setting.stack_memory, setting.rungs[0]
    peak_bytes, usable_bytes = float(held.total[0]), setting.training.usable_bytes
    names = ("states", "activations", "head_or_backward", "gathered", "workspace")
    return PlanMemory(
        verdict=memory_verdict(peak_bytes, usable_bytes, checked_kind=memory.checked_kind),
        peak_bytes=peak_bytes,
        low_bytes=LOW * peak_bytes,
        high_bytes=HIGH * peak_bytes,
        usable_bytes=usable_bytes,
        stage=int(held.stage[0]),
        outside=OUTSIDE_BYTES,
        by_operation=memory.by_operation(sizes, recompute=rung.recompute),
        basis=memory.basis,
        **{name: float(getattr(held, name)[0]) for name in (*names, "in_flight", "layers")},
    )


def preference(plan: Plan, layers: int) -> tuple[float, ...]:
    """What orders plans that are nearly as fast, the preferred one first.

    Activations of at most half of the layers offloaded, as no team sends more; computing least
    again, then the smallest tensor and pipeline degree, the lowest ZeRO stage, no offload, and the
    smallest expert degree.

    Examples
    --------
    Two of the eight layers of each of four stages are computed again.

    >>> from netplan.traffic.placement import Degrees, Placement
    >>> plan = Plan(Placement((Degrees(tensor=2, pipeline=4),)), 1, 16, zero=1)
    >>> preference(replace(plan, recompute=Recomputation("block", 2)), layers=32)
    (False, 0.25, 2, 4, 1, 0, 1)
    """
    recompute = plan.recompute or NOTHING
    shares = recompute.shares(-(-layers // plan.pipeline))
    again = sum(WHOLE.get(word, A_MODULE) * share for word, share in shares.items())
    return (
        plan.offload_layers > layers * MOST_OFFLOADED,
        *(again, plan.tensor, plan.pipeline),
        *(plan.zero or 0, plan.offload_layers, plan.expert),
    )
