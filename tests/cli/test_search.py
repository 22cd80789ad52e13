"""``netplan search``: JSON contract, published values, table, wrong input."""

import csv
import json
import re
from pathlib import Path

import pytest

from netplan.catalog import shipped_root
from tests.cli.command import netplan, refused, without

PUBLISHED = Path(__file__).parents[1] / "published"
MAIN = ("search", "rail-only-paper", "--gpus", "16384", "--accelerator", "b200")
STRATEGY = {"1d": "1d", "2d-context": "2d", "2d-summa": "summa"}
MODEL = {"GPT3-1T": "gpt-1t", "ViT-ERA5": "vit-64k"}
ROWS = [
    row
    for name in ("fourd_best", "fourd_corrected")
    for row in csv.DictReader((PUBLISHED / f"{name}.csv").read_text().splitlines())
]


@pytest.mark.parametrize(
    "row", ROWS, ids=[f"{r['mode']}-{r['strategy']}-{r['model']}-{r['n']}" for r in ROWS]
)
def test_published_plans_from_the_command_line(row: dict[str, str]) -> None:
    accelerator = {"B200": "b200", "A100": "a100-80gb"}[row["system"]]
    arguments = [
        "search",
        "rail-only-paper",
        "--gpus",
        row["n"],
        "--hb-size",
        row["nvs"],
        "--batch",
        row["B"],
    ]
    arguments += ["--model", MODEL[row["model"]], "--accelerator", accelerator]
    arguments += ["--strategy", STRATEGY[row["strategy"]], "--mode", row["mode"]]
    arguments += ["--space", "model"]
    if accelerator == "a100-80gb":
        arguments += ["--set", "accelerator.memory_bytes_per_s=1555e9"]
    answer = json.loads(netplan(*arguments, "--format", "json", "--top", "1").stdout)
    assert answer["space"]["enumerated"] == int(row["candidates"])
    assert answer["space"]["feasible"] == int(row["feasible"])
    best = answer["plans"][0]
    assert best["iteration_time_s"] == pytest.approx(float(row["t_iter_s"]), rel=1e-9)
    assert best["memory_bytes"] == pytest.approx(float(row["mem_GB"]) * 1e9, rel=1e-9)
    plan = best["plan"]
    names = {"n1": "tensor", "n2": "context", "n_p": "pipeline", "n_d": "data", "b": "microbatch"}
    assert all(plan[ours] == int(row[theirs]) for theirs, ours in names.items())
    inside = {"v1": "tensor", "v2": "context", "v_p": "pipeline", "v_d": "data"}
    assert all(plan["hb"][ours] == int(row[theirs]) for theirs, ours in inside.items())


def test_a_bubble_that_no_schedule_has_is_told() -> None:
    """PTD-P has the ideal bubble of 4 microbatches on 16 stages; 4d that of the schedule."""
    words = [
        "search",
        "rail-only-paper",
        "--gpus",
        "256",
        "--accelerator",
        "b200",
        "--model",
        "gpt-22b",
    ]
    words += ["--interleave", "any", "--format", "json", "--top", "1", "--recompute", "full"]
    words += [f"--fix={one}" for one in ("pipeline=16", "interleave=3", "microbatch=1")]
    words += ["--fix=data=1", "--batch", "4"]
    ideal = json.loads(netplan(*words, "--iteration-model", "ptd-p").stdout)
    scheduled = ("--set", "iteration-model.overlap.interleaved_bubble=scheduled")
    longer = json.loads(netplan(*words, "--iteration-model", "ptd-p", *scheduled).stdout)
    (note,) = [one for one in ideal["notes"] if "ideal bubble" in one]
    assert "which 4 microbatches on 16 stages cannot have" in note
    said_s, times = float(note.split("takes ")[1].split(" ms")[0]), []
    for answer in (ideal, longer):
        assert answer["plans"][0]["plan"]["interleave"] == 3
        times.append(answer["plans"][0]["iteration_time_s"])
    assert said_s == pytest.approx(1e3 * times[1], rel=1e-3)
    assert times[0] < 0.8 * times[1]
    own = json.loads(netplan(*words).stdout)
    assert not [one for one in [*longer["notes"], *own["notes"]] if "ideal bubble" in one]


