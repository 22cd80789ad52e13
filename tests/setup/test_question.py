"""Question classes: each input once, from the defaults file to the option and the documentation."""

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

import netplan
from netplan.cli.commands import command_of
from netplan.cli.main import COMMANDS
from netplan.cli.main import netplan as netplan_cli
from netplan.cli.questions import QUESTION_COMMANDS
from netplan.errors import CatalogError, InputError, NetplanError, UnknownNameError
from netplan.inputs.option import read_option
from netplan.questions.cables import Cables
from netplan.questions.collective import Collective
from netplan.questions.compare import Compare, compare
from netplan.questions.export import Export
from netplan.questions.search import Search
from netplan.scenarios.scenario import all_places
from netplan.setup.asking import question_class
from netplan.setup.inputs import replaced_lines
from netplan.setup.own_inputs import SCENARIO, own_options
from netplan.setup.question import Question

command = command_of(Compare)


def test_spray_is_ecmp_in_every_command_that_routes() -> None:
    """One value with two names, read in one place."""
    routed = set()
    for name in QUESTION_COMMANDS:
        asked = question_class(name)
        options = {field.name: option for field, option in own_options(asked)}
        options |= {short: known.option for short, known in asked.shorthands.items()}
        if "routing" in options:
            routed.add(name)
            read = read_option("routing", options["routing"], "spray")
            assert read in ("ecmp", ("ecmp",)), name
            assert "packet spraying" in options["routing"].help, name
    assert routed == {"congestion", "jobs", "loads", "simulate"}
    small = {"gpus": 16, "radix": 8, "hb_size": 4, "model": "gpt-22b", "batch": 16}
    spray, ecmp = (
        netplan.loads("hgx-h100", **small, fabric="fat-tree", routing=word).to_dict()
        for word in ("spray", "ecmp")
    )
    assert spray == ecmp
    assert spray["inputs"]["routing"] == "ecmp"


OF_THE_COMMAND_LINE = {"format_", "output_file", "details", "help_all", "scenario_option"}


def test_options_keywords_and_documentation_are_the_inputs() -> None:
    names = {known.name for known in Compare.inputs_known()}
    assert {"gpus", "model", "prompt", "prices", "within", SCENARIO, "catalog"} < names
    options = {option.name for option in command.params} - OF_THE_COMMAND_LINE
    assert options == names == set(inspect.signature(compare).parameters)
    text = compare.__doc__ or ""
    assert all(f"\n{name}\n    " in text for name in names)


def test_required_inputs_are_required_everywhere() -> None:
    assert not [known.name for known in Compare.inputs_known() if known.needed]
    for kind, needed in ((Export, "to"), (Collective, "kind")):
        assert [known.name for known in kind.inputs_known() if known.needed] == [needed]
        assert [one.name for one in command_of(kind).params if one.required] == [needed]
        with pytest.raises(InputError, match=f"netplan {kind.command} needs --{needed}: give it"):
            kind.make("rail-only-paper")
    with pytest.raises(InputError, match="netplan audit needs file: give it"):
        netplan.audit()


def test_wrong_names_are_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="input of compare 'gpu': did you mean gpus"):
        compare(gpu=64)
    with pytest.raises(UnknownNameError, match="input of audit 'scenario': known: file, radix"):
        netplan.audit("x.csv", scenario="hgx-b200")
    with pytest.raises(InputError, match="netplan compare takes scenario alone by its place"):
        compare("rail-only-paper", "hgx-b200")
    with pytest.raises(CatalogError, match="Table 2: cannot be read"):
        netplan.verify("Table 2")  # by its place stands a paper's file
    with pytest.raises(InputError, match="scenario is given by its place and by its name"):
        compare("rail-only-paper", scenario="hgx-b200")
    with pytest.raises(InputError, match=r"cluster\.gpus and gpus are one input: give it once"):
        compare(**{"cluster.gpus": 64, "gpus": 128})


