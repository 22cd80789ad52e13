"""Which outputs of a study's point are sums that leave parts without a price, or a power, out.

An answer says it beside its sums: it lists what is ``unpriced``, or says that a sum is not
``complete``. Every output of money whose path leads through such a place is a lower bound; so is
what a formula makes of it, or what compares it with another point. The row of the point names them
under ``lower_bounds``, in every form; tables of people write ≥ before them.
"""

from collections.abc import Collection, Mapping

from netplan.answers.outputs import Json, walked
from netplan.errors import NetplanError
from netplan.reports.expressions import key_of, parse_expression
from netplan.reports.quantities import Scalar, words
from netplan.studies.definition import StudyDefinition

LOWER_BOUNDS = "lower_bounds"
"""Output of every point that names those of its outputs that are partial sums."""

SEPARATOR = "; "
ANY_CURRENCY = "¤"
WHOLE = (
    *("cost_complete", "network_cost_complete", "tokens_cost_complete", "step_cost_complete"),
    "complete",
)
"""Keys of an answer that say whether the sums beside them are whole."""

POWERED = "power_complete"
"""Key that says whether the power beside it is that of all parts."""

OF_POWER = frozenset(
    ("power_w", "energy_kwh_per_year", "energy_per_year", "cost_per_year", "carbon_kg_per_year")
)
"""Outputs that grow with the power of a network, or sums over them."""

OF_SUMS = ("cost_reduction", "saved", "margin_money_share")
"""Outputs of no currency that compare sums."""

MONEY_WORDS = frozenset(("cost", "price", "usd"))


def is_money(name: str) -> bool:
    """Whether an output is an amount of money, or compares some.

    Examples
    --------
    >>> [is_money(name) for name in ("cost.base", "bill.capital_per_gpu.base", "iteration_time_s")]
    [True, True, False]
    >>> is_money("cost_reduction"), is_money("bill.cost_per_year.base"), is_money("cost_complete")
    (True, True, False)
    """
    path, last = name, name.rpartition(".")[2]
    if last not in WHOLE and not MONEY_WORDS.isdisjoint(last.split("_")):
        return True
    while True:
        unit = words(path, ANY_CURRENCY).unit
        if ANY_CURRENCY in unit or "USD" in unit:
            return True
        _, dot, path = path.partition(".")
        if not dot:
            return last in OF_SUMS


def counts_money(spec: StudyDefinition) -> bool:
    """Whether any output of a study's points is money."""
    return any(is_money(out) for out in spec.outputs if isinstance(out, str))


def lower_bounds(spec: StudyDefinition, data: Json, outputs: Mapping[str, Scalar]) -> str:
    """Names of a point's outputs that are partial sums, or made of some; empty if all are whole.

    Parameters
    ----------
    spec, data
        The study, and the answer of the point.
    outputs
        Its outputs.

    Returns
    -------
    str
        The names, with semicolons between them.
    """
    partial_names: dict[str, None] = {}
    for out in spec.outputs:
        name = out if isinstance(out, str) else out.name
        if outputs.get(name) is None:
            continue
        if isinstance(out, str):
            partial = is_money(name) and _lacks(data, name, WHOLE)
            drawn = not OF_POWER.isdisjoint(name.split("."))
            partial = partial or (drawn and _lacks(data, name, (POWERED,)))
        else:
            used = (key_of(part, [*outputs]) for part in parse_expression(out.formula).names)
            partial = not partial_names.keys().isdisjoint(key for key in used if key)
        if partial:
            partial_names[name] = None
    return SEPARATOR.join(partial_names)


def bounds_of(row: Mapping[str, Scalar]) -> Collection[str]:
    """Outputs of a row that are partial sums, or made of some."""
    text = row.get(LOWER_BOUNDS)
    return str(text).split(SEPARATOR) if text else ()


def _lacks(data: Json, name: str, whole: Collection[str]) -> bool:
    """Whether a sum leaves parts out, as the innermost place says that says it."""
    try:
        places = [*walked(data, name)]
    except NetplanError:
        return False
    listed = "unpriced" if whole is WHOLE else ""
    known = (place for place in reversed(places) if {listed, *whole} & {*place})
    place = next(known, {})
    return bool(place.get(listed)) or any(place.get(key) is False for key in whole)
