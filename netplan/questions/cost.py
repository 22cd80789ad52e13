"""The bill of materials of fabrics: what to order, what it costs, what drives that.

Ports close before anything is priced: a fabric whose cable ends have no home has no bill.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from netplan.costing.cabling import CABLING_BOOKS
from netplan.costing.fabric_bill import (
    Bill,
    BillBooks,
    FabricBill,
    Unbuildable,
    make_bill,
)
from netplan.costing.lifetime import ECONOMICS_BOOKS, EconomicsBook, Running, lifetime
from netplan.costing.power import POWER_BOOKS
from netplan.costing.prices import PRICE_BOOKS, PriceBook
from netplan.costing.ranges import Range
from netplan.costing.spares import parse_spares
from netplan.costing.switches import SWITCHES
from netplan.errors import CatalogError, InfeasibleError, InputError
from netplan.questions.compare import require_switch
from netplan.questions.cost_answer import CostAnswer
from netplan.questions.inputs import CatalogReader, sizing_on
from netplan.topologies.floor_plan import FLOOR_PLANS
from netplan.topologies.site_networks import SITE_NETWORKS, SiteNetwork
from netplan.topologies.specs import FABRICS, FabricSpec
from netplan.workloads.accelerators import ACCELERATORS

DEFAULT_FABRICS = ("rail-optimized", "rail-only")


def cost(  # noqa: PLR0913 - one keyword an input, as on the command line
    *,
    gpus: int,
    radix: int,
    hb_size: int | None = None,
    accelerator: str = "gh200-96gb",
    fabrics: Sequence[str] = (),
    prices: str = "2026",
    power: str = "2026",
    cabling: str = "2026",
    economics: str = "2026",
    switch: str | None = None,
    ocs: str | None = None,
    spares: str | Sequence[str] = (),
    networks: Sequence[str] = (),
    floor_plan: str | None = None,
    oversubscription: float | None = None,
    years: int | None = None,
    pue: float | None = None,
    tariff: float | None = None,
    interest: float | None = None,
    currency: str | None = None,
    discount: float | None = None,
    catalog: str | Path | None = None,
    overrides: Mapping[str, str] | None = None,
) -> CostAnswer:
    """Bill, price range, drivers and yearly cost of the networks of one cluster.

    Parameters
    ----------
    gpus
        GPUs in the cluster, 8 to 4,194,304 [1].
    radix
        Ports per switch at the network's link rate, even, 8 to 1,024 [1].
    hb_size
        GPUs per HB domain; the accelerator's own if absent [1].
    accelerator, prices, power, cabling, economics
        Catalog names or paths to files.
    fabrics
        Names or paths; rail-optimized and rail-only if empty.
    switch
        Switch model whose ports at the link rate are the radix; any switch if absent.
    ocs
        Optical circuit switch that joins the cubes of tori; direct fibres if absent.
    spares
        Such as ``2%`` for all parts or ``transceivers=3%`` for some.
    networks
        Networks beside the one that trains, such as ``storage``, by name or path; none if empty.
    floor_plan
        Hall that gives every cable its length, by name or path; length classes if absent.
    oversubscription
        Bandwidth down over up at the leaves of Clos networks, at least 1 [1].
    years, pue, tariff, interest
        Years of use; facility over equipment power [1]; price of a kWh in the answer's currency;
        interest a year [1]. The economics book's own where absent.
    currency
        Currency of the answer; the price book's own if absent.
    discount
        Taken off every price, instead of the book's own [1].
    catalog
        Folder of the user's own catalogs.
    overrides
        Single values replaced for this run, such as ``{"economics.pue.base": "1.2"}``.

    Raises
    ------
    NetplanError
        If an input is not allowed; the message says what is.

    Examples
    --------
    >>> answer = cost(gpus=32768, radix=128, prices="rail-only-2023")
    >>> [(bill.name, bill.capital.base) for bill in answer.bills]
    [('rail-optimized', 196083712.0), ('rail-only', 49020928.0)]
    """
    reader = CatalogReader(catalog, overrides)
    chosen = reader.load(ACCELERATORS, accelerator)
    book = reader.load(PRICE_BOOKS, prices)
    economy = reader.load(ECONOMICS_BOOKS, economics)
    books = BillBooks(
        prices=book if discount is None else _discounted(book, discount),
        power=reader.load(POWER_BOOKS, power),
        cabling=reader.load(CABLING_BOOKS, cabling),
        switch=reader.load(SWITCHES, switch) if switch else None,
        ocs=reader.load(SWITCHES, ocs) if ocs else None,
        hall=reader.load(FLOOR_PLANS, floor_plan) if floor_plan else None,
        networks=tuple(_site_networks(reader, networks)),
    )
    specs = [reader.load(FABRICS, name) for name in fabrics or DEFAULT_FABRICS]
    replaced = reader.replaced()
    sizing = sizing_on(
        chosen, gpus=gpus, radix=radix, hb_size=hb_size, oversubscription=oversubscription
    )
    require_switch(books.switch, specs, sizing, reader)
    if books.ocs is not None and not any(spec.family == "torus" for spec in specs):
        raise InputError(f"--ocs {books.ocs.name} joins cubes of a torus: add --fabric torus-3d")
    if books.ocs is not None and books.hall is not None:
        raise InputError("--floor-plan has no place for circuit switches: leave it or --ocs out")
    money = currency or books.prices.currency
    books.prices.exchange(books.prices.currency, money)
    asked = [spares] if isinstance(spares, str) else list(spares)
    shares = parse_spares(asked)
    running = _running(economy, books.prices, money, (pue, tariff, interest), years)
    inputs = {
        "gpus": gpus,
        "radix": radix,
        "hb_size": sizing.hb_size,
        "accelerator": accelerator,
        "fabrics": [spec.name for spec in specs],
        "prices": prices,
        "power": power,
        "cabling": cabling,
        "economics": economics,
        "switch": switch,
        "ocs": ocs,
        "spares": asked,
        "networks": [network.name for network, _ in books.networks],
        "floor_plan": floor_plan,
        "oversubscription": oversubscription,
        **_running_inputs(running),
        "discount": books.prices.discount,
        "link_gbps": sizing.speed_gbps,
        "set": replaced,
    }
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
    return CostAnswer(inputs, money, tuple(bills), tuple(refused))


def _run(bill: Bill, books: BillBooks, running: Running) -> FabricBill:
    """The bill with its years of use, and with all that is to be said about it."""
    notes = [*bill.fabric.notes, *bill.notes]
    if bill.draw.unknown:
        parts = ", ".join(f"{line.quantity:,} {line.title}" for line in bill.draw.unknown)
        notes.append(f"No power in {books.power.name} for {parts}.")
    life = lifetime(bill.capital, bill.draw.typical_w, running)
    return FabricBill(bill.fabric, bill.quote, bill.draw, bill.racks, tuple(notes), life)


def _running_inputs(running: Running) -> dict[str, object]:
    """Years, PUE, tariff and interest as the answer's inputs show them."""
    return {
        "years": running.years,
        "pue": running.pue.base,
        "tariff_per_kwh": running.tariff.base,
        "interest": running.interest.base,
        "running": {
            "pue": asdict(running.pue),
            "tariff_per_kwh": asdict(running.tariff),
            "interest": asdict(running.interest),
        },
    }


