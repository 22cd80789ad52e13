"""The table of a study's points in a real browser: sorted, filtered and kept as CSV."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.studies.test_study_page import GPUS, LINES, answered

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


def test_tables_of_pages_without_charts_are_sorted_too(browser: "Browser", tmp_path: Path) -> None:
    domains = {"input": "hb_size", "values": [8, 16, 32, 64, 128, 256]}
    html = answered(axes=(domains, GPUS)).html()
    path = tmp_path / "points.html"
    path.write_text(html, encoding="utf-8")
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    faults: list[str] = []
    page.on("console", lambda message: faults.append(message.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto(path.as_uri())
    table = page.locator("table.sortable").last
    table.get_by_role("button", name="iteration time").click()
    # 1e4 / 256 / 2,048 is the least.
    assert "0.01907" in (table.locator("tbody tr").first.text_content() or "")
    assert faults == []
    page.close()


def test_small_drawings_of_one_chart_stand_side_by_side(browser: "Browser", tmp_path: Path) -> None:
    path = tmp_path / "points.html"
    path.write_text(answered({**LINES, "each": "gpus"}).html(), encoding="utf-8")
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(path.as_uri())
    page.wait_for_selector(".chart .plot.narrow")
    boxes = [one.bounding_box() for one in page.locator(".beside > section").all()]
    one, two = (box for box in boxes if box is not None)
    assert one["y"] == two["y"]
    assert one["x"] + one["width"] < two["x"]
    assert one["width"] == pytest.approx(two["width"], abs=1)
    page.set_viewport_size({"width": 390, "height": 844})
    above, below = (each.bounding_box() for each in page.locator(".beside > section").all())
    assert above is not None
    assert below is not None
    assert below["y"] > above["y"] + above["height"]
    page.close()
