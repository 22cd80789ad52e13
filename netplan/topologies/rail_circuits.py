"""Optical circuit switches in front of rails: how many, on which ports, who may take whose place.

Wang et al. (arXiv:2307.12169), section 4.1, puts "a small number of optical switches between the
GPU and rail switches", which "bring a healthy, idle GPU to replace the failed one", and for full
HB domains of 256 GPUs switches inside the domain, which replace "a small set of GPUs (including the
failed one)". It prints no counts. We read both as one plan, of *blocks* that move as a whole:
single GPUs, the GPUs of a tray, or whole domains.

=========  =========================================================================
C          ports of a circuit switch
D, n       HB domains, and blocks of each
P          fibres of a block: its links to the rails, and those into the domain's core
S          spare blocks beside the domains, on each set of circuit switches
=========  =========================================================================

A block and the places that it may take (its rail ports, its ports of the domain's core) must meet
on one circuit switch, for each of the P fibres on one of its own. n blocks of a domain and their n
places take 2n ports. Where 2n + S > C, a domain is spread over several *sets* of circuit switches,
q = ceil(n / floor((C - S) / 2)), as even as can be: a block takes the place of those of its own set
alone. Where there is room, X = floor((C - S) / 2 ceil(n/q)) domains share a set, and so its spares.

Without spare blocks beside the domains some of the n stand by, in every set as many as can be, and
fibres fill up switches one after the other: ceil(D P q / X) switches. With them every S spares
belong to X domains and all their fibres: P q ceil(D / X).

Left out: circuits in two stages, which would let a spare reach other sets at twice the loss of
light; and other ports than those that a block or its places need.
"""

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Ints, ceil_div
from netplan.topologies.families.clos import even_groups

ENDS = 2
"""Ports that a block takes with the place that it fills [1]."""


