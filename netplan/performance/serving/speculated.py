"""Speculative decoding on a server: a draft model beside the one that is served.

Formulas and sources stand in `netplan.performance.serving.speculation`. The draft lies whole on the
GPUs of each copy of attention, cut over its tensor GPUs, with a cache of its own; with pipeline
stages it runs on those of the first.
"""

from collections import Counter

import numpy as np
from msgspec import Struct

from netplan.arrays import Amount, Floats
from netplan.inputs.choices import Scheme
from netplan.performance.serving.memory import HeldBytes, held_bytes
from netplan.performance.serving.model_pass import model_pass
from netplan.performance.serving.plans import ServingPlans
from netplan.performance.serving.speculation import BRANCHES, checked_tokens, tokens_per_step
from netplan.performance.serving.step_times import Served, StepTime
from netplan.records import replace
from netplan.workloads.inference import Step


class Speculated(Struct, frozen=True, eq=False):
    """What is drafted before each step, and how much of it is accepted."""

    draft: Served
    window: int
    acceptance: float
    scheme: Scheme

    @property
    def tokens(self) -> float:
        """Tokens that a step gives on average [1]."""
        return float(tokens_per_step(self.window, self.acceptance, self.scheme))

    @property
    def checked(self) -> int:
        """Tokens that the model passes over in a step [1]."""
        return int(checked_tokens(self.window, self.scheme))

    def drafted(self, plans: ServingPlans, step: Step) -> StepTime:
        """Time of all passes of the draft before one step."""
        tree = self.scheme == "tree"
        levels = Counter(BRANCHES**level if tree else 1 for level in range(self.window))
        zero = np.zeros(plans.count)
        whole = StepTime(zero, zero, zero, zero)
        for tokens, times in levels.items():
            level = replace(step, tokens=float(tokens))
            one = model_pass(self.draft, self._plans(plans), level)
            whole = whole.plus(one.parts.scaled(times))
        return whole

    def prompt_s(self, plans: ServingPlans, step: Step) -> Floats:
        """Time in which the draft reads a prompt [s]."""
        return model_pass(self.draft, self._plans(plans), step).parts.seconds

    def held(self, plans: ServingPlans, tokens: Amount) -> HeldBytes:
        """What the draft holds of each GPU."""
        return held_bytes(self.draft.model, self._plans(plans), self.draft.formats, tokens)

    def _plans(self, plans: ServingPlans) -> ServingPlans:
        """How the draft lies: in one stage, its experts if any on the GPUs of all copies."""
        ones = np.ones_like(plans.tensor)
        return replace(plans, pipeline=ones, expert=ones)
