"""Error bars of serving by class of model: what measured points lie in that no fit has seen.

`traffic/serving-stacks/bars.csv` has a row a class: measured over predicted values, geometric mean
(``centre``), 5th and 95th percentile (``low``, ``high``) of points whose *model* was left out of
the fit, and the share of points that such bars hold. What is printed are these ends, ``widen``
times as far: so wide they hold nine of ten points of a model that no fit saw. Software from before
the stack's month widens them further, of models with experts. Chips without tables of kernels have
bars of few printed points, on tokens a second alone: no centre is fitted to them.
"""

from functools import cache
from typing import Literal

from msgspec import Struct, convert

from netplan.catalog import shipped_rows
from netplan.errors import InputError
from netplan.performance.serving.outcomes import ServingCase
from netplan.performance.stacks import ServingStack
from netplan.records import NonNegativeFloat, PositiveFloat, replace

OFFLINE_STACK = "tensorrt-llm"
"""Stack whose offline runs were printed."""

HALF_YEAR, OLDEST = 6, 18
"""Months of older software for which a bar grows once, and beyond which there is none [1]."""

OLDER = 1.1
"""By what both ends of a bar grow for each half-year, assumed [1]."""

KEPT = 0.97, 1.03
"""Centres between which a prediction is printed as it is [1]."""

Quantity = Literal["tpot", "offline", "tokens/s"]


class ServingBar(Struct, frozen=True, forbid_unknown_fields=True):
    """Measured over predicted values of a class [1].

    Parameters
    ----------
    quantity, kind
        Time per token, tokens a second of offline runs, or of any; and the class.
    chips, least_batch
        Chips that it is for, any with tables where empty, and requests of a server from which on.
    centre, low, high
        Geometric mean, 5th and 95th percentile.
    held, held_wide, points
        Share of points that bars made of all other models hold, as they are and widened, and how
        many there are.
    widen
        By what both ends grow before they are printed.
    models
        Models of the points.
    source, date
        Of the points.
    """

    quantity: Quantity
    kind: str
    centre: PositiveFloat
    low: PositiveFloat
    high: PositiveFloat
    points: int
    source: str
    date: str
    chips: tuple[str, ...] = ()
    least_batch: int = 1
    held: NonNegativeFloat | None = None
    held_wide: NonNegativeFloat | None = None
    widen: PositiveFloat = 1.0
    models: tuple[str, ...] = ()

    def wider(self, factor: float) -> "ServingBar":
        """The same with both ends so many times as far from 1."""
        held = self.held if factor == 1.0 else self.held_wide
        return replace(self, low=self.low / factor, high=self.high * factor, held=held)

    @property
    def words(self) -> str:
        """The class for people."""
        offline = " offline" if self.quantity == "offline" else ""
        return f"tokens/s{offline}, {self.kind}"

    @property
    def shown_centre(self) -> float:
        """What a prediction is multiplied by before it is printed [1]."""
        return 1.0 if KEPT[0] <= self.centre <= KEPT[1] else self.centre


@cache
def serving_bars() -> tuple[ServingBar, ...]:
    """All rows of the file.

    Examples
    --------
    >>> [bar.kind for bar in serving_bars() if bar.quantity == "tpot"]
    ['dense', 'experts']
    """
    bars = []
    for row in shipped_rows("traffic/serving-stacks/bars.csv"):
        lists = {name: tuple(row.pop(name).split()) for name in ("chips", "models")}
        fields = {name: text for name, text in row.items() if text}
        bars.append(convert({**fields, **lists}, ServingBar, strict=False))
    return tuple(bars)


def class_of(case: ServingCase, *, offline: bool = False) -> str:
    """Class of a served model, as bars have it.

    Parameters
    ----------
    case
        What is served.
    offline
        Whether gpt-oss is a class of its own.
    """
    model = case.served.model
    if model.experts is None:
        return "dense"
    if not offline:
        return "experts"
    return "gpt-oss" if model.name.startswith("gpt-oss") else "other experts"


def served_bar(case: ServingCase, quantity: Quantity, batch: float = 1.0) -> ServingBar | None:
    """The bar of a served model, as wide as its model and its software make it.

    Parameters
    ----------
    case
        What is served.
    quantity
        What it is a bar of.
    batch
        Requests that a server decodes together [1].

    Returns
    -------
    ServingBar or None
        None where the stack's own error is all that is known.
    """
    kernels = case.served.kernels
    if kernels.source != "measured":
        return None
    if quantity == "tokens/s":
        chip = kernels.accelerator.name
        bars = (bar for bar in serving_bars() if chip in bar.chips and batch >= bar.least_batch)
        return next(bars, None)
    if not kernels.tabled or (quantity == "offline" and case.stack.name != OFFLINE_STACK):
        return None
    kind = class_of(case, offline=quantity == "offline")
    (bar,) = (bar for bar in serving_bars() if (bar.quantity, bar.kind) == (quantity, kind))
    # Of its own models, too: only the wider bar holds nine of ten points that no fit saw.
    widen = bar.widen
    if kind != "dense":
        widen *= OLDER ** (case.older_months / HALF_YEAR)
    return bar.wider(widen)


def months_older(stack: ServingStack, month: str | None) -> int:
    """Months by which software is older than what a stack stands for [1].

    Raises
    ------
    InputError
        If it is too old to say anything of it, or newer than what was measured.

    Examples
    --------
    >>> from netplan.performance.stacks import SERVING_STACKS
    >>> months_older(SERVING_STACKS.load("vllm"), "2025-12")
    6
    """
    if month is None:
        return 0
    there, here = (12 * int(text[:4]) + int(text[5:7]) for text in (stack.date, month))
    older = there - here
    if not 0 <= older <= OLDEST:
        first = f"{(there - OLDEST - 1) // 12:04d}-{(there - OLDEST - 1) % 12 + 1:02d}"
        raise InputError(
            f"--software-date {month}: {stack.name} is of {stack.date[:7]}, and its error bars hold"
            f" for software from {first} to {stack.date[:7]}: give a month of these"
        )
    return older
