"""Recovery presets: how a job saves its work and comes back, as fleets of today do it.

A preset is a catalog file. Its times are constants, or printed for some sizes of a cluster, between
which they are interpolated over the logarithm of the GPUs; beyond the largest each doubling adds
what the file says. What a restart takes is the sum of its steps.
"""

from itertools import pairwise
from math import log2

from netplan.catalog import Catalog, Record
from netplan.costing.ranges import Range
from netplan.faults.years.forecast import CheckpointPolicy
from netplan.inputs.choices import Confirmed, Evidence
from netplan.records import Entry, NonNegativeFloat, PositiveFloat, PositiveInt
from netplan.units import SECONDS_PER_HOUR


class OnGpus(Entry, frozen=True, kw_only=True):
    """A time [s] or number [1] of a preset, with how far it is confirmed.

    Either ``base`` (with ``low`` and ``high``), or ``by_gpus``, pairs of GPUs and value, with
    ``per_doubling`` beyond the largest; these are divided by ``times_faster``.
    """

    what: str
    base: NonNegativeFloat | None = None
    low: NonNegativeFloat | None = None
    high: NonNegativeFloat | None = None
    by_gpus: tuple[tuple[PositiveInt, NonNegativeFloat], ...] = ()
    per_doubling: NonNegativeFloat = 0.0
    times_faster: PositiveFloat = 1.0
    source: str
    date: str
    evidence: Evidence
    confirmed: Confirmed

    def __post_init__(self) -> None:
        """Refuse no value, two, and ends or sizes out of order."""
        if (self.base is None) != bool(self.by_gpus):
            raise ValueError(f"{self.what}: give either base (with low, high) or by_gpus")
        sizes = [gpus for gpus, _ in self.by_gpus]
        if sizes != sorted(set(sizes)):
            raise ValueError(f"{self.what}: by_gpus runs from few GPUs to many, got {sizes}")
        ends = self.value_on(sizes[0] if sizes else 1)
        if not ends.low <= ends.base <= ends.high:
            raise ValueError(
                f"{self.what}: values run low <= base <= high, got {ends.low:g}, {ends.base:g},"
                f" {ends.high:g}"
            )

    def value_on(self, gpus: int) -> Range:
        """The value on so many GPUs; a missing end is the base.

        Examples
        --------
        Printed are 454, 545, 635 and 768 s; another doubling adds 103 s.

        >>> schedule = RECOVERY_PRESETS.load("cold-restart").restart[-1]
        >>> [round(schedule.value_on(gpus).base) for gpus in (1024, 2048, 2896, 16_384, 32_768)]
        [454, 454, 499, 768, 871]
        """
        if self.base is not None:
            low = self.base if self.low is None else self.low
            return Range(low, self.base, self.base if self.high is None else self.high)
        (least, value), (most, last) = self.by_gpus[0], self.by_gpus[-1]
        if gpus >= most:
            value = last + self.per_doubling * log2(gpus / most)
        elif gpus > least:
            (few, low), (many, high) = next(
                pair for pair in pairwise(self.by_gpus) if gpus < pair[1][0]
            )
            value = low + (high - low) * log2(gpus / few) / log2(many / few)
        return Range.point(value / self.times_faster)


class RecoveryPreset(Record, frozen=True, kw_only=True):
    """How a job saves its work and comes back after an interruption.

    ``restart`` are the steps until it computes again, ``write`` what a checkpoint holds it up.
    ``to_storage`` says that checkpoints go to storage, so that the time to write follows from bytes
    and rate where these are known. Checkpoints are ``interval`` apart, or one is written in
    ``each_iteration``, which has the time of one that is not timed; without either they are apart
    as is best. ``remainder`` is what an interruption loses beyond restart and checkpoints: a
    preset with one is an upper bound without it. ``machines`` stand by.
    """

    restart: tuple[OnGpus, ...]
    write: OnGpus
    to_storage: bool = False
    interval: OnGpus | None = None
    each_iteration: OnGpus | None = None
    remainder: OnGpus | None = None
    machines: OnGpus | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a preset with two intervals."""
        if self.interval is not None and self.each_iteration is not None:
            raise ValueError("interval, each_iteration: give one of them, or neither for the best")

    @property
    def is_upper_bound(self) -> bool:
        """Whether the work that is rolled back has been left out."""
        return self.remainder is not None and not self.remainder.base

    @property
    def counts_rolled_back(self) -> bool:
        """Whether each interruption loses work that is rolled back, which other presets leave out.

        Examples
        --------
        >>> [RECOVERY_PRESETS.load(name).counts_rolled_back for name in ("llama3", "in-memory")]
        [False, True]
        """
        return self.remainder is not None and self.remainder.base != 0

    def policy(
        self,
        gpus: int,
        *,
        storage_s: Range | None = None,
        write_s: float | None = None,
        interval_s: float | None = None,
        restart_s: float | None = None,
    ) -> CheckpointPolicy:
        """How a job on so many GPUs saves its work.

        Parameters
        ----------
        gpus
            GPUs of the job [1].
        storage_s
            Time to write a checkpoint to the cluster's storage, if it has any [s].
        write_s, interval_s, restart_s
            Times in place of the preset's [s]; with a time to write alone the interval is the best.

        Examples
        --------
        Printed by ByteRobust: 768 / 10.87 = 71 s to take over, and 60 s before.

        >>> policy = RECOVERY_PRESETS.load("warm-standby").policy(16_384)
        >>> round(3600 * policy.restart_h), round(60 * policy.remainder_h, 1)
        (131, 22.5)
        """
        # What the preset has between two checkpoints goes with its time to write one.
        best = write_s is not None and interval_s is None
        writes_s = self.write.value_on(gpus)
        if write_s is not None:
            writes_s = Range.point(write_s)
        elif self.to_storage and storage_s is not None:
            writes_s = storage_s
        if restart_s is None:
            restart_s = sum(step.value_on(gpus).base for step in self.restart)
        each_iteration = interval_s is None and self.each_iteration is not None and not best
        between = self.each_iteration if each_iteration else self.interval
        if interval_s is None and between is not None and not best:
            interval_s = between.value_on(gpus).base
        remainder_s = self.remainder.value_on(gpus).base if self.remainder else 0.0
        return CheckpointPolicy(
            write_h=writes_s.base / SECONDS_PER_HOUR,
            write_ends_h=(writes_s.low / SECONDS_PER_HOUR, writes_s.high / SECONDS_PER_HOUR),
            restart_h=restart_s / SECONDS_PER_HOUR,
            interval_h=None if interval_s is None else interval_s / SECONDS_PER_HOUR,
            each_iteration=each_iteration,
            remainder_h=remainder_s / SECONDS_PER_HOUR,
        )


RECOVERY_PRESETS = Catalog("recovery", "costing/recovery", RecoveryPreset)
