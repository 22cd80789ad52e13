"""A small calculator for the formulas of our spreadsheets, independent of what wrote them."""

import re
import subprocess
from pathlib import Path
from typing import Any

from openpyxl import Workbook

CELL = re.compile(r"(?:'([^']+)'!|(\w+)!)?\$?([A-Z]+)\$?(\d+)(?::\$?([A-Z]+)\$?(\d+))?")
NAMES = {"SUM": sum, "IF": lambda condition, yes, no: yes if condition else no}


def evaluate(book: Workbook, sheet: str, cell: str) -> Any:  # noqa: ANN401 - any cell
    """Value of a cell: formulas are worked out from the cells they name, never from the cache."""
    value = book[sheet][cell].value
    if not (isinstance(value, str) and book[sheet][cell].data_type == "f"):
        return value
    arguments: list[Any] = []

    def replace(match: re.Match[str]) -> str:
        there = match.group(1) or match.group(2) or sheet
        first, last = f"{match.group(3)}{match.group(4)}", match.group(5)
        if last is None:
            found = evaluate(book, there, first)
            arguments.append(0 if found is None else found)  # as a spreadsheet takes an empty cell
        else:
            area = book[there][f"{first}:{last}{match.group(6)}"]
            found = [evaluate(book, there, inner.coordinate) for row in area for inner in row]
            arguments.append([number for number in found if isinstance(number, int | float)])
        return f"arguments[{len(arguments) - 1}]"

    text = CELL.sub(replace, value.removeprefix("="))
    python = re.sub(r"(?<![<>=])=(?!=)", "==", text.replace("^", "**"))
    # The branch of IF that is not taken may divide by zero.
    python = re.sub(r"IF\((.+?),(.+?),(.+)\)$", r"((\2) if (\1) else (\3))", python)
    return eval(python, {"__builtins__": {}}, NAMES | {"arguments": arguments})  # noqa: S307


def recalculated(path: Path) -> Path:
    """The file as LibreOffice opens, works out and saves it."""
    out = path.parent / "recalculated"
    profile = f"-env:UserInstallation=file://{path.parent / 'profile'}"
    subprocess.run(
        ["soffice", profile, "--headless", "--convert-to", "xlsx", "--outdir", out, path],  # noqa: S607
        check=True,
        capture_output=True,
        timeout=120,
    )
    return out / path.name
