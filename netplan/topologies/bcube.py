"""BCube(n, k): GPUs with k ports, and k levels of switches that join them digit by digit.

Number the n^k GPUs in base n. The switches of level i join the n GPUs that differ in digit i only,
so level 0 joins neighbours in racks, and each level has n^(k-1) switches of n ports. A path from
one level to another passes through GPUs, which forward.

Guo et al., BCube: A High Performance, Server-centric Network Architecture for Modular Data Centers
(SIGCOMM 2009).
"""

import numpy as np

from netplan.errors import InputError
from netplan.levels import Level
from netplan.topologies.assembly import Links, NameBlock, Nodes, Wired
from netplan.topologies.fabric import (
    Fabric,
    LinkGroup,
    Sizing,
    SwitchTier,
    hb_level,
    network_level,
    port_words,
)
from netplan.topologies.graph import HALL, RACK, ROW, SWITCH
from netplan.topologies.specs import FabricSpec


def bcube_ports(spec: FabricSpec, sizing: Sizing) -> int:
    """Ports in use on every switch, n [1]; GPUs that are no power n^k are an error."""
    levels = spec.dimensions
    side: int = round(sizing.gpus ** (1 / levels))
    if side**levels != sizing.gpus:
        below, above = ((side + step) ** levels for step in (0, 1))
        if below > sizing.gpus:
            below, above = (side - 1) ** levels, below
        raise InputError(
            f"{spec.name} with {levels} levels holds a whole number to the power {levels} of GPUs,"
            f" got {sizing.gpus:,}: take {below:,} or {above:,}"
        )
    if side > sizing.radix:
        raise InputError(
            f"{spec.name} of {sizing.gpus:,} GPUs needs switches of {side} ports, got radix"
            f" {sizing.radix}: raise the radix, or dimensions in the fabric file"
        )
    return side


def build_bcube(spec: FabricSpec, sizing: Sizing) -> Fabric:
    """BCube over all GPUs, one network port a level on each."""
    side = bcube_ports(spec, sizing)
    switches, gpus = sizing.gpus // side, sizing.gpus
    numbers = range(spec.dimensions)
    return Fabric(
        name=spec.name,
        title=spec.title,
        sizing=sizing,
        tiers=tuple(SwitchTier(f"level {i}", switches, switches, gpus) for i in numbers),
        links=tuple(
            LinkGroup(f"level {i}", gpus, gpus, spec.host_medium if i == 0 else "optical")
            for i in numbers
        ),
        nic_ports=gpus * spec.dimensions,
        levels=_levels(spec, sizing, side),
        network="any-to-any",
        notes=(
            *spec.notes,
            f"{port_words(sizing, spec.dimensions)}; GPUs forward between levels.",
        ),
    )


def _levels(spec: FabricSpec, sizing: Sizing, side: int) -> tuple[Level, ...]:
    """HB domain, then a switch a level; none where domains do not fill the switches of level 0."""
    if side % sizing.hb_size:
        return ()
    rate = sizing.network_bytes_per_s
    outer = [network_level(sizing, side, rate)] * (spec.dimensions - 1)
    return hb_level(spec, sizing), network_level(sizing, side // sizing.hb_size, rate), *outer


def wire_bcube(spec: FabricSpec, fabric: Fabric, first: int, port: int) -> Wired:
    """Wire all levels, each by GPU; port i of a GPU, after its HB ports, goes to level i."""
    sizing = fabric.sizing
    side = bcube_ports(spec, sizing)
    switches = sizing.gpus // side
    gpu = np.arange(sizing.gpus, dtype=np.int32)
    nodes, links = [], []
    for level, group in enumerate(fabric.links):
        step = side**level
        digit = gpu // step % side
        switch = first + level * switches + gpu // (step * side) * step + gpu % step
        length = RACK if group.medium == "copper" else (HALL if level else ROW)
        ports = np.full_like(gpu, port + level), digit
        links.append(Links(group.name, gpu, switch, *ports, sizing.network_bytes_per_s, length))
        names = NameBlock(f"level-{level}/switch-{{}}", (switches,))
        nodes.append(Nodes(SWITCH, level + 1, names))
    return Wired(tuple(nodes), tuple(links))
