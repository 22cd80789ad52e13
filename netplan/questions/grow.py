"""A network that grows in phases: one final design, what to buy when, and what that saves."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from netplan.answers.budget_answer import Budget
from netplan.answers.grow_answer import Grown, GrowthAnswer, GrowthPath, GrowthPhase, Plan
from netplan.costing.fabric_bill import Bill, RefusedFabric, make_bill
from netplan.costing.lifetime import UPKEEP, Opex, discount_factor
from netplan.costing.materials import BillItem
from netplan.costing.phases import Course, PhaseOrder, order, present_value, yearly_factor
from netplan.costing.prices import PriceBook
from netplan.costing.ranges import Range
from netplan.costing.switches import cage_links
from netplan.errors import InfeasibleError, InputError
from netplan.progress import with_progress
from netplan.records import replace
from netplan.scenarios.bill_books import bill_books, site_networks, spares_of
from netplan.setup.asking import function_of
from netplan.setup.inputs import fabrics_asked
from netplan.setup.money.pricing import MONEY, BillCase, cooling_kind
from netplan.setup.own_inputs import list_field, option_field
from netplan.setup.power_budget import common_size, hall_of, holdings
from netplan.setup.question import NETWORK, WEIGHED, Question
from netplan.topologies.build import build_fabric
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.families.dragonfly import Dragonfly
from netplan.topologies.families.joined_switches import JoinedSwitches
from netplan.topologies.families.torus import Torus, torus_shape
from netplan.topologies.graph import FabricGraph, network_only
from netplan.topologies.growth import GROWING, Growth, Phase, PhasePrices, moved_cables, plan_growth
from netplan.topologies.specs import FabricSpec
from netplan.units import counted

MOST_PHASES, MOST_GAP, MOST_EARLY = 12, 20, 16
DEFAULT_FABRICS = ("rail-optimized", "rail-only")
BESIDE = (
    "Networks beside are sized anew for each phase: their cables are not compared, and what a"
    " larger one has no use for is left over."
)
LABOUR = "Labour of cabling, and the time that GPUs stand still meanwhile, have no price here."


@dataclass(frozen=True, kw_only=True)
class Grow(Question[GrowthAnswer]):
    """Plan a network that grows: one final design, what to buy in each phase, cables that move.

    Every phase is a part of the final design, port by port, and blocks no more than it is asked to.
    Growing is compared with building all at once, and with the smallest network of every phase.

    Raises
    ------
    NetplanError
        If an input is not allowed; the message says what is.

    Examples
    --------
    >>> answer = grow("rail-only-paper", phases=(2048, 8192, 16384), radix=64,
    ...     fabrics=("rail-optimized",))
    >>> [(step.bill.fabric.switches, step.moved) for step in answer.grown[0].steps]
    [(310, 0), (768, 0), (1280, 0)]
    """

    command: ClassVar[str] = "grow"
    examples: ClassVar[tuple[str, ...]] = (
        "netplan grow hgx-h100 --gpus 2048 --gpus 8192 --gpus 16384",
        "netplan grow hgx-h100 --gpus 512 --gpus 2048 --switch qm9700 --spares 2%",
        "netplan grow nvl72-gb200 --gpus 1152 --gpus 4608 --years-between 0.5",
        "netplan grow hgx-h100 --gpus 2048 --gpus 8192 --power-budget 10MW",
    )

    reads: ClassVar[frozenset[str]] = (NETWORK | {"switch"} | MONEY) - {"gpus"}
    reads_from: ClassVar[frozenset[str]] = WEIGHED

    phases: Sequence[int] = list_field(
        "GPUs of each phase, two or more, rising.", "whole", flag="--gpus", unit="GPUs"
    )
    years_between: Sequence[float] = list_field(
        "Years from each phase to the next, one for all or one each.", "real", otherwise="1"
    )
    fill: Literal["cheapest", "leaves"] = option_field(
        "Leaves of early phases: as full as costs least, or full before the next is bought.",
        "choice",
        default="cheapest",
        choices=("cheapest", "leaves"),
    )
    early_oversubscription: float | None = option_field(
        "Fewer leaf uplinks before the last phase, such as 2:1.", "ratio", low=1, otherwise="none"
    )

    power_budget: float | None = option_field(
        "Power of the hall, such as 20MW: which phase needs more.",
        "power",
        metavar="POWER",
        unit="W",
    )

    def __post_init__(self) -> None:
        """Refuse phases that are none."""
        super().__post_init__()
        phases = tuple(self.phases)
        if not 1 < len(phases) <= MOST_PHASES or any(high <= low for low, high in pairwise(phases)):
            given = ", ".join(f"{gpus:,}" for gpus in phases)
            asked = f"--gpus {given}" if phases else "no phases to grow by"
            raise InputError(
                f"{asked}: give 2 to {MOST_PHASES} phases of rising size, such as"
                " --gpus 2048 --gpus 8192"
            )
        object.__setattr__(self, "scenario", self.scenario.replace(gpus=phases[-1]))
        gaps = self._gaps()
        wrong = [gap for gap in gaps if not 0 < gap <= MOST_GAP]
        if wrong:
            raise InputError(
                f"--years-between {wrong[0]:g}: give more than 0 years, at most {MOST_GAP}"
            )
        if self.early_oversubscription is not None and not (
            1 <= self.early_oversubscription <= MOST_EARLY
        ):
            raise InputError(
                f"--early-oversubscription {self.early_oversubscription:g}: give 1:1 to"
                f" {MOST_EARLY}:1"
            )

    def _gaps(self) -> tuple[float, ...]:
        """Years between phases."""
        given, steps = tuple(self.years_between) or (1.0,), len(self.phases) - 1
        if len(given) not in (1, steps):
            allowed = "1" if steps == 1 else f"1 or {steps}"
            raise InputError(
                f"--years-between: got {len(given)}, give {allowed} for {steps + 1} phases"
            )
        return given if len(given) == steps else given * steps

    @property
    def weighed_fabrics(self) -> Sequence[str]:
        """Fabrics that are asked for."""
        return fabrics_asked(self, DEFAULT_FABRICS)

    def ask(self) -> GrowthAnswer:
        """Size, grow, list and price every fabric."""
        fabrics_of = partial(fabrics_asked, usual=DEFAULT_FABRICS)
        priced = BillCase.of(self, bill_books, fabrics_of)
        reader, chosen, books, money, opex, specs, sizing = priced
        begins = tuple(accumulate(self._gaps(), initial=0.0))
        case = _GrowthCase(
            self,
            sizing,
            (*begins, begins[-1] + opex.years),
            partial(make_bill, books=books, spares=spares_of(self.books, reader), currency=money),
            books.prices,
            opex,
            cage_links(books.switch, self.cluster.switch_radix) if books.switch else 1,
        )
        grown, refused = case.all(specs)
        gaps = list(self._gaps())
        inputs = priced.inputs(self, gpus=self.cluster.gpus, years_between=gaps)
        answer = GrowthAnswer(inputs, money, grown, refused)
        if self.power_budget is None:
            return answer
        hall = hall_of(self, reader, chosen)
        names = {fabric.name for fabric in grown}
        specs = [spec for spec in specs if spec.name in names]
        held = holdings(self.power_budget, hall, sizing.hb_size, specs, sizing, books)
        if not any(known.gpus for known in held):
            common_size(self.power_budget, chosen, sizing.hb_size, held)
        size, words = (self.cluster.gpus, sizing.hb_size, True), cooling_kind(self, reader) or ""
        budget = Budget(self.power_budget, *size, chosen.short, words, hall, held)
        return replace(answer, budget=budget)


grow = function_of(Grow)


class _GrowthCase(NamedTuple):
    """What all fabrics of an answer share."""

    asked: Grow
    sizing: Sizing
    years: tuple[float, ...]
    bill: Callable[..., Bill]
    prices: PriceBook
    opex: Opex
    cage_links: int

    def all(
        self, specs: Sequence[FabricSpec]
    ) -> tuple[tuple[Grown, ...], tuple[RefusedFabric, ...]]:
        """All fabrics that grow, and why others do not.

        Raises
        ------
        InfeasibleError
            If none does.
        """
        grown: list[Grown] = []
        refused: list[RefusedFabric] = []
        for spec in with_progress(specs, lambda spec: spec.name):
            try:
                grown.append(self.grown(spec))
            except (InputError, InfeasibleError) as error:
                reason = str(error).removeprefix(f"{spec.name}: ")
                refused.append(RefusedFabric(spec.name, f"Cannot grow: {reason}."))
        if not grown:
            raise InfeasibleError(f"{refused[0].name}: {refused[0].reason}")
        return tuple(grown), tuple(refused)

    def grown(self, spec: FabricSpec) -> Grown:
        """One fabric: its phases, and the three ways to come to the last one.

        Raises
        ------
        InputError, InfeasibleError
            If it cannot be built in one of the sizes.
        """
        phases = tuple(self.asked.phases)
        sizings = [
            replace(self.sizing, gpus=gpus, hb_size=min(self.sizing.hb_size, gpus))
            for gpus in phases
        ]
        alone = [self.bill(spec, sizing) for sizing in sizings]
        turn = with_progress(("smallest networks", "parts of the final one"), str)
        next(turn)
        own_moved = _moved(
            lambda phase: _own_graph(spec, sizings[phase], sizings[-1]),
            len(phases),
            by_port=isinstance(spec, GROWING),
        )
        parts: list[Phase | None] = [None] * len(phases)
        bills, moved = alone, own_moved
        growth = self._growth(spec, alone[-1])
        if growth is not None:
            parts = list(growth.phases)
            pairs = zip(sizings, growth.phases, strict=True)
            bills = [self.bill(spec, sizing, fabric=stage.fabric) for sizing, stage in pairs]
            next(turn)
            moved = _moved(growth.graph_of, len(phases), by_port=True)
        orders, own_orders = self._orders(bills), self._orders(alone)
        steps = tuple(
            GrowthPhase(number, year, bill, made, cables, part, small)
            for number, (year, bill, made, cables, part, small) in enumerate(
                zip(self.years[:-1], bills, orders, moved, parts, alone, strict=True), start=1
            )
        )
        notes_beside = (BESIDE,) if site_networks(self.asked.cluster) else ()
        return Grown(
            alone[-1],
            steps,
            self._ways(bills, alone, (orders, own_orders), (sum(moved), sum(own_moved))),
            (*notes_beside, *_growth_notes(spec, steps), *alone[-1].fabric.notes),
            growth,
            self.cage_links,
        )

    def _growth(self, spec: FabricSpec, final: Bill) -> Growth | None:
        """Parts of the final design, if the family grows so."""
        if not isinstance(spec, GROWING):
            return None
        return plan_growth(
            spec,
            self.sizing,
            tuple(self.asked.phases),
            self._weights(final),
            early_oversubscription=self.asked.early_oversubscription or 1.0,
            full_leaves=self.asked.fill == "leaves",
        )

    def _orders(self, bills: Sequence[Bill]) -> list[PhaseOrder]:
        """What leads from each bill to the next, from nothing on."""
        lines: list[list[BillItem]] = [[], *([item.line for item in b.quote.items] for b in bills)]
        currency = bills[0].quote.currency
        return [order(have, need, self.prices, currency) for have, need in pairwise(lines)]

    def _ways(
        self,
        bills: Sequence[Bill],
        alone: Sequence[Bill],
        orders: tuple[Sequence[PhaseOrder], Sequence[PhaseOrder]],
        moved: tuple[int, int],
    ) -> tuple[GrowthPath, GrowthPath, GrowthPath]:
        """Growing, all at once, and each phase's smallest network."""
        power = tuple(bill.draw.typical_w for bill in bills)
        final, none = bills[-1].capital, Range.point(0.0)
        nothing = (none,) * (len(bills) - 1)
        courses = (
            _course(bills, orders[0]),
            Course((final, *nothing), (final,) * len(bills), power),
            _course(alone, orders[1]),
        )
        left = [sum((made_order.left.total for made_order in made), start=none) for made in orders]
        plans: tuple[Plan, ...] = ("growing", "all at once", "not planned")
        grown, once, unplanned = (
            GrowthPath(plan, course.capital, present_value(course, self.years, self.opex), *facts)
            for plan, course, facts in zip(
                plans, courses, ((left[0], moved[0]), (none, 0), (left[1], moved[1])), strict=True
            )
        )
        return grown, once, unplanned

    def _weights(self, final: Bill) -> PhasePrices:
        """Price of a switch and of a link in the final design, and what paying early costs."""
        switches, links = final.cost_of("switches").base, final.cost_of("transceivers", "cables")
        interest = self.opex.interest.base
        yearly = sum(getattr(self.opex, name).base for name in UPKEEP)
        early = [
            discount_factor(interest, begin)
            - discount_factor(interest, end)
            + yearly * yearly_factor(interest, begin, end)
            for begin, end in pairwise(self.years[:-1])
        ]
        fabric = final.fabric
        return PhasePrices(
            switches / max(fabric.switches, 1) or 1.0,
            links.base / max(fabric.link_count, 1),
            (*early, 0.0),
        )


def _course(bills: Sequence[Bill], orders: Sequence[PhaseOrder]) -> Course:
    return Course(
        tuple(phase_order.bought.total for phase_order in orders),
        tuple(bill.capital for bill in bills),
        tuple(bill.draw.typical_w for bill in bills),
    )


def _moved(graph_of: Callable[[int], FabricGraph], phases: int, *, by_port: bool) -> list[int]:
    """Cables of each phase before that a phase moves; none of the first."""
    moved, before = [0], graph_of(0)
    for phase in with_progress(range(1, phases), lambda phase: f"phase {phase + 1}"):
        now = graph_of(phase)
        moved.append(moved_cables(before, now, by_port=by_port))
        before = now
    return moved


def _own_graph(spec: FabricSpec, sizing: Sizing, final: Sizing) -> FabricGraph:
    """Network of a phase by itself; in a torus GPUs have the names of their places in the end."""
    graph = network_only(expand(spec, sizing))
    if not isinstance(spec, Torus):
        return graph
    small, large = (torus_shape(spec, build_fabric(spec, size).sizing) for size in (sizing, final))
    if len(small) != len(large) or any(
        length > two for length, two in zip(small, large, strict=True)
    ):
        return graph
    domain, rank = np.divmod(np.arange(graph.gpus), graph.hb_size)
    places = np.unravel_index(domain, small, order="F")
    gpu = np.ravel_multi_index(places, large, order="F") * graph.hb_size + rank
    if gpu.max() >= final.gpus:  # a place that stays idle in the end
        return graph
    return replace(graph, names=tuple(f"gpu-{number}" for number in gpu.tolist()))


