"""Names of links as exports and cable plans write them, brought into one form: ``end--end``.

===============  =================================================================================
cable plans      ``gpu-5:1--leaf-0:6``; by cage and half ``gpu-5:1--leaf-0:3/2``; of hosts
                 ``host-0:6--leaf-0:6``
edge list        ``gpu-5,gpu,1,leaf-0,switch,5,…``, a row
UFM              ``gpu-5,Host,1,leaf-0,Switch,6``, a row
DOT              ``"leaf-0":"port-5" -- "gpu-5":"port-1" […];``
GraphML          ``<edge … source="gpu-5" target="leaf-0"><data key="source_port">1</data>…``
topo             ``leaf-0:P6``, as ``P6`` of ``leaf-0``
ibnetdiscover    ``leaf-0[6]``
===============  =================================================================================

Graphs count all ports of a node from 0, those into its HB domain among them (``port-5``); cables
those of the network from 1.
"""

import re

BETWEEN = "--"
END = re.compile(
    r"(.+?)(?::|\s+(?=P)|(?=\[))"
    r"(?:\[(\d{1,6})\]|P?(\d{1,6})(?:/(\d{1,2}))?|port-(\d{1,6}))"
)
"""An end of a link: a device, then a port of any form."""

STATEMENT = re.compile(r"\s*(?:\[\s*\w+\s*=.*)?;?\s*")
"""What follows the ends in a DOT statement."""

EDGE = re.compile(
    r'\s*<edge\b[^>]*\bsource="([^"]+)"\s+target="([^"]+)".*?"source_port">(\d+)<.*?'
    r'"target_port">(\d+)<.*'
)
ROW = re.compile(
    r"([^,]+),(gpu|hb_switch|switch|manager|Host|Switch),([^,]+),([^,]+),\w+,([^,]+)(?:,.*)?"
)


def plain_link(text: str) -> str:
    """A link as some export writes it, as its two ends; anything else as it is.

    Examples
    --------
    >>> plain_link('"leaf-0":"port-5" -- "gpu-5":"port-1" [gbps=400, length="row"];')
    'leaf-0:port-5--gpu-5:port-1'
    >>> plain_link("gpu-5,gpu,1,leaf-0,switch,5,400.0,row,host")
    'gpu-5:port-1--leaf-0:port-5'
    >>> plain_link("gpu-5,Host,1,leaf-0,Switch,3/2"), plain_link("links=10")
    ('gpu-5:1--leaf-0:3/2', 'links=10')
    """
    edge, row = EDGE.fullmatch(text), ROW.fullmatch(text)
    if edge:
        source, target, *ports = edge.groups()
        return f"{source}:port-{ports[0]}{BETWEEN}{target}:port-{ports[1]}"
    if row:
        source, kind, port, target, other = row.groups()
        graph = "port-" if kind.islower() else ""
        return f"{source}:{graph}{port}{BETWEEN}{target}:{graph}{other}"
    if f" {BETWEEN} " not in text:
        return text
    ends = re.sub(STATEMENT.pattern + "$", "", text).replace('"', "")
    return BETWEEN.join(end.strip() for end in ends.split(f" {BETWEEN} "))


def device_port(text: str, cage_links: int) -> tuple[str, int, bool] | None:
    """Device and port of an end, and whether the port counts as graphs do; None if it is none.

    Parameters
    ----------
    text
        The end.
    cage_links
        Links in a cage of a switch, for ports by cage and half [1].

    Examples
    --------
    >>> for text in ("leaf-0:6", "leaf-0:3/2", "leaf-0:P6", "leaf-0 P6", "leaf-0[6]"):
    ...     assert device_port(text, 2) == ("leaf-0", 6, False)
    >>> device_port("leaf-0:port-5", 2), device_port("leaf-0", 2)
    (('leaf-0', 5, True), None)
    """
    found = END.fullmatch(text)
    if not found:
        return None
    device, bracket, number, place, graph = found.groups()
    if graph:
        return device, int(graph), True
    port = int(bracket or number)
    if not place:
        return device, port, False
    if not 1 <= int(place) <= cage_links:
        return None
    return device, (port - 1) * cage_links + int(place), False
