"""What one training run costs: the network's share, that of expanded memory, and GPU hours.

A share is the yearly cost, annuity and energy, for the days of the run. An hour of a GPU holds its
server, and all GPUs bought are paid for. Interruptions are not counted.

What a million tokens of answers cost on a fabric: 10^6 / (tokens/s) of the whole cluster. In that
time the bill costs its share of a year, annuity and energy (`netplan.costing.lifetime`), and all
GPUs bought cost their hours; accelerators on the bill cost no hours besides.
"""

from collections.abc import Iterator, Sequence
from math import ceil, inf
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from netplan.costing.fabric_bill import Bill, BillBooks, make_bill
from netplan.costing.lifetime import ECONOMICS_BOOKS, EconomicsBook, Opex, lifetime
from netplan.costing.materials import Compute
from netplan.costing.prices import PriceBook
from netplan.costing.ranges import Amount, Estimate, Range
from netplan.costing.switches import SWITCHES, require_switch
from netplan.decide.candidates import Basis, Candidate, Rule, RunBudget
from netplan.decide.verdict import Verdict, decide
from netplan.errors import CatalogError, InputError, NetplanError, not_built
from netplan.records import replace, value_at
from netplan.reports.quantities import Scale
from netplan.reports.sections import Column, column, columns
from netplan.scenarios.bill_books import read_books
from netplan.scenarios.reading import CatalogReader, sized
from netplan.setup.money.pricing import book_opex
from netplan.setup.question import AnyQuestion
from netplan.setup.served_plan import ServedPlan
from netplan.topologies.specs import FabricSpec
from netplan.units import DAY_S, HOURS_PER_DAY, YEAR_S
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.models import Model
from netplan.workloads.parameters import stack_of

if TYPE_CHECKING:
    from netplan.workloads.families import OtherModel

WITHIN = "Times so near are equal, if without bars."
"""Help of an input of all questions that weigh iteration times."""

RULE = "What is recommended, and by what"
"""Help of the input that says by which rule a network is recommended."""
TOKENS_PER_PARAMETER = 20


class RunTerms(Struct, frozen=True):
    """A run's iterations [1], the price of a GPU hour, and what a year of a network costs.

    ``hour`` is where the book has that price from; None where it was given.
    """

    iterations: int
    gpu_hour: float
    opex: Opex
    hour: Estimate | None = None

    def run(self, gpus: int) -> RunBudget:
        """The run on so many GPUs, all of them paid for."""
        return RunBudget(self.iterations, gpus * self.gpu_hour)


class RunCost(Struct, frozen=True):
    """A training run on one bill: its iterations [1], days, shares, GPU hours and their price.

    Where parts have no price the shares leave them out, and the run is not ``complete``.
    """

    json_parts = (
        *("iterations", "days", "network", "memory", "gpus", "total", "gpu_hours", "gpu_hour"),
        "complete",
    )

    iterations: int
    days: float
    network: Range
    memory: Range
    gpu_hours: float
    gpu_hour: float
    complete: bool
    currency: str

    @property
    def gpus(self) -> Range:
        """Price of the GPU hours."""
        return Range.point(self.gpu_hours * self.gpu_hour)

    @property
    def total(self) -> Range:
        """Price of the run."""
        return self.network + self.memory + self.gpus

    @property
    def amounts(self) -> dict[str, Amount]:
        """Its total, the network's share and the GPU hours, each with the currency."""
        shares = {"total": self.total, "network": self.network, "gpus": self.gpus}
        return {name: share.in_currency(self.currency) for name, share in shares.items()}


def run_cost(bill: Bill, time_s: float, terms: RunTerms) -> RunCost:
    """Cost of a training run on the network and expanded memory of a bill.

    Parameters
    ----------
    bill
        The bill, without accelerators.
    time_s
        Iteration time [s].
    terms
        Iterations, price of a GPU hour, what a year costs.

    Examples
    --------
    A third of a year of a network of 3 M without interest over a life of one year costs 1 M.

    >>> from netplan.costing.fabric_bill import BillBooks, make_bill
    >>> from netplan.costing.lifetime import Opex
    >>> from netplan.questions.cost import cost
    >>> bill = cost("rail-only-paper", gpus=1024, radix=64, fabrics=("rail-only",)).bills[0]
    >>> free = Opex(1, Range.point(1.0), Range.point(0.0), Range.point(0.0))
    >>> run = run_cost(bill, YEAR_S / 3, RunTerms(1, 2.0, free))
    >>> round(run.network.base / bill.capital.base, 9), round(run.gpu_hours), run.memory.base
    (0.333333333, 2990080, 0.0)
    """
    run_s = terms.iterations * time_s
    memory = bill.memory
    capital = bill.capital
    if memory.base:
        capital = Range(
            *(capital.at_end(end) - memory.at_end(end) for end in ("low", "base", "high"))
        )
    share = run_s / YEAR_S
    days = run_s / DAY_S
    return RunCost(
        iterations=terms.iterations,
        days=days,
        network=share * lifetime(capital, bill.draw.typical_w, terms.opex).per_year,
        memory=share * lifetime(memory, 0.0, terms.opex).per_year,
        gpu_hours=days * HOURS_PER_DAY * bill.gpus,
        gpu_hour=terms.gpu_hour,
        complete=not bill.unpriced_apart,
        currency=bill.quote.currency,
    )


