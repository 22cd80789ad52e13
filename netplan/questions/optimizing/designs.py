"""The space of designs: every fabric, HB domain, switch, oversubscription, expanded memory.

Nothing is sampled. What a choice does not change is not counted twice: a torus has no switches, a
fabric may bring its own HB domain, and only Clos networks of two tiers or more have uplinks to
oversubscribe.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Literal

from msgspec import Struct

from netplan.costing.fabric_bill import BillBooks, make_bill
from netplan.costing.materials import Compute
from netplan.costing.switches import SwitchModel
from netplan.errors import InfeasibleError, InputError
from netplan.inputs.choices import Ports
from netplan.questions.answers.compare_rows import FabricRow, priced_row
from netplan.records import replace
from netplan.scenarios.reading import NONE, Variant, sizing_on
from netplan.topologies.build import build_fabric
from netplan.topologies.fabric import Fabric, Sizing
from netplan.topologies.specs import FabricSpec

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
    variant: Variant


class Design(Struct, frozen=True):
    """A choice that can be built, sized, with its row as in a comparison, which has no time yet."""

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

    def key(self) -> dict[str, str | int | float | None]:
        """What tells the design from others, as in JSON."""
        return {
            "fabric": self.choice.spec.name,
            "hb_size": self.fabric.sizing.hb_size,
            "radix": self.radix,
            "switch": self.switch.name if self.switch else None,
            "oversubscription": self.oversubscription,
            **({"expanded_memory": self.memory} if self.memory else {}),
        }

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

    variants: tuple[Variant, ...]
    """The accelerator with each expanded memory."""

    ports: Ports = "shared"

    def choices(self, gpus: int) -> Iterator[Choice]:
        """Every choice, in the order of the axes."""
        for spec in self.specs:
            own = spec.hb_size
            sizes = self.hb_sizes if own is None else (min(own, gpus),)
            for size in sizes:
                for switch in self.switches[:1] if spec.switchless else self.switches:
                    for ratio, variant in product(self._ratios(spec), self.variants):
                        yield Choice(spec, size, switch, ratio, variant)

    def switched(self, spec: FabricSpec) -> Iterator[Choice]:
        """Every HB domain, switch and memory with one fabric that has no uplinks to thin out."""
        for size, switch, variant in product(self.hb_sizes, self.switches, self.variants):
            yield Choice(spec, size, switch, None, variant)

    def _ratios(self, spec: FabricSpec) -> Sequence[float | None]:
        if not spec.reads("oversubscription"):
            return (None,)
        return self.oversubscriptions or sorted({*DEFAULT_RATIOS, spec.oversubscription})


DEFAULT_RATIOS = (1.0, 2.0, 3.0, 4.0)


def build_space(axes: Axes, gpus: int, books: BillBooks) -> Space:
    """Build and price every design of a cluster of so many GPUs."""
    designs: dict[tuple[object, ...], Design] = {}
    unbuildable = []
    for choice in axes.choices(gpus):
        sizing = _sizing(choice, gpus, axes.ports)
        try:
            fabric = build_fabric(choice.spec, sizing)
            identity = _identity(choice, fabric)
            if identity not in designs:
                designs[identity] = price_design(choice, sizing, fabric, books)
        except (InputError, InfeasibleError) as error:
            unbuildable.append((choice, str(error)))
    return Space(tuple(designs.values()), tuple(unbuildable))


def build_design(choice: Choice, gpus: int, books: BillBooks, ports: Ports) -> Design:
    """Build and price one design."""
    sizing = _sizing(choice, gpus, ports)
    return price_design(choice, sizing, build_fabric(choice.spec, sizing), books)


def price_design(choice: Choice, sizing: Sizing, fabric: Fabric, books: BillBooks) -> Design:
    """A design of a sized fabric, with the bill of its switch and memory."""
    beside = Compute(memory=choice.variant.memory)
    known = replace(books, switch=choice.switch.model, compute=beside)
    bill = make_bill(choice.spec, sizing, known, fabric=fabric)
    row = replace(priced_row(choice.spec, bill, known), memory=choice.variant.name)
    return Design(choice, fabric, row)


def _sizing(choice: Choice, gpus: int, ports: Ports) -> Sizing:
    return sizing_on(
        choice.variant.chip,
        gpus=gpus,
        radix=choice.switch.radix,
        hb_size=choice.hb_size,
        oversubscription=choice.oversubscription,
        ports=ports,
    )


def _identity(choice: Choice, fabric: Fabric) -> tuple[object, ...]:
    """What is built: choices that change nothing of it are one design."""
    model = choice.switch.model
    switch = (choice.switch.radix, model.name if model else "") if fabric.tiers else None
    parts = fabric.tiers, fabric.links, fabric.nic_ports, fabric.levels
    return (choice.spec.name, fabric.sizing.hb_size, switch, choice.variant.name, *parts)


def ratio(oversubscription: float | None) -> str:
    """Oversubscription as people write it; a dash for none.

    Examples
    --------
    >>> ratio(3.0), ratio(1.5), ratio(None)
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
        parts.append(ratio(thin))
    if design.memory not in ("", NONE):
        parts.append(design.memory)
    return ", ".join(parts)


def short_labels(designs: Sequence[Design]) -> tuple[str, list[str]]:
    """What all of some designs have in common, in words, and each by what sets it apart."""
    parts = [label(design).split(", ") for design in designs]
    same = [part for part in parts[0][1:] if all(part in others for others in parts)]
    own = [[part for part in others if part not in same] for others in parts]
    return ", ".join(same), [", ".join(names) for names in own]
