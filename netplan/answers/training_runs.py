"""What a network costs one training run, and what each useful FLOP/s on it costs."""

from msgspec import Struct

from netplan.answers.compare_answer import Comparison
from netplan.answers.cost_answer import CostAnswer
from netplan.costing.ranges import Range
from netplan.units import DAY_S, PETA, YEAR_S


class TrainingRun(Struct, frozen=True):
    """One training run on one fabric, and what the network costs in that time.

    ``price_per_pflops`` is the network's price per useful 10^15 FLOP/s; the rest is None for a
    model without tokens, whose runs are as long as one likes.
    """

    fabric: str
    iterations: int | None
    days: float | None
    cost: Range | None
    price_per_pflops: Range


def training_runs(
    priced: CostAnswer, compared: Comparison, iterations: int | None
) -> tuple[TrainingRun, ...]:
    """A run of so many iterations on every fabric that has a price and an iteration time.

    It costs its share of the network's yearly cost; interruptions are not counted. A model without
    tokens has runs of no known length: None.
    """
    runs = []
    for bill in priced.bills:
        row = next(fabric_row for fabric_row in compared.rows if fabric_row.name == bill.name)
        if not (bill.cost and row.effective_flops_per_s):
            continue
        per_work = (PETA / row.effective_flops_per_s) * bill.capital
        if iterations is None:
            runs.append(TrainingRun(bill.name, None, None, None, per_work))
            continue
        run_s = iterations * row.time_s
        share = (run_s / YEAR_S) * bill.life.per_year
        runs.append(TrainingRun(bill.name, iterations, run_s / DAY_S, share, per_work))
    return tuple(runs)
