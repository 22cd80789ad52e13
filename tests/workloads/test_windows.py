"""Convolutions and pooling: sizes by laying windows down one by one, and the whole of ResNet-50."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import netplan
from netplan.errors import CatalogError
from netplan.workloads.graph_model import Window
from netplan.workloads.models import WORKLOADS

HEAD = 'name: mine\ntitle: Windows\nsource: a test\ndate: "2026"\nfamily: graph\nkernels:\n'


@given(
    size=st.tuples(st.integers(3, 12), st.integers(3, 12)),
    window=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    channels=st.integers(1, 3),
    filters=st.integers(0, 4),
    stride=st.integers(1, 3),
    padding=st.sampled_from([None, 0, 1, 2]),
)
def test_multiply_adds_are_those_of_every_window_laid_down(
    size: tuple[int, int],
    window: tuple[int, int],
    channels: int,
    filters: int,
    stride: int,
    padding: int | None,
) -> None:
    moving = Window(size, window, channels, filters, stride, padding)
    zeros = [(places - 1) // 2 if padding is None else padding for places in window]
    image = np.pad(np.ones((*size, channels)), [(zeros[0],) * 2, (zeros[1],) * 2, (0, 0)])
    laid = np.lib.stride_tricks.sliding_window_view(image, window, axis=(0, 1))
    laid = laid[::stride, ::stride]
    assert moving.result == laid.shape[:2]
    assert moving.flops == 2 * laid.size * max(1, filters)
    kernel = moving.kernel("one")
    assert kernel.flops == moving.flops
    assert kernel.output_bytes == 2 * laid.shape[0] * laid.shape[1] * (filters or channels)
    assert kernel.weight_bytes == 2 * window[0] * window[1] * channels * filters


def test_padding_that_is_not_said_keeps_the_size() -> None:
    for window in (1, 3, 5, 7):
        assert Window((9, 8), (window, window), channels=1).result == (9, 8)


def test_resnet_50_has_the_published_parameters_and_multiply_adds() -> None:
    # torchvision's resnet50: 25,557,032 parameters, 4.09e9 multiply-adds at 224 x 224.
    graph = WORKLOADS.load("resnet-50").graph()
    products = [kernel for kernel in graph.kernels if kernel.kind == "gemm"]
    assert len(products) == 54
    assert graph.column("weight_bytes").sum() / 2 == 25_557_032
    assert sum(kernel.flops for kernel in products) / 2 == 4_089_184_256
    # conv2_x of the first version by hand: 3 blocks at 56 x 56, a projection in front.
    places = 56 * 56
    first = 64 * 64 + 9 * 64 * 64 + 64 * 256 + 64 * 256
    others = 2 * (256 * 64 + 9 * 64 * 64 + 64 * 256)
    second = [kernel.flops for kernel in products if kernel.name.startswith("conv2")]
    assert sum(second) == 2 * places * (first + others)
    # The image is all that comes from outside; the widest path adds two maps of 56 x 56 x 256.
    assert graph.column("outside_bytes").sum() == 2 * 224 * 224 * 3
    assert graph.edge_bytes.max() == 2 * 112 * 112 * 64


def test_a_graph_of_windows_is_mapped(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    lines = (
        "  - {name: a, kind: conv, size: [8, 6], window: [3, 1], channels: 4, filters: 8}\n"
        "  - {name: b, kind: pool, size: [8, 6], window: 2, stride: 2, channels: 8}\n"
        "edges: [[a, b]]\n"
    )
    path.write_text(HEAD + lines, encoding="utf-8")
    graph = WORKLOADS.load(str(path)).graph()
    first, second = graph.kernels
    assert (first.m, first.k, first.n) == (8, 3 * 4, 8 * 6)
    assert (first.outside_bytes, second.outside_bytes) == (2 * 8 * 6 * 4, 0)
    assert (second.m, second.n, second.output_bytes) == (2 * 2 * 2 * 8, 4 * 3, 2 * 4 * 3 * 8)
    found = netplan.map(model=str(path), accelerator="a100-80gb").found
    assert found.totals.throughput_per_s > 0


@pytest.mark.parametrize(
    ("kernel", "told"),
    [
        ("kind: conv, size: 8, window: 3, channels: 4", "a.filters is missing"),
        ("kind: conv, size: 8, window: 3, channels: 4, filters: 2, k: 3", "a conv kernel has no k"),
        ("kind: pool, size: 8, window: 3, channels: 4, filters: 2", "a pool kernel has no filters"),
        ("kind: pool, size: 2, window: 9, padding: 0, channels: 4", "9 x 9 do not lie in the inpu"),
        ("kind: pool, size: [2, 2, 2], window: 1, channels: 4", "a.size: got 3 numbers"),
        ("kind: pool, size: 100000, window: 1, channels: 4", "at most 65,536 places"),
        ("kind: conv, size: 60000, window: 5, channels: 100000, filters: 1000000", "its sizes are"),
        ("kind: gemm, m: 4, n: 4, stride: 2", "a gemm kernel has no stride"),
        ("kind: simd, m: 4", "a.n is missing: a simd kernel needs it"),
    ],
)
def test_every_fault_of_a_window_has_its_line(tmp_path: Path, kernel: str, told: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(f"{HEAD}  - {{name: a, {kernel}}}\n", encoding="utf-8")
    with pytest.raises(CatalogError, match=told) as error:
        WORKLOADS.load(str(path))
    assert f"{path}:7" in str(error.value)
