"""Reading YAML files that nobody has vouched for: safe, bounded, with the line of every value.

Scalars follow the core schema of YAML 1.2 (``1e9`` is a number, ``no`` is a string). Anchors and
aliases are refused, since a few lines of them can expand to gigabytes; so are duplicate keys,
tags, and files above 1 MiB.
"""

import re
import textwrap
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from msgspec import Struct
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from netplan.errors import CatalogError
from netplan.files import read_bounded, text_of

# The C parser of libyaml is ten times faster; every PyPI wheel of PyYAML has it.
if TYPE_CHECKING:
    from yaml import SafeLoader as BaseLoader
else:
    BaseLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

MAX_BYTES = 1 << 20
MAX_DEPTH = 50
TAG = "tag:yaml.org,2002:"
Location = Sequence[str | int]


class CoreLoader(BaseLoader):
    """A safe loader with the scalars of YAML 1.2 instead of 1.1."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - the library's own class attribute


# YAML 1.2.2, section 10.3.2: the plain scalars that are not strings.
for _kind, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+", list("-+0123456789")),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
):
    CoreLoader.add_implicit_resolver(TAG + _kind, re.compile(f"(?:{_pattern})$"), _first)
CoreLoader.add_constructor(TAG + "int", lambda _loader, node: int(node.value))
PLAIN_TAGS = {TAG + kind for kind in ("map", "seq", "str", "int", "float", "bool", "null")}


class Document(Struct, frozen=True):
    """One parsed YAML file.

    Parameters
    ----------
    path
        The file.
    data
        Its content: plain dicts, lists, strings, numbers.
    root
        The syntax tree, which knows the line of every value.
    """

    path: Path
    data: dict[str, Any]
    root: Node

    def line(self, location: Location) -> int:
        """Line of a value, counted from 1; of its nearest parent if the value is missing."""
        node, line = self.root, _line(self.root)
        for step in location:
            child = _child(node, step)
            if child is None:
                break
            key, node = child
            line = _line(key)
        return line


class Lineless(Document, frozen=True):
    """A document whose values have no lines of their own."""

    def line(self, location: Location) -> int:  # noqa: ARG002 - all are on one
        """The first line, of every value."""
        return 1


def lineless(path: Path, data: dict[str, Any]) -> Document:
    """What stands for a file in another format, with the keys of a record."""
    return Lineless(path, data, MappingNode(f"{TAG}map", []))


def read_yaml(path: Path) -> Document:
    """Read a YAML file whose top is a mapping.

    Raises
    ------
    CatalogError
        If the file cannot be read, is too large, is not YAML, holds anchors, aliases, tags or
        duplicate keys, or is not a mapping. The message starts with the file and the line.
    """
    return _document(path, _text(path))


def _text(path: Path) -> str:
    return text_of(path, read_bounded(path, MAX_BYTES, "no catalog file is so large"))


def folded(path: Path, width: int) -> str:
    """The text of a YAML file, its lines folded where they are wider than ``width`` columns.

    A file that would then say something else, or is not sound, stays as it is.
    """
    text = _text(path)
    narrow = "\n".join(part for line in text.split("\n") for part in _fold(line, width))
    try:
        same = _document(path, narrow).data == _document(path, text).data
    except CatalogError:
        return text
    return narrow if same else text


def _fold(line: str, width: int) -> list[str]:
    """One line in as many as its width asks for; a remark goes before the value that it is on."""
    if len(line) <= width:
        return [line]
    indent = line[: len(line) - len(line.lstrip(" -"))]
    value, remarked, remark = line.partition(" # ")
    if remarked and value.strip():
        blank = " " * len(indent)
        return [*_fold(f"{blank}# {remark}", width), *_fold(value.rstrip(), width)]
    after = " " * len(indent) + ("# " if line.startswith(f"{indent}#") else "  ")
    wrapped = textwrap.TextWrapper(
        width, subsequent_indent=after, break_long_words=False, break_on_hyphens=False
    )
    return wrapped.wrap(line)


def _document(path: Path, text: str) -> Document:
    try:
        _refuse_anchors_and_depth(path, text)
        loader = CoreLoader(text)
        try:
            root, second = (loader.get_node() if loader.check_node() else None for _ in range(2))
            if second is not None:
                at = f"{path}:{_line(second)}"
                raise CatalogError(f"{at}: a second document: put each into a file of its own")
            if not isinstance(root, MappingNode):
                raise CatalogError(f"{path}:1: expected a mapping of keys to values")
            _refuse_tricks(path, root)
            data = loader.construct_document(root)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise CatalogError(f"{path}:{line}: {error.problem or 'not valid YAML'}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise CatalogError(f"{path}:1: not valid YAML: {str(error).splitlines()[0]}") from None
    return Document(path, data, root)


def read_yaml_value(text: str) -> object:
    """Read one YAML 1.2 value, as given on the command line: a scalar, ``[...]`` or ``{...}``.

    What is no such value, or has anchors, tags or a key twice, is a text.

    Examples
    --------
    >>> [read_yaml_value(text) for text in ("96e9", "no", "true", "[1, 5]", "{kind: ring}")]
    [96000000000.0, 'no', True, [1, 5], {'kind': 'ring'}]
    >>> read_yaml_value("[1, 5"), read_yaml_value("[&a 1, *a]")
    ('[1, 5', '[&a 1, *a]')
    """
    path = Path("value")
    try:
        if not text.lstrip().startswith(("[", "{")):
            # Nothing but a scalar is built from other texts, a list of lines is none.
            *_, first = islice(yaml.parse(text, CoreLoader), 3)
            if not isinstance(first, yaml.ScalarEvent):
                return text
        _refuse_anchors_and_depth(path, text)  # thousands of brackets overflow the parser's stack
        root = yaml.compose(text, CoreLoader)
        if root is not None:
            _refuse_tricks(path, root)
        value = yaml.load(text, CoreLoader)  # noqa: S506 - CoreLoader is a safe loader
    except (yaml.YAMLError, ValueError, CatalogError):
        return text
    return value if isinstance(value, (int, float, str, bool, list, dict)) else text


def _refuse_anchors_and_depth(path: Path, text: str) -> None:
    """Look at the events first: they come one by one, before anything is built from them."""
    depth = 0
    for event in yaml.parse(text, CoreLoader):
        if getattr(event, "anchor", None):
            where = f"{path}:{_line(event)}"
            raise CatalogError(f"{where}: anchors and aliases (& and *) are not allowed")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            where = f"{path}:{_line(event)}"
            raise CatalogError(f"{where}: nested too deeply: at most {MAX_DEPTH} levels")


def _refuse_tricks(path: Path, root: Node) -> None:
    """Walk the syntax tree: plain tags only, no key twice."""
    pending = [root]
    while pending:
        node = pending.pop()
        if node.tag not in PLAIN_TAGS:
            raise CatalogError(f"{path}:{_line(node)}: tags such as {node.tag} are not allowed")
        if isinstance(node, MappingNode):
            seen = set()
            for key, value in node.value:
                if not isinstance(key, ScalarNode):
                    raise CatalogError(f"{path}:{_line(key)}: a key is a plain word")
                if key.value in seen:
                    raise CatalogError(f"{path}:{_line(key)}: key {key.value} stands twice")
                seen.add(key.value)
                pending += (key, value)
        elif isinstance(node, SequenceNode):
            pending += node.value


def _line(node: Node | yaml.Event) -> int:
    mark = node.start_mark
    return int(mark.line) + 1 if mark else 1


def _child(node: Node, step: str | int) -> tuple[Node, Node] | None:
    """Key node and value node of one step into the tree (a list item is its own key)."""
    if isinstance(node, MappingNode):
        return next((pair for pair in node.value if pair[0].value == str(step)), None)
    if isinstance(node, SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step], node.value[step]
    return None
