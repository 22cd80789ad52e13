"""Reports of studies in a real browser: drawn, answering the pointer, quiet, fit for a phone."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.mouse import hovered
from tests.points import kept_study

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow
MARKED = {"hb-size-paper": 1, "memory-vs-bandwidth": 0, "topology-design-space": -1}
"""Series of the first chart that is pointed at."""
SERIES = {
    "hb-size-paper": "GPUs: 32,768",
    "memory-vs-bandwidth": "capacity: ",
    "topology-design-space": "fabric: torus-2d",
}


@pytest.fixture(scope="module", params=list(MARKED))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, name: str) -> Path:
    path = tmp_path_factory.mktemp("study") / f"{name}.html"
    path.write_text(kept_study(name).html(), encoding="utf-8")
    return path


def test_charts_are_drawn_and_show_the_plan_behind_a_mark(page: "Page", name: str) -> None:
    charts = page.locator(".chart")
    assert charts.count() == 2
    assert page.locator(".chart .plot:visible").count() == 2
    groups = page.locator("#chart-1-1 .plot.wide g.series").count()
    text = hovered(page, "#chart-1-1", MARKED[name] % groups)
    assert "plan: TP" in text
    assert "iteration time: " in text
    assert SERIES[name] in text


def test_the_page_does_not_scroll_sideways(page: "Page") -> None:
    wider = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(wider) == 0


def test_it_prints(page: "Page") -> None:
    printed = page.pdf(prefer_css_page_size=True)
    assert printed.startswith(b"%PDF")
    pages = printed.count(b"/Type /Page\n") or printed.count(b"/Type /Page ")
    assert 3 <= pages <= 14
