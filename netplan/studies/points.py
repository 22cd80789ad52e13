"""A point of a study, an attempt at it, and its outcome.

The runner knows nothing of networks: a study hands it a :class:`PointTask`, and gets back one
:class:`PointResult` for each point, kept in a :class:`~netplan.studies.store.Store`. Whatever a
point raises becomes its outcome, and the rest goes on.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from time import perf_counter
from typing import Protocol

import numpy as np
from msgspec import Struct

from netplan.errors import NetplanError
from netplan.reports.quantities import Scalar

ERROR_CHARACTERS = 500
UNEXPECTED = "unexpected "
"""Start of what is said of a failure that no input explains: a defect of netplan."""

CHUNK_S = 0.25
"""Time after which a chunk of points comes back with what is done of it [s]."""


class Point(Struct, frozen=True):
    """One point of a study: its place in the study's order, and its inputs by name."""

    index: int
    inputs: dict[str, Scalar]


class PointResult(Struct, frozen=True):
    """What came of one point: outputs by name, or the first line of its error; the other is None.

    ``seconds`` is the time that the evaluation took [s], ``input_sha256`` the hash of what the
    point was computed from, see :func:`point_sha256`.
    """

    index: int
    outputs: dict[str, Scalar] | None
    error: str | None
    seconds: float
    input_sha256: str = ""

    def __post_init__(self) -> None:
        """Hold the promise of one result: outputs or an error."""
        if (self.outputs is None) == (self.error is None):
            raise ValueError(f"point {self.index}: outputs or an error, not both or neither")


class PointTask(Protocol):
    """What a study gives the runner; it must pickle, and be the same after every start."""

    @property
    def name(self) -> str:
        """Name of the study."""

    @property
    def input_sha256(self) -> str:
        """Hash of the study's definition and of every catalog file that it reads."""

    @property
    def definition(self) -> str:
        """The study as canonical JSON, kept in the store."""

    def sha256_of(self, definition: str) -> str:
        """Hash of a definition that computes the same, and of the files as they are now."""

    @property
    def point_count(self) -> int:
        """Number of points; their indices are 0 to ``point_count - 1``."""

    def points(self, indices: Sequence[int]) -> list[Point]:
        """Return the points of these indices, in this order."""

    def evaluate(self, point: Point) -> dict[str, Scalar]:
        """Compute one point: it may raise, run out of memory or end its process."""


def point_sha256(work_sha256: str, inputs: Mapping[str, Scalar]) -> str:
    """Hash of all that a point's result depends on: the study's inputs and its own.

    Examples
    --------
    >>> one = point_sha256("ab", {"gpus": 512, "radix": 64})
    >>> one == point_sha256("ab", {"radix": 64, "gpus": 512})
    True
    >>> one == point_sha256("ab", {"gpus": 512, "radix": 32})
    False
    """
    canonical = json.dumps(inputs, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(f"{work_sha256}\n{canonical}".encode()).hexdigest()


def attempt(work: PointTask, point: Point, *, interruptible: bool = False) -> PointResult:
    """Evaluate one point; an error of any kind is an outcome too.

    Only if ``interruptible``, Ctrl-C goes through: for the process that the user sees.

    Examples
    --------
    >>> class Inverse:
    ...     input_sha256 = ""
    ...     def evaluate(self, point):
    ...         return {"inverse": 1 / point.inputs["x"]}
    >>> attempt(Inverse(), Point(0, {"x": 4})).outputs
    {'inverse': 0.25}
    >>> attempt(Inverse(), Point(1, {"x": 0})).error
    'unexpected ZeroDivisionError: division by zero'
    """
    outputs, error = None, None
    start = perf_counter()
    try:
        outputs = _plain_outputs(work.evaluate(point))
    except BaseException as fault:
        if interruptible and isinstance(fault, KeyboardInterrupt):
            raise
        error = error_line(fault)
        if not isinstance(fault, NetplanError | MemoryError):
            error = f"{UNEXPECTED}{error}"
    seconds, sha256 = perf_counter() - start, point_sha256(work.input_sha256, point.inputs)
    return PointResult(point.index, outputs, error, seconds, sha256)


def attempt_some(
    work: PointTask, indices: Sequence[int], *, interruptible: bool = False
) -> Iterator[PointResult]:
    """Evaluate points in turn until a quarter of a second is over, the first one in any case."""
    end = perf_counter() + CHUNK_S
    for point in work.points(indices):
        yield attempt(work, point, interruptible=interruptible)
        if perf_counter() > end:
            return


def killed(work: PointTask, index: int, error: str) -> PointResult:
    """PointResult of a point that ends every process that evaluates it."""
    (point,) = work.points([index])
    return PointResult(index, None, error, 0.0, point_sha256(work.input_sha256, point.inputs))


def error_line(error: BaseException) -> str:
    r"""Type and first line of an error, at most 500 characters; of netplan's own, the line alone.

    Examples
    --------
    >>> error_line(NetplanError("4 GPUs are out of range"))
    '4 GPUs are out of range'
    >>> error_line(ValueError("no such radix: 7\nTraceback ..."))
    'ValueError: no such radix: 7'
    >>> error_line(MemoryError())
    'MemoryError'
    """
    try:
        lines = str(error).strip().splitlines()
    except Exception:  # noqa: BLE001 - an error may be unable to say what it is
        lines = []
    prefix = () if isinstance(error, NetplanError) and lines else (type(error).__name__,)
    text = ": ".join((*prefix, *lines[:1]))
    # Half a surrogate pair cannot be written as UTF-8.
    return text[:ERROR_CHARACTERS].encode("utf-8", "replace").decode("utf-8")


def _plain_outputs(outputs: Mapping[str, object]) -> dict[str, Scalar]:
    """Outputs as plain values that a store can keep, numpy's scalars included."""
    plain: dict[str, Scalar] = {}
    for name, value in outputs.items():
        scalar = value.item() if isinstance(value, np.generic) else value
        if not isinstance(name, str):
            raise TypeError(f"the name of an output must be a text, got {name!r}")
        if scalar is not None and not isinstance(scalar, int | float | str):
            kind = type(scalar).__name__
            raise TypeError(
                f"output {name} must be a number, a text, a truth value or None, got {kind}"
            )
        plain[name] = scalar
    json.dumps(plain)  # what cannot be written must fail here, not in the driver
    return plain
