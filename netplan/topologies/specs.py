"""Fabric files: the shape of a network, from which its counts, levels and graph are made.

A fabric is of a *family*: a subclass of :class:`FabricSpec` whose fields are the keys of its files
and whose methods build it. Each stands in one file, with all that is its own, and in one line of
:data:`FAMILIES`; the module of a family is imported when such a fabric is loaded: few ever are.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, cast

from msgspec import Meta, Struct, structs

from netplan import records
from netplan.added import added
from netplan.arrays import Ints
from netplan.catalog import Catalog, Record
from netplan.documents import Document, lineless
from netplan.errors import CatalogError
from netplan.files import reachable
from netplan.inputs.choices import NetworkKind
from netplan.levels import Level
from netplan.topologies.assembly import Wired
from netplan.topologies.fabric import Fabric, Sizing
from netplan.topologies.graph import FabricGraph, Medium
from netplan.topologies.own.functions import FUNCTIONS, register_fabric

if TYPE_CHECKING:
    from netplan.workloads.accelerators import Accelerator

FAMILIES: Mapping[str, str] = {
    "clos": "families.switched:Clos",
    "rail-only": "families.switched:RailOnly",
    "scalable-units": "families.switched:ScalableUnits",
    "torus": "families.torus:Torus",
    "product": "families.product:Product",
    "dragonfly": "families.dragonfly:Dragonfly",
    "bcube": "families.bcube:BCube",
    "tiles": "families.tiles:Tiles",
    "hyperx": "families.hyperx:HyperX",
    "slim-fly": "families.slim_fly:SlimFly",
    "jellyfish": "families.jellyfish:Jellyfish",
    "dragonfly-plus": "families.dragonfly_plus:DragonflyPlus",
    "hammingmesh": "families.hammingmesh:HammingMesh",
    "circulant": "families.circulant:Circulant",
    "xpander": "families.xpander:Xpander",
    "direct-circulant": "families.graphs:DirectCirculant",
    "direct-random": "families.graphs:DirectRandom",
    "graph": "families.graphs:OwnGraph",
}
"""Module and class of each family."""

MAX_DIMENSIONS, MESH_AXES = 6, 2
CatalogName = Annotated[str, Meta(pattern="^[a-z0-9][a-z0-9-]*$", max_length=64)]
Dimensions = Annotated[int, Meta(ge=1, le=MAX_DIMENSIONS)]
HYBRID_SIZE, HYBRID_LINKS_PER_GPU = 8, 6
HB_KEYS: tuple[str, ...] = ("hb_kind", "hb_planes", "hb_leaf_gpus", "hb_spines", "hb_scheme")
"""Keys on how the GPUs of HB domains are joined."""
FEW = 7
"""Families that a message names; of more it names the one that has no use for a key [1]."""


CARDS = "network cards"
"""What is published for whatever reaches switches through cards: for servers of any maker."""


class FabricAxis(records.Entry, frozen=True, kw_only=True):
    """One dimension of a product of HB domains: neighbours in a ring, or each with each.

    An axis may have no size: it takes what the others leave; several of one kind share it.
    """

    kind: Literal["ring", "mesh"]
    size: records.PositiveInt | None = None


class DomainKind(records.Entry, frozen=True, kw_only=True):
    """HB domains of one kind: GPUs in each, how many there are, and how these are joined.

    ``planes`` are the HB switches of a domain. The last kind may have no count: it takes the GPUs
    that the others leave.
    """

    size: records.PositiveInt
    count: records.PositiveInt | None = None
    kind: Literal["switch", "ring", "mesh"] = "switch"
    planes: records.PositiveInt = 1

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


class Tile(records.Entry, frozen=True, kw_only=True):
    """One tile of a mesh of cores, and the memory that its cores share.

    ``cores`` are its columns and rows, ``link_bytes_per_s`` the rate of a link inside it, one
    direction [B/s]. ``channels`` lead to memory: each stands at the core in a column and a row of
    the tile, and carries ``channel_bytes_per_s``, reading and writing together [B/s].
    """

    cores: tuple[records.PositiveInt, records.PositiveInt]
    link_bytes_per_s: records.PositiveFloat
    channels: tuple[tuple[records.NonNegativeInt, records.NonNegativeInt], ...] = ()
    channel_bytes_per_s: records.PositiveFloat | None = None

    def __post_init__(self) -> None:
        """Refuse channels outside the tile, or without a rate."""
        outside = [
            channel for channel in self.channels if not all(map(int.__lt__, channel, self.cores))
        ]
        if outside:
            wide, high = self.cores
            raise ValueError(f"channels: no core {list(outside[0])} in a tile of {wide} x {high}")
        if self.channels and self.channel_bytes_per_s is None:
            raise ValueError("channels need channel_bytes_per_s, the rate of one")


class DesignSupport(records.Entry, frozen=True, kw_only=True):
    """Who publishes a design of such a fabric.

    ``by`` a maker, who sells it, an operator, who runs it, or a paper; ``accelerators`` which it is
    for, by their names or by what they are sold in (``sold_in`` of their files), or
    ``network cards``, for all that have such.
    """

    maker: str
    by: Literal["maker", "operator", "paper"] = "maker"
    design: str
    address: str
    date: str
    accelerators: tuple[str, ...]


class Backing(Struct, frozen=True, kw_only=True):
    """Who publishes a fabric for one accelerator.

    Parameters
    ----------
    entries
        The published designs for it.
    unsold
        Why verdicts leave the fabric out, in words; empty where they do not.
    """

    entries: tuple[DesignSupport, ...] = ()
    unsold: str = ""


def not_sold(sold_in: str) -> str:
    """The words for fabrics that nobody publishes for what an accelerator comes in.

    Examples
    --------
    >>> not_sold("HGX servers")
    'not sold for HGX servers'
    """
    return f"not sold for {sold_in}"


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
    only where it is named. ``hall: as-published`` keeps the media that its source has, in place of
    those that follow from a hall. ``support`` are published designs of such a fabric, empty where
    none was found, and left out by files that do not say; ``gives_up`` what one gives up with it,
    each a few words, a colon, and why. What joins the domains is the ``family``, with the keys of
    that family.
    """

    family: str
    hb_kind: Literal["switch", "ring", "mesh"] = "switch"
    hb_size: records.PositiveInt | None = None
    hb_planes: records.PositiveInt = 1
    hb_leaf_gpus: records.PositiveInt | None = None  # at a lower HB switch
    hb_spines: records.PositiveInt | None = None  # above these, a plane
    hb_scheme: Literal["hybrid-cube-mesh"] | None = None
    hb_link_bytes_per_s: records.PositiveFloat | None = None
    link_bytes_per_s: records.PositiveFloat | None = None
    accelerators: tuple[str, ...] = ()
    in_sets: bool = True
    network_kind: NetworkKind = "infiniband"
    hall: Literal["as-published"] | None = None
    support: tuple[DesignSupport, ...] | None = None
    gives_up: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    # What families say of themselves.
    switchless: ClassVar[bool] = False  # whether its links lead from GPU to GPU
    several_ports: ClassVar[bool] = False  # whether GPUs may have several network ports
    own_graph: ClassVar[bool] = False  # whether counts and levels are those of a graph
    rails_alike: ClassVar[bool] = False  # whether it is so of one rail
    source_media: ClassVar[Mapping[str, Medium]] = {}  # of its paper, by role; else optical

    # Keys of some families, as the others have them: no fields of this one.
    domains = cast("tuple[DomainKind, ...]", ())
    """HB domains of several sizes or kinds."""
    planes = 1
    """Parts of each GPU's port, each in a network of its own [1]."""
    oversubscription = 1.0
    """Ports down over ports up of a leaf [1]."""
    management_links = 0
    """Hosts beside the GPUs [1]."""
    trunk_width = 1
    """Rate of a link above the leaves over that of a port [1]."""
    rail_wiring = True
    """Whether endpoints come rail by rail."""
    even_pods = True
    """Whether every pod is alike, as fat-tree routing asks."""
    even_trunks = False
    """Whether all trunks of a switch are alike, as fat-tree routing asks without its roots."""
    host_medium = cast("Medium | None", None)
    """What cables from GPUs to switches are made of, if the file says it."""
    local_medium = cast("Medium | None", None)
    """What cables inside groups of switches are made of, if the file says it."""
    circuit_switch = cast("str | None", None)
    """Model of circuit switch that joins the faces of cubes, or GPUs and rails."""
    tile = cast("Tile | None", None)
    """One tile of a mesh of cores."""

    def build(self, sizing: Sizing) -> Fabric:
        """Counts, levels and notes; the HB domain and rates of the sizing are those in force.

        Raises
        ------
        InputError
            If the fabric cannot be built in this size; the message says what can.
        """
        raise NotImplementedError

    def wire(self, fabric: Fabric, first: int, port: int) -> Wired:
        """Nodes and links of what joins the HB domains.

        Parameters
        ----------
        fabric
            The same fabric as sized.
        first
            Number of its first switch among the nodes of the whole graph.
        port
            First port of a GPU that the network takes, counted from 0.
        """
        raise NotImplementedError

    def ports(self, sizing: Sizing) -> int:  # noqa: ARG002 - of families with several
        """Network ports of a GPU over which the rate of one is shared [1]."""
        return 1

    def whole_graph(self, sizing: Sizing) -> FabricGraph:
        """The graph that counts and levels follow from, where they do.

        GPUs of an HB domain stand one after the other; it may hold more than those of the sizing.
        """
        raise NotImplementedError

    def leaf_of(self, sizing: Sizing, gpu: Ints) -> Ints | None:  # noqa: ARG002 - not of any graph
        """Under which switch GPUs lie; of several planes or levels, in the first.

        Those of a domain lie in runs. None where the graph has to be asked.
        """
        return None

    @property
    def separate_ports(self) -> int:
        """Network ports of a GPU that lie under different switches, in planes or levels [1]."""
        return self.planes

    def medium_of(self, role: Literal["host", "local"], sizing: Sizing) -> Medium:
        """What links are called before a hall says it: as the file names it, else as published."""
        named = self.host_medium if role == "host" else self.local_medium
        source = self.source_media.get(role) if sizing.as_published else None
        return named or source or "optical"

    def source_note(self, sizing: Sizing) -> tuple[str, ...]:
        """What links are made of where the family's paper says it, and no file does."""
        copper = [role for role in ("host", "local") if self.source_media.get(role) == "copper"]
        if not sizing.as_published or not copper or self.host_medium or self.local_medium:
            return ()
        names = " and ".join(copper)
        return (f"{names[0].upper()}{names[1:]} cables are copper, as published; others optical.",)

    @property
    def media_named(self) -> dict[str, Medium]:
        """Media that the file names, by role of the links.

        Examples
        --------
        >>> FABRICS.load("dragonfly").media_named, FABRICS.load("frontier").media_named
        ({}, {'host': 'copper', 'local': 'copper'})
        """
        named = {"host": self.host_medium, "local": self.local_medium}
        return {role: medium for role, medium in named.items() if medium is not None}

    @property
    def takes_circuits(self) -> bool:
        """Whether circuit switches join it: those of any torus, of rails those that a file names.

        Examples
        --------
        >>> names = ("torus-3d", "rail-only", "rail-only-ocs")
        >>> [FABRICS.load(name).takes_circuits for name in names]
        [True, False, True]
        """
        return self.reads("circuit_switch") and (self.switchless or bool(self.circuit_switch))

    @classmethod
    def read(cls, data: object) -> Self:
        """Make the record of its family from plain data.

        Raises
        ------
        RecordError
            If the data is no such record: all its faults, each with its place and its reason.
        """
        if cls is not FabricSpec or not isinstance(data, Mapping):
            return super().read(data)
        try:
            schema = family_named(str(data.get("family", "clos")))
        except ValueError as error:
            raise records.RecordError([records.Fault((), str(error))]) from None
        return cast("Self", schema.read(data))

    @classmethod
    def check_first(cls, data: Mapping[str, object]) -> None:
        """Refuse keys that its family does not read."""
        if data.get("stamp"):
            raise ValueError("unknown key stamp")
        faults = faults_of(str(data.get("family", "clos")), data)
        if faults:
            raise records.RecordError(faults)

    @classmethod
    def reads(cls, key: str) -> bool:
        """Whether a key means something for the family."""
        return key in cls.__struct_fields__ and key not in cls.unread

    def changed(self, **values: Any) -> Self:  # noqa: ANN401 - values of its fields
        """Copy the record with other values; of keys that its family lacks, the usual ones."""
        other = {key: value for key, value in values.items() if getattr(self, key, None) != value}
        for fault in faults_of(self.family, other):
            raise ValueError(fault.text)
        return super().changed(**other)

    def __post_init__(self) -> None:
        """Refuse keys that only mean something beside others."""
        usual = {field.name: field.default for field in structs.fields(type(self))}
        given = [key for key in self.unread if getattr(self, key) != usual[key]]
        for fault in faults_of(self.family, given):
            raise ValueError(fault.text)
        if self.hb_scheme and (self.hb_kind != "mesh" or self.hb_size != HYBRID_SIZE):
            raise ValueError("hb_scheme hybrid-cube-mesh needs hb_kind: mesh and hb_size: 8")
        if self.hb_planes > 1 and self.hb_kind != "switch":
            raise ValueError("hb_planes counts HB switches: it needs hb_kind: switch")
        if (self.hb_leaf_gpus is None) != (self.hb_spines is None):
            raise ValueError("hb_leaf_gpus and hb_spines make two tiers: give both or none")
        if self.hb_spines is not None and self.hb_kind != "switch":
            raise ValueError("hb_spines counts HB switches: it needs hb_kind: switch")
        if getattr(self, "sizes", None) == ():
            raise ValueError("sizes is empty: give one for each dimension, or leave it out")

    def hb_ports(self, hb_size: int) -> int:
        """Ports of a GPU that an HB domain of this size takes; those of the network follow [1]."""
        if self.hb_scheme:
            return HYBRID_LINKS_PER_GPU
        return max(kind.ports for kind in self.kinds(hb_size))

    def kinds(self, hb_size: int) -> tuple[DomainKind, ...]:
        """Kinds of its HB domains, of which one alone has a size of the question."""
        alone = DomainKind(size=hb_size, kind=self.hb_kind, planes=self.hb_planes)
        return self.domains or (alone,)

    def hb_level(self, sizing: Sizing) -> Level:
        """Level of the HB domain: a non-blocking switch, or direct links that share the rate."""
        rate, latency_s = sizing.hb_bytes_per_s, sizing.hb_latency_s
        whole = Level(self.hb_kind, sizing.hb_size, rate, step_latency_s=latency_s)
        return records.replace(whole, link_bytes_per_s=rate / max(1, whole.links_per_gpu))

    @property
    def by_name_only(self) -> bool:
        """Whether sets of all fabrics leave it out: it stands in only where it is named."""
        return not (self.in_sets and self.even_pods) or "in_sets" in self.unread

    def support_for(self, chip: "Accelerator") -> Backing:
        """Who publishes such a fabric for an accelerator, and whether that is anybody.

        Parameters
        ----------
        chip
            The accelerator.

        Returns
        -------
        Backing
            Unsold is what nobody makes, runs or describes for its servers. Of servers that are
            unknown, and of a file without ``support``, nobody says so.

        Examples
        --------
        >>> from netplan.workloads.accelerators import ACCELERATORS
        >>> chip, rails, torus = (
        ...     ACCELERATORS.load("h200"), FABRICS.load("rail-only"), FABRICS.load("torus-3d"))
        >>> rails.support_for(chip).unsold, torus.support_for(chip).unsold
        ('', 'not sold for HGX servers')
        >>> [entry.maker for entry in FABRICS.load("fat-tree").support_for(chip).entries]
        ['NVIDIA', 'Arista']
        """
        asked = {chip.name, chip.sold_in} | ({CARDS} if not chip.torus_dimensions else set())
        entries = tuple(entry for entry in self.support or () if asked & {*entry.accelerators})
        known = self.support is not None and bool(chip.sold_in)
        lacks = known and not entries and chip.name not in self.accelerators
        unsold = not_sold(chip.sold_in) if lacks else ""
        return Backing(entries=entries, unsold=unsold)

    def barred_for(self, chip: "Accelerator") -> str:
        """Why nothing recommends it for an accelerator, in words; empty where something may.

        Parameters
        ----------
        chip
            The accelerator.

        Returns
        -------
        str
            That nobody sells it, or that it is built with others.
        """
        others = self.built_with(chip.name)
        return self.support_for(chip).unsold or (
            f"built with {', '.join(others)}" if others else ""
        )

    def built_with(self, accelerator: str) -> tuple[str, ...]:
        """Accelerators of a product, where this is none of them: nothing recommends it then."""
        return () if accelerator in self.accelerators else self.accelerators


