"""Expanded memory by name: what a question puts behind the memory of each GPU, and pays for."""

from netplan.errors import InputError
from netplan.questions.inputs import CatalogReader
from netplan.workloads.technologies import MEMORIES, Memory

NONE = "none"
"""Stands for a GPU without expanded memory, where several are compared."""


def read_memory(reader: CatalogReader, name: str | None) -> Memory | None:
    """The expanded memory of a name; None without one.

    Raises
    ------
    InputError
        If its file leaves the capacity open, so that nobody could pay for it.
    """
    if name in (None, NONE):
        return None
    memory = reader.named(MEMORIES, name)
    if memory is not None and memory.memory_bytes is None:
        fitting = (MEMORIES.load(one, reader.roots) for one in MEMORIES.paths(reader.roots))
        known = ", ".join(one.name for one in fitting if one.memory_bytes)
        raise InputError(
            f"--expanded-memory {name}: its file leaves the capacity open: take one of {known}, or"
            f" --set {memory.name}.memory_bytes=256e9"
        )
    return memory
