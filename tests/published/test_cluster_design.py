"""Checks against COMET: they can fail; all rows of its reference hold within their tolerance."""

import csv
import json
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from netplan.levels import Level
from netplan.performance.compute import working_bytes
from netplan.performance.tiers import hybrid_bytes_per_s
from netplan.published.checks import published
from netplan.published.cluster_design import (
    CHUNKS,
    changes_of_messages,
    cluster_design_checks,
    communication_share,
    timed,
)
from netplan.records import replace
from netplan.traffic.collectives import hb_bandwidth_ratio
from netplan.traffic.hierarchy import collective_s
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.closed_forms import layer_parameters
from netplan.workloads.models import MODELS
from netplan.workloads.operations import Sharding
from netplan.workloads.tiled_layer import gemm_traffic_bytes

GOLDEN = Path(__file__).parents[1] / "golden" / "cluster_design.csv"
STAGES = {"without ZeRO": 0, "ZeRO-1": 1, "ZeRO-2": 2, "ZeRO-3": 3}


def reference() -> list[dict[str, str]]:
    with GOLDEN.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _gemm(given: dict[str, Any]) -> float:
    keys = {"sram_bytes": given["sram_bytes"], "element_bytes": given["element_bytes"]}
    return float(gemm_traffic_bytes(given["M"], given["K"], given["N"], **keys))


def _roofline(given: dict[str, Any]) -> float:
    flops_s = 2 * given["M"] * given["K"] * given["N"] / given["peak_flop_per_s"]
    return max(float(flops_s), _gemm(given) / float(given["memory_bytes_per_s"]))


def _hybrid(given: dict[str, Any]) -> float:
    return float(hybrid_bytes_per_s(**given))


def _parameters(_: dict[str, Any]) -> float:
    model = MODELS.load("transformer-1t")
    return float(model.layers * layer_parameters(model))


def _footprint(given: dict[str, Any], *, stage: int) -> float:
    return timed(given["mp"], zero_stage=stage).memory_bytes


def _working(given: dict[str, Any]) -> float:
    model = MODELS.load("transformer-1t")
    short = replace(model, sequence_length=given["seq"])
    sequences = given["tokens_per_replica"] / given["seq"]
    return float(working_bytes(short, Sharding.of(sequences, tensor=8))[0])


def _ratio(given: dict[str, Any]) -> float:
    return float(hb_bandwidth_ratio(given["x"], given["y"], chunks=given["chunks"]))


def _inside(given: dict[str, Any]) -> float:
    ratio = _ratio({"x": 8, "y": 8} | given)
    return float(given["sum_bytes_per_s"]) * ratio / (1 + ratio)


def _between(given: dict[str, Any]) -> float:
    return float(given["sum_bytes_per_s"]) - _inside(given)


def _messages(given: dict[str, Any]) -> float:
    def seconds(inside: float, between: float) -> float:
        levels = Level("switch", 8, inside), Level("switch", 8, between)
        return float(collective_s("all_reduce", levels, data_bytes=1e9, chunks=given["chunks"]))

    return seconds(given["C_in"], given["C_out"]) / seconds(300e9, 31.25e9)


def _gradients(given: dict[str, Any]) -> float:
    level = Level("switch", given["dp"], given["C_out"])
    return float(collective_s("all_reduce", [level], data_bytes=given["bytes"], chunks=CHUNKS))


def _links(given: dict[str, Any]) -> float:
    """Catalog and table have the same links."""
    tpu, tray = ACCELERATORS.load("tpu-v4-comet"), ACCELERATORS.load("dojo-tray")
    if given["links"] == tpu.chip_ports:
        assert given["link_bytes_per_s"] == tpu.network_bytes_per_s
        return tpu.chip_ports * tpu.network_bytes_per_s
    return tray.hb_bytes_per_s


def _least(given: dict[str, Any]) -> float:
    degrees = (1 << bit for bit in range(11))
    return min(one for one in degrees if timed(one).memory_bytes <= given["capacity_bytes"])


def _change(given: dict[str, Any]) -> float:
    return float(given["f"]) * (_messages(given) - 1)


def _preset(given: dict[str, Any], *, part: str) -> float:
    found = timed(given["mp"])
    sent = found.breakdown_s["tensor_comm"] + found.breakdown_s["data_comm"]
    parts = {"iteration": found.iteration_time_s, "MP communication": sent}
    return parts.get(part, found.iteration_time_s - sent)


