"""The third face of a fabric: every node, port and link, as arrays.

A node is a GPU, a switch inside an HB domain, a network switch, a management host, or a memory that
GPUs share; a link joins two ports at full rate in both directions. Nothing here is a Python object
per node or link, so that a fabric of a million GPUs fits in some hundred megabytes. Names are made
when asked for.

Nodes are numbered GPUs first: GPU g is rank g % K of HB domain g // K. Then come the HB switches,
then the network switches from the lowest tier up, then management hosts and memories. Links of one
group stand together. A link's source is the end nearer to the GPUs; between equals, the lower
number; along a ring, the member whose next neighbour is the target.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Literal, overload

import numpy as np
from msgspec import Struct

from netplan.arrays import AnyInts, Bools, Codes, Floats, Indices, Ints, distinct_values
from netplan.errors import InputError
from netplan.progress import with_progress
from netplan.records import replace

if TYPE_CHECKING:
    import networkx as nx


NODE_KINDS = ("gpu", "hb_switch", "switch", "manager", "memory")
"""What a node is; ``node_kind`` holds the positions in this list."""

GPU, HB_SWITCH, SWITCH, MANAGER, MEMORY = range(5)

Medium = Literal["optical", "copper", "on-board", "on-chip"]
"""What links are made of; those of a board or a chip come with it."""
UNCABLED: tuple[Medium, ...] = ("on-board", "on-chip")

Role = Literal[
    "hb", "memory", "host", "up", "local", "global", "joined", "ring", "mesh", "direct", "board"
]
"""What links do: inside HB domains; to memories; from a GPU or manager to a switch; from a tier of
switches to the next; inside and between the groups of a dragonfly; between other switches that are
joined directly; from GPU to GPU along an axis, closed or each with each, or in any other way; from
GPU to GPU on a board."""

LENGTH_CLASSES = ("inside", "rack", "row", "hall")
"""How far a link reaches: inside an HB domain or chassis; within a rack (copper, up to 3 m); from a
server to its leaf (about 15 m); from switch to switch across the hall (about 30 m)."""

INSIDE, RACK, ROW, HALL = range(4)

MAX_LINKS = 1 << 27
MAX_NETWORKX_LINKS = 200_000
LINKS_AT_A_TIME = 1 << 16


def connected_parts(node_count: int, source: AnyInts, target: AnyInts) -> Ints:
    """Part of each node of a graph, shape (nodes,): the parts are numbered by their lowest nodes.

    Examples
    --------
    >>> connected_parts(6, np.array([0, 3, 4]), np.array([2, 4, 1]))
    array([0, 1, 0, 1, 1, 2])
    """
    # Most questions need no graph: they start without SciPy.
    from scipy.sparse import coo_array  # noqa: PLC0415
    from scipy.sparse.csgraph import connected_components  # noqa: PLC0415

    shape = (node_count, node_count)
    joined = coo_array((np.ones(len(source), np.int8), (source, target)), shape=shape)
    part: Ints = connected_components(joined, directed=False)[1].astype(np.int64)
    return part


def parts_below(graph: "FabricGraph", tier: int, together: AnyInts) -> Ints:
    """Part of each GPU, shape (gpus,), of what hangs together over nodes up to a tier.

    Parameters
    ----------
    graph
        The fabric; all its GPUs are in tier 0.
    tier
        Highest tier whose links count.
    together
        Number of the server or HB domain of every GPU, whose GPUs are in one part, shape (gpus,).

    Examples
    --------
    >>> from netplan import Scenario
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=64, radix=16, hb_size=4)
    >>> graph = scenario.fabric("fat-tree").graph()
    >>> [int(parts_below(graph, tier, np.arange(64) // 4).max()) + 1 for tier in (1, 2)]
    [8, 1]
    """
    used = np.maximum(graph.node_tier[graph.source], graph.node_tier[graph.target]) <= tier
    return joined_gpus(graph, used, together)


def joined_gpus(graph: "FabricGraph", links: Bools | slice, together: AnyInts) -> Ints:
    """Part of each GPU, shape (gpus,), of what some links join, as :func:`parts_below`."""
    gpu = np.arange(graph.gpus, dtype=np.int32)
    _, first, group = np.unique(together, return_index=True, return_inverse=True)
    source = np.concatenate((graph.source[links], gpu))
    target = np.concatenate((graph.target[links], first[group].astype(np.int32)))
    part = connected_parts(graph.node_count, source, target)[: graph.gpus]
    return np.unique(part, return_inverse=True)[1].reshape(-1)


class Adjacency(Struct, frozen=True):
    """Neighbours of every node, compressed by rows (CSR).

    The neighbours of node i are ``neighbor[indptr[i]:indptr[i + 1]]``, reached over the links
    ``link[indptr[i]:indptr[i + 1]]``: first the links that begin at i, then those that end there,
    each in order.
    """

    indptr: Ints
    neighbor: Indices
    link: Indices


class LinkType(Struct, frozen=True):
    """What the links of one group are, in a fabric and in its graph.

    Parameters
    ----------
    name
        Label of the group, which answers show and users type; it says nothing to netplan itself.
    role
        What they do.
    axis
        Axis or dimension that they run along, from 1; 0 where there is none [1].
    tiers
        Lower and higher tier that they join: 0 of GPUs, 1 of leaves and so on [1].
    medium
        What they are made of.
    width
        Times the rate of a network port, and ports that a link takes at a switch [1].
    crosses
        Whether they cross the border of a tile.
    """

    name: str
    role: Role
    axis: int = 0
    tiers: tuple[int, int] = (0, 0)
    medium: Medium = "optical"
    width: int = 1
    crosses: bool = False

    @property
    def title(self) -> str:
        """Label without the medium, for those who say it themselves.

        Examples
        --------
        >>> LinkType("ring 1 copper", "ring", axis=1, medium="copper").title
        'ring 1'
        """
        return self.name.removesuffix(f" {self.medium}")


HOST_LINKS = LinkType("host", "host", tiers=(0, 1))
HB_LINKS = LinkType("hb", "hb", medium="copper")
MEMORY_LINKS = LinkType("memory", "memory", medium="on-chip")
DIRECT_LINKS = LinkType("direct", "direct")


class FabricGraph(Struct, frozen=True, eq=False, dict=True):
    """A fabric as nodes and links.

    Parameters
    ----------
    name
        Name of the fabric.
    gpus, hb_size
        GPUs, which are the nodes 0 to gpus - 1, and GPUs per HB domain, K [1].
    node_kind, node_tier
        Code into ``NODE_KINDS``; tier (0 GPU, management host or memory, -1 HB switch, 1 leaf,
        2 spine …), shape (nodes,).
    names
        Name of every node, shape (nodes,); made on demand where the names follow a pattern.
    source, target
        The two nodes that a link joins, shape (links,).
    source_port, target_port
        Port of the link on either node, counted from 0 on each node, shape (links,).
    bytes_per_s
        Rate of each link in one direction; every link is full duplex [B/s], shape (links,).
    length_class, group
        Codes into ``LENGTH_CLASSES`` and ``groups``, shape (links,).
    groups
        The link groups: that of HB domains, then those of the fabric's counts.
    """

    name: str
    gpus: int
    hb_size: int
    node_kind: Codes
    node_tier: Codes
    names: Sequence[str]
    source: Indices
    target: Indices
    source_port: Indices
    target_port: Indices
    bytes_per_s: Floats
    length_class: Codes
    group: Codes
    groups: tuple[LinkType, ...]

    def __repr__(self) -> str:
        """In a line: what it joins, by how many links."""
        return (
            f"<FabricGraph {self.name}: {self.gpus:,} GPUs, {self.node_count:,} nodes,"
            f" {self.link_count:,} links>"
        )

    @cached_property
    def group_names(self) -> tuple[str, ...]:
        """Labels of the link groups."""
        return tuple(group.name for group in self.groups)

    @property
    def node_count(self) -> int:
        """Nodes of all kinds [1]."""
        return len(self.node_kind)

    @property
    def link_count(self) -> int:
        """Links of all groups [1]; parallel links count one each."""
        return len(self.source)

    @property
    def domains(self) -> int:
        """HB domains, the last one perhaps partly filled [1]."""
        return -(-self.gpus // self.hb_size)

    @cached_property
    def ports_used(self) -> Ints:
        """Ports in use on each node [1], shape (nodes,)."""
        ends = np.bincount(self.source, minlength=self.node_count)
        return ends + np.bincount(self.target, minlength=self.node_count)

    @cached_property
    def adjacency(self) -> Adjacency:
        """Neighbours of every node."""
        ends = np.concatenate((self.source, self.target))
        others = np.concatenate((self.target, self.source))
        order = np.argsort(ends, kind="stable")
        indptr = np.zeros(self.node_count + 1, np.int64)
        np.cumsum(self.ports_used, out=indptr[1:])
        link = np.where(order < self.link_count, order, order - self.link_count)
        return Adjacency(indptr, others[order], link.astype(np.int32))

    def as_found(self, share: float) -> "FabricGraph":
        """The graph at the rates that traffic finds beyond HB domains and memories.

        Parameters
        ----------
        share
            What is left of them [1].

        Returns
        -------
        FabricGraph
            Itself where nothing is lost.
        """
        if share == 1:
            return self
        inside = self.is_role("hb", "memory")
        return replace(self, bytes_per_s=np.where(inside, 1.0, share) * self.bytes_per_s)

    def has(self, *roles: Role) -> bool:
        """Whether the graph has links that do something.

        Parameters
        ----------
        *roles
            Any of these counts.

        Returns
        -------
        bool
            Whether one of its groups has one of the roles.
        """
        return any(group.role in roles for group in self.groups)

    def is_role(self, *roles: Role) -> Bools:
        """Which links have one of some roles.

        Parameters
        ----------
        *roles
            Any of these counts.

        Returns
        -------
        numpy.ndarray
            Whether each link has one, shape (links,).
        """
        chosen: Bools = np.zeros(self.link_count, bool)
        for code, group in enumerate(self.groups):
            if group.role in roles:
                chosen |= self.group == code
        return chosen

    def links_with(self, *roles: Role) -> Ints:
        """Numbers of the links that have one of some roles.

        Parameters
        ----------
        *roles
            Any of these counts.

        Returns
        -------
        numpy.ndarray
            Places in the arrays of links, shape (such links,).
        """
        return np.flatnonzero(self.is_role(*roles))

    def axis_of_link(self, *roles: Role) -> Ints:
        """Axis along which each link runs.

        Parameters
        ----------
        *roles
            Links of other roles run along none.

        Returns
        -------
        numpy.ndarray
            Axes from 1, or 0, shape (links,).
        """
        axes = [group.axis if group.role in roles else 0 for group in self.groups]
        return np.array([*axes, 0], np.int64)[self.group]

    def links_of(self, group: str) -> Ints:
        """Numbers of the links of one group.

        Parameters
        ----------
        group
            Its label, one of ``group_names``.

        Returns
        -------
        numpy.ndarray
            Places in the arrays of links, shape (links of the group,); empty without such a group.
        """
        if group not in self.group_names:
            return np.empty(0, np.int64)
        return np.flatnonzero(self.group == self.group_names.index(group))

    def links_per_group(self) -> dict[str, int]:
        """How many links each group has.

        Returns
        -------
        dict of str to int
            Links by the name of their group [1], groups without links left out.
        """
        counts = np.bincount(self.group, minlength=len(self.group_names)).tolist()
        return {name: n for name, n in zip(self.group_names, counts, strict=True) if n}

    def switches_per_tier(self) -> dict[int, int]:
        """How many network switches each tier has.

        Returns
        -------
        dict of int to int
            Switches by their tier, leaves at 1 [1].
        """
        tiers = self.node_tier[self.node_kind == SWITCH]
        return dict(sorted(Counter(tiers.tolist()).items()))

    def node_name(self, index: int) -> str:
        """Name of one node, from its place in the structure.

        Parameters
        ----------
        index
            Number of the node [1].

        Returns
        -------
        str
            Such as ``rail-3/leaf-0``.
        """
        return self.names[index]

    def node_names(self) -> list[str]:
        """Names of all nodes.

        Returns
        -------
        list of str
            In the order of the nodes, shape (nodes,).
        """
        return list(self.names)

    def direction_names(self, codes: AnyInts) -> list[str]:
        """Names of directions of links; with ports, as cable plans count them, among parallel ones.

        Parameters
        ----------
        codes
            Link l from source to target, links + l back, shape (named,).

        Returns
        -------
        list of str
            Such as ``gpu-0 -> leaf-0``, shape (named,).

        Examples
        --------
        Twelve GPUs below three leaves, each with two cables to either spine.

        >>> from netplan import Scenario
        >>> scenario = Scenario.load("hgx-h100").replace(gpus=12, radix=8, hb_size=1)
        >>> graph = scenario.fabric("fat-tree").graph()
        >>> graph.direction_names(np.array([0, 13, graph.link_count + 13]))
        ['gpu-0 -> leaf-0', 'leaf-0:6 -> spine-0:2', 'spine-0:2 -> leaf-0:6']
        """
        back, links = np.divmod(codes, self.link_count)
        nodes = np.stack((self.source, self.target)).astype(np.int64)
        pairs = nodes.min(axis=0) * self.node_count + nodes.max(axis=0)
        cables = Counter(pairs[np.isin(pairs, pairs[links])].tolist())
        ports = np.stack((self.source_port, self.target_port))[:, links] + 1
        outside = ~self.is_role("hb")
        if max(cables.values(), default=1) > 1:
            ports -= np.where(outside[links], _first_ports(self, outside)[nodes[:, links]], 0)
        named = []
        for index, link in enumerate(links.tolist()):
            ends = [self.node_name(node) for node in nodes[:, link].tolist()]
            if cables[int(pairs[link])] > 1:
                ends = [f"{end}:{port}" for end, port in zip(ends, ports[:, index], strict=True)]
            named.append(" -> ".join(reversed(ends) if back[index] else ends))
        return named

    def link_rows(self) -> Iterator[tuple[int, int, int, int, float, str, str]]:
        """All links, one after the other.

        Yields
        ------
        tuple
            Numbers of the source and its port, of the target and its port [1], rate in one
            direction [B/s], length class, group.
        """
        lengths, groups = (np.array(n, object) for n in (LENGTH_CLASSES, self.group_names))
        # A slice at a time: lists of Python numbers take ten times the memory of the arrays.
        begins = range(0, self.link_count, LINKS_AT_A_TIME)
        for begin in with_progress(begins, "links from number {:,} on".format):
            part = slice(begin, begin + LINKS_AT_A_TIME)
            yield from zip(
                self.source[part].tolist(),
                self.source_port[part].tolist(),
                self.target[part].tolist(),
                self.target_port[part].tolist(),
                self.bytes_per_s[part].tolist(),
                lengths[self.length_class[part]].tolist(),
                groups[self.group[part]].tolist(),
                strict=True,
            )

    def part(self, nodes: Bools, links: Bools | Ints) -> "FabricGraph":
        """Some nodes, numbered from 0 again, and some of the links between them.

        Parameters
        ----------
        nodes
            Which nodes are in it, shape (nodes,).
        links
            Which links are, or their numbers; both ends of each are in it.

        Returns
        -------
        FabricGraph
            That part, with the GPUs, ports and rates that it has.
        """
        number = np.cumsum(nodes, dtype=np.int32) - np.int32(1)
        of_links = ("source_port", "target_port", "bytes_per_s", "length_class", "group")
        return replace(
            self,
            gpus=int(np.count_nonzero(nodes[: self.gpus])),
            node_kind=self.node_kind[nodes],
            node_tier=self.node_tier[nodes],
            names=self.names if nodes.all() else PickedNames(self.names, np.flatnonzero(nodes)),
            source=number[self.source[links]],
            target=number[self.target[links]],
            **{name: getattr(self, name)[links] for name in of_links},
        )

    def to_networkx(self) -> "nx.MultiGraph[str]":
        """Copy a small graph into networkx: an edge a link, with ports, rate, length and group.

        Returns
        -------
        networkx.MultiGraph
            Nodes by name with ``kind`` and ``tier``, edges with ``bytes_per_s`` [B/s].

        Raises
        ------
        InputError
            If the graph has more than 200,000 links.

        Examples
        --------
        >>> from netplan import Scenario
        >>> fabric = Scenario.load("hgx-b200").replace(gpus=64, radix=16).fabric("rail-only")
        >>> view = fabric.graph().to_networkx()
        >>> sorted(view["gpu-0"]), view.nodes["gpu-0"]["kind"]
        (['domain-0/nvswitch-0', 'leaf-0'], 'gpu')
        """
        if self.link_count > MAX_NETWORKX_LINKS:
            raise InputError(
                f"{self.name} has {self.link_count:,} links, too many for networkx: take a fabric"
                f" of at most {MAX_NETWORKX_LINKS:,} links, or write an edge list"
            )
        import networkx as nx  # noqa: PLC0415 - optional, and slow to import

        view: nx.MultiGraph[str] = nx.MultiGraph(name=self.name)
        names = self.node_names()
        nodes = zip(names, self.node_kind.tolist(), self.node_tier.tolist(), strict=True)
        view.add_nodes_from((n, {"kind": NODE_KINDS[k], "tier": t}) for n, k, t in nodes)
        for a, a_port, b, b_port, rate, length, group in self.link_rows():
            ends = {"source": names[a], "source_port": a_port, "target_port": b_port}
            view.add_edge(names[a], names[b], **ends, bytes_per_s=rate, length=length, group=group)
        return view


class LazyNames(Sequence[str]):
    """Names that are made when read: of each place by :meth:`name`."""

    def name(self, place: int) -> str:
        """Name at a place from 0 on."""
        raise NotImplementedError

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        """One name, or some."""
        places = range(len(self))
        if isinstance(index, slice):
            return [self.name(place) for place in places[index]]
        return self.name(places[index])


class PickedNames(LazyNames):
    """Some of the names of a graph, made when read.

    Examples
    --------
    >>> PickedNames(("a", "b", "c"), np.array([0, 2]))[-1]
    'c'
    """

    def __init__(self, names: Sequence[str], picked: Ints) -> None:
        """Take the names at some places."""
        self._names, self._picked = names, picked

    def __len__(self) -> int:
        """Names [1]."""
        return len(self._picked)

    def __iter__(self) -> Iterator[str]:
        """Names in order."""
        names = list(self._names)
        return (names[place] for place in self._picked.tolist())

    def name(self, place: int) -> str:
        """Name at a place from 0 on."""
        return self._names[int(self._picked[place])]


def host_ends(graph: FabricGraph, links: Ints) -> tuple[Indices, Indices]:
    """GPUs and switches at the ends of links that join one of each, shape (links,) each.

    Examples
    --------
    >>> from netplan import Scenario
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=64, radix=8)
    >>> graph = scenario.fabric("rail-only").graph()
    >>> [end[:3].tolist() for end in host_ends(graph, graph.links_with("host"))]
    [[0, 1, 2], [72, 73, 74]]
    """
    first, second = graph.source[links], graph.target[links]
    is_first = graph.node_kind[first] == GPU
    return np.where(is_first, first, second), np.where(is_first, second, first)


def switches_suffice(graph: FabricGraph, links: Ints) -> bool:
    """Whether switches alone join all GPUs that the network joins at all.

    If not, GPUs pass on traffic of others: in tori, which have no switches, and in BCube, whose
    switches meet in GPUs only. Several planes of switches suffice if one of them does.
    """
    ends = graph.node_kind[graph.source[links]], graph.node_kind[graph.target[links]]
    between = links[(ends[0] != GPU) & (ends[1] != GPU)]
    to_gpu = links[(ends[0] == GPU) ^ (ends[1] == GPU)]
    gpu, switch = host_ends(graph, to_gpu)
    count = graph.node_count
    plane = connected_parts(count, graph.source[between], graph.target[between])[switch]
    reach = distinct_values(gpu * np.int64(count) + plane)
    touched = np.bincount(reach % count, minlength=count)
    whole = connected_parts(count, graph.source[links], graph.target[links])[: graph.gpus]
    size = np.bincount(whole)[whole]
    best = np.zeros(graph.gpus, np.int64)
    np.maximum.at(best, gpu, touched[plane])
    return bool(np.all(best[size > 1] == size[size > 1]))


def network_only(graph: FabricGraph) -> FabricGraph:
    """Leave out HB switches and the links inside HB domains; GPU ports are numbered from 0 again.

    A graph without such links was read from a file, and stays as it is: its ports are as that says.

    Examples
    --------
    >>> from netplan import Scenario
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=64, radix=16)
    >>> graph = scenario.fabric("rail-optimized").graph()
    >>> network_only(graph).links_per_group()
    {'host': 64, 'leaf-spine': 64}
    """
    if not graph.has("hb"):
        return graph
    used = ~graph.is_role("hb")
    part, first = graph.part(graph.node_kind != HB_SWITCH, used), _first_ports(graph, used)
    return replace(
        part,
        source_port=part.source_port - first[graph.source[used]],
        target_port=part.target_port - first[graph.target[used]],
    )


def _first_ports(graph: FabricGraph, used: Bools) -> Indices:
    """First network port of every GPU; 0 for all other nodes, whose ports keep their numbers."""
    first = np.full(graph.node_count, np.iinfo(np.int32).max, np.int32)
    np.minimum.at(first, graph.source[used], graph.source_port[used])
    np.minimum.at(first, graph.target[used], graph.target_port[used])
    return np.where(graph.node_kind == GPU, first, 0).astype(np.int32)
