"""Streams of jobs over time: how a cluster fills, how long jobs wait, what shared links cost them.

Jobs come by a trace, wait in a queue, are placed by a policy (`netplan.simulation.job_places`), and
slow each other on the uplinks of leaves that they share:

===========  =======================================================================================
fifo         the head of the queue starts, or all wait
backfill     behind a head that does not fit, later jobs start if they fit now and end before its
             shadow time: when it would fit if nothing else started and running jobs ended one after
             another by what is left of them alone (EASY; Mu'alem and Feitelson, IEEE TPDS 12, 2001)
sjf          shortest first; the head starts, or all wait
===========  =======================================================================================

A trunk of a leaf carries nodes / ratio rates of a node's cards. Jobs that stand on several leaves
have rates R <= 1 that are max-min fair over these trunks, each as one flow, whether or not their
trace says that they communicate; a job of exposed communication c runs at 1 / (1 - c + c / R) of
its speed alone. Speeds change at arrivals and ends only, and a switch by hash is not modelled here:
trunks are sprayed.

A job stands on a leaf as a fragment if it stands on others, too. Where migration bounds fragments,
jobs are moved at every start that breaks the bound (`netplan.simulation.job_moves`), as no end
does; a job that is moved stands still for a while once, with its links.

Some jobs may run from the begin on; they take GPUs and links, and no figure is about them.

It leaves out priorities, quotas, preemption, elastic jobs, failures, and the phases of a job, by
which several may avoid each other.
"""

from collections.abc import Mapping
from math import inf
from os import PathLike
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Floats, Ints
from netplan.errors import InputError
from netplan.progress import with_progress
from netplan.simulation.fair_rates import FlowLinks, filled_rates
from netplan.simulation.job_clusters import LeafTrunks
from netplan.simulation.job_links import FabricDemand
from netplan.simulation.job_moves import fewest_moves, moves
from netplan.simulation.job_outcomes import JobStream, Moves, Occupied
from netplan.simulation.job_places import IN_BOXES, JobPlace, Occupancy, PlacementPolicy
from netplan.simulation.job_traces import JobTrace, read_trace

Queue = Literal["fifo", "backfill", "sjf"]
"""Who of those that wait may start."""

SAME_TIME_S = 1e-9
"""Arrivals and ends that are closer are one event [s]."""

FULL_RATE = 1 - 1e-12
"""Rates above this are 1: rounding has taken the rest [1]."""

ASSUMED_COMM = 0.2
"""Exposed communication of jobs over several HB domains whose trace does not say: assumed [1]."""


class StreamRules(Struct, frozen=True):
    """How jobs are queued and placed.

    Parameters
    ----------
    policy
        How places are chosen.
    queue
        Who of those that wait may start.
    seed
        Of random places.
    estimate
        What the scheduler believes of durations, over what they are [1].
    migrate
        Most fragments of a leaf; no migration if None [1].
    migration_s
        How long a moved job stands still [s].
    """

    policy: PlacementPolicy = "packed"
    queue: Queue = "backfill"
    seed: int = 0
    estimate: float = 1.0
    migrate: int | None = None
    migration_s: float = 0.0


class InitialJobs(Struct, frozen=True, eq=False):
    """Jobs that run when a stream begins.

    Parameters
    ----------
    jobs
        The jobs; when they arrived does not matter.
    left_s
        What is left of each alone, shape (jobs,) [s].
    places
        Where each stands.
    """

    jobs: JobTrace
    left_s: Floats
    places: tuple[JobPlace, ...]


