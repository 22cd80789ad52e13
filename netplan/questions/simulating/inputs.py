"""Inputs of `netplan simulate`, and what each of its ways of asking makes of them."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, get_args

from netplan.answers.congestion_answer import RoutedDesign
from netplan.answers.simulate_answer import SimulateAnswer
from netplan.arrays import AnyInts
from netplan.faults.damage.degraded_links import live_router, routing_of_left, slow_parts
from netplan.questions.simulating.contention import (
    MOST_CONNECTIONS,
    DrawOptions,
    asked_schedule,
    design_of,
)
from netplan.records import replace
from netplan.setup.own_inputs import default_field, list_field, option_field
from netplan.setup.question import NETWORK, RUNS, SPAN, WEIGHED, Question
from netplan.setup.runs import PATTERN, PLACED
from netplan.simulation.congestion import Contention
from netplan.simulation.ranks import Groups
from netplan.simulation.simulate import Conditions
from netplan.simulation.tasks import LinkSharing, SimulatedSchedule
from netplan.topologies.graph import FabricGraph
from netplan.traffic.patterns import Pattern
from netplan.traffic.routing import ROUTINGS, SYNONYMS, Routing

PUBLISHED = "palm"
"""Iteration model of the published mode."""


@dataclass(frozen=True, kw_only=True)
class SimulationQuestion(Question[SimulateAnswer]):
    """Inputs of a simulated iteration."""

    reads: ClassVar[frozenset[str]] = NETWORK | RUNS | PLACED | SPAN | {"graph"}
    reads_from: ClassVar[frozenset[str]] = WEIGHED

    algorithm: Pattern = default_field(PATTERN, "choice", choices=get_args(Pattern))
    placement: str | None = option_field(
        "line, snake, map or file.", metavar="MAP", otherwise="in order, by tiles"
    )
    groups: Groups = option_field(
        "Tensor groups side by side, or strided.",
        "choice",
        choices=get_args(Groups),
        default="near",
    )
    routing: Routing = default_field(
        "Ways of messages; spray is packet spraying.", "choice", choices=ROUTINGS, synonyms=SYNONYMS
    )
    seed: int = option_field(
        "Seed of routing, parts that fail, jitter.", "whole", default=0, high=2**64
    )
    sharing: LinkSharing = option_field(
        "Links taken in turn, or shared max-min.",
        "choice",
        choices=get_args(LinkSharing),
        default="booked",
        quiet=True,
    )
    connections: int = option_field(
        "Queue pairs of GPUs (fluid, hashed).",
        "whole",
        default=1,
        low=1,
        high=MOST_CONNECTIONS,
        quiet=True,
    )
    check_classes: bool = option_field(
        "Compare like links exactly (fluid).", "flag", default=False, quiet=True
    )
    contention: bool = option_field(
        "Nothing waits for a link.", "flag", default=True, flag="--no-contention"
    )
    full: bool = option_field("Simulate microbatches that repeat, too.", "flag", default=False)
    inference: bool = option_field("Forward passes alone.", "flag", default=False)
    slow: tuple[str, ...] = list_field(
        "Share of its rate left: leaf-spine=0.5, gpu-5=0.5.", flag="--slow", metavar="PART=SHARE"
    )
    jitter: float = option_field(
        "Spread of computing times, as 0.02.", "real", default=0.0, quiet=True
    )
    fail: tuple[str, ...] = list_field(
        "Fails, routes go round it: links=10, @FILE.", metavar="PART"
    )
    jobs: str | Path | None = option_field("Several jobs on the fabric, of this YAML file.", "path")
    hot: int = default_field("Busiest links to name.", "whole", low=0)

    def __post_init__(self) -> None:
        """Take what the mode and the schedule need where nothing else is asked for."""
        super().__post_init__()
        if self.trains:
            if self.training.mode == "published-code" and "iteration_model" not in self.given:
                self._otherwise(iteration_model=PUBLISHED)
            chosen = "mode" in self.given and self.training.iteration_model == PUBLISHED
            if chosen and "batch" not in self.given:
                # The model's own: a share a GPU is no rule of the paper.
                workload = replace(self.training, batch=None)
                object.__setattr__(self, "scenario", self.scenario.changed(workload=workload))
            if self.training.iteration_model == PUBLISHED and self.training.recompute is None:
                self._otherwise(recompute="full")
            asked_schedule(self)
        if self.inference:
            self.reject_inputs({"optimizer"}, "--inference, which updates nothing")

    @property
    def simulated(self) -> SimulatedSchedule | None:
        """The schedule that is asked for, if any."""
        return asked_schedule(self)

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
        rates, shares = slow_parts(self.slow, graph, used)
        return Conditions(
            algorithm=self.algorithm,
            schedule=self.simulated,
            routing=routing_of_left(self.routing, graph) if self.fail else self.routing,
            seed=self.seed,  # of jitter, and of the parts that fail or hashed paths: never of both
            sharing=self.sharing,
            connections=self.connections,
            contention=self.contention,
            rates=rates,
            shares=shares,
            jitter=self.jitter,
            routes=live_router(self.fail, graph, used, seed=self.seed, routing=self.routing),
            trains=not self.inference,
            full=self.full,
            spans=True,
            busiest=self.hot,
        )

    def design(
        self, shared: Contention, graph: FabricGraph, conditions: Conditions
    ) -> RoutedDesign:
        """What contention makes of the time, as of one design of `netplan congestion`."""
        return design_of(
            [shared],
            graph,
            conditions.rates,
            routing=self.routing,
            connections=self.connections,
            asked=DrawOptions(busiest=self.hot),
        )
