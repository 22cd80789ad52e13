"""A question is a frozen dataclass: a scenario, and the few inputs that only it has.

What of the scenario means something to it, and which values may be several, stands in the class.
Flags and keywords replace single values of the scenario.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field
from functools import cache, cached_property
from math import isfinite
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

from netplan.catalog import unknown_name, user_roots
from netplan.errors import InputError
from netplan.inputs.choices import AS_PUBLISHED
from netplan.inputs.option import Option, check_range, flag_text, read_option
from netplan.inputs.readers import read_pairs
from netplan.records import replace
from netplan.reports.answer import Answer
from netplan.scenarios.parts import Books, Cluster, Serving, Training
from netplan.scenarios.reading import CatalogReader, with_cards, with_ports
from netplan.scenarios.scenario import (
    DEFAULT,
    PARTS,
    WORKLOADS,
    InputPlace,
    Scenario,
    all_places,
    every_place,
    plain_name,
    timed_as_known,
)
from netplan.setup import own_inputs
from netplan.setup.cautions import cautions, knows_boxes, meant_switch
from netplan.setup.footprint import Footprint, footprint_of
from netplan.topologies.own.functions import register_fabric
from netplan.workloads.accelerators import ACCELERATORS, Accelerator

AnswerT_co = TypeVar("AnswerT_co", bound=Answer, covariant=True)
QuestionT = TypeVar("QuestionT", bound="AnyQuestion")

TAKES_FUNCTIONS = ("fabric", "fabrics")
"""Inputs that take a function of Python: a fabric whose graph it makes."""
NETWORK = frozenset(
    {"gpus", "accelerator", "hb_size", "radix", "nic_gbps", "oversubscription", "ports"}
    | {"gpu_power_cap"}
)
"""Inputs of a scenario that say how large a network is."""
FOUND = frozenset({"network_kind", "as_found"})
"""Inputs of a scenario that say what traffic finds of a network, for whatever is timed."""
SPAN = frozenset({"sites", "km", "ratio", "layout", "across"})
"""Inputs of a scenario that say in which sites it lies."""
PRICES = frozenset({"prices", "power", "cabling", "hall"})
"""Books that every bill is made from, and the hall that it is measured in."""
SOURCES = frozenset({"catalog", "overrides"})
"""Where a question about records reads its inputs from."""
WEIGHED = SOURCES | {"max_memory"}
"""The same of one that may need so much memory that it is weighed before it begins."""
CHECKPOINTS = frozenset(
    {"recovery", "checkpoint_write_minutes", "checkpoint_interval_minutes", "restart_minutes"}
)
"""Inputs of a workload that mean something where parts fail."""
FAILING = CHECKPOINTS | {"failures", "rates", "bad_servers", "optics"}
"""Inputs that say how often parts fail, and how a job comes back."""
VERBS: Mapping[str, str] = {
    "training": "trains",
    "serving": "serves",
    "post-training": "does post-training of",
}
"""What a scenario does with its model, by its kind of workload."""
WORKLOAD = Option(
    "What runs: training, serving of requests, or post-training by reinforcement.",
    "choice",
    choices=tuple(WORKLOADS),
    otherwise="the scenario's",
)
FROM = Option(
    "Cluster, workload and books: a shipped name, or a file.",
    metavar="NAME|FILE",
    otherwise=DEFAULT,
    role="source",
)


@cache
def of_workload(kind: str) -> frozenset[str]:
    """Inputs of a workload, but for what means something only where parts fail."""
    known = all_places(kind).items()
    return frozenset(name for name, place in known if place.part == "workload") - CHECKPOINTS


TOKENS = "tokens"
"""Tokens of a training run, for what a whole run takes and costs."""
TRAINED, SERVED = of_workload("training") - {TOKENS}, of_workload("serving")
POST_TRAINED = of_workload("post-training") - {TOKENS}
RUNS = TRAINED | POST_TRAINED | SERVED - {"trace", "burstiness"}
"""Inputs of whatever runs, training or serving, but for tokens of a whole run, and what a mean rate
of requests does not know."""


class Shorthand(NamedTuple):
    """A flag that sets one entry of an input that is a mapping, such as ``--budget 200e6``."""

    into: str
    key: str
    option: Option


@dataclass(frozen=True, kw_only=True)
class Question(Generic[AnswerT_co]):
    """A question: a scenario, and the inputs of its own.

    ``reads`` are the inputs of the scenario that mean something to it; of those in ``varies``
    several values may be given; ``older`` are names of before. One that reads
    nothing is about no scenario.

    Raises
    ------
    NetplanError
        If an input is not allowed; the message says what is.
    """

    command: ClassVar[str]
    """Name of its command, and of its part in the defaults file."""

    examples: ClassVar[tuple[str, ...]] = ()
    """Commands that its help shows."""

    reads: ClassVar[frozenset[str]] = frozenset()
    varies: ClassVar[tuple[str, ...]] = ()
    older: ClassVar[Mapping[str, str]] = {}
    foremost: ClassVar[frozenset[str]] = frozenset()
    """Inputs of the scenario that its help shows though that of other questions does not."""
    shorthands: ClassVar[Mapping[str, Shorthand]] = {}
    workload: ClassVar[str] = ""
    """The only workload that it is about, if it is about one; training may be post-training."""
    untimed: ClassVar[frozenset[str]] = frozenset()
    """Workloads that mean nothing to it: a bill is the same, whatever is trained."""
    reads_from: ClassVar[frozenset[str]] = SOURCES
    """Where it reads inputs from; one that reads no records takes none."""

    scenario: Scenario = Scenario()  # noqa: RUF009 - frozen
    given: frozenset[str] = frozenset()
    """Inputs of the scenario that were given by flag or keyword."""
    own_given: frozenset[str] = frozenset()
    """Inputs of its own that were given, be it as they are anyway."""
    varied: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Values of the inputs in ``varies`` that were given, by name."""
    before: Scenario = Scenario()  # noqa: RUF009 - frozen
    """The scenario without what was given."""
    catalog: str | Path | None = own_inputs.option_field(
        "Your own catalog folder; it goes before ours.", metavar="DIR", role="source"
    )
    overrides: Mapping[str, str] | None = own_inputs.option_field(
        "Replace one value, such as accelerator.memory_bytes=96e9 or cluster.gpus=64.",
        "settings",
        flag="--set",
        metavar="ROLE.KEY=VALUE",
        many=True,
        role="source",
    )
    max_memory: float | None = own_inputs.option_field(
        "Memory it may take, as 8GB.",
        "size",
        metavar="SIZE",
        otherwise="75% of what is free",
        role="source",
    )

    def __post_init__(self) -> None:
        """Fill in defaults of the defaults file, read texts as the command line does, check."""
        own_inputs.fill_own(self, self.command, self.catalog)
        if isinstance(self.max_memory, tuple):
            raise InputError("--max-memory is one size, such as 8GB, and no range")

    def ask(self) -> AnswerT_co:
        """Answer the question."""
        raise NotImplementedError

    def answer(self) -> AnswerT_co:
        """Answer it, and refuse inputs that are no finite numbers where nothing counted with them.

        Raises
        ------
        InputError
            If one is none; what counts with a number refuses it before, in its own words.
        """
        answer = self.ask()
        self.check_finite()
        return answer

    @cached_property
    def footprint(self) -> Footprint | None:
        """What it takes of the machine; None where that is little."""
        if "max_memory" not in self.reads_from:
            return None
        where = self.cluster, self.reader(), self.weighed_fabrics
        return footprint_of(self.command, *where, limited=self.max_memory is not None)

    @property
    def weighed_fabrics(self) -> Sequence[str]:
        """Fabrics whose graphs it makes one after the other, if it is weighed."""
        return (self.cluster.fabric,)

    @property
    def cluster(self) -> Cluster:
        """What is bought."""
        return self.scenario.cluster

    @property
    def training(self) -> Training:
        """What is trained; an error where the scenario serves."""
        return self.scenario.training

    @property
    def serving(self) -> Serving:
        """What is served."""
        return self.scenario.serving

    @property
    def reinforces(self) -> bool:
        """Whether it is asked about post-training."""
        return self.scenario.kind == "post-training"

    @property
    def books(self) -> Books:
        """What it is counted with."""
        return self.scenario.books

    @property
    def trains(self) -> bool:
        """Whether it is asked about training."""
        return self.scenario.kind == "training"

    def reader(self) -> CatalogReader:
        """What reads its files, with its values replaced."""
        return CatalogReader(self.catalog, self.overrides)

    def reader_of(self, accelerator: str) -> CatalogReader:
        """Reads files of some GPUs: values of the cluster's accelerator are of no other."""
        overrides = dict(self.overrides or {})
        if accelerator != self.cluster.accelerator:
            role = "accelerator."
            overrides = {key: text for key, text in overrides.items() if not key.startswith(role)}
        return CatalogReader(self.catalog, overrides)

    def reader_and_chip(self) -> tuple[CatalogReader, Accelerator]:
        """What reads its files, and the accelerator of its cluster."""
        reader = self.reader()
        return reader, reader.load(ACCELERATORS, self.cluster.accelerator)

    @classmethod
    def make(cls, *arguments: Any, **given: Any) -> Self:  # noqa: ANN401 - inputs of any type
        """The question with some inputs given; about a scenario with single values replaced.

        Parameters
        ----------
        arguments
            What is told by its place, and then the scenario: a name, a path or a `Scenario`.
        given
            Inputs of the question, and of the scenario, by name.

        Raises
        ------
        NetplanError
            If there is no such input or scenario, or a value is not allowed.
        """
        given = _placed(cls, arguments, given)
        if not cls.reads:
            return cls._alone(**given)
        given = {
            name: value
            for name, value in given.items()
            if value is not None and not (isinstance(value, (tuple, list)) and not value)
        }
        catalog = given.get("catalog")
        usual = own_inputs.usual_values(cls.command, (own_inputs.SCENARIO,), catalog)
        named = own_inputs.SCENARIO in given
        scenario = Scenario.load(
            given.pop(own_inputs.SCENARIO, usual.get(own_inputs.SCENARIO, DEFAULT)), catalog
        )
        if named and not cls.takes(scenario.kind) and "model" not in given:
            raise InputError(
                f"{scenario.name} {VERBS[scenario.kind]} {scenario.workload.model}, and netplan"
                f" {cls.command} asks about {cls.workload}: give --model to ask it about the same"
                " cluster, or name another scenario (netplan catalog list scenario)"
            )
        return cls.about(scenario, **given)

    @classmethod
    def takes(cls, kind: str) -> bool:
        """Whether it can be asked about such a workload."""
        if kind == "post-training" and cls.workload in ("", "training"):
            return not cls.reads or "prompts" in cls.reads or not cls.workload
        return cls.workload in ("", kind)

    @classmethod
    def _alone(cls, **given: Any) -> Self:  # noqa: ANN401
        """The question that is about no scenario."""
        known = [own_field.name for own_field, _ in own_inputs.own_options(cls)]
        unknown = [name for name in given if name not in known]
        if unknown:
            raise unknown_name(f"input of {cls.command}", unknown[0], known)
        _check_needed(cls, given)
        return cls(**given)

    @classmethod
    def about(cls, scenario: Scenario, **given: Any) -> Self:  # noqa: ANN401 - inputs of any type
        """The question about a scenario that was read; errors as of :meth:`on`."""
        named = {"workload"} & given.keys()
        usual_kind = scenario.kind if cls.takes(scenario.kind) else cls.workload
        scenario = scenario.with_workload(given.pop("workload", usual_kind))
        known = all_places(scenario.kind)
        scenario = scenario.replace(
            **own_inputs.usual_values(cls.command, [*known], given.get("catalog"))
        )
        option = next(
            option for field_, option in own_inputs.own_options(cls) if field_.name == "overrides"
        )
        settings = read_option("overrides", option, given.pop("overrides", {}))
        overrides = {**{key: str(value) for key, value in scenario.set.items()}, **settings}  # type: ignore[dict-item]
        for key in [key for key in overrides if key.partition(".")[0] in PARTS]:
            name, value = plain_name(key, scenario.kind), overrides.pop(key)
            if given.setdefault(name, value) is not value:
                flag = known[name].option.flag_of(name) if name in known else name
                raise InputError(f"--set {key}={value} and {flag} are one input: give it once")
        ours = {entry.name for entry, _ in own_inputs.own_options(cls)}
        given = _known(cls, scenario.kind, _renamed(cls, scenario.kind, given, ours), ours)
        _check_needed(cls, given)
        parts = {name: given.pop(name) for name in [*given] if name not in ours}
        varied = {
            name: _values(name, known[name].option, parts.pop(name))
            for name in cls.varies
            if name in parts
        }
        asked = frozenset({*parts, *varied, *named})
        parts |= {name: values[0] for name, values in varied.items() if values}
        for name in parts.keys() & {*TAKES_FUNCTIONS}:
            parts[name] = _registered(parts[name])
        scenario, before = scenario.with_inputs(parts, given.get("catalog")), scenario
        if scenario.kind != "serving":
            scenario = timed_as_known(scenario, asked, user_roots(given.get("catalog")))
        question = cls(
            scenario=scenario,
            given=asked,
            own_given=frozenset(given),
            varied=varied,
            before=before,
            overrides=overrides,
            **given,
        )
        if question.trains:  # what builds networks and plans says more of numbers than a range
            for name in ("nic_gbps", "as_found", "overlap_share"):
                check_range(name, known[name].option, scenario.value(name))
        else:
            question.check_parts()
        question = question._with_ports()
        if need := question.footprint:
            need.require(question.max_memory)
        return question

    @classmethod
    def inputs_known(cls) -> tuple[own_inputs.Input, ...]:
        """Every input that it takes, by group: the scenario's, its own, sources."""
        return _inputs_known(cls)  # type: ignore[arg-type]  # classes are hashable

    def also(self, kind: type[QuestionT], **own_values: Any) -> QuestionT:  # noqa: ANN401 - of any type
        """Another question about the same scenario, or about the one that is given.

        Parameters
        ----------
        kind
            Its class.
        own_values
            Its own inputs, and where they differ ``scenario``, ``overrides``, ``varied``.
        """
        shared = {"scenario": self.scenario, "given": self.given, "catalog": self.catalog}
        shared["before"] = self.before
        return kind(**{**shared, "overrides": self.overrides, **own_values})

    def with_values(self, **values: Any) -> Self:  # noqa: ANN401 - inputs of any type
        """The question about a scenario with other values of some inputs."""
        return replace(self, scenario=self.scenario.replace(**values))

    def reject_inputs(self, names: Collection[str], who: str) -> None:
        """Refuse inputs that are not at their defaults, since they mean nothing for someone.

        Raises
        ------
        InputError
            If one of them is given.
        """
        for name, option, value in self.asked_for():
            if name in names:
                text = flag_text(option.flag_of(name), value)
                raise InputError(f"{text} means nothing for {who}: leave it out")

    def asked_for(self) -> Iterator[tuple[str, Option, object]]:
        """Inputs that were given and are not at their defaults, with their values.

        A default that several commands share is a choice, which counts where it is named.
        """
        if "workload" in self.given:
            yield "workload", WORKLOAD, self.scenario.kind
        for name, place in all_places(self.scenario.kind).items():
            value = self.scenario.value(name)
            usual = place.default if place.option.kind == "flag" else None
            if name in self.given and value not in (usual, (), {}):
                yield name, place.option, value
        for own_field, option in own_inputs.own_options(type(self)):
            usual, named = own_field.default, option.shared and own_field.name in self.own_given
            if option.shared:
                usual = own_inputs.default_of(self.command, own_field.name, self.catalog)
            if (value := getattr(self, own_field.name)) not in (usual, {}) or named:
                yield own_field.name, option, value

    def check_finite(self) -> None:
        """Refuse inputs that are no finite numbers; InputError."""
        for name, option, value in self.asked_for() if self.reads else ():
            if option.role == "input" and isinstance(value, float) and not isfinite(value):
                raise InputError(f"{option.flag_of(name)} {value:g}: give a finite number")

    def check_parts(self) -> None:
        """Refuse numbers outside of their ranges, of the scenario and of its own.

        Raises
        ------
        InputError
            If one is.
        """
        means = read_of(self.reads, self.scenario.kind, self.untimed)
        for name, place in all_places(self.scenario.kind).items():
            if name in means:
                check_range(name, place.option, self.scenario.value(name))
        own_inputs.check_ranges(self)

    def inputs(self, **resolved: object) -> dict[str, object]:
        """The inputs as the answer shows them, with what was filled in or made whole, by name."""
        shown: dict[str, object] = {"scenario": self.scenario.name} if self.reads else {}
        means = read_of(self.reads, self.scenario.kind, self.untimed)
        for name, place in all_places(self.scenario.kind).items():
            value = self.scenario.value(name)
            if name in means and not (place.option.quiet and value == place.default):
                shown[name] = list(value) if isinstance(value, tuple) else value
        if "hall" in shown:  # by its name of before, too
            shown["floor_plan"] = None if shown["hall"] == AS_PUBLISHED else shown["hall"]
        if self.trains and "batch" in shown:
            shown["batch"] = self.scenario.batch
        for own_field, option in own_inputs.own_options(type(self)):
            value = getattr(self, own_field.name)
            if option.role == "input" and not (option.quiet and value == own_field.default):
                shown[own_field.name] = list(value) if isinstance(value, tuple) else value
        if self.scenario.kind not in ("training", self.workload):
            shown["workload"] = self.scenario.kind
        roots, overrides = user_roots(self.catalog), dict(self.overrides or {})
        boxes = knows_boxes(self.books.prices, roots)
        if boxes and (model := meant_switch(self.cluster, self.cluster_inputs, overrides, roots)):
            resolved["stands_for"] = model
        if self.cautions:
            resolved["cautions"] = self.cautions
        if "gpu_power_cap" in shown:
            shown["gpu_speed"] = self._gpu_speed()
        return {**shown, **resolved}

    @property
    def cluster_inputs(self) -> frozenset[str]:
        """Inputs that say something of the cluster as it is asked about."""
        return self.reads

    @cached_property
    def cautions(self) -> list[str]:
        """What the answer says first of parts that nobody sells."""
        if not self.reads:
            return []
        roots, overrides = user_roots(self.catalog), dict(self.overrides or {})
        reads = self.cluster_inputs
        reads = reads if knows_boxes(self.books.prices, roots) else reads - {"radix"}
        sizes = self.varied.get("hb_size", ()) or (self.cluster.hb_size,)
        clusters = (replace(self.cluster, hb_size=size) for size in sizes)
        by_size = (cautions(cluster, reads, overrides, roots) for cluster in clusters)
        return [
            *dict.fromkeys(caution for cautions_of_size in by_size for caution in cautions_of_size)
        ]

    def _gpu_speed(self) -> dict[str, object] | None:
        """What a power cap leaves of the GPU's speed, and who says so; None where it takes none."""
        roots = user_roots(self.catalog)
        chip = ACCELERATORS.load(self.cluster.accelerator, roots, self.overrides)
        if chip.power_caps is None or not chip.power_cap_w:
            return None
        facts = {name: getattr(chip.power_caps, name) for name in ("evidence", "of", "source")}
        return {**chip.power_caps.point_at(chip.power_cap_w, chip.name).to_dict(), **facts}

    def _with_ports(self) -> Self:
        """The question with cards of the rate that is asked for, and the ports of its model."""
        overrides = with_cards(self.cluster, self.overrides or {})
        cluster = self.cluster
        if "radix" in self.reads:
            cluster = with_ports(cluster, overrides, user_roots(self.catalog))
        return replace(self, scenario=self.scenario.changed(cluster=cluster), overrides=overrides)


