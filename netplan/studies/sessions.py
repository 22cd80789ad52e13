"""Running studies by name: where the store lies, how long it may take, how it goes on.

:func:`study` is the public name; the command line uses the same parts one by one.
"""

import hashlib
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from operator import itemgetter
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar, Self

from netplan.errors import InputError
from netplan.files import reachable
from netplan.reports.answer import Answer
from netplan.reports.quantities import Cell, Scalar
from netplan.reports.sections import Column, Paragraph, Section, Table, Verbatim, column
from netplan.scenarios.scenario import Scenario
from netplan.setup.asking import known_keywords
from netplan.setup.own_inputs import option_field, required_field
from netplan.setup.question import Question
from netplan.studies.answer import StudyAnswer, damaged_points, study_answer
from netplan.studies.definition import StudyDefinition
from netplan.studies.points import PointResult, attempt
from netplan.studies.run import IN_PROCESS, Progress, Report, Resources, run_points
from netplan.studies.store import Store, computed_part
from netplan.studies.study import Study, make_study, parse_changes
from netplan.studies.workers import Interrupts, require_dask
from netplan.units import duration
from netplan.version import __version__

SUFFIX = ".study"
GIB = 1 << 30
EXAMPLES = 3
"""Failures that the status of a study shows [1]."""


@known_keywords
def study(  # noqa: PLR0913 - one keyword an input, as on the command line
    name: str | Path | Study,
    scenario: str | Path | Scenario | None = None,
    *,
    vary: Mapping[str, Scalar | Sequence[Scalar]] | None = None,
    store: str | Path | None = None,
    workers: int = 0,
    scheduler: str | None = None,
    memory_limit_bytes: int | None = None,
    catalog: str | Path | None = None,
    progress: Report | None = None,
) -> StudyAnswer:
    """Run a study, or finish one that was begun, and give its answer.

    Parameters
    ----------
    name
        Catalog name of the study, path to its file, or a `Study` as it was loaded.
    scenario
        A scenario of your own, by name, path or as it is: the study is about its cluster, workload
        and books, and varies what it asks about alone. None: the study's own.
    vary
        Inputs of this run: one value that stays, or several to vary over.
    store
        File that keeps the results; a study found there goes on. None keeps nothing.
    workers
        Worker processes on this machine; 0 evaluates in this process [1].
    scheduler
        Address of a Dask scheduler, such as ``tcp://host:8786``, instead.
    memory_limit_bytes
        Memory that one process may take [B].
    catalog
        Folder of the user's own catalogs.
    progress
        Called with the progress, a few times a second at most.

    Returns
    -------
    StudyAnswer
        Every point, what they answer, and the charts.

    Raises
    ------
    NetplanError
        If the study is malformed, too large or empty, names an output that no answer has, or its
        store is of another study.

    Examples
    --------
    >>> answer = study("hb-size-paper", vary={"gpus": 16384, "hb_size": [8, 256]})
    >>> [(row["model"], row["hb_size"], round(row["mfu"], 3)) for row in answer.rows]
    [('gpt-1t', 8, 0.497), ('gpt-1t', 256, 0.567), ('gpt-146b', 8, 0.339), ('gpt-146b', 256, 0.464)]
    """
    if not isinstance(name, Study):
        name = Study.load(name, scenario, vary=vary, catalog=catalog)
    elif scenario or vary or catalog:
        raise InputError(
            "a study that is loaded has its scenario, values and catalog: load another"
        )
    resources = Resources(workers, scheduler, memory_limit_bytes)
    with tempfile.TemporaryDirectory(prefix="netplan-") as folder:
        path = Path(folder) / f"results{SUFFIX}" if store is None else Path(store)
        run_study(name, path, resources, progress)
        return read_study(path, name.catalog)


def run_study(
    made: Study, path: Path, resources: Resources = IN_PROCESS, report: Report | None = None
) -> Progress:
    """Evaluate the points of a study that its store misses; errors as :func:`study`."""
    if resources.scheduler is not None:
        require_dask()  # before any file is made
    fresh = not path.exists()
    if fresh:
        made.check_outputs()
    with Store.begin(path, made, __version__) as store:
        try:
            return run_points(made, store, resources, report)
        except InputError:
            if fresh and not store.counts().done:
                path.unlink()  # such as of a scheduler that nobody has started
            raise


def usual_store(made: Study) -> Path:
    """Where a study is kept if nobody says otherwise: ``NAME.study`` in this folder."""
    return Path(f"{made.name}{SUFFIX}")


