"""Tests that take long: they are marked slow, so that every run of the others takes minutes.

`tests/long.txt` names them, of a test with several cases once. ``NETPLAN_TIME_TESTS=FOLDER`` writes
it anew from what a run took: tests above a share of a second of a processor. What each process
notes down on the way stands in the folder.
"""

import os
import resource
from collections import defaultdict
from pathlib import Path

import pytest

LIST = Path(__file__).with_suffix(".txt")
ALWAYS = "tests/test_house.py::"
"""Format, lint, types and the rules of the house, which stand in every run."""
LONG_S = 0.2
"""Of a processor, with all processes that a test starts, of its longest case [s]."""
WHOLE = ("NETPLAN_UPDATE_GOLDEN", "NETPLAN_EXAMPLES", "NETPLAN_FUZZ_CASES")
"""What a run is given that leaves no long test out."""
TIMED = os.environ.get("NETPLAN_TIME_TESTS")
"""Where a run writes down what its tests take, if it does."""


def function_of(nodeid: str) -> str:
    """A test without the values of its case.

    >>> function_of("tests/test_files.py::test_names[a-1]")
    'tests/test_files.py::test_names'
    """
    return nodeid.partition("[")[0]


def mark_long(items: list[pytest.Item]) -> None:
    """Mark the tests of the list slow, but where a run renews golden files or hunts faults."""
    if any(name in os.environ for name in WHOLE):
        return
    listed = frozenset(LIST.read_text("utf-8").split("\n"))
    for item in items:
        if function_of(item.nodeid) in listed:
            item.add_marker(pytest.mark.slow)


def used_s() -> float:
    """What this process and all that it has waited for have used of processors [s]."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(times.ru_utime + times.ru_stime for times in used)


def keep_time(folder: str, item: pytest.Item, seconds: float) -> None:
    """Write down what a case took, a file a process; what is slow by its own mark stays so."""
    if item.get_closest_marker("slow") is None:
        with (Path(folder) / f"{os.getpid()}.times").open("a", encoding="utf-8") as file:
            file.write(f"{seconds:.3f} {function_of(item.nodeid)}\n")


def write_long(folder: str) -> None:
    """Write the list anew from what all processes wrote down."""
    longest: dict[str, float] = defaultdict(float)
    for path in Path(folder).glob("*.times"):
        for line in path.read_text("utf-8").splitlines():
            seconds, _, test = line.partition(" ")
            longest[test] = max(longest[test], float(seconds))

    listed = sorted(
        test
        for test, seconds in longest.items()
        if seconds > LONG_S and not test.startswith(ALWAYS)
    )
    LIST.write_text("\n".join(listed) + "\n", "utf-8")
