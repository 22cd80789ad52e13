"""Price cliffs: a few GPUs fewer or more for far fewer switches, against every size near by."""

import json

import pytest

from netplan import Scenario
from netplan.errors import NetplanError
from netplan.topologies.build import build_fabric
from netplan.topologies.cliffs import LEAST_RATIO, LEAST_SWITCHES, MOST_GPUS, cliff_of
from netplan.topologies.fabric import Sizing
from netplan.topologies.specs import FABRICS
from tests.cli.command import netplan


def sizing_of(gpus: int, radix: int) -> Sizing:
    """HGX servers of 8."""
    return Scenario.load("hgx-b200").replace(gpus=gpus, radix=radix).sizing


def switches(name: str, gpus: int, radix: int) -> int:
    """Switches of a size."""
    return build_fabric(FABRICS.load(name), sizing_of(gpus, radix)).switches


def test_one_leaf_too_many_needs_a_third_tier() -> None:
    # 16,384 GPUs on 8 rails of radix 64: 2,048 a rail on 64 leaves and 32 spines, 8 x 96 = 768.
    spec, sizing = FABRICS.load("rail-only"), sizing_of(16_416, 64)
    found = cliff_of(spec, sizing, build_fabric(spec, sizing))
    assert found is not None
    assert (found.other_gpus, found.other_switches) == (16_384, 768)
    assert found.switches == switches("rail-only", 16_416, 64)
    assert found.sentence == (
        "Price cliff, rail-only: 32 GPUs fewer (16,384) need"
        f" {found.switches - 768:,} switches less (768)."
    )


@pytest.mark.parametrize(
    ("name", "gpus", "radix"),
    [
        ("rail-only", 4200, 64),
        ("rail-only", 2056, 64),
        ("fat-tree", 2056, 64),
        ("rail-optimized", 8208, 128),
        ("fat-tree", 4096, 64),
        ("rail-only", 520, 16),
    ],
)
def test_no_size_near_by_spares_more(name: str, gpus: int, radix: int) -> None:
    """Every size of whole servers within 3 % is counted."""
    asked = switches(name, gpus, radix)
    spec, sizing = FABRICS.load(name), sizing_of(gpus, radix)
    best = 0
    span = int(MOST_GPUS * gpus) // 8 * 8
    for other in range(gpus - span, gpus + span + 1, 8):
        try:
            spared = asked - switches(name, other, radix)
        except NetplanError:
            continue
        if spared / asked >= max(LEAST_SWITCHES, LEAST_RATIO * (gpus - other) / gpus):
            best = max(best, spared)
    found = cliff_of(spec, sizing, build_fabric(spec, sizing))
    # Sizes between the limits of tiers may spare a few more.
    assert 0.95 * best <= (found.fewer_switches if found else 0) <= best


def test_compare_and_cost_say_so() -> None:
    asked = ("--gpus", "16416", "--radix", "64")
    line = "Price cliff, rail-only: 32 GPUs fewer (16,384)"
    assert line in netplan("compare", *asked, "--no-timing").stdout
    assert line in netplan("cost", *asked).stdout
    data = json.loads(netplan("cost", *asked, "--format", "json").stdout)
    assert data["price_cliffs"][0]["other_switches"] == 768
    assert "Price cliff" not in netplan("cost", "--gpus", "16384", "--radix", "64").stdout