def _growth_notes(spec: FabricSpec, steps: Sequence[GrowthPhase]) -> Iterator[str]:
    """What is to be known of how the family grows."""
    yield LABOUR
    first, last = steps[0], steps[-1]
    moved = sum(step.moved for step in steps)
    if isinstance(spec, JoinedSwitches):
        yield (
            f"A {spec.family} of another size joins its switches anew: in all"
            f" {counted(moved, 'cable')} {'moves' if moved == 1 else 'move'}. Each phase is the"
            " design of its own size."
        )
    elif not isinstance(spec, GROWING):
        yield (
            f"A {spec.family} closes rings or meshes over the GPUs that are there: it cannot grow"
            f" without moving cables, {moved:,} in all. Each phase is the design of its own size."
        )
    elif isinstance(spec, Dragonfly):
        groups = [step.bill.fabric.switches for step in (first, last)]
        share = (groups[0] - 1) / max(groups[1] - 1, 1)
        yield (
            "Groups come whole, and each pair has the links of the final design: in phase 1 a"
            f" group has about {share:.0%} of its final global bandwidth, the other global ports"
            " stay free."
        )
    elif last.part is not None and last.part.leaf_uplinks == 0:
        yield (
            "Every rail has its switch, or its share of one, from the first phase on: all switches"
            " are bought then, and only cards, modules and cables later."
        )
    elif first.part is not None and last.part is not None:
        if first.part.leaf_hosts >= last.part.leaf_hosts:
            yield "Leaves are full as they come; the tiers above keep ports free for later ones."
            return
        yield (
            f"In phase 1 a leaf has up to {first.part.leaf_hosts} hosts and"
            f" {first.part.leaf_uplinks} uplinks, in the end {last.part.leaf_hosts} and"
            f" {last.part.leaf_uplinks}; the ports between are kept free for cables to come."
        )
