"""A fabric in its hall: where every device stands, and which cable joins every two ports.

Decided once, for the bill, the cable plan and the report alike, and for links of all families by
one rule. A length is measured in the hall and rounded up to one that is sold; of what is sold the
first that reaches is taken, in the order of price: passive copper (DAC), amplified (ACC), retimed
(AEC), active optical cables (AOC), then modules with fibre.

A cage that carries several links is filled by one plug, so its links are decided together, by the
ports that the graph gives them. A splitter serves where all links of a switch's cage go to network
cards, and is as long as the longest of them needs. A straight cable serves where all links of a
cage go to one and the same cage at the far end. All other links of a group with such cages take
modules of one kind, that which spans the longest.
"""

from collections.abc import Iterator, Mapping
from math import prod

import numpy as np
from msgspec import Struct

from netplan.arrays import AnyInts, Bools, Floats, Indices, Ints, distinct_values
from netplan.costing import wiring
from netplan.errors import NetplanError
from netplan.records import replace
from netplan.topologies.cabling.floor_plan import FloorPlan, Layout, lay_out, places_sold
from netplan.topologies.expand import network_of
from netplan.topologies.fabric import Fabric, LinkGroup, Sizing
from netplan.topologies.graph import MANAGER, SWITCH, FabricGraph
from netplan.topologies.specs import FabricSpec


class HallFabric(Struct, frozen=True, eq=False):
    """A fabric in a hall, its cables not chosen yet.

    Parameters
    ----------
    network
        The fabric without the links inside HB domains.
    layout
        Where every node stands.
    lengths_m
        Lengths that its cables are bought in, rising [m], shape (lengths,).
    stock
        Which of them every link needs for the distance of its ends, shape (links,).
    """

    network: FabricGraph
    layout: Layout
    lengths_m: Floats
    stock: AnyInts

    @property
    def length_m(self) -> Floats:
        """Distance of the two ends of every link, as a length that is sold [m], shape (links,)."""
        return self.lengths_m[self.stock]


class Installation(Struct, frozen=True, eq=False):
    """A fabric in a hall with its cables.

    Parameters
    ----------
    site
        The fabric in its hall.
    wiring
        Plugs and cables, one run for links of one kind and length.
    run
        Run of every link, a position in ``wiring.runs``; -1 of those on a chip, which have no
        cable, and of those through a circuit switch that from the GPU to it, shape (links,).
    """

    site: HallFabric
    wiring: wiring.Wiring
    run: Indices

    @property
    def length_m(self) -> Floats:
        """Length of the cable of every link, as sold [m], shape (links,)."""
        return np.array([*(run.length_m for run in self.wiring.runs), 0.0])[self.run]

    @property
    def kinds(self) -> list[str]:
        """Kind of the cable of every link, as ``dac``, or kind of its fibre, as ``multimode``."""
        kinds = [
            (run.plugs[0].fibre or "fibre") if run.medium == "fibre" else run.medium
            for run in self.wiring.runs
        ]
        of_link: list[str] = np.array([*kinds, ""], object)[self.run].tolist()
        return of_link


def place(
    hall: FloorPlan, spec: FabricSpec, sizing: Sizing, hardware: wiring.Hardware
) -> HallFabric:
    """Put a fabric into a hall.

    Parameters
    ----------
    hall
        The floor plan.
    spec, sizing
        The fabric.
    hardware
        Height and power of its switches, and the lengths that cables are sold in.

    Raises
    ------
    InputError
        If the hall is too small.
    """
    network = network_of(spec, sizing)
    model, layer = hardware.switch, hardware.circuits
    units = model.rack_units if model is not None else None
    circuit_units = layer.model.rack_units if layer is not None else None
    usual_units = hardware.cabling.racks.switch_units
    layout = lay_out(
        hall,
        network,
        switch_units=units or usual_units,
        switch_w=hardware.switch_w,
        circuits=(layer.switches if layer is not None else 0, circuit_units or usual_units),
    )
    sold = hall.stock_lengths_m or hardware.cabling.stock_lengths_m
    return HallFabric(network, layout, *layout.stock_of(network, sold))


