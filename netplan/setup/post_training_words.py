"""A step of post-training in words: its job, its pools, how long it takes, what it sends."""

from collections.abc import Mapping

from netplan.performance.posttraining.step import PostTrainingStep, Role
from netplan.setup.post_training_step import PostTrained, Sync
from netplan.units import counted, si

ROLES: Mapping[Role, str] = {
    "rollout": "roll out",
    "trainer": "train",
    "score": "score",
    "all": "do both in turn",
}


def schedule_words(step: PostTrainingStep) -> str:
    """How pools take turns, in words."""
    staleness = step.work.staleness
    if step.mode == "sync":
        return "in turn"
    if step.mode == "one-off":
        return "one step off"
    if staleness < 1:
        return f"{100 * staleness:g} % of a batch ahead"
    return f"{staleness:g} versions behind"


def least(trained: PostTrained) -> str:
    """Time of a step in words: at least so long, or an estimate with its range."""
    step = trained.step
    if not trained.run.work.rolls_out:
        return si(step.seconds, "s")
    if trained.spread is None:
        return f"at least {si(step.seconds, 's')}"
    high = trained.step_high_s or step.seconds
    return f"{si(step.seconds, 's')} ({si(trained.step_low_s, 's')} to {si(high, 's')})"


def job_words(trained: PostTrained) -> str:
    """What a step does, for a title."""
    run, work = trained.run, trained.run.work
    answers = f"{counted(work.prompts, 'prompt')} x {counted(work.group, 'answer')}"
    asked = answers if work.rolls_out else "no answers"
    return f"A step of {run.job.model} on {run.gpus:,} {run.asked.cluster.accelerator}, {asked}"


def pool_words(trained: PostTrained) -> str:
    """Which GPUs do what."""
    name = trained.run.asked.cluster.accelerator
    parts: list[str] = []
    for pool in trained.pools:
        which = f" {pool.accelerator}" if pool.accelerator != name else ""
        gpus = " GPUs" if not parts else ""
        parts.append(f"{pool.gpus:,}{which}{gpus} {ROLES[pool.role]}")
    turns = f" ({schedule_words(trained.step)})" if len(parts) > 1 else ""
    return f"{', '.join(parts)}{turns}"


def sync_words(sync: Sync) -> str:
    """Bytes of a synchronisation, its bound, and what published software reaches."""
    way = "" if sync.over == "network" else ", through storage"
    sent = f"{si(sync.sent.network, 'B')} between HB domains"
    if sync.sent.total > sync.sent.network:
        sent = f"{si(sync.sent.total, 'B')}, {sent}"
    words = f"New weights ({sync.kind}{way}): {sent}, at least {si(sync.bound_s, 's')} by the wire"
    if sync.rate is not None:
        return f"{words}, {si(sync.seconds, 's')} at {si(sync.rate, 'B/s')} of a copy."
    usual_s = [ends[1] for ends in sync.reaches_s.values()]
    if not usual_s:
        return f"{words}."
    return f"{words}; published software {si(min(usual_s), 's')} to {si(max(usual_s), 's')}."
