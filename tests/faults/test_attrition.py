"""What is left of a fabric as parts fail one after another."""

import numpy as np
import pytest

from netplan.faults.damage.inventory import Inventory
from netplan.faults.damage.survival import attrition
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.specs import FABRICS


def inventory(name: str) -> Inventory:
    return Inventory(expand(FABRICS.load(name), Sizing(256, 32, 8, 450e9, 50e9)))


@pytest.mark.parametrize("name", ["rail-only", "rail-optimized", "dragonfly", "torus-3d"])
@pytest.mark.parametrize("kind", ["switch", "link"])
def test_more_failures_never_leave_more(name: str, kind: str) -> None:
    found = attrition(inventory(name), kind, np.random.default_rng(3))
    if name == "torus-3d" and kind == "switch":
        assert found is None
        return
    assert found is not None
    counts, shares = zip(*found.left, strict=True)
    assert found.left[0] == (0, 1.0)
    assert list(counts) == sorted(set(counts))
    assert counts[-1] <= max(1, found.parts // 5)
    assert list(shares) == sorted(shares, reverse=True)
    assert min(shares) >= 0


def test_links_of_one_port_each_cut_off_one_gpu() -> None:
    found = attrition(inventory("rail-only"), "link", np.random.default_rng(0))
    assert found is not None
    assert found.left == tuple((count, 1 - count / 256) for count in (0, 1, 3, 10, 30))
