"""What a step of post-training costs on a fabric, and a run of steps.

For the seconds of a step the bill costs its share of a year, annuity and energy
(`netplan.costing.lifetime`), and all GPUs that are held cost their hours, those of each pool at the
price of its own accelerator, idle ones too. Servers and their energy are in an hour; accelerators
on the bill cost none besides. A step without measurements is a bound from below, and so is its
price.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from netplan.costing.fabric_bill import Bill
from netplan.costing.lifetime import ECONOMICS_BOOKS, EconomicsBook, Opex
from netplan.costing.prices import US_DOLLAR, PriceBook
from netplan.costing.ranges import Range
from netplan.decide.candidates import Basis, Candidate
from netplan.decide.record import price_difference
from netplan.decide.verdict import Verdict, decide
from netplan.errors import CatalogError
from netplan.records import replace, value_at
from netplan.reports.quantities import Scale, listed, short_money
from netplan.reports.schema import plain_at
from netplan.reports.sections import Column, column, columns
from netplan.scenarios.reading import CatalogReader
from netplan.setup.money.pricing import book_opex
from netplan.setup.money.run_cost import RunCost, RunTerms, candidate_of, network_bill, run_cost
from netplan.setup.question import AnyQuestion
from netplan.units import si
from netplan.workloads.accelerators import ACCELERATORS

if TYPE_CHECKING:
    from netplan.setup.post_training_step import PostTrained

ROLLED_OUT = "rollout"
"""Role of the pool that may have accelerators of its own."""
THREE_DIGITS = 1000.0
"""Amounts from which thousands are told [currency]."""


class StepTerms(Struct, frozen=True, kw_only=True):
    """What GPU hours and a year of a network cost a job.

    Parameters
    ----------
    currency
        Of all amounts.
    hours
        Price of a GPU hour by accelerator; None where nobody knows it [currency/h].
    running
        What a year of the network costs.
    usd
        What one of the currency is in dollars; None where no rate is known.
    why
        Why there are no terms; empty where there are.
    """

    currency: str
    hours: Mapping[str, float | None] = {}
    opex: Opex | None = None
    usd: float | None = None
    why: str = ""

    @property
    def unknown(self) -> str:
        """Why no step has a price; empty where it may have one."""
        if self.why:
            return self.why
        lacking = [name for name, price in self.hours.items() if price is None]
        return f"no price of a GPU hour of {lacking[0]} is known: --gpu-hour" if lacking else ""


def step_terms(
    asked: AnyQuestion,
    reader: CatalogReader,
    prices: PriceBook,
    currency: str,
    opex: Opex | None = None,
) -> StepTerms:
    """Prices of GPU hours by accelerator, as given or as the book has them, and years of use.

    Parameters
    ----------
    asked
        The question about post-training. Its ``--gpu-hour`` is that of every GPU.
    reader
        Reads its files.
    prices, currency
        The book of prices, for rates of exchange, and the currency of the answer.
    opex
        Years of use, where the question has them by itself.
    """
    book: EconomicsBook = reader.load(ECONOMICS_BOOKS, asked.books.economics)
    try:
        rate = prices.exchange(book.currency, currency)
    except CatalogError as error:
        return StepTerms(currency=currency, why=str(error))
    try:
        usd = prices.exchange(currency, US_DOLLAR)
    except CatalogError:
        usd = None
    job = asked.scenario.post_training
    names = dict.fromkeys((asked.cluster.accelerator, job.rollout_accelerator))
    hours: dict[str, float | None] = {}
    for name in filter(None, names):
        given = asked.books.terms.gpu_hour
        files = reader if name == asked.cluster.accelerator else asked.reader_of(name)
        known = None if given is not None else book.hour_of(files.load(ACCELERATORS, name))
        hours[name] = rate * known.base if known else given
    opex = opex or book_opex(asked, reader, book, rate)
    return StepTerms(currency=currency, hours=hours, opex=opex, usd=usd)


class StepPrice(Struct, frozen=True, kw_only=True):
    """What a step costs on a fabric; or why that is not known.

    Parameters
    ----------
    currency
        Of all amounts.
    step
        The bill's share of one step, and its GPU hours; None where no price is known.
    steps
        Steps of a run [1].
    usd
        What one of the currency is in dollars; None where no rate is known.
    gpus_bought
        Whether accelerators are on the bill, and cost no hours.
    bound
        Whether it is that of a bound from below, no estimate.
    why
        Why there is no price.
    """

    json_parts = (
        *("usd_per_step", "usd_per_run", "network_share", "gpu_hours_per_run", "steps"),
        *("cost_per_step=step.amounts.total", "bill_per_step=step.amounts.network"),
        *("gpus_per_step=step.amounts.gpus", "step_cost_complete=step.complete"),
        "step_cost_unknown=why?",
    )

    currency: str
    step: RunCost | None = None
    steps: int = 1
    usd: float | None = None
    gpus_bought: bool = False
    bound: bool = True
    why: str = ""

    @classmethod
    def of(cls, trained: "PostTrained", bill: Bill | None, terms: StepTerms) -> "StepPrice":
        """The price of a step on the bill of its fabric.

        Examples
        --------
        64 H100 for a step of 185 s at 2.995 an hour are 9.88 of it, the network's years the rest.

        >>> from netplan.questions.compare import Compare
        >>> from netplan.setup.post_training_step import post_train
        >>> asked = Compare.make("grpo-70b-h100")
        >>> reader = asked.reader()
        >>> trained = post_train(asked, reader, "rail-optimized")
        >>> price = step_price(asked, reader, trained)
        >>> hours = 64 * trained.step.seconds / 3600
        >>> round(price.step.gpus.base / hours, 6), price.usd_per_run == 1000 * price.usd_per_step
        (2.995, True)
        """
        job = trained.run.job
        bound = trained.basis == "bound"
        price = cls(currency=terms.currency, steps=job.steps, usd=terms.usd, bound=bound)
        why = terms.unknown
        if not why and (bill is None or bill.cost is None):
            why = "no part of the network has a price"
        if why or bill is None or terms.opex is None:
            return replace(price, why=why)
        unpriced = {line.part for line in bill.quote.unpriced}
        bought = any(item.line.part == "accelerator" for item in bill.quote.items)
        bought = bought and "accelerator" not in unpriced
        if bought and len(terms.hours) > 1:
            return replace(
                price, why=f"the bill has accelerators of one kind, not {listed([*terms.hours])}"
            )
        known = {name: hour or 0.0 for name, hour in terms.hours.items()}
        hour = 0.0 if bought else held_hours(held(trained), known)
        step = run_cost(bill, trained.step.seconds, RunTerms(1, hour, terms.opex))
        return replace(price, step=step, gpus_bought=bought)

    @property
    def least(self) -> str:
        """What stands before an amount: that of a bound is at least so much."""
        return "at least " if self.bound else "about "

    @property
    def run(self) -> RunCost | None:
        """The same of a run."""
        if self.step is None:
            return None
        step, count = self.step, self.steps
        return replace(
            step,
            iterations=count,
            days=count * step.days,
            network=count * step.network,
            memory=count * step.memory,
            gpu_hours=count * step.gpu_hours,
        )

    @property
    def usd_per_step(self) -> float | None:
        """Base price of a step [USD]."""
        if self.step is None or self.usd is None:
            return None
        return self.usd * self.step.total.base

    @property
    def usd_per_run(self) -> float | None:
        """Base price of a run [USD]."""
        return None if self.usd_per_step is None else self.steps * self.usd_per_step

    @property
    def network_share(self) -> float | None:
        """The network's share of a step; None where the bill holds accelerators, too [1]."""
        if self.step is None or self.gpus_bought or not self.step.total.base:
            return None
        return self.step.network.base / self.step.total.base

    @property
    def gpu_hours_per_run(self) -> float | None:
        """GPU hours of a run, of all that are held [h]."""
        return None if self.step is None else self.steps * self.step.gpu_hours

    @property
    def words(self) -> str:
        """What a step and a run cost, and the network's share, in a sentence."""
        step, run = self.step, self.run
        if step is None or run is None:
            return f"No price of a step: {self.why}."
        share = self.network_share
        network = "" if share is None else f", {100 * share:.2g} % of it for the network"
        if self.gpus_bought:
            network = " with accelerators of the bill, which cost no hours"
        partly = "" if step.complete else " (parts of the network have no price)"
        return (
            f"A step costs {self.least}{amount(step.total.base, self.currency)}{network}{partly};"
            f" {self.steps:,} steps {self.least}{amount(run.total.base, self.currency)} and"
            f" {run.gpu_hours:,.0f} GPU hours."
        )


