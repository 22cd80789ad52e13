"""Power caps: no cap is a cap of 100 %, curves stay in their span, links keep their rates."""

import pytest

from netplan.errors import NetplanError
from netplan.questions.compare import compare
from netplan.questions.search import search
from netplan.scenarios.reading import CatalogReader
from netplan.workloads.accelerators import ACCELERATORS

CAPPED = ("h100-80gb", "h200", "b200", "b200-1000w", "b300", "gb200", "gb300")


@pytest.mark.parametrize("name", CAPPED)
def test_curves_end_at_the_full_power_and_cost_speed(name: str) -> None:
    chip = ACCELERATORS.load(name)
    caps = chip.power_caps
    assert caps is not None
    assert caps.points[-1].watts == pytest.approx(chip.power_w)
    assert caps.points[-1].speed == 1
    assert caps.source
    assert caps.date
    # Speed falls by less than power: this is what caps are for.
    assert all(point.speed > point.watts / chip.power_w for point in caps.points[:-1])


def test_a_cap_of_all_its_power_changes_nothing() -> None:
    plain = search("hgx-b200", gpus=512)
    full = search("hgx-b200", gpus=512, gpu_power_cap=1.0)
    assert full.best is not None
    assert plain.best is not None
    assert full.best.iteration_time_s == plain.best.iteration_time_s
    assert full.best.error == plain.best.error


def test_a_cap_slows_products_alone_and_says_so() -> None:
    reader = CatalogReader(overrides={"accelerator.power_cap_w": "400"})
    capped, plain = reader.load(ACCELERATORS, "h100-80gb"), ACCELERATORS.load("h100-80gb")
    assert plain.power_caps is not None
    point = plain.power_caps.point_at(400, "h100-80gb")
    assert capped.power_w == 400
    assert capped.full_power_w == 700
    assert capped.tensor_flops_per_s == pytest.approx(point.speed * plain.tensor_flops_per_s)
    assert capped.network_bytes_per_s == plain.network_bytes_per_s
    assert "400 W" in capped.short
    answer = compare("hgx-h100", gpus=512, gpu_power_cap=400.0)
    assert "400 W" in str(answer)
    slow = {row.name: row.time_s for row in answer.rows}
    fast = {row.name: row.time_s for row in compare("hgx-h100", gpus=512).rows}
    assert all(slow[name] > fast[name] for name in fast)
    # All is slower by no more than the products are.
    assert all(slow[name] <= fast[name] / point.speed for name in fast)


@pytest.mark.parametrize(
    ("scenario", "cap", "told"),
    [
        ("hgx-h100", 100.0, "is published from .* W: give a cap in that range"),
        ("hgx-h100", 900.0, "published from|draws 700 W"),
        ("tpu-v5p", 300.0, "nobody has published what .* take .*h100"),
    ],
)
def test_caps_without_data_are_refused_in_a_line(scenario: str, cap: float, told: str) -> None:
    asked = (
        {"scenario": scenario}
        if scenario == "hgx-h100"
        else {"scenario": "hgx-h100", "accelerator": scenario}
    )
    with pytest.raises(NetplanError, match=told) as refused:
        compare(**asked, gpus=512, gpu_power_cap=cap)
    assert "\n" not in str(refused.value)
