"""What is answered: models on accelerators, in which numbers, timed by which iteration model.

A cell of the table is one question about one of them. It is asked as a user would ask it, as far as
files decide: the same functions read a run, refuse it or say how far its time may be off as those
behind the command. Not asked is what depends on the size of a cluster: whether a plan fits.

=============  ====================================================================================
fitted         runs, or kernels of servers, like this one were measured, and bars are theirs
transferred    bars are wide: rates, formulas or the error are carried over from others
assumed        nothing says how far a time may be off: papers' iteration models, rooflines
refused        why not, in one sentence
=============  ====================================================================================
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, ClassVar, Literal, get_args

from msgspec import Struct

from netplan.catalog import Catalog
from netplan.errors import CatalogError, InputError, NetplanError
from netplan.inputs.choices import AnyStrategy, ServingFormat, TrainingPrecision
from netplan.inputs.readers import NEWEST_SCORED
from netplan.performance.compute import check_formulas
from netplan.performance.evaluation import bar_of
from netplan.performance.iteration_model import ITERATION_MODELS, IterationModel
from netplan.performance.mapping.partitions import ComputeTiles, untiled_flops_per_s
from netplan.performance.plan import Plan
from netplan.performance.serving.cases import domain_levels
from netplan.performance.setting import Setting
from netplan.questions.search import Search
from netplan.questions.serving import ServingQuestion
from netplan.records import replace
from netplan.reports.answer import Answer
from netplan.reports.screen import Screen, more_of
from netplan.reports.sections import Heading, Notes, Section, Table, column, columns
from netplan.scenarios.reading import CatalogReader
from netplan.scenarios.scenario import USUAL_TIMES
from netplan.setup.asking import function_of
from netplan.setup.own_inputs import option_field
from netplan.setup.question import Question
from netplan.setup.serving_run import serving_case_on
from netplan.setup.training import plan_search, training_on, workload_of
from netplan.simulation.program_work import check_simulated
from netplan.traffic.placement import Degrees, Placement
from netplan.workloads.accelerators import ACCELERATORS, Accelerator
from netplan.workloads.families import OtherModel
from netplan.workloads.graph_model import GraphModel
from netplan.workloads.inference import Cut, ServingStep, inference_layer
from netplan.workloads.models import MODELS, WORKLOADS, Model
from netplan.workloads.operations import Sharding
from netplan.workloads.precision import SERVING_ALIASES

Status = Literal["fitted", "transferred", "assumed", "refused"]
ASKED = Literal["search", "simulate", "serving"]
"""Questions: plans (those of compare, cost, faults and all others that need one), a simulated
iteration, servers."""

CLUSTER = "hgx-b200"
"""Scenario of which cluster and network are; the accelerator is that of the cell."""
GPUS = 64
"""GPUs of the run that is asked about, as many as scored runs had [1]."""
TRAINED = ("bf16", "fp8", "mxfp8", "nvfp4")
"""Numbers of training that are told apart in time."""
SAME = {"fp4": "nvfp4", "fp8-current": "fp8", "fp8-cs": "fp8"}
"""Other words of training for the same numbers."""
FIRST = (USUAL_TIMES, "measured", "4d")
"""Iteration models in the order of what is known of them; papers' own come behind."""
EVERY = "all"
"""What stands for all iteration models."""
MOST_REASONS, MOST_NAMES = 4, 9
"""Reasons and names that a screen shows [1]."""


class SupportCell(Struct, frozen=True):
    """One combination: whether it is answered, and how far that is known, or why it is not."""

    question: ASKED
    model: str
    accelerator: str
    precision: str
    iteration_model: str
    status: Status
    reason: str = ""


class SupportStatus(Struct, frozen=True):
    """Status of a combination, and its reason in one sentence."""

    status: Status
    reason: str = ""


def _refused(error: NetplanError) -> SupportStatus:
    return SupportStatus("refused", str(error))