class _Stream:
    """Jobs on their way; those that ran at the begin are numbered behind the others."""

    def __init__(
        self,
        trace: JobTrace,
        cluster: LeafTrunks,
        rules: StreamRules,
        free: Occupancy,
        begun: InitialJobs | None,
    ) -> None:
        self.trace, self.cluster, self.rules, self.free = trace, cluster, rules, free
        jobs = (trace,) if begun is None else (trace, begun.jobs)
        self.gpus = np.concatenate([part.gpus for part in jobs])
        self.comm = np.concatenate([part.comm for part in jobs])
        assumed = np.where(self.gpus <= cluster.gpus, 0.0, ASSUMED_COMM)
        self.comm = np.where(np.isnan(self.comm), assumed, self.comm)
        self.all_to_all = np.concatenate([part.all_to_all for part in jobs])
        self.weight = np.concatenate([part.weights for part in jobs])
        self.duration_s = np.concatenate([part.duration_s for part in jobs]).astype(np.float64)
        self.left_s = self.duration_s.copy()
        self.begun_s = self.left_s
        count, every = len(trace.gpus), len(self.gpus)
        self.speed = np.ones(every)
        self.start_s, self.end_s = np.full(every, np.nan), np.full(every, np.nan)
        self.still_until_s = np.zeros(every)
        self.leaves, self.first_node, self.taken = np.zeros((3, every), np.int64)
        self.placed = np.empty(0, np.int64)
        # Those that wait, by rank: jobs stand in the order of their arrivals.
        by_length = np.lexsort((np.arange(count), trace.duration_s))
        self.job_of_rank = by_length if rules.queue == "sjf" else np.arange(count)
        self.rank = np.argsort(self.job_of_rank)
        self.waiting = np.empty(0, np.int64)
        self.places: dict[int, JobPlace] = {}
        self.asked: dict[int, tuple[Ints, Floats]] = {}
        self.spread_changed = False
        self.fragments = np.zeros(len(free.whole), np.int64)
        self.fragments_most = 0
        self.moves = Moves()
        self.links: FabricDemand | LeafTrunks = cluster.links or cluster
        self.sharing = cluster.sharing and rules.policy not in IN_BOXES
        if begun is not None:
            self.left_s[count:] = begun.left_s
            self.begun_s = self.left_s.copy()
            for job, place in enumerate(begun.places, count):
                free.take(place)
                self._stand(job, place, 0.0)
            self._move(0.0)

    def run(self) -> JobStream:
        """Go from event to event until all jobs have ended."""
        arrival_s, free = self.trace.arrival_s, self.free
        come, count, last_s = 0, len(arrival_s), float(arrival_s[-1])
        now_s = gpu_s = early_gpu_s = useful_gpu_s = broken_s = refused_s = 0.0
        stretches: list[tuple[float, int, int]] = []
        started = iter(
            with_progress(range(count), lambda job: f"{job:,} of {count:,} jobs have come")
        )
        while come < count or len(self.waiting) or len(self.placed):
            self._share(now_s)
            placed = self.placed
            # The next end of a job, or of a pause.
            speed, still_s = self.speed[placed], self.still_until_s[placed] - now_s
            moving = speed > 0
            step_s = float((self.left_s[placed][moving] / speed[moving]).min(initial=inf))
            step_s = min(step_s, float(still_s[~moving].min(initial=inf)))
            if come < count:
                step_s = min(step_s, float(arrival_s[come]) - now_s)
            stretches.append((now_s, free.used, len(self.waiting)))
            gpu_s += step_s * free.used
            early_s = max(0.0, min(step_s, last_s - now_s))
            early_gpu_s += early_s * free.used
            useful_gpu_s += early_s * float(self.gpus[placed] @ self.speed[placed])
            broken_s += step_s * (free.broken / free.node_count)
            # The head of the queue waits though enough GPUs are free.
            if (free.total - free.used >= self.gpus[self.job_of_rank[self.waiting[:1]]]).any():
                refused_s += step_s
            now_s += step_s
            self.left_s[placed] -= step_s * self.speed[placed]
            self._end(now_s)
            arrived = come
            while come < count and arrival_s[come] <= now_s + SAME_TIME_S:
                come += 1
                next(started, None)
            if come > arrived:
                ranks = np.sort(np.concatenate([self.waiting, self.rank[arrived:come]]))
                self.waiting = ranks
            self._start(now_s)
        next(started, None)
        begun = slice(count, None)
        rests = (self.taken - self.gpus)[begun] * self.end_s[begun]
        times, used, waiting = zip(*stretches, (now_s, 0, 0), strict=True)
        return JobStream(
            self.trace,
            self.start_s[:count],
            self.end_s[:count],
            self.leaves[:count],
            self.first_node[:count],
            self.taken[:count],
            now_s,
            gpu_s,
            early_gpu_s,
            useful_gpu_s,
            broken_s,
            refused_s,
            float(rests.sum()),
            float((self.gpus * self.begun_s)[begun].sum()),
            self.fragments_most,
            self.free.total,
            Occupied(np.array(times), np.array(used), np.array(waiting)),
            self.moves,
        )

    def _end(self, now_s: float) -> None:
        """Let the jobs go that have no work left."""
        least_s = SAME_TIME_S * self.duration_s[self.placed] + SAME_TIME_S
        done = self.left_s[self.placed] <= least_s
        for job in self.placed[done].tolist():
            place = self.places.pop(job)
            self.free.give(place)
            self.end_s[job] = now_s
            if self.asked.pop(job, None) is not None:
                self.fragments[place.leaves] -= 1
                self.spread_changed = True
        self.placed = self.placed[~done]

    def _start(self, now_s: float) -> None:
        """Start the jobs that the queue lets start."""
        while len(self.waiting) and self._try(int(self.job_of_rank[self.waiting[0]]), now_s):
            self.waiting = self.waiting[1:]
        if self.rules.queue != "backfill" or len(self.waiting) < 2:  # noqa: PLR2004 - a head and others
            return
        behind = self.job_of_rank[self.waiting[1:]]
        fitting = behind[self.free.fits(self.gpus[behind])]
        if not len(fitting):
            return
        shadow_s = self._shadow(int(self.job_of_rank[self.waiting[0]]), now_s)
        believed_s = self.rules.estimate * self.duration_s[fitting]
        in_time = fitting[now_s + believed_s <= shadow_s]
        started = [job for job in in_time.tolist() if self._try(job, now_s)]
        self.waiting = self.waiting[~np.isin(self.waiting, self.rank[started])]

    def _try(self, job: int, now_s: float) -> bool:
        """Start a job if it finds a place; whether it did."""
        place = self.free.place(int(self.gpus[job]))
        if place is None:
            return False
        self.free.take(place)
        self._stand(job, place, now_s)
        self._move(now_s)
        return True

    def _stand(self, job: int, place: JobPlace, now_s: float) -> None:
        """Let a job run where it has been put."""
        self.start_s[job] = now_s
        self.leaves[job], self.first_node[job] = len(place.leaves), place.nodes[0]
        self.taken[job] = len(place.nodes) * place.gpus
        self.placed = np.append(self.placed, job)
        self._put(job, place)

    def _put(self, job: int, place: JobPlace) -> None:
        """Note where a job stands, and the links that it asks for."""
        before = self.places.get(job)
        if self.asked.pop(job, None) is not None and before is not None:
            self.fragments[before.leaves] -= 1
            self.spread_changed = True
        self.places[job] = place
        if len(place.leaves) > 1:
            talks_to_all = bool(self.all_to_all[job])
            self.asked[job] = self.links.demand(place, all_to_all=talks_to_all)
            self.fragments[place.leaves] += 1
            self.spread_changed = True
        self.speed[job] = 1.0

    def _move(self, now_s: float) -> None:
        """Move jobs where more stand on a leaf and on others than migration allows."""
        most = self.rules.migrate
        if most is not None and self.fragments.max() > most:
            self._migrate(most, now_s)
        self.fragments_most = max(self.fragments_most, int(self.fragments.max()))

    def _migrate(self, most: int, now_s: float) -> None:
        """Move jobs of whole nodes, with the fewest moves of nodes that are moved."""
        kinds = self.free.kinds
        jobs, kind_of_job = [], []
        for job in self.placed.tolist():
            place = self.places[job]
            number = int(self.free.kind_of_node[place.nodes[0]])
            if place.gpus == kinds[number].gpus:
                jobs.append(job)
                kind_of_job.append(number)
        stand = np.zeros((len(jobs), len(self.fragments)), np.int64)
        for row, job in enumerate(jobs):
            stand[row, self.places[job].leaves] = self.places[job].nodes_a_leaf
        of_kind = np.array(kind_of_job) == np.arange(len(kinds))[:, None]
        room = np.array([kind.whole for kind in kinds]) + of_kind @ stand
        moved = fewest_moves(stand, room, most, np.array(kind_of_job))
        changed = np.flatnonzero((moved.nodes != stand).any(axis=1)).tolist()
        stays: dict[int, Ints] = {}
        for row in changed:
            place = self.places[jobs[row]]
            self.free.give(place)
            leaf = place.nodes // self.free.nodes
            begins = np.searchsorted(leaf, leaf)
            stays[row] = place.nodes[np.arange(len(leaf)) - begins < moved.nodes[row][leaf]]
        for row in changed:
            if len(stays[row]):
                self.free.take(kinds[kind_of_job[row]].place_on(stays[row]))
        for row in changed:
            kind = kinds[kind_of_job[row]]
            lacks = moved.nodes[row] - np.bincount(
                stays[row] // kind.nodes, minlength=stand.shape[1]
            )
            new = [
                np.flatnonzero(kind.free[leaf] == kind.gpus)[: lacks[leaf]] + leaf * kind.nodes
                for leaf in np.flatnonzero(lacks).tolist()
            ]
            more = kind.place_on(np.concatenate([*new, np.empty(0, np.int64)]))
            if len(more.nodes):
                self.free.take(more)
            self._put(jobs[row], kind.place_on(np.concatenate([stays[row], more.nodes])))
            self.still_until_s[jobs[row]] = now_s + self.rules.migration_s
        self.spread_changed = True
        before = self.moves
        self.moves = Moves(
            before.nodes + moves(stand, moved.nodes),
            before.pauses_s + len(changed) * self.rules.migration_s,
            max(before.bound, moved.bound),
            before.unproved + (not moved.proved),
        )

    def _shadow(self, head: int, now_s: float) -> float:
        """When the head fits if nothing else starts, by what is left of running jobs alone [s]."""
        placed = self.placed
        held = [self.places[job] for job in placed.tolist()]
        nodes = np.concatenate([place.nodes for place in held])
        sizes = [len(place.nodes) for place in held]
        ends_s = np.repeat(self.rules.estimate * self.left_s[placed], sizes)
        given = np.repeat([place.gpus for place in held], sizes)
        return now_s + self.free.fits_after(int(self.gpus[head]), nodes, given, ends_s)

    def _share(self, now_s: float) -> None:
        """Find the speeds of jobs on several leaves where those have changed; hold moved ones."""
        still = self.placed[self.still_until_s[self.placed] > now_s + SAME_TIME_S]
        if self.spread_changed and self.sharing:
            self._rates()
        if self.rules.migrate is None:
            return
        going = self.placed[self.speed[self.placed] == 0]
        if len(going) and self.sharing:
            self._rates()
        elif len(going):
            self.speed[going] = 1.0
        for job in still.tolist():
            self.speed[job] = 0.0

    def _rates(self) -> None:
        """Max-min fair rates of all jobs on several leaves, and the speeds that follow."""
        self.spread_changed = False
        self.speed[self.placed] = 1.0
        jobs = np.array(sorted(self.asked), np.int64)
        if not len(jobs):
            return
        asked = [self.asked[job] for job in jobs.tolist()]
        begins = np.concatenate([[0], np.cumsum([len(links) for links, _ in asked])])
        links, shares = (np.concatenate([pair[i] for pair in asked]) for i in range(2))
        flows = FlowLinks(begins, links, shares)
        rates = filled_rates(self.links.capacity, flows, self.weight[jobs], np.ones(len(jobs)))
        rates = np.where(rates >= FULL_RATE, 1.0, rates)
        comm = self.comm[jobs]
        self.speed[jobs] = 1 / (1 - comm + comm / rates)


