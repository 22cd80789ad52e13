"""From a fabric spec to its graph: every node, port and link, in agreement with the counts."""

from netplan.errors import InputError
from netplan.topologies.assembly import Nodes, Wired, assemble
from netplan.topologies.bcube import wire_bcube
from netplan.topologies.build import build_fabric
from netplan.topologies.domain_wiring import domain_link_count, domain_ports, wire_domains
from netplan.topologies.dragonfly_wiring import wire_dragonfly
from netplan.topologies.fabric import Fabric, Sizing
from netplan.topologies.graph import GPU, MAX_LINKS, FabricGraph
from netplan.topologies.naming import NameBlock
from netplan.topologies.specs import FabricSpec
from netplan.topologies.switched_wiring import wire_any_to_any, wire_rail_only
from netplan.topologies.torus_wiring import wire_torus


def expand(spec: FabricSpec, sizing: Sizing) -> FabricGraph:
    """Expand a fabric to its graph.

    Parameters
    ----------
    spec
        The fabric's catalog file.
    sizing
        GPUs, radix and link rates; the spec's own HB domain replaces the sizing's.

    Returns
    -------
    FabricGraph
        GPUs, HB switches and network switches; link groups ``hb`` and those of the fabric's
        counts, each with exactly as many links.

    Raises
    ------
    InputError
        If the fabric cannot be built in this size, or has more than 134 million links.

    Examples
    --------
    >>> from netplan.topologies.specs import FABRICS
    >>> sizing = Sizing(1024, 32, 8, hb_bytes_per_s=450e9, network_bytes_per_s=50e9)
    >>> graph = expand(FABRICS.load("rail-only"), sizing)
    >>> graph.links_per_group()
    {'hb': 1024, 'host': 1024, 'leaf-spine': 1024}
    >>> graph.node_name(17), graph.node_name(1024), graph.node_name(1152), graph.node_name(-1)
    ('gpu-17', 'domain-0/nvswitch-0', 'rail-0/leaf-0', 'rail-7/spine-3')
    """
    fabric = build_fabric(spec, sizing)
    sizing = fabric.sizing
    expected = fabric.link_count + domain_link_count(spec, sizing)
    if expected > MAX_LINKS:
        raise InputError(
            f"{spec.name} with {sizing.gpus:,} GPUs in HB domains of {sizing.hb_size:,} has"
            f" {expected:,} links, more than the {MAX_LINKS:,} of a graph: take fewer GPUs, or"
            " HB domains joined by switches"
        )
    gpus = Wired((Nodes(GPU, 0, NameBlock("gpu-{}", (sizing.gpus,))),))
    domains = wire_domains(spec, sizing)
    first = sizing.gpus + sum(len(block.names) for block in domains.nodes)
    network = _wire_network(spec, fabric, first)
    return assemble(spec.name, sizing.gpus, sizing.hb_size, (gpus, domains, network))


def _wire_network(spec: FabricSpec, fabric: Fabric, first: int) -> Wired:
    """Wire what joins the HB domains; its switches are numbered from ``first`` on."""
    port = domain_ports(spec, fabric.sizing)
    match spec.family:
        case "clos" | "scalable-units":
            return wire_any_to_any(spec, fabric, first, port)
        case "rail-only":
            return wire_rail_only(spec, fabric, first, port)
        case "torus":
            return wire_torus(spec, fabric, port)
        case "dragonfly":
            return wire_dragonfly(spec, fabric, first, port)
        case "bcube":
            return wire_bcube(spec, fabric, first, port)
