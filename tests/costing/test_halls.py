"""Halls: one rule for copper or optics, the same for all families, bills and elevations."""

from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import netplan
from netplan import Scenario
from netplan.costing.cabling import ANY, CABLING_BOOKS
from netplan.costing.elevations import elevations
from netplan.costing.fabric_bill import Bill, BillBooks, hardware_of, make_bill
from netplan.costing.installation import Installation, install, place
from netplan.costing.materials import BillItem
from netplan.costing.switches import SWITCHES, circuit_layer
from netplan.costing.wiring import (
    CARD,
    CIRCUITS,
    COPPER,
    MODULES,
    CableRun,
    Cage,
    Hardware,
    Link,
    first_that_closes,
)
from netplan.errors import InfeasibleError, InputError, NetplanError
from netplan.scenarios.bill_books import read_books
from netplan.scenarios.parts import Books, Cluster
from netplan.scenarios.reading import CatalogReader, sized
from netplan.topologies.build import build_fabric
from netplan.topologies.cabling.floor_plan import FLOOR_PLANS, FloorPlan, places_sold
from netplan.topologies.fabric import Fabric, Sizing
from netplan.topologies.rail_circuits import BLOCK
from netplan.topologies.specs import FABRICS, FabricSpec
from netplan.workloads.accelerators import ACCELERATORS

BOOK = CABLING_BOOKS.load("2026")
HALL = FLOOR_PLANS.load("leaves-in-rack")
BOOKS = Books(), CatalogReader()
FAMILIES = (
    *("rail-only", "rail-optimized", "fat-tree", "dgx-superpod", "dragonfly", "dragonfly-plus"),
    *("torus-2d", "torus-3d", "hyperx", "slim-fly", "jellyfish", "xpander", "circulant"),
    *("hammingmesh", "bcube"),
)

# Lengths by hand: inside a rack |du| x 0.04445 + 0.5; else racks x 0.6 + rows x 3.0 + 2 x 2.7
# - (u1 + u2) x 0.04445 + 1.0, with row, rack and unit of both ends.
VECTORS = [
    ((0, 0, 10), (0, 0, 40), 100, False, 1.834, "dac", 2),
    ((0, 0, 1), (0, 0, 42), 100, False, 2.322, "dac", 2.5),
    ((0, 0, 20), (0, 1, 30), 100, False, 4.777, "acc", 5),
    ((0, 0, 20), (0, 2, 30), 100, False, 5.378, "aec", 7),
    ((0, 0, 20), (0, 3, 30), 100, False, 5.978, "aec", 7),
    ((0, 0, 20), (0, 4, 30), 100, False, 6.578, "aec", 7),
    ((0, 0, 20), (0, 5, 30), 100, False, 7.178, "sr", 10),
    ((0, 0, 20), (0, 6, 30), 100, False, 7.777, "sr", 10),
    ((0, 0, 20), (0, 7, 30), 100, False, 8.378, "sr", 10),
    ((0, 0, 20), (0, 8, 30), 100, False, 8.977, "sr", 10),
    ((0, 0, 30), (1, 5, 30), 100, True, 9.733, "sr", 10),
    ((0, 0, 30), (10, 20, 30), 100, True, 45.733, "sr", 50),
    ((0, 0, 30), (30, 35, 30), 100, True, 114.733, "dr", 150),
    ((0, 0, 20), (0, 0, 40), 200, False, 1.389, "acc", 1.5),
    ((0, 0, 20), (0, 1, 30), 200, False, 4.777, "dr", 5),
    ((0, 0, 1), (0, 0, 42), 200, True, 2.322, "acc", 2.5),
    ((0, 0, 40), (1, 7, 40), 100, True, 10.044, "sr", 15),
]


