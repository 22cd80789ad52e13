"""Every function that the documentation site lists says what it takes and what it gives."""

import inspect
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any

import pytest
from numpydoc.docscrape import NumpyDocString  # type: ignore[import-untyped]

from docs.generators.functions import MODULES

NOT_YET: tuple[str, ...] = ()
"""How the names of modules begin whose functions need no sections yet."""

STARS: dict[object, str] = {
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
}


def listed(module: str) -> Iterator[tuple[str, Callable[..., Any], bool]]:
    """Functions and methods that autodoc puts on a page; whether the first parameter is ``self``.

    They are public, have a docstring, and are the module's own, or those of its ``__all__``.
    """
    holder = import_module(module)
    own = [name for name, value in vars(holder).items() if home_of(value) == module]
    for name in public(getattr(holder, "__all__", own)):
        value = getattr(holder, name)
        if inspect.isclass(value):
            members = vars(value)
            for key in public(members):
                method = inspect.isfunction(members[key])
                if method or isinstance(members[key], classmethod | staticmethod):
                    yield f"{module}.{name}.{key}", getattr(value, key), method
        elif inspect.isroutine(value) and not inspect.isbuiltin(value):
            yield f"{module}.{name}", value, False


def home_of(value: object) -> str:
    return str(getattr(value, "__module__", ""))


def public(names: Iterable[str]) -> list[str]:
    return [name for name in names if not name.startswith("_")]


LISTED = {
    name: (function, method)
    for page in MODULES.values()
    for module in page
    for name, function, method in listed(module)
    if inspect.getdoc(function)
}
HELD = [name for name, (one, _) in LISTED.items() if not home_of(one).startswith(NOT_YET)]


@pytest.mark.parametrize("name", HELD)
def test_every_listed_function_says_what_it_takes_and_gives(name: str) -> None:
    function, method = LISTED[name]
    signature = inspect.signature(function)
    taken = list(signature.parameters.values())[method:]
    doc = NumpyDocString(inspect.getdoc(function))
    said = [part for row in doc["Parameters"] if any(row.desc) for part in row.name.split(", ")]
    assert sorted(said) == sorted(STARS.get(one.kind, "") + one.name for one in taken)
    gives = [row for row in (*doc["Returns"], *doc["Yields"]) if row.type and any(row.desc)]
    assert bool(gives) == (signature.return_annotation is not None)


def test_the_list_is_that_of_the_site() -> None:
    for page in MODULES.values():
        for module in page:
            assert any(name.startswith(f"{module}.") for name in LISTED), module
    assert "netplan.topologies.families.clos.fat_tree" in LISTED  # cached
    assert "netplan.costing.ranges.Range.point" in LISTED  # of the class
    # Imported names of `__all__` stand on their page, and what it leaves out does not.
    assert "netplan.workloads.kernels.product_time_s" in LISTED
    assert "netplan.workloads.kernels.norm_of" not in LISTED
