"""Published designs: every printed count, and counting functions by hand."""

import pytest

from netplan.errors import InputError
from netplan.reports.checks_designs import design_checks, design_counts
from netplan.reports.checks_rail_only import published
from netplan.reports.verify import verify
from netplan.topologies.dragonfly_groups import GroupKind, UnevenDragonfly
from netplan.topologies.pods import SegmentedPod, wide_uplink_planes

CHECKS = list(design_checks())


def test_every_design_is_checked_and_none_fails() -> None:
    designs = {row["design"] for row in published("real-designs")}
    assert {check.name.rpartition(": ")[0] for check in CHECKS} == designs
    assert [check for check in CHECKS if check.verdict == "fail"] == []
    assert all(check.source for check in CHECKS)


def test_only_the_four_explained_numbers_do_not_reproduce() -> None:
    rest = {check.name: (check.expected, check.got) for check in CHECKS if check.verdict == "known"}
    assert rest == {
        # 1296 nodes of 8 are 10368 GPUs, as the cable columns say
        "DGX SuperPOD B300 XDR, 18 SU: gpus": ("9216", "10368"),
        # one port a GPU: 576 links of a Clos that nobody published
        "DGX SuperPOD GB200, 1 SU: links endpoint": ("none", "576"),
        # 33 groups x 8 switches x 4 hosts; 73 x 12 x 6
        "Dragonfly 1024: gpus": ("1024", "1056"),
        "Dragonfly 4096: gpus": ("4096", "5256"),
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


def test_verify_runs_the_designs() -> None:
    answer = verify(only="Alibaba HPN")
    assert answer.count("pass") == 9
    assert not answer.failed


def test_hpn_pod_closes_on_its_ports() -> None:
    pod = SegmentedPod(15, 8, 2, 128, 60, 128, 8, 200.0, 400.0)
    # ToR ports down: 30720 host links on 240 ToRs of 128; up: 14400 / 240 = 60
    assert pod.links == (240 * 128, 240 * 60, 120 * 8)
    # aggregation ports: 14400 / 120 = 120 down and 8 up on 128
    assert pod.links[1] // pod.aggregations + 8 == 128
    assert round(pod.tor_oversubscription, 3) == 1.067  # 128 x 200 / (60 x 400)
    with pytest.raises(InputError, match="136 ports"):  # 16 x 8 + 8
        SegmentedPod(16, 8, 2, 128, 60, 128, 8, 200.0, 400.0)


def test_planes_with_wide_uplinks() -> None:
    counts = wide_uplink_planes(1024, 64)
    # a plane: 1024/32 = 32 leaves, 512 uplinks at the double rate, 512/32 = 16 spines
    assert (counts.leaves, counts.spines, counts.host_links, counts.uplinks) == (64, 32, 2048, 1024)
    with pytest.raises(InputError, match="multiple of 32"):
        wide_uplink_planes(1025, 64)


def test_uneven_dragonfly() -> None:
    kinds = {"compute": GroupKind(74, 32, 16), "storage": GroupKind(5, 16, 16)}
    links = {("compute", "compute"): 4, ("compute", "storage"): 2}
    fabric = UnevenDragonfly(kinds, links, 25e9)
    assert fabric.global_links("compute", "compute") == 4 * 74 * 73 // 2
    assert fabric.global_links("storage", "compute") == 2 * 74 * 5
    assert fabric.global_links("storage", "storage") == 0
    assert fabric.global_ports("compute") == 4 * 73 + 2 * 5
    assert kinds["storage"].local_links == 5 * 16 * 15 // 2
    assert fabric.taper("compute") == pytest.approx(292 / 512)
    with pytest.raises(InputError, match="unknown kind of group 'gpu'"):
        fabric.links_per_pair("gpu", "storage")
