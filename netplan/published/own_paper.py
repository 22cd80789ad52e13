"""A paper of your own: rows of a file, each a printed number and the question that gives netplan's.

A row has the command as it is typed behind ``netplan``, the field of its JSON by its path, what is
printed, and where; with a tolerance, if the source states one, and what a direction counts from
(``baseline``), such as 1 for a speed-up. A row may record its grade: then it fails if it becomes
worse. One that is ``source`` says why.

    rows:
      - question: compare rail-only-paper --gpus 32768 --radix 128
        field: fabrics.rail-only.switches
        printed: 256
        source: Table 2

Digits count as they are printed: what ends in a zero stands in quotes (``"0.50"``).
"""

import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from netplan.answers.outputs import NoRowError, output
from netplan.catalog import unknown_name
from netplan.documents import Document, read_yaml
from netplan.errors import CatalogError, InfeasibleError, InputError, NetplanError, piece
from netplan.inputs.option import Option, read_option
from netplan.published.checks import CLOSE, GRADES, Check, Grade, printed_check
from netplan.records import LARGEST, Entry, RecordError
from netplan.setup.asking import question_class
from netplan.setup.question import Question

MAX_ROWS = 500
Text = Annotated[str, Meta(min_length=1, max_length=200)]
Printed = Annotated[str, Meta(min_length=1, max_length=60)] | int | float
Tolerance = Annotated[float, Meta(gt=0, le=1)]

ASKED = (
    *("collective", "compare", "cost", "diff", "faults", "grow", "loads", "map", "optimize"),
    *("search", "serving", "simulate", "traffic"),
)
"""Questions whose answers are numbers."""


class OwnRow(Entry, frozen=True, kw_only=True):
    """One number of a paper.

    Parameters
    ----------
    question
        The command that is asked, without ``netplan``.
    field
        Path to the value in its JSON.
    printed
        What the paper has.
    tolerance
        Relative error that the source states of it [1].
    source, name
        Table, figure or section, and what the number is.
    baseline
        What the number is above or below of.
    grade, reason
        What the row has been found to be, and why it is not exact or close.
    """

    question: Text
    field: Text
    printed: Printed
    tolerance: Tolerance = CLOSE
    source: Text
    name: str = ""
    baseline: float | None = None
    grade: Grade | None = None
    reason: str = ""

    def __post_init__(self) -> None:
        """Refuse texts that are no line, and a source that is said to be wrong without a reason."""
        for key in ("question", "field", "printed", "source", "name", "reason"):
            text = str(getattr(self, key))
            if not text.isprintable():
                raise ValueError(f"{key}: got {piece(text)}: give one line of printable text")
        number = _number(self.printed)
        if number is not None and not abs(number) <= LARGEST:  # of nan, too
            raise ValueError(f"printed: got {piece(self.printed)}: give a finite number")
        if self.tolerance != CLOSE and number == 0:
            raise ValueError(
                f"tolerance: {self.tolerance:g} of a printed 0 is 0: leave it out, and print"
                " as many digits as the paper has, such as 0.00"
            )
        if self.grade in GRADES[2:] and not self.reason:
            raise ValueError(f"a row of grade {self.grade} has a reason: say why it differs")


def _number(printed: str | float) -> float | None:
    """A printed number [1]; None of words."""
    with suppress(ValueError):
        return float(str(printed).replace(",", "").removeprefix("about "))
    return None


class OwnPaper(Entry, frozen=True, kw_only=True):
    """A file of rows."""

    title: Annotated[str, Meta(max_length=79)] = "Your paper against netplan"
    rows: Annotated[tuple[OwnRow, ...], Meta(min_length=1, max_length=MAX_ROWS)]


def paper_checks(paper: OwnPaper, document: Document) -> Iterator[Check]:
    """Rows of a paper against netplan; each question is asked once.

    Parameters
    ----------
    paper, document
        The paper, and the document that it was read from.

    Yields
    ------
    Check
        A row of the paper.

    Raises
    ------
    CatalogError
        If a question is no question, or has no such field: file and line.
    """
    answers: dict[str, Mapping[str, Any] | None] = {}
    for index, row in enumerate(paper.rows):
        try:
            if row.question not in answers:
                answers[row.question] = _answer(row.question)
            yield _check(row, answers[row.question])
        except NetplanError as error:
            line = document.line(["rows", index])
            text = " ".join(str(error).split())
            raise CatalogError(f"{document.path}:{line}: {text}") from None


