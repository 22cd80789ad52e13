"""Memory as training software keeps it: inputs that are refused, in one line, and plans too large.

By command line, Python and scenario file alike.
"""

import json
import re
from pathlib import Path

import pytest

import netplan as package
from netplan.catalog import shipped_root
from netplan.errors import InputError
from tests.cli.command import netplan

SMALL = ("search", "hgx-h100", "--gpus", "512")
HOST = ("--set", "accelerator.host_bytes_per_s=64e9")
MIXTRAL = ("--model", "mixtral-8x7b")
FIXED = ("--fix=tensor=4", "--fix=pipeline=8", "--fix=interleave=1", "--fix=context=1")

REFUSED = [
    (("--recompute", "foo"), "unknown 'foo': use auto, none, half, full, block:K, or names"),
    (("--recompute", "full+mlp"), "full stands alone, .* (full supersedes modules)"),
    (("--recompute", "mlp+block:3"), "block:3 stands alone"),
    (("--recompute", "block:x"), "block takes a number of layers from 1 on"),
    (("--recompute", "block:127"), "a stage has 126 layers: give block:1 to block:126"),
    (
        ("--recompute", "block:9", "--fix", "pipeline=16"),
        "a stage has 8 layers: give block:1 to block:8, or full",
    ),
    (("--recompute", "moe_act"), "llama-3-405b has no experts"),
    (("--recompute", "shared_experts"), "llama-3-405b has no experts"),
    (("--recompute", "mla_up_proj"), "llama-3-405b has no latent attention"),
    (("--recompute", "layernorm"), "it frees nothing in llama-3-405b"),
    (("--recompute", "sac-op"), "software of torch (FSDP) alone has it"),
    (
        (*MIXTRAL, "--recompute", "moe_act", "--precision", "fp8-delayed"),
        "software with delayed scaling of fp8 keeps its input: use none, full",
    ),
    (("--recompute", "mlp", "--iteration-model", "4d"), "has no --recompute mlp: take auto"),
    (("--precision", "fp16"), "use bf16, fp8, fp8-current, fp8-cs, fp8-delayed, mxfp8, nvfp4"),
    (("--precision", "int4"), "use bf16, fp8, fp8-current, fp8-cs, fp8-delayed, mxfp8, nvfp4"),
    (("--precision", "mxfp4"), "use bf16, fp8, fp8-current, fp8-cs, fp8-delayed, mxfp8, nvfp4"),
    (("--offload", "activations:3"), "h100-80gb says no link to the host's memory"),
    (("--offload", "optimizer:0.5"), "h100-80gb says no link to the host's memory"),
    (("--offload", "optimizer:2"), "a share is from 0 to 1"),
    (("--offload", "optimizer:0.5", "--offload", "optimizer:1"), "'optimizer' stands twice"),
    (("--offload", "activations", "--offload", "activations:3"), "'activations' stands twice"),
    (("--offload", "buffers"), "'buffers' is not one of optimizer, gradients, weights, act"),
    (("--offload", "weights:3"), "write activations:K (layers) or optimizer:F"),
    (
        ("--offload", "activations:3", "--fix", "pipeline=4", *HOST),
        "with 4 pipeline stages no activations are offloaded, .*: fix pipeline=1",
    ),
    (("--offload", "activations:3", "--recompute", "full", *HOST), "with --recompute full no act"),
    (("--offload", "activations:126", *HOST), "llama-3-405b has 126 layers: give 0 to 125"),
    (("--offload", "optimizer:0.5", "--iteration-model", "4d"), "take --memory stack under"),
    (("--offload", "activations:3", "--memory", "model"), "take --memory stack under"),
    (("--imbalance", "0.5"), "imbalance: got 0.5: give .*, from 1 on"),
    (
        (*MIXTRAL, "--imbalance", "inf"),
        "--imbalance inf: .*, whose tokens visit 2 of 8 experts, .*: give 1 to 4",
    ),
    (
        (*MIXTRAL, "--fix", "expert=3"),
        "--fix expert=3: 8 experts cannot be spread evenly over 3 GPUs",
    ),
    (
        (*MIXTRAL, "--expert-degree", "3"),
        "--expert-degree 3: 8 experts cannot be spread evenly over 3 GPUs",
    ),
    (
        (*MIXTRAL, "--fix", "expert_tensor=1", "--iteration-model", "measured"),
        "--fix expert_tensor=1: this iteration model times experts that are cut over all tensor",
    ),
    (
        (*MIXTRAL, "--fix", "expert_tensor=2", "--fix", "tensor=4"),
        "an expert is whole, or cut as the rest of its layer: give 1 or tensor, 4",
    ),
    (("--fix", "expert_tensor=2"), "llama-3-405b has no experts: leave it out"),
    (("--set", "accelerator.usable_bytes=100e9"), "more than 1.08 x memory_bytes"),
    (("--set", "accelerator.memory_software=mine"), "memory_software: got 'mine': use megatron,"),
    *(
        (("--memory", "stack", "--iteration-model", name), f"{name} has a memory of its own")
        for name in ("4d", "ptd-p", "comet")
    ),
    (("--expanded-memory", "comet-480gb"), "take --memory model, or leave the expanded memory out"),
    (("--use-per-domain", "0"), "give a whole number from 1 on, or auto"),
    (("--use-per-domain", "x"), "give a whole number from 1 on, or auto"),
    (("--use-per-domain", "80"), "an HB domain has 8 GPUs: give 1 to 8, or auto"),
    (("--use-per-domain", "4", "--space", "model"), "plans of --space model .* use all GPUs"),
]


