"""One fabric under failures: single ones, those that were asked for, and years of them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean

import numpy as np

from netplan.costing.fabric_bill import BillBooks
from netplan.costing.switches import SwitchModel
from netplan.errors import InputError, NetplanError
from netplan.faults.damage import find_effects
from netplan.faults.forecast import ForecastOptions, reliability_forecast
from netplan.faults.group_failures import GroupFailures, group_failures
from netplan.faults.group_files import read_risk_groups
from netplan.faults.groups import (
    RiskGroups,
    hall_risk_groups,
    racks_by_count,
    racks_of_layout,
    transceiver_batches,
)
from netplan.faults.impact import (
    Impact,
    Single,
    Subject,
    impact_of,
    pod_shares,
    recoveries,
    single_failures,
)
from netplan.faults.inventory import Inventory
from netplan.faults.rates import FailureBook, Unit, unit_counts
from netplan.faults.rerouting import training_loads
from netplan.faults.scenario import read_scenario
from netplan.performance.search import PlanSearch
from netplan.questions.faults_answer import FabricFaults, ScenarioImpact
from netplan.topologies.build import build_fabric
from netplan.topologies.fabric import Sizing
from netplan.topologies.floor_plan import FloorPlan, lay_out
from netplan.topologies.specs import FabricSpec
from netplan.traffic.matrix import TrafficMatrix
from netplan.traffic.training import Patterns, training_traffic

NAMED = 100
"""GPUs of a scenario that are named; the rest is counted [1]."""


@dataclass(frozen=True, slots=True)
class Racks:
    """Where racks stand, as far as anybody says, batches of optics, groups of the user's own."""

    hall: FloorPlan | None
    gpus_per_rack: int | None
    switches_per_rack: int
    file: Path | None
    batch_share: float | None = None
    seed: int = 0

    def groups(self, subject: Subject) -> tuple[RiskGroups, ...]:
        """Risk groups beyond those that the fabric itself shows."""
        graph = subject.graph
        found: tuple[RiskGroups, ...] = ()
        if self.hall is not None:
            found = hall_risk_groups(graph, racks_of_layout(lay_out(self.hall, graph), graph))
        elif self.gpus_per_rack is not None:
            racking = racks_by_count(
                graph, gpus_per_rack=self.gpus_per_rack, switches_per_rack=self.switches_per_rack
            )
            found = hall_risk_groups(graph, racking)
        if self.batch_share is not None:
            rng = np.random.default_rng(self.seed)
            found = (*found, transceiver_batches(graph, self.batch_share, rng))
        if self.file is not None:
            found = (*found, read_risk_groups(self.file, Inventory(graph, found)))
        return found


@dataclass(frozen=True, slots=True)
class FabricQuestion:
    """All that the fabrics of one answer share."""

    sizing: Sizing
    search: PlanSearch | None
    spare_domains: int
    racks: Racks
    fail: tuple[str, ...]
    draws: int
    options: ForecastOptions
    book: FailureBook
    books: BillBooks
    circuit: SwitchModel
    yearly: Mapping[str, float]


PATTERNS = Patterns(tensor="hierarchical", context="hierarchical", data="hierarchical")
"""Pairs of GPUs that collectives use, as in `netplan.loads`."""


def training_matrix(subject: Subject) -> TrafficMatrix | None:
    """Traffic of one iteration of the best plan; None if nothing is trained or GPUs are idle."""
    found, fabric = subject.intact, subject.fabric
    if found is None or fabric.sizing.full_domains * fabric.sizing.hb_size != subject.sizing.gpus:
        return None
    plan = found.plans[0].plan
    if plan.gpus != subject.sizing.gpus:
        return None
    setting = next(one for one in found.settings if one.strategy == found.plans[0].strategy)
    try:
        return training_traffic(
            setting.program(plan.sharding),
            plan.placement,
            gpus=subject.sizing.gpus,
            microbatches=plan.microbatches,
            interleave=plan.interleave,
            patterns=PATTERNS,
        )
    except InputError:
        return None  # such as layers that the stages do not divide


