"""Chapters of a procurement report that are there where the question asks for them.

Error bars (``--iteration-model calibrated``), one simulated iteration (``--simulate``), servers
(``--workload serving``) and memory tiers (``--expanded-memory``): each as the command of its own
answers it, for the fabric that is shown in full.
"""

from collections.abc import Iterator

from netplan.performance.error_bars import bar_note
from netplan.performance.plan import PlanTime
from netplan.procurement.findings import Findings
from netplan.questions.answers.memory_answer import MemoryAnswer
from netplan.questions.answers.served_plan import serving_words
from netplan.questions.money.token_cost import LEGEND, token_columns
from netplan.records import replace
from netplan.reports.answer import Answer
from netplan.reports.sections import Bars, Column, Heading, Paragraph, Section, Table, column

CLOCKS = (" ms)", " s)", "µs)")
"""Ends of what an answer says about the time it took: a report has the same bytes every time."""


def errors_chapter(found: Findings) -> Iterator[Section]:
    """Low and high end of every iteration time, and what they rest on."""
    rows = [(name, best) for name, best in found.timed.items() if best.error]
    if not rows:
        return
    yield Heading("How sure the times are", (), "errors")
    columns: list[Column[tuple[str, PlanTime]]] = [
        column("fabric", "0"),
        column("iteration_time_s", "1.iteration_time_s"),
        column("iteration_time_low_s", lambda row: row[1].known_bar["iteration_time_low_s"]),
        column("iteration_time_high_s", lambda row: row[1].known_bar["iteration_time_high_s"]),
        column("error_basis", lambda row: row[1].known_bar["error_basis"]),
    ]
    yield Table("error bars", columns, rows)
    yield from (Paragraph(said, "quiet") for said in bar_note(rows[0][1].error))


def simulation_chapter(found: Findings) -> Iterator[Section]:
    """One iteration, or one round of servers, event by event."""
    if found.simulation is None:
        return
    yield Heading(f"One iteration, event by event: {found.chosen.name}", (), "simulation")
    yield from within("simulation", found.simulation)


def serving_chapter(found: Findings) -> Iterator[Section]:
    """What a million tokens cost on each fabric, and how the chosen one serves."""
    if not found.serves:
        return
    yield Heading("Serving", (f"{serving_words(found.inputs)}.",), "serving")
    shown = [column("fabric"), *token_columns(found.cost.currency)]
    chosen = found.recommendation.fabric
    yield Table(
        "tokens",
        shown,
        found.cost.served,
        "What a million tokens cost",
        (LEGEND,),
        chosen=lambda row: row.fabric == chosen,
    )
    if found.serving is not None:
        yield from within("serving", found.serving)


def memory_chapter(found: Findings) -> Iterator[Section]:
    """What lies in which memory of a GPU, and what that costs."""
    timed, chip = found.row(found.chosen.name).timed, found.chip
    if timed is None or chip is None or not chip.expanded_bytes:
        return
    yield Heading(f"Memory of a GPU: {found.chosen.name}", (), "memory")
    yield from MemoryAnswer.of(timed, chip).sections()
    priced = found.chosen.memory
    if priced.base:
        yield Paragraph(
            f"The expanded memory costs {found.cost.scale.one(priced.base)}"
            f" {found.cost.scale.title} of the order."
        )


def within(part: str, answer: Answer) -> Iterator[Section]:
    """Sections of another answer as part of a chapter, its tables under names of their own."""
    for section in answer.sections():
        if isinstance(section, Heading):
            lines = (section.title, *section.lines)
            told = (line for line in lines if not line.rstrip(".").endswith(CLOCKS))
            yield from (Paragraph(line, "quiet") for line in told)
        elif isinstance(section, Paragraph):
            yield replace(section, style="plain") if section.style == "strong" else section
        elif isinstance(section, Table | Bars):
            yield replace(section, name=f"{part}: {section.name}")
        else:
            yield section
