"""A study on a Dask cluster: one of this machine's own, or one that is there already."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from netplan.errors import InputError
from netplan.studies.driver import Driver, LostSchedulerError, NoWorkersError
from netplan.studies.local import LocalCluster, NoClusterError
from netplan.studies.points import Work
from netplan.studies.progress import Tracker
from netplan.studies.store import Store

if TYPE_CHECKING:
    from distributed import Client

# Local clusters in turn that may die without one outcome in between.
FRUITLESS_CLUSTERS = 10
CONNECT_S = 10
CLOSE_S = 2
LOGGERS = ("distributed", "distributed.client", "tornado", "tornado.application")
KEPT = "what is done is kept, and `netplan study resume` goes on"


def run_on_local_cluster(
    work: Work, store: Store, tracker: Tracker, workers: int, limit_bytes: int | None
) -> None:
    """Work through a study with worker processes on this machine.

    A worker that dies is replaced by its nanny. If the scheduler dies, a new cluster goes on.

    Raises
    ------
    InputError
        If Dask is not installed, or clusters die time and again without any outcome.
    """
    require_dask("--workers")
    fruitless, cause = 0, ""
    while fruitless < FRUITLESS_CLUSTERS:
        before = tracker.done
        try:
            with (
                LocalCluster(workers, limit_bytes, store.path) as cluster,
                connected(cluster.address) as client,
            ):
                return Driver(client, work, store, tracker, limit_bytes).drive()
        except (NoClusterError, LostSchedulerError, NoWorkersError) as error:
            fruitless, cause = fruitless + 1 if tracker.done == before else 0, str(error)
    raise InputError(
        f"--workers: {FRUITLESS_CLUSTERS} local clusters in turn ended before they had finished a "
        f"point ({cause}): check that memory is free; {KEPT}"
    )


def run_on_scheduler(
    work: Work, store: Store, tracker: Tracker, address: str, limit_bytes: int | None
) -> None:
    """Work through a study with the workers of a scheduler that runs already.

    Raises
    ------
    InputError
        If Dask is not installed, nobody answers at the address, or the scheduler goes away.
    """
    require_dask("--scheduler")
    connecting = True
    try:
        with connected(address) as client:
            connecting = False
            Driver(client, work, store, tracker, limit_bytes).drive()
    except LostSchedulerError:
        if connecting:
            raise InputError(
                f"--scheduler {address}: nobody answers there: start one with `dask scheduler`, "
                "and give the address that it prints (tcp://host:8786)"
            ) from None
        raise InputError(
            f"--scheduler {address}: the scheduler has gone: start it again; {KEPT}"
        ) from None
    except NoWorkersError:
        raise InputError(
            f"--scheduler {address}: no worker has been there for two minutes: start some with "
            f"`dask worker {address}`; {KEPT}"
        ) from None


@contextmanager
def connected(address: str) -> "Iterator[Client]":
    """Connection to a scheduler, without Dask's own log lines.

    Raises
    ------
    LostSchedulerError
        If nobody answers there.
    """
    import dask  # the extra `cluster`
    from distributed import Client

    with _quiet(), dask.config.set({"distributed.comm.timeouts.connect": CONNECT_S}):
        try:
            client = Client(address, timeout=CONNECT_S, set_as_default=False)
        except (OSError, ValueError):  # ValueError: an address that is none
            raise LostSchedulerError from None
        try:
            yield client
        finally:
            with suppress(Exception):  # a scheduler that is gone cannot say goodbye
                client.close(CLOSE_S)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Dask from logging what is said in one line here."""
    loggers = [logging.getLogger(name) for name in LOGGERS]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def require_dask(option: str) -> None:
    """Refuse an option that needs Dask where it is not installed.

    Raises
    ------
    InputError
        With what to install.
    """
    try:
        import distributed  # noqa: F401 - the extra `cluster`
    except ImportError:
        raise InputError(f"{option} needs Dask: pip install 'netplan-toolkit[cluster]'") from None
