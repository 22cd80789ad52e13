"""What another package adds by entry points: a fabric of its own kind, and a question."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import netplan as library
from netplan.added import added
from netplan.topologies.specs import family_named
from tests.cli.command import netplan

PACKAGE = '''
"""A package of somebody else: spiders, stars, how many watts a GPU has, and links as a list."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import networkx as nx
import numpy as np

from netplan.performance.iteration_model import ITERATION_MODELS
from netplan.setup.own_inputs import option_field
from netplan.setup.question import Question
from netplan.records import PositiveInt
from netplan.reports.answer import Answer
from netplan.reports.sections import Heading, Paragraph, Section
from netplan.scenarios.reading import CatalogReader
from netplan.topologies.assembly import Links, NameBlock, Nodes, Wired
from netplan.topologies.fabric import Fabric, LinkGroup, Sizing, SwitchTier, network_level
from netplan.topologies.graph import HALL, HOST_LINKS, ROW, SWITCH, FabricGraph, LinkType
from netplan.topologies.specs import FabricSpec
from netplan.workloads.accelerators import ACCELERATORS

LEGS = LinkType("leg", "up", tiers=(1, 2))


class Spider(FabricSpec, frozen=True, kw_only=True):
    """A body, and legs of some GPUs at a foot each."""

    gpus_per_foot: PositiveInt = 8

    def build(self, sizing: Sizing) -> Fabric:
        feet, gpus = -(-sizing.gpus // self.gpus_per_foot), sizing.gpus
        legs = feet * self.gpus_per_foot
        return Fabric(
            name=self.name,
            title=self.title,
            sizing=sizing,
            tiers=(SwitchTier("foot", feet, feet, gpus + legs), SwitchTier("body", 1, 1, legs)),
            links=(LinkGroup.of(HOST_LINKS, gpus), LinkGroup.of(LEGS, legs)),
            nic_ports=gpus,
            levels=(
                self.hb_level(sizing),
                network_level(sizing, sizing.full_domains, sizing.network_bytes_per_s),
            ),
            network="any-to-any",
            notes=(*self.notes, f"A spider of {feet} feet."),
        )

    def wire(self, fabric: Fabric, first: int, port: int) -> Wired:
        feet, each = fabric.tiers[0].switches, self.gpus_per_foot
        gpu, leg = np.arange(fabric.sizing.gpus), np.arange(feet * each)
        rate = fabric.sizing.network_bytes_per_s
        foot, place = np.divmod(gpu, each)
        hosts = Links(HOST_LINKS, gpu, first + foot, np.full_like(gpu, port), place, rate, ROW)
        ends = first + leg // each, np.full_like(leg, first + feet)
        legs = Links(LEGS, *ends, each + leg % each, leg, rate, HALL)
        names = NameBlock("foot-{}", (feet,)), NameBlock("body-{}", (1,))
        nodes = tuple(Nodes(SWITCH, tier, block) for tier, block in enumerate(names, 1))
        return Wired(nodes, (hosts, legs))


def star(sizing: Sizing) -> nx.Graph:
    """All GPUs at one switch."""
    return nx.Graph((f"gpu-{gpu}", "middle") for gpu in range(sizing.gpus))


def pairs(graph: FabricGraph) -> Iterator[str]:
    for source, target in zip(graph.source.tolist(), graph.target.tolist(), strict=True):
        yield f"{graph.names[source]} {graph.names[target]}"


PAPER = ITERATION_MODELS.load("ptd-p").to_dict()
PATIENT = {**PAPER, "compute": {**PAPER["compute"], "kernel_latency_s": 0.001}}


@dataclass(frozen=True, slots=True, repr=False)
class WattsAnswer(Answer):
    json_parts = ("power_w",)

    inputs: dict[str, Any]
    power_w: float

    def sections(self) -> Iterator[Section]:
        yield Heading("watts", ())
        yield Paragraph(f"{self.power_w:g} W")


@dataclass(frozen=True, kw_only=True)
class Watts(Question[WattsAnswer]):
    """How much all GPUs draw."""

    command: ClassVar[str] = "watts"
    reads: ClassVar[frozenset[str]] = frozenset({"gpus", "accelerator"})
    share: float = option_field("Share of the rated power.", "real", default=1.0)

    def ask(self) -> WattsAnswer:
        reader = CatalogReader(self.catalog, self.overrides)
        chip = reader.load(ACCELERATORS, self.cluster.accelerator)
        return WattsAnswer(self.inputs(), self.share * self.cluster.gpus * chip.power_w)
'''
ENTRIES = """
[netplan.fabrics]
spider = somebody_else:Spider
star = somebody_else:star
[netplan.questions]
watts = somebody_else:Watts
[netplan.formats]
pairs = somebody_else:pairs
[netplan.iteration_models]
patient = somebody_else:PATIENT
"""
SMALL = ("hgx-h100", "--gpus", "32", "--hb-size", "4", "--model", "gpt-22b", "--batch", "32")
NETWORK = SMALL[:5]


@pytest.fixture(autouse=True)
def somebody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package that is installed for a test."""
    (tmp_path / "somebody_else.py").write_text(PACKAGE)
    about = tmp_path / "somebody_else-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: somebody-else\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRIES)
    monkeypatch.syspath_prepend(str(tmp_path))
    added.cache_clear()
    yield
    added.cache_clear()
    family_named.cache_clear()


@pytest.mark.parametrize("fabric", ["spider", "star"])
@pytest.mark.parametrize(
    ("words", "key"),
    [
        (("compare", *SMALL), "fabrics"),
        (("cost", *NETWORK), "fabrics"),
        (("loads", *SMALL), "groups"),
        (("faults", *SMALL, "--fail", "link=1"), "fabrics"),
        (("simulate", *SMALL), "iteration_time_s"),
        (("cables", *NETWORK), "rows"),
    ],
)
def test_a_fabric_of_its_own_kind_works_everywhere(
    words: tuple[str, ...], key: str, fabric: str
) -> None:
    done = netplan(*words, "--fabric", fabric, "--format", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[key]


def test_its_counts_are_those_of_its_graph() -> None:
    answer = library.compare("hgx-h100", gpus=32, hb_size=4, fabrics="spider", timing=False)
    (row,) = answer.rows
    assert row.fabric is not None
    # Four feet and a body; 32 cables to GPUs, and as many legs.
    assert (row.fabric.switches, row.fabric.link_count) == (5, 64)
    graph = library.Scenario.load("hgx-h100").replace(gpus=32, hb_size=4).fabric("spider").graph()
    assert graph.links_per_group() == {"hb": 32, "host": 32, "leg": 32}


def test_a_file_has_keys_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "tarantula.yaml"
    head = "name: tarantula\ntitle: Many legs\nsource: me\ndate: '2026'\nfamily: spider\n"
    path.write_text(f"{head}gpus_per_foot: 4\n")
    done = netplan("cost", *NETWORK, "--fabric", str(path), "--format", "json")
    assert json.loads(done.stdout)["fabrics"][0]["notes"][0] == "A spider of 8 feet."
    path.write_text(f"{head}gpus_per_foott: 4\n")
    done = netplan("cost", *NETWORK, "--fabric", str(path))
    assert f"{path}:6: unknown key gpus_per_foott: did you mean gpus_per_foot?" in done.stderr
    path.write_text(f"{head}rail_wiring: true\n")
    done = netplan("cost", *NETWORK, "--fabric", str(path))
    assert f"{path}:6: rail_wiring needs family: clos, got spider: leave it out" in done.stderr


def test_its_values_are_replaced_like_others() -> None:
    key = ("--set", "spider.gpus_per_foot=16")
    done = netplan("cost", *NETWORK, "--fabric", "spider", *key, "--format", "json")
    assert json.loads(done.stdout)["fabrics"][0]["notes"][0] == "A spider of 2 feet."


def test_its_format_is_written(tmp_path: Path) -> None:
    """In a process of its own: formats are options, which are made as the command is."""
    words = ("export", *NETWORK, "--fabric", "spider", "--to", "pairs")
    done = subprocess.run(
        [sys.executable, "-m", "netplan", *words],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "gpu-31 foot-3\n" in done.stdout


def test_its_iteration_model_times_a_run() -> None:
    asked = ("rail-only-paper", "--gpus", "64", "--model", "gpt-22b", "--batch", "64")
    times = []
    for name in ("ptd-p", "patient"):
        words = ("--fabric", "rail-only", "--iteration-model", name, "--format", "json")
        done = netplan("compare", *asked, *words)
        assert done.returncode == 0, done.stderr
        times.append(json.loads(done.stdout)["fabrics"][0]["iteration_time_s"])
    assert times[0] < times[1]


@pytest.mark.parametrize("words", [("draw",), ("export", "--to", "graphml")])
def test_it_is_drawn_and_written(words: tuple[str, ...]) -> None:
    done = netplan(*words, *NETWORK, "--fabric", "spider")
    assert done.returncode == 0, done.stderr
    assert "foot" in done.stdout or "<svg" in done.stdout


def test_a_scenario_names_it(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("cluster: {gpus: 32, fabric: spider, fabrics: [spider, rail-only]}\n")
    done = netplan("cost", str(path), "--format", "json")
    assert done.returncode == 0, done.stderr
    assert [row["fabric"] for row in json.loads(done.stdout)["fabrics"]] == ["spider", "rail-only"]


def test_its_question_is_a_command() -> None:
    done = netplan("watts", "hgx-h100", "--gpus", "16", "--share", "0.5", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["power_w"] == 0.5 * 16 * 700
    assert "--share" in netplan("watts", "--help").stdout


def test_a_wrong_name_is_told_with_those_that_are_added() -> None:
    assert "did you mean watts" in netplan("wats").stderr
