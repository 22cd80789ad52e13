"""Switches are boxes that are sold, products say whether they are, old names find new files."""

import json
from math import ceil
from pathlib import Path

import pytest

import netplan
from netplan import Scenario
from netplan.costing.switches import SWITCHES, known_switches, no_such_switch, stands_for
from netplan.documents import lineless
from netplan.errors import CatalogError, NetplanError
from netplan.questions.shelves import all_shelves, find_record
from netplan.scenarios.parts import Cluster
from netplan.scenarios.reading import sizing_on
from netplan.scenarios.scenario import SCENARIOS
from netplan.topologies.build import build_fabric
from netplan.topologies.designs import DESIGNS
from netplan.topologies.expand import expand
from netplan.topologies.specs import FABRICS
from netplan.workloads.accelerators import ACCELERATORS
from tests.cli.command import netplan as command

NEW = {
    # HB domain, one card's Gb/s, cards, memory [bytes], W, by the sheets that the files name.
    "vr-nvl72": (72, 800, 2, 288e9, 1800),
    "kyber-nvl144": (144, 800, 2, 1e12, 3600),
    "mi455x": (72, 800, 3, 432e9, 2500),
    "mi325x": (8, 400, 1, 256e9, 1000),
    "mi350x": (8, 400, 1, 288e9, 1000),
    "trainium3": (144, 200, 1, 154.6e9, 700),
    "tpu-8t": (1, 1600, 1, 216e9, 980),
    "tpu-8i": (1, 1600, 1, 288e9, 980),
    "ascend-910c": (384, 400, 1, 128e9, 1455),
    "ascend-950dt": (8192, 400, 1, 144e9, 600),
    "gaudi-3": (8, 200, 3, 128e9, 900),
    "h800": (8, 400, 1, 80e9, 700),
    "h20": (8, 400, 1, 96e9, 400),
}


@pytest.mark.parametrize("name", NEW)
def test_a_new_accelerator_is_that_of_its_sheet(name: str) -> None:
    hb_size, card_gbps, cards, memory_bytes, power_w = NEW[name]
    chip = ACCELERATORS.load(name)
    assert (chip.hb_size, chip.network_cards, chip.memory_bytes) == (hb_size, cards, memory_bytes)
    assert chip.power_w == power_w
    assert 8 * chip.network_bytes_per_s / cards == card_gbps * 1e9
    # Numbers without a source are named, and so is what follows from others.
    assert set(chip.assumed) | set(chip.derived) <= set(chip.__struct_fields__)
    assert not set(chip.assumed) & set(chip.derived)


@pytest.mark.parametrize("name", NEW)
def test_a_new_accelerator_is_compared_searched_and_billed(name: str) -> None:
    compared = netplan.compare(accelerator=name, gpus=1152)
    chip = ACCELERATORS.load(name)
    assert any(row.fabric for row in compared.rows)
    assert chip.unsold in compared.text()
    assert max(map(len, compared.text().splitlines())) <= 80
    assert len(compared.text().splitlines()) <= 25
    found = netplan.search(accelerator=name, gpus=1152)
    assert 0 < found.best.mfu < 0.8
    assert chip.unsold in found.text()
    bill = netplan.cost(accelerator=name, gpus=1152, fabrics=(compared.rows[0].name,))
    assert bill.bills[0].fabric.sizing.gpus == 1152
    assert chip.unsold in bill.text()
    for answer in (compared, found, bill):
        told = json.loads(answer.json())["inputs"].get("cautions", [])
        assert any(chip.unsold in caution for caution in told) or not chip.unsold


