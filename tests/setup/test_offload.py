"""``--offload`` and ``--memory-policy``: in every question about plans, by hand, refused."""

import json
from typing import Any

import pytest

import netplan as toolkit
from netplan.reports.schema import plain_data
from tests.cli.command import netplan, refused

HOST = {
    "accelerator.expanded_bytes": "480e9",
    "accelerator.expanded_bytes_per_s": "64e9",  # PCIe 5.0 x16, one way
    "accelerator.expanded_latency_s": "2e-6",
}
RUN: dict[str, Any] = {"gpus": 64, "hb_size": 8, "accelerator": "h100-80gb", "model": "gpt-22b"}
RUN |= {"batch": 256, "overrides": HOST}
FIXED = {"tensor": 4, "pipeline": 2, "data": 8, "microbatch": 1}


def test_states_in_the_memory_of_the_host_by_hand() -> None:
    """Of 28 bytes a parameter the 24 of states cross the link; the rest is no part of the model."""
    plain, out = (
        toolkit.search("rail-only-paper", **RUN, fixed=FIXED, offload=one)
        for one in ((), ("optimizer",))
    )
    states = out.found.best.memory_parts_bytes["optimizer"]
    more_s = states / 12 * 24 * (1 / 64e9 - 1 / 3.35e12) + 2e-6
    assert out.found.best.breakdown_s["update"] == pytest.approx(more_s, rel=1e-9)
    assert out.found.time_s == pytest.approx(plain.found.time_s + more_s, rel=1e-12)
    assert out.found.best.memory_tiers_bytes is not None
    assert out.found.best.memory_tiers_bytes["optimizer"] == {"local": 0.0, "expanded": states}


@pytest.mark.parametrize(
    "asked",
    [
        {"offload": ("optimizer",)},
        {"offload": ("activations", "weights"), "zero_stage": 3},
        {"memory_policy": "uniform", "gpus": 16, "recompute": "none"},
        {"offload": ("gradients", "optimizer"), "zero_stage": 2, "experts": 4},
    ],
)
def test_questions_agree_on_one_run(asked: dict[str, Any]) -> None:
    asked = RUN | asked
    best = toolkit.search("rail-only-paper", **asked, radix=64, fabric="rail-optimized").found
    compared = toolkit.compare(
        "rail-only-paper", **asked, radix=64, fabrics=("rail-optimized",)
    ).to_dict()
    (row,) = compared["fabrics"]
    assert row["iteration_time_s"] == best.time_s
    optimal = toolkit.optimize(
        "rail-only-paper",
        **{name: one for name, one in asked.items() if name != "hb_size"},
        fabrics=("rail-optimized",),
        hb_sizes=(8,),
        radices=(64,),
    ).to_dict()
    assert optimal["front"][-1]["iteration_time_s"] == pytest.approx(best.time_s, rel=1e-12)
    alone = toolkit.simulate(
        "rail-only-paper", **asked, radix=64, fabric="rail-optimized", contention=False
    )
    assert alone.found.analytic_time_s == pytest.approx(best.time_s, rel=1e-12)
    ran = alone.found.iteration_time_s
    assert ran == pytest.approx(best.time_s, rel=0.05)  # the order of passes is not the closed form
    for ask in (toolkit.traffic, toolkit.loads):
        told = ask("rail-only-paper", **asked, radix=64, fabric="rail-optimized").to_dict()
        assert told["plan"] == plain_data(best.best.plan)


def test_inputs_say_what_lies_there() -> None:
    """That of the iteration model where nothing is asked for."""
    words = [
        "search",
        "rail-only-paper",
        "--gpus",
        "64",
        "--model",
        "gpt-22b",
        "--top",
        "1",
        "--format",
        "json",
    ]
    words += [f"--set={name}={value}" for name, value in HOST.items()]

    def inputs(*more: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(netplan(*words, *more).stdout)["inputs"]
        return found

    assert inputs()["offload"] == []
    assert inputs()["memory_policy"] == "states-first"
    assert inputs("--offload", "weights", "--offload", "optimizer")["offload"] == [
        "weights",
        "optimizer",
    ]
    assert inputs("--memory-policy", "uniform")["memory_policy"] == "uniform"
    fit = inputs("--iteration-model", "comet-fit", "--accelerator", "a100-comet")
    assert fit["memory_policy"] == "uniform"


TIERED = tuple(f"--set={name}={value}" for name, value in HOST.items())


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--offload", "optimizer"), "needs an expanded memory, and gh200-96gb has none"),
        (("--memory-policy", "uniform"), "--memory-policy uniform needs an expanded memory"),
        ((*TIERED, "--offload", "weights", "--memory-policy", "uniform"), "all parts spill alike"),
        (
            (*TIERED, "--offload", "weights", "--iteration-model", "comet-fit"),
            "or take --memory-policy states-first",
        ),
        ((*TIERED, "--offload", "weights", "--model", "hpl-5m"), "means nothing for hpl-5m"),
        ((*TIERED, "--offload", "buffers"), "'buffers' is not one of"),
        (("--set=accelerator.expanded_bytes=1e9",), "without expanded_bytes_per_s"),
        (("--set=accelerator.expanded_bytes=-1",), "expanded_bytes"),
        (
            ("--model", "gpt-1t", *TIERED[1:], "--set=accelerator.expanded_bytes=1e9"),
            "more than the 97 GB (96 GB and 1 GB expanded) there are",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(words: tuple[str, ...], told: str) -> None:
    assert told in refused("search", "rail-only-paper", "--gpus", "64", *words)


def test_a_design_without_expanded_memory_stands_beside_one_that_offloads() -> None:
    found = toolkit.compare(
        "rail-only-paper",
        gpus=64,
        radix=64,
        accelerator="h100-80gb",
        model="gpt-22b",
        fabrics=("rail-only",),
        expanded_memories=("none", "cxl-256gb"),
        offload=("optimizer",),
    ).to_dict()
    without, behind = found["fabrics"]
    assert without["iteration_time_s"] < behind["iteration_time_s"]
    plain = toolkit.compare(
        "rail-only-paper",
        gpus=64,
        radix=64,
        accelerator="h100-80gb",
        model="gpt-22b",
        fabrics=("rail-only",),
    ).to_dict()
    assert without["iteration_time_s"] == plain["fabrics"][0]["iteration_time_s"]
