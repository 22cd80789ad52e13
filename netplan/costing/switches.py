"""Switch models: real boxes with their cages, breakouts, size and power.

A packet switch has a radix at each link rate: its cages times the links that a cage carries
there. An optical circuit switch has fibre ports, whatever the rate.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import PositiveFloat, PositiveInt

from netplan.catalog import Entry, Record, Shelf
from netplan.errors import InputError
from netplan.topologies.fabric import Sizing
from netplan.topologies.specs import FabricSpec

Delivery = Literal["shipping", "announced"]


class Breakout(Entry):
    """How many links of one rate a cage carries."""

    speed_gbps: PositiveFloat
    links: PositiveInt


class SwitchModel(Record):
    """A switch that can be bought.

    ``form`` is what its cages take: ``osfp-finned`` (switches cool the module by its fins),
    ``osfp-flat`` (network cards and liquid-cooled boxes press a heat sink on it), ``qsfp-dd``,
    ``qsfp112``, ``qsfp56``, or ``singlemode-fibre`` for circuit switches. ``typical_w`` is
    without modules. ``delivery`` says whether it is sold or only announced, ``lead_time_weeks``
    how long an order takes; both are left out where nobody has said so.
    """

    kind: Literal["packet", "circuit"] = "packet"
    cages: PositiveInt
    form: str
    lane_gbps: PositiveFloat | None = None
    breakouts: tuple[Breakout, ...]
    rack_units: PositiveInt | None = None
    typical_w: PositiveFloat | None = None
    delivery: Delivery | None = None
    lead_time_weeks: PositiveFloat | None = None
    notes: tuple[str, ...] = ()

    def links_per_cage(self, speed_gbps: float) -> int:
        """Links of this rate in one cage; 0 if the switch does not run at it [1]."""
        for breakout in self.breakouts:
            if breakout.speed_gbps == speed_gbps:
                return breakout.links
        return 0

    def radix(self, speed_gbps: float) -> int:
        """Ports of this rate; 0 if the switch does not run at it [1].

        Examples
        --------
        >>> SWITCHES.load("sn5600").radix(800), SWITCHES.load("sn5600").radix(400)
        (64, 128)
        """
        return self.cages * self.links_per_cage(speed_gbps)


SWITCHES = Shelf("switch", "costing/switches", SwitchModel)


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
    """Links in a cage of a switch that is used with this many ports [1].

    Parameters
    ----------
    model
        The switch.
    radix
        Ports that it has at its link rate [1].

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
