"""Studies of somebody's own scenario: what they vary, what the scenario says, how that is told."""

from pathlib import Path
from typing import Any

import pytest

import netplan
from netplan.errors import CatalogError, InputError, NetplanError
from netplan.scenarios.scenario import Scenario
from netplan.studies.definition import STUDIES, StudyDefinition
from netplan.studies.sessions import own_store, read_study, run_study, study
from netplan.studies.study import Study, make_study, on_scenario

MINE = """\
title: Our hall
cluster: {gpus: 256, accelerator: h100-80gb, radix: 64}
workload: {model: llama-3-8b, batch: 1/gpu}
"""
POST_TRAINED = """\
name: own
cluster: {gpus: 64, accelerator: h100-80gb}
workload: {kind: post-training, model: llama-3.1-8b}
"""
SERVED = """\
cluster: {gpus: 64, accelerator: h200, radix: 64}
workload: {kind: serving, model: llama-3.1-70b, precision: fp8, prompt: 512, output: 128}
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A small scenario of one's own."""
    path = tmp_path / "my-cluster.yaml"
    path.write_text(MINE, encoding="utf-8")
    return path


def test_hb_size_of_one_s_own_cluster_is_what_search_says(mine: Path) -> None:
    answer = study("hb-size-paper", scenario=mine)
    assert [row["hb_size"] for row in answer.rows] == [2**power for power in range(9)]
    for row in answer.rows:
        assert (row["model"], row["gpus"], row["batch"]) == ("llama-3-8b", 256, "1/gpu")
        best = netplan.search(mine, hb_size=row["hb_size"]).found.plans[0]
        assert row["iteration_time_s"] == best.iteration_time_s
        assert row["mfu"] == best.mfu


def test_the_answer_says_which_scenario_was_studied(mine: Path) -> None:
    answer = study("hb-size-paper", scenario=mine)
    text = " ".join(answer.text(100, details=True).split())
    said = "Each of 9 points: search with accelerator h100-80gb; all else as in my-cluster."
    assert said in text
    assert "On my-cluster: Less than 5 % of iteration time" in text
    assert "Studied on my-cluster: Our hall. Of the study gave way: its values of model" in text
    assert "accelerator.hb_bytes_per_s = 9e+11" in text
    assert "The last point of each curve" not in text  # speaks of the study's own GPUs
    assert "Made by netplan study run hb-size-paper on my-cluster" in text
    assert answer.to_dict()["scenario"] == "my-cluster"
    assert answer.published == ()
    plain = Study.load("hb-size-paper")
    assert (plain.base.name, plain.spec.studied) == ("rail-only-paper", None)


def test_a_scenario_may_be_given_as_it_is(mine: Path) -> None:
    scenario = Scenario.load(mine)
    few: dict[str, Any] = {"hb_size": [8, 16]}
    given = study("hb-size-paper", scenario.replace(gpus=512), vary=few)
    assert {row["gpus"] for row in given.rows} == {512}
    named = study("hb-size-paper", mine, vary={**few, "cluster.gpus": 512})
    assert [row["mfu"] for row in named.rows] == [row["mfu"] for row in given.rows]
    assert study("hb-size-paper", "hgx-h100", vary=few).rows[0]["gpus"] == 16_384


