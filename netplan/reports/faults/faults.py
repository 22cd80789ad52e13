"""Failures on fabrics, side by side: what breaks, what it costs, what to keep in spare."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Literal

import numpy as np

from netplan.costing.failures import FAILURE_BOOKS, FailureBook, Unit, unit_counts
from netplan.costing.prices import PRICE_BOOKS, PriceBook
from netplan.costing.switches import SWITCHES, SwitchModel
from netplan.errors import InputError, NetplanError
from netplan.performance.iteration_model import ITERATION_MODELS
from netplan.performance.training import Training
from netplan.reports.cost import cost
from netplan.reports.faults.answer import FabricFaults, FaultsAnswer, ScenarioImpact
from netplan.reports.faults.impact import Impact, Subject, impact_of, pod_shares
from netplan.reports.faults.outlook import Habits, outlook_of
from netplan.reports.faults.recovery import recoveries
from netplan.reports.faults.single import Single, single_failures
from netplan.reports.inputs import CatalogReader, sizing_on
from netplan.topologies.build import build_fabric
from netplan.topologies.fabric import Sizing
from netplan.topologies.faults.group_files import read_risk_groups
from netplan.topologies.faults.rack_groups import (
    hall_risk_groups,
    racks_by_count,
    racks_of_layout,
)
from netplan.topologies.faults.risk_groups import RiskGroups
from netplan.topologies.faults.scenario import read_scenario
from netplan.topologies.faults.stock import Stock
from netplan.topologies.floor_plan import FLOOR_PLANS, FloorPlan, lay_out
from netplan.topologies.specs import FABRICS, FabricSpec
from netplan.traffic.accelerators import ACCELERATORS
from netplan.traffic.models import MODELS

DEFAULT_FABRICS = ("rail-optimized", "rail-only", "dragonfly", "torus-3d")
MINUTES_PER_HOUR = 60.0
CIRCUIT_SWITCH = "palomar"
MAX_DRAWS = 10_000


def faults(  # noqa: PLR0913 - one keyword an input, as on the command line
    *,
    gpus: int,
    radix: int,
    fail: Sequence[str] = (),
    draws: int = 1,
    hb_size: int | None = None,
    model: str = "gpt-1t",
    accelerator: str = "gh200-96gb",
    batch: int | None = None,
    fabrics: Sequence[str] = (),
    oversubscription: float | None = None,
    iteration_model: str = "ptd-p",
    failures: str = "2026",
    rates: Literal["low", "base", "high"] = "base",
    prices: str = "2026",
    years: int = 1000,
    seed: int = 0,
    checkpoint_write_minutes: float = 1.0,
    checkpoint_interval_minutes: float | None = None,
    restart_minutes: float = 10.0,
    service_level: float = 0.99,
    spare_domains: int = 0,
    floor_plan: str | None = None,
    gpus_per_rack: int | None = None,
    switches_per_rack: int = 16,
    groups: str | Path | None = None,
    timing: bool = True,
    catalog: str | Path | None = None,
    overrides: Mapping[str, str] | None = None,
) -> FaultsAnswer:
    """Put fabrics under failures: single ones, those asked for, and years of them.

    Parameters
    ----------
    gpus, radix, hb_size, model, accelerator, batch, fabrics, oversubscription, iteration_model
        As in :func:`netplan.compare`.
    fail
        Parts that fail together: by name (``rail-0/leaf-3``), by number (``links=10``), by share
        (``gpu=0.1%``), or from a file (``@faults.txt``).
    draws
        How often the random ones are drawn [1].
    failures, rates
        Book of failure rates, and which end of its ranges counts.
    prices
        Price book, for recoveries and the price of an hour.
    years, seed
        Years to simulate [1], and the seed of all draws.
    checkpoint_write_minutes, checkpoint_interval_minutes, restart_minutes
        How the job saves its work; the best interval if absent [min].
    service_level
        Share of the time in which no part may lack a spare, above 0 and below 1 [1].
    spare_domains
        Idle HB domains beside the job's [1].
    floor_plan, gpus_per_rack, switches_per_rack
        Where racks stand, or what one holds [1]: needed to fail racks, rows, feeds or trays.
    groups
        File with risk groups of the user's own.
    timing
        Whether to search the best plan on what is left.
    catalog, overrides
        As in :func:`netplan.compare`.

    Raises
    ------
    NetplanError
        If an input is not allowed; the message says what is.

    Examples
    --------
    >>> answer = faults(gpus=1024, radix=64, hb_size=8, fail=["leaf=1"], years=50,
    ...                 model="gpt-22b", batch=1024, fabrics=("rail-only", "rail-optimized"))
    >>> [(one.name, one.scenario.impact.gpus_cut_off) for one in answer.fabrics]
    [('rail-only', 32), ('rail-optimized', 32)]
    """
    reader = CatalogReader(catalog, overrides)
    on, trained = reader.load(ACCELERATORS, accelerator), reader.load(MODELS, model)
    assumptions = reader.load(ITERATION_MODELS, iteration_model)
    book, priced = reader.load(FAILURE_BOOKS, failures), reader.load(PRICE_BOOKS, prices)
    specs = [reader.load(FABRICS, name) for name in fabrics or DEFAULT_FABRICS]
    hall = reader.load(FLOOR_PLANS, floor_plan) if floor_plan else None
    circuit = reader.load(SWITCHES, CIRCUIT_SWITCH)
    sizing = sizing_on(
        on, gpus=gpus, radix=radix, hb_size=hb_size, oversubscription=oversubscription
    )
    training = Training.on(on, trained, assumptions, batch=batch) if timing else None
    _check(draws, spare_domains)
    habits = Habits(
        write_h=checkpoint_write_minutes / MINUTES_PER_HOUR,
        restart_h=restart_minutes / MINUTES_PER_HOUR,
        interval_h=None
        if checkpoint_interval_minutes is None
        else checkpoint_interval_minutes / MINUTES_PER_HOUR,
        level=service_level,
        years=years,
        seed=seed,
        end=rates,
    )
    inputs = {
        "gpus": gpus,
        "radix": radix,
        "hb_size": sizing.hb_size,
        "fail": list(fail),
        "draws": draws,
        "model": model if timing else None,
        "accelerator": accelerator,
        "batch": training.batch if training else None,
        "fabrics": [spec.name for spec in specs],
        "oversubscription": oversubscription,
        "iteration_model": iteration_model,
        "failures": failures,
        "rates": rates,
        "prices": prices,
        "years": years,
        "seed": seed,
        "checkpoint_write_minutes": checkpoint_write_minutes,
        "checkpoint_interval_minutes": checkpoint_interval_minutes,
        "restart_minutes": restart_minutes,
        "service_level": service_level,
        "spare_domains": spare_domains,
        "floor_plan": floor_plan,
        "gpus_per_rack": gpus_per_rack,
        "switches_per_rack": switches_per_rack if gpus_per_rack else None,
        "groups": str(groups) if groups else None,
        "link_gbps": sizing.speed_gbps,
        "set": reader.replaced(),
    }
    question = _Question(
        sizing=sizing,
        training=training,
        spare_domains=spare_domains,
        racks=_Racks(hall, gpus_per_rack, switches_per_rack, Path(groups) if groups else None),
        fail=tuple(fail),
        draws=draws,
        habits=habits,
        book=book,
        prices=priced,
        circuit=circuit,
        yearly=_yearly_costs(sizing, accelerator, fabrics or DEFAULT_FABRICS, prices, catalog),
    )
    rows = [_one(spec, question) for spec in specs]
    found = tuple(row for row in rows if isinstance(row, FabricFaults))
    refused = tuple(row for row in rows if isinstance(row, tuple))
    if not found:
        raise InputError(f"{refused[0][0]}: {refused[0][1]}")
    if fail and all(isinstance(row.scenario, str) for row in found):
        raise InputError(f"--fail: {found[0].scenario}")
    return FaultsAnswer(inputs, priced.currency, found, refused)


@dataclass(frozen=True, slots=True)
class _Racks:
    """Where racks stand, as far as anybody says, and groups of the user's own."""

    hall: FloorPlan | None
    gpus_per_rack: int | None
    switches_per_rack: int
    file: Path | None

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
        if self.file is not None:
            found = (*found, read_risk_groups(self.file, Stock(graph, found)))
        return found


