"""Pages of questions in a real browser: readable, within the page, named, usable by keyboard.

Text stands out by a contrast of 4.5, as the guidelines for accessible pages (WCAG 2.2, 1.4.3) ask
of text of any size.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import netplan
from netplan.reports.answer import Answer
from netplan.studies.answer import StudyAnswer
from tests.points import kept_study

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ElementHandle, Page

pytestmark = pytest.mark.slow


def one_chip(answer: StudyAnswer) -> StudyAnswer:
    """A quarter of the study of serving: names as long as any, lines on one another, bars."""
    return StudyAnswer(answer.study, answer.rows[: len(answer.rows) // 4])


PAGES: dict[str, Callable[[], Answer]] = {
    "study": lambda: kept_study("hb-size-paper"),
    "long names": lambda: one_chip(kept_study("serving")),
    "optimize": lambda: netplan.optimize("rail-only-paper", gpus=4608, radices=(64, 128)),
    "loads": lambda: netplan.loads("rail-only-paper", gpus=1024, radix=64, fabric="rail-optimized"),
    "faults": lambda: netplan.faults("rail-only-paper", gpus=512, radix=64, fabrics=("rail-only",)),
    "traffic": lambda: netplan.traffic("rail-only-paper", gpus=1024),
    "procurement": lambda: netplan.procurement(
        "rail-only-paper", gpus=1024, radix=64, prices="2026"
    ),
}
SERVED: dict[str, Any] = {"gpus": 64, "model": "deepseek-r1", "precision": "fp8"}
MORE: dict[str, Callable[[], Answer]] = {
    "compare": lambda: netplan.compare("rail-only-paper", gpus=1024, radix=64),
    "cost": lambda: netplan.cost("rail-only-paper", gpus=1024, radix=64),
    "serving": lambda: netplan.serving("serving-70b-h200", **SERVED),
    "served faults": lambda: netplan.faults(
        "serving-70b-h200",
        **SERVED,
        workload="serving",
        fabrics=("rail-only",),
        prices="rail-only-2023",
    ),
    "map": lambda: netplan.map("rail-only-paper", gpus=512),
    "grow": lambda: netplan.grow("rail-only-paper", phases=(512, 1024), radix=64, prices="2026"),
}
"""Pages that are only looked at, on a laptop and on a phone."""

WIDTHS = (1280, 390, 360)
LOOKS = (Path(__file__).parent / "looks.js").read_text(encoding="utf-8")
USED = "a[href], button, input, select, textarea, summary, [tabindex='0']"
SHOWN = "all => all.filter(one => one.checkVisibility() && !one.disabled)"


@pytest.fixture(scope="module", params=list(PAGES))
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pages") / f"{request.param}.html"
    path.write_text(PAGES[request.param]().html(), encoding="utf-8")
    return path


def opened(browser: "Browser", path: Path, width: int) -> tuple["Page", list[str]]:
    """The page with its charts drawn, and what it writes to the console or asks of others."""
    page = browser.new_context(viewport={"width": width, "height": 900}).new_page()
    faults: list[str] = []
    page.on("console", lambda message: faults.append(message.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", lambda asked: faults.append(asked.url))
    page.goto(path.as_uri())
    for chart in page.locator(".chart").all():
        chart.locator(".plot:visible").wait_for()
    return page, faults


@pytest.mark.parametrize("width", WIDTHS)
def test_it_can_be_read(browser: "Browser", path: Path, width: int) -> None:
    page, faults = opened(browser, path, width)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate(LOOKS) == [], scheme
    assert faults == [path.as_uri()]
    page.context.close()


@pytest.mark.parametrize("name", MORE)
def test_more_pages_can_be_read(browser: "Browser", tmp_path: Path, name: str) -> None:
    path = tmp_path / "page.html"
    path.write_text(MORE[name]().html(), encoding="utf-8")
    for width, scheme in ((1280, "light"), (390, "dark")):
        page, faults = opened(browser, path, width)
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        assert page.evaluate(LOOKS) == []
        assert faults == [path.as_uri()]
        page.context.close()


def test_the_tab_key_reaches_all_that_can_be_used(browser: "Browser", path: Path) -> None:
    page, _ = opened(browser, path, 1280)
    parts: list[ElementHandle] = page.query_selector_all(USED)
    page.evaluate("window.reached = new Set()")
    page.evaluate("document.addEventListener('focusin', event => reached.add(event.target))")
    for _ in range(len(parts) + 1):
        page.keyboard.press("Tab")
    missed = f"all => ({SHOWN})(all).filter(one => !reached.has(one)).map(one => one.outerHTML)"
    assert [text[:120] for text in page.eval_on_selector_all(USED, missed)] == []
    page.context.close()