@pytest.mark.parametrize(
    ("name", "leaves"),
    [
        # 16 racks: 16 hosts a rail, so that 128 ports hold 8 rails; 72 / 8 = 9 leaves a card.
        ("vr-nvl72", 2 * 9),
        ("mi455x", 3 * 9),
        # 144 servers of 8: a rail has more hosts than a leaf has ports.
        ("gaudi-3", None),
    ],
)
def test_every_card_of_a_gpu_has_a_plane_of_its_own(name: str, leaves: int | None) -> None:
    chip = ACCELERATORS.load(name)
    answer = netplan.compare(accelerator=name, gpus=1152, fabrics=("rail-only", "rail-optimized"))
    rails, clos = (row.fabric for row in answer.rows)
    assert rails is not None
    assert clos is not None
    for fabric in (rails, clos):
        assert fabric.nic_ports == chip.network_cards * 1152
        assert fabric.gpu_bytes_per_s == chip.network_bytes_per_s
        assert fabric.cards == chip.network_cards * 1152
        assert all(tier.switches % chip.network_cards == 0 for tier in fabric.tiers)
    if leaves is not None:
        assert [tier.switches for tier in rails.tiers] == [leaves]
    # 128 ports: half down; a Clos plane of 1,152 hosts has 18 leaves, and 64 uplinks on each.
    assert clos.tiers[0].switches == chip.network_cards * ceil(1152 / 64)
    assert clos.links[1].links == chip.network_cards * 18 * 64


def test_the_graph_of_rails_in_planes_is_that_of_its_counts() -> None:
    """72 GPUs in domains of 8, switches of 8 ports in two planes of twice as many at half rate."""
    spec = FABRICS.load("rail-only").changed(planes=2)
    sizing = Scenario.load("hgx-h100").replace(gpus=72, radix=8, hb_size=8).sizing
    fabric = build_fabric(spec, sizing)
    # A plane: 9 hosts a rail on 16 ports, one switch a rail; eight rails, two planes.
    assert (fabric.switches, fabric.sizing.radix, fabric.sizing.speed_gbps) == (16, 16, 200)
    assert (fabric.link_count, fabric.networks, fabric.ports_per_gpu) == (144, 16, 2)
    graph = expand(spec, fabric.sizing)
    links = graph.links_of("host")
    assert len(links) == 144
    assert sorted({*graph.source_port[links].tolist()}) == [1, 2]
    ends = {*zip(graph.target[links].tolist(), graph.target_port[links].tolist(), strict=True)}
    assert len(ends) == 144
    assert not any(graph.source[links] >= 72)


# --- ports that nobody sells ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("radix", "speed_gbps", "label"),
    [
        (128, 400, "SN5600"),
        (64, 400, "QM9700"),
        (64, 800, "SN5600"),
        (144, 800, "Q3400"),
        (128, 800, "tomahawk6"),  # pluggable, before SN6810-LD with its optics inside
    ],
)
def test_a_radix_is_a_box(radix: int, speed_gbps: float, label: str) -> None:
    model = stands_for(radix, speed_gbps, known_switches())
    assert model is not None
    assert model.label == label
    assert no_such_switch(radix, speed_gbps, known_switches()) == ""


@pytest.mark.parametrize(
    ("radix", "speed_gbps", "lane_gbps", "label"),
    [(64, 800, 200, None), (128, 800, 200, "tomahawk6"), (64, 800, 100, "SN5600")],
)
def test_a_box_has_the_lanes_of_the_cards(
    radix: int, speed_gbps: float, lane_gbps: float, label: str | None
) -> None:
    model = stands_for(radix, speed_gbps, known_switches(), lane_gbps)
    assert (model and model.label) == label
    word = no_such_switch(radix, speed_gbps, known_switches(), lane_gbps)
    assert ("SN5600 has lanes of 100G" in word) == (label is None)


def test_a_plan_for_a_box_that_does_not_close_says_so() -> None:
    done = command("cost", "--scenario", "hgx-b200", "--accelerator", "b300", "--radix", "64")
    assert "no switch has 64 ports of 800G on lanes of 200G" in done.stderr + done.stdout
    assert "as SN5600" not in done.stdout


MISSING = "no switch has 512 ports of 400G; the largest is tomahawk6 with 256"


@pytest.mark.parametrize("asked", ["compare", "cost", "search", "loads", "faults"])
def test_a_radix_of_no_box_is_planned_with_a_word(asked: str) -> None:
    done = command(asked, "--gpus", "1024", "--radix", "512")
    assert done.returncode == 0
    assert MISSING not in done.stderr  # the screen says it, once
    assert MISSING in " ".join(done.stdout.split())
    assert len(done.stdout.splitlines()) <= 25
    whole = command(asked, "--gpus", "1024", "--radix", "512", "--format", "json")
    assert f"netplan: {MISSING}" in whole.stderr.splitlines()
    assert json.loads(whole.stdout)["inputs"]["cautions"] == [MISSING]


