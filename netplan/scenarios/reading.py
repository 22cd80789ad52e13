"""From the names in a scenario to records: catalogs, values replaced for one run, sizes, ports.

A card's rate or a switch model may say how many ports a switch has; an expanded memory is what a
question puts behind the memory of each GPU by its name, and pays for.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from netplan.catalog import Catalog, Record, RecordT, unknown_name, user_roots
from netplan.costing.switches import RATE, SWITCHES, SwitchModel, known_switches, packet_ports
from netplan.documents import read_yaml_value
from netplan.errors import InputError, UnknownNameError
from netplan.inputs.choices import AS_PUBLISHED, Ports
from netplan.records import replace
from netplan.scenarios.parts import Cluster
from netplan.topologies.fabric import Sizing
from netplan.topologies.specs import FABRICS, FabricSpec, faults_of
from netplan.units import bytes_per_s
from netplan.workloads.accelerators import ACCELERATORS, Accelerator
from netplan.workloads.technologies import MEMORIES, MemoryTechnology, expanded

WORDS = {"floor-plan": (AS_PUBLISHED,)}
"""What may be written in place of a name, by the role of its shelf."""


class CatalogReader:
    """Reads the records of one question, the user's own in front of the shipped ones.

    Single values are replaced by ``ROLE.KEY`` or ``NAME.KEY``, such as
    ``{"accelerator.memory_bytes": "96e9"}``.
    """

    def __init__(
        self, catalog: str | Path | None = None, overrides: Mapping[str, str] | None = None
    ) -> None:
        self.roots = user_roots(catalog)
        self.overrides = dict(overrides or {})
        self._known: list[str] = []
        self._records: dict[tuple[Catalog[Any], str], Record] = {}

    def load(self, shelf: Catalog[RecordT], name: str) -> RecordT:
        """Load a record by name or path, once."""
        known = self._records.get((shelf, name))
        if known is not None:
            return cast("RecordT", known)
        try:
            record = shelf.load(name, self.roots, self.overrides)
        except UnknownNameError:
            if shelf.role not in WORDS or Path(name).suffix:
                raise
            names = [*WORDS[shelf.role], *shelf.paths(self.roots)]
            raise unknown_name(shelf.role, name, names) from None
        self._known += [shelf.role, *filter(None, [shelf.short]), record.name, *record.aliases]
        self._records[shelf, name] = record
        return record

    def fabrics(self, names: Iterable[str], cluster: Cluster | None = None) -> list[FabricSpec]:
        """Load fabrics that stand side by side; one that has no use for a value says so in a note.

        So does one whose GPUs have a single port where they are to have several full ones. Several
        network cards of the cluster's GPUs have a plane each.

        Raises
        ------
        CatalogError
            If none of them has a use for a value.
        """
        names = tuple(names)
        useless = {name: self._useless(FABRICS.load(name, self.roots)) for name in names}
        nobody = set(self.overrides).intersection(*useless.values())
        specs = []
        for name in names:
            spare = {key: why for key, why in useless[name].items() if key not in nobody}
            mine = {key: text for key, text in self.overrides.items() if key not in spare}
            spec = self._in_planes(FABRICS.load(name, self.roots, mine), cluster)
            self._known += [FABRICS.role, spec.name]
            notes = [
                f"--set {key}={self.overrides[key]} does not apply here: {why}."
                for key, why in spare.items()
            ]
            if cluster and cluster.ports == "full" and not spec.several_ports:
                notes.append(
                    "--ports full does not apply here: a GPU has one port, or one a plane."
                )
            specs.append(spec.changed(notes=(*spec.notes, *notes)) if notes else spec)
        return specs

    def fabric(self, name: str, cluster: Cluster) -> FabricSpec:
        """Load the one fabric of a question, with a plane for each network card of a GPU.

        Raises
        ------
        InputError
            If its GPUs have a single port, and are to have several full ones.
        """
        spec = self._in_planes(self.load(FABRICS, name), cluster)
        if cluster.ports == "full" and not spec.several_ports:
            raise InputError(
                f"--ports full means nothing for {spec.name}, where a GPU has one port, or one a"
                " plane: leave it out"
            )
        return spec

    def _in_planes(self, spec: FabricSpec, cluster: Cluster | None) -> FabricSpec:
        """The fabric with a plane for each card of the cluster's GPUs."""
        if cluster is None or not spec.reads("planes"):
            return spec
        return in_planes(spec, self.load(ACCELERATORS, cluster.accelerator).network_cards)

    def _useless(self, spec: FabricSpec) -> dict[str, str]:
        """Values given for every fabric that mean nothing for this one, and why."""
        common = {
            key.split(".")[1]: key for key in self.overrides if key.startswith(f"{FABRICS.role}.")
        }
        faults = faults_of(spec.family, common)
        return {common[str(place[0])]: text.partition(": leave")[0] for place, text in faults}

    def load_other(self, shelf: Catalog[RecordT], name: str) -> RecordT:
        """Load a record that is none of the question's own: only its name replaces values in it."""
        mine = {key: text for key, text in self.overrides.items() if key.startswith(f"{name}.")}
        self._known.append(name)
        return shelf.load(name, self.roots, mine)

    def circuit_switch(self, name: str) -> SwitchModel:
        """Load a circuit switch; an unknown name is told of circuit switches alone."""
        try:
            return self.load(SWITCHES, name)
        except UnknownNameError:
            if Path(name).suffix:  # a file
                raise
            models = known_switches(self.roots)
            circuits = [model.name for model in models if model.kind == "circuit"]
            raise unknown_name("circuit switch", name, circuits) from None

    def named(self, shelf: Catalog[RecordT], name: str | None) -> RecordT | None:
        """Load a record where one is named."""
        return self.load(shelf, name) if name else None

    def replaced(self) -> dict[str, object]:
        """The values that were replaced; refuses one that no loaded record has taken."""
        for key in self.overrides:
            role = key.partition(".")[0]
            if role not in self._known:
                raise unknown_name(f"--set {key}: record", role, list(dict.fromkeys(self._known)))
        return {key: read_yaml_value(text) for key, text in self.overrides.items()}


