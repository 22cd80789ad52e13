"""Expanded memory or more GPUs: what is cheaper for the same iteration time.

Of a design with expanded memory, the question is which is the smallest number of GPUs that is as
fast without it, on the same fabric, with the same batch. Numbers that fill HB domains are tried:
all of them in order where they are few, or where plans have powers of two alone, so that the
smallest is proven, else by doubling and halving, which finds the smallest if an iteration never
takes longer on more GPUs.

Both sides are then priced by the one bill, with accelerators and memory on it. Prices that both
sides share are the same on both, low or high, so that ranges of the two sums may overlap where one
side is cheaper at any price.
"""

from collections.abc import Callable, Iterator
from math import inf
from typing import Any, NamedTuple

from msgspec import Struct

from netplan.costing.fabric_bill import Bill, BillBooks, make_bill
from netplan.costing.materials import Compute
from netplan.costing.pricing import difference_range
from netplan.costing.ranges import Range
from netplan.errors import InfeasibleError, InputError
from netplan.performance.error_bars import ErrorBar, bar_dict, time_text
from netplan.performance.plan import PlanTime, SearchResult
from netplan.performance.search import PlanSearch
from netplan.records import replace
from netplan.reports.quantities import listed, money
from netplan.scenarios.reading import ChipVariant, with_memory
from netplan.setup.money.run_cost import RunTerms, run_cost
from netplan.setup.plan_notes import is_spread
from netplan.topologies.build import build_fabric
from netplan.topologies.fabric import Sizing
from netplan.topologies.specs import FabricSpec
from netplan.workloads.accelerators import Accelerator
from netplan.workloads.technologies import MemoryTechnology

MOST_TIMES = 8
"""Up to how many times the GPUs are tried [1]."""

SCANNED = 64
"""Numbers of GPUs that are all tried, in order [1]."""

NOT_COUNTED = "controllers, cards and slots of the memory, racks and energy"

Reaches = Callable[[int], bool]


class Fewest(NamedTuple):
    """Smallest number of GPUs that is fast enough, None if none was, and how sure that is."""

    gpus: int | None
    most: int
    """The largest number that was tried [1]."""

    proven: bool
    """Whether all smaller numbers that fill HB domains were tried."""


def fewest_gpus(
    reaches: Reaches, first: int, domain: int, *, powers_of_two: bool = False
) -> Fewest:
    """Smallest number of GPUs that is fast enough: the first, or one that fills HB domains.

    Parameters
    ----------
    reaches
        Whether so many GPUs are fast enough.
    first
        The number to begin with [1].
    domain
        GPUs of an HB domain [1].
    powers_of_two
        Whether no other number of GPUs has plans.

    Examples
    --------
    >>> fewest_gpus(lambda gpus: gpus >= 100, 64, 8)
    Fewest(gpus=104, most=128, proven=True)
    >>> fewest_gpus(lambda gpus: gpus >= 4096, 1024, 8, powers_of_two=True)
    Fewest(gpus=4096, most=8192, proven=True)
    >>> fewest_gpus(lambda gpus: gpus >= 10_000, 4096, 8)
    Fewest(gpus=10000, most=12288, proven=False)
    >>> fewest_gpus(lambda gpus: False, 64, 8)
    Fewest(gpus=None, most=512, proven=True)
    """
    if reaches(first):
        return Fewest(first, first, proven=True)
    start = first // domain
    last = MOST_TIMES * first // domain - start
    if powers_of_two:
        bits = range(first.bit_length(), (MOST_TIMES * first).bit_length())
        powers = [1 << bit for bit in bits if (1 << bit) % domain == 0]
        return Fewest(next(filter(reaches, powers), None), (start + last) * domain, proven=True)

    def gpus(step: int) -> int:
        return (start + step) * domain

    low, high = 0, 1
    while high < last and not reaches(gpus(high)):
        low, high = high, min(2 * high, last)
    most = gpus(high)
    if high <= SCANNED:
        tried = (gpus(step) for step in range(1, high + 1))
        return Fewest(next(filter(reaches, tried), None), most, proven=True)
    if not reaches(most):
        return Fewest(None, most, proven=False)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reaches(gpus(middle)) else (middle, high)
    return Fewest(gpus(high), most, proven=False)


class MemoryOption(Struct, frozen=True):
    """One of the two: its GPUs [1], its iteration time [s], its bill, and the cost of a run."""

    gpus: int
    time_s: float
    bill: Bill
    run: float | None = None


