"""The published mode: one iteration by the rules of the PALM code, event by event.

Layers go to stages as their running sum passes layers / stages. A stage's place in the order of
GPUs is that of its first rank: tensor ranks follow each other, replicas come next, then stages.
Passes and transfers run as in `netplan.simulation.schedule`; then every stage sums up gradients and
steps the optimizer layer by layer, all stages at once. At most 6 microbatches are simulated, and
with F_i and B_i the mean passes of stage i among them,

    T(m) = T(6) + (m - 6) x max_i (F_i + B_i)        (off by up to 1.7 % of a full run).

*Messages and memory accesses.*

==========  ======================================================================================
on tiles    a message holds its path, in x first, for bytes / rate + hops x latency; an access holds
            the path to its channel, and the channel, while it writes and then reads. Collectives
            are rings of steps with a barrier of all groups of the stage
on GPUs     nobody waits: a ring takes 2 (p - 1) / p x bytes / rate, inside a node or between them,
            and a transfer has twice the rate, that of both directions
==========  ======================================================================================

A transfer between stages is two messages, one after the other: last to first, then first to last.
Other than in the code, adapter tiles may hand over instead (`netplan.simulation.handover`), a map
may say which GPUs, tensor degree and layers a stage has (`netplan.simulation.stage_map`), and
tensor groups whose tiles are no ring of neighbours may sum up from tile to tile and back (`line`).
Without contention rings of tiles take 2 (p - 1) / p x bytes over the rate inside a tile, beside the
computation, and accesses do not wait.

*Operations.* One transformer layer is a single operation. With a microbatch of B sequences (of all
replicas), S tokens, H hidden size, F inner width, A heads, Nd data and Nm tensor degree, all counts
in elements of two bytes:

=============  ====================================================================================
products       4 B S H^2 + 2 B S H F + 2 B S^2 H multiply-adds, over Nd Nm; 2 FLOP each, twice as
               many in the backward pass, three times with recomputation
input, output  i = o = B S H / Nd
weights        w = (4 H^2 + 2 H F) / Nm
between        r = 3 B S H / Nd + (2 B S F + 4 B S H) / (Nd Nm) + 2.5 B S^2 A / (Nd Nm)
all_reduce     i over Nm in each direction; 4 H^2 + 2 H F / Nm over Nd at the end of the iteration
=============  ====================================================================================

What goes to memory depends on what the SRAM holds, s bytes a GPU, on a stage of n layers:

=====================  =======================================  ==================================
                       forward: written, read                   backward: written, read
=====================  =======================================  ==================================
2 n w < s              2 (o + r), 2 (o + r)                     2 (o + r), 4 (o + r)
2 (i + n (o + r)) < s  0, 6 w                                   0, 6 w
else                   c 2 (o + r), c (2 i + 6 w + 2 r),        c 2 (r + i), c (2 i + 6 w + 4 r),
                       c = f k, k = ceil(2 i / s)               c = f^k
=====================  =======================================  ==================================

f is the stationary factor. The optimizer writes and reads some bytes of every weight (Adam 6 and
22). Source: Fang et al., PALM (arXiv:2406.03868), Sec. IV, Algorithm 1, and its code
(github.com/fangjh21/PALM), which differs: one all_reduce a direction where Megatron-LM has two,
4 H^2 that Nm does not divide, and the factor f, which no text explains.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, pairwise
from math import ceil
from time import perf_counter
from typing import Literal

import numpy as np
from msgspec import Struct

from netplan.arrays import Floats, Ints
from netplan.errors import InputError
from netplan.simulation import tasks
from netplan.simulation.handover import Handover, SentBytes, TransferRound, hand_over, ring_step
from netplan.simulation.outcome import HandoverOutcome, SimulationOutcome, outcome_of
from netplan.simulation.palm_model import Access, PalmModel
from netplan.simulation.ranks import Groups
from netplan.simulation.run import SimulationResult, simulate_pipelines
from netplan.simulation.schedule import BACKWARD, FINISH, FORWARD
from netplan.simulation.stage_map import PlacedStage, layers_of_stages
from netplan.topologies.fabric import Fabric
from netplan.topologies.families.tiles import mesh_of, tile_order
from netplan.topologies.graph import FabricGraph
from netplan.topologies.specs import FabricSpec
from netplan.units import si
from netplan.workloads.accelerators import Accelerator
from netplan.workloads.models import Model, refuse_unlike

HALF = 2
"""Bytes of an element."""
PalmRecompute = Literal["none", "full"]


class LayerOperation(Struct, frozen=True):
    """One layer on one GPU.

    Parameters
    ----------
    flops
        Forward pass [FLOP].
    input_bytes
        Input, output, and what an all_reduce over tensor ranks carries [B].
    gradient_bytes
        What an all_reduce over replicas carries [B].
    forward, backward, update
        Memory traffic of the passes and of the optimizer.
    """

    flops: float
    input_bytes: float
    gradient_bytes: float
    forward: Access
    backward: Access
    update: Access


def layer_operation(
    model: Model,
    stage: PlacedStage,
    sequences: int,
    *,
    sram_bytes: float,
    stationary_factor: float,
    update: Access,
) -> LayerOperation:
    """Sizes of one layer on one GPU of a stage.

    Parameters
    ----------
    model, stage
        The layer, and the stage that has n of them.
    sequences
        Of a microbatch, of all replicas together [1].
    sram_bytes
        Memory on the chip, s [B].
    stationary_factor
        Share of traffic that remains where something stays on the chip, f [1].
    update
        Memory traffic of the optimizer for one weight.

    Examples
    --------
    T-145B on 24 x 8 GPUs, 288 sequences at a time:

    >>> from netplan.workloads.models import MODELS
    >>> stage = PlacedStage(tuple(range(24 * 8)), tensor=8, layers=10)
    >>> one = layer_operation(
    ...     MODELS.load("t-145b"), stage, 288, sram_bytes=40e6, stationary_factor=0.5,
    ...     update=Access(6, 22),
    ... )
    >>> one.flops / 1e12, one.input_bytes / 1e6
    (11.441792876544, 603.979776)
    """
    tokens, hidden = sequences * model.sequence_length, model.hidden_size
    inner = model.ffn_size or 4 * hidden
    ranks = stage.data * stage.tensor
    attended = tokens * model.sequence_length
    products = 4 * tokens * hidden**2 + 2 * tokens * hidden * inner + 2 * attended * hidden
    given = tokens * hidden / stage.data
    weights = (4 * hidden**2 + 2 * hidden * inner) / stage.tensor
    between = 3 * given + (2 * tokens * inner + 4 * tokens * hidden) / ranks
    between += 2.5 * attended * model.heads / ranks
    forward, backward = _accesses(
        (given, weights, between), stage.layers, sram_bytes=sram_bytes, factor=stationary_factor
    )
    return LayerOperation(
        flops=2 * products / ranks,
        input_bytes=HALF * given,
        gradient_bytes=HALF * (4 * hidden**2 + 2 * hidden * inner / stage.tensor),
        forward=forward,
        backward=backward,
        update=update.times(weights),
    )


def _accesses(
    sizes: tuple[float, float, float], layers: int, *, sram_bytes: float, factor: float
) -> tuple[Access, Access]:
    """Memory traffic forward and backward, by the table of this module."""
    given, weights, between = sizes
    held = given + between
    if HALF * layers * weights < sram_bytes:
        return Access(HALF * held, HALF * held), Access(HALF * held, 2 * HALF * held)
    if HALF * (given + layers * held) < sram_bytes:
        return Access(0.0, 6 * weights), Access(0.0, 6 * weights)
    fills = ceil(HALF * given / sram_bytes)
    read = HALF * given + 6 * weights
    forward = Access(HALF * held, read + HALF * between)
    backward = Access(HALF * held, read + 2 * HALF * between)
    return forward.times(factor * fills), backward.times(factor**fills)


ALONG_Y = 2
"""Axis of the links along columns."""
Members = Sequence[int]
"""GPUs in the order in which they talk."""


class GpuNetwork(Struct, frozen=True):
    """Nodes of GPUs that never wait for links."""

    rules: PalmModel
    on: Accelerator
    fabric: Fabric

    def _rate(self, *members: int) -> float:
        """Rate of a ring through some GPUs [B/s]."""
        sizing, given = self.fabric.sizing, self.rules.communication
        nodes = {gpu // sizing.hb_size for gpu in members}
        if len(nodes) == 1:
            return given.hb_efficiency * sizing.hb_bytes_per_s * self.rules.unit
        found_bytes_per_s = sizing.as_found * sizing.network_bytes_per_s
        return given.network_efficiency * found_bytes_per_s * self.rules.unit

    def all_reduce(self, groups: Sequence[Members], size_bytes: float) -> tasks.Branch:
        """A ring, the slowest of all groups."""
        members = len(groups[0])
        if members == 1:
            return ()
        rate = min(self._rate(*group) for group in groups)
        return (2 * (members - 1) / members * size_bytes / rate,)

    def access(self, members: Members, access: Access) -> tasks.Branch:  # noqa: ARG002 - all alike
        """The memory of a GPU is its own."""
        rate = self.on.memory_bytes_per_s * self.rules.unit
        return (_access_s(access, rate, self.rules),)

    def transfer(self, sender: Members, receiver: Members, size_bytes: float) -> tasks.Branch:
        """Two messages, one after the other."""
        latency_s = self.on.network_latency_s
        ends = (sender[-1], receiver[0]), (sender[0], receiver[-1])
        return tuple(size_bytes / (2 * self._rate(*pair)) + latency_s for pair in ends)

    def operation(
        self, compute_s: float, ring: tasks.Branch, access: tasks.Branch
    ) -> tasks.Operation:
        """The collective follows the computation; memory is beside them."""
        return access, (compute_s, *ring)


class TileNetwork:
    """A mesh of tiles with memory channels."""

    def __init__(
        self,
        rules: PalmModel,
        on: Accelerator,
        spec: FabricSpec,
        graph: FabricGraph,
        *,
        tick_s: float,
        contention: bool = True,
    ) -> None:
        """Number the links by the cores that they join, and take their rates."""
        self.rules, self.on, self.contention, self.tick_s = rules, on, contention, tick_s
        self.mesh = mesh_of(spec, graph.gpus)
        if not self.mesh.channels:
            raise InputError(
                f"{spec.name} has no memory channels, on which stages read and write: give tile"
                " channels in the fabric file"
            )
        self._tile_bytes_per_s = spec.tile.link_bytes_per_s if spec.tile else 0.0
        self.link_count = graph.link_count
        ends = list(zip(graph.source.tolist(), graph.target.tolist(), strict=True))
        self._link = {pair: link for link, pair in enumerate(ends)}
        self._link |= {pair[::-1]: graph.link_count + link for link, pair in enumerate(ends)}
        rates = graph.bytes_per_s.copy()
        if rules.communication.borders == "x":
            for code, group in enumerate(graph.groups):
                if group.crosses and group.axis == ALONG_Y:
                    rates[graph.group == code] = self._tile_bytes_per_s
        self._rate: list[float] = [*rates.tolist()] * 2
        self._memories = graph.node_count - len(graph.links_with("memory"))

    def _path(self, sender: int, receiver: int) -> tuple[int, ...]:
        """Links from one core to another."""
        path = self.mesh.path(sender, receiver)
        return tuple(self._link[step] for step in pairwise(path))

    def _rate_of(self, links: Sequence[int]) -> float:
        """Rate of the slowest link of a path [B/s]."""
        return self.rules.unit * min(self._rate[link] for link in links)

    def _message(self, sender: int, receiver: int, size_bytes: float) -> tasks.Message:
        """A message on its path, which it holds all at once."""
        links = self._path(sender, receiver)
        seconds = size_bytes / self._rate_of(links) + len(links) * self.on.network_latency_s
        return tasks.Message(links, tasks.in_ticks(seconds, self.tick_s))

    def all_reduce(self, groups: Sequence[Members], size_bytes: float) -> tasks.Branch:
        """Rings of p - 1 steps that sum up and as many that gather, a piece to the next in each."""
        members = len(groups[0])
        if members == 1:
            return ()
        if not self.contention:
            rate = self._tile_bytes_per_s * self.rules.unit
            return (tasks.in_ticks(2 * (members - 1) / members * size_bytes / rate, self.tick_s),)
        return self.steps(self.all_reduce_steps(groups, size_bytes))

    def all_reduce_steps(
        self, groups: Sequence[Members], size_bytes: float
    ) -> Sequence[TransferRound]:
        """The messages of an all_reduce in each of some groups."""
        closed = self.rules.communication.broken_rings == "closed"
        around = (zip(group, [*group[1:], group[0]], strict=True) for group in groups)
        pairs = chain.from_iterable(around)  # each core and the next one, the last and the first
        if not closed and any(len(self._path(*pair)) != 1 for pair in pairs):
            return _along_lines(groups, size_bytes)
        return (ring_step(groups, size_bytes),) * (2 * (len(groups[0]) - 1))

    def steps(self, steps: Sequence[TransferRound]) -> tasks.Branch:
        """A burst a step."""
        bursts: dict[int, tasks.Burst] = {}  # steps that repeat are one burst
        for step in steps:
            if id(step) not in bursts:
                bursts[id(step)] = tasks.Burst(tuple(self._message(*sent) for sent in step))
        return tuple(phase for step in steps for phase in self._alone(bursts[id(step)]))

    def hop_bytes(self, steps: Sequence[TransferRound]) -> float:
        """Bytes of messages, counted on each link that they pass [B]."""
        return sum(
            message.sent_bytes * len(self._path(message.sender, message.receiver))
            for step in steps
            for message in step
        )

    def access(self, members: Members, access: Access) -> tasks.Branch:
        """Every core takes its path and its channel at once, in the order of the members."""
        messages = []
        for member in members:
            channel, core = self.mesh.channel_of(member)
            links = (*self._path(member, core), self._link[core, self._memories + channel])
            seconds = _access_s(access, self._rate_of(links), self.rules)
            messages.append(tasks.Message(links, tasks.in_ticks(seconds, self.tick_s)))
        return self._alone(tasks.Burst(tuple(messages)))

    def transfer(self, sender: Members, receiver: Members, size_bytes: float) -> tasks.Branch:
        """Two messages, one after the other."""
        ends = (sender[-1], receiver[0]), (sender[0], receiver[-1])
        bursts = (tasks.Burst((self._message(*pair, size_bytes),)) for pair in ends)
        return tuple(phase for burst in bursts for phase in self._alone(burst))

    def _alone(self, burst: tasks.Burst) -> tasks.Branch:
        """A burst, or just how long it takes where nothing waits."""
        return (burst if self.contention else burst.alone_s,)

    def operation(
        self, compute_s: float, ring: tasks.Branch, access: tasks.Branch
    ) -> tasks.Operation:
        """Accesses come first; the collective follows the computation, if links are shared."""
        compute_s = tasks.in_ticks(compute_s, self.tick_s)
        return (access, (compute_s, *ring)) if self.contention else (access, (compute_s,), ring)


PalmNetwork = GpuNetwork | TileNetwork
"""What carries the messages and memory accesses of stages."""


def _along_lines(groups: Sequence[Members], size_bytes: float) -> list[TransferRound]:
    """Steps in which groups add up from member to member, then pass the sum back."""
    pairs = [list(pairwise(group)) for group in groups]
    onward = [
        tuple(SentBytes(here, there, size_bytes) for here, there in step)
        for step in zip(*pairs, strict=True)
    ]
    back = [
        tuple(SentBytes(sent.receiver, sent.sender, size_bytes) for sent in step) for step in onward
    ]
    return onward + back[::-1]


def _access_s(access: Access, bytes_per_s: float, rules: PalmModel) -> float:
    """Writing, then reading, where nobody else does [s]."""
    moved = access.write_bytes + access.read_bytes
    return moved / bytes_per_s + 2 * rules.memory.access_latency_s


PalmSchedule = Literal["1f1b", "gpipe"]
"""Orders of passes that the published code knows."""

TICK_DIGITS = 45
"""Binary digits of an iteration in ticks, at least [1]."""


class PalmRun(Struct, frozen=True, kw_only=True, eq=False):
    """One training run of the published mode.

    Parameters
    ----------
    model, batch
        What is trained, and sequences of an iteration.
    on, rules, spec, fabric
        The GPU (a core, on tiles), the iteration model, and the fabric.
    tensor, data, pipeline
        Degrees [1].
    microbatch
        Sequences of a microbatch, of all replicas together; None is batch / pipeline, rounded down.
    recompute
        Whether backward passes compute the forward pass again.
    schedule
        Order of the passes.
    gpus
        GPU at each place of the run, shape (places,); None is the snake on tiles, the order of the
        GPUs elsewhere.
    groups
        Whether the members of a tensor group stand side by side in their stage, or those of a data
        group.
    mapped
        Stages by a map, in place of ``gpus`` and of the degrees, which are then those of the first
        stage, and their number.

    Raises
    ------
    InputError
        If the degrees do not fit the GPUs, the layers or the batch.
    """

    model: Model
    batch: int
    on: Accelerator
    rules: PalmModel
    spec: FabricSpec
    fabric: Fabric
    tensor: int
    data: int
    pipeline: int
    microbatch: int | None = None
    recompute: PalmRecompute = "full"
    schedule: PalmSchedule = "1f1b"
    gpus: Ints | None = None
    groups: Groups = "near"
    mapped: tuple[PlacedStage, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what cannot run."""
        refuse_unlike(self.model, f"the rules of iteration model {self.rules.name}")
        used, gpus = self.gpus_used, self.fabric.sizing.gpus
        degrees = f"tensor {self.tensor} x data {self.data} x pipeline {self.pipeline}"
        if min(self.tensor, self.data, self.pipeline, self.microbatch or 1) < 1:
            raise InputError(f"{degrees}: degrees and microbatches are at least 1")
        if used > gpus:
            raise InputError(
                f"{degrees} need {used:,} GPUs, got {gpus:,}: fix smaller degrees, or give more"
            )
        if not self.on.sram_bytes:
            raise InputError(
                f"iteration model {self.rules.name} asks how much stays in the SRAM, of which the"
                f" file of {self.on.name} says nothing: --set accelerator.sram_bytes=40e6, or take"
                " palm-a100"
            )
        if self.pipeline > self.model.layers:
            raise InputError(
                f"{self.model.name} has {self.model.layers} layers, too few for {self.pipeline}"
                " stages: fix a smaller pipeline"
            )
        self._check_handover()
        if not self.sequences:
            raise InputError(
                f"a batch of {self.batch:,} has no sequence for each of {self.pipeline} stages:"
                " raise the batch, or fix microbatch=1"
            )
        if self.sequences > self.batch:
            raise InputError(
                f"a microbatch of {self.sequences:,} sequences is more than the batch of"
                f" {self.batch:,}: fix a smaller microbatch, or raise the batch"
            )

    def _check_handover(self) -> None:
        """Refuse hand-overs that the rules do not know."""
        by_adapters = self.rules.communication.handover != "ends"
        if by_adapters and self.spec.tile is None:
            raise InputError(
                f"--set iteration-model.communication.handover={self.rules.communication.handover}"
                f" is for tiles, and {self.spec.name} has none: take palm-wafer, or leave it out"
            )
        degrees = [(stage.tensor, stage.data) for stage in self.mapped]
        for number, (here, there) in enumerate(pairwise(degrees)):
            if here != there and not by_adapters:
                raise InputError(
                    f"stages {number} and {number + 1} have tensor x data degrees {here[0]} x"
                    f" {here[1]} and {there[0]} x {there[1]}, and the published hand-over knows"
                    " stages of the same alone: --set"
                    " iteration-model.communication.handover=source (or adapters)"
                )

    @property
    def gpus_used(self) -> int:
        """GPUs that stages have [1]."""
        mapped = sum(len(stage.gpus) for stage in self.mapped)
        return mapped or self.tensor * self.data * self.pipeline

    @property
    def sequences(self) -> int:
        """Sequences of a microbatch, of all replicas together [1]."""
        return self.microbatch or self.batch // self.pipeline

    @property
    def microbatches(self) -> int:
        """Microbatches of an iteration [1]."""
        return -(-self.batch // self.sequences)

    @property
    def stationary_factor(self) -> float:
        """Share of memory traffic where something stays on the chip: given, or the fabric's [1]."""
        memory = self.rules.memory
        given = memory.gpu_stationary_factor if self.spec.tile is None else None
        return memory.stationary_factor or given or memory.tile_stationary_factor


def simulate_palm(
    run: PalmRun,
    graph: FabricGraph,
    *,
    contention: bool = True,
    full: bool = False,
    busiest: int = 5,
    tick: Callable[[int, int], None] | None = None,
) -> SimulationOutcome:
    """Simulate one iteration by the published rules.

    Parameters
    ----------
    run
        What runs, where.
    graph
        The fabric's graph, whose links messages hold on tiles.
    contention
        Whether messages and accesses wait for each other.
    full
        Simulate every microbatch.
    busiest
        Directions of links that the answer has, the busiest first [1].
    tick
        Called with the microbatches that are through, and all of them.

    Examples
    --------
    The published code trains 8.4373 sequences of T-18B a second on the wafer.

    >>> from netplan.simulation.palm_model import ANY_ITERATION_MODEL
    >>> from netplan.topologies.build import build_fabric
    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.topologies.specs import FABRICS
    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> from netplan.workloads.models import MODELS
    >>> model, spec = MODELS.load("t-18b"), FABRICS.load("palm-wafer")
    >>> sizing = Sizing(gpus=320, radix=64, hb_size=1,
    ...                 hb_bytes_per_s=1024e9, network_bytes_per_s=256e9)
    >>> run = PalmRun(
    ...     model=model, batch=model.batch, on=ACCELERATORS.load("palm-wafer-core"), spec=spec,
    ...     rules=ANY_ITERATION_MODEL.load("palm"), fabric=build_fabric(spec, sizing),
    ...     tensor=8, data=2, pipeline=20,
    ... )
    >>> round(simulate_palm(run, expand(spec, sizing)).sequences_per_s, 4)
    8.4373
    """
    began = perf_counter()
    stages = _stages(run, graph, contention=contention)
    simulated = run.microbatches
    if not full:
        simulated = min(simulated, run.rules.pipeline.simulated_microbatches)
    result = simulate_pipelines(
        [stages.pipeline(simulated, run.schedule)],
        links=2 * graph.link_count,
        full=True,
        spans=True,
        tick=tick,
    )
    mean_s = passes_s(result, run.pipeline)
    slot_s = float((mean_s[FORWARD] + mean_s[BACKWARD]).max())
    time_s = result.iteration_time_s + (run.microbatches - simulated) * slot_s
    whole = stages.pipeline(run.microbatches, run.schedule)
    on_links_s = links_s(whole, graph, result, simulated)
    repeats = np.array([run.microbatches, run.microbatches, 1])
    compute_s = np.array([repeats @ seconds for seconds in stages.compute_s])
    alone_s = np.array([repeats @ [*map(tasks.alone_s, works)] for works in stages.works])
    return outcome_of(
        graph,
        result,
        (compute_s, alone_s, repeats @ mean_s),
        on_links_s,
        time_s,
        busiest,
        analytic_time_s=None,
        sequences_per_s=run.microbatches * run.sequences / time_s,
        waiting_s=float(on_links_s[1].sum()),
        microbatches=run.microbatches,
        microbatches_simulated=simulated,
        replicas=run.data,
        replicas_simulated=run.data,
        handovers=stages.handovers,
        seconds=perf_counter() - began,
        notes=tuple(_notes(run, graph.gpus, simulated, slot_s)),
    )


class _Stages(Struct, frozen=True):
    """Work of all stages, and what goes between them.

    Work is forward, backward, finish; ``compute_s`` is what of it no collective takes [s].
    """

    works: tuple[tuple[tasks.Operations, ...], ...]
    compute_s: tuple[tuple[float, ...], ...]
    onward: tuple[tasks.Branch, ...]
    back: tuple[tasks.Branch, ...]
    handovers: tuple[HandoverOutcome, ...] = ()

    def pipeline(self, microbatches: int, schedule: PalmSchedule) -> tasks.Pipeline:
        """As the simulator takes it."""
        return tasks.Pipeline(
            len(self.works),
            microbatches,
            tuple(tasks.Pass(work[FORWARD]) for work in self.works),
            tuple(tasks.Pass(work[BACKWARD]) for work in self.works),
            self.onward,
            self.back,
            finish=tuple(work[FINISH] for work in self.works),
            eager=True,
            finish_together=True,
            schedule=schedule,
        )


def _placed(run: PalmRun, graph: FabricGraph) -> tuple[PlacedStage, ...]:
    """The stages on their GPUs: as mapped, else as many each along the order."""
    if run.mapped:
        return run.mapped
    order = run.gpus
    if order is None:
        tiled = run.spec.tile is not None
        order = tile_order(run.spec, graph.gpus, "snake") if tiled else np.arange(graph.gpus)
    places, gpus = order.tolist(), run.tensor * run.data
    return tuple(
        PlacedStage(tuple(places[stage * gpus : (stage + 1) * gpus]), run.tensor, layers)
        for stage, layers in enumerate(layers_of_stages(run.model.layers, run.pipeline))
    )


def _stages(run: PalmRun, graph: FabricGraph, *, contention: bool) -> _Stages:
    """What every stage does and sends."""
    network: PalmNetwork = GpuNetwork(run.rules, run.on, run.fabric)
    if run.spec.tile is not None:
        given = run.rules, run.on, run.spec, graph
        # Ticks of which an iteration, or its first microbatches, are 2^45 to 2^53.
        stages = run.mapped or (PlacedStage(tuple(range(run.tensor * run.data)), run.tensor, 1),)
        flops = max(_layer(run, stage).flops for stage in stages)
        once_s = flops / run.on.tensor_flops_per_s + run.rules.memory.access_latency_s
        passes = 4 * min(run.microbatches, tasks.TICKED) * run.model.layers
        tick_s = tasks.tick_of(passes * once_s, TICK_DIGITS)
        network = TileNetwork(*given, tick_s=tick_s, contention=contention)
    placed, rule = _placed(run, graph), run.rules.communication
    last, partial = len(placed) - 1, rule.handover == "adapters"
    made = [
        _stage(run, network, stage, (partial and number < last, partial and number > 0))
        for number, stage in enumerate(placed)
    ]
    works, compute_s = tuple(work for work, _ in made), tuple(seconds for _, seconds in made)
    pairs = [*pairwise(placed)]
    if rule.handover == "ends":
        sent = _layer(run, placed[0]).input_bytes
        members = [(here.gpus, there.gpus) for here, there in pairs]
        onward = tuple(network.transfer(here, there, sent) for here, there in members)
        back = tuple(network.transfer(there, here, sent) for here, there in members)
        return _Stages(works, compute_s, onward, back)
    assert isinstance(network, TileNetwork)  # noqa: S101 - others are refused
    handed = [_hand_over(run, here, there) for here, there in pairs]
    returned = [_hand_over(run, there, here) for here, there in pairs]
    return _Stages(
        works,
        compute_s,
        tuple(network.steps(handover.steps) for handover in handed),
        tuple(network.steps(handover.steps) for handover in returned),
        tuple(
            _handover_outcome(run, network, number, stage, handover)
            for number, (stage, handover) in enumerate(zip(placed, handed, strict=False))
        ),
    )


def _layer(run: PalmRun, stage: PlacedStage) -> LayerOperation:
    """One layer of a stage."""
    return layer_operation(
        run.model,
        stage,
        run.sequences,
        sram_bytes=run.on.sram_bytes * run.rules.unit,
        stationary_factor=run.stationary_factor,
        update=run.rules.memory.update,
    )


def _groups(run: PalmRun, stage: PlacedStage) -> tuple[list[Members], list[Members]]:
    """Tensor groups of a stage, and groups of its replicas."""
    near = stage.tensor if run.groups == "near" else stage.data
    side_by_side: list[Members] = [
        stage.gpus[first : first + near] for first in range(0, len(stage.gpus), near)
    ]
    strided: list[Members] = [stage.gpus[first::near] for first in range(near)]
    return (side_by_side, strided) if run.groups == "near" else (strided, side_by_side)


def _stage(
    run: PalmRun, network: PalmNetwork, stage: PlacedStage, partial: tuple[bool, bool]
) -> tuple[tuple[tasks.Operations, ...], tuple[float, ...]]:
    """What the GPUs of one stage do, and what of it no collective takes [s].

    ``partial`` says whether the last sum forward, and backward, is not its own.
    """
    layer, (ranks, replicas) = _layer(run, stage), _groups(run, stage)
    summed = network.all_reduce(ranks, layer.input_bytes)
    gradients = network.all_reduce(replicas, layer.gradient_bytes)
    forward_s = layer.flops / run.on.tensor_flops_per_s
    backward_s = forward_s * (3 if run.recompute == "full" else 2)
    works, computes_s = [], []
    for compute_s, collective, access, unsummed in (
        (forward_s, summed, layer.forward, partial[0]),
        (backward_s, summed, layer.backward, partial[1]),
        (0.0, gradients, layer.update, False),
    ):
        accesses = network.access(stage.gpus, access)
        alone = network.operation(compute_s, (), accesses)
        whole = network.operation(compute_s, collective, accesses)
        works.append((*(whole,) * (stage.layers - 1), alone if unsummed else whole))
        computes_s.append(stage.layers * tasks.alone_s((alone,)))
    return tuple(works), tuple(computes_s)


def _hand_over(run: PalmRun, here: PlacedStage, there: PlacedStage) -> Handover:
    """Who sends what from one stage to a neighbour."""
    rule = run.rules.communication
    return hand_over(
        _groups(run, here)[0],
        _groups(run, there)[0],
        HALF * run.sequences * run.model.sequence_length * run.model.hidden_size,
        adapters=rule.adapters,
        at_source=rule.handover == "source",
    )


def _handover_outcome(
    run: PalmRun, network: TileNetwork, number: int, stage: PlacedStage, handover: Handover
) -> HandoverOutcome:
    """The terms of a hand-over, each where nothing else is on its links."""
    at_source, ranks = network.steps(handover.reduce), _groups(run, stage)[0]
    sent = handover.steps
    if run.rules.communication.handover == "source":
        whole_bytes = _layer(run, stage).input_bytes
        at_source = network.all_reduce(ranks, whole_bytes)
        sent = (*sent, *network.all_reduce_steps(ranks, whole_bytes))
    source_s, *others_s = (
        _alone_s(branch, 2 * network.link_count)
        for branch in (
            at_source,
            *map(network.steps, (handover.between, handover.all_reduce, handover.broadcast)),
        )
    )
    return HandoverOutcome(
        number,
        handover.adapters,
        sum(message.sent_bytes for step in sent for message in step),
        network.hop_bytes(sent),
        source_s + sum(others_s),
        source_s,
        *others_s,
    )


def _alone_s(branch: tasks.Branch, links: int) -> float:
    """Time of messages that wait for each other alone [s]."""
    if not branch:
        return 0.0
    once = tasks.Pipeline(1, 1, (tasks.Pass(((branch,),)),), (), (), (), trains=False)
    return simulate_pipelines([once], links=links).iteration_time_s


def links_s(
    pipeline: tasks.Pipeline, graph: FabricGraph, result: SimulationResult, simulated: int
) -> tuple[Floats, Floats]:
    """How long each direction of each link is busy and waited for, shape (2 x links,) [s].

    Parameters
    ----------
    pipeline
        All microbatches.
    graph
        The fabric.
    result, simulated
        What became of so many microbatches, whose waiting is taken as that of all.

    Returns
    -------
    tuple
        Both, of a link's two directions one behind all of the other [s].
    """
    count = 2 * graph.link_count
    busy_s, waited_s, tally = np.zeros(count), np.zeros(count), result.tally
    issued: Counter[int] = Counter()
    bursts: dict[int, tasks.Burst] = {}
    for part, times in tasks.parts_of_pipeline(pipeline):
        if isinstance(part, tasks.Burst):
            issued[id(part)] += times
            bursts[id(part)] = part
    for key, burst in bursts.items():
        for message in burst.messages:
            busy_s[list(message.links)] += issued[key] * message.seconds
    waited_s[list(tally.waited_s)] = list(tally.waited_s.values())
    return busy_s, waited_s * (pipeline.microbatches / simulated)


def passes_s(result: SimulationResult, stages: int) -> Floats:
    """Mean length of each kind of pass on each stage, 0 of what it has none of [s].

    Parameters
    ----------
    result
        What became of a run.
    stages
        Stages of its pipeline [1].

    Returns
    -------
    numpy.ndarray
        Forward, backward and finish, shape (3, stages) [s].
    """
    total_s, count = np.zeros((2, FINISH + 1, stages))
    for span in result.spans:
        if span.kind <= FINISH:
            total_s[span.kind, span.stage] += span.end_s - span.start_s
            count[span.kind, span.stage] += 1
    return total_s / np.maximum(count, 1)


def _notes(run: PalmRun, gpus: int, simulated: int, slot_s: float) -> Iterator[str]:
    """What the reader should know."""
    missing, used = run.microbatches - simulated, run.gpus_used
    if missing:
        yield (
            f"By the published rule each of the {missing:,} microbatches beyond"
            f" {simulated} takes what the slowest stage does, {si(slot_s, 's', 4)};"
            " --full simulates all."
        )
    if used < gpus:
        yield f"{gpus - used:,} of {gpus:,} GPUs are idle."
    trained = run.microbatches * run.sequences
    if trained > run.batch:
        yield (
            f"{run.microbatches:,} microbatches of {run.sequences:,} make {trained:,}"
            f" sequences, more than the batch of {run.batch:,}; all of them count."
        )
