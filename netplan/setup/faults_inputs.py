"""What is asked of failures: which parts fail, which books, spares; and fabrics that fail."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar, get_args

import numpy as np
from msgspec import Struct

from netplan.arrays import Ints
from netplan.catalog import unknown_name
from netplan.costing.fabric_bill import BillBooks, RefusedFabric
from netplan.costing.long_haul import LONG_HAUL_BOOK, LONG_HAUL_BOOKS
from netplan.costing.ranges import Range
from netplan.costing.switches import SWITCHES, SwitchModel, check_circuit, require_switch
from netplan.errors import InputError, NetplanError
from netplan.faults.damage import groups as risks
from netplan.faults.damage.damage import Damage, find_effects
from netplan.faults.damage.impact import Single, Subject, single_failures, single_parts
from netplan.faults.damage.inventory import Inventory, Parts
from netplan.faults.damage.scenario import read_risk_groups, read_scenario
from netplan.faults.years.forecast import SPARED_KINDS, CheckpointPolicy, ForecastOptions
from netplan.faults.years.group_failures import GroupFailures
from netplan.faults.years.policies import GO_ON, REPLACE
from netplan.faults.years.rates import FAILURE_BOOKS, FailureBook
from netplan.faults.years.recovery_presets import RECOVERY_PRESETS, RecoveryPreset
from netplan.inputs.choices import AfterFailure
from netplan.inputs.readers import digits
from netplan.performance.iteration_model import OPTIMIZER_BYTES
from netplan.performance.search import PlanSearch
from netplan.performance.setting import TrainedModel
from netplan.progress import with_progress
from netplan.records import replace
from netplan.scenarios.bill_books import read_books, site_networks
from netplan.scenarios.reading import CatalogReader, sized
from netplan.setup.inputs import fabrics_asked
from netplan.setup.own_inputs import list_field, option_field
from netplan.setup.question import (
    FAILING,
    FOUND,
    NETWORK,
    RUNS,
    SPAN,
    WEIGHED,
    AnswerT_co,
    Question,
)
from netplan.setup.training import check_tiers, plan_search, read_chip, read_training
from netplan.topologies.build import build_fabric
from netplan.topologies.cabling.floor_plan import FloorPlan, lay_out
from netplan.topologies.fabric import Sizing
from netplan.topologies.graph import FabricGraph
from netplan.topologies.site_networks import SITE_NETWORKS
from netplan.topologies.specs import FabricSpec
from netplan.units import MINUTES_PER_HOUR, SECONDS_PER_MINUTE
from netplan.workloads.models import Model
from netplan.workloads.operations import ELEMENT_BYTES
from netplan.workloads.parameters import parameter_count

NAMED = 100
"""GPUs of a scenario that are named; the rest is counted [1]."""
DEFAULT_FABRICS = ("rail-optimized", "rail-only", "dragonfly", "torus-3d")
CIRCUIT_SWITCH = "palomar"
MAX_DRAWS = 10_000
MAX_YEARS = 1_000_000
USUAL_YEARS, LEAST_YEARS = 1000, 100
"""Years that are simulated where nobody says how many, and of very many GPUs [1]."""
FULL_GPUS = 131_072
"""GPUs up to which they are as many: of twice as many, half of them sees the same failures [1]."""
MOST_BAD = 0.25
"""Most servers that can be told apart as bad [1]."""
OF_TRAINING = frozenset(
    {"recovery", "checkpoint_write_minutes", "checkpoint_interval_minutes"}
    | {"while_down", "timing"}
    | {"spares", "years", "policy", "block_gpus", "spare_gpus", "ocs"}
)
"""Inputs that mean nothing for serving, of those about failures."""
RECORD = "llama-3-54-days"
"""Book of one cluster that every forecast is put beside, by cause."""


class Shared(Struct, frozen=True):
    """What all fabrics of one answer share: their files, and what is asked of them.

    ``specs`` are the files of the fabrics by the names that they were asked for with; ``recovery``
    is None where nothing trains.
    """

    specs: Mapping[str, FabricSpec]
    sizing: Sizing
    search: PlanSearch | None
    hall: FloorPlan | None
    recovery: RecoveryPreset | None
    options: ForecastOptions
    book: FailureBook
    record: FailureBook
    books: BillBooks
    switches_per_rack: int
    circuit: SwitchModel
    replaced: dict[str, object]


@dataclass(frozen=True, kw_only=True)
class FaultsQuestion(Question[AnswerT_co]):
    """Inputs of a question about failures."""

    reads: ClassVar[frozenset[str]] = (
        NETWORK
        | RUNS
        | FAILING
        | FOUND
        | {"switch", "fabrics", "hall", "cards", "expanded_memory", "ocs"}
        | {"gpus_per_rack", "switches_per_rack", "spare_domains", "spare_gpus"}
        | {"prices", "networks"}
        | SPAN
    )
    reads_from: ClassVar[frozenset[str]] = WEIGHED
    older: ClassVar[Mapping[str, str]] = {"circuit_switch": "ocs"}

    fail: Sequence[str] = list_field(
        "Fails: rail-0/leaf-3, links=10, gpu=0.1%, @FILE; fibre of sites: site-1:site-2.",
        metavar="PART",
    )
    draws: int = option_field(
        "Draws of random parts: the worst and the mean.", "whole", default=1, low=1, high=MAX_DRAWS
    )
    years: int | None = option_field(
        "Years to simulate.", "whole", low=1, high=MAX_YEARS, otherwise=f"to {USUAL_YEARS}, by GPUs"
    )
    seed: int = option_field("Seed of all draws.", "whole", default=0, low=0, high=2**64)
    service_level: float = option_field(
        "Time in which no part may lack a spare.", "percent", default=0.99
    )
    spares: Sequence[str] = list_field(
        "Spares kept, as switch=2; years wait beyond them.", metavar="PART=N"
    )
    while_down: Literal["go-on", "wait"] = option_field(
        "More domains down than stand by: go on, or wait.",
        "choice",
        choices=("go-on", "wait"),
        default="go-on",
    )
    policy: AfterFailure = option_field(
        "After a failed GPU.", "choice", choices=get_args(AfterFailure), default=GO_ON
    )
    block_gpus: int | None = option_field(
        "GPUs that policy replace moves as a whole.",
        "whole",
        low=1,
        otherwise="the domain, or a server of it",
    )
    optics_batch: float | None = option_field(
        "Of all modules in a batch, as 5%: batch=1.", "percent"
    )
    groups: str | Path | None = option_field("Your own risk groups (.csv or .yaml).", "path")
    timing: bool = option_field(
        "Leave the iteration times out.", "flag", flag="--no-timing", default=True
    )

    @property
    def weighed_fabrics(self) -> Sequence[str]:
        """Fabrics that are asked for."""
        return fabrics_asked(self, DEFAULT_FABRICS)


def read_shared(asked: FaultsQuestion[Any]) -> Shared:
    """Read the files, size the cluster, and set up the search for plans."""
    reader = asked.reader()
    on, training = read_chip(asked, reader), None
    if asked.trains:
        check_tiers(asked, on)
        training = read_training(asked, reader, on, asked.cluster.gpus)
    books = read_books(asked.cluster, asked.books, reader)
    if asked.cluster.span.sites is not None:
        reader.load(LONG_HAUL_BOOKS, LONG_HAUL_BOOK)  # of cuts, whose values may be replaced
    books = replace(books, switch=reader.named(SWITCHES, asked.cluster.switch))
    rack, sizing = books.cabling.racks, sized(asked.cluster, on)
    circuit = check_circuit(reader.circuit_switch(asked.cluster.ocs or CIRCUIT_SWITCH))
    names = fabrics_asked(asked, DEFAULT_FABRICS)
    recovery = None
    if asked.trains:
        recovery = reader.load(RECOVERY_PRESETS, asked.training.checkpoints.recovery)
    specs = dict(zip(names, reader.fabrics(names, asked.cluster), strict=True))
    require_switch(books.switch, [*specs.values()], sizing, reader.roots)
    return Shared(
        specs=specs,
        sizing=sizing,
        search=plan_search(asked, training) if training and asked.timing else None,
        hall=books.hall
        if asked.cluster.gpus_per_rack is None
        and (books.hall is not None and ("hall" in asked.given or not books.hall.by_rule))
        else None,
        recovery=recovery,
        options=_forecast(asked, recovery, _storage_s(asked, reader, training)),
        book=reader.load(FAILURE_BOOKS, asked.books.failures),
        record=FAILURE_BOOKS.load(RECORD),
        books=books,
        switches_per_rack=asked.cluster.switches_per_rack
        or max(1, rack.units // (rack.switch_units + rack.cable_units)),
        circuit=circuit,
        replaced=reader.replaced(),
    )


def risk_groups(
    asked: FaultsQuestion[Any], graph: FabricGraph, shared: Shared
) -> tuple[risks.RiskGroups, ...]:
    """Racks, batches of optics and the user's own: groups that the fabric does not show."""
    groups: tuple[risks.RiskGroups, ...] = ()
    if shared.hall is not None:
        groups = risks.hall_risk_groups(
            graph, risks.racks_of_layout(lay_out(shared.hall, graph), graph)
        )
    elif asked.cluster.gpus_per_rack is not None:
        racking = risks.racks_by_count(
            graph,
            gpus_per_rack=asked.cluster.gpus_per_rack,
            switches_per_rack=shared.switches_per_rack,
        )
        groups = risks.hall_risk_groups(graph, racking)
    if asked.optics_batch is not None:
        rng = np.random.default_rng(asked.seed)
        groups = (*groups, risks.transceiver_batches(graph, asked.optics_batch, rng))
    if asked.groups:
        groups = (*groups, read_risk_groups(Path(asked.groups), Inventory(graph, groups)))
    return groups


