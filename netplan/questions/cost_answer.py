"""What a cost question answers: a priced bill for every fabric, and the forms programs read."""

from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from netplan.costing.fabric_bill import FabricBill, Unbuildable
from netplan.costing.materials import BillItem, left_out
from netplan.costing.pricing import PricedItem
from netplan.costing.sensitivity import BreakEven, break_even
from netplan.reports.text import Cell
from netplan.version import __version__

if TYPE_CHECKING:
    import pandas as pd


TRAINING = "training"
"""Name, in lists, of the network that trains."""


def _bill_dict(bill: FabricBill) -> dict[str, Any]:
    """A bill as the command line prints it in JSON."""
    life = bill.life
    return {
        "fabric": bill.name,
        "title": bill.title,
        "ports_close": True,
        "items": [_item_dict(item) for item in bill.quote.items],
        "cost": {"currency": bill.quote.currency, **asdict(bill.cost)} if bill.cost else None,
        "capital": asdict(bill.capital),
        "capital_per_gpu": asdict(bill.per_gpu),
        "power_w": bill.power_w,
        "energy_kwh_per_year": asdict(life.energy_kwh_per_year),
        "energy_per_year": asdict(life.energy_per_year),
        "energy": asdict(life.energy),
        "annuity_per_year": asdict(life.annuity_per_year),
        "cost_per_year": asdict(life.per_year),
        "cost_over_life": asdict(life.total),
        "drivers": [asdict(driver) | {"swing": driver.swing} for driver in bill.drivers],
        "unpriced": [line.title for line in bill.quote.unpriced],
        "power_unknown": [line.title for line in bill.draw.unknown],
        "notes": list(bill.notes),
    }


def _refused_dict(row: Unbuildable) -> dict[str, Any]:
    """A refusal as JSON: the keys of a bill, empty."""
    empty = dict.fromkeys(_BILL_NUMBERS)
    lists: dict[str, Any] = {key: [] for key in ("items", "drivers", "unpriced")}
    head = {"fabric": row.name, "title": None, "ports_close": False}
    return head | lists | empty | {"power_unknown": [], "notes": [row.reason]}


_BILL_NUMBERS = (
    "cost",
    "capital",
    "capital_per_gpu",
    "power_w",
    "energy_kwh_per_year",
    "energy_per_year",
    "energy",
    "annuity_per_year",
    "cost_per_year",
    "cost_over_life",
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The cheapest fabric against another one, part by part."""

    cheaper: str
    dearer: str
    difference: float
    break_evens: tuple[BreakEven, ...]
    uncounted: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The comparison as JSON."""
        return asdict(self) | {
            "break_evens": [asdict(found) for found in self.break_evens],
            "uncounted": list(self.uncounted),
        }


@dataclass(frozen=True, slots=True)
class CostAnswer:
    """The answer of :func:`netplan.questions.cost.cost`."""

    inputs: dict[str, Any]
    currency: str
    bills: tuple[FabricBill, ...]
    refused: tuple[Unbuildable, ...]

    @property
    def left_out(self) -> tuple[str, ...]:
        """What the bills do not hold."""
        return left_out(self.inputs["networks"])

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """The fabric of the lowest base price against each of the others."""
        ranked = sorted(self.bills, key=lambda bill: (bill.capital.base, bill.name))
        return tuple(_compare(ranked[0], other) for other in ranked[1:])

    def to_dict(self) -> dict[str, Any]:
        """Exactly the JSON of ``netplan cost --format json``."""
        return {
            "netplan_version": __version__,
            "inputs": self.inputs,
            "currency": self.currency,
            "fabrics": [
                *(_bill_dict(bill) for bill in self.bills),
                *(_refused_dict(row) for row in self.refused),
            ],
            "comparisons": [comparison.to_dict() for comparison in self.comparisons],
            "left_out": list(self.left_out),
        }

    def to_rows(self) -> list[dict[str, Cell]]:
        """One flat row a line of the bills, for CSV, Markdown and frames."""
        return [_flat(bill, item) for bill in self.bills for item in bill.quote.items]

    def to_frame(self) -> "pd.DataFrame":
        """One row a line of the bills, one column a number."""
        import pandas as pd

        return pd.DataFrame(self.to_rows()).set_index(["fabric", "item"])

    def _repr_html_(self) -> str:
        from netplan.questions.cost_table import cost_html

        return cost_html(self)


def _compare(cheaper: FabricBill, dearer: FabricBill) -> Comparison:
    """Break-evens over all priced parts of two bills, and the parts without a price that differ."""
    one, two = cheaper.quote, dearer.quote
    parts = sorted({*one.priced_parts, *two.priced_parts})
    return Comparison(
        cheaper=cheaper.name,
        dearer=dearer.name,
        difference=two.total.base - one.total.base,
        break_evens=tuple(break_even(one, two, part) for part in parts),
        uncounted=_uncounted(one.unpriced, two.unpriced),
    )


def _uncounted(one: tuple[BillItem, ...], two: tuple[BillItem, ...]) -> tuple[str, ...]:
    """Items without a price that the two bills do not hold alike."""
    counts, others = (_orders(lines) for lines in (one, two))
    items = sorted({*counts, *others})
    return tuple(item for item in items if counts[item] != others[item])


def _orders(lines: tuple[BillItem, ...]) -> Counter[str]:
    """Units by item; cables of all lengths together."""
    found: Counter[str] = Counter()
    for line in lines:
        cable = line.category == "cables"
        found[line.title.rpartition(",")[0] if cable else line.title] += line.order
    return found


def _item_dict(item: PricedItem) -> dict[str, Any]:
    line, price = item.line, item.price
    return {
        "network": line.network or TRAINING,
        "category": line.category,
        "item": line.item,
        "specification": line.specification,
        "quantity": line.quantity,
        "spares": line.spares,
        "order": line.order,
        "unit": line.unit,
        "price_part": price.what if price else None,
        "price_units": item.price_units,
        "unit_price": asdict(item.unit_price) if price else None,
        "total": asdict(item.total) if price else None,
        "price_date": price.date if price else None,
        "price_source": price.source if price else None,
        "price_confidence": price.confidence if price else None,
        "notes": list(line.notes),
    }


def _flat(bill: FabricBill, item: PricedItem) -> dict[str, Cell]:
    data = _item_dict(item)
    row: dict[str, Cell] = {"fabric": bill.name, "currency": bill.quote.currency}
    row |= {key: data[key] for key in _FLAT_BEFORE}
    for key in ("unit_price", "total"):
        amount = data[key] or {}
        row |= {f"{key}_{case}": amount.get(case) for case in ("low", "base", "high")}
    row |= {key: data[key] for key in ("price_date", "price_confidence", "price_source")}
    return row | {"notes": "; ".join(item.line.notes)}


_FLAT_BEFORE = (
    "category",
    "item",
    "specification",
    "quantity",
    "spares",
    "order",
    "unit",
    "network",
)
