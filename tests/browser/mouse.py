"""What the mouse does on a page."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page


def hovered(page: "Page", chart: str, marks: "Locator") -> str:
    """What a chart says of the middle one of some marks when the mouse rests on it."""
    mark = marks.nth(marks.count() // 2)
    mark.scroll_into_view_if_needed()
    box = mark.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_selector(f"{chart} .hovertext")
    return page.locator(f"{chart} .hovertext").first.text_content() or ""
