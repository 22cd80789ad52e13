"""What several sites cost beside one larger one: a network in each, and what joins them."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from netplan.costing.fabric_bill import Bill
from netplan.costing.long_haul import LongHaul
from netplan.errors import InfeasibleError, InputError, not_built
from netplan.reports.quantities import short_money
from netplan.reports.schema import plain_at


class SitesBill(Struct, frozen=True):
    """A network in every site, the long haul, and the network of one larger site.

    Parameters
    ----------
    lit
        What lights the fibre between them, with its price.
    bill, one_site
        Bills of the networks in all sites, with the long haul, and of one larger site; None where
        one cannot be built.
    why
        Why there is none, in words.
    """

    json_parts = "long_haul", "sites_network=networks", "one_site_network=one_network"

    lit: LongHaul
    bill: Bill | None = None
    one_site: Bill | None = None
    why: str = ""

    @classmethod
    def of(cls, bill: Bill, alone: Callable[[], Bill]) -> "SitesBill | None":
        """The bill of a network beside that of one larger site; None where it lies in one.

        Parameters
        ----------
        bill
            The bill.
        alone
            Makes that of one larger site.

        Returns
        -------
        SitesBill or None
            Both.
        """
        if bill.haul is None:
            return None
        try:
            return cls(bill.haul, bill, alone())
        except (InputError, InfeasibleError) as error:
            return cls(bill.haul, bill, why=not_built(bill.name, error))

    @property
    def currency(self) -> str:
        """Of all amounts."""
        return self.lit.quote.currency

    @property
    def networks(self) -> float | None:
        """Price of the networks in all sites; None without a bill [currency]."""
        return self.bill.networks.base if self.bill else None

    @property
    def one_network(self) -> float | None:
        """Price of the network of one larger site; None without a bill [currency]."""
        return self.one_site.networks.base if self.one_site else None

    @property
    def long_haul_words(self) -> str:
        """Price of what lights the fibre."""
        least = "≥ " * bool(self.lit.unpriced)
        price = short_money(self.lit.cost.base, self.currency)
        return f"{least}{price} in {self.lit.years:g} years"

    @property
    def lacking_words(self) -> str:
        """What of the long haul has no price, in brackets; empty where all has one."""
        lacking = ", ".join(self.lit.unpriced)
        return f" (no price: {lacking})" if lacking else ""

    @property
    def words(self) -> str:
        """Price of the networks of all sites beside that of one larger site."""
        if self.networks is None or self.one_network is None:
            return f"No bill of the networks: {self.why}"
        several = short_money(self.networks, self.currency)
        alone = short_money(self.one_network, self.currency)
        return f"Networks in the sites cost {several}, that of one larger site {alone}."

    def whole_words(self, *, lacking: bool = True) -> str:
        """Price of networks and long haul, and what of it lacks one, beside one larger site."""
        several, alone = "no bill", f"cannot be built ({self.why})"
        if self.networks is not None:
            several = short_money(self.networks, self.currency)
        if self.one_network is not None:
            alone = short_money(self.one_network, self.currency)
        left_out = self.lacking_words if lacking else ""
        return (
            f"networks {several}, long haul {self.long_haul_words}{left_out}; one larger site"
            f" {alone}"
        )

    @property
    def long_haul(self) -> dict[str, Any]:
        """Counts of the long haul [1] and its price [currency of the bill], as JSON."""
        dollars = "-cost_usd", "-cost_low_usd", "-cost_high_usd", "-cost_is_floor"
        facts = plain_at(self, "*lit", *dollars, "lit.cost")
        return facts | {"cost_is_floor": bool(self.lit.unpriced)}
