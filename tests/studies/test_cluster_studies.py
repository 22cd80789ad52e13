"""Studies after COMET: their trends, by hand where they can be."""

import csv
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import netplan
from netplan.published.cluster_design import (
    BASELINE,
    CHANGES,
    DEGREES,
    EXPANDED_BYTES_PER_S,
    RATIOS,
    Rates,
    expanded_needed,
    instance,
    split,
    timed,
)
from netplan.records import replace
from netplan.studies.published import Published
from netplan.studies.sessions import study
from netplan.traffic.collectives import hb_bandwidth_ratio
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.technologies import MEMORIES
from tests.studies.shipped import shipped

GOLDEN = Path(__file__).parents[1] / "golden" / "clusters.csv"
EXPANDED, RATE = "accelerator.expanded_bytes", "accelerator.expanded_bytes_per_s"
INSIDE, BETWEEN = "accelerator.hb_bytes_per_s", "accelerator.network_bytes_per_s"
PHASES = [f"{name}_{what}" for name in ("forward", "input_gradient", "weight_gradient")
          for what in ("compute", "comm")]  # fmt: skip


def times(name: str, *keys: str, of: str = "iteration_time_s") -> dict[Any, Any]:
    """An output of a study's points by some of its inputs."""
    return {tuple(row[key] for key in keys): row[of] for row in shipped(name).rows}


def printed(name: str) -> dict[str, Published]:
    return {one.name: one for one in shipped(name).published}


def test_phases_add_up_and_are_those_of_the_search() -> None:
    for row in shipped("mp-vs-dp").rows:
        parts = [float(row[f"phases_s.{phase}"]) for phase in PHASES]  # type: ignore[arg-type]
        assert sum(parts) == pytest.approx(row["iteration_time_s"], rel=1e-12)
        if row["batch"] == 128:
            alone = timed(int(str(row["fixed.tensor"])), model=str(row["iteration_model"]))
            assert row["iteration_time_s"] == alone.iteration_time_s
            assert row["memory_bytes"] == alone.memory_bytes
        assert row["fits"] == (float(str(row["memory_bytes"])) <= 80e9)


@pytest.mark.parametrize(
    ("model", "batch", "best", "least"),
    [("comet-fit", 128, 8, 32), ("comet", 128, 32, 64), ("comet", 3072, 2, None)],
)
def test_time_over_the_tensor_degree_has_an_inner_minimum(
    model: str, batch: int, best: int, least: int | None
) -> None:
    found = times("mp-vs-dp", "iteration_model", "batch", "fixed.tensor")
    over = {tensor: found[model, batch, tensor] for tensor in DEGREES}
    assert min(over, key=over.__getitem__) == best
    fits = times("mp-vs-dp", "iteration_model", "batch", "fixed.tensor", of="fits")
    fitting = [tensor for tensor in DEGREES if fits[model, batch, tensor]]
    assert (min(fitting) if fitting else None) == least


def test_messages_grow_with_the_tensor_degree() -> None:
    """Those of layers dominate at high degrees, computing or gradients at low ones."""
    for row in shipped("mp-vs-dp").rows:
        layers = float(row["phases_s.forward_comm"]) + float(row["phases_s.input_gradient_comm"])  # type: ignore[arg-type]
        share = layers / float(row["iteration_time_s"])  # type: ignore[arg-type]
        tensor = int(str(row["fixed.tensor"]))
        if row["batch"] == 128 and tensor not in (32, 64):
            assert (share > 0.5) == (tensor > 64)


@pytest.mark.slow
def test_an_expanded_memory_is_worth_its_rate() -> None:
    found = times("memory-expansion", "iteration_model", "batch", EXPANDED, "fixed.tensor", RATE)
    rates = sorted({key[4] for key in found})
    for model, batch in (("comet-fit", 128), ("comet", 128), ("comet", 3072)):
        for tensor in (4, 8, 16, 32, 64, 128):
            curves = {
                size: [found[model, batch, size, tensor, rate] for rate in rates]
                for size in (100e9, 201e9, 480e9)
            }
            fits = [curve for curve in curves.values() if None not in curve]
            assert fits  # 80 + 480 GB hold all of them
            # More capacity lets a replica run fewer microbatches, and changes nothing else.
            for less, more in pairwise(fits):
                if model == "comet-fit":
                    assert more == pytest.approx(less, rel=1e-12)
                assert all(b <= a * (1 + 1e-12) for a, b in zip(less, more, strict=True))
            assert all(after <= before for before, after in pairwise(fits[0]))
            assert all(set(curve) == {None} for curve in curves.values() if None in curve)
            if batch == 128:
                flat = len(set(fits[0])) == 1
                assert flat == (tensor >= (32 if model == "comet-fit" else 64))
    crossings = [one for one in shipped("memory-expansion").published if "beats" in one.name]
    fit, few, many = (one.netplan for one in crossings)
    assert 400 < float(str(fit)) < 600
    # By comet its 500 GB/s lie between both batches: none is enough, and the least is.
    assert (few, many) == ("none", 100.0)


