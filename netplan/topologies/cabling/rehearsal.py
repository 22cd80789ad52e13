"""A network booted before it is bought: simulated by ibsim, routed by OpenSM, found again.

The three are Debian's ``ibsim-utils``, ``opensm`` and ``infiniband-diags``; each of them asks the
simulator in place of a card, through ibsim's library. What is booted is a file as ``ibnetdiscover``
prints it. A network of several parts that no cable joins, such as rails without a common spine, is
one subnet a part, each with a subnet manager of its own.

The simulator knows speeds up to HDR. If the network has others, its speeds take the place of the
fastest that ibsim knows, in their order, and what is found is told in true ones: widths and
differences of speed stay what they are.
"""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from msgspec import Struct

from netplan.errors import InputError, NetplanError
from netplan.progress import with_progress
from netplan.topologies.cabling.device_names import node_guid
from netplan.topologies.formats.infiniband import LANE_GBPS, NODE_LINE, SubnetNode, subnet_of_text
from netplan.topologies.graph import SWITCH, connected_parts

KNOWN_SPEEDS = ("HDR", "EDR", "FDR", "QDR", "DDR", "SDR")
"""Speeds of ibsim 0.10, falling."""

SPEEDS = tuple(reversed(LANE_GBPS))
"""Speeds of InfiniBand, falling."""

RATE = re.compile(r"(\blid \d+ \d{1,2}x)([A-Z]+\d*)\s*$", re.MULTILINE)
ROUTED = re.compile(r"(\S+) tables configured on all switches")

PACKAGES = "opensm, ibsim-utils and infiniband-diags (Debian)"
FOLDERS = ("/usr/sbin", "/usr/local/sbin")
LIBRARIES = ("/usr/lib", "/usr/lib64", "/usr/local/lib")
LIBRARY = "umad2sim/libumad2sim.so"
LIMITS = ("-N", "80000", "-S", "20000", "-P", "800000")
"""Nodes, switches and ports that ibsim makes room for."""

COMPLAINT = "ibpanic"
"""How ibsim begins the line that says why it ends."""

START_S, END_S = 60.0, 3600.0
"""How long the simulator may take to load, and OpenSM to route [s]."""

SEEDS = ("x", "y", "z")
_sockets = count()


class SubnetPart(Struct, frozen=True):
    """A subnet: a node of it and its name, and its switches, adapter ports and cables [1]."""

    node: str
    name: str
    switches: int
    adapters: int
    cables: int


class Routing(Struct, frozen=True):
    """Routing engines of OpenSM, tried in this order.

    With the description of a torus, if it is one, and the top switches of a tree whose trunks or
    pods differ, as node numbers of a plan: fat-tree routing finds those of others itself.
    """

    engines: tuple[str, ...]
    torus: str = ""
    roots: tuple[int, ...] = ()


class Booted(Struct, frozen=True):
    """What became of a subnet: the engine that routed it, empty if none did."""

    json_parts = "*part", "routing.engines", "engine", "routed"

    part: SubnetPart
    routing: Routing
    engine: str

    @property
    def routed(self) -> bool:
        """Whether an engine that fits the fabric made tables for all switches."""
        return self.engine in self.routing.engines


class Tools(Struct, frozen=True):
    """The programs: OpenSM, the simulator, the finder, and the library that joins them."""

    opensm: str
    ibsim: str
    ibnetdiscover: str
    library: str


def find_tools() -> Tools | None:
    """Find the programs of a rehearsal; None if one of them is missing."""
    folders = os.pathsep.join((os.environ.get("PATH", ""), *FOLDERS))
    names = ("opensm", "ibsim", "ibnetdiscover")
    opensm, ibsim, finder = (shutil.which(name, path=folders) for name in names)
    places = (path for folder in LIBRARIES for path in (Path(folder), *Path(folder).glob("*/")))
    paths = (place / LIBRARY for place in places if (place / LIBRARY).is_file())
    library = next(paths, None)
    if not (opensm and ibsim and finder and library):
        return None
    return Tools(opensm, ibsim, finder, str(library))


