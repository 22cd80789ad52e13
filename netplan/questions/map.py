"""How a model's kernels lie on one chip, and how fast a cluster of such chips is."""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf, isinf
from typing import ClassVar, Literal, get_args

from netplan.answers.map_answer import ChipRates, MapAnswer, MapResult
from netplan.costing.dfmodel import SYSTEM_PARTS, SystemAmounts, system_amounts
from netplan.errors import InputError
from netplan.inputs.choices import Execution, Mode
from netplan.inputs.option import Option, check_range
from netplan.performance.mapping.chip import KernelTimes, MappingOptions
from netplan.performance.mapping.network import (
    ChipNetwork,
    equal_levels,
    parallel_layouts,
    read_dimensions,
)
from netplan.performance.mapping.system import (
    FASTEST,
    ChipSystem,
    LinpackSteps,
    RunTotals,
    SystemRun,
    fastest_system,
    run_model,
)
from netplan.records import replace
from netplan.scenarios.reading import CatalogReader, sizing_on
from netplan.setup.asking import function_of
from netplan.setup.own_inputs import option_field
from netplan.setup.question import Question, Shorthand
from netplan.topologies.build import build_fabric
from netplan.topologies.specs import FABRICS
from netplan.traffic.algorithms import check_choice
from netplan.traffic.published_topology import Dimension
from netplan.units import counted, si
from netplan.workloads.accelerators import ACCELERATORS, Accelerator
from netplan.workloads.families import LinpackModel, OtherModel
from netplan.workloads.graph_model import GraphModel
from netplan.workloads.kernel_graph import Direction
from netplan.workloads.measured_kernels import MeasuredKernels
from netplan.workloads.models import WORKLOADS, Model
from netplan.workloads.technologies import LINKS, MEMORIES, refitted

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
    >>> answer = map("rail-only-paper", model="gpt-175b", accelerator="sn10", tensor=8,
    ...     sequence_tile=32)
    >>> [len(row.kernels) for row in answer.found.partitions], answer.found.sequence_tile
    ([10, 8], 32)
    """

    command: ClassVar[str] = "map"
    examples: ClassVar[tuple[str, ...]] = (
        "netplan map dfmodel-paper",
        "netplan map hgx-h100 --model gpt-22b --tensor 8 --direction both",
        "netplan map --model dlrm-793b --accelerator a100-80gb --gpus 128",
        "netplan map --model hpl-16k --accelerator sn10 --gpus 8",
    )

    reads: ClassVar[frozenset[str]] = frozenset(
        {"model", "accelerator", "batch", "gpus", "fabric", "radix", "mode", "fixed", "as_found"}
    )
    workload: ClassVar[str] = "training"
    shorthands: ClassVar[Mapping[str, Shorthand]] = {
        "tensor": Shorthand(
            "fixed",
            "tensor",
            Option(
                "Chips that share a layer, or the rows of a grid.",
                "whole",
                unit="chips",
                low=1,
                high=4096,
                otherwise="8 for a transformer, the graph's own, else 1",
            ),
        ),
        "pipeline": Shorthand(
            "fixed", "pipeline", Option("Pipeline stages.", "whole", low=1, high=100_000)
        ),
        "data": Shorthand("fixed", "data", Option("Replicas.", "whole", low=1, high=4_194_304)),
    }

    direction: Direction = option_field(
        "Pass of a transformer.", "choice", default="forward", choices=DIRECTIONS
    )
    execution: Execution | None = option_field(
        "Kernels kept together, or run one by one.",
        "choice",
        choices=("fused", "kernel-by-kernel"),
        otherwise="as the chip does",
    )
    sequence_tile: int | None = option_field(
        "Tokens that pass through a partition at a time.",
        "whole",
        unit="tokens",
        low=1,
        otherwise="the fastest",
    )
    micro_batch: int = option_field(
        "Sequences for which weights are loaded once.", "whole", default=1, low=1, high=1_000_000
    )
    dimensions: str | None = option_field(
        "Between the chips instead of a fabric: dimensions of free sizes, innermost first.",
        metavar="ring-ring",
        otherwise="those of the fabric",
    )
    memory: str | None = option_field("Memory in place of the chip's own.", otherwise="its own")
    link: str | None = option_field("Links in place of the chip's own.", otherwise="its own")
    kernels: KernelTimes = option_field(
        "Kernels by tiles and peak of the chip, or as measured one by one.",
        "choice",
        choices=get_args(KernelTimes),
        default="modelled",
    )
    compute_utilisation: float | None = option_field(
        "Share of the peak that kernels reach, in place of compute tiles.",
        "real",
        low=0.001,
        high=1,
        otherwise="by compute tiles",
    )
    block: str | None = option_field(
        "Columns of a step of LINPACK, or fastest: the best power of two.",
        metavar="1024",
        otherwise="the model's",
    )
    cut: str | None = option_field(
        "Partitions, such as AddPrev..V,QK..LN2.", metavar="A..B,C", otherwise="the fastest"
    )

    def __post_init__(self) -> None:
        """Refuse numbers out of range, unknown choices, and inputs that contradict each other."""
        super().__post_init__()
        self.check_parts()
        for name, (_, degree, option) in self.shorthands.items():
            check_range(name, option, (self.training.fixed or {}).get(degree))
        check_choice("mode", self.training.mode, get_args(Mode))
        check_choice("direction", self.direction, DIRECTIONS)
        check_choice("kernels", self.kernels, get_args(KernelTimes))
        if self.cut and self.execution == "kernel-by-kernel":
            raise InputError(
                "--cut keeps kernels together, --execution kernel-by-kernel none: leave one out"
            )
        together = self.cut or self.sequence_tile or self.execution == "fused"
        if self.kernels == "measured" and (together or self.compute_utilisation):
            raise InputError(
                "--kernels measured run one by one, at rates of their own: leave --cut,"
                " --sequence-tile, --execution fused and --compute-utilisation out"
            )
        if self.batch is not None and self.batch < self.data * self.micro_batch:
            raise InputError(
                f"--batch {self.batch:,} leaves some of {self.data:,} replicas without a"
                f" micro-batch: give {self.data * self.micro_batch:,} or more"
            )

    @property
    def chips(self) -> int | None:
        """Chips in all, if that was given [1]: a scenario's are those of a whole cluster."""
        return self.cluster.gpus if "gpus" in self.given else None

    @property
    def cluster_inputs(self) -> frozenset[str]:
        """Without a fabric there is no switch."""
        return self.reads if self.fabric is not None else self.reads - {"radix"}

    @property
    def fabric(self) -> str | None:
        """What joins the chips, if that was given."""
        return self.cluster.fabric if "fabric" in self.given else None

    @property
    def batch(self) -> int | None:
        """Global batch, if that was given [1]."""
        return self.scenario.batch if "batch" in self.given else None

    @property
    def tensor(self) -> int | None:
        """Chips that share a layer, or the rows of a grid, if that was given [1]."""
        return (self.training.fixed or {}).get("tensor")

    @property
    def pipeline(self) -> int:
        """Pipeline stages [1]."""
        return (self.training.fixed or {}).get("pipeline", 1)

    @property
    def data(self) -> int:
        """Replicas [1]."""
        return (self.training.fixed or {}).get("data", 1)

    def ask(self) -> MapAnswer:
        """Map, and multiply to the cluster."""
        reader = self.reader()
        model = reader.load(WORKLOADS, self.training.model)
        chip = refitted(
            reader.load(ACCELERATORS, self.cluster.accelerator),
            reader.named(MEMORIES, self.memory),
            reader.named(LINKS, self.link),
            self.compute_utilisation,
        )
        check_family(self, model)
        network = self._network(reader, chip)
        amounts = self._amounts(reader, chip, network)
        system = self._system(model, chip, network)
        run = run_model(model, system, self.direction, self._options)
        rates = ChipRates.of(chip, system.network.innermost_bytes_per_s)
        notes = (*self._notes(model, system, run), *_amount_notes(amounts, run.totals, system))
        result = MapResult.of(run, notes, rates)
        inputs = self.inputs(
            gpus=self.chips,
            fabric=self.fabric,
            batch=self.batch,
            tensor=system.tensor,
            pipeline=system.pipeline,
            data=system.data,
            execution=self._options.execution or chip.execution,
            family=model.family,
            sequence_tile=result.sequence_tile,
            set=reader.replaced(),
        )
        alone = "accelerator" in self.given and self.fabric is None
        return MapAnswer(inputs, result, rates, amounts, alone)

    @property
    def _options(self) -> MappingOptions:
        """How kernels are put on a chip; a cut keeps some together."""
        measured = self.kernels == "measured"
        return MappingOptions(
            "fused" if self.cut else "kernel-by-kernel" if measured else self.execution,
            self.sequence_tile,
            self.micro_batch,
            self.cut or "",
            self.training.mode,
            convex=self.dimensions is None,
            kernels=self.kernels,
            block=read_block(self.block),
        )

    def _system(
        self, model: Model | OtherModel, chip: Accelerator, network: ChipNetwork
    ) -> ChipSystem:
        """The chips and their degrees: as asked for, or the fastest on free dimensions."""
        usual = 8 if isinstance(model, Model) else 1
        tensor = self.tensor or (model.chips if isinstance(model, GraphModel) else usual)
        if self.chips is None and not isinstance(model, Model | GraphModel):
            raise InputError(
                f"--model {self.training.model} lies on all chips: say how many with --gpus"
            )
        if isinstance(model, LinpackModel) and self.tensor and network.levels:
            raise InputError(
                f"--tensor {self.tensor:,} gives the rows of a grid on rings of the chips' own"
                " links, and here the dimensions of the network are its sides: leave it out"
            )
        microbatches = self.batch / self.micro_batch if self.batch else None
        system = ChipSystem(
            *(chip, network, self.chips or tensor, tensor, self.pipeline, self.data, microbatches)
        )
        if self.dimensions is not None and isinstance(model, Model):
            return self._laid_out(system, model)
        used = tensor * self.pipeline * self.data
        if self.chips is not None and used > self.chips:
            if self.tensor is None and self.pipeline * self.data <= self.chips:
                raise InputError(
                    f"{model.name} has {tensor} chips a tensor group where --tensor says no other:"
                    f" with pipeline {self.pipeline} x data {self.data} {used:,} chips, --gpus has"
                    f" {self.chips:,}: give --tensor, or more --gpus"
                )
            raise InputError(
                f"tensor {tensor} x pipeline {self.pipeline} x data {self.data} are {used:,}"
                f" chips, --gpus has {self.chips:,}"
            )
        return system

    def _laid_out(self, system: ChipSystem, model: Model) -> ChipSystem:
        """The system with the fastest layout of a transformer on its dimensions."""
        kinds = tuple(Dimension.of(level).kind for level in system.network.levels)
        rate = system.network.link_bytes_per_s
        ways = parallel_layouts(kinds, system.chips, rate, layers=model.layers)
        most = inf if system.microbatches is None else system.microbatches
        systems = (
            system.laid_out(layout)
            for layout in ways
            if layout.data <= most and self.tensor in (None, layout.tensor)
        )
        fastest = fastest_system(model, systems, self.direction, self._options)
        if fastest is None:
            group = f" with --tensor {self.tensor:,}" if self.tensor else ""
            raise InputError(
                f"{model.name} lies on no dimensions {self.dimensions} of {system.chips:,} chips"
                f"{group}: its layers, heads and batch divide by none"
            )
        return fastest

    def _network(self, reader: CatalogReader, chip: Accelerator) -> ChipNetwork:
        """Links between the chips: those of the fabric, if there is one."""
        if self.fabric is None:
            self.reject_inputs({"as_found"}, "chips on links of their own, without a fabric")
        if self.dimensions is not None:
            return self._free_network(chip)
        if self.fabric is None:
            return ChipNetwork(_ring_bytes_per_s(chip), mode=self.training.mode)
        if self.chips is None:
            raise InputError("--fabric joins so many chips: say how many with --gpus")
        sizing = sizing_on(chip, gpus=self.chips, radix=self.cluster.switch_radix)
        sizing = replace(sizing, as_found=self.cluster.as_found)
        fabric = build_fabric(reader.load(FABRICS, self.fabric), sizing)
        if not fabric.levels:
            raise InputError(f"--fabric {fabric.name}: {self.chips:,} chips fill no levels of it")
        return ChipNetwork(_ring_bytes_per_s(chip), fabric.levels, fabric.name, self.training.mode)

    def _amounts(
        self, reader: CatalogReader, chip: Accelerator, network: ChipNetwork
    ) -> SystemAmounts | None:
        """Price and power of all of it as DFModel counts them, if its parts are named."""
        memory, link = reader.named(MEMORIES, self.memory), reader.named(LINKS, self.link)
        if self.dimensions is None or memory is None or link is None:
            return None
        levels = [Dimension.of(level) for level in network.levels]
        return system_amounts(chip, memory, link, levels, reader.load(SYSTEM_PARTS, PARTS))

    def _free_network(self, chip: Accelerator) -> ChipNetwork:
        """Dimensions of sizes nearest to equal."""
        searched = self.pipeline == self.data == 1
        if self.fabric is not None or not searched or self.chips is None:
            raise InputError(
                "--dimensions are the network of all --gpus chips, with stages and replicas that"
                " are searched: give --gpus, and neither --fabric nor --pipeline or --data"
            )
        rate = chip.network_bytes_per_s
        levels = equal_levels(read_dimensions(self.dimensions or ""), self.chips, rate)
        free = self.training.mode == "corrected"
        return ChipNetwork(rate, levels, self.dimensions or "", self.training.mode, free=free)

    def _notes(
        self, model: Model | OtherModel, system: ChipSystem, run: SystemRun
    ) -> tuple[str, ...]:
        """What a chip holds, what is left out, how sure the cut is, what the chip's file lacks."""
        if run.fusion is None:
            return (*_grid_notes(run.steps, system.network), *self._ring_notes(system))
        if isinstance(model, Model | GraphModel):
            notes = [_room_note(run.totals.memory_bytes, model.layers, system)]
            idle = (self.chips or 0) - system.tensor * system.pipeline * system.data
            if idle > 0:
                verb = "stands" if idle == 1 else "stand"
                stand = f"{counted(idle, 'chip')} of {self.chips:,} {verb}"
                notes.append(f"{stand} idle: utilisation is that of the others.")
            notes += [NO_OPTIMIZER] if isinstance(model, Model) else []
        else:
            exchanged = si(float(run.fusion.problem.network_s.sum()), "s")
            notes = [f"Exchanges are {exchanged} of the interval, if nothing hides them."]
        if not self.cut and not run.fusion.exact:
            which = "With --dimensions only cuts" if self.dimensions else "Cuts"
            notes.append(f"{which} of a few orders were tried: the interval is an upper bound.")
        if self.kernels == "measured":
            kernels = MeasuredKernels.of(system.chip)
            error = f"{100 * kernels.product_error:.0f} %"
            whose = "measured" if kernels.fitted else "by medians of seven GPUs, not measured"
            notes.append(
                f"Products {whose} on {kernels.name}: +-{error}; attention is two of them and a"
                " softmax."
            )
        elif run.fusion.problem.choices is None:
            notes.append("The chip's file has no compute tiles: kernels take a share of its peak.")
        return (*notes, *self._ring_notes(system))

    def _ring_notes(self, system: ChipSystem) -> tuple[str, ...]:
        """That a ring of the links of an HB domain is longer than such domains are sold."""
        chip, own_links = system.chip, self.fabric is None and self.dimensions is None
        ring = self.chips if system.tensor == 1 else system.tensor
        if not own_links or chip.hb_size == 1 or (ring or 1) <= chip.hb_size:
            return ()
        longer = f"HB domains of {chip.name} have {chip.hb_size:,} chips: a ring of {ring:,} leads"
        return (f"{longer} out of them, at their links' rate; --fabric gives the network's.",)


