"""The report of a study without a mouse and on paper: keys, numbers as tables, jumps, page one."""

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.points import kept_study

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("study") / "hb-size.html"
    path.write_text(kept_study("hb-size-paper").html(), encoding="utf-8")
    return path


def test_names_of_a_legend_are_buttons(page: "Page") -> None:
    button = page.locator("#chart-1-1 .legend button").last
    series = button.get_attribute("data-series")
    marks = page.locator(f'#chart-1-1 .plot:visible g[data-series="{series}"]')
    for key, pressed in (("Enter", "false"), (" ", "true")):
        button.focus()
        page.keyboard.press(key)
        assert button.get_attribute("aria-pressed") == pressed
        assert marks.first.is_visible() == (pressed == "true")
        # The key stays where it was, so that the next one undoes it.
        assert page.evaluate("document.activeElement.dataset.series") == series
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_every_chart_has_its_numbers_as_a_table(page: "Page") -> None:
    for chart in page.locator(".chart").all():
        place = chart.get_attribute("aria-details")
        table = page.locator(f"#{place} table")
        assert table.count() == 1
        assert not table.is_visible()
        page.locator(f"#{place} summary").press("Enter")
        assert table.is_visible()
        assert table.locator("tbody tr").count() > 10


def test_contents_lead_to_what_the_page_shows(page: "Page") -> None:
    links = page.get_by_role("navigation", name="Contents").get_by_role("link")
    assert links.count() >= 4
    links.last.press("Enter")
    box = page.get_by_role("heading", name="Points", exact=True).bounding_box()
    assert box is not None
    assert 0 <= box["y"] < 900


def test_the_first_printed_page_is_a_summary(page: "Page", tmp_path: Path) -> None:
    if not shutil.which("pdftotext"):
        pytest.skip("needs poppler")
    page.pdf(path=tmp_path / "page.pdf", prefer_css_page_size=True)
    command = ["pdftotext", "-l", "1", str(tmp_path / "page.pdf"), "-"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    front = "".join(done.stdout.replace("-", "").split())  # lines break at hyphens, which go
    verdict = page.locator(".verdict").text_content() or ""
    title = page.locator("h1").text_content() or ""
    first = page.locator("h2").first.text_content() or ""
    for told in (title, verdict, first):
        assert "".join(told.replace("-", "").split()) in front
    assert "InputSHA256" not in front
