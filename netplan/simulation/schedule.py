"""Which pass a stage runs next: 1F1B, GPipe, interleaved 1F1B.

A stage does one thing at a time, forward and backward passes each in a fixed order:

===========  ===============================================================================
1f1b         at most S - i microbatches in flight at stage i: forward begun, backward not yet.
             Once so many are, backward and forward passes take turns. ``eager`` stages take a
             backward pass whenever one is ready, as PALM has it: they leave that order where
             they are uneven, wait for each other, and may take a third longer
gpipe        no limit; backward passes only after all forward passes of the stage
interleaved  v virtual stages each; at most 2 (S - i) - 1 + (v - 1) G in flight. Microbatches go
             in groups of S, the first one with those that fill no other, G = S + m mod S: all
             of a group through one virtual stage, then through the next (arXiv:2104.04473,
             Sec. 2.2); backward passes the other way round. Turns as in 1f1b
===========  ===============================================================================

So interleaved stages have the bubble of (S - 1) (F + B) / v for any m of at least S. Groups that
follow a smaller one would have to wait for it. Fewer microbatches than stages wait for the first of
them to come round: (S - m) (v - 1) (F + B) / v more, and no order of passes takes less
(`netplan.performance.iteration`). The first stage holds the activations of up to
S + (S - 1)/v + (v - 1)/v (m mod S) microbatches at once.

Beside its passes a stage prepares its virtual stages, in their order from its begin on; their first
pass waits for that. It settles them, each behind its last backward pass, before it finishes.

Sources: arXiv:1811.06965 (GPipe), arXiv:1806.03377 (1F1B), PALM Sec. IV-D.
"""

from collections import deque
from collections.abc import Callable

from msgspec import Struct

from netplan.simulation.engine import Actor, Branching, BranchSteps, Engine, Mark
from netplan.simulation.tasks import Branch, Operations, Pipeline, alone_s, branch_alone_s

FORWARD, BACKWARD, FINISH, SEND_FORWARD, SEND_BACKWARD, BEGIN = range(6)
"""Kinds of spans: passes, the end of the iteration, transfers to the next stage and back, and what
comes before the first pass."""

ASIDE = -3
"""Mark of what goes on beside passes; transfers have -1 and -2."""

SUM_ERROR = 1e-12
"""Waiting below this share of the time that has passed is what sums of times are off by [1]."""


class BusyInterval(Struct, frozen=True):
    """One pass of a stage, or what it sends another: which, when, how much longer than alone [s].

    ``kind`` is one of the six above; a virtual stage stands on stage ``virtual`` mod S. Transfers
    are those of the virtual stage that sends.
    """

    pipeline: int
    stage: int
    virtual: int
    microbatch: int
    kind: int
    start_s: float
    end_s: float
    waited_s: float


class _InFlight:
    """One pass on its way through a stage."""

    __slots__ = ("kind", "microbatch", "run", "start_s", "virtual", "work")

    def __init__(self, run: "PipelineRun", kind: int, virtual: int, microbatch: int) -> None:
        self.run, self.kind, self.virtual, self.microbatch = run, kind, virtual, microbatch
        self.start_s = run.engine.now
        self.work: Operations = ()

    def mark(self) -> Mark:
        run = self.run
        return (run.number, self.kind, self.virtual, self.microbatch - len(run.completions_s))

    def go_on(self) -> None:
        """The pass has ended."""
        self.run.passed(self)


class _Sending(_InFlight):
    """What one virtual stage sends another for a microbatch."""

    __slots__ = ("branch",)

    branch: Branch

    def mark(self) -> Mark:
        run = self.run
        return (run.number, -1 - self.kind, self.virtual, self.microbatch - len(run.completions_s))

    def go_on(self) -> None:
        """It has arrived at a virtual stage."""
        if self.branch and self.run.spans is not None:
            sender = self.virtual + (-1 if self.kind == FORWARD else 1)
            self.run.keep(self, SEND_FORWARD + self.kind, sender, branch_alone_s(self.branch))
        self.run.arrived(self.kind, self.virtual, self.microbatch)


