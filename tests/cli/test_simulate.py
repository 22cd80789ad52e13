"""netplan simulate on the command line: JSON, files beside it, refusals."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import netplan as package
from netplan.progress import UnderWay
from tests.cli.command import netplan, refused, replaced
from tests.cli.layout import asked, check_layout, schema_of

SMALL = ("--gpus", "64", "--radix", "16", "--hb-size", "8", "--model", "gpt-22b", "--batch", "64",
         "--fix", "pipeline=4", "--fix", "tensor=4", "--fix", "microbatch=1")  # fmt: skip
PUBLISHED = ("--mode", "published-code", "--gpus", "320", "--fabric", "palm-wafer",
             "--accelerator", "palm-wafer-core", "--model", "t-18b", "--fix", "tensor=8",
             "--fix", "data=2", "--fix", "pipeline=20")  # fmt: skip


def simulated(*words: str) -> dict[str, Any]:
    """The answer as JSON."""
    done = netplan("simulate", "rail-only-paper", *words, "--format", "json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_stage_computes_sends_waits_and_idles_for_an_iteration() -> None:
    words = (*SMALL, "--fabric", "fat-tree", "--routing", "hashed", "--seed", "3")
    for found in (simulated(*words), simulated(*PUBLISHED)):
        whole_s = found["iteration_time_s"]
        parts = ("compute_s", "communication_s", "waiting_s", "idle_s")
        for stage, used in zip(found["stages"], found["utilisation"], strict=True):
            assert sum(stage[part] for part in parts) == pytest.approx(whole_s, rel=1e-9)
            assert used == pytest.approx(stage["compute_s"] / whole_s)
        waited_s = sum(group["waited_s"] for group in found["groups"])
        assert found["waiting_s"] == pytest.approx(waited_s, rel=1e-9)
        busy_s = max(group["busy_s"] for group in found["groups"])
        assert busy_s == max(link["busy_s"] for link in found["links"])


def test_json_has_what_the_design_names_and_the_same_bytes_but_for_the_clock() -> None:
    first, again = (
        netplan("simulate", "rail-only-paper", *SMALL, "--format", "json").stdout for _ in range(2)
    )
    clock = re.compile(r'"seconds": [\d.e-]+')
    assert clock.sub("", first) == clock.sub("", again)
    found = json.loads(first)
    assert {
        "iteration_time_s", "analytic_time_s", "lower_bound_s", "sequences_per_s", "waiting_s",
        "utilisation", "links", "microbatches", "microbatches_simulated", "period", "replicas",
        "replicas_simulated", "bookings", "seconds", "stages", "groups", "plan",
    } < set(found)  # fmt: skip
    assert found["plan"]["pipeline"] == len(found["stages"]) == len(found["utilisation"]) == 4
    assert found["sequences_per_s"] == pytest.approx(64 / found["iteration_time_s"])
    assert found["lower_bound_s"] <= found["iteration_time_s"]
    for share, stage in zip(found["utilisation"], found["stages"], strict=True):
        assert share == pytest.approx(stage["compute_s"] / found["iteration_time_s"])
    assert [one["group"] for one in found["groups"]] == ["hb", "host", "leaf-spine"]
    assert len(found["links"]) == 5


def test_parts_of_a_stage_add_up() -> None:
    found = simulated(*SMALL, "--fabric", "fat-tree", "--routing", "hashed")
    for stage in found["stages"]:
        parts = ("compute_s", "communication_s", "waiting_s", "idle_s")
        assert sum(stage[one] for one in parts) == pytest.approx(found["iteration_time_s"])


def test_a_schedule_takes_plans_that_it_can_run() -> None:
    words = (*replaced(SMALL, ("--batch", "256")), "--schedule")
    runs = {one: simulated(*words, one) for one in ("1f1b", "gpipe", "interleaved")}
    assert [one["plan"]["interleave"] > 1 for one in runs.values()] == [False, False, True]
    # Less bubble, the same work.
    assert runs["interleaved"]["iteration_time_s"] < runs["1f1b"]["iteration_time_s"]


def test_a_full_run_and_one_that_is_counted_on_agree() -> None:
    words = replaced(SMALL, ("--batch", "1024"))
    short, full = (simulated(*words, *more) for more in ((), ("--full",)))
    assert short["microbatches_simulated"] < full["microbatches_simulated"] == 1024 / 4
    assert short["iteration_time_s"] == pytest.approx(full["iteration_time_s"], rel=1e-9)


def test_slow_links_cost_time_and_contention_none_less() -> None:
    words = (*SMALL, "--fabric", "fat-tree", "--routing", "hashed")
    times = [
        simulated(*words, *more)["iteration_time_s"]
        for more in (("--no-contention",), (), ("--slow", "leaf-spine=0.25"))
    ]
    assert times[0] < times[1] < times[2]
    # One link of many: no more than all of them.
    one = simulated(*words, "--slow", "leaf-0--spine-0=0.25")["iteration_time_s"]
    assert times[1] <= one <= times[2]


def test_slow_groups_are_called_as_answers_call_them() -> None:
    names = ("hb", "hb-link")
    both = [simulated(*SMALL, "--slow", f"{name}=0.5")["iteration_time_s"] for name in names]
    assert simulated(*SMALL)["iteration_time_s"] < both[0] == both[1]


def test_weights_that_do_not_fit_are_told_of_inference() -> None:
    words = ("--gpus", "64", "--hb-size", "8", "--model", "gpt-1t", "--batch", "64", "--inference")
    one = netplan(
        "simulate", "rail-only-paper", *words, "--fix", "pipeline=1", "--fix", "tensor=1"
    ).stdout
    assert "The weights alone take 2.01 TB of memory a GPU" in one.replace("\n", " ")
    # In training this plan does not fit: 64 GPUs have no room for gradients and optimizer.
    other = netplan(
        "simulate", "rail-only-paper", *words, "--fix", "pipeline=8", "--fix", "tensor=8"
    ).stdout
    assert "of memory a GPU" not in other.replace("\n", " ")


@pytest.mark.parametrize("command", ["simulate", "loads", "traffic"])
def test_a_plan_with_given_values_is_the_best_that_fits(command: str) -> None:
    words = (*SMALL[:-6], "--fix", "pipeline=1", "--format", "json")
    assert (
        "115 GB of memory"
        in netplan("simulate", "rail-only-paper", *words[:-2], "--fix", "tensor=1").stdout
    )
    found = json.loads(netplan(command, "rail-only-paper", *words).stdout)["plan"]
    best = json.loads(netplan("search", "rail-only-paper", *words).stdout)["plans"][0]
    assert best["memory_bytes"] < 96e9
    assert found["tensor"] > 1
    assert {name: best["plan"][name] for name in found} == found


@pytest.mark.parametrize("routing", ["ecmp", "hashed"])
def test_links_are_as_busy_as_loads_has_them(routing: str) -> None:
    """The 4d model gives messages 70 % of the links' bandwidth; loads has all of it."""
    words = (*SMALL, "--fabric", "fat-tree", "--routing", routing, "--hot", "1000")
    loads = json.loads(netplan("loads", "rail-only-paper", *words, "--format", "json").stdout)[
        "hottest"
    ]
    expected = {one["name"]: one["time_s"] / 0.7 for one in loads}
    found = {one["name"]: one["busy_s"] for one in simulated(*words)["links"]}
    assert found == pytest.approx(expected, rel=1e-9)
    assert len(found) > 300


