"""``netplan jobs``: what a fabric is worth with jobs that come and go."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple, cast, get_args

import numpy as np

from netplan.answers.jobs_answer import JobsAnswer, JobsRow, Spread, stream_figures
from netplan.errors import InfeasibleError, InputError, NetplanError
from netplan.faults.damage.degraded_links import check_degraded, routing_of_left
from netplan.faults.damage.rerouting import LiveRouter
from netplan.faults.job_cluster import JobCluster, job_cluster
from netplan.inputs.option import Option
from netplan.inputs.readers import digits
from netplan.progress import with_progress
from netplan.questions.useful_hours import LifeCost, life_cost
from netplan.records import replace
from netplan.scenarios.reading import CatalogReader, sized
from netplan.setup.asking import function_of
from netplan.setup.own_inputs import list_field, option_field
from netplan.setup.question import FOUND, NETWORK, PRICES, Question, Shorthand
from netplan.simulation.job_charts import job_bars
from netplan.simulation.job_clusters import LeafTrunks
from netplan.simulation.job_laws import STREAMS, Stream, drawn_trace, offered_load, placed_jobs
from netplan.simulation.job_links import FabricDemand
from netplan.simulation.job_outcomes import JobStream
from netplan.simulation.job_places import IN_BOXES, POLICIES, PlacementPolicy
from netplan.simulation.job_traces import JobTrace, read_trace
from netplan.simulation.jobs import Queue, StreamRules, run_stream, too_large
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.families.torus import Torus
from netplan.topologies.graph import FabricGraph
from netplan.topologies.specs import FABRICS, FabricSpec
from netplan.traffic.flow_paths import PathChoice, PathRouter
from netplan.traffic.routing import ROUTINGS, SYNONYMS, Routing
from netplan.units import counted
from netplan.workloads.accelerators import ACCELERATORS

STATIC, HASHED = "static", "hashed"
"""What users call an even split of packets, and ways of one link at every hop."""

FILE = "trace"
"""The stream whose jobs stand in a file."""

RINGS = "On a torus jobs that stand in no boxes share rings: left out, but for --links fabric."

COUNT, LOAD, DRAWS = 2000, 0.8, 5
Start = Literal["empty", "steady"]


class _Design(NamedTuple):
    """A fabric of one size of HB domains and one oversubscription, what it costs, and its notes.

    ``trace`` are the jobs of a file with what each communicates on it.
    """

    fabric: str
    ratio: float | None
    spec: FabricSpec
    sizing: Sizing
    graph: FabricGraph
    cluster: JobCluster
    cost: LifeCost
    trace: JobTrace | None
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Jobs(Question[JobsAnswer]):
    """Show how a cluster fills over time with jobs that come and go, and which design pays.

    Jobs wait in a queue, are placed by a policy, and slow each other on the links that they share.
    They are drawn by a law of a real cluster, or stand in a file. Every difference stands beside
    the spread of repeats.

    Raises
    ------
    NetplanError
        If an input is not allowed, or a job never fits.

    Examples
    --------
    Packed jobs share fewer uplinks than scattered ones.

    >>> answer = jobs("hgx-h100", gpus=256, radix=32, fabric="fat-tree", oversubscription=4,
    ...               count=200, placement=("packed", "scattered"), draws=2)
    >>> packed, scattered = (row.figures["mean_slowdown"].mean for row in answer.rows)
    >>> packed < scattered
    True
    """

    command: ClassVar[str] = "jobs"
    examples: ClassVar[tuple[str, ...]] = (
        "netplan jobs shared-cluster-h100",
        "netplan jobs hgx-h100 --gpus 1024 --oversubscription 1 --oversubscription 4",
        "netplan jobs hgx-h100 --gpus 1024 --placement packed --placement scattered",
        "netplan jobs nvl72-gb200 --gpus 4608 --hb-size 8 --hb-size 72 --stream seren",
        "netplan jobs tpu-v7 --gpus 4096 --placement cube --placement cube-ocs",
        "netplan jobs hgx-h100 --gpus 512 --stream jobs.csv --queue fifo",
    )

    reads: ClassVar[frozenset[str]] = (
        NETWORK | FOUND | PRICES | {"fabric", "switch", "cards", "economics", "gpu_hour"}
    )
    varies: ClassVar[tuple[str, ...]] = ("fabric", "hb_size", "oversubscription")

    shorthands: ClassVar[Mapping[str, Shorthand]] = {
        "no_sharing": Shorthand("sharing", "none", Option("Links cost nothing.", "flag")),
        "links": Shorthand(
            "sharing",
            "links",
            Option(
                "What jobs share: trunks of leaves, or the fabric's own links by --routing.",
                "choice",
                choices=("trunk", "fabric"),
                otherwise="trunk",
            ),
        ),
        "routing": Shorthand(
            "sharing",
            "routing",
            Option(
                "With --links fabric: how flows find their way; spray (ecmp) is packet spraying.",
                "choice",
                choices=(*ROUTINGS, STATIC),
                synonyms=SYNONYMS,
                otherwise="the fabric's own",
            ),
        ),
    }

    stream: str = option_field(
        "Whose jobs: kalos, seren, philly (drawn by their laws), or a file (.csv).",
        metavar="NAME|FILE",
        default="kalos",
    )
    count: int = option_field("Jobs to draw.", "whole", default=COUNT, low=1, high=1_000_000)
    load: float = option_field(
        "GPU time that drawn jobs ask for, over what there is.",
        "real",
        default=LOAD,
        low=1e-3,
        high=10,
    )
    seed: int = option_field("First seed of draws.", "whole", default=0, low=0, high=2**32)
    placement: tuple[str, ...] = list_field(
        "How places are chosen (repeatable).",
        "choice",
        choices=POLICIES + IN_BOXES,
        otherwise="packed",
    )
    queue: Queue = option_field(
        "Who of those that wait may start.", "choice", choices=get_args(Queue), default="backfill"
    )
    migrate: str = option_field(
        "Most jobs of a leaf that stand on others, too: jobs are moved; or none.",
        metavar="N|none",
        default="none",
    )
    start: Start | None = option_field(
        "Whether jobs run when the stream begins.",
        "choice",
        choices=get_args(Start),
        otherwise="steady; empty with a file",
    )
    draws: int = option_field(
        "Seeds of draws and random places.", "whole", default=DRAWS, low=1, high=10_000
    )
    sharing: Mapping[str, str] = option_field(
        "What jobs share, by keys, such as sharing.links=fabric (repeatable).",
        "settings",
        metavar="sharing.KEY=VALUE",
        many=True,
        default=None,
    )
    fail: tuple[str, ...] = list_field(
        "Out for the whole run: domain-3, leaf=1, gpu=0.1%, @FILE.", metavar="PART"
    )

    def ask(self) -> JobsAnswer:
        """Run the stream on every design by every placement, draw by draw."""
        self.check_parts()
        reader = self.reader()
        stream = reader.load(STREAMS, FILE if self._from_file else self.stream)
        if self._from_file:
            self.reject_inputs({"count", "load"}, "a file, which has its jobs")
        migrate = _most_fragments(self.migrate)
        self._link_way()
        designs = tuple(self._designs(reader, stream))
        replaced = reader.replaced()
        placements = tuple(dict.fromkeys(self.placement)) or ("packed",)
        pairs = [
            (design, placement)
            for design in designs
            for placement in placements
            if placement not in IN_BOXES or isinstance(design.spec, Torus)
        ]
        if not pairs or {placement for _, placement in pairs} != {*placements}:
            boxed = next(name for name in placements if name in IN_BOXES)
            raise InputError(
                f"--placement {boxed} is of tori, and {designs[0].fabric} is none: give"
                " --fabric torus-3d, or packed"
            )
        rows: list[JobsRow] = []
        notes: list[str] = []
        for design, placement in with_progress(pairs, lambda pair: f"{pair[0].fabric}, {pair[1]}"):
            rules = StreamRules(
                cast("PlacementPolicy", placement),
                self.queue,
                self.seed,
                stream.estimate,
                migrate,
                stream.migration_s,
            )
            row, more = self._row(design, stream, rules)
            rows.append(row)
            notes += more
        first = designs[0]
        inputs = self.inputs(
            gpus=first.graph.gpus,
            hb_size=None if first.spec.domains else first.graph.hb_size,
            fabric=first.fabric,
            link_gbps=first.sizing.speed_gbps,
            stream=str(self.stream),
            placement=list(placements),
            start=self._start,
            links=self._sharing.get("links", "trunk"),
            routing=self._sharing.get("routing"),
            no_sharing=not self._shares,
            oversubscription=[design.ratio for design in designs],
            warm_up=stream.warm_up,
            set=replaced,
        )
        return JobsAnswer(inputs=inputs, rows=tuple(rows), notes=tuple(dict.fromkeys(notes)))

    @cached_property
    def _from_file(self) -> bool:
        """Whether jobs stand in a file."""
        return Path(str(self.stream)).suffix.lower() == ".csv"

    @property
    def _start(self) -> Start:
        """Whether jobs run when the stream begins."""
        return self.start or ("empty" if self._from_file else "steady")

    @cached_property
    def _sharing(self) -> Mapping[str, str]:
        """What is said of sharing, by its keys."""
        given = {key.rpartition(".")[2]: value for key, value in (self.sharing or {}).items()}
        known = {short.key: short.option.choices for short in self.shorthands.values()}
        known["none"] = ("true", "false")
        for key, value in given.items():
            if value not in known.get(key, ()):
                allowed = ", ".join(known.get(key, known))
                raise InputError(f"sharing.{key:.40}={value:.40}: give {allowed}")
        return {key: dict(SYNONYMS).get(value, value) for key, value in given.items()}

    @property
    def _shares(self) -> bool:
        """Whether jobs slow each other."""
        return self._sharing.get("none") != "true"

    def _link_way(self) -> tuple[PathChoice, Routing] | None:
        """How jobs go through the fabric's own links; None over trunks."""
        routing = self._sharing.get("routing", "")
        if self._sharing.get("links", "trunk") == "trunk" or not self._shares:
            if routing:
                raise InputError("--routing is of --links fabric: give that, or leave it out")
            return None
        way: PathChoice = (
            "hashed" if routing == HASHED else "static" if routing == STATIC else "split"
        )
        plain = {STATIC: "ecmp", "": "auto"}.get(routing, routing)
        return way, cast("Routing", plain)

    def _designs(self, reader: CatalogReader, stream: Stream) -> Iterator[_Design]:
        """Every fabric of every size of HB domains and every oversubscription."""
        on = reader.load(ACCELERATORS, self.cluster.accelerator)
        trace = None
        if self._from_file:
            trace = read_trace(Path(self.stream)).later(stream.arrival_scale)
        for fabric in self.varied.get("fabric", (self.cluster.fabric,)):
            for hb_size in self.varied.get("hb_size", (self.cluster.hb_size,)):
                for ratio in self.varied.get("oversubscription", (self.cluster.oversubscription,)):
                    changes = {"fabric": fabric, "hb_size": hb_size, "oversubscription": ratio}
                    cluster = self.with_values(**changes).cluster
                    spec, sizing = reader.fabric(fabric, cluster), sized(cluster, on)
                    graph = expand(spec, sizing)
                    if way := self._link_way():  # whether or not a job leaves its node
                        PathRouter(graph, way[1]).check_suits()
                    nodes = job_cluster(graph, spec, sizing, self.fail, self.seed)
                    cost = life_cost(self, cluster, spec, sizing, reader)
                    jobs, notes = None, nodes.notes
                    if trace is not None:
                        jobs, more = self._with_comm(trace, stream, nodes.trunks.gpus, changes)
                        notes += more
                    yield _Design(fabric, ratio, spec, sizing, graph, nodes, cost, jobs, notes)

    def _row(
        self, design: _Design, stream: Stream, rules: StreamRules
    ) -> tuple[JobsRow, Sequence[str]]:
        """One design by one placement, over all draws."""
        notes = list(design.notes)
        if isinstance(design.spec, Torus) and rules.policy not in IN_BOXES:
            notes += () if self._link_way() else (RINGS,)
        ran: list[JobStream] = []
        loads: list[float] = []
        way = self._link_way()
        draws = not self._from_file or rules.policy == "random" or self._start == "steady"
        draws |= way is not None and way[0] == "hashed"
        seeds = range(self.seed, self.seed + (self.draws if draws else 1))  # one of the same
        for seed in with_progress(seeds, lambda seed: f"seed {seed}"):
            drawn = replace(rules, seed=seed)
            cluster = self._shared_cluster(design, seed)
            trace, more = self._trace(design.trace, stream, drawn, cluster)
            notes += more
            load = self.load
            if self._from_file:
                load = min(1.0, offered_load(trace, cluster.total_gpus))
            begun = None
            if self._start == "steady":
                begun = placed_jobs(trace, load, cluster, drawn, seed)
            ran.append(run_stream(trace, cluster, rules=drawn, begun=begun))
            loads.append(float(ran[-1].occupied.gpus[0]) / ran[-1].total_gpus if begun else 0.0)
        if rules.migrate is not None:
            notes += _moved(ran, rules.migrate)
        figures = {
            name: Spread.of([values[name] for values in drawn_figures])
            for drawn_figures in [[stream_figures(each_run, stream.warm_up) for each_run in ran]]
            for name in drawn_figures[0]
        }
        in_use = design.cluster.trunks.total_gpus / design.graph.gpus
        row = JobsRow(
            fabric=design.fabric,
            hb_size=design.graph.hb_size,
            oversubscription=design.ratio,
            ratio=design.cluster.trunks.ratio,
            placement=rules.policy,
            queue=rules.queue,
            migrate=rules.migrate,
            jobs=len(ran[0].trace.gpus),
            draws=len(ran),
            load_reached=Spread.of(loads),
            figures=figures,
            usd_per_useful_gpu_hour=_price(design.cost, figures["useful"], in_use),
            usd_to_last_arrival=_price(design.cost, figures["useful_to_last_arrival"], in_use),
            network_usd=design.cost.network_usd,
            total_usd=design.cost.total_usd,
            unknown=design.cost.unknown,
            occupied=ran[0].occupied,
            total_gpus=ran[0].total_gpus,
            bars=job_bars(ran[0]),
        )
        return row, notes

    def _shared_cluster(self, design: _Design, seed: int) -> LeafTrunks:
        """The cluster with what jobs share on it."""
        trunks = replace(design.cluster.trunks, sharing=self._shares)
        chosen = self._link_way()
        if chosen is None:
            return trunks
        way, routing = chosen
        graph, damage = design.graph, design.cluster.damage
        left = None
        if damage is not None:
            asked = routing if way == "split" else cast("Routing", way)
            check_degraded((), self.fail, asked, contention=True)
            left = LiveRouter(graph, damage, routing=routing_of_left(routing, graph)).loads
        router = PathRouter(graph, routing)
        links = FabricDemand(router, design.cluster.gpus_of_node, way, seed, left)
        return replace(trunks, links=links)

    def _trace(
        self, of_file: JobTrace | None, stream: Stream, rules: StreamRules, cluster: LeafTrunks
    ) -> tuple[JobTrace, list[str]]:
        """Jobs of one seed, as far as they fit, and what is to be said of them."""
        notes: list[str] = []
        gpus = cluster.total_gpus
        trace = of_file
        if trace is None:
            trace = drawn_trace(stream, self.count, self.load, (gpus, cluster.gpus), rules.seed)
            notes.append(
                "Arrivals are Poisson's: real ones come in days and bursts, and wait longer."
            )
        if stream.skip_too_large:
            large = too_large(trace, cluster.empty(rules.policy))
            if large.all():
                raise InputError("no job of the stream fits into the cluster: give more GPUs")
            if large.any():
                notes.append(f"Dropped since they never fit: {counted(int(large.sum()), 'job')}.")
                trace = trace.take(~large)
        count = len(trace.gpus)
        if offered_load(trace, gpus) > 1 and (self._from_file or self.load > 1) and count > 1:
            notes.append(
                f"The load is over 1 and the queue grows: waits are those of {count:,} jobs, no"
                " steady state."
            )
        return trace, notes

    def _with_comm(
        self, trace: JobTrace, stream: Stream, hb_size: int, design: Mapping[str, object]
    ) -> tuple[JobTrace, tuple[str, ...]]:
        """Jobs of a file with their exposed communication, by model or assumed; notes."""
        comm = trace.comm.copy()
        comm[np.isnan(comm) & (trace.gpus <= hb_size)] = 0.0
        dropped = trace.dropped.items()
        notes = [f"Left out: {counted(count, 'row')} {why}." for why, count in dropped]
        cases: dict[tuple[str, str, int], list[int]] = {}
        for job in np.flatnonzero(np.isnan(comm)).tolist():
            if trace.model and trace.model[job]:
                case = trace.model[job], trace.plan[job], int(trace.gpus[job])
                cases.setdefault(case, []).append(job)
        for case, members in with_progress([*cases.items()], lambda pair: f"plan of {pair[0][0]}"):
            try:
                comm[members] = self._exposed(*case, design)
            except InfeasibleError as error:
                notes.append(f"No plan of {case[0]} on {case[2]:,} GPUs: {error}")
            except NetplanError as error:
                raise InputError(f"{self.stream}: job {trace.ids[members[0]]}: {error}") from None
        assumed = np.isnan(comm)
        if assumed.any():
            comm[assumed] = stream.comm
            notes.append(
                f"Exposed communication is assumed {100 * stream.comm:g} % for"
                f" {counted(int(assumed.sum()), 'job')} without comm or a model that has a plan."
            )
        return replace(trace, comm=comm), tuple(notes)

    def _exposed(self, model: str, plan: str, gpus: int, design: Mapping[str, object]) -> float:
        """Exposed communication outside HB domains of a model's best plan, of its time [1]."""
        from netplan.questions.search import search

        records = ACCELERATORS.role, self.cluster.accelerator, FABRICS.role, design["fabric"]
        best = search(
            self.with_values(**design).scenario,
            gpus=gpus,
            model=model,
            workload="training",
            fix=tuple(plan.replace(";", " ").split()),
            catalog=self.catalog,
            overrides={
                key: value
                for key, value in (self.overrides or {}).items()
                if key.partition(".")[0] in records
            },
        ).to_dict()["plans"][0]
        degrees, inside = best["plan"], best["plan"]["hb"]
        outside = [
            best["breakdown_s"].get(f"{name}_comm", 0.0)
            for name in ("tensor", "expert", "data", "pipeline")
            if degrees[name] > inside[name]
        ]
        share = sum(outside) / best["iteration_time_s"]
        return min(LARGEST_COMM, float(share))


