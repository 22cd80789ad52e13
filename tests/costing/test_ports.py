"""Port closure: every fabric closes, and every way not to close is found, with both ends."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netplan
from netplan.costing.cabling import CABLING_BOOKS
from netplan.costing.switches import SWITCHES, check_switch, circuit_layer
from netplan.costing.wiring import (
    CARD,
    CIRCUITS,
    TRUNKS,
    CableRun,
    Cage,
    Hardware,
    Plug,
    PortBank,
    closure,
    plugs_needed,
    wire,
)
from netplan.errors import InfeasibleError, InputError, NetplanError, UnknownNameError
from netplan.records import replace
from netplan.topologies.build import build_fabric
from netplan.topologies.fabric import Fabric, LinkGroup, Sizing
from netplan.topologies.graph import LinkType
from tests.costing.fabrics import SPECS, built, fabrics, sizing

BOOK = CABLING_BOOKS.load("2026")
FINNED = Plug("twin finned", "osfp-finned", 400, 2, 100, "multimode")
FLAT = Plug("single flat", "osfp-flat", 400, 1, 100, "multimode")
LEAF = PortBank("leaf", 4, 32, Cage("osfp-finned", 400, 2, 100))
CARDS = PortBank("network card", 1, 256, Cage("osfp-flat", 400, 1, 100))
BUILT_IN = ("on-chip", "on-board")
"""Links that nobody buys as cables: of a chip, and on a board."""
HOST = CableRun("host", 256, ("leaf", "network card"), (FINNED, FLAT), "fibre", 15, 50)


# --- all fabrics ----------------------------------------------------------------------------


@given(fabrics())
@settings(max_examples=60, deadline=None)
def test_every_fabric_closes_with_any_switch(fabric: Fabric) -> None:
    wiring = wire(fabric, Hardware(BOOK))
    assert wiring.violations == ()
    ends, ports = ({bank.name.removesuffix(TRUNKS): 0 for bank in wiring.banks} for _ in "ep")
    widths = {group.name: group.width for group in fabric.links}
    for run in wiring.runs:
        for end in run.ends:
            ends[end.removesuffix(TRUNKS)] += run.links
            ports[end.removesuffix(TRUNKS)] += run.links * widths.get(run.name, 1)
    # Nothing is lost: both ends of every link, tier by tier the ports in use.
    bought = sum(group.links for group in fabric.links if group.medium not in BUILT_IN)
    assert sum(ends.values()) == 2 * bought
    assert [ports[tier.name] for tier in fabric.tiers] == [t.ports_used for t in fabric.tiers]
    assert ends[CARD] <= fabric.nic_ports


@given(fabrics(radix=64))
@settings(max_examples=60, deadline=None)
def test_every_fabric_closes_with_twin_port_cages(fabric: Fabric) -> None:
    switch = SWITCHES.load("qm9700")
    try:
        violations = wire(fabric, Hardware(BOOK, switch)).violations
    except InfeasibleError:
        # Copper and optics of an odd dragonfly share no cage: some shapes need one more.
        assert fabric.name == "dragonfly"
        return
    assert violations == ()


@given(fabrics(radix=64), st.data())
@settings(max_examples=100, deadline=None)
def test_cables_beyond_the_ports_are_found(fabric: Fabric, data: st.DataObject) -> None:
    wiring = wire(fabric, Hardware(BOOK))
    if not wiring.runs:
        return
    chosen = data.draw(st.integers(0, len(wiring.runs) - 1))
    bank = wiring.bank(wiring.runs[chosen].ends[1])
    more = replace(wiring.runs[chosen], links=bank.ports + 1)
    runs = [*wiring.runs[:chosen], more, *wiring.runs[chosen + 1 :]]
    assert any(
        fault.rule == "room" and fault.near == bank.name for fault in closure(wiring.banks, runs)
    )


@given(st.integers(8, 5000), st.sampled_from((2, 4)))
@settings(max_examples=50, deadline=None)
def test_planes_close_too(gpus: int, planes: int) -> None:
    # Ports of 800G as two of 400G or four of 200G: radix 64 becomes 128 or 256 ports a switch.
    spec = SPECS["rail-optimized"].changed(planes=planes)
    fabric = build_fabric(spec, sizing(gpus, 64, 8, gbps=800))
    assert wire(fabric, Hardware(BOOK)).violations == ()
    if planes == 2:
        wiring = wire(fabric, Hardware(BOOK, SWITCHES.load("sn5600")))
        assert wiring.bank(CARD).ports == 2 * gpus


def test_a_network_of_four_million_gpus_closes_at_once() -> None:
    fabric = built("rail-optimized", 4_194_304, 64)
    assert wire(fabric, Hardware(BOOK, SWITCHES.load("qm9700"))).violations == ()


# --- single faults --------------------------------------------------------------------------


def test_a_sound_run_has_no_fault() -> None:
    assert closure([LEAF, CARDS], [HOST]) == ()


@pytest.mark.parametrize(
    ("run", "rule", "words"),
    [
        (replace(HOST, plugs=(FINNED, replace(FINNED, links=1))), "form", "twin finned"),
        (replace(HOST, plugs=(FLAT, FLAT)), "form", "does not fit a cage for osfp-finned"),
        (replace(HOST, plugs=(replace(FINNED, speed_gbps=200), FLAT)), "speed", "200 Gb/s"),
        (replace(HOST, plugs=(replace(FINNED, links=4), FLAT)), "breakout", "4 links, its cage"),
        (replace(HOST, plugs=(replace(FINNED, lane_gbps=200), FLAT)), "lanes", "lanes of 200"),
        (replace(HOST, plugs=(replace(FINNED, fibre="singlemode"), FLAT)), "fibre", "singlemode"),
        (replace(HOST, length_m=60), "reach", "60 m of cable, twin finned reaches 50 m"),
        (replace(HOST, hops=4), "reach", "60 m of cable"),
        (replace(HOST, links=257), "room", "257 cable ends on 256 ports"),
        (replace(HOST, ends=("leaf", "spine")), "port", "cables end on spine, which"),
    ],
)
def test_a_fault_is_found_and_names_both_ends(run: CableRun, rule: str, words: str) -> None:
    faults = [fault for fault in closure([LEAF, CARDS], [run]) if fault.rule == rule]
    assert faults
    assert words in str(faults[0])
    for end in run.ends:
        assert end in str(faults[0])


def test_a_finned_module_does_not_fit_a_network_card() -> None:
    run = replace(HOST, plugs=(FINNED, replace(FINNED, links=1)))
    assert [str(fault) for fault in closure([LEAF, CARDS], [run])] == [
        "host, network card to leaf: twin finned (osfp-finned) does not fit a cage for osfp-flat"
    ]


def test_straight_cables_need_parallel_links() -> None:
    spine = replace(LEAF, name="spine")
    plug = replace(FINNED, fibre=None)
    run = CableRun("leaf-spine", 64, ("leaf", "spine"), (plug, plug), "dac", 2, 2, cable="straight")
    assert closure([LEAF, spine], [run])[0].rule == "pairs"
    assert closure([LEAF, spine], [replace(run, parallel=2)]) == ()


def test_odd_ends_of_two_kinds_can_fill_the_cages() -> None:
    # 63 ports in 32 twin cages: 31 copper ends need 16 plugs, 32 optical ones 16: it fits. With
    # 33 + 31 ends it is 17 + 16 = 33 cages of 32, although the 64 ports would do.
    bank = PortBank("leaf", 1, 32, Cage("osfp-finned", 400, 2))
    copper = replace(FINNED, fibre=None, lane_gbps=None)
    cards = replace(CARDS, cage=Cage("osfp-flat", 400))

    def runs(copper_ends: int, optical_ends: int) -> list[CableRun]:
        single = replace(FLAT, fibre=None)
        return [
            CableRun(
                "a", copper_ends, ("leaf", CARD), (copper, single), "dac", 2, 3, cable="splitter"
            ),
            replace(HOST, links=optical_ends),
        ]

    assert closure([bank, cards], runs(31, 32)) == ()
    faults = closure([bank, cards], runs(33, 31))
    assert [fault.rule for fault in faults] == ["room"]
    assert "needs 33 cages for its plugs, it has 32" in str(faults[0])


@given(st.integers(0, 10_000), st.integers(1, 100), st.integers(1, 8))
def test_plugs_carry_all_ends_and_waste_less_than_one_a_device(
    ends: int, devices: int, links: int
) -> None:
    plugs = plugs_needed(ends, devices, links)
    assert ends <= plugs * links <= ends + devices * (links - 1)
    # By brute force: deal the ends out to the devices, then fill plugs.
    dealt = [len(range(device, ends, devices)) for device in range(devices)]
    assert plugs == sum(-(-count // links) for count in dealt)


# --- what hardware can and cannot do --------------------------------------------------------


def test_lanes_of_unlike_rate_do_not_talk() -> None:
    # An 800G port of a 51.2 Tb/s switch has 8 lanes of 100G, an 800G card 4 of 200G.
    fabric = built("rail-only", 1024, 64, gbps=800)
    with pytest.raises(InfeasibleError, match="leaf to network card: lanes of 100 Gb/s"):
        wire(fabric, Hardware(BOOK, SWITCHES.load("sn5600")))


def test_copper_between_twin_cages_becomes_optics_with_a_note() -> None:
    fabric = built("dragonfly", 2048, 64)
    wiring = wire(fabric, Hardware(BOOK, SWITCHES.load("qm9700")))
    media = {run.name: run.medium for run in wiring.runs}
    assert media == {"host": "dac", "local": "fibre", "global": "fibre"}
    assert [note.partition(":")[0] for note in wiring.notes] == ["local"]


def test_longer_copper_is_active_then_optical() -> None:
    fabric = built("dragonfly", 1024, 64)

    def medium(length_m: float) -> str:
        lengths = [
            row.changed(length_m=length_m) if row.group == "host" else row for row in BOOK.lengths
        ]
        book = BOOK.changed(lengths=tuple(lengths))
        return next(run.medium for run in wire(fabric, Hardware(book)).runs if run.name == "host")

    assert [medium(m) for m in (3, 3.1, 5, 5.1, 7, 7.1)] == [
        *("dac", "acc", "acc", "aec", "aec", "fibre")
    ]


def test_no_module_for_the_cage_is_one_clear_line() -> None:
    fabric = built("rail-only", 1024, 256, gbps=200)
    with pytest.raises(NetplanError, match=r"from 4 x 200G osfp-finned to 1 x 200G qsfp56"):
        wire(fabric, Hardware(BOOK, SWITCHES.load("sn5600")))


def test_an_unknown_tier_is_a_port_that_does_not_exist() -> None:
    fabric = built("rail-optimized", 1024, 64)
    host, *_ = fabric.links
    attic = LinkType("leaf-attic", "up", tiers=(1, 3))
    wrong = replace(fabric, links=(host, LinkGroup.of(attic, 1024)))
    with pytest.raises(NetplanError, match="cables end on tier 3"):
        wire(wrong, Hardware(BOOK))


def test_missing_cables_are_found_against_the_tiers() -> None:
    fabric = built("rail-optimized", 1024, 64)
    with pytest.raises(InfeasibleError, match="1,024 cable ends land on leaf switches, whose"):
        wire(replace(fabric, links=fabric.links[:1]), Hardware(BOOK))


# --- optical circuit switches ---------------------------------------------------------------


def test_a_tpu_pod_has_48_circuit_switches_of_128_ports() -> None:
    # 64 cubes of 4 x 4 x 4: 6 faces x 16 = 96 fibres a cube, 64 x 96 = 6,144 in all; opposite
    # faces share a switch: 3 x 16 = 48 switches of 6,144 / 48 = 128 ports (arXiv:2304.01433).
    fabric = built("torus-3d", 4096, 64, hb_size=1)
    layer = circuit_layer(SPECS["torus-3d"], fabric, SWITCHES.load("palomar"))
    assert (layer.switches, layer.ports_used, layer.notes) == (48, 6144, ())
    wiring = wire(fabric, Hardware(BOOK, circuits=layer))
    optical = [run for run in wiring.runs if run.medium == "fibre"]
    assert sum(run.links for run in optical) == 6144
    assert {run.ends for run in optical} == {(CARD, CIRCUITS)}
    # 30 m to the switch and 30 m on: too far for multimode modules of 50 m.
    assert {run.plugs[0].fibre for run in optical} == {"singlemode"}


def test_ports_of_the_chip_need_no_cards() -> None:
    size: dict[str, Any] = {"gpus": 4096, "radix": 64, "accelerator": "tpu-v4", "prices": "2026"}
    (torus,) = netplan.cost(
        "rail-only-paper", **size, fabrics=("torus-3d",), ocs="palomar"
    ).to_dict()["fabrics"]
    assert [item["category"] for item in torus["items"]].count("cards") == 0
    # 48 x 136 x 520 + 6,144 x 611.95 + 9,216 cables of 3 m at 99.50 + 3 x 25: without 24,576 cards
    # at 1,499 USD. And 6,144 single-mode fibres of 30 m at 193.03; 15,360 cables laid at 87 USD.
    known = 3_394_560 + 3_759_820.80 + 1_608_192 + 1_185_964.03 + 1_336_320
    assert torus["cost"]["base"] == pytest.approx(known)
    # Two of six ports of the chip are unused in a ring of rings, and a switch needs a card.
    answer = netplan.cost("rail-only-paper", **size, fabrics=("torus-2d", "fat-tree")).to_dict()[
        "fabrics"
    ]
    cards = [[i["quantity"] for i in one["items"] if i["category"] == "cards"] for one in answer]
    assert cards == [[], [4096]]
    # Four dimensions have eight ports: two a chip more than it has.
    four = SPECS["torus-3d"].changed(dimensions=4)
    chips = Sizing(4096, 64, 1, 300e9, 50e9, chip_ports=6)
    assert build_fabric(four, chips).card_ports == 2 * 4096


def test_a_larger_pod_needs_several_switches_a_position() -> None:
    fabric = built("torus-3d", 8192, 64, hb_size=1)
    layer = circuit_layer(SPECS["torus-3d"], fabric, SWITCHES.load("palomar"))
    assert layer.switches == 96  # 128 cubes x 2 = 256 ports a position, two switches of 136
    assert "not every choice of cubes" in layer.notes[0]


@pytest.mark.parametrize("question", [netplan.cost, netplan.faults])
def test_an_unknown_circuit_switch_is_told_of_circuit_switches_alone(
    question: Callable[..., object],
) -> None:
    given = {"gpus": 4096, "fabrics": ("torus-3d",)}
    with pytest.raises(UnknownNameError, match=r"circuit switch 'zz': known: palomar, r300$"):
        question("tpu-v7", **given, ocs="zz")
    # Near a packet switch, and near no circuit switch.
    with pytest.raises(UnknownNameError, match="circuit switch 'qm9700x': known: pal"):
        question("tpu-v7", **given, ocs="qm9700x")
    with pytest.raises(UnknownNameError, match=r"no switch file zz\.yaml$"):
        question("tpu-v7", **given, ocs="zz.yaml")


@pytest.mark.parametrize(
    ("name", "gpus", "hb_size", "model", "words"),
    [
        ("rail-only", 4096, 8, "palomar", "rail-only is no torus"),
        ("torus-3d", 4096, 8, "palomar", "whole cubes of single GPUs"),
        ("torus-3d", 1000, 1, "palomar", "whole cubes"),
        ("torus-3d", 4096, 1, "qm9700", "it switches packets"),
    ],
)
def test_circuit_switches_where_they_cannot_be(
    name: str, gpus: int, hb_size: int, model: str, words: str
) -> None:
    fabric = built(name, gpus, 64, hb_size)
    with pytest.raises(InputError, match=words):
        circuit_layer(SPECS[name], fabric, SWITCHES.load(model))


# --- switch models --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "speed_gbps", "ports"),
    [
        ("qm9700", 400, 64),
        ("qm9790", 400, 64),
        ("qm8700", 200, 40),
        ("sn5600", 800, 64),
        ("sn5600", 400, 128),
        ("s9321-64eo", 400, 128),
        ("q3400", 800, 144),
        ("q3401", 800, 144),
        ("q3450", 800, 144),
        ("sn5400", 400, 64),
        ("sn5610", 400, 128),
        ("sn6600", 800, 128),
        ("sn6600", 200, 512),
        ("sn6810", 400, 256),
        ("sn6800", 200, 512),  # 2,048 lanes over four chips that nothing joins
        ("sn6800", 800, 0),
        ("tomahawk6", 1600, 64),
        ("tomahawk6", 800, 128),
        ("silicon-one-g300", 200, 512),
        ("7060xe7-64ps", 1600, 64),
        ("tomahawk-ultra", 400, 128),
        ("silicon-one-g200", 800, 64),
        ("jericho4", 800, 64),
        ("slingshot-64", 200, 64),
        ("slingshot-64", 400, 0),
    ],
)
def test_radix_of_real_switches(name: str, speed_gbps: float, ports: int) -> None:
    assert SWITCHES.load(name).radix(speed_gbps) == ports


@pytest.mark.parametrize(
    ("name", "radix", "words"),
    [
        ("sn5600", 64, "has 128 ports of 400 Gb/s, got --radix 64: give --radix 128, or take qm9"),
        ("qm9700", 60, "or no switch of the catalog has as many"),
        ("qm8700", 64, "runs at 200, 100 Gb/s, the links at 400 Gb/s"),
        ("palomar", 64, "use --ocs palomar"),
    ],
)
def test_a_switch_that_does_not_fit_says_what_does(name: str, radix: int, words: str) -> None:
    models = [SWITCHES.load(known) for known in SWITCHES.paths()]
    with pytest.raises(InputError, match=words):
        check_switch(SWITCHES.load(name), radix, 400, models)
