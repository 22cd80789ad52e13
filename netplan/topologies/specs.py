"""Fabric files: the shape of a network, from which its counts, levels and graph are made."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import count, product
from math import gcd
from pathlib import Path
from stat import S_ISREG
from typing import Annotated, ClassVar, Literal, get_args

from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from netplan.catalog import Record, Shelf
from netplan.documents import Document, lineless
from netplan.errors import CatalogError
from netplan.levels import NetworkKind
from netplan.records import Entry, NonNegativeInt, PositiveFloat, PositiveInt, replace

Family = Literal[
    "clos",
    "rail-only",
    "scalable-units",
    "torus",
    "product",
    "dragonfly",
    "bcube",
    "tiles",
    "hyperx",
    "slim-fly",
    "jellyfish",
    "dragonfly-plus",
    "hammingmesh",
    "circulant",
    "xpander",
    "direct-circulant",
    "direct-random",
    "graph",
]
Medium = Literal["optical", "copper", "on-board", "on-chip"]
"""What links are made of; those of a board or a chip come with it."""
UNCABLED: tuple[Medium, ...] = ("on-board", "on-chip")
Arrangement = Literal["absolute", "relative", "circulant"]
HYBRID_SIZE, HYBRID_LINKS_PER_GPU = 8, 6
MESH_AXES, MAX_DIMENSIONS = 2, 6
LEAST_CUBE = 3
"""Side of the smallest cube whose two faces have GPUs of their own beside its inside [1]."""
BoardSide = Annotated[int, Meta(ge=1, le=64)]
CatalogName = Annotated[str, Meta(pattern="^[a-z0-9][a-z0-9-]*$", max_length=64)]
OVERSUBSCRIBED = ("clos", "rail-only")
"""Families whose leaves may have more ports down than up."""
DIRECT = ("direct-circulant", "direct-random")
"""Families of graphs whose nodes are HB domains, joined rail by rail."""
OWN_GRAPHS = ("graph", *DIRECT)
"""Families whose counts and levels are those of a graph."""
SWITCHLESS = ("torus", "product", "tiles", *DIRECT)
"""Families whose links lead from GPU to GPU."""
JOINED = ("hyperx", "slim-fly", "jellyfish", "dragonfly-plus", "circulant", "xpander")
"""Families whose switches, each with hosts or below others with hosts, are joined directly."""
REGULAR = ("jellyfish", "circulant", "xpander")
"""Those of them whose switches have equally many links each, as many as a file says."""
KEYS_OF: Mapping[str, tuple[str, ...]] = {
    "order": ("slim-fly",),
    "strides": ("circulant", "direct-circulant"),
    "switches": REGULAR,
    **dict.fromkeys(("degree", "seed"), (*REGULAR, *DIRECT)),
    "twist": ("torus",),
    "circuit_switch": ("torus",),
    "file": ("graph",),
    "board": ("hammingmesh",),
    "spines_per_group": ("dragonfly-plus",),
    "hosts_per_switch": ("dragonfly", *JOINED),
    "links_per_pair": ("dragonfly", "dragonfly-plus", "hyperx"),
    **dict.fromkeys(
        ("switches_per_group", "global_links_per_switch", "groups", "local_medium"),
        ("dragonfly", "dragonfly-plus"),
    ),
    "global_arrangement": ("dragonfly",),
    "dimensions": ("torus", "bcube", "hyperx"),
    "sizes": ("torus", "hyperx", "hammingmesh", "tiles"),
    **dict.fromkeys(("copper_block", "wraparound"), ("torus",)),
}
"""Families that a key means something for."""


class Axis(Entry, frozen=True, kw_only=True):
    """One dimension of a product of HB domains: neighbours in a ring, or each with each.

    An axis may have no size: it takes what the others leave; several of one kind share it.
    """

    kind: Literal["ring", "mesh"]
    size: PositiveInt | None = None


class DomainKind(Entry, frozen=True, kw_only=True):
    """HB domains of one kind: GPUs in each, how many there are, and how these are joined.

    ``planes`` are the HB switches of a domain. The last kind may have no count: it takes the GPUs
    that the others leave.
    """

    size: PositiveInt
    count: PositiveInt | None = None
    kind: Literal["switch", "ring", "mesh"] = "switch"
    planes: PositiveInt = 1

    @property
    def ports(self) -> int:
        """Ports of a GPU that a domain takes [1].

        Examples
        --------
        >>> DomainKind(size=72, planes=18).ports, DomainKind(size=8, kind="mesh").ports
        (18, 7)
        """
        most = {"switch": self.planes, "ring": 2, "mesh": self.size}[self.kind]
        return most if self.kind == "switch" and self.size > 1 else min(most, self.size - 1)


class Tile(Entry, frozen=True, kw_only=True):
    """One tile of a mesh of cores, and the memory that its cores share.

    ``cores`` are its columns and rows, ``link_bytes_per_s`` the rate of a link inside it, one
    direction [B/s]. ``channels`` lead to memory: each stands at the core in a column and a row of
    the tile, and carries ``channel_bytes_per_s``, reading and writing together [B/s].
    """

    cores: tuple[PositiveInt, PositiveInt]
    link_bytes_per_s: PositiveFloat
    channels: tuple[tuple[NonNegativeInt, NonNegativeInt], ...] = ()
    channel_bytes_per_s: PositiveFloat | None = None

    def __post_init__(self) -> None:
        """Refuse channels outside the tile, or without a rate."""
        outside = [one for one in self.channels if not all(map(int.__lt__, one, self.cores))]
        if outside:
            wide, high = self.cores
            raise ValueError(f"channels: no core {list(outside[0])} in a tile of {wide} x {high}")
        if self.channels and self.channel_bytes_per_s is None:
            raise ValueError("channels need channel_bytes_per_s, the rate of one")


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
    hb_kind: Literal["switch", "ring", "mesh"] = "switch"
    hb_size: PositiveInt | None = None
    hb_planes: PositiveInt = 1
    hb_leaf_gpus: PositiveInt | None = None  # two tiers in a domain: GPUs at a lower HB switch
    hb_spines: PositiveInt | None = None  # and HB switches above these, in each of hb_planes
    hb_scheme: Literal["hybrid-cube-mesh"] | None = None
    domains: tuple[DomainKind, ...] = ()  # clos: HB domains of several sizes or kinds, in order
    hb_link_bytes_per_s: PositiveFloat | None = None
    link_bytes_per_s: PositiveFloat | None = None
    accelerators: tuple[str, ...] = ()
    in_sets: bool = True
    network_kind: NetworkKind = "infiniband"
    notes: tuple[str, ...] = ()

    # clos, rail-only, scalable-units
    rail_wiring: bool = True
    oversubscription: Annotated[float, Meta(ge=1)] = 1.0
    management_links: NonNegativeInt = 0
    planes: PositiveInt = (
        1  # clos and joined switches: each GPU's port split into as many, one to each plane
    )
    trunk_width: PositiveInt = 1  # clos: rate of a link above the leaves over that of a port
    even_pods: bool = True  # clos, rail-only: every pod alike, as fat-tree routing asks

    # graph: GraphML, edge list, .topo or ibnetdiscover output, beside the fabric file or below
    file: str = ""
    stamp: tuple[int, ...] = ()  # of the file or function as it was read; no key of a file

    # torus; bcube, whose levels are its dimensions; hyperx, at most as many dimensions
    dimensions: Annotated[int, Meta(ge=1, le=MAX_DIMENSIONS)] = 3
    sizes: tuple[PositiveInt, ...] | None = None
    copper_block: NonNegativeInt = 0
    wraparound: bool = True
    twist: bool = False  # around a short dimension half of every long one is passed
    circuit_switch: CatalogName | None = None  # joins the faces of blocks, which are cubes

    # hammingmesh: GPUs along both sides of a board; sizes are boards in a row, and rows
    board: tuple[BoardSide, BoardSide] | None = None

    # product
    axes: tuple[Axis, ...] = ()

    # tiles; sizes are columns and rows of tiles
    tile: Tile | None = None

    # dragonfly; all absent: balanced for the radix (a = 2p = 2h)
    hosts_per_switch: PositiveInt | None = None
    switches_per_group: PositiveInt | None = None
    global_links_per_switch: PositiveInt | None = None
    spines_per_group: PositiveInt | None = None  # dragonfly-plus, or half the ports of a switch
    groups: PositiveInt | None = None
    links_per_pair: PositiveInt | None = None
    global_arrangement: Arrangement = "absolute"
    host_medium: Medium = "optical"
    local_medium: Medium = "optical"

    # slim-fly: q of the paper; jellyfish, circulant, xpander: links a switch to others, switches,
    # draw of the graph; circulant: places between switches that are joined, instead of a draw;
    # all of them, and hyperx: hosts_per_switch, or as many as keep the rate of a port
    order: PositiveInt | None = None
    degree: PositiveInt | None = None
    switches: PositiveInt | None = None
    seed: NonNegativeInt = 0
    strides: tuple[PositiveInt, ...] | None = None

    @classmethod
    def check_first(cls, data: Mapping[str, object]) -> None:
        """Refuse another kind of design at once, and not key by key."""
        if data.get("stamp"):
            raise ValueError("unknown key stamp")
        family = data.get("family", "clos")
        if family not in get_args(Family):
            raise ValueError(
                f"family {family!r:.40} has no builder, so it cannot be a fabric: known are"
                f" {', '.join(get_args(Family))}"
            )

    def __post_init__(self) -> None:
        """Refuse keys that only mean something beside others."""
        if self.hb_scheme and (self.hb_kind != "mesh" or self.hb_size != HYBRID_SIZE):
            raise ValueError("hb_scheme hybrid-cube-mesh needs hb_kind: mesh and hb_size: 8")
        self._refuse_domains()
        if self.planes > 1 and self.family not in ("clos", *JOINED):
            raise ValueError(
                f"planes are whole networks: they need family: clos, {', '.join(JOINED)}"
            )
        if (self.family == "product") != bool(self.axes):
            raise ValueError("family: product needs axes, and axes need family: product")
        if (self.family == "tiles") != (self.tile is not None):
            raise ValueError("family: tiles needs a tile, and a tile needs family: tiles")
        if self.family == "tiles" and (self.hb_size != 1 or len(self.sizes or (1, 1)) != MESH_AXES):
            raise ValueError("family: tiles needs hb_size: 1, and two sizes if any")
        if len({axis.kind for axis in self.axes if axis.size is None}) > 1:
            raise ValueError(
                "axes: at most one kind takes the size that the others leave, got rings and meshes"
            )
        self._refuse_keys_of_others()
        self._refuse_other_shapes()
        if self.family in OWN_GRAPHS and (self.hb_kind, self.hb_planes) != ("switch", 1):
            raise ValueError(
                f"family: {self.family} takes HB domains from its file, or puts one switch into"
                " each: hb_kind and hb_planes mean nothing there"
            )

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
        if self.family != "clos":
            raise ValueError("domains of several kinds need family: clos")
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

    def _refuse_keys_of_others(self) -> None:
        """Refuse keys of other families, and shapes that are half given."""
        unsaid = dict(
            zip(self.__struct_fields__[::-1], self.__struct_defaults__[::-1], strict=False)
        )
        for key, families in KEYS_OF.items():
            if getattr(self, key) != unsaid[key] and self.family not in families:
                raise ValueError(f"{key} needs family: {' or '.join(families)}")
        if self.trunk_width > 1 and self.family != "clos":
            raise ValueError("trunk_width is of links above leaves: it needs family: clos")
        shape = (self.hosts_per_switch, self.switches_per_group, self.global_links_per_switch)
        fixed = self.groups or self.links_per_pair
        if fixed and None in shape and self.family not in JOINED:
            raise ValueError(
                "groups and links_per_pair need hosts_per_switch, switches_per_group and"
                " global_links_per_switch"
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
            self._refuse_other_cubes()
        if self.twist:
            self._refuse_other_twists()

    def _refuse_other_cubes(self) -> None:
        """Refuse circuit switches between others than whole cubes of single GPUs."""
        side = self.copper_block
        if side < LEAST_CUBE or self.hb_size != 1 or not self.wraparound:
            raise ValueError(
                f"circuit_switch joins the faces of cubes: it needs copper_block of {LEAST_CUBE} or"
                " more, hb_size: 1 and wraparound"
            )
        if any(size % side for size in self.sizes or ()):
            whole = [max(side, round(size / side) * side) for size in self.sizes or ()]
            raise ValueError(
                f"circuit_switch needs sizes that are multiples of {side}: got"
                f" {' x '.join(map(str, self.sizes or ()))}, the nearest that works is"
                f" {' x '.join(map(str, whole))}"
            )

    def _refuse_other_twists(self) -> None:
        """Refuse a twist without rings, or of sizes that are not once and twice the same."""
        axes = len(self.sizes or "1" * self.dimensions)
        if not self.wraparound or not 1 < axes <= MAX_DIMENSIONS:
            raise ValueError(
                f"twist shifts links around: it needs wraparound, and 2 to {MAX_DIMENSIONS}"
                " dimensions"
            )
        short = min(self.sizes or (1,))
        if self.sizes is None or (short > 1 and {short, 2 * short} == set(self.sizes)):
            return
        sizes = self.sizes, _nearest_twist(self.sizes)
        one, two = (" x ".join(map(str, shape)) for shape in sizes)
        raise ValueError(
            f"twist needs sizes of k and of 2 k, k at least 2: got {one}, the nearest that works is"
            f" {two}"
        )

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

    @property
    def only_named(self) -> bool:
        """Whether sets of all fabrics leave it out: it stands in only where it is named."""
        return not (self.in_sets and self.even_pods) or self.family in ("product", "tiles")

    def built_with(self, accelerator: str) -> tuple[str, ...]:
        """Accelerators of a product, where this is none of them: nothing recommends it then."""
        return () if accelerator in self.accelerators else self.accelerators


def _nearest_twist(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Nearest sizes that take a twist: some k, some 2 k.

    Examples
    --------
    >>> _nearest_twist((4, 4, 12)), _nearest_twist((6, 6, 6)), _nearest_twist((1, 9))
    ((4, 4, 8), (3, 6, 6), (4, 8))
    """

    def away(found: tuple[int, ...]) -> int:
        return sum(abs(one - other) for one, other in zip(sizes, found, strict=True))

    # The best k of each pattern is a median of what the sizes ask.
    shorts = {max(2, size // once + more) for size in sizes for once in (1, 2) for more in (0, 1)}
    patterns = [one for one in product((1, 2), repeat=len(sizes)) if len(set(one)) > 1]
    return min(
        (tuple(k * one for one in way) for k in sorted(shorts) for way in patterns), key=away
    )


class FabricShelf(Shelf[FabricSpec], frozen=True):
    """Fabric files; a graph of somebody's network stands for a fabric, too."""

    other_suffixes: ClassVar[tuple[str, ...]] = (".graphml", ".csv", ".topo", ".ibnetdiscover")

    def load(
        self,
        name: str,
        roots: Sequence[Path] = (),
        overrides: Mapping[str, str] | None = None,
    ) -> FabricSpec:
        """Load a fabric by name or by path, or one that a function makes."""
        made = FUNCTIONS.get(name)
        if made is not None:
            return made.spec(name)
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


class FabricFunction(Struct, frozen=True, eq=False):
    """A function of Python that makes a graph for every size, and its number among all."""

    make: Callable[..., object]
    number: int

    def spec(self, name: str) -> FabricSpec:
        """The fabric that it makes."""
        said = (self.make.__doc__ or "").strip().partition("\n")[0].strip(" .")
        return FabricSpec(
            name=name,
            title=said or f"What the function {name} makes",
            source=f"function {name}",
            date="",
            family="graph",
            in_sets=False,
            stamp=(self.number,),
        )


FUNCTIONS: dict[str, FabricFunction] = {}
"""Functions that were named as fabrics in this process, by their names."""


def register_fabric(make: Callable[..., object]) -> str:
    """Name a function as a fabric; where the name is given, every question takes its graph.

    Parameters
    ----------
    make
        Takes a :class:`~netplan.topologies.fabric.Sizing`, gives a graph of networkx (nodes with
        ``kind``, edges with ``gbps`` or ``bytes_per_s``) or a
        :class:`~netplan.topologies.graph.FabricGraph`.

    Examples
    --------
    >>> def two_towers(sizing): "Two switches."
    >>> register_fabric(two_towers), FABRICS.load("two_towers").title
    ('two_towers', 'Two switches')
    """
    name = re.sub(r"\W+", "", getattr(make, "__name__", "")) or "function"
    known = FUNCTIONS.get(name)
    if known is None or known.make is not make:
        FUNCTIONS[name] = FabricFunction(make, next(_NUMBERS))
    return name


_NUMBERS = count(1)
FABRICS = FabricShelf("fabric", "topologies", FabricSpec)
