"""Requests as they come, read from a scenario: a rate or a trace, and the caches before them."""

from pathlib import Path
from typing import Any

from netplan.errors import InputError
from netplan.performance.serving.arrivals import read_requests
from netplan.performance.serving.load import Arrivals
from netplan.performance.serving.outcomes import Requests
from netplan.performance.serving.tiers import KvTier, read_tiers
from netplan.setup.question import Question

Asked = Question[Any]


def load_of(asked: Asked) -> Arrivals | None:
    """How requests come, if anything says so.

    Raises
    ------
    InputError
        If inputs contradict each other, or a trace is none.
    """
    load, count = asked.serving.load, asked.serving.requests
    if load.rate is None and load.trace is None:
        if load.burstiness != 1.0:
            raise InputError("--burstiness shapes the gaps of --rate: give that, too")
        return None
    flag = "--rate" if load.trace is None else "--trace"
    if asked.serving.disaggregated:
        raise InputError(
            f"{flag} with --disaggregated is not modelled, arrivals at two pools: leave one out"
        )
    for name, value in (
        ("--concurrency", asked.serving.concurrency),
        ("--batch", asked.serving.batch),
    ):
        if value is not None:
            raise InputError(
                f"{flag} and {name} both say how many requests are in flight: give one"
            )
    if load.trace is None:
        return Arrivals(load.rate or 0.0, load.burstiness, None, count)
    given = [
        f"--{name}" for name in ("rate", "burstiness", "prompt", "output") if name in asked.given
    ]
    if given:
        raise InputError(f"--trace says it in place of {given[0]}: leave that out")
    trace = read_requests(Path(load.trace))
    if count is not None and count > len(trace.arrival_s):
        raise InputError(
            f"--requests {count:,} are more than the {len(trace.arrival_s):,} of"
            f" {load.trace}: give fewer"
        )
    trace = trace.first(count)
    rate = trace.rate
    if rate == float("inf"):
        raise InputError(
            f"{load.trace}: all requests come at once, at no rate: give --requests without --trace"
        )
    return Arrivals(rate, load.burstiness, trace, len(trace.arrival_s))


def requests_of(asked: Asked, load: Arrivals | None) -> Requests:
    """Tokens of prompts and answers: those of a trace in the mean."""
    if load is None or load.trace is None:
        return Requests(asked.serving.prompt, asked.serving.output)
    return Requests(round(load.trace.prompt.mean()), round(load.trace.output.mean()))


def longest(asked: Asked, load: Arrivals | None) -> int:
    """Tokens of the longest request [1]."""
    if load is None or load.trace is None:
        return asked.serving.prompt + asked.serving.output
    return int((load.trace.prompt + load.trace.output).max())


def tiers_of(asked: Asked) -> tuple[KvTier, ...]:
    """Tiers of stored caches.

    Raises
    ------
    InputError
        If there is no share of prompts that they could hold.
    """
    load = asked.serving.load
    if load.kv_tiers and not load.prefix_share:
        raise InputError("--kv-tier holds a share of prompts: give --prefix-share, too")
    if not 0 <= load.prefix_share < 1:
        raise InputError(
            f"--prefix-share {load.prefix_share:g}: give a share from 0 to below 1; the last token"
            " of a prompt is always computed"
        )
    return read_tiers(load.kv_tiers)
