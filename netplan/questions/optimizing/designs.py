"""The space of designs: every fabric, HB domain, switch, oversubscription, expanded memory.

Nothing is sampled. What a choice does not change is not counted twice: a torus has no switches, a
fabric may bring its own HB domain, and only Clos networks of two tiers or more have uplinks to
oversubscribe.

What a design must meet, how many do, and what to say when none does.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from math import inf, isfinite
from typing import Any, Literal

from msgspec import Struct

from netplan.answers.bill_columns import GIVEN
from netplan.answers.compare_rows import FabricRow, priced_row
from netplan.costing.fabric_bill import Bill, BillBooks, make_bill
from netplan.costing.facility import Facility
from netplan.costing.materials import Compute
from netplan.costing.switches import SwitchModel
from netplan.errors import InfeasibleError, InputError
from netplan.faults.damage.survival import survives_switch, switch_loss
from netplan.inputs.choices import Evidence, Ports
from netplan.records import replace
from netplan.reports.quantities import money
from netplan.scenarios.reading import NONE, ChipVariant, sizing_on
from netplan.topologies.build import build_fabric
from netplan.topologies.fabric import Fabric, Sizing
from netplan.topologies.specs import FabricSpec
from netplan.units import si

Objective = Literal["cost", "power"]


def book_name(books: BillBooks, objective: Objective) -> str:
    """Name of the book that an objective is read from."""
    return books.prices.name if objective == "cost" else books.power.name


class SwitchChoice(Struct, frozen=True):
    """A switch: its ports at the link rate [1], and its model if one is meant."""

    radix: int
    model: SwitchModel | None = None


class Choice(Struct, frozen=True):
    """One point of the space, not yet built."""

    spec: FabricSpec
    hb_size: int
    switch: SwitchChoice
    oversubscription: float | None
    variant: ChipVariant


class Design(Struct, frozen=True):
    """A choice that can be built, sized, with its row as in a comparison, which has no time yet."""

    json_parts = (
        *("fabric=choice.spec.name", "fabric.sizing.hb_size", "radix", "switch=switch.name"),
        *("oversubscription", "?expanded_memory=memory"),
    )

    choice: Choice
    fabric: Fabric
    row: FabricRow

    @property
    def radix(self) -> int | None:
        """Ports per switch at the link rate; None without switches [1]."""
        return self.choice.switch.radix if self.fabric.tiers else None

    @property
    def switch(self) -> SwitchModel | None:
        """The switch model, if one is meant and there are switches."""
        return self.choice.switch.model if self.fabric.tiers else None

    @property
    def oversubscription(self) -> float | None:
        """Bandwidth down over up at the leaves; None where there are no uplinks to thin [1]."""
        spec = self.choice.spec
        if not spec.reads("oversubscription") or len(self.fabric.tiers) < 2:  # noqa: PLR2004 - tiers
            return None
        return self.choice.oversubscription or spec.oversubscription

    @property
    def memory(self) -> str:
        """Expanded memory, or ``none``; empty where nobody asked."""
        return self.choice.variant.name

    def value(self, objective: Objective) -> float:
        """Base price [currency] or typical power [W], of the parts that the book has."""
        if objective == "cost":
            return self.row.cost.base if self.row.cost else 0.0
        return self.row.power_w or 0.0

    def complete(self, objective: Objective) -> bool:
        """Whether the value covers all that sets designs apart: all but a network port a GPU.

        A design without any network has no value: larger HB domains would win for what they hide.
        """
        bill = self.row.bill
        if objective == "cost":
            return bill is not None and bill.priced and self.row.cost_complete
        return bill is not None and self.row.power_w is not None and not bill.unpowered_apart


class Space(Struct, frozen=True):
    """All designs of a question, and the choices that cannot be built, each with the reason."""

    designs: tuple[Design, ...]
    unbuildable: tuple[tuple[Choice, str], ...]

    @property
    def size(self) -> int:
        """Designs in the space, those that cannot be built included [1]."""
        return len(self.designs) + len(self.unbuildable)


class Axes(Struct, frozen=True):
    """What is varied, each without repetition."""

    specs: tuple[FabricSpec, ...]
    hb_sizes: tuple[int, ...]
    switches: tuple[SwitchChoice, ...]
    oversubscriptions: tuple[float, ...]
    """Empty for 1:1, 2:1, 3:1, 4:1 and the fabric's own."""

    variants: tuple[ChipVariant, ...]
    """The accelerator with each expanded memory."""

    ports: Ports = "shared"

    def choices(self, gpus: int) -> Iterator[Choice]:
        """Every choice, in the order of the axes."""
        for spec in self.specs:
            fixed_size = spec.hb_size
            sizes = self.hb_sizes if fixed_size is None else (min(fixed_size, gpus),)
            ratios: Sequence[float | None] = (None,)
            if spec.reads("oversubscription"):
                usual = sorted({*DEFAULT_RATIOS, spec.oversubscription})
                ratios = self.oversubscriptions or usual
            for size in sizes:
                for switch in self.switches[:1] if spec.switchless else self.switches:
                    for ratio, variant in product(ratios, self.variants):
                        yield Choice(spec, size, switch, ratio, variant)

    def switched(self, spec: FabricSpec) -> Iterator[Choice]:
        """Every HB domain, switch and memory with one fabric that has no uplinks to thin out."""
        for size, switch, variant in product(self.hb_sizes, self.switches, self.variants):
            yield Choice(spec, size, switch, None, variant)


