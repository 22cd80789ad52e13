"""What holds of every answer on a terminal, read back from its lines.

The lines are read without a word of what drew them: tables begin at their rule, numbers are made of
their signs again. What they should say is taken from the sections and the JSON of the answer.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from math import floor, log10
from operator import methodcaller
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from netplan.reports.answer import Answer
from netplan.reports.quantities import Quantity
from netplan.reports.sections import Column, Notes, Section, Table, shown_in
from tests.cli.command import Done, netplan

WIDTHS = (80, 120, 140)
WIDE = 120
"""Columns from which tables show what is only for wide terminals, as the guide says."""
SIGNS = "*≥≤~†‡"
"""Signs beside a value, which some sentence explains."""
PREFIXES = {"n": 1e-9, "µ": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
            "P": 1e15, "E": 1e18}  # fmt: skip
NUMBER = re.compile(r"(-?[\d,]*\.?\d+)(?:e([+-]\d+))?(?: (\S+))?")


@contextmanager
def kept_answers() -> Iterator[list[Answer]]:
    """The answers whose text is asked for meanwhile."""
    answers: list[Answer] = []
    text = Answer.text

    def keeping(answer: Answer, *widths: int, **ways: bool) -> str:
        answers.append(answer)
        return text(answer, *widths, **ways)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Answer, "text", keeping)
        yield answers


def asked(*words: str, columns: int = 80, cwd: Path | None = None) -> tuple[Done, Answer]:
    """What a command left behind, and the answer that it showed."""
    with kept_answers() as answers:
        done = netplan(*words, columns=columns, cwd=cwd)
    assert answers, done.stderr
    return done, answers[0]


def check_layout(answer: Answer, widths: Iterable[int] = WIDTHS) -> None:
    """Lines that fit, tables whose numbers stand below their titles, signs and notes with sense."""
    for width in widths:
        check_lines(answer.text(width), width)
        details = answer.text(width, details=True)
        check_lines(details, width)
        check_tables([*answer.sections()], details, width)
    told = answer.to_dict()
    check_notes([*answer.sections()], told)
    shown = " ".join(answer.text(details=True).split())
    rows = [told, *(row for row in told.get("fabrics", ()) if isinstance(row, dict))]
    for note in (note for row in rows for note in row.get("notes", ())):
        assert " ".join(note.split()) in shown
    check_numbers([*answer.sections()], told)


def check_lines(text: str, width: int) -> None:
    """No line too long, none that ends with a space, no two empty ones."""
    lines = text.split("\n")
    assert lines[-1] == ""
    assert [line for line in lines if cell_len(line) > width or line != line.rstrip()] == []
    assert "\n\n\n" not in text


def tables_of(sections: Iterable[Section]) -> list[Table[Any]]:
    """Tables that a terminal shows."""
    shown = shown_in("wide", sections)
    return [section for section in shown if isinstance(section, Table) and section.rows]


def check_tables(sections: Sequence[Section], text: str, width: int) -> None:
    """Every column of every table in their order, what its cells say, and where numbers end."""
    lines = text.splitlines()
    rules = (number for number, line in enumerate(lines) if line and set(line) == {"─"})
    prose = "\n".join(line for line in lines if "   " not in line)
    for table in tables_of(sections):
        columns = shown_in("wide" if width >= WIDE else "narrow", table.columns)
        shown: list[Column[Any]] = []
        while len(shown) < len(columns):
            rule = next(rules)
            part = columns[:1] if shown else []
            for column in columns[len(shown) :]:
                if not ends_of(lines[rule - 1], [*part, column], title):
                    break
                part = [*part, column]
            assert len(part) > bool(shown), (table.name, lines[rule - 1])
            shown += part[bool(shown) :]
            ends = [ends_of(lines[rule - 1], part, title)]
            below = iter(lines[rule + 1 :])
            for row in (*table.rows, *table.closing):
                found = (ends_of(line, part, methodcaller("text", row)) for line in below)
                ends.append(next(filter(None, found), ()))
                assert ends[-1], (table.name, [column.text(row) for column in part])
            for column, places in zip(part, zip(*ends, strict=True), strict=True):
                assert not column.quantity.right or len({*places} - {0}) == 1, column.quantity
        titles = " ".join(map(title, columns))
        for row, column in product((*table.rows, *table.closing), columns):
            check_cell(column.quantity, column.get(row), column.text(row))
            for sign in set(SIGNS).intersection(column.text(row)):
                assert sign in prose + titles, (table.name, column.text(row))


def title(column: Column[Any]) -> str:
    """What stands above a column."""
    return column.quantity.title


def ends_of(
    line: str, columns: Sequence[Column[Any]], text: Callable[[Column[Any]], str]
) -> tuple[int, ...]:
    """Where the cell of each column ends; 0 for an empty one, nothing if it is another line.

    Texts may go on below, as titles may begin above.
    """
    ends: list[int] = []
    at = 0
    for column in columns:
        cell = text(column).strip()
        at += len(line[at:]) - len(line[at:].lstrip(" "))
        left = line[at:].partition("   ")[0]
        if not cell:
            ends.append(0)
            continue
        if line.startswith(cell, at):
            at += len(cell)
        elif left and not column.quantity.right and (text is title or cell.startswith(left)):
            if not cell.startswith(left) and not cell.endswith(left):
                return ()
            at += len(left)
        else:
            return ()
        ends.append(at)
    return tuple(ends)


def check_cell(quantity: Quantity, value: object, text: str) -> None:
    """What people read is the raw value, to half of its last digit."""
    if not quantity.numeric or isinstance(value, (str, bool)) or value is None:
        return
    number = NUMBER.search(text)
    assert number, (quantity.name, text)
    digits, power, unit = number.groups()
    factor = {"percent": 0.01, "si": 1.0}.get(quantity.form, quantity.scale)
    if quantity.form == "si":
        prefix = (unit or "").removesuffix(quantity.suffix or quantity.unit)
        factor = PREFIXES[prefix]
    factor *= 10.0 ** int(power or 0)
    read = float(digits.replace(",", ""))
    step = 10.0 ** -len(digits.partition(".")[2])
    if quantity.form in ("general", "si"):  # zeros behind the last digit are left out
        step = 10.0 ** (floor(log10(abs(read))) + 1 - quantity.digits) if read else 0.0
    assert read * factor == pytest.approx(value, abs=0.501 * step * factor), (quantity.name, text)
    check_scale(quantity)


def check_scale(quantity: Quantity) -> None:
    """A title such as ``kW`` or ``M USD`` divides by what its prefix says."""
    title, unit = quantity.title, quantity.unit
    for prefix, factor in PREFIXES.items():
        if unit and prefix and title in (f"{prefix}{unit}", f"{prefix} {unit}"):
            assert quantity.scale == factor, quantity.name


def check_notes(sections: Sequence[Section], told: Mapping[str, Any]) -> None:
    """Notes on a fabric, or on the row of a number, are about one that is there."""
    rows = {word for table in tables_of(sections) for row in table.rows
            for column in table.columns for word in [column.text(row).rstrip(" *†~")]}  # fmt: skip
    rows |= {leaf for leaf in leaves(told) if isinstance(leaf, str)}
    fabrics = {path.stem for path in (Path(__file__).parents[2] / "topologies").glob("*.yaml")}
    for section in sections:
        for subject, text in section.groups if isinstance(section, Notes) else ():
            assert text.strip()
            names = {name for name in subject.split(", ") if name in fabrics or name.isdecimal()}
            assert names <= rows, (names - rows, text)


DERIVED = {
    *("against", "cables", "design", "exchange_share", "hops", "length_m", "lines_offered", "loss"),
    *("network_kw", "order", "partition", "runner_up", "servers_kw", "share", "sram_used"),
    *("swing", "tiles_used", "units", "used_units"),
}
"""Quantities that programs work out of others: sums, shares, differences."""


def check_numbers(sections: Sequence[Section], told: Mapping[str, Any]) -> None:
    """The numbers of tables are those of the JSON."""
    known = {f"{leaf:.9g}" for leaf in leaves(told) if isinstance(leaf, (int, float))}
    for table in tables_of(sections):
        for row, column in product(table.rows, shown_in("wide", table.columns)):
            value, name = column.get(row), column.quantity.name
            if isinstance(value, (int, float)) and column.quantity.numeric:
                derived = name in DERIVED or name.startswith("total of ")
                assert derived or f"{value:.9g}" in known, (table.name, name, value)


def leaves(data: object) -> Iterator[object]:
    """All values of JSON, without their keys."""
    if isinstance(data, (dict, list, tuple)):
        for part in data.values() if isinstance(data, dict) else data:
            yield from leaves(part)
    else:
        yield data


def schema_of(sections: Iterable[Section]) -> list[tuple[str, str, str]]:
    """Title, columns with the units of their raw values, and first cells of rows of each table."""
    schema = []
    for table in tables_of(sections):
        columns = shown_in("wide", table.columns)
        named = (f"{title(column)} [{column.quantity.unit}]" for column in columns)
        rows = (columns[0].text(row) for row in (*table.rows, *table.closing))
        schema.append((table.title, " | ".join(named).replace(" []", ""), ", ".join(rows)))
    return schema
