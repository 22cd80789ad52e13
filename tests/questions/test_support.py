"""What is answered: the table says of every combination what its own command does."""

import random
from typing import Any

import pytest

import netplan
from netplan.errors import InfeasibleError, InputError, NetplanError
from netplan.questions.search import SearchAnswer
from netplan.questions.support import Cell, support
from netplan.workloads.models import WORKLOADS
from tests.cli.command import netplan as command
from tests.turns import one_in

EVERY = support(iteration_model="all").cells


def asked(cell: Cell) -> Any:  # noqa: ANN401 - answers of three questions
    """The answer of a combination, by its own command."""
    given: dict[str, Any] = {"model": cell.model, "accelerator": cell.accelerator, "gpus": 64}
    if cell.question == "serving":
        return netplan.serving("hgx-b200", **given, precision=cell.precision)
    precision = None if cell.precision == "bf16" else cell.precision
    given |= {"iteration_model": cell.iteration_model, "precision": precision}
    question = netplan.search if cell.question == "search" else netplan.simulate
    return question("hgx-b200", **given)


def check(cell: Cell) -> None:
    """Nothing is refused that is answered, or the other way round; bars are those of the table."""
    if cell.status == "refused":
        with pytest.raises(NetplanError) as refused:
            asked(cell)
        assert not isinstance(refused.value, InfeasibleError)
        assert str(refused.value) == cell.reason
        return
    try:
        answer = asked(cell)
    except InfeasibleError:  # that plans do not fit is no matter of the table
        return
    if cell.question == "serving":
        bases = {"fitted": {"measured", "extrapolated"}}.get(cell.status, {"transferred"})
        assert {plan.error_basis for plan in answer.plans} <= bases
    elif isinstance(answer, SearchAnswer):
        bar = answer.best.error
        assert (bar is None) == (cell.status == "assumed")
        if bar is not None and cell.status == "transferred":  # a plan may add reasons of its own
            assert bar.basis == "transferred"


@pytest.mark.parametrize("seed", one_in(8, list(range(40))))
def test_commands_do_what_the_table_says(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 - test cases, no secrets
    question = draw.choice(["search", "simulate", "serving"])
    refused = draw.random() < 0.5
    cells = [
        cell
        for cell in EVERY
        if cell.question == question and (cell.status == "refused") == refused
    ]
    for cell in draw.sample(cells, 3):
        check(cell)


def only(**given: str) -> Cell:
    (cell,) = (
        cell for cell in EVERY if all(getattr(cell, name) == value for name, value in given.items())
    )
    return cell


def test_every_combination_stands_there_once() -> None:
    keys = [
        (cell.question, cell.model, cell.accelerator, cell.precision, cell.iteration_model)
        for cell in EVERY
    ]
    assert len(set(keys)) == len(keys) > 90_000
    assert {cell.model for cell in EVERY} == {*WORKLOADS.paths()}
    unsaid = [cell for cell in EVERY if not cell.reason and cell.status != "fitted"]
    assert not unsaid
    assert not [cell for cell in EVERY if "\n" in cell.reason]


@pytest.mark.parametrize(
    ("model", "accelerator", "precision", "status"),
    [
        ("llama-3-70b", "h100-80gb", "bf16", "fitted"),
        ("llama-3-70b", "h100-80gb", "fp8", "fitted"),
        ("llama-3-70b", "h100-80gb", "nvfp4", "refused"),
        ("llama-3-70b", "tpu-v5e", "bf16", "transferred"),
        ("llama-3-70b", "trainium2", "bf16", "transferred"),
        ("llama-3-70b", "trainium2", "fp8", "refused"),
        ("llama-3-70b", "mi300x", "fp8", "refused"),
        ("llama-3-70b", "tpu-v5p", "bf16", "transferred"),  # one run, with products above the peak
        ("llama-3-70b", "h100-80gb", "mxfp8", "refused"),  # which Hopper does not multiply
        ("llama-3-70b", "gb300", "mxfp8", "fitted"),
        ("deepseek-v3", "h100-80gb", "fp8", "fitted"),
        ("deepseek-v3", "trainium2", "bf16", "refused"),
        ("gpt-oss-120b", "gb300", "bf16", "fitted"),
        ("nemotron-h-56b", "h100-80gb", "fp8", "fitted"),
        ("nemotron-3-super", "gb200", "nvfp4", "fitted"),
        ("qwen3-235b-a22b", "tpu-v7", "bf16", "fitted"),
        ("qwen3-235b-a22b", "mi355x", "bf16", "transferred"),
        ("llama-4-scout", "h100-80gb", "bf16", "transferred"),  # one expert a token
        ("vit-64k", "h100-80gb", "bf16", "refused"),
        ("dlrm-12t", "h100-80gb", "bf16", "refused"),
    ],
)
def test_plans_of_the_usual_iteration_model(
    model: str, accelerator: str, precision: str, status: str
) -> None:
    where = {"model": model, "accelerator": accelerator, "precision": precision}
    cell = only(question="search", iteration_model="calibrated", **where)
    assert cell.status == status
    said = (accelerator, model, "tried were", "software of a date")
    assert status == "fitted" or any(words in cell.reason for words in said)


def test_papers_are_assumed_and_servers_by_their_kernels() -> None:
    of_llama = {"model": "llama-3-70b", "accelerator": "h200"}
    bf16 = of_llama | {"precision": "bf16", "question": "search"}
    assert only(iteration_model="4d", **bf16).status == "assumed"
    served = {"question": "serving", "precision": "fp8"}
    assert only(**of_llama, **served).status == "fitted"
    assert only(**of_llama | {"accelerator": "mi355x"}, **served).status == "transferred"
    assert only(**of_llama | {"accelerator": "sn40l"}, **served).status == "assumed"
    hybrid = only(**of_llama | {"model": "nemotron-3-nano"}, **served)
    assert (hybrid.status, "hybrid" in hybrid.reason) == ("transferred", True)


@pytest.mark.parametrize(
    "given",
    [
        (),
        ("--model", "deepseek-v3"),
        ("--accelerator", "tpu-v7"),
        ("--model", "gpt3-175b", "--accelerator", "b300-hgx"),
        ("--precision", "fp4", "--iteration-model", "measured"),
        ("--precision", "int4"),
    ],
)
def test_screens_are_screens(given: tuple[str, ...]) -> None:
    done = command("catalog", "support", *given)
    lines = done.stdout.splitlines()
    assert done.returncode == 0
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 80
    assert "combinations are answered" in done.stdout


def test_filters_are_names_as_everywhere() -> None:
    assert {cell.accelerator for cell in support(accelerator="b300-hgx").cells} == {"b300"}
    assert {cell.precision for cell in support(model="llama-3-8b", precision="fp4").cells} == {
        "nvfp4",
        "fp4",
    }
    with pytest.raises(InputError, match="unknown precision 'fp7': use bf16"):
        support(precision="fp7")
    with pytest.raises(NetplanError, match="did you mean"):
        support(model="lama-3-8b")
