"""Questions are composed of a scenario and few inputs of their own; no chain of classes."""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
from msgspec import structs

import netplan
from docs.generators.rooms import MODULES
from netplan.levels import Level
from netplan.performance import search
from netplan.performance.plan import SearchResult
from netplan.performance.setting import TrainedModel as TrainingRun
from netplan.questions.cost import cost
from netplan.records import replace
from netplan.scenarios.parts import Books, Cluster, Serving, Training
from netplan.scenarios.scenario import SCENARIOS, WORKLOADS, Scenario, all_places
from netplan.setup.own_inputs import own_options
from netplan.setup.question import Question

MOST_INPUTS, MOST_ANCESTORS = 16, 3  # simulate has sharing and jitter beside its routing


def questions() -> list[type[Question[Any]]]:
    """Every class of a question in the package."""
    for name in MODULES:
        if name.split(".")[1:2] in (["questions"], ["procurement"], ["studies"], ["published"]):
            import_module(name)
    import_module("netplan.cli.doctor")
    return [kind for kind in _below(Question) if kind.__module__.startswith("netplan.")]


def _below(kind: type[Question[Any]]) -> Iterator[type[Question[Any]]]:
    for below in kind.__subclasses__():
        yield below
        yield from _below(below)


def test_questions_have_few_inputs_of_their_own_and_few_ancestors() -> None:
    kinds = questions()
    assert len(kinds) > 20
    for kind in kinds:
        own = [name for name, option in own_options(kind) if option.role == "input"]
        assert len(own) <= MOST_INPUTS, f"{kind.__name__}: {len(own)} inputs of its own"
        ancestors = [base for base in kind.__mro__ if base.__module__.startswith("netplan.")]
        if "command" in vars(kind) and not kind.__name__.startswith("_"):
            assert len(ancestors) <= MOST_ANCESTORS, f"{kind.__name__}: {ancestors}"


def test_parts_are_no_larger_than_the_questions_were() -> None:
    for kind, most in ((Cluster, 26), (Training, 27), (Serving, 27), (Books, 12)):
        assert len(structs.fields(kind)) <= most


def test_every_input_that_a_question_reads_is_one_of_a_scenario() -> None:
    known = {name for workload in WORKLOADS for name in all_places(workload)}
    for kind in questions():
        assert kind.reads <= known, f"{kind.__name__}: {kind.reads - known}"
        assert {*kind.varies} <= kind.reads
        assert {*kind.older.values()} <= known


def test_the_default_scenario_is_what_the_parts_say_by_themselves() -> None:
    shipped = Scenario.load("hgx-b200")
    assert (shipped.cluster, shipped.workload, shipped.books) == (Cluster(), Training(), Books())


@pytest.mark.parametrize("name", SCENARIOS.paths())
def test_shipped_scenarios_answer(name: str) -> None:
    """Every one is priced as it stands."""
    scenario = Scenario.load(name)
    assert (scenario.name, bool(scenario.title), bool(scenario.source)) == (name, True, True)
    answer = cost(name, workload="training") if scenario.kind == "serving" else cost(name)
    assert answer.inputs["scenario"] == name
    assert answer.inputs["gpus"] == scenario.cluster.gpus


def test_fabrics_of_equal_levels_share_one_search_and_lines_by_domain_have_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searched: list[tuple[Level, ...]] = []

    search_largest = search.search_largest

    def counted(training: TrainingRun, levels: tuple[Level, ...], **how: Any) -> SearchResult:  # noqa: ANN401
        searched.append(levels)
        return search_largest(training, levels, **how)

    monkeypatch.setattr(search, "search_largest", counted)
    # 72 GPUs: of no other test, whose searches a process keeps.
    answer = netplan.compare("hgx-b200", gpus=72, model="gpt-22b", tokens=3e9)
    text = answer.text()
    assert "Rail-only by HB domain" in text
    networks = [row.fabric.levels for row in answer.rows if row.fabric]
    # Rail-only, rail-optimized, fat-tree, SuperPOD and dragonfly have two levels, tori their own.
    assert len(networks) == len(answer.rows) == 7
    # Who forwards between rails matters to experts alone: rail-only has the others' times.
    rails = [levels for levels in networks if any(level.same_rank for level in levels)]
    assert len(rails) == 1
    alike = {tuple(replace(level, same_rank=False) for level in levels) for levels in networks}
    assert sorted(searched, key=len) == sorted(alike, key=len)
    assert [len(levels) for levels in sorted(searched, key=len)] == [2, 3, 4]
