"""What is asked of a plan's memory and does not exist: modules that are computed again, offload."""

from netplan.errors import InputError
from netplan.performance.stacks import MemoryOfStack
from netplan.workloads.models import Model
from netplan.workloads.recomputation import NOTHING, OF_EXPERTS, OF_NORMS, Recomputation


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
