"""Ports of switches by cage: port ``1/2`` is the second one of cage 1.

A twin-port cage (OSFP) takes one module with two links, so two cables whose ports lie in one cage
share a module. Cages count as on the front panel, the ports of a cage from 1. Tools such as
``ibnetdiscover`` number the ports of a switch on from cage to cage, as Quantum-2 does at its full
rate: with two a cage, ``1/2`` is port 2 and ``2/1`` port 3. That switches number on likewise when
cages are split into more ports, at a lower rate, is assumed.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from netplan.errors import CatalogError, InputError
from netplan.topologies.as_built import Cable, End

CAGE_PORT = re.compile(r"[1-9]\d{0,4}/([1-9]\d{0,2})")


@dataclass(frozen=True, slots=True)
class CableList:
    """Cables of one file.

    Parameters
    ----------
    path
        The file, for errors.
    cables
        What it lists.
    """

    path: str
    cables: Sequence[Cable]

    def ends(self) -> Iterator[tuple[End, Cable]]:
        """Both ends of every cable."""
        for cable in self.cables:
            yield cable.a, cable
            yield cable.z, cable

    def by_cage(self) -> set[str]:
        """Devices with a port that is named by its cage."""
        ends = (end for end, _ in self.ends() if "/" in end.port)
        return {end.device for end in ends if CAGE_PORT.fullmatch(end.port)}

    def by_number(self) -> set[str]:
        """Devices with a port that is numbered."""
        return {end.device for end, _ in self.ends() if end.port.isdigit()}

    def in_cages(self, devices: set[str], links: int) -> list[Cable]:
        """Cables with the numbered ports of some devices named by their cages."""
        numbers = {end.port for end, _ in self.ends() if end.port.isdigit()}
        names = {number: cage_port(int(number), links) for number in numbers}

        def named(end: End) -> End:
            return End(end.device, names.get(end.port, end.port)) if end.device in devices else end

        return [Cable(named(c.a), named(c.z), c.gbps, c.line) for c in self.cables]

    def require_cages_of(self, devices: set[str], links: int) -> None:
        """Refuse a port that no cage of so many links has.

        Raises
        ------
        CatalogError
            With file and line.
        """
        for end, cable in self.ends():
            match = CAGE_PORT.fullmatch(end.port) if end.device in devices else None
            if match and int(match[1]) > links:
                raise CatalogError(
                    f"{self.path}:{cable.line}: port {end.port} of {end.device}: a cage of this"
                    f" --switch with this --radix has {links}: give those that the plan is made for"
                )


def cage_port(port: int, links: int) -> str:
    """Name of a switch port in cages of so many links; its number where a cage holds one.

    Parameters
    ----------
    port
        Port of the switch, from 1.
    links
        Links of a cage [1].

    Examples
    --------
    >>> [cage_port(port, 2) for port in (1, 2, 3, 64)], cage_port(3, 1)
    (['1/1', '1/2', '2/1', '32/2'], '3')
    """
    if links == 1:
        return str(port)
    cage, place = divmod(port - 1, links)
    return f"{cage + 1}/{place + 1}"


def named_alike(
    plan: CableList, built: CableList, links: int | None = None
) -> tuple[Sequence[Cable], Sequence[Cable]]:
    """Name ports by cage in both lists where one of them does and the other has numbers.

    A device whose names are mixed in one list is left as it is: what a number means there is not
    known.

    Parameters
    ----------
    plan, built
        The two lists.
    links
        Links of a cage; None if nobody says [1].

    Raises
    ------
    InputError
        If a device is named in both ways, and nobody says how many links a cage has.
    CatalogError
        If a port cannot be in a cage of so many links: file and line.

    Examples
    --------
    >>> plan = CableList("plan", [Cable(End("gpu-0", "1"), End("sw01", "2/1"))])
    >>> built = CableList("hall", [Cable(End("gpu-0", "1"), End("sw01", "3"))])
    >>> _, found = named_alike(plan, built, 2)
    >>> print(found[0])
    gpu-0/1 - sw01:2/1
    """
    lists = (plan, built)
    by_cage = [listed.by_cage() for listed in lists]
    if not any(by_cage):
        return plan.cables, built.cables
    by_number = [listed.by_number() for listed in lists]
    named: list[Sequence[Cable]] = []
    for here, there in ((0, 1), (1, 0)):
        devices = (by_number[here] - by_cage[here]) & (by_cage[there] - by_number[there])
        if not devices:
            named.append(lists[here].cables)
            continue
        if links is None:
            raise InputError(
                f"{lists[there].path} names the ports of {min(devices)} by cage,"
                f" {lists[here].path} by number: say --switch and --radix, such as --switch qm9700"
            )
        lists[there].require_cages_of(devices, links)
        named.append(lists[here].in_cages(devices, links))
    return named[0], named[1]
