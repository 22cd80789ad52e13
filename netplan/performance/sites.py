"""One training job over several sites: what distance costs a pipeline and an exchange of gradients.

A pipeline of 1F1B over sites has a delay at every border, both ways. Every stage runs its passes in
a fixed order, so the time of an iteration is the longest path through its passes:

======  ============================================================================================
S, m    stages, microbatches
w_i     window of stage i: min(m, S - i + a_i) forward passes first, then a backward and a forward
        pass by turns, then what is left of backward passes
a_i     microbatches that stage i holds more than 1F1B: ``ahead`` up to the last border, 0 behind it
f, b    a forward and a backward pass [s]; c = f + b
D       delay of a border, each way [s]
======  ============================================================================================

The fixed order lets every second pass wait at a border for the other side. One border costs a long
run a period of max(c, (2 c + 2 D) / (2 + a)) a microbatch: plain 1F1B loses D a microbatch, and a
border hides as soon as a >= 2 D / c.

Gradients are reduced within a site, exchanged with the like GPUs of other sites, and gathered. The
exchange follows the reduction in chunks, and the slower of the two hides all but a chunk of the
faster (two-level collectives, arXiv:1711.00705, Sec. 3, with a slow upper level).

It leaves out losses and retransmission on long links, and traffic of others there.

Sources: arXiv:1806.03377 (1F1B), arXiv:2104.04473 Sec. 2.2 (its windows), arXiv:2507.00217 (delays
at borders of data centres).
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from netplan.arrays import Amount, Floats, Ints
from netplan.errors import InputError
from netplan.inputs.choices import LONGEST_KM
from netplan.performance.fixed_orders import order_times_s, pass_order

FIBRE_S_PER_KM = 4.897e-6
"""Time of light over a km of fibre: group index 1.468 over 299,792.458 km/s [s/km].

