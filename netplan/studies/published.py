"""Published values of the studies after papers, beside what a study's rows give.

The gap is shown as it is. ``netplan verify`` lists the same values, each with the reason why it
does not reproduce where it does not.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, pairwise
from math import floor, inf, isclose, isfinite, log10
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from netplan.published import cluster_design
from netplan.published.checks import Measured
from netplan.published.checks import published as table
from netplan.published.rail_only import Figure, FigureCase, Times, figure_9, figure_10, figure_11
from netplan.reports.expressions import key_of, parse_expression
from netplan.reports.quantities import Scalar
from netplan.studies.charts import Reader, Row
from netplan.studies.definition import StudyDefinition
from netplan.units import bytes_per_s

if TYPE_CHECKING:  # these load the questions that they ask
    from netplan.published.dataflow import System

DIGITS, SAME = 6, 1e-6
"""Digits of a point's value that are shown, and the relative error up to which inputs are equal."""


class Published(Struct, frozen=True):
    """One published value, as printed (a text where the paper gives a range), and this study's.

    ``netplan`` is None where the study lacks something for it, such as a price, and a text where
    the paper says in words what is so.
    """

    json_parts = "*", "gap"

    name: str
    source: str
    published: str
    netplan: float | str | None
    unit: str

    @property
    def gap(self) -> float | None:
        """Value of netplan less the published one; None where either is no single number."""
        with suppress(ValueError):
            if isinstance(self.netplan, int | float):
                gap = self.netplan - float(self.published.replace(",", ""))
                return gap if isfinite(gap) else None  # a text such as "inf"
        return None

    @property
    def error(self) -> float:
        """Size of the gap against the published value [1]; infinite beside words."""
        if self.gap is None:
            return inf
        printed = abs(float(self.published.replace(",", "")))
        return abs(self.gap) / printed if printed else abs(self.gap)

    @property
    def shown(self) -> str | None:
        """Value of netplan for people."""
        if self.netplan is None or isinstance(self.netplan, str):
            return self.netplan
        return f"{self.netplan:,.{self._decimals(self.netplan)}f}"

    @property
    def gap_shown(self) -> str | None:
        """The gap for people, with as many decimals."""
        if self.gap is None or not isinstance(self.netplan, float):
            return None
        return f"{self.gap:+,.{self._decimals(self.netplan)}f}"

    def _decimals(self, value: float) -> int:
        """Decimals of netplan's value: one more than is printed; none of a whole number alone [1].

        A small one beside a text such as "high" has two digits.
        """
        if not self.unit and "." not in self.published:
            return 0
        if self.gap is None and value:
            return max(1, 1 - floor(log10(abs(value))))
        return len(self.published.partition(".")[2]) + 1


def published_values(rows: Sequence[Row], reader: Reader) -> tuple[Published, ...]:
    """Published values beside those of a study's rows, as far as these go.

    They are statements on the study, and the points of its paper.
    """
    find = _FINDERS.get(reader.spec.name)
    statements = tuple(find(rows)) if find else ()
    return (*statements, *_of_points(rows, reader))


class PrintedPoint(Struct, frozen=True):
    """One point of a paper: the study's row of the same inputs, what is printed, and where."""

    row: Row
    place: Row
    values: Row
    source: str

    def drawn(self, spec: StudyDefinition) -> Row:
        """The row with the paper's outputs in place of the study's, and what follows from them."""
        outputs: dict[str, Scalar] = dict.fromkeys(spec.output_names)
        # Nothing follows from a text, such as "3 to 5", and it has no place.
        outputs |= {key: value for key, value in self.values.items() if not isinstance(value, str)}
        for name, formula in spec.formulas.items():
            expression = parse_expression(formula)
            known = spec.inputs | dict(self.row) | outputs
            values = {part: known.get(key_of(part, known) or part) for part in expression.names}
            if outputs[name] is None and None not in values.values():
                outputs[name] = expression.scalar(known)
        return {**self.row, **outputs}


def printed_points(spec: StudyDefinition, rows: Sequence[Row]) -> Iterator[PrintedPoint]:
    """Points of the study's paper, each with every row that has its inputs.

    Parameters
    ----------
    spec, rows
        The study, and its rows.

    Yields
    ------
    PrintedPoint
        A point whose inputs no row has, as of a study over fewer values, is left out.
    """
    outputs = {*spec.output_names}
    for points in spec.reproduces.points if spec.reproduces else ():
        for point in points.named((*spec.axis_names, *spec.output_names)):
            values = {name: value for name, value in point.items() if name in outputs}
            place = {name: value for name, value in point.items() if name not in outputs}
            for row in rows if values else ():
                if all(_is_printed(row.get(name), value) for name, value in place.items()):
                    yield PrintedPoint(row, place, values, points.source)