class MemoryTradeoff(Struct, frozen=True):
    """Expanded memory against more GPUs, on one fabric.

    Parameters
    ----------
    fabric, memory, accelerator
        Names of what is compared.
    expanded
        The design with expanded memory.
    more
        The smallest that is as fast without; None where none of those tried is.
    without_s
        Iteration time on the same GPUs without expanded memory; infinite where no plan fits [s].
    fewest
        How the number of GPUs was found.
    within
        Difference of times that is not told apart [1].
    error
        How far times may be off, if the iteration model says so.
    """

    json_parts = (
        *("fabric", "expanded_memory=memory", "expanded.gpus", "iteration_time_s=expanded.time_s"),
        *("*bar", "without_s=known_without_s", "gpus_without=more.gpus"),
        *("gpus_without_time_s=more.time_s", "most_gpus_tried=fewest.most"),
        *("fewest_proven=fewest.proven", "memory_cost", "more_gpus_cost", "cheaper", "saving"),
        *("at_all_prices=sure", "even_gpu_price=even", "run_cost=expanded.run"),
        *("run_cost_without=more.run", "sentence"),
    )

    fabric: str
    memory: str
    accelerator: str
    expanded: MemoryOption
    more: MemoryOption | None
    without_s: float
    fewest: Fewest
    within: float
    error: ErrorBar | None = None

    @property
    def needless(self) -> bool:
        """Whether the same GPUs are as fast without it."""
        return self.fewest.gpus == self.expanded.gpus

    @property
    def priced(self) -> bool:
        """Whether all that sets the two sides apart has a price."""
        sides = (self.expanded, self.more) if self.more else ()
        return bool(sides) and all(side.bill.complete for side in sides)

    @property
    def memory_cost(self) -> Range | None:
        """Price of the expanded memory; None where its kind has none."""
        lacking = {line.part for line in self.expanded.bill.quote.unpriced}
        return None if "memory" in lacking else self.expanded.bill.memory

    @property
    def more_cost(self) -> Range | None:
        """What more GPUs and a larger network cost, all parts at low, base, high alike."""
        if self.more is None:
            return None
        ours, theirs, memory = self.expanded.bill, self.more.bill, self.expanded.bill.memory
        return Range(
            *(
                theirs.capital.at_end(end) - (ours.capital.at_end(end) - memory.at_end(end))
                for end in ("low", "base", "high")
            )
        )

    @property
    def saving(self) -> float | None:
        """What expanded memory saves at base prices; below 0 where more GPUs are cheaper."""
        if not self.priced or self.more is None:
            return None
        return self.more.bill.capital.base - self.expanded.bill.capital.base

    @property
    def cheaper(self) -> str | None:
        """Which is cheaper at base prices: ``expanded memory`` or ``more GPUs``."""
        if self.saving is None:
            return None
        return "expanded memory" if self.saving > 0 else "more GPUs"

    @property
    def sure(self) -> bool:
        """Whether the same is cheaper at all prices between the book's low and high."""
        if self.more is None or self.saving is None:
            return False
        pair = self.expanded.bill.quote, self.more.bill.quote
        return difference_range(*(pair if self.saving > 0 else pair[::-1])).low > 0

    @property
    def even(self) -> float | None:
        """Price of a GPU at which both cost the same; None where no price of it is open."""
        if self.more is None or self.needless:
            return None
        ours, theirs = (side.bill for side in (self.expanded, self.more))
        lacking = {line.part for bill in (ours, theirs) for line in bill.unpriced_apart}
        if lacking - {"accelerator"}:
            return None
        apart = ours.capital.base - ours.cost_of("accelerators").base
        apart -= theirs.capital.base - theirs.cost_of("accelerators").base
        return apart / (self.more.gpus - self.expanded.gpus)

    @property
    def bar(self) -> dict[str, Any]:
        """The bar of its time, as JSON; nothing where it has none."""
        return bar_dict(self.expanded.time_s, self.error) if self.error else {}

    @property
    def known_without_s(self) -> float | None:
        """The time on as many GPUs without it; None where nothing fits [s]."""
        return self.without_s if self.without_s < inf else None

    @property
    def more_gpus_cost(self) -> Range | None:
        """What the other side costs; None where not all of it has a price."""
        return self.more_cost if self.priced else None

    @property
    def sentence(self) -> str:
        """Which is cheaper for the same iteration time, with what is not counted."""
        return " ".join(self._sentences())

    def _sentences(self) -> Iterator[str]:
        ours, more = self.expanded, self.more
        who = with_memory(self.fabric, self.memory)
        alone = self._time(self.without_s) if self.without_s < inf else "no plan fits"
        yield (
            f"Expanded memory or more GPUs? {who} trains in {self._time(ours.time_s)} on"
            f" {ours.gpus:,} GPUs; without it {alone}."
        )
        if self.needless:
            cost = f": {self._money(self.memory_cost.base)} for nothing" if self.memory_cost else ""
            yield f"It makes nothing faster{cost}."
            return
        if self.without_s / ours.time_s - 1 <= self.within:
            yield f"They differ by less than the model's error of {100 * self.within:g} %."
        if more is None:
            yield (
                f"No number of GPUs up to {self.fewest.most:,} that"
                f" {'fills HB domains' if self.fewest.proven else 'was tried'} is as fast without."
            )
            return
        how = "the fewest that fill HB domains" if self.fewest.proven else "found by halving"
        ahead = ours.time_s / more.time_s - 1
        faster = f", {100 * ahead:.0f} % faster than asked" if ahead > self.within else ""
        yield f"As fast without are {more.gpus:,} GPUs ({self._time(more.time_s)}{faster}; {how})."
        yield from self._prices(more)

    def _time(self, seconds: float) -> str:
        """An iteration time for people."""
        return time_text(seconds, self.error) if self.error else f"{seconds:.4g} s"

    def _prices(self, more: MemoryOption) -> Iterator[str]:
        """What the two cost, and where they would cost the same."""
        memory, other = self.memory_cost, self.more_cost
        currency = self.expanded.bill.quote.currency
        extra = more.gpus - self.expanded.gpus
        if memory is None or other is None or (self.saving is None and self.even is None):
            lines = (*self.expanded.bill.unpriced_apart, *more.bill.unpriced_apart)
            parts = listed(list(dict.fromkeys(line.priced_as for line in lines)))
            yield f"The book has no price of {parts}: neither can be called cheaper."
            return
        ours = f"The memory costs {self._span(memory)}"
        if self.saving is None:
            yield (
                f"{ours}; the book has no price of {self.accelerator}: expanded memory is cheaper"
                f" where one, with its share of the server, costs more than"
                f" {max(self.even or 0.0, 0.0):,.0f} {currency}."
            )
        else:
            sure = "at all prices of the book" if self.sure else "at base prices, not at all"
            yield (
                f"{ours}, {extra:,} more GPUs with their network {self._span(other)}:"
                f" {self.cheaper} {'is' if self.saving > 0 else 'are'} cheaper by"
                f" {self._money(abs(self.saving))}, {sure}."
            )
            if self.even is not None and self.even > 0:
                yield f"Both cost the same at {self.even:,.0f} {currency} a GPU."
        if self.expanded.run is not None and more.run is not None:
            yield (
                f"A training run costs {self._money(self.expanded.run)} with expanded memory,"
                f" {self._money(more.run)} with more GPUs (GPU hours, share of network and memory)."
            )
        yield f"Not counted: {NOT_COUNTED}."

    def _money(self, amount: float) -> str:
        return money(amount, self.expanded.bill.quote.currency)

    def _span(self, cost: Range) -> str:
        currency = self.expanded.bill.quote.currency
        return money(cost.base, currency, (cost.low, cost.high))


