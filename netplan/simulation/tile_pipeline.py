"""Any model on a mesh of tiles, operator by operator: a pipeline of tile groups, event by event.

Stages are runs of operators on groups of tiles (`netplan.simulation.tile_mapping`), which stand
along the order of the mesh. An operator gathers inputs that its tiles have in common, computes, and
sums up partial results, beside its memory traffic; rings and accesses book links and channels as in
the published mode (`netplan.simulation.palm`). Between two stages go all results that the one has
and any later one needs, a piece from or to every tile. The image or text comes from memory, on the
channels of the first stage's tiles, while the one before is computed.

========  ========================================================================================
forward   gather once, compute, sum (two rounds)
backward  twice the work of a product, sum the gradients of common inputs (two rounds), gather those
          of summed results; then all replicas of a weight sum up its gradients, and the optimizer
          writes and reads
========  ========================================================================================

Rates count samples between the middle and the end of the microbatches simulated, as a pipeline that
is never empty has them: without filling and draining, as PALM counts (Sec. V-A3). A training
iteration is whole, with both. Source: Fang et al., PALM (arXiv:2406.03868), Sec. IV and V. Left
out: what an operator finds elsewhere on its own tiles when it is cut otherwise than the one before.
"""

from collections.abc import Callable, Iterator
from functools import cached_property, partial
from time import perf_counter

import numpy as np
from msgspec import Struct

from netplan.arrays import Ints
from netplan.errors import InputError
from netplan.simulation import tasks
from netplan.simulation.handover import SentBytes, ring_step
from netplan.simulation.outcome import SimulationOutcome, outcome_of
from netplan.simulation.palm import TICK_DIGITS, TileNetwork, links_s, passes_s
from netplan.simulation.palm_model import Access, PalmModel, UnitsPart
from netplan.simulation.run import SimulationResult, simulate_pipelines
from netplan.simulation.schedule import FORWARD
from netplan.simulation.tile_mapping import TileMapping, TilePiece, TileStage
from netplan.topologies.families.tiles import tile_order
from netplan.topologies.graph import FabricGraph
from netplan.topologies.specs import FabricSpec
from netplan.workloads.accelerators import Accelerator
from netplan.workloads.kernel_graph import KernelGraph
from netplan.workloads.tile_operators import INNER, OUTPUTS, SAMPLES, TOKENS

FILLED = 3
"""Times as many microbatches as stages that are simulated, at least [1]."""

LEAST_SIMULATED = 24
"""Microbatches that are simulated, at least [1]."""

DECIMAL = UnitsPart(megabyte_bytes=1e6)
"""Megabytes of 10^6 bytes: those of the published code are for its own mode."""


