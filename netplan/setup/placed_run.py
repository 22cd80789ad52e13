"""A training run placed on a fabric by its best plan: who talks to whom, and for how long."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

import numpy as np
from msgspec import Struct

from netplan.arrays import Ints
from netplan.levels import Level
from netplan.performance.dated.times import exchange_alone_s
from netplan.performance.error_bars import bar_note
from netplan.performance.plan import PlanTime
from netplan.performance.plan_traffic import plan_placement, plan_traffic
from netplan.performance.setting import Setting
from netplan.performance.spread import OverSites, timed_over
from netplan.reports.schema import plain_at
from netplan.reports.sections import Heading
from netplan.setup.inputs import short_inputs, sites_words
from netplan.setup.plan_notes import model_notes, rates_note, scattering_note
from netplan.setup.training import assumed
from netplan.topologies.fabric import Fabric
from netplan.topologies.graph import FabricGraph
from netplan.topologies.specs import FabricSpec
from netplan.traffic.hierarchy import group_over
from netplan.traffic.matrix import KINDS, TrafficMatrix, combine
from netplan.traffic.patterns import Pattern, both_ways
from netplan.traffic.placement import Placement
from netplan.traffic.training import collectives_of, use_traffic
from netplan.workloads.operations import EXPERTS, CollectiveKind
from netplan.workloads.program import CollectiveUse

if TYPE_CHECKING:
    from netplan.simulation.outcome import SimulationOutcome
    from netplan.simulation.simulate import Conditions


class TimedUse(NamedTuple):
    """A collective of a run, where its ranks stand, and how long it takes by the model [s]."""

    use: CollectiveUse
    placement: Placement
    model_s: float


class PoolRun(Struct, frozen=True, eq=False):
    """Collectives of a run on a cluster, or of one of its pools.

    Parameters
    ----------
    named
        What stands before the kinds of its collectives, where there are several pools.
    spec, fabric
        Of the whole cluster.
    levels
        Levels of bandwidth that they are timed on.
    communication
        How they are timed, and the share of the links' bandwidth that they reach [1].
    uses
        The collectives, where their ranks stand in the pool, and their times.
    places
        GPU of the cluster that each GPU of the pool is, shape (GPUs of the pool,); None of all.
    """

    named: str
    spec: FabricSpec
    fabric: Fabric
    levels: Sequence[Level]
    communication: tuple[str, float]
    uses: tuple[TimedUse, ...]
    places: Ints | None = None

    def on_cluster(self, matrix: TrafficMatrix) -> TrafficMatrix:
        """Traffic between GPUs of the pool as such between those of the cluster."""
        if self.places is None:
            return matrix
        return matrix.relabelled(self.places.astype(np.int32), self.fabric.sizing.gpus)

    def alone(
        self, use: CollectiveUse, placement: Placement, algorithm: Pattern | str
    ) -> TrafficMatrix:
        """Traffic of one run of a collective, as links take it."""
        gpus = self.fabric.sizing.gpus if self.places is None else len(self.places)
        matrix = self.on_cluster(use_traffic(use, placement, algorithm, gpus=gpus))
        return as_wired(self.levels, matrix, uneven=bool(use.weights))

    def wired(self, matrix: TrafficMatrix) -> TrafficMatrix:
        """Traffic of all of them as links take it."""
        return as_wired(self.levels, matrix, uneven=is_uneven(self.uses))


def is_uneven(uses: Iterable[TimedUse]) -> bool:
    """Whether experts are loaded unevenly in some collective."""
    return any(timed.use.weights for timed in uses)


def as_wired(levels: Sequence[Level], matrix: TrafficMatrix, *, uneven: bool) -> TrafficMatrix:
    """Collectives of the rings of a torus use both links of a GPU, half of the bytes each.

    What goes to unevenly loaded experts goes to all of them, on no ring.

    Parameters
    ----------
    levels
        Levels on which the collectives run.
    matrix
        Traffic of an iteration, or of servers.
    uneven
        Whether experts are loaded unevenly.
    """
    if not any(level.kind == "ring" for level in levels):
        return matrix
    one_way = ("pipeline", "expert") if uneven else ("pipeline",)
    parts = {kind: matrix.of_kind(kind) for kind in KINDS}
    return combine([part if kind in one_way else both_ways(part) for kind, part in parts.items()])


class Run(Struct, frozen=True, eq=False):
    """What runs on a fabric by its best plan, whatever its workload.

    Parameters
    ----------
    inputs
        Those of the answer.
    spec, fabric
        What it lies on.
    algorithm
        Which pairs of a group talk.
    """

    inputs: dict[str, object]
    spec: FabricSpec
    fabric: Fabric
    algorithm: Pattern | str

    each: ClassVar[str]
    """What its traffic is counted by."""

    @property
    def within(self) -> str:
        """How long that takes, in words; nothing where the closed form has more than links."""
        return ""

    @property
    def in_short(self) -> dict[str, Any]:
        """What every answer about the run says in JSON."""
        raise NotImplementedError

    @property
    def parts(self) -> tuple[PoolRun, ...]:
        """Its collectives, by pools of GPUs."""
        raise NotImplementedError

    def matrix(self) -> TrafficMatrix:
        """Its traffic."""
        raise NotImplementedError

    def matrices(self) -> tuple[TrafficMatrix, TrafficMatrix]:
        """Its traffic, and the same as links take it: what runs in rings uses both of a GPU."""
        matrix = self.matrix()
        return matrix, self.parts[0].wired(matrix)

    def notes(self) -> Iterator[str]:
        """What of it an answer about the traffic says."""
        raise NotImplementedError

    def heading(self, what: str, *, timed: bool = True) -> Heading:
        """What an answer about it says first; how long it takes if that is ``timed``."""
        raise NotImplementedError


class PlacedRun(Run, frozen=True, eq=False):
    """A training run placed on a fabric: what is trained by which plan, and who talks to whom.

    Where it lies in several sites, ``over`` is how long it takes there, while ``timed`` is the plan
    in one; ``told`` says why it is over them in no other way.
    """

    setting: Setting
    timed: PlanTime
    over: OverSites | None = None
    told: tuple[str, ...] = ()

    each: ClassVar[str] = "an iteration"
    waits_apart: ClassVar[bool] = False
    """Whether replicas wait for none of the others."""

    @property
    def placement(self) -> Placement:
        """Where the ranks of the plan lie."""
        return plan_placement(self.setting, self.timed.plan, self.levels)

    @property
    def levels(self) -> Sequence[Level]:
        """Levels of bandwidth that it is timed on."""
        return self.fabric.levels

    @property
    def in_short(self) -> dict[str, Any]:
        """What every answer about the run says in JSON."""
        plan = "gpus_used=timed_there.plan.gpus", "timed_there.plan", "*timed_there.known_bar"
        return plain_at(self, "timed_there.iteration_time_s", *plan, "?over_sites=over")

    @property
    def timed_there(self) -> PlanTime:
        """Its plan with the time of an iteration where it lies, over several sites or in one."""
        return timed_over(self.timed, self.over.time) if self.over else self.timed

    @property
    def communication(self) -> tuple[str, float]:
        """How collectives are timed, and the share of the links' bandwidth that they reach [1]."""
        network = self.setting.network(self.fabric.levels)
        calibrated = self.setting.training.calibrated is not None
        way = "calibrated" if calibrated else self.setting.assumptions.communication.collectives
        return way, network.bandwidth_share

    def collectives(self) -> Iterator[TimedUse]:
        """Collectives of one iteration that several GPUs take part in, as sending takes them."""
        program = self.setting.program(self.timed.plan.sharding)
        network = self.setting.network(self.fabric.levels)
        plan, exchange_s = self.timed.plan, 0.0
        if plan.folded is not None:
            exchange_s = float(exchange_alone_s(self.setting, plan.sharding, network)[0])
        for use in collectives_of(program, self.placement, plan.microbatches):
            if use.dimensions == EXPERTS:
                yield TimedUse(use, self.placement, exchange_s)
                continue
            group = group_over(self.placement, *use.dimensions)
            # An all_reduce is a reduce_scatter and an all_gather, unless its chunks overlap, it was
            # measured as one, or has an algorithm of its own.
            used = network.communication
            whole = used.chunks > 1 or used.links is not None or used.algorithm is not None
            twice = use.collective == "all_reduce" and not whole
            kind: CollectiveKind = "all_gather" if twice else use.collective
            sending_s = network.collective(kind, group).sending_s(use.data_bytes)
            yield TimedUse(use, self.placement, (2 if twice else 1) * float(sending_s[0]))

    def notes(self) -> Iterator[str]:
        """What of model and plan an answer about the traffic says."""
        yield from self.told
        yield from self.fabric.notes
        yield from model_notes(self.setting.training.model)
        yield from scattering_note(self.setting, self.fabric.levels, self.timed)
        yield from rates_note(self.setting.training)

    def matrix(self) -> TrafficMatrix:
        """Traffic of one iteration."""
        gpus = self.fabric.sizing.gpus
        return plan_traffic(self.setting, self.timed, gpus, self.algorithm, self.levels)

    @property
    def parts(self) -> tuple[PoolRun, ...]:
        """Its collectives, on all GPUs."""
        uses = tuple(self.collectives())
        return (PoolRun("", self.spec, self.fabric, self.levels, self.communication, uses),)

    def simulated(
        self,
        graph: FabricGraph,
        conditions: "Conditions",
        tick: Callable[[int, int], None] | None = None,
    ) -> "SimulationOutcome":
        """One iteration, event by event on the links of a graph."""
        from netplan.simulation.simulate import simulate_training

        job = self.setting, self.timed, self.fabric
        return simulate_training(*job, graph, conditions, tick=tick)

    def heading(self, what: str, *, timed: bool = True) -> Heading:
        """What an answer about the run says first; the time of its plan if that is ``timed``."""
        inputs, plan, training = short_inputs(self.inputs), self.timed.plan, self.setting.training
        degrees = cast("dict[str, int]", inputs["fixed"])
        fixed = ", ".join(f"{name} {degree}" for name, degree in degrees.items())
        given = f", the best with {fixed}" if fixed else ", the best of all"
        where = (
            f"HB domains of {self.fabric.sizing.hb_size:,}, fabric {inputs['fabric']};"
            f" {self.algorithm} collectives; {assumed(inputs)}"
        )
        how = (
            f"plan{given}: {plan.shape} (TPxPPxDP), {plan.schedule} microbatches,"
            f" {plan.interleave} stage{'s' if plan.interleave > 1 else ''} a GPU"
        )
        how = ", ".join((how, *plan.kept_words))
        if inputs.get("use_per_domain") and (idle := plan.placement.cluster - plan.gpus):
            how += f"; {idle:,} GPUs are idle"
        if self.setting.spread_model is not None:
            totals = plan.placement.totals._asdict()
            how = self.setting.spread_model.laid_out(totals, training.batch)
        lines = [where, how]
        if self.over is not None:
            lines.append(f"{sites_words(self.inputs)} {self.over.words}")
        if self.timed.error:
            takes = f"An iteration takes {self.timed_there.time_text}. " if timed else ""
            lines.append(takes + " ".join(bar_note(self.timed.error)))
        return Heading(
            f"{what} of {inputs['model']}, batch {training.batch:,}, on"
            f" {self.fabric.sizing.gpus:,} {inputs['accelerator']}",
            tuple(lines),
        )
