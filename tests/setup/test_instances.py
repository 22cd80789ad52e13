"""Instances side by side: turnaround by hand, the best GPUs an instance, what is refused."""

import csv
import io
from collections.abc import Mapping
from typing import Any

import pytest

import netplan
from netplan.errors import InfeasibleError, InputError
from netplan.performance.plan import Plan, PlanTime, instances_of
from netplan.traffic.placement import Degrees, Placement

PODS: dict[str, Any] = {
    "model": "dlrm-1.2t",
    "accelerator": "a100-comet",
    "fabric": "comet-pods",
    "gpus": 64,
    "iteration_model": "comet",
}


def answer(**inputs: Any) -> Mapping[str, Any]:  # noqa: ANN401 - any input
    return netplan.search("rail-only-paper", **PODS | inputs).to_dict()


@pytest.mark.parametrize(
    ("inner", "outer", "count", "at_once", "rounds"),
    [
        (8, 8, 8, 1, 8),  # ceil(8 x 64 / 64)
        (8, 2, 8, 4, 2),  # ceil(8 x 16 / 64)
        (8, 2, 9, 4, 3),
        (8, 1, 3, 3, 1),  # room for eight
        (8, 3, 4, 2, 2),  # two of three pods of eight, two pods idle
        (3, 1, 16, 16, 1),  # two in each pod, not 64 // 3
    ],
)
def test_instances_that_fit_run_at_once(
    inner: int, outer: int, count: int, at_once: int, rounds: int
) -> None:
    placement = Placement((Degrees(expert=inner), Degrees(expert=outer)), (8, 8))
    timed = PlanTime(Plan(placement, 1, 1), 0.5, {}, 0.0, 0.0, 0.0)
    found = instances_of(timed, count)
    assert (found.at_once, found.rounds) == (at_once, rounds)
    assert found.turnaround_s == rounds * 0.5


def test_all_instances_are_done_first_with_the_best_number_of_gpus() -> None:
    one = answer(top=9, expanded_memory="comet-201gb")
    times = {plan["plan"]["expert"]: plan["iteration_time_s"] for plan in one["plans"]}
    assert [*times] == [64, 32, 16]
    eight = answer(top=9, expanded_memory="comet-201gb", instances=8)
    turnaround = {gpus: times[gpus] * -(-8 * gpus // 64) for gpus in times}
    found = {plan["plan"]["expert"]: plan["instances"]["turnaround_s"] for plan in eight["plans"]}
    assert found == turnaround
    assert [*found.values()] == sorted(turnaround.values())
    best = eight["plans"][0]
    assert best["plan"]["expert"] == min(turnaround, key=lambda gpus: turnaround[gpus]) == 16
    # Four at once: the work of four instances in the time of one.
    alone = next(plan for plan in one["plans"] if plan["plan"]["expert"] == 16)
    assert best["mfu"] == pytest.approx(4 * alone["mfu"], rel=1e-12)
    assert best["instances"] == {
        "count": 8,
        "at_once": 4,
        "rounds": 2,
        "turnaround_s": turnaround[16],
    }


def test_fewest_gpus_and_the_memory_that_it_takes() -> None:
    needs = "An instance needs at least"
    (alone,) = [note for note in answer()["notes"] if note.startswith(needs)]
    assert alone == f"{needs} 32 GPUs."
    # 150 GB of tables, 3.6 of layers and 0.5 of activations on each, 80 GB of them local
    (tier,) = [
        note for note in answer(expanded_memory="comet-201gb")["notes"] if note.startswith(needs)
    ]
    assert tier == (
        f"{needs} 16 GPUs, 74.2 GB on each in the expanded memory; with the local memory alone at"
        " least 32."
    )
    assert not any(needs in note for note in answer(fixed={"expert": 32})["notes"])


def test_columns_for_programs() -> None:
    shown = netplan.search(
        "rail-only-paper", **PODS, instances=8, expanded_memory="comet-201gb"
    ).csv()
    rows = [row for row in csv.DictReader(io.StringIO(shown)) if row["table"] == "plans"]
    assert [int(row["gpus_used"]) for row in rows] == [16, 32, 64]
    for row, at_once in zip(rows, (4, 2, 1), strict=True):
        assert int(row["at_once"]) == at_once
        rounds = 8 / at_once
        assert float(row["turnaround_s"]) == rounds * float(row["iteration_time_s"])
        spilled = max(float(row["memory_bytes"]) - 80e9, 0)
        assert float(row["spilled_bytes"]) == pytest.approx(spilled, rel=1e-12)


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ({"model": "gpt-1t"}, "gpt-1t does not lie on all of them alike"),
        ({"instances": 0}, "at least 1"),
        ({"fixed": {"tensor": 2}}, "expert is all there is to fix"),
    ],
)
def test_what_is_refused(inputs: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says) as error:
        answer(**{"instances": 8} | inputs)
    assert "\n" not in str(error.value)


def test_no_instance_fits() -> None:
    with pytest.raises(InfeasibleError, match="nearest needs 305 GB a GPU"):
        answer(fixed={"expert": 8}, expanded_memory="comet-201gb", instances=8)
