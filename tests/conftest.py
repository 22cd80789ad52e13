"""The order of all tests; examples have no deadline, since a busy machine is no failure."""

import pytest
from hypothesis import settings

settings.register_profile("netplan", deadline=None)
settings.load_profile("netplan")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest, format, lint and types, so that no processor waits for them alone."""
    items.sort(key=lambda item: "test_tool_finds_nothing" not in item.name)
