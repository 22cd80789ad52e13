"""Software that is asked for: its date, and what it does with experts, wherever it may be said."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import netplan as package
from netplan.catalog import shipped_root
from netplan.errors import InputError
from netplan.inputs.readers import software_month
from netplan.performance.dated.recipe import Recipe
from netplan.performance.iteration_model import ITERATION_MODELS
from netplan.performance.stacks import STACKS, default_stack
from netplan.questions.search import Search
from netplan.scenarios.inner_parts import Software
from netplan.setup.software import recipe_of, stack_words
from netplan.workloads.accelerators import ACCELERATORS
from tests.cli.command import netplan

LARGE = ("search", "hgx-h100", "--gpus", "64")
SMALL = (*LARGE, "--model", "gpt-22b")
PLAIN = {"gpus": 64, "model": "gpt-22b"}
MOE = {"gpus": 64, "model": "mixtral-8x7b"}


@pytest.mark.parametrize(
    ("asked", "month"),
    [
        ("2024-07", "2024-07"),
        ("2024-06", "2024-07"),
        ("1999-12", "2024-07"),
        ("2026-09", "2026-09"),
        ("2026-10", "2026-09"),
        ("2031-01", "2026-09"),
        ("none", "none"),
    ],
)
def test_months_without_runs_are_moved_to_the_nearest_with(asked: str, month: str) -> None:
    assert software_month(asked) == month


NO_MONTH = "is no month: give YYYY-MM, from 2024-07 to 2026-09, or none"
REFUSED = [
    *(
        (("--software-date", text), NO_MONTH)
        for text in ("2026", "2026-13", "2026-00", "2026-6", "June", "2026-06-01", "None")
    ),
    (("--graphs", "all"), "'all' is not one of 'none', 'router', 'attn', 'mixer', 'full'"),
    (("--dispatcher", "nccl"), "'nccl' is not one of 'alltoall', 'deepep', 'hybridep', 'fsdp'"),
    (("--dispatcher", "deepep"), "--dispatcher deepep: gpt-22b has no experts: leave it out"),
    (("--expert-overlap",), "--expert-overlap: gpt-22b has no experts"),
    (("--no-expert-overlap",), "--no-expert-overlap: gpt-22b has no experts"),
    (("--no-fused-experts",), "--no-fused-experts: gpt-22b has no experts"),
    (
        ("--software-date", "none", "--graphs", "full"),
        "--graphs full means nothing of software without a date: .* --software-date none out",
    ),
    (
        ("--stack", "megatron-2022", "--graphs", "attn"),
        "under stack megatron-2022, which has no numbers by date",
    ),
    (
        ("--accelerator", "a100-80gb", "--graphs", "attn"),
        "under a100-80gb, which has no numbers by date",
    ),
    (
        ("--precision", "mxfp8"),
        "h100-80gb multiplies no numbers that share a scale in blocks, .*: take --precision fp8",
    ),
    (
        ("--software-date", "none", "--precision", "mxfp8", "--accelerator", "b200-1000w"),
        "timed under software of a date alone: leave --software-date none out",
    ),
    (
        ("--precision", "nvfp4"),
        "in fp4 reach on h100-80gb: take --precision bf16 or fp8, or an --accelerator of .*gb300",
    ),
    (
        ("--precision", "nvfp4", "--software-date", "none"),
        "in fp4 reach on h100-80gb: take --precision bf16 or fp8, or an --accelerator of .*gb300",
    ),
    (
        ("--precision", "fp8", "--accelerator", "a100-80gb"),
        "in fp8 reach on a100-80gb: take --precision bf16, or an --accelerator of .*h100-80gb",
    ),
    *(
        ((*words, "--iteration-model", "4d"), f"no times for {' '.join(words)}: leave it out, or")
        for words in (
            ("--software-date", "2026-02"),
            ("--dispatcher", "deepep"),
            ("--expert-overlap",),
            ("--no-expert-overlap",),
            ("--graphs", "none"),
            ("--fused-experts",),
            ("--force",),
        )
    ),
]


SPARSE = ("--model", "mixtral-8x7b")
REFUSED += [
    ((*SPARSE, "--fix", "expert=3"), "--fix expert=3: 8 experts cannot be spread evenly over 3"),
    ((*SPARSE, "--expert-degree", "16"), "--expert-degree 16: 8 experts cannot be spread evenly"),
    (
        (*SPARSE, "--fix", "expert_tensor=4", "--fix", "tensor=2"),
        "--fix expert_tensor=4: an expert is whole, or cut as .*: give 1 or tensor, 2",
    ),
    ((*SPARSE, "--dispatcher", "fsdp", "--expert-degree", "8"), "every GPU gathers all experts"),
    (
        (*SPARSE, "--software-date", "none", "--iteration-model", "calibrated"),
        "for experts under software of a date alone: leave --software-date none out, take a stack",
    ),
    (
        (*SPARSE, "--accelerator", "trainium2", "--iteration-model", "calibrated"),
        "for experts under software of a date alone, and trainium2 has no numbers by date: take an",
    ),
    (
        (*SPARSE, "--software-date", "none", "--dispatcher", "deepep"),
        "no times for --dispatcher deepep: .* no formulas for experts without a date of software",
    ),
    (
        ("--model", "deepseek-v3.2", "--software-date", "2026-02"),
        "no times for --software-date 2026-02: leave it out .* has no formulas for an index.$",
    ),
    (
        ("--model", "nemotron-h-56b", "--fix", "pipeline=2"),
        "--fix pipeline=2: nemotron-h-56b has Mamba layers, .* or give --force, too",
    ),
    (("--model", "nemotron-h-56b", "--dispatcher", "deepep"), "nemotron-h-56b has no experts"),
]


@pytest.mark.parametrize(("words", "message"), REFUSED, ids=lambda given: "-".join(given)[:60])
def test_one_line_says_what_is_wrong_and_what_to_do(words: tuple[str, ...], message: str) -> None:
    done = netplan(*(LARGE if "--model" in words else SMALL), *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert re.search(message, done.stderr), done.stderr


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"software_date": "2026-13"}, NO_MONTH),
        ({"software_date": 2026.42}, "no text"),
        ({"graphs": "all"}, "use none, router, attn, mixer, full"),
        ({"expert_overlap": "maybe"}, "neither True nor False"),
        ({"fused_experts": False}, "gpt-22b has no experts"),
    ],
)
def test_python_refuses_the_same(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        package.search("hgx-h100", **PLAIN, **values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"software_date": "2026-13"}, NO_MONTH),
        ({"software_date": 2026.42}, "expected str"),
        ({"expert_overlap": "maybe"}, "expected bool"),
        ({"dispatcher": "nccl"}, "nccl"),
    ],
)
def test_a_part_refuses_the_same(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Software(**values)


def scenario_with(path: Path, line: str) -> Path:
    shipped = shipped_root() / "topologies" / "scenarios" / "hgx-h100.yaml"
    path.write_text(f"{shipped.read_text('utf-8')}  {line}\n", "utf-8")
    return path


def test_a_scenario_says_it(tmp_path: Path) -> None:
    path = scenario_with(tmp_path / "mine.yaml", "software: {software_date: 2026-02}")
    inputs = package.search(path, **PLAIN).to_dict()["inputs"]
    assert inputs["software_date"] == "2026-02"
    assert package.search(path, **PLAIN, software_date="none").inputs["software_date"] == "none"
    wrong = scenario_with(tmp_path / "wrong.yaml", "software: {software_date: 2026-14}")
    done = netplan("search", str(wrong), "--gpus", "64")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert NO_MONTH in done.stderr
    # What another iteration model does not know gives way to it.
    paper = package.search(path, **PLAIN, iteration_model="4d").inputs
    assert "software_date" not in paper


def test_answers_name_the_date_and_only_what_is_asked_for_beside_it() -> None:
    inputs = package.search("hgx-h100", **PLAIN).inputs
    assert inputs["software_date"] == "2026-06"
    beside = {"dispatcher", "expert_overlap", "graphs", "fused_experts", "hybrid_stages"}
    assert not beside & inputs.keys()
    text = netplan(*SMALL).stdout
    assert "software" not in text.partition("Best plan")[0]
    later = package.search("hgx-h100", **PLAIN, software_date="2027-01", graphs="attn")
    assert later.inputs["software_date"] == "2026-09"
    assert later.inputs["software_asked"] == "2027-01"
    assert later.inputs["graphs"] == "attn"
    heading = " ".join(later.text().partition("Best plan")[0].split())
    assert heading.endswith("software of 2026-09 (for 2027-01: no run is later), graphs attn")


def test_what_has_no_numbers_by_date_has_none() -> None:
    old = package.search("hgx-h100", **PLAIN, accelerator="a100-80gb").inputs
    assert old["software_date"] is None
    old_gpu = {**PLAIN, "accelerator": "a100-80gb"}
    asked = package.search("hgx-h100", **old_gpu, software_date="2026-02")
    assert (asked.inputs["software_date"], asked.inputs["software_asked"]) == ("none", "2026-02")
    assert "stack or accelerator have no numbers by date" in " ".join(asked.text().split())


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        ({"software_date": "2026-06"}, []),
        ({"software_date": None}, []),
        ({"software_date": "2026-02"}, ["software of 2026-02"]),
        ({"software_date": "none"}, ["software of no date"]),
        (
            {"software_date": "2024-07", "software_asked": "2023-01", "expert_overlap": True},
            ["software of 2024-07 (for 2023-01: no run is earlier)", "expert overlap"],
        ),
        (
            {"software_date": "2026-06", "dispatcher": "deepep", "fused_experts": False},
            ["dispatcher deepep", "no fused experts"],
        ),
    ],
)
def test_headings_say_what_is_not_usual(shown: dict[str, Any], words: list[str]) -> None:
    assert list(stack_words(shown)) == words


def recipe(**asked: object) -> Recipe | None:
    question = Search.make("hgx-h100", **MOE, iteration_model="calibrated", **asked)
    on = ACCELERATORS.load(question.cluster.accelerator)
    stack = STACKS.load(question.training.stack or default_stack(on))
    calibration = ITERATION_MODELS.load("calibrated").calibration
    assert calibration is not None
    return recipe_of(question, calibration.dated, stack, on)


def test_what_is_asked_for_is_the_recipe() -> None:
    assert recipe() == Recipe(2026.42)
    assert recipe(software_date="none") is None
    assert recipe(stack="megatron-2022") is None
    assert recipe(accelerator="a100-80gb") is None
    asked: dict[str, Any] = {"dispatcher": "deepep", "graphs": "attn", "expert_overlap": False}
    assert recipe(software_date="2025-11", fused_experts=True, **asked) == Recipe(
        2025.83, "deepep", expert_overlap=False, graphs="attn", fused_experts=True
    )


def test_notes_say_what_a_month_makes_of_the_time_and_of_experts() -> None:
    """Dense runs on Hopper became 1.446 % faster a year: exp(-0.01446 * 0.42) = 0.9939."""
    found = package.search("hgx-h100", gpus=512, model="llama-3-70b")
    growth = found.found.best.growth
    assert growth is not None
    factor = growth.software_factor
    assert factor == pytest.approx(0.9939, abs=1e-4)
    (software,) = (note for note in found.notes if note.startswith("Software:"))
    assert f"megatron-2025 of 2026-06 (release 26.06) takes {factor:.3g} times" in software
    assert not [note for note in found.notes if note.startswith("Experts:")]
    asked = {"gpus": 512, "model": "mixtral-8x7b", "software_date": "2025-11", "graphs": "none"}
    (experts,) = (
        note for note in package.search("hgx-h100", **asked).notes if note.startswith("Experts:")
    )
    # EP8 lies in one HB domain, where presets of 2025 exchange plainly; those of Hopper overlap it.
    assert experts == (
        "Experts: graphs none as asked for; dispatcher alltoall, overlap of the exchange and no"
        " fused experts as presets of that month have it."
    )


def test_what_is_asked_for_changes_the_time() -> None:
    plan = {"tensor": 1, "context": 1, "pipeline": 4, "interleave": 1, "microbatch": 1}
    fixed = {"fixed": plan, "expert_degree": 8, "recompute": "full", "zero_stage": 1}
    asked = {"gpus": 64, "model": "mixtral-8x7b", "batch": 256, "ignore_memory": True, **fixed}

    def seconds(**switches: Any) -> float:  # noqa: ANN401 - of any switch
        best = package.search("hgx-h100", **asked, **switches).best
        time_s: float = best.iteration_time_s
        return time_s

    usual = seconds(graphs="none")
    assert usual > seconds(graphs="router") > seconds(graphs="full")
    assert seconds(expert_overlap=False) > seconds(expert_overlap=True)
    assert seconds(dispatcher="alltoall") > seconds(dispatcher="deepep")
    # Five months of Hopper's experts, 0.0885 a year: exp(-0.0885 * 0.41) = 0.964.
    later, before = (seconds(software_date=date, **OLD) for date in ("2026-05", "2025-12"))
    assert later / before == pytest.approx(0.9644, abs=5e-4)


def test_hybrids_have_one_stage_unless_forced() -> None:
    asked: dict[str, Any] = {"gpus": 256, "model": "nemotron-h-56b"}
    plain = package.search("hgx-h100", **asked)
    assert {timed.plan.pipeline for timed in plain.found.plans} == {1}
    assert "hybrid_stages" not in plain.inputs
    forced = package.search("hgx-h100", **asked, fixed={"pipeline": 2}, hybrid_stages=True)
    error = forced.best.error
    assert error is not None
    assert (error.basis, round(error.whole.high * error.whole.low, 9)) == ("transferred", 1)
    assert forced.inputs["hybrid_stages"] is True
    # Other iteration models know nothing of scored runs.
    roofline = package.search("hgx-h100", **asked, fixed={"pipeline": 2}, iteration_model="4d")
    assert roofline.best.plan.pipeline == 2


def test_experts_that_are_gathered_are_spread_over_none() -> None:
    asked: dict[str, Any] = {"gpus": 256, "model": "mixtral-8x7b"}
    for more in ({"accelerator": "tpu-v7"}, {"dispatcher": "fsdp"}):
        found = package.search("hgx-h100", **asked, **more).found
        assert {timed.plan.experts_over for timed in found.plans} == {1}


OLD = {"dispatcher": "deepep", "expert_overlap": False, "graphs": "router", "fused_experts": False}


def test_two_dates_lie_side_by_side() -> None:
    words = ("--a", "software_date=2026-02", "--b", "software_date=2026-06")
    done = netplan("diff", *SMALL[1:], *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert "A  software date 2026-02" in done.stdout
    # Dense runs on Blackwell became 14.7 % faster a year: exp(-0.147 * 0.34) is 4.9 % less time,
    # which times with one bar are told apart by.
    words = ("--a", "software_date=2026-02", "--b", "software_date=2026-06")
    done = netplan("diff", "hgx-b200", "--gpus", "64", "--model", "gpt-22b", *words)
    assert "the same money, -4.9 % time." in " ".join(done.stdout.split())
    done = netplan("diff", *SMALL[1:], "--a", "graphs=none", "--b", "graphs=full")
    assert "Iteration" in done.stdout


def test_a_file_to_start_from_has_them(tmp_path: Path) -> None:
    words = ("--set", "software_date=2026-02", "--set", "expert_overlap=false")
    path = tmp_path / "mine.yaml"
    assert netplan("init", "hgx-h100", *words, "-o", str(path)).returncode == 0
    lines = path.read_text("utf-8").splitlines()
    for line in ('    software_date: "2026-02"', "    expert_overlap: false"):
        assert [text for text in lines if text.partition(" #")[0] == line]
    assert [text for text in lines if text.startswith("    # graphs: null")]
    software = package.Scenario.load(path).training.software
    assert (software.software_date, software.expert_overlap) == ("2026-02", False)


STUDY = {
    "name": "dates",
    "title": "How fast is software of which month?",
    "source": "an example",
    "date": "2026-11",
    "ask": "search",
    "scenario": "hgx-h100",
    "inputs": PLAIN,
    "axes": [{"input": "software_date", "values": ["none", "2025-02", "2026-06"]}],
    "outputs": ["iteration_time_s", "inputs.software_date"],
}


def test_a_study_varies_the_date(tmp_path: Path) -> None:
    path = tmp_path / "dates.yaml"
    path.write_text(yaml.safe_dump(STUDY), "utf-8")
    words = ("study", "run", str(path), "--store", str(tmp_path / "dates.study"))
    done = netplan(*words, "--format", "json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert [row["inputs.software_date"] for row in rows] == ["none", "2025-02", "2026-06"]


def test_other_questions_take_them() -> None:
    asked = {"software_date": "2026-02", "graphs": "attn"}
    for question in (package.compare, package.traffic, package.loads, package.simulate):
        inputs = question("hgx-h100", **PLAIN, **asked).to_dict()["inputs"]
        assert (inputs["software_date"], inputs["graphs"]) == ("2026-02", "attn")
    words = "calibrated, .*, software of 2026-02, graphs attn"
    assert re.search(words, " ".join(package.compare("hgx-h100", **PLAIN, **asked).text().split()))
