"""What a question takes of a machine: said before it begins, and refused where that is too much.

Time and memory were measured once, for each command on some fabrics at full size
(`reports/footprints.csv`, made by `docs/generators/speed.py`). Arrays of links are what a large
question holds, so that another size takes as much a link, beyond what a process takes that does
nothing.
"""

import sys
from collections.abc import Sequence
from csv import DictReader
from functools import cache
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from netplan.catalog import shipped_root
from netplan.errors import InfeasibleError, NetplanError
from netplan.scenarios.parts import Cluster
from netplan.units import si

if TYPE_CHECKING:
    from netplan.scenarios.reading import CatalogReader

FILE = "reports/footprints.csv"
LARGE_GPUS = 65_536
"""GPUs from which a question is weighed though no limit was given: fewer take no gigabyte [1]."""
FREE_SHARE = 0.75
"""Share of the free memory of the machine that a question may take [1]."""
HARD_SHARE = 0.85
"""Share of it that a process may take before its question is ended [1]."""
LONG_S, LARGE_BYTES = 10.0, 2e9
"""Processor time [s] and memory or size of a file [bytes] from which they are said beforehand."""
MEMORY_FILES = (
    "/proc/meminfo",
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory.current",
    "/proc/self/statm",
)
"""Where Linux says what is free of the machine and of a container, and what a process takes."""
IDLE_S, IDLE_BYTES = 0.3, 40e6
"""What a process takes that answers next to nothing, such as a bill: time [s], memory [bytes]."""


class Footprint(Struct, frozen=True):
    """What a question takes.

    Parameters
    ----------
    subject
        What is asked of how many GPUs, in words.
    processor_s
        Time on a processor like the one it was measured on [s].
    peak_bytes
        Most memory at a time [bytes].
    file_bytes
        What it writes [bytes].
    """

    subject: str
    processor_s: float
    peak_bytes: float
    file_bytes: float = 0.0

    @property
    def text(self) -> str:
        """What it takes, in words.

        Examples
        --------
        >>> Footprint("loads of 1,048,576 GPUs", 40.2, 2.04e9).text
        'loads of 1,048,576 GPUs: about 40 s of a processor, 2 GB of memory'
        """
        parts = [
            f"{si(self.processor_s, 's', 2)} of a processor",
            f"{si(self.peak_bytes, 'B', 2)} of memory",
        ]
        parts += [f"{si(self.file_bytes, 'B', 2)} to write"] if self.file_bytes else []
        return f"{self.subject}: about {', '.join(parts)}"

    @property
    def noted(self) -> bool:
        """Whether it is so much that it is said before it begins."""
        largest = max(self.peak_bytes, self.file_bytes)
        return self.processor_s > LONG_S or largest > LARGE_BYTES

    def require(self, allowed: float | None) -> None:
        """Refuse it where it takes more memory than it may.

        Parameters
        ----------
        allowed
            What it may take [bytes]; None: three quarters of what is free.

        Raises
        ------
        InfeasibleError
            If it takes more.

        Examples
        --------
        >>> Footprint("loads of 1,048,576 GPUs", 40.2, 2.04e9).require(1e9)
        Traceback (most recent call last):
            ...
        netplan.errors.InfeasibleError: loads of 1,048,576 GPUs: about 40 s of a processor, 2 GB of
        memory; 1 GB is allowed (--max-memory): allow more, or ask about fewer GPUs or fabrics
        """
        most = FREE_SHARE * free_bytes() if allowed is None else allowed
        if self.peak_bytes <= most:
            return
        why = f"{100 * FREE_SHARE:.0f} % of what is free" if allowed is None else "--max-memory"
        more = "allow more with --max-memory" if allowed is None else "allow more"
        raise InfeasibleError(
            f"{self.text}; {si(most, 'B', 2)} is allowed ({why}): {more}, or ask about fewer GPUs"
            " or fabrics"
        )


class MeasuredFootprint(Struct, frozen=True):
    """One row of the file: a whole process as it was measured.

    Parameters
    ----------
    command
        The command; of ``export`` with its format.
    options
        What else was asked.
    fabric, links
        On which fabric, and its links [1]; neither where no graph is made.
    processor_s, peak_bytes, file_bytes
        Processor time [s], most memory [bytes] and what was written [bytes].
    date, machine
        When and on what.
    """

    command: str
    options: str
    fabric: str
    links: int
    processor_s: float
    peak_bytes: float
    file_bytes: float
    date: str
    machine: str

    def of_links(self, links: int) -> tuple[float, float, float]:
        """The same question at another size: as much a link, beyond what an idle process takes.

        Parameters
        ----------
        links
            Links of the fabric [1].

        Returns
        -------
        tuple of float
            Processor time [s], most memory [bytes] and what is written [bytes].

        Examples
        --------
        >>> row = MeasuredFootprint("loads", "", "rail-only", 1000, 10.3, 2.04e9, 0, "", "")
        >>> row.of_links(500)
        (5.3, 1040000000.0, 0.0)
        """
        share = links / self.links
        return (
            IDLE_S + (self.processor_s - IDLE_S) * share,
            IDLE_BYTES + (self.peak_bytes - IDLE_BYTES) * share,
            self.file_bytes * share,
        )


