"""The step of a post-training job on one fabric: its pools, their split, the synchronisation."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, cast

import numpy as np
from msgspec import Struct

from netplan.arrays import Floats, Ints
from netplan.errors import InfeasibleError, InputError
from netplan.inputs.choices import SyncKind
from netplan.performance.posttraining.pools import PoolTimes, Split, best_split
from netplan.performance.posttraining.step import Pool, PostTrainingStep, Rollouts
from netplan.performance.posttraining.synchronisation import (
    INDEX_BYTES,
    SYNC_SOFTWARE,
    WIRE_BYTES,
    Receivers,
    Sending,
    SyncBytes,
    SyncLinks,
    Weights,
    anchored_bytes,
    gather_bytes,
    reshard_bytes,
    storage_bound_s,
    sync_bound_s,
    sync_bytes,
    sync_s,
)
from netplan.progress import with_progress
from netplan.records import replace
from netplan.reports.schema import plain_at
from netplan.scenarios.post_training import SYNC_RATES, read_copy_rate, read_rates, read_sync
from netplan.scenarios.reading import CatalogReader
from netplan.setup.inputs import span_of
from netplan.setup.measured_run import SPREAD, MeasuredSteps, Modelled, measured_runs
from netplan.setup.post_training import SAME, PartCache, PostRun, ServerPool, Trainer
from netplan.setup.question import AnyQuestion
from netplan.topologies.fabric import MIN_GPUS
from netplan.units import counted, si
from netplan.workloads.parameters import expert_parameters, parameter_count

Basis = Literal["bound", "measured"]
MOST_SIZES = 48
"""Splits that are tried one by one; of more, every so many first [1]."""
SHOWN_SPLITS = 8
"""Splits that a finer search keeps of a coarser one [1]."""
PCIE5_BYTES_PER_S = 64e9
"""32 GT/s on 16 lanes, one way, before encoding (PCI-SIG, PCI Express 5.0, 2019) [B/s]."""


class Sync(Struct, frozen=True, kw_only=True):
    """New weights on their way to the servers.

    Parameters
    ----------
    kind, changed
        How they are sent, and the share of a delta [1].
    over
        The network, or storage.
    weights, receivers
        What is sent, and to whom; nobody where one GPU does all.
    sent, gather_bytes
        Bytes of one synchronisation, and what each sender takes of others first [B].
    bound_s, seconds
        Least seconds by the wire, and those of a step: as software reaches them, with whole copies
        between deltas [s].
    rate
        Of one copy, where software says it [B/s].
    reaches_s
        What the same takes with the rates of printed software, by its name [s].
    bound_by
        What carries bytes between HB domains in the bound: the links of the fabric, or the network
        cards of both pools, where a fabric has no links that are known.
    """

    kind: SyncKind
    changed: float
    over: Literal["network", "storage"]
    weights: Weights
    receivers: Receivers | None
    sent: SyncBytes
    gather_bytes: float = 0.0
    bound_s: float = 0.0
    seconds: float = 0.0
    rate: float | None = None
    reaches_s: dict[str, tuple[float, float, float]] = {}
    bound_by: Literal["links", "cards"] = "cards"

    @property
    def copy_bytes(self) -> float:
        """One copy as it is sent: all weights, or what of them a delta has [B]."""
        weights = self.weights
        if self.kind != "delta":
            return weights.copy_bytes
        width = self.changed * (weights.width_bytes + INDEX_BYTES)
        return weights.copy_bytes * width / weights.width_bytes

    @property
    def basis(self) -> str:
        """What its seconds are: a bound, or at a rate."""
        return "bound" if self.rate is None else "rate"


def wire_weights(run: PostRun) -> Weights:
    """What is sent: dense and expert parameters in the numbers of the wire."""
    model, job = run.model, run.job
    numbers = job.sync_precision or job.rollout_precision or "bf16"
    if numbers not in WIRE_BYTES:
        raise InputError(
            f"--rollout-precision {numbers}: say by --sync-precision which numbers are sent, of"
            f" {', '.join(WIRE_BYTES)}"
        )
    experts = expert_parameters(model)
    total = parameter_count(model).total
    return Weights(float(total - experts), float(experts), WIRE_BYTES[numbers])


class PostTrained(Struct, frozen=True, kw_only=True):
    """A step on one fabric.

    Parameters
    ----------
    run
        The job.
    step
        What it takes.
    trainer, servers
        Its pools; None of one that has no work.
    sync
        Weights on their way; None where there is one pool without work.
    split
        Splits of the GPUs that were tried, the best first; empty where it is given.
    swap_bytes
        What of a GPU leaves its memory for the servers, and comes back [B].
    basis
        A bound from below, or an estimate by measurements of the user's own.
    spread
        Share by which an estimate may be off, each way; None of a bound [1].
    notes
        What is to be known of it, a sentence each.
    """

    json_parts = (
        *("step_s=step.seconds", "step_low_s", "step_high_s", "basis", "step.bottleneck"),
        *("step.mode", "phases=step.timeline", "pools=worked", "lengths"),
        *("rollout_s=step.rollouts.seconds", "step.rollouts.stream_s", "*sync_facts"),
        *("offload_s=step.swap_s", "step.rollouts.thrown_tokens", "tokens_per_s"),
        *("tokens_per_s_per_gpu", "split"),
    )

    run: PostRun
    step: PostTrainingStep
    trainer: Trainer | None = None
    servers: ServerPool | None = None
    sync: Sync | None = None
    split: tuple[Split, ...] = ()
    swap_bytes: float = 0.0
    basis: Basis = "bound"
    spread: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def pools(self) -> tuple[Pool, ...]:
        """GPUs by role."""
        run, job = self.run, self.run.job
        trains = self.trainer.timed.plan.degrees if self.trainer else ""
        rolls = self.servers.shape if self.servers else ""
        name, server_name = run.asked.cluster.accelerator, run.server_name
        if job.colocated:
            both = "; ".join(words for words in (trains, rolls) if words)
            pools = [Pool("all", run.gpus - job.score_gpus, name, both)]
        else:
            pools = []
        if self.servers and not job.colocated:
            gpus = self.servers.asked.cluster.gpus
            pools.append(Pool("rollout", gpus, server_name, rolls))
        if self.trainer and not job.colocated:
            pools.append(Pool("trainer", self.trainer.asked.cluster.gpus, name, trains))
        if job.score_gpus:
            pools.append(Pool("score", job.score_gpus, name))
        return tuple(pools)

    @property
    def domain(self) -> int:
        """GPUs of an HB domain, of the trainer's if there is one [1]."""
        if self.trainer:
            return self.trainer.case.fabric.sizing.hb_size
        return self.servers.case.served.sizes[0] if self.servers else 1

    @property
    def rollout(self) -> dict[str, Any] | None:
        """The servers' plan in JSON; None of nobody."""
        if self.servers is None:
            return None
        plans, servers = self.servers.rolled.plans, self.servers.rolled.servers
        degrees = ("tensor", "attention_data", "expert", "pipeline", "replicas")
        paths = "slots", "round_s=rounds.fixed_s", "request_s=rounds.each_s", "prompt_s"
        degree = {name: int(getattr(plans, name)[0]) for name in degrees}
        return degree | plain_at(servers, *paths)

    def as_measured(self, rollouts: Rollouts) -> Rollouts:
        """Rollouts as modelled, times measured over modelled ones where there are any."""
        modelled_s = self.servers.rolled.rollouts.seconds if self.servers else 0.0
        scale = self.step.rollouts.seconds / modelled_s if modelled_s else 1.0
        seconds, stream_s = scale * rollouts.seconds, scale * rollouts.stream_s
        return rollouts._replace(seconds=seconds, stream_s=stream_s)

    @property
    def step_low_s(self) -> float:
        """Least seconds that the step may take [s]."""
        return self.step.seconds * (1 - (self.spread or 0.0))

    @property
    def step_high_s(self) -> float | None:
        """Most seconds that it may take; None of a bound, which knows of none [s]."""
        return None if self.spread is None else self.step.seconds * (1 + self.spread)

    @property
    def worked(self) -> list[dict[str, Any]]:
        """Pools with what of a step they work, as JSON."""
        return [self.step.of_pool(pool) for pool in self.pools]

    @property
    def lengths(self) -> dict[str, Any]:
        """Lengths of answers, as JSON [tokens, 1]."""
        paths = "work.lengths.mean", "work.lengths.p99", "rollouts.longest", "work.lengths.at_cap"
        return plain_at(self.step, *paths, "rollouts.kept_mean")

    @property
    def sync_facts(self) -> dict[str, Any]:
        """New weights on their way, as JSON [B, s]."""
        sync, sent = self.sync, self.sync.sent if self.sync else NOTHING
        return {
            "sync_bytes": sent.total,
            "sync_network_bytes": sent.network,
            "sync_bytes_per_gpu": sent.per_gpu,
            "sync_gather_bytes": sync.gather_bytes if sync else 0.0,
            "sync_s": self.step.sync_s,
            "sync_bound_s": sync.bound_s if sync else 0.0,
            "sync_basis": self.basis if self.spread or not sync else sync.basis,
            "sync_bound_by": sync.bound_by if sync else None,
        }

    @property
    def tokens_per_s(self) -> float:
        """Prompts and answers that it trains on over its time [tokens/s]."""
        return self.step.tokens / self.step.seconds if self.step.seconds else 0.0

    @property
    def tokens_per_s_per_gpu(self) -> float:
        """The same over all GPUs that are held [tokens/s]."""
        return self.tokens_per_s / self.run.gpus


