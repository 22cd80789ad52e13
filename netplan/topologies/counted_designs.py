"""Published designs that are counted, not wired: what all families of them share.

Such a design has no builder. Its file says what the source publishes (segments, ports, ratios), its
family multiplies that out, and what does not fit the ports of a switch is refused.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from netplan.catalog import Record
from netplan.errors import InputError

Counts = Mapping[str, float]
"""Numbers of a design by their column in a table of designs: ``gpus``, ``leaf_switches``, …"""


@dataclass(frozen=True, slots=True)
class DesignSize:
    """What a question adds to a design's file; 0 or empty where it adds nothing.

    Parameters
    ----------
    gpus, radix
        GPUs of the cluster, and ports of a switch [1].
    partition
        Kind of groups that is asked about.
    """

    gpus: int = 0
    radix: int = 0
    partition: str = ""


class CountedDesign(Record):
    """A design, as its catalog file describes it; ``family`` says which keys are its own."""

    takes: ClassVar[tuple[str, ...]] = ()
    """What :class:`DesignSize` must say; a design whose size is published takes nothing."""

    family: str
    notes: tuple[str, ...] = ()

    def counts(self, size: DesignSize | None = None) -> Counts:
        """Count switches, links and what else is published.

        Parameters
        ----------
        size
            What the file leaves open.

        Raises
        ------
        InputError
            If the size says too little or too much, or the design does not exist in this size.

        Examples
        --------
        >>> from netplan.topologies.designs import DESIGNS
        >>> DESIGNS.load("zcube").counts(DesignSize(gpus=1024))["total_switches"]
        64
        """
        size = size or DesignSize()
        given = tuple(key for key in DesignSize.__slots__ if getattr(size, key))
        if given != self.takes:
            raise InputError(
                f"design {self.name}: got {' and '.join(given) or 'no size'}, give"
                f" {' and '.join(self.takes) or 'none: its own size is in its file'}"
            )
        return self.multiplied_out(size)

    @abstractmethod
    def multiplied_out(self, size: DesignSize) -> Counts:
        """Counts for a size that fits :attr:`takes`."""
