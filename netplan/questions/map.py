"""How a model's kernels lie on one chip, and how fast a cluster of such chips is."""

import dataclasses
from dataclasses import dataclass
from math import inf, isinf
from typing import ClassVar

import numpy as np
from msgspec import Struct

from netplan.errors import InfeasibleError, InputError
from netplan.performance.chip_network import ChipNetwork
from netplan.performance.dimensions import Layout, equal_levels, layouts, read_dimensions
from netplan.performance.fusion import lower_bound_s
from netplan.performance.linpack import linpack_steps
from netplan.performance.mapping import (
    Mapping,
    MappingOptions,
    Pipeline,
    Throughput,
    kernels_between,
    map_graph,
    memory_bytes,
    pipeline_throughput,
)
from netplan.questions.inputs import CatalogReader, sizing_on
from netplan.questions.map_answer import (
    MapAnswer,
    Mapped,
    MapTotals,
    Rates,
    kernel_rows,
    partition_rows,
    step_rows,
)
from netplan.questions.question import Question, asks, check_ranges, optional, shared
from netplan.records import replace
from netplan.topologies.build import build_fabric
from netplan.topologies.specs import FABRICS
from netplan.traffic.published_topology import Dimension, collective_s
from netplan.units import si
from netplan.workloads.accelerators import ACCELERATORS, Accelerator, Execution
from netplan.workloads.families import (
    FourierModel,
    LinpackModel,
    OtherModel,
    RecommendationModel,
)
from netplan.workloads.fourier_graph import fourier_graph
from netplan.workloads.graph_model import GraphModel
from netplan.workloads.kernel_graph import Direction, Kernel, KernelGraph
from netplan.workloads.models import WORKLOADS, Model
from netplan.workloads.operations import ELEMENT_BYTES, Mode
from netplan.workloads.recommendation_graph import recommendation_graph
from netplan.workloads.technologies import LINKS, MEMORIES, refitted
from netplan.workloads.transformer_graph import divides, layer_graph

Layered = Model | GraphModel
"""Models of layers that follow each other."""

MAX_LAYERS_MAPPED = 512
"""Layers of a recommendation model at most, of three kernels each [1]."""

DIRECTIONS = ("forward", "backward", "both")


