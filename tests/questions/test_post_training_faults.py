"""Failures under post-training: hand-worked years, steps with fewer copies, both pools alone."""

from functools import cache
from math import exp
from typing import Any

import numpy as np
import pytest

from netplan.errors import InputError
from netplan.faults.years.served import ServedForecast
from netplan.performance.posttraining.servers import roll_out
from netplan.performance.posttraining.step import rollouts_of
from netplan.questions.faults import Faults
from netplan.questions.post_training_faults import post_training_faults
from netplan.records import replace
from netplan.scenarios.reading import CatalogReader
from netplan.setup.faulty_steps import ServerFaults, slowed_trainer, without_copies
from netplan.setup.post_training_step import PostTrained, post_train

GRPO = "grpo-70b-h100"
ONE = {"fabrics": ("rail-only",)}


def _asked(**values: object) -> Faults:
    return Faults.make(GRPO, **{**ONE, **values})


@cache
def _trained(**values: object) -> PostTrained:
    asked = _asked(**values)
    return post_train(asked, CatalogReader(asked.catalog, asked.overrides), "rail-only", {})


@cache
def _answer(**values: object) -> dict[str, Any]:
    answer = post_training_faults(_asked(**values)).to_dict()
    assert not answer["refused"]
    (fabric,) = answer["fabrics"]
    return {**fabric, "inputs": answer["inputs"]}


def test_a_step_without_copies_rolls_out_on_the_others() -> None:
    """As a pool of so many copies would; none is left behind the last one, and none fails of 0."""
    trained = _trained()
    servers = trained.servers
    assert servers is not None
    copies = servers.copies
    assert copies > 1
    assert without_copies(trained, 0) == trained.step
    assert without_copies(trained, copies) is None
    seconds = []
    for lost in range(copies):
        step = without_copies(trained, lost)
        assert step is not None
        plans = replace(servers.rolled.plans, replicas=np.array([copies - lost]))
        rolled = roll_out(servers.case, plans, trained.run.work)
        assert step.rollouts.seconds == pytest.approx(
            rollouts_of(trained.run.work, rolled.servers).seconds, rel=1e-9
        )
        seconds.append(step.seconds)
    assert seconds == sorted(seconds)
    assert seconds[-1] > 1.2 * seconds[0]


def test_years_of_servers_are_a_sum_over_copies_down() -> None:
    """A mean of 0.5 copies down: e^-0.5 (1 + 0.5 s0/s1 + ...); 100 stops lose half a batch each."""
    trained = _trained()
    assert trained.servers is not None
    forecast = ServedForecast(
        server_interruptions_per_year=100.0,
        mtbf_h=87.6,
        servers_down=0.5,
        all_answer_share=0.6,
        expected_tokens_per_s=1.0,
        expected_share=0.9,
        assured_tokens_per_s=1.0,
        assured_share=0.8,
        level_kept_share=None,
        spare_servers=0,
        spare_servers_needed=1,
        spare_gpus_needed=8,
        causes=(),
        spares=(),
    )
    years = ServerFaults(trained, forecast, (), None).years
    step_s = trained.step.seconds
    share, chance = 0.0, exp(-0.5)
    for down in range(trained.servers.copies):
        step = without_copies(trained, down)
        assert step is not None
        share += chance * step_s / step.seconds
        chance *= 0.5 / (down + 1)
    lost = 100 * trained.step.rollouts.seconds / 2 / (8760 * 3600)
    assert years.steps_share == pytest.approx(share - lost, rel=1e-9)
    assert (years.copies_down, years.interruptions_per_year, years.gpus) == (0.5, 100.0, 32)


def test_each_pool_says_what_its_failures_cost() -> None:
    """A GPU takes one copy of the servers out; of the trainer it stops the step once."""
    trained, answer = _trained(), _answer()
    step_s = trained.step.seconds
    failures = {(row["pool"], row["kind"]): row for row in answer["failures"]}
    gpu = failures["rollout", "gpu"]
    fewer = without_copies(trained, 1)
    assert fewer is not None
    assert (gpu["copies_lost"], gpu["way"]) == (1, "without")
    assert gpu["step_s"] == pytest.approx(fewer.seconds)
    assert gpu["lost_s"] == pytest.approx(trained.step.rollouts.seconds / 2)
    leaf = failures["trainer", "leaf"]
    assert (leaf["step_s"], leaf["way"], leaf["copies_lost"]) == (None, "stopped", None)
    # Servers lie in one HB domain each: no link or switch of the network stops a copy.
    assert failures["rollout", "leaf"]["copies_lost"] == 0
    assert failures["rollout", "leaf"]["step_s"] == pytest.approx(step_s)
    # Half of an interval and a restart of 10 min, and half a step, within the simulated spread.
    (years,) = (row for row in answer["years"] if row["pool"] == "trainer")
    once_s = years["interval_h"] / 2 * 3600 + 600 + step_s / 2
    assert failures["trainer", "gpu"]["lost_s"] == pytest.approx(once_s, rel=0.05)


