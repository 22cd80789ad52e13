"""The catalog files that a scenario's bills are made from, so that whoever asks pays the same."""

from functools import partial
from typing import TYPE_CHECKING

from netplan.costing.cabling import CABLING_BOOKS
from netplan.costing.fabric_bill import BillBooks
from netplan.costing.hb_gear import HB_GEAR_BOOK, HB_GEAR_BOOKS, HB_GEAR_TOO, GearChoice
from netplan.costing.materials import ACCELERATORS_TOO, CARDS_INCLUDED, Compute
from netplan.costing.prices import POWER_BOOKS, PRICE_BOOKS, PowerBook, PriceBook
from netplan.costing.switches import SWITCHES
from netplan.errors import InputError
from netplan.inputs.choices import AS_PUBLISHED
from netplan.records import replace
from netplan.scenarios.inner_parts import SiteSpan
from netplan.scenarios.parts import Books, Cluster
from netplan.scenarios.reading import CatalogReader, read_memory
from netplan.topologies.cabling.floor_plan import FLOOR_PLANS, FloorPlan
from netplan.topologies.specs import FABRICS
from netplan.workloads.accelerators import ACCELERATORS, Accelerator

if TYPE_CHECKING:
    from netplan.costing.materials import SparesRule


def read_books(cluster: Cluster, books: Books, reader: CatalogReader) -> BillBooks:
    """Catalog files that every bill is made from, with network cards or without them.

    Parameters
    ----------
    cluster, books
        Whose network is paid for, and with which books.
    reader
        Of the catalogs, with the values that are replaced in them.

    Returns
    -------
    BillBooks
        Prices, power and cabling, and the hall.

    Raises
    ------
    CatalogError
        If there is no such book, or it is malformed.
    """
    power = reader.load(POWER_BOOKS, books.power)
    chip = reader.load(ACCELERATORS, cluster.accelerator)
    return BillBooks(
        reader.load(PRICE_BOOKS, books.prices),
        power,
        reader.load(CABLING_BOOKS, books.cabling),
        hall=read_hall(cluster, chip, power, reader),
        cards=cluster.cards != CARDS_INCLUDED,
        gear=GearChoice(
            reader.load(HB_GEAR_BOOKS, HB_GEAR_BOOK),
            cluster.accelerator,
            chip.housing,
            HB_GEAR_TOO in cluster.networks,
        ),
    )


def books_of_sites(
    made: BillBooks, span: SiteSpan | None, books: Books, reader: CatalogReader
) -> BillBooks:
    """The same for a network that lies in several sites.

    Parameters
    ----------
    made
        Catalog files of a bill.
    span
        The sites; None of one site, which leaves the files as they are.
    books, reader
        As of :func:`read_books`.

    Returns
    -------
    BillBooks
        With what joins the sites, over the years of the books.
    """
    if span is None:
        return made
    from netplan.costing.lifetime import ECONOMICS_BOOKS  # noqa: PLC0415 - seldom used
    from netplan.costing.long_haul import LONG_HAUL_BOOK, LONG_HAUL_BOOKS, HaulBooks  # noqa: PLC0415

    book = reader.load(LONG_HAUL_BOOKS, LONG_HAUL_BOOK)
    years = books.terms.years or reader.load(ECONOMICS_BOOKS, books.economics).years
    return replace(made, haul=HaulBooks(span.dealt, book, years))


def spares_of(books: Books, reader: CatalogReader) -> "SparesRule | None":
    """What puts spares on a bill, by shares or by a service level.

    Parameters
    ----------
    books, reader
        As of :func:`read_books`.

    Returns
    -------
    callable or None
        Of the lines; None where no spares are asked for.

    Raises
    ------
    InputError
        If a share or a level is not allowed.
    """
    if not books.spares:
        return None
    from netplan.faults.years.ordered_spares import spares_rule  # noqa: PLC0415 - seldom used
    from netplan.faults.years.rates import FAILURE_BOOKS  # noqa: PLC0415

    failures = partial(reader.load, FAILURE_BOOKS, books.failures)
    return spares_rule(books.spares, failures, books.rates)


