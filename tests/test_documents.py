"""YAML is read from events, or by its syntax tree where something is unusual: all the same."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netplan.catalog import shipped_root
from netplan.documents import MAX_DEPTH, _careful, _ordinary, read_yaml
from netplan.errors import CatalogError

PIECES = st.sampled_from(
    [
        *("a", "b: ", "- ", "\n", "  ", "1", ".5", "1e3", "~", "true", "No", "&x ", "*x", "!!str "),
        *("? ", "'q'", '"', "[", "]", "{", "}", ", ", ": ", "# c", "|\n", "---\n", "...\n", "%"),
        *("0x1f", ".inf"),
    ]
)
USUAL = """
name: "8"
8: {a: [1, -2.5, +3e2, 007, .5, 1.], b: null, c: ~, d: , e: True, f: "no"}
text: >
  two lines
  in one
"""


@given(st.lists(PIECES, max_size=12).map("".join))
def test_what_events_say_the_syntax_tree_says(text: str) -> None:
    data = _ordinary(text)
    if data is not None:
        assert repr(data) == repr(_careful(Path("some.yaml"), text))


def test_usual_files_need_no_syntax_tree() -> None:
    assert _ordinary(USUAL) == {
        "name": "8",
        8: {"a": [1, -2.5, 300.0, 7, 0.5, 1.0], "b": None, "c": None, "d": None, "e": True}
        | {"f": "no"},
        "text": "two lines in one\n",
    }
    for path in shipped_root().glob("topologies/*.yaml"):
        assert _ordinary(path.read_text("utf-8")) is not None


@pytest.mark.parametrize(
    "text",
    [
        *("a: 1\na: 2", "a: &b 1", "a: !!str 1", "- 1", "", "a: 1\n---\nb: 2", "[a]: 1"),
        *("a: .inf", "a: [1", "a: " + "[" * MAX_DEPTH + "]" * MAX_DEPTH),
    ],
)
def test_what_is_unusual_is_looked_at_twice(text: str) -> None:
    assert _ordinary(text) is None


def test_lines_are_found_when_somebody_asks(tmp_path: Path) -> None:
    path = tmp_path / "some.yaml"
    path.write_text("a: 1\nb:\n  - c: 2\n")
    assert read_yaml(path).line(["b", 0, "c"]) == 3
    path.write_text("a: 1\na: 2\n")
    with pytest.raises(CatalogError, match=r"some.yaml:2: key a stands twice"):
        read_yaml(path)
