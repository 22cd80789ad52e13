"""``netplan sites``: contract of its JSON, screens, plans that can be dealt out, refusals."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import netplan
from netplan.answers.sites_answer import SitesAnswer
from netplan.errors import NetplanError

RUN = {"gpus": 128, "model": "llama-3-8b"}


def ask(**given: object) -> SitesAnswer:
    return netplan.sites("hgx-h100", **(RUN | given))


@pytest.fixture(scope="module")
def whole() -> SitesAnswer:
    return ask()


def test_the_grid_has_every_length_and_ratio_two_ways(whole: SitesAnswer) -> None:
    rows = json.loads(whole.json())["grid"]
    assert len(rows) == 7 * 6 * 2
    names = {"km", "ratio", "across", "iteration_time_s", "one_site_time_s", "loss", "ahead"}
    names |= {"exchange_s", "exposed_s", "bottleneck", "faster"}
    assert all(row.keys() == names for row in rows)
    for row in rows:
        assert row["loss"] == pytest.approx(row["iteration_time_s"] / row["one_site_time_s"] - 1)
    for across in ("data", "pipeline"):
        mine = [row for row in rows if row["across"] == across]
        by_km = [row["loss"] for row in mine if row["ratio"] == 1]
        by_ratio = [row["loss"] for row in mine if row["km"] == 1]
        assert by_ratio == sorted(by_ratio)
        assert by_km == sorted(by_km)


def test_the_json_is_the_contract(whole: SitesAnswer) -> None:
    data = json.loads(whole.json())
    assert data["sites"][0].keys() == {"name", "gpus", "egress_bytes_per_s"}
    assert data["pairs"][0].keys() == {"a", "b", "km", "ratio", "one_way_s", "rtt_s"}
    assert data["pairs"][0]["rtt_s"] == 2 * data["pairs"][0]["one_way_s"]
    for even in data["break_even"]:
        assert {"across", "at", "value", "why_null"} <= even.keys()
        assert ("ratio" if even["at"] == "km" else "km") in even
        assert (even["value"] is None) == (even["why_null"] is not None)
    haul = data["long_haul"]
    wanted = ("wavelengths", "modules", "fibre_pairs", "amplifiers", "ports", "cost_usd")
    assert all(name in haul for name in wanted)
    assert haul["cost_is_floor"] is True
    rate, trip_s = data["sites"][0]["egress_bytes_per_s"], data["pairs"][0]["rtt_s"]
    assert data["in_flight_bytes"] == pytest.approx(rate * trip_s)
    assert data["buffer_bytes_a_port"] == pytest.approx(rate / (haul["ports"] / 2) * trip_s)


def test_a_break_even_loses_just_the_target(whole: SitesAnswer) -> None:
    even = next(
        even
        for even in whole.break_even
        if (even.across, even.at, even.km) == ("data", "ratio", 1000.0)
    )
    assert even.value is not None
    at = ask(km=1000.0, ratio=even.value, across="data")
    assert at.grid[0].time.loss == pytest.approx(0.05, rel=1e-4)


def test_one_site_is_the_search(whole: SitesAnswer) -> None:
    best = netplan.search("hgx-h100", **RUN).best
    data = next(plan for plan in whole.plans if plan.across == "data")
    assert data.run.time_s == best.iteration_time_s
    near = ask(km=0.0, ratio=0.1, across="pipeline", fixed={"pipeline": 2, "interleave": 1})
    alone = netplan.search("hgx-h100", **RUN, fixed={"pipeline": 2, "interleave": 1}).best
    assert near.grid[0].time.one_site_s == alone.iteration_time_s


def test_the_screen_is_a_screen(whole: SitesAnswer) -> None:
    lines = whole.text().splitlines()
    assert len(lines) <= 25
    assert "data over 2 sites: 5 % lost at " in whole.text()
    assert "pipeline 1:1 auto" in whole.text()
    assert "network_kind" not in whole.text()


def test_the_page_has_a_chart(whole: SitesAnswer) -> None:
    assert "Loss over the length of the fibre" in whole.html()
    frame = whole.to_frame()
    assert len(frame) == 84
    assert list(frame.index.unique()) == ["data", "pipeline"]


def test_keys_of_the_book_change_the_way() -> None:
    usual = ask(km=100.0, ratio=4.5, across="data")
    longer = ask(
        km=100.0,
        ratio=4.5,
        across="data",
        overrides={"sites.detour": "1.5", "sites.equipment_us": "100"},
    )
    way_s = usual.to_dict()["pairs"][0]["one_way_s"]
    assert longer.to_dict()["pairs"][0]["one_way_s"] == pytest.approx(1.5 * way_s + 100e-6)
    assert longer.inputs["set"] == {"sites.detour": 1.5, "sites.equipment_us": 100}
    seldom = ask(km=100.0, ratio=256.0, across="data", overrides={"sites.sync_every": "10"})
    every = ask(km=100.0, ratio=256.0, across="data")
    assert seldom.grid[0].time.loss == pytest.approx(every.grid[0].time.loss / 10)
    assert any("once in 10 iterations" in note for note in seldom.to_dict()["notes"])


@pytest.mark.parametrize(
    ("question", "model", "names"),
    [
        (netplan.search, "llama-3-8b", ("km", "ratio", "layout", "across")),
        (netplan.compare, "llama-3-8b", ("km", "ratio", "layout", "across")),
        (netplan.loads, "llama-3-8b", ("km", "ratio", "layout", "across")),
        (netplan.cost, None, ("km", "ratio", "layout")),
    ],
)
def test_what_several_sites_have_is_refused_without_any(
    question: Callable[..., object], model: str | None, names: tuple[str, ...]
) -> None:
    values = {"km": 40.0, "ratio": 4.5, "layout": "line", "across": "data"}
    given = {"gpus": 64} | ({"model": model} if model else {})
    for name in names:
        with pytest.raises(NetplanError, match=f"--{name} is of several sites: add --sites 2"):
            question("hgx-h100", **given, **{name: values[name]})


FILE = """sites: [{name: a, gpus: 64}, {name: b, gpus: 32}, {name: c, gpus: 32}]
pairs:
  - {between: [a, b], km: 40, ratio: 4.5, usd_month: 9000}
  - {between: [b, c], km: 400, ratio: 16}
  - {between: [a, c], km: 900, ratio: 16}
