"""The nearest published run beside a search: its time there, here, and that of the best plan.

The run is timed as it was made (`netplan.calibration.published`), by iteration model ``calibrated``
and memory model ``stack`` of this package, whatever else the search asks for. A best plan is slower
than published if even the low end of its error bar is above the published time scaled by tokens a
GPU,

    seconds x (tokens / GPUs of the search) / (tokens / GPUs of the run).

That is said only where both have the same precision, sequences that are no longer than the run's
and no fewer than a quarter of its tokens a GPU: narrower products are faster, attention takes more
of a longer sequence, and few microbatches hide little.
"""

from collections.abc import Iterator
from functools import cache

from msgspec import Struct

from netplan.calibration.published import held_as_made, published_run, time_as_made
from netplan.calibration.runs import MeasuredRun
from netplan.performance.memory_verdict import Verdict, memory_verdict
from netplan.performance.plan import Plan, PlanTime
from netplan.performance.published_runs import MOST_TIMES, AskedRun, published_rows
from netplan.records import replace
from netplan.traffic.placement import divisors
from netplan.units import si
from netplan.workloads.program import SHARDED_WEIGHTS


class PublishedRun(Struct, frozen=True):
    """A published run, and what netplan says of it.

    Parameters
    ----------
    run
        The run as it was made.
    url
        Where it was published.
    here
        Its time by netplan.
    memory_bytes, verdict
        What its fullest GPU holds by memory model ``stack`` [B], and whether that fits.
    interleaved
        The run with as many interleaved stages as are fastest, where theirs were not published.
    checked
        Whether memory of such software and layers was ever compared with a run.
    """

    json_parts = (
        *("id=run.name", "run.seconds", "run.degrees.gpus", "here.plan", "run.precision", "url"),
        *("here_seconds=here.iteration_time_s", "here_memory_bytes=memory_bytes"),
        "here_verdict=verdict",
    )

    run: MeasuredRun
    url: str
    here: PlanTime
    memory_bytes: float
    verdict: Verdict
    interleaved: "PublishedRun | None" = None
    checked: bool = True

    def lines(self, best: PlanTime, asked: AskedRun) -> Iterator[str]:
        """What notes say of it beside the best plan; before it a warning where that is slower.

        Parameters
        ----------
        best
            The best plan of the search.
        asked
            What the search is about.

        Yields
        ------
        str
            A warning if the best plan is slower, and the run.
        """
        run, model = self.run, self.run.model
        scaled_s = self.seconds_for(asked)
        low_s = best.error.whole.of(best.iteration_time_s)[0] if best.error else 0.0
        if scaled_s is not None and low_s > scaled_s:
            yield (
                f"slower than published: the best plan takes {si(low_s, 's')} or more, the run"
                f" below {si(scaled_s, 's')} with as many tokens a GPU"
            )
        held = self.interleaved or self  # which holds most
        unsaid = run.zero_stage == SHARDED_WEIGHTS and self.here.plan.zero is None
        sharded = ", ZeRO 3" if unsaid else ""
        yield (
            f"published: {si(run.seconds, 's')} on {run.degrees.gpus:,} {run.accelerator.name},"
            f" {_words(self.here.plan)}{sharded}, batch {model.batch:,}, sequence"
            f" {model.sequence_length:,}, {run.precision} ({run.name}, {self.url.split()[0]});"
            f" that plan here: {self._here_text}{self._outside}{held.memory_words};"
            f" best plan here: {si(best.iteration_time_s, 's')}, {_words(best.plan)}"
        )

    @property
    def memory_words(self) -> str:
        """What it holds and whether that fits, where its memory was ever compared with a run."""
        if not self.checked:
            return ""
        return f", {si(self.memory_bytes, 'B', 2)}, {self.verdict}"

    @property
    def _outside(self) -> str:
        """That the run lies outside the bar of its time here; else nothing."""
        if self.here.error is None or self.interleaved is not None:
            return ""
        low_s, high_s = self.here.error.whole.of(self.here.iteration_time_s)
        return "" if low_s <= self.run.seconds <= high_s else " (the run is outside that bar)"

    @property
    def _here_text(self) -> str:
        """The time of the plan here; from the fastest on where its stages were not published."""
        if self.interleaved is None:
            return self.here.time_text
        fast = self.interleaved.here
        return (
            f"{si(fast.iteration_time_s, 's')} to {si(self.here.iteration_time_s, 's')} with"
            f" {fast.plan.interleave} to 1 stages a GPU (not published)"
        )

    def seconds_for(self, asked: AskedRun) -> float | None:
        """The published time scaled by tokens a GPU.

        Parameters
        ----------
        asked
            Model, GPUs, batch and precision that it is scaled to.

        Returns
        -------
        float or None
            Iteration time [s]; None where precision, longer sequences or far fewer tokens make it
            another run.
        """
        run, length = self.run.model, asked.model.sequence_length
        if asked.precision != self.run.precision or length > run.sequence_length:
            return None
        tokens = asked.batch * length / (run.batch * run.sequence_length)
        share = tokens * self.run.degrees.gpus / asked.gpus
        return self.run.seconds * share if share * MOST_TIMES >= 1 else None


def _words(plan: Plan) -> str:
    """Degrees of a plan, its interleaved stages, and what it computes again or shards."""
    stages = (f"{plan.interleave} stages a GPU",) if plan.interleave > 1 else ()
    return ", ".join((plan.degrees, *stages, *plan.kept_words))


@cache
def run_here(name: str) -> PublishedRun:
    """The published run of this id, timed as it was made.

    Parameters
    ----------
    name
        Id of its row.

    Returns
    -------
    PublishedRun
        The run.

    Examples
    --------
    >>> shown = run_here("MLPERF51-405b-H200-512")
    >>> shown.run.seconds, round(shown.here.iteration_time_s, 1), shown.here.plan.degrees
    (50.0153, 49.6, 'TP4 CP2 PP8 DP8')
    """
    rows = (*published_rows("dated-runs"), *published_rows())
    row = next(row for row in rows if row["id"] == name)
    run = published_run(row)
    made = _made(run, row["url"])
    if UNKNOWN_STAGES not in row["why"]:
        return made
    return replace(made, interleaved=_fastest_stages(run, row["url"]))


def _made(run: MeasuredRun, url: str) -> PublishedRun:
    """A run as it was made, with what it holds."""
    timed, usable_bytes = time_as_made(run), run.accelerator.usable_bytes
    if timed.memory is not None:
        kept = timed.memory
        checked = kept.basis != "unchecked"
        held = memory_verdict(kept.peak_bytes, usable_bytes, checked_kind=checked)
        return PublishedRun(run, url, timed, kept.peak_bytes, held, checked=checked)
    peak_bytes = float(held_as_made(run).total[0])
    return PublishedRun(run, url, timed, peak_bytes, memory_verdict(peak_bytes, usable_bytes))


UNKNOWN_STAGES = "interleave not published"
"""Why a row is context, where its number of interleaved stages is not known."""


def _fastest_stages(run: MeasuredRun, url: str) -> PublishedRun | None:
    """The run with the number of interleaved stages that is fastest; None if that is one."""
    stages, batches = run.degrees.pipeline, run.degrees.microbatches
    if stages == 1 or batches % stages:
        return None
    chunks = divisors(-(-run.model.layers // stages)).tolist()
    runs = (replace(run, degrees=run.degrees._replace(interleave=count)) for count in chunks)
    fastest = min((_made(made, url) for made in runs), key=lambda made: made.here.iteration_time_s)
    return fastest if fastest.here.plan.interleave > 1 else None
