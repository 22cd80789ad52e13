"""The cheapest and fastest networks: the front of cost or power against iteration time."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf, isfinite
from operator import add
from typing import Any, ClassVar, Literal

from msgspec import Struct, structs

from netplan.answers.budget_answer import Budget
from netplan.answers.compare_rows import timed_row
from netplan.costing.fabric_bill import BillBooks
from netplan.costing.hb_gear import HB_GEAR_TOO
from netplan.costing.switches import SWITCHES, by_knowledge, known_switches, packet_ports
from netplan.errors import InfeasibleError, InputError
from netplan.faults.damage.survival import switch_loss
from netplan.inputs.choices import Ports
from netplan.inputs.option import Option
from netplan.performance.pareto import comparable, pareto_front
from netplan.performance.plan import SearchResult
from netplan.performance.proof import Levels, ProofResult, Searches, time_designs
from netplan.performance.search import PlanSearch
from netplan.questions.compare import FABRIC_ORDER, Compare
from netplan.questions.optimizing import found_graphs, hb_gear
from netplan.questions.optimizing.designs import (
    DEFAULT_RATIOS,
    Axes,
    Design,
    Limits,
    Objective,
    Space,
    SwitchChoice,
    build_space,
    constraints_of,
    design_bill,
    judge,
)
from netplan.questions.optimizing.front import (
    DesignCounts,
    FoundBy,
    FrontRow,
    Optimization,
    foreign,
    notes_of,
    why_no_time,
)
from netplan.records import replace
from netplan.reports.quantities import listed
from netplan.scenarios.bill_books import read_books
from netplan.scenarios.reading import NONE, CatalogReader, sizing_on, variants
from netplan.setup.asking import function_of
from netplan.setup.inputs import only_hb_gear
from netplan.setup.money.memory_or_gpus import MemoryTradeoff, TradeoffSolver
from netplan.setup.money.run_cost import WITHIN, RunTerms, check_within, rates_of
from netplan.setup.own_inputs import check_ranges, default_field, option_field
from netplan.setup.power_budget import POWER_BUDGET, Holding, holding
from netplan.setup.question import FOUND, NETWORK, PRICES, TRAINED, Question, Shorthand
from netplan.setup.training import check_tiers, plan_search, read_training, training_inputs
from netplan.topologies.specs import FABRICS, FabricSpec
from netplan.workloads.accelerators import Accelerator
from netplan.workloads.models import Model

LIMITS = ("price", "power_w", "cables", "lead_time_weeks")
"""What a network may be kept to."""
MOST_TRIES, LARGEST_SEED = 10_000, 10**9


@dataclass(frozen=True, kw_only=True)
class Optimize(Question[Optimization]):
    """Find networks that none beats in both cost (or power) and iteration time.

    Every fabric is sized for every HB domain, switch and oversubscription that is asked for, and
    timed under the best of all parallel plans, unless a bound proves that it is beaten. So the
    front is that of the whole space, not of a sample.

    Raises
    ------
    InputError
        If an input is not allowed; the message says what is.
    InfeasibleError
        If no design meets all demands, or none can train the model: by how much the nearest fails.

    Examples
    --------
    >>> answer = optimize("rail-only-paper", gpus=4096, model="gpt-175b",
    ...     fabrics=("rail-only", "fat-tree"), radices=(64, 128))
    >>> [(row.design.choice.spec.name, row.design.fabric.sizing.hb_size) for row in answer.rows]
    [('rail-only', 1024)]
    """

    command: ClassVar[str] = "optimize"
    examples: ClassVar[tuple[str, ...]] = (
        "netplan optimize",
        "netplan optimize hgx-h100 --budget 120e6 --survives-switch",
        "netplan optimize --hb-size 72 --radix 64 --radix 128 --radix 512",
        "netplan optimize hgx-h100 --switch qm9700 --switch sn5600 --for power",
        "netplan optimize hgx-h100 --gpus 4096 --search graphs --tries 8",
    )

    reads: ClassVar[frozenset[str]] = (
        NETWORK
        | TRAINED - {"hybrid_stages"}  # its --force replaces files
        | PRICES
        | FOUND
        | {"switch", "fabrics", "cards", "expanded_memory", "networks"}
        | {"economics", "gpu_hour", "pue", "cooling"}
    )
    varies: ClassVar[tuple[str, ...]] = (
        *("hb_size", "radix", "switch", "oversubscription", "expanded_memory"),
    )
    older: ClassVar[Mapping[str, str]] = {
        "hb_sizes": "hb_size",
        "radices": "radix",
        "switches": "switch",
        "oversubscriptions": "oversubscription",
        "expanded_memories": "expanded_memory",
    }
    shorthands: ClassVar[Mapping[str, Shorthand]] = {
        "budget": Shorthand(
            "limits", "price", Option("Highest price of the network, such as 200e6.", "real", low=0)
        ),
        "max_power_w": Shorthand(
            "limits",
            "power_w",
            Option(
                "Highest power of the network [W].", "real", flag="--max-power", unit="W", low=0
            ),
        ),
        "max_cables": Shorthand(
            "limits", "cables", Option("Most links, those of hosts included.", "whole", low=1)
        ),
        "max_lead_time_weeks": Shorthand(
            "limits",
            "lead_time_weeks",
            Option(
                "Only switches that come within so many weeks.",
                "real",
                flag="--max-lead-time",
                unit="weeks",
                low=0,
                metavar="WEEKS",
            ),
        ),
    }
    workload: ClassVar[str] = "training"

    objective: Objective = default_field(
        "What is set against iteration time.", "choice", flag="--for", choices=("cost", "power")
    )
    searched: Literal["catalog", "graphs"] = option_field(
        "Designs of the catalog, or searched graphs, too.",
        "choice",
        flag="--search",
        default="catalog",
        choices=("catalog", "graphs"),
    )
    degree: int | None = option_field(
        "Links of a switch to others at most.", "whole", low=3, otherwise="all ports left"
    )
    tries: int = option_field(
        "Draws of each searched graph.", "whole", default=4, low=1, high=MOST_TRIES
    )
    seed: int = option_field(
        "Number of the first draw of each graph.", "whole", default=0, low=0, high=LARGEST_SEED
    )
    slower: float = option_field(
        "Leave out graphs slower than the front by more.", "percent", default=0.1, low=0
    )
    within: float = default_field(WITHIN, "percent")
    survives_switch: bool = option_field(
        "Only what no failure of a single switch parts.", "flag", default=False
    )
    delivery: str | None = option_field(
        "Only switches so available.", "choice", choices=("shipping", "announced")
    )
    power_budget: float | None = option_field(POWER_BUDGET, "power", metavar="POWER", unit="W")
    limits: Mapping[str, float] = option_field(
        "Keep to a limit, such as price=200e6 (repeatable).",
        "amounts",
        choices=LIMITS,
        flag="--limit",
        metavar="WHAT=N",
        many=True,
        default=None,
    )

    def ask(self) -> Optimization:
        """Build the space, judge every design, time those that may lie on the front.

        At the size that a power budget holds if there is one, which that of a comparison is.
        """
        if self.power_budget is None:
            return self.at_size(None)
        as_compared = self.also(Compare)
        budget = as_compared.within_power(self.power_budget, self.varied.get("hb_size", ()))
        return self.with_values(gpus=budget.gpus).at_size(budget)

    def at_size(self, budget: Budget | None) -> Optimization:
        """The answer for the GPUs of the cluster, in a hall of some power or any."""
        only_hb_gear(self)
        check_within(self.within)
        wish = self._wish
        limits = self._limits
        if budget:
            limits = structs.replace(limits, power_budget_w=budget.budget_w, hall=budget.hall)
        reader, on = self.reader_and_chip()
        chips = variants(
            reader, on, self._side_by_side("expanded_memory") or (self.cluster.expanded_memory,)
        )
        check_tiers(self, *(variant.chip for variant in chips))
        books = self._bill_books(reader)
        specs, apart = _specs(reader, on, self)
        axes = Axes(
            specs=specs,
            hb_sizes=self._side_by_side("hb_size") or self._domains(on, books),
            switches=self._switches(reader, on.card_gbps, limits),
            oversubscriptions=self._side_by_side("oversubscription"),
            ports=self.cluster.ports,
            variants=chips,
        )
        size = self.cluster.gpus
        _check(axes, on, size)
        searches = {
            variant.name: plan_search(self, read_training(self, reader, variant.chip, size))
            for variant in chips
        }
        batch = searches[chips[0].name].training.batch
        inputs = self._resolved(axes, batch, on, books, reader)
        space = build_space(axes, size, books)
        rates = rates_of(self, "price", reader, 1, books.prices, books.prices.currency)
        wanted = Wanted(limits, self.objective, books, rates)
        if wish is None:
            answer = _front_of(space, inputs, searches, wanted)
        else:
            demands = constraints_of(limits, self.objective, books)
            catalog = found_graphs.CatalogDesigns(space.designs, demands)
            graphs = found_graphs.find_graphs(axes, size, books, self.objective, wish, catalog)
            answer = _with_graphs((space, graphs), inputs, searches, wanted, wish)
        weigh = partial(TradeoffSolver, chip=on, books=books, within=self.within)
        if budget:
            run = searches[chips[0].name].training
            tokens = run.batch * run.model.sequence_length if isinstance(run.model, Model) else 0
            held = _held(answer.rows, budget, books, self.cluster.ports)
            budget = replace(budget, held=held, tokens=tokens, networks=answer.rows)
        return replace(
            answer,
            budget=budget,
            notes=(*answer.notes, *foreign(specs, apart, on)),
            trades=tuple(_trades(answer.rows, searches, weigh)),
        )

    def _bill_books(self, reader: CatalogReader) -> BillBooks:
        """What bills are made from; several HB sizes are weighed with the gear inside them.

        That of one size alone is the same in every design.
        """
        books = read_books(self.cluster, self.books, reader)
        several = self._side_by_side("hb_size")
        weighs = len(several) > 1 or (not several and books.hall is None)
        weighs = weighs and hb_gear.priced(books.prices)
        return books.with_gear(counted=books.gear_counted or weighs)

    def _domains(self, on: Accelerator, books: BillBooks) -> tuple[int, ...]:
        """HB domains where none are asked for: those that the accelerator is sold in [1].

        Of a paper's cluster, whose hall is as published, the size of the domains is the question:
        powers of two from 8 to 1,024 and the accelerator's own domain, cut to the cluster; with
        them a rack of HB switches, and those that the book prices, where they fill the cluster.
        """
        if books.hall is None:
            gpus = self.cluster.gpus
            powers = {2**power for power in range(3, 11) if 2**power <= gpus}
            rack = books.gear.rack if books.gear and hb_gear.priced(books.prices) else 0
            known = {size for size in (rack, *books.prices.hb_sizes) if size and gpus % size == 0}
            return tuple(sorted(powers | known | {min(on.hb_size, max(gpus, 1))}))
        return (min(on.hb_size, max(self.cluster.gpus, 1)),)

    def _resolved(
        self, axes: Axes, batch: int, on: Accelerator, books: BillBooks, reader: CatalogReader
    ) -> dict[str, Any]:
        """The inputs, with what the axes make of them."""
        limits = self._limits
        return training_inputs(
            self,
            budget=limits.budget,
            max_power_w=limits.max_power_w,
            max_cables=limits.max_cables,
            max_lead_time_weeks=limits.max_lead_time_weeks,
            batch=batch,
            fabrics=[spec.name for spec in axes.specs],
            networks=[HB_GEAR_TOO] if books.gear_counted else [],
            hb_sizes=list(axes.hb_sizes),
            radices=list(dict.fromkeys(switch.radix for switch in axes.switches)),
            switches=[switch.model.name for switch in axes.switches if switch.model],
            oversubscriptions=list(axes.oversubscriptions or DEFAULT_RATIOS),
            expanded_memories=[variant.name for variant in axes.variants if variant.name],
            link_gbps=on.card_gbps,
            set=reader.replaced(),
        )

    @property
    def _limits(self) -> Limits:
        """What the network must keep to."""
        limits = self.limits or {}
        return Limits(
            limits.get("price"),
            limits.get("power_w"),
            self.survives_switch,
            self.delivery,
            limits.get("lead_time_weeks"),
            None if (cables := limits.get("cables")) is None else int(cables),
        )

    @property
    def _wish(self) -> found_graphs.GraphWish | None:
        """Which graphs are searched; None where none are."""
        if self.searched == "graphs":
            check_ranges(self)
            return found_graphs.GraphWish(
                self.degree, range(self.seed, self.seed + self.tries), self.slower
            )
        self.reject_inputs(("degree", "tries", "seed", "slower"), "--search catalog")
        return None

    def _side_by_side(self, name: str) -> tuple[Any, ...]:
        """Values of an input that stand side by side; those of a scenario where it says one."""
        value = self.scenario.value(name)
        return self.varied.get(name) or (
            () if value is None or name in ("radix", "switch", "expanded_memory") else (value,)
        )

    def _switches(
        self, reader: CatalogReader, speed_gbps: float, limits: Limits
    ) -> tuple[SwitchChoice, ...]:
        """Switches by radix or by model; where limits ask for models, those that have a radix."""
        radices, models = self._side_by_side("radix"), self._side_by_side("switch")
        if radices and models:
            raise InputError("--radix and --switch both say which switch: give one of them")
        if not radices and self.cluster.switch is not None:
            models = models or (self.cluster.switch,)
        if models:
            named = [reader.load(SWITCHES, name) for name in models]
            ports = [packet_ports(model, speed_gbps, reader.roots) for model in named]
            return tuple(map(SwitchChoice, ports, named))
        radices = radices or (self.cluster.switch_radix,)
        if not limits.of_switches:
            return tuple(map(SwitchChoice, radices))
        # Of designs that are equally good the first is named: what is sold, and known best.
        names = by_knowledge(known_switches(reader.roots))
        known = [reader.load(SWITCHES, name) for name in names]
        choices = []
        for radix in radices:
            fitting = [
                SwitchChoice(radix, model) for model in known if model.radix(speed_gbps) == radix
            ]
            choices += fitting or [SwitchChoice(radix)]
        return tuple(choices)


optimize = function_of(Optimize)


def _check(axes: Axes, on: Accelerator, gpus: int) -> None:
    """Refuse sizes that no fabric can have; what single fabrics cannot is counted, not refused.

    Raises
    ------
    InputError
        If an HB domain or a switch is out of range, or an oversubscription is below 1:1.
    """
    for switch in axes.switches:
        for size in axes.hb_sizes:
            sizing_on(on, gpus=gpus, radix=switch.radix, hb_size=size)
    for ratio in axes.oversubscriptions:
        if not (ratio >= 1 and isfinite(ratio)):
            raise InputError(f"oversubscription {ratio:g}:1 is out of range: at least 1:1")


def _held(
    rows: Sequence[FrontRow], budget: Budget, books: BillBooks, ports: Ports
) -> tuple[Holding, ...]:
    """What each design of a front would let a hall hold."""
    held = (
        holding(
            budget.budget_w,
            budget.hall,
            budget.unit,
            row.name,
            partial(design_bill, row.design.choice, books, ports),
        )
        for row in rows
    )
    return tuple(filter(None, held))


def _specs(
    reader: CatalogReader, on: Accelerator, asked: "Optimize"
) -> tuple[tuple[FabricSpec, ...], tuple[FabricSpec, ...]]:
    """The named fabrics, or all; and apart, those whose HB domains or accelerators are others.

    Of designs that are equally good the first is named: those that are no product come first.
    """
    hb_sizes = asked._side_by_side("hb_size")  # noqa: SLF001 - of this module
    if "fabrics" in asked.given and "all" not in asked.cluster.fabrics:
        return tuple(reader.fabrics(asked.cluster.fabrics, asked.cluster)), ()
    every = reader.fabrics(FABRICS.paths(reader.roots), asked.cluster)
    known = [spec for spec in every if not spec.by_name_only]
    # By the order of a comparison; others come last, by name.
    order = {name: place for place, name in enumerate(FABRIC_ORDER)}
    usual = len(order)
    known.sort(key=lambda spec: (bool(spec.accelerators), order.get(spec.name, usual), spec.name))
    apart = [
        spec
        for spec in known
        if (hb_sizes and spec.hb_size not in (None, *hb_sizes))
        or spec.built_with(on.name)
        or spec.support_for(on).unsold
    ]
    return tuple(spec for spec in known if spec not in apart), tuple(apart)


class Wanted(Struct, frozen=True):
    """What a front is of: the limits, what is set against time, the books, what training costs."""

    limits: Limits
    objective: Objective
    books: BillBooks
    rates: RunTerms | None


def _front_of(
    space: Space, inputs: dict[str, Any], searches: Mapping[str, PlanSearch], wanted: Wanted
) -> Optimization:
    """Judge all designs, time those that may lie on the front, and compare them."""
    objective, books = wanted.objective, wanted.books
    if not space.designs:
        raise InfeasibleError(f"no design can be built: {space.unbuildable[0][1]}")
    demands = constraints_of(wanted.limits, objective, books)
    feasible, counts = judge(space.designs, demands)
    filled = [design for design in feasible if design.fabric.levels]
    weigh = wanted.objective == "cost" and books.gear_counted and hb_gear.weighed(filled)
    times, effort = _timed(feasible, searches, objective, apart=weigh)
    rows = _front(feasible, times, objective)
    front = {id(design) for row in rows for design in (row.design, *row.equal)}
    beaten = tuple(
        (design, result.time_s)
        for design, result in _with_time(feasible, times)
        if id(design) not in front
    )
    if not rows:
        lost = {design.memory for design in space.designs} - {design.memory for design in feasible}
        advice = f"; no design with {listed(sorted(lost))} meets the demands: ask for it alone"
        none = (
            "no design has an iteration time: their rings are open or their HB domains not full:"
            " change the number of GPUs or the HB domain"
        )
        reasons = (reason for by_levels in times.values() for reason in by_levels.values())
        why = str(next(reasons, none)).rstrip(".")  # of the cheapest
        raise InfeasibleError(why + (advice if lost else ""))
    tally = DesignCounts(
        size=space.size,
        built=len(space.designs),
        constraints=counts,
        feasible=len(feasible),
        untimed=sum(bool(why_no_time(design, times)) for design in feasible),
        searches=effort,
    )
    notes = (
        *_not_on_front(searches, feasible, rows),
        *notes_of(space, feasible, times, (objective, books)),
    )
    currency = books.prices.currency
    sizes = hb_gear.HbSizes()
    if weigh and wanted.rates:
        rows_by_size = hb_gear.by_size(_with_time(feasible, times), wanted.rates)
        sizes = hb_gear.HbSizes(rows_by_size, currency, wanted.rates.gpu_hour)
    main = (inputs, objective, rows, tally, notes, currency)
    return Optimization(*main, sizes=sizes, beaten=beaten)


def _with_graphs(
    spaces: tuple[Space, found_graphs.GraphSpace],
    inputs: dict[str, Any],
    searches: Mapping[str, PlanSearch],
    wanted: Wanted,
    wish: found_graphs.GraphWish,
) -> Optimization:
    """The front of catalog and graphs together, and what is proven of the graphs on it."""
    space, graphs = spaces
    try:
        known = _points(_front_of(space, inputs, searches, wanted).rows)
    except InfeasibleError:
        known = []
    both = Space((*space.designs, *graphs.designs), space.unbuildable)
    answer = _front_of(both, inputs, searches, wanted)
    limit_s = max((result.time_s for _, (_, result) in known), default=inf) * (1 + wish.slower)
    rows = [row for row in answer.rows if row.row.time_s <= limit_s]
    front = tuple(replace(row, number=number) for number, row in enumerate(rows, 1))
    points = _points(front)
    catalog = [point for _, point in known]
    found_rows = found_graphs.FoundGraphs(
        wish,
        graphs,
        rows=tuple(found_graphs.proven_graphs(points, graphs)),
        beaten=tuple(found_graphs.beaten_designs(points, catalog, wanted.objective)),
        front=len(known),
        slow=len(answer.rows) - len(front),
    )
    return replace(answer, rows=front, graphs=found_rows)


def _points(rows: Sequence[FrontRow]) -> list[tuple[int, found_graphs.Point]]:
    """Number, design and plans of each point of a front."""
    return [(row.number, (row.design, row.row.timed)) for row in rows if row.row.timed]


def _not_on_front(
    memories: Iterable[str], feasible: Sequence[Design], rows: Sequence[FrontRow]
) -> Iterator[str]:
    """Expanded memories, or none, of which no design is on the front, and why."""
    shown = {design.memory for row in rows for design in (row.design, *row.equal)}
    met = {design.memory for design in feasible}
    for memory in memories:
        what = "without expanded memory" if memory == NONE else f"with {memory}"
        if memory in shown:
            continue
        if memory in met:
            yield f"No design {what} is on the front: others are no dearer and no slower."
        else:
            yield f"No design {what} meets the demands."


def _timed(
    designs: Sequence[Design],
    searches: Mapping[str, PlanSearch],
    objective: Objective,
    *,
    apart: bool,
) -> tuple[FoundBy, Searches]:
    """Time what may lie on the front of each expanded memory, which that of all is part of.

    Where HB domains are weighed, what may lie on the front of those of one size.
    """
    timings: dict[str, dict[Levels, ProofResult]] = {memory: {} for memory in searches}
    effort, groups = Searches(0, 0, 0, 0, 0), defaultdict(list)
    for design in designs:
        if design.fabric.levels:
            size = design.fabric.sizing.hb_size if apart else 0
            point = comparable(design.value(objective)), design.fabric.levels
            groups[design.memory, size].append(point)
    for (memory, _), points in groups.items():
        known, search_effort = time_designs(searches[memory], points)
        timings[memory] |= known
        effort = Searches(*map(add, structs.astuple(effort), structs.astuple(search_effort)))
    return timings, effort


def _trades(
    rows: Sequence[FrontRow],
    searches: Mapping[str, PlanSearch],
    weigh: Callable[[PlanSearch], TradeoffSolver],
) -> Iterator[MemoryTradeoff]:
    """Each expanded memory of the front, in its cheapest design, against more GPUs without.

    Nothing where no design is without.
    """
    if NONE not in searches:
        return
    weighing, weighed_memories = weigh(searches[NONE]), set()
    for row in rows:
        choice = row.design.choice
        if choice.variant.memory is not None and row.design.memory not in weighed_memories:
            weighed_memories.add(row.design.memory)
            of_switch = replace(weighing, books=replace(weighing.books, switch=choice.switch.model))
            sizing = row.design.fabric.sizing
            yield of_switch.trade(choice.spec, sizing, choice.variant, row.best)


def _with_time(designs: Sequence[Design], timings: FoundBy) -> list[tuple[Design, SearchResult]]:
    """The designs that have a time, with it."""
    return [
        (design, result)
        for design in designs
        if isinstance(result := timings[design.memory].get(design.fabric.levels), SearchResult)
    ]


def _front(designs: Sequence[Design], times: FoundBy, objective: Objective) -> tuple[FrontRow, ...]:
    """The designs that no other beats, equal ones in one row."""
    timed = _with_time(designs, times)
    points = [
        (comparable(design.value(objective)), comparable(result.time_s)) for design, result in timed
    ]
    rows: list[FrontRow] = []
    for first, *equal in pareto_front(points):
        design, result = timed[first]
        row, loss = timed_row(design.row, result), switch_loss(design.choice.spec, design.fabric)
        same = tuple(timed[index][0] for index in equal)
        rows.append(FrontRow(len(rows) + 1, design, row, result.best, loss, same))
    return tuple(rows)
