"""What other installed packages add to netplan, by entry points.

A package names it in its ``pyproject.toml``, a line each, and ``pip install`` makes it known::

    [project.entry-points."netplan.fabrics"]
    spider = "my_networks:Spider"

==============================  ===================================================================
``netplan.fabrics``             a family, which is a subclass of
                                :class:`~netplan.topologies.specs.FabricSpec`, or a function that
                                makes the graph of a fabric for a
                                :class:`~netplan.topologies.fabric.Sizing`
``netplan.questions``           a subclass of :class:`~netplan.setup.question.Question`
``netplan.formats``             a function that gives the lines of a file for a
                                :class:`~netplan.topologies.graph.FabricGraph`
``netplan.iteration_models``    a mapping with the keys of such a file
``netplan.evaluators``          a function that times iterations for such files, as
                                :class:`~netplan.performance.evaluation.Evaluator`
``netplan.collectives``         an :class:`~netplan.traffic.algorithms.Algorithm`
==============================  ===================================================================

Looking for them reads the metadata of all that is installed, so that only names which netplan
itself does not have are looked for there.
"""

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Group = Literal[
    "netplan.fabrics",
    "netplan.questions",
    "netplan.formats",
    "netplan.iteration_models",
    "netplan.evaluators",
    "netplan.collectives",
]


@cache
def added(group: Group) -> Mapping[str, "EntryPoint"]:
    """What packages add to a group.

    Parameters
    ----------
    group
        One of those of the table above.

    Returns
    -------
    Mapping
        Entry points by name; ``load()`` imports what they name.

    Examples
    --------
    >>> sorted(added("netplan.fabrics"))
    []
    """
    from importlib.metadata import entry_points  # noqa: PLC0415 - seldom used, and slow

    return {entry.name: entry for entry in entry_points(group=group)}
