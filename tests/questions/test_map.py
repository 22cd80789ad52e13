"""The answer of netplan map: what it lists, how large it may be, what never makes it slower."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netplan as toolkit
from netplan.errors import InputError
from netplan.questions.map import map as map_question
from netplan.reports.charts import Chart
from netplan.workloads.kernel_graph import Direction
from netplan.workloads.kernels import product_time_s
from tests.cli.command import netplan

LAYER = ("--model", "gpt-22b", "--accelerator", "sn10", "--tensor", "2", "--sequence-tile", "64")
CHIP = {"tiles": 640.0, "sram_bytes": 335544320.0, "memory_bytes_per_s": 1e11,
        "hb_bytes_per_s": 25e9}  # fmt: skip


def mapped(*words: str) -> dict[str, Any]:
    """The answer as JSON."""
    done = netplan("map", "rail-only-paper", *words, "--format", "json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_both_passes_are_listed_whole() -> None:
    found = mapped(*LAYER, "--direction", "both")
    assert len(found["kernels"]) == 41
    assert (found["inputs"]["micro_batch"], found["inputs"]["mode"]) == (1, "corrected")
    parts = sum(row["time_s"] + row["setup_s"] for row in found["partitions"])
    assert found["interval_s"] == pytest.approx(parts, rel=1e-12)
    for row in found["partitions"]:
        longest = max(row["compute_s"], row["memory_s"], row["network_s"])
        assert row["time_s"] == longest


def test_a_backward_pass_counts_its_own_partitions() -> None:
    both, back = (mapped(*LAYER, "--direction", one) for one in ("both", "backward"))
    assert len(back["kernels"]) == 23
    assert back["partitions"] == both["partitions"][-len(back["partitions"]) :]
    for row in back["kernels"]:
        assert row["name"] in back["partitions"][row["partition"] - 1]["kernels"]
    assert back["interval_s"] < both["interval_s"]


@pytest.mark.parametrize("mode", ["corrected", "published-code"])
def test_a_ring_is_used_both_ways(mode: str) -> None:
    """n (p - 1) / p / B without a fabric: 2 x 2048 x 6144 B on two chips of 25 GB/s."""
    [kernel] = [row for row in mapped(*LAYER, "--mode", mode)["kernels"] if row["name"] == "Proj"]
    size = 2 * 2048 * 6144
    assert kernel["all_reduce_bytes"] == size
    assert kernel["time_s"] >= size / 2 / 25e9


def test_a_kernel_alone_takes_the_longest_and_its_set_up() -> None:
    """Q: 32 x 6 products a tile, 640 of them; weights of 3072 x 6144 numbers over 100 GB/s."""
    found = mapped(*LAYER, "--execution", "kernel-by-kernel", "--micro-batch", "4")
    [kernel] = [row for row in found["kernels"] if row["name"] == "Q"]
    [part] = [row for row in found["partitions"] if row["kernels"] == ["Q"]]
    setup = 2 * 3072 * 6144 / 4 / 100e9
    assert part["setup_s"] == pytest.approx(setup)
    assert kernel["time_s"] == pytest.approx(part["time_s"] + setup)


def test_mappings_stand_under_their_roofs() -> None:
    """One rate over two intensities; what waits for memory touches the roof of memory."""
    answer = map_question(
        "rail-only-paper", model="gpt-175b", accelerator="sn10", tensor=8, sequence_tile=32
    )
    [chart] = [one for one in answer.sections() if getattr(one, "key", "") == "roofline"]
    marks = {str(one["name"]).partition(":")[0]: one for one in chart.data}  # type: ignore[union-attr]
    rates = answer.rates
    for name in ("this mapping", "kernel by kernel"):
        (over_memory, over_links), (reached, same) = marks[name]["x"], marks[name]["y"]  # type: ignore[misc]
        assert reached == same <= rates.flops_per_s
        assert reached <= over_memory * rates.memory_bytes_per_s * (1 + 1e-9)
        assert reached <= over_links * rates.link_bytes_per_s * (1 + 1e-9)
    totals = answer.found.totals
    reached = marks["this mapping"]["y"][0]  # type: ignore[index]
    assert reached == pytest.approx(totals.utilisation * rates.flops_per_s)
    alone = map_question(
        "rail-only-paper",
        model="gpt-175b",
        accelerator="sn10",
        tensor=8,
        sequence_tile=32,
        execution="kernel-by-kernel",
    )
    reached = marks["kernel by kernel"]["y"][0]  # type: ignore[index]
    assert reached == pytest.approx(alone.found.totals.utilisation * rates.flops_per_s)


CONTRADICTIONS = {
    ("--mode", "nope"): "unknown mode 'nope': use one of corrected, published-code",
    ("--cut", "AddPrev..Add2", "--execution", "kernel-by-kernel"): "leave one out",
    ("--data", "4", "--batch", "3"): "leaves some of 4 replicas without a micro-batch",
    ("--micro-batch", "8", "--batch", "7"): "give 8 or more",
}


@pytest.mark.parametrize("words", CONTRADICTIONS, ids=" ".join)
def test_contradictions_are_refused(words: tuple[str, ...]) -> None:
    done = netplan("map", "rail-only-paper", *LAYER, *words)
    assert done.returncode == 2
    assert CONTRADICTIONS[words] in done.stderr


@pytest.mark.parametrize("words", [("--data", "8"), ("--pipeline", "2")])
def test_free_dimensions_refuse_degrees(words: tuple[str, ...]) -> None:
    free = ("--model", "gpt-22b", "--accelerator", "sn10", "--dimensions", "ring-ring")
    done = netplan("map", "rail-only-paper", *free, "--gpus", "64", *words)
    assert done.returncode == 2
    assert "neither --fabric nor --pipeline or --data" in done.stderr


def test_a_cut_keeps_kernels_together_on_any_chip() -> None:
    words = ("--model", "gpt-175b", "--accelerator", "a100-80gb", "--sequence-tile", "32")
    parts = "AddPrev,LN1,Q,K,V,QK..AV,Proj,Drop2..LN2,FFN0,GeLU,FFN1,Drop3..Add2"
    found = mapped(*words, "--cut", parts)
    assert found["inputs"]["execution"] == "fused"
    assert not found["exact"]
    assert len(found["partitions"]) == 12


def test_uneven_stages_keep_the_pace_of_the_longest() -> None:
    """48 layers on 7 stages: at most 7 of them; on 8 stages 6 each."""
    one, seven, eight = (mapped(*LAYER, "--pipeline", str(stages)) for stages in (1, 7, 8))
    assert one["time_per_sequence_s"] == pytest.approx(48 * one["interval_s"])
    assert seven["time_per_sequence_s"] == pytest.approx(7 * one["interval_s"])
    assert eight["time_per_sequence_s"] == pytest.approx(6 * one["interval_s"])
    assert seven["utilisation"] == pytest.approx(one["utilisation"] * 48 / 49)


def test_idle_chips_are_told() -> None:
    idle = mapped(*LAYER, "--gpus", "7", "--data", "3")
    assert "1 chip of 7 stands idle: utilisation is that of the others." in idle["notes"]
    assert not any("idle" in note for note in mapped(*LAYER, "--gpus", "6", "--data", "3")["notes"])


def test_stages_have_room_or_none_has() -> None:
    """48 layers; what they hold on a chip with a memory for six of them, and for half of one."""
    held = mapped(*LAYER)["memory_bytes"]
    for share, told in (
        (6.9, "at least 8 pipeline stages"),  # seven would have seven layers
        (0.5, "no pipeline has room, one layer"),
    ):
        notes = mapped(*LAYER, "--set", f"accelerator.memory_bytes={held / 48 * share}")["notes"]
        assert any(told in note for note in notes)


def test_waiting_for_the_next_stage_is_a_part_of_the_interval() -> None:
    """A layer's output is 2 x 2048 x 6144 B; at 1 MB/s that is 25.2 s."""
    slow = ("--set", "accelerator.hb_bytes_per_s=1e6")
    found = mapped(
        "--model", "gpt-22b", "--accelerator", "sn10", "--tensor", "1", "--pipeline", "2", *slow
    )
    assert found["interval_s"] == pytest.approx(2 * 2048 * 6144 / 1e6)
    assert sum(found["breakdown_s"].values()) == pytest.approx(found["interval_s"])
    assert found["breakdown_s"]["network"] > 0.9 * found["interval_s"]


