"""Failure scenarios as written: names, numbers, files, and what is wrong with them."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.errors import CatalogError, InputError, NetplanError, UnknownNameError
from netplan.faults.damage import scenario
from netplan.faults.damage.damage import find_effects
from netplan.faults.damage.groups import RiskGroups, hall_risk_groups, racks_by_count
from netplan.faults.damage.inventory import Inventory, PartNames, Parts
from netplan.faults.damage.scenario import parse_faults, read_scenario
from netplan.topologies.build import build_fabric
from netplan.topologies.cabling.cable_plan import cable_plan
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.graph import FabricGraph
from netplan.topologies.specs import FABRICS
from tests.faults.damaged import fabric

RAILS = fabric("rail-optimized", (512, 32, 8))
INVENTORY = Inventory(RAILS)


def failed(*faults: str, graph: FabricGraph = RAILS, seed: int = 0) -> tuple[list[str], list[int]]:
    """Names of failed nodes, and numbers of failed links."""
    damage = parse_faults(faults, graph, rng=np.random.default_rng(seed))
    nodes = [graph.node_name(node) for node in np.flatnonzero(damage.node_down).tolist()]
    return nodes, np.flatnonzero(damage.link_down).tolist()


@pytest.mark.parametrize(
    "name", ["rail-optimized", "rail-only", "fat-tree", "dragonfly", "bcube", "torus-2d"]
)
def test_every_label_of_a_cable_plan_names_its_link(name: str) -> None:
    graph = fabric(name, (64, 16, 4))
    names = PartNames(Inventory(graph))
    links = names.inventory.kinds["link"].numbers
    for label, link in zip(cable_plan(graph).labels(), links.tolist(), strict=True):
        one, other = label.split("--")
        assert names.find(label).numbers.tolist() == [link]
        assert names.find(f"{other}--{one}").numbers.tolist() == [link]
        assert next(names.of(Parts(names.inventory.kinds["link"], np.array([link])))) == label


@pytest.mark.parametrize("kind", list(INVENTORY.kinds))
def test_names_go_both_ways(kind: str) -> None:
    names = PartNames(INVENTORY)
    parts = INVENTORY.kinds[kind]
    some = Parts(parts, parts.numbers[:: max(1, len(parts.numbers) // 23)])
    for name, number in zip(names.of(some), some.numbers.tolist(), strict=True):
        assert number in names.find(name, parts).numbers


def test_parts_by_name() -> None:
    assert failed("gpu-5", "rail-0/leaf-3", "domain-2/nvswitch-0") == (
        ["gpu-5", "domain-2/nvswitch-0", "rail-0/leaf-3"],
        [],
    )
    # Host link h is link 512 + h, behind the 512 links of the HB domains.
    assert failed("gpu-5:1") == ([], [517])
    assert failed("transceiver=gpu-5:1", "nic=gpu-6:1", "host=gpu-7:1--rail-7/leaf-0:1") == (
        [],
        [517, 518, 519],
    )
    assert failed("rail-0/leaf-0:1") == ([], [512])
    assert failed("gpu-5--domain-0/nvswitch-0") == ([], [5])
    # Leaf 0 has one link to each of 16 spines.
    assert len(failed("rail-0/leaf-0--spine-3")[1]) == 1
    assert failed("domain-3")[0] == [
        *(f"gpu-{gpu}" for gpu in range(24, 32)),
        "domain-3/nvswitch-0",
    ]


def test_parallel_links_fail_together_or_one_by_one() -> None:
    graph = fabric("fat-tree", (32, 16, 4))  # four leaves, eight uplinks each to two spines
    assert len(failed("leaf-0--spine-0", graph=graph)[1]) == 4
    assert len(failed("leaf-0:9--spine-0:1", graph=graph)[1]) == 1


def test_rails_and_planes_and_prefixes() -> None:
    nodes, links = failed("rail-3")
    assert nodes == [f"rail-3/leaf-{leaf}" for leaf in range(4)]
    assert links == [512 + gpu for gpu in range(3, 512, 8)]
    twin = fabric("twin-plane", (64, 16, 8))
    nodes, _ = failed("plane-1", graph=twin)
    assert nodes == [name for name in twin.names if name.startswith("plane-1/")]
    assert len(nodes) == 4 + 2
    tall = fabric("rail-only", (256, 8, 2))  # rails of 128 GPUs: three tiers, planes in each rail
    assert "plane" in Inventory(tall).kinds
    assert all(
        name.startswith("rail-1/plane-2/") for name in failed("rail-1/plane-2", graph=tall)[0]
    )
    fly = fabric("dragonfly", (64, 8, 8))
    assert len(failed("group=2", graph=fly)[0]) == 8
    assert Inventory(fabric("bcube", (64, 8, 1))).kinds["level"].numbers.tolist() == [0, 1]
    assert len(Inventory(fabric("dgx-superpod", (512, 32, 8))).kinds["unit"].numbers) == 4


def test_tiers_by_their_names() -> None:
    kinds = Inventory(fabric("fat-tree", (300, 8, 1))).kinds  # four tiers of radix 8
    tiers = [len(kinds[name].numbers) for name in ("leaf", "spine", "core", "tier-4")]
    assert sum(tiers) == len(kinds["switch"].numbers)
    assert min(tiers) > 0


@pytest.mark.parametrize(
    ("fault", "nodes", "links"),
    [
        ("links=10", 0, 10),
        ("link=10", 0, 10),
        ("leaf=2", 2, 0),
        ("leaves=2", 2, 0),
        ("leaf-spine=7", 0, 7),
        ("gpu=0.2%", 1, 0),
        ("gpus=100%", 512, 0),
        ("switches=0", 0, 0),
        ("transceivers=1", 0, 1),
        ("hb-switch=3", 3, 0),
        ("hb-link=3", 0, 3),
        ("domain=2", 18, 0),
        ("rail=1", 4, 64),
        ("nics=512", 0, 512),
        (" link = 1,000 ", 0, 1000),
    ],
)
def test_so_many_at_random(fault: str, nodes: int, links: int) -> None:
    found = failed(fault)
    assert (len(found[0]), len(found[1])) == (nodes, links)


def test_seeds_decide() -> None:
    faults = ("links=10", "leaf=2", "gpu=1%")
    assert failed(*faults, seed=1) == failed(*faults, seed=1)
    assert failed(*faults, seed=1) != failed(*faults, seed=2)
    assert np.array_equal(  # without a generator, seed 0
        parse_faults(faults, RAILS).node_down,
        parse_faults(faults, RAILS, rng=np.random.default_rng(0)).node_down,
    )


def test_draws_never_meet_what_has_failed() -> None:
    # 32 leaves: one by name, then 15 twice, and one more of any switch that is no leaf.
    for seed in range(5):
        nodes, _ = failed("leaf=15", "leaf=16", "rail-0/leaf-0", seed=seed)
        assert len(nodes) == 32
        nodes, _ = failed("leaf=100%", "switch=16", seed=seed)
        assert len(nodes) == 48
    # A port and the transceiver in it are two parts.
    assert len(failed("nic=100%", "transceiver=100%")[1]) == 1024
    with pytest.raises(InputError, match="only 1 of 32 of kind leaf are left to fail"):
        failed("leaf=31", "leaf=2")
    with pytest.raises(InputError, match="only 15 of 48 of kind switch are left"):
        failed("leaf=32", "spine-0", "switch=16")


def test_draws_are_even() -> None:
    scenario = read_scenario(["rail=2"], INVENTORY)
    rng = np.random.default_rng(0)
    count = np.zeros(8)
    for _ in range(2000):
        count[scenario.parts(rng)[0].numbers] += 1
    # 500 each, standard deviation sqrt(2000 * 1/4 * 3/4) = 19.
    assert abs(count - 500).max() < 80


def test_draws_of_groups_follow_their_weights() -> None:
    groups = RiskGroups(
        "box",
        ("a", "b", "c"),
        np.array([0, 1, 2]),
        np.array([0, 1, 2]),
        np.empty(0, np.int64),
        np.empty(0, np.int64),
        np.array([0.0, 1.0, 3.0]),
    )
    scenario = read_scenario(["box=1"], Inventory(RAILS, (groups,)))
    rng = np.random.default_rng(0)
    drawn = [int(scenario.parts(rng)[0].numbers[0]) for _ in range(2000)]
    assert drawn.count(0) == 0
    assert abs(drawn.count(2) - 1500) < 80  # standard deviation 19
    with pytest.raises(InputError, match="only 2 of 3 of kind box are left"):
        parse_faults(["box=3"], RAILS, groups=(groups,))


@pytest.mark.parametrize("name", list(FABRICS.paths()))
def test_transceivers_are_those_of_the_bill(name: str) -> None:
    spec, radix = FABRICS.load(name), 64 if name == "frontier" else 32
    gpus = {"ring-8-mesh-16": 128, "grayskull": 120}.get(name, 256)
    sizing = Sizing(gpus, radix, 8, 450e9, 50e9)
    kinds = Inventory(expand(spec, sizing)).kinds
    found = len(kinds["transceiver"].numbers) if "transceiver" in kinds else 0
    assert found == build_fabric(spec, sizing).transceivers


def test_copper_has_no_transceivers() -> None:
    sizing = Sizing(64, 8, 8, 450e9, 50e9, as_published=True)  # with the media of its paper
    fly = expand(FABRICS.load("dragonfly"), sizing)
    assert failed("gpu-0:1", graph=fly)[1] == [64]
    with pytest.raises(InputError, match="is no transceiver: it is a nic"):
        parse_faults(["transceiver=gpu-0:1"], fly)
    with pytest.raises(InputError, match="copper cable, which has no transceiver: fail its link"):
        parse_faults(["group-0/switch-0:1"], fly)


def test_the_only_leaf_of_one_domain_cuts_off_all_of_its_gpus() -> None:
    graph = expand(FABRICS.load("fat-tree"), Sizing(8, 8, 8, 450e9, 50e9))
    effects = find_effects(graph, parse_faults(["leaf-0"], graph))
    assert (len(effects.cut_off), len(effects.cut_off_forwarding)) == (8, 0)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("leaf=33", "the fabric has 32 of kind leaf, give 0 to 32"),
        ("leaf=-1", "the fabric has 32 of kind leaf, give 0 to 32"),
        ("leaf=1.5", "give a whole number of parts, a share such as 0.1%, or a name"),
        ("leaf=", "give a whole number of parts"),
        ("leaf=99999999999999999999", "give a whole number"),
        ("gpu=101%", "give 0% to 100%"),
        ("gpu=-1%", "give 0% to 100%"),
        ("gpu=0.01%", "that is less than one of 512"),
        ("leef=2", "unknown kind of part 'leef': did you mean leaf"),
        ("gpu-512", "unknown part 'gpu-512': did you mean gpu-511"),
        ("rail-9/leaf-0", "unknown part 'rail-9/leaf-0': did you mean rail-"),
        ("leaf-3", "did you mean .*leaf-3"),
        ("quite something else", "unknown part 'quite something else': name a node"),
        ("gpu-0:2", "gpu-0 has no cable in port 2, it has 1 cable in ports up to 1"),
        ("gpu-0:1--rail-0/leaf-0:2", "rail-0/leaf-0:2: links of the first go to rail-0/leaf-0"),
        ("gpu-0--gpu-9", "no link joins gpu-0 and gpu-9"),
        ("gpu-0--nowhere", "unknown part 'gpu-0--nowhere'"),
        ("rack=1", "give a floor plan, or GPUs and switches per rack"),
        ("leaf=spine-1", "'spine-1' is no leaf: it is a switch"),
        ("nic=gpu-5", "'gpu-5' is no nic: it is a gpu"),
        ("rail=gpu-5", "unknown part 'gpu-5'"),
        ("", "name a part, such as gpu-5"),
        ("@", "name a part, such as gpu-5"),
        ("gpu-5\x00", "is no fault"),
        ("x" * 1000, "is no fault"),
        ("@/no/such/file", "/no/such/file: cannot be read: No such file"),
    ],
)
def test_wrong_faults_say_what_is_wrong(fault: str, message: str) -> None:
    with pytest.raises(NetplanError, match=message) as caught:
        parse_faults(["gpu-1", fault], RAILS)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def complaint(text: str) -> str:
    try:
        parse_faults([text], RAILS)
    except NetplanError as error:
        return str(error)
    return "none"


@settings(max_examples=80, deadline=None)
@given(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
    | st.from_regex(r"\A[a-z]{2,6}[=:-][0-9%./:-]{0,9}\Z")
)
def test_any_text_is_a_fault_or_one_clear_line(text: str) -> None:
    found = complaint(text)
    assert found
    assert "\n" not in found


def test_faults_from_text_and_csv_files(tmp_path: Path) -> None:
    text, table = tmp_path / "faults.txt", tmp_path / "faults.csv"
    text.write_text("\ufeff# storm of May\nleaf=2\n\ngpu-5   # hot\r\n", encoding="utf-8")
    table.write_text('kind,what\nleaf,2\n,gpu-5\n"link","gpu-0:1--rail-0/leaf-0:1"\n')
    assert failed(f"@{text}", "gpu-6") == failed("leaf=2", "gpu-5", "gpu-6")
    assert failed(f"@{table}") == failed("leaf=2", "gpu-5", "gpu-0:1--rail-0/leaf-0:1")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("f.txt", b"gpu-1\ngpu-9999\n", r"f\.txt:2: unknown part 'gpu-9999'"),
        ("f.txt", b"leaf=99\n", r"f\.txt:1: 'leaf=99': the fabric has 32 of kind leaf"),
        ("f.txt", b"leaf=31\nleaf=2\n", r"f\.txt:2: 'leaf=2': only 1 of 32"),
        ("f.txt", b"", r"f\.txt:1: the file names no faults"),
        ("f.txt", b"# nothing\n", r"f\.txt:1: the file names no faults"),
        ("f.txt", b"gpu-1\n\xff\xfe\n", r"f\.txt:2: not UTF-8 text"),
        ("f.txt", b"gpu-1\n\x00\x00\n", r"f\.txt:2: .* cannot be a fault"),
        ("f.txt", b"a" * 5000, r"f\.txt:1: 'a+' cannot be a fault: .* at most 400 characters"),
        ("f.txt", b"@f.txt\n", r"f\.txt:1: a file of faults names no other file"),
        ("f.csv", b"what\ngpu-1\n", r"f\.csv:1: the header is kind,what, got 'what'"),
        ("f.csv", b"kind,what\ngpu-1\n", r"f\.csv:2: expected 2 fields, got 1"),
        ("f.csv", b'kind,what\n,"gpu-1\n', r"f\.csv:\d: not CSV"),
        ("f.csv", b"", r"f\.csv:1: "),
    ],
)
def test_wrong_files_name_file_and_line(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(NetplanError, match=message) as caught:
        parse_faults([f"@{path}"], RAILS)
    assert "\n" not in str(caught.value)


def test_long_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "faults.txt"
    path.write_text("gpu-1\n" * 20)
    monkeypatch.setattr(scenario, "MAX_LINES", 10)
    with pytest.raises(CatalogError, match=r"faults\.txt:11: more than 10 lines"):
        parse_faults([f"@{path}"], RAILS)


def test_racks_and_feeds_where_they_are_given() -> None:
    groups = hall_risk_groups(RAILS, racks_by_count(RAILS, gpus_per_rack=32, switches_per_rack=16))
    damage = parse_faults(["rack-0", "feed=1"], RAILS, groups=groups)
    assert damage.node_down[:36].sum() >= 32
    with pytest.raises(UnknownNameError, match="did you mean rack-"):
        parse_faults(["rack-99"], RAILS, groups=groups)
