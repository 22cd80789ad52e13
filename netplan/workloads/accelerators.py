"""Accelerator files: what one GPU computes, stores and sends."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec import field

from netplan.catalog import Catalog, Record, user_roots
from netplan.errors import CatalogError, one_line
from netplan.inputs.choices import Execution, Precision
from netplan.records import (
    Entry,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    PositiveShare,
)
from netplan.workloads.measured_rates import MeasuredRates

AttentionKernel = Literal["unfused", "fa2", "cudnn"]


class TrainingRates(Entry, frozen=True, kw_only=True):
    """What whole training runs reach of an accelerator's peaks, for iteration model ``calibrated``.

    ``gemm`` are the shares of the peak that products of each precision reach, ``wave`` the share of
    a wave of tiles on ``sms`` multiprocessors that is lost, ``attention`` the shares of the 16-bit
    peak that attention kernels reach on long sequences. ``peaks`` are those of precisions below
    bf16 [FLOP/s]. They are fitted on published runs, not measured kernel by kernel; where no run of
    the accelerator was published, ``fitted`` is false and they are carried over from others.
    ``scored`` names the training stacks of which runs were predicted and compared, and the
    precisions of these runs: times of other stacks have a wider error bar.
    """

    fitted: bool = True
    gemm: dict[Precision, PositiveShare]
    wave: NonNegativeFloat
    sms: PositiveInt
    attention: dict[AttentionKernel, PositiveShare]
    peaks: dict[Precision, PositiveFloat] = field(default_factory=dict)
    scored: dict[str, tuple[Precision, ...]] = field(default_factory=dict)


class Accelerator(Record, frozen=True, kw_only=True):
    """One accelerator, as its catalog file describes it.

    Peak rates are dense (no 2:4 sparsity); ``narrow_flops_per_s`` has those of numbers below 16
    bits, as the data sheet prints them. Bandwidths are per GPU and one-way; a data sheet that
    adds both directions is halved, and the file's notes say so. ``hb_size`` is the HB domain that
    the product is sold in, ``chip_ports`` the network ports that it has itself, for links to its
    neighbours; a switch is reached through a network card. ``sold_in`` are the servers that it
    comes in, ``sold_networks`` the families of fabrics that makers join these to; empty where
    nobody has looked. ``sources`` gives the origin of single values by key.

    What follows is for mapping kernels onto the chip. ``tiles`` compute tiles multiply
    ``vector_width`` x ``stage_height`` numbers a cycle each; a chip without them computes at
    ``compute_utilisation`` of its peak. ``execution`` says whether kernels run one by one, or are
    kept together as far as ``sram_bytes`` reach.

    ``expanded_bytes`` are a second memory behind the first: CXL, the host's, or another kind on the
    board. What the first has no room for lies there (`netplan.performance.tiers`).

    ``training`` says what whole runs reach, ``measured`` what single kernels take: numbers of the
    one are never used for the other.

    Examples
    --------
    >>> chip = ACCELERATORS.load("sn40l")
    >>> chip.memory_bytes, chip.expanded_bytes, chip.expanded_bytes_per_s
    (64000000000.0, 1500000000000.0, 100000000000.0)
    """

    tensor_flops_per_s: PositiveFloat
    vector_flops_per_s: PositiveFloat
    narrow_flops_per_s: dict[Precision, PositiveFloat] = field(default_factory=dict)
    memory_bytes: PositiveFloat
    memory_bytes_per_s: PositiveFloat
    hb_size: PositiveInt
    hb_bytes_per_s: PositiveFloat
    hb_latency_s: NonNegativeFloat
    network_bytes_per_s: PositiveFloat
    network_latency_s: NonNegativeFloat
    power_w: PositiveFloat
    sold_in: str = ""
    sold_networks: tuple[str, ...] = ()
    chip_ports: NonNegativeInt = 0
    tiles: PositiveInt | None = None
    vector_width: PositiveInt | None = None
    stage_height: PositiveInt | None = None
    clock_hz: PositiveFloat | None = None
    compute_utilisation: PositiveShare | None = None
    execution: Execution = "kernel-by-kernel"
    sram_bytes: NonNegativeFloat = 0.0
    expanded_bytes: NonNegativeFloat = 0.0
    expanded_bytes_per_s: NonNegativeFloat = 0.0
    expanded_latency_s: NonNegativeFloat = 0.0
    training: TrainingRates | None = None
    measured: MeasuredRates | None = None
    sources: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def short(self) -> str:
        """What people call it: its title without maker and facts.

        Examples
        --------
        >>> ACCELERATORS.load("b200-1000w").short, ACCELERATORS.load("tpu-v7").short
        ('B200', 'TPU v7')
        """
        words = re.split(r",| \(| as | at ", self.title, maxsplit=1)[0].split()
        number = next((place for place, word in enumerate(words) if re.search(r"\d", word)), None)
        if number is None:
            return " ".join(words[1:] or words)
        first = number - 1 if words[number].startswith("v") and number else number
        return " ".join(words[first : number + 1])

    def sold_with(self, family: str) -> bool:
        """Whether makers join it by fabrics of a family, as far as its file says.

        Parameters
        ----------
        family
            Family of a fabric; graphs are people's own, of which they know.

        Returns
        -------
        bool
            True where the file does not say.

        Examples
        --------
        >>> chip = ACCELERATORS.load("b200-1000w")
        >>> chip.sold_with("clos"), chip.sold_with("torus")
        (True, False)
        """
        return not self.sold_networks or family in (*self.sold_networks, "graph")

    def __post_init__(self) -> None:
        """Refuse tiles, and an expanded memory, that are known in part."""
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
        """Load one accelerator; where its corrections lie is known then, and nothing read."""
        accelerator = super().load(name, roots, overrides)
        if accelerator.measured is None:
            return accelerator
        measured, path = accelerator.measured, self.find(name, roots)
        for key, table in measured.tables.items():
            if Path(table).name != table:
                raise CatalogError(
                    f"{path}: measured.{key}: got {one_line(table)!r}: give the name of a table"
                    " in the same folder"
                )
            measured = measured.changed(**{key: str(path.with_name(table))})
        return accelerator.changed(measured=measured)


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
