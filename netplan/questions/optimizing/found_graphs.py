"""What an optimization tells of the graphs that it found: what is proven, and what they beat.

Of a graph on the front two things are proven: how much more traffic another graph of equally many
switches, links and hosts might carry at most, and the throughput optimum of an all_gather
over all GPUs, beside the least that GPUs, HB domains and switches with so many ports need in any
graph.
"""

from collections.abc import Iterator, Sequence
from math import gcd, prod
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct, to_builtins

from netplan.performance.pareto import comparable
from netplan.performance.search import SearchResult
from netplan.progress import share_done
from netplan.questions.optimizing.designs import Design, Objective, label
from netplan.questions.optimizing.graph_designs import GraphSpace, GraphWish
from netplan.reports.sections import Column, Notes, Paragraph, Section, Table, column, columns
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.families.graph_search import BestGraph
from netplan.topologies.graph.symmetry import CapacityGraph
from netplan.topologies.specs import FabricSpec
from netplan.traffic.hierarchy import Group
from netplan.traffic.optimum import all_gather_optimum
from netplan.units import counted

GATHERED_BYTES = 1e9
MOST_PROVEN_GPUS = 65_536
"""GPUs up to which the optimum of a graph is asked for [1]."""
SAME = 1e-9

Point = tuple[Design, SearchResult]
"""A design and its plans."""


class FoundGraph(Struct, frozen=True):
    """A graph of the front.

    Parameters
    ----------
    number, spec
        Its point on the front, and its fabric file.
    sizing
        What it was found for.
    degree, hosts_per_switch
        Links of a switch to others, and its hosts [1].
    uniform_share, any_share
        What traffic of all to all gets of a port's rate between switches, over shortest paths, and
        what any traffic gets over detours [1].
    spread_gap
        How much more another graph of as many switches and links might carry of such traffic, as a
        share [1].
    optimum_s, reached_s
        Least time of an all_gather over all GPUs, whatever the algorithm, and what some algorithm
        takes; the same where it is proven, None where nobody asked [s].
    least_s
        What GPUs, HB domains and switches with so many ports need for it in any graph [s].
    analytic_s
        Its time by the model of the search; None where levels do not hold all GPUs [s].
    """

    number: int
    spec: FabricSpec
    sizing: Sizing
    degree: int
    hosts_per_switch: int
    uniform_share: float
    any_share: float
    spread_gap: float
    optimum_s: float | None
    reached_s: float | None
    least_s: float
    analytic_s: float | None

    @property
    def proven(self) -> str:
        """What is proven of the all_gather, in a word or two."""
        if self.optimum_s is None:
            return "not asked"
        if self.reached_s is None or self.reached_s > self.optimum_s * (1 + SAME):
            return "bracket"
        return "best of all" if self.optimum_s <= self.least_s * (1 + SAME) else "exact"

    def to_dict(self) -> dict[str, Any]:
        """One graph in the JSON answer, with its fabric file."""
        data: dict[str, Any] = to_builtins(self)
        del data["sizing"]
        return data | {"proven": self.proven}

    @property
    def file_text(self) -> str:
        """Its fabric file, which says first what it was found for."""
        from netplan.calibration.cluster import file_text

        asked = f"--gpus {self.sizing.gpus} --radix {self.sizing.radix}"
        asked += f" --hb-size {self.sizing.hb_size}"
        return f"# found for {asked} --fabric {self.spec.name}\n{file_text(self.spec)}"


class Beaten(Struct, frozen=True):
    """A design of the catalog's front, and the graph that is no dearer and no slower.

    ``saves`` and ``faster`` are shares of its price or power, and of its time [1].
    """

    name: str
    number: int
    graph: str
    saves: float
    faster: float


class FoundGraphs(Struct, frozen=True):
    """The graphs of a front, how they were found, and what they beat.

    ``slow`` cheaper graphs are left out, since they are slower than all of the catalog's front by
    more than is allowed; ``front`` is how many designs that has [1].
    """

    wish: GraphWish
    space: GraphSpace
    rows: tuple[FoundGraph, ...]
    beaten: tuple[Beaten, ...]
    front: int
    slow: int

    def to_dict(self) -> dict[str, Any]:
        """The search in the JSON answer."""
        return {
            "search": self.space.tally.to_dict(self.wish),
            "found": [row.to_dict() for row in self.rows],
            "beaten": to_builtins(self.beaten),
            "catalog_front": self.front,
            "left_out_as_slow": self.slow,
        }

    def sections(self) -> Iterator[Section]:
        """The table of graphs, and what its columns prove."""
        if self.rows:
            legend = tuple(self._legend())
            yield Table("graphs", list(COLUMNS), self.rows, "Graphs that were found", legend)
        yield Paragraph(self.sentence, "strong")
        slow = (
            f"Left out, {counted(self.slow, 'graph')} that cost less still, and train slower than"
            f" all of the catalog's front by more than {100 * self.wish.slower:g} % (--slower)."
            if self.slow
            else ""
        )
        notes = (self.space.tally.note(self.wish), slow)
        yield Notes(tuple(("", note) for note in notes if note))

    @property
    def sentence(self) -> str:
        """What of the catalog's front the graphs beat."""
        if not self.front:
            return "No design of the catalog meets the demands and has a time."
        if not self.beaten:
            return (
                f"No graph beats a design of the catalog's front ({counted(self.front, 'design')})"
                " in price or time without being worse in the other."
            )
        told = "; ".join(
            f"{one.graph} ({one.number}) beats {one.name}, {_share(one.saves)} less and"
            f" {_share(one.faster)} faster"
            for one in self.beaten
        )
        return (
            f"Of the catalog's front ({counted(self.front, 'design')}) graphs beat"
            f" {len(self.beaten)}: {told}."
        )

    def _legend(self) -> Iterator[str]:
        yield (
            "all to all, any: of a port's rate between switches, over shortest paths and over"
            " detours; gap: how much more any graph of as many switches and links might carry."
        )
        yield (
            "optimum: an all_gather of 1 GB over all GPUs by the best algorithm; least: what no"
            " graph of these ports beats; model: what the search counts with."
        )

    def write(self, folder: str | Path, *, force: bool = False) -> tuple[Path, ...]:
        """Write the graphs as fabric files into a catalog folder.

        Raises
        ------
        InputError
            If one of them is there already, unless ``force`` is said.
        """
        from netplan.calibration.cluster import write_records

        texts = {f"topologies/{one.spec.name}.yaml": one.file_text for one in self.rows}
        return write_records(Path(folder), texts, force=force)


