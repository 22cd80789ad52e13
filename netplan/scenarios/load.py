"""How requests come to a cluster that serves: at a rate, from a trace, or all at once."""

from typing import Annotated

from msgspec import Meta

from netplan.inputs.option import Option
from netplan.scenarios.described import Described, Typed

MOST_RATE = 1e9
"""Requests a second that nothing asks for [1/s]."""


class Load(Described, frozen=True, kw_only=True):
    """Requests as they come, and what of their prompts is in a cache.

    Examples
    --------
    >>> Load(rate=5.0).burstiness, Load().rate
    (1.0, None)
    """

    rate: Annotated[
        Annotated[float, Meta(gt=0, le=MOST_RATE)] | None,
        Typed(
            "Requests a second of the whole cluster, in place of requests in flight.",
            unit="1/s",
            low=1e-9,
            high=MOST_RATE,
            quiet=True,
        ),
    ] = None
    burstiness: Annotated[
        Annotated[float, Meta(gt=0, le=1e6)],
        Typed(
            "Shape of the gaps under --rate: 1 is Poisson, less comes in bursts.",
            low=1e-3,
            high=1e6,
            quiet=True,
        ),
    ] = 1.0
    trace: Annotated[
        str | None,
        Option(
            "Requests as they came: a CSV file of arrival_s, prompt and output.", "path", quiet=True
        ),
    ] = None
    prefix_share: Annotated[
        Annotated[float, Meta(ge=0, lt=1)],
        Typed(
            "Share of each prompt that a cache holds already, below 1.",
            metavar="SHARE",
            low=0,
            high=1,
            quiet=True,
        ),
    ] = 0.0
    kv_tiers: Annotated[
        tuple[str, ...],
        Option(
            "Where that share lies: hbm, host, ssd or remote=GB:GBps:HIT, of a GPU (repeatable).",
            flag="--kv-tier",
            many=True,
            metavar="TIER=GB:GBps:HIT",
            quiet=True,
        ),
    ] = ()
