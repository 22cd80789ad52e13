"""Training runs: what is asked of them becomes the search for their plans."""

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from netplan.catalog import user_roots
from netplan.errors import CatalogError, InputError
from netplan.inputs.choices import AnyStrategy, Recompute
from netplan.inputs.option import flag_text
from netplan.inputs.readers import UNDATED, decimal, integer, per_gpu
from netplan.performance.calibrated_run import CalibratedRun
from netplan.performance.iteration_model import ITERATION_MODELS, OPTIMIZER_BYTES, IterationModel
from netplan.performance.memory_verdict import check_offload, check_recomputation
from netplan.performance.search import PlanSearch
from netplan.performance.setting import (
    Fixed,
    Options,
    Setting,
    TrainedModel,
    check_setting,
    fixed_values,
)
from netplan.performance.stack_memory import StackMemory
from netplan.performance.stacks import STACKS, MemoryOfStack, MemoryRow, default_stack
from netplan.records import replace
from netplan.scenarios.inner_parts import ExpertRouting
from netplan.scenarios.reading import CatalogReader, sized, variants
from netplan.scenarios.scenario import USUAL_TIMES, better_times
from netplan.setup import software
from netplan.setup.expert_routing import check_imbalance, expert_load, with_expert_load
from netplan.setup.inputs import short_inputs
from netplan.setup.question import AnyQuestion
from netplan.topologies.build import build_fabric
from netplan.topologies.fabric import Fabric
from netplan.topologies.specs import FabricSpec
from netplan.traffic.measured_links import MeasuredLinks
from netplan.workloads.accelerators import ACCELERATORS, Accelerator
from netplan.workloads.models import WORKLOADS, Model
from netplan.workloads.operations import PLAIN, Variant
from netplan.workloads.recomputation import NOTHING, Recomputation
from netplan.workloads.transformer import experts_of

if TYPE_CHECKING:
    from netplan.workloads.families import OtherModel

SHOWN_IF_GIVEN = (*software.CALIBRATED, "sequence_parallel", "schedule")
"""Inputs that answers of other iteration models leave out where nothing is asked for."""
OF_TRANSFORMERS = (
    *("batch", "strategy", "mode", "recompute", "experts", "top_k", "expert_degree", "zero_stage"),
    *("embedding", "lm_head", "interleave", "execution", "imbalance", "use_per_domain"),
    *("optimizer", "offload", "memory_policy", "schedule", "sequence_parallel"),
    *software.CALIBRATED,
)
"""Inputs that say how a transformer is trained; other models take few of them."""
OF_PASSES = ("schedule", "inference")
"""Inputs of passes, of what is simulated too."""
DIVISIBILITY = "iteration-model.space.divisibility"
"""Override that decides over the space of plans, whatever else is asked."""
OPTIMIZER_STATES = ".overlap.optimizer_bytes"
"""Override that says what the optimizer holds, of an iteration model."""


def plan_options(asked: AnyQuestion, *, run: TrainedModel | None = None) -> Options:
    """What the search leaves open or not; refuses choices that do not fit each other.

    More is known of a ``run`` whose files were read.
    """
    training, assumptions = asked.training, run.assumptions if run else None
    fixed = _fixed(asked, run)
    if run is not None:
        fixed = _stages_of_hybrid(asked, fixed, run)
        _check_gathered(training.expert_degree or fixed.expert, run)
    usual = assumptions.compute.recompute if assumptions else PLAIN.recompute
    recompute, varied, used = usual, None, training.use_per_domain
    if assumptions is not None and by_stack(asked, assumptions):
        recompute = "none" if assumptions.calibration else "selective"
        given = training.recompute
        varied = None if given in (None, "auto") else Recomputation.read(given)
    elif assumptions is not None and training.recompute not in (None, "auto"):
        recompute = _recompute_by_model(training.recompute, assumptions)
    return Options(
        variant=Variant(
            recompute,
            training.experts,
            training.top_k,
            embedding=training.embedding,
            lm_head=training.lm_head,
            sequence_parallel=training.sequence_parallel,
        ),
        schedule=training.schedule,
        zero_stage=training.zero_stage,
        interleave=training.interleave,
        expert_degree=training.expert_degree,
        collective_algorithm=getattr(asked, "collective_algorithm", None),
        fixed=fixed,
        recomputation=varied,
        offload_layers=offloaded(asked)[0],
        use_per_domain=used if isinstance(used, int) else None,
    )