def mapped_text(*words: str) -> str:
    """All that is said of a map."""
    return netplan("map", "rail-only-paper", *words, "--details").stdout


def test_headings_name_what_has_a_meaning() -> None:
    solved = mapped_text("--model", "hpl-16k", "--accelerator", "sn10", "--gpus", "8")
    assert solved.startswith(
        "hpl-16k on sn10\n8 chips, a ring of the chip's own links (corrected)\n"
    )
    spread = ("--model", "dlrm-332b", "--accelerator", "a100-40gb", "--gpus", "128")
    assert "forward" not in mapped_text(*spread).split("\n\n")[0]
    small = mapped_text("--model", "fft-1t", "--accelerator", "h100-80gb", "--gpus", "2048")
    assert " 0.0 % of the peak" not in small


def test_thousands_of_steps_make_a_small_page() -> None:
    words = ("--model", "hpl-5m", "--accelerator", "tpu-v4", "--gpus", "100", "--format", "html")
    done = netplan("map", "rail-only-paper", *words, "--set", "accelerator.memory_bytes=1e12")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout) < 100_000


def test_as_many_layers_as_nobody_has_are_refused() -> None:
    words = ("--model", "dlrm-12t", "--gpus", "128", "--accelerator", "a100-80gb")
    done = netplan("map", "rail-only-paper", *words, "--set", "model.top_layers=1000000")
    assert done.returncode == 2
    assert "at most 512" in done.stderr


