"""Tables of designs whose links have rates, and dragonflies by the ports of a switch."""

from pathlib import Path

import pytest

from netplan.questions.audit import audit


def found(folder: Path, header: str, row: str) -> list[tuple[str, str, str]]:
    path = folder / "designs.csv"
    path.write_text(f"{header}\n{row}\n", encoding="utf-8")
    return [(f.what, f.got, f.expected) for f in audit(path).findings]


TIERS = "design,links_endpoint,gbps_endpoint,links_leaf_spine,gbps_leaf_spine,oversubscription"


def test_faster_uplinks_count_by_their_rate(tmp_path: Path) -> None:
    # Alibaba HPN (SIGCOMM 2024): 30,720 ports of 200 Gb/s on 14,400 uplinks of 400 Gb/s:
    # 6,144,000 / 5,760,000 = 1.0667:1, published as 1.067:1. By counts it would be 2.13:1.
    assert found(tmp_path, TIERS, "HPN pod,30720,200,14400,400,1.067") == []
    assert found(tmp_path, TIERS, "HPN pod,30720,200,14400,400,") == [
        ("oversubscription not stated", "links_leaf_spine 14400", "30,720, or say 1.067:1")
    ]
    # JUPITER (apps.fz-juelich.de, configuration): 240 nodes with four ports of 200 Gb/s a group,
    # 15 lower switches with 32 uplinks of 400 Gb/s: 960 x 200 = 480 x 400.
    assert found(tmp_path, TIERS, "JUPITER group,960,200,480,400,") == []
    assert found(tmp_path, TIERS, "by counts,960,,480,,") != []


@pytest.mark.parametrize(
    ("said", "sound"), [("1.07", True), ("1.1", True), ("1.06", False), ("1", False)]
)
def test_a_ratio_holds_as_far_as_its_digits(tmp_path: Path, said: str, sound: bool) -> None:  # noqa: FBT001
    assert (found(tmp_path, TIERS, f"HPN,30720,200,14400,400,{said}") == []) == sound


GROUPS = "design,radix,hosts_per_switch,switches_per_group,global_ports,groups,links_endpoint"


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        # Slingshot at its largest: 16 + 31 + 17 = 64 ports, 32 x 17 + 1 = 545 groups,
        # 545 x 512 = 279,040 endpoints (arXiv:2407.10290, Table III).
        ("Slingshot,64,16,32,17,545,279040", []),
        # With "up to 16 ports to other groups" (glennklockwood.com/garden/dragonfly) 32 x 16 + 1.
        (
            "Slingshot,64,16,32,16,545,279040",
            [("groups that no port reaches", "groups 545", "at most 513")],
        ),
        (
            "more ports,64,16,32,18,545,279040",
            [("ports that do not exist", "global_ports 18", "at most 17")],
        ),
        (
            "more endpoints,64,16,32,17,511,279040",
            [("counts that do not multiply", "links_endpoint 279040", "261,632")],  # 511 x 512
        ),
    ],
)
def test_ports_of_a_dragonfly(
    tmp_path: Path, row: str, expected: list[tuple[str, str, str]]
) -> None:
    assert found(tmp_path, GROUPS, row) == expected


def test_links_of_a_dragonfly(tmp_path: Path) -> None:
    # Eight groups of 16 switches with 10 global ports: 16 x 10 x 8 / 2 = 640 links.
    header = "hosts_per_switch,switches_per_group,global_ports,groups,global_links,total_switches"
    assert found(tmp_path, header, "16,16,10,8,640,128") == []
    assert found(tmp_path, header, "16,16,10,8,641,129") == [
        ("counts that do not multiply", "total_switches 129", "128"),
        ("ports that do not exist", "global_links 641", "at most 640"),
    ]
