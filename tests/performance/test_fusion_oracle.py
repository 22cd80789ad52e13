"""The fusion of whole layers against HiGHS, on a mixed-integer program of its own.

Partitions stand in a row, kernels choose one of them and how many tiles; results flow forward. The
program knows nothing of paths over finished sets: binaries x[kernel, partition] and
y[kernel, choice, partition], and the time of every partition.
"""

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from netplan.performance.mapping.chip import MappingOptions, kernel_problem
from netplan.performance.mapping.fusion import best_fusion
from netplan.performance.mapping.partitions import ComputeTiles, FusionProblem, kernel_choices
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.model_graphs import layer_graph
from netplan.workloads.models import MODELS


class Program:
    """Rows of a mixed-integer program, written one by one."""

    def __init__(self, count: int) -> None:
        self.rows: list[dict[int, float]] = []
        self.most: list[float] = []
        self.count = count

    def at_most(self, row: dict[int, float], most: float) -> None:
        """One constraint: row times variables is at most so much."""
        self.rows.append(row)
        self.most.append(most)

    def solve(self, cost: np.ndarray, whole: np.ndarray, high: np.ndarray) -> float:
        """The least cost."""
        cells = [(at, key, value) for at, row in enumerate(self.rows) for key, value in row.items()]
        at, key, value = (np.array(column) for column in zip(*cells, strict=True))
        matrix = coo_array((value, (at, key)), (len(self.rows), self.count)).tocsr()
        limits = LinearConstraint(matrix, -np.inf, np.array(self.most))
        options = {"mip_rel_gap": 1e-7, "time_limit": 300}
        bounds = Bounds(0, high)
        found = milp(cost, integrality=whole, bounds=bounds, constraints=limits, options=options)
        assert found.status == 0, found.message
        return float(found.fun)


def least_interval_s(problem: FusionProblem, chip: ComputeTiles, tile: int, parts: int) -> float:
    """The least interval with at most so many partitions, by HiGHS."""
    graph, n, scale = problem.graph, problem.graph.count, 1e6
    found = [kernel_choices(kernel, chip, tile) for kernel in graph.kernels]
    seconds = problem.choices.seconds_per_cycle if problem.choices else 0.0
    first = np.cumsum([0, *(len(tiles) for tiles, _ in found)])
    edges = len(graph.source)
    x, y = 0, n * parts
    inner = y + int(first[-1]) * parts  # whether an edge stays inside of a partition
    time = inner + edges * parts
    program = Program(time + parts)
    room, rate = problem.chip.sram_bytes, problem.chip.bytes_per_s
    for kernel in range(n):
        chosen = {x + kernel * parts + part: 1.0 for part in range(parts)}
        program.at_most(chosen, 1.0)
        program.at_most(dict.fromkeys(chosen, -1.0), -1.0)
        for part in range(parts):
            options = range(int(first[kernel]), int(first[kernel + 1]))
            row = {y + one * parts + part: 1.0 for one in options}
            program.at_most(row | {x + kernel * parts + part: -1.0}, 0.0)
            program.at_most(dict.fromkeys(row, -1.0) | {x + kernel * parts + part: 1.0}, 0.0)
            cycles = found[kernel][1] * seconds * scale
            slow = {y + one * parts + part: c for one, c in zip(options, cycles, strict=True)}
            program.at_most(slow | {time + part: -1.0}, 0.0)
    for edge, (source, target) in enumerate(zip(graph.source, graph.target, strict=True)):
        for part in range(parts):  # results flow forward, and stay inside with both ends
            later = {x + int(target) * parts + one: 1.0 for one in range(part + 1)}
            earlier = {x + int(source) * parts + one: -1.0 for one in range(part + 1)}
            program.at_most(later | earlier, 0.0)
            for end in (int(source), int(target)):
                key = inner + edge * parts + part
                program.at_most({key: 1.0, x + end * parts + part: -1.0}, 0.0)
    for part in range(parts):
        tiles = {
            y + int(first[kernel] + one) * parts + part: float(count)
            for kernel in range(n)
            for one, count in enumerate(found[kernel][0])
        }
        program.at_most(tiles, problem.chip.tiles)
        kept = [inner + edge * parts + part for edge in range(edges)]
        members = [x + kernel * parts + part for kernel in range(n)]
        border = dict(zip(members, problem.border_bytes, strict=True))
        moved = border | dict(zip(kept, -2 * graph.edge_bytes, strict=True))
        busy = {key: value / rate * scale for key, value in moved.items()}
        program.at_most(busy | {time + part: -1.0}, 0.0)
        sent = dict(zip(members, problem.network_s * scale, strict=True))
        program.at_most(sent | {time + part: -1.0}, 0.0)
        share = 2 * problem.tile_share
        need = {key: share * value for key, value in moved.items()}
        for key, size in zip(kept, problem.inside_sram_bytes, strict=True):
            need[key] += size
        for key, size in zip(members, problem.weights, strict=True):
            need[key] += size
        program.at_most({key: value / room for key, value in need.items()}, 1.0)
    cost = np.zeros(program.count)
    cost[time:] = 1.0
    whole = np.ones(program.count)
    whole[time:] = 0
    high = np.ones(program.count)
    high[time:] = np.inf
    total = program.solve(cost, whole, high) / scale
    return total + float(problem.setup_s.sum())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "tensor", "tile", "parts"),
    [("gpt-175b", 8, 32, 3), ("gpt-175b", 4, 64, 4), ("gpt-22b", 2, 64, 3)],
)
def test_whole_layers_are_cut_as_an_integer_program_cuts_them(
    model: str, tensor: int, tile: int, parts: int
) -> None:
    """Partitions are at most what the best of all convex ones has, and one more.

    Kernels alone that need more SRAM than there is are left to the other tests.
    """
    chip = ACCELERATORS.load("sn10")
    tiles = ComputeTiles.of(chip)
    assert tiles
    graph = layer_graph(MODELS.load(model), tensor)
    sent_s = graph.column("all_reduce_bytes") * (tensor - 1) / tensor / chip.hb_bytes_per_s
    problem = kernel_problem(graph, chip, sent_s, MappingOptions(), tile)
    best = best_fusion(problem)
    assert best.exact
    assert len(best.members) < parts + 1
    found = least_interval_s(problem, tiles, tile, parts)
    assert best.interval_s == pytest.approx(found, rel=1e-5)
