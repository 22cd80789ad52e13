"""Questions about the traffic of a run on one fabric, training or serving."""

from dataclasses import dataclass

import numpy as np

from netplan.errors import InfeasibleError
from netplan.questions.question import AnswerT_co, shared
from netplan.questions.setup.inputs import CatalogReader
from netplan.questions.setup.placed_run import PlacedRun
from netplan.questions.setup.served_run import ServedRun
from netplan.questions.setup.training import PlanQuestion
from netplan.questions.setup.workload import WorkloadQuestion
from netplan.records import replace
from netplan.topologies.build import build_fabric
from netplan.traffic.patterns import Pattern
from netplan.workloads.accelerators import ACCELERATORS


@dataclass(frozen=True, kw_only=True)
class RunQuestion(WorkloadQuestion[AnswerT_co], PlanQuestion[AnswerT_co]):
    """Inputs of all questions about the traffic of a run on one fabric."""

    algorithm: Pattern = shared(
        "Pattern of the collectives.", "choice", choices=("hierarchical", "ring", "direct")
    )

    def place(self) -> PlacedRun:
        """Place the run by its best plan; if values are given, and none fits, by the fastest."""
        case, given = self.case(), self.options().fixed.given
        try:
            found = self.search(case.training).whole(case.fabric.levels)
        except InfeasibleError:
            if not given:
                raise
            anyway = replace(case.training, ignore_memory=True)
            found = self.search(anyway).whole(case.fabric.levels)
        timed = found.best
        setting = found.setting_of(timed)
        inputs = self.inputs_of(case, setting)
        return PlacedRun(inputs, case.spec, case.fabric, setting, timed, self.algorithm)

    def run(self) -> "PlacedRun | ServedRun":
        """The run by its best plan, training or serving."""
        return self.place() if self.trains else self.serve()

    def serve(self) -> ServedRun:
        """Place a served model by its best plan.

        Raises
        ------
        InputError
            If tokens are drafted: of such steps no round is known.
        """
        drafted = {"draft", "window", "acceptance", "speculation"}
        self.refuse(drafted, "a round of servers, in which every request gets one token")
        reader = CatalogReader(self.catalog, self.overrides)
        on, spec = (
            reader.load(ACCELERATORS, self.accelerator),
            reader.fabric(self.fabric, self.ports),
        )
        best = self.serves(reader, self.fabric)
        case, found = best.searched.case, best.searched.found
        fabric = build_fabric(spec, self.sized(on))
        first = np.zeros(1, dtype=np.int64)
        inputs = self.inputs(
            stack=case.stack.name,
            kernels=case.served.kernels.source,
            hb_size=case.served.sizes[0],
            set=reader.replaced(),
        )
        return ServedRun(
            inputs=inputs,
            spec=spec,
            fabric=fabric,
            case=case,
            outcome=found.ranked.take(first),
            pools=found.pools.take(first) if found.pools is not None else None,
            algorithm=self.algorithm,
            plan=best.plan,
            told=best.searched.notes,
        )
