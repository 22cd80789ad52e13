"""The published mode written once more, from its rules alone: coroutines, sets of coordinates.

Nothing here is shared with netplan but the sizes of a run, so that both being wrong alike is
unlikely. Sizes in MiB, rates in GB/s, their quotients in milliseconds, as the published code has
them; what is waited for in whole ticks, so that equal times are equal.
"""

import heapq
from collections import defaultdict
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from itertools import count
from math import ceil

Core = tuple[int, int]
Wait = Generator["int | list[Wait]", None, None]
"""What is under way; it yields the moment at which it goes on [ticks], or others it waits for."""
MIB = 2**20


@dataclass(frozen=True)
class Sizes:
    """Sizes of a run."""

    layers: int
    batch: int
    sequence: int
    hidden: int
    heads: int
    tensor: int
    data: int
    pipeline: int
    microbatch: int
    factor: float
    tiles: tuple[int, int] = (5, 4)
    recompute: bool = True
    gpipe: bool = False
    contention: bool = True
    all_borders: bool = False
    line: bool = False
    tflops: float = 16.0
    sram: float = 3.0
    ticks_per_ms: float = 2.0**42


def access_mib(run: Sizes, layers: int) -> dict[str, tuple[float, float]]:
    """MiB written and read: forward, backward, update."""
    b, s, h, inner = run.microbatch, run.sequence, run.hidden, 4 * run.hidden
    i = o = b * s * h / run.data
    w = h * (4 * h + 2 * inner) / run.tensor
    both = run.data * run.tensor
    r = 3 * b * s * h / run.data + (2 * b * s * inner + 4 * b * s * h) / both
    r += 2.5 * b * s * s * run.heads / both
    chip = run.sram * MIB
    if 2 * layers * w < chip:
        found = {"f": (2 * (o + r), 2 * (o + r)), "b": (2 * (o + r), 4 * (o + r))}
    elif 2 * (i + layers * o + layers * r) < chip:
        found = {"f": (0.0, 6 * w), "b": (0.0, 6 * w)}
    else:
        k = ceil(2 * i / chip)
        f, g = run.factor * k, run.factor**k
        found = {
            "f": (f * 2 * (o + r), f * (2 * i + 6 * w + 2 * r)),
            "b": (g * 2 * (r + i), g * (2 * i + 6 * w + 4 * r)),
        }
    found["u"] = (6 * w, 22 * w)
    return {key: (one / MIB, other / MIB) for key, (one, other) in found.items()}


def compute_ms(run: Sizes) -> float:
    b, s, h = run.microbatch, run.sequence, run.hidden
    macs = 4 * b * s * h * h + 2 * b * s * h * 4 * h + 2 * b * s * s * h
    return 2 * macs / (run.data * run.tensor) / (run.tflops * 1e12) * 1e3


def cores_in_order(run: Sizes) -> list[Core]:
    columns, rows = 4 * run.tiles[0], 4 * run.tiles[1]
    if run.line:
        return [(x, y) for x in range(columns) for y in range(rows)]
    found = []
    for tile_x in range(run.tiles[0]):
        down = tile_x % 2 == 1
        tile_rows = sorted(range(run.tiles[1]), reverse=down)
        for tile_y in tile_rows:
            for at, y in enumerate(sorted(range(4), reverse=down)):
                last = tile_y == tile_rows[-1] and at == 3
                back = at % 2 == 1 and not last
                found += [(4 * tile_x + x, 4 * tile_y + y) for x in sorted(range(4), reverse=back)]
    return found


def steps(one: Core, other: Core) -> Iterator[tuple[Core, Core]]:
    x, y = one
    while x != other[0]:
        following = x + (1 if other[0] > x else -1)
        yield (x, y), (following, y)
        x = following
    while y != other[1]:
        following = y + (1 if other[1] > y else -1)
        yield (x, y), (x, following)
        y = following


