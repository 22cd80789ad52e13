"""Defaults of questions' own inputs in one file, and a user's file before it."""

from pathlib import Path

import pytest
import yaml

import netplan
from docs.generators.commands import questions
from netplan.catalog import shipped_root
from netplan.errors import CatalogError, UnknownNameError
from netplan.questions.compare import Compare
from netplan.questions.search import Search
from netplan.setup.own_inputs import COMMON, DEFAULTS, own_options

SHIPPED = yaml.safe_load((shipped_root() / DEFAULTS).read_text(encoding="utf-8"))


def own_file(folder: Path, text: str) -> Path:
    """A catalog folder of a user's own, with such a defaults file."""
    (folder / "reports").mkdir()
    (folder / DEFAULTS).write_text(text, encoding="utf-8")
    return folder


def test_every_entry_is_read_and_every_question_has_a_part() -> None:
    shared = {
        one.command: {known.name for known, option in own_options(one) if option.shared}
        for one in questions().values()
    }
    with_scenario = {one.command for one in questions().values() if one.reads}
    assert with_scenario <= set(SHIPPED)
    common = SHIPPED[COMMON]
    assert set(common) <= set().union(*shared.values())
    alone = {command: values for command, values in SHIPPED.items() if command != COMMON}
    for command, values in alone.items():
        assert set(values) <= shared.get(command, set()), command
    for command, names in shared.items():
        assert names <= {*common, *alone.get(command, {})}, command


def test_a_users_file_sets_fields_of_the_scenario_and_own_inputs(tmp_path: Path) -> None:
    folder = own_file(
        tmp_path,
        "common: {prices: rail-only-2023, batch: 1024, fabrics: [rail-only, fat-tree]}\n"
        "compare: {rule: price, restart_minutes: 5}\nsearch: {top: 2}\n",
    )
    asked = Compare.make(catalog=folder)
    assert (asked.books.prices, asked.books.power) == ("rail-only-2023", "2026")
    assert (asked.scenario.batch, asked.cluster.fabrics) == (1024, ("rail-only", "fat-tree"))
    assert (asked.rule, asked.training.checkpoints.restart_minutes) == ("price", 5)
    assert Search.make(catalog=folder).top == 2
    assert Search.make(catalog=folder, top=3).top == 3
    assert Compare.make(catalog=folder, prices="2026").books.prices == "2026"
    assert (Compare.make().rule, Compare.make().books.prices) == ("near-fastest", "2026")


def test_a_users_file_names_the_scenario_of_every_command(tmp_path: Path) -> None:
    scenario = tmp_path / "cluster.yaml"
    scenario.write_text("cluster: {gpus: 64}\n", encoding="utf-8")
    folder = own_file(tmp_path, f"common: {{scenario: {scenario}}}\n")
    assert Compare.make(catalog=folder).cluster.gpus == 64
    assert Compare.make("hgx-h100", catalog=folder).cluster.gpus == 16384
    inputs = netplan.cost(fabrics=("rail-only",), catalog=folder).inputs
    assert (inputs["scenario"], inputs["gpus"]) == ("cluster", 64)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("common: {pricess: x}\n", "defaults.yaml:1: unknown input 'pricess': did you mean prices"),
        ("common: 3\n", "defaults.yaml:1: common: expected inputs and their values"),
        ("common: {prices: *a}\n", "defaults.yaml:1: "),
        ("common: {prices: 2026}\n", "defaults.yaml:1: prices 2026: write it in quotes: '2026'"),
        ("common: {prices: [x]}\n", "prices ['x']: give a text, such as '2026'"),
        ("common: {scenario: 5}\n", "defaults.yaml:1: scenario 5: write it in quotes: '5'"),
        ("common: {experts: x}\n", "defaults.yaml:1: experts: 'x' is not a whole number"),
        ("common: {within: x}\n", "defaults.yaml:1: within 'x': give a number, such as 0.05"),
        ("comon: {prices: x}\n", "defaults.yaml:1: unknown command 'comon': did you mean common?"),
    ],
)
def test_a_wrong_file_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises((CatalogError, UnknownNameError)) as found:
        Compare.make(catalog=own_file(tmp_path, text))
    assert said in str(found.value)
