"""Nouns and questions are one: equal counts, graphs and bills for every shipped scenario."""

import inspect
import pydoc
import subprocess
import sys
from typing import Any

import networkx as nx
import pytest

import netplan
from netplan import Books, Cluster, Scenario, Serving, Training
from netplan.errors import CatalogError, InputError
from netplan.records import asdict
from netplan.scenarios.scenario import SCENARIOS
from netplan.topologies.fabric import Sizing

SHIPPED = [name for name in SCENARIOS.paths() if name != "two-sites-gb300"]  # a network a site
SIMULATED = ("palm-paper", "grayskull-paper")
"""Its iteration model has no closed form, and so no comparison."""


def ends(row: dict[str, Any]) -> dict[str, float]:
    """Low, base and high of the cost of a row."""
    return {end: row["cost"][end] for end in ("low", "base", "high")}


@pytest.mark.parametrize("name", SHIPPED)
def test_fabrics_of_a_scenario_are_those_of_compare_and_cost(name: str) -> None:
    scenario = Scenario.load(name)
    fabrics = scenario.cluster.fabrics
    timed = (
        scenario.with_workload(Training(iteration_model="4d")) if name in SIMULATED else scenario
    )
    compared = netplan.compare(timed, timing=False).to_dict()["fabrics"]
    billed = netplan.cost(scenario, fabrics=fabrics).to_dict()["fabrics"]
    costs = {row["fabric"]: row for row in billed}
    assert [row["fabric"] for row in compared] == [*fabrics]
    for row in compared:
        if row["switches"] is None:
            with pytest.raises(InputError):
                scenario.fabric(row["fabric"]).bill()
            continue
        fabric = scenario.fabric(row["fabric"])
        for key in ("tiers", "switches", "links", "transceivers", "hb_size", "gpu_bytes_per_s"):
            assert getattr(fabric, key) == row[key], key
        bill = fabric.bill()
        assert asdict(bill.total) == costs[fabric.name]["capital"]
        assert bill.power_w == row["power_w"] == costs[fabric.name]["power_w"]
        assert bill.to_frame()["total_base"].sum() == pytest.approx(bill.total.base)
        if row["cost"] and not scenario.cluster.expanded_memory:
            assert asdict(bill.total) == ends(row)


@pytest.mark.parametrize("name", ["rail-only", "fat-tree", "torus-3d"])
def test_the_graph_has_the_links_of_the_counts(name: str) -> None:
    fabric = Scenario.load("hgx-b200").replace(gpus=512, radix=32).fabric(name)
    graph = fabric.graph()
    assert graph.gpus == fabric.gpus == 512
    assert sum(graph.switches_per_tier().values()) == fabric.switches
    groups = graph.links_per_group()
    assert sum(links for group, links in groups.items() if group != "hb") == fabric.links
    view = graph.to_networkx()
    assert view.number_of_edges() == graph.link_count
    assert f"{graph.link_count:,} links" in repr(graph)


def test_what_a_scenario_replaces_is_in_its_fabric_and_its_bill() -> None:
    scenario = Scenario.load("hgx-b200").replace(gpus=4096)
    bills = [
        other.fabric("rail-only").bill().total.base
        for other in (
            scenario,
            scenario.replace(discount="10%"),
            scenario.replace(spares=("transceivers=2%",)),
            scenario.replace(nic_gbps=800),
        )
    ]
    asked: tuple[dict[str, Any], ...] = ({"discount": "10%"}, {"nic_gbps": 800})
    for changed, bill in zip(asked, bills[1::2], strict=True):
        (row,) = netplan.cost(scenario, fabrics=("rail-only",), **changed).to_dict()["fabrics"]
        assert row["cost"]["base"] == bill
    assert bills[1] == pytest.approx(0.9 * bills[0])
    assert all(other != bills[0] for other in bills[1:])
    named = scenario.replace(fabric="rail-only").fabric()
    assert named.bill().total.base == bills[0]


def test_cards_of_another_rate_keep_the_capacity_of_switches() -> None:
    usual = Scenario.load("hgx-b200")
    # 128 x 400 Gb/s = 64 x 800 Gb/s.
    assert usual.replace(nic_gbps=800).cluster.radix == 64
    assert usual.replace(nic_gbps=800, radix=128).cluster.radix == 128
    assert usual.replace(switch="qm9700").cluster.radix is None
    assert usual.replace(switch="qm9700").fabric("rail-only").radix == 64
    assert usual.replace(switch="qm9700").replace(radix=32).cluster.switch is None
    asked = netplan.compare("hgx-b200", nic_gbps=800, timing=False).to_dict()
    told = netplan.compare(usual.replace(nic_gbps=800), timing=False).to_dict()
    assert [row["cost"] for row in asked["fabrics"]] == [row["cost"] for row in told["fabrics"]]


def test_fabrics_that_are_not_there_or_do_not_fit_are_refused() -> None:
    scenario = Scenario.load("hgx-b200")
    with pytest.raises(CatalogError, match="did you mean rail-only"):
        scenario.fabric("rial-only")
    with pytest.raises(InputError, match="radix"):
        scenario.replace(radix=16, gpus=1_048_576).fabric("dragonfly")


def test_a_function_is_a_fabric_too() -> None:
    def ring(sizing: Sizing) -> nx.Graph:
        made = nx.cycle_graph(sizing.gpus)
        nx.set_node_attributes(made, "gpu", "kind")
        nx.set_edge_attributes(made, 400, "gbps")
        return made

    fabric = Scenario.load("hgx-b200").replace(gpus=16, hb_size=1, radix=16).fabric(ring)
    assert fabric.links == 16
    assert fabric.switches == 0


def test_scenarios_load_alone() -> None:
    code = (
        "import sys, netplan; before = {*sys.modules};"
        "netplan.Scenario.load('hgx-b200').replace(gpus=8192);"
        "print(*{name.split('.')[1] for name in sys.modules if name.startswith('netplan.')})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    rooms = {*done.stdout.split()}
    assert not rooms & {"topologies", "costing", "performance", "traffic", "questions", "reports"}


@pytest.mark.parametrize("part", [Cluster, Training, Serving, Books])
def test_help_of_python_shows_the_inputs_of_a_part(part: type) -> None:
    """As ``help()`` prints it: pydoc asks the metaclass for a docstring."""
    assert "Parameters" in pydoc.plain(pydoc.render_doc(part))
    assert "Option(" not in str(inspect.signature(part))


def test_a_scenario_names_a_fabric() -> None:
    with pytest.raises(InputError, match="fabrics: got none: name one or more"):
        Scenario().replace(fabrics=[])
