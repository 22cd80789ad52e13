"""HB domains of several sizes or kinds in one cluster, such as racks of 72 beside servers of 8.

GPUs fill the kinds in the order of the fabric file; the last domain may be filled in part. All have
the HB bandwidth of the accelerator, shared evenly by their links. Inside, domains are wired as they
are. What counts domains of one size (levels, rails, plans, loads) sees groups of the greatest size
that divides all of them: between two groups traffic takes the network, also where a larger domain
holds both, so that times are no shorter than those of the cluster.
"""

from collections import Counter
from math import inf

import numpy as np
from msgspec import Struct

from netplan.arrays import Ints, ceil_div
from netplan.errors import InputError
from netplan.topologies.fabric import Sizing
from netplan.topologies.specs import DomainKind, FabricSpec


class FilledDomains(Struct, frozen=True):
    """Domains of one kind that hold GPUs: the first of these, and how many they are [1]."""

    kind: DomainKind
    first: int
    gpus: int

    @property
    def domains(self) -> int:
        """Domains, the last one perhaps partly filled [1]."""
        return ceil_div(self.gpus, self.kind.size)


def fill_domains(spec: FabricSpec, gpus: int, hb_size: int = 1) -> tuple[FilledDomains, ...]:
    """The kinds of domains that so many GPUs fill, in order; where there is one, of a size.

    Raises
    ------
    InputError
        If the domains hold fewer.

    Examples
    --------
    >>> from netplan.topologies.specs import FABRICS
    >>> [(one.domains, one.gpus) for one in fill_domains(FABRICS.load("mixed-domains"), 1000)]
    [(8, 576), (53, 424)]
    """
    filled, first = [], 0
    for kind in spec.kinds(hb_size):
        held = int(min(gpus - first, inf if kind.count is None else kind.size * kind.count))
        if held:
            filled.append(FilledDomains(kind, first, held))
        first += held
    if first < gpus:
        raise InputError(
            f"{spec.name}: its HB domains hold {first:,} GPUs, got {gpus:,}: give at most"
            f" {first:,}, or leave out the count of the last kind"
        )
    return tuple(filled)


def domain_gpus(spec: FabricSpec, gpus: int) -> tuple[tuple[int, int], ...]:
    """Each size of domains with its GPUs; empty where all are of one size.

    Examples
    --------
    >>> from netplan.topologies.specs import FABRICS
    >>> domain_gpus(FABRICS.load("mixed-domains"), 1000), domain_gpus(FABRICS.load("nvl72"), 1000)
    (((72, 576), (8, 424)), ())
    """
    if not spec.domains:
        return ()
    held: Counter[int] = Counter()
    for filled in fill_domains(spec, gpus):
        held[filled.kind.size] += filled.gpus
    return tuple(held.items())


def domain_of_gpu(spec: FabricSpec, sizing: Sizing) -> Ints:
    """HB domain of every GPU, as they are joined, shape (gpus,).

    Examples
    --------
    >>> from netplan.topologies.specs import FABRICS
    >>> from netplan import Scenario
    >>> asked = Scenario.load("hgx-b200").replace(gpus=600, nic_gbps=800).sizing
    >>> np.unique(domain_of_gpu(FABRICS.load("mixed-domains"), asked), return_counts=True)[1]
    array([72, 72, 72, 72, 72, 72, 72, 72,  8,  8,  8])
    """
    domains, number = [], 0
    for filled in fill_domains(spec, sizing.gpus, sizing.hb_size):
        domains.append(number + np.arange(filled.gpus) // filled.kind.size)
        number += filled.domains
    return np.concatenate(domains)


def domains_note(spec: FabricSpec, gpus: int) -> str:
    """What domains there are, and how they are timed."""
    kinds = ", ".join(
        f"{filled.domains:,} of {filled.kind.size:,} GPUs"
        + ("" if filled.kind.kind == "switch" else f" in a {filled.kind.kind}")
        for filled in fill_domains(spec, gpus)
    )
    return (
        f"HB domains: {kinds}. Plans and loads count groups of {spec.hb_size}: between these"
        " traffic takes the network, also inside a larger domain."
    )
