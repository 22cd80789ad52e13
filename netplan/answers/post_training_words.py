"""What answers about a step of post-training say of it in words, whatever was asked."""

from collections.abc import Iterator, Mapping
from typing import Any

from netplan.performance.posttraining.pools import balanced_gpus
from netplan.performance.posttraining.step import KEPT_APART, PostTrainingStep
from netplan.setup.post_training_step import PostTrained
from netplan.setup.schedules_beside import (
    PRINTED_OVER_BOUND,
    UNDECIDED,
    ScheduledStep,
    SchedulesBeside,
)
from netplan.units import counted, si

BOTTLENECKS: Mapping[str, str] = {
    "rollout-tail": "the longest answers, which no further GPU shortens",
    "rollout": "rollouts",
    "train": "training",
    "score": "scoring",
    "sync": "sending the new weights",
    "staleness": "a batch's way through both pools, which may span no more versions",
    "environment": "waiting for environments",
}
"""What sets the pace of a step, by its word in JSON."""
SHARED = "scoring and training, which are of one pool"
"""What sets it where the trainer's pool does both while servers roll out."""


def behind_words(staleness: float) -> str:
    """How far rollouts may be behind, in words."""
    if staleness in {0.0, 1.0}:
        return "one step off" if staleness else "in turn"
    return f"{staleness:g} behind"


def bottleneck_words(step: PostTrainingStep) -> str:
    """What sets the pace of a step; scoring and training of one pool do so together."""
    bottleneck = step.bottleneck
    shared = step.mode != "sync" and step.scored_s and step.train_s
    return SHARED if shared and bottleneck in {"train", "score"} else BOTTLENECKS[bottleneck]


def basis_words(trained: PostTrained) -> str:
    """What the time of a step is worth."""
    if not trained.run.work.rolls_out:
        return "An iteration of training: netplan search has its error bar, --workload training."
    if trained.spread is None:
        low, high = PRINTED_OVER_BOUND["dense" if trained.run.model.experts is None else "experts"]
        worth = (
            f"A bound, no estimate: published steps on H100 are {low:g} to {high:g} times as long"
        )
        if trained.run.job.measured:  # a note says why
            return f"{worth}; --measured does not apply to these pools and plans (--details)."
        return f"{worth}; --measured with a run of yours makes it one."
    return f"An estimate by your own measurements, {100 * trained.spread:.0f} % each way (assumed)."


def step_inputs_words(inputs: Mapping[str, Any]) -> str:
    """What a step does and which GPUs roll out, by the inputs of an answer."""
    rolls = "all GPUs in turn" if inputs["colocated"] else "the best split of GPUs"
    if inputs.get("rollout_gpus"):
        rolls = f"{inputs['rollout_gpus']:,} GPUs that roll out"
    asked = f"{inputs['prompts']:,} prompts x {inputs['group']:,} answers"
    return (
        f"post-training of {inputs['model']}, {asked} of {inputs['answer_tokens']} tokens, {rolls},"
        f" staleness {inputs['staleness']:g}, sync {inputs['sync']}"
    )


def length_words(trained: PostTrained) -> str:
    """How long answers are."""
    work, rollouts = trained.run.work, trained.step.rollouts
    if not work.rolls_out:
        return "no rollouts"
    lengths = work.lengths
    return (
        f"answers of {lengths.mean:,.0f} tokens in the mean, P99 {lengths.p99:,}, longest of a step"
        f" {rollouts.longest:,.0f}"
    )


def kept_words(trained: PostTrained) -> Iterator[str]:
    """That answers which are kept are short, where they are; what is thrown away."""
    rollouts, mean = trained.step.rollouts, trained.run.work.lengths.mean
    if not trained.run.work.rolls_out:
        return
    if abs(rollouts.kept_mean / mean - 1) > KEPT_APART:
        yield (
            f"Answers that are kept are the short ones: {rollouts.kept_mean:,.0f} tokens in the"
            f" mean, of all {mean:,.0f}; {si(rollouts.thrown_tokens, '')} tokens are thrown away."
        )


