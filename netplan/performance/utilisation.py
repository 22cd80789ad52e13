"""Why a plan uses as much of the peak as it does: what is lost, to what, and what is usual.

All GPU time that is bought is either model FLOPs at the peak or lost. Of an iteration of T seconds,
of which K compute on the slowest stage, on n of N GPUs that are bought, in U = FLOPs / (n peak) at
the peak, with a share s of its slots filled by sequences and stages that do a share e of what the
slowest one does,

=============  ======================================================================
idle GPUs      1 - n/N
uneven batch   n/N (1 - s) K/T
uneven stages  n/N s (1 - e) K/T
memory         n/N s e V/T, of vector operations or waits V among K
kernels        n/N (s e (K - V) - U)/T: what products and attention leave of the peak
other parts    n/N part/T
=============  ======================================================================

add up to 1 - MFU, exactly. The share e is that of FLOPs: layers as they lie on the stages, the head
on the last. Kernels gain where attention counts the whole square of scores, as model FLOPs do, and
runs half of it: their share may be negative on long sequences.

What is usual are the scored published runs of the same accelerator and precision
(`reports/published/utilisation.csv`, made of `reports/published/measured-runs.csv`): dense models,
10th to 90th percentile of the MFU. Left out: what of a collective's time is forwarded by others.
"""

from collections.abc import Iterator
from functools import cache
from math import prod

import numpy as np
from msgspec import Struct

from netplan.arrays import Floats
from netplan.catalog import shipped_rows
from netplan.performance.plan import Plan, PlanTime
from netplan.performance.setting import Setting
from netplan.traffic.placement import Degrees
from netplan.units import PERCENT, counted, si
from netplan.workloads.models import Model
from netplan.workloads.operations import ELEMENT_BYTES
from netplan.workloads.parameters import parameter_count
from netplan.workloads.program import SHARDED_WEIGHTS, stage_layers

KERNELS, WAITS = ("compute", "attention"), "memory"
"""Parts of an iteration that compute what the model asks for."""

FAR_BELOW = 0.85
"""Share of the 10th percentile of published runs below which a plan is far below them [1]; less
than a tenth of those runs are."""

WORTH_WORDS = 0.015
"""Least share of the peak that a sentence names [1]."""

LARGE = 0.1
"""Share of the peak from which on a loss alone makes a plan slow [1]."""


class PeakLoss(Struct, frozen=True):
    """One reason why the peak is not reached.

    Parameters
    ----------
    cause
        Its key: a part of the iteration, or ``kernels``, ``uneven_stages``, ``uneven_batch``,
        ``idle``.
    share
        What of the peak of all GPUs is lost by it [1].
    title, words
        What it is called, and why it is as large; empty where nothing is to say.
    """

    json_parts = ("cause", "share", "words=in_words")

    cause: str
    share: float
    title: str
    words: str = ""

    @property
    def in_words(self) -> str:
        """Title, share and reason."""
        return _joined(self)


class UsualUtilisation(Struct, frozen=True):
    """MFU of published runs of an accelerator in a precision: 10th and 90th percentile [1]."""

    runs: int
    low: float
    high: float


