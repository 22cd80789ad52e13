"""Adam and SGD: what they hold and move a parameter, by hand, and who has no optimizer."""

from pathlib import Path
from typing import Any

import pytest

import netplan
from netplan.errors import InputError
from netplan.performance.plan import PlanTime
from netplan.questions.search import Search
from netplan.questions.simulate import Simulate
from netplan.studies.questions import question_inputs

SMALL: dict[str, Any] = {"gpus": 64, "hb_size": 8, "model": "gpt-22b", "batch": 64}
# 48 layers of 12 x 6,144^2 weights in products; biases and norms are a thousandth of that.
WEIGHTS = 48 * 12 * 6144**2
MIXER = Path(__file__).parents[2] / "examples/mixer.yaml"


def best(**inputs: Any) -> PlanTime:  # noqa: ANN401 - inputs of any type
    return Search.make("rail-only-paper", **{**SMALL, **inputs}).ask().found.best


def fixed(tensor: int, data: int, pipeline: int) -> dict[str, int]:
    return {"tensor": tensor, "data": data, "pipeline": pipeline, "microbatch": 1}


@pytest.mark.parametrize(("optimizer", "bytes_"), [("adam", 12), ("sgd", 4)])
@pytest.mark.parametrize("zero", [0, 1])
def test_bytes_a_parameter(optimizer: str, bytes_: int, zero: int) -> None:
    """A stage of 12 layers on 4 GPUs of a tensor group; ZeRO 1 spreads states over 4 replicas."""
    held = best(optimizer=optimizer, zero_stage=zero, fixed=fixed(4, 4, 4)).memory_parts_bytes
    share = WEIGHTS / 16 / (4 if zero else 1)
    assert held["optimizer"] == pytest.approx(bytes_ * share, rel=1e-3)
    assert held["weights"] == held["gradients"] == pytest.approx(2 * WEIGHTS / 16, rel=1e-3)


@pytest.mark.parametrize(("optimizer", "bytes_"), [("adam", 28), ("sgd", 12)])
def test_bytes_that_the_update_moves(optimizer: str, bytes_: int) -> None:
    """The gradient once, states read and written, the weight written: 2 + 2 x 4 + 2 of SGD."""
    asked: dict[str, Any] = {"iteration_model": "comet", "accelerator": "a100-comet"}
    found = best(**asked, optimizer=optimizer, fixed={"tensor": 8, "data": 8})
    parameters = WEIGHTS / 64  # of tensor and, under ZeRO 2, data parallel GPUs
    moved = bytes_ * parameters / 2.039e12  # its memory [B/s]
    assert found.breakdown_s["update"] == pytest.approx(moved, rel=1e-3)


@pytest.mark.parametrize("model", ["4d", "ptd-p", "comet"])
def test_adam_is_what_all_our_models_have(model: str) -> None:
    asked: dict[str, Any] = {"iteration_model": model, "accelerator": "a100-comet"}
    assert best(**asked) == best(**asked, optimizer="adam") != best(**asked, optimizer="sgd")


def test_layers_of_recommendation_models_have_it_and_their_tables_not() -> None:
    adam, sgd = (
        best(model="dlrm-793b", batch=None, gpus=1024, optimizer=one).memory_parts_bytes
        for one in ("adam", "sgd")
    )
    assert adam["optimizer"] == 3 * sgd["optimizer"] > 0
    assert adam["weights"] == sgd["weights"]


def test_less_memory_makes_room_for_plans() -> None:
    adam, sgd = (
        Search.make(
            "rail-only-paper", **SMALL, accelerator="a100-40gb", zero_stage=0, optimizer=one
        )
        .ask()
        .found
        for one in ("adam", "sgd")
    )
    assert sgd.feasible > adam.feasible
    assert sgd.time_s <= adam.time_s


def test_answers_say_which() -> None:
    answer = netplan.search("rail-only-paper", **SMALL, optimizer="sgd")
    assert answer.inputs["optimizer"] == "sgd"
    assert "iteration model 4d, optimizer sgd" in answer.text(80, details=True)
    run = netplan.simulate("rail-only-paper", **SMALL, optimizer="sgd", fixed=fixed(4, 4, 4))
    assert "iteration model 4d, optimizer sgd" in run.text(100, details=True)


def test_every_question_about_training_has_it() -> None:
    for ask in ("search", "compare", "simulate"):
        assert question_inputs(ask)["optimizer"] is None


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"model": "hpl-16k", "batch": None}, "means nothing for hpl-16k, of family linpack"),
        ({"model": "fft-1t", "batch": None}, "means nothing for fft-1t, of family fft"),
        ({"model": str(MIXER), "batch": None}, "for mixer, which has no backward pass: leave it"),
        ({"iteration_model": "comet-fit"}, "the update moves 16 bytes a parameter"),
        ({"overrides": {"4d.overlap.optimizer_bytes": "8"}}, "both say what the optimizer holds"),
        ({"optimizer": "lion"}, "unknown --optimizer 'lion': use adam, sgd"),
    ],
)
def test_refused(inputs: dict[str, Any], message: str) -> None:
    asked: dict[str, Any] = {"optimizer": "sgd", "accelerator": "a100-comet", **inputs}
    with pytest.raises(InputError, match=message):
        best(**asked)


def test_forward_passes_have_none() -> None:
    with pytest.raises(InputError, match="for --inference, which updates nothing: leave it out"):
        Simulate.make("rail-only-paper", **SMALL, inference=True, optimizer="sgd")


def test_the_published_mode_has_adam() -> None:
    asked: dict[str, Any] = {
        "gpus": 16,
        "fabric": "palm-gpu",
        "accelerator": "palm-a100",
        "model": "t-18b",
        "mode": "published-code",
        "fixed": {"tensor": 8, "pipeline": 2},
    }
    with pytest.raises(InputError, match="palm counts Adam's update, as published: leave"):
        netplan.simulate("rail-only-paper", **asked, optimizer="sgd")
    plain, adam = (
        netplan.simulate("rail-only-paper", **asked),
        netplan.simulate("rail-only-paper", **asked, optimizer="adam"),
    )
    assert adam.found.iteration_time_s == plain.found.iteration_time_s