def _is_printed(mine: Scalar, printed: Scalar) -> bool:
    """Whether an input is the printed one; numbers to the digits that a file may keep."""
    if isinstance(mine, str | bool | None) or isinstance(printed, str | bool | None):
        return mine == printed
    return isclose(mine, printed, rel_tol=SAME)


def _of_points(rows: Sequence[Row], reader: Reader) -> Iterator[Published]:
    """Values of the paper's points, one a value."""
    axes = [axis for axis in reader.spec.axes if len(axis.rows) > 1]
    for point in printed_points(reader.spec, rows):
        # Of inputs that vary together those that the paper names tell a point best.
        named = [[name for name in point.place if name in axis.names] for axis in axes]
        varying = chain.from_iterable(
            names or axis.names[:1] for names, axis in zip(named, axes, strict=True)
        )
        place = reader.texts((name, point.row.get(name)) for name in varying)
        for name, value in point.values.items():
            wording = reader.words(name)
            title = ": ".join(filter(None, (place, wording.quantity)))
            printed, mine = _as_text(value), point.row.get(name)
            if isinstance(mine, int):  # a count beside others with decimals
                mine = str(mine) if isinstance(mine, bool) else float(mine)
            yield Published(title, point.source, printed, mine, wording.unit)


def _as_text(value: Scalar) -> str:
    """A printed value as the table of published values has it.

    Examples
    --------
    >>> _as_text(196608), _as_text(614.2018866732147), _as_text("O(30)"), _as_text(True)
    ('196,608', '614.202', 'O(30)', 'True')
    """
    if isinstance(value, float):
        return f"{value:.{DIGITS}g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _figure(
    figure: Callable[[Times], Iterator[Figure]],
    where: str,
    names: Sequence[str],
    key: Callable[[FigureCase], tuple[Scalar, ...]],
    rows: Sequence[Row],
) -> Iterator[Published]:
    """Values of a figure, whose times are those of the rows with a case's values under names."""
    times = {
        tuple(row[name] for name in names): row["iteration_time_s"]
        for row in rows
        if isinstance(row["iteration_time_s"], float)
    }
    with suppress(KeyError):  # the study was run over fewer values than the figure has
        for value in figure(lambda case: times[key(case)]):
            name, printed = value.name.removesuffix(", %"), f"{value.published:g}"
            yield Published(name, f"arXiv:2307.12169, {where}", printed, value.got, "%")


def _nearest_setting(rows: Sequence[Row]) -> Iterator[Published]:
    """Fig. 9 to 11 of the rail-only paper under the setting that is nearest to them in the mean."""
    known = [row for row in rows if isinstance(row["mean_gap_points"], float)]
    nearest = min(known, key=lambda row: float(str(row["mean_gap_points"])), default=None)
    if nearest is None:
        return
    for where, figure in (("Fig. 9", figure_9), ("Fig. 10", figure_10), ("Fig. 11", figure_11)):
        for value in figure(lambda _: 1.0):  # for their names alone
            name, printed = value.name.removesuffix(", %"), f"{value.published:g}"
            got = float(str(nearest[f"figures.{value.key}.percent"]))
            yield Published(name, f"arXiv:2307.12169, {where}", printed, got, "%")


def _printed(
    name: str, values: Iterable[Measured], *, who: str = "", unit: str = ""
) -> Iterator[Published]:
    """Values beside what a table of their names prints, as far as the study's rows give them.

    A unit stands at the end of a name, or is ``unit``; ``who`` computed them stands in front.
    """
    printed = {line["name"]: line for line in table(name)}
    with suppress(KeyError):  # the study was run over fewer values than the paper speaks of
        for full_name, value in values:
            line = printed[full_name]
            what, _, last = full_name.rpartition(", ")
            named = (what, last) if last in UNITS else (full_name, unit)
            got = NONE if value == inf else value
            yield Published(f"{who}{named[0]}", line["source"], line["expected"], got, named[1])


def _design_space(rows: Sequence[Row]) -> Iterator[Published]:
    """Ratios of utilisation, and of FLOP/s a dollar and a watt."""
    from netplan.published.dataflow import LAST, RATIOS, design_space_ratios, ratios_named

    there, a_dollar, a_watt = (
        _systems(rows, name) for name in ("utilisation", "flops_per_s_per_usd", "flops_per_s_per_w")
    )
    yield from _printed("dataflow", ratios_named(LAST, there), unit="ratio")
    others = {system: used for system, used in there.items() if system.model != "gpt-1t"}
    yield from _printed("dataflow", design_space_ratios(others), unit="ratio")
    ratios = {ratio.name: ratio for ratio in RATIOS}
    for line in table("dataflow-efficiency"):
        ratio = ratios[line["name"]]
        for measure, values in (("a_dollar", a_dollar), ("a_watt", a_watt)):
            if all(ratio.sides(values)):  # else the study was run over fewer values
                name = f"{ratio.name}, FLOP/s {measure.replace('_', ' ')}"
                got = ratio.of(values)
                yield Published(name, "DFModel, Sec. VI-C", line[measure], got, "ratio")


