"""Models on tiles, operator by operator: parts, stages and times against sums by hand."""

from itertools import combinations, pairwise
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netplan
from netplan.errors import InputError
from netplan.simulation.tile_mapping import TileRates, best_mapping, stage_runs
from netplan.workloads.kernel_graph import Kernel, KernelGraph
from netplan.workloads.tile_operators import (
    Held,
    TileOperator,
    held_on_chip,
    operand_bytes,
    operators_of,
    splits_of,
    tile_parts,
)
from tests.cli.command import netplan as command

CORE = {"flops_per_s": 766.6667e9, "link": 250.8e9, "channel": 16.5e9}
"""A core of a Grayskull, FP16 [FLOP/s], its links and channels [B/s]."""
EIGHT = "".join(
    f"  - {{name: {name}, kind: conv, size: 32, window: 3, channels: {there}, filters: {here}}}\n"
    for name, (there, here) in zip("abcdefgh", 4 * ((16, 32), (32, 16)), strict=True)
)
SMALL = (
    f'name: mine\ntitle: Eight\nsource: a test\ndate: "2026"\nfamily: graph\nkernels:\n{EIGHT}'
    f"edges: {[list(pair) for pair in pairwise('abcdefgh')]}\n"
)
WORK = 2 * 32 * 32 * 9 * 16 * 32
"""Of each of its eight convolutions, 16 to 32 filters or back [FLOP]."""
ROW = {"fabric.sizes": "[1,1]", "fabric.tile.cores": "[8,1]", "fabric.tile.channels": "[[0,0]]"}
"""A chip of eight cores in a row, with one channel at the first."""
PRODUCT = TileOperator("a", 64, 48, 32, 2.0 * 64 * 48 * 32, 3072.0, 6144.0, 4096.0)


@given(tiles=st.integers(1, 48), samples=st.integers(1, 8))
def test_parts_of_all_tiles_are_the_whole(tiles: int, samples: int) -> None:
    splits = splits_of(tiles)
    assert (splits.prod(axis=1) == tiles).all()
    parts = tile_parts(PRODUCT, samples, splits)
    batches, outputs, tokens, inner = splits.T
    # Table III: weights lie on every tile of other samples and places, inputs on those of m.
    assert np.allclose(parts.weight_bytes * outputs * inner, PRODUCT.weight_bytes)
    assert np.allclose(parts.input_bytes * tiles, samples * PRODUCT.input_bytes * outputs)
    assert np.allclose(parts.output_bytes * tiles, samples * PRODUCT.output_bytes * inner)
    assert (parts.flops * tiles >= samples * PRODUCT.flops * (1 - 1e-12)).all()
    even = (samples % batches == 0) & (64 % outputs == 0) & (32 % tokens == 0) & (48 % inner == 0)
    assert np.allclose(parts.flops[even] * tiles, samples * PRODUCT.flops)


def test_nothing_moves_where_all_stays_and_less_than_twice_nowhere() -> None:
    # Operands of 30 and 20 B, a result of 5 B, 10 B of memory: 20 B in two pieces, 2 x 30 + 20 + 5.
    for held, moved in zip(get_args(Held), (0, 35, 20, 85), strict=True):
        assert operand_bytes(30.0, 20.0, 5.0, held, sram_bytes=10, weights=1) == moved
    assert held_on_chip(11, 9, 10) == "activations"
    # Gradients of weights are the result; of two activations neither is a weight.
    assert operand_bytes(30.0, 20.0, 5.0, "activations", sram_bytes=99, weights=2) == 5
    assert operand_bytes(30.0, 20.0, 5.0, "activations", sram_bytes=99, weights=0) == 0


def slowest_s(times_s: np.ndarray, tiles: int, stages: int | None) -> float:
    """The least time of the slowest stage, by trying all cuts and all shares of the tiles."""
    count, best = len(times_s), np.inf
    for number in range(1, count + 1) if stages is None else [stages]:
        for cuts in combinations(range(1, count), number - 1):
            ends = [0, *cuts, count]
            for shares in combinations(range(1, tiles + 1), number):
                given_tiles = np.diff([0, *shares])
                run_s = [
                    times_s[first:last, group - 1].sum()
                    for first, last, group in zip(ends, ends[1:], given_tiles, strict=False)
                ]
                best = min(best, max(run_s))
    return float(best)


@given(
    work=st.lists(st.integers(1, 20), min_size=1, max_size=4),
    steps=st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=6, max_size=6),
    stages=st.none() | st.integers(1, 4),
)
@settings(max_examples=60)
def test_stages_are_as_fast_as_any(work: list[int], steps: list[float], stages: int | None) -> None:
    # Six tiles that help by uneven steps, so that one more may even be slower.
    speeds = 1 + np.cumsum(steps) - np.array([0, 0, 0.3, 0, 0.6, 0])
    times_s = np.array(work, float)[:, None] / speeds
    if stages is not None and stages > min(len(work), 6):
        return
    runs = stage_runs(times_s, stages)
    assert runs is not None
    assert [run[0] for run in runs[1:]] == [run[1] for run in runs[:-1]]
    assert sum(run[2] for run in runs) <= 6
    found = max(times_s[first:last, group - 1].sum() for first, last, group in runs)
    assert found == pytest.approx(slowest_s(times_s, 6, stages), rel=1e-6)


def test_no_stages_where_nothing_has_room() -> None:
    times_s, kept = np.ones((2, 3)), np.full((2, 3), 8.0)
    assert stage_runs(times_s, 1, kept=(kept, 0 * kept), limit=15.0) is None
    assert stage_runs(times_s, 1, kept=(0 * kept, kept), limit=15.0) is not None


