"""Measured points of serving: the table is read strictly, and its rows agree with themselves."""

from collections import Counter

import numpy as np
import pytest
from msgspec import ValidationError

from netplan.published.checks import published
from netplan.published.measured_serving import TABLE, ServingPoint, serving_point, serving_points
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.models import MODELS

ROW = published(TABLE)[0]


def test_points_are_counted() -> None:
    points = serving_points()
    assert Counter(one.mode for one in points) == {"aggregated": 976, "disaggregated": 524}
    assert Counter(one.precision for one in points) == {
        "fp8": 944,
        "fp4": 418,
        "int4": 61,
        "bf16": 77,
    }
    assert sum(one.overload for one in points) == 76
    assert sum(one.gpus is None for one in points) == 333
    assert len(set(map(str, points))) == 1500


def test_models_and_accelerators_are_in_the_catalog() -> None:
    for point in serving_points():
        model = MODELS.load(point.model)
        assert model.context_length is not None
        assert point.prompt + point.output <= model.context_length
        assert point.accelerator in ACCELERATORS.paths()


def test_servers_add_up_to_all_gpus() -> None:
    """A server of its own, or those for prefill and decode, where their numbers are known."""
    for point in serving_points():
        if point.mode == "aggregated":
            assert point.prefill is point.decode is None
            assert point.server is not None
            assert point.gpus in (None, point.server.gpus_each)
            continue
        assert point.server is None
        assert point.prefill is not None
        assert point.decode is not None
        pools = (point.prefill, point.decode)
        gpus = [one.count * one.gpus_each for one in pools if one.count]
        assert point.gpus == (sum(gpus) if gpus else None)
        assert all(one.gpus_each % (one.expert or 1) == 0 for one in pools)


def test_experts_share_the_gpus_of_attention() -> None:
    for point in serving_points():
        server = point.server
        if server and point.gpus and MODELS.load(point.model).experts:
            assert server.expert is not None
            assert server.expert_tensor is not None
            assert server.expert * server.expert_tensor == server.gpus_each


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ({"tensor": "4"}, "unknown field `tensor`"),
        ({"server.data": "4"}, r"unknown field `data`.*server"),
        ({"mode": "split"}, "Invalid enum value 'split'"),
        ({"precision": ""}, "missing required field `precision`"),
        ({"server.tensor": "0"}, "`int` >= 1.*server.tensor"),
        ({"server.tensor": "2.5"}, "Expected `int`.*server.tensor"),
        ({"tpot_s": "fast"}, "Expected `float`.*tpot_s"),
        ({"tpot_s": "-1"}, "`float` > 0.*tpot_s"),
    ],
)
def test_other_rows_are_refused(cell: dict[str, str], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        serving_point(ROW | cell)


def unloaded_s(points: list[ServingPoint]) -> float:
    """TPOT without cache and prompts of others: least squares of relative errors [s]."""
    known = [one for one in points if one.concurrency]
    requests, prompt, output, taken_s = np.array(
        [(one.concurrency, one.prompt, one.output, one.tpot_s) for one in known], float
    ).T
    terms = np.stack(
        [np.ones(len(known)), requests * (prompt + output / 2), requests * prompt / output]
    )
    found, *_ = np.linalg.lstsq((terms / taken_s).T, np.ones(len(known)), rcond=None)
    return float(found[0])


def test_weights_of_unnamed_precision_have_two_bytes() -> None:
    """What eight GPUs save is at most 7/8 of reading the weights: they take more than 1.7 bytes."""
    both = {}
    for gpus in (1, 8):
        chosen = [
            one
            for one in serving_points()
            if (one.model, one.accelerator, one.gpus) == ("llama-3.1-8b", "h100-80gb", gpus)
        ]
        assert {one.precision for one in chosen} == {"bf16"}
        both[gpus] = unloaded_s(chosen)
    # All weights but the embedding of tokens: 8.03e9 - 128,256 x 4,096.
    weights = 8_030_261_248 - 128_256 * 4_096
    number_bytes = (both[1] - both[8]) * 8 / 7 * 3.35e12 / weights
    assert 1.7 < number_bytes < 2.1