AnyQuestion = Question[Any]
"""A question, whatever its answer."""


def _placed(
    question: type[AnyQuestion], arguments: Sequence[object], given: Mapping[str, object]
) -> dict[str, Any]:
    """What is given by its place and by its name: the question's arguments, then the scenario.

    Raises
    ------
    InputError
        If more is given by its place than has one, or something in both ways.
    """
    named = [field.name for field, option in own_inputs.own_options(question) if option.argument]
    named += [own_inputs.SCENARIO] if question.reads else []
    if len(arguments) == 1 and isinstance(arguments[0], Scenario):
        named = [own_inputs.SCENARIO]  # none of the question's own is one
    if len(arguments) > len(named):
        most = f"{', '.join(named)} alone" if named else "nothing"
        raise InputError(f"netplan {question.command} takes {most} by its place")
    placed = dict(zip(named, arguments, strict=False))
    if twice := [name for name in placed if given.get(name) is not None]:
        raise InputError(f"{twice[0]} is given by its place and by its name: give it once")
    return {**given, **placed}


def _check_needed(question: type[AnyQuestion], given: Collection[str]) -> None:
    """Refuse a question without what it cannot do without."""
    for field_, option in own_inputs.own_options(question):
        if field_.default is MISSING and field_.name not in given:
            needed = field_.name if option.argument else option.flag_of(field_.name)
            raise InputError(f"netplan {question.command} needs {needed}: give it")


