"""From a fabric spec and a sizing to a fabric: what all families share."""

from netplan.records import replace
from netplan.topologies.fabric import MIN_SIZED_RADIX, Fabric, Sizing
from netplan.topologies.specs import FabricSpec
from netplan.units import gbps


def build_fabric(spec: FabricSpec, sizing: Sizing) -> Fabric:
    """Size a fabric: its counts, its levels and what to know about them.

    The spec's own HB domain and rates, if it has any, replace the sizing's. Links of a direct
    fabric share the rate of one port where the sizing says so (:func:`shared_rate`).

    Raises
    ------
    InputError
        If the fabric cannot be built in this size; the message says what can.

    Examples
    --------
    >>> from netplan import Scenario
    >>> from netplan.topologies.specs import FABRICS
    >>> sizing = Scenario.load("hgx-h100").replace(gpus=32_768, radix=128, hb_size=256).sizing
    >>> fabric = build_fabric(FABRICS.load("rail-only"), sizing)
    >>> fabric.switches, fabric.link_count, fabric.transceivers, fabric.exact
    (256, 32768, 65536, True)
    """
    notes = []
    sizing = own_cards(spec, sizing)
    if spec.hb_size is not None:
        size = min(spec.hb_size, sizing.gpus)
        if spec.domains:
            # Hardly any fabric has domains of several kinds.
            from netplan.topologies.families.mixed_domains import domains_note  # noqa: PLC0415

            notes.append(domains_note(spec, sizing.gpus))
        elif size != sizing.hb_size or size < spec.hb_size:
            held = f"The one HB domain holds {size:,} of {spec.hb_size:,} GPUs."
            own_size = f"The HB domain is the design's own: {spec.hb_size} GPUs."
            notes.append(held if size < spec.hb_size else own_size)
        sizing = replace(sizing, hb_size=size)
    ratio = sizing.oversubscription or 1
    if ratio > 1 and not spec.reads("oversubscription"):
        notes.append(
            f"Oversubscription {ratio:g}:1 does not apply: only Clos and rail-only networks have"
            " leaves to thin out."
        )
    links = spec.hb_ports(sizing.hb_size)
    inside = f"on each of {links} links of a GPU inside" if links > 1 else "inside"
    rates = {"between": spec.link_bytes_per_s, inside: spec.hb_link_bytes_per_s}
    rates_given = [
        f"{gbps(rate):,.4g} Gb/s {where} HB domains" for where, rate in rates.items() if rate
    ]
    if rates_given and spec.tile is None:  # a wafer's are told with its tiles
        notes.append(f"The rates of links are the design's own: {' and '.join(rates_given)}.")
    sizing = shared_rate(spec, own_rates(spec, sizing))
    fabric = spec.build(sizing)
    spare = sizing.gpus - sizing.full_domains * sizing.hb_size
    if spare:
        notes.append(
            f"The last HB domain holds {spare:,} of {sizing.hb_size:,} GPUs;"
            " only full domains are timed."
        )
    if not fabric.exact:
        least = fabric.switches_lower_bound
        links = sum(group.links_lower_bound for group in fabric.links)
        more = f"{fabric.link_count:,} links are wireable, the ports alone would need {links:,}"
        if fabric.switches > least:
            more = (
                f"{fabric.switches:,} switches are wireable, the ports alone would need {least:,}"
            )
        notes.append(f"Sizes do not divide evenly: {more}.")
    kind = sizing.network_kind or spec.network_kind
    network = (level.as_found(kind, sizing.as_found) for level in fabric.levels[1:])
    fabric = replace(fabric, levels=(*fabric.levels[:1], *network))
    if spec.domains:
        from netplan.topologies.families.mixed_domains import domain_gpus  # noqa: PLC0415

        fabric = replace(fabric, domain_gpus=domain_gpus(spec, sizing.gpus))
    return replace(fabric, notes=(*notes, *fabric.notes))


def own_cards(spec: FabricSpec, sizing: Sizing) -> Sizing:
    """Sizing with all cards of a GPU as one port, on fabrics without a plane for each.

    Its switches have as many ports fewer.

    Examples
    --------
    >>> from netplan.topologies.specs import FABRICS
    >>> sizing = Sizing(gpus=144, radix=128, hb_size=72,
    ...                 hb_bytes_per_s=1800e9, network_bytes_per_s=100e9, cards=2)
    >>> own = own_cards(FABRICS.load("dragonfly"), sizing)
    >>> own.radix, own.speed_gbps, own_cards(FABRICS.load("two-planes"), sizing).speed_gbps
    (64, 1600.0, 800.0)
    """
    if spec.planes % sizing.cards == 0:
        return sizing
    return replace(
        sizing,
        radix=max(MIN_SIZED_RADIX, sizing.radix // sizing.cards // 2 * 2),
        network_bytes_per_s=sizing.cards * sizing.network_bytes_per_s,
        cards=1,
    )


def own_rates(spec: FabricSpec, sizing: Sizing) -> Sizing:
    """Sizing with the rates that the design states for its links, each of which has all of it.

    Examples
    --------
    A ring has two links a GPU.

    >>> from netplan.topologies.specs import FABRICS
    >>> sizing = Sizing(gpus=128, radix=64, hb_size=8,
    ...                 hb_bytes_per_s=300e9, network_bytes_per_s=25e9)
    >>> own = own_rates(FABRICS.load("ring-8-mesh-16"), sizing)
    >>> own.hb_bytes_per_s, own.network_bytes_per_s
    (1200000000000.0, 25000000000.0)
    """
    if spec.hb_link_bytes_per_s is not None:
        ports = max(1, spec.hb_ports(sizing.hb_size))
        sizing = replace(sizing, hb_bytes_per_s=ports * spec.hb_link_bytes_per_s)
    if spec.link_bytes_per_s is not None:
        rate = spec.planes // (sizing.port_split * sizing.cards) * spec.link_bytes_per_s
        sizing = replace(sizing, network_bytes_per_s=rate, shared_port=False)
    return sizing


def shared_rate(spec: FabricSpec, sizing: Sizing) -> Sizing:
    """Sizing with the rate of one link, where the links of a GPU share the rate of one port.

    So a GPU has the same network bandwidth on every fabric. Ports of the accelerator itself are
    there anyway, each at its whole rate, and reach its neighbours in a torus, no switch.

    Examples
    --------
    A 3D torus has six links a GPU: 400 / 6 Gb/s each.

    >>> from netplan.topologies.specs import FABRICS
    >>> from netplan import Scenario
    >>> sizing = Scenario.load("hgx-h100").replace(gpus=512).sizing
    >>> round(shared_rate(FABRICS.load("torus-3d"), sizing).speed_gbps, 1)
    66.7
    """
    if not sizing.shared_port:
        return sizing
    links = spec.ports(sizing)
    ports = max(1, sizing.chip_ports) if spec.switchless else 1
    rate = sizing.network_bytes_per_s * min(1, ports / max(1, links))
    return replace(sizing, network_bytes_per_s=rate, shared_port=False)