# Reaches by hand in the order of price [m], by the rate of a lane [Gb/s] and whether a cable is
# straight: NVIDIA's list of LinkX products of September 2026.
REACHES_M: dict[tuple[float, bool], tuple[tuple[str, float], ...]] = {
    (25, False): (("dac", 5), ("aoc", 100), ("dr", 500)),
    (25, True): (("dac", 5), ("aoc", 100), ("dr", 500)),
    (50, False): (("dac", 3), ("aoc", 100), ("dr", 500)),
    (50, True): (("dac", 2), ("aoc", 100), ("dr", 500)),
    (100, False): (("dac", 3), ("acc", 5), ("aec", 7), ("sr", 50), ("dr", 500), ("fr", 2000)),
    (100, True): (("dac", 2), ("acc", 5), ("aec", 7), ("sr", 50), ("dr", 500), ("fr", 2000)),
    (200, False): (("acc", 2), ("dr", 500), ("fr", 2000)),
    (200, True): (("acc", 3), ("dr", 500), ("fr", 2000)),
}


def grade(run: CableRun) -> str:
    """Kind of its cable, or class of its modules."""
    if run.medium != "fibre":
        return run.medium
    module = BOOK.module(run.plugs[0].item)
    assert module is not None
    return module.grade


def between_m(plan: FloorPlan, near: tuple[int, ...], far: tuple[int, ...]) -> float:
    """Length of a cable between two places, each a row, a rack of it and a unit."""
    ends = np.array([near, far], float).T
    rows, racks, _ = np.abs(ends[:, :1] - ends[:, 1:])
    return float(plan.lengths_m(rows, racks, ends[2, :1], ends[2, 1:])[0])


def taken(length_m: float, lane: float, *, straight: bool, known: bool = False) -> CableRun:
    """What bills take between two cages whose plugs nobody has chosen, or of boxes on sale."""
    place = int(places_sold(np.array([length_m]), np.array(BOOK.stock_lengths_m))[0])
    sold_m = BOOK.stock_lengths_m[place]
    near = far = Cage(ANY, 4 * lane, 1, lane)
    if known:
        near = Cage("osfp-finned", 4 * lane, 2, lane)
        far = near if straight else Cage("osfp-flat", 4 * lane, 1, lane)
    link = Link(BOOK, COPPER, sold_m, near.links if straight else 1, straight)
    run = first_that_closes(near, far, link)
    assert run is not None
    return run


@pytest.mark.parametrize(("near", "far", "lane", "straight", "length_m", "kind", "stock"), VECTORS)
def test_length_and_medium_of_two_places(  # noqa: PLR0913, PLR0917 - a row of the table
    near: tuple[int, int, int],
    far: tuple[int, int, int],
    lane: int,
    straight: bool,  # noqa: FBT001
    length_m: float,
    kind: str,
    stock: float,
) -> None:
    length = between_m(HALL, near, far)
    assert length == pytest.approx(length_m, abs=6e-4)
    assert between_m(HALL, far, near) == length
    for known in (False, True):
        run = taken(length, lane, straight=straight, known=known)
        assert (grade(run), run.length_m) == (kind, stock)


@given(st.sampled_from([25, 50, 100, 200]), st.booleans(), st.floats(0.1, 400), st.floats(0, 100))
def test_longer_never_gets_a_medium_of_less_reach(
    lane: int,
    straight: bool,  # noqa: FBT001
    length_m: float,
    more_m: float,
) -> None:
    kinds = (*COPPER, *MODULES)
    near = taken(length_m, lane, straight=straight)
    far = taken(length_m + more_m, lane, straight=straight)
    assert near.length_m >= length_m
    assert kinds.index(grade(near)) <= kinds.index(grade(far))
    assert near.reach_m <= far.reach_m


