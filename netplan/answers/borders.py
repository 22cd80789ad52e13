"""What goes over the borders of sites, for people and as rows beside other links."""

from collections.abc import Iterator

from netplan.performance.spread import Crossing, OverSites
from netplan.reports.sections import Table, columns
from netplan.traffic.loads import GroupLoad
from netplan.units import si

LEGEND = ("busy, utilisation: of the fibre, each direction by itself, in an iteration.",)


def borders_table(over: OverSites) -> Table[Crossing]:
    """What each fibre carries in an iteration, a row a direction."""
    shown = columns("sender", "receiver", "kind", "total_bytes", "busy_s", "utilisation")
    return Table("borders", shown, over.crossings, "Over the borders of sites", LEGEND)


def borders_words(over: OverSites) -> Iterator[str]:
    """What goes over the busiest border, in a sentence; none where nothing does."""
    crossings = over.crossings
    busiest = max(crossings, key=lambda row: row.busy_s, default=None)
    if busiest is None:
        return
    others = [row for row in crossings if row is not busiest]
    like = sum(row.total_bytes == busiest.total_bytes for row in others)
    also = ", as much back" if like == 1 else f", as in {like} other directions" if like else ""
    less = len(others) - like
    more = f", less in {less}" if less else ""
    yield (
        f"From {busiest.sender} to {busiest.receiver} go {si(busiest.total_bytes, 'B')} of"
        f" {busiest.kind} an iteration{also}{more}; the fibre is busy for {si(busiest.busy_s, 's')}"
        f" ({100 * busiest.utilisation:.2g} %)."
    )


def border_loads(over: OverSites, busiest_s: float) -> Iterator[GroupLoad]:
    """Loads of the fibre of each pair of sites, beside the busiest link of a fabric.

    Parameters
    ----------
    over
        The run over sites.
    busiest_s
        How long the busiest link of the fabric works [s].

    Yields
    ------
    GroupLoad
        Both directions of a pair; its utilisation while the busiest of all these links works.
    """
    crossings = over.crossings
    whole_s = max([busiest_s, *(row.busy_s for row in crossings)])
    sites = over.haul.limited(over.sites)
    for pair in sites.pairs:
        ends = {sites.sites[pair.a].name, sites.sites[pair.b].name}
        rows = [row for row in crossings if {row.sender, row.receiver} == ends]
        total = sum(row.total_bytes for row in rows)
        capacity = 2 * pair.bytes_per_s * whole_s
        yield GroupLoad(
            group=f"{sites.sites[pair.a].name}:{sites.sites[pair.b].name}",
            directions=2,
            unused=2 - len(rows),
            total_bytes=total,
            largest_bytes=max((row.total_bytes for row in rows), default=0.0),
            busiest_s=max((row.busy_s for row in rows), default=0.0),
            utilisation=total / capacity if capacity else 0.0,
        )