def post_train(
    asked: AnyQuestion, reader: CatalogReader, fabric: str, known: PartCache | None = None
) -> PostTrained:
    """The step of a job on a fabric, by the best split where none is given.

    Parameters
    ----------
    asked
        The question.
    reader
        Reads its files.
    fabric
        Name of the fabric.
    known
        What was searched before, for fabrics of equal levels.

    Raises
    ------
    InputError
        If inputs contradict each other.
    InfeasibleError
        If a pool has no plan that fits; it is named.
    """
    run = PostRun(asked, reader, fabric, {} if known is None else known)
    check_job(run)
    measured = measured_runs(run, _modelled)
    trained = _trained(run, measured)
    return _estimated(trained, measured) if measured else trained


def _modelled(run: PostRun) -> Modelled:
    """What the model says of a job on given pools."""
    check_job(run)
    trained = _trained(run)
    return Modelled(trained.step, trained.pools)


def _estimated(trained: PostTrained, measured: MeasuredSteps) -> PostTrained:
    """A step by measured runs; a bound, with a note on it, where they do not apply."""
    if trained.split and not measured.of_sizes:
        note = (
            "A bound again: one measured run says nothing of other splits. Give --rollout-gpus as"
            " it had, or a second run of another size."
        )
        return replace(trained, notes=(*trained.notes, note))
    step, note = measured.estimate(Modelled(trained.step, trained.pools))
    if step is None:
        return replace(trained, notes=(*trained.notes, note))
    sync = replace(trained.sync, seconds=step.sync_s) if trained.sync else None
    return replace(trained, step=step, sync=sync, basis="measured", spread=SPREAD)