def test_pools_answer_as_they_do_alone() -> None:
    """The trainer as training is asked, the servers as servers of that plan."""
    trained, answer = _trained(), _answer()
    assert trained.trainer is not None
    assert trained.servers is not None
    scenario = trained.trainer.asked.scenario.replace(**ONE)
    overrides = trained.trainer.asked.overrides
    alone = replace(_asked(), scenario=scenario, overrides=overrides).ask().fabrics[0].forecast
    years = {row["pool"]: row for row in answer["years"]}
    assert years["trainer"]["stops_per_year"] == alone.interruptions_per_year
    assert years["trainer"]["interval_h"] == alone.interval_h
    slower = slowed_trainer(trained.step, 0.1).seconds / trained.step.seconds - 1
    half = alone.interruptions_per_year * trained.step.seconds / 2 / (8760 * 3600)
    share = alone.effective_time_ratio - slower / 0.1 * alone.slowed_h / 8760 - half
    assert years["trainer"]["steps_share"] == pytest.approx(share, rel=1e-9)
    assert [pool["gpus"] for pool in answer["pools"]] == [32, 32]


def test_steps_of_a_day_are_both_pools_together() -> None:
    answer = _answer()
    both = np.prod([row["steps_share"] for row in answer["years"]])
    assert answer["steps_share"] == pytest.approx(both)
    assert answer["steps_per_day"] == pytest.approx(both * 86400 / answer["step_s"])
    assert answer["steps_per_year"] == pytest.approx(365 * answer["steps_per_day"])
    assert 0.98 < answer["steps_share"] < 1


def test_more_failures_leave_fewer_steps() -> None:
    usual, high = _answer(), _answer(rates="high")
    assert high["steps_share"] < usual["steps_share"]
    for few, many in zip(usual["years"], high["years"], strict=True):
        assert many["stops_per_year"] > few["stops_per_year"]


def test_colocated_pools_stop_together() -> None:
    """All GPUs are one pool; what goes on without a domain has neither its copies."""
    values = {"colocated": True, "rollout_gpus": 0, "staleness": 0}
    answer, trained = _answer(**values), _trained(**values)
    assert [row["pool"] for row in answer["years"]] == ["all"]
    assert answer["years"][0]["gpus"] == 64
    (gpu,) = (row for row in answer["failures"] if row["kind"] == "gpu")
    fewer = without_copies(trained, 1)
    assert fewer is not None
    assert gpu["step_s"] > fewer.seconds > trained.step.seconds


def test_failures_that_are_asked_for_hit_each_pool() -> None:
    """Two GPUs take two copies of the servers, or 16 GPUs of the trainer."""
    answer = _answer(fail=("gpu=2",))
    rollout, trainer = answer["asked"]
    assert (rollout["pool"], rollout["copies_lost"]) == ("rollout", 2)
    fewer = without_copies(_trained(), 2)
    assert fewer is not None
    assert rollout["step_s"] == pytest.approx(fewer.seconds)
    assert (trainer["pool"], trainer["way"]) == ("trainer", "without")


def test_inputs_that_mean_nothing_are_refused() -> None:
    with pytest.raises(InputError, match="--policy replace means nothing for --workload post-tr"):
        post_training_faults(_asked(policy="replace"))
    with pytest.raises(InputError, match="--fail on rail-only: unknown kind of part 'spine'"):
        post_training_faults(_asked(fail=("spine=1",)))


@pytest.mark.parametrize("form", ["text", "html", "csv", "markdown"])
def test_every_form_says_the_same_steps(form: str) -> None:
    answer = _asked().ask()
    shown = getattr(answer, form)()
    days = answer.to_dict()["fabrics"][0]["steps_per_day"]
    assert f"{days:.3f}"[:5] in shown
    if form == "text":
        assert len(shown.splitlines()) <= 25
        assert shown.index("At most") < shown.index("rail-only")
