"""What the mouse does on a page."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page


def hovered(page: "Page", chart: str, series: int) -> str:
    """What a chart says of the middle one of the marks of a series when the mouse rests on it."""
    titles = page.locator(f'{chart} .plot.wide g[data-series="{series}"] title')
    return titles.nth(titles.count() // 2).text_content() or ""
