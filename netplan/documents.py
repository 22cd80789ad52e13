"""Reading YAML files that nobody has vouched for: safe, bounded, with the line of every value.

Scalars follow the core schema of YAML 1.2 (``1e9`` is a number, ``no`` is a string). Anchors and
aliases are refused, since a few lines of them can expand to gigabytes; so are duplicate keys,
tags, and files above 1 MiB.

Data are made from the events of the parser, one by one, as long as nothing is out of the ordinary;
the syntax tree is made where something is, and where somebody asks for a line.
"""

import re
import textwrap
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import yaml
from msgspec import Struct
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from netplan.errors import CatalogError, piece
from netplan.files import read_bounded, text_of
from netplan.records import Entry, RecordError

# The C parser of libyaml is ten times faster; every PyPI wheel of PyYAML has it.
if TYPE_CHECKING:
    from yaml import SafeLoader as BaseLoader
else:
    BaseLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

MAX_BYTES = 1 << 20
MAX_DEPTH = 50
TOO_DEEP = f"nested too deeply: at most {MAX_DEPTH} levels"
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
PLAIN: dict[str, Callable[[str], object]] = {
    TAG + "null": lambda _: None,
    TAG + "bool": lambda text: text.lower() == "true",
    TAG + "int": int,
    TAG + "float": float,  # which refuses those that are not finite: the loader knows them
}
"""How plain scalars that are no strings are read."""

PLAIN_TAGS = {TAG + kind for kind in ("map", "seq", "str", "int", "float", "bool", "null")}


EntryT = TypeVar("EntryT", bound=Entry)


class Document(Struct, frozen=True):
    """One parsed YAML file.

    Parameters
    ----------
    path
        The file.
    data
        Its content: plain dicts, lists, strings, numbers.
    text
        The same as it is written, which knows the line of every value.
    """

    path: Path
    data: dict[str, Any]
    text: str

    def line(self, location: Location) -> int:
        """Line of a value, counted from 1; of its nearest parent if the value is missing."""
        node = _tree(self.text)
        line = _line(node)
        for step in location:
            child = _child(node, step)
            if child is None:
                break
            key, node = child
            line = _line(key)
        return line

    def entry(self, kind: type[EntryT]) -> EntryT:
        """The content as an entry.

        Raises
        ------
        CatalogError
            If it is none: all its faults, each with file and line.
        """
        try:
            return kind.read(self.data)
        except RecordError as error:
            lines = (f"{self.path}:{self.line(keys)}: {text}" for keys, text in error.faults)
            raise CatalogError(*lines) from None


def lineless(path: Path, data: dict[str, Any]) -> Document:
    """What stands for a file in another format, with the keys of a record, all on one line."""
    return Document(path, data, text="")


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


def folded_yaml(path: Path, width: int) -> str:
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
    data = _ordinary(text)
    return Document(path, _careful(path, text) if data is None else data, text)


class _UnusualError(Exception):
    """What only the careful way tells."""


def _ordinary(text: str) -> dict[str, Any] | None:
    """Data of a text that holds one mapping; None if there is anything to say against it."""
    loader = CoreLoader(text)
    try:
        following: Callable[[], Any] = loader.get_event
        following(), following()  # beginnings of the stream and the document
        data = _value(following, following(), MAX_DEPTH)
        following()  # the end of the document
        alone = type(following()) is yaml.StreamEndEvent
    except (yaml.YAMLError, ValueError, _UnusualError):
        return None
    finally:
        loader.dispose()
    return data if alone and isinstance(data, dict) else None


def _value(following: Callable[[], Any], event: object, depth: int) -> object:
    """The value that begins with an event, of at most so many levels."""
    kind = type(event)
    if kind is yaml.ScalarEvent:
        return _scalar(event)
    if not depth or kind not in (yaml.MappingStartEvent, yaml.SequenceStartEvent):
        raise _UnusualError
    if event.anchor or event.tag:  # type: ignore[attr-defined]  # events have no types
        raise _UnusualError
    if kind is yaml.SequenceStartEvent:
        items = []
        while type(inner := following()) is not yaml.SequenceEndEvent:
            items.append(_value(following, inner, depth - 1))
        return items
    mapping: dict[object, object] = {}
    seen: set[str] = set()
    while type(key := following()) is not yaml.MappingEndEvent:
        if type(key) is not yaml.ScalarEvent or key.value in seen:
            raise _UnusualError
        seen.add(key.value)
        mapping[_scalar(key)] = _value(following, following(), depth - 1)
    return mapping


def _scalar(event: Any) -> object:  # noqa: ANN401 - events have no types
    """A scalar by the core schema, as the loader makes it."""
    if event.anchor or event.tag:
        raise _UnusualError
    text: str = event.value
    if event.implicit[0]:
        for tag, pattern in CoreLoader.yaml_implicit_resolvers.get(text[:1], ()):
            if pattern.match(text):
                return PLAIN[tag](text)
    return text


@lru_cache(maxsize=8)
def _tree(text: str) -> Node:
    """The syntax tree of a text, which knows the line of every value."""
    return yaml.compose(text, CoreLoader) or MappingNode(f"{TAG}map", [])


def _careful(path: Path, text: str) -> dict[str, Any]:
    """Data of a text that may have something wrong with it, of which the line is told."""
    try:
        _refuse_anchors_and_depth(path, text)
        loader = CoreLoader(text)
        try:
            root, second = (loader.get_node() if loader.check_node() else None for _ in range(2))
            if second is not None:
                place = f"{path}:{_line(second)}"
                raise CatalogError(f"{place}: a second document: put each into a file of its own")
            if not isinstance(root, MappingNode):
                raise CatalogError(f"{path}:1: expected a mapping of keys to values")
            _refuse_tricks(path, root)
            data: dict[str, Any] = loader.construct_document(root)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        problem = error.problem or "not valid YAML"
        # Newer parsers have a bound of their own, and reach it before ours is looked at.
        problem = TOO_DEEP if "maximum nesting depth" in problem else problem
        raise CatalogError(f"{path}:{line}: {problem}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise CatalogError(
            f"{path}:1: not valid YAML: {piece(str(error).splitlines()[0])}"
        ) from None
    return data


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
            raise CatalogError(f"{where}: {TOO_DEEP}")


def _refuse_tricks(path: Path, root: Node) -> None:
    """Walk the syntax tree: plain tags only, no key twice."""
    pending = [root]
    while pending:
        node = pending.pop()
        if node.tag not in PLAIN_TAGS:
            raise CatalogError(
                f"{path}:{_line(node)}: tags such as {piece(node.tag)} are not allowed"
            )
        if isinstance(node, MappingNode):
            seen = set()
            for key, value in node.value:
                if not isinstance(key, ScalarNode):
                    raise CatalogError(f"{path}:{_line(key)}: a key is a plain word")
                if key.value in seen:
                    raise CatalogError(f"{path}:{_line(key)}: key {piece(key.value)} stands twice")
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
