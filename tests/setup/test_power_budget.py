"""Power budgets: what fits by hand, one server more does not, one number in all commands."""

from itertools import pairwise
from time import process_time

import pytest

from netplan.errors import NetplanError
from netplan.inputs.readers import power
from netplan.questions.compare import compare
from netplan.questions.grow import grow
from netplan.questions.optimize import optimize

HALL_W = 2e6


def test_powers_are_read_with_their_unit() -> None:
    assert [power(text) for text in ("500kW", "20MW", "1.2GW")] == [5e5, 2e7, 1.2e9]
    for text in ("MW", "-3MW", "0W", "20 MWh", "nanMW"):
        with pytest.raises(NetplanError, match="is no power: write 500kW"):
            power(text)


def test_what_fits_is_the_budget_over_the_power_of_a_gpu() -> None:
    answer = compare("hgx-h100", power_budget=HALL_W, timing=False)
    budget = answer.budget
    assert budget is not None
    assert budget.gpus == answer.inputs["gpus"]
    for held in budget.held:
        equipment_w = (700 + 550) / (1 - held.network_power_share)
        if held.fabric not in {row.name for row in answer.bought}:
            continue
        by_hand = HALL_W / (budget.hall.pue.base * equipment_w)
        assert held.gpus == pytest.approx(by_hand, rel=0.01)  # whole servers of eight


@pytest.mark.parametrize("scenario", ["hgx-h100", "hgx-b200", "nvl72-gb200"])
def test_what_is_answered_fits_and_a_server_more_does_not(scenario: str) -> None:
    answer = compare(scenario, power_budget=10 * HALL_W, timing=False)
    budget = answer.budget
    assert budget is not None
    for held in budget.held:
        assert held.gpus % budget.unit == 0
        assert held.facility_w.base <= budget.budget_w < held.next_w
    assert budget.gpus <= min(
        held.gpus for held in budget.held if held.fabric in {row.name for row in answer.bought}
    )


def test_more_power_holds_no_fewer() -> None:
    budgets = [5e5, 3e6, 1e7, 1.01e7]
    fabrics = ("rail-only", "fat-tree", "torus-3d")
    held = [
        {
            known.fabric: known.gpus
            for known in compare(
                "hgx-b200", power_budget=watts, fabrics=fabrics, timing=False
            ).budget.held  # type: ignore[union-attr]
        }
        for watts in budgets
    ]
    assert all(less[name] <= more[name] for less, more in pairwise(held) for name in less)


def test_all_commands_answer_one_number() -> None:
    compared = compare("hgx-h100", power_budget=HALL_W, timing=False)
    best = optimize("hgx-h100", power_budget=HALL_W)
    grown = grow("hgx-h100", phases=(512, 2048), power_budget=HALL_W)
    assert compared.budget is not None
    assert best.budget is not None
    assert grown.budget is not None
    assert best.inputs["gpus"] == best.budget.gpus == compared.budget.gpus
    alone = {held.fabric: held.gpus for held in compared.budget.held}
    assert all(held.gpus == alone[held.fabric] for held in grown.budget.held)
    assert best.budget.hall == compared.budget.hall == grown.budget.hall
    # Every design of the front fits; the hall is told beside it.
    assert all(row.left_w >= 0 for row in best.budget.rows)
    assert "of 2 MW at a PUE of" in " ".join(str(best).split())
    assert best.to_dict()["power_budget"]["gpus"] == best.budget.gpus


def test_grow_says_in_megawatts_which_phase_is_too_much() -> None:
    answer = grow("hgx-h100", phases=(512, 2048), power_budget=HALL_W)
    assert all("phase 2" in words and "MW more than 2 MW" in words for words in answer.power_words)
    small = grow("hgx-h100", phases=(512, 1024), power_budget=HALL_W)
    assert all("every phase fits" in words for words in small.power_words)


def test_gpus_that_are_given_are_checked_alone() -> None:
    answer = compare("hgx-h100", gpus=2048, power_budget=HALL_W, timing=False)
    assert answer.inputs["gpus"] == 2048
    assert "more than 2 MW" in str(answer)
    with pytest.raises(NetplanError, match="no design is within --power-budget: the least"):
        optimize("hgx-h100", gpus=2048, power_budget=HALL_W)


def test_halls_too_small_for_a_server_are_refused_in_a_line() -> None:
    with pytest.raises(NetplanError, match=r"one HB domain of 8 .* needs") as refused:
        compare("hgx-h100", power_budget=5000.0)
    assert "\n" not in str(refused.value)
    for question, asked in ((compare, {}), (grow, {"phases": (512, 1024)})):
        with pytest.raises(NetplanError, match=r"needs .*: write 20MW"):
            question("hgx-h100", power_budget=20.0, **asked)
    with pytest.raises(NetplanError, match="no power of a GPU: write 700W or 80%"):
        compare("hgx-h100", gpus=512, gpu_power_cap="-5W")
    with pytest.raises(NetplanError, match="--nic is in Gb/s: write 400"):
        compare("hgx-h100", gpus=512, nic_gbps=400e9)
    with pytest.raises(NetplanError, match=r"--pue 1e.09: give 1 to 10"):
        compare("hgx-h100", gpus=512, pue=1e9)


def test_a_published_hall_holds_what_it_was_told_to() -> None:
    """Meta reports 83,000 GB200 in 150 MW at a cap of 960 W [arXiv:2605.24461]."""
    answer = compare("nvl72-gb200", power_budget=150e6, gpu_power_cap=960.0, timing=False)
    assert answer.budget is not None
    assert answer.budget.gpus == pytest.approx(83_000, rel=0.05)


def test_capped_gpus_are_more_and_the_hall_computes_more() -> None:
    hall = {"power_budget": HALL_W, "fabrics": ("rail-only",), "timing": False}
    plain, capped = compare("hgx-b200", **hall), compare("hgx-b200", **hall, gpu_power_cap=0.8)
    assert plain.budget is not None
    assert capped.budget is not None
    assert capped.budget.gpus > plain.budget.gpus
    assert "800 W" in str(capped)


def test_cooling_by_air_holds_fewer() -> None:
    held = [
        compare(
            "hgx-b200", power_budget=HALL_W, cooling=kind, fabrics=("rail-only",), timing=False
        ).budget.gpus  # type: ignore[union-attr]
        for kind in ("air", "cold-plate", "immersion")
    ]
    assert held == sorted(held)
    assert held[0] < held[2]


@pytest.mark.slow
def test_ten_gigawatts_take_seconds() -> None:
    begun = process_time()
    answer = compare("hgx-b200", power_budget=10e9)
    assert process_time() - begun < 30
    assert answer.budget is not None
    assert answer.budget.gpus > 3_000_000