@dataclass(frozen=True, kw_only=True)
class Map(Question[MapAnswer]):
    """Map the kernels of a model onto a chip: what stays on it together, what binds, how fast.

    Of a transformer that is one layer on the chips of a tensor group; of a recommendation model all
    layers on each of --gpus chips; of a Fourier transform and of LINPACK the whole; of a graph of
    your own (family: graph) what its file lists.

    Raises
    ------
    NetplanError
        If an input is not allowed, or something has no room.

    Examples
    --------
    >>> answer = map(model="gpt-175b", accelerator="sn10", tensor=8, sequence_tile=32)
    >>> [len(row.kernels) for row in answer.found.partitions], answer.found.sequence_tile
    ([10, 8], 32)
    """

    command: ClassVar[str] = "map"
    examples: ClassVar[tuple[str, ...]] = (
        "netplan map --model gpt-175b --accelerator sn10 --tensor 8",
        "netplan map --model gpt-1t --accelerator a100-80gb --tensor 8 --direction both",
        "netplan map --model dlrm-12t --accelerator a100-80gb --gpus 128 --mode published-code",
        "netplan map --model hpl-16k --accelerator sn10 --gpus 8",
    )

    model: str = shared("What is computed: a model of any family.")
    accelerator: str = shared("On which chip.")
    tensor: int | None = optional(
        "Chips that share a layer, or the rows of a grid.",
        "whole",
        unit="chips",
        low=1,
        high=4096,
        otherwise="8 for a transformer, the graph's own, else 1",
    )
    pipeline: int = optional("Pipeline stages.", "whole", default=1, low=1, high=100_000)
    data: int = optional("Replicas.", "whole", default=1, low=1, high=4_194_304)
    batch: int | None = optional(
        "Global batch, to fill the pipeline.", "whole", low=1, otherwise="a full pipeline"
    )
    gpus: int | None = optional(
        "Chips in all.", "whole", unit="chips", low=1, high=4_194_304, otherwise="as many as used"
    )
    fabric: str | None = optional(
        "Between the chips.", otherwise="one ring of the chip's own links"
    )
    radix: int = shared("Ports per switch of the fabric.", "whole", low=4, high=1024)
    direction: Direction = optional(
        "Pass of a transformer.", "choice", default="forward", choices=DIRECTIONS
    )
    execution: Execution | None = optional(
        "Kernels kept together, or run one by one.",
        "choice",
        choices=("fused", "kernel-by-kernel"),
        otherwise="as the chip does",
    )
    sequence_tile: int | None = optional(
        "Tokens that pass through a partition at a time.",
        "whole",
        unit="tokens",
        low=1,
        otherwise="the fastest",
    )
    micro_batch: int = optional(
        "Sequences for which weights are loaded once.", "whole", default=1, low=1, high=1_000_000
    )
    dimensions: str | None = optional(
        "Between the chips instead of a fabric: dimensions of free sizes, innermost first.",
        metavar="ring-ring",
        otherwise="those of the fabric",
    )
    memory: str | None = optional("Memory in place of the chip's own.", otherwise="its own")
    link: str | None = optional("Links in place of the chip's own.", otherwise="its own")
    compute_utilisation: float | None = optional(
        "Share of the peak that kernels reach, in place of compute tiles.",
        "real",
        low=0.001,
        high=1,
        otherwise="by compute tiles",
    )
    cut: str | None = optional(
        "Partitions, such as AddPrev..V,QK..LN2.", metavar="A..B,C", otherwise="the fastest"
    )
    mode: Mode = shared("Corrected, or published-code.")

    def __post_init__(self) -> None:
        """Refuse numbers out of range."""
        super().__post_init__()
        check_ranges(self)

    def ask(self) -> MapAnswer:
        """Map, and multiply to the cluster."""
        reader = CatalogReader(self.catalog, self.overrides)
        model = reader.load(WORKLOADS, self.model)
        chip = refitted(
            reader.load(ACCELERATORS, self.accelerator),
            reader.named(MEMORIES, self.memory),
            reader.named(LINKS, self.link),
            self.compute_utilisation,
        )
        check_inputs(self, model)
        tensor = self.tensor or _usual_tensor(model)
        case = Case(self, chip, tensor, self._network(reader, chip)).laid_out(model)
        mapped = case.mapped(model)
        inputs = self.inputs(
            tensor=case.tensor,
            pipeline=case.asked.pipeline,
            data=case.asked.data,
            execution=self.execution or chip.execution,
            family=model.family,
            sequence_tile=mapped.sequence_tile,
            set=reader.replaced(),
        )
        return MapAnswer(inputs, mapped, case.rates())

    def _network(self, reader: CatalogReader, chip: Accelerator) -> ChipNetwork:
        """Links between the chips: those of the fabric, if there is one."""
        if self.dimensions is not None:
            return self._free_network(chip)
        if self.fabric is None:
            return ChipNetwork(chip.hb_bytes_per_s, mode=self.mode)
        if self.gpus is None:
            raise InputError("--fabric joins so many chips: say how many with --gpus")
        sizing = sizing_on(chip, gpus=self.gpus, radix=self.radix)
        fabric = build_fabric(reader.load(FABRICS, self.fabric), sizing)
        if not fabric.levels:
            raise InputError(f"--fabric {fabric.name}: {self.gpus:,} chips fill no levels of it")
        return ChipNetwork(chip.hb_bytes_per_s, fabric.levels, fabric.name, self.mode)

    def _free_network(self, chip: Accelerator) -> ChipNetwork:
        """Dimensions of sizes nearest to equal."""
        if self.fabric is not None or self.tensor is not None or self.gpus is None:
            raise InputError(
                "--dimensions are the network of all --gpus chips, with degrees that are searched:"
                " give --gpus, and neither --fabric nor --tensor"
            )
        rate = chip.network_bytes_per_s
        levels = equal_levels(read_dimensions(self.dimensions or ""), self.gpus, rate)
        return ChipNetwork(rate, levels, self.dimensions or "", self.mode)


