"""What never makes a mapped graph slower: more of a chip, and kernels kept together."""

import random
from functools import partial
from math import ceil

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.inputs.choices import Execution
from netplan.performance.mapping.chip import MappingOptions, map_graph
from netplan.performance.mapping.partitions import MAX_WHOLE, ComputeTiles, kernel_choices
from netplan.records import replace
from netplan.workloads.accelerators import ACCELERATORS, Accelerator
from netplan.workloads.kernel_graph import Kernel, KernelGraph
from netplan.workloads.technologies import refitted


def wide_graph(draw: random.Random) -> KernelGraph:
    """Up to nine kernels of sizes far apart."""
    count, tokens = draw.randint(1, 9), draw.choice([1, 12, 64, 2048])

    def amount(most: float, *others: float) -> float:
        return draw.choice([10 ** draw.uniform(0, most), *others])

    kernels = []
    for at in range(count):
        kind = draw.choice(["gemm", "gemm", "simd", "update"])
        m, k, n = (int(amount(most)) for most in (6, 4, 4))
        sizes = {"gemm": (m, k, tokens), "simd": (m, 1, tokens), "update": (m, tokens, n)}[kind]
        kernels.append(
            Kernel(
                f"k{at}",
                kind,  # type: ignore[arg-type]
                *sizes,
                output_bytes=amount(8, 0.0),
                weight_bytes=amount(8, 0.0) if kind == "gemm" else 0.0,
                all_reduce_bytes=amount(8, 0.0, 0.0),
                outside_bytes=amount(7, 0.0, 0.0),
                read_bytes=amount(7, 0.0, 0.0),
                backward=tokens == 64 and at > count // 2,
            )
        )
    share = draw.choice([0.1, 0.3, 0.6])
    edges = [(f"k{a}", f"k{b}") for b in range(count) for a in range(b) if draw.random() < share]
    return KernelGraph.of(kernels, edges)


@settings(deadline=None, max_examples=12)
@given(
    seed=st.integers(0, 10**9),
    factor=st.sampled_from([1.0001, 1.3, 10.0]),
    how=st.tuples(st.booleans(), st.booleans(), st.sampled_from([1, 7])),
)
def test_more_of_a_chip_is_never_slower(
    seed: int, factor: float, how: tuple[bool, bool, int]
) -> None:
    """More tiles, SRAM, memory or link bandwidth; and kernels kept together than one by one."""
    draw = random.Random(seed)  # noqa: S311 - test cases, no secrets
    tiled, convex, micro_batch = how
    graph, link = wide_graph(draw), 10 ** draw.uniform(7, 12)
    chip = replace(
        ACCELERATORS.load("sn10"),
        tiles=int(10 ** draw.uniform(0, 4.2)),
        sram_bytes=10 ** draw.uniform(0, 9),
        memory_bytes_per_s=10 ** draw.uniform(7, 13),
    )
    more = {
        "tiles": ceil(factor * (chip.tiles or 1)),
        "sram_bytes": factor * chip.sram_bytes,
        "memory_bytes_per_s": factor * chip.memory_bytes_per_s,
    }
    if not tiled:
        chip = refitted(chip, compute_utilisation=0.5)
        more["compute_utilisation"] = min(0.5 * factor, 1.0)
        del more["tiles"]

    def interval_s(chip: Accelerator, link: float, execution: Execution = "fused") -> float:
        options = MappingOptions(execution, micro_batch=micro_batch, convex=convex)
        sums_up = partial(lambda rate, kernel: kernel.all_reduce_bytes / rate, link)
        return map_graph(graph, chip, sums_up, options).interval_s

    had = interval_s(chip, link) * (1 + 1e-12)
    assert had >= interval_s(chip, factor * link)
    assert interval_s(chip, link) <= (1 + 1e-12) * interval_s(chip, link, "kernel-by-kernel")
    for key, value in more.items():
        assert had >= interval_s(replace(chip, **{key: value}), link), key


@settings(deadline=None, max_examples=60)
@given(
    m=st.integers(1, 10**9),
    n=st.integers(1, 10**6),
    tiles=st.tuples(st.integers(1, MAX_WHOLE), st.integers(1, MAX_WHOLE)),
    kind=st.sampled_from(["gemm", "simd", "update"]),
)
def test_more_tiles_have_every_choice_of_fewer(
    m: int, n: int, tiles: tuple[int, int], kind: str
) -> None:
    kernel = Kernel("k", kind, m, 7 if kind != "simd" else 1, n)  # type: ignore[arg-type]
    few, more = (kernel_choices(kernel, ComputeTiles(one, 16, 3, 1.0), n) for one in sorted(tiles))
    at = np.searchsorted(more[0], few[0], side="right") - 1
    assert (more[1][at] <= few[1]).all()
