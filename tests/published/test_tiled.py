"""Checks against PALM and Megatron-LM: they can fail, and say what is known to differ."""

import csv
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from netplan.published import tiled
from netplan.published.checks import Check, checks_of, published
from netplan.published.tiled import measured_per_s, megatron_checks, sent_bytes
from netplan.workloads.models import MODELS

TIGHT = [row for row in published("tiled") if row["tolerance"]]
GOLDEN = Path(__file__).parents[1] / "golden" / "tiled_golden.csv"


@pytest.mark.parametrize("row", TIGHT, ids=lambda row: row["name"])
def test_a_value_that_is_off_fails(row: dict[str, str]) -> None:
    value, by = float(row["expected"]), 1.5 * float(row["tolerance"])
    for factor, verdict in ((1.0, "pass"), (1 + by, "fail"), (1 - by, "fail")):
        (check,) = checks_of([(row["name"], factor * value)], "tiled")
        assert check.verdict == verdict


def test_the_table_has_what_the_reference_has() -> None:
    names = {
        "throughput of the published code": "on GPUs: sequences/s of the published code",
        "throughput printed by the paper": "on GPUs: sequences/s by PALM",
        '"published" throughput printed by the paper': "published sequences/s",
        "corrected published throughput": "published sequences/s, corrected",
        "wafer throughput of the published code": "on the wafer: sequences/s of the published code",
        "wafer throughput printed by the paper": "on the wafer: sequences/s by PALM",
        'wafer "published" throughput printed': "on the wafer: published sequences/s",
    }
    mine = {row["name"]: float(row["expected"]) for row in published("tiled") if not row["low"]}
    with GOLDEN.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["quantity"] in names]
    assert len(rows) == 6 * 4 + 3 * 3
    for row in rows:
        name = names[row["quantity"]]
        join = " " if name.startswith("on ") else ": "
        assert mine[f"{row['case']}{join}{name}"] == float(row["value"])


def test_what_is_known_to_differ_says_why(
    suites: Mapping[str, Callable[[], tuple[Check, ...]]],
) -> None:
    checks = suites["tiled accelerators"]()
    assert [one.name for one in checks if one.verdict == "fail"] == []
    left = [one for one in checks if one.verdict == "known"]
    assert all(one.reason for one in left)
    assert len({one.name for one in checks}) == len(checks) == len(published("tiled")) == 63
    found = {one.name: one.got for one in left}
    assert len(found) == 21
    assert (found["T-18B: S-shaped over line, %"], found["T-145B: S-shaped over line, %"]) == (
        "-0.823",
        "-3.65",
    )
    # All that is sent and how adapters do it stand in Fig. 12 alone.
    assert [one.name for one in left if "Eq. 7" in one.reason and one.got == "-"] == [
        "all-reduce at the source (Eq. 7) over adapters (Eq. 8), 12 tiles",
        "adapters (Eq. 8) over all-reduce at the source (Eq. 7), 13 tiles",
    ]


def test_least_is_sent_at_the_root_of_equation_6() -> None:
    """The root x is sqrt(3 x 12,288 x 16 / (115 x 2,048)) = 1.5825; a x / N is then b / x.

    With n ranks instead it is (n/x + x/n) / 2 times as much: 1.02754 for two of them.
    """
    model, least = MODELS.load("t-145b"), 2 * (8 * 115 * 2048 * 12288 / 16 * 24 * 12288**2) ** 0.5
    for ranks, factor in ((1, 1.10721), (2, 1.02754), (4, 1.46164)):
        assert sent_bytes(model, 115, ranks) == pytest.approx(factor * least, rel=1e-5)


def test_attention_and_vocabulary_are_the_difference() -> None:
    """T-18B: 1 + 2,048 / (6 x 6,144) + 51,200 / (16 x 40 x 6,144) = 1.068576."""
    short, whole = (measured_per_s("t-18b", 256, 135e12, whole=one) for one in (False, True))
    assert short / whole == pytest.approx(1 + 1 / 18 + 0.0130208, rel=1e-6)


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "pass"), (1.14, "pass"), (0.84, "known")])
def test_a_run_passes_within_the_gate_alone(
    factor: float, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def near(run: tiled._Run, microbatch: int) -> float:
        right = measured_per_s(run.model, run.gpus, run.flops_per_gpu)
        return right * (factor if microbatch == 4 else 1.0)

    monkeypatch.setattr(tiled, "_simulated_per_s", near)
    found = [*megatron_checks()]
    assert [one.verdict for one in found] == [verdict] * 6
    error = f"{100 * (factor - 1):+.0f} %"
    assert error in found[0].got
