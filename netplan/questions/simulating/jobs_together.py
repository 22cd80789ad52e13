"""Several jobs on one fabric: an iteration of each alone, then all of them together."""

from pathlib import Path

from netplan.answers.simulate_answer import JobRow, SimulateAnswer
from netplan.faults.damage.degraded_links import round_note
from netplan.performance.error_bars import bar_note
from netplan.progress import each, share_done
from netplan.questions.simulating.contention import contention_of_jobs
from netplan.questions.simulating.inputs import SimulationQuestion
from netplan.records import replace
from netplan.reports.sections import Heading
from netplan.scenarios.reading import CatalogReader
from netplan.setup.jobs_file import place_jobs
from netplan.simulation.simulate import simulate_jobs
from netplan.units import counted
from netplan.workloads.accelerators import ACCELERATORS

REPEATED = (
    "All jobs begin at the same moment. Those that share links repeat their iterations until each"
    " has ended the one under way when the last of them ended its first: times are means."
)
UNWEIGHED = "Weights of jobs mean nothing where links are booked: --sharing fluid shares by them."


def jobs_answer(asked: SimulationQuestion, path: Path) -> SimulateAnswer:
    """Simulate each job of a file alone, then all of them together.

    Raises
    ------
    NetplanError
        If the file is wrong, or a job cannot be planned: which, and what of it.
    """
    placed = place_jobs(asked, path, asked.algorithm)
    jobs, fabric, names = placed.jobs, placed.fabric, placed.names
    graph, notes = asked.graph_of(placed.spec, fabric.sizing)
    conditions = asked.conditions(graph, placed.gpus)
    apart = replace(conditions, spans=False)
    alone_s = [
        simulate_jobs([job], graph, apart).times_s[0]
        for _, job in each([*zip(names, jobs, strict=True)], lambda row: f"{row[0]} alone")
    ]
    tick = share_done("microbatches of the job with the most simulated")
    outcome = simulate_jobs(jobs, graph, conditions, tick=tick)
    intact_s: tuple[float | None, ...] = (None,) * len(jobs)
    if asked.slow or asked.fail:
        intact_s = simulate_jobs(jobs, graph, conditions.on_whole_links).times_s
    means = zip(outcome.times_s, outcome.iterations, intact_s, strict=True)
    rows = tuple(
        JobRow(row.name, row.entry.model, job.timed.plan, time_s, *mean, job.timed.error)
        for row, job, time_s, mean in zip(placed.placed, jobs, alone_s, means, strict=True)
    )
    design = None
    if asked.sharing == "fluid":
        shared = contention_of_jobs(names, jobs, outcome, graph, conditions)
        design = asked.design(shared, graph, conditions)
    links = f"fabric {placed.spec.name}"
    if asked.cluster.graph is not None:
        links = f"links of {asked.cluster.graph}"
    used = len(placed.gpus)
    reader = CatalogReader(asked.catalog, asked.overrides)
    heading = Heading(
        f"{counted(len(rows), 'job')} on {used:,} of {asked.cluster.gpus:,}"
        f" {reader.load(ACCELERATORS, asked.cluster.accelerator).name}",
        (f"HB domains of {graph.hb_size:,}, {links}; routing {asked.routing}",),
    )
    inputs = asked.inputs(model=None, hb_size=graph.hb_size, set=reader.replaced())
    weighed = any(row.entry.weight != 1 for row in placed.placed)
    further_notes = (
        *dict.fromkeys(sentence for job in jobs for sentence in bar_note(job.timed.error)),
        *round_note(asked.fail, graph, asked.routing),
        *((UNWEIGHED,) if weighed and design is None else ()),
    )
    notes = (*fabric.notes, *notes, *outcome.whole.notes, REPEATED, *further_notes)
    return SimulateAnswer(inputs, heading, outcome.whole, jobs=rows, notes=notes, design=design)
