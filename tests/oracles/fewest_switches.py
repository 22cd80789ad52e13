"""The fewest switches of a HyperX and of a dragonfly, by trying all that there are.

Plain loops over grids, links, groups and hosts, without a word of netplan's search. A shape is kept
if its switches have the ports, and if at full switches no link carries more than a port where each
GPU sends to all; links inside a group of a dragonfly on average. So it holds the search, not the
rule: what the busiest link carries is held by routing all pairs (``test_fewest_switches``).
"""

from collections.abc import Iterator
from fractions import Fraction
from math import prod

DIMENSIONS = 4


def grids(most_switches: int, most_side: int, dimensions: int = DIMENSIONS) -> Iterator[list[int]]:
    """All grids of two or more switches a side, of at most so many switches, sides falling."""
    yield []
    if dimensions:
        for side in range(2, min(most_side, most_switches) + 1):
            for rest in grids(most_switches // side, side, dimensions - 1):
                yield [side, *rest]


def hyperx_hosts(sides: list[int], radix: int, *, same_links: bool = False) -> int:
    """The most hosts that each switch of a grid may have."""
    for hosts in range(radix, 0, -1):
        least = []
        for side in sides:
            # Half of the hosts of a line send over its middle, half of what they send.
            for links in range(1, radix + 1):
                if Fraction(side * side, 4) * links >= Fraction(side * hosts, 4):
                    least.append(links)
                    break
        if len(least) < len(sides):
            continue
        if same_links:
            least = [max(least, default=0)] * len(sides)
        used = sum(links * (side - 1) for links, side in zip(least, sides, strict=True))
        if hosts + used <= radix:
            return hosts
    return 0


def fewest_of_hyperx(most_gpus: int, radix: int, *, same_links: bool = False) -> list[int | None]:
    """Switches for 0, 1, 2 ... GPUs; None where no grid holds them."""
    held: dict[int, int] = {}
    for sides in grids(most_gpus, radix):
        switches = prod(sides)
        gpus = switches * hyperx_hosts(sides, radix, same_links=same_links)
        held[switches] = max(held.get(switches, 0), gpus)
    return least(held, most_gpus)


def least(held: dict[int, int], most_gpus: int) -> list[int | None]:
    """The least key that holds so many, for 0 and more."""
    return [
        min((switches for switches, most in held.items() if most >= gpus), default=None)
        for gpus in range(most_gpus + 1)
    ]


def carries(switches: int, groups: int, hosts: int, radix: int) -> bool:
    """Whether some number of links between groups that are as equal as can be keeps the rate.

    Each of S switches sends 1 to each other one, where its ports have room for S / hosts.
    """
    smallest, more = divmod(switches, groups)
    largest, second = smallest + (more > 0), smallest + (more != 1 and more > 0)
    if groups == 1:
        return any(
            hosts <= links * switches and hosts + links * (switches - 1) <= radix
            for links in range(1, radix + 1)
        )
    for size in {largest, smallest}:
        # Straight, and from and to gateways what other groups get and send: of these one in so many
        # is there already. All that is spread over both directions of the links inside.
        inside = size * (size - 1) + 2 * size * (switches - size) * (size - 1) // size
        if size > 1 and inside * hosts > switches * size * (size - 1):
            return False
    for links in range(1, radix * largest + 1):
        ends = links * (groups - 1)
        if any(hosts + size - 1 + -(-ends // size) > radix for size in {largest, smallest}):
            return False
        if hosts * largest * second <= links * switches:
            return True
    return False


def fewest_of_dragonfly(most_gpus: int, radix: int) -> list[int | None]:
    """Switches for 0, 1, 2 ... GPUs; None where no dragonfly holds them."""
    held, most = {1: radix}, radix
    for switches in range(2, most_gpus + 1):
        for hosts in range(radix - 1, most // switches, -1):
            if any(
                carries(switches, groups, hosts, radix)
                for groups in range(1, switches + 1)
                if groups * radix >= switches
            ):
                held[switches] = most = hosts * switches
                break
    return least(held, most_gpus)
