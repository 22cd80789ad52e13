"""What holds for any question: better parts never slow, dearer never save, traffic is kept."""

import os
import subprocess
import sys
from collections.abc import Sequence
from math import inf
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import netplan
from netplan.errors import NetplanError
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.specs import FABRICS
from netplan.traffic.matrix import flows_matrix
from netplan.traffic.routing import link_loads
from tests.cli.command import variables

QUESTIONS = 40
ENOUGH = 1024
"""GPUs that hold any of the models in question [1]."""

BETTER = (
    *("memory_bytes", "memory_bytes_per_s", "tensor_flops_per_s", "vector_flops_per_s"),
    *("hb_bytes_per_s", "network_bytes_per_s"),
)
ACCELERATOR = {
    "memory_bytes": 80e9,
    "memory_bytes_per_s": 3.35e12,
    "tensor_flops_per_s": 989.4e12,
    "vector_flops_per_s": 133.8e12,
    "hb_bytes_per_s": 450e9,
    "network_bytes_per_s": 50e9,
}


def question(rng: Random) -> dict[str, Any]:
    """A question about one training run."""
    return {
        "gpus": 2 ** rng.randint(5, 11),
        "hb_size": 2 ** rng.randint(0, 5),
        "accelerator": "h100-80gb",
        "model": rng.choice(["gpt-22b", "gpt-175b", "llama-3-70b"]),
        "batch": 2 ** rng.randint(6, 11),
        "fabric": rng.choice(["rail-optimized", "rail-only", "fat-tree", "torus-2d", "torus-3d"]),
        "iteration_model": rng.choice(["4d", "ptd-p"]),
        "oversubscription": rng.choice([None, 2.0]),
        "top": 1,
    }


def seconds(asked: dict[str, Any], **overrides: float) -> float:
    """Iteration time of the best plan; infinite if there is none."""
    texts = {f"accelerator.{key}": str(value) for key, value in overrides.items()}
    try:
        plans = netplan.search("rail-only-paper", **asked, overrides=texts).to_dict()["plans"]
        return float(plans[0]["iteration_time_s"])
    except NetplanError:
        return inf


@pytest.mark.parametrize("seed", range(QUESTIONS))
def test_better_parts_never_slow(seed: int) -> None:
    rng = Random(seed)
    asked, part = question(rng), rng.choice(BETTER)
    better = ACCELERATOR[part] * rng.uniform(1.01, 8)
    before = seconds(asked)
    assert seconds(asked, **{part: better}) <= before * (1 + 1e-9), (asked, part)
    assert before < inf or asked["gpus"] < ENOUGH, asked


