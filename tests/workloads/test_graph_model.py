"""Graphs of one's own: what a file may say, and what is told of every fault."""

import json
from pathlib import Path

import pytest

import netplan
from netplan.documents import read_yaml
from netplan.errors import CatalogError, InputError
from netplan.workloads.graph_model import MAX_KERNELS
from netplan.workloads.models import WORKLOADS
from tests.cli.command import netplan as command

MIXER = Path(__file__).parents[2] / "examples" / "mixer.yaml"
HEAD = """name: mine
title: A graph
source: a test
date: "2026"
family: graph
"""

A, B = (f"- {{name: {name}, kind: gemm, m: 4, n: 4}}" for name in "ab")


def written(folder: Path, *lines: str) -> str:
    """A model file of these lines."""
    path = folder / "mine.yaml"
    path.write_text(HEAD + "\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def test_a_graph_takes_what_its_kernels_take(tmp_path: Path) -> None:
    """One product on a chip of one tile, by hand; two layers, four micro-batches, two replicas.

    ceil(64 / 16) x ceil(32 / 16) x 8 = 64 cycles at 1 GHz; 2 x 100 B over 1e9 B/s and 3000 B of
    weights for each of 4 sequences.
    """
    name = written(
        tmp_path,
        "layers: 2",
        "kernels:",
        "  - {name: a, kind: gemm, m: 64, k: 8, n: 32, outside_bytes: 200, weight_bytes: 3000}",
    )
    chip = {"tiles": 1, "vector_width": 16, "stage_height": 16, "clock_hz": 1e9}
    chip |= {"sram_bytes": 4000, "memory_bytes_per_s": 1e9}
    overrides = {f"accelerator.{key}": f"{value:g}" for key, value in chip.items()}
    ask = {"model": name, "accelerator": "sn10", "overrides": overrides, "micro_batch": 4}
    found = netplan.map("rail-only-paper", **ask, data=2).found
    [part] = found.partitions
    assert part.compute_s == pytest.approx(64e-9)
    assert part.memory_s == pytest.approx(200e-9)
    assert part.setup_s == pytest.approx(3000e-9 / 4)
    assert found.totals.interval_s == pytest.approx(950e-9)
    assert found.totals.throughput_per_s == pytest.approx(2 / (2 * 950e-9))
    assert found.totals.unit == "runs"


def test_the_example_is_cut_and_its_chips_sum_up() -> None:
    done = command(
        "map", "rail-only-paper", "--model", str(MIXER), "--accelerator", "sn10", "--format", "json"
    )
    found = json.loads(done.stdout)
    assert found["inputs"]["tensor"] == 4
    names = [name for row in found["partitions"] for name in row["kernels"]]
    assert sorted(names) == sorted(one["name"] for one in found["kernels"])
    # Two all-reduces of 32 MiB on a ring of four, both directions in use.
    network = sum(row["network_s"] for row in found["partitions"])
    assert network == pytest.approx(2 * 33554432 * 3 / 4 / 25e9)


def test_kernels_of_other_token_counts_have_sequence_tiles_in_common(tmp_path: Path) -> None:
    name = written(
        tmp_path,
        "kernels:",
        "  - {name: a, kind: gemm, m: 64, k: 8, n: 48, output_bytes: 100}",
        "  - {name: b, kind: simd, m: 64, n: 32, output_bytes: 100}",
        "edges: [[a, b]]",
    )
    best = netplan.map("rail-only-paper", model=name, accelerator="sn10").found
    assert 48 % (best.sequence_tile or 0) == 0
    assert 32 % (48 // (best.sequence_tile or 1)) == 0
    with pytest.raises(InputError, match="into no more than 16 equal parts"):
        netplan.map("rail-only-paper", model=name, accelerator="sn10", sequence_tile=2)


@pytest.mark.parametrize(
    ("lines", "line", "told"),
    [
        ("kernels: []", 6, "at least 1|length >= 1|should be"),
        ("kernels: [{name: a, kind: gemm, m: 4, n: 4, colour: 1}]", 6, "unknown key"),
        (
            "kernels: [{name: a, kind: fold, m: 4, n: 4}]",
            6,
            "'gemm', 'simd', 'update', 'conv' or 'pool'",
        ),
        ("kernels: [{name: a, kind: simd, m: 4, k: 2, n: 4}]", 6, "no inner size"),
        ("kernels: [{name: a, kind: gemm, m: 0, n: 4}]", 6, "greater than 0"),
        ("kernels: [{name: a, kind: gemm, m: 4, n: 4, weight_bytes: -1}]", 6, "0"),
        ("kernels: [{name: a, kind: gemm, m: 1e12, k: 1e12, n: 2}]", 6, "cut it in several"),
        ("kernels: [{name: 'a,b', kind: gemm, m: 4, n: 4}]", 6, "no commas"),
        ("kernels: [{name: a, kind: gemm, m: 4}]", 6, "n is missing"),
        (f"kernels:\n{A}\n{A}", 7, "2 kernels are called 'a'"),
        (f"kernels:\n{A}\nedges:\n- [a, b]", 9, "'b' is no kernel"),
        (f"kernels:\n{A}\nedges:\n- [a]", 9, "length 2"),
        (f"kernels:\n{A}\nedges:\n- [a, a]", 8, "in a circle"),
        (
            f"kernels:\n{A.replace('}', ', backward: true}')}\n{B}\nedges:\n- [a, b]",
            10,
            "runs backward",
        ),
        (f"kernels:\n{A}\n{B}\nedges:\n- [a, b]\n- [a, b]", 10, "more than once"),
        ("chips: 0\nkernels: [{name: a, kind: gemm, m: 4, n: 4}]", 6, "chips"),
        ("layers: 1e9\nkernels: [{name: a, kind: gemm, m: 4, n: 4}]", 6, "layers"),
    ],
)
def test_every_fault_has_its_file_and_line(
    tmp_path: Path, lines: str, line: int, told: str
) -> None:
    name = written(tmp_path, lines)
    with pytest.raises(CatalogError, match=told) as error:
        WORKLOADS.load(name)
    assert str(error.value).startswith(f"{name}:{line}: ")
    done = command("map", "rail-only-paper", "--model", name, "--accelerator", "sn10")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"mine.yaml:{line}: " in done.stderr


def test_too_many_kernels_are_refused(tmp_path: Path) -> None:
    rows = [f"- {{name: k{at}, kind: simd, m: 4, n: 4}}" for at in range(MAX_KERNELS + 1)]
    with pytest.raises(CatalogError, match=f"{MAX_KERNELS:,}|{MAX_KERNELS}"):
        WORKLOADS.load(written(tmp_path, "kernels:", *rows))


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (str(MIXER), "--direction both"),
        ("dlrm-12t", "--gpus 128 --pipeline 4"),
        ("dlrm-12t", "--gpus 128 --tensor 4"),
        ("fft-1t", "--gpus 4096 --data 7"),
        ("hpl-16k", "--gpus 8 --cut FACT"),
        ("hpl-16k", "--gpus 8 --data 2"),
    ],
)
def test_inputs_of_other_families_are_refused(model: str, words: str) -> None:
    done = command(
        "map", "rail-only-paper", "--model", model, "--accelerator", "sn10", *words.split()
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "leave it out" in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_example_is_a_sound_file() -> None:
    assert read_yaml(MIXER).data["name"] == MIXER.stem
    assert WORKLOADS.load(str(MIXER)).graph().count == 10


@pytest.mark.parametrize("family", ["tree", "[1, 2]", "{a: 1}", "7"])
def test_a_family_that_is_none_is_told_in_one_line(tmp_path: Path, family: str) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(f"name: own\nfamily: {family}\nsource: me\ndate: '2026'\n")
    with pytest.raises(CatalogError, match=r"own\.yaml:2: family .* is unknown: known are"):
        WORKLOADS.load(str(path))
