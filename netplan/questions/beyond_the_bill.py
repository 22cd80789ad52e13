"""What an order means beyond its bill, in words: its spares, and growth to twice the size.

Spares are those of a service level, unless others are on the bill. Growth is what ``netplan grow``
answers of two phases, the second of twice the GPUs.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from math import ceil

from netplan.costing.fabric_bill import Bill, make_bill
from netplan.costing.materials import SPARED, BillItem
from netplan.costing.prices import PART_WORDS, PriceBook
from netplan.costing.pricing import Quote, difference_range, price_bill
from netplan.costing.switches import SWITCHES
from netplan.decide.verdict import HAIR
from netplan.errors import NetplanError
from netplan.faults.years.ordered_spares import USUAL_LEVEL, level_of, spares_rule
from netplan.faults.years.rates import FAILURE_BOOKS, FailureBook
from netplan.records import replace
from netplan.reports.quantities import listed, short_money
from netplan.scenarios.bill_books import read_books, read_hall
from netplan.scenarios.reading import CatalogReader, sized
from netplan.setup.question import AnyQuestion
from netplan.topologies.cabling.floor_plan import FLOOR_PLANS, FloorPlan
from netplan.topologies.specs import FabricSpec
from netplan.units import PERCENT
from netplan.workloads.accelerators import ACCELERATORS

MOST_GROWN = 70_000
"""GPUs up to which the network of twice the size is planned for an answer [1]."""
WORTH_WORDS = 1.0
"""Money below which parts that are left over go unsaid [currency]."""


def beyond_the_bill(
    asked: AnyQuestion, book: PriceBook, names: Sequence[str]
) -> Callable[[Bill], tuple[str, str]]:
    """What answers on spares and growth of a bill.

    Parameters
    ----------
    asked
        The question, whose scenario grows.
    book
        Prices of the spares.
    names
        Fabrics of the scenario as they are asked for.

    Returns
    -------
    callable
        From a bill of one of them to both answers, in words.
    """
    reader = CatalogReader(asked.catalog)

    def answered(bill: Bill) -> tuple[str, str]:
        failures = reader.load(FAILURE_BOOKS, asked.books.failures)
        texts = asked.books.spares
        return spares_price(bill, book, failures, texts), growth_words(asked, bill, names)

    return answered


def other_hall(
    asked: AnyQuestion, first: Bill, second: Bill, specs: Mapping[str, FabricSpec]
) -> str:
    """In which of the shipped halls the cheaper of two fabrics is another one, or none.

    Parameters
    ----------
    asked
        The question, in whose hall both bills are.
    first, second
        The bills.
    specs
        Files of their fabrics.

    Returns
    -------
    str
        A sentence; empty where all halls agree, or nothing stands in a hall.
    """
    reader = asked.reader()
    books = replace(
        read_books(asked.cluster, asked.books, reader),
        switch=reader.named(SWITCHES, asked.cluster.switch),
    )
    pair = [specs.get(bill.name.partition(" ")[0]) for bill in (first, second)]
    if books.hall is None or not books.hall.by_rule or None in pair:
        return ""
    chip = reader.load(ACCELERATORS, asked.cluster.accelerator)
    kept = [spec for spec in pair if spec]
    # That of either bill has ports as its own fabric splits and shares them.
    sizing = sized(asked.cluster, chip)

    def cheaper(hall: FloorPlan | None) -> str:
        made = replace(books, hall=hall)
        return _cheaper(*(make_bill(spec, sizing, made) for spec in kept))

    here = cheaper(books.hall)
    turned: dict[str, list[str]] = {}
    for name in FLOOR_PLANS.paths():
        hall = read_hall(replace(asked.cluster, hall=name), chip, books.power, reader)
        if hall is None or not hall.by_rule or hall.name == books.hall.name:
            continue
        with suppress(NetplanError):
            if (there := cheaper(hall)) != here:
                turned.setdefault(there, []).append(name)
    words = [
        f"{listed(halls, 'or')} {f'{there} costs less' if there else 'it is undecided'}"
        for there, halls in turned.items()
    ]
    return f"In hall {', in hall '.join(words)} (--hall)." if words else ""


def _cheaper(first: Bill, second: Bill) -> str:
    """Name of the bill that is lower at all prices of the book, by a percent at least; or none."""
    margin = difference_range(first.quote, second.quote)
    least = min(first.capital.base, second.capital.base)
    if margin.low <= 0 <= margin.high or abs(margin.base) < HAIR * least:
        return ""
    return first.name if margin.base > 0 else second.name


def spares_price(bill: Bill, book: PriceBook, failures: FailureBook, texts: Sequence[str]) -> str:
    """Spares of a bill, those of the usual service level where it has none, and their price.

    Parameters
    ----------
    bill
        The bill.
    book
        Its prices.
    failures
        Rates, and times of delivery.
    texts
        How spares were asked for.

    Returns
    -------
    str
        How many of each part, for how much, and whether they are on the bill.
    """
    lines = tuple(item.line for item in bill.quote.items)
    billed = any(line.spares for line in lines)
    level = level_of(texts or (USUAL_LEVEL,))
    rule = None if billed else spares_rule((USUAL_LEVEL,), lambda: failures)
    spared = rule(lines) if rule else lines
    only = [replace(line, quantity=line.spares, spares=0) for line in spared if line.spares]
    if not only:
        return "None: nothing of it is replaced by a part of its own."
    cost = _priced(price_bill(only, book, bill.quote.currency))
    why = (
        f"for {PERCENT * level:g} % that a spare is there while a part is delivered, one or more of"
        f" each line (failures {failures.name})"
        if level
        else f"as asked ({', '.join(texts)})"
    )
    where = "on the bill" if billed else "to be added to the price"
    return f"{listed([*_spared(only)])}, {why}: {cost}, {where}."


def _spared(lines: Sequence[BillItem]) -> Iterator[str]:
    """How many spares of each category."""
    for category in SPARED:
        count = sum(line.quantity for line in lines if line.category == category)
        if count:
            yield f"{count:,} {PART_WORDS[category][count != 1]}"


def growth_words(asked: AnyQuestion, bill: Bill, names: Sequence[str]) -> str:
    """What twice as many GPUs need, in a sentence: what ``netplan grow`` says of two phases.

    Parameters
    ----------
    asked
        The question.
    bill
        Of the fabric.
    names
        Fabrics as they are asked for, that of the bill among them.

    Returns
    -------
    str
        What is bought, what is moved, and what the first phase then has more.
    """
    from netplan.questions.grow import Grow

    # Phases of rails end with whole HB domains.
    unit = bill.fabric.sizing.hb_size if bill.fabric.network == "rail-only" else 1
    gpus, grown_to = (ceil(size / unit) * unit for size in (bill.gpus, 2 * bill.gpus))
    whole = f", in whole HB domains of {unit}" if gpus > bill.gpus else ""
    command = f"netplan grow --gpus {gpus} --gpus {grown_to}"
    if grown_to > MOST_GROWN:
        return f"Not planned here for so many GPUs: {command}."
    fabric = next((name for name in names if _is(name, bill.name)), bill.name)
    books = {"floor_plan": None, "networks": (), "spares": ()}
    scenario = asked.scenario.replace(fabrics=(fabric,), **books)
    given = asked.given - {"floor_plan", "networks", "spares", "gpus"}
    try:
        question = Grow(
            scenario=scenario, before=asked.before, given=given, catalog=asked.catalog,
            phases=(gpus, grown_to),
        )  # fmt: skip
        grown = question.ask().grown[0]
    except NetplanError as error:
        why = str(error).removeprefix(f"{bill.name}: ").removeprefix("Cannot grow: ").rstrip(".")
        return f"Not to {grown_to:,} GPUs: {why}."
    first, second = grown.steps
    currency = bill.quote.currency
    planned, _, unplanned = grown.ways
    counts = _spared([item.line for item in second.order.bought.items])
    text = (
        f"To {grown_to:,} GPUs{whole}: {listed([*counts])} for {_priced(second.order.bought)};"
        f" {_moved(planned.moved)}"
    )
    more = first.bill.capital.base - first.own.capital.base
    if unplanned.moved > planned.moved:
        dearer = f"for {short_money(more, currency)} more" if more > WORTH_WORDS else "at no more"
        text += f" if this order is planned for it, {dearer}; else {_moved(unplanned.moved)}"
    if planned.left.base > WORTH_WORDS:
        text += f"; parts for {short_money(planned.left.base, currency)} are left over"
    return f"{text}."


def _priced(quote: Quote) -> str:
    """Price of some lines, of those that have one."""
    least = "at least " if quote.unpriced else ""
    return f"{least}{short_money(quote.total.base, quote.currency)}"


def _is(name: object, fabric: str) -> bool:
    """Whether a fabric as asked for, a name or a path, is the one of a bill."""
    stem = str(name).rpartition("/")[2].removesuffix(".yaml")
    return fabric in (name, stem)


def _moved(cables: int) -> str:
    """How many cables move."""
    if not cables:
        return "no cable moves"
    return f"{cables:,} cable{'s move' if cables != 1 else ' moves'}"
