"""Which HB domains to buy: larger ones train faster, and their gear costs more.

Of each size the design counts whose training costs least for what it trains. An iteration of t
seconds on N GPUs costs t (Y + V), where Y is a year's annuity and energy of the network with the
gear inside its HB domains, and V what all GPU hours of a year are worth. Two sizes are even where
the gear of one costs g a GPU, with a the share of a price that is due each year:

    t (Y + a g N + V) = t' (Y' + V),    g = (t' / t (Y' + V) - Y - V) / (a N)

That g stands beside every size: below it the size pays off. Servers and GPUs are taken to cost the
same whatever the size.

The gear's prices are known from low to high alone, and no size wins by a difference inside of that:
the cost of an iteration with size K less that with K',

    t (B + a sum_k q_k p_k) - t' (B' + a sum_k q'_k p_k),

is linear in the price p_k of every part, which both pay, so that its least and its most lie where
each p_k is at its low or high. Times that the model cannot tell apart are taken as equal, too.
Where the difference has no sign, which of the two to buy is undecided.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import fsum

from msgspec import Struct

from netplan.costing.lifetime import annuity_factor, lifetime
from netplan.costing.prices import PriceBook
from netplan.costing.ranges import Range
from netplan.performance.plan import PlanTime, SearchResult
from netplan.questions.optimizing.designs import Design
from netplan.records import replace
from netplan.reports.quantities import Scale, listed
from netplan.reports.sections import Column, Notes, Paragraph, Section, Table, column
from netplan.setup.money.run_cost import RunTerms
from netplan.units import HOURS_PER_YEAR, YEAR_S

NOT_COUNTED = (
    "Servers and GPUs are taken to cost the same whatever the size of HB domains. The power of gear"
    " beside the servers is assumed."
)


def yearly_cost(design: Design, terms: RunTerms) -> float:
    """Annuity and energy of a design's network and gear, and the GPU hours of a year."""
    capital = design.row.cost.base if design.row.cost else 0.0
    life = lifetime(Range.point(capital), design.row.power_w or 0.0, terms.opex)
    return life.per_year.base + terms.gpu_hour * HOURS_PER_YEAR * design.fabric.sizing.gpus


def gear_price(design: Design) -> float:
    """Base price of the gear of one GPU; 0 where it comes in the servers."""
    bill = design.row.bill
    return bill.gear / design.fabric.sizing.gpus if bill else 0.0


def priced(book: PriceBook) -> bool:
    """Whether a price book has gear inside HB domains: by its parts, or of some sizes."""
    return bool(book.hb_sizes) or book.price("hb_gear", None, "hb-switch", "") is not None


def weighed(designs: Sequence[Design]) -> bool:
    """Whether the gear of some designs costs more than that of others."""
    return len({gear_price(design) for design in designs}) > 1


class HbSize(Struct, frozen=True):
    """HB domains of one size: the design that trains cheapest with them, and its gear.

    Parameters
    ----------
    design, best
        The design and its fastest plan.
    per_iteration
        Cost of an iteration.
    pays_below
        Price of the gear of one GPU below which the size pays off against the best other one;
        None where there is no other, or it comes in the servers.
    open
        Whether it may train cheaper than the best size, within prices of gear and error of times.
    """

    json_parts = (
        *("hb_size", "gear_per_gpu=gear", "gear_trust=trust", "design", "cost_base"),
        *("best.iteration_time_s", "cost_per_iteration=per_iteration"),
        *("pays_below_per_gpu=pays_below", "undecided=open"),
    )

    design: Design
    best: PlanTime
    per_iteration: float
    pays_below: float | None = None
    open: bool = False

    @property
    def hb_size(self) -> int:
        """GPUs of one domain [1]."""
        return self.design.fabric.sizing.hb_size

    @property
    def gear(self) -> Range:
        """Price of the gear of one GPU; 0 where it comes in the servers."""
        bill = self.design.row.bill
        return (1 / bill.gpus) * bill.inside.quote.total if bill else Range.point(0.0)

    @property
    def trust(self) -> str:
        """How that price is known."""
        bill = self.design.row.bill
        items = bill.inside.quote.items if bill else ()
        return ", ".join(dict.fromkeys(item.trust for item in items)) or "in the servers"

    @property
    def paying(self) -> float | None:
        """That price where it is one; None where no price would let the size pay off."""
        return self.pays_below if self.pays_below and self.pays_below > 0 else None

    @property
    def name(self) -> str:
        """The size, in words."""
        return f"HB {self.hb_size:,}"

    @property
    def cost_base(self) -> float:
        """Base price of its design."""
        return self.design.value("cost")


def by_size(timed: Sequence[tuple[Design, SearchResult]], rates: RunTerms) -> tuple[HbSize, ...]:
    """The best design of each HB size, smallest first, and the price of gear that lets it win."""
    best_by_size: dict[int, HbSize] = {}
    for design, result in timed:
        best = result.best
        cost = best.iteration_time_s * yearly_cost(design, rates) / YEAR_S
        candidate = HbSize(design, best, cost)
        before = best_by_size.get(candidate.hb_size)
        if before is None or cost < before.per_iteration:
            best_by_size[candidate.hb_size] = candidate
    sizes = [best_by_size[size] for size in sorted(best_by_size)]
    if not sizes:
        return ()
    first = min(sizes, key=lambda row: row.per_iteration)
    rows = (_with_threshold(row, sizes, timed, rates) for row in sizes)
    return tuple(
        replace(row, open=row.hb_size != first.hb_size and least_more(first, row, rates) <= 0)
        for row in rows
    )


