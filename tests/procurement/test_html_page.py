"""The HTML report: sound, escaped, self-contained, the same bytes, the same numbers."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from netplan.procurement.report import Procurement, procurement
from netplan.procurement.side_by_side import driver_chart, speed_chart
from netplan.reports.charts import Chart
from netplan.reports.page import content_hash

HOSTILE = "<script>alert(1)</script>"
VOID = {"meta", "link", "br", "img", "hr", "input"}
LOADING = {"src", "href", "srcset", "data", "action", "poster", "xlink:href", "background"}


class Page(HTMLParser):
    """Elements, attributes that load, scripts and text; fails on tags that do not nest."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.loads: list[tuple[str, str]] = []
        self.handlers: list[str] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        self.loads += [(tag, value or "") for key, value in attrs if key in LOADING]
        self.handlers += [key for key, _ in attrs if key.startswith("on")]
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            attrs, before = self.scripts[-1]
            self.scripts[-1] = (attrs, before + data)
        else:
            self.text.append(data)


def parsed(html: str) -> Page:
    page = Page()
    page.feed(html)
    page.close()
    assert page.open == []
    return page


def charts_of(answer: Procurement) -> list[Chart]:
    return [section for section in answer.sections() if isinstance(section, Chart)]


@pytest.fixture(scope="module")
def answer() -> Procurement:
    return procurement("rail-only-paper", gpus=32768, radix=128, prices="2026")


@pytest.fixture(scope="module")
def html(answer: Procurement) -> str:
    return answer.html()


@pytest.fixture(scope="module")
def page(html: str) -> Page:
    return parsed(html)


def test_page_is_sound_and_small(html: str, page: Page) -> None:
    assert html.startswith("<!DOCTYPE html>")
    assert len(html.encode()) < 1_500_000
    assert page.tags.count("h1") == 1
    assert html.count('class="drawing"') == 2
    # Each chart for a wide and for a narrow screen.
    assert html.count('class="plot wide"') == html.count('class="plot narrow"') == 4


def test_nothing_is_loaded_and_only_one_script_may_run(html: str, page: Page) -> None:
    # Links lead to chapters of the page alone.
    assert {tag for tag, _ in page.loads} == {"a"}
    assert {to for _, to in page.loads} == {
        f"#{key}" for key in re.findall(r'<section id="(\w+)"', html)
    }
    assert page.handlers == []
    assert "link" not in page.tags
    assert not re.search(r"url\(|@import", html[: html.index("</style>")])
    running = [text for attrs, text in page.scripts if attrs.get("type") is None]
    assert len(running) == 1
    policy = html[html.index("Content-Security-Policy") : html.index('name="viewport"')]
    assert "default-src 'none'" in policy
    assert re.findall(r"sha256-[\w+/=]+", policy) == [content_hash(text) for text in running]


def test_same_question_gives_the_same_bytes(html: str) -> None:
    assert procurement("rail-only-paper", gpus=32768, radix=128, prices="2026").html() == html


def test_totals_are_those_of_the_json(answer: Procurement, page: Page) -> None:
    text = " ".join(page.text)
    for row in answer.to_dict()["cost"]["fabrics"]:
        assert row["cost"] is None or f"{row['capital']['base'] / 1e6:,.1f}" in text
    assert f"{answer.chosen.capital.base:,.0f}" in text
    for item in answer.chosen.quote.items:
        assert item.line.item in text
        if item.price is not None:
            assert f"{item.total.base:,.0f}" in text


def test_bars_add_up_to_the_totals(answer: Procurement) -> None:
    price = next(chart for chart in charts_of(answer) if chart.key == "price")
    bars: list[Any] = [trace["x"] for trace in price.data if trace["type"] == "bar"]
    sums = [sum(parts) * 1e6 for parts in zip(*bars, strict=True)]
    totals = [bill.capital.base for bill in answer.cost.bills]
    assert sums == pytest.approx(totals, rel=1e-12)


def test_every_price_in_use_has_its_source_and_date(answer: Procurement, page: Page) -> None:
    text = " ".join(page.text)
    for bill in answer.cost.bills:
        for item in bill.quote.items:
            if item.price is not None:
                assert item.price.source in text
                assert item.price.date in text
    assert answer.input_sha256 in text


@pytest.mark.parametrize("name", [HOSTILE, "<b>bold</b>", "{{ 7*7 }}", "2024-01-01", "a\u202eb"])
def test_hostile_names_stay_text(tmp_path: Path, name: str) -> None:
    path = tmp_path / "mine.yaml"
    fields = {"name": name, "title": HOSTILE, "source": 'x" onload="alert(2)', "date": "2026"}
    path.write_text(
        json.dumps(fields | {"family": "rail-only", "notes": [f"</script>{HOSTILE}"]}),
        encoding="utf-8",
    )
    answer = procurement(
        "rail-only-paper",
        gpus=1024,
        radix=64,
        fabrics=(str(path), "rail-optimized"),
        timing=True,
        batch=512,
        prices="2026",
    )
    page = parsed(answer.html())
    assert page.tags.count("script") == 1
    assert page.handlers == []
    assert "b" not in page.tags
    shown = name.replace("\u202e", "\ufffd")
    assert any(shown in text for text in page.text)
    labels = json.dumps([[chart.data, chart.layout] for chart in charts_of(answer)])
    # Plotly reads tags in labels: only our own line break may be one.
    assert set(re.findall(r"<[^>]*>", labels)) <= {"<br>"}


def test_fabrics_without_bill_are_named_with_the_reason() -> None:
    answer = procurement(
        "rail-only-paper",
        gpus=2**17,
        radix=16,
        hb_size=8,
        fabrics=("rail-only", "dragonfly"),
        timing=False,
        prices="2026",
    )
    assert answer.cost.refused
    text = " ".join(parsed(answer.html()).text)
    assert answer.cost.refused[0].reason.split(":")[0] in text


def test_fabrics_that_look_the_same_share_a_point() -> None:
    fabrics = ("rail-optimized", "fat-tree", "rail-only")
    answer = procurement("rail-only-paper", gpus=32768, radix=128, fabrics=fabrics, prices="2026")
    chart = speed_chart(answer.cost, answer.timed, "rail-only", "gpt-1t")
    assert chart is not None
    assert chart.data[0]["text"] == ["rail-only", "rail-optimized and 1 more"]


def test_there_is_no_speed_chart_without_timing_and_no_tornado_without_spreads() -> None:
    answer = procurement(
        "rail-only-paper", gpus=1024, radix=64, prices="rail-only-2023", timing=False
    )
    assert speed_chart(answer.cost, answer.timed, "rail-only", "gpt-1t") is None
    assert driver_chart(answer.cost, answer.chosen, 8) is None
    page = parsed(answer.html())
    assert "the price is one number" in " ".join(page.text)
