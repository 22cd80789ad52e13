"""Audit of a SimAI (ns-3) topology: a header that disagrees with the body.

Line 1 announces nodes, GPUs a server, HB switches, switches, links and the type of GPU, some
versions with a seventh field; the numbers of all switches follow, on a line or two; then a line a
link: source, target, bandwidth, latency, error rate.
"""

from collections.abc import Iterator, Sequence

from netplan.questions.audit_findings import Finding

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


def audit_simulator(path: str, lines: Sequence[str]) -> Iterator[Finding]:
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
        yield Finding(what, f"{path}:1", f"links {counts['links']}", str(links), "lines of links")
    announced = counts["nvswitches"] + counts["switches"]
    if len(switches) != announced:
        why = f"{counts['nvswitches']} HB switches and {counts['switches']} switches announced"
        got = f"{len(switches)} switches listed"
        yield Finding(what, f"{path}:2", got, str(announced), why)
    gpus = counts["nodes"] - announced
    if counts["gpus_per_server"] and gpus % counts["gpus_per_server"]:
        why = f"{counts['nodes']} nodes less {announced} switches are {gpus} GPUs"
        got = f"gpus_per_server {counts['gpus_per_server']}"
        yield Finding("counts that do not multiply", f"{path}:1", got, "a divisor", why)


def _link(where: str, fields: Sequence[str], nodes: int) -> Iterator[Finding]:
    """A link: its form, its two nodes."""
    ends = fields[:2]
    if len(fields) != LINK_FIELDS or not all(map(_is_whole, ends)):
        why = "source, target, bandwidth, latency, error rate"
        yield Finding("no link", where, " ".join(fields)[:60], "5 fields", why)
        return
    for end in ends:
        if int(end) >= nodes:
            why = f"the header announces {nodes} nodes, from 0"
            yield Finding("a node that does not exist", where, end, f"0 to {nodes - 1}", why)
    if ends[0] == ends[1]:
        yield Finding("a link to itself", where, ends[0], "two nodes", "a link joins two nodes")


def _is_whole(text: str) -> bool:
    """Whether a field is a whole number of a size that a network can have."""
    return text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS
