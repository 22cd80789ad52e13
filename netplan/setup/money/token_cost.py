"""What a million tokens of answers cost on a fabric: its share of the bill, and GPU hours.

A million tokens take 10^6 / (tokens/s) of the whole cluster. In that time the bill costs its share
of a year, annuity and energy (`netplan.costing.lifetime`), and all GPUs bought cost their hours,
servers and their energy included; accelerators on the bill cost no hours besides.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from math import inf
from typing import Any

from msgspec import Struct

from netplan.costing.fabric_bill import Bill
from netplan.decide.candidates import Basis, Candidate
from netplan.decide.verdict import Verdict, decide
from netplan.records import asdict, replace
from netplan.reports.quantities import Scale
from netplan.reports.sections import Column, column, columns, value_at
from netplan.setup.money.run_cost import RunCost, Terms, run_cost
from netplan.setup.served_plan import ServedPlan

MILLION_TOKENS = 1e6
"""Tokens whose price is told [1]."""


class TokenCost(Struct, frozen=True):
    """How a fabric serves by its best plan, and what a million tokens cost on it.

    The cost is None where no bill, or no price of a GPU hour, is known.
    """

    plan: ServedPlan
    cost: RunCost | None

    @classmethod
    def of(cls, plan: ServedPlan, bill: Bill | None, terms: Terms | None) -> "TokenCost":
        """A plan on the bill of its fabric.

        Examples
        --------
        A network whose year costs 1 M, at 10^6 tokens a second: a million tokens are a second.

        >>> from netplan.costing.lifetime import Running
        >>> from netplan.costing.ranges import Range
        >>> from netplan.questions.cost import cost
        >>> from netplan.questions.serving import serving
        >>> from netplan.records import replace
        >>> bill = cost("rail-only-paper", gpus=1024, radix=64, fabrics=("rail-only",)).bills[0]
        >>> best = serving("serving-70b-h200", gpus=8, model="llama-3.1-8b", top=1).best
        >>> free = Running(1, Range.point(1.0), Range.point(0.0), Range.point(0.0))
        >>> found = TokenCost.of(replace(best, tokens_per_s=1e6), bill, Terms(1, 3.6, free))
        >>> round(found.cost.network.base * 365 * 24 * 3600 / bill.capital.base, 9)
        1.0
        >>> round(found.cost.gpus.base, 9)  # 1,024 GPUs for a second, at 3.6 an hour
        1.024
        """
        if bill is None or bill.cost is None or terms is None:
            return cls(plan, None)
        unpriced = {line.part for line in bill.quote.unpriced}
        bought = any(item.line.part == "accelerator" for item in bill.quote.items)
        hour = 0.0 if bought and "accelerator" not in unpriced else terms.gpu_hour
        terms = replace(terms, iterations=1, gpu_hour=hour)
        return cls(plan, run_cost(bill, MILLION_TOKENS / plan.tokens_per_s, terms))

    def in_words(self, currency: str) -> str:
        """Servers, tokens a second and what a million of them cost, in words."""
        plan, cost = self.plan, self.cost
        words = f"{plan.tokens_per_s:,.0f} tokens/s from {plan.shape}"
        if cost is None:
            return words
        least = "" if cost.complete else "≥ "
        return f"{words}, {least}{cost.total.base:,.3g} {currency} a million"

    def to_dict(self, currency: str) -> dict[str, Any]:
        """The fabric's part of the JSON."""
        plan, cost = self.plan.in_short(), self.cost
        parts: dict[str, Any] = {"tokens_cost_complete": cost.complete if cost else None}
        if cost is not None:
            parts |= {
                name: {"currency": currency, **asdict(getattr(cost, part))}
                for name, part in COST_PARTS.items()
            }
        return plan | dict.fromkeys(COST_PARTS) | parts


COST_PARTS = {
    "cost_per_million_tokens": "total",
    "bill_per_million_tokens": "network",
    "gpus_per_million_tokens": "gpus",
}
"""Names of the JSON, and parts of a `RunCost`."""


def token_columns(currency: str, row_path: str = "served") -> Iterator[Column[Any]]:
    """Columns of how fabrics serve; ``row_path`` says where in a row that stands."""
    yield column("servers", f"{row_path}.plan.shape", data=False)
    plan = f"{row_path}.plan"
    yield column("concurrency", f"{plan}.concurrency", title="requests")
    yield from columns("tensor", "pipeline", "expert", "attention_data", of=plan, shown="never")
    yield from columns("replicas", "batch", of=plan, shown="never")
    yield from columns("ttft_s", "tpot_s", "tokens_per_s", "tokens_per_s_per_gpu", of=plan)
    ends = ("ttft_low_s", "ttft_high_s", "tpot_low_s", "tpot_high_s", "error_basis")
    yield from columns(*ends, "tokens_per_s_low", "tokens_per_s_high", of=plan, shown="never")
    yield column("serving_binds", f"{plan}.binds", shown="wide")
    yield column("gpus_used", f"{plan}.gpus_used", title="GPUs")
    for name, part in COST_PARTS.items():
        path = f"{row_path}.cost.{part}.base"
        if part == "total":
            title = f"{currency}/M tokens"
            yield column(name, path, title=title, mark=partial(_at_least, row_path=row_path))
        else:
            yield column(name, path, shown="wide", mark=partial(_at_least, row_path=row_path))
    yield column("tokens_cost_complete", f"{row_path}.cost.complete", shown="never")


def _at_least(row: object, row_path: str) -> tuple[str, str]:
    """The sign of a price of tokens on a fabric that lacks prices of its own."""
    return ("≥ " if value_at(row, f"{row_path}.cost.complete") is False else ""), ""


LEGEND = (
    "M tokens: a million tokens of answers, of which GPU hours and the bill's share of a year"
    " (annuity, energy) are the price."
)


def cheapest(
    rows: Sequence[tuple[str, TokenCost | None, Bill | None]], money: str
) -> Verdict | None:
    """Where a million tokens cost least, of fabrics whose price is whole.

    The bill's share of a million tokens has the range of its prices, each the same on all fabrics.
    """
    candidates = [
        Candidate(
            name,
            served.cost.total.base,
            served.cost.complete,
            inf,
            None,
            0.0,
            lacking=not served.cost.complete,
            ends=f", {served.cost.network.base:,.3g} of it for the bill",
            bill=bill if bill and bill.capital.base else None,
            share=served.cost.network.base / bill.capital.base
            if bill and bill.capital.base
            else 1.0,
        )
        for name, served, bill in rows
        if served and served.cost
    ]
    return decide(candidates, Basis("tokens", 0.0, None, Scale(1.0, money, 4)))
