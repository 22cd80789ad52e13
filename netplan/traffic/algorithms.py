"""Time of one collective in one level, by the usual latency-bandwidth model.

======  =======================================================================================
n       GPUs of the level; n = 1 costs nothing
D       full message [B]: the gathered result of an all_gather, else the input of one GPU;
        in an all_to_all a pair exchanges D/n
B       bandwidth of one link, one direction [B/s]
tau     latency of one step [s]: h*L + d, that is h links of latency L and the delay d in the GPU
M       memory bandwidth of one GPU [B/s]; each reduced byte is accessed three times
======  =======================================================================================

==================  ==============================  =========================================
algorithm           reduce_scatter, all_gather      all_to_all
==================  ==============================  =========================================
ring                (n-1) * (D/(nB) + tau)          n(n-1)/2 * (D/(nB) + tau)
bidirectional_ring  (n-1) * (D/(2nB) + tau)         floor(n^2/4) * D/(2nB) + floor(n/2)*L + d
halving_doubling    (n-1)/n * D/B + log2(n) * tau
direct, mesh        D/(nB) + tau                    as on the left
direct, switch      (n-1)/n * D/B + tau             as on the left: n-1 messages share a port
==================  ==============================  =========================================

An all_reduce is a reduce_scatter and an all_gather of the same D. Two members share one link, so
among two a bidirectional ring is a plain one. A ring laid on a switch or a mesh takes their tau.

Sources: Thakur, Rabenseifner and Gropp 2005 (ring, halving-doubling); ASTRA-sim 2.0 (2023), whose
analytical backends give these times. Left out: contention, reduction inside switches.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netplan.arrays import Amount, Counts
from netplan.errors import InputError
from netplan.levels import LINKS_PER_STEP, Level, LevelKind

Collective = Literal["all_gather", "reduce_scatter", "all_reduce", "all_to_all"]
Algorithm = Literal["ring", "bidirectional_ring", "halving_doubling", "direct", "unphysical_direct"]
Forwarding = Literal["cut_through", "store_and_forward"]
ReductionCharge = Literal["ring", "per_algorithm"]

DEFAULT_ALGORITHM: dict[LevelKind, Algorithm] = {
    "switch": "direct",
    "ring": "bidirectional_ring",
    "mesh": "direct",
}

KINDS_OF_ALGORITHM: dict[Algorithm, tuple[LevelKind, ...]] = {
    "ring": ("ring", "switch", "mesh"),
    "bidirectional_ring": ("ring", "mesh"),  # a switch port is one link: nothing to split over
    "halving_doubling": ("switch",),
    "direct": ("switch", "mesh"),
    "unphysical_direct": ("switch", "mesh"),
}


def check_choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    """Raise InputError if `value` is not one of the `allowed` names.

    >>> check_choice("forwarding", "cut_through", ("cut_through", "store_and_forward"))
    """
    if value not in allowed:
        raise InputError(f"unknown {name} {value!r}: use one of {', '.join(allowed)}")


def check_number(
    name: str, value: ArrayLike, *, minimum: float | None = 0.0, whole: bool = False
) -> None:
    """Raise InputError if an element is not finite, not `whole` or below `minimum` (None: not > 0).

    >>> check_number("chunks", 4, minimum=1, whole=True)
    """
    numbers = np.asarray(value, dtype=np.float64)
    good = np.isfinite(numbers) & ((numbers > 0) if minimum is None else (numbers >= minimum))
    if whole:
        good &= numbers == np.floor(numbers)
    if not np.all(good):
        kind = "a whole number" if whole else "a finite number"
        limit = "above 0" if minimum is None else f"of at least {minimum:g}"
        raise InputError(f"{name}: got {numbers[~good].flat[0]:g}, use {kind} {limit}")


def plain(values: ArrayLike) -> Amount:
    """Return an array of no dimension as a float, any other as it is.

    >>> plain(np.float64(0.5))
    0.5
    """
    array = np.asarray(values, dtype=np.float64)
    return float(array) if array.ndim == 0 else array


@dataclass(frozen=True, slots=True, eq=False)
class LevelArrays:
    """One level of many plans at once: the fields of `Level`, as numbers or arrays that broadcast.

    Examples
    --------
    >>> LevelArrays("switch", np.array([1, 2, 8]), 450e9).kind
    'switch'
    """

    kind: LevelKind
    size: Counts
    link_bytes_per_s: Amount
    link_latency_s: Amount = 0.0
    step_latency_s: Amount = 0.0

    def __post_init__(self) -> None:
        """Raise InputError for what no hardware can be."""
        check_choice("level kind", self.kind, get_args(LevelKind))
        check_number("size of a level", self.size, minimum=1, whole=True)
        check_number("link_bytes_per_s", self.link_bytes_per_s, minimum=None)
        check_number("link_latency_s", self.link_latency_s)
        check_number("step_latency_s", self.step_latency_s)


@dataclass(frozen=True, slots=True, eq=False)
class Method:
    """How a collective is carried out in a level.

    Parameters
    ----------
    algorithm
        None takes the default of the level's kind. ``unphysical_direct`` lets all messages leave a
        switch port at the same time, D/(nB) + tau: only to compare with simulators that do so.
    forwarding
        ``store_and_forward`` switches receive a whole message before they send it on.
    memory_bytes_per_s
        Memory bandwidth of one GPU, for the reductions [B/s]; None reduces for free.
    reduction_charge
        ``ring`` charges every GPU its (n-1)/n * D reduced bytes; ``per_algorithm`` charges direct
        and halving-doubling less, as ASTRA-sim does: only to compare with it.

    Examples
    --------
    >>> Method("halving_doubling").forwarding
    'cut_through'
    """

    algorithm: Algorithm | None = None
    forwarding: Forwarding = "cut_through"
    memory_bytes_per_s: Amount | None = None
    reduction_charge: ReductionCharge = "ring"

    def __post_init__(self) -> None:
        """Raise InputError for unknown names and a memory bandwidth that is not above 0."""
        if self.algorithm is not None:
            check_choice("algorithm", self.algorithm, get_args(Algorithm))
        check_choice("forwarding", self.forwarding, get_args(Forwarding))
        check_choice("reduction_charge", self.reduction_charge, get_args(ReductionCharge))
        if self.memory_bytes_per_s is not None:
            check_number("memory_bytes_per_s", self.memory_bytes_per_s, minimum=None)


AnyLevel = Level | LevelArrays
AnyMethod = Algorithm | Method | None


class AffineTime(NamedTuple):
    """Time of a collective, ``s_per_byte * data_bytes + fixed_s``: numbers or arrays."""

    s_per_byte: Amount
    fixed_s: Amount


class _Charge(NamedTuple):
    """What an algorithm takes: (wire + relay)*D/B + hops*h*L + delays*d.

    `relay` is what a switch sends again while nothing else moves, if it stores whole messages.
    """

    wire: NDArray[np.float64]
    relay: NDArray[np.float64]
    hops: NDArray[np.float64]
    delays: NDArray[np.float64]


def _ring(n: NDArray[np.float64], collective: Collective) -> _Charge:
    """One direction; a step moves D/n. In an all_to_all each message travels forward."""
    steps = n * (n - 1) / 2 if collective == "all_to_all" else n - 1
    return _Charge(steps / n, steps / n, steps, steps)


def _bidirectional_ring(n: NDArray[np.float64], collective: Collective) -> _Charge:
    """Half of each message each way; an all_to_all goes the shortest way and splits ties."""
    links = np.clip(n - 1, 1, 2)
    if collective == "all_to_all":
        wire = np.floor(n * n / 4) / (n * links)
        return _Charge(wire, wire, np.floor(n / 2), np.minimum(n - 1, 1))
    return _Charge((n - 1) / (n * links), (n - 1) / n, n - 1, n - 1)


def _halving_doubling(n: NDArray[np.float64], collective: Collective) -> _Charge:
    """Partners at distance n/2, n/4, ... exchange D/2, D/4, ... bytes."""
    if collective == "all_to_all":
        raise InputError("halving_doubling has no all_to_all: use 'ring' or 'direct'")
    steps = np.frexp(n)[1] - 1.0
    if np.any(np.exp2(steps) != n):
        raise InputError("halving_doubling needs 2, 4, 8, ... GPUs: use 'ring' or 'direct'")
    return _Charge((n - 1) / n, (n - 1) / n, steps, steps)


def _direct(n: NDArray[np.float64], *, one_port: bool) -> _Charge:
    """Each GPU sends D/n to each other one, through one port in turn or all at the same time."""
    busy = np.minimum(n - 1, 1)
    return _Charge((n - 1 if one_port else busy) / n, busy / n, busy, busy)


def _charge(level: AnyLevel, algorithm: Algorithm, collective: Collective) -> _Charge:
    """Return what the collective takes; for an all_reduce, what each of its two phases takes."""
    check_choice("collective", collective, get_args(Collective))
    if level.kind not in KINDS_OF_ALGORITHM[algorithm]:
        kinds = ", ".join(KINDS_OF_ALGORITHM[algorithm])
        raise InputError(f"{algorithm} does not run on a {level.kind}: use it on {kinds}, or None")
    n = np.asarray(level.size, dtype=np.float64)
    if algorithm == "ring":
        return _ring(n, collective)
    if algorithm == "bidirectional_ring":
        return _bidirectional_ring(n, collective)
    if algorithm == "halving_doubling":
        return _halving_doubling(n, collective)
    return _direct(n, one_port=algorithm == "direct" and level.kind == "switch")


def _accesses(level: AnyLevel, name: Algorithm, charge: ReductionCharge) -> Amount:
    """Memory accesses for the reductions of one reduce_scatter, in multiples of D."""
    n = np.asarray(level.size, dtype=np.float64)
    if charge == "per_algorithm" and name in ("direct", "unphysical_direct"):
        return 3 * np.minimum(n - 1, 1) / n
    if charge == "per_algorithm" and name == "halving_doubling":
        return 3 * np.maximum(1 / 2 - 1 / n, 0)
    return 3 * (n - 1) / n


def level_affine(
    collective: Collective, level: AnyLevel, *, algorithm: AnyMethod = None
) -> AffineTime:
    """Seconds per byte and fixed seconds of one collective in one level (table of this module).

    Parameters
    ----------
    collective
        ``all_gather``, ``reduce_scatter``, ``all_reduce`` or ``all_to_all``.
    level
        A `Level`, or `LevelArrays` for many plans at once.
    algorithm
        A name, a `Method`, or None for the default: ``direct`` on a switch or mesh,
        ``bidirectional_ring`` on a ring.

    Returns
    -------
    AffineTime
        Both of the shape that size, bandwidth and latencies broadcast to [s/B], [s].

    Raises
    ------
    InputError
        If a name is unknown or the algorithm does not fit the level or the collective.

    Examples
    --------
    >>> level_affine("all_gather", Level("switch", 8, 50e9, step_latency_s=2e-6))
    AffineTime(s_per_byte=1.75e-11, fixed_s=2e-06)
    """
    method = algorithm if isinstance(algorithm, Method) else Method(algorithm)
    name = method.algorithm or DEFAULT_ALGORITHM[level.kind]
    wire, relay, hops, delays = _charge(level, name, collective)
    if level.kind == "switch" and method.forwarding == "store_and_forward":
        wire = wire + relay
    phases = 2 if collective == "all_reduce" else 1
    links = hops * LINKS_PER_STEP[level.kind]
    s_per_byte = phases * wire / level.link_bytes_per_s
    fixed_s = phases * (links * level.link_latency_s + delays * level.step_latency_s)
    if collective in ("all_reduce", "reduce_scatter") and method.memory_bytes_per_s is not None:
        accesses = _accesses(level, name, method.reduction_charge)
        s_per_byte = s_per_byte + accesses / method.memory_bytes_per_s
    return AffineTime(plain(s_per_byte), plain(fixed_s))


def level_time_s(
    collective: Collective, level: AnyLevel, *, data_bytes: Amount, algorithm: AnyMethod = None
) -> Amount:
    """Time of one collective of `data_bytes` (the full message D) in one level [s].

    Parameters, shapes and errors as in `level_affine`; `data_bytes` may be an array too [B].

    Examples
    --------
    >>> ring = Level("ring", 8, 50 * 2**30, link_latency_s=501e-9)
    >>> level_time_s("all_reduce", ring, data_bytes=2**30, algorithm="ring")
    0.035007014
    """
    check_number("data_bytes", data_bytes)
    s_per_byte, fixed_s = level_affine(collective, level, algorithm=algorithm)
    return plain(s_per_byte * data_bytes + fixed_s)