class TradeoffSolver(Struct, frozen=True):
    """What all trades of a question share.

    Parameters
    ----------
    plain
        The search for plans without expanded memory.
    chip
        The accelerator.
    books
        Catalog files of the bills.
    within
        Difference of times that is not told apart [1].
    terms
        A training run, where its cost is known.
    """

    plain: PlanSearch
    chip: Accelerator
    books: BillBooks
    within: float
    terms: RunTerms | None = None

    def trade(
        self, spec: FabricSpec, sizing: Sizing, variant: ChipVariant, best: PlanTime
    ) -> MemoryTradeoff:
        """Weigh expanded memory on a fabric, with its best plan, against more GPUs."""
        time_s = best.iteration_time_s
        times = {gpus: self._time_s(spec, sizing, gpus) for gpus in (sizing.gpus,)}

        def reaches(gpus: int) -> bool:
            times[gpus] = self._time_s(spec, sizing, gpus)
            return times[gpus] <= time_s

        # Models that lie on all GPUs alike leave some idle instead.
        powers = self.plain.setting.powers_of_two and not is_spread(self.plain.training.model)
        fewest = fewest_gpus(reaches, sizing.gpus, sizing.hb_size, powers_of_two=powers)
        ours = self._side(spec, sizing, variant.memory, time_s)
        more = None
        if fewest.gpus is not None:
            larger = replace(sizing, gpus=fewest.gpus)
            more = self._side(spec, larger, None, times[fewest.gpus])
        return MemoryTradeoff(
            fabric=spec.name,
            memory=variant.name,
            accelerator=self.chip.name,
            expanded=ours,
            more=more,
            without_s=times[sizing.gpus],
            fewest=fewest,
            within=self.within,
            error=best.error,
        )

    def _time_s(self, spec: FabricSpec, sizing: Sizing, gpus: int) -> float:
        """Iteration time without expanded memory; infinite where it cannot be had [s]."""
        larger = replace(sizing, gpus=gpus)
        try:
            levels = build_fabric(spec, larger).levels
            result = self.plain.best_on_subset(levels)
            if isinstance(result, SearchResult):
                self._bill(spec, larger, Compute())  # a hall may be too small
                return result.time_s
        except (InputError, InfeasibleError):
            pass
        return inf

    def _side(
        self, spec: FabricSpec, sizing: Sizing, memory: MemoryTechnology | None, time_s: float
    ) -> MemoryOption:
        """One of the two, priced with its accelerators, and by the hours of a training run."""
        bill = self._bill(spec, sizing, Compute(self.chip, memory))
        run = None
        if self.terms is not None:
            owned = self._bill(spec, sizing, Compute(memory=memory))
            run = run_cost(owned, time_s, self.terms).total.base
        return MemoryOption(sizing.gpus, time_s, bill, run)

    def _bill(self, spec: FabricSpec, sizing: Sizing, compute: Compute) -> Bill:
        return make_bill(spec, sizing, replace(self.books, compute=compute))
