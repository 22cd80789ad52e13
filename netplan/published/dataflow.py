"""DFModel: solver logs, Table VI, Fig. 9, its user guide; design spaces; serving and drafts.

Sources: Ko et al., DFModel: Design Space Optimization of Large-Scale Systems Exploiting Dataflow
Mappings (ACM TACO 2024; arXiv:2412.16432), and the logs, input files and user guide of its public
code.

*Design spaces* (Sec. VI-C, VII-E, VIII-C): most inputs of these studies are not printed, so a ratio
is a trend by its direction (above or below 1), those of the dragonfly and of the TPU within a
factor of 1.5; the gap stands beside it. All are ratios of means: of utilisations, or of FLOP/s a
dollar and a watt with what is assumed of parts without a price. The studies
``dataflow-design-space``, ``sram-vs-dram`` and ``3d-memory`` run the same points.

*Serving* (Sec. VIII-A and B): Llama 3 8B on 16 chips, and drafts for Llama 3 405B on them. One
throughput is printed with what was measured; the rest are sentences about figures without
values. Prompts, contexts, windows and acceptances are not printed either: a sentence passes if it
holds at all points below. The study ``speculative-decoding`` runs the points of Fig. 21.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache, partial
from itertools import pairwise, product
from statistics import fmean
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from netplan.answers.map_answer import MapResult
from netplan.arrays import Amount, Floats, Ints
from netplan.costing import dfmodel
from netplan.inputs.choices import Mode, Scheme
from netplan.performance.mapping.chip import (
    ChipPipeline,
    MappingOptions,
    map_graph,
    pipeline_throughput,
)
from netplan.performance.mapping.fusion import kernel_by_kernel
from netplan.performance.mapping.network import ChipNetwork, equal_levels, read_dimensions
from netplan.performance.mapping.partitions import FusionProblem, PartitionTimes, partition_times
from netplan.performance.serving.closed_form import (
    PassTime,
    ServingPhase,
    Sizes,
    TensorGroup,
    TokenPass,
    decode,
    pass_time,
    prefill,
)
from netplan.performance.serving.speculation import PassSeconds, speculate
from netplan.published.checks import Check, Measured, check, published, suite
from netplan.questions.map import map as ask_map
from netplan.records import replace
from netplan.scenarios.reading import sizing_on
from netplan.topologies.build import build_fabric
from netplan.topologies.specs import FABRICS
from netplan.traffic.published_topology import Dimension
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.graph_sharding import best_sharding
from netplan.workloads.model_graphs import layer_graph
from netplan.workloads.models import MODELS
from netplan.workloads.technologies import LINKS, MEMORIES

VENDOR = "AddPrev..V,QK..LN2,FFN0..GeLU,FFN1..Add2"
DESCRIBED = "AddPrev..V,QK..AV,Proj..GeLU,FFN1..Add2"
ZIONEX = "ring-8-mesh-16"
TABLE_V = {"H100": "h100-80gb", "TPU v4": "tpu-v4", "SN30": "sn30", "WSE-2": "wse-2"}
MB = {"H100": 2**20, "TPU v4": 2**20, "SN30": 2**20, "WSE-2": 1e6}
"""Bytes of an MB: of the first three as their makers and the input files count SRAM [B]."""
GUIDE_DIE_USD = 16522.25023
"""Price of an SN30 without memory, of the user guide's example [USD]."""
GUIDE_UTILISATION = 0.9
"""Share of the peak that kernels reach there [1]."""


@suite("dataflow")
def dataflow_checks() -> Iterator[Measured | Check]:
    """All checks of the paper."""
    for part in (_kernels, _partitions, _table_vi, _other_families, _guide):
        yield from part()
    for name, catalog_name in TABLE_V.items():
        chip = ACCELERATORS.load(catalog_name)
        yield f"Table V: {name}, TFLOP/s", chip.tensor_flops_per_s / 1e12
        yield f"Table V: {name}, MB of SRAM", chip.sram_bytes / MB[name]
    # Powers of the four dies of Fig. 9, by the fit to their peaks of Table V.
    for name, tera in (("H100", 993), ("TPU v4", 275), ("SN30", 614), ("WSE-2", 7500)):
        yield f"power of the die by the fit: {name}, W", dfmodel.die_power_w(tera * 1e12)


