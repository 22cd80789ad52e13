"""Cabling books: modules, cables, cards, racks, and how far each carries a link.

Which of them a link takes is one rule for all fabrics: its length is rounded up to one that is
sold, and the first in the order of price that fits and reaches is taken
(:func:`netplan.costing.wiring.first_that_closes`). How long a link is says a hall
(:mod:`netplan.topologies.cabling.floor_plan`).
"""

from collections.abc import Sequence
from math import inf
from typing import Annotated, Literal

from msgspec import Meta

from netplan.catalog import Catalog, Record, Sourced
from netplan.errors import CatalogError
from netplan.inputs.choices import Evidence
from netplan.records import Entry, NonNegativeInt, PositiveFloat, PositiveInt
from netplan.topologies.graph import Medium

ANY = "any"
"""Form factor of a cage or a plug that nobody has chosen yet: it fits only its like."""

Fibre = Literal["multimode", "singlemode"]
CableKind = Literal["dac", "acc", "aec", "aoc"]
"""Cables with fixed plugs: passive copper, amplified, retimed, and optical."""
ModuleKind = Literal["sr", "dr", "fr", "lr"]
"""Modules by the reach that their names stand for."""
SINGLE_MODE_REACH_M: tuple[tuple[ModuleKind, int], ...] = (("dr", 500), ("fr", 2000))
"""Classes of single-mode modules of IEEE 802.3, and how far they reach [m]; longer ones are LR."""
MediumKind = Literal[CableKind, ModuleKind]
"""What may carry a link, in the order of price."""
LinkKind = Literal["host", "leaf-spine", "upper", "local", "global", "ring"]


class Length(Entry, frozen=True, kw_only=True):
    """Length that a kind of link is taken to have where no floor plan says so."""

    group: LinkKind
    medium: Medium
    length_m: PositiveFloat
    source: str
    evidence: Evidence | None = None


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


class Card(Sourced, frozen=True, kw_only=True):
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


class Module(Sourced, frozen=True, kw_only=True):
    """Transceiver: the cage that it fits and the links that it carries.

    Without ``speed_gbps`` it stands for modules of any rate. ``connector`` is what its fibre cables
    end in; a link needs ``fibre_cables`` of them. Optics that are parts of a switch
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

    @property
    def grade(self) -> ModuleKind:
        """Class of its reach: ``sr`` over multimode fibre, else ``dr``, ``fr`` or ``lr``."""
        if self.fibre == "multimode":
            return "sr"
        return next((grade for grade, most in SINGLE_MODE_REACH_M if self.reach_m <= most), "lr")


class PricedCable(Sourced, frozen=True, kw_only=True):
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

    def __post_init__(self) -> None:
        """Refuse links that do not divide over the plugs."""
        if self.links % self.split:
            raise ValueError(f"{self.links} links do not divide over {self.split} plugs")


class MediumReach(Sourced, frozen=True, kw_only=True):
    """How far a medium carries lanes of a rate, whoever makes it [m].

    A cable is ``straight`` with one plug at each end, ``split`` with several at one. Of a kind
    that a rate of lanes lacks nothing is sold there.
    """

    kind: MediumKind
    lane_gbps: PositiveFloat
    plugs: Literal["any", "straight", "split"] = "any"
    reach_m: PositiveFloat


class FibreCable(Sourced, frozen=True, kw_only=True):
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

    @property
    def words(self) -> str:
        """Glass, connectors and polarity."""
        return f"{self.connector}, {self.grade}, polarity {self.polarity}"


class Racks(Entry, frozen=True, kw_only=True):
    """Racks of switches where no hall says more.

    Units of a rack, of a switch without a model, and of the cables beside one [1], and what a rack
    is fed with [W].
    """

    units: Annotated[int, Meta(ge=1, le=60)]
    switch_units: PositiveInt
    cable_units: NonNegativeInt = 0
    rack_w: PositiveFloat | None = None
    source: str
    evidence: Evidence | None = None


class CablingBook(Record, frozen=True, kw_only=True):
    """What cables, modules and cards there are, and how long a cable is taken to be."""

    lengths: tuple[Length, ...]
    cards: tuple[Card, ...]
    modules: tuple[Module, ...]
    cables: tuple[PricedCable, ...]
    fibres: tuple[FibreCable, ...] = ()
    reaches: tuple[MediumReach, ...] = ()
    stock_lengths_m: tuple[PositiveFloat, ...] = ()
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
        """Rate of a lane at a link rate, by the slowest network card as fast; None if not known.

        Examples
        --------
        >>> book = CABLING_BOOKS.load("2026")
        >>> book.lane_gbps(400), book.lane_gbps(66.7), book.lane_gbps(1)
        (100.0, 25.0, None)
        """
        cards = sorted(self.cards, key=lambda card: card.speed_gbps)
        fast = [card for card in cards if card.speed_gbps >= speed_gbps] or cards[-1:]
        return fast[0].lane_gbps if fast else None

    def split_lane_gbps(self, links: int, speed_gbps: float) -> float | None:
        """Rate of a lane where a card's port is split into so many links of a rate."""
        whole = links * speed_gbps
        cards = (card for card in self.cards if card.speed_gbps == whole)
        splits = (split for card in cards for split in card.splits if split.links == links)
        split = next(splits, None) if links > 1 else None
        return split.lane_gbps if split is not None else self.lane_gbps(speed_gbps)

    def reach_m(
        self, kind: MediumKind, lane_gbps: float | None, *, straight: bool | None = False
    ) -> float:
        """How far a medium carries lanes of a rate [m].

        Parameters
        ----------
        kind
            ``dac``, ``acc``, ``aec``, ``aoc``, ``sr``, ``dr``, ``fr`` or ``lr``.
        lane_gbps
            Rate of a lane; one between two of the table reaches as the faster of them. Without
            one nothing is known that would limit it [Gb/s].
        straight
            Whether the cable has one plug at each end, or is split; None for the longer of both.

        Returns
        -------
        float
            0 where nothing of the kind is sold; infinite where no reach is known [m].

        Examples
        --------
        >>> book = CABLING_BOOKS.load("2026")
        >>> book.reach_m("dac", 100), book.reach_m("dac", 100, straight=True)
        (3.0, 2.0)
        >>> book.reach_m("dac", 200), book.reach_m("dac", None)
        (0.0, inf)
        """
        if lane_gbps is None or not self.reaches:
            return inf
        lanes = {reach.lane_gbps for reach in self.reaches}
        lane = min((known for known in lanes if known >= lane_gbps), default=None)
        forms = {True: ("straight",), False: ("split",), None: ("straight", "split")}
        plugs = ("any", *forms[straight])
        return max(
            (
                reach.reach_m
                for reach in self.reaches
                if (reach.kind, reach.lane_gbps) == (kind, lane) and reach.plugs in plugs
            ),
            default=0.0,
        )

    def module(self, item: str) -> Module | None:
        """Module of a name, if there is one."""
        return next((module for module in self.modules if module.item == item), None)

    def cable(self, item: str) -> PricedCable | None:
        """Cable with fixed plugs of a name, if there is one."""
        return next((cable for cable in self.cables if cable.item == item), None)

    def fibre_cable(self, fibre: str, connector: str) -> FibreCable | None:
        """Fibre cable for modules of a kind, if there is one."""
        wanted = fibre, connector
        return next(
            (cable for cable in self.fibres if (cable.fibre, cable.connector) == wanted), None
        )


CABLING_BOOKS = Catalog("cabling", "costing/cabling", CablingBook)
