"""What every answer offers: its JSON, and every other form, made from its sections."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from netplan.errors import InputError
from netplan.reports.charts import Chart
from netplan.reports.schema import plain_at
from netplan.reports.sections import Heading, Paragraph, Section
from netplan.version import __version__

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

FORMATS = ("table", "json", "csv", "markdown", "html", "xlsx")


UNSEEN = "[\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff]"
"""Signs that steer a terminal or hide; JSON itself escapes those below a space."""


def to_json(data: Mapping[str, Any]) -> str:
    """JSON with two spaces of indentation and a final newline; signs that hide are escaped.

    Parameters
    ----------
    data
        Content; its numbers are finite.

    Returns
    -------
    str
        The text.

    Raises
    ------
    ValueError
        If a number is not finite.

    Examples
    --------
    >>> print(to_json({"gpus": 8}), end="")
    {
      "gpus": 8
    }
    """
    import json
    import re

    text = json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    return re.sub(UNSEEN, lambda sign: f"\\u{ord(sign[0]):04x}", text)


class Answer(ABC):
    """An answer, declared once: its JSON and its sections; all forms come from these two."""

    __slots__ = ()

    json_head: ClassVar[tuple[str, ...]] = "netplan_version", "inputs"
    json_parts: ClassVar[tuple[str, ...]] = ()
    """Paths of what its JSON has behind version and inputs, as of :func:`plain_at`."""

    @property
    def netplan_version(self) -> str:
        """What made it."""
        return __version__

    @property
    def exit_code(self) -> int:
        """What the command exits with; a question whose answer may be bad news has its own."""
        return 0

    def in_a_line(self) -> str:
        """Its verdict in a few words, such as ``order rail-only, 27.6 M USD``; empty if none.

        Returns
        -------
        str
            The verdict; quantities have their unit.
        """
        return ""

    def to_dict(self) -> dict[str, Any]:
        """Exactly the JSON of the command.

        Returns
        -------
        dict[str, Any]
            The content; a quantity's unit stands in its name.
        """
        return plain_at(self, *self.json_head, *self.json_parts)

    @abstractmethod
    def sections(self) -> Iterator[Section]:
        """Headings, tables, verdicts, notes and charts, in their order.

        Yields
        ------
        Section
            One after the other.
        """

    def summary(self) -> Iterator[Section]:
        """What a terminal shows first, in 25 lines at most: verdict, one table, what there is more.

        Yields
        ------
        Section
            Parts of it, in their order; all of the answer where it is short anyway.
        """
        yield from self.sections()

    def text(self, width: int = 80, *, colour: bool = False, details: bool = False) -> str:
        """For a terminal.

        Parameters
        ----------
        width
            Its width [columns].
        colour
            Whether it shows colours.
        details
            Whether all tables and notes are wanted, not only the answer.

        Returns
        -------
        str
            Lines, each with its end.
        """
        from netplan.reports.screen import TAKEN, WIDTH
        from netplan.reports.terminal import folded_text, terminal_text

        lines = sum(len(folded_text(f"Note: {caution}.", WIDTH)) for caution in self.cautions)
        token = TAKEN.set(lines + 1 if lines else 0)
        try:
            shown = [*self._with_cautions(self.sections() if details else self.summary())]
        finally:
            TAKEN.reset(token)
        return terminal_text(shown, width, colour=colour)

    @property
    def cautions(self) -> tuple[str, ...]:
        """Sentences on parts of the cluster that nobody sells, which every form shows first.

        Returns
        -------
        tuple of str
            The sentences; none of most answers.
        """
        inputs = getattr(self, "inputs", None) or {}
        return tuple(inputs.get("cautions", ()))

    def _with_cautions(self, sections: Iterator[Section]) -> Iterator[Section]:
        """The sections, behind the first heading what is to be said first."""
        waiting = bool(self.cautions)
        for section in sections:
            yield section
            if waiting and isinstance(section, Heading):
                notes = (f"Note: {caution}." for caution in self.cautions)
                yield Paragraph("\n".join(notes), "strong")
                waiting = False

    def csv(self) -> str:
        """All tables, raw values.

        Returns
        -------
        str
            One CSV with a header; of several tables the first column names each.
        """
        from netplan.reports.tables import csv_text

        return csv_text(self.sections())

    def markdown(self) -> str:
        """All tables and texts.

        Returns
        -------
        str
            The text, an empty line between two sections.
        """
        from netplan.reports.markdown import markdown_text

        return markdown_text(self._with_cautions(self.sections()))

    def json(self) -> str:
        """The JSON as text.

        Returns
        -------
        str
            The text, with a newline at its end.
        """
        return to_json(self.to_dict())

    def html(self) -> str:
        """A page that works offline.

        Returns
        -------
        str
            The whole page.
        """
        from netplan.reports.html import html_page

        return html_page(self._with_cautions(self.sections()))

    def xlsx(self) -> bytes:
        """A spreadsheet with a sheet a table.

        Returns
        -------
        bytes
            The file.
        """
        from netplan.reports.xlsx import xlsx_bytes

        return xlsx_bytes(self._with_cautions(self.sections()))

    def to_frame(self) -> "pd.DataFrame":
        """The first table: one row a row, one column a quantity.

        Returns
        -------
        pandas.DataFrame
            Raw values, shape (rows, quantities - 1); the first quantity is the index.
        """
        from netplan.reports.tables import frame

        return frame(self.sections())

    def plot(self, key: str = "") -> "go.Figure":
        """A chart of the answer as a figure of plotly: the first one, or that of a key.

        Bars and heat maps of the answer are charts, too, behind those of its page.

        Parameters
        ----------
        key
            Name of the chart; empty for the first one.

        Returns
        -------
        plotly.graph_objects.Figure
            The chart.

        Raises
        ------
        InputError
            If the answer has no such chart, or plotly is not there.
        """
        from netplan.reports.section_charts import chart_of

        try:
            import plotly.graph_objects as go
        except ImportError:
            raise InputError("plots need plotly: pip install 'netplan-toolkit[plots]'") from None

        sections = sorted(self.sections(), key=lambda section: not isinstance(section, Chart))
        drawings = (chart for section in sections if (chart := chart_of(section)))
        charts: dict[str, Chart] = {}
        for chart in drawings:
            charts.setdefault(chart.key, chart)
        if not charts or (key and key not in charts):
            if not charts:
                raise InputError("this answer has no charts")
            raise InputError(f"no chart {key!r}: known: {', '.join(charts)}")
        chosen = charts[key] if key else next(iter(charts.values()))
        layout = {"title": {"text": chosen.label}, "height": chosen.height_px, **chosen.layout}
        return go.Figure(data=list(chosen.data), layout=layout)

    def __repr__(self) -> str:
        """One line: what was asked. The whole answer is ``text()``, or ``print`` of it."""
        heads = (section.title for section in self.sections() if isinstance(section, Heading))
        suffix = f": {head}" if (head := next(heads, "")) else ""
        return f"<{type(self).__name__}{suffix}>"

    def __str__(self) -> str:
        """What a terminal shows."""
        return self.text()

    def _repr_html_(self) -> str:
        """For notebooks; text from files is escaped."""
        from netplan.reports.html import html_fragment

        return html_fragment(self._with_cautions(self.sections()))