def test_json_contract() -> None:
    answer = json.loads(netplan(*MAIN, "--top", "3", "--format", "json").stdout)
    assert set(answer["space"]) == {"enumerated", "feasible", "seconds"}
    inputs = answer["inputs"]
    assert (inputs["accelerator"], inputs["gpus"], inputs["hb_size"]) == ("b200", 16_384, 8)
    assert (inputs["strategy"], inputs["zero_stage"], inputs["interleave"]) == ("1d", 1, "none")
    assert inputs["fixed"] == inputs["set"] == {}
    assert [plan["rank"] for plan in answer["plans"]] == [1, 2, 3]
    times = [plan["iteration_time_s"] for plan in answer["plans"]]
    assert times == sorted(times)
    for plan in answer["plans"]:
        parts = plan["breakdown_s"]
        keys = {"compute", "memory", "tensor_comm", "data_comm", "pipeline_comm", "bubble"}
        assert set(parts) == keys
        assert sum(parts.values()) == pytest.approx(plan["iteration_time_s"], rel=1e-12)
        assert plan["memory_bytes"] <= 192e9


def test_table_says_that_all_plans_were_evaluated() -> None:
    text = netplan(*MAIN, "--top", "2", "--space", "model", "--details").stdout
    assert "2,027 plans, 1,340 fit the memory; all were evaluated" in text
    text = netplan(*MAIN, "--top", "2", "--details").stdout
    assert "9,984 plans in any placement, 3,019 fit the memory; timed or ruled out" in text
    assert "8x64x32" in text
    assert max(len(line) for line in text.splitlines()) <= 100
    assert "█" in text


def test_fixed_values_are_kept() -> None:
    fixed = ("--fix", "pipeline=16", "--fix", "microbatch=2", "--format", "json")
    for plan in json.loads(netplan(*MAIN, *fixed).stdout)["plans"]:
        assert (plan["plan"]["pipeline"], plan["plan"]["microbatch"]) == (16, 2)


def test_explanation_adds_up() -> None:
    answer = json.loads(netplan(*MAIN, "--explain", "1,2", "--format", "json").stdout)
    rows, plans = answer["explanation"], answer["plans"]
    for key, plan in (("first_s", plans[0]), ("second_s", plans[1])):
        assert sum(row[key] for row in rows) == pytest.approx(plan["iteration_time_s"])


def test_modes_differ_by_the_pipeline_hops() -> None:
    arguments = (
        "search",
        "rail-only-paper",
        "--gpus",
        "1024",
        "--accelerator",
        "b200",
        "--explain",
        "modes",
    )
    text = netplan(*arguments).stdout
    assert "From published-code to corrected" in text
    assert "pipeline transfers" in text


def test_ptd_p_on_the_same_engine() -> None:
    # gpt-1t on 32,768 GPUs, domains of 256, the rail-only paper's H100: 15,767 plans, 2.88652 s.
    arguments = [
        "search",
        "rail-only-paper",
        "--gpus",
        "32768",
        "--hb-size",
        "256",
        "--accelerator",
        "h100-80gb",
    ]
    arguments += ["--iteration-model", "ptd-p", "--format", "json", "--top", "1"]
    arguments += ["--space", "model"]
    for key, value in {
        "tensor_flops_per_s": "989e12",
        "hb_bytes_per_s": "900e9",
        "hb_latency_s": "0",
        "network_latency_s": "0",
    }.items():
        arguments += ["--set", f"accelerator.{key}={value}"]
    answer = json.loads(netplan(*arguments).stdout)
    assert answer["space"]["feasible"] == 15_767
    assert answer["plans"][0]["iteration_time_s"] == pytest.approx(2.8865196130016857, rel=1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--set", "model.hidden_size=25601"), "hidden_size 25,601 is not a multiple of heads 160"),
        (("--gpus", "64"), "gpt-1t fits on no plan: the nearest needs"),
        (("--batch", "0"), "the global batch is at least 1 sequence, got 0"),
        (("--batch", "1", "--space", "model"), "no plan of gpt-1t uses 16,384 GPUs"),
        (("--batch", "1", "--experts", "4", "--expert-degree", "2"), "no less than the expert"),
        (("--top", "0", "--explain", "modes"), "at least 1 plan, got 0"),
        (("--space", "paper"), "'paper' is not one of 'free', 'model'"),
        (("--strategy", "3d"), "unknown strategy '3d'"),
        (("--strategy", "suma"), "did you mean summa?"),
        (("--mode", "correct"), "did you mean corrected?"),
        (("--iteration-model", "5d"), "unknown iteration-model '5d'"),
        (("--hb-size", "7", "--space", "model"), "give a multiple, another --hb-size, or --space"),
        (("--hb-size", "7", "--mode", "published-code"), "give a multiple, or another --hb-size"),
        (("--fix", "pipelines=4"), "did you mean pipeline?"),
        (("--fix", "pipeline"), "write NAME=N"),
        (("--fix", "pipeline=0"), "fixed pipeline is at least 1, got 0"),
        (("--fix", "pipeline=5", "--space", "model"), "has pipeline 5: free one of them"),
        (("--fix", "pipeline=129"), "has pipeline 129: free one of them"),
        (("--fix", "interleave=2", "--interleave", "none"), "or allow interleaved schedules"),
        (("--schedule", "gpipe", "--fix", "interleave=2"), "gpipe runs one stage a GPU"),
        (("--schedule", "zb-1p"), "4d has no times for --schedule zb-1p"),
        (
            ("--iteration-model", "calibrated", "--mode", "published-code"),
            "repeats slips of the 4D model's code, and iteration model calibrated",
        ),
        (("--precision", "fp8"), "4d has no times for --precision fp8"),
        (("--stack", "megatron-2025"), "4d has no times for --stack megatron-2025"),
        (("--recompute", "half"), "4d has no times for --recompute half"),
        (("--no-sequence-parallel", "--iteration-model", "ptd-p"), "ptd-p counts layers with"),
        (("--explain", "everything"), "write modes, or two ranks"),
        (("--top", "0"), "at least 1 plan, got 0"),
        (("--zero", "4"), "ZeRO has the stages 0 to 3, got 4"),
        (("--experts", "8", "--expert-degree", "3"), "8 experts cannot be spread evenly over 3"),
        (
            ("--experts", "8", "--expert-degree", "4", "--fix", "expert=2"),
            "the expert degree is 4, and fixed as 2: give one of them",
        ),
    ],
)
def test_wrong_input(arguments: tuple[str, ...], message: str) -> None:
    error = refused(*without(MAIN, arguments[0]), *arguments)
    assert message in error
    assert error.count("\n") == 1


