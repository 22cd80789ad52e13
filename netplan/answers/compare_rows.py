"""Rows of a comparison: a fabric with its counts, its bill, and how it trains or serves."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from netplan.answers.sites_bill import SitesBill
from netplan.costing.fabric_bill import MINOR, Bill, BillBooks
from netplan.costing.hb_gear import domains_of
from netplan.costing.lifetime import lifetime
from netplan.costing.materials import CARDS_INCLUDED, CARDS_LEFT_OUT, BillItem, not_held
from netplan.costing.prices import PART_NAMES, PART_WORDS, US_DOLLAR
from netplan.costing.ranges import NOTHING, Range
from netplan.costing.switches import NO_BOX, NOT_AN_ORDER
from netplan.decide.candidates import Basis, Candidate
from netplan.decide.record import Decision
from netplan.decide.ten_answers import Facts, hall_flip, ten_answers
from netplan.decide.verdict import BandwidthSolver, Verdict, decide
from netplan.performance.forwarding import Forwarding
from netplan.performance.plan import PlanTime, SearchResult
from netplan.performance.spread import OverSites
from netplan.records import replace
from netplan.reports.quantities import Scale
from netplan.reports.schema import plain_at
from netplan.scenarios.reading import with_memory
from netplan.setup.money.run_cost import RunCost, RunTerms, TokenCost, run_cost
from netplan.setup.plan_notes import plan_notes
from netplan.topologies.cliffs import Cliff
from netplan.topologies.fabric import Fabric
from netplan.topologies.specs import FabricSpec
from netplan.units import MEGA, PETA

if TYPE_CHECKING:
    from netplan.answers.budget_answer import Budget
    from netplan.setup.money.memory_or_gpus import MemoryTradeoff
    from netplan.setup.money.step_cost import Stepped
    from netplan.workloads.accelerators import Accelerator

BASELINE = "rail-optimized"
"""The any-to-any Clos of the paper, against which the JSON counts savings."""
UNSERVED = "Not served: "
"""With what a note begins that says why no plan serves on a fabric."""
NO_STEP = "No step: "
"""With what a note begins that says why no pool does its work on a fabric."""
ANY_TO_ANY = (BASELINE, "fat-tree")
"""Networks that join any GPU with any at its full rate."""


class FabricRow(Struct, frozen=True):
    """One fabric of a comparison; ``fabric`` is None where it cannot be built in this size."""

    json_parts = (
        *("fabric=name", "sold", "*of_memory", "tiers=fabric.tiers.#", "fabric.switches"),
        *("links=fabric.link_count", "fabric.transceivers", "fabric.copper_cables"),
        *("fabric.nic_ports", "fabric.spare_ports", "modules", "copper_ordered"),
        *("fabric.ports_per_gpu", "fabric.gpu_bytes_per_s", "count_status"),
        *("fabric.switches_lower_bound", "switch_tiers=fabric.tiers.*"),
        *("link_groups=fabric.links.*", "fabric.sizing.hb_size", "cost=bill.amount"),
        *("cost_usd=in_dollars.cost", "cost_per_gpu", "cost_per_gpu_usd=in_dollars.cost_per_gpu"),
        "cost_per_effective_pflops",
        "cost_per_effective_pflops_usd=in_dollars.cost_per_effective_pflops",
        *("cost_complete", "gear", "gear_in_server", "gear_counted"),
        *("unpriced=bill.quote.unpriced.*.title", "gear_cost", "gear_power_w=bill.inside.power"),
        *("cost_reduction", "power_w", "power_complete", "best.iteration_time_s", "mfu"),
        *("effective_flops_per_s", "*best.known_bar", "best.memory_bytes", "best.breakdown_s"),
        *("best.plan", "gpus_used=best.plan.gpus", "*served", "*stepped", "space"),
        *("levels=fabric.levels.*", "?over_sites=over", "?in_sites", "notes"),
    )

    name: str
    title: str
    notes: tuple[str, ...]
    fabric: Fabric | None = None
    bill: Bill | None = None
    cost_reduction: float | None = None
    timed: SearchResult | None = None
    built_with: tuple[str, ...] = ()
    """Accelerators of the product, if they are others than those asked for."""

    unsold: str = ""
    """That nobody publishes it for the accelerator, in words; empty where somebody does."""

    served: TokenCost | None = None
    """How it serves, where that is asked."""

    stepped: "Stepped | None" = None
    """How it does a step of post-training, where that is asked."""

    memory: str = ""
    """Expanded memory behind that of each GPU, ``none``, or empty where nobody asked."""

    over: OverSites | None = None
    """How its plan lies over several sites; None of one site."""

    in_sites: SitesBill | None = None
    """What the networks of several sites and of one larger one cost; None of one site."""

    terms: RunTerms | None = None
    """What GPU hours and a year of the network cost a training run, where that is asked."""

    @property
    def sold(self) -> bool:
        """Whether makers sell it for these accelerators, as far as is known."""
        return not (self.unsold or self.built_with)

    @property
    def media_given(self) -> str:
        """What its file says of media that no hall confirms; empty without."""
        return self.bill.media_given if self.bill else ""

    @property
    def label(self) -> str:
        """The fabric, with the expanded memory that it is bought with."""
        return with_memory(self.name, self.memory)

    @property
    def best(self) -> PlanTime | None:
        """The fastest plan and its time; None where none was found or asked for."""
        return self.timed.best if self.timed else None

    @property
    def cost(self) -> Range | None:
        """Price of network and expanded memory; None where nothing of them has a price."""
        return self.bill.cost if self.bill else None

    @property
    def memory_cost(self) -> Range | None:
        """Price of the expanded memory; None where it has none."""
        lacking = self.bill.quote.unpriced if self.bill else ()
        known = self.bill is not None and all(line.part != "memory" for line in lacking)
        return self.bill.memory if self.bill and known else None

    @property
    def power_w(self) -> float | None:
        """Typical power of the network; None where nothing of it is known [W]."""
        return self.bill.power_w if self.bill else None

    @property
    def cost_complete(self) -> bool:
        """Whether the price covers all that sets the fabrics apart.

        The first network port of each GPU is the same on every fabric and may be missing.
        """
        return self.bill is not None and self.bill.complete

    @property
    def cost_whole(self) -> bool:
        """The same, and whether all that joins several sites has a price."""
        haul = self.bill.haul if self.bill else None
        return self.cost_complete and not (haul and haul.unpriced)

    @property
    def power_whole(self) -> bool:
        """Whether the power of all that sets fabrics apart or joins sites is known."""
        unknown = self.bill.draw.unknown if self.bill else ()
        joining = any(line.category == "long-haul" for line in unknown)
        return self.bill is None or not (self.bill.unpowered_apart or joining)

    @property
    def sites_words(self) -> str:
        """How its plan lies over several sites, and what these cost; empty of one site."""
        if self.in_sites is None:
            return ""
        plan = f" {self.over.words};" if self.over else ""
        costs = self.in_sites.whole_words(lacking=False)
        return f"In {self.in_sites.lit.sites} sites{plan} {self.label}: {costs}."

    @property
    def gear_in_server(self) -> bool:
        """Whether the gear inside its HB domains comes with the servers, and costs nothing more."""
        return self.bill is None or not self.bill.inside.bought

    @property
    def gear(self) -> float | None:
        """Base price of the gear inside its HB domains; None in servers, and without a price."""
        return self.gear_cost.base if self.gear_cost else None

    @property
    def gear_cost(self) -> Range | None:
        """That price from low to high, in the price of the network only where that is asked."""
        known = self.bill is not None and self.bill.inside.known and not self.gear_in_server
        return self.bill.inside.quote.total if self.bill and known else None

    @property
    def gear_counted(self) -> bool:
        """Whether the price of the network holds it."""
        return self.bill is not None and self.bill.gear_counted

    @property
    def count_status(self) -> str | None:
        """Whether its counts divide evenly."""
        return ("exact" if self.fabric.exact else "wireable") if self.fabric else None

    @property
    def cost_per_gpu(self) -> float | None:
        """Base price of the network for one GPU."""
        return self.cost.base / self.fabric.sizing.gpus if self.cost and self.fabric else None

    @property
    def time_s(self) -> float:
        """Iteration time; infinite without one [s]."""
        return self.best.iteration_time_s if self.best else inf

    @property
    def mfu(self) -> float | None:
        """Useful FLOPs over the peak of all GPUs bought, those that the plan leaves idle too."""
        if self.best is None or self.fabric is None:
            return None
        return self.best.mfu * self.best.plan.placement.cluster / self.fabric.sizing.gpus

    @property
    def effective_flops_per_s(self) -> float | None:
        """Useful FLOP/s of the whole training run: MFU times the peak of its GPUs [FLOP/s]."""
        if self.best is None or self.timed is None:
            return None
        peak = self.timed.settings[0].training.flops_per_s
        return self.best.mfu * self.best.plan.placement.cluster * peak

    @property
    def cost_per_effective_pflops(self) -> float | None:
        """Base price of the network per useful 10^15 FLOP/s [currency / (PFLOP/s)]."""
        useful = self.effective_flops_per_s
        return self.cost.base / (useful / PETA) if self.cost and useful else None

    def candidate(self, terms: RunTerms | None) -> Candidate:
        """The row as the verdict sees it."""
        bill = self.bill
        return Candidate(
            name=self.label,
            price=self.cost.base if self.cost else 0.0,
            complete=self.cost_complete,
            time_s=self.time_s,
            life=lifetime(bill.capital, bill.draw.typical_w, terms.opex)
            if bill and terms
            else None,
            gpu_bytes_per_s=self.fabric.gpu_bytes_per_s if self.fabric else 0.0,
            lacking=self.bill is not None and bool(self.bill.unpriced_apart),
            direct=self.fabric is not None and self.fabric.network == "direct",
            built_with=self.built_with,
            unsold=bool(self.unsold),
            timed=self.best,
            gear=bill.gear if bill and bill.gear_counted else 0.0,
            geared=bill is None or bill.inside.known or not bill.gear_counted,
            bill=bill,
        )

    @property
    def training_run(self) -> RunCost | None:
        """What a training run on it costs; None without a bill, a time, or terms."""
        if self.bill is None or self.best is None or self.terms is None:
            return None
        return run_cost(self.bill, self.time_s, self.terms)

    @property
    def of_memory(self) -> dict[str, object]:
        """What JSON has of a fabric only where its expanded memory is asked about."""
        parts = ("expanded_memory=memory", "memory_cost", "training_run") if self.memory else ()
        return plain_at(self, *parts)

    @property
    def modules(self) -> int | None:
        """Optical modules on the bill, as they are ordered [1]."""
        return self.bill.ordered("transceiver") if self.bill else None

    @property
    def copper_ordered(self) -> int | None:
        """Copper cables on the bill, as they are ordered [1]."""
        return self.bill.ordered("copper_cable", "active_copper_cable") if self.bill else None

    @property
    def in_dollars(self) -> "FabricRow | None":
        """The row itself where its price is in dollars."""
        return self if self.cost and self.bill and self.bill.quote.currency == US_DOLLAR else None

    @property
    def power_complete(self) -> bool:
        """Whether the power of all parts is known."""
        return self.bill is not None and self.bill.power_complete

    @property
    def space(self) -> dict[str, int] | None:
        """Plans of the search, without its time, which differs from run to run [1]."""
        return plain_at(self.timed, "enumerated", "feasible") if self.timed else None


def network_price(bill: Bill) -> Range:
    """Price of a network without the gear inside its HB domains, of the parts that have one."""
    items = (item for item in bill.quote.items if item.line.part != "hb_gear")
    return sum((item.total for item in items), start=NOTHING)


def priced_row(spec: FabricSpec, bill: Bill, books: BillBooks) -> FabricRow:
    """Row of a fabric with its bill, but no time yet."""
    notes = (*bill.fabric.notes, *bill.notes, *_priced_notes(bill, books))
    return FabricRow(spec.name, spec.title, notes, bill.fabric, bill)


def timed_row(row: FabricRow, result: SearchResult | str | None) -> FabricRow:
    """The row with its best plan, or with a note why there is none."""
    if isinstance(result, str):
        first = result.split(maxsplit=1)[0]
        # The name of a model stays as it is.
        note = result[:1].upper() + result[1:] if first.isalpha() else result
        return replace(row, timed=None, notes=(*row.notes, note))
    notes = plan_notes(result, row.fabric.sizing.gpus) if result and row.fabric else ()
    return replace(row, timed=result, notes=(*row.notes, *notes))


def _priced_notes(bill: Bill, books: BillBooks) -> list[str]:
    """What the books lack. One network port a GPU is the same on every fabric: not said here."""
    lacking = () if bill.gear_left else bill.unpriced_apart
    notes = [
        f"No {what} in {book} for {_parts(lines)}."
        for what, lines, book in (
            ("price", lacking, books.prices.name),
            ("power", bill.unpowered_apart, books.power.name),
        )
        if lines
    ]
    if bill.gear_left:
        size = max(size for size, _ in domains_of(bill.fabric))
        notes.append(
            f"It brings HB domains of {size:,}, whose gear is not in its price: --with hb-gear."
        )
    if bill.fabric.sizing.domains == 1 and bill.complete and not bill.capital.base:
        notes.append(
            "All GPUs lie in one HB domain: there is no network between domains to pay for."
        )
    return notes


def _parts(lines: Sequence[BillItem]) -> str:
    """Parts with their numbers, cables of all lengths together."""
    counts: dict[str, int] = {}
    for line in lines:
        units = line.quantity * line.price_units
        counts[line.priced_as] = counts.get(line.priced_as, 0) + units
    return ", ".join(f"{count:,} {part}" for part, count in counts.items())


SAME_ON_ALL = {
    "nic_port": PART_WORDS["cards"][1],
    "hb_gear": PART_WORDS["hb-gear"][1],
    **{part: PART_NAMES[part] for part in sorted(MINOR)},
    **{part: PART_NAMES[part] for part in ("coherent_module", "amplifier", "lit_fibre")},
}
"""Parts that may lack a price, since they set no fabric apart, in words."""

UNDECIDED = "Nothing is recommended: no fabric has a price for all that sets it apart."


class About(Struct, frozen=True):
    """What is compared, as people call it.

    Parameters
    ----------
    accelerator, model
        Short names.
    sold_as
        Where the same chip is sold otherwise, in what and by which name of an accelerator.
    batch, sequence_length
        Sequences of an iteration, and tokens of each; 0 where the model has none [1].
    precision
        Numbers of the layers' products; empty where the iteration model does not tell.
    dated
        The iteration model, with its date where it was fitted to runs.
    """

    accelerator: str = ""
    model: str = ""
    sold_as: str = ""
    batch: int = 0
    sequence_length: int = 0
    precision: str = ""
    dated: str = ""


class DomainRow(Struct, frozen=True):
    """A rail-only network with HB domains of one size: counted and priced, not timed.

    Parameters
    ----------
    hb_size
        GPUs of a domain [1].
    cost
        Price of the network, without the gear inside its domains; None where parts lack one.
    saved
        Share of the cheapest any-to-any Clos that it saves [1].
    gear
        Price of the gear inside the domains, of what has one.
    gear_known
        Whether all of that has a price.
    in_server
        Whether such domains come inside servers, at no price of their own.
    """

    json_parts = (
        *("hb_size", "cost=cost.base", "cost_reduction=saved", "gear=known_gear.base"),
        *("gear_cost=known_gear", "gear_in_server=in_server"),
    )

    hb_size: int
    cost: Range | None
    saved: float | None
    gear: Range
    gear_known: bool
    in_server: bool

    @property
    def known_gear(self) -> Range | None:
        """Price of the gear, where it is known and not that of servers."""
        return self.gear if self.gear_known and not self.in_server else None


class Paper(Struct, frozen=True):
    """Rail-only as the paper counts: in words, its price, what it saves, and the question."""

    words: str
    cost: Range
    saved: float
    command: str


@dataclass(frozen=True, repr=False)
class Compared:
    """What is compared and decided: inputs, rows and verdict, and what belongs to them."""

    inputs: dict[str, Any]
    rows: tuple[FabricRow, ...]
    currency: str
    terms: RunTerms | None = None
    probe: BandwidthSolver | None = None
    trades: "tuple[MemoryTradeoff, ...]" = ()
    domains: Callable[[], tuple[DomainRow, ...]] | None = None
    """Rail-only by HB domain, counted and priced when somebody reads it."""

    about: About = About()  # noqa: RUF009 - frozen
    paper: Callable[[], Paper | None] | None = None
    """Price of rail-only as its paper has it, and the share that it saves, worked out when read."""

    specs: dict[str, FabricSpec] = field(default_factory=dict)
    """Files of the fabrics, by their names."""

    beyond: Callable[[Bill], tuple[str, str]] | None = None
    """What answers on spares and growth of a bill."""

    halls: Callable[[Bill, Bill], str] | None = None
    """What answers in which other halls the order of two bills turns."""

    chip: "Accelerator | None" = None
    """The accelerator."""

    cliffs: Callable[[Iterable[Fabric]], tuple[Cliff, ...]] | None = None
    """Sizes beside that need far fewer switches, counted when somebody reads it."""

    forwarding: Callable[[], Forwarding | None] | None = None
    """What rails forward for experts and lose by it, worked out when read."""

    budget: "Budget | None" = None
    """The power that the GPUs are sized by, if that was asked for."""

    @property
    def leading(self) -> FabricRow | None:
        """The row of the fabric to order, or else the first that can be built."""
        return self.chosen or next((row for row in self.rows if row.bill), None)

    @property
    def chosen(self) -> FabricRow | None:
        """The row of the fabric to order; None where there is none alone."""
        name = self.verdict.fabric if self.verdict else None
        return next((row for row in self.rows if row.label == name), None)

    @property
    def baseline(self) -> FabricRow | None:
        """The any-to-any Clos, if it is compared and can be built."""
        return next((row for row in self.rows if row.name == BASELINE and row.bill), None)

    @property
    def against(self) -> FabricRow | None:
        """The row that the screen counts savings against: the runner-up, as the verdict does."""
        name = self.verdict.decision.runner_up if self.verdict else None
        second = next((row for row in self.rows if row.label == name and row.cost), None)
        return second or self.baseline

    @property
    def serves(self) -> bool:
        """Whether the fabrics serve."""
        return self.inputs.get("workload") == "serving"

    @property
    def reinforces(self) -> bool:
        """Whether steps of post-training are timed on them."""
        return self.inputs.get("workload") == "post-training" and bool(self.inputs["timing"])

    @property
    def by_unit(self) -> bool:
        """Whether the verdict is by the price of tokens, or of a step."""
        return self.serves or self.reinforces

    @property
    def price_cliffs(self) -> tuple[Cliff, ...]:
        """Fabrics that makers sell, of which a size beside needs far fewer switches."""
        sold = [row.fabric for row in self.rows if row.sold and row.fabric]
        return self.cliffs(sold) if self.cliffs else ()

    @cached_property
    def by_hb_size(self) -> tuple[DomainRow, ...]:
        """Rail-only with HB domains of other sizes: counted and priced, not timed."""
        return self.domains() if self.domains else ()

    @property
    def left_out(self) -> Iterator[str]:
        """What has no price, or is not bought, and so is in no price, in words."""
        bills = [row.bill for row in self.rows if row.fabric and row.bill and row.cost]
        lacking = {line.part for bill in bills for line in bill.quote.unpriced}
        inside = [bill for bill in bills if bill.inside.bought]
        if inside and not any(bill.inside.known for bill in inside):
            lacking.add("hb_gear")
        for part, words in SAME_ON_ALL.items():
            if part in lacking:
                yield words
        if self.inputs.get("cards") == CARDS_INCLUDED:
            yield CARDS_LEFT_OUT

    @property
    def hall(self) -> str:
        """In which other halls the order and its runner-up change places; empty where in none."""
        return hall_flip(self.verdict.decision, self.facts) if self.facts and self.verdict else ""

    @cached_property
    def forwarded(self) -> Forwarding | None:
        """What rails forward for experts and lose by it."""
        return self.forwarding() if self.forwarding else None

    @cached_property
    def verdict(self) -> Verdict | None:
        """What to buy, by the rule of the question; None where nothing can be compared."""
        if self.serves:
            from netplan.setup.money.run_cost import cheapest

            served = [(row.label, row.served, row.bill) for row in self.bought]
            return cheapest(served, self.currency)
        if self.reinforces:
            from netplan.setup.money.step_cost import cheapest_step

            stepped = [(row.label, row.stepped, row.bill) for row in self.bought]
            return cheapest_step(stepped, self.currency)
        return decide([row.candidate(self.terms) for row in self.rows], self.basis, self.probe)

    @property
    def decision(self) -> Decision | None:
        """The verdict as data, with answers to a buyer's ten questions."""
        verdict = self.verdict or Verdict(None, "lowest cost", UNDECIDED, ())
        facts = self.facts
        if facts is None:
            return verdict.decision if self.verdict else None
        answers = ten_answers(verdict.decision, verdict.sentence, facts)
        caveats = verdict.decision.caveats
        if answers is not None and self.no_box:
            caveats = (NOT_AN_ORDER, *caveats)
            answers = replace(answers, order=f"{NOT_AN_ORDER} {answers.order}")
        return replace(verdict.decision, answers=answers, caveats=caveats)

    @property
    def facts(self) -> Facts | None:
        """What answers to a buyer's questions rest on."""
        if self.beyond is None:
            return None
        built = [row for row in self.rows if row.bill is not None]
        rows = [row for row in built if row.cost is not None] or built
        return Facts(
            {row.label: row.bill for row in rows if row.bill},
            {row.label: self.specs[row.name] for row in rows if row.name in self.specs},
            self.beyond,
            not_held(
                cards=str(self.inputs.get("cards", "")),
                installed=all(row.bill.installed for row in rows if row.bill),
            ),
            self.chip,
            self.halls,
        )

    @property
    def no_box(self) -> bool:
        """Whether no box has the ports of the switches that are planned with."""
        return any(caution.startswith(NO_BOX) for caution in self.inputs.get("cautions", ()))

    @property
    def bought(self) -> list[FabricRow]:
        """Rows of fabrics that somebody sells for the accelerator; all if nobody sells any."""
        unbundled = [row for row in self.rows if not (row.built_with or row.media_given)]
        return [row for row in unbundled if not row.unsold] or unbundled

    @property
    def basis(self) -> Basis:
        """What the verdict is decided by."""
        inputs = self.inputs
        run = self.terms.run(inputs["gpus"]) if self.terms else None
        bought = "network and memory" if any(inputs["expanded_memories"]) else "network"
        barred = any(row.best.error for row in self.rows if row.best)
        weighed = inputs["rule"], inputs["within"], run, self.scale
        return Basis(*weighed, inputs["timing"], bought, barred=barred)

    @property
    def scale(self) -> Scale:
        """Scale of all amounts, by the dearest fabric."""
        costs = (row.cost.base for row in self.rows if row.cost)
        return Scale.of(max(costs, default=MEGA), self.currency)
