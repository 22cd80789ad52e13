"""Maps of pipeline stages: which GPUs each stage has, its tensor degree and its layers.

A map is a catalog file, shipped or of a user's own, or a text in which stages end in ``;``. GPUs
are written as in files of ranks, by number, name or range, or as whole tiles, whose cores follow
each other row by row, every second row turned::

    stages:
      - {gpus: tile-0}                       tile-0;
      - {gpus: tile-1-2, tensor: 4}          tile-1-2 tensor=4;
      - {gpus: 48-63 gpu-70, layers: 3}      48-63 gpu-70 layers=3

Tensor ranks are neighbours in that order, and replicas follow each other. GPUs that no stage names
are idle. The interface is that of Fang et al., PALM (arXiv:2406.03868), Sec. IV-B.
"""

import re
from collections.abc import Iterator, Sequence
from math import prod
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from netplan.catalog import Catalog, Record
from netplan.errors import CatalogError, InputError, piece
from netplan.files import reachable
from netplan.inputs.readers import digits
from netplan.records import Entry, LayerCount, NonNegativeInt, PositiveInt, RecordError
from netplan.simulation.ranks import gpu_range
from netplan.topologies.specs import FabricSpec
from netplan.units import counted

MOST_STAGES, LONGEST_TEXT = 10_000, 100_000
"""Stages of a map [1], and characters of the GPUs of one stage [1]."""

KEYS = ("tensor", "layers")
"""What a stage of a text has behind its GPUs."""

NO_GPU = "names no GPU: write 5, gpu-5, 0-7 or tile-3"

TILES = re.compile(r"tile-(\d{1,9})(?:-(?:tile-)?(\d{1,9}))?")
Gpus = Annotated[str, Meta(min_length=1, max_length=LONGEST_TEXT)] | NonNegativeInt


class MappedStage(Entry, frozen=True, kw_only=True):
    """One stage of a map.

    ``gpus`` are in the order of its ranks, tensor ranks first. Left out, ``tensor`` is the degree
    of the run, and ``layers`` is an equal share of what other stages leave.
    """

    gpus: Gpus
    tensor: PositiveInt | None = None
    layers: LayerCount | None = None


class StageMap(Record, frozen=True, kw_only=True):
    """A map: ``stages`` in the order of the pipeline, each with its GPUs."""

    stages: Annotated[tuple[MappedStage, ...], Meta(min_length=1, max_length=MOST_STAGES)]
    notes: tuple[str, ...] = ()


STAGE_MAPS = Catalog("stage-map", "topologies/stage-maps", StageMap)


class PlacedStage(Struct, frozen=True):
    """A stage on its GPUs, in their order, with its tensor degree and layers [1]."""

    gpus: tuple[int, ...]
    tensor: int
    layers: int

    @property
    def data(self) -> int:
        """Replicas of its layers [1]."""
        return len(self.gpus) // self.tensor


ReadMap = tuple[tuple[MappedStage, str], ...]
"""Stages as they were written, and where each of them was: file and line, or its number."""


def read_map(text: str, roots: Sequence[Path] = ()) -> ReadMap | None:
    """The map that a text is, or names; None if it does neither.

    Parameters
    ----------
    text
        Stages with ``;`` behind them, a name of the catalog, or the path of a YAML file.
    roots
        Folders of the user's own catalogs, in front of the shipped one.

    Raises
    ------
    NetplanError
        If there is no such file, or it is malformed: file and line.

    Examples
    --------
    >>> [stage.gpus for stage, _ in read_map("0-3 tensor=2; 4-7")]
    ['0-3', '4-7']
    >>> read_map("ranks.txt") is None
    True
    """
    if ";" in text:
        written = [part.strip() for part in text.strip().removesuffix(";").split(";", MOST_STAGES)]
        if len(written) > MOST_STAGES:
            raise InputError(f"a map of stages has at most {MOST_STAGES:,} of them: give fewer")
        places = [f"stage {number} of the map: " for number in range(len(written))]
        return tuple(zip(map(_stage_of, written, places), places, strict=True))
    if not _names_map(text, roots):
        if "=" in text and not reachable(Path(text)).is_file():
            raise InputError(
                f"--placement {text!r:.60} is no file: a map of stages ends in ;, that of one, too"
            )
        return None
    stages = STAGE_MAPS.load(text, roots).stages
    document = STAGE_MAPS.read(STAGE_MAPS.find(text, roots))
    lines = (document.line(("stages", number)) for number in range(len(stages)))
    return tuple(zip(stages, (f"{document.path}:{line}: " for line in lines), strict=True))


def map_files(text: str, roots: Sequence[Path] = ()) -> list[Path]:
    """The file that says where ranks or stages stand, if there is one.

    Parameters
    ----------
    text
        As of ``--placement``: an order, a map, its name or path, or the path of a file of ranks.
    roots
        Folders of the user's own catalogs.

    Examples
    --------
    >>> map_files("snake"), map_files("0-7; 8-15"), map_files("no-such.txt")
    ([], [], [])
    >>> [path.name for path in map_files("palm-rows")]
    ['palm-rows.yaml']
    """
    if ";" in text:
        return []
    if _names_map(text, roots):
        return [STAGE_MAPS.find(text, roots)]
    return [Path(text)] if reachable(Path(text)).is_file() else []


def _names_map(text: str, roots: Sequence[Path]) -> bool:
    """Whether a text is the path of a YAML file, or a name of the catalog."""
    return text.endswith((".yaml", ".yml")) or text in STAGE_MAPS.paths(roots)


