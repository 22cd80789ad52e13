"""The run of a question, by the faster way over the sites of its scenario where it lies in several.

Every question that times, routes or simulates a run over sites asks here, so that all of them have
the plan, the time and the bytes of ``netplan sites``.
"""

from collections.abc import Collection, Sequence
from fractions import Fraction
from math import inf
from typing import Any, NamedTuple, cast

from msgspec import Struct

from netplan.costing.long_haul import LONG_HAUL_BOOK, LONG_HAUL_BOOKS, LongHaulBook, fibre_pairs_of
from netplan.documents import read_yaml_value
from netplan.errors import InfeasibleError, InputError
from netplan.performance.sites import Exchange
from netplan.performance.spread import (
    Borders,
    Haul,
    OverSites,
    SpreadTime,
    data_time,
    pipeline_times,
)
from netplan.records import replace
from netplan.scenarios.reading import sized
from netplan.setup.inputs import sites_words, span_of
from netplan.setup.placed_run import PlacedRun, Run
from netplan.setup.question import AnyQuestion
from netplan.setup.runs import place_serving, place_training
from netplan.setup.spread_run import ACROSS, PATTERN, ChosenPlan, choose_plan, refuse_wider
from netplan.topologies.sites import Sites
from netplan.traffic.patterns import Pattern
from netplan.units import counted
from netplan.workloads.accelerators import ACCELERATORS

HAUL_ROLE = frozenset({LONG_HAUL_BOOKS.role})
"""Records that only the way between sites is read from, and no plan."""

BOOKS = HAUL_ROLE | {"prices", "power", "cabling", "economics", "hb-gear", "switch"}
"""The same of a question that makes bills, too."""

CHUNKS = 8
"""Pieces in which sites exchange what is reduced within, where nobody says [1]."""


class HaulOptions(Struct, frozen=True, kw_only=True):
    """What is asked of the way between sites beside their scenario.

    Parameters
    ----------
    exchange
        Who sends gradients to whom; direct on a mesh, else a ring, where nobody says.
    chunks
        Pieces in which the exchange follows what is reduced within [1].
    ahead
        Microbatches that stages before a border hold more; None takes the least that hides it [1].
    in_flight_bytes
        Bytes in flight of a queue pair at most [B].
    """

    exchange: Exchange | None = None
    chunks: int = CHUNKS
    ahead: int | None = None
    in_flight_bytes: float = inf

    def haul(self, book: LongHaulBook, sites: Sites) -> Haul:
        """How bytes get from site to site."""
        usual: Exchange = "direct" if sites.complete else "ring"
        return Haul(
            exchange=self.exchange or usual,
            chunks=self.chunks,
            detour=book.detour,
            equipment_s=1e-6 * book.equipment_us,
            in_flight_bytes=self.in_flight_bytes,
            queue_pairs=book.queue_pairs,
            sync_every=book.sync_every,
        )


def place_run(asked: AnyQuestion, algorithm: Pattern | str) -> Run:
    """The run by its best plan, whatever its workload; training over sites by the faster way.

    Parameters
    ----------
    asked
        The question, which says what runs on which cluster.
    algorithm
        Which pairs of a group talk.

    Returns
    -------
    Run
        The run on its fabric.

    Raises
    ------
    NetplanError
        If there is no plan, or none that can be dealt out to the sites.
    """
    if asked.trains:
        return place_trained(asked, algorithm)
    span_of(asked)  # refuses servers in several, and post-training
    if asked.reinforces:
        from netplan.setup.post_training_run import place_post_training

        return place_post_training(asked, algorithm)
    return place_serving(asked, algorithm)


def place_trained(asked: AnyQuestion, algorithm: Pattern | str) -> PlacedRun:
    """A training run; as of :func:`place_run`."""
    if span_of(asked) is None:
        return place_training(asked, algorithm)
    return SitePlans.of(asked).run(algorithm)