def test_an_input_is_called_by_its_name_an_older_one_or_with_its_part() -> None:
    for name in ("fabrics", "fabric", "cluster.fabrics", "cluster.fabric"):
        assert Compare.make(**{name: "rail-only"}).cluster.fabrics == ("rail-only",)
    with pytest.raises(InputError, match="--prompt 3 means nothing for training"):
        Compare.make(**{"workload.prompt": 3})
    served = Compare.make(**{"workload.prompt": 3, "workload": "serving"})
    assert served.serving.prompt == 3
    assert Compare.make(expanded_memories=("none",)).cluster.expanded_memory == "none"


def test_a_switch_model_has_its_own_ports() -> None:
    assert Compare.make(gpus=64).cluster.radix == 128
    assert Compare.make(gpus=64, switch="qm9700").cluster.radix == 64


def test_inputs_show_what_was_filled_in() -> None:
    inputs = netplan.compare(
        "rail-only-paper", gpus=512, radix=32, fabrics=("rail-only",), model="gpt-22b"
    ).inputs
    assert inputs["prices"] == "rail-only-2023"
    assert inputs["hb_size"] == 256
    assert inputs["fabrics"] == ["rail-only"]
    assert inputs["set"] == {}
    assert "catalog" not in inputs


def test_every_command_is_click(capsys: pytest.CaptureFixture[str]) -> None:
    assert isinstance(command, click.Command)
    with pytest.raises(SystemExit):
        command.main(["--help"], prog_name="netplan compare")
    text = capsys.readouterr().out
    assert "netplan compare --gpus 32768 --radix 128" in text
    assert "GPUs in the cluster. [32768]" in text


def all_questions(kind: type[Question[Any]] = Question) -> Iterator[type[Question[Any]]]:
    """Every class of questions that is loaded."""
    for one in kind.__subclasses__():
        yield one
        yield from all_questions(one)


def test_files_may_be_named_by_text_and_their_types_say_so() -> None:
    for name in COMMANDS:
        netplan_cli.get_command(click.Context(netplan_cli), name)
    files = {
        f"{kind.__name__}.{one.name}": one.type
        for kind in all_questions()
        for one, option in own_options(kind)
        if option.kind == "path"
    }
    assert {"Cables.compare", "Loads.matrix", "Simulate.jobs"} <= set(files)
    assert not {name: of for name, of in files.items() if "str | pathlib" not in str(of)}


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"oversubscription": "2:1"}, {"oversubscription": 2.0}),
        ({"gpus": "1,024", "hb_size": 8.0}, {"gpus": 1024, "hb_size": 8}),
        ({"radix": np.int64(64)}, {"radix": 64}),
        ({"within": "7%", "gpu_hour": "2.5"}, {"within": 0.07, "gpu_hour": 2.5}),
        ({"fabrics": "fat-tree, rail-only"}, {"fabrics": ("fat-tree", "rail-only")}),
        ({"overrides": ["a.b_s=1"]}, {"overrides": {"a.b_s": "1"}}),
        (
            {"overrides": {"a.b_s": 1.5, "a.on": True}},
            {"overrides": {"a.b_s": "1.5", "a.on": "true"}},
        ),
        ({"ports": None}, {"ports": "shared"}),
        ({"accelerator": Path("mine.yaml")}, {"accelerator": "mine.yaml"}),
        ({"fabrics": np.array(["rail-only", "fat-tree"])}, {"fabrics": ("rail-only", "fat-tree")}),
    ],
)
def test_python_reads_what_the_command_line_reads(
    given: dict[str, Any], meant: dict[str, Any]
) -> None:
    question = Compare.make("rail-only-paper", **({"gpus": 64, "radix": 32} | given))
    known = all_places()
    values = {
        name: question.scenario.value(name) if name in known else getattr(question, name)
        for name in meant
    }
    assert values == meant
    assert set(map(type, values.values())) == set(map(type, meant.values()))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"oversubscription": "2/1"}, "oversubscription: '2/1' is not a ratio: write 3 or 3:1"),
        ({"gpus": 64.5}, "gpus: 64.5 is not a whole number"),
        ({"gpus": [64]}, r"gpus: \[64\] is no number"),
        ({"within": "7"}, "within: '7' is not a percentage: write 7%$"),
        ({"within": "0.02"}, "'0.02' is not a percentage: write 2%, or 0.02% for 0.0002 of all"),
        ({"timing": "no"}, "timing: 'no' is neither True nor False"),
        ({"prices": 2026}, "prices: 2026 is no text: write '2026'"),
        ({"ports": "six"}, "unknown --ports 'six': use shared, full"),
        ({"overrides": ["a"]}, "--set 'a': write ROLE.KEY=VALUE"),
        ({"overrides": 5}, "--set 5 is no text: give texts, or a mapping"),
        ({"overrides": [None]}, "--set None is no text: give texts, or a mapping"),
        ({"catalog": 5}, "--catalog: 5 is no folder"),
        ({"floor_plan": ["hall"]}, r"hall: \['hall'\] is no text"),
    ],
)
def test_python_refuses_what_the_command_line_refuses(given: dict[str, Any], message: str) -> None:
    with pytest.raises(NetplanError, match=message):
        Compare.make("rail-only-paper", **({"gpus": 64, "radix": 32} | given))