def _values(name: str, option: Option, given: Any) -> tuple[Any, ...]:  # noqa: ANN401
    """One value of an input that may vary, or several."""
    alone = isinstance(given, (str, Path)) or not isinstance(given, Iterable)
    values = (given,) if alone else given
    return tuple(dict.fromkeys(read_option(name, option, entry) for entry in values))


def _registered(given: Any) -> Any:  # noqa: ANN401 - names, or functions
    """Fabrics by their names, functions of Python as names of theirs."""
    if callable(given):
        return register_fabric(given)
    if isinstance(given, str) or not isinstance(given, Iterable):
        return given
    return tuple(register_fabric(fabric) if callable(fabric) else fabric for fabric in given)


def _renamed(
    question: type[AnyQuestion], kind: str, given: dict[str, Any], own_names: set[str]
) -> dict[str, Any]:
    """What is given under the names of today; entries of mappings are put into them.

    Raises
    ------
    InputError
        If something is given by two names.
    """
    into = {short.into for short in question.shorthands.values()}
    renamed: dict[str, Any] = {}
    named: dict[str, str] = {}
    for name, value in given.items():
        if name in question.shorthands and name not in own_names:
            whole, key, option = question.shorthands[name]
            before = renamed.get(whole) or given.get(whole) or {}
            if not isinstance(before, Mapping):  # texts, as a command line has them
                before = read_pairs(f"--{whole}", before)
            renamed[whole] = {**before, key: read_option(name, option, value)}
            continue
        now = name if name in own_names else _name_of_today(question, kind, name)
        if now in named and renamed[now] != value and now not in into:
            raise InputError(f"{named[now]} and {name} are one input: give it once")
        named[now] = name
        renamed.setdefault(now, value)
    return renamed