@cache
def measured_footprints() -> tuple[MeasuredFootprint, ...]:
    """All rows of the file.

    Returns
    -------
    tuple of MeasuredFootprint
        In the order of `reports/footprints.csv`.

    Examples
    --------
    >>> all(row.processor_s > 0 and row.peak_bytes > 1e6 for row in measured_footprints())
    True
    """
    kinds: dict[str, Any] = {"links": int}
    kinds |= dict.fromkeys(("processor_s", "peak_bytes", "file_bytes"), float)
    with (shipped_root() / FILE).open(encoding="utf-8", newline="") as file:
        return tuple(
            MeasuredFootprint(**{name: kinds.get(name, str)(text) for name, text in row.items()})
            for row in DictReader(file)
        )


def footprint_of(
    command: str,
    cluster: Cluster,
    reader: "CatalogReader",
    fabrics: Sequence[str],
    *,
    limited: bool,
) -> Footprint | None:
    """What a question takes that makes the graphs of some fabrics, one after the other.

    Parameters
    ----------
    command
        The question as the file of footprints calls it: its command, what it writes behind it.
    cluster, reader
        What it is about, and what reads its files.
    fabrics
        Names of the fabrics.
    limited
        Whether it says how much memory it may take.

    Returns
    -------
    Footprint or None
        None where it is small and no limit was given, or is about somebody's own graph.
    """
    small = cluster.gpus < LARGE_GPUS and not limited
    rows = [row for row in measured_footprints() if row.command == command and row.links]
    if small or cluster.graph is not None or not rows or not fabrics:
        return None
    taken = []
    for name in fabrics:
        links = fabric_links(cluster, reader, name)
        alike = [row.of_links(links) for row in rows if row.fabric == name]
        # A fabric that was not measured takes what the worst of the others does.
        taken.append(max(alike or [row.of_links(links) for row in rows]))
    times, peaks, files = zip(*taken, strict=True)
    subject = f"{command.partition(' ')[0]} of {cluster.gpus:,} GPUs"
    subject += f" on {len(taken)} fabrics" if len(taken) > 1 else ""
    return Footprint(subject, sum(times), max(peaks), sum(files))


def fabric_links(cluster: Cluster, reader: "CatalogReader", name: str) -> int:
    """Links of a fabric, those inside HB domains included.

    Parameters
    ----------
    cluster, reader
        What is asked about, and what reads its files.
    name
        Name of the fabric, or its file.

    Returns
    -------
    int
        Links [1]; 0 where it cannot be built.

    Examples
    --------
    >>> from netplan.questions.loads import Loads
    >>> asked = Loads.make("hgx-h100", gpus=64, radix=64)
    >>> fabric_links(asked.cluster, asked.reader(), "rail-optimized")
    128
    """
    from netplan.scenarios.reading import sized
    from netplan.topologies.build import build_fabric
    from netplan.workloads.accelerators import ACCELERATORS

    try:
        spec = reader.fabric(name, cluster)
        sizing = sized(cluster, reader.load(ACCELERATORS, cluster.accelerator))
        fabric = build_fabric(spec, sizing)
    except NetplanError:
        return 0  # which the question says better
    return fabric.link_count + fabric.sizing.gpus


def free_bytes() -> float:
    """Memory that a process may still take on this machine.

    Returns
    -------
    float
        The least of what Linux calls available, what a container leaves, and the limit of the
        process [bytes]; infinite where nobody knows.

    Examples
    --------
    >>> free_bytes() >= 0
    True
    """
    of_machine, limit, current, _ = MEMORY_FILES
    facts = _lines(of_machine)
    known = [float(line.split()[1]) * 1024 for line in facts if line.startswith("MemAvailable:")]
    of_container = [*_lines(limit), *_lines(current)]
    if len(of_container) == 2 and of_container[0].strip().isdecimal():  # noqa: PLR2004 - both files
        known.append(float(of_container[0]) - float(of_container[1]))
    return max(0.0, min([inf, *known, *_left_of_limit()]))


def _left_of_limit() -> list[float]:
    """What a limit of the process on its addresses (``ulimit -v``) leaves, if any [bytes]."""
    if sys.platform == "win32":
        return []
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    used = _pages_taken()
    if limit == resource.RLIM_INFINITY or not used:
        return []
    return [float(limit - used[0] * resource.getpagesize())]


def bound_memory() -> None:
    """Let this process take little more from now on than a question may, beside what it holds.

    A question that takes more, though nobody weighed it, then ends by ``MemoryError``. Questions
    that are not weighed take no more than :data:`LARGE_BYTES`, which are allowed in any case.
    """
    most = max(HARD_SHARE * free_bytes(), LARGE_BYTES)
    if sys.platform == "win32" or most == inf:
        return
    import resource

    held = resource.getpagesize() * sum(_pages_taken()[5:6])
    _, highest = resource.getrlimit(resource.RLIMIT_DATA)
    bound = int(held + most)
    bound = bound if highest == resource.RLIM_INFINITY else min(bound, highest)
    resource.setrlimit(resource.RLIMIT_DATA, (bound, highest))


def _pages_taken() -> list[int]:
    """Pages of this process: of all addresses first, of its data sixth; none where nobody says."""
    return [int(pages) for line in _lines(MEMORY_FILES[-1]) for pages in line.split()]


def _lines(path: str) -> list[str]:
    """Lines of a file that Linux keeps; none elsewhere."""
    try:
        return Path(path).read_text(encoding="ascii").splitlines()
    except OSError:
        return []
