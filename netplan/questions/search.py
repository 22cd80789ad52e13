"""The best parallel plans of a model on one fabric, and why one plan or mode beats another."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, cast

from netplan.answers.screen_titles import screen_heading
from netplan.errors import InfeasibleError, InputError
from netplan.inputs.choices import Execution
from netplan.inputs.readers import digits
from netplan.levels import gpu_count
from netplan.performance.barred import barred_columns
from netplan.performance.error_bars import bar_note
from netplan.performance.explain import TermDifference, explain, explain_modes
from netplan.performance.forwarding import Forwarding, forwarding_of
from netplan.performance.plan import PlanTime, RankedPlan, SearchResult, by_turnaround
from netplan.performance.published_runs import AskedRun, nearest_row
from netplan.performance.search import best_usual, search_plans, unusual_of
from netplan.performance.setting import Options, TrainedModel
from netplan.performance.usual_plan import usual_dict, usual_sentence
from netplan.performance.utilisation import Utilisation, utilisation_of
from netplan.records import replace
from netplan.reports.answer import Answer
from netplan.reports.quantities import quantity
from netplan.reports.screen import Screen, columns_of, more_of, shares_of, texts_of
from netplan.reports.sections import (
    Bars,
    Column,
    Heading,
    Notes,
    Paragraph,
    Section,
    Table,
    column,
    columns,
)
from netplan.setup import plan_notes as plan_words
from netplan.setup import training as trained
from netplan.setup.asking import function_of
from netplan.setup.inputs import found_words, replaced_lines, short_inputs
from netplan.setup.over_sites import Elsewhere, beside_one_site
from netplan.setup.own_inputs import default_field, option_field
from netplan.setup.question import NETWORK, POST_TRAINED, SPAN, TRAINED, Question
from netplan.setup.runs import PLACED, with_fitting
from netplan.traffic.algorithms import COLLECTIVE_ALGORITHM, algorithm_of, named_note
from netplan.traffic.placement import DIMENSIONS
from netplan.units import si
from netplan.workloads.accelerators import Accelerator
from netplan.workloads.models import Model

if TYPE_CHECKING:
    from netplan.answers.layer_answer import LayerAnswer
    from netplan.answers.memory_answer import HeldAnswer, MemoryAnswer
    from netplan.questions.published_line import PublishedRun

PARTS = {
    "compute": "computing",
    "memory": "waiting for memory",
    "tensor_comm": "tensor parallel",
    "data_comm": "data parallel",
    "pipeline_comm": "pipeline transfers",
    "expert_comm": "expert parallel",
    "bubble": "pipeline bubble",
    "update": "optimizer's update",
    "attention": "attention",
    "recompute": "computing again",
    "host": "waiting for the host",
    "optimizer": "optimizer's update",
    "fixed": "a fixed time",
    "jitter": "waiting for the slowest",
    "software": "drift of software",
}
"""Parts of an iteration for people."""

DETAILS = ("mapping", "layer", "memory")
"""Explanations of the best plan alone: its layer, or its memory."""


Ranked = tuple[int, PlanTime]
KEEPS: Column[Ranked] = column(
    "keeps", lambda row: ", ".join(row[1].plan.kept_words) or "all", shown="people"
)


@dataclass(frozen=True, slots=True, repr=False)
class SearchAnswer(Answer):
    """The answer of :func:`search`: the best plans and the size of the space.

    Beside them stand the memory of one GPU [B], what the fabric assumes, and the differences term
    by term where an explanation was asked for, of ``compared`` plans if it is one of two, the
    nearest ``published`` run, the best of the plans that teams run, with what of the best one is
    ``unusual``, what rails forward for experts, and the run over several sites.
    """

    json_parts = (
        *("*found", "notes=all_notes", "?utilisation", "*usual_and_tight", "*elsewhere.facts"),
        *("?forwarding", "?published", "*equality", "?explanation=differences", "*detail"),
    )

    inputs: dict[str, Any]
    found: SearchResult
    memory_bytes: float
    expanded_bytes: float = 0.0
    notes: tuple[str, ...] = ()
    differences: tuple[TermDifference, ...] = ()
    compared: tuple[PlanTime, ...] = ()
    detail: "LayerAnswer | MemoryAnswer | HeldAnswer | None" = None
    published: "tuple[PublishedRun, ...]" = ()
    published_notes: tuple[str, ...] = ()
    usual: PlanTime | None = None
    unusual: tuple[str, ...] = ()
    forwarding: Forwarding | None = None
    elsewhere: Elsewhere | None = None

    @property
    def best(self) -> PlanTime:
        """The plan to run, with its time [s] and memory [B]; all found are ``found.plans``.

        Examples
        --------
        >>> best = search("hgx-b200", gpus=8192).best
        >>> best
        <PlanTime TP4 CP2 PP8 DP128, 16 x 1 microbatches: 4.47 s (3.58-5.59), MFU 53%, 123 GB>
        >>> best.plan.shape, best.plan.microbatches, round(best.mfu, 2)
        ('(4x2)x8x128', 16, 0.53)
        """
        return self.found.best

    @property
    def all_notes(self) -> list[str]:
        """What is to be known of the plans."""
        return [*self.notes, *self._alternatives, *self.published_notes]

    @property
    def usual_and_tight(self) -> dict[str, Any]:
        """What teams run, and a faster plan that may fit; nothing where memory is not told."""
        if not self.best.memory:
            return {}
        tight = self.found.tight
        return {
            "usual": usual_dict(self.best, self.usual, self.unusual),
            "tight": RankedPlan(1, tight) if tight else None,
        }

    @property
    def equality(self) -> dict[str, bool]:
        """Whether two plans that were compared are equal; nothing without error bars."""
        if not (self.differences and self._barred):
            return {}
        return {"equal": self.compared[0].equals(self.compared[1])}

    @property
    def utilisation(self) -> Utilisation | None:
        """What of the peak the best plan uses, what it loses and why.

        None of models without transformer layers, and of instances side by side.

        Examples
        --------
        >>> lost = search("hgx-b200", gpus=8192).utilisation
        >>> round(lost.mfu + sum(loss.share for loss in lost.causes), 9)
        1.0
        """
        best, setting = self.found.best, self.found.settings[0]
        if best.instances or not isinstance(setting.training.model, Model):
            return None
        setting, inputs = self.found.setting_of(best), self.inputs
        return utilisation_of(setting, best, inputs["gpus"], accelerator=inputs["accelerator"])

    @property
    def _barred(self) -> bool:
        """Whether two plans were compared whose times have error bars."""
        return bool(self.compared) and self.compared[0].error is not None

    def summary(self) -> Iterator[Section]:
        """The best plan, the plans next to it or what was explained, where time and memory go."""
        heading, result = self._heading(), self.found
        where, how, space, *replaced = heading.lines
        ranked = list(enumerate(result.plans, start=1))
        columns = list(self._columns())
        order = ("rank", "turnaround_s", "iteration_time_s", "mfu", "degrees", "grid", "schedule")
        kept = ("keeps",) if result.best.plan.recompute is not None else ()
        plans = Table("plans", [*columns, KEEPS], ranked)
        held_columns = columns_of(plans, *order, "memory_bytes", *kept, "gpus_used")
        table = replace(plans, columns=held_columns)
        asked = [part for part in self._explained_sections() if isinstance(part, Table)]
        explained = [part for part in asked if part.shown != "data"]
        memory = self._memory(result.best)
        parts = sorted(memory.parts, key=lambda part: -part[1])
        held = [f"{name} {si(amount, 'B')}" for name, amount in parts if amount > 0]
        firm = (*self._alternatives, *self._time_words, *self.published_notes)
        firm = getattr(self.detail, "remarks", firm)
        how = how.removesuffix(" (corrected)")
        if self.inputs.get("as_found", 1.0) < 1:  # Lines can give way to remarks, a title cannot.
            share = found_words(self.inputs)
            how = how.replace(f", {share}", "")
            heading = replace(heading, title=f"{heading.title}, {share}")
        yield from Screen(
            screen_heading(self.inputs, heading, f"{where}; {how}", *replaced),
            tuple(self._verdict(texts_of(columns, ranked[0]))),
            explained[0] if explained else table,
            tuple(
                dict.fromkeys(
                    (
                        *firm,
                        *self._alternatives,
                        f"Its memory: {', '.join(held)}.",
                        *bar_note(result.best.error),
                        space,
                        *self.notes[1:],
                    )
                )
            ),
            more_of("bars, notes", "--explain 1,2", "--fix pipeline=32"),
            firm_remarks=len(firm),
        ).sections()

    def in_a_line(self) -> str:
        """The best plan, its time and its utilisation."""
        texts = texts_of(list(self._columns()), (1, self.found.best))
        return f"{self._named}, {self.found.best.time_text}, MFU {texts['mfu']}"

    def _verdict(self, best: dict[str, str]) -> Iterator[str]:
        """The best plan, and which others are as good."""
        result = self.found
        took = result.best.time_text
        if result.best.instances:
            took = f"all instances in {best['turnaround_s']}, one iteration in {took}"
        yield (f"Best plan: {self._named}: {took}, MFU {best['mfu']}, {self._room(best)}.")
        if self._barred:
            ranks = (f"plan {rank}" for rank in _ranks(self.inputs["explain"]))
            yield plan_words.told_apart(tuple(ranks), *self.compared)
        elif result.best.error:
            yield from (
                f"{text.partition(' (')[0]}." for text in plan_words.equal_to_best(result.plans)
            )
        elif len(result.plans) > 1:
            # Among plans within 1 % the one that recomputes and cuts less stands first.
            more = _ranked_s(result.plans[1]) / _ranked_s(result.best) - 1
            yield f"The next one takes {100 * abs(more):.2g} % {'longer' if more >= 0 else 'less'}."
        if result.settings[0].training.measured is not None:
            yield "Kernels one by one, back to back: whole runs take longer."

    def _room(self, best: dict[str, str]) -> str:
        """What the best plan holds, of what there is."""
        kept = self.found.best.memory
        if kept is None:
            room = si(self.memory_bytes + self.expanded_bytes, "B")
            return f"{best['memory_bytes']} of {room} a GPU"
        held, colon, verdict = kept.words.partition(":")
        return f"{held} a GPU{colon}{verdict}"

    @property
    def _alternatives(self) -> Iterator[str]:
        """A faster plan that may fit, and what teams would run."""
        result = self.found
        yield from (self.elsewhere.sentence,) if self.elsewhere else ()
        if (memory := result.best.memory) and not memory.fits:
            compared = result.settings[0].training.stack_memory
            if compared and not compared.checked_kind:  # those that fit do not go before others
                yield f"Plan 1 is {memory.verdict}: slower ones may fit for sure."
            else:
                yield f"No plan is sure to fit: plan 1 is {memory.verdict}."
        if tight := result.tight:
            kept = tight.memory.words if tight.memory else ""
            yield f"Faster, tight: {tight.time_text}, {_plan_words(tight)}, {kept}."
        yield from filter(None, (usual_sentence(result.best, self.usual, self.unusual),))
        yield from (self.forwarding.sentence,) if self.forwarding else ()
        if result.best.memory and self.inputs["use_per_domain"] is None:
            yield from plan_words.part_note(self.inputs["gpus"], self.inputs["hb_size"])

    @property
    def _named(self) -> str:
        """The best plan in words."""
        plan = self.found.best.plan
        if self.found.exchange is not None:
            return f"{plan.gpus:,} GPUs" + (f", {plan.grid}" if self.found.on_grid else "")
        return _plan_words(self.found.best)

    @property
    def _time_words(self) -> Iterator[str]:
        """Where the best plan's time goes: what of the peak is lost, or shares of the time."""
        if self.utilisation:
            yield self.utilisation.warning or self.utilisation.sentence(2)
        elif self.found.best.breakdown_s:
            yield f"Its time: {shares_of(self._time.parts, self._time.whole, most=6)}."

    @property
    def _time(self) -> Bars:
        """Where the time of the best plan goes."""
        best = self.found.best
        names = PARTS if self.found.exchange is None else PARTS | {self.found.exchange: "exchange"}
        return Bars(
            "time",
            f"Time of plan 1: {best.time_text}",
            quantity("seconds"),
            tuple((names[key], value) for key, value in best.breakdown_s.items()),
            best.iteration_time_s,
        )

    def _explained_sections(self) -> Iterator[Section]:
        """The explanation that was asked for."""
        yield from self._explanation()
        yield from self.detail.sections() if self.detail else ()

    def sections(self) -> Iterator[Section]:
        """Heading, the plans, where the best one's time and memory go, the explanation, notes."""
        best, columns = self.found.best, list(self._columns())
        yield self._heading()
        yield Paragraph(next(self._verdict(texts_of(columns, (1, best)))), "strong")
        yield Table("plans", columns, list(enumerate(self.found.plans, start=1)))
        sentences = (
            *plan_words.equal_to_best(self.found.plans),
            *self._alternatives,
            *self.published_notes,
        )
        yield from (Paragraph(sentence) for sentence in sentences)
        yield self._time
        if best.phases_s:
            yield Bars(
                "phases",
                "Phases of plan 1, memory traffic and update with their computing",
                quantity("seconds"),
                tuple((plan_words.PHASES[key], value) for key, value in best.phases_s.items()),
                best.iteration_time_s,
            )
        yield from (Paragraph(self.utilisation.sentence()),) if self.utilisation else ()
        yield self._memory(best)
        yield from self._explained_sections()
        yield Notes.of([(self.inputs["fabric"], self.notes)])

    def _memory(self, best: PlanTime) -> Bars:
        """What the best plan holds, in which tier."""
        used, local_bytes = best.memory_bytes, self.memory_bytes
        if best.memory is not None:
            local_bytes = best.memory.usable_bytes
        room, parts, tiers = local_bytes + self.expanded_bytes, best.memory_parts_bytes, ""
        if best.memory_tiers_bytes:
            there = {name: split["expanded"] for name, split in best.memory_tiers_bytes.items()}
            tiers = f", {si(sum(there.values()), 'B')} of them in the expanded memory"
            parts = {name: split["local"] for name, split in best.memory_tiers_bytes.items()}
            parts |= {f"{name}, expanded": held for name, held in there.items() if held}
        return Bars(
            "memory",
            f"Memory of plan 1: {si(used, 'B')} of {si(room, 'B')} ({100 * used / room:,.0f} %)"
            f"{tiers}",
            quantity("memory_bytes", form="si", digits=3, suffix="", scale=1.0),
            tuple(parts.items()),
            max(room, used),
        )

    def _heading(self) -> Heading:
        inputs, result = short_inputs(self.inputs), self.found
        plans, done = "plans", "all were evaluated"
        if result.settings[0].free and result.exchange is None:
            plans, done = "plans in any placement", "timed or ruled out"
        where = f"HB domains of {inputs['hb_size']:,}, fabric {inputs['fabric']}"
        how = trained.assumed(inputs)
        if result.exchange is None:
            how = f"strategy {inputs['strategy']}, {how}"
        space = (
            f"{result.enumerated:,} {plans}, {result.feasible:,} fit the memory; {done}"
            f" ({si(result.seconds, 's', 2)})."
        )
        return Heading(
            f"Best plans of {inputs['model']}, batch {inputs['batch']:,}, on {inputs['gpus']:,}"
            f" {inputs['accelerator']}",
            (where, f"{how} ({inputs['mode']})", space, *replaced_lines(inputs)),
        )

    def _columns(self) -> Iterator[Column[Ranked]]:
        """Columns of the plans; panels and interleaved stages where a plan has them."""
        plans = [timed.plan for timed in self.found.plans]
        panels = any(timed.strategy == "summa" for timed in self.found.plans)
        stages = any(plan.interleave > 1 for plan in plans)
        yield column("rank", "0")
        yield column("strategy", "1.strategy", shown="data")
        if self.found.best.instances:
            yield column("turnaround_s", "1.instances.turnaround_s", form="si", digits=4)
            yield column("at_once", "1.instances.at_once")
        if self.found.best.error:
            yield from barred_columns(itemgetter(1), lambda row: row[1].mfu)
            yield column("equals_best", lambda row: row[1].equals(self.found.best), shown="data")
        else:
            yield column("iteration_time_s", "1.iteration_time_s", form="si", digits=4)
            yield column("mfu", "1.mfu")
        yield column("gpus_used", "1.plan.gpus", title="GPUs")
        yield column("memory_bytes", "1.memory_bytes")
        if self.found.best.instances and self.expanded_bytes:
            yield column("spilled_bytes", "1.spilled_bytes")
        if self.found.on_grid:
            yield column("grid", "1.plan.grid", shown="people")
            yield column("grid_inside", "1.plan.grid_inside", shown="people")
        if exchange := self.found.exchange:
            yield column("exchange_s", f"1.breakdown_s.{exchange}", form="si", digits=4)
            yield column("exchange_share", f"1.shares.{exchange}")
        else:
            yield column("degrees", "1.plan.shape", shown="people")
            yield column("inside_hb", "1.plan.shape_inside", shown="people")
            yield column("schedule", "1.plan.schedule", shown="people")
        yield from columns(*DIMENSIONS, "microbatch", "microbatches", of="1.plan", shown="data")
        yield column("panels", "1.plan.panels", shown="all" if panels else "data")
        yield from self._kept_columns()
        yield column("interleave", "1.plan.interleave", shown="all" if stages else "data")
        for index, name in enumerate(DIMENSIONS):
            yield column(f"hb_{name}", f"1.plan.placement.levels.0.{index}", shown="data")
        best = self.found.best
        parts = [f"breakdown_s.{part}" for part in best.breakdown_s]
        parts += [f"phases_s.{phase}" for phase in best.phases_s]
        yield from columns(*parts, of="1", shown="data")

    def _kept_columns(self) -> Iterator[Column[Ranked]]:
        """What plans compute again, shard and send to the host, where the search varies it."""
        plans = [timed.plan for timed in self.found.plans]
        if plans[0].recompute is None:
            return
        if any(plan.kept_words for plan in plans):
            yield KEEPS
        yield column("recompute", lambda row: str(row[1].plan.recompute), shown="data")
        yield from columns("zero", "offload_layers", of="1.plan", shown="data")
        yield column("verdict", "1.memory.verdict", shown="data")

    def _explanation(self) -> Iterator[Section]:
        """The terms that differ, largest difference first, and their sum."""
        if not self.differences:
            return
        kind = self.inputs["explain"]
        first, second = (
            ("published-code", "corrected")
            if kind == "modes"
            else (f"plan {int(rank)}" for rank in kind.split(","))
        )
        names = columns("operation", "direction", "part")
        times: list[Column[TermDifference]] = [
            column("first_s", title=first),
            column("second_s", title=second),
            column("difference_s"),
        ]
        yield Table("explanation", [*names, *times], self.differences, shown="data")
        if self._barred:
            yield Paragraph(plan_words.told_apart((first, second), *self.compared), "strong")
        changed = [row for row in self.differences if not row.is_rounding]
        if not changed:
            yield Paragraph(f"No term differs between {first} and {second}.")
            return
        changed.sort(key=lambda row: -abs(row.difference_s))
        keys = ("first_s", "second_s", "difference_s")
        sums = [sum(getattr(row, key) for row in self.differences) for key in keys]
        yield Table(
            "terms",
            [column("term", _term), *times],
            changed,
            title=f"From {first} to {second}, terms of an iteration",
            closing=[TermDifference("sum", "", "", *sums)],
            shown="people",
        )


