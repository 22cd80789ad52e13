"""Which switch of a plan a switch as built is: by its name, or by its ports.

What names leave open is settled by structure, in this order, again and again until nothing moves:

1. *Votes.* A port of an unknown switch that leads to a known device says which switch the plan has
   there. The switch that most of its ports say is taken.
2. *Colours.* Ports alone tell most switches of a fabric apart: a colour (:func:`refined`) that only
   one switch of the plan and one as built have names it. A faulty cable changes the colours around
   it; those switches are left to votes.
3. *Order.* Switches that look alike even so, such as those of rails that share no switch, are taken
   in the order of their names and GUIDs. How many were is said: they may be exchanged.
4. *Likeness.* What is left, damaged and beside nothing known, is taken for the switch with the most
   ports in common; that is said, too.

In the end every choice is tried again with all others known, and changed where that explains more
cables.

Colour refinement: nodes of two networks that their ports tell apart, without any name.

A node's colour says which of its ports are joined to which port of what colour. All begin with one
colour; each round takes the neighbours' colours in, so that after r rounds two nodes share a colour
if their surroundings up to r cables away are the same, port by port. Colours are hashes of 64 bits:
equal surroundings have equal ones, and unequal ones differ but for a chance of 2^-64 a pair.

Source of the method: Weisfeiler and Leman's refinement, here with port numbers, which makes nearly
every node of a Clos network a colour of its own after one or two rounds.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from zlib import crc32

import numpy as np
from msgspec import Struct, field

from netplan.arrays import Ints, Words, hash64
from netplan.topologies.cabling.as_built import Cable, End
from netplan.topologies.cabling.device_names import natural

Colours = Words
NOBODY, PEER = np.uint64(0x94D049BB133111EB), np.uint64(0x9E3779B97F4A7C15)
"""Colour of a port without a peer, and what tells a peer's port from an own one."""


class Ports(Struct, frozen=True, eq=False):
    """Ports of nodes, shape (ports,): node, own port, peer's port, peer (-1 for no node)."""

    node: Ints
    port: Ints
    peer_port: Ints
    peer: Ints


def refined(ports: Ports, colours: Colours) -> Colours:
    """One round: colours of nodes by those of their neighbours and the ports between.

    Parameters
    ----------
    ports
        Every port in use of every node, both ends of a cable.
    colours
        Colours before, shape (nodes,).

    Examples
    --------
    A row of three nodes, port 1 joined to port 2: the ends differ from the middle and each other.

    >>> row = Ports(*np.array([[0, 1, 1, 2], [1, 2, 1, 2], [2, 1, 2, 1], [1, 0, 2, 1]]))
    >>> len(set(refined(row, np.zeros(3, np.uint64)).tolist()))
    3
    """
    seen = np.append(colours, NOBODY)[ports.peer]  # -1 takes the last
    key = hash64(ports.port.astype(np.uint64)) + np.uint64(3) * hash64(
        ports.peer_port.astype(np.uint64) ^ PEER
    )
    sums = np.zeros(len(colours), np.uint64)
    np.add.at(sums, ports.node, hash64(key ^ hash64(seen)))
    return hash64(sums ^ hash64(colours))


ROUNDS = 6
"""Rounds of refinement: more than the cables from a leaf to the core and back [1]."""

PASSES = 4
"""How often choices are tried again [1]."""

LIKE = 256
"""Switches on either side that are compared one by one at most [1]."""

HOST_PORT = 1 << 40
"""Port of a peer that is no switch: more than any port's number."""


Coloured = Mapping[str, int]
"""Colours by switch."""


class MatchSide(Struct, frozen=True):
    """One of the two networks: its switches in order, and what every port leads to."""

    switches: Sequence[str]
    far: Mapping[End, End]
    ends: Mapping[str, Sequence[End]]
    known: frozenset[str]


def side_of(cables: Iterable[Cable], hosts: set[str], guids: Mapping[str, str]) -> MatchSide:
    """Ends of cables by device; switches in natural order of their names, then of their GUIDs."""
    far: dict[End, End] = {}
    ends: dict[str, list[End]] = defaultdict(list)
    for cable in cables:
        far[cable.a], far[cable.z] = cable.z, cable.a
        ends[cable.a.device].append(cable.a)
        if cable.a != cable.z:
            ends[cable.z.device].append(cable.z)
    switches = sorted(
        ends.keys() - hosts, key=lambda name: (natural(name.partition(" S-")[0]), guids.get(name))
    )
    return MatchSide(switches, far, ends, frozenset(switches))


