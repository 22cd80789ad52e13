"""The record of a decision: what wins, over what, by how much money and time, and what flips it.

Every question that recommends something makes one: of fabrics, of designs on a front, of mixes of
offers, of values of a study. Who is compared is a `Candidate`; money that separates two of them is
told part by part where both have bills, and the parts sum to the margin. Its range is that of the
difference: a part costs the same on both sides, somewhere between its low and its high.
"""

from collections.abc import Sequence
from math import inf
from typing import Any, Literal

from msgspec import Struct

from netplan.costing.pricing import difference_range
from netplan.costing.ranges import Range
from netplan.decide.candidates import Candidate
from netplan.decide.difference import PartDifference, differences
from netplan.records import replace
from netplan.reports.schema import plain_at

Lever = Literal["price", "bandwidth", "day_value"]
Kind = Literal["buy", "undecided", "none"]
DRIVERS = 3
"""Parts that are named as what drives a difference [1]."""


class TenAnswers(Struct, frozen=True):
    """Answers to a buyer's ten questions, a sentence or some each; none is empty.

    Parameters
    ----------
    order
        What to order, or of whom to ask for offers.
    price
        Price of that, low to high.
    runner_up
        What comes next, and what separates the two.
    flips
        What would turn that round.
    prices_from
        Where the prices are from, by their share of the money.
    missing
        What has no price, and what is not on the bill.
    gives_up
        What such a fabric cannot do.
    supported_by
        Makers with a published reference design.
    spares
        Spares for a service level.
    growth
        What twice as many GPUs need.
    """

    order: str
    price: str
    runner_up: str
    flips: str
    prices_from: str
    missing: str
    gives_up: str
    supported_by: str
    spares: str
    growth: str

    def rows(self) -> tuple[tuple[str, str], ...]:
        """The questions in words, each with its answer."""
        return tuple((words, getattr(self, name)) for name, words in TEN_QUESTIONS.items())


TEN_QUESTIONS = {
    "order": "What to order",
    "price": "Price, low to high",
    "runner_up": "Runner-up, and what separates the two",
    "flips": "What flips it",
    "prices_from": "Where prices are from",
    "missing": "What is missing",
    "gives_up": "What one gives up",
    "supported_by": "Who supports it",
    "spares": "Spares",
    "growth": "Growth to twice the size",
}
"""The ten questions in words, by the field that answers each."""


class Change(Struct, frozen=True):
    """What would let another fabric win: the lever, its value now and then, in a sentence."""

    fabric: str
    lever: Lever
    now: float
    value: float | None
    sentence: str


class Decision(Struct, frozen=True):
    """A decision as data.

    Parameters
    ----------
    kind
        ``buy`` the winner; ``undecided`` where some tie, where prices within their ranges turn it
        round, or where a limit tells them apart by less than a percent, so that offers are to be
        asked for; ``none`` where nothing can be recommended.
    rule
        What it was decided by, in words.
    winner, runner_up, tied
        Names; of a tie the winner is none, and the cheapest stands first.
    margin_money
        What the runner-up costs more, low to high, of one currency.
    margin_money_share
        The same at base prices, as a share of what the runner-up costs [1].
    margin_time_share
        By how much longer the runner-up takes, as a share of the winner's time [1].
    times_told_apart
        Whether that is more than the model's error; None without two times.
    difference
        What the runner-up has more, part by part, the largest first.
    flips
        What would let another one win.
    next_best_step
        What a step beyond the winner gives and costs, on a front.
    caveats
        What to know of the winner, in sentences.
    unpriced
        Parts of the winner without a price.
    answers
        Answers to a buyer's ten questions (`netplan.decide.ten_answers`), where somebody asks.
    """

    json_parts = (
        *("kind", "rule", "winner", "runner_up", "tied", "margin_money", "margin_money_share"),
        *("margin_time_share", "times_told_apart", "difference", "flips=flip_facts"),
        *("next_best_step", "caveats", "unpriced", "answers", "drivers"),
    )

    kind: Kind
    rule: str
    winner: str | None = None
    runner_up: str | None = None
    tied: tuple[str, ...] = ()
    margin_money: Range | None = None
    margin_money_share: float | None = None
    margin_time_share: float | None = None
    times_told_apart: bool | None = None
    difference: tuple[PartDifference, ...] = ()
    flips: tuple[Change, ...] = ()
    next_best_step: dict[str, float] | None = None
    caveats: tuple[str, ...] = ()
    unpriced: tuple[str, ...] = ()
    answers: TenAnswers | None = None

    @property
    def drivers(self) -> list[str]:
        """Parts that most of the money between the two is for."""
        return [part.part for part in self.difference if part.difference][:DRIVERS]

    @property
    def flip_facts(self) -> list[dict[str, Any]]:
        """What would let another one win, without words."""
        return [
            plain_at(change, "field=lever", "now", "value", "becomes=fabric")
            for change in self.flips
        ]


def price_difference(best: Candidate, other: Candidate) -> Range:
    """What another one costs more, low to high by all prices of the book, the same for both."""
    base = other.price - best.price
    if best.bill is None or other.bill is None:
        return Range.point(base)
    prices = difference_range(best.bill.quote, other.bill.quote, (best.share, other.share))
    return prices + Range.point(base - prices.base)


def beside_the_next(record: Decision, best: Candidate, others: Sequence[Candidate]) -> Decision:
    """Lay the winner, or the cheapest of a tie, beside who comes next.

    Parameters
    ----------
    record
        Rule, tie, flips and the rest that is known already.
    best, others
        The winner, and all who compete with it. Who ties comes next, else whom a change lets win,
        else the cheapest.

    Returns
    -------
    Decision
        The decision.

    Examples
    --------
    >>> clos = Candidate("clos", 100e6, True, 10.0, None, 50e9)
    >>> rails = Candidate("rails", 60e6, True, 10.2, None, 50e9)
    >>> found = beside_the_next(Decision("buy", "lowest cost"), rails, [clos])
    >>> found.winner, found.runner_up, found.margin_money.base, found.margin_money_share
    ('rails', 'clos', 40000000.0, 0.4)
    """
    known = {other.name: other for other in others if other.name != best.name}
    named = (*record.tied, *(change.fabric for change in record.flips))
    second = next((known[name] for name in named if name in known), None)
    if second is None:
        rest = known.values()
        second = min(rest, key=lambda other: (not other.complete, other.price), default=None)
    facts: dict[str, Any] = {"winner": None if record.tied else best.name}
    if best.bill is not None:
        lines = (line.item for line in best.bill.quote.unpriced)
        facts["unpriced"] = tuple(dict.fromkeys(lines))
    kind: Kind = "undecided" if record.tied else "buy"
    if second is not None:
        base = second.price - best.price
        if best.bill is not None and second.bill is not None:
            parts = differences(best.bill, second.bill)
            facts["difference"] = tuple(part for part in parts if part.changed)
        facts |= {"runner_up": second.name, "margin_money": price_difference(best, second)}
        facts["margin_money_share"] = base / second.price if second.price else None
        if max(best.time_s, second.time_s) < inf:
            facts["margin_time_share"] = second.time_s / best.time_s - 1
            if best.timed and second.timed:
                facts["times_told_apart"] = not best.timed.as_fast_as(second.timed)
    return replace(record, kind=kind, **facts)
