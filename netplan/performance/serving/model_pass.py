"""One pass of a step through all stages of a server."""

from typing import NamedTuple

import numpy as np

from netplan.arrays import Floats, Ints
from netplan.performance.serving.plans import ServingPlans
from netplan.performance.serving.step_times import Served, StepTime
from netplan.traffic.placement import distinct
from netplan.workloads.inference import Step


class ModelPass(NamedTuple):
    """A pass of many plans: its latency with its parts, and what the fullest stage takes [s]."""

    parts: StepTime
    stage_s: Floats


def model_pass(served: Served, plans: ServingPlans, step: Step) -> ModelPass:
    """One pass of a step from the first stage to the last.

    Parameters
    ----------
    served
        The model on its kernels and levels.
    plans
        How it lies, shape (plans,).
    step
        What each copy of attention works on, its amounts numbers or of shape (plans,).
    """
    model, stages = served.model, plans.pipeline
    first, place = _distinct(plans, step)
    cut, step = plans.take(first).cut, step.take(first)
    layer, head = (part.take(place) for part in served.step(cut, step))
    hop_s = np.where(stages > 1, served.hop_s(cut, step.rows)[place], 0.0)
    whole = layer.scaled(model.layers).plus(head)
    sent = (stages - 1) * hop_s
    parts = StepTime(whole.seconds + sent, whole.compute_s, whole.memory_s, whole.network_s + sent)
    return ModelPass(parts, _fullest_s(model.layers, stages, layer, head) + hop_s)


def _fullest_s(layers: int, stages: Ints, layer: StepTime, head: StepTime) -> Floats:
    """Time of the fullest stage, or of the last one where all are as full [s]."""
    even = layers % stages == 0
    found: Floats = -(-layers // stages) * layer.seconds + np.where(even, head.seconds, 0.0)
    return found


def _distinct(plans: ServingPlans, step: Step) -> tuple[Ints, Ints]:
    """First of all that the time of a layer depends on, and which of them each plan has."""
    amounts = (np.asarray(one) for one in (step.sequences, step.tokens, step.context))
    ranks = [np.unique(one, return_inverse=True)[1] + 1 for one in amounts if one.ndim]
    return distinct(np.stack([plans.tensor, plans.attention_data, plans.expert, *ranks]))