@dataclass(frozen=True, slots=True)
class _Question:
    """All that the fabrics of one answer share."""

    sizing: Sizing
    training: Training | None
    spare_domains: int
    racks: _Racks
    fail: tuple[str, ...]
    draws: int
    habits: Habits
    book: FailureBook
    prices: PriceBook
    circuit: SwitchModel
    yearly: Mapping[str, float]


def _one(spec: FabricSpec, question: _Question) -> FabricFaults | tuple[str, str]:
    """One fabric under failures, or its name and why it cannot be built."""
    try:
        fabric = build_fabric(spec, question.sizing)
    except InputError as error:
        return spec.name, f"Cannot be built: {error}."
    # The sizing of the graph is the question's: the spec puts its own HB domain into both.
    subject = Subject(
        spec, fabric.sizing, fabric, question.training, spare_domains=question.spare_domains
    )
    stock = Stock(subject.graph, question.racks.groups(subject))
    singles = tuple(single_failures(subject, stock))
    intact = subject.intact
    return FabricFaults(
        name=spec.name,
        title=spec.title,
        switches=fabric.switches,
        links=fabric.link_count,
        transceivers=fabric.transceivers,
        iteration_time_s=intact.plans[0].iteration_time_s if intact else None,
        scenario=_scenario(subject, stock, question),
        singles=singles,
        recoveries=recoveries(subject, question.prices, question.circuit, _forwarding_s(singles)),
        gpus_cut_off_per_year=_cut_off_per_year(subject, singles, question),
        outlook=outlook_of(
            fabric,
            question.book,
            question.habits,
            cost_per_year=question.yearly.get(spec.name),
            survived=_survived(singles),
        ),
        notes=tuple(fabric.notes),
    )


