"""Switch models: real boxes with their cages, breakouts, size and power.

A packet switch has a radix at each link rate: its cages times the links that a cage carries
there. An optical circuit switch has fibre ports, whatever the rate.

Circuit switches join the cubes of a torus. Cubes of side c hold c^d chips. At each position of a
face, the links that leave all cubes in one dimension meet on one circuit switch, with two ports a
cube, so that any whole cubes make a torus: d c^(d-1) switches for d dimensions (Jouppi et al.,
arXiv:2304.01433: 3 x 16 = 48 for 64 cubes of 4 x 4 x 4). A link between cubes becomes two fibres,
one from each face to the switch.
"""

from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Literal

from msgspec import Struct

from netplan.catalog import Catalog, Record
from netplan.errors import InputError
from netplan.records import Entry, PositiveFloat, PositiveInt
from netplan.topologies.fabric import Fabric, Sizing
from netplan.topologies.families.clos import ceil_div
from netplan.topologies.families.torus import Torus, torus_shape
from netplan.topologies.specs import FabricSpec

Delivery = Literal["shipping", "announced"]
Airflow = Literal["power-to-connector", "connector-to-power", "liquid"]
"""Way of the air through a switch: in at the power supplies, or in at the connectors."""


class Breakout(Entry, frozen=True, kw_only=True):
    """How many links of one rate a cage carries."""

    speed_gbps: PositiveFloat
    links: PositiveInt


class Order(Entry, frozen=True, kw_only=True):
    """Maker's number of a switch for one way of the air, and numbers of equals."""

    airflow: Airflow | None = None
    part_number: str
    accepted: tuple[str, ...] = ()
    source: str


class SwitchModel(Record, frozen=True, kw_only=True):
    """A switch that can be bought.

    ``form`` is what its cages take: ``osfp-finned`` (switches cool the module by its fins),
    ``osfp-flat`` (network cards and liquid-cooled boxes press a heat sink on it), ``qsfp-dd``,
    ``qsfp112``, ``qsfp56``, ``qsfp28``, ``rj45``, ``co-packaged`` (fibre, since the optics are in
    the switch), or ``singlemode-fibre`` for circuit switches. ``typical_w`` is without modules;
    ``power_note`` is what bills say where it is uncertain. ``delivery`` says whether it is sold or
    only announced, ``lead_time_weeks`` how long an order takes; both are left out where nobody has
    said so. ``orders`` are the maker's numbers, one for each way of the air; ``airflow`` says which
    of them is meant.
    """

    kind: Literal["packet", "circuit"] = "packet"
    cages: PositiveInt
    form: str
    lane_gbps: PositiveFloat | None = None
    breakouts: tuple[Breakout, ...]
    rack_units: PositiveInt | None = None
    typical_w: PositiveFloat | None = None
    power_note: str = ""
    airflow: Airflow | None = None
    orders: tuple[Order, ...] = ()
    weight_kg: PositiveFloat | None = None
    delivery: Delivery | None = None
    lead_time_weeks: PositiveFloat | None = None
    notes: tuple[str, ...] = ()

    @property
    def ordered(self) -> Order | None:
        """The order for its way of the air, None where no number of it is known.

        Examples
        --------
        >>> SWITCHES.load("palomar").ordered is None
        True
        """
        return next((order for order in self.orders if order.airflow == self.airflow), None)

    def links_per_cage(self, speed_gbps: float) -> int:
        """Links of this rate in one cage; 0 if the switch does not run at it [1]."""
        return next(
            (breakout.links for breakout in self.breakouts if breakout.speed_gbps == speed_gbps), 0
        )

    def radix(self, speed_gbps: float) -> int:
        """Ports of this rate; 0 if the switch does not run at it [1].

        Examples
        --------
        >>> SWITCHES.load("sn5600").radix(800), SWITCHES.load("sn5600").radix(400)
        (64, 128)
        """
        return self.cages * self.links_per_cage(speed_gbps)


SWITCHES = Catalog("switch", "costing/switches", SwitchModel)


def check_switch(
    model: SwitchModel, radix: int, speed_gbps: float, others: Sequence[SwitchModel]
) -> None:
    """Refuse a switch that is not the one the fabric is sized for.

    Parameters
    ----------
    model
        The switch chosen.
    radix
        Ports per switch that the fabric counts with [1].
    speed_gbps
        Link rate [Gb/s].
    others
        The catalog's switches, to say which of them would fit.

    Raises
    ------
    InputError
        If its ports at the link rate are not the radix; the message says what fits.
    """
    if model.kind == "circuit":
        raise InputError(
            f"--switch {model.name}: an optical circuit switch forwards no packets: in netplan"
            f" cost, use --ocs {model.name}"
        )
    ports = model.radix(speed_gbps)
    if ports == radix:
        return
    fitting = [other.name for other in others if other.radix(speed_gbps) == radix]
    hint = f"take {' or '.join(fitting)}" if fitting else "no switch of the catalog has as many"
    if ports == 0:
        speeds = ", ".join(f"{breakout.speed_gbps:g}" for breakout in model.breakouts)
        raise InputError(
            f"--switch {model.name} runs at {speeds} Gb/s, the links at {speed_gbps:g} Gb/s with"
            f" --radix {radix}: {hint}"
        )
    raise InputError(
        f"--switch {model.name} has {ports} ports of {speed_gbps:g} Gb/s, got --radix {radix}:"
        f" give --radix {ports}, or {hint}"
    )


