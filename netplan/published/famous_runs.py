"""Famous training runs, asked as a planner would: the plan that netplan chooses, and its time.

Of each run of `reports/published/famous-runs.csv` netplan is told the machine, its GPUs, the model,
batch, sequence length, precision and the month of its software, and nothing of the plan:
:func:`~netplan.search` finds it, as the command does. Its time stands over the published one, the
chosen plan beside that of the run. What is aimed at: of dense runs by the software that searches
assume where none is named, Megatron-Core and what is made of it, seven of eight take 0.8 to 1.08
times the published seconds. Less would be a plan that nobody could run, more one that a team beats
by hand. Under software of a date three of four do, which is what is held; by times without a date
seven of eight did, with a median of 0.88 in place of 0.92.

Other software is slower or keeps more by itself; its runs are listed, and do not count, nor do
mixtures of experts, whose bars are wider.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from math import ceil
from typing import Any, cast

from msgspec import Struct

from netplan.errors import NetplanError
from netplan.performance.plan import Plan, PlanTime
from netplan.published.checks import CLOSE, Check, check, published
from netplan.questions.search import search
from netplan.reports.sections import Column, Section, Table, column
from netplan.traffic.placement import Degrees, Placement
from netplan.workloads.program import Zero
from netplan.workloads.recomputation import Recomputation

TITLE = "Famous training runs"
TABLE = "famous-runs"
SCENARIO = "hgx-h100"
"""Gives the fabric, rail-optimized; all that a run says replaces the scenario's."""

COUNTED = ("nemo-2024", "megatron-2025")
"""Software of the runs that count: that of the default stack, and what it grew from."""

LEAST, MOST = 0.8, 1.08
"""Chosen over published time within which a run counts as met [1]."""

LEAST_SHARE, AIM = 3 / 4, 7 / 8
"""Share of the counted runs that are met at least, and that is aimed at [1]."""

NO_PLAN = "no plan is found"


class FamousRun(Struct, frozen=True):
    """A published run: what netplan is told of it, and what it is compared with.

    Parameters
    ----------
    name, source, url
        Id of the run, who published it, and where.
    asked
        Inputs of the search: machine, GPUs, model, batch, precision.
    software
        Training stack of the run.
    dense
        Whether it has no experts.
    seconds
        Time of an iteration as published [s].
    plan
        The plan as published.
    """

    name: str
    source: str
    url: str
    asked: Mapping[str, Any]
    software: str
    dense: bool
    seconds: float
    plan: str

    @classmethod
    def of(cls, row: Mapping[str, str]) -> "FamousRun":
        """The run of a row of the table."""
        replaced = {
            "accelerator.network_bytes_per_s": row["network_bytes_per_s"],
            "model.sequence_length": row["sequence"],
            **{f"model.{name}": row[name] for name in ("vocabulary", "heads", "rotary")},
        }
        asked = {
            **{name: row[name] for name in ("accelerator", "model", "precision", "network_kind")},
            **{name: int(row[name]) for name in ("gpus", "hb_size", "batch")},
            "overrides": replaced,
            **({"software_date": row["software_date"]} if row["software_date"] else {}),
        }
        names = ("tensor", "context", "expert", "data", "pipeline")
        plan = Plan(
            Placement((Degrees(**{name: int(row[name]) for name in names}),)),
            int(row["microbatch"]),
            1,
            int(row["interleave"]),
            recompute=Recomputation.read(row["recompute"]),
            zero=cast("Zero", int(row["zero"])),
        )
        return cls(
            row["id"],
            row["source"],
            row["url"],
            asked,
            row["software"],
            row["kind"] == "dense",
            float(row["seconds"]),
            plan_words(plan),
        )

    @property
    def counts(self) -> bool:
        """Whether the rule is about it."""
        return self.dense and self.software in COUNTED


class FamousChoice(Struct, frozen=True):
    """What netplan chose for a run.

    Parameters
    ----------
    run
        The run.
    best
        The plan that was found, None where none was.
    reason
        Why none was.
    """

    json_parts = (
        *("run.name", "run.url", "run.counts", "published_s=run.seconds", "chosen_s=seconds"),
        *("published_plan=run.plan", "chosen_plan=best.plan"),
    )

    run: FamousRun
    best: PlanTime | None
    reason: str = ""

    @property
    def seconds(self) -> float | None:
        """Time of the chosen plan [s]."""
        return self.best.iteration_time_s if self.best else None

    @property
    def ratio(self) -> float | None:
        """Chosen over published time [1]."""
        return self.best.iteration_time_s / self.run.seconds if self.best else None

    @property
    def plan(self) -> str:
        """The chosen plan in words."""
        return plan_words(self.best.plan) if self.best else "-"