def _fixed(asked: AnyQuestion, run: TrainedModel | None = None) -> Fixed:
    """Values that are given, and those that they imply.

    Experts are whole, or cut as the rest of a layer; whole ones alone only where a ``run`` folds
    them over tensor GPUs.

    Raises
    ------
    InputError
        If experts are cut otherwise than the rest of a layer, and are not whole, or nobody times
        whole ones.
    """
    fixed = fixed_values(asked.training.fixed or {})
    if offloaded(asked)[0] and fixed.pipeline is None:
        fixed = replace(fixed, pipeline=1)  # no software offloads activations of several stages
    share = fixed.expert_tensor
    if share is None:
        return fixed
    tensor = fixed.tensor or share
    if share not in (1, tensor):
        raise InputError(
            f"--fix expert_tensor={share}: an expert is whole, or cut as the rest of its layer:"
            f" give 1 or tensor, {tensor}"
        )
    if share > 1:
        return replace(fixed, tensor=tensor)
    folds = run is not None and run.calibrated is not None and run.calibrated.dated is not None
    if run is not None and not folds and fixed.tensor != 1:
        raise InputError(
            "--fix expert_tensor=1: this iteration model times experts that are cut over all tensor"
            " GPUs alone: leave it out, fix tensor=1, too, or take calibrated with a date of"
            " software"
        )
    return fixed


def _stages_of_hybrid(asked: AnyQuestion, fixed: Fixed, run: TrainedModel) -> Fixed:
    """One stage of a hybrid, where calibrated: no run of one in a pipeline was scored.

    Raises
    ------
    InputError
        If several are asked for without force.
    """
    hybrid = isinstance(run.model, Model) and run.model.mamba is not None
    if not hybrid or run.calibrated is None or asked.training.software.hybrid_stages:
        return fixed
    if fixed.pipeline not in (None, 1):
        raise InputError(
            f"--fix pipeline={fixed.pipeline}: {run.model.name} has Mamba layers, and no run of"
            " such a model in a pipeline was scored: fix pipeline=1, or give --force, too, for"
            " times with a wide bar"
        )
    return replace(fixed, pipeline=1)


def _check_gathered(degree: int | None, run: TrainedModel) -> None:
    """Refuse to spread experts over GPUs where every GPU gathers all of them."""
    dated = run.calibrated.dated if run.calibrated else None
    if degree not in (None, 1) and dated is not None and not dated.recipe.exchanges:
        raise InputError(
            f"--expert-degree {degree}: with dispatcher fsdp, that of TPUs, every GPU gathers all"
            " experts: leave it out, or give another --dispatcher, such as alltoall"
        )


EXPANDED = ("optimizer", "gradients", "weights", "activations")
"""Parts that may lie in an expanded memory."""
BY_STACK = ("calibrated", "measured")
"""Kernels of iteration models beside which memory is that of training software."""


def by_stack(asked: AnyQuestion, assumptions: IterationModel) -> bool:
    """Whether memory is as training software keeps it.

    Raises
    ------
    InputError
        If that is asked for of an iteration model, or beside an expanded memory, that has its own.
    """
    asked_for = asked.training.memory.memory_model
    known = assumptions.compute.kernels in BY_STACK
    if asked_for == "stack" and not known:
        raise InputError(
            f"iteration model {assumptions.name} has a memory of its own: leave --memory stack out,"
            " or take --iteration-model calibrated or measured"
        )
    return known and asked_for != "model"


def _recompute_by_model(text: str, assumptions: IterationModel) -> Recompute:
    """What is computed again as iteration models with a memory of their own know it.

    Raises
    ------
    InputError
        If they do not.
    """
    recompute = Recomputation.read(text)
    if recompute.modules == ("core_attn",):
        return "selective"
    if recompute.layers == "block" or recompute.modules:
        raise InputError(
            f"iteration model {assumptions.name} with a memory of its own has no --recompute"
            f" {recompute}: take auto, none, selective, half or full, or --iteration-model"
            " calibrated"
        )
    return recompute.layers


