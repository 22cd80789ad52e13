"""What to know of an optimization: what was left out and why, and what its costs do not hold."""

from collections.abc import Iterator, Mapping, Sequence

from netplan.costing.fabric_bill import BillBooks
from netplan.performance.proof import Found, Levels
from netplan.questions.constraints import unpriced_parts
from netplan.questions.designs import Design, Objective, Space, book_name, counted
from netplan.topologies.specs import FabricSpec


def notes_of(
    space: Space,
    feasible: Sequence[Design],
    found: Mapping[Levels, Found],
    valued: tuple[Objective, BillBooks],
) -> tuple[str, ...]:
    """Notes on the whole answer, one or two sentences each.

    Parameters
    ----------
    space
        All designs.
    feasible
        Those that meet all demands.
    found
        What the searches found.
    valued
        What is to be low, and the books it is read from.
    """
    return (
        *_domain_gear(feasible, *valued),
        *_incomplete(space.designs, *valued),
        *_without_time(feasible, found),
        *_unbuildable(space),
    )


def other_domains(specs: Sequence[FabricSpec]) -> tuple[str, ...]:
    """Name the fabrics that are not in the space, since their HB domains have another size."""
    if not specs:
        return ()
    names = ", ".join(f"{spec.name} ({spec.hb_size:,})" for spec in specs)
    return (f"Not in the space, since they bring HB domains of other sizes: {names}.",)


def _domain_gear(
    designs: Sequence[Design], objective: Objective, books: BillBooks
) -> Iterator[str]:
    """Say that larger HB domains look free where they do."""
    if len({design.fabric.sizing.hb_size for design in designs}) == 1:
        return
    if objective == "power":
        yield (
            "The power of gear inside HB domains is not counted, so that larger domains look free:"
            " compare sizes one by one (--hb-size), with what their gear draws."
        )
        return
    gear = books.prices.price("hb_gear")
    if gear is None:
        yield (
            "Larger HB domains look free here: these are prices of the network, and"
            f" {books.prices.name} has none for the gear inside HB domains. To weigh it, optimize"
            " one --hb-size at a time and add the price of its gear, which netplan cost does for"
            " you if a copy of the book has a row hb_gear (USD/GPU)."
        )
    else:
        yield (
            "Gear inside HB domains is not in these prices of the network."
            f" {books.prices.name} has one price for it, {gear.base:,.0f} {gear.unit}, whatever the"
            " size of the domain: if larger domains cost more, they look too cheap here."
        )


def _incomplete(designs: Sequence[Design], objective: Objective, books: BillBooks) -> Iterator[str]:
    """Name the parts without which designs could not be compared."""
    left_out = [design for design in designs if not design.complete(objective)]
    if left_out:
        what = "price" if objective == "cost" else "power"
        yield (
            f"Left out, {counted(len(left_out), 'design')} of {_fabrics(left_out)}: no {what} in"
            f" {book_name(books, objective)} for {unpriced_parts(left_out, objective)}, so they"
            f" cannot be proven {'cheaper' if objective == 'cost' else 'to draw less'}."
        )


def _without_time(designs: Sequence[Design], found: Mapping[Levels, Found]) -> Iterator[str]:
    """Say of which designs there is no time, reason by reason."""
    groups: dict[str, list[Design]] = {}
    for design in designs:
        levels = design.fabric.levels
        reason = found.get(levels) if levels else _NOT_FULL
        if isinstance(reason, str):
            groups.setdefault(reason, []).append(design)
    for reason, members in groups.items():
        yield f"Without a time, {counted(len(members), 'design')} of {_fabrics(members)}: {reason}"


_NOT_FULL = "their rings are open, or HB domains do not fill them."


def _unbuildable(space: Space) -> Iterator[str]:
    """Say which fabrics lack designs, with the first reason of each."""
    reasons: dict[str, list[str]] = {}
    for choice, reason in space.unbuildable:
        reasons.setdefault(choice.spec.name, []).append(reason)
    built = {design.choice.spec.name for design in space.designs}
    for name, told in reasons.items():
        which = f"{counted(len(told), 'choice')} of {name}" if name in built else f"{name} at all"
        yield f"Cannot be built, {which}: {told[0]}."


def _fabrics(designs: Sequence[Design]) -> str:
    return ", ".join(dict.fromkeys(design.choice.spec.name for design in designs))
