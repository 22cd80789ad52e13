"""What an optimization tells of the graphs that it found: what is proven, and what they beat.

Of a graph on the front two things are proven: how much more traffic another graph of equally many
switches, links and hosts might carry at most, and the throughput optimum of an all_gather
over all GPUs, beside the least that GPUs, HB domains and switches with so many ports need in any
graph.

Graphs among the designs: counts that bounds do not rule out, the best graph of each.

For every HB domain and switch the counts of :mod:`netplan.topologies.families.graph_search` are
priced, and taken by rising price. One whose bound is no better than the rate that a cheaper graph
gives any traffic between its switches is ruled out, whatever its links, and so is one that costs no
less than a fabric of the catalog whose network gives every port its whole rate. Of the others the
best graph is searched, and kept if it is faster there than all cheaper ones. Switches that hold
whole HB domains, whose traffic inside does not leave them, are compared with their like alone,
until every port has its whole rate. What is kept is timed among all designs, as any fabric is.
"""

from collections.abc import Iterator, Sequence
from math import gcd, inf, prod
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct, to_builtins

from netplan.costing.fabric_bill import BillBooks
from netplan.files import write_texts
from netplan.performance.pareto import comparable
from netplan.performance.plan import SearchResult
from netplan.progress import share_done, with_progress
from netplan.questions.optimizing.designs import (
    Axes,
    Choice,
    Constraint,
    Design,
    Objective,
    build_design,
    label,
    price_design,
)
from netplan.records import replace
from netplan.reports.schema import plain_data
from netplan.reports.sections import Column, Notes, Paragraph, Section, Table, column, columns
from netplan.scenarios.reading import sizing_on
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.families import graph_search
from netplan.topologies.families.jellyfish import Jellyfish
from netplan.topologies.graph.symmetry import CapacityGraph
from netplan.topologies.specs import FabricSpec
from netplan.traffic.hierarchy import Group
from netplan.traffic.optimum import all_gather_optimum
from netplan.units import counted

FASTER = 1e-9


class GraphWish(Struct, frozen=True):
    """What graphs are looked for: links of a switch to others at most, and draws of each count.

    ``slower`` is how much slower than all of the catalog's front they may be, as a share [1].
    """

    most_degree: int | None
    seeds: range
    slower: float


class CatalogDesigns(Struct, frozen=True, eq=False):
    """All designs of the catalog, which graphs are to beat, and all demands on both."""

    designs: Sequence[Design]
    demands: Sequence[Constraint]


class GraphTally(Struct, frozen=True):
    """Counts that there are, that meet demands of price and power, and that no bound rules out [1].

    ``kept`` graphs are faster than all cheaper ones with the same levels, of all that were looked
    at.
    """

    json_parts = "counts", "allowed", "ruled_out", "searched", "graphs", "kept"

    counts: int = 0
    allowed: int = 0
    searched: int = 0
    graphs: int = 0
    kept: int = 0

    @property
    def row(self) -> tuple[int, int, int, int, int]:
        """All of them, in order [1]."""
        return self.counts, self.allowed, self.searched, self.graphs, self.kept

    @property
    def ruled_out(self) -> int:
        """Those that no graph was looked for, since none is faster than a cheaper one [1]."""
        return self.allowed - self.searched

    def note(self, wish: GraphWish) -> str:
        """How the graphs were found."""
        beyond = self.counts - self.allowed
        limits = f", of which {beyond:,} are beyond the limits" if beyond else ""
        return (
            f"Graphs: {counted(self.counts, 'count')} of switches, links and hosts{limits};"
            f" {self.ruled_out:,} ruled out, since no graph of theirs is faster than"
            f" a cheaper one; of {self.searched:,} the best graph was searched, {self.graphs:,}"
            f" graphs with seeds {wish.seeds.start} to {wish.seeds.stop - 1}; {self.kept:,} are"
            f" faster than all cheaper ones. --seed {wish.seeds.stop} goes on with others."
        )


