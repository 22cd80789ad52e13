"""Failure policies: kinds of incidents by weight, each a scenario of its own.

A policy has modes. An incident is of one mode, picked by weight: seven times a link, twice a leaf,
once a whole rack. Groups of a kind may differ in weight too, so that an old row fails more often
than a new one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np

from netplan.errors import InputError
from netplan.topologies.faults.damage import Damage
from netplan.topologies.faults.scenario import Scenario, read_scenario
from netplan.topologies.faults.stock import Stock


@dataclass(frozen=True, slots=True, eq=False)
class Policy:
    """Incidents and how often they come.

    Parameters
    ----------
    names
        Name of each mode, shape (modes,).
    chances
        Chance that an incident is of the mode; together 1.
    modes
        What fails.
    """

    names: tuple[str, ...]
    chances: tuple[float, ...]
    modes: tuple[Scenario, ...]

    def draw(self, count: int, rng: np.random.Generator) -> Iterator[tuple[int, Damage]]:
        """Modes and damages of so many incidents, one by one.

        Raises
        ------
        InputError
            If a mode draws more parts of a kind than are left.
        """
        for mode in rng.choice(len(self.modes), count, p=np.array(self.chances)).tolist():
            yield mode, self.modes[mode].damage(rng)


def read_policy(
    weights: Mapping[str, float], faults: Mapping[str, Sequence[str]], stock: Stock
) -> Policy:
    """Make a policy from faults as written.

    Parameters
    ----------
    weights
        Weight of each mode, by its name [1]; only their ratios count.
    faults
        Faults of each mode, as in `netplan.topologies.faults.scenario`.
    stock
        The parts of the fabric.

    Raises
    ------
    NetplanError
        If a mode lacks faults or a weight, a weight is negative, all are 0, or a fault is wrong.

    Examples
    --------
    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.topologies.specs import FABRICS
    >>> stock = Stock(expand(FABRICS.load("rail-only"), Sizing(1024, 32, 8, 450e9, 50e9)))
    >>> modes = {"link": ["link=1"], "leaf": ["leaf=1"], "server": ["domain=1"]}
    >>> policy = read_policy({"link": 7, "leaf": 2, "server": 1}, modes, stock)
    >>> policy.names, policy.chances
    (('link', 'leaf', 'server'), (0.7, 0.2, 0.1))
    >>> sum(int(damage.link_down.sum()) for _, damage in policy.draw(9, np.random.default_rng(0)))
    6
    """
    if set(weights) != set(faults):
        odd = min(set(weights) ^ set(faults))
        raise InputError(f"mode {odd!r:.40} of the policy needs both a weight and faults")
    for name, weight in weights.items():
        if not (isfinite(weight) and weight >= 0):
            raise InputError(f"mode {name!r:.40}: got weight {weight:g}, give a number from 0 on")
    total = float(sum(weights.values()))
    if total <= 0:
        raise InputError("a policy needs a mode whose weight is above 0")
    return Policy(
        tuple(weights),
        tuple(weight / total for weight in weights.values()),
        tuple(read_scenario(faults[name], stock) for name in weights),
    )