def _systems(rows: Sequence[Row], name: str) -> "dict[System, float]":
    """An output of all systems that have it."""
    from netplan.published.dataflow import System

    return {
        System(*(str(row[field]) for field in System._fields)): value
        for row in rows
        if isinstance(value := row.get(name), float)
    }


def _sram(rows: Sequence[Row]) -> Iterator[Published]:
    """Ratios of utilisation by execution, SRAM and memory rate."""
    from netplan.published.dataflow import fig_19_ratios

    names = ("execution", "accelerator.sram_bytes", "accelerator.memory_bytes_per_s")
    usage: dict[Any, Any] = {tuple(row[name] for name in names): row["utilisation"] for row in rows}
    ratios = fig_19_ratios(usage)
    numbers = ((name, value) for name, value in ratios if isinstance(value, float))
    return _printed("dataflow", numbers, unit="ratio")


CHUNKS, OF_FIGURES = "iteration-model.communication.chunks", (None, 4)
"""Chunks of collectives with which COMET's figures are drawn, or those of the iteration model."""

NONE, UNITS = "none", ("%", "GB/s", "tokens/s")
"""What a study gives that no value is enough for, and units that names of the tables end with."""


def _clusters(
    figures: Sequence[Callable[[cluster_design.ClusterTimes], Iterator[Measured]]],
    rows: Sequence[Row],
) -> Iterator[Published]:
    """What figures of COMET say, beside what each iteration model gives."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        batch = f", batch {row['batch']:,}" if "batch" in row else ""
        groups.setdefault(f"{row['iteration_model']}{batch}: ", []).append(row)
    for who, mine in groups.items():
        drawn = [
            row
            for row in mine
            if row["iteration_time_s"] is not None and row.get(CHUNKS) in OF_FIGURES
        ]
        times = {_rounded(*_rates(row)): float(str(row["iteration_time_s"])) for row in drawn}
        for figure in figures:
            values = figure(lambda *case, known=times: known[_rounded(*case)])
            yield from _printed("cluster-design", values, who=who)
        # The least tensor degree whose memory is there, where the study says it of each.
        fitting = [int(str(row["fixed.tensor"])) for row in mine if row.get("fits")]
        if fitting:
            least = [("least MP that fits 80 GB", str(min(fitting)))]
            yield from _printed("cluster-design", least, who=who)


def _recommendations(rows: Sequence[Row]) -> Iterator[Published]:
    """What Fig. 13 of COMET says of instances side by side."""
    key, rate = "fixed.expert", "accelerator.expanded_bytes_per_s"
    times = {(row[key], float(str(row[rate]))): row["instances.turnaround_s"] for row in rows}
    for figure in (cluster_design.instances_needed, cluster_design.gain_of_instances):
        values = figure(lambda *case: float(str(times[case])))
        yield from _printed("cluster-design", values, unit="ratio")


def _rates(row: Row) -> tuple[int, cluster_design.Rates]:
    """Tensor degree and rates of a row; of what does not vary, those of Table I and MP 8."""
    on = cluster_design.Rates().gpu
    given = {
        "compute": ("tensor_flops_per_s", on.tensor_flops_per_s),
        "inside": ("hb_bytes_per_s", on.hb_bytes_per_s),
        "between": ("network_bytes_per_s", on.network_bytes_per_s),
        "expanded_bytes_per_s": ("expanded_bytes_per_s", 1.0),
    }
    factors = {
        name: float(str(row[f"accelerator.{key}"])) / usual
        for name, (key, usual) in given.items()
        if f"accelerator.{key}" in row
    }
    return int(str(row.get("fixed.tensor", 8))), cluster_design.Rates(**factors)


def _rounded(tensor: int, rates: cluster_design.Rates) -> tuple[str, ...]:
    """A case whose rates are equal to eight digits, as those of a study file may be."""
    return (str(tensor), *(f"{rate:.8g}" for rate in rates))


CLUSTERS = {
    (chip, memory): f"{letter}{number}"
    for letter, chip in zip("ABC", ("v100-comet", "a100-comet", "h100-comet"), strict=True)
    for number, memory in enumerate((NONE, "comet-480gb", "comet-201gb"))
}
"""Clusters of COMET's Table III."""