class GraphSpace(Struct, frozen=True):
    """Designs that were found, and how; what was found of each, by the name of its fabric."""

    designs: tuple[Design, ...]
    tally: GraphTally
    best: dict[str, graph_search.BestGraph]


class _Priced(Struct, frozen=True):
    """A count, what any graph of it costs or draws, and how fast one is at best.

    ``whole`` says that its switches hold whole HB domains.
    """

    value: float
    count: graph_search.Count
    whole: bool
    bound: float


ANY = Jellyfish(name="graph", title="", source="", date="", family="jellyfish")
"""Any graph: all of a count have the same bill."""


def find_graphs(
    axes: Axes,
    gpus: int,
    books: BillBooks,
    objective: Objective,
    wish: GraphWish,
    catalog: CatalogDesigns,
) -> GraphSpace:
    """Graphs that are faster than all cheaper ones, for every HB domain, switch and memory.

    Parameters
    ----------
    axes
        HB domains, switches and memories; the fabrics are not looked at.
    gpus, books, objective, wish
        The cluster, prices and power, what is set against time, and which graphs.
    catalog
        Designs that are known without graphs, and all demands.
    """
    demands = catalog.demands
    rivals = [rival for rival in catalog.designs if all(demand.meets(rival) for demand in demands)]
    # Counts decide every demand but this one, for which the links of a graph must be known.
    of_counts = [demand for demand in demands if demand.name != "survives_switch"]
    designs: list[Design] = []
    best: dict[str, graph_search.BestGraph] = {}
    total = GraphTally()
    for choice in axes.switched(ANY):
        if choice.hb_size >= gpus:
            continue
        chip, radix = choice.variant.chip, choice.switch.radix
        sizing = sizing_on(chip, gpus=gpus, radix=radix, hb_size=choice.hb_size)
        counts = list(graph_search.counts_holding(gpus, radix, wish.most_degree))
        priced = list(_priced(counts, choice, sizing, books, objective, of_counts))
        as_fast = (rival.value(objective) for rival in rivals if _as_fast(rival, choice))
        ceiling = min(as_fast, default=inf)
        kept, tally = _kept([entry for entry in priced if entry.value < ceiling], sizing, wish)
        total = GraphTally(
            *map(sum, zip(total.row, (len(counts), len(priced), *tally), strict=True))
        )
        for graph in kept:
            designs.append(build_design(replace(choice, spec=graph.spec), gpus, books, axes.ports))
            best[graph.spec.name] = graph
    return GraphSpace(tuple(designs), total, best)


def _as_fast(design: Design, choice: Choice) -> bool:
    """Whether a design is no slower than any graph: equal HB domains, and it blocks nowhere."""
    sizing, levels = design.fabric.sizing, design.fabric.levels
    same = (sizing.hb_size, design.choice.variant) == (choice.hb_size, choice.variant)
    if not same or len(levels) != 2:  # noqa: PLR2004 - HB domain and network
        return False
    network = levels[1]
    whole = network.link_bytes_per_s >= choice.variant.chip.network_bytes_per_s
    return network.kind == "switch" and not network.tiers and whole


def _priced(
    counts: Sequence[graph_search.Count],
    choice: Choice,
    sizing: Sizing,
    books: BillBooks,
    objective: Objective,
    demands: Sequence[Constraint],
) -> Iterator[_Priced]:
    """The counts that meet the demands, with their price or power."""
    for count in with_progress(
        counts, lambda count: f"prices of graphs of {count.switches} switches"
    ):
        design = price_design(choice, sizing, graph_search.counted_fabric(count, sizing), books)
        if all(demand.meets(design) for demand in demands):
            bound, value = count.any_share(count.least_pair_load), design.value(objective)
            yield _Priced(comparable(value), count, count.hosts % sizing.hb_size == 0, bound)


