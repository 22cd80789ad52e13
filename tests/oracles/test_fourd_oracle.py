"""The 4D oracle against the authors' code and against its own regression values.

`fourd_best.csv`, `fourd_ops_1d_nt8.csv` and `fourd_ops_summa.csv` hold the output of the published
code of Subramanian et al., run unmodified. `fourd_corrected.csv` holds regression values: no
outside source knows the corrected mode. All columns agree to 1e-9 relative.

What these rows leave open (small clusters, sizes that do not divide, two tiers whose fast one is
the narrower, memory-bound SUMMA) is held by arithmetic at the end.
"""

import csv
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from tests.turns import one_in

from .fourd import (
    OperationRow,
    candidates,
    evaluate,
    hop_s,
    operations,
    panel_counts,
    placements,
    search,
    tensor_degrees,
)
from .fourd_inputs import MODELS, Mode, Model, Plan, Split, Strategy, System, system_with_domain
from .fourd_layer import Operation, layer_operations
from .fourd_times import (
    Collective,
    Group,
    Kind,
    Timing,
    Work,
    collective_s,
    operation_timing,
    point_to_point_s,
)

PUBLISHED = Path(__file__).parents[1] / "published"
REL = 1e-9

Row = dict[str, str]


def read(name: str) -> list[Row]:
    with (PUBLISHED / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


BEST = read("fourd_best.csv") + read("fourd_corrected.csv")
OPERATIONS = [(name, read(name)) for name in ("fourd_ops_1d_nt8.csv", "fourd_ops_summa.csv")]


def name_of(row: Row) -> str:
    return "-".join(row[key] for key in ("mode", "strategy", "model", "system", "n"))


def split_of(row: Row) -> Split:
    b, n1, n2, v1, v2 = (int(row[key]) for key in ("b", "n1", "n2", "v1", "v2"))
    return Split(cast("Strategy", row["strategy"]), b, n1, n2, v1, v2, int(row["n_b"] or 1))


def plan_of(row: Row) -> Plan:
    n_p, n_d, v_p, v_d, m = (int(row[key]) for key in ("n_p", "n_d", "v_p", "v_d", "m"))
    return Plan(split_of(row), n_p, n_d, v_p, v_d, m)


def setting_of(row: Row) -> tuple[Model, System]:
    return MODELS[row["model"]], system_with_domain(row["system"], int(row["nvs"]))


def assert_close(got: dict[str, float], row: Row) -> None:
    expected = {key: float(row[key]) for key in got}
    assert got == pytest.approx(expected, rel=REL, abs=0)


@pytest.mark.parametrize("row", BEST, ids=name_of)
def test_the_published_plan_takes_the_published_times_and_memory(row: Row) -> None:
    model, system = setting_of(row)
    plan = plan_of(row)
    assert (plan.batch, plan.gpus) == (int(row["B"]), int(row["n"]))
    assert (model.sequence, model.embedding) == (int(row["l"]), int(row["e"]))
    assert (model.heads, model.depth) == (int(row["h"]), int(row["D"]))

    found = evaluate(model, system, plan, cast("Mode", row["mode"]))
    times, memory = found.times, found.memory
    got = {
        "t_iter_s": times.iteration_s,
        "throughput_seq_s": plan.batch / times.iteration_s,
        "mem_GB": memory.total_gb,
        "weights_GB": memory.weights_gb,
        "gradients_GB": memory.gradients_gb,
        "optimizer_GB": memory.optimizer_gb,
        "activations_GB": memory.activations_gb,
        "t_comp_s": times.comp_s,
        "t_mem_exposed_s": times.memory_s,
        "t_tp_s": times.tensor_s,
        "t_dp_s": times.data_s,
        "t_pp_s": times.pipeline_s,
        "t_bubble_s": times.bubble_s,
        "tflop_per_gpu": found.tflop_per_gpu,
    }
    # The regression file has fewer columns.
    assert_close({key: value for key, value in got.items() if key in row}, row)
    parts = times.comp_s + times.memory_s + times.tensor_s
    parts += times.data_s + times.pipeline_s + times.bubble_s
    assert times.iteration_s == pytest.approx(parts, rel=1e-12)


@pytest.mark.parametrize("row", one_in(3, BEST), ids=name_of)
def test_the_search_finds_the_published_plan_time_and_counts(row: Row) -> None:
    # Plans may tie on time, and which comes first is then an accident: a new row with a tie must
    # compare times only. In these rows exactly one plan has the best time (to 1e-12).
    model, system = setting_of(row)
    plans = candidates(
        model, system, cast("Strategy", row["strategy"]), int(row["B"]), int(row["n"])
    )
    found = search(model, system, plans, cast("Mode", row["mode"]))
    assert found.candidates == int(row["candidates"])
    assert found.feasible == int(row["feasible"])
    assert found.plan == plan_of(row)
    assert found.evaluation is not None
    assert_close({"t_iter_s": found.evaluation.times.iteration_s}, row)


def direction(prefix: str, work: Work, timing: Timing) -> dict[str, float]:
    return {
        f"flop_{prefix}_T": work.flop * 1e-12,
        f"t_{prefix}_s": timing.total_s,
        f"t_{prefix}_comp_s": timing.comp_s,
        f"t_{prefix}_mem_exposed_s": timing.memory_s,
        f"t_{prefix}_comm_s": timing.comm_s,
    }


def assert_collectives(prefix: str, work: Work, row: Row) -> None:
    kinds = ";".join(one.kind for one in work.collectives)
    volumes = [one.gigabytes for one in work.collectives] or [0.0]
    assert (kinds or "none") == row[f"comm_{prefix}"]
    expected = [float(volume) for volume in row[f"comm_{prefix}_GB"].split(";")]
    assert volumes == pytest.approx(expected, rel=REL, abs=0)


def assert_operation(got: OperationRow, row: Row) -> None:
    operation = got.operation
    assert operation.name == row["op"]
    values = {"weights_GB": operation.weights_gb, "activations_GB": operation.activations_gb}
    values |= direction("fwd", operation.forward, got.forward)
    values |= direction("bwd", operation.backward, got.backward)
    assert_close(values, row)
    assert_collectives("fwd", operation.forward, row)
    assert_collectives("bwd", operation.backward, row)


@pytest.mark.parametrize(("name", "rows"), OPERATIONS, ids=[name for name, _ in OPERATIONS])
def test_every_operation_takes_the_published_counts_and_times(name: str, rows: list[Row]) -> None:
    assert len(rows) == 14, name
    model, system = setting_of(rows[0])
    found = operations(model, system, split_of(rows[0]), "published-code")
    for got, row in zip(found, rows, strict=True):
        assert_operation(got, row)


# A system for arithmetic by head: 1 TFLOP/s after the efficiency of 0.8, latencies of 1 s and 10 s.
ROUND = System(
    "round",
    tensor_tflops=1.25,
    vector_tflops=1.25,
    hbm_gb_per_s=1000.0,
    hbm_gb=100.0,
    nvlink_gb_per_s=100.0,
    network_gb_per_s=10.0,
    bandwidth_efficiency=1.0,
    flop_latency_s=0.0,
    fast_latency_s=1.0,
    slow_latency_s=10.0,
)


@pytest.mark.parametrize(
    ("kind", "inside", "published_s", "corrected_s"),
    [
        # 80 GB over 8 GPUs; a ring moves 7/8 of it, a broadcast all of it.
        ("allgather", 1, 77.0, 77.0),  # 7*10 + 70/10
        ("allgather", 4, 17.75, 17.75),  # 1*10 + 6*1 + max(70/(4*10), 70/100)
        ("allgather", 8, 7.7, 7.7),  # 7*1 + 70/100
        ("reducescatter", 4, 17.75, 17.75),
        ("broadcast", 1, 78.0, 78.0),  # 7*10 + 80/10
        ("broadcast", 4, 18.0, 18.0),  # 16 + 80/40
        ("reduce", 8, 7.8, 7.8),  # 7*1 + 80/100
        ("allreduce", 1, 77.0, 154.0),
        ("allreduce", 4, 19.5, 35.5),  # published: only the 1.75 s of the volume is doubled
        ("allreduce", 8, 7.7, 15.4),
    ],
)
def test_collectives_on_one_and_two_tiers(
    kind: Kind, inside: int, published_s: float, corrected_s: float
) -> None:
    collective = Collective(kind, 80.0, Group(8, inside))
    assert collective_s(collective, ROUND, "published-code") == pytest.approx(published_s)
    assert collective_s(collective, ROUND, "corrected") == pytest.approx(corrected_s)


def test_many_ports_leave_the_fast_tier_as_the_narrow_one() -> None:
    three_ports = replace(ROUND, ports_per_gpu=3)
    collective = Collective("allgather", 80.0, Group(8, 4))
    # 6 s + 10 s of latency; 70 GB pass 3*4 ports in 0.58 s, NVLink in 0.7 s
    assert collective_s(collective, three_ports, "corrected") == pytest.approx(16.7)


@pytest.mark.parametrize(("gigabytes", "members"), [(0.0, 8), (80.0, 1)])
def test_a_collective_without_message_or_partner_is_free(gigabytes: float, members: int) -> None:
    assert (
        collective_s(Collective("allgather", gigabytes, Group(members, 1)), ROUND, "corrected") == 0
    )


@pytest.mark.parametrize(
    ("v_p", "published_s", "corrected_s"),
    [
        (1, 18.0, 18.0),  # every hop is slow: 10 + 80/10
        (2, 7.2 / 7, 61.2 / 7),  # 4 fast hops of 1.8 s, 3 slow ones of 18 s or, published, 0 s
        (8, 1.8, 1.8),  # every hop is fast: 1 + 80/100
    ],
)
def test_pipeline_hops(v_p: int, published_s: float, corrected_s: float) -> None:
    assert point_to_point_s(80.0, ROUND, inside=True) == pytest.approx(1.8)
    plan = Plan(Split("1d", 1, 1, 1, 1, 1), n_p=8, n_d=1, v_p=v_p, v_d=1, m=1)
    assert hop_s(plan, 80.0, ROUND, "published-code") == pytest.approx(published_s)
    assert hop_s(plan, 80.0, ROUND, "corrected") == pytest.approx(corrected_s)


@pytest.mark.parametrize(
    ("flop", "hbm_gb", "expected"),
    [
        # One panel of 80/4 GB takes 7 + 20/100 = 7.2 s, four take 28.8 s.
        (1e12, 2000.0, (1.0, 1.0, 34.0)),  # memory-bound: 7.2 + 28.8 - 2
        (3e12, 2000.0, (3.0, 0.0, 33.0)),  # compute-bound: 7.2 + 28.8 - 3
        (30e12, 2000.0, (30.0, 0.0, 7.2)),  # hidden but for the first panel
    ],
)
def test_summa_hides_panels_behind_the_roofline_time(
    flop: float, hbm_gb: float, expected: tuple[float, float, float]
) -> None:
    work = Work("tensor", flop, hbm_gb, (Collective("broadcast", 80.0, Group(8, 8)),), panels=4)
    timing = operation_timing(work, ROUND, "corrected")
    assert (timing.comp_s, timing.memory_s, timing.comm_s) == pytest.approx(expected)


def test_summa_reads_and_writes_its_result_once_per_panel() -> None:
    split = Split("2d-summa", 1, 4, 2, 4, 2, 8)
    system = system_with_domain("B200", 8)
    (fc1, *_) = layer_operations(MODELS["GPT3-1T"], system, split, "corrected")
    # L = 1024, e = 25600, f/n1 = 25600: L*e = 26,214,400; e*f/n1 = 655,360,000; times 8 panels.
    assert fc1.forward.hbm_gb == pytest.approx(2e-9 * (26_214_400 * 9 + 655_360_000))
    assert fc1.backward.hbm_gb == pytest.approx(2e-9 * 2 * (26_214_400 * 9 + 655_360_000))


def operation(model: str, split: Split, name: str, mode: Mode) -> Operation:
    operations_ = layer_operations(MODELS[model], system_with_domain("B200", 8), split, mode)
    (found,) = (one for one in operations_ if one.name == name)
    return found


def test_sizes_that_do_not_divide_are_cut_before_they_are_multiplied() -> None:
    # ViT, b = 2, n2 = 64: l//n2 = 1012 (1012.5), so L = 2024; R = 2*(1012//8) = 252 (253).
    context = Split("2d-context", 2, 8, 64, 1, 1)
    assert operation("ViT-ERA5", context, "fc1", "corrected").activations_gb == pytest.approx(
        2e-9 * 2024 * 12288
    )
    assert operation("ViT-ERA5", context, "ln1", "corrected").activations_gb == pytest.approx(
        2e-9 * 252 * 12288
    )
    assert operation("ViT-ERA5", context, "drop2", "corrected").activations_gb == pytest.approx(
        1e-9 * 252 * 12288
    )
    # Only the gradients of the SUMMA layer norm: 2e/n1 = 3072, 2*b*l/n2 = 259200/64 = 4050.
    summa = Split("2d-summa", 2, 8, 64, 1, 1, 64)
    (reduced,) = operation("ViT-ERA5", summa, "ln1", "corrected").backward.collectives
    assert reduced.gigabytes == pytest.approx(2e-9 * (3072 + 4050))


@pytest.mark.parametrize(
    ("mode", "strategy", "n2", "fc2", "vproj"),
    [
        # GPT3-1T, b = 1, n1 = 8: rows 2048/n2, scattered rows 256/n2; e = 25600, e/n1 = 3200.
        ("published-code", "1d", 1, 2048 * 25600, 2048 * 25600),
        ("published-code", "2d-context", 1, 256 * 25600, 2048 * 3200),
        ("published-code", "2d-context", 2, 128 * 25600, 1024 * 3200),
        ("published-code", "2d-summa", 2, 1024 * 3200, 1024 * 3200),
        ("corrected", "1d", 1, 256 * 25600, 256 * 25600),
        ("corrected", "2d-context", 2, 128 * 25600, 128 * 25600),
        ("corrected", "2d-summa", 2, 1024 * 3200, 1024 * 3200),
    ],
)
def test_the_rows_of_the_biases_follow_strategy_and_mode(
    mode: Mode, strategy: Strategy, n2: int, fc2: int, vproj: int
) -> None:
    split = Split(strategy, 1, 8, n2, 8, 1, 8)
    assert operation("GPT3-1T", split, "fc2-bias", mode).forward.flop == fc2
    assert operation("GPT3-1T", split, "vproj-bias", mode).forward.flop == vproj


def test_a_small_cluster_has_one_placement_and_a_large_one_all_products() -> None:
    assert placements(ROUND, (2, 1, 2, 1)) == [(2, 1, 2, 1)]
    assert placements(ROUND, (2, 1, 2, 2)) == [(2, 1, 2, 2)]
    assert sorted(placements(ROUND, (4, 1, 2, 2))) == [(2, 1, 2, 2), (4, 1, 1, 2), (4, 1, 2, 1)]


@pytest.mark.parametrize(
    ("model", "n1", "n2", "expected"),
    [
        ("GPT3-1T", 4, 1, [4, 8, 16, 32]),  # 25600/64 = 400 < 512
        ("GPT3-1T", 5, 4, [5, 10, 20, 40]),  # 25600/80 = 320 < 512
        ("GPT3-1T", 1, 16, [16, 32]),
        ("GPT3-1T", 64, 1, [64]),  # 25600/64 = 400 < 512 already
        ("ViT-ERA5", 1, 3, [3, 6, 12, 24]),  # 12288/24 = 512
    ],
)
def test_panel_counts(model: str, n1: int, n2: int, expected: list[int]) -> None:
    assert panel_counts(MODELS[model], "2d-summa", n1, n2) == expected


def test_panels_divide_the_embedding() -> None:
    # 2050/4 = 512.5 columns would be enough, but 4 does not divide 2050.
    assert panel_counts(Model("odd", 2048, 2050, 2, 2), "2d-summa", 1, 1) == [1, 2]


def test_tensor_degrees_divide_and_leave_blocks_of_128() -> None:
    model = Model("small", sequence=1152, embedding=1024, heads=48, depth=4)
    # n1 divides 48 GPUs, 48 heads and the embedding: 1, 2, 4, 8, 16; 3*1024/16 = 192 columns.
    assert list(tensor_degrees(model, "1d", 48)) == [(n1, 1) for n1 in (1, 2, 4, 8, 16)]
    narrow = replace(model, embedding=512)  # 3*512/16 = 96 columns
    assert list(tensor_degrees(narrow, "1d", 48)) == [(n1, 1) for n1 in (1, 2, 4, 8)]
    # 2D: 1024/16 = 64 columns are too few; 1152/12 = 96 rows too, 1152/8 = 144 are enough.
    context = [(1, 1), (1, 2), (1, 3), (1, 4), (1, 6), (1, 8), (2, 1), (2, 2), (2, 3), (2, 4)]
    context += [(2, 6), (2, 8), (4, 1), (4, 2), (4, 3), (4, 4), (4, 6), (8, 1), (8, 2), (8, 3)]
    context += [(8, 6)]
    assert list(tensor_degrees(model, "2d-context", 48)) == context
    # SUMMA cuts the weights by n2 as well, and neither 3 nor 6 divides 1024.
    summa = [(n1, n2) for n1, n2 in context if n2 not in (3, 6)]
    assert list(tensor_degrees(model, "2d-summa", 48)) == summa


@pytest.mark.parametrize(
    ("strategy", "microbatches"),
    # 64800 tokens are no multiple of n1 = 64, which cuts the sequence except under SUMMA.
    [("1d", {2, 4}), ("2d-context", {2, 4}), ("2d-summa", {1, 2, 4})],
)
def test_microbatches_divide_into_the_parts_of_the_sequence(
    strategy: Strategy, microbatches: set[int]
) -> None:
    plans = candidates(MODELS["ViT-ERA5"], ROUND, strategy, 4, 64)
    assert {plan.split.b for plan in plans if plan.split.n1 == 64} == microbatches


def test_a_plan_fits_that_fills_the_memory_to_the_last_byte() -> None:
    model, system = setting_of(BEST[0])
    plan = plan_of(BEST[0])
    filled_gb = evaluate(model, system, plan).memory.total_gb
    assert search(model, replace(system, hbm_gb=filled_gb), iter([plan])).feasible == 1
    assert search(model, replace(system, hbm_gb=filled_gb * 0.999), iter([plan])).feasible == 0


def test_no_plan_fits_where_memory_is_too_small() -> None:
    found = search(
        MODELS["GPT3-1T"], ROUND, candidates(MODELS["GPT3-1T"], ROUND, "1d", 4096, 8), "corrected"
    )
    assert (found.plan, found.evaluation, found.feasible) == (None, None, 0)
    assert found.candidates > 0
