"""The run whose traffic a question is about, training or serving, placed on one fabric.

Where a model fits on no plan: the largest one of the catalogs that does.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from netplan.catalog import user_roots
from netplan.errors import InfeasibleError, NetplanError, NoPlanError, NoRoomError
from netplan.levels import Level
from netplan.records import replace
from netplan.scenarios.reading import sized
from netplan.setup.placed_run import PlacedRun
from netplan.setup.question import FOUND, AnyQuestion
from netplan.setup.training import (
    plan_inputs,
    plan_options,
    plan_search,
    read_chip,
    read_training,
    training_case,
)
from netplan.topologies.build import build_fabric
from netplan.traffic.patterns import Pattern
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.models import MODELS, Model
from netplan.workloads.parameters import stack_of

if TYPE_CHECKING:
    from netplan.setup.served_run import ServedRun

PLACED = FOUND | {"fabric", "expanded_memory"}
"""Inputs of a scenario, beside those of networks and runs, that say where a run lies."""
PATTERN = "Pattern of the collectives."
"""Help of the input that says which pairs of a group talk."""


def place_training(asked: AnyQuestion, algorithm: Pattern | str) -> PlacedRun:
    """A training run by its best plan; if values are given, and none fits, by the fastest."""
    case, given = training_case(asked), plan_options(asked).fixed.given
    try:
        result = plan_search(asked, case.training).best_on_all(case.fabric.levels)
    except InfeasibleError as error:
        if not given:
            raise with_fitting(error, asked, case.fabric.levels) from None
        anyway = replace(case.training, ignore_memory=True)
        result = plan_search(asked, anyway).best_on_all(case.fabric.levels)
    timed = result.best
    setting = result.setting_of(timed)
    inputs = plan_inputs(asked, case, setting)
    return PlacedRun(inputs, case.spec, case.fabric, algorithm, setting, timed)


def place_serving(asked: AnyQuestion, algorithm: Pattern | str) -> "ServedRun":
    """A served model by its best plan.

    Raises
    ------
    InputError
        If tokens are drafted: of such steps no round is known.
    """
    from netplan.setup.served_run import ServedRun
    from netplan.setup.serving_run import serve_best

    drafted = {"draft", "window", "acceptance", "speculation"}
    asked.reject_inputs(drafted, "a round of servers, in which every request gets one token")
    reader, cluster = asked.reader(), asked.cluster
    on = reader.load(ACCELERATORS, cluster.accelerator)
    spec = reader.fabric(cluster.fabric, cluster)
    searched, plan = serve_best(asked, reader, cluster.fabric)
    servers = searched.found.best(searched.case)
    inputs = asked.inputs(
        stack=servers.case.stack.name,
        kernels=servers.case.served.kernels.source,
        hb_size=servers.case.served.sizes[0],
        set=reader.replaced(),
    )
    return ServedRun(
        inputs=inputs,
        spec=spec,
        fabric=build_fabric(spec, sized(asked.cluster, on)),
        algorithm=algorithm,
        servers=servers,
        plan=plan,
        told=searched.notes,
    )


def with_fitting(
    error: InfeasibleError, asked: AnyQuestion, levels: Sequence[Level]
) -> InfeasibleError:
    """The error with the largest model that would fit; as it is where there is none.

    Parameters
    ----------
    error
        What the search for plans said.
    asked
        The question, about training.
    levels
        Bandwidth levels of the fabric.

    Returns
    -------
    InfeasibleError
        One of the same kind.
    """
    if isinstance(error, NoPlanError | NoRoomError):
        return error
    name = largest_fitting(asked, levels)
    return type(error)(f"{error}; of our models {name} fits") if name else error


def largest_fitting(asked: AnyQuestion, levels: Sequence[Level]) -> str | None:
    """Name of the largest model of the catalogs that has a plan on a fabric.

    Parameters
    ----------
    asked
        The question, about training.
    levels
        Bandwidth levels of the fabric.

    Returns
    -------
    str or None
        The transformer with the most parameters, of those smaller than the one that is asked for;
        None where none has a plan, or the question is about no transformer.
    """
    reader = asked.reader()
    try:
        wanted = MODELS.load(asked.training.model, reader.roots)
    except NetplanError:
        return None
    size, roots = _size(wanted), user_roots(asked.catalog)
    models: list[Model] = []
    for name in MODELS.paths(roots):  # those of a user first
        with suppress(NetplanError):
            models.append(MODELS.load(name, roots))
    fitting = (model for model in models if _size(model) < size)
    for model in sorted(fitting, key=lambda model: -_size(model)):
        smaller = asked.with_values(model=model.name)
        try:
            training = read_training(
                smaller, reader, read_chip(smaller, reader), asked.cluster.gpus
            )
            if plan_search(smaller, training).fits_on_all(levels):
                return model.name
        except NetplanError:
            continue
    return None


def _size(model: Model) -> float:
    """Parameters of the layers of a model, all experts included [1]."""
    stack = stack_of(model)
    return float(stack.attention + stack.feed_forward)
