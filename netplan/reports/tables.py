"""The tables of an answer for programs: CSV, and frames of pandas; raw values under their names."""

import csv
import io
from collections.abc import Iterable
from typing import TYPE_CHECKING

from netplan.reports.escape import strip_control
from netplan.reports.quantities import Cell
from netplan.reports.sections import Section, data_tables, flat_records

if TYPE_CHECKING:
    import pandas as pd

# A spreadsheet takes a cell that starts like this for a formula.
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def csv_text(sections: Iterable[Section]) -> str:
    """All tables as one CSV with a header; a first column says the table, if there are several.

    Text that a spreadsheet would take for a formula is quoted with ``'``.

    Examples
    --------
    >>> from netplan.reports.sections import Table, column
    >>> table = Table("rows", [column("fabric", str), column("switches", len)], ["=1+1"])
    >>> print(csv_text([table]), end="")
    fabric,switches
    '=1+1,4
    """
    tables = data_tables(sections)
    records = flat_records(tables)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if records:
        writer.writerow(records[0])
        writer.writerows([inert(value) for value in record.values()] for record in records)
    elif tables:
        writer.writerow([quantity.name for quantity in tables[0].quantities])
    return text.getvalue()


def inert(value: Cell) -> Cell:
    """A value that no spreadsheet takes for a formula, and no terminal for a command."""
    if not isinstance(value, str):
        return value
    text = strip_control(value)
    return "'" + text if value.startswith(FORMULA_STARTS) else text


def frame(sections: Iterable[Section]) -> "pd.DataFrame":
    """The first table as a frame, its first column as the index."""
    import pandas as pd

    first = data_tables(sections)[0]
    names = [quantity.name for quantity in first.quantities]
    return pd.DataFrame(first.rows, columns=names).set_index(names[0])