def plan_words(plan: Plan) -> str:
    """Degrees of a plan, its chunks a stage and what it keeps, such as ``TP8 PP16 DP128 VP4``.

    Examples
    --------
    >>> plan_words(Plan(Placement((Degrees(tensor=8, pipeline=4),)), 1, 8, 2, zero=2))
    'TP8 PP4 DP1 VP2 ZeRO 2'
    """
    chunks = (f"VP{plan.interleave}",) if plan.interleave > 1 else ()
    return " ".join((plan.degrees, *chunks, *plan.kept_words))


def famous_runs() -> list[FamousRun]:
    """All runs of the table.

    Examples
    --------
    >>> runs = famous_runs()
    >>> len(runs), sum(run.dense for run in runs), sum(run.counts for run in runs)
    (36, 28, 17)
    """
    return [FamousRun.of(row) for row in published(TABLE)]


def chosen_plan(run: FamousRun) -> FamousChoice:
    """Let netplan choose the plan of a run, as the command does.

    Examples
    --------
    >>> run = next(run for run in famous_runs() if run.name == "LLAMA3-T4-2")
    >>> run.seconds, run.plan, chosen_plan(run).best.plan.gpus <= 16384
    (6.7211, 'TP8 PP16 DP128 ZeRO 2', True)
    """
    try:
        answer = search(SCENARIO, top=1, published=False, **run.asked)
    except NetplanError as error:
        return FamousChoice(run, None, f"{NO_PLAN}: {str(error).partition(':')[0]}")
    return FamousChoice(run, answer.best)


@cache
def famous_choices() -> tuple[FamousChoice, ...]:
    """What netplan chose for all runs, in the order of the table."""
    return tuple(map(chosen_plan, famous_runs()))


def famous_run_checks() -> Iterator[Check]:
    """The chosen plans, as checks, and the rule on those that count."""
    return choice_checks(famous_choices())


def choice_checks(choices: tuple[FamousChoice, ...]) -> Iterator[Check]:
    """One check a run, and the rule."""
    for choice in choices:
        run, got = choice.run, "-"
        if choice.best:
            got = f"{choice.seconds:.4g} ({choice.ratio:.2f} times), {choice.plan}"
        named = (
            f"{run.name}, s and plan",
            f"{TITLE}, {run.source}",
            f"{run.seconds:.4g}, {run.plan}",
            got,
        )
        gap = choice.ratio - 1 if choice.ratio else None
        # The plan of the run is among those searched, so that the best takes no longer.
        yield check(*named, choice.reason, met=gap is not None and gap <= CLOSE, gap=gap)
    counted = [choice for choice in choices if choice.run.counts]
    met = sum(LEAST <= choice.ratio <= MOST for choice in counted if choice.ratio is not None)
    rule = (
        f"chosen plans that take {LEAST:g} to {MOST:g} times as long as {len(counted)} dense runs",
        TITLE,
    )
    aim, least = (ceil(share * len(counted)) for share in (AIM, LEAST_SHARE))
    yield check(*rule, f"at least {aim}", f"{met}", met=met >= least, gap=met / aim - 1)


def choice_sections(choices: tuple[FamousChoice, ...]) -> Iterator[Section]:
    """Runs with their times and plans, published and chosen."""
    counted, others = (
        [choice for choice in choices if choice.run.dense and choice.run.counts is counts]
        for counts in (True, False)
    )
    mixtures = [choice for choice in choices if not choice.run.dense]
    yield Table("famous-runs", CHOICES, counted, f"{TITLE}: chosen plans", shown="people")
    yield Table("famous-runs", CHOICES, others, f"{TITLE} of other software", shown="people")
    yield Table("famous-runs", CHOICES, mixtures, f"{TITLE} with experts", shown="people")


CHOICES: tuple[Column[FamousChoice], ...] = (
    column("name", "run.name", title="run"),
    column("measured_s", "run.seconds", title="published"),
    column("degrees", "run.plan", title="plan", form="text"),
    column("predicted_s", "seconds", title="chosen"),
    column("ratio", "ratio", title="times"),
    column("degrees", "plan", title="chosen plan", form="text"),
)