def test_python_refuses_pairs_that_are_none() -> None:
    for fixed, message in (
        (5, "--fix 5 is no text"),
        ({"tensor": "x"}, "'x' is not a whole number"),
        ({"tensor": None}, "'None' is not a whole number"),
    ):
        with pytest.raises(InputError, match=message):
            Search.make("rail-only-paper", gpus=64, fixed=fixed)
    with pytest.raises(InputError, match="compare: give 2, got 1"):
        Cables.make("rail-only-paper", compare="plan.csv")


def test_headings_say_replaced_values_with_their_units() -> None:
    replaced = {"accelerator.memory_bytes": "80.5e9", "prices.prices.transceiver@400.base": "500"}
    inputs = {"set": {key: float(value) for key, value in replaced.items()}}
    assert replaced_lines(inputs, "EUR") == (
        "with accelerator.memory_bytes = 80.5 GB",
        "with prices.prices.transceiver@400.base = 500.0 EUR",
    )


@pytest.mark.parametrize(
    "given",
    [{"batch": True}, {"oversubscription": np.inf}, {"within": np.nan}, {"gpu_hour": np.inf}],
)
def test_values_that_are_no_finite_numbers_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"no number|no finite number|give a price"):
        netplan.compare("rail-only-paper", gpus=64, model="gpt-22b", **given)


@pytest.mark.parametrize(
    "given", [{"pue": np.nan}, {"imbalance": np.inf}, {"gpu_hour": -1.0}, {"b": {"tariff": np.nan}}]
)
def test_numbers_that_nothing_counts_with_are_finite_too(given: dict[str, Any]) -> None:
    asked = {"gpus": 16, "timing": False, "b": {"oversubscription": 2.0}} | given
    with pytest.raises(InputError, match=r"give a (finite number|price of at least 0)"):
        netplan.diff("hgx-h100", **asked)


@pytest.mark.parametrize("given", [{"within": 5.0}, {"gpu_hour": np.inf}])
def test_optimize_refuses_weights_that_are_none(given: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"give 0% up to below 100%|give a price"):
        netplan.optimize("rail-only-paper", gpus=64, model="gpt-22b", **given, radices=(64, 128))


def test_a_wrong_value_in_a_row_names_the_option_not_the_file() -> None:
    key = "prices.prices.switch_port@400.base"
    with pytest.raises(CatalogError) as caught:
        netplan.compare("rail-only-paper", gpus=64, model="gpt-22b", overrides={key: "-1"})
    assert str(caught.value).startswith(f"--set {key}=-1: prices.0.base: got -1")


@pytest.mark.parametrize(
    ("ask", "name"), [(netplan.search, "serving-r1-h200"), (netplan.serving, "hgx-b200")]
)
def test_a_scenario_of_the_other_workload_is_not_answered_with_a_default_one(
    ask: Callable[..., Any], name: str
) -> None:
    with pytest.raises(InputError, match=f"{name} (serves|trains) .*: give --model"):
        ask(name)
