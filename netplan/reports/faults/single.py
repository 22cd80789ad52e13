"""One part of each kind fails: the table that sets fabrics side by side."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from netplan.reports.faults.impact import Impact, Subject, impact_of, pod_shares
from netplan.topologies.faults.part_names import PartNames
from netplan.topologies.faults.stock import Parts, Stock

SKIPPED = frozenset({"link", "transceiver", "switch", "manager"})
"""Kinds that others stand for: a link by its group, a switch by its tier."""

BIG_GROUPS = frozenset({"rail", "plane", "hall", "row", "batch"})
"""Groups that fail as a whole only in a scenario that says so."""


@dataclass(frozen=True, slots=True)
class Single:
    """The failure of one part.

    Parameters
    ----------
    kind, part
        Kind of part, and the one that failed.
    parts
        How many there are [1].
    impact
        What it does.
    """

    kind: str
    part: str
    parts: int
    impact: Impact

    def to_dict(self) -> dict[str, Any]:
        """The failure as JSON."""
        return asdict(self)


def single_failures(subject: Subject, stock: Stock) -> Iterator[Single]:
    """One failure of each kind of part, the one in the middle of its kind.

    Parts of a kind are alike but for those at the edge of a fabric that does not fill its
    switches; one in the middle stands for most.
    """
    names = PartNames(stock)
    kinds = [kind for kind in stock.kinds.values() if kind.name not in SKIPPED | BIG_GROUPS]
    middle = [Parts(kind, kind.numbers[[len(kind.numbers) // 2]]) for kind in kinds]
    damages = [stock.damage([parts]) for parts in middle]
    shares = pod_shares(subject, damages)
    for parts, damage, share in zip(middle, damages, shares, strict=True):
        impact = impact_of(subject, damage, share)
        name = next(iter(names.of(parts)))
        yield Single(parts.kind.name, name, len(parts.kind.numbers), impact)
