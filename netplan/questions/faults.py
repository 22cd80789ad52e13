"""Failures on fabrics, side by side: what breaks, what it costs, what to keep in spare."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import gcd
from statistics import mean
from typing import Any, ClassVar, cast

from msgspec import Struct

from netplan.answers.faults_answer import FaultsAnswer
from netplan.answers.faults_rows import BesideRecord, FabricFaults, ScenarioImpact, seen
from netplan.costing.fabric_bill import RefusedFabric, wiring_of
from netplan.costing.wiring import Wiring
from netplan.errors import InputError, NetplanError, not_built
from netplan.faults.damage.damage import Damage
from netplan.faults.damage.impact import Impact, Single, Subject, single_failures, single_parts
from netplan.faults.damage.inventory import Inventory
from netplan.faults.damage.rerouting import training_loads
from netplan.faults.years import rates
from netplan.faults.years.clusters import RECORD_OF_KIND, interruptions_by_record
from netplan.faults.years.effects import FailureEffects, effect_of, effects_of, searched
from netplan.faults.years.forecast import ReliabilityForecast, flaps_of, reliability_forecast
from netplan.faults.years.group_failures import GroupFailures, group_failures
from netplan.faults.years.policies import (
    GO_ON,
    Policy,
    PolicyCase,
    SparesPolicy,
    check_rails,
    circuits,
    policies,
)
from netplan.faults.years.recoveries import idle_price, recoveries
from netplan.inputs.choices import OpticsKind
from netplan.progress import with_progress
from netplan.questions.cost import Cost
from netplan.questions.cut_fibre import fibre_failures, parted
from netplan.records import replace
from netplan.setup import faults_inputs
from netplan.setup.asking import function_of
from netplan.setup.inputs import span_of
from netplan.setup.over_sites import BOOKS
from netplan.setup.plan_notes import rates_note
from netplan.setup.training import training_inputs
from netplan.topologies.fabric import Fabric
from netplan.topologies.specs import FabricSpec
from netplan.units import MINUTES_PER_HOUR, PERCENT

ENGINE = "engine"
HALF = 0.5
"""Rate of the slow GPU that notes speak of [1]."""
UNTIMED = dict.fromkeys(("iteration_time_s", "gpus_used", "plan"))
NO_TERMS = {"years": None}
"""What a year costs is by the years of the economics book: years of a question are others."""
COST_ROLES = frozenset({"accelerator", "prices", "fabric", "sites"})
"""Roles of the files that a bill reads, of those of a question about failures."""
PLANLESS = BOOKS | {"failures", "recovery", "network", "floor-plan"}
"""Records that no plan is read from, of those of a question about failures."""
OVER_SITES = (
    "Parts of a fabric fail as in one site, and slow the run over all by the same share; the years"
    " have no cuts of the fibre between sites."
)


@dataclass(frozen=True, kw_only=True)
class Faults(faults_inputs.FaultsQuestion[FaultsAnswer]):
    """Put fabrics under failures: what is cut off, how training goes on, what to keep in spare.

    Under --workload serving: which servers stop, and what tokens a second, TTFT and TPOT are left.
    Under --workload post-training: what failures of either pool cost, and steps a day.

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
    >>> answer = faults("rail-only-paper", gpus=1024, radix=64, hb_size=8, fail=["leaf=1"],
    ...     years=50,
    ...                 model="gpt-22b", batch=1024, fabrics=("rail-only", "rail-optimized"))
    >>> [(one.name, one.scenario.impact.gpus_cut_off) for one in answer.fabrics]
    [('rail-only', 32), ('rail-optimized', 32)]
    """

    command: ClassVar[str] = "faults"
    examples: ClassVar[tuple[str, ...]] = (
        "netplan faults hgx-h100 --gpus 4096",
        "netplan faults hgx-h100 --gpus 4096 --fail leaf=1 --fail links=10",
        "netplan faults hgx-h100 --gpus 4096 --gpus-per-rack 32 --fail rack=1 --draws 20",
        "netplan faults serving-r1-h200 --fabric rail-only",
        "netplan faults grpo-70b-h100 --fabric rail-only",
    )

    def ask(self) -> FaultsAnswer:
        """Fail single parts, those asked for, and years of them, fabric by fabric."""
        faults_inputs.check_faults(self)
        if self.reinforces:  # who asks about steps knows what is answered
            from netplan.questions.post_training_faults import post_training_faults

            return cast("FaultsAnswer", post_training_faults(self))
        if not self.trains:
            self.reject_inputs(faults_inputs.OF_TRAINING, "--workload serving")
        span, shared = span_of(self), faults_inputs.read_shared(self)
        names = [site.name for site in span.dealt(shared.sizing).sites] if span else []
        cuts = parted(self, self.fail, names)
        if self.fail and not cuts:
            faults_inputs.check_fail(self, shared)
        answer: type[FaultsAnswer] = FaultsAnswer
        faults_on: Callable[..., Any] = partial(fabric_faults, question=self, shared=shared)
        reader = self.reader()
        if not self.trains:
            from netplan.answers.served_faults_answer import ServedFaultsAnswer
            from netplan.questions.served_faults import served_fabric

            answer = ServedFaultsAnswer
            faults_on = partial(served_fabric, files=(reader, {}), question=self, shared=shared)
        elif span is not None:
            faults_on = partial(_over_sites, cuts=cuts, question=self, shared=shared)
        named_specs = with_progress(shared.specs.items(), lambda item: item[1].name)
        rows, refused = faults_inputs.sorted_out(
            [faults_on(spec, name) for name, spec in named_specs]
        )
        if self.fail and all(isinstance(row.scenario, str) for row in rows):
            raise InputError(f"--fail on {rows[0].name}: {rows[0].scenario}")
        sizing, prices, search = shared.sizing, shared.books.prices, shared.search
        resolved = {
            "hb_size": sizing.hb_size,
            "fabrics": [spec.name for spec in shared.specs.values()],
            "switches_per_rack": shared.switches_per_rack if self.cluster.gpus_per_rack else None,
            "groups": str(self.groups) if self.groups else None,
            "circuit_switch": shared.circuit.name,
            "link_gbps": sizing.speed_gbps,
            "set": shared.replaced | (reader.replaced() if not self.trains else {}),
        }
        if self.trains:
            points = shared.options.checkpoints
            resolved |= {
                "checkpoint_write_minutes": MINUTES_PER_HOUR * points.write_h,
                "restart_minutes": MINUTES_PER_HOUR * points.restart_h,
                "remainder_minutes": MINUTES_PER_HOUR * points.remainder_h,
            }
            model = self.training.model if search else None
            batch = search.training.batch if search else None
            years = shared.options.years
            inputs = training_inputs(self, model=model, batch=batch, years=years, **resolved)
        else:
            inputs = self.inputs(**resolved)
            inputs = {
                name: value
                for name, value in inputs.items()
                if name not in faults_inputs.OF_TRAINING
            }
        if shared.recovery is None:
            return answer(inputs, prices.currency, rows, refused)
        return answer(inputs, prices.currency, rows, refused, shared.recovery)

    def yearly_cost(self, fabric: str, spec: FabricSpec, hb_size: int) -> tuple[float | None, bool]:
        """Annuity and energy of a network [currency a year], and whether they are whole.

        None without a bill, and where nothing on it has a price.
        """
        roles = COST_ROLES | {spec.name}
        replaced = (self.overrides or {}).items()
        scenario = self.scenario.replace(hb_size=hb_size, fabrics=(fabric,), spares=(), **NO_TERMS)
        asked = self.also(
            Cost,
            scenario=scenario,
            overrides={key: text for key, text in replaced if key.partition(".")[0] in roles},
        )
        try:
            bill = asked.ask().bills[0]
        except NetplanError:
            return None, False  # its price is not the question here
        whole = bill.complete and not bill.unpowered_apart
        return bill.life.per_year.base if bill.cost else None, whole


faults = function_of(Faults)


def _over_sites(
    spec: FabricSpec,
    name: str,
    *,
    cuts: tuple[str, ...],
    question: Faults,
    shared: faults_inputs.Shared,
) -> FabricFaults | RefusedFabric:
    """One fabric under failures over several sites, unless it is refused."""
    plain = replace(question, fail=()) if cuts else question
    row = fabric_faults(spec, name, plain, shared)
    roles = PLANLESS | {spec.name for spec in shared.specs.values()} - {spec.name}
    fibre = fibre_failures(question, name, roles) if question.timing else None
    if isinstance(row, RefusedFabric):
        return row
    if fibre is None:
        why = "not timed" if not question.timing else "no plan can be dealt out to the sites"
        return replace(row, scenario=f"cut fibre has no time: {why}" if cuts else row.scenario)
    singles = (replace(single, impact=fibre.over(single.impact)) for single in row.singles)
    scenario = fibre.scenario(cuts) if cuts else row.scenario
    if isinstance(scenario, ScenarioImpact) and not cuts:
        slowdown = scenario.mean_slowdown
        scenario = replace(
            scenario,
            impact=fibre.over(scenario.impact),
            mean_iteration_time_s=None if slowdown is None else (1 + slowdown) * fibre.time_s,
        )
    there = fibre.intact.timed_there
    return replace(
        row,
        **there.in_short(),
        error=there.error,
        scenario=scenario,
        singles=(*singles, *fibre.singles()),
        over_sites=fibre.intact.over,
        notes=(*row.notes, *fibre.intact.told, OVER_SITES),
    )


def fabric_faults(
    spec: FabricSpec, name: str, question: Faults, shared: faults_inputs.Shared
) -> FabricFaults | RefusedFabric:
    """One fabric, asked for by a name, under failures, unless it is refused."""
    refused = _unswitched(spec, question, shared)
    if refused:
        return RefusedFabric(spec.name, refused)
    try:
        subject = faults_inputs.subject_of(spec, question, shared)
        wiring = wiring_of(spec, shared.sizing, subject.fabric, shared.books)
    except NetplanError as error:
        return RefusedFabric(spec.name, not_built(spec.name, error))
    fabric = subject.fabric
    inventory = faults_inputs.inventory_of(subject, question, shared)
    options = shared.options
    if subject.intact:
        policy = options.checkpoints.of_iterations(subject.intact.time_s)
        options = replace(options, checkpoints=policy)
    optics = question.cluster.optics
    book = shared.book.placed(
        fabric.sizing.hb_size, optics=optics, bad_servers=question.books.bad_servers
    )
    shared = replace(shared, book=book, options=options)
    singles, scenario, worst = _failures(subject, inventory, question)
    # With forwarding one GPU has no port of its own.
    forwarding_s = next(
        (part.impact.iteration_time_s for part in singles if part.kind == "nic"), None
    )
    ways = recoveries(subject, shared.books, shared.circuit, forwarding_s)
    cost, whole = question.yearly_cost(name, spec, shared.sizing.hb_size)
    years = _years(
        (subject, wiring), inventory, singles, shared=shared, cost_per_year=cost, optics=optics
    )
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
        policies=_policies(subject, years, singles, question, shared),
        network_cost_complete=whole,
        assumed_share=_assumed_share(years),
        is_upper_bound=bool(shared.recovery and shared.recovery.is_upper_bound),
        notes=tuple(_notes(subject, years, shared.book)),
        error=subject.intact.best.error if subject.intact else None,
        batch_slowdown=subject.batch_slowdown,
        seen=seen(subject, inventory, *worst, question.seed) if worst else None,
    )


class Years(Struct, frozen=True):
    """What failures do over the years, and beside the record of one cluster."""

    gpus_cut_off_per_year: float
    forecast: ReliabilityForecast
    failing: tuple[GroupFailures, ...]
    record: tuple[BesideRecord, ...]
    book: rates.FailureBook
    effects: FailureEffects


def _years(
    built: tuple[Subject, Wiring],
    inventory: Inventory,
    singles: Sequence[Single[Impact]],
    *,
    shared: faults_inputs.Shared,
    cost_per_year: float | None,
    optics: OpticsKind,
) -> Years:
    """What failures cost the job over the years, and how many GPUs lose their port in one.

    Failures do in the years what they do alone; that idle domains take over, the years know.
    """
    subject, wiring = built
    slowness, alone = searched(subject), subject.alone
    if subject.spare_domains:
        parts = single_parts(inventory)
        impacts = [alone.impact(inventory.damage([part])) for part in parts]
        singles = tuple(single_failures(inventory, zip(parts, impacts, strict=True)))
    survived = _survived(subject, singles, shared.book)
    rides = "host_fibre" in survived
    failing = group_failures(
        subject.graph,
        inventory.groups,
        shared.book,
        end=shared.options.end,
        effects_of=lambda damages: [effect_of(alone.impact(hit), slowness) for hit in damages],
    )
    # Switches with packaged optics have no cages: all their links are fibres, however short.
    laid = None if optics == "cpo" else wiring
    units = rates.unit_counts(subject.fabric, laid, optics)
    units["engine"] = sum(single.parts for single in singles if single.kind == ENGINE)
    book = shared.book.stopping(survived)
    effects = effects_of(subject.fabric, units, singles=singles, slowness=slowness)
    forecast = reliability_forecast(
        subject.fabric,
        book,
        shared.options,
        cost_per_year=cost_per_year,
        effects=effects,
        groups=failing,
    )
    # How much longer an iteration takes while a GPU lacks one of its links.
    longer = (single.impact.slowdown or 0.0 for single in singles if single.kind == "nic")
    slowdown = max(longer, default=0.0) if rides else None
    flaps = flaps_of(book, units["host_fibre"], optics=optics, slowdown=slowdown)
    forecast = replace(forecast, flaps=flaps)
    cut_off = _cut_off_per_year((subject.fabric, laid), units, singles, failing, shared)
    record = (
        _beside_record(book, units, failing, shared) if book.name != faults_inputs.RECORD else ()
    )
    return Years(cut_off, forecast, failing, record, book, effects)


def _assumed_share(years: Years) -> float:
    """Interruptions by causes whose rate is an assumption, of all [1]."""
    assumed = {row.cause for row in years.book.rates if row.is_assumed}
    assumed |= {kind.name for kind in years.failing if kind.row.is_assumed}
    interruptions = {cause.cause: cause.interruptions_per_year for cause in years.forecast.causes}
    every = sum(interruptions.values())
    # In the order of the causes: that of a set changes from run to run, and so would the sum.
    return (
        sum(interruptions[name] for name in interruptions if name in assumed) / every
        if every
        else 0.0
    )


def _policies(
    subject: Subject,
    years: Years,
    singles: Sequence[Single[Impact]],
    question: Faults,
    shared: faults_inputs.Shared,
) -> tuple[Policy, ...]:
    """The job without circuit switches and with them, where that was asked for."""
    if question.policy == GO_ON:
        return ()
    known = years.book, years.effects, years.failing, years.forecast
    case = PolicyCase(subject, shared.books, shared.options, *known)
    gpu = next(single.impact for single in singles if single.kind == "gpu")
    return policies(case, asked=_policy(subject, question, shared), gpu=gpu)


def _policy(subject: Subject, question: Faults, shared: faults_inputs.Shared) -> SparesPolicy:
    """Policy after a failed GPU; a server's GPUs move as a whole, or all of a smaller domain."""
    hb_size, gear = subject.sizing.hb_size, shared.books.gear
    usual_gpus = gcd(hb_size, gear.board) if gear else hb_size
    block_gpus = question.block_gpus or usual_gpus
    return SparesPolicy(question.policy, shared.circuit, block_gpus, question.cluster.spare_gpus)


