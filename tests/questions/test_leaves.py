"""What answers say about leaves that block: times, bounds, and what a bad placement costs."""

import json
from typing import Any

import pytest

from netplan.questions.compare import compare
from netplan.questions.loads import loads
from netplan.questions.search import search

ON: dict[str, Any] = {"radix": 64, "accelerator": "h100-80gb"}
SCATTERED = "were the HB domains scattered"


@pytest.mark.parametrize("name", ["rail-optimized", "fat-tree", "rail-only"])
@pytest.mark.parametrize("ratio", [1.0, 2.0, 4.0])
def test_model_link_and_bound_agree(name: str, ratio: float) -> None:
    answer = loads(gpus=2048, fabric=name, oversubscription=ratio, **ON)
    share = 0.7  # of the bandwidth, which the 4D model gives to messages
    assert answer.collectives
    for one in answer.collectives:
        assert one.bound_s <= one.busiest_s * (1 + 1e-9)
        assert share * one.analytic_s == pytest.approx(one.busiest_s, rel=0.01)
    told = [note for note in answer.notes if SCATTERED in note]
    assert len(told) == (ratio > 1)


def test_scattered_domains_take_what_everything_took_at_the_thin_rate() -> None:
    # Leaves of 42 down and 22 up: the 41.913 s of a network at 22/42 of the port rate.
    best = search(gpus=2048, fabric="fat-tree", oversubscription=2.0, **ON)
    (told,) = [note for note in best.notes if SCATTERED in note]
    assert "41.91 s an iteration, 0.9 % more" in told
    assert best.found.plans[0].iteration_time_s == pytest.approx(41.556, rel=1e-3)


def test_compare_tells_fat_tree_and_rails_apart() -> None:
    answer = compare(gpus=8192, oversubscription=4.0, fabrics=("fat-tree", "rail-optimized"), **ON)
    tree, rails = answer.rows
    assert tree.time_s > 1.03 * rails.time_s
    assert all(any(SCATTERED in note for note in row.notes) for row in answer.rows)
    data = answer.to_dict()
    assert data == json.loads(json.dumps(data))
    leaves = data["fabrics"][0]["levels"][1]["tiers"][0]
    # 162 leaves of 51 hosts, 13 links up.
    assert (leaves["groups"], leaves["links_per_group"]) == (162, 13)
    assert leaves["oversubscription"] == pytest.approx(51 / 13)
    even = compare(gpus=8192, fabrics=("fat-tree",), **ON)
    assert not any(SCATTERED in note for note in even.rows[0].notes)
    assert even.to_dict()["fabrics"][0]["levels"][1]["tiers"] == []
