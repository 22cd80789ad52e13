"""Failures under post-training: both pools asked alone, and what is left of the steps."""

from collections.abc import Mapping
from typing import Any

from netplan.answers.post_training_faults_answer import PostTrainingFaultsAnswer, SteppedFabric
from netplan.errors import InputError, NetplanError, not_built
from netplan.progress import each
from netplan.records import replace
from netplan.scenarios.reading import CatalogReader, sized
from netplan.setup import faulty_steps
from netplan.setup.faults_inputs import DEFAULT_FABRICS, FaultsQuestion, sorted_out
from netplan.setup.inputs import fabrics_asked
from netplan.setup.post_training import Known, ServerPool
from netplan.setup.post_training_step import post_train
from netplan.setup.question import AnyQuestion

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
    reader = asked.reader()
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
        trainer = _of_pool(asked, name, trained.trainer.asked) if trained.trainer else None
        servers = None
        if trained.servers and not trained.run.job.colocated:
            servers = _of_servers(asked, name, trained.servers)
    except InputError:
        raise
    except NetplanError as error:
        return spec.name, not_built(spec.name, error)
    failures: list[faulty_steps.PoolFailure] = []
    together: list[faulty_steps.PoolFailure] = []
    years: list[faulty_steps.PoolYears] = []
    why = ""
    asked_pools: tuple[tuple[faulty_steps.PoolFaults[Any, Any] | None, Any, Any], ...] = (
        (servers, faulty_steps.server_failures, faulty_steps.server_years),
        (trainer, faulty_steps.trainer_failures, faulty_steps.trainer_years),
    )
    for faults, failures_of, years_of in asked_pools:
        if faults is not None:
            rows, hit = failures_of(trained, faults)
            failures += rows
            together += [hit] if hit else []
            years.append(years_of(trained, faults))
            why = why or (faults.asked if isinstance(faults.asked, str) else "")
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
        steps_per_day=share * faulty_steps.DAY_S / trained.step.seconds
        if trained.step.seconds
        else 0.0,
        notes=tuple(dict.fromkeys((*trained.notes,))),
    )


def _of_pool(
    asked: FaultsQuestion[Any],
    fabric: str,
    pool: AnyQuestion,
    **others: Any,  # noqa: ANN401
) -> faulty_steps.PoolFaults[Any, Any]:
    """What a pool answers alone; failures that it has no parts for are left out, and why."""
    scenario, why = pool.scenario.replace(fabrics=(fabric,)), ""
    question = replace(asked, scenario=scenario, overrides=pool.overrides, **others)
    try:
        answer = question.ask()
    except InputError as error:
        if not asked.fail:
            raise
        answer, why = replace(question, fail=()).ask(), str(error)
    row = answer.fabrics[0]
    hit = row.scenario if isinstance(row.scenario, str | None) else row.scenario.impact
    return faulty_steps.PoolFaults(row.forecast, row.singles, why or hit)


def _of_servers(
    asked: FaultsQuestion[Any], fabric: str, pool: ServerPool
) -> faulty_steps.PoolFaults[Any, Any]:
    """The servers' pool under failures, by the plan that rolls out."""
    plans = pool.rolled.plans
    degrees = ("tensor", "pipeline", "expert", "attention_data", "replicas")
    fixed = {name: int(getattr(plans, name)[0]) for name in degrees}
    if pool.case.served.model.experts is None:
        del fixed["expert"], fixed["attention_data"]
    of_plan = replace(pool.asked, scenario=pool.asked.scenario.replace(fixed=fixed))
    return _of_pool(asked, fabric, of_plan, **OF_THE_TRAINER)