def _scenario(subject: Subject, stock: Stock, question: _Question) -> ScenarioImpact | str | None:
    """The failures that were asked for; with random ones the worst of all draws, and their mean.

    A text says why they cannot happen on this fabric, such as a failed leaf on a torus.
    """
    if not question.fail:
        return None
    try:
        scenario = read_scenario(question.fail, stock)
    except NetplanError as error:
        return str(error)
    draws = question.draws if scenario.draws else 1
    rng = np.random.default_rng(question.habits.seed)
    damages = [scenario.damage(rng) for _ in range(draws)]
    shares = pod_shares(subject, damages)
    impacts = [impact_of(subject, *pair) for pair in zip(damages, shares, strict=True)]
    times = [found.iteration_time_s for found in impacts if found.iteration_time_s is not None]
    worst = max(impacts, key=_badness)
    return ScenarioImpact(
        text=question.fail,
        draws=draws,
        impact=worst,
        mean_iteration_time_s=mean(times) if times else None,
        stopped=sum(found.way == "stopped" for found in impacts),
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


def _cut_off_per_year(subject: Subject, singles: tuple[Single, ...], question: _Question) -> float:
    """GPUs that lose their port in a year: failed links and leaves times whom each cuts off."""
    units = unit_counts(subject.fabric)
    cut_off = {one.kind: one.impact.gpus_cut_off for one in singles}
    return sum(
        float(getattr(row.rate_per_year, question.habits.end))
        * row.count_in(units)
        * cut_off.get(KIND_OF_UNIT.get(row.unit, ""), 0)
        for row in question.book.rates
        if row.unit != "nic_port"
    )


def _forwarding_s(singles: tuple[Single, ...]) -> float | None:
    """Iteration time while one GPU has no port of its own [s]."""
    return next((one.impact.iteration_time_s for one in singles if one.kind == "nic"), None)


def _yearly_costs(
    sizing: Sizing,
    accelerator: str,
    fabrics: Sequence[str],
    prices: str,
    catalog: str | Path | None,
) -> dict[str, float]:
    """Annuity and energy of each network that has a bill [currency a year]."""
    found: dict[str, float] = {}
    for fabric in fabrics:
        try:
            answer = cost(
                gpus=sizing.gpus,
                radix=sizing.radix,
                hb_size=sizing.hb_size,
                accelerator=accelerator,
                fabrics=(fabric,),
                prices=prices,
                catalog=catalog,
            )
        except NetplanError:
            continue  # its price is not the question here
        found |= {bill.name: bill.life.per_year.base for bill in answer.bills}
    return found


def _check(draws: int, spare_domains: int) -> None:
    if not 1 <= draws <= MAX_DRAWS:
        raise InputError(f"--draws {draws:,} is out of range: give 1 to {MAX_DRAWS:,}")
    if spare_domains < 0:
        raise InputError(f"--spare-domains {spare_domains}: give 0 or more")