def amount(money: float, currency: str) -> str:
    """An amount in three digits, in thousands or millions where it is large.

    Examples
    --------
    >>> amount(10.13, "USD"), amount(0.0345, "USD"), amount(10130.0, "USD")
    ('10.1 USD', '0.0345 USD', '10.1 k USD')
    """
    return f"{money:.3g} {currency}" if money < THREE_DIGITS else short_money(money, currency)


def held(trained: "PostTrained") -> dict[str, int]:
    """GPUs of a job by accelerator: those of no pool are the trainer's kind, and held too [1]."""
    trainer_name = trained.run.asked.cluster.accelerator
    rollout = sum(pool.gpus for pool in trained.pools if pool.role == ROLLED_OUT)
    name = trained.run.server_name
    if name == trainer_name:
        return {trainer_name: trained.run.gpus}
    return {trainer_name: trained.run.gpus - rollout, name: rollout}


def held_hours(gpus: Mapping[str, int], hours: Mapping[str, float]) -> float:
    """Mean price of an hour of GPUs of several kinds [currency/h].

    Examples
    --------
    >>> held_hours({"h100-80gb": 48, "l40s": 16}, {"h100-80gb": 2.0, "l40s": 1.0})
    1.75
    """
    return sum(count * hours[name] for name, count in gpus.items()) / sum(gpus.values())