def check_fail(asked: FaultsQuestion[Any], shared: Shared) -> None:
    """Refuse failures that no fabric has, before any is worked out."""
    why = ""
    for spec in shared.specs.values():
        try:
            subject = subject_of(spec, asked, shared)
        except NetplanError:
            continue
        inventory = inventory_of(subject, asked, shared)
        try:
            read_scenario(asked.fail, inventory)
        except NetplanError as error:
            why = why or f"--fail on {spec.name}: {error}"
        else:
            return
    if why:
        raise InputError(why)


def check_faults(asked: FaultsQuestion[Any]) -> None:
    """Refuse numbers that are out of range."""
    if {"hall", "gpus_per_rack"} <= asked.given:
        raise InputError("--hall and --gpus-per-rack both say where racks stand: give one")
    asked.check_parts()
    if not 0 < asked.service_level < 1:
        raise InputError(
            f"--service-level {100 * asked.service_level:g}% is out of range: give more than 0%"
            " and less than 100%, which would need a spare for every part"
        )
    if not 0 <= asked.books.bad_servers <= MOST_BAD:
        raise InputError(
            f"--bad-servers {100 * asked.books.bad_servers:g}% is out of range: give 0% to"
            f" {100 * MOST_BAD:g}%, beyond which a book's own rates say it better"
        )
    if "switches_per_rack" in asked.given and asked.cluster.gpus_per_rack is None:
        raise InputError("--switches-per-rack without --gpus-per-rack: give both")
    if "spare_gpus" in asked.given and asked.policy == GO_ON:
        raise InputError("--spare-gpus without --policy reconfigure or replace: give both")
    if asked.block_gpus is not None and asked.policy != REPLACE:
        raise InputError("--block-gpus without --policy replace: give both")