class Utilisation(Struct, frozen=True):
    """MFU of a plan, and what it loses.

    Parameters
    ----------
    mfu
        Model FLOPs over the peak of all GPUs that are bought [1].
    causes
        What is lost, the largest first; shares and ``mfu`` add up to 1.
    usual
        That of published runs of dense models on the accelerator; None where there are none.
    where
        Accelerator and precision, for people.
    """

    json_parts = (
        *("mfu", "causes", "usual_low=usual.low", "usual_high=usual.high"),
        *("usual_runs=usual.runs", "warning?"),
    )

    mfu: float
    causes: tuple[PeakLoss, ...]
    usual: UsualUtilisation | None = None
    where: str = ""

    def sentence(self, most: int = 3) -> str:
        """MFU and the largest losses with their reasons; in whole percent they add up to 100.

        Parameters
        ----------
        most
            Losses to name [1].

        Returns
        -------
        str
            Two sentences; the first says so where the MFU is far below that of published runs.

        Examples
        --------
        >>> bubble = PeakLoss("bubble", 0.3, "bubble", "4 microbatches on 4 stages")
        >>> Utilisation(0.49, (bubble, PeakLoss("host", 0.21, "waiting for the host"))).sentence()
        'MFU 49 %. Lost: bubble 30 % (4 microbatches on 4 stages), waiting for the host 21 %.'
        """
        named = [loss for loss in self.causes[:most] if loss.share >= WORTH_WORDS]
        most_percent = PERCENT - _percent(self.mfu)
        # Where whole percents add up to too much, those rounded up most have less.
        exact = np.array([loss.share for loss in named]) * PERCENT
        percents = np.rint(exact).astype(np.int64)
        over = max(0, int(percents.sum()) - most_percent)
        percents[np.argsort(exact - percents, kind="stable")[:over]] -= 1
        rest = most_percent - int(percents.sum())
        parts = [
            f"{loss.title} {percent} %" + (f" ({loss.words})" if loss.words else "")
            for loss, percent in zip(named, percents.tolist(), strict=True)
        ]
        parts += [f"all else {rest} %"] if rest else []
        return f"{self._judged or f'MFU {_percent(self.mfu)} %'}. Lost: {', '.join(parts)}."

    @property
    def _judged(self) -> str:
        """That the MFU is far below that of published runs; else nothing."""
        usual = self.usual
        if usual is None or self.mfu >= FAR_BELOW * usual.low:
            return ""
        return (
            f"MFU {_percent(self.mfu)} % is far below the {_percent(usual.low)} to"
            f" {_percent(usual.high)} % of {counted(usual.runs, 'published run')} on {self.where}"
        )

    @property
    def warning(self) -> str:
        """That the MFU is far below that of published runs, and why; else nothing."""
        # Published runs lose to kernels, too: another large loss tells more.
        large = [loss for loss in self.causes if loss.share >= LARGE and loss.cause != "kernels"]
        cause = (large or self.causes)[0]
        return f"{self._judged}: {_joined(cause, ', ')}." if self._judged else ""


def utilisation_of(
    setting: Setting, timed: PlanTime, gpus: int, *, accelerator: str | None = None
) -> Utilisation:
    """MFU of a plan, what it loses and why, and what published runs reach.

    Parameters
    ----------
    setting
        What is trained, as the plan was timed.
    timed
        The plan with its time and parts; without instances side by side.
    gpus
        GPUs that are bought [1].
    accelerator
        Name of the accelerator; that of iteration model ``calibrated`` if absent.

    Returns
    -------
    Utilisation
        Shares that add up to 1.
    """
    plan, parts, seconds = timed.plan, _parts_of(timed), timed.iteration_time_s
    peak_s = setting.flops.model / (plan.gpus * setting.training.flops_per_s)
    at_work = plan.gpus / gpus
    replicas = plan.gpus / (plan.tensor * plan.context * plan.pipeline)
    slots = plan.microbatches * plan.microbatch * replicas  # that the slowest pipeline runs
    filled, even = min(1.0, setting.training.batch / slots), 1.0
    if plan.pipeline > 1:  # FLOPs of the mean stage over those of the fullest
        work, _ = _stage_work(setting, plan.pipeline)
        even = float(work.mean() / work.max())
    waits_s = parts.get(WAITS, 0.0)
    kernels_s = sum(parts.get(name, 0.0) for name in KERNELS)
    needed_s = filled * even * kernels_s
    losses_s = {
        "uneven_batch": (1 - filled) * (kernels_s + waits_s),
        "uneven_stages": filled * (1 - even) * (kernels_s + waits_s),
        WAITS: filled * even * waits_s,
        "kernels": needed_s - peak_s,
        **{name: part for name, part in parts.items() if name not in (*KERNELS, WAITS)},
    }
    run = setting.training.calibrated
    precision = run.precision if run else "bf16"
    words, titles = _reasons(setting, timed), TITLES
    if plan.offload_layers:
        titles = TITLES | {"recompute": "transfers to the host's memory"}
    if needed_s:
        what = "products and attention" if isinstance(setting.training.model, Model) else "they"
        words["kernels"] = f"{what} reach {_percent(peak_s / needed_s)} % of the {precision} peak"
    causes = [
        PeakLoss(name, at_work * loss_s / seconds, titles.get(name, name), words.get(name, ""))
        for name, loss_s in losses_s.items()
        if loss_s
    ]
    if plan.gpus < gpus:
        idle = f"{gpus - plan.gpus:,} of {gpus:,}"
        causes.append(PeakLoss("idle", 1 - at_work, TITLES["idle"], idle))
    name = accelerator or (run.accelerator if run else "")
    dense = isinstance(setting.training.model, Model) and setting.experts is None
    return Utilisation(
        at_work * peak_s / seconds,
        tuple(sorted(causes, key=lambda loss: -loss.share)),
        usual_utilisation(name, precision) if dense else None,
        f"{name} in {precision}",
    )