def test_its_store_is_not_that_of_the_plain_run(
    mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    few = {"hb_size": [8, 16]}
    own, plain = Study.load("hb-size-paper", mine, vary=few), Study.load("hb-size-paper", vary=few)
    run_study(own, own_store(own))
    assert own_store(own) == Path("hb-size-paper.study")
    assert own_store(plain) != Path("hb-size-paper.study")
    run_study(plain, own_store(plain))
    assert len(list(tmp_path.glob("*.study"))) == 2
    with pytest.raises(InputError, match="made for another study"):
        run_study(plain, own_store(own))
    mine.unlink()  # the store keeps what was studied
    assert read_study(Path("hb-size-paper.study")).study.base == own.base
    mine.write_text(MINE.replace("256", "512"), encoding="utf-8")
    other = Study.load("hb-size-paper", mine, vary=few)
    assert own_store(other) not in (Path("hb-size-paper.study"), own_store(plain))


@pytest.mark.parametrize("name", STUDIES.paths())
def test_every_shipped_study_can_be_of_one_s_own(name: str, tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    serves = STUDIES.load(name).ask == "serving"
    text = POST_TRAINED if name == "post-training-sync" else MINE
    path.write_text(SERVED if serves else text, encoding="utf-8")
    made = Study.load(name, scenario=path)
    assert made.base.name == "own"
    kept = {*STUDIES.load(name).axis_names} & {*made.spec.axis_names}
    assert any(len(axis.rows) > 1 for axis in made.spec.axes), kept
    said = {"gpus", "model", "accelerator"}.difference(STUDIES.load(name).about)
    for axis in made.spec.axes:
        if len(axis.names) == 1 and axis.names[0] in said:
            assert axis.rows == ((made.base.value(axis.names[0]),),)
    for input_ in said & {*made.spec.inputs}:
        assert made.spec.inputs[input_] == made.base.value(input_)
    made.check_outputs()


def test_a_scenario_of_the_other_kind_is_refused(mine: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="my-cluster trains, and study serving is about serving"):
        Study.load("serving", scenario=mine)
    served = tmp_path / "served.yaml"
    served.write_text(SERVED, encoding="utf-8")
    for name in ("hb-size-paper", "placement", "clusters"):
        with pytest.raises(InputError, match=f"served serves, and study {name} is about training"):
            Study.load(name, scenario=served)
    assert Study.load("price-flip", scenario=served).base.kind == "serving"
    with pytest.raises(NetplanError, match=r"no scenario file nowhere\.yaml"):
        Study.load("hb-size-paper", scenario="nowhere.yaml")


def test_axes_and_inputs_that_a_study_is_about_stay() -> None:
    shipped = STUDIES.load("compute-scaling")
    own = on_scenario(shipped, "hgx-b200")
    assert own.inputs == {
        "gpus": 32_768,
        "model": "llama-3-405b",
        "accelerator": "b200-1000w",
        "accelerator.expanded_bytes": 480e9,
    }
    assert own.axes == shipped.axes
    plain = on_scenario(shipped.changed(about=()), "hgx-b200")
    assert [axis.title for axis in plain.axes] == [axis.title for axis in shipped.axes]
    zipped = on_scenario(STUDIES.load("contention"), "hgx-b200")
    assert [(axis.title, axis.rows) for axis in zipped.axes[:2]] == [
        ("model", (("llama-3-405b",),)),
        ("batch", (("0.25/gpu",),)),
    ]
    assert len(zipped.axes) == 8  # each input of the zip, then fabric, routing, seed


def test_what_formulas_count_with_comes_from_the_scenario() -> None:
    own = on_scenario(STUDIES.load("hb-gear-price"), "hgx-b200")
    assert own.inputs["gpus"] == 32_768
    assert own.inputs["networks"] == "hb-gear"  # the study is about it
    assert "oversubscription" not in own.inputs
    made = make_study(on_scenario(STUDIES.load("mp-vs-dp"), "hgx-b200"))
    assert made.spec.inputs["accelerator.memory_bytes"] == 180e9


def test_a_study_is_about_inputs_that_it_has() -> None:
    with pytest.raises(ValueError, match="about: radix is no input of the study"):
        STUDIES.load("hb-size-paper").changed(about=("radix",))


HEAD: dict[str, Any] = {"name": "mine", "title": "Mine", "source": "me", "date": "2026"}


def test_both_spellings_of_an_input_are_one() -> None:
    axes = [{"input": "cluster.radix", "values": [64, 128]}]
    outputs = ["switches", {"name": "gpus_a_port", "formula": "cluster.gpus / cluster.radix"}]
    rest = {"ask": "compare", "inputs": {"timing": False, "books.prices": "rail-only-2023"}}
    charts = [{"kind": "lines", "title": "t", "x": "cluster.radix", "y": "switches"}]
    spelled = StudyDefinition.read(
        {**HEAD, **rest, "axes": axes, "outputs": outputs, "charts": charts}
    )
    assert spelled.axis_names == ("radix",)
    assert spelled.inputs == {"timing": False, "prices": "rail-only-2023"}
    assert spelled.charts[0].x == "radix"
    made = make_study(spelled, {"cluster.gpus": [1024, "2Ki"]})
    again = make_study(spelled, {"gpus": [1024, 2048]})
    assert made.definition == again.definition
    assert made.evaluate(made.points([3])[0])["gpus_a_port"] == 2048 / 128
    with pytest.raises(InputError, match=r"cluster\.gpus and gpus are one input"):
        make_study(spelled, {"gpus": 64, "cluster.gpus": 128})


def test_vary_takes_both_spellings() -> None:
    few: dict[str, Any] = {"gpus": [1024, 2048], "fabric": "rail-only"}
    plain = study("radix-and-size", vary={**few, "radix": [64, 128]})
    spelled = study("radix-and-size", vary={**few, "cluster.radix": [64, 128]})
    assert plain.rows == spelled.rows
    assert plain.study.input_sha256 == spelled.study.input_sha256


def test_any_field_of_the_scenario_may_vary() -> None:
    """Each spelt with its part: a choice, a flag, a book, a term of it, a part of the workload."""
    inputs = {"gpus": 512, "model": "llama-3-8b", "batch": 512}
    for name, values in {
        "cluster.nic_gbps": [400, 800],
        "workload.precision": ["bf16", "fp8"],
        "workload.memory.ignore_memory": [False, True],
        "workload.recompute": ["none", "full"],
        "workload.batch": ["0.5/gpu", "1/gpu"],
    }.items():
        given = {key: value for key, value in inputs.items() if not name.endswith(f".{key}")}
        data = {"ask": "search", "inputs": given, "outputs": ["iteration_time_s"]}
        axes = [{"input": name, "values": values}]
        made = make_study(StudyDefinition.read({**HEAD, **data, "axes": axes}))
        plain = name.rpartition(".")[2]
        for point in made.points([0, 1]):
            alone = netplan.search(**{**given, plain: point.inputs[plain]}).found.plans[0]
            assert made.evaluate(point)["iteration_time_s"] == alone.iteration_time_s


def test_books_and_terms_may_vary() -> None:
    axes = [
        {"input": "books.prices", "values": ["2026", "rail-only-2023"]},
        {"input": "books.terms.tariff", "values": [0.05, 0.2]},
    ]
    data = {"ask": "cost", "scenario": "hgx-h100", "outputs": ["cost_per_year.base"]}
    made = make_study(StudyDefinition.read({**HEAD, **data, "axes": axes}))
    assert made.spec.axis_names == ("prices", "tariff")
    for point in made.points(range(4)):
        (bill,) = netplan.cost("hgx-h100", fabrics="rail-optimized", **point.inputs).bills
        assert made.evaluate(point)["cost_per_year.base"] == bill.life.per_year.base


def test_a_study_of_another_scenario_names_it(tmp_path: Path) -> None:
    spec = STUDIES.load("batch-size").changed(scenario="nowhere")
    with pytest.raises(CatalogError, match="unknown scenario 'nowhere'"):
        make_study(spec)
    path = tmp_path / "small.yaml"
    path.write_text(MINE, encoding="utf-8")
    data = {"ask": "search", "scenario": str(path), "outputs": ["mfu"]}
    axes = [{"input": "hb_size", "values": [4, 8]}]
    made = make_study(StudyDefinition.read({**HEAD, **data, "axes": axes}))
    assert (made.base.name, made.spec.studied) == ("small", None)
    found = made.evaluate(made.points([1])[0])["mfu"]
    assert found == netplan.search(path, hb_size=8).found.plans[0].mfu
    before = made.input_sha256
    path.write_text(MINE.replace("256", "512"), encoding="utf-8")
    assert make_study(made.spec).input_sha256 != before