def _name_of_today(question: type[AnyQuestion], kind: str, name: str) -> str:
    """The name of an input that is called by one of before, or with its part in front."""
    aliases = dict(question.older)
    for known, place in every_place().items():
        if known in question.reads:
            older = (alias for alias in place.option.aliases if alias not in question.reads)
            aliases |= dict.fromkeys(older, known)
    now = aliases.get(name, name)
    plain = (plain_name(now, workload) for workload in (kind, *WORKLOADS))
    now = next((other for other in plain if other != now), now)
    return aliases.get(now, now)


def _known(
    question: type[AnyQuestion], kind: str, given: dict[str, Any], own_names: Collection[str]
) -> dict[str, Any]:
    """What is given, without flags of another workload that are off.

    Raises
    ------
    InputError
        If the question does not know an input, or the other workload alone has it.
    """
    means = read_of(question.reads, kind, question.untimed)
    kept = {}
    for name, value in given.items():
        if name in own_names or name in means:
            kept[name] = value
            continue
        place = next(
            (all_places(workload)[name] for workload in WORKLOADS if name in all_places(workload)),
            None,
        )
        if place is None:
            every = [known_input.name for known_input in question.inputs_known()]
            raise unknown_name(f"input of {question.command}", name, every)
        option = place.option
        if option.kind == "flag" and value == place.default:
            continue
        text = flag_text(option.flag_of(name), read_option(name, option, value))
        if name not in question.reads:
            raise InputError(f"{text} means nothing for netplan {question.command}: leave it out")
        who = "training" if kind == "training" else f"--workload {kind}"
        timed = (other for other in WORKLOADS if other not in question.untimed)
        other = next(other for other in timed if name in all_places(other))
        raise InputError(
            f"{text} means nothing for {who}: leave it out, or take --workload {other}"
        )
    return kept


