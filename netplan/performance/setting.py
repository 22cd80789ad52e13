"""What is trained, and what a search of its plans leaves open.

A *training* is model, batch, GPU, iteration model and, where that is asked for, what training
software holds in memory; *options* are degrees, schedule, recomputation, ZeRO and offload that are
given instead of searched. Both make a *setting*: all that the time of a plan depends on, but for
the plan and the fabric.
"""

from collections.abc import Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Literal, Optional, get_args

import numpy as np
from msgspec import Struct, field

from netplan.arrays import Floats, Ints
from netplan.errors import InputError
from netplan.inputs.choices import LARGEST_BATCH, AnyStrategy, Mode, ScheduleName, Strategy
from netplan.levels import Level
from netplan.performance.calibrated import Reached, Sharing
from netplan.performance.calibrated_run import CalibratedRun, CalibrationPart
from netplan.performance.dated.run import DatedRun
from netplan.performance.iteration_model import IterationModel
from netplan.performance.memory_verdict import peaks_of
from netplan.performance.rungs import Rung, rungs_of
from netplan.performance.stack_memory import StackMemory
from netplan.performance.stacks import STACKS, default_stack
from netplan.performance.tiers import Expanded, Spill
from netplan.records import asdict, replace
from netplan.traffic.hierarchy import CollectiveNetwork
from netplan.traffic.measured_links import MeasuredLinks
from netplan.traffic.placement import Degrees, divisors
from netplan.workloads.accelerators import Accelerator
from netplan.workloads.closed_forms import IterationFlops, iteration_flops
from netplan.workloads.expert_load import ExpertLoad, check_divides
from netplan.workloads.models import Experts, Model
from netplan.workloads.operations import PLAIN, Sharding, Variant
from netplan.workloads.program import (
    SHARDED_GRADIENTS,
    Counting,
    Program,
    TrainingMethod,
    Zero,
    dealt,
    folded,
    training_program,
)
from netplan.workloads.recomputation import NOTHING, Recomputation
from netplan.workloads.transformer import experts_of

if TYPE_CHECKING:
    from netplan.performance.mapping.layers import LayerExecution
    from netplan.workloads.families import OtherModel, SpreadModel
    from netplan.workloads.graph_model import GraphModel
    from netplan.workloads.graph_program import Layered
    from netplan.workloads.measured_kernels import MeasuredKernels


BUBBLE_SHARE: dict[str, float] = {"zb-1p": 1 / 3, "zb-2p": 0.0}
"""What of the 1F1B bubble zero-bubble schedules have (arXiv:2401.10241, Table 2) [1]."""


