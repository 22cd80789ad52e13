"""What one training run costs: the network's share, that of expanded memory, and GPU hours.

A share is the yearly cost, annuity and energy, for the days of the run. An hour of a GPU holds its
server, and all GPUs bought are paid for. Interruptions are not counted.
"""

from math import ceil, inf
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from netplan.costing.fabric_bill import Bill
from netplan.costing.lifetime import ECONOMICS_BOOKS, EconomicsBook, Running, lifetime
from netplan.costing.prices import PriceBook
from netplan.costing.ranges import Estimate, Range
from netplan.decide.candidates import Rule, RunBudget
from netplan.errors import CatalogError, InputError
from netplan.records import asdict
from netplan.scenarios.reading import CatalogReader
from netplan.setup.money.pricing import book_running
from netplan.setup.question import AnyQuestion
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


class Terms(Struct, frozen=True):
    """A run's iterations [1], the price of a GPU hour, and what a year of a network costs.

    ``hour`` is where the book has that price from; None where it was given.
    """

    iterations: int
    gpu_hour: float
    running: Running
    hour: Estimate | None = None

    def run(self, gpus: int) -> RunBudget:
        """The run on so many GPUs, all of them paid for."""
        return RunBudget(self.iterations, gpus * self.gpu_hour)


class RunCost(Struct, frozen=True):
    """A training run on one bill: its iterations [1], days, shares, GPU hours and their price.

    Where parts have no price the shares leave them out, and the run is not ``complete``.
    """

    iterations: int
    days: float
    network: Range
    memory: Range
    gpu_hours: float
    gpu_hour: float
    complete: bool

    @property
    def gpus(self) -> Range:
        """Price of the GPU hours."""
        return Range.point(self.gpu_hours * self.gpu_hour)

    @property
    def total(self) -> Range:
        """Price of the run."""
        return self.network + self.memory + self.gpus

    def to_dict(self) -> dict[str, Any]:
        """The run as JSON."""
        known = {"iterations": self.iterations, "days": self.days}
        amounts = ("network", "memory", "gpus", "total")
        hours = {"gpu_hours": self.gpu_hours, "gpu_hour": self.gpu_hour}
        facts = known | {name: asdict(getattr(self, name)) for name in amounts} | hours
        return facts | {"complete": self.complete}


def run_cost(bill: Bill, time_s: float, terms: Terms) -> RunCost:
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
    >>> from netplan.costing.lifetime import Running
    >>> from netplan.questions.cost import cost
    >>> bill = cost("rail-only-paper", gpus=1024, radix=64, fabrics=("rail-only",)).bills[0]
    >>> free = Running(1, Range.point(1.0), Range.point(0.0), Range.point(0.0))
    >>> run = run_cost(bill, YEAR_S / 3, Terms(1, 2.0, free))
    >>> round(run.network.base / bill.capital.base, 9), round(run.gpu_hours), run.memory.base
    (0.333333333, 2990080, 0.0)
    """
    run_s = terms.iterations * time_s
    memory = bill.memory
    capital = bill.capital
    if memory.base:
        capital = Range(*(capital.at(end) - memory.at(end) for end in ("low", "base", "high")))
    share = run_s / YEAR_S
    days = run_s / DAY_S
    return RunCost(
        iterations=terms.iterations,
        days=days,
        network=share * lifetime(capital, bill.draw.typical_w, terms.running).per_year,
        memory=share * lifetime(memory, 0.0, terms.running).per_year,
        gpu_hours=days * HOURS_PER_DAY * bill.gpus,
        gpu_hour=terms.gpu_hour,
        complete=not bill.unpriced_apart,
    )


def terms_of(
    asked: AnyQuestion,
    rule: Rule,
    reader: CatalogReader,
    run: "tuple[Model | OtherModel, int]",
    prices: PriceBook,
    currency: str,
) -> Terms | None:
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
) -> Terms | None:
    """So many iterations at the price of a GPU hour; None or errors as of :meth:`terms`."""
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
    running = book_running(asked, reader, book, rate)
    if isinstance(known, Estimate):
        return Terms(iterations, rate * known.base, running, known)
    return Terms(iterations, known, running)


def gpu_hour(
    asked: AnyQuestion, reader: CatalogReader, book: EconomicsBook
) -> Estimate | float | None:
    """Price of a GPU hour as given, else as the book has it for the accelerator; None without."""
    given = asked.books.terms.gpu_hour
    if given is not None:
        return given
    return book.hour_of(reader.load(ACCELERATORS, asked.cluster.accelerator))


def check_weights(asked: AnyQuestion, within: float) -> None:
    """Refuse what no network could be recommended by.

    Raises
    ------
    InputError
        If the tolerance of times is none, or the price of a GPU hour is below 0 or no number.
    """
    check_within(within)
    check_gpu_hour(asked)


def check_gpu_hour(asked: AnyQuestion) -> None:
    """Refuse a price of a GPU hour that is below 0, or no number; InputError."""
    hour = asked.books.terms.gpu_hour
    if hour is not None and not 0 <= hour < inf:
        raise InputError(f"--gpu-hour {hour:g}: give a price of at least 0")


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
