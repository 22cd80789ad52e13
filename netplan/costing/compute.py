"""What is bought beside the network where a question asks for it: accelerators, expanded memory.

Each is one line of the one bill, priced by its model: memory by the GB of its kind, an accelerator
by the piece, its share of the server included.
"""

from collections.abc import Iterator
from math import ceil

from msgspec import Struct

from netplan.costing.materials import BillItem
from netplan.units import GIGA, si
from netplan.workloads.accelerators import Accelerator
from netplan.workloads.technologies import Memory


class Compute(Struct, frozen=True):
    """What of the compute is on the bill: accelerators, and the expanded memory of each."""

    accelerator: Accelerator | None = None
    memory: Memory | None = None


NO_COMPUTE = Compute()


def compute_lines(compute: Compute, gpus: int, speed_gbps: float) -> Iterator[BillItem]:
    """Lines of the accelerators and of their expanded memory, for all GPUs bought.

    Parameters
    ----------
    compute
        What is counted.
    gpus
        GPUs bought [1].
    speed_gbps
        Link rate of the bill, which no price here depends on [Gb/s].

    Examples
    --------
    >>> from netplan.workloads.technologies import MEMORIES
    >>> (line,) = compute_lines(Compute(memory=MEMORIES.load("comet-480gb")), 1024, 400.0)
    >>> line.quantity, line.price_units, line.item
    (1024, 480, 'Expanded memory comet-480gb')
    """
    chip, memory = compute.accelerator, compute.memory
    if chip is not None:
        yield BillItem(
            category="accelerators",
            item=f"Accelerator {chip.name}",
            specification=f"{chip.title}; its share of the server, without network cards",
            quantity=gpus,
            unit="each",
            part="accelerator",
            speed_gbps=speed_gbps,
            model=chip.name,
            typical_w=chip.power_w,
        )
    if memory is not None and memory.memory_bytes is not None:
        yield BillItem(
            category="memory",
            item=f"Expanded memory {memory.name}",
            specification=f"{si(memory.memory_bytes, 'B')} at {si(memory.bytes_per_s, 'B/s')}",
            quantity=gpus,
            unit="GPU",
            part="memory",
            speed_gbps=speed_gbps,
            price_units=ceil(memory.memory_bytes / GIGA),
            model=memory.kind or memory.name,
            typical_w=memory.power_w,
        )
