"""What an uneven load of experts would cost a serving plan, or what it does to it, in a line."""

import numpy as np

from netplan.performance.serving.disaggregated import Pools, disaggregated
from netplan.performance.serving.outcomes import ServingCase, ServingResult, aggregated
from netplan.performance.serving.serving_search import ServingFound
from netplan.records import replace
from netplan.units import PERCENT
from netplan.workloads.expert_load import ExpertLoad, ExpertPlacement
from netplan.workloads.published_skew import PublishedSkew


def loaded_words(case: ServingCase, servers_found: ServingFound) -> str:
    """How its experts are loaded, and what the busiest GPU of the best plan has; empty if alike."""
    experts = case.served.model.experts
    if experts is None or experts.load is None:
        return ""
    best, pair, spread = _best(servers_found)
    if max(spread) == 1:
        return "Its experts' skew costs nothing: every GPU has a part of each."
    most = float(experts.load.imbalance(np.array(spread)).max())
    even = _tokens_per_s(_loaded(case, 0.0, "shuffled"), best, pair)
    change = _percent(_tokens_per_s(case, best, pair) / even - 1)
    return f"Its busiest GPU has {most:.4g} times the mean of rows: tokens/s {change} % by that."


def published_words(case: ServingCase, servers_found: ServingFound, skew: PublishedSkew) -> str:
    """What the published skew of models like this would cost the best plan, as netplan times it.

    Parameters
    ----------
    case, servers_found
        What is served with all experts alike, and its plans.
    skew
        What was published.

    Returns
    -------
    str
        A sentence; empty where the plan does not divide the experts, which then are not placed.
    """
    experts = case.served.model.experts
    if experts is None or not servers_found.ranked.plans.count:
        return ""
    best, pair, spread = _best(servers_found)
    _, _, number = skew.source.partition("arXiv:")
    paper = f"arXiv:{number[:10]}" if number else skew.source
    published = f"Published skew of experts ({skew.words}, {paper})"
    if max(spread) == 1:
        return f"{published} costs nothing here: every GPU has a part of each."
    if any(experts.count % over for over in spread):
        return ""
    even = _tokens_per_s(_loaded(case, 0.0, "shuffled"), best, pair)
    changes = {
        placement: [
            _tokens_per_s(_loaded(case, gini, placement), best, pair) / even - 1
            for gini in skew.ends
        ]
        for placement in ("shuffled", "eplb")
    }
    shuffled, packed = (
        " to ".join(dict.fromkeys(_percent(change) for change in values))
        for values in changes.values()
    )
    return f"{published} against even ones: tokens/s {shuffled} %, under EPLB {packed} %."


def _best(servers_found: ServingFound) -> tuple[ServingResult, Pools | None, list[int]]:
    """The best plan, with its pools if any, and over how many GPUs experts are divided."""
    best, pools = servers_found.ranked.take(np.array([0])), servers_found.pools
    pair = None if pools is None else pools.take(np.array([0]))
    return best, pair, [int(best.plans.expert[0]), *([int(pair.prefill.expert[0])] if pair else [])]


def _percent(change: float) -> str:
    """A change with its sign, of which nothing has none."""
    tenths = f"{PERCENT * change:+.1f}".replace("-", "\N{MINUS SIGN}")
    return "0.0" if not float(tenths[1:]) else tenths


def _loaded(case: ServingCase, gini: float, placement: ExpertPlacement) -> ServingCase:
    """The case with its experts loaded by a Gini coefficient."""
    model = case.served.model
    if model.experts is None:
        return case
    load = ExpertLoad.of(f"gini:{gini!r}", model.experts.count, placement=placement)
    uneven = model.changed(experts=replace(model.experts, load=load))
    return replace(case, served=replace(case.served, model=uneven))


def _tokens_per_s(case: ServingCase, best: ServingResult, pools: Pools | None) -> float:
    """Tokens a second of the same plan with as many requests."""
    if pools is None:
        return float(aggregated(case, best.plans, best.concurrency).tokens_per_s[0])
    return float(disaggregated(case, pools, best.concurrency).tokens_per_s[0])
