"""Cabling books: modules, cables, network cards, lengths and racks that a bill is made of."""

from typing import Annotated, Literal

from msgspec import Meta

from netplan.catalog import Record, Shelf
from netplan.errors import CatalogError
from netplan.records import Entry, PositiveFloat, PositiveInt
from netplan.topologies.specs import Medium

ANY = "any"
"""Form factor of a cage or a plug that nobody has chosen yet: it fits only its like."""

Fibre = Literal["multimode", "singlemode"]
CableKind = Literal["dac", "aec", "aoc"]
LinkKind = Literal["host", "leaf-spine", "upper", "local", "global", "ring"]


class Length(Entry, frozen=True, kw_only=True):
    """Length that a kind of link is taken to have where no floor plan says so."""

    group: LinkKind
    medium: Medium
    length_m: PositiveFloat
    source: str


class Card(Entry, frozen=True, kw_only=True):
    """Network card with one port of a rate, and what its cage takes."""

    item: str
    speed_gbps: PositiveFloat
    form: str
    lane_gbps: PositiveFloat | None = None
    date: str
    source: str


class Module(Entry, frozen=True, kw_only=True):
    """Transceiver: the cage that it fits and the links that it carries.

    Without ``speed_gbps`` it stands for modules of any rate.
    """

    item: str
    form: str
    speed_gbps: PositiveFloat | None = None
    links: PositiveInt
    lane_gbps: PositiveFloat | None = None
    fibre: Fibre
    reach_m: PositiveFloat
    date: str
    source: str


class Cable(Entry, frozen=True, kw_only=True):
    """Cable with fixed plugs: one at its first end, ``split`` at its second."""

    item: str
    kind: CableKind
    forms: tuple[str, str]
    speed_gbps: PositiveFloat | None = None
    links: PositiveInt
    split: PositiveInt = 1
    lane_gbps: PositiveFloat | None = None
    reach_m: PositiveFloat
    date: str
    source: str

    def __post_init__(self) -> None:
        """Refuse links that do not divide over the plugs."""
        if self.links % self.split:
            raise ValueError(f"{self.links} links do not divide over {self.split} plugs")


class Racks(Entry, frozen=True, kw_only=True):
    """Rack units of a rack, and of a switch without a model [1]."""

    units: Annotated[int, Meta(ge=1, le=60)]
    switch_units: PositiveInt
    source: str


class CablingBook(Record, frozen=True, kw_only=True):
    """What cables, modules and cards there are, and how long a cable is taken to be."""

    lengths: tuple[Length, ...]
    cards: tuple[Card, ...]
    modules: tuple[Module, ...]
    cables: tuple[Cable, ...]
    racks: Racks
    notes: tuple[str, ...] = ()

    def __hash__(self) -> int:
        """Hash of the name: books are few, and hashing all rows would cost more than looking up."""
        return hash(self.name)

    def length(self, group: LinkKind, medium: Medium) -> Length:
        """Length class of a kind of link.

        Raises
        ------
        CatalogError
            If the book has none.
        """
        for length in self.lengths:
            if (length.group, length.medium) == (group, medium):
                return length
        raise CatalogError(f"cabling {self.name}: no length for {medium} {group} links: add one")

    def card(self, speed_gbps: float) -> Card:
        """Network card of a rate.

        Raises
        ------
        CatalogError
            If the book has none.
        """
        for card in self.cards:
            if card.speed_gbps == speed_gbps:
                return card
        known = ", ".join(f"{card.speed_gbps:g}" for card in self.cards)
        raise CatalogError(
            f"cabling {self.name}: no network card of {speed_gbps:g} Gb/s (known: {known}): add"
            " one, or leave --switch out"
        )


CABLING_BOOKS = Shelf("cabling", "costing/cabling", CablingBook)
