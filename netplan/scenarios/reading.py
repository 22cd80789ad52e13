"""From the names in a scenario to records: catalogs, values replaced for one run, sizes."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from netplan.catalog import Record, Shelf, unknown_name, user_roots
from netplan.documents import read_yaml_value
from netplan.errors import InputError
from netplan.inputs.choices import Ports
from netplan.scenarios.parts import Cluster
from netplan.topologies.fabric import Sizing
from netplan.topologies.specs import FABRICS, FabricSpec, faults_of
from netplan.workloads.accelerators import Accelerator

RecordT = TypeVar("RecordT", bound=Record)


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

    def load(self, shelf: Shelf[RecordT], name: str) -> RecordT:
        """Load a record by name or path."""
        record = shelf.load(name, self.roots, self.overrides)
        self._known += [shelf.role, record.name]
        return record

    def fabrics(self, names: Iterable[str], ports: Ports = "shared") -> list[FabricSpec]:
        """Load fabrics that stand side by side; one that has no use for a value says so in a note.

        So does one whose GPUs have a single port where they are to have several full ones.

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
            spec = FABRICS.load(name, self.roots, mine)
            self._known += [FABRICS.role, spec.name]
            notes = [
                f"--set {key}={self.overrides[key]} does not apply here: {why}."
                for key, why in spare.items()
            ]
            if ports == "full" and not spec.several_ports:
                notes.append(
                    "--ports full does not apply here: a GPU has one port, or one a plane."
                )
            specs.append(spec.changed(notes=(*spec.notes, *notes)) if notes else spec)
        return specs

    def fabric(self, name: str, ports: Ports = "shared") -> FabricSpec:
        """Load the one fabric of a question.

        Raises
        ------
        InputError
            If its GPUs have a single port, and are to have several full ones.
        """
        spec = self.load(FABRICS, name)
        if ports == "full" and not spec.several_ports:
            raise InputError(
                f"--ports full means nothing for {spec.name}, where a GPU has one port, or one a"
                " plane: leave it out"
            )
        return spec

    def _useless(self, spec: FabricSpec) -> dict[str, str]:
        """Values given for every fabric that mean nothing for this one, and why."""
        common = {
            key.split(".")[1]: key for key in self.overrides if key.startswith(f"{FABRICS.role}.")
        }
        faults = faults_of(spec.family, common)
        return {common[str(place[0])]: text.partition(": leave")[0] for place, text in faults}

    def beside(self, shelf: Shelf[RecordT], name: str) -> RecordT:
        """Load a record that is none of the question's own: only its name replaces values in it."""
        mine = {key: text for key, text in self.overrides.items() if key.startswith(f"{name}.")}
        self._known.append(name)
        return shelf.load(name, self.roots, mine)

    def named(self, shelf: Shelf[RecordT], name: str | None) -> RecordT | None:
        """Load a record where one is named."""
        return self.load(shelf, name) if name else None

    def replaced(self) -> dict[str, object]:
        """The values that were replaced; refuses one that no loaded record has taken."""
        for key in self.overrides:
            role = key.partition(".")[0]
            if role not in self._known:
                raise unknown_name(f"--set {key}: record", role, list(dict.fromkeys(self._known)))
        return {key: read_yaml_value(text) for key, text in self.overrides.items()}


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
    return sizing_on(
        on,
        gpus=cluster.gpus,
        radix=cluster.switch_radix,
        hb_size=cluster.hb_size,
        oversubscription=cluster.oversubscription,
        ports=cluster.ports,
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
        network_bytes_per_s=accelerator.network_bytes_per_s,
        hb_latency_s=accelerator.hb_latency_s,
        network_latency_s=accelerator.network_latency_s,
        oversubscription=oversubscription,
        chip_ports=accelerator.chip_ports,
        shared_port=ports == "shared",
    )
