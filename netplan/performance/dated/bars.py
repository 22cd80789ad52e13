"""Error bars under software of a date: of the model's class, and why they may be wide.

A bar is the 5th to the 95th percentile of measured over predicted times of runs that were predicted
by fits without their source or release. It counts where stack and accelerator have such runs and
the plan has nothing that none of them has; a recipe that is taken from the date widens it. Anything
else is ``transferred``: the bar of runs that were predicted by fits without their model, as many
times less as more. ``netplan verify --bars`` makes all of them anew.
"""

from collections.abc import Iterator, Sequence

from netplan.levels import Level
from netplan.performance.calibrated_run import CalibratedRun, DatedDomain, Factors
from netplan.performance.dated.run import DatedRun, model_kind
from netplan.performance.error_bars import Basis, ErrorBar, beyond_tried
from netplan.performance.plan import Plan
from netplan.performance.setting import Setting
from netplan.workloads.program import SHARDED_WEIGHTS

CALIBRATED: Basis = "calibrated"
TRANSFERRED: Basis = "transferred"
PRESET = "recipe taken from the software date"


def dated_bar(setting: Setting, levels: Sequence[Level], plan: Plan) -> ErrorBar | None:
    """The error bar of a plan's iteration time; None without software of a date.

    Parameters
    ----------
    setting
        What is trained, and what of the plan was given.
    levels
        Of the fabric.
    plan
        The plan.

    Returns
    -------
    ErrorBar or None
        Ends as multiples of the time [1], whose error they are, and every reason why they are no
        narrower.
    """
    run = setting.training.calibrated
    if run is None or run.dated is None or run.part.errors.dated is None:
        return None
    errors, dated = run.part.errors, run.dated
    tpu, known = dated.generation == "tpu", run.part.errors.dated
    bar = known.of(dated.kind, tpu=tpu)
    reasons = (*run.untried, *_untried(setting, run, dated, known.domain, levels, plan))
    whole, reasons = run.bar_of(dated.kind, bar.scored, bar.wide, reasons)
    basis = TRANSFERRED if reasons else CALIBRATED
    options = setting.options
    searched = options.recomputation is None or options.kept_by_search
    if not reasons and bar.preset is not None and (dated.recipe.from_date or searched):
        if run.held_out:  # as much wider as that of published runs is
            low, high = bar.preset.low / bar.scored.low, bar.preset.high / bar.scored.high
            whole = Factors(low=min(1.0, whole.low * low), high=max(1.0, whole.high * high))
        else:
            whole = bar.preset
        reasons = (PRESET,)
    kind = f"tpu-{dated.kind}" if tpu else dated.kind
    return ErrorBar(whole, errors.own, errors.repeat, basis, reasons, errors.chosen, kind)


def transferred_bar(setting: Setting) -> ErrorBar | None:
    """The bar of an iteration model that was fitted to no run, where its file has one.

    Parameters
    ----------
    setting
        What is trained.

    Returns
    -------
    ErrorBar or None
        Transferred, of the model's class.
    """
    errors, model = setting.assumptions.errors, setting.training.model
    if errors is None or model.family != "transformer":
        return None
    kind = model_kind(setting.transformer)
    if kind == "dense" and setting.experts is not None:
        kind = "moe"
    wide: float = getattr(errors, kind)
    whole = Factors(low=1 / wide, high=wide)
    why = f"iteration model {setting.assumptions.name} was fitted to kernels, not to runs"
    if kind != "dense" and not setting.transformer.unknown:
        why += "; calibrated has formulas and bars for experts"
    return ErrorBar(whole, whole, 0.0, TRANSFERRED, (why,), 1.0, kind)


def _untried(
    setting: Setting,
    run: CalibratedRun,
    dated: DatedRun,
    tried: DatedDomain,
    levels: Sequence[Level],
    plan: Plan,
) -> Iterator[str]:
    """What no scored run has."""
    model, name = setting.transformer, run.stack.name
    if dated.kind != "dense" and name in tried.dense_stacks:
        yield f"no run of stack {name} with experts was scored"
    kinds = {run.network_kind or level.network_kind for level in levels[1:] if level.size > 1}
    for kind in sorted(kinds - {*tried.networks}) if dated.generation != "tpu" else ():
        yield f"no run on a network of {kind} was scored"
    if dated.precision == "mxfp8" and dated.generation != "blackwell":
        yield f"no run in mxfp8 was scored on {run.accelerator} or its like"
    yield from _untried_experts(setting, dated, tried, levels)
    gathers = (setting.zero_stage if plan.zero is None else plan.zero) == SHARDED_WEIGHTS
    if gathers and setting.experts is not None and dated.generation != "tpu":
        yield "no run with experts under ZeRO 3 on GPUs was published"
    if dated.kind == "hybrid" and model.name not in tried.hybrids:
        yield f"no run of {model.name} was scored, and hybrids differ"
    windows = model.window_attention
    if model.value_head_size or not model.causal or (windows and windows.own_heads):
        yield "no run with such attention was scored"
    length, sequences = model.sequence_length, f"sequences of {model.sequence_length:,} tokens"
    yield from beyond_tried(sequences, length, tried.least_sequence, tried.most_sequence)
    if plan.gpus > tried.most_gpus:
        yield f"{plan.gpus:,} GPUs, tried were up to {tried.most_gpus:,}"
    if dated.kind == "hybrid" and plan.pipeline > 1:
        yield "no run of a hybrid with several stages was scored"


def _untried_experts(
    setting: Setting, dated: DatedRun, tried: DatedDomain, levels: Sequence[Level]
) -> Iterator[str]:
    """What of its experts no scored run has."""
    experts = setting.experts
    if experts is None:
        return
    count, per_token = experts.count, experts.per_token
    yield from beyond_tried(f"{count:,} experts", count, tried.least_experts, tried.most_experts)
    limits = tried.least_per_token, tried.most_per_token
    yield from beyond_tried(f"{per_token:,} experts a token", per_token, *limits)
    if setting.training.imbalance != 1 or experts.load is not None:
        yield "published runs balance their routers by force"
    if experts.capacity_factor is not None:
        yield "runs that drop tokens were not scored"
    if any(level.same_rank for level in levels) and dated.recipe.exchanges:
        yield "no run with experts on a rail-only network was published"
