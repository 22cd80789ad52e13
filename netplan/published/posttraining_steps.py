"""Printed steps of post-training against what netplan says that they take at least.

Every printed run is asked about as it was made: model, GPUs of both pools, plans, answers,
staleness. Of its lengths the mean and the cap are printed: all answers have the mean, and one the
cap. Tokens are those of prompts and answers together, and all of them are decoded here. The policy
before the step and a reference score the answers; an optimizer step takes 512 of them.

Mixtures of experts are trained by iteration model ``measured``, whose kernels run back to back, and
whose experts are shared by the GPUs that tensor, context and pipeline leave; in fp8, which no table
of it has, by ``calibrated``. Nothing is fitted: a bound above what is printed fails.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from netplan.published.checks import Check, check, published
from netplan.questions.search import Search
from netplan.scenarios.reading import CatalogReader
from netplan.scenarios.scenario import Scenario
from netplan.setup.post_training_step import PostTrained, post_train
from netplan.workloads.models import MODELS, Model

TABLE = "post-training"
FABRIC = "rail-optimized"
MINI_BATCH = 512
"""Answers of an optimizer step in all printed runs [1]."""
GROUP = 16
"""Answers to a prompt; not printed, and prompts of one token cost nothing [1]."""
DEGREES = {"TP": "tensor", "CP": "context", "PP": "pipeline", "EP": "expert"}

AT_LEAST = (
    "a bound: phases by serving's and training's models, answers of the mean length but one at the"
    " cap; what frameworks do inside and between phases is not in it"
)

Rows = Mapping[str, str]


def step_checks() -> Iterator[Check]:
    """Printed steps against their bounds.

    Yields
    ------
    Check
        A row a printed step; it fails if the bound is above it.
    """
    for row in printed_steps():
        least_s = trained_as_printed(row["id"]).step.seconds
        printed_s = float(row["printed"])
        yield check(
            f"{row['id'].rpartition('.')[0]}: a step of {row['model']} on {row['gpus']} GPUs, s",
            f"{row['source']}, {row['where']}",
            row["printed"],
            f"at least {least_s:.3g} (printed {printed_s / least_s:.3g} times that)",
            AT_LEAST,
            same=False,
            met=least_s <= printed_s,
        )


def printed_steps() -> tuple[Rows, ...]:
    """Rows of printed steps that have a plan."""
    return tuple(
        row
        for row in published(TABLE)
        if row["kind"] == "step" and row["quantity"] == "step_s" and row["grade"] == "bound"
    )


@cache
def trained_as_printed(name: str) -> PostTrained:
    """What netplan says of a printed run.

    Parameters
    ----------
    name
        Its ``id`` in the table.
    """
    row = next(row for row in printed_steps() if row["id"] == name)
    with TemporaryDirectory(prefix="netplan-") as folder:
        lengths = Path(folder, "lengths.csv")
        lengths.write_text(_lengths(row), encoding="utf-8")
        cluster = {"gpus": int(row["gpus"]), "accelerator": row["accelerator"]}
        workload = {**job_as_printed(row), "answer_tokens": str(lengths)}
        asked = Search.on(Scenario.load({"cluster": cluster, "workload": workload}))
        return post_train(asked, CatalogReader(asked.catalog, asked.overrides), FABRIC)


def _lengths(row: Rows) -> str:
    """A file of lengths; the prompt has a token of them."""
    mean, cap = int(row["mean_tokens"]) - 1, int(row["cap_tokens"]) - 1
    return f"length,count\n{mean},{int(row['answers']) - 1}\n{cap},1\n"


def job_as_printed(row: Rows) -> dict[str, Any]:
    """The workload of a printed run, but for its lengths.

    Parameters
    ----------
    row
        Of the table.
    """
    answers, in_turn = int(row["answers"]), row["mode"] == "sync"
    job: dict[str, Any] = {
        "kind": "post-training",
        "model": row["model"],
        "prompts": answers // GROUP,
        "group": GROUP,
        "prompt_tokens": 1,
        "updates": max(1, answers // MINI_BATCH),
        "staleness": float(row["staleness"]),
        "precision": row["precision_train"],
        "rollout_precision": row["precision_rollout"],
        "colocated": in_turn,
        "fixed": plans_as_printed(row),
    }
    if not in_turn:
        job["rollout_gpus"] = int(row["rollout_gpus"])
    model = MODELS.load(row["model"])
    if model.experts is not None and row["precision_train"] == "bf16":
        job["iteration_model"] = "measured"
    return job


def plans_as_printed(row: Rows) -> dict[str, int]:
    """Degrees of both pools as printed, as far as a run's iteration model has such a plan.

    Parameters
    ----------
    row
        Of the table.
    """
    model: Model = MODELS.load(row["model"])
    train = {"tensor": 1, "context": 1, "pipeline": 1, **_degrees(row["train_plan"])}
    if "expert" in train:
        rest = int(row["train_gpus"]) // (train["tensor"] * train["context"] * train["pipeline"])
        train["expert"] = min(train["expert"], rest)
    rollout = {"pipeline": 1, **_degrees(row["rollout_plan"])}
    if model.experts is not None:
        rollout["attention_data"] = 1
    pools = {"train": train, "rollout": rollout}
    return {
        f"{pool}.{name}": degree
        for pool, degrees in pools.items()
        for name, degree in degrees.items()
    }


def _degrees(plan: str) -> dict[str, int]:
    """Degrees of a plan such as ``TP2 PP8``."""
    return {DEGREES[word[:2]]: int(word[2:]) for word in plan.split()}