def _eleven(rows: Sequence[Row]) -> Iterator[Published]:
    """Speed of clusters against A0, as far as Fig. 15 prints it."""
    speeds: dict[tuple[str, str, str], float] = {}
    for row in rows:
        cluster = CLUSTERS.get((str(row["accelerator"]), str(row["expanded_memory"])))
        who = f"{row['iteration_model']}, batch {row['batch']:,}"
        for title, name in (("Transformer-1T", "speed"), ("DLRM", "dlrm_speed")):
            if cluster is not None and isinstance(value := row.get(name), float):
                speeds[who, title, cluster] = value
    for line in table("cluster-design"):
        title, _, both = line["name"].partition(": ")
        first, _, other = both.partition(" over ")
        for who in dict.fromkeys(who for who, *_ in speeds):
            pair = [speeds.get((who, title, cluster)) for cluster in (first, other)]
            if pair[0] and pair[1]:
                name = f"{who}: {line['name']}"
                yield Published(name, line["source"], line["expected"], pair[0] / pair[1], "ratio")


def _serving(rows: Sequence[Row]) -> Iterator[Published]:
    """What DFModel says of decode on its chips, one request in each stage of all their cuts."""
    paper: Row = {"accelerator": "sn40l", "fabric": "torus-2d", "requests_a_stage": 1}
    mine = [row for row in rows if paper.items() <= row.items() and row["tpot_s"] is not None]
    waits = {int(str(row["fixed.tensor"])): float(str(row["tpot_s"])) for row in mine}
    chips = sorted(waits)
    if chips != [1, 2, 4, 8, 16]:
        return  # the study was run over fewer values than the figure has
    rates = [max(chips) / degree / waits[degree] for degree in chips]
    falls = all(more < less for less, more in pairwise(waits[degree] for degree in chips))
    rises = all(more < less for less, more in pairwise(rates))
    llama = "Llama 3 8B on 16 SN40L, TP 16"
    values: list[Measured] = [
        (f"{llama}: measured, tokens/s", rates[-1]),
        (f"{llama}: modelled, tokens/s", rates[-1]),
        ("Fig. 20: more TP, shorter TPOT", str(falls)),
        ("Fig. 20: more PP, more tokens/s in decode", str(rises)),
    ]
    yield from _printed("serving", values)


def _expert_networks(rows: Sequence[Row]) -> Iterator[Published]:
    """What is printed of networks without switches, beside throughput at the book's prices."""
    from netplan.published.expert_networks import Case as ServedCase
    from netplan.published.expert_networks import expert_network_statements

    rates: dict[ServedCase, float] = {}
    for row in rows:
        case = ServedCase.of(
            str(row["fabric"]),
            int(str(row["hb_size"])),
            bytes_per_s=float(str(row["accelerator.hb_bytes_per_s"])),
            requests=int(str(row["concurrency"])),
        )
        if isinstance(rate := row["tokens_per_s_per_gpu"], float):
            rates[case] = rate
    yield from _printed("expert-networks", expert_network_statements(rates.__getitem__))


_FINDERS: Mapping[str, Callable[[Sequence[Row]], Iterator[Published]]] = {
    "hb-size-paper": partial(
        _figure,
        figure_9,
        "Fig. 9 and section 6.2",
        ("model", "gpus", "hb_size"),
        lambda case: (case.model, case.gpus, case.domain),
    ),
    "hb-bandwidth": partial(
        _figure,
        figure_10,
        "Fig. 10 and section 6.3",
        ("hb_size", "accelerator.hb_bytes_per_s", "accelerator.network_bytes_per_s"),
        lambda case: (case.domain, bytes_per_s(case.hb_gbps), bytes_per_s(case.network_gbps)),
    ),
    "rail-only-figures": _nearest_setting,
    "dataflow-design-space": _design_space,
    "serving": _serving,
    "expert-network-cost": _expert_networks,
    "sram-vs-dram": _sram,
    "mp-vs-dp": partial(_clusters, (cluster_design.fastest_degree,)),
    "memory-expansion": partial(_clusters, (cluster_design.expanded_needed,)),
    "compute-scaling": partial(_clusters, (cluster_design.changes_by_flops,)),
    "dlrm-nodes": _recommendations,
    "network-scaling": partial(
        _clusters, (cluster_design.changes_of_mp_64, cluster_design.changes_by_bandwidth)
    ),
    "clusters": _eleven,
    "network-balance": partial(
        _clusters, (cluster_design.best_ratio, cluster_design.gain_by_split)
    ),
}