def test_the_crossing_lies_where_times_are_equal() -> None:
    """Between two rates of the figure: 448.9 GB/s, where both take 7.9067 s."""

    def time_s(tensor: int, rates: Rates) -> float:
        return timed(tensor, rates).iteration_time_s

    ((_, rate),) = expanded_needed(time_s)
    equal = time_s(8, Rates(expanded_bytes_per_s=1e9 * float(rate)))
    assert equal == pytest.approx(time_s(64, BASELINE), rel=1e-3)
    ((_, never),) = expanded_needed(lambda tensor, _: 1.0 + (tensor == 8))
    assert never == float("inf")


def test_a_faster_chip_is_worth_less_beside_a_slow_memory() -> None:
    found = times(
        "compute-scaling", "iteration_model", RATE, "accelerator.tensor_flops_per_s", of="speed"
    )
    rates = sorted({key[1] for key in found})
    for model in ("comet-fit", "comet"):
        doubled = [found[model, rate, 1248e12] for rate in rates]
        assert doubled == sorted(doubled)
        for rate in rates:
            gains = [found[model, rate, 156e12 * 2**step] for step in range(5)]
            assert gains == sorted(gains)
            last, before = gains[4] / gains[3], gains[3] / gains[2]
            assert last <= before * (1 + 1e-12)  # ever less for the same factor
    half, double = (
        float(str(one.netplan)) for one in list(printed("compute-scaling").values())[:2]
    )
    assert 40 < half < 70
    assert -35 < double < -20
    assert half > -double


def test_bandwidth_counts_more_the_more_gpus_share_a_layer() -> None:
    found = times("network-scaling", "iteration_model", "fixed.tensor", INSIDE, BETWEEN)
    for name, rates in CHANGES.items():
        if "ratio" in name:
            continue
        place = (300e9 * rates.inside, 31.25e9 * rates.between)
        slow, fast = (
            found["comet-fit", tensor, *place] / found["comet-fit", tensor, 300e9, 31.25e9] - 1
            for tensor in (64, 8)
        )
        assert abs(slow) > abs(fast)
    for model, tensor in {key[:2] for key in found}:
        base = found[model, tensor, 300e9, 31.25e9]
        both = found[model, tensor, 600e9, 62.5e9] / base
        one = found[model, tensor, 600e9, 31.25e9] / base
        other = found[model, tensor, 300e9, 62.5e9] / base
        assert both <= min(one, other)
    # Of a time that scales as 1/bandwidth, 1 + 3 % doubles: the order that the text has is wrong.
    assert printed("network-scaling")["comet-fit: MP 64, bandwidth half between them"].gap


def test_states_of_zero_stages_are_those_of_the_formula() -> None:
    found = times("zero-stages", "zero_stage", "fixed.tensor", of="memory_bytes")
    parameters = 12 * 128 * 25600**2
    for (stage, tensor), held in found.items():
        whole, shared = {0: (16, 0), 1: (4, 12), 2: (2, 14), 3: (0, 16)}[stage]
        assert held == pytest.approx(parameters * (whole / tensor + shared / 1024))


@pytest.mark.parametrize("chunks", [2, 4, 6, 8, 16])
def test_the_best_split_is_that_of_the_closed_form(chunks: int) -> None:
    key = "iteration-model.communication.chunks"
    found = {
        round(float(str(row["hb_to_network"])), 6): float(str(row["iteration_time_s"]))
        for row in shipped("network-balance").rows
        if (row["iteration_model"], row["fixed.tensor"], row[key]) == ("comet-fit", 64, chunks)
    }
    assert sorted(found) == list(RATIOS)
    best = min(found, key=found.__getitem__)
    assert best == pytest.approx(float(hb_bandwidth_ratio(8, 8, chunks=chunks)), rel=1e-6)
    assert best < 9.6


def test_the_split_of_a_study_file_is_that_of_the_figure() -> None:
    for row in shipped("network-balance").rows:
        rates = split(round(float(str(row["hb_to_network"])), 6))
        assert row[INSIDE] == pytest.approx(300e9 * rates.inside, rel=1e-9)
        assert row[BETWEEN] == pytest.approx(31.25e9 * rates.between, rel=1e-9)
    # MP 8 lies in a pod: with less bandwidth there it becomes slower, by 6 % at 1:1.
    over = times("network-balance", "iteration_model", "fixed.tensor", "hb_to_network")
    fast = [one for key, one in over.items() if key[:2] == ("comet-fit", 8)]
    assert fast == sorted(fast, reverse=True)
    assert fast[0] / fast[-1] < 1.07