def own_store(made: Study) -> Path:
    """The usual store, or if another question has it one beside it, named by the question."""
    usual = usual_store(made)
    if usual.exists():
        with suppress(InputError), Store.open(usual) as store:  # what is wrong with it, a run says
            question = computed_part(made.definition)
            if computed_part(store.meta.definition) != question and store.answered:
                digest = hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()
                return usual.with_stem(f"{made.name}-{digest[:8]}")
    return usual


def stored_study(store: Store, catalog: str | Path | None = None) -> Study:
    """The study that a store was made for, from its own definition.

    Raises
    ------
    InputError
        If its definition is not of this version.
    """
    try:
        spec = StudyDefinition.read(json.loads(store.meta.definition))
    except ValueError:
        raise InputError(
            f"{store.path}: its study is not known to netplan {__version__}: use netplan"
            f" {store.meta.netplan_version}, which made it"
        ) from None
    return make_study(spec, None, str(catalog) if catalog else None)


def read_study(path: Path, catalog: str | Path | None = None) -> StudyAnswer:
    """What a store holds, complete or not; errors as :func:`stored_study`."""
    with Store.open(path) as store:
        made = stored_study(store, catalog)
        outcomes = list(store.outcomes())
        return study_answer(made, outcomes, store.meta.netplan_version, store.damaged)