def fabric_faults(spec: FabricSpec, question: FabricQuestion) -> FabricFaults | tuple[str, str]:
    """One fabric under failures, or its name and why it cannot be built."""
    try:
        fabric = build_fabric(spec, question.sizing)
    except InputError as error:
        return spec.name, f"Cannot be built: {error}."
    # A fabric of several planes has the sizing of one plane; its graph splits ports by itself.
    sizing = replace(question.sizing, hb_size=fabric.sizing.hb_size)
    subject = Subject(spec, sizing, fabric, question.search, question.spare_domains)
    groups = question.racks.groups(subject)
    inventory = Inventory(subject.graph, groups)
    failing = group_failures(subject.graph, groups, question.book, end=question.options.end)
    singles = tuple(single_failures(subject, inventory))
    intact = subject.intact
    return FabricFaults(
        name=spec.name,
        title=spec.title,
        switches=fabric.switches,
        links=fabric.link_count,
        transceivers=fabric.transceivers,
        iteration_time_s=intact.plans[0].iteration_time_s if intact else None,
        scenario=_scenario(subject, inventory, question),
        singles=singles,
        recoveries=recoveries(subject, question.books, question.circuit, _forwarding_s(singles)),
        gpus_cut_off_per_year=_cut_off_per_year(subject, singles, question)
        + sum(kind.gpus_cut_off_per_year for kind in failing),
        forecast=reliability_forecast(
            fabric,
            question.book,
            question.options,
            cost_per_year=question.yearly.get(spec.name),
            survived=_survived(singles),
            groups=failing,
        ),
        notes=(*fabric.notes, *(_rate_note(kind, question.book) for kind in failing)),
    )


def _rate_note(kind: GroupFailures, book: FailureBook) -> str:
    """How often a kind of groups fails in the years, and how sure the book is."""
    assumed = ", an assumption" if kind.row.source.startswith("Assumption") else ""
    return (
        f"Years: {len(kind.groups):,} of {kind.groups.kind!r} fail as a whole,"
        f" {kind.failures_per_year:g} times a year together (failures {book.name},"
        f" {kind.row.confidence} confidence{assumed})."
    )


def _scenario(
    subject: Subject, inventory: Inventory, question: FabricQuestion
) -> ScenarioImpact | str | None:
    """The failures that were asked for; with random ones the worst of all draws, and their mean.

    A text says why they cannot happen on this fabric, such as a failed leaf on a torus.
    """
    if not question.fail:
        return None
    try:
        scenario = read_scenario(question.fail, inventory)
    except NetplanError as error:
        return str(error)
    draws = question.draws if scenario.random else 1
    rng = np.random.default_rng(question.options.seed)
    damages = [scenario.damage(rng) for _ in range(draws)]
    shares = pod_shares(subject, damages)
    impacts = [impact_of(subject, *pair) for pair in zip(damages, shares, strict=True)]
    times = [found.iteration_time_s for found in impacts if found.iteration_time_s is not None]
    at = max(range(draws), key=lambda draw: _badness(impacts[draw]))
    effects = find_effects(subject.graph, damages[at])
    gone = np.concatenate([effects.gpus_down, effects.cut_off])[:NAMED]
    matrix = training_matrix(subject)
    return ScenarioImpact(
        text=question.fail,
        draws=draws,
        impact=impacts[at],
        mean_iteration_time_s=mean(times) if times else None,
        stopped=sum(found.way == "stopped" for found in impacts),
        cut_off=tuple(subject.graph.node_name(gpu) for gpu in gone.tolist()),
        loads=None if matrix is None else training_loads(subject.graph, damages[at], matrix),
    )


def _badness(impact: Impact) -> tuple[bool, float, float]:
    """Order of impacts: those that stop the job, then the slowest, then the least bandwidth."""
    return impact.way == "stopped", impact.iteration_time_s or 0.0, -impact.bandwidth_share


KIND_OF_UNIT: Mapping[Unit, str] = {
    "nic_port": "nic",
    "host_link": "host",
    "leaf_switch": "leaf",
    "switch": "leaf",
}
"""Kind of part whose single failure shows what a unit of the failure book does."""


def _survived(singles: tuple[Single, ...]) -> frozenset[Unit]:
    """Units whose failure cuts off no GPU: those of designs with several planes."""
    cut_off = {one.kind: one.impact.gpus_cut_off for one in singles}
    return frozenset(unit for unit, kind in KIND_OF_UNIT.items() if cut_off.get(kind) == 0)


def _cut_off_per_year(
    subject: Subject, singles: tuple[Single, ...], question: FabricQuestion
) -> float:
    """GPUs that lose their port in a year: failed links and leaves times whom each cuts off."""
    units = unit_counts(subject.fabric)
    cut_off = {one.kind: one.impact.gpus_cut_off for one in singles}
    return sum(
        float(getattr(row.rate_per_year, question.options.end))
        * row.count_in(units)
        * cut_off.get(KIND_OF_UNIT.get(row.unit, ""), 0)
        for row in question.book.rates
        if row.unit != "nic_port"
    )


def _forwarding_s(singles: tuple[Single, ...]) -> float | None:
    """Iteration time while one GPU has no port of its own [s]."""
    return next((one.impact.iteration_time_s for one in singles if one.kind == "nic"), None)