def told(*words: str) -> str:
    """All notes of an answer."""
    return " ".join(mapped(*words)["notes"])


def test_without_tile_data_kernels_take_a_share_and_the_answer_says_so() -> None:
    share = "no compute tiles: kernels take a share of its peak"
    assert share in told("--model", "gpt-22b", "--accelerator", "wse-2", "--tensor", "2")
    assert "tiles" not in told(*LAYER)
    words = ("--gpus", "64", "--model", "gpt-22b", "--execution", "fused", "--accelerator")
    searched = {
        name: netplan("search", "rail-only-paper", *words, name, "--details").stdout
        for name in ("wse-2", "sn10")
    }
    searched = {name: text.replace("\n", " ") for name, text in searched.items()}
    assert "by a share of the peak, as the chip's file has no compute tiles;" in searched["wse-2"]
    assert "by the chip's compute tiles;" in searched["sn10"]


def test_cuts_of_free_dimensions_are_no_optimum_and_the_answer_says_so() -> None:
    layer = ("--model", "gpt-22b", "--accelerator", "sn10")
    found = mapped(*layer, "--gpus", "8", "--dimensions", "ring-ring")
    assert not found["exact"]
    assert "With --dimensions only cuts of a few orders were tried" in " ".join(found["notes"])
    assert mapped(*layer)["exact"]
    assert "orders" not in told(*layer)


@settings(max_examples=4, deadline=None)
@given(
    key=st.sampled_from(sorted(CHIP)),
    factor=st.floats(1.0, 20.0),
    share=st.floats(0.05, 1.0),
    tensor=st.sampled_from([2, 4]),
    direction=st.sampled_from(["forward", "both"]),
)
def test_more_of_a_chip_is_never_slower(
    key: str, factor: float, share: float, tensor: int, direction: str
) -> None:
    """Nor are kernels slower that are kept together than one by one."""
    how = ("--tensor", str(tensor), "--direction", direction, "--sequence-tile", "128")
    words = ("--model", "gpt-22b", "--accelerator", "sn10", *how)
    less, more = share * CHIP[key], share * factor * CHIP[key]
    if key == "tiles":
        less, more = max(int(less), 1), max(int(more), 1)
    found = []
    for value in (less, more):
        override = ("--set", f"accelerator.{key}={value!r}")
        fused = mapped(*words, *override)["interval_s"]
        alone = ("--execution", "kernel-by-kernel")
        single = mapped(*words, *override, *alone)["interval_s"]
        assert fused <= single * (1 + 1e-9)
        found.append(fused)
    assert found[1] <= found[0] * (1 + 1e-9)