def _trained(run: PostRun, measured: MeasuredSteps | None = None) -> PostTrained:
    """The step on pools that are given, or on the best split of all."""
    job, work = run.job, run.work
    rest = run.gpus - job.score_gpus
    if not work.rolls_out:
        return _with_pools(run, 0, rest)
    if job.colocated:
        return _with_pools(run, rest, rest if work.trains else 0)
    if not work.trains:
        return _with_pools(run, job.rollout_gpus or rest, 0)
    if job.rollout_gpus is not None:
        return _with_pools(run, job.rollout_gpus, rest - job.rollout_gpus)
    split = _split(run, rest, measured if measured and measured.of_sizes else None)
    if measured and measured.of_sizes:
        best = _with_pools(run, split[0].rollout_gpus, split[0].train_gpus)
        return replace(best, split=split)
    return _best_on_links(run, split)


def _best_on_links(run: PostRun, split: tuple[Split, ...]) -> PostTrained:
    """The step of the best split, with new weights on the links of the fabric.

    Splits are ranked by network cards, which no links beat: only those are sent over the links
    whose steps by cards are shorter than the best one by links.
    """
    best = _with_pools(run, split[0].rollout_gpus, split[0].train_gpus)
    rows = [split[0]._replace(step_s=best.step.seconds), *split[1:]]
    for place, row in enumerate(split[1:SHOWN_SPLITS], start=1):
        if row.step_s >= best.step.seconds:
            break
        trained = _with_pools(run, row.rollout_gpus, row.train_gpus)
        rows[place] = row._replace(step_s=trained.step.seconds)
        best = trained if trained.step.seconds < best.step.seconds else best
    return replace(best, split=tuple(sorted(rows, key=lambda row: row.step_s)))


