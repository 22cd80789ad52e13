"""The few names that a notebook needs: nouns and questions, and what their answers offer."""

import doctest
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from numpydoc.docscrape import NumpyDocString  # type: ignore[import-untyped]

import netplan
from netplan.errors import InputError, NetplanError, UnknownNameError

ROOT = Path(__file__).parents[1]
NOUNS = (
    *("Scenario", "Cluster", "Training", "Serving", "Books"),
    *("Fabric", "FabricGraph", "Plan", "Bill", "Study"),
)
QUESTIONS: dict[str, dict[str, Any]] = {
    "compare": {
        "scenario": "rail-only-paper",
        "gpus": 512,
        "radix": 32,
        "fabrics": ("rail-only",),
        "model": "gpt-22b",
    },
    "optimize": {
        "scenario": "rail-only-paper",
        "radices": (64, 128),
        "gpus": 512,
        "fabrics": ("rail-only",),
        "model": "gpt-22b",
    },
    "search": {
        "scenario": "rail-only-paper",
        "gpus": 512,
        "accelerator": "b200",
        "model": "gpt-22b",
        "batch": 512,
    },
    "training_traffic": {
        "scenario": "rail-only-paper",
        "gpus": 512,
        "hb_size": 8,
        "model": "gpt-22b",
        "batch": 512,
    },
    "collective": {
        "scenario": "hgx-h100",
        "kind": "all_gather",
        "gpus": 64,
        "message_bytes": 2**20,
    },
    "congestion": {
        "scenario": "hgx-h100",
        "gpus": 128,
        "fabric": "fat-tree",
        "traffic": "ring",
        "routing": ("static", "spray"),
    },
    "sites": {
        "scenario": "hgx-h100",
        "gpus": 128,
        "model": "llama-3-8b",
        "km": (10.0, 100.0),
        "ratio": (4.5,),
    },
    "jobs": {"scenario": "hgx-h100", "gpus": 128, "count": 60, "draws": 1},
    "loads": {
        "scenario": "rail-only-paper",
        "gpus": 512,
        "hb_size": 8,
        "model": "gpt-22b",
        "batch": 512,
    },
    "simulate": {
        "scenario": "rail-only-paper",
        "gpus": 64,
        "hb_size": 8,
        "model": "gpt-22b",
        "batch": 64,
    },
    "cost": {"scenario": "rail-only-paper", "gpus": 512, "radix": 32, "fabrics": ("rail-only",)},
    "offers": {"scenario": "rail-only-paper", "gpus": 512, "radix": 32, "fabrics": ("rail-only",)},
    "grow": {"scenario": "rail-only-paper", "phases": (128, 512), "radix": 32},
    "cables": {
        "scenario": "rail-only-paper",
        "fabric": "rail-only",
        "gpus": 64,
        "radix": 16,
        "hb_size": 8,
    },
    "export": {
        "scenario": "rail-only-paper",
        "fabric": "rail-only",
        "to": "dot",
        "gpus": 64,
        "radix": 8,
        "hb_size": 8,
    },
    "calibrate": {"accelerator": "h100-80gb", "gemm": "examples/own-cluster/gemm.csv"},
    "verify": {"only": "Table 2"},
}


def test_public_names_are_nouns_and_questions() -> None:
    assert [name for name in dir(netplan) if name[0].isupper()] == sorted(NOUNS)
    for name in set(netplan.__all__) - {"__version__"}:
        value = getattr(netplan, name)
        assert inspect.isclass(value) == (name in NOUNS), name
        assert callable(value), name
        assert not isinstance(value, ModuleType), name


def test_importing_the_package_loads_no_room() -> None:
    code = "import sys, netplan; dir(netplan); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    ours = {name for name in loaded if name.startswith("netplan.")}
    assert ours == {"netplan.version"}
    assert not {"numpy", "msgspec", "pandas", "click"}.intersection(loaded)


def documented(noun: type) -> Iterator[tuple[str, Any]]:
    """Public methods of a noun, its own and those of the parts that it is made of."""
    for name, _ in inspect.getmembers(noun):
        home = next((kind for kind in noun.__mro__ if name in vars(kind)), object)
        value = inspect.getattr_static(noun, name)
        method = inspect.isfunction(value) or isinstance(value, classmethod)
        if not name.startswith("_") and method and home is noun:
            yield name, getattr(noun, name)