@cache
def family_named(name: str) -> type[FabricSpec]:
    """Class of a family, of another package too.

    Raises
    ------
    ValueError
        If nothing has the name.

    Examples
    --------
    >>> family_named("torus").switchless, family_named("clos").reads("rail_wiring")
    (True, True)
    """
    family: object = None
    if name in FAMILIES:
        module, _, kind = FAMILIES[name].partition(":")
        family = getattr(import_module(f"netplan.topologies.{module}"), kind)
    elif name in added("netplan.fabrics"):
        family = added("netplan.fabrics")[name].load()
    if isinstance(family, type) and issubclass(family, FabricSpec):
        return family
    raise ValueError(
        f"family {name!r:.40} has no builder, so it cannot be a fabric: known are"
        f" {', '.join(FAMILIES)}"
    )


@cache
def families_of(key: str) -> tuple[str, ...]:
    """Families that read a key of a fabric file; of one that is none, nothing.

    Examples
    --------
    >>> families_of("oversubscription"), families_of("colour")
    (('clos', 'rail-only'), ())
    """
    return tuple(name for name in FAMILIES if family_named(name).reads(key))


def faults_of(family: str, keys: Iterable[str]) -> list[records.Fault]:
    """A line for each of the keys that others read, and a family does not.

    Examples
    --------
    >>> for fault in faults_of("torus", ["host_medium", "hb_size", "even_pods"]):
    ...     print(fault.text)
    host_medium means nothing for family: torus: leave it out
    even_pods needs family: clos or rail-only, got torus: leave it out
    """
    faults, schema = [], family_named(family)
    for key in keys:
        families = () if schema.reads(key) else families_of(key)
        if len(families) > FEW:
            faults.append(
                records.Fault((key,), f"{key} means nothing for family: {family}: leave it out")
            )
        elif families:
            needed = " or ".join(families)
            text = f"{key} needs family: {needed}, got {family}: leave it out"
            faults.append(records.Fault((key,), text))
    return faults


