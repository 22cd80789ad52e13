"""COMET: its formulas, what Fig. 8 to 13 say of its two models, its slips.

``netplan verify`` takes the times from the plan search, a study's page from its own rows. MP is the
tensor degree of a trillion parameters on 1,024 GPUs; of eight recommendation models (DLRM) on 64
GPUs each instance has some.

Batch, chunks and update are not printed. What follows from the formulas alone is exact; changes of
MP 64 (its tensor degree; data degree 16) follow from one fitted share of communication; the rest is
a trend of the preset ``comet-fit``, whose inputs were fitted to these figures. Fig. 15 is that of
the physical preset ``comet``, as the study ``clusters`` has it; what it lacks is the source's.
Sizes of the recommendation model are a stand-in's: of its figure only trends are checked.
Source: Kadiyala et al., COMET (arXiv:2211.16648).
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from math import inf
from statistics import fmean
from typing import NamedTuple

import numpy as np

from netplan.levels import Level
from netplan.performance.iteration_model import ITERATION_MODELS
from netplan.performance.plan import PlanTime, instances_of
from netplan.performance.search import search_plans
from netplan.performance.setting import Fixed, Options, TrainedModel
from netplan.performance.tiers import hybrid_bytes_per_s
from netplan.published.checks import Check, Measured, published, suite
from netplan.records import replace
from netplan.traffic.collectives import hb_bandwidth_ratio
from netplan.traffic.hierarchy import collective_s
from netplan.units import PERCENT
from netplan.workloads.accelerators import ACCELERATORS, Accelerator
from netplan.workloads.closed_forms import layer_parameters
from netplan.workloads.models import MODELS, WORKLOADS
from netplan.workloads.operations import Sharding
from netplan.workloads.program import Zero
from netplan.workloads.tiled_layer import gemm_traffic_bytes, tiled_layer

PODS = 128
DEGREES = tuple(1 << bit for bit in range(11))
EXPANDED_BYTES = 480e9
"""Expanded memory of a GPU that holds what MP 8 spills [B]."""

EXPANDED_BYTES_PER_S = (1e11, 2e11, 3e11, 4e11, 5e11, 6e11, 8e11, 1e12, 1.5e12, 2e12)
"""Its rates in Fig. 9; the last is that of Fig. 10 [B/s]."""

RATIOS = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 6.666667, 7.0, 7.5, 8.0, 9.6, 12.0, 16.0)
"""Bandwidths in the pod over those between pods, of one sum; 9.6 is that of Table I [1]."""

INSTANCES, INSTANCE_GPUS = 8, (64, 32, 16, 8)
"""Recommendation models of Fig. 13 on 64 GPUs, and GPUs that one of them may have [1]."""

FAST_BYTES_PER_S = 1.5e12
"""Rate of an expanded memory that gains half of the time there [B/s]."""

GB = 1e9


class Rates(NamedTuple):
    """Factors of what a GPU of Table I computes, and sends in its pod and between pods [1].

    Beside them the rate of its expanded memory; without one all that it holds is local [B/s].
    """

    compute: float = 1.0
    inside: float = 1.0
    between: float = 1.0
    expanded_bytes_per_s: float = 0.0

    @property
    def gpu(self) -> Accelerator:
        """The GPU."""
        on = ACCELERATORS.load("a100-comet")
        return replace(
            on,
            tensor_flops_per_s=self.compute * on.tensor_flops_per_s,
            hb_bytes_per_s=self.inside * on.hb_bytes_per_s,
            network_bytes_per_s=self.between * on.network_bytes_per_s,
            expanded_bytes=EXPANDED_BYTES if self.expanded_bytes_per_s else 0.0,
            expanded_bytes_per_s=self.expanded_bytes_per_s,
        )

    @property
    def levels(self) -> tuple[Level, Level]:
        """Pods of 8 on a switch, and one between them."""
        on = self.gpu
        inside = Level("switch", on.hb_size, on.hb_bytes_per_s)
        return inside, Level("switch", PODS, on.network_bytes_per_s)


def split(ratio: float) -> Rates:
    """Rates with the sum of both bandwidths of Table I, split by a ratio.

    Examples
    --------
    >>> round(300 * split(6.0).inside, 2), round(31.25 * split(6.0).between, 2)
    (283.93, 47.32)
    """
    outside = 331.25 / (1 + ratio)
    return Rates(inside=ratio * outside / 300, between=outside / 31.25)


BASELINE = Rates()
CHANGES = {
    "half in the pods": Rates(inside=0.5),
    "half between them": Rates(between=0.5),
    "double in the pods": Rates(inside=2.0),
    "double between them": Rates(between=2.0),
    "double both": Rates(inside=2.0, between=2.0),
    "ratio 1:6 of the same sum": split(6.0),
}
"""Other bandwidths of Fig. 11 and 12."""

ClusterTimes = Callable[[int, Rates], float]
"""Iteration time of a tensor degree at some rates [s]; raises KeyError where it is not known."""


def fastest_degree(time_s: ClusterTimes) -> Iterator[Measured]:
    """The tensor degree of the least time (Fig. 8).

    Examples
    --------
    >>> list(fastest_degree(lambda tensor, rates: max(8 / tensor, tensor / 8)))
    [('MP of the least time', '8'), ('least time over MP', 'inside')]
    """
    times_s = {tensor: time_s(tensor, BASELINE) for tensor in DEGREES}
    best = min(DEGREES, key=times_s.__getitem__)
    yield "MP of the least time", str(best)
    inside = DEGREES[0] < best < DEGREES[-1]
    yield "least time over MP", "inside" if inside else "at an end"


def expanded_needed(time_s: ClusterTimes) -> Iterator[Measured]:
    """The rate of an expanded memory at which MP 8 is as fast as MP 64, which needs none (Fig. 9).

    Infinite where no rate is enough.
    """
    limit_s = time_s(64, Rates(expanded_bytes_per_s=EXPANDED_BYTES_PER_S[-1]))
    timed_rates = [
        (rate, time_s(8, Rates(expanded_bytes_per_s=rate))) for rate in EXPANDED_BYTES_PER_S
    ]
    yield "expanded memory from which MP 8 beats MP 64, GB/s", _rate_of(limit_s, timed_rates) / GB


def _rate_of(limit_s: float, timed_rates: Sequence[tuple[float, float]]) -> float:
    """The least rate with a time of at most so much, from rates and their times [B/s].

    Between two rates times are straight over the inverse of the rate, as Eq. 3 has them. It is
    the least of them where that is enough already.

    Examples
    --------
    >>> round(_rate_of(3.0, [(1.0, 4.0), (2.0, 2.0)]), 4)
    1.3333
    """
    if timed_rates[0][1] <= limit_s:
        return timed_rates[0][0]
    for (slow, before_s), (fast, after_s) in pairwise(timed_rates):
        if after_s <= limit_s < before_s:
            share = (before_s - limit_s) / (before_s - after_s)
            return 1 / (1 / slow + share * (1 / fast - 1 / slow))
    return inf


def changes_by_flops(time_s: ClusterTimes) -> Iterator[Measured]:
    """What half and twice the FLOP/s make of MP 8 beside an expanded memory of 2 TB/s (Fig. 10)."""
    fast = Rates(expanded_bytes_per_s=EXPANDED_BYTES_PER_S[-1])
    for name, factor in (("half", 0.5), ("double", 2.0)):
        yield (
            f"MP 8, {name} the FLOP/s, %",
            time_change(time_s, 8, fast._replace(compute=factor), since=fast),
        )


def changes_by_bandwidth(time_s: ClusterTimes) -> Iterator[Measured]:
    """What both bandwidths make of MP 8, and what MP 64 makes of each (Fig. 11)."""
    yield "MP 8, half of both bandwidths, %", time_change(time_s, 8, Rates(1, 0.5, 0.5))
    yield "MP 8, four times both bandwidths, %", time_change(time_s, 8, Rates(1, 4, 4))
    both, *either = (
        time_change(time_s, 64, CHANGES[f"double {name}"])
        for name in ("both", "in the pods", "between them")
    )
    more = both < time_change(time_s, 8, CHANGES["double both"]) < 0
    yield "which MP bandwidth helps more, 8 or 64", "64" if more else "8"
    yield "MP 64, doubling both or either", "both" if both < min(either) else "either"


def changes_of_mp_64(time_s: ClusterTimes) -> Iterator[Measured]:
    """How much longer MP 64 takes with each change of its bandwidths (Fig. 11 and 12)."""
    for name, rates in CHANGES.items():
        yield name_of(name), time_change(time_s, 64, rates)


def name_of(name: str) -> str:
    """The name of a change of the bandwidths in the published table."""
    return f"MP 64, bandwidth {name}, %"


def gain_by_split(time_s: ClusterTimes) -> Iterator[Measured]:
    """What MP 64 gains by the ratio 1:6 (Fig. 12)."""
    yield "MP 64, ratio 1:6, %", time_change(time_s, 64, split(6.0), since=split(9.6))


def best_ratio(time_s: ClusterTimes) -> Iterator[Measured]:
    """The best of the ratios for MP 64 (Fig. 12), which a closed form gives, too."""
    best = min(RATIOS, key=lambda ratio: time_s(64, split(ratio)))
    yield "best ratio of bandwidths, MP 64", best


def time_change(
    time_s: ClusterTimes, tensor: int, rates: Rates, *, since: Rates = BASELINE
) -> float:
    """How much longer an iteration takes than at other rates [%]."""
    return PERCENT * (time_s(tensor, rates) / time_s(tensor, since) - 1)


InstanceTimes = Callable[[int, float], float]
"""Time of all instances on some GPUs each, by the rate of their expanded memory [s].

