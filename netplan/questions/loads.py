"""What every link carries in one iteration or of a given matrix, and how near that is to the bound.

The traffic is that of a training run, of servers or of a step of post-training, placed by its best
plan, or a saved matrix; the links are those of a fabric of the catalog, or of somebody's own graph.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from math import inf, prod
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, cast, get_args

import numpy as np
from msgspec import Struct

from netplan.answers import loads_answer
from netplan.answers.borders import border_loads, borders_words
from netplan.answers.faults_rows import damage_colours
from netplan.answers.kind_loads import kind_loads
from netplan.errors import InputError, NetplanError
from netplan.faults.damage.degraded_links import (
    check_degraded,
    live_router,
    round_note,
    routing_of_left,
)
from netplan.faults.damage.rerouting import LiveRouter
from netplan.faults.damage.scenario import parse_faults
from netplan.progress import with_progress
from netplan.questions.cut_fibre import refuse_cuts
from netplan.records import replace
from netplan.scenarios.reading import sized
from netplan.setup.asking import function_of
from netplan.setup.inputs import refuse_two_networks, require_least
from netplan.setup.over_sites import largest_site, place_run
from netplan.setup.own_inputs import default_field, list_field, option_field
from netplan.setup.placed_run import PlacedRun, PoolRun, Run
from netplan.setup.question import NETWORK, RUNS, SPAN, WEIGHED, Question
from netplan.setup.runs import PATTERN, PLACED
from netplan.topologies.colours import Coloured
from netplan.topologies.expand import expand
from netplan.topologies.graph import FabricGraph
from netplan.topologies.graph.symmetry import CapacityGraph
from netplan.traffic.algorithms import COLLECTIVE_ALGORITHM, Collective, algorithm_of, named_note
from netplan.traffic.bounds import group_bound
from netplan.traffic.demand import split_demand
from netplan.traffic.hierarchy import Group
from netplan.traffic.loads import LinkLoads
from netplan.traffic.matrix import TrafficMatrix
from netplan.traffic.matrix_files import load_csv, load_npz
from netplan.traffic.optimum import Optimum, collective_bound_s, collective_optimum
from netplan.traffic.patterns import Pattern, distinct_places
from netplan.traffic.placement import Degrees, Placement
from netplan.traffic.routing import ROUTINGS, SYNONYMS, Router, Routing
from netplan.units import si
from netplan.workloads.operations import EXPERTS, CollectiveKind
from netplan.workloads.program import CollectiveUse

if TYPE_CHECKING:
    from netplan.setup.post_training_run import PostTrainedRun

BOUND_BYTES = 1e9
"""Message of the collectives of all GPUs [B]."""
SHOWN: tuple[Literal["all_gather", "all_reduce"], ...] = ("all_gather", "all_reduce")
"""A reduce_scatter takes as long as an all_gather where links are full duplex."""

Send = Callable[[TrafficMatrix], LinkLoads]
"""Sends traffic over the links of a fabric, or over what is left of it."""
WHOLE_MODEL = "Times by the model and bounds are those of the whole fabric."
MAX_ALL_TO_ALL_GPUS = 64
"""GPUs up to which the linear program of an all_to_all is solved [1]."""


@dataclass(frozen=True, kw_only=True)
class Loads(Question[loads_answer.LoadsAnswer]):
    """Show what every link carries in one iteration, and every collective beside its bound.

    The traffic is that of a training run, of servers, of a step of post-training, or a saved
    matrix; the links are those of a fabric, or of a graph from a file.

    Raises
    ------
    NetplanError
        If an input is not allowed, or there is no plan.

    Examples
    --------
    Training traffic leaves the spine of a rail-optimized fabric idle where rails fit a leaf.

    >>> answer = loads("rail-only-paper", gpus=1024, radix=64, hb_size=32, model="gpt-146b",
    ...     batch=1024)
    >>> [(group.group, group.unused == group.directions) for group in answer.groups]
    [('hb', False), ('host', False), ('leaf-spine', True)]
    """

    command: ClassVar[str] = "loads"
    examples: ClassVar[tuple[str, ...]] = (
        "netplan loads hgx-h100 --gpus 4096",
        "netplan loads hgx-h100 --gpus 4096 --fabric rail-only --fail leaf=1",
        "netplan loads tpu-v7 --gpus 4096 --routing minimal-adaptive",
        "netplan loads grpo-70b-h100 --fabric fat-tree --oversubscription 4",
        "netplan loads hgx-h100 --gpus 4096 --fabric dragonfly --fail links=20",
        "netplan loads --graph fabric.graphml --matrix matrix.npz",
    )

    reads: ClassVar[frozenset[str]] = NETWORK | RUNS | PLACED | SPAN | {"graph"}
    reads_from: ClassVar[frozenset[str]] = WEIGHED

    seed: int = option_field("Seed of all that is drawn.", "whole", default=0, high=2**64)
    matrix: str | Path | None = option_field("This traffic (.npz, .csv), not a plan's.", "path")
    algorithm: Pattern = default_field(PATTERN, "choice", choices=get_args(Pattern))
    routing: Routing = default_field(
        "How messages find their way; auto is the fabric's own, spray (ecmp) packet spraying.",
        "choice",
        choices=ROUTINGS,
        synonyms=SYNONYMS,
    )
    collective_algorithm: str | None = option_field(
        COLLECTIVE_ALGORITHM, metavar="NAME", otherwise="--algorithm's pairs", quiet=True
    )
    hot: int = default_field("Hottest links to name.", "whole", low=0)
    fail: tuple[str, ...] = list_field(
        "Has failed, and routes go round it: rail-0/leaf-3, links=10, spine=1, @FILE.",
        metavar="PART",
    )
    bounds: bool = option_field(
        "With --matrix: least time of collectives over all GPUs.", "flag", default=False
    )

    def ask(self) -> loads_answer.LoadsAnswer:
        """Route the run's traffic, or that of the matrix."""
        if self.cluster.graph is not None and self.matrix is None:
            raise InputError("--graph needs --matrix: the traffic to route over it")
        if self.cluster.graph is not None:
            refuse_two_networks(self)
        if self.bounds and self.matrix is None:
            raise InputError("--bounds is of --matrix: a run has the bounds of its collectives")
        require_least("hot", self.hot)
        require_least("seed", self.seed)
        if self.routing != "hashed" and not self.fail:
            self.reject_inputs({"seed"}, "paths that are not hashed, where no parts fail")
        check_degraded((), self.fail, self.routing, contention=True)
        refuse_cuts(self, self.fail)
        if self.matrix is None:
            return self._of_run()
        self.reject_inputs({"collective_algorithm"}, "a matrix, which has its pairs")
        return self._of_matrix(Path(self.matrix))

    def _of_run(self) -> loads_answer.LoadsAnswer:
        if not self.trains:
            who = "post-training, whose" if self.reinforces else "servers, whose collectives are"
            who += " servers' collectives are" * self.reinforces
            self.reject_inputs({"collective_algorithm"}, f"{who} as measured")
        if self.collective_algorithm is not None:
            self.reject_inputs({"algorithm"}, "--collective-algorithm, which has its own pairs")
            algorithm_of(self.collective_algorithm)
        whole_run = place_run(self, self.collective_algorithm or self.algorithm)
        run, in_site, site = self._in_a_site(whole_run)
        graph = expand(run.spec, run.fabric.sizing)
        matrix, wired = run.matrices()
        router = Router(graph, self.routing)
        send = self._sender(router, wired)
        turn = with_progress(("collectives of the run", "of all GPUs", "the iteration"), str)
        next(turn)
        parts = tuple((part, _AloneLoads(part, run.algorithm, send, {})) for part in run.parts)
        by_part = [tuple(_collectives(part, alone)) for part, alone in parts]
        next(turn)
        whole: tuple[loads_answer.WholeCollective, ...] = ()
        if isinstance(run, PlacedRun) and not self.fail:
            whole = tuple(_whole_collectives(run, graph, parts[0][1].busiest_s))
        asked = whole_run.inputs | {"matrix": None, "graph": None}
        next(turn)
        routed = self._routed(asked, router, wired)
        groups = routed.groups
        if isinstance(whole_run, PlacedRun) and whole_run.over is not None:
            groups = (*groups, *border_loads(whole_run.over, routed.link_loads.busiest_s))
        return replace(
            routed,
            groups=groups,
            total_bytes=matrix.total_bytes,
            run=replace(whole_run, fabric=run.fabric),
            site=site,
            in_site=in_site,
            collectives=tuple(chain(*by_part)),
            kinds=kind_loads(cast("PostTrainedRun", run), wired, send) if self.reinforces else (),
            whole=whole,
            notes=(
                *run.notes(),
                *((named_note(self.collective_algorithm),) if self.collective_algorithm else ()),
                *routed.notes,
                *chain.from_iterable(
                    loads_answer.agreement(
                        collectives, *part.communication, meshes=_rings_on_meshes(run, part)
                    )
                    for (part, _), collectives in zip(parts, by_part, strict=True)
                ),
            ),
        )

    def _in_a_site(self, run: Run) -> tuple[Run, tuple[str, ...], str]:
        """What of a run lies in its largest site, what goes over the borders, and which site."""
        if not isinstance(run, PlacedRun) or run.over is None:
            return run, (), ""
        words = tuple(borders_words(run.over))
        try:
            part = largest_site(self, run)
        except NetplanError as error:
            alike = "Links are those of one site with all GPUs, since a site by itself has no plan"
            return run, (*words, f"{alike}: {error}."), ""
        sizes = {site.name: site.gpus for site in run.over.sites.sites}
        name, plan = max(sizes, key=lambda site: sizes[site]), run.timed.plan
        gpus = plan.gpus // plan.pipeline
        if run.over.time.across == "data":
            gpus = part.timed.plan.gpus
        leaving = sum(row.total_bytes for row in run.over.crossings if row.sender == name)
        links_words = (
            f"Links are those of {name}, without the way to its border: {gpus:,} GPUs send"
            f" {si(leaving / gpus, 'B')} more each over their host links."
        )
        return part, (*run.told, links_words, *words), name

    def _sender(self, router: Router, matrix: TrafficMatrix) -> Send:
        """How traffic is sent, round what has failed, which leaves GPUs of the matrix joined."""
        graph = router.graph
        if not self.fail:
            return router.loads
        sent, received = split_demand(matrix, 1).network.ends(graph.gpus)
        used = np.flatnonzero(sent + received)
        ways = live_router(self.fail, graph, used, seed=self.seed, routing=self.routing)
        return cast("LiveRouter", ways).loads

    def _of_matrix(self, path: Path) -> loads_answer.LoadsAnswer:
        graph, replaced, notes = self._graph()
        readers = {".npz": load_npz, ".csv": load_csv}
        if path.suffix not in readers:
            raise InputError(f"--matrix {path}: name it .npz or .csv")
        matrix = readers[path.suffix](path, graph.gpus)
        asked = self.inputs(
            hb_size=graph.hb_size,
            matrix=str(path),
            graph=str(self.cluster.graph) if self.cluster.graph else None,
            set=replaced,
        )
        routed = self._routed(asked, Router(graph, self.routing), matrix)
        names: tuple[Collective, ...] = ("all_gather", "reduce_scatter", "all_reduce")
        if graph.gpus <= MAX_ALL_TO_ALL_GPUS:  # its exact program is small
            names += ("all_to_all",)
        times = ((name, collective_bound_s(name, graph, BOUND_BYTES)) for name in names)
        bounds_s = dict(times) if self.bounds else {}
        return replace(routed, bounds_s=bounds_s, notes=(*notes, *routed.notes))

    def _routed(
        self, inputs: dict[str, object], router: Router, matrix: TrafficMatrix
    ) -> loads_answer.LoadsAnswer:
        """Loads of the links under a matrix."""
        graph, rng = router.graph, np.random.default_rng(self.seed)
        intact = Router(graph, routing_of_left(self.routing, graph)) if self.fail else router
        link_loads = whole = intact.loads(matrix, rng)
        if self.fail:
            link_loads = self._sender(router, matrix)(matrix)
        return loads_answer.LoadsAnswer(
            inputs=inputs,
            graph=graph,
            link_loads=link_loads,
            groups=link_loads.by_group(),
            hottest=link_loads.hottest(self.hot),
            total_bytes=matrix.total_bytes,
            notes=(
                *round_note(self.fail, graph, self.routing),
                *((WHOLE_MODEL,) * bool(self.fail)),
            ),
            intact_busiest_s=whole.busiest_s if self.fail else None,
            failed=what_failed(graph, self.fail, self.seed),
        )

    def _graph(self) -> tuple[FabricGraph, dict[str, object], tuple[str, ...]]:
        """Somebody's graph, or that of a fabric of the catalog; values replaced, and notes."""
        reader, on = self.reader_and_chip()
        if self.cluster.graph is None:
            spec = reader.fabric(self.cluster.fabric, self.cluster)
            return expand(spec, sized(self.cluster, on)), reader.replaced(), ()
        from netplan.setup.own_domains import asked_graph

        graph, notes = asked_graph(self, on)
        return graph, reader.replaced(), notes


