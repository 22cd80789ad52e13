"""On which GPU each rank of a plan stands, where it is not the order of the GPUs.

Ranks count as plans lie on levels (`netplan.traffic.placement`): tensor, context, expert, data and
pipeline of the innermost level, then of the next one. A file names their GPUs in that order, by
number or name, one or a range at a time::

    0-15, gpu-24, gpu-25   # the ranks 0 to 15, 16 and 17
    31-26                  # a range may fall
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from netplan.arrays import Ints
from netplan.errors import CatalogError
from netplan.files import read_lines
from netplan.traffic.placement import Placement, turned
from netplan.units import counted

Groups = Literal["near", "strided"]
"""Members of a tensor group: side by side, or spread over the places of their stage."""

WORD = re.compile(r"(?:gpu-)?(\d{1,9})(?:-(?:gpu-)?(\d{1,9}))?")


def snake(sizes: Sequence[int]) -> Ints:
    """Places of a mesh in an order in which neighbours stay neighbours: each row turns back.

    Parameters
    ----------
    sizes
        Members of each axis, the first one runs fastest [1].

    Examples
    --------
    >>> snake((3, 2))
    array([0, 1, 2, 5, 4, 3])
    """
    places = np.arange(int(np.prod(sizes)), dtype=np.int32)[None]
    order: Ints = turned(places, sizes)[0].astype(np.int64)
    return order


def strided(placement: Placement) -> Ints:
    """Rank whose GPU each rank takes where members of a tensor group are spread over their stage.

    Of G groups in a stage the first has every G-th place, from the first one on.

    Examples
    --------
    A stage of two groups of three, side by side and spread out:

    >>> from netplan.traffic.placement import Degrees
    >>> placement = Placement((Degrees(tensor=3, data=2),))
    >>> placement.groups("tensor").tolist(), strided(placement)[placement.groups("tensor")].tolist()
    ([[0, 1, 2], [3, 4, 5]], [[0, 2, 4], [1, 3, 5]])
    """
    stages = np.sort(placement.groups("tensor", "context", "expert", "data"), axis=1)
    groups, stage_of = placement.groups("tensor"), np.empty(placement.gpus, np.int64)
    stage_of[stages] = np.arange(len(stages))[:, None]
    by_stage = groups[np.argsort(stage_of[groups[:, 0]], kind="stable")]
    members = by_stage.reshape(len(stages), -1, groups.shape[1])
    ranks = np.empty(placement.gpus, np.int64)
    ranks[members.transpose(0, 2, 1).ravel()] = stages.ravel()
    return ranks


def by_stage(placement: Placement) -> Ints:
    """Ranks of each pipeline stage in the order of the stages, shape (stages, ranks).

    Examples
    --------
    >>> from netplan.traffic.placement import Degrees
    >>> by_stage(Placement((Degrees(tensor=2, data=2, pipeline=2),))).tolist()
    [[0, 1, 2, 3], [4, 5, 6, 7]]
    """
    chains = placement.groups("pipeline", snake=True)
    return np.sort(chains.T, axis=1)


def read_ranks(path: Path, ranks: int, gpus: int) -> Ints:
    r"""GPUs of the ranks from a file, shape (ranks,).

    Parameters
    ----------
    path
        The file.
    ranks
        Ranks of the plan [1].
    gpus
        GPUs of the fabric, which are numbered from 0 [1].

    Raises
    ------
    CatalogError
        If the file cannot be read, or names a GPU that does not exist, or one twice, or another
        number of them: file and line.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "ranks.txt"
    >>> _ = path.write_text("0-2 gpu-7 # the first four\n6-4\n3\n")
    >>> read_ranks(path, ranks=8, gpus=8)
    array([0, 1, 2, 7, 6, 5, 4, 3])
    """
    line_of: dict[int, int] = {}
    for number, line in enumerate(read_lines(path), 1):
        where = f"{path}:{number}: "
        for word in re.split(r"[\s,]+", line.partition("#")[0]):
            for gpu in gpu_range(word, gpus, where) if word else ():
                if gpu in line_of:
                    raise CatalogError(
                        f"{where}GPU {gpu:,} is there twice, see line {line_of[gpu]}"
                    )
                if len(line_of) == ranks:
                    raise CatalogError(f"{where}more GPUs than the plan's {ranks:,} ranks")
                line_of[gpu] = number
    if len(line_of) < ranks:
        raise CatalogError(
            f"{path}: names {counted(len(line_of), 'GPU')}, the plan has {ranks:,} ranks"
        )
    return np.array(list(line_of), dtype=np.int64)


def gpu_range(word: str, gpus: int, where: str = "") -> list[int]:
    """GPUs that a word names: one, or a range that rises or falls.

    Raises
    ------
    CatalogError
        If the word has another form, or a GPU does not exist; it starts with ``where``.

    Examples
    --------
    >>> gpu_range("gpu-3", 8), gpu_range("5-2", 8)
    ([3], [5, 4, 3, 2])
    """
    ends = WORD.fullmatch(word)
    if ends is None:
        raise CatalogError(f"{where}{word!r:.40} names no GPU: write 5, gpu-5 or 0-7")
    first, last = int(ends[1]), int(ends[2] or ends[1])
    if max(first, last) >= gpus:
        raise CatalogError(
            f"{where}there is no GPU {max(first, last):,}: the fabric has 0 to {gpus - 1:,}"
        )
    step = 1 if last >= first else -1
    return list(range(first, last + step, step))