def require_switch(
    model: SwitchModel | None, specs: Sequence[FabricSpec], sizing: Sizing, roots: Sequence[Path]
) -> None:
    """Refuse a switch model of another radix, and say which of the catalog would fit.

    Fabrics of several planes split the ports of their switches: their bill checks them.

    Raises
    ------
    InputError
        If its ports at the link rate are not the radix.
    """
    if model is not None and all(spec.planes == 1 for spec in specs):
        others = [SWITCHES.load(str(path)) for path in SWITCHES.paths(roots).values()]
        check_switch(model, sizing.radix, sizing.speed_gbps, others)


def cage_links(model: SwitchModel, radix: int) -> int:
    """Links in a cage of a switch that is used with ``radix`` ports [1].

    Raises
    ------
    InputError
        If it has another number of ports at every rate.

    Examples
    --------
    >>> cage_links(SWITCHES.load("sn5600"), 64), cage_links(SWITCHES.load("sn5600"), 128)
    (1, 2)
    """
    for breakout in model.breakouts:
        if model.cages * breakout.links == radix:
            return breakout.links
    known = [f"{model.radix(b.speed_gbps)} ports of {b.speed_gbps:g} Gb/s" for b in model.breakouts]
    raise InputError(
        f"--switch {model.name} has {' or '.join(known) or 'no ports for packets'}, got --radix"
        f" {radix}: give --radix as the plan has it, or another switch"
    )


class CircuitLayer(Struct, frozen=True):
    """Circuit switches of one model and their ports in use [1]."""

    model: SwitchModel
    switches: int
    ports_used: int
    notes: tuple[str, ...] = ()


def check_circuit(model: SwitchModel) -> SwitchModel:
    """Give a model of circuit switches back, and refuse one that switches packets."""
    if model.kind != "circuit":
        raise InputError(f"--ocs {model.name}: it switches packets: use --switch {model.name}")
    return model


def circuit_layer(spec: FabricSpec, fabric: Fabric, model: SwitchModel) -> CircuitLayer:
    """Circuit switches for a torus of whole cubes.

    Parameters
    ----------
    spec, fabric
        A torus of single chips with ``copper_block``, and its sized form.
    model
        An optical circuit switch of the catalog.

    Raises
    ------
    InputError
        If the fabric is not a torus of whole cubes, or the model switches packets.

    Examples
    --------
    >>> from netplan import Scenario
    >>> fabric = Scenario.load("tpu-v7").replace(gpus=4096).fabric("torus-3d")
    >>> layer = circuit_layer(fabric.spec, fabric.counts, SWITCHES.load("palomar"))
    >>> layer.switches, layer.ports_used
    (48, 6144)
    """
    check_circuit(model)
    if not isinstance(spec, Torus):
        raise InputError(
            f"--ocs {model.name}: {spec.name} is no torus; circuit switches join cubes"
        )
    block, chips = spec.copper_block, fabric.sizing.hb_size == 1
    sizes = torus_shape(spec, fabric.sizing)
    whole = prod(sizes) == fabric.sizing.gpus or bool(spec.circuit_switch)
    whole = whole and not any(size % block for size in sizes)
    if block < 2 or not chips or not whole:  # noqa: PLR2004
        shape = " x ".join(str(size) for size in sizes)
        raise InputError(
            f"--ocs {model.name}: {spec.name} is {shape} of domains of"
            f" {fabric.sizing.hb_size:,}: circuit switches join whole cubes of single GPUs; give"
            f" --hb-size 1 and a number of GPUs that fills cubes of side {block}"
        )
    # Every link between cubes lands with both its halves on circuit switches.
    ports = 2 * sum(group.links for group in fabric.links if group.medium == "optical")
    positions = len(sizes) * block ** (len(sizes) - 1)
    groups = ceil_div(ceil_div(ports, positions), model.cages)
    shared = (
        f"{groups} circuit switches share a face position, which needs more than"
        f" {model.cages} ports: not every choice of cubes can be joined."
    )
    return CircuitLayer(model, positions * groups, ports, (shared,) if groups > 1 else ())


def packet_ports(model: SwitchModel, speed_gbps: float, roots: Sequence[Path]) -> int:
    """Ports of a model at the link rate [1].

    Raises
    ------
    InputError
        If it forwards no packets at that rate.
    """
    ports = model.radix(speed_gbps)
    if ports:
        return ports
    known = [SWITCHES.load(name, roots) for name in SWITCHES.paths(roots)]
    fitting = [switch.name for switch in known if switch.radix(speed_gbps)]
    hint = f"take one of {', '.join(fitting)}" if fitting else "no switch of the catalog does"
    raise InputError(
        f"--switch {model.name} forwards no packets at the links' {speed_gbps:g} Gb/s: {hint}"
    )