class _Training(Struct, frozen=True):
    """Runs of one iteration model in one precision, asked as a question."""

    asked: Search
    reader: CatalogReader
    rules: IterationModel
    programs: dict[tuple[str, str, bool], str]

    def verdicts(
        self, model: "Model | OtherModel", chips: Sequence[Accelerator]
    ) -> Iterator[SupportStatus]:
        """Of one model on every accelerator."""
        try:
            workload = workload_of(self.asked, model, self.rules)
        except NetplanError:
            yield from (self._refused(model, chip) for chip in chips)
            return
        for chip in chips:
            try:
                training = training_on(self.asked, self.reader, chip, GPUS, workload=workload)
                search = plan_search(self.asked, training)
                setting = search.setting
                if search.strategy != EVERY:
                    setting = replace(setting, strategy=search.strategy)
                if isinstance(model, GraphModel) and ComputeTiles.of(chip) is None:
                    untiled_flops_per_s(chip)  # refuses a chip whose rate no file says
            except NetplanError as error:
                yield _refused(error)
                continue
            unknown = self._unknown(setting)
            yield SupportStatus("refused", unknown) if unknown else self._known(setting, chip)

    def _refused(self, model: "Model | OtherModel", chip: Accelerator) -> SupportStatus:
        """Why a model is refused that no accelerator helps; what else is offered depends on it."""
        asked = self.asked.with_values(model=model.name, accelerator=chip.name)
        try:
            workload_of(asked, model, self.rules)
        except NetplanError as error:
            return _refused(error)
        raise TypeError("a model is refused, and then is not")

    def _unknown(self, setting: Setting) -> str:
        """Why the model's operations are none that the iteration model counts; empty if they are.

        They are the same on every accelerator, under software of a date or without.
        """
        run = setting.training.calibrated
        key = (setting.training.model.name, self.rules.name, run is not None and bool(run.dated))

        def counted() -> None:
            if run is not None:
                check_formulas(setting)
            setting.program(Sharding.of(1, tensor=setting.given.get("tensor", 1)))

        if key not in self.programs:
            self.programs[key] = _refusal(counted)
        return self.programs[key]

    def _known(self, setting: Setting, chip: Accelerator) -> SupportStatus:
        """How far times of a plain plan are known: replicas alone, in one HB domain or several."""
        levels = domain_levels(chip, GPUS)
        data = tuple(Degrees(data=level.size) for level in levels)
        zero = setting.zero_stage if setting.by_stack else None
        plan = Plan(Placement(data), microbatch=1, microbatches=1, zero=zero)
        bar = bar_of(setting, levels, plan)
        if bar is None:
            why = f"Iteration model {self.rules.name} says nothing of its error."
            return SupportStatus("assumed", why)
        reason = "; ".join(bar.reasons)
        return SupportStatus("fitted" if bar.basis == "calibrated" else "transferred", reason)


def _serving_statuses(
    asked: ServingQuestion, reader: CatalogReader, name: str, chips: Sequence[Accelerator]
) -> Iterator[SupportStatus]:
    """Servers of one model, by its name, on every accelerator, asked as a question."""
    try:
        model = reader.load(MODELS, name)
    except NetplanError as error:
        yield from [_refused(error)] * len(chips)
        return
    for chip in chips:
        try:
            case = serving_case_on(asked, reader, chip, model, domain_levels(chip, chip.hb_size))
        except NetplanError as error:
            yield _refused(error)
            continue
        if unknown := _unserved(model):
            yield SupportStatus("refused", unknown)
        elif case.served.kernels.source == "roofline":
            yield SupportStatus("assumed", " ".join(case.untried))
        else:
            yield SupportStatus("transferred" if case.untried else "fitted", " ".join(case.untried))


@cache
def _unserved(model: Model) -> str:
    """Why a model's layers cannot be served; empty if they can, as on any accelerator."""
    return _refusal(lambda: inference_layer(model, Cut.of(1), ServingStep("decode", 1.0, 1.0, 1.0)))


