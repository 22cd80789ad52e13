"""Accelerator files: what one GPU computes, stores and sends, and its speed under a power cap.

Under a power cap firmware keeps a GPU below its limit by its clock, so that power falls faster than
speed. A curve is read between its points and never beyond them; what it says of whole runs or of
matrix products is what all products and vector operations slow down by here. Memory and links keep
their rates.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta, field, structs

from netplan import records
from netplan.catalog import Catalog, Record, Sourced, shipped_root, user_roots
from netplan.errors import CatalogError, InputError, one_line
from netplan.inputs.choices import Evidence, Execution, Precision
from netplan.units import gbps
from netplan.workloads.measured_rates import KernelTables, MeasuredRates

AttentionKernel = Literal["unfused", "fa2", "cudnn"]


USABLE_SHARE = 0.98
"""What of a memory the driver shows to programs, where no file says it; assumed [1]."""

MOST_USABLE = 1.08
"""Capacity in GiB, as drivers count, over that in GB on the box, is 1.074 at the most [1]."""


TABLES_FOLDER = "traffic/kernel-tables"
TABLE_SUFFIXES = (".csv", ".csv.gz")
"""Where tables of measured kernels lie below the root of a catalog, and how their files end."""

Generation = Literal["hopper", "blackwell", "tpu"]
"""Of which kind a chip's kernels are."""
ModelClass = Literal["dense", "moe", "hybrid"]
"""Classes of models that have error bars of their own."""


class CapPoint(records.Entry, frozen=True, kw_only=True):
    """Speed under a limit of the power [W], as a share of that without one, low to high [1]."""

    watts: records.PositiveFloat
    speed: records.PositiveShare
    low: records.PositiveShare
    high: records.PositiveShare

    def __post_init__(self) -> None:
        """Refuse ends out of order."""
        if not self.low <= self.speed <= self.high:
            raise ValueError(
                f"speeds run low <= speed <= high, got {self.low}, {self.speed}, {self.high}"
            )


class PowerCaps(records.Entry, frozen=True, kw_only=True):
    """Points of a curve, rising in watts and in speed, and where they are from."""

    points: tuple[CapPoint, ...]
    of: str
    evidence: Evidence
    date: str
    source: str

    def __post_init__(self) -> None:
        """Refuse fewer than two points, and points out of order."""
        rising = all(
            low.watts < high.watts and low.speed <= high.speed
            for low, high in pairwise(self.points)
        )
        if len(self.points) < 2 or not rising:  # noqa: PLR2004 - a curve has two ends
            raise ValueError("points: give two or more, rising in watts and in speed")

    def point_at(self, watts: float, name: str) -> CapPoint:
        """Speed under a limit, on the lines from point to point.

        Parameters
        ----------
        watts
            The limit [W].
        name
            Whose curve it is.

        Returns
        -------
        CapPoint
            Share of the speed without a limit, low to high [1].

        Raises
        ------
        InputError
            If the limit lies outside of the curve.

        Examples
        --------
        Half way between 0.8 and 1.

        >>> ends = [CapPoint(watts=400, speed=0.8, low=0.7, high=0.9),
        ...         CapPoint(watts=700, speed=1, low=1, high=1)]
        >>> caps = PowerCaps(points=tuple(ends), of="", evidence="shipping", date="", source="")
        >>> caps.point_at(550, "h100-80gb")
        CapPoint(watts=550, speed=0.9, low=0.85, high=0.95)
        """
        first, last = self.points[0].watts, self.points[-1].watts
        if not first <= watts <= last:
            raise InputError(
                f"--gpu-power-cap {watts:g}W: what a {name} computes is published from {first:g} to"
                f" {last:g} W: give a cap in that range"
            )
        known, *speeds = np.array([structs.astuple(point) for point in self.points]).T
        speed, low, high = (float(np.interp(watts, known, ends)) for ends in speeds)
        return CapPoint(watts=watts, speed=speed, low=low, high=high)