def _unswitched(spec: FabricSpec, question: Faults, shared: faults_inputs.Shared) -> str | None:
    """Why circuit switches that were asked for cannot be, in words; None where they can."""
    if question.policy == GO_ON:
        return None
    try:
        check_rails(spec, question.policy)
        subject = faults_inputs.subject_of(spec, question, shared)
        circuits(subject, _policy(subject, question, shared))
    except NetplanError as error:
        return f"{error}."
    return None


def _beside_record(
    book: rates.FailureBook,
    units: Mapping[rates.Unit, int],
    failing: Sequence[GroupFailures],
    shared: faults_inputs.Shared,
) -> tuple[BesideRecord, ...]:
    """Interruptions of a year by the causes of one cluster's record, beside its own."""
    interruptions = interruptions_by_record(book, units, end=shared.options.end, groups=failing)
    seen = interruptions_by_record(shared.record, units)
    why: dict[str, dict[str, None]] = {}
    for row in book.rates:
        if row.why_apart:
            why.setdefault(RECORD_OF_KIND[row.kind], {})[row.why_apart] = None
    return tuple(
        BesideRecord(
            name, interruptions.get(name, 0.0), seen.get(name, 0.0), "; ".join(why.get(name, ()))
        )
        for name in {**interruptions, **seen}
    )