def seconds_a_point(made: Study) -> float:
    """Time that one point takes in this process, from a few of them [s].

    Each comes behind its neighbour, which pays for imports and for what points that follow each
    other share, and does not count. Points that fail do: the run will say so.
    """
    last = made.point_count - 1
    pairs = ((min(1, last), 0), (max(last // 2 - 1, 0), last // 2), (max(last - 1, 0), last))
    points = made.points([place for pair in dict.fromkeys(pairs) for place in pair])
    outcomes: list[PointResult] = []
    with Interrupts() as interrupts:
        interrupts.run(
            lambda: outcomes.extend(attempt(made, point, interruptible=True) for point in points)
        )
    return fmean(outcome.seconds for outcome in outcomes[1::2])


def facts_table(name: str, facts: Mapping[str, Cell]) -> Table[Mapping[str, Cell]]:
    """A table of one row, for programs."""
    columns: list[Column[Mapping[str, Cell]]]
    columns = [column(key, itemgetter(key), title=key) for key in facts]
    return Table(name, columns, [facts], shown="data")


@dataclass(frozen=True, slots=True, repr=False)
class StudyEstimate(Answer):
    """How large a study is, and about how long it takes: the answer of ``--dry-run``."""

    json_head = ()
    json_parts = ("*",)

    study: str
    points: int
    seconds_a_point: float
    workers: int
    scheduler: str | None

    @classmethod
    def of(cls, made: Study, resources: Resources) -> Self:
        """Evaluate a few points."""
        made.check_outputs()
        point_s = seconds_a_point(made)
        return cls(made.name, made.point_count, point_s, resources.workers, resources.scheduler)

    @property
    def line(self) -> str:
        """All of it in one line."""
        at_once = max(1, self.workers)
        where = f"with {at_once} workers" if self.workers else "in this process"
        where = "by the scheduler's workers together" if self.scheduler else where
        total = duration(self.points * self.seconds_a_point / at_once)
        each_ms = 1e3 * self.seconds_a_point
        return f"{self.study}: {self.points:,} points at about {each_ms:.3g} ms: {total} {where}"

    def sections(self) -> Iterator[Section]:
        """One line."""
        yield Paragraph(self.line)
        yield facts_table("estimate", self.to_dict())


@dataclass(frozen=True, slots=True, repr=False)
class StudyStatus(Answer):
    """How far the study in a store is."""

    json_head = ()
    json_parts = ("*",)

    store: str
    study: str
    version: str
    points: int
    done: int
    failed: int
    examples: tuple[str, ...]
    damaged: tuple[int, ...] = ()

    def sections(self) -> Iterator[Section]:
        """How far it is, some failures, how to go on."""
        share = 100 * self.done / self.points
        state = "complete" if self.done == self.points else f"{share:.1f} % done"
        head = f"{self.study}: {state}, {self.done:,} of {self.points:,} points"
        lines = [f"{head}, {self.failed:,} failed; made by netplan {self.version}"]
        lines += [f"  {example}" for example in self.examples]
        lines += [f"  {damaged_points(self.damaged)}"] if self.damaged else []
        if self.done < self.points:
            lines.append(f"Go on with: netplan study resume {self.store}")
        yield Verbatim(tuple(lines))
        facts = self.to_dict()
        del facts["examples"], facts["damaged"]
        yield facts_table("status", facts)


STORE_HELP = "Results file, or the name of its study."
ONLY_CATALOG = frozenset({"catalog"})
"""Sources of questions about a results file."""


def store_path(store: str | Path) -> Path:
    """File of a store by its path, or by the name of its study in this folder."""
    given, named = reachable(Path(store)), reachable(Path(f"{store}{SUFFIX}"))
    return named if not given.exists() and named.exists() else given


@dataclass(frozen=True, kw_only=True)
class ShowStudy(Question[StudyAnswer]):
    """Show what STORE holds, complete or not."""

    command: ClassVar[str] = "study show"
    reads_from: ClassVar[frozenset[str]] = ONLY_CATALOG
    store: str | Path = required_field(STORE_HELP, "path", argument=True)

    def ask(self) -> StudyAnswer:
        """Read it."""
        return read_study(store_path(self.store), self.catalog)


@dataclass(frozen=True, kw_only=True)
class StatusOfStudy(Question[StudyStatus]):
    """Say how far the study in STORE is; a run may be at work on it."""

    command: ClassVar[str] = "study status"
    reads_from: ClassVar[frozenset[str]] = ONLY_CATALOG
    store: str | Path = required_field(STORE_HELP, "path", argument=True)

    def ask(self) -> StudyStatus:
        """Count its points, whichever version computed them."""
        with Store.open(store_path(self.store)) as store:
            meta, (done, failed) = store.meta, store.counts()
            examples = [f"point {point.index}: {point.error}" for point in store.failures(EXAMPLES)]
        name, version, points = meta.name, meta.netplan_version, meta.point_count
        problems = (tuple(examples), tuple(store.damaged))
        return StudyStatus(str(store.path), name, version, points, done, failed, *problems)


@dataclass(frozen=True, kw_only=True)
class Evaluating(Question[Answer]):
    """What evaluates the points of a study, and who is told of it."""

    workers: int = option_field("Worker processes here.", "whole", default=0, otherwise="none")
    scheduler: str | None = option_field("A Dask scheduler instead.", metavar="tcp://HOST:PORT")
    memory_gib: float | None = option_field("Memory one process may take, in GiB.", "real")

    @property
    def resources(self) -> Resources:
        """The same, checked.

        Raises
        ------
        InputError
            If a value is out of range.
        """
        given = self.memory_gib
        if given is not None and not 0 < given < inf:
            raise InputError(f"--memory-gib {given:g} is out of range: give more than 0")
        return Resources(self.workers, self.scheduler, None if given is None else int(given * GIB))

    def evaluate(self, made: Study, path: Path) -> Answer:
        """Finish the study, and read its answer; the command line tells how far it is."""
        run_study(made, path, self.resources)
        return read_study(path, self.catalog)


@dataclass(frozen=True, kw_only=True)
class RunStudy(Evaluating):
    """Run STUDY (a name or a file), or finish it, and show its answer."""

    command: ClassVar[str] = "study run"
    examples: ClassVar[tuple[str, ...]] = (
        "netplan study run hb-size",
        "netplan study run hb-size my-cluster.yaml",
        "netplan study run hb-size --vary gpus=131072 --store large.study",
        "netplan study run price-flip --format html -o flip.html",
        "netplan study run topology-design-space --workers 2",
    )

    study: str = required_field("Name of the study, or its file.", argument=True)
    scenario: Any = option_field(
        "Study this cluster, workload and books: a shipped name, or a file.",
        metavar="NAME|FILE",
        otherwise="the study's own",
    )
    vary: Sequence[str] = option_field(
        "Another value, or values to vary (repeatable).",
        many=True,
        metavar="INPUT=VALUE,...",
        default=(),
    )
    store: str | Path | None = option_field("Results file.", "path", otherwise="NAME.study")
    dry_run: bool = option_field(
        "Only say how large it is and how long it may take.", "flag", default=False
    )

    def ask(self) -> Answer:
        """Run what is missing."""
        made = Study.load(
            self.study, self.scenario, vary=parse_changes(self.vary), catalog=self.catalog
        )
        if self.dry_run:
            return StudyEstimate.of(made, self.resources)
        return self.evaluate(made, Path(self.store) if self.store else own_store(made))


@dataclass(frozen=True, kw_only=True)
class ResumeStudy(Evaluating):
    """Finish the study in STORE, a results file, and show its answer."""

    command: ClassVar[str] = "study resume"
    reads_from: ClassVar[frozenset[str]] = ONLY_CATALOG
    store: str | Path = required_field(STORE_HELP, "path", argument=True)

    def ask(self) -> Answer:
        """Run what is missing."""
        with Store.open(store_path(self.store)) as store:
            made = stored_study(store, self.catalog)
        return self.evaluate(made, store_path(self.store))
