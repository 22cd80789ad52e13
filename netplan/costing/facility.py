"""What a hall draws for GPUs and their network, and how many GPUs it has the power for.

N GPUs draw N (g + s + c) + w: g is the power of a GPU, s that of its share of the server (CPUs,
memory, fans, switches of the HB domain), c that of its network cards where these come in the server
or have no power of their own in the book, and w that of the bill. A hall draws that times its PUE.
"""

from collections.abc import Callable
from math import inf

from msgspec import Struct

from netplan.costing.fabric_bill import Bill
from netplan.costing.prices import PowerBook
from netplan.costing.ranges import Range
from netplan.errors import CatalogError
from netplan.workloads.accelerators import Accelerator

ACCELERATORS = "accelerators"
"""Category of the lines of a bill that stand for GPUs."""
PROPORTIONAL = 12
"""Sizes that are tried in proportion to their power, before halves are [1]."""


class Facility(Struct, frozen=True):
    """A hall with GPUs of one kind.

    Parameters
    ----------
    gpu_w
        Power of a GPU, as its cap has it [W].
    rest
        Power of its share of the server, without its network cards [W].
    cards_w
        Power of those as the server's rating has it [W].
    pue
        Power of the hall over that of the equipment [1].
    source
        Where the power of the server is from.
    """

    gpu_w: float
    rest: Range
    cards_w: float
    pue: Range
    source: str

    @classmethod
    def of(cls, chip: Accelerator, book: PowerBook, pue: Range) -> "Facility":
        """The hall of an accelerator, with the server that a power book has for it.

        Parameters
        ----------
        chip
            The accelerator.
        book
            Its ``servers``, or what it knows of others.
        pue
            Power of the hall over that of the equipment [1].

        Returns
        -------
        Facility
            Power a GPU [W].

        Raises
        ------
        CatalogError
            If the book knows nothing of servers.

        Examples
        --------
        10,200 W of a DGX H100, less 8 GPUs of 700 W and 8 cards of 25 W.

        >>> from netplan.costing.prices import POWER_BOOKS
        >>> from netplan.workloads.accelerators import ACCELERATORS
        >>> chip = ACCELERATORS.load("h100-80gb")
        >>> Facility.of(chip, POWER_BOOKS.load("2026"), Range.point(1.3)).rest.base
        550.0
        """
        server = book.server(chip.name)
        if server is not None:
            source = f"{server.source} ({server.date}, {server.evidence})"
            return cls(chip.power_w, server.rest, server.cards_w, pue, source)
        other = book.other_servers
        if other is None:
            raise CatalogError(
                f"power {book.name} knows no server of {chip.name}: add a row of servers to a copy"
            )
        full_w = chip.full_power_w
        return cls(chip.power_w, full_w * other.range, 0.0, pue, f"{other.source} ({other.date})")

    def equipment_w(self, bill: Bill) -> Range:
        """Power of GPUs, servers and of what is on a bill.

        Parameters
        ----------
        bill
            Of so many GPUs; lines that stand for these themselves do not count twice.

        Returns
        -------
        Range
            Low, base and high [W].
        """
        network = network_w(bill)
        # Cards count with the servers, where the bill has none of known power.
        cards = any(item.line.part == "nic_port" for item in bill.quote.items)
        known = cards and all(line.part != "nic_port" for line in bill.draw.unknown)
        apart = self.gpu_w + (0.0 if known else self.cards_w)
        return bill.gpus * (self.rest + Range.point(apart)) + Range.point(network)

    def facility_w(self, bill: Bill) -> Range:
        """Power of the hall, low to high [W]."""
        return self.equipment_w(bill).product(self.pue)

    def knows(self, bill: Bill) -> bool:
        """Whether the power of all parts of a bill is known; a server's rating holds its cards."""
        covered = "nic_port" if self.cards_w else ""
        return all(line.part == covered for line in bill.draw.unknown)

    @property
    def least_w(self) -> float:
        """Power of the hall for a GPU without its network [W]."""
        return (self.gpu_w + self.rest.base) * self.pue.base


def network_w(bill: Bill) -> float:
    """Typical power of a bill without GPUs [W].

    Parameters
    ----------
    bill
        The bill, with GPUs on it or not.

    Returns
    -------
    float
        What is known of it [W].
    """
    gpus_w = (
        item.line.quantity * (item.line.typical_w or 0.0)
        for item in bill.quote.items
        if item.line.category == ACCELERATORS
    )
    return bill.draw.typical_w - sum(gpus_w)


def most_within(budget_w: float, draws_w: Callable[[int], float], unit: int, most: int) -> int:
    """The most GPUs, in whole units, that draw no more than a budget.

    Power is nearly in proportion to GPUs: of an interval that is known to hold the answer the next
    size is the one in proportion, and the middle where that does not close it.

    Parameters
    ----------
    budget_w
        The budget [W].
    draws_w
        What so many GPUs draw [W]; infinite where they cannot be built.
    unit
        GPUs of a server or HB domain [1].
    most
        More than that cannot fit [1].

    Returns
    -------
    int
        GPUs that fit, of which a unit more does not or would be more than ``most`` [1]; 0 if not
        even one unit fits.

    Examples
    --------
    1,000 W for units of 8 GPUs of 10 W and a network of 100 W: 11 units.

    >>> most_within(1000, lambda gpus: 10 * gpus + 100, 8, 1000)
    88
    """
    low, high = 0, most // unit + 1
    units, tried = high - 1, 0
    while high - low > 1:
        drawn_w = draws_w(units * unit)
        low, high = (units, high) if drawn_w <= budget_w else (low, units)
        tried += 1
        near = budget_w / drawn_w * units if 0 < drawn_w < inf and tried < PROPORTIONAL else 0.0
        units = min(max(int(near), low + 1), high - 1) if near else (low + high) // 2
    return low * unit