def _stage_of(text: str, place: str) -> MappedStage:
    """A stage of such a text: its GPUs, then keys with values."""
    words = re.split(r"[\s,]+", text)
    pairs = [word.partition("=") for word in words if "=" in word]
    keys = [key for key, _, _ in pairs]
    for key in keys:
        if key not in KEYS:
            raise InputError(f"{place}unknown key {piece(key) or '='}: known: {', '.join(KEYS)}")
        if keys.count(key) > 1:
            raise InputError(f"{place}{key} stands twice: give it once")
    numbers = [(key, value, digits(value)) for key, _, value in pairs]
    values = {key: value if number is None else number for key, value, number in numbers}
    gpus = " ".join(word for word in words if "=" not in word).strip()
    if not gpus:
        raise InputError(f"{place}{NO_GPU}")
    try:
        return MappedStage.read({**values, "gpus": gpus})
    except RecordError as error:
        raise InputError(f"{place}{error}") from None


def stages_on_gpus(
    written: ReadMap, spec: FabricSpec, gpus: int, *, tensor: int, layers: int
) -> tuple[PlacedStage, ...]:
    """The stages of a map on the GPUs of a fabric.

    Parameters
    ----------
    written
        The map.
    spec, gpus
        The fabric, and its GPUs, which are numbered from 0 [1].
    tensor
        Tensor degree of stages that say none [1].
    layers
        Layers of the model, of which stages that say none have equal shares [1].

    Returns
    -------
    tuple of PlacedStage
        In the order of the pipeline.

    Raises
    ------
    CatalogError
        If a GPU does not exist, or stands twice; if a tensor degree does not divide the GPUs of its
        stage, or layers are left over or missing.

    Examples
    --------
    >>> from netplan.topologies.specs import FABRICS
    >>> written = read_map("tile-0 tensor=8; tile-1-2 layers=5")
    >>> wafer = FABRICS.load("palm-wafer")
    >>> first, second = stages_on_gpus(written, wafer, 320, tensor=4, layers=12)
    >>> first.gpus[:6], (first.data, first.layers), (len(second.gpus), second.data, second.layers)
    ((0, 1, 2, 3, 7, 6), (2, 7), (32, 8, 5))
    """
    stage_of: dict[int, int] = {}
    held: list[list[int]] = []
    for number, (stage, place) in enumerate(written):
        held.append([])
        for gpu in _gpus(str(stage.gpus), spec, gpus, place):
            if gpu in stage_of:
                raise CatalogError(f"{place}GPU {gpu:,} is in stage {stage_of[gpu]}, too")
            stage_of[gpu] = number
            held[-1].append(gpu)
        if not held[-1]:
            raise CatalogError(f"{place}{NO_GPU}")
        degree = stage.tensor or tensor
        if len(held[-1]) % degree:
            raise CatalogError(
                f"{place}tensor degree {degree} does not divide its"
                f" {counted(len(held[-1]), 'GPU')}: give a divisor"
            )
    shares = _layers(written, layers)
    return tuple(
        PlacedStage(tuple(members), stage.tensor or tensor, share)
        for members, (stage, _), share in zip(held, written, shares, strict=True)
    )


def _layers(written: ReadMap, layers: int) -> Iterator[int]:
    """Layers of each stage: as written, else an equal share of those that are left."""
    fixed = [stage.layers for stage, _ in written]
    open_stages, left = fixed.count(None), layers - sum(filter(None, fixed))
    if left < open_stages or (left and not open_stages):
        raise CatalogError(
            f"{written[-1][1]}the model has {layers:,} layers, of which the map leaves"
            f" {left:,} for {counted(open_stages, 'stage')} without layers of their own: give each"
            " stage one or more, and no stage what there is not"
        )
    shares = iter(layers_of_stages(left, open_stages))
    return (next(shares) if share is None else share for share in fixed)


def layers_of_stages(layers: int, stages: int) -> list[int]:
    """Layers of each stage: one goes on to the next where the sum would pass its share.

    Examples
    --------
    Five layers on two stages: the third would pass 2.5.

    >>> layers_of_stages(5, 2)
    [2, 3]
    """
    return [(stage + 1) * layers // stages - stage * layers // stages for stage in range(stages)]


def _gpus(text: str, spec: FabricSpec, gpus: int, place: str) -> Iterator[int]:
    """GPUs that a text names, in its order."""
    for word in re.split(r"[\s,]+", text):
        if ends := TILES.fullmatch(word):
            yield from _tiles((int(ends[1]), int(ends[2] or ends[1])), spec, gpus, place)
        elif word:
            yield from gpu_range(word, gpus, place)


def _tiles(ends: tuple[int, int], spec: FabricSpec, gpus: int, place: str) -> Iterator[int]:
    """Cores of tiles from one to another, upwards or downwards."""
    if spec.tile is None:
        raise CatalogError(f"{place}{spec.name} has no tiles: name its GPUs, as 0-15")
    wide, (first, last) = spec.tile.cores[0], ends
    cores, step = prod(spec.tile.cores), 1 if last >= first else -1
    if (max(ends) + 1) * cores > gpus:
        raise CatalogError(
            f"{place}there is no tile {max(ends):,}: {spec.name} has 0 to {gpus // cores - 1:,}"
        )
    for tile in range(first, last + step, step):
        for core in range(cores):
            y, x = divmod(core, wide)
            yield tile * cores + y * wide + (wide - 1 - x if y % 2 else x)
