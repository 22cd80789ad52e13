"""Jobs that share a fabric, from a YAML file: what each trains, and on which GPUs.

::

    jobs:
      - {model: gpt-22b, gpus: 256}
      - {name: second, model: gpt-22b, gpus: 256, batch: 512, fix: {pipeline: 4}}
      - {model: gpt-22b, placement: 512-639 768-895}

A job takes the next GPUs that are free (``placement: line``), the next free HB domains in turn with
all others that say so (``alternate``), or those that it names, in the order in which its plan
counts them (words of `netplan.simulation.ranks`).
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from msgspec import Struct, field

from netplan.arrays import Ints
from netplan.documents import Document, read_yaml
from netplan.errors import CatalogError, InfeasibleError, InputError, UnknownNameError
from netplan.progress import with_progress
from netplan.records import Entry, PositiveFloat, PositiveInt
from netplan.scenarios.reading import sized
from netplan.setup.question import AnyQuestion
from netplan.setup.runs import place_training
from netplan.simulation.ranks import gpu_range
from netplan.simulation.simulate import Job
from netplan.topologies.build import build_fabric
from netplan.topologies.fabric import Fabric
from netplan.topologies.specs import FabricSpec
from netplan.traffic.patterns import Pattern

LINE, ALTERNATE = "line", "alternate"
LEAST_GPUS = 8
MAX_JOBS = 1_000


class JobEntry(Entry, frozen=True, kw_only=True):
    """One job of a file; ``gpus`` may be left out where the placement names them.

    Where links are shared, rates of its flows are ``weight`` times those of others [1].
    """

    model: str
    name: str = ""
    gpus: PositiveInt | None = None
    batch: PositiveInt | None = None
    placement: str = LINE
    fix: dict[str, PositiveInt] = field(default_factory=dict)
    weight: PositiveFloat = 1.0


class JobsFile(Entry, frozen=True, kw_only=True):
    """A file of jobs."""

    jobs: tuple[JobEntry, ...]


class PlacedJob(Struct, frozen=True, eq=False):
    """A job and its GPUs, in the order in which its plan counts them, shape (gpus,)."""

    entry: JobEntry
    name: str
    gpus: Ints


def read_jobs(path: Path, gpus: int, hb_size: int) -> tuple[PlacedJob, ...]:
    """Read jobs, and place them.

    Parameters
    ----------
    path
        The file.
    gpus, hb_size
        GPUs of the fabric, and of one of its HB domains [1].

    Raises
    ------
    CatalogError
        If the file is malformed, the jobs need more GPUs than there are, or one twice: file and
        line.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "jobs.yaml")
    ...     text = "jobs: [{model: gpt-22b, gpus: 16}, {model: gpt-1t, placement: 0-7}]"
    ...     _ = path.write_text(text)
    ...     [(one.name, one.gpus.tolist()) for one in read_jobs(path, gpus=32, hb_size=8)]
    [('gpt-22b 1', [8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23]),
     ('gpt-1t 2', [0, 1, 2, 3, 4, 5, 6, 7])]
    """
    document = read_yaml(path)
    entries = document.entry(JobsFile).jobs
    if not 1 <= len(entries) <= MAX_JOBS:
        raise CatalogError(f"{path}: {len(entries):,} jobs: give 1 to {MAX_JOBS:,}")
    names = [
        " ".join(entry.name.split()) or f"{entry.model} {number}"
        for number, entry in enumerate(entries, 1)
    ]
    for index, name in enumerate(names):
        if name in names[:index]:
            line = document.line(["jobs", index])
            raise CatalogError(f"{path}:{line}: a job before it is called {name:.60}, too")
    named = {
        index: _named(document, index, job, gpus)
        for index, job in enumerate(entries)
        if job.placement not in (LINE, ALTERNATE)
    }
    _check_once(document, named, names)
    counts = [
        len(named[index]) if index in named else (job.gpus or 0)
        for index, job in enumerate(entries)
    ]
    for index, count in enumerate(counts):
        if count < LEAST_GPUS:
            line = document.line(["jobs", index])
            raise CatalogError(f"{path}:{line}: {names[index]} has {count} GPUs: give 8 or more")
    if sum(counts) > gpus:
        raise CatalogError(
            f"{path}: the jobs need {sum(counts):,} GPUs, the fabric has {gpus:,}: raise --gpus, or"
            " give them fewer"
        )
    taken = _placed(entries, counts, named, (gpus, hb_size))
    return tuple(
        PlacedJob(job, name, np.array(gpus_of_job, dtype=np.int64))
        for job, name, gpus_of_job in zip(entries, names, taken, strict=True)
    )


def _named(document: Document, index: int, entry: JobEntry, gpus: int) -> list[int]:
    """GPUs that a job names."""
    where = f"{document.path}:{document.line(['jobs', index, 'placement'])}: "
    words = entry.placement.replace(",", " ").split()
    numbers = [gpu for word in words for gpu in gpu_range(word, gpus, where)]
    if entry.gpus not in (None, len(numbers)):
        raise CatalogError(f"{where}names {len(numbers):,} GPUs, and gpus says {entry.gpus:,}")
    return numbers


def _check_once(document: Document, named: dict[int, list[int]], names: Sequence[str]) -> None:
    """Refuse a GPU that is named twice."""
    job_of: dict[int, int] = {}
    for index, numbers in named.items():
        for gpu in numbers:
            if gpu in job_of:
                who = "" if job_of[gpu] == index else f", for {names[job_of[gpu]]} too"
                line = document.line(["jobs", index, "placement"])
                raise CatalogError(f"{document.path}:{line}: GPU {gpu:,} is there twice{who}")
            job_of[gpu] = index


def _placed(
    entries: Sequence[JobEntry],
    counts: Sequence[int],
    named: dict[int, list[int]],
    size: tuple[int, int],
) -> list[list[int]]:
    """GPUs of each job: those named first, then the free ones in order or in turn."""
    gpus, hb_size = size
    used = {gpu for numbers in named.values() for gpu in numbers}
    free = [gpu for gpu in range(gpus) if gpu not in used]
    taken = [named.get(index, []) for index in range(len(entries))]
    for index, entry in enumerate(entries):
        if entry.placement == LINE:
            taken[index], free = free[: counts[index]], free[counts[index] :]
    turns = [index for index, entry in enumerate(entries) if entry.placement == ALTERNATE]
    begin = 0
    while turns:
        for index in turns:
            most = free[begin : begin + min(hb_size, counts[index] - len(taken[index]))]
            block = [gpu for gpu in most if gpu // hb_size == most[0] // hb_size]
            taken[index] += block
            begin += len(block)
        turns = [index for index in turns if len(taken[index]) < counts[index]]
    return taken


SAID_OF_EACH_JOB = ("model", "batch", "fixed", "placement", "groups")


class PlacedJobs(Struct, frozen=True, eq=False):
    """All jobs of a file on one fabric, by their best plans, and the GPUs that they have."""

    placed: tuple[PlacedJob, ...]
    jobs: tuple[Job, ...]
    spec: FabricSpec
    fabric: Fabric

    @property
    def names(self) -> list[str]:
        """Name of each job."""
        return [job.name for job in self.placed]

    @property
    def gpus(self) -> Ints:
        """GPUs in use, job after job, shape (gpus,)."""
        return np.concatenate([job.gpus for job in self.placed])


def place_jobs(asked: AnyQuestion, path: Path, algorithm: Pattern) -> PlacedJobs:
    """Plan each job of a file.

    Parameters
    ----------
    asked
        The question, whose fabric they share.
    path
        The file.
    algorithm
        Which pairs of a group talk.

    Returns
    -------
    PlacedJobs
        Jobs, and the fabric.

    Raises
    ------
    NetplanError
        If the file is wrong, or a job cannot be planned: which, and what of it.
    """
    asked.reject_inputs(SAID_OF_EACH_JOB, f"{path}, which says it of each job")
    reader, on = asked.reader_and_chip()
    spec = reader.fabric(asked.cluster.fabric, asked.cluster)
    fabric = build_fabric(spec, sized(asked.cluster, on))
    placed = read_jobs(path, fabric.sizing.gpus, fabric.sizing.hb_size)
    jobs = []
    for job in with_progress(placed, lambda job: f"the plan of {job.name}"):
        entry = job.entry
        given = {"model": entry.model, "batch": entry.batch, "fixed": entry.fix}
        try:
            run = place_training(asked.with_values(gpus=len(job.gpus), **given), algorithm)
        except (InputError, InfeasibleError, UnknownNameError) as error:
            raise type(error)(f"{path}, job {job.name:.60}: {error}") from None
        jobs.append(Job(run.setting, run.timed, run.fabric, job.gpus, job.entry.weight))
    return PlacedJobs(placed, tuple(jobs), spec, fabric)
