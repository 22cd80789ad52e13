"""GPUs that are cut off, and those in parts of their own."""

from netplan import Scenario
from netplan.faults.damage.damage import find_effects
from netplan.faults.damage.impact import Subject
from netplan.faults.damage.scenario import parse_faults
from netplan.topologies.build import build_fabric
from netplan.topologies.specs import FABRICS


def test_only_ports_that_lead_nowhere_are_cut_off() -> None:
    """Without spines the 32 leaves are parts: a part of 32 GPUs of 32 domains is no dead end."""
    scenario = Scenario.load("hgx-h100").replace(gpus=1024, radix=64)
    graph = scenario.fabric("rail-optimized").graph()
    spines = find_effects(graph, parse_faults(["spine=16"], graph))
    # One part, of the lowest GPU among equals, is the main one.
    assert len(spines.cut_off) == 1024 - 32
    assert len(spines.partitioned) == 1024 - 32
    both = find_effects(graph, parse_faults(["spine=16", "rail-1/leaf-0"], graph))
    alone = set(both.cut_off.tolist()) - set(both.partitioned.tolist())
    assert len(alone) == 32
    assert {gpu % 8 for gpu in alone} == {1}


def test_an_impact_counts_both_apart() -> None:
    scenario = Scenario.load("hgx-h100").replace(gpus=1024, radix=64)
    spec = FABRICS.load("rail-optimized")
    subject = Subject(spec, scenario.sizing, build_fabric(spec, scenario.sizing), None)
    impact = subject.impact(parse_faults(["spine=16", "gpu-3"], subject.graph))
    counts = (impact.gpus_down, impact.gpus_cut_off, impact.gpus_partitioned)
    assert counts == (1, 0, 1023 - 32)
    leaf = subject.impact(parse_faults(["leaf=1"], subject.graph))
    assert (leaf.gpus_cut_off, leaf.gpus_partitioned) == (32, 0)
