"""What the network costs one training run: its share of the yearly cost, for as long as it trains.

A run of D tokens takes D / (batch x sequence length) iterations. Where a model's file does not say
on how many tokens it is trained, 20 a parameter are taken (Hoffmann et al., Training
Compute-Optimal Large Language Models, arXiv:2203.15556), embeddings aside. Interruptions are not
counted.
"""

from collections.abc import Iterator
from math import ceil
from typing import Any

from msgspec import Struct

from netplan.costing.ranges import Range
from netplan.errors import InputError
from netplan.questions.compare import PETA, Comparison
from netplan.questions.cost import CostAnswer
from netplan.records import asdict
from netplan.workloads.closed_forms import layer_parameters
from netplan.workloads.models import Model

TOKENS_PER_PARAMETER = 20
DAY_S = 86_400.0
YEAR_S = 365 * DAY_S


class TrainingRun(Struct, frozen=True):
    """One training run on one fabric.

    Parameters
    ----------
    fabric
        Its name.
    iterations
        Iterations of the run [1].
    days
        How long it takes [d].
    cost
        The network's annuity and energy in that time.
    price_per_pflops
        Price of the network per useful 10^15 FLOP/s.
    """

    fabric: str
    iterations: int
    days: float
    cost: Range
    price_per_pflops: Range

    def to_dict(self) -> dict[str, Any]:
        """The run as JSON."""
        return asdict(self)


def run_tokens(model: Model, given: float | None) -> tuple[float, str]:
    """Tokens of a training run, and where the number comes from.

    Parameters
    ----------
    model
        What is trained.
    given
        Tokens asked for; the model's own if None.

    Raises
    ------
    InputError
        If the number is not positive.

    Examples
    --------
    >>> from netplan.workloads.models import MODELS
    >>> run_tokens(MODELS.load("llama-3-405b"), None)
    (15600000000000.0, "the model's own")
    """
    if given is not None:
        if not 0 < given < float("inf"):
            raise InputError(f"--tokens {given:g} is out of range: give a number above 0")
        return given, "as asked"
    if model.training_tokens is not None:
        return model.training_tokens, "the model's own"
    return TOKENS_PER_PARAMETER * float(model.layers * layer_parameters(model)), "20 a parameter"


def training_runs(
    tokens: float, model: Model, priced: CostAnswer, compared: Comparison
) -> Iterator[TrainingRun]:
    """One run on every fabric that has a price and an iteration time.

    Parameters
    ----------
    tokens
        Tokens of the run [1].
    model
        What is trained.
    priced, compared
        Bills with their yearly cost; iteration times.
    """
    iterations = ceil(tokens / (compared.inputs["batch"] * model.sequence_length))
    for bill in priced.bills:
        row = next(row for row in compared.rows if row.name == bill.name)
        useful = row.effective_flops_per_s
        if row.best is None or useful is None:
            continue
        seconds = iterations * row.best.iteration_time_s
        yield TrainingRun(
            fabric=bill.name,
            iterations=iterations,
            days=seconds / DAY_S,
            cost=(seconds / YEAR_S) * bill.life.per_year,
            price_per_pflops=(PETA / useful) * bill.capital,
        )