def subnets_of(text: str) -> list[SubnetPart]:
    r"""Subnets of a network as ``ibnetdiscover`` prints it, in the order of their first nodes.

    An adapter passes nothing on: each of its ports is in the subnet of what it is joined to.

    Examples
    --------
    >>> text = 'Switch 4 "S-1" # "leaf"\n[1] "H-2"[1](3)\nCa 2 "H-2"\n[1](3) "S-1"[1]\n'
    >>> subnets_of(text)
    [SubnetPart(node='S-1', name='leaf', switches=1, adapters=1, cables=1)]
    """
    subnet = subnet_of_text(text)
    if not subnet.links:
        return []
    # A switch is one vertex, every port of an adapter its own.
    vertices: dict[tuple[str, str], int] = {}
    pairs = np.array(
        [
            [
                vertices.setdefault(
                    (end.device, "" if subnet.nodes[end.device].kind == SWITCH else end.port),
                    len(vertices),
                )
                for end in link[:2]
            ]
            for link in subnet.links
        ]
    )
    part = connected_parts(len(vertices), pairs[:, 0], pairs[:, 1])
    parts: list[list[SubnetNode]] = [[] for _ in range(int(part.max()) + 1)]
    for (id_, _), number in zip(vertices, part.tolist(), strict=True):
        parts[number].append(subnet.nodes[id_])
    cables = np.bincount(part[pairs[:, 0]], minlength=len(parts)).tolist()
    subnets = []
    for nodes, many in zip(parts, cables, strict=True):
        # A subnet's manager runs on its first switch, or an adapter without one.
        inner = [node for node in nodes if node.kind == SWITCH]
        first = min(inner or nodes, key=lambda node: node.id)
        subnets.append(
            SubnetPart(first.id, first.description, len(inner), len(nodes) - len(inner), many)
        )
    return subnets


def lowered(text: str) -> tuple[str, dict[str, str]]:
    """Network at speeds that ibsim knows, and the true speed of each of them.

    Raises
    ------
    InputError
        If it has more speeds than ibsim, or one that InfiniBand has not.

    Examples
    --------
    >>> lowered('[1] "S-1"[1] # "leaf" lid 0 4xXDR')
    ('[1] "S-1"[1] # "leaf" lid 0 4xHDR', {'HDR': 'XDR'})
    """
    speeds = {speed for _, speed in RATE.findall(text)}
    strange = sorted(speeds.difference(SPEEDS))
    if strange:
        raise InputError(f"unknown speed {strange[0]}: known are {', '.join(SPEEDS)}")
    if speeds.issubset(KNOWN_SPEEDS):
        return text, {}
    if len(speeds) > len(KNOWN_SPEEDS):
        raise InputError(
            f"the network has {len(speeds)} speeds, ibsim {len(KNOWN_SPEEDS)}: leave some out"
        )
    falling = [speed for speed in SPEEDS if speed in speeds]
    stands_for = dict(zip(falling, KNOWN_SPEEDS, strict=False))
    return _respeeded(text, stands_for), {low: true for true, low in stands_for.items()}


def _respeeded(text: str, speeds: dict[str, str]) -> str:
    return RATE.sub(lambda match: match[1] + speeds.get(match[2], match[2]), text)


def torus_config(sizes: Sequence[int], *, first: int, step: int, closed: bool = True) -> str:
    """Describe a torus of up to three axes for OpenSM's engine torus-2QoS.

    Parameters
    ----------
    sizes
        Members along each axis, the first of which runs fastest [1].
    first, step
        Number of the node at the origin, and from one member to the next.
    closed
        Whether rings are closed.

    Examples
    --------
    >>> print(torus_config((4, 2), first=0, step=1))
    torus 4 2m 1
    xp_link 0x100 0x200
    xm_link 0x100 0x400
    yp_link 0x100 0x500
    """
    axes = [f"{size}m" if size == 2 else f"{size}" for size in (*sizes, 1, 1)[:3]]  # noqa: PLR2004
    lines = [" ".join(("torus" if closed else "mesh", *axes))]
    stride = step
    for axis, size in zip(SEEDS, sizes, strict=False):
        if size > 1:
            lines.append(_seed(f"{axis}p", first, first + stride))
        if size > 2 and closed:  # noqa: PLR2004 - two members share one link
            lines.append(_seed(f"{axis}m", first, first + (size - 1) * stride))
        stride *= size
    return "\n".join(lines)


def _seed(axis: str, first: int, second: int) -> str:
    return f"{axis}_link {node_guid(first):#x} {node_guid(second):#x}"