def offloaded(asked: AnyQuestion) -> tuple[int | None, float]:
    """Layers of activations, and the share of optimizer states, that lie in the host's memory.

    Raises
    ------
    InputError
        If a number is none, a part has no such number, or stands twice.
    """
    layers, share = None, 0.0
    parts = [text.partition(":")[0] for text in asked.training.memory.offload]
    if twice := next((part for part in parts if parts.count(part) > 1), None):
        raise InputError(f"--offload {twice!r:.60} stands twice: leave one out")
    for text in asked.training.memory.offload:
        part, colon, number = text.partition(":")
        if not colon and part not in EXPANDED:
            raise InputError(
                f"--offload: {part!r:.60} is not one of {', '.join(EXPANDED)} for an expanded"
                " memory, activations:K or optimizer:F for the host's"
            )
        if not colon:
            continue
        try:
            if part == "activations":
                layers = integer(number)
            else:
                share = decimal(number if part == "optimizer" else "")
        except InputError:
            raise InputError(
                f"--offload {text!r:.60}: write activations:K (layers) or optimizer:F (a share from"
                " 0 to 1) for the host's memory, or a part alone for an expanded one"
            ) from None
        if (layers is not None and layers < 0) or not 0 <= share <= 1:
            raise InputError(
                f"--offload {text!r:.60} is out of range: layers are 0 or more, a share is from 0"
                " to 1"
            )
    return layers, share


def _batch(asked: AnyQuestion, model: "Model | OtherModel") -> int | None:
    """The global batch [1]; that of a scenario means nothing for a model that has none.

    So many sequences a GPU are at least the model's own batch where it has experts, of which each
    sees few tokens: published runs have 65,536 tokens a GPU in the median, dense ones 16,384
    (``reports/published/dated-runs.csv``).
    """
    takes = isinstance(model, Model) or "batch" in model.takes
    batch = asked.scenario.batch if takes or "batch" in asked.given else None
    shared = per_gpu(asked.training.batch) is not None
    if batch is not None and shared and isinstance(model, Model) and model.experts is not None:
        return max(batch, model.batch)
    return batch


def check_stack(asked: AnyQuestion, assumptions: IterationModel) -> None:
    """Refuse what the iteration model does not know.

    Raises
    ------
    InputError
        If it is not calibrated, and something is asked for that only calibrated ones time; or
        if its operations cannot do without sequence parallelism.
    """
    kernels, name = assumptions.compute.kernels, assumptions.name
    if not asked.training.sequence_parallel and assumptions.compute.operations != "detailed":
        raise InputError(
            f"iteration model {name} counts layers with sequence parallelism: leave"
            " --no-sequence-parallel out, or take --iteration-model calibrated or 4d"
        )
    if kernels == "calibrated":
        return
    for words in software.calibrated_alone(
        asked, assumptions, by_stack=by_stack(asked, assumptions)
    ):
        # Where the scenario's model of times gave way, it does not know what is trained either.
        usual = better_times(asked.scenario, user_roots(asked.catalog))
        why = _not_as_fitted(asked) or (_no_formulas(asked, USUAL_TIMES) if usual else "")
        other = f" ({why})" if why else f", or take --iteration-model {USUAL_TIMES}"
        raise InputError(f"iteration model {name} has no times for {words}: leave it out{other}")


