"""Families of networks whose switches are joined directly: which switches, by family."""

from collections.abc import Callable, Mapping
from functools import lru_cache

from netplan.topologies.fabric import Fabric, Sizing
from netplan.topologies.families.circulant import circulant
from netplan.topologies.families.dragonfly_plus import dragonfly_plus
from netplan.topologies.families.hyperx import hyperx
from netplan.topologies.families.jellyfish import jellyfish
from netplan.topologies.families.joined_switches import SwitchGraph, build_switch_graph
from netplan.topologies.families.slim_fly import slim_fly
from netplan.topologies.families.switched import plane_sizing
from netplan.topologies.families.xpander import xpander
from netplan.topologies.specs import FabricSpec

SWITCH_GRAPHS: Mapping[str, Callable[[FabricSpec, Sizing], SwitchGraph]] = {
    "hyperx": hyperx,
    "slim-fly": slim_fly,
    "jellyfish": jellyfish,
    "dragonfly-plus": dragonfly_plus,
    "circulant": circulant,
    "xpander": xpander,
}


def switch_graph(spec: FabricSpec, sizing: Sizing) -> SwitchGraph:
    """Switches of one plane of a fabric, and which are joined.

    Parameters
    ----------
    spec, sizing
        The spec, and the sizing of one plane: that of a built fabric.

    Raises
    ------
    InputError
        If the fabric cannot be built in this size; the message says what can.
    """
    return _switch_graph(spec, sizing)


@lru_cache(maxsize=8)
def _switch_graph(spec: FabricSpec, sizing: Sizing) -> SwitchGraph:
    """The same, which counts, links and levels share."""
    return SWITCH_GRAPHS[spec.family](spec, sizing)


def build_joined_switches(spec: FabricSpec, sizing: Sizing) -> Fabric:
    """Counts, levels and notes of such a network."""
    plane = plane_sizing(spec, sizing)
    return build_switch_graph(spec, plane, switch_graph(spec, plane))
