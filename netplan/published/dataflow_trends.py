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

from netplan.published.checks import Check, Measured, known, stated
from netplan.questions.map import map as ask_map

CHIPS = ("h100-80gb", "tpu-v4", "sn30", "wse-2")
KERNEL_BY_KERNEL, DATAFLOW, WAFER = ("h100-80gb", "tpu-v4"), ("sn30",), ("wse-2",)
DIMENSIONS = ("ring-ring", "ring-ring-ring", "mesh-mesh", "mesh-switch", "switch-switch")
DRAGONFLY = "mesh-mesh"
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
"""Utilisation of each system [1]."""


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


def _over(values: Values, field: str, first: Collection[str], other: Collection[str]) -> float:
    """Mean of systems with some values of a field over that of others; KeyError without any."""
    means = []
    for chosen in (first, other):
        found = [value for system, value in values.items() if getattr(system, field) in chosen]
        if not found:
            raise KeyError(field)
        means.append(fmean(found))
    return means[0] / means[1]


def design_space_ratios(values: Values) -> Iterator[Measured]:
    """Ratios of Sec. VI-C that these systems give.

    Raises
    ------
    KeyError
        If systems are missing.
    """

    def some(model: str, **facts: Collection[str]) -> Values:
        return {
            one: value
            for one, value in values.items()
            if one.model == model and all(getattr(one, name) in of for name, of in facts.items())
        }

    others = [one for one in DIMENSIONS if one != DRAGONFLY]
    language = some("gpt-1t")
    yield (
        "GPT 1T: dataflow over kernel by kernel",
        _over(language, "accelerator", DATAFLOW, KERNEL_BY_KERNEL),
    )
    for name, chips in (
        ("GPT 1T, kernel by kernel", KERNEL_BY_KERNEL),
        ("GPT 1T, dataflow", DATAFLOW),
        ("GPT 1T, wafer", WAFER),
    ):
        of = some("gpt-1t", accelerator=chips)
        yield f"{name}: HBM over DDR", _over(of, "memory", ("hbm3",), ("ddr4",))
    slow = some("gpt-1t", link=("pcie4",))
    yield "GPT 1T, PCIe: dragonfly over the others", _over(slow, "dimensions", (DRAGONFLY,), others)
    wafers = some("gpt-1t", accelerator=WAFER)
    yield "GPT 1T, wafer: NVLink over PCIe", _over(wafers, "link", ("nvlink4",), ("pcie4",))
    for title, model in (("DLRM", "dlrm-793b"), ("FFT", "fft-1t")):
        of = some(model)
        yield f"{title}: NVLink over PCIe", _over(of, "link", ("nvlink4",), ("pcie4",))
        yield f"{title}: dragonfly over the others", _over(of, "dimensions", (DRAGONFLY,), others)
        for name, chip in (("TPU", "tpu-v4"), ("wafer", "wse-2")):
            rest = [one for one in CHIPS if one != chip]
            yield f"{title}: {name} over the others", _over(of, "accelerator", (chip,), rest)
    yield "HPL: least utilisation of all systems", min(some("hpl-5m").values())


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
