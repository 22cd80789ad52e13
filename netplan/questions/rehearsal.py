"""A plan booted before it is bought: OpenSM routes it on a simulator, what is found is compared.

Which engine fits is told by the fabric: ``ftree`` a Clos, then ``updn`` where it is no fat tree to
OpenSM; ``torus-2QoS`` a torus of up to three axes without a twist; ``updn`` or ``dfsssp`` all
else; ``minhop`` one switch alone.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from netplan.errors import InputError
from netplan.files import read_lines
from netplan.questions.cable_comparison import CableComparison, compare_cables
from netplan.records import asdict
from netplan.reports.answer import Answer, answer_dict
from netplan.reports.screen import Screen, more_of
from netplan.reports.sections import Heading, Paragraph, Section, Table, column
from netplan.topologies.cabling.device_names import node_of_guid
from netplan.topologies.cabling.rehearsal import (
    PACKAGES,
    Booted,
    Part,
    Routing,
    Tools,
    find_tools,
    rehearse,
    torus_config,
)
from netplan.topologies.fabric import Sizing
from netplan.topologies.families.switched import SwitchTrees
from netplan.topologies.families.torus import Torus, torus_shape
from netplan.topologies.formats.kinds import SUBNET, kind_of
from netplan.topologies.formats.subnet_files import PlannedSubnet
from netplan.topologies.specs import FabricSpec

"""Families of fabrics that are fat trees."""

MAX_AXES = 3
"""Axes of a torus that OpenSM's engine knows [1]."""


SCREEN_ROWS = 12
"""Subnets, or differences, that a screen shows [1]."""

Comparing = Callable[[Path, Path], CableComparison]
"""How a plan is compared with cables as built."""


@dataclass(frozen=True, slots=True, repr=False)
class Rehearsal(Answer):
    """The answer of ``netplan cables --rehearse``: subnets with their routing, and what differs."""

    inputs: dict[str, object]
    booted: tuple[Booted, ...]
    compared: CableComparison

    @property
    def sentence(self) -> str:
        """One line for people."""
        return f"{self._routed} {self.compared.sentence}"

    def in_a_line(self) -> str:
        """How many subnets are routed, and what differs."""
        return self.sentence.removesuffix(".")

    @property
    def _routed(self) -> str:
        routed, many = sum(one.routed for one in self.booted), "s" * (len(self.booted) != 1)
        return f"{routed:,} of {len(self.booted):,} subnet{many} routed."

    @property
    def exit_code(self) -> int:
        """1 if a subnet is not routed by an engine that fits it, or anything differs."""
        return int(self.compared.exit_code or not all(one.routed for one in self.booted))

    def to_dict(self) -> dict[str, Any]:
        """Exactly the JSON of ``netplan cables --rehearse``."""
        return answer_dict(
            self.inputs,
            subnets=[
                {
                    **asdict(one.part),
                    "engines": list(one.routing.engines),
                    "engine": one.engine,
                    "routed": one.routed,
                }
                for one in self.booted
            ],
            **{key: value for key, value in self.compared.to_dict().items() if key != "inputs"},
        )

    def summary(self) -> Iterator[Section]:
        """How many subnets are routed, what differs, and the first of what to do."""
        differ = bool(self.compared.differences)
        parts = [part for part in self.sections() if isinstance(part, Table)]
        yield from Screen(
            Heading("Rehearsal: booted on a simulator, and found again"),
            (self.sentence,),
            parts[-1] if differ else parts[0],
            self.compared.notes,
            more_of("every subnet, every difference", page=False),
            most_rows=SCREEN_ROWS,
        ).sections()

    def sections(self) -> Iterator[Section]:
        """One row a subnet, then one a difference with what to do about it."""
        shown = [
            column("subnet", lambda one: one.part.name),
            *(
                column(name, attrgetter(f"part.{name}"))
                for name in ("switches", "adapters", "cables")
            ),
            column("engine", lambda one: one.engine),
            column("routed", lambda one: "yes" if one.routed else "no"),
        ]
        yield Table("subnets", shown, self.booted)
        if self.compared.differences:
            yield Paragraph(self._routed)
            yield from self.compared.sections()
        else:
            yield Paragraph(self.sentence)


