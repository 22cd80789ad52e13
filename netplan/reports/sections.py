"""What an answer is made of: headings, tables of named quantities, notes, verdicts, charts.

A question describes its answer once, as sections. Every form of it (terminal, CSV, Markdown, HTML,
spreadsheet, frame) is made from them, and none of them knows a network.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from netplan.records import value_at
from netplan.reports.charts import Chart
from netplan.reports.quantities import Cell, Quantity, quantity

if TYPE_CHECKING:
    from markupsafe import Markup

RowT = TypeVar("RowT")
PartT = TypeVar("PartT", "Column[Any]", "Section")
Style = Literal["plain", "strong", "quiet"]
Form = Literal["narrow", "wide", "pages", "data"]
"""Forms of an answer: a narrow terminal, a wide one or Markdown, pages of HTML, what programs read
(CSV, spreadsheet, frame)."""

Shown = Literal["all", "wide", "people", "wide people", "texts", "pages", "data"]
FORMS: dict[Shown, tuple[Form, ...]] = {
    "all": ("narrow", "wide", "pages", "data"),
    "wide": ("wide", "pages", "data"),
    "people": ("narrow", "wide", "pages"),
    "wide people": ("wide", "pages"),
    "texts": ("narrow", "wide"),
    "pages": ("pages",),
    "data": ("data",),
}
"""The forms that show a column of a table or a section of an answer."""

GAP = 3
"""Columns of a terminal between two columns of a table [1]."""


def shown_in(form: Form, parts: Iterable[PartT]) -> list[PartT]:
    """Columns of a table, or sections of an answer, that a form of it shows.

    Examples
    --------
    >>> parts = Paragraph("Drawn below.", shown="pages"), Paragraph("Order rail-only.")
    >>> [part.text for part in shown_in("narrow", parts)]
    ['Order rail-only.']
    """
    return [part for part in parts if form in FORMS[getattr(part, "shown", "all")]]


class Column(Struct, Generic[RowT], frozen=True):
    """One column of a table.

    Parameters
    ----------
    quantity
        What stands in it.
    get
        Its raw value in a row; None where there is none.
    shown
        Which forms show it, of :data:`FORMS`.
    mark
        Signs before and behind the shown value of a row, which the legend explains.
    """

    quantity: Quantity
    get: Callable[[RowT], Cell]
    shown: Shown = "all"
    mark: Callable[[RowT], tuple[str, str]] | None = None

    def text(self, row: RowT) -> str:
        """The value of a row for people."""
        value = self.quantity.shown(self.get(row))
        if self.mark is None:
            return value
        before, behind = self.mark(row)
        return f"{before}{value}{behind}"


def column(
    name: str | Quantity,
    get: Callable[[RowT], Cell] | str = "",
    *,
    shown: Shown = "all",
    mark: Callable[[RowT], tuple[str, str]] | None = None,
    **changes: object,
) -> Column[RowT]:
    """Make a column of a quantity of the nomenclature, some of whose facts may be changed.

    Its values come from a function of the row, or stand at a path in it; the name is one.

    Examples
    --------
    >>> column("switches", len).text("abc"), column("mfu").quantity.title
    ('3', 'MFU')
    >>> column("price", "1.real", title="paid").text(("rail-only", 8 + 1j))
    '8'
    """
    named = quantity(name, **changes) if isinstance(name, str) else name
    read = get if callable(get) else partial(value_at, path=get or named.name)
    return Column(named, read, shown=shown, mark=mark)


def columns(*names: str, of: str = "", shown: Shown = "all") -> list[Column[Any]]:
    """Columns of quantities by the names that they have in the row, or in what stands there.

    Examples
    --------
    >>> [known.text(8 + 1j) for known in columns("real", "switches=imag")]
    ['8.0', '1']
    """
    named = (text.rpartition("=") for text in names)
    return [
        column(name or path, f"{of}.{path}" if of else path, shown=shown) for name, _, path in named
    ]


class Table(Struct, Generic[RowT], frozen=True):
    """One table.

    Parameters
    ----------
    name
        Of its data. Programs read tables of one name as one: their rows, which are the same, with
        the columns of all.
    columns, rows
        The columns, the first of which names a row.
    title
        Above it.
    legend
        What its signs and columns mean, a sentence each.
    closing
        Rows of sums, set off at the end; programs do not read them.
    part
        Rows that follow each other and have the same part stand under its name.
    shown
        Which forms show the table, of :data:`FORMS`: those of its columns that are shown there.
    chosen
        Which row is set off, such as the one to buy.
    below
        A line below a row, across all columns, that terminals show; none where it is empty.
    gap
        Columns of a terminal between two columns of the table [1].
    """

    name: str
    columns: Sequence[Column[RowT]]
    rows: Sequence[RowT]
    title: str = ""
    legend: tuple[str, ...] = ()
    closing: Sequence[RowT] = ()
    part: Callable[[RowT], str] | None = None
    shown: Shown = "all"
    chosen: Callable[[RowT], bool] | None = None
    below: Callable[[RowT], str] | None = None
    gap: int = GAP

    def parted(self) -> Iterator[tuple[str | None, RowT]]:
        """Rows, each with the name of the part that it opens, or None."""
        last = ""
        for row in self.rows:
            part = self.part(row) if self.part else ""
            yield (None if part == last else part), row
            last = part


class Heading(Struct, frozen=True):
    """What the answer is about, and the defaults it used; the first line is the title.

    One with a key opens a chapter: what follows up to the next one belongs to it.
    """

    title: str
    lines: tuple[str, ...] = ()
    key: str = ""
    shown: Shown = "all"


class Paragraph(Struct, frozen=True):
    """A text; a strong one is a verdict."""

    text: str
    style: Style = "plain"
    shown: Shown = "all"


class Notes(Struct, frozen=True):
    """Notes by subject, such as the fabrics they are about; an empty subject is everything."""

    groups: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, notes: Iterable[tuple[str, Iterable[str]]], everyone: str = "") -> "Notes":
        """Notes by subject, each once: what several subjects share stands under all their names.

        Parameters
        ----------
        notes
            Subjects and their notes.
        everyone
            Name of all subjects together; their names one by one if empty.

        Examples
        --------
        >>> Notes.of([("a", ["Old."]), ("b", ["Old.", "Red."])], "all").groups
        (('all', 'Old.'), ('b', 'Red.'))
        """
        subjects: dict[str, None] = {}
        shared: dict[str, list[str]] = {}
        for subject, texts in notes:
            subjects[subject] = None
            for text in texts:
                named = shared.setdefault(text, [])
                if subject not in named:
                    named.append(subject)
        grouped: dict[str, list[str]] = {}
        for text, named in shared.items():
            whole = everyone and len(named) == len(subjects) > 1
            grouped.setdefault(everyone if whole else ", ".join(named), []).append(text)
        return cls(tuple((subject, " ".join(texts)) for subject, texts in grouped.items()))


class Bars(Struct, frozen=True):
    """Parts of a whole, each with its share drawn as a bar.

    Parameters
    ----------
    name
        Of its data.
    title
        Above them.
    quantity
        How an amount is written.
    parts
        Name and amount of each part.
    whole
        What a full bar stands for.
    """

    name: str
    title: str
    quantity: Quantity
    parts: tuple[tuple[str, float], ...]
    whole: float

    def shares(self) -> list[tuple[str, float, float]]:
        """Name, amount and share of every part that is not nothing."""
        return [(name, amount, amount / self.whole) for name, amount in self.parts if amount > 0]

    @property
    def table(self) -> Table[Any]:
        """The same in columns."""
        name: Column[Any] = column("part", "0")
        amount: Column[Any] = column(replace(self.quantity, title="amount"), "1")
        share: Column[Any] = column("share", "2", form="percent")
        return Table(self.name, (name, amount, share), self.shares(), self.title)


MOST_CELLS = 256
"""Cells of a heat map whose amounts a page says in words [1]."""


class Heat(Struct, frozen=True):
    """A square of amounts, darker for more: rows send, columns receive.

    Parameters
    ----------
    name, title
        Of its data; above it.
    quantity
        How an amount is written.
    labels
        One a row and column.
    cells
        Amounts, shape (rows, rows).
    ticks, axis
        Short names of rows and columns, and what they name; the labels if empty.
    group
        Rows that belong together, such as the blocks of one HB domain; 0 if none do [1].
    said
        What it shows, in sentences.
    """

    name: str
    title: str
    quantity: Quantity
    labels: tuple[str, ...]
    cells: tuple[tuple[float, ...], ...]
    ticks: tuple[str, ...] = ()
    axis: str = ""
    group: int = 0
    said: tuple[str, ...] = ()

    @property
    def largest(self) -> Table[Any]:
        """Cells that are not nothing, the largest first, as people read them."""
        table = self.table
        rows = sorted((row for row in table.rows if row[2] > 0), key=lambda row: -row[2])
        return replace(table, rows=rows[:MOST_CELLS])

    @property
    def table(self) -> Table[Any]:
        """The same as a row a cell: who sends, who receives, how much."""
        rows = [
            (sender, receiver, cell)
            for sender, line in zip(self.labels, self.cells, strict=True)
            for receiver, cell in zip(self.labels, line, strict=True)
        ]
        sends: Column[Any] = column("sends", "0")
        receives: Column[Any] = column("receives", "1")
        amount: Column[Any] = column(self.quantity, "2")
        return Table(self.name, (sends, receives, amount), rows, self.title)


class Verbatim(Struct, frozen=True):
    """Lines that stay as they are, such as a drawing in letters."""

    lines: tuple[str, ...]


class Inset(Struct, frozen=True):
    """Something that only a page shows, such as a drawing: it is made when a page asks for it."""

    title: str
    make: "Callable[[], Markup]"

    @property
    def markup(self) -> "Markup":
        """What the page shows, whose texts are escaped."""
        return self.make()


Section = Heading | Inset | Table[Any] | Paragraph | Notes | Bars | Heat | Verbatim | Chart


class Data(Struct, frozen=True):
    """One table as programs read it: raw values under names."""

    name: str
    quantities: tuple[Quantity, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def records(self) -> list[dict[str, Cell]]:
        """One mapping a row."""
        names = [named.name for named in self.quantities]
        return [dict(zip(names, row, strict=True)) for row in self.rows]


def data_tables(sections: Iterable[Section]) -> list[Data]:
    """Tables of an answer as programs read them; those of one name are one.

    Raises
    ------
    ValueError
        If tables of one name have different rows, of which some would be lost.

    Examples
    --------
    >>> switches = Table("rows", [column("switches", len)], ["abc"])
    >>> tiers = Table("rows", [column("switches", len), column("tiers", str)], ["abc"])
    >>> data_tables([switches, tiers])[0].records()
    [{'switches': 3, 'tiers': 'abc'}]
    """
    known = shown_in("data", sections)
    tables = [part for part in known if isinstance(part, Table)]
    tables += [part.table for part in known if isinstance(part, (Bars, Heat))]
    rows: dict[str, Sequence[object]] = {}
    joined: dict[str, dict[str, Column[Any]]] = {}
    for table in tables:
        if list(rows.setdefault(table.name, table.rows)) != list(table.rows):
            raise ValueError(
                f"tables {table.name!r} have different rows: programs read one of them"
            )
        by_name = joined.setdefault(table.name, {})
        for entry in shown_in("data", table.columns):
            by_name.setdefault(entry.quantity.name, entry)
    return [
        Data(
            name,
            tuple(entry.quantity for entry in by_name.values()),
            tuple(tuple(entry.get(row) for entry in by_name.values()) for row in rows[name]),
        )
        for name, by_name in joined.items()
        if by_name
    ]


def flat_records(tables: Sequence[Data]) -> list[dict[str, Cell]]:
    """All tables in one: a column says which table a row is of, if there are several.

    Cells that a table does not have are empty.

    Examples
    --------
    >>> one = Data("a", (quantity("switches"),), ((3,),))
    >>> two = Data("b", (quantity("tiers"),), ((2,),))
    >>> flat_records([one, two])[1]
    {'table': 'b', 'switches': None, 'tiers': 2}
    """
    if len(tables) == 1:
        return tables[0].records()
    names = dict.fromkeys(named.name for table in tables for named in table.quantities)
    return [
        {"table": table.name, **dict.fromkeys(names), **record}
        for table in tables
        for record in table.records()
    ]