def _notes(subject: Subject, years: Years, book: rates.FailureBook) -> Iterator[str]:
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
    if subject.intact:
        best = subject.intact.best
        lost = 1 - best.iteration_time_s / best.beside_slow_gpu_s(HALF)
        yield (
            f"A GPU at half its rate stops nothing, and costs up to {PERCENT * lost:.2g} % of an"
            " iteration, for which all others wait: netplan simulate --slow gpu-5=0.5."
        )
    yield from (faults_inputs.rate_note(kind, book) for kind in years.failing)


def _failures(
    subject: Subject, inventory: Inventory, question: Faults
) -> tuple[tuple[Single[Impact], ...], ScenarioImpact | str | None, tuple[Damage, str] | None]:
    """One failure of each kind, the failures that were asked for, and what is to be drawn.

    A text says why these cannot happen on this fabric, such as a failed leaf on a torus.
    """
    parts, singles, asked, impacts, why = faults_inputs.fail_parts(subject, inventory, question)
    scenario = _scenario(subject, asked, impacts, question) if asked else why
    worst: tuple[Damage, str] | None
    if asked:
        worst = asked[_worst(impacts)], " ".join(question.fail)
    else:
        ranked = [
            (_badness(single.impact), single.impact.gpus_cut_off, place)
            for place, single in enumerate(singles)
            if parts[place].kind.space != "group" and single.kind not in INSIDE
        ]
        place = max(ranked, default=(None, 0, -1))[-1]
        worst = (inventory.damage([parts[place]]), singles[place].part) if ranked else None
    # A job inside one HB domain does without its network.
    return singles, scenario, worst if subject.sizing.domains > 1 else None


