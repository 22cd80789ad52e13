"""Study files: the question, what varies, what is asked for, and how it is shown."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, Self

from msgspec import Meta, field

from netplan.catalog import Catalog, Record, unknown_name
from netplan.documents import read_yaml_value
from netplan.published.checks import published, published_tables
from netplan.records import Entry, Fault, RecordError
from netplan.reports.expressions import parse_expression, require_expression
from netplan.reports.quantities import Scalar
from netplan.scenarios.scenario import DEFAULT, PARTS, plain_name
from netplan.studies.grid import StudyAxis

FABRICS = "fabrics"


class StudyQuestion(NamedTuple):
    """A question that studies put.

    Parameters
    ----------
    says
        What each point does.
    rows
        Key of its JSON whose first or only row is the answer of a point, if there is one.
    """

    says: str
    rows: str = ""


ASKED: Mapping[str, StudyQuestion] = {
    "search": StudyQuestion("asks for the fastest parallel plan.", "plans"),
    "compare": StudyQuestion(
        "asks what one fabric is made of, what it costs and how fast it trains.", FABRICS
    ),
    "cost": StudyQuestion("asks what one fabric costs to buy and to run.", FABRICS),
    "map": StudyQuestion("asks how a model's kernels lie on one chip, and how fast they run."),
    "simulate": StudyQuestion("simulates one iteration on links that all of it shares."),
    "serving": StudyQuestion("asks for the best serving plan.", "plans"),
    "faults": StudyQuestion("asks what failures cost on one fabric.", FABRICS),
    "loads": StudyQuestion("asks what each link carries."),
    "traffic": StudyQuestion("asks who sends how much to whom."),
    "congestion": StudyQuestion("asks how much slower traffic is that shares links."),
    "jobs": StudyQuestion("asks how jobs that come and go fill a cluster.", "rows"),
    "optimize": StudyQuestion("asks for the best networks of all."),
    "grow": StudyQuestion("asks for the phases in which a cluster grows."),
    "sites": StudyQuestion("asks what one job loses over several sites.", "grid"),
    "collective": StudyQuestion("asks how long a collective takes."),
    "diff": StudyQuestion("lays two clusters side by side: inputs of one are a.NAME, b.NAME."),
    "draw": StudyQuestion("counts nodes and links of one fabric."),
    "rail-only-figures": StudyQuestion("asks how far Fig. 9 to 11 of the rail-only paper are off."),
    "procurement": StudyQuestion("recommends one of several fabrics."),
}
"""Questions by name, but for those about no scenario and those of :data:`FILES`."""

FILES = {"export": "draw", "cables": "cost", "offers": "cost"}
"""Questions that make a file for others to read, and which question has its counts."""

PART_OF_SCENARIO = re.compile(rf"(?<![\w.@-])(?:{'|'.join(PARTS)})\.[a-z_][a-z_.]*")
OF_EVERY_SCENARIO = frozenset(("model", "batch", "gpus", "accelerator"))
"""What an axis varies that is settled as soon as somebody's own scenario is studied."""

STUDIED = "studied"
"""Key of that scenario, whole."""

Name = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_.@-]*$")]


class Formula(Entry, frozen=True, kw_only=True):
    """An output computed from inputs and other outputs of the same point."""

    name: Name
    formula: str

    def __post_init__(self) -> None:
        """Refuse a formula that cannot be read."""
        require_expression(self.formula)


class Relative(Entry, frozen=True, kw_only=True):
    """An output compared across points: the reference point's value over the point's own.

    The reference is the point with the same inputs but for those under ``to``.
    """

    name: Name
    of: Name
    to: dict[str, Scalar]


class ChartSpec(Entry, frozen=True, kw_only=True):
    """One chart of the study's report; ``each`` makes one for every value of an input.

    ``lines``: y over x, one line for all values of ``series`` together. ``heat``: z by colour over
    x and y. ``scatter``: y over x, one point a design, with the Pareto front where ``front`` is, or
    for an input that is ``over``, such as a seed, how far its values spread y.
    ``bars``: a bar a point, by x and ``series``, cut into the shares of y that its ``parts`` are.
    """

    kind: Literal["lines", "heat", "scatter", "bars"]
    title: str
    x: Name
    y: Name
    z: Name | None = None
    series: tuple[Name, ...] = ()
    parts: tuple[Name, ...] = ()
    each: Name | None = None
    over: Name | None = None
    x_log: bool = False
    y_log: bool = False
    front: bool = False

    def __post_init__(self) -> None:
        """Refuse a heat chart without its colour, and bars without parts."""
        if (self.kind == "heat") != (self.z is not None):
            raise ValueError("z is the colour of a heat chart: heat needs it, others have none")
        if (self.kind == "bars") != bool(self.parts):
            raise ValueError("parts are what bars are cut into: bars need them, others have none")
        if self.over is not None and (self.kind != "scatter" or self.front):
            raise ValueError("over is the input that spreads y: a scatter without front has one")


