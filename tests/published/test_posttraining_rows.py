"""Printed figures of post-training: what their source says of them as a whole."""

from collections.abc import Iterator
from statistics import median

import pytest

from netplan.performance.posttraining import synchronisation
from netplan.published import posttraining_rows
from netplan.published.checks import Check, published
from netplan.setup.schedules_beside import PRINTED_OVER_BOUND


@pytest.fixture(scope="module", name="checks")
def _checks() -> tuple[Check, ...]:
    return tuple(posttraining_rows.posttraining_checks())


def named(checks: tuple[Check, ...], text: str) -> Iterator[Check]:
    return (row for row in checks if text in row.name)


def test_printed_phases_are_1_to_8_percent_short_of_the_printed_step(
    checks: tuple[Check, ...],
) -> None:
    """Thirteen runs: printed over summed, 1.3 to 7.8 % more, in the median 3.0."""
    over = [1 / (1 + (row.gap or 0.0)) - 1 for row in named(checks, "sum of phases")]
    assert len(over) == 13
    assert (round(min(over), 3), round(max(over), 3)) == (0.013, 0.078)
    assert median(over) == pytest.approx(0.030, abs=0.001)


def test_printed_tokens_are_a_little_more_than_those_of_the_answers(
    checks: tuple[Check, ...],
) -> None:
    """Twenty rows: 1.02 to 1.19 times."""
    times = [1 / (1 + (row.gap or 0.0)) for row in named(checks, "tokens/s/GPU")]
    assert len(times) == 20
    assert (round(min(times), 2), round(max(times), 2)) == (1.02, 1.19)


def test_no_printed_synchronisation_is_faster_than_the_wire(checks: tuple[Check, ...]) -> None:
    rows = [row for row in named(checks, "new weights of") if row.grade == "trend"]
    assert len(rows) == 17
    least = [float(row.got.split()[2]) for row in rows]
    assert all(float(row.expected) >= bound for row, bound in zip(rows, least, strict=True))
    pipelined = [
        float(row.expected) / bound
        for row, bound in zip(rows, least, strict=True)
        if row.name.startswith("ce-")
    ]
    assert 2.6 < min(pipelined) < max(pipelined) < 7.1


def test_a_bound_above_what_is_printed_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(synchronisation.WIRE_BYTES, "bf16", 20.0)
    failed = [row for row in posttraining_rows.posttraining_checks() if row.verdict == "fail"]
    assert any("qwen3-235b-a22b to 8 GPUs" in row.name for row in failed)


def test_four_of_five_printed_speed_ups_keep_the_trainers_limit(checks: tuple[Check, ...]) -> None:
    rows = [*named(checks, "speed-up against sync")]
    beyond = [row.name for row in rows if float(row.expected) > float(row.got.split()[0])]
    assert len(rows) == 5
    assert beyond == ["verl-fa7-32-async: speed-up against sync"]


def test_the_table_has_all_that_was_printed() -> None:
    rows = published("post-training")
    assert len(rows) == 127
    assert len({row["id"] for row in rows}) == 127


def test_no_printed_step_is_shorter_than_its_bound(checks: tuple[Check, ...]) -> None:
    """Printed over bound is what screens say of bounds: nothing is shorter, or longer than that."""
    rows = [*named(checks, ": a step of ")]
    assert len(rows) == len(posttraining_rows.printed_steps()) == 20
    assert all(row.verdict == "known" for row in rows)
    times: dict[str, list[float]] = {"dense": [], "experts": []}
    for row, printed in zip(rows, posttraining_rows.printed_steps(), strict=True):
        least_s = posttraining_rows.trained_as_printed(printed["id"]).step.seconds
        kind = "dense" if printed["model"] in ("llama-3.1-8b", "qwen3-32b") else "experts"
        times[kind].append(float(row.expected) / least_s)
        assert row.got.startswith(f"at least {least_s:.3g} ")
    for kind, (low, high) in PRINTED_OVER_BOUND.items():
        assert low <= min(times[kind]) < low + 0.1, kind
        assert high - 0.1 < max(times[kind]) <= high, kind


def test_steps_are_asked_about_as_they_were_printed() -> None:
    """Every printed degree that no iteration model refuses, and all tokens of the table."""
    for row in posttraining_rows.printed_steps():
        trained = posttraining_rows.trained_as_printed(row["id"])
        work, servers = trained.step.work, trained.servers
        assert work.answers * (1 + work.lengths.mean) == pytest.approx(
            float(row["answers"]) * float(row["mean_tokens"]), rel=0.01
        )
        assert work.mode == row["mode"]
        assert trained.run.gpus == int(row["gpus"])
        assert servers is not None
        assert f"TP{int(servers.rolled.plans.tensor[0])}" == row["rollout_plan"]
        assert servers.copies * servers.copy_gpus == int(row["rollout_gpus"])
        assert trained.trainer is not None
        plan = trained.trainer.timed.plan
        ours = {"TP": plan.tensor, "CP": plan.context, "PP": plan.pipeline, "EP": plan.expert}
        for word in row["train_plan"].split():
            name, degree = word[:2], int(word[2:])
            fewer = name == "EP" and row["model"].startswith("qwen3-235b")
            assert ours[name] == degree or (fewer and ours[name] < degree), (row["id"], word)


def test_a_bound_of_a_step_above_what_is_printed_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = posttraining_rows.printed_steps()
    fast = [{**row, "printed": "20"} for row in rows if "8off" in row["id"]]
    monkeypatch.setattr(posttraining_rows, "printed_steps", lambda: fast)
    posttraining_rows.trained_as_printed.cache_clear()
    assert [row.verdict for row in posttraining_rows.step_checks()] == ["fail"]


def test_what_bounds_nothing_is_shown(checks: tuple[Check, ...]) -> None:
    """15.24 GB in 0.02 s are 762 GB/s; 710 GB in 48 s 14.8 GB/s."""
    rows = {row.name.partition(":")[0]: row for row in checks if row.grade == "source"}
    assert len(rows) == 4
    assert "762 GB/s" in rows["verl-sync-qwen2.5-math-7b.ce"].reason
    assert rows["slime-glm45.bf16"].got == "710 GB of one copy, 14.8 GB/s"