def run_stream(  # noqa: PLR0913 - the words of a user, each with its default
    trace: JobTrace,
    cluster: LeafTrunks,
    *,
    policy: PlacementPolicy = "packed",
    queue: Queue = "backfill",
    seed: int = 0,
    rules: StreamRules | None = None,
    begun: InitialJobs | None = None,
) -> JobStream:
    """Run a stream of jobs over a cluster.

    Parameters
    ----------
    trace
        The jobs.
    cluster
        Where they run.
    policy
        How places are chosen.
    queue
        Who of those that wait may start.
    seed
        Of random places.
    rules
        These three and rarer ones, in their place.
    begun
        Jobs that run at first; the cluster is empty if None.

    Returns
    -------
    JobStream
        When each started and ended, and what was taken meanwhile.

    Raises
    ------
    InputError
        If a job never fits, or a word is unknown.
    """
    known = StreamRules(policy, queue, seed) if rules is None else rules
    if known.queue not in get_args(Queue):
        raise InputError(f"no queue is called {known.queue!r}: give {', '.join(get_args(Queue))}")
    free = cluster.empty(known.policy, known.seed)
    large = too_large(trace, free)
    if large.any():
        raise InputError(refusal(trace, int(np.flatnonzero(large)[0]), free, known.policy))
    return _Stream(trace, cluster, known, free, begun).run()