def check_job(run: PostRun) -> None:
    """Refuse inputs that contradict each other.

    Raises
    ------
    InputError
        If some do: which, and the way out.
    """
    job, work = run.job, run.work
    span_of(run.asked)
    if refusal := job.contradiction or job.too_many:
        raise InputError(refusal)
    run.fixed("")
    run.model  # noqa: B018 - refuses what is no transformer before anything is asked about it
    if not (work.rolls_out or work.trains):
        raise InputError(
            "--prompts 0 and --updates 0: nothing is rolled out or trained: give one of them"
        )
    if job.score_gpus >= run.gpus:
        raise InputError(
            f"--score-gpus {job.score_gpus:,} leave none of {run.gpus:,} GPUs to roll out or train:"
            " give fewer"
        )
    if not work.rolls_out:
        if job.score_gpus:
            raise InputError(
                f"--score-gpus {job.score_gpus:,} with --prompts 0: there are no answers to score:"
                " leave one out"
            )
        return
    if job.rollout_gpus == 0 and not job.colocated:
        raise InputError(
            f"--rollout-gpus 0 with --prompts {job.prompts:,}: nobody rolls out: give GPUs,"
            " --colocated or --prompts 0"
        )
    others = (job.rollout_gpus or 0) + job.score_gpus
    if others >= run.gpus and (work.trains or others > run.gpus):
        raise InputError(
            f"--rollout-gpus {job.rollout_gpus or 0:,} and --score-gpus {job.score_gpus:,} leave"
            f" none of {run.gpus:,} GPUs to train: give fewer"
        )


def _with_pools(run: PostRun, rollout_gpus: int, train_gpus: int) -> PostTrained:
    """The step on pools of such sizes."""
    job, work = run.job, run.work
    trainer = run.trainer(train_gpus) if work.trains else None
    servers = run.servers(rollout_gpus) if work.rolls_out else None
    score_s, apart_s, rule_s = scores(run, trainer) if servers and trainer else (0.0, 0.0, 0.0)
    sync = synchronised(run, trainer, servers, on_links=True) if servers and trainer else None
    swap_bytes, swap_s = swapped(run, trainer) if servers and trainer else (0.0, 0.0)
    step = PostTrainingStep(
        work=work,
        rollouts=servers.rolled.rollouts if servers else Rollouts(),
        score_s=score_s,
        apart_score_s=apart_s,
        rule_s=rule_s,
        train_s=trainer.train_s if trainer else 0.0,
        sync_s=sync.seconds if sync else 0.0,
        swap_s=swap_s,
        colocated=job.colocated,
    )
    return PostTrained(
        run=run,
        step=step,
        trainer=trainer,
        servers=servers,
        sync=sync,
        swap_bytes=swap_bytes,
        notes=tuple(_notes(run, trainer, servers)),
    )


def scores(run: PostRun, trainer: Trainer) -> tuple[float, float, float]:
    """Seconds of scoring: on the trainer's GPUs, on GPUs of its own, on CPUs [s].

    Passes of the policy itself are the trainer's; reward and judge have ``--score-gpus`` if there
    are any.
    """
    job = run.job
    gpus = job.score_gpus or trainer.asked.cluster.gpus
    own_s = other_s = rule_s = 0.0
    for kind, model, value in job.scored_by:
        if kind in ("old", "reference"):
            own_s += trainer.forward_s
        elif kind == "reward":
            other_s += run.trainer(gpus, model).forward_s
        elif kind == "judge":
            served = run.judge(gpus, model, int(value)).found.ranked
            other_s += float(run.work.answers * int(value) / served.tokens_per_s[0])
        else:
            rule_s += value
    if job.score_gpus:
        return own_s, other_s, rule_s
    return own_s + other_s, 0.0, rule_s


