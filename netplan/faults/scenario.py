"""Failure scenarios: which parts fail, by name or so many at random.

=============================  ===============================================================
``gpu-5``, ``domain-7``, …     a part or a group, by name (`netplan.faults.part_names`)
``links=10``                   ten parts of a kind at random, all alike; groups with weights are
                               drawn by weight
``gpu=0.1%``                   a share of the parts of a kind, rounded to the nearest number
``transceiver=gpu-5:1``        a part of this kind, where a name alone could be another
``@faults.txt``                all faults of a file (`netplan.faults.scenario_files`)
=============================  ===============================================================

Kinds are those of `netplan.faults.stock`. Faults of a scenario come together: named ones
first, then the draws in their order, each from the parts that have not failed by themselves so far.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from netplan.arrays import Floats, Ints
from netplan.errors import CatalogError, InputError, NetplanError
from netplan.faults.damage import Damage
from netplan.faults.groups import RiskGroups
from netplan.faults.part_names import PartNames
from netplan.faults.scenario_files import MAX_CHARACTERS, FaultText, read_fault_file
from netplan.faults.stock import PartKind, Parts, Stock
from netplan.topologies.graph import FabricGraph

COUNT = re.compile(r"[-+]?[0-9][0-9,_]*")
SHARE = re.compile(r"([-+]?[0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]{1,2})?)%")
MAX_DIGITS = 15


@dataclass(frozen=True, slots=True)
class Draw:
    """So many parts of a kind at random; ``text`` says where this was asked."""

    kind: PartKind
    count: int
    text: FaultText


@dataclass(frozen=True, slots=True, eq=False)
class Scenario:
    """Faults that come together.

    Parameters
    ----------
    stock
        The parts of the fabric.
    named
        Parts that fail for certain.
    draws
        Parts that fail at random.
    """

    stock: Stock
    named: tuple[Parts, ...] = ()
    draws: tuple[Draw, ...] = ()

    def parts(self, rng: np.random.Generator) -> tuple[Parts, ...]:
        """Parts that fail, with the random ones drawn.

        Raises
        ------
        InputError
            If more parts of a kind are drawn than are left.
        """
        found = list(self.named)
        for draw in self.draws:
            found.append(Parts(draw.kind, _pick(draw, found, rng)))
        return tuple(found)

    def damage(self, rng: np.random.Generator) -> Damage:
        """Damage of one draw; errors as :meth:`parts`."""
        return self.stock.damage(self.parts(rng))


def read_scenario(faults: Iterable[str], stock: Stock) -> Scenario:
    """Read faults as written; named parts are looked up, random ones are left to be drawn.

    Parameters
    ----------
    faults
        One fault each, as in the table of this module.
    stock
        The parts of the fabric.

    Raises
    ------
    NetplanError
        If a fault cannot be read, a part is unknown, or more parts fail than there are. The message
        is one line; for a fault from a file it begins with file and line.

    Examples
    --------
    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.topologies.specs import FABRICS
    >>> graph = expand(FABRICS.load("rail-only"), Sizing(1024, 32, 8, 450e9, 50e9))
    >>> scenario = read_scenario(["gpu-5", "leaves=2", "gpu=0.1%"], Stock(graph))
    >>> [(draw.kind.name, draw.count) for draw in scenario.draws]
    [('leaf', 2), ('gpu', 1)]
    >>> int(scenario.damage(np.random.default_rng(0)).node_down.sum())
    4
    """
    names = PartNames(stock)
    named: list[Parts] = []
    draws: list[Draw] = []
    for fault in _all_texts(faults):
        try:
            _read(fault, names, named, draws)
        except NetplanError as error:
            if not fault.where:
                raise
            raise CatalogError(f"{fault.where}{error}") from None
    return Scenario(stock, tuple(named), tuple(draws))


def parse_faults(
    faults: Iterable[str],
    graph: FabricGraph,
    *,
    groups: Sequence[RiskGroups] = (),
    rng: np.random.Generator | None = None,
) -> Damage:
    """Damage of some faults.

    Parameters
    ----------
    faults
        One fault each, as in the table of this module.
    graph
        The fabric.
    groups
        Risk groups besides those of the graph: racks, feeds, trays, a user's own.
    rng
        Draws the random parts; None takes a generator with seed 0.

    Raises
    ------
    NetplanError
        As :func:`read_scenario`.

    Examples
    --------
    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.topologies.specs import FABRICS
    >>> graph = expand(FABRICS.load("rail-only"), Sizing(1024, 32, 8, 450e9, 50e9))
    >>> damage = parse_faults(["gpu-0:1--rail-0/leaf-0:1", "links=10"], graph)
    >>> int(damage.link_down.sum()), int(damage.node_down.sum())
    (11, 0)
    """
    scenario = read_scenario(faults, Stock(graph, tuple(groups)))
    return scenario.damage(np.random.default_rng(0) if rng is None else rng)


def _all_texts(faults: Iterable[str]) -> Iterable[FaultText]:
    """Faults one by one, those of files among them."""
    for fault in faults:
        text = fault.strip()
        if text.startswith("@"):
            yield from read_fault_file(Path(text[1:]))
        elif not text or len(text) > MAX_CHARACTERS or not text.isprintable():
            raise InputError(
                f"{text[:40]!r} is no fault: name a part, such as gpu-5, or a number of parts,"
                " such as links=10"
            )
        else:
            yield FaultText(text)


def _read(fault: FaultText, names: PartNames, named: list[Parts], draws: list[Draw]) -> None:
    """Add one fault to the named ones or to the draws."""
    left, equals, right = (part.strip() for part in fault.text.partition("="))
    if not equals:
        named.append(names.find(left))
        return
    kind = names.stock.kind(left)
    count = _count(fault.text, right, kind)
    if count is None:
        named.append(names.find(right, kind))
    else:
        draws.append(Draw(kind, count, fault))


def _count(text: str, what: str, kind: PartKind) -> int | None:
    """Number of parts that a fault asks for; None if it names one."""
    there, least = len(kind.numbers), 0
    share = SHARE.fullmatch(what)
    if share:
        percent = float(share[1])
        if not 0 <= percent <= 100:  # noqa: PLR2004 - a share of all
            raise InputError(f"{text!r:.60}: a share is out of range: give 0% to 100%")
        count = int(there * percent / 100 + 0.5)
        least = 1 if percent else 0
    elif COUNT.fullmatch(what) and len(what) <= MAX_DIGITS:
        count = int(what.replace(",", "").replace("_", ""))
    elif not what or what[0] in "+-.0123456789":
        raise InputError(
            f"{text!r:.60}: give a whole number of parts, a share such as 0.1%, or a name"
        )
    else:
        return None
    if least <= count <= there:
        return count
    if count < least == 1:
        raise InputError(f"{text!r:.60}: that is less than one of {there:,}: give a whole number")
    raise InputError(
        f"{text!r:.60}: the fabric has {there:,} of kind {kind.name}, give 0 to {there:,}"
    )


def _pick(draw: Draw, failed: Sequence[Parts], rng: np.random.Generator) -> Ints:
    """Draw parts that have not failed by themselves so far."""
    kind = draw.kind
    # A leaf is a switch, but a port and the transceiver in it are two parts.
    taken = [
        parts.numbers
        for parts in failed
        if parts.kind.space == kind.space
        and parts.kind.groups is kind.groups
        and (kind.space != "end" or parts.kind.name == kind.name)
    ]
    pool = kind.numbers
    if any(len(numbers) for numbers in taken):
        pool = pool[~np.isin(pool, np.concatenate(taken))]
    chance: Floats | None = None
    if kind.groups is not None and kind.groups.weight is not None:
        weight = kind.groups.weight[pool]
        pool, weight = pool[weight > 0], weight[weight > 0]
        chance = weight / weight.sum() if len(pool) else None
    if draw.count > len(pool):
        raise InputError(
            f"{draw.text.where}{draw.text.text!r:.60}: only {len(pool):,} of {len(kind.numbers):,}"
            f" of kind {kind.name} are left to fail: give at most {len(pool):,}"
        )
    return np.sort(rng.choice(pool, draw.count, replace=False, p=chance))
