"""What is known of one input: how it is read, its unit, its range, its help, its flag.

Options of the command line, keywords of Python, keys of a scenario file, axes of studies and the
documentation are made from it, so that an input stands once.
"""

from collections.abc import Iterable, Mapping
from math import inf
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from netplan.errors import InputError
from netplan.inputs import readers
from netplan.records import LARGEST as LARGEST_REAL
from netplan.units import GIGA

Kind = Literal[
    "text",
    "whole",
    "real",
    "ratio",
    "quotient",
    "percent",
    "choice",
    "flag",
    "path",
    "settings",
    "numbers",
    "size",
    "batch",
    "whole-or-auto",
    "power",
    "power-or-share",
    "percent-or-cooling",
    "amounts",
    "changes",
]
Group = Literal["cluster", "workload", "books", "question"]
LARGEST = 10**12
"""Largest whole number of an input that allows no larger one: 64 bits hold its products."""


class Option(Struct, frozen=True):
    """What is known of one input beside its name and type.

    Its kind says how a text is read: ``whole`` (32,768 or 32Ki), ``real``, ``ratio`` (3:1),
    ``quotient`` (the same, below 1 too),
    ``percent`` (7%), ``size`` (512MiB, or a range), ``batch`` (2048, or 0.25/gpu),
    ``whole-or-auto`` (64, or auto: searched), ``power`` (20MW), ``power-or-share`` (500W, or 80%),
    ``percent-or-cooling`` (30%, or cold-plate), ``text`` (a name or a path to a file), ``choice``,
    ``flag``, ``path``, ``settings`` (ROLE.KEY=VALUE), ``numbers`` (NAME=N), ``amounts`` (NAME=X),
    ``changes`` (NAME=VALUE of any input, or ROLE.KEY=VALUE). Its flag is made from the name if
    empty; one that begins with ``--no-`` turns the input off, and two with a slash between them
    turn it on and off, where nothing is a third value. An argument is told by its place, not by a
    flag. ``low`` and ``high`` are both allowed; ``otherwise`` says what holds if nothing is given
    and no default says it, such as ``the accelerator's``; a shared default stands in the defaults
    file; ``values`` counts what follows the flag. A ``source`` is where inputs are read from, and
    none itself. ``--help`` shows what is ``basic`` of a part of the scenario, ``--help-all`` the
    rest too; ``aliases`` are names of before, of the flag and of the keyword alike. What is
    ``quiet`` stands in the inputs of an answer only where it is not at its default. ``synonyms``
    are pairs of two choices that mean the same: the first is read as the second.
    """

    help: str
    kind: Kind = "text"
    flag: str = ""
    many: bool = False
    unit: str = ""
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    metavar: str = ""
    otherwise: str = ""
    shared: bool = False
    role: Literal["input", "source"] = "input"
    argument: bool = False
    values: int = 1
    basic: bool = False
    aliases: tuple[str, ...] = ()
    quiet: bool = False
    synonyms: tuple[tuple[str, str], ...] = ()

    def flag_of(self, name: str) -> str:
        """The flag of an input of this name, without that which turns it off.

        Examples
        --------
        >>> Option("Ports of a switch.").flag_of("hb_size")
        '--hb-size'
        """
        return self.flag or "--" + name.replace("_", "-")

    def shown(self, value: object) -> str:
        """A default in words; empty if it is nothing, or off.

        Examples
        --------
        >>> Option("Off every price.", "percent").shown(0.05), Option("Experts.").shown(None)
        ('5%', '')
        """
        if isinstance(value, bool) or value in (None, (), "", {}):
            return ""  # 0 and 1 are numbers like others
        return f"{value:.0%}" if self.kind == "percent" else str(value)

    def facts(self, default: str = "") -> str:
        """Unit, range, choices and default, in brackets; empty without any.

        Examples
        --------
        >>> Option("Ports.", "whole", unit="ports", low=4, high=1024).facts("128")
        ' [ports; from 4 to 1,024; default: 128]'
        """
        facts = [self.unit] if self.unit else []
        if self.low is not None or self.high is not None:
            low = "" if self.low is None else f"from {self.low:,g}"
            high = "" if self.high is None else f"to {self.high:,.0f}"
            facts.append(f"{low} {high}".strip())
        if self.choices:
            facts.append(", ".join(self.choices))
        facts += [f"default: {default}"] if default else []
        return f" [{'; '.join(facts)}]" if facts else ""