@pytest.mark.parametrize("direction", ["forward", "both"])
def test_kernels_of_the_picture_stand_apart_and_edges_lead_down(direction: Direction) -> None:
    answer = toolkit.map(
        "rail-only-paper",
        model="gpt-22b",
        accelerator="sn10",
        tensor=2,
        sequence_tile=64,
        direction=direction,
    )
    (chart,) = [one for one in answer.sections() if isinstance(one, Chart) and one.key == "graph"]
    within, between, *partitions = chart.data
    places: dict[str, tuple[float, float]] = {}
    for one in partitions:
        places |= dict(zip(one["text"], zip(one["x"], one["y"], strict=True), strict=True))  # type: ignore[call-overload]
    assert len(places) == (41 if direction == "both" else 18)
    assert len(set(places.values())) == len(places)
    assert len({places[name][1] for name in "QKV"}) == 1
    assert max(x for x, _ in places.values()) < 6
    for lines in (within, between):
        y = lines["y"]
        assert isinstance(y, list)
        assert all(b < a for a, b in pairwise(y) if None not in (a, b))
    assert bool(between["x"]) == (direction == "both")


def test_measured_kernels_take_what_they_were_measured_to() -> None:
    """Products of 12,288 / 8 columns of 2,048 tokens, one by one; nothing else asks for them."""
    found = map_question(
        "rail-only-paper", model="gpt-175b", accelerator="h100-80gb", kernels="measured"
    )
    times_s = {row.name: row.time_s for row in found.found.kernels}
    product_s = product_time_s("h100-80gb", "bf16", 1536, 2048, 12288)
    assert times_s["Q"] == pytest.approx(product_s, rel=1e-12)
    # Softmax: 12 heads of 2,048 x 2,048 numbers, read and written.
    moved = 2 * 2 * 12 * 2048 * 2048
    assert times_s["Softmax"] == pytest.approx(2e-6 + moved / (0.845 * 3.35e12), rel=1e-12)
    assert any("measured on h100-80gb: +-4 %" in note for note in found.found.notes)
    plain = map_question("rail-only-paper", model="gpt-175b", accelerator="h100-80gb").found
    assert plain.totals.interval_s > found.found.totals.interval_s
    assert not any("measured" in note for note in plain.notes)


@pytest.mark.parametrize(
    "inputs", [{"execution": "fused"}, {"cut": "Q..K"}, {"compute_utilisation": 0.5}]
)
def test_measured_kernels_run_one_by_one(inputs: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="--kernels measured run one by one"):
        map_question(
            "rail-only-paper",
            model="gpt-175b",
            accelerator="h100-80gb",
            kernels="measured",
            **inputs,
        )


def test_one_named_chip_has_no_cluster_and_says_what_its_numbers_are_of() -> None:
    answer = toolkit.map(model="resnet-50", accelerator="grayskull")
    screen = " ".join(answer.text(80).split())
    assert screen.startswith("resnet-50 on grayskull, fused, 16-bit peak, a steady stream")
    assert "ports" not in screen
    assert "sequence tiles" not in answer.text(80, details=True)
    batch = toolkit.map(model="resnet-50", accelerator="grayskull", batch=256)
    assert "16-bit peak, batch 256" in " ".join(batch.text(80).split())
    ours = toolkit.map("hgx-h100", model="gpt-22b", tensor=8)
    assert ours.text(80).startswith("hgx-h100: gpt-22b on ")
