"""What separates two bills: part by part and line by line, the largest difference first.

Every bill is a sum over lines, and so is the difference of two. Lines are laid beside each other by
what they are, their link rate and the network beside that they belong to; *parts* are all lines of
one category together: switches, modules, cables, cards. What both bills have alike adds nothing.

A part without a price adds nothing either, and is counted: a bill that lacks a price is a lower
bound, and so the difference of two is bounded only where one of them lacks more than the other.
"""

from collections.abc import Callable, Sequence
from math import fsum
from typing import Literal

from msgspec import Struct

from netplan.costing.fabric_bill import Bill
from netplan.costing.materials import BillItem
from netplan.costing.prices import PART_WORDS, SPEEDLESS
from netplan.costing.pricing import PricedItem
from netplan.errors import InputError
from netplan.reports.quantities import listed, short_money

CENT = 0.005
"""Amounts that differ by less are the same to the cent [currency]."""
UNCOUNTED = frozenset({"hb-gear", "memory"})
"""Categories of which people count the GPUs that have it, not the part."""
SHOWN = 2
"""Parts that a phrase names [1]."""

Bound = Literal["", "≥ ", "≤ ", "? "]


class PartDifference(Struct, frozen=True):
    """A part of two bills, or a line of them: how many, and for how much money.

    Parameters
    ----------
    part
        Category of the lines, such as ``transceivers``.
    item
        What it is, in words.
    unit
        What one of them is.
    count_a, count_b
        Units to order of the first bill and of the second [1].
    money_a, money_b
        Their base price, of those that have one [currency].
    unpriced_a, unpriced_b
        Units without a price [1].
    network
        Network beside that it belongs to; empty for the network that trains.

    Examples
    --------
    >>> modules = PartDifference("transceivers", "modules", "each", 6, 4, 4800.0, 3200.0)
    >>> modules.difference, modules.more, modules.words
    (-1600.0, -2, '2 modules -1.6 k')
    """

    json_parts = ("part", "network", "count=more", "money=difference", "unpriced=unpriced_more")

    part: str
    item: str
    unit: str
    count_a: int
    count_b: int
    money_a: float
    money_b: float
    unpriced_a: int = 0
    unpriced_b: int = 0
    network: str = ""

    @property
    def difference(self) -> float:
        """What the second bill pays more for it [currency]."""
        return self.money_b - self.money_a

    @property
    def more(self) -> int:
        """How many more the second bill has [1]."""
        return self.count_b - self.count_a

    @property
    def unpriced_more(self) -> int:
        """How many more without a price the second bill has [1]."""
        return self.unpriced_b - self.unpriced_a

    @property
    def changed(self) -> bool:
        """Whether the two bills differ in it."""
        return bool(self.more or self.unpriced_more) or abs(self.difference) >= CENT

    def name(self, count: int = 2) -> str:
        """The part for people, with the network beside that it belongs to.

        Parameters
        ----------
        count
            How many are spoken of [1].

        Returns
        -------
        str
            Its words.
        """
        words = PART_WORDS[self.part][abs(count) != 1]
        return f"{words} of the {self.network} network" if self.network else words

    @property
    def words(self) -> str:
        """How many more or fewer, and for how much money.

        Fewer for less and more for more need no word for it: the sign of the money says it.
        """
        money, name = signed(self.difference), self.name(self.more)
        if self.part in UNCOUNTED:
            return f"{name} {money}"
        if not self.more:
            return f"other {name} {money}"
        if (self.more > 0) == (self.difference > 0):
            return f"{abs(self.more):,} {name} {money}"
        return f"{abs(self.more):,} {'more' if self.more > 0 else 'fewer'} {name} {money}"


def differences(first: Bill, second: Bill) -> tuple[PartDifference, ...]:
    """What a second bill has more or less than a first one, part by part.

    Parameters
    ----------
    first, second
        Bills in one currency.

    Returns
    -------
    tuple of PartDifference
        One a category, and network beside, of either bill, the largest difference of money first;
        the differences sum to that of the two totals.

    Raises
    ------
    InputError
        If the bills are in two currencies.

    Examples
    --------
    32,768 GPUs at the paper's prices, 748 USD a port and 374 USD a module: 1,024 x 128 x 748
    and 131,072 x 374 USD less for rail-only.

    >>> from netplan.questions.cost import cost
    >>> optimized, rails = cost("rail-only-paper", gpus=32768, radix=128).bills
    >>> [(part.item, part.more, part.difference) for part in differences(optimized, rails)[:2]]
    [('switches', -1024, -98041856.0), ('modules', -131072, -49020928.0)]
    """
    return _laid_beside(
        first, second, lambda line: (line.category, line.network, PART_WORDS[line.category][1], "")
    )