def test_what_no_box_has_is_no_order() -> None:
    done = command("compare", "--gpus", "1024", "--radix", "512")
    assert "not an order. For study" in " ".join(done.stdout.split())
    assert "Order " not in done.stdout
    whole = command("compare", "--gpus", "1024", "--radix", "512", "--format", "json")
    decision = json.loads(whole.stdout)["decision"]
    assert decision["caveats"][0] == "No box has such ports: not an order."
    assert decision["answers"]["order"].startswith("No box has such ports: not an order. ")


def test_each_of_several_is_told() -> None:
    done = command("compare", "--radix", "128", "--radix", "512", "--radix", "96")
    other = "no switch has 96 ports of 400G; the next are QM9700 with 64 and SN5600 with 128"
    assert done.stderr == ""
    shown = " ".join(done.stdout.split())
    assert MISSING in shown
    assert other in shown


@pytest.mark.parametrize("arguments", [("--radix", "128"), ("rail-only-paper",), ("tpu-v7",)])
def test_nothing_is_said_of_what_is_sold(arguments: tuple[str, ...]) -> None:
    done = command("compare", *arguments, "--gpus", "4096")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Note:" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "wish"),
    [
        (("--switch", "q3400"), "add --nic 800 (144 ports) and leave --radix out, or take qm9700"),
        (("--switch", "q3400", "--radix", "128"), "add --nic 800 (144 ports) and leave --radix"),
        (("--switch", "sn6800"), "add --nic 800 --fabric four-planes and leave --radix out"),
        (("--switch", "sn6800", "--nic", "800"), "planes in a box: add --fabric four-planes"),
        (("--switch", "7T"), "take 0.048T, 6.4T, 8T, 12.8T, 25.6T, 51.2T, 102.4T, 115.2T, 409.6T"),
        (("--switch", "65x400G"), "take 64x400G, 128x400G, 256x400G"),
    ],
)
def test_errors_of_switches_name_a_wish_that_works(arguments: tuple[str, ...], wish: str) -> None:
    done = command("cost", *arguments)
    assert done.returncode == 2
    assert wish in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("rate", "nic_gbps", "name", "radix"),
    [
        ("51.2T", 400, "sn5600", 128),
        ("128x400G", 400, "sn5600", 128),
        ("144x800G", 800, "q3400", 144),
        ("800G", 800, "q3400", 144),
        ("102.4T", 800, "tomahawk6", 128),
        ("64x400G", 400, "qm9700", 64),
    ],
)
def test_a_switch_by_what_it_forwards(rate: str, nic_gbps: float, name: str, radix: int) -> None:
    answer = netplan.cost(gpus=1024, switch=rate, nic=nic_gbps, fabrics=("rail-only",))
    assert (answer.inputs["switch"], answer.inputs["radix"]) == (name, radix)


def test_a_box_of_four_planes_is_bought_whole() -> None:
    """16,384 GPUs: a plane of 512 ports has 64 leaves and 32 spines, four planes 384 chips."""
    answer = netplan.cost(
        gpus=16_384, nic=800, switch="sn6800", fabrics=("four-planes",), hb_size=8
    )
    (bill,) = answer.bills
    assert bill.fabric.switches == 4 * (64 + 32)
    (line,) = [item for item in bill.quote.items if item.line.category == "switches"]
    assert line.line.quantity == 96
    with pytest.raises(NetplanError, match=r"runs at 200 Gb/s, the links at 400"):
        netplan.cost(gpus=1024, nic=800, switch="sn6800", fabrics=("two-planes",))


# --- evidence and names --------------------------------------------------------------------------


