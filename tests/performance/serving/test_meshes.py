"""Collectives of servers in HB domains that are full meshes, against those of switches."""

from typing import Literal

import numpy as np
import pytest

import netplan
from netplan.arrays import Floats
from netplan.levels import Level
from netplan.traffic.hierarchy import CollectiveNetwork, Communication, Group
from netplan.traffic.measured_links import MeasuredLinks
from netplan.workloads.accelerators import ACCELERATORS

RATE = 450e9


def seconds(kind: Literal["all_to_all", "all_gather"], domain: Level, members: int) -> Floats:
    """Time of 64 MB among so many GPUs of a domain."""
    links = MeasuredLinks.of(ACCELERATORS.load("h200"))
    communication = Communication("flat_ring", links=links, direct=True)
    network = CollectiveNetwork((domain, Level("switch", 1, 50e9)), communication)
    group = Group(np.array([[members], [1]]), np.array([[1], [1]]))
    return network.collective(kind, group).seconds(64e6)


@pytest.mark.parametrize("kind", ["all_to_all", "all_gather"])
def test_a_group_has_the_links_of_a_mesh_that_lead_to_its_members(
    kind: Literal["all_to_all", "all_gather"],
) -> None:
    mesh = Level("mesh", 8, RATE / 7)
    # All eight have the whole rate; four of them three of seven links.
    for members, share in ((8, 1.0), (4, 3 / 7), (2, 1 / 7)):
        switch = Level("switch", 8, RATE * share)
        wanted = seconds(kind, switch, members)
        assert seconds(kind, mesh, members) == pytest.approx(wanted, rel=1e-12)


def test_a_cluster_of_one_domain_has_the_links_of_its_fabric() -> None:
    asked = {"model": "deepseek-r1", "accelerator": "gb200", "gpus": 72, "precision": "fp4"}
    fixed = {"tensor": 1, "pipeline": 1, "expert": 8, "attention_data": 8}
    switch, mesh = (
        netplan.serving(
            "serving-70b-h200",
            **asked,
            concurrency=1152,
            fixed=fixed,
            overrides={"fabric.hb_kind": kind},
        ).best
        for kind in ("switch", "mesh")
    )
    assert mesh.breakdown_s["network"] > switch.breakdown_s["network"]
    assert mesh.breakdown_s["memory"] == pytest.approx(switch.breakdown_s["memory"])


def test_a_mesh_of_meshes_carries_its_own_share_in_every_dimension() -> None:
    links = MeasuredLinks.of(ACCELERATORS.load("h200"))
    communication = Communication("flat_ring", links=links, direct=True)
    inner, outer = Level("mesh", 4, RATE / 9), Level("mesh", 4, RATE / 9)
    network = CollectiveNetwork((inner, outer, outer), communication)

    def slopes(members: tuple[int, int, int]) -> list[float]:
        group = Group(np.array(members)[:, None], np.ones((3, 1), int))
        large = network.collective("all_to_all", group).ways[-1]  # type: ignore[union-attr]
        return [float(one.s_per_byte[0]) for one in large.levels]

    # A quarter of the message over each of three links, whatever lies around: 9 / (4 x 450 GB/s).
    (alone, *_), several = slopes((4, 1, 1)), slopes((4, 4, 4))
    assert several == pytest.approx([alone, 9 / (4 * RATE), 9 / (4 * RATE)])