def rehearse(
    text: str, routing: Callable[[SubnetPart], Routing], tools: Tools
) -> tuple[str, list[Booted]]:
    """Boot a network; what is found of it, and what became of its subnets.

    Parameters
    ----------
    text
        The network as ``ibnetdiscover`` prints it.
    routing
        Engines that fit a subnet.
    tools
        The programs.

    Raises
    ------
    InputError
        If a speed cannot be simulated.
    NetplanError
        If a program ends with an error, or takes longer than an hour.
    """
    low, true = lowered(text)
    results, booted = [], []
    with TemporaryDirectory(prefix="netplan-") as name:
        folder = Path(name)
        network = folder / "network"
        network.write_text(low, encoding="utf-8")
        with _simulator(network, tools) as around:
            parts = subnets_of(low)
            for part in with_progress(parts, lambda part: f"subnet of {part.node}"):
                turn = with_progress(("OpenSM routes it", "it is found again"), str)
                wanted = routing(part)
                next(turn)
                host = around | {"SIM_HOST": part.node}
                booted.append(Booted(part, wanted, _route(wanted, tools, folder, host)))
                next(turn)
                run = _run([tools.ibnetdiscover], folder, host)
                results.append(_respeeded(run, true))
    return _merged(results), booted


def _merged(texts: Sequence[str]) -> str:
    """Networks as found, one after the other; an adapter with ports in several has one block."""
    heads: dict[str, str] = {}
    ports: dict[str, list[str]] = {}
    here = ""
    for line in "".join(texts).splitlines():
        if node := NODE_LINE.fullmatch(line.rstrip()):
            here = node[3]
            heads.setdefault(here, line)
            ports.setdefault(here, [])
        elif here and line.startswith("["):
            ports[here].append(line)
    blocks = ("\n".join((head, *ports[node], "")) for node, head in heads.items())
    return "\n".join(blocks)


@contextmanager
def _simulator(network: Path, tools: Tools) -> Iterator[dict[str, str]]:
    """The simulator with a network; yields what the programs need around them."""
    name = f"netplan-{os.getpid()}-{next(_sockets)}"
    around = {**os.environ, "IBSIM_SOCKNAME": name}
    log = network.with_name("ibsim.log")
    with (
        log.open("w") as output,
        subprocess.Popen(  # noqa: S603 - a program of the system, on a file of ours
            [tools.ibsim, "-n", "-s", *LIMITS, str(network)],
            env=around,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        ) as simulator,
    ):
        try:
            _await(simulator, name, log)
            clients = {"LD_PRELOAD": tools.library, "OSM_TMP_DIR": str(network.parent)}
            yield around | clients | {"OSM_CACHE_DIR": str(network.parent)}
        finally:
            simulator.kill()


def _await(simulator: "subprocess.Popen[bytes]", name: str, log: Path) -> None:
    """Wait until the simulator listens."""
    sockets, deadline = Path("/proc/net/unix"), time.monotonic() + START_S
    while f"@{name}:ctl" not in sockets.read_text():
        if simulator.poll() is not None or time.monotonic() > deadline:
            lines = log.read_text(errors="replace").strip().splitlines() or ["nothing"]
            complaint = next((line for line in reversed(lines) if COMPLAINT in line), lines[-1])
            raise NetplanError(f"ibsim could not load the network: it said {complaint[:200]!r}")
        time.sleep(0.02)


def _route(routing: Routing, tools: Tools, folder: Path, around: dict[str, str]) -> str:
    """Let OpenSM sweep the subnet once; the engine whose tables it set."""
    log, torus = folder / "opensm.log", folder / "torus.conf"
    log.unlink(missing_ok=True)
    options = ["-R", ",".join(routing.engines), "-o", "-f", str(log)]
    if routing.torus:
        torus.write_text(routing.torus + "\n", encoding="utf-8")
        options += ["--torus_config", str(torus), "-Q"]
    if routing.roots:
        roots = folder / "roots"
        roots.write_text("".join(f"{node_guid(root):#x}\n" for root in routing.roots), "utf-8")
        options += ["-a", str(roots)]
    _run([tools.opensm, *options], folder, around)
    tables = ROUTED.findall(log.read_text(errors="replace"))
    return tables[-1] if tables else ""


def _run(command: list[str], folder: Path, around: dict[str, str]) -> str:
    """Output of a program."""
    program = Path(command[0]).name
    try:
        run = subprocess.run(  # noqa: S603 - a program of the system
            command, env=around, cwd=folder, capture_output=True, timeout=END_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise NetplanError(f"{program} took longer than {END_S:,.0f} s: plan fewer GPUs") from None
    if run.returncode:
        complaint = run.stderr.decode(errors="replace").strip().splitlines() or ["nothing"]
        raise NetplanError(
            f"{program} ended with {run.returncode}: it said {complaint[-1][:200]!r}"
        )
    return run.stdout.decode(errors="replace")