def no_cap(name: str, watts: float, power_w: float, known: Sequence[str]) -> InputError:
    """Why a GPU has no such cap: it draws less, or nobody has published what it computes."""
    if not known:
        return InputError(
            f"--gpu-power-cap {watts:g}W: a {name} draws {power_w:g} W: give less, or leave it out"
        )
    return InputError(
        f"--gpu-power-cap {watts:g}W: nobody has published what a {name} computes below"
        f" {power_w:g} W: leave it out, or take {', '.join(known[:-1])} or {known[-1]}"
    )


class HeldOut(records.Entry, frozen=True, kw_only=True):
    """Measured over predicted times of ``runs`` of your own that were left out of the fit [1].

    ``low`` and ``high`` are their 5th and 95th percentile, the bar of times by these rates.
    """

    runs: records.PositiveInt
    low: records.PositiveShare
    high: Annotated[float, Meta(ge=1)]


class DatedRates(records.Entry, frozen=True, kw_only=True):
    """What runs reach under software of a date (`netplan.performance.dated`).

    ``gemm`` are the shares of the peak that products of each precision reach, ``generation`` says
    whose attention, scan and drift of software the chip has, ``host`` what launches its kernels.
    ``scored`` names the stacks of which runs were predicted by fits without them; ``held_out`` are
    bars of your own runs, by class of the model, in place of those of published ones.
    """

    generation: Generation
    host: Literal["x86", "grace", "tpu"] = "x86"
    gemm: dict[Precision, records.PositiveFloat]
    scored: tuple[str, ...] = ()
    held_out: dict[ModelClass, HeldOut] = field(default_factory=dict)


class TrainingRates(records.Entry, frozen=True, kw_only=True):
    """What whole training runs reach of an accelerator's peaks, for iteration model ``calibrated``.

    ``gemm`` are the shares of the peak that products of each precision reach, ``wave`` the share of
    a wave of tiles on ``sms`` multiprocessors that is lost, ``attention`` the shares of the 16-bit
    peak that attention kernels reach on long sequences. ``peaks`` are those of precisions below
    bf16 [FLOP/s]. They are fitted on published runs, not measured kernel by kernel; where no run of
    the accelerator was published, ``fitted`` is false and they are carried over from others.
    ``scored`` names the training stacks of which runs were predicted and compared, and the
    precisions of these runs: times of other stacks have a wider error bar. ``held_out`` are bars of
    your own runs, by class of the model, in place of those of published ones. ``dated`` is what
    counts under software of a date; without it there are times by no date alone.
    """

    fitted: bool = True
    gemm: dict[Precision, records.PositiveShare]
    wave: records.NonNegativeFloat
    sms: records.PositiveInt
    attention: dict[AttentionKernel, records.PositiveShare]
    peaks: dict[Precision, records.PositiveFloat] = field(default_factory=dict)
    scored: dict[str, tuple[Precision, ...]] = field(default_factory=dict)
    held_out: dict[ModelClass, HeldOut] = field(default_factory=dict)
    dated: DatedRates | None = None


class Housing(Sourced, frozen=True, kw_only=True):
    """What an accelerator stands in: so many [1] in a server of so many rack units [U].

    Without ``units`` it is a rack of its own, which holds ``gpus`` and is fed as it needs.
    ``switched`` is false where they are joined by links of their own, without a switch.
    """

    gpus: records.PositiveInt
    units: records.PositiveInt | None = None
    switched: bool = True


