"""A fabric of a scenario: what it takes, its graph of nodes and links, and its bill.

Three faces of one spec that agree: counts (closed forms), levels (the bandwidth hierarchy that
times are made from), and the graph. The bill is that of ``netplan cost``, to the cent.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from netplan.errors import NetplanError
from netplan.levels import Level
from netplan.scenarios.parts import Books, Cluster
from netplan.scenarios.reading import CatalogReader, sized, with_cards, with_ports
from netplan.topologies.build import build_fabric
from netplan.topologies.fabric import Fabric as Counts
from netplan.topologies.fabric import Sizing
from netplan.topologies.specs import FabricSpec
from netplan.workloads.accelerators import ACCELERATORS

if TYPE_CHECKING:
    from netplan.costing.fabric_bill import Bill
    from netplan.topologies.graph import FabricGraph


class Fabric(Struct, frozen=True, eq=False):
    """A fabric sized for a cluster, which :meth:`Scenario.fabric` makes.

    Parameters
    ----------
    spec
        Its catalog file, with the values that the scenario replaces.
    counts
        Switches by tier, links by group, and their lower bounds, each [1].
    cluster, books
        What it was sized for, and what its bill is counted with.
    overrides
        Values of catalog files that are replaced.
    catalog
        Folder of the user's own catalogs.

    Examples
    --------
    >>> from netplan import Scenario
    >>> fabric = Scenario.load("hgx-b200").replace(gpus=8192).fabric("rail-only")
    >>> fabric
    <Fabric rail-only: 8,192 GPUs in HB domains of 8, 192 switches, 16,384 links>
    >>> fabric.tiers, fabric.transceivers, fabric.bill().total.base
    (2, 28974, 53447699.236)
    """

    spec: FabricSpec
    counts: Counts
    cluster: Cluster
    books: Books
    overrides: Mapping[str, str]
    catalog: str | Path | None = None

    @property
    def name(self) -> str:
        """Name of its spec."""
        return self.counts.name

    @property
    def title(self) -> str:
        """What it is, in a few words."""
        return self.counts.title

    @property
    def gpus(self) -> int:
        """GPUs that it joins [1]."""
        return self.counts.sizing.gpus

    @property
    def hb_size(self) -> int:
        """GPUs of an HB domain, its own where the design has one [1]."""
        return self.counts.sizing.hb_size

    @property
    def radix(self) -> int:
        """Ports of a switch at the rate of its links [1]."""
        return self.counts.sizing.radix

    @property
    def link_gbps(self) -> float:
        """Rate of a network link, one direction [Gb/s]."""
        return self.counts.sizing.speed_gbps

    @property
    def gpu_bytes_per_s(self) -> float:
        """Network bandwidth of a GPU, all its ports together, one direction [B/s]."""
        return self.counts.gpu_bytes_per_s

    @property
    def tiers(self) -> int:
        """Tiers of switches; 0 where GPUs are joined directly [1]."""
        return len(self.counts.tiers)

    @property
    def switches(self) -> int:
        """Switches to build [1]."""
        return self.counts.switches

    @property
    def links(self) -> int:
        """Links to build outside of HB domains, those of the GPUs included [1]."""
        return self.counts.link_count

    @property
    def transceivers(self) -> int:
        """Ends of optical links [1]."""
        return self._in_hall.transceivers

    @property
    def copper_cables(self) -> int:
        """Links in copper [1]."""
        return self._in_hall.copper_cables

    @property
    def _in_hall(self) -> Counts:
        """Its counts, with the links in copper as its bill has them, if it has one."""
        try:
            return self.bill().fabric
        except NetplanError:
            return self.counts

    @property
    def cards(self) -> int:
        """Network cards [1]."""
        return self.counts.cards

    @property
    def levels(self) -> tuple[Level, ...]:
        """Bandwidth hierarchy, from the inside out; empty where none describes it."""
        return self.counts.levels

    @property
    def notes(self) -> tuple[str, ...]:
        """Assumptions and warnings, one sentence each."""
        return self.counts.notes

    def graph(self) -> "FabricGraph":
        """Every node, port and link, as arrays.

        Returns
        -------
        FabricGraph
            Nodes, GPUs first, and links, shape (nodes,) and (links,); ``.to_networkx()`` copies a
            small one.

        Raises
        ------
        InputError
            If it has more links than a graph holds.

        Examples
        --------
        >>> from netplan import Scenario
        >>> Scenario.load("hgx-b200").replace(gpus=64, radix=16).fabric("rail-only").graph()
        <FabricGraph rail-only: 64 GPUs, 76 nodes, 128 links>
        """
        from netplan.topologies.expand import expand  # noqa: PLC0415 - counts need no graph

        return expand(self.spec, self.counts.sizing)

    def bill(self) -> "Bill":
        """What it costs and draws, line by line: that of ``netplan cost``.

        Returns
        -------
        Bill
            Its price ``.total`` from low to high [currency of the books], ``.power_w`` [W], and
            ``.to_frame()`` with a row a line.

        Raises
        ------
        InputError
            If the switch model does not fit, or a book or a share of spares is not allowed.
        InfeasibleError
            If the ports do not close.

        Examples
        --------
        >>> from netplan import Scenario
        >>> Scenario.load("rail-only-paper").replace(radix=128).fabric("rail-only").bill().total
        Range(low=49020928.0, base=49020928.0, high=49020928.0)
        """
        from netplan.costing.fabric_bill import make_bill  # noqa: PLC0415 - counts need no money
        from netplan.costing.switches import require_switch  # noqa: PLC0415
        from netplan.scenarios.bill_books import spares_of, whole_books  # noqa: PLC0415

        reader = CatalogReader(self.catalog, self.overrides)
        books = whole_books(self.cluster, self.books, reader)
        asked = size_cluster(self.cluster, reader)
        require_switch(books.switch, [self.spec], asked, reader.roots)
        return make_bill(
            self.spec,
            asked,
            books,
            fabric=self.counts,
            spares=spares_of(self.books, reader),
            currency=self.books.currency or "",
        )

    def __repr__(self) -> str:
        """In a line: what it joins, and what it takes."""
        return (
            f"<Fabric {self.name}: {self.gpus:,} GPUs in HB domains of {self.hb_size:,},"
            f" {self.switches:,} switches, {self.links:,} links>"
        )


def size_cluster(cluster: Cluster, reader: CatalogReader) -> Sizing:
    """What fabrics of a cluster are built for.

    Parameters
    ----------
    cluster
        GPUs, switches, cards.
    reader
        Of its accelerator, with the values that are replaced.

    Returns
    -------
    Sizing
        GPUs, ports and rates, with the ports of the switch model where it says them.

    Raises
    ------
    InputError
        If nothing says how many ports a switch has.
    """
    cluster = with_ports(cluster, reader.overrides, reader.roots)
    return sized(cluster, reader.load(ACCELERATORS, cluster.accelerator))


def plan_fabric(
    name: str,
    cluster: Cluster,
    books: Books,
    *,
    overrides: Mapping[str, str],
    catalog: str | Path | None = None,
) -> Fabric:
    """Size a fabric for a cluster.

    Parameters
    ----------
    name
        Name of the catalog, or path to a file.
    cluster, books
        What it joins, and what its bill is counted with.
    overrides
        Values of catalog files that are replaced, such as ``accelerator.memory_bytes``.
    catalog
        Folder of the user's own catalogs.

    Returns
    -------
    Fabric
        The fabric.

    Raises
    ------
    InputError
        If it cannot be built in this size; the message says what can.
    CatalogError
        If there is no such fabric, or its file is malformed.
    """
    reader = CatalogReader(catalog, with_cards(cluster, overrides))
    cluster = with_ports(cluster, reader.overrides, reader.roots)
    (spec,) = reader.fabrics((name,), cluster)
    counts = build_fabric(spec, size_cluster(cluster, reader))
    return Fabric(spec, counts, cluster, books, reader.overrides, catalog)
