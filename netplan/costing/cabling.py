"""Cabling books: modules, cables, network cards, lengths and racks that a bill is made of."""

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta

from netplan.catalog import Catalog, Record
from netplan.errors import CatalogError
from netplan.records import Entry, PositiveFloat, PositiveInt
from netplan.topologies.graph import Medium

ANY = "any"
"""Form factor of a cage or a plug that nobody has chosen yet: it fits only its like."""

SINGLE_MODE_REACH_M = (("dr", 500), ("fr", 2000))
"""Classes of single-mode modules of IEEE 802.3, and how far they reach [m]; longer ones are LR."""

Fibre = Literal["multimode", "singlemode"]
CableKind = Literal["dac", "aec", "aoc"]
LinkKind = Literal["host", "leaf-spine", "upper", "local", "global", "ring"]


class Length(Entry, frozen=True, kw_only=True):
    """Length that a kind of link is taken to have where no floor plan says so."""

    group: LinkKind
    medium: Medium
    length_m: PositiveFloat
    source: str


class Sold(Entry, frozen=True, kw_only=True):
    """A length that a cable is sold in [m], the maker's number of it, and numbers of equals."""

    length_m: PositiveFloat
    part_number: str
    accepted: tuple[str, ...] = ()


def sold_at(lengths: Sequence[Sold], length_m: float) -> Sold | None:
    """The shortest cable on sale that is long enough, None if none is.

    Examples
    --------
    >>> ten = Sold(length_m=10, part_number="MFP7E10-N010")
    >>> sold_at([ten], 7.5).part_number, sold_at([ten], 11)
    ('MFP7E10-N010', None)
    """
    long_enough = [length for length in lengths if length.length_m >= length_m]
    return min(long_enough, key=lambda length: length.length_m, default=None)


class PortSplit(Entry, frozen=True, kw_only=True):
    """How a card's port can be split: so many links of a rate, on lanes of a rate [Gb/s]."""

    links: PositiveInt
    speed_gbps: PositiveFloat
    lane_gbps: PositiveFloat | None = None


class Card(Entry, frozen=True, kw_only=True):
    """Network card with one port of a rate, what its cage takes, and how the port can be split.

    ``part_number`` is the maker's order number; ``accepted`` are numbers of equals.
    """

    item: str
    speed_gbps: PositiveFloat
    form: str
    lane_gbps: PositiveFloat | None = None
    splits: tuple[PortSplit, ...] = ()
    part_number: str = ""
    accepted: tuple[str, ...] = ()
    date: str
    source: str


class Module(Entry, frozen=True, kw_only=True):
    """Transceiver: the cage that it fits and the links that it carries.

    Without ``speed_gbps`` it stands for modules of any rate. ``connector`` is what its fibre
    cables end in; a link needs ``fibre_cables`` of them. Optics that are parts of a switch
    (``in_switch``) are on no bill of their own.
    """

    item: str
    form: str
    speed_gbps: PositiveFloat | None = None
    links: PositiveInt
    lane_gbps: PositiveFloat | None = None
    fibre: Fibre
    connector: str = "MPO"
    fibre_cables: PositiveInt = 1
    reach_m: PositiveFloat
    typical_w: PositiveFloat | None = None
    max_w: PositiveFloat | None = None
    in_switch: bool = False
    part_number: str = ""
    accepted: tuple[str, ...] = ()
    date: str
    source: str

    @property
    def grade(self) -> str:
        """Class of its reach: ``sr`` over multimode fibre, else ``dr``, ``fr`` or ``lr``."""
        if self.fibre == "multimode":
            return "sr"
        return next((grade for grade, most in SINGLE_MODE_REACH_M if self.reach_m <= most), "lr")


class Cable(Entry, frozen=True, kw_only=True):
    """Cable with fixed plugs: one at its first end, ``split`` at its second.

    ``sold`` are its lengths with their numbers; without any, ``part_number`` is that of them all.
    """

    item: str
    kind: CableKind
    forms: tuple[str, str]
    speed_gbps: PositiveFloat | None = None
    links: PositiveInt
    split: PositiveInt = 1
    lane_gbps: PositiveFloat | None = None
    reach_m: PositiveFloat
    part_number: str = ""
    sold: tuple[Sold, ...] = ()
    accepted: tuple[str, ...] = ()
    date: str
    source: str

    def __post_init__(self) -> None:
        """Refuse links that do not divide over the plugs."""
        if self.links % self.split:
            raise ValueError(f"{self.links} links do not divide over {self.split} plugs")


class CopperReach(Entry, frozen=True, kw_only=True):
    """How far a kind of copper cable carries lanes of a rate, whoever makes it [m]."""

    kind: CableKind
    lane_gbps: PositiveFloat
    reach_m: PositiveFloat
    date: str
    source: str


class FibreCable(Entry, frozen=True, kw_only=True):
    """Fibre cable between two modules: glass, connectors, polarity, and the lengths on sale.

    ``part_number`` is that of all lengths, where single ones are not known.
    """

    item: str
    fibre: Fibre
    connector: str
    grade: str
    polarity: str
    part_number: str = ""
    sold: tuple[Sold, ...] = ()
    accepted: tuple[str, ...] = ()
    date: str
    source: str

    @property
    def words(self) -> str:
        """Glass, connectors and polarity."""
        return f"{self.connector}, {self.grade}, polarity {self.polarity}"


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
    fibres: tuple[FibreCable, ...] = ()
    copper_reaches: tuple[CopperReach, ...] = ()
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

    def lane_gbps(self, speed_gbps: float) -> float | None:
        """Rate of a lane at a link rate, by the network card of that rate; None if not known."""
        return next((card.lane_gbps for card in self.cards if card.speed_gbps == speed_gbps), None)

    def copper_reach_m(self, cable: Cable, lane_gbps: float | None) -> float:
        """How far a cable carries lanes of a rate: its own reach, or less by the copper rule [m].

        Examples
        --------
        >>> book = CABLING_BOOKS.load("2026")
        >>> copper = book.cable("Passive copper cable (DAC)")
        >>> book.copper_reach_m(copper, 100), book.copper_reach_m(copper, 200)
        (3.0, 0.7)
        """
        asked = cable.kind, lane_gbps
        reaches = (
            reach.reach_m for reach in self.copper_reaches if (reach.kind, reach.lane_gbps) == asked
        )
        return min((cable.reach_m, *reaches))

    def module(self, item: str) -> Module | None:
        """Module of a name, if there is one."""
        return next((module for module in self.modules if module.item == item), None)

    def cable(self, item: str) -> Cable | None:
        """Cable with fixed plugs of a name, if there is one."""
        return next((cable for cable in self.cables if cable.item == item), None)

    def fibre_cable(self, fibre: str, connector: str) -> FibreCable | None:
        """Fibre cable for modules of a kind, if there is one."""
        wanted = fibre, connector
        return next(
            (cable for cable in self.fibres if (cable.fibre, cable.connector) == wanted), None
        )


CABLING_BOOKS = Catalog("cabling", "costing/cabling", CablingBook)
