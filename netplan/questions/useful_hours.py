"""What a network and its GPU hours cost over their years, for what a GPU hour of use costs."""

from msgspec import Struct

from netplan.answers.compare_rows import network_price
from netplan.costing.fabric_bill import make_bill
from netplan.costing.prices import US_DOLLAR
from netplan.errors import CatalogError, InfeasibleError, InputError
from netplan.reports.answer import Answer
from netplan.scenarios.bill_books import read_books
from netplan.scenarios.parts import Cluster
from netplan.scenarios.reading import CatalogReader
from netplan.setup.money.run_cost import rates_of
from netplan.setup.question import Question
from netplan.topologies.fabric import Sizing
from netplan.topologies.specs import FabricSpec
from netplan.units import HOURS_PER_YEAR


class LifeCost(Struct, frozen=True):
    """What a design costs over its years.

    Parameters
    ----------
    network_usd, total_usd
        At base prices: the network; with all GPU hours. None where not known [USD].
    gpu_hours
        Of all GPUs over these years [h].
    unknown
        Why a price is not known.
    """

    network_usd: float | None = None
    total_usd: float | None = None
    gpu_hours: float = 0.0
    unknown: str = ""

    def per_useful_hour(self, useful: float) -> float | None:
        """Price of a GPU hour that jobs would need alone.

        Parameters
        ----------
        useful
            Share of all GPU time [1].

        Returns
        -------
        float or None
            None where a price is not known [USD/h].

        Examples
        --------
        >>> LifeCost(1e6, 5e6, 2e6).per_useful_hour(0.5)
        5.0
        """
        if self.total_usd is None or not useful:
            return None
        return self.total_usd / (useful * self.gpu_hours)


def life_cost(
    asked: Question[Answer],
    cluster: Cluster,
    spec: FabricSpec,
    sizing: Sizing,
    reader: CatalogReader,
) -> LifeCost:
    """Price of a network, and of the GPU hours of its years of use.

    Parameters
    ----------
    asked
        The question, with its books.
    cluster, spec, sizing
        The design.
    reader
        Of its catalogs.

    Returns
    -------
    LifeCost
        At base prices; what is not known is said.
    """
    books = read_books(cluster, asked.books, reader)
    try:
        bill = make_bill(spec, sizing, books)
        rate = books.prices.exchange(books.prices.currency, US_DOLLAR)
    except (InputError, InfeasibleError, CatalogError) as error:
        return LifeCost(unknown=f"No bill: {error}")
    if bill.unpriced_apart:
        return LifeCost(unknown="Parts of the network have no price: no cost.")
    price = rate * network_price(bill).base
    terms = rates_of(asked, "price", reader, 1, books.prices, US_DOLLAR)
    if terms is None:
        unknown = f"No price of a GPU hour of {cluster.accelerator}: --gpu-hour"
        return LifeCost(price, unknown=unknown)
    hours = HOURS_PER_YEAR * terms.opex.years * sizing.gpus
    return LifeCost(price, price + hours * terms.gpu_hour, hours)
