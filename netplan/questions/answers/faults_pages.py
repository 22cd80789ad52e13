"""What a page shows of a fabric under failures: what has failed, and what is left of it.

The drawing has the failures that were asked for, else the single network switch or link whose
failure is worst.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from netplan.faults.damage.damage import Components, Damage, cut_off_gpus
from netplan.faults.damage.impact import Subject
from netplan.faults.damage.inventory import Inventory
from netplan.faults.damage.survival import Attrition, attrition
from netplan.questions.answers.faults_charts import PLURAL, capacity
from netplan.reports.escape import short
from netplan.reports.sections import Column, Inset, Section, Table, column
from netplan.topologies.colours import Coloured
from netplan.topologies.fabric import Fabric
from netplan.topologies.graph import FabricGraph
from netplan.units import counted

if TYPE_CHECKING:
    from markupsafe import Markup

WORDS = 60


class Seen(Struct, frozen=True):
    """A fabric with failed parts in colour, what has failed, and what is left as more fails."""

    what: str
    draw: "Callable[[], Markup]"
    left: tuple[Attrition, ...]

    @property
    def rows(self) -> list[dict[str, object]]:
        """What is left, step by step, as JSON."""
        return [
            {"kind": one.kind, "parts": one.parts, "failed_parts": count, "gpus_left_share": share}
            for one in self.left
            for count, share in one.left
        ]


def damage_colours(
    graph: FabricGraph, damage: Damage, intact: Components | None = None
) -> Coloured:
    """What has failed, and who is cut off by it, as a drawing colours it.

    ``intact`` are the islands of the whole network, where they are known.
    """
    lost = np.zeros(graph.node_count, bool)
    lost[cut_off_gpus(graph, damage, intact)] = True
    return Coloured(links_out=damage.links_out(graph), nodes_out=damage.node_down, cut_off=lost)


def seen(subject: Subject, inventory: Inventory, damage: Damage, what: str, seed: int) -> Seen:
    """A fabric whose failures a page draws, and whose switches and links fail one by one."""
    graph, intact = subject.graph, subject.components[0]
    out = damage_colours(graph, damage, intact)
    parts = (attrition(inventory, kind, np.random.default_rng(seed), intact) for kind in PLURAL)
    lost = 0 if out.cut_off is None else int(out.cut_off.sum())
    gone = f"{counted(lost, 'GPU')} cut off" if lost else "no GPU cut off"
    return Seen(
        f"{short(what, WORDS)} failed, {gone}",
        partial(_drawn, graph, subject.fabric, out),
        tuple(part for part in parts if part is not None),
    )


def _drawn(graph: FabricGraph, fabric: Fabric, coloured: Coloured) -> "Markup":
    """The drawing, which takes as long as the answer: only for a page."""
    from netplan.topologies.drawings.network import drawing_of
    from netplan.topologies.drawings.places import network_map

    return drawing_of(graph, fabric, network_map(graph, fabric.levels, legible=True), coloured)


def drawings(fabrics: Sequence[tuple[str, Seen | None]]) -> Iterator[Section]:
    """Each fabric with its failures."""
    for name, one in fabrics:
        if one is not None:
            yield Inset(f"{name}: {one.what}", one.draw)


def curves(fabrics: Sequence[tuple[str, Seen | None]]) -> Iterator[Section]:
    """What is left as more parts fail: curves on pages, rows for programs."""
    every = [(name, left) for name, one in fabrics if one for left in one.left]
    for kind in dict.fromkeys(one.kind for _, one in every):
        yield capacity([(name, one) for name, one in every if one.kind == kind], kind)
    rows = [(name, one.kind, one.parts, *step) for name, one in every for step in one.left]
    yield Table("capacity", LEFT, rows, only="programs")


LEFT: tuple[Column[Any], ...] = (
    column("fabric", "0"),
    column("kind", "1"),
    column("parts", "2"),
    column("failed_parts", "3"),
    column("gpus_left_share", "4"),
)
