"""The timeline of a simulated iteration in a real browser: drawn, answering, fit for a phone."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import netplan
from tests.browser.mouse import hovered

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow


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
    ticks = page.locator("#chart-timeline .plot.wide .tick").all_text_contents()
    assert [tick for tick in ticks if tick.startswith("stage")] == [
        f"stage {number}" for number in range(4)
    ]
    names = page.locator("#chart-timeline .legend button").all_text_contents()
    assert {"forward", "backward", "transfer", "waiting for links"} <= set(names)
    shown = hovered(page, "#chart-timeline", names.index("forward"))
    assert "stage " in shown
    assert "forward, microbatch " in shown


def test_the_page_does_not_scroll_sideways(page: "Page") -> None:
    wider = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(wider) == 0