def test_a_study_names_what_it_shows() -> None:
    text = shipped("dlrm-nodes").markdown()
    assert "| GPUs an instance | 100 GB/s |" in text
    assert "| exchange | gradients |" in text
    assert "expanded memory 480 GB, fabric comet-pods, GPUs 64" in text
    assert "expert" not in text
    assert "| the model's own, comet |" in shipped("network-balance").markdown()
    with pytest.raises(ValueError, match="titles: radix is neither an input nor an output"):
        replace(shipped("dlrm-nodes").spec, titles={"radix": "ports"})


def test_recommendation_models_side_by_side() -> None:
    found = times("dlrm-nodes", "fixed.expert", RATE, of="instances.turnaround_s")
    alone = times("dlrm-nodes", "fixed.expert", RATE)
    for (gpus, rate), turnaround_s in found.items():
        one = instance(gpus, rate)
        assert alone[gpus, rate] == one.iteration_time_s
        assert turnaround_s == alone[gpus, rate] * (8 * gpus // 64)
        # 64 and 32 hold an instance in their own memory, whatever stands behind it.
        assert (one.spilled_bytes > 0) == (gpus < 32)
    for gpus in (64, 32, 16, 8):
        over = [found[gpus, rate] for rate in EXPANDED_BYTES_PER_S]
        assert over == sorted(over, reverse=True)
        assert (over[0] == over[-1]) == (gpus > 16)
    # Fewer GPUs take longer, but by less than their number falls, where memory is fast.
    for more, fewer in pairwise((64, 32, 16, 8)):
        assert alone[more, 2e12] < alone[fewer, 2e12] < 2 * alone[more, 2e12]
    assert printed("dlrm-nodes")["DLRM: expanded memory from which 16 GPUs beat 64"].gap


@pytest.mark.parametrize(
    ("name", "values"),
    [("mp-vs-dp", 8), pytest.param("memory-expansion", 6, marks=pytest.mark.slow),
     ("compute-scaling", 8), ("network-scaling", 32), ("network-balance", 10), ("dlrm-nodes", 3),
     ("zero-stages", 13)],
)  # fmt: skip
def test_printed_values_stand_beside(name: str, values: int) -> None:
    published = shipped(name).published
    assert len(published) == values
    assert all(value.source.startswith("COMET") for value in published)


def test_few_values_leave_out_what_needs_more() -> None:

    assert study("network-scaling", vary={INSIDE: [300e9], BETWEEN: [31.25e9]}).published == ()
    assert study("mp-vs-dp", vary={"fixed.tensor": [8], "batch": 128}).published == ()
    assert study("dlrm-nodes", vary={"fixed.expert": [64]}).published == ()


@pytest.mark.parametrize(
    "vary", [{"model": "gpt-1t"}, {"batch": [64, 128]}, {"accelerator.hb_size": 16}]
)
def test_other_inputs_have_no_printed_values(vary: dict[str, Any]) -> None:
    found = study("network-balance", vary=vary | {"iteration_model": "comet-fit"})
    assert found.rows
    assert found.published == ()


@pytest.mark.slow
def test_the_eleven_clusters_are_those_of_the_table() -> None:
    with GOLDEN.open(encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file))
    asked = [row for row in shipped("clusters").rows if row["model"] == "transformer-1t"]
    for case in (("comet-fit", 128), ("comet", 128), ("comet", 384), ("comet", 3072)):
        mine = [row for row in asked if (row["iteration_model"], row["batch"]) == case]
        assert len(mine) == len(table) == 11
        for row, line in zip(mine, table, strict=True):
            on = ACCELERATORS.load(str(row["accelerator"]))
            assert (on.name, row["gpus"]) == (line["accelerator"], int(line["accelerators"]))
            local = on.memory_bytes, on.memory_bytes_per_s
            assert local == (float(line["local_bytes"]), float(line["local_bytes_per_s"]))
            behind = (0.0, 0.0)
            if row["expanded_memory"] != "none":
                memory = MEMORIES.load(str(row["expanded_memory"]))
                behind = memory.memory_bytes or 0.0, memory.bytes_per_s
            assert behind == (float(line["expanded_bytes"]), float(line["expanded_bytes_per_s"]))
            if line["levels"] == "switch x switch":
                assert on.hb_bytes_per_s == float(line["inner_bytes_per_s"])
                assert on.network_bytes_per_s == float(line["outer_bytes_per_s"])
            elif line["levels"] == "switch":  # all trays on it
                assert (on.hb_size, on.hb_bytes_per_s) == (64, float(line["inner_bytes_per_s"]))
            else:
                assert row["fabric"] == "torus-3d"
                assert on.network_bytes_per_s == float(line["inner_bytes_per_s"])