@pytest.mark.parametrize(("words", "message"), REFUSED, ids=lambda given: "-".join(given)[:60])
def test_one_line_says_what_is_wrong_and_what_to_do(words: tuple[str, ...], message: str) -> None:
    done = netplan(*SMALL, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert re.search(message.replace("(", r"\(").replace(")", r"\)"), done.stderr), done.stderr


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"recompute": "foo"}, "unknown 'foo'"),
        ({"precision": "fp16"}, "use bf16, fp8"),
        ({"imbalance": 0.5}, "from 1 on"),
        ({"use_per_domain": 0}, "from 1 on, or auto"),
        ({"use_per_domain": 80}, "give 1 to 8"),
        ({"offload": ["x:3"]}, "write activations:K"),
        ({"fixed": {"expert_tensor": 2}}, "has no experts"),
    ],
)
def test_python_refuses_the_same(values: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        package.search("hgx-h100", gpus=512, **values)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("recompute: half+mlp", "half stands alone"),
        ("precision: int4", "'bf16', 'fp8'"),
        ("memory: {imbalance: 0.5}", "greater than or equal to 1"),
        ("use_per_domain: 80", "give 1 to 8, or auto"),
        ("fixed: {expert_tensor: 2}", "has no experts"),
        ("memory: {memory_model: stack}\n  iteration_model: 4d", "a memory of its own"),
    ],
)
def test_a_scenario_refuses_the_same(tmp_path: Path, line: str, message: str) -> None:
    shipped = shipped_root() / "topologies" / "scenarios" / "hgx-h100.yaml"
    lines = [text for text in shipped.read_text("utf-8").splitlines() if "memory" not in text]
    path = tmp_path / "mine.yaml"
    path.write_text("\n".join([*lines, f"  {line}", ""]), "utf-8")
    done = netplan("search", str(path), "--gpus", "512")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert message in done.stderr


def test_names_of_precisions_that_mean_the_same(tmp_path: Path) -> None:
    times = {
        name: package.search("hgx-h100", gpus=512, precision=name).best.iteration_time_s
        for name in ("fp8", "fp8-current", "fp8-cs")
    }
    assert len({*times.values()}) == 1
    shipped = shipped_root() / "topologies" / "scenarios" / "hgx-h100.yaml"
    path = tmp_path / "mine.yaml"
    path.write_text(f"{shipped.read_text('utf-8')}  precision: fp8-cs\n", "utf-8")
    assert package.search(path, gpus=512).best.iteration_time_s == times["fp8"]


def test_a_plan_that_fits_nowhere_is_told_what_would() -> None:
    """On TP4 PP8 the first stage holds 8 microbatches of 15 layers."""
    words = ("search", "hgx-h100", "--gpus", "2048", *FIXED)
    done = netplan(*words, "--recompute", "none", "--zero", "1")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "netplan: llama-3-405b fits on no plan: of TP4 PP8 DP64 stage 0 of 8 needs 182 GB of 84.9"
        " (states 52.3, activations 129: 8 microbatches of 15 layers). Smallest change that fits:"
        " --recompute block:14\n"
    )
    assert netplan(*words, "--recompute", "block:14", "--zero", "1").returncode == 0
    less = netplan(*words, "--recompute", "block:13", "--zero", "1", "--format", "json")
    assert '"verdict": "fit"' not in less.stdout


def test_degrees_that_fit_nowhere_need_another_zero_stage_or_other_degrees() -> None:
    done = netplan(*SMALL, "--fix", "tensor=4", "--fix", "pipeline=2")
    assert done.stderr.endswith("Smallest change that fits: --zero 3\n")
    done = netplan("search", "hgx-h100", "--gpus", "32", "--fix", "tensor=8")
    assert "use more GPUs, or a GPU with more memory" in done.stderr