map = function_of(Map)  # noqa: A001 - the command's name


FOR_FAMILIES: dict[str, tuple[str, ...]] = {
    "tensor": ("transformer", "graph", "linpack"),
    "pipeline": ("transformer", "graph"),
    "data": ("transformer", "graph"),
    "batch": ("transformer", "graph"),
    "direction": ("transformer",),
    "kernels": ("transformer", "graph", "recommendation"),
    "execution": ("transformer", "graph", "recommendation", "fft"),
    "sequence_tile": ("transformer", "graph", "recommendation", "fft"),
    "micro_batch": ("transformer", "graph", "recommendation", "fft"),
    "cut": ("transformer", "graph", "recommendation", "fft"),
    "block": ("linpack",),
}
"""Inputs that mean something for some families only."""


def check_family(asked: Map, model: Model | OtherModel) -> None:
    """Refuse inputs that mean nothing for a model's family."""
    usual = {field.name: field.default for field in dataclasses.fields(asked)}
    usual |= {"tensor": None, "pipeline": 1, "data": 1, "batch": None}
    for name, families in FOR_FAMILIES.items():
        given = getattr(asked, name)
        if model.family not in families and given != usual[name]:
            flag = "--" + name.replace("_", "-")
            raise InputError(
                f"{flag} {given} is for models of family {' or '.join(families)}, and {model.name}"
                f" is of family {model.family}: leave it out"
            )


