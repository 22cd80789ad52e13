"""Models that lie on all GPUs alike on the command line: their columns, one line of refusal."""

import json

from tests.cli.command import netplan, refused

DLRM = ("--model", "dlrm-793b", "--gpus", "128", "--radix", "64")
FFT = ("--model", "fft-1t", "--gpus", "1024", "--accelerator", "b200")


def test_a_comparison_shows_the_exchange_and_no_degrees() -> None:
    shown = netplan(
        "compare", "rail-only-paper", *DLRM, "--hb-size", "8", "--details", columns=80
    ).stdout
    assert "TPxPPxDP" not in shown


def test_traffic_of_a_transform_is_its_exchange() -> None:
    answer = json.loads(netplan("traffic", "rail-only-paper", *FFT, "--format", "json").stdout)
    assert [kind["kind"] for kind in answer["kinds"]] == ["tensor"]
    # 2^40 points of 8 bytes, twice: 7/8 of them inside domains of 8, then 127/128 between them.
    assert answer["total_bytes"] == 2 * 8 * 2**40 * (7 / 8 + 127 / 128)


def test_plans_of_a_matrix_show_their_grids() -> None:
    hpl = ("--model", "hpl-16k", "--gpus", "8", "--accelerator", "sn10")
    words = ("search", "rail-only-paper", *hpl, "--explain", "layer", "--details")
    shown = netplan(*words, columns=100).stdout
    assert "grid   inside HB" in shown
    assert "  1x8 " in shown
    assert "Operations of plan 1, an iteration" in shown
    assert "backward" not in shown
    words = ("compare", "rail-only-paper", *hpl, "--radix", "64", "--details")
    assert "grid" in netplan(*words, columns=100).stdout


def test_json_has_the_parts_of_an_iteration() -> None:
    (row,) = json.loads(
        netplan(
            "compare", "rail-only-paper", *DLRM, "--fabric", "fat-tree", "--format", "json"
        ).stdout
    )["fabrics"]
    assert sum(row["breakdown_s"].values()) == row["iteration_time_s"]
    assert row["plan"]["expert"] == row["gpus_used"] == 128


def test_one_line_for_what_a_model_does_not_have() -> None:
    assert "--fix pipeline=4" in refused("search", "rail-only-paper", *DLRM, "--fix", "pipeline=4")
    assert "--recompute" in refused("compare", "rail-only-paper", *DLRM, "--recompute", "full")
