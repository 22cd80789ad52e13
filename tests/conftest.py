"""The order of all tests, and ``netplan verify`` run once a process.

Examples have no deadline, since a busy machine is no failure.
"""

from collections.abc import Callable, Mapping
from functools import cache

import pytest
from hypothesis import settings

from netplan.published.checks import Check
from netplan.published.verify import SUITES

settings.register_profile("netplan", deadline=None)
settings.load_profile("netplan")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest, format, lint and types, so that no processor waits for them alone."""
    items.sort(key=lambda item: "test_tool_finds_nothing" not in item.name)


@cache
def run_once(suite: str) -> tuple[Check, ...]:
    """The checks of a suite, which several tests read."""
    return tuple(SUITES[suite]())


@pytest.fixture
def suites(monkeypatch: pytest.MonkeyPatch) -> Mapping[str, Callable[[], tuple[Check, ...]]]:
    """The suites of ``netplan verify``; whatever asks for them in this test has them run once."""
    once = {suite: lambda suite=suite: run_once(suite) for suite in SUITES}
    monkeypatch.setattr("netplan.published.verify.SUITES", once)
    return once