def in_planes(spec: FabricSpec, cards: int) -> FabricSpec:
    """The fabric with a plane for each network card of a GPU, where it has one and may have more.

    Examples
    --------
    >>> [in_planes(FABRICS.load(name), 2).planes for name in ("rail-only", "eight-planes")]
    [2, 8]
    """
    if cards == 1 or spec.planes > 1 or not spec.reads("planes"):
        return spec
    return spec.changed(planes=cards)


def sized(cluster: Cluster, on: Accelerator) -> Sizing:
    """Size a cluster of such GPUs.

    Parameters
    ----------
    cluster
        GPUs, ports of its switches, HB domains, oversubscription.
    on
        Its accelerator, with the values that are replaced in it.

    Returns
    -------
    Sizing
        What fabrics are built for.

    Raises
    ------
    InputError
        If nothing says how many ports a switch has.
    """
    sizing = sizing_on(
        on,
        gpus=cluster.gpus,
        radix=cluster.switch_radix,
        hb_size=cluster.hb_size,
        oversubscription=cluster.oversubscription,
        ports=cluster.ports,
    )
    return replace(
        sizing,
        network_kind=cluster.network_kind,
        as_found=cluster.as_found,
        as_published=cluster.hall in (AS_PUBLISHED, None),
    )


def sizing_on(
    accelerator: Accelerator,
    *,
    gpus: int,
    radix: int,
    hb_size: int | None = None,
    oversubscription: float | None = None,
    ports: Ports = "shared",
) -> Sizing:
    """Size a cluster of one accelerator.

    An HB domain that nobody asked for is the accelerator's own, cut to the cluster. Links of a
    direct fabric share the network bandwidth of a GPU, unless each is to have a ``full`` port.
    """
    return Sizing(
        gpus=gpus,
        radix=radix,
        hb_size=min(accelerator.hb_size, max(gpus, 1)) if hb_size is None else hb_size,
        hb_bytes_per_s=accelerator.hb_bytes_per_s,
        network_bytes_per_s=accelerator.network_bytes_per_s / accelerator.network_cards,
        hb_latency_s=accelerator.hb_latency_s,
        network_latency_s=accelerator.network_latency_s,
        oversubscription=oversubscription,
        chip_ports=accelerator.chip_ports,
        cards=accelerator.network_cards,
        cage_cards=accelerator.cage_cards,
        shared_port=ports == "shared",
    )


LEAST_RADIX = 4
NIC_KEY = "accelerator.network_bytes_per_s"
"""The value that the rate of a GPU's cards replaces."""


