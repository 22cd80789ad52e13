"""Answers of the shipped studies, each run once a process."""

from functools import cache
from typing import Any

from netplan.studies.answer import StudyAnswer
from netplan.studies.sessions import study

SMALL: dict[str, dict[str, Any]] = {
    "dataflow-design-space": {
        "dimensions": ["ring-ring", "mesh-mesh"],
        "accelerator": ["h100-80gb", "sn30"],
    },
    "placement": {"model": "t-18b", "batch": 64},
    "contention": {"fabric": "fat-tree", "seed": [0, 1, 2, 3, 4]},
    "topology-design-space": {
        "accelerator": ["a100-80gb", "b200"],
        "accelerator.network_bytes_per_s": 50e9,
    },
    "wafer-parallelism": {"fixed.pipeline": [20, 40]},
}
"""Less of studies that take long; whole ones run with the slow tests."""


@cache
def shipped(name: str) -> StudyAnswer:
    """The answer of a shipped study, run once."""
    return study(name, vary=SMALL.get(name))