def test_what_lies_beside_an_operator_is_what_skips_it() -> None:
    kernels = [
        Kernel(name, "simd", 1, 1, 1, size)
        for name, size in zip("abcd", (2, 4, 8, 16), strict=True)
    ]
    graph = KernelGraph.of(kernels, [("a", "b"), ("b", "c"), ("a", "d"), ("c", "d")])
    assert [one.beside_bytes for one in operators_of(graph)] == [0, 0, 2, 0]
    # One that takes what a later one takes, too, has it among its inputs.
    again = KernelGraph.of(kernels, [("a", "b"), ("a", "c"), ("a", "d"), ("b", "d")])
    assert [one.beside_bytes for one in operators_of(again)] == [0, 0, 4, 0]


def test_a_convolution_on_one_core_takes_what_its_peak_says(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(SMALL, encoding="utf-8")
    small = netplan.simulate(
        "grayskull-paper",
        gpus=8,
        overrides=ROW,
        fixed={"pipeline": 8, "microbatch": 1},
        model=str(path),
        inference=True,
        precision="bf16",
    )
    # A map of 32 filters, then one of 16, and so on, to the neighbour.
    sent_s = (4 * 32 + 3 * 16) * 2 * 32 * 32 / CORE["link"] + 7 * 1e-9
    fetched_s = 2 * 32 * 32 * 16 / CORE["channel"] + 2e-6
    compute_s = WORK / CORE["flops_per_s"]
    assert compute_s > fetched_s
    assert [row.held for row in small.tiles] == 8 * ["all"]
    assert [row.kernels for row in small.tiles] == [*"abcdefgh"]
    assert small.found.sequences_per_s == pytest.approx(1 / compute_s, rel=1e-6)
    # The last of 256 samples leaves the first core after 256 of them, then the seven others.
    assert small.found.iteration_time_s == pytest.approx(263 * compute_s + sent_s, rel=1e-6)


def test_training_has_three_passes_of_a_product_and_its_update(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(SMALL, encoding="utf-8")
    answer = netplan.simulate(
        "grayskull-paper",
        gpus=8,
        overrides=ROW | {"accelerator.sram_bytes": "1e9"},
        fixed={"pipeline": 1, "microbatch": 8},
        model=str(path),
        precision="bf16",
        contention=False,
    )
    # Eight samples on eight cores, one each: three times the forward work, 32 microbatches, then a
    # ring of eight for each gradient: 14 steps of an eighth; in a row the last is 7 hops off.
    compute_s = 8 * 3 * WORK / CORE["flops_per_s"]
    steps_s = 8 * 14 * (2 * 9 * 16 * 32 / 8 / CORE["link"] + 7 * 1e-9)
    found = answer.found
    assert found.iteration_time_s == pytest.approx(32 * compute_s + steps_s, rel=1e-5)
    assert found.sequences_per_s == pytest.approx(256 / found.iteration_time_s)


def test_contention_never_makes_it_faster_and_the_peak_is_never_passed() -> None:
    ask = {"inference": True, "fixed": {"pipeline": 6, "microbatch": 1}}
    shared = netplan.simulate("grayskull-paper", **ask).found
    alone = netplan.simulate("grayskull-paper", contention=False, **ask).found
    assert shared.sequences_per_s <= alone.sequences_per_s * (1 + 1e-9)
    assert alone.sequences_per_s < 368e12 / (2 * 4_089_184_256)
    assert shared.lower_bound_s <= shared.iteration_time_s
    # What messages wait for each other is told once, by links and all together.
    waited_s = sum(group.waited_s for group in shared.groups)
    assert shared.waiting_s == pytest.approx(waited_s, rel=1e-9)
    assert shared.waiting_s > 0 == alone.waiting_s


def test_a_link_that_all_wait_for_sets_the_pace_beyond_what_is_simulated() -> None:
    """LeNet-5 moves much and computes little: one memory is busy nearly all the time."""
    ask = {"inference": True, "model": "examples/lenet.yaml"}
    short = netplan.simulate("grayskull-paper", **ask).found
    full = netplan.simulate("grayskull-paper", full=True, **ask).found
    assert short.microbatches_simulated < full.microbatches_simulated == short.microbatches
    assert short.binding.startswith("link")
    assert short.lower_bound_s <= short.iteration_time_s
    assert short.iteration_time_s == pytest.approx(full.iteration_time_s, rel=5e-3)
    assert short.sequences_per_s <= 256 / short.lower_bound_s * (1 + 1e-9)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--fix", "tensor=2"), "a run on tiles has pipeline and microbatch"),
        (("--fix", "pipeline=500"), "72 operators on 120 tiles make 1 to 72 stages"),
        (("--fix", "microbatch=512"), "more than the batch of 256"),
        (("--mode", "published-code"), "one operation a layer of a transformer"),
        (("--precision", "fp4"), "grayskull-core has no rate of such products"),
        (("--fabric", "rail-only"), "has no tiles with memory channels"),
        (("--model", "dlrm-793b"), "this question takes transformers"),
        (("--model", "examples/mixer.yaml"), "mixer is cut for 4 chips"),
        (("--model", "examples/gpt-layer.yaml"), "has backward kernels"),
        (("--recompute", "full"), "--recompute full means nothing"),
        (("--set", "accelerator.sram_bytes=0"), "of which the file of grayskull-core says"),
    ],
)
def test_what_does_not_run_on_tiles_is_told_in_a_line(options: tuple[str, ...], told: str) -> None:
    done = command("simulate", "grayskull-paper", *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in " ".join(done.stderr.split())
    assert len(done.stderr.strip().splitlines()) <= 3


def test_too_many_operators_are_refused() -> None:
    rates = TileRates(1e12, 1e12, 1e9, 1e9, 1e6)
    with pytest.raises(InputError, match="too many to share tiles out"):
        best_mapping((PRODUCT,) * 601, 4, rates)
