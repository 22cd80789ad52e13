"""What an uneven load of experts would cost a serving plan, or what it does to it, in a line."""

import numpy as np

from netplan.performance.serving.outcomes import ServingCase
from netplan.performance.serving.rounds import PlannedServers, servers_outcome
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
    servers = servers_found.best(case)
    spread = _spread(servers)
    if max(spread) == 1:
        return "Its experts' skew costs nothing: every GPU has a part of each."
    most = float(experts.load.imbalance(np.array(spread)).max())
    even = _tokens_per_s(_loaded(case, 0.0, "shuffled"), servers)
    change = _percent(_tokens_per_s(case, servers) / even - 1)
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
    servers = servers_found.best(case)
    spread = _spread(servers)
    _, _, number = skew.source.partition("arXiv:")
    paper = f"arXiv:{number[:10]}" if number else skew.source
    published = f"Published skew of experts ({skew.words}, {paper})"
    if max(spread) == 1:
        return f"{published} costs nothing here: every GPU has a part of each."
    if any(experts.count % over for over in spread):
        return ""
    even = _tokens_per_s(_loaded(case, 0.0, "shuffled"), servers)
    changes = {
        placement: [
            _tokens_per_s(_loaded(case, gini, placement), servers) / even - 1 for gini in skew.ends
        ]
        for placement in ("shuffled", "eplb")
    }
    shuffled, packed = (
        " to ".join(dict.fromkeys(_percent(change) for change in values))
        for values in changes.values()
    )
    return f"{published} against even ones: tokens/s {shuffled} %, under EPLB {packed} %."


def _spread(servers: PlannedServers) -> list[int]:
    """Over how many GPUs experts are divided, by pool [1]."""
    return [int(plans.expert[0]) for plans in servers.plans]


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


def _tokens_per_s(case: ServingCase, servers: PlannedServers) -> float:
    """Tokens a second of the same servers with as many requests."""
    outcome = servers_outcome(case, servers.plans, servers.outcome.concurrency)
    return float(outcome.tokens_per_s[0])