def swapped(run: PostRun, trainer: Trainer) -> tuple[float, float]:
    """What leaves a GPU for the servers, colocated, and how long both ways take [B, s]."""
    job = run.job
    if not (job.colocated and job.swap):
        return 0.0, 0.0
    parts = trainer.timed.memory_parts_bytes
    states = sum(parts.get(name, 0.0) for name in ("weights", "gradients", "optimizer"))
    return states, 2 * states / (run.chip.host_bytes_per_s or PCIE5_BYTES_PER_S)


def synchronised(
    run: PostRun, trainer: Trainer, servers: ServerPool, *, on_links: bool = False
) -> Sync:
    """New weights on their way from one pool to the other; over the links of the fabric or not."""
    job = run.job
    named, changed = read_sync(job.sync)
    kind = "full" if named == "experts" and run.model.experts is None else named
    weights = wire_weights(run)
    over, width_bytes = job.sync_over, weights.width_bytes
    receivers = Receivers(
        copies=servers.copies,
        copy_gpus=servers.copy_gpus,
        expert_gpus=servers.expert_gpus,
        domain=servers.case.served.sizes[0],
    )
    sync = Sync(
        kind=kind, changed=changed, over=over, weights=weights, receivers=receivers, sent=NOTHING
    )
    if job.colocated:
        sync = _resharded(run, sync, trainer)
        if on_links and sync.sent.total:
            from netplan.setup.post_training_links import sync_on_links

            laid = sync_on_links(run, trainer, servers, sync.sent, width_bytes=width_bytes)
            if laid is not None:
                bound_s, network_bytes = laid
                sent = sync.sent._replace(network=network_bytes)
                sync = replace(sync, sent=sent, bound_s=bound_s, bound_by="links")
        return _timed(run, sync)
    sent = sync_bytes(weights, receivers, kind, changed)
    senders = _senders(run, kind, trainer)
    gathered = 0.0
    if kind in ("full", "relay") and job.sync_rate in ("tensors", "buckets"):
        # Where all GPUs of the trainer send, each sends what it has.
        shards = trainer.timed.plan.tensor * trainer.timed.plan.expert
        gathered = gather_bytes(weights, trainer.stages, shards)
    links = SyncLinks(
        senders=senders,
        nic_bytes_per_s=run.chip.network_bytes_per_s,
        hb_bytes_per_s=run.server_chip.hb_bytes_per_s,
    )
    laid = None
    if on_links and over != "storage":  # graphs and routing take a while to load
        from netplan.setup.post_training_links import sync_on_links, sync_scheme

        scheme = sync_scheme(run, servers, kind, changed)
        laid = sync_on_links(run, trainer, servers, scheme, width_bytes=width_bytes)
    entering_s, network_bytes = laid or (None, sent.network)
    if abs(network_bytes - sent.network) > SAME * sent.network:
        sent = sent._replace(network=network_bytes)  # pools that share a domain
    bound_s = _bound_s(run, sync, sent, links, entering_s)
    if kind == "delta":  # between whole copies
        whole = sync_bytes(weights, receivers, "sharded")
        more = whole.total / sent.total
        whole = whole._replace(network=more * sent.network)
        all_of_it = replace(sync, kind="sharded")
        whole_s = _bound_s(run, all_of_it, whole, links, entering_s and more * entering_s)
        bound_s = anchored_bytes(bound_s, whole_s, job.anchor)
    sync = replace(
        sync,
        sent=sent,
        gather_bytes=gathered,
        bound_s=bound_s,
        bound_by="links" if laid else "cards",
    )
    return _timed(run, sync)


NOTHING = SyncBytes(0.0, 0.0, 0.0)


def _senders(run: PostRun, kind: SyncKind, trainer: Trainer) -> int:
    """GPUs of the trainer that send: one, one a stage, or all [1]."""
    if kind in ("full", "relay"):
        if run.job.sync_rate == "tensors":
            return 1
        if run.job.sync_rate == "buckets":
            return trainer.stages
    return trainer.timed.plan.gpus


