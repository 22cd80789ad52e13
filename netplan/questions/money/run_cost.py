"""What one training run costs: the network's share, that of expanded memory, and GPU hours.

A share is the yearly cost, annuity and energy, for the days of the run. An hour of a GPU holds its
server, and all GPUs bought are paid for. Interruptions are not counted.
"""

from typing import Any

from msgspec import Struct

from netplan.costing.fabric_bill import Bill
from netplan.costing.lifetime import lifetime
from netplan.costing.ranges import Range
from netplan.questions.choosing.verdict import Terms
from netplan.records import asdict
from netplan.units import DAY_S, HOURS_PER_DAY, YEAR_S


class RunCost(Struct, frozen=True):
    """A training run on one bill: its iterations [1], days, shares, GPU hours and their price.

    Where parts have no price the shares leave them out, and the run is not ``complete``.
    """

    iterations: int
    days: float
    network: Range
    memory: Range
    gpu_hours: float
    gpu_hour: float
    complete: bool

    @property
    def gpus(self) -> Range:
        """Price of the GPU hours."""
        return Range.point(self.gpu_hours * self.gpu_hour)

    @property
    def total(self) -> Range:
        """Price of the run."""
        return self.network + self.memory + self.gpus

    def to_dict(self) -> dict[str, Any]:
        """The run as JSON."""
        known = {"iterations": self.iterations, "days": self.days}
        amounts = ("network", "memory", "gpus", "total")
        hours = {"gpu_hours": self.gpu_hours, "gpu_hour": self.gpu_hour}
        found = known | {name: asdict(getattr(self, name)) for name in amounts} | hours
        return found | {"complete": self.complete}


def run_cost(bill: Bill, time_s: float, terms: Terms) -> RunCost:
    """Cost of a training run on the network and expanded memory of a bill.

    Parameters
    ----------
    bill
        The bill, without accelerators.
    time_s
        Iteration time [s].
    terms
        Iterations, price of a GPU hour, what a year costs.

    Examples
    --------
    A third of a year of a network of 3 M without interest over a life of one year costs 1 M.

    >>> from netplan.costing.fabric_bill import BillBooks, make_bill
    >>> from netplan.costing.lifetime import Running
    >>> from netplan.questions.cost import cost
    >>> bill = cost("rail-only-paper", gpus=1024, radix=64, fabrics=("rail-only",)).bills[0]
    >>> free = Running(1, Range.point(1.0), Range.point(0.0), Range.point(0.0))
    >>> run = run_cost(bill, YEAR_S / 3, Terms(1, 2.0, free))
    >>> round(run.network.base / bill.capital.base, 9), round(run.gpu_hours), run.memory.base
    (0.333333333, 2990080, 0.0)
    """
    run_s = terms.iterations * time_s
    memory = bill.memory
    capital = bill.capital
    if memory.base:
        capital = Range(*(capital.at(end) - memory.at(end) for end in ("low", "base", "high")))
    share = run_s / YEAR_S
    days = run_s / DAY_S
    return RunCost(
        iterations=terms.iterations,
        days=days,
        network=share * lifetime(capital, bill.draw.typical_w, terms.running).per_year,
        memory=share * lifetime(memory, 0.0, terms.running).per_year,
        gpu_hours=days * HOURS_PER_DAY * bill.gpus,
        gpu_hour=terms.gpu_hour,
        complete=not bill.unpriced_apart,
    )
