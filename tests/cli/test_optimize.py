"""``netplan optimize``: its formats, its JSON contract, what it refuses."""

import csv
import io
import json

import pytest

from tests.cli.command import netplan, refused

MAIN_JOB = (
    *(
        "optimize",
        "rail-only-paper",
        "--radix",
        "64",
        "--radix",
        "128",
        "--gpus",
        "16384",
        "--accelerator",
        "h100-80gb",
        "--hb-size",
        "8",
    ),
    *("--budget", "120e6", "--survives-switch", "--prices", "2026"),
)
LEAST_POWER = (
    "optimize",
    "rail-only-paper",
    "--radix",
    "64",
    "--radix",
    "128",
    "--gpus",
    "32768",
    "--for",
    "power",
    "--prices",
    "2026",
)


def test_json_contract() -> None:
    data = json.loads(netplan(*MAIN_JOB, "--format", "json").stdout)
    inputs, space = data["inputs"], data["space"]
    assert (inputs["gpus"], inputs["hb_sizes"], inputs["radices"]) == (16_384, [8], [64, 128])
    assert (inputs["budget"], inputs["survives_switch"]) == (120e6, True)
    front = data["front"]
    costs = [row["cost_usd"]["base"] for row in front]
    times = [row["iteration_time_s"] for row in front]
    assert costs == sorted(costs)
    assert times == sorted(times, reverse=True)
    assert costs[-1] <= 120e6
    assert all(row["survives_switch"] and row["worst_switch_share"] < 1 for row in front)
    # No maker sells a torus or a cube for HGX servers.
    assert {row["fabric"] for row in front} == {"rail-only"}
    cheapest = front[0]
    assert (cheapest["radix"], cheapest["oversubscription"]) == (128, 4.0)
    # 208 switches at 85,000, 14 in each of 15 racks at 10,200; 41,168 modules at 611.95; fibre of
    # 15 m to hosts at 191.425 and of 30 m to 4,200 spine ports at 308.68, each laid for 87.
    parts = 208 * 85_000 + 15 * 10_200 + 41_168 * 611.95 + 16_384 * 1_499
    fibres = 16_384 * 191.425 + 4_200 * 308.68 + 20_584 * 87
    assert costs[0] == pytest.approx(parts + fibres)
    assert len(data["steps"]) == len(front) - 1
    assert data["knee"] == 1  # rail-only at 3:1: what is faster costs far more
    for at, step in enumerate(data["steps"]):
        assert step["faster"] == times[at] / times[at + 1] - 1
        assert step["price_per_percent_usd"] == pytest.approx(
            step["price_usd"] / (100 * step["faster"])
        )
    assert space["designs"] == space["built"] + space["cannot_be_built"]
    for row in space["constraints"]:
        assert row["met"] + row["excluded"] == space["built"]
    searches = space["searches"]
    assert searches["run"] + searches["spared"] == searches["different_levels"]
    assert space["plans_evaluated"] > 0


def test_csv_has_a_row_a_point() -> None:
    rows = list(csv.DictReader(io.StringIO(netplan(*MAIN_JOB, "--format", "csv").stdout)))
    assert [row["design"] for row in rows] == [str(at + 1) for at in range(len(rows))]
    assert {row["hb_size"] for row in rows} == {"8"}
    assert netplan(*MAIN_JOB, "--format", "markdown").stdout.startswith(
        "# Networks for 16,384 GPUs"
    )


def test_the_same_input_gives_the_same_bytes() -> None:
    for format_ in ("table", "json"):
        arguments = (*LEAST_POWER, "--format", format_)
        assert netplan(*arguments).stdout == netplan(*arguments).stdout


def test_options_that_repeat() -> None:
    arguments = (
        *(
            "optimize",
            "rail-only-paper",
            "--gpus",
            "2048",
            "--model",
            "gpt-22b",
            "--batch",
            "1,024",
        ),
        *("--hb-size", "8", "--hb-size", "64", "--fabric", "rail-only", "--fabric", "fat-tree"),
        *("--switch", "qm9700", "--switch", "sn5600", "--oversubscription", "3:1"),
        *("--oversubscription", "1", "--delivery", "shipping", "--format", "json"),
    )
    inputs = json.loads(netplan(*arguments).stdout)["inputs"]
    assert inputs["hb_sizes"] == [8, 64]
    assert inputs["fabrics"] == ["rail-only", "fat-tree"]
    assert (inputs["switches"], inputs["radices"]) == (["qm9700", "sn5600"], [64, 128])
    assert inputs["oversubscriptions"] == [3.0, 1.0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--fabric", "rail-onyl"), "'rail-onyl': did you mean rail-only or rail-only-ocs?"),
        (("--budget=-5",), "--budget is above 0, got -5"),
        (("--limit", "price=abc"), "--limit price: 'abc' is not a valid float"),
        (("--radix", "127"), "switch radix 127 cannot be used: give an even number of ports"),
        (("--hb-size", "4096"), "an HB domain of 4,096 GPUs is out of range: give 1 to 2,048"),
        (("--oversubscription", "1:2"), "is out of range: at least 1:1"),
        (("--for", "speed"), "'speed' is not one of 'cost', 'power'"),
        (
            ("--budget", "1e6", "--hb-size", "8"),
            "the cheapest, rail-optimized, HB 8, radix 64, 4:1, costs 9.8 M USD",
        ),
        (("--switch", "qm9700", "--max-lead-time", "4", "--fabric", "rail-only"), "qm9700 unknown"),
    ],
)
def test_bad_input_gets_one_line(arguments: tuple[str, ...], message: str) -> None:
    error = refused("optimize", "rail-only-paper", "--gpus", "2048", "--prices", "2026", *arguments)
    assert message in error
    assert error.count("\n") == 1
