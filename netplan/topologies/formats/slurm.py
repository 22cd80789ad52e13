"""Slurm's ``topology.conf``: the tree of switches that its scheduler keeps jobs together under.

A Slurm node is a server, that is, an HB domain. Slurm wants a tree, and a fabric with several
leaves a server, or several spines, is none. So a line stands for all switches up to one tier that
hang together over links of that tier and below: under rail wiring the leaves of one unit, in a fat
tree one leaf, then one pod. A tier that joins nothing further gets no line.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from netplan.arrays import Ints
from netplan.errors import InputError
from netplan.topologies.graph import SWITCH, FabricGraph, connected_parts


def slurm_lines(graph: FabricGraph, *, node: str = "node") -> Iterator[str]:
    """Write the tree of a fabric's switches as Slurm's ``topology.conf``.

    Parameters
    ----------
    graph
        A fabric with switches.
    node
        Name of the servers before their number.

    Raises
    ------
    InputError
        If the fabric has no network switches.

    Examples
    --------
    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.topologies.specs import FABRICS
    >>> graph = expand(FABRICS.load("fat-tree"), Sizing(64, 16, 4, 450e9, 50e9))
    >>> print("".join(list(slurm_lines(graph))[-3:]), end="")
    SwitchName=s1-6 Nodes=node[12-13]
    SwitchName=s1-7 Nodes=node[14-15]
    SwitchName=s2-0 Switches=s1-[0-7]
    """
    tiers = sorted(set(graph.node_tier[graph.node_kind == SWITCH].tolist()))
    if not tiers:
        raise InputError(f"{graph.name} has no switches: Slurm's tree topology needs some")
    below: Ints = np.arange(graph.domains)
    label_below, kind = node, "Nodes"
    for tier in tiers:
        part = _parts(graph, tier)
        if len(np.unique(part)) == len(np.unique(below)) and tier > tiers[0]:
            continue
        label = f"s{tier}-"
        # One child of each kind: the numbers of the parts below, and the part each lies in.
        children, first = np.unique(below, return_index=True)
        parents = part[first]
        for parent in range(int(parents.max()) + 1):
            members = _hostlist(children[parents == parent])
            yield f"SwitchName={label}{parent} {kind}={label_below}{members}\n"
        below, label_below, kind = part, label, "Switches"


def _parts(graph: FabricGraph, tier: int) -> Ints:
    """Number of the part that each HB domain lies in, over switches up to one tier."""
    used = np.maximum(graph.node_tier[graph.source], graph.node_tier[graph.target]) <= tier
    gpu = np.arange(graph.gpus, dtype=np.int32)
    source = np.concatenate((graph.source[used], gpu))
    target = np.concatenate((graph.target[used], gpu - gpu % np.int32(graph.hb_size)))
    label = connected_parts(graph.node_count, source, target)
    return np.unique(label[: graph.gpus : graph.hb_size], return_inverse=True)[1].reshape(-1)


def _hostlist(numbers: Ints) -> str:
    """Ascending numbers as a Slurm host list."""
    values = numbers.tolist()
    breaks = [i for i, (a, b) in enumerate(pairwise(values), 1) if b != a + 1]
    ranges = [values[a:b] for a, b in pairwise((0, *breaks, len(values)))]
    texts = [f"{r[0]}-{r[-1]}" if len(r) > 1 else str(r[0]) for r in ranges]
    return texts[0] if len(values) == 1 else f"[{','.join(texts)}]"
