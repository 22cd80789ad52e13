"""Messages and memory accesses of the published PALM code: on tiles, and on GPUs.

==========  ======================================================================================
on tiles    a message holds its path, in x first, for bytes / rate + hops x latency; an access holds
            the path to its channel, and the channel, while it writes and then reads. Collectives
            are rings of steps with a barrier of all groups of the stage
on GPUs     nobody waits: a ring takes 2 (p - 1) / p x bytes / rate, inside a node or between them,
            and a transfer has twice the rate, that of both directions
==========  ======================================================================================

A transfer between stages is two messages, one after the other: last to first, then first to last.
Without contention rings of tiles take 2 (p - 1) / p x bytes over the rate inside a tile, beside the
computation, and accesses do not wait. Source: Fang et al., PALM (arXiv:2406.03868), Sec. IV-C, and
its code (github.com/fangjh21/PALM).
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

from msgspec import Struct

from netplan.errors import InputError
from netplan.simulation.palm_model import Access, PalmModel
from netplan.simulation.ticks import in_ticks
from netplan.simulation.work import Branch, Burst, Message, Operation
from netplan.topologies.fabric import Fabric
from netplan.topologies.families.tiles import ACROSS_Y, mesh_of
from netplan.topologies.graph import MEMORY_GROUP, FabricGraph
from netplan.topologies.specs import FabricSpec
from netplan.workloads.accelerators import Accelerator

Members = Sequence[int]
"""GPUs in the order in which they talk."""


class PalmNetwork(Protocol):
    """What carries the messages and memory accesses of stages."""

    def all_reduce(self, groups: Sequence[Members], size_bytes: float) -> Branch:
        """Sum up so many bytes in each of some groups, at the same time."""

    def access(self, members: Members, access: Access) -> Branch:
        """Write and read the same on every GPU."""

    def transfer(self, sender: Members, receiver: Members, size_bytes: float) -> Branch:
        """Hand so many bytes from one stage to another."""

    def operation(self, compute_s: float, ring: Branch, access: Branch) -> Operation:
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
        return given.network_efficiency * sizing.network_bytes_per_s * self.rules.unit

    def all_reduce(self, groups: Sequence[Members], size_bytes: float) -> Branch:
        """A ring, the slowest of all groups."""
        members = len(groups[0])
        if members == 1:
            return ()
        rate = min(self._rate(*group) for group in groups)
        return (2 * (members - 1) / members * size_bytes / rate,)

    def access(self, members: Members, access: Access) -> Branch:  # noqa: ARG002 - all alike
        """The memory of a GPU is its own."""
        rate = self.on.memory_bytes_per_s * self.rules.unit
        return (_access_s(access, rate, self.rules),)

    def transfer(self, sender: Members, receiver: Members, size_bytes: float) -> Branch:
        """Two messages, one after the other."""
        latency_s = self.on.network_latency_s
        ends = (sender[-1], receiver[0]), (sender[0], receiver[-1])
        return tuple(size_bytes / (2 * self._rate(*pair)) + latency_s for pair in ends)

    def operation(self, compute_s: float, ring: Branch, access: Branch) -> Operation:
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
            rates[graph.links_of(ACROSS_Y)] = self._tile_bytes_per_s
        self._rate: list[float] = [*rates.tolist()] * 2
        self._memories = graph.node_count - len(graph.links_of(MEMORY_GROUP))

    def _path(self, sender: int, receiver: int) -> tuple[int, ...]:
        """Links from one core to another."""
        path = self.mesh.path(sender, receiver)
        return tuple(self._link[step] for step in pairwise(path))

    def _rate_of(self, links: Sequence[int]) -> float:
        """Rate of the slowest link of a path [B/s]."""
        return self.rules.unit * min(self._rate[link] for link in links)

    def _message(self, sender: int, receiver: int, size_bytes: float) -> Message:
        """A message on its path, which it holds all at once."""
        links = self._path(sender, receiver)
        seconds = size_bytes / self._rate_of(links) + len(links) * self.on.network_latency_s
        return Message(links, in_ticks(seconds, self.tick_s))

    def all_reduce(self, groups: Sequence[Members], size_bytes: float) -> Branch:
        """Rings of p - 1 steps that sum up and as many that gather, a piece to the next in each."""
        members = len(groups[0])
        if members == 1:
            return ()
        if not self.contention:
            rate = self._tile_bytes_per_s * self.rules.unit
            return (in_ticks(2 * (members - 1) / members * size_bytes / rate, self.tick_s),)
        step = Burst(
            tuple(
                self._message(one, following, size_bytes / members)
                for group in groups
                for one, following in zip(group, [*group[1:], group[0]], strict=True)
            )
        )
        return (step,) * (2 * (members - 1))

    def access(self, members: Members, access: Access) -> Branch:
        """Every core takes its path and its channel at once, in the order of the members."""
        messages = []
        for one in members:
            channel, core = self.mesh.channel_of(one)
            links = (*self._path(one, core), self._link[core, self._memories + channel])
            seconds = _access_s(access, self._rate_of(links), self.rules)
            messages.append(Message(links, in_ticks(seconds, self.tick_s)))
        return self._alone(Burst(tuple(messages)))

    def transfer(self, sender: Members, receiver: Members, size_bytes: float) -> Branch:
        """Two messages, one after the other."""
        ends = (sender[-1], receiver[0]), (sender[0], receiver[-1])
        bursts = (Burst((self._message(*pair, size_bytes),)) for pair in ends)
        return tuple(phase for burst in bursts for phase in self._alone(burst))

    def _alone(self, burst: Burst) -> Branch:
        """A burst, or just how long it takes where nothing waits."""
        return (burst if self.contention else burst.alone_s,)

    def operation(self, compute_s: float, ring: Branch, access: Branch) -> Operation:
        """Accesses come first; the collective follows the computation, if links are shared."""
        compute_s = in_ticks(compute_s, self.tick_s)
        return (access, (compute_s, *ring)) if self.contention else (access, (compute_s,), ring)


def _access_s(access: Access, bytes_per_s: float, rules: PalmModel) -> float:
    """Writing, then reading, where nobody else does [s]."""
    moved = access.write_bytes + access.read_bytes
    return moved / bytes_per_s + 2 * rules.memory.access_latency_s