@pytest.mark.slow
def test_expanded_memory_never_slows_a_transformer_and_holds_its_plan() -> None:
    found = times("clusters", "model", "iteration_model", "batch", "accelerator", "expanded_memory")
    for (*asked, chip, memory), time_s in found.items():
        assert time_s is not None
        if asked[0] == "transformer-1t" and memory in ("comet-480gb", "comet-201gb"):
            assert time_s <= found[*asked, chip, "none"]
    room = {"none": 80e9, "comet-480gb": 560e9, "comet-201gb": 281e9}
    for row in shipped("clusters").rows:
        if str(row["accelerator"]) in ("v100-comet", "a100-comet", "h100-comet"):
            assert float(str(row["memory_bytes"])) <= room[str(row["expanded_memory"])]


@pytest.mark.slow
def test_recommendation_models_want_a_fast_expanded_memory() -> None:
    """Sec. V-D: A2, B2 and C2 gain; B1 and C1, at half the rate, fare poorly."""
    found = times("clusters", "model", "accelerator", "expanded_memory", of="dlrm_speed")
    speed = {(key[1], key[2]): value for key, value in found.items() if key[0] == "dlrm-1.2t"}
    for chip in ("v100-comet", "a100-comet", "h100-comet"):
        assert speed[chip, "comet-201gb"] > speed[chip, "none"]
        assert speed[chip, "comet-201gb"] > speed[chip, "comet-480gb"]
    assert speed["v100-comet", "comet-480gb"] > 1
    assert all(value is not None for value in speed.values())
    assert speed["dojo-tray", "none"] == max(speed.values())
    for chip in ("a100-comet", "h100-comet"):
        assert speed[chip, "comet-480gb"] < speed[chip, "none"]


@pytest.mark.slow
def test_a_training_run_costs_its_hours_and_its_bill() -> None:
    """B2 by hand: its iterations, GPU hours, and a year of its network and memory."""
    row = next(
        row
        for row in shipped("clusters").rows
        if (row["model"], row["iteration_model"], row["accelerator"], row["expanded_memory"])
        == ("transformer-1t", "comet-fit", "a100-comet", "comet-201gb")
    )
    days = 20 * 12 * 128 * 25600**2 / (128 * 2048) * float(str(row["iteration_time_s"])) / 86_400
    assert row["training_run.days"] == pytest.approx(days)
    (bill,) = netplan.cost(
        "rail-only-paper",
        gpus=1024,
        radix=64,
        prices="2026",
        fabrics=("comet-pods",),
        accelerator="a100-comet",
        expanded_memory="comet-201gb",
        overrides={"accelerator.network_bytes_per_s": "50e9"},  # 400 Gb/s
    ).bills
    assert bill.memory.base > 0
    assert row["bill.capital.base"] == bill.capital.base
    year = bill.life.per_year.base
    cost = days * (24 * 1024 * 2.995 + year / 365)
    assert row["million_usd"] == pytest.approx(cost / 1e6)


@pytest.mark.slow
def test_expanded_memory_pays_where_it_makes_faster_by_more_than_it_costs() -> None:
    found = times(
        *("clusters", "iteration_model", "accelerator", "expanded_memory"), of="runs_for_the_money"
    )
    # comet-fit: H100s need none, and pay for nothing; V100s gain 41 % in speed, 39 % in money.
    assert found["comet-fit", "h100-comet", "comet-201gb"] < 1
    assert found["comet-fit", "v100-comet", "comet-201gb"] == pytest.approx(1.390, abs=1e-3)
    values = printed("clusters")
    # Statements, and points of the figure.
    assert len(shipped("clusters").published) == 2 * 4 * 3 + 4 + 3
    nearest = {
        c: values[f"comet, batch 384: Transformer-1T: {c} over A0"] for c in ("B1", "C1", "C2")
    }
    assert {c: value.published for c, value in nearest.items()} == {
        "B1": "7.2",
        "C1": "12.5",
        "C2": "14.3",
    }
    assert all(value.error < 0.09 for value in nearest.values())
    for c, value in nearest.items():  # the other two batches are on both sides
        few, many = (
            values[f"comet, batch {batch}: Transformer-1T: {c} over A0"]
            for batch in ("128", "3,072")
        )
        assert float(str(few.netplan)) < float(value.published) < float(str(many.netplan))
