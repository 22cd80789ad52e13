"""Where a model fits on no plan: the largest one of the catalogs that does."""

from collections.abc import Iterator, Sequence
from typing import Any

from netplan.catalog import user_roots
from netplan.errors import InfeasibleError, NetplanError, NoPlanError, NoRoomError
from netplan.levels import Level
from netplan.scenarios.reading import CatalogReader
from netplan.setup.question import Question
from netplan.setup.training import plan_search, read_chip, read_training
from netplan.workloads.models import MODELS, Model
from netplan.workloads.parameters import stack_of


def with_fitting(
    error: InfeasibleError, asked: Question[Any], levels: Sequence[Level]
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


def largest_fitting(asked: Question[Any], levels: Sequence[Level]) -> str | None:
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
    reader = CatalogReader(asked.catalog, asked.overrides)
    try:
        wanted = MODELS.load(asked.training.model, reader.roots)
    except NetplanError:
        return None
    size = _size(wanted)
    known = [model for model in _models(asked) if _size(model) < size]
    for model in sorted(known, key=lambda model: -_size(model)):
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


def _models(asked: Question[Any]) -> Iterator[Model]:
    """Transformers of the catalogs, those of a user first."""
    roots = user_roots(asked.catalog)
    for name in MODELS.paths(roots):
        try:
            model = MODELS.load(name, roots)
        except NetplanError:
            continue
        if isinstance(model, Model):
            yield model
