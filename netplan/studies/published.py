"""Published values of the studies after papers, beside what a study's rows give.

The gap is shown as it is. ``netplan verify`` lists the same values, each with the reason why it
does not reproduce where it does not.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from math import floor, inf, log10
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from netplan.published import cluster_design
from netplan.published.checks import Measured
from netplan.published.checks import published as table
from netplan.published.rail_only import Case, Figure, Times, figure_9, figure_10, figure_11
from netplan.records import asdict
from netplan.reports.quantities import Scalar
from netplan.units import bytes_per_s

if TYPE_CHECKING:  # these load the questions that they ask
    from netplan.published.dataflow import System

Row = Mapping[str, Scalar]


class Published(Struct, frozen=True):
    """One published value, as printed (a text where the paper gives a range), and this study's.

    ``netplan`` is None where the study lacks something for it, such as a price, and a text where
    the paper says in words what is so.
    """

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
                return self.netplan - float(self.published.replace(",", ""))
        return None

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
        """Decimals of netplan's value: one more than is printed; none of a count [1].

        A small one beside a text such as "high" has two digits.
        """
        if not self.unit:
            return 0
        if self.gap is None and value:
            return max(1, 1 - floor(log10(abs(value))))
        return len(self.published.partition(".")[2]) + 1

    def to_dict(self) -> dict[str, Any]:
        """The pair as JSON."""
        return asdict(self) | {"gap": self.gap}


def published_values(study: str, rows: Sequence[Row]) -> tuple[Published, ...]:
    """Published values beside those of a study's rows, as far as these go."""
    find = _FINDERS.get(study)
    return tuple(find(rows)) if find else ()


def _figure(
    figure: Callable[[Times], Iterator[Figure]],
    where: str,
    names: Sequence[str],
    key: Callable[[Case], tuple[Scalar, ...]],
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


def _gpu_generation(rows: Sequence[Row]) -> Iterator[Published]:
    """Days of GPT 1T on 16,384 GPUs, from the text of the paper."""
    printed = {("a100-80gb", 4): "O(30)", ("b200", 8): "3 to 5", ("b200", 64): "3 to 5"}
    for row in rows:
        case = (str(row["accelerator"]), row["hb_size"])
        here = (row["model"], row["gpus"]) == ("gpt-1t", 16_384)
        if here and case in printed and isinstance(row["days"], float):
            name = f"training of gpt-1t on 16,384 {case[0]}, domains of {case[1]}"
            yield Published(name, "arXiv:2410.00273, Fig. 5", printed[case], row["days"], "days")


def _radix_and_size(rows: Sequence[Row]) -> Iterator[Published]:
    """Switches and transceivers of Table 2 with HB domains of 256."""
    printed = {(int(line["gpus"]), int(line["radix"])): line for line in table("rail-only-table2")}
    columns = {"rail-optimized": "sota", "rail-only": "rail_only"}
    for row in rows:
        gpus, radix, fabric = row["gpus"], row["radix"], str(row["fabric"])
        line = printed.get((gpus, radix))  # type: ignore[arg-type]
        if line is None or fabric not in columns:
            continue
        for name in ("switches", "transceivers"):
            got, value = row[name], int(line[f"{columns[fabric]}_{name}"])
            if isinstance(got, int):
                what = f"{fabric}, {gpus:,} GPUs, radix {radix}: {name}"
                yield Published(what, "arXiv:2307.12169, Table 2", f"{value:,}", float(got), "")


def _design_space(rows: Sequence[Row]) -> Iterator[Published]:
    """Ratios of utilisation, and of FLOP/s a dollar and a watt."""
    from netplan.published.dataflow import RATIOS, design_space_ratios

    there, a_dollar, a_watt = (
        _systems(rows, name) for name in ("utilisation", "flops_per_s_per_usd", "flops_per_s_per_w")
    )
    yield from _printed("dataflow", design_space_ratios(there), unit="ratio")
    ratios = {ratio.name: ratio for ratio in RATIOS}
    for line in table("dataflow-efficiency"):
        ratio = ratios[line["name"]]
        if not all(ratio.sides(there)):
            continue  # the study was run over fewer values than the text speaks of
        # The book prices networks: their dollars compare networks, not chips.
        dollars = {} if ratio.field == "accelerator" else a_dollar
        for measure, values in (("a_dollar", dollars), ("a_watt", a_watt)):
            name = f"{ratio.name}, FLOP/s {measure.replace('_', ' ')}"
            got = ratio.of(values) if all(ratio.sides(values)) else None
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
        for title, name in (("Transformer-1T", "speed"), ("DLRM", "dlrm_speed")):
            if cluster is not None and isinstance(value := row.get(name), float):
                speeds[str(row["iteration_model"]), title, cluster] = value
    for line in table("cluster-design"):
        title, _, both = line["name"].partition(": ")
        first, _, other = both.partition(" over ")
        for model in dict.fromkeys(model for model, *_ in speeds):
            pair = [speeds.get((model, title, cluster)) for cluster in (first, other)]
            if pair[0] and pair[1]:
                name = f"{model}: {line['name']}"
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
    "batch-size": partial(
        _figure,
        figure_11,
        "Fig. 11 and section 6.4",
        ("batch", "hb_size"),
        lambda case: (case.batch, case.domain),
    ),
    "gpu-generation": _gpu_generation,
    "dataflow-design-space": _design_space,
    "serving": _serving,
    "expert-network-cost": _expert_networks,
    "sram-vs-dram": _sram,
    "radix-and-size": _radix_and_size,
    "mp-vs-dp": partial(_clusters, (cluster_design.fastest_degree,)),
    "memory-expansion": partial(_clusters, (cluster_design.expanded_needed,)),
    "compute-scaling": partial(_clusters, (cluster_design.changes_by_flops,)),
    "dlrm-nodes": _recommendations,
    "network-scaling": partial(
        _clusters, (cluster_design.changes_of_mp_64, cluster_design.changes_by_bandwidth)
    ),
    "clusters": _eleven,
    "network-balance": partial(
        _clusters, (cluster_design.best_split, cluster_design.gain_by_split)
    ),
}
