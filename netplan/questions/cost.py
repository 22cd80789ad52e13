"""The bill of materials of fabrics: what to order, what it costs, what drives that.

Ports close before anything is priced: a fabric whose cable ends have no home has no bill.
"""

from dataclasses import dataclass
from typing import ClassVar

from netplan.costing.fabric_bill import Bill, BillBooks, FabricBill, Unbuildable, make_bill
from netplan.costing.lifetime import Running, lifetime
from netplan.costing.materials import parse_spares
from netplan.costing.switches import require_switch
from netplan.errors import InfeasibleError, InputError
from netplan.questions.cost_answer import CostAnswer
from netplan.questions.inputs import CatalogReader
from netplan.questions.pricing import PricingQuestion, running_inputs
from netplan.questions.question import asks
from netplan.topologies.specs import FABRICS
from netplan.workloads.accelerators import ACCELERATORS

DEFAULT_FABRICS = ("rail-optimized", "rail-only")


@dataclass(frozen=True, kw_only=True)
class Cost(PricingQuestion[CostAnswer]):
    """Make the bill of materials of a network, with its price range and what drives it.

    Ports close before anything is priced: every cable end has a port of the right speed and form.

    Raises
    ------
    NetplanError
        If an input is not allowed; the message says what is.

    Examples
    --------
    >>> answer = cost(gpus=32768, radix=128)
    >>> [(bill.name, bill.capital.base) for bill in answer.bills]
    [('rail-optimized', 196083712.0), ('rail-only', 49020928.0)]
    """

    command: ClassVar[str] = "cost"
    examples: ClassVar[tuple[str, ...]] = (
        "netplan cost --gpus 32768 --radix 128 --prices 2026",
        "netplan cost --gpus 1024 --radix 64 --accelerator h100-80gb --switch qm9700 --spares 2%",
        "netplan cost --gpus 4096 --radix 64 --currency EUR --format xlsx -o bill.xlsx",
    )

    def ask(self) -> CostAnswer:
        """Build, list, price and run every fabric."""
        reader = CatalogReader(self.catalog, self.overrides)
        chosen = reader.load(ACCELERATORS, self.accelerator)
        books = self.books(reader)
        money = self.currency or books.prices.currency
        books.prices.exchange(books.prices.currency, money)
        running = self.running(reader, books.prices, money)
        specs = [reader.load(FABRICS, name) for name in self.fabrics or DEFAULT_FABRICS]
        replaced = reader.replaced()
        sizing = self.sized(chosen)
        require_switch(books.switch, specs, sizing, reader.roots)
        if books.ocs is not None and not any(spec.family == "torus" for spec in specs):
            raise InputError(
                f"--ocs {books.ocs.name} joins cubes of a torus: add --fabric torus-3d"
            )
        if books.ocs is not None and books.hall is not None:
            raise InputError(
                "--floor-plan has no place for circuit switches: leave it or --ocs out"
            )
        shares = parse_spares(self.asked_spares)
        bills, refused = [], []
        for spec in specs:
            try:
                bill = make_bill(spec, sizing, books, spares=shares, currency=money)
            except (InputError, InfeasibleError) as error:
                refused.append(Unbuildable(spec.name, f"Cannot be built: {error}."))
            else:
                bills.append(_run(bill, books, running))
        if not bills:
            raise InfeasibleError(f"{refused[0].name}: {refused[0].reason}")
        inputs = self.inputs(
            hb_size=sizing.hb_size,
            fabrics=[spec.name for spec in specs],
            spares=self.asked_spares,
            networks=[network.name for network, _ in books.networks],
            currency=money,
            discount=books.prices.discount,
            **running_inputs(running),
            link_gbps=sizing.speed_gbps,
            set=replaced,
        )
        return CostAnswer(inputs, money, tuple(bills), tuple(refused))


cost = asks(Cost)


def _run(bill: Bill, books: BillBooks, running: Running) -> FabricBill:
    """The bill with its years of use, and with all that is to be said about it."""
    notes = [*bill.fabric.notes, *bill.notes]
    if bill.draw.unknown:
        parts = ", ".join(f"{line.quantity:,} {line.title}" for line in bill.draw.unknown)
        notes.append(f"No power in {books.power.name} for {parts}.")
    life = lifetime(bill.capital, bill.draw.typical_w, running)
    return FabricBill(bill.fabric, bill.quote, bill.draw, bill.racks, tuple(notes), life)