def step_price(asked: AnyQuestion, reader: CatalogReader, trained: "PostTrained") -> StepPrice:
    """The price of a step on its fabric, as ``netplan compare`` has it for these inputs.

    Parameters
    ----------
    asked
        The question.
    reader
        Of the catalogs, with the values that are replaced in them.
    trained
        The step.

    Returns
    -------
    StepPrice
        With the reason, where the network cannot be built or paid for.
    """
    _, books, bill = network_bill(asked, reader, trained.run.fabric)
    currency = books.prices.currency
    terms = step_terms(asked, reader, books.prices, currency)
    if isinstance(bill, str):
        return StepPrice(currency=currency, steps=trained.run.job.steps, usd=terms.usd, why=bill)
    return StepPrice.of(trained, bill, terms)


class Stepped(Struct, frozen=True):
    """How a fabric does a step of post-training, and what that costs on it."""

    json_parts = "*facts", "*price"

    trained: "PostTrained"
    price: StepPrice

    @property
    def step_s(self) -> float:
        """Least time of a step, or what measurements say of it [s]."""
        return self.trained.step.seconds

    @property
    def job(self) -> tuple[object, ...]:
        """What is done, by which GPUs: the same of steps that differ by their network alone."""
        run = self.trained.run
        return run.job, tuple((pool.gpus, pool.accelerator) for pool in self.trained.pools)

    @property
    def bound(self) -> bool:
        """Whether that is a bound from below."""
        return self.trained.basis == "bound"

    @property
    def printed(self) -> tuple[float, float]:
        """Printed steps of such models over their bounds; 1 of an estimate [1]."""
        if not self.bound:
            return 1.0, 1.0
        from netplan.setup.schedules_beside import PRINTED_OVER_BOUND

        experts = self.trained.run.model.experts
        return PRINTED_OVER_BOUND["dense" if experts is None else "experts"]

    @property
    def facts(self) -> dict[str, Any]:
        """What the answer about the step alone says, by the same names."""
        sizes = {pool.role: pool.gpus for pool in self.trained.pools}
        both = sizes.get("all", 0)
        known = plain_at(self, "*trained", "trained.step.train_s", "score_s=trained.step.scored_s")
        return {
            **{name: known[name] for name in STEP_KEYS},
            "rollout_gpus": sizes.get("rollout", both),
            "train_gpus": sizes.get("trainer", both),
        }

    def in_words(self) -> str:
        """A step, its new weights and what it costs, in words."""
        step, price = self.trained.step, self.price
        words = (
            f"a step of {price.least}{si(step.seconds, 's')}, new weights {si(step.sync_s, 's')}"
        )
        if price.step is None:
            return words
        return f"{words}, {price.least}{amount(price.step.total.base, price.currency)}"


STEP_KEYS = (
    *("step_s", "step_low_s", "step_high_s", "basis", "bottleneck", "mode", "rollout_s"),
    *("sync_s", "sync_bound_s", "sync_basis", "sync_bytes", "sync_network_bytes"),
    *("tokens_per_s", "tokens_per_s_per_gpu", "train_s", "score_s"),
)
"""Numbers of a step that stand in the row of a fabric, too."""
TOKENS = "Tokens of prompts and answers of a step over its time"
LEGEND = (
    "step: of post-training; currency a step: GPU hours of all that are held, and the bill's share"
    " of a year (annuity, energy); \u2265, \u2264: bounds."
)


