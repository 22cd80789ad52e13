"""The what-if page: its state is a link and a command, its numbers are those of compare."""

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl
from urllib.request import Request, urlopen

import pytest

import netplan
from netplan.errors import InputError
from netplan.explore.server import free_port
from netplan.explore.state import FIRST, State, steps
from netplan.explore.views import drawing_of_state, view_of
from tests.cli.command import netplan as run_netplan

CHROMIUM = Path("/usr/bin/chromium")
SMALL = State(gpus=512, model="gpt-22b", fabrics=("rail-only", "rail-optimized"), port_factor=2.0)


def test_a_state_comes_back_from_its_link() -> None:
    for state in (State(), SMALL, State(oversubscription=1.5, drawn="torus-2d")):
        assert State.of_link(dict(parse_qsl(state.link()))) == state
    assert State().link() == ""


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"gpus": "4095"}, "gpus='4095' is none"),
        ({"gpus": "1e99"}, "is none of the page's steps"),
        ({"model": "../../etc/passwd"}, "is none of the page's steps"),
        ({"fabrics": "rail-only,/tmp/mine.yaml"}, "fabrics='/tmp/mine.yaml' is none"),
        ({"prices": "<script>"}, "is none of"),
    ],
)
def test_links_with_other_values_are_refused(query: dict[str, str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        State.of_link(query)


def test_every_first_value_is_a_step() -> None:
    allowed = steps()
    for name, value in State().question().items():
        if name in allowed:
            values = value if isinstance(value, tuple) else (value,)
            assert set(values) <= set(allowed[name]), name
    assert set(FIRST) <= set(allowed["fabrics"])


def test_the_page_shows_what_the_command_answers() -> None:
    words = shlex.split(SMALL.command())
    assert words[:2] == ["netplan", "compare"]
    answer = json.loads(run_netplan(*words[1:], "--format", "json").stdout)
    view = view_of(SMALL)
    assert view.verdict == answer["verdict"]["sentence"]
    shown = {row["fabric"]: row["price"] for row in view.rows}
    for row in answer["fabrics"]:
        assert f"{row['cost']['base'] / 1e6:,.1f} M USD" in shown[row["fabric"]]
    ours = netplan.compare(**SMALL.question())
    assert [row["cost"]["base"] for row in ours.to_dict()["fabrics"]] == [
        row["cost"]["base"] for row in answer["fabrics"]
    ]


def test_dearer_ports_make_networks_dearer() -> None:
    plain = State(gpus=512, model="gpt-22b", fabrics=("rail-only",))
    dear = State(gpus=512, model="gpt-22b", fabrics=("rail-only",), port_factor=2.0)
    costs = [
        netplan.cost(**{k: v for k, v in one.question().items() if k != "model"}).to_dict()
        for one in (plain, dear)
    ]
    lines = [
        {item["part"]: item["base"] for item in bill["fabrics"][0]["items"] if "base" in item}
        for bill in costs
    ]
    totals = [bill["fabrics"][0]["cost"]["base"] for bill in costs]
    assert totals[1] > totals[0]
    assert lines  # prices of ports double, nothing else moves
    ports = 64 * 8 / 64  # 512 hosts on leaves of 64 ports
    assert totals[1] - totals[0] == pytest.approx(64 * ports * 781)


def test_what_is_refused_is_said() -> None:
    view = view_of(State(gpus=64, hb_size=8, radix=512, oversubscription=8.0, fabrics=("dgx-1",)))
    assert view.error or view.rows
    assert drawing_of_state(State()).startswith("data:image/svg+xml;base64,")


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
    with pytest.raises(OSError, match="400"):
        urlopen(asked)  # noqa: S310


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_sliders_move_everything_in_a_browser(page: str, width: int, scheme: Any) -> None:  # noqa: ANN401 - a literal of playwright
    sync_api = pytest.importorskip("playwright.sync_api")
    if not CHROMIUM.exists():
        pytest.skip("no chromium")
    with ThreadPoolExecutor(1) as alone:  # a browser of other tests may have a loop in this thread
        alone.submit(_moved, sync_api, page, width, scheme).result()


def _moved(sync_api: Any, page: str, width: int, scheme: str) -> None:  # noqa: ANN401 - a module
    """Move the first slider, and see all else follow."""
    with sync_api.sync_playwright() as playwright:
        flags = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=flags)
        tab = browser.new_page(viewport={"width": width, "height": 1200}, color_scheme=scheme)
        wrong: list[str] = []
        tab.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
        tab.on("requestfailed", lambda asked: wrong.append(asked.url))
        tab.goto(f"{page}?gpus=8192&fabrics=rail-only%2Crail-optimized")
        tab.get_by_text("--gpus 8192").wait_for(timeout=60_000)
        tab.get_by_text("costs least").first.wait_for()
        first = tab.get_by_role("slider").first
        first.focus()
        first.press("ArrowRight")
        tab.get_by_text("--gpus 12288").wait_for(timeout=30_000)
        assert "gpus=12288" in tab.url
        assert tab.locator("img[alt='drawing of rail-optimized']").count() == 1
        wide = tab.evaluate("document.documentElement.scrollWidth")
        assert wide <= width + 1
        assert not wrong
        browser.close()
