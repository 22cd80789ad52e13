"""What a design must meet, how many do, and what to say when none does."""

from collections.abc import Callable, Sequence
from functools import partial
from math import isfinite
from typing import Any

from msgspec import Struct

from netplan.costing.fabric_bill import BillBooks
from netplan.costing.switches import Delivery
from netplan.errors import InfeasibleError, InputError
from netplan.faults.damage.survival import survives_switch, switch_loss
from netplan.questions.optimizing.designs import Design, Objective, book_name, label
from netplan.reports.quantities import money
from netplan.reports.sections import values_at
from netplan.units import si

ALLOWED: dict[str, tuple[Delivery, ...]] = {
    "shipping": ("shipping",),
    "announced": ("shipping", "announced"),
}
"""States of delivery that a demand allows: what is sold has been announced too."""


class Limits(Struct, frozen=True):
    """What the question demands of price, power, survival and switches; None demands nothing.

    Raises
    ------
    InputError
        If a limit is not above 0.
    """

    budget: float | None = None
    max_power_w: float | None = None
    survives_switch: bool = False
    delivery: str | None = None
    max_lead_time_weeks: float | None = None
    max_cables: int | None = None

    def __post_init__(self) -> None:
        """Refuse limits that mean nothing."""
        for name, value in (
            ("--budget", self.budget),
            ("--max-power", self.max_power_w),
            ("--max-lead-time", self.max_lead_time_weeks),
            ("--max-cables", self.max_cables),
        ):
            if value is not None and not (value > 0 and isfinite(value)):
                raise InputError(f"{name} is above 0, got {value:g}")

    @property
    def of_switches(self) -> bool:
        """Whether the limits ask for switch models."""
        return self.delivery is not None or self.max_lead_time_weeks is not None


class Constraint(Struct, frozen=True):
    """One demand on a design: its name in JSON, and the demand in words."""

    name: str
    words: str

    meets: Callable[[Design], bool | None]
    """Whether a design meets it; None where that is not known, which counts as not."""

    explain: Callable[[Sequence[Design]], str]
    """What to say of designs of which none meets it."""


class ConstraintCount(Struct, frozen=True):
    """How many of the designs that can be built meet a demand.

    Of those excluded it is unknown of some, and some meet all other demands: this one alone
    excludes them.
    """

    name: str
    words: str
    met: int
    excluded: int
    unknown: int
    alone: int

    def to_dict(self) -> dict[str, str | int]:
        """One constraint of the JSON answer."""
        counts = values_at(self, "met", "excluded", "unknown")
        said = {"constraint": self.name, "demand": self.words}
        return said | counts | {"excluded_alone": self.alone}


def constraints_of(
    limits: Limits, objective: Objective, books: BillBooks
) -> tuple[Constraint, ...]:
    """All demands of a question; those with amounts come last.

    Designs of which the objective is not fully known can prove nothing.
    """
    found = [_complete(objective, books)]
    if limits.survives_switch:
        found.append(_survival())
    if limits.delivery is not None:
        found.append(_delivery(limits.delivery))
    if limits.max_lead_time_weeks is not None:
        found.append(_lead_time(limits.max_lead_time_weeks))
    if limits.max_cables is not None:
        found.append(_cables(limits.max_cables))
    if limits.max_power_w is not None:
        watts = partial(si, unit="W")
        found.append(_amount("max_power", "power", limits.max_power_w, watts, books))
    if limits.budget is not None:
        amounts = partial(money, currency=books.prices.currency)
        found.append(_amount("budget", "cost", limits.budget, amounts, books))
    return tuple(found)


def judge(
    designs: Sequence[Design], constraints: Sequence[Constraint]
) -> tuple[list[Design], tuple[ConstraintCount, ...]]:
    """Designs that meet all demands, and how many meet each.

    Raises
    ------
    InfeasibleError
        If none meets all: which demand excludes the last ones, and by how much.
    """
    table = [[constraint.meets(design) for constraint in constraints] for design in designs]
    misses = [sum(not met for met in row) for row in table]
    counts = []
    for number, constraint in enumerate(constraints):
        column = [row[number] for row in table]
        excluded = [at for at, met in enumerate(column) if not met]
        counts.append(
            ConstraintCount(
                constraint.name,
                constraint.words,
                met=len(designs) - len(excluded),
                excluded=len(excluded),
                unknown=sum(met is None for met in column),
                alone=sum(misses[at] == 1 for at in excluded),
            )
        )
    left = [design for design, missed in zip(designs, misses, strict=True) if not missed]
    if not left:
        raise InfeasibleError(_why_none(designs, table, constraints))
    return left, tuple(counts)


def _why_none(
    designs: Sequence[Design],
    table: Sequence[Sequence[bool | None]],
    constraints: Sequence[Constraint],
) -> str:
    """What the demand says that excludes the last designs."""
    left = list(zip(designs, table, strict=True))
    for number, constraint in enumerate(constraints):
        rest = [(design, met) for design, met in left if met[number]]
        if not rest:
            text = constraint.explain([design for design, _ in left])
            others = " and ".join(one.words for one in constraints[1:number])
            return text + (f" (of {len(left):,} designs that meet {others})" if others else "")
        left = rest
    return "no design meets the demands"