def _scenario(
    subject: Subject, damages: Sequence[Damage], impacts: Sequence[Impact], question: Faults
) -> ScenarioImpact:
    """The failures that were asked for: the worst of all draws, and their mean."""
    worst, loads = _worst(impacts), None
    damage = damages[worst]
    if subject.traffic is not None:
        loads = training_loads(subject.graph, damage, subject.traffic, cuts=subject.cuts)
    return ScenarioImpact(
        text=tuple(question.fail),
        draws=len(damages),
        impact=impacts[worst],
        mean_iteration_time_s=_mean(impact.iteration_time_s for impact in impacts),
        mean_slowdown=_mean(impact.slowdown for impact in impacts),
        mean_worst_bandwidth_share=_mean(impact.bandwidth_share for impact in impacts),
        stopped=sum(impact.way == "stopped" for impact in impacts),
        cut_off=faults_inputs.names_cut_off(subject, damage),
        loads=loads,
    )


def _mean(values: Iterable[float | None]) -> float | None:
    """Mean of the values that there are; None without any."""
    known = [value for value in values if value is not None]
    return mean(known) if known else None


INSIDE = ("gpu", "nic", "hb-link", "hb-switch")
"""Parts of servers and HB domains, whose failure a drawing of the network does not show."""


def _worst(impacts: Sequence[Impact]) -> int:
    """Which of the draws is the worst."""
    return max(range(len(impacts)), key=lambda draw: _badness(impacts[draw]))


