"""Switch models: real boxes with their cages, breakouts, size and power.

A packet switch has a radix at each link rate: its cages times the links that a cage carries
there. An optical circuit switch has fibre ports, whatever the rate.

Circuit switches join the cubes of a torus. Cubes of side c hold c^d chips. At each position of a
face, the links that leave all cubes in one dimension meet on one circuit switch, with two ports a
cube, so that any whole cubes make a torus: d c^(d-1) switches for d dimensions (Jouppi et al.,
arXiv:2304.01433: 3 x 16 = 48 for 64 cubes of 4 x 4 x 4). A link between cubes becomes two fibres,
one from each face to the switch. Those between GPUs and rails (Wang et al., arXiv:2307.12169,
section 4.1) are counted in :mod:`netplan.topologies.rail_circuits`.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from math import isclose, prod
from pathlib import Path
from typing import Literal

from msgspec import Struct

from netplan.arrays import ceil_div
from netplan.catalog import Catalog, Record
from netplan.errors import CatalogError, InputError, UnknownNameError
from netplan.records import Entry, PositiveFloat, PositiveInt
from netplan.topologies.fabric import Fabric, Sizing
from netplan.topologies.families.switched import RailOnly
from netplan.topologies.families.torus import Torus, torus_shape
from netplan.topologies.rail_circuits import ENDS, CircuitPlan
from netplan.topologies.specs import FabricSpec
from netplan.units import counted

Airflow = Literal["power-to-connector", "connector-to-power", "liquid"]
"""Way of the air through a switch: in at the power supplies, or in at the connectors."""


class Breakout(Entry, frozen=True, kw_only=True):
    """How many links of one rate a cage carries."""

    speed_gbps: PositiveFloat
    links: PositiveInt


class SwitchNumber(Entry, frozen=True, kw_only=True):
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
    the switch), or ``singlemode-fibre`` for circuit switches. ``typical_w`` is without modules,
    ``max_w`` with those that draw most; ``power_note`` is what bills say where it is uncertain.
    ``evidence`` says whether it is sold or only announced, ``lead_time_weeks`` how long an order
    takes; left out where nobody has said so. ``orders`` are the maker's numbers, one for each way
    of the air; ``airflow`` says which of them is meant. A box of several ``planes`` has as many
    switches inside that nothing joins: the lanes of a cage are spread over all of them.
    """

    kind: Literal["packet", "router", "circuit"] = "packet"
    cages: PositiveInt
    form: str
    lane_gbps: PositiveFloat | None = None
    breakouts: tuple[Breakout, ...]
    planes: PositiveInt = 1
    rack_units: PositiveInt | None = None
    typical_w: PositiveFloat | None = None
    max_w: PositiveFloat | None = None
    power_note: str = ""
    airflow: Airflow | None = None
    orders: tuple[SwitchNumber, ...] = ()
    weight_kg: PositiveFloat | None = None
    lead_time_weeks: PositiveFloat | None = None
    notes: tuple[str, ...] = ()

    @property
    def ordered(self) -> SwitchNumber | None:
        """The order for its way of the air, None where no number of it is known.

        Examples
        --------
        >>> SWITCHES.load("palomar").ordered is None
        True
        """
        return next((order for order in self.orders if order.airflow == self.airflow), None)

    @property
    def label(self) -> str:
        """Its name as makers write it: numbers of models in capitals."""
        return self.name.upper() if re.match(r"[a-z]{0,3}\d", self.name) else self.name

    @property
    def called(self) -> str:
        """The same, and whether nobody can order it yet."""
        return f"{self.label} ({self.unsold})" if self.unsold else self.label

    @property
    def port_gbps(self) -> float:
        """Rate of a port as its cage has it, over all planes inside [Gb/s]."""
        return max((link.speed_gbps * link.links for link in self.breakouts), default=0.0)

    @property
    def box_gbps(self) -> float:
        """What the box forwards, one direction [Gb/s].

        Examples
        --------
        >>> SWITCHES.load("sn5600").box_gbps, SWITCHES.load("sn6800").box_gbps
        (51200.0, 409600.0)
        """
        return self.cages * self.port_gbps

    def links_per_cage(self, speed_gbps: float) -> int:
        """Links of this rate in one cage; 0 if the switch does not run at it [1]."""
        return next(
            (breakout.links for breakout in self.breakouts if breakout.speed_gbps == speed_gbps), 0
        )

    def takes(self, lane_gbps: float | None) -> bool:
        """Whether its lanes have a rate, as far as both are known [Gb/s]."""
        return None in (lane_gbps, self.lane_gbps) or lane_gbps == self.lane_gbps

    def radix(self, speed_gbps: float) -> int:
        """Ports of this rate of one of the switches inside; 0 if it does not run at it [1].

        Examples
        --------
        >>> SWITCHES.load("sn5600").radix(800), SWITCHES.load("sn5600").radix(400)
        (64, 128)

        Four chips share 2,048 lanes of 200G, and none has 512 ports of 800G.

        >>> SWITCHES.load("sn6800").radix(200), SWITCHES.load("sn6800").radix(800)
        (512, 0)
        """
        return self.cages * self.links_per_cage(speed_gbps) // self.planes