def _parts_of(timed: PlanTime) -> dict[str, float]:
    """Parts of the time; all of them as long as software of its date makes them [s]."""
    if timed.growth is None:
        return timed.breakdown_s
    factor = timed.growth.software_factor
    return {
        name: part if name == "jitter" else factor * part
        for name, part in timed.breakdown_s.items()
        if name != "software"
    }


@cache
def usual_utilisation(accelerator: str, precision: str) -> UsualUtilisation | None:
    """MFU of published runs of dense models, as far as there are some.

    Parameters
    ----------
    accelerator, precision
        Names of both.

    Returns
    -------
    UsualUtilisation | None
        Their number, 10th and 90th percentile [1]; None where there are none.

    Examples
    --------
    >>> usual_utilisation("h100-80gb", "bf16").runs
    18
    """
    for row in shipped_rows("reports/published/utilisation.csv"):
        if (row["accelerator"], row["precision"]) == (accelerator, precision):
            return UsualUtilisation(int(row["runs"]), float(row["low"]), float(row["high"]))
    return None


TITLES = {
    "kernels": "kernels",
    "memory": "vector operations",
    "idle": "idle GPUs",
    "uneven_stages": "uneven stages",
    "uneven_batch": "uneven batch",
    "tensor_comm": "tensor collectives",
    "data_comm": "exposed gradients",
    "pipeline_comm": "transfers between stages",
    "expert_comm": "expert exchange",
    "bubble": "bubble",
    "update": "optimizer's update",
    "optimizer": "optimizer's update",
    "recompute": "computing again",
    "host": "waiting for the host",
    "fixed": "a fixed time an iteration",
    "jitter": "stragglers",
    "software": "software of another date",
}
"""Losses for people."""


def _percent(share: float) -> int:
    return round(PERCENT * share)


def _joined(loss: PeakLoss, mark: str = ": ") -> str:
    """Title, share and reason of a loss."""
    return f"{loss.title} {_percent(loss.share)} %" + (f"{mark}{loss.words}" if loss.words else "")


def _layers_of(setting: Setting) -> int:
    """Layers that lie on stages; 0 of a model without."""
    return 0 if setting.spread_model is not None else setting.layers


def _stage_work(setting: Setting, stages: int) -> tuple[Floats, bool]:
    """FLOPs of the stages in those of a layer, and whether the last has the head."""
    held = stage_layers(_layers_of(setting), stages).astype(np.float64)
    has_head = isinstance(setting.training.model, Model) and setting.variant.lm_head
    if has_head:
        model = setting.transformer
        tokens = setting.training.batch * model.sequence_length
        # Three products of 2 FLOPs a weight: forward, and both gradients.
        head = 6.0 * tokens * model.hidden_size * model.vocabulary
        held[-1] += head * held.sum() / (setting.flops.model - head)
    return held, has_head


