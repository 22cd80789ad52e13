"""All fabrics side by side: what each needs, what it costs and draws, how fast it trains."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from math import inf, lcm
from typing import TYPE_CHECKING, Any, ClassVar, get_args

from netplan.answers.budget_answer import Budget
from netplan.answers.compare_answer import Comparison
from netplan.answers.compare_cases import ComparisonCases
from netplan.answers.compare_rows import (
    ANY_TO_ANY,
    BASELINE,
    NO_STEP,
    UNSERVED,
    About,
    DomainRow,
    FabricRow,
    Paper,
    network_price,
    priced_row,
    timed_row,
)
from netplan.answers.compare_steps import DOMAINS, OVERSUBSCRIPTIONS, StepPays, leading, step_pays
from netplan.answers.sites_bill import SitesBill
from netplan.costing.fabric_bill import BillBooks, make_bill
from netplan.costing.materials import Compute
from netplan.costing.switches import SWITCHES, require_switch
from netplan.decide.candidates import Rule
from netplan.decide.verdict import BandwidthSolver, bandwidth_needed, decide
from netplan.errors import InfeasibleError, InputError, not_built
from netplan.levels import Level
from netplan.performance.forwarding import Forwarding, forwarding_of
from netplan.performance.iteration_model import ITERATION_MODELS
from netplan.performance.plan import SearchResult
from netplan.performance.search import PlanSearch
from netplan.questions.beyond_the_bill import beyond_the_bill, other_hall
from netplan.records import replace
from netplan.reports.quantities import listed
from netplan.scenarios.bill_books import books_of_sites, gear_counted, read_books
from netplan.scenarios.reading import (
    NIC_KEY,
    NONE,
    CatalogReader,
    ChipVariant,
    in_planes,
    sized,
    variants,
    with_memory,
)
from netplan.scenarios.scenario import Scenario, all_places
from netplan.setup.asking import function_of
from netplan.setup.inputs import asked_by_name, fabrics_asked, only_hb_gear, span_of
from netplan.setup.money import run_cost
from netplan.setup.money.pricing import cooling_kind
from netplan.setup.over_sites import BOOKS, SitePlans
from netplan.setup.own_inputs import default_field, option_field, own_options
from netplan.setup.placed_run import PlacedRun
from netplan.setup.power_budget import POWER_BUDGET, common_size, hall_of, holdings
from netplan.setup.question import FOUND, NETWORK, PRICES, RUNS, SPAN, Question
from netplan.setup.software import software_words
from netplan.setup.training import check_tiers, plan_search, read_training, training_inputs
from netplan.topologies.build import build_fabric
from netplan.topologies.cliffs import cliffs_of
from netplan.topologies.fabric import Sizing
from netplan.topologies.specs import FABRICS, FabricSpec
from netplan.workloads.accelerators import ACCELERATORS, Accelerator
from netplan.workloads.models import MODELS, Model

if TYPE_CHECKING:
    from netplan.setup.money.memory_or_gpus import MemoryTradeoff
    from netplan.setup.serving_run import ServingCache
    from netplan.workloads.families import OtherModel

TOGETHER = {"accelerator", "nic_gbps"}
"""Inputs of which several values of both make a case each."""

RAIL_ONLY, PAPER, MEMORY = "rail-only", "rail-only-paper", "expanded_memory"
DOMAIN_SIZES = (8, 72, 256)
"""HB domains that are laid beside the cluster's own: HGX servers, NVL72 racks, the paper's [1]."""
MOST_UNSOLD_TIMED = 1_048_576
"""GPUs of a power budget from which fabrics that nobody sells for them have no time [1]."""
FABRIC_ORDER = (
    "rail-optimized",
    "rail-only",
    "fat-tree",
    "dgx-superpod",
    "dgx-1",
    "dgx-2",
    "dragonfly",
    "torus-2d",
    "torus-3d",
)


@dataclass(frozen=True, kw_only=True)
class Compare(Question[Comparison | ComparisonCases]):
    """Put all fabrics side by side: what each needs, costs and draws, how fast it trains or serves.

    Names are catalog names (see ``netplan catalog list``) or paths to files.

    Raises
    ------
    NetplanError
        If an input is not allowed, or no fabric can be built; the message says what can.

    Examples
    --------
    >>> answer = compare("rail-only-paper", gpus=32768, radix=128,
    ...     fabrics=("rail-optimized", "rail-only"))
    >>> [(row.name, row.fabric.switches, row.cost.base) for row in answer.rows]
    [('rail-optimized', 1280, 196083712.0), ('rail-only', 256, 49020928.0)]
    """

    command: ClassVar[str] = "compare"
    examples: ClassVar[tuple[str, ...]] = (
        "netplan compare --gpus 32768 --radix 128",
        "netplan compare --hb-size 8 --hb-size 72 --hb-size 144",
        "netplan compare --accelerator h200 --accelerator b200 --nic 400 --nic 800",
        "netplan compare nvl72-gb200 --model deepseek-v3 --iteration-model 4d",
        "netplan compare hgx-h100 --gpus 4096 --fabric rail-only --fabric fat-tree",
        "netplan compare --power-budget 20MW --gpu-power-cap 80%",
        "netplan compare hgx-h100 --memory model --expanded-memory none --expanded-memory cxl-box",
    )

    reads: ClassVar[frozenset[str]] = (
        NETWORK
        | RUNS
        | PRICES
        | FOUND
        | {"switch", "fabrics", "hall", "cards", "expanded_memory", "networks"}
        | {"economics", "gpu_hour", "tokens"}
        | {"pue", "cooling"}
        | SPAN
    )
    varies: ClassVar[tuple[str, ...]] = (
        *("hb_size", "accelerator", "nic_gbps", "radix", "switch", "oversubscription"),
        "expanded_memory",
    )
    older: ClassVar[Mapping[str, str]] = {"expanded_memories": "expanded_memory"}

    rule: Rule = default_field(run_cost.RULE, "choice", choices=get_args(Rule))
    within: float = default_field(run_cost.WITHIN, "percent")
    power_budget: float | None = option_field(POWER_BUDGET, "power", metavar="POWER", unit="W")
    timing: bool = option_field(
        "Leave the iteration time out.", "flag", flag="--no-timing", default=True
    )

    def __post_init__(self) -> None:
        """Refuse what no network could be recommended by."""
        super().__post_init__()
        run_cost.check_within(self.within)

    def ask(self) -> Comparison | ComparisonCases:
        """Size, price and time every fabric; once for each value of a flag that is repeated."""
        only_hb_gear(self)
        several = [
            name for name, values in self.varied.items() if len(values) > 1 and name != MEMORY
        ]
        if len(several) > 1 and set(several) != TOGETHER:
            flags = " and ".join(all_places()[name].option.flag_of(name) for name in several)
            raise InputError(
                f"{flags} are repeated: repeat one of them at a time, or accelerators and --nic"
            )
        if not several:
            return self.comparison()
        names = tuple(several)
        flags = " ".join(all_places()[name].option.flag_of(name) for name in names)
        cases = tuple(
            (values, self.case(dict(zip(names, values, strict=True))).comparison())
            for values in product(*(self.varied[name] for name in names))
        )
        return ComparisonCases(names, flags, cases)

    def case(self, values: Mapping[str, object]) -> "Compare":
        """The comparison with one of several values of some inputs."""
        given = {
            known: self.scenario.value(known)
            for known in self.given - {*values, MEMORY, "nic_gbps"}
        }
        if "nic_gbps" not in values and "nic_gbps" in self.given:
            given["nic_gbps"] = self.cluster.nic_gbps
        overrides = {key: text for key, text in (self.overrides or {}).items() if key != NIC_KEY}
        asked = Compare.about(
            self.before, **given, **values, overrides=overrides, catalog=self.catalog
        )
        varied = {MEMORY: self.varied[MEMORY]} if MEMORY in self.varied else {}
        inputs = [entry.name for entry, option in own_options(Compare) if option.role == "input"]
        return replace(asked, varied=varied, **{name: getattr(self, name) for name in inputs})

    def comparison(self) -> Comparison:
        """Size, price and time every fabric, at the size that a power budget holds if there is one.

        Times are those of one search at the end.
        """
        budget = None if self.power_budget is None else self.within_power(self.power_budget)
        asked = self.with_values(gpus=budget.gpus) if budget else self
        answer = asked.of_its_kind()
        if budget is None:
            return answer
        tokens = answer.about.batch * answer.about.sequence_length
        return replace(answer, budget=replace(budget, tokens=tokens, networks=answer.rows))

    def of_its_kind(self) -> Comparison:
        """The comparison for what runs."""
        if self.trains:
            return self._trained()
        return self._reinforced() if self.reinforces else self._served()

    def within_power(self, budget_w: float, domains: Sequence[int] = ()) -> Budget:
        """How many GPUs a power budget holds, with every fabric and with whichever is bought.

        Parameters
        ----------
        budget_w
            Power of the hall [W].
        domains
            Sizes of more HB domains that GPUs must fill [1].
        """
        if self.cluster.span.sites is not None:
            raise InputError(
                f"--power-budget beside --sites {self.cluster.span.sites}: a budget is that of one"
                " hall: leave one out, or ask about each site by itself"
            )
        reader, chip = self.reader_and_chip()
        hall = hall_of(self, reader, chip)
        specs, sizing, books = self._priced(reader, chip)
        unit = lcm(sizing.hb_size, *domains)
        held = holdings(budget_w, hall, unit, specs, sizing, books)
        sold = {spec.name for spec in specs if not spec.support_for(chip).unsold}
        sold -= {spec.name for spec in specs if spec.built_with(chip.name)}
        bought = [known for known in held if known.fabric in sold] or held
        given = "gpus" in self.given
        gpus = self.cluster.gpus if given else common_size(budget_w, chip, unit, bought)
        cooling = cooling_kind(self, reader) or ""
        return Budget(budget_w, gpus, unit, given, chip.short, cooling, hall, held)

    def _served(self) -> Comparison:
        """Size and price every fabric, and serve on it."""
        from netplan.setup.serving_run import serve_best

        reader = self.reader()
        known: ServingCache = {}

        def served(fabric: str, row: FabricRow, terms: run_cost.RunTerms | None) -> FabricRow:
            searched, plan = serve_best(self, reader, fabric, known)
            tokens_served = run_cost.TokenCost.of(plan, row.bill, terms)
            return replace(row, served=tokens_served, notes=(*row.notes, *searched.notes))

        return self._network_alone(reader, served, UNSERVED)

    def _reinforced(self) -> Comparison:
        """Size and price every fabric, and do a step of post-training on it."""
        from netplan.setup.money.step_cost import Stepped, StepPrice, step_terms
        from netplan.setup.post_training_step import post_train

        reader = self.reader()
        prices = read_books(self.cluster, self.books, reader).prices
        hours = step_terms(self, reader, prices, prices.currency)
        known: dict[object, Any] = {}

        def stepped(fabric: str, row: FabricRow, _: run_cost.RunTerms | None) -> FabricRow:
            if not self.timing:
                return row
            trained = post_train(self, reader, fabric, known)
            priced = Stepped(trained, StepPrice.of(trained, row.bill, hours))
            return replace(row, stepped=priced, notes=(*row.notes, *trained.notes))

        answer = self._network_alone(reader, stepped, NO_STEP)
        if not self.timing or self.power_budget is not None:
            return answer
        return replace(answer, pays=partial(self._pays, answer))

    def _pays(self, answer: Comparison) -> tuple[StepPays, ...]:
        """Which oversubscription and which HB domain pay for a step, on the fabric that leads."""
        row = leading(answer)
        if row is None:
            return ()
        sizes = sorted({*DOMAINS, answer.inputs["hb_size"]})
        groups = {
            "oversubscription": OVERSUBSCRIPTIONS,
            "hb-size": [size for size in sizes if size < self.cluster.gpus],
        }
        weighed = []
        for name, values in groups.items():
            cases = []
            for value in values:
                given = {name.replace("-", "_"): value, "fabrics": (self._asked_by_name[row.name],)}
                try:
                    cases.append((f"{value:g}", self.case(given).comparison()))
                except (InputError, InfeasibleError):
                    continue  # no such network
            weighed.append(step_pays(name, cases))
        return tuple(known for known in weighed if known)

    def _network_alone(self, reader: CatalogReader, run: "RunOn", refusal: str) -> Comparison:
        """Size and price every fabric, and let all but training run on it."""
        unread = {"expanded_memory", "rule", "within", "tokens"}
        self.reject_inputs(unread, f"--workload {self.scenario.kind}")
        span_of(self)
        chip = reader.load(ACCELERATORS, self.cluster.accelerator)
        specs, sizing, books = self._priced(reader, chip)
        currency = books.prices.currency
        terms = run_cost.rates_of(self, self.rule, reader, 1, books.prices, currency)
        refused: list[InputError] = []

        def complete(row: FabricRow) -> FabricRow:
            try:
                return run(self._asked_by_name[row.name], row, terms)
            except (InputError, InfeasibleError) as error:
                if isinstance(error, InputError):
                    refused.append(error)
                return replace(row, notes=(*row.notes, f"{refusal}{error}."))

        priced = sizing, books, _baseline(specs, reader, sizing, books)
        rows = tuple(_row(spec, ChipVariant(chip), priced, complete) for spec in specs)
        if refused and not any(row.served or row.stepped for row in rows):
            raise refused[0]
        inputs = self.inputs(
            hb_size=sizing.hb_size,
            fabrics=[spec.name for spec in specs],
            networks=gear_counted(self.cluster),
            expanded_memories=[],
            tokens=None,
            link_gbps=sizing.speed_gbps,
            set=reader.replaced(),
        )
        name = self.scenario.workload.model
        shown = self._shown(reader, (specs, sizing, books), reader.load(MODELS, name))
        return Comparison(inputs, rows, currency, terms, **shown)

    def _shown(
        self,
        reader: CatalogReader,
        priced: tuple[Sequence[FabricSpec], Sizing, BillBooks],
        model: "Model | OtherModel | None" = None,
        batch: int = 0,
    ) -> dict[str, Any]:
        """What people call the parts of the comparison, and rail-only by HB domain."""
        chip = reader.load(ACCELERATORS, self.cluster.accelerator)
        specs, sizing, books = priced
        about = About(accelerator=chip.short, model=model.title if model else "", batch=batch)
        if chip.sold_as:
            about = replace(about, sold_as=f"{chip.sold_in}: --accelerator {chip.sold_as}")
        if self.trains and isinstance(model, Model):
            rules = reader.load(ITERATION_MODELS, self.training.iteration_model)
            fitted = rules.calibration is not None
            dated = [f"{rules.name}, {rules.date}", *software_words(training_inputs(self))]
            about = replace(
                about,
                sequence_length=model.sequence_length,
                precision=(self.training.precision or "bf16") if fitted else "",
                dated=", ".join(dated) if fitted else f"iteration model {rules.name}",
            )
        shown: dict[str, Any] = {"about": about, "specs": {spec.name: spec for spec in specs}}
        shown["chip"] = chip
        shown["halls"] = partial(other_hall, self, specs=shown["specs"])
        shown["beyond"] = beyond_the_bill(self, books.prices, fabrics_asked(self))
        if books.haul is None:
            shown["cliffs"] = partial(cliffs_of, specs, sizing)
        if RAIL_ONLY in fabrics_asked(self):
            rails, *clos = (
                _spec(name, specs, reader, sizing.cards) for name in (RAIL_ONLY, *ANY_TO_ANY)
            )
            shown["domains"] = partial(rail_only_domains, rails, clos, sizing, books)
            if self.scenario.name != PAPER:
                shown["paper"] = partial(_paper, self)
        return shown

    def _priced(
        self, reader: CatalogReader, chip: Accelerator
    ) -> tuple[list[FabricSpec], Sizing, BillBooks]:
        """Fabrics, the cluster, and what bills are made from."""
        books = replace(
            books_of_sites(
                *(read_books(self.cluster, self.books, reader), span_of(self), self.books, reader)
            ),
            switch=reader.named(SWITCHES, self.cluster.switch),
        )
        specs = reader.fabrics(fabrics_asked(self), self.cluster)
        sizing = sized(self.cluster, chip)
        if books.haul is not None:
            books.haul.deal(sizing)  # refuses sites that no fabric could have
        require_switch(books.switch, specs, sizing, reader.roots)
        return specs, sizing, books

    def _trained(self) -> Comparison:
        """Size, price and time every fabric."""
        reader, chip = self.reader_and_chip()
        chips = variants(
            reader, chip, self.varied.get("expanded_memory", (self.cluster.expanded_memory,))
        )
        check_tiers(self, *(variant.chip for variant in chips))
        designs = [
            (
                variant,
                plan_search(self, read_training(self, reader, variant.chip, self.cluster.gpus)),
            )
            for variant in chips
        ]
        training = designs[0][1].training
        specs, sizing, books = self._priced(reader, chip)
        currency = books.prices.currency
        run = (training.model, training.batch)
        terms = run_cost.run_terms(self, self.rule, reader, run, books.prices, currency)
        inputs = training_inputs(
            self,
            hb_size=sizing.hb_size,
            batch=training.batch,
            fabrics=[spec.name for spec in specs],
            networks=gear_counted(self.cluster),
            expanded_memories=[variant.name for variant, _ in designs if variant.name],
            link_gbps=sizing.speed_gbps,
            set=reader.replaced(),
        )
        priced = sizing, books, _baseline(specs, reader, sizing, books)
        rows = tuple(replace(row, terms=terms) for row in self._rows(specs, designs, priced))
        if not self.timing:
            shown = self._shown(reader, (specs, sizing, books))
            return Comparison(inputs, rows, currency, terms, **shown)
        shown = self._shown(reader, (specs, sizing, books), *run)
        shown["forwarding"] = partial(_forwarding, rows, designs[0][1])
        if books.haul is not None:  # bandwidths and memories are weighed in one site
            return Comparison(inputs, rows, currency, terms, **shown)
        probe = _probe(specs, sizing, designs)
        comparison = Comparison(inputs, rows, currency, terms, probe, **shown)
        weighed = {"chip": chip, "books": books, "within": self.within, "terms": terms}
        trades = _trades(comparison, designs, (specs, sizing), **weighed)
        return replace(comparison, trades=tuple(trades))

    def _times(self, spec: FabricSpec, variant: ChipVariant) -> bool:
        """Whether a fabric is timed: a budget of gigawatts not on those that nobody sells."""
        large = self.power_budget is not None and self.cluster.gpus > MOST_UNSOLD_TIMED
        return self.timing and (not large or not spec.support_for(variant.chip).unsold)

    def _rows(
        self,
        specs: Sequence[FabricSpec],
        designs: Sequence["Timed"],
        priced: tuple[Sizing, BillBooks, float],
    ) -> tuple[FabricRow, ...]:
        """The row of every fabric with every accelerator.

        Raises
        ------
        InfeasibleError
            If no fabric can be built.
        """
        over: OverLevels | None = {} if priced[1].haul is not None else None
        rows = tuple(
            _row(
                spec,
                variant,
                priced,
                partial(self._timed, search if self._times(spec, variant) else None, over),
            )
            for spec in specs
            for variant, search in designs
        )
        if all(row.fabric is None for row in rows):
            raise InfeasibleError(f"{rows[0].name}: {rows[0].notes[-1]}")
        if self.timing and not any(row.best for row in rows):
            from netplan.setup.runs import largest_fitting

            fabric = next((row.fabric for row in rows if row.fabric and row.fabric.levels), None)
            name = largest_fitting(self, fabric.levels) if fabric else None
            if name is None:
                return rows
            note = f"Of our models {name} is the largest that fits: --model {name}."
            return tuple(replace(row, notes=(*row.notes, note)) for row in rows)
        return rows

    def _timed(
        self, search: PlanSearch | None, over: "OverLevels | None", row: FabricRow
    ) -> FabricRow:
        """The row with its best plan; fabrics with equal levels share one search.

        Over several sites it is the plan and the time that ``netplan sites`` has.
        """
        best = search.best_on_subset(row.fabric.levels) if search and row.fabric else None
        if over is None or row.fabric is None or not isinstance(best, SearchResult):
            return timed_row(row, best)
        key = row.fabric.levels, row.fabric.sizing.hb_size, row.memory
        if key not in over:
            over[key] = self._over_sites(row)
        run = over[key]
        if isinstance(run, str):
            return timed_row(row, run)
        there = replace(best, plans=(run.timed_there,), settings=(run.setting,))
        row = replace(row, over=run.over, notes=(*row.notes, *run.told))
        return timed_row(row, there)

    def _over_sites(self, row: FabricRow) -> PlacedRun | str:
        """The run over the sites on a fabric, or why there is none."""
        names = self._asked_by_name
        others = names.keys() - {row.name}
        memory = None if row.memory in ("", NONE) else row.memory
        asked = self.with_values(fabric=names[row.name])
        if row.memory:
            asked = asked.with_values(expanded_memory=memory)
        try:
            return SitePlans.of(asked, roles=BOOKS | others).run()
        except (InputError, InfeasibleError) as error:
            return f"{error}."

    @cached_property
    def _asked_by_name(self) -> dict[str, str]:
        return asked_by_name(self, fabrics_asked(self))


compare: Callable[..., Comparison] = function_of(Compare)  # type: ignore[arg-type]


RunOn = Callable[[str, FabricRow, run_cost.RunTerms | None], FabricRow]
"""What completes the row of a fabric, which is asked for by a name."""

Timed = tuple[ChipVariant, PlanSearch]
"""An accelerator of a comparison, and the search for plans on it."""

OverLevels = dict[tuple[tuple[Level, ...], int, str], "PlacedRun | str"]
"""Runs over sites by levels, HB domain and memory, or why there is none."""


def _row(
    spec: FabricSpec,
    variant: ChipVariant,
    priced: tuple[Sizing, BillBooks, float],
    complete: Callable[[FabricRow], FabricRow],
) -> FabricRow:
    """The row of a fabric with one accelerator, of which more is told where it can be built."""
    sizing, books, baseline = priced
    others = spec.built_with(variant.chip.name)
    try:
        fabric = build_fabric(spec, sizing)
        counted = replace(books, compute=Compute(memory=variant.memory))
        bill = make_bill(spec, sizing, counted, fabric=fabric)
    except (InputError, InfeasibleError) as error:
        notes = (not_built(spec.name, error),)
        row = FabricRow(spec.name, spec.title, notes, memory=variant.name)
    else:
        row = replace(priced_row(spec, bill, books), memory=variant.name)
        alone = partial(make_bill, spec, sizing, replace(counted, haul=None))
        row = replace(row, in_sites=SitesBill.of(bill, alone))
        network = row.cost.base - bill.cost_of("memory", "accelerators").base if row.cost else 0.0
        saved = 1 - network / baseline if row.cost and baseline else None
        unsold = spec.support_for(variant.chip).unsold
        row = replace(complete(row), cost_reduction=saved, unsold=unsold)
    note = f"Built with {listed(others, 'or')}, so not recommended here."
    return replace(row, built_with=others, notes=(*row.notes, note)) if others else row


def _forwarding(rows: Sequence[FabricRow], search: PlanSearch) -> Forwarding | None:
    """What rails lose against the any-to-any Clos by what they forward for experts, if both train.

    None without experts.
    """
    known = {row.name: row.fabric for row in rows if row.best}
    rails, baseline = known.get(RAIL_ONLY), known.get(BASELINE)
    return forwarding_of(search, rails.levels, baseline.levels) if rails and baseline else None


def _trades(
    answer: Comparison,
    designs: Sequence[Timed],
    asked: tuple[Sequence[FabricSpec], Sizing],
    **weighed: Any,  # noqa: ANN401 - of any type
) -> "Iterator[MemoryTradeoff]":
    """Each expanded memory against more GPUs without, on the fabric that is recommended with it.

    Nothing where no design is without.
    """
    specs, sizing = asked
    plain = next((search for variant, search in designs if variant.name == NONE), None)
    if plain is None:
        return
    from netplan.setup.money.memory_or_gpus import TradeoffSolver

    weighing = TradeoffSolver(plain, **weighed)
    known = {spec.name: spec for spec in specs}
    for variant, _ in designs:
        if variant.memory is None:
            continue
        rows = {row.label: row for row in answer.rows if row.memory == variant.name}
        verdict = decide([row.candidate(answer.terms) for row in rows.values()], answer.basis)
        name = (verdict.fabric or next(iter(verdict.tied), None)) if verdict else None
        row = rows[name] if name else min(rows.values(), key=lambda row: row.time_s)
        if row.best is not None:
            yield weighing.trade(known[row.name], sizing, variant, row.best)


def rail_only_domains(
    rails: FabricSpec,
    clos: Sequence[FabricSpec],
    sizing: Sizing,
    books: BillBooks,
    sizes: Sequence[int] = DOMAIN_SIZES,
) -> tuple[DomainRow, ...]:
    """Rail-only networks with HB domains of several sizes: counted and priced, never timed.

    Parameters
    ----------
    rails, clos
        Rail-only, and the any-to-any networks of which savings are counted against the cheapest.
    sizing, books
        The cluster, and what bills are made from.
    sizes
        GPUs of the domains that are asked for, beside those of the cluster [1].

    Returns
    -------
    tuple of DomainRow
        One a size that the cluster can have, the smallest first.
    """
    rows = []
    for size in sorted({sizing.hb_size, *sizes}):
        if size > sizing.gpus:
            continue
        sized_so = replace(sizing, hb_size=size)
        bare = replace(books.with_gear(counted=False), compute=Compute())
        try:
            bill, *others = (make_bill(spec, sized_so, bare) for spec in (rails, *clos))
        except (InputError, InfeasibleError):
            continue
        cost = network_price(bill)
        baseline = min(network_price(other).base for other in others)
        saved = 1 - cost.base / baseline if baseline else None
        known = bill.complete and all(other.complete for other in others)
        row = DomainRow(
            size,
            cost if known else None,
            saved if known else None,
            bill.inside.quote.total,
            bill.inside.known,
            not bill.inside.bought,
        )
        rows.append(row)
    return tuple(rows)


def _paper(asked: Compare) -> Paper | None:
    """Rail-only in the paper's own scenario: its price, and what it saves; None if not sized."""
    stated = Scenario.load(PAPER)
    paper = stated.replace(gpus=asked.cluster.gpus, radix=asked.cluster.switch_radix)
    reader = CatalogReader(asked.catalog)
    chip = reader.load(ACCELERATORS, paper.cluster.accelerator)
    try:
        sizing, books = sized(paper.cluster, chip), read_books(paper.cluster, paper.books, reader)
    except (InputError, InfeasibleError):
        return None
    rails, *clos = (FABRICS.load(name) for name in (RAIL_ONLY, *ANY_TO_ANY))
    rows = rail_only_domains(rails, clos, sizing, books, ())
    words = f"{chip.short}, {books.prices.date[:4]}"
    sizes = {"gpus": paper.cluster.gpus, "radix": paper.cluster.radix}
    changed = (name for name, size in sizes.items() if size != getattr(stated.cluster, name))
    command = " ".join([PAPER, *(f"--{name} {sizes[name]}" for name in changed)])
    known = (Paper(words, row.cost, row.saved, command) for row in rows if row.cost and row.saved)
    return next(known, None)