def same_capacity(cluster: Cluster, before: Cluster, catalog: str | Path | None = None) -> int:
    """Ports of a switch that forwards as much as before, for cards of another rate.

    Parameters
    ----------
    cluster
        With the new rate, and the ports of before.
    before
        With the rate of before; that of the accelerator's own cards if it names none.
    catalog
        Folder of the user's own catalogs.

    Returns
    -------
    int
        An even number of ports [1].

    Raises
    ------
    UnknownNameError
        If there is no such accelerator.

    Examples
    --------
    >>> same_capacity(Cluster(nic_gbps=800), Cluster())
    64
    """
    usual_gbps = before.nic_gbps
    if usual_gbps is None:
        usual = ACCELERATORS.load(cluster.accelerator, user_roots(catalog))
        usual_gbps = usual.card_gbps
    ports = cluster.switch_radix
    nic_gbps = cluster.nic_gbps or 0.0
    if not usual_gbps or not 0 < nic_gbps < math.inf:
        return ports  # what is no rate is refused where it is counted with
    return max(LEAST_RADIX, int(ports * usual_gbps / nic_gbps) // 2 * 2)


def with_cards(cluster: Cluster, overrides: Mapping[str, str]) -> dict[str, str]:
    """Values of catalog files that are replaced, with the cards and the power cap asked for.

    It is that of all cards of a GPU together.

    Examples
    --------
    >>> with_cards(Cluster(nic_gbps=800), {})
    {'accelerator.network_bytes_per_s': '100000000000.0'}
    """
    replaced = {}
    if cluster.nic_gbps is not None:
        replaced[NIC_KEY] = repr(bytes_per_s(cluster.nic_gbps))
    cap = cluster.gpu_power_cap
    if isinstance(cap, float) and cap != 1:
        replaced[f"accelerator.power_cap_{'share' if cap <= 1 else 'w'}"] = repr(cap)
    return {**replaced, **overrides}


def with_ports(cluster: Cluster, overrides: Mapping[str, str], roots: Sequence[Path]) -> Cluster:
    """The cluster with the ports of its switch model, where it names a model and no ports.

    A model that is named by what it forwards gets its name.

    Parameters
    ----------
    cluster
        Perhaps with a model alone.
    overrides
        Values of catalog files that are replaced.
    roots
        Folders of the user's own catalogs.

    Returns
    -------
    Cluster
        With a number of ports if anything says it.

    Raises
    ------
    InputError
        If the model forwards no packets at the rate of the links.

    Examples
    --------
    >>> with_ports(Cluster(radix=None, switch="qm9700"), {}, ()).radix
    64
    >>> with_ports(Cluster(radix=None, switch="51.2T"), {}, ()).switch
    'sn5600'
    """
    if cluster.switch is None:
        return cluster
    if RATE.fullmatch(cluster.switch):
        cluster = replace(cluster, switch=SWITCHES.find(cluster.switch, roots).stem)
    if cluster.radix is not None:
        return cluster
    chip = ACCELERATORS.load(cluster.accelerator, roots, overrides)
    model = SWITCHES.load(str(cluster.switch), roots)
    return replace(cluster, radix=packet_ports(model, chip.card_gbps, roots))


NONE = "none"
"""Stands for GPUs without expanded memory."""


class ChipVariant(Struct, frozen=True):
    """An accelerator as one design has it.

    Parameters
    ----------
    chip
        The accelerator, its expanded memory included.
    memory
        What is bought behind its own memory, if anything.
    name
        The memory's name, ``none`` without one; empty where nobody asked.
    """

    chip: Accelerator
    memory: MemoryTechnology | None = None
    name: str = ""


def variants(
    reader: CatalogReader, chip: Accelerator, names: Sequence[str | None]
) -> tuple[ChipVariant, ...]:
    """One accelerator with each of these expanded memories; as its file has it where none is named.

    Raises
    ------
    InputError
        If a memory's file leaves its capacity open.
    """
    asked = [name for name in dict.fromkeys(names) if name]
    if not asked:
        return (ChipVariant(chip),)
    memories = [read_memory(reader, name) for name in asked]
    return tuple(
        ChipVariant(expanded(chip, memory), memory, memory.name if memory else NONE)
        for memory in memories
    )


def read_memory(reader: CatalogReader, name: str | None) -> MemoryTechnology | None:
    """The expanded memory of a name; None without one.

    Raises
    ------
    InputError
        If its file leaves the capacity open, so that nobody could pay for it.
    """
    if name in (None, NONE):
        return None
    memory = reader.named(MEMORIES, name)
    if memory is not None and memory.memory_bytes is None:
        memories = (MEMORIES.load(known, reader.roots) for known in MEMORIES.paths(reader.roots))
        sized = ", ".join(other.name for other in memories if other.memory_bytes)
        raise InputError(
            f"--expanded-memory {name}: its file leaves the capacity open: take one of {sized}, or"
            f" --set {memory.name}.memory_bytes=256e9"
        )
    return memory


def with_memory(name: str, variant: str) -> str:
    """A fabric with an expanded memory, in words.

    Examples
    --------
    >>> with_memory("rail-only", "comet-480gb"), with_memory("rail-only", NONE)
    ('rail-only with comet-480gb', 'rail-only')
    """
    return name if variant in ("", NONE) else f"{name} with {variant}"