def _reasons(setting: Setting, timed: PlanTime) -> dict[str, str]:
    """Why losses are as large as they are, by their keys."""
    plan = timed.plan
    totals, inside = plan.placement.totals, plan.placement.levels[0]
    batches = counted(plan.microbatches, "microbatch", "microbatches")
    chunks = f", {plan.interleave} interleaved on each GPU" if plan.interleave > 1 else ""
    return {
        "bubble": f"{batches} on {counted(plan.pipeline, 'stage')}{chunks}",
        "data_comm": _gradients(setting, timed, batches),
        "tensor_comm": _spread(totals, inside, "tensor", "context"),
        "expert_comm": _exchanged(plan),
        "pipeline_comm": counted(plan.pipeline, "stage"),
        "recompute": _recomputed(setting, plan),
        "uneven_stages": ", ".join(_uneven(setting, plan.pipeline)),
        "uneven_batch": f"{setting.training.batch:,} sequences in {batches} of"
        f" {plan.microbatch:,g} on each replica",
        WAITS: "norms and activations" if "attention" in timed.breakdown_s else "",
    }


def _gradients(setting: Setting, timed: PlanTime, batches: str) -> str:
    """How much is exchanged, behind how many microbatches.

    Weights of dense models lie evenly on tensor GPUs and stages; those of experts do not.
    """
    if setting.zero_stage == SHARDED_WEIGHTS:
        return f"ZeRO {SHARDED_WEIGHTS} gathers weights for all of {batches}"
    model, plan, run = setting.training.model, timed.plan, setting.training.calibrated
    if not isinstance(model, Model) or setting.experts is not None:
        return f"{batches} to hide them behind"
    element_bytes = setting.sharing.gradient_bytes if run else ELEMENT_BYTES
    held = parameter_count(model).total / (plan.tensor * plan.pipeline)
    return f"{batches} to hide {si(float(np.max(element_bytes)) * held, 'B')} behind"


def _spread(totals: Degrees, inside: Degrees, *names: str) -> str:
    """Degrees above 1, and over how many HB domains they lie."""
    shorts = {"tensor": "TP", "context": "CP", "expert": "EP"}
    domains = 1
    degrees = []
    for name in names:
        degree, within = getattr(totals, name), getattr(inside, name)
        domains *= max(1, degree // within)
        degrees += [f"{shorts[name]} {degree:,}"] if degree > 1 else []
    where = f"over {domains:,} HB domains" if domains > 1 else "inside an HB domain"
    return f"{' '.join(degrees)} {where}" if degrees else ""


def _exchanged(plan: Plan) -> str:
    """Over how many GPUs and HB domains experts are spread."""
    placement = plan.placement
    if plan.folded is None:
        return _spread(placement.totals, placement.levels[0], "expert")
    domain = (placement.sizes or [prod(level) for level in placement.levels])[0]
    domains = -(-plan.experts_over * plan.expert_tensor // domain)
    shared = f" ETP {plan.expert_tensor}" if plan.expert_tensor > 1 else ""
    where = f"over {domains:,} HB domains" if domains > 1 else "inside an HB domain"
    return f"EP {plan.experts_over:,}{shared} {where}"


def _recomputed(setting: Setting, plan: Plan) -> str:
    """What is computed again, or waited for: as the plan has it where a search varies that."""
    if plan.offload_layers:  # nothing is computed again beside it
        return f"activations of {plan.offload_layers} of {_layers_of(setting)} layers"
    kind = str(plan.recompute or setting.variant.recompute)
    if kind.startswith("block:"):
        return f"{kind} of {-(-_layers_of(setting) // plan.pipeline)} layers"
    scores = "scores of attention"
    names = {"full": "all layers", "half": "every other layer", "core_attn": scores}
    return {**names, "selective": scores}.get(kind, kind)


def _uneven(setting: Setting, stages: int) -> Iterator[str]:
    """What is uneven about the stages: their layers, or the head on the last."""
    if stages == 1:
        return
    work, has_head = _stage_work(setting, stages)
    layers = stage_layers(_layers_of(setting), stages)
    if layers.min() < layers.max():
        fullest = int((layers == layers.max()).sum())
        yield f"{layers.max()} layers on {fullest} of {stages}, {layers.min()} on the others"
    if has_head and work.argmax() == stages - 1:
        yield "head on the last stage"
