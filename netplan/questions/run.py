"""A training run placed on a fabric: its best plan, what it runs, who sends what to whom."""

from dataclasses import dataclass, replace
from math import inf

from netplan.performance.plan import PlanTime
from netplan.performance.setting import Setting
from netplan.questions.question import AnswerT_co, shared
from netplan.questions.training import PlanQuestion
from netplan.reports.sections import Heading
from netplan.topologies.fabric import Fabric
from netplan.topologies.specs import FabricSpec
from netplan.traffic.matrix import TrafficMatrix
from netplan.traffic.patterns import Pattern
from netplan.traffic.placement import Placement
from netplan.traffic.training import Patterns, collectives_of, training_traffic
from netplan.workloads.program import CollectiveUse, Program


@dataclass(frozen=True, slots=True)
class PlacedRun:
    """A training run placed on a fabric.

    Parameters
    ----------
    inputs
        The question, with all defaults filled in.
    spec, fabric
        The fabric, from its file to its counts and levels.
    setting, timed
        What is trained under which assumptions, and the best plan found.
    patterns
        Which pairs of its groups the collectives of each kind use.
    """

    inputs: dict[str, object]
    spec: FabricSpec
    fabric: Fabric
    setting: Setting
    timed: PlanTime
    patterns: Patterns

    @property
    def placement(self) -> Placement:
        """Where the ranks of the plan lie."""
        return self.timed.plan.placement

    @property
    def program(self) -> Program:
        """What an iteration of the plan runs."""
        return self.setting.program(self.timed.plan.sharding)

    @property
    def collectives(self) -> tuple[CollectiveUse, ...]:
        """Collectives of one iteration that several GPUs take part in."""
        return collectives_of(self.program, self.placement, self.timed.plan.microbatches)

    def matrix(self) -> TrafficMatrix:
        """Traffic of one iteration."""
        plan = self.timed.plan
        return training_traffic(
            self.program,
            plan.placement,
            gpus=self.fabric.sizing.gpus,
            microbatches=plan.microbatches,
            interleave=plan.interleave,
            patterns=self.patterns,
        )

    def heading(self, what: str) -> Heading:
        """What an answer about the run says first."""
        inputs, plan, training = self.inputs, self.timed.plan, self.setting.training
        given = " as given" if inputs["fixed"] else ", the best of all"
        lines = (
            (
                f"HB domains of {self.fabric.sizing.hb_size:,}, fabric {inputs['fabric']};"
                f" {inputs['algorithm']} collectives; iteration model {inputs['iteration_model']}"
            ),
            (
                f"plan{given}: {plan.shape} (TPxPPxDP), {plan.schedule} microbatches,"
                f" {plan.interleave} stage{'s' if plan.interleave > 1 else ''} a GPU"
            ),
        )
        return Heading(
            f"{what} of {inputs['model']}, batch {training.batch:,}, on"
            f" {self.fabric.sizing.gpus:,} {inputs['accelerator']}",
            lines,
        )


@dataclass(frozen=True, kw_only=True)
class RunQuestion(PlanQuestion[AnswerT_co]):
    """Inputs of all questions about the traffic of a training run on one fabric."""

    algorithm: Pattern = shared(
        "Pattern of the collectives.", "choice", choices=("hierarchical", "ring", "direct")
    )

    def place(self) -> PlacedRun:
        """Place the run by its best plan; where a value is fixed the memory is not checked.

        Raises
        ------
        InputError
            If an input is not allowed, or GPUs do not fill the HB domains.
        InfeasibleError
            If there is no plan.
        """
        case, options = self.case(), self.options()
        training = case.training
        if options.fixed.given:
            training = replace(training, memory_bytes=inf)
        found = self.search(training).whole(case.fabric.levels)
        timed = found.plans[0]
        setting = found.setting_of(timed)
        patterns = Patterns(tensor=self.algorithm, context=self.algorithm, data=self.algorithm)
        inputs = self.inputs_of(case, setting)
        return PlacedRun(inputs, case.spec, case.fabric, setting, timed, patterns)
