"""Families by what they are."""

from netplan.topologies.families.graphs import DirectGraph
from netplan.topologies.families.joined_switches import JoinedSwitches
from netplan.topologies.specs import FAMILIES, FabricSpec, family_named


def _of(kind: type[FabricSpec]) -> tuple[str, ...]:
    return tuple(name for name in FAMILIES if issubclass(family_named(name), kind))


JOINED, DIRECT = _of(JoinedSwitches), _of(DirectGraph)