def line_differences(first: Bill, second: Bill) -> tuple[PartDifference, ...]:
    """What a second bill has more or less than a first one, line by line.

    Lines are the same where what they are, their link rate and their network beside are.

    Parameters
    ----------
    first, second
        Bills in one currency.

    Returns
    -------
    tuple of PartDifference
        One a line of either bill, the largest difference of money first; the differences sum to
        that of the two totals.

    Raises
    ------
    InputError
        If the bills are in two currencies.
    """
    return _laid_beside(first, second, _line_of)


def difference_words(bill: Bill, other: Bill, *, most: int = SHOWN) -> str:
    """What a bill has more or less than the one beside it, in a phrase.

    Parameters
    ----------
    bill, other
        Bills in one currency, such as that of the order and that of the runner-up.
    most
        Parts to name, the largest difference of money first [1].

    Returns
    -------
    str
        The phrase, without a full stop, with the rest, so that all of it sums to the difference of
        the totals; ``the same money for every part`` where nothing differs.

    Raises
    ------
    InputError
        If the bills are in two currencies.

    Examples
    --------
    >>> from netplan.questions.cost import cost
    >>> optimized, rails = cost("hgx-b200", fabrics=("rail-optimized", "rail-only")).bills
    >>> difference_words(rails, optimized)
    '512 switches -43.5 M, 65,458 modules -40.1 M, all other parts -11.7 M'
    >>> difference_words(optimized, rails, most=1)
    '512 switches +43.5 M, all other parts +51.8 M'
    >>> difference_words(rails, rails)
    'the same money for every part'
    """
    return parts_words(differences(other, bill), most) or "the same money for every part"


def parts_words(parts: Sequence[PartDifference], most: int = SHOWN) -> str:
    """Parts of a difference, the largest first, and the rest: they sum to it.

    Parameters
    ----------
    parts
        The differences, part by part.
    most
        Parts to name, one more where that is all the rest [1].

    Returns
    -------
    str
        The phrase; empty where no money differs.

    Examples
    --------
    >>> racks = PartDifference("racks", "racks", "each", 61, 37, 0.0, 0.0, 61, 37)
    >>> modules = PartDifference("transceivers", "modules", "each", 6, 4, 4800.0, 3200.0)
    >>> parts_words([modules, racks])
    '2 modules -1.6 k'
    """
    known = telling(tuple(parts))
    named = known[: most + (len(known) == most + 1)]
    rest = fsum(part.difference for part in parts) - fsum(part.difference for part in named)
    words = [part.words for part in named]
    if abs(rest) >= CENT and signed(rest) != "0":
        words.append(f"all other parts {signed(rest)}")
    return ", ".join(words)


def telling(parts: tuple[PartDifference, ...]) -> tuple[PartDifference, ...]:
    """Parts whose money says something: neither the same, nor apart for want of a price.

    Parameters
    ----------
    parts
        The differences, part by part.

    Returns
    -------
    tuple of PartDifference
        Those of them that do, in their order.
    """
    return tuple(part for part in parts if abs(part.difference) >= CENT and not part.unpriced_more)


def bound_of(parts: Sequence[PartDifference]) -> Bound:
    """The sign before a difference of sums of which parts without a price are left out.

    Parameters
    ----------
    parts
        The differences, part by part or line by line.

    Returns
    -------
    str
        Empty where both bills lack the same, ``≥`` where the second lacks more, ``≤`` where the
        first does, ``?`` where each lacks something else.

    Examples
    --------
    >>> racks = PartDifference("racks", "racks", "each", 61, 37, 0.0, 0.0, 61, 37)
    >>> bound_of((racks,))
    '≤ '
    """
    more = {part.unpriced_more > 0 for part in parts if part.unpriced_more}
    if not more:
        return ""
    return "? " if len(more) > 1 else "≥ " if more == {True} else "≤ "


