"""BCube(n, k): GPUs with k ports, and k levels of switches that join them digit by digit.

Number the n^k GPUs in base n. The switches of level i join the n GPUs that differ in digit i only,
so level 0 joins neighbours in racks, and each level has n^(k-1) switches of n ports. A path from
one level to another passes through GPUs, which forward. Where the GPUs are no power, those with the
last numbers are missing, and with them the switches that would have none.

Guo et al., BCube: A High Performance, Server-centric Network Architecture for Modular Data Centers
(SIGCOMM 2009).
"""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from netplan.arrays import Ints, ceil_div
from netplan.errors import InputError
from netplan.levels import Level
from netplan.topologies.assembly import Links, NameBlock, Nodes, Wired
from netplan.topologies.fabric import (
    Fabric,
    LinkGroup,
    Sizing,
    SwitchTier,
    network_level,
    port_words,
)
from netplan.topologies.graph import HALL, RACK, ROW, SWITCH, LinkType, Medium
from netplan.topologies.idle_places import ceil_root, idle_note, whole_part
from netplan.topologies.specs import Dimensions, FabricSpec


def bcube_ports(spec: FabricSpec, sizing: Sizing) -> int:
    """Ports of a switch, n: the fewest with which n^k hold all GPUs [1].

    Where the switches have ports enough, n is a multiple of the HB domain, whose GPUs then meet on
    one switch of level 0.
    """
    if not isinstance(spec, BCube):
        raise InputError(f"{spec.name} is no BCube: give one")
    least = ceil_root(sizing.gpus, spec.dimensions)
    if least > sizing.radix:
        raise InputError(
            f"{spec.name}: {sizing.gpus:,} GPUs need switches of {least} ports, got radix"
            f" {sizing.radix}: raise the radix, or dimensions in the fabric file"
        )
    even = ceil_div(least, sizing.hb_size) * sizing.hb_size
    return even if even <= sizing.radix else least


class BCube(FabricSpec, frozen=True, kw_only=True):
    """GPUs with a port for each of its levels, which are its dimensions."""

    several_ports: ClassVar[bool] = True
    dimensions: Dimensions = 3
    host_medium: Medium | None = None

    source_media: ClassVar[Mapping[str, Medium]] = {"host": "copper"}  # level 0 stays in the rack

    @property
    def separate_ports(self) -> int:
        """Network ports of a GPU that lie under different switches [1]."""
        return self.dimensions

    def leaf_of(self, sizing: Sizing, gpu: Ints) -> Ints | None:
        """Under which switch of level 0 GPUs lie."""
        return gpu // bcube_ports(self, sizing)

    def ports(self, sizing: Sizing) -> int:  # noqa: ARG002 - one a level
        """Network ports of a GPU [1]."""
        return self.dimensions

    def build(self, sizing: Sizing) -> Fabric:
        """BCube over all GPUs, one network port a level on each; the last places may be idle."""
        side, gpus = bcube_ports(self, sizing), sizing.gpus
        numbers = range(self.dimensions)
        counts = []  # switches of each level that have a GPU: the first ones
        for step in (side**i for i in numbers):
            blocks, rest = divmod(gpus, step * side)
            counts.append(blocks * step + min(rest, step))
        levels: tuple[Level, ...] = ()
        if side % sizing.hb_size == 0:  # else domains do not fill the switches of level 0
            sizes = (side // sizing.hb_size, *[side] * (self.dimensions - 1))
            whole, rate = whole_part(sizes, sizing.full_domains), sizing.network_bytes_per_s
            network = (network_level(sizing, size, rate) for size in whole)
            levels = self.hb_level(sizing), *network
        return Fabric(
            name=self.name,
            title=self.title,
            sizing=sizing,
            tiers=tuple(SwitchTier(f"level {i}", counts[i], counts[i], gpus) for i in numbers),
            links=tuple(
                LinkGroup.of(
                    LinkType(
                        f"level {i}",
                        "host",
                        axis=i + 1,
                        tiers=(0, i + 1),
                        medium="optical" if i else self.medium_of("host", sizing),
                    ),
                    gpus,
                )
                for i in numbers
            ),
            nic_ports=gpus * self.dimensions,
            levels=levels,
            network="any-to-any",
            notes=(
                *self.notes,
                *self.source_note(sizing),
                f"{port_words(sizing, self.dimensions)}; GPUs forward between levels.",
                *idle_note(side**self.dimensions, sizing),
            ),
        )

    def wire(self, fabric: Fabric, first: int, port: int) -> Wired:
        """Wire all levels, each by GPU; port i of a GPU, after its HB ports, goes to level i."""
        sizing = fabric.sizing
        side = bcube_ports(self, sizing)
        gpu = np.arange(sizing.gpus, dtype=np.int32)
        nodes, links = [], []
        for level, group in enumerate(fabric.links):
            switches = fabric.tiers[level].switches
            step = side**level
            digit = gpu // step % side
            switch = first + gpu // (step * side) * step + gpu % step
            first += switches
            length = RACK if group.medium == "copper" else (HALL if level else ROW)
            ports = np.full_like(gpu, port + level), digit
            links.append(Links(group.kind, gpu, switch, *ports, sizing.network_bytes_per_s, length))
            names = NameBlock(f"level-{level}/switch-{{}}", (switches,))
            nodes.append(Nodes(SWITCH, level + 1, names))
        return Wired(tuple(nodes), tuple(links))
