"""Four whole bills worked out by hand, part by part: 800G, an NVL72, TPUs, and two racks.

Counts follow from the drawing of each network, prices are copied from the quotations; nothing here
asks netplan how many of a part there are or what one costs. Media are those of the designs' sources
(``hall: as-published``), so that lengths are the classes of the cabling book: 15 m to a leaf, 30 m
from there on, 3 m inside a block of a torus. The two racks stand in the default hall, where every
cable is as long as its way.
"""

from collections import Counter
from math import ceil
from typing import Any, NamedTuple

import pytest

import netplan

ENDS = ("low", "base", "high")


class Part(NamedTuple):
    """How many are bought, and what one costs at its low, base and high [USD]."""

    pieces: int
    low: float
    base: float
    high: float


def by_length(low: tuple[float, float], base: tuple[float, float], metres: float) -> list[float]:
    """Price of a cable, a + b L, its high 1.4 times the base [USD]."""
    ends = [a + b * metres for a, b in (low, base)]
    return [*ends, 1.4 * ends[1]]


def single_mode(metres: float) -> list[float]:
    """MPO-12 of OS2: 107.06 + 2.866 L through three quotations; low 1.4 times below [USD]."""
    _, base, high = by_length((0, 0), (107.06, 2.8656), metres)
    return [base / 1.4, base, high]


def multimode(metres: float) -> list[float]:
    """MPO-12 of OM4: 74.17 + 7.817 L through five quotations; low 70 + 2.5 L [USD]."""
    return by_length((70, 2.5), (74.17, 7.817), metres)


LAID = (14, 87, 201)
"""Laying, labelling and testing a cable [USD]."""
RACK = (3800, 10_200, 22_000)
"""A rack of 42 units with two power strips; a switch of 2 units and 1 of air each: 14 [USD]."""
BOX_51T = (80_000, 85_000, 200_000)
"""A box of 51.2 Tb/s, 64 x 800G or 128 x 400G [USD]."""
MODULE_800G = (699, 1224.5, 3067)
"""A module of 800G DR8: least, middle and most of fourteen quotations [USD]."""
MODULE_400G = (368.94, 611.95, 1156)
"""A module of 400G DR4, of eight [USD]."""

# Two tiers for 1,024 GPUs of 800G with boxes of 64 ports: 1,024 / 32 = 32 leaves of 32 down and 32
# up, 1,024 uplinks on 16 spines of 64. Each link has a module at both ends.
LEAVES = 1024 // 32
SPINES = LEAVES * 32 // 64
B300 = {
    "switches": Part(LEAVES + SPINES, *BOX_51T),
    "transceivers": Part(2 * 1024 + 2 * LEAVES * 32, *MODULE_800G),
    "host cables": Part(1024, *single_mode(15)),
    "trunks": Part(LEAVES * 32, *single_mode(30)),
    # ConnectX-8: 1.5 times a 400G card, list, planning estimate.
    "cards": Part(1024, 2248, 2519, 4500),
    "racks": Part(ceil((LEAVES + SPINES) / 14), *RACK),
    "installation": Part(1024 + LEAVES * 32, *LAID),
}

