"""Amounts of one answer in one scale, thousands or millions."""

from dataclasses import dataclass

from netplan.costing.ranges import Range
from netplan.questions.cost_answer import CostAnswer
from netplan.reports.text import number

THOUSAND, MILLION = 1e3, 1e6
IN_MILLIONS_FROM, MANY_MILLIONS_FROM = 1e7, 1e10
DASH = "\u2013"


@dataclass(frozen=True, slots=True)
class Money:
    """A scale, its unit in words, and decimals that suit it.

    Examples
    --------
    >>> millions = Money(1e6, "M USD", 1)
    >>> millions.one(49_020_928.0), millions.span(Range(9.2e7, 1.1e8, 1.28e8))
    ('49.0', '92.0 to 128.0')
    """

    scale: float
    unit: str
    digits: int

    @classmethod
    def of(cls, answer: CostAnswer) -> "Money":
        """Scale of an answer, by its dearest fabric."""
        largest = max(bill.capital.base for bill in answer.bills)
        scale = MILLION if largest >= IN_MILLIONS_FROM else THOUSAND
        unit = f"{'M' if scale == MILLION else 'k'} {answer.currency}"
        return cls(scale, unit, 0 if largest >= MANY_MILLIONS_FROM else 1)

    def one(self, value: float) -> str:
        """One amount, without its unit."""
        return number(value / self.scale, self.digits)

    def span(self, amount: Range) -> str:
        """Low to high; a dash where no source states a spread."""
        if not amount.spread:
            return DASH
        return f"{self.one(amount.low)} to {self.one(amount.high)}"
