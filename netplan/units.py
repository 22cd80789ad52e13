"""Unit conversions, in one place: bits and bytes, decimal prefixes, and numbers for people.

Inside netplan all quantities are SI (bytes, seconds, watts, FLOP/s) and GB is 10^9 bytes. Names
carry their unit; a conversion happens only through a function of this module.
"""

from math import floor, log10

BITS_PER_BYTE = 8
PERCENT = 100
MILLI = 1e-3
KILO, MEGA, GIGA = 1e3, 1e6, 1e9
PETA = 1e15
SECONDS_PER_MINUTE, SECONDS_PER_HOUR, TEN_SECONDS = 60.0, 3600.0, 10.0
MINUTES_PER_HOUR = 60.0
HOURS_PER_DAY, DAYS_PER_WEEK, DAYS_PER_YEAR, HOURS_PER_YEAR = 24, 7, 365, 8760.0
DAY_S, YEAR_S = 86_400.0, 31_536_000.0

_THOUSAND = 1000.0
_PREFIXES = tuple(
    (_THOUSAND**power, prefix) for power, prefix in zip(range(6, -4, -1), "EPTGMk mµn", strict=True)
)


def power_scale(most_w: float) -> tuple[float, str]:
    """Watts of the unit that a column of powers has, and the unit.

    Parameters
    ----------
    most_w
        Largest power of the column [W].

    Returns
    -------
    tuple of float and str
        MW from one megawatt on, else kW.

    Examples
    --------
    >>> power_scale(2.5e6), power_scale(48e3)
    ((1000000.0, 'MW'), (1000.0, 'kW'))
    """
    return (MEGA, "MW") if most_w >= MEGA else (KILO, "kW")


def gbps(bytes_per_s: float) -> float:
    """Bandwidth in Gb/s (10^9 bit/s) from B/s.

    Parameters
    ----------
    bytes_per_s
        Bandwidth [B/s].

    Returns
    -------
    float
        Bandwidth [Gb/s].

    Examples
    --------
    >>> gbps(50e9)
    400.0
    """
    return bytes_per_s * BITS_PER_BYTE / GIGA


def bytes_per_s(gbps: float) -> float:
    """Bandwidth in B/s from Gb/s (10^9 bit/s).

    Parameters
    ----------
    gbps
        Bandwidth [Gb/s].

    Returns
    -------
    float
        Bandwidth [B/s].

    Examples
    --------
    >>> bytes_per_s(400)
    50000000000.0
    """
    return gbps * GIGA / BITS_PER_BYTE


def si(value: float, unit: str = "", digits: int = 3) -> str:
    """Write a quantity with an SI prefix.

    Seconds have none from a thousand on, since nobody says kiloseconds.

    Parameters
    ----------
    value
        The quantity, in ``unit``.
    unit
        Its unit without a prefix; empty for a number.
    digits
        Significant digits, zeros at the end left out [1].

    Returns
    -------
    str
        Number, prefix and unit.

    Examples
    --------
    >>> si(989.4e12, "FLOP/s"), si(2.5e-6, "s"), si(0, "W"), si(2365.2, "s")
    ('989 TFLOP/s', '2.5 µs', '0 W', '2,370 s')
    """
    if value == 0:
        return f"0 {unit}".rstrip()
    # Round first: 999,999 B is 1 MB at three digits, not 1e+03 kB.
    rounded = float(f"{value:.{digits}g}")
    if unit == "s" and abs(rounded) >= _THOUSAND:
        return f"{rounded:,.0f} s"
    scale, prefix = next((p for p in _PREFIXES if abs(rounded) >= p[0]), _PREFIXES[-1])
    return f"{float(f'{value / scale:.{digits}g}'):g} {prefix.strip()}{unit}".rstrip()


def si_span(value: float, ends: tuple[float, float], unit: str = "", digits: int = 3) -> str:
    """Write a quantity with its low and high end, in the same prefix and to the same place.

    Parameters
    ----------
    value
        The quantity, in ``unit``.
    ends
        Its low and high end, in ``unit``.
    unit
        Its unit without a prefix; empty for a number.
    digits
        Significant digits of the value; the ends have as many places [1].

    Returns
    -------
    str
        The quantity with prefix and unit, and its ends in brackets.

    Examples
    --------
    >>> si_span(10.4, (9.67, 11.23), "s"), si_span(0.083, (0.0772, 0.0896), "s")
    ('10.4 s (9.7-11.2)', '83.0 ms (77.2-89.6)')
    >>> si_span(2365.2, (2199.6, 2554.4), "s")
    '2,370 s (2,200-2,550)'
    """
    whole = 0.0 if value == 0 else float(f"{value:.{digits}g}")
    scale, prefix = next((p for p in _PREFIXES if abs(whole) >= p[0]), _PREFIXES[-1])
    if unit == "s" and abs(whole) >= _THOUSAND:
        scale, prefix = 1.0, ""
    places = digits - 1 - (floor(log10(abs(whole / scale))) if whole else 0)
    middle, low, high = (
        f"{round(end / scale, places):,.{max(places, 0)}f}" for end in (value, *ends)
    )
    return f"{middle} {prefix.strip()}{unit}".rstrip() + f" ({low}-{high})"


def rounded(value: float, digits: int = 4) -> str:
    """Write a number with so many significant digits and no power of ten.

    Parameters
    ----------
    value
        The number.
    digits
        Significant digits, zeros at the end left out [1].

    Returns
    -------
    str
        The number, with commas between thousands.

    Examples
    --------
    >>> rounded(11_962.3), rounded(2.375049), rounded(1348)
    ('11,960', '2.375', '1,348')
    """
    return f"{float(f'{value:.{digits}g}'):,.12g}"


def counted(count: int, singular: str, many: str = "") -> str:
    """A count with its noun.

    Parameters
    ----------
    count
        How many [1].
    singular
        The noun of one.
    many
        The noun of any other count; ``singular`` with an s where it is empty.

    Returns
    -------
    str
        The count, with commas between thousands, and its noun.

    Examples
    --------
    >>> counted(1, "design"), counted(1280, "switch", "switches")
    ('1 design', '1,280 switches')
    """
    return f"{count:,} {singular if count == 1 else many or singular + 's'}"


def duration(seconds: float) -> str:
    """A time for people, in the two largest units that matter.

    Parameters
    ----------
    seconds
        The time [s].

    Returns
    -------
    str
        The time in days, hours, minutes and seconds.

    Examples
    --------
    >>> duration(0.42), duration(75), duration(7_500), duration(200_000)
    ('0.4 s', '1 min 15 s', '2 h 5 min', '2 d 7 h')
    """
    if seconds < SECONDS_PER_MINUTE:
        return f"{seconds:.1f} s" if seconds < TEN_SECONDS else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