def _bound_s(
    run: PostRun, sync: Sync, sent: SyncBytes, links: SyncLinks, entering_s: float | None = None
) -> float:
    """Least seconds over the network, of whose links the busiest may be known, or storage [s]."""
    if sync.receivers is None:
        return 0.0
    nic = run.server_chip.network_bytes_per_s
    if run.job.sync_over == "storage":
        rates = read_rates(str(run.job.storage))
        return storage_bound_s(sent, sync.receivers, sync.copy_bytes, rates, nic)
    if entering_s is None:
        cards = sync.receivers.domains * sync.receivers.domain * nic
        if sync.kind != "full":  # of which each domain but the first gets its copy from another
            cards = min(cards, links.senders * links.nic_bytes_per_s)
        entering_s = sent.network / cards
    return sync_bound_s(sent, sync.receivers, links, entering_s)


def _resharded(run: PostRun, sync: Sync, trainer: Trainer) -> Sync:
    """Weights that GPUs have to get that train and serve in turn."""
    plan, receivers = trainer.timed.plan, sync.receivers
    stages, shards = plan.pipeline, plan.tensor
    if plan.zero == 3:  # noqa: PLR2004 - all weights are in shards of all replicas
        stages, shards = 1, plan.tensor * plan.data
    copy_gpus = receivers.copy_gpus if receivers else 1
    moved = reshard_bytes(sync.weights, copy_gpus, stages=stages, shards=shards)
    domain = receivers.domain if receivers else 1
    crosses = max(stages * shards, copy_gpus) > domain
    rate = run.chip.network_bytes_per_s if crosses else run.chip.hb_bytes_per_s
    total = moved * (run.gpus - run.job.score_gpus)
    sent = SyncBytes(moved, total, total if crosses else 0.0)
    return replace(sync, sent=sent, bound_s=moved / rate)


def _timed(run: PostRun, sync: Sync) -> Sync:
    """The same with its seconds: the bound, or what software reaches, never below it."""
    given, copy_bytes = run.job.sync_rate, sync.copy_bytes
    if not sync.sent.total:
        return sync
    software = run.reader.load(SYNC_SOFTWARE, "printed-2026").rates
    reaches = {
        name: (
            max(sync.bound_s, copy_bytes / (ends.high or ends.base)),
            max(sync.bound_s, copy_bytes / ends.base),
            max(sync.bound_s, copy_bytes / (ends.low or ends.base)),
        )
        for name, ends in software.items()
    }
    rate: float | None = None
    seconds = sync.bound_s
    if given in SYNC_RATES:
        rate = software[cast("Sending", given)].base
        seconds = max(seconds, copy_bytes / rate)
    elif given is not None:
        rate = read_copy_rate(str(given))
        try:
            seconds = sync_s(seconds, copy_bytes, rate)
        except InputError as error:
            raise InputError(f"--sync-rate {given}: {error}") from None
    return replace(sync, seconds=seconds, rate=rate, reaches_s=reaches)


def _notes(run: PostRun, trainer: Trainer | None, servers: ServerPool | None) -> Iterator[str]:
    """What is to be known of a step, a sentence each."""
    work, job = run.work, run.job
    if servers is None:
        return
    if job.score_gpus and not {"reward", "judge"} & {kind for kind, *_ in job.scored_by}:
        yield (
            f"{counted(job.score_gpus, 'GPU')} of --score-gpus are idle: neither reward nor judge"
            " scores answers."
        )
    lengths = work.lengths
    if (most := job.prompt_tokens + lengths.cap) > (run.model.context_length or most):
        yield (
            f"Prompts and the longest answers have {most:,} tokens, and the context of"
            f" {run.model.name} has {run.model.context_length:,}."
        )
    if servers.rolled.servers.replicas > work.started:
        idle = servers.rolled.servers.replicas - work.started
        yield f"{counted(work.started, 'answer')} of a step: {idle:,} copies of the model are idle."
    if job.sync == "experts" and run.model.experts is None:
        yield f"{run.model.name} has no experts: --sync experts sends all of it (full)."
    if trainer and job.colocated and job.swap and not run.chip.host_bytes_per_s:
        yield (
            f"The trainer's states leave over PCI Express 5.0 x16, {si(PCIE5_BYTES_PER_S, 'B/s')} "
            f" each way, since the file of {run.chip.name} names no link: --set"
            " accelerator.host_bytes_per_s=."
        )
    if work.mode == "async":
        yield (
            "Answers in flight see new weights on their way: their caches are not computed again"
            " here."
        )


