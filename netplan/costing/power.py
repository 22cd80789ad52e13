"""Power books: what one part of a network draws."""

from netplan.catalog import Record, Shelf
from netplan.costing.prices import Part
from netplan.records import Entry, NonNegativeFloat, PositiveFloat


class Draw(Entry, frozen=True, kw_only=True):
    """Power of one part at one speed, typical and at most [W]."""

    part: Part
    speed_gbps: PositiveFloat
    typical_w: NonNegativeFloat
    max_w: NonNegativeFloat | None = None
    date: str
    source: str
    note: str = ""

    def __post_init__(self) -> None:
        """Refuse a most that is below the typical value."""
        if self.max_w is not None and self.max_w < self.typical_w:
            raise ValueError(f"max_w {self.max_w:g} is below typical_w {self.typical_w:g}")


class PowerBook(Record, frozen=True, kw_only=True):
    """Power of the parts of a network."""

    draws: tuple[Draw, ...]
    notes: tuple[str, ...] = ()

    def draw(self, part: str, speed_gbps: float) -> Draw | None:
        """Power of a part at exactly this speed, or None if the book does not have it.

        Parameters
        ----------
        part
            Kind of part, such as ``switch_port``.
        speed_gbps
            Its speed [Gb/s].

        Returns
        -------
        Draw | None
            Power of the part, typical and at most [W].
        """
        key = part, speed_gbps
        return next((one for one in self.draws if (one.part, one.speed_gbps) == key), None)


POWER_BOOKS = Shelf("power", "costing/power", PowerBook)
