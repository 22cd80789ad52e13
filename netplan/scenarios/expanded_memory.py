"""Expanded memory by name: what a question puts behind the memory of each GPU, and pays for."""

from collections.abc import Sequence

from msgspec import Struct

from netplan.errors import InputError
from netplan.scenarios.reading import CatalogReader
from netplan.workloads.accelerators import Accelerator
from netplan.workloads.technologies import MEMORIES, Memory, expanded

NONE = "none"
"""Stands for GPUs without expanded memory."""


class Variant(Struct, frozen=True):
    """An accelerator as one design has it.

    Parameters
    ----------
    chip
        The accelerator, its expanded memory included.
    memory
        What is bought behind its own memory, if anything.
    name
        The memory's name, ``none`` without one; empty where nobody asked.
    """

    chip: Accelerator
    memory: Memory | None = None
    name: str = ""


def variants(
    reader: CatalogReader, chip: Accelerator, names: Sequence[str | None]
) -> tuple[Variant, ...]:
    """One accelerator with each of these expanded memories; as its file has it where none is named.

    Raises
    ------
    InputError
        If a memory's file leaves its capacity open.
    """
    asked = [name for name in dict.fromkeys(names) if name]
    if not asked:
        return (Variant(chip),)
    memories = [read_memory(reader, name) for name in asked]
    return tuple(
        Variant(expanded(chip, memory), memory, memory.name if memory else NONE)
        for memory in memories
    )


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
        memories = (MEMORIES.load(known, reader.roots) for known in MEMORIES.paths(reader.roots))
        sized = ", ".join(other.name for other in memories if other.memory_bytes)
        raise InputError(
            f"--expanded-memory {name}: its file leaves the capacity open: take one of {sized}, or"
            f" --set {memory.name}.memory_bytes=256e9"
        )
    return memory


def with_memory(name: str, variant: str) -> str:
    """A fabric with an expanded memory, in words.

    Examples
    --------
    >>> with_memory("rail-only", "comet-480gb"), with_memory("rail-only", NONE)
    ('rail-only with comet-480gb', 'rail-only')
    """
    return name if variant in ("", NONE) else f"{name} with {variant}"