def run_terms(
    asked: AnyQuestion,
    rule: Rule,
    reader: CatalogReader,
    run: "tuple[Model | OtherModel, int]",
    prices: PriceBook,
    currency: str,
) -> RunTerms | None:
    """A run of a model at a batch, in a currency; None where a price for it is not known.

    Raises
    ------
    InputError
        If the number of tokens is not positive.
    CatalogError
        If the rule needs what is not known: a price of a GPU hour, or a rate of exchange.
    """
    model, batch = run
    if not isinstance(model, Model):
        if rule == "run-cost" or asked.training.tokens is not None:
            raise InputError(
                f"{model.name} is of family {model.family}, which has no tokens, and so no run"
                " of known length: leave --tokens out, and take another --rule than run-cost"
            )
        return None
    tokens, _ = run_tokens(model, asked.training.tokens)
    return rates_of(
        asked, rule, reader, ceil(tokens / (batch * model.sequence_length)), prices, currency
    )


def rates_of(
    asked: AnyQuestion,
    rule: Rule,
    reader: CatalogReader,
    iterations: int,
    prices: PriceBook,
    currency: str,
) -> RunTerms | None:
    """So many iterations at the price of a GPU hour; None or errors as of :func:`run_terms`."""
    book: EconomicsBook = reader.load(ECONOMICS_BOOKS, asked.books.economics)
    needed = rule == "run-cost"
    try:
        rate = prices.exchange(book.currency, currency)
    except CatalogError:
        if needed:
            raise
        return None
    known = gpu_hour(asked, reader, book)
    if known is None:
        if needed:
            name = asked.cluster.accelerator
            raise CatalogError(f"economics {book.name} has no gpu_hour of {name}: give --gpu-hour")
        return None
    opex = book_opex(asked, reader, book, rate)
    if isinstance(known, Estimate):
        return RunTerms(iterations, rate * known.base, opex, known)
    return RunTerms(iterations, known, opex)


def gpu_hour(
    asked: AnyQuestion, reader: CatalogReader, book: EconomicsBook
) -> Estimate | float | None:
    """Price of a GPU hour as given, else as the book has it for the accelerator; None without."""
    given = asked.books.terms.gpu_hour
    if given is not None:
        return given
    return book.hour_of(reader.load(ACCELERATORS, asked.cluster.accelerator))


def check_within(share: float) -> None:
    """Refuse a tolerance of iteration times that is none; InputError."""
    if not 0 <= share < 1:
        raise InputError(f"--within {100 * share:g}%: give 0% up to below 100%")


def run_tokens(model: Model, given: float | None) -> tuple[float, str]:
    """Tokens of one training run [1], and where the number comes from.

    Where neither the question nor the file says it, 20 for a parameter that a token uses (Hoffmann
    et al., Training Compute-Optimal Large Language Models, arXiv:2203.15556), embeddings aside.

    Raises
    ------
    InputError
        If the number asked for is not positive.
    """
    if given is not None:
        if not 0 < given < inf:
            raise InputError(f"--tokens {given:g} is out of range: give a number above 0")
        return given, "as asked"
    if model.training_tokens is not None:
        return model.training_tokens, "the model's own"
    return TOKENS_PER_PARAMETER * float(stack_of(model).used), "20 a parameter"


MILLION_TOKENS = 1e6
"""Tokens whose price is told [1]."""