FORMULAS: dict[str, Callable[[dict[str, Any]], float]] = {
    "effective bandwidth": _hybrid,
    "parameters": _parameters,
    "activation working memory": _working,
    "memory traffic": _gemm,
    "time": _roofline,
    "optimum C_in/C_out": _ratio,
    "C_in at the optimum": _inside,
    "C_out at the optimum": _between,
    "gradient all_reduce time": _gradients,
    "network bandwidth per node": _links,
    "smallest MP that fits, ZeRO-2": _least,
    "share of communication f": lambda _: communication_share(),
    **{f"footprint {name}": partial(_footprint, stage=at) for name, at in STAGES.items()},
    **{
        f"{part} time": partial(_preset, part=part)
        for part in ("compute", "MP communication", "iteration")
    },
}
TRENDS = {
    "best MP": "MP of the least time",
    "smallest MP that fits 80 GB": "least MP that fits 80 GB",
    "EM bandwidth where MP8 beats MP64": "expanded memory from which MP 8 beats MP 64, GB/s",
    "MP8 half peak": "MP 8, half the FLOP/s, %",
    "MP8 double peak": "MP 8, double the FLOP/s, %",
    "MP8 both bandwidths halved": "MP 8, half of both bandwidths, %",
    "MP8 both bandwidths times 4": "MP 8, four times both bandwidths, %",
    "gain at ratio 1:6 MP64": "MP 64, ratio 1:6, %",
}


@pytest.mark.parametrize(
    "row",
    [row for row in reference() if row["status"] in ("exact", "fitted")],
    ids=lambda row: f"{row['item']}, {row['quantity']} {row['inputs']}",
)
def test_rows_of_the_reference(row: dict[str, str]) -> None:
    given = json.loads(row["inputs"])
    quantity = row["quantity"]
    if quantity.startswith("relative all_reduce time"):
        value = _messages(given)
    elif quantity.startswith("change of iteration time"):
        value = _change(given)
        # The tolerance stands against the paper's value.
        assert abs(value - float(row["paper_value"])) < float(row["tolerance_abs"])
        assert value == pytest.approx(float(row["value"]), rel=1e-9)
        return
    else:
        value = FORMULAS[quantity](given)
    assert value == pytest.approx(float(row["value"]), rel=float(row["tolerance_rel"]) or 1e-15)


def test_trends_and_the_rest_of_the_reference_are_checks() -> None:
    checks = {one.name: one for one in cluster_design_checks()}
    trends = [row for row in reference() if row["status"] == "trend"]
    assert {row["quantity"] for row in trends} == set(TRENDS)
    for row in trends:
        check = checks[TRENDS[row["quantity"]]]
        assert check.grade in ("exact", "close", "trend", "source")
        unit = 0.01 if check.name.endswith("%") else 1e9 if row["unit"] == "B/s" else 1.0
        assert float(check.expected) * unit == pytest.approx(float(row["paper_value"]))
    # Ten printed numbers whose inputs are not.
    ungated = [row for row in reference() if row["status"] == "do-not-gate"]
    left = [one for one in checks.values() if one.grade != "exact"]
    assert {float(row["paper_value"]) for row in ungated} <= {
        float(one.expected) for one in left if one.expected[0].isdigit()
    }
    assert len(ungated) == 10


def test_nothing_fails_and_what_is_known_says_why() -> None:
    checks = [*cluster_design_checks()]
    assert [one.name for one in checks if one.verdict == "fail"] == []
    grades = Counter(one.grade for one in checks)
    names = [one.name for one in checks]
    assert names == [row["name"] for row in published("cluster-design")]
    assert len(set(names)) == 68
    assert (grades["off"], grades["source"]) == (0, 21)


def test_changes_scale_with_one_over_the_bandwidth() -> None:
    """r(half between) = 2 r(double inside), r(half inside) = 2 r(double between)."""
    ratio = {name: 1 + more for name, more in changes_of_messages().items()}
    assert ratio["half between them"] == pytest.approx(2 * ratio["double in the pods"], rel=1e-12)
    assert ratio["half in the pods"] == pytest.approx(2 * ratio["double between them"], rel=1e-12)
    assert ratio["double both"] == pytest.approx(0.5, rel=1e-12)


def test_the_share_of_communication_is_the_least_squares() -> None:
    """Any other share fits the six changes worse."""
    printed = {row["name"]: row["expected"] for row in published("cluster-design")}
    more = changes_of_messages()
    ours = [float(printed[f"MP 64, bandwidth {name}, %"]) / 100 for name in more]

    def misfit(share: float) -> float:
        return sum((share * one - two) ** 2 for one, two in zip(more.values(), ours, strict=True))

    share = communication_share()
    assert misfit(share) < min(misfit(share - 1e-4), misfit(share + 1e-4))