class Fixed(Struct, frozen=True):
    """What a search leaves no choice of; None searches it [1].

    ``expert_tensor`` GPUs share an expert: as yet as many as share the other matrices of a layer.

    Examples
    --------
    >>> Fixed(pipeline=64).given
    {'pipeline': 64}
    """

    tensor: int | None = None
    context: int | None = None
    expert: int | None = None
    data: int | None = None
    pipeline: int | None = None
    microbatch: int | None = None
    interleave: int | None = None
    expert_tensor: int | None = None

    @property
    def given(self) -> dict[str, int]:
        """The values that are fixed, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}


class Options(Struct, frozen=True):
    """Choices beside the iteration model.

    Parameters
    ----------
    variant
        Recomputation, experts, embedding and head.
    zero_stage
        What is sharded over the data parallel group: nothing (0), the optimizer (1), gradients
        too (2), weights too (3); the iteration model's own if absent.
    interleave
        Which interleaved schedules are searched; the iteration model's own if absent.
    expert_degree
        GPUs over which the experts are spread; searched if absent [1].
    fixed
        Degrees, microbatch and interleaving that are given.
    execution
        How the kernels of a layer lie on the chip; absent: its operations run one by one, as the
        iteration model times them.
    schedule
        Order of the passes of a pipeline; absent: 1f1b, interleaved where stages are.
    collective_algorithm
        Algorithm of the collectives on levels where it runs (`netplan.traffic.algorithms`); absent:
        as the iteration model times them.
    recomputation
        What is computed again where stacks say what memory holds (`netplan.performance.rungs`);
        searched if absent.
    offload_layers
        Layers whose activations lie in the host's memory; searched if absent [1].
    use_per_domain
        GPUs of each HB domain that plans use at most; all if absent [1].
    across_domains
        Whether tensor groups over several HB domains are searched beside memory as stacks keep it.
    kept_by_search
        Whether a search chose what is computed again.

    Raises
    ------
    InputError
        If a choice is unknown, or the expert degree does not divide the experts, or is given twice.

    Examples
    --------
    >>> Options(zero_stage=3).zero_stage
    3
    """

    variant: Variant = field(default=PLAIN)
    zero_stage: Zero | None = None
    interleave: Literal["none", "whole", "any"] | None = None
    expert_degree: int | None = None
    fixed: Fixed = field(default_factory=Fixed)
    execution: Optional["LayerExecution"] = None
    schedule: ScheduleName | None = None
    collective_algorithm: str | None = None
    recomputation: Recomputation | None = None
    offload_layers: int | None = None
    use_per_domain: int | None = None
    across_domains: bool = False
    kept_by_search: bool = False

    def __post_init__(self) -> None:
        """Refuse what does not exist."""
        self._check_schedule()
        if self.zero_stage not in (None, 0, 1, 2, 3):
            raise InputError(f"ZeRO has the stages 0 to 3, got {self.zero_stage}")
        if self.interleave not in (None, "none", "whole", "any"):
            raise InputError(f"unknown interleaving {self.interleave!r}: use none, whole or any")
        degree = self.expert_degree
        if self.variant.sparse:
            self.check_experts(self.variant.experts)
        if degree is not None and self.fixed.expert not in (None, degree):
            raise InputError(
                f"the expert degree is {degree}, and fixed as {self.fixed.expert}: give one of them"
            )

    def _check_schedule(self) -> None:
        """Refuse schedules that contradict what else is asked for."""
        if self.schedule not in (None, *get_args(ScheduleName)):
            known = ", ".join(get_args(ScheduleName))
            raise InputError(f"unknown schedule {self.schedule!r}: use one of {known}")
        chunks, asked = self.fixed.interleave, self.schedule
        if asked == "interleaved" and (self.interleave == "none" or chunks == 1):
            raise InputError(
                "schedule interleaved runs several stages a GPU, and they are ruled out: leave"
                " --interleave none or --fix interleave=1 out"
            )
        if asked not in (None, "interleaved") and (
            self.interleave in ("whole", "any") or (chunks or 1) > 1
        ):
            raise InputError(
                f"schedule {asked} runs one stage a GPU, and several are asked for: leave the"
                " schedule or the interleaved stages out"
            )

    def check_experts(self, experts: int, load: ExpertLoad | None = None) -> None:
        """Refuse an expert degree that does not divide so many experts, with copies if any."""
        degree = self.expert_degree or self.fixed.expert
        if load is not None and degree is not None and degree >= 1:
            check_divides(experts, degree, load.redundant)
            return
        if load is not None and load.redundant and degree is None:
            check_divides(experts, LEAST_GROUPS, load.redundant)
        if degree is not None and (degree < 1 or experts % degree):
            flag = "--expert-degree " if self.expert_degree else "--fix expert="
            raise InputError(
                f"{flag}{degree}: {experts} experts cannot be spread evenly over {degree} GPUs: use"
                " a divisor"
            )


LEAST_GROUPS = 2
"""Groups that further copies of experts must divide over at least, or no plan spreads them [1]."""
DEFAULT_OPTIONS = Options()


def fixed_values(values: Mapping[str, int]) -> Fixed:
    """Values that are given instead of searched.

    Raises
    ------
    InputError
        If a name is unknown or a value below 1.
    """
    known = Fixed.__struct_fields__
    for name, value in values.items():
        check_name("fixed value", name, known)
        if value < 1:
            raise InputError(f"fixed {name} is at least 1, got {value}")
    return Fixed(**values)


def check_name(role: str, name: str, known: tuple[str, ...]) -> None:
    """Refuse a name that is none of the known ones, and offer the nearest."""
    if name in known:
        return
    import difflib  # noqa: PLC0415 - seldom used

    near = difflib.get_close_matches(str(name), known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"use one of {', '.join(known)}"
    raise InputError(f"unknown {role} {name!r}: {hint}")


COUNTED: dict[Counting, tuple[str, ...]] = {
    "detailed": ("transformer", "graph", "recommendation", "linpack", "fft"),
    "counted": ("transformer",),
    "tiled": ("transformer", "recommendation"),
}
"""Families of models whose operations can be counted so."""
MOST_SEQUENCES = 32
"""Sequences of the largest microbatch that is searched where stacks say what memory holds [1]."""


class TrainedModel(Struct, frozen=True):
    """What is trained, with what batch, under which assumptions.

    Parameters
    ----------
    model
        A transformer, a graph of kernels, or a model that lies on all GPUs alike.
    batch
        Global batch, B [sequences, or what else the model takes].
    flops_per_s
        Peak of the matrix units of one GPU, F [FLOP/s].
    memory_bytes
        Memory of one GPU; may be infinite [B].
    assumptions
        Parameters of the iteration model.
    vector_flops_per_s
        Peak of the other units; needed by iteration models with detailed operations [FLOP/s].
    memory_bytes_per_s
        Bandwidth of the memory; needed likewise, and beside an expanded memory [B/s].
    expanded
        Expanded memory of one GPU, behind its own.
    ignore_memory
        Whether plans count that fit into no memory.
    execution
        How the kernels of a graph lie on the chip, if nothing else is asked for.
    sram_bytes
        Memory on the chip; needed by iteration models with tiled operations [B].
    calibrated
        What accelerator and training stack reach; needed by iteration model ``calibrated``.
    measured
        Measured kernels of the accelerator; needed by iteration models that take them.
    links
        What collectives take on its links; needed by iteration models of measured collectives.
    imbalance
        Tokens of the busiest GPU's experts over the mean, where that counts in time [1].
    overlap_share
        Of tokens that HB domains of rails forward, the share that hides; absent: as the dispatcher
        does, all of merged copies, else none (arXiv:2307.12169, Eq. 21) [1].
    stack_memory
        What training software holds, in place of the iteration model's memory.
    usable_bytes, host_bytes_per_s
        Beside it: memory that a program sees [B], and the link to the host's memory [B/s].

    Raises
    ------
    InputError
        If the batch is not positive or too large, or a rate that the iteration model needs is
        missing.
    """

    model: "Model | OtherModel"
    batch: int
    flops_per_s: float
    memory_bytes: float
    assumptions: IterationModel
    vector_flops_per_s: float | None = None
    memory_bytes_per_s: float | None = None
    execution: Optional["LayerExecution"] = None
    sram_bytes: float = 0.0
    expanded: Expanded | None = None
    ignore_memory: bool = False
    calibrated: CalibratedRun | None = None
    measured: "MeasuredKernels | None" = None
    links: MeasuredLinks | None = None
    imbalance: float = 1.0
    overlap_share: float | None = None
    stack_memory: StackMemory | None = None
    usable_bytes: float = 0.0
    host_bytes_per_s: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what cannot be timed."""
        kernels = self.assumptions.compute.kernels
        given = {"calibrated": self.calibrated, "measured": self.measured}
        if any((rates is not None) != (name == kernels) for name, rates in given.items()):
            raise InputError(
                f"iteration model {self.assumptions.name} takes {kernels} kernels: use "
                "TrainedModel.make"
            )
        if self.batch < 1:
            raise InputError(f"the global batch is at least 1 sequence, got {self.batch:,}")
        if self.batch > LARGEST_BATCH:
            raise InputError(
                f"the global batch is at most {LARGEST_BATCH:,} sequences, got {self.batch:,}"
            )
        counting = self.assumptions.compute.operations
        family = "transformer" if isinstance(self.model, Model) else self.model.family
        if family not in COUNTED[counting]:
            raise InputError(
                f"iteration model {self.assumptions.name} counts the products of transformers"
                f"{' and recommendation models' * (counting == 'tiled')}, and {self.model.name} is"
                " none: take --iteration-model 4d"
            )
        if counting == "tiled" and not self.sram_bytes:
            raise InputError(
                f"iteration model {self.assumptions.name} needs the accelerator's memory on the"
                " chip, got none: give sram_bytes, such as --set accelerator.sram_bytes=40e6"
            )
        if counting != "counted" and not (self.vector_flops_per_s and self.memory_bytes_per_s):
            raise InputError(
                f"iteration model {self.assumptions.name} needs the accelerator's vector rate and"
                " memory bandwidth, got none: give both, or use ptd-p"
            )
        if self.assumptions.communication.collectives == "measured" and self.links is None:
            raise InputError(
                f"iteration model {self.assumptions.name} needs measured links, got none: give"
                " links, such as Links.of(accelerator)"
            )
        if self.expanded is not None and not self.memory_bytes_per_s:
            raise InputError(
                "beside an expanded memory the bandwidth of the GPU's own counts, got none: give it"
            )

    @property
    def dated(self) -> DatedRun | None:
        """What kernels reach under software of a date; None without."""
        return self.calibrated.dated if self.calibrated else None

    @property
    def tiers_bytes(self) -> float:
        """Memory of one GPU, its own and the expanded one [B]."""
        return self.memory_bytes + (self.expanded.capacity_bytes if self.expanded else 0.0)

    @property
    def room_bytes(self) -> float:
        """Memory that a plan may fill; any amount if it is ignored [B]."""
        return inf if self.ignore_memory else self.tiers_bytes

    @property
    def peaks_bytes(self) -> tuple[float, ...]:
        """Memory up to which plans fit for sure, up to which they may, and then any [B].

        The last where software or layers were never compared with a run, and nothing is refused.
        """
        if self.ignore_memory or self.stack_memory is None:
            return (self.room_bytes,)
        peaks = peaks_of(self.usable_bytes)
        return peaks if self.stack_memory.checked_kind else (*peaks, inf)

    @classmethod
    def make(  # noqa: PLR0913 - one keyword each for what a question has resolved
        cls,
        accelerator: Accelerator,
        model: "Model | OtherModel",
        assumptions: IterationModel,
        *,
        batch: int | None = None,
        gpus: int = 1,
        calibrated: CalibratedRun | None = None,
        links: MeasuredLinks | None = None,
    ) -> "TrainedModel":
        """Training on an accelerator; the batch is the model's own, on so many GPUs, if absent.

        Iteration model ``calibrated`` takes the default stack in bf16 unless told otherwise, one
        of measured collectives the accelerator's links of the shipped catalog.
        """
        measured = assumptions.communication.collectives == "measured"
        layers = kernels = None
        if model.family == "graph":
            from netplan.performance.mapping.layers import LayerExecution  # noqa: PLC0415 - seldom used

            layers = LayerExecution(accelerator, accelerator.execution)
        if assumptions.compute.kernels == "measured":
            from netplan.workloads.measured_kernels import MeasuredKernels  # noqa: PLC0415 - seldom used

            if isinstance(model, Model) and model.mamba is not None:
                raise InputError(
                    f"iteration model {assumptions.name} has no measured scan of Mamba, which"
                    f" {model.name} has: take --iteration-model calibrated, or 4d where that has no"
                    " numbers by date"
                )
            kernels = MeasuredKernels.of(accelerator)
        if assumptions.calibration is not None and calibrated is None:
            stack = STACKS.load(default_stack(accelerator))
            calibrated = CalibratedRun.of(accelerator, stack, assumptions.calibration)
        return cls(
            model=model,
            batch=model.batch_on(gpus) if batch is None else batch,
            flops_per_s=calibrated.peak_flops_per_s
            if calibrated
            else accelerator.tensor_flops_per_s,
            memory_bytes=accelerator.memory_bytes,
            assumptions=assumptions,
            vector_flops_per_s=accelerator.vector_flops_per_s,
            memory_bytes_per_s=accelerator.memory_bytes_per_s,
            execution=layers,
            sram_bytes=accelerator.sram_bytes,
            expanded=Expanded.of(accelerator),
            calibrated=calibrated,
            measured=kernels,
            links=MeasuredLinks.of(accelerator) if measured and links is None else links,
        )


