"""Timing designs in the order of their cost, and leaving out those that a bound proves dominated.

A design need not be searched if a lower bound of its iteration time is no better than the time of
a design that is known to cost no more, and worse in at least one of the two. A bound is the known
time on a network that is nowhere slower, or else one search on the best case of all designs with HB
domains of that size. Designs with equal levels share one search.

The *best case* of many fabrics, whose HB domains have equal sizes and which join equally many GPUs,
has two levels: a non-blocking HB domain and one non-blocking network, each at the highest rate that
a GPU has there on any of them, and at every level the lowest latency of all. No plan of any of them
is faster than the best plan of the best case:

* Every plan has a twin there, with the same degrees inside HB domains and, beyond them, the
  products of its degrees over the outer levels. Microbatches, layers of the stages and memory are
  the same. Idle members are no hindrance: in the free space of plans
  (:mod:`netplan.performance.free_space`) degrees of the twin need not fill the network either, and
  HB domains are filled alike.
* A phased collective takes sum_i (1/M_i - 1/M_(i+1)) D / B_i over the levels. With the highest
  rate B of all outer levels this is at least (1/M - 1/g) D / B, which is the twin's time: the sum
  telescopes. A ring takes at least its innermost outer level's part, c D / (M B). Rings never have
  fewer steps than the switch that replaces them, nor any level a rate above what leaves the GPU.
* Measured collectives (:mod:`netplan.traffic.measured`) are rings whose levels are measured alike:
  merged outer levels start once, and sums in switches, or two domains that exchange theirs, ask
  for no fewer domains. This is so of switches alone; where there are other levels, every one is
  searched.
* All networks are of one kind; where they are not, every one is searched.
* Hops between stages number as many, sum_i (p_i - 1) p_(i+1) ... p_k = p - 1, and each is as fast
  or faster.
* The best case blocks nowhere: leaves and pods only ever take from a rate.
* The rest of an iteration (computing, memory, bubble) does not know the fabric, and the whole does
  not fall when a part rises: of r passes through n layers, m n >= r n - 1 pay the time behind which
  a collective hides (:mod:`netplan.performance.iteration`).

Symbols as in :mod:`netplan.traffic.hierarchy`. An all_to_all through a ring of all levels is not
bounded by this, since there the slowest level counts alone. Dense models cut in one dimension have
none; for all others every level is searched.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import inf

from msgspec import Struct, field

from netplan.errors import InfeasibleError, InputError
from netplan.inputs.choices import NetworkKind
from netplan.levels import Level, gpu_count
from netplan.performance.pareto import comparable
from netplan.performance.plan import SearchResult
from netplan.performance.search import PlanSearch
from netplan.progress import with_progress

Levels = tuple[Level, ...]
DOMAIN_AND_NETWORK = 2
ProofResult = SearchResult | str
"""What a search found, or why there is no plan."""

_Group = tuple[int, int]
"""HB domain and GPUs [1]."""

PROVEN = "1d"
"""The strategy for whose dense models the bounds are proven."""

ROUNDING = 1e-11
"""Bound and times add up the same terms in other orders: the bound gives way by this [1]."""


class Searches(Struct, frozen=True):
    """How many plan searches a proof took.

    Parameters
    ----------
    levels
        Different levels among the designs, which is the most that could be searched [1].
    run, bounds
        Searches of designs, and of best cases [1].
    spared
        Levels not searched, since a bound proves all their designs dominated [1].
    plans
        Parallel plans evaluated in all [1].
    """

    json_parts = "different_levels=levels", "run", "of_bounds=bounds", "spared"

    levels: int
    run: int
    bounds: int
    spared: int
    plans: int


class _Bounds(Struct):
    """Lower bounds of the times on levels: known times of faster networks, and best cases."""

    search: PlanSearch
    groups: dict[_Group, list[Levels]]
    best_cases: dict[_Group, float] = field(default_factory=dict)
    plans: int = 0

    @classmethod
    def of(cls, search: PlanSearch, levels: Sequence[Levels]) -> "_Bounds":
        """Group the levels."""
        groups: dict[_Group, list[Levels]] = {}
        for fabric in dict.fromkeys(levels):
            groups.setdefault(_group(fabric), []).append(fabric)
        return cls(search, groups)

    def times_s(self, levels: Levels, results: Mapping[Levels, ProofResult]) -> Iterator[float]:
        """Times that no plan on these levels beats: first those that are free to get [s]."""
        key = _group(levels)
        group = self.groups[key]
        plain = len(levels) == DOMAIN_AND_NETWORK
        for faster in group:
            known = results.get(faster)
            # Where no plan uses all GPUs, fabrics of more levels may use other parts of themselves.
            whole = isinstance(known, SearchResult) and known.levels == faster
            if known is not None and (plain or whole) and is_never_slower(faster, levels):
                yield comparable(_time_s(known) * (1 - ROUNDING))
        # The best case of a single fabric of two levels is as much work as its own search.
        if len(group) > 1 or not plain:
            if key not in self.best_cases:  # 0 if that bounds nothing
                result = search_best_case(self.search, group)
                self.plans += result.enumerated if result else 0
                time_s = result.time_s if result else 0.0
                self.best_cases[key] = comparable(time_s * (1 - ROUNDING))
            yield self.best_cases[key]


def _group(levels: Levels) -> _Group:
    return levels[0].size, gpu_count(levels)


def time_designs(
    search: PlanSearch, designs: Sequence[tuple[float, Levels]], *, prune: bool = True
) -> tuple[dict[Levels, ProofResult], Searches]:
    """Time all designs that may lie on the front of value against iteration time.

    Parameters
    ----------
    search
        What is trained, and how.
    designs
        Value of each design, such as its cost, and its levels.
    prune
        Whether to leave out what a bound proves dominated.

    Returns
    -------
    found, searches
        What was found on the levels that were searched, and what that took.
    """
    alike = len({kind for _, levels in designs for kind in _made_of(levels)}) <= 1
    prune = prune and alike and search.dense and search.strategy == PROVEN
    if search.training.links is not None:
        # Rings and meshes keep a model's latencies, which may be less than measured ones.
        prune = prune and all(level.kind == "switch" for _, levels in designs for level in levels)
    ordered = sorted(designs, key=lambda design: design[0])
    bounds = _Bounds.of(search, [levels for _, levels in ordered])
    results: dict[Levels, ProofResult] = {}
    spared: set[Levels] = set()
    # The best times of designs that cost less than the present one, and of those up to its cost.
    below_s, upto_s, value = inf, inf, -inf
    for cost, levels in with_progress(ordered, lambda _: "designs"):
        if cost > value:
            below_s, value = upto_s, cost
        if levels in spared:
            continue
        if levels not in results:
            times_s = bounds.times_s(levels, results) if prune and upto_s < inf else ()
            if any(below_s <= bound_s or upto_s < bound_s for bound_s in times_s):
                spared.add(levels)
                continue
            results[levels] = search.best_on_subset(levels) or "no levels."
        upto_s = min(upto_s, _time_s(results[levels]))
    searched = [result for result in results.values() if isinstance(result, SearchResult)]
    plans = bounds.plans + sum(result.enumerated for result in searched)
    distinct = len(results) + len(spared)
    return results, Searches(distinct, len(results), len(bounds.best_cases), len(spared), plans)


def _time_s(result: ProofResult) -> float:
    """Time to compare with others; none is infinitely slow [s]."""
    return comparable(result.time_s) if isinstance(result, SearchResult) else inf


def best_case(fabrics: Sequence[Sequence[Level]]) -> Levels:
    """Two levels on which every plan is at least as fast as on any of the fabrics, innermost first.

    Examples
    --------
    >>> clos = Level("switch", 8, 450e9), Level("switch", 64, 50e9, step_latency_s=5e-6)
    >>> torus = Level("switch", 8, 450e9), Level("ring", 8, 50e9), Level("ring", 8, 50e9)
    >>> domain, network = best_case([clos, torus])
    >>> domain.size, domain.link_bytes_per_s, network.size, network.link_bytes_per_s
    (8, 450000000000.0, 64, 100000000000.0)
    """
    sizes = {(levels[0].size, gpu_count(levels)) for levels in fabrics}
    if len(sizes) != 1:
        raise InputError(
            "a best case is of fabrics with equal HB domains and GPUs, got"
            f" {len(sizes)} different sizes: group the fabrics first"
        )
    ((size, gpus),) = sizes
    latency_s = min(level.step_s for levels in fabrics for level in levels)
    domain = max(_rate(levels[0]) for levels in fabrics)
    outer = [_rate(level) for levels in fabrics for level in levels[1:]] or [domain]
    network = Level("switch", gpus // size, max(outer), step_latency_s=latency_s)
    made_of = {kind for levels in fabrics for kind in _made_of(levels)}
    return (
        Level("switch", size, domain, step_latency_s=latency_s),
        network.as_found(made_of.pop()) if len(made_of) == 1 else network,
    )


def _made_of(levels: Sequence[Level]) -> set[NetworkKind]:
    """Kinds of network beyond the HB domains."""
    return {level.network_kind for level in levels[1:]}


def search_best_case(search: PlanSearch, fabrics: Sequence[Sequence[Level]]) -> SearchResult | None:
    """Best plan on the best case of the fabrics; none where it bounds nothing.

    If no plan divides over all GPUs the fabrics may use different parts of themselves, which
    nothing bounds; if none fits the memory, none fits on any of the fabrics.
    """
    try:
        return search.best_on_all(best_case(fabrics))
    except InfeasibleError:
        return None


def is_never_slower(levels: Sequence[Level], other: Sequence[Level]) -> bool:
    """Whether no plan is slower on two levels than on a fabric with the same HB domains.

    That is so for one switch beyond the HB domains that does not block, of the same kind of
    network, whose rate is as high as any of the other fabric's beyond them, and whose latency is as
    low, but no lower than that of the HB domain: then the slowest hop of a pipeline, which is the
    one of the lowest rate, does not gain latency.

    Examples
    --------
    >>> domain = Level("switch", 8, 450e9)
    >>> full, thin = (domain, Level("switch", 8, 50e9)), (domain, Level("switch", 8, 25e9))
    >>> is_never_slower(full, thin), is_never_slower(thin, full)
    (True, False)
    """
    if (
        len(levels) != DOMAIN_AND_NETWORK
        or levels[0] != other[0]
        or gpu_count(levels) != gpu_count(other)
    ):
        return False
    domain, network = levels
    if network.tiers or _made_of(other) - {network.network_kind}:
        return False
    return network.kind == domain.kind == "switch" and all(
        network.link_bytes_per_s >= _rate(level) and domain.step_s <= network.step_s <= level.step_s
        for level in other[1:]
    )


def _rate(level: Level) -> float:
    """Highest rate at which a GPU sends at a level, over one link or all of them [B/s]."""
    return max(level.link_bytes_per_s, level.gpu_bytes_per_s)
