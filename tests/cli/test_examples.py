"""The examples of the help: all run, and the two that every help shows fit on its screen."""

import shlex
from pathlib import Path

import pytest

from docs.generators.commands import questions
from netplan.topologies.cabling.rehearsal import find_tools
from tests.cli.command import netplan
from tests.cli.test_pages import FILES, OFFERS, lay_offers

EXAMPLES = [example for question in questions().values() for example in question.examples]
SMALLER = {
    "--gpus 4096 --search graphs --tries 8": "--gpus 512 --model llama-3-8b --search graphs",
    "faults hgx-h100 --gpus 4096": "faults hgx-h100 --gpus 512 --model llama-3-8b"
    " --fabric rail-only --years 20",
    "--draws 20": "--draws 5",
    "jobs shared-cluster-h100": "jobs shared-cluster-h100 --count 100 --draws 1",
    "jobs hgx-h100 --gpus 1024": "jobs hgx-h100 --gpus 256 --count 100 --draws 1",
    "jobs nvl72-gb200 --gpus 4608": "jobs nvl72-gb200 --gpus 576 --count 100 --draws 1",
    "jobs tpu-v7 --gpus 4096": "jobs tpu-v7 --gpus 512 --count 100 --draws 1",
    "--b fabric=rail-only --goodput": "--b fabric=rail-only --goodput --gpus 512"
    " --model llama-3-8b",
    "qm9700 --to ufm-infiniband": "qm9700 --gpus 512 --to ufm-infiniband",
    "--model gpt-146b --draws 5": "--model gpt-22b --draws 2",
    "--accelerator b200 --nic 400": "--accelerator b200 --gpus 512 --model llama-3-8b --nic 400",
    "report procurement --accelerator h200": "report procurement --gpus 512 --accelerator h200",
    "simulate hgx-h100 --gpus 1024": "simulate hgx-h100 --gpus 256",
    "--gpus 16384 --model llama-3-405b": "--gpus 512 --model llama-3-8b",
}
"""What is asked of less, so that none of them takes seconds."""
BEFORE = {
    "--compare plan.csv fabric.ibnetdiscover": (
        "netplan cables --gpus 8 --radix 8 --hb-size 4 -o plan.csv",
        "netplan export --gpus 8 --radix 8 --hb-size 4 --to ibnetdiscover -o fabric.ibnetdiscover",
    ),
    "--graph fabric.graphml": (
        "netplan export --gpus 16 --radix 8 --hb-size 4 --to graphml -o fabric.graphml",
        "netplan traffic hgx-h100 --gpus 16 --hb-size 4 --model llama-3-8b --save matrix.npz",
    ),
    "netplan audit cables.xlsx": ("netplan cables --gpus 8 --radix 8 -o cables.xlsx",),
    "netplan audit fabric.graphml": (
        "netplan export --gpus 16 --radix 8 --hb-size 4 --to graphml -o fabric.graphml",
    ),
}
LONG = ("study run", "calibrate")
"""Tested where their subject is."""


def run(line: str, folder: Path) -> None:
    """Run one command; what it has found is no failure."""
    done = netplan(*shlex.split(line)[1:], cwd=folder)
    assert done.returncode in ((0, 1) if "audit" in line or "--compare" in line else (0,)), (
        done.stderr
    )


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_runs(example: str, tmp_path: Path) -> None:
    if example.removeprefix("netplan ").startswith(LONG):
        pytest.skip("tested where its subject is")
    if "--rehearse" in example and find_tools() is None:
        pytest.skip("needs opensm, ibsim and ibnetdiscover")
    for name, text in {**FILES, "mine.yaml": "cluster: {gpus: 64}\n"}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    if example.startswith("netplan offers a.xlsx"):
        lay_offers(OFFERS, tmp_path)
    for part, lines in BEFORE.items():
        for line in lines if part in example else ():
            run(line, tmp_path)
    for part, less in SMALLER.items():
        example = example.replace(part, less)
    run(example, tmp_path)


def test_the_first_two_examples_stand_on_scenarios() -> None:
    """No flag says again what a scenario has said."""
    said_again = ("--accelerator", "--prices")
    for name, question in questions().items():
        if not question.reads or name == "study run":
            continue
        first = question.examples[:2]
        assert len(first) == 2, name
        assert max(map(len, first)) <= 76, first
        assert not [one for one in first if any(word in one for word in said_again)], first