class TokenCost(Struct, frozen=True):
    """How a fabric serves by its best plan, and what a million tokens cost on it.

    The cost is None where no bill, or no price of a GPU hour, is known.
    """

    json_parts = (
        *("*plan", "-rank", "cost_per_million_tokens=cost.amounts.total"),
        "bill_per_million_tokens=cost.amounts.network",
        "gpus_per_million_tokens=cost.amounts.gpus",
        "tokens_cost_complete=cost.complete",
    )

    plan: ServedPlan
    cost: RunCost | None

    @classmethod
    def of(cls, plan: ServedPlan, bill: Bill | None, terms: RunTerms | None) -> "TokenCost":
        """A plan on the bill of its fabric.

        Examples
        --------
        A network whose year costs 1 M, at 10^6 tokens a second: a million tokens are a second.

        >>> from netplan.costing.lifetime import Opex
        >>> from netplan.costing.ranges import Range
        >>> from netplan.questions.cost import cost
        >>> from netplan.questions.serving import serving
        >>> from netplan.records import replace
        >>> bill = cost("rail-only-paper", gpus=1024, radix=64, fabrics=("rail-only",)).bills[0]
        >>> best = serving("serving-70b-h200", gpus=8, model="llama-3.1-8b", top=1).best
        >>> free = Opex(1, Range.point(1.0), Range.point(0.0), Range.point(0.0))
        >>> found = TokenCost.of(replace(best, tokens_per_s=1e6), bill, RunTerms(1, 3.6, free))
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


COST_PARTS = {
    "cost_per_million_tokens": "total",
    "bill_per_million_tokens": "network",
    "gpus_per_million_tokens": "gpus",
}
"""Names of columns, and parts of a `RunCost`."""


def token_columns(currency: str) -> Iterator[Column[Any]]:
    """Columns of how fabrics serve, which stands as ``served`` in a row."""
    yield column("servers", "served.plan.shape", shown="people")
    plan = "served.plan"
    yield column("concurrency", f"{plan}.concurrency", title="requests")
    yield from columns("tensor", "pipeline", "expert", "attention_data", of=plan, shown="data")
    yield from columns("replicas", "batch", of=plan, shown="data")
    yield from columns("ttft_s", "tpot_s", "tokens_per_s", "tokens_per_s_per_gpu", of=plan)
    ends = ("ttft_low_s", "ttft_high_s", "tpot_low_s", "tpot_high_s", "error_basis")
    yield from columns(*ends, "tokens_per_s_low", "tokens_per_s_high", of=plan, shown="data")
    yield column("serving_binds", f"{plan}.bottleneck", shown="wide")
    yield column("gpus_used", f"{plan}.gpus_used", title="GPUs")
    for name, part in COST_PARTS.items():
        path = f"served.cost.{part}.base"
        if part == "total":
            yield column(name, path, title=f"{currency}/M tokens", mark=_at_least)
        else:
            yield column(name, path, shown="wide", mark=_at_least)
    yield column("tokens_cost_complete", "served.cost.complete", shown="data")


def _at_least(row: object) -> tuple[str, str]:
    """The sign of a price of tokens on a fabric that lacks prices of its own."""
    return ("≥ " if value_at(row, "served.cost.complete") is False else ""), ""


LEGEND = (
    "M tokens: a million tokens of answers, of which GPU hours and the bill's share of a year"
    " (annuity, energy) are the price."
)


def candidate_of(
    name: str, cost: RunCost, bill: Bill | None, what: str, *, times: float = 1.0
) -> Candidate:
    """A fabric as a verdict on runs sees it, of which one costs so many times as much [1].

    Parameters
    ----------
    name, bill
        The fabric, and its bill.
    cost, what
        What a run costs, and what a part of that is for.
    times
        How many times as much that is [1].
    """
    network = times * cost.network.base
    capital = bill.capital.base if bill else 0.0
    return Candidate(
        name,
        times * cost.total.base,
        cost.complete,
        inf,
        None,
        0.0,
        lacking=not cost.complete,
        ends=f", {network:,.3g} of it for the {what}",
        bill=bill if capital else None,
        share=network / capital if capital else 1.0,
    )


def cheapest(
    rows: Sequence[tuple[str, TokenCost | None, Bill | None]], money: str
) -> Verdict | None:
    """Where a million tokens cost least, of fabrics whose price is whole.

    The bill's share of a million tokens has the range of its prices, each the same on all fabrics.
    """
    candidates = [
        candidate_of(name, served.cost, bill, "bill")
        for name, served, bill in rows
        if served and served.cost
    ]
    return decide(candidates, Basis("tokens", 0.0, None, Scale(1.0, money, 4)))


def network_bill(
    asked: AnyQuestion, reader: CatalogReader, fabric: str
) -> tuple[FabricSpec, BillBooks, Bill | str]:
    """The bill of the network of a question about one fabric; its GPUs are paid by the hour.

    Parameters
    ----------
    asked
        The question.
    reader
        Of the catalogs, with the values that are replaced in them.
    fabric
        Name of the fabric.

    Returns
    -------
    tuple of FabricSpec, BillBooks and Bill or str
        The fabric, what it is counted with, and its bill; or why the network cannot be built or
        paid for.
    """
    cluster = asked.cluster
    chip = reader.load(ACCELERATORS, cluster.accelerator)
    (spec,) = reader.fabrics((fabric,), cluster)
    books = replace(
        read_books(cluster, asked.books, reader), switch=reader.named(SWITCHES, cluster.switch)
    )
    try:
        sizing = sized(cluster, chip)
        require_switch(books.switch, [spec], sizing, reader.roots)
        return spec, books, make_bill(spec, sizing, replace(books, compute=Compute()))
    except NetplanError as error:
        return spec, books, not_built(spec.name, error).rstrip(".")
