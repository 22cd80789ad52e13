"""What DFModel says of its design spaces: ratios of utilisation over many systems, and trends.

Most inputs of these studies are not printed, so a ratio passes by its direction (above or below 1),
those of the dragonfly and of the TPU within a factor of 1.5; the number stands beside it. All
ratios are those of mean utilisations.

Source: Ko et al., DFModel (arXiv:2412.16432), Sec. VI-C, VII-E and VIII-C. The studies
``dataflow-design-space``, ``sram-vs-dram`` and ``3d-memory`` run the same points.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache, partial
from itertools import pairwise, product
from statistics import fmean
from typing import NamedTuple

from netplan.published.checks import Check, Measured, known, published, stated
from netplan.questions.map import map as ask_map

CHIPS = ("h100-80gb", "tpu-v4", "sn30", "wse-2")
KERNEL_BY_KERNEL, DATAFLOW, WAFER = ("h100-80gb", "tpu-v4"), ("sn30",), ("wse-2",)
DIMENSIONS = ("ring-ring", "ring-ring-ring", "mesh-mesh", "mesh-switch", "switch-switch")
DRAGONFLY = "mesh-mesh"
OTHER_NETWORKS = tuple(one for one in DIMENSIONS if one != DRAGONFLY)
MEMORIES, LINKS = ("ddr4", "hbm3"), ("pcie4", "nvlink4")
FEW_DIMENSIONS = ("ring-ring", DRAGONFLY)
"""Networks on which checks map the language model; its study has all five."""

SRAM_BYTES, MEMORY_BYTES_PER_S = (150e6, 300e6, 500e6), (100e9, 300e9, 600e9)
EXECUTIONS = ("fused", "kernel-by-kernel")
SHARES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
"""Shares of the 2,080 units of Fig. 22 that compute."""

UNITS_FLOPS_PER_S, UNITS_BYTES = 2 * 640e12, 2 * 545_259_520
STACKS = ("ddr-2d", "hbm-2.5d", "stacked-3d")


class System(NamedTuple):
    """One of the 80 systems, and what it runs."""

    model: str
    dimensions: str
    accelerator: str
    memory: str
    link: str


Values = Mapping[System, float]
"""Utilisation of each system [1], or its FLOP/s a dollar or a watt."""


def trend_checks() -> Iterator[Check]:
    """All trends, and what cannot be computed."""
    values = {one: utilisation(one) for one in _systems()}
    yield from stated(design_space_ratios(values), "dataflow")
    yield from stated(fig_19_ratios(_fig_19()), "dataflow")
    yield from stated(fig_22_shares(_fig_22()), "dataflow")
    yield known(
        "GPT 1T: cost efficiency of the dragonfly over the other networks",
        "DFModel, Sec. VI-C",
        "0.51",
        "-",
        "Fig. 10 to 17 in cost: prices of dies other than the SN30's, of HBM and of NVLink are not"
        " published; netplan's own prices stand in its bills",
    )


def _systems() -> Iterator[System]:
    """The systems of the checks."""
    for model in ("gpt-1t", "dlrm-793b", "fft-1t", "hpl-5m"):
        few = model in ("gpt-1t", "hpl-5m")
        dimensions = FEW_DIMENSIONS if few else DIMENSIONS
        yield from (System(model, *one) for one in product(dimensions, CHIPS, MEMORIES, LINKS))


_ask = partial(ask_map, mode="published-code", compute_utilisation=0.9)


@cache
def utilisation(system: System) -> float:
    """Utilisation of 1,024 chips [1].

    Examples
    --------
    >>> round(utilisation(System("fft-1t", "mesh-mesh", "sn30", "hbm3", "nvlink4")), 4)
    0.0183
    """
    language = system.model == "gpt-1t"
    found = _ask(
        **system._asdict(),
        gpus=1024,
        direction="both" if language else "forward",
        batch=3072 if language else None,
        sequence_tile=32 if language else None,
        execution="kernel-by-kernel" if system.model == "dlrm-793b" else None,
    )
    return found.found.totals.utilisation


class Ratio(NamedTuple):
    """Means over systems of a model: those with some values of a field, over those with others.

    Only systems with some values of one more field count, ``among``.
    """

    name: str
    model: str
    field: str
    first: Collection[str]
    other: Collection[str]
    among: tuple[str, Collection[str]] = ("link", LINKS)

    def sides(self, systems: Iterable[System]) -> tuple[list[System], list[System]]:
        """Systems on both sides of the ratio."""
        field, values = self.among
        mine = [one for one in systems if one.model == self.model and getattr(one, field) in values]
        first, other = (
            [one for one in mine if getattr(one, self.field) in side]
            for side in (self.first, self.other)
        )
        return first, other

    def of(self, values: Values) -> float:
        """The ratio; KeyError without systems on both sides."""
        first, other = self.sides(values)
        if not (first and other):
            raise KeyError(self.field)
        return fmean(values[one] for one in first) / fmean(values[one] for one in other)


def _of_chips(title: str, model: str, chips: Iterable[tuple[str, str]]) -> Iterator[Ratio]:
    """Ratios of one chip over all others."""
    for name, chip in chips:
        rest = [one for one in CHIPS if one != chip]
        yield Ratio(f"{title}: {name} over the others", model, "accelerator", (chip,), rest)


def _all_to_all(title: str, model: str) -> Iterator[Ratio]:
    """Ratios of a workload that waits for what all chips exchange."""
    yield Ratio(f"{title}: NVLink over PCIe", model, "link", ("nvlink4",), ("pcie4",))
    dragonfly = f"{title}: dragonfly over the others"
    yield Ratio(dragonfly, model, "dimensions", (DRAGONFLY,), OTHER_NETWORKS)
    yield from _of_chips(title, model, (("TPU", "tpu-v4"), ("wafer", "wse-2")))


def _of_memories(name: str, chips: Collection[str]) -> Ratio:
    """The fast memory over the slow one, for some chips."""
    among = ("accelerator", chips)
    return Ratio(f"GPT 1T, {name}: HBM over DDR", "gpt-1t", "memory", ("hbm3",), ("ddr4",), among)


RATIOS = (
    Ratio(
        "GPT 1T: dataflow over kernel by kernel",
        model="gpt-1t",
        field="accelerator",
        first=DATAFLOW,
        other=KERNEL_BY_KERNEL,
    ),
    _of_memories("kernel by kernel", KERNEL_BY_KERNEL),
    _of_memories("dataflow", DATAFLOW),
    _of_memories("wafer", WAFER),
    Ratio(
        "GPT 1T, PCIe: dragonfly over the others",
        model="gpt-1t",
        field="dimensions",
        first=(DRAGONFLY,),
        other=OTHER_NETWORKS,
        among=("link", ("pcie4",)),
    ),
    Ratio(
        "GPT 1T, wafer: NVLink over PCIe",
        model="gpt-1t",
        field="link",
        first=("nvlink4",),
        other=("pcie4",),
        among=("accelerator", WAFER),
    ),
    *_of_chips("GPT 1T", "gpt-1t", [("wafer", "wse-2")]),
    *_all_to_all("DLRM", "dlrm-793b"),
    *_all_to_all("FFT", "fft-1t"),
    *_of_chips("HPL", "hpl-5m", [("wafer", "wse-2")]),
)
"""Ratios that Sec. VI-C prints, of utilisation, or of what it calls cost and power efficiency."""


def design_space_ratios(values: Values) -> Iterator[Measured]:
    """Ratios of utilisation of Sec. VI-C that these systems give.

    Raises
    ------
    KeyError
        If systems are missing.
    """
    printed = {row["name"] for row in published("dataflow")}
    yield from ((one.name, one.of(values)) for one in RATIOS if one.name in printed)
    least = min((value for one, value in values.items() if one.model == "hpl-5m"), default=None)
    if least is None:
        raise KeyError("hpl-5m")
    yield "HPL: least utilisation of all systems", least


Fig19 = Mapping[tuple[str, float, float], float]
"""Utilisation by execution, SRAM [B] and rate of the memory [B/s]."""


@cache
def _fig_19() -> Fig19:
    """GPT 175B on 4 x 2 chips of 300 TFLOP/s."""
    found = {}
    for execution, sram, rate in product(EXECUTIONS, SRAM_BYTES, MEMORY_BYTES_PER_S):
        overrides = {
            "accelerator.tensor_flops_per_s": "300e12",
            "accelerator.sram_bytes": str(sram),
            "accelerator.memory_bytes_per_s": str(rate),
        }
        answer = _ask(
            model="gpt-175b",
            accelerator="sn10",
            link="pcie4",
            tensor=4,
            pipeline=2,
            sequence_tile=32,
            execution="fused" if execution == "fused" else "kernel-by-kernel",
            overrides=overrides,
        )
        found[execution, sram, rate] = answer.found.totals.utilisation
    return found


def fig_19_ratios(values: Fig19) -> Iterator[Measured]:
    """What Sec. VII-E says of SRAM and memory rate.

    Raises
    ------
    KeyError
        If points are missing.
    """
    gain = {
        (sram, rate): values["fused", sram, rate] / values["kernel-by-kernel", sram, rate]
        for sram, rate in product(SRAM_BYTES, MEMORY_BYTES_PER_S)
    }
    best = gain[SRAM_BYTES[-1], MEMORY_BYTES_PER_S[-1]]
    yield "Fig. 19: fused over kernel by kernel, most SRAM and memory rate", best
    yield "Fig. 19: fused over kernel by kernel, at most", max(gain.values())
    larger = [[values["fused", sram, rate] for sram in SRAM_BYTES] for rate in MEMORY_BYTES_PER_S]
    yield "Fig. 19: fused gains from SRAM", str(_rises(larger))
    faster = (
        [values["kernel-by-kernel", sram, rate] for rate in MEMORY_BYTES_PER_S]
        for sram in SRAM_BYTES
    )
    yield "Fig. 19: kernel by kernel gains from memory rate", str(_rises(faster))


def _rises(lines: Iterable[list[float]]) -> bool:
    return all(low < high for line in lines for low, high in pairwise(line))


Fig22 = Mapping[tuple[str, float], float]
"""Throughput by memory and share of the chip that computes [1/s]."""


@cache
def _fig_22() -> Fig22:
    """GPT 100T on 1,024 chips of 2,080 units."""
    found = {}
    for memory, share in product(STACKS, SHARES):
        overrides = {
            "accelerator.tensor_flops_per_s": str(round(share * UNITS_FLOPS_PER_S)),
            "accelerator.sram_bytes": str(round((1 - share) * UNITS_BYTES)),
        }
        answer = _ask(
            model="gpt-100t",
            accelerator="sn40l",
            link="sn40l-link",
            memory=memory,
            gpus=1024,
            dimensions="ring-ring",
            direction="both",
            batch=3072,
            sequence_tile=32,
            overrides=overrides,
        )
        found[memory, share] = answer.found.totals.throughput_per_s
    return found


def fig_22_shares(values: Fig22) -> Iterator[Measured]:
    """Shares of the chip that had best compute, by memory.

    Raises
    ------
    KeyError
        If points are missing.
    """
    best = [max(SHARES, key=lambda share: values[memory, share]) for memory in STACKS]
    yield "Fig. 22: a faster memory wants more of the chip to compute", str(_rises([best]))
    for memory, share in zip(("2D DDR", "2.5D HBM", "3D memory"), best, strict=True):
        yield f"Fig. 22, {memory}: best share that computes", share