LARGEST_COMM = 1 - 1e-9
"""Exposed communication stays below all of the time [1]."""

jobs = function_of(Jobs)


def _price(cost: LifeCost, useful: Spread, in_use: float) -> Spread | None:
    """Price of a useful hour in every draw; None where it is not known.

    GPUs that have failed or stand idle are paid for, too: ``in_use`` is the share of the others.
    """
    prices = [cost.per_useful_hour(in_use * share) for share in useful.values]
    known = [price for price in prices if price is not None]
    return Spread.of(known) if len(known) == len(prices) else None


def _most_fragments(text: str) -> int | None:
    """Most fragments of a leaf that ``--migrate`` allows; None without migration."""
    if text == "none":
        return None
    most = digits(text)
    if most is None or most < 0:
        raise InputError(f"--migrate {text!r:.20}: give none, or a whole number such as 2")
    return most


def _moved(ran: Sequence[JobStream], most: int) -> list[str]:
    """What is to be said of migration."""
    notes = []
    bound = max(run.moves.bound for run in ran)
    if bound > most:
        notes.append(
            f"Not every placement can have {counted(most, 'fragment')} a leaf or fewer: up to"
            f" {bound:,} were allowed."
        )
    if any(run.moves.unproved for run in ran):
        notes.append("Moves of nodes are not proved least: some searches ran out of time.")
    return notes
