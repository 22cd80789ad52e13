"""What a faults question answers: failures, recoveries and years of them, fabric by fabric."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from netplan.faults.forecast import ReliabilityForecast
from netplan.faults.impact import Impact, Recovery, Single
from netplan.faults.rerouting import TrainingLoads
from netplan.reports.text import Cell
from netplan.version import __version__

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class ScenarioImpact:
    """The failures that were asked for, together.

    Parameters
    ----------
    text
        As asked.
    draws
        Draws of the random parts [1]; one if nothing is random.
    impact
        What they do: of several draws the one with the longest iteration.
    mean_iteration_time_s
        Mean over the draws that train on [s].
    stopped
        Draws after which nothing can train [1].
    cut_off
        Names of the first GPUs that failed or are cut off.
    loads
        Traffic of one iteration over what is left; None without training.
    """

    text: tuple[str, ...]
    draws: int
    impact: Impact
    mean_iteration_time_s: float | None
    stopped: int
    cut_off: tuple[str, ...] = ()
    loads: TrainingLoads | None = None


@dataclass(frozen=True, slots=True)
class FabricFaults:
    """One fabric under failures.

    Parameters
    ----------
    name, title
        From the spec.
    switches, links, transceivers
        Points of failure of the network [1].
    iteration_time_s
        Without failures [s].
    scenario
        The failures that were asked for; None if none were, a text if this fabric has no such
        parts.
    singles
        One part of each kind failed.
    recoveries
        Ways to go on after a failed GPU.
    gpus_cut_off_per_year
        GPUs that lose their network port to a failed link or leaf switch in a year [1].
    forecast
        Years of failures; ``outlook`` in the JSON.
    notes
        Assumptions and what was left out.
    """

    name: str
    title: str
    switches: int
    links: int
    transceivers: int
    iteration_time_s: float | None
    scenario: ScenarioImpact | str | None
    singles: tuple[Single, ...]
    recoveries: tuple[Recovery, ...]
    gpus_cut_off_per_year: float
    forecast: ReliabilityForecast
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The fabric as the command line prints it in JSON."""
        data = {"fabric" if key == "name" else key: value for key, value in asdict(self).items()}
        return {"outlook" if key == "forecast" else key: value for key, value in data.items()}


@dataclass(frozen=True, slots=True)
class FaultsAnswer:
    """The answer of :func:`netplan.faults`."""

    inputs: dict[str, Any]
    currency: str
    fabrics: tuple[FabricFaults, ...]
    refused: tuple[tuple[str, str], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Exactly the JSON of ``netplan faults --format json``."""
        return {
            "netplan_version": __version__,
            "inputs": self.inputs,
            "currency": self.currency,
            "fabrics": [fabric.to_dict() for fabric in self.fabrics],
            "refused": [{"fabric": name, "reason": reason} for name, reason in self.refused],
        }

    def to_rows(self) -> list[dict[str, Cell]]:
        """One flat row a fabric and failure; the scenario first, where there is one."""
        rows: list[dict[str, Cell]] = []
        for fabric in self.fabrics:
            if isinstance(fabric.scenario, ScenarioImpact):
                text = " ".join(fabric.scenario.text)
                rows.append(_flat(fabric.name, "scenario", text, None, fabric.scenario.impact))
            rows += [
                _flat(fabric.name, one.kind, one.part, one.parts, one.impact)
                for one in fabric.singles
            ]
        return rows

    def to_frame(self) -> "pd.DataFrame":
        """One row a fabric and failure, one column a number."""
        import pandas as pd

        return pd.DataFrame(self.to_rows()).set_index(["fabric", "kind"])

    def _repr_html_(self) -> str:
        return str(self.to_frame().to_html(escape=True))


def _flat(fabric: str, kind: str, part: str, parts: int | None, impact: Impact) -> dict[str, Cell]:
    row: dict[str, Cell] = {"fabric": fabric, "kind": kind, "part": part, "parts": parts}
    data = impact.to_dict()
    return row | {key: data[key] for key in data if key not in ("plan", "note")}