def rehearse_plan(
    inputs: dict[str, object], subnet: PlannedSubnet, spec: FabricSpec, sizing: Sizing
) -> Rehearsal:
    """Boot a fabric as planned, and compare what is found with the plan.

    Parameters
    ----------
    inputs
        What was asked.
    subnet
        The network as its subnet manager sees it.
    spec, sizing
        The fabric.

    Raises
    ------
    InputError
        If a program is missing, or a speed cannot be simulated.
    NetplanError
        If a program fails.
    """
    tools = _tools()
    if subnet.network.source.size == 0:
        raise InputError(f"{spec.name} has no cables at this size: nothing to boot")
    text = "".join(subnet.blocks(subnet.stand_ins()))
    with TemporaryDirectory(prefix="netplan-") as folder:
        plan = Path(folder) / "plan.ibnetdiscover"
        plan.write_text(text, encoding="utf-8")
        return _compared(inputs, (plan, plan), (_routing(spec, sizing), compare_cables), tools)


def rehearse_files(
    inputs: dict[str, object], plan: Path, as_built: Path, compared: Comparing = compare_cables
) -> Rehearsal:
    """Boot a network as ``ibnetdiscover`` printed it, and compare what is found with a plan.

    Parameters
    ----------
    inputs
        What was asked.
    plan, as_built
        The two files.
    compared
        How a plan is compared with what is found.

    Raises
    ------
    InputError
        If a program is missing, or a speed cannot be simulated.
    NetplanError
        If a program fails, such as on a file of another form.
    """
    return _compared(inputs, (plan, as_built), (_trees, compared), _tools())


def _tools() -> Tools:
    tools = find_tools()
    if tools is None:
        raise InputError(f"--rehearse runs OpenSM on a simulator: install {PACKAGES}")
    return tools


def _compared(
    inputs: dict[str, object],
    files: tuple[Path, Path],
    how: tuple[Callable[[Part], Routing], Comparing],
    tools: Tools,
) -> Rehearsal:
    """Boot the second file, and compare what is found with the first."""
    (plan, network), (routing, compared) = files, how
    if kind_of(network) != SUBNET:
        raise InputError(f"--rehearse: {network} is not what ibnetdiscover prints: give its output")
    text = "\n".join(read_lines(network))
    found, booted = rehearse(text, routing, tools)
    with TemporaryDirectory(prefix="netplan-") as folder:
        seen = Path(folder) / "found.ibnetdiscover"
        seen.write_text(found, encoding="utf-8")
        return Rehearsal(inputs, tuple(booted), compared(plan, seen))


def _trees(part: Part) -> Routing:
    """A fat tree where OpenSM sees one, any tree else."""
    return Routing(("minhop",) if part.switches == 1 else ("ftree", "updn"))


def _routing(spec: FabricSpec, sizing: Sizing) -> Callable[[Part], Routing]:
    """Engines that fit the subnets of a fabric."""
    if isinstance(spec, SwitchTrees):
        return _trees
    rails, sizes = sizing.hb_size, torus_shape(spec, sizing) if isinstance(spec, Torus) else ()
    whole = prod(sizes) * rails == sizing.gpus
    # The engine of tori knows no twist: a ring around leads it to other rows than it expects.
    if not (isinstance(spec, Torus) and whole) or len(sizes) > MAX_AXES or spec.twist:
        return lambda part: Routing(("minhop",) if part.switches == 1 else ("updn", "dfsssp"))

    def torus(part: Part) -> Routing:
        # One torus a rail; its first switch is the member at the origin.
        rank = node_of_guid(int(part.node.partition("-")[2], 16)) % rails
        config = torus_config(sizes, first=rank, step=rails, closed=spec.wraparound)
        return Routing(("torus-2QoS",), config)

    return torus