def usual_years(gpus: int) -> int:
    """Years that see failures enough, ten million and more of the parts of very many GPUs [1].

    Examples
    --------
    >>> usual_years(32_768), usual_years(524_288), usual_years(8_388_608)
    (1000, 250, 100)
    """
    return max(LEAST_YEARS, min(USUAL_YEARS, USUAL_YEARS * FULL_GPUS // gpus))


def _storage_s(
    asked: FaultsQuestion[Any], reader: CatalogReader, training: TrainedModel | None
) -> Range | None:
    """Time to write a checkpoint to the scenario's storage [s]; None without any, or a size.

    A checkpoint has what weights and optimizer are in memory, with Adam 2 + 12 bytes a parameter.
    """
    names = [name for name in site_networks(asked.cluster) if asked.trains]
    rates = [
        network.write_bytes_per_s(asked.cluster.gpus)
        for network in (reader.load(SITE_NETWORKS, name) for name in names)
    ]
    known = [rate for rate in rates if rate is not None]
    if not known or training is None or not isinstance(training.model, Model):
        return None
    slow, usual, fast = max(known, key=itemgetter(1))
    states = OPTIMIZER_BYTES[asked.training.optimizer or "adam"]
    written = parameter_count(training.model).total * (ELEMENT_BYTES + states)
    return Range(written / fast, written / usual, written / slow)


def _forecast(
    asked: FaultsQuestion[Any], recovery: RecoveryPreset | None, storage_s: Range | None
) -> ForecastOptions:
    """What the years assume."""
    if recovery is None:
        policy = CheckpointPolicy(0.0, asked.serving.restart_minutes / MINUTES_PER_HOUR)
    else:
        points = asked.training.checkpoints
        policy = recovery.policy(
            asked.cluster.gpus,
            storage_s=storage_s,
            write_s=_seconds(points.checkpoint_write_minutes),
            interval_s=_seconds(points.checkpoint_interval_minutes),
            restart_s=_seconds(points.restart_minutes),
        )
    return ForecastOptions(
        policy,
        level=asked.service_level,
        years=asked.years or usual_years(asked.cluster.gpus),
        seed=asked.seed,
        end=asked.books.rates,
        spares=_spares(asked.spares),
        idle_domains=asked.cluster.spare_domains,
        wait=asked.while_down == "wait",
    )


def _seconds(minutes: float | None) -> float | None:
    """Seconds of some minutes, where there are any."""
    return None if minutes is None else minutes * SECONDS_PER_MINUTE


def subject_of(spec: FabricSpec, question: FaultsQuestion[Any], shared: Shared) -> Subject:
    """A fabric to fail; errors if it cannot be built."""
    fabric = build_fabric(spec, shared.sizing)
    # A fabric of several planes has the sizing of one plane; its graph splits ports by itself.
    sizing = replace(shared.sizing, hb_size=fabric.sizing.hb_size)
    return Subject(spec, sizing, fabric, shared.search, question.cluster.spare_domains)


def inventory_of(subject: Subject, question: FaultsQuestion[Any], shared: Shared) -> Inventory:
    """Parts of a fabric that fail, with the groups that it does not show."""
    switch, groups = shared.books.switch, risk_groups(question, subject.graph, shared)
    if subject.fabric.sizing.port_split > 1:
        groups = (risks.card_groups(subject.graph), *groups)
    cage = switch.links_per_cage(subject.fabric.sizing.speed_gbps) if switch else 2
    engine = next((row for row in shared.book.rates if row.ports_each), None)
    if question.cluster.optics == "cpo" and engine and engine.ports_each and subject.fabric.tiers:
        groups = (*groups, risks.engine_groups(subject.graph, engine.ports_each))
    return Inventory(subject.graph, groups, cage)


def fail_parts(
    subject: Subject, inventory: Inventory, question: FaultsQuestion[Any], used: Ints | None = None
) -> tuple[list[Parts], tuple[Single[Any], ...], list[Damage], list[Any], str | None]:
    """Fail one part of each kind, of GPUs one in use, and what was asked for.

    Returns
    -------
    tuple
        One part of each kind and what its failure does; failures asked for, drawn, and theirs;
        why these cannot happen on a fabric, such as a failed leaf on a torus.
    """
    parts, asked, why = single_parts(inventory, used), list[Damage](), None
    if question.fail:
        try:
            scenario = read_scenario(question.fail, inventory)
            rng = np.random.default_rng(question.seed)
            draws = question.draws if scenario.random else 1
            asked = [scenario.damage(rng) for _ in range(draws)]
        except NetplanError as error:
            why = str(error)
    damages = [*(inventory.damage([part]) for part in parts), *asked]
    impacts = [subject.impact(damage) for damage in with_progress(damages, lambda _: "failures")]
    singles = tuple(single_failures(inventory, zip(parts, impacts, strict=False)))
    return parts, singles, asked, impacts[len(parts) :], why


def names_cut_off(subject: Subject, damage: Damage) -> tuple[str, ...]:
    """The first GPUs that have failed or are cut off."""
    effects = find_effects(subject.graph, damage)
    gone = np.concatenate([effects.gpus_down, effects.cut_off])[:NAMED]
    return tuple(subject.graph.node_name(gpu) for gpu in gone.tolist())


RowT = TypeVar("RowT")


def sorted_out(
    rows: Sequence[RowT | RefusedFabric],
) -> tuple[tuple[RowT, ...], tuple[RefusedFabric, ...]]:
    """Fabrics, and those that are refused.

    Raises
    ------
    InputError
        If none is left.
    """
    fabrics = tuple(row for row in rows if not isinstance(row, RefusedFabric))
    refused = tuple(row for row in rows if isinstance(row, RefusedFabric))
    if not fabrics:
        raise InputError(f"{refused[0].name}: {refused[0].reason}")
    return fabrics, refused


def rate_note(kind: GroupFailures, book: FailureBook) -> str:
    """How often a kind of groups fails in the years, and how sure the book is."""
    assumed = ", an assumption" if kind.row.source.startswith("Assumption") else ""
    return (
        f"Years: {kind.count:,} of {kind.name!r} fail as a whole,"
        f" {kind.failures_per_year:g} times a year together (failures {book.name},"
        f" {kind.row.confidence} confidence{assumed})."
    )


def _spares(texts: Sequence[str]) -> dict[str, int]:
    """Read ``switch=2`` texts of parts that spares are kept of."""
    counts = {}
    for text in texts:
        kind, _, number = (part.strip() for part in text.partition("="))
        count = digits(number)
        if count is None or count < 0:
            raise InputError(f"--spares {text!r}: write a part and a number, such as switch=2")
        if kind not in SPARED_KINDS:
            raise unknown_name("kind of spares", kind, SPARED_KINDS)
        counts[kind] = count
    return counts
