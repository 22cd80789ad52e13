"""Time of forward passes alone on a plan that trains: scores of answers, by any iteration model.

A trainer that scores (log-probabilities of the policy before its update and of a reference, a
reward) runs each batch forward through the plan that it trains on. That is an iteration of which
all is left out that only a way back has. What is counted, with m microbatches, p stages:

===============  ===================================================================================
layers           operations forward, once, whatever an iteration computes again; nothing is kept for
                 a way back, and no scores are stored but by stacks whose attention is not fused
head             one product with the words of three, the loss and no gradients of it; the embedding
                 looks up alone; layers that predict further tokens do not run
collectives      tensor, context and expert ones of the forward pass
pipeline_comm    each transfer once
bubble           (p - 1) stages forward, under zero-bubble schedules too: nothing fills it
data_comm        none, as weights are where the last update left them; under ZeRO 3 weights are
                 gathered for the forward pass of every microbatch, hidden as in an iteration
host             a third of the launches (:data:`netplan.performance.calibrated.FORWARD_LAUNCHES`)
fixed            all of it: what hands out a batch and collects results belongs to every step, and
                 no run tells how much of it is the optimizer's
software,        the same factors: of kernels, and of GPUs that wait for the slowest
jitter
optimizer        none, nor buffers of gradients, nor an update in an expanded memory
===============  ===================================================================================

Where states lie in an expanded memory, weights are read there as in training. It is one pass over
one batch; of another model (a reward) setting and plan are that model's.

The simulation of inference (`netplan.simulation`) takes as long on a single stage, and up to 2 %
less on several, whose transfers it hides; but it has nothing fixed, gathers no sharded weights,
runs prediction layers, and stores scores where an iteration does. Of calibrated models it has a
third of both ways of the ends, and passes that the host lengthens as in an iteration. With the
setting of :func:`scoring_setting` none of that differs but what is fixed or gathered.
"""

from collections.abc import Sequence

from netplan.errors import InputError
from netplan.levels import Level
from netplan.performance.compute import LayerGroups, layer_table
from netplan.performance.evaluation import terms_of
from netplan.performance.memory import with_spill
from netplan.performance.plan import Plan, PlanTime
from netplan.performance.setting import Setting
from netplan.performance.space import listed_plans
from netplan.records import replace

BACKWARD_PARTS = ("recompute", "optimizer", "update")
"""Parts of an iteration that forward passes have nothing of."""


def forward_pass(setting: Setting, levels: Sequence[Level], timed: PlanTime) -> dict[str, float]:
    """Parts of the time of one forward pass over a batch on a plan [s].

    Parameters
    ----------
    setting
        What is trained, as a search finds it; its batch and sequence are those that are scored, and
        need not be those of the plan.
    levels
        Those of the fabric, innermost first.
    timed
        The plan, whose degrees, microbatch and interleaving count, and its memory.

    Returns
    -------
    dict[str, float]
        Time of each part by the name that it has in an iteration, which add up to the pass [s].

    Raises
    ------
    InputError
        If the model is no transformer, or the plan has degrees for more or fewer levels.

    Examples
    --------
    GPT-1T on 16,384 B200: more than a third of an iteration, as half of all collectives show.

    >>> from netplan.performance.iteration_model import ITERATION_MODELS
    >>> from netplan.performance.search import evaluate_plan
    >>> from netplan.performance.setting import TrainedModel
    >>> from netplan.traffic.placement import Degrees, Placement
    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> from netplan.workloads.models import MODELS
    >>> b200, fourd = ACCELERATORS.load("b200"), ITERATION_MODELS.load("4d")
    >>> training = TrainedModel.make(b200, MODELS.load("gpt-1t"), fourd)
    >>> levels = (Level("switch", 8, 900e9, 0, 2.5e-6), Level("switch", 2048, 100e9, 0, 5e-6))
    >>> plan = Plan(Placement((Degrees(tensor=8), Degrees(data=32, pipeline=64))), 1, 128)
    >>> timed = evaluate_plan(training, levels, plan)
    >>> seconds = sum(forward_pass(Setting(training), levels, timed).values())
    >>> round(seconds, 3), round(seconds / timed.iteration_time_s, 3)
    (1.173, 0.363)
    """
    given = len(timed.plan.placement.levels)
    if given != len(levels):
        raise InputError(f"a plan has degrees at every level: got {given} for {len(levels)} levels")
    if not setting.by_stack:  # which time nothing that spills
        setting = with_spill(setting, timed)
    scoring = scoring_setting(timed.plan.applied_to(setting))
    plan = scored_plan(scoring, timed.plan)
    network, space = scoring.network(tuple(levels)), listed_plans([plan])
    groups = LayerGroups.of(network, space.layer_placements, space.sharding_layer)
    table = layer_table(scoring, space.sharding, groups)
    parts_s = terms_of(scoring, network, space, table).parts(0, 0, 0)
    return {name: part_s for name, part_s in parts_s.items() if name not in BACKWARD_PARTS}


def scoring_setting(setting: Setting) -> Setting:
    """The setting of forward passes alone, for their program, times and traffic.

    Parameters
    ----------
    setting
        What is trained, with the ZeRO stage of its plan.

    Returns
    -------
    Setting
        The same that does not train: without prediction layers, and with nothing computed again.

    Raises
    ------
    InputError
        If the model is no transformer.
    """
    model, options = setting.transformer, setting.options
    variant = replace(options.variant, recompute="selective", again=())
    if model.prediction_layers:
        training = replace(setting.training, model=model.changed(prediction_layers=0))
        setting = replace(setting, training=training)
    options = replace(options, variant=variant, offload_layers=None)
    return replace(setting, options=options, trains=False)


def scored_plan(setting: Setting, plan: Plan) -> Plan:
    """The plan with as many microbatches as the batch of a setting gives its slowest replica.

    Parameters
    ----------
    setting, plan
        Whose batch is cut, and into microbatches of which plan.
    """
    microbatches = setting.microbatches(plan.microbatch, plan.placement.totals)
    return replace(plan, microbatches=int(microbatches.max()))