COLUMNS: tuple[Column[FoundGraph], ...] = (
    column("design", "number", title=""),
    column("fabric", "spec.name", title="graph"),
    *columns("uniform_share", "any_share", "spread_gap"),
    column("optimum_s"),
    column("least_s"),
    column("analytic_s", title="model"),
    column("proven"),
    column("degree", shown="never"),
    column("hosts_per_switch", shown="never"),
    column("reached_s", shown="never"),
)


def proven_graphs(front: Sequence[tuple[int, Point]], space: GraphSpace) -> Iterator[FoundGraph]:
    """What is proven of the graphs on a front, whose points have a number, a design and plans."""
    for number, point in front:
        graph = space.best.get(point[0].choice.spec.name)
        if graph is not None:
            yield _proven(number, point, graph)


def beaten_designs(
    front: Sequence[tuple[int, Point]], catalog: Sequence[Point], objective: Objective
) -> Iterator[Beaten]:
    """Designs of the catalog's front that are on the front of all no more, each with what beats it.

    Of several points that do so, the one that saves most is named.
    """
    for rival, rival_result in catalog:
        value, time_s = comparable(rival.value(objective)), comparable(rival_result.time_s)
        for number, (design, result) in front:
            own, own_s = comparable(design.value(objective)), comparable(result.time_s)
            if own <= value and own_s <= time_s and (own, own_s) != (value, time_s):
                name = design.choice.spec.name
                saved, faster = 1 - own / value, 1 - own_s / time_s
                yield Beaten(label(rival), number, name, saved, faster)
                break


def _share(share: float) -> str:
    return f"{100 * share:.1f} %"


def _proven(number: int, point: Point, graph: BestGraph) -> FoundGraph:
    """One graph with what is proven of it."""
    design, result = point
    sizing, spec = design.fabric.sizing, design.choice.spec
    hosts, degree = graph.count.hosts, graph.count.degree
    optimum_s = reached_s = None
    if sizing.gpus <= MOST_PROVEN_GPUS:
        network = CapacityGraph.of(expand(spec, sizing))
        tell = share_done(f"GPUs that differ on {spec.name} asked for its optimum")
        optimum = all_gather_optimum(network, tell=tell)
        optimum_s = optimum.least_s(GATHERED_BYTES)
        reached_s = optimum.most_s(GATHERED_BYTES)
    return FoundGraph(
        number=number,
        spec=spec,
        sizing=sizing,
        degree=degree,
        hosts_per_switch=hosts,
        uniform_share=min(1.0, sizing.gpus / (hosts**2 * graph.pair_load)),
        any_share=graph.share,
        spread_gap=graph.gap,
        optimum_s=optimum_s,
        reached_s=reached_s,
        least_s=least_gather_s(sizing, hosts, degree),
        analytic_s=_modelled_s(design, result),
    )


def least_gather_s(sizing: Sizing, hosts: int, degree: int) -> float:
    """No graph of such ports gathers 1 GB over all GPUs faster [s].

    What is outside has to come into one GPU, one HB domain, and the switches that hold whole HB
    domains, over all their ports.

    Examples
    --------
    64 GPUs in domains of 8 at 50 GB/s a port: seven eighths of 1 GB over 8 ports; or 3/4 of it over
    the three links of a switch of 16.

    >>> from netplan import Scenario
    >>> sizing = Scenario.load("hgx-h100").replace(gpus=64, radix=32).sizing
    >>> least_gather_s(sizing, 16, 12), least_gather_s(sizing, 16, 3)
    (0.0021875, 0.005)
    """
    gpus, size, rate = sizing.gpus, sizing.hb_size, sizing.network_bytes_per_s
    ways = [(1, sizing.hb_bytes_per_s + rate)] if size > 1 else [(1, rate)]
    ways.append((size, size * rate))
    block = hosts * size // gcd(hosts, size)
    ways.append((block, block // hosts * degree * rate))
    each = GATHERED_BYTES / gpus
    return max((gpus - held) * each / taken for held, taken in ways if held < gpus)


def _modelled_s(design: Design, result: SearchResult) -> float | None:
    """Bandwidth part of the same all_gather by the model of the search, where it has all GPUs."""
    sizes = [level.size for level in design.fabric.levels]
    if prod(sizes) != design.fabric.sizing.gpus or not result.settings:
        return None
    members = np.array(sizes)[:, None]
    network = result.settings[0].network(design.fabric.levels)
    gathering = network.collective("all_gather", Group(members, np.ones_like(members)))
    return float(gathering.sending_s(GATHERED_BYTES)[0])
