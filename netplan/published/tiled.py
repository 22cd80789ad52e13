"""Checks against PALM: its published code, Tables I, IV, V, VII, Eq. 6, Fig. 6, 7, 9, 10, 12.

Source: Fang et al., PALM: A Efficient Performance Simulator for Tiled Accelerators with Large-scale
Model Training (arXiv:2406.03868), and its code (github.com/fangjh21/PALM). The runs on GPUs are
those of Narayanan et al., Megatron-LM (arXiv:2104.04473), Table 1, which stand beside netplan's own
simulation, too.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from math import ceil, sqrt
from typing import NamedTuple

from netplan.published.checks import Check, Measured, check, published, suite
from netplan.questions.simulate import simulate
from netplan.simulation.outcome import SimulationOutcome
from netplan.simulation.ranks import Groups
from netplan.simulation.run import simulate_pipelines
from netplan.simulation.tasks import Burst, Message, Pass, Pipeline
from netplan.topologies.families.tiles import TileOrder
from netplan.workloads.models import MODELS, Model

PAPER = "palm-paper"
MODELS_ON_THE_WAFER = ("t-18b", "t-76b", "t-145b")
CORES, STAGES, STAGE_CORES = 320, 20, 16
"""The wafer of Table VI, and the baseline of Sec. V-B: a tile of 4 x 4 cores is a stage [1]."""

TENSOR_DEGREES = (1, 2, 4, 8, 16)
MICROBATCHES = (1, 2, 4, 8)
"""Sequences of a microbatch at which Megatron-LM's runs are simulated; it prints none [1]."""


REPLACED = {
    "tiles": "fabric.sizes",
    "channel": "fabric.tile.channel_bytes_per_s",
    "sram": "accelerator.sram_bytes",
    "factor": "iteration-model.memory.stationary_factor",
    "border": "fabric.link_bytes_per_s",
    "handover": "iteration-model.communication.handover",
    "adapters": "iteration-model.communication.adapters",
    "broken_rings": "iteration-model.communication.broken_rings",
}
"""Values of files that runs on the wafer replace, by what they are called here."""

TABLE_VI_SRAM, TABLE_VI_CHANNEL = "3.75e6", "64e9"
"""60 MB and 256 GB/s a tile of Table VI: of each of 16 cores [B], of each of 4 channels [B/s]."""

NO_ACCESSES = "1e-9"
"""Stationary factor at which memory accesses take next to nothing [1]."""


class _TableRun(NamedTuple):
    """A run of Table IV."""

    model: str
    tensor: int
    data: int
    pipeline: int
    flops_per_gpu: float

    @property
    def gpus(self) -> int:
        """GPUs of the run [1]."""
        return self.tensor * self.data * self.pipeline

    @property
    def fixed(self) -> dict[str, int]:
        """Degrees, as questions take them."""
        return {"tensor": self.tensor, "data": self.data, "pipeline": self.pipeline}


@cache
def _runs() -> tuple[_TableRun, ...]:
    """Degrees of Table IV, and FLOP/s of a GPU that Megatron-LM prints."""
    return tuple(
        _TableRun(
            row["model"],
            int(row["tensor"]),
            int(row["data"]),
            int(row["pipeline"]),
            1e12 * float(row["tflops_per_gpu"]),
        )
        for row in published("tiled-runs")
    )


@suite("tiled")
def tiled_checks() -> Iterator[Measured | Check]:
    """All checks of PALM, in the order of their table."""
    parts = (_published_code, _table_iv, _table_vii, _table_i, _communication, _fig_10)
    for part in (*parts, _fig_10_by_maps, _fig_9, _adapters, _adapters_on_the_mesh, _table_v):
        yield from part()


@cache
def _on_gpus(run: _TableRun) -> float:
    """Sequences a second of the published code on GPUs [1/s]."""
    return simulate(
        PAPER,
        gpus=max(run.gpus, 16),
        fabric="palm-gpu",
        accelerator="palm-a100",
        model=run.model,
        fixed=run.fixed,
    ).found.sequences_per_s


