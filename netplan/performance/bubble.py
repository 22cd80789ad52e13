"""The bubble of a pipeline: layers that stages wait for (see `netplan.performance.iteration`)."""

from typing import NamedTuple

import numpy as np

from netplan.arrays import Floats
from netplan.performance.setting import Setting
from netplan.performance.space import Runs, real
from netplan.workloads.program import Repetition


class Bubble(NamedTuple):
    """Layers in the bubble, each of shape (schedules,) [1]."""

    full: Floats  # if microbatches fill the stages
    unfilled: Floats  # further ones, for want of microbatches


def bubble_layers(setting: Setting, rules: Repetition, runs: Runs) -> Bubble:
    """Layers in the bubble of schedules.

    Parameters
    ----------
    setting
        Says whether the bubble is counted as scheduled, and which share of it counts.
    rules
        Layers of the model, and those of a stage.
    runs
        Stages, microbatches and interleaved stages, shape (schedules,).

    Returns
    -------
    Bubble
        Layers in the bubble, shape (schedules,) [1].

    References
    ----------
    Narayanan et al., arXiv:2104.04473, Sec. 2.2.
    """
    fullest = rules.fullest(runs.stages)
    m, v = real(runs.microbatches), real(runs.interleave)
    full = setting.bubble_share * (rules.layers - fullest) / v
    if not setting.scheduled_bubble:
        return Bubble(full, np.zeros_like(full))
    return Bubble(full, (v - 1) / v * np.maximum(rules.layers - m * fullest, 0))