def test_what_nobody_can_order_says_so_in_its_title() -> None:
    shelves = (ACCELERATORS, SWITCHES, FABRICS, DESIGNS, SCENARIOS)
    records = [shelf.load(name) for shelf in shelves for name in shelf.paths()]
    unsold = [record for record in records if record.unsold]
    assert len(unsold) > 12
    assert [record.name for record in unsold if record.unsold not in record.title] == []
    sold = [record for record in records if not record.unsold]
    words = ("(announced)", "(rumoured)")
    assert [record.name for record in sold if any(word in record.title for word in words)] == []


@pytest.mark.parametrize(
    ("shelf", "old", "now"),
    [
        ("fabric", "nvl144", "vr-nvl72"),
        ("fabric", "nvl576", "kyber-nvl144"),
        ("design", "rubin-nvl144", "vera-rubin-nvl72"),
        ("accelerator", "b300-sxm", "b300"),
        ("accelerator", "ironwood", "tpu-v7"),
        ("accelerator", "mi450x", "mi455x"),
        ("accelerator", "rubin-ultra", "kyber-nvl144"),
        ("switch", "silicon-one-g200", "n9364e-sg2"),
        ("switch", "tomahawk6-128x800", "tomahawk6"),
    ],
)
def test_names_of_before_are_found(shelf: str, old: str, now: str) -> None:
    assert all_shelves()[shelf].load(old).name == now
    done = command("catalog", "show", f"{old}")
    assert done.returncode == 0
    assert f"name: {now}" in done.stdout
    assert find_record(old, ())[1].stem == now


def test_domains_are_counted_in_packages() -> None:
    sizes = {"vr-nvl72": 72, "kyber-nvl144": 144, "rubin-ultra-nvl576": 576}
    assert {name: FABRICS.load(name).hb_size for name in sizes} == sizes
    assert sizes["rubin-ultra-nvl576"] == 8 * 72


def test_a_scenario_may_name_parts_by_other_names() -> None:
    names = {"accelerator": "ironwood", "switch": "51.2T", "fabric": "nvl144"}
    SCENARIOS.check_names(lineless(Path("mine.yaml"), {"cluster": names}))
    with pytest.raises(CatalogError, match="unknown switch '7T'"):
        SCENARIOS.check_names(lineless(Path("mine.yaml"), {"cluster": {"switch": "7T"}}))


# --- what is sold is the default -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "fabric"),
    [
        ("tpu-v7", "torus-3d"),
        ("tpu-8t", "torus-3d"),
        ("tpu-8i", "torus-3d"),
        ("tpu-v6e", "torus-2d"),
    ],
)
def test_chips_with_links_of_their_own_stand_on_their_torus(name: str, fabric: str) -> None:
    scenario = Scenario.load("hgx-b200").replace(accelerator=name, gpus=4096)
    assert scenario.cluster.fabric == scenario.cluster.fabrics[0] == fabric
    assert scenario.cluster.ports == "full"
    asked = Scenario.load("hgx-b200").replace(accelerator=name, fabric="rail-only")
    assert asked.cluster.fabric == "rail-only"
    back = scenario.replace(accelerator="h100-80gb").cluster
    usual = Cluster()
    assert (back.fabric, back.fabrics, back.ports) == (usual.fabric, usual.fabrics, usual.ports)


def test_a_v7_is_ordered_with_the_torus_that_is_sold() -> None:
    answer = netplan.compare(accelerator="ironwood", gpus=4096)
    assert answer.verdict is not None
    assert answer.verdict.fabric == "torus-3d"
    unsold = {row.name for row in answer.rows if not row.sold}
    assert {"torus-2d", "rail-only", "rail-optimized"} <= unsold


def test_sizes_count_the_ports_of_a_card() -> None:
    chip = ACCELERATORS.load("mi455x")
    sizing = sizing_on(chip, gpus=144, radix=128)
    assert (sizing.radix, sizing.cards, sizing.speed_gbps) == (128, 3, 800)
    # A dragonfly has no planes: the three cards are one port of 2,400 Gb/s, 42 on a switch.
    whole = build_fabric(FABRICS.load("dragonfly"), sizing).sizing
    assert (whole.radix, whole.cards, whole.speed_gbps) == (42, 1, 2400)
