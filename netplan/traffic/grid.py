"""Where the members of a parallel plan sit: rank arithmetic in mixed radix.

A placement splits the size of every level of the fabric among the parallel dimensions. Written one
after the other, the innermost level first and inside a level in the order of the dimensions, these
degrees are the radices of a number system, and a GPU's number written in it gives its coordinates:

    radices  n(level 0, tensor), n(level 0, data), n(level 0, pipeline), n(level 1, tensor), ...

so tensor-parallel neighbours are neighbours in the cluster. The members of one parallel group
differ only in the digits of its dimensions; listing them is a transposition, not a search.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import ArrayLike

from netplan.arrays import Indices, Ints
from netplan.errors import InputError

PTD = ("tensor", "data", "pipeline")
"""Dimensions of PTD-P, from the innermost place to the outermost."""


@dataclass(frozen=True, slots=True)
class RankGrid:
    """Parallel degrees on the levels of a fabric.

    Parameters
    ----------
    degrees
        Degree of each dimension at each level, the innermost level first: (levels, dimensions) [1].
    dimensions
        Names of the dimensions, those that vary fastest first.

    Raises
    ------
    InputError
        If a level does not give one degree of at least 1 for each dimension.

    Examples
    --------
    Two HB domains of 4 GPUs: tensor 2 and data 2 inside, pipeline 2 across.

    >>> grid = RankGrid(((2, 2, 1), (1, 1, 2)))
    >>> grid.groups("tensor").tolist()
    [[0, 1], [2, 3], [4, 5], [6, 7]]
    >>> grid.groups("pipeline").tolist()
    [[0, 4], [1, 5], [2, 6], [3, 7]]
    >>> grid.coordinates([6]), grid.gpu_at([[0, 1, 1]])
    (array([[0, 1, 1]]), array([6]))
    """

    degrees: tuple[tuple[int, ...], ...]
    dimensions: tuple[str, ...] = PTD

    def __post_init__(self) -> None:
        """Refuse degrees that are no grid."""
        for level in self.degrees:
            if len(level) != len(self.dimensions) or min(level) < 1:
                raise InputError(
                    f"a level splits among {', '.join(self.dimensions)}: got degrees {level},"
                    f" give {len(self.dimensions)} whole numbers of at least 1"
                )

    @property
    def gpus(self) -> int:
        """GPUs that the grid covers [1]."""
        return prod(prod(level) for level in self.degrees)

    def degree(self, *dimensions: str) -> int:
        """Members of one group over these dimensions [1]."""
        return prod(self.splits(*dimensions))

    def splits(self, *dimensions: str) -> tuple[int, ...]:
        """Members of one group at each level, innermost first [1]."""
        return tuple(
            prod(n for n, name in zip(level, self.dimensions, strict=True) if name in dimensions)
            for level in self.degrees
        )

    def check_covers(self, gpus: int) -> None:
        """Refuse a cluster that the grid does not fill.

        Raises
        ------
        InputError
            If the grid has more or fewer GPUs.
        """
        if self.gpus != gpus:
            shape = " x ".join(str(prod(level)) for level in self.degrees)
            raise InputError(
                f"the placement covers {self.gpus:,} GPUs ({shape}), the cluster has {gpus:,}:"
                " give degrees that multiply to the GPUs of every level"
            )

    def groups(self, *dimensions: str, snake: bool = False) -> Indices:
        """Members of all groups over these dimensions, in rising order of their coordinates.

        Parameters
        ----------
        dimensions
            Dimensions in which the members of a group differ.
        snake
            Turn back at every border of an outer level instead of starting over, so that the step
            across the border joins GPUs of equal place (and so of one rail).

        Returns
        -------
        array
            GPUs, shape (groups, degree).
        """
        names = [name for _ in self.degrees for name in self.dimensions]
        radices = [n for level in self.degrees for n in level]
        chosen = [i for i, name in enumerate(names) if name in dimensions]
        others = [i for i in range(len(names)) if i not in chosen]
        # numpy's last axis runs fastest: reversed, the radices are the shape of the cluster.
        cluster = np.arange(self.gpus, dtype=np.int32).reshape(radices[::-1])
        last = len(names) - 1
        axes = [last - i for i in (*reversed(others), *reversed(chosen))]
        members = cluster.transpose(axes).reshape(-1, self.degree(*dimensions))
        return _turned(members, self.splits(*dimensions)) if snake else members

    def coordinates(self, gpu: ArrayLike) -> Ints:
        """Coordinates of GPUs, shape (..., dimensions).

        Raises
        ------
        InputError
            If a GPU is not in the grid.
        """
        rest = np.asarray(gpu, dtype=np.int64)
        if rest.size and not 0 <= rest.min() <= rest.max() < self.gpus:
            raise InputError(f"a GPU is out of range: the grid has {self.gpus:,}")
        found = np.zeros((*rest.shape, len(self.dimensions)), dtype=np.int64)
        for axis, n, weight in self._digits():
            rest, digit = np.divmod(rest, n)
            found[..., axis] += digit * weight
        return found

    def gpu_at(self, coordinates: ArrayLike) -> Ints:
        """GPUs at coordinates of shape (..., dimensions); the inverse of :meth:`coordinates`."""
        place = np.asarray(coordinates, dtype=np.int64)
        gpu, weight_of_gpu = np.zeros(place.shape[:-1], dtype=np.int64), 1
        for axis, n, weight in self._digits():
            gpu += place[..., axis] // weight % n * weight_of_gpu
            weight_of_gpu *= n
        return gpu

    def _digits(self) -> Iterable[tuple[int, int, int]]:
        """Digits of a GPU's number, lowest first: dimension, radix, weight in its coordinate."""
        weights = [1] * len(self.dimensions)
        for level in self.degrees:
            for axis, n in enumerate(level):
                yield axis, n, weights[axis]
                weights[axis] *= n


def _turned(members: Indices, splits: Sequence[int]) -> Indices:
    """Reverse every second part of each level, from the second level outwards (a Gray code)."""
    turned = members.copy()
    inner = splits[0]
    for n in splits[1:]:
        parts = turned.reshape(len(members), -1, n, inner)
        parts[:, :, 1::2] = parts[:, :, 1::2, ::-1].copy()
        inner *= n
    return turned
