"""The 4D preset against the authors' code: plans, times, memory, counts; all to 1e-9 relative."""

from typing import cast

import numpy as np
import pytest

from netplan.inputs.choices import Mode
from netplan.performance.compute import LayerGroups, operation_times
from netplan.performance.plan import PlanTime
from netplan.performance.search import evaluate_plan, search_plans
from netplan.performance.setting import Setting
from netplan.traffic.hierarchy import CollectiveNetwork
from netplan.traffic.placement import Placements
from netplan.workloads.operations import Operation, Sharding
from tests.performance.cases import (
    FOURD,
    REL,
    SYSTEMS,
    Row,
    published_case,
    read,
    strategy_of,
    two_tiers,
)

BEST = read("fourd_best.csv") + read("fourd_corrected.csv")
OPERATIONS = [row for name in ("fourd_ops_1d_nt8.csv", "fourd_ops_summa.csv") for row in read(name)]


def name_of(row: Row) -> str:
    return "-".join(row[key] for key in ("mode", "strategy", "model", "system", "n"))


def columns_of(timed: PlanTime, row: Row) -> dict[str, float]:
    """All columns of a row that has them, computed."""
    parts, memory = timed.breakdown_s, timed.memory_parts_bytes
    got = {
        "t_iter_s": timed.iteration_time_s,
        "throughput_seq_s": float(row["B"]) / timed.iteration_time_s,
        "mem_GB": timed.memory_bytes / 1e9,
        "weights_GB": memory["weights"] / 1e9,
        "gradients_GB": memory["gradients"] / 1e9,
        "optimizer_GB": memory["optimizer"] / 1e9,
        "activations_GB": memory["activations"] / 1e9,
        "t_comp_s": parts["compute"],
        "t_mem_exposed_s": parts["memory"],
        "t_tp_s": parts["tensor_comm"],
        "t_dp_s": parts["data_comm"],
        "t_pp_s": parts["pipeline_comm"],
        "t_bubble_s": parts["bubble"],
    }
    return {key: value for key, value in got.items() if key in row}


@pytest.mark.parametrize("row", BEST, ids=name_of)
def test_search_finds_the_published_plan(row: Row) -> None:
    case, levels = published_case(row)
    found = search_plans(case, levels, strategy=strategy_of(row), mode=cast("Mode", row["mode"]))
    assert found.enumerated == int(row["candidates"])
    assert found.feasible == int(row["feasible"])
    (best,) = found.plans
    plan, inside = best.plan, best.plan.placement.levels[0]
    names = ("n1", "n2", "n_p", "n_d", "b", "m", "n_b", "v1", "v2", "v_p", "v_d")
    got = [plan.tensor, plan.context, plan.pipeline, plan.data, plan.microbatch]
    got += [plan.microbatches, plan.panels]
    got += [inside.tensor, inside.context, inside.pipeline, inside.data]
    assert got == [int(row[name] or 1) for name in names]
    columns = columns_of(best, row)
    assert columns == pytest.approx({key: float(row[key]) for key in columns}, rel=REL, abs=0)
    assert best.memory_parts_bytes["buffers"] == 0


@pytest.mark.parametrize("row", BEST, ids=name_of)
def test_evaluating_the_plan_alone_gives_what_the_search_gave(row: Row) -> None:
    case, levels = published_case(row)
    strategy, mode = strategy_of(row), cast("Mode", row["mode"])
    (best,) = search_plans(case, levels, strategy=strategy, mode=mode).plans
    assert evaluate_plan(case, levels, best.plan, strategy=strategy, mode=mode) == best


def flops_of(row: Row, operations: tuple[Operation, ...]) -> float:
    """All FLOPs of a layer in 1e12, vector work of attention charged at the tensor peak."""
    ratio = SYSTEMS[row["system"]][0] / SYSTEMS[row["system"]][1]
    total = 0.0
    for operation in operations:
        weight = ratio if operation.name == "attention" else 1.0
        for work in (operation.forward, operation.backward):
            total += float(np.sum(work.tensor_flops + weight * np.asarray(work.vector_flops)))
    return total / 1e12