loads = function_of(Loads)


def what_failed(graph: FabricGraph, fail: Sequence[str], seed: int) -> Coloured:
    """What has failed, and who is cut off by it, for a drawing."""
    if not fail:
        return loads_answer.WHOLE_DRAWN
    return damage_colours(graph, parse_faults(fail, graph, rng=np.random.default_rng(seed)))


class _AloneLoads(Struct, frozen=True, eq=False):
    """Collectives of a run, or of a pool, alone on the fabric, of which like ones are routed once.

    ``known`` are times of the busiest link [s] of what was routed, with its placement.
    """

    run: PoolRun
    algorithm: Pattern | str
    send: Send
    known: dict[tuple[object, ...], tuple[float, Placement]]

    def busiest_s(self, use: CollectiveUse, placement: Placement) -> float:
        """Time of the busiest link in one run of a collective [s].

        Where groups send by a pattern, what gathers sends as much as what reduces and scatters or
        goes from one to all, and an all_reduce twice as much.
        """
        collective, times = use.collective, 1.0
        if self.algorithm in get_args(Pattern) and collective != "all_to_all":
            times = 2.0 if collective == "all_reduce" else 1.0
            use, collective = replace(use, collective="all_gather"), "all_gather"
        way = use.weights, use.back
        key = (collective, use.dimensions, use.data_bytes, use.stage, way, id(placement))
        if key not in self.known:
            matrix = self.run.alone(use, placement, self.algorithm)
            self.known[key] = self.send(matrix).busiest_s, placement
        return times * self.known[key][0]


