"""How much of a fabric is left as more and more of its parts fail, drawn at random.

Parts fail in one random order, so that a step holds all failures of the step before. What is left
are the GPUs that are up and whose own ports still reach the rest; that others may forward for a
GPU through its HB domain is not counted, nor does a share say how fast a job goes on.
"""

import numpy as np
from msgspec import Struct

from netplan.faults.damage import Islands, cut_off_gpus, intact_islands
from netplan.faults.inventory import Inventory, Parts

STEPS = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000)
MOST_SHARE = 0.2
"""Share of the parts up to which they fail [1]."""


class Attrition(Struct, frozen=True):
    """What is left of a fabric.

    Parameters
    ----------
    kind
        Parts that fail, as an inventory calls them.
    parts
        How many there are [1].
    left
        Failed parts [1] and the share of GPUs that keep their network [1], step by step.
    """

    kind: str
    parts: int
    left: tuple[tuple[int, float], ...]


def attrition(
    inventory: Inventory, kind: str, rng: np.random.Generator, intact: Islands | None = None
) -> Attrition | None:
    """Let parts of one kind fail, one random order for all steps; None where there are none.

    Parameters
    ----------
    inventory
        The parts of the fabric.
    kind
        Which of them fail, such as ``switch`` or ``link``.
    rng
        Draws the order.
    intact
        Islands of the intact network; None finds them.

    Examples
    --------
    Each leaf of a rail takes the ports of 32 of 256 GPUs.

    >>> from netplan import Scenario
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=256, radix=32)
    >>> graph = scenario.fabric("rail-only").graph()
    >>> attrition(Inventory(graph), "switch", np.random.default_rng(0)).left
    ((0, 1.0), (1, 0.875))
    """
    found = inventory.kinds.get(kind)
    if found is None or not len(found.numbers):
        return None
    graph, total = inventory.graph, len(found.numbers)
    order, intact = rng.permutation(found.numbers), intact or intact_islands(graph)[0]
    left = [(0, 1.0)]
    for count in STEPS:
        if count > max(1, MOST_SHARE * total):
            break
        damage = inventory.damage([Parts(found, order[:count])])
        down = int(damage.node_down[: graph.gpus].sum())
        gone = down + len(cut_off_gpus(graph, damage, intact))
        left.append((count, 1 - gone / graph.gpus))
    return Attrition(kind, total, tuple(left))