def step_columns(currency: str) -> Iterator[Column[Any]]:
    """Columns of how fabrics do a step, which stands as ``stepped`` in a row."""
    facts, price = "stepped.facts", "stepped.price"

    def least(name: str, path: str, **changes: Any) -> Column[Any]:  # noqa: ANN401
        return column(name, path, mark=partial(_bound_at, path, "\u2265"), **changes)

    yield least("step_s", f"{facts}.step_s")
    yield from columns("step_low_s", "step_high_s", "step_basis=basis", of=facts, shown="data")
    parts = "rollout_gpus", "train_gpus", "rollout_s", "score_s", "train_s"
    yield from columns("step_bottleneck=bottleneck", *parts, of=facts, shown="wide")
    yield column("sync_s", f"{facts}.sync_s")
    yield from columns("sync_bound_s", "sync_network_bytes", of=facts, shown="data")
    yield column("tokens_per_s", f"{facts}.tokens_per_s", shown="data", meaning=TOKENS)
    a_gpu = f"{TOKENS}, over all GPUs that are held"
    path = f"{facts}.tokens_per_s_per_gpu"
    most = partial(_bound_at, path, "\u2264")
    yield column("tokens_per_s_per_gpu", path, meaning=a_gpu, mark=most)
    yield least("cost_per_step", f"{price}.step.total.base", title=f"{currency}/step")
    yield least("cost_per_run", f"{price}.run.total.base", title=f"{currency}/run")
    yield from columns("usd_per_step", "usd_per_run", of=price, shown="data")
    bill = "bill_per_step=step.network.base", "gpus_per_step=step.gpus.base"
    yield from columns(*bill, of=price, shown="wide")
    yield column("step_network_share", f"{price}.network_share")
    yield column("gpu_hours_per_run", f"{price}.gpu_hours_per_run", shown="wide")
    yield column("step_cost_complete", f"{price}.step.complete", shown="data")


def _bound_at(path: str, sign: str, row: object) -> tuple[str, str]:
    """The mark of a number at a path that is a bound, where there is one."""
    known = value_at(row, path) is not None
    return (f"{sign} " if known and value_at(row, "stepped.bound") else ""), ""


def cheapest_step(
    rows: Sequence[tuple[str, Stepped | None, Bill | None]], currency: str
) -> Verdict | None:
    """Where a step costs least, of fabrics whose price is whole.

    Printed steps are longer than bounds by what software adds, and software is the same on every
    fabric: the order of two has to hold with nothing added and with as much as is printed at most.
    Where it does not, it is undecided.

    Parameters
    ----------
    rows
        Fabrics by name, how they do a step, and their bills.
    currency
        Of all prices.

    Returns
    -------
    Verdict or None
        None where nothing has a price.
    """
    known = [
        PricedStep(name, stepped.step_s, stepped.price.step, bill)
        for name, stepped, bill in rows
        if stepped and stepped.price.step
    ]
    if not known:
        return None
    most = max(stepped.printed[1] for _, stepped, _ in rows if stepped)
    basis = Basis(
        "step", 0.0, None, Scale(1.0, currency, 4), least="at least " if most > 1 else "about "
    )
    verdict = decide([row.candidate(0.0) for row in known], basis)
    if verdict is None or most == 1:
        return verdict
    added_s = (most - 1) * min(row.step_s for row in known)
    later = decide([row.candidate(added_s) for row in known], basis)
    if later is None or _named(later) == _named(verdict):
        return verdict
    names = tuple(dict.fromkeys((*_named(verdict), *_named(later))))
    words = (
        f"Undecided between {listed(names)}: bounds do not tell them apart. With nothing added to a"
        f" bound {verdict.sentence[:1].lower()}{verdict.sentence[1:]} With as much as software adds"
        f" at most ({most:g} times the bound), {listed(_named(later))}."
    )
    record = replace(verdict.decision, kind="undecided", winner=None, tied=names)
    return replace(verdict, fabric=None, sentence=words, tied=names, record=record)


def _named(verdict: Verdict) -> tuple[str, ...]:
    """Fabrics that a verdict names."""
    return (verdict.fabric,) if verdict.fabric else verdict.tied


class PricedStep(NamedTuple):
    """A fabric, or a case of several, with what a step costs on it, and its bill."""

    name: str
    step_s: float
    step: RunCost
    bill: Bill | None

    def candidate(self, added_s: float) -> Candidate:
        """The fabric as the verdict sees it, whose step takes so much longer [s]."""
        longer = 1 + added_s / self.step_s
        return candidate_of(self.name, self.step, self.bill, "network", times=longer)

    def more(self, other: "PricedStep", added_s: float = 0.0) -> Range:
        """What another costs more a step, low to high by the prices of the book.

        Steps of both take so much longer [s].
        """
        return price_difference(self.candidate(added_s), other.candidate(added_s))