class _DeferredPass:
    """What the virtual stages of a stage do beside its passes, one after the other."""

    __slots__ = ("queue", "run", "stage")

    def __init__(self, run: "PipelineRun", stage: int) -> None:
        self.run, self.stage = run, stage
        self.queue: deque[tuple[int, int]] = deque()

    def mark(self) -> Mark:
        return (self.run.number, ASIDE, self.stage, len(self.queue))

    def add(self, kind: int, virtual: int) -> None:
        """Prepare a virtual stage, or settle it, behind what is under way."""
        if self._work(kind, virtual):
            self.queue.append((kind, virtual))
            if len(self.queue) == 1:
                self.run.do(self._work(kind, virtual), self)

    def _work(self, kind: int, virtual: int) -> Operations:
        pipeline = self.run.pipeline
        works = (pipeline.prepare, pipeline.settle)[kind]
        return works[virtual] if works else ()

    def go_on(self) -> None:
        """A piece is done."""
        kind, virtual = self.queue.popleft()
        if self.queue:
            self.run.do(self._work(*self.queue[0]), self)
        self.run.done_aside(kind, virtual)


class _Order:
    """Passes of one stage in one direction: which is next, and which are ready."""

    __slots__ = ("ready", "run", "stage", "started", "turned")

    def __init__(self, run: "PipelineRun", stage: int, *, turned: bool) -> None:
        self.run, self.stage, self.turned = run, stage, turned
        self.ready: set[tuple[int, int]] = set()
        self.started = 0

    def next(self) -> tuple[int, int] | None:
        """Virtual stage and microbatch that are next in the order, if there are any."""
        run = self.run
        stages, chunks, total = run.pipeline.stages, run.pipeline.chunks, run.microbatches
        if self.started == total * chunks:
            return None
        if chunks == 1:
            return self.stage, self.started
        begin, inside, together = 0, self.started, run.first_group
        if inside >= together * chunks:
            group, inside = divmod(inside - together * chunks, stages * chunks)
            begin, together = together + group * stages, stages
        chunk, microbatch = divmod(inside, together)
        chunk = chunks - 1 - chunk if self.turned else chunk
        return chunk * stages + self.stage, begin + microbatch

    def take(self) -> tuple[int, int] | None:
        """Start the next pass if it is ready."""
        upcoming = self.next()
        if upcoming is None or upcoming not in self.ready:
            return None
        if upcoming[0] in self.run.unprepared and not self.turned:
            return None
        self.ready.remove(upcoming)
        self.started += 1
        return upcoming


