"""Names of inputs and outputs in people's words, and their values with units.

A name says its unit by its ending, as all names of netplan do; a few have words of their own.
"""

import re
from dataclasses import dataclass
from math import isfinite

from netplan.reports.nomenclature import Scalar
from netplan.units import si


@dataclass(frozen=True, slots=True)
class Words:
    """A quantity in words, and its unit; empty where it has none."""

    quantity: str
    unit: str = ""

    @property
    def title(self) -> str:
        """Both, as on an axis."""
        return f"{self.quantity}, {self.unit}" if self.unit else self.quantity


WORDS = {
    "hb_size": Words("HB domain", "GPUs"),
    "batch": Words("global batch", "sequences"),
    "radix": Words("switch radix", "ports"),
    "tokens": Words("training tokens"),
    "space.feasible": Words("feasible plans"),
    "space.enumerated": Words("enumerated plans"),
}
MONEY = {
    "capital": "price of the network",
    "capital_per_gpu": "price of the network per GPU",
    "annuity_per_year": "annuity per year",
    "energy_per_year": "price of energy per year",
    "cost_per_year": "cost per year",
    "cost_over_life": "cost over its life",
}
"""Amounts in the currency of the answer, which no name can say."""

UNITS = {
    "_bytes_per_s": ("B/s", "bandwidth"),
    "_flops_per_s": ("FLOP/s", "rate"),
    "_tb_per_s": ("TB/s", "bandwidth"),
    "_gb_per_s": ("GB/s", "bandwidth"),
    "_tbps": ("Tb/s", "bandwidth"),
    "_gbps": ("Gb/s", "bandwidth"),
    "_bytes": ("B", ""),
    "_gb": ("GB", ""),
    "_tb": ("TB", ""),
    "_usd": ("USD", ""),
    "_kwh": ("kWh", ""),
    "_mw": ("MW", ""),
    "_kw": ("kW", ""),
    "_w": ("W", ""),
    "_ms": ("ms", ""),
    "_us": ("us", ""),
    "_s": ("s", ""),
    "_m": ("m", ""),
}
"""Endings of a name: their unit, and the word that stands for them, the longest first."""

CASES = {"base": "", "low": " at its low", "high": " at its high"}
PRICE_ROW = "prices.prices."
DASH = "\u2013"
PARTS = {
    "switch_port": "switch port",
    "copper_cable": "copper cable (DAC)",
    "active_copper_cable": "active copper cable",
    "optical_cable": "optical cable (AOC)",
    "nic_port": "network card",
    "ocs_port": "port of an optical circuit switch",
    "hb_gear": "HB-domain gear of a GPU",
}
"""Parts of a price book in words, where their own name is none."""

SPELT = {"gpu": "GPU", "gpus": "GPUs", "hb": "HB", "mfu": "MFU", "nic": "NIC", "ocs": "OCS"}
SPELT |= {"pue": "PUE", "zero": "ZeRO", "pflops": "PFLOP/s", "lm": "LM"}
PREFIXED = ("B", "B/s", "FLOP/s", "W")
"""Units whose values are written with an SI prefix."""

DIGITS = 4
SMALL_S, LARGE = 0.1, 1000


def part_words(part: str) -> str:
    """Name a row of a price book for people.

    Examples
    --------
    >>> part_words("switch_port at 400 Gb/s")
    'switch port at 400 Gb/s'
    """
    first, space, rest = part.partition(" ")
    return PARTS.get(first, first) + space + rest


def words(name: str, currency: str = "") -> Words:
    """Name of an input or output for people.

    Parameters
    ----------
    name
        As in a study file.
    currency
        Of amounts whose name does not say it.

    Examples
    --------
    >>> words("iteration_time_s").title, words("cost_usd.base").title, words("hb_size").title
    ('iteration time, s', 'cost, USD', 'HB domain, GPUs')
    >>> words("accelerator.memory_bytes_per_s").title, words("breakdown_s.bubble").title
    ('accelerator memory bandwidth, B/s', 'breakdown bubble, s')
    >>> words("prices.prices.transceiver@400.base").title, words("capital.low", "EUR").title
    ('price of transceiver at 400 Gb/s', 'price of the network at its low, EUR')
    """
    if name in WORDS:
        return WORDS[name]
    path, _, last = name.rpartition(".")
    case = CASES.get(last) if path else None
    if case is None:
        path, case = name, ""
    if path.startswith(PRICE_ROW):
        part, at, speed = path.removeprefix(PRICE_ROW).partition("@")
        row = part_words(f"{part} at {speed} Gb/s" if at else part)
        return Words(f"price of {row}{case}")
    if path in MONEY:
        return Words(MONEY[path] + case, currency)
    parts = [_part(part) for part in path.split(".")]
    unit = next((found.unit for found in reversed(parts) if found.unit), "")
    quantity = " ".join(found.quantity for found in parts if found.quantity)
    if quantity in ("million", "billion"):
        return Words(f"{quantity} {unit}{case}")
    return Words(quantity + case, unit)


def shown(value: Scalar, unit: str = "") -> str:
    """A value for people, with its unit.

    Examples
    --------
    >>> shown(48e9, "B"), shown(16384, "GPUs"), shown(10.10301, "s"), shown(True)
    ('48 GB', '16,384 GPUs', '10.1 s', 'yes')
    >>> shown(250609664.0, "USD"), shown(1e-6, "s"), shown("rail-only"), shown(0.31401)
    ('250,609,664 USD', '1 us', 'rail-only', '0.314')
    """
    if value is None:
        return DASH
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if unit in PREFIXED or (unit == "s" and 0 < abs(value) < SMALL_S):
        return si(value, unit, DIGITS) if isfinite(value) else str(value)
    if isinstance(value, int) or abs(value) >= LARGE:
        text = f"{value:,.0f}"
    else:
        text = f"{value:.{DIGITS}g}"
    return f"{text} {unit}".rstrip()


def _part(part: str) -> Words:
    """One part of a name between dots."""
    for ending, (unit, kind) in UNITS.items():
        stem = part.removesuffix(ending)
        if stem not in (part, ""):
            spelt = _spelt(stem)
            return Words(spelt if spelt.endswith(kind) else f"{spelt} {kind}", unit)
    return Words(_spelt(part))


def _spelt(stem: str) -> str:
    """Words between underscores; products such as b200 in capitals."""
    found = [
        word.upper() if re.fullmatch(r"[a-z]{1,2}\d{2,3}", word) else SPELT.get(word, word)
        for word in stem.split("_")
    ]
    return " ".join(word for word in found if word)
