"""One point evaluated: whatever it raises becomes its outcome, and the rest goes on."""

import json
from collections.abc import Iterator, Mapping, Sequence
from time import perf_counter

import numpy as np

from netplan.studies.points import Outcome, Point, Scalar, Work, point_sha256

ERROR_CHARACTERS = 500


def attempt(work: Work, point: Point, *, interruptible: bool = False) -> Outcome:
    """Evaluate one point; an error of any kind is an outcome too.

    Parameters
    ----------
    work
        The study's work.
    point
        The point to evaluate.
    interruptible
        Let Ctrl-C through: for the process that the user sees.

    Examples
    --------
    >>> class Inverse:
    ...     input_sha256 = ""
    ...     def evaluate(self, point):
    ...         return {"inverse": 1 / point.inputs["x"]}
    >>> attempt(Inverse(), Point(0, {"x": 4})).outputs
    {'inverse': 0.25}
    >>> attempt(Inverse(), Point(1, {"x": 0})).error
    'ZeroDivisionError: division by zero'
    """
    outputs, error = None, None
    start = perf_counter()
    try:
        outputs = _plain(work.evaluate(point))
    except BaseException as fault:
        if interruptible and isinstance(fault, KeyboardInterrupt):
            raise
        error = error_line(fault)
    seconds = perf_counter() - start
    return Outcome(
        point.index, outputs, error, seconds, point_sha256(work.input_sha256, point.inputs)
    )


def attempt_each(
    work: Work, indices: Sequence[int], *, interruptible: bool = False
) -> Iterator[Outcome]:
    """Evaluate points one after the other; parameters as :func:`attempt`."""
    for point in work.points(indices):
        yield attempt(work, point, interruptible=interruptible)


def killed(work: Work, index: int, error: str) -> Outcome:
    """Outcome of a point that ends every process that evaluates it."""
    (point,) = work.points([index])
    return Outcome(index, None, error, 0.0, point_sha256(work.input_sha256, point.inputs))


def error_line(error: BaseException) -> str:
    r"""Type and first line of an error, at most 500 characters.

    Examples
    --------
    >>> error_line(ValueError("no such radix: 7\nTraceback ..."))
    'ValueError: no such radix: 7'
    >>> error_line(MemoryError())
    'MemoryError'
    """
    try:
        lines = str(error).strip().splitlines()
    except Exception:  # noqa: BLE001 - an error may be unable to say what it is
        lines = []
    text = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    # Half a surrogate pair cannot be written as UTF-8.
    return text[:ERROR_CHARACTERS].encode("utf-8", "replace").decode("utf-8")


def _plain(outputs: Mapping[str, object]) -> dict[str, Scalar]:
    """Outputs as plain values that a store can keep, numpy's scalars included."""
    plain = {name: _plain_value(name, value) for name, value in outputs.items()}
    json.dumps(plain)  # what cannot be written must fail here, not in the driver
    return plain


def _plain_value(name: object, value: object) -> Scalar:
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(name, str):
        raise TypeError(f"the name of an output must be a text, got {name!r}")
    if value is None or isinstance(value, int | float | str):
        return value
    kind = type(value).__name__
    raise TypeError(f"output {name} must be a number, a text, a truth value or None, got {kind}")
