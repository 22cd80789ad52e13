"""Failures on fabrics, side by side: what breaks, what it costs, what to keep in spare."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import ClassVar, Literal

import numpy as np
from msgspec import Struct

from netplan.catalog import unknown_name
from netplan.costing.fabric_bill import BillBooks
from netplan.costing.switches import SWITCHES, SwitchModel, require_switch
from netplan.costing.wiring import Wiring
from netplan.errors import InputError, NetplanError
from netplan.faults.clusters import stops_by_record
from netplan.faults.damage import Damage, find_effects
from netplan.faults.effects import effect_of, effects_of, searched
from netplan.faults.forecast import (
    SPARED_KINDS,
    CheckpointPolicy,
    ForecastOptions,
    ReliabilityForecast,
    reliability_forecast,
)
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
    single_failures,
    single_parts,
)
from netplan.faults.inventory import Inventory
from netplan.faults.link_parts import bill_wiring
from netplan.faults.rates import (
    FAILURE_BOOKS,
    NETWORK_KINDS,
    FailureBook,
    Unit,
    host_links_each,
    unit_counts,
)
from netplan.faults.recoveries import idle_price, recoveries
from netplan.faults.rerouting import training_loads
from netplan.faults.scenario import read_scenario
from netplan.performance.search import PlanSearch
from netplan.questions.cost import Cost
from netplan.questions.faults_answer import BesideRecord, FabricFaults, FaultsAnswer, ScenarioImpact
from netplan.questions.inputs import CatalogReader
from netplan.questions.plan_notes import rates_note
from netplan.questions.pricing import SwitchQuestion, read_books
from netplan.questions.progress import each
from netplan.questions.question import asks, check_ranges, default_of, optional, several, shared
from netplan.questions.training import TrainingQuestion
from netplan.records import replace
from netplan.topologies.build import build_fabric
from netplan.topologies.fabric import Fabric, Sizing
from netplan.topologies.floor_plan import FLOOR_PLANS, FloorPlan, lay_out
from netplan.topologies.graph import FabricGraph
from netplan.topologies.specs import FABRICS, FabricSpec
from netplan.workloads.accelerators import ACCELERATORS

NAMED = 100
"""GPUs of a scenario that are named; the rest is counted [1]."""
DEFAULT_FABRICS = ("rail-optimized", "rail-only", "dragonfly", "torus-3d")
MINUTES_PER_HOUR = 60.0
CIRCUIT_SWITCH = "palomar"
MAX_DRAWS = 10_000
MAX_YEARS = 1_000_000
RECORD = "llama-3-54-days"
"""Book of one cluster that every forecast is put beside, by cause."""
UNTIMED = dict.fromkeys(("iteration_time_s", "gpus_used", "plan"))
COST_ROLES = frozenset({"accelerator", "prices", "fabric"})
"""Roles of the files that a bill reads, of those of a question about failures."""


class Shared(Struct, frozen=True):
    """What all fabrics of one answer share: their files, and what is asked of them.

    ``specs`` are the files of the fabrics by the names that they were asked for with.
    """

    specs: Mapping[str, FabricSpec]
    sizing: Sizing
    search: PlanSearch | None
    hall: FloorPlan | None
    options: ForecastOptions
    book: FailureBook
    record: FailureBook
    books: BillBooks
    switches_per_rack: int
    circuit: SwitchModel
    replaced: dict[str, object]


@dataclass(frozen=True, kw_only=True)
class Faults(TrainingQuestion[FaultsAnswer], SwitchQuestion[FaultsAnswer]):
    """Put fabrics under failures: what is cut off, how training goes on, what to keep in spare.

    Parts fail by name (rail-0/leaf-3, gpu-5, domain-7, links as exports and cable plans write them:
    gpu-5:1--rail-5/leaf-0:1), by number (links=10, leaf=2), by share (transceiver=0.1%) or from a
    file (@faults.txt), all together. A file @incidents.yaml has modes with weights, of which each
    draw takes one.

    Racks, power feeds, rows, cable trays and own groups fail as a whole in the simulated years too,
    where a floor plan, --gpus-per-rack or a file says what belongs to one.

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

    command: ClassVar[str] = "faults"
    examples: ClassVar[tuple[str, ...]] = (
        "netplan faults --gpus 32768 --radix 128",
        "netplan faults --gpus 16384 --radix 64 --fabric rail-only --fail leaf=1 --fail links=10",
        "netplan faults --gpus 4096 --radix 64 --gpus-per-rack 32 --fail rack=1 --draws 20",
    )

    fail: Sequence[str] = several(
        "Fails: rail-0/leaf-3, links=10, gpu=0.1%, @FILE.", metavar="PART"
    )
    draws: int = optional(
        "Draws of random parts: the worst and the mean.", "whole", default=1, low=1, high=MAX_DRAWS
    )
    fabrics: Sequence[str] = several(
        "Only this fabric (repeatable).", flag="--fabric", otherwise=" ".join(DEFAULT_FABRICS)
    )
    failures: str = shared("Book of failure rates.")
    rates: Literal["low", "base", "high"] = optional(
        "Which end of the book's ranges.",
        "choice",
        choices=("low", "base", "high"),
        default="base",
    )
    prices: str = shared("Price book, for recoveries and the price of an hour.")
    years: int = optional("Years to simulate.", "whole", default=1000, low=1, high=MAX_YEARS)
    seed: int = optional("Seed of all draws.", "whole", default=0, low=0, high=2**64)
    checkpoint_write_minutes: float = optional(
        "Minutes to write a checkpoint.", "real", flag="--checkpoint-write", unit="min", default=1.0
    )
    checkpoint_interval_minutes: float | None = optional(
        "Minutes between two.", "real", flag="--checkpoint-interval", unit="min", otherwise="best"
    )
    restart_minutes: float = optional(
        "Minutes from a failure to computing again.",
        "real",
        flag="--restart",
        unit="min",
        default=10.0,
    )
    service_level: float = optional(
        "Share of the time in which no part may lack a spare.", "percent", default=0.99
    )
    spares: Sequence[str] = several(
        "Spares kept, such as switch=2; the years wait for deliveries beyond them.",
        metavar="PART=N",
    )
    spare_domains: int = optional("Idle HB domains beside the job's.", "whole", default=0, low=0)
    while_down: Literal["go-on", "wait"] = optional(
        "While more domains are down than stand by: go on, or wait.",
        "choice",
        choices=("go-on", "wait"),
        default="go-on",
    )
    floor_plan: str | None = optional("Hall, to fail racks, rows, feeds and trays.")
    gpus_per_rack: int | None = optional("The same without a hall: racks and feeds.", "whole")
    switches_per_rack: int | None = optional(
        "Beside the former.", "whole", low=1, otherwise="as many as on the bill"
    )
    optics_batch: float | None = optional("Of all modules in a batch, as 5%: batch=1.", "percent")
    groups: str | Path | None = optional("Your own risk groups (.csv or .yaml).", "path")
    timing: bool = optional(
        "Leave the iteration times out.", "flag", flag="--no-timing", default=True
    )

    def ask(self) -> FaultsAnswer:
        """Fail single parts, those asked for, and years of them, fabric by fabric."""
        self._check()
        shared = self._shared()
        if self.fail:
            self._check_fail(shared)
        told = each(shared.specs.items(), lambda item: item[1].name)
        rows = [fabric_faults(spec, name, self, shared) for name, spec in told]
        found = tuple(row for row in rows if isinstance(row, FabricFaults))
        refused = tuple(row for row in rows if isinstance(row, tuple))
        if not found:
            raise InputError(f"{refused[0][0]}: {refused[0][1]}")
        if self.fail and all(isinstance(row.scenario, str) for row in found):
            raise InputError(f"--fail on {found[0].name}: {found[0].scenario}")
        prices, sizing, search = shared.books.prices, shared.sizing, shared.search
        inputs = self.inputs(
            hb_size=sizing.hb_size,
            model=self.model if search else None,
            batch=search.training.batch if search else None,
            fabrics=[spec.name for spec in shared.specs.values()],
            switches_per_rack=shared.switches_per_rack if self.gpus_per_rack else None,
            groups=str(self.groups) if self.groups else None,
            link_gbps=sizing.speed_gbps,
            set=shared.replaced,
        )
        lenders = prices.lenders(sizing.speed_gbps)
        return FaultsAnswer(inputs, prices.currency, found, refused, lenders)

    def _shared(self) -> Shared:
        """Read the files, size the cluster, and set up the search for plans."""
        reader = CatalogReader(self.catalog, self.overrides)
        on = reader.load(ACCELERATORS, self.accelerator)
        self.check_tiers(on)
        training = self.training(reader, on, self.gpus)
        power, cabling = (
            str(default_of("cost", name, self.catalog)) for name in ("power", "cabling")
        )
        books = read_books(reader, self.prices, power, cabling)
        books = replace(books, switch=reader.named(SWITCHES, self.switch))
        rack, sizing = books.cabling.racks, self.sized(on)
        specs = {name: reader.load(FABRICS, name) for name in self.fabrics or DEFAULT_FABRICS}
        require_switch(books.switch, [*specs.values()], sizing, reader.roots)
        return Shared(
            specs=specs,
            sizing=sizing,
            search=self.search(training) if self.timing else None,
            hall=reader.named(FLOOR_PLANS, self.floor_plan),
            options=self._forecast(),
            book=reader.load(FAILURE_BOOKS, self.failures),
            record=FAILURE_BOOKS.load(RECORD),
            books=books,
            switches_per_rack=self.switches_per_rack or max(1, rack.units // rack.switch_units),
            circuit=reader.load(SWITCHES, CIRCUIT_SWITCH),
            replaced=reader.replaced(),
        )

    def risk_groups(self, graph: FabricGraph, shared: Shared) -> tuple[RiskGroups, ...]:
        """Racks, batches of optics and the user's own: groups that the fabric does not show."""
        found: tuple[RiskGroups, ...] = ()
        if shared.hall is not None:
            found = hall_risk_groups(graph, racks_of_layout(lay_out(shared.hall, graph), graph))
        elif self.gpus_per_rack is not None:
            racking = racks_by_count(
                graph, gpus_per_rack=self.gpus_per_rack, switches_per_rack=shared.switches_per_rack
            )
            found = hall_risk_groups(graph, racking)
        if self.optics_batch is not None:
            rng = np.random.default_rng(self.seed)
            found = (*found, transceiver_batches(graph, self.optics_batch, rng))
        if self.groups:
            found = (*found, read_risk_groups(Path(self.groups), Inventory(graph, found)))
        return found

    def _check_fail(self, shared: Shared) -> None:
        """Refuse failures that no fabric has, before any is worked out."""
        why = ""
        for spec in shared.specs.values():
            try:
                subject = _subject(spec, self, shared)
            except NetplanError:
                continue
            inventory = _inventory(subject, self, shared)
            try:
                read_scenario(self.fail, inventory)
            except NetplanError as error:
                why = why or f"--fail on {spec.name}: {error}"
            else:
                return
        if why:
            raise InputError(why)

    def _check(self) -> None:
        """Refuse numbers that are out of range."""
        if self.floor_plan and self.gpus_per_rack is not None:
            raise InputError(
                "--floor-plan and --gpus-per-rack both say where racks stand: give one"
            )
        check_ranges(self)
        if not 0 < self.service_level < 1:
            raise InputError(
                f"--service-level {100 * self.service_level:g}% is out of range: give more than 0%"
                " and less than 100%, which would need a spare for every part"
            )
        if self.switches_per_rack is not None and self.gpus_per_rack is None:
            raise InputError("--switches-per-rack without --gpus-per-rack: give both")

    def _forecast(self) -> ForecastOptions:
        """What the years assume."""
        interval = self.checkpoint_interval_minutes
        return ForecastOptions(
            CheckpointPolicy(
                write_h=self.checkpoint_write_minutes / MINUTES_PER_HOUR,
                restart_h=self.restart_minutes / MINUTES_PER_HOUR,
                interval_h=None if interval is None else interval / MINUTES_PER_HOUR,
            ),
            level=self.service_level,
            years=self.years,
            seed=self.seed,
            end=self.rates,
            spares=_spares(self.spares),
            idle_domains=self.spare_domains,
            wait=self.while_down == "wait",
        )

    def yearly_cost(self, fabric: str, spec: FabricSpec, hb_size: int) -> tuple[float | None, bool]:
        """Annuity and energy of a network [currency a year], and whether they are whole.

        None without a bill, and where nothing on it has a price.
        """
        roles = COST_ROLES | {spec.name}
        replaced = (self.overrides or {}).items()
        asked = self.part(
            Cost,
            apart=("spares", "years", "floor_plan"),
            hb_size=hb_size,
            fabrics=(fabric,),
            overrides={key: text for key, text in replaced if key.partition(".")[0] in roles},
        )
        try:
            bill = asked.ask().bills[0]
        except NetplanError:
            return None, False  # its price is not the question here
        whole = bill.complete and not bill.unpowered_apart
        return bill.life.per_year.base if bill.cost else None, whole


faults = asks(Faults)


def fabric_faults(
    spec: FabricSpec, name: str, question: Faults, shared: Shared
) -> FabricFaults | tuple[str, str]:
    """One fabric, asked for by a name, under failures; or its name and why it cannot be built."""
    try:
        subject = _subject(spec, question, shared)
        wiring = bill_wiring(subject.fabric, shared.books)
    except NetplanError as error:
        return spec.name, f"Cannot be built: {error}."
    fabric = subject.fabric
    shared = replace(shared, book=shared.book.placed(fabric.sizing.hb_size))
    inventory = _inventory(subject, question, shared)
    singles, scenario = _failures(subject, inventory, question)
    # With forwarding one GPU has no port of its own.
    forwarding_s = next((one.impact.iteration_time_s for one in singles if one.kind == "nic"), None)
    ways = recoveries(subject, shared.books, shared.circuit, forwarding_s)
    cost, whole = question.yearly_cost(name, spec, shared.sizing.hb_size)
    built = subject, wiring
    years = _years(built, inventory, singles, shared=shared, cost_per_year=cost)
    return FabricFaults(
        name=spec.name,
        title=spec.title,
        switches=fabric.switches,
        links=fabric.link_count,
        transceivers=fabric.transceivers,
        **(subject.intact.best.in_short() if subject.intact else UNTIMED),
        scenario=scenario,
        singles=singles,
        recoveries=ways,
        gpus_cut_off_per_year=years.gpus_cut_off_per_year,
        forecast=years.forecast,
        idle_price=idle_price(subject, shared.books, years.forecast.idle_domains_needed),
        record=years.record,
        network_cost_complete=whole,
        notes=tuple(_notes(subject, years, shared.book)),
        error=subject.intact.best.error if subject.intact else None,
    )


def _subject(spec: FabricSpec, question: Faults, shared: Shared) -> Subject:
    """A fabric to fail; errors if it cannot be built."""
    fabric = build_fabric(spec, shared.sizing)
    # A fabric of several planes has the sizing of one plane; its graph splits ports by itself.
    sizing = replace(shared.sizing, hb_size=fabric.sizing.hb_size)
    return Subject(spec, sizing, fabric, shared.search, question.spare_domains)


def _inventory(subject: Subject, question: Faults, shared: Shared) -> Inventory:
    """Parts of a fabric that fail, with the groups that it does not show."""
    switch, groups = shared.books.switch, question.risk_groups(subject.graph, shared)
    cage = switch.links_per_cage(subject.sizing.speed_gbps) if switch else 2
    return Inventory(subject.graph, groups, cage)


class Years(Struct, frozen=True):
    """What failures do over the years, and beside the record of one cluster."""

    gpus_cut_off_per_year: float
    forecast: ReliabilityForecast
    failing: tuple[GroupFailures, ...]
    record: tuple[BesideRecord, ...]


def _years(
    built: tuple[Subject, Wiring],
    inventory: Inventory,
    singles: Sequence[Single],
    *,
    shared: Shared,
    cost_per_year: float | None,
) -> Years:
    """What failures cost the job over the years, and how many GPUs lose their port in one.

    Failures do in the years what they do alone; that idle domains take over, the years know.
    """
    subject, wiring = built
    slowness, alone = searched(subject), subject.alone
    if subject.spare_domains:
        parts = single_parts(inventory)
        impacts = [impact_of(alone, inventory.damage([one])) for one in parts]
        singles = tuple(single_failures(inventory, zip(parts, impacts, strict=True)))
    failing = group_failures(
        subject.graph,
        inventory.groups,
        shared.book,
        end=shared.options.end,
        effects_of=lambda damages: [effect_of(impact_of(alone, one), slowness) for one in damages],
    )
    units = unit_counts(subject.fabric, wiring)
    book = shared.book.stopping(_survived(subject, singles, shared.book))
    forecast = reliability_forecast(
        subject.fabric,
        book,
        shared.options,
        cost_per_year=cost_per_year,
        effects=effects_of(subject.fabric, units, singles=singles, slowness=slowness),
        groups=failing,
    )
    cut_off = _cut_off_per_year((subject.fabric, wiring), singles, failing, shared)
    record = _beside_record(book, units, failing, shared) if book.name != RECORD else ()
    return Years(cut_off, forecast, failing, record)


def _beside_record(
    book: FailureBook,
    units: Mapping[Unit, int],
    failing: Sequence[GroupFailures],
    shared: Shared,
) -> tuple[BesideRecord, ...]:
    """Interruptions of a year by the causes of one cluster's record, beside its own."""
    stops = stops_by_record(book, units, end=shared.options.end, groups=failing)
    seen = stops_by_record(shared.record, units)
    return tuple(
        BesideRecord(name, stops.get(name, 0.0), seen.get(name, 0.0)) for name in {**stops, **seen}
    )


def _notes(subject: Subject, years: Years, book: FailureBook) -> Iterator[str]:
    """Why nothing is timed, whether the job needs its network or survives it, the fabric's own."""
    untimed = subject.unplanned and f"Not timed: {subject.unplanned}"
    yield from filter(None, (untimed, subject.divided))
    yield from rates_note(subject.intact.settings[0].training) if subject.intact else ()
    if subject.sizing.domains == 1 and subject.fabric.link_count:
        yield "One HB domain holds all GPUs: the job needs no network, whose failures stop nothing."
    elif subject.fabric.link_count and not years.forecast.network_interruptions_per_year:
        yield (
            "Years: no card, link or switch stops a job, since none alone cuts off a GPU; that jobs"
            " go on over the ports that are left is assumed."
        )
    yield from subject.fabric.notes
    yield from (_rate_note(kind, book) for kind in years.failing)


def _rate_note(kind: GroupFailures, book: FailureBook) -> str:
    """How often a kind of groups fails in the years, and how sure the book is."""
    assumed = ", an assumption" if kind.row.source.startswith("Assumption") else ""
    return (
        f"Years: {kind.count:,} of {kind.name!r} fail as a whole,"
        f" {kind.failures_per_year:g} times a year together (failures {book.name},"
        f" {kind.row.confidence} confidence{assumed})."
    )


def _failures(
    subject: Subject, inventory: Inventory, question: Faults
) -> tuple[tuple[Single, ...], ScenarioImpact | str | None]:
    """One failure of each kind, and the failures that were asked for.

    A text says why these cannot happen on this fabric, such as a failed leaf on a torus.
    """
    parts = single_parts(inventory)
    damages = [inventory.damage([one]) for one in parts]
    asked, why = [], None
    if question.fail:
        try:
            asked = _drawn(inventory, question)
        except NetplanError as error:
            why = str(error)
    impacts = [impact_of(subject, damage) for damage in (*damages, *asked)]
    found = _scenario(subject, asked, impacts[len(parts) :], question) if asked else why
    return tuple(single_failures(inventory, zip(parts, impacts, strict=False))), found


def _drawn(inventory: Inventory, question: Faults) -> list[Damage]:
    """The failures that were asked for, drawn as often as they are random."""
    scenario = read_scenario(question.fail, inventory)
    rng = np.random.default_rng(question.seed)
    return [scenario.damage(rng) for _ in range(question.draws if scenario.random else 1)]


def _scenario(
    subject: Subject, damages: Sequence[Damage], impacts: Sequence[Impact], question: Faults
) -> ScenarioImpact:
    """The failures that were asked for: the worst of all draws, and their mean."""
    draws = len(damages)
    at = max(range(draws), key=lambda draw: _badness(impacts[draw]))
    effects = find_effects(subject.graph, damages[at])
    gone = np.concatenate([effects.gpus_down, effects.cut_off])[:NAMED]
    loads = None
    if subject.traffic is not None:
        loads = training_loads(subject.graph, damages[at], subject.traffic, cuts=subject.cuts)
    return ScenarioImpact(
        text=tuple(question.fail),
        draws=draws,
        impact=impacts[at],
        mean_iteration_time_s=_mean(found.iteration_time_s for found in impacts),
        mean_slowdown=_mean(found.slowdown for found in impacts),
        mean_worst_bandwidth_share=_mean(found.bandwidth_share for found in impacts),
        stopped=sum(found.way == "stopped" for found in impacts),
        cut_off=tuple(subject.graph.node_name(gpu) for gpu in gone.tolist()),
        loads=loads,
    )


def _mean(values: Iterable[float | None]) -> float | None:
    """Mean of the values that there are; None without any."""
    known = [value for value in values if value is not None]
    return mean(known) if known else None


def _badness(impact: Impact) -> tuple[bool, float, float]:
    """Order of impacts: those that stop the job, then the slowest, then the least bandwidth."""
    return impact.way == "stopped", impact.iteration_time_s or 0.0, -(impact.bandwidth_share or 0.0)


KIND_OF_UNIT: Mapping[Unit, str] = {
    "nic_port": "nic",
    "host_link": "host",
    "host_transceiver": "host",
    "host_fibre": "host",
    "host_copper_cable": "host",
    "leaf_switch": "leaf",
}
"""Kind of part whose single failure shows what a unit of the failure book does."""


def _survived(subject: Subject, singles: Sequence[Single], book: FailureBook) -> frozenset[Unit]:
    """Units whose failure stops no job: it cuts off no GPU, or the job needs no network."""
    cut_off = {one.kind: one.impact.gpus_cut_off for one in singles}
    survived = frozenset(one for one, kind in KIND_OF_UNIT.items() if cut_off.get(kind) == 0)
    if subject.sizing.domains == 1:
        survived |= {row.unit for row in book.rates if row.kind in NETWORK_KINDS}
    return survived


def _cut_off_per_year(
    built: tuple[Fabric, Wiring],
    singles: Sequence[Single],
    failing: Sequence[GroupFailures],
    shared: Shared,
) -> float:
    """GPUs that lose their port in a year: links, leaves and groups times whom each cuts off."""
    cut_off = {one.kind: one.impact.gpus_cut_off for one in singles}
    units, links = unit_counts(*built), host_links_each(*built)
    alone = sum(
        row.rate_per_year.at(shared.options.end)
        * row.count_in(units)
        * links.get(row.unit, 1.0)
        * cut_off.get(KIND_OF_UNIT.get(row.unit, ""), 0)
        for row in shared.book.rates
        if row.unit != "nic_port"
    )
    return alone + sum(kind.gpus_cut_off_per_year for kind in failing)


def _spares(texts: Sequence[str]) -> dict[str, int]:
    """Read ``switch=2`` texts of parts that spares are kept of."""
    found = {}
    for text in texts:
        kind, _, number = (part.strip() for part in text.partition("="))
        if not number.isdecimal():
            raise InputError(f"--spares {text!r}: write a part and a number, such as switch=2")
        if kind not in SPARED_KINDS:
            raise unknown_name("kind of spares", kind, SPARED_KINDS)
        found[kind] = int(number)
    return found
