"""Every function that the documentation site lists says what it takes and what it gives."""

import inspect
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest
from numpydoc.docscrape import NumpyDocString  # type: ignore[import-untyped]

from docs.generators.functions import MODULES

NOT_YET: tuple[str, ...] = ("netplan.errors",)
"""Modules whose functions need no sections yet, by how their names begin."""


def listed(module: str) -> Iterator[tuple[str, Callable[..., Any], bool]]:
    """Functions and methods of a page as autodoc chooses them, and whether one is bound late.

    Those are the public ones of the module, or what it names in ``__all__``, with a docstring.
    """
    holder = import_module(module)
    own = [name for name, value in vars(holder).items() if _home(value) == module]
    for name in getattr(holder, "__all__", [one for one in own if not one.startswith("_")]):
        value = getattr(holder, name)
        if inspect.isclass(value):
            for key, member in vars(value).items():
                late = inspect.isfunction(member)
                if late or isinstance(member, classmethod | staticmethod):
                    yield f"{module}.{name}.{key}", getattr(value, key), late
        elif inspect.isroutine(value) and not inspect.isbuiltin(value):
            yield f"{module}.{name}", value, False


def _home(value: object) -> str | None:
    return getattr(value, "__module__", None)


LISTED = {
    name: (function, late)
    for modules in MODULES.values()
    for module in modules
    for name, function, late in listed(module)
    if not name.rpartition(".")[2].startswith("_") and inspect.getdoc(function)
}


@pytest.mark.parametrize("name", LISTED)
def test_every_listed_function_is_documented(name: str) -> None:
    function, late = LISTED[name]
    if str(_home(function)).startswith(NOT_YET):
        pytest.skip("not yet")
    sections = NumpyDocString(inspect.getdoc(function))
    signature = inspect.signature(function)
    taken = list(signature.parameters)[1 if late else 0 :]
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    marks = [stars.get(signature.parameters[one].kind, "") for one in taken]
    said = [
        one
        for row in (*sections["Parameters"], *sections["Other Parameters"])
        if any(row.desc)
        for one in row.name.split(", ")
    ]
    assert sorted(said) == sorted(map("".join, zip(marks, taken, strict=True)))
    gives = [row for row in (*sections["Returns"], *sections["Yields"]) if row.type and any(row.desc)]
    assert bool(gives) == (signature.return_annotation is not None)


def test_the_list_has_functions_and_methods_of_every_page() -> None:
    pages = {module for modules in MODULES.values() for module in modules}
    assert {module for module in pages if any(name.startswith(f"{module}.") for name in LISTED)} == (
        pages
    )
    # Imported names of `__all__` stand on their page, what it leaves out does not.
    assert "netplan.workloads.kernels.product_time_s" in LISTED
    assert "netplan.workloads.kernels.norm_of" not in LISTED
    assert "netplan.topologies.families.clos.fat_tree" in LISTED  # cached
    assert "netplan.costing.ranges.Range.point" in LISTED  # of the class
