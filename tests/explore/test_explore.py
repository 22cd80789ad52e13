"""The what-if page: its state is a link and a command, its numbers are those of compare."""

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any
from urllib.error import HTTPError
from urllib.parse import parse_qsl
from urllib.request import Request, urlopen

import pytest

import netplan
from netplan.errors import InputError
from netplan.explore.server import free_port
from netplan.explore.state import GPUS, LABELS, Begun, State, steps
from netplan.explore.views import (
    UNSOLD,
    FabricMark,
    drawing_of_state,
    page_of,
    price_bars,
    time_chart,
    view_of,
)
from netplan.records import replace
from netplan.scenarios.scenario import SCENARIOS, Scenario
from tests.cli.command import netplan as run_netplan

CHROMIUM = Path("/usr/bin/chromium")
FOLLOWS_S = 0.25
WATCH = """() => { window.followed = new Promise(done => {
  const code = () => document.querySelector('code.line')?.textContent, was = code();
  document.addEventListener('keydown', () => {
    const began = performance.now();
    const look = () => {
      if (code() === was) return requestAnimationFrame(look);
      const drawn = document.querySelector('.np img').decode().catch(() => 0);
      drawn.then(() => requestAnimationFrame(() => done(performance.now() - began)));
    };
    requestAnimationFrame(look);
  }, {capture: true, once: true});
}); }"""
SMALL = State.of(
    gpus=512, model="gpt-22b", fabrics=("rail-only", "rail-optimized"), port_factor=2.0
)


def test_a_state_comes_back_from_its_link() -> None:
    states = (
        *(State.of(), SMALL, State.of(oversubscription=1.5, drawn="torus-2d")),
        *(State.of("nvl72-gb300"), State.of("rail-only-paper", gpus=16_384)),
    )
    for state in states:
        assert State.of_link(dict(parse_qsl(state.link()))) == state
    assert State.of().link() == ""
    assert State.of("nvl72-gb300").link() == "scenario=nvl72-gb300"


def test_a_page_begins_with_the_scenario_and_its_command_names_it() -> None:
    for name in ("hgx-b200", "nvl72-gb200", "rail-only-paper"):
        state, cluster = State.of(name), Scenario.load(name).cluster
        assert (state.gpus, state.radix, state.fabrics) == (
            cluster.gpus,
            cluster.radix,
            cluster.fabrics,
        )
        assert state.command() == f"netplan compare {name}"
        shown = {row["fabric"].strip("★ *"): row["price"] for row in view_of(state).rows}
        for row in netplan.compare(name).to_dict()["fabrics"]:
            if row["cost"]:
                assert f"{row['cost']['base'] / 1e6:,.1f} M USD" in shown[row["fabric"]]


def test_what_no_maker_sells_is_marked() -> None:
    page = page_of(State.of())
    assert '<th scope="row">torus-2d *</th>' in page
    assert '<th scope="row">★ rail-only</th>' in page
    assert UNSOLD in page
    assert UNSOLD not in page_of(State.of(fabrics=("rail-only", "fat-tree")))


def test_a_file_is_a_beginning_that_no_link_names(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text(
        "name: mine\ntitle: Mine\nsource: me\ndate: '2026-11'\n"
        "cluster: {gpus: 3000, radix: 64, accelerator: h100-80gb, fabrics: [rail-only, fat-tree]}\n"
        "workload: {model: llama-3-70b}\n"
    )
    state = State.of(str(mine), radix=128)
    assert (state.gpus, state.hb_size, state.model) == (3000, 8, "llama-3-70b")
    assert 3000 in steps(str(mine))["gpus"]
    assert state.command() == f"netplan compare {shlex.quote(str(mine))} --radix 128"
    assert state.query() == {"radix": "128"}
    assert State.of_link(state.query(), str(mine)) == state
    with pytest.raises(InputError, match="is none of the page's names"):
        State.of_link({"scenario": str(mine)})
    answer = json.loads(run_netplan(*shlex.split(state.command())[1:], "--format", "json").stdout)
    assert [mark.base * 1e6 for mark in view_of(state).marks] == pytest.approx(
        [row["cost"]["base"] for row in answer["fabrics"]]
    )


def test_pages_begin_with_the_scenario_of_their_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Begun, "scenario", "hgx-h100")
    assert State.of_link({}).accelerator == "h100-80gb"
    there = State.of_link({"scenario": "hgx-b200"})
    assert there.query() == {"scenario": "hgx-b200"}  # to come back to it, and not to the server's
    assert State.of_link(there.query()) == there