def read_paper(path: Path) -> tuple[OwnPaper, Document]:
    """Read a paper of your own, with the document that its lines stand in.

    Parameters
    ----------
    path
        Its file.

    Returns
    -------
    tuple of OwnPaper and Document
        As :func:`paper_checks` takes them.

    Raises
    ------
    CatalogError
        If the file is malformed: file, line and reason.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "my-paper.yaml")
    ...     _ = path.write_text("rows: [{question: collective hgx-h100 --bytes 1GB,"
    ...                         " field: nothing, printed: 1, source: Table 1}]")
    ...     read_paper(path)[0].rows[0].tolerance
    0.05
    """
    document = read_yaml(path)
    try:
        return OwnPaper.read(document.data), document
    except RecordError as error:
        keys, text = error.faults[0]
        raise CatalogError(f"{path}:{document.line(keys)}: {text}") from None


def _answer(command: str) -> Mapping[str, Any] | None:
    """JSON of the answer to a command; None where nothing satisfies it."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InputError(f"question {piece(command)}: {error}") from None
    words = words[1:] if words[:1] == ["netplan"] else words
    if not words or words[0] not in ASKED:
        raise unknown_name("question", words[0] if words else "", list(ASKED))
    question = question_class(words[0])
    places, given = _inputs(question, words[1:])
    try:
        answer: Mapping[str, Any] = question.make(*places, **given).ask().to_dict()
    except InfeasibleError:
        return None
    return answer


def _inputs(question: type[Question[Any]], words: list[str]) -> tuple[list[str], dict[str, Any]]:
    """What is told by its place, and inputs by name, of the words behind a question."""
    flags: dict[str, tuple[str, Option, bool]] = {}
    for known in question.inputs_known():
        for part in known.option.flag_of(known.name).split("/"):
            flags[part] = (known.name, known.option, not part.startswith("--no-"))
    places: list[str] = []
    texts: dict[str, list[str]] = {}
    given: dict[str, Any] = {}
    options: dict[str, Option] = {}
    rest = iter(words)
    for word in rest:
        flag, equals, value = word.partition("=")
        if not flag.startswith("--"):
            places.append(word)
            continue
        if flag not in flags:
            raise unknown_name("option", flag, list(flags))
        name, option, turned_on = flags[flag]
        if option.kind == "flag":
            given[name] = turned_on
            continue
        if not equals and (value := next(rest, "")) == "":
            raise InputError(f"{flag} has no value: give one")
        texts.setdefault(name, []).append(value)
        options[name] = option
    for name, values in texts.items():
        option = options[name]
        several = option.many or option.kind in ("settings", "numbers", "amounts", "changes")
        given[name] = read_option(name, option, values if several else values[-1])
    return places, given


RANKS: Mapping[Grade, int] = {"exact": 0, "close": 1, "trend": 2, "off": 3, "source": 3}
"""How good a grade is: those of the same rank differ in whose it is."""


def _check(row: OwnRow, answer: Mapping[str, Any] | None) -> Check:
    """A row against its answer, and against the grade that it records."""
    try:
        value = None if answer is None else output(answer, row.field)
    except NoRowError:
        value = None
    if isinstance(value, int | float) and not isinstance(value, bool):
        printed = row.printed
        if _number(printed) is None:
            raise InputError(
                f"printed: got {piece(str(printed))}, and {row.field} is a number: give a decimal"
                " number alone, in the unit of the field"
            )
    compared = printed_check(
        (row.name or row.field, row.source, str(row.printed)),
        value if isinstance(value, str) or value is None else float(value),
        tolerance=row.tolerance,
        baseline=row.baseline,
        reason=row.reason,
    )
    if row.grade is None or compared.verdict == "fail":
        return compared
    if RANKS[compared.grade] > RANKS[row.grade]:
        return compared.as_grade(compared.grade, failed=True)
    whose = row.grade == "source" and compared.grade != "exact"
    return compared.as_grade(row.grade if whose else compared.grade)
