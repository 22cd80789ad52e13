"""Prints what questions say of a fabric of every family, as JSON, for the test of labels.

With the word ``renamed`` all link groups have other labels, in the counts as in the graph.
"""

import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import netplan
from netplan import Scenario
from netplan.errors import NetplanError
from netplan.records import asdict, replace
from netplan.reports.answer import Answer
from netplan.topologies import expand, fabric
from netplan.topologies.graph import FabricGraph, LinkType
from netplan.topologies.own import graph_fabric

SIZES = {"palm-wafer": 64, "twisted-torus": 128, "torus-ocs": 128}
FABRICS = (
    *("fat-tree", "rail-only", "rail-optimized", "eight-planes", "dgx-superpod", "mixed-domains"),
    *("torus-3d", "torus-ocs", "twisted-torus", "full-mesh-3d", "ring-8-mesh", "hammingmesh"),
    *("palm-wafer", "bcube", "dragonfly", "dragonfly-plus", "hyperx", "slim-fly", "jellyfish"),
    *("circulant", "xpander", "direct-circulant", "direct-random"),
)
LABELS: dict[str, str] = {}


def relabelled(kind: LinkType) -> LinkType:
    """The same links under another label, which is always the same one."""
    if kind.name not in LABELS.values():
        LABELS[kind.name] = "q" + hashlib.sha256(kind.name.encode()).hexdigest()[:8]
    return replace(kind, name=LABELS.get(kind.name, kind.name))


def rename() -> None:
    """Relabel the links of all counts and graphs where they are made."""
    counted = fabric.LinkGroup.of

    def of(kind: LinkType, links: int, lower_bound: int | None = None) -> fabric.LinkGroup:
        return counted(relabelled(kind), links, lower_bound)

    def graph(make: Callable[..., FabricGraph]) -> Callable[..., FabricGraph]:
        def made(*given: object) -> FabricGraph:
            found = make(*given)
            return replace(found, groups=tuple(map(relabelled, found.groups)))

        return made

    fabric.LinkGroup.of = staticmethod(of)  # type: ignore[method-assign]
    for module, name in (
        (expand, "assemble"),
        (expand, "with_domains"),
        (graph_fabric, "graph_of"),
        (graph_fabric, "_grouped"),
    ):
        setattr(module, name, graph(getattr(module, name)))


def answers(name: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """What is asked of a fabric."""
    scenario = Scenario.load("hgx-h100").replace(
        gpus=SIZES.get(name, 64),
        radix=16,
        hb_size=1 if name in SIZES else 4,
        fabrics=(name,),
        model="llama-3.1-8b",
        batch=64,
        iteration_model="4d",
    )
    yield "counts", lambda: asdict(scenario.fabric(name).counts)
    for ask in (netplan.cost, netplan.loads, netplan.faults, netplan.simulate, netplan.draw):
        yield ask.__name__, partial(ask, scenario)
    yield "cables", lambda: netplan.cables(scenario).csv()


def main() -> None:
    """Print all answers, and which label is whose."""
    if "renamed" in sys.argv:
        rename()
    found: dict[str, Any] = {}
    for name in FABRICS:
        for question, ask in answers(name):
            try:
                answer = ask()
            except NetplanError as error:
                answer = str(error)
            plain = answer.to_dict() if isinstance(answer, Answer) else answer
            found[f"{name} {question}"] = plain
    sys.stdout.write(json.dumps({"labels": LABELS, "answers": found}))


if __name__ == "__main__":
    main()
