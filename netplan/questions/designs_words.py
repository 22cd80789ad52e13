"""Designs, amounts and ratios in words, for tables, notes and errors."""

from netplan.questions.designs import Design
from netplan.reports.text import number
from netplan.units import si

MILLIONS_FROM = 1e6


def ratio(oversubscription: float | None) -> str:
    """Oversubscription as people write it; a dash for none.

    Examples
    --------
    >>> ratio(3.0), ratio(1.5), ratio(None)
    ('3:1', '1.5:1', '-')
    """
    return "-" if oversubscription is None else f"{oversubscription:g}:1"


def counted(count: int, one: str, many: str = "") -> str:
    """A count with its noun.

    Examples
    --------
    >>> counted(1, "design"), counted(1280, "switch", "switches")
    ('1 design', '1,280 switches')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def watts(power_w: float) -> str:
    """Power in a unit that suits it.

    Examples
    --------
    >>> watts(2_345_600), watts(800)
    ('2.35 MW', '800 W')
    """
    return si(power_w, "W")


def money(amount: float, currency: str) -> str:
    """An amount in millions or thousands.

    Examples
    --------
    >>> money(49_020_928.0, "USD"), money(65_536, "EUR")
    ('49.0 M USD', '65.5 k EUR')
    """
    scale, prefix = (1e6, "M") if amount >= MILLIONS_FROM else (1e3, "k")
    return f"{amount / scale:,.1f} {prefix} {currency}"


def ports(design: Design) -> str:
    """The switch: its model or its radix; a dash without switches."""
    return design.switch.name if design.switch else number(design.radix)


def label(design: Design) -> str:
    """A design in a few words, such as ``rail-only, HB 64, radix 128, 3:1``."""
    parts = [design.choice.spec.name, f"HB {design.fabric.sizing.hb_size:,}"]
    if design.radix is not None:
        parts.append(design.switch.name if design.switch else f"radix {design.radix}")
    thin = design.oversubscription
    if thin is not None and thin > 1:
        parts.append(ratio(thin))
    return ", ".join(parts)
