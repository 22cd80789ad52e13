"""Checks of traffic and graphs: who talks to whom, path lengths, global bandwidth.

Sources: the rail-only paper (arXiv:2307.12169), Figures 3 to 5; ATOP/ZCube (SIGCOMM 2025);
Frontier (SC 2023).
"""

from collections.abc import Iterator

from netplan.published.checks import Check, check, check_within, known
from netplan.topologies.dragonfly import dragonfly_shape
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.specs import FABRICS
from netplan.traffic.paths import path_statistics
from netplan.traffic.patterns import collective_traffic
from netplan.traffic.placement import Degrees, Placement
from netplan.traffic.statistics import (
    KindShare,
    hb_share,
    idle_pairs_share,
    kind_shares,
)
from netplan.traffic.training import microbatches_of, training_traffic
from netplan.units import bytes_per_s
from netplan.workloads.models import MODELS
from netplan.workloads.operations import Sharding
from netplan.workloads.program import TrainingMethod, training_program

RAIL_ONLY = "arXiv:2307.12169"
ATOP = "ATOP/ZCube (SIGCOMM 2025)"
FRONTIER = "Frontier (SC 2023)"
GB = 1e9

# Strategies of Narayanan et al. (arXiv:2104.04473), Table 1: tensor, pipeline, data, batch.
STRATEGIES = {"gpt-146b": (8, 8, 24, 2304), "gpt-1t": (8, 64, 6, 3072)}

PTDP = TrainingMethod(counting="counted", zero_stage=0)
"""How those papers count: matrix products, and an all_reduce of the gradients."""


def network_checks() -> Iterator[Check]:
    """All checks, by source."""
    yield from _traffic()
    yield from _path_lengths()
    yield from _frontier()


def _traffic() -> Iterator[Check]:
    """Who talks to whom, and how much, with ring collectives and one sequence a microbatch."""
    for name, (tensor, pipeline, data, batch) in STRATEGIES.items():
        placement = Placement((Degrees(tensor), Degrees(data=data, pipeline=pipeline)))
        program = training_program(MODELS.load(name), Sharding.of(1, tensor), PTDP)
        matrix = training_traffic(
            program,
            placement,
            gpus=placement.gpus,
            microbatches=microbatches_of(batch, placement),
        )
        shares = {share.kind: share for share in kind_shares(matrix)}
        idle = 100 * idle_pairs_share(matrix)
        where = f"{RAIL_ONLY}, Fig. 3"
        yield check_within(f"{name}: pairs without traffic, %", where, (99, 100), idle, "> 99")
        yield _tensor_pairs(name, where, shares["tensor"])
        share = 100 * shares["tensor"].bytes_share
        yield check_within(f"{name}: tensor share of bytes, %", where, (75, 100), share, "> 75")
        pair = shares["tensor"].pair_bytes / GB
        yield check_within(f"{name}: GB a tensor pair", where, (100, 1000), pair, "O(100)")
    where = f"{RAIL_ONLY}, Fig. 4"
    for kind in ("data", "pipeline"):
        pair = shares[kind].pair_bytes / GB
        yield check_within(f"gpt-1t: GB a {kind} pair", where, (5.5, 7.0), pair, "about 6")
    placement = Placement((Degrees(data=32), Degrees(data=2)))
    gather = collective_traffic(
        "all_reduce", placement, ("data",), data_bytes=GB, kind="data", pattern="hierarchical"
    )
    inside = 100 * hb_share(gather, 32)
    yield check("HB share of an all_reduce, %", f"{RAIL_ONLY}, Fig. 5", "98", f"{inside:.0f}")


def _tensor_pairs(name: str, where: str, share: KindShare) -> Check:
    """Share of tensor pairs, which the paper states for all models and which holds for some."""
    percent = 100 * share.pairs_share
    if percent < 0.04:  # noqa: PLR2004 - as printed
        return check_within(f"{name}: tensor pairs, %", where, (0, 0.04), percent, "< 0.04")
    reason = "holds for the two largest models only"
    return known(f"{name}: tensor pairs, %", where, "< 0.04", f"{percent:.3f}", reason)


def _path_lengths() -> Iterator[Check]:
    """Average links between two GPUs, host links included, none inside servers."""
    where = f"{ATOP}, App. K Table 6"
    cases: tuple[tuple[str, dict[str, int], Sizing, str, str], ...] = (
        ("rail-optimized", {}, Sizing(16_384, 128, 8, 450e9, 50e9), "ROFT", "5.49240"),
        ("rail-optimized", {"planes": 2}, Sizing(16_384, 128, 8, 450e9, 50e9), "HPN", "3.98450"),
        ("bcube", {}, Sizing(4096, 64, 1, 450e9, 50e9), "BCube(64,2)", "3.93846"),
        ("bcube", {}, Sizing(16_384, 128, 1, 450e9, 50e9), "BCube(128,2)", "3.96899"),
    )
    for fabric, keys, sizing, name, printed in cases:
        spec = FABRICS.load(fabric).model_copy(update=keys)
        average = path_statistics(expand(spec, sizing)).average_links
        title = f"{name}, {sizing.gpus:,} GPUs: average path"
        yield check(title, where, printed, f"{average:.5f}")


def _frontier() -> Iterator[Check]:
    """Global bandwidth and taper of 74 compute groups with four links a pair."""
    spec = FABRICS.load("frontier")
    sizing = Sizing(37_888, 64, 4, 450e9, bytes_per_s(200))
    shape = dragonfly_shape(spec, sizing)
    one_way = shape.global_links * sizing.network_bytes_per_s
    yield check("global bandwidth, TB/s one way", FRONTIER, "270", f"{one_way / 1e12:.0f}")
    yield check("taper, %", FRONTIER, "57", f"{100 * shape.taper:.0f}")
