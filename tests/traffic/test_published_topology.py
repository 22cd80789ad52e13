"""DFModel's algebra of topologies: its table by hand, and exchanges by counting pairs and links."""

from itertools import combinations, product
from math import prod

import pytest

from netplan.errors import InputError
from netplan.traffic.published_topology import Dimension, dimension_s, exchanged_s

RATE = 25e9


@pytest.mark.parametrize(
    ("kind", "ring", "mesh", "switch"),
    [
        # Of 8 chips and 1 GB: 7/8, 2/8, 7/8 GB over a link; broadcast 7/2; 8 GB x 8 / 8, 1, 8/4.
        ("all_reduce", 7 / 8, 2 / 8, 7 / 8),
        ("all_gather", 7 / 8, 1 / 8, 7 / 8),
        ("broadcast", 7 / 2, 7 / 2, 7 / 2),
        ("all_to_all", 8.0, 1.0, 2.0),
        ("point_to_point", 1.0, 1.0, 1.0),
    ],
)
def test_collectives_of_eight_chips(kind: str, ring: float, mesh: float, switch: float) -> None:
    for joined, factor in (("ring", ring), ("mesh", mesh), ("switch", switch)):
        one = Dimension(joined, 8, RATE)  # type: ignore[arg-type]
        found = dimension_s(kind, 1e9, one)  # type: ignore[arg-type]
        assert found == pytest.approx(factor * 1e9 / RATE)
        alone = Dimension(joined, 1, RATE)  # type: ignore[arg-type]
        assert dimension_s(kind, 1e9, alone) == 0.0  # type: ignore[arg-type]


def test_what_versions_and_physics_charge_otherwise() -> None:
    switch, mesh = Dimension("switch", 16, RATE), Dimension("mesh", 16, RATE)
    physical = dimension_s("all_reduce", 1e9, switch, switch_factor=2.0)
    assert physical == pytest.approx(2 * 15 / 16 * 1e9 / RATE)
    later = dimension_s("all_reduce", 1e9, mesh, mesh_factor=0.5)
    assert later == pytest.approx(1e9 / 16 / RATE)


def links_over_the_middle(kinds: tuple[str, ...], sizes: tuple[int, ...], axis: int) -> int:
    """Links that cross the middle of an axis, one by one over all chips."""
    chips = list(product(*(range(size) for size in sizes)))
    half, crossing = sizes[axis] // 2, 0
    if kinds[axis] == "switch":  # a link of each chip leads to the switch, half of them from a side
        return len(chips)
    for first, second in combinations(chips, 2):
        if any(a != b for at, (a, b) in enumerate(zip(first, second, strict=True)) if at != axis):
            continue
        low, high = first[axis], second[axis]
        joined = kinds[axis] == "mesh" or high - low in (1, sizes[axis] - 1)
        crossing += joined and (low < half) != (high < half)
    return crossing


@pytest.mark.parametrize(
    ("kinds", "sizes"),
    [
        (("ring", "ring"), (4, 8)),
        (("ring", "ring", "ring"), (4, 4, 8)),
        (("mesh", "ring"), (4, 8)),
        (("switch", "ring"), (8, 4)),
        (("mesh", "mesh", "ring"), (4, 4, 4)),
    ],
)
def test_an_exchange_waits_for_the_narrowest_middle(
    kinds: tuple[str, ...], sizes: tuple[int, ...]
) -> None:
    """Rings outermost: every chip has its own links along every dimension."""
    rates = [1e9, 3e9, 2e9]
    network = [Dimension(*one) for one in zip(kinds, sizes, rates, strict=False)]  # type: ignore[arg-type]
    chips, pair = prod(sizes), 1e6
    # Half of the chips send to the other half: the pairs of both halves.
    slowest = max(
        (chips / 2) ** 2 * pair / (links_over_the_middle(kinds, sizes, axis) * rates[axis])
        for axis in range(len(sizes))
    )
    assert exchanged_s(pair, network) == pytest.approx(slowest)


@pytest.mark.parametrize(("kind", "links"), [("mesh", 64), ("switch", 16)])
def test_groups_share_one_outermost_mesh_or_switch(kind: str, links: int) -> None:
    # 16 groups of 8: 16^2 / 4 links between halves, or 16 ports; each 1 GB/s.
    network = [Dimension("ring", 8, 1e15), Dimension(kind, 16, 1e9)]  # type: ignore[arg-type]
    assert exchanged_s(1e6, network) == pytest.approx(64**2 * 1e6 / (links * 1e9))
    # A dimension of one chip outside changes nothing.
    assert exchanged_s(1e6, [*network, Dimension("ring", 1, 1.0)]) == exchanged_s(1e6, network)


def test_no_chips_exchange_nothing() -> None:
    with pytest.raises(InputError, match="without chips"):
        exchanged_s(1.0, [Dimension("ring", 0, 1e9)])
