"""How many GPUs a power budget holds with each network, and what is left of it."""

from collections.abc import Iterator, Sequence
from math import inf
from typing import Any, Protocol

from msgspec import Struct

from netplan.costing.fabric_bill import Bill
from netplan.costing.facility import Facility, network_w
from netplan.costing.ranges import Range
from netplan.reports.quantities import DASH
from netplan.reports.sections import Column, Table, column, columns
from netplan.setup.power_budget import Holding
from netplan.units import PERCENT, si

SHOWN = 4
"""Significant digits of powers in sentences [1]."""


class BudgetedNetwork(Protocol):
    """What is read of a network of an answer: its bill and its time, infinite without one [s]."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def bill(self) -> Bill | None:
        """Its bill, if it can be built."""

    @property
    def time_s(self) -> float:
        """Iteration time [s]."""


class Budget(Struct, frozen=True):
    """A power budget, and the GPUs that it holds.

    Parameters
    ----------
    budget_w
        Power of the hall [W].
    gpus, unit
        GPUs that networks are compared at, and those of an HB domain [1].
    given
        Whether these were asked for; else they are as many as fit.
    chip
        What people call the GPU, its cap included.
    cooling
        What cools it; empty where nothing says so.
    hall
        Power of a GPU, its server and the PUE.
    held
        What each network lets the hall hold.
    tokens
        Tokens of an iteration at the size that is compared; 0 where none is timed [1].
    networks
        What is compared at that size.
    """

    json_parts = (
        *("budget_w", "gpus", "gpus_given=given", "gpus_of_a_unit=unit", "cooling?", "hall.pue"),
        *("hall.gpu_w", "rest_of_server_w=hall.rest", "server_source=hall.source"),
        "fabrics=rows",
    )

    budget_w: float
    gpus: int
    unit: int
    given: bool
    chip: str
    cooling: str
    hall: Facility
    held: tuple[Holding, ...]
    tokens: int = 0
    networks: Sequence[BudgetedNetwork] = ()

    @property
    def words(self) -> str:
        """The budget and the GPUs in it, or what those asked for need, in a line or two."""
        pue = self.hall.pue
        span = f" ({pue.low:.3g}-{pue.high:.3g})" if pue.spread else ""
        cooled = f" by {self.cooling}" if self.cooling else ""
        return f"{si(self.budget_w, 'W', SHOWN)} at a PUE of {pue.base:.4g}{span}{cooled}"

    def sentences(self, row: BudgetedNetwork | None) -> Iterator[str]:
        """How many GPUs there are with a network, what they draw, and what limits them.

        Parameters
        ----------
        row
            The network that is ordered, or the first.
        """
        if row is None or row.bill is None:
            return
        equipment = self.hall.equipment_w(row.bill).base
        power, share = self.hall.facility_w(row.bill), network_w(row.bill) / equipment
        held = next((known for known in self.held if known.fabric == row.name), None)
        left_w = self.budget_w - power.base
        needs = (
            f"{self.gpus:,} {self.chip} need {si(power.base, 'W', SHOWN)}"
            f" ({si(equipment, 'W', SHOWN)} of equipment, {PERCENT * share:.1f} % of it network)"
        )
        if left_w < 0:
            yield f"{needs}, {si(-left_w, 'W', 3)} more than {self.words}."
        else:
            yield f"{needs} of {self.words}."
        if held is not None:
            low, high = held.fits(self.budget_w, self.unit)
            span = f" ({low:,}-{high:,} by servers and PUE)" if low < high else ""
            yield f"With {row.name} alone {held.gpus:,} fit{span}; limit: {held.limit}."

    def fit_of(self, fabric: str) -> str:
        """GPUs that fit with a network alone, as a column has it."""
        held = next((known for known in self.held if known.fabric == fabric), None)
        return f"{'≤' if held.partial else ''}{held.gpus:,}" if held else DASH

    def rate_of(self, row: BudgetedNetwork) -> float | None:
        """Tokens that a network trains in a second, which compares halls of unlike sizes [1/s]."""
        return self.tokens / row.time_s if self.tokens and row.time_s < inf else None

    @property
    def rows(self) -> list["BudgetRow"]:
        """A row a network that can be built at the size that is compared."""
        held = {known.fabric: known for known in self.held}
        return [
            BudgetRow(
                row.name,
                known.gpus,
                known.network_power_share,
                self.rate_of(row),
                self.hall.facility_w(row.bill),
                self.budget_w - self.hall.facility_w(row.bill).base,
                known.limit,
                known.partial,
            )
            for row in self.networks
            if row.bill and (known := held.get(row.name))
        ]

    def table(self) -> Table[Any]:
        """GPUs that each network would let the hall hold, and what it leaves at one size."""
        shown: list[Column[Any]] = [
            column("fabric"),
            column("gpus_fit", "gpus", mark=lambda row: ("≤ " if row.partial else "", "")),
            *columns("network_power_share", "facility_w=facility_w.base", "left_w", "tokens_per_s"),
            column("limit", form="prose", shown="wide"),
        ]
        legend = (
            f"GPUs: as many as fit with that network alone; MW and left: at {self.gpus:,} GPUs.",
            *(("≤: parts of unknown power draw more.",) if self.partial else ()),
        )
        return Table("power_budget", shown, self.rows, legend=legend)

    @property
    def partial(self) -> bool:
        """Whether the power of some parts of a network is not known."""
        return any(known.partial for known in self.held)


class BudgetRow(Struct, frozen=True):
    """A network: GPUs that fit with it alone, its share of the equipment's power, and what is left.

    ``facility_w`` and ``left_w`` are at the size that networks are compared at [W].
    """

    fabric: str
    gpus: int
    network_power_share: float
    tokens_per_s: float | None
    facility_w: Range
    left_w: float
    limit: str
    partial: bool