def unpriced_words(parts: tuple[PartDifference, ...]) -> str:
    """What of a difference has no price, in words; empty where both bills lack the same.

    Parameters
    ----------
    parts
        The differences, part by part.

    Returns
    -------
    str
        Such as ``24 racks fewer``; the second bill is meant.

    Examples
    --------
    >>> racks = PartDifference("racks", "racks", "each", 61, 37, 0.0, 0.0, 61, 37)
    >>> unpriced_words((racks,))
    '24 racks fewer'
    """
    return listed([_lacking_words(part) for part in parts if part.unpriced_more])


def _lacking_words(part: PartDifference) -> str:
    """How many more or fewer units of a part have no price."""
    count, more = abs(part.unpriced_more), part.unpriced_more > 0
    if part.part in UNCOUNTED:
        return f"{part.name()} of {count:,} GPUs {'more' if more else 'less'}"
    return f"{count:,} {part.name(count)} {'more' if more else 'fewer'}"


def signed(amount: float) -> str:
    """An amount of money with its sign, in millions, or in thousands where it is small.

    Parameters
    ----------
    amount
        The amount [currency].

    Returns
    -------
    str
        Its sign, three digits or so, and ``M`` or ``k``.

    Examples
    --------
    >>> signed(70_210_000.0), signed(-151_400_000.0), signed(-1_600.0), signed(0.0)
    ('+70.2 M', '-151 M', '-1.6 k', '0')
    """
    return "0" if abs(amount) < CENT else short_money(amount, sign=True)


def money_words(parts: Sequence[PartDifference], currency: str) -> str:
    """What parts cost more or less together, in words; with a word for its sign if it is a bound.

    Parameters
    ----------
    parts
        The differences, part by part.
    currency
        Of both bills.

    Returns
    -------
    str
        Such as ``+70.2 M USD`` or ``at most 42.0 M USD less``.

    Examples
    --------
    >>> racks = PartDifference("racks", "racks", "each", 61, 37, 0.0, 0.0, 61, 37)
    >>> modules = PartDifference("transceivers", "modules", "each", 6, 4, 4800.0, 3200.0)
    >>> money_words([modules], "USD"), money_words([modules, racks], "USD")
    ('-1.6 k USD', 'at least 1.6 k USD less')
    """
    bound, more = bound_of(parts), fsum(part.difference for part in parts)
    if abs(more) < CENT:
        return "the same money but for parts without a price" if bound else "the same money"
    if not bound:
        return f"{signed(more)} {currency}"
    if bound == "? ":
        return f"{signed(more)} {currency} of what has a price"
    least = "at least" if (bound == "≥ ") == (more > 0) else "at most"
    return f"{least} {short_money(abs(more), currency)} {'more' if more > 0 else 'less'}"


Key = tuple[str, str, str, str]
"""Category, network beside, what it is, and what one unit is."""


def _line_of(line: BillItem) -> Key:
    """A line by what it is, with the link rate where its words leave that out."""
    rate, item = f"{line.speed_gbps:.4g}G", line.item
    if line.part not in SPEEDLESS and rate not in item:
        item = f"{item}, {rate}"
    return line.category, line.network, item, line.unit


def _laid_beside(
    first: Bill, second: Bill, key_of: Callable[[BillItem], Key]
) -> tuple[PartDifference, ...]:
    """Lines of two bills, those of one key together."""
    if first.quote.currency != second.quote.currency:
        raise InputError(
            f"bills in {first.quote.currency} and in {second.quote.currency} cannot be laid beside"
            " each other: ask for one --currency"
        )
    known: dict[Key, tuple[list[PricedItem], list[PricedItem]]] = {}
    for side, bill in enumerate((first, second)):
        for item in bill.quote.items:
            known.setdefault(key_of(item.line), ([], []))[side].append(item)
    parts = [_difference(key, *sides) for key, sides in known.items()]
    return tuple(sorted(parts, key=lambda part: (-abs(part.difference), -abs(part.more))))


def _difference(key: Key, *sides: list[PricedItem]) -> PartDifference:
    """Lines of two bills as one difference."""
    part, network, item, unit = key
    count_a, count_b = (sum(row.line.order for row in rows) for rows in sides)
    money_a, money_b = (
        fsum(row.total.base for row in rows if row.price is not None) for rows in sides
    )
    bare_a, bare_b = (sum(row.line.order for row in rows if row.price is None) for rows in sides)
    return PartDifference(
        *(part, item, unit, count_a, count_b, money_a, money_b, bare_a, bare_b, network)
    )
