"""Error bars of iteration model ``calibrated``: how far a time may be off, and whose error it is.

A bar is the 5th to the 95th percentile of measured over predicted times. It is ``calibrated`` where
runs of this accelerator under this stack were scored (``training.scored`` of its file), the model
is dense, and the plan lies among those that were tried: that of the scored runs themselves.
Anything else is ``transferred``: the bar of runs whose whole source was left out of the fit, which
leans towards too fast. Factors and domain stand in the iteration model's file
(`netplan.performance.calibrated_run.ErrorPart`).

Two plans of one model on one accelerator under one stack share most of their error: products that
run slower than the file says lengthen both. Part by part of their breakdowns the smaller time is
shared, and what is left of either is its own,

    own(A) = sum over parts max(A - B, 0),    own(B) = sum over parts max(B - A, 0),

so that own(B) - own(A) is how much longer B takes. Two plans are *equal* if

* their times differ by less than those of one plan that is measured twice, or
* their bars overlap by more than half, and so do those of their own times, which are wider, since
  a single part is known less well than the sum.

With factors l and h, bars overlap by more than half of the narrower if the longer time is below
(l + h)/(2 l) times the shorter. A plan that is slower in one part and faster in none has nothing to
set against it: it is slower, whatever the error.

Under software of a date bars are those of the model's class, and such times are equal within
``repeat`` where class and basis are, else where their bars overlap by more than half
(`netplan.performance.dated.bars`).

Of the 181 scored runs without a date 127 pairs have model, cluster and batch in common. The rule
calls 33 of them equal, of which 19 come in the order of their predicted times; of the 94 others 89
do. Had own times the bars of whole ones, 98 of 112 would.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct

from netplan.performance.calibrated_run import CalibratedRun, Factors
from netplan.traffic.placement import Placement
from netplan.units import si, si_span
from netplan.workloads.models import Model

Basis = Literal["calibrated", "transferred"]


class ErrorBar(Struct, frozen=True):
    """How far a predicted time may be off.

    Parameters
    ----------
    whole, unshared
        Multiples of the time between which the true one lies, nine times of ten, and those of what
        it does not share with another plan's.
    repeat
        Difference of times of one plan that is measured twice [1].
    basis
        Whether runs like this one were scored.
    reasons
        Why none were, a clause each.
    chosen
        How many times the published time plans took that a search chose, in the median [1].
    kind
        Class of the model and chip, under software of a date; empty without one.
    """

    whole: Factors
    unshared: Factors
    repeat: float
    basis: Basis = "calibrated"
    reasons: tuple[str, ...] = ()
    chosen: float = 1.0
    kind: str = ""

    def same_as(self, other: "ErrorBar", mine_s: float, others_s: float) -> bool:
        """Whether two times under software of a date cannot be told apart, each with its bar.

        Parameters
        ----------
        other
            The bar of the other time.
        mine_s, others_s
            The times [s].

        Returns
        -------
        bool
            Whether both are within 1 %, or bars of another basis overlap by more than half.

        Examples
        --------
        >>> own = Factors(low=1, high=1)
        >>> bar = ErrorBar(Factors(low=0.8, high=1.22), own, 0.01, kind="moe")
        >>> wide = ErrorBar(Factors(low=0.69, high=1.45), own, 0.01, "transferred", kind="moe")
        >>> bar.same_as(bar, 10, 10.2), bar.same_as(wide, 10, 11.5), bar.same_as(wide, 10, 20)
        (False, True, False)
        """
        if (self.kind, self.basis) == (other.kind, other.basis):
            return max(mine_s, others_s) < min(mine_s, others_s) * (1 + self.repeat)
        mine, others = self.whole.of(mine_s), other.whole.of(others_s)
        shared = min(mine[1], others[1]) - max(mine[0], others[0])
        return shared > min(mine[1] - mine[0], others[1] - others[0]) / 2

    def equal(self, first: Mapping[str, float], second: Mapping[str, float]) -> bool:
        """Whether the times of two breakdowns cannot be told apart.

        Parameters
        ----------
        first, second
            Parts of both iteration times by name [s].

        Returns
        -------
        bool
            Whether the rule of this module calls them equal.

        Examples
        --------
        Both compute 90 s. Ten seconds of tensor collectives against 15 s of bubble are equal,
        against 21 s they are not; nor are 2 s more of the same, but half a second more is.

        >>> bar = ErrorBar(Factors(low=0.93, high=1.08), Factors(low=0.5, high=1.5), 0.01)
        >>> tensor = {"compute": 90, "tensor": 10}
        >>> [bar.equal(tensor, {"compute": 90, "bubble": more}) for more in (15, 21)]
        [True, False]
        >>> [bar.equal(tensor, {"compute": 90, "tensor": more}) for more in (12, 10.5)]
        [False, True]
        """
        short, long = sorted((sum(first.values()), sum(second.values())))
        if long < short * (1 + self.repeat):
            return True
        less, more = sorted(own_times(first, second))
        return long < short * self.whole.half_overlap and more < less * self.unshared.half_overlap


def own_times(first: Mapping[str, float], second: Mapping[str, float]) -> tuple[float, float]:
    """What two breakdowns do not share: time of the first, and of the second, alone [s].

    Parameters
    ----------
    first, second
        Parts of both iteration times by name [s].

    Returns
    -------
    tuple[float, float]
        Time of the first alone, and of the second alone [s].

    Examples
    --------
    >>> own_times({"compute": 9, "tensor": 1}, {"compute": 8.5, "bubble": 2})
    (1.5, 2.0)
    """
    parts = dict.fromkeys((*first, *second))
    more = [first.get(part, 0.0) - second.get(part, 0.0) for part in parts]
    return sum((gap for gap in more if gap > 0), 0.0), -sum((gap for gap in more if gap < 0), 0.0)


def error_bar(
    run: CalibratedRun, model: Model, placement: Placement, microbatch: float
) -> ErrorBar:
    """The error bar of a plan's iteration time.

    Parameters
    ----------
    run
        Accelerator, stack and precision.
    model, placement, microbatch
        What is trained, by which degrees, in microbatches of so many sequences.

    Returns
    -------
    ErrorBar
        Ends as multiples of the time [1], and whose error they are.
    """
    errors = run.part.errors
    reasons = (*run.untried, *_untried(run, model, placement, microbatch))
    bars = errors.calibrated, errors.transferred
    whole, reasons = run.bar_of("dense", *bars, reasons)
    basis: Basis = "transferred" if reasons else "calibrated"
    return ErrorBar(whole, errors.own, errors.repeat, basis, reasons, errors.chosen)


def _untried(
    run: CalibratedRun, model: Model, placement: Placement, microbatch: float
) -> Iterator[str]:
    """What of model and plan lies outside of the scored runs."""
    tried, degrees = run.part.errors.domain, placement.totals
    length = model.sequence_length
    sequences = f"sequences of {length:,} tokens"
    yield from beyond_tried(sequences, length, tried.least_sequence, tried.most_sequence)
    tokens = microbatch * length / degrees.context
    if tokens < tried.least_tokens:
        yield f"microbatches of {int(tokens):,} tokens a GPU, tried were {tried.least_tokens:,} on"
    if placement.gpus > tried.most_gpus:
        yield f"{placement.gpus:,} GPUs, tried were up to {tried.most_gpus:,}"
    if placement.levels[0].tensor < degrees.tensor:
        yield f"tensor degree {degrees.tensor} over several HB domains, tried were those inside one"
    if degrees.context > tried.most_context:
        yield f"context degree {degrees.context}, tried were up to {tried.most_context}"


def beyond_tried(what: str, number: int, least: int, most: int) -> Iterator[str]:
    """That a number is below or above all that scored runs had, if it is.

    Parameters
    ----------
    what
        The number in words, with its unit.
    number
        It [1].
    least, most
        What scored runs had [1].

    Yields
    ------
    str
        One sentence at most.

    Examples
    --------
    >>> list(beyond_tried("8 experts", 8, 16, 128))
    ['8 experts, tried were 16 to 128']
    """
    if not least <= number <= most:
        yield f"{what}, tried were {least:,} to {most:,}"


def bar_dict(seconds: float | None, bar: ErrorBar | None) -> dict[str, Any]:
    """The bar of an iteration time as JSON; nothing of a time without one [s].

    Parameters
    ----------
    seconds
        Iteration time, None where there is none [s].
    bar
        Its error bar, None where there is none.

    Returns
    -------
    dict[str, Any]
        Low and high end [s], basis and why it is no better; None each where there is no bar.
    """
    low, high = bar.whole.of(seconds) if bar and seconds is not None else (None, None)
    return {
        "iteration_time_low_s": low,
        "iteration_time_high_s": high,
        "error_basis": bar.basis if bar and seconds is not None else None,
        "error_reasons": list(bar.reasons) if bar and seconds is not None else None,
    }


def time_text(seconds: float, bar: ErrorBar | None, digits: int = 4) -> str:
    """A time for people: with its bar, or with so many digits where it has none.

    Parameters
    ----------
    seconds
        The time [s].
    bar
        Its error bar, None where there is none.
    digits
        Significant digits of a time without a bar [1].

    Returns
    -------
    str
        The time, and its low and high end in brackets.

    Examples
    --------
    >>> bar = ErrorBar(Factors(low=0.93, high=1.08), Factors(low=0.5, high=1.5), 0.01)
    >>> time_text(10.4, bar), time_text(10.4321, None)
    ('10.4 s (9.7-11.2)', '10.43 s')
    """
    return si_span(seconds, bar.whole.of(seconds), "s") if bar else si(seconds, "s", digits)


def bar_note(bar: ErrorBar | None) -> Iterator[str]:
    """What the bars of an answer mean, in a sentence; why they are wide.

    Parameters
    ----------
    bar
        The error bar of the answer, None where there is none.

    Yields
    ------
    str
        One sentence where there is a bar.
    """
    if bar is None:
        return
    ends = f"{bar.whole.low:.3g} to {bar.whole.high:.3g} times the time"
    if bar.basis == "calibrated" and bar.kind:
        why = f" ({'; '.join(bar.reasons)})" if bar.reasons else ""
        yield f"Error bars, {ends}: nine of ten runs that no fit had seen lie in them{why}."
    elif bar.basis == "calibrated":
        yield (
            f"Error bars, {ends}: nine of ten published runs lie in them; plans that a search chose"
            f" took {bar.chosen:g} times as long."
        )
    else:
        yield f"Error bars are wide, {ends}: {'; '.join(bar.reasons)}."
