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
from itertools import pairwise
from math import ceil
from time import perf_counter
from typing import Literal, Protocol

import numpy as np
from msgspec import Struct

from netplan.arrays import Floats, Ints
from netplan.errors import InputError
from netplan.simulation import tasks
from netplan.simulation.outcome import SimulationOutcome, outcome_of
from netplan.simulation.palm_model import Access, PalmModel
from netplan.simulation.ranks import Groups
from netplan.simulation.run import SimulationResult, simulate_pipelines
from netplan.simulation.schedule import BACKWARD, FINISH, FORWARD
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


class Sharing(Struct, frozen=True):
    """What one GPU has of a layer: sequences of a microbatch over all replicas, and degrees [1]."""

    microbatch: int
    data: int
    tensor: int


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
    share: Sharing,
    *,
    layers: int,
    sram_bytes: float,
    stationary_factor: float,
    update: Access,
) -> LayerOperation:
    """Sizes of one layer on one GPU of a stage.

    Parameters
    ----------
    model, share
        The layer, and what a GPU has of it.
    layers
        Layers of the stage, n [1].
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
    >>> share = Sharing(288, data=24, tensor=8)
    >>> one = layer_operation(
    ...     MODELS.load("t-145b"), share, layers=10, sram_bytes=40e6, stationary_factor=0.5,
    ...     update=Access(6, 22),
    ... )
    >>> one.flops / 1e12, one.input_bytes / 1e6
    (11.441792876544, 603.979776)
    """
    tokens, hidden = share.microbatch * model.sequence_length, model.hidden_size
    inner = model.ffn_size or 4 * hidden
    replicas, ranks = share.data, share.data * share.tensor
    attended = tokens * model.sequence_length
    products = 4 * tokens * hidden**2 + 2 * tokens * hidden * inner + 2 * attended * hidden
    given = tokens * hidden / replicas
    weights = (4 * hidden**2 + 2 * hidden * inner) / share.tensor
    between = 3 * given + (2 * tokens * inner + 4 * tokens * hidden) / ranks
    between += 2.5 * attended * model.heads / ranks
    forward, backward = _accesses(
        (given, weights, between), layers, sram_bytes=sram_bytes, factor=stationary_factor
    )
    return LayerOperation(
        flops=2 * products / ranks,
        input_bytes=HALF * given,
        gradient_bytes=HALF * (4 * hidden**2 + 2 * hidden * inner / share.tensor),
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


class PalmNetwork(Protocol):
    """What carries the messages and memory accesses of stages."""

    def all_reduce(self, groups: Sequence[Members], size_bytes: float) -> tasks.Branch:
        """Sum up so many bytes in each of some groups, at the same time."""

    def access(self, members: Members, access: Access) -> tasks.Branch:
        """Write and read the same on every GPU."""

    def transfer(self, sender: Members, receiver: Members, size_bytes: float) -> tasks.Branch:
        """Hand so many bytes from one stage to another."""

    def operation(
        self, compute_s: float, ring: tasks.Branch, access: tasks.Branch
    ) -> tasks.Operation:
        """A computation, its collective, and its memory accesses."""


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
        step = tasks.Burst(
            tuple(
                self._message(sender, following, size_bytes / members)
                for group in groups
                for sender, following in zip(group, [*group[1:], group[0]], strict=True)
            )
        )
        return (step,) * (2 * (members - 1))

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

    def __post_init__(self) -> None:
        """Refuse what cannot run."""
        refuse_unlike(self.model, f"the rules of iteration model {self.rules.name}")
        used, gpus = self.tensor * self.data * self.pipeline, self.fabric.sizing.gpus
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

    @property
    def layers(self) -> list[int]:
        """Layers of each stage [1]."""
        return layers_of_stages(self.model.layers, self.pipeline)


def layers_of_stages(layers: int, stages: int) -> list[int]:
    """Layers of each stage: one goes on to the next where the sum would pass its share.

    Examples
    --------
    Five layers on two stages: the third would pass 2.5.

    >>> layers_of_stages(5, 2)
    [2, 3]
    """
    return [(stage + 1) * layers // stages - stage * layers // stages for stage in range(stages)]


def simulate_palm(
    run: PalmRun,
    graph: FabricGraph,
    *,
    contention: bool = True,
    full: bool = False,
    hot: int = 5,
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
    hot
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
    return _Account(run, graph, stages, result, simulated).outcome(hot, perf_counter() - began)


class _Stage(Struct, frozen=True):
    """The work of one stage: forward, backward, finish; and what of it no collective takes [s]."""

    works: tuple[tasks.Work, ...]
    compute_s: tuple[float, ...]


class _Stages(Struct, frozen=True):
    """All stages and what goes between them."""

    in_order: tuple[_Stage, ...]
    onward: tuple[tasks.Branch, ...]
    back: tuple[tasks.Branch, ...]

    def pipeline(self, microbatches: int, schedule: PalmSchedule) -> tasks.Pipeline:
        """As the simulator takes it."""
        return tasks.Pipeline(
            len(self.in_order),
            microbatches,
            tuple(tasks.Pass(stage.works[FORWARD]) for stage in self.in_order),
            tuple(tasks.Pass(stage.works[BACKWARD]) for stage in self.in_order),
            self.onward,
            self.back,
            finish=tuple(stage.works[FINISH] for stage in self.in_order),
            eager=True,
            finish_together=True,
            schedule=schedule,
        )


def _tick_s(run: PalmRun) -> float:
    """Ticks of which an iteration, or its first microbatches, are 2^45 to 2^53 [s]."""
    layer = _layer(run, layers=run.model.layers)
    once_s = layer.flops / run.on.tensor_flops_per_s + run.rules.memory.access_latency_s
    passes = 4 * min(run.microbatches, tasks.TICKED) * run.model.layers
    return tasks.tick_of(passes * once_s, TICK_DIGITS)


def _stages(run: PalmRun, graph: FabricGraph, *, contention: bool) -> _Stages:
    """What every stage does and sends."""
    network: PalmNetwork = GpuNetwork(run.rules, run.on, run.fabric)
    order = np.arange(graph.gpus)
    if run.spec.tile is not None:
        given = run.rules, run.on, run.spec, graph
        network = TileNetwork(*given, tick_s=_tick_s(run), contention=contention)
        order = tile_order(run.spec, graph.gpus, "snake")
    places = (order if run.gpus is None else run.gpus).tolist()
    gpus = run.tensor * run.data
    held = [places[stage * gpus : (stage + 1) * gpus] for stage in range(run.pipeline)]
    sent = _layer(run, layers=1).input_bytes
    pairs = [(held[stage], held[stage + 1]) for stage in range(run.pipeline - 1)]
    return _Stages(
        tuple(_stage(run, network, *pair) for pair in zip(held, run.layers, strict=True)),
        tuple(network.transfer(here, there, sent) for here, there in pairs),
        tuple(network.transfer(there, here, sent) for here, there in pairs),
    )


def _layer(run: PalmRun, layers: int) -> LayerOperation:
    """One layer of a stage with so many."""
    return layer_operation(
        run.model,
        Sharing(run.sequences, run.data, run.tensor),
        layers=layers,
        sram_bytes=run.on.sram_bytes * run.rules.unit,
        stationary_factor=run.stationary_factor,
        update=run.rules.memory.update,
    )


def _stage(run: PalmRun, network: PalmNetwork, members: list[int], layers: int) -> _Stage:
    """What the GPUs of one stage do."""
    layer = _layer(run, layers)
    near = run.tensor if run.groups == "near" else run.data
    ranks = [members[first : first + near] for first in range(0, len(members), near)]
    replicas = [members[first::near] for first in range(near)]
    if run.groups == "strided":
        ranks, replicas = replicas, ranks
    summed = network.all_reduce(ranks, layer.input_bytes)
    gradients = network.all_reduce(replicas, layer.gradient_bytes)
    forward_s = layer.flops / run.on.tensor_flops_per_s
    backward_s = forward_s * (3 if run.recompute == "full" else 2)
    works, computes_s = [], []
    for compute_s, collective, access in (
        (forward_s, summed, layer.forward),
        (backward_s, summed, layer.backward),
        (0.0, gradients, layer.update),
    ):
        accesses = network.access(members, access)
        works.append((network.operation(compute_s, collective, accesses),) * layers)
        computes_s.append(layers * tasks.alone_s((network.operation(compute_s, (), accesses),)))
    return _Stage(tuple(works), tuple(computes_s))


class _Account(Struct, frozen=True):
    """What a simulated iteration comes to, microbatches beyond those simulated included."""

    run: PalmRun
    graph: FabricGraph
    stages: _Stages
    result: SimulationResult
    simulated: int

    def outcome(self, hot: int, seconds: float) -> SimulationOutcome:
        """The answer."""
        run, stages, passes_s = self.run, self.stages.in_order, self._passes_s()
        slot_s = float((passes_s[FORWARD] + passes_s[BACKWARD]).max())
        time_s = self.result.iteration_time_s + (run.microbatches - self.simulated) * slot_s
        repeats, links_s = np.array([run.microbatches, run.microbatches, 1]), self._links_s()
        compute_s = np.array([repeats @ stage.compute_s for stage in stages])
        alone_s = np.array([repeats @ [*map(tasks.alone_s, stage.works)] for stage in stages])
        return outcome_of(
            self.graph,
            (compute_s, alone_s, repeats @ passes_s),
            links_s,
            time_s,
            hot,
            analytic_time_s=None,
            sequences_per_s=run.microbatches * run.sequences / time_s,
            waiting_s=float(links_s[1].sum()),
            microbatches=run.microbatches,
            microbatches_simulated=self.simulated,
            period=None,
            replicas=run.data,
            replicas_simulated=run.data,
            bookings=self.result.tally.bookings,
            seconds=seconds,
            spans=self.result.spans,
            notes=tuple(self._notes(slot_s)),
        )

    def _passes_s(self) -> Floats:
        """Mean length of each kind of pass on each stage, shape (3, stages) [s]."""
        total_s, count = np.zeros((2, 3, self.run.pipeline))
        for span in self.result.spans:
            if span.kind <= FINISH:
                total_s[span.kind, span.stage] += span.end_s - span.start_s
                count[span.kind, span.stage] += 1
        return total_s / count

    def _links_s(self) -> tuple[Floats, Floats]:
        """How long each direction of each link is busy and waited for, shape (2 x links,) [s].

        Waiting is that of the microbatches simulated, taken as many times as there are others.
        """
        count = 2 * self.graph.link_count
        busy_s, waited_s, tally = np.zeros(count), np.zeros(count), self.result.tally
        issued: Counter[int] = Counter()
        bursts: dict[int, tasks.Burst] = {}
        run = self.run
        for part, times in tasks.parts_of_pipeline(
            self.stages.pipeline(run.microbatches, run.schedule)
        ):
            if isinstance(part, tasks.Burst):
                issued[id(part)] += times
                bursts[id(part)] = part
        for key, burst in bursts.items():
            for message in burst.messages:
                busy_s[list(message.links)] += issued[key] * message.seconds
        waited_s[list(tally.waited_s)] = list(tally.waited_s.values())
        return busy_s, waited_s * (self.run.microbatches / self.simulated)

    def _notes(self, slot_s: float) -> Iterator[str]:
        """What the reader should know."""
        run, missing = self.run, self.run.microbatches - self.simulated
        used, gpus = run.tensor * run.data * run.pipeline, self.graph.gpus
        if missing:
            yield (
                f"By the published rule each of the {missing:,} microbatches beyond"
                f" {self.simulated} takes what the slowest stage does, {si(slot_s, 's', 4)};"
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