NO_BOX = "no switch has "
"""How a warning begins that no box has such ports."""
NOT_AN_ORDER = "No box has such ports: not an order."
"""What a verdict says then."""
CO_PACKAGED = "co-packaged"
"""Form of a box whose optics are inside."""
RATE = re.compile(r"(?:(?P<ports>\d{1,4})x)?(?P<rate>\d{1,6}(?:\.\d{1,3})?)(?P<unit>[GT])")
"""A switch by what it forwards: 128x400G, the rate of its links (800G) or of the box (51.2T)."""
TERA_GBPS = 1000.0


class SwitchCatalog(Catalog[SwitchModel], frozen=True):
    """Switch models, by name or by what they forward."""

    def find(self, name: str, roots: Sequence[Path] = ()) -> Path:
        """File of a model by name, path, or rate: of several the one that most is known of.

        Examples
        --------
        >>> [SWITCHES.find(rate).stem for rate in ("51.2T", "64x400G", "800G")]
        ['sn5600', 'qm9700', 'q3400']
        """
        wanted = RATE.fullmatch(name)
        if wanted is None:
            return super().find(name, roots)
        rate = float(wanted["rate"])
        known = [model for model in known_switches(roots) if model.kind == "packet"]
        if wanted["unit"] == "T":
            fitting = [model for model in known if isclose(model.box_gbps, TERA_GBPS * rate)]
            others = {model.box_gbps: f"{model.box_gbps / TERA_GBPS:g}T" for model in known}
        elif wanted["ports"]:
            fitting = [model for model in known if model.radix(rate) == int(wanted["ports"])]
            others = {model.radix(rate): f"{model.radix(rate)}x{rate:g}G" for model in known}
            others.pop(0, None)
        else:
            most = max((model.radix(rate) for model in known if not model.unsold), default=0)
            fitting = [model for model in known if most and model.radix(rate) == most]
            rates = {breakout.speed_gbps for model in known for breakout in model.breakouts}
            others = {speed: f"{speed:g}G" for speed in rates}
        if not fitting:
            words = ", ".join(others[size] for size in sorted(others))
            raise UnknownNameError(f"no switch of {name} in the catalog: take {words or 'a name'}")
        return super().find(best_known(fitting).name, roots)


SWITCHES = SwitchCatalog("switch", "costing/switches", SwitchModel)


@lru_cache(maxsize=8)
def _loaded(paths: tuple[tuple[Path, int], ...]) -> tuple[SwitchModel, ...]:
    models = []
    for path, _ in paths:
        with suppress(CatalogError):  # who names it is told; no other question is
            models.append(SWITCHES.load(str(path)))
    return tuple(models)