def read_block(text: str | None) -> int | Literal["fastest"] | None:
    """Columns of a step of LINPACK from words; None where nothing is said.

    Raises
    ------
    InputError
        If it is neither ``fastest`` nor a number of columns.

    Examples
    --------
    >>> read_block("32768"), read_block("fastest")
    (32768, 'fastest')
    """
    if text is None:
        return None
    if text == FASTEST:
        return "fastest"
    if not text.isascii() or not text.isdigit() or not 0 < int(text[:10]) < MOST_COLUMNS:
        raise InputError(
            f"--block {text!r:.40} is no number of columns: give 1 to {MOST_COLUMNS - 1:,}, or"
            " fastest"
        )
    return int(text)


MOST_COLUMNS = 1_000_000_000
"""Columns that no block has [1]."""


PARTS = "dfmodel-2024"
"""What is assumed of parts that DFModel does not price."""


def _amount_notes(
    amounts: SystemAmounts | None, totals: RunTotals, system: ChipSystem
) -> Iterator[str]:
    """What the system costs and draws, and what it makes of that."""
    if amounts is None:
        return
    price, power = amounts.price_usd, amounts.power_w
    flops = totals.utilisation * system.chips * system.chip.tensor_flops_per_s
    yield (
        f"Chips, memories, links and switches as DFModel counts them, with what it does not print"
        f" assumed: {si(price.base, 'USD')} ({si(price.low, 'USD')} to {si(price.high, 'USD')}),"
        f" {si(power.base, 'W')} ({si(power.low, 'W')} to {si(power.high, 'W')});"
        f" {si(flops / price.base, 'FLOP/s')} a dollar, {si(flops / power.base, 'FLOP/s')} a watt."
    )


