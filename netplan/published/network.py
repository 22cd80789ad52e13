"""Checks of traffic and graphs: who talks to whom, path lengths, global bandwidth.

Sources: the rail-only paper (arXiv:2307.12169), Figures 3 to 5; ATOP/ZCube (SIGCOMM 2025);
Frontier (SC 2023).
"""

from collections.abc import Iterator

from netplan.published.checks import Check, Measured, stated
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.families.dragonfly import dragonfly_shape
from netplan.topologies.specs import FABRICS
from netplan.traffic.paths import path_statistics
from netplan.traffic.patterns import collective_traffic
from netplan.traffic.placement import Degrees, Placement
from netplan.traffic.statistics import hb_share, idle_pairs_share, kind_shares
from netplan.traffic.training import training_traffic
from netplan.units import bytes_per_s
from netplan.workloads.models import MODELS
from netplan.workloads.operations import Sharding
from netplan.workloads.program import TrainingMethod, training_program

GB = 1e9

# Strategies of Narayanan et al. (arXiv:2104.04473), Table 1: tensor, pipeline, data, batch.
STRATEGIES = {"gpt-146b": (8, 8, 24, 2304), "gpt-1t": (8, 64, 6, 3072)}

PTDP = TrainingMethod(counting="counted", zero_stage=0)
"""How those papers count: matrix products, and an all_reduce of the gradients."""


def traffic_checks() -> Iterator[Check]:
    """Who talks to whom, and how much."""
    return stated(_traffic())


def path_checks() -> Iterator[Check]:
    """Average lengths of paths."""
    return stated(_path_lengths())


def bandwidth_checks() -> Iterator[Check]:
    """Frontier's bandwidth between its groups."""
    return stated(_frontier())


def _traffic() -> Iterator[Measured]:
    """Who talks to whom, and how much, with ring collectives and one sequence a microbatch."""
    for name, (tensor, pipeline, data, batch) in STRATEGIES.items():
        placement = Placement((Degrees(tensor), Degrees(data=data, pipeline=pipeline)))
        program = training_program(MODELS.load(name), Sharding.of(1, tensor), PTDP)
        matrix = training_traffic(
            program, placement, gpus=placement.gpus, microbatches=batch // data
        )
        shares = {share.kind: share for share in kind_shares(matrix)}
        yield f"{name}: pairs without traffic, %", 100 * idle_pairs_share(matrix)
        yield f"{name}: tensor pairs, %", 100 * shares["tensor"].pairs_share
        yield f"{name}: tensor share of bytes, %", 100 * shares["tensor"].bytes_share
        yield f"{name}: GB a tensor pair", shares["tensor"].pair_bytes / GB
    for kind in ("data", "pipeline"):
        yield f"gpt-1t: GB a {kind} pair", shares[kind].pair_bytes / GB
    placement = Placement((Degrees(data=32), Degrees(data=2)))
    gather = collective_traffic(
        "all_reduce", placement, ("data",), data_bytes=GB, kind="data", pattern="hierarchical"
    )
    yield "HB share of an all_reduce, %", 100 * hb_share(gather, 32)


def _path_lengths() -> Iterator[Measured]:
    """Average links between two GPUs, host links included, none inside servers."""
    cases: tuple[tuple[str, int, Sizing, str], ...] = (
        ("rail-optimized", 1, Sizing(16_384, 128, 8, 450e9, 50e9), "ROFT"),
        ("rail-optimized", 2, Sizing(16_384, 128, 8, 450e9, 50e9), "HPN"),
        ("bcube", 1, Sizing(4096, 64, 1, 450e9, 50e9), "BCube(64,2)"),
        ("bcube", 1, Sizing(16_384, 128, 1, 450e9, 50e9), "BCube(128,2)"),
    )
    for fabric, planes, sizing, name in cases:
        spec = FABRICS.load(fabric).changed(planes=planes)
        average = path_statistics(expand(spec, sizing)).average_links
        yield f"{name}, {sizing.gpus:,} GPUs: average path", average


def _frontier() -> Iterator[Measured]:
    """Global bandwidth and taper of 74 compute groups with four links a pair."""
    spec = FABRICS.load("frontier")
    sizing = Sizing(37_888, 64, 4, 450e9, bytes_per_s(200))
    shape = dragonfly_shape(spec, sizing)
    one_way = shape.global_links * sizing.network_bytes_per_s
    yield "global bandwidth, TB/s one way", one_way / 1e12
    yield "taper, %", 100 * shape.taper
