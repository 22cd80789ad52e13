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
fit there. Rungs that keep more are never slower, so that the fastest of all rungs that fit is the
first of them that does; block and names are both timed, since a small block can be cheaper.

Of plans within 1 % of the fastest, whose error bars move together, that one is preferred that
computes least again, then the one of the smallest tensor degree, pipeline degree, ZeRO stage,
which offloads nothing, and of the smallest expert degree.
"""

from math import inf
from typing import TYPE_CHECKING, Literal

import numpy as np
from msgspec import Struct

from netplan.arrays import Amount, Bools, Columns, Floats, Ints, Numbers, real
from netplan.performance.stack_memory import (
    HIGH,
    LOW,
    OUTSIDE_BYTES,
    Held,
    PlanSizes,
    peak_of,
    verdict,
)
from netplan.records import replace
from netplan.traffic.placement import CONTEXT, DATA, EXPERT, PIPELINE, TENSOR
from netplan.workloads.program import Zero
from netplan.workloads.recomputation import NOTHING, Recomputation, RecomputedModule

if TYPE_CHECKING:
    from netplan.performance.plan import Plan
    from netplan.performance.setting import Setting

FULL, AS_FEW = Recomputation("full"), Recomputation("block")
FAST_HOST_BYTES_PER_S = 1e11
"""Link to the host from which on a search tries to send activations there [B/s]."""
WHOLE, A_MODULE = {"full": 1.0, "half": 0.5}, 0.01
"""How much of a layer computing again stands for, where plans are put in order [1]."""
NEAR = 1.01
"""Plans within this of the fastest are told apart by what they compute again and by degrees [1]."""
SHARDED_WEIGHTS: Zero = 3
SHARDED_GRADIENTS: Zero = 2


class Rung(Struct, frozen=True):
    """What a plan keeps: what it computes again, what it shards, whether it offloads activations.

    ``block`` without a number stands for as few layers as fit.
    """

    recompute: Recomputation
    zero: Zero
    offloads: bool = False
    stages: Literal["any", "one", "several"] = "any"

    def possible(self, stages: Numbers) -> Bools:
        """Whether plans of so many pipeline stages have it, shape (plans,)."""
        if self.stages == "any":
            return np.ones_like(stages, dtype=np.bool_)
        return (stages == 1) if self.stages == "one" else (stages > 1)

    def less_than(self, other: "Rung") -> bool:
        """Whether it takes no longer than another one, and less is computed again or offloaded."""
        less, more = self.recompute, other.recompute
        if less == NOTHING and not self.offloads:
            return True
        part = less.layers == more.layers == "none" and {*less.modules} <= {*more.modules}
        return not self.offloads and (more == FULL or (part and not other.offloads))

    def given_to(self, plan: "Plan", layers: int) -> "Plan":
        """A plan that keeps so, with so many layers computed again or sent to the host."""
        recompute = self.recompute
        if recompute == AS_FEW:
            recompute = Recomputation("block", layers)
        offloaded = layers if self.offloads else 0
        return replace(plan, recompute=recompute, zero=self.zero, offload_layers=offloaded)


def rungs_of(setting: "Setting") -> tuple[Rung, ...]:
    """The rungs of a setting; none where the iteration model says itself what memory holds."""
    memory, options = setting.training.stack_memory, setting.options
    if memory is None:
        return ()
    zero = setting.zero_stage
    if (
        options.recomputation is not None
        or options.offload_layers
        or setting.training.ignore_memory
    ):
        offloads = bool(options.offload_layers)
        return (Rung(options.recomputation or NOTHING, zero, offloads),)
    rungs = [Rung(NOTHING, zero)]
    if options.zero_stage is None and setting.training.calibrated is not None:
        rungs.append(Rung(NOTHING, SHARDED_GRADIENTS, stages="several"))
    rungs += [Rung(Recomputation(modules=names), zero) for names in _modules(setting)]
    if memory.stack.keeps not in ("torch", "compiled"):
        rungs.append(Rung(AS_FEW, zero))
    rungs.append(Rung(FULL, zero))
    if zero == SHARDED_WEIGHTS and setting.training.host_bytes_per_s >= FAST_HOST_BYTES_PER_S:
        rungs.append(Rung(NOTHING, zero, offloads=True, stages="one"))
    return tuple(rungs)


def _modules(setting: "Setting") -> list[tuple[RecomputedModule, ...]]:
    """Names of modules that a search tries, those that keep more first."""
    memory = setting.training.stack_memory
    if memory is None:
        return []
    if memory.stack.keeps in ("torch", "compiled"):
        return [("sac-op",)]
    if setting.experts is None:
        return []
    latent = setting.transformer.latent_attention is not None
    if memory.precision == "fp8-delayed":  # keeps norms and activations of experts
        return [("mla_up_proj",)] if latent else []
    if not latent:
        return [("moe_act",), ("moe_act", "layernorm")]
    return [
        ("moe_act",),
        ("mla_up_proj",),
        ("mla_up_proj", "moe_act"),
        ("moe_act", "layernorm", "mla_up_proj"),
    ]


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


def sizes_of(setting: "Setting", totals: Ints, microbatch: Amount, *rest: Amount) -> PlanSizes:
    """Plans as memory sees them, of total degrees of shape (dimensions, plans).

    ``rest`` are microbatches and interleaved stages. Experts are cut over the tensor GPUs too.
    """
    degrees = real(totals)
    sparse = setting.experts is not None
    return PlanSizes(
        microbatch=microbatch,
        microbatches=rest[0],
        tensor=degrees[TENSOR],
        context=degrees[CONTEXT],
        stages=degrees[PIPELINE],
        interleave=rest[1],
        data=degrees[DATA] * degrees[EXPERT],
        expert=degrees[EXPERT],
        expert_tensor=degrees[TENSOR] if sparse else 1.0,
    )


def keep(setting: "Setting", sizes: PlanSizes, peak_bytes: float) -> Kept:
    """What plans hold on all rungs, with as few layers computed again as this peak allows.

    A rung costs no less than one that computes a part of the same again, nor does it less: of those
    that fit it does not count.

    Raises
    ------
    TypeError
        If no stack says what memory holds.
    """
    memory, rungs = setting.training.stack_memory, setting.rungs
    if memory is None:
        raise TypeError("no stack says what memory holds")
    plans = memory.on_stages(sizes, zero=rungs[0].zero)
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


def held_at(
    setting: "Setting",
    sizes: PlanSizes,
    rung: Rung,
    block: Amount = 0.0,
    offload_layers: Amount | None = None,
) -> Held:
    """What plans of one rung hold, part by part.

    Raises
    ------
    TypeError
        If no stack says what memory holds.
    """
    memory = setting.training.stack_memory
    if memory is None:
        raise TypeError("no stack says what memory holds")
    layers = setting.options.offload_layers or 0.0 if offload_layers is None else offload_layers
    if rung.recompute == AS_FEW:
        return memory.held(sizes, zero=rung.zero, block=block)
    return memory.held(sizes, recompute=rung.recompute, zero=rung.zero, offload_layers=layers)


def shares_of(setting: "Setting", rung: Ints, layers: Floats, fullest: Floats) -> dict[str, Floats]:
    """What share of the layers of plans computes what again, by word; each of shape (plans,).

    Parameters
    ----------
    setting
        Whose rungs they are.
    rung
        On which each plan stands.
    layers, fullest
        Layers of a stage that block and offload mean; those of the fullest one [1].
    """
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


class PlanMemory(Struct, frozen=True):
    """What a plan holds on its fullest GPU, as training software keeps it.

    Parameters
    ----------
    verdict
        Whether it fits, may fit (``tight``), or does not.
    peak_bytes, low_bytes, high_bytes, usable_bytes
        Memory, between what it lies in nine of ten runs, and what a program sees [B].
    stage, in_flight, layers
        The fullest stage, from 0 on; microbatches whose activations it holds; its layers [1].
    states, activations, head_or_backward, gathered, workspace, outside
        Parts of it; ``outside`` of the allocator beside them [B].
    by_operation
        What one layer keeps of one microbatch, by kind of layer and operation [B].
    basis
        Whether memory of this software was compared with runs.
    """

    verdict: Literal["fit", "tight", "no"]
    peak_bytes: float
    low_bytes: float
    high_bytes: float
    usable_bytes: float
    stage: int
    states: float
    activations: float
    head_or_backward: float
    gathered: float
    workspace: float
    outside: float
    in_flight: float
    layers: float
    by_operation: dict[str, dict[str, float]]
    basis: Literal["checked", "unchecked"]

    @property
    def fits(self) -> bool:
        """Whether it fits for sure."""
        return self.verdict == "fit"

    @property
    def words(self) -> str:
        """The peak between its ends, of what a program sees, such as ``88 GB (78-106) of 85``.

        With the verdict behind it where the plan does not fit for sure.
        """
        bytes_of = (self.peak_bytes, self.low_bytes, self.high_bytes, self.usable_bytes)
        peak, low, high, usable = (round(number / 1e9) for number in bytes_of)
        sure = "" if self.fits else f": {self.verdict}"
        return f"{peak} GB ({low}-{high}) of {usable}{sure}"


def plan_memory(setting: "Setting", sizes: PlanSizes, held: Held) -> PlanMemory:
    """That of a single plan of a setting.

    Raises
    ------
    TypeError
        If no stack says what memory holds.
    """
    memory, rung = setting.training.stack_memory, setting.rungs[0]
    if memory is None:
        raise TypeError("no stack says what memory holds")
    peak_bytes, usable_bytes = float(held.total[0]), setting.training.usable_bytes
    names = ("states", "activations", "head_or_backward", "gathered", "workspace")
    return PlanMemory(
        verdict=verdict(peak_bytes, usable_bytes, checked_kind=memory.checked_kind),
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


def peaks_of(usable_bytes: float) -> tuple[float, float]:
    """Peaks up to which plans fit, and up to which they may [B]."""
    return peak_of(usable_bytes), (usable_bytes - OUTSIDE_BYTES) / LOW


def preference(plan: "Plan", layers: int) -> tuple[float, ...]:
    """What orders plans that are nearly as fast, the preferred one first.

    Computing least again, then the smallest tensor and pipeline degree, the lowest ZeRO stage, no
    offload, and the smallest expert degree.
    """
    recompute = plan.recompute or NOTHING
    shares = recompute.shares(-(-layers // plan.pipeline))
    again = sum(WHOLE.get(word, A_MODULE) * share for word, share in shares.items())
    return (
        *(again, plan.tensor, plan.pipeline),
        *(plan.zero or 0, plan.offload_layers, plan.expert),
    )
