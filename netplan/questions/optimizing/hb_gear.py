"""Which HB domains to buy: larger ones train faster, and their gear costs more.

Of each size the design counts whose training costs least for what it trains. An iteration of t
seconds on N GPUs costs t (Y + V), where Y is a year's annuity and energy of the network with the
gear inside its HB domains, and V what all GPU hours of a year are worth. Two sizes are even where
the gear of one costs g a GPU, with a the share of a price that is due each year:

    t (Y + a g N + V) = t' (Y' + V),    g = (t' / t (Y' + V) - Y - V) / (a N)

That g stands beside every size: below it the size pays off. So a size whose gear nobody prices is
answered, too, by the price that it may have. Servers and GPUs are taken to cost the same whatever
the size; the power of the gear is not counted.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from msgspec import Struct

from netplan.costing.fabric_bill import BillBooks
from netplan.costing.lifetime import (
    ECONOMICS_BOOKS,
    EconomicsBook,
    Running,
    annuity_factor,
    lifetime,
)
from netplan.costing.pricing import PricedItem
from netplan.costing.ranges import Range
from netplan.errors import CatalogError, InputError
from netplan.performance.plan import PlanTime
from netplan.performance.search import SearchResult
from netplan.questions.optimizing.designs import Constraint, Design
from netplan.questions.question import Question
from netplan.records import asdict
from netplan.reports.quantities import Scale, listed
from netplan.reports.sections import Column, Notes, Paragraph, Section, Table, column
from netplan.scenarios.reading import CatalogReader
from netplan.units import HOURS_PER_YEAR, YEAR_S

NOT_COUNTED = (
    "Servers and GPUs are taken to cost the same whatever the size of HB domains; the power of"
    " their gear is not counted."
)


class Rates(Struct, frozen=True):
    """What a GPU hour is worth, servers included, and what turns a price into a yearly cost."""

    gpu_hour: float
    running: Running

    def of_year(self, design: Design) -> float:
        """Annuity and energy of a design's network and gear, and the GPU hours of a year."""
        capital = design.row.cost.base if design.row.cost else 0.0
        life = lifetime(Range.point(capital), design.row.power_w or 0.0, self.running)
        hours = self.gpu_hour * HOURS_PER_YEAR * design.fabric.sizing.gpus
        return life.per_year.base + hours

    def even(self, design: Design, time_s: float, rival_per_iteration: float) -> float:
        """Price of gear for one GPU at which a design is even with another's iteration."""
        running, gpus = self.running, design.fabric.sizing.gpus
        due = annuity_factor(running.interest.base, running.years)
        bare = self.of_year(design) - due * gear_price(design) * gpus
        return (rival_per_iteration * YEAR_S / time_s - bare) / (due * gpus)


def gear_of(design: Design) -> PricedItem | None:
    """The line of gear on a design's bill; None without HB domains."""
    items = design.row.bill.quote.items if design.row.bill else ()
    return next((item for item in items if item.line.part == "hb_gear"), None)


def gear_known(design: Design) -> bool:
    """Whether the gear inside its HB domains has a price, or there is none."""
    item = gear_of(design)
    return item is None or item.price is not None


def gear_price(design: Design) -> float:
    """Base price of the gear of one GPU; 0 where none is known."""
    item = gear_of(design)
    return item.unit_price.base if item else 0.0


def weighed(designs: Sequence[Design]) -> bool:
    """Whether some designs have a price for their gear, and others none or another one."""
    gear = {(gear_known(design), gear_price(design)) for design in designs}
    return len(gear) > 1 and any(known for known, _ in gear)


def _none_priced(designs: Sequence[Design]) -> str:
    sizes = without_price(designs)
    return f"no design has a price for the gear of its HB domains, of {sizes} GPUs: add one"


GEAR_PRICED = Constraint(
    "hb_gear",
    "a price for the gear of its HB domains",
    lambda design: gear_known(design) or None,
    _none_priced,
)
"""Where some HB domains have a price, those that have none cannot be proven cheaper."""


