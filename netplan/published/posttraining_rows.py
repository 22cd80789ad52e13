"""Printed figures of post-training: formulas that need no plan, and steps as they were made.

=========  ========================================================================================
identity   printed phases add up to the printed step, always a little short of it; printed tokens a
           second and GPU are those of the answers, of which the tables take padded or summed ones
bytes      of a delta of changed weights; compression is not counted
bound      no printed synchronisation is faster than the wire; software is 2.6 to 29 times slower
direction  overlapping helps, by no more than the trainer's work leaves (`speed_up_limit`)
step       what netplan says that a printed step takes at least
=========  ========================================================================================

Synchronisations that are no transfer of every byte (0.12 and 0.02 s for 15 GB) or lack their GPUs
are shown, and bound nothing.

Every run with a printed step is asked about as it was made: model, GPUs of both pools, plans,
answers, staleness. Of its lengths the mean and the cap are printed: all answers have the mean, and
one the cap. Tokens are those of prompts and answers together, and all of them are decoded here. The
policy before the step and a reference score the answers; an optimizer step takes 512 of them.

Mixtures of experts are trained by iteration model ``measured``, whose kernels run back to back, and
whose experts are shared by the GPUs that tensor, context and pipeline leave; in fp8, which no table
of it has, by ``calibrated``. Nothing is fitted: a bound above what is printed fails.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from netplan.performance.posttraining.schedules import Phases, speed_up_limit, step_seconds
from netplan.performance.posttraining.synchronisation import (
    WIRE_BYTES,
    Receivers,
    SyncLinks,
    Weights,
    sync_bound_s,
    sync_bytes,
)
from netplan.published.checks import Check, check, claim, order_kept, published
from netplan.questions.search import Search
from netplan.scenarios.reading import CatalogReader
from netplan.scenarios.scenario import Scenario
from netplan.setup.post_training_step import PostTrained, post_train
from netplan.units import GIGA, MEGA, PERCENT
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.models import MODELS, Model

TABLE = "post-training"
PHASES_WITHIN, TOKENS_WITHIN = 0.10, 0.20
"""How far printed phases and printed tokens may be off their sums [1]."""

CHANGED = 0.01
"""Share of the weights that a step changes, as Hugging Face has it of a delta [1]."""

DOMAIN_GPUS, UNNAMED = 8, "h100-80gb"
"""HB domain of printed synchronisations, and the GPU of one that names none."""

GIB = 2**30


Rows = Mapping[str, str]


def posttraining_checks() -> Iterator[Check]:
    """Sums, bytes, bounds and directions of post-training.

    Yields
    ------
    Check
        Steps by their phases, tokens, bytes, synchronisations, what overlapping brings, steps by
        plans, then synchronisations that bound nothing.
    """
    yield from _phases()
    yield from _tokens()
    yield from _bytes()
    yield from _bounds()
    yield from _directions()
    yield from step_checks()
    yield from _context()


@cache
def _rows() -> tuple[Rows, ...]:
    return tuple(published(TABLE))


def _source(row: Rows) -> str:
    return f"{row['source']}, {row['where']}"


def _runs(kind: str) -> dict[str, list[Rows]]:
    """Rows of a kind by their run."""
    runs: defaultdict[str, list[Rows]] = defaultdict(list)
    for row in _rows():
        if row["kind"] == kind:
            runs[row["id"].rpartition(".")[0]].append(row)
    return dict(runs)


def _seconds(rows: Sequence[Rows]) -> dict[str, float]:
    return {row["quantity"]: float(row["printed"]) for row in rows}


def _phases_of(printed: Mapping[str, float]) -> Phases:
    """Phases of a run: of pools apart what the trainer waits stands for the rollouts."""
    apart = "wait_s" in printed
    return Phases(
        rollout=printed["wait_s" if apart else "gen_s"],
        score=printed.get("old_log_prob_s", 0.0),
        train=printed["update_s"],
    )


def _phases() -> Iterator[Check]:
    """Printed phases in turn against the printed step."""
    for run, rows in _runs("breakdown").items():
        printed = _seconds(rows)
        sum_s = float(step_seconds("sync", _phases_of(printed)))
        off = sum_s / printed["step_s"] - 1
        yield check(
            f"{run}: sum of phases, s",
            _source(rows[0]),
            f"{printed['step_s']:g}",
            f"{sum_s:.4g}",
            same=False,
            met=-PHASES_WITHIN <= off <= 0,
            gap=off,
        )


def _tokens() -> Iterator[Check]:
    """Printed tokens a second and GPU against answers, lengths and the step."""
    for run, rows in _runs("step").items():
        printed, row = _seconds(rows), rows[0]
        tokens = float(row["answers"]) * float(row["mean_tokens"])
        rate = tokens / printed["step_s"] / float(row["gpus"])
        off = rate / printed["tokens_per_s_per_gpu"] - 1
        yield check(
            f"{run}: tokens/s/GPU",
            _source(row),
            f"{printed['tokens_per_s_per_gpu']:g}",
            f"{rate:.4g}",
            same=False,
            met=abs(off) <= TOKENS_WITHIN,
            gap=off,
        )


def _bytes() -> Iterator[Check]:
    """Bytes of deltas."""
    by_id = {row["id"]: row for row in _rows()}
    small = Weights(0.6 * GIGA, 0.0, WIRE_BYTES["bf16"])
    receiver = Receivers(copies=1, copy_gpus=1)
    ours = sync_bytes(small, receiver, "delta", CHANGED).total / MEGA
    most = float(by_id["delta-trl-0.6b-high"]["printed"])
    name = "qwen3-0.6b: changed weights of a step, MB"
    yield claim(name, f"{ours:.0f}", met=most <= ours, gap=ours / most - 1)
    row = by_id["delta-pulse"]
    large = Weights(float(row["params_b"]) * GIGA, 0.0, WIRE_BYTES["bf16"])
    ours = sync_bytes(large, receiver, "delta", CHANGED).total / MEGA
    met = float(row["printed"]) <= ours
    yield claim("7B: changed weights of a step, compressed, MB", f"{ours:.0f}", met=met)
    whole, delta = by_id["delta-fireworks-full"], by_id["delta-fireworks"]
    weights = Weights(float(whole["params_b"]) * GIGA, 0.0, WIRE_BYTES["fp8"])
    ours, printed = weights.copy_bytes / GIB, float(whole["printed"])
    name = "1T: whole checkpoint in fp8, GiB"
    yield claim(name, f"{ours:.0f}", met=ours <= printed, gap=ours / printed - 1)
    share = PERCENT * float(delta["printed"]) / printed
    yield claim("1T: mean delta over the whole, %", f"{share:.2f}")


def _bounds() -> Iterator[Check]:
    """Least seconds of printed synchronisations."""
    for row in _rows():
        if row["kind"] != "sync" or row["grade"] != "bound":
            continue
        least_s = _least_s(row)
        times = float(row["printed"]) / least_s
        yield check(
            f"{row['id']}: new weights of {row['model']} to {row['rollout_gpus']} GPUs, s",
            _source(row),
            row["printed"],
            f"at least {least_s:.3g} (printed {times:.3g} times that)",
            same=False,
            met=least_s <= float(row["printed"]),
        )


def _context() -> Iterator[Check]:
    """Printed synchronisations that are not of every byte, or whose GPUs are not printed."""
    for row in _rows():
        if row["kind"] != "sync" or row["grade"] != "context":
            continue
        copy_bytes = float(row["params_b"]) * GIGA * WIRE_BYTES[row["precision_rollout"]]
        rate = copy_bytes / float(row["printed"])
        if row["rollout_gpus"]:
            ours = f"at least {_least_s(row):.3g} if every byte is sent"
            reason = (
                f"{copy_bytes / GIGA:.3g} GB in that time are {rate / GIGA:,.3g} GB/s, more than"
                " the senders' network cards carry: inside one HB domain, or no transfer of every"
                " byte"
            )
        else:
            ours = f"{copy_bytes / GIGA:.3g} GB of one copy, {rate / GIGA:.3g} GB/s"
            reason = "colocated; how many GPUs share the copy is not printed, so that none is bound"
        yield check(
            f"{row['id']}: new weights of {row['model']}, s",
            _source(row),
            row["printed"],
            ours,
            reason,
            same=False,
        )


def _least_s(row: Rows) -> float:
    """The bound of a printed synchronisation; who sends is as many as receive where not printed."""
    on = ACCELERATORS.load(row["accelerator"] or UNNAMED)
    gpus = int(row["rollout_gpus"])
    plan = row["rollout_plan"]
    copy_gpus = int(plan.removeprefix("TP")) if plan else gpus
    weights = Weights(float(row["params_b"]) * GIGA, 0.0, WIRE_BYTES[row["precision_rollout"]])
    to = Receivers(copies=gpus // copy_gpus, copy_gpus=copy_gpus, domain=DOMAIN_GPUS)
    sent = sync_bytes(weights, to, "sharded" if row["mode"] == "sharded" else "full")
    links = SyncLinks(
        senders=1 if row["id"].endswith(".nccl") else int(row["train_gpus"] or gpus),
        nic_bytes_per_s=on.network_bytes_per_s,
        hb_bytes_per_s=on.hb_bytes_per_s,
    )
    return sync_bound_s(sent, to, links)


def _directions() -> Iterator[Check]:
    """What overlapping brings, below its limit; and that more staleness brings less and less."""
    runs = _runs("breakdown")
    for run, rows in runs.items():
        speed_up = _seconds(rows).get("speedup")
        if speed_up is None:
            continue
        printed = _seconds(runs[f"{run.rpartition('-')[0]}-sync"])
        limit = float(speed_up_limit(printed["step_s"], printed["update_s"]))
        yield check(
            f"{run}: speed-up against sync",
            _source(rows[0]),
            f"{speed_up:g}",
            f"{limit:.3g} at most",
            same=False,
            met=speed_up > 1,
        )
    stale = [
        (float(runs[name][0]["staleness"]), _seconds(runs[name])["step_s"])
        for name in ("verl-fa7-128-stream", "verl-fa7-128-stale01", "verl-fa7-128-stale03")
    ]
    stale.append((0.5, _seconds(runs["verl-fa7-128-async"])["step_s"]))
    shares, steps_s = zip(*stale, strict=True)
    phases = _phases_of(_seconds(runs["verl-fa7-128-stream"]))
    ours = step_seconds("async", phases, shares)
    yield claim(
        "verl-fa7-128: steps by the share of answers that may be stale, s",
        ", ".join(f"{step:.0f}" for step in ours.tolist()),
        met=order_kept(steps_s, ours),
    )
    hours = [row for row in _rows() if row["kind"] == "run"]  # sync and async of each model in turn
    for sync, overlapped in zip(hours[::2], hours[1::2], strict=True):
        yield check(
            f"{sync['model']}: hours of 1,000 steps, sync over async",
            _source(sync),
            f"{float(sync['printed']) / float(overlapped['printed']):.2f}",
            "above 1",
            same=False,
            met=float(sync["printed"]) > float(overlapped["printed"]),
        )


FABRIC = "rail-optimized"
MINI_BATCH = 512
"""Answers of an optimizer step in all printed runs [1]."""
GROUP = 16
"""Answers to a prompt; not printed, and prompts of one token cost nothing [1]."""
DEGREES = {"TP": "tensor", "CP": "context", "PP": "pipeline", "EP": "expert"}


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
        # All answers have the mean length, and one the cap; the prompt has a token of them.
        mean, cap = int(row["mean_tokens"]) - 1, int(row["cap_tokens"]) - 1
        text = f"length,count\n{mean},{int(row['answers']) - 1}\n{cap},1\n"
        lengths.write_text(text, encoding="utf-8")
        cluster = {"gpus": int(row["gpus"]), "accelerator": row["accelerator"]}
        workload = {**job_as_printed(row), "answer_tokens": str(lengths)}
        asked = Search.make(Scenario.load({"cluster": cluster, "workload": workload}))
        return post_train(asked, CatalogReader(asked.catalog, asked.overrides), FABRIC)


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
