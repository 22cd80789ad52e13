"""Parts of a fabric file: dimensions of products, kinds of HB domains, tiles of cores."""

from typing import Literal

from netplan.records import Entry, NonNegativeInt, PositiveFloat, PositiveInt


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
        outside = [
            channel for channel in self.channels if not all(map(int.__lt__, channel, self.cores))
        ]
        if outside:
            wide, high = self.cores
            raise ValueError(f"channels: no core {list(outside[0])} in a tile of {wide} x {high}")
        if self.channels and self.channel_bytes_per_s is None:
            raise ValueError("channels need channel_bytes_per_s, the rate of one")