@dataclass(frozen=True, slots=True, repr=False)
class SupportAnswer(Answer):
    """The answer of ``netplan catalog support``."""

    json_parts = ("cells",)

    inputs: dict[str, Any]
    cells: tuple[SupportCell, ...]

    def in_a_line(self) -> str:
        """How many combinations are answered."""
        answered = len(self.cells) - self._counts["refused"]
        return f"{answered:,} of {len(self.cells):,} combinations are answered"

    @property
    def _counts(self) -> Counter[Status]:
        return Counter(cell.status for cell in self.cells)

    @property
    def _subject(self) -> str:
        """Model and accelerator, and what else is given."""
        model, chip, *others = self.inputs.values()
        subject = f"{model or 'every model'} on {chip or 'every accelerator'}"
        return ", ".join([subject, *(str(given) for given in others if given)])

    def summary(self) -> Iterator[Section]:
        """One model on one accelerator by numbers; of several how many combinations there are."""
        single = all(self.inputs.get(name) for name in ("model", "accelerator"))
        counts = self._counts
        named = ", ".join(f"{counts[status]:,} {status}" for status in get_args(Status))
        verdict = (f"{self.in_a_line()}: {named}.", *([] if single else self._usual()))
        yield from Screen(
            Heading(f"What is answered of {self._subject}", (CLUSTER_WORDS,)),
            verdict,
            self._by_numbers() if single else self._counted(),
            tuple(self._frequent()),
            more_of("every combination, with reasons", *FILTERS, page=False),
        ).sections()

    def sections(self) -> Iterator[Section]:
        """Every combination."""
        yield Heading(f"What is answered of {self._subject}", (CLUSTER_WORDS,))
        names = [*("question", "model", "accelerator", "precision", "iteration_model")]
        # What the heading says leaves room for reasons.
        shown: list[Any] = [
            column(name, shown="data" if self.inputs.get(name) else "all")
            for name in (*names, "status", "reason")
        ]
        yield Table("cells", shown, self.cells)
        yield Notes((("", STATUS_WORDS),))

    def _by_numbers(self) -> Table[Any]:
        """Which numbers have which status, question by question."""
        rows: dict[tuple[str, Status], dict[str, dict[str, None]]] = {}
        for cell in self.cells:
            row = rows.setdefault((cell.iteration_model, cell.status), {})
            row.setdefault(cell.precision, {})[cell.question] = None
        listed = []
        for (name, status), known in rows.items():
            for questions in dict.fromkeys(tuple(asked) for asked in known.values()):
                numbers = [number for number, asked in known.items() if tuple(asked) == questions]
                listed.append((", ".join(questions), name, ", ".join(numbers), status))
        places = ("question=0", "iteration_model=1", "precision=2", "status=3")
        return Table("cells", columns(*places), listed)

    def _counted(self) -> Table[Any]:
        """How many combinations each question and iteration model has of each status."""
        counts: dict[tuple[str, str], Counter[Status]] = {}
        for cell in self.cells:
            counts.setdefault((cell.iteration_model, cell.question), Counter())[cell.status] += 1
        rows: dict[tuple[str, str], list[str]] = {}
        for (name, question), known in counts.items():
            rows.setdefault((name, str(sorted(known.items()))), []).append(question)
        listed = [
            (", ".join(questions), name, counts[name, questions[0]])
            for (name, _), questions in rows.items()
        ]
        shown: list[Any] = [*columns("question=0", "iteration_model=1")]
        shown += [column(status, f"2.{status}") for status in get_args(Status)]
        return Table("counts", shown, listed)

    def _usual(self) -> Iterator[str]:
        """Of which names plans of the usual iteration model are fitted, and transferred."""
        side = "accelerator" if not self.inputs.get("accelerator") else "model"
        known: dict[Status, dict[str, dict[str, None]]] = {}
        for cell in self.cells:
            if (cell.question, cell.iteration_model) == ("search", USUAL_TIMES):
                names = known.setdefault(cell.status, {})
                names.setdefault(getattr(cell, side), {})[cell.precision] = None
        for status in ("fitted", "transferred"):
            names = known.get(status, {})
            listed = [f"{name} ({', '.join(numbers)})" for name, numbers in names.items()]
            if listed:
                more = len(listed) - MOST_NAMES
                end = f" and {more} more" if more > 0 else ""
                yield f"Plans by {USUAL_TIMES}, {status}: {', '.join(listed[:MOST_NAMES])}{end}."

    def _frequent(self) -> Iterator[str]:
        """The reasons that are given most often, those of the usual iteration model first."""
        reasons = Counter(
            (cell.iteration_model not in (USUAL_TIMES, ""), cell.reason)
            for cell in self.cells
            if cell.status == "refused"
        )
        ranked = sorted(reasons.items(), key=lambda entry: (entry[0][0], -entry[1]))
        for (_, reason), number in ranked[:MOST_REASONS]:
            yield f"Refused ({number:,}): {reason}."