def test_another_accelerator_keeps_the_domain_that_the_page_shows() -> None:
    state = State.of(accelerator="gb200")
    assert state.command() == "netplan compare hgx-b200 --hb-size 8 --accelerator gb200"
    assert State.of(gpus=8, hb_size=16).inputs()["hb_size"] == 8


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"gpus": "4095"}, "gpus='4095' is none"),
        ({"gpus": "1e99"}, "is none of the page's steps"),
        ({"model": "../../etc/passwd"}, "is none of the page's names: choose from the list"),
        ({"fabrics": "rail-only,/tmp/mine.yaml"}, "fabrics='/tmp/mine.yaml' is none"),
        ({"prices": "<script>"}, "is none of"),
    ],
)
def test_links_with_other_values_are_refused(query: dict[str, str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        State.of_link(query)


def test_a_link_that_names_a_fabric_a_thousand_times_asks_once() -> None:
    assert State.of_link({"fabrics": "rail-only," * 1000}).fabrics == ("rail-only",)


@pytest.mark.parametrize("scenario", SCENARIOS.paths())
def test_every_first_value_is_a_step(scenario: str) -> None:
    allowed, first = steps(scenario), State.of(scenario)
    for name, values in allowed.items():
        value = getattr(first, name)
        assert {*(value if isinstance(value, tuple) else (value,))} <= {*values}, name
        if not isinstance(values[0], str):
            assert [*values] == sorted(values)


def test_the_page_shows_what_the_command_answers() -> None:
    words = shlex.split(SMALL.command())
    assert words[:2] == ["netplan", "compare"]
    answer = json.loads(run_netplan(*words[1:], "--format", "json").stdout)
    view = view_of(SMALL)
    assert view.verdict == answer["verdict"]["sentence"]
    assert [row["fabric"].removeprefix("★ ") for row in view.rows] == [*SMALL.fabrics]
    for row, mark, shown in zip(answer["fabrics"], view.marks, view.rows, strict=True):
        assert mark.base == row["cost"]["base"] / 1e6
        assert mark.time_s == row["iteration_time_s"]
        assert shown["price"] == f"{row['cost']['base'] / 1e6:.3g} M USD"  # below ten million
        assert shown["switches"] == f"{row['switches']:,}"
    ours = netplan.compare(**SMALL.question())
    assert [row["cost"]["base"] for row in ours.to_dict()["fabrics"]] == [
        row["cost"]["base"] for row in answer["fabrics"]
    ]


def test_dearer_ports_make_networks_dearer() -> None:
    plain = State.of(gpus=512, model="gpt-22b", fabrics=("rail-only",))
    dear = State.of(gpus=512, model="gpt-22b", fabrics=("rail-only",), port_factor=2.0)
    costs = [
        netplan.cost(**{k: v for k, v in state.question().items() if k != "model"}).to_dict()
        for state in (plain, dear)
    ]
    before, after = (
        {
            item["item"]: item["total"]["base"] if item["total"] else 0.0
            for item in bill["fabrics"][0]["items"]
        }
        for bill in costs
    )
    # Four switches hold 512 hosts; their ports are twice as dear, and nothing else moves.
    moved = {name for name in before if before[name] != after[name]}
    assert moved == {"Switch of 128 ports"}
    (switches,) = moved
    assert after[switches] == pytest.approx(2 * before[switches])
    totals = [bill["fabrics"][0]["cost"]["base"] for bill in costs]
    assert totals[1] - totals[0] == pytest.approx(before[switches])


MOVED = {
    "gpus": (1024, "switches"),
    "radix": (32, "switches"),
    "hb_size": (16, "iteration"),
    "oversubscription": (3.0, "price"),
    "transceiver_factor": (2.0, "price"),
    "port_factor": (0.5, "price"),
    "model": ("gpt-146b", "iteration"),
    "accelerator": ("h200", "iteration"),
    "prices": ("rail-only-2023", "price"),
}


@pytest.mark.parametrize("name", MOVED)
def test_every_control_moves_its_column_and_the_command(name: str) -> None:
    plain = State.of(gpus=512, model="gpt-22b", fabrics=("rail-optimized",))
    value, column = MOVED[name]
    moved = replace(plain, **{name: value})
    before, after = view_of(plain), view_of(moved)
    assert before.rows[0][column] != after.rows[0][column]
    assert plain.command() != moved.command()
    assert plain.link() != moved.link()
    if column == "iteration":
        assert before.marks[0].time_s != after.marks[0].time_s


def test_every_control_is_on_the_page_and_has_steps() -> None:
    assert set(LABELS) == set(State.__struct_fields__) - {"scenario"} == set(steps())
    assert set(MOVED) == set(LABELS) - {"fabrics", "drawn"}


@pytest.mark.parametrize("gpus", [GPUS[0], 512, GPUS[-1]])
def test_the_page_stays_small_at_every_size(gpus: int) -> None:
    page = page_of(State.of(gpus=gpus, fabrics=("rail-only",), drawn="rail-optimized"))
    assert len(page) < 200_000  # of 512 GPUs each link is drawn
    assert page.count("<img src=") == 1
    assert f"netplan compare hgx-b200 --gpus {gpus} " in page


def test_large_networks_are_drawn_by_tiers() -> None:
    sizes = {gpus: len(drawing_of_state(State.of(gpus=gpus))) for gpus in (512, 2048, GPUS[-1])}
    # Every wire of 512 GPUs, as one shape where they look alike, against one a bundle of tiers.
    assert sizes[2048] < sizes[512] / 3
    assert sizes[GPUS[-1]] < sizes[512] / 2


def test_a_fabric_that_cannot_be_built_is_said_beside_the_others() -> None:
    view = view_of(State.of(gpus=GPUS[-1], radix=32, fabrics=("rail-only", "dragonfly")))
    assert [row["fabric"].removeprefix("★ ") for row in view.rows] == ["rail-only"]
    [said] = view.unbuilt
    assert said.startswith("dragonfly: Cannot be built: ")
    assert "raise the radix" in said


def test_combinations_that_mean_nothing_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise InputError("HB domains of 72 & GPUs of <8>: give others")

    monkeypatch.setattr("netplan.explore.views.compare", refuse)
    page = page_of(State.of())
    assert '<div class="box wrong" role="status">HB domains of 72 &amp; GPUs of &lt;8&gt;' in page
    assert "<table" not in page
    assert "netplan compare" in page
    refused = page_of(State.of(), "gpus='7' is none of the page's steps")
    assert refused.count("box wrong") == 2


def test_charts_say_what_they_show_without_colour() -> None:
    marks = [
        FabricMark("rail-only", 8.0, 10.0, 12.0, 3.5, chosen=True, complete=True),
        FabricMark("fat-tree", 9.0, 11.0, 13.0, 3.5, chosen=False, complete=True),
        FabricMark("torus-3d", None, 2.0, None, 3.6, chosen=False, complete=False),
    ]
    bars, cloud = price_bars(marks, "USD"), time_chart(marks, "USD")
    assert "M USD: rail-only 10.0, fat-tree 11.0, torus-3d ≥ 2" in bars
    assert bars.count('class="range"') == 2
    assert bars.count("<rect") == 3
    for chart in (bars, cloud):
        assert "★ rail-only" in chart
    assert cloud.count("<circle") == 2  # the recommended one is a diamond
    assert cloud.count("fill:none") == 1  # and what lacks a price a ring


def test_names_of_equal_marks_do_not_lie_on_one_another() -> None:
    marks = [
        FabricMark(f"fabric-{one}", None, 2.0, None, 3.5, chosen=False, complete=True)
        for one in "abc"
    ]
    drawn = str(time_chart(marks, "USD"))
    tags = [tag.partition(">") for tag in drawn.split("<text ")]
    lines = [float(tag.split('y="')[1].split('"')[0]) for tag, _, said in tags if "fabric-" in said]
    lines.sort()
    assert all(second - first >= 14.0 for first, second in pairwise(lines))


@pytest.fixture
def page() -> Iterator[str]:
    """Address of a running page."""
    pytest.importorskip("marimo")
    port = free_port(0)
    words = ("explore", "--no-browser", "--port", str(port))
    with subprocess.Popen(
        [sys.executable, "-m", "netplan", *words], stderr=subprocess.PIPE, env=dict(os.environ)
    ) as server:
        address = f"http://127.0.0.1:{port}/"
        for _ in range(300):
            try:
                with urlopen(address) as answer:
                    assert answer.status == 200
                break
            except OSError:
                time.sleep(0.2)
        yield address
        server.terminate()


@pytest.mark.slow
def test_other_names_of_this_machine_are_refused(page: str) -> None:
    asked = Request(page, headers={"Host": "evil.example"})  # noqa: S310 - our own server
    with pytest.raises(HTTPError, match="400") as refusal:
        urlopen(asked)  # noqa: S310
    refusal.value.close()


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_sliders_move_everything_in_a_browser(page: str, width: int, scheme: Any) -> None:  # noqa: ANN401 - a literal of playwright
    sync_api = pytest.importorskip("playwright.sync_api")
    if not CHROMIUM.exists():
        pytest.skip("no chromium")
    with ThreadPoolExecutor(1) as alone:  # a browser of other tests may have a loop in this thread
        alone.submit(_moved, sync_api, page, width, scheme).result()


def _same_as_its_command(tab: Any) -> None:  # noqa: ANN401 - a page of playwright
    """The command that the page prints has the prices that the page shows."""
    words = shlex.split(tab.locator("code.line").inner_text())
    answer = json.loads(run_netplan(*words[1:], "--format", "json").stdout)
    rows = tab.locator("tbody tr").all_inner_texts()
    assert len(rows) == len(answer["fabrics"]) == 2
    for row, shown in zip(answer["fabrics"], rows, strict=True):
        assert f"{row['cost']['base'] / 1e6:,.1f} M USD" in shown
        assert f"{row['switches']:,}" in shown


def _seconds_to_follow(tab: Any, slider: Any, times: int) -> float:  # noqa: ANN401
    """Median time from a key to the painted page, whose drawing is ready, too [s]."""
    took: list[float] = []
    for _ in range(times):
        for key in ("ArrowLeft", "ArrowRight"):
            tab.evaluate(WATCH)
            slider.press(key)
            took.append(tab.evaluate("window.followed") / 1000)
    return median(took)


def _moved(sync_api: Any, page: str, width: int, scheme: str) -> None:  # noqa: ANN401 - a module
    """Move the first slider, and see all else follow."""
    with sync_api.sync_playwright() as playwright:
        flags = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=flags)
        tab = browser.new_page(viewport={"width": width, "height": 1200}, color_scheme=scheme)
        wrong: list[str] = []
        tab.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
        tab.on("requestfailed", lambda asked: wrong.append(asked.url))
        tab.goto(f"{page}?gpus=49152&fabrics=rail-only%2Crail-optimized")
        tab.get_by_text("--gpus 49152").wait_for(timeout=60_000)
        tab.get_by_text("costs least").first.wait_for()
        first = tab.get_by_role("slider").first
        first.focus()
        first.press("ArrowRight")
        tab.get_by_text("--gpus 65536").wait_for(timeout=30_000)
        assert "gpus=65536" in tab.url
        assert tab.locator("img[alt='drawing of rail-optimized']").count() == 1
        _same_as_its_command(tab)
        assert min(_seconds_to_follow(tab, first, times=3) for _ in range(3)) < FOLLOWS_S
        wide = tab.evaluate("document.documentElement.scrollWidth")
        assert wide <= width + 1
        assert not wrong
        browser.close()
