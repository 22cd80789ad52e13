"""Trees that take the optimum, verified arc by arc, and run as MSCCL programs."""

from collections import Counter
from itertools import product
from typing import get_args

import numpy as np
import pytest

from netplan.errors import InputError
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.graph import FabricGraph
from netplan.topologies.graph.symmetry import CapacityGraph, ring
from netplan.topologies.specs import FABRICS
from netplan.traffic.msccl import Gathering, msccl_lines
from netplan.traffic.optimum import all_gather_optimum
from netplan.traffic.trees import Forest, pack_trees
from tests.traffic.msccl_machine import played
from tests.traffic.test_optimum import drawn, graph_of
from tests.turns import one_in


def packed(graph: FabricGraph, *, directed: bool = False) -> Forest:
    """Trees of a graph, after every arc of them was looked at."""
    network = CapacityGraph.of(graph, directed=directed)
    optimum = all_gather_optimum(network)
    forest = pack_trees(network, optimum.ratio)
    assert forest.time_s(1e9) == pytest.approx(optimum.least_s(1e9), rel=1e-12)
    roots: Counter[int] = Counter()
    load: Counter[tuple[int, int]] = Counter()
    for tree in forest.trees:
        reached = {tree.root}
        for tail, head in tree.arcs:
            assert tail in reached
            assert head not in reached
            reached.add(head)
            load[tail, head] += tree.count
        assert reached == set(range(graph.gpus))  # it spans
        roots[tree.root] += tree.count
    assert roots == dict.fromkeys(range(graph.gpus), forest.per_root)
    # What trees send over an arc past switches fits its routes, and these fit the links.
    links: Counter[tuple[int, int]] = Counter()
    for arc, ways in forest.routes.items():
        assert load[arc] <= sum(way.room for way in ways)
        for way in ways:
            assert (way.nodes[0], way.nodes[-1]) == arc
            assert min(way.nodes[1:-1], default=graph.gpus) >= graph.gpus  # switches forward
            for step in zip(way.nodes, way.nodes[1:], strict=False):
                links[step] += way.room
    assert set(load) <= set(forest.routes)
    capacity = network.out.toarray() * network.unit
    for (tail, head), room in links.items():
        assert room * forest.tree_bytes_per_s <= capacity[tail, head] * (1 + 1e-12)
    return forest


def grid(fabric: str, x: int, y: int, inside: float, outside: float) -> FabricGraph:
    return expand(FABRICS.load(fabric), Sizing(x * y, max(8, x * y), x, inside, outside))


SMALL = {
    "ring": graph_of(6, [(g, (g + 1) % 6) for g in range(6)], 50e9),
    "star": graph_of(5, [(g, 5) for g in range(5)], 50e9),
    "two domains": grid("fat-tree", 4, 2, 70e9, 10e9),
    "cube mesh": grid("dgx-1", 8, 1, 300e9, 10e9),
    "torus": grid("torus-3d", 1, 8, 1e9, 10e9),
}


@pytest.mark.parametrize("name", list(SMALL))
def test_trees_take_the_optimum(name: str) -> None:
    packed(SMALL[name])


def test_trees_take_the_optimum_on_random_graphs() -> None:
    rng = np.random.default_rng(3)
    for number in range(20):
        directed = number % 2 == 1
        packed(drawn(rng, directed=directed), directed=directed)


def test_one_switch_needs_no_forwarding() -> None:
    """Each of five GPUs sends its shard to the four others, a quarter of its port each."""
    forest = packed(SMALL["star"])
    assert {tree.depth for tree in forest.trees} == {1}
    assert forest.tree_bytes_per_s * forest.per_root == pytest.approx(50e9 / 4)


@pytest.mark.parametrize(("collective", "name"), one_in(2, product(get_args(Gathering), SMALL)))
def test_programs_bring_every_chunk_to_every_gpu(collective: Gathering, name: str) -> None:
    graph = SMALL[name]
    forest = packed(graph)
    found = played("".join(msccl_lines("a & b", collective, forest)))
    gpus, part = graph.gpus, forest.per_root
    for gpu, chunks in found.items():
        for place, chunk in enumerate(chunks):
            if collective == "all_gather":
                assert chunk == {(place // part, place): 1}
            else:  # each GPU's input is added once
                number = place + (gpu * part if collective == "reduce_scatter" else 0)
                assert chunk == {(one, number): 1 for one in range(gpus)}


def test_what_no_trees_reach_is_refused() -> None:
    with pytest.raises(InputError, match="at most"):
        pack_trees(ring(64), all_gather_optimum(ring(64)).ratio)
    with pytest.raises(InputError, match="no trees reach this ratio"):
        pack_trees(ring(4), all_gather_optimum(ring(4)).ratio * 3 / 4)