def _whole_collectives(
    run: PlacedRun, graph: FabricGraph, busiest_s: Callable[[CollectiveUse, Placement], float]
) -> Iterator[loads_answer.WholeCollective]:
    """Collectives of all GPUs of the fabric that a run is placed on."""
    network = CapacityGraph.of(graph)
    sizes = [level.size for level in run.levels]
    every = None
    if prod(sizes) == graph.gpus:
        every = Placement(tuple(Degrees(data=size) for size in sizes)).on_levels(run.fabric.levels)
    gather: Optimum | None = None
    for kind in with_progress(SHOWN, lambda kind: f"{kind} of all GPUs"):
        optimum = collective_optimum(kind, network, gather=gather)
        gather = optimum.worst if kind == "all_gather" else gather
        reached = optimum.reached_s_per_byte * BOUND_BYTES
        times = _timed(run, kind, every, busiest_s) if every else (None, None)
        yield loads_answer.WholeCollective(
            collective=kind,
            members=graph.gpus,
            data_bytes=BOUND_BYTES,
            analytic_s=times[0],
            busiest_s=times[1],
            optimum_s=reached if optimum.worst.exact else None,
            bound_s=optimum.bound_s_per_byte * BOUND_BYTES,
            reached_s=None if reached == inf else reached,
        )