def schedules_words(schedules: SchedulesBeside) -> Iterator[str]:
    """Steps of the same pools by other schedules, and which is the fastest if that can be told."""
    if not schedules.steps:
        return
    bound = schedules.steps[0].step_high_s is None
    begins, off = ("At least", "bounds on H100") if bound else ("Such pools take", "estimates")
    shown: dict[str, ScheduledStep] = {}
    for row in schedules.steps:  # further behind than pays is as fast
        shown.setdefault(si(row.step_s, "s"), row)
    steps = ", ".join(f"{step} {behind_words(row.staleness)}" for step, row in shown.items())
    if schedules.verdict == UNDECIDED:
        yield f"{begins} {steps}: the fastest is undecided."
    else:
        rows = [row for row in schedules.steps if row.mode == schedules.verdict]
        fastest = behind_words(min(rows, key=lambda row: row.step_s).staleness)
        yield f"{begins} {steps}: {fastest} is the fastest, beyond what {off} are off."


def idle_words(trained: PostTrained) -> str:
    """How busy pools are, and tokens a second."""
    step = trained.step
    busy = [f"{pool.role} {100 * step.of_pool(pool)['busy_share']:.0f} %" for pool in trained.pools]
    parts = [f"Busy: {', '.join(busy)}"] if len(busy) > 1 else []
    if len(busy) > 1 and step.mode == "sync":
        parts.append("pools take turns: --colocated, or --staleness 1")
    if step.tokens:
        rate, most = step.tokens / step.seconds, "at most " if trained.spread is None else ""
        parts.append(f"{most}{rate:,.0f} tokens/s, {rate / trained.run.gpus:,.0f} a GPU")
    return f"{'; '.join(parts)}." if parts else ""


def _by_work(trained: PostTrained) -> str:
    """Where both pools would take as long, in closed form; nothing where phases take turns."""
    step, best = trained.step, trained.split[0]
    if step.mode == "sync" or step.bottleneck == "staleness" or not step.train_s:
        return ""
    tail_s = step.rollouts.tail_s if step.mode == "one-off" else 0.0
    rolled = (step.rolled_s - tail_s) * best.rollout_gpus
    trained_s = (step.scored_s + step.train_s) * best.train_gpus
    whole = trained.run.gpus - trained.run.job.score_gpus
    if rolled <= 0:
        return ""
    balanced = balanced_gpus(whole, rolled, trained_s, tail_s)
    return f"; by closed form both pools take as long at {balanced:,.1f}"


def split_words(trained: PostTrained) -> Iterator[str]:
    """The split that was chosen, and steps of its neighbours."""
    if len(trained.split) < 2:  # noqa: PLR2004 - nothing to compare
        return
    best, whole = trained.split[0], trained.run.gpus - trained.run.job.score_gpus
    full = sorted(
        (split for split in trained.split if split.rollout_gpus + split.train_gpus == whole),
        key=lambda split: split.rollout_gpus,
    )
    sizes = [split.rollout_gpus for split in full]
    near = []
    if best.rollout_gpus in sizes:
        place = sizes.index(best.rollout_gpus)
        near = [full[index] for index in (place - 1, place + 1) if 0 <= index < len(full)]
    words = ", ".join(
        f"{split.rollout_gpus:,}:{split.train_gpus:,} {si(split.step_s, 's')}" for split in near
    )
    tried = counted(len(trained.split), "split")
    near_words = f"; its neighbours {words}" if words else ""
    idle = whole - best.rollout_gpus - best.train_gpus
    left = f", {idle:,} GPUs idle" if idle else ""
    pair = f"{best.rollout_gpus:,}:{best.train_gpus:,}"
    yield f"Best of {tried}: {pair}{left}{near_words}{_by_work(trained)}."