def _discounted(book: PriceBook, discount: float) -> PriceBook:
    if not 0 <= discount < 1:
        raise InputError(
            f"--discount {100 * discount:g}% is out of range: give 0% up to below 100%"
        )
    return book.model_copy(update={"discount": discount})


def _running(
    book: EconomicsBook,
    prices: PriceBook,
    currency: str,
    given: tuple[float | None, float | None, float | None],
    years: int | None,
) -> Running:
    """PUE, tariff and interest as given, else the book's; its tariff in the answer's currency."""
    pue, tariff, interest = given
    try:
        rate = prices.exchange(book.currency, currency) if tariff is None else 1.0
    except CatalogError as error:
        raise CatalogError(f"{error}; or give --tariff in {currency}") from None
    return Running(
        years=book.years if years is None else years,
        pue=book.pue.range if pue is None else Range.point(pue),
        tariff=rate * book.tariff.range if tariff is None else Range.point(tariff),
        interest=book.interest.range if interest is None else Range.point(interest),
    )


def _site_networks(
    reader: CatalogReader, names: Sequence[str]
) -> Iterator[tuple[SiteNetwork, FabricSpec]]:
    """Site networks with the fabric specs that they name; each network once."""
    for name in dict.fromkeys(names):
        network = reader.load(SITE_NETWORKS, name)
        yield network, reader.load(FABRICS, network.fabric)
