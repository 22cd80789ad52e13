"""Where a few GPUs fewer or more need far fewer switches: what one GPU too many sets off.

A Clos of radix r needs another tier, or another rank of leaves, from one GPU to the next: limits
are products of r / 2, r and the GPUs K of an HB domain, which are neighbours under a leaf. So of
all sizes near N only multiples of such products can lie at the foot of a cliff, and only they are
sized: counts, no bills. A network of one tier has none.
"""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from netplan.errors import NetplanError
from netplan.records import replace
from netplan.topologies.build import build_fabric
from netplan.topologies.fabric import Fabric, Sizing
from netplan.topologies.specs import FabricSpec
from netplan.units import counted

MOST_GPUS = 0.03
"""Share of the GPUs that a size beside may differ by [1]."""

LEAST_SWITCHES, LEAST_RATIO = 0.05, 5
"""Share of the switches that it must spare [1], and how often that of the GPUs given up."""


class Cliff(Struct, frozen=True):
    """A size beside the one asked for that needs clearly fewer switches.

    Parameters
    ----------
    fabric
        Its name.
    gpus, switches
        GPUs asked for, and the switches that they need [1].
    other_gpus, other_switches
        Of the size beside [1].
    """

    fabric: str
    gpus: int
    switches: int
    other_gpus: int
    other_switches: int

    @property
    def fewer_switches(self) -> int:
        """Switches that it spares [1]."""
        return self.switches - self.other_switches

    @property
    def more_gpus(self) -> int:
        """GPUs that it has more; negative if fewer [1]."""
        return self.other_gpus - self.gpus

    @property
    def sentence(self) -> str:
        """What it spares, and for how many GPUs.

        Examples
        --------
        >>> Cliff("rail-only", 16_416, 1_440, 16_384, 768).sentence
        'Price cliff, rail-only: 32 GPUs fewer (16,384) need 672 switches less (768).'
        """
        way = "more" if self.more_gpus > 0 else "fewer"
        gpus = f"{counted(abs(self.more_gpus), 'GPU')} {way} ({self.other_gpus:,})"
        return (
            f"Price cliff, {self.fabric}: {gpus} need"
            f" {self.fewer_switches:,} switches less ({self.other_switches:,})."
        )


def cliff_of(spec: FabricSpec, sizing: Sizing, fabric: Fabric) -> Cliff | None:
    """The size beside that spares most switches; None where none is clearly better.

    Parameters
    ----------
    spec, sizing, fabric
        The fabric, what is asked of it, and its sized form.

    Returns
    -------
    Cliff or None
        At most 3 % of the GPUs away, with at least 5 % of the switches less, and five times the
        share of the GPUs that it gives up.

    Examples
    --------
    Two tiers of radix 64 hold 2,048 GPUs a rail, of eight rails.

    >>> from netplan import Scenario
    >>> from netplan.topologies.specs import FABRICS
    >>> spec = FABRICS.load("rail-only")
    >>> for gpus in (16_416, 16_384):
    ...     sizing = Scenario.load("hgx-b200").replace(gpus=gpus, radix=64).sizing
    ...     cliff = cliff_of(spec, sizing, build_fabric(spec, sizing))
    ...     print(cliff and (cliff.more_gpus, cliff.other_switches))
    (-32, 768)
    None
    """
    switches = fabric.switches
    best: Cliff | None = None
    for gpus in _sizes(sizing) if len(fabric.tiers) > 1 else ():
        try:
            other = build_fabric(spec, replace(sizing, gpus=gpus)).switches
        except NetplanError:
            continue
        spared = (switches - other) / switches
        given_up = max(0.0, (sizing.gpus - gpus) / sizing.gpus)
        if spared < LEAST_SWITCHES or spared < LEAST_RATIO * given_up:
            continue
        near_by = Cliff(fabric.name, sizing.gpus, switches, gpus, other)
        if best is None or (near_by.fewer_switches, -abs(near_by.more_gpus)) > (
            best.fewer_switches,
            -abs(best.more_gpus),
        ):
            best = near_by
    return best


def cliffs_of(
    specs: Iterable[FabricSpec], sizing: Sizing, fabrics: Iterable[Fabric]
) -> tuple[Cliff, ...]:
    """The cliffs of several fabrics of one size, the steepest first.

    Parameters
    ----------
    specs
        The fabrics.
    sizing
        What is asked of them.
    fabrics
        Those that can be built, sized.

    Returns
    -------
    tuple of Cliff
        One for each fabric that has one.
    """
    known = {fabric.name: fabric for fabric in fabrics}
    sized = [cliff_of(spec, sizing, known[spec.name]) for spec in specs if spec.name in known]
    cliffs = [cliff for cliff in sized if cliff]
    return tuple(sorted(cliffs, key=lambda cliff: -cliff.fewer_switches))


def _sizes(sizing: Sizing) -> Iterator[int]:
    """Sizes near by at which a tier, or a rank of leaves, is full [1]."""
    half, domain, asked = max(1, sizing.radix // 2), sizing.hb_size, sizing.gpus
    steps = {power * size for power in (half, half**2, half**3) for size in (1, 2)}
    steps |= {step * domain for step in steps}
    seen = {asked}
    for step in sorted(steps):
        if step > asked * (1 + MOST_GPUS):
            break
        for gpus in (asked // step * step, -(-asked // step) * step):
            near = abs(gpus - asked) <= MOST_GPUS * asked
            if near and gpus >= domain and gpus not in seen:
                seen.add(gpus)
                yield gpus