def read_option(name: str, option: Option, value: Any) -> object:  # noqa: ANN401 - of any kind
    """A value as the input that it means; texts as the command line has them.

    Parameters
    ----------
    name, option
        The input.
    value
        A text, a number, or several of them where the input takes several.

    Returns
    -------
    object
        The value, of the input's own type.

    Raises
    ------
    InputError
        If it is no such value: what it is called, and what is allowed.

    Examples
    --------
    >>> read_option("gpus", Option("GPUs.", "whole"), "16Ki")
    16384
    >>> same = (("spray", "ecmp"),)
    >>> read_option("routing", Option("", choices=("ecmp", "spray"), synonyms=same), "spray")
    'ecmp'
    """
    if option.kind == "settings":
        return readers.read_settings(value)
    if option.kind == "numbers":
        return readers.read_pairs(option.flag_of(name), value)
    if option.kind == "amounts":
        return readers.read_amounts(option.flag_of(name), value, option.choices)
    if option.kind == "changes":
        return readers.read_changes(option.flag_of(name), value)
    several = option.many or option.values > 1
    alone = not several or isinstance(value, (str, Path)) or not isinstance(value, Iterable)
    values = (value,) if alone else value
    try:
        read_values = tuple(readers.read_value(option.kind, entry) for entry in values)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    if option.values > 1 and len(read_values) != option.values:
        raise InputError(f"{name}: give {option.values}, got {len(read_values)}")
    if option.many and option.kind == "text" and not option.metavar:
        read_values = tuple(
            entry for words in read_values for entry in readers.split_names(str(words))
        )
    unknown = [entry for entry in read_values if entry not in option.choices]
    if option.choices and unknown:
        flag = option.flag_of(name)
        raise InputError(f"unknown {flag} {unknown[0]!r:.40}: use {', '.join(option.choices)}")
    synonyms = dict(option.synonyms)
    read_values = tuple(synonyms.get(str(entry), entry) for entry in read_values)
    read = read_values if several else read_values[0]
    _check_size(option.flag_of(name), option, read)
    return read


def _check_size(flag: str, option: Option, value: object) -> None:
    """Refuse numbers whose sums and products nothing can hold, before anything counts with them."""
    if option.kind in ("real", "ratio", "quotient", "percent") and isinstance(value, int | float):
        if LARGEST_REAL < abs(value) < inf:
            raise InputError(f"{flag} {value:g} is out of range: give a number to {LARGEST_REAL:g}")
        return
    if option.kind not in ("whole", "numbers", "batch"):
        return
    largest = max(LARGEST, int(option.high or 0))
    values = value.values() if isinstance(value, Mapping) else value
    for number in values if isinstance(values, Iterable) else (values,):
        if isinstance(number, int) and abs(number) > largest:
            digits = f"{number:,}" if abs(number) <= LARGEST**2 else "so large a number"
            allowed = f"to {int(option.high or LARGEST):,}"
            low = f"from {option.low:,g} " if option.low is not None else ""
            raise InputError(f"{flag} {digits} is out of range: give a number {low}{allowed}")


GIGABITS = "Gb/s"


def check_range(name: str, option: Option, value: object) -> None:
    """Refuse a number outside of the range of its input.

    Raises
    ------
    InputError
        If it is; the message says from where to where it may be.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    low = -inf if option.low is None else option.low
    high = inf if option.high is None else option.high
    if not low <= value <= high:
        allowed = f"from {low:,g}" + (f" to {high:,.0f}" if high < inf else "")
        flag = option.flag_of(name)
        if option.unit == GIGABITS and low <= value / GIGA <= high:
            raise InputError(f"{flag} is in {GIGABITS}: write {value / GIGA:g}")
        raise InputError(f"{flag} {value:,} is out of range: give a number {allowed}")


def flag_text(flag: str, given: object) -> str:
    """An option as it is written on a command line.

    >>> [flag_text(*given) for given in (("--fix", {"tensor": 2}), ("--lm-head", True))]
    ['--fix tensor=2', '--lm-head']
    >>> flag_text("--no-overlap", False), flag_text("--overlap/--no-overlap", False)
    ('--no-overlap', '--no-overlap')
    """
    on, _, off = flag.partition("/")
    if isinstance(given, Mapping):
        given = tuple(f"{name}={number}" for name, number in given.items())
    if isinstance(given, tuple):
        return " ".join([flag, *map(str, given)])
    if isinstance(given, bool):
        return on if given else off or on
    return f"{flag} {given}"
