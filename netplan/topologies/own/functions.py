"""Functions of Python that are named as fabrics: each makes a graph for every size."""

import re
from collections.abc import Callable
from itertools import count

from msgspec import Struct


class FabricFunction(Struct, frozen=True, eq=False):
    """A function of Python that makes a graph for every size, and its number among all."""

    make: Callable[..., object]
    number: int

    @property
    def title(self) -> str:
        """First line of its documentation; empty if it has none."""
        return (self.make.__doc__ or "").strip().partition("\n")[0].strip(" .")


FUNCTIONS: dict[str, FabricFunction] = {}
"""Functions that were named as fabrics in this process, by their names."""


def register_fabric(make: Callable[..., object], name: str = "") -> str:
    """Name a function as a fabric; where the name is given, every question takes its graph.

    Parameters
    ----------
    make
        Takes a :class:`~netplan.topologies.fabric.Sizing`, gives a graph of networkx (nodes with
        ``kind``, edges with ``gbps`` or ``bytes_per_s``) or a
        :class:`~netplan.topologies.graph.FabricGraph`.
    name
        What it is called; as the function is, if empty.

    Returns
    -------
    str
        The name, without signs that words do not have where it is the function's.

    Examples
    --------
    >>> def two_towers(sizing): "Two switches."
    >>> from netplan.topologies.specs import FABRICS
    >>> register_fabric(two_towers), FABRICS.load("two_towers").title
    ('two_towers', 'Two switches')
    """
    name = name or re.sub(r"\W+", "", getattr(make, "__name__", "")) or "function"
    known = FUNCTIONS.get(name)
    if known is None or known.make is not make:
        FUNCTIONS[name] = FabricFunction(make, next(_NUMBERS))
    return name


_NUMBERS = count(1)
