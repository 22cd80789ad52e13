"""Training runs: their inputs, and the run of the best plan, placed on a fabric."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from msgspec import Struct

from netplan.errors import CatalogError, InputError
from netplan.performance.iteration_model import ITERATION_MODELS, IterationModel, Optimizer
from netplan.performance.options import Fixed, Options, fixed_values
from netplan.performance.search import PlanSearch
from netplan.performance.setting import LARGEST_BATCH, AnyStrategy, Setting, Training, check_setting
from netplan.performance.tiers import Part, Policy
from netplan.questions.question import (
    AnswerT_co,
    ClusterQuestion,
    optional,
    several,
    shared,
    spelled,
)
from netplan.questions.setup.inputs import CatalogReader, told
from netplan.questions.setup.stack_inputs import (
    CALIBRATED,
    SHOWN_IF_GIVEN,
    StackQuestion,
    stack_words,
)
from netplan.records import replace
from netplan.topologies.build import build_fabric
from netplan.topologies.fabric import Fabric
from netplan.topologies.specs import FabricSpec
from netplan.workloads.accelerators import ACCELERATORS, Accelerator
from netplan.workloads.measured_links import Links
from netplan.workloads.models import WORKLOADS, Model
from netplan.workloads.operations import PLAIN, Mode, Variant

if TYPE_CHECKING:
    from netplan.workloads.families import OtherModel

OF_TRANSFORMERS = (
    *("batch", "strategy", "mode", "recompute", "experts", "top_k", "expert_degree", "zero_stage"),
    *("embedding", "lm_head", "interleave", "execution"),
    *("optimizer", "offload", "memory_policy", "schedule", "sequence_parallel"),
    *CALIBRATED,
)
"""Inputs that say how a transformer is trained; other models take few of them."""
DIVISIBILITY = "iteration-model.space.divisibility"
"""Override that decides over the space of plans, whatever else is asked."""
OPTIMIZER_STATES = ".overlap.optimizer_bytes"
"""Override that says what the optimizer holds, of an iteration model."""


@dataclass(frozen=True, kw_only=True)
class TrainingQuestion(StackQuestion[AnswerT_co]):
    """Inputs of all questions about a training run."""

    model: str = shared("What is trained or computed: a model of any family.")
    batch: int | None = optional(
        "Global batch.",
        "whole",
        unit="sequences",
        low=1,
        high=LARGEST_BATCH,
        otherwise="the model's",
    )
    iteration_model: str = shared(
        "How time is modelled: 4d, calibrated, measured, ptd-p, comet, or a file."
    )
    strategy: AnyStrategy = shared("Tensor parallelism: 1d, 2d, summa, all.")
    mode: Mode = shared("Of the 4d model: corrected or published-code.")
    space: Literal["free", "model"] = shared(
        "Plans: free (uneven stages and batches, idle GPUs), or those of the iteration model.",
        "choice",
        choices=("free", "model"),
    )
    experts: int = shared("Experts of a layer.", "whole", low=1)
    top_k: int = shared("Experts of a token.", "whole", low=1)
    expert_degree: int | None = optional(
        "GPUs that share the experts.", "whole", unit="GPUs", low=1, otherwise="searched"
    )
    zero_stage: Literal[0, 1, 2, 3] | None = optional(
        "ZeRO stage.", "whole", flag="--zero", low=0, high=3, otherwise="the iteration model's"
    )
    optimizer: Optimizer | None = optional(
        "States beside the weights: adam (12 bytes a parameter), or sgd without momentum (4).",
        "choice",
        choices=get_args(Optimizer),
        otherwise="the iteration model's, Adam's in ours",
    )
    offload: Sequence[Part] = several(
        "Lies in the expanded memory in any case (repeatable).",
        "choice",
        choices=("optimizer", "gradients", "weights", "activations"),
    )
    memory_policy: Policy | None = optional(
        "What spills there first: states before activations, or all alike.",
        "choice",
        choices=("states-first", "uniform"),
        otherwise="the iteration model's",
    )

    def __post_init__(self) -> None:
        """Refuse unknown names and values out of range, even where nothing is timed."""
        super().__post_init__()
        if self.trains:
            check_setting(self.strategy, self.mode)
            self.options()

    @property
    def trains(self) -> bool:
        """Whether it is asked about training."""
        return True

    def options(
        self, fixed: Fixed | None = None, *, assumptions: IterationModel | None = None
    ) -> Options:
        """What the search leaves open or not; refuses choices that do not fit each other."""
        recompute = self.recompute
        if recompute is None:
            recompute = assumptions.compute.recompute if assumptions else PLAIN.recompute
        return Options(
            variant=Variant(
                recompute,
                self.experts,
                self.top_k,
                sequence_parallel=self.sequence_parallel,
            ),
            schedule=self.schedule,
            zero_stage=self.zero_stage,
            expert_degree=self.expert_degree,
            fixed=fixed or Fixed(),
        )

    def training(self, reader: CatalogReader, on: Accelerator, gpus: int) -> Training:
        """What is trained on so many such GPUs."""
        model, assumptions = self.trained(reader)
        measured = assumptions.communication.collectives == "measured"
        training = Training.on(
            on,
            model,
            assumptions,
            batch=self.batch,
            gpus=gpus,
            calibrated=self.calibrated(reader, on, model, assumptions),
            links=Links.of(on, reader.load) if measured else None,
        )
        return replace(training, ignore_memory=self.ignore_memory)

    def trained(self, reader: CatalogReader) -> "tuple[Model | OtherModel, IterationModel]":
        """Files of the model and of the iteration model, whose plans divide only if asked to.

        Raises
        ------
        InputError
            If the mode repeats slips that the iteration model does not have, or an input means
            nothing for the model.
        """
        model = reader.load(WORKLOADS, self.model)
        if not isinstance(model, Model):
            self._check_inputs_of(model)
        assumptions = reader.load(ITERATION_MODELS, self.iteration_model)
        compute = assumptions.compute
        plain = (compute.operations, compute.kernels) == ("detailed", "roofline")
        if self.mode == "published-code" and not plain:
            raise InputError(
                f"--mode published-code repeats slips of the 4D model's code, and iteration model"
                f" {assumptions.name} has none of it: leave it out, or take --iteration-model 4d"
            )
        self.check_stack(assumptions)
        if self.optimizer is not None:
            self._check_states()
            assumptions = assumptions.under(self.optimizer)
        if self.space == "free" and DIVISIBILITY not in (self.overrides or {}):
            space = replace(assumptions.space, divisibility="free")
            assumptions = replace(assumptions, space=space)
        return model, self._tiered(assumptions)

    def _tiered(self, assumptions: IterationModel) -> IterationModel:
        """The iteration model with what is asked for in the expanded memory."""
        memory = assumptions.memory
        policy = self.memory_policy or memory.policy
        if self.offload and policy == "uniform":
            raise InputError(
                f"{spelled('--offload', self.offload[0])} means nothing where all parts spill"
                " alike: leave it out, or take --memory-policy states-first"
            )
        offload = self.offload or (memory.offload if policy == memory.policy else ())
        changed = replace(memory, policy=policy, offload=tuple(offload))
        return replace(assumptions, memory=changed)

    def check_tiers(self, *chips: Accelerator) -> None:
        """Refuse to say what lies in an expanded memory where none of the GPUs has one."""
        if any(one.expanded_bytes for one in chips):
            return
        for flag, given in (("--offload", self.offload), ("--memory-policy", self.memory_policy)):
            if given:
                raise InputError(
                    f"{spelled(flag, given[0] if flag == '--offload' else given)} needs an"
                    f" expanded memory, and {chips[0].name} has none: give one, such as --set"
                    " accelerator.expanded_bytes=480e9 --set accelerator.expanded_bytes_per_s=64e9"
                )

    def _check_states(self) -> None:
        """Refuse an optimizer beside a number of its states."""
        for key in self.overrides or {}:
            if key.endswith(OPTIMIZER_STATES):
                raise InputError(
                    f"--optimizer {self.optimizer} and --set {key} both say what the optimizer"
                    " holds: give one of them"
                )

    def _check_inputs_of(self, model: "OtherModel") -> None:
        """Refuse inputs that mean nothing for a model that is no transformer."""
        self.refuse(
            set(OF_TRANSFORMERS) - set(model.takes), f"{model.name}, of family {model.family}"
        )
        if model.family == "graph" and not model.trains:
            self.refuse({"optimizer"}, f"{model.name}, which has no backward pass")

    def search(self, training: Training) -> PlanSearch:
        """The search for the best plan of a training run."""
        options = self.options(assumptions=training.assumptions)
        return PlanSearch(training, self.strategy_under(training.assumptions), self.mode, options)

    def strategy_under(self, assumptions: IterationModel) -> AnyStrategy:  # noqa: ARG002 - plans say
        """Strategy of tensor parallelism under an iteration model."""
        return self.strategy

    def inputs(self, **resolved: object) -> dict[str, object]:
        """The inputs as the answer shows them, with what the iteration model fills in."""
        shown = super().inputs()
        assumptions = self._assumptions()
        if assumptions is not None:
            shown |= self.stack_inputs(assumptions)
            shown["strategy"] = self.strategy_under(assumptions)
        if assumptions is None or assumptions.calibration is None:
            for name in SHOWN_IF_GIVEN:
                if shown[name] in (None, True):
                    del shown[name]
        return shown | resolved

    def _assumptions(self) -> IterationModel | None:
        """The iteration model as its file has it; None of those that are simulated only."""
        try:
            reader = CatalogReader(self.catalog, self.overrides)
            return reader.load(ITERATION_MODELS, self.iteration_model)
        except CatalogError:
            return None


def training_words(inputs: Mapping[str, Any]) -> str:
    """What is trained, on what, under which assumptions."""
    inputs = told(inputs)
    return (
        f"training {inputs['model']}, batch {inputs['batch']:,}, on {inputs['accelerator']};"
        f" {assumed(inputs)}"
    )


def assumed(inputs: Mapping[str, Any]) -> str:
    """How time is modelled, and what is asked for beside: software, numbers, optimizer.

    >>> assumed({"iteration_model": "4d"}), assumed({"iteration_model": "4d", "optimizer": "sgd"})
    ('iteration model 4d', 'iteration model 4d, optimizer sgd')
    """
    asked = inputs.get("optimizer")
    optimizer = [f"optimizer {asked}"] if asked else []
    return ", ".join(
        [f"iteration model {inputs['iteration_model']}", *stack_words(inputs), *optimizer]
    )


def fixed_option() -> Any:  # noqa: ANN401 - a field of any type
    """The input of values that plans are to have, of training and of serving."""
    return optional(
        "Give a value, such as pipeline=64 (repeatable).",
        "numbers",
        flag="--fix",
        metavar="NAME=N",
        many=True,
    )


@dataclass(frozen=True, kw_only=True)
class PlanQuestion(TrainingQuestion[AnswerT_co], ClusterQuestion[AnswerT_co]):
    """Inputs of all questions about the plans of a training run on one fabric."""

    radix: int = shared("Ports per switch.", "whole", unit="ports", low=4, high=1024)
    fabric: str = shared("On which fabric.")
    embedding: bool = optional("Count the token embedding.", "flag", default=False)
    lm_head: bool = optional("Count the output head.", "flag", default=False)
    interleave: Literal["none", "whole", "any"] | None = optional(
        "Interleaved schedules: none, in whole groups of microbatches, any.",
        "choice",
        choices=("none", "whole", "any"),
        otherwise="the iteration model's",
    )
    fixed: Mapping[str, int] | None = fixed_option()

    def options(
        self, fixed: Fixed | None = None, *, assumptions: IterationModel | None = None
    ) -> Options:
        """What the search leaves open or not."""
        fixed = fixed or fixed_values(self.fixed or {})
        whole = super().options(fixed, assumptions=assumptions)
        variant = replace(whole.variant, embedding=self.embedding, lm_head=self.lm_head)
        return replace(whole, variant=variant, interleave=self.interleave)

    def strategy_under(self, assumptions: IterationModel) -> AnyStrategy:
        """The same; a context degree that is fixed implies the one that cuts the sequence."""
        cut = (self.fixed or {}).get("context", 1) > 1
        if cut and self.strategy == "1d" and assumptions.compute.operations == "detailed":
            return "2d"
        return self.strategy

    def _check_inputs_of(self, model: "OtherModel") -> None:
        """Refuse also degrees that such a model does not have."""
        super()._check_inputs_of(model)
        for name, value in (self.fixed or {}).items():
            if name not in model.open_degrees:
                *some, last = model.open_degrees
                known = f"{', '.join(some)} and {last}" if some else last
                raise InputError(
                    f"--fix {name}={value}: of a plan of {model.name}, of family {model.family},"
                    f" {known} is all there is to fix: leave it out"
                )

    def chip(self, reader: CatalogReader) -> Accelerator:
        """The accelerator that runs the plans."""
        return reader.load(ACCELERATORS, self.accelerator)

    def case(self) -> "TrainingCase":
        """Read the files, and build the fabric.

        Raises
        ------
        InputError
            If plans or rings need full HB domains, and the GPUs leave one partly filled.
        """
        reader = CatalogReader(self.catalog, self.overrides)
        on, spec = self.chip(reader), reader.fabric(self.fabric, self.ports)
        self.check_tiers(on)
        training = self.training(reader, on, self.gpus)
        sizing = self.sized(on)
        fabric = build_fabric(spec, sizing)
        domain = fabric.sizing.hb_size
        whole = fabric.sizing.full_domains * domain == self.gpus
        search = self.search(training)
        if whole and not fabric.levels:
            raise InputError(
                f"{spec.name} with {self.gpus:,} GPUs has no levels of bandwidth that a closed form"
                " could time: take another fabric, or another number of GPUs"
            )
        if not fabric.levels or not (whole or search.free):
            remedies = "a multiple, or another --hb-size"
            if search.powers_of_two:
                remedies = "powers of two for both"
            elif fabric.levels and self.mode == "corrected":
                remedies = "a multiple, another --hb-size, or --space free"
            raise InputError(
                f"{self.gpus:,} GPUs do not fill HB domains of {domain:,} on {spec.name}:"
                f" give {remedies}"
            )
        return TrainingCase(spec, fabric, training, reader.replaced(), on)

    def inputs_of(self, case: "TrainingCase", setting: Setting) -> dict[str, object]:
        """The inputs as the answer shows them, with what the best plan's setting made of them."""
        tiered = case.training.expanded is not None
        return self.inputs(
            memory_policy=setting.assumptions.memory.policy if tiered else None,
            offload=list(setting.assumptions.memory.offload),
            hb_size=case.fabric.sizing.hb_size,
            batch=case.training.batch,
            zero_stage=setting.zero_stage,
            interleave=setting.interleave,
            fixed=setting.options.fixed.given,
            set=case.replaced,
        )


class TrainingCase(Struct, frozen=True):
    """A fabric, what is trained on which GPUs of it, from files, and the values replaced there."""

    spec: FabricSpec
    fabric: Fabric
    training: Training
    replaced: dict[str, object]
    on: Accelerator
