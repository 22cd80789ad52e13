"""Every command answers about a scenario of post-training, or refuses it in one clear line."""

from pathlib import Path

import pytest

from tests.cli.command import netplan

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
