"""Accelerators and card rates side by side: evidence of each case, and what a run costs all in."""

from typing import Any

import pytest

import netplan
from netplan.answers.compare_cases import ComparisonCases, all_in, decisive
from netplan.errors import InputError

SMALL: dict[str, Any] = {"gpus": 1024, "model": "llama-3-8b"}


def cases_of(**asked: Any) -> ComparisonCases:  # noqa: ANN401 - values of inputs
    """Several comparisons."""
    answer: Any = netplan.compare("hgx-b200", **SMALL, **asked)
    assert isinstance(answer, ComparisonCases)
    return answer


def test_all_in_is_gpu_hours_and_the_network_s_share_of_the_days() -> None:
    answer = cases_of(accelerator=("h200", "b200-1000w"))
    weighed = all_in(answer.compared)
    assert weighed is not None
    for label, compared in answer.compared:
        row, terms = decisive(compared)[0][0], compared.terms
        assert terms is not None
        assert row.bill is not None
        days = terms.iterations * row.time_s / 86_400
        life = row.candidate(terms).life
        assert life is not None
        network = days / 365 * (life.annuity_per_year.base + life.energy_per_year.base)
        hours = days * 24 * 1024 * terms.gpu_hour
        assert weighed.costs[label].base == pytest.approx(hours + network, rel=1e-6)
        # Six years at 8.5 %, PUE 1.42, 0.0869 USD a kWh; an hour of an H200 3.25, of a B200 5.245.
        assert row.bill.power_w is not None
        year = row.bill.capital.base * 0.085 / (1 - 1.085**-6)
        year += row.bill.power_w / 1e3 * 1.42 * 8760 * 0.0869
        hour = {"h200": 3.25, "b200-1000w": 5.245}[label]
        by_hand = days * (24 * 1024 * hour + year / 365)
        assert weighed.costs[label].base == pytest.approx(by_hand, rel=1e-6)
    # Whoever is named alone costs less at the worst for it than all others at their best.
    (first, least), (_, other) = list(weighed.costs.items())[:2]
    assert weighed.winner == (first if least.high < other.low else None)


def test_where_nothing_is_uncertain_the_cheaper_run_wins() -> None:
    # The paper's model has no bars, and an hour of any GPU is said to cost 2 USD.
    asked = {"iteration_model": "4d", "gpu_hour": 2.0, "recompute": "selective"}
    answer = cases_of(accelerator=("h100-80gb", "b200-1000w"), **asked)
    weighed = all_in(answer.compared)
    assert weighed is not None
    assert weighed.winner == "b200-1000w"
    assert weighed.tied == ()
    assert "b200-1000w costs least: b200-1000w " in weighed.sentence


def test_rates_of_one_accelerator_share_their_error() -> None:
    answer = cases_of(nic_gbps=(400, 800))
    weighed = all_in(answer.compared)
    assert weighed is not None
    assert set(weighed.costs) == {"400", "800"}
    assert weighed.winner is None or weighed.winner in weighed.costs
    data = answer.to_dict()
    assert [case["nic_gbps"] for case in data["cases"]] == [400, 800]
    assert all("GPU hour" in case["evidence"] for case in data["cases"])
    assert data["all_in"]["sentence"] == weighed.sentence


def test_accelerators_and_rates_stand_together() -> None:
    answer = cases_of(accelerator=("h200", "b200-1000w"), nic_gbps=(400, 800))
    labels = [label for label, _ in answer.compared]
    assert labels == ["h200 400G", "h200 800G", "b200-1000w 400G", "b200-1000w 800G"]
    for (chip, rate), case in answer.cases:
        assert (case.inputs["accelerator"], case.inputs["link_gbps"]) == (chip, rate)
    lines = answer.text(79).splitlines()
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 80
    with pytest.raises(InputError, match="or accelerators and --nic"):
        cases_of(nic_gbps=(400, 800), radix=(64, 128))


def test_what_has_no_price_of_an_hour_is_not_weighed() -> None:
    answer = cases_of(accelerator=("h100-80gb", "sn40l"), iteration_model="4d", timing=False)
    assert all_in(answer.compared) is None


def test_a_report_of_several_orders_the_cheapest_all_in() -> None:
    asked = {**SMALL, "accelerator": ("h200", "b200-1000w")}
    report = netplan.procurement("hgx-b200", **asked)
    assert report.cases is not None
    weighed = all_in(report.cases.compared)
    assert weighed is not None
    assert report.inputs["accelerator"] == (weighed.winner or weighed.tied[0])
    data = report.to_dict()
    assert [case["accelerator"] for case in data["cases"]] == ["h200", "b200-1000w"]
    text = " ".join(report.text(details=True).split())
    assert "Cases side by side" in text
    assert weighed.sentence in text
