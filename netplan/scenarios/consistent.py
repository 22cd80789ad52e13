"""What a scenario says of other things than those now asked for is left out: what is asked wins."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import structs

from netplan.errors import NetplanError
from netplan.scenarios.parts import Cluster, Serving, Training

if TYPE_CHECKING:
    from netplan.performance.iteration_model import IterationModel

PartT = TypeVar("PartT", Cluster, Training, Serving)

OF_FABRICS = frozenset({"gpus", "fabric", "radix", "oversubscription", "ports"})
"""Inputs that ask for a fabric of the catalogs, which a graph from a file is none of."""
PUBLISHED, ITS_CODE = "published-code", "4d"
"""The mode that repeats slips of published code, and the iteration model whose code that is."""


def consistent_cluster(cluster: Cluster, given: Collection[str], roots: Sequence[Path]) -> Cluster:
    """The cluster without what contradicts what is given.

    Parameters
    ----------
    cluster
        With the values that are given.
    given
        Names of the inputs that are given.
    roots
        Folders of the user's own catalogs.

    Returns
    -------
    Cluster
        Without a graph where a fabric is asked for, racks of a hall where their sizes are given or
        the other way round, and full ports where the fabric that is asked for has no use for them.

    Examples
    --------
    >>> consistent_cluster(Cluster(graph="mine.graphml"), {"gpus"}, ()).graph
    >>> consistent_cluster(Cluster(ports="full", fabric="rail-only"), {"fabric"}, ()).ports
    'shared'
    """
    changes: dict[str, Any] = {}
    if OF_FABRICS.intersection(given):
        changes["graph"] = None
    if "gpus_per_rack" in given:
        changes["floor_plan"] = None
    if "floor_plan" in given:
        changes |= {"gpus_per_rack": None, "switches_per_rack": None}
    if "fabric" in given and cluster.ports == "full" and not _several_ports(cluster.fabric, roots):
        changes["ports"] = "shared"
    return _with(cluster, given, changes)


def consistent_serving(serving: Serving, given: Collection[str]) -> Serving:
    """What is served: with requests in flight in all, or in a server, as they are asked for.

    Parameters
    ----------
    serving
        With the values that are given.
    given
        Names of the inputs that are given.

    Returns
    -------
    Serving
        With one of the two, where one is given.

    Examples
    --------
    >>> consistent_serving(Serving(batch=8, concurrency=64), {"batch"}).concurrency
    """
    changes = {"concurrency": None} if "batch" in given else {}
    changes |= {"batch": None} if "concurrency" in given else {}
    return _with(serving, given, changes)


def consistent_training(
    cluster: Cluster, training: Training, given: Collection[str], roots: Sequence[Path]
) -> tuple[Cluster, Training]:
    """What is trained, and the cluster, without what the iteration model asked for does not know.

    Parameters
    ----------
    cluster, training
        With the values that are given.
    given
        Names of the inputs that are given.
    roots
        Folders of the user's own catalogs.

    Returns
    -------
    Cluster, Training
        Without what calibrated iteration models alone time, where another is asked for; with the
        iteration model of the published code where its slips are asked for.

    Examples
    --------
    >>> fast = Training(precision="fp8", iteration_model="4d")
    >>> consistent_training(Cluster(), fast, {"iteration_model"}, ())[1].precision
    >>> slips = Training(mode="published-code")
    >>> consistent_training(Cluster(), slips, {"mode"}, ())[1].iteration_model
    '4d'
    """
    from netplan.performance.setting import BUBBLE_SHARE  # noqa: PLC0415 - as below

    rules = _rules(training.iteration_model, roots)
    if rules is None or not {"iteration_model", "mode"}.intersection(given):
        return cluster, training
    plain = (rules.compute.operations, rules.compute.kernels) == ("detailed", "roofline")
    changes: dict[str, Any] = {}
    if training.mode == PUBLISHED and not plain:
        changes |= {"mode": "corrected"} if "mode" not in given else {"iteration_model": ITS_CODE}
    if "iteration_model" in given and rules.calibration is None:
        changes |= {"precision": None, "stack": None, "tensor_overlap": True}
        changes |= {"recompute": None} if training.recompute == "half" else {}
        changes |= {"schedule": None} if training.schedule in BUBBLE_SHARE else {}
        cluster = _with(cluster, given, {"network_kind": None})
    if rules.compute.operations != "detailed":
        changes["sequence_parallel"] = True
    return cluster, _with(training, given, changes)


def _several_ports(fabric: str, roots: Sequence[Path]) -> bool:
    """Whether GPUs of a fabric may have several ports; so too of one that cannot be read."""
    # Only inputs that may contradict a scenario need fabrics and iteration models.
    from netplan.topologies.specs import FABRICS  # noqa: PLC0415

    try:
        return FABRICS.load(fabric, roots).several_ports
    except NetplanError:
        return True


def _rules(name: str, roots: Sequence[Path]) -> "IterationModel | None":
    """An iteration model; None of one that is simulated only, or cannot be read."""
    from netplan.performance.iteration_model import ITERATION_MODELS  # noqa: PLC0415 - as above

    try:
        return ITERATION_MODELS.load(name, roots)
    except NetplanError:
        return None


def _with(part: PartT, given: Collection[str], changes: dict[str, Any]) -> PartT:
    """The part with the changes to what is not given itself."""
    kept = {name: value for name, value in changes.items() if name not in given}
    return structs.replace(part, **kept) if kept else part
