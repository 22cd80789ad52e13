"""Rows of a faults answer: fabrics under failures, and single failures of theirs."""

from typing import Any

from msgspec import Struct

from netplan.faults.damage.impact import Impact, Single
from netplan.faults.damage.rerouting import TrainingLoads
from netplan.faults.years.forecast import ReliabilityForecast
from netplan.faults.years.recoveries import IdlePrice, Policy, Recovery
from netplan.performance.error_bars import ErrorBar
from netplan.questions.answers.barred import with_bars
from netplan.questions.answers.faults_pages import Seen
from netplan.records import asdict, replace


class ScenarioImpact(Struct, frozen=True):
    """The failures that were asked for, together; of several draws the worst, and their means.

    ``stopped`` counts draws after which nothing can train; slowdown and iteration time are means
    over the others, the bandwidth of the worst pair over all.
    ``cut_off`` names the first GPUs that failed or are cut off; ``loads`` is the traffic of one
    iteration over what is left.
    """

    text: tuple[str, ...]
    draws: int
    impact: Impact
    mean_iteration_time_s: float | None
    mean_slowdown: float | None
    mean_worst_bandwidth_share: float | None
    stopped: int
    cut_off: tuple[str, ...] = ()
    loads: TrainingLoads | None = None


class BesideRecord(Struct, frozen=True):
    """Interruptions of a year by one cause, closed form, and those of a record of one cluster."""

    told_apart: str
    stops_per_year: float
    recorded_per_year: float


class FabricFaults(Struct, frozen=True):
    """One fabric under failures: without any, those asked for, one of each kind, years of them.

    The scenario is a text where the fabric has no such parts. ``gpus_cut_off_per_year`` counts GPUs
    that lose their network port to a failed link, leaf switch or group. ``network_cost_complete``
    says whether all that sets the fabric apart has a price and a power.
    """

    name: str
    title: str
    switches: int
    links: int
    transceivers: int
    iteration_time_s: float | None
    gpus_used: int | None
    plan: dict[str, Any] | None
    scenario: ScenarioImpact | str | None
    singles: tuple[Single[Impact], ...]
    recoveries: tuple[Recovery, ...]
    gpus_cut_off_per_year: float
    forecast: ReliabilityForecast
    idle_price: IdlePrice
    record: tuple[BesideRecord, ...]
    policies: tuple[Policy, ...]
    network_cost_complete: bool
    notes: tuple[str, ...]
    error: ErrorBar | None = None
    """How far iteration times may be off, if the iteration model says so."""

    seen: Seen | None = None

    def to_dict(self) -> dict[str, Any]:
        """The fabric as the command line prints it in JSON."""
        called = {"name": "fabric", "forecast": "outlook"}
        plain = with_bars(asdict(replace(self, seen=None)), self.error)
        left = self.seen.rows if self.seen else []
        found = {key: value for key, value in plain.items() if key not in ("error", "seen")}
        return {called.get(key, key): value for key, value in found.items()} | {"capacity": left}


class Failure(Struct, frozen=True):
    """One failure of one fabric, a row of the tables."""

    fabric: str
    kind: str
    part: str
    parts: int | None
    impact: Impact