def _kernels() -> Iterator[Measured]:
    """Cases A1 and A2: a trillion parameters, kernel by kernel."""
    mapped = ask_map(
        model="gpt-1t", accelerator="a100-80gb", tensor=8, sequence_tile=32, direction="both"
    ).found
    times_ns = {row.name: 1e9 * row.time_s for row in mapped.kernels}
    for name in layer_graph(MODELS.load("gpt-1t"), 8).names:
        yield f"GPT 1T on A100: {name}, ns", times_ns[name]
    whole = layer_graph(MODELS.load("gpt-1t"), 1, "both")
    yield "sharding of a layer: sent at the optimum, B", best_sharding(whole).volume_bytes
    without = sum(time_ns for name, time_ns in times_ns.items() if not name.endswith("_u"))
    yield "GPT 1T on A100: 35 kernels without updates, ns", without
    yield "GPT 1T on A100: interval of a layer, ns", 1e9 * mapped.totals.interval_s
    for chips, interval_ns, batches in (
        ("3,072 A100", 46_067_936.7, 512),
        ("3,840 H100", 31_394_007.9, 8192 / 6),
    ):
        pipeline = ChipPipeline(128, stages=64, replicas=6, microbatches=batches)
        per_s = pipeline_throughput(interval_ns / 1e9, pipeline).per_s
        yield f"GPT 1T on {chips}: sequences/s at the published interval", per_s


_ask_175b = partial(ask_map, model="gpt-175b", accelerator="sn10")


def _partitions() -> Iterator[Measured]:
    """Cases A3 and A4: a layer of GPT 175B on eight SN10."""
    ring = _ask_175b(tensor=8, sequence_tile=32, micro_batch=42, cut=VENDOR).found
    torus = _ask_175b(tensor=4, sequence_tile=64, micro_batch=60, pipeline=2).found
    for what, mapped in (("8 SN10, vendor's mapping", ring), ("4 x 2 SN10, optimum", torus)):
        for number, row in enumerate(mapped.partitions, start=1):
            yield f"GPT 175B on {what}: partition {number}, us", 1e6 * row.time_s
        if mapped is ring:
            yield f"GPT 175B on {what}: set-up, us", 1e6 * mapped.totals.setup_s
        yield f"GPT 175B on {what}: interval, ns", 1e9 * mapped.totals.interval_s
        yield f"GPT 175B on {what}: sequences/s", mapped.totals.throughput_per_s


def _partitions_s(mapped: MapResult) -> float:
    """All partitions without set-up [s]."""
    return sum(row.time_s for row in mapped.partitions)


PRINTED_BYTES_PER_S = 200e9
"""Rate of an SN10's memory that Sec. VII prints, where the input files have 100 GB/s [B/s]."""


def _base_times(memory_bytes_per_s: float | None = None) -> PartitionTimes:
    """Kernels of a layer one by one, weights in the memory term."""
    chip = ACCELERATORS.load("sn10")
    chip = replace(chip, memory_bytes_per_s=memory_bytes_per_s or chip.memory_bytes_per_s)
    ring, options = ChipNetwork(chip.hb_bytes_per_s), MappingOptions(sequence_tile=32)
    fusion = map_graph(
        layer_graph(MODELS.load("gpt-175b"), 8),
        chip,
        lambda kernel: ring.group_s("all_reduce", kernel.all_reduce_bytes, 8),
        options,
    )
    problem = replace(fusion.problem, weights_in_memory_term=True)
    return kernel_by_kernel(problem).times


def _least_of_s(problem: FusionProblem, partitions: int) -> float:
    """The least time, without set-up, of exactly so many cuts of the order [s]."""
    count = problem.graph.count
    ends = np.arange(count + 1)
    start, end = np.nonzero(ends[:, None] < ends)
    kernels = np.arange(count)
    times = partition_times(problem, (kernels >= start[:, None]) & (kernels < end[:, None]))
    between = np.full((count + 1, count + 1), np.inf)
    between[start, end] = np.where(times.fits, times.time_s, np.inf)
    least = between
    for _ in range(partitions - 1):
        least = (least[:, :, None] + between[None]).min(axis=1)
    return float(least[0, count])


