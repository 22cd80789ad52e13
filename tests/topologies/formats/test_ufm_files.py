"""Files beside UFM's point-to-point sheets, and plans that name hosts instead of GPUs."""

import csv
from io import StringIO
from pathlib import Path

import pytest

from netplan.catalog import shipped_root
from netplan.errors import InputError
from netplan.questions.cable_comparison import read_cables
from netplan.questions.cables import Cables, sheet_csv
from netplan.topologies.cabling.cable_plan import PlanSheet

HALL = "example-hall"
TWIN = str(shipped_root() / "topologies" / "designs" / "twin-plane.yaml")


def table(sheet: PlanSheet) -> list[dict[str, str]]:
    """Rows of a sheet, written as CSV and read back by another reader."""
    return list(csv.DictReader(StringIO("".join(sheet_csv(sheet)))))


def made(sheet: str, /, **options: object) -> PlanSheet:
    question = {"gpus": 1024, "radix": 64, "hb_size": 8, "fabric": "rail-only"} | options
    return Cables.make("rail-only-paper", to=sheet, **question).table()()


def test_hca_mapping_is_that_of_the_manual() -> None:
    # Eight ports, as the tool assumes where it gets no file.
    text = "".join(sheet_csv(made("ufm-hca")))
    assert text == "port,hca-name\n" + "".join(f"{i + 1},mlx5_{i}\n" for i in range(8))


@pytest.mark.parametrize(
    ("fabric", "options", "ports"),
    [
        ("rail-only", {"host_gpus": 4}, 4),  # a compute tray of a larger domain
        ("rail-only", {"hb_size": 1, "host_gpus": 8}, 8),  # a server without NVLink
        ("dgx-2", {}, 16),  # the design's own domain
        (TWIN, {}, 8 * 2),  # two halves of a port
        ("torus-2d", {"hb_size": 1}, 4),  # both ways in two rings
    ],
)
def test_every_port_of_a_host_is_mapped(
    fabric: str, options: dict[str, object], ports: int
) -> None:
    rows = table(made("ufm-hca", fabric=fabric, **options))
    assert [row["port"] for row in rows] == [str(port) for port in range(1, ports + 1)]
    assert [row["hca-name"] for row in rows] == [f"mlx5_{port}" for port in range(ports)]


@pytest.mark.parametrize("fabric", ["rail-only", TWIN])
def test_the_mapping_has_exactly_the_ports_of_the_hosts_in_the_sheet(
    tmp_path: Path, fabric: str
) -> None:
    path = tmp_path / "p2p.csv"
    path.write_text("".join(sheet_csv(made("ufm-infiniband", fabric=fabric, host_gpus=8))))
    used: dict[str, set[str]] = {}
    for cable in read_cables(path):
        for end in cable[:2]:
            if end.device.startswith("host"):
                used.setdefault(end.device, set()).add(end.port)
    ports = {row["port"] for row in table(made("ufm-hca", fabric=fabric, host_gpus=8))}
    assert list(used) == [f"host-{number}" for number in range(128)]
    assert all(found == ports for found in used.values())


def test_hosts_stand_for_their_gpus_cable_by_cable() -> None:
    gpus, hosts = (table(made("plan", host_gpus=n, floor_plan=HALL)) for n in (None, 8))
    assert len(gpus) == len(hosts)
    for gpu, host in zip(gpus, hosts, strict=True):
        if gpu["group"] == "host":
            number = int(gpu["a_device"].removeprefix("gpu-"))
            assert (host["a_device"], host["a_port"]) == (
                f"host-{number // 8}",
                f"{number % 8 + 1}",
            )
            assert host["a_rack"] == gpu["a_rack"]
        else:
            assert host == gpu
        assert [host[key] for key in ("z_device", "z_port", "length_m")] == [
            gpu[key] for key in ("z_device", "z_port", "length_m")
        ]


def test_hosts_of_a_torus_use_every_port_once() -> None:
    rows = table(made("plan", fabric="torus-2d", hb_size=1, host_gpus=8))
    ends = [(row[f"{side}_device"], row[f"{side}_port"]) for row in rows for side in "az"]
    assert len(set(ends)) == len(ends) == 128 * 8 * 4


def test_netbox_devices_are_hosts_then() -> None:
    rows = table(made("netbox-devices", host_gpus=8, floor_plan=HALL))
    # 128 hosts; 8 rails of 4 leaves and 2 spines
    assert [row["role"] for row in rows].count("host") == 128
    assert len(rows) == 128 + 8 * (4 + 2)
    assert rows[1]["name"] == "host-1"
    assert (rows[1]["rack"], rows[1]["position"]) == ("01-01", "11")


def test_rack_layout_has_every_rack_of_the_sheet_once() -> None:
    rows = table(made("ufm-racks", floor_plan=HALL))
    assert list(rows[0]) == ["Rack", "Hall", "Row", "Position"]
    names = [row["Rack"] for row in rows]
    assert len(set(names)) == len(names) == 32 + 3  # 32 racks of GPUs, 3 of 48 switches
    plan = table(made("plan", floor_plan=HALL))
    assert {row["a_rack"] for row in plan} | {row["z_rack"] for row in plan} == set(names)
    assert names == sorted(names)
    assert {row["Hall"] for row in rows} == {HALL}


def test_rack_layout_goes_on_in_the_next_row() -> None:
    rows = table(made("ufm-racks", gpus=2048, floor_plan=HALL))
    # 64 racks of GPUs and 6 of switches; a row holds 40
    assert rows[40] == {"Rack": "02-01", "Hall": HALL, "Row": "2", "Position": "1"}
    assert rows[-1] == {"Rack": "02-30", "Hall": HALL, "Row": "2", "Position": "30"}


@pytest.mark.parametrize(
    ("to", "options", "words"),
    [
        ("ufm-racks", {}, "--to ufm-racks needs a hall: --hall example-hall"),
        ("ufm-hca", {"host_gpus": 0}, "a host of 0 GPUs is out of range: give 1 to 1,024"),
        ("plan", {"host_gpus": -8}, "a host of -8 GPUs is out of range"),
        ("plan", {"host_gpus": 2048}, "a host of 2,048 GPUs is out of range"),
        ("plan", {"host_gpus": 12, "floor_plan": HALL}, "hosts of 12 GPUs do not fill the racks"),
    ],
)
def test_wrong_questions(to: str, options: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        made(to, **options)
