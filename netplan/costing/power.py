"""Power books: what one part of a network draws."""

from typing import Self

from pydantic import NonNegativeFloat, PositiveFloat, model_validator

from netplan.catalog import Entry, Record, Shelf
from netplan.costing.prices import Part


class Draw(Entry):
    """Power of one part at one speed, typical and at most [W]."""

    part: Part
    speed_gbps: PositiveFloat
    typical_w: NonNegativeFloat
    max_w: NonNegativeFloat | None = None
    date: str
    source: str
    note: str = ""

    @model_validator(mode="after")
    def _max_above_typical(self) -> Self:
        if self.max_w is not None and self.max_w < self.typical_w:
            raise ValueError(f"max_w {self.max_w:g} is below typical_w {self.typical_w:g}")
        return self


class PowerBook(Record):
    """Power of the parts of a network."""

    draws: tuple[Draw, ...]
    notes: tuple[str, ...] = ()

    def draw(self, part: str, speed_gbps: float) -> Draw | None:
        """Power of a part at exactly this speed, or None if the book does not have it."""
        key = part, speed_gbps
        return next((one for one in self.draws if (one.part, one.speed_gbps) == key), None)


POWER_BOOKS = Shelf("power", "costing/power", PowerBook)
