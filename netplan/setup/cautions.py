"""What every answer says first: of switches that nobody makes, and of parts that nobody can order.

A number of ports stands for a box that is sold; a plan with another one still comes, with a word.
Times on announced and rumoured accelerators rest on what their makers say, and on no measurement.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from netplan.catalog import Record
from netplan.costing.switches import SWITCHES, known_switches, no_such_switch, stands_for
from netplan.errors import NetplanError
from netplan.scenarios.parts import Books, Cluster
from netplan.topologies.specs import FABRICS, FabricSpec
from netplan.workloads.accelerators import ACCELERATORS

LARGEST_SERVER = 16
"""GPUs of the largest HB domain that is a server, not a rack [1]."""

EVERY = "all"
"""Stands for every fabric."""


def cautions(
    cluster: Cluster, reads: frozenset[str], overrides: dict[str, str], roots: Sequence[Path]
) -> list[str]:
    """Sentences on parts of a cluster that nobody sells.

    Parameters
    ----------
    cluster
        The cluster.
    reads
        Inputs of it that mean something to the question.
    overrides
        Values of catalog files that are replaced.
    roots
        Folders of the user's own catalogs.

    Returns
    -------
    list of str
        A sentence each; none of a cluster of parts that are sold.

    Examples
    --------
    >>> cautions(Cluster(radix=512), frozenset({"radix"}), {}, ())
    ['no switch has 512 ports of 400G; the largest is tomahawk6 with 256']
    >>> cautions(Cluster(accelerator="gb300", gpus=4096), frozenset({"hb_size"}), {}, ())[0][:64]
    '4,096 GPUs are no whole HB domains of 72: ask for 4,032 or 4,104'
    >>> cautions(Cluster(accelerator="vr-nvl72"), frozenset({"accelerator"}), {}, ())[0]
    'Rubin is announced: rates by its maker, times from a roofline that no run confirms'
    >>> from netplan.scenarios.inner_parts import SiteSpan
    >>> cautions(Cluster(span=SiteSpan(sites="2")), frozenset({"gpus"}), {}, ())[0][:34]
    'the scenario lies in several sites'
    """
    try:
        return [*_cautions(cluster, reads, overrides, roots)]
    except NetplanError:  # whoever reads the part says what is wrong with it
        return []


def _cautions(
    cluster: Cluster, reads: frozenset[str], overrides: dict[str, str], roots: Sequence[Path]
) -> Iterator[str]:
    if cluster.span.sites is not None and "sites" not in reads and "gpus" in reads:
        yield (
            "the scenario lies in several sites, and this is of one: netplan sites says what"
            " distance adds"
        )
    chip = ACCELERATORS.load(cluster.accelerator, roots, overrides)
    if chip.unsold and "accelerator" in reads:
        name = chip.short.removesuffix(f" ({chip.unsold})")
        yield (
            f"{name} is {chip.unsold}: rates by its maker, times from a roofline that no run"
            " confirms"
        )
    if "hb_size" in reads:
        size, gpus = cluster.hb_size or chip.hb_size, cluster.gpus
        if size > LARGEST_SERVER and gpus > size and gpus % size:
            below = gpus // size * size
            yield (
                f"{gpus:,} GPUs are no whole HB domains of {size:,}: ask for {below:,} or"
                f" {below + size:,}, or times are of plans that leave GPUs idle"
            )
    if "radix" not in reads or cluster.graph is not None:
        return
    specs = [*_specs(cluster, reads, roots)]
    yield from (_not_sold("fabric", spec) for spec in specs if spec.unsold)
    if cluster.switch is not None:
        named = SWITCHES.load(cluster.switch, roots)
        yield from [_not_sold("switch", named)] if named.unsold else []
    elif cluster.radix is not None and any(map(_at_card_rate, specs)):
        speed, known = chip.card_gbps, known_switches(roots)
        lane = _card_lane(speed, roots)
        model = stands_for(cluster.radix, speed, known, lane)
        if model is None:
            yield no_such_switch(cluster.radix, speed, known, lane)
        elif model.unsold:
            yield f"{cluster.radix} ports of {speed:g}G: {_not_sold('switch', model)}"


def knows_boxes(prices: str, roots: Sequence[Path]) -> bool:
    """Whether a price book has prices of switches; by one of ports alone a radix is no box.

    Examples
    --------
    >>> knows_boxes("2026", ()), knows_boxes("rail-only-2023", ())
    (True, False)
    """
    if prices == Books().prices:
        return True
    from netplan.costing.prices import PRICE_BOOKS

    try:
        return any(row.part == "switch" for row in PRICE_BOOKS.load(prices, roots).prices)
    except NetplanError:  # whoever reads it says what is wrong
        return True


def meant_switch(
    cluster: Cluster, reads: frozenset[str], overrides: dict[str, str], roots: Sequence[Path]
) -> str:
    """The model that a number of ports stands for, as its maker writes it; empty if there is none.

    Parameters
    ----------
    cluster, reads, overrides, roots
        As of :func:`cautions`.

    Returns
    -------
    str
        The name; empty too where a model is named, or no switch has ports of the cards' rate.

    Examples
    --------
    >>> meant_switch(Cluster(), frozenset({"radix", "fabrics"}), {}, ())
    'SN5600'
    """
    if cluster.radix is None or cluster.switch or cluster.graph or "radix" not in reads:
        return ""
    try:
        chip = ACCELERATORS.load(cluster.accelerator, roots, overrides)
    except NetplanError:
        return ""
    if not any(map(_at_card_rate, _specs(cluster, reads, roots))):
        return ""
    speed = chip.card_gbps
    model = stands_for(cluster.radix, speed, known_switches(roots), _card_lane(speed, roots))
    return model.called if model else ""


def _specs(cluster: Cluster, reads: frozenset[str], roots: Sequence[Path]) -> Iterator[FabricSpec]:
    """Fabrics that a question is about, as far as they are files that can be read."""
    for name in cluster.fabrics if "fabrics" in reads else (cluster.fabric,):
        for file in ("rail-only", "rail-optimized") if name == EVERY else (name,):
            with suppress(NetplanError):
                yield FABRICS.load(file, roots)


def _card_lane(speed_gbps: float, roots: Sequence[Path]) -> float | None:
    """Rate of a lane of cards of a rate, as wiring has it; None if not known [Gb/s]."""
    from netplan.costing.cabling import CABLING_BOOKS  # seldom used

    try:
        return CABLING_BOOKS.load(Books().cabling, roots).lane_gbps(speed_gbps)
    except NetplanError:  # whoever reads it says what is wrong
        return None


def _at_card_rate(spec: FabricSpec) -> bool:
    """Whether its switches have ports of the rate of the cards."""
    return not spec.switchless and spec.planes == 1 and not spec.link_bytes_per_s


def _not_sold(kind: str, record: Record) -> str:
    """That nobody can order a part yet."""
    return f"{kind} {record.name} is {record.unsold}: it cannot be ordered yet"