@pytest.mark.parametrize("seed", range(QUESTIONS // 2))
def test_larger_hb_domains_never_slow(seed: int) -> None:
    asked = question(Random(f"hb {seed}")) | {"fabric": "rail-optimized", "oversubscription": None}
    doubled = asked | {"hb_size": 2 * asked["hb_size"]}
    assert seconds(doubled) <= seconds(asked) * (1 + 1e-9), asked


PARTS = (
    "64x400g@400",
    "128x400g@400",
    "switch_port@400",
    "transceiver@400",
    "copper_cable@400",
    "nic_port@400",
)


@pytest.mark.parametrize("seed", range(QUESTIONS // 2))
def test_dearer_parts_never_save(seed: int) -> None:
    rng = Random(f"cost {seed}")
    asked: dict[str, Any] = {
        "gpus": 8 * rng.randint(2, 256),
        "radix": rng.choice([32, 64, 128]),
        "hb_size": rng.choice([1, 4, 8]),
        "accelerator": "h100-80gb",
        "prices": "2026",
        "fabrics": (rng.choice(["rail-optimized", "rail-only", "fat-tree", "dragonfly"]),),
    }
    part = rng.choice(PARTS)

    def price(factor: float) -> float:
        texts = {}
        for end, share in (("low", 0.9), ("base", 1.0), ("high", 1.1)):
            texts[f"prices.prices.{part}.{end}"] = str(1000 * factor * share)
        found = netplan.cost("rail-only-paper", **asked, overrides=texts).to_dict()["fabrics"][0]
        return float(found["cost"]["base"])

    assert price(1.0) <= price(1.5) <= price(4.0)


@pytest.mark.parametrize("seed", range(QUESTIONS))
def test_links_keep_the_traffic(seed: int) -> None:
    """What a node sends more than it gets is what its GPU sends more than it gets."""
    rng = Random(f"loads {seed}")
    spec = FABRICS.load(rng.choice(["rail-optimized", "rail-only", "fat-tree", "torus-2d"]))
    hb_size = rng.choice([1, 2, 4])
    gpus = hb_size * rng.randint(4, 24)
    try:
        graph = expand(
            spec, Sizing(gpus, 8, hb_size, hb_bytes_per_s=4e11, network_bytes_per_s=5e10)
        )
    except NetplanError:
        pytest.skip("no such size")
    ends = [rng.sample(range(gpus), 2) for _ in range(100)]
    source, destination = np.array(ends).T
    amount = np.array([rng.uniform(0, 1e9) for _ in ends])
    matrix = flows_matrix(gpus, source=source, destination=destination, flow_bytes=amount)
    there, back = link_loads(graph, matrix).link_bytes
    net = np.bincount(graph.source, there - back, graph.node_count)
    net -= np.bincount(graph.target, there - back, graph.node_count)
    wanted = np.zeros(graph.node_count)
    wanted[:gpus] = np.bincount(source, amount, gpus) - np.bincount(destination, amount, gpus)
    np.testing.assert_allclose(net, wanted, atol=1.0)


SMALL = ("--gpus", "64", "--radix", "8", "--hb-size", "8")
ASKED = (
    ("compare", "rail-only-paper", "--gpus", "1024", "--radix", "64", "--format", "json"),
    (
        "cost",
        "rail-only-paper",
        "--gpus",
        "96",
        "--radix",
        "16",
        "--hb-size",
        "8",
        "--prices",
        "2026",
    ),
    ("loads", "rail-only-paper", *SMALL, "--model", "gpt-22b", "--batch", "64"),
    ("faults", "rail-only-paper", *SMALL, "--fail", "links=2", "--years", "9"),
    ("search", "rail-only-paper", "--gpus", "256", "--model", "gpt-22b", "--format", "csv"),
    ("export", "rail-only-paper", "--fabric", "rail-only", *SMALL, "--to", "dot"),
    ("cables", "rail-only-paper", "--fabric", "rail-only", *SMALL),
    (
        "optimize",
        "rail-only-paper",
        "--radix",
        "64",
        "--radix",
        "128",
        "--gpus",
        "256",
        "--fabric",
        "fat-tree",
        "--model",
        "gpt-22b",
    ),
    ("report", "procurement", "rail-only-paper", "--prices", "2026", *SMALL, "--format", "json"),
)
SURROUNDINGS: tuple[dict[str, str], ...] = (
    {"PYTHONHASHSEED": "1", "TZ": "UTC", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    {"PYTHONHASHSEED": "2", "TZ": "Asia/Kathmandu", "OMP_NUM_THREADS": "2", "LC_ALL": "C"},
)


OLDEST_NUMPY = "numpy==1.26.4"


def printed(path: Sequence[str], **more: str) -> bytes:
    """What all questions print in one process that finds its packages on a path."""
    script = "from netplan.cli.main import run\n" + "".join(f"run({one!r})\n" for one in ASKED)
    return subprocess.run(
        [sys.executable, "-c", script],
        env=variables(80, PYTHONPATH=os.pathsep.join(filter(None, path)), **more),
        stdout=subprocess.PIPE,
        check=True,
    ).stdout


@pytest.mark.slow
def test_the_same_bytes_whatever_surrounds() -> None:
    answers = {printed(sys.path, **more) for more in SURROUNDINGS}
    (answer,) = answers
    assert len(answer) > 50_000


@pytest.mark.slow
def test_the_same_bytes_with_the_oldest_numpy(tmp_path: Path) -> None:
    """Of a numpy that is three years older; scipy and pandas as they are."""
    pip = [sys.executable, "-m", "pip", "install", "-q", "--target", str(tmp_path), OLDEST_NUMPY]
    if subprocess.run(pip, capture_output=True, check=False).returncode:
        pytest.skip(f"no {OLDEST_NUMPY} for this Python, or no index of packages")
    assert printed([str(tmp_path), *sys.path]) == printed(sys.path)
