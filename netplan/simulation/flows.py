"""Who sends to whom in an iteration: messages name flows before these are put on links."""

from msgspec import Struct

from netplan.simulation.work import FlowMessage, Phase
from netplan.traffic.placement import Placement
from netplan.workloads.operations import CollectiveKind

IN_PASS, BESIDE, ASIDE = range(3)
"""Threads of a stage: operations with their collectives, what goes on beside a layer, and what
goes on beside whole passes. Further ones are those of branches."""


def thread_of(branch: int) -> int:
    """Thread of a branch of a layer; 0 is the pass itself.

    >>> thread_of(0) == IN_PASS, thread_of(1)
    (True, 3)
    """
    return ASIDE + branch if branch else IN_PASS


class Flows(Struct, frozen=True):
    """Who sends to whom at one moment.

    Parameters
    ----------
    stage
        Pipeline stage that sends.
    to
        Stage that receives; the same one in a collective.
    dimensions
        Dimensions in which the members of one group of a collective differ.
    to_all
        Whether it is an all_to_all; all other collectives send alike.
    replica
        Data parallel replica that sends; None for all of them at once.
    memory
        Whether it is between GPUs and their memory channels.
    """

    stage: int
    to: int
    dimensions: tuple[str, ...] = ()
    to_all: bool = False
    replica: int | None = None
    memory: bool = False


class FlowUse(Struct):
    """What uses some flows: threads of stages, and how fast.

    Messages of one thread of a stage follow each other: those in its passes, those beside its
    layers, and those beside its passes. Transfers belong to no thread.

    Parameters
    ----------
    number
        Number of these flows.
    threads
        Those that issue such messages; what comes before and after all passes is in none.
    seconds_per_byte
        Of the fastest of these messages [s/B].
    """

    number: int
    threads: set[int]
    seconds_per_byte: float


FlowUses = dict[Flows, FlowUse]


class FlowSender:
    """Makes messages of flows, and notes who uses which of them.

    Parameters
    ----------
    placement
        Groups of ranks; groups of one send nothing.
    """

    def __init__(self, placement: Placement) -> None:
        self.placement = placement
        self.uses: FlowUses = {}
        self.replica: int | None = None
        """Data parallel replica whose work is made; None if it stands for all."""

    def message(self, flows: Flows, seconds: float, sent_bytes: float, thread: int | None) -> Phase:
        """One message, or a delay where nothing is sent; notes who uses the flows."""
        members = self.placement.degree(*flows.dimensions) if flows.dimensions else 2
        if members == 1 or not sent_bytes:
            return seconds
        pace = seconds / sent_bytes
        use = self.uses.setdefault(flows, FlowUse(len(self.uses), set(), pace))
        use.seconds_per_byte = min(pace, use.seconds_per_byte)
        if thread is not None:
            use.threads.add(thread)
        return FlowMessage(use.number, sent_bytes, seconds)

    def among(self, stage: int, kind: CollectiveKind, dimensions: tuple[str, ...]) -> Flows:
        """Flows of a collective in all groups of a stage."""
        return Flows(stage, stage, dimensions, kind == "all_to_all", self.replica)
