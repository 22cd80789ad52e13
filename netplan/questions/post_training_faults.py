"""Failures under post-training: both pools asked alone, and what is left of the steps."""

from collections.abc import Mapping
from itertools import chain
from math import prod
from typing import Any, TypeVar

from netplan.answers.post_training_faults_answer import PostTrainingFaultsAnswer, SteppedFabric
from netplan.costing.fabric_bill import RefusedFabric
from netplan.errors import InputError, NetplanError, not_built
from netplan.progress import with_progress
from netplan.records import replace
from netplan.scenarios.reading import CatalogReader, sized
from netplan.setup.faults_inputs import DEFAULT_FABRICS, FaultsQuestion, sorted_out
from netplan.setup.faulty_steps import DAY_S, PoolFaults, ServerFaults, TrainerFaults
from netplan.setup.inputs import fabrics_asked
from netplan.setup.post_training import PartCache, ServerPool
from netplan.setup.post_training_step import PostTrained, post_train
from netplan.setup.question import AnyQuestion

PoolFaultsT = TypeVar("PoolFaultsT", bound=PoolFaults[Any, Any])

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
    asked.reject_inputs(NOT_OF_POOLS | {"sites", "site_gpus"}, "--workload post-training")
    reader = asked.reader()
    known: PartCache = {}
    names = fabrics_asked(asked, DEFAULT_FABRICS)
    tried = [_fabric(name, asked, reader, known) for name in with_progress(names, str)]
    rows, refused = sorted_out(tried)
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
    name: str, asked: FaultsQuestion[Any], reader: CatalogReader, known: PartCache
) -> SteppedFabric | RefusedFabric:
    """One fabric under failures, unless there are no steps on it."""
    spec = reader.fabric(name, asked.cluster)
    try:
        trained = post_train(asked, reader, name, known)
        trainer = servers = None
        if trained.trainer:
            trainer = _of_pool(TrainerFaults, trained, asked, name, trained.trainer.asked)
        if trained.servers and not trained.run.job.colocated:
            servers = _of_servers(trained, asked, name, trained.servers)
    except InputError:
        raise
    except NetplanError as error:
        return RefusedFabric(spec.name, not_built(spec.name, error))
    pools = [faults for faults in (servers, trainer) if faults is not None]
    reasons = [faults.asked for faults in pools if isinstance(faults.asked, str)]
    years = tuple(faults.years for faults in pools)
    share = prod((row.steps_share for row in years), start=1.0)
    return SteppedFabric(
        name=spec.name,
        title=spec.title,
        trained=trained,
        failures=tuple(chain.from_iterable(faults.failures for faults in pools)),
        asked=tuple(chain.from_iterable(faults.together for faults in pools)),
        why_not=next(filter(None, reasons), ""),
        years=years,
        steps_share=share,
        steps_per_day=share * DAY_S / trained.step.seconds if trained.step.seconds else 0.0,
        notes=tuple(dict.fromkeys((*trained.notes,))),
    )


def _of_pool(
    kind: type[PoolFaultsT],
    trained: PostTrained,
    asked: FaultsQuestion[Any],
    fabric: str,
    pool: AnyQuestion,
    **others: Any,  # noqa: ANN401
) -> PoolFaultsT:
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
    return kind(trained, row.forecast, row.singles, why or hit)


def _of_servers(
    trained: PostTrained, asked: FaultsQuestion[Any], fabric: str, pool: ServerPool
) -> ServerFaults:
    """The servers' pool under failures, by the plan that rolls out."""
    plans = pool.rolled.plans
    degrees = ("tensor", "pipeline", "expert", "attention_data", "replicas")
    fixed = {name: int(getattr(plans, name)[0]) for name in degrees}
    if pool.case.served.model.experts is None:
        del fixed["expert"], fixed["attention_data"]
    of_plan = replace(pool.asked, scenario=pool.asked.scenario.replace(fixed=fixed))
    return _of_pool(ServerFaults, trained, asked, fabric, of_plan, **OF_THE_TRAINER)