def _table_vi() -> Iterator[Measured]:
    """Speed-ups from kernel by kernel to a torus of 4 x 2."""
    base_s = float(_base_times().time_s.sum())
    vendor = _ask_175b(tensor=8, sequence_tile=32, micro_batch=42, cut=VENDOR).found
    yield "vendor's mapping over kernel by kernel", base_s / vendor.totals.interval_s
    for tile in (32, 64, 128):
        times_s = [
            _partitions_s(_ask_175b(tensor=8, sequence_tile=tile, cut=cut).found)
            for cut in (DESCRIBED, VENDOR)
        ]
        name = f"the mapping that is described over the vendor's, tiles of {tile}"
        yield name, times_s[1] / times_s[0]
    ask = partial(_ask_175b, tensor=8, sequence_tile=32, micro_batch=42)
    described, best = ask(cut=DESCRIBED).found, ask().found
    yield "optimum over the vendor's mapping", _partitions_s(vendor) / _partitions_s(best)
    yield from _partitions_of_four(vendor)
    torus = _ask_175b(tensor=4, sequence_tile=64, micro_batch=60, pipeline=2).found
    gained = torus.totals.throughput_per_s / vendor.totals.throughput_per_s
    yield "4 x 2 over the vendor's mapping", gained
    yield "4 x 2 over kernel by kernel", gained * base_s / vendor.totals.interval_s
    on_ring = vendor.totals.time_per_sequence_s / best.totals.time_per_sequence_s
    yield "4 x 2 over the optimum on a ring", gained / on_ring
    yield (
        "the mapping that is described over kernel by kernel",
        base_s / described.totals.interval_s,
    )
    steps = (vendor, described, best, torus)
    falling = [96 * base_s, *(mapped.totals.time_per_sequence_s for mapped in steps)]
    faster = all(slow > fast for slow, fast in pairwise(falling))
    yield "kernel by kernel, vendor's, described, optimum, 4 x 2: each faster", str(faster)


def _partitions_of_four(vendor: MapResult) -> Iterator[Measured]:
    """The best of as many partitions as the vendor has, and all of it at the printed rate."""
    rate = {"accelerator.memory_bytes_per_s": str(PRINTED_BYTES_PER_S)}
    ask = partial(_ask_175b, tensor=8, sequence_tile=32, micro_batch=42)
    vendors = {"": vendor, ", 200 GB/s": ask(cut=VENDOR, overrides=rate).found}
    for end, mapped in vendors.items():
        if mapped.fusion is not None:
            four_s = _least_of_s(mapped.fusion.problem, len(mapped.partitions))
            yield (
                f"best of four partitions over the vendor's mapping{end}",
                (_partitions_s(mapped) / four_s),
            )
    printed, base = vendors[", 200 GB/s"], _base_times(PRINTED_BYTES_PER_S)
    described = ask(cut=DESCRIBED, overrides=rate).found
    yield (
        "the mapping that is described over the vendor's, 200 GB/s",
        (_partitions_s(printed) / _partitions_s(described)),
    )
    over = "vendor's mapping over kernel by kernel"
    vendor_s = printed.totals.interval_s
    yield f"{over}, 200 GB/s", float(base.time_s.sum()) / vendor_s
    hidden = float((base.compute_s + base.memory_s + base.network_s).sum())
    yield f"{over} that hides nothing, 200 GB/s", hidden / vendor_s


def _other_families() -> Iterator[Measured]:
    """LINPACK on a ring of 8, and recommendation models on 128 A100."""
    overrides = {"accelerator.hb_bytes_per_s": "25e9"}
    linpack = ask_map(
        model="hpl-16k", accelerator="a100-40gb", gpus=8, mode="published-code", overrides=overrides
    )
    total_s = linpack.found.totals.interval_s
    yield "HPL of 16,384 on a ring of 8: all steps, ms", 1e3 * total_s
    for case, model, memory in (
        ("F", "dlrm-12t", {"memory_bytes_per_s": "400e9", "memory_bytes": str(192 * 2**30)}),
        ("A", "dlrm-793b", {}),
        ("I", "dlrm-332b", {}),
    ):
        totals = ask_map(
            model=model,
            accelerator="a100-40gb",
            gpus=128,
            fabric=ZIONEX,
            mode="published-code",
            overrides={f"accelerator.{key}": value for key, value in memory.items()},
        ).found.totals
        yield f"DLRM-{case} on 128 A100: interval, ns", 1e9 * totals.interval_s
        if case == "F":
            yield "DLRM-F on 128 A100: micro-batches/s", totals.throughput_per_s
    chip = ACCELERATORS.load("a100-40gb")
    levels = build_fabric(FABRICS.load(ZIONEX), sizing_on(chip, gpus=128, radix=64)).levels
    network = [Dimension.of(level) for level in levels]
    price = dfmodel.published_amount(0.0, chip.memory_bytes_per_s, network, _units("price"))
    yield "DLRM-A: price without chips, USD", price


