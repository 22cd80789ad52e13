"""Checks against DFModel: its solver logs, Table VI, Fig. 9, and the example of its user guide.

Source: Ko et al., DFModel: Design Space Optimization of Large-Scale Systems Exploiting Dataflow
Mappings (ACM TACO 2024), and the logs, input files and user guide of its public code.
"""

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Literal

from netplan.costing.dfmodel import Units, die_power_w, published_amount
from netplan.performance.mapping.chip import (
    MappingOptions,
    Pipeline,
    map_graph,
    pipeline_throughput,
)
from netplan.performance.mapping.fusion import kernel_by_kernel
from netplan.performance.mapping.network import ChipNetwork
from netplan.published.checks import Check, Measured, stated
from netplan.questions.answers.map_answer import MapResult
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
GUIDE_DIE_USD = 16522.25023
"""Price of an SN30 without memory, of the user guide's example [USD]."""


def dataflow_checks() -> Iterator[Check]:
    """All checks of the paper."""
    for part in (_kernels, _partitions, _table_vi, _other_families, _guide, _dies):
        yield from stated(part(), "dataflow")


def _kernels() -> Iterator[Measured]:
    """Cases A1 and A2: a trillion parameters, kernel by kernel."""
    found = ask_map(
        model="gpt-1t", accelerator="a100-80gb", tensor=8, sequence_tile=32, direction="both"
    ).found
    times_ns = {row.name: 1e9 * row.time_s for row in found.kernels}
    forward = layer_graph(MODELS.load("gpt-1t"), 8).names
    for name in forward:
        yield f"GPT 1T on A100: {name}, ns", times_ns[name]
    whole = layer_graph(MODELS.load("gpt-1t"), 1, "both")
    yield "sharding of a layer: sent at the optimum, B", best_sharding(whole).volume_bytes
    without = sum(one for name, one in times_ns.items() if not name.endswith("_u"))
    yield "GPT 1T on A100: 35 kernels without updates, ns", without
    yield "GPT 1T on A100: interval of a layer, ns", 1e9 * found.totals.interval_s
    for chips, interval_ns, batches in (
        ("3,072 A100", 46_067_936.7, 512),
        ("3,840 H100", 31_394_007.9, 8192 / 6),
    ):
        pipeline = Pipeline(128, stages=64, replicas=6, microbatches=batches)
        per_s = pipeline_throughput(interval_ns / 1e9, pipeline).per_s
        yield f"GPT 1T on {chips}: sequences/s at the published interval", per_s


_ask_175b = partial(ask_map, model="gpt-175b", accelerator="sn10")


def _partitions() -> Iterator[Measured]:
    """Cases A3 and A4: a layer of GPT 175B on eight SN10."""
    ring = _ask_175b(tensor=8, sequence_tile=32, micro_batch=42, cut=VENDOR).found
    torus = _ask_175b(tensor=4, sequence_tile=64, micro_batch=60, pipeline=2).found
    for what, found in (("8 SN10, vendor's mapping", ring), ("4 x 2 SN10, optimum", torus)):
        for at, row in enumerate(found.partitions, start=1):
            yield f"GPT 175B on {what}: partition {at}, us", 1e6 * row.time_s
        if found is ring:
            yield f"GPT 175B on {what}: set-up, us", 1e6 * found.totals.setup_s
        yield f"GPT 175B on {what}: interval, ns", 1e9 * found.totals.interval_s
        yield f"GPT 175B on {what}: sequences/s", found.totals.throughput_per_s


def _running_s(found: MapResult) -> float:
    """All partitions without set-up [s]."""
    return sum(row.time_s for row in found.partitions)


def _base_s() -> float:
    """A layer kernel by kernel, weights in the memory term [s]."""
    chip, options = ACCELERATORS.load("sn10"), MappingOptions(sequence_tile=32)
    ring = ChipNetwork(chip.hb_bytes_per_s)
    fusion = map_graph(
        layer_graph(MODELS.load("gpt-175b"), 8),
        chip,
        lambda kernel: ring.group_s("all_reduce", kernel.all_reduce_bytes, 8),
        options,
    )
    problem = replace(fusion.problem, weights_in_memory_term=True)
    return kernel_by_kernel(problem).interval_s


