"""The cheapest wireable Clos network by trying all of them: slow, plain, from the rules alone.

A switch has r ports and costs r, a link between two switches costs :data:`LINK`. Rules:

*  Endpoints are spread evenly over leaves, and every leaf has the same number of uplinks, no fewer
   than the hosts of the fullest.
*  Uplinks lead to planes of as many switches each, at least two planes where there are two uplinks;
   bundles to two planes differ by a link at most.
*  A plane is one switch, or pods that each take as many of the ends below, with at least as many
   links up as down, and planes above them again.
"""

from collections.abc import Iterator
from functools import cache
from math import inf

LINK = 1.7
MOST_TIERS = 6


def ceil(numerator: int, denominator: int) -> int:
    return -(-numerator // denominator)


@cache
def plane(ends: int, links: int, r: int, tiers: int) -> float:
    """Lowest price of a plane that joins so many switches by so many links each."""
    best = float(r) if ends * links <= r else inf
    if tiers == 1:
        return best
    for pods in range(2, ends):
        down = ends // pods * links
        if ends % pods or 2 * down > r or r * pods >= best:
            continue
        for up in range(down, r - down + 1):
            best = min(best, r * pods + above(pods, up, r, tiers - 1, fewest=1))
    return best


def above(ends: int, up: int, r: int, tiers: int, *, fewest: int) -> float:
    """Lowest price of all planes over so many switches with so many uplinks each, and the links."""
    ways = [
        planes * plane(ends, ceil(up, planes), r, tiers)
        for planes in range(min(fewest, up), up + 1)
    ]
    return LINK * ends * up + min(ways)


@cache
def cheapest(n: int, r: int) -> float:
    """Lowest price of a network over so many endpoints, in any number of tiers."""
    if n <= 1:
        return 0.0
    best = float(r) if n <= r else inf
    for leaves in range(2, n + 1):
        if r * leaves + (LINK + 1) * n >= best:
            break
        hosts = ceil(n, leaves)
        if hosts >= r:
            continue
        for up in range(hosts, r - hosts + 1):
            least = r * leaves + LINK * leaves * up
            if least < best:
                best = min(best, r * leaves + above(leaves, up, r, MOST_TIERS - 1, fewest=2))
    return best


def parts(rails: int, most: int | None = None) -> Iterator[tuple[int, ...]]:
    """All ways to divide so many rails into groups."""
    most = rails if most is None else most
    if not rails:
        yield ()
    for size in range(min(rails, most), 0, -1):
        for rest in parts(rails - size, size):
            yield (size, *rest)


def cheapest_rails(rails: int, hosts: int, r: int) -> float:
    """Lowest price of so many rails, each group of which shares a network."""
    return min(sum(cheapest(size * hosts, r) for size in groups) for groups in parts(rails))
