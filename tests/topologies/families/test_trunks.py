"""Links above the leaves that are faster than those of hosts, in every face of the answer."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.costing.cabling import CABLING_BOOKS
from netplan.costing.materials import bill_items
from netplan.costing.switches import SWITCHES
from netplan.costing.wiring import Hardware, wire
from netplan.errors import InputError
from netplan.topologies.build import build_fabric
from netplan.topologies.designs import DesignSize, WideUplinkPlanes
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.growth import PhasePrices, plan_growth, port_widths
from netplan.topologies.specs import FABRICS, FabricSpec


def spec(**keys: object) -> FabricSpec:
    return FABRICS.load("wide-trunks").changed(**keys)


def sizing(gpus: int, radix: int = 128, ratio: float | None = None) -> Sizing:
    """Hosts of 400 Gb/s; the radix counts ports of theirs."""
    return Sizing(gpus, radix, 8, 450e9, 50e9, oversubscription=ratio)


@pytest.mark.parametrize("gpus", [512, 1024])
def test_planes_with_trunks_are_those_that_hpn_is_compared_with(gpus: int) -> None:
    """Two ports of 200 Gb/s a GPU under trunks of 400: doi:10.1145/3718958.3750503, Table 7."""
    published = WideUplinkPlanes(
        name="", title="", source="", date="", family="wide-uplink-planes", planes=2, uplink_width=2
    ).counts(DesignSize(gpus=gpus, radix=64))
    # 32 whole ports of 400 Gb/s a switch are 64 of 200.
    fabric = build_fabric(spec(planes=2), sizing(gpus, 32))
    assert fabric.switches == published["total_switches"] == gpus * 96 // 1024
    assert [group.links for group in fabric.links] == [2 * gpus, gpus]
    assert fabric.exact


@settings(deadline=None, max_examples=60)
@given(
    st.integers(8, 3000),
    st.sampled_from([(16, 2), (24, 2), (32, 4), (64, 2), (64, 4), (128, 2)]),
    st.sampled_from([1.0, 1.5, 3.0]),
    st.sampled_from(["even", "uneven"]),
)
def test_counts_graph_and_ports_agree(
    gpus: int, shape: tuple[int, int], ratio: float, pods: str
) -> None:
    radix, width = shape
    wide, asked = spec(trunk_width=width, even_pods=pods == "even"), sizing(gpus, radix, ratio)
    fabric, graph = build_fabric(wide, asked), expand(wide, asked)
    counted = graph.links_per_group()
    counted.pop("hb", None)
    assert counted == {group.name: group.links for group in fabric.links}
    network = graph.group != graph.group_names.index("hb")
    widths = np.ones(graph.link_count, np.int64)
    widths[network] = np.rint(graph.bytes_per_s[network] / 50e9)
    assert set(widths[network]) <= {1, width}
    used = np.zeros(graph.node_count, np.int64)
    taken = []
    for node, port in ((graph.source, graph.source_port), (graph.target, graph.target_port)):
        np.add.at(used, node[network], widths[network])
        for offset in range(width):
            wide_enough = network & (widths > offset) & (graph.node_tier[node] > 0)
            taken.append(node[wide_enough].astype(np.int64) * 2048 + port[wide_enough] + offset)
    for number, tier in enumerate(fabric.tiers, start=1):
        mine = used[graph.node_tier == number]
        assert int(mine.sum()) == tier.ports_used
        assert mine.max() <= radix
    places = np.concatenate(taken)
    assert len(np.unique(places)) == len(places)  # no two cables in a port
    assert (places % 2048).max() < radix
    assert fabric.switches >= fabric.switches_lower_bound
    assert all(group.links >= group.links_lower_bound for group in fabric.links)
    # Leaves have as much bandwidth up as their hosts need.
    if len(fabric.tiers) > 1:
        leaf = graph.node_tier == 1
        below = np.bincount(graph.target[network], widths[network], graph.node_count)
        above = np.bincount(graph.source[network], widths[network], graph.node_count)
        assert (above[leaf] * ratio >= below[leaf] - 1e-9).all()


def test_an_sn5600_takes_ports_of_both_rates() -> None:
    """1,000 hosts of 400 Gb/s: 16 leaves, 32 trunks of 800 Gb/s each to 8 spines of 64."""
    fabric = build_fabric(spec(), sizing(1000))
    assert [tier.switches for tier in fabric.tiers] == [16, 8]
    hardware = Hardware(CABLING_BOOKS.load("2026"), SWITCHES.load("sn5600"))
    wiring = wire(fabric, hardware)
    assert {run.name: (run.links, run.plugs[0].speed_gbps) for run in wiring.runs} == {
        "host": (1000, 400),
        "leaf-spine": (512, 800),
    }
    # Leaves of 63 and 62 hosts have 32 and 31 cages for them: 8 x 32 + 8 x 31.
    ordered = {line.item: line.quantity for line in bill_items(fabric, wiring, hardware)}
    assert ordered["MMA4Z00-NS, twin-port OSFP 2 x 400G SR4, finned top"] == 504
    assert ordered["MMA4Z00-NS, OSFP 800G SR8, finned top"] == 1024
    for bank in wiring.banks[:2]:
        assert bank.name in ("leaf", "leaf trunks")
        assert bank.cages == 32


def test_growth_ends_in_what_is_compared() -> None:
    weights = PhasePrices(1.0, 0.0, (1.0, 0.0))
    found = plan_growth(spec(), sizing(1000), [500, 1000], weights)
    assert found.phases[-1].fabric.switches == 24
    assert [group.links for group in found.phases[-1].fabric.links] == [1000, 512]
    assert [phase.oversubscription for phase in found.phases] == [1.0, 1.0]
    assert set(port_widths(found.graph)) == {1, 2}


@pytest.mark.parametrize(
    ("width", "radix", "message"),
    [(3, 64, "use 2 or 4 or 8 or 16"), (32, 64, "use 2 or 4"), (2, 10, "as wide as ports")],
)
def test_trunks_that_do_not_fit_are_refused(width: int, radix: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        build_fabric(spec(trunk_width=width), sizing(100, radix))


def test_trunks_are_of_a_clos() -> None:
    with pytest.raises(ValueError, match="needs family: clos"):
        FABRICS.load("rail-only").changed(trunk_width=2)