def known_switches(roots: Sequence[Path] = ()) -> tuple[SwitchModel, ...]:
    """Every switch model of the catalogs that can be read, by name.

    Examples
    --------
    >>> "sn5600" in [model.name for model in known_switches()]
    True
    """
    paths = SWITCHES.paths(roots).values()
    return _loaded(tuple((path, path.stat().st_mtime_ns) for path in paths))


def best_known(models: Sequence[SwitchModel]) -> SwitchModel:
    """Of switches with the same ports the one to name: of pluggable modules, sold, most known.

    Boxes with their optics inside are bought and billed otherwise: only who asks gets one.

    Examples
    --------
    >>> best_known([SWITCHES.load(name) for name in ("sn6600", "tomahawk6", "sn6810")]).name
    'tomahawk6'
    >>> best_known([SWITCHES.load(name) for name in ("q3450", "q3400")]).name
    'q3400'
    """
    return min(models, key=_unknown)


def by_knowledge(models: Sequence[SwitchModel]) -> list[str]:
    """Names of switches, those that are sold and of which most is known first.

    Examples
    --------
    >>> by_knowledge([SWITCHES.load(name) for name in ("sn6600", "tomahawk6", "sn5600")])
    ['sn5600', 'tomahawk6', 'sn6600']
    """
    return [model.name for model in sorted(models, key=_unknown)]


def _unknown(model: SwitchModel) -> tuple[bool, bool, int, str]:
    facts = (model.typical_w, model.rack_units, model.weight_kg, model.orders or None)
    unknown = facts.count(None) + len(model.assumed)
    return model.form == CO_PACKAGED, bool(model.unsold), unknown, model.name


def stands_for(
    radix: int, speed_gbps: float, models: Sequence[SwitchModel], lane_gbps: float | None = None
) -> SwitchModel | None:
    """The model that a number of ports stands for; None where no switch has as many.

    Parameters
    ----------
    radix
        Ports [1].
    speed_gbps
        Their rate [Gb/s].
    models
        The catalog's switches.
    lane_gbps
        Rate of a lane of the cards, which its links must have, too; None if not known [Gb/s].

    Returns
    -------
    SwitchModel or None
        The model; never a router, which is for links between sites.

    Examples
    --------
    >>> stands_for(128, 400, known_switches()).label, stands_for(512, 400, known_switches())
    ('SN5600', None)
    >>> stands_for(64, 800, known_switches(), lane_gbps=200) is None
    True
    """
    fitting = [
        model
        for model in models
        if model.kind == "packet" and model.radix(speed_gbps) == radix and model.takes(lane_gbps)
    ]
    return best_known(fitting) if fitting else None


