"""One pass of a step through all stages of a server."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from netplan.arrays import Floats, Ints
from netplan.performance.serving.plans import ServingPlans
from netplan.performance.serving.step_times import Served, StepTime
from netplan.traffic.placement import distinct
from netplan.workloads.inference import Cut, Step


class ModelPass(NamedTuple):
    """A pass of many plans: its latency with its parts, and what the fullest stage takes [s]."""

    parts: StepTime
    stage_s: Floats


def model_pass(
    served: Served, plans: ServingPlans, sequences: Floats, step_of: Callable[[Floats], Step]
) -> ModelPass:
    """One pass with so many requests of each copy, from the first stage to the last.

    Parameters
    ----------
    served
        The model on its kernels and levels.
    plans
        How it lies, shape (plans,).
    sequences
        Requests of each copy, shape (plans,) [1].
    step_of
        The step of so many requests.
    """
    model, stages = served.model, plans.pipeline
    cut, place, sequences = _distinct(plans, sequences)
    step = step_of(sequences)
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


def _distinct(plans: ServingPlans, sequences: Floats) -> tuple[Cut, Ints, Floats]:
    """Cuts that differ, with their sequences: all that the time of a layer depends on."""
    _, rank = np.unique(sequences, return_inverse=True)
    rows = np.stack([plans.tensor, plans.attention_data, plans.expert, rank + 1])
    first, place = distinct(rows)
    return plans.take(first).cut, place, sequences[first]