DEFAULT_RATIOS = (1.0, 2.0, 3.0, 4.0)


def build_space(axes: Axes, gpus: int, books: BillBooks) -> Space:
    """Build and price every design of a cluster of so many GPUs."""
    designs: dict[tuple[object, ...], Design] = {}
    unbuildable = []
    for choice in axes.choices(gpus):
        sizing = _sizing(choice, gpus, axes.ports, books)
        try:
            fabric = build_fabric(choice.spec, sizing)
            model = choice.switch.model
            switch = (choice.switch.radix, model.name if model else "") if fabric.tiers else None
            parts = fabric.tiers, fabric.links, fabric.nic_ports, fabric.levels
            name, hb_size = choice.spec.name, fabric.sizing.hb_size
            identity = (name, hb_size, switch, choice.variant.name, *parts)
            if identity not in designs:
                design = price_design(choice, sizing, fabric, books)
                if design.row.media_given:  # which never decides what is best
                    unbuildable.append((choice, f"{GIVEN}: {design.row.media_given}"))
                else:
                    designs[identity] = design
        except (InputError, InfeasibleError) as error:
            unbuildable.append((choice, str(error)))
    return Space(tuple(designs.values()), tuple(unbuildable))


def build_design(choice: Choice, gpus: int, books: BillBooks, ports: Ports) -> Design:
    """Build and price one design."""
    sizing = _sizing(choice, gpus, ports, books)
    return price_design(choice, sizing, build_fabric(choice.spec, sizing), books)


def design_bill(choice: Choice, books: BillBooks, ports: Ports, gpus: int) -> Bill:
    """The bill of a design with another number of GPUs."""
    known = replace(
        books, switch=choice.switch.model, compute=Compute(memory=choice.variant.memory)
    )
    return make_bill(choice.spec, _sizing(choice, gpus, ports, books), known)


def price_design(choice: Choice, sizing: Sizing, fabric: Fabric, books: BillBooks) -> Design:
    """A design of a sized fabric, with the bill of its switch and memory."""
    compute = Compute(memory=choice.variant.memory)
    known = replace(books, switch=choice.switch.model, compute=compute)
    bill = make_bill(choice.spec, sizing, known, fabric=fabric)
    row = replace(priced_row(choice.spec, bill, known), memory=choice.variant.name)
    return Design(choice, fabric, row)


def _sizing(choice: Choice, gpus: int, ports: Ports, books: BillBooks) -> Sizing:
    sizing = sizing_on(
        choice.variant.chip,
        gpus=gpus,
        radix=choice.switch.radix,
        hb_size=choice.hb_size,
        oversubscription=choice.oversubscription,
        ports=ports,
    )
    return replace(sizing, as_published=books.hall is None)


def ratio_text(oversubscription: float | None) -> str:
    """Oversubscription as people write it; a dash for none.

    Examples
    --------
    >>> ratio_text(3.0), ratio_text(1.5), ratio_text(None)
    ('3:1', '1.5:1', '-')
    """
    return "-" if oversubscription is None else f"{oversubscription:g}:1"


def ports(design: Design) -> str:
    """The switch: its model or its radix; a dash without switches."""
    if design.switch:
        return design.switch.name
    return "-" if design.radix is None else f"{design.radix:,}"