def _with_threshold(
    row: HbSize,
    sizes: Sequence[HbSize],
    timed: Sequence[tuple[Design, SearchResult]],
    rates: RunTerms,
) -> HbSize:
    rivals = [other.per_iteration for other in sizes if other is not row]
    bill = row.design.row.bill
    if not rivals or bill is None or not bill.inside.bought:
        return row
    due = annuity_factor(rates.opex.interest.base, rates.opex.years)

    def even(design: Design, time_s: float) -> float:
        """Price of gear for one GPU at which it is even with the cheapest other iteration."""
        gpus = design.fabric.sizing.gpus
        bare = yearly_cost(design, rates) - due * gear_price(design) * gpus
        return (min(rivals) * YEAR_S / time_s - bare) / (due * gpus)

    alike = [pair for pair in timed if pair[0].fabric.sizing.hb_size == row.hb_size]
    below = max(even(design, result.best.iteration_time_s) for design, result in alike)
    return replace(row, pays_below=below)


def least_more(first: HbSize, other: HbSize, rates: RunTerms) -> float:
    """What an iteration costs more with another size, at the prices of gear that are best for it.

    Parts that both have cost the same in both; times that cannot be told apart may be equal.
    """
    due = annuity_factor(rates.opex.interest.base, rates.opex.years)
    sides = (first, other)
    times = [side.best.iteration_time_s for side in sides]
    ways = [times, [min(times)] * 2] if first.best.as_fast_as(other.best) else [times]
    bare = [
        yearly_cost(design, rates) - due * gear_price(design) * design.fabric.sizing.gpus
        for design in (first.design, other.design)
    ]
    differences = []
    for ours, theirs in ways:
        units: dict[str, float] = {}
        offers: dict[str, Range] = {}
        for side, weight in ((first, -ours), (other, theirs)):
            bill = side.design.row.bill
            for item in bill.inside.quote.items if bill else ():
                if item.price is not None:
                    what = item.price.what
                    units[what] = units.get(what, 0.0) + weight * item.units
                    offers[what] = item.offer
        ends = (
            (due * count * price for price in (offers[what].low, offers[what].high))
            for what, count in units.items()
        )
        differences.append((theirs * bare[1] - ours * bare[0] + fsum(map(min, ends))) / YEAR_S)
    return min(differences)


@dataclass(frozen=True, slots=True)
class HbSizes:
    """What an optimization says of HB sizes, in one currency; empty where none can be weighed."""

    rows: tuple[HbSize, ...] = ()
    currency: str = ""
    gpu_hour: float = 0.0

    @property
    def best(self) -> HbSize | None:
        """The size that trains cheapest at base prices."""
        return min(self.rows, key=lambda row: row.per_iteration, default=None)

    @property
    def open(self) -> list[HbSize]:
        """Sizes that may be cheaper than that, for all that is known of gear and times."""
        return [row for row in self.rows if row.open]

    def sections(self) -> Iterator[Section]:
        """The table of sizes, and which to buy."""
        if self.best is None:
            return
        title = "Which HB domains to buy: what training costs with the best design of each size"
        below = "pays below: price of the gear of a GPU below which a size trains cheaper than the"
        legend = (
            f"{below} best other one; a GPU hour at {self.gpu_hour:.4g} {self.currency}.",
            "?: undecided against the cheapest, within prices of gear or error of times.",
        )
        yield Table("hb_sizes", list(self._columns(self.best)), self.rows, title, legend)
        yield Paragraph(self.sentence, "strong")
        yield Notes((("", NOT_COUNTED),))

    def _columns(self, best: HbSize) -> Iterator[Column[HbSize]]:
        scale = Scale.of(max(row.design.value("cost") for row in self.rows), self.currency)
        yield column("hb_size", "hb_size")
        yield column("gear_per_gpu", "gear.base")
        yield column("trust", "trust")
        yield column("best_design", lambda row: row.design.choice.spec.name)
        cost = scale.of_money("cost_base")
        yield column(cost, lambda row: row.design.value("cost"), shown="wide")
        yield column("iteration_time_s", "best.iteration_time_s")

        def more(row: HbSize) -> str:
            share = 100 * (row.per_iteration / best.per_iteration - 1)
            return f"{share:+.1f} %{' ?' if row.open else ''}"

        yield column("training_more", more)
        yield column("pays_below_per_gpu", "paying")

    @property
    def sentence(self) -> str:
        """Which size to buy, and at which price of their gear others would pay off."""
        best = self.best
        if best is None:
            return ""
        others = [self._pays_words(row) for row in self.rows if row is not best and not row.open]
        return " ".join([self.in_short, *others])

    @property
    def in_short(self) -> str:
        """Which size to buy, or between which it is undecided."""
        best = self.best
        if best is None:
            return ""
        if self.open:
            names = listed([row.name for row in (best, *self.open)])
            return (
                f"Which HB domains to buy is undecided between {names}: the gear's prices, or the"
                f" error of the times, span the difference. {best.name} is cheapest at base prices."
            )
        text = f"{best.name} trains cheapest"
        if best.pays_below is not None:
            text += (
                f", so long as its gear costs under {self._price(best.pays_below)} a GPU (the book"
                f" has {best.gear.base:,.0f}, {best.trust})"
            )
        return f"{text}."

    def _price(self, price: float) -> str:
        return f"{price:,.0f} {self.currency}"

    def _pays_words(self, row: HbSize) -> str:
        """When another size would pay off."""
        if row.pays_below is None:
            return f"{row.name} costs more."
        if row.paying is None:
            return f"{row.name} pays off at no price of its gear."
        under = f"under {self._price(row.paying)} a GPU"
        has = f"the book has {row.gear.base:,.0f}, {row.trust}"
        return f"{row.name} pays off if its gear costs {under} ({has})."
