"""Graphs among the designs: counts that bounds do not rule out, the nearest graph of each.

For every HB domain and switch the counts of :mod:`netplan.topologies.graph_search` are priced, and
taken by rising price. One whose bound is no better than the rate of a cheaper graph with the same
levels, or of one that gives every port its whole rate, is ruled out, whatever its links; of the
others the nearest graph is searched, and kept if it is faster than all cheaper ones. What is kept
is timed among all designs, as any fabric is.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from netplan.costing.fabric_bill import BillBooks
from netplan.performance.pareto import comparable
from netplan.questions.constraints import Constraint
from netplan.questions.designs import Axes, Choice, Design, Objective, build_design, price_design
from netplan.questions.inputs import sizing_on
from netplan.questions.progress import each
from netplan.records import replace
from netplan.topologies.fabric import Sizing
from netplan.topologies.graph_search import (
    Count,
    Nearest,
    counted_fabric,
    counts_holding,
    nearest_graph,
    uniform_bound,
)
from netplan.topologies.specs import FabricSpec
from netplan.units import counted

FASTER = 1e-9


class GraphWish(Struct, frozen=True):
    """What graphs are looked for: links of a switch to others at most, and draws of each count.

    ``slower`` is how much slower than all of the catalog's front they may be, as a share [1].
    """

    most_degree: int | None
    seeds: range
    slower: float


class GraphTally(Struct, frozen=True):
    """Counts that there are, that meet demands of price and power, and that no bound rules out [1].

    ``kept`` graphs are faster than all cheaper ones with the same levels, of all that were looked
    at.
    """

    counts: int = 0
    allowed: int = 0
    searched: int = 0
    graphs: int = 0
    kept: int = 0

    @property
    def row(self) -> tuple[int, int, int, int, int]:
        """All of them, in order [1]."""
        return self.counts, self.allowed, self.searched, self.graphs, self.kept

    def to_dict(self, wish: GraphWish) -> dict[str, int]:
        """The search in the JSON answer."""
        return {
            "counts": self.counts,
            "allowed": self.allowed,
            "ruled_out": self.allowed - self.searched,
            "searched": self.searched,
            "graphs": self.graphs,
            "kept": self.kept,
            "first_seed": wish.seeds.start,
            "next_seed": wish.seeds.stop,
        }

    def note(self, wish: GraphWish) -> str:
        """How the graphs were found."""
        beyond = self.counts - self.allowed
        limits = f", of which {beyond:,} are beyond the limits" if beyond else ""
        return (
            f"Graphs: {counted(self.counts, 'count')} of switches, links and hosts{limits};"
            f" {self.allowed - self.searched:,} ruled out, since no graph of theirs is faster than"
            f" a cheaper one; of {self.searched:,} the nearest graph was searched, {self.graphs:,}"
            f" graphs with seeds {wish.seeds.start} to {wish.seeds.stop - 1}; {self.kept:,} are"
            f" faster than all cheaper ones. --seed {wish.seeds.stop} goes on with others."
        )


class GraphSpace(Struct, frozen=True):
    """Designs that were found, and how; what was found of each, by the name of its fabric."""

    designs: tuple[Design, ...]
    tally: GraphTally
    nearest: dict[str, Nearest]


class _Priced(Struct, frozen=True):
    """A count, what any graph of it costs or draws, and how fast one is at best.

    Two counts have the same levels where as many GPUs lie under one switch at the port's rate.
    """

    value: float
    count: Count
    under_switch: int
    bound: float


ANY = FabricSpec(name="graph", title="", source="", date="", family="jellyfish")
"""Any graph: all of a count have the same bill."""


def find_graphs(
    axes: Axes,
    gpus: int,
    books: BillBooks,
    objective: Objective,
    wish: GraphWish,
    demands: Sequence[Constraint],
) -> GraphSpace:
    """Graphs that are faster than all cheaper ones, for every HB domain, switch and memory.

    Parameters
    ----------
    axes
        HB domains, switches and memories; the fabrics are not looked at.
    gpus, books, objective, wish
        The cluster, prices and power, what is set against time, and which graphs.
    demands
        Demands that counts alone decide.
    """
    designs: list[Design] = []
    nearest: dict[str, Nearest] = {}
    total = GraphTally()
    for choice in axes.switched(ANY):
        if choice.hb_size >= gpus:
            continue
        chip, radix = choice.variant.chip, choice.switch.radix
        sizing = sizing_on(chip, gpus=gpus, radix=radix, hb_size=choice.hb_size)
        counts = list(counts_holding(gpus, radix, wish.most_degree))
        priced = list(_priced(counts, choice, sizing, books, objective, demands))
        kept, tally = _kept(priced, sizing, wish)
        total = GraphTally(
            *map(sum, zip(total.row, (len(counts), len(priced), *tally), strict=True))
        )
        for one in kept:
            designs.append(build_design(replace(choice, spec=one.spec), gpus, books, axes.ports))
            nearest[one.spec.name] = one
    return GraphSpace(tuple(designs), total, nearest)


def _priced(
    counts: Sequence[Count],
    choice: Choice,
    sizing: Sizing,
    books: BillBooks,
    objective: Objective,
    demands: Sequence[Constraint],
) -> Iterator[_Priced]:
    """The counts that meet the demands, with their price or power."""
    for count in each(counts, lambda one: f"prices of graphs of {one.switches} switches"):
        design = price_design(choice, sizing, counted_fabric(count, sizing), books)
        if all(demand.meets(design) for demand in demands):
            whole = not (count.hosts % sizing.hb_size or sizing.gpus % count.hosts)
            bound = uniform_bound(count, sizing.gpus)
            yield _Priced(
                comparable(design.value(objective)), count, count.hosts if whole else 1, bound
            )


def _kept(
    priced: Sequence[_Priced], sizing: Sizing, wish: GraphWish
) -> tuple[list[Nearest], tuple[int, int, int]]:
    """Nearest graphs that are faster than all cheaper ones; counts, graphs searched, kept."""
    best: dict[int, float] = {}
    kept, searched, graphs = [], 0, 0
    plain = replace(sizing, hb_size=1)
    order = sorted(priced, key=lambda one: (one.value, -one.bound))
    for one in each(order, lambda one: f"graphs of {one.count.switches} switches"):
        # At the whole rate of every port no graph is faster, whatever lies under one switch.
        whole = best.get(1, 0.0) >= 1
        known = 1.0 if whole else best.get(one.under_switch, 0.0) * (1 + FASTER)
        if one.bound <= known:
            continue
        found = nearest_graph(one.count, plain, wish.seeds)
        searched, graphs = searched + 1, graphs + found.graphs
        if found.share > known:
            best[one.under_switch] = found.share
            kept.append(found)
    return kept, (searched, graphs, len(kept))
