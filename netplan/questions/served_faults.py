"""Fabrics under failures that serve: every one by the plan that `netplan serving` finds for it."""

from collections.abc import Iterator, Sequence
from statistics import mean
from typing import Any

import numpy as np

from netplan.answers.served_faults_answer import ServedFabric, ServedScenario
from netplan.costing.fabric_bill import RefusedFabric, wiring_of
from netplan.errors import InfeasibleError, NetplanError, not_built
from netplan.faults.damage.damage import Damage
from netplan.faults.years.group_failures import GroupFailures, group_failures
from netplan.faults.years.rates import FailureBook, unit_counts
from netplan.faults.years.served import ServedCluster, ServedImpact, served_forecast
from netplan.records import replace
from netplan.scenarios.reading import CatalogReader
from netplan.setup import faults_inputs
from netplan.setup.serving_run import Searched, ServingCache, serve_best
from netplan.topologies.build import build_fabric
from netplan.topologies.fabric import Fabric
from netplan.topologies.specs import FabricSpec


def served_fabric(
    spec: FabricSpec,
    name: str,
    *,
    files: tuple[CatalogReader, ServingCache],
    question: faults_inputs.FaultsQuestion[Any],
    shared: faults_inputs.Shared,
) -> ServedFabric | RefusedFabric:
    """One fabric under failures, unless it cannot be built, or does not serve."""
    try:
        fabric = build_fabric(spec, shared.sizing)
        wiring = wiring_of(spec, shared.sizing, fabric, shared.books)
    except NetplanError as error:
        return RefusedFabric(spec.name, not_built(spec.name, error))
    try:
        searched, plan = serve_best(question, files[0], name, files[1])
    except InfeasibleError as error:
        return RefusedFabric(spec.name, f"Does not serve: {error}.")
    cluster = _cluster(spec, fabric, searched, question, shared)
    inventory = faults_inputs.inventory_of(cluster, question, shared)
    used = np.sort(np.concatenate([gpus.ravel() for gpus in cluster.servers]))
    _, singles, damages, impacts, why = faults_inputs.fail_parts(cluster, inventory, question, used)
    optics = question.cluster.optics
    book = shared.book.placed(
        cluster.graph.hb_size, optics=optics, bad_servers=question.books.bad_servers
    )
    units = unit_counts(fabric, wiring, optics)
    units["engine"] = sum(single.parts for single in singles if single.kind == "engine")
    failing = group_failures(cluster.graph, inventory.groups, book, end=shared.options.end)
    return ServedFabric(
        name=spec.name,
        title=spec.title,
        switches=fabric.switches,
        links=fabric.link_count,
        transceivers=fabric.transceivers,
        plan=plan,
        scenario=_scenario(cluster, damages, impacts, question.fail) if damages else why,
        singles=singles,
        forecast=served_forecast(
            cluster, book, shared.options, units=units, singles=singles, groups=failing
        ),
        notes=(*_notes(cluster, failing, book), *fabric.notes, *searched.notes),
    )


def _cluster(
    spec: FabricSpec,
    fabric: Fabric,
    searched: Searched,
    question: faults_inputs.FaultsQuestion[Any],
    shared: faults_inputs.Shared,
) -> ServedCluster:
    """The cluster that serves by the best plan."""
    return ServedCluster(
        spec,
        replace(shared.sizing, hb_size=fabric.sizing.hb_size),
        fabric,
        None,
        question.cluster.spare_domains,
        planned=searched.found.best(searched.case),
        goal=searched.found.goal,
    )


def _notes(
    cluster: ServedCluster, failing: Sequence[GroupFailures], book: FailureBook
) -> Iterator[str]:
    """What of the servers decides over failures, and how often groups fail."""
    size = cluster.graph.hb_size
    inside = all((gpus // size == gpus[:, :1] // size).all() for gpus in cluster.servers)
    if inside and cluster.planned.pools is None:
        yield (
            "Each server lies in one HB domain, and needs no other network: no card, link or switch"
            " of the network stops or slows it. Requests come over networks of their own."
        )
    yield from (faults_inputs.rate_note(group, book) for group in failing)


def _scenario(
    cluster: ServedCluster,
    damages: Sequence[Damage],
    impacts: Sequence[ServedImpact],
    text: Sequence[str],
) -> ServedScenario:
    """The failures that were asked for: the worst of all draws, and their mean."""
    # The fewest tokens a second are the worst, then the least bandwidth.
    worst = max(
        range(len(impacts)),
        key=lambda draw: (-impacts[draw].tokens_per_s, -(impacts[draw].bandwidth_share or 0.0)),
    )
    return ServedScenario(
        text=tuple(text),
        draws=len(damages),
        impact=impacts[worst],
        mean_tokens_per_s=mean(impact.tokens_per_s for impact in impacts),
        mean_throughput_share=mean(impact.throughput_share for impact in impacts),
        stopped=sum(impact.way == "stopped" for impact in impacts),
        cut_off=faults_inputs.names_cut_off(cluster, damages[worst]),
    )