def test_what_nothing_reaches_is_refused_with_length_lane_and_longest_reach() -> None:
    spec, sizing, books = asked("gb300", 1024, "rail-only")
    far = books.hall.changed(row_pitch_m=5000.0, racks_per_row=2, rows=100) if books.hall else None
    changed = BillBooks(books.prices, books.power, books.cabling, hall=far)
    words = (
        r"host, leaf to network card: [\d,]+ m at lanes of 200 Gb/s: of what fits these cages"
        r" Transceiver, FR reaches 2,000 m: put the ends closer"
    )
    with pytest.raises(InfeasibleError, match=words):
        make_bill(spec, sizing, changed)
    # Network cards of 400G take modules of 100 m alone, whatever the switch takes.
    flat = Cage("osfp-flat", 400, 1, 100)
    finned = Cage("osfp-finned", 400, 2, 100)
    reach = [first_that_closes(finned, flat, Link(BOOK, (), length)) for length in (100, 150)]
    assert [run is not None for run in reach] == [True, False]


@pytest.mark.parametrize("accelerator", ["h100-80gb", "b200-1000w"])
def test_switches_with_cages_are_billed_in_a_hall_of_65536_gpus(accelerator: str) -> None:
    question = {"gpus": 65_536, "radix": 128, "accelerator": accelerator, "switch": "sn5600"}
    fabrics = ("rail-optimized", "fat-tree", "rail-only", "dragonfly")
    answer = netplan.cost("hgx-b200", **question, fabrics=fabrics)
    assert sorted(bill.name for bill in answer.bills) == sorted(fabrics)
    for bill in answer.bills:
        assert bill.hall == "leaves-in-rack"
        items = [item.line for item in bill.quote.items if item.line.category == "transceivers"]
        modules = {line.item: line.quantity for line in items}
        far = [count for name, count in modules.items() if name.startswith("MMS4X00-NM")]
        if accelerator == "b200-1000w" and bill.name == "rail-optimized":
            # 65,536 links from leaves to spines, two at each module, at both of their ends.
            assert far == [65_536]


@cache
def asked(
    accelerator: str, gpus: int, fabric: str, hall: str = "leaves-in-rack"
) -> tuple[FabricSpec, Sizing, BillBooks]:
    radix = 64 if accelerator == "gb300" else 128
    asked_for = {"gpus": gpus, "accelerator": accelerator, "radix": radix, "hall": hall}
    scenario = Scenario.load("hgx-b200").replace(**asked_for)
    reader = CatalogReader()
    books = read_books(scenario.cluster, scenario.books, reader)
    sizing = sized(scenario.cluster, ACCELERATORS.load(accelerator))
    return FABRICS.load(fabric), sizing, books


@cache
def built(
    accelerator: str, gpus: int, fabric: str, hall: str = "leaves-in-rack"
) -> tuple[Fabric, Installation]:
    spec, sizing, books = asked(accelerator, gpus, fabric, hall)
    assert books.hall is not None
    made = build_fabric(spec, sizing)
    hardware = hardware_of(books, made.sizing)
    return made, install(made, place(books.hall, spec, sizing, hardware), hardware)


def devices(run: CableRun) -> tuple[str, ...]:
    """Kinds of the two devices that a run joins."""
    return tuple(sorted("card" if end == CARD else "switch" for end in run.ends))


REFUSED = {(32_768, "bcube"): "32,768 GPUs need switches of 182 ports"}
"""Families that cannot be built of a number of GPUs, and why."""


@pytest.mark.parametrize("accelerator", ["h100-80gb", "b200-1000w", "gb300"])
@pytest.mark.parametrize("gpus", [1024, 4096, 32_768])
def test_the_same_distance_has_the_same_medium_in_every_family(accelerator: str, gpus: int) -> None:
    media: dict[tuple[object, ...], set[str]] = {}
    for fabric in FAMILIES:
        if (gpus, fabric) in REFUSED:
            with pytest.raises(InputError, match=REFUSED[gpus, fabric]):
                built(accelerator, gpus, fabric)
            continue
        made, installed = built(accelerator, gpus, fabric)
        links: Counter[str] = Counter()
        for run in installed.wiring.runs:
            near = installed.wiring.bank(run.ends[0]).cage
            where = (*devices(run), near.speed_gbps, near.lane_gbps, run.length_m)
            media.setdefault(where, set()).add(run.kind)
            links[run.name] += run.links
            reaches = REACHES_M[near.lane_gbps or 0, run.role != "host"]
            assert grade(run) == next(kind for kind, most in reaches if run.length_m <= most)
            assert run.length_m in BOOK.stock_lengths_m
        assert links == {group.name: group.links for group in made.links}
    assert {len(kinds) for kinds in media.values()} == {1}


