"""Slim Fly: switches joined as a graph of McKay, Miller and Siran, any two at most two hops apart.

Symbols: q = 4w + d, a power of a prime, d in {-1, 0, 1}; 2 q^2 switches, each with k = (3q - d)/2
links to others and p = ceil(k/2) hosts, with which uniform traffic nearly keeps the rate of a port.
Orders are few, so that switches of many ports leave most of them idle, which the fabric says.

Switches are (0, x, y) and (1, m, c), with x, y, m, c in the field of q elements, and joined are

* (0, x, y) and (0, x, y') where y - y' lies in X,
* (1, m, c) and (1, m, c') where c - c' lies in X',
* (0, x, y) and (1, m, c) where y = m x + c.

X and X' hold powers of a primitive element: X even ones and X' odd ones, if d is 0 or 1; if d is
-1, the even ones below 2w, and the odd ones from 2w - 1 on, and for X' all of these one higher.

Source: Besta and Hoefler, Slim Fly: A Cost Effective Low-Diameter Network Topology (SC 2014,
arXiv:1912.08968), after McKay, Miller and Siran (1998) and Hafner (2004). For q = 5 it is the graph
of Hoffman and Singleton.
"""

from functools import lru_cache
from itertools import count

import numpy as np

from netplan.arrays import AnyInts, Ints, ceil_div
from netplan.errors import InputError
from netplan.records import PositiveInt, replace
from netplan.topologies.assembly import NameBlock
from netplan.topologies.fabric import Fabric, Sizing
from netplan.topologies.families import joined_switches
from netplan.topologies.graph import Medium
from netplan.units import counted

LEAST_ORDER, LARGEST_ORDER = 3, 1024
NO_ORDER = 2
"""Remainder by four of the orders that no graph of this kind has [1]."""


class SlimFly(joined_switches.JoinedSwitches, frozen=True, kw_only=True):
    """Switches as a graph of McKay, Miller and Siran."""

    hosts_per_switch: PositiveInt | None = None
    host_medium: Medium | None = None
    order: PositiveInt | None = None  # q of the paper

    def plane_graph(self, sizing: Sizing) -> joined_switches.SwitchGraph:
        """Its own order and hosts, else the smallest order that holds the GPUs.

        One switch where that holds them all.

        Examples
        --------
        >>> from netplan import Scenario
        >>> from netplan.topologies.specs import FABRICS
        >>> scenario = Scenario.load("hgx-h100").replace(gpus=200, radix=32)
        >>> from netplan.topologies.families.joined_switches import switch_graph
        >>> graph = switch_graph(FABRICS.load("slim-fly"), scenario.sizing)
        >>> graph.switches, graph.hosts, set(graph.degrees().tolist())
        (50, 4, {7})
        """
        if sizing.gpus <= sizing.radix and not (self.order or self.hosts_per_switch):
            return joined_switches.one_switch(sizing.gpus)
        order, hosts = _shape(self, sizing)
        inside, across = _links(order)
        sentence = (
            f"Slim Fly of q = {order}: {2 * order**2:,} switches of {counted(hosts, 'host')}, each"
            f" with {network_degree(order)} links to others, two hops at most."
        )
        names = NameBlock("subgraph-{}/group-{}/switch-{}", (2, order, order))
        links = (
            joined_switches.SwitchLinks(joined_switches.joined_links("inside groups", 1), *inside),
            joined_switches.SwitchLinks(
                joined_switches.joined_links("between subgraphs", 2), *across
            ),
        )
        return joined_switches.SwitchGraph((("switch", names),), hosts, links, sentence, even=True)

    def build(self, sizing: Sizing) -> Fabric:
        """Counts, levels and notes, with the ports that stand idle.

        Examples
        --------
        >>> from netplan import Scenario
        >>> from netplan.topologies.specs import FABRICS
        >>> sizing = Scenario.load("hgx-h100").replace(gpus=200, radix=32).sizing
        >>> FABRICS.load("slim-fly").build(sizing).notes[-1]
        '1,050 of 1,600 switch ports stand idle (66 %): the order sets the links, not the radix.'
        """
        fabric = super().build(sizing)
        every = fabric.switches * fabric.sizing.radix
        if fabric.switches == self.planes:
            return fabric
        idle = (
            f"{fabric.spare_ports:,} of {every:,} switch ports stand idle"
            f" ({100 * fabric.spare_ports / every:.0f} %): the order sets the links, not the radix."
        )
        return replace(fabric, notes=(*fabric.notes, idle))


def network_degree(order: int) -> int:
    """Links from a switch to others, (3q - d)/2 [1].

    Examples
    --------
    >>> [network_degree(order) for order in (3, 4, 5, 19, 43)]
    [5, 6, 7, 29, 65]
    """
    return (3 * order + 1) // 2 if order % 4 == 3 else 3 * order // 2  # noqa: PLR2004 - 4w - 1