class CircuitPlan(Struct, frozen=True):
    """Circuit switches that let blocks of GPUs take each other's place.

    Parameters
    ----------
    cages
        Ports of one circuit switch [1].
    domains, blocks
        HB domains, and blocks of each that move as a whole [1].
    fibres
        Fibres of a block, each to a circuit switch of its own [1].
    spares
        Spare blocks beside the domains on every set of circuit switches [1].

    Examples
    --------
    256 GPUs of a domain and their 256 rails are spread over four Palomars of 136 ports, 64 on each.

    >>> plan = CircuitPlan(136, domains=64, blocks=256, fibres=1)
    >>> plan.sets, plan.largest, plan.domains_each, plan.switches
    (4, 64, 1, 256)

    32 blocks of eight of such domains: two domains share eight spare blocks, a circuit switch for
    each of the 80 fibres of a block.

    >>> plan = CircuitPlan(136, domains=64, blocks=32, fibres=80, spares=8)
    >>> plan.sets, plan.domains_each, plan.switches, plan.spare_blocks
    (1, 2, 2560, 256)
    """

    cages: int
    domains: int
    blocks: int
    fibres: int
    spares: int = 0

    @property
    def fits(self) -> bool:
        """Whether a block, its place and the spares find ports on one switch."""
        return self.cages >= ENDS + self.spares

    @property
    def sets(self) -> int:
        """Sets of circuit switches that the blocks of a domain are spread over [1]."""
        return ceil_div(self.blocks, (self.cages - self.spares) // ENDS)

    @property
    def largest(self) -> int:
        """Blocks of a domain on its largest set [1]."""
        return ceil_div(self.blocks, self.sets)

    @property
    def domains_each(self) -> int:
        """Domains that share a set [1]."""
        return min(self.domains, (self.cages - self.spares) // (ENDS * self.largest))

    @property
    def groups(self) -> int:
        """Groups of domains that share their sets, and so the spares beside them [1]."""
        return ceil_div(self.domains, self.domains_each)

    @property
    def spare_blocks(self) -> int:
        """Spare blocks beside all domains [1]."""
        return self.groups * self.sets * self.spares

    @property
    def switches(self) -> int:
        """Circuit switches [1]."""
        if self.spares:
            return self.fibres * self.sets * self.groups
        room = (self.cages - self.spares) // (ENDS * self.largest)
        return ceil_div(self.domains * self.fibres * self.sets, room)

    @property
    def ports(self) -> int:
        """Ports of all circuit switches [1]."""
        return self.switches * self.cages

    @property
    def ports_used(self) -> int:
        """Ports in use [1]."""
        return self.fibres * (ENDS * self.domains * self.blocks + self.spare_blocks)

    @property
    def set_of(self) -> Ints:
        """Set of each block of a domain, shape (blocks,); the first sets have the smaller share."""
        return even_groups(np.arange(self.blocks), self.blocks, self.sets)

    @property
    def set_sizes(self) -> Ints:
        """Blocks of a domain on each set, shape (sets,) [1]."""
        return np.bincount(self.set_of, minlength=self.sets)

    def idle_of_sets(self, idle: int) -> Ints:
        """How so many idle blocks of a domain are best spread over its sets, shape (sets,) [1].

        Examples
        --------
        >>> CircuitPlan(136, 64, 256, 1).idle_of_sets(6).tolist()
        [1, 2, 1, 2]
        """
        edges = np.arange(self.sets + 1) * idle // self.sets
        spread: Ints = np.diff(edges)
        return np.minimum(spread, self.set_sizes)

    def idle_blocks(self, idle: int) -> Bools:
        """Which blocks of a domain stand by: the last of every set, shape (blocks,)."""
        ends = np.cumsum(self.set_sizes)
        from_end = ends[self.set_of] - np.arange(self.blocks)
        return from_end <= self.idle_of_sets(idle)[self.set_of]

    def replaced(self, failed: Bools, idle: int) -> int:
        """How many failed blocks of one domain find an idle one on their circuit switches [1].

        Parameters
        ----------
        failed
            Blocks that failed, idle ones too, shape (blocks,).
        idle
            Blocks of the domain that stand by [1].

        Examples
        --------
        GPUs 0 and 1 of 256 share a set, whose one idle GPU takes one of their places; 64 is on the
        next.

        >>> failed = np.zeros(256, bool)
        >>> failed[[0, 1, 64]] = True
        >>> CircuitPlan(136, 64, 256, 1).replaced(failed, idle=4)
        2
        """
        standing = self.idle_blocks(idle)
        lost = np.bincount(self.set_of[failed & ~standing], minlength=self.sets)
        ready = np.bincount(self.set_of[standing & ~failed], minlength=self.sets)
        return int(np.minimum(lost, ready).sum())

    def table(self) -> "CircuitPorts":
        """What is on every port in use, fibre by fibre, set by set."""
        sizes, room = self.set_sizes, (self.cages - self.spares) // (ENDS * self.largest)
        fibre, domain, block = (
            axis.ravel() for axis in np.indices((self.fibres, self.domains, self.blocks))
        )
        of_set = self.set_of[block]
        if self.spares:
            group, slot = np.divmod(domain, self.domains_each)
            switch = (fibre * self.groups + group) * self.sets + of_set
        else:
            switch, slot = np.divmod((fibre * self.domains + domain) * self.sets + of_set, room)
        first = np.cumsum(sizes) - sizes
        port = ENDS * (slot * self.largest + block - first[of_set])
        there = np.indices((self.fibres, self.groups, self.sets, self.spares))
        spare_fibre, spare_group, spare_set, number = (axis.ravel() for axis in there)
        spare_switch = (spare_fibre * self.groups + spare_group) * self.sets + spare_set
        return CircuitPorts(
            switch=np.concatenate([switch, switch, spare_switch]),
            port=np.concatenate([port, port + 1, self.cages - 1 - number]),
            kind=np.repeat([BLOCK, PLACE, SPARE], [len(switch), len(switch), len(spare_switch)]),
            domain=np.concatenate([domain, domain, np.full(len(spare_switch), -1)]),
            block=np.concatenate(
                [block, block, (spare_group * self.sets + spare_set) * self.spares + number]
            ),
            fibre=np.concatenate([fibre, fibre, spare_fibre]),
        )


BLOCK, PLACE, SPARE = 0, 1, 2
"""What a port of a circuit switch is for: a block, its place, or a spare block."""


class CircuitPorts(Struct, frozen=True, eq=False):
    """Ports in use, shape (ports,): the switch, its port, and what is on it.

    Spare blocks, which belong to no domain, have the domain -1 and are numbered over all sets.
    """

    switch: Ints
    port: Ints
    kind: Ints
    domain: Ints
    block: Ints
    fibre: Ints

    def lines(self, block: str, place: str) -> Iterator[str]:
        """A line of CSV for each port, by what a block and its place are called.

        Examples
        --------
        >>> for line in CircuitPlan(8, 1, 2, 1, spares=1).table().lines("gpu", "rail-port"):
        ...     print(line)
        circuit_switch,port,joins,domain,number,fibre
        ocs-0,0,gpu,0,0,0
        ocs-0,1,rail-port,0,0,0
        ocs-0,2,gpu,0,1,0
        ocs-0,3,rail-port,0,1,0
        ocs-0,7,spare gpu,,0,0
        """
        yield "circuit_switch,port,joins,domain,number,fibre"
        names = (block, place, f"spare {block}")
        order = np.lexsort((self.port, self.switch))
        columns = (self.switch, self.port, self.kind, self.domain, self.block, self.fibre)
        rows = zip(*(column[order].tolist() for column in columns), strict=True)
        for switch, port, kind, domain, number, fibre in rows:
            of = domain if domain >= 0 else ""
            yield f"ocs-{switch},{port},{names[kind]},{of},{number},{fibre}"
