"""What is simulated: work of stages as delays and messages, and what pipelines make of it.

Closed forms say how long a thing takes alone; the simulator says how long it waits for others. Work
is therefore given with the times it takes alone, and with the links it needs:

=============  ====================================================================================
`Message`      holds links while it passes: all of its path for its whole time (a circuit), or each
               link for what it carries of packets spread over many paths
`Burst`        messages issued at one moment, in their order, with a barrier behind the last
`FlowMessage`  what will be a message as soon as its flows are put on links
phase          a delay in seconds, either of these two, or work that has to be done in between
`Branch`       phases one after the other
`Operation`    branches side by side; it ends with the last of them
`Operations`   operations one after the other: one pass of a microbatch through a stage
=============  ====================================================================================

Links are numbered by whoever makes the work; memory channels are links too. A `Pipeline` says which
work its stages do for which microbatch, and what they send each other.

Times are whole ticks of a power of two: sums are exact, equal times are equal, so that a run
repeats itself exactly, and the same question gives the same bytes. A tick is so short a part of an
iteration that rounding to it changes no digit that anybody reads.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, cycle
from math import frexp
from typing import Literal, TypeAlias

from msgspec import Struct

from netplan.errors import InputError
from netplan.records import replace
from netplan.traffic.placement import Placement
from netplan.workloads.operations import CollectiveKind, Uneven

TICKED = 1_024
"""Microbatches of an iteration that ticks are made for, at most [1].