def _shape(spec: SlimFly, sizing: Sizing) -> tuple[int, int]:
    """Order and hosts a switch."""
    gpus, asked = sizing.gpus, spec.hosts_per_switch
    if spec.order is not None:
        order = _allowed(spec.name, spec.order)
        hosts = asked or ceil_div(network_degree(order), 2)
        held = 2 * order**2 * hosts
        if held < gpus:
            raise InputError(
                f"{spec.name}: order {order} with {counted(hosts, 'host')} a switch holds {held:,}"
                f" GPUs, got {gpus:,}: raise order or hosts_per_switch in the fabric file"
            )
        return order, hosts
    most = 0
    for order in filter(is_order, range(LEAST_ORDER, LARGEST_ORDER)):
        degree = network_degree(order)
        if degree + (asked or 1) > sizing.radix:
            break
        # Where ports are short switches have fewer hosts than would use all links.
        hosts = asked or min(ceil_div(degree, 2), sizing.radix - degree)
        held = 2 * order**2 * hosts
        most = max(most, held)
        if held >= gpus:
            return order, asked or ceil_div(gpus, 2 * order**2)
    raise InputError(
        f"{spec.name}: radix {sizing.radix} holds at most {most:,} GPUs, got {gpus:,}: raise"
        " --radix"
    )


def is_order(order: int) -> bool:
    """Whether there is a Slim Fly of this order: a power of a prime, and no 4w + 2.

    Examples
    --------
    >>> [order for order in range(2, 30) if is_order(order)]
    [3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 19, 23, 25, 27, 29]
    """
    if order < LEAST_ORDER or order % 4 == NO_ORDER:
        return False
    prime, rest = _prime_of(order), order
    while rest % prime == 0:
        rest //= prime
    return rest == 1


def _allowed(name: str, order: int) -> int:
    """The order, if there is a Slim Fly of it."""
    if order >= LARGEST_ORDER:
        raise InputError(f"{name}: order {order} is too large: give less than {LARGEST_ORDER:,}")
    if is_order(order):
        return order
    near = next(
        candidate
        for step in count(1)
        for candidate in (order + step, order - step)
        if is_order(candidate)
    )
    raise InputError(
        f"{name}: order must be a power of a prime, 3 or more, got {order}: the nearest that"
        f" works is {near}"
    )


def _prime_of(order: int) -> int:
    """Smallest prime that divides an order [1]."""
    return next(divisor for divisor in range(2, order + 1) if order % divisor == 0)


@lru_cache(maxsize=4)
def _links(order: int) -> tuple[tuple[AnyInts, AnyInts], tuple[AnyInts, AnyInts]]:
    """Ends of the links inside groups of q switches, and of those between subgraphs."""
    powers = primitive_powers(order)
    sums = addition(order)
    field = np.arange(order)
    # Powers of the primitive element in X and in X'.
    even, odd = [*range(0, order - 1, 2)], [*range(1, order, 2)]
    if order % 4 == 3:  # noqa: PLR2004 - 4w - 1
        w = (order + 1) // 4
        even = [*range(0, 2 * w, 2), *range(2 * w - 1, 4 * w - 2, 2)]
        odd = [exponent + 1 for exponent in even]
    sources, targets = [], []
    for subgraph, exponents in enumerate((even, odd)):
        steps = powers[np.array(exponents) % (order - 1)]
        low = np.repeat(field, len(steps))
        high = sums[low, np.tile(steps, order)]
        once = low < high  # y + s = y' and y' - s = y: both lie there, take one
        start = (subgraph * order + field) * order
        sources.append(np.add.outer(start, low[once]).ravel())
        targets.append(np.add.outer(start, high[once]).ravel())
    x, m, c = (grid.ravel() for grid in np.meshgrid(field, field, field, indexing="ij"))
    logarithm = np.zeros(order, np.int64)
    logarithm[powers] = np.arange(order - 1)
    products = powers[(logarithm[m] + logarithm[x]) % (order - 1)]
    y = sums[np.where((m == 0) | (x == 0), 0, products), c]
    across = x * order + y, (order + m) * order + c
    return (np.concatenate(sources), np.concatenate(targets)), across


def addition(order: int) -> Ints:
    """Sums of all pairs of a field, shape (order, order): digits to the base of its prime.

    Examples
    --------
    >>> addition(4)[2].tolist()
    [2, 3, 0, 1]
    """
    prime, value = _prime_of(order), 1
    elements = np.arange(order)
    sums = np.zeros((order, order), np.int64)
    while value < order:
        digit = elements // value % prime
        sums += np.add.outer(digit, digit) % prime * value
        value *= prime
    return sums


def primitive_powers(order: int) -> Ints:
    """Powers 0 to order - 2 of a primitive element, as numbers of elements, shape (order - 1,).

    Element number a stands for the polynomial with its digits to the base of the prime; powers of
    x are taken modulo the first monic polynomial for which they reach all elements but zero.

    Examples
    --------
    >>> primitive_powers(5).tolist(), primitive_powers(8).tolist()
    ([1, 2, 4, 3], [1, 2, 4, 3, 6, 7, 5])
    """
    prime = _prime_of(order)
    size = round(np.log(order) / np.log(prime))
    for number in range(1, order):
        # x^size = the polynomial of this number
        rest = [number // prime**place % prime for place in range(size)]
        element, powers = [1, *[0] * (size - 1)], []
        for _ in range(order - 1):
            powers.append(sum(digit * prime**place for place, digit in enumerate(element)))
            top = element[-1]
            shifted = [0, *element[:-1]]
            element = [(a + top * b) % prime for a, b in zip(shifted, rest, strict=True)]
        if len(set(powers)) == order - 1 and 0 not in powers:
            return np.array(powers)
    raise InputError(f"there is no field of {order} elements: give a power of a prime")
