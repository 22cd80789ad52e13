"""What pages of answers show in a real browser: traffic as heat, a front, failures in colour."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

import netplan
from netplan.reports.answer import Answer

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow
LOOKS: tuple[tuple[int, Literal["light", "dark"]], ...] = ((1280, "light"), (390, "dark"))


def shown(browser: "Browser", folder: Path, answer: Answer) -> list["Page"]:
    """The page on a laptop in the light and on a phone in the dark."""
    path = folder / "page.html"
    path.write_text(answer.html(), encoding="utf-8")
    pages = []
    for width, scheme in LOOKS:
        view = {"width": width, "height": 900}
        page = browser.new_context(viewport=view, color_scheme=scheme).new_page()  # type: ignore[arg-type]
        page.goto(path.as_uri())
        pages.append(page)
    return pages


def test_the_heat_map_is_darker_for_more_and_gives_its_numbers_to_the_keyboard(
    browser: "Browser", tmp_path: Path
) -> None:
    for page in shown(browser, tmp_path, netplan.traffic("rail-only-paper", gpus=1024)):
        drawn = page.locator("svg.drawing:has(.cell)")
        assert "stay inside a block" in (drawn.get_attribute("aria-label") or "")
        cells = drawn.locator("rect.cell:has(title)")
        fills = cells.evaluate_all(
            "all => all.map(one => [+one.style.getPropertyValue('--depth'),"
            " getComputedStyle(one).fill])"
        )
        depths = {depth for depth, _ in fills}
        assert len(depths) > 1
        assert len({fill for _, fill in fills}) == len(depths)
        page.locator("details > summary").focus()
        page.keyboard.press("Enter")
        row = page.locator("details tbody tr").first
        assert row.is_visible()
        assert "GPU 0 to" in page.locator("details").inner_text()
        page.context.close()


def test_the_front_names_its_designs_and_marks_the_verdict(
    browser: "Browser", tmp_path: Path
) -> None:
    asked = {"gpus": 4096, "accelerator": "h100-80gb", "hb_sizes": (8,), "prices": "2026"}
    for page in shown(
        browser, tmp_path, netplan.optimize("rail-only-paper", **asked, radices=(64, 128))
    ):
        chart = page.locator("#chart-front")
        chart.locator(".plot:visible").wait_for()
        legend = chart.locator(".legend button").all_text_contents()
        assert legend == ["beaten", "Pareto front", "the verdict's"]
        assert "On the front, from the left: 1 " in page.locator(".said").first.inner_text()
        page.context.close()


def test_what_has_failed_has_another_colour(browser: "Browser", tmp_path: Path) -> None:
    asked = {"gpus": 64, "radix": 16, "hb_size": 8, "model": "gpt-22b", "years": 5}
    answer = netplan.faults("rail-only-paper", **asked, fabrics=("rail-only",), fail=("leaf=1",))
    for page in shown(browser, tmp_path, answer):
        stroke = "one => getComputedStyle(one).stroke"
        failed = page.locator(".wire.failed").first.evaluate(stroke)
        whole = page.locator(".wire:not(.failed)").first.evaluate(stroke)
        assert failed != whole
        assert page.locator(".node.switch.failed").count() == 1
        for key in ("capacity-switch", "capacity-link"):
            page.locator(f"#chart-{key} .plot:visible").wait_for()
        page.context.close()