def read_hall(
    cluster: Cluster, chip: Accelerator, power: PowerBook, reader: CatalogReader
) -> FloorPlan | None:
    """The hall that a network stands in, with the servers of its GPUs.

    Parameters
    ----------
    cluster, reader
        As of :func:`read_books`.
    chip, power
        The accelerator, and the book that knows what its servers draw.

    Returns
    -------
    FloorPlan or None
        None where designs stand as they were published.
    """
    if cluster.hall in (AS_PUBLISHED, None):  # of Python, where nothing is said
        return None
    plan = reader.load(FLOOR_PLANS, cluster.hall)
    if plan.server is None or plan.gpus_per_rack or plan.server.max_w:
        return plan
    of, height = chip.housing or plan.server, plan.rack_units
    rest_w = power.server_w(chip.name, chip.full_power_w)
    max_w = None if rest_w is None else of.gpus * (chip.power_w + rest_w)
    return plan.of_servers(
        gpus=of.gpus, units=of.units or height, max_w=max_w, date=of.date, source=of.source
    )


def bill_books(cluster: Cluster, books: Books, reader: CatalogReader) -> BillBooks:
    """Catalog files of a whole bill: named models, hall and networks beside, too.

    Parameters
    ----------
    cluster, books, reader
        As of :func:`read_books`.

    Returns
    -------
    BillBooks
        With the discount in the price book.

    Raises
    ------
    CatalogError
        If a file is missing or malformed.
    InputError
        If the discount is out of range.
    """
    from netplan.topologies.site_networks import SITE_NETWORKS  # noqa: PLC0415 - seldom used

    made = read_books(cluster, books, reader)
    networks = [reader.load(SITE_NETWORKS, name) for name in site_networks(cluster)]
    models = dict.fromkeys(network.switch for network in networks if network.switch)
    counted = ACCELERATORS_TOO in cluster.networks
    chip = reader.load(ACCELERATORS, cluster.accelerator) if counted else None
    return replace(
        made,
        prices=_discounted(made.prices, books.discount),
        switch=reader.named(SWITCHES, cluster.switch),
        ocs=reader.circuit_switch(cluster.ocs) if cluster.ocs else None,
        networks=tuple(
            (network, reader.load_other(FABRICS, network.fabric)) for network in networks
        ),
        site_switches=tuple(reader.load(SWITCHES, name) for name in models),
        compute=Compute(accelerator=chip),
    )


def whole_books(cluster: Cluster, books: Books, reader: CatalogReader) -> BillBooks:
    """Catalog files of a bill that counts the expanded memory, too; as of :func:`bill_books`.

    Parameters
    ----------
    cluster, books, reader
        As of :func:`read_books`.

    Returns
    -------
    BillBooks
        With the memory behind that of each GPU, if the cluster names one.

    Raises
    ------
    InputError
        If the memory's file leaves its capacity open.
    """
    made = bill_books(cluster, books, reader)
    memory = read_memory(reader, cluster.expanded_memory)
    return replace(made, compute=replace(made.compute, memory=memory))


def site_networks(cluster: Cluster) -> tuple[str, ...]:
    """Names of the networks beside, each once, without what is asked for like one of them.

    Examples
    --------
    >>> site_networks(Cluster(networks=("storage", "accelerators", "storage")))
    ('storage',)
    """
    others = (ACCELERATORS_TOO, HB_GEAR_TOO)
    return tuple(name for name in dict.fromkeys(cluster.networks) if name not in others)


def gear_counted(cluster: Cluster) -> list[str]:
    """``hb-gear`` where the gear inside HB domains counts with the network, as JSON has it.

    Examples
    --------
    >>> gear_counted(Cluster(networks=("storage", "hb-gear")))
    ['hb-gear']
    """
    return [HB_GEAR_TOO] if HB_GEAR_TOO in cluster.networks else []


def _discounted(book: PriceBook, discount: float | None) -> PriceBook:
    if discount is None:
        return book
    if not 0 <= discount < 1:
        raise InputError(
            f"--discount {100 * discount:g}% is out of range: give 0% up to below 100%"
        )
    return replace(book, discount=discount)