class Accelerator(Record, frozen=True, kw_only=True):
    """One accelerator, as its catalog file describes it.

    Peak rates are dense (no 2:4 sparsity); ``narrow_flops_per_s`` has those of numbers below 16
    bits, as the data sheet prints them. Bandwidths are per GPU and one-way; a data sheet that
    adds both directions is halved, and the file's notes say so. ``hb_size`` is the HB domain that
    the product is sold in, ``chip_ports`` the network ports that it has itself, for links to its
    neighbours; a switch is reached through a network card, of which a GPU may have several that
    share ``network_bytes_per_s``. ``torus_dimensions`` are those of the torus that its own ports
    make, 0 of what is sold otherwise. ``sold_in`` are the servers that it comes in, by which
    fabrics say whom they are for; empty where nobody has looked. ``sold_as`` is another file of
    the same chip, as those servers have it. ``housing`` is the server or rack that it stands in,
    by which halls place it and by which the gear of its HB domains is counted. ``sources`` gives
    the origin of single values by key.

    ``cage_cards`` cards of a server share a cage, whose module then carries a link of each: two in
    a DGX H100, whose eight cards have four twin-port cages.

    What follows is for mapping kernels onto the chip. ``tiles`` compute tiles multiply
    ``vector_width`` x ``stage_height`` numbers a cycle each; a chip without them computes at
    ``compute_utilisation`` of its peak. ``execution`` says whether kernels run one by one, or are
    kept together as far as ``sram_bytes`` reach.

    ``expanded_bytes`` are a second memory behind the first: CXL, the host's, or another kind on the
    board. What the first has no room for lies there (`netplan.performance.tiers`).

    ``usable_bytes`` are what the driver shows to a program of the memory. Boxes say GB and mean
    nearly GiB, so that it may be more than ``memory_bytes``; where a file does not say, it is 0.98
    of them. ``host_bytes_per_s`` is the link to the CPU's memory, each way; 0: none is known.
    ``memory_software``, a row of `traffic/stacks/memory.csv`, is what trains on chips that run
    other software than GPUs do; empty where it is the stack that a run asks for.

    ``training`` says what whole runs reach, ``measured`` what single kernels take: numbers of the
    one are never used for the other. ``tables`` names measured times of kernels, which serving
    interpolates (`netplan.workloads.kernel_tables`).

    ``power_caps`` are what it computes under a limit of its power. Where one is asked for, in watts
    or as a share of ``power_w``, `load` makes the chip slower by them and ``power_w`` that limit;
    its peaks are then what the limit leaves of them.

    Examples
    --------
    >>> chip = ACCELERATORS.load("sn40l")
    >>> chip.memory_bytes, chip.expanded_bytes, chip.expanded_bytes_per_s
    (64000000000.0, 1500000000000.0, 100000000000.0)
    """

    tensor_flops_per_s: records.PositiveFloat
    vector_flops_per_s: records.PositiveFloat
    narrow_flops_per_s: dict[Precision, records.PositiveFloat] = field(default_factory=dict)
    memory_bytes: records.PositiveFloat
    usable_bytes: records.NonNegativeFloat = 0.0
    memory_software: str = ""
    memory_bytes_per_s: records.PositiveFloat
    hb_size: records.PositiveInt
    hb_bytes_per_s: records.PositiveFloat
    hb_latency_s: records.NonNegativeFloat
    network_bytes_per_s: records.PositiveFloat
    network_latency_s: records.NonNegativeFloat
    power_w: records.PositiveFloat
    power_caps: PowerCaps | None = None
    power_cap_w: records.NonNegativeFloat = 0.0
    power_cap_share: records.PositiveShare = 1.0
    housing: Housing | None = None
    sold_in: str = ""
    torus_dimensions: records.NonNegativeInt = 0
    sold_as: str = ""
    chip_ports: records.NonNegativeInt = 0
    network_cards: records.PositiveInt = 1
    cage_cards: records.PositiveInt = 1
    tiles: records.PositiveInt | None = None
    vector_width: records.PositiveInt | None = None
    stage_height: records.PositiveInt | None = None
    clock_hz: records.PositiveFloat | None = None
    compute_utilisation: records.PositiveShare | None = None
    execution: Execution = "kernel-by-kernel"
    sram_bytes: records.NonNegativeFloat = 0.0
    expanded_bytes: records.NonNegativeFloat = 0.0
    expanded_bytes_per_s: records.NonNegativeFloat = 0.0
    expanded_latency_s: records.NonNegativeFloat = 0.0
    host_bytes_per_s: records.NonNegativeFloat = 0.0
    training: TrainingRates | None = None
    measured: MeasuredRates | None = None
    tables: KernelTables | None = None
    sources: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def short(self) -> str:
        """What people call it: its title without maker and facts; whether nobody can order it.

        Examples
        --------
        >>> ACCELERATORS.load("b200-1000w").short, ACCELERATORS.load("tpu-v7").short
        ('B200', 'TPU v7')
        >>> ACCELERATORS.load("vr-nvl72").short
        'Rubin (announced)'
        """
        words = re.split(r",| \(| as | at ", self.title, maxsplit=1)[0].split()
        number = next((place for place, word in enumerate(words) if re.search(r"\d", word)), None)
        shown = words[1:] or words
        if number is not None:
            behind = number > 0 and words[number][0] in "v0123456789"
            shown = words[number - behind : number + 1]
        capped = [f"at {self.power_cap_w:g} W"] if self.power_cap_w else []
        return " ".join([*shown, *([f"({self.unsold})"] if self.unsold else []), *capped])

    @property
    def full_power_w(self) -> float:
        """Power without a cap [W]."""
        return self.power_w / self.power_cap_share if self.power_cap_w else self.power_w

    @property
    def peaks_flops_per_s(self) -> dict[Precision, float]:
        """Peaks of matrix products in every precision that it has [FLOP/s]."""
        return {"bf16": self.tensor_flops_per_s, **self.narrow_flops_per_s}

    @property
    def card_gbps(self) -> float:
        """Rate of the port of one network card, one direction [Gb/s].

        Examples
        --------
        >>> ACCELERATORS.load("h200").card_gbps, ACCELERATORS.load("mi455x").card_gbps
        (400.0, 800.0)
        """
        return gbps(self.network_bytes_per_s) / self.network_cards

    def __post_init__(self) -> None:
        """Refuse tiles, and an expanded memory, known in part, and too many usable bytes."""
        if not self.usable_bytes:
            structs.force_setattr(self, "usable_bytes", USABLE_SHARE * self.memory_bytes)
        if self.usable_bytes > MOST_USABLE * self.memory_bytes:
            raise ValueError(
                f"usable_bytes: got {self.usable_bytes:g}, more than {MOST_USABLE:g} x memory_bytes"
                f" {self.memory_bytes:g}: give what the driver shows of the memory, or leave it out"
            )
        given = [self.tiles, self.vector_width, self.stage_height, self.clock_hz]
        if None in given and any(given):
            raise ValueError(
                "tiles, vector_width, stage_height and clock_hz describe the compute tiles"
                " together: give all four or none"
            )
        if self.expanded_bytes and not self.expanded_bytes_per_s:
            raise ValueError(
                "expanded_bytes without expanded_bytes_per_s: give the bandwidth of the expanded"
                " memory, or leave it out"
            )
        if self.expanded_bytes_per_s and not self.expanded_bytes:
            raise ValueError(
                "expanded_bytes_per_s without expanded_bytes: give the capacity of the expanded"
                " memory, or leave it out"
            )