def test_a_block_is_no_larger_than_a_stage() -> None:
    """Of 126 layers 90 lie on one stage alone."""
    found = package.search("hgx-h100", gpus=512, recompute="block:30", top=9).found
    assert {-(-126 // timed.plan.pipeline) >= 30 for timed in found.plans} == {True}


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("recompute", "none", "block:2"),
        ("zero", "1", "3"),
        ("memory", "stack", "model"),
        ("use_per_domain", "4", "auto"),
        ("precision", "bf16", "fp8-cs"),
        ("imbalance", "1", "1.5"),
        ("offload", "optimizer:0.25", "optimizer:0.5"),
    ],
)
def test_two_values_lie_side_by_side(name: str, first: str, second: str) -> None:
    words = ("--gpus", "512", "--a", f"{name}={first}", "--b", f"{name}={second}")
    model = ("--model", "mixtral-8x7b") if name == "imbalance" else ()
    done = netplan("diff", "hgx-h100", *words, *model, *HOST)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Iteration" in done.stdout
    assert "('" not in done.stdout


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("recompute", "[none, full, 'block:2', auto]"),
        ("zero_stage", "[1, 2, 3]"),
        ("use_per_domain", "[4, 8, auto]"),
        ("precision", "[bf16, fp8-current, fp8-delayed]"),
    ],
)
def test_a_study_varies_what_is_kept(tmp_path: Path, name: str, values: str) -> None:
    (tmp_path / "kept.yaml").write_text(
        "name: kept\ntitle: What plans keep\nsource: ours\ndate: '2026'\nask: search\n"
        "scenario: hgx-h100\ninputs: {gpus: 512}\n"
        f"axes:\n  - {{input: {name}, values: {values}}}\n"
        "outputs: [iteration_time_s, memory_bytes]\n"
        f"charts:\n  - {{kind: lines, title: Time, x: {name}, y: iteration_time_s}}\n",
        "utf-8",
    )
    done = netplan("study", "run", "kept.yaml", "-o", "kept.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    _, *rows = (tmp_path / "kept.csv").read_text("utf-8").splitlines()
    assert [row.rpartition(",")[2] for row in rows] == ["ok"] * len(rows)


def test_a_file_of_init_has_what_is_kept(tmp_path: Path) -> None:
    given = ("recompute=block:2", "precision=fp8-cs", "use_per_domain=4", "memory=stack", "zero=1")
    words = [word for value in given for word in ("--set", value)]
    path = tmp_path / "mine.yaml"
    assert netplan("init", "hgx-h100", *words, "-o", str(path)).returncode == 0
    done = netplan("search", str(path), "--gpus", "512", "--format", "json")
    assert done.returncode == 0, done.stderr
    inputs = json.loads(done.stdout)["inputs"]
    kept = ("recompute", "precision", "use_per_domain", "memory_model", "zero_stage")
    assert [inputs[name] for name in kept] == ["block:2", "fp8", 4, "stack", 1]
    assert netplan("init", "hgx-h100", "--set", "recompute=foo").returncode == 2


@pytest.mark.parametrize(
    "command", ["search", "compare", "loads", "traffic", "simulate", "faults", "optimize"]
)
@pytest.mark.parametrize(
    "words",
    [
        ("--recompute", "moe_act"),
        ("--use-per-domain", "80"),
        ("--offload", "activations:3"),
        ("--expanded-memory", "comet-480gb"),
        ("--memory", "stack", "--iteration-model", "4d"),
    ],
)
def test_every_question_about_training_refuses_the_same(
    command: str, words: tuple[str, ...]
) -> None:
    done = netplan(command, "hgx-h100", "--gpus", "64", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1


def test_failures_count_with_an_expanded_memory() -> None:
    words = ["faults", "hgx-h100", "--gpus", "64", "--iteration-model", "4d", "--model", "gpt-175b"]
    words += ["--fabric", "rail-only", "--format", "json"]
    rows = [
        json.loads(netplan(*words, *more).stdout)["fabrics"][0]
        for more in ((), ("--expanded-memory", "comet-480gb"))
    ]
    assert rows[1]["iteration_time_s"] < rows[0]["iteration_time_s"]


def test_compare_says_that_no_plan_is_sure_to_fit() -> None:
    """Llama 3 70B on 16 GPUs: 93 GB of 85 with nothing computed again, 0.88 times that fits."""
    small = ("compare", "hgx-h100", "--model", "llama-3-70b", "--gpus", "16", "--batch", "128")
    fixed = (*small, "--fix=tensor=8", "--fix=pipeline=2", "--fix=interleave=1")
    tight = " ".join(netplan(*fixed, "--recompute", "none").stdout.split())
    assert "No plan is sure to fit: 93 GB (82-112) of 85: tight." in tight
    assert "sure to fit" not in netplan(*fixed, "--recompute", "full").stdout


@pytest.mark.parametrize(
    ("given", "least", "advice"),
    [
        ((), "472 GB", "or a GPU with more memory"),
        (("--recompute", "full"), "472 GB", "or a GPU with more memory"),
        (("--recompute", "none"), "482 GB", "or a GPU with more memory"),
        (("--zero", "3"), "475 GB", "or a GPU with more memory"),
    ],
)
def test_where_degrees_are_free_the_nearest_plan_is_named(
    given: tuple[str, ...], least: str, advice: str
) -> None:
    """Not the fastest of all: Qwen3 235B on 8 GPUs with one tensor GPU needs ten times as much."""
    model = ("--model", "qwen3-235b-a22b", "--batch", "64")
    done = netplan("search", "--gpus", "8", "--accelerator", "h200", *model, *given)
    assert done.returncode == 2
    assert f"fits on no plan: the nearest needs {least} a GPU" in done.stderr
    assert advice in done.stderr