@dataclass(frozen=True, kw_only=True)
class Search(Question[SearchAnswer]):
    """Find the best of all parallel plans of a model on a cluster.

    Raises
    ------
    InputError
        If an input is not allowed.
    InfeasibleError
        If there is no plan (where they have to divide), or none fits the memory.

    Examples
    --------
    >>> best = search("rail-only-paper", gpus=4096, accelerator="b200", hb_size=8,
    ...     mode="published-code")
    >>> best.found.enumerated, best.found.feasible, round(best.found.time_s, 4)
    (2544, 484, 9.039)
    """

    command: ClassVar[str] = "search"
    examples: ClassVar[tuple[str, ...]] = (
        "netplan search hgx-h100",
        "netplan search hgx-h100 --gpus 4096 --explain 1,2",
        "netplan search nvl72-gb200 --model deepseek-v3 --iteration-model 4d",
        "netplan search four-d-paper --fix pipeline=64 --fix microbatch=1",
        "netplan search four-d-paper --gpus 1024 --model vit-64k --strategy all",
        "netplan search dfmodel-paper --execution fused --explain mapping",
        "netplan search hgx-h100 --explain memory",
        "netplan search hgx-h100 --expanded-memory comet-480gb --memory model --explain memory",
        "netplan search comet-paper --gpus 64 --model dlrm-1.2t --instances 8",
    )

    reads: ClassVar[frozenset[str]] = NETWORK | TRAINED | POST_TRAINED | SPAN | PLACED
    workload: ClassVar[str] = "training"

    top: int = default_field("Plans to show.", "whole", low=1)
    execution: Execution | None = option_field(
        "Map the layer's kernels onto the chip: kept together, or one by one.",
        "choice",
        choices=("fused", "kernel-by-kernel"),
        otherwise="as the iteration model times them",
    )
    instances: int | None = option_field(
        "Instances of a model side by side, ranked by the time until all are done.", "whole", low=1
    )
    collective_algorithm: str | None = option_field(
        COLLECTIVE_ALGORITHM,
        metavar="NAME",
        otherwise="as the iteration model times them",
        quiet=True,
    )
    explain: str | None = option_field(
        "Difference term by term, between modes or two plans such as 1,2; partitions (mapping),"
        " operations (layer) or memory of the best plan.",
        metavar="modes|mapping|layer|memory|A,B",
    )

    published: bool = option_field(
        "Leave the nearest published run out.",
        "flag",
        flag="--no-published",
        default=True,
        quiet=True,
    )

    def __post_init__(self) -> None:
        """Refuse layers that are not mapped; cut a domain to the cluster as published code does."""
        super().__post_init__()
        gpus, strategy = self.cluster.gpus, self.training.strategy
        if self.training.mode == "published-code" and (self.cluster.hb_size or 0) > gpus:
            object.__setattr__(self, "scenario", self.scenario.replace(hb_size=gpus))
        if self.collective_algorithm is not None:
            algorithm_of(self.collective_algorithm)
        if self.execution is not None and (strategy != "1d" or self.training.experts > 1):
            what = f"--strategy {strategy}" if strategy != "1d" else "--experts"
            raise InputError(
                f"--execution {self.execution} maps the dense layer of strategy 1d, and {what} has"
                " other kernels: leave one of them out"
            )

    def ask(self) -> SearchAnswer:
        """Search the whole space; of post-training both pools and their split."""
        if self.reinforces:  # who asks about a step knows what is answered
            from netplan.questions.step import answer_step

            return cast("SearchAnswer", answer_step(self))
        case = trained.training_case(self)
        mapped = case.training.execution
        execution = self.execution or (mapped.execution if mapped else None)
        calibrated = case.training.calibrated is not None
        self._check_explained(execution, calibrated=calibrated)
        training, result = case.training, self._plans(case)
        listed = result.plans
        if self.instances is not None:
            result = by_turnaround(result, self.instances)
        detail = self._detail(result, case.on)
        ranks = _ranks(self.explain) if self.explain else ()
        # A last HB domain that is not full is bought too.
        share = gpu_count(result.levels) / self.cluster.gpus
        varied = result.best.memory is not None and result.best.instances is None
        usual = best_usual(result) if varied else None
        unusual = unusual_of(result) if varied else ()
        runs, published_notes = _published(self._comparable(case), result)
        on_rails = case.fabric.network == "rail-only" and self.instances is None
        rails = (
            forwarding_of(trained.plan_search(self, training), case.fabric.levels)
            if on_rails
            else None
        )
        best = tuple(_of_bought(timed, share) for timed in result.plans[: self.top])
        return SearchAnswer(
            inputs=trained.plan_inputs(self, case, result.settings[0]) | {"execution": execution},
            found=replace(
                result, plans=best, tight=result.tight and _of_bought(result.tight, share)
            ),
            memory_bytes=training.memory_bytes,
            expanded_bytes=case.on.expanded_bytes,
            notes=(
                *case.fabric.notes,
                *plan_words.room_notes(result, training),
                *plan_words.plan_notes(result, self.cluster.gpus),
                *plan_words.least_notes(result, listed),
                *((plan_words.mapped_note(execution, case.on),) if execution else ()),
                *((named_note(self.collective_algorithm),) if self.collective_algorithm else ()),
                *(detail.notes if detail else ()),
                *((plan_words.not_searched(result),) if varied else ()),
            ),
            usual=usual and _of_bought(usual, share),
            unusual=unusual,
            elsewhere=beside_one_site(self, result.best.iteration_time_s),
            forwarding=rails,
            differences=_explained(result, self.explain, ranks) if self.explain else (),
            compared=tuple(result.plans[rank - 1] for rank in ranks) if len(ranks) > 1 else (),
            detail=detail,
            published=runs,
            published_notes=published_notes,
        )

    def _comparable(self, case: trained.TrainingCase) -> AskedRun | None:
        """What published runs are compared with, where times are meant to be those of such runs."""
        training = case.training
        calibrated, model = training.calibrated, training.model
        if not self.published or self.instances is not None or self.training.experts > 1:
            return None
        if calibrated is None or not isinstance(model, Model):
            return None
        return AskedRun(
            model, case.on.name, self.cluster.gpus, training.batch, calibrated.precision
        )

    def _plans(self, case: trained.TrainingCase) -> SearchResult:
        """All plans, timed; where none fits, the message names the largest model that would."""
        try:
            return search_plans(
                case.training,
                case.fabric.levels,
                strategy=trained.strategy_under(self, case.training.assumptions),
                mode=self.training.mode,
                options=self._mapped(case),
                top=self._wanted(case.training),
            )
        except InfeasibleError as error:
            raise with_fitting(error, self, case.fabric.levels) from None

    def _wanted(self, training: TrainedModel) -> int:
        """Plans to find: those to show or to explain, or all that there are few of."""
        if self.instances is not None:
            plan_words.check_instances(self.instances, training.model)
        if self.top < 1:
            return self.top
        shown = max(self.top, *_ranks(self.explain)) if self.explain else self.top
        return (
            max(shown, plan_words.EVERY_SPREAD) if plan_words.is_spread(training.model) else shown
        )

    def _check_explained(self, execution: Execution | None, *, calibrated: bool) -> None:
        """Refuse partitions of layers that are not mapped, and operations of those that are."""
        if self.explain == "mapping" and execution is None:
            raise InputError(
                "--explain mapping shows what --execution fused keeps together: give it"
            )
        if calibrated and (execution is not None or self.explain == "layer"):
            what = f"--execution {execution}" if execution else "--explain layer"
            raise InputError(
                f"iteration model {self.training.iteration_model} times layers as whole runs took"
                f" them, and {what} needs single kernels: leave it out, or take"
                " --iteration-model 4d"
            )
        if self.explain == "layer" and execution is not None:
            raise InputError(
                f"--explain layer shows operations as the iteration model times them, and"
                f" --execution {execution} maps kernels: take --explain mapping"
            )

    def _detail(
        self, result: SearchResult, chip: Accelerator
    ) -> "LayerAnswer | MemoryAnswer | HeldAnswer | None":
        """The layer or the memory of the best plan, if it is asked for."""
        if self.explain not in DETAILS:
            return None
        if self.explain == "memory":
            from netplan.answers.memory_answer import HeldAnswer, MemoryAnswer

            return HeldAnswer.of(result) if result.best.memory else MemoryAnswer.of(result, chip)
        from netplan.answers.layer_answer import LayerAnswer

        return LayerAnswer.of(result, self.explain, chip)

    def _mapped(self, case: trained.TrainingCase) -> Options:
        """What the search leaves open, and how layers lie on the chip."""
        options = trained.plan_options(self, run=case.training)
        if self.execution is None:
            return options
        from netplan.performance.mapping.layers import LayerExecution

        return replace(options, execution=LayerExecution(case.on, self.execution))