def too_large(trace: JobTrace, free: Occupancy) -> Bools:
    """Jobs that never fit.

    Parameters
    ----------
    trace
        The jobs.
    free
        The empty cluster.

    Returns
    -------
    ndarray
        Whether each does not, shape (jobs,).
    """
    sizes, where = np.unique(trace.gpus, return_inverse=True)
    return np.array([free.most(int(size)) == 0 for size in sizes])[where]


def refusal(trace: JobTrace, job: int, free: Occupancy, policy: str) -> str:
    """Why a job never fits.

    Parameters
    ----------
    trace, job
        The jobs, and its number.
    free
        The empty cluster.
    policy
        How places are chosen.

    Returns
    -------
    str
        What it asks for, of what, and what to do.
    """
    asked, total = int(trace.gpus[job]), free.total
    nodes = int(free.nodes_of(trace.gpus[job : job + 1])[0])
    asks = f"job {trace.ids[job]} asks for {asked:,} of {total:,} GPUs"
    step = "give a larger cluster, or drop such jobs by --set stream.skip_too_large=true"
    if nodes > free.node_count and asked <= total and not nodes * free.gpus <= total:
        asks += f", in {nodes:,} whole nodes of {free.gpus:,}"
    elif asked <= total:
        asks += f", which placement {policy} puts nowhere in the empty cluster"
    return f"{asks}: {step}"