def test_sgd_takes_a_third_of_what_adam_does() -> None:
    """12 layers of 12 x 6,144^2 weights a stage, a quarter of them here, sharded over 4 (ZeRO 1).

    Of 12 bytes a weight SGD keeps the 4 of the 32-bit copy, with momentum 8.
    """
    words = ("search", "rail-only-paper", "--gpus", "64", "--hb-size", "8", "--model", "gpt-22b",
             "--batch", "64",
             "--fix", "tensor=4", "--fix", "pipeline=4", "--fix", "data=4", "--fix", "microbatch=1",
             "--format", "json", "--set")  # fmt: skip
    adam, momentum, sgd = (
        json.loads(netplan(*words, f"iteration-model.overlap.optimizer_bytes={size}").stdout)
        for size in (12, 8, 4)
    )
    held = [one["plans"][0]["memory_bytes"] for one in (adam, momentum, sgd)]
    assert held[0] - held[1] == held[1] - held[2]
    assert held[0] - held[2] == pytest.approx(8 * 12 * 12 * 6144**2 / 16, rel=1e-3)


def test_a_next_plan_that_is_faster_takes_less_and_instances_count_their_turnaround(
    tmp_path: Path,
) -> None:
    # Within 1 % of the fastest, plans that are simpler go before it; times without bars say how
    # far apart they are.
    measured = shipped_root() / "traffic" / "iteration-models" / "measured.yaml"
    text, bars, notes = re.split("(errors:.*?)(?=notes:)", measured.read_text(), flags=re.DOTALL)
    assert "moe: 1.45" in bars
    shelf = tmp_path / "traffic" / "iteration-models"
    shelf.mkdir(parents=True)
    (shelf / "barless.yaml").write_text(text.replace("name: measured", "name: barless") + notes)
    asked = "nvl72-gb200 --gpus 16384 --model deepseek-v3 --iteration-model barless"
    asked += " --batch 4096 --catalog"
    done = netplan("search", *asked.split(), str(tmp_path))
    text = " ".join(done.stdout.split())
    assert re.search(r"The next one takes [\d.]+ % less\.", text)
    asked = "comet-paper --gpus 64 --model dlrm-1.2t --instances 8 --expanded-memory comet-201gb"
    text = " ".join(netplan("search", *asked.split()).stdout.split())
    assert "The next one takes 4.6 % longer." in text  # 54.29 ms after 51.91 ms


def test_terms_that_differ_in_rounding_alone_are_not_told() -> None:
    """Sixteen microbatches of 12 sequences compute what 24 of 8 do; gradients wait longer."""
    shown = netplan("search", "comet-paper", "--batch", "3072", "--explain", "1,2").stdout
    terms = shown.partition("terms of an iteration")[2].partition("sum ")[0]
    assert "data parallel" in terms
    assert "computing" not in terms