map = asks(Map)  # noqa: A001 - the command's name


class Case(Struct, frozen=True):
    """A question with its files."""

    asked: Map
    chip: Accelerator
    tensor: int
    network: ChipNetwork

    @property
    def chips(self) -> int:
        """Chips that a workload lies on which is no transformer [1]."""
        if self.asked.gpus is None:
            raise InputError(
                f"--model {self.asked.model} lies on all chips: say how many with --gpus"
            )
        return self.asked.gpus

    def laid_out(self, model: Model | OtherModel) -> "Case":
        """The case on the fastest layout of a transformer, where dimensions are free."""
        asked = self.asked
        if asked.dimensions is None or not isinstance(model, Model):
            return self
        kinds = tuple(level.kind for level in self.network.levels)
        rate = self.network.link_bytes_per_s
        fastest, best_s = None, inf
        for layout in layouts(kinds, self.chips, rate, layers=model.layers):
            if divides(model, layout.tensor):
                case = self._on(layout)
                time_s = 1 / case.throughput(model, case.layer(model).interval_s).per_s
                if time_s < best_s:
                    fastest, best_s = case, time_s
        if fastest is None:
            raise InputError(
                f"{model.name} lies on no dimensions {asked.dimensions} of {self.chips:,} chips:"
                " its layers and heads divide by none"
            )
        return fastest

    def _on(self, layout: Layout) -> "Case":
        """The case with the degrees of a layout, each on its dimension."""
        asked = dataclasses.replace(self.asked, pipeline=layout.pipeline, data=layout.data)
        network = replace(self.network, levels=layout.levels)
        return Case(asked, self.chip, layout.tensor, network)

    def layer(self, model: Layered) -> Mapping:
        """One layer on the chips of a tensor group."""
        if isinstance(model, GraphModel):
            graph = model.graph()
        else:
            graph = layer_graph(model, self.tensor, self.asked.direction)
        return map_graph(graph, self.chip, self._collectives_s, self._options(graph))

    def _collectives_s(self, kernel: Kernel) -> float:
        """Time of a kernel's collectives: of the tensor group, all chips, gradients over replicas.

        Gradients are summed once a batch, so a micro-batch has its share of them.
        """
        group_s = self.network.all_reduce_s(kernel.all_reduce_bytes, self.tensor)
        if kernel.all_to_all_bytes:
            chips = self.asked.gpus or self.tensor
            group_s += self.network.exchange_s(kernel.all_to_all_bytes, chips)
        if self.asked.dimensions is None or kernel.kind != "update" or self.asked.batch is None:
            return group_s
        gradient_bytes = ELEMENT_BYTES * kernel.m * kernel.n
        share = self.asked.data * self.asked.micro_batch / self.asked.batch
        over = Dimension.of(self.network.levels[-1])
        return group_s + share * collective_s("all_reduce", gradient_bytes, over)

    def rates(self) -> Rates:
        """What the chip offers."""
        chip, link = self.chip, self.network.innermost_bytes_per_s
        peak = chip.tensor_flops_per_s
        rate, power_w = chip.memory_bytes_per_s, chip.power_w
        return Rates(chip.tiles or 0, chip.sram_bytes, rate, peak, link, power_w)

    def mapped(self, model: Model | OtherModel) -> Mapped:
        """What the answer says, by family."""
        match model:
            case Model() | GraphModel():
                return self._layers(model)
            case RecommendationModel():
                return self._recommendation(model)
            case FourierModel():
                return self._fourier(model)
            case LinpackModel():
                return self._linpack(model)

    def _options(self, graph: KernelGraph) -> MappingOptions:
        """How a graph is put on the chip."""
        asked = self.asked
        cut = kernels_between(graph, asked.cut) if asked.cut else ()
        return MappingOptions(
            asked.execution,
            asked.sequence_tile,
            asked.micro_batch,
            cut,
            asked.mode,
            convex=asked.dimensions is None,
        )

    def _layers(self, model: Layered) -> Mapped:
        """One layer on a tensor group, and the pipeline of all of them."""
        asked = self.asked
        self._check_degrees(model)
        mapping = self.layer(model)
        graph = mapping.graph
        chosen = np.ones(graph.count, bool)
        if asked.direction == "backward":
            chosen = graph.backward
        rows, kernels = partition_rows(mapping, chosen), kernel_rows(mapping, chosen)
        interval = sum(row.time_s + row.setup_s for row in rows)
        if asked.pipeline > 1:
            hop_s = graph.kernels[0].output_bytes / self.network.outermost_bytes_per_s
            interval = max(interval, hop_s)
        found = self.throughput(model, interval, sum(row.flops for row in kernels))
        totals = MapTotals(
            interval,
            sum(row.setup_s for row in rows),
            *(found.time_per_sequence_s, found.per_s, found.utilisation),
            memory_bytes(mapping) * -(-model.layers // asked.pipeline),
            lower_bound_s(mapping.fusion.problem) if chosen.all() else None,
            "sequences" if isinstance(model, Model) else "runs",
        )
        left_out = (NO_OPTIMIZER,) if isinstance(model, Model) else ()
        notes = (self._room(totals.memory_bytes, model), *left_out, *_notes(mapping, asked))
        return Mapped(totals, rows, kernels, notes, mapping, graph if chosen.all() else None)

    def throughput(self, model: Layered, interval_s: float, flops: float = 0.0) -> Throughput:
        """What the pipeline of all layers makes of the interval of one."""
        asked = self.asked
        microbatches = asked.batch / asked.data / asked.micro_batch if asked.batch else None
        pipeline = Pipeline(model.layers, asked.pipeline, asked.data, microbatches)
        peak = self.chip.tensor_flops_per_s
        return pipeline_throughput(interval_s, pipeline, flops=flops, peak_flops_per_s=peak)

    def _check_degrees(self, model: Layered) -> None:
        """Refuse more chips than there are, and more stages than layers."""
        asked = self.asked
        used = self.tensor * asked.pipeline * asked.data
        if asked.gpus is not None and used > asked.gpus:
            raise InputError(
                f"tensor {self.tensor} x pipeline {asked.pipeline} x data {asked.data} are {used:,}"
                f" chips, --gpus has {asked.gpus:,}"
            )
        if asked.pipeline > model.layers:
            raise InputError(
                f"--pipeline {asked.pipeline:,}: {model.name} has {model.layers} layers"
            )

    def _room(self, needed: float, model: Layered) -> str:
        """What the layers of a chip hold; refuses stages that were asked for and have no room."""
        room = self.chip.memory_bytes + self.chip.second_memory_bytes
        if needed <= room:
            there = "; its room is left open" if isinf(room) else f" of its {si(room, 'B')}"
            return f"A chip holds {si(needed, 'B')}{there}."
        more = f"{si(needed, 'B')} a chip, {self.chip.name} has {si(room, 'B')}"
        if self.asked.pipeline > 1:
            raise InfeasibleError(
                f"--pipeline {self.asked.pipeline:,}: {model.name} needs {more}: give"
                f" {needed / room:.2f} times as many chips, or a smaller micro-batch"
            )
        stages = min(model.layers, -(-needed // room))
        return f"All layers need {more}: at least {stages:,.0f} pipeline stages."

    def _held(self, what: str, held: float) -> float:
        """Memory of a chip for what all chips share; refuses more than it has [B]."""
        room = self.chip.memory_bytes + self.chip.second_memory_bytes
        if held > room:
            raise InfeasibleError(
                f"{self.asked.model}: {what} are {si(held, 'B', 4)} on each of {self.chips:,}"
                f" chips, {self.chip.name} has {si(room, 'B', 4)}: {held / room:.2f} times as much;"
                " give more chips or a larger memory"
            )
        return held

    def _recommendation(self, model: RecommendationModel) -> Mapped:
        """All layers on each chip, tables on all."""
        if model.layers > MAX_LAYERS_MAPPED:
            raise InputError(
                f"{model.name} has {model.layers:,} layers, and netplan map takes all of them at"
                f" once, at most {MAX_LAYERS_MAPPED:,}: give fewer"
            )
        held = self._held("tables", model.table_bytes / self.chips)
        graph = recommendation_graph(model, self.chips)
        return self._together(graph, held, model.batch)

    def _fourier(self, model: FourierModel) -> Mapped:
        """Both halves of a transform on all chips."""
        held = self._held("points", float(model.side) ** 2 * model.word_bytes / self.chips)
        return self._together(fourier_graph(model, self.chips), held, None)

    def _together(self, graph: KernelGraph, held: float, samples: int | None) -> Mapped:
        """A graph that all chips run together; of so many samples each, or of one transform."""
        mapping = map_graph(
            graph,
            self.chip,
            lambda kernel: self.network.exchange_s(kernel.all_to_all_bytes, self.chips),
            self._options(graph),
        )
        interval = mapping.interval_s
        totals = MapTotals(
            interval,
            float(mapping.fusion.times.setup_s.sum()),
            interval / (samples * self.chips) if samples else interval,
            (self.chips if samples else 1) / interval,
            float(graph.flops.sum()) / (interval * self.chip.tensor_flops_per_s),
            held,
            lower_bound_s(mapping.fusion.problem),
            "micro-batches" if samples else "transforms",
        )
        exchanged = float(mapping.fusion.problem.network_s.sum())
        told = f"Exchanges are {si(exchanged, 's')} of the interval, if nothing hides them."
        every = np.ones(graph.count, bool)
        rows, kernels = partition_rows(mapping, every), kernel_rows(mapping, every)
        return Mapped(totals, rows, kernels, (told, *_notes(mapping, self.asked)), mapping, graph)

    def _linpack(self, model: LinpackModel) -> Mapped:
        """All steps on a grid."""
        grid = self.network.grid(self.tensor, self.chips)
        held = self._held(
            "words of the matrix", model.word_bytes * float(model.unknowns) ** 2 / self.chips
        )
        steps = linpack_steps(model, self.chip, grid)
        total = float(steps.time_s.sum())
        peak = self.chips * self.chip.tensor_flops_per_s
        work = model.flops() / (total * peak)
        totals = MapTotals(total, 0.0, total, 1 / total, work, held, None, "solutions")
        rows = step_rows(steps, self.chip.tiles or 0)
        notes = (f"A grid of {grid[0].size} x {grid[1].size} chips, {len(rows):,} steps.",)
        return Mapped(totals, rows, (), notes)


def _usual_tensor(model: Model | OtherModel) -> int:
    """Chips that share a layer where none are asked for [1]."""
    if isinstance(model, GraphModel):
        return model.chips
    return 8 if isinstance(model, Model) else 1


FOR_FAMILIES: dict[str, tuple[str, ...]] = {
    "tensor": ("transformer", "linpack"),
    "pipeline": ("transformer", "graph"),
    "data": ("transformer", "graph"),
    "direction": ("transformer",),
    "execution": ("transformer", "graph", "recommendation", "fft"),
    "sequence_tile": ("transformer", "graph", "recommendation", "fft"),
    "micro_batch": ("transformer", "graph", "recommendation", "fft"),
    "cut": ("transformer", "graph", "recommendation", "fft"),
}
"""Inputs that mean something for some families only; studies give all of them one batch."""


def check_inputs(asked: Map, model: Model | OtherModel) -> None:
    """Refuse inputs that mean nothing for a model's family."""
    for one in dataclasses.fields(asked):
        families = FOR_FAMILIES.get(one.name)
        given = getattr(asked, one.name)
        if families and model.family not in families and given != one.default:
            flag = "--" + one.name.replace("_", "-")
            raise InputError(
                f"{flag} {given} is for models of family {' or '.join(families)}, and {model.name}"
                f" is of family {model.family}: leave it out"
            )


NO_OPTIMIZER = "No optimizer step; gradients of replicas are summed behind the backward pass."


def _notes(mapping: Mapping, asked: Map) -> tuple[str, ...]:
    """How sure the cut is, and what the chip's file lacks."""
    notes = []
    if not asked.cut and not mapping.fusion.exact:
        notes.append("Cuts of a few orders were tried: the interval is an upper bound.")
    if mapping.fusion.problem.choices is None:
        notes.append("The chip's file has no compute tiles: kernels take a share of its peak.")
    return tuple(notes)