search = function_of(Search)


def _plan_words(timed: PlanTime) -> str:
    """Degrees and schedule of a plan, and what it computes again or shards, in words."""
    plan = timed.plan
    stages = [f"{plan.interleave} stages a GPU"] if plan.interleave > 1 else []
    return ", ".join([plan.degrees, plan.schedule_words, *stages, *plan.kept_words])


def _of_bought(timed: PlanTime, share: float) -> PlanTime:
    """A plan whose use of peaks is that of all GPUs bought, of which it has a share."""
    return replace(timed, mfu=share * timed.mfu, hfu=share * timed.hfu)


def _ranked_s(timed: PlanTime) -> float:
    """What plans are ranked by: an iteration, or the time until all instances are done [s]."""
    return timed.instances.turnaround_s if timed.instances else timed.iteration_time_s


def _published(
    asked: AskedRun | None, result: SearchResult
) -> "tuple[tuple[PublishedRun, ...], tuple[str, ...]]":
    """The nearest published run, if one is near, and how the best plan stands beside it."""
    row = nearest_row(asked) if asked else None
    if asked is None or row is None:
        return (), ()
    from netplan.questions.published_line import run_here

    run = run_here(row["id"])
    return (run,), tuple(run.lines(result.best, asked))


def _ranks(text: str) -> tuple[int, ...]:
    """Ranks that an explanation compares; the best plan alone for modes."""
    if text in ("modes", *DETAILS):
        return (1,)
    first, comma, second = text.partition(",")
    ranks = digits(first.strip()) or 0, digits(second.strip()) or 0
    if comma and min(ranks) >= 1:
        return ranks
    raise InputError(
        f"--explain {text!r}: write modes, or two ranks such as 1,2, or mapping, layer or memory"
    )


def _explained(result: SearchResult, text: str, ranks: Sequence[int]) -> tuple[TermDifference, ...]:
    if text in DETAILS:
        return ()
    if max(ranks) > len(result.plans):
        raise InputError(f"--explain {text}: only {result.feasible:,} plans fit")
    chosen = [result.plans[rank - 1] for rank in ranks]
    settings = [result.setting_of(plan) for plan in chosen]
    if text == "modes":
        return explain_modes(settings[0], result.levels, chosen[0].plan)
    first, second = ((setting, timed.plan) for setting, timed in zip(settings, chosen, strict=True))
    return explain(result.levels, first, second)


def _term(row: TermDifference) -> str:
    """A term in words."""
    return " ".join(filter(None, (row.operation, row.direction, PARTS.get(row.part, ""))))
