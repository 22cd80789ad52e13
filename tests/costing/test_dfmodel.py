"""Price and power as DFModel counts them: sums by hand, published totals, the fit of Fig. 9."""

import pytest
from msgspec import ValidationError, convert
from msgspec.structs import astuple

from netplan.costing.dfmodel import (
    SYSTEM_PARTS,
    PartAmounts,
    Units,
    die_power_w,
    published_amount,
    system_amounts,
)
from netplan.errors import InputError
from netplan.traffic.published_topology import Dimension
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.technologies import LINKS, MEMORIES

GUIDE = Units.of(MEMORIES.load("ddr4"), LINKS.load("pcie4"), "price", None)


def amount(*dimensions: tuple[str, int], die: float = 0.0, memory: float = 0.0) -> float:
    """Price of dimensions of one GB/s a link [USD]."""
    found = [Dimension(kind, size, 1e9) for kind, size in dimensions]  # type: ignore[arg-type]
    return published_amount(die, memory, found, GUIDE)


def test_the_guide_prints_17_757_184_dollars_and_511_325_watts() -> None:
    # 1,024 x (16,522.25 + 300) + 2 x 1,024 x 50 x 2 + 2 x (128 + 8) x 50 x 24
    torus = [Dimension("ring", 8, 50e9), Dimension("ring", 128, 50e9)]
    price = published_amount(16522.25023, 300e9, torus, GUIDE)
    assert price == pytest.approx(17_757_184.0, rel=2e-8)
    watts = Units.of(MEMORIES.load("ddr4"), LINKS.load("pcie4"), "energy", None)
    power = published_amount(444.7061955, 300e9, torus, watts)
    assert power == pytest.approx(511_325.0113549, rel=3e-8)


def test_a_published_log_prices_a_ring_by_one_outer_mesh() -> None:
    # 128 x 1,555 + 128 x 600 x 2 + 2 x 16 x 600 x 24 + 16 x 15 x 25 x 2 + 16 x 16 x 25 x 24
    network = [Dimension("ring", 8, 600e9), Dimension("mesh", 16, 25e9)]
    assert published_amount(0.0, 1555e9, network, GUIDE) == pytest.approx(979_040)


@pytest.mark.parametrize(
    ("dimensions", "links", "ports"),
    [
        # Four groups of eight: 4 x 8 x 7 links inside, no switch; 4 x 3 outside, 4^2 ports.
        ((("mesh", 8), ("mesh", 4)), 4 * 8 * 7 + 4 * 3, 16),
        # DGX-2: a port for every chip inside, for every group outside.
        ((("switch", 8), ("switch", 4)), 32 + 4, 32 + 4),
        # DGX-1.
        ((("mesh", 8), ("switch", 4)), 4 * 8 * 7 + 4, 4),
        # Four chips need no switch; a dimension of one is none.
        ((("ring", 4), ("ring", 1)), 4, 0),
        ((("mesh", 4),), 4 * 3, 0),
    ],
)
def test_links_and_ports_by_hand(
    dimensions: tuple[tuple[str, int], ...], links: int, ports: int
) -> None:
    assert amount(*dimensions) == pytest.approx(2 * links + 24 * ports)


def test_dies_and_memories_count_by_chip() -> None:
    network = (("ring", 4), ("ring", 2))
    alone = amount(*network)
    assert amount(*network, die=100.0) - alone == pytest.approx(8 * 100)
    assert amount(*network, memory=5e9) - alone == pytest.approx(8 * 5)


def test_the_fit_of_fig_9_by_hand() -> None:
    # 0.3 + 0.43 + 0.04 kW at 1,000 TFLOP/s.
    assert die_power_w(1e15) == pytest.approx(770)
    assert die_power_w(275e12) == pytest.approx(180.9375)


def test_what_is_not_published_is_said() -> None:
    with pytest.raises(InputError, match="no price is published for all of hbm3 and nvlink4"):
        Units.of(MEMORIES.load("hbm3"), LINKS.load("nvlink4"), "price", None)
    with pytest.raises(InputError, match="no energy is published"):
        Units.of(MEMORIES.load("ddr4"), LINKS.load("nvlink4"), "energy", None)


def test_a_system_has_the_ends_of_what_is_assumed_of_it() -> None:
    """1,024 H100 with HBM and NVLink in a torus of two rings of 32, all ends by hand.

    Links are 2 x 1,024 x 900 GB/s, ports 2 x 64 x 900 GB/s.
    """
    parts, torus = SYSTEM_PARTS.load("dfmodel-2024"), [Dimension("ring", 32, 900e9)] * 2
    memory, link = MEMORIES.load("hbm3"), LINKS.load("nvlink4")
    found = system_amounts(ACCELERATORS.load("h100-80gb"), memory, link, torus, parts)
    assert found is not None
    links, ports = 2 * 1024 * 900, 2 * 64 * 900
    ends = ((31531, 0.24, 6.07), (36531, 1.0, 24), (37406, 1.0, 24))
    for value, (die, a_gb_s, a_port) in zip(astuple(found.price_usd), ends, strict=True):
        expected = 1024 * (die + 3000 * a_gb_s) + links * 2 + ports * a_port
        assert value == pytest.approx(expected)
    die_w = die_power_w(ACCELERATORS.load("h100-80gb").tensor_flops_per_s)
    for value, (memory_w, link_w) in zip(
        astuple(found.power_w), ((0.056, 0.0104), (0.16248, 0.052), (0.16248, 0.052)), strict=True
    ):
        expected = 1024 * (die_w + 3000 * memory_w) + (links + ports) * link_w
        assert value == pytest.approx(expected)
    # An A100 has no price there.
    assert system_amounts(ACCELERATORS.load("a100-80gb"), memory, link, torus, parts) is None


def test_ends_out_of_order_and_parts_without_units_are_refused() -> None:
    said = {"part": "die", "of": "x", "evidence": "assumed", "source": "none"}
    for amounts in (
        {"price_usd": {"low": 2.0, "base": 1.0, "high": 3.0}},
        {"energy_j_per_byte": {"low": 1.0, "base": 1.0, "high": 3.0}},
    ):
        with pytest.raises(ValidationError, match="needs 0 < low <= base <= high"):
            convert(said | amounts, PartAmounts)
