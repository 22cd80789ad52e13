"""Break-even statements in words, for tables and spreadsheets."""

from collections.abc import Iterator

from netplan.costing.sensitivity import BreakEven
from netplan.questions.cost_answer import Comparison, CostAnswer
from netplan.reports.quantities import part_words
from netplan.reports.text import number


def comparison_sentences(answer: CostAnswer) -> Iterator[str]:
    """One sentence on every fabric dearer than the cheapest, and what would turn that round."""
    for comparison in answer.comparisons:
        yield _sentence(comparison, answer.currency)


def _sentence(comparison: Comparison, currency: str) -> str:
    """Such as: A costs less than B and stays cheaper unless …; at any price of …."""
    one, two = comparison.cheaper, comparison.dearer
    if comparison.difference <= 0:
        return f"{one} and {two} cost the same at base prices."
    unless = [
        f"{_one(found.part)} costs {_side(found)} {number(found.price, 0)} {currency}"
        f" (base {number(found.base, 0)})"
        for found in comparison.break_evens
        if found.price is not None
    ]
    never = [_one(found.part) for found in comparison.break_evens if found.price is None]
    text = f"{one} stays cheaper than {two}"
    if unless:
        text += f" unless {', or '.join(unless)}"
    if never:
        text += f"{';' if unless else ''} at any price of {_either(never)}"
    if comparison.uncounted:
        text += f" (not counted, for want of a price: {'; '.join(comparison.uncounted)})"
    return f"{text}."


def _one(part: str) -> str:
    """A price row with its article."""
    words = part_words(part)
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def _side(found: BreakEven) -> str:
    return "less than" if found.direction == "below" else "more than"


def _either(words: list[str]) -> str:
    """Join with commas and a last "or"."""
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
