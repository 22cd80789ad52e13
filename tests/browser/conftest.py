"""A real browser with the network blocked, and a page that fails if it asks or complains.

A test file gives the fixture ``report``: the path of the page to open.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    """Chromium, anew a file: no other event loop may start beside that which Playwright keeps."""
    if not CHROMIUM.exists():
        pytest.skip("needs Debian's chromium: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright (extra dev)")
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=str(CHROMIUM), args=list(FLAGS))
        yield chromium
        chromium.close()


@pytest.fixture(params=[("light", 1280), ("dark", 390)], ids=["laptop-light", "phone-dark"])
def page(request: pytest.FixtureRequest, browser: "Browser", report: Path) -> Iterator["Page"]:
    """The report, opened; leaving fails if it asked for anything else or wrote to the console."""
    scheme, width = request.param
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
    opened = context.new_page()
    requests: list[str] = []
    faults: list[str] = []
    opened.on("request", lambda asked: requests.append(asked.url))
    opened.on("console", lambda message: faults.append(message.text))
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.goto(report.as_uri())
    opened.locator(".chart").last.locator(".plot:visible").wait_for()
    yield opened
    context.close()
    assert requests == [report.as_uri()]
    assert faults == []
