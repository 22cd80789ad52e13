"""Published figures of shared clusters against streams of jobs.

Laws of `traffic/streams` stand beside the means and medians of AcmeTrace (InternLM; Hu et al.,
NSDI 2024) that they are fitted to: that they are near shows that three numbers of a lognormal and
two of sizes are enough for four of a cluster.

MonkeyTree (arXiv:2602.08296, abstract) bounds the fragments of leaves by migration. It prints
neither its jobs nor its leaves: 120 jobs of Seren's law stand for them, all in rings, placed
scattered so that links are shared, on leaves whose trunks hold two rings, the bound that it proves.

Arnold (arXiv:2509.15940, abstract) keeps groups of a job near each other, Kant (arXiv:2510.01256,
abstract) packs and backfills. What they print lacks the jobs, and what they are better than: the
same 120 jobs stand for them, packed against the lowest free nodes, and backfilled against a queue
in which all wait for its head. Directions can be held to that, numbers cannot.
"""

from collections.abc import Iterator
from functools import cache

import numpy as np

from netplan.answers.jobs_answer import SLOWED
from netplan.arrays import Floats
from netplan.published.checks import Check, check, claim, published
from netplan.simulation.job_clusters import LeafTrunks
from netplan.simulation.job_laws import STREAMS, drawn_trace, running_jobs
from netplan.simulation.job_outcomes import JobStream
from netplan.simulation.job_places import PlacementPolicy
from netplan.simulation.jobs import Queue, StreamRules, run_stream

FIGURES = {
    "mean run [s]": "run_s",
    "median run [s]": "median_s",
    "mean GPUs": "gpus",
    "mean GPU time [GPU s]": "gpu_s",
}
"""Figures of a law by what they are called in the table."""

JOBS, LOAD, SERVER_GPUS, FRAGMENTS = 120, 0.8, 8, 2
PRINTED_GAIN, PRINTED_LATE, LATEST = 0.14, 0.05, 99
"""Of the abstract: completion below the next best; how late; of which percentile [1, 1, %]."""

CLUSTERS = {1024: (16, 8, 4.0), 2048: (8, 32, 16.0)}
"""Leaves, nodes a leaf and oversubscription by GPUs: trunks of two nodes' cards each [1]."""

QUEUES: tuple[Queue, Queue] = ("backfill", "fifo")
PRINTED_SPREAD, PRINTED_FASTER, PRINTED_TAKEN = 1.67, 0.106, (0.036, 0.041)
"""Of the abstracts: spread of groups, speed, GPUs allocated and occupied, against others [1]."""


def job_stream_checks() -> Iterator[Check]:
    """Laws of streams, and what migration does to jobs.

    Yields
    ------
    Check
        Four figures of three clusters, then three of MonkeyTree, two of Arnold, two of Kant.
    """
    for row in published("job-laws"):
        law = STREAMS.load(row["stream"]).law
        if law is None:
            continue
        value = law.means()[FIGURES[row["name"]]]
        digits = len(row["printed"].partition(".")[2])
        name = f"{row['stream']}: {row['name']}"
        yield check(name, row["source"], row["printed"], f"{value:.{digits}f}")
    yield from _monkeytree()
    yield from _arnold()
    yield from _kant()


def _monkeytree() -> Iterator[Check]:
    """Completion with moved jobs, beside jobs that stay and links that cost nothing."""
    stays, moved = (_completion_s(_ran(1024, most)) for most in (None, FRAGMENTS))
    gain = 1 - float(moved.mean() / stays.mean())
    got, name = f"{100 * gain:.0f} % below jobs that stay", "mean completion with migration"
    yield claim(f"1,024 GPUs at 4:1: {name}", got, met=gain > 0, gap=gain / PRINTED_GAIN - 1)
    ideal, moved = (
        _completion_s(_ran(2048, most, sharing=most is not None)) for most in (None, FRAGMENTS)
    )
    late = float(np.percentile(moved, LATEST) / np.percentile(ideal, LATEST)) - 1
    name = "2,048 GPUs at 16:1: p99 of completion with migration"
    yield claim(name, f"{100 * late:.1f} % above", met=late <= PRINTED_LATE)
    shared = _ran(2048, None)
    slowed = shared.slowdown > SLOWED
    several = shared.trace.gpus > SERVER_GPUS
    yield claim(
        "jobs that congestion slows",
        f"{100 * slowed.mean():.0f} % ({100 * slowed[several].mean():.0f} % of more than a node)",
    )


def _arnold() -> Iterator[Check]:
    """Leaves and speed of jobs of several nodes, packed and on the lowest free nodes."""
    packed, first = (_ran(1024, None, policy=policy) for policy in ("packed", "first"))
    several = packed.trace.gpus > SERVER_GPUS
    spread = float(first.leaves[several].mean() / packed.leaves[several].mean())
    name = "spread of the nodes of a job: lowest free ones over near ones"
    yield claim(name, f"{spread:.2f} leaves", met=spread > 1, gap=spread / PRINTED_SPREAD - 1)
    faster = float(np.mean(1 / packed.slowdown[several]) / np.mean(1 / first.slowdown[several])) - 1
    got, gap = f"{100 * faster:.1f} % above lowest free ones, at 4:1", faster / PRINTED_FASTER - 1
    yield claim("speed of jobs on near nodes", got, met=faster > 0, gap=gap)


def _kant() -> Iterator[Check]:
    """GPUs taken with backfilling, over those in a queue whose head all others wait for."""
    shares = [_taken(_ran(1024, None, policy="packed", queue=queue)) for queue in QUEUES]
    names = "allocated GPUs (GAR), median over time", "occupied GPU time (SOR)"
    for name, printed, ours in zip(names, PRINTED_TAKEN, zip(*shares, strict=True), strict=True):
        gain = ours[0] / ours[1] - 1
        got = f"{100 * gain:.1f} % more by backfilling"
        yield claim(name, got, met=gain > 0, gap=gain / printed - 1)


def _taken(ran: JobStream) -> tuple[float, float]:
    """Median and mean share of the GPUs that is taken until the last job comes [1]."""
    share = ran.occupied.gpus[:-1] / ran.total_gpus
    last_s = ran.last_arrival_s
    lasts_s = np.diff(np.minimum(ran.occupied.time_s, last_s))
    order = np.argsort(share, kind="stable")
    middle = np.searchsorted(np.cumsum(lasts_s[order]), last_s / 2)
    return float(share[order][middle]), float(share @ lasts_s / last_s)


@cache
def _ran(
    gpus: int,
    most: int | None,
    *,
    sharing: bool = True,
    policy: PlacementPolicy = "scattered",
    queue: Queue = "backfill",
) -> JobStream:
    """The stream on a cluster, with or without migration and sharing."""
    leaves, nodes, ratio = CLUSTERS[gpus]
    stream = STREAMS.load("seren", overrides={"stream.all_to_all_share": "0"})
    trace = drawn_trace(stream, JOBS, LOAD, (gpus, SERVER_GPUS), 0)
    cluster = LeafTrunks(leaves, nodes, SERVER_GPUS, ratio, sharing=sharing)
    rules = StreamRules(policy, queue, migrate=most, migration_s=stream.migration_s)
    begun = running_jobs(trace, LOAD, cluster, rules, 0)
    return run_stream(trace, cluster, rules=rules, begun=begun)


def _completion_s(ran: JobStream) -> Floats:
    """From the arrival of each job to its end, shape (jobs,) [s]."""
    return ran.end_s - ran.trace.arrival_s
