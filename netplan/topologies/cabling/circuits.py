"""Circuits between cubes: which ports of which circuit switch are joined, whole or after a failure.

Cubes of side c have c^(d-1) positions on each face; the ends at one position of both faces along
one axis lead to one circuit switch. Ports are laid once and for all: cube number n has port 2 n + 1
of a switch for its minus face and 2 n + 2 for its plus face, whatever torus is cut. A circuit leads
from the plus face of a cube to the minus face of the next one along the axis, or of itself where it
is alone there. So tori are cut from any cubes, and rewired around those that fail, by circuits
alone (Jouppi et al., TPU v4, arXiv:2304.01433).
"""

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np
from msgspec import Struct

from netplan.arrays import Ints
from netplan.errors import InputError
from netplan.topologies.fabric import Sizing
from netplan.topologies.families.torus import Torus, is_long, near_cube, ring_next, torus_shape
from netplan.topologies.specs import FabricSpec

FACES = 2
"""Ports of a cube on each switch [1]."""


class Circuits(Struct, frozen=True, eq=False):
    """Circuits of a torus of cubes.

    Parameters
    ----------
    grid
        Cubes along each axis [1].
    cube
        Number of the cube at each place, the first axis fastest, shape (cubes,).
    following
        Cube that each leads to along each axis, shape (axes, cubes).
    positions
        Positions on a face, and so circuit switches an axis [1].
    """

    grid: tuple[int, ...]
    cube: Ints
    following: Ints
    positions: int

    @property
    def pairs(self) -> tuple[Ints, Ints, Ints]:
        """Circuit switch of each circuit, counted from 0, and the two ports that it joins.

        In the order of axes, positions and places.
        """
        switches = len(self.grid) * self.positions
        cubes = len(self.cube)
        plus = np.tile(FACES * self.cube + 2, switches)
        minus = np.repeat(FACES * self.following + 1, self.positions, axis=0).ravel()
        return np.repeat(np.arange(switches), cubes), plus, minus

    def lines(self) -> Iterator[str]:
        """A line of CSV for each circuit."""
        yield "circuit_switch,port,other_port,cube,other_cube"
        rows = zip(*(column.tolist() for column in self.pairs), strict=True)
        for switch, plus, minus in rows:
            axis, position = divmod(switch, self.positions)
            name = f"axis-{axis + 1}/position-{position}"
            yield f"{name},{plus},{minus},{(plus - 2) // FACES},{(minus - 1) // FACES}"


def cube_circuits(
    spec: FabricSpec, sizing: Sizing, *, ports: int, lost: Sequence[int] = ()
) -> Circuits:
    """Circuits of a fabric, or of the largest torus near a cube that the cubes left make.

    Parameters
    ----------
    spec, sizing
        A torus of cubes on circuit switches.
    ports
        Ports of a circuit switch [1].
    lost
        Cubes that failed.

    Raises
    ------
    InputError
        If the fabric has no circuit switches, they have too few ports, or a cube does not exist.

    Examples
    --------
    Of 8 cubes one fails: six of the others make a torus of 3 x 2 x 1 cubes.

    >>> from netplan.topologies.specs import FABRICS
    >>> from netplan import Scenario
    >>> sizing = Scenario.load("tpu-v7").replace(gpus=512).sizing
    >>> spec = FABRICS.load("torus-ocs")
    >>> whole = cube_circuits(spec, sizing, ports=136)
    >>> rest = cube_circuits(spec, sizing, ports=136, lost=[5])
    >>> whole.grid, len(whole.pairs[0]), rest.grid, rest.cube.tolist()
    ((2, 2, 2), 384, (3, 2, 1), [0, 1, 2, 3, 4, 6])
    """
    if not (isinstance(spec, Torus) and spec.circuit_switch):
        raise InputError(f"{spec.name} has no circuit switches: take torus-ocs, or circuit_switch")
    side = spec.copper_block
    grid = tuple(size // side for size in torus_shape(spec, sizing))
    cubes, most = prod(grid), ports // FACES
    if cubes > most:
        raise InputError(
            f"{spec.name}: {cubes:,} cubes need {FACES * cubes:,} ports of each circuit switch,"
            f" which has {ports:,}: plan at most {most * side ** len(grid):,} GPUs"
        )
    wrong = [one for one in lost if not 0 <= one < cubes]
    if wrong:
        raise InputError(f"{spec.name} has cubes 0 to {cubes - 1}, got {wrong[0]}")
    cube = np.setdiff1d(np.arange(cubes), np.array(lost, np.int64))
    if not len(cube):
        raise InputError(f"{spec.name}: none of its {cubes} cubes is left")
    twist = spec.twist and not lost
    if lost:
        grid = _largest(len(cube), len(grid))
        cube = cube[: prod(grid)]
    axes = range(len(grid))
    following = np.stack([cube[ring_next(grid, axis, twist=twist)] for axis in axes])
    return Circuits(grid, cube, following, side ** (len(grid) - 1))


def _largest(cubes: int, axes: int) -> tuple[int, ...]:
    """Grid of the most cubes, at most so many, that is not long."""
    for number in range(cubes, 0, -1):
        grid = near_cube(number, axes)
        if not is_long(grid):
            return grid
    return (1,) * axes