CLUSTER_WORDS = f"single runs on {GPUS} GPUs and servers of one HB domain; not asked: what fits"
STATUS_WORDS = (
    "Fitted: runs or kernels like these were measured, and error bars are theirs. Transferred: bars"
    " are wide. Assumed: nothing says how far a time may be off."
)
FILTERS = ("--model NAME", "--accelerator NAME")


@dataclass(frozen=True, kw_only=True)
class Support(Question[SupportAnswer]):
    """What is answered: model by accelerator, precision, iteration model and question.

    Each combination is fitted, transferred or assumed, or refused in one sentence. Whether plans
    fit into memory is a matter of the cluster: ask netplan search.

    Raises
    ------
    NetplanError
        If a name is unknown.

    Examples
    --------
    >>> cells = support(model="llama-3-70b", accelerator="h100-80gb", precision="fp8").cells
    >>> [(cell.question, cell.status) for cell in cells if cell.iteration_model == "calibrated"]
    [('search', 'fitted'), ('simulate', 'fitted')]
    """

    command: ClassVar[str] = "catalog support"
    examples: ClassVar[tuple[str, ...]] = (
        "netplan catalog support",
        "netplan catalog support --model deepseek-v3 --accelerator gb300",
        "netplan catalog support --accelerator tpu-v7 --iteration-model calibrated --format csv",
        "netplan catalog support --precision fp8 --software-date none --strategy summa",
    )
    reads_from: ClassVar[frozenset[str]] = frozenset({"catalog"})

    model: str | None = option_field("Only of this model.", otherwise="every one")
    accelerator: str | None = option_field("Only on this accelerator.", otherwise="every one")
    precision: str | None = option_field(
        "Only in these numbers.", otherwise="all that are told apart"
    )
    iteration_model: str | None = option_field(
        "Only by this one, or all.",
        otherwise="all of one model or accelerator, else the usual one, calibrated",
    )
    strategy: AnyStrategy | None = option_field(
        "Of plans cut so.", "choice", choices=get_args(AnyStrategy), otherwise="1d"
    )
    software_date: str | None = option_field(
        "Under software of that month, or none.", metavar="YYYY-MM", otherwise=NEWEST_SCORED
    )

    def ask(self) -> SupportAnswer:
        """Ask every combination."""
        reader = CatalogReader(self.catalog)
        models = _records(reader, WORKLOADS, self.model)
        chips = [*_records(reader, ACCELERATORS, self.accelerator).values()]
        usual = None if self.model or self.accelerator else USUAL_TIMES
        named = self.iteration_model or usual
        rules = _records(reader, ITERATION_MODELS, None if named == EVERY else named)
        order = {name: place for place, name in enumerate(FIRST)}
        rules = dict(sorted(rules.items(), key=lambda entry: order.get(entry[0], len(order))))
        if self.precision is not None and not (*self._trained_in(), *self._served_in()):
            known = dict.fromkeys((*get_args(TrainingPrecision), *get_args(ServingFormat)))
            raise InputError(f"unknown precision {self.precision!r:.40}: use {', '.join(known)}")
        inputs = {
            "model": next(iter(models.values())).name if self.model else None,
            "accelerator": chips[0].name if self.accelerator else None,
            "precision": self.precision,
            "iteration_model": self.iteration_model,
            "strategy": self.strategy,
            "software_date": self.software_date,
        }
        cells = [*self._trained(reader, [*models.values()], chips, rules)]
        trained_so = self.strategy or self.software_date
        if self.iteration_model in (None, EVERY) and not trained_so:  # none times servers
            cells += self._served(reader, models, chips)
        return SupportAnswer(inputs, tuple(cells))

    def _trained(
        self,
        reader: CatalogReader,
        models: "Sequence[Model | OtherModel]",
        chips: Sequence[Accelerator],
        every_rules: Mapping[str, IterationModel],
    ) -> Iterator[SupportCell]:
        """Plans, and iterations that are simulated, by every iteration model."""
        programs: dict[tuple[str, str, bool], str] = {}
        how = {"strategy": self.strategy, "software_date": self.software_date}
        how = {name: value for name, value in how.items() if value is not None}
        for name, rules in every_rules.items():
            unsimulated = _refusal(partial(check_simulated, rules))
            for precision in self._trained_in():
                asked = Search.make(
                    *(CLUSTER,),
                    gpus=GPUS,
                    iteration_model=name,
                    precision=None if precision == "bf16" else precision,  # it goes without saying
                    catalog=self.catalog,
                    **how,
                )
                cases = _Training(asked, reader, rules, programs)
                for model in models:
                    for chip, verdict in zip(chips, cases.verdicts(model, chips), strict=True):
                        where = (model.name, chip.name, precision, rules.name)
                        yield SupportCell("search", *where, verdict.status, verdict.reason)
                        here = verdict
                        if unsimulated and verdict.status != "refused":
                            here = SupportStatus("refused", unsimulated)
                        yield SupportCell("simulate", *where, here.status, here.reason)

    def _served(
        self,
        reader: CatalogReader,
        models: "Mapping[str, Model | OtherModel]",
        chips: Sequence[Accelerator],
    ) -> Iterator[SupportCell]:
        """Servers, which no iteration model times."""
        for precision in self._served_in():
            asked = ServingQuestion.make(
                CLUSTER, model=next(iter(models)), precision=precision, catalog=self.catalog
            )
            for name, model in models.items():
                verdicts = _serving_statuses(asked, reader, name, chips)
                for chip, verdict in zip(chips, verdicts, strict=True):
                    where = (model.name, chip.name, precision, "")
                    yield SupportCell("serving", *where, verdict.status, verdict.reason)

    def _trained_in(self) -> tuple[str, ...]:
        """Precisions of training that are meant."""
        if self.precision is None:
            return TRAINED
        name = SAME.get(self.precision, self.precision)
        return (name,) if name in get_args(TrainingPrecision) else ()

    def _served_in(self) -> tuple[str, ...]:
        """Formats of weights that are meant."""
        known: tuple[str, ...] = get_args(ServingFormat)
        if self.precision is None:
            return known
        name = SERVING_ALIASES.get(self.precision, self.precision)
        return (name,) if name in known else ()


def _records(reader: CatalogReader, shelf: Catalog[Any], name: str | None) -> dict[str, Any]:
    """The record of a name, or all of a shelf that can be read, by their names."""
    if name is not None:
        return {name: reader.load(shelf, name)}
    known = {}
    for every in shelf.paths(reader.roots):
        with suppress(CatalogError):  # netplan catalog check says what is wrong with a file
            known[every] = reader.load(shelf, every)
    return known


def _refusal(asked: Callable[[], object]) -> str:
    """Why something is refused; empty if it is not."""
    try:
        asked()
    except NetplanError as error:
        return str(error)
    return ""


support = function_of(Support)
