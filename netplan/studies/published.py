"""Published values of the studies after papers, beside what a study's rows give.

The gap is shown as it is. ``netplan verify`` lists the same values, each with the reason why it
does not reproduce where it does not.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from netplan.published.checks import published as table
from netplan.published.rail_only_figures import Figure, figure_9, figure_10, figure_11
from netplan.records import asdict
from netplan.reports.quantities import Scalar
from netplan.units import gbps

Row = Mapping[str, Scalar]


class Published(Struct, frozen=True):
    """One published value and this study's own.

    Parameters
    ----------
    name, source
        What it is, and where it is printed.
    published
        As printed; a text where the paper gives a range or an order of magnitude.
    netplan
        From the study's rows.
    unit
        Of both.
    """

    name: str
    source: str
    published: str
    netplan: float
    unit: str

    @property
    def gap(self) -> float | None:
        """Value of netplan less the published one; None where that is no single number."""
        try:
            return self.netplan - float(self.published.replace(",", ""))
        except ValueError:
            return None

    def to_dict(self) -> dict[str, Any]:
        """The pair as JSON."""
        return asdict(self) | {"gap": self.gap}


def published_values(study: str, rows: Sequence[Row]) -> tuple[Published, ...]:
    """Published values beside those of a study.

    Parameters
    ----------
    study
        Name of the study.
    rows
        Its rows; values that need rows which are not there are left out.
    """
    find = _FINDERS.get(study)
    return tuple(find(rows)) if find else ()


def _times(rows: Sequence[Row], names: Sequence[str]) -> dict[tuple[Scalar, ...], float]:
    return {
        tuple(row[name] for name in names): row["iteration_time_s"]
        for row in rows
        if isinstance(row["iteration_time_s"], float)
    }


def _lines(figures: Iterator[Figure], source: str) -> Iterator[Published]:
    """Values of a figure, as far as the rows go."""
    try:
        for figure in figures:
            name = figure.name.removesuffix(", %")
            yield Published(name, source, f"{figure.published:g}", figure.got, "%")
    except KeyError:
        return  # the study was run over fewer values than the figure has


def _hb_size(rows: Sequence[Row]) -> Iterator[Published]:
    times = _times(rows, ("model", "gpus", "hb_size"))
    found = figure_9(lambda case: times[case.model, case.gpus, case.domain])
    return _lines(found, "arXiv:2307.12169, Fig. 9 and section 6.2")


def _hb_bandwidth(rows: Sequence[Row]) -> Iterator[Published]:
    names = ("hb_size", "accelerator.hb_bytes_per_s", "accelerator.network_bytes_per_s")
    times = {
        (domain, _gbps(hb), _gbps(network)): time
        for (domain, hb, network), time in _times(rows, names).items()
    }
    found = figure_10(
        lambda case: times[case.domain, round(case.hb_gbps), round(case.network_gbps)]
    )
    return _lines(found, "arXiv:2307.12169, Fig. 10 and section 6.3")


def _gbps(rate_bytes_per_s: Scalar) -> int:
    """Rate of a row in whole Gb/s, as the paper prints it."""
    return round(gbps(float(rate_bytes_per_s or 0)))


def _batch_size(rows: Sequence[Row]) -> Iterator[Published]:
    times = _times(rows, ("batch", "hb_size"))
    found = figure_11(lambda case: times[case.batch, case.domain])
    return _lines(found, "arXiv:2307.12169, Fig. 11 and section 6.4")


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


_FINDERS: Mapping[str, Callable[[Sequence[Row]], Iterator[Published]]] = {
    "hb-size": _hb_size,
    "hb-bandwidth": _hb_bandwidth,
    "batch-size": _batch_size,
    "gpu-generation": _gpu_generation,
    "radix-and-size": _radix_and_size,
}
