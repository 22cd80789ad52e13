"""Audit of a list of cables, or of a simulator's topology.

Cables: ports used twice or beyond the radix, links to the same device, oversubscription not stated,
links slower or narrower than most between the same tiers, uplinks that are fewer than those of most
switches. Switches are ordered into tiers by their distance from the hosts. A tier is oversubscribed
where a switch has more bandwidth below than above; the worst switch of each tier is named. Networks
whose first tier is joined to itself (dragonflies, tori) have no tiers, and nothing is said of them.

OpenSM's fat-tree routing refuses trees whose switches of a tier differ in their neighbours or in
the cables to each, and hosts on two tiers; it ignores links within a tier, and may refuse leaves
without hosts (opensm(8), Fat-tree Routing Algorithm; so did OpenSM 3.3 on a simulator).

SimAI (ns-3) topologies: a header that disagrees with the body. Line 1 announces nodes, GPUs a
server, HB switches, switches, links and the type of GPU, some versions with a seventh field; the
numbers of all switches follow, on a line or two; then a line a link: source, target, bandwidth,
latency, error rate.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isnan
from typing import TypeVar

import numpy as np

from netplan.topologies.cabling.as_built import Cable, ports_twice
from netplan.topologies.cabling.audit_designs import AuditFinding
from netplan.topologies.cabling.device_names import LAST_NUMBER
from netplan.topologies.graph import connected_parts

HOST = re.compile(r"(gpu|node|host|server|manager|dgx|hgx|nic|hca|worker)", re.IGNORECASE)
DIGITS = re.compile(r"\d+")
TOLERANCE = 1e-9
FEW = 10
"""Findings of one kind that are listed one by one [1]."""
MOST_WITHIN = 10
"""Links between switches of which one may lie within a tier, and it is a tree still [1]."""
FEW_HOSTS = 2
"""Hosts of a leaf are at least the usual number over this [1]."""


def audit_cables(
    path: str,
    cables: Sequence[Cable],
    radix: int | None = None,
    oversubscription: float = 1.0,
    hosts: set[str] | None = None,
) -> Iterator[AuditFinding]:
    """Audit cables against each other and against what is claimed.

    Parameters
    ----------
    path
        File that they come from.
    cables
        What is audited.
    radix, oversubscription
        What is said about them: ports of a switch, bandwidth below over above at most [1].
    hosts
        Devices that are no switches; by their names, if absent.

    Examples
    --------
    >>> from netplan.topologies.cabling.as_built import End
    >>> one = Cable(End("gpu-0", "1"), End("leaf-0", "9"), line=2)
    >>> [(f.what, f.got) for f in audit_cables("plan.csv", [one], radix=8)]
    [('a port that does not exist', 'leaf-0/9')]
    """
    for end, first, cable in ports_twice(cables):
        why = f"the cable on line {first.line} is in this port" if first.line else "one cable each"
        yield AuditFinding("a port used twice", _where(path, cable), str(end), "a free port", why)
    for cable in cables:
        if cable.joins_itself:
            why = "a link joins two devices; no traffic takes this one"
            yield AuditFinding(
                "a link to itself", _where(path, cable), str(cable), "two devices", why
            )
    if hosts is None:
        hosts = {end.device for cable in cables for end in cable[:2] if HOST.match(end.device)}
    cables = [cable for cable in cables if not cable.joins_itself]
    if radix is not None:
        yield from _beyond(path, cables, hosts, radix)
    tier = _tiers(cables, hosts)
    yield from _slow(path, cables, tier)
    yield from _on_two_tiers(path, cables, tier)
    within = [
        cable for cable in cables if 0 < _tiers_of(cable, tier)[0] == _tiers_of(cable, tier)[1]
    ]
    if within and MOST_WITHIN * len(within) <= sum(
        _tiers_of(cable, tier)[0] > 0 for cable in cables
    ):
        got = str(within[0]) + (f", and {len(within) - 1} more" if len(within) > 1 else "")
        why = "routes that go up and then down take none of them; OpenSM's ftree leaves them out"
        where = _where(path, within[0])
        yield AuditFinding("links within a tier", where, got, "one tier up or down", why)
        left = set(within)
        cables = [cable for cable in cables if cable not in left]
    yield from _oversubscribed(path, cables, tier, oversubscription)
    yield from _uneven(path, cables, tier)
    yield from _unequal(path, cables, tier)
    yield from _without_hosts(path, cables, tier)


def _where(path: str, cable: Cable) -> str:
    return f"{path}:{cable.line}" if cable.line else path


def _beyond(
    path: str, cables: Sequence[Cable], hosts: set[str], radix: int
) -> Iterator[AuditFinding]:
    """Ports and cables beyond the radix of a switch."""
    why = f"a switch has {radix} ports"
    ends = [(end, cable) for cable in cables for end in cable[:2] if end.device not in hosts]
    for end, cable in ends:
        number = LAST_NUMBER.search(end.port)
        if number and int(number[1]) > radix:
            what, expected = "a port that does not exist", f"port 1 to {radix}"
            yield AuditFinding(what, _where(path, cable), str(end), expected, why)
    for device, count in Counter(end.device for end, _ in ends).items():
        if count > radix:
            what, got = "more cables than ports", f"{count} cables"
            yield AuditFinding(what, f"{path} {device}", got, f"at most {radix}", why)


def _tiers_of(cable: Cable, tier: Mapping[str, int]) -> tuple[int, int]:
    """Tiers of both ends, the lower one first."""
    low, high = sorted(tier.get(end.device, -1) for end in cable[:2])
    return low, high


def _slow(path: str, cables: Sequence[Cable], tier: Mapping[str, int]) -> Iterator[AuditFinding]:
    """Links with a lower rate, or fewer lanes, than most between the same tiers."""
    groups: dict[tuple[int, int], list[Cable]] = defaultdict(list)
    for cable in cables:
        if not isnan(cable.gbps):
            groups[_tiers_of(cable, tier)].append(cable)
    for (low, high), group in sorted(groups.items()):
        rate = _usual(cable.gbps for cable in group)
        lanes = _usual(cable.lanes for cable in group)
        slow = [cable for cable in group if cable.gbps < rate]
        where = f"{len(group) - len(slow)} of {len(group)} links between tiers {low} and {high}"
        if len(slow) > max(FEW, len(group) // MOST_WITHIN):
            if low < high:
                rates = ", ".join(f"{speed:g}" for speed in sorted({cable.gbps for cable in slow}))
                got = f"{len(slow)} links at {rates} Gb/s"
                why = f"{where} have that rate"
                what = "links of several speeds"
                yield AuditFinding(what, _where(path, slow[0]), got, f"{rate:g} Gb/s", why)
            continue
        for cable in slow:
            narrow = 0 < cable.lanes < lanes
            what = "a link with fewer lanes" if narrow else "a link at a lower speed"
            got = f"{cable}: {cable.lanes}x, {cable.gbps:g} Gb/s" if narrow else ""
            expected = f"{lanes}x, {rate:g} Gb/s" if narrow else f"{rate:g} Gb/s"
            got = got or f"{cable}: {cable.gbps:g} Gb/s"
            yield AuditFinding(what, _where(path, cable), got, expected, f"{where} have that")


Number = TypeVar("Number", int, float)


def _usual(values: Iterable[Number]) -> Number:
    """The most common value, the larger of two that are equally common."""
    counts = Counter(values)
    return max(counts, key=lambda value: (counts[value], value))


def _on_two_tiers(
    path: str, cables: Sequence[Cable], tier: Mapping[str, int]
) -> Iterator[AuditFinding]:
    """Switches above the leaves that have hosts of their own."""
    hosts: Counter[str] = Counter()
    for cable in cables:
        low, high = sorted((cable.a.device, cable.z.device), key=lambda name: tier.get(name, -1))
        if tier.get(low) == 0 and tier.get(high, 0) > 1:
            hosts[high] += 1
    for name, count in sorted(hosts.items()):
        what, got = "hosts on two tiers", f"{count} host{'s' if count > 1 else ''}"
        why = "OpenSM's ftree refuses such a tree, unless its compute nodes are listed (-u)"
        yield AuditFinding(what, f"{path} {name}", got, f"none on tier {tier[name]}", why)


def _uneven(path: str, cables: Sequence[Cable], tier: Mapping[str, int]) -> Iterator[AuditFinding]:
    """Switches with fewer uplinks than most of their tier, in the same network."""
    between = [cable for cable in cables if _tiers_of(cable, tier)[0] > 0]
    pairs = [
        sorted((cable.a.device, cable.z.device), key=lambda name: tier[name]) for cable in between
    ]
    if any(tier[low] == tier[high] for low, high in pairs):
        return  # no tree
    up = Counter(low for low, _ in pairs)
    number = {name: place for place, name in enumerate(sorted({n for pair in pairs for n in pair}))}
    ends = np.array([[number[name] for name in pair] for pair in pairs], np.int64).reshape(-1, 2)
    network = connected_parts(len(number), *ends.T)
    groups: dict[tuple[int, int], list[str]] = defaultdict(list)
    for name in sorted(up):
        groups[tier[name], int(network[number[name]])].append(name)
    for (height, _), group in groups.items():
        most = _usual(up[name] for name in group)
        usual = sum(up[name] == most for name in group)
        why = f"{usual} of {len(group)} switches of tier {height} have that"
        for name in [name for name in group if up[name] < most][:FEW]:
            yield AuditFinding(
                "uneven uplinks", f"{path} {name}", f"{up[name]} uplinks", str(most), why
            )


def _oversubscribed(
    path: str, cables: Sequence[Cable], tier: Mapping[str, int], stated: float
) -> Iterator[AuditFinding]:
    """The worst switch of every tier that has more bandwidth below than said."""
    unsaid = _usual([cable.gbps for cable in cables if not isnan(cable.gbps)] or [1.0])
    below: dict[str, float] = defaultdict(float)
    above: dict[str, float] = defaultdict(float)
    for cable in cables:
        low, high = sorted((cable.a.device, cable.z.device), key=lambda name: tier.get(name, -1))
        if tier.get(low, -1) == tier.get(high, -1):
            if tier.get(low) == 1:
                return  # a direct network
            continue
        rate = unsaid if isnan(cable.gbps) else cable.gbps
        above[low] += rate
        below[high] += rate
    for height in sorted({tier[device] for device in above} - {0}):
        ratios = {
            device: below[device] / above[device] if above[device] else float("inf")
            for device in below
            if tier[device] == height
        }
        over = [device for device, ratio in ratios.items() if ratio > stated * (1 + TOLERANCE)]
        if not over:
            continue
        worst = max(over, key=lambda device: ratios[device])
        ratio = f"{ratios[worst]:.4g}:1" if above[worst] else "no uplink"
        what = "oversubscription not stated"
        why = (
            f"{below[worst]:g} below, {above[worst]:g} above; {len(over)} switches of tier {height}"
        )
        yield AuditFinding(what, f"{path} {worst}", ratio, f"{stated:g}:1, or say it", why)


def _unequal(path: str, cables: Sequence[Cable], tier: Mapping[str, int]) -> Iterator[AuditFinding]:
    """Tiers of a tree whose switches differ in their neighbours, or in the cables to one.

    OpenSM's fat-tree routing then refuses the tree (opensm(8), Fat-tree Routing Algorithm). Leaves
    may differ in hosts. Networks beside each other, such as rails, are told apart.
    """
    groups: dict[str, Counter[str]] = {name: Counter() for name in tier if tier[name] > 0}
    for cable in cables:
        ends = cable.a.device, cable.z.device
        low, high = sorted(tier.get(name, -1) for name in ends)
        if low > 0 and low + 1 != high:
            return  # no tree
        if low > 0:
            for name, other in (ends, ends[::-1]):
                groups[name][other] += 1
    number = {name: place for place, name in enumerate(groups)}
    pairs = [(number[name], number[other]) for name in groups for other in groups[name]]
    source, target = np.array(pairs, np.int64).reshape(-1, 2).T
    network = connected_parts(len(groups), source, target)
    for side, step in (("above", 1), ("below", -1)):
        shapes: dict[tuple[int, int], dict[str, tuple[int, ...]]] = defaultdict(dict)
        for name, others in groups.items():
            sizes = [count for other, count in others.items() if tier[other] == tier[name] + step]
            place = tier[name], int(network[number[name]])
            shapes[place][name] = (len(sizes), *sorted(set(sizes)))
        worst = {
            place[0]: shapes_of
            for place, shapes_of in shapes.items()
            if len(set(shapes_of.values())) > 1
        }
        for height, shapes_of in sorted(worst.items()):
            count = Counter(shapes_of.values())
            most = max(count, key=lambda shape: (count[shape], -len(shape), shape))
            name, odd = next((name, shape) for name, shape in shapes_of.items() if shape != most)
            why = (
                f"{side} tier {height}; OpenSM's ftree refuses such a tree, unless its root"
                " switches are listed"
            )
            what = "switches of a tier that are joined unequally"
            yield AuditFinding(what, f"{path} {name}", _shape_words(odd), _shape_words(most), why)


def _without_hosts(
    path: str, cables: Sequence[Cable], tier: Mapping[str, int]
) -> Iterator[AuditFinding]:
    """Leaves that have no host yet; OpenSM's fat-tree routing knows a leaf by its hosts."""
    joined = {
        end.device
        for cable in cables
        for end, other in (cable[:2], cable[1::-1])
        if tier.get(other.device) == 0
    }
    dark = sorted(name for name, height in tier.items() if height == 1 and name not in joined)
    if dark:
        why = "OpenSM's ftree may refuse such a tree until every leaf has a host"
        got = f"{len(dark)} without" if len(dark) > 1 else "none"
        yield AuditFinding("leaves without hosts", f"{path} {dark[0]}", got, "a host", why)


