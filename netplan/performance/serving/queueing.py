"""Serving under load in closed form: one server's wait, and the step that a batch settles at.

Symbols: X requests a second, of P prompt tokens and R of output; a step with n requests that decode
takes d(n) = a + b n, and c more for each prompt token in it; D copies step together.

One server, Poisson arrivals, service S (Pollaczek 1930, Khinchine 1932): with rho = X E[S] < 1

    wait = X E[S^2] / (2 (1 - rho)),   of constant S: rho S / (2 (1 - rho))

A batch in its mean field: n requests decode, each ends after R steps, so that every step starts n/R
prompts, and takes t = d(n) + c P n/R. By Little's law n = X R t, so that

    t = a / (1 - X (R b + c P)),   saturated where X (R b + c P) >= 1

With D copies X/D falls on each, and a step waits for the copy with the most prompts (lockstep 1): c
P E in place of c P n/R, E the mean of K/D rounded up, since the K prompts of a step are dealt in
turn, K a Poisson number of mean D n/R.

The first token (our own step of the argument): a request comes in the middle of a step, of which
it waits for E[T^2] / 2t, long steps being met more often. Its own step takes the prompts that came
with it, X E[T^2] / t of them on average, and its own:

    TTFT = E[T^2] / 2t + d(n) + c P (1 + X E[T^2] / t),   E[T^2] = t^2 + (c P)^2 n/R

prompts of a step being Poisson; with copies E of those prompts and its own. It holds where neither
slots nor the budget of a step are full, and prompts fit a step.
"""

from typing import NamedTuple

import numpy as np

from netplan.arrays import Amount, Floats
from netplan.errors import InfeasibleError
from netplan.traffic.algorithms import as_amount, check_number


def queue_wait_s(rate: Amount, service_s: Amount, square_s2: Amount | None = None) -> Amount:
    """Mean wait before one server that requests come to at random, by Pollaczek and Khinchine.

    Parameters
    ----------
    rate
        Requests a second, X [1/s].
    service_s
        Mean time of service, E[S] [s].
    square_s2
        Mean of its square, E[S^2]; that of a constant time where it is not given [s^2].

    Returns
    -------
    float or array
        Without the service itself [s].

    Raises
    ------
    InfeasibleError
        If as many requests come as are served, or more: the highest rate is 1 / E[S].

    Examples
    --------
    A server of 0.1 s that is half busy, and one that is busy four fifths of the time: with their
    service 0.15 and 0.3 s.

    >>> queue_wait_s(np.array([5.0, 8.0]), 0.1).round(12)
    array([0.05, 0.2 ])
    """
    for name, value in (("rate", rate), ("service", service_s)):
        check_number(name, value)
    busy = np.asarray(rate) * service_s
    if np.any(busy >= 1):
        raise saturated(float(np.max(rate)), float(np.min(1 / np.asarray(service_s))))
    square = np.asarray(service_s) ** 2 if square_s2 is None else square_s2
    return as_amount(rate * square / (2 * (1 - busy)))


def saturated(rate: float, highest: float) -> InfeasibleError:
    """What is said of a rate that nothing carries, with the highest one."""
    return InfeasibleError(
        f"a rate of {rate:g} requests/s saturates: {highest:.4g} requests/s is the highest rate"
        " that is carried: ask for less, or give more GPUs"
    )


def mean_field_step_s(
    rate: Amount,
    *,
    prompt: Amount,
    output: Amount,
    step_s: Amount,
    request_s: Amount,
    prompt_token_s: Amount,
) -> Amount:
    """Step that a batch settles at: t = a / (1 - X (R b + c P)), which is TPOT.

    Parameters
    ----------
    rate
        X [1/s].
    prompt, output
        P and R [1].
    step_s, request_s, prompt_token_s
        a, b and c [s].

    Returns
    -------
    float or array
        The step [s].

    Raises
    ------
    InfeasibleError
        If the batch grows without end, with the highest rate.

    Examples
    --------
    >>> step = {"step_s": 0.012, "request_s": 2e-5, "prompt_token_s": 2e-5}
    >>> t = mean_field_step_s(np.array([2.0, 10.0]), prompt=1000, output=200, **step)
    >>> (1e3 * t).round(2)
    array([12.61, 15.79])
    """
    work_s = np.asarray(output) * request_s + np.asarray(prompt_token_s) * prompt
    busy = np.asarray(rate) * work_s
    if np.any(busy >= 1):
        raise saturated(float(np.max(rate)), float(np.min(1 / work_s)))
    return as_amount(step_s / (1 - busy))