class Finding(Entry, frozen=True, kw_only=True):
    """One answer of the study's verdict, computed from its points.

    ``best``: which value of the inputs ``by`` has the best output ``of``, and where that turns over
    another input. ``worth``: how ``of`` changes from one value of ``by`` (``start``, else the
    first) to another (``end``, else the last; of names the best). ``knee``: beyond which value of
    ``over`` next to nothing is left to gain. ``even``: up to which value of ``over`` it is above or
    below 1. ``range``: the least and the most of ``of``. ``front``: the ends of the Pareto front of
    the chart of ``of`` over ``over``.

    The best number is only so at both ``ends``, the output at low and at high prices, too: where
    these have another best value of ``by``, it is undecided between them.

    Cases apart by ``each`` are told apart; of values of what is ``tuned`` the best counts; only
    points ``where`` inputs have these values are read. ``says`` is the sentence in the study's own
    words, with what is computed for its ``{}``.
    """

    kind: Literal["best", "worth", "knee", "even", "range", "front"]
    of: Name
    by: tuple[Name, ...] = ()
    over: Name | None = None
    each: tuple[Name, ...] = ()
    tuned: tuple[Name, ...] = ()
    ends: tuple[Name, ...] = ()
    start: Scalar = None
    end: Scalar = None
    where: dict[str, Scalar] = field(default_factory=dict)
    says: str | None = None

    def __post_init__(self) -> None:
        """Refuse a finding without what it is about."""
        if self.says is not None and (self.says.count("{}") != 1 or self.kind == "front"):
            raise ValueError("says needs one {} for what is computed; a front has no says")
        if self.kind == "best" and not self.by:
            raise ValueError("best needs by: the inputs whose values are compared")
        if self.kind == "worth" and len(self.by) != 1:
            raise ValueError("worth needs by: the one input whose values are compared")
        if self.kind in ("knee", "even", "front") and self.over is None:
            raise ValueError(f"{self.kind} needs over: what the output goes along")


class Note(Entry, frozen=True, kw_only=True):
    """What to know about a study, as long as the inputs that it speaks ``of`` are the file's."""

    note: str
    of: tuple[Name, ...]