def _shape_words(shape: tuple[int, ...]) -> str:
    """Neighbours of a switch, and cables to each."""
    count, *sizes = shape
    cables = " or ".join(str(size) for size in sizes)
    return f"{count} neighbours" + (f", {cables} cables to each" if cables else "")


def _tiers(cables: Sequence[Cable], hosts: set[str]) -> Mapping[str, int]:
    """Distance of every device from the hosts, in cables."""
    neighbors: dict[str, set[str]] = defaultdict(set)
    for cable in cables:
        neighbors[cable.a.device].add(cable.z.device)
        neighbors[cable.z.device].add(cable.a.device)
    tier = dict.fromkeys(sorted(hosts), 0)
    leaves = _leaves(neighbors, hosts)
    # Leaves without hosts yet are named like those with some, but for the numbers. Where all
    # switches share one kind of name it says nothing.
    stems, switches = {DIGITS.sub("", leaf) for leaf in leaves}, set(neighbors) - hosts
    dark = {switch for switch in switches if DIGITS.sub("", switch) in stems}
    tier |= dict.fromkeys(sorted(leaves | (set() if dark == switches else dark)), 1)
    reached = [device for device, height in tier.items() if height]
    for device in reached:  # which grows on the way
        for neighbor in neighbors[device] - tier.keys():
            tier[neighbor] = tier[device] + 1
            reached.append(neighbor)
    return tier