class Setting(Struct, frozen=True):
    """Everything that the time of a plan depends on, but for plan and fabric.

    ``spill`` is that of the plans that are timed, where some of what they hold lies in an expanded
    memory (`netplan.performance.memory`). What does not train has the forward passes of an
    iteration alone (`netplan.performance.posttraining.forward_pass`).
    """

    training: TrainedModel
    strategy: Strategy = "1d"
    mode: Mode = "corrected"
    options: Options = DEFAULT_OPTIONS
    spill: Spill | None = None
    trains: bool = True

    @property
    def transformer(self) -> Model:
        """The model, where plans of transformers are meant.

        Raises
        ------
        InputError
            If it is another one.
        """
        if not isinstance(self.training.model, Model):
            raise InputError(f"{self.training.model.name} is no transformer")
        return self.training.model

    @property
    def graph_model(self) -> "GraphModel | None":
        """The model, where it is a graph of kernels."""
        model = self.training.model
        return None if isinstance(model, Model) or model.family != "graph" else model

    @property
    def layered(self) -> "Layered":
        """The model, where plans of layers that follow each other are meant.

        Raises
        ------
        InputError
            If it has none.
        """
        return self.graph_model or self.transformer

    @property
    def layers(self) -> int:
        """Layers that lie on the stages of a pipeline [1]."""
        return self.transformer.depth if self.graph_model is None else self.graph_model.layers

    def stage_layers(self, stages: Floats, fullest: Floats) -> Floats:
        """Layers of a stage of which a block of them is a share: the fullest, or the mean [1].

        Parameters
        ----------
        stages, fullest
            Pipeline stages, and layers of the fullest of them [1].
        """
        return fullest if self.training.dated is None else self.transformer.layers / stages

    @property
    def experts(self) -> Experts | None:
        """Experts of a transformer, its file's or those that are asked for."""
        if not isinstance(self.training.model, Model):
            return None
        return experts_of(self.training.model, self.variant)

    @property
    def kv_heads(self) -> tuple[int, ...]:
        """Numbers of heads that others share and that are whole, where they are not all [1].

        Those of keys and values, and groups of Mamba.
        """
        if self.graph_model is not None:
            return ()
        model, window = self.transformer, self.transformer.window_attention
        linear = model.linear_attention
        head_counts = (model.kv_heads, window and window.kv_heads, linear and linear.key_heads)
        groups = model.mamba and model.mamba.groups
        return tuple(number for number in (*head_counts, groups) if number)

    @property
    def spread_model(self) -> "SpreadModel | None":
        """The model, where it lies on all GPUs alike; None where it has layers."""
        model = self.training.model
        return None if isinstance(model, Model) or model.family == "graph" else model

    @property
    def flops(self) -> IterationFlops:
        """FLOPs of one iteration, the numerators of MFU and HFU."""
        training = self.training
        if isinstance(training.model, Model):
            return iteration_flops(training.model, training.batch, self.variant)
        work = training.model.flops(training.batch)
        return IterationFlops(work, work)

    @property
    def assumptions(self) -> IterationModel:
        """The iteration model."""
        return self.training.assumptions

    @property
    def variant(self) -> Variant:
        """Recomputation, experts, embedding and head; a graph has what its file lists.

        Iteration model ``calibrated`` always counts both ends, and its stack fuses attention or
        not.
        """
        if self.graph_model is not None:
            return Variant(recompute="none")
        run, given = self.training.calibrated, self.options.variant
        if run is not None:
            return replace(given, embedding=True, lm_head=True, fused=run.stack.fused)
        if not self.by_stack:
            return given
        # Software that says what memory holds fuses attention; it has both ends if there are words.
        words = bool(self.transformer.vocabulary)
        return replace(given, recompute="selective", embedding=words, lm_head=words)

    @property
    def reached(self) -> Reached:
        """What kernels reach under iteration model ``calibrated``."""
        reached = self._calibrated.reached
        if not isinstance(reached, Reached):
            raise TypeError("software of a date times blocks, not layers")
        return reached

    @property
    def folds_experts(self) -> bool:
        """Whether experts lie on tensor, context and data GPUs alike, as under software of a date.

        Elsewhere they have GPUs of their own dimension, and are cut as the rest of a layer.
        """
        return self.training.dated is not None and self.experts is not None

    @property
    def gathers_experts(self) -> bool:
        """Whether every GPU gathers all experts, so that none are spread over GPUs."""
        dated = self.training.dated
        return dated is not None and not dated.recipe.exchanges

    @property
    def sharing(self) -> Sharing:
        """How that model hides communication."""
        return self._calibrated.sharing(self.zero_stage)

    @property
    def _calibrated(self) -> CalibratedRun:
        run = self.training.calibrated
        if run is None:
            raise InputError(f"iteration model {self.assumptions.name} is not calibrated")
        return run

    def network(self, levels: Sequence[Level]) -> CollectiveNetwork:
        """Levels of a fabric as collectives of the iteration model use them."""
        run = self.training.calibrated
        used = tuple(levels) if run is None else run.levels(levels)
        communication = replace(
            self.assumptions.communication.used,
            links=self.training.links,
            algorithm=self.options.collective_algorithm,
            overlap_share=self.training.overlap_share or 0.0,
        )
        return CollectiveNetwork(used, communication, self.mode)

    @property
    def calibration(self) -> CalibrationPart:
        """Parameters of that model that belong to no accelerator and no stack."""
        return self._calibrated.part

    @property
    def tensor_innermost(self) -> bool:
        """Whether tensor groups take the innermost level first, as training software places ranks.

        No calibrated run had them anywhere else.
        """
        return self.training.calibrated is not None or self.by_stack

    @property
    def every_stage_counts(self) -> bool:
        """Whether stages more may be better though the fullest holds no less."""
        return self.interleave == "whole" or self.training.calibrated is not None or self.by_stack

    @property
    def by_stack(self) -> bool:
        """Whether training software says what memory holds, and the search varies that."""
        return self.training.stack_memory is not None

    @property
    def stack_memory(self) -> StackMemory:
        """What training software holds, where it says what memory holds.

        Raises
        ------
        TypeError
            If it does not.
        """
        if self.training.stack_memory is None:
            raise TypeError("no stack says what memory holds")
        return self.training.stack_memory

    @property
    def rungs(self) -> "tuple[Rung, ...]":
        """What the search varies of what plans keep; none where the iteration model says it."""
        memory, options = self.training.stack_memory, self.options
        if memory is None:
            return ()
        given, offloads = options.recomputation, bool(options.offload_layers)
        if given is not None or offloads or self.training.ignore_memory:
            return (Rung(given or NOTHING, self.zero_stage, offloads),)
        return rungs_of(
            memory,
            zero=self.zero_stage,
            sparse=self.experts is not None,
            shards_gradients=options.zero_stage is None
            and self.training.calibrated is not None
            and self.zero_stage < SHARDED_GRADIENTS,
            host_bytes_per_s=self.training.host_bytes_per_s,
        )

    @property
    def once(self) -> "Setting":
        """The same with all of a layer computed once, beside which stands what is run again."""
        if not self.options.variant.again:
            return self
        variant = replace(self.options.variant, again=())
        return replace(self, options=replace(self.options, variant=variant))

    @property
    def bubble_share(self) -> float:
        """What of the bubble of 1F1B the schedule has (arXiv:2401.10241, Table 2) [1].

        Forward passes alone have all of theirs: no gradients of weights are there to fill it.
        """
        if not self.trains:
            return 1.0
        return BUBBLE_SHARE.get(self.options.schedule or "1f1b", 1.0)

    @property
    def execution(self) -> Optional["LayerExecution"]:
        """How kernels lie on the chip, if they do."""
        return self.options.execution or self.training.execution

    @property
    def whole_bubble(self) -> bool:
        """Whether pipelines wait for whole layers, as they do for kernels that are mapped.

        Partitions compute, move and send at the same time, so that none of it is the bubble alone.
        """
        return self.execution is not None or self.assumptions.overlap.bubble == "layer"

    @property
    def scheduled_bubble(self) -> bool:
        """Whether fewer microbatches than interleaved stages lengthen the bubble."""
        return self.assumptions.overlap.interleaved_bubble == "scheduled"

    @property
    def given(self) -> dict[str, int]:
        """Values that are fixed, by name: as asked for, and the chips for which a graph is cut."""
        graph = self.graph_model
        cut = {"tensor": graph.chips} if graph is not None and graph.chips > 1 else {}
        given = self.options.fixed.given
        given.pop("expert_tensor", None)  # it says what tensor is, or how experts are folded
        if self.folds_experts:
            given.pop("expert", None)  # a way to fold experts, no degree of its own
        return cut | given

    @property
    def zero_stage(self) -> Zero:
        """What is sharded over the data parallel group, if nothing is asked for as the stack does.

        COMET copies layers beside tables whole.
        """
        if self.options.zero_stage is not None:
            return self.options.zero_stage
        run = self.training.calibrated
        if run is not None and run.stack.zero_stage is not None:
            return run.stack.zero_stage
        return 0 if self.branched else self.assumptions.overlap.zero_stage

    @property
    def branched(self) -> bool:
        """Whether a recommendation model's tables and layers work beside each other."""
        tiled = self.assumptions.compute.operations == "tiled"
        return tiled and self.spread_model is not None

    def program(self, sharding: Sharding) -> Program:
        """What one iteration runs, for many shardings at once."""
        # Calibrated runs sum sharded gradients once.
        once = self.training.calibrated is not None and self.zero_stage == SHARDED_GRADIENTS
        method = TrainingMethod(
            strategy=self.strategy,
            counting=self.assumptions.compute.operations,
            mode=self.mode,
            variant=self.variant,
            zero_stage=1 if once else self.zero_stage,
            sram_bytes=self.training.sram_bytes,
        )
        if self.spread_model is not None:
            from netplan.workloads.spread import spread_program  # noqa: PLC0415 - seldom used

            return spread_program(self.spread_model, sharding, method)
        if self.graph_model is not None:
            from netplan.workloads.graph_program import graph_program  # noqa: PLC0415 - seldom used

            return graph_program(self.graph_model, sharding, self.zero_stage)
        self._check_scattered(sharding)
        program = training_program(self.transformer, sharding, method)
        if not self.trains:
            program = program.forward_alone
        return (
            folded(program, exchanges=not self.gathers_experts) if self.folds_experts else program
        )

    def merged_copies(self, group: int, domain: int) -> int:
        """Copies of a row of which its dispatcher sends one to each place; 0 if it sends all [1].

        Parameters
        ----------
        group, domain
            GPUs that exchange tokens, and those of an HB domain [1].
        """
        dated, experts = self.training.dated, self.experts
        if dated is None or experts is None:
            return 0
        return experts.per_token if dated.recipe.merges(np.array(group), domain) else 0

    def _check_scattered(self, sharding: Sharding) -> None:
        """Refuse unlike layers without sequence parallelism, but under software of a date."""
        dated, unlike = self.training.dated, self.transformer.unlike or self.experts
        if self.variant.sequence_parallel or not unlike or dated or np.all(sharding.tensor == 1):
            return
        raise InputError(
            f"{self.transformer.unlike or 'experts'} over several tensor GPUs are modelled with"
            " sequence parallelism alone, but for iteration model calibrated under a"
            " --software-date: leave --no-sequence-parallel out, or give --fix tensor=1"
        )

    @property
    def free(self) -> bool:
        """Whether batch, layers and GPUs need not divide; in the published code they must."""
        if self.powers_of_two:
            return False
        return self.assumptions.space.divisibility == "free" and self.mode == "corrected"

    @property
    def powers_of_two(self) -> bool:
        """Whether the degrees of plans are powers of two (`netplan.performance.search`)."""
        return self.assumptions.space.plans == "powers-of-two"

    def microbatches(self, microbatch: float, degrees: Degrees) -> Ints:
        """Microbatches of each replica, shape (replicas,); GPUs that share experts run one each."""
        return dealt(int(-(-self.training.batch // (microbatch * degrees.expert))), degrees.data)

    @property
    def microbatch_sizes(self) -> Ints:
        """Sequences of a microbatch that are tried [1].

        Those that divide the batch; in the free space powers of two as well, which leave the last
        microbatch of an odd batch unfilled, or the one that is asked for.
        """
        batch, given = self.training.batch, self.options.fixed.microbatch
        sizes = divisors(batch)
        if self.by_stack and given is None:
            sizes = sizes[sizes <= MOST_SEQUENCES]
            batch = min(batch, MOST_SEQUENCES)
        if not self.free:
            return sizes
        if given is not None:
            return np.array([given])[: given <= batch]
        powers = (1 << bit for bit in range(batch.bit_length()))
        return np.array(sorted({*sizes.tolist(), *powers}))

    @property
    def interleave(self) -> Literal["none", "whole", "any"]:
        """Which interleaved schedules there are; several stages a GPU that are fixed imply them."""
        asked, schedule = self.options.interleave, self.options.schedule
        if schedule is not None and schedule != "interleaved":
            return "none"
        allowed = asked or ("whole" if self.by_stack else self.assumptions.space.interleave)
        implied = schedule == "interleaved" or (self.options.fixed.interleave or 1) > 1
        return "any" if implied and allowed == "none" and asked is None else allowed


def check_setting(strategy: str, mode: str) -> None:
    """Refuse unknown strategies and modes, and offer the nearest name."""
    check_name("strategy", strategy, get_args(AnyStrategy))
    check_name("mode", mode, get_args(Mode))
