"""Running studies by name: where the store lies, how long it may take, how it goes on.

:func:`study` is the public name; the command line uses the same parts one by one.
"""

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from netplan.catalog import user_roots
from netplan.errors import InputError
from netplan.reports.quantities import Scalar
from netplan.studies.answer import StudyAnswer, study_answer
from netplan.studies.definition import STUDIES, StudyDefinition
from netplan.studies.run import IN_PROCESS, Progress, Report, Resources, run
from netplan.studies.store import Store
from netplan.studies.study import Study, make_study
from netplan.studies.workers import require_dask
from netplan.version import __version__

SUFFIX = ".study"
SAMPLE = 3
"""Points that an estimate of the time evaluates [1]."""


def study(  # noqa: PLR0913 - one keyword an input, as on the command line
    name: str,
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
        Catalog name of the study, or path to its file.
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

    Raises
    ------
    NetplanError
        If the study is malformed, too large or empty, or its store is of another study.

    Examples
    --------
    >>> answer = study("hb-size", vary={"gpus": 16384, "hb_size": [8, 256]})
    >>> [(row["model"], row["hb_size"], round(row["mfu"], 3)) for row in answer.rows]
    [('gpt-1t', 8, 0.497), ('gpt-1t', 256, 0.567), ('gpt-146b', 8, 0.339), ('gpt-146b', 256, 0.464)]
    """
    made = load_study(name, vary, catalog)
    resources = Resources(workers, scheduler, memory_limit_bytes)
    with tempfile.TemporaryDirectory(prefix="netplan-") as folder:
        path = Path(folder) / f"results{SUFFIX}" if store is None else Path(store)
        run_study(made, path, resources, progress)
        return read_study(path, catalog)


def load_study(
    name: str, vary: Mapping[str, Any] | None = None, catalog: str | Path | None = None
) -> Study:
    """Load a study file and make its points; errors as :func:`study`."""
    spec = STUDIES.load(name, user_roots(catalog))
    return make_study(spec, vary, str(catalog) if catalog else None)


def default_store(name: str) -> Path:
    """Store of a study that names none: in this folder, called after the study."""
    return Path(f"{name}{SUFFIX}")


def run_study(
    made: Study, path: Path, resources: Resources = IN_PROCESS, report: Report | None = None
) -> Progress:
    """Evaluate the points of a study that its store misses; returns how it ended.

    Raises
    ------
    InputError
        If the store is of another study, other inputs or another version, or cannot be written.
    """
    if resources.scheduler is not None:
        require_dask()  # before any file is made
    with Store.begin(path, made, __version__) as store:
        return run(made, store, resources, report)


def stored_study(path: Path, catalog: str | Path | None = None) -> Study:
    """The study that a store was made for, from its own definition.

    Raises
    ------
    InputError
        If the file is no store of a study, or its definition is not of this version.
    """
    with Store.open(path) as store:
        meta = store.meta
    try:
        spec = StudyDefinition.model_validate(json.loads(meta.definition))
    except ValueError:
        raise InputError(
            f"{path}: its study is not known to netplan {__version__}: use netplan"
            f" {meta.netplan_version}, which made it"
        ) from None
    return make_study(spec, None, str(catalog) if catalog else None)


@dataclass(frozen=True, slots=True)
class StudyStatus:
    """How far the study in a store is."""

    store: str
    study: str
    version: str
    points: int
    done: int
    failed: int
    examples: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Exactly the JSON of ``netplan study status``."""
        return asdict(self) | {"examples": list(self.examples)}

    @property
    def text(self) -> str:
        """The same for people."""
        share = 100 * self.done / self.points
        state = "complete" if self.done == self.points else f"{share:.1f} % done"
        head = f"{self.study}: {state}, {self.done:,} of {self.points:,} points"
        lines = [f"{head}, {self.failed:,} failed; made by netplan {self.version}"]
        lines += [f"  {example}" for example in self.examples]
        if self.done < self.points:
            lines.append(f"Go on with: netplan study resume {self.store}")
        return "\n".join(lines) + "\n"


def study_status(path: Path) -> StudyStatus:
    """How far the study in a store is, whichever version made it.

    Raises
    ------
    InputError
        If the file is no store of a study.
    """
    with Store.open(path) as store:
        meta, counts = store.meta, store.counts()
        failures = [f"point {one.index}: {one.error}" for one in store.failures(SAMPLE)]
    return StudyStatus(
        store=str(path),
        study=meta.name,
        version=meta.netplan_version,
        points=meta.point_count,
        done=counts.done,
        failed=counts.failed,
        examples=tuple(failures),
    )


def read_study(path: Path, catalog: str | Path | None = None) -> StudyAnswer:
    """What a store holds, complete or not; errors as :func:`stored_study`."""
    made = stored_study(path, catalog)
    with Store.open(path) as store:
        return study_answer(made, list(store.outcomes()), store.meta.netplan_version)


def seconds_a_point(made: Study) -> float:
    """Time that one point takes in this process, from a few of them [s].

    The first evaluation pays for imports, so the least time counts. Points that fail count too:
    the run will say so.
    """
    count = made.point_count
    sample = sorted({0, count // 2, count - 1})[:SAMPLE]
    times = []
    for point in made.points([*sample[:1], *sample]):
        start = perf_counter()
        try:
            made.evaluate(point)
        except Exception:  # noqa: BLE001, S112 - the run records it with its inputs
            continue
        finally:
            times.append(perf_counter() - start)
    return sum(times[1:]) / len(times[1:])
