"""Jobs that share a fabric, from a YAML file: what each trains, and on which GPUs.

::

    jobs:
      - {model: gpt-22b, gpus: 256}
      - {name: second, model: gpt-22b, gpus: 256, batch: 512, fix: {pipeline: 4}}
      - {model: gpt-22b, placement: 512-639 768-895}

A job takes the next GPUs that are free (``placement: line``), the next free HB domains in turn with
all others that say so (``alternate``), or those that it names, in the order in which its plan
counts them (words of `netplan.simulation.ranks`).

Several jobs on one fabric: an iteration of each alone, then all of them together.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from msgspec import Struct, field

from netplan.arrays import Ints
from netplan.documents import Document, read_yaml
from netplan.errors import CatalogError, InfeasibleError, InputError, UnknownNameError
from netplan.performance.error_bars import bar_note
from netplan.progress import each, share_done
from netplan.questions.answers.simulate_answer import JobRow, SimulateAnswer
from netplan.questions.setup.degraded_links import round_note
from netplan.questions.setup.placed_run import PlacedRun
from netplan.questions.setup.runs import place_training
from netplan.questions.setup.simulation_inputs import SimulationQuestion
from netplan.records import Entry, PositiveInt, RecordError, replace
from netplan.reports.sections import Heading
from netplan.scenarios.reading import CatalogReader, sized
from netplan.simulation.ranks import gpu_range
from netplan.simulation.simulate import Job, simulate_jobs
from netplan.topologies.build import build_fabric
from netplan.units import counted
from netplan.workloads.accelerators import ACCELERATORS

LINE, ALTERNATE = "line", "alternate"
LEAST_GPUS = 8
MAX_JOBS = 1_000


class JobEntry(Entry, frozen=True, kw_only=True):
    """One job of a file; ``gpus`` may be left out where the placement names them."""

    model: str
    name: str = ""
    gpus: PositiveInt | None = None
    batch: PositiveInt | None = None
    placement: str = LINE
    fix: dict[str, PositiveInt] = field(default_factory=dict)


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
    try:
        entries = JobsFile.read(document.data).jobs
    except RecordError as error:
        lines = [f"{path}:{document.line(keys)}: {text}" for keys, text in error.faults]
        raise CatalogError(*lines) from None
    if not 1 <= len(entries) <= MAX_JOBS:
        raise CatalogError(f"{path}: {len(entries):,} jobs: give 1 to {MAX_JOBS:,}")
    names = _names(entries)
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


def _names(entries: Sequence[JobEntry]) -> list[str]:
    """Name of each job: its own, in one line, else that of its model with its number."""
    return [
        " ".join(entry.name.split()) or f"{entry.model} {number}"
        for number, entry in enumerate(entries, 1)
    ]


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
REPEATED = (
    "All jobs begin at the same moment. Those that share links repeat their iterations until each"
    " has ended the one under way when the last of them ended its first: times are means."
)


def jobs_answer(asked: SimulationQuestion, path: Path) -> SimulateAnswer:
    """Simulate each job of a file alone, then all of them together.

    Raises
    ------
    NetplanError
        If the file is wrong, or a job cannot be planned: which, and what of it.
    """
    asked.refuse(SAID_OF_EACH_JOB, f"{path}, which says it of each job")
    reader = CatalogReader(asked.catalog, asked.overrides)
    on, spec = (
        reader.load(ACCELERATORS, asked.cluster.accelerator),
        reader.fabric(asked.cluster.fabric, asked.cluster),
    )
    fabric = build_fabric(spec, sized(asked.cluster, on))
    graph, notes = asked.graph_of(spec, fabric.sizing)
    placed = read_jobs(path, fabric.sizing.gpus, fabric.sizing.hb_size)
    conditions = asked.conditions(graph, np.concatenate([job_placed.gpus for job_placed in placed]))
    jobs: list[Job] = []
    alone_s: list[float] = []
    for job_placed in each(placed, lambda job_placed: f"{job_placed.name} alone"):
        run = _run_of(asked, job_placed)
        jobs.append(Job(run.setting, run.timed, run.fabric, job_placed.gpus))
        alone_s += simulate_jobs(jobs[-1:], graph, replace(conditions, spans=False)).times_s
    tick = share_done("microbatches of the job with the most simulated")
    outcome = simulate_jobs(jobs, graph, conditions, tick=tick)
    intact_s: tuple[float | None, ...] = (None,) * len(jobs)
    if asked.slow or asked.fail:
        intact_s = simulate_jobs(jobs, graph, conditions.on_whole_links).times_s
    means = zip(outcome.times_s, outcome.iterations, intact_s, strict=True)
    rows = tuple(
        JobRow(
            job_placed.name, job_placed.entry.model, job.timed.plan, time_s, *mean, job.timed.error
        )
        for job_placed, job, time_s, mean in zip(placed, jobs, alone_s, means, strict=True)
    )
    links = (
        f"fabric {spec.name}" if asked.cluster.graph is None else f"links of {asked.cluster.graph}"
    )
    used = sum(len(job_placed.gpus) for job_placed in placed)
    heading = Heading(
        f"{counted(len(rows), 'job')} on {used:,} of {asked.cluster.gpus:,} {on.name}",
        (f"HB domains of {graph.hb_size:,}, {links}; routing {asked.routing}",),
    )
    inputs = asked.inputs(model=None, hb_size=graph.hb_size, set=reader.replaced())
    bars = (*dict.fromkeys(sentence for job in jobs for sentence in bar_note(job.timed.error)),)
    further_notes = (*bars, *round_note(asked.fail, graph, asked.routing))
    notes = (*fabric.notes, *notes, *outcome.whole.notes, REPEATED, *further_notes)
    return SimulateAnswer(inputs, heading, outcome.whole, jobs=rows, notes=notes)


def _run_of(asked: SimulationQuestion, job: PlacedJob) -> PlacedRun:
    """A job by its best plan on a fabric of its own size."""
    entry = job.entry
    given = {"model": entry.model, "batch": entry.batch, "fixed": entry.fix}
    try:
        job_question = replace(asked.with_values(gpus=len(job.gpus), **given), jobs=None)
        return place_training(job_question, job_question.algorithm)
    except (InputError, InfeasibleError, UnknownNameError) as error:
        raise type(error)(f"{asked.jobs}, job {job.name:.60}: {error}") from None
