"""A lower bound of the iteration time on many fabrics at once, from one plan search.

Take fabrics whose HB domains have equal sizes and which join equally many GPUs. Their *best case*
has two levels: a non-blocking HB domain and one non-blocking network, each at the highest rate that
a GPU has there on any of the fabrics, and at every level the lowest latency of all. No plan of any
of the fabrics is faster than the best plan of the best case:

* Every plan has a twin there, with the same degrees inside HB domains and, beyond them, the
  products of its degrees over the outer levels. Microbatches and memory are the same.
* A phased collective takes sum_i (1/M_i - 1/M_(i+1)) D / B_i over the levels. With the highest
  rate B of all outer levels this is at least (1/M - 1/g) D / B, which is the twin's time: the sum
  telescopes. A ring takes at least its innermost outer level's part, c D / (M B). Rings never have
  fewer steps than the switch that replaces them, nor any level a rate above what leaves the GPU.
* Hops between stages number as many, sum_i (p_i - 1) p_(i+1) ... p_k = p - 1, and each is as fast
  or faster.
* The rest of an iteration (computing, memory, bubble) does not know the fabric, and the whole does
  not fall when a part rises: of r passes through n layers, m n >= r n - 1 pay the time behind which
  a collective hides (:mod:`netplan.performance.iteration`).

Symbols as in :mod:`netplan.traffic.hierarchy`. An all_to_all through a ring of all levels
is not bounded by this, since there the slowest level counts alone; dense models cut in one
dimension, which are all that is searched here, have none.
"""

from collections.abc import Sequence

from netplan.errors import InfeasibleError, InputError
from netplan.levels import Level, gpu_count
from netplan.performance.plan import SearchResult
from netplan.performance.search import PlanSearch

Levels = tuple[Level, ...]
DOMAIN_AND_NETWORK = 2


def best_case(fabrics: Sequence[Sequence[Level]]) -> Levels:
    """Two levels on which every plan is at least as fast as on any of the fabrics.

    Parameters
    ----------
    fabrics
        Levels of each fabric, innermost first; all with HB domains of one size and as many GPUs.

    Raises
    ------
    InputError
        If there is no fabric, or their HB domains or GPUs differ in number.

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
    return (
        Level("switch", size, domain, step_latency_s=latency_s),
        Level("switch", gpus // size, max(outer), step_latency_s=latency_s),
    )


def search_best_case(search: PlanSearch, fabrics: Sequence[Sequence[Level]]) -> SearchResult | None:
    """Best plan on the best case of the fabrics; none where it bounds nothing.

    If no plan divides over all GPUs the fabrics may use different parts of themselves, which
    nothing bounds; if none fits the memory, none fits on any of the fabrics.

    Parameters
    ----------
    search
        What is trained, and how.
    fabrics
        As in :func:`best_case`.
    """
    try:
        return search.whole(best_case(fabrics))
    except InfeasibleError:
        return None


def is_never_slower(one: Sequence[Level], other: Sequence[Level]) -> bool:
    """Whether no plan is slower on two levels than on a fabric with the same HB domains.

    That is so for one switch beyond the HB domains whose rate is as high as any of the other
    fabric's beyond them, and whose latency is as low, but no lower than that of the HB domain: then
    the slowest hop of a pipeline, which is the one of the lowest rate, does not gain latency.

    Parameters
    ----------
    one, other
        Levels of two fabrics that join equally many GPUs.

    Examples
    --------
    >>> domain = Level("switch", 8, 450e9)
    >>> full, thin = (domain, Level("switch", 8, 50e9)), (domain, Level("switch", 8, 25e9))
    >>> is_never_slower(full, thin), is_never_slower(thin, full)
    (True, False)
    """
    if len(one) != DOMAIN_AND_NETWORK or one[0] != other[0] or gpu_count(one) != gpu_count(other):
        return False
    domain, network = one
    return network.kind == domain.kind == "switch" and all(
        network.link_bytes_per_s >= _rate(level) and domain.step_s <= network.step_s <= level.step_s
        for level in other[1:]
    )


def _rate(level: Level) -> float:
    """Highest rate at which a GPU sends at a level, over one link or all of them [B/s]."""
    return max(level.link_bytes_per_s, level.gpu_bytes_per_s)
