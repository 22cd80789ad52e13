"""What the best plan of a served model costs: the row of its fabric that a comparison has.

The bill is that of ``netplan compare --workload serving``: network, cards as they are bought, the
gear of HB domains if it is asked for; GPUs are paid by the hour.
"""

from msgspec import Struct

from netplan.answers.compare_rows import FabricRow, priced_row
from netplan.records import replace
from netplan.scenarios.reading import CatalogReader
from netplan.setup.money.run_cost import TokenCost, network_bill, rates_of
from netplan.setup.question import AnyQuestion
from netplan.setup.served_plan import ServedPlan
from netplan.units import si


class ServedPrice(Struct, frozen=True):
    """The row of a fabric with its bill and what tokens cost; or why there is none."""

    json_parts = (
        *("cost=row.bill.amount", "row.cost_per_gpu", "row.cost_complete", "row.power_w"),
        *("row.power_complete", "cost_per_million_tokens=row.served.cost.amounts.total"),
        "bill_per_million_tokens=row.served.cost.amounts.network",
        "gpus_per_million_tokens=row.served.cost.amounts.gpus",
        "tokens_cost_complete=row.served.cost.complete",
    )

    currency: str = ""
    row: FabricRow | None = None
    why: str = ""

    @property
    def words(self) -> str:
        """What a million tokens cost, and the network's price and power, in one sentence."""
        row = self.row
        if row is None or row.bill is None:
            return f"No price: {self.why}."
        least = "" if row.cost_complete else "≥ "
        draws = "" if row.power_w is None else f", {si(row.power_w, 'W')}"
        network = f"{least}{row.bill.capital.base:,.0f} {self.currency}{draws}"
        cost = row.served.cost if row.served else None
        if row.served is None or cost is None:
            return f"No price of a GPU hour is known; the network: {network}."
        plan, price = row.served.plan, cost.total.base
        ends = [price * plan.tokens_per_s / plan.tokens_per_s_high]
        ends += [price * plan.tokens_per_s / plan.tokens_per_s_low]
        by_bar = "" if ends[0] == ends[1] else f" ({ends[0]:,.2g} to {ends[1]:,.2g} by their bar)"
        return (
            f"A million tokens of answers cost {'' if cost.complete else '≥ '}{price:,.3g}"
            f" {self.currency}{by_bar}, {cost.network.base:,.3g} for the network ({network})."
        )


def served_price(asked: AnyQuestion, reader: CatalogReader, plan: ServedPlan) -> ServedPrice:
    """The price of a plan on the fabric that is asked about.

    Parameters
    ----------
    asked
        The question.
    reader
        Of the catalogs, with the values that are replaced in them.
    plan
        The best plan.

    Returns
    -------
    ServedPrice
        As ``netplan compare --workload serving`` has it for these inputs; without a row where the
        network cannot be built or paid for.
    """
    spec, books, bill = network_bill(asked, reader, asked.cluster.fabric)
    currency = books.prices.currency
    if isinstance(bill, str):
        return ServedPrice(currency, why=bill)
    terms = rates_of(asked, "price", reader, 1, books.prices, currency)
    row = replace(priced_row(spec, bill, books), served=TokenCost.of(plan, bill, terms))
    return ServedPrice(currency, row)