def label(design: Design) -> str:
    """A design in a few words, such as ``rail-only, HB 64, radix 128, 3:1``."""
    parts = [design.choice.spec.name, f"HB {design.fabric.sizing.hb_size:,}"]
    if design.radix is not None:
        parts.append(design.switch.name if design.switch else f"radix {design.radix}")
    thin = design.oversubscription
    if thin is not None and thin > 1:
        parts.append(ratio_text(thin))
    if design.memory not in ("", NONE):
        parts.append(design.memory)
    return ", ".join(parts)


def short_labels(designs: Sequence[Design]) -> tuple[str, list[str]]:
    """What all of some designs have in common, in words, and each by what sets it apart."""
    parts = [label(design).split(", ") for design in designs]
    same = [part for part in parts[0][1:] if all(part in others for others in parts)]
    distinct = [[part for part in others if part not in same] for others in parts]
    return ", ".join(same), [", ".join(names) for names in distinct]


ALLOWED: dict[str, tuple[Evidence, ...]] = {
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
    power_budget_w: float | None = None
    hall: Facility | None = None  # which that power is of

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

    json_parts = (
        *("constraint=name", "demand=words", "met", "excluded", "unknown", "excluded_alone=alone"),
    )

    name: str
    words: str
    met: int
    excluded: int
    unknown: int
    alone: int


def constraints_of(
    limits: Limits, objective: Objective, books: BillBooks
) -> tuple[Constraint, ...]:
    """All demands of a question; those with amounts come last.

    Designs of which the objective is not fully known can prove nothing.
    """
    constraints = [_complete(objective, books)]
    if limits.survives_switch:
        constraints.append(_survival())
    if limits.delivery is not None:
        constraints.append(_delivery(limits.delivery))
    if limits.max_lead_time_weeks is not None:
        constraints.append(_lead_time(limits.max_lead_time_weeks))
    if limits.max_cables is not None:
        constraints.append(_cables(limits.max_cables))
    if limits.max_power_w is not None:
        watts = partial(si, unit="W")
        constraints.append(_amount("max_power", "power", limits.max_power_w, watts, books))
    if limits.power_budget_w is not None and limits.hall is not None:
        constraints.append(_hall(limits.power_budget_w, limits.hall))
    if limits.budget is not None:
        amounts = partial(money, currency=books.prices.currency)
        constraints.append(_amount("budget", "cost", limits.budget, amounts, books))
    return tuple(constraints)


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
        excluded = [index for index, met in enumerate(column) if not met]
        counts.append(
            ConstraintCount(
                constraint.name,
                constraint.words,
                met=len(designs) - len(excluded),
                excluded=len(excluded),
                unknown=sum(met is None for met in column),
                alone=sum(misses[index] == 1 for index in excluded),
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
            others = " and ".join(demand.words for demand in constraints[1:number])
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
        least = min(switch_loss(weak.choice.spec, weak.fabric).share for weak in designs)
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
    remedy = "take another --switch, or say so with --set NAME.evidence=shipping"
    judged = _of_switch("evidence", states.__contains__, f"be {wanted}", remedy)
    return Constraint("delivery", f"switches {wanted}", *judged)


def _lead_time(weeks: float) -> Constraint:
    remedy = "allow more, or put in your supplier's word with --set NAME.lead_time_weeks=26"
    words = f"within {weeks:g} weeks"
    judged = _of_switch("lead_time_weeks", lambda known: known <= weeks, f"come {words}", remedy)
    return Constraint("max_lead_time", f"switches {words}", *judged)


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


def _hall(budget_w: float, hall: Facility) -> Constraint:
    """A hall that has the power for GPUs, servers and network."""

    def power_w(design: Design) -> float:
        return hall.facility_w(design.row.bill).base if design.row.bill else inf

    def meets(design: Design) -> bool | None:
        if power_w(design) > budget_w:
            return False
        return True if design.row.bill and hall.knows(design.row.bill) else None

    def explain(designs: Sequence[Design]) -> str:
        least = min(designs, key=power_w)
        if power_w(least) <= budget_w:
            return (
                f"of no design is all power known, to be within {si(budget_w, 'W')}: take another"
                " book with --power"
            )
        return (
            f"no design is within --power-budget: the least, {label(least)}, needs"
            f" {si(power_w(least), 'W', 4)}, the limit is {si(budget_w, 'W', 4)}: allow"
            f" {si(power_w(least) - budget_w, 'W', 3)} more, or fewer --gpus"
        )

    return Constraint("power_budget", f"a hall of {si(budget_w, 'W', 4)}", meets, explain)


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