def _kept(
    priced: Sequence[_Priced], sizing: Sizing, wish: GraphWish
) -> tuple[list[graph_search.BestGraph], tuple[int, int, int]]:
    """Graphs that are faster than all cheaper ones; counts and graphs searched, graphs kept."""
    best = {True: 0.0, False: 0.0}
    kept, searched, graphs = [], 0, 0
    plain = replace(sizing, hb_size=1)
    order = sorted(priced, key=lambda entry: (entry.value, -entry.bound))
    for entry in with_progress(order, lambda entry: f"graphs of {entry.count.switches} switches"):
        # At the whole rate of every port no graph is faster, whatever lies under one switch.
        known = 1.0 if max(best.values()) >= 1 else best[entry.whole] * (1 + FASTER)
        if entry.bound <= known:
            continue
        graph = graph_search.best_graph(entry.count, plain, wish.seeds)
        searched, graphs = searched + 1, graphs + graph.graphs
        if graph.share > known:
            best[entry.whole] = graph.share
            kept.append(graph)
    return kept, (searched, graphs, len(kept))


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

    json_parts = "*", "spec=file_keys", "-sizing", "proven"

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

    @property
    def file_keys(self) -> dict[str, Any]:
        """What its fabric file has."""
        keys: dict[str, Any] = to_builtins(self.spec)
        return keys

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

    json_parts = (
        *("search=search_facts", "found=rows", "beaten", "catalog_front=front"),
        "left_out_as_slow=slow",
    )

    wish: GraphWish
    space: GraphSpace
    rows: tuple[FoundGraph, ...]
    beaten: tuple[Beaten, ...]
    front: int
    slow: int

    @property
    def search_facts(self) -> dict[str, int]:
        """Counts and graphs of the search, and its draws."""
        seeds = self.wish.seeds
        counts: dict[str, int] = plain_data(self.space.tally)
        return counts | {"first_seed": seeds.start, "next_seed": seeds.stop}

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
        wins = "; ".join(
            f"{design.graph} ({design.number}) beats {design.name}, {_share(design.saves)} less and"
            f" {_share(design.faster)} faster"
            for design in self.beaten
        )
        return (
            f"Of the catalog's front ({counted(self.front, 'design')}) graphs beat"
            f" {len(self.beaten)}: {wins}."
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
        texts = {f"topologies/{row.spec.name}.yaml": row.file_text for row in self.rows}
        return write_texts(Path(folder), texts, force=force)


COLUMNS: tuple[Column[FoundGraph], ...] = (
    column("design", "number", title=""),
    column("fabric", "spec.name", title="graph"),
    *columns("uniform_share", "any_share", "spread_gap", "optimum_s", "least_s"),
    column("analytic_s", title="model"),
    column("proven"),
    *columns("degree", "hosts_per_switch", "reached_s", shown="data"),
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
            paid, taken_s = comparable(design.value(objective)), comparable(result.time_s)
            if paid <= value and taken_s <= time_s and (paid, taken_s) != (value, time_s):
                name = design.choice.spec.name
                saved, faster = 1 - paid / value, 1 - taken_s / time_s
                yield Beaten(label(rival), number, name, saved, faster)
                break


def _share(share: float) -> str:
    return f"{100 * share:.1f} %"


def _proven(number: int, point: Point, graph: graph_search.BestGraph) -> FoundGraph:
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
    per_gpu = GATHERED_BYTES / gpus
    return max((gpus - held) * per_gpu / taken for held, taken in ways if held < gpus)


def _modelled_s(design: Design, result: SearchResult) -> float | None:
    """Bandwidth part of the same all_gather by the model of the search, where it has all GPUs."""
    sizes = [level.size for level in design.fabric.levels]
    if prod(sizes) != design.fabric.sizing.gpus or not result.settings:
        return None
    members = np.array(sizes)[:, None]
    network = result.settings[0].network(design.fabric.levels)
    gathering = network.collective("all_gather", Group(members, np.ones_like(members)))
    return float(gathering.sending_s(GATHERED_BYTES)[0])