def rate(path: list[tuple[Core, Core]], *, all_borders: bool) -> float:
    slow = any(a[0] // 4 != b[0] // 4 or (all_borders and a[1] // 4 != b[1] // 4) for a, b in path)
    return 256.0 if slow else 1024.0


class Task:
    """A coroutine under way, and how many others it waits for."""

    def __init__(self, work: Wait, parent: "Task | None") -> None:
        self.work, self.parent, self.open = work, parent, 0


class Wafer:
    """Links that are booked, and what is under way."""

    def __init__(self, run: Sizes) -> None:
        self.run, self.now = run, 0
        self.free: dict[object, int] = defaultdict(int)
        self.heap: list[tuple[int, int, Task]] = []
        self.number = count()

    def begin(self, work: Wait, parent: Task | None = None) -> None:
        self.go_on(Task(work, parent))

    def go_on(self, task: Task) -> None:
        found = next(task.work, None)
        if isinstance(found, int):
            heapq.heappush(self.heap, (found, next(self.number), task))
        elif found is not None:
            task.open = len(found)
            for one in found:
                self.begin(one, task)
        elif task.parent is not None:
            task.parent.open -= 1
            if not task.parent.open:
                self.go_on(task.parent)

    def run_all(self) -> None:
        while self.heap:
            self.now, _, task = heapq.heappop(self.heap)
            self.go_on(task)

    def after(self, ms: float) -> int:
        return self.now + round(ms * self.run.ticks_per_ms)

    def book(self, path: list[object], ms: float) -> int:
        if not self.run.contention:
            return self.after(ms)
        start = max([self.now, *(self.free[one] for one in path)])
        end = start + self.after(ms) - self.now
        self.free |= dict.fromkeys(path, end)
        return end

    def message(self, one: Core, other: Core, mib: float) -> int:
        path = list(steps(one, other))
        ms = mib / rate(path, all_borders=self.run.all_borders) + 1e-6 * len(path)
        return self.book([*path], ms)

    def ring(self, groups: list[list[Core]], mib: float) -> Wait:
        members = len(groups[0])
        if members > 1 and not self.run.contention:
            yield self.after(2 * (members - 1) / members * mib / 1024)
        elif members > 1:
            for _ in range(2 * (members - 1)):
                yield max(
                    self.message(one, group[(at + 1) % members], mib / members)
                    for group in groups
                    for at, one in enumerate(group)
                )

    def accesses(self, cores: list[Core], amounts: tuple[float, float]) -> Wait:
        ends = []
        for x, y in cores:
            at = (x // 4 * 4 + (0 if x % 4 < 2 else 3), y // 4 * 4 + (1 if y % 4 < 2 else 2))
            path = list(steps((x, y), at))
            slowest = min(256.0, rate(path, all_borders=self.run.all_borders))
            ms = sum(mib / slowest + 1e-3 for mib in amounts)
            ends.append(self.book([*path, ("channel", at)], ms))
        yield max(ends)

    def layer(self, cores: list[Core], amounts: tuple[float, float], ms: float, ring: Wait) -> Wait:
        def computed(then: Wait | None) -> Wait:
            yield self.after(ms)
            if then is not None:
                yield from then

        if self.run.contention:
            yield [self.accesses(cores, amounts), computed(ring)]
        else:
            yield [self.accesses(cores, amounts), computed(None), ring]

    def transfer(self, here: list[Core], there: list[Core], mib: float) -> Wait:
        yield self.message(here[-1], there[0], mib)
        yield self.message(here[0], there[-1], mib)


class Line:
    """The stages of one pipeline."""

    def __init__(self, run: Sizes, microbatches: int) -> None:
        self.run, self.wafer, self.microbatches = run, Wafer(run), microbatches
        each, order = run.tensor * run.data, cores_in_order(run)
        self.cores = [order[each * stage : each * (stage + 1)] for stage in range(run.pipeline)]
        share = run.layers / run.pipeline
        self.layers = [
            int((i + 1) * share + 1e-9) - int(i * share + 1e-9) for i in range(run.pipeline)
        ]
        self.sent = 2 * run.microbatch * run.sequence * run.hidden / run.data / MIB
        self.ready: list[dict[str, int]] = [{"f": 0, "b": 0} for _ in order[: run.pipeline]]
        self.begun: list[dict[str, int]] = [{"f": 0, "b": 0} for _ in order[: run.pipeline]]
        self.working = [False] * run.pipeline
        self.left = run.pipeline * 2 * microbatches
        self.spent: dict[tuple[int, str], int] = defaultdict(int)

    def ticks(self) -> int:
        self.ready[0]["f"] = self.microbatches
        self.start(0)
        self.wafer.run_all()
        return self.wafer.now

    def start(self, stage: int) -> None:
        """Start what a stage does next."""
        ready, begun = self.ready[stage], self.begun[stage]
        room = self.run.pipeline - stage
        if self.run.gpipe:
            room = self.microbatches
        may = {
            "b": not self.run.gpipe or begun["f"] == self.microbatches,
            "f": begun["f"] - begun["b"] < room,
        }
        for kind in ("b", "f"):
            if not self.working[stage] and ready[kind] and may[kind]:
                ready[kind] -= 1
                begun[kind] += 1
                self.working[stage] = True
                self.wafer.begin(self.passing(stage, kind))

    def passing(self, stage: int, kind: str) -> Wait:
        run, wafer, cores = self.run, self.wafer, self.cores[stage]
        began, ms = wafer.now, compute_ms(run)
        if kind == "b":
            ms *= 3 if run.recompute else 2
        amounts = access_mib(run, self.layers[stage])[kind]
        groups = [cores[run.tensor * d : run.tensor * (d + 1)] for d in range(run.data)]
        for _ in range(self.layers[stage]):
            yield [wafer.layer(cores, amounts, ms, wafer.ring(groups, self.sent))]
        self.spent[stage, kind] += wafer.now - began
        self.working[stage] = False
        to = stage + (1 if kind == "f" else -1)
        if kind == "f" and to == run.pipeline:
            self.ready[stage]["b"] += 1
        elif to >= 0:
            wafer.begin(self.sending(stage, to, kind))
        self.start(stage)
        self.left -= 1
        if not self.left:
            for one in range(run.pipeline):
                wafer.begin(self.updating(one))

    def sending(self, stage: int, to: int, kind: str) -> Wait:
        yield [self.wafer.transfer(self.cores[stage], self.cores[to], self.sent)]
        self.ready[to][kind] += 1
        self.start(to)

    def updating(self, stage: int) -> Wait:
        run, wafer, cores = self.run, self.wafer, self.cores[stage]
        groups = [cores[rank :: run.tensor] for rank in range(run.tensor)]
        mib = 2 * (4 * run.hidden**2 + 8 * run.hidden**2 / run.tensor) / MIB
        amounts = access_mib(run, self.layers[stage])["u"]
        for _ in range(self.layers[stage]):
            yield [wafer.layer(cores, amounts, 0.0, wafer.ring(groups, mib))]


def iteration_ms(run: Sizes, *, full: bool = False) -> float:
    """Time of an iteration [ms]."""
    microbatches = ceil(run.batch / run.microbatch)
    line = Line(run, microbatches if full else min(6, microbatches))
    ticks: float = line.ticks()
    slot = max(line.spent[one, "f"] + line.spent[one, "b"] for one in range(run.pipeline))
    ticks += (microbatches - line.microbatches) * slot / line.microbatches
    return ticks / run.ticks_per_ms