def _badness(impact: Impact) -> tuple[bool, float, float]:
    """Order of impacts: those that stop the job, then the slowest, then the least bandwidth."""
    return impact.way == "stopped", impact.iteration_time_s or 0.0, -(impact.bandwidth_share or 0.0)


HOST_UNITS: tuple[rates.Unit, ...] = ("host_link", *(near for _, near, _ in rates.OF_LINKS))


def _gpus_cut_off(fabric: Fabric, singles: Sequence[Single[Impact]]) -> dict[rates.Unit, int]:
    """GPUs that a unit of the failure book cuts off, as far as the failure of a part shows it."""
    # Where each GPU has a port on every of several levels, none shows it.
    of_hosts = (group.name for group in fabric.links if group.role == "host" and not group.axis)
    alone = {
        single.kind: single.impact.gpus_cut_off + single.impact.gpus_partitioned
        for single in singles
    }
    kinds: dict[rates.Unit, str] = {"leaf_switch": "leaf", "engine": ENGINE}
    # A card fails with all its ports, on every plane.
    kinds["nic_port"] = "card" if "card" in alone else "nic"
    kinds |= dict.fromkeys(HOST_UNITS, next(of_hosts, ""))
    return {unit: alone[kind] for unit, kind in kinds.items() if kind in alone}


def _survived(
    subject: Subject, singles: Sequence[Single[Impact]], book: rates.FailureBook
) -> frozenset[rates.Unit]:
    """Units whose failure stops no job: it cuts off no GPU, or the job needs no network."""
    cut_off = _gpus_cut_off(subject.fabric, singles)
    survived = frozenset(unit for unit, gpus in cut_off.items() if gpus == 0)
    if subject.sizing.domains == 1:
        survived |= {row.unit for row in book.rates if row.kind in rates.NETWORK_KINDS}
    return survived


def _cut_off_per_year(
    built: tuple[Fabric, Wiring | None],
    units: Mapping[rates.Unit, int],
    singles: Sequence[Single[Impact]],
    failing: Sequence[GroupFailures],
    shared: faults_inputs.Shared,
) -> float:
    """GPUs that lose their port in a year: links, leaves and groups times whom each cuts off."""
    cut_off = _gpus_cut_off(built[0], singles)
    links = rates.host_links_each(*built)
    alone = sum(
        row.rate_per_year.at_end(shared.options.end)
        * row.count_in(units)
        * links.get(row.unit, 1.0)
        * cut_off.get(row.unit, 0)
        for row in shared.book.rates
        if row.unit != "nic_port"
    )
    return alone + sum(kind.gpus_cut_off_per_year for kind in failing)