Raises KeyError where it is not known.
"""


def instances_needed(time_s: InstanceTimes) -> Iterator[Measured]:
    """The rate from which 16 GPUs an instance, four at once, beat 64, one after the other (13b)."""
    limit_s = time_s(64, EXPANDED_BYTES_PER_S[-1])
    timed_rates = [(rate, time_s(16, rate)) for rate in EXPANDED_BYTES_PER_S]
    yield (
        "DLRM: expanded memory from which 16 GPUs beat 64, GB/s",
        _rate_of(limit_s, timed_rates) / GB,
    )


def gain_of_instances(time_s: InstanceTimes) -> Iterator[Measured]:
    """What 200 GB at 1.5 TB/s gain with 16 GPUs an instance (Fig. 13b)."""
    gain = time_s(64, FAST_BYTES_PER_S) / time_s(16, FAST_BYTES_PER_S)
    yield "DLRM: gain by 200 GB at 1.5 TB/s", gain


CHUNKS = 4
STAGES: dict[str, Zero] = {"none": 0, "1": 1, "2": 2, "3": 3}
"""Stages of ZeRO, as Fig. 6 compares them."""


@suite("cluster-design")
def cluster_design_checks() -> Iterator[Measured | Check]:
    """All checks of COMET, in the order of their table."""
    parts = (_formulas, _footprints, _bandwidths, _changes, _trends, _instances, _slips, _figure_15)
    for part in parts:
        yield from part()


@cache
def timed(
    tensor: int,
    rates: Rates = BASELINE,
    model: str = "comet-fit",
    *,
    zero_stage: Zero | None = None,
) -> PlanTime:
    """The plan of a tensor degree on 1,024 GPUs, whether it fits their memory or not.

    Examples
    --------
    >>> round(timed(8).iteration_time_s, 9), round(timed(64).iteration_time_s, 9)
    (4.068708961, 7.906734777)
    """
    how = ITERATION_MODELS.load(model)
    how = replace(how, space=replace(how.space, microbatches="one"))  # the paper speaks of none
    training = replace(
        TrainedModel.make(rates.gpu, MODELS.load("transformer-1t"), how), ignore_memory=True
    )
    options = Options(zero_stage=zero_stage, fixed=Fixed(tensor=tensor))
    return search_plans(training, rates.levels, options=options).best


def _time_s(tensor: int, rates: Rates) -> float:
    """Time of an iteration [s]."""
    return timed(tensor, rates).iteration_time_s


def _formulas() -> Iterator[Measured]:
    """Two memories; parameters; one product under 40 MB of memory on the chip."""
    model, on = MODELS.load("transformer-1t"), BASELINE.gpu
    both = hybrid_bytes_per_s(80e9, 160e9, 2e12, 1e12)
    yield "80 GB at 2 TB/s and 160 GB at 1 TB/s, TB/s", float(both) / 1e12
    yield "Transformer-1T: parameters", float(model.layers * layer_parameters(model))
    rows, inner, columns = 2048, model.hidden_size, 4 * model.hidden_size // 8
    moved = float(gemm_traffic_bytes(rows, inner, columns, sram_bytes=on.sram_bytes))
    flops = 2.0 * rows * inner * columns
    seconds = max(flops / on.tensor_flops_per_s, moved / on.memory_bytes_per_s)
    yield "MLP up, MP 8, 2,048 tokens: bytes moved", moved
    yield "MLP up, MP 8, 2,048 tokens: ms", 1e3 * seconds


def _footprints() -> Iterator[Measured]:
    """What states take by ZeRO stage, and the least tensor degree that fits a memory."""
    for name, stage in STAGES.items():
        for tensor in (8, 32, 64):
            held = timed(tensor, zero_stage=stage).memory_bytes
            yield f"MP {tensor}, ZeRO {name}: states, GB", held / GB
    yield "MP 8: states by the text, GB", timed(8).memory_bytes / GB
    states = {tensor: timed(tensor).memory_bytes for tensor in DEGREES}
    working = {tensor: timed(tensor, model="comet").memory_bytes for tensor in DEGREES}
    for capacity in (560, 281):
        yield f"least MP whose states fit {capacity} GB", _least(states, capacity * GB)
    yield "least MP that fits 80 GB", _least(working, 80 * GB)
    falls = all(states[degree] > states[2 * degree] for degree in DEGREES[:-1])
    yield "states over MP", "falling" if falls else "not falling"


def _least(held: dict[int, float], capacity_bytes: float) -> str:
    """Least tensor degree that fits."""
    return str(min(tensor for tensor, size in held.items() if size <= capacity_bytes))


def _bandwidths() -> Iterator[Measured]:
    """The best split of a bandwidth between pods and network, and links of two clusters."""
    on = BASELINE.gpu
    ratio = float(hb_bandwidth_ratio(on.hb_size, 64 // on.hb_size, chunks=CHUNKS))
    whole = on.hb_bytes_per_s + on.network_bytes_per_s
    yield "best ratio of bandwidths, MP 64", ratio
    yield "bandwidth in the pods there, GB/s", whole * ratio / (1 + ratio) / GB
    yield "bandwidth between them there, GB/s", whole / (1 + ratio) / GB
    yield "Dojo: GB/s a tray", ACCELERATORS.load("dojo-tray").hb_bytes_per_s / GB
    chip = ACCELERATORS.load("tpu-v4-comet")
    yield "TPU v4: GB/s a chip", chip.chip_ports * chip.network_bytes_per_s / GB


def changes_of_messages() -> dict[str, float]:
    """How much longer an all_reduce of MP 64 takes, by change of the bandwidths, r - 1 [1].

    Examples
    --------
    >>> round(changes_of_messages()["half in the pods"], 4)
    0.3793
    """
    before_s = _all_reduce_s(BASELINE)
    return {name: _all_reduce_s(rates) / before_s - 1 for name, rates in CHANGES.items()}


def _all_reduce_s(rates: Rates) -> float:
    """Time of an all_reduce over 8 pods of 8 [s]."""
    inside, between = rates.levels
    levels = inside, replace(between, size=8)
    return float(collective_s("all_reduce", levels, data_bytes=GB, chunks=CHUNKS))


def communication_share() -> float:
    """Share f of communication with which f (r - 1) is nearest to the printed changes [1].

    Least squares over all six of them.

    Examples
    --------
    >>> round(communication_share(), 4)
    0.5691
    """
    printed = {row["name"]: row["expected"] for row in published("cluster-design")}
    more = changes_of_messages()
    fitted = sum(rise * float(printed[name_of(name)]) / 100 for name, rise in more.items())
    return fitted / sum(rise**2 for rise in more.values())


def _changes() -> Iterator[Measured]:
    """Fig. 11 and 12 of MP 64 with one fitted number, and times of the fitted preset."""
    share = communication_share()
    yield "MP 64: share of communication, fitted", share
    for name, more in changes_of_messages().items():
        yield name_of(name), 100 * share * more
    for tensor in (8, 64):
        yield f"MP {tensor}, comet-fit: s", timed(tensor).iteration_time_s


def _trends() -> Iterator[Measured]:
    """What Fig. 8 to 12 show, and the preset as well."""
    figures = fastest_degree, changes_by_flops, changes_by_bandwidth, gain_by_split, expanded_needed
    for statements in figures:
        yield from statements(_time_s)


@cache
def instance(gpus: int, expanded_bytes_per_s: float, batch: int = 32_768) -> PlanTime:
    """An instance of the recommendation model on some of 64 GPUs (Fig. 13).

    Examples
    --------
    >>> round(1e3 * instance(64, 1e12).iteration_time_s, 3)
    8.951
    """
    case = WORKLOADS.load("dlrm-1.2t"), ITERATION_MODELS.load("comet")
    training = TrainedModel.make(
        Rates(expanded_bytes_per_s=expanded_bytes_per_s).gpu, *case, batch=batch
    )
    inside, between = BASELINE.levels
    levels = inside, replace(between, size=max(INSTANCE_GPUS) // inside.size)
    return search_plans(training, levels, options=Options(fixed=Fixed(expert=gpus))).best


def _instances_s(gpus: int, expanded_bytes_per_s: float) -> float:
    """Time until all instances are done [s]."""
    return instances_of(instance(gpus, expanded_bytes_per_s), INSTANCES).turnaround_s


def _instances() -> Iterator[Measured]:
    """Trends of Fig. 13: fewer GPUs, each with as many samples or with its part of all."""
    most, few, rate = 64, 16, EXPANDED_BYTES_PER_S[-3]
    times_s = [instance(gpus, rate).iteration_time_s for gpus in (most, few)]
    less = times_s[1] / times_s[0] < most / few
    yield "DLRM: time of 16 GPUs over 64", "less than 4" if less else "at least 4"
    alike = [instance(gpus, rate, 512 * gpus) for gpus in (64, 32, 16)]
    messages_s = [sum(plan.breakdown_s[f"{x}_comm"] for x in ("expert", "data")) for plan in alike]
    work_s = [plan.iteration_time_s - sent for plan, sent in zip(alike, messages_s, strict=True)]
    falls = all(before > after for before, after in pairwise(messages_s))
    yield "DLRM: exposed messages over fewer GPUs", "falling" if falls else "not falling"
    rises = all(before <= after for before, after in pairwise(work_s)) and work_s[0] < work_s[-1]
    yield "DLRM: computing over fewer GPUs", "rising" if rises else "not rising"
    by_rate = [_instances_s(few, bytes_per_s) for bytes_per_s in EXPANDED_BYTES_PER_S]
    faster = all(before > after for before, after in pairwise(by_rate))
    yield "DLRM: time over the rate of expanded memory", "falling" if faster else "not falling"
    yield from instances_needed(_instances_s)
    yield from gain_of_instances(_instances_s)


def _slips() -> Iterator[Measured]:
    """What the paper's own numbers contradict."""
    exposed = timed(8, model="comet").breakdown_s["data_comm"]
    yield "MP 8: gradient collectives exposed, s", exposed
    for name, title in (("a100-80gb", "A100"), ("h100-80gb", "H100")):
        yield f"{title}: peak, TFLOP/s", ACCELERATORS.load(name).tensor_flops_per_s / 1e12
    share, more = communication_share(), changes_of_messages()
    yield "MP 64, half in the pods by the text, %", 100 * share * more["half in the pods"]
    yield "MP 64, half between them by the text, %", 100 * share * more["half between them"]
    on = BASELINE.gpu
    yield "MP 8: times the memory of a GPU", timed(8).memory_bytes / on.memory_bytes
    yield "GPUs of a pod by the text", str(on.hb_size)
    # 64 GT/s a lane, one bit a transfer.
    yield "32 lanes of CXL 3.0, GB/s", CXL_LANES * CXL_BITS_PER_S / 8 / GB
    model, cut = MODELS.load("transformer-1t"), Sharding.of(2, tensor=8)
    layer = tiled_layer(model, cut, sram_bytes=BASELINE.gpu.sram_bytes)
    (scores,) = (
        shape
        for operation in layer.operations
        if operation.name == "scores"
        for shape in operation.shapes
    )
    rows = float(np.max(scores.m / scores.copies)) / model.sequence_length
    yield "rows of the scores of b sequences", "seq, b times" if rows == 1 else f"{rows:g} seq"