def no_such_switch(
    radix: int, speed_gbps: float, models: Sequence[SwitchModel], lane_gbps: float | None = None
) -> str:
    """That no switch has so many ports, and which come nearest, in a sentence.

    Parameters
    ----------
    radix, speed_gbps, models, lane_gbps
        As of :func:`stands_for`.

    Returns
    -------
    str
        The sentence; empty where a switch has them.

    Examples
    --------
    >>> no_such_switch(512, 400, known_switches())
    'no switch has 512 ports of 400G; the largest is tomahawk6 with 256'
    >>> no_such_switch(96, 400, known_switches())
    'no switch has 96 ports of 400G; the next are QM9700 with 64 and SN5600 with 128'
    >>> no_such_switch(512, 800, known_switches()).partition("; ")[2].partition("; ")[2]
    'SN6800-LD is 4 planes of 512 x 200G: --fabric four-planes'
    >>> no_such_switch(64, 800, known_switches(), lane_gbps=200).rpartition(": ")[2]
    'SN5600 has lanes of 100G; --radix 128 fits (tomahawk6)'
    """
    by_ports: dict[int, list[SwitchModel]] = {}
    for model in models:
        if (ports := model.radix(speed_gbps)) and model.kind == "packet":
            by_ports.setdefault(ports, []).append(model)
    if radix in by_ports:
        if any(model.takes(lane_gbps) for model in by_ports[radix]):
            return ""
        box = best_known(by_ports[radix])
        lanes = f"{speed_gbps:g}G on lanes of {lane_gbps:g}G, as the cards"
        words = f"{NO_BOX}{radix} ports of {lanes}: {box.called} has lanes of {box.lane_gbps:g}G"
        fitting = {
            ports: best_known([model for model in boxes if model.takes(lane_gbps)]).called
            for ports, boxes in by_ports.items()
            if any(model.takes(lane_gbps) for model in boxes)
        }
        nearest = min(fitting, key=lambda ports: abs(ports - radix), default=0)
        return f"{words}; --radix {nearest} fits ({fitting[nearest]})" if nearest else words
    if not by_ports:
        rates = {link.speed_gbps for model in models for link in model.breakouts}
        known = ", ".join(f"{rate:g}G" for rate in sorted(rates))
        return f"{NO_BOX}ports of {speed_gbps:g}G: known are {known}"
    near = [max((ports for ports in by_ports if ports < radix), default=0)]
    near += [min((ports for ports in by_ports if ports > radix), default=0)]
    named = [f"{best_known(by_ports[ports]).called} with {ports}" for ports in near if ports]
    is_near = "the next are" if len(named) > 1 else f"the {'largest' if near[0] else 'smallest'} is"
    words = f"{NO_BOX}{radix} ports of {speed_gbps:g}G; {is_near} {' and '.join(named)}"
    for model in models:
        if model.planes > 1 and (model.cages, model.port_gbps) == (radix, speed_gbps):
            lanes = f"{model.planes} planes of {radix} x {speed_gbps / model.planes:g}G"
            return f"{words}; {model.label} is {lanes}: --fabric {PLANES[model.planes]}"
    return words


PLANES = {2: "two-planes", 4: "four-planes", 8: "eight-planes"}
"""Fabrics of so many planes."""


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
    fitting = by_knowledge([other for other in others if other.radix(speed_gbps) == radix])
    hint = f"take {_some(fitting)}" if fitting else "no switch of the catalog has as many"
    if ports == 0:
        speeds = ", ".join(f"{breakout.speed_gbps:g}" for breakout in model.breakouts)
        raise InputError(
            f"--switch {model.name} runs at {speeds} Gb/s, the links at {speed_gbps:g} Gb/s with"
            f" --radix {radix}: {_wish(model, speed_gbps)}, or {hint}"
        )
    raise InputError(
        f"--switch {model.name} has {ports} ports of {speed_gbps:g} Gb/s, got --radix {radix}:"
        f" give --radix {ports}, or {hint}"
    )


MOST_NAMED = 3
"""Switches that an error names [1]."""


def _some(names: Sequence[str]) -> str:
    """The first few of some names."""
    few = " or ".join(names[:MOST_NAMED])
    return f"{few} (of {len(names)})" if len(names) > MOST_NAMED else few


def _wish(model: SwitchModel, speed_gbps: float) -> str:
    """What to ask for so that a model runs, which does not at this rate."""
    if model.planes > 1 and model.port_gbps == speed_gbps:
        return f"it is {model.planes} planes in a box: add --fabric {PLANES[model.planes]}"
    cards = " or ".join(
        f"--nic {breakout.speed_gbps:g} ({model.radix(breakout.speed_gbps)} ports)"
        for breakout in model.breakouts
    )
    if model.planes > 1:
        cards = f"--nic {model.port_gbps:g} --fabric {PLANES[model.planes]}"
    return f"add {cards} and leave --radix out"


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
        check_switch(model, sizing.radix, sizing.speed_gbps, known_switches(roots))


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
    """Circuit switches of one model and their ports in use [1]; of rails, what is on them."""

    model: SwitchModel
    switches: int
    ports_used: int
    notes: tuple[str, ...] = ()
    plan: CircuitPlan | None = None