def units_of(run: PostRun) -> int:
    """GPUs of a server: a box, or an HB domain where there are four or more [1]."""
    domain = run.asked.cluster.hb_size or run.chip.hb_size
    boxed = min(domain, run.asked.cluster.host_gpus or domain)
    if domain <= BOX or run.gpus >= FEW * domain:
        return min(domain, run.gpus)
    return boxed if boxed < domain else TRAY


BOX, TRAY, FEW = 8, 4, 4
"""GPUs of the largest box and of a tray of a rack, and domains from which on pools are whole
ones [1]."""


def _split(run: PostRun, gpus: int, measured: MeasuredSteps | None) -> tuple[Split, ...]:
    """Splits that were tried, the best first; the one that is told by number is the first.

    Raises
    ------
    InfeasibleError
        If no two pools fit.
    """
    unit = units_of(run)
    least = max(MIN_GPUS, run.asked.cluster.hb_size or 0)  # no smaller cluster is asked about
    sizes = [size for size in range(unit, gpus, unit) if least <= size <= gpus - least]
    if not sizes:
        raise InputError(
            f"{gpus:,} GPUs in servers of {unit:,} hold no two pools of {least:,} or more: give"
            " more GPUs, or --colocated"
        )
    stride = 1
    while len(sizes[stride - 1 :: stride]) > MOST_SIZES // 2:
        stride *= 4
    tried = _ranked(run, gpus, sizes[stride - 1 :: stride], measured)
    while stride > 1:
        near, width = tried[0].rollout_gpus, stride * unit
        stride //= 4
        finer = [size for size in sizes[:: max(1, stride)] if abs(size - near) <= width]
        others = {split.rollout_gpus for split in tried[:SHOWN_SPLITS]}
        tried = _ranked(run, gpus, sorted({*finer, *others}), measured)
    return tried


def _ranked(
    run: PostRun, gpus: int, sizes: Sequence[int], measured: MeasuredSteps | None
) -> tuple[Split, ...]:
    """Splits into pools of these sizes and what they leave, the best first."""
    servers: dict[int, ServerPool] = {}
    trainers: dict[int, Trainer] = {}
    refusals: list[InfeasibleError] = []
    every = sorted({*sizes, *(gpus - size for size in sizes)} - {0})
    for size in with_progress(every, lambda size: f"pools of {size:,} GPUs"):
        try:
            servers[size] = run.servers(size)
        except InfeasibleError as error:
            refusals.append(error)
        try:
            trainers[size] = run.trainer(size)
        except InfeasibleError as error:
            refusals.append(error)
    pairs = [(size, other) for size in servers for other in trainers if size + other <= gpus]
    if not pairs:
        raise InfeasibleError(f"no split of {gpus:,} GPUs has two pools: {refusals[-1]}")
    rollout, train = [*servers], [*trainers]
    rolled_s = np.array([servers[size].rolled.rollouts.seconds for size in rollout])
    train_s = np.array([trainers[size].train_s for size in train])
    scored = [scores(run, trainers[size]) for size in train]

    def step_s(index: int, other: int) -> float:
        pool, trainer = servers[rollout[index]], trainers[train[other]]
        score_s, apart_s, rule_s = scored[other]
        step = PostTrainingStep(
            work=run.work,
            rollouts=pool.rolled.rollouts,
            score_s=score_s,
            apart_score_s=apart_s,
            rule_s=rule_s,
            train_s=trainer.train_s,
            sync_s=synchronised(run, trainer, pool).seconds,
        )
        if measured:
            step = measured.at_sizes(step, (rollout[index], train[other]))
        return step.seconds

    def steps(first: Ints, second: Ints) -> Floats:
        return np.array([*map(step_s, first.tolist(), second.tolist())])

    times = PoolTimes(np.array(rollout), rolled_s), PoolTimes(np.array(train), train_s)
    return best_split(gpus, *times, step_of=steps)