MEMORIES = {0: (0.0, 0.0), 1: (480e9, 0.5e12), 2: (201e9, 1e12)}
"""Capacity [B] and rate [B/s] of the expanded memory of the clusters of Table III, by number."""

CHIPS = {"A": "v100-comet", "B": "a100-comet", "C": "h100-comet"}
CLUSTER_MODELS = {"Transformer-1T": "transformer-1t", "DLRM": "dlrm-1.2t"}
AVERAGE = "C0 over A0, on average"
FIG_15_BATCH = 384
"""Sequences, which the paper does not print: of those of `clusters` and of 192 to 1,024 the number
at which all three speeds of Transformer-1T are nearest to the printed ones [1]."""

FEWER_GPUS = 16
"""GPUs of an instance with expanded memory; of 8, as the text has it, the stand-in fits none."""


def _figure_15() -> Iterator[Measured]:
    """Speeds of the clusters that are printed, of the physical preset."""
    for row in published("cluster-design"):
        title, _, both = row["name"].partition(": ")
        first, _, other = both.partition(" over ")
        if row["name"] == AVERAGE:
            yield AVERAGE, fmean(_speed("C0", model) for model in CLUSTER_MODELS.values())
        elif other in ("A0", "A1"):
            model = CLUSTER_MODELS[title]
            yield row["name"], _speed(first, model) / _speed(other, model)