@pytest.mark.parametrize("row", [row for row in BEST if row.get("tflop_per_gpu")], ids=name_of)
def test_flops_per_gpu_are_the_published_ones(row: Row) -> None:
    case, _ = published_case(row)
    b, n1, n2, m, n_p = (int(row[key]) for key in ("b", "n1", "n2", "m", "n_p"))
    setting = Setting(case, strategy_of(row), cast("Mode", row["mode"]))
    layer = setting.program(Sharding.of(b, n1, n2, int(row["n_b"] or 1))).layer
    got = flops_of(row, layer.operations) * m * (setting.transformer.layers // n_p)
    assert got == pytest.approx(float(row["tflop_per_gpu"]), rel=REL)


def operation_case(row: Row) -> tuple[Operation, dict[str, float]]:
    """One operation of the published tables with its computed times."""
    case, _ = published_case(row)
    n1, n2, v1, v2 = (int(row[key]) for key in ("n1", "n2", "v1", "v2"))
    sharding = Sharding.of(int(row["b"]), n1, n2, int(row["n_b"] or 1))
    setting = Setting(case, strategy_of(row), "published-code")
    degrees = np.array([[v1, v2, 1, 1, 1], [n1 // v1, n2 // v2, 1, 1, 1]])
    network = CollectiveNetwork(
        two_tiers(row["system"], 8, 64), FOURD.communication.used, "published-code"
    )
    groups = LayerGroups.of(network, Placements(degrees[:, :, None]), np.zeros(1, dtype=np.int64))
    operations = {one.name: one for one in setting.program(sharding).layer.operations}
    operation = operations[row["op"]]
    times = {}
    for prefix, time in zip(
        ("fwd", "bwd"), operation_times(operation, setting, groups), strict=True
    ):
        times[f"t_{prefix}_s"] = float(time.total_s[0])
        times[f"t_{prefix}_comp_s"] = float(time.compute_s[0])
        times[f"t_{prefix}_mem_exposed_s"] = float(time.memory_s[0])
        times[f"t_{prefix}_comm_s"] = float(time.tensor_s[0])
    return operation, times


@pytest.mark.parametrize("row", OPERATIONS, ids=lambda row: f"{row['strategy']}-{row['op']}")
def test_every_operation_is_the_published_one(row: Row) -> None:
    operation, got = operation_case(row)
    got["weights_GB"] = float(np.sum(operation.weight_bytes)) / 1e9
    got["activations_GB"] = float(np.sum(operation.activation_bytes)) / 1e9
    ratio = SYSTEMS["B200"][0] / SYSTEMS["B200"][1] if operation.name == "attention" else 1.0
    for prefix, work in (("fwd", operation.forward), ("bwd", operation.backward)):
        flops = np.sum(work.tensor_flops + ratio * np.asarray(work.vector_flops))
        got[f"flop_{prefix}_T"] = float(flops) / 1e12
    assert got == pytest.approx({key: float(row[key]) for key in got}, rel=REL, abs=0)


@pytest.mark.parametrize("row", OPERATIONS, ids=lambda row: f"{row['strategy']}-{row['op']}")
def test_every_operation_communicates_as_published(row: Row) -> None:
    operation, _ = operation_case(row)
    members = {"tensor": int(row["n1"]), "context": int(row["n2"]), "expert": 1}
    for prefix, work in (("fwd", operation.forward), ("bwd", operation.backward)):
        used = [one for one in work.collectives if members[one.group] > 1]
        kinds = ";".join(one.kind.replace("_", "") for one in used)
        assert (kinds or "none") == row[f"comm_{prefix}"]
        expected = [float(size) for size in row[f"comm_{prefix}_GB"].split(";")]
        got = [float(np.sum(one.message_bytes)) / 1e9 for one in used] or [0.0]
        assert got == pytest.approx(expected, rel=REL, abs=0)
