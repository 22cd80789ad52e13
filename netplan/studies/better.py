"""Which way an output is better: less of it, more of it, or neither, by its unit and name."""

import re

from netplan.studies.charts import Reader
from netplan.studies.definition import StudyDefinition

LOW_UNITS = frozenset(("s", "ms", "µs", "USD", "W", "kW", "MW", "kWh", "B", "m"))
LOW_WORDS = ("days", "million", "usd", "switches", "links", "transceivers", "over what no")
HIGH_WORDS = ("mfu", "throughput", "utilisation", "efficiency", "rate", "speed", "goodput")
"""Units and whole words of outputs of which less, or more, is better."""

WORD = r"[^\W_]+"


def lower_is_better(spec: StudyDefinition, name: str, unit: str, quantity: str) -> bool | None:
    """Whether less of an output is better; None where its name does not tell.

    Examples
    --------
    >>> from netplan.studies.definition import STUDIES
    >>> spec = STUDIES.load("batch-size")
    >>> lower_is_better(spec, "iteration_time_s", "s", "iteration time")
    True
    >>> lower_is_better(spec, "of_ideal", "", "of ideal"), lower_is_better(spec, "plan", "", "plan")
    (False, None)
    >>> lower_is_better(spec, "mfu", "", "MFU"), lower_is_better(spec, "separate", "", "separate")
    (False, None)
    """
    for row in spec.relative:
        if row.name == name:
            # The reference over the point's own: a short time is a high speed.
            own = lower_is_better(spec, row.of, "s" if row.of.endswith("_s") else "", row.of)
            return None if own is None else not own
    said = f" {' '.join(re.findall(WORD, quantity.casefold()))} "
    per = name.rpartition(".")[2].endswith(("_per_s", "_per_s_per_gpu"))
    if per or any(f" {word} " in said for word in HIGH_WORDS):
        return False
    return True if unit in LOW_UNITS or any(f" {word} " in said for word in LOW_WORDS) else None


def is_relative(spec: StudyDefinition, name: str) -> bool:
    """Whether 1 is what all are compared with."""
    return any(row.name == name for row in spec.relative)


def better_low(reader: Reader, name: str) -> bool | None:
    """Whether less of an output is better, amounts of money among them."""
    found = reader.words(name)
    if found.unit and found.unit.removeprefix("M ") in (reader.currency, reader.book_currency):
        return True
    return lower_is_better(reader.spec, name, found.unit, found.quantity)