@pytest.mark.parametrize("name", NOUNS)
def test_every_noun_says_what_it_takes_and_gives(name: str) -> None:
    noun = getattr(netplan, name)
    doc = NumpyDocString(inspect.getdoc(noun))
    said = [part for row in doc["Parameters"] if any(row.desc) for part in row.name.split(", ")]
    assert sorted(said) == sorted(noun.__struct_fields__)
    for method_name, method in documented(noun):
        inside = NumpyDocString(inspect.getdoc(method))
        signature = inspect.signature(method)
        taken = [given for given in signature.parameters if given != "self"]
        told = [part.lstrip("*") for row in inside["Parameters"] for part in row.name.split(", ")]
        assert sorted(told) == sorted(taken), f"{name}.{method_name}"
        gives = inside["Returns"] or inside["Yields"]
        assert bool(gives) == (signature.return_annotation is not None), f"{name}.{method_name}"


def test_the_guide_for_python_is_true() -> None:
    text = (ROOT / "docs/guide/python.md").read_text(encoding="utf-8")
    blocks = "\n".join(re.findall(r"^```pycon\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    shown = doctest.DocTestParser().get_doctest(blocks, {}, "python.md", None, 0)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(shown)
    assert runner.failures == 0
    assert runner.tries == text.count("\n>>> ") > 20


@pytest.mark.parametrize("name", sorted({*netplan.__all__} - {*NOUNS, "__version__"}))
def test_a_wrong_keyword_says_which_there_are(name: str) -> None:
    with pytest.raises(NetplanError) as wrong:
        getattr(netplan, name)(gpsu=3)
    assert "__init__" not in str(wrong.value)
    assert re.match(r"unknown input of [a-z ]+ 'gpsu': (did you mean|known:) ", str(wrong.value))


@pytest.mark.parametrize("name", ["Scenario", "Cluster", "Training", "Serving", "Books"])
def test_a_wrong_field_says_which_there_are(name: str) -> None:
    with pytest.raises(UnknownNameError, match=f"unknown input of {name} 'clusetr': "):
        getattr(netplan, name)(clusetr=3)
    with pytest.raises(InputError, match=f"{name} takes no value by its place: name it"):
        getattr(netplan, name)(3)


@pytest.mark.parametrize(
    ("noun", "given", "said"),
    [
        ("Cluster", {"gpus": "x"}, "gpus 'x': expected int"),
        ("Cluster", {"gpus": 0}, "gpus 0: expected int >= 1"),
        ("Training", {"batch": "x/gpu"}, "batch: 'x' is not a valid float"),
        ("Books", {"discount": 2}, "discount 2: expected float < 1.0"),
        ("Scenario", {"cluster": 3}, "cluster: give a Cluster, got 3"),
    ],
)
def test_values_of_nouns_are_checked(noun: str, given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        getattr(netplan, noun)(**given)


def test_a_question_takes_a_name_a_scenario_or_its_parts() -> None:
    scenario = netplan.Scenario.load("hgx-h100").replace(gpus=512)
    parts = {"cluster": {"gpus": 512, "accelerator": "h100-80gb"}}
    asked: tuple[Any, ...] = ("hgx-h100", scenario, parts)
    costs = [netplan.cost(given, gpus=512, radix=64).to_dict()["fabrics"] for given in asked]
    assert costs[0] == costs[1] == costs[2]
    files = netplan.offers(scenario, fabrics=("rail-only",))  # though files have the first place
    assert files.to_dict()["inputs"]["gpus"] == 512
    with pytest.raises(InputError, match="scenario alone by its place"):
        netplan.compare("hgx-b200", 8192)
    with pytest.raises(InputError, match="by its place and by its name"):
        netplan.compare("hgx-b200", scenario="hgx-h100")


def test_unknown_names_are_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'comparison'"):
        netplan.comparison  # noqa: B018


@pytest.mark.parametrize("name", list(QUESTIONS))
def test_answers_become_json_frames_and_html(name: str) -> None:
    answer = getattr(netplan, name)(**QUESTIONS[name])
    assert json.loads(json.dumps(answer.to_dict())) == answer.to_dict()
    assert len(answer.to_frame()) >= 1
    assert "<" in answer._repr_html_()


def test_links_of_an_exported_fabric_are_rows() -> None:
    asked: dict[str, Any] = {"gpus": 64, "radix": 16, "hb_size": 8, "fabric": "rail-optimized"}
    frame = netplan.export("rail-only-paper", to="dot", **asked).to_frame()
    # Each GPU has a link into its HB domain, one to a leaf, and as many lead from leaves up.
    assert frame.groupby("group").size().to_dict() == {"hb": 64, "host": 64, "leaf-spine": 64}
    lines = list(netplan.export("rail-only-paper", to="edges", **asked).lines())
    assert ",".join(frame.columns) + "\n" == lines[0]
    assert [",".join(map(str, row)) + "\n" for row in frame.values.tolist()] == lines[1:]
    assert netplan.export("rail-only-paper", to="astra-sim", **asked).to_frame().shape[1] == 1
