"""Reports of studies in a real browser: drawn, answering the pointer, quiet, fit for a phone."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import netplan
from tests.browser.mouse import hovered

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow
MARKS = {
    "hb-size-paper": ".scatterlayer .trace:nth-child(2) .point",
    "memory-vs-bandwidth": ".heatmap-label",
    "topology-design-space": ".scatterlayer .trace:last-child .point",
}
RANGE = "document.querySelector('#chart-1-1')._fullLayout.xaxis.range"
SERIES = {
    "hb-size-paper": "GPUs: 32,768",
    "memory-vs-bandwidth": "capacity: ",
    "topology-design-space": "fabric: torus-2d",
}


@pytest.fixture(scope="module", params=list(MARKS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, name: str) -> Path:
    path = tmp_path_factory.mktemp("study") / f"{name}.html"
    path.write_text(netplan.study(name).html(), encoding="utf-8")
    return path


def test_charts_are_drawn_and_show_the_plan_behind_a_mark(page: "Page", name: str) -> None:
    charts = page.locator(".chart")
    assert charts.count() == 2
    for number in range(2):
        assert charts.nth(number).locator(".main-svg").count() > 0
    marks = page.locator(f"#chart-1-1 {MARKS[name]}")
    text = hovered(page, "#chart-1-1", marks)
    assert "plan: TP" in text
    assert "iteration time: " in text
    assert SERIES[name] in text
    shown = page.locator("#chart-1-1 .hovertext path").first.bounding_box()
    chart = page.locator("#chart-1-1").bounding_box()
    assert shown is not None
    assert chart is not None
    # A border lies half a pixel outside.
    assert shown["x"] >= chart["x"] - 1
    assert shown["x"] + shown["width"] <= chart["x"] + chart["width"] + 1


def test_a_mouse_zooms_in_and_back(page: "Page") -> None:
    plot = page.locator("#chart-1-1 .nsewdrag")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box is not None
    before = page.evaluate(RANGE)
    page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 0.3 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 0.7 * box["width"], box["y"] + 0.7 * box["height"], steps=4)
    page.mouse.up()
    low, high = page.evaluate(RANGE)
    assert before[0] < low < high < before[1]
    page.mouse.dblclick(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_timeout(500)
    assert page.evaluate(RANGE) == pytest.approx(before)


def test_the_page_does_not_scroll_sideways(page: "Page") -> None:
    wider = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(wider) == 0


def test_it_prints(page: "Page") -> None:
    printed = page.pdf(prefer_css_page_size=True)
    assert printed.startswith(b"%PDF")
    pages = printed.count(b"/Type /Page\n") or printed.count(b"/Type /Page ")
    assert 3 <= pages <= 14