def _probe(
    specs: Sequence[FabricSpec], sizing: Sizing, designs: Sequence[Timed]
) -> BandwidthSolver:
    """Work out at which network bandwidth a fabric trains within a time."""
    known = {
        with_memory(spec.name, variant.name): (spec, search)
        for spec in specs
        for variant, search in designs
    }

    def probe(name: str, limit_s: float) -> float | None:
        spec, search = known[name]
        fabric = build_fabric(spec, sizing)
        domain, network = fabric.levels[:1], fabric.levels[1:]

        def time_s(times: float) -> float:
            faster = (
                replace(level, link_bytes_per_s=times * level.link_bytes_per_s) for level in network
            )
            best = search.best_on_subset((*domain, *faster))
            return best.time_s if isinstance(best, SearchResult) else inf

        times = bandwidth_needed(time_s, limit_s)
        return None if times is None else times * fabric.gpu_bytes_per_s

    return probe


def _spec(name: str, specs: Sequence[FabricSpec], reader: CatalogReader, cards: int) -> FabricSpec:
    """A fabric as it is asked for, or else as its file has it."""
    asked = next((spec for spec in specs if spec.name == name), None)
    return asked or in_planes(FABRICS.load(name, reader.roots), cards)


def _baseline(
    specs: Sequence[FabricSpec], reader: CatalogReader, sizing: Sizing, books: BillBooks
) -> float:
    """Base price that savings are counted against; 0 if it cannot be wired, or lacks parts."""
    spec = _spec(BASELINE, specs, reader, sizing.cards)
    fabric = build_fabric(spec, sizing)
    try:
        bill = make_bill(spec, sizing, books, fabric=fabric)
    except (InputError, InfeasibleError):
        return 0.0
    return 0.0 if bill.unpriced_apart else bill.capital.base