def _units(what: dfmodel.Amounts) -> dfmodel.Units:
    """What the guide's DDR4 and PCIe cost, or draw."""
    return dfmodel.Units.of(MEMORIES.load("ddr4"), LINKS.load("pcie4"), what, None)


def _guide() -> Iterator[Measured]:
    """The example of the user guide: 1,024 SN30, TP 8 by PP 128, a batch of 3,072."""
    model, stages, batch = MODELS.load("gpt-1t"), 128, 3072
    flops = layer_graph(model, 1, "both").flops.sum() * model.layers * batch
    yield "GPT 1T on 1,024 SN30: work of a batch, FLOP", float(flops)
    chip = ACCELERATORS.load("sn30")
    torus = [Dimension("ring", size, chip.network_bytes_per_s) for size in (8, stages)]
    rate = chip.memory_bytes_per_s
    price = dfmodel.published_amount(GUIDE_DIE_USD, rate, torus, _units("price"))
    power = dfmodel.published_amount(chip.power_w, rate, torus, _units("energy"))
    yield "GPT 1T on 1,024 SN30: price, USD", price
    yield "GPT 1T on 1,024 SN30: power, W", power
    for sequences, end in ((1, ""), (4, ", micro-batches of four")):
        mapped = ask_map(
            model="gpt-1t",
            accelerator="sn30",
            tensor=8,
            pipeline=stages,
            batch=batch,
            micro_batch=sequences,
            direction="both",
            compute_utilisation=GUIDE_UTILISATION,
            mode="published-code",
        ).found
        yield f"GPT 1T on 1,024 SN30: utilisation{end}", mapped.totals.utilisation


CHIPS = 1024
CHIP_NAMES = ("h100-80gb", "tpu-v4", "sn30", "wse-2")
DIMENSIONS = ("ring-ring", "ring-ring-ring", "mesh-mesh", "mesh-switch", "switch-switch")
MEMORY_NAMES, LINK_NAMES = ("ddr4", "hbm3"), ("pcie4", "nvlink4")
FEW_DIMENSIONS = ("ring-ring", "mesh-mesh")
"""Networks on which checks map the language model; its study has all five."""

SRAM_BYTES, MEMORY_BYTES_PER_S = (150e6, 300e6, 500e6), (100e9, 300e9, 600e9)
EXECUTIONS = ("fused", "kernel-by-kernel")
SHARES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
"""Shares of the 2,080 units of Fig. 22 that compute."""

UNITS_FLOPS_PER_S, UNITS_BYTES = 2 * 640e12, 2 * 545_259_520
STACKS = ("ddr-2d", "hbm-2.5d", "stacked-3d")


class System(NamedTuple):
    """One of the 80 systems, and what it runs."""

    model: str
    dimensions: str
    accelerator: str
    memory: str
    link: str


def _rises(values: ArrayLike) -> str:
    """Whether values rise along their last axis everywhere."""
    return str(bool((np.diff(np.asarray(values)) > 0).all()))


Values = Mapping[System, float]
"""Utilisation of each system [1], or its FLOP/s a dollar or a watt."""


@suite("dataflow")
def trend_checks() -> Iterator[Measured | Check]:
    """All trends, and what cannot be computed."""
    used = {
        System(model, *parts): utilisation(System(model, *parts))
        for model in ("gpt-1t", "dlrm-793b", "fft-1t", "hpl-5m")
        for parts in _parts(FEW_DIMENSIONS if model in ("gpt-1t", "hpl-5m") else DIMENSIONS)
    }
    yield from design_space_ratios(used)
    groups = {
        system: utilisation(system, GROUP)
        for system in (System("gpt-1t", *parts) for parts in _parts(DIMENSIONS))
    }
    yield from ratios_named(LAST, groups)
    exchanging = {
        system: utilisation(system, mode="corrected")
        for model in ("dlrm-793b", "fft-1t")
        for system in (System(model, *parts) for parts in _parts(DIMENSIONS))
    }
    yield from ratios_named(EVERY_LINK, exchanging)
    yield from efficiency_checks(used)
    yield from fig_19_ratios(_fig_19())
    yield from fig_22_shares(_fig_22())


def _parts(dimensions: Iterable[str]) -> Iterable[tuple[str, str, str, str]]:
    """Parts of the systems with some networks."""
    return product(dimensions, CHIP_NAMES, MEMORY_NAMES, LINK_NAMES)


_ask = partial(ask_map, mode="published-code", compute_utilisation=GUIDE_UTILISATION)


GROUP = 8
"""Chips that share a layer of GPT 1T in both of its logs and in the user guide [1]."""

LAST = f", TP {GROUP}"
"""Ends names of ratios with such groups."""


EVERY_LINK = ", every link"
"""Ends names of ratios whose exchanges use every link of a network."""


@cache
def utilisation(
    system: System, tensor: int | None = None, *, mode: Mode = "published-code"
) -> float:
    """Utilisation of 1,024 chips, of a language model with groups of so many or the fastest [1].

    LINPACK always has netplan's own broadcasts, and the fastest block: the published broadcast
    serves one chip after the other.

    Examples
    --------
    >>> round(utilisation(System("fft-1t", "mesh-mesh", "sn30", "hbm3", "nvlink4")), 4)
    0.0183
    """
    language, solution = system.model == "gpt-1t", system.model == "hpl-5m"
    answer = ask_map(
        **system._asdict(),
        gpus=CHIPS,
        compute_utilisation=GUIDE_UTILISATION,
        mode="corrected" if solution else mode,
        block="fastest" if solution else None,
        tensor=tensor,
        direction="both" if language else "forward",
        batch=3072 if language else None,
        sequence_tile=32 if language else None,
        execution="kernel-by-kernel" if system.model == "dlrm-793b" else None,
    )
    return answer.found.totals.utilisation


class Ratio(NamedTuple):
    """Means over systems of a model: those with some values of a field, over those with others.

    Only systems with some values of one more field count, ``among``.
    """

    name: str
    model: str
    field: str
    first: Collection[str]
    other: Collection[str]
    among: tuple[str, Collection[str]]

    @classmethod
    def read(cls, row: Mapping[str, str]) -> "Ratio":
        """The ratio of a row of ``dataflow-ratios.csv``."""
        first, other, values = (row[name].split() for name in ("first", "other", "values"))
        return cls(row["name"], row["model"], row["field"], first, other, (row["among"], values))

    def sides(self, systems: Iterable[System]) -> tuple[list[System], list[System]]:
        """Systems on both sides of the ratio."""
        field, values = self.among
        mine = [
            system
            for system in systems
            if system.model == self.model and getattr(system, field) in values
        ]
        first, other = (
            [system for system in mine if getattr(system, self.field) in side]
            for side in (self.first, self.other)
        )
        return first, other

    def of(self, values: Values) -> float:
        """The ratio; KeyError without systems on both sides."""
        first, other = self.sides(values)
        if not (first and other):
            raise KeyError(self.field)
        return fmean(values[system] for system in first) / fmean(values[system] for system in other)


RATIOS = tuple(map(Ratio.read, published("dataflow-ratios")))
"""Ratios that Sec. VI-C prints, of utilisation, or of what it calls cost and power efficiency."""


def design_space_ratios(values: Values) -> Iterator[Measured]:
    """Ratios of utilisation of Sec. VI-C that these systems give.

    Raises
    ------
    KeyError
        If systems are missing.
    """
    printed = {row["name"] for row in published("dataflow")}
    models = {system.model for system in values}
    for ratio in RATIOS:
        if ratio.name in printed and ratio.model in models:
            yield ratio.name, ratio.of(values)
    solving = {system: value for system, value in values.items() if system.model == "hpl-5m"}
    others = [
        value
        for system, value in solving.items()
        if (system.accelerator, system.link) != ("wse-2", "pcie4")
    ]
    if not others:
        raise KeyError("hpl-5m")
    yield "HPL: least utilisation of all systems", min(solving.values())
    yield "HPL: least utilisation but of wafers on PCIe", min(others)


def ratios_named(end: str, values: Values) -> Iterator[Measured]:
    """Ratios of utilisation whose names end with what is special to these systems.

    Parameters
    ----------
    end
        ``LAST`` where eight chips share a layer of GPT 1T, ``EVERY_LINK`` where exchanges use every
        link.
    values
        Utilisation of each system [1].

    Raises
    ------
    KeyError
        If systems are missing.
    """
    printed = {row["name"] for row in published("dataflow")}
    for ratio in RATIOS:
        if (name := f"{ratio.name}{end}") in printed:
            yield name, ratio.of(values)


NAMED = {
    ("GPT 1T, PCIe: dragonfly over the others", "dollar"): (
        "GPT 1T: cost efficiency of the dragonfly over the other networks"
    )
}
"""Names of ratios of FLOP/s a dollar or a watt that are not made of those of the utilisation."""


def efficiency_checks(used: Values) -> Iterator[Check]:
    """Ratios of FLOP/s a dollar and a watt of whole systems, with what is assumed of parts.

    Parameters
    ----------
    used
        Utilisation of every system [1].
    """
    ratios = {ratio.name: ratio for ratio in RATIOS}
    measures: tuple[tuple[str, dfmodel.Amounts], ...] = (("dollar", "price"), ("watt", "energy"))
    for measure, what in measures:
        values = {
            system: utilised
            * ACCELERATORS.load(system.accelerator).tensor_flops_per_s
            / system_amount(system, what)
            for system, utilised in used.items()
        }
        for row in published("dataflow-efficiency"):
            got, printed = ratios[row["name"]].of(values), row[f"a_{measure}"]
            name = NAMED.get((row["name"], measure), f"{row['name']}, FLOP/s a {measure}")
            shown = f"{got:.{len(printed.partition('.')[2])}f}"
            met = (got > 1) == (float(printed) > 1)
            gap = got / float(printed) - 1
            yield check(name, "DFModel, Sec. VI-C", printed, shown, met=met, gap=gap)


def system_amount(system: System, what: dfmodel.Amounts) -> float:
    """Price or power of one of the 80 systems, with what is assumed of its parts [USD], or [W].

    Examples
    --------
    A die of 7,500 TFLOP/s draws 20,140 W by the fit, and is sold at 2.5 million dollars:

    >>> wafers = System("gpt-1t", "ring-ring", "wse-2", "ddr4", "pcie4")
    >>> round(system_amount(wafers, "price") / 1024), round(system_amount(wafers, "energy") / 1024)
    (2500375, 20175)
    """
    chip, memory = ACCELERATORS.load(system.accelerator), MEMORIES.load(system.memory)
    link, kinds = LINKS.load(system.link), read_dimensions(system.dimensions)
    levels = equal_levels(kinds, CHIPS, link.bytes_per_s)
    network = [Dimension.of(level) for level in levels]
    amounts = dfmodel.system_amounts(
        chip, memory, link, network, dfmodel.SYSTEM_PARTS.load("dfmodel-2024")
    )
    assert amounts is not None  # noqa: S101 - for types: all of their parts have an amount
    return (amounts.price_usd if what == "price" else amounts.power_w).base


Fig19 = Mapping[tuple[str, float, float], float]
"""Utilisation by execution, SRAM [B] and rate of the memory [B/s]."""


@cache
def _fig_19() -> Fig19:
    """GPT 175B on 4 x 2 chips of 300 TFLOP/s."""
    utilisations = {}
    for execution, sram, rate in product(EXECUTIONS, SRAM_BYTES, MEMORY_BYTES_PER_S):
        overrides = {
            "accelerator.tensor_flops_per_s": "300e12",
            "accelerator.sram_bytes": str(sram),
            "accelerator.memory_bytes_per_s": str(rate),
        }
        answer = _ask(
            model="gpt-175b",
            accelerator="sn10",
            link="pcie4",
            tensor=4,
            pipeline=2,
            sequence_tile=32,
            execution="fused" if execution == "fused" else "kernel-by-kernel",
            overrides=overrides,
        )
        utilisations[execution, sram, rate] = answer.found.totals.utilisation
    return utilisations


def fig_19_ratios(values: Fig19) -> Iterator[Measured]:
    """What Sec. VII-E says of SRAM and memory rate.

    Raises
    ------
    KeyError
        If points are missing.
    """
    gain = {
        (sram, rate): values["fused", sram, rate] / values["kernel-by-kernel", sram, rate]
        for sram, rate in product(SRAM_BYTES, MEMORY_BYTES_PER_S)
    }
    best = gain[SRAM_BYTES[-1], MEMORY_BYTES_PER_S[-1]]
    yield "Fig. 19: fused over kernel by kernel, most SRAM and memory rate", best
    yield "Fig. 19: fused over kernel by kernel, at most", max(gain.values())
    larger = [[values["fused", sram, rate] for sram in SRAM_BYTES] for rate in MEMORY_BYTES_PER_S]
    yield "Fig. 19: fused gains from SRAM", _rises(larger)
    faster = [
        [values["kernel-by-kernel", sram, rate] for rate in MEMORY_BYTES_PER_S]
        for sram in SRAM_BYTES
    ]
    yield "Fig. 19: kernel by kernel gains from memory rate", _rises(faster)


Fig22 = Mapping[tuple[str, float], float]
"""Throughput by memory and share of the chip that computes [1/s]."""


@cache
def _fig_22() -> Fig22:
    """GPT 100T on 1,024 chips of 2,080 units."""
    throughputs = {}
    for memory, share in product(STACKS, SHARES):
        overrides = {
            "accelerator.tensor_flops_per_s": str(round(share * UNITS_FLOPS_PER_S)),
            "accelerator.sram_bytes": str(round((1 - share) * UNITS_BYTES)),
        }
        answer = _ask(
            model="gpt-100t",
            accelerator="sn40l",
            link="sn40l-link",
            memory=memory,
            gpus=1024,
            dimensions="ring-ring",
            direction="both",
            batch=3072,
            sequence_tile=32,
            overrides=overrides,
        )
        throughputs[memory, share] = answer.found.totals.throughput_per_s
    return throughputs


def fig_22_shares(values: Fig22) -> Iterator[Measured]:
    """Shares of the chip that had best compute, by memory.

    Raises
    ------
    KeyError
        If points are missing.
    """
    best = [max(SHARES, key=lambda share: values[memory, share]) for memory in STACKS]
    yield "Fig. 22: a faster memory wants more of the chip to compute", _rises(best)
    for memory, share in zip(("2D DDR", "2.5D HBM", "3D memory"), best, strict=True):
        yield f"Fig. 22, {memory}: best share that computes", share


SERVING_CHIP, SERVING_CHIPS = "sn40l", 16
SERVED, TARGET = "llama-3-8b", "llama-3-405b"
SMALL, MEDIUM, LARGE = DRAFTS = ("llama-68m", "llama-3-8b", "llama-3-70b")

TENSOR = np.array([1, 2, 4, 8, 16])
"""Chips of a stage; the 16 have as many stages as that leaves [1]."""

PROMPT = 1024
"""Tokens of the prompts of Fig. 20, assumed [1]."""

UNPRINTED = "Llama 3 70B and 405B with a draft of 8B: off what was measured, %"
"""What was measured stands in a figure; netplan's own speed spreads over what is not printed."""

WINDOWS, ACCEPTANCES = np.arange(1, 9), np.array([0.5, 0.6, 0.7, 0.8, 0.9])
"""Points of Fig. 21, assumed [1]."""


@suite("serving")
def serving_form_checks() -> Iterator[Measured | Check]:
    """The throughput that was measured, sentences about figures, and what cannot be computed."""
    sizes = Sizes.of(MODELS.load(SERVED))
    chip = ACCELERATORS.load(SERVING_CHIP)
    stages = SERVING_CHIPS // TENSOR
    # Long messages go both ways round a ring, short ones one way.
    yield from fig_20_statements(
        decode(sizes, TensorGroup.of(chip, TENSOR), stages=stages),
        prefill(sizes, TensorGroup.of(chip, TENSOR, ways=2), prompt=PROMPT, stages=stages),
    )
    yield from fig_21_statements(
        {draft: _tokens_per_s(draft, "sequence") for draft in DRAFTS},
        {draft: _tokens_per_s(draft, "tree") for draft in DRAFTS},
        float(_tokens_per_s(SMALL, "sequence", np.zeros(1, np.int64))[0, 0]),
    )
    rates = _tokens_per_s(MEDIUM, "sequence")
    spread = f"{rates.min():.0f} to {rates.max():.0f} tokens/s"
    row = {row["name"]: row for row in published("serving")}[UNPRINTED]
    yield check(UNPRINTED, row["source"], row["expected"], spread, row["reason"])


def fig_20_statements(decoding: ServingPhase, prompts: ServingPhase) -> Iterator[Measured]:
    """Throughput of Llama 3 8B on all chips as one stage, and what more chips a stage change."""
    alone = float(np.asarray(decoding.tokens_per_s)[-1])
    yield "Llama 3 8B on 16 SN40L, TP 16: measured, tokens/s", alone
    yield "Llama 3 8B on 16 SN40L, TP 16: modelled, tokens/s", alone
    for phase, wait, served in (("decode", "TPOT", decoding), ("prefill", "TTFT", prompts)):
        yield f"Fig. 20: more TP, shorter {wait}", _rises(-np.asarray(served.wait_s))
        yield (
            f"Fig. 20: more PP, more tokens/s in {phase}",
            _rises(np.asarray(served.tokens_per_s)[::-1]),
        )
    sent, read = prompts.parts, decoding.parts
    yield (
        "Fig. 20, prefill: share of computing and bytes on links, at least",
        _least_share(sent, sent.compute_s + sent.sent_s),
    )
    yield (
        "Fig. 20, decode: share of memory and hops, at least",
        _least_share(read, read.memory_s + read.hops_s),
    )


def _least_share(parts: PassTime, some_s: Amount) -> float:
    """Least share of some parts in the sum of all four [1]."""
    return float(np.min(some_s / (parts.compute_s + parts.memory_s + parts.sent_s + parts.hops_s)))


def _seconds(model: str) -> PassSeconds:
    """Time of a pass of a model over tokens at once, on all chips."""
    sizes = Sizes.of(MODELS.load(model))
    group = TensorGroup.of(ACCELERATORS.load(SERVING_CHIP), SERVING_CHIPS)
    return lambda tokens: pass_time(sizes, group, work=TokenPass(tokens=tokens)).total_s


def _tokens_per_s(draft: str, scheme: Scheme, windows: Ints = WINDOWS) -> Floats:
    """Tokens/s at all points, shape (acceptances, windows) [1/s]."""
    speculated = speculate(
        windows,
        ACCEPTANCES[:, None],
        scheme=scheme,
        draft_s=_seconds(draft),
        target_s=_seconds(TARGET),
    )
    return np.asarray(1 / speculated.tpot_s)


def fig_21_statements(
    sequence: dict[str, Floats], tree: dict[str, Floats], alone: float
) -> Iterator[Measured]:
    """Which draft and which window are good.

    Parameters
    ----------
    sequence, tree
        Tokens/s of the target by draft, shape (acceptances, windows) [1/s].
    alone
        Those without one [1/s].
    """
    fastest = {DRAFTS[index] for index in np.argmax([tree[draft] for draft in DRAFTS], axis=0).flat}
    yield "Fig. 21, tree: fastest draft at every point", " and ".join(sorted(fastest))
    shorter = _best_windows(tree[SMALL]) < _best_windows(sequence[SMALL])
    yield "Fig. 21: a tree wants a shorter window than a sequence", str(bool(shorter.all()))
    longest = max(float(rates[:, -1].max()) for rates in tree.values())
    yield "Fig. 21, tree of 8 levels: over no draft, at most", longest / alone
    good = [sequence[draft] / alone for draft in (SMALL, MEDIUM)]
    yield "Fig. 21, sequence: draft of 68M or 8B over none, at least", float(np.min(good))
    large = sequence[LARGE]
    yield "Fig. 21, sequence: draft of 70B over none, at least", float(large.min() / alone)
    yield (
        "Fig. 21, sequence: draft of 70B over that of 8B, at most",
        float((large / sequence[MEDIUM]).max()),
    )
    every = np.stack([sequence[draft] for draft in DRAFTS])
    yield "Fig. 21, sequence: more acceptance, more tokens/s", _rises(np.swapaxes(every, 1, 2))
    likely = [sequence[draft][-1] for draft in (SMALL, MEDIUM)]
    yield (
        "Fig. 21, sequence: a longer window at the highest acceptance, more tokens/s",
        _rises(likely),
    )


def _best_windows(tokens_per_s: Floats) -> Ints:
    """Fastest window of each acceptance [1]."""
    return np.asarray(WINDOWS[np.argmax(tokens_per_s, axis=1)])
