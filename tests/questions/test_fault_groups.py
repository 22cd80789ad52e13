"""Parts that fail as one: racks, feeds, own groups, a bad batch of optics."""

from pathlib import Path

import pytest

import netplan
from netplan.errors import NetplanError
from netplan.questions.faults import faults
from tests.questions.fault_cases import SMALL, scenario, single, small


def test_racks_and_feeds_fail_as_a_whole(tmp_path: Path) -> None:
    answer = small(fail=["rack-0"], gpus_per_rack=32, fabrics=("rail-only",))
    assert scenario(answer.fabrics[0]).impact.gpus_down == 32
    kinds = {one.kind for one in answer.fabrics[0].singles}
    assert {"rack", "feed"} <= kinds
    groups = tmp_path / "mine.csv"
    groups.write_text("group,member\nbatch-7,gpu-1\nbatch-7,gpu-9\n", encoding="utf-8")
    mine = small(fail=["batch-7"], groups=groups, fabrics=("rail-only",))
    assert scenario(mine.fabrics[0]).impact.gpus_down == 2


def test_switches_fill_as_many_racks_as_on_the_bill() -> None:
    asked = {"gpus": 4096, "radix": 64, "fabrics": ("rail-optimized",), "prices": "2026"}
    found = faults("rail-only-paper", **asked, gpus_per_rack=32, timing=False, years=1)
    racks = next(one.parts for one in found.fabrics[0].singles if one.kind == "rack")
    bill = netplan.cost("rail-only-paper", **asked).bills[0]
    # 320 switches of 2 units, and 1 for the cables of each, in racks of 42: 14 a rack, beside 128
    # racks of GPUs.
    assert (racks, bill.racks.count) == (128 + 23, 23)


def test_racks_and_feeds_fail_in_the_years() -> None:
    plain, racked = (
        small(fabrics=("rail-only",), gpus_per_rack=size, years=200).fabrics[0].forecast
        for size in (None, 32)
    )
    # 32 racks of GPUs and four of switches at 0.022 a year, two feeds at 0.28, where the book
    # guesses 64 racks of 16 GPUs and two feeds of 512.
    change = racked.interruptions_closed_form - plain.interruptions_closed_form
    assert change == pytest.approx((36 - 64) * 0.022)
    assert plain.lost_h["waiting"] == 0 <= racked.lost_h["waiting"]
    named = {one.cause: one.failures_per_year for one in racked.causes}
    assert (named["Rack"], named["Power feed"]) == pytest.approx((0.792, 0.56))


def test_own_groups_fail_in_the_years_by_weight(tmp_path: Path) -> None:
    groups = tmp_path / "chassis.yaml"
    text = "kind: chassis\ngroups:\n  a: {members: [gpu-0, gpu-9], weight: 3}\n  b: [gpu-17]\n"
    groups.write_text(text, encoding="utf-8")
    fabric = small(fabrics=("rail-only",), groups=groups).fabrics[0]
    named = {one.cause: one.failures_per_year for one in fabric.forecast.causes}
    assert named["Own group: chassis"] == pytest.approx(2 * 0.02)
    assert named["Rack"] == pytest.approx(64 * 0.022)  # nobody said where racks stand
    assert any("low confidence, an assumption" in note for note in fabric.notes)


def test_a_bad_batch_of_optics_takes_its_share_of_the_links() -> None:
    answer = small(fail=["batch=1"], optics_batch=0.05, fabrics=("rail-optimized",))
    impact = scenario(answer.fabrics[0]).impact
    # A link is out if either of its two modules is: 1 - 0.95^2 of 1,024 host links is 100.
    assert 70 < impact.gpus_cut_off < 130
    assert impact.gpus_unreachable == 0
    with pytest.raises(NetplanError, match="unknown kind of part 'batch'"):
        small(fail=["batch=1"], fabrics=("rail-optimized",))
    with pytest.raises(NetplanError, match="batch of 0 % of all transceivers"):
        small(optics_batch=0, fabrics=("rail-optimized",))


def test_a_feed_that_feeds_nothing_stands_for_none() -> None:
    hall = {"gpus": 1024, "radix": 64, "fabrics": ("rail-only",), "floor_plan": "example-hall"}
    answer = faults("rail-only-paper", **(SMALL | hall | {"timing": False, "years": 1}))
    # One row of the hall holds all racks, on one of its two feeds.
    assert single(answer.fabrics[0], "feed").gpus_down == 1024
    # So one feed is counted, fails in the years, and is there to be drawn.
    counted = {one.kind: one.parts for one in answer.fabrics[0].singles}
    assert (counted["feed"], counted["tray"]) == (1, 1)
    assert "1 of 'Power feed' fail as a whole" in " ".join(answer.fabrics[0].notes)
    with pytest.raises(NetplanError, match="the fabric has 1 of kind feed, give 0 to 1"):
        faults("rail-only-paper", **(SMALL | hall | {"timing": False, "fail": ["feed=2"]}))
    empty = faults(
        "rail-only-paper", **(SMALL | hall | {"timing": False, "years": 1, "fail": ["feed-B"]})
    )
    assert scenario(empty.fabrics[0]).impact.gpus_down == 0