# 1,152 GPUs are 16 racks of 72 and so 72 rails of 16 hosts: eight rails fill a box of 128 ports of
# 400G, so there are nine, with no tier above. Inside a rack 72 x 900 GB/s = 64,800 GB/s are 18
# switches of 3,600 GB/s, as many copper as that; USD for a GB/s: 4.63, 5.79, 6.94 of switch with
# its tray, 1.23, 2.28, 3.33 of copper. That is 7,263 USD a GPU.
NVL72 = {
    "switches": Part(ceil(72 / (128 // 16)), *BOX_51T),
    "transceivers": Part(2 * 1152, *MODULE_400G),
    "host cables": Part(1152, *multimode(15)),
    "cards": Part(1152, 1070.71, 1499, 2500),
    "racks": Part(1, *RACK),
    "installation": Part(1152, *LAID),
    "gear switches": Part(16 * 18, *(3600 * usd for usd in (4.63, 5.79, 6.94))),
    "gear copper": Part(1152, *(900 * usd for usd in (1.23, 2.28, 3.33))),
}

# 4,096 chips are 64 cubes of 4 x 4 x 4. In a cube 3 directions x 16 lines x 3 links are copper:
# 144. Six faces of 16 chips have a fibre each to a circuit switch: 96. Palomar switch i takes fibre
# i of both opposite faces of all cubes: 48 switches of 136 ports, 128 in use. A fibre has a module
# in its chip alone: the switch is of mirrors. Copper of 400G is half a cable of 800G to 2 x 400G.
CUBES = 4096 // 64
TPU = {
    "circuit switches": Part(6 * 16 // 2, *(136 * usd for usd in (371.43, 520, 728))),
    "transceivers": Part(CUBES * 6 * 16, *MODULE_400G),
    "copper": Part(CUBES * 3 * 16 * 3, 68 + 25 * 3, 99.5 + 25 * 3, 150 + 55 * 3),
    "fibres": Part(CUBES * 6 * 16, *single_mode(30)),
    "installation": Part(CUBES * (3 * 16 * 3 + 6 * 16), *LAID),
}

# 64 H100 are eight servers of 8 U in two racks that stand side by side, 4 x 10.2 kW of 41 kW, and a
# leaf of 64 ports in the middle of the second one. It has 1 U and 1 for its cables; the other 46 of
# 48 units give a server 11 each: from 1, 12, 25 and 36, around the leaf in 23, a GPU in each unit.
LEAF_UNIT, SERVER_UNITS = 23, (1, 12, 25, 36)
GPU_UNITS = [server + gpu for server in SERVER_UNITS for gpu in range(8)]
UNIT_M, STOCK_M = 0.04445, (0.5, 1, 1.5, 2, 2.5, 3, 4, 5, 7, 10)
IN_RACK_M = [abs(unit - LEAF_UNIT) * UNIT_M + 0.5 for unit in GPU_UNITS]
# Up to a tray at 2.7 m and down again, 0.6 m to the next rack, 1 m of slack.
NEXT_RACK_M = [2 * 2.7 - (unit + LEAF_UNIT) * UNIT_M + 0.6 + 1.0 for unit in GPU_UNITS]
LENGTHS_M = Counter(
    next(stock for stock in STOCK_M if stock >= length) for length in IN_RACK_M + NEXT_RACK_M
)


def copper(metres: float) -> list[float]:
    """400G over lanes of 100 Gb/s: passive to 2 m, amplified to 5 m, retimed to 7 m [USD]."""
    if metres <= 2:
        ends: tuple[tuple[float, float], ...] = (68, 25), (99.5, 25), (150, 55)
    elif metres <= 5:
        ends = (278.61, 49.6307), (390.06, 69.483), (546.08, 97.2762)
    else:
        assert metres <= 7
        ends = (425, 55), (743.14, 69.483), (1040.39, 97.2762)
    return [a + b * metres for a, b in ends]


RACKS = {
    "switch": Part(1, 36_000, 50_000, 69_760),
    **{f"{metres:g} m": Part(links, *copper(metres)) for metres, links in LENGTHS_M.items()},
    "cards": Part(64, 1070.71, 1499, 2500),
    "installation": Part(64, *LAID),
}

CASES: dict[str, tuple[str, dict[str, Any], dict[str, Part]]] = {
    "800G": ("hgx-b200", {"gpus": 1024, "accelerator": "b300", "fabrics": "rail-optimized"}, B300),
    "NVL72": ("nvl72-gb200", {"gpus": 1152, "fabrics": "rail-only", "networks": "hb-gear"}, NVL72),
    "TPU": ("tpu-v7", {"gpus": 4096, "accelerator": "tpu-v4", "fabrics": "torus-ocs"}, TPU),
    "racks": ("hgx-h100", {"gpus": 64, "fabrics": "fat-tree", "hall": "leaves-in-rack"}, RACKS),
}


@pytest.mark.parametrize("name", CASES)
def test_a_bill_by_hand_is_netplans(name: str) -> None:
    scenario, asked, parts = CASES[name]
    radix = 128 if name == "NVL72" else 64
    bill = netplan.cost(
        scenario, **{"hall": "as-published"} | asked, radix=radix, prices="2026", spares=()
    ).bills[0]
    for at, end in enumerate(ENDS, start=1):
        total = sum(part.pieces * part[at] for part in parts.values())
        assert getattr(bill.capital, end) == pytest.approx(total, rel=1e-4), end
    # Part by part, so that no two errors make up for each other.
    paid = sorted(item.total.base for item in bill.quote.items if item.total.base)
    assert paid == pytest.approx(
        sorted(part.pieces * part.base for part in parts.values()), rel=1e-4
    )


def test_the_cables_of_two_racks_are_these() -> None:
    # In the leaf's rack 0.59 to 1.48 m; from the next one 4.07 to 4.87 m and 5.13 to 5.93 m.
    assert LENGTHS_M == {1: 16, 1.5: 16, 5: 16, 7: 16}
    assert (min(IN_RACK_M), max(IN_RACK_M)) == pytest.approx((0.5889, 1.4779))
    assert (min(NEXT_RACK_M), max(NEXT_RACK_M)) == pytest.approx((4.0663, 5.9332))


def test_the_totals_are_these() -> None:
    # 48 x 85,000 + 4,096 x 1,224.5 + 1,024 x (150.04 + 193.03 + 2,519) + 4 x 10,200 + 2,048 x 87.
    totals = {
        name: sum(part.pieces * part.base for part in case[2].values())
        for name, case in CASES.items()
    }
    assert totals["800G"] == pytest.approx(12_245_290, abs=50)
    # 4,232,726 of network and 1,152 x 7,263 inside the racks.
    assert totals["NVL72"] == pytest.approx(4_232_726 + 1152 * 7263, abs=50)
    # 48 x 70,720 + 6,144 x (611.95 + 193.03) + 9,216 x 174.5 + 15,360 x 87.
    assert totals["TPU"] == pytest.approx(11_284_857, abs=50)
