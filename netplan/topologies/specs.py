"""Fabric files: the shape of a network, from which its counts, levels and graph are made."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from math import gcd
from pathlib import Path
from stat import S_ISREG
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta
from msgspec.structs import force_setattr

from netplan.catalog import Record, Shelf
from netplan.documents import Document, lineless
from netplan.errors import CatalogError
from netplan.inputs.choices import NetworkKind
from netplan.records import NonNegativeInt, PositiveFloat, PositiveInt, RecordError, replace
from netplan.topologies.graph import Medium
from netplan.topologies.keys import (
    DIRECT,
    DRAGONFLIES,
    FAMILIES,
    HOST_CABLES,
    IN_SETS,
    JOINED,
    OVERSUBSCRIBED,
    OWN_DOMAINS,
    OWN_GRAPHS,
    REGULAR,
    Family,
    faults_of,
    only,
    reads,
)
from netplan.topologies.own.functions import FUNCTIONS
from netplan.topologies.parts import Axis, DomainKind, Tile
from netplan.topologies.torus_sizes import MAX_DIMENSIONS, refuse_other_cubes, refuse_other_twists

Arrangement = Literal["absolute", "relative", "circulant"]
HYBRID_SIZE, HYBRID_LINKS_PER_GPU = 8, 6
MESH_AXES = 2
BoardSide = Annotated[int, Meta(ge=1, le=64)]
CatalogName = Annotated[str, Meta(pattern="^[a-z0-9][a-z0-9-]*$", max_length=64)]


class FabricSpec(Record, frozen=True, kw_only=True):
    """A fabric, as its catalog file describes it.

    Every fabric joins HB domains: ``hb_kind`` and ``hb_size`` say how the GPUs of one domain are
    joined and how many they are; without ``hb_size`` the accelerator's own domain stands.
    ``hb_link_bytes_per_s`` and ``link_bytes_per_s`` are the rates of one link inside the domains
    and between them, one direction [B/s]; without them those of the accelerator stand.
    ``hb_planes`` is the number of switches that share a domain, ``hb_scheme`` a named wiring of
    direct links. With ``hb_leaf_gpus`` and ``hb_spines`` each of these planes has two tiers: a
    switch for so many GPUs, and so many above it. ``accelerators`` are those that a product is
    built with; for a design that is none they are left out. One that is not ``in_sets`` stands in
    only where it is named. What joins the domains is the ``family``, with the keys of that family.
    """

    family: Family
    hb_kind: Annotated[Literal["switch", "ring", "mesh"], only(*OWN_DOMAINS)] = "switch"
    hb_size: PositiveInt | None = None
    hb_planes: Annotated[PositiveInt, only(*OWN_DOMAINS)] = 1
    hb_leaf_gpus: Annotated[PositiveInt | None, only(*OWN_DOMAINS)] = None  # at a lower HB switch
    hb_spines: Annotated[PositiveInt | None, only(*OWN_DOMAINS)] = None  # above these, a plane
    hb_scheme: Annotated[Literal["hybrid-cube-mesh"] | None, only(*OWN_DOMAINS)] = None
    hb_link_bytes_per_s: Annotated[PositiveFloat | None, only(*OWN_DOMAINS, *OWN_GRAPHS)] = None
    link_bytes_per_s: Annotated[PositiveFloat | None, only(*OWN_DOMAINS, "tiles", *DIRECT)] = None
    accelerators: tuple[str, ...] = ()
    in_sets: Annotated[bool, only(*IN_SETS)] = True
    network_kind: NetworkKind = "infiniband"
    notes: tuple[str, ...] = ()

    # trees of switches
    domains: Annotated[tuple[DomainKind, ...], only("clos")] = ()  # of several sizes or kinds
    rail_wiring: Annotated[bool, only("clos")] = True
    oversubscription: Annotated[float, Meta(ge=1), only(*OVERSUBSCRIBED)] = 1.0
    management_links: Annotated[NonNegativeInt, only("clos", "scalable-units")] = 0
    # each GPU's port split into as many, one to each plane
    planes: Annotated[PositiveInt, only("clos", *JOINED)] = 1
    # rate of a link above the leaves over that of a port
    trunk_width: Annotated[PositiveInt, only("clos")] = 1
    # every pod alike, as fat-tree routing asks
    even_pods: Annotated[bool, only(*OVERSUBSCRIBED)] = True

    # GraphML, edge list, .topo or ibnetdiscover output, beside the fabric file or below
    file: Annotated[str, only("graph")] = ""
    stamp: tuple[int, ...] = ()  # of the file or function as it was read; no key of a file

    # a BCube's levels are its dimensions; a HyperX has at most so many
    dimensions: Annotated[int, Meta(ge=1, le=MAX_DIMENSIONS), only("torus", "bcube", "hyperx")] = 3
    # of a HammingMesh: boards in a row, and rows; of tiles: columns and rows
    sizes: Annotated[
        tuple[PositiveInt, ...] | None, only("torus", "hyperx", "hammingmesh", "tiles")
    ] = None
    copper_block: Annotated[NonNegativeInt, only("torus")] = 0
    wraparound: Annotated[bool, only("torus")] = True
    # around a short dimension half of every long one is passed
    twist: Annotated[bool, only("torus")] = False
    # joins the faces of blocks, which are cubes
    circuit_switch: Annotated[CatalogName | None, only("torus")] = None
    # GPUs along both sides of a board
    board: Annotated[tuple[BoardSide, BoardSide] | None, only("hammingmesh")] = None
    axes: Annotated[tuple[Axis, ...], only("product")] = ()
    tile: Annotated[Tile | None, only("tiles")] = None

    # switches that are joined directly; all absent: balanced for the radix (dragonfly: a = 2p = 2h)
    hosts_per_switch: Annotated[PositiveInt | None, only("dragonfly", *JOINED)] = None
    switches_per_group: Annotated[PositiveInt | None, only(*DRAGONFLIES)] = None
    global_links_per_switch: Annotated[PositiveInt | None, only(*DRAGONFLIES)] = None
    # or half the ports of a switch
    spines_per_group: Annotated[PositiveInt | None, only("dragonfly-plus")] = None
    groups: Annotated[PositiveInt | None, only(*DRAGONFLIES)] = None
    links_per_pair: Annotated[PositiveInt | None, only(*DRAGONFLIES, "hyperx")] = None
    global_arrangement: Annotated[Arrangement, only("dragonfly")] = "absolute"
    host_medium: Annotated[Medium, only(*HOST_CABLES)] = "optical"
    local_medium: Annotated[Medium, only(*DRAGONFLIES)] = "optical"
    # q of the paper
    order: Annotated[PositiveInt | None, only("slim-fly")] = None
    # links of a switch, or GPU, to others
    degree: Annotated[PositiveInt | None, only(*REGULAR, *DIRECT)] = None
    switches: Annotated[PositiveInt | None, only(*REGULAR)] = None
    # draw of the graph
    seed: Annotated[NonNegativeInt, only(*REGULAR, *DIRECT)] = 0
    # places between switches, or GPUs, that are joined, instead of a draw
    strides: Annotated[tuple[PositiveInt, ...] | None, only("circulant", "direct-circulant")] = None

    @classmethod
    def check_first(cls, data: Mapping[str, object]) -> None:
        """Refuse another kind of design at once, and keys that its family does not read."""
        if data.get("stamp"):
            raise ValueError("unknown key stamp")
        family = data.get("family", "clos")
        if family not in FAMILIES:
            raise ValueError(
                f"family {family!r:.40} has no builder, so it cannot be a fabric: known are"
                f" {', '.join(FAMILIES)}"
            )
        faults = faults_of(cls, str(family), data)
        if faults:
            raise RecordError(faults)

    def __post_init__(self) -> None:
        """Refuse keys that only mean something beside others."""
        usual = dict(
            zip(self.__struct_fields__[::-1], self.__struct_defaults__[::-1], strict=False)
        )
        given = [key for key in usual if getattr(self, key) != usual[key]]
        for fault in faults_of(type(self), self.family, given):
            raise ValueError(fault.text)
        if self.hb_scheme and (self.hb_kind != "mesh" or self.hb_size != HYBRID_SIZE):
            raise ValueError("hb_scheme hybrid-cube-mesh needs hb_kind: mesh and hb_size: 8")
        self._refuse_domains()
        if self.family == "product" and not self.axes:
            raise ValueError("family: product needs axes")
        if self.family == "tiles" and self.tile is None:
            raise ValueError("family: tiles needs a tile")
        if self.family == "tiles" and (self.hb_size != 1 or len(self.sizes or (1, 1)) != MESH_AXES):
            raise ValueError("family: tiles needs hb_size: 1, and two sizes if any")
        if len({axis.kind for axis in self.axes if axis.size is None}) > 1:
            raise ValueError(
                "axes: at most one kind takes the size that the others leave, got rings and meshes"
            )
        self._refuse_half_shapes()
        self._refuse_other_shapes()

    def _refuse_domains(self) -> None:
        """Refuse HB switches in domains without any, and tiers that are half given."""
        if self.hb_planes > 1 and self.hb_kind != "switch":
            raise ValueError("hb_planes counts HB switches: it needs hb_kind: switch")
        if (self.hb_leaf_gpus is None) != (self.hb_spines is None):
            raise ValueError("hb_leaf_gpus and hb_spines make two tiers: give both or none")
        if self.hb_spines is not None and self.hb_kind != "switch":
            raise ValueError("hb_spines counts HB switches: it needs hb_kind: switch")
        if self.domains:
            self._share_domains()

    def _share_domains(self) -> None:
        """Refuse kinds of domains that do not go together; take the group that fits into all."""
        sizes = [one.size for one in self.domains]
        group = gcd(*sizes)
        direct = [one for one in self.domains if one.kind != "switch"]
        kind = direct[0].kind if direct else "switch"
        if None in [one.count for one in self.domains[:-1]]:
            raise ValueError("domains: only the last kind may have no count")
        if any((one.kind, one.size, one.planes) != (kind, group, 1) for one in direct):
            raise ValueError(
                f"domains joined directly are of one kind, and of the size that divides all others:"
                f" {group} of {', '.join(map(str, sizes))}; let switches join the others"
            )
        own = self.hb_scheme, self.hb_spines, self.hb_link_bytes_per_s, self.hb_planes
        same = self.hb_size in (None, group) and self.hb_kind in ("switch", kind)
        if own != (None, None, None, 1) or not same:
            raise ValueError(
                "domains say how their GPUs are joined: leave out hb_kind, hb_size, hb_planes,"
                " hb_spines, hb_scheme and hb_link_bytes_per_s"
            )
        force_setattr(self, "hb_size", group)
        force_setattr(self, "hb_kind", kind)

    def _refuse_half_shapes(self) -> None:
        """Refuse shapes of a dragonfly that are half given."""
        shape = (self.hosts_per_switch, self.switches_per_group, self.global_links_per_switch)
        given = any(shape) or self.groups or self.links_per_pair
        if self.family == "dragonfly" and given and None in shape:
            raise ValueError(
                "hosts_per_switch, switches_per_group and global_links_per_switch make the shape of"
                " a dragonfly together, and groups and links_per_pair need all three: give them, or"
                " leave all out"
            )

    def _refuse_other_shapes(self) -> None:
        """Refuse no sizes, boards in other than two axes, and twists without rings."""
        if self.sizes == ():
            raise ValueError("sizes is empty: give one for each dimension, or leave it out")
        if self.family == "hammingmesh" and len(self.sizes or (1, 1)) != MESH_AXES:
            raise ValueError(
                "family: hammingmesh takes two sizes if any: boards in a row, and rows"
            )
        if self.circuit_switch:
            alone = self.hb_size == 1 and self.wraparound
            refuse_other_cubes(self.copper_block, self.sizes or (), single=alone)
        if self.twist:
            refuse_other_twists(self.sizes, self.dimensions, rings=self.wraparound)

    def hb_ports(self, hb_size: int) -> int:
        """Ports of a GPU that an HB domain of this size takes; those of the network follow [1]."""
        if self.domains:
            return max(one.ports for one in self.domains)
        if hb_size == 1:
            return 0
        if self.hb_kind == "switch":
            return self.hb_planes
        if self.hb_scheme:
            return HYBRID_LINKS_PER_GPU
        return hb_size - 1 if self.hb_kind == "mesh" else min(2, hb_size - 1)

    def to_dict(self) -> dict[str, Any]:
        """All values that its family reads as plain data, by the keys of the file."""
        found = super().to_dict()
        return {key: found[key] for key in found if reads(type(self), self.family, key)}

    @property
    def only_named(self) -> bool:
        """Whether sets of all fabrics leave it out: it stands in only where it is named."""
        return not (self.in_sets and self.even_pods) or self.family not in IN_SETS

    def built_with(self, accelerator: str) -> tuple[str, ...]:
        """Accelerators of a product, where this is none of them: nothing recommends it then."""
        return () if accelerator in self.accelerators else self.accelerators


class FabricShelf(Shelf[FabricSpec], frozen=True):
    """Fabric files; a graph of somebody's network stands for a fabric, too."""

    other_suffixes: ClassVar[tuple[str, ...]] = (".graphml", ".csv", ".topo", ".ibnetdiscover")

    def load(
        self, name: str, roots: Sequence[Path] = (), overrides: Mapping[str, str] | None = None
    ) -> FabricSpec:
        """Load a fabric by name or by path, or one that a function makes."""
        made = FUNCTIONS.get(name)
        if made is not None:
            return FabricSpec(
                name=name,
                title=made.title or f"What the function {name} makes",
                source=f"function {name}",
                date="",
                family="graph",
                in_sets=False,
                stamp=(made.number,),
            )
        spec = super().load(name, roots, overrides)
        return spec.changed(stamp=_stamp(Path(spec.file))) if spec.file else spec

    def read(self, path: Path) -> Document:
        """A file as parsed, the file of a graph with its whole path."""
        if path.suffix.lower() in self.other_suffixes:
            day = datetime.fromtimestamp(path.stat().st_mtime, UTC).date()
            told = {"title": f"The network of {path.name}", "source": path.name, "date": f"{day}"}
            whole = {"file": str(path), "family": "graph", "in_sets": False}
            return lineless(path, {"name": path.stem, **told, **whole})
        document = super().read(path)
        named = document.data.get("file")
        if not isinstance(named, str) or not named:
            return document
        folder = path.resolve().parent
        found = (folder / named).resolve()
        if Path(named).is_absolute() or not found.is_relative_to(folder):
            raise CatalogError(
                f"{path}:{document.line(['file'])}: file {named!r:.80}: name a file beside this"
                " one, or in a folder below it"
            )
        return replace(document, data=document.data | {"file": str(path.parent / named)})


def _stamp(path: Path) -> tuple[int, ...]:
    """Time of the last change of a file [ns], and its size [bytes]."""
    try:
        found = path.stat()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no name of a file"
        raise CatalogError(f"{path}: cannot be read: {reason}") from None
    if not S_ISREG(found.st_mode):
        raise CatalogError(f"{path}: no regular file: name the file of a graph")
    return found.st_mtime_ns, found.st_size


FABRICS = FabricShelf("fabric", "topologies", FabricSpec)