class FabricCatalog(Catalog[FabricSpec], frozen=True):
    """Fabric files; a graph of somebody's network stands for a fabric, too."""

    other_suffixes: ClassVar[tuple[str, ...]] = (".graphml", ".csv", ".topo", ".ibnetdiscover")

    def load(
        self, name: str, roots: Sequence[Path] = (), overrides: Mapping[str, str] | None = None
    ) -> FabricSpec:
        """Load a fabric by name or by path, or one that a function makes, of a package too."""
        if name in FUNCTIONS:
            spec = FabricSpec.read(self.added(name, FUNCTIONS[name].make))
        else:
            spec = super().load(name, roots, overrides)
        if file := getattr(spec, "file", ""):
            return spec.changed(stamp=_stamp(Path(file)))
        made = FUNCTIONS.get(name)
        return spec if made is None else spec.changed(stamp=(made.number,))

    def added(self, name: str, plug: Any) -> dict[str, Any]:  # noqa: ANN401 - what a package names
        """Keys of a fabric of another package: of its family, or of what a function makes."""
        if isinstance(plug, type) and issubclass(plug, FabricSpec):
            title = (plug.__doc__ or name).strip().partition("\n")[0].strip(" .")
            family, source = name, f"{plug.__module__}.{plug.__name__}"
        else:
            title = FUNCTIONS[register_fabric(plug, name)].title
            family, source = "graph", f"function {name}"
        head = {"name": name, "title": title or f"What the function {name} makes", "date": ""}
        return {**head, "source": source, "family": family, "in_sets": False}

    def read(self, path: Path) -> Document:
        """A file as parsed, the file of a graph with its whole path."""
        if path.suffix.lower() in self.other_suffixes:
            day = datetime.fromtimestamp(reachable(path).stat().st_mtime, UTC).date()
            heading = {
                "title": f"The network of {path.name}",
                "source": path.name,
                "date": f"{day}",
            }
            whole = {"file": str(path), "family": "graph", "in_sets": False}
            return lineless(path, {"name": path.stem, **heading, **whole})
        document = super().read(path)
        named = document.data.get("file")
        if not isinstance(named, str) or not named:
            return document
        folder = path.resolve().parent
        target = (folder / named).resolve()
        if Path(named).is_absolute() or not target.is_relative_to(folder):
            raise CatalogError(
                f"{path}:{document.line(['file'])}: file {named!r:.80}: name a file beside this"
                " one, or in a folder below it"
            )
        return records.replace(document, data=document.data | {"file": str(path.parent / named)})


def _stamp(path: Path) -> tuple[int, ...]:
    """Time of the last change of a file [ns], and its size [bytes]."""
    try:
        status = reachable(path).stat()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no name of a file"
        raise CatalogError(f"{path}: cannot be read: {reason}") from None
    if not S_ISREG(status.st_mode):
        raise CatalogError(f"{path}: no regular file: name the file of a graph")
    return status.st_mtime_ns, status.st_size


FABRICS = FabricCatalog("fabric", "topologies", FabricSpec, group="netplan.fabrics")