class PipelineRun:
    """One pipeline on its way through an iteration."""

    def __init__(
        self, engine: Engine, pipeline: Pipeline, number: int, spans: list[BusyInterval] | None
    ) -> None:
        """Stand at the beginning; spans are collected where there is a list for them."""
        self.engine, self.pipeline, self.number, self.spans = engine, pipeline, number, spans
        self.microbatches = pipeline.microbatches
        self.completions_s: list[float] = []
        self.busy_s = [0.0] * pipeline.stages
        self.end_s = 0.0
        self._began_s = [0.0] * pipeline.stages
        self._known_s: dict[int, float] = {}
        self._working = [False] * pipeline.stages
        self._orders = [
            (_Order(self, stage, turned=False), _Order(self, stage, turned=True))
            for stage in range(pipeline.stages)
        ]
        self._asides = [_DeferredPass(self, stage) for stage in range(pipeline.stages)]
        self.unprepared = {virtual for virtual, work in enumerate(pipeline.prepare) if work}
        """Virtual stages that lack what they need for their first pass."""
        self._finished_stages = 0
        self._open = pipeline.stages if pipeline.finish else 0
        self.at_end: Callable[[PipelineRun], None] | None = None
        """Told when the iteration has ended."""
        self.let_in = 0
        """Microbatches that have begun or may begin [1]."""

    def start(self) -> None:
        """Let the first microbatch in, and all stages begin."""
        self._let_in()
        for stage, work in enumerate(self.pipeline.begin):
            if work:
                self._working[stage], self._began_s[stage] = True, self.engine.now
                self._pass(work, _InFlight(self, BEGIN, stage, 0))
        for stage in range(1, self.pipeline.stages):
            if not self._working[stage]:
                self._prepare(stage)
        self._start_next(0)

    def _prepare(self, stage: int) -> None:
        """Prepare the virtual stages of a stage."""
        for virtual in range(stage, len(self.pipeline.prepare), self.pipeline.stages):
            self._asides[stage].add(FORWARD, virtual)

    def done_aside(self, kind: int, virtual: int) -> None:
        """A virtual stage is prepared, or settled."""
        stage = virtual % self.pipeline.stages
        if kind == FORWARD:
            self.unprepared.discard(virtual)
            self._start_next(stage)
        else:
            self._end_of(stage)
            self._tell_end()

    @property
    def first_group(self) -> int:
        """Microbatches of the first group: S, and those that fill no other group [1]."""
        stages = self.pipeline.stages
        return min(self.microbatches, stages + self.microbatches % stages)

    def _let_in(self) -> None:
        """The next microbatch stands before the first stage."""
        if self.let_in < self.microbatches:
            self._orders[0][FORWARD].ready.add((0, self.let_in))
        self.let_in += 1

    def _most_in_flight(self, stage: int) -> int:
        """Passes through a stage that have begun forward and not yet backward, at most [1]."""
        pipeline, every = self.pipeline, self.microbatches * self.pipeline.chunks
        if pipeline.schedule == "gpipe" or not pipeline.trains:
            return every
        limit = pipeline.stages - stage + (pipeline.ahead[stage] if pipeline.ahead else 0)
        if pipeline.chunks > 1:
            limit += limit - 1 + (pipeline.chunks - 1) * self.first_group
        return min(limit, every)

    def _next_pass(self, stage: int) -> tuple[int, tuple[int, int]] | None:
        """Direction, virtual stage and microbatch of what a stage starts now, if anything."""
        forward, backward = self._orders[stage]
        limit, in_flight = self._most_in_flight(stage), forward.started - backward.started
        all_begun = forward.started == self.microbatches * self.pipeline.chunks
        eager = self.pipeline.eager and self.pipeline.schedule == "1f1b"
        if eager or all_begun or in_flight == limit:
            started = backward.take()
            if started is not None:
                return BACKWARD, started
        started = forward.take() if in_flight < limit else None
        return None if started is None else (FORWARD, started)

    def _start_next(self, stage: int) -> None:
        """Start what is next at a stage, if it is idle and anything is ready."""
        if self._working[stage]:
            return
        upcoming = self._next_pass(stage)
        if upcoming is None:
            return
        kind, (virtual, microbatch) = upcoming
        if kind == FORWARD and virtual == 0:
            self._let_in()
        passes = (self.pipeline.forward, self.pipeline.backward)[kind]
        self._working[stage], self._began_s[stage] = True, self.engine.now
        work = passes[virtual].of(microbatch, self.microbatches)
        self._pass(work, _InFlight(self, kind, virtual, microbatch))

    def _pass(self, work: Operations, passing: _InFlight) -> None:
        """Do the work of a pass."""
        passing.work = work
        self.do(work, passing)

    def do(self, work: Operations, after: Actor) -> None:
        """Do some work; what is a mere delay is one event."""
        if len(work) == 1 and len(work[0]) == 1:
            BranchSteps(self.engine, work[0][0], after).go_on()
        else:
            Branching(self.engine, work, after).start()

    def passed(self, ended: _InFlight) -> None:
        """A pass has ended: send what it made, and go on with the next."""
        now, pipeline = self.engine.now, self.pipeline
        stage = ended.virtual % pipeline.stages
        self.busy_s[stage] += now - ended.start_s
        if self.spans is not None:
            if id(ended.work) not in self._known_s:
                self._known_s[id(ended.work)] = alone_s(ended.work)
            self.keep(ended, ended.kind, ended.virtual, self._known_s[id(ended.work)])
        if ended.kind == FINISH:
            self.end_s = now
            self._open -= 1
            self._tell_end()
            return
        self._working[stage] = False
        first = (ended.kind, ended.virtual, ended.microbatch) == (FORWARD, 0, 0)
        # The first stage gathers weights beside its first pass, too.
        if first or (ended.kind == BEGIN and ended.virtual > 0):
            self._prepare(stage)
        if ended.kind == BACKWARD and ended.microbatch == self.microbatches - 1:
            self._asides[stage].add(BACKWARD, ended.virtual)
        if ended.kind != BEGIN:
            self._hand_on(ended)
        self._start_next(stage)
        self._end_of(stage)
        self._tell_end()

    def _tell_end(self) -> None:
        """Say once that the last microbatch is through and all stages have finished."""
        callback = self.at_end
        if callback is None or self._open or len(self.completions_s) < self.microbatches:
            return
        self.at_end = None
        callback(self)

    def keep(self, ended: _InFlight, kind: int, virtual: int, alone_s: float) -> None:
        """Note something that ends now, where spans are wanted."""
        if self.spans is not None:
            now, stage = self.engine.now, virtual % self.pipeline.stages
            which = self.number, stage, virtual, ended.microbatch, kind
            waited_s = now - ended.start_s - alone_s
            if waited_s < SUM_ERROR * now:
                waited_s = 0.0
            self.spans.append(BusyInterval(*which, ended.start_s, now, waited_s))

    def _hand_on(self, ended: _InFlight) -> None:
        """What follows a pass: a transfer, the backward pass of the last virtual stage, the end."""
        pipeline, virtual = self.pipeline, ended.virtual
        if ended.kind == FORWARD and virtual + 1 < len(pipeline.forward):
            branch, to = pipeline.send_forward[virtual], virtual + 1
        elif ended.kind == FORWARD and pipeline.trains:
            self.arrived(BACKWARD, virtual, ended.microbatch)
            return
        elif ended.kind == BACKWARD and virtual:
            branch, to = pipeline.send_backward[virtual - 1], virtual - 1
        else:
            self.completions_s.append(self.engine.now)
            return
        sending = _Sending(self, ended.kind, to, ended.microbatch)
        sending.branch = branch
        BranchSteps(self.engine, branch, sending).go_on()

    def arrived(self, kind: int, virtual: int, microbatch: int) -> None:
        """Something is ready at a virtual stage."""
        stage = virtual % self.pipeline.stages
        self._orders[stage][kind].ready.add((virtual, microbatch))
        self._start_next(stage)

    def _end_of(self, stage: int) -> None:
        """Finish a stage that has nothing left to do, or all stages where they finish together."""
        self.end_s = self.engine.now
        wanted = self.microbatches * self.pipeline.chunks
        order = self._orders[stage][BACKWARD if self.pipeline.trains else FORWARD]
        busy = self._working[stage] or self._asides[stage].queue
        if busy or order.started < wanted or not self.pipeline.finish:
            return
        self._finished_stages += 1
        ended = [stage]
        if self.pipeline.finish_together:
            whole = self._finished_stages == self.pipeline.stages
            ended = [*range(self.pipeline.stages)] if whole else []
        for number in ended:
            self._pass(self.pipeline.finish[number], _InFlight(self, FINISH, number, 0))

    def state(self) -> tuple[object, ...]:
        """Where the run stands, counted from the microbatches that are through."""
        through = len(self.completions_s)
        return tuple(
            (
                self._working[stage],
                *(order.started - through * self.pipeline.chunks for order in orders),
                *(tuple(sorted((v, k - through) for v, k in order.ready)) for order in orders),
            )
            for stage, orders in enumerate(self._orders)
        )

    def under_way_since(self) -> list[float]:
        """When the pass under way at each stage began; now where there is none [s]."""
        now = self.engine.now
        both = zip(self._working, self._began_s, strict=True)
        return [began_s if working else now for working, began_s in both]

    def shorten(self, microbatches: int) -> None:
        """Let fewer microbatches in than asked for; those at work go on."""
        self.microbatches = microbatches
        self._orders[0][FORWARD].ready = {
            waiting for waiting in self._orders[0][FORWARD].ready if waiting[1] < microbatches
        }