def _leaves(neighbors: Mapping[str, set[str]], hosts: set[str]) -> set[str]:
    """Switches with hosts; less those with few beside others, where these are then joined to none.

    A host or two on a spine make no direct network.
    """
    count = {name: len(near & hosts) for name, near in neighbors.items() if name not in hosts}
    neighbours = {name for name, number in count.items() if number}
    joined = {name for name in neighbours if neighbors[name] & neighbours}
    if not joined:
        return neighbours
    usual = _usual(count[name] for name in neighbours)
    leaves = {name for name in neighbours if FEW_HOSTS * count[name] >= usual}
    return neighbours if any(neighbors[name] & leaves for name in leaves) else leaves


HEADER_FIELDS = (6, 7)
LINK_FIELDS = 5
MAX_DIGITS = 12
COUNTS = ("nodes", "gpus_per_server", "nvswitches", "switches", "links")


def is_simulator_topology(lines: Sequence[str]) -> bool:
    """Whether a file begins like a SimAI topology.

    Examples
    --------
    >>> is_simulator_topology(["10 8 1 1 16 H100", "8 9"]), is_simulator_topology(["a,b"])
    (True, False)
    """
    fields = lines[0].split() if lines else []
    return len(fields) in HEADER_FIELDS and all(map(_is_whole, fields[:5]))


