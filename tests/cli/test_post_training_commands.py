"""Every command answers about a scenario of post-training, or refuses it in one clear line."""

import json
from pathlib import Path

import pytest

from tests.cli.command import netplan

ROOT = Path(__file__).parents[2]
SCENARIO = "grpo-70b-h100"
ANSWERED = (
    f"compare {SCENARIO} --fabric fat-tree",
    f"compare {SCENARIO} --fabric fat-tree --details",
    f"compare {SCENARIO} --fabric fat-tree --no-timing",
    f"compare {SCENARIO} --fabric fat-tree --format json",
    f"compare {SCENARIO} --fabric fat-tree --format csv",
    f"compare {SCENARIO} --fabric fat-tree --oversubscription 1 --oversubscription 4",
    f"compare {SCENARIO} --fabric fat-tree --hb-size 8 --hb-size 16",
    f"compare {SCENARIO} --fabric fat-tree --accelerator h100-80gb --accelerator h200",
    f"compare {SCENARIO} --fabric fat-tree --colocated",
    f"compare {SCENARIO} --fabric fat-tree --prompts 0",
    f"compare {SCENARIO} --fabric fat-tree --updates 0",
    f"compare {SCENARIO} --fabric fat-tree --power-budget 0.1MW",
    f"compare {SCENARIO} --fabric fat-tree --gpus 16 --rollout-gpus 8",  # no step, told in words
    f"cost {SCENARIO}",
    f"cost {SCENARIO} --details",
    f"cost {SCENARIO} --fabric fat-tree --currency EUR",
    f"cost {SCENARIO} --fabric fat-tree --with accelerators",
    f"diff {SCENARIO} --b staleness=2",
    f"diff {SCENARIO} hgx-h100",
    f"grow {SCENARIO} --gpus 128 --gpus 256",
    f"collective {SCENARIO} --kind all_reduce",
    f"optimize {SCENARIO} --model llama-3-8b --gpus 64",
    f"congestion {SCENARIO} --traffic permutation",
    f"cables {SCENARIO}",
    f"export {SCENARIO} --to dot",
)
REFUSED = {
    f"optimize {SCENARIO}": "does post-training of llama-3-70b, and netplan optimize asks about",
    f"sites {SCENARIO} --sites 2 --km 10": "and netplan sites asks about training: give --model",
    f"map {SCENARIO}": "and netplan map asks about training: give --model",
    f"serving {SCENARIO}": "and netplan serving asks about serving: give --model",
    f"congestion {SCENARIO}": "take netplan simulate, netplan loads, or a pattern",
    f"compare {SCENARIO} --sites 2 --km 10": "both pools of post-training are in one site",
    f"cost {SCENARIO} --sites 2 --km 10": "both pools of post-training are in one site",
    f"compare {SCENARIO} --rollout-gpus 64": "leave none of 64 GPUs to train",
    f"cost {SCENARIO} --rollout-gpus 64": "leave none of 64 GPUs to train",
    f"compare {SCENARIO} --hb-size 8 --hb-size 72": "give 1 to 64, the GPUs of the cluster",
    f"diff {SCENARIO} --b staleness=2 --goodput": "leave it out under post-training",
    f"report procurement {SCENARIO} --rule fastest": "means nothing for --workload post-training",
    f"search {SCENARIO} --prompts 0 --score-gpus 100": "--score-gpus 100 leave none of 64 GPUs",
    f"search {SCENARIO} --updates 0 --score-gpus 64": "--score-gpus 64 leave none of 64 GPUs",
    f"search {SCENARIO} --prompts 1000 --group-size 1000000": "are 1,000,000,000 answers at once",
    f"search {SCENARIO} --sync-rate 1e-300": "--sync-rate '1e-300': give bytes a second, 1 or more",
    f"search {SCENARIO} --score judge:llama-3-70b:-5": "a judge writes a whole number of tokens",
    "search rl-moe-gb300 --gpus 140 --hb-size 72": "hold no two pools of 72 or more",
    "cost hgx-h100 --prompts 8": "take --workload post-training",
}


@pytest.mark.parametrize("words", ANSWERED)
def test_command_answers(words: str, tmp_path: Path) -> None:
    done = netplan(*words.split(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() or [*tmp_path.iterdir()]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("words", "told"), REFUSED.items())
def test_command_refuses_in_one_line(words: str, told: str, tmp_path: Path) -> None:
    done = netplan(*words.split(), cwd=tmp_path)
    assert done.returncode == 2
    (line,) = [line for line in done.stderr.splitlines() if not line.startswith("working")]
    assert line.startswith("netplan: ")
    assert told in line


@pytest.mark.parametrize("kind", ["html", "xlsx"])
def test_report_is_written_with_failures_and_a_simulated_step(kind: str, tmp_path: Path) -> None:
    out = f"report.{kind}"
    words = f"report procurement {SCENARIO} --fabric fat-tree --simulate --faults"
    files = ["-o", "r.html", "--xlsx", out] if kind == "xlsx" else ["-o", out]
    done = netplan(*words.split(), *files, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / out).stat().st_size > 10_000


def test_screen_of_a_comparison_is_a_screen(tmp_path: Path) -> None:
    for scenario in (SCENARIO, "rl-moe-gb300"):
        lines = netplan("compare", scenario, cwd=tmp_path).stdout.splitlines()
        assert len(lines) <= 25
        assert max(map(len, lines)) <= 80
        text = " ".join(lines)
        assert "at least" in text
        assert "bounds" in text
        assert "estimate" not in text


def test_pools_are_searched_where_some_splits_are_too_small_for_a_cluster(tmp_path: Path) -> None:
    # Servers are trays of 4: a pool of one tray is no cluster, and others are tried.
    words = "--gpus 72 --accelerator gb300 --radix 128 --model llama-3.1-8b --format json"
    scenario = tmp_path / "own.yaml"
    text = (ROOT / "topologies/scenarios/grpo-70b-h100.yaml").read_text()
    scenario.write_text(text.replace("  rollout_gpus: 32\n", ""))
    done = netplan("search", str(scenario), *words.split(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    sizes = [pool["gpus"] for pool in json.loads(done.stdout)["pools"]]
    assert min(sizes) >= 8
    assert sum(sizes) <= 72


def test_gpus_that_score_are_no_part_of_those_that_take_turns(tmp_path: Path) -> None:
    words = (
        "--colocated --rollout-gpus 0 --staleness 0 --score-gpus 16 --score reward:llama-3.1-8b"
        " --model llama-3.1-8b --format json"
    )
    done = netplan("search", SCENARIO, *words.split(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    pools = json.loads(done.stdout)["pools"]
    assert [(pool["role"], pool["gpus"]) for pool in pools] == [("all", 48), ("score", 16)]
    # All phases are in turn, and none is of both pools: each works what the other does not.
    assert sum(pool["busy_share"] for pool in pools) == pytest.approx(1)
