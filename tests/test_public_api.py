"""The few names that a notebook needs, and what their answers offer."""

import json
from types import ModuleType
from typing import Any

import pytest

import netplan

QUESTIONS: dict[str, dict[str, Any]] = {
    "compare": {
        "scenario": "rail-only-paper",
        "gpus": 512,
        "radix": 32,
        "fabrics": ("rail-only",),
        "model": "gpt-22b",
    },
    "optimize": {
        "scenario": "rail-only-paper",
        "radices": (64, 128),
        "gpus": 512,
        "fabrics": ("rail-only",),
        "model": "gpt-22b",
    },
    "search": {
        "scenario": "rail-only-paper",
        "gpus": 512,
        "accelerator": "b200",
        "model": "gpt-22b",
        "batch": 512,
    },
    "training_traffic": {
        "scenario": "rail-only-paper",
        "gpus": 512,
        "hb_size": 8,
        "model": "gpt-22b",
        "batch": 512,
    },
    "collective": {
        "scenario": "hgx-h100",
        "kind": "all_gather",
        "gpus": 64,
        "message_bytes": 2**20,
    },
    "loads": {
        "scenario": "rail-only-paper",
        "gpus": 512,
        "hb_size": 8,
        "model": "gpt-22b",
        "batch": 512,
    },
    "simulate": {
        "scenario": "rail-only-paper",
        "gpus": 64,
        "hb_size": 8,
        "model": "gpt-22b",
        "batch": 64,
    },
    "cost": {"scenario": "rail-only-paper", "gpus": 512, "radix": 32, "fabrics": ("rail-only",)},
    "offers": {"scenario": "rail-only-paper", "gpus": 512, "radix": 32, "fabrics": ("rail-only",)},
    "grow": {"scenario": "rail-only-paper", "phases": (128, 512), "radix": 32},
    "cables": {
        "scenario": "rail-only-paper",
        "fabric": "rail-only",
        "gpus": 64,
        "radix": 16,
        "hb_size": 8,
    },
    "export": {
        "scenario": "rail-only-paper",
        "fabric": "rail-only",
        "to": "dot",
        "gpus": 64,
        "radix": 8,
        "hb_size": 8,
    },
    "calibrate": {"accelerator": "h100-80gb", "gemm": "examples/own-cluster/gemm.csv"},
    "verify": {"only": "Table 2"},
}


def test_every_public_name_is_a_function() -> None:
    for name in set(netplan.__all__) - {"__version__"}:
        value = getattr(netplan, name)
        assert callable(value), name
        assert not isinstance(value, ModuleType), name


def test_unknown_names_are_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'comparison'"):
        netplan.comparison  # noqa: B018


@pytest.mark.parametrize("name", list(QUESTIONS))
def test_answers_become_json_frames_and_html(name: str) -> None:
    answer = getattr(netplan, name)(**QUESTIONS[name])
    assert json.loads(json.dumps(answer.to_dict())) == answer.to_dict()
    assert len(answer.to_frame()) >= 1
    assert "<" in answer._repr_html_()


def test_links_of_an_exported_fabric_are_rows() -> None:
    asked: dict[str, Any] = {"gpus": 64, "radix": 16, "hb_size": 8, "fabric": "rail-optimized"}
    frame = netplan.export("rail-only-paper", to="dot", **asked).to_frame()
    # Each GPU has a link into its HB domain, one to a leaf, and as many lead from leaves up.
    assert frame.groupby("group").size().to_dict() == {"hb": 64, "host": 64, "leaf-spine": 64}
    lines = list(netplan.export("rail-only-paper", to="edges", **asked).lines())
    assert ",".join(frame.columns) + "\n" == lines[0]
    assert [",".join(map(str, row)) + "\n" for row in frame.values.tolist()] == lines[1:]
    assert netplan.export("rail-only-paper", to="astra-sim", **asked).to_frame().shape[1] == 1
