"""What an optimization answers: the front, how it was proven, and what was left out."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from netplan.faults.survival import SwitchLoss
from netplan.performance.pareto import knee
from netplan.performance.plan import PlanTime
from netplan.questions.comparison import FabricRow
from netplan.questions.constraints import Verdict
from netplan.questions.designs import Design, Objective
from netplan.questions.proof import Searches
from netplan.reports.text import Cell
from netplan.version import __version__

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class FrontRow:
    """One point of the front.

    Parameters
    ----------
    design
        The design; of equal ones the first.
    row
        Its row as in a comparison, timed.
    best
        Its best parallel plan.
    loss
        What the failure of the worst single switch takes.
    equal
        Designs that are exactly as good in both.
    """

    design: Design
    row: FabricRow
    best: PlanTime
    loss: SwitchLoss
    equal: tuple[Design, ...]

    def to_dict(self) -> dict[str, Any]:
        """One row of the JSON answer."""
        data = self.row.to_dict()
        del data["cost_reduction"]  # it is against a fabric that may not be in the space
        return {
            **self.design.key(),
            **{key: value for key, value in data.items() if key not in ("fabric", "hb_size")},
            "survives_switch": self.loss.survives,
            "worst_switch_share": self.loss.share,
            "equal": [design.key() for design in self.equal],
        }


@dataclass(frozen=True, slots=True)
class Step:
    """From one point of the front to the next: what is paid for what speed.

    Parameters
    ----------
    faster
        Gain in speed, which is one over the iteration time [1].
    price
        What it costs more [currency or W].
    """

    faster: float
    price: float

    @property
    def per_percent(self) -> float:
        """Price of one percent of speed [currency or W]."""
        return self.price / (100 * self.faster)


@dataclass(frozen=True, slots=True)
class Tally:
    """How many designs there are, and what became of them.

    Parameters
    ----------
    size, built
        Designs in the space, and those that can be built [1].
    verdicts
        How many of the built ones meet each demand.
    feasible
        Those that meet all [1].
    untimed
        Those of the feasible ones without a time: no levels, or no plan [1].
    searches
        Plan searches of the proof.
    """

    size: int
    built: int
    verdicts: tuple[Verdict, ...]
    feasible: int
    untimed: int
    searches: Searches

    def to_dict(self) -> dict[str, Any]:
        """The space in the JSON answer."""
        searches = self.searches
        return {
            "designs": self.size,
            "built": self.built,
            "cannot_be_built": self.size - self.built,
            "constraints": [verdict.to_dict() for verdict in self.verdicts],
            "feasible": self.feasible,
            "without_time": self.untimed,
            "searches": {
                "different_levels": searches.levels,
                "run": searches.run,
                "of_bounds": searches.bounds,
                "spared": searches.spared,
            },
            "plans_evaluated": searches.plans,
        }


@dataclass(frozen=True, slots=True)
class Optimization:
    """The answer of :func:`optimize`.

    Parameters
    ----------
    inputs
        The question, with all defaults filled in.
    objective
        What is set against the iteration time.
    rows
        The front, cheapest first.
    tally
        The space and the proof.
    notes
        What was left out, and what to know.
    currency
        Of all prices.
    """

    inputs: dict[str, Any]
    objective: Objective
    rows: tuple[FrontRow, ...]
    tally: Tally
    notes: tuple[str, ...]
    currency: str

    @property
    def points(self) -> list[tuple[float, float]]:
        """Cost or power, and iteration time [s], of each row."""
        return [(row.design.value(self.objective), row.best.iteration_time_s) for row in self.rows]

    @property
    def knee(self) -> int | None:
        """Row where the front bends most; None below three rows."""
        return knee(self.points)

    def step(self, number: int) -> Step:
        """What the next row gives for what price."""
        (paid, slow), (price, fast) = self.points[number : number + 2]
        return Step(slow / fast - 1, price - paid)

    def to_dict(self) -> dict[str, Any]:
        """Exactly the JSON of ``netplan optimize --format json``."""
        bend = self.knee
        unit = "usd" if self.objective == "cost" else "w"
        steps = [self.step(number) for number in range(len(self.rows) - 1)]
        return {
            "netplan_version": __version__,
            "inputs": self.inputs,
            "front": [row.to_dict() for row in self.rows],
            "knee": bend,
            "steps": [
                {"faster": step.faster, f"price_{unit}": step.price}
                | {f"price_per_percent_{unit}": step.per_percent}
                for step in steps
            ],
            "space": self.tally.to_dict(),
            "notes": list(self.notes),
        }

    def to_rows(self) -> list[dict[str, Cell]]:
        """One flat row a point of the front, for CSV and Markdown."""
        from netplan.questions.optimize_table import optimization_rows

        return optimization_rows(self)

    def to_frame(self) -> "pd.DataFrame":
        """One row a point of the front, one column a number."""
        import pandas as pd

        return pd.json_normalize([row.to_dict() for row in self.rows])

    def _repr_html_(self) -> str:
        from netplan.questions.optimize_table import optimization_html

        return optimization_html(self)
