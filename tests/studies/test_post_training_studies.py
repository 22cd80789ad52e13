"""Studies of post-training: the step, the new weights and the price that the commands have."""

from pathlib import Path
from typing import Any

import pytest

from netplan.errors import InputError
from netplan.questions.compare import compare
from netplan.questions.cost import cost
from netplan.questions.search import search
from netplan.reports.schema import plain_data
from netplan.studies.questions import point_answer
from netplan.studies.sessions import study
from netplan.studies.study import Study
from tests.studies.shipped import shipped

NAME, SCENARIO = "post-training-sync", "grpo-70b-h100"
VALUES = ("step_s", "sync_s", "sync_bound_s", "usd_per_step", "tokens_per_s_per_gpu")


def test_points_are_what_the_commands_answer() -> None:
    answer = shipped(NAME)
    assert len(answer.rows) == 24
    rows: list[dict[str, Any]] = [dict(row) for row in answer.rows]
    for row in rows[::7]:
        given: dict[str, Any] = {
            name: row[name] for name in ("hb_size", "oversubscription", "sync")
        }
        given |= {"gpus": 288, "rollout_gpus": 144}
        found = search(SCENARIO, fabric="fat-tree", **given).to_dict()
        (compared,) = compare(SCENARIO, fabrics=("fat-tree",), **given).rows
        for name in VALUES:
            assert row[name] == found[name] == plain_data(compared)[name]


def test_new_weights_of_shards_fill_the_cards_of_all_domains() -> None:
    answer = shipped(NAME)
    every: list[dict[str, Any]] = [dict(row) for row in answer.rows]
    rows = {(row["hb_size"], row["oversubscription"], row["sync"]): row for row in every}
    for ratio in (1, 2, 4):
        small, large = rows[8, ratio, "sharded"], rows[72, ratio, "sharded"]
        # A copy once a domain of 8; of 72 GPUs nine servers of 8 share one.
        assert small["sync_network_bytes"] == pytest.approx(18 * 70.55e9 * 2, rel=0.01)
        assert large["sync_network_bytes"] <= small["sync_network_bytes"] / 8.9
        assert large["sync_s"] < small["sync_s"]
    for size in (8, 72):
        by_ratio = [rows[size, ratio, "sharded"] for ratio in (1, 2, 4)]
        times = [row["sync_s"] for row in by_ratio]
        assert times == sorted(times)
        if times[0] == times[-1]:  # nothing is slower: fewer switches cost less
            costs = [row["usd_per_step"] for row in by_ratio]
            assert costs == sorted(costs, reverse=True)


@pytest.mark.parametrize("ask", ["search", "compare", "cost"])
def test_one_question_and_another_give_one_point(ask: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    names = "step_s, sync_s, usd_per_step"
    path.write_text(
        f"name: mine\ntitle: A step\nsource: mine\ndate: '2026-11'\nask: {ask}\n"
        f"scenario: {SCENARIO}\ninputs: {{fabric: fat-tree}}\n"
        f"axes:\n  - {{input: staleness, values: [0, 1]}}\noutputs: [{names}]\n",
        encoding="utf-8",
    )
    answer = study(str(path))
    assert answer.failures == ()
    rows: list[dict[str, Any]] = [dict(row) for row in answer.rows]
    later, sooner = rows
    assert later["step_s"] > sooner["step_s"]
    known = cost(SCENARIO, fabrics=("fat-tree",)).to_dict()["fabrics"][0]
    for name in ("step_s", "sync_s", "usd_per_step"):
        assert sooner[name] == pytest.approx(known[name], rel=1e-12)


def test_studies_of_training_are_no_studies_of_post_training() -> None:
    with pytest.raises(InputError, match="does post-training, and study hb-size-paper is about tr"):
        Study.load("hb-size-paper", scenario=SCENARIO)
    with pytest.raises(InputError, match="trains, and study post-training-sync is about post-"):
        Study.load(NAME, scenario="hgx-h100")
    assert point_answer(Study.load("price-flip", scenario=SCENARIO).spec, {"gpus": 64})
