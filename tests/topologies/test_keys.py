"""Which keys of a fabric file each family reads: those, and no others, change what is built."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from netplan.catalog import Record
from netplan.errors import CatalogError, InputError, NetplanError
from netplan.questions.compare import compare
from netplan.questions.cost import cost
from netplan.questions.loads import loads
from netplan.records import RecordError, replace
from netplan.topologies.build import build_fabric
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.specs import FABRICS, FAMILIES, FabricSpec, family_named

HEAD = {"name": "mine", "title": "Mine", "source": "me", "date": "2026"}
KEYS = {one.name for name in FAMILIES for one in structs.fields(family_named(name))} - {"stamp"}
TILE = {"cores": [4, 4], "link_bytes_per_s": 1e9}
NEEDED: dict[str, dict[str, Any]] = {
    "product": {"axes": [{"kind": "ring"}]},
    "tiles": {"hb_size": 1, "tile": TILE},
}
"""Keys without which a family is none."""

SHAPE = {"hosts_per_switch": 4, "switches_per_group": 8, "global_links_per_switch": 4}
OTHER: dict[str, Any] = {
    "hb_kind": "mesh",
    "hb_size": 4,
    "hb_planes": 2,
    "hb_leaf_gpus": 4,
    "hb_spines": 2,
    "hb_scheme": "hybrid-cube-mesh",
    "hb_link_bytes_per_s": 1e9,
    "link_bytes_per_s": 1e9,
    "accelerators": ["b200"],
    "in_sets": False,
    "network_kind": "roce",
    "notes": ["A note."],
    "domains": [{"size": 4}],
    "rail_wiring": False,
    "oversubscription": 3.0,
    "management_links": 4,
    "planes": 2,
    "trunk_width": 2,
    "even_pods": False,
    "even_trunks": True,
    "shared_rails": False,
    "dimensions": 2,
    "sizes": [8, 8],
    "copper_block": 2,
    "wraparound": False,
    "twist": True,
    "circuit_switch": "palomar",
    "board": [1, 2],
    "axes": [{"kind": "mesh"}],
    "tile": {**TILE, "cores": [2, 2]},
    "hosts_per_switch": 3,
    "switches_per_group": 6,
    "global_links_per_switch": 3,
    "spines_per_group": 4,
    "groups": 5,
    "links_per_pair": 2,
    "global_arrangement": "relative",
    "host_medium": "copper",
    "local_medium": "copper",
    "order": 5,
    "degree": 5,
    "switches": 72,
    "seed": 3,
    "strides": [1, 5],
}
"""A value of each key that is not the usual one."""

BESIDE: dict[str, dict[str, Any]] = {
    "hb_leaf_gpus": {"hb_spines": 2, "hb_leaf_gpus": 2},
    "hb_spines": {"hb_leaf_gpus": 4, "hb_spines": 3},
    "hb_scheme": {"hb_kind": "mesh", "hb_size": 8},
    "copper_block": {"hb_size": 1},
    "circuit_switch": {"hb_size": 1, "copper_block": 4},
}
"""What another value of a key stands beside, and what it is compared with."""

SIZES = ((128, 16), (64, 64), (512, 16), (640, 8), (152, 16))
"""GPUs and ports of a switch, tried in turn until the answer is another one [1]."""


def beside(family: str, key: str) -> dict[str, Any]:
    """What stands in the file beside a key."""
    shape = family == "dragonfly" and key in {*SHAPE, "groups", "links_per_pair"}
    many = {"groups": 5} if key == "links_per_pair" and family != "hyperx" else {}
    return {**NEEDED.get(family, {}), **(SHAPE if shape else {}), **many, **BESIDE.get(key, {})}


def answers(data: Mapping[str, Any]) -> Iterator[object]:
    """What a file makes in several sizes: counts, levels, notes, every link; or why it cannot."""
    spec = FABRICS.schema.read({**HEAD, **data})
    yield spec.by_name_only, spec.built_with("h200")
    for gpus, radix in SIZES:
        asked = Sizing(gpus, radix, 8, hb_bytes_per_s=450e9, network_bytes_per_s=50e9)
        try:
            fabric = build_fabric(spec, asked)
            graph = expand(spec, fabric.sizing)
        except InputError as error:
            yield str(error)
            continue
        ends = (graph.source, graph.target, graph.bytes_per_s, graph.length_class)
        counts = replace(fabric, notes=())  # what is said of a value is no use of it
        yield counts, spec.notes, tuple(one.tobytes() for one in ends), tuple(graph.group_names)


@pytest.fixture(scope="module")
def graph_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("graphs")
    made = {}
    for name, leaves in (("one", 1), ("two", 2)):
        rows = [f"gpu-{n},leaf-{one},400" for n in range(64) for one in range(leaves)]
        path = folder / f"{name}.csv"
        path.write_text("\n".join(["source,target,gbps", *rows]) + "\n", "utf-8")
        made[name] = str(path)
    return made


def files(family: str, graphs: Mapping[str, str]) -> dict[str, Any]:
    return {"family": family, **({"file": graphs["one"]} if family == "graph" else {})}


@pytest.mark.parametrize("family", FAMILIES)
def test_every_key_that_a_family_reads_changes_an_answer(
    family: str, graph_files: dict[str, str]
) -> None:
    # Keys of bills and verdicts, not of what is built.
    known = {*Record.__struct_fields__, "family", "hall", "support", "gives_up"}
    values = {**OTHER, "file": graph_files["two"]}
    assert KEYS - known == set(values)  # a new key is tried here, too
    silent = []
    for key, value in values.items():
        if (family, key) == ("rail-only", "circuit_switch"):
            continue  # on the bill alone: the links are the same
        if not family_named(family).reads(key) or NEEDED.get(family, {}).get(key) == 1:
            continue
        usual = {**files(family, graph_files), **beside(family, key)}
        if key in SHAPE and family == "dragonfly":
            usual |= SHAPE
        given = {**usual, key: value}
        pairs = zip(answers(usual), answers(given), strict=True)
        if all(one == other for one, other in pairs):
            silent.append(key)
    assert silent == []


@pytest.mark.parametrize("family", FAMILIES)
def test_every_other_key_is_refused_with_what_it_is_for(
    family: str, graph_files: dict[str, str]
) -> None:
    values = {**OTHER, "file": graph_files["two"]}
    usual = {**HEAD, **files(family, graph_files), **NEEDED.get(family, {})}
    for key, value in values.items():
        if family_named(family).reads(key):
            continue
        with pytest.raises(RecordError) as raised:
            FabricSpec.read({**usual, key: value})
        (fault,) = raised.value.faults
        assert fault.location == (key,)
        assert fault.text.startswith(f"{key} ")
        assert family in fault.text
        assert fault.text.endswith(": leave it out")


def test_values_are_those_that_a_family_reads_and_read_again() -> None:
    for name in FABRICS.paths():
        spec = FABRICS.load(name)
        plain = spec.to_dict()
        assert {key for key in KEYS if spec.reads(key)} == set(plain) - {"stamp"}
        # An empty list of support says that nobody supports it; a file without one says nothing.
        given = {key: one for key, one in plain.items() if one != () or key == "support"}
        again = FabricSpec.read(given)
        assert again == spec


def test_a_file_is_refused_at_the_line_of_the_key_even_at_its_usual_value(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    head = "name: mine\ntitle: Mine\nsource: me\ndate: '2026'\nfamily: torus\n"
    path.write_text(head + "hb_size: 1\neven_pods: true\nhost_medium: optical\n", "utf-8")
    with pytest.raises(CatalogError) as raised:
        FABRICS.load(str(path))
    assert str(raised.value).splitlines() == [
        f"{path}:7: even_pods needs family: clos or rail-only, got torus: leave it out",
        f"{path}:8: host_medium means nothing for family: torus: leave it out",
    ]


def test_a_replaced_value_that_means_nothing_is_refused() -> None:
    with pytest.raises(CatalogError, match=r"^--set fabric\.management_links=4: management_links"):
        loads(
            "rail-only-paper",
            gpus=64,
            radix=16,
            hb_size=8,
            fabric="torus-3d",
            overrides={"fabric.management_links": "4"},
        )


def test_a_value_for_some_of_several_fabrics_is_noted_on_the_others() -> None:
    asked: dict[str, Any] = {"gpus": 64, "radix": 16, "hb_size": 8}
    names = ("rail-optimized", "jellyfish")
    one = {"fabric.oversubscription": "3"}
    plain, thinned = (
        cost("rail-only-paper", **asked, fabrics=names, overrides=more) for more in (None, one)
    )
    notes = {row["fabric"]: row["notes"] for row in thinned.to_dict()["fabrics"]}
    said = "--set fabric.oversubscription=3 does not apply here: oversubscription needs family"
    assert [any(text.startswith(said) for text in notes[name]) for name in names] == [False, True]
    prices = [[row["cost"]["base"] for row in one.to_dict()["fabrics"]] for one in (plain, thinned)]
    assert prices[0][0] > prices[1][0]
    assert prices[0][1] == prices[1][1]


def test_a_value_for_none_of_several_fabrics_is_refused() -> None:
    with pytest.raises(NetplanError, match="strides needs family"):
        compare(
            "rail-only-paper",
            gpus=64,
            radix=16,
            hb_size=8,
            fabrics=("rail-only", "torus-3d"),
            overrides={"fabric.strides": "[1, 5]"},
        )


@pytest.mark.parametrize("given", ["[1, 3]", " [1,3] ", [1, 3], (1, 3)])
def test_lists_may_be_replaced(given: object) -> None:
    overrides: Any = {"fabric.strides": given}
    answer = cost(
        "rail-only-paper", gpus=64, radix=16, hb_size=8, fabrics=("circulant",), overrides=overrides
    )
    (row,) = answer.to_dict()["fabrics"]
    assert any("strides of 1, 3" in note for note in row["notes"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[1, 0]", r"^--set fabric\.strides=\[1, 0\]: strides\.1: got 0: input should be greater"),
        ("[1, 5", r"^--set fabric\.strides=\[1, 5: strides: got '\[1, 5': input should be a list$"),
        ("5", r"strides: got 5: input should be a list"),
        ("[&a 1, *a]", "input should be a list"),
        ("[" * 100_000, "input should be a list"),
    ],
)
def test_what_is_no_list_is_refused_where_it_was_given(text: str, said: str) -> None:
    with pytest.raises(CatalogError, match=said):
        cost(
            "rail-only-paper",
            gpus=64,
            radix=16,
            hb_size=8,
            fabrics=("circulant",),
            overrides={"fabric.strides": text},
        )
