"""Whether what a plan holds fits: verdicts on computed peaks, and a plan's memory part by part.

A peak fits for sure if it does with fragments and what lies outside of the allocator; it does not
where not even the low end of the error fits; between them it is tight. All constants were fitted on
peaks that training software printed (`netplan.performance.stack_memory`).

What is asked of a plan's memory and does not exist is refused: modules that are computed again,
offload.
"""

from typing import Literal

from msgspec import Struct

from netplan.errors import InputError
from netplan.performance.stacks import MemoryOfStack
from netplan.workloads.models import Model
from netplan.workloads.recomputation import NOTHING, OF_EXPERTS, OF_NORMS, Recomputation

OUTSIDE_BYTES = 2e9
"""CUDA context and NCCL, outside of torch's allocator; fitted on printed peaks [B]."""

FRAGMENTATION = 1.03
"""Reserved over allocated memory: median of six printed pairs from 1.03 to 1.11, with expandable
segments [1]."""

LOW, HIGH = 0.88, 1.20
"""Printed over computed peak, near its 5th and 95th percentile over peaks above 8 GB [1]."""

NEVER_COMPARED = (
    "memory of this software (hybrids: of this kind of layer) was never compared with a run"
)
"""Note where nothing is refused for its memory."""

Verdict = Literal["fit", "tight", "no"]
Basis = Literal["checked", "unchecked"]


def peaks_of(usable_bytes: float) -> tuple[float, float]:
    """Peaks up to which plans fit, with fragments, and up to which they may.

    Parameters
    ----------
    usable_bytes
        What the driver shows of the memory [B].

    Returns
    -------
    tuple[float, float]
        Of the allocator; beside them lies what is outside of it [B].

    Examples
    --------
    80 GB of an H100, of which programs see 84.9.

    >>> [round(peak / 1e9, 1) for peak in peaks_of(84.9e9)]
    [80.5, 94.2]
    """
    allocated = usable_bytes - OUTSIDE_BYTES
    return allocated / FRAGMENTATION, allocated / LOW


def memory_verdict(peak_bytes: float, usable_bytes: float, *, checked_kind: bool = True) -> Verdict:
    """Whether a plan fits, may fit, or does not.

    Parameters
    ----------
    peak_bytes, usable_bytes
        Computed peak; what the driver shows of the memory [B].
    checked_kind
        Whether runs of this software and kind of layer were compared; others are never refused.

    Returns
    -------
    str
        ``fit``, ``tight`` or ``no``.

    Examples
    --------
    >>> [memory_verdict(peak, 84.9e9) for peak in (75.6e9, 88.3e9, 99e9)]
    ['fit', 'tight', 'no']
    """
    sure_bytes, most_bytes = peaks_of(usable_bytes)
    if peak_bytes <= sure_bytes:
        return "fit"
    return "no" if checked_kind and peak_bytes > most_bytes else "tight"


class PlanMemory(Struct, frozen=True):
    """What a plan holds on its fullest GPU, as training software keeps it.

    Parameters
    ----------
    verdict
        Whether it fits, may fit (``tight``), or does not.
    peak_bytes, low_bytes, high_bytes, usable_bytes
        Memory, between what it lies in nine of ten runs, and what a program sees [B].
    stage, in_flight, layers
        The fullest stage, from 0 on; microbatches whose activations it holds; its layers [1].
    states, activations, head_or_backward, gathered, workspace, outside
        Parts of it; ``outside`` of the allocator beside them [B].
    by_operation
        What one layer keeps of one microbatch, by kind of layer and operation [B].
    basis
        Whether memory of this software was compared with runs.
    """

    verdict: Verdict
    peak_bytes: float
    low_bytes: float
    high_bytes: float
    usable_bytes: float
    stage: int
    states: float
    activations: float
    head_or_backward: float
    gathered: float
    workspace: float
    outside: float
    in_flight: float
    layers: float
    by_operation: dict[str, dict[str, float]]
    basis: Basis

    @property
    def fits(self) -> bool:
        """Whether it fits for sure."""
        return self.verdict == "fit"

    @property
    def words(self) -> str:
        """The peak between its ends, of what a program sees, such as ``88 GB (78-106) of 85``.

        With the verdict behind it where the plan does not fit for sure.
        """
        bytes_of = (self.peak_bytes, self.low_bytes, self.high_bytes, self.usable_bytes)
        peak, low, high, usable = (round(number / 1e9) for number in bytes_of)
        sure = "" if self.fits else f": {self.verdict}"
        return f"{peak} GB ({low}-{high}) of {usable}{sure}"