def test_no_shipped_family_names_a_medium() -> None:
    named = [name for name in FABRICS.paths() if FABRICS.load(name).media_named]
    assert named == ["frontier"]
    assert FABRICS.load("frontier").hall == "as-published"


def test_a_leaf_in_the_rack_of_its_own_gpus_has_copper_hosts() -> None:
    # Leaves of 64 ports face 32 GPUs, which are a rack of four H100 servers.
    scenario = Scenario.load("hgx-h100").replace(gpus=1024, radix=64)
    bill = scenario.fabric("fat-tree").bill()
    hosts = next(group for group in bill.fabric.links if group.name == "host")
    assert (hosts.copper, hosts.medium) == (1024, "copper")
    # A leaf of a rail serves 32 servers in eight racks: copper as far as it reaches, then optics.
    rails = next(
        group
        for group in scenario.fabric("rail-optimized").bill().fabric.links
        if group.tiers[0] == 0
    )
    assert 0 < rails.copper < 1024
    assert rails.media == "copper and optical"


def test_racks_are_filled_by_power() -> None:
    # 44 kW less 3 for leaves: four servers of 10.2 kW, two of 14.3 kW; a domain of nine such
    # servers, 129 kW, in a rack of 230; 256 of their GPUs in four racks of 64.
    def gpus(max_w: float, hb_size: int) -> int:
        return HALL.of_servers(max_w=max_w).racked(hb_size).gpus

    assert [gpus(10_200, 8), gpus(14_300, 8), gpus(14_300, 72), gpus(14_300, 256)] == [
        *(32, 16),
        *(72, 64),
    ]
    # 42 switches of 1 U and 1.21 kW are 50.8 kW: 36 of them are fed, 24 have 1 U for cables.
    assert HALL.switches_in_rack(1, 1210) == 24
    assert HALL.changed(cable_units=0).switches_in_rack(1, 1210) == 36


@pytest.mark.parametrize(
    ("accelerator", "hb_size", "gpus", "rack_w"),
    [
        # Servers in 41 kW: 4 x 10.2 kW; 2 x 14.3; 2 x 14.5, where hotter racks hold four; of 8
        # GPUs that the power book does not name, 1.6 times these: 3 x 12.8, 2 x 17.92.
        ("h100-80gb", 8, 32, 40_796),
        ("b200-1000w", 8, 16, 28_606),
        ("b300", 8, 16, 28_992),
        ("mi325x", 8, 24, 38_400),
        ("mi355x", 8, 16, 35_840),
        # Racks of their own: 72 x (1,200 + 442 + 25), 72 x (1,400 + 390 + 43), others 1.6 times.
        ("gb200", 72, 72, 120_017),
        ("gb200", 64, 64, 106_682),
        ("gb200", 576, 72, 120_017),
        ("gb300", 72, 72, 131_976),
        ("vr-nvl72", 72, 72, 207_360),
        ("kyber-nvl144", 144, 144, 829_440),
        ("mi455x", 72, 72, 288_000),
        ("tpu-v4", 1, 64, 19_660.8),
    ],
)
def test_racks_are_those_of_the_accelerator_with_servers_of_the_power_book(
    accelerator: str, hb_size: int, gpus: int, rack_w: float
) -> None:
    hall = read_books(Cluster(accelerator=accelerator, hall="leaves-in-rack"), *BOOKS).hall
    assert hall is not None
    racked = hall.racked(hb_size)
    assert racked.server is not None
    assert racked.server.max_w is not None
    assert racked.gpus == gpus
    assert racked.gpus / racked.server.gpus * racked.server.max_w == pytest.approx(rack_w, rel=1e-4)