def test_what_has_failed_stands_beside_whole_links() -> None:
    words = (*SMALL, "--fabric", "fat-tree")
    whole = simulated(*words)
    found = simulated(*words, "--fail", "leaf-spine=12", "--seed", "3")
    assert found["intact_time_s"] == pytest.approx(whole["iteration_time_s"], rel=1e-9)
    assert found["iteration_time_s"] > found["intact_time_s"]
    assert found["notes"][-1].startswith("Failed: leaf-spine=12. Routes go round it")
    slow = simulated(*words, "--slow", "leaf-spine=0.25")
    assert slow["intact_time_s"] == whole["iteration_time_s"] < slow["iteration_time_s"]
    assert whole["intact_time_s"] is None


def test_a_placement_in_order_changes_nothing_and_another_one_does(tmp_path: Path) -> None:
    in_order, turned = tmp_path / "order.txt", tmp_path / "turned.txt"
    in_order.write_text("0-63\n", encoding="utf-8")
    # Ranks that talk most lie in eight HB domains.
    turned.write_text(" ".join(str(8 * (r % 8) + r // 8) for r in range(64)), encoding="utf-8")
    plain = simulated(*SMALL)
    same = simulated(*SMALL, "--placement", str(in_order))
    assert same["iteration_time_s"] == plain["iteration_time_s"]
    worse = simulated(*SMALL, "--placement", str(turned))
    assert worse["iteration_time_s"] > plain["iteration_time_s"]


def test_a_snake_on_a_torus_leaves_work_and_bytes_as_they_are() -> None:
    torus = ("--gpus", "64", "--fabric", "torus-2d", "--hb-size", "1", "--model", "gpt-22b",
             "--batch", "64", "--fix", "pipeline=8")  # fmt: skip
    line, snake = (simulated(*torus, "--placement", one) for one in ("line", "snake"))
    parts = [[stage["compute_s"] for stage in one["stages"]] for one in (line, snake)]
    assert parts[0] == parts[1]
    assert line["bookings"] > 0


def test_a_graph_of_ones_own_gives_the_same(tmp_path: Path) -> None:
    path = tmp_path / "fabric.graphml"
    words = ("--gpus", "64", "--radix", "16", "--hb-size", "8", "--fabric", "rail-optimized")
    assert (
        netplan("export", "rail-only-paper", *words, "--to", "graphml", "-o", str(path)).returncode
        == 0
    )
    own = simulated(*SMALL, "--graph", str(path))
    assert own["iteration_time_s"] == pytest.approx(simulated(*SMALL)["iteration_time_s"])


def test_a_larger_graph_has_room_for_the_run(tmp_path: Path) -> None:
    path = tmp_path / "fabric.graphml"
    words = ("--gpus", "128", "--radix", "16", "--hb-size", "8", "--fabric", "rail-only")
    assert (
        netplan("export", "rail-only-paper", *words, "--to", "graphml", "-o", str(path)).returncode
        == 0
    )
    own = simulated(*SMALL, "--fabric", "rail-only", "--graph", str(path))
    assert own["iteration_time_s"] == pytest.approx(
        simulated(*SMALL, "--fabric", "rail-only")["iteration_time_s"]
    )
    (tmp_path / "jobs.yaml").write_text(JOBS, encoding="utf-8")
    shared = (*SMALL[:2], "--hb-size", "8", "--fabric", "rail-only", "--graph", str(path))
    found = simulated(*shared, "--jobs", str(tmp_path / "jobs.yaml"))
    assert found["inputs"]["graph"] == str(path)
    small = netplan(
        "export",
        "rail-only-paper",
        "--fabric",
        "rail-only",
        "--gpus",
        "16",
        "--hb-size",
        "8",
        "--to",
        "graphml",
        "-o",
        str(path),
    )
    assert small.returncode == 0
    assert "has 16 GPUs, --gpus 64" in refused(
        "simulate", "rail-only-paper", *SMALL, "--graph", str(path)
    )


def test_a_graph_of_other_domains_is_refused_by_their_size(tmp_path: Path) -> None:
    path = tmp_path / "fabric.graphml"
    words = ("--gpus", "64", "--radix", "16", "--hb-size", "4", "--fabric", "rail-optimized")
    assert (
        netplan("export", "rail-only-paper", *words, "--to", "graphml", "-o", str(path)).returncode
        == 0
    )
    line = refused("simulate", "rail-only-paper", *SMALL, "--graph", str(path))
    assert "has HB domains of 4 GPUs" in line
    assert "planned on domains of 8: give --hb-size 4" in line
    smaller = (*replaced(SMALL, ("--hb-size", "4")), "--graph", str(path))
    assert (
        f"links of {path}\n" in netplan("simulate", "rail-only-paper", *smaller, columns=300).stdout
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--gpus", "256", "--model", "dlrm-793b"), "54.58 ms an iteration, 2,402,000 samples/s."),
        (("--gpus", "256", "--model", "dlrm-793b", "--inference"), " a batch, 5,284,000 samples/s"),
        (("--gpus", "16384", "--model", "fft-1t"), "51.71 ms an iteration, 19.34 transforms/s."),
        (("--gpus", "64", "--model", "bert-base", "--inference"), " ms a batch, "),
    ],
)
def test_the_rate_is_that_of_what_a_batch_counts(words: tuple[str, ...], said: str) -> None:
    done = netplan("simulate", "rail-only-paper", "--hb-size", "8", *words)
    assert said in done.stdout.replace("\n", " ")
    assert "\nschedule" not in done.stdout
    assert ("sequences/s" in done.stdout) == ("bert-base" in words)


def test_files_beside_the_answer(tmp_path: Path) -> None:
    page, trace = tmp_path / "run.html", tmp_path / "run.json"
    done = netplan(
        "simulate", "rail-only-paper", *SMALL, "--timeline", str(page), "--trace", str(trace)
    )
    assert done.returncode == 0
    assert "an iteration" in done.stdout
    text = page.read_text(encoding="utf-8")
    assert 'id="chart-timeline"' in text
    assert "http-equiv" in text
    assert "http://" not in text.partition("<script>")[0].replace("http-equiv", "")
    events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    assert {one["ph"] for one in events} == {"M", "X", "b", "e"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.html", "run.json"]


def test_published_options_change_the_published_run() -> None:
    """Golden values of the published code for T-18B on the wafer and 256 GPUs."""
    gpus = ("--mode", "published-code", "--gpus", "256", "--fabric", "palm-gpu",
            "--accelerator", "palm-a100", "--model", "t-18b", "--fix", "tensor=8",
            "--fix", "data=32", "--fix", "pipeline=1")  # fmt: skip
    assert simulated(*gpus)["sequences_per_s"] == pytest.approx(139.920, rel=1e-4)
    found = simulated(*PUBLISHED)
    assert found["inputs"]["iteration_model"] == "palm"
    assert found["inputs"]["recompute"] == "full"
    assert (found["microbatches"], found["microbatches_simulated"]) == (21, 6)
    assert simulated(*PUBLISHED, "--full")["microbatches_simulated"] == 21
    line = simulated(*PUBLISHED, "--placement", "line")
    assert line["iteration_time_s"] != found["iteration_time_s"]


def test_spread_tensor_groups_cost_time() -> None:
    """On the wafer 0.16 % (PALM's Fig. 10, by its published rules), across HB domains far more."""
    near, strided = (simulated(*PUBLISHED, "--groups", one) for one in ("near", "strided"))
    assert near == simulated(*PUBLISHED) | {"seconds": near["seconds"]}
    ratio = near["sequences_per_s"] / strided["sequences_per_s"]
    assert ratio == pytest.approx(1.00156, abs=1e-5)
    near, strided = (simulated(*SMALL, "--groups", one) for one in ("near", "strided"))
    assert strided["iteration_time_s"] > 1.05 * near["iteration_time_s"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--slow", "gpu-0"), "write LINK=SHARE"),
        (("--slow", "leaf-spine=0"), "use --fail"),
        (("--slow", "leaf-spine=2"), "write LINK=SHARE"),
        (("--slow", "gpu-0=1e-4"), "leaves a GPU 0.0001 of its rate"),
        (("--slow", "gpu-0--rail-3/leaf-0=0.5"), "no link joins gpu-0"),
        (("--slow", "nonsense=0.5"), "--slow 'nonsense' is unknown: name a link"),
        (("--fail", "gpu-5"), "1 GPU in use, gpu-5 first, would be down"),
        (("--fail", "link=128"), "64 GPUs in use, gpu-0 first, would be cut off"),
        (("--fail", "nonsense"), "unknown part 'nonsense'"),
        (("--fail", "link=1", "--no-contention"), "--no-contention takes no link"),
        (("--slow", "host=0.5", "--no-contention"), "so that --slow would change nothing"),
        (("--fail", "link=1", "--routing", "hashed"), "--routing hashed knows no ways round"),
        (("--placement", "ranks.txt"), "cannot be read: No such file"),
        (("--placement", "snake"), "is for rings and meshes"),
        (("--graph", "fabric.graphml"), "cannot be read: No such file"),
        (("--schedule", "interleaved", "--interleave", "none"), "leave --interleave none"),
        (("--schedule", "round"), "round"),
        (("--hot", "-1"), "--hot -1"),
        (("--slow", "gpu-9999=0.5"), "unknown part 'gpu-9999'"),
        (("--slow", "host=1e-300"), "--slow leaves a link 1e-300 of its rate"),
        (("--slow", "host=1e-4", "--slow", "link=1e-4"), "leaves a link 1e-08"),
        (("--timeline", "/nowhere/run.html"), "cannot be written"),
        (("--timeline", "a.html", "--trace", "a.html"), "are both a.html"),
    ],
)
def test_one_line_says_what_is_wrong(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    line = refused("simulate", "rail-only-paper", *SMALL, *words, cwd=tmp_path)
    assert said in line
    assert line.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_plan_that_does_not_fit_the_memory_says_so() -> None:
    words = ("--gpus", "64", "--hb-size", "8", "--model", "gpt-146b", "--batch", "64")
    given = netplan(
        "simulate", "rail-only-paper", *words, "--fix", "pipeline=1", "--fix", "tensor=1"
    ).stdout
    assert "of memory a GPU, and gh200-96gb has 96 GB" in " ".join(given.split())
    assert "of memory a GPU" not in netplan("simulate", "rail-only-paper", *SMALL).stdout


@pytest.mark.parametrize("more", [("--full",), ("--schedule", "gpipe")])
def test_what_would_run_for_hours_is_refused(more: tuple[str, ...]) -> None:
    words = replaced(SMALL, ("--batch", "1000000000"))
    assert "2,000,000,000 passes of stages are too many" in refused(
        "simulate", "rail-only-paper", *words, *more
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--slow", "memory=0.5"), "--slow memory=0.5 means nothing"),
        (("--fail", "link=1"), "--fail link=1 means nothing"),
        (("--routing", "hashed"), "--routing hashed means nothing"),
        (("--schedule", "interleaved"), "--schedule 1f1b and gpipe"),
        (("--recompute", "selective"), "--recompute none and full"),
        (("--fix", "interleave=2"), "--fix interleave"),
        (("--fix", "microbatch=1025"), "1,025 sequences is more than the batch of 1,024"),
        (("--lm-head",), "--lm-head means nothing"),
        # Its collectives are rings: even the pattern that other commands take unasked is none.
        (("--algorithm", "hierarchical"), "--algorithm hierarchical means nothing"),
        (("--algorithm", "ring"), "--algorithm ring means nothing"),
        (("--expert-skew", "gini:0.2"), "--expert-skew gini:0.2 means nothing"),
        (("--imbalance", "1.5"), "--imbalance 1.5 means nothing"),
        (("--use-per-domain", "4"), "--use-per-domain 4 means nothing"),
        (("--memory", "model"), "--memory model means nothing"),
        (("--expanded-memory", "comet-480gb"), "--expanded-memory comet-480gb means nothing"),
    ],
)
def test_the_published_mode_says_what_it_does_not_have(words: tuple[str, ...], said: str) -> None:
    assert said in refused("simulate", "rail-only-paper", *PUBLISHED, *words)


def test_the_published_mode_needs_the_sram_of_a_chip() -> None:
    words = replaced(PUBLISHED, ("--accelerator", "b200", "--fabric", "palm-gpu"))
    assert "--set accelerator.sram_bytes=40e6" in refused("simulate", "rail-only-paper", *words)


def test_nothing_is_under_way_when_all_is_done() -> None:
    simulated(*SMALL)
    assert UnderWay.text() == ""


JOBS = """jobs:
  - {name: one, model: gpt-22b, gpus: 32, batch: 32, fix: {pipeline: 2, data: 4},
     placement: alternate}
  - {name: two, model: gpt-22b, gpus: 32, batch: 64, fix: {pipeline: 2, data: 4},
     placement: alternate}
"""
CLUSTER = ("--gpus", "64", "--radix", "16", "--hb-size", "4", "--fabric", "fat-tree",
           "--oversubscription", "7:1")  # fmt: skip


def test_jobs_stand_alone_and_beside_each_other(tmp_path: Path) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text(JOBS, encoding="utf-8")
    found = simulated(*CLUSTER, "--jobs", str(path))
    assert [one["name"] for one in found["jobs"]] == ["one", "two"]
    plans = [one["plan"] for one in found["jobs"]]
    used = [plan["tensor"] * plan["data"] * plan["pipeline"] for plan in plans]
    assert found["gpus_used"] == sum(used) <= 64
    for job in found["jobs"]:
        assert job["plan"]["pipeline"] == 2
        assert job["slowdown"] == pytest.approx(job["together_s"] / job["alone_s"] - 1)
    # They repeat until each has ended what was under way when the slower one ended its first.
    assert (
        min(one["iterations"] for one in found["jobs"])
        == 1
        < max(one["iterations"] for one in found["jobs"])
    )
    ends = [one["together_s"] * one["iterations"] for one in found["jobs"]]
    assert found["iteration_time_s"] == pytest.approx(max(ends))
    assert max(one["slowdown"] for one in found["jobs"]) > 0.01
    _, answer = asked("simulate", "rail-only-paper", *CLUSTER, "--jobs", str(path))
    check_layout(answer)
    (_, columns, rows), *_ = schema_of(answer.sections())
    shown = "job | model | GPUs | TPxPPxDP | alone [s] | together [s] | slower | iterations"
    assert (columns, rows) == (shown, "one, two")


def test_a_frame_has_a_row_by_the_name_of_what_ran(tmp_path: Path) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text(JOBS, encoding="utf-8")
    small: dict[str, Any] = {"gpus": 64, "radix": 16, "fabric": "fat-tree"}
    one = package.simulate("rail-only-paper", **small, hb_size=8, model="gpt-22b", batch=64)
    assert one.to_frame().index.tolist() == ["gpt-22b"]
    assert one.to_frame()["iteration_time_s"].item() == one.found.iteration_time_s
    several = package.simulate("rail-only-paper", **small, hb_size=4, jobs=path)
    assert several.to_frame().index.tolist() == ["one", "two"]
    assert several.to_frame()["together_s"].tolist() == [job.together_s for job in several.jobs]
    # Each job says its own.
    assert several.to_dict()["inputs"]["model"] is None


def test_names_of_jobs_are_one_line(tmp_path: Path) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text(JOBS.replace("name: one", r'name: "one\nand a half"'), encoding="utf-8")
    assert simulated(*CLUSTER, "--jobs", str(path))["jobs"][0]["name"] == "one and a half"


def test_jobs_on_slow_links_stand_beside_whole_ones(tmp_path: Path) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text(JOBS, encoding="utf-8")
    words = (*CLUSTER, "--jobs", str(path))
    slow = (*words, "--slow", "leaf-spine=0.5")
    whole, slowed = simulated(*words), simulated(*slow)
    assert [one["intact_time_s"] for one in whole["jobs"]] == [None, None]
    for one, other in zip(whole["jobs"], slowed["jobs"], strict=True):
        assert other["intact_time_s"] == one["together_s"] < other["together_s"]
    done = netplan("simulate", "rail-only-paper", *slow, columns=80)
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "Whole links give " in done.stdout.replace("\n", " ")
    assert "   whole links   " in done.stdout


@pytest.mark.parametrize(
    ("text", "words", "said"),
    [
        (JOBS.replace("32,", "48,", 1), (), "the jobs need 80 GPUs, the fabric has 64"),
        (JOBS.replace("alternate", "0-31"), (), "GPU 0 is there twice, for one too"),
        (JOBS.replace("gpt-22b", "gpt-23b"), (), "gpt-23b"),
        (JOBS.replace("pipeline: 2", "pipelines: 2"), (), "pipelines"),
        (JOBS.replace("pipeline: 2", "tensor: 7"), (), "jobs.yaml, job one: no plan of gpt-22b"),
        (JOBS.replace("gpt-22b", "gpt-22", 1), (), "jobs.yaml, job one: unknown model 'gpt-22'"),
        (JOBS, ("--batch", "8"), "--batch 8 means nothing for jobs.yaml"),
        (JOBS, ("--fix", "tensor=2"), "--fix tensor=2 means nothing for jobs.yaml"),
        (JOBS, ("--mode", "published-code"), "means nothing for iteration model palm"),
        ("jobs: 3\n", (), "jobs.yaml:1"),
    ],
)
def test_one_line_says_what_is_wrong_with_jobs(
    text: str, words: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    (tmp_path / "jobs.yaml").write_text(text, encoding="utf-8")
    line = refused(
        "simulate", "rail-only-paper", *CLUSTER, "--jobs", "jobs.yaml", *words, cwd=tmp_path
    )
    assert said in line
    assert line.count("\n") == 1
