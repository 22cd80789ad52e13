"""What a Dask worker does for a study: it evaluates a chunk of points and returns the outcomes.

They travel as one string of bytes: Dask would serialise a list one element after the other, which
takes longer than a quick point.
"""

import pickle
from functools import lru_cache

from netplan.errors import InputError
from netplan.studies.alone import Alone
from netplan.studies.attempt import attempt_each
from netplan.studies.points import Work
from netplan.version import __version__


def evaluate_chunk(work: bytes, version: str, indices: list[int]) -> bytes:
    """Evaluate points in the worker's own process, and return the pickled outcomes.

    Parameters
    ----------
    work
        The pickled :class:`Work`; a worker unpickles it once.
    version
        Version of the driver's netplan.
    indices
        Points to evaluate.

    Raises
    ------
    InputError
        If the worker has another netplan than the driver.
    """
    _check_version(version)
    return pickle.dumps(list(attempt_each(_unpickled(work), indices)))


def evaluate_alone(work: bytes, version: str, indices: list[int], limit_bytes: int | None) -> bytes:
    """Evaluate doubtful points in a child of the worker; parameters as above.

    The child may hold ``limit_bytes``, and no more than Dask allows the worker.
    """
    from distributed import get_worker  # the extra `cluster`

    _check_version(version)
    limits = (limit_bytes, get_worker().memory_manager.memory_limit)
    limit_bytes = min((limit for limit in limits if limit), default=None)
    with Alone(_unpickled(work), limit_bytes) as alone:
        return pickle.dumps(list(alone.evaluate(indices)))


@lru_cache(maxsize=2)
def _unpickled(work: bytes) -> Work:
    loaded: Work = pickle.loads(work)  # noqa: S301 - from the driver, as every Dask task
    return loaded


def _check_version(version: str) -> None:
    if version != __version__:
        raise InputError(
            f"a worker has netplan {__version__}, the driver {version}: install the same version "
            "on both"
        )