class SitePlans(Struct, frozen=True, kw_only=True):
    """Plans of a run over the sites of its scenario, one for each way that is asked for.

    Parameters
    ----------
    chosen
        The plans, and how they are dealt out.
    told
        Why there is none of another way.
    sites
        The sites, without any cut.
    book, options
        What lights their fibre, and what is asked of it.
    replaced
        Values that were replaced in records of the way between sites.
    """

    chosen: tuple[ChosenPlan, ...]
    told: tuple[str, ...]
    sites: Sites
    book: LongHaulBook
    options: HaulOptions
    replaced: dict[str, object]

    @classmethod
    def of(
        cls,
        asked: AnyQuestion,
        *,
        options: HaulOptions = HaulOptions(),  # noqa: B008 - frozen
        roles: Collection[str] = HAUL_ROLE,
    ) -> "SitePlans":
        """The plans of a question whose scenario lies in several sites.

        Parameters
        ----------
        asked
            The question.
        options
            What is asked of the way between sites.
        roles
            Records that no plan is read from, and whose values may be replaced all the same.

        Returns
        -------
        SitePlans
            One plan at least.

        Raises
        ------
        NetplanError
            If there is no plan, or none that can be dealt out to the sites.
        """
        span = span_of(asked)
        if span is None:
            raise InputError(f"netplan {asked.command} over sites needs --sites: give 2 or more")
        reader = asked.reader()
        book = reader.load(LONG_HAUL_BOOKS, LONG_HAUL_BOOK)
        chip = reader.load(ACCELERATORS, asked.cluster.accelerator)
        sites = span.dealt(sized(asked.cluster, chip))
        chosen, notes, _ = chosen_plans(asked, (sites,), options.haul(book, sites), roles)
        return cls(
            chosen=tuple(chosen),
            told=notes,
            sites=sites,
            book=book,
            options=options,
            replaced=replaced_of(asked, roles),
        )

    def run(self, algorithm: Pattern | str = PATTERN, cuts: Sequence[str] = ()) -> PlacedRun:
        """The run by the faster of the plans.

        Parameters
        ----------
        algorithm
            Which pairs of a group talk.
        cuts
            Fibre that is cut, by the names of both sites (:func:`read_cuts`).

        Returns
        -------
        PlacedRun
            The run in one site, with what it is over several.

        Raises
        ------
        InputError
            If there is no such fibre.
        InfeasibleError
            If the sites fall apart.
        """
        sites = after_cuts(self.sites, read_cuts(cuts, self.sites, self.book))
        haul = self.options.haul(self.book, sites)
        ahead = self.options.ahead
        times = [spread_times(plan, (sites,), haul, ahead)[0] for plan in self.chosen]
        plan, time = min(zip(self.chosen, times, strict=True), key=lambda pair: pair[1].time_s)
        over = OverSites(sites=sites, haul=haul, run=plan.run, dealt=plan.dealt, time=time)
        given = cast("dict[str, object]", plan.placed.inputs["set"])
        inputs = plan.placed.inputs | {"set": {**given, **self.replaced}}
        return replace(plan.placed, inputs=inputs, algorithm=algorithm, over=over, told=self.told)


class Elsewhere(NamedTuple):
    """Plans of one site beside the run over several: its JSON, and a sentence on it."""

    facts: dict[str, Any]
    sentence: str


def beside_one_site(asked: AnyQuestion, one_site_s: float) -> Elsewhere | None:
    """What the best plan of one site becomes where the scenario lies in several.

    Parameters
    ----------
    asked
        The question, which looks for plans of one site.
    one_site_s
        Time of the best of these [s].

    Returns
    -------
    Elsewhere or None
        The run that ``netplan sites`` has, or why there is none; None in one site.
    """
    span = span_of(asked)
    if span is None:
        return None
    # What is no input of sites is refused as everywhere; only a plan may be missing.
    reader = asked.reader()
    span.dealt(sized(asked.cluster, reader.load(ACCELERATORS, asked.cluster.accelerator)))
    try:
        run = SitePlans.of(asked).run()
    except (InputError, InfeasibleError) as error:
        return Elsewhere({"over_sites": None}, f"These are plans of one site. Over all: {error}.")
    there = run.timed_there
    words = run.over.words if run.over else ""
    more = there.iteration_time_s / one_site_s - 1
    return Elsewhere(
        {"over_sites": run.in_short},
        f"These are plans of one site. Over {sites_words(run.inputs)} it is {there.plan.degrees}"
        f" {words}; {there.time_text}, {100 * more:.2g} % longer.",
    )


