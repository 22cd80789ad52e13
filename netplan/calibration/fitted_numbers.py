"""Which numbers of iteration model ``calibrated`` are fitted on runs: calibrations, and places.

A *calibration* is a catalog file that lists numbers: one may stand at several places (the same
kernel on two boards), has a prior, where that is not what the files say, and its width. Places are
named as by ``--set``: ``NAME.KEY`` or ``ROLE.KEY``.
"""

from collections.abc import Callable, Mapping

import numpy as np
from msgspec import Struct, field

from netplan.calibration.runs import MeasuredRun
from netplan.catalog import Record, Shelf
from netplan.records import Entry, PositiveFloat
from netplan.workloads.accelerators import TrainingRates


class Parameter(Entry, frozen=True, kw_only=True):
    """One number to fit: where it stands, its prior, and the width of that.

    Without a prior it is what the files say.
    """

    values: tuple[str, ...]
    width: PositiveFloat
    prior: PositiveFloat | None = None


class Calibration(Record, frozen=True, kw_only=True):
    """Numbers that are fitted together; ``noise`` is the error of a run, as a share of it.

    ``kernel_noise`` is that of a product or collective, ``kernel_widths`` has the widths of their
    numbers by key; ``start`` stands for the block ``training`` of accelerators that have none.
    """

    noise: PositiveFloat
    parameters: tuple[Parameter, ...]
    kernel_noise: PositiveFloat = 0.05
    kernel_widths: dict[str, PositiveFloat] = field(default_factory=dict)
    start: TrainingRates | None = None
    notes: tuple[str, ...] = ()


CALIBRATIONS = Shelf("calibration", "traffic/calibrations", Calibration)

Applies = Callable[[MeasuredRun], bool]


class Place(Struct, frozen=True):
    """Where a number stands in formulas: what it is a factor of, and in which runs."""

    factor: str
    applies: Applies = lambda _: True
    largest: float = np.inf


def _overlaps(run: MeasuredRun) -> bool:
    """Whether a run has the share of a stack's own overlap."""
    return run.tensor_overlap or run.stack.tensor_visible_without_overlap is None


def places_of(key: str) -> tuple[Place, ...]:
    """What a key of a record is in formulas; none if nothing is known of it."""
    part, _, name = key.rpartition(".")
    if part == "training.gemm":
        own = Place("products", lambda run: run.precision == name, 1.0)
        return (own, Place("head", largest=1.0)) if name == "bf16" else (own,)
    if part == "training.attention":
        return (Place("attention", lambda run: run.attention == name, 1.0),)
    if part == "calibration.network_efficiency":
        kind = name.replace("_", "-")
        return (Place("network", lambda run: run.network_kind == kind, 1.0),)
    return (SINGLE[key],) if key in SINGLE else ()


SINGLE: Mapping[str, Place] = {
    "training.wave": Place("wave"),
    "vector": Place("vector"),
    "tensor_visible": Place("tensor_visible", _overlaps, 1.0),
    "tensor_visible_without_overlap": Place("tensor_visible", lambda r: not _overlaps(r), 1.0),
    "layer_s": Place("layer_s"),
    "calibration.contention": Place("contention", largest=1.0),
    "calibration.iteration_s": Place("iteration_s"),
}
