"""How many ports a switch has, where a card's rate or a switch model says so."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from netplan.catalog import user_roots
from netplan.costing.switches import SWITCHES, packet_ports
from netplan.records import replace
from netplan.scenarios.parts import Cluster
from netplan.units import bytes_per_s, gbps
from netplan.workloads.accelerators import ACCELERATORS

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
        usual_gbps = gbps(usual.network_bytes_per_s)
    ports = cluster.switch_radix
    if not cluster.nic_gbps or not usual_gbps:
        return ports
    return max(LEAST_RADIX, int(ports * usual_gbps / cluster.nic_gbps) // 2 * 2)


def with_cards(cluster: Cluster, overrides: Mapping[str, str]) -> dict[str, str]:
    """Values of catalog files that are replaced, with the rate of the cards that are asked for.

    Examples
    --------
    >>> with_cards(Cluster(nic_gbps=800), {})
    {'accelerator.network_bytes_per_s': '100000000000.0'}
    """
    if cluster.nic_gbps is None:
        return dict(overrides)
    return {NIC_KEY: repr(bytes_per_s(cluster.nic_gbps)), **overrides}


def with_ports(cluster: Cluster, overrides: Mapping[str, str], roots: Sequence[Path]) -> Cluster:
    """The cluster with the ports of its switch model, where it names a model and no ports.

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
    """
    if cluster.radix is not None or cluster.switch is None:
        return cluster
    chip = ACCELERATORS.load(cluster.accelerator, roots, overrides)
    model = SWITCHES.load(cluster.switch, roots)
    return replace(cluster, radix=packet_ports(model, gbps(chip.network_bytes_per_s), roots))