def _on_wafer(
    model: str,
    tensor: int = 8,
    placement: TileOrder | str = "snake",
    groups: Groups = "near",
    **replaced: str,
) -> float:
    """Sequences a second of the published code on the wafer [1/s]."""
    return _wafer_run(model, tensor, placement, groups, **replaced).sequences_per_s


@cache
def _wafer_run(
    model: str, tensor: int, placement: str = "snake", groups: Groups = "near", **replaced: str
) -> SimulationOutcome:
    """A run of the published code on the wafer, with values of `REPLACED` in place of its own."""
    return simulate(
        PAPER,
        gpus=CORES,
        fabric="palm-wafer",
        accelerator="palm-wafer-core",
        model=model,
        placement=placement,
        groups=groups,
        fixed={"tensor": tensor, "data": STAGE_CORES // tensor, "pipeline": STAGES},
        overrides={REPLACED[name]: text for name, text in replaced.items()},
    ).found


def _published_code() -> Iterator[Measured]:
    """Throughputs of the published code, run as it is."""
    for run in _runs():
        yield f"{run.model.upper()} on GPUs: sequences/s of the published code", _on_gpus(run)
    for model in MODELS_ON_THE_WAFER:
        yield f"{model.upper()} on the wafer: sequences/s of the published code", _on_wafer(model)


def measured_per_s(model: str, gpus: int, flops_per_gpu: float, *, whole: bool = True) -> float:
    """Sequences a second of a run whose GPUs do so many FLOP/s each, with full recomputation [1/s].

    A sequence takes 96 S L H^2 (1 + S/(6H) + V/(16LH)) FLOP; the paper has the first term alone.
    Source: Megatron-LM (arXiv:2104.04473), Eq. 3.

    Examples
    --------
    T-18B on 256 GPUs, 135 TFLOP/s each; and without attention scores and vocabulary:

    >>> round(measured_per_s("t-18b", 256, 135e12), 2)
    108.94
    >>> round(measured_per_s("t-18b", 256, 135e12, whole=False), 3)
    116.415
    """
    spec = MODELS.load(model)
    length, layers, hidden = spec.sequence_length, spec.layers, spec.hidden_size
    more = length / (6 * hidden) + spec.vocabulary / (16 * layers * hidden)
    sequence_flops = 96.0 * length * layers * hidden**2 * (1 + more if whole else 1)
    return gpus * flops_per_gpu / sequence_flops


def _printed() -> dict[str, float]:
    """Numbers of the paper's tables by name."""
    return {row["name"]: float(row["expected"]) for row in published("tiled") if not row["low"]}


def _table_iv() -> Iterator[Measured]:
    """Runs on GPUs: PALM's column, that of Megatron-LM, the same corrected, and the error."""
    for run in _runs():
        yield f"{run.model.upper()} on GPUs: sequences/s by PALM", _on_gpus(run)
    for whole, name in ((False, ""), (True, ", corrected")):
        for run in _runs():
            per_s = measured_per_s(run.model, run.gpus, run.flops_per_gpu, whole=whole)
            yield f"{run.model.upper()}: published sequences/s{name}", per_s
    printed = _printed()
    for run in _runs():
        title = run.model.upper()
        palm = printed[f"{title} on GPUs: sequences/s by PALM"]
        error = 1 - palm / printed[f"{title}: published sequences/s"]
        yield f"{title}: error of PALM, %", 100 * error


def _table_vii() -> Iterator[Measured]:
    """Runs on the wafer: PALM's column, the GPUs' by compute power, and the gap."""
    printed, runs = _printed(), {run.model: run for run in _runs()}
    for model in MODELS_ON_THE_WAFER:
        yield f"{model.upper()} on the wafer: sequences/s by PALM", _on_wafer(model)
    for model in MODELS_ON_THE_WAFER:
        on_gpus = printed[f"{model.upper()}: published sequences/s"]
        scaled = on_gpus / (runs[model].gpus / STAGE_CORES)
        yield f"{model.upper()} on the wafer: published sequences/s", scaled
    for model in MODELS_ON_THE_WAFER:
        where = f"{model.upper()} on the wafer"
        palm = printed[f"{where}: sequences/s by PALM"]
        gap = palm / printed[f"{where}: published sequences/s"] - 1
        yield f"{where}: gap of PALM, %", 100 * gap


def _table_i() -> Iterator[Measured]:
    """SRAM over compute of five chips, hops and bandwidths of those that say them."""
    for row in published("tiled-chips"):
        ratio = float(row["sram_mb"]) / float(row["tflops"])
        yield f"{row['chip']}: SRAM over compute, MB per TFLOP/s", ratio
    for row in published("tiled-chips"):
        if row["columns"]:  # memory at two edges: the middle column is farthest from both
            yield f"{row['chip']}: most hops to memory", str(int(row["columns"]) // 2)
    for row in published("tiled-chips"):
        if row["link_gb_per_s"]:
            ratio = float(row["link_gb_per_s"]) / float(row["memory_gb_per_s"])
            yield f"{row['chip']}: links over memory bandwidth", ratio


def sent_bytes(model: Model, microbatch: int, tensor: int) -> float:
    """What a stage of 16 cores sends for a layer and microbatch: Eq. 6 of PALM [B].

    8 B S H N_m / N + 24 H^2 / N_m with N = 16, least at N_m = sqrt(3 H N / (B S)).
    """
    hidden, tokens = model.hidden_size, microbatch * model.sequence_length
    return 8 * tokens * hidden * tensor / STAGE_CORES + 24 * hidden**2 / tensor


def _communication() -> Iterator[Measured]:
    """The degree at which least is sent, and what sharing a link costs."""
    model = MODELS.load("t-145b")
    microbatch = model.batch // STAGES
    tokens = microbatch * model.sequence_length
    yield "tensor degree of least communication", sqrt(3 * model.hidden_size * STAGE_CORES / tokens)
    best = min(TENSOR_DEGREES, key=lambda tensor: sent_bytes(model, microbatch, tensor))
    yield "tensor degree of least communication, whole", str(best)
    message = Message((0,), 1.0)
    below = [100 * (1 - message.seconds / _simulated_s([(message,) * some])) for some in (1, 2, 5)]
    yield "two equal messages on one link: analytical below simulated, %", below[1]
    # Of tasks that share no link, and of five on one.
    yield "five tasks: analytical below simulated, %", f"{below[0]:.0f} to {below[2]:.0f}"
    for tiles in (4, 16):
        step = [Message((tile,), 1 / tiles) for tile in range(tiles)]
        steps = 2 * (tiles - 1)
        name = f"ring all-reduce on {tiles} tiles: simulated off the closed form, %"
        yield name, 100 * abs(_simulated_s([step] * steps) / (steps / tiles) - 1)


def _simulated_s(bursts: Sequence[Sequence[Message]]) -> float:
    """Time of messages that are sent at once, burst after burst [s]."""
    links = 1 + max(link for burst in bursts for message in burst for link in message.links)
    whole = Pass(((tuple(Burst(tuple(burst)) for burst in bursts),),))
    pipeline = Pipeline(1, 1, (whole,), (), (), (), trains=False)
    return simulate_pipelines([pipeline], links=links).iteration_time_s


ADAPTERS = (1, 2, 3, 4)
"""Adapter tiles of a group in Fig. 12 [1]."""


def adapter_times(tiles: int, adapters: int, *, ring: bool) -> tuple[float, float]:
    """Times of both ways from a group of tiles to one of as many: Eq. 7 and 8 of PALM [1].

    In units of what all tiles add up over the rate of a link, which every tile has of its own. The
    paper prints the terms alone: here an all-reduce takes 2 (p - 1)/p on a ring and 2 (p - 1) where
    the sum is passed on from tile to tile; each adapter takes or gives to its share of the tiles,
    one after the other; what goes between the groups takes 1.

    Parameters
    ----------
    tiles, adapters
        Tiles of a group, p, and those that send to the other one [1].
    ring
        Whether the tiles of a group are a ring.

    Returns
    -------
    tuple of float
        All-reduce at the source, then a broadcast (Eq. 7); sums of the adapters at the source, and
        their all-reduce at the destination (Eq. 8).

    Examples
    --------
    2 x 11/12 + 1 + 11, and 11 + 1 + 0 + 11:

    >>> [round(time, 3) for time in adapter_times(12, 1, ring=True)]
    [13.833, 23.0]
    """
    spread = ceil(tiles / adapters) - 1.0
    reduced = 2.0 * (tiles - 1) / (tiles if ring else 1)
    of_adapters = 2.0 * (adapters - 1) / adapters
    return reduced + 1 + spread, spread + 1 + of_adapters + spread


def _adapters() -> Iterator[Measured]:
    """Which way is the shorter one, on rings and where a tile more breaks them."""
    for name, tiles, ring in (
        ("all-reduce at the source (Eq. 7) over adapters (Eq. 8), 12 tiles", 12, True),
        ("adapters (Eq. 8) over all-reduce at the source (Eq. 7), 13 tiles", 13, False),
    ):
        ratios = []
        for adapters in ADAPTERS:
            first, second = adapter_times(tiles, adapters, ring=ring)
            ratios.append(second / first if ring else first / second)
        yield name, f"{min(ratios):.2f} to {max(ratios):.2f}"


def _adapters_on_the_mesh() -> Iterator[Measured]:
    """The same two ways as messages of BERT-base on cores of the wafer, which share links."""
    for tiles, name, better in ((12, "ring-of-12", "source"), (13, "line-of-13", "adapters")):
        ratios = []
        for adapters in ADAPTERS:
            times_s = {
                rule: _hand_over_s(name, tiles, handover=rule, adapters=str(adapters))
                for rule in ("source", "adapters")
            }
            other = "adapters" if better == "source" else "source"
            ratios.append(times_s[other] / times_s[better])
        order = "Eq. 7 over Eq. 8" if better == "source" else "Eq. 8 over Eq. 7"
        yield f"{order} on the mesh, {tiles} tiles", f"{min(ratios):.2f} to {max(ratios):.2f}"


def _hand_over_s(placement: str, tiles: int, **replaced: str) -> float:
    """Time of a hand-over between two groups of tiles, all links of one rate [s]."""
    alike = replaced | {"border": "1024e9", "broken_rings": "line"}
    run = simulate(
        PAPER,
        gpus=CORES,
        fabric="palm-wafer",
        accelerator="palm-wafer-core",
        model="bert-base",
        batch=2,
        placement=placement,
        fixed={"tensor": tiles, "microbatch": 1},
        overrides={REPLACED[name]: text for name, text in alike.items()},
    )
    return run.found.handovers[0].time_s


def _table_v() -> Iterator[Measured]:
    """PALM's samples a second and those published, beside netplan's own mapping; PALM's errors."""
    printed = _printed()
    for title, model in (("ResNet50", "resnet-50"), ("BERT-base", "bert-base")):
        asked = {"model": model, "inference": True, "fixed": {"microbatch": 1}}
        per_s = simulate("grayskull-paper", **asked).found.sequences_per_s
        name = f"{title} on Grayskull"
        yield f"{name}: samples/s", per_s
        yield f"{name}: published samples/s", per_s
        palm, measured = printed[f"{name}: samples/s"], printed[f"{name}: published samples/s"]
        yield f"{name}: error of PALM, %", 100 * (palm / measured - 1)


def _fig_10() -> Iterator[Measured]:
    """S-shaped and line, near and strided groups, and degrees of tensor parallelism."""
    for model in MODELS_ON_THE_WAFER:
        gain = _on_wafer(model) / _on_wafer(model, placement="line") - 1
        yield f"{model.upper()}: S-shaped over line, %", 100 * gain
    for model in MODELS_ON_THE_WAFER:
        gain = _on_wafer(model) / _on_wafer(model, groups="strided") - 1
        yield f"{model.upper()}: near tensor groups over strided ones, %", 100 * gain
    orders: tuple[TileOrder, ...] = ("snake", "line")
    kinds: tuple[Groups, ...] = ("near", "strided")
    every = [_on_wafer("t-145b", *mapping) for mapping in product(TENSOR_DEGREES, orders, kinds)]
    yield "T-145B: best over worst mapping", max(every) / min(every)
    best = max(TENSOR_DEGREES, key=lambda tensor: _on_wafer("t-145b", tensor))
    yield "T-145B: tensor degree of most sequences/s", str(best)


def _fig_10_by_maps() -> Iterator[Measured]:
    """The claims of Fig. 10 with the lines of the text, the table's memory, and Eq. 7."""
    as_printed = {"tiles": "[4, 5]", "sram": TABLE_VI_SRAM}
    for model in MODELS_ON_THE_WAFER:
        snake, lines = (
            _on_wafer(model, 8, placement, "near", **as_printed)
            for placement in ("snake", "palm-lines")
        )
        gain = snake / lines - 1
        yield f"{model.upper()}: S-shaped over lines of 16 cores, SRAM of Table VI, %", 100 * gain
    rates = [_on_wafer("t-145b", tensor, channel=TABLE_VI_CHANNEL) for tensor in TENSOR_DEGREES]
    yield "T-145B: best over worst tensor degree, memory of Table VI", max(rates) / min(rates)
    best = max(TENSOR_DEGREES, key=lambda tensor: _on_wafer("t-145b", tensor, handover="source"))
    yield "T-145B: tensor degree of most sequences/s, hand-over of Eq. 7", str(best)


def _fig_9() -> Iterator[Measured]:
    """The tensor degree at which links of the network are busy for the least time."""
    for name, replaced in ((", memory aside", {"factor": NO_ACCESSES}), ("", {})):
        busy_s = {
            tensor: _network_busy_s(_wafer_run("t-145b", tensor, "snake", "near", **replaced))
            for tensor in TENSOR_DEGREES
        }
        yield (
            f"T-145B: tensor degree of the least busy network{name}",
            str(min(TENSOR_DEGREES, key=busy_s.__getitem__)),
        )


def _network_busy_s(run: SimulationOutcome) -> float:
    """How long a link between cores is busy, on average [s]."""
    groups = [group for group in run.groups if group.group != "memory"]
    directions = sum(group.directions for group in groups)
    share = sum(group.directions * group.utilisation for group in groups) / directions
    return share * run.iteration_time_s


def megatron_checks() -> Iterator[Check]:
    """Runs of Megatron-LM against netplan's own simulation, by the catalog's efficiencies."""
    for run in _runs():
        measured = measured_per_s(run.model, run.gpus, run.flops_per_gpu)
        rates = [_simulated_per_s(run, microbatch) for microbatch in MICROBATCHES]
        errors = [per_s / measured - 1 for per_s in rates]
        texts = [
            f"{per_s:.1f} ({100 * error:+.0f} %)"
            for per_s, error in zip(rates, errors, strict=True)
        ]
        yield check(
            f"{run.model.upper()} on {run.gpus:,} A100, simulated: sequences/s at microbatches of"
            f" {', '.join(map(str, MICROBATCHES))}",
            "Megatron-LM (arXiv:2104.04473), Table 1",
            f"{measured:.1f}",
            ", ".join(texts),
            met=min(errors) <= 0 <= max(errors),
            gap=max(errors, key=abs),
        )


def _simulated_per_s(run: _TableRun, microbatch: int) -> float:
    """Sequences a second of a run in nodes of eight on a rail-optimized fabric [1/s]."""
    return simulate(
        "rail-only-paper",
        gpus=run.gpus,
        radix=64,
        hb_size=8,
        accelerator="a100-80gb",
        iteration_model="4d",
        batch=MODELS.load(run.model).batch,
        model=run.model,
        recompute="full",
        embedding=True,
        lm_head=True,
        fixed={**run.fixed, "microbatch": microbatch, "interleave": 1},
    ).found.sequences_per_s