def audit_simulator(path: str, lines: Sequence[str]) -> Iterator[AuditFinding]:
    """Audit the header against switches and links, and every link against the nodes.

    Examples
    --------
    >>> lines = ["3 2 0 1 3 H100", "2", "0 2 400Gbps 0.0005ms 0", "1 2 400Gbps 0.0005ms 0"]
    >>> [(f.what, f.got, f.expected) for f in audit_simulator("topo", lines)]
    [('a header that disagrees with the body', 'links 3', '2')]
    """
    counts = dict(zip(COUNTS, (int(field) for field in lines[0].split()), strict=False))
    what = "a header that disagrees with the body"
    switches: list[int] = []
    links = 0
    for number, line in enumerate(lines[1:], start=2):
        fields = line.split()
        if not fields:
            continue
        if not links and all(map(_is_whole, fields)):
            switches += [int(field) for field in fields]
            continue
        links += 1
        yield from _link(f"{path}:{number}", fields, counts["nodes"])
    if links != counts["links"]:
        yield AuditFinding(
            what, f"{path}:1", f"links {counts['links']}", str(links), "lines of links"
        )
    announced = counts["nvswitches"] + counts["switches"]
    if len(switches) != announced:
        why = f"{counts['nvswitches']} HB switches and {counts['switches']} switches announced"
        got = f"{len(switches)} switches listed"
        yield AuditFinding(what, f"{path}:2", got, str(announced), why)
    gpus = counts["nodes"] - announced
    if counts["gpus_per_server"] and gpus % counts["gpus_per_server"]:
        why = f"{counts['nodes']} nodes less {announced} switches are {gpus} GPUs"
        got = f"gpus_per_server {counts['gpus_per_server']}"
        yield AuditFinding("counts that do not multiply", f"{path}:1", got, "a divisor", why)


def _link(where: str, fields: Sequence[str], nodes: int) -> Iterator[AuditFinding]:
    """A link: its form, its two nodes."""
    ends = fields[:2]
    if len(fields) != LINK_FIELDS or not all(map(_is_whole, ends)):
        why = "source, target, bandwidth, latency, error rate"
        yield AuditFinding("no link", where, " ".join(fields)[:60], "5 fields", why)
        return
    for end in ends:
        if int(end) >= nodes:
            why = f"the header announces {nodes} nodes, from 0"
            yield AuditFinding("a node that does not exist", where, end, f"0 to {nodes - 1}", why)
    if ends[0] == ends[1]:
        yield AuditFinding(
            "a link to itself", where, ends[0], "two nodes", "a link joins two nodes"
        )


def _is_whole(text: str) -> bool:
    """Whether a field is a whole number of a size that a network can have."""
    return text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS
