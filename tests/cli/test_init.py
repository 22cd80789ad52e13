"""``netplan init``: files that read back as what they were made from, and are not written over."""

import re
from pathlib import Path

import pytest
import yaml

from netplan.cli.main import GROUPS, run
from netplan.documents import read_yaml
from netplan.scenarios.scenario import PARTS, SCENARIOS, Scenario, all_places
from netplan.scenarios.template import WIDTH, commented, written
from tests.cli.command import netplan, refused

REMARK = re.compile(r"(?m)^( *)# ( *)(?=[a-z_]+: )")
"""Where a line begins that a field is set by, its sign taken away."""


def read(text: str, folder: Path) -> Scenario:
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return Scenario.load(str(path))


@pytest.mark.parametrize("name", [*SCENARIOS.paths()])
def test_every_shipped_scenario_reads_back_the_same(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.yaml"
    done = netplan("init", name, "-o", str(path))
    assert (done.returncode, done.stdout) == (0, "")
    assert Scenario.load(str(path)) == Scenario.load(name)
    assert done.stderr == f"wrote {path}\nnext: netplan compare {path}\n"
    # Under another name it is the same but for that.
    other = tmp_path / "cluster.yaml"
    assert netplan("init", name, "-o", str(other)).returncode == 0
    assert Scenario.load(str(other)) == Scenario.load(name).changed(name="cluster")
    checked = netplan("catalog", "check", str(path), str(other), "--role", "scenario")
    assert checked.stdout == "2 of 2 files are sound.\n"


@pytest.mark.parametrize("name", [*SCENARIOS.paths()])
def test_every_remark_may_be_set_as_it_stands(name: str, tmp_path: Path) -> None:
    text = commented(Scenario.load(name))
    bare = REMARK.sub(r"\1\2", text)
    assert bare != text
    scenario = read(bare, tmp_path)
    # What is left out is the default, which stands in the remark; but for the example of `set`.
    assert scenario.changed(set={}) == Scenario.load(name).changed(set={})


@pytest.mark.parametrize("kind", ["training", "serving", "post-training"])
def test_every_field_stands_with_its_meaning(kind: str) -> None:
    names = {"training": "hgx-b200", "serving": "serving-r1-h200"}
    scenario = Scenario.load(names.get(kind, "grpo-70b-h100"))
    text = commented(scenario)
    assert max(map(len, text.splitlines())) <= WIDTH
    lines = text.splitlines()
    for name, place in all_places(kind).items():
        found = [line for line in lines if re.match(rf"[ #]*{name}: ", line)]
        assert len(found) == 1, name
        number = lines.index(found[0])
        about = found[0] + " ".join(lines[max(0, number - 4) : number])
        assert place.option.help.split()[0] in about or name in ("fabric", "fabrics"), name
        assert found[0].lstrip().startswith("#") != (
            place.option.basic or scenario.value(name) != place.default
        ), name
    assert [line for line in lines if line.endswith(":")] == [f"{part}:" for part in PARTS]


def test_ranges_units_and_choices_are_told() -> None:
    text = commented(Scenario.load("hgx-b200"))
    assert "gpus: 32768 # GPUs in the cluster. [GPUs; from 1 to 4,194,304]" in text
    assert "[bf16, fp8, fp8-current, fp8-cs, fp8-delayed," in text
    # A file has shares and ratios as numbers.
    assert "discount: null # Off every price. [0.07 is 7 %; from 0; default: the book's]" in text
    assert "oversubscription: null # Down over up at Clos leaves. [3 is 3:1; from 1]" in text
    assert "# sequence_parallel: true # If false: " in text


def test_other_yaml_readers_read_the_same(tmp_path: Path) -> None:
    path = tmp_path / "hgx-b200.yaml"
    path.write_text(commented(Scenario.load("hgx-b200")), encoding="utf-8")
    assert yaml.safe_load(path.read_text("utf-8")) == read_yaml(path).data


@pytest.mark.parametrize(
    "value",
    [
        *("2026", "2026-11", "no", "on", "Null", "1e9", "0x10", "1_000", "3:1", "a: b", "a #b"),
        *(
            "",
            " a",
            "- a",
            "[a]",
            "{a}",
            "*a",
            "&a",
            "!a",
            "%a",
            "@a",
            "`a",
            '"',
            "'",
            "\\",
            "a\nb",
        ),
        *("\t", "é", "\u2028", "\x7f", "~", "y", "=", "<<", "?", "GPUs, 8", 3.5, 1e-7, 1e30, 7),
        *(None, True, False, ("a", "no", 3), {"tensor": 8, "on": "off"}, ()),
    ],
)
def test_any_value_reads_back(value: object, tmp_path: Path) -> None:
    path = tmp_path / "value.yaml"
    path.write_text(f"value: {written(value)}\n", encoding="utf-8")
    back = [*value] if isinstance(value, tuple) else value
    assert read_yaml(path).data["value"] == back
    assert yaml.safe_load(path.read_text("utf-8"))["value"] == back or isinstance(value, float)


def test_without_a_file_it_is_printed() -> None:
    done = netplan("init", "nvl72-gb200")
    assert done.stdout == commented(Scenario.load("nvl72-gb200"))
    next_line = "next: netplan init nvl72-gb200 -o cluster.yaml; netplan compare cluster.yaml\n"
    assert done.stderr == next_line
    assert netplan("init").stdout == commented(Scenario.load("hgx-b200"))
    assert netplan("init", "-o", "-").stdout == netplan("init").stdout


def test_a_file_that_is_there_stays(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("mine", encoding="utf-8")
    error = refused("init", "-o", str(path))
    assert error == f"netplan: {path} exists: give --force to replace it, or another name\n"
    assert path.read_text("utf-8") == "mine"
    assert netplan("init", "-o", str(path), "--force").returncode == 0
    assert Scenario.load(str(path)).cluster.gpus == 32_768


def test_values_may_be_set_at_once(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    words = ("gpus=8Ki", "cluster.radix=64", "books.terms.pue=1.2", "accelerator.memory_bytes=96e9")
    options = [word for value in words for word in ("--set", value)]
    assert netplan("init", "nvl72-gb200", *options, "-o", str(path)).returncode == 0
    scenario = Scenario.load(str(path))
    assert (scenario.cluster.gpus, scenario.cluster.radix) == (8192, 64)
    assert scenario.books.terms.pue == 1.2
    assert scenario.set == {"accelerator.memory_bytes": 96e9}
    assert "\n  terms: # " in path.read_text("utf-8")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("nvl72",),
            "unknown scenario 'nvl72': did you mean nvl72-gb200 or nvl72-gb300 or vr-nvl72?",
        ),
        (("-o", "mine.txt"), "-o mine.txt: a scenario's file ends with .yaml or .yml"),
        (("-o", "no/mine.yaml"), "no/mine.yaml: cannot be written"),
        (("-o", ""), "it is empty: give a path"),
        (("--set", "gpus"), "--set 'gpus': write NAME=VALUE"),
        (("--set", "gpsu=5"), "unknown input 'gpsu': did you mean gpus or graphs?"),
        (("--set", "gpus=0"), "gpus"),
        (("--set", "gpus=many"), "'many' is not a whole number"),
        (("--catalog", "no/such"), "--catalog: no such folder: no/such"),
    ],
)
def test_wrong_input_is_one_line_and_no_file(
    words: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    before = () if "-o" in words else ("-o", "mine.yaml")
    error = refused("init", *before, *words, cwd=tmp_path)
    assert message in error
    assert error.count("\n") == 1
    assert not [*tmp_path.iterdir()]


def test_a_scenario_of_one_s_own_catalog_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "topologies" / "scenarios"
    folder.mkdir(parents=True)
    (folder / "ours.yaml").write_text("name: ours\ncluster: {gpus: 64}\n", encoding="utf-8")
    assert "gpus: 64 " in netplan("init", "ours", "--catalog", str(tmp_path)).stdout


def test_help_names_the_first_five_first() -> None:
    shown = netplan("--help").stdout
    assert len(shown.splitlines()) <= 62
    assert len(GROUPS["Start here"]) == 5
    places_of = [shown.index(f"\n{title}:\n") for title in GROUPS]
    assert places_of == sorted(places_of)
    assert [*GROUPS][1:] == ["Plan", "Buy", "Understand", "Study", "Yours", "Tools"]
    # A line each.
    for name, said in (pair for group in GROUPS.values() for pair in group.items()):
        assert f"\n  {name:<10}  {said}\n" in shown
    assert len(netplan("init", "--help").stdout.splitlines()) <= 62
    assert len(netplan("diff", "--help").stdout.splitlines()) <= 62
    assert run(["--help"]) == 0
