"""``netplan sites``: one training job over several halls, campuses or regions."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, isnan, log10
from typing import Any, ClassVar, cast

import numpy as np

from netplan.answers.sites_answer import (
    AUTO,
    SHOWN_KM,
    SitesAnswer,
    SitesBreakEven,
    SitesCase,
    SitesTime,
)
from netplan.answers.sites_bill import SitesBill
from netplan.arrays import Floats
from netplan.costing.fabric_bill import make_bill
from netplan.costing.long_haul import (
    LONG_HAUL_BOOK,
    LONG_HAUL_BOOKS,
    HaulBooks,
    LongHaul,
    LongHaulBook,
    long_haul,
)
from netplan.costing.prices import US_DOLLAR
from netplan.errors import InfeasibleError, InputError
from netplan.inputs.choices import LEAST_RATIO, LONGEST_KM, MOST_RATIO
from netplan.performance.sites import Exchange
from netplan.performance.spread import Haul, data_time, flat_time, largest_below
from netplan.records import replace
from netplan.scenarios.bill_books import books_of_sites, whole_books
from netplan.scenarios.inner_parts import SiteSpan
from netplan.scenarios.reading import CatalogReader, sized
from netplan.setup import over_sites
from netplan.setup.asking import function_of
from netplan.setup.inputs import span_of
from netplan.setup.own_inputs import list_field, option_field
from netplan.setup.question import NETWORK, PRICES, SPAN, TRAINED, Question
from netplan.setup.runs import PLACED
from netplan.setup.spread_run import ZERO_3, ChosenPlan, spread_run
from netplan.topologies.fabric import Sizing
from netplan.workloads.accelerators import ACCELERATORS

KM = (1.0, 10.0, 40.0, 100.0, 300.0, 1000.0, 3000.0)
USUAL_SITES = "2"
"""Sites where nobody says how many."""

RATIOS = (1.0, 4.5, 16.0, 64.0, 256.0, 1024.0)
MICROBATCHES = (0, 1, 2)
"""Microbatches ahead that an answer shows beside the number that is asked for [1]."""


@dataclass(frozen=True, kw_only=True)
class SeveralSites(Question[SitesAnswer]):
    """Spread one training job over several sites: at which rate and distance it loses how much.

    Whole replicas in each site exchange gradients (data), or stages of the pipeline are split
    between them (pipeline). The plan is the best that search finds for one site and that can be
    dealt out to several. Lengths are those of fibre; the ratio is the rate of a site's GPUs over
    what leaves it, each direction.

    Raises
    ------
    NetplanError
        If an input is not allowed, or the plan cannot be dealt out to the sites.

    Examples
    --------
    >>> answer = sites("hgx-h100", gpus=1024, model="llama-3-70b", km=1000.0, ratio=64.0)
    >>> [(row.time.across, row.time.bottleneck) for row in answer.grid]
    [('data', 'wire'), ('pipeline', 'wire')]
    """

    command: ClassVar[str] = "sites"
    examples: ClassVar[tuple[str, ...]] = (
        "netplan sites hgx-h100 --gpus 16384 --model llama-3-405b",
        "netplan sites hgx-h100 --gpus 16384 --km 1000 --ratio 64",
        "netplan sites hgx-h100 --gpus 16384 --sites 4 --layout ring --across data",
        "netplan sites hgx-h100 --gpus 16384 --fix interleave=1 --across pipeline --ahead 2",
        "netplan sites hgx-h100 --gpus 12288 --model llama-3-405b --sites sites.yaml",
    )

    reads: ClassVar[frozenset[str]] = (
        NETWORK | TRAINED | PLACED | PRICES | SPAN | {"switch", "cards", "economics", "years"}
    )
    varies: ClassVar[tuple[str, ...]] = ("km", "ratio")
    foremost: ClassVar[frozenset[str]] = SPAN
    workload: ClassVar[str] = "training"

    exchange: Exchange | None = option_field(
        "Who sends gradients to whom.",
        "choice",
        choices=("ring", "direct"),
        otherwise="direct on a mesh, else ring",
    )
    chunks: int = option_field(
        "Pieces in which sites exchange what is reduced within.",
        "whole",
        default=over_sites.CHUNKS,
        low=1,
        high=10**6,
    )
    ahead: str = option_field(
        "Microbatches more that stages before a border hold; auto: the least that hides it.",
        metavar="N|auto",
        default=AUTO,
    )
    loss: float = option_field(
        "Share of the time that may be lost.", "real", default=0.05, low=1e-6, high=10.0
    )
    in_flight: float | None = option_field(
        "Bytes in flight of one queue pair, at most.",
        "size",
        metavar="SIZE",
        unit="B",
        otherwise="no limit",
    )
    fail: Sequence[str] = list_field(
        "Fibre that is cut: all of a pair of sites, or so many fibre pairs.", metavar="A:B[=N]"
    )

    def ask(self) -> SitesAnswer:
        """Place the plans, and let every distance and ratio delay them."""
        self.check_parts()
        if isinstance(self.in_flight, tuple):
            raise InputError("--in-flight is one size, such as 64MB, and no range")
        if self.in_flight is not None and self.in_flight <= 0:
            raise InputError("--in-flight 0: give a size of 1 B or more, or leave it out")
        _ = self.held
        reader = self.reader()
        book = reader.load(LONG_HAUL_BOOKS, LONG_HAUL_BOOK)
        sizing = sized(self.cluster, reader.load(ACCELERATORS, self.cluster.accelerator))
        cases = self._cases(sizing, book)
        haul, left = self._options.haul(book, cases[0].left), [case.left for case in cases]
        chosen, notes, best = over_sites.chosen_plans(self, left, haul, over_sites.BOOKS)
        best_s = best.timed.iteration_time_s
        grid = [row for plan in chosen for row in self._rows(plan, cases, haul, self.held)]
        lengths = [case.km for case in cases]
        km = SHOWN_KM if SHOWN_KM in lengths else lengths[-1]
        there = [case for case in cases if case.km == km]
        good = []
        for case in there:
            rows = [row for row in grid if (row.km, row.ratio) == (case.km, case.ratio)]
            if min(row.time.time_s for row in rows) <= (1 + self.loss) * best_s:
                good.append(case)
        case = max(good or there[:1], key=lambda case: case.ratio or 0.0)
        data = next((plan for plan in chosen if plan.across == "data"), None)
        pairs = [pair for case in cases for pair in case.whole.pairs]
        inputs = chosen[0].placed.inputs | {
            "sites": self._span.sites,
            "km": sorted({pair.km for pair in pairs}),
            "ratio": sorted({pair.ratio for pair in pairs}),
            "layout": "file" if self._span.count is None else self._span.layout,
            "across": self._span.across,
            "exchange": haul.exchange,
            "set": {
                **cast("dict[str, object]", chosen[0].placed.inputs["set"]),
                **over_sites.replaced_of(self, over_sites.BOOKS),
            },
        }
        gpu_rate = sizing.cards * sizing.network_bytes_per_s
        gathered = None
        if data is not None and best.timed.plan.zero == ZERO_3:
            gathered = data_time(spread_run(best), case.left, haul)
        return SitesAnswer(
            inputs=inputs,
            target=self.loss,
            shown=case,
            limited=haul.limited(case.left),
            haul=haul,
            grid=tuple(grid),
            ahead=tuple(self._compared(chosen, cases, haul)),
            break_even=tuple(self._break_evens(chosen, cases, haul, sizing)),
            plans=tuple(chosen),
            best_s=best_s,
            bought=self._bought(case, reader, sizing),
            flat=None if data is None else flat_time(data.run, case.left, haul, gpu_rate),
            gathered=gathered,
            notes=notes,
        )

    @cached_property
    def held(self) -> int | None:
        """Microbatches ahead; None searches them [1]."""
        if self.ahead == AUTO:
            return None
        # More digits are more than any run has, and than Python reads as a number.
        if not (str(self.ahead).isdecimal() and len(self.ahead) < 10):  # noqa: PLR2004
            raise InputError(f"--ahead {self.ahead:.40}: give a whole number from 0 on, or auto")
        return int(self.ahead)

    @property
    def _options(self) -> over_sites.HaulOptions:
        """What is asked of the way between sites."""
        flying = inf if self.in_flight is None else self.in_flight
        return over_sites.HaulOptions(
            exchange=self.exchange, chunks=self.chunks, ahead=self.held, in_flight_bytes=flying
        )

    @cached_property
    def _span(self) -> SiteSpan:
        """The sites of the scenario, two where nobody says how many."""
        return span_of(self) or replace(self.cluster.span, sites=USUAL_SITES)

    def values(self, name: str, usual: tuple[float, ...]) -> tuple[float, ...]:
        """Lengths or ratios that are asked for, or those of the scenario, or the usual ones."""
        given = getattr(self.cluster.span, name)
        return self.varied.get(name) or (usual if given is None else (given,))

    def _cases(self, sizing: Sizing, book: LongHaulBook) -> list[SitesCase]:
        """The sites of every length and ratio; those of a file once."""
        spans = [self._span]
        if self._span.count is not None:
            spans = [
                replace(self._span, km=km, ratio=ratio)
                for ratio in self.values("ratio", RATIOS)
                for km in self.values("km", KM)
            ]
        wholes = [span.dealt(sizing) for span in spans]
        cuts = over_sites.read_cuts(self.fail, wholes[0], book)
        if any(share < 1 for _, _, share in cuts) and len({span.ratio for span in spans}) > 1:
            raise InputError(
                f"--fail {' '.join(self.fail)}: so many fibre pairs are those of one ratio: give"
                " one --ratio"
            )
        return [
            SitesCase(span.km, span.ratio, whole, cuts)
            for span, whole in zip(spans, wholes, strict=True)
        ]

    def _rows(
        self, plan: ChosenPlan, cases: Sequence[SitesCase], haul: Haul, ahead: int | None
    ) -> list[SitesTime]:
        """Times of a plan in all cases."""
        times = over_sites.spread_times(plan, [case.left for case in cases], haul, ahead)
        return [
            SitesTime(case.km, case.ratio, time) for case, time in zip(cases, times, strict=True)
        ]

    def _counts(self, plan: ChosenPlan) -> list[int | None]:
        """Microbatches ahead of a pipeline that are shown: a few, and what is asked for."""
        few: list[int | None] = [count for count in MICROBATCHES if count <= plan.run.most_ahead]
        return list(dict.fromkeys([*few, self.held]))

    def _compared(
        self, chosen: Sequence[ChosenPlan], cases: Sequence[SitesCase], haul: Haul
    ) -> Iterator[tuple[str, tuple[SitesTime, ...]]]:
        """A pipeline at the first ratio by what is held ahead."""
        first = [case for case in cases if case.ratio == cases[0].ratio]
        for plan in chosen:
            for count in self._counts(plan) if plan.across == "pipeline" else ():
                rows = self._rows(plan, first, haul, count)
                yield (AUTO if count is None else f"+{count}"), tuple(rows)

    def _break_evens(
        self, chosen: Sequence[ChosenPlan], cases: Sequence[SitesCase], haul: Haul, sizing: Sizing
    ) -> Iterator[SitesBreakEven]:
        """At which ratio of every length, and which length of every ratio, the target is lost."""
        if self._span.count is None:
            return
        ratios = [*dict.fromkeys(case.ratio for case in cases if case.ratio is not None)]
        lengths = [*dict.fromkeys(case.km for case in cases if case.km is not None)]

        longest = LONGEST_KM / max(1.0, haul.detour)

        def losses(plan: ChosenPlan, ahead: int | None, km: Floats, ratio: Floats) -> Floats:
            points = zip(*np.broadcast_arrays(km, ratio), strict=True)
            spans = (replace(self._span, km=float(a), ratio=float(b)) for a, b in points)
            made = [over_sites.after_cuts(span.dealt(sizing), cases[0].cuts) for span in spans]
            return np.array(
                [time.loss for time in over_sites.spread_times(plan, made, haul, ahead)]
            )

        for plan in chosen:
            if plan.across == "data":
                for km in lengths:
                    yield _ratio_of(plan, km, losses, self.loss)
                asked: list[tuple[float, int | None]] = [(ratio, 0) for ratio in ratios]
            else:
                asked = [(ratios[0], count) for count in self._counts(plan)]
                asked += [(ratio, self.held) for ratio in ratios[1:]]
            for ratio, ahead in asked:
                yield _km_of(plan, (ratio, longest), ahead, losses, self.loss)

    def _bought(self, case: SitesCase, reader: CatalogReader, sizing: Sizing) -> SitesBill:
        """What lights the fibre, and networks of one site and of several, in dollars."""
        alone = whole_books(self.cluster, self.books, reader)
        spec = reader.fabric(self.cluster.fabric, self.cluster)
        span = replace(self._span, km=case.km, ratio=case.ratio)
        books = books_of_sites(alone, span, self.books, reader)
        try:
            several = make_bill(spec, sizing, books, currency=US_DOLLAR)
            one_site = make_bill(spec, sizing, alone, currency=US_DOLLAR)
        except (InputError, InfeasibleError) as error:
            haul = cast("HaulBooks", books.haul)
            lit = long_haul(case.whole.pairs, haul.book, alone.prices, haul.years, US_DOLLAR)
            return SitesBill(lit, why=str(error))
        return SitesBill(cast("LongHaul", several.haul), several, one_site)


sites = function_of(SeveralSites)

Losses = Callable[[ChosenPlan, int | None, Any, Any], Floats]


def _ratio_of(plan: ChosenPlan, km: float, losses: Losses, target: float) -> SitesBreakEven:
    """At which ratio the target is lost over a length."""

    def losses_at(logs: Floats) -> Floats:
        return losses(plan, 0, km, 10**logs)

    value = 10 ** largest_below(losses_at, target, (log10(LEAST_RATIO), log10(MOST_RATIO)))
    if isnan(value):
        why = f"lost at any ratio at {km:,g} km: no rate makes up for the way"
    else:
        why = f"no ratio up to {MOST_RATIO:,.0f} loses so much" if value >= MOST_RATIO else ""
    return SitesBreakEven(plan.across, "ratio", km, None, None if why else value, why)


def _km_of(
    plan: ChosenPlan, asked: tuple[float, float], ahead: int | None, losses: Losses, target: float
) -> SitesBreakEven:
    """At which length, of up to a longest one, the target is lost at a ratio."""
    ratio, longest = asked

    def losses_at(lengths: Floats) -> Floats:
        return losses(plan, ahead, lengths, ratio)

    value, why = largest_below(losses_at, target, (0.0, longest)), ""
    if isnan(value):
        why = f"lost at any length at {ratio:g}:1: the rate is too low"
    elif value >= longest:
        why = f"no length up to {longest:,.0f} km loses so much"
    held = None if plan.across == "data" else AUTO if ahead is None else ahead
    return SitesBreakEven(plan.across, "km", None, ratio, None if why else value, why, held)