def unpriced_parts(designs: Sequence[Design], objective: Objective) -> str:
    """Parts that the book lacks, in words, each once."""
    parts: dict[str, None] = {}
    for bill in (design.row.bill for design in designs):
        if bill is None:
            continue
        apart, lacking = bill.unpowered_apart, bill.draw.unknown
        if objective == "cost":
            apart, lacking = bill.unpriced_apart, bill.quote.unpriced
        for line in apart or (line for line in lacking if line.part == "nic_port"):
            parts[line.priced_as] = None
    return ", ".join(parts)


def _complete(objective: Objective, books: BillBooks) -> Constraint:
    what, option = ("price", "--prices") if objective == "cost" else ("power", "--power")

    def explain(designs: Sequence[Design]) -> str:
        parts = unpriced_parts(designs, objective)
        if not parts:
            return (
                "no design has a network, all GPUs are in one HB domain: give smaller ones with"
                " --hb-size, or more --gpus"
            )
        return (
            f"no design has its whole {what}: {book_name(books, objective)} has none for"
            f" {parts}: take another book with {option}, or add them to a copy"
        )

    words = f"a {what} for every part"
    return Constraint("complete", words, lambda design: design.complete(objective), explain)


def _survival() -> Constraint:
    def meets(design: Design) -> bool:
        return survives_switch(design.choice.spec, design.fabric)

    def explain(designs: Sequence[Design]) -> str:
        least = min(switch_loss(one.choice.spec, one.fabric).share for one in designs)
        return (
            "no design survives the failure of any one switch: the worst one takes"
            f" {100 * least:.0f} % of an HB domain's ports at least, or parts the network:"
            " allow larger HB domains, or fabrics that spread a domain over switches"
        )

    return Constraint("survives_switch", "survival of any one switch", meets, explain)


def _cables(most: int) -> Constraint:
    def explain(designs: Sequence[Design]) -> str:
        least = min(designs, key=lambda design: design.fabric.link_count)
        links = least.fabric.link_count
        return (
            f"no design is within --max-cables: {label(least)} has the fewest, {links:,}, the limit"
            f" is {most:,}: allow {links - most:,} more, or other fabrics, HB domains or switches"
        )

    return Constraint(
        "max_cables",
        f"at most {most:,} links, those of hosts included",
        lambda design: design.fabric.link_count <= most,
        explain,
    )


def _delivery(wanted: str) -> Constraint:
    states = ALLOWED[wanted]
    remedy = "take another --switch, or say so with --set NAME.delivery=shipping"
    told = _of_switch("delivery", states.__contains__, f"be {wanted}", remedy)
    return Constraint("delivery", f"switches {wanted}", *told)


def _lead_time(weeks: float) -> Constraint:
    remedy = "allow more, or put in your supplier's word with --set NAME.lead_time_weeks=26"
    words = f"within {weeks:g} weeks"
    told = _of_switch("lead_time_weeks", lambda known: known <= weeks, f"come {words}", remedy)
    return Constraint("max_lead_time", f"switches {words}", *told)


def _of_switch(
    fact: str, allowed: Callable[[Any], bool], wanted: str, remedy: str
) -> tuple[Callable[[Design], bool | None], Callable[[Sequence[Design]], str]]:
    """Whether a fact of a design's switch is allowed, and what to say where none is."""

    def meets(design: Design) -> bool | None:
        if not design.fabric.tiers:
            return True
        known = getattr(design.switch, fact, None)
        return None if known is None else allowed(known)

    def explain(designs: Sequence[Design]) -> str:
        return f"no switch is known to {wanted}: {_switches(designs, fact)}: {remedy}"

    return meets, explain


def _switches(designs: Sequence[Design], fact: str) -> str:
    """Each switch with what is known of it."""
    known = {}
    for design in designs:
        if design.switch is None:
            known[f"{design.radix} ports"] = "no model in the catalog"
        else:
            state = getattr(design.switch, fact)
            known[design.switch.name] = f"{state:g}" if isinstance(state, float) else state
    return ", ".join(f"{name} {state or 'unknown'}" for name, state in known.items())


def _amount(
    name: str, objective: Objective, limit: float, write: Callable[[float], str], books: BillBooks
) -> Constraint:
    """An amount within its limit; parts of which it is not known could only raise it."""
    verb, who = ("costs", "cheapest") if objective == "cost" else ("draws", "least")

    def meets(design: Design) -> bool | None:
        if design.value(objective) > limit:
            return False
        return True if design.complete(objective) else None

    def explain(designs: Sequence[Design]) -> str:
        known = [design for design in designs if design.complete(objective)]
        if not known:
            return _complete(objective, books).explain(designs)
        least = min(known, key=lambda design: design.value(objective))
        amount, option = least.value(objective), "--" + name.replace("_", "-")
        return (
            f"no design is within {option}: the {who}, {label(least)}, {verb} {write(amount)}, the"
            f" limit is {write(limit)}: allow {write(amount - limit)} more, or other fabrics, HB"
            " domains or switches"
        )

    return Constraint(name, f"at most {write(limit)}", meets, explain)