class AcceleratorCatalog(Catalog[Accelerator], frozen=True):
    """Accelerator files, beside which tables of corrections may lie."""

    def load(
        self, name: str, roots: Sequence[Path] = (), overrides: Mapping[str, str] | None = None
    ) -> Accelerator:
        """Load one accelerator; where its corrections lie is known then, and nothing read.

        Another capacity is usable in the same share, unless that is given, too.
        """
        return super().load(name, roots, self._scaled(name, roots, overrides or {}))

    def completed(self, record: Accelerator, path: Path, roots: Sequence[Path]) -> Accelerator:
        """The accelerator under its power cap, with the places of its tables."""
        accelerator = _placed(self._capped(record, roots), path, roots)
        if accelerator.measured is None:
            return accelerator
        measured = accelerator.measured
        for key, table in measured.tables.items():
            if Path(table).name != table:
                raise CatalogError(
                    f"{path}: measured.{key}: got {one_line(table)!r}: give the name of a table"
                    " in the same folder"
                )
            measured = measured.changed(**{key: str(path.with_name(table))})
        return accelerator.changed(measured=measured)

    def _capped(self, chip: Accelerator, roots: Sequence[Path]) -> Accelerator:
        """The accelerator under the power cap that it is asked for, if that is below its power.

        Raises
        ------
        InputError
            If nobody has published what it computes under that cap.
        """
        watts = chip.power_cap_w or chip.power_cap_share * chip.power_w
        if watts == chip.power_w:
            return chip.changed(power_cap_w=0.0, power_cap_share=1.0)
        if chip.power_caps is None or watts > chip.power_w:
            names = self.paths(roots) if chip.power_caps is None else ()
            chips = (super(AcceleratorCatalog, self).load(name, roots) for name in names)
            known = [other.name for other in chips if other.power_caps]
            raise no_cap(chip.name, watts, chip.power_w, known)
        speed = chip.power_caps.point_at(watts, chip.name).speed
        return chip.changed(
            power_w=watts,
            power_cap_w=watts,
            power_cap_share=watts / chip.power_w,
            tensor_flops_per_s=speed * chip.tensor_flops_per_s,
            vector_flops_per_s=speed * chip.vector_flops_per_s,
            narrow_flops_per_s=_slowed(chip.narrow_flops_per_s, speed),
            clock_hz=chip.clock_hz and speed * chip.clock_hz,
            training=chip.training
            and chip.training.changed(peaks=_slowed(chip.training.peaks, speed)),
            measured=chip.measured and chip.measured.slowed(speed),
            tables=chip.tables and chip.tables.changed(speed=speed),
        )

    def _scaled(
        self, name: str, roots: Sequence[Path], overrides: Mapping[str, str]
    ) -> Mapping[str, str]:
        """Overrides with the usable bytes of another capacity."""
        file = super().load(name, roots) if overrides else None
        for role in (self.role, file.name) if file else ():
            text = overrides.get(f"{role}.memory_bytes", "")
            with suppress(ValueError):  # a text that is no number: the reader says so
                capacity = float(text)
                given = any(key.endswith(".usable_bytes") for key in overrides)
                if file and not given and 0 < capacity < inf:
                    usable = capacity / file.memory_bytes * file.usable_bytes
                    return {**overrides, f"{role}.usable_bytes": repr(usable)}
        return overrides


