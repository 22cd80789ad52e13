"""A point of a study, what came of it, and what a study gives the runner.

The runner knows nothing of networks: a study hands it a :class:`Work`, and gets back one
:class:`Outcome` for each point, kept in a :class:`~netplan.studies.store.Store`.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

Scalar = int | float | str | bool | None


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a study: its place in the study's order, and its inputs by name."""

    index: int
    inputs: dict[str, Scalar]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one point: outputs by name, or the error that it ended with.

    Attributes
    ----------
    index
        Place of the point in the study's order.
    outputs
        Outputs by name; None if the point failed.
    error
        First line of the error; None if the point succeeded.
    seconds
        Time that the evaluation took [s].
    input_sha256
        Hash of what the point was computed from, see :func:`point_sha256`.
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

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle as one call: a fraction of what a frozen dataclass does by itself."""
        return Outcome, (self.index, self.outputs, self.error, self.seconds, self.input_sha256)


class Work(Protocol):
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