def stream(  # noqa: PLR0913 - a cluster, and how jobs are put on it
    trace: str | PathLike[str],
    *,
    leaves: int,
    nodes: int,
    gpus: int,
    ratio: float,
    policy: PlacementPolicy,
    queue: Queue,
    arrival_scale: float = 1.0,
) -> Mapping[str, str | float]:
    r"""What a trace of jobs makes of a cluster: its figures.

    Parameters
    ----------
    trace
        Path of a CSV file with ``id``, ``arrival`` [s], ``gpus``, ``duration`` [s], ``comm`` [1]
        and ``pattern`` (`netplan.simulation.job_traces`).
    leaves, nodes, gpus
        Leaves, nodes a leaf, GPUs a node [1].
    ratio
        Rate of the cards below a leaf over that of its uplinks [1].
    policy
        packed, scattered, first, random or domain.
    queue
        fifo, backfill or sjf.
    arrival_scale
        Factor on all arrivals [1].

    Returns
    -------
    mapping
        The inputs by their names, and the figures of :meth:`JobStream.figures`.

    Raises
    ------
    InputError
        If the trace or a value is none: file and line, or what is allowed.

    Examples
    --------
    Of two jobs on one node of 8 GPUs the second waits 60 s for the first:

    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "two.csv"
    >>> _ = path.write_text("id,arrival,gpus,duration,comm,pattern\n0,0,8,100,0,ring\n"
    ...                     "1,40,8,50,0,ring\n", encoding="utf-8")
    >>> figures = stream(path, leaves=1, nodes=1, gpus=8, ratio=1, policy="packed", queue="fifo")
    >>> figures["mean_wait"], figures["makespan"], figures["sor"]
    (30.0, 150.0, 1.0)
    """
    if not 0 <= arrival_scale < inf:
        raise InputError(f"arrivals cannot be scaled by {arrival_scale:g}: give 0 or more")
    jobs = read_trace(Path(trace))
    cluster = LeafTrunks(int(leaves), int(nodes), int(gpus), float(ratio))
    ran = run_stream(jobs.later(float(arrival_scale)), cluster, policy=policy, queue=queue)
    inputs: dict[str, str | float] = {
        "trace": jobs.name,
        "arrival_scale": arrival_scale,
        "leaves": leaves,
        "nodes": nodes,
        "gpus": gpus,
        "ratio": ratio,
        "policy": policy,
        "queue": queue,
    }
    return inputs | ran.figures()