The index is that of ITU-T G.652 fibre at 1,550 nm (Corning SMF-28 Ultra, product information
PI1424: 1.4682)."""

Exchange = Literal["ring", "direct"]
"""Which sites talk in an exchange: neighbours of a ring, or all with all at once."""


def one_way_s(km: Amount, equipment_s: float = 0.0) -> Amount:
    """Time of a bit from one site to another [s].

    Parameters
    ----------
    km
        Length of the fibre, not of the straight line [km].
    equipment_s
        What transponders, encryption and border switches add, one way [s].

    Returns
    -------
    float or ndarray
        4.897 us a km and the equipment [s].

    Raises
    ------
    InputError
        If a length is negative or longer than the equator, or a time of equipment is negative or
        infinite.

    Examples
    --------
    >>> round(2e3 * one_way_s(1000.0), 3)
    9.794
    """
    lengths = np.asarray(km)
    if not bool(((lengths >= 0) & (lengths <= LONGEST_KM)).all()):
        raise InputError(f"a fibre of {km} km joins no sites: give 0 to {LONGEST_KM:,.0f} km")
    if not 0 <= equipment_s < np.inf:
        raise InputError(f"equipment takes {equipment_s:g} s: give 0 or more")
    return km * FIBRE_S_PER_KM + equipment_s


def pipeline_s(  # noqa: PLR0913, PLR0917 - a pipeline, and where it is cut
    stages: int,
    microbatches: int,
    forward_s: float | Sequence[float],
    backward_s: float | Sequence[float],
    borders: Sequence[int],
    delay_s: float | Sequence[float],
    ahead: int = 0,
) -> float:
    """Time of an iteration of 1F1B whose stages lie in several sites, exactly [s].

    Parameters
    ----------
    stages, microbatches
        Of the pipeline [1].
    forward_s, backward_s
        A pass of a microbatch; of every stage where they differ [s].
    borders
        Stages, from 0, behind which the next site begins.
    delay_s
        From the end of a pass to the begin of its next over a border, each way: the way and the
        transfer; of every border where they differ [s].
    ahead
        Microbatches that stages up to the last border hold more than in plain 1F1B [1].

    Returns
    -------
    float
        When the last pass of any stage ends [s].

    Raises
    ------
    InputError
        If a number is too small, a border lies behind no stage or is given twice, or times are not
        one for all or one for each.

    Examples
    --------
    Two stages of 35 and 70 ms, four microbatches, 2.49 ms between them each way:

    >>> round(1e3 * pipeline_s(2, 4, 0.035, 0.07, [0], 2.4897e-3, 2), 4)
    529.9794

    Without borders it is (m + S - 1) (f + b):

    >>> round(pipeline_s(4, 8, 0.01, 0.02, [], 0.0), 9)
    0.33
    """
    between_s = np.zeros((max(0, stages - 1), 1))
    cuts = [int(border) for border in borders]
    bad = [border for border in cuts if not 0 <= border < stages - 1]
    if bad:
        raise InputError(
            f"no site begins behind stage {bad[0]} of {stages} stages (counted from 0): give 0 to"
            f" {stages - 2}"
        )
    if len(set(cuts)) < len(cuts):
        raise InputError(f"a border is given twice: got {cuts}")
    between_s[cuts, 0] = _for_all("delays", delay_s, len(cuts))
    times = pipeline_times_s(
        microbatches,
        _for_all("forward passes", forward_s, stages),
        _for_all("backward passes", backward_s, stages),
        between_s,
        ahead_of_stages(stages, cuts, ahead),
    )
    return float(times[0])


def ahead_of_stages(stages: int, borders: Sequence[int], ahead: int) -> Ints:
    """Microbatches that every stage holds more than in plain 1F1B.

    Parameters
    ----------
    stages
        Of the pipeline [1].
    borders
        Stages, from 0, behind which the next site begins.
    ahead
        Microbatches more, of stages up to the last border [1].

    Returns
    -------
    ndarray
        Of every stage, shape (stages,) [1].

    Examples
    --------
    >>> ahead_of_stages(4, [0, 1], 2)
    array([2, 2, 0, 0])
    """
    if stages < 1:
        raise InputError(f"a pipeline has at least 1 stage, got {stages}")
    if ahead < 0:
        raise InputError(f"stages hold {ahead} microbatches more: give 0 or more")
    last = max(borders, default=-1)
    return np.where(np.arange(stages) <= last, ahead, 0).astype(np.int64)


def pipeline_times_s(
    microbatches: int, forward_s: Floats, backward_s: Floats, between_s: Floats, ahead: Ints
) -> Floats:
    """Times of an iteration of 1F1B at several distances at once, exactly [s].

    Parameters
    ----------
    microbatches
        Of an iteration [1].
    forward_s, backward_s
        A pass of every stage, shape (stages,) [s].
    between_s
        Delay from every stage to the next and back, shape (stages - 1, cases) [s].
    ahead
        Microbatches that every stage holds more than in plain 1F1B, shape (stages,) [1].

    Returns
    -------
    ndarray
        When the last pass ends, shape (cases,) [s].

    Raises
    ------
    InputError
        If there are no microbatches, or a time is negative or no number.

    Examples
    --------
    >>> passes_s, km = np.full(16, 0.02), np.array([0.0, 718.07])
    >>> between_s = np.zeros((15, 2))
    >>> between_s[7] = one_way_s(km)
    >>> times = pipeline_times_s(128, passes_s, 2 * passes_s, between_s, np.zeros(16, np.int64))
    >>> round(float(times[1] / times[0] - 1), 6)
    0.05
    """
    if microbatches < 1:
        raise InputError(f"an iteration has at least 1 microbatch, got {microbatches}")
    for name, times_s in (("pass", forward_s), ("pass", backward_s), ("delay", between_s)):
        if not bool(((times_s >= 0) & (times_s < np.inf)).all()):
            raise InputError(f"a {name} takes 0 s or more, got {times_s.ravel().tolist()}")
    order = pass_order("1f1b", len(forward_s), microbatches, ahead=ahead)
    return order_times_s(order, forward_s, backward_s, between_s)


def _for_all(what: str, values: float | Sequence[float], count: int) -> Floats:
    """One value for each, shape (count,)."""
    array = np.asarray(values, np.float64)
    if array.ndim == 0:
        return np.full(count, float(array))
    if array.shape != (count,):
        raise InputError(f"{what} are {count:,}, got times of {array.size:,}: give one or all")
    return array


def exchange_s(  # noqa: PLR0913 - an amount, and the two levels that it goes through
    gradient_bytes: Amount,
    *,
    sites: int,
    egress_bytes_per_s: Amount,
    delay_s: Amount,
    inside_s: Amount = 0.0,
    exchange: Exchange = "direct",
    chunks: int = 1,
) -> Amount:
    """Time of an all-reduce over sites whose GPUs reduce within their site first [s].

    Every site sends 2 (S - 1)/S of the gradients. The exchange follows the reduction within the
    site chunk by chunk; a ring has 2 (S - 1) trips one after the other, a direct exchange 2.

    Parameters
    ----------
    gradient_bytes
        Gradients of the whole model [B].
    sites
        Sites that exchange them [1].
    egress_bytes_per_s
        What a site sends to all others, each direction [B/s].
    delay_s
        From site to site, one way [s].
    inside_s
        Reduce-scatter and all-gather within a site [s].
    exchange
        Ring or direct.
    chunks
        Pieces in which the exchange follows the reduction [1].

    Returns
    -------
    float or ndarray
        max(wire, inside) + min(wire, inside) / chunks + trips x delay [s].

    Raises
    ------
    InputError
        If there are no sites or chunks, or no rate between sites.

    Examples
    --------
    The gradients of 405 billion parameters in 2 B, from 8,192 GPUs of 50 GB/s at 512:1, 1,000 km:

    >>> at_sites = exchange_s(8.1e11, sites=2, egress_bytes_per_s=8e11, delay_s=4.897e-3,
    ...                       inside_s=0.5)
    >>> round(float(at_sites), 6)
    1.522294
    """
    if sites < 1 or chunks < 1:
        raise InputError(f"an exchange has 1 site and 1 chunk or more, got {sites} and {chunks}")
    if not bool((np.asarray(egress_bytes_per_s) > 0).all()):
        raise InputError(f"a site sends {egress_bytes_per_s} B/s to others: give more than 0")
    if sites == 1:
        return inside_s
    wire_s = 2 * (sites - 1) / sites * np.asarray(gradient_bytes) / egress_bytes_per_s
    trips = 2 * (sites - 1) if exchange == "ring" else 2
    overlapped_s = np.minimum(wire_s, inside_s) / chunks
    exchanged_s: Amount = np.maximum(wire_s, inside_s) + overlapped_s + trips * np.asarray(delay_s)
    return exchanged_s


def exposed_s(transfer_s: Amount, hidden_s: float, pieces: int) -> Amount:
    """What of a transfer shows where it runs beside a backward pass in equal pieces [s].

    Parameters
    ----------
    transfer_s
        The transfer alone [s].
    hidden_s
        Work beside which it may run [s].
    pieces
        Layers or microbatches that overlap: a piece can start when its own work has ended [1].

    Returns
    -------
    float or ndarray
        max(transfer / n, transfer - hidden (1 - 1/n)) [s].

    Raises
    ------
    InputError
        If there are no pieces.

    Examples
    --------
    >>> round(float(exposed_s(1.084794, 8.0, 16)), 6)
    0.0678
    """
    if pieces < 1:
        raise InputError(f"a transfer has at least 1 piece, got {pieces}")
    return np.maximum(np.asarray(transfer_s) / pieces, transfer_s - hidden_s * (1 - 1 / pieces))
