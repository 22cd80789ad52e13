"""What is answered: the table says of every combination what its own command does."""

import random
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

import netplan
from netplan.errors import InfeasibleError, InputError, NetplanError
from netplan.performance.iteration_model import ITERATION_MODELS
from netplan.questions.search import Search, SearchAnswer
from netplan.questions.support import CLUSTER, GPUS, SupportCell, _Training, support
from netplan.scenarios.reading import CatalogReader
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.models import WORKLOADS
from tests.cli.command import netplan as command
from tests.turns import one_in


@cache
def every() -> tuple[SupportCell, ...]:
    """All combinations, asked for by the first test that needs them."""
    return support(iteration_model="all").cells


def asked(cell: SupportCell) -> Any:  # noqa: ANN401 - answers of three questions
    """The answer of a combination, by its own command."""
    given: dict[str, Any] = {"model": cell.model, "accelerator": cell.accelerator, "gpus": 64}
    if cell.question == "serving":
        return netplan.serving("hgx-b200", **given, precision=cell.precision)
    precision = None if cell.precision == "bf16" else cell.precision
    given |= {"iteration_model": cell.iteration_model, "precision": precision}
    question = netplan.search if cell.question == "search" else netplan.simulate
    return question("hgx-b200", **given)


def check(cell: SupportCell) -> None:
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
        for cell in every()
        if cell.question == question and (cell.status == "refused") == refused
    ]
    for cell in draw.sample(cells, 3):
        check(cell)


def only(**given: str) -> SupportCell:
    (cell,) = (
        cell
        for cell in every()
        if all(getattr(cell, name) == value for name, value in given.items())
    )
    return cell


def test_every_combination_stands_there_once() -> None:
    keys = [
        (cell.question, cell.model, cell.accelerator, cell.precision, cell.iteration_model)
        for cell in every()
    ]
    assert len(set(keys)) == len(keys) > 90_000
    assert {cell.model for cell in every()} == {*WORKLOADS.paths()}
    unsaid = [cell for cell in every() if not cell.reason and cell.status != "fitted"]
    assert not unsaid
    assert not [cell for cell in every() if "\n" in cell.reason]


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


Asked = dict[str, str]
"""A run: model, accelerator, iteration model, and what else is given."""
TIMED = ("calibrated", "measured", "4d", "ptd-p")
MODEL_OF_TIMES = re.compile(
    r"(?:take|use|or|,) (?:the )?(?:--)?iteration[- ]model ([a-z0-9-]+)(?:,? or ([a-z0-9-]+))?"
    r"( without --precision)?"
)


@cache
def refusal(given: frozenset[tuple[str, str]]) -> str:
    """Why a run is refused, by the table's own functions; empty if it is answered."""
    known = dict(given)
    chip = known.pop("accelerator")
    replaced = {"sram_bytes", "compute_utilisation"} & {*known}
    overrides = {f"accelerator.{name}": known.pop(name) for name in replaced}
    reader = CatalogReader(None, overrides)
    try:
        asked = Search.make(CLUSTER, gpus=GPUS, accelerator=chip, overrides=overrides, **known)
        rules = reader.load(ITERATION_MODELS, asked.training.iteration_model)
        models = [reader.load(WORKLOADS, known["model"])]
        chips = [reader.load(ACCELERATORS, chip)]
        (verdict,) = _Training(asked, reader, rules, {}).verdicts(models[0], chips)
    except NetplanError as error:
        return str(error)
    return verdict.reason if verdict.status == "refused" else ""


def next_steps(asked: Asked, reason: str) -> Iterator[Asked]:
    """What a refusal offers, each way done."""

    def without(name: str, others: Asked = asked) -> Asked:
        return {key: value for key, value in others.items() if key != name}

    if re.search(r"leave (it|--precision \S+) out", reason) and "precision" in asked:
        yield without("precision")
    elif reason.startswith("--software-date") and "leave it out" in reason:
        yield without("software_date")
    if "leave --software-date none out" in reason:
        yield without("software_date")
    for *names, alone in MODEL_OF_TIMES.findall(reason):
        for name in {*names} & {*TIMED}:
            other = asked | {"iteration_model": name}
            yield without("precision", other) if alone else other
    if number := re.search(r"(?:take|\bor) --precision ([\w-]+)", reason):
        yield asked | {"precision": number[1]}
    if chip := re.search(r"--accelerator (?:of )?([\w-]+)", reason):
        yield asked | {"accelerator": chip[1]}
    if "--memory model" in reason:
        yield asked | {"memory_model": "model"}
    for name, value in re.findall(r"(sram_bytes|compute_utilisation)=([\w.]+)", reason):
        yield asked | {name: value}


def key(asked: Asked) -> frozenset[tuple[str, str]]:
    return frozenset(asked.items())


