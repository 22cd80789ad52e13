"""Several jobs on one fabric: an iteration of each alone, then all of them together."""

from pathlib import Path

import numpy as np

from netplan.errors import InfeasibleError, InputError, UnknownNameError
from netplan.performance.error_bars import bar_note
from netplan.progress import each, share_done
from netplan.questions.answers.simulate_answer import JobRow, SimulateAnswer
from netplan.questions.setup.degraded_links import round_note
from netplan.questions.setup.jobs_file import PlacedJob, read_jobs
from netplan.questions.setup.placed_run import PlacedRun
from netplan.questions.setup.runs import place_training
from netplan.questions.setup.simulation_inputs import SimulationQuestion
from netplan.records import replace
from netplan.reports.sections import Heading
from netplan.scenarios.reading import CatalogReader, sized
from netplan.simulation.simulate import Job, simulate_jobs
from netplan.topologies.build import build_fabric
from netplan.units import counted
from netplan.workloads.accelerators import ACCELERATORS

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
        reader.fabric(asked.cluster.fabric, asked.cluster.ports),
    )
    fabric = build_fabric(spec, sized(asked.cluster, on))
    graph, notes = asked.graph_of(spec, fabric.sizing)
    placed = read_jobs(path, fabric.sizing.gpus, fabric.sizing.hb_size)
    conditions = asked.conditions(graph, np.concatenate([one.gpus for one in placed]))
    jobs: list[Job] = []
    alone_s: list[float] = []
    for one in each(placed, lambda one: f"{one.name} alone"):
        run = _run_of(asked, one)
        jobs.append(Job(run.setting, run.timed, run.fabric, one.gpus))
        alone_s += simulate_jobs(jobs[-1:], graph, replace(conditions, spans=False)).times_s
    tick = share_done("microbatches of the job with the most simulated")
    found = simulate_jobs(jobs, graph, conditions, tick=tick)
    intact_s: tuple[float | None, ...] = (None,) * len(jobs)
    if asked.slow or asked.fail:
        intact_s = simulate_jobs(jobs, graph, conditions.on_whole_links).times_s
    means = zip(found.times_s, found.iterations, intact_s, strict=True)
    rows = tuple(
        JobRow(one.name, one.entry.model, job.timed.plan, time_s, *mean, job.timed.error)
        for one, job, time_s, mean in zip(placed, jobs, alone_s, means, strict=True)
    )
    links = (
        f"fabric {spec.name}" if asked.cluster.graph is None else f"links of {asked.cluster.graph}"
    )
    used = sum(len(one.gpus) for one in placed)
    heading = Heading(
        f"{counted(len(rows), 'job')} on {used:,} of {asked.cluster.gpus:,} {on.name}",
        (f"HB domains of {graph.hb_size:,}, {links}; routing {asked.routing}",),
    )
    inputs = asked.inputs(model=None, hb_size=graph.hb_size, set=reader.replaced())
    bars = (*dict.fromkeys(said for job in jobs for said in bar_note(job.timed.error)),)
    told = (*bars, *round_note(asked.fail, graph, asked.routing))
    notes = (*fabric.notes, *notes, *found.whole.notes, REPEATED, *told)
    return SimulateAnswer(inputs, heading, found.whole, jobs=rows, notes=notes)


def _run_of(asked: SimulationQuestion, job: PlacedJob) -> PlacedRun:
    """A job by its best plan on a fabric of its own size."""
    entry = job.entry
    given = {"model": entry.model, "batch": entry.batch, "fixed": entry.fix}
    try:
        own = replace(asked.with_values(gpus=len(job.gpus), **given), jobs=None)
        return place_training(own, own.algorithm)
    except (InputError, InfeasibleError, UnknownNameError) as error:
        raise type(error)(f"{asked.jobs}, job {job.name:.60}: {error}") from None
