"""DOT, as Graphviz and cabling checkers read it: ``"leaf01":"swp1s0" -- "host01":"eth0"``."""

from collections.abc import Iterator

from netplan.topologies.graph import LENGTH_CLASSES, NODE_KINDS, FabricGraph
from netplan.units import gbps


def dot_lines(graph: FabricGraph) -> Iterator[str]:
    """Write a graph as DOT: nodes with their role and tier, then one line a link.

    Examples
    --------
    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.topologies.specs import FABRICS
    >>> graph = expand(FABRICS.load("fat-tree"), Sizing(8, 16, 1, 450e9, 50e9))
    >>> print("".join(list(dot_lines(graph))[10]), end="")
      "leaf-0":"port-0" -- "gpu-0":"port-0" [gbps=400, length="row"];
    """
    names = [_quoted(name) for name in graph.names]
    yield f"graph {_quoted(graph.name)} {{\n"
    for name, kind, tier in zip(
        names, graph.node_kind.tolist(), graph.node_tier.tolist(), strict=True
    ):
        yield f'  {name} [role="{NODE_KINDS[kind]}", tier={tier}];\n'
    for link in range(graph.link_count):
        # The switch, which is the target, comes first.
        upper = f'{names[graph.target[link]]}:"port-{graph.target_port[link]}"'
        lower = f'{names[graph.source[link]]}:"port-{graph.source_port[link]}"'
        rate = gbps(float(graph.bytes_per_s[link]))
        length = LENGTH_CLASSES[graph.length_class[link]]
        yield f'  {upper} -- {lower} [gbps={rate:g}, length="{length}"];\n'
    yield "}\n"


def _quoted(text: str) -> str:
    """DOT string; a backslash or quote inside would end it early."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