def largest_site(
    asked: AnyQuestion, run: PlacedRun, roles: Collection[str] = HAUL_ROLE
) -> PlacedRun:
    """What of a run over sites lies in the first of the largest ones, on that site's own fabric.

    Parameters
    ----------
    asked
        The question.
    run
        The run over sites.
    roles
        Records that no plan is read from.

    Returns
    -------
    PlacedRun
        Its replicas with their part of the batch, or its stages with their layers.

    Raises
    ------
    NetplanError
        If that is no plan of the site by itself, as where its GPUs are fewer than a cube.
    """
    over, plan = run.over, run.timed.plan
    if over is None:
        return run
    sizes = [site.gpus for site in over.sites.sites]
    place = sizes.index(max(sizes))
    share = Fraction(over.dealt[place], sum(over.dealt))
    plain = _without(asked, roles)
    fixed = {"tensor": plan.tensor, "context": plan.context, "interleave": plan.interleave}
    fixed |= {"microbatch": int(plan.microbatch), "data": plan.data, "pipeline": plan.pipeline}
    if plan.expert > 1:
        fixed |= {"expert": plan.experts_over}
        fixed |= {"expert_tensor": plan.expert_tensor} if plan.folded else {}
    batch = run.setting.training.batch
    if over.time.across == "data":
        fixed["data"], batch = int(share * plan.data), int(share * batch)
    else:
        fixed["pipeline"] = over.dealt[place]
        layers = round(share * run.setting.program(plan.sharding).repetition.layers)
        plain = replace(plain, overrides={**(plain.overrides or {}), "model.layers": f"{layers}"})
    values = {"gpus": sizes[place], "batch": batch, "fixed": fixed, "sites": None}
    values |= {"zero_stage": plan.zero} if plan.zero is not None else {}
    return place_training(plain.with_values(**values), run.algorithm)


def replaced_of(asked: AnyQuestion, roles: Collection[str]) -> dict[str, object]:
    """Values that were replaced in some records."""
    given = (asked.overrides or {}).items()
    return {key: read_yaml_value(text) for key, text in given if key.partition(".")[0] in roles}


FibreCut = tuple[int, int, float]
"""Numbers of two sites, and the share of the fibre between them that is cut [1]."""


def read_cuts(texts: Sequence[str], sites: Sites, book: LongHaulBook) -> tuple[FibreCut, ...]:
    """Fibre that is cut: all of a pair of sites, or so many of its fibre pairs.

    Parameters
    ----------
    texts
        Each as ``north:south``, or ``north:south=2`` for two fibre pairs of these.
    sites
        The sites.
    book
        Wavelengths of a fibre pair.

    Returns
    -------
    tuple of FibreCut
        What is cut of each pair.

    Raises
    ------
    InputError
        If there are no such sites, or fewer fibre pairs.

    Examples
    --------
    >>> from netplan.topologies.sites import deal_gpus
    >>> book = LONG_HAUL_BOOKS.load("2026")
    >>> sites = Sites.laid_out(deal_gpus(8192, 2, 8), "mesh", km=40.0, ratio=4.0, gpu_rate=50e9)
    >>> read_cuts(["site-1:site-2=2"], sites, book)
    ((0, 1, 0.25),)
    """
    numbers = {site.name: number for number, site in enumerate(sites.sites)}
    cuts = []
    for text in texts:
        named, equals, lit = text.partition("=")
        ends = ends_of(text)
        if len(ends) != 2 or not {*ends} <= {*numbers} or ends[0] == ends[1]:  # noqa: PLR2004 - both ends
            first, second = [*numbers][:2]
            raise InputError(
                f"--fail {text:.60}: name two sites, as {first}:{second}, or {first}:{second}=1 for"
                f" one fibre pair; they are {', '.join(numbers)}"
            )
        a, b = sorted(numbers[name] for name in ends)
        pair = sites.fibres.get((a, b))
        fibres = fibre_pairs_of(pair, book) if pair else 1
        # By its digits first: Python reads no text of thousands of them as a number.
        digits = lit.strip().lstrip("0")
        readable = digits.isdecimal() and len(digits) <= len(str(fibres))
        count = fibres if not equals else int(digits) if readable else 0
        if not 1 <= count <= fibres:
            raise InputError(
                f"--fail {text:.60}: {named} has {counted(fibres, 'fibre pair')}: give 1 to"
                f" {fibres:,}, or no number for all of it"
            )
        cuts.append((a, b, count / fibres))
    return tuple(cuts)