def check_recomputation(
    recompute: Recomputation,
    model: Model,
    stack: MemoryOfStack,
    precision: str,
    *,
    stage_layers: int | None = None,
) -> None:
    """Refuse to compute again what a model or its software has not.

    Parameters
    ----------
    recompute
        What is computed again.
    model, stack, precision
        What is trained, by which software, in which number format.
    stage_layers
        Layers of the stage that has most, of ``block``; all of the model's if absent [1].

    Raises
    ------
    InputError
        If a module is none of the model's or the software's, or a stage has fewer layers.

    Examples
    --------
    >>> from netplan.workloads.models import MODELS
    >>> llama, stack = MODELS.load("llama-3-405b"), MemoryOfStack(software="megatron")
    >>> check_recomputation(Recomputation.read("moe_act"), llama, stack, "bf16")
    Traceback (most recent call last):
        ...
    netplan.errors.InputError: --recompute moe_act: moe_act cannot be computed again: llama-3-405b
    has no experts: use none, full, block:K, or other modules
    """
    most = model.layers if stage_layers is None else stage_layers
    if recompute.block > most:
        raise InputError(
            f"--recompute {recompute}: a stage has {most} layers: give block:1 to block:{most}, or"
            " full"
        )
    alone = {
        "sac-op": (stack.keeps in ("compiled", "torch"), "software of torch (FSDP) alone has it"),
        "mla_up_proj": (bool(model.latent_attention), f"{model.name} has no latent attention"),
        "mlp": (
            model.experts is None or model.sparse_layers < model.depth,
            f"{model.name} has no dense layers",
        ),
        "layernorm": (
            bool(model.experts or model.latent_attention),
            f"it frees nothing in {model.name}, whose norms are parts of its products",
        ),
    } | dict.fromkeys(OF_EXPERTS, (bool(model.experts), f"{model.name} has no experts"))
    for module in recompute.modules:
        allowed, reason = alone.get(module, (True, ""))
        if module == "sac-op" and model.mamba is not None:
            allowed, reason = False, f"{model.name} is a hybrid"
        if module in OF_NORMS and precision == "fp8-delayed":
            allowed, reason = False, "software with delayed scaling of fp8 keeps its input"
        if not allowed:
            raise InputError(
                f"--recompute {recompute}: {module} cannot be computed again: {reason}: use none,"
                " full, block:K, or other modules"
            )


def check_offload(layers: int, model: Model, *, stages: int, recompute: Recomputation) -> None:
    """Refuse activations on the host where no software puts them there.

    Parameters
    ----------
    layers
        Layers whose activations lie there [1].
    model
        What is trained.
    stages
        Pipeline stages [1].
    recompute
        What is computed again.

    Raises
    ------
    InputError
        If there are several stages, something is computed again, or no layer is left.
    """
    text = f"--offload activations:{layers}"
    if not 0 <= layers < model.layers:
        raise InputError(
            f"{text}: {model.name} has {model.layers} layers: give 0 to {model.layers - 1}"
        )
    if layers and stages > 1:
        raise InputError(
            f"{text}: with {stages} pipeline stages no activations are offloaded, as in"
            " Megatron-Core: fix pipeline=1, or leave it out"
        )
    if layers and recompute != NOTHING:
        raise InputError(
            f"{text}: with --recompute {recompute} no activations are offloaded, as in"
            " Megatron-Core: take --recompute none, or leave it out"
        )
