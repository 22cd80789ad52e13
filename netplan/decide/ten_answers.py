"""Ten questions of a buyer, answered from a decision and from what it is about, a text each.

What to order; its price and range; the runner-up and what separates the two; what flips that; where
prices are from; what is missing; what one gives up; who supports it; spares; growth.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from netplan.costing.fabric_bill import Bill
from netplan.costing.materials import CABLE_PARTS, SWITCH_PARTS
from netplan.costing.prices import PART_WORDS
from netplan.costing.ranges import Range
from netplan.decide.candidates import AS_FAST
from netplan.decide.difference import money_words, parts_words, unpriced_words
from netplan.decide.record import Decision, TenAnswers
from netplan.reports.quantities import listed, short_money
from netplan.topologies.specs import FabricSpec
from netplan.units import PERCENT, counted
from netplan.workloads.accelerators import Accelerator

MOST_SOURCES, MOST_PARTS = 4, 3
"""Kinds of sources, and parts of a difference, that an answer names [1]."""
NO_MAKER = "no maker found"
LEAST_SHARE = 0.005
"""Share of a price from which a kind of source is named [1]."""


class Facts(Struct, frozen=True):
    """What the answers rest on beside the decision.

    Parameters
    ----------
    bills, specs
        Bill of each fabric by its name, and its file.
    beyond
        What answers on spares and on growth of a bill.
    left_out
        What no bill of these holds, in words.
    chip
        The accelerator, for whose servers designs are published; all are named without one.
    halls
        What answers in which other halls the order of two bills turns; None where nobody does.
    """

    bills: Mapping[str, Bill]
    specs: Mapping[str, FabricSpec]
    beyond: Callable[[Bill], tuple[str, str]]
    left_out: tuple[str, ...] = ()
    chip: Accelerator | None = None
    halls: Callable[[Bill, Bill], str] | None = None


def ten_answers(record: Decision, sentence: str, facts: Facts) -> TenAnswers | None:
    """Answer the ten questions.

    Parameters
    ----------
    record
        The decision.
    sentence
        The same in words.
    facts
        What it is about.

    Returns
    -------
    TenAnswers or None
        None where nothing has a bill.
    """
    tied = [name for name in record.tied if name in facts.bills]
    alike = record.winner is None and len({_same(facts.bills[name]) for name in tied}) == 1
    open_to_all = [
        name for name in tied if facts.bills[name].fabric.network == "any-to-any" and alike
    ]
    name = record.winner or next(iter(open_to_all or record.tied), None)
    first = name if name in facts.bills else next(iter(facts.bills), None)
    if first is None:
        return None
    bill, spec = facts.bills[first], facts.specs.get(first)
    spares, growth = facts.beyond(bill)
    return TenAnswers(
        order=_order(record, sentence, facts, alike=alike),
        price=_price(record, facts.bills, first),
        runner_up=_runner_up(record, bill),
        flips="None: the same network under several names."
        if alike
        else f"{_flips(record)} {hall_flip(record, facts)}".rstrip(),
        prices_from=_prices_from(bill),
        missing=" ".join(_lacking(bill, facts.left_out)),
        gives_up=_given_up(spec, bill),
        supported_by=_supported(spec, facts.chip),
        spares=spares,
        growth=growth,
    )


GIVES_UP = {
    "any-to-any": "nothing in reach: any GPU talks to any other, at the rate of its levels",
    "rail-only": "a network between rails: what is for another one crosses an HB domain first",
    "direct": "switches: a GPU reaches its neighbours, and all others through them",
}
"""What one gives up where the file of a fabric does not say, by its network."""


def _order(record: Decision, sentence: str, facts: Facts, *, alike: bool) -> str:
    """What to order, with the counts of what is bought."""
    bills = facts.bills
    if record.kind == "none":
        return sentence
    if record.winner is None:
        counts = {name: _counts(bills[name]) for name in record.tied if name in bills}
        if alike:
            clos = next(iter(counts.values()))
            return f"The Clos ({listed(record.tied)} are the same network here): {clos}."
        named = [f"{name} ({count})" for name, count in counts.items()]
        return f"Undecided: ask for offers on {listed(named or list(record.tied))}."
    spec = facts.specs.get(record.winner)
    unmade = spec is not None and supported_in_short(spec, facts.chip) == NO_MAKER
    condition = " (no maker supports it)" if unmade else ""
    return f"{record.winner}{condition}: {_counts(bills[record.winner])}."


def _same(bill: Bill) -> tuple[float, ...]:
    """What networks that are the same have alike: parts on order, and what they cost."""
    counts = (item.line.order for item in bill.quote.items)
    return (bill.fabric.switches, *sorted(counts), round(bill.capital.base, 2))


def _counts(bill: Bill) -> str:
    """How many of each are bought."""
    radix = bill.fabric.sizing.radix
    kinds = {
        "switches": SWITCH_PARTS,
        "transceivers": ("transceiver",),
        "cables": tuple(CABLE_PARTS.values()),
    }
    words = []
    for category, parts in kinds.items():
        count = bill.ordered(*parts)
        ports = f" of {radix} ports" if category == "switches" else ""
        words += [f"{counted(count, *PART_WORDS[category])}{ports}"] if count else []
    return ", ".join(words) or "nothing between its HB domains"


def _price(record: Decision, bills: Mapping[str, Bill], first: str) -> str:
    """Price with its range, and for one GPU; of all that tie."""
    names = [name for name in record.tied if name in bills] or [first]
    names = list({_same(bills[name]): name for name in reversed(names)}.values())[::-1]
    texts = [priced_words(bills[name]) for name in names]
    if len(names) == 1:
        return f"{texts[0]}."
    return f"{'; '.join(f'{name} {text}' for name, text in zip(names, texts, strict=True))}."


def priced_words(bill: Bill) -> str:
    """Price of a network with its range, and for one GPU.

    Parameters
    ----------
    bill
        The bill.

    Returns
    -------
    str
        Such as ``221 M USD (140 M to 330 M), 6,745 a GPU``.
    """
    price, currency = bill.capital, bill.quote.currency
    least = "at least " if bill.quote.unpriced else ""
    span = f" ({short_money(price.low)} to {short_money(price.high)})" if price.spread else ""
    per_gpu = f"{bill.per_gpu.base:,.0f} a GPU"
    return f"{least}{short_money(price.base, currency)}{span}, {per_gpu}"


def _runner_up(record: Decision, bill: Bill) -> str:
    """What comes next, by how much money and time, and which parts that is."""
    if record.runner_up is None:
        return "None: no other fabric competes."
    currency = bill.quote.currency
    text = f"{record.runner_up}: "
    text += money_words(record.difference, currency) if record.difference else "the same bill"
    margin = record.margin_money
    if margin is not None and margin.spread and margin.high >= 1:
        text += f" ({signed_span(margin)} at one price of a part in both)"
    if record.margin_time_share is not None:
        text += f", {slower_words(record.margin_time_share, told_apart=record.times_told_apart)}"
    if parts := parts_words(record.difference, MOST_PARTS):
        text += f". {parts}"
    if lacking := unpriced_words(record.difference):
        text += f"; without a price: {lacking}"
    return f"{text}."


def signed_span(margin: Range) -> str:
    """Low to high of a difference.

    Examples
    --------
    >>> signed_span(Range(-2e6, 1e6, 1.24e8))
    '-2.0 M to +124 M'
    """
    return f"{short_money(margin.low, sign=True)} to {short_money(margin.high, sign=True)}"


def slower_words(share: float, *, told_apart: bool | None) -> str:
    """By how much longer something takes, in words.

    Parameters
    ----------
    share
        That share [1].
    told_apart
        Whether it is more than the model's error; None where nobody knows.

    Examples
    --------
    >>> slower_words(0.021, told_apart=False), slower_words(-0.5, told_apart=True)
    ('2.1 % more time, within the error', '50.0 % less time')
    """
    if abs(share) < AS_FAST:
        return "as fast"
    within = ", within the error" if told_apart is False else ""
    return f"{PERCENT * abs(share):.1f} % {'more' if share > 0 else 'less'} time{within}"


def hall_flip(record: Decision, facts: Facts) -> str:
    """In which other halls the order and its runner-up change places.

    Parameters
    ----------
    record, facts
        The decision, and what it is about.

    Returns
    -------
    str
        A sentence; empty where none does, or nobody knows.
    """
    names = (record.winner or next(iter(record.tied), None), record.runner_up)
    first, second = (facts.bills.get(name or "") for name in names)
    if facts.halls is None or first is None or second is None:
        return ""
    return facts.halls(first, second)


def _flips(record: Decision) -> str:
    """What would turn the decision round."""
    if record.kind == "none":
        return "None: without all prices nothing is weighed."
    texts = [change.sentence for change in record.flips]
    if record.kind == "undecided":
        margin = record.margin_money
        why = "within the book's ranges either may cost less"
        if margin is not None and margin.low > 0:
            why = "what separates the two is less than is known of prices, or of times"
        texts = [f"Offers: {why}.", *texts]
    return " ".join(texts) or "No price in the book flips it."


def _prices_from(bill: Bill) -> str:
    """How the money is known, by its share of the price."""
    shares: dict[str, float] = defaultdict(float)
    dates = []
    for item in bill.quote.items:
        if item.price is not None and item.total.base:
            shares[item.trust] += item.total.base / bill.capital.base
            dates.append(item.price.date)
    known = sorted(shares.items(), key=lambda pair: -pair[1])
    named = [(trust, share) for trust, share in known if share >= LEAST_SHARE][:MOST_SOURCES]
    if not named:
        return "No part has a price."
    texts = [f"{trust} {PERCENT * share:.0f} %" for trust, share in named]
    span = f"{min(dates)} to {max(dates)}" if min(dates) != max(dates) else dates[0]
    return f"Of the money: {', '.join(texts)}; quoted {span}."


def _lacking(bill: Bill, left_out: Sequence[str]) -> Iterator[str]:
    units: dict[str, int] = defaultdict(int)
    for line in bill.quote.unpriced:
        units[line.priced_as] += line.order * line.price_units
    if units:
        named = listed([f"{count:,} {words}" for words, count in units.items()])
        yield f"Without a price, so not in the sum: {named}."
    else:
        yield "Every line of the bill has a price."
    if left_out:
        yield f"Not on the bill: {listed(list(left_out))}."


def _given_up(spec: FabricSpec | None, bill: Bill) -> str:
    """What one gives up, as the file of the fabric says, or by its network."""
    if bill.fabric.sizing.domains == 1:
        return "Nothing: one HB domain holds all GPUs."
    texts = (spec.gives_up if spec else ()) or (GIVES_UP[bill.fabric.network],)
    return " ".join(f"{text[:1].upper()}{text[1:]}." for text in texts)


def given_up_in_short(spec: FabricSpec) -> str:
    """What one gives up with a fabric, without why.

    Parameters
    ----------
    spec
        Its file.

    Returns
    -------
    str
        A few words each; empty where the file does not say.

    Examples
    --------
    >>> from netplan.topologies.specs import FABRICS
    >>> given_up_in_short(FABRICS.load("torus-3d"))
    'switches, jobs of any shape'
    """
    return ", ".join(text.partition(":")[0] for text in spec.gives_up)


def _supported(spec: FabricSpec | None, chip: Accelerator | None) -> str:
    """Makers with a published reference design, with its date; else who runs or describes one."""
    known: dict[str, dict[str, list[str]]] = {}
    entries = (spec.support if spec else None) or ()
    if spec is not None and chip is not None and chip.sold_in:
        entries = spec.support_for(chip).entries
    for entry in entries:
        texts = known.setdefault(entry.by, {}).setdefault(entry.maker, [])
        texts.append(f"{entry.design}, {entry.date}")
    start = {"maker": "Makers: {}.", "operator": "Run by {}.", "paper": "Described by {}."}
    sentences = [] if "maker" in known else ["No maker found."]
    for by, words in start.items():
        named = [f"{maker} ({'; '.join(texts)})" for maker, texts in known.get(by, {}).items()]
        sentences += [words.format(listed(named))] if named else []
    return " ".join(sentences)


def supported_in_short(spec: FabricSpec, chip: Accelerator | None = None) -> str:
    """Makers of a fabric, or that none was found.

    Parameters
    ----------
    spec
        Its file.
    chip
        The accelerator that it joins; makers for any without one.

    Returns
    -------
    str
        Names; empty where the file does not say.

    Examples
    --------
    >>> from netplan.topologies.specs import FABRICS
    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> for name in ("rail-optimized", "rail-only", "slim-fly"):
    ...     supported_in_short(FABRICS.load(name), ACCELERATORS.load("mi355x"))
    'made by AMD and Asterfusion'
    'no maker found'
    'no maker found'
    """
    if spec.support is None:
        return ""
    entries = spec.support_for(chip).entries if chip and chip.sold_in else spec.support
    makers = dict.fromkeys(entry.maker for entry in entries if entry.by == "maker")
    return f"made by {listed([*makers])}" if makers else NO_MAKER
