"""How many GPUs a hall has the power for, with each network: sizes are counted, nothing is timed.

Networks are compared at one size, the largest at which each of those that can be bought stays
within the budget, so that prices and times of iterations are of the same work. Beside it stands
what each of them could hold alone.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from math import inf

from msgspec import Struct

from netplan.costing.fabric_bill import Bill, BillBooks, make_bill
from netplan.costing.facility import Facility, most_within, network_w
from netplan.costing.lifetime import ECONOMICS_BOOKS, EconomicsBook
from netplan.costing.prices import POWER_BOOKS
from netplan.costing.ranges import Range
from netplan.errors import InfeasibleError, InputError
from netplan.records import replace
from netplan.scenarios.parts import LARGEST_CLUSTER
from netplan.scenarios.reading import CatalogReader
from netplan.setup.money.pricing import facility_pue
from netplan.setup.question import AnyQuestion
from netplan.topologies.fabric import Sizing
from netplan.topologies.specs import FabricSpec
from netplan.units import si
from netplan.workloads.accelerators import Accelerator

POWER_BUDGET = "Power of the hall, such as 20MW: what fits in it."
"""Help of an input of all questions that size a cluster by its power."""


class Holding(Struct, frozen=True):
    """What a network lets a hall hold.

    Parameters
    ----------
    fabric
        Its name.
    gpus
        GPUs that fit, in whole HB domains [1].
    facility_w
        Power of the hall with them, low to high [W].
    network_power_share
        The network's part of the equipment's power [1].
    next_w
        Power of the hall with an HB domain more; infinite where that cannot be built [W].
    limit
        What limits them, in words.
    partial
        Whether some parts are of unknown power, so that fewer may fit.
    """

    fabric: str
    gpus: int
    facility_w: Range
    network_power_share: float
    next_w: float
    limit: str
    partial: bool

    def fits(self, budget_w: float, unit: int) -> tuple[int, int]:
        """GPUs, in whole units, if servers and PUE are at their high, or low, in proportion [1]."""
        low, high = (budget_w / watts for watts in (self.facility_w.high, self.facility_w.low))
        return int(low * self.gpus) // unit * unit, int(high * self.gpus) // unit * unit


def hall_of(asked: AnyQuestion, reader: CatalogReader, chip: Accelerator) -> Facility:
    """The hall of a question's GPUs: their servers and its PUE."""
    book: EconomicsBook = reader.load(ECONOMICS_BOOKS, asked.books.economics)
    pue = facility_pue(asked, reader, book)
    return Facility.of(chip, reader.load(POWER_BOOKS, asked.books.power), pue)


def holding(
    budget_w: float, hall: Facility, unit: int, name: str, bill_of: Callable[[int], Bill]
) -> Holding | None:
    """What a network lets a hall hold; None if it cannot be built for a single HB domain.

    Parameters
    ----------
    budget_w
        Power of the hall [W].
    hall
        Its servers and PUE.
    unit
        GPUs of an HB domain, none of which is cut [1].
    name, bill_of
        The network, and its bill for so many GPUs.
    """
    reasons: dict[int, str] = {}

    @cache
    def billed(gpus: int) -> Bill | None:
        try:
            return bill_of(gpus)
        except (InputError, InfeasibleError) as error:
            reasons[gpus] = str(error)
            return None

    def draws_w(gpus: int) -> float:
        bill = billed(gpus)
        return hall.facility_w(bill).base if bill else inf

    most = min(int(budget_w / hall.least_w), LARGEST_CLUSTER)
    gpus = most_within(budget_w, draws_w, unit, most)
    bill = billed(gpus or unit)
    if bill is None:
        return None
    beyond = gpus + unit
    limit, next_w = "power", draws_w(beyond) if beyond <= LARGEST_CLUSTER else inf
    if beyond > LARGEST_CLUSTER:
        limit = f"the most GPUs of a plan, {LARGEST_CLUSTER:,}"
    elif next_w == inf:
        limit = reasons[beyond].removeprefix(f"{name}: ")
    share = network_w(bill) / hall.equipment_w(bill).base
    power = hall.facility_w(bill)
    return Holding(name, gpus, power, share, next_w, limit, not hall.knows(bill))


def holdings(
    budget_w: float,
    hall: Facility,
    unit: int,
    specs: Iterable[FabricSpec],
    sizing: Sizing,
    books: BillBooks,
) -> tuple[Holding, ...]:
    """What every network that can be built lets a hall hold, in units of whole HB domains."""

    def bill_of(spec: FabricSpec) -> Callable[[int], Bill]:
        return lambda gpus: make_bill(spec, replace(sizing, gpus=gpus), books)

    held = (holding(budget_w, hall, unit, spec.name, bill_of(spec)) for spec in specs)
    return tuple(known for known in held if known)


SERVER_W = 1e3
"""Below it no budget is that of a hall: somebody left the unit out [W]."""


def common_size(budget_w: float, chip: Accelerator, unit: int, held: Sequence[Holding]) -> int:
    """GPUs that fit whichever of some networks is bought, of those that power limits [1].

    Raises
    ------
    InfeasibleError
        If not a single HB domain fits.
    """
    by_power = [known for known in held if known.limit == "power"] or held
    gpus = min((known.gpus for known in by_power), default=0)
    if gpus:
        return gpus
    needed = max((known.next_w for known in by_power), default=inf)
    needs = f" needs {si(needed, 'W', 4)}" if needed < inf else " cannot be built"
    more = f"write {budget_w:g}MW" if budget_w < SERVER_W else "give more, or other GPUs"
    raise InfeasibleError(
        f"--power-budget {si(budget_w, 'W')}: one HB domain of {unit} {chip.short} with its"
        f" network{needs}: {more}"
    )
