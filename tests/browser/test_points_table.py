"""The table of a study's points in a real browser: sorted, filtered and kept as CSV."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.studies.test_study_page import LINES, answered

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.slow


def test_points_are_sorted_filtered_and_kept(browser: "Browser", tmp_path: Path) -> None:
    path = tmp_path / "points.html"
    path.write_text(answered(LINES).html(), encoding="utf-8")
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    faults: list[str] = []
    page.on("console", lambda message: faults.append(message.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto(path.as_uri())
    table = page.locator("table.stacked", has=page.get_by_role("button", name="point")).last
    rows = table.locator("tbody tr:visible")
    assert rows.count() == 8
    # 1e4 / domain / GPUs: 1.221 s at 8 and 1,024 down to 0.07629 s at 64 and 2,048.
    title = table.get_by_role("button", name="iteration time")
    title.focus()
    page.keyboard.press("Enter")
    assert "0.07629" in (rows.first.text_content() or "")
    page.keyboard.press("Enter")
    assert "1.221" in (rows.first.text_content() or "")
    assert table.locator("th[aria-sort=descending]").count() == 1
    page.get_by_label("Filter rows").last.fill("2,048")
    assert rows.count() == 4
    with page.expect_download() as started:
        page.get_by_role("button", name="Download rows as CSV").last.click()
    lines = Path(started.value.path()).read_text(encoding="utf-8").splitlines()
    assert len(lines) == 5
    assert lines[0].startswith('"point"')
    assert '"2,048"' in lines[1]
    assert faults == []
    page.close()


def test_cards_of_a_phone_are_sorted_by_a_choice(browser: "Browser", tmp_path: Path) -> None:
    path = tmp_path / "points.html"
    path.write_text(answered(LINES).html(), encoding="utf-8")
    page = browser.new_page(viewport={"width": 360, "height": 800})
    page.goto(path.as_uri())
    tools = page.locator(".tools").last
    card = page.locator("#part-5 table.stacked, main table.stacked").last.locator("tbody tr").first
    assert not page.get_by_role("button", name="point", exact=True).last.is_visible()
    tools.get_by_label("Sort by").select_option("iteration time, s")
    assert "0.07629" in (card.text_content() or "")
    tools.get_by_role("button", name="Ascending").press("Enter")
    assert "1.221" in (card.text_content() or "")
    titles = "all => all.map(one => getComputedStyle(one, '::before').content)"
    said = card.locator("td").evaluate_all(titles)
    assert '"point"' in said
    assert '"iteration time, s"' in said
    page.close()