def calibrated_run(
    asked: AnyQuestion,
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
    stack = reader.load(STACKS, asked.training.stack or default_stack(on))
    recipe = software.recipe_of(asked, assumptions.calibration.dated, stack, on)
    unlike = model.unlike or ("experts" if asked.training.experts > 1 else "")
    lacking = software.without_dates(assumptions.calibration.dated, stack, on)
    undated = asked.training.software.software_date == UNDATED
    if unlike and lacking and not (undated or model.unknown):
        raise InputError(
            f"iteration model {assumptions.name} has formulas for {unlike} under software of a date"
            f" alone, and {lacking} has no numbers by date: take another one, or --iteration-model"
            f" {'' if model.mamba else 'measured or '}4d"
            f"{'' if asked.training.precision in (None, 'bf16') else ' without --precision'}"
        )
    # Bytes that are asked for hold under every ZeRO stage.
    replaced = {key.rpartition(".")[2] for key in reader.overrides}
    if "gradient_bytes" in replaced:
        stack = replace(stack, zero3_gradient_bytes=None)
    if "gather_bytes" in replaced:
        stack = replace(stack, zero3_gather_bytes=None, zero3_narrow_gather_bytes=None)
    precision = software.timed_precision(asked, on, dated=recipe is not None)
    dated = None
    if recipe is not None:
        dated = software.dated_run(asked, on, stack, model, assumptions.calibration, recipe)
    software.check_replaced(reader.overrides, dated=dated is not None)
    run = CalibratedRun.of(
        on,
        stack,
        assumptions.calibration,
        precision=precision,
        tensor_overlap=asked.training.tensor_overlap,
        network_kind=asked.cluster.network_kind,
        dated=dated,
    )
    return run.without(reader.overrides)


def stack_memory(
    asked: AnyQuestion,
    reader: CatalogReader,
    on: Accelerator,
    assumptions: IterationModel,
    model: Model,
) -> StackMemory | None:
    """What training software holds of the model; None where the iteration model says it.

    Raises
    ------
    InputError
        If something is asked for that the software, the model or the accelerator does not have.
    """
    layers, share = offloaded(asked)
    host = layers is not None or share > 0
    if not by_stack(asked, assumptions):
        if host:
            raise InputError(
                "--offload to the host's memory goes with memory as training software keeps it:"
                " leave the number out, or take --memory stack under iteration model calibrated or"
                " measured"
            )
        return None
    if on.expanded_bytes or asked.training.memory.memory_policy:
        raise InputError(
            f"memory as training software keeps it knows no expanded memory, and {on.name} has one:"
            " take --memory model, or leave the expanded memory out"
        )
    parts = [part for part in asked.training.memory.offload if ":" not in part]
    if parts:
        raise InputError(
            f"--offload {parts[0]} is for an expanded memory: write activations:K or optimizer:F"
            " for the host's, or take --memory model"
        )
    stack = reader.load(STACKS, asked.training.stack or default_stack(on))
    held_as = stack.memory
    if on.memory_software and asked.training.stack is None:
        try:
            held_as = MemoryOfStack(software=cast("MemoryRow", on.memory_software))
        except ValueError as error:
            raise InputError(f"{on.name}: memory_{error}") from None
    if held_as is None:
        raise InputError(
            f"stack {stack.name} does not say what it holds (memory): add the block, or take"
            " --memory model"
        )
    precision = asked.training.precision or "bf16"
    recompute, stages = NOTHING, (asked.training.fixed or {}).get("pipeline", 1)
    if asked.training.recompute not in (None, "auto"):
        recompute = Recomputation.read(asked.training.recompute)
        most = -(-model.layers // stages)
        check_recomputation(recompute, model, held_as, precision, stage_layers=most)
    if layers is not None:
        check_offload(layers, model, stages=stages, recompute=recompute)
    if host and not on.host_bytes_per_s:
        raise InputError(
            f"{on.name} says no link to the host's memory (host_bytes_per_s): give --set"
            " accelerator.host_bytes_per_s=, or leave --offload out"
        )
    states = OPTIMIZER_BYTES[asked.training.optimizer] if asked.training.optimizer else None
    return StackMemory(
        model,
        held_as,
        precision,
        sequence_parallel=asked.training.sequence_parallel,
        fused_attention=stack.fused,
        dropout=stack.dropout,
        schedule=asked.training.schedule,
        imbalance=asked.training.memory.imbalance,
        optimizer_bytes=states,
        optimizer_offload=share,
        fills_first_group=True,
    )


Workload = tuple["Model | OtherModel", IterationModel]
"""What is trained, and how it is timed."""


def read_training(
    asked: AnyQuestion, reader: CatalogReader, on: Accelerator, gpus: int
) -> TrainedModel:
    """What is trained on so many such GPUs."""
    # Unknown names and values out of range are refused, even where nothing is timed.
    check_setting(asked.training.strategy, asked.training.mode)
    plan_options(asked)
    model = reader.load(WORKLOADS, asked.training.model)
    assumptions = reader.load(ITERATION_MODELS, asked.training.iteration_model)
    return training_on(asked, reader, on, gpus, workload=workload_of(asked, model, assumptions))


def training_on(
    asked: AnyQuestion, reader: CatalogReader, on: Accelerator, gpus: int, *, workload: Workload
) -> TrainedModel:
    """What is trained on so many such GPUs, of files that were read.

    Raises
    ------
    InputError
        If iteration model, software or accelerator do not have what is asked for.
    """
    model, assumptions = _loaded(asked, workload[0]), workload[1]
    measured = assumptions.communication.collectives == "measured"
    training = TrainedModel.make(
        on,
        model,
        assumptions,
        batch=_batch(asked, model),
        gpus=gpus,
        calibrated=calibrated_run(asked, reader, on, model, assumptions),
        links=MeasuredLinks.of(on, reader.load) if measured else None,
    )
    dated = training.calibrated is not None and training.calibrated.dated is not None
    if asked.training.routing.expert_skew is not None and not dated:
        raise InputError(
            f"--expert-skew {asked.training.routing.expert_skew:.60}: iteration model"
            f" {assumptions.name} times all experts alike: leave it out, or take --iteration-model"
            f" {USUAL_TIMES}, which knows experts under software of a date"
        )
    training = replace(
        training,
        ignore_memory=asked.training.memory.ignore_memory,
        imbalance=asked.training.memory.imbalance,
        overlap_share=asked.training.software.overlap_share,
    )
    _check_used(asked, on, assumptions)
    if not isinstance(model, Model):
        return training
    options = plan_options(asked)
    experts = experts_of(model, options.variant)
    for name, text in software.switches_asked(asked):
        if name in software.OF_EXPERTS and experts is None:
            raise InputError(f"{text}: {model.name} has no experts: leave it out")
    if options.fixed.expert_tensor and experts is None:
        raise InputError(
            f"--fix expert_tensor={options.fixed.expert_tensor}: {model.name} has no experts: leave"
            " it out"
        )
    if experts is not None:
        options.check_experts(experts.count, experts.load)
    memory = stack_memory(asked, reader, on, assumptions, model)
    if memory is None:
        return training
    return replace(
        training,
        stack_memory=memory,
        usable_bytes=on.usable_bytes,
        host_bytes_per_s=on.host_bytes_per_s,
    )


def _loaded(asked: AnyQuestion, model: "Model | OtherModel") -> "Model | OtherModel":
    """What is trained, with its experts loaded as asked for."""
    routing, imbalance = asked.training.routing, asked.training.memory.imbalance
    if routing == ExpertRouting():
        check_imbalance(model.name, model.experts if isinstance(model, Model) else None, imbalance)
        return model
    if not isinstance(model, Model):
        expert_load(model.name, None, routing, imbalance)
        return model
    # An imbalance alone counts as ever, in what holds rows.
    return with_expert_load(model, routing, 1.0 if routing.expert_skew is None else imbalance)


def _check_used(asked: AnyQuestion, on: Accelerator, assumptions: IterationModel) -> None:
    """Refuse more GPUs of each HB domain than it has, and fewer where plans use all there are."""
    used = asked.training.use_per_domain
    if not isinstance(used, int):
        return
    members = sized(asked.cluster, on).hb_size
    if used > members:
        raise InputError(
            f"--use-per-domain {used:,}: an HB domain has {members:,} GPUs: give 1 to {members:,},"
            " or auto"
        )
    if assumptions.space.divisibility != "free" or asked.training.mode != "corrected":
        raise InputError(
            f"--use-per-domain {used:,}: plans of --space {asked.training.space} and --mode"
            f" {asked.training.mode} use all GPUs: leave it out, or take --space free and --mode"
            " corrected"
        )


def workload_of(
    asked: AnyQuestion, model: "Model | OtherModel", assumptions: IterationModel
) -> Workload:
    """A model, and an iteration model as it is asked for, whose plans divide only if asked to.

    Raises
    ------
    InputError
        If the mode repeats slips that the iteration model does not have, or an input means
        nothing for the model.
    """
    if not isinstance(model, Model):
        means_nothing = {*OF_TRANSFORMERS, *OF_PASSES} - set(model.takes)
        asked.reject_inputs(means_nothing, f"{model.name}, of family {model.family}")
        if model.family == "graph" and not model.trains:
            asked.reject_inputs({"optimizer"}, f"{model.name}, which has no backward pass")
        for name, value in (asked.training.fixed or {}).items():
            if name not in model.open_degrees:
                *some, last = model.open_degrees
                known = f"{', '.join(some)} and {last}" if some else last
                raise InputError(
                    f"--fix {name}={value}: of a plan of {model.name}, of family {model.family},"
                    f" {known} is all there is to fix: leave it out"
                )
    compute = assumptions.compute
    plain = (compute.operations, compute.kernels) == ("detailed", "roofline")
    if asked.training.mode == "published-code" and not plain:
        raise InputError(
            f"--mode published-code repeats slips of the 4D model's code, and iteration model"
            f" {assumptions.name} has none of it: leave it out, or take --iteration-model 4d"
        )
    check_stack(asked, assumptions)
    if asked.training.optimizer is not None:
        for key in asked.overrides or {}:
            if key.endswith(OPTIMIZER_STATES):
                raise InputError(
                    f"--optimizer {asked.training.optimizer} and --set {key} both say what the"
                    " optimizer holds: give one of them"
                )
        assumptions = assumptions.under(asked.training.optimizer)
    if asked.training.space == "free" and DIVISIBILITY not in (asked.overrides or {}):
        space = replace(assumptions.space, divisibility="free")
        assumptions = replace(assumptions, space=space)
    memory = assumptions.memory
    policy = asked.training.memory.memory_policy or memory.policy
    if asked.training.memory.offload and policy == "uniform":
        raise InputError(
            f"{flag_text('--offload', asked.training.memory.offload[0])} means nothing where all"
            " parts spill alike: leave it out, or take --memory-policy states-first"
        )
    offload = asked.training.memory.offload or (memory.offload if policy == memory.policy else ())
    changed = replace(memory, policy=policy, offload=tuple(offload))
    return model, replace(assumptions, memory=changed)


def check_tiers(asked: AnyQuestion, *chips: Accelerator) -> None:
    """Refuse to say what lies in an expanded memory where none of the GPUs has one.

    What lies in the host's is no part of it: `stack_memory` checks that.
    """
    offloaded(asked)  # refuses what is no part
    if any(chip.expanded_bytes for chip in chips):
        return
    parts = [part for part in asked.training.memory.offload if ":" not in part]
    for flag, given in (
        ("--offload", parts),
        ("--memory-policy", asked.training.memory.memory_policy),
    ):
        if given:
            raise InputError(
                f"{flag_text(flag, given[0] if flag == '--offload' else given)} needs an"
                f" expanded memory, and {chips[0].name} has none: give one, such as --set"
                " accelerator.expanded_bytes=480e9 --set accelerator.expanded_bytes_per_s=64e9"
            )


def plan_search(asked: AnyQuestion, training: TrainedModel) -> PlanSearch:
    """The search for the best plan of a training run."""
    options = plan_options(asked, run=training)
    return PlanSearch(
        training, strategy_under(asked, training.assumptions), asked.training.mode, options
    )


def training_inputs(asked: AnyQuestion, **resolved: object) -> dict[str, object]:
    """The inputs as the answer shows them, with what the iteration model fills in."""
    shown, assumptions = asked.inputs(), None
    with suppress(CatalogError):  # of those that are simulated only
        assumptions = asked.reader().load(ITERATION_MODELS, asked.training.iteration_model)
    if why := _not_as_fitted(asked):
        shown["not_calibrated"] = why
    if assumptions is not None:
        usual = "auto" if by_stack(asked, assumptions) else assumptions.compute.recompute
        recompute = asked.training.recompute
        shown["recompute"] = usual if recompute in (None, "auto") else recompute
        shown |= software.software_inputs(asked, assumptions)
        shown["strategy"] = strategy_under(asked, assumptions)
    if assumptions is None or assumptions.calibration is None:
        for name in SHOWN_IF_GIVEN:
            if shown.get(name, 0) in (None, True, UNDATED):
                del shown[name]
    given = {name: shown.pop(name, None) for name in (*software.SWITCHES, "hybrid_stages")}
    given["hybrid_stages"] = given["hybrid_stages"] or None
    shown |= {name: value for name, value in given.items() if value is not None}
    return shown | resolved


def _not_as_fitted(asked: AnyQuestion) -> str:
    """Why a run is not timed as the scenario's iteration model would; empty where it is."""
    before = getattr(asked.before.workload, "iteration_model", "")
    if "iteration_model" in asked.given or before in ("", asked.training.iteration_model):
        return ""
    return _no_formulas(asked, before)


def _no_formulas(asked: AnyQuestion, before: str) -> str:
    """Of what an iteration model that is fitted to runs has no formulas; empty if unknown."""
    try:
        model = asked.reader().load(WORKLOADS, asked.training.model)
    except CatalogError:
        return ""
    layers = f"models of family {model.family}"
    if isinstance(model, Model):
        layers = model.unknown or model.unlike
    dated = isinstance(model, Model) and not model.unknown
    layers = layers or ("experts" if asked.training.experts > 1 else "")
    if isinstance(model, Model) and not model.vocabulary:
        return f"{before} has no formulas for models without words"
    if layers and dated:
        why = "without a date of software"
        if asked.training.software.software_date != UNDATED:
            why += f", and {asked.cluster.accelerator} or its stack has no numbers by date"
        return f"{before} has no formulas for {layers} {why}"
    return f"{before} has no formulas for {layers or asked.cluster.accelerator}"


def strategy_under(asked: AnyQuestion, assumptions: IterationModel) -> AnyStrategy:
    """Strategy of tensor parallelism; a fixed context degree implies that the sequence is cut."""
    cut = (asked.training.fixed or {}).get("context", 1) > 1
    if cut and asked.training.strategy == "1d" and assumptions.compute.operations == "detailed":
        return "2d"
    return asked.training.strategy


def read_chip(asked: AnyQuestion, reader: CatalogReader) -> Accelerator:
    """The accelerator that runs the plans, with its expanded memory."""
    named = reader.load(ACCELERATORS, asked.cluster.accelerator)
    return variants(reader, named, (asked.cluster.expanded_memory,))[0].chip


def training_case(asked: AnyQuestion) -> "TrainingCase":
    """Read the files, and build the fabric.

    Raises
    ------
    InputError
        If plans or rings need full HB domains, and the GPUs leave one partly filled.
    """
    reader = asked.reader()
    on, spec = read_chip(asked, reader), reader.fabric(asked.cluster.fabric, asked.cluster)
    check_tiers(asked, on)
    training = read_training(asked, reader, on, asked.cluster.gpus)
    sizing = sized(asked.cluster, on)
    fabric = build_fabric(spec, sizing)
    domain = fabric.sizing.hb_size
    whole = fabric.sizing.full_domains * domain == asked.cluster.gpus
    search = plan_search(asked, training)
    if whole and not fabric.levels:
        raise InputError(
            f"{spec.name} with {asked.cluster.gpus:,} GPUs has no levels of bandwidth that a closed"
            " form could time: take another fabric, or another number of GPUs"
        )
    if not fabric.levels or not (whole or search.setting.free):
        remedies = "a multiple, or another --hb-size"
        if search.setting.powers_of_two:
            remedies = "powers of two for both"
        elif fabric.levels and asked.training.mode == "corrected":
            remedies = "a multiple, another --hb-size, or --space free"
        raise InputError(
            f"{asked.cluster.gpus:,} GPUs do not fill HB domains of {domain:,} on {spec.name}:"
            f" give {remedies}"
        )
    return TrainingCase(spec, fabric, training, reader.replaced(), on)


def plan_inputs(asked: AnyQuestion, case: "TrainingCase", setting: Setting) -> dict[str, object]:
    """The inputs as the answer shows them, with what the best plan's setting made of them."""
    tiered = case.training.expanded is not None
    return training_inputs(
        asked,
        memory_policy=setting.assumptions.memory.policy if tiered else None,
        offload=list(setting.assumptions.memory.offload),
        hb_size=case.fabric.sizing.hb_size,
        batch=case.training.batch,
        zero_stage=setting.zero_stage,
        interleave=setting.interleave,
        fixed=fixed_values(asked.training.fixed or {}).given,
        set=case.replaced,
    )


def training_words(inputs: Mapping[str, Any]) -> str:
    """What is trained, on what, under which assumptions."""
    inputs = short_inputs(inputs)
    return (
        f"training {inputs['model']}, batch {inputs['batch']:,}, on {inputs['accelerator']};"
        f" {assumed(inputs)}"
    )


def assumed(inputs: Mapping[str, Any]) -> str:
    """How time is modelled, and what is asked for beside: software, numbers, optimizer.

    >>> assumed({"iteration_model": "4d"}), assumed({"iteration_model": "4d", "optimizer": "sgd"})
    ('iteration model 4d', 'iteration model 4d, optimizer sgd')
    """
    asked, why = inputs.get("optimizer"), inputs.get("not_calibrated")
    optimizer = [f"optimizer {asked}"] if asked else []
    model = f"iteration model {inputs['iteration_model']}" + (f" ({why})" if why else "")
    return ", ".join([model, *software.stack_words(inputs), *optimizer])


class TrainingCase(Struct, frozen=True):
    """A fabric, what is trained on which GPUs of it, from files, and the values replaced there."""

    spec: FabricSpec
    fabric: Fabric
    training: TrainedModel
    replaced: dict[str, object]
    on: Accelerator
