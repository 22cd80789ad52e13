"""Graphs among the designs: counts that bounds do not rule out, the best graph of each.

For every HB domain and switch the counts of :mod:`netplan.topologies.families.graph_search` are
priced, and taken by rising price. One whose bound is no better than the rate that a cheaper graph
gives any traffic between its switches is ruled out, whatever its links, and so is one that costs no
less than a fabric of the catalog whose network gives every port its whole rate. Of the others the
best graph is searched, and kept if it is faster there than all cheaper ones. Switches that hold
whole HB domains, whose traffic inside does not leave them, are compared with their like alone,
until every port has its whole rate. What is kept is timed among all designs, as any fabric is.
"""

from collections.abc import Iterator, Sequence
from math import inf

from msgspec import Struct

from netplan.costing.fabric_bill import BillBooks
from netplan.performance.pareto import comparable
from netplan.progress import each
from netplan.questions.optimizing.constraints import Constraint
from netplan.questions.optimizing.designs import (
    Axes,
    Choice,
    Design,
    Objective,
    build_design,
    price_design,
)
from netplan.records import replace
from netplan.scenarios.reading import sizing_on
from netplan.topologies.fabric import Sizing
from netplan.topologies.families.graph_search import (
    BestGraph,
    Count,
    best_graph,
    counted_fabric,
    counts_holding,
)
from netplan.topologies.families.jellyfish import Jellyfish
from netplan.units import counted

FASTER = 1e-9


class GraphWish(Struct, frozen=True):
    """What graphs are looked for: links of a switch to others at most, and draws of each count.

    ``slower`` is how much slower than all of the catalog's front they may be, as a share [1].
    """

    most_degree: int | None
    seeds: range
    slower: float


class Field(Struct, frozen=True):
    """Demands that counts alone decide, and designs of the catalog that meet all demands."""

    demands: tuple[Constraint, ...]
    rivals: tuple[Design, ...]

    @classmethod
    def of(cls, demands: Sequence[Constraint], designs: Sequence[Design]) -> "Field":
        """From all demands and all designs."""
        counted = tuple(demand for demand in demands if demand.name != "survives_switch")
        met = (one for one in designs if all(demand.meets(one) for demand in demands))
        return cls(counted, tuple(met))


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
            f" a cheaper one; of {self.searched:,} the best graph was searched, {self.graphs:,}"
            f" graphs with seeds {wish.seeds.start} to {wish.seeds.stop - 1}; {self.kept:,} are"
            f" faster than all cheaper ones. --seed {wish.seeds.stop} goes on with others."
        )


class GraphSpace(Struct, frozen=True):
    """Designs that were found, and how; what was found of each, by the name of its fabric."""

    designs: tuple[Design, ...]
    tally: GraphTally
    best: dict[str, BestGraph]


class _Priced(Struct, frozen=True):
    """A count, what any graph of it costs or draws, and how fast one is at best.

    ``whole`` says that its switches hold whole HB domains.
    """

    value: float
    count: Count
    whole: bool
    bound: float


ANY = Jellyfish(name="graph", title="", source="", date="", family="jellyfish")
"""Any graph: all of a count have the same bill."""


def find_graphs(
    axes: Axes, gpus: int, books: BillBooks, objective: Objective, wish: GraphWish, field: Field
) -> GraphSpace:
    """Graphs that are faster than all cheaper ones, for every HB domain, switch and memory.

    Parameters
    ----------
    axes
        HB domains, switches and memories; the fabrics are not looked at.
    gpus, books, objective, wish
        The cluster, prices and power, what is set against time, and which graphs.
    field
        Demands, and the designs of the catalog.
    """
    designs: list[Design] = []
    best: dict[str, BestGraph] = {}
    total = GraphTally()
    for choice in axes.switched(ANY):
        if choice.hb_size >= gpus:
            continue
        chip, radix = choice.variant.chip, choice.switch.radix
        sizing = sizing_on(chip, gpus=gpus, radix=radix, hb_size=choice.hb_size)
        counts = list(counts_holding(gpus, radix, wish.most_degree))
        priced = list(_priced(counts, choice, sizing, books, objective, field.demands))
        as_fast = (one.value(objective) for one in field.rivals if _as_fast(one, choice))
        ceiling = min(as_fast, default=inf)
        kept, tally = _kept([one for one in priced if one.value < ceiling], sizing, wish)
        total = GraphTally(
            *map(sum, zip(total.row, (len(counts), len(priced), *tally), strict=True))
        )
        for one in kept:
            designs.append(build_design(replace(choice, spec=one.spec), gpus, books, axes.ports))
            best[one.spec.name] = one
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
            bound, value = count.any_share(count.least_pair_load), design.value(objective)
            yield _Priced(comparable(value), count, count.hosts % sizing.hb_size == 0, bound)


def _kept(
    priced: Sequence[_Priced], sizing: Sizing, wish: GraphWish
) -> tuple[list[BestGraph], tuple[int, int, int]]:
    """Graphs that are faster than all cheaper ones; counts and graphs searched, graphs kept."""
    best = {True: 0.0, False: 0.0}
    kept, searched, graphs = [], 0, 0
    plain = replace(sizing, hb_size=1)
    order = sorted(priced, key=lambda one: (one.value, -one.bound))
    for one in each(order, lambda one: f"graphs of {one.count.switches} switches"):
        # At the whole rate of every port no graph is faster, whatever lies under one switch.
        known = 1.0 if max(best.values()) >= 1 else best[one.whole] * (1 + FASTER)
        if one.bound <= known:
            continue
        found = best_graph(one.count, plain, wish.seeds)
        searched, graphs = searched + 1, graphs + found.graphs
        if found.share > known:
            best[one.whole] = found.share
            kept.append(found)
    return kept, (searched, graphs, len(kept))
