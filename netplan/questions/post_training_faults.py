"""Failures under post-training: both pools asked alone, and what is left of the steps."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from netplan.answers.post_training_faults_answer import PostTrainingFaultsAnswer, SteppedFabric
from netplan.errors import InputError, NetplanError, not_built
from netplan.progress import each
from netplan.records import replace
from netplan.scenarios.reading import CatalogReader, sized
from netplan.setup.faults_inputs import DEFAULT_FABRICS, sorted_out
from netplan.setup.faulty_steps import (
    DAY_S,
    PoolFailure,
    PoolYears,
    ServerFaults,
    TrainerFaults,
    server_failures,
    server_years,
    trainer_failures,
    trainer_years,
)
from netplan.setup.inputs import fabrics_asked
from netplan.setup.post_training import Known, ServerPool
from netplan.setup.post_training_step import PostTrained, post_train
from netplan.setup.question import AnyQuestion

if TYPE_CHECKING:
    from netplan.answers.faults_answer import FaultsAnswer
    from netplan.answers.served_faults_answer import ServedFabric

NOT_OF_POOLS = frozenset({"timing", "policy", "block_gpus", "spare_gpus", "ocs", "groups"})
"""Inputs that mean nothing where pools are asked one by one."""
OF_THE_TRAINER: Mapping[str, Any] = {"spares": (), "years": None, "while_down": "go-on"}
"""Inputs that servers are not asked, and what they are then."""


def post_training_faults(asked: FaultsQuestion[Any]) -> PostTrainingFaultsAnswer:
    """Put both pools under failures, fabric by fabric, and join what is left of the steps.

    Parameters
    ----------
    asked
        The question.

    Returns
    -------
    PostTrainingFaultsAnswer
        A row a fabric.

    Raises
    ------
    InputError
        If an input means nothing here, or no fabric has the parts that are to fail.
    """
    asked.refuse(NOT_OF_POOLS | {"sites", "site_gpus"}, "--workload post-training")
    reader = CatalogReader(asked.catalog, asked.overrides)
    known: Known = {}
    names = fabrics_asked(asked, DEFAULT_FABRICS)
    tried = [_fabric(name, asked, reader, known) for name in each(names, str)]
    rows, refused = sorted_out(tried, asked=False)
    if asked.fail and not any(row.asked for row in rows):
        why = rows[0].why_not
        raise InputError(why if why.startswith("--fail") else f"--fail on {rows[0].name}: {why}")
    trained = rows[0].trained
    inputs = asked.inputs(
        hb_size=trained.domain,
        link_gbps=sized(asked.cluster, trained.run.chip).speed_gbps,
        fabrics=[row.name for row in rows],
        set=reader.replaced(),
    )
    return PostTrainingFaultsAnswer(inputs, rows, refused)


def _fabric(
    name: str, asked: FaultsQuestion[Any], reader: CatalogReader, known: Known
) -> SteppedFabric | tuple[str, str]:
    """One fabric under failures; or its name and why there are no steps on it."""
    spec = reader.fabric(name, asked.cluster)
    try:
        trained = post_train(asked, reader, name, known)
        trainer = _of_trainer(asked, name, trained) if trained.trainer else None
        servers = None
        if trained.servers and not trained.run.job.colocated:
            servers = _of_servers(asked, name, trained.servers)
    except InputError:
        raise
    except NetplanError as error:
        return spec.name, not_built(spec.name, error)
    failures: list[PoolFailure] = []
    together: list[PoolFailure] = []
    years: list[PoolYears] = []
    why = ""
    if servers is not None:
        rows, hit = server_failures(trained, servers)
        failures += rows
        together += [hit] if hit else []
        years.append(server_years(trained, servers))
        why = servers.asked if isinstance(servers.asked, str) else why
    if trainer is not None:
        rows, hit = trainer_failures(trained, trainer)
        failures += rows
        together += [hit] if hit else []
        years.append(trainer_years(trained, trainer))
        why = why or (trainer.asked if isinstance(trainer.asked, str) else "")
    share = 1.0
    for row in years:
        share *= row.steps_share
    return SteppedFabric(
        name=spec.name,
        title=spec.title,
        trained=trained,
        failures=tuple(failures),
        asked=tuple(together),
        why_not=why,
        years=tuple(years),
        steps_share=share,
        steps_per_day=share * DAY_S / trained.step.seconds if trained.step.seconds else 0.0,
        notes=tuple(dict.fromkeys((*trained.notes,))),
    )


def _alone(asked: FaultsQuestion[Any], fabric: str, pool: AnyQuestion, **others: Any) -> Any:  # noqa: ANN401
    """What a pool answers alone; failures that it has no parts for are left out, and why."""
    scenario = pool.scenario.replace(fabrics=(fabric,))
    question = replace(asked, scenario=scenario, overrides=pool.overrides, **others)
    try:
        return question.ask(), None
    except InputError as error:
        if not asked.fail:
            raise
        return replace(question, fail=()).ask(), str(error)


def _of_trainer(asked: FaultsQuestion[Any], fabric: str, trained: PostTrained) -> TrainerFaults:
    """The trainer's pool under failures, as training is asked."""
    if trained.trainer is None:
        raise InputError("nothing is trained: no failure stops it")
    answer, why = _alone(asked, fabric, trained.trainer.asked)
    row = cast("FaultsAnswer", answer).fabrics[0]
    scenario = row.scenario
    if why is None and not isinstance(scenario, str | None):
        return TrainerFaults(row.forecast, row.singles, scenario.impact)
    return TrainerFaults(row.forecast, row.singles, why or cast("str | None", scenario))


def _of_servers(asked: FaultsQuestion[Any], fabric: str, pool: ServerPool) -> ServerFaults:
    """The servers' pool under failures, by the plan that rolls out."""
    plans = pool.rolled.plans
    degrees = ("tensor", "pipeline", "expert", "attention_data", "replicas")
    fixed = {name: int(getattr(plans, name)[0]) for name in degrees}
    if pool.case.served.model.experts is None:
        del fixed["expert"], fixed["attention_data"]
    scenario = pool.asked.scenario.replace(fixed=fixed)
    of_plan = replace(pool.asked, scenario=scenario)
    answer, why = _alone(asked, fabric, of_plan, **OF_THE_TRAINER)
    row = cast("ServedFabric", answer.fabrics[0])
    scenario_hit = row.scenario
    if why is None and not isinstance(scenario_hit, str | None):
        return ServerFaults(row.forecast, row.singles, scenario_hit.impact)
    return ServerFaults(row.forecast, row.singles, why or cast("str | None", scenario_hit))
