"""Answers of the shipped studies, each run once for all tests."""

from collections.abc import Collection, Iterable
from functools import cache
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from netplan.studies.answer import StudyAnswer
from netplan.studies.sessions import study
from tests.points import kept_points

SMALL: dict[str, dict[str, Any]] = {
    "dataflow-design-space": {
        "dimensions": ["ring-ring", "mesh-mesh"],
        "accelerator": ["h100-80gb", "sn30"],
    },
    "placement": {"model": "t-18b", "batch": 64},
    "contention": {"fabric": "fat-tree", "seed": [0, 1, 2, 3, 4]},
    "slow-gpu": {"slow": ["gpu-5=1", "gpu-5=0.5"]},
    "shared-cluster": {"gpus": 512, "count": 60, "load": 0.9, "seed": [0, 1]},
    "topology-design-space": {
        "accelerator": ["a100-80gb", "b200"],
        "accelerator.network_bytes_per_s": 50e9,
    },
    "rail-only-figures": {
        "iteration-model.space.interleave": "whole",
        "iteration-model.overlap.in_flight": "interleaved",
        "accelerator.memory_bytes": 80e9,
    },
    "wafer-parallelism": {"fixed.pipeline": [20, 40]},
    "grayskull": {"fixed.pipeline": [8, 12]},
    "wafer-mapping": {"model": ["t-18b", "t-145b"], "accelerator.sram_bytes": 3.75e6},
}
"""Less of studies that take long; whole ones run with the slow tests."""

LONG = {
    *(
        "4d-fig-a4",
        "clusters",
        "grayskull",
        "hb-size",
        "memory-expansion",
        "memory-vs-bandwidth",
        "prefill-decode-split",
        "radix-and-size",
    ),
    *("rail-only-figures", "serving", "speculative-decoding", "wafer-mapping"),
}
"""Studies of seconds that less of would not be: tests of them are slow ones."""


def marked(names: Iterable[str], slow: Collection[str] = LONG) -> list[ParameterSet]:
    """Names of studies as cases of a test, of which long ones are slow."""
    return [pytest.param(name, marks=[pytest.mark.slow] if name in slow else []) for name in names]


@cache
def shipped(name: str) -> StudyAnswer:
    """The answer of a shipped study, run once."""
    with kept_points():
        return study(name, vary=SMALL.get(name))