@pytest.mark.parametrize("hall", ["leaves-in-rack", "leaves-mid-row", "leaves-end-of-row"])
@pytest.mark.parametrize("accelerator", ["h100-80gb", "b200-1000w", "gb300"])
@pytest.mark.parametrize("fabric", ["rail-only", "fat-tree", "dragonfly", "torus-2d"])
def test_racks_keep_their_power_and_height_and_hold_what_the_bill_has(
    hall: str, accelerator: str, fabric: str
) -> None:
    spec, sizing, books = asked(accelerator, 1024, fabric, hall)
    bill = make_bill(spec, sizing, books)
    made = elevations(bill, spec, books)
    assert made.layout is not None
    feeds = books.hall.feeds if books.hall else ()
    switches = racks = servers = 0
    for kind in made.kinds:
        slots = sorted(kind.slots, key=lambda slot: slot.unit)
        for low, high in pairwise(slots):
            assert low.unit + low.units <= high.unit
        assert not slots or slots[-1].unit + slots[-1].units - 1 <= kind.units
        most = feeds[1 if accelerator == "gb300" and kind.servers else 0].rack_w
        assert (kind.typical_w or 0) + kind.servers * (kind.server_w or 0) <= most
        switches += len(kind.names) * sum(slot.switch for slot in slots)
        racks += len(kind.names) * (kind.servers == 0)
        servers += len(kind.names) * kind.servers
    assert switches == bill.fabric.switches
    assert racks == bill.racks.count == ordered_racks(bill)
    assert servers == -(-1024 // (72 if accelerator == "gb300" else 8))


def ordered_racks(bill: Bill) -> int:
    return sum(item.line.order for item in bill.quote.items if item.line.category == "racks")


@pytest.mark.parametrize(
    ("fabric", "switch"),
    [
        *(
            (fabric, None)
            for fabric in ("rail-only", "fat-tree", "dragonfly", "torus-2d", "hyperx")
        ),
        *((fabric, "qm9700") for fabric in ("rail-only", "fat-tree", "dragonfly", "hyperx")),
    ],
)
def test_bill_and_cable_plan_have_the_same_cables(switch: str | None, fabric: str) -> None:
    question = {"gpus": 512, "radix": 64, "accelerator": "h100-80gb", "switch": switch}
    (bill,) = netplan.cost("hgx-h100", **question, fabrics=(fabric,)).bills
    plan = netplan.cables("hgx-h100", **question, fabric=fabric, to="lengths").to_dict()["rows"]
    kinds = {"multimode": "om4", "singlemode": "os2"}
    planned: Counter[tuple[str, float]] = Counter()
    for row in plan:
        kind = kinds.get(row["medium"], row["medium"])
        planned[kind, float(row["length_m"])] += int(row["cables"])
    ordered: Counter[tuple[str, float]] = Counter()
    for line in (item.line for item in bill.quote.items if item.line.category == "cables"):
        length_m = float(line.item.rpartition(", ")[2].removesuffix(" m"))
        ordered[line.kind, length_m] += line.quantity * line.price_units
    assert ordered == planned
    assert bill.hall == "leaves-in-rack"


def test_a_medium_that_a_file_gives_never_decides(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    shipped = FABRICS.load("rail-optimized").to_dict()
    lines = [f'{key}: "{shipped[key]}"' for key in ("title", "source", "date")]
    mine.write_text("\n".join(["name: mine", *lines, "family: clos", "host_medium: copper"]))
    fabrics = ("fat-tree", str(mine))
    question = {"gpus": 4096, "radix": 128, "timing": False}
    answer = netplan.compare("hgx-h100", **question, fabrics=fabrics)
    row = next(row for row in answer.rows if row.name == "mine")
    assert row.media_given == "host links copper"
    assert any(note.startswith("Medium given by the file: host links") for note in row.notes)
    verdict = answer.to_dict()["verdict"]
    assert verdict["fabric"] == "fat-tree"
    assert row.cost is not None
    assert row.cost.base < next(
        other.cost.base for other in answer.rows if other.cost and other is not row
    )
    assert "mine" in " ".join(verdict["caveats"])
    # A hall that gives all those links copper confirms it: 64 GPUs stand in two racks.
    near = netplan.compare("hgx-h100", **{**question, "gpus": 64}, fabrics=fabrics)
    row = next(row for row in near.rows if row.name == "mine")
    assert not row.media_given


def test_a_paper_keeps_its_media() -> None:
    row = netplan.compare("rail-only-paper", fabrics=("dragonfly",), timing=False).rows[0]
    assert row.fabric is not None
    media = {group.name: group.medium for group in row.fabric.links}
    assert media == {"host": "copper", "local": "copper", "global": "optical"}
    assert row.bill is not None
    assert row.bill.hall == "as-published"


def test_copper_that_a_design_is_published_with_is_bought_as_far_as_any_form_of_it_reaches() -> (
    None
):
    # 64 cubes of 4 x 4 x 4: 3 x 3 x 16 links in each, of 3 m, where straight ACC reach at lanes of
    # 200 Gb/s; 3 x 16 fibres between cubes. Dragonflies of the paper: 2.4 m, where split DAC does.
    (bill,) = netplan.cost("tpu-v7", gpus=4096, fabrics=("torus-3d",)).bills
    cables = {line.kind: line.quantity for line in cables_of(bill)}
    assert cables == {"acc": 64 * 144, "os2": 64 * 48}
    assert bill.ordered("transceiver") == 2 * 64 * 48
    assert not any("no copper" in note for note in bill.notes)
    (paper,) = netplan.cost("rail-only-paper", fabrics=("dragonfly",)).bills
    assert "dac" in {item.line.kind for item in paper.quote.items}
    assert "acc" not in {item.line.kind for item in paper.quote.items}


def cables_of(bill: Bill) -> list[BillItem]:
    return [item.line for item in bill.quote.items if item.line.category == "cables"]


@pytest.mark.parametrize(
    ("fabric", "switch"), [("fat-tree", None), ("fat-tree", "sn5600"), ("dragonfly", None)]
)
def test_several_halls_have_the_shares_and_lengths_of_one(fabric: str, switch: str | None) -> None:
    question = {"fabrics": (fabric,), "switch": switch}
    (one,) = netplan.cost("hgx-b200", gpus=65_536, **question).bills
    (several,) = netplan.cost("hgx-b200", gpus=1_050_000, **question).bills
    groups = {group.name: group for group in one.fabric.links}
    for group in several.fabric.links:
        if group.name not in groups:  # of the fourth tier
            assert group.media == "optical"
            continue
        like = groups[group.name]
        assert abs(group.copper - group.links * like.copper / like.links) <= 1
    assert any(group.media == "copper and optical" for group in several.fabric.links)
    links = sum(group.links for group in several.fabric.links)
    lines = cables_of(several)
    assert links <= sum(line.quantity * line.price_units for line in lines) <= links + len(lines)
    shares = [
        {line.item: line.quantity / bill.gpus for line in bill_lines if line.part != "fibre"}
        for bill, bill_lines in ((one, cables_of(one)), (several, lines))
    ]
    hosts = max(shares[0], key=shares[0].__getitem__)  # most cables with fixed plugs are theirs
    assert shares[1][hosts] == pytest.approx(shares[0][hosts], rel=1e-3)
    hall = "More than 1,048,576 GPUs stand in several halls: media and lengths as for 65,536 in"
    assert any(note.startswith(hall) for note in several.notes)
    assert several.hall == "leaves-in-rack"


def test_circuit_switches_have_no_place_in_a_hall_and_the_answer_says_so() -> None:
    question = {"gpus": 4096, "fabrics": ("torus-3d",), "ocs": "palomar"}
    (bill,) = netplan.cost("tpu-v7", **question, hall="leaves-in-rack").bills
    note = "The hall leaves-in-rack has no place for circuit switches: media as published,"
    assert bill.hall == "as-published"
    assert any(line.startswith(note) for line in bill.notes)
    (published,) = netplan.cost("tpu-v7", **question, hall="as-published").bills
    assert bill.capital == published.capital
    assert not any("no place" in line for line in published.notes)


def test_a_hall_needs_to_say_what_racks_hold() -> None:
    shipped = HALL.to_dict()
    wrongs: tuple[dict[str, object], ...] = ({"feeds": []}, {"rows": 4})
    for wrong in wrongs:
        with pytest.raises(ValueError, match=r"gpus_per_rack is missing|rows needs racks_per_row"):
            FloorPlan.read({**shipped, **wrong})


def test_halls_by_rule_differ_by_their_leaves_alone(tmp_path: Path) -> None:
    for name, leaves in (("leaves-mid-row", "middle-of-row"), ("leaves-end-of-row", "end-of-row")):
        plan = FLOOR_PLANS.load(name)
        assert plan.leaves == leaves
        assert HALL.changed(name=name, title=plan.title, source=plan.source, leaves=leaves) == plan
    own = tmp_path / "own.yaml"
    head = "name: own\ntitle: Own\nsource: me\ndate: '2026'\n"
    own.write_text(head + "like: leaves-in-rack\nrack_units: 52\n")
    assert FLOOR_PLANS.load(str(own)).rack_units == 52
    for like, said in (
        ("none", "unknown floor.plan"),
        ("../a", "name of another hall"),
        ("own", "that hall is like another"),
    ):
        own.write_text(head + f"like: {like}\n")
        with pytest.raises(NetplanError, match=said):
            FLOOR_PLANS.load(str(own))
    own.write_text(head + "like: leaves-in-rack\nrack_units: 0\n")
    with pytest.raises(NetplanError, match="rack_units"):
        FLOOR_PLANS.load(str(own))


@pytest.mark.parametrize("leaf_w", [44_000, 50_000])
def test_a_rack_that_feeds_no_gpu_is_refused(leaf_w: int) -> None:
    wrong = {"floor-plan.feeds.air.leaf_w": str(leaf_w)}
    with pytest.raises(netplan.errors.NetplanError, match="leaves GPUs none of the 44,000 W"):
        netplan.cost("hgx-h100", gpus=1024, hall="leaves-in-rack", overrides=wrong)


@pytest.mark.parametrize(
    ("key", "value", "units"),
    [("gpus_per_rack", 1000, "1,000 U of 42 U"), ("gpus_per_rack", 48, "48 U of 42 U")],
)
def test_servers_that_do_not_fit_a_rack_are_refused(key: str, value: int, units: str) -> None:
    wrong = {f"floor-plan.{key}": str(value)}
    with pytest.raises(netplan.errors.NetplanError, match=units):
        netplan.cost("hgx-h100", gpus=4096, hall="example-hall", overrides=wrong)


def test_a_hall_without_feeds_may_have_leaves_in_the_racks_of_gpus() -> None:
    asked = {"floor-plan.leaves": "in-rack"}
    (bill,) = netplan.cost(
        "hgx-h100", gpus=1024, hall="example-hall", overrides=asked, fabrics=("rail-only",)
    ).bills
    assert bill.hall == "example-hall"


def test_no_question_ranks_by_a_medium_that_a_file_gives(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    lines = ["name: mine", "title: Mine", "source: me", 'date: "2026-11"', "family: rail-only"]
    mine.write_text("\n".join([*lines, "host_medium: copper"]))
    fabrics = ("rail-only", str(mine))
    cost = netplan.cost("hgx-b200", gpus=1024, fabrics=fabrics)
    assert cost.in_a_line().startswith("rail-only")
    assert not cost.comparisons
    assert "mine is aside" in str(cost)
    assert "mine †" in str(cost)
    grown = netplan.grow("hgx-b200", phases=(512, 1024), fabrics=fabrics)
    assert grown.in_a_line().startswith("grow rail-only")
    assert "Cheapest to grow is rail-only" in str(grown)
    sentence = netplan.diff(
        "hgx-b200", a={"fabric": str(mine)}, b={"fabric": "rail-only"}, gpus=1024, timing=False
    ).sentence
    assert "medium given by the file of mine" in sentence


def test_rails_behind_circuit_switches_stand_in_the_hall_of_all_fabrics() -> None:
    """Every host link is two fibres as long as the way from its ends to its circuit switch."""
    pair = ("rail-only", "rail-only-ocs")
    plain, behind = netplan.cost("hgx-h100", gpus=1024, radix=64, fabrics=pair).bills
    assert (plain.hall, behind.hall) == ("leaves-in-rack", "leaves-in-rack")
    fibres = [item.line for item in behind.quote.items if item.line.kind == "os2"]
    assert sum(line.quantity for line in fibres) == 2 * 1024
    assert len({line.length_m for line in fibres}) > 1
    switches = next(item.line for item in behind.quote.items if item.line.part == "ocs_port")
    assert switches.quantity == 16
    assert behind.racks.count > plain.racks.count


@pytest.mark.parametrize("switch", [None, "qm9700"])
def test_fibres_to_circuit_switches_by_a_slow_count(switch: str | None) -> None:
    """Link by link: where its GPU, its rail switch and its circuit switch stand."""
    spec, sizing = FABRICS.load("rail-only-ocs"), Sizing(1024, 64, 8, 450e9, 50e9)
    fabric, model = build_fabric(spec, sizing), SWITCHES.load("palomar")
    layer = circuit_layer(spec, fabric, model)
    known = None if switch is None else SWITCHES.load(switch)
    hardware = Hardware(CABLING_BOOKS.load("2026"), known, layer)
    site = place(FLOOR_PLANS.load("leaves-in-rack"), spec, sizing, hardware)
    assert layer.plan is not None
    table = layer.plan.table()
    on = {
        (domain, block): circuit
        for circuit, kind, domain, block in zip(
            table.switch.tolist(),
            table.kind.tolist(),
            table.domain.tolist(),
            table.block.tolist(),
            strict=True,
        )
        if kind == BLOCK
    }
    sold, layout = hardware.cabling.stock_lengths_m, site.layout
    lengths: Counter[float] = Counter()
    network = site.network
    for link in network.links_of("host").tolist():
        ends = sorted((int(network.source[link]), int(network.target[link])))
        circuit = on[ends[0] // 8, ends[0] % 8]
        rack, unit = int(layout.circuit_rack[circuit]), int(layout.circuit_unit[circuit])
        far = (*divmod(rack, layout.per_row), unit)
        for end in ends:
            near = (*divmod(int(layout.rack[end]), layout.per_row), int(layout.unit[end]))
            metres = between_m(layout.plan, near, far)
            lengths[next(length for length in sold if length >= metres)] += 1
    runs = [run for run in install(fabric, site, hardware).wiring.runs if CIRCUITS in run.ends]
    counted: Counter[float] = Counter()
    for run in runs:
        counted[run.length_m] += run.links
    assert counted == lengths
    # Racks of circuit switches are theirs alone.
    assert not set(layout.circuit_rack.tolist()) & set(layout.rack.tolist())
