"""Audits of halls as built: links that run slow, trees that OpenSM's ftree refuses, and rates."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from netplan.questions.audit import audit
from netplan.topologies.cabling.as_built import Cable, End
from tests.topologies.cabling.described_hall import described, managed
from tests.topologies.formats.test_opensm import IBSIM, LIBRARY, OPENSM, ROUTED, subnet_log

LEAVES, SPINES, HOSTS, PARALLEL = 4, 2, 4, 2


def link(a: str, a_port: int, z: str, z_port: int) -> Cable:
    """A cable of four lanes of HDR, which Debian's ibsim knows."""
    return Cable(End(a, str(a_port)), End(z, str(z_port)), 200.0, 0, 4)


def tree() -> list[Cable]:
    """Four leaves of four hosts, two cables to each of two spines."""
    cables = []
    for leaf in range(LEAVES):
        name = f"leaf-{leaf}"
        cables += [link(f"host-{leaf * HOSTS + host}", 1, name, host + 1) for host in range(HOSTS)]
        for up in range(SPINES * PARALLEL):
            spine, twin = divmod(up, PARALLEL)
            cables.append(link(name, HOSTS + up + 1, f"spine-{spine}", leaf * PARALLEL + twin + 1))
    return cables


def less(*gone: tuple[str, str]) -> list[Cable]:
    """The tree without some cables, by device and port of one end."""
    ends = {End(*end) for end in gone}
    return [cable for cable in tree() if not ends & {cable.a, cable.z}]


CROSS = link("leaf-2", 30, "leaf-3", 30)
FTREE = ("hosts on two tiers", "switches of a tier that are joined unequally")
TREES: dict[str, tuple[Sequence[Cable], set[str], bool]] = {
    "as it should be": (tree(), set(), True),
    "a host on a spine": ([*tree(), link("host-99", 1, "spine-0", 20)], {FTREE[0]}, False),
    "leaf to leaf": ([*tree(), CROSS], {"links within a tier"}, True),
    "spine to spine": (
        [*tree(), link("spine-0", 30, "spine-1", 30)],
        {"links within a tier"},
        True,
    ),
    "a loop": ([*tree(), link("leaf-0", 30, "leaf-0", 31)], {"a link to itself"}, True),
    "an uplink gone": (
        less(("leaf-3", "8")),
        {"oversubscription not stated", "uneven uplinks", FTREE[1]},
        False,
    ),
    "an uplink to another leaf": (
        [*less(("leaf-3", "8")), CROSS],
        {"links within a tier", "oversubscription not stated", "uneven uplinks", FTREE[1]},
        False,
    ),
    "a host gone": (less(("leaf-0", "1")), set(), True),
    "half of the links to a spine": (
        less(*(("spine-1", str(2 * leaf)) for leaf in range(1, LEAVES + 1))),
        {"oversubscription not stated", FTREE[1]},
        False,
    ),
}


def saved(folder: Path, cables: Sequence[Cable]) -> Path:
    path = folder / "hall.txt"
    path.write_text(described(cables, managed), encoding="utf-8")
    return path


@pytest.mark.parametrize("case", TREES)
def test_what_is_wrong_with_a_tree(case: str, tmp_path: Path) -> None:
    cables, expected, routed = TREES[case]
    found = {finding.what for finding in audit(saved(tmp_path, cables)).findings}
    assert found == expected
    assert bool(found & set(FTREE)) == (not routed)


@pytest.mark.slow
@pytest.mark.skipif(not (OPENSM and IBSIM and LIBRARY), reason="needs opensm and ibsim-utils")
@pytest.mark.parametrize("case", TREES)
def test_opensm_refuses_just_the_trees_that_the_audit_says(case: str, tmp_path: Path) -> None:
    cables, _, routed = TREES[case]
    log = subnet_log(tmp_path, saved(tmp_path, cables))
    assert (ROUTED in log) == routed, os.linesep.join(log.splitlines()[-5:])


def test_links_that_run_slow_or_narrow(tmp_path: Path) -> None:
    cables = tree()
    cables[0] = cables[0]._replace(gbps=50.0, lanes=1)
    cables[5] = cables[5]._replace(gbps=100.0, lanes=1)
    found = [
        (f.what, f.got.partition(": ")[2], f.expected, f.why.partition(" have")[0])
        for f in audit(saved(tmp_path, cables), oversubscription=2).findings
    ]
    assert found == [
        (
            *("a link with fewer lanes", "1x, 50 Gb/s", "4x, 200 Gb/s"),
            "15 of 16 links between tiers 0 and 1",
        ),
        (
            *("a link with fewer lanes", "1x, 100 Gb/s", "4x, 200 Gb/s"),
            "15 of 16 links between tiers 1 and 2",
        ),
    ]
    table = tmp_path / "table.csv"
    rows = [f"{c.a.device},{c.a.port},{c.z.device},{c.z.port},{c.gbps:g}\n" for c in cables]
    table.write_text("a_device,a_port,z_device,z_port,gbps\n" + "".join(rows), encoding="utf-8")
    answer = audit(table, oversubscription=2)
    assert {f.what for f in answer.findings} == {"a link at a lower speed"}
    # A dozen of forty hosts on the older generation of cards are one finding, not twelve.
    star = [f"host-{i},1,leaf-0,{i + 1},{100 if i < 12 else 200}\n" for i in range(40)]
    table.write_text("a_device,a_port,z_device,z_port,gbps\n" + "".join(star), encoding="utf-8")
    (finding,) = audit(table).findings
    assert (finding.what, finding.got, finding.expected) == (
        *("links of several speeds", "12 links at 100 Gb/s", "200 Gb/s"),
    )