def leads_on(asked: Asked, steps: int = 3) -> bool:
    """Whether some way that is offered ends in an answer."""
    reason = refusal(key(asked))
    if not reason:
        return True
    return steps > 0 and any(leads_on(then, steps - 1) for then in next_steps(asked, reason))


def refused_runs() -> Iterator[Asked]:
    """One run of each way to be refused, with software of a date and without, in panels too."""
    seen = set()
    for cell in every():
        if cell.question != "search" or cell.status != "refused":
            continue
        reason = cell.reason.replace(cell.model, "").replace(cell.accelerator, "")
        if (case := (cell.iteration_model, cell.precision, reason)) in seen:
            continue
        seen.add(case)
        run = {"model": cell.model, "accelerator": cell.accelerator}
        run["iteration_model"] = cell.iteration_model
        if cell.precision != "bf16":
            run["precision"] = cell.precision
        yield run
        yield run | {"software_date": "none"}
    yield from (
        {"model": "llama-3-8b", "accelerator": "h100-80gb", "iteration_model": "calibrated"}
        | {"strategy": "summa"}
        | precision
        for precision in ({}, {"precision": "fp8"})
    )


def test_every_refusal_names_a_step_that_works_and_none_that_leads_back() -> None:
    """fp8 with experts had three messages that pointed at each other."""
    runs = [*refused_runs()]
    assert len(runs) > 300
    for run in runs:
        reason = refusal(key(run))
        offered = [*next_steps(run, reason)]
        assert offered or not reason, (run, reason)
        for then in offered:
            assert leads_on(then), (run, reason, then, refusal(key(then)))
            back = next_steps(then, refusal(key(then)))
            assert run not in back, (run, reason, then, refusal(key(then)))


def test_all_strategies_leave_out_what_calibrated_has_no_formulas_for() -> None:
    """SUMMA, whatever says what memory holds; asked for alone it is refused."""
    asked: dict[str, Any] = {"gpus": 64, "model": "llama-3-8b", "accelerator": "h100-80gb"}
    for memory in ("model", "stack"):
        both = asked | {"memory_model": memory}
        every = netplan.search("hgx-h100", **both, strategy="all")
        ways = [netplan.search("hgx-h100", **both, strategy=name) for name in ("1d", "2d")]
        assert every.best.iteration_time_s <= min(way.best.iteration_time_s for way in ways) * 1.01
        assert {timed.strategy for timed in every.found.plans} <= {"1d", "2d"}
    with pytest.raises(InputError, match="no formulas for SUMMA: take --iteration-model measured"):
        netplan.search("hgx-h100", **asked, strategy="summa")


def test_remedies_of_memory_are_those_that_help() -> None:
    """Every way that the message names is taken; what would not fit either is not named."""
    paper: dict[str, Any] = {"gpus": 256, "fabric": "rail-only"}
    with pytest.raises(InfeasibleError, match=r"use more GPUs, --recompute full or an") as refused:
        netplan.search("rail-only-paper", **paper)
    assert "--zero 3" not in str(refused.value)  # 98.8 GB of 96 there
    assert netplan.search("rail-only-paper", **paper, recompute="full").found.plans
    with pytest.raises(InfeasibleError):
        netplan.search("rail-only-paper", **paper, zero_stage=3)
    tiled: dict[str, Any] = {"gpus": 64, "iteration_model": "comet", "fixed": {"tensor": 8}}
    tiled["overrides"] = {"accelerator.sram_bytes": "40e6"}
    with pytest.raises(InfeasibleError, match="use more GPUs, --zero 3 or an"):
        netplan.search(**tiled)
    assert netplan.search(**tiled, zero_stage=3).found.plans


def test_what_is_not_simulated_is_refused_though_no_plan_fits() -> None:
    """COMET's queues: a model that fits would be refused as well, 4d is simulated."""
    with pytest.raises(InputError, match=r"not simulated.*take --iteration-model 4d"):
        netplan.simulate("comet-paper", gpus=256)
    answer = netplan.simulate("comet-paper", gpus=256, iteration_model="4d", model="gpt-175b")
    assert answer.to_dict()


def test_panels_and_software_without_a_date_are_columns_to_ask_for() -> None:
    panels = support(model="llama-3-8b", iteration_model="all", strategy="summa").cells
    calibrated = [cell for cell in panels if cell.iteration_model == "calibrated"]
    assert {cell.status for cell in calibrated} == {"refused"}
    assert any("no formulas for SUMMA" in cell.reason for cell in calibrated)
    assert {"assumed"} <= {cell.status for cell in panels if cell.iteration_model == "4d"}
    undated = support(model="qwen3-30b-a3b", precision="fp8", software_date="none").cells
    assert {cell.question for cell in undated} == {"search", "simulate"}
    assert {cell.status for cell in undated} == {"refused"}
    assert any("leave --software-date none out" in cell.reason for cell in undated)
    with pytest.raises(InputError):
        support(strategy="3d")
