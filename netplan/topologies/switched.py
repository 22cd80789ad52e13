"""Fabrics of Clos networks: any-to-any, rail-only, and vendors' scalable units."""

from dataclasses import replace

from netplan.levels import Level
from netplan.topologies.clos import (
    ClosCounts,
    ceil_div,
    clos_counts,
    leaf_ports,
    rail_only_counts,
    wireable_clos,
)
from netplan.topologies.fabric import Fabric, Sizing, clos_parts, hb_level, network_level
from netplan.topologies.specs import FabricSpec


def build_clos(spec: FabricSpec, sizing: Sizing) -> Fabric:
    """One Clos network over all GPUs; with rail wiring a rail stays under its leaves.

    With several planes there is one such network a plane, of ports at a share of the rate; a
    switch has that many times more of them.
    """
    ratio = _ratio(spec, sizing)
    ends = sizing.gpus + spec.management_links
    plane = plane_sizing(spec, sizing)
    built = wireable_clos(ends, plane.radix, oversubscription=ratio).times(spec.planes)
    bound = clos_counts(ends, plane.radix, oversubscription=ratio).times(spec.planes)
    local = sizing.domains if spec.rail_wiring else sizing.gpus
    return _fabric(spec, plane, (built, bound), local, ratio)


def plane_sizing(spec: FabricSpec, sizing: Sizing) -> Sizing:
    """Sizing of one plane: ports split, so that there are more of them, each slower."""
    if spec.planes == 1:
        return sizing
    return replace(
        sizing,
        radix=sizing.radix * spec.planes,
        network_bytes_per_s=sizing.network_bytes_per_s / spec.planes,
    )


def build_rail_only(spec: FabricSpec, sizing: Sizing) -> Fabric:
    """One network a rail, none between rails; other traffic is forwarded inside HB domains."""
    ratio = _ratio(spec, sizing)
    built, bound = (
        rail_only_counts(
            sizing.gpus, sizing.radix, sizing.hb_size, oversubscription=ratio, wireable=wireable
        )
        for wireable in (True, False)
    )
    return _fabric(spec, sizing, (built, bound), sizing.domains, ratio)


def build_scalable_units(spec: FabricSpec, sizing: Sizing) -> Fabric:
    """Whole scalable units: one leaf a rail and unit, each with half its ports down.

    Leaf-to-spine cables are laid for whole units; host ports beyond the GPUs stay dark.
    """
    half = sizing.radix // 2
    nodes = ceil_div(sizing.gpus + spec.management_links, sizing.hb_size)
    units = ceil_div(nodes, half)
    whole = wireable_clos(units * sizing.hb_size * half, sizing.radix)
    ends = sizing.gpus + spec.management_links
    built = ClosCounts(sizing.radix, whole.switches_per_tier, (ends, *whole.links_per_tier[1:]))
    bound = clos_counts(ends, sizing.radix)
    return _fabric(spec, sizing, (built, bound), sizing.domains, 1.0)


def _ratio(spec: FabricSpec, sizing: Sizing) -> float:
    return sizing.oversubscription or spec.oversubscription


def _fabric(
    spec: FabricSpec,
    sizing: Sizing,
    counts: tuple[ClosCounts, ClosCounts],
    local: int,
    ratio: float,
) -> Fabric:
    """Assemble a fabric from its counts; ``local`` ports under one leaf keep the full rate."""
    built, bound = counts
    tiers, links = clos_parts(built, bound, spec.host_medium)
    notes = list(spec.notes)
    ports = leaf_ports(sizing.radix, ratio)
    rate = sizing.network_bytes_per_s * spec.planes
    if spec.planes > 1:
        notes.append(
            f"{spec.planes} planes: every GPU has one port of {sizing.speed_gbps:g} Gb/s in each,"
            f" and a switch {sizing.radix} such ports."
        )
    if built.tiers > 1 and ratio > 1:
        if local > ports.down:
            rate /= ports.oversubscription
            notes.append(
                f"Leaves have {ports.down} ports down and {ports.up} up: traffic between HB"
                f" domains runs at 1/{ports.oversubscription:.3g} of the port rate."
            )
        else:
            notes.append(
                f"Oversubscribed {ports.down}:{ports.up}, but each rail lies under one leaf:"
                " traffic along rails keeps the full rate."
            )
    elif ratio > 1:
        notes.append("One tier of switches: there is no uplink to oversubscribe.")
    levels: tuple[Level, ...] = (
        hb_level(spec, sizing),
        network_level(sizing, max(1, sizing.full_domains), rate),
    )
    return Fabric(
        name=spec.name,
        title=spec.title,
        sizing=sizing,
        tiers=tiers,
        links=links,
        nic_ports=sizing.gpus * spec.planes,
        levels=levels,
        network="rail-only" if spec.family == "rail-only" else "any-to-any",
        notes=tuple(notes),
    )