def after_cuts(sites: Sites, cuts: Sequence[FibreCut]) -> Sites:
    """Sites without the fibre that is cut.

    Parameters
    ----------
    sites, cuts
        The sites, and what is cut of their fibre.

    Returns
    -------
    Sites
        What is left of them.

    Raises
    ------
    InputError
        If there is no such fibre.
    InfeasibleError
        If the job stands still without.
    """
    for a, b, share in cuts:
        sites = sites.without(a, b, share=share)
    return sites


def ends_of(cut: str) -> list[str]:
    """Sites at both ends of fibre that is cut, as far as a text names any.

    Examples
    --------
    >>> ends_of("north:south=2"), ends_of("links=10")
    (['north', 'south'], ['links'])
    """
    return [name.strip() for name in cut.partition("=")[0].split(":")]


def _without(asked: AnyQuestion, roles: Collection[str]) -> AnyQuestion:
    """The question without values of records that no plan is read from."""
    given = (asked.overrides or {}).items()
    plain = {key: text for key, text in given if key.partition(".")[0] not in roles}
    return replace(asked, overrides=plain)


def chosen_plans(
    asked: AnyQuestion, cases: Sequence[Sites], haul: Haul, roles: Collection[str]
) -> tuple[list[ChosenPlan], tuple[str, ...], PlacedRun]:
    """The plan of each way that is asked for, what is said of others, the best of one site.

    Parameters
    ----------
    asked
        The question, whose scenario lies in several sites.
    cases
        The sites at all lengths and ratios.
    haul
        How bytes get from one to another.
    roles
        Records that no plan is read from.

    Returns
    -------
    list of ChosenPlan, tuple of str, PlacedRun
        At least one plan.

    Raises
    ------
    InputError
        If no plan can be dealt out to the sites.
    """
    asked = _without(asked, roles)
    best = place_training(asked, PATTERN)
    sites = cases[-1]
    refuse_wider(sites, best, max(haul.way_s(sites, *ends) for ends in sites.paths))
    chosen: list[ChosenPlan] = []
    notes: list[str] = []
    wanted = asked.cluster.span.across
    for across in ACROSS if wanted == "both" else (wanted,):
        try:
            chosen.append(choose_plan(asked, across, sites, best))
        except InputError as error:
            if wanted != "both":
                raise
            notes.append(f"No {across} over sites: {error}.")
    if not chosen:
        raise InputError(" ".join(notes))
    return chosen, tuple(notes), best


def spread_times(
    plan: ChosenPlan, cases: Sequence[Sites], haul: Haul, ahead: int | None
) -> list[SpreadTime]:
    """Times of a plan in some cases of sites.

    Parameters
    ----------
    plan
        The plan, and how it is dealt out.
    cases
        The sites of each case.
    haul
        How bytes get from one to another.
    ahead
        Microbatches that stages before a border hold more; None takes the least that hides it [1].

    Returns
    -------
    list of SpreadTime
        Of each case.
    """
    if plan.across == "data":
        return [data_time(plan.run, case, haul) for case in cases]
    borders = Borders.of(plan.run, plan.dealt, cases, haul)
    return pipeline_times(plan.run, borders, ahead)
