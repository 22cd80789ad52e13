"""The examples run as they stand."""

import re
import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(path), run_name="__main__")
    printed = capsys.readouterr().out
    assert len(printed.splitlines()) > 3
    amounts = re.findall(r"(-?[\d,]+(?:\.\d+)?) M? ?USD", printed)
    assert amounts
    assert min(float(amount.replace(",", "")) for amount in amounts) >= 0