A run that repeats itself ends before that, and ticks of all of it would round each operation of
very many microbatches.
"""


def tick_of(longest_s: float, digits: int) -> float:
    """A power of two, of which a time is 2^(digits - 1) up to 2^digits [s].

    Examples
    --------
    >>> tick_of(3.0, digits=4)
    0.25
    """
    return 2.0 ** (frexp(longest_s)[1] - digits)


def in_ticks(seconds: float, tick_s: float) -> float:
    """The nearest whole number of ticks [s].

    Examples
    --------
    >>> in_ticks(0.7, 0.25)
    0.75
    """
    return tick_s * round(seconds / tick_s)


ENDS = 2
"""Microbatches that may differ from the others, the first and the last [1]."""

SimulatedSchedule = Literal["1f1b", "gpipe", "interleaved"]

LinkSharing = Literal["booked", "fluid"]
"""Whether messages take a link one after another, or all at once at max-min fair rates."""


class Message(Struct, frozen=True):
    """One message on its links.

    Parameters
    ----------
    links
        Links that it needs; each direction of a cable is a link of its own.
    seconds
        Time that it takes where nothing else is on its links [s].
    busy_s
        How long each link is busy with it, where its packets are spread over several paths; empty
        for a circuit, which holds all links of its only path for the whole time [s].
    carried_s
        How long its slowest link is busy, one that is left out here included [s].
    weight
        Where links are shared, shares of messages that go in a second are as their weights: that
        of the job over the bytes of the largest pair, so that pairs of GPUs have equal rates [1/B].

    Examples
    --------
    A gigabyte at 50 GB/s over one path, and over two of which each has half of it:

    >>> Message((0, 1, 2), 0.02).busy_s
    ()
    >>> Message((0, 1, 2, 3), 0.02, (0.02, 0.01, 0.01, 0.02)).seconds
    0.02
    """

    links: tuple[int, ...]
    seconds: float
    busy_s: tuple[float, ...] = ()
    carried_s: float = 0.0
    weight: float = 1.0

    def __post_init__(self) -> None:
        """Refuse times that belong to no link."""
        if self.busy_s and len(self.busy_s) != len(self.links):
            raise InputError(
                f"a message on {len(self.links)} links has {len(self.busy_s)} times: give one each"
            )


class Burst(Struct, frozen=True):
    """Messages issued at one moment, in this order; whoever waits for them waits for the last.

    Where messages follow each other, ``after`` says which others each waits for, and ``lasts_s``
    how long all of it takes alone [s]; only links that are shared know such bursts.
    """

    messages: tuple[Message, ...]
    after: tuple[tuple[int, ...], ...] = ()
    lasts_s: float = 0.0

    @property
    def alone_s(self) -> float:
        """How long it takes where nothing else is on its links [s]."""
        return self.lasts_s or max(message.seconds for message in self.messages)


class FlowMessage(Struct, frozen=True):
    """A message that says who sends to whom, and not yet over which links.

    Parameters
    ----------
    flows
        Number of its flows, which whoever makes the work counts.
    sent_bytes
        What each of them sends [B].
    alone_s
        Time that it takes where nothing else is on its links [s].
    """

    flows: int
    sent_bytes: float
    alone_s: float


Part: TypeAlias = "float | Burst | FlowMessage"
"""A phase that has no phases in it."""

Phase: TypeAlias = "Part | Operations"
Branch: TypeAlias = tuple[Phase, ...]
Operation: TypeAlias = tuple[Branch, ...]
Operations: TypeAlias = tuple[Operation, ...]


def delay(seconds: float) -> Operations:
    """Work that needs no link.

    >>> delay(0.5)
    (((0.5,),),)
    """
    return (((float(seconds),),),) if seconds else ()


def one_after_the_other(*phases: Phase) -> Operations:
    """Work of phases that follow each other, as few of them as it takes.

    >>> one_after_the_other(0.5, 0.0, 0.25)
    (((0.75,),),)
    """
    branch = joined(phases)
    return ((branch,),) if branch else ()


def joined(phases: Iterable[Phase]) -> Branch:
    """Phases that follow each other: delays added up, nothing that takes no time, work unpacked.

    >>> joined((0.5, delay(0.25), 0.0, (((1.0,), (2.0,)),)))
    (0.75, (((1.0,), (2.0,)),))
    """
    branch: list[Phase] = []
    for phase in _unpacked(phases):
        if isinstance(phase, float) and branch and isinstance(branch[-1], float):
            branch[-1] += phase
        elif phase:
            branch.append(phase)
    return tuple(branch)


def _unpacked(phases: Iterable[Phase]) -> Iterator[Phase]:
    """Phases, and those of work in which nothing goes on side by side."""
    for phase in phases:
        if not isinstance(phase, tuple):
            yield phase
            continue
        for operation in phase:
            if len(operation) == 1:
                yield from _unpacked(operation[0])
            else:
                yield (operation,)


def alone_s(work: Operations, *, messages: bool = True) -> float:
    """How long a piece of work takes where nothing else is on its links [s].

    Without ``messages`` these take no time.

    >>> slow, fast = (Burst((Message((0,), seconds),)) for seconds in (2.0, 0.5))
    >>> alone_s((((1.0, fast), (slow,)), ((0.25,),)))
    2.25
    """
    return sum(
        max(branch_alone_s(branch, messages=messages) for branch in operation) for operation in work
    )


def branch_alone_s(branch: Branch, *, messages: bool = True) -> float:
    """The same of phases one after the other [s]."""
    total = 0.0
    for phase in branch:
        if isinstance(phase, float):
            total += phase
        elif isinstance(phase, tuple):
            total += alone_s(phase, messages=messages)
        elif messages:
            total += phase.alone_s
    return total


def parts_of(work: Operations) -> Iterator[Part]:
    """All delays and messages of a piece of work, in order.

    >>> list(parts_of((((1.0, (((2.0,), (3.0,)),)),), ((4.0,),))))
    [1.0, 2.0, 3.0, 4.0]
    """
    for phase in chain.from_iterable(chain.from_iterable(work)):
        if isinstance(phase, tuple):
            yield from parts_of(phase)
        else:
            yield phase


def mapped(work: Operations, change: Callable[[Part], Phase]) -> Operations:
    """The same work with every delay and message changed, and joined as far as it goes.

    >>> no_links = lambda phase: phase if isinstance(phase, float) else 1.0
    >>> mapped((((0.5, Burst((Message((0,), 1.0),))), (2.0,)), ((0.25,),)), no_links)
    (((2.25,),),)
    """
    operations = (
        tuple(filter(None, (mapped_branch(branch, change) for branch in operation)))
        for operation in work
    )
    return one_after_the_other(*(as_phase((branches,)) for branches in operations if branches))


def mapped_branch(branch: Branch, change: Callable[[Part], Phase]) -> Branch:
    """The same of phases one after the other."""
    return joined(
        as_phase(mapped(phase, change)) if isinstance(phase, tuple) else change(phase)
        for phase in branch
    )


def as_phase(work: Operations) -> Phase:
    """Work as one phase, a delay where it needs no link.

    >>> as_phase((((1.0,), (2.0,)), ((0.5,),)))
    2.5
    """
    delays = all(isinstance(part, float) for part in parts_of(work))
    return alone_s(work) if delays else work


class Pass(Struct, frozen=True):
    """The work of one stage for its microbatches, in one direction.

    The first microbatch and the last one may differ from the others, as weights are gathered before
    the one and gradients are summed up behind the other.

    Examples
    --------
    >>> once = Pass(delay(1.0), last=delay(1.5))
    >>> [once.of(microbatch, 3)[0][0][0] for microbatch in range(3)]
    [1.0, 1.0, 1.5]
    """

    middle: Operations
    first: Operations | None = None
    last: Operations | None = None
    only: Operations | None = None

    def of(self, microbatch: int, microbatches: int) -> Operations:
        """Work for one microbatch of so many."""
        if microbatches == 1 and self.only is not None:
            return self.only
        if microbatch == 0 and self.first is not None:
            return self.first
        if microbatch == microbatches - 1 and self.last is not None:
            return self.last
        return self.middle

    def mapped(self, change: Callable[[Part], Phase]) -> "Pass":
        """The same with every delay and message changed."""
        first, last, only = (
            None if work is None else mapped(work, change)
            for work in (self.first, self.last, self.only)
        )
        return Pass(mapped(self.middle, change), first, last, only)

    def counted(self, microbatches: int) -> Iterator[tuple[Operations, int]]:
        """All work for so many microbatches, and how often it is done."""
        yield self.of(0, microbatches), 1
        if microbatches > 1:
            yield self.of(microbatches - 1, microbatches), 1
            yield self.middle, microbatches - ENDS


class Pipeline(Struct, frozen=True):
    """One pipeline: what its stages do, and what they send each other.

    Parameters
    ----------
    stages
        Stages, each of which does one thing at a time, S [1].
    microbatches
        Microbatches of an iteration, m [1].
    forward, backward
        Work of every virtual stage, S x v of them; virtual stage j runs on stage j mod S.
    send_forward, send_backward
        Transfer behind each virtual stage but the last, from j to j + 1 and from j + 1 to j.
    begin
        What every stage does before its first pass, such as gathering weights.
    prepare, settle
        What each virtual stage needs before its first forward pass, and what follows its last
        backward pass, beside the other passes of its GPUs; one piece after the other.
    finish
        What every stage does after its last backward pass and ``settle``: gradients, optimizer.
    schedule
        Order of the passes (`netplan.simulation.schedule`).
    eager
        Whether 1f1b stages take a backward pass whenever one is ready; else they take turns.
    finish_together
        Whether all stages wait with ``finish`` until the last of them is done.
    trains
        Whether there are backward passes; without them a microbatch ends with its last forward.
    ahead
        Microbatches that every 1f1b stage holds beyond that schedule; nothing if none does.
    name
        What the answer calls it.
    """

    stages: int
    microbatches: int
    forward: tuple[Pass, ...]
    backward: tuple[Pass, ...]
    send_forward: tuple[Branch, ...]
    send_backward: tuple[Branch, ...]
    begin: tuple[Operations, ...] = ()
    prepare: tuple[Operations, ...] = ()
    settle: tuple[Operations, ...] = ()
    finish: tuple[Operations, ...] = ()
    schedule: SimulatedSchedule = "1f1b"
    eager: bool = False
    finish_together: bool = False
    trains: bool = True
    ahead: tuple[int, ...] = ()
    name: str = ""

    def __post_init__(self) -> None:
        """Refuse work for stages that do not exist."""
        virtual, sent = len(self.forward), len(self.forward) - 1
        given = (len(self.send_forward), len(self.send_backward))
        wanted = (sent, sent if self.trains else 0)
        if virtual % self.stages or (self.trains and len(self.backward) != virtual):
            raise InputError(f"{self.stages} stages do not share {virtual} forward passes evenly")
        if given != wanted:
            raise InputError(f"{virtual} virtual stages have {wanted} transfers, got {given}")
        if self.prepare and self.prepare[0]:
            raise InputError("the first virtual stage prepares in its begin: give it nothing else")

    @property
    def chunks(self) -> int:
        """Virtual stages of one stage, v [1]."""
        return len(self.forward) // self.stages


def work_of_stages(pipeline: Pipeline) -> Iterator[tuple[int, Operations, int]]:
    """All work of an iteration that stages spend their time on: of which one, what, how often.

    Transfers are nobody's, and what goes on beside passes takes no time of theirs.

    >>> chain = Pipeline(1, 8, (Pass(delay(1.0)),), (Pass(delay(2.0)),), (), ())
    >>> sum(times * alone_s(work) for _, work, times in work_of_stages(chain))
    24.0
    """
    for passes in (pipeline.forward, pipeline.backward):
        for virtual, stage_pass in enumerate(passes):
            for work, times in stage_pass.counted(pipeline.microbatches):
                yield virtual % pipeline.stages, work, times
    for edge in (pipeline.begin, pipeline.finish):
        for stage, work in enumerate(edge):
            yield stage, work, 1


def parts_of_pipeline(pipeline: Pipeline) -> Iterator[tuple[Part, int]]:
    """All delays and messages of an iteration, those of transfers included, and how often each."""
    for _, work, times in work_of_stages(pipeline):
        for part in parts_of(work):
            yield part, times
    for part in parts_of((*chain.from_iterable((*pipeline.prepare, *pipeline.settle)),)):
        yield part, 1
    for part in parts_of(((*pipeline.send_forward, *pipeline.send_backward),)):
        yield part, pipeline.microbatches


def mapped_pipeline(
    pipeline: Pipeline, *changes: Callable[[Part], Phase], sends: bool = True
) -> Pipeline:
    """The same pipeline with every delay and message changed, of stages in turn by each change.

    Transfers change by the first, or not at all.

    >>> stage = (Pass(delay(1.0)),) * 2
    >>> chain = Pipeline(2, 8, stage, stage, send_forward=((),), send_backward=((),))
    >>> mapped_pipeline(chain, lambda phase: 2 * phase).forward[0].middle
    (((2.0,),),)
    """

    def works(given: tuple[Operations, ...]) -> tuple[Operations, ...]:
        pairs = zip(given, cycle(changes), strict=False)
        return tuple(mapped(work, change) for work, change in pairs)

    def passes(given: tuple[Pass, ...]) -> tuple[Pass, ...]:
        pairs = zip(given, cycle(changes), strict=False)
        return tuple(stage_pass.mapped(change) for stage_pass, change in pairs)

    def sent(given: tuple[Branch, ...]) -> tuple[Branch, ...]:
        return tuple(mapped_branch(branch, changes[0]) for branch in given) if sends else given

    return replace(
        pipeline,
        forward=passes(pipeline.forward),
        backward=passes(pipeline.backward),
        send_forward=sent(pipeline.send_forward),
        send_backward=sent(pipeline.send_backward),
        begin=works(pipeline.begin),
        prepare=works(pipeline.prepare),
        settle=works(pipeline.settle),
        finish=works(pipeline.finish),
    )


IN_PASS, BESIDE, ASIDE = range(3)
"""Threads of a stage: operations with their collectives, what goes on beside a layer, and what
goes on beside whole passes. Further ones are those of branches."""


def thread_of(branch: int) -> int:
    """Thread of a branch of a layer; 0 is the pass itself.

    >>> thread_of(0) == IN_PASS, thread_of(1)
    (True, 3)
    """
    return ASIDE + branch if branch else IN_PASS


class Flows(Struct, frozen=True):
    """Who sends to whom at one moment.

    Parameters
    ----------
    stage
        Pipeline stage that sends.
    to
        Stage that receives; the same one in a collective.
    dimensions
        Dimensions in which the members of one group of a collective differ.
    to_all
        Whether it is an all_to_all; all other collectives send alike.
    replica
        Data parallel replica that sends; None for all of them at once.
    memory
        Whether it is between GPUs and their memory channels.
    weights, back
        What members of a group get over the mean, or with ``back`` give, where experts are loaded
        unevenly [1].
    """

    stage: int
    to: int
    dimensions: tuple[str, ...] = ()
    to_all: bool = False
    replica: int | None = None
    memory: bool = False
    weights: tuple[float, ...] = ()
    back: bool = False


class FlowUse(Struct):
    """What uses some flows: threads of stages, and how fast.

    Messages of one thread of a stage follow each other: those in its passes, those beside its
    layers, and those beside its passes. Transfers belong to no thread.

    Parameters
    ----------
    number
        Number of these flows.
    threads
        Those that issue such messages; what comes before and after all passes is in none.
    seconds_per_byte
        Of the fastest of these messages [s/B].
    """

    number: int
    threads: set[int]
    seconds_per_byte: float


FlowUses = dict[Flows, FlowUse]


class FlowSender:
    """Makes messages of flows, and notes who uses which of them.

    Parameters
    ----------
    placement
        Groups of ranks; groups of one send nothing.
    """

    def __init__(self, placement: Placement) -> None:
        self.placement = placement
        self.uses: FlowUses = {}
        self.replica: int | None = None
        """Data parallel replica whose work is made; None if it stands for all."""

    def message(self, flows: Flows, seconds: float, sent_bytes: float, thread: int | None) -> Phase:
        """One message, or a delay where nothing is sent; notes who uses the flows."""
        members = self.placement.degree(*flows.dimensions) if flows.dimensions else 2
        if members == 1 or not sent_bytes:
            return seconds
        s_per_byte = seconds / sent_bytes
        use = self.uses.setdefault(flows, FlowUse(len(self.uses), set(), s_per_byte))
        use.seconds_per_byte = min(s_per_byte, use.seconds_per_byte)
        if thread is not None:
            use.threads.add(thread)
        return FlowMessage(use.number, sent_bytes, seconds)

    def collective_flows(
        self,
        stage: int,
        kind: CollectiveKind,
        dimensions: tuple[str, ...],
        uneven: Uneven | None = None,
    ) -> Flows:
        """Flows of a collective in all groups of a stage, those of experts by their load."""
        flows = Flows(stage, stage, dimensions, kind == "all_to_all", self.replica)
        if uneven is None:
            return flows
        return replace(flows, weights=uneven.weights, back=uneven.back)