def _grid_notes(steps: LinpackSteps | None, network: ChipNetwork) -> Iterator[str]:
    """The grid of a solution, and its steps."""
    if steps is not None:
        free = network.mode == "corrected" and network.levels
        which = "the fastest of its dimensions" if free else "--tensor gives its rows"
        grid = f"A grid of {steps.grid.rows} x {steps.grid.columns} chips ({which})"
        yield f"{grid}, {len(steps.side):,} steps of {steps.block:,} columns."


NO_OPTIMIZER = "No optimizer step; gradients of replicas are summed behind the backward pass."


def _ring_bytes_per_s(chip: Accelerator) -> float:
    """Rate of the links that make a ring of chips: of its HB domain, if it has one [B/s]."""
    return chip.hb_bytes_per_s if chip.hb_size > 1 else chip.network_bytes_per_s


def _room_note(needed: float, layers: int, system: ChipSystem) -> str:
    """What the layers of a chip hold, or how many stages would have room for it."""
    room = system.room_bytes
    if needed <= room:
        there = "; its room is left open" if isinf(room) else f" of its {si(room, 'B')}"
        return f"A chip holds {si(needed, 'B')}{there}."
    fitting = int(room * layers / needed)  # whole layers of a stage
    more = f"no pipeline has room, one layer needs {si(needed / layers, 'B')}"
    if fitting:
        more = f"at least {-(-layers // fitting):,} pipeline stages"
    return (
        f"All layers need {si(needed, 'B')} a chip, {system.chip.name} has {si(room, 'B')}: {more}."
    )