class TileRun(Struct, frozen=True, kw_only=True, eq=False, dict=True):
    """A model on tiles.

    Parameters
    ----------
    mapping
        Its stages.
    graph
        Its kernels in the order of the operators, for what goes from stage to stage.
    number_bytes
        What a number takes [B].
    samples
        Samples of an iteration or a batch [1].
    on, rules, spec
        A core, the iteration model, and the fabric.
    places
        GPU at each place of the run; None: the snake.
    """

    mapping: TileMapping
    graph: KernelGraph
    number_bytes: float
    samples: int
    on: Accelerator
    rules: PalmModel
    spec: FabricSpec
    places: Ints | None = None

    def __post_init__(self) -> None:
        """Refuse microbatches that are larger than the batch."""
        if self.mapping.microbatch > self.samples:
            raise InputError(
                f"a microbatch of {self.mapping.microbatch:,} samples is more than the batch of"
                f" {self.samples:,}: fix a smaller microbatch, or raise the batch"
            )

    @property
    def microbatches(self) -> int:
        """Microbatches of the batch [1]."""
        return -(-self.samples // self.mapping.microbatch)

    @cached_property
    def handed_on_bytes(self) -> list[float]:
        """What goes from each stage to the next for a microbatch, stages in their order [B]."""
        ends = np.cumsum([len(stage.pieces) for stage in self.mapping.stages])[:-1]
        results = self.graph.column("output_bytes") * self.number_bytes / 2.0
        handed = []
        for end in ends.tolist():
            across = (self.graph.source < end) & (self.graph.target >= end)
            passed = np.unique(self.graph.source[across])
            handed.append(float(results[passed].sum()) * self.mapping.microbatch)
        return handed

    @property
    def fetched_bytes(self) -> float:
        """What comes from outside for a microbatch [B]."""
        outside = float(self.graph.column("outside_bytes").sum())
        return outside * self.number_bytes / 2.0 * self.mapping.microbatch


def simulate_tiles(
    run: TileRun,
    graph: FabricGraph,
    *,
    contention: bool = True,
    full: bool = False,
    busiest: int = 5,
    tick: Callable[[int, int], None] | None = None,
) -> SimulationOutcome:
    """Simulate an iteration, or a batch that is inferred.

    Parameters
    ----------
    run
        What runs, where.
    graph
        The fabric's graph.
    contention
        Whether messages and accesses wait for each other.
    full
        Simulate every microbatch.
    busiest
        Directions of links that the answer has, the busiest first [1].
    tick
        Called with the microbatches that are through, and all of them.

    Returns
    -------
    SimulationOutcome
        Without training ``sequences_per_s`` is the rate of a pipeline that is never empty.

    Examples
    --------
    Two products of 1 us each, one core for both, five samples; inputs come from elsewhere.

    >>> from netplan.simulation.palm_model import ANY_ITERATION_MODEL
    >>> from netplan.simulation.tile_mapping import TileRates, best_mapping
    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.topologies.specs import FABRICS
    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> from netplan.workloads.kernel_graph import Kernel
    >>> from netplan.workloads.tile_operators import operators_of
    >>> kernels = [Kernel(name, "gemm", 50, 100, 100, 1e4, 1e4) for name in "ab"]
    >>> kernel_graph = KernelGraph.of(kernels, [("a", "b")])
    >>> rates, spec = TileRates(1e12, 1e12, 1e9, 1e9, 1e6), FABRICS.load("palm-wafer")
    >>> run = TileRun(
    ...     mapping=best_mapping(operators_of(kernel_graph), 1, rates, microbatches=(1,)),
    ...     graph=kernel_graph, number_bytes=2.0, samples=5, spec=spec,
    ...     on=ACCELERATORS.load("palm-wafer-core"), rules=ANY_ITERATION_MODEL.load("palm"),
    ... )
    >>> sizing = Sizing(gpus=320, radix=64, hb_size=1,
    ...                 hb_bytes_per_s=1024e9, network_bytes_per_s=256e9)
    >>> outcome = simulate_tiles(run, expand(spec, sizing))
    >>> round(outcome.sequences_per_s), round(1e6 * outcome.iteration_time_s, 6)
    (500000, 10.0)
    """
    began = perf_counter()
    trains, stages = run.mapping.rates.trains, run.mapping.stages
    simulated = run.microbatches
    if not full:
        simulated = min(simulated, max(LEAST_SIMULATED, FILLED * len(stages)))
    made = _Made(run, graph, contention)
    result = simulate_pipelines(
        [made.pipeline(simulated)], links=2 * graph.link_count, full=True, spans=True, tick=tick
    )
    on_links_s = links_s(made.pipeline(run.microbatches), graph, result, simulated)
    first_s = links_s(made.pipeline(1), graph, result, simulated)[0]
    # What fills buffers at first may hide a link that cannot keep the pace for long.
    on_busiest_s = (on_links_s[0] - first_s).max(initial=0.0) / max(1, run.microbatches - 1)
    slot_s = max(_slot_s(result, len(stages), trains=trains), float(on_busiest_s))
    time_s = result.iteration_time_s + (run.microbatches - simulated) * slot_s
    repeats = np.array([run.microbatches, run.microbatches, 1])
    compute_s, alone_s = (
        np.array([repeats @ [tasks.alone_s(work, messages=whole) for work in works]
                  for works in made.works])
        for whole in (False, True)
    )  # fmt: skip
    samples = run.microbatches * run.mapping.microbatch
    return outcome_of(
        graph,
        result,
        (compute_s, alone_s, repeats @ passes_s(result, len(stages))),
        on_links_s,
        time_s,
        busiest,
        analytic_time_s=None,
        sequences_per_s=samples / time_s if trains else run.mapping.microbatch / slot_s,
        waiting_s=float(on_links_s[1].sum()),
        microbatches=run.microbatches,
        microbatches_simulated=simulated,
        replicas=1,
        replicas_simulated=1,
        seconds=perf_counter() - began,
        notes=tuple(_notes(run, graph, simulated, slot_s)),
    )


class _Made(Struct, frozen=True, dict=True):
    """Work and transfers of all stages."""

    run: TileRun
    graph: FabricGraph
    contention: bool

    @cached_property
    def network(self) -> TileNetwork:
        """The mesh, whose borders all count."""
        run = self.run
        passes = 4 * min(run.microbatches, tasks.TICKED)
        once_s = max(stage.busy_s for stage in run.mapping.stages) * len(run.mapping.stages)
        rules = run.rules.changed(
            units=DECIMAL, communication=run.rules.communication.changed(borders="all")
        )
        tick_s = tasks.tick_of(passes * once_s, TICK_DIGITS)
        given = rules, run.on, run.spec, self.graph
        return TileNetwork(*given, tick_s=tick_s, contention=self.contention)

    @cached_property
    def groups(self) -> list[list[int]]:
        """Cores of each stage."""
        run = self.run
        order = tile_order(run.spec, self.graph.gpus, "snake") if run.places is None else run.places
        ends = np.cumsum([stage.tiles for stage in run.mapping.stages])
        places = zip([0, *ends.tolist()], ends.tolist(), strict=False)
        return [order[first:last].tolist() for first, last in places]

    @cached_property
    def works(self) -> list[tuple[tasks.Operations, ...]]:
        """Forward, backward and finish of each stage; the last two empty without training."""
        made: list[tuple[tasks.Operations, ...]] = []
        pairs = zip(self.run.mapping.stages, self.groups, strict=True)
        for number, (stage, members) in enumerate(pairs):
            ways: list[tuple[Callable[..., Iterator[tasks.Operation]], tuple[TilePiece, ...]]]
            ways = [(partial(self._pass, ahead=True), stage.pieces)]
            if stage.rates.trains:
                ways += [
                    (partial(self._pass, ahead=False), stage.pieces[::-1]),
                    (self._finish, stage.pieces),
                ]
            forward, *others = (
                tuple(operation for piece in pieces for operation in making(piece, stage, members))
                for making, pieces in ways
            )
            if number == 0 and self.run.fetched_bytes:
                fetched = Access(0.0, self.run.fetched_bytes / len(members))
                forward = ((self.network.access(members, fetched), (forward,)),)
            made.append((forward, *(others or ((), ()))))
        return made

    def _side_by_side(
        self, branch: tasks.Branch, moved: Access, members: list[int]
    ) -> Iterator[tuple[tasks.Branch, ...]]:
        """An operation: a branch beside its memory traffic, as far as there is either."""
        access = self.network.access(members, moved) if moved.write_bytes + moved.read_bytes else ()
        if branches := tuple(filter(None, (access, branch))):
            yield branches

    def _pass(
        self, piece: TilePiece, stage: TileStage, members: list[int], *, ahead: bool
    ) -> Iterator[tuple[tasks.Branch, ...]]:
        """The forward pass of an operator, or its backward pass."""
        held, sram_bytes = stage.held, stage.rates.sram_bytes
        # Tiles that have the same inputs in common; of what has no weights none has.
        common = _along(piece, members, OUTPUTS) if piece.weight_bytes else [[m] for m in members]
        taken = common, piece.input_bytes
        given = _along(piece, members, INNER), piece.output_bytes
        passes, moved = 1.0, piece.forward_bytes(held, sram_bytes)
        if not ahead:
            taken, given = given, taken
            passes = piece.operator.backward_flops / piece.operator.flops
            moved = piece.backward_bytes(held, sram_bytes)
        branch = (
            *_ring(self.network, *taken, rounds=1),
            tasks.in_ticks(
                passes * piece.flops / stage.rates.flops_per_s(piece.operator), self.network.tick_s
            ),
            *_ring(self.network, *given, rounds=2),
        )
        written = min(moved, given[1] if held in ("weights", "nothing") else 0.0)
        return self._side_by_side(branch, Access(written, moved - written), members)

    def _finish(
        self, piece: TilePiece, stage: TileStage, members: list[int]
    ) -> Iterator[tuple[tasks.Branch, ...]]:
        """Gradients of an operator's weights, and its optimizer."""
        if not piece.weight_bytes:
            return iter(())
        replicas = _along(piece, members, SAMPLES, TOKENS)  # tiles that have the same weights
        ring = _ring(self.network, replicas, piece.weight_bytes, rounds=2)
        states = self.run.rules.memory.update.times(piece.weight_bytes / self.run.number_bytes)
        held = stage.held in ("all", "weights")
        return self._side_by_side(ring, Access(0.0, 0.0) if held else states, members)

    def pipeline(self, microbatches: int) -> tasks.Pipeline:
        """As the simulator takes it."""
        pairs = list(zip(self.groups, self.groups[1:], strict=False))
        sent = self.run.handed_on_bytes
        onward, back = (
            tuple(
                _spread(self.network, *(pair[::-1] if turned else pair), size)
                for pair, size in zip(pairs, sent, strict=True)
            )
            for turned in (False, True)
        )
        trains = self.run.mapping.rates.trains
        return tasks.Pipeline(
            len(self.works),
            microbatches,
            tuple(tasks.Pass(forward) for forward, _, _ in self.works),
            tuple(tasks.Pass(backward) for _, backward, _ in self.works) if trains else (),
            onward,
            back if trains else (),
            finish=tuple(finish for _, _, finish in self.works) if trains else (),
            trains=trains,
        )


def _ring(
    network: TileNetwork, groups: list[list[int]], size_bytes: float, *, rounds: int
) -> tasks.Branch:
    """Rings that pass so many bytes in pieces: 1 round gathers them, 2 sum them up."""
    return network.steps((ring_step(groups, size_bytes),) * (rounds * (len(groups[0]) - 1)))


def _spread(
    network: TileNetwork, sender: list[int], receiver: list[int], size_bytes: float
) -> tasks.Branch:
    """Hand so many bytes on at once, a piece from or to every core of the larger group."""
    pieces = max(len(sender), len(receiver))
    step = tuple(
        SentBytes(
            sender[piece * len(sender) // pieces],
            receiver[piece * len(receiver) // pieces],
            size_bytes / pieces,
        )
        for piece in range(pieces)
    )
    return network.steps((step,))


def _along(piece: TilePiece, members: list[int], *axes: int) -> list[list[int]]:
    """Groups of tiles that differ in some degrees alone; inner sizes lie side by side."""
    used = np.array(members[: int(np.prod(piece.split))])
    order = [piece.split[axis] for axis in (SAMPLES, TOKENS, OUTPUTS, INNER)]
    grid = np.moveaxis(used.reshape(order).transpose(0, 2, 1, 3), axes, range(len(axes)))
    size = int(np.prod([piece.split[axis] for axis in axes]))
    return grid.reshape(size, -1).T.tolist()


def _slot_s(result: SimulationResult, stages: int, *, trains: bool) -> float:
    """Time between two microbatches in the second half of those simulated [s]."""
    stage, kind = (0, FORWARD + 1) if trains else (stages - 1, FORWARD)
    ends = [span.end_s for span in result.spans if (span.stage, span.kind) == (stage, kind)]
    middle = (len(ends) - 1) // 2
    if middle == len(ends) - 1:
        return result.iteration_time_s
    return (ends[-1] - ends[middle]) / (len(ends) - 1 - middle)


def _notes(run: TileRun, graph: FabricGraph, simulated: int, slot_s: float) -> Iterator[str]:
    """What the reader should know."""
    mapping = run.mapping
    held = [stage.held for stage in mapping.stages]
    moved = sum(stage.tiles * stage.moved_bytes for stage in mapping.stages) / mapping.microbatch
    if held.count("all") == len(held):
        yield "All weights and results stay on the chip."
    else:
        yield (
            f"{held.count('all'):,} of {len(held):,} stages lie on the chip whole; all together"
            f" move {moved / 1e6:,.4g} MB a sample through memory."
        )
    peak = sum(piece.operator.flops for stage in mapping.stages for piece in stage.pieces)
    peak_per_s = mapping.rates.product_flops_per_s * graph.gpus / peak
    if not mapping.rates.trains:
        share = 100 * mapping.microbatch / slot_s / peak_per_s
        yield (
            "Samples a second are those of a pipeline that is never empty,"
            f" {share:.0f} % of what the peak of all cores allows."
        )
    if simulated < run.microbatches:
        yield (
            f"Each of the {run.microbatches - simulated:,} microbatches beyond {simulated:,} takes"
            " what those of the second half do; --full simulates all."
        )
    if mapping.tiles < graph.gpus:
        yield f"{graph.gpus - mapping.tiles:,} of {graph.gpus:,} cores are idle."