class HbSize(Struct, frozen=True):
    """HB domains of one size: the design that trains cheapest with them, and its gear.

    Parameters
    ----------
    design, best
        The design and its fastest plan.
    per_iteration
        Cost of an iteration; without the gear where that has no price.
    pays_below
        Price of the gear of one GPU below which the size pays off against the best other one;
        None where no other has a price.
    """

    design: Design
    best: PlanTime
    per_iteration: float
    pays_below: float | None = None

    @property
    def hb_size(self) -> int:
        """GPUs of one domain [1]."""
        return self.design.fabric.sizing.hb_size

    @property
    def known(self) -> bool:
        """Whether its gear has a price."""
        return gear_known(self.design)

    @property
    def gear(self) -> Range | None:
        """Price of the gear of one GPU; None if there is none."""
        item = gear_of(self.design)
        return item.unit_price if item and item.price else (Range.point(0.0) if not item else None)

    @property
    def trust(self) -> str:
        """How that price is known."""
        item = gear_of(self.design)
        return (item.trust or "no price") if item else ""

    @property
    def paying(self) -> float | None:
        """That price where it is one; None where no price would let the size pay off."""
        return self.pays_below if self.pays_below and self.pays_below > 0 else None

    @property
    def name(self) -> str:
        """The size, by the product that the book prices."""
        item = gear_of(self.design)
        model = item.price.model if item and item.price else ""
        return model or f"HB {self.hb_size:,}"

    def to_dict(self) -> dict[str, Any]:
        """One size of the JSON answer."""
        return {
            "hb_size": self.hb_size,
            "gear_per_gpu": asdict(self.gear) if self.gear else None,
            "gear_trust": self.trust,
            "design": self.design.key(),
            "cost_base": self.design.value("cost"),
            "iteration_time_s": self.best.iteration_time_s,
            "cost_per_iteration": self.per_iteration if self.known else None,
            "pays_below_per_gpu": self.pays_below,
        }


def by_size(timed: Sequence[tuple[Design, SearchResult]], rates: Rates) -> tuple[HbSize, ...]:
    """The best design of each HB size, smallest first, and the price of gear that lets it win."""
    best_by_size: dict[int, HbSize] = {}
    for design, result in timed:
        best = result.best
        cost = best.iteration_time_s * rates.of_year(design) / YEAR_S
        candidate = HbSize(design, best, cost)
        before = best_by_size.get(candidate.hb_size)
        if before is None or cost < before.per_iteration:
            best_by_size[candidate.hb_size] = candidate
    sizes = [best_by_size[size] for size in sorted(best_by_size)]
    return tuple(_with_threshold(row, sizes, timed, rates) for row in sizes)


def _with_threshold(
    row: HbSize, sizes: Sequence[HbSize], timed: Sequence[tuple[Design, SearchResult]], rates: Rates
) -> HbSize:
    rivals = [other.per_iteration for other in sizes if other is not row and other.known]
    if not rivals or gear_of(row.design) is None:
        return row
    even = max(
        rates.even(design, result.best.iteration_time_s, min(rivals))
        for design, result in timed
        if design.fabric.sizing.hb_size == row.hb_size
    )
    return HbSize(row.design, row.best, row.per_iteration, even)


