"""Published designs: every printed count, out of a spec of its own."""

import json

import pytest

from netplan.errors import InputError
from netplan.published.checks import published
from netplan.published.fabric_counts import design_checks, design_counts
from netplan.published.verify import verify
from netplan.topologies.designs import DESIGNS
from netplan.topologies.specs import FABRICS

CHECKS = list(design_checks())


def test_every_design_is_checked_and_none_fails() -> None:
    designs = {row["design"] for row in published("real-designs")}
    assert {check.name.rpartition(": ")[0] for check in CHECKS} == designs
    assert [check for check in CHECKS if check.verdict == "fail"] == []
    assert all(check.source for check in CHECKS)


@pytest.mark.parametrize("row", published("real-designs"), ids=lambda row: row["design"])
def test_every_design_is_a_spec_and_a_size(row: dict[str, str]) -> None:
    inputs = json.loads(row["inputs"])
    name = inputs.pop("fabric", None) or inputs.pop("design")
    assert name in {*DESIGNS.paths(), *FABRICS.paths()}
    # The shape stands in the spec; the row adds at most sizes.
    sizes = {"gpus", "radix", "hb_size", "links_per_cable", "link_gbps", "circuits", "partition"}
    sizes |= {"cables_per_hb_link", "pods", "switch", "cage_cards"}
    assert set(inputs) <= sizes


def test_only_explained_numbers_do_not_reproduce() -> None:
    rest = {check.name: (check.expected, check.got) for check in CHECKS if check.verdict == "known"}
    assert rest == {
        # 1296 nodes of 8 are 10368 GPUs, as the cable columns say
        "DGX SuperPOD B300 XDR, 18 SU: gpus": ("9216", "10368"),
        # one port a GPU: 576 links of a Clos that nobody published
        "DGX SuperPOD GB200, 1 SU: links endpoint": ("none", "576"),
        # 33 groups x 8 switches x 4 hosts; 73 x 12 x 6
        "Dragonfly 1024: gpus": ("1024", "1056"),
        "Dragonfly 4096: gpus": ("4096", "5256"),
        # 748 (3 L - 1) USD for L tiers: 2 L - 1 switch ports and 2 L modules of half a port a GPU
        "DeepSeek, two-tier fat tree: usd per gpu": ("4390", "3740"),
        "DeepSeek, multi-plane fat tree: usd per gpu": ("4390", "3740"),
        "DeepSeek, three-tier fat tree: usd per gpu": ("7500", "5984"),
        # 511 x C(32, 2) + C(511, 2) = 253,456 + 130,305; printed with 511 x 512 / 2 = 130,816
        "DeepSeek, dragonfly: links between switches": ("384272", "383761"),
        # 5 x 104,858 / 64 rounded; 8 rails of 13,108 hosts in even trees
        "H100 cost sheet, 104,858 GPUs: total switches": ("8192", "8393"),
        # 6,912 / 2
        "Huawei CloudMatrix 384, modules and fibres: fibre links": ("3168", "3456"),
        # 2 planes of 16 leaves x 72 uplinks / 144 ports = 8 spines
        "DGX SuperPOD Vera Rubin, 2 SU: spine switches": ("18", "16"),
        # 2 x (800 / 20 + 800 / 40)
        "Fire-Flyer 2, two zones: total switches": ("122", "120"),
        # 20 planes of 25 x 20 / 40 = 12.5 cores: 20 divide the 20 uplinks of a spine
        "DGX A100 cluster of 10,000 ports: core switches": ("320", "400"),
        "DGX A100 cluster of 10,000 ports: total switches": ("1320", "1400"),
        # 8,192 / 64
        "Juniper validated design, medium: leaf switches": ("1024", "128"),
        # 2,048 / 64 + 2,048 / 128
        "AMD reference design, 2K MI355X GPUs: total switches": ("61", "48"),
        # 140 cubes x 96; 144 x 96 is printed
        "Google TPU v5p pod: fibre links": ("13824", "13440"),
        # 128 ports a plane on one switch of 128
        "Lenovo Hybrid AI 289-800, four units: total switches": ("4", "2"),
    }
    assert all(check.reason for check in CHECKS if check.verdict == "known")


@pytest.mark.parametrize(
    ("design", "column", "value"),
    [
        ("DGX SuperPOD H100 and B200, 3 SU", "links_endpoint", "764"),  # 95 x 8 + 4
        ("DGX SuperPOD H100 and B200, 3 SU", "spine_switches", "16"),
        ("DGX SuperPOD B200, 64 SU", "core_switches", "256"),  # 16384 / 64
        ("DGX SuperPOD B300 Ethernet, 16 SU", "leaf_switches", "256"),  # 2 planes x 8192 / 64
        ("Alibaba HPN pod", "links_spine_core", "960"),  # 120 x 8
        ("Google TPU v4 pod", "circuit_switches", "48"),  # 3 x 4 x 4
        ("Google Ironwood superpod", "fibre_links", "13824"),  # 144 cubes x 96
        ("Lambda GB300 NVL72, co-packaged, 4,608 GPUs", "total_switches", "100"),  # 64 + 36
        ("DeepSeek, Slim Fly", "links_between_switches", "32928"),  # 1568 x 42 / 2
        ("256-GPU order of modules", "leaf_modules", "128"),  # twin ports
        ("GB200 NVL72 rack", "hb_cables", "5184"),  # 72 x 18 x 4
        ("DGX SuperPOD GB200, compute network of 16 SU", "total_switches", "1040"),
        ("DGX SuperPOD GB300, 16 SU", "spine_switches", "72"),  # 128 x 72 / 144 = 64, no divisor
        ("Eight planes of 100 Gb/s, two tiers", "largest_gpus", "131072"),  # 512^2 / 2
        ("JUPITER Booster", "spine_switches", "400"),  # 25 x 32 / 2
        ("DGX SuperPOD H100, bill of 4 SU", "fibre_cables", "2040"),  # 127 x 8 + 1024
        # 1.5 = half a twin port at the host end, one for both ends above
        ("H100 with QM9700, two tiers, modules of a GPU", "switch_modules_per_gpu", "1.5"),
    ],
)
def test_the_table_holds_what_was_printed(design: str, column: str, value: str) -> None:
    row = next(row for row in published("real-designs") if row["design"] == design)
    assert row[column] == value


def test_a_wrong_published_number_would_fail() -> None:
    counts = design_counts("spec", '{"fabric": "bcube", "gpus": 1024, "radix": 32, "hb_size": 1}')
    assert counts["total_switches"] == 64  # 2 levels x 1024 / 32
    with pytest.raises(KeyError):
        design_counts("no such rule", "{}")
    with pytest.raises(InputError, match="twin-plane is a fabric spec: name it as fabric"):
        design_counts("counted", '{"design": "twin-plane"}')


def test_verify_runs_the_designs() -> None:
    answer = verify(only="Alibaba HPN")
    assert answer.count("pass") == 9
    assert not answer.failed
