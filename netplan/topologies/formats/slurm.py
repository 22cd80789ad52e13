"""Slurm's view of a fabric: tree and block topologies, ``topology.conf`` and ``topology.yaml``.

A Slurm node is a server, ``host-3``: an HB domain, unless hosts of fewer GPUs are asked for, such
as the trays of a rack of 72 GPUs. In a graph that was found, where adapters are named by their
hosts (``node017/mlx5_0``), nodes have the hosts' own names.

*Tree.* Slurm wants a tree, and a fabric with several leaves a server, or several spines, is none.
So a line stands for all switches up to one tier that hang together over links of that tier and
below: under rail wiring the leaves of one unit, in a fat tree one leaf, then one pod. A tier that
joins nothing further gets no line.

*Block.* Jobs ask for segments of hosts (``sbatch --segment=N``), each of which lies in one block
whole. A block is an HB domain of several hosts, else what hangs together below the leaves: the
lowest lines of the tree. Sizes of blocks are the smallest one and twice that, four times, … as far
as all larger parts of the network have whole numbers of them, as the plugin wants them (Slurm's
manual: topology.conf, topology/block, https://slurm.schedmd.com/topology.conf.html). The YAML form
holds both, the tree as the cluster's default (https://slurm.schedmd.com/topology.yaml.html, 2026).
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from netplan.arrays import Ints, distinct_values
from netplan.errors import InputError
from netplan.topologies.cabling.device_names import host_name, require_host
from netplan.topologies.graph import SWITCH, FabricGraph, parts_below

NODES, SWITCHES = "Nodes", "Switches"


Branch = tuple[str, str, str]
"""A line of the tree: its name, whether hosts or switches are below it, and which."""
NamedHosts = tuple[Ints, Sequence[str]]
"""Servers: the number of that of every GPU, shape (gpus,), and their names."""


def slurm_lines(graph: FabricGraph, *, host_gpus: int | None = None) -> Iterator[str]:
    """Write the tree of a fabric's switches as Slurm's ``topology.conf``.

    Parameters
    ----------
    graph
        The fabric.
    host_gpus
        GPUs of a server; an HB domain if absent [1].

    Raises
    ------
    InputError
        If the fabric has no network switches, or HB domains are not whole hosts.

    Examples
    --------
    >>> from netplan import Scenario
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=64, radix=16, hb_size=4)
    >>> graph = scenario.fabric("fat-tree").graph()
    >>> print(*list(slurm_lines(graph))[-2:], sep="", end="")
    SwitchName=s1-7 Nodes=host-[14-15]
    SwitchName=s2-0 Switches=s1-[0-7]
    """
    for name, below, members in _tree(graph, named_hosts(graph, host_gpus), _tiers(graph)):
        yield f"SwitchName={name} {below}={members}\n"


def slurm_block_lines(graph: FabricGraph, *, host_gpus: int | None = None) -> Iterator[str]:
    """Write the blocks of hosts, for segments of jobs, as Slurm's ``topology.conf``.

    Parameters and errors are those of :func:`slurm_lines`.

    Examples
    --------
    >>> from netplan import Scenario
    >>> scenario = Scenario.load("nvl72-gb200").replace(gpus=144, radix=16)
    >>> graph = scenario.fabric("rail-optimized").graph()
    >>> print("".join(slurm_block_lines(graph, host_gpus=4)), end="")
    # A job's segments, sbatch --segment=N, have up to 18 hosts each.
    BlockName=block-0 Nodes=host-[0-17]
    BlockName=block-1 Nodes=host-[18-35]
    BlockSizes=18,36
    """
    blocks, sizes = _blocks(graph, named_hosts(graph, host_gpus))
    yield f"# A job's segments, sbatch --segment=N, have up to {sizes[0]} hosts each.\n"
    for number, members in enumerate(blocks):
        yield f"BlockName=block-{number} Nodes={members}\n"
    yield f"BlockSizes={','.join(map(str, sizes))}\n"


def slurm_yaml_lines(graph: FabricGraph, *, host_gpus: int | None = None) -> Iterator[str]:
    """Write tree and blocks as Slurm's ``topology.yaml``, which partitions name.

    Parameters and errors are those of :func:`slurm_lines`.
    """
    hosts = named_hosts(graph, host_gpus)
    tree, (blocks, sizes) = _tree(graph, hosts, _tiers(graph)), _blocks(graph, hosts)
    yield "---\n- topology: tree\n  cluster_default: true\n  tree:\n    switches:\n"
    for name, kind, members in tree:
        below = "nodes" if kind == NODES else "children"
        yield f"      - switch: {name}\n        {below}: {members}\n"
    yield "- topology: block\n  cluster_default: false\n  block:\n    block_sizes:\n"
    yield from (f"      - {size}\n" for size in sizes)
    yield "    blocks:\n"
    for number, members in enumerate(blocks):
        yield f"      - block: block-{number}\n        nodes: {members}\n"


def named_hosts(graph: FabricGraph, host_gpus: int | None = None) -> NamedHosts:
    """Servers of a fabric: of so many GPUs, or by the names of adapters, or HB domains.

    Raises
    ------
    InputError
        If HB domains are not whole hosts, nor hosts whole domains.
    """
    prefixes = [name.rpartition("/")[0] for name in graph.names[: graph.gpus]]
    if host_gpus is None and all(prefixes):
        numbers = {name: number for number, name in enumerate(dict.fromkeys(prefixes))}
        return np.array([numbers[name] for name in prefixes]), list(numbers)
    size = graph.hb_size if host_gpus is None else host_gpus
    require_host(size, graph.gpus)
    if graph.hb_size % size and size % graph.hb_size:
        raise InputError(
            f"hosts of {size} GPUs and HB domains of {graph.hb_size} do not divide each other:"
            " give a divisor of that as --host-gpus"
        )
    of_gpu = np.arange(graph.gpus) // size
    return of_gpu, [host_name(number) for number in range(int(of_gpu[-1]) + 1)]


def _tree(graph: FabricGraph, hosts: NamedHosts, tiers: Sequence[int]) -> Iterator[Branch]:
    """Lines of the tree, from the leaves up."""
    of_gpu, names = hosts
    below: Ints = np.arange(len(names))
    kind = NODES
    for tier in tiers:
        part = _parts(graph, of_gpu, tier)
        count = int(part.max()) + 1
        if count == len(names) and tier > tiers[0]:
            continue
        # One child of each kind: the numbers of the parts below, and the part each lies in.
        children, first = np.unique(below, return_index=True)
        for parent, members in enumerate(_members(part[first], children)):
            yield f"s{tier}-{parent}", kind, hostlist([names[child] for child in members])
        below, names, kind = part, [f"s{tier}-{number}" for number in range(count)], SWITCHES


def _tiers(graph: FabricGraph) -> list[int]:
    """Tiers of switches, of which Slurm needs one."""
    tiers = sorted(set(graph.node_tier[graph.node_kind == SWITCH].tolist()))
    if not tiers:
        raise InputError(f"{graph.name} has no switches: Slurm's topology needs some")
    return tiers


def _blocks(graph: FabricGraph, hosts: NamedHosts) -> tuple[list[str], list[int]]:
    """Host lists of the blocks, and the sizes that jobs are planned by."""
    of_gpu, names = hosts
    tiers = _tiers(graph)
    every: Ints = np.arange(len(names))
    domain = np.arange(graph.gpus) // graph.hb_size
    in_domain = domain[np.unique(of_gpu, return_index=True)[1]]
    of_host = _parts(graph, of_gpu, tiers[0])
    if len(distinct_values(in_domain)) < len(every):
        of_host = in_domain
    blocks = _members(of_host, every)
    counts = [len(block) for block in blocks]
    larger = [np.bincount(_parts(graph, of_gpu, tier)).tolist() for tier in tiers]
    sizes = [min(counts)]
    while len(set(counts)) == 1 and sizes[-1] * 2 <= len(every):
        size = sizes[-1] * 2
        if any(part % size for part in [len(every), *(n for ns in larger for n in ns if n > size)]):
            break
        sizes.append(size)
    return [hostlist([names[host] for host in block]) for block in blocks], sizes


def _parts(graph: FabricGraph, hosts: Ints, tier: int) -> Ints:
    """Number of the part that each host lies in, over switches up to one tier."""
    first = np.unique(hosts, return_index=True)[1]
    return parts_below(graph, tier, hosts)[first]


def _members(part: Ints, values: Ints) -> list[Sequence[int]]:
    """Values of every part, rising; the parts are numbered from 0."""
    order = np.argsort(part, kind="stable")
    cuts = np.cumsum(np.bincount(part))[:-1]
    return [members.tolist() for members in np.split(values[order], cuts)]


def hostlist(names: Sequence[str]) -> str:
    """Names as a Slurm host list; those that differ in their last numbers share a bracket.

    Examples
    --------
    >>> hostlist(["host-8", "host-9", "host-10", "host-12"]), hostlist(["n01", "n02", "n7a"])
    ('host-[8-10,12]', 'n[01-02],n7a')
    """
    groups: dict[tuple[str, int], list[int]] = {}
    for name in names:
        prefix = name.rstrip("0123456789")
        digits = name[len(prefix) :]
        width = len(digits) if digits.startswith("0") and digits != "0" else 0
        groups.setdefault((prefix, width if digits else -1), []).append(int(digits or 0))
    texts = (_bracket(prefix, width, values) for (prefix, width), values in groups.items())
    return ",".join(texts)


def _bracket(prefix: str, width: int, values: Sequence[int]) -> str:
    """Names of one prefix, whose numbers have so many digits at least; -1 for none."""
    if width < 0:
        return prefix
    breaks = [i for i, (a, b) in enumerate(pairwise(values), 1) if b != a + 1]
    ranges = [values[a:b] for a, b in pairwise((0, *breaks, len(values)))]
    ends = [dict.fromkeys(f"{value:0{width}}" for value in (run[0], run[-1])) for run in ranges]
    text = ",".join("-".join(pair) for pair in ends)
    return f"{prefix}{text}" if len(values) == 1 else f"{prefix}[{text}]"
