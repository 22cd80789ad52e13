"""Checks against DFModel: they can fail, and ratios are those of means."""

from collections import Counter
from collections.abc import Callable, Mapping
from itertools import product

import pytest

from netplan.published.checks import Check, checks_of, published
from netplan.published.dataflow import (
    CHIP_NAMES,
    DIMENSIONS,
    GUIDE_DIE_USD,
    LAST,
    LINK_NAMES,
    MEMORY_NAMES,
    RATIOS,
    SHARES,
    STACKS,
    System,
    design_space_ratios,
    fig_19_ratios,
    fig_22_shares,
    ratios_named,
    system_amount,
    utilisation,
)


def test_the_logs_pass_and_what_is_known_says_why(
    suites: Mapping[str, Callable[[], tuple[Check, ...]]],
) -> None:
    checks = [*suites["dataflow"](), *suites["dataflow trends"]()]
    assert [one.name for one in checks if one.verdict == "fail"] == []
    grades = Counter(one.grade for one in checks)
    assert grades["off"] == 0
    assert (grades["exact"], grades["close"]) == (44, 25)
    assert len({one.name for one in checks}) == len(checks) == 136


def test_ratios_are_those_of_means() -> None:
    """A utilisation that is a product of factors: each ratio is that of means of the factors."""
    models = ("gpt-1t", "dlrm-793b", "fft-1t", "hpl-5m")
    factors = {
        "dimensions": dict(zip(DIMENSIONS, (1.0, 2.0, 12.0, 3.0, 4.0), strict=True)),
        "accelerator": dict(zip(CHIP_NAMES, (0.1, 0.5, 0.6, 0.03), strict=True)),
        "memory": {"ddr4": 1.0, "hbm3": 1.5},
        "link": {"pcie4": 1.0, "nvlink4": 7.0},
    }
    values = {}
    for one in product(models, DIMENSIONS, CHIP_NAMES, MEMORY_NAMES, LINK_NAMES):
        system = System(*one)
        value = 1.0
        for name, of in factors.items():
            value *= of[getattr(system, name)]
        values[system] = value
    found = dict(design_space_ratios(values))
    expected = {
        "GPT 1T: dataflow over kernel by kernel": 0.6 / 0.3,
        "GPT 1T, kernel by kernel: HBM over DDR": 1.5,
        "GPT 1T, PCIe: dragonfly over the others": 12 / 2.5,
        "GPT 1T, wafer: NVLink over PCIe": 7.0,
        "DLRM: dragonfly over the others": 12 / 2.5,
        "DLRM: TPU over the others": 0.5 / (0.73 / 3),
        "FFT: wafer over the others": 0.03 / 0.4,
        "HPL: least utilisation of all systems": 0.03,
        # PCIe without wafers: an H100 with DDR4 on a torus of two rings.
        "HPL: least utilisation but of wafers on PCIe": 0.1,
    }
    for name, value in expected.items():
        assert found[name] == pytest.approx(value)
    groups = dict(ratios_named(LAST, values))
    assert groups["GPT 1T, wafer: NVLink over PCIe, TP 8"] == pytest.approx(7.0)
    for missing in ("nvlink4", "hpl-5m"):
        with pytest.raises(KeyError):
            dict(design_space_ratios({one: 1.0 for one in values if missing not in one}))


def test_efficiencies_have_their_ratio() -> None:
    names = [one.name for one in RATIOS]
    assert len(names) == len(set(names))
    assert {row["name"] for row in published("dataflow-efficiency")} <= set(names)


def test_trends_can_turn() -> None:
    rates, srams = (100e9, 300e9, 600e9), (150e6, 300e6, 500e6)
    points = {(e, s, r): s * r for e in ("fused", "kernel-by-kernel") for s in srams for r in rates}
    found = dict(fig_19_ratios(points))
    assert found["Fig. 19: fused gains from SRAM"] == "True"
    assert found["Fig. 19: fused over kernel by kernel, at most"] == 1
    worse = dict(fig_19_ratios({**points, ("fused", 500e6, 100e9): 0.0}))
    assert worse["Fig. 19: fused gains from SRAM"] == "False"
    best = dict(zip(STACKS, (0.3, 0.5, 0.8), strict=True))
    shares = {(m, q): -abs(q - best[m]) for m, q in product(STACKS, SHARES)}
    assert [*dict(fig_22_shares(shares)).values()] == ["True", 0.3, 0.5, 0.8]
    flat = {(m, q): -abs(q - 0.5) for m, q in product(STACKS, SHARES)}
    assert [*dict(fig_22_shares(flat)).values()] == ["False", 0.5, 0.5, 0.5]
    verdicts = [check.verdict for check in checks_of(fig_22_shares(flat), "dataflow")]
    assert verdicts == ["fail", "fail", "known", "fail"]


@pytest.mark.parametrize(
    ("system", "value"),
    [
        # 2 x 2^40 x 8 / 1,024^2 B a pair over 512^2 pairs and 256 links of 900 GB/s; 5 x 2^30 x 40
        # FLOP a chip of 614.4 TFLOP/s: 2.147e11 / (19.09 ms x 6.144e14).
        (System("fft-1t", "mesh-mesh", "sn30", "hbm3", "nvlink4"), 0.0183105),
        # Bound by the bisection of the ring outside: 2 x 32 links of 25 GB/s.
        (System("fft-1t", "ring-ring", "h100-80gb", "hbm3", "pcie4"), 0.0000789627),
    ],
)
def test_utilisation_of_a_transform_by_hand(system: System, value: float) -> None:
    assert utilisation(system) == pytest.approx(value, rel=1e-5)
    links = {"mesh-mesh": 256, "ring-ring": 64}[system.dimensions]
    rate = {"nvlink4": 900e9, "pcie4": 25e9}[system.link]
    exchange_s = 2 * 512**2 * 8 * 2**20 / (links * rate)
    peak = {"sn30": 614.4e12, "h100-80gb": 989.4e12}[system.accelerator]
    assert utilisation(system) == pytest.approx(5 * 40 * 2**30 / (exchange_s * peak), rel=1e-5)


def test_price_and_power_of_a_system_by_hand() -> None:
    """SN30 as the user guide has them, but for the rate of their memory and the sizes of the torus.

    1,024 (16,522.25 + 200) and, of each of two rings of 32, links of 1,024 x 25 at 2 USD and ports
    of 2 x 1,024/32 x 25 at 24 USD a GB/s; power by the fit 3e-7 X^2 + 4.3e-4 X + 0.04 kW.
    """
    system = System("gpt-1t", "ring-ring", "sn30", "ddr4", "pcie4")
    links, ports = 2 * 1024 * 25, 2 * 2 * 32 * 25
    price = 1024 * (GUIDE_DIE_USD + 200) + 2 * links + 24 * ports
    assert system_amount(system, "price") == pytest.approx(price, rel=1e-12)
    die_w = 1e3 * (3e-7 * 614.4**2 + 4.3e-4 * 614.4 + 0.04)
    power = 1024 * (die_w + 200 * 0.16248) + 0.052 * (links + ports)
    assert system_amount(system, "energy") == pytest.approx(power, rel=1e-12)
