"""Printed points of offline serving: read strictly, each predicted as it ran, class by class."""

from collections import Counter

import numpy as np
import pytest

from netplan.performance.stacks import SERVING_STACKS
from netplan.published.serving_points import (
    OFFLINE,
    class_errors,
    predicted_rates,
    printed_servings,
)
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.models import MODELS


def test_points_are_counted_and_in_the_catalogs() -> None:
    points = printed_servings()
    offline = [point for point in points if point.scenario.startswith(OFFLINE)]
    assert Counter(point.kind for point in offline) == {
        "dense": 14,
        "gpt-oss": 36,
        "other experts": 21,
    }
    for point in points:
        model, size = MODELS.load(point.model), point.tensor * point.pipeline
        assert point.accelerator in ACCELERATORS.paths()
        assert point.gpus == size * point.attention_data
        assert point.expert == 1 or model.experts is not None
        assert (point.requests is None) == (not point.scenario.startswith(OFFLINE)) or (
            point.requests == point.concurrency
        )


def test_static_batches_are_a_batch_and_its_steps() -> None:
    """Llama 405B on MI300X: printed 27.8 ms a token alone and 138.7 ms of 256."""
    points = [point for point in printed_servings() if point.accelerator == "mi300x"]
    printed = [
        (point.concurrency or 0) / (8 * point.tokens_per_s_per_gpu) * 1e3 for point in points
    ]
    assert printed[0] == pytest.approx(27.8, abs=0.05)
    assert printed[-1] == pytest.approx(138.7, abs=0.05)
    ratios = predicted_rates(points) / [point.tokens_per_s_per_gpu for point in points]
    assert np.all(np.diff(ratios) > 0)
    assert 1.3 < ratios[0] < 1.5
    assert 1.7 < ratios[-1] < 1.9


def test_a_class_has_its_geometric_mean_and_median_error() -> None:
    found = class_errors("some", np.array([0.9, 1.0, 1.21]))
    assert found.ratio == pytest.approx((0.9 * 1.21) ** (1 / 3))
    assert found.error == pytest.approx(0.1)


def test_stacks_name_their_releases() -> None:
    assert [SERVING_STACKS.load(name).version for name in ("vllm", "sglang", "tensorrt-llm")] == [
        "0.24",
        "0.5.14",
        "1.3",
    ]