def _placed(chip: Accelerator, path: Path, roots: Sequence[Path]) -> Accelerator:
    """The accelerator with the places of its tables of kernels, read or not; a user's come first.

    Raises
    ------
    CatalogError
        If a table is no name.
    """
    if chip.tables is None:
        return chip
    places = {}
    for kind, name in chip.tables.named.items():
        if Path(name).name != name:
            raise CatalogError(
                f"{path}: tables.{kind}: got {one_line(name)!r}: give the name of a table in"
                f" {TABLES_FOLDER}"
            )
        files = [
            root / TABLES_FOLDER / f"{name}{suffix}"
            for root in (*roots, shipped_root())
            for suffix in TABLE_SUFFIXES
        ]
        places[kind] = str(next((file for file in files if file.is_file()), files[-1]))
    return chip.changed(tables=chip.tables.changed(**places))


def _slowed(rates: dict[Precision, float], speed: float) -> dict[Precision, float]:
    """Rates of all precisions at a share of their speed."""
    return {precision: speed * rate for precision, rate in rates.items()}


ACCELERATORS = AcceleratorCatalog("accelerator", "traffic/accelerators", Accelerator)


def accelerator_of(accelerator: Accelerator | str) -> Accelerator:
    """An accelerator as such, or by its name in the catalogs of ``NETPLAN_CATALOG``.

    Examples
    --------
    >>> accelerator_of("h100-80gb").memory_bytes
    80000000000.0
    """
    if isinstance(accelerator, Accelerator):
        return accelerator
    return ACCELERATORS.load(accelerator, user_roots())