def install(fabric: Fabric, site: HallFabric, hardware: wiring.Hardware) -> Installation:
    """Choose plugs and cables for every link, and check that the ports close.

    Raises
    ------
    InfeasibleError
        If a cable end has no port, or no cable is long enough.
    CatalogError
        If the cabling book lacks a card.
    """
    banks = {bank.name: bank for bank in wiring.port_banks(fabric, hardware)}
    cages = _Cages.of(site.network, hardware, fabric.sizing)
    of_link = np.full(site.network.link_count, -1, np.int32)
    runs: list[wiring.CableRun] = []
    halves: dict[int, tuple[Ints, int]] = {}  # links, and 0 from a switch or 1 from a card
    for group, ends in wiring.group_ends(fabric, hardware):
        links = _links_of(site.network, group, servers=wiring.SERVER in ends)
        if wiring.CIRCUITS in ends and len(links):
            both_m = _to_circuits(site, links, fabric, hardware)
            # Light passes both, so that the modules at either end are those of the longest.
            needed = wiring.Link.of(group, hardware.cabling, float(both_m.max()), ())
            run, side = wiring.connect(group, ends, banks, needed), int(wiring.CARD in ends)
            for half_m in distinct_values(both_m[side]).tolist():
                members = links[both_m[side] == half_m]
                of_link[members] = len(runs)
                halves[len(runs)] = members, side
                runs.append(replace(run, links=len(members), length_m=half_m, measured=True))
            continue
        batches = cages.batches(site, links)
        if batches is None:
            of_length = np.full(len(site.lengths_m), -1, np.int32)
            stock = site.stock[links]
            for place_, count in enumerate(np.bincount(stock).tolist()):
                if count:
                    of_length[place_] = len(runs)
                    length_m = float(site.lengths_m[place_])
                    link = wiring.Link.of(group, hardware.cabling, length_m)
                    run = wiring.run_of(wiring.connect(group, ends, banks, link), group, ends)
                    runs.append(replace(run, links=count, measured=True))
            of_link[links] = of_length[stock]
            continue
        for run, members in _group_runs((group, ends), banks, hardware, batches):
            of_link[links[members]] = len(runs)
            runs.append(run)
    counted = tuple(cages.counted(runs, of_link, halves))
    closed = wiring.checked(fabric, wiring.Wiring(tuple(banks.values()), counted, ()))
    return Installation(site, closed, of_link)


def _to_circuits(
    site: HallFabric, links: Ints, fabric: Fabric, hardware: wiring.Hardware
) -> Floats:
    """Fibres from rail switches and from GPUs to circuit switches, as sold [m], shape (2, links).

    Each link crosses the circuit switch of its GPU's block, for its number among the block's.
    """
    network, layer = site.network, hardware.circuits
    if layer is None or layer.plan is None:
        raise NetplanError(f"{fabric.name}: circuit switches without a plan of their ports")
    plan, block_gpus = layer.plan, fabric.sizing.hb_size // layer.plan.blocks
    ends = np.stack((network.source[links], network.target[links])).astype(np.int64)
    ports = np.stack((network.source_port[links], network.target_port[links]))
    at_target = ends[1] < network.gpus
    switch, gpu = np.where(at_target, ends, ends[::-1])
    domain, place = np.divmod(gpu, fabric.sizing.hb_size)
    block, nth = np.divmod(place, block_gpus)
    fibre = nth * fabric.ports_per_gpu + np.where(at_target, ports[1], ports[0])
    shape = plan.fibres, plan.domains, plan.blocks
    circuit = plan.table().switch[: prod(shape)].reshape(shape)[fibre, domain, block]
    far = network.node_count + circuit
    sold = np.array(site.layout.plan.stock_lengths_m or hardware.cabling.stock_lengths_m)
    length_m = np.stack([site.layout.cable_m(near, far) for near in (switch, gpu)])
    place_sold = np.minimum(places_sold(length_m, sold), len(sold) - 1)
    # Beyond the longest on sale whole metres, as of all cables.
    bought_m: Floats = np.maximum(
        sold[place_sold], np.where(length_m > sold[-1], np.ceil(length_m), 0.0)
    )
    return bought_m


def _links_of(network: FabricGraph, group: LinkGroup, *, servers: bool) -> Ints:
    """Links of a group: those of management servers, or all others."""
    links = network.links_of(group.name)
    if not (network.node_kind == MANAGER).any():
        return links[:0] if servers else links
    ends = network.source[links], network.target[links]
    managed = (network.node_kind[np.stack(ends)] == MANAGER).any(axis=0)
    chosen: Ints = links[managed == servers]
    return chosen


_Batches = tuple[Floats, Floats, Ints]
"""Links of one group, told apart by what their cables depend on, shape (links,).

Length that a cable for all links of the cage needs [m], length that the link needs by itself [m],
and links of the cage that a cable with fixed plugs would carry; 0 where none can [1].
"""


def _group_runs(
    named: tuple[LinkGroup, wiring.Ends],
    banks: dict[str, wiring.PortBank],
    hardware: wiring.Hardware,
    batches: _Batches,
) -> Iterator[tuple[wiring.CableRun, Ints]]:
    """Runs of one link group with their links, as positions within the group."""
    group, ends = named
    near, far = (banks[end].cage for end in ends)
    together_m, own_m, parallel = batches
    left = np.ones(len(own_m), bool)
    runs: list[tuple[wiring.CableRun, Bools]] = []
    lengths, place_ = np.unique(together_m, return_inverse=True)
    code = place_ * (1 + int(parallel.max(initial=0))) + parallel
    _, first = np.unique(code, return_index=True)
    for kind in first.tolist():
        carried, length_m = int(parallel[kind]), float(lengths[place_[kind]])
        link = wiring.Link.of(group, hardware.cabling, length_m, parallel=carried)
        run = wiring.first_that_closes(near, far, link, optics=False) if carried else None
        if run is not None:
            members = code == code[kind]
            left &= ~members
            runs.append((run, members))
    longest = own_m[left].max(initial=0.0)
    for length_m in distinct_values(own_m[left]).tolist():
        needed = wiring.Link.of(group, hardware.cabling, longest, ())
        members = left & (own_m == length_m)
        run = wiring.connect(group, ends, banks, needed)
        runs.append((replace(run, length_m=length_m), members))
    runs.sort(key=lambda run_links: run_links[0].length_m)
    for run, members in runs:
        links = np.flatnonzero(members)
        yield replace(wiring.run_of(run, group, ends), links=len(links), measured=True), links


