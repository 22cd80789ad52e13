"""Two scenarios side by side: one bill beside the other line by line, power, time, goodput."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from netplan.answers.compare_rows import priced_row, timed_row
from netplan.answers.diff_answer import DiffAnswer
from netplan.answers.diff_sides import Goodput, ScenarioSide
from netplan.costing.fabric_bill import BillBooks, make_bill
from netplan.costing.switches import require_switch
from netplan.documents import read_yaml_value
from netplan.errors import InputError
from netplan.inputs.readers import read_settings
from netplan.performance.iteration_model import ITERATION_MODELS, SIMULATED
from netplan.records import replace
from netplan.scenarios.bill_books import spares_of, whole_books
from netplan.scenarios.reading import CatalogReader, sized, variants
from netplan.scenarios.scenario import PARTS, Scenario, all_places, plain_name
from netplan.setup.asking import function_of
from netplan.setup.money.pricing import MONEY
from netplan.setup.money.run_cost import TokenCost, rates_of
from netplan.setup.own_inputs import SCENARIO, Input, option_field, own_options
from netplan.setup.question import FAILING, FOUND, NETWORK, RUNS, Question
from netplan.setup.training import check_tiers, plan_search, read_training
from netplan.units import gbps
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.models import MODELS, Model

OTHER, OVERRIDES = "other", "overrides"
NAMED = ("accelerator", "fabric", "hall", "model", "switch")
"""Inputs whose values say what they are."""
OF_BILLS = frozenset({"cabling", "economics", "floor-plan", "network", "power", "switch"})
"""Roles of files that bills are made from, and nothing else."""
MOST_PLACES = 2
"""Scenarios that are told by their places [1]."""


@dataclass(frozen=True, kw_only=True)
class Diff(Question[DiffAnswer]):
    """Lay two scenarios side by side: one bill beside the other line by line, power, time.

    A is the scenario, B the OTHER one; --a and --b set single inputs, or catalog values, of one of
    them. Other options hold for both. Each has the fabric that its scenario names.

    Raises
    ------
    NetplanError
        If an input is not allowed, or nothing is laid beside the scenario; the message says what
        is.

    Examples
    --------
    >>> answer = diff("rail-only-paper", a={"radix": 64}, b={"radix": 128}, timing=False)
    >>> [(part.item, part.more, part.difference) for part in answer.parts[:2]]
    [('switches', -1280, 0.0), ('racks', -91, 0.0)]
    """

    command: ClassVar[str] = "diff"
    examples: ClassVar[tuple[str, ...]] = (
        "netplan diff hgx-b200 nvl72-gb200",
        "netplan diff --a nic=400 --b nic=800",
        "netplan diff --a fabric=rail-optimized --b fabric=rail-only --goodput",
        "netplan diff mine.yaml --b prices.prices.transceiver@400.base=500 --details",
    )

    reads: ClassVar[frozenset[str]] = (
        NETWORK
        | FOUND
        | RUNS
        | MONEY - {"fabrics"}
        | FAILING
        | {"fabric", "switch", "expanded_memory", "gpu_hour", "spare_domains"}
    )

    other: str | None = option_field("What is laid beside it: a name, or a file.", argument=True)
    a: Mapping[str, Any] | None = option_field(
        "Of A alone, such as radix=64 (repeatable).",
        "changes",
        flag="--a",
        metavar="NAME=VALUE",
        many=True,
    )
    b: Mapping[str, Any] | None = option_field(
        "Of B alone, such as radix=128, or accelerator.memory_bytes=96e9.",
        "changes",
        flag="--b",
        metavar="NAME=VALUE",
        many=True,
    )
    goodput: bool = option_field("Goodput of both, too (takes seconds).", "flag", default=False)
    timing: bool = option_field(
        "Leave iteration times out.", "flag", flag="--no-timing", default=True
    )

    sides: tuple[Scenario, Scenario] | None = None
    """Both scenarios as they are named."""
    shared: Mapping[str, Any] = field(default_factory=dict)
    """What is given for both."""

    @classmethod
    def make(cls, *arguments: Any, **given: Any) -> Self:  # noqa: ANN401 - inputs of any type
        """The question about a scenario and, if a second one is named, about that beside it.

        Parameters
        ----------
        arguments
            Up to two scenarios: a name, a path or a `Scenario`.
        given
            Inputs of the question, and of both scenarios, by name.

        Returns
        -------
        Diff
            The question.

        Raises
        ------
        NetplanError
            If there is no such input or scenario, or a value is not allowed.
        """
        if len(arguments) > MOST_PLACES:
            raise InputError(f"netplan {cls.command} takes at most {MOST_PLACES} by their place")
        named = dict(zip((SCENARIO, OTHER), arguments, strict=False))
        return super().make(**{**named, **given})

    @classmethod
    def inputs_known(cls) -> tuple[Input, ...]:
        """Every input that it takes: the scenario before the one that is laid beside it."""
        return tuple(sorted(super().inputs_known(), key=lambda known: known.name != SCENARIO))

    @classmethod
    def about(cls, scenario: Scenario, **given: Any) -> Self:  # noqa: ANN401 - inputs of any type
        """The question about a scenario that was read; errors as of :meth:`on`."""
        own_inputs = {name for name, role in _roles_of(cls).items() if role == "input"}
        shared = {name: value for name, value in given.items() if name not in own_inputs}
        other, catalog = given.pop(OTHER, None), given.get("catalog")
        named = scenario if other is None else Scenario.load(other, catalog)
        question = super().about(scenario, **given)
        label = None if other is None else named.name
        return replace(question, other=label, sides=(scenario, named), shared=shared)

    def ask(self) -> DiffAnswer:
        """Price both, time both, lay one beside the other."""
        changes = (dict(self.a or {}), dict(self.b or {}))
        if self.other is None and not any(changes):
            raise InputError(
                "netplan diff lays two scenarios side by side: name a second one, or say what"
                " differs by --a and --b, such as --b radix=64"
            )
        scenarios = self.sides or (self.before, self.before)
        asked = [self._side(*pair) for pair in zip(scenarios, changes, strict=True)]
        first = asked[0].laid()
        second = asked[1].laid(first.currency)
        for question in asked:
            question.check_finite()
        priced = zip((first, second), scenarios, changes, strict=True)
        named = []
        for side, scenario, changed in priced:  # called as its scenario with what is changed of it
            values = (f"{name}={value}" for name, value in changed.items())
            label = ", ".join([scenario.name, *values])
            named.append(replace(side, label=label, short=label))
        if self.other is None:
            named = [
                replace(side, short=question.in_short([*changes[0], *changes[1]], side))
                for side, question in zip(named, asked, strict=True)
            ]
        return DiffAnswer(self._inputs(*changes), *named)

    def _inputs(self, *changes: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs as the answer shows them: what was named, and what was given."""
        given = {name: self.scenario.value(name) for name in sorted(self.given)}
        return {
            SCENARIO: self.scenario.name,
            OTHER: self.other,
            **{name: _json_values(changed) for name, changed in zip("ab", changes, strict=True)},
            "goodput": self.goodput,
            "timing": self.timing,
            **_json_values(given),
            "set": {name: read_yaml_value(text) for name, text in self._settings().items()},
        }

    def _settings(self) -> dict[str, str]:
        """Catalog values that are replaced for both."""
        return read_settings(self.shared.get(OVERRIDES, {}))

    def _side(self, scenario: Scenario, changes: Mapping[str, Any]) -> Self:
        """The question about one of the two: what is given for both, and what for it alone."""
        given, settings = dict(self.shared), self._settings()
        for name, value in changes.items():
            part, dot, _ = name.partition(".")
            if dot and part not in PARTS:
                settings |= read_settings({name: value})
                continue
            plain = plain_name(name)
            if plain in (SCENARIO, *_roles_of(type(self))):
                raise InputError(
                    f"{name} is an input of netplan diff, not of one of its sides: give it once,"
                    f" beside --a and --b"
                )
            settings.pop(name, None)
            given[plain] = value
        side = type(self).about(scenario, **{**given, OVERRIDES: settings})
        return replace(side, timing=self.timing, goodput=self.goodput)

    def in_short(self, names: Iterable[str], side: ScenarioSide) -> str:
        """What sets one of two forms of a scenario apart, in a few words.

        Parameters
        ----------
        names
            Inputs, or catalog values, that one of the two changes.
        side
            This one, priced.

        Returns
        -------
        str
            Their values here.
        """
        sizing, known = side.bill.fabric.sizing, all_places(self.scenario.kind)
        words = {
            "workload": self.scenario.kind,
            "nic_gbps": f"{gbps(sizing.network_bytes_per_s):g}G",
            "radix": f"radix {sizing.radix}",
            "hb_size": f"HB {sizing.hb_size:,}",
            "gpus": f"{sizing.gpus:,} GPUs",
            "oversubscription": f"{sizing.oversubscription or 1:g}:1",
        }
        values: dict[str, None] = {}
        for name in names:
            plain = plain_name(name)
            if plain in words:
                values[words[plain]] = None
            elif plain in known:
                value = self.scenario.value(plain)
                if value is None:
                    usual = known[plain].option.otherwise
                    value = "the book's" if usual in ("the same", "") else usual
                value = " ".join(map(str, value)) or "none" if isinstance(value, tuple) else value
                named = "" if plain in NAMED else f"{plain} ".replace("_", " ")
                values[f"{named}{value}"] = None
            else:
                text = (self.overrides or {}).get(name)
                values["the file's value" if text is None else f"{name}={text}"] = None
        return ", ".join(values)

    def laid(self, currency: str = "") -> ScenarioSide:
        """Bill, power and time of one of the two.

        Parameters
        ----------
        currency
            Currency of its bill; its own if empty.

        Returns
        -------
        ScenarioSide
            Named as its scenario.

        Raises
        ------
        NetplanError
            If its network cannot be built, or nothing runs on it.
        """
        reader, chip = self.reader_and_chip()
        books = whole_books(self.cluster, self.books, reader)
        (spec,) = reader.fabrics([self.cluster.fabric], self.cluster)
        sizing = sized(self.cluster, chip)
        require_switch(books.switch, [spec], sizing, reader.roots)
        if books.ocs is not None and not spec.takes_circuits:
            raise InputError(
                f"--ocs {books.ocs.name} joins cubes of a torus: take --fabric torus-3d"
            )
        bill = make_bill(
            spec,
            sizing,
            books,
            spares=spares_of(self.books, reader),
            currency=currency or self.books.currency or "",
        )
        side = ScenarioSide(
            label=self.scenario.name,
            short=self.scenario.name,
            scenario=self.scenario.name,
            workload=self.scenario.kind,
            accelerator=chip.short,
            prices=books.prices.name,
            bill=bill,
            row=priced_row(spec, bill, books),
        )
        if self.timing and self.trains:
            side = self._timed(side, reader)
        elif self.timing:
            run = self._stepped if self.reinforces else self._served
            side = run(side, reader, books)
        if self.goodput:
            return replace(side, goodput=self._goodput(reader))
        self.reject_inputs(FAILING | {"spare_domains"}, "a diff without --goodput")
        reader.replaced()
        return side

    def _timed(self, side: ScenarioSide, reader: CatalogReader) -> ScenarioSide:
        """How fast it trains by its best plan."""
        rules = ITERATION_MODELS.find(self.training.iteration_model, reader.roots)
        family = ITERATION_MODELS.read(rules).data.get("family")
        if family in SIMULATED:
            untimed = (
                f"Not timed: iteration model {rules.stem} has no closed forms (netplan simulate)."
            )
            return replace(side, row=replace(side.row, notes=(*side.row.notes, untimed)))
        chip = reader.load(ACCELERATORS, self.cluster.accelerator)
        chip = variants(reader, chip, (self.cluster.expanded_memory,))[0].chip
        check_tiers(self, chip)
        training = read_training(self, reader, chip, self.cluster.gpus)
        plans = plan_search(self, training).best_on_subset(side.bill.fabric.levels)
        model, calibrated = training.model, training.calibrated
        return replace(
            side,
            row=timed_row(side.row, plans),
            model=model.title,
            batch=training.batch if isinstance(model, Model) else None,
            sequence_length=model.sequence_length if isinstance(model, Model) else 0,
            alike=(
                *(chip.name, model.name, training.assumptions.name, self.training.stack or ""),
                self.training.precision or "bf16" if calibrated else "",
            ),
        )

    def _stepped(self, side: ScenarioSide, reader: CatalogReader, books: BillBooks) -> ScenarioSide:
        """What a step of post-training takes and costs, by its best pools."""
        from netplan.setup.money.step_cost import Stepped, StepPrice, step_terms
        from netplan.setup.post_training_step import post_train

        trained = post_train(self, reader, self.cluster.fabric)
        terms = step_terms(self, reader, books.prices, side.currency)
        stepped = Stepped(trained, StepPrice.of(trained, side.bill, terms))
        row = replace(side.row, stepped=stepped, notes=(*side.row.notes, *trained.notes))
        return replace(side, row=row, model=reader.load(MODELS, self.scenario.workload.model).title)

    def _served(self, side: ScenarioSide, reader: CatalogReader, books: BillBooks) -> ScenarioSide:
        """How it serves by its best plan."""
        from netplan.setup.serving_run import serve_best

        terms = rates_of(self, "price", reader, 1, books.prices, side.currency)
        searched, plan = serve_best(self, reader, self.cluster.fabric)
        served = TokenCost.of(plan, side.bill, terms)
        row = replace(side.row, served=served, notes=(*side.row.notes, *searched.notes))
        return replace(side, row=row, model=reader.load(MODELS, self.serving.model).title)

    def _goodput(self, reader: CatalogReader) -> Goodput:
        """What failures leave of the time, as netplan faults has it."""
        from netplan.faults.years.rates import FAILURE_BOOKS
        from netplan.faults.years.recovery_presets import RECOVERY_PRESETS
        from netplan.questions.faults import Faults

        if not self.trains:
            raise InputError(
                f"--goodput is of a training run: leave it out under {self.scenario.kind}"
            )
        reader.load(FAILURE_BOOKS, self.books.failures)
        reader.load(RECOVERY_PRESETS, self.training.checkpoints.recovery)
        reader.replaced()
        replaced = (self.overrides or {}).items()
        faults = self.also(
            Faults,
            scenario=self.scenario.replace(fabrics=(self.cluster.fabric,)),
            overrides={
                key: text for key, text in replaced if key.partition(".")[0] not in OF_BILLS
            },
        ).ask()
        forecast, bound = faults.fabrics[0].forecast, faults.fabrics[0].is_upper_bound
        ends = (forecast.goodput_low, forecast.goodput_high)
        recovery = faults.recovery
        return Goodput(
            forecast.goodput,
            forecast.goodput_half_width,
            *ends,
            is_upper_bound=bound,
            recovery=recovery.name if recovery else "",
            counts_rolled_back=bool(recovery and recovery.counts_rolled_back),
        )


diff = function_of(Diff)


def _roles_of(kind: type[Diff]) -> dict[str, str]:
    """Roles of the question's own inputs, by name."""
    return {known.name: option.role for known, option in own_options(kind)}


def _json_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values as JSON has them."""
    kinds = (str, int, float, bool, type(None))
    return {
        name: [*value]
        if isinstance(value, tuple)
        else value
        if isinstance(value, kinds)
        else str(value)
        for name, value in values.items()
    }
