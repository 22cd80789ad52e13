"""Inputs of `netplan simulate`, and what each of its ways of asking makes of them."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, get_args

from netplan.arrays import AnyInts
from netplan.errors import InputError
from netplan.questions.answers.simulate_answer import SimulateAnswer
from netplan.questions.footprint import Footprint, footprint_of
from netplan.questions.own_inputs import optional, several, shared
from netplan.questions.question import NETWORK, RUNS, WEIGHED, Question
from netplan.questions.setup.degraded_links import routing_of_left, shares_left, ways_round
from netplan.questions.setup.runs import PATTERN, PLACED
from netplan.records import replace
from netplan.scenarios.reading import CatalogReader
from netplan.simulation.ranks import Groups
from netplan.simulation.simulate import Conditions
from netplan.simulation.tasks import SimulatedSchedule
from netplan.topologies.expand import expand, switched_domain_size
from netplan.topologies.fabric import Sizing
from netplan.topologies.graph import FabricGraph
from netplan.topologies.specs import FabricSpec
from netplan.traffic.patterns import Pattern
from netplan.traffic.routing import Routing
from netplan.workloads.accelerators import ACCELERATORS

if TYPE_CHECKING:
    pass

PUBLISHED = "palm"
"""Iteration model of the published mode."""


@dataclass(frozen=True, kw_only=True)
class SimulationQuestion(Question[SimulateAnswer]):
    """Inputs of a simulated iteration."""

    reads: ClassVar[frozenset[str]] = NETWORK | RUNS | PLACED | {"graph"}
    reads_from: ClassVar[frozenset[str]] = WEIGHED

    algorithm: Pattern = shared(PATTERN, "choice", choices=get_args(Pattern))
    placement: str | None = optional(
        "Ranks' GPUs, or a file.", metavar="line|snake|FILE", otherwise="in order; wafers by tiles"
    )
    groups: Groups = optional(
        "Tensor groups side by side, or strided.",
        "choice",
        choices=get_args(Groups),
        default="near",
    )
    routing: Routing = shared("How messages find their way.", "choice", choices=get_args(Routing))
    seed: int = optional("Seed of routing, and of parts that fail.", "whole", default=0, high=2**64)
    contention: bool = optional(
        "Nothing waits for a link.", "flag", default=True, flag="--no-contention"
    )
    full: bool = optional("Simulate microbatches that repeat, too.", "flag", default=False)
    inference: bool = optional("Forward passes alone.", "flag", default=False)
    slow: tuple[str, ...] = several(
        "Share of its rate that is left, as leaf-spine=0.5.", flag="--slow", metavar="LINK=SHARE"
    )
    fail: tuple[str, ...] = several("Fails, routes go round it: links=10, @FILE.", metavar="PART")
    jobs: str | Path | None = optional("Several jobs on the fabric, of this YAML file.", "path")
    hot: int = shared("Busiest links to name.", "whole", low=0)

    @cached_property
    def footprint(self) -> Footprint | None:
        """What it takes of the machine."""
        return footprint_of(self, [self.cluster.fabric])

    def __post_init__(self) -> None:
        """Take what the mode and the schedule need where nothing else is asked for."""
        super().__post_init__()
        if self.trains:
            if self.training.mode == "published-code" and "iteration_model" not in self.given:
                self._otherwise(iteration_model=PUBLISHED)
            if "mode" in self.given and self.training.iteration_model == PUBLISHED:
                self._with_own_batch()
            if self.training.iteration_model == PUBLISHED and self.training.recompute is None:
                self._otherwise(recompute="full")
            self._check_simulated()
        if self.inference:
            self.refuse({"optimizer"}, "--inference, which updates nothing")

    def _check_simulated(self) -> None:
        """Refuse a schedule that only closed forms know."""
        if self.training.schedule is not None and self.simulated is None:
            raise InputError(
                f"--schedule {self.training.schedule} has closed forms alone (netplan search):"
                f" netplan simulate runs {', '.join(get_args(SimulatedSchedule))}"
            )

    @property
    def simulated(self) -> SimulatedSchedule | None:
        """The schedule that is asked for, if any; servers have none."""
        asked = self.training.schedule if self.trains else None
        return next((known for known in get_args(SimulatedSchedule) if known == asked), None)

    def _with_own_batch(self) -> None:
        """The model's own batch where none is asked for: a share a GPU is no rule of the paper."""
        if "batch" not in self.given:
            training = replace(self.training, batch=None)
            object.__setattr__(self, "scenario", self.scenario.changed(workload=training))

    def _otherwise(self, **values: str) -> None:
        """Another default than that of other questions."""
        object.__setattr__(self, "scenario", self.scenario.replace(**values))

    def inputs(self, **resolved: object) -> dict[str, object]:
        """The inputs as the answer shows them; files by their names."""
        files = {"graph": self.cluster.graph, "jobs": self.jobs}
        named = {name: str(path) for name, path in files.items() if path is not None}
        return super().inputs(**named, **resolved)

    def conditions(self, graph: FabricGraph, used: AnyInts) -> Conditions:
        """How anything is simulated on some GPUs of a graph."""
        return Conditions(
            algorithm=self.algorithm,
            schedule=self.simulated,
            routing=routing_of_left(self.routing, graph) if self.fail else self.routing,
            seed=self.seed,  # of the parts that fail, or of hashed paths: never of both
            contention=self.contention,
            rates=shares_left(self.slow, graph),
            routes=ways_round(self.fail, graph, used, seed=self.seed, routing=self.routing),
            trains=not self.inference,
            full=self.full,
            spans=True,
            hot=self.hot,
        )

    def graph_of(self, spec: FabricSpec, sizing: Sizing) -> tuple[FabricGraph, tuple[str, ...]]:
        """The fabric's own graph, or that of a file, and what was added to it."""
        if self.cluster.graph is None:
            return expand(spec, sizing), ()
        from netplan.questions.setup.own_domains import with_own_domains
        from netplan.topologies.formats.graph_files import read_graph

        path = Path(self.cluster.graph)
        read = read_graph(path, hb_size=sizing.hb_size)
        if read.gpus < sizing.gpus:
            raise InputError(f"--graph {path} has {read.gpus:,} GPUs, --gpus {sizing.gpus:,}")
        if (size := switched_domain_size(read)) not in (0, sizing.hb_size):
            raise InputError(
                f"--graph {path} has HB domains of {size:,} GPUs, and the run is planned on domains"
                f" of {sizing.hb_size:,}: give --hb-size {size}"
            )
        on = CatalogReader(self.catalog, self.overrides).load(
            ACCELERATORS, self.cluster.accelerator
        )
        graph, notes = with_own_domains(read, path, on)
        return graph.as_found(sizing.as_found), notes
