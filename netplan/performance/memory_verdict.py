"""Whether what a plan holds fits: verdicts on computed peaks, and a plan's memory part by part.

A peak fits for sure if it does with fragments and what lies outside of the allocator; it does not
where not even the low end of the error fits; between them it is tight. All constants were fitted on
peaks that training software printed (`netplan.performance.stack_memory`).
"""

from typing import Literal

from msgspec import Struct

OUTSIDE_BYTES = 2e9
"""CUDA context and NCCL, outside of torch's allocator; fitted on printed peaks [B]."""

FRAGMENTATION = 1.03
"""Reserved over allocated memory: median of six printed pairs from 1.03 to 1.11, with expandable
segments [1]."""

LOW, HIGH = 0.88, 1.20
"""Printed over computed peak, near its 5th and 95th percentile over peaks above 8 GB [1]."""

NEVER_COMPARED = (
    "memory of this software (hybrids: of this kind of layer) was never compared with a run"
)
"""Note where nothing is refused for its memory."""

Verdict = Literal["fit", "tight", "no"]
Basis = Literal["checked", "unchecked"]


def peaks_of(usable_bytes: float) -> tuple[float, float]:
    """Peaks up to which plans fit, with fragments, and up to which they may.

    Parameters
    ----------
    usable_bytes
        What the driver shows of the memory [B].

    Returns
    -------
    tuple[float, float]
        Of the allocator; beside them lies what is outside of it [B].

    Examples
    --------
    80 GB of an H100, of which programs see 84.9.

    >>> [round(peak / 1e9, 1) for peak in peaks_of(84.9e9)]
    [80.5, 94.2]
    """
    allocated = usable_bytes - OUTSIDE_BYTES
    return allocated / FRAGMENTATION, allocated / LOW


def verdict(peak_bytes: float, usable_bytes: float, *, checked_kind: bool = True) -> Verdict:
    """Whether a plan fits, may fit, or does not.

    Parameters
    ----------
    peak_bytes, usable_bytes
        Computed peak; what the driver shows of the memory [B].
    checked_kind
        Whether runs of this software and kind of layer were compared; others are never refused.

    Returns
    -------
    str
        ``fit``, ``tight`` or ``no``.

    Examples
    --------
    >>> [verdict(peak, 84.9e9) for peak in (75.6e9, 88.3e9, 99e9)]
    ['fit', 'tight', 'no']
    """
    sure_bytes, most_bytes = peaks_of(usable_bytes)
    if peak_bytes <= sure_bytes:
        return "fit"
    return "no" if checked_kind and peak_bytes > most_bytes else "tight"


class PlanMemory(Struct, frozen=True):
    """What a plan holds on its fullest GPU, as training software keeps it.

    Parameters
    ----------
    verdict
        Whether it fits, may fit (``tight``), or does not.
    peak_bytes, low_bytes, high_bytes, usable_bytes
        Memory, between what it lies in nine of ten runs, and what a program sees [B].
    stage, in_flight, layers
        The fullest stage, from 0 on; microbatches whose activations it holds; its layers [1].
    states, activations, head_or_backward, gathered, workspace, outside
        Parts of it; ``outside`` of the allocator beside them [B].
    by_operation
        What one layer keeps of one microbatch, by kind of layer and operation [B].
    basis
        Whether memory of this software was compared with runs.
    """

    verdict: Verdict
    peak_bytes: float
    low_bytes: float
    high_bytes: float
    usable_bytes: float
    stage: int
    states: float
    activations: float
    head_or_backward: float
    gathered: float
    workspace: float
    outside: float
    in_flight: float
    layers: float
    by_operation: dict[str, dict[str, float]]
    basis: Basis

    @property
    def fits(self) -> bool:
        """Whether it fits for sure."""
        return self.verdict == "fit"

    @property
    def words(self) -> str:
        """The peak between its ends, of what a program sees, such as ``88 GB (78-106) of 85``.

        With the verdict behind it where the plan does not fit for sure.
        """
        bytes_of = (self.peak_bytes, self.low_bytes, self.high_bytes, self.usable_bytes)
        peak, low, high, usable = (round(number / 1e9) for number in bytes_of)
        sure = "" if self.fits else f": {self.verdict}"
        return f"{peak} GB ({low}-{high}) of {usable}{sure}"
