"""How unevenly experts of what is asked for are loaded, put into the model that runs."""

from netplan.errors import InputError
from netplan.records import replace
from netplan.scenarios.inner_parts import ExpertRouting
from netplan.workloads.expert_load import ExpertLoad
from netplan.workloads.models import Experts, Model

GIVEN_TWICE = (
    "given twice: --imbalance {imbalance:g} and --expert-skew {skew!r:.60} both say how much the"
    " busiest GPU has: leave one of them out"
)


def with_expert_load(model: Model, routing: ExpertRouting, imbalance: float = 1.0) -> Model:
    """The model with its experts loaded as asked for.

    Parameters
    ----------
    model
        What runs.
    routing
        Shares of experts, and where these lie.
    imbalance
        Rows of the busiest GPU over the mean, if that is given instead [1].

    Returns
    -------
    Model
        The same model where nothing is asked for.

    Raises
    ------
    NetplanError
        If the model has no experts, if both shares and an imbalance are given, or more than
        :func:`check_imbalance` allows, if a file has no such shares, or if a placement is asked for
        and no shares are.

    Examples
    --------
    >>> from netplan.workloads.models import MODELS
    >>> model = MODELS.load("deepseek-r1")
    >>> uneven = with_expert_load(model, ExpertRouting(expert_skew="gini:0.15"))
    >>> float(uneven.experts.load.imbalance(32).round(3))
    1.162
    """
    load = expert_load(model.name, model.experts, routing, imbalance)
    if load is None or model.experts is None:
        return model
    return model.changed(experts=replace(model.experts, load=load))


def check_imbalance(name: str, experts: Experts | None, imbalance: float) -> None:
    """Refuse an imbalance that no routing of a model of some name has.

    A token visits k of E experts, each once, so that an expert has one row of a token at most: 1/k
    of all rows, E/k times the mean. GPUs with several experts, or few GPUs, have less.

    Parameters
    ----------
    name, experts
        The model; None of one that is dense.
    imbalance
        Rows of the busiest GPU over the mean [1].

    Raises
    ------
    InputError
        If it is above E/k, or the model is dense.

    Examples
    --------
    >>> check_imbalance("mixtral-8x7b", Experts(count=8, per_token=2), 4.0)
    >>> check_imbalance("mixtral-8x7b", Experts(count=8, per_token=2), 4.1)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    netplan.errors.InputError: --imbalance 4.1: of mixtral-8x7b, whose tokens visit 2 of 8 ...
    """
    if imbalance <= 1:  # what counts tokens refuses less
        return
    if experts is None:
        raise InputError(
            f"--imbalance {imbalance:g}: {name} is dense and has no experts: leave it out"
        )
    most = experts.count / experts.per_token
    if imbalance > most:
        raise InputError(
            f"--imbalance {imbalance:g}: of {name}, whose tokens visit {experts.per_token:,} of"
            f" {experts.count:,} experts, the busiest has at most {most:.6g} times the mean: give 1"
            f" to {most:.6g}"
        )


def expert_load(
    name: str, experts: Experts | None, routing: ExpertRouting, imbalance: float = 1.0
) -> ExpertLoad | None:
    """The load of the experts of a model of some name; None where all are alike.

    Raises
    ------
    NetplanError
        As :func:`with_expert_load`.
    """
    skew = routing.expert_skew
    if skew is None:
        for flag, value in (
            ("--expert-placement", routing.expert_placement),
            ("--redundant-experts", routing.redundant_experts),
        ):
            if value:
                raise InputError(
                    f"{flag} {value} means nothing where all experts are alike: give --expert-skew,"
                    " too"
                )
        check_imbalance(name, experts, imbalance)
        if imbalance == 1:
            return None
    elif imbalance != 1:
        raise InputError(GIVEN_TWICE.format(imbalance=imbalance, skew=skew))
    if experts is None:
        raise InputError(
            f"--expert-skew {skew:.60}: {name} is dense and has no experts: leave it out"
        )
    if skew is None:
        return ExpertLoad(busiest=imbalance)
    placement = routing.expert_placement or "shuffled"
    load = ExpertLoad.of(
        skew, experts.count, placement=placement, redundant=routing.redundant_experts
    )
    if load.redundant and placement == "shuffled":
        load.spread(1)  # which says what copies need
    return load
