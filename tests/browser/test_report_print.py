"""The report on paper, as a browser prints it of itself: ten questions answered on two pages."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from netplan.procurement.report import Procurement, procurement

pytestmark = pytest.mark.slow
CHROMIUM = shutil.which("chromium")
HALL: dict[str, object] = {
    "gpus": 1024,
    "radix": 64,
    "hb_size": 8,
    "accelerator": "h100-80gb",
    "switch": "qm9700",
    "spares": ("2%",),
    "floor_plan": "example-hall",
    "with_faults": True,
}


def printed(answer: Procurement, folder: Path, order: str = "-layout") -> list[str]:
    """Text of every page, headers of the browser not switched off; cell by cell if raw."""
    page, paper = folder / "report.html", folder / "report.pdf"
    page.write_text(answer.html(), encoding="utf-8")
    options = ("--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'user'}")
    command = [str(CHROMIUM), *options, f"--print-to-pdf={paper}", page.as_uri()]
    subprocess.run(command, check=True, capture_output=True, timeout=90)
    done = subprocess.run(
        [str(shutil.which("pdftotext")), order, str(paper), "-"],
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.split("\f")[:-1]


@pytest.mark.skipif(not (CHROMIUM and shutil.which("pdftotext")), reason="needs chromium, poppler")
@pytest.mark.parametrize("asked", [{"gpus": 32768, "radix": 128}, HALL])
def test_two_pages_answer_ten_questions(asked: dict[str, object], tmp_path: Path) -> None:
    answer = procurement("rail-only-paper", **asked, prices="2026")
    pages = printed(answer, tmp_path)
    assert not any("file:" in page or "report.html" in page for page in pages)
    for number, page in enumerate(pages, start=1):
        assert f"{number} of {len(pages)}" in page
        assert sum(bool(line.strip()) for line in page.splitlines()) > 4
    front = " ".join(" ".join(pages[:2]).split())
    bill, scale = answer.chosen, answer.cost.scale
    largest = max(
        (item for item in bill.quote.items if item.price), key=lambda item: item.total.base
    )
    assert largest.price is not None
    assert bill.power_w is not None
    for told in (
        bill.name,
        scale.number(bill.capital.base),
        f"{scale.number(bill.capital.low)} to {scale.number(bill.capital.high)}",
        "Why: lowest cost within 5 % of the fastest iteration time",
        "Not priced, not known",
        "Lead time of the order",
        f"{bill.power_w / 1e3:,.1f}",
        largest.price.source.split()[0],
        "What would change the verdict",
    ):
        assert told in front, told
    proof = " ".join(" ".join(pages[:3]).split())
    assert "Weakest part: leaf switch" in proof  # a tie with long answers needs a third page
    # No table of inputs breaks, which would repeat its head on the next page.
    heads = [line.split()[:1] for page in pages for line in page.splitlines()]
    assert heads.count(["Input"]) == 1


@pytest.mark.skipif(not (CHROMIUM and shutil.which("pdftotext")), reason="needs chromium, poppler")
@pytest.mark.parametrize(
    ("scenario", "asked"),
    [("hgx-b200", {"gpus": 32768}), ("nvl72-gb300", {"gpus": 4608}), ("hgx-h100", {"gpus": 1024})],
    ids=["b200", "gb300", "h100"],
)
def test_the_ten_answers_stand_on_the_first_page(
    scenario: str, asked: dict[str, object], tmp_path: Path
) -> None:
    answer = procurement(scenario, **asked)
    assert answer.decision is not None
    assert answer.decision.answers is not None
    first, second, *_ = (" ".join(page.split()) for page in printed(answer, tmp_path, "-raw"))
    rows = answer.decision.answers.rows()
    assert len(rows) == 10
    for question, told in rows:
        assert told.strip()
        # A line may break behind a hyphen.
        assert "".join(f"{question}{told}".split()) in "".join(first.split()), question
    # The figures behind them follow at once.
    assert re.search("The (order|cheapest) beside the (runner-up|next)", f"{first} {second}")
    assert "Not priced, not known" in second