class PrintedPoints(Entry, frozen=True, kw_only=True):
    """Points of a paper's figure or table, as printed, published as a file, or read off.

    Each of ``rows`` has inputs that vary, by which the study's point is found, and outputs, which
    are the paper's values. What it has of neither is left open: it stands beside every such point.
    ``inputs`` are those that all of them share. ``table`` takes the rows from a file of
    ``reports/published``, those whose ``where`` columns have these values; ``columns`` are the
    names there of what the study calls otherwise.
    """

    source: str
    inputs: dict[Name, Scalar] = field(default_factory=dict)
    rows: tuple[dict[Name, Scalar], ...] = ()
    table: str | None = None
    where: dict[str, Scalar] = field(default_factory=dict)
    columns: dict[Name, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse points from two places, or from none, and a table that is not there."""
        if bool(self.rows) == (self.table is not None):
            raise ValueError("points have either rows or a table")
        if self.table is not None and self.table not in published_tables():
            tables = [*published_tables()]
            raise ValueError(str(unknown_name("table of reports/published", self.table, tables)))
        if self.table is None and (self.where or self.columns):
            raise ValueError("where and columns are about a table: name one")

    def named(self, names: Sequence[str]) -> Iterator[dict[str, Scalar]]:
        """The points by the study's own names.

        Parameters
        ----------
        names
            Inputs and outputs of the study.

        Yields
        ------
        dict of str to scalar
            Inputs and values of one point, in the units of the study; an empty cell is left out.

        Examples
        --------
        >>> points = PrintedPoints(
        ...     source="Table 2", table="rail-only-table2", where={"radix": 64, "gpus": 32768},
        ...     columns={"switches": "rail_only_switches"},
        ... )
        >>> [*points.named(["gpus", "switches", "mfu"])]
        [{'gpus': 32768, 'switches': 1536}]
        """
        if self.table is None:
            yield from (self.inputs | row for row in self.rows)
            return
        for line in published(self.table):
            cells: dict[str, Any] = {
                key: read_yaml_value(text) for key, text in line.items() if text
            }
            if any(cells.get(name) != value for name, value in self.where.items()):
                continue
            columns = ((name, self.columns.get(name, name)) for name in names)
            yield self.inputs | {name: cells[column] for name, column in columns if column in cells}


class Reproduced(Entry, frozen=True, kw_only=True):
    """The paper that a study is after, its figures or tables, and their points."""

    paper: str
    items: Annotated[tuple[str, ...], Meta(min_length=1)]
    points: tuple[PrintedPoints, ...] = ()


class StudyDefinition(Record, frozen=True, kw_only=True):
    """A study, as its catalog file describes it.

    ``ask`` is the question that every point puts, about ``scenario`` with other values of some
    inputs: ``inputs`` stay, ``axes`` vary, ``conditions`` leave points out. Inputs are fields of
    the scenario, options of the question, or catalog values by role and key, such as
    ``accelerator.memory_bytes``. Outputs are the keys of its JSON, with dots; a row of a list goes
    by its number, or by one of its texts.

    ``about`` names inputs that stay when somebody studies a scenario of their own: of axes those
    without ``model``, ``batch``, ``gpus`` or ``accelerator`` if nothing is named. A run writes
    that scenario under ``studied``.

    With ``bill`` every point is priced, too: ``netplan cost`` of those inputs that it has, and of
    what it calls a value of an axis, such as ``dimensions: {ring-ring: {fabric: torus-2d}}``. Its
    outputs are ``bill.capital.base`` and the like. ``beside`` names further questions about one
    fabric, each with inputs of its own that stay: ``faults.outlook.goodput`` is an output of one.

    ``titles`` are what the study calls an input or output whose usual name says less there.

    ``reproduces`` names the paper that the study is after, and its points: charts show them beside
    the study's own.
    """

    ask: str
    scenario: str = DEFAULT
    about: tuple[Name, ...] = ()
    studied: dict[str, Any] | None = None
    inputs: dict[str, Scalar] = field(default_factory=dict)
    bill: dict[str, dict[str, dict[str, Scalar]]] | None = None
    beside: dict[str, dict[str, Scalar]] = field(default_factory=dict)
    axes: Annotated[tuple[StudyAxis, ...], Meta(min_length=1)]
    conditions: tuple[str, ...] = ()
    outputs: Annotated[tuple[Name | Formula, ...], Meta(min_length=1)]
    relative: tuple[Relative, ...] = ()
    charts: tuple[ChartSpec, ...] = ()
    answers: tuple[Finding, ...] = ()
    titles: dict[str, str] | None = None
    notes: tuple[str | Note, ...] = ()
    reproduces: Reproduced | None = None

    @classmethod
    def read(cls, data: object) -> Self:
        """Make the study from plain data, its inputs by their own names; errors as of records."""
        ask = data.get("ask") if isinstance(data, Mapping) else None
        text = ""
        if ask in FILES:
            text = f"{ask} makes a file for others: {FILES[ask]} has its counts"
        elif isinstance(ask, str) and ask not in ASKED:
            text = str(unknown_name("question", ask, list(ASKED)))
        if text:
            raise RecordError([Fault(("ask",), f"ask: {text}")])
        return super().read(_plainly(data))

    def __post_init__(self) -> None:
        """Refuse names that stand twice, and charts of what is not there."""
        self._names_once()
        self._inputs_are_there()
        self._charts_show_what_is_there()
        self._answers_are_about_what_is_there()
        self._points_are_of_what_is_there()

    def _names_once(self) -> None:
        names = [name for axis in self.axes for name in axis.names]
        for number, name in enumerate(names):
            if name in names[:number]:
                raise ValueError(f"input {name} varies on two axes: zip them, or drop one")
            if name in self.inputs:
                raise ValueError(f"input {name} both stays and varies: take it out of one")
        outputs = self.output_names
        for number, name in enumerate(outputs):
            if name in outputs[:number] or name in names or name in self.inputs:
                raise ValueError(f"output {name} stands twice, or has the name of an input")

    def _inputs_are_there(self) -> None:
        for ask in self.beside:
            if ask not in ASKED or ASKED[ask].rows != FABRICS:
                askable = ", ".join(name for name in ASKED if ASKED[name].rows == FABRICS)
                raise ValueError(f"beside: {ask} is no question about one fabric: {askable}")
        known = (*self.axis_names, *self.inputs)
        for key, given in (("bill", self.bill or {}), ("about", self.about)):
            for name in given:
                if name not in known:
                    raise ValueError(f"{key}: {name} is no input of the study: {', '.join(known)}")
        for name in self.titles or {}:
            if name not in (*known, *self.output_names):
                raise ValueError(f"titles: {name} is neither an input nor an output of the study")
        for text in self.conditions:
            require_expression(text)

    def _charts_show_what_is_there(self) -> None:
        known = {*self.output_names, *self.axis_names}
        for chart in self.charts:
            named = chart.x, chart.y, chart.z, chart.each, chart.over
            for name in (*named, *chart.series, *chart.parts):
                if name is not None and name not in known:
                    raise ValueError(
                        f"chart {chart.title!r}: {name} neither varies nor is an output: known:"
                        f" {', '.join(sorted(known))}"
                    )
        for row in self.relative:
            unknown = [name for name in row.to if name not in self.axis_names]
            if row.of not in self.output_names or unknown:
                raise ValueError(
                    f"relative {row.name}: of is an output and to names axes, got {row.of},"
                    f" {', '.join(row.to)}"
                )

    def _answers_are_about_what_is_there(self) -> None:
        known = {*self.output_names, *self.axis_names, *self.inputs}
        fronts = [(chart.y, chart.x) for chart in self.charts if chart.front]
        for answer in self.answers:
            start = f"answer of {answer.of}"
            about = (*answer.by, *answer.each, *answer.tuned, *answer.ends)
            for name in (answer.of, answer.over, *about):
                if name is not None and name not in known:
                    raise ValueError(f"{start}: {name} is neither an input nor an output")
            for name in answer.where:
                if name not in known:
                    raise ValueError(f"{start}: where: {name} is neither an input nor an output")
            if answer.kind == "front" and (answer.of, answer.over) not in fronts:
                raise ValueError(f"{start}: no chart of it over {answer.over} has a front")

    def _points_are_of_what_is_there(self) -> None:
        known = (*self.axis_names, *self.output_names)
        for points in self.reproduces.points if self.reproduces else ():
            of_rows = (key for row in points.rows for key in row)
            for name in dict.fromkeys((*points.inputs, *points.columns, *of_rows)):
                if name not in known:
                    raise ValueError(
                        f"points of {points.source}: {name} neither varies nor is an output:"
                        f" {', '.join(known)}"
                    )

    @property
    def axis_names(self) -> tuple[str, ...]:
        """Inputs that vary."""
        return tuple(name for axis in self.axes for name in axis.names)

    @property
    def asked_names(self) -> tuple[str, ...]:
        """Outputs of a point alone, by name."""
        return tuple(out if isinstance(out, str) else out.name for out in self.outputs)

    @property
    def output_names(self) -> tuple[str, ...]:
        """Outputs by name, those across points last."""
        return (*self.asked_names, *(row.name for row in self.relative))

    @property
    def texts(self) -> tuple[str, ...]:
        """The notes in words."""
        return tuple(note if isinstance(note, str) else note.note for note in self.notes)

    @property
    def formulas(self) -> dict[str, str]:
        """Outputs that are computed from others."""
        return {out.name: out.formula for out in self.outputs if isinstance(out, Formula)}

    @property
    def counted_with(self) -> set[str]:
        """Names in conditions and formulas that are no outputs."""
        conditions = (*self.conditions, *(axis.when for axis in self.axes if axis.when))
        texts = (*conditions, *self.formulas.values())
        return {name for text in texts for name in parse_expression(text).names}.difference(
            self.output_names
        )

    def stays(self, axis: StudyAxis) -> bool:
        """Whether an axis still varies where somebody studies a scenario of their own."""
        if self.about:
            return not {*axis.names}.isdisjoint(self.about)
        return OF_EVERY_SCENARIO.isdisjoint(axis.names)


def _plainly(data: Any) -> Any:  # noqa: ANN401 - plain data of any depth
    """The same data with inputs by their own names, in conditions and formulas, too."""
    if isinstance(data, str):
        return PART_OF_SCENARIO.sub(lambda match: plain_name(match[0]), data)
    if isinstance(data, Mapping):
        return {
            _plainly(key): value if key == STUDIED else _plainly(value)
            for key, value in data.items()
        }
    return [*map(_plainly, data)] if isinstance(data, (list, tuple)) else data


STUDIES = Catalog("study", "reports/studies", StudyDefinition)
