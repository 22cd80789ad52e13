"""A table as the template draws it: columns, rows of text, the row that matters."""

from collections.abc import Sequence
from dataclasses import dataclass

LEFT, RIGHT = "text", "number"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under columns.

    Parameters
    ----------
    columns
        Titles; one that ends with ``>`` stands above numbers, which are aligned to the right.
    rows
        One text a column.
    strong
        Row that is set off, counted from 0; a negative one counts from the end.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    strong: int | None = None

    @property
    def heads(self) -> list[tuple[str, str]]:
        """Title and alignment of every column."""
        return [(title.removesuffix(">"), self._kind(title)) for title in self.columns]

    @property
    def lines(self) -> list[tuple[bool, list[tuple[str, str]]]]:
        """Rows as cells with their alignment, and whether a row is set off."""
        kinds = [self._kind(title) for title in self.columns]
        strong = None if self.strong is None else self.strong % len(self.rows)
        return [
            (number == strong, list(zip(row, kinds, strict=True)))
            for number, row in enumerate(self.rows)
        ]

    @staticmethod
    def _kind(title: str) -> str:
        return RIGHT if title.endswith(">") else LEFT


def table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], strong: int | None = None
) -> Table:
    """Make a table.

    Examples
    --------
    >>> table(("Fabric", "kW>"), [("rail-only", "1,581")]).heads
    [('Fabric', 'text'), ('kW', 'number')]
    """
    return Table(tuple(columns), tuple(tuple(row) for row in rows), strong)