def _timed(
    run: PlacedRun,
    kind: Literal["all_gather", "all_reduce"],
    every: Placement,
    busiest_s: Callable[[CollectiveUse, Placement], float],
) -> tuple[float, float]:
    """Times by the model and by the busiest link [s]."""
    network = run.setting.network(run.fabric.levels)
    twice = kind == "all_reduce" and network.communication.links is None
    members = np.array([level.size for level in run.levels])[:, None]
    group = Group(members, np.ones_like(members))
    timed_collective = network.collective("all_gather" if twice else kind, group)
    use = CollectiveUse("data", kind, ("data",), BOUND_BYTES, 1.0)
    return (1 + twice) * float(timed_collective.sending_s(BOUND_BYTES)[0]), busiest_s(use, every)


def _collectives(run: PoolRun, alone: _AloneLoads) -> Iterator[loads_answer.CollectiveLoad]:
    """Every collective of the iteration, alone on the fabric."""
    levels, words = run.levels, lambda row: f"{row.use.kind} {row.use.collective}"
    # What one GPU sends over the network if all others rest, all ports of it or one.
    sizing, one_port = run.fabric.sizing, run.spec.own_graph and not run.spec.several_ports
    port_bytes_per_s = run.fabric.gpu_bytes_per_s if one_port else sizing.network_bytes_per_s
    for use, placement, model_s in with_progress(run.uses, words):
        members = placement.splits(*use.dimensions)
        data_bytes = use.data_bytes
        if use.dimensions == EXPERTS and placement.merged_copies:
            # A row goes once to each domain at least, or to each GPU inside one.
            places = prod(members[1:]) if prod(members[1:]) > 1 else members[0]
            data_bytes *= (
                float(distinct_places(places, placement.merged_copies)) / placement.merged_copies
            )
        bound = group_bound(
            _BOUNDED_AS[use.collective],
            levels,
            members[: len(levels)],
            data_bytes=data_bytes,
            any_to_any=run.fabric.network == "any-to-any",
            port_bytes_per_s=sizing.as_found * port_bytes_per_s,
        )
        yield loads_answer.CollectiveLoad(
            kind=f"{run.named}{use.kind}",
            collective=use.collective,
            members=placement.degree(*use.dimensions),
            data_bytes=use.data_bytes,
            times=use.times,
            stage=use.stage,
            analytic_s=model_s,
            busiest_s=alone.busiest_s(use, placement),
            bound_s=bound.bound_s,
            binding=bound.binding,
        )


_BOUNDED_AS: dict[CollectiveKind, Collective] = {
    **{name: name for name in get_args(Collective)},
    "broadcast": "all_gather",
    "reduce": "reduce_scatter",
}
"""The roots of SUMMA panels take turns: together they gather, or reduce and scatter."""


def _rings_on_meshes(run: Run, part: PoolRun) -> bool:
    """Whether rings run on meshes, of which the model takes all links at once."""
    served = not isinstance(run, PlacedRun)
    rings = run.algorithm == "ring" or (served and run.algorithm != "direct")
    return rings and any(level.kind == "mesh" for level in part.levels)
