"""Published measurements of serving: `reports/published/measured-serving.csv`, one row a point.

Facts only: a model in a precision, the GPUs and how they share it, requests in flight, and the two
times that users feel. Names of columns with a dot are fields of a part, empty cells are unknown.
"""

from collections.abc import Mapping
from functools import cache
from math import isqrt
from typing import Literal

from msgspec import Struct, convert

from netplan.inputs.choices import ServingFormat
from netplan.published.checks import published
from netplan.records import PositiveFloat, PositiveInt

TABLE = "measured-serving"
OVERLOAD_S = 10.0
"""TTFT above which most of it is waiting, which no kernel explains [s]."""

DOMAIN = 8
"""GPUs that servers for both phases have at most, but for racks [1]."""


class Servers(Struct, frozen=True, forbid_unknown_fields=True):
    """Servers that are alike, each a copy of the model, and how its GPUs share it.

    Parameters
    ----------
    tensor, pipeline, attention_data
        GPUs of one server are their product: each copy of attention is cut in ``tensor``.
    expert, expert_tensor
        Groups of experts, and GPUs that share one, as far as they are known: over the same GPUs.
    count
        How many servers, if known.
    """

    tensor: PositiveInt
    pipeline: PositiveInt = 1
    attention_data: PositiveInt = 1
    expert: PositiveInt | None = None
    expert_tensor: PositiveInt | None = None
    count: PositiveInt | None = None

    @property
    def gpus_each(self) -> int:
        """GPUs of one server [1]."""
        return self.tensor * self.pipeline * self.attention_data


class ServingPoint(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One measured point of serving.

    Parameters
    ----------
    model, accelerator
        Names in the catalogs.
    framework
        Software that served.
    precision
        Format of the weights.
    mode
        ``aggregated``: a ``server`` does both phases; ``disaggregated``: servers for ``prefill``
        send what they computed to those for ``decode``.
    prompt, output
        Tokens of a request, and of its answer.
    concurrency
        Requests in flight in the whole system, if known.
    gpus
        All GPUs, if known.
    ttft_s, tpot_s
        Time to the first token, and from each to the next [s].
    measured, origin
        Month, if known, and set of measurements.
    """

    model: str
    accelerator: str
    framework: Literal["SGLang", "TensorRT-LLM", "vLLM"]
    precision: ServingFormat
    mode: Literal["aggregated", "disaggregated"]
    prompt: PositiveInt
    output: PositiveInt
    concurrency: PositiveInt | None = None
    gpus: PositiveInt | None = None
    server: Servers | None = None
    prefill: Servers | None = None
    decode: Servers | None = None
    ttft_s: PositiveFloat
    tpot_s: PositiveFloat
    measured: str = ""
    origin: str

    @property
    def server_as_run(self) -> Servers | None:
        """The server, degrees undone that the source multiplied.

        112 servers of n = 4 or 8 GPUs stand as if they had n^2, tensor or attention-data n^2 beside
        n groups of experts, or all three: on systems whose domains have eight GPUs, and 20 of them
        with the very times of a row of n.
        """
        one = self.server
        if one is None or one.expert is None:
            return one
        size = isqrt(one.gpus_each)
        squared = size**2 == one.gpus_each > DOMAIN and one.expert in {size, one.gpus_each}
        if not squared:
            return one
        tensor, copies = (size, 1) if one.tensor > 1 else (1, size)
        return Servers(tensor=tensor, attention_data=copies, expert=size, expert_tensor=1)

    @property
    def overload(self) -> bool:
        """Whether requests mostly waited: more came than were served."""
        return self.ttft_s > OVERLOAD_S


@cache
def serving_points() -> tuple[ServingPoint, ...]:
    """All points of the table, in its order.

    Examples
    --------
    >>> points = serving_points()
    >>> len(points), sum(one.overload for one in points)
    (1500, 76)
    >>> points[0].model, points[0].concurrency, points[0].server.tensor, points[0].tpot_s
    ('minimax-m2.5', 4, 4, 0.0094766)
    """
    return tuple(map(serving_point, published(TABLE)))


def serving_point(row: Mapping[str, str]) -> ServingPoint:
    """The point of one row.

    Raises
    ------
    msgspec.ValidationError
        If a column is unknown or missing, or a cell is none of what it may be.
    """
    parts: dict[str, dict[str, str]] = {}
    for name, text in row.items():
        part, _, field = name.rpartition(".")
        if text:
            parts.setdefault(part, {})[field] = text
    found: dict[str, object] = {**parts.pop("", {}), **parts}
    return convert(found, ServingPoint, strict=False)
