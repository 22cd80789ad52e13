"""Checks of what the rail-only paper says of faults in words, as numbers on its main cluster.

Source: Wang et al., arXiv:2307.12169, section 4.1; the cluster is that of Table 2 with 32,768 GPUs
in HB domains of 256 on switches of 128 ports.
"""

from collections.abc import Iterator

from netplan.faults.damage import find_effects
from netplan.faults.scenario import parse_faults
from netplan.published.checks import Check, check
from netplan.topologies.build import build_fabric
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.specs import FABRICS

WHERE = "arXiv:2307.12169, section 4.1"
CLUSTER = Sizing(32_768, 128, 256, 450e9, 50e9)
PAIR = ("rail-optimized", "rail-only")


def fault_checks() -> Iterator[Check]:
    """All claims, in the order of the section."""
    built = {name: build_fabric(FABRICS.load(name), CLUSTER) for name in PAIR}
    graphs = {name: expand(FABRICS.load(name), CLUSTER) for name in PAIR}
    cut: dict[str, dict[str, int]] = {name: {} for name in PAIR}
    for name, graph in graphs.items():
        for kind in ("host", "leaf"):
            effects = find_effects(graph, parse_faults([f"{kind}=1"], graph))
            cut[name][kind] = len(effects.cut_off)
    links = " and ".join(str(cut[name]["host"]) for name in PAIR)
    yield check("GPUs cut off by one link, Clos and rail-only", WHERE, "1 and 1", links)
    exposed = {name: built[name].tiers[0].switches * cut[name]["leaf"] for name in PAIR}
    yield check(
        "GPUs that hang at exactly one leaf or rail switch, Clos and rail-only",
        WHERE,
        "32,768 and 32,768",
        " and ".join(f"{exposed[name]:,}" for name in PAIR),
        "so a failing switch of the first tier cuts off a GPU as often in either network",
    )
    points = {name: built[name].switches + built[name].link_count for name in PAIR}
    fewer = points["rail-only"] < points["rail-optimized"]
    yield check(
        "rail-only has fewer points of failure: switches and links",
        WHERE,
        "True",
        str(fewer),
        f"{points['rail-only']:,} against {points['rail-optimized']:,}",
    )
