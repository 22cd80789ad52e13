"""Colour refinement: nodes of two networks that their ports tell apart, without any name.

A node's colour says which of its ports are joined to which port of what colour. All begin with one
colour; each round takes the neighbours' colours in, so that after r rounds two nodes share a colour
if their surroundings up to r cables away are the same, port by port. Colours are hashes of 64 bits:
equal surroundings have equal ones, and unequal ones differ but for a chance of 2^-64 a pair.

Source of the method: Weisfeiler and Leman's refinement, here with port numbers, which makes nearly
every node of a Clos network a colour of its own after one or two rounds.
"""

import numpy as np
from msgspec import Struct

from netplan.arrays import Ints, Words, mixed

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
    key = mixed(ports.port.astype(np.uint64)) + np.uint64(3) * mixed(
        ports.peer_port.astype(np.uint64) ^ PEER
    )
    told = np.zeros(len(colours), np.uint64)
    np.add.at(told, ports.node, mixed(key ^ mixed(seen)))
    return mixed(told ^ mixed(colours))