"""


def test_a_file_says_its_pairs(tmp_path: Path) -> None:
    path = tmp_path / "sites.yaml"
    path.write_text(FILE, "utf-8")
    answer = ask(sites=str(path))
    assert [pair["km"] for pair in answer.to_dict()["pairs"]] == [40, 400, 900]
    assert {row.km for row in answer.grid} == {None}
    assert answer.break_even == ()
    cut = ask(sites=str(path), fail=("a:c",))
    assert len(cut.to_dict()["pairs"]) == 2
    slower = {row.time.across: row.time.time_s for row in cut.grid}
    assert all(slower[row.time.across] >= row.time.time_s for row in answer.grid)
    assert answer.inputs["layout"] == "file"
    for name, value in (("km", 1.0), ("ratio", 4.5), ("layout", "line"), ("layout", "mesh")):
        with pytest.raises(NetplanError, match=f"--{name} beside --sites"):
            ask(sites=str(path), **{name: value})
    with pytest.raises(NetplanError, match="give --gpus 128"):
        ask(sites=str(path), gpus=256)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"sites": "1"}, "--sites 1 is one site: use netplan search"),
        ({"sites": "0"}, "--sites 0: give 2 to 16"),
        ({"sites": "nowhere.yaml"}, "nowhere.yaml"),
        ({"km": -1.0}, "--km -1"),
        ({"km": 50_000.0}, "from 0 to 40,000"),
        ({"ratio": 0.05}, "--ratio 0.05"),
        ({"chunks": 0}, "--chunks"),
        ({"ahead": "-1"}, "whole number from 0 on, or auto"),
        ({"ahead": "9" * 5000}, "whole number from 0 on, or auto"),
        ({"fail": ("site-1:site-2=" + "9" * 5000,)}, "for all of it"),
        ({"overrides": {"sites.chassis_ports.base": "0"}}, "chassis_ports: give more than 0"),
        ({"ahead": "99", "across": "pipeline"}, "leave room for"),
        ({"in_flight": 0.0}, "--in-flight 0"),
        ({"fail": ("site-1:site-3",)}, "name two sites, as site-1:site-2"),
        ({"fail": ("site-1:site-2",)}, "stands still"),
        ({"fixed": {"pipeline": 3}, "across": "pipeline"}, "multiples of 2 do, such as 2 or 4"),
        (
            {"fixed": {"pipeline": 1}, "across": "pipeline"},
            "1 stage cannot be dealt out to 2 sites",
        ),
        ({"fixed": {"tensor": 8, "context": 16}}, "over sites would lose"),
    ],
)
def test_what_no_sites_have_is_refused_in_a_line(given: dict[str, Any], said: str) -> None:
    with pytest.raises(NetplanError) as caught:
        ask(**given)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_search_refuses_what_no_sites_have() -> None:
    with pytest.raises(NetplanError, match="--km -5"):
        netplan.search("two-sites-gb300", gpus=288, model="gpt-22b", km=-5.0)


def test_a_serving_scenario_is_refused() -> None:
    with pytest.raises(NetplanError, match="asks about training"):
        netplan.sites("serving-70b-h200")


def test_a_way_that_cannot_be_is_a_note() -> None:
    answer = ask(fixed={"pipeline": 1}, km=10.0, ratio=4.5)
    assert {row.time.across for row in answer.grid} == {"data"}
    assert any("No pipeline over sites" in note for note in answer.notes)


@pytest.fixture(scope="module")
def mesh() -> SitesAnswer:
    return ask(sites="4", km=100.0, ratio=16.0)


@pytest.mark.parametrize("layout", ["ring", "line", "hub"])
def test_layouts_have_their_fibre(layout: str, mesh: SitesAnswer) -> None:
    answer = ask(sites="4", layout=layout, km=100.0, ratio=16.0)
    assert len(answer.to_dict()["pairs"]) == {"ring": 4, "line": 3, "hub": 3}[layout]
    assert answer.inputs["exchange"] == "ring"
    assert mesh.inputs["exchange"] == "direct"
    assert mesh.grid[0].time.exchange_s <= answer.grid[0].time.exchange_s


def test_a_site_may_send_more_than_its_gpus_do() -> None:
    """Twice the rate, as a command line has it, loses no more than the same rate."""
    twice, same = (ask(km=100.0, ratio=ratio, across="data") for ratio in ("1:2", "1"))
    rates = [answer.to_dict()["sites"][0]["egress_bytes_per_s"] for answer in (twice, same)]
    assert rates == [2 * 64 * 50e9, 64 * 50e9]
    assert twice.grid[0].time.loss < same.grid[0].time.loss
