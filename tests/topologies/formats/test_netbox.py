"""NetBox's import forms: what a row names was imported by a table before it."""

import csv
from collections.abc import Iterator
from io import StringIO

import pytest

from netplan.errors import InputError
from netplan.questions.cables import Cables, sheet_csv
from netplan.topologies.formats.netbox import NETBOX

Rows = list[dict[str, str]]

CHOICES = {  # dcim/choices.py of NetBox
    "cable": {"", "dac-passive", "dac-active", "aoc", "mmf-om4", "smf-os2"},
    "ethernet": {"100gbase-x-qsfp28", "400gbase-x-osfp", "800gbase-x-osfp"},
    "infiniband": {"infiniband-edr", "infiniband-hdr", "infiniband-ndr", "infiniband-xdr"},
}


def tables(**options: object) -> dict[str, Rows]:
    question = {"gpus": 256, "radix": 64, "hb_size": 8, "fabric": "rail-optimized"} | options
    made = {}
    for name in NETBOX:
        if name == "netbox-racks" and "floor_plan" not in options:
            continue
        sheet = Cables.make("rail-only-paper", to=name, **question).table()()
        made[name.removeprefix("netbox-")] = list(
            csv.DictReader(StringIO("".join(sheet_csv(sheet))))
        )
    return made


def ends(cables: Rows) -> Iterator[tuple[str, str]]:
    for row in cables:
        for side in ("a", "b"):
            assert row[f"side_{side}_type"] == "dcim.interface"
            yield row[f"side_{side}_device"], row[f"side_{side}_name"]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"host_gpus": 8, "floor_plan": "example-hall"},
        {"host_gpus": 8, "floor_plan": "example-hall", "switch": "qm9700"},
        {"fabric": "torus-2d", "hb_size": 8},
    ],
)
def test_every_row_finds_what_it_names(options: dict[str, object]) -> None:
    made = tables(**options)
    sites, roles = ({row["name"] for row in made[table]} for table in ("sites", "roles"))
    makers = {row["name"] for row in made["manufacturers"]}
    types = {(row["manufacturer"], row["model"]) for row in made["device-types"]}
    racks = {(row["site"], row["name"]) for row in made.get("racks", [])}
    assert {maker for maker, _ in types} == makers
    for row in made["devices"]:
        assert row["site"] in sites
        assert row["role"] in roles
        assert (row["manufacturer"], row["device_type"]) in types
        assert not row["rack"] or (row["site"], row["rack"]) in racks
    devices = [row["name"] for row in made["devices"]]
    assert len(set(devices)) == len(devices)
    interfaces = [(row["device"], row["name"]) for row in made["interfaces"]]
    assert {device for device, _ in interfaces} <= set(devices)
    used = list(ends(made["cables"]))
    assert sorted(interfaces) == sorted(used)  # each port once
    assert len(set(used)) == len(used)
    assert {row["type"] for row in made["cables"]} <= CHOICES["cable"]


def test_fibres_and_interfaces_have_types_where_modules_are_known() -> None:
    made = tables(floor_plan="example-hall", switch="qm9700", host_gpus=8)
    assert {row["type"] for row in made["cables"]} <= CHOICES["cable"] - {""}
    assert {row["type"] for row in made["interfaces"]} == {"infiniband-ndr"}
    # Without a hall all links of a group are of one kind, that of the bill.
    bare = tables()
    assert {row["type"] for row in bare["cables"]} <= CHOICES["cable"] - {""}
    assert {row["type"] for row in bare["interfaces"]} == {"400gbase-x-osfp"}


def test_devices_do_not_overlap_in_their_racks() -> None:
    made = tables(floor_plan="example-hall", switch="sn5600", host_gpus=8, radix=128)
    heights = {row["model"]: int(row["u_height"]) for row in made["device-types"]}
    # Four servers of 8 U a rack, switches of 2 U.
    assert (heights["generic-host"], heights["sn5600"]) == (8, 2)
    taken: set[tuple[str, int]] = set()
    for row in made["devices"]:
        first = int(row["position"])
        units = {(row["rack"], u) for u in range(first, first + heights[row["device_type"]])}
        assert not units & taken
        assert max(unit for _, unit in units) <= 42
        taken |= units


def test_racks_need_a_floor_plan() -> None:
    with pytest.raises(InputError, match="--to netbox-racks needs a hall"):
        Cables.make("rail-only-paper", to="netbox-racks", gpus=64, fabric="rail-only").table()