TAIL = 10.0
"""Standard deviations beyond a Poisson mean at which nothing is left, and as many more [1]."""
LARGE = 200.0
"""Poisson mean from which what dealing leaves over is taken as even [1]."""


def most_dealt(copies: Amount, mean: Amount, *, besides: bool = False) -> Amount:
    """Prompts of the copy with most of them, a Poisson number of prompts being dealt in turn.

    E = sum over j >= 0 of P(K + e > j D), K of mean D l: the mean of (K + e) / D rounded up, e = 1
    with a prompt ``besides`` and 0 without.

    Parameters
    ----------
    copies
        How many, D [1].
    mean
        Prompts of each, l [1].
    besides
        Whether there is a request's own prompt besides.

    Returns
    -------
    float or array
        E; the mean l itself for one copy, and its own besides [1].

    Examples
    --------
    Two copies that start one prompt in ten steps each: one of them has one in 1 - exp(-0.2) of all
    steps, hardly ever two.

    >>> most_dealt(np.array([1, 2, 8]), 0.1).round(4)
    array([0.1   , 0.1824, 0.5507])
    """
    ways, each_mean = np.broadcast_arrays(
        np.asarray(copies, dtype=np.float64), np.asarray(mean, dtype=np.float64)
    )
    total = ways * each_mean
    left_over = np.where(ways > 1, (ways - 1) / (2 * ways), 0.0)
    result: Floats = each_mean + besides / ways + left_over
    few = (ways > 1) & (total < LARGE)
    if few.any():
        ways, total = ways[few], total[few]
        last = float(total.max())
        chance = np.exp(-total)
        above = 1 - chance
        most = above if not besides else np.ones(total.shape)
        for number in range(1, int(last + TAIL * (1 + np.sqrt(last))) + 1):
            if besides:  # P(K + 1 > j D) is P(K > j D - 1)
                most = most + np.where(number % ways == 0, above, 0.0)
            chance = chance * total / number
            above = np.maximum(above - chance, 0.0)
            if not besides:
                most = most + np.where(number % ways == 0, above, 0.0)
        result = np.array(result)
        result[few] = most
    return as_amount(result)


def held_rate(
    decoding: Amount, decode_s: Amount, prompt_s: Amount, *, steps: Amount, copies: Amount = 1
) -> Floats:
    """Requests a second of all copies that keep so many in a batch, D n / (R t) [1/s].

    Parameters are those of `mean_field`, whose ``rate`` it is.
    """
    started: Floats = np.asarray(decoding) / steps
    return np.asarray(copies * started / (decode_s + prompt_s * most_dealt(copies, started)))


class MeanField(NamedTuple):
    """A batch that holds so many requests: what rate keeps it there, and what requests see.

    Parameters
    ----------
    rate
        Requests a second of all copies, X [1/s].
    step_s
        t [s].
    first_s
        Time to the first token [s].
    """

    rate: Amount
    step_s: Amount
    first_s: Amount


def mean_field(
    decoding: Amount, decode_s: Amount, prompt_s: Amount, *, steps: Amount, copies: Amount = 1
) -> MeanField:
    """The mean field of a batch by the requests that decode in it (formulas of this module).

    Parameters
    ----------
    decoding
        Requests of a copy that decode, n [1].
    decode_s
        Time of a step of theirs without prompts, d(n) [s].
    prompt_s
        What a prompt adds to a step, c P [s].
    steps
        Steps that an answer takes, R; fewer where a step gives several tokens [1].
    copies
        Copies of attention that step together, D [1].

    Returns
    -------
    MeanField
        Arrays of the shape that all broadcast to.

    Examples
    --------
    The check of `mean_field_step_s`, from its requests in flight, 10 x 200 x 15.79 ms.

    >>> field = mean_field(31.579, 0.012 + 2e-5 * 31.579, 0.02, steps=200)
    >>> round(field.rate, 3), round(1e3 * field.step_s, 2), round(1e3 * field.first_s, 1)
    (10.0, 15.79, 46.5)
    """
    check_number("decoding", decoding)
    started: Floats = np.asarray(decoding) / steps
    rate = held_rate(decoding, decode_s, prompt_s, steps=steps, copies=copies)
    longest_s = copies * started / rate
    square = longest_s**2 + np.asarray(prompt_s) ** 2 * started / copies
    met = square / longest_s
    others = most_dealt(copies, rate / copies * met, besides=True)
    first_s = met / 2 + decode_s + prompt_s * others
    return MeanField(as_amount(rate), as_amount(longest_s), as_amount(first_s))
