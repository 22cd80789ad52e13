"""Inputs that say with which software, numbers and schedule a model is trained."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from netplan.errors import InputError
from netplan.levels import NetworkKind
from netplan.performance.calibrated_run import CalibratedRun
from netplan.performance.iteration_model import IterationModel
from netplan.performance.options import BUBBLE_SHARE, ScheduleName
from netplan.performance.stacks import DEFAULT_STACK, STACKS
from netplan.questions.question import AnswerT_co, Question, optional
from netplan.questions.setup.inputs import CatalogReader
from netplan.records import replace
from netplan.workloads.accelerators import Accelerator
from netplan.workloads.models import Model
from netplan.workloads.operations import Recompute
from netplan.workloads.precision import Precision, ServingFormat, precision_named

if TYPE_CHECKING:
    from netplan.workloads.families import OtherModel

CALIBRATED = ("precision", "stack", "tensor_overlap", "network_kind")
"""Inputs that mean something under iteration model ``calibrated`` alone."""
SHOWN_IF_GIVEN = (*CALIBRATED, "sequence_parallel", "schedule")
"""Inputs that answers of other iteration models leave out where nothing is asked for."""
ALIASES = {
    ("recompute", "attention"): "selective",
    ("precision", "fp16"): "bf16",
}
"""Other names of values: fp16 and bf16 take equally long."""


@dataclass(frozen=True, kw_only=True)
class StackQuestion(Question[AnswerT_co]):
    """How a model is trained beside its plan: software, numbers, schedule, what is kept."""

    recompute: Recompute | None = optional(
        "Activations computed again in the backward pass: none, selective (or attention: the"
        " scores), half (of the layers), full.",
        "choice",
        choices=(*get_args(Recompute), "attention"),
        otherwise="the iteration model's",
    )
    precision: ServingFormat | None = optional(
        "Numbers of the layers' products, under iteration model calibrated.",
        "choice",
        choices=(*get_args(Precision), "fp16"),
        otherwise="bf16",
    )
    stack: str | None = optional(
        "Training software, under iteration model calibrated: a name or a file of traffic/stacks.",
        metavar="NAME",
        otherwise=f"{DEFAULT_STACK} under calibrated",
    )
    sequence_parallel: bool = optional(
        "Norms and dropouts have all rows on every tensor GPU.",
        "flag",
        default=True,
        flag="--no-sequence-parallel",
    )
    tensor_overlap: bool = optional(
        "Tensor collectives as if the stack did not overlap them, under calibrated.",
        "flag",
        default=True,
        flag="--no-tensor-overlap",
    )
    network_kind: NetworkKind | None = optional(
        "What the network is made of, under calibrated.",
        "choice",
        choices=get_args(NetworkKind),
        otherwise="the fabric's",
    )
    schedule: ScheduleName | None = optional(
        "Order of the passes of a pipeline; zb-1p and zb-2p under calibrated.",
        "choice",
        choices=get_args(ScheduleName),
        otherwise="1f1b; interleaved where the plan has several stages a GPU",
    )
    ignore_memory: bool = optional(
        "Time plans that fit into no memory, too.", "flag", default=False
    )

    def __post_init__(self) -> None:
        """Read other names of values."""
        super().__post_init__()
        for (name, alias), meant in ALIASES.items():
            if getattr(self, name) == alias:
                object.__setattr__(self, name, meant)

    def check_stack(self, assumptions: IterationModel) -> None:
        """Refuse what the iteration model does not know.

        Raises
        ------
        InputError
            If it is not calibrated, and something is asked for that only calibrated ones time; or
            if its operations cannot do without sequence parallelism.
        """
        kernels, name = assumptions.compute.kernels, assumptions.name
        if not self.sequence_parallel and assumptions.compute.operations != "detailed":
            raise InputError(
                f"iteration model {name} counts layers with sequence parallelism: leave"
                " --no-sequence-parallel out, or take --iteration-model calibrated or 4d"
            )
        if kernels == "calibrated":
            return
        for words in self._calibrated_alone():
            raise InputError(
                f"iteration model {name} has no times for {words}: leave it out, or take"
                " --iteration-model calibrated"
            )

    def _calibrated_alone(self) -> Iterator[str]:
        """What is asked for that only calibrated iteration models time."""
        if self.recompute == "half":
            yield "--recompute half"
        if self.precision not in (None, "bf16"):
            yield f"--precision {self.precision}"
        if self.stack is not None:
            yield f"--stack {self.stack}"
        if not self.tensor_overlap:
            yield "--no-tensor-overlap"
        if self.network_kind is not None:
            yield f"--network-kind {self.network_kind}"
        if self.schedule in BUBBLE_SHARE:
            yield f"--schedule {self.schedule}"

    def calibrated(
        self,
        reader: CatalogReader,
        on: Accelerator,
        model: "Model | OtherModel",
        assumptions: IterationModel,
    ) -> CalibratedRun | None:
        """The accelerator under the stack, where the iteration model is calibrated."""
        if assumptions.calibration is None:
            return None
        if not (isinstance(model, Model) and model.vocabulary):
            raise InputError(
                f"iteration model {assumptions.name} times transformers with an embedding and a"
                f" head, and {model.name} is none: take --iteration-model 4d"
            )
        stack = reader.load(STACKS, self.stack or DEFAULT_STACK)
        # Bytes that are asked for hold under every ZeRO stage.
        asked = {key.rpartition(".")[2] for key in reader.overrides}
        if "gradient_bytes" in asked:
            stack = replace(stack, zero3_gradient_bytes=None)
        if "gather_bytes" in asked:
            stack = replace(stack, zero3_gather_bytes=None, zero3_narrow_gather_bytes=None)
        run = CalibratedRun.of(
            on,
            stack,
            assumptions.calibration,
            precision=precision_named(self.precision or "bf16"),
            tensor_overlap=self.tensor_overlap,
            network_kind=self.network_kind,
        )
        return run.without(reader.overrides)

    def stack_inputs(self, assumptions: IterationModel) -> dict[str, object]:
        """Values that were filled in, as the answer shows them."""
        filled: dict[str, object] = {"recompute": self.recompute or assumptions.compute.recompute}
        if assumptions.calibration is None:
            return filled
        stack, precision = self.stack or DEFAULT_STACK, self.precision or "bf16"
        return filled | {"stack": stack, "precision": precision}


def stack_words(inputs: Mapping[str, Any]) -> Iterator[str]:
    """What of software, numbers and schedule is other than where nothing is asked for.

    >>> list(stack_words({"precision": "fp8", "stack": "nemo-2024", "tensor_overlap": False}))
    ['fp8', 'stack nemo-2024', 'no tensor overlap']
    """
    if (precision := inputs.get("precision") or "bf16") != "bf16":
        yield precision
    if (stack := inputs.get("stack") or DEFAULT_STACK) != DEFAULT_STACK:
        yield f"stack {stack}"
    for name in ("sequence_parallel", "tensor_overlap"):
        if inputs.get(name) is False:
            yield f"no {name.replace('_', ' ')}"
    if kind := inputs.get("network_kind"):
        yield f"network of {kind}"
    if (schedule := inputs.get("schedule")) in BUBBLE_SHARE:
        yield f"schedule {schedule}"