@cache
def read_of(
    reads: frozenset[str], kind: str, untimed: frozenset[str] = frozenset()
) -> frozenset[str]:
    """Inputs of a scenario with such a workload that mean something to a question that reads some.

    To one that reads nothing of training alone, no workload means anything where it trains: a bill
    says what tokens cost that are served, or a step of post-training.
    """
    known = all_places(kind)
    if kind in untimed or (kind == "training" and not reads & (TRAINED - SERVED)):
        known = {name: place for name, place in known.items() if place.part != "workload"}
    return reads & known.keys()


@cache
def _inputs_known(question: type[AnyQuestion]) -> tuple[own_inputs.Input, ...]:
    """Inputs of the scenario that a question reads, then its own, then sources."""
    trained, served, reinforced = (all_places(kind) for kind in WORKLOADS)
    scenario_inputs: dict[str, own_inputs.Input] = {}
    for name, place in {**reinforced, **trained, **served}.items():
        if name not in question.reads:
            continue
        if question.workload != "serving":  # help says it as training has it
            place = _read_later(trained.get(name, place), place)  # noqa: PLW2901
        kinds = tuple(kind for kind in WORKLOADS if name in all_places(kind))
        scenario_inputs[name] = own_inputs.Input(
            name, _as_asked(question, name, place), place.default, place.part, kinds
        )
    if question.reads & (SERVED - TRAINED if not question.workload else POST_TRAINED - TRAINED):
        scenario_inputs["workload"] = own_inputs.Input("workload", WORKLOAD, None, "workload")
    for name, (_, _, option) in question.shorthands.items():
        scenario_inputs[name] = own_inputs.Input(name, option, None)
    named = [own_inputs.Input(own_inputs.SCENARIO, FROM, None)] if question.reads else []
    own_known = [
        own_inputs.Input(own_field.name, option, own_field.default)
        for own_field, option in own_inputs.own_options(question)
    ]
    ours = [known_input for known_input in own_known if known_input.option.role == "input"]
    sources = [known_input for known_input in own_known if known_input.option.role == "source"]
    order = {part: index for index, part in enumerate((*PARTS, "question"))}
    parts = sorted(scenario_inputs.values(), key=lambda known_input: order[known_input.group])
    return (*parts, *ours, *named, *sources)


def _read_later(place: InputPlace, other: InputPlace) -> InputPlace:
    """An input as a text where the other workload takes more: the scenario reads it as its own."""
    option = place.option
    if not option.choices or other.option.choices:
        return place
    help_ = f"{option.help.rstrip('.')}: {', '.join(option.choices)}."
    return place._replace(option=replace(option, kind="text", choices=(), help=help_))


def _as_asked(question: type[AnyQuestion], name: str, place: InputPlace) -> Option:
    """The option of an input, several times where the question lets it vary."""
    option = place.option
    older = tuple(old for old, now in question.older.items() if now == name)
    if name in question.varies and not option.many:
        help_ = option.help.rstrip(".") + " (repeatable)."
        option = replace(option, many=True, help=help_)
    return replace(option, aliases=(*option.aliases, *older)) if older else option
