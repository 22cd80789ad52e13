"""Small fabrics of every family, and what networkx says of their damaged graphs."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations, islice

import networkx as nx
import numpy as np

from netplan.arrays import Ints
from netplan.faults.damage.damage import Damage, no_damage
from netplan.faults.damage.flows import FlowNetwork
from netplan.records import replace
from netplan.topologies.designs import DESIGNS
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.graph import GPU, HB_SWITCH, INSIDE, SWITCH, FabricGraph
from netplan.topologies.specs import FABRICS, FabricSpec


@dataclass(frozen=True)
class Case:
    """A fabric; ``passing`` says whether its GPUs pass on traffic of others by design."""

    graph: FabricGraph
    passing: bool = False


def fabric(
    name: str,
    size: tuple[int, int, int],
    *,
    hb_rate: float = 120e9,
    ratio: float | None = None,
    **changes: object,
) -> FabricGraph:
    """A fabric of the catalog for so many GPUs, radix and GPUs a domain; ports of 50 GB/s."""
    shelf = FABRICS if name in FABRICS.paths() else DESIGNS
    changes = {"hb_size": None} | changes
    spec = FabricSpec.read(shelf.load(name).to_dict() | changes)
    return expand(spec, Sizing(*size, hb_rate, 50e9, oversubscription=ratio))


def small_cases() -> dict[str, Case]:
    """Fabrics of some twenty switches and links."""
    return {
        "one switch": Case(fabric("fat-tree", (8, 8, 2))),
        "fat tree": Case(fabric("fat-tree", (12, 8, 3), ratio=3.0)),
        "rail-optimized": Case(fabric("rail-optimized", (12, 8, 2), ratio=3.0)),
        "rail-only, one switch a rail": Case(fabric("rail-only", (12, 8, 2))),
        "rail-only, a domain partly filled": Case(fabric("rail-only", (11, 8, 3))),
        "rail-only, leaves and spines": Case(fabric("rail-only", (18, 8, 2), ratio=3.0)),
        "scalable units": Case(fabric("dgx-superpod", (8, 8, 2))),
        "two planes": Case(fabric("twin-plane", (10, 8, 2))),
        "slow HB domains": Case(fabric("rail-only", (12, 8, 3), hb_rate=20e9)),
        "HB switch planes": Case(fabric("rail-only", (12, 8, 3), hb_planes=2)),
        "hybrid cube mesh": Case(fabric("dgx-1", (16, 8, 8), hb_size=8)),
        "torus of domains": Case(fabric("torus-2d", (12, 8, 2), sizes=(3, 2)), passing=True),
        "torus of chips": Case(fabric("torus-2d", (9, 8, 1), sizes=(3, 3)), passing=True),
        "two planes, leaves and spines": Case(fabric("twin-plane", (28, 8, 2), ratio=3.0)),
        "dragonfly": Case(
            fabric(
                "dragonfly",
                (12, 8, 2),
                hosts_per_switch=2,
                switches_per_group=2,
                global_links_per_switch=1,
            )
        ),
        "bcube": Case(fabric("bcube", (9, 8, 1)), passing=True),
    }


def parts_of(graph: FabricGraph) -> list[tuple[str, int]]:
    """Every switch and every link, HB switches and links to them included."""
    switches = np.flatnonzero((graph.node_kind == SWITCH) | (graph.node_kind == HB_SWITCH))
    mesh = (graph.length_class == INSIDE) & (graph.node_kind[graph.target] == GPU)
    return [
        *(("node", node) for node in switches.tolist()),
        *(("link", link) for link in np.flatnonzero(~mesh).tolist()),
    ]


def single_and_double(graph: FabricGraph, *, every: int = 1) -> Iterator[Damage]:
    """Every failure of one part, and of two parts: all, or each so many."""
    parts = parts_of(graph)
    doubles = islice(combinations(parts, 2), 0, None, every)
    for failed in (*((part,) for part in parts), *doubles):
        yield damage_to(
            graph,
            nodes=[number for kind, number in failed if kind == "node"],
            links=[number for kind, number in failed if kind == "link"],
        )


def random_damage(graph: FabricGraph, failures: int, rng: np.random.Generator) -> Damage:
    """So many failures of any nodes and links, GPUs included."""
    chosen = rng.integers(0, graph.node_count + graph.link_count, failures)
    nodes, links = chosen[chosen < graph.node_count], chosen[chosen >= graph.node_count]
    return damage_to(graph, nodes=nodes, links=links - graph.node_count)


def live_view(graph: FabricGraph, damage: Damage, *, inside: bool) -> "nx.Graph[int]":
    """What is left, parallel links added up; without links inside domains unless asked for."""
    view: nx.Graph[int] = nx.Graph()
    view.add_nodes_from(np.flatnonzero(~damage.node_down).tolist())
    ends = zip(graph.source.tolist(), graph.target.tolist(), strict=True)
    for link, (a, b) in enumerate(ends):
        if damage.link_down[link] or damage.node_down[a] or damage.node_down[b]:
            continue
        if graph.group_names[graph.group[link]] == "hb" and not inside:
            continue
        known = view.get_edge_data(a, b, {"capacity": 0.0})["capacity"]
        view.add_edge(a, b, capacity=known + float(graph.bytes_per_s[link]))
    return view


def max_flow(case: Case, damage: Damage, pair: tuple[int, int]) -> float:
    """Max-flow between the GPUs of two domains."""
    graph = case.graph
    view = live_view(graph, damage, inside=False)
    domains = [
        {gpu for gpu in view if gpu < graph.gpus and gpu // graph.hb_size == one} for one in pair
    ]
    if not case.passing:
        gpus = set(np.flatnonzero(graph.node_kind == GPU).tolist())
        view.remove_nodes_from((gpus & set(view)) - domains[0] - domains[1])
    flows = view.to_directed()
    flows.add_nodes_from((-1, -2))
    flows.add_edges_from((-1, gpu) for gpu in domains[0])
    flows.add_edges_from((gpu, -2) for gpu in domains[1])
    if not domains[0] or not domains[1]:
        return 0.0
    return float(nx.maximum_flow_value(flows, -1, -2))


def damage_to(
    graph: FabricGraph, *, nodes: Iterable[int] | Ints = (), links: Iterable[int] | Ints = ()
) -> Damage:
    """Damage of some nodes and links, by number."""
    found = no_damage(graph)
    for mask, numbers in ((found.node_down, nodes), (found.link_down, links)):
        mask[np.asarray(list(numbers), np.int64)] = True
    return found


def damaged_graph(graph: FabricGraph, damage: Damage) -> FabricGraph:
    """The graph without the links that are out; nodes keep their numbers, failed ones lose all."""
    live = ~damage.links_out(graph)
    return replace(
        graph,
        source=graph.source[live],
        target=graph.target[live],
        source_port=graph.source_port[live],
        target_port=graph.target_port[live],
        bytes_per_s=graph.bytes_per_s[live],
        length_class=graph.length_class[live],
        group=graph.group[live],
    )


def capacity_bytes_per_s(network: FlowNetwork, a: int, b: int) -> float:
    """Largest flow between two domains [B/s]."""
    return network.flow(a, b).units * network.reduced.unit_bytes_per_s
