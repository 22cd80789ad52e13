"""Which device of a plan every device as built is: by names, by order, or by their ports.

Names that a plan and a hall share decide. Hosts are matched with their adapters in the order of
:mod:`netplan.topologies.cabling.device_names`; where no name helps, switches are told by their
ports (:mod:`netplan.topologies.cabling.switch_matching`), and hosts by the order of their names or
by where most of their cables are plugged in. What was not settled by a name is said.

Network ports of hosts, numbered through: what a plan and a hall call the same port.

A plan names GPUs (``gpu-11`` port 1) or hosts (``host-1`` port 4), a subnet adapters
(``host-1 mlx5_3`` port 1). All are *places* on a host, numbered from 0 in the order of
:mod:`netplan.topologies.cabling.device_names`: those of its first adapter, then those of the next.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice

from msgspec import Struct

from netplan.errors import InputError
from netplan.topologies.cabling import device_names
from netplan.topologies.cabling.as_built import CAGE_PORT, Cable, End, Hall, devices_alike
from netplan.topologies.cabling.switch_matching import Matching, MatchSide, side_of

GPU_NAME = re.compile(r"gpu-(\d{1,9})")
HOST_LIKE = re.compile(
    r"(gpu|node|host|server|manager|dgx|hgx|nic|hca|worker|storage-\d)", re.IGNORECASE
)

Place = tuple[str, int]
"""A host, and a port of it, from 0."""


class Places(Struct, frozen=True):
    """Hosts of a plan: the place of every end on one, and the end of every place."""

    place: Mapping[End, Place]
    end: Mapping[Place, End]

    def hosts(self) -> list[str]:
        """Hosts, in the order of their names."""
        return sorted({host for host, _ in self.end}, key=device_names.natural)


def hosts_in(hall: Hall) -> set[str]:
    """Devices that are no switches; GPUs and hosts that are joined to each other pass traffic on.

    Examples
    --------
    >>> plan = Hall("plan", [Cable(End("gpu-0", "1"), End("leaf-0", "9"))], {})
    >>> hosts_in(plan)
    {'gpu-0'}
    """
    if hall.devices:
        return {name for name, device in hall.devices.items() if not device.switch}
    ends = {end.device for cable in hall.cables for end in cable[:2]}
    hosts = {device for device in ends if HOST_LIKE.match(device)}
    joined = [cable for cable in hall.cables if {cable.a.device, cable.z.device} <= hosts]
    return hosts - {end.device for cable in joined for end in cable[:2]}


def ends_on(hosts: set[str], cables: Iterable[Cable]) -> list[End]:
    """Ends of cables on some devices."""
    return [end for cable in cables for end in cable[:2] if end.device in hosts]


def planned_places(hall: Hall, hosts: set[str], host_gpus: int) -> Places:
    """Places of a plan whose hosts have so many GPUs; with one GPU, each is a host by its name."""
    ends = ends_on(hosts, hall.cables)
    gpu_ports = 1 + max((_port(end) for end in ends if GPU_NAME.fullmatch(end.device)), default=0)
    adapters = _adapters(hall, hosts)
    adapter_ports = 1 + max((_port(end) for end in ends if end.device in adapters), default=0)
    place: dict[End, Place] = {}
    for end in ends:
        gpu = GPU_NAME.fullmatch(end.device)
        if gpu and host_gpus > 1:
            host, rank = divmod(int(gpu[1]), host_gpus)
            place[end] = device_names.host_name(host), rank * gpu_ports + _port(end)
        elif end.device in adapters:
            host_of, rank = adapters[end.device]
            place[end] = host_of, rank * adapter_ports + _port(end)
        else:
            place[end] = end.device, _port(end)
    return Places(place, {where: end for end, where in place.items()})


def _adapters(hall: Hall, hosts: set[str]) -> dict[str, tuple[str, int]]:
    """Host and rank on it of adapters that say both, in the order of their numbers."""
    named = {
        name: device_names.adapter_name(hall.devices[name].description)
        for name in hosts & hall.devices.keys()
        if not hall.devices[name].shared
    }
    numbers: dict[str, list[int]] = defaultdict(list)
    for adapter in named.values():
        if adapter.number is not None:
            numbers[adapter.host].append(adapter.number)
    return {
        name: (adapter.host, sorted(numbers[adapter.host]).index(adapter.number))
        for name, adapter in named.items()
        if adapter.number is not None
    }


def _port(end: End) -> int:
    """Number of a port from 0; 0 for one that has none."""
    return int(end.port) - 1 if end.port.isdigit() and len(end.port) < 10 else 0  # noqa: PLR2004


class FoundPorts(Struct, frozen=True, eq=False, dict=True):
    """Ends on adapters as built: whose host, the number of its adapter there, and its port from 0.

    A host that nothing names is its adapter alone, with the number -1.
    """

    places: Mapping[End, tuple[str, int, int]]

    @cached_property
    def numbers(self) -> list[int]:
        """Numbers of adapters, over all hosts that have names."""
        return sorted({number for _, number, _ in self.places.values() if number >= 0})

    @cached_property
    def ports(self) -> int:
        """Ports of an adapter [1]."""
        return max((port for _, _, port in self.places.values()), default=0) + 1

    def hosts(self) -> list[str]:
        """Hosts with names, in the order of these."""
        named = {host for host, number, _ in self.places.values() if number >= 0}
        return sorted(named, key=device_names.natural)

    def on_hosts(self, planned: Places) -> "FoundPorts":
        """GPUs that stand for themselves as those of the hosts of a plan, which names no GPU."""
        hosts = {host for host, _, _ in self.places.values()}
        if not all(map(GPU_NAME.fullmatch, hosts)) or hosts & set(planned.hosts()):
            return self
        places = 1 + max((place for _, place in planned.end), default=0)
        gpus = places // self.ports
        host_places = {}
        for end, (gpu, _, port) in self.places.items():
            host, rank = divmod(int(gpu.removeprefix("gpu-")), max(1, gpus))
            host_places[end] = device_names.host_name(host), rank, port
        return FoundPorts(host_places)

    def by_host(self) -> Mapping[str, list[End]]:
        """Ends of every host."""
        ends: dict[str, list[End]] = defaultdict(list)
        for end, (host, _, _) in self.places.items():
            ends[host].append(end)
        return ends


def found_ports(hall: Hall, hosts: set[str]) -> FoundPorts:
    """Hosts and adapters in the descriptions of a hall, or in the names of its devices."""
    places = {}
    named = {}
    for name in hosts:
        device = hall.devices.get(name)
        host, _, number = device_names.adapter_name(device.description if device else name)
        nameless = not host or (device is not None and device.shared)
        named[name] = (name, -1) if nameless else (host, number or 0)
    for end in ends_on(hosts, hall.cables):
        host, number = named[end.device]
        places[end] = host, number, _port(end)
    return FoundPorts(places)


def ranks_of(numbers: Sequence[int], adapters: int) -> dict[int, int]:
    """Rank of each adapter's number on a host that has so many; -1 stays its only one.

    Numbers below the count are ranks; where others are among them (adapters of storage), the
    order counts.

    Examples
    --------
    >>> ranks_of([0, 3, 4, 9], 4), ranks_of([0, 2], 4)
    ({-1: 0, 0: 0, 3: 1, 4: 2, 9: 3}, {-1: 0, 0: 0, 2: 2})
    """
    if max(numbers, default=0) < adapters:
        return {-1: 0} | {number: number for number in numbers}
    return {-1: 0} | {number: rank for rank, number in enumerate(numbers)}


EXCHANGED, MAX_EXCHANGED = 4, 10
"""How many times as many cables speak against a name as for it, and how many such are told [1]."""

SERVER_GPUS = (8, 4, 16, 2)
"""GPUs of a server that are tried where adapters do not tell [1]."""


class MatchedPorts(Struct, frozen=True):
    """A device as built, what the plan calls it, and how that is known."""

    built: str
    planned: str
    how: str


class Match(Struct, frozen=True):
    """Cables as built in the plan's names; what names did not settle, as sentences and devices.

    ``host_of`` says which host a planned GPU is in.
    """

    cables: Sequence[Cable]
    notes: tuple[str, ...] = ()
    known: tuple[MatchedPorts, ...] = ()
    host_of: Mapping[str, str] = {}


def match_halls(
    plan: Hall, built: Hall, *, host_gpus: int | None = None, cage_links: int | None = None
) -> Match:
    """Name the devices of a hall as a plan does.

    Parameters
    ----------
    plan, built
        Cables planned and as built.
    host_gpus
        GPUs of a server, where the plan names GPUs [1]; by the adapters of hosts, if absent.
    cage_links
        Links in a cage of a switch [1], where one file names ports by cage.

    Raises
    ------
    InputError
        If ports are named in two ways and nobody says how many links a cage has.
    """
    listed, planned = (
        {end.device for cable in hall.cables for end in cable[:2]} for hall in (built, plan)
    )
    if not built.devices and 2 * len(listed & planned) >= len(listed):
        return Match(devices_alike(plan, built).cables)
    hosts = hosts_in(plan), hosts_in(built)
    sides = _sides(plan, built, hosts, cage_links)
    host_ports = found_ports(built, hosts[1])
    places = planned_places(plan, hosts[0], host_gpus or _host_gpus(plan, hosts[0], host_ports))
    host_ports = host_ports.on_hosts(places)
    return _Matcher((plan, built), sides, places, host_ports).match()


def _sides(
    plan: Hall, built: Hall, hosts: tuple[set[str], set[str]], links: int | None
) -> tuple[MatchSide, MatchSide]:
    """Both networks with ports of switches named alike: by their numbers."""
    named_by_cage = (
        (end.device for cable in hall.cables for end in cable[:2] if CAGE_PORT.fullmatch(end.port))
        for hall in (plan, built)
    )
    cages = [next(devices, "") for devices in named_by_cage]
    if links is None and bool(cages[0]) != bool(cages[1]):
        by = (plan, built) if cages[0] else (built, plan)
        raise InputError(
            f"{by[0].path} names the ports of {cages[0] or cages[1]} by cage, {by[1].path} by"
            " number: say --switch and --radix, such as --switch qm9700"
        )
    sides = []
    for hall, hall_hosts, by_cage in zip((plan, built), hosts, cages, strict=True):
        cables = [_numbered(c, links) for c in hall.cables] if by_cage and links else hall.cables
        guids = {name: device.guid for name, device in hall.devices.items()}
        sides.append(side_of(cables, hall_hosts, guids))
    return sides[0], sides[1]


def _numbered(cable: Cable, links: int) -> Cable:
    """A cable with its ports by number, where they are named by cage."""
    ends = []
    for end in cable[:2]:
        if CAGE_PORT.fullmatch(end.port):
            cage, place = map(int, end.port.split("/"))
            ends.append(End(end.device, str((cage - 1) * links + place)))
        else:
            ends.append(end)
    return cable._replace(a=ends[0], z=ends[1])


def _host_gpus(plan: Hall, hosts: set[str], host_ports: FoundPorts) -> int:
    """GPUs of a server, by the adapters of hosts as built; 1 where GPUs stand for themselves."""
    gpus = [name for name in hosts if GPU_NAME.fullmatch(name)]
    named = host_ports.hosts()
    if not gpus or not named or sum(host in hosts for host in named) > len(named) // 2:
        return 1
    ends = [end for cable in plan.cables for end in cable[:2] if GPU_NAME.fullmatch(end.device)]
    gpu_ports = max((int(end.port) for end in ends if end.port.isdigit()), default=1)
    numbers = host_ports.numbers
    for adapters in (len(numbers), max(numbers) + 1):
        count, rest = divmod(adapters * host_ports.ports, gpu_ports)
        if not rest and count and len(gpus) % count == 0:
            return count
    return next((n for n in SERVER_GPUS if len(gpus) == n * len(named)), 1)


class _Matcher:
    """The work of :func:`match_halls`, step by step."""

    def __init__(
        self,
        halls: tuple[Hall, Hall],
        sides: tuple[MatchSide, MatchSide],
        places: Places,
        host_ports: FoundPorts,
    ) -> None:
        (planned, self.hall), (self.plan, self.built), self.places = halls, sides, places
        self.guids = {device.guid: name for name, device in planned.devices.items() if device.guid}
        self.found = host_ports
        self.ranks = ranks_of(host_ports.numbers, self._adapters())
        self.host: dict[str, str] = {}  # as built: in the plan
        self.how: dict[str, str] = {}
        self.notes: list[str] = []
        self.host_end: dict[End, End] = {}
        self.switches = Matching(self.plan, self.built, self._named(), self.host_end)

    def match(self) -> Match:
        """Match what has names, then switches, then what is left of hosts."""
        planned = _unique(self.places.hosts())
        for host in self.found.by_host():
            if (name := planned.get(device_names.compared_name(host))) is not None:
                self.host[host] = name
        self._place()
        # Places on hosts, planned and as built, are colours to switches.
        self.switches.places = {end: place for end, (_, place) in self.places.place.items()} | {
            end: self.ranks[number] * self.found.ports + port
            for end, (_, number, port) in self.found.places.items()
        }
        self.switches.propagate_matches()
        self._order_hosts()
        self._order_adapters()
        if self.switches.open and self.host_end:
            self.switches.propagate_matches()
        self._plug_in()
        self._say()
        host_of = {end.device: host for end, (host, _) in self.places.place.items()}
        cables = [
            cable._replace(a=self._named_end(cable.a), z=self._named_end(cable.z))
            for cable in self.hall.cables
        ]
        return Match(cables, tuple(self.notes), tuple(self._known()), host_of)

    def _adapters(self) -> int:
        """Adapters of a planned host, the most that any has [1]."""
        places = 1 + max((place for _, place in self.places.end), default=0)
        return -(-places // self.found.ports)

    def _named(self) -> dict[str, str]:
        """Switches whose names, or a word of whose descriptions, the plan has; or their GUIDs."""
        planned = _unique(self.plan.switches)
        wished: dict[str, list[str]] = defaultdict(list)
        for name in self.built.switches:
            device = self.hall.devices.get(name)
            texts = [name, *(device.description.replace(";", " ").split() if device else ())]
            if device and device.shared:
                texts = []
            in_plan = [
                planned[plain]
                for text in texts
                if (plain := device_names.compared_name(text)) in planned
            ]
            if device and not in_plan and self.guids.get(device.guid) in self.plan.known:
                in_plan = [self.guids[device.guid]]
            if in_plan:
                wished[in_plan[0]].append(name)
        return {names[0]: in_plan for in_plan, names in wished.items() if len(names) == 1}

    def _place(self) -> None:
        """Ends in the plan of all hosts that are known."""
        for end, (host, number, port) in self.found.places.items():
            planned_host = self.host.get(host)
            if planned_host is None:
                continue
            place = self.ranks[number] * self.found.ports + port
            planned = self.places.end.get((planned_host, place))
            if planned is not None:
                self.host_end[end] = planned

    def _opposite(self, end: End) -> End | None:
        """What the plan has in the port that an end as built is plugged into."""
        far = self.switches.end(self.built.far[end])
        return self.plan.far.get(far) if far is not None else None

    def _order_hosts(self) -> None:
        """Hosts with names that the plan has not: in their order, or by most of their cables."""
        hosts = [host for host in self.found.hosts() if host not in self.host]
        taken = set(self.host.values())
        free = [host for host in self.places.hosts() if host not in taken]
        if not hosts or not free:
            return
        plugs = self._plugs(hosts)
        seen = sum(count.total() for count in plugs.values())
        for guess in _orders(hosts, free):
            right = sum(plugs[host][planned_host] for host, planned_host in guess.items())
            if 2 * right > seen or not seen:
                self._take(guess, "order")
                first = min(guess, key=device_names.natural)
                last = max(guess, key=device_names.natural)
                self.notes.append(
                    f"hosts are taken in the order of their names: {first} as {guess[first]}"
                    + (f", {last} as {guess[last]}" if last != first else "")
                )
                return
        # By where at least half of their cables are, the surest first.
        guess = {}
        for host in sorted(plugs, key=lambda host: -max(plugs[host].values(), default=0)):
            for planned, cables in plugs[host].most_common(1):
                if 2 * cables >= plugs[host].total() and planned not in taken:
                    guess[host] = planned
                    taken.add(planned)
        self._take(guess, "cables")
        if guess:
            self.notes.append(
                f"{_count(len(guess), 'host')} known by where most of their cables are plugged in,"
                " not by name"
            )

    def _plugs(self, hosts: Sequence[str]) -> dict[str, Counter[str]]:
        """Hosts that the plan has in the switch ports of each host, with the cables that say so."""
        by_host = self.found.by_host()
        return {
            host: Counter(
                self.places.place[far][0]
                for end in by_host[host]
                if (far := self._opposite(end)) is not None and far in self.places.place
            )
            for host in hosts
        }

    def _take(self, guess: Mapping[str, str], how: str) -> None:
        self.host.update(guess)
        self.how |= dict.fromkeys(guess, how)
        self._place()

    def _order_adapters(self) -> None:
        """Take adapters in another order than that of their numbers where most are plugged so."""
        votes: dict[int, Counter[int]] = defaultdict(Counter)
        for end, (host, number, port) in self.found.places.items():
            far = self._opposite(end) if number >= 0 else None
            place = self.places.place.get(far) if far is not None else None
            if place is not None and place[0] == self.host.get(host):
                rank, place_port = divmod(place[1], self.found.ports)
                votes[number][rank] += place_port == port
        best = {number: count.most_common(1)[0] for number, count in votes.items() if count}
        right = sum(count[self.ranks[number]] for number, count in votes.items())
        gained = sum(n for _, n in best.values())
        if 2 * right >= gained or len({rank for rank, _ in best.values()}) < len(best):
            return
        self.ranks |= {number: rank for number, (rank, _) in best.items()}
        self.host_end.clear()
        self._place()
        order = sorted(best, key=lambda number: self.ranks[number])
        self.notes.append(
            "adapters of a host are taken in another order than that of their numbers, by where"
            f" most are plugged in: {', '.join(map(str, order))}"
        )

    def _plug_in(self) -> None:
        """Adapters without names: what the plan has in their switch ports."""
        taken = set(self.host_end.values())
        plugged = 0
        for end, (host, number, _) in self.found.places.items():
            if end in self.host_end or (number >= 0 and host in self.host):
                continue
            device = self.hall.devices.get(end.device)
            if (
                number >= 0
                and device is not None
                and not device_names.is_makers(device.description)
            ):
                continue
            planned_end = self._opposite(end)
            if (
                planned_end is not None
                and planned_end in self.places.place
                and planned_end not in taken
            ):
                self.host_end[end] = planned_end
                taken.add(planned_end)
                plugged += 1
        if plugged:
            self.notes.append(
                f"{plugged:,} adapters have no names: each is taken for what the plan has in its"
                " switch port, so that exchanged ones are not seen: --names FILE tells them"
            )

    def _exchanged(self) -> Iterator[tuple[str, str]]:
        """Switches with names whose cables are nearly all another's."""
        unnamed = {*self.switches.by_ports, *self.switches.by_order}
        for name, mine in self.switches.planned.items():
            if name in unnamed:
                continue
            votes = self.switches.votes(name)
            likelier, most = max(votes.items(), key=lambda vote: vote[1], default=(mine, 0))
            if likelier != mine and most > EXCHANGED * votes[mine]:
                yield mine, likelier

    def _say(self) -> None:
        """What was settled without names, and what was not settled."""
        ports, order = len(self.switches.by_ports), len(self.switches.by_order)
        if ports + order:
            self.notes.append(
                f"{_count(ports + order, 'switch')} known by their ports, not by name"
            )
        if order:
            self.notes.append(
                f"ambiguous: {order:,} times switches looked alike and were taken in the order of"
                " names and GUIDs; what hangs together may be exchanged as a whole: --names FILE"
                " settles it"
            )
        if left := self.switches.open:
            self.notes.append(
                f"{_count(len(left), 'switch')} not found in the plan, such as {left[0]}"
            )
        for mine, likelier in islice(self._exchanged(), MAX_EXCHANGED):
            self.notes.append(
                f"the switch that is called {mine} has the cables of {likelier}: is its name right?"
            )
        if inside := self.hall.inside:
            self.notes.append(f"{_count(inside, 'link')} inside switches left out")

    def _known(self) -> Iterator[MatchedPorts]:
        """Devices that are known otherwise than by name."""
        for how, names in (("ports", self.switches.by_ports), ("order", self.switches.by_order)):
            for name in names:
                yield MatchedPorts(name, self.switches.planned[name], how)
        for host, how in self.how.items():
            yield MatchedPorts(host, self.host[host], how)

    def _named_end(self, end: End) -> End:
        """An end as built as the plan names it, as far as that is known."""
        planned = self.switches.planned.get(end.device)
        return self.host_end.get(end, end) if planned is None else End(planned, end.port)


def _unique(names: Sequence[str]) -> dict[str, str]:
    """Names by their plain form, those that share one left out."""
    plain = [device_names.compared_name(name) for name in names]
    counts = Counter(plain)
    return {key: name for key, name in zip(plain, names, strict=True) if counts[key] == 1}


def _orders(hosts: Sequence[str], free: Sequence[str]) -> Iterator[dict[str, str]]:
    """Guesses by order: by the numbers in names, where gaps are hosts that are dark; by rank."""
    numbers = [device_names.last_number(host) for host in hosts]
    known = [number for number in numbers if number is not None]
    if len(set(known)) == len(hosts):
        first = min(known)
        for start in dict.fromkeys((first, 1, 0)):
            if start <= first and max(known) - start < len(free):
                yield {
                    host: free[number - start] for host, number in zip(hosts, known, strict=True)
                }
    if len(hosts) <= len(free):
        yield dict(zip(hosts, free, strict=False))


def _count(number: int, what: str) -> str:
    """A number of things with its verb."""
    plural = f"{what}es" if what.endswith("ch") else f"{what}s"
    return f"1 {what} is" if number == 1 else f"{number:,} {plural} are"