def check_circuit(model: SwitchModel) -> SwitchModel:
    """Give a model of circuit switches back, and refuse one that switches packets."""
    if model.kind != "circuit":
        raise InputError(f"--ocs {model.name}: it switches packets: use --switch {model.name}")
    return model


def circuit_layer(spec: FabricSpec, fabric: Fabric, model: SwitchModel) -> CircuitLayer:
    """Circuit switches for a torus of whole cubes, or between GPUs and separate rails.

    Parameters
    ----------
    spec, fabric
        A torus of single chips with ``copper_block``, or a fabric of rails, and its sized form.
    model
        An optical circuit switch of the catalog.

    Raises
    ------
    InputError
        If the fabric is neither rails nor a torus of whole cubes, or the model switches packets.

    Examples
    --------
    >>> from netplan import Scenario
    >>> fabric = Scenario.load("tpu-v7").replace(gpus=4096).fabric("torus-3d")
    >>> layer = circuit_layer(fabric.spec, fabric.counts, SWITCHES.load("palomar"))
    >>> layer.switches, layer.ports_used
    (48, 6144)
    """
    check_circuit(model)
    if isinstance(spec, RailOnly) and spec.circuit_switch:
        return rail_layer(fabric, model)
    if not isinstance(spec, Torus):
        raise InputError(
            f"--ocs {model.name}: {spec.name} is no torus; circuit switches join cubes, or rails"
            " (rail-only-ocs)"
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


def rail_layer(fabric: Fabric, model: SwitchModel, plan: CircuitPlan | None = None) -> CircuitLayer:
    """Circuit switches between GPUs and separate rails.

    Parameters
    ----------
    fabric
        The sized rails.
    model
        The circuit switches.
    plan
        What is on them; any GPU of a domain on the rails of those on its own switches without.

    Examples
    --------
    >>> from netplan import Scenario
    >>> fabric = Scenario.load("hgx-h100").replace(gpus=1024, radix=64).fabric("rail-only")
    >>> layer = rail_layer(fabric.counts, SWITCHES.load("palomar"))
    >>> layer.switches, layer.ports_used
    (16, 2048)
    """
    sizing = fabric.sizing
    used = ENDS * fabric.nic_ports if fabric.switches else 0
    if plan is None:
        plan = CircuitPlan(model.cages, sizing.domains, sizing.hb_size, fabric.ports_per_gpu)
    elif used and plan.spares:
        used = plan.ports_used
    reach = (
        f"The fibres of {plan.largest * sizing.hb_size // plan.blocks:,} GPUs of an HB domain and"
        f" of their rails meet on a circuit switch, {counted(plan.sets, 'switch', 'switches')} a"
        " domain and port: an idle GPU takes any of those places (faults --policy reconfigure)."
    )
    return CircuitLayer(
        model, plan.switches if used else 0, used, (reach,) if used else (), plan if used else None
    )


def packet_ports(model: SwitchModel, speed_gbps: float, roots: Sequence[Path]) -> int:
    """Ports of a model at the link rate [1].

    Raises
    ------
    InputError
        If it forwards no packets at that rate.
    """
    ports = model.radix(speed_gbps)
    if model.planes > 1 and model.port_gbps == speed_gbps:
        ports = model.cages // model.planes  # ports of which fabrics of planes have as many more
    if ports:
        return ports
    fitting = by_knowledge([switch for switch in known_switches(roots) if switch.radix(speed_gbps)])
    hint = f"take {_some(fitting)}" if fitting else "no switch of the catalog does"
    wish = f"{_wish(model, speed_gbps)}, or " if model.kind != "circuit" else ""
    raise InputError(
        f"--switch {model.name} forwards no packets at the links' {speed_gbps:g} Gb/s: {wish}{hint}"
    )
