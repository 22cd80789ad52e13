"""Mappings on the command line: the examples of its help, headings, and rings."""

import json

import pytest

from netplan.questions.map import Map
from tests.cli.command import netplan, refused


@pytest.mark.parametrize("example", Map.examples)
def test_examples_of_the_help_have_an_answer(example: str) -> None:
    assert netplan(*example.split()[1:], "--format", "json").returncode == 0


def test_chips_without_hb_domains_make_a_ring_of_network_links() -> None:
    eight = (
        "map",
        "rail-only-paper",
        "--model",
        "gpt-175b",
        "--accelerator",
        "tpu-v4",
        "--tensor",
        "8",
    )
    answer = json.loads(netplan(*eight, "--format", "json").stdout)
    (proj,) = (row for row in answer["partitions"] if row["kernels"] == ["Proj"])
    # 2 x 12,288 x 2,048 B, seven eighths of it over one link of 50 GB/s in each direction.
    assert proj["network_s"] == pytest.approx(2 * 12288 * 2048 * 7 / 8 / 50e9)
    assert "HB domains" not in netplan(*eight).stdout


def test_a_ring_longer_than_an_hb_domain_is_told() -> None:
    dlrm = (
        "map",
        "rail-only-paper",
        "--model",
        "dlrm-793b",
        "--accelerator",
        "a100-80gb",
        "--gpus",
        "128",
    )
    shown = netplan(*dlrm, "--details", columns=100).stdout
    assert "tiles of 512 samples" in shown
    assert "a ring of 128 leads" in " ".join(shown.split())
    fabric = netplan(*dlrm, "--fabric", "ring-8-mesh-16", "--details", columns=100).stdout
    assert "leads out" not in " ".join(fabric.split())
    assert "11,960 micro-batches/s" in " ".join(fabric.split())


def test_a_grid_says_which_option_gives_its_rows() -> None:
    hpl = ("--model", "hpl-16k", "--accelerator", "sn10", "--gpus", "8", "--details")
    shown = netplan("map", "rail-only-paper", *hpl).stdout
    assert "A grid of 1 x 8 chips (--tensor gives its rows), 16 steps of 1,024 columns." in shown


def test_what_has_nearly_room_is_told_by_the_rest() -> None:
    # 2^40 points of 8 B on 8 chips are 2^40 B, the file has 1,099,511,600,000 B.
    line = refused(
        "map", "rail-only-paper", "--model", "fft-1t", "--accelerator", "sn30", "--gpus", "8"
    )
    assert "27.8 kB have no room" in line
