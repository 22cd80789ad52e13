"""The order of all tests."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest, format, lint and types, so that no processor waits for them alone."""
    items.sort(key=lambda item: "test_tool_finds_nothing" not in item.name)
