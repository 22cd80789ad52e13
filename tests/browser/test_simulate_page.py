"""The timeline of a simulated iteration in a real browser: drawn, answering, fit for a phone."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import netplan
from tests.browser.mouse import hovered

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow
RANGE = "document.querySelector('#chart-timeline')._fullLayout.xaxis.range"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("simulate") / "run.html"
    asked: dict[str, Any] = {"gpus": 64, "radix": 16, "model": "gpt-22b", "batch": 64}
    path.write_text(
        netplan.simulate(
            "rail-only-paper",
            **asked,
            hb_size=8,
            fabric="fat-tree",
            routing="hashed",
            fixed={"pipeline": 4, "tensor": 4},
        ).html(),
        encoding="utf-8",
    )
    return path


def test_every_stage_has_bars_that_say_what_they_are(page: "Page") -> None:
    ticks = page.locator("#chart-timeline .ytick text").all_text_contents()
    assert ticks == [f"stage {number}" for number in range(4)]
    names = page.locator("#chart-timeline .legendtext").all_text_contents()
    assert {"forward", "backward", "transfer", "waiting for links"} <= set(names)
    bars = page.locator("#chart-timeline .barlayer .trace:nth-child(2) .point path")
    shown = hovered(page, "#chart-timeline", bars)
    assert "stage " in shown
    assert "forward, microbatch " in shown


def test_a_mouse_zooms_into_the_time(page: "Page") -> None:
    plot = page.locator("#chart-timeline .nsewdrag")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box is not None
    before = page.evaluate(RANGE)
    assert before[0] <= 0
    page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 0.3 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 0.7 * box["height"], steps=4)
    page.mouse.up()
    low, high = page.evaluate(RANGE)
    assert before[0] < low < high < before[1]


def test_the_page_does_not_scroll_sideways(page: "Page") -> None:
    wider = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(wider) == 0