class Matching(Struct):
    """Switches as built and their names in the plan, as far as they are known.

    Parameters
    ----------
    plan, built
        The two networks, ports named alike.
    planned
        Names in the plan by names as built; known ones go in at the start.
    host_end
        Ends in the plan by ends as built, of hosts that are known.
    by_ports, by_order
        Switches as built that their ports told, and those that were taken in order.
    """

    plan: MatchSide
    built: MatchSide
    planned: dict[str, str]
    host_end: Mapping[End, End]
    by_ports: list[str] = field(default_factory=list)
    by_order: list[str] = field(default_factory=list)
    places: Mapping[End, int] = field(default_factory=dict)
    _ports_of: dict[tuple[bool, bool], Ports] = field(default_factory=dict)
    _coloured: "list[tuple[Coloured, Coloured]]" = field(default_factory=list)

    @property
    def open(self) -> list[str]:
        """Switches as built that are not known yet."""
        return [name for name in self.built.switches if name not in self.planned]

    def propagate_matches(self) -> None:
        """Find what names left open."""
        fresh = set(self.built.ends)
        while self.open:
            fresh = (
                self._vote(fresh)
                or self._take_in_order()
                or self._tell_by_colour()
                or self._take_in_order()
                or self._take_the_likest()
            )
            if not fresh:
                break
        for _ in range(PASSES):
            if not self._try_again():
                break

    def end(self, built_end: End) -> End | None:
        """An end as the plan names it, if its device is known."""
        name = self.planned.get(built_end.device)
        return self.host_end.get(built_end) if name is None else End(name, built_end.port)

    def votes(self, name: str) -> Counter[str]:
        """Switches of the plan that the neighbours of a switch as built say it is.

        A port counts twice where its number is the planned one, too.
        """
        votes: Counter[str] = Counter()
        for here in self.built.ends[name]:
            there = self.end(self.built.far[here])
            planned_end = self.plan.far.get(there) if there is not None else None
            if planned_end is not None:
                votes[planned_end.device] += 1 + (planned_end.port == here.port)
        return votes

    def _vote(self, fresh: set[str]) -> set[str]:
        """Name the switches beside those that have just been named; these are the next."""
        taken = set(self.planned.values())
        neighbours = {
            self.built.far[end].device for name in fresh for end in self.built.ends.get(name, ())
        }
        wished: dict[str, tuple[int, str]] = {}
        known = self.plan.known
        for name in sorted(neighbours):
            if name in self.planned or name not in self.built.ends:
                continue
            votes = self.votes(name)
            left = Counter(
                {
                    choice: n
                    for choice, n in votes.items()
                    if choice in known and choice not in taken
                }
            )
            if not left:
                continue
            choice, most = left.most_common(1)[0]
            if 2 * most >= votes.total() and (choice not in wished or most > wished[choice][0]):
                wished[choice] = most, name
        return self._known({name: choice for choice, (_, name) in wished.items()}, self.by_ports)

    def _known(self, matches: Mapping[str, str], how: list[str]) -> set[str]:
        self.planned.update(matches)
        how.extend(matches)
        return set(matches)

    def _tell_by_colour(self) -> set[str]:
        """Name the switches whose colours are their own; keep the colours."""
        self._coloured = []
        taken = set(self.planned.values())
        for plan, built in self._colourings():
            self._coloured.append((plan, built))
            alone = _alone(plan)
            matches = {
                name: alone[colour]
                for colour, name in _alone(built).items()
                if name not in self.planned and colour in alone and alone[colour] not in taken
            }
            if matches:
                self._coloured = []
                return self._known(matches, self.by_ports)
        return set()

    def _take_in_order(self) -> set[str]:
        """Name one of the switches that look alike, by its place in the order."""
        taken = set(self.planned.values())
        for plan, built in reversed(self._coloured):
            left: dict[int, list[str]] = defaultdict(list)
            for planned_name, colour in plan.items():
                if planned_name not in taken:
                    left[colour].append(planned_name)
            for name in self.open:
                if alike := left.get(built[name]):
                    return self._known({name: alike[0]}, self.by_order)
        return set()

    def _take_the_likest(self) -> set[str]:
        """Name one of the switches that nothing else tells, by its ports in use."""
        taken = set(self.planned.values())
        free = [planned_name for planned_name in self.plan.switches if planned_name not in taken][
            :LIKE
        ]
        pairs = [
            (
                len(_pattern(self.built, name) & _pattern(self.plan, planned_name)),
                name,
                planned_name,
            )
            for name in self.open[:LIKE]
            for planned_name in free
        ]
        most, name, planned_name = max(pairs, key=lambda pair: pair[0], default=(0, "", ""))
        return self._known({name: planned_name}, self.by_order) if most else set()

    def _colourings(self) -> "Iterable[tuple[Coloured, Coloured]]":
        """Colours of switches, planned and as built: by links between switches, then by all."""
        sides = (self.plan, self.built)
        for with_hosts in (False, True):
            colours = [self._first(side) for side in sides]
            for _ in range(ROUNDS):
                colours = [
                    refined(self._ports(side, with_hosts=with_hosts), colour)
                    for side, colour in zip(sides, colours, strict=True)
                ]
                plan, built = (
                    dict(zip(side.switches, colour.tolist(), strict=True))
                    for side, colour in zip(sides, colours, strict=True)
                )
                yield plan, built

    def _first(self, side: MatchSide) -> Colours:
        """Colours to begin with: known switches have their own, the others one."""
        number = {
            planned_name: index + 1
            for index, planned_name in enumerate(sorted(self.planned.values()))
        }
        named = side.switches
        if side is self.built:
            named = [self.planned.get(name, "") for name in named]
        return np.array([number.get(name, 0) for name in named], np.uint64)

    def _ports(self, side: MatchSide, *, with_hosts: bool) -> Ports:
        """Ports of switches as arrays, made once."""
        key = (side is self.plan, with_hosts)
        if key not in self._ports_of:
            number = {name: index for index, name in enumerate(side.switches)}
            rows = [
                (node, _code(here.port), _code(there.port), number[there.device])
                if there.device in number
                else (node, _code(here.port), HOST_PORT + self.places.get(there, 0), -1)
                for name, node in number.items()
                for here in side.ends[name]
                if (there := side.far[here]).device in number or with_hosts
            ]
            self._ports_of[key] = Ports(*np.array(rows, np.int64).reshape(-1, 4).T)
        return self._ports_of[key]

    def _try_again(self) -> bool:
        """Change choices that explain fewer cables than others would; whether any did."""
        changed = False
        owner = {better: name for name, better in self.planned.items()}
        chosen = set(self.by_ports) | set(self.by_order)
        known = self.plan.known
        for name in [*self.by_ports, *self.by_order]:
            votes = self.votes(name)
            mine = self.planned[name]
            better, most = max(
                ((better, n) for better, n in votes.items() if better in known),
                key=lambda vote: vote[1],
                default=(mine, 0),
            )
            gain = most - votes[mine]
            other = owner.get(better)
            if better == mine or gain <= 0 or (other is not None and other not in chosen):
                continue
            if other is not None:
                theirs = self.votes(other)
                if gain + theirs[mine] - theirs[better] <= 0:
                    continue
                self.planned[other], owner[mine] = mine, other
            else:
                del owner[mine]
            self.planned[name], owner[better] = better, name
            changed = True
        return changed


def _pattern(side: MatchSide, name: str) -> set[tuple[str, str]]:
    """Ports of a switch, each with the peer's where that is a switch, too."""
    return {
        (here.port, there.port if (there := side.far[here]).device in side.known else "")
        for here in side.ends[name]
    }


def _code(port: str) -> int:
    """Number of a port; of its name where it has none."""
    return int(port) if port.isdigit() and len(port) < 10 else HOST_PORT // 2 + crc32(port.encode())  # noqa: PLR2004


def _alone(colours: Coloured) -> dict[int, str]:
    """Switches whose colour no other has, by colour."""
    counts = Counter(colours.values())
    return {colour: name for name, colour in colours.items() if counts[colour] == 1}