def _table_vi() -> Iterator[Measured]:
    """Speed-ups from kernel by kernel to a torus of 4 x 2."""
    base_s = _base_s()
    vendor = _ask_175b(tensor=8, sequence_tile=32, micro_batch=42, cut=VENDOR).found
    yield "vendor's mapping over kernel by kernel", base_s / vendor.totals.interval_s
    for tile in (32, 64, 128):
        times_s = [
            _running_s(_ask_175b(tensor=8, sequence_tile=tile, cut=cut).found)
            for cut in (DESCRIBED, VENDOR)
        ]
        name = f"the mapping that is described over the vendor's, tiles of {tile}"
        yield name, times_s[1] / times_s[0]
    ask = partial(_ask_175b, tensor=8, sequence_tile=32, micro_batch=42)
    described, best = ask(cut=DESCRIBED).found, ask().found
    yield "optimum over the vendor's mapping", _running_s(vendor) / _running_s(best)
    torus = _ask_175b(tensor=4, sequence_tile=64, micro_batch=60, pipeline=2).found
    gained = torus.totals.throughput_per_s / vendor.totals.throughput_per_s
    yield "4 x 2 over the vendor's mapping", gained
    steps = (vendor, described, best, torus)
    falling = [96 * base_s, *(one.totals.time_per_sequence_s for one in steps)]
    faster = all(slow > fast for slow, fast in pairwise(falling))
    yield "kernel by kernel, vendor's, described, optimum, 4 x 2: each faster", str(faster)


def _other_families() -> Iterator[Measured]:
    """LINPACK on a ring of 8, and recommendation models on 128 A100."""
    overrides = {"accelerator.hb_bytes_per_s": "25e9"}
    linpack = ask_map(model="hpl-16k", accelerator="a100-40gb", gpus=8, overrides=overrides)
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
    memory_rate = ACCELERATORS.load("a100-40gb").memory_bytes_per_s
    price = published_amount(0.0, memory_rate, _zionex(), _units("price"))
    yield "DLRM-A: price without chips, USD", price


def _zionex() -> tuple[Dimension, ...]:
    """The network of the recommendation models."""
    spec = FABRICS.load(ZIONEX)
    sizing = sizing_on(ACCELERATORS.load("a100-40gb"), gpus=128, radix=64)
    return tuple(Dimension.of(level) for level in build_fabric(spec, sizing).levels)


def _units(what: Literal["price", "energy"]) -> Units:
    """What the guide's DDR4 and PCIe cost, or draw."""
    make = Units.prices if what == "price" else Units.energies
    return make(MEMORIES.load("ddr4"), LINKS.load("pcie4"))


def _guide() -> Iterator[Measured]:
    """The example of the user guide: 1,024 SN30, TP 8 by PP 128, a batch of 3,072."""
    model, stages, batch = MODELS.load("gpt-1t"), 128, 3072
    flops = layer_graph(model, 1, "both").flops.sum() * model.layers * batch
    yield "GPT 1T on 1,024 SN30: work of a batch, FLOP", float(flops)
    chip = ACCELERATORS.load("sn30")
    torus = [Dimension("ring", size, chip.network_bytes_per_s) for size in (8, stages)]
    rate = chip.memory_bytes_per_s
    price = published_amount(GUIDE_DIE_USD, rate, torus, _units("price"))
    power = published_amount(chip.power_w, rate, torus, _units("energy"))
    yield "GPT 1T on 1,024 SN30: price, USD", price
    yield "GPT 1T on 1,024 SN30: power, W", power
    found = ask_map(
        model="gpt-1t",
        accelerator="sn30",
        tensor=8,
        pipeline=stages,
        batch=batch,
        direction="both",
        compute_utilisation=0.9,
        mode="published-code",
    ).found
    yield "GPT 1T on 1,024 SN30: utilisation", found.totals.utilisation


def _dies() -> Iterator[Measured]:
    """Powers of the four dies of Fig. 9, by the fit to their peaks of Table V."""
    for name, tera in (("H100", 993), ("TPU v4", 275), ("SN30", 614), ("WSE-2", 7500)):
        yield f"power of the die by the fit: {name}, W", die_power_w(tera * 1e12)
