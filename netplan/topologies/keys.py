"""Families of fabrics, and which keys of a fabric file each of them reads.

A key that only some families read says so where it stands, in the type of its field
(:func:`only`); refusals, notes and documentation all look there (:func:`families_of`).
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Literal, get_args

from msgspec import Meta, Struct, structs

from netplan.records import Fault

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
FAMILIES: tuple[str, ...] = get_args(Family)
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
SEVERAL_PORTS = (*(one for one in SWITCHLESS if one != "tiles"), "bcube", "hammingmesh")
"""Families whose GPUs may have several network ports."""
DRAGONFLIES = ("dragonfly", "dragonfly-plus")
"""Families of groups of switches."""
OWN_DOMAINS = tuple(one for one in FAMILIES if one not in (*OWN_GRAPHS, "tiles"))
"""Families whose HB domains are joined as a file says."""
HOST_CABLES = tuple(one for one in FAMILIES if one not in (*SWITCHLESS, "graph"))
"""Families whose GPUs have cables to switches, of which a file says what they are made of."""
IN_SETS = tuple(one for one in FAMILIES if one not in ("product", "tiles"))
"""Families that stand in sets of all fabrics, unless a file says that it does not."""
FEW = 7
"""Families that a message names; of more it names the one that has no use for a key [1]."""


def only(*families: str) -> Meta:
    """Note on a field that only these families read its key."""
    return Meta(extra={"families": families})


@cache
def families_of(kind: type[Struct]) -> Mapping[str, tuple[str, ...]]:
    """Families that read each key of a struct; a key that all of them read is left out.

    Examples
    --------
    >>> from netplan.topologies.specs import FabricSpec
    >>> families_of(FabricSpec)["oversubscription"], "hb_size" in families_of(FabricSpec)
    (('clos', 'rail-only'), False)
    """
    return {one.encode_name: found for one in structs.fields(kind) for found in _told(one.type)}


def _told(kind: Any) -> Iterator[tuple[str, ...]]:  # noqa: ANN401 - types are values here
    """Families that stand in the notes of a type."""
    for meta in getattr(kind, "__metadata__", ()):
        if isinstance(meta, Meta) and "families" in (meta.extra or {}):
            yield (meta.extra or {})["families"]


def reads(kind: type[Struct], family: str, key: str) -> bool:
    """Whether a key means something for a family."""
    return family in families_of(kind).get(key, FAMILIES)


def faults_of(kind: type[Struct], family: str, keys: Iterable[str]) -> list[Fault]:
    """A line for each of the keys that a family does not read.

    Examples
    --------
    >>> from netplan.topologies.specs import FabricSpec
    >>> for fault in faults_of(FabricSpec, "torus", ["host_medium", "hb_size", "even_pods"]):
    ...     print(fault.text)
    host_medium means nothing for family: torus: leave it out
    even_pods needs family: clos or rail-only, got torus: leave it out
    """
    faults = []
    for key in keys:
        if not reads(kind, family, key):
            families = families_of(kind)[key]
            use = f"needs family: {' or '.join(families)}, got {family}"
            if len(families) > FEW:
                use = f"means nothing for family: {family}"
            faults.append(Fault((key,), f"{key} {use}: leave it out"))
    return faults
