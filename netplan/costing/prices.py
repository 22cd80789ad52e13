"""Price books: what one part costs, as a range, with currency, date and source."""

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, NonNegativeFloat, PositiveFloat, model_validator

from netplan.catalog import Record, Shelf

Part = Literal["switch_port", "transceiver", "copper_cable", "nic_port"]

BASIS: dict[str, str] = {
    "switch_port": "port",
    "transceiver": "each",
    "copper_cable": "each",
    "nic_port": "port",
}
"""What one unit of each part is."""


class Price(BaseModel):
    """Price of one part at one speed.

    ``unit`` is the book's currency per basis, for example ``USD/port``. ``low`` and ``high`` are
    left out where no source states a spread; the answer then has none.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    part: Part
    speed_gbps: PositiveFloat
    unit: str
    base: NonNegativeFloat
    low: NonNegativeFloat | None = None
    high: NonNegativeFloat | None = None
    date: str
    source: str
    confidence: Literal["high", "medium", "low"]
    note: str = ""

    @model_validator(mode="after")
    def _range_in_order(self) -> Self:
        low, high = self.low, self.high
        if (low is not None and low > self.base) or (high is not None and high < self.base):
            raise ValueError(f"prices run low <= base <= high, got {low}, {self.base}, {high}")
        return self


class PriceBook(Record):
    """Prices of one source or date, in one currency."""

    currency: str
    prices: tuple[Price, ...]
    notes: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _units_and_duplicates(self) -> Self:
        seen = set()
        for price in self.prices:
            unit = f"{self.currency}/{BASIS[price.part]}"
            what = f"{price.part} at {price.speed_gbps:g} Gb/s"
            if price.unit != unit:
                raise ValueError(f"{what}: unit must be {unit!r}, got {price.unit!r}")
            if (price.part, price.speed_gbps) in seen:
                raise ValueError(f"{what} is priced twice: keep one")
            seen.add((price.part, price.speed_gbps))
        return self

    def price(self, part: str, speed_gbps: float) -> Price | None:
        """Price of a part at exactly this speed, or None if the book does not have it."""
        for price in self.prices:
            if price.part == part and price.speed_gbps == speed_gbps:
                return price
        return None


PRICE_BOOKS = Shelf("prices", "costing/prices", PriceBook)