class _Cages(Struct, frozen=True, eq=False):
    """The cages at a run's first and second end, of every link: shape (2, links).

    Nothing is told apart, in a fraction of the time, where each cage carries one link.
    """

    number: Ints  # among all cages
    held: Ints  # links in it [1]
    size: Ints  # links that it can hold [1]
    shared: bool = True

    @classmethod
    def of(cls, network: FabricGraph, hardware: wiring.Hardware, sizing: Sizing) -> "_Cages":
        """Read the cages off the ports, as the cable plan numbers them."""
        model = hardware.switch
        split = sizing.port_split
        cage_links = split if model is None else model.links_per_cage(sizing.speed_gbps)
        if split == 1 and cage_links <= 1:
            none = np.empty((2, 0), np.int64)
            return cls(none, none, none, shared=False)
        switch = network.node_kind == SWITCH
        # A run begins at the switch of a host link; between equals, where the graph's link does.
        turned = switch[network.target] & ~switch[network.source]
        node = np.stack((network.source, network.target)).astype(np.int64)
        port = np.stack((network.source_port, network.target_port))
        size = np.where(switch[node], cage_links, 1).astype(np.int64)
        if split > 1:
            size[node < network.gpus] = split  # a card splits its one cage over the planes
            port = np.where(node < network.gpus, 0, port)
        cage = node * (1 + int(port.max(initial=0))) + port // size
        _, which, held = np.unique(cage, return_inverse=True, return_counts=True)
        facts = (which.reshape(cage.shape), held[which].reshape(cage.shape), size)
        number, links, most = (np.where(turned, ends[::-1], ends) for ends in facts)
        return cls(number, links, most)

    def batches(self, site: HallFabric, links: Ints) -> _Batches | None:
        """What the cables of some links of one group depend on; None where on nothing but lengths.

        So it is where each of their cages carries one link.
        """
        if not self.shared:
            return None
        own_m = site.length_m[links]
        number, held, size = (part[:, links] for part in (self.number, self.held, self.size))
        splits, straight = (bool((most > 1).any()) for most in size)
        if not (splits or straight):
            return None
        cages, cage, here = np.unique(number[0], return_inverse=True, return_counts=True)
        whole = (here[cage] == held[0]) & (held[0] == size[0])  # no port of a cage stays dark
        parallel = np.ones(len(links), np.int64)
        if straight:
            # A straight cable joins one cage to one cage, with all the links of both.
            joined = number[0] * (1 + int(number[1].max(initial=0))) + number[1]
            _, pair, both = np.unique(joined, return_inverse=True, return_counts=True)
            parallel = both[pair]
            whole = (parallel == held).all(axis=0)
        longest = np.zeros(len(cages))
        np.maximum.at(longest, cage, own_m)
        return longest[cage], own_m, np.where(whole, parallel, 0)

    def counted(
        self, runs: list[wiring.CableRun], of_link: Indices, halves: Mapping[int, tuple[Ints, int]]
    ) -> Iterator[wiring.CableRun]:
        """Runs with their plugs counted cage by cage; modules that share a cage count once.

        ``halves`` has the links of runs that end on circuit switches, each fibre in a port alone.
        """
        if not self.shared:
            yield from runs
            return
        seen: dict[str, Bools] = {}
        none = np.zeros(int(self.number.max(initial=-1)) + 1, bool)
        by_run = np.argsort(of_link, kind="stable")
        first = np.searchsorted(of_link[by_run], np.arange(len(runs) + 1))
        for number, run in enumerate(runs):
            usual = by_run[first[number] : first[number + 1]]
            links, side = halves.get(number, (usual, None))
            counts = []
            for plug, cage in zip(run.plugs, self.number, strict=True):
                if plug.item == wiring.BARE_FIBRE:
                    counts.append(len(links))
                    continue
                used = none.copy()
                used[(cage if side is None else self.number[side])[links]] = True
                if run.medium == "fibre":
                    known = seen.setdefault(plug.item, none.copy())
                    used &= ~known
                    known |= used
                counts.append(int(np.count_nonzero(used)))
            yield replace(run, counted=(counts[0], counts[1]))
