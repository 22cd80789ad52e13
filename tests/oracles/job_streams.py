"""A stream of jobs in plain Python: every event looks at every node, job and trunk again."""

from dataclasses import dataclass, field
from math import inf
from random import Random


@dataclass
class Job:
    """A job of the oracle; ``at`` are the GPUs that it has of (leaf, node)."""

    number: int
    arrival: float
    gpus: int
    duration: float
    comm: float
    to_all: bool
    left: float = 0.0
    start: float = inf
    end: float = inf
    at: dict[tuple[int, int], int] = field(default_factory=dict)
    leaves: int = 0


class Nodes:
    """Free GPUs by leaf and node; nodes may have several sizes, of which a job takes one."""

    def __init__(self, sizes: dict[tuple[int, int], int]) -> None:
        self.sizes, self.free = sizes, dict(sizes)

    def whole(self, size: int) -> dict[int, list[tuple[int, int]]]:
        """Free nodes of a size by leaf."""
        nodes: dict[int, list[tuple[int, int]]] = {leaf: [] for leaf, _ in self.free}
        for place in sorted(self.free):
            if self.free[place] == self.sizes[place] == size:
                nodes[place[0]].append(place)
        return nodes

    def choose(self, gpus: int, policy: str, random: Random) -> dict[tuple[int, int], int]:
        """GPUs of a job by node; nothing if it does not fit."""
        tries = []
        for size in set(self.sizes.values()):
            nodes = -(-gpus // size)
            tries.append((nodes * size - gpus if nodes > 1 else 0, nodes, size))
        for _, nodes, size in sorted(tries):
            chosen = self.part(gpus, size, policy, random)
            if nodes > 1:
                taken = self.several(nodes, size, policy, random)
                chosen = dict.fromkeys(taken, size)
            if chosen:
                return chosen
        return {}

    def part(self, gpus: int, size: int, policy: str, random: Random) -> dict[tuple[int, int], int]:
        """A part of one node of a size."""
        mine = {place: free for place, free in self.free.items() if self.sizes[place] == size}
        fits = sorted(place for place, free in mine.items() if free >= gpus)
        if not fits:
            return {}
        of_leaf = {leaf: 0 for leaf, _ in mine}
        for (leaf, _), free in mine.items():
            of_leaf[leaf] += free
        chosen = {
            "first": lambda: fits[0],
            "random": lambda: random.choice(fits),
            "packed": lambda: min(fits, key=lambda place: (mine[place], place)),
            "domain": lambda: min(fits, key=lambda place: (mine[place], place)),
            "scattered": lambda: min(
                fits, key=lambda place: (-of_leaf[place[0]], -mine[place], place)
            ),
        }[policy]()
        return {chosen: gpus}

    def several(self, need: int, size: int, policy: str, random: Random) -> list[tuple[int, int]]:
        """Whole nodes of a size."""
        whole = self.whole(size)
        every = [place for leaf in sorted(whole) for place in whole[leaf]]
        if len(every) < need:
            return []
        if policy == "domain" and max(len(nodes) for nodes in whole.values()) < need:
            return []
        if policy == "first":
            return every[:need]
        if policy == "random":
            return random.sample(every, need)
        taken: list[tuple[int, int]] = []
        while len(taken) < need:
            rest = need - len(taken)
            most = min(whole, key=lambda leaf: (-len(whole[leaf]), leaf))
            holds = [leaf for leaf in whole if len(whole[leaf]) >= rest]
            if policy == "scattered":
                taken.append(whole[most].pop(0))
            elif holds:
                taken += whole[min(holds, key=lambda leaf: (len(whole[leaf]), leaf))][:rest]
            else:
                taken += whole[most]
                whole[most] = []
        return taken


def wanted(job: Job) -> dict[int, float]:
    """Rates of cards that a job wants on the trunk of each leaf."""
    count: dict[int, int] = {}
    for leaf, _ in job.at:
        count[leaf] = count.get(leaf, 0) + 1
    if len(count) == 1:
        return {}
    nodes, cards = len(job.at), max(job.at.values())
    return {
        leaf: cards * (here * (nodes - here) / (nodes - 1) if job.to_all else 1.0)
        for leaf, here in count.items()
    }


def speeds(running: list[Job], trunk: dict[int, float]) -> dict[int, float]:
    """Speed of every job where trunks of leaves are shared, one full trunk after another."""
    loads = {job.number: wanted(job) for job in running}
    rates: dict[int, float] = {}
    free: dict[int, float] = {leaf: trunk[leaf] for load in loads.values() for leaf in load}
    while len(rates) < len(running):
        waiting = [number for number in loads if number not in rates]
        need = {leaf: sum(loads[number].get(leaf, 0.0) for number in waiting) for leaf in free}
        levels = {leaf: free[leaf] / need[leaf] for leaf in free if need[leaf]}
        full = min(levels, key=lambda leaf: levels[leaf], default=None)
        if full is None or levels[full] >= 1 - 1e-12:
            rates |= dict.fromkeys(waiting, 1.0)
            break
        for number in [number for number in waiting if full in loads[number]]:
            rates[number] = levels[full]
            for leaf, load in loads[number].items():
                free[leaf] = max(0.0, free[leaf] - load * levels[full])
    return {job.number: 1 / (1 - job.comm + job.comm / rates[job.number]) for job in running}


class Stream:
    """Jobs, what waits and what runs."""

    def __init__(
        self, sizes: dict[tuple[int, int], int], ratio: float, policy: str, seed: int
    ) -> None:
        self.policy = policy
        self.cluster, self.random = Nodes(sizes), Random(seed)  # noqa: S311
        self.trunk = {leaf: 0.0 for leaf, _ in sizes}
        for (leaf, _), size in sizes.items():
            self.trunk[leaf] += size / ratio
        self.running: list[Job] = []
        self.now = self.taken = 0.0

    def start(self, job: Job) -> bool:
        """Start a job if it fits."""
        job.at = self.cluster.choose(job.gpus, self.policy, self.random)
        for place, gpus in job.at.items():
            self.cluster.free[place] -= gpus
        if job.at:
            job.start, job.left = self.now, job.duration
            job.leaves = len({leaf for leaf, _ in job.at})
            self.running.append(job)
        return bool(job.at)

    def pass_time(self, arrival: float) -> None:
        """Go to the next event, at the latest an arrival; let jobs go that have ended."""
        speed = speeds(self.running, self.trunk)
        steps = [job.left / speed[job.number] for job in self.running]
        step = min([arrival - self.now, *steps])
        free = self.cluster.free
        self.taken += step * (sum(self.cluster.sizes.values()) - sum(free.values()))
        self.now += step
        for job in list(self.running):
            job.left -= step * speed[job.number]
            if job.left <= 1e-9 * job.duration + 1e-9:
                job.end = self.now
                self.running.remove(job)
                for place, gpus in job.at.items():
                    free[place] += gpus

    def shadow(self, head: Job) -> float:
        """When the head fits if running jobs end one after another."""
        later = Nodes(self.cluster.sizes)
        later.free = dict(self.cluster.free)
        for job in sorted(self.running, key=lambda job: (job.left, job.number)):
            for place, gpus in job.at.items():
                later.free[place] += gpus
            policy = "domain" if self.policy == "domain" else "first"
            if later.choose(head.gpus, policy, self.random):
                return self.now + job.left
        return inf


def run(jobs: list[Job], stream: Stream, queue: str) -> float:
    """Run all jobs to their ends; the GPU time that they took."""
    todo = sorted(jobs, key=lambda job: (job.arrival, job.number))
    waiting: list[Job] = []
    while todo or waiting or stream.running:
        stream.pass_time(todo[0].arrival if todo else inf)
        while todo and todo[0].arrival <= stream.now + 1e-9:
            waiting.append(todo.pop(0))
        if queue == "sjf":
            waiting.sort(key=lambda job: (job.duration, job.arrival, job.number))
        while waiting and stream.start(waiting[0]):
            waiting.pop(0)
        if queue == "backfill" and waiting:
            until = stream.shadow(waiting[0])
            behind = [
                job
                for job in waiting[1:]
                if stream.now + job.duration > until or not stream.start(job)
            ]
            waiting = [waiting[0], *behind]
    return stream.taken
