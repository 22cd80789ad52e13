"""``netplan congestion``: how much slower traffic is where its flows share links."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple, cast, get_args

import numpy as np

from netplan.answers.congestion_answer import CongestionAnswer, RoutedDesign, marked
from netplan.arrays import NO_NUMBERS, Floats
from netplan.errors import InputError
from netplan.faults.damage.degraded_links import (
    check_degraded,
    live_router,
    round_note,
    routing_of_left,
    shares_left,
)
from netplan.progress import share_done, with_progress
from netplan.questions.simulating.contention import (
    MOST_CONNECTIONS,
    DrawOptions,
    SharedRun,
    design_of,
    direction_rates,
    shared_run,
)
from netplan.questions.useful_hours import LifeCost, life_cost
from netplan.records import replace
from netplan.scenarios.reading import CatalogReader, sized
from netplan.setup.asking import function_of
from netplan.setup.inputs import refuse_two_networks, require_least
from netplan.setup.own_domains import asked_graph, graph_of_run
from netplan.setup.own_inputs import default_field, list_field, option_field
from netplan.setup.question import NETWORK, PRICES, RUNS, Question
from netplan.setup.runs import PLACED
from netplan.simulation import congestion as link_sharing
from netplan.simulation.fluid import Collectives, Row, message_rows
from netplan.simulation.links import RunRouting
from netplan.simulation.simulate import Conditions
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.graph import FabricGraph
from netplan.topologies.specs import FabricSpec
from netplan.traffic.flow_paths import PathChoice, PathRouter, has_choices
from netplan.traffic.patterns import Pattern
from netplan.traffic.routing import ROUTINGS, SYNONYMS, Routing
from netplan.workloads.accelerators import Accelerator

STATIC = "static"
ITERATION = "iteration"
"""Traffic of a training run by its best plan."""

PATTERN: Pattern = "hierarchical"
"""Which pairs of a collective of an iteration talk."""

"""Messages say themselves which GPUs they need."""

Draw = Callable[[int], link_sharing.Contention]
"""From the seed of paths to what traffic takes on them."""


class _SizedFabric(NamedTuple):
    """A fabric of one oversubscription, and what it is made from; no spec of a graph of a file."""

    ratio: float | None
    graph: FabricGraph
    spec: FabricSpec | None = None
    sizing: Sizing | None = None
    run: SharedRun | None = None


@dataclass(frozen=True, kw_only=True)
class Congestion(Question[CongestionAnswer]):
    """Show how much slower traffic is where flows share links.

    Flows share links max-min fairly. The traffic is that of a training iteration by its best plan,
    a pattern over all GPUs, or the messages of a file; the links are those of a fabric, or of a
    graph from a file.

    Raises
    ------
    NetplanError
        If an input is not allowed, or a message has no path.

    Examples
    --------
    A permutation that is hashed over a fat tree waits for the unluckiest of its links.

    >>> answer = congestion("hgx-h100", gpus=256, radix=16, fabric="fat-tree", draws=5,
    ...     traffic="permutation")
    >>> [(design.routing, design.slowdown_p50) for design in answer.designs]
    [('hashed', 3.997), ('ecmp', 1.0)]
    """

    command: ClassVar[str] = "congestion"
    examples: ClassVar[tuple[str, ...]] = (
        "netplan congestion hgx-h100 --gpus 1024 --model gpt-146b --draws 5",
        "netplan congestion hgx-h100 --gpus 1024 --traffic permutation",
        "netplan congestion hgx-h100 --gpus 1024 --traffic ring --routing static --routing spray",
        "netplan congestion --gpus 1024 --traffic ring --oversubscription 1 --oversubscription 4",
        "netplan congestion hgx-h100 --gpus 1024 --traffic permutation --connections 8",
        "netplan congestion hgx-h100 --gpus 1024 --traffic messages.csv --slow leaf-spine=0.5",
    )

    reads: ClassVar[frozenset[str]] = (
        NETWORK | RUNS | PLACED | PRICES | {"graph", "switch", "cards", "economics", "gpu_hour"}
    )
    varies: ClassVar[tuple[str, ...]] = ("oversubscription",)

    traffic: str = option_field(
        f"Who sends: {', '.join((ITERATION, *link_sharing.PATTERNS))}, or messages (.csv).",
        metavar="PATTERN|FILE",
        default=ITERATION,
    )
    message_bytes: float = option_field(
        "Of a message of a pattern.",
        "size",
        flag="--bytes",
        metavar="SIZE",
        default=256e6,
        low=1,
        high=1e15,
        unit="B",
    )
    routing: tuple[str, ...] = list_field(
        "Ways; spray is packet spraying.",
        "choice",
        choices=(*ROUTINGS, STATIC),
        synonyms=SYNONYMS,
        otherwise="hashed, spray",
    )
    seed: int = option_field(
        "First seed of hashed paths and patterns.", "whole", default=0, high=2**32
    )
    draws: int = option_field("Seeds of hashed paths.", "whole", default=20, low=1, high=10_000)
    connections: int = option_field(
        "Queue pairs of each pair of GPUs.", "whole", default=1, low=1, high=MOST_CONNECTIONS
    )
    transport: link_sharing.Transport = option_field(
        "Queues behind the bar.", "choice", choices=get_args(link_sharing.Transport), default="ecn"
    )
    collectives: Collectives | None = option_field(
        "Flows.", "choice", choices=("coupled", "steps"), otherwise="steps of files"
    )
    percentile: float = option_field(
        "Of the seeds, in the column bad [%].", "real", default=99.0, low=1, high=100
    )
    hot: int = default_field("Hottest links to name.", "whole", low=0)
    slow: tuple[str, ...] = list_field(
        "Share of its rate that is left, as leaf-spine=0.5.", flag="--slow", metavar="LINK=SHARE"
    )
    fail: tuple[str, ...] = list_field(
        "Fails, routes go round it: links=10, @FILE.", metavar="PART"
    )
    jobs: str | Path | None = option_field("Several jobs on the fabric, of this YAML file.", "path")
    check_classes: bool = option_field(
        "Compare like links and flows exactly.", "flag", default=False, quiet=True
    )

    def ask(self) -> CongestionAnswer:
        """Let the traffic share the links of every design."""
        size: object = self.message_bytes
        if isinstance(size, tuple):
            raise InputError("--bytes is one size, such as 256MB, and no range")
        self.check_parts()
        self._check()
        started = time.perf_counter()
        reader, on = self.reader_and_chip()
        networks, notes = self._networks(reader, on)
        rows = self._rows(networks[0].graph)
        designs = []
        for network in networks:
            cost = LifeCost(unknown="A graph of a file has no bill: no cost.")
            if network.spec is not None and network.sizing is not None:
                cost = life_cost(self, self.cluster, network.spec, network.sizing, reader)
            for choice in self._choices(network.graph):
                design, shown_notes = self._design(network, choice, rows)
                designs.append(design.priced(cost.network_usd, cost.total_usd, cost.unknown))
                notes = (*notes, *shown_notes)
        drawn = "draws" in {name for name, _, _ in self.asked_for()}
        if drawn and all(design.routing != "hashed" for design in designs):
            notes = (*notes, "Seeds change nothing where no path is hashed: solved once.")
        first = networks[0]
        placed = first.run.inputs if first.run else {}
        inputs = placed | self.inputs(
            gpus=first.graph.gpus,
            hb_size=first.graph.hb_size,
            traffic=str(self.traffic),
            graph=str(self.cluster.graph) if self.cluster.graph else None,
            jobs=str(self.jobs) if self.jobs else None,
            routing=list(dict.fromkeys(design.routing for design in designs)),
            oversubscription=[network.ratio for network in networks],
            link_gbps=first.sizing.speed_gbps if first.sizing else None,
            set=reader.replaced(),
        )
        return CongestionAnswer(
            inputs=inputs,
            designs=marked(designs),
            seconds=time.perf_counter() - started,
            notes=tuple(dict.fromkeys(notes)),
        )

    def _check(self) -> None:
        """Refuse what means nothing for the traffic, or beside failures."""
        require_least("hot", self.hot)
        require_least("seed", self.seed)
        for choice in self.routing or ("auto",):
            routing = cast("RunRouting", choice)
            check_degraded(self.slow, self.fail, routing, contention=True)
        if self.traffic == ITERATION:
            self.reject_inputs({"message_bytes"}, "an iteration, whose messages have their bytes")
            self.reject_inputs({"mode"}, "netplan congestion, whose links are shared")
        else:
            self.reject_inputs({"jobs"}, f"--traffic {self.traffic}, which is no iteration")

    def _networks(
        self, reader: CatalogReader, on: Accelerator
    ) -> tuple[tuple[_SizedFabric, ...], tuple[str, ...]]:
        """The fabric of each oversubscription, or somebody's own graph; notes."""
        if self.cluster.graph is not None and self.traffic != ITERATION:
            refuse_two_networks(self)
            graph, notes = asked_graph(self, on)
            return (_SizedFabric(None, graph),), notes
        ratios = self.varied.get("oversubscription", (self.cluster.oversubscription,))
        networks: list[_SizedFabric] = []
        notes = ()
        for ratio in ratios:
            asked = self.with_values(oversubscription=ratio) if ratio else self
            if self.traffic == ITERATION:
                run = shared_run(asked, PATTERN, Path(self.jobs) if self.jobs else None)
                graph, notes = graph_of_run(asked, run.spec, run.fabric.sizing)
                spec = run.spec if self.cluster.graph is None else None
                networks.append(_SizedFabric(ratio, graph, spec, run.fabric.sizing, run))
            else:
                spec = reader.fabric(asked.cluster.fabric, asked.cluster)
                sizing = sized(asked.cluster, on)
                networks.append(_SizedFabric(ratio, expand(spec, sizing), spec, sizing))
        return tuple(networks), notes

    def _choices(self, graph: FabricGraph) -> tuple[str, ...]:
        """Routings that stand side by side."""
        if self.routing:
            return tuple(dict.fromkeys(self.routing))
        built_for = PathRouter(graph, "auto").own_routing
        return ("hashed", "ecmp") if built_for == "ecmp" and not self.fail else ("auto",)

    def _rows(self, graph: FabricGraph) -> list[Row] | None:
        """Messages of a file; None of a pattern."""
        if self.traffic == ITERATION:
            return None
        if Path(str(self.traffic)).suffix != ".csv":
            link_sharing.pattern_flows(self.traffic, graph.gpus, graph.hb_size, self.seed)
            return None
        self.reject_inputs({"message_bytes"}, "a file of messages, which have their bytes")
        return message_rows(Path(self.traffic), graph.gpus)

    def _design(
        self, network: _SizedFabric, choice: str, rows: list[Row] | None
    ) -> tuple[RoutedDesign, Sequence[str]]:
        """One network under one routing, over all seeds that change it."""
        graph, rates = network.graph, shares_left(self.slow, network.graph)
        if network.run is not None:
            draw = self._of_run(network.run, graph, choice, rates)
        else:
            draw = self._of_messages(network, choice, rates, rows)
        notes = list(round_note(self.fail, graph, cast("Routing", choice)))
        seeds = range(self.seed, self.seed + (self.draws if choice == "hashed" else 1))
        if choice == "hashed" and not has_choices(graph):
            notes.append("Each pair has one path, which no seed changes: solved once.")
            seeds = seeds[:1]
        network_links = np.tile(~graph.is_role("hb"), 2)
        crossing = []

        def drawn() -> Iterator[link_sharing.Contention]:
            for seed in with_progress(seeds, lambda seed: f"{choice}, seed {seed}"):
                contention = draw(seed)
                crossing.append(bool(contention.carried_bytes[network_links].any()))
                yield contention

        design = design_of(
            drawn(),
            graph,
            rates,
            routing=choice,
            connections=self.connections,
            asked=DrawOptions(
                percentile=self.percentile, transport=self.transport, busiest=self.hot
            ),
        )
        if not design.flows:
            notes.append("No message is sent.")
        elif not any(crossing):
            notes.append("No message leaves its HB domain.")
        return replace(design, oversubscription=network.ratio), notes

    def _of_run(
        self, run: SharedRun, graph: FabricGraph, choice: str, rates: Floats | None
    ) -> Draw:
        """What sharing makes of a run on each draw of paths."""
        routing, left = cast("RunRouting", choice), cast("Routing", choice)
        if self.fail:
            routing = routing_of_left(left, graph)
        conditions = Conditions(
            algorithm=PATTERN,
            routing=routing,
            sharing="fluid",
            connections=self.connections if choice == "hashed" else 1,
            collectives=self.collectives or "coupled",
            rates=rates,
            routes=live_router(self.fail, graph, run.gpus, seed=self.seed, routing=left),
            busiest=self.hot,
        )
        return lambda seed: run.contention(graph, replace(conditions, seed=seed))

    def _of_messages(
        self, network: _SizedFabric, choice: str, rates: Floats | None, rows: list[Row] | None
    ) -> Draw:
        """The same of a pattern, or of the messages of a file."""
        graph, sizing = network.graph, network.sizing
        way: PathChoice = (
            "hashed" if choice == "hashed" else "static" if choice == STATIC else "split"
        )
        routing = cast("Routing", "ecmp" if way == "static" else choice)
        left = live_router(self.fail, graph, NO_NUMBERS, seed=self.seed, routing=routing)
        router = left or PathRouter(graph, routing)
        latency_s = (sizing.hb_latency_s, sizing.network_latency_s) if sizing else (0.0, 0.0)
        split = self.connections if way == "hashed" else 1
        capacity = direction_rates(graph, rates)
        fabric = link_sharing.FabricLinks(router, capacity, way, split, latency_s, port_rate(graph))
        how: Collectives = self.collectives or ("coupled" if rows is None else "steps")
        check = self.check_classes
        if rows is not None:
            parts = link_sharing.with_connections(rows, split)
            tick = share_done("messages have arrived")
            return lambda seed: link_sharing.share_messages(
                fabric, parts, collectives=how, seed=seed, check=check, tick=tick
            )
        pattern = link_sharing.pattern_flows(self.traffic, graph.gpus, graph.hb_size, self.seed)
        amount = self.message_bytes
        return lambda seed: link_sharing.share_pattern(
            fabric, pattern, amount, collectives=how, seed=seed, check=check
        )


congestion = function_of(Congestion)


def port_rate(graph: FabricGraph) -> float:
    """Rate of the slowest network link of a GPU [B/s]; of any link if none has one."""
    ends = (graph.source < graph.gpus) & ~graph.is_role("hb")
    rates = graph.bytes_per_s[ends] if ends.any() else graph.bytes_per_s
    return float(rates.min())