@dataclass(frozen=True, slots=True)
class Sizes:
    """What an optimization says of HB sizes, in one currency; empty where none can be weighed."""

    rows: tuple[HbSize, ...] = ()
    currency: str = ""
    gpu_hour: float = 0.0

    @property
    def best(self) -> HbSize | None:
        """The size that trains cheapest, of those whose gear has a price."""
        known = [row for row in self.rows if row.known]
        return min(known, key=lambda row: row.per_iteration, default=None)

    def to_list(self) -> list[dict[str, Any]]:
        """Every size as JSON."""
        return [row.to_dict() for row in self.rows]

    def sections(self) -> Iterator[Section]:
        """The table of sizes, and which to buy."""
        if self.best is None:
            return
        title = "Which HB domains to buy: what training costs with the best design of each size"
        below = "pays below: price of the gear of a GPU below which a size trains cheaper than the"
        legend = (f"{below} best other one; a GPU hour at {self.gpu_hour:.4g} {self.currency}.",)
        yield Table("hb_sizes", list(self._columns(self.best)), self.rows, title, legend)
        yield Paragraph(self.sentence, "strong")
        yield Notes((("", NOT_COUNTED),))

    def _columns(self, best: HbSize) -> Iterator[Column[HbSize]]:
        scale = Scale.of(max(row.design.value("cost") for row in self.rows), self.currency)
        yield column("hb_size", "hb_size")
        yield column("gear_per_gpu", lambda row: row.gear.base if row.gear else None)
        yield column("trust", "trust")
        yield column("best_design", lambda row: row.design.choice.spec.name)
        cost = scale.of_money("cost_base")
        yield column(cost, lambda row: row.design.value("cost"), shown="wide")
        yield column("iteration_time_s", "best.iteration_time_s")
        more = _more_than(best)
        yield column("training_more", more)
        yield column("pays_below_per_gpu", "paying")

    @property
    def sentence(self) -> str:
        """Which size to buy, and at which price of their gear others would pay off."""
        best = self.best
        if best is None:
            return ""
        others = [row for row in self.rows if row is not best]
        blank = [row for row in others if not row.known and row.pays_below is not None]
        text = f"{best.name} trains cheapest{' of those with a price' if blank else ''}"
        if best.pays_below is not None and best.gear:
            text += (
                f", so long as its gear costs under {self._price(best.pays_below)} a GPU (the book"
                f" has {best.gear.base:,.0f}, {best.trust})"
            )
        sentences = [self._told(row) for row in others if row.known]
        paying = [row for row in blank if row.paying]
        if paying:
            limits = listed([f"{row.name} under {self._price(row.paying or 0)}" for row in paying])
            sentences.append(f"No price is known of other gear: {limits} a GPU would pay off.")
        sentences += [f"{row.name} pays off at no price." for row in blank if row not in paying]
        return " ".join([f"{text}.", *sentences])

    @property
    def in_short(self) -> str:
        """The same, of gear without a price the least and the most alone."""
        best = self.best
        blank = [row for row in self.rows if row is not best and not row.known and row.paying]
        if best is None or len(blank) <= 1:
            return self.sentence
        least, most = blank[0], blank[-1]
        return (
            f"{best.name} trains cheapest of HB domains with a price. Others pay off if their gear"
            f" costs under {self._price(least.paying or 0)} ({least.name}) to"
            f" {self._price(most.paying or 0)} ({most.name}) a GPU."
        )

    def _price(self, price: float) -> str:
        return f"{price:,.0f} {self.currency}"

    def _told(self, row: HbSize) -> str:
        """When another size whose gear has a price would pay off."""
        if row.pays_below is None:
            return f"{row.name} costs more."
        if row.paying is None:
            return f"{row.name} pays off at no price of its gear."
        has = f"the book has {row.gear.base:,.0f}, {row.trust}" if row.gear else "none is known"
        under = f"under {self._price(row.paying)} a GPU"
        return f"{row.name} pays off if its gear costs {under} ({has})."


def _more_than(best: HbSize) -> Callable[[HbSize], str]:
    """What training costs more than with the best size; at least so much without a price."""

    def more(row: HbSize) -> str:
        share = 100 * (row.per_iteration / best.per_iteration - 1)
        return f"{share:+.1f} %" if row.known else f"≥ {share:+.1f} %"

    return more


def gear_rates(asked: Question[Any], reader: CatalogReader, books: BillBooks) -> Rates | None:
    """What training is weighed by; None where a GPU hour or an exchange rate is not known.

    Raises
    ------
    InputError
        If the price of a GPU hour is below 0, or no number.
    """
    if asked.books.terms.gpu_hour is not None and not 0 <= asked.books.terms.gpu_hour < inf:
        raise InputError(f"--gpu-hour {asked.books.terms.gpu_hour:g}: give a price of at least 0")
    book: EconomicsBook = reader.load(ECONOMICS_BOOKS, asked.books.economics)
    try:
        rate = books.prices.exchange(book.currency, books.prices.currency)
    except CatalogError:
        return None
    hour = asked.books.terms.gpu_hour
    if hour is None and book.gpu_hour is not None:
        hour = rate * book.gpu_hour.base
    return None if hour is None else Rates(hour, Running.of(book, rate))


def without_price(designs: Sequence[Design]) -> str:
    """Sizes of HB domains whose gear has no price, in words."""
    lacking = {design.fabric.sizing.hb_size for design in designs if not gear_known(design)}
    return listed([f"{size:,}" for size in sorted(lacking)])
