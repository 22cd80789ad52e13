"""Fabrics under failures that serve: every one by the plan that `netplan serving` finds for it."""

from collections.abc import Iterator, Sequence
from statistics import mean
from typing import Any

import numpy as np

from netplan.costing.wiring import Wiring
from netplan.errors import InfeasibleError, NetplanError, not_built
from netplan.faults.damage.damage import Damage, find_effects
from netplan.faults.damage.impact import single_failures, single_parts
from netplan.faults.damage.served import ServedCluster, ServedImpact
from netplan.faults.years.group_failures import GroupFailures, group_failures
from netplan.faults.years.rates import FailureBook, bill_wiring, unit_counts
from netplan.faults.years.served_years import served_forecast
from netplan.progress import each
from netplan.questions.answers.served_faults_answer import (
    ServedFabric,
    ServedFaultsAnswer,
    ServedScenario,
)
from netplan.questions.setup.faults_inputs import (
    NAMED,
    OF_TRAINING,
    FaultsQuestion,
    Shared,
    drawn_or_why,
    inventory_of,
    rate_note,
    sorted_out,
)
from netplan.questions.setup.serving_run import Known, ServedBest, goal_of, serve_best
from netplan.records import replace
from netplan.scenarios.reading import CatalogReader
from netplan.topologies.build import build_fabric
from netplan.topologies.fabric import Fabric
from netplan.topologies.specs import FabricSpec


def served_faults(question: FaultsQuestion[Any], shared: Shared) -> ServedFaultsAnswer:
    """Fabrics that serve, under failures."""
    reader = CatalogReader(question.catalog, question.overrides)
    told = each(shared.specs.items(), lambda item: item[1].name)
    known: Known = {}
    rows = [_fabric(spec, name, (reader, known), question, shared) for name, spec in told]
    found, refused = sorted_out(rows, asked=bool(question.fail))
    inputs = question.inputs(
        hb_size=shared.sizing.hb_size,
        fabrics=[spec.name for spec in shared.specs.values()],
        switches_per_rack=shared.switches_per_rack if question.cluster.gpus_per_rack else None,
        groups=str(question.groups) if question.groups else None,
        circuit_switch=shared.circuit.name,
        link_gbps=shared.sizing.speed_gbps,
        set=shared.replaced | reader.replaced(),
    )
    shown = {name: value for name, value in inputs.items() if name not in OF_TRAINING}
    prices = shared.books.prices
    lenders = prices.lenders(shared.sizing.speed_gbps)
    return ServedFaultsAnswer(shown, prices.currency, found, refused, lenders)


def _fabric(
    spec: FabricSpec,
    name: str,
    files: tuple[CatalogReader, Known],
    question: FaultsQuestion[Any],
    shared: Shared,
) -> ServedFabric | tuple[str, str]:
    """One fabric under failures; or its name and why it cannot be built, or does not serve."""
    try:
        fabric = build_fabric(spec, shared.sizing)
        wiring = bill_wiring(fabric, shared.books)
    except NetplanError as error:
        return spec.name, not_built(spec.name, error)
    try:
        best = serve_best(question, files[0], name, files[1])
    except InfeasibleError as error:
        return spec.name, f"Does not serve: {error}."
    cluster = _cluster(spec, fabric, best, question, shared)
    return _failed((cluster, wiring), best, question, shared)


def _failed(
    built: tuple[ServedCluster, Wiring],
    best: ServedBest,
    question: FaultsQuestion[Any],
    shared: Shared,
) -> ServedFabric:
    """A cluster under failures."""
    cluster, wiring = built
    fabric = cluster.fabric
    inventory = inventory_of(cluster, question, shared)
    damages, why = drawn_or_why(inventory, question)
    used = np.sort(np.concatenate([gpus.ravel() for gpus in cluster.servers]))
    parts = single_parts(inventory, used)
    impacts = [cluster.impact(inventory.damage([part])) for part in parts]
    singles = tuple(single_failures(inventory, zip(parts, impacts, strict=True)))
    shared = replace(shared, book=shared.book.placed(cluster.graph.hb_size))
    failing = group_failures(cluster.graph, inventory.groups, shared.book, end=shared.options.end)
    return ServedFabric(
        name=cluster.spec.name,
        title=cluster.spec.title,
        switches=fabric.switches,
        links=fabric.link_count,
        transceivers=fabric.transceivers,
        plan=best.plan,
        scenario=_scenario(cluster, damages, question.fail) if damages else why,
        singles=singles,
        forecast=served_forecast(
            cluster,
            shared.book,
            shared.options,
            units=unit_counts(fabric, wiring),
            singles=singles,
            groups=failing,
        ),
        notes=(*_notes(cluster, failing, shared.book), *fabric.notes, *best.searched.notes),
    )


def _cluster(
    spec: FabricSpec,
    fabric: Fabric,
    best: ServedBest,
    question: FaultsQuestion[Any],
    shared: Shared,
) -> ServedCluster:
    """The cluster that serves by the best plan."""
    case, found = best.searched.case, best.searched.found
    first = np.zeros(1, dtype=np.int64)
    return ServedCluster(
        spec,
        replace(shared.sizing, hb_size=fabric.sizing.hb_size),
        fabric,
        None,
        question.cluster.spare_domains,
        case=case,
        outcome=found.ranked.take(first),
        pools=found.pools.take(first) if found.pools is not None else None,
        goal=goal_of(question),
    )


def _notes(
    cluster: ServedCluster, failing: Sequence[GroupFailures], book: FailureBook
) -> Iterator[str]:
    """What of the servers decides over failures, and how often groups fail."""
    size = cluster.graph.hb_size
    inside = all((gpus // size == gpus[:, :1] // size).all() for gpus in cluster.servers)
    if inside and cluster.pools is None:
        yield (
            "Each server lies in one HB domain, and needs no other network: no card, link or switch"
            " of the network stops or slows it. Requests come over networks of their own."
        )
    yield from (rate_note(one, book) for one in failing)


def _scenario(
    cluster: ServedCluster, damages: Sequence[Damage], text: Sequence[str]
) -> ServedScenario:
    """The failures that were asked for: the worst of all draws, and their mean."""
    impacts = [cluster.impact(one) for one in damages]
    at = max(range(len(impacts)), key=lambda draw: _badness(impacts[draw]))
    effects = find_effects(cluster.graph, damages[at])
    gone = np.concatenate([effects.gpus_down, effects.cut_off])[:NAMED]
    return ServedScenario(
        text=tuple(text),
        draws=len(damages),
        impact=impacts[at],
        mean_tokens_per_s=mean(one.tokens_per_s for one in impacts),
        mean_throughput_share=mean(one.throughput_share for one in impacts),
        stopped=sum(one.way == "stopped" for one in impacts),
        cut_off=tuple(cluster.graph.node_name(gpu) for gpu in gone.tolist()),
    )


def _badness(impact: ServedImpact) -> tuple[float, float]:
    """Order of impacts: the fewest tokens a second, then the least bandwidth."""
    return -impact.tokens_per_s, -(impact.bandwidth_share or 0.0)
