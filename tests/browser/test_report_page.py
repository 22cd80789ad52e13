"""The report in a real browser with the network blocked: no request, no error, it answers."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from netplan.procurement.report import procurement

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow
CHARTS = ("price", "drivers", "running", "speed")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(
        procurement("rail-only-paper", gpus=32768, radix=128, prices="2026").html(),
        encoding="utf-8",
    )
    return path


def test_charts_are_drawn_and_answer_the_pointer(page: "Page") -> None:
    for key in CHARTS:
        assert page.locator(f"#chart-{key} .plot:visible").count() == 1
    shown = page.locator("#chart-price .plot.wide rect title").first.text_content() or ""
    assert "rail-optimized" in shown
    assert "Switches" in shown


def test_the_page_does_not_scroll_sideways(page: "Page") -> None:
    wider = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(wider) == 0


def test_text_stands_out_from_its_ground(page: "Page") -> None:
    colours = page.evaluate(
        "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
    )
    one, two = (sum(int(part) for part in c[4:-1].split(",")) / 3 for c in colours)
    assert abs(one - two) > 150


def test_it_prints(page: "Page") -> None:
    printed = page.pdf(prefer_css_page_size=True)
    assert printed.startswith(b"%PDF")
    pages = printed.count(b"/Type /Page\n") or printed.count(b"/Type /Page ")
    assert pages <= 12
