"""Requests as they come: drawn from a seed, or read from a trace.

Gaps between requests are drawn from a gamma distribution of mean 1/X and shape k, as vLLM's own
benchmark does (``--request-rate``, ``--burstiness``): 1 is a Poisson process, less comes in bursts,
more comes evenly. A trace is a CSV file with the columns ``arrival_s``, ``prompt`` and ``output``.
"""

from math import inf, isfinite
from pathlib import Path

import numpy as np
from msgspec import Struct

from netplan.arrays import Floats, Ints
from netplan.errors import InputError, piece
from netplan.files import csv_rows, read_bounded, text_of

COLUMNS = ("arrival_s", "prompt", "output")
MAX_TRACE_BYTES = 1 << 26
"""Of a trace [B]."""
MAX_REQUESTS = 1_000_000
"""Of a trace, or drawn [1]."""
MAX_TOKENS = 10_000_000
"""Of one prompt, or one answer: beyond every context there is [1]."""
LATEST_S = 1e9
"""Arrivals beyond this, 30 years, are mistakes, and times would lose their digits [s]."""


class RequestStream(Struct, frozen=True, eq=False):
    """Requests in the order of their arrivals, shape (requests,).

    Parameters
    ----------
    arrival_s
        When each comes [s].
    prompt, output
        Its tokens, and those of its answer [1].
    """

    arrival_s: Floats
    prompt: Ints
    output: Ints

    @classmethod
    def of(cls, arrival_s: Floats, *, prompt: int, output: int) -> "RequestStream":
        """Requests that are alike."""
        alike = np.ones(len(arrival_s), dtype=np.int64)
        return cls(np.asarray(arrival_s, dtype=np.float64), prompt * alike, output * alike)

    @property
    def rate(self) -> float:
        """Requests a second of a trace: gaps over the time between first and last [1/s]."""
        span_s = float(self.arrival_s[-1] - self.arrival_s[0])
        return (len(self.arrival_s) - 1) / span_s if span_s > 0 else inf

    def first(self, count: int | None) -> "RequestStream":
        """The first so many of them, all if None."""
        return RequestStream(self.arrival_s[:count], self.prompt[:count], self.output[:count])

    def dealt(self, index: int, ways: int) -> "RequestStream":
        """Those of one server, requests being dealt to so many of them in turn.

        Examples
        --------
        >>> RequestStream.of(np.arange(5.0), prompt=1, output=1).dealt(1, 2).arrival_s
        array([1., 3.])
        """
        rows = slice(index, None, ways)
        return RequestStream(self.arrival_s[rows], self.prompt[rows], self.output[rows])


def arrivals(rate: float, requests: int, seed: int, burstiness: float = 1.0) -> Floats:
    """Times at which requests come, from gaps of a gamma distribution.

    Parameters
    ----------
    rate
        Requests a second in the mean, X [1/s].
    requests
        How many [1].
    seed
        Of `numpy.random.default_rng`.
    burstiness
        Shape of the distribution, k; 1 is a Poisson process [1].

    Returns
    -------
    ndarray of float, shape (requests,)
        In order [s].

    Raises
    ------
    InputError
        If a number is none of these.

    Examples
    --------
    >>> arrivals(2.0, 3, seed=1).round(4)
    array([0.5365, 0.6907, 3.3785])
    """
    for name, value in (("--rate", rate), ("--burstiness", burstiness)):
        if not (isfinite(value) and value > 0):
            raise InputError(f"{name} is {value:g}: give a number above 0")
    if not 1 <= requests <= MAX_REQUESTS:
        raise InputError(f"--requests is {requests:,}: give 1 to {MAX_REQUESTS:,}")
    generator = np.random.default_rng(seed)
    return np.asarray(np.cumsum(generator.gamma(burstiness, 1.0 / (rate * burstiness), requests)))


def read_requests(path: Path) -> RequestStream:
    """Read a trace of requests.

    Parameters
    ----------
    path
        A CSV file of at most 64 MiB and a million requests, in the order of their arrivals.

    Returns
    -------
    RequestStream
        Its requests.

    Raises
    ------
    InputError
        If it is no such table: file, line, column, what is allowed.
    """
    text = text_of(path, read_bounded(path, MAX_TRACE_BYTES, "give a part of the trace"))
    reader = csv_rows(path, text.split("\n"), InputError)
    times: list[float] = []
    tokens: list[tuple[int, int]] = []
    header = [cell.strip() for cell in next(reader, (1, []))[1]]
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        raise InputError(
            f"{path}:1: no column {missing[0]!r}: a trace of requests has {', '.join(COLUMNS)}"
        )
    places = [header.index(name) for name in COLUMNS]
    for line, cells in reader:
        if not any(cells):
            continue
        place = f"{path}:{line}"
        if len(times) == MAX_REQUESTS:
            raise InputError(f"{place}: more than {MAX_REQUESTS:,} requests: give a part")
        if len(cells) <= max(places):
            raise InputError(f"{place}: {len(cells)} cells: give {', '.join(COLUMNS)}")
        when, prompt, output = (cells[index].strip() for index in places)
        times.append(_arrival(place, when, times[-1] if times else 0.0))
        tokens.append((_tokens(place, "prompt", prompt), _tokens(place, "output", output)))
    if not times:
        raise InputError(f"{path}: no request in it: give a line for each")
    prompts, outputs = np.array(tokens, dtype=np.int64).T
    return RequestStream(np.array(times), prompts, outputs)


def _arrival(place: str, text: str, before_s: float) -> float:
    """Time of an arrival, not before the one of the line before."""
    try:
        time_s = float(text)
    except ValueError:
        time_s = -1.0
    if not 0 <= time_s <= LATEST_S:
        raise InputError(
            f"{place}: arrival_s is {piece(text)}: give seconds from the begin of the trace, 0 to"
            f" {LATEST_S:g}"
        )
    if time_s < before_s:
        raise InputError(
            f"{place}: arrival_s {time_s:g} is before {before_s:g} of the line before: sort the"
            " trace by arrival_s"
        )
    return time_s


def _tokens(place: str, name: str, text: str) -> int:
    """Tokens of a prompt or an answer."""
    short = len(text) <= len(str(MAX_TOKENS))
    count = int(text) if short and text.isascii() and text.isdecimal() else 0
    if not 1 <= count <= MAX_TOKENS:
        raise InputError(
            f"{place}: {name} is {piece(text)}: give tokens, a whole number from 1 to"
            f" {MAX_TOKENS:,}"
        )
    return count