def _speed(cluster: str, model: str) -> float:
    """Speed of a cluster in Fig. 15 [1]."""
    whole = model == CLUSTER_MODELS["Transformer-1T"]
    return speed(cluster, model, FIG_15_BATCH if whole else None)


@cache
def speed(cluster: str, model: str, batch: int | None = None) -> float:
    """Speed of a cluster of Table III over that of A0 [1].

    Of the recommendation model it is that of eight instances on 64 GPUs. Without a batch it is that
    of the model's file, or 32,768 samples.

    Examples
    --------
    >>> round(speed("C2", "transformer-1t"), 2), round(speed("C2", "dlrm-1.2t"), 2)
    (9.88, 7.42)
    """
    return _work_s("A0", model, batch) / _work_s(cluster, model, batch)


def _work_s(cluster: str, model: str, batch: int | None) -> float:
    """Time of an iteration, of the recommendation model times its GPUs [s]."""
    held, bytes_per_s = MEMORIES[int(cluster[1])]
    on = replace(
        ACCELERATORS.load(CHIPS[cluster[0]]), expanded_bytes=held, expanded_bytes_per_s=bytes_per_s
    )
    whole = model == CLUSTER_MODELS["Transformer-1T"]
    gpus = 8 * PODS if whole else FEWER_GPUS if held else max(INSTANCE_GPUS)
    case = WORKLOADS.load(model), ITERATION_MODELS.load("comet")
    training = TrainedModel.make(on, *case, batch=batch if whole or batch else 32_768)
    levels = (
        Level("switch", on.hb_size, on.hb_bytes_per_s),
        Level("switch", gpus // on.hb_size, on.network_bytes_per_s),
    )
    return search_plans(training, levels).best.iteration_time_s * (1 if whole else gpus)


CXL_LANES, CXL_BITS_PER_S = 32, 64e9
"""Lanes of the paper's expanded memory, and what one sends each way [bit/s]."""
