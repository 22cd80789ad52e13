"""Reading YAML files that nobody has vouched for: safe, bounded, with the line of every value.

YAML 1.2 (``1e9`` is a number, ``no`` is a string). Anchors and aliases are refused, since a few
lines of them can expand to gigabytes; so are duplicate keys, tags, and files above 1 MiB.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

from netplan.errors import CatalogError

MAX_BYTES = 1 << 20
Location = Sequence[str | int]


@dataclass(frozen=True, slots=True)
class Document:
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
        node = self.root
        line = int(node.start_mark.line) + 1
        for step in location:
            child = _child(node, step)
            if child is None:
                break
            key, node = child
            line = int(key.start_mark.line) + 1
        return line


def read_yaml(path: Path) -> Document:
    """Read a YAML file whose top is a mapping.

    Raises
    ------
    CatalogError
        If the file cannot be read, is too large, is not YAML, holds anchors, aliases, tags or
        duplicate keys, or is not a mapping. The message starts with the file and the line.
    """
    text = _read_text(path)
    yaml = YAML(typ="safe", pure=True)
    try:
        root = yaml.compose(text)
        if not isinstance(root, MappingNode):
            raise CatalogError(f"{path}:1: expected a mapping of keys to values")
        _refuse_tricks(path, root)
        data = yaml.constructor.construct_document(root)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        problem = (error.problem or "not valid YAML").splitlines()[0]
        raise CatalogError(f"{path}:{line}: {problem}") from None
    except (YAMLError, ValueError) as error:
        raise CatalogError(f"{path}:1: not valid YAML: {str(error).splitlines()[0]}") from None
    except RecursionError:
        raise CatalogError(f"{path}:1: nested too deeply") from None
    return Document(path, data, root)


def read_scalar(text: str) -> object:
    """Read one YAML 1.2 value, as given on the command line.

    Examples
    --------
    >>> read_scalar("96e9"), read_scalar("no"), read_scalar("true")
    (96000000000.0, 'no', True)
    """
    try:
        node = YAML(typ="safe", pure=True).load(text)
    except (YAMLError, ValueError, RecursionError):
        return text
    return node if isinstance(node, (int, float, str, bool)) else text


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise CatalogError(f"{path}: cannot be read: {error.strerror}") from None
    if len(content) > MAX_BYTES:
        raise CatalogError(f"{path}: larger than 1 MiB, which no catalog file is")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise CatalogError(f"{path}:{line}: not UTF-8 text: save the file as UTF-8") from None


def _refuse_tricks(path: Path, root: Node) -> None:
    """Walk the syntax tree once; shared nodes (aliases) carry an anchor and stop the walk."""
    pending = [root]
    while pending:
        node = pending.pop()
        if node.anchor:
            line = node.start_mark.line + 1
            raise CatalogError(f"{path}:{line}: anchors and aliases (& and *) are not allowed")
        if not str(node.tag).startswith("tag:yaml.org,2002:"):
            line = node.start_mark.line + 1
            raise CatalogError(f"{path}:{line}: tags such as {node.tag} are not allowed")
        if isinstance(node, MappingNode):
            pending += [part for pair in node.value for part in pair]
        elif isinstance(node, SequenceNode):
            pending += node.value


def _child(node: Node, step: str | int) -> tuple[Node, Node] | None:
    """Key node and value node of one step into the tree (a list item is its own key)."""
    if isinstance(node, MappingNode):
        return next((pair for pair in node.value if pair[0].value == str(step)), None)
    if isinstance(node, SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step], node.value[step]
    return None
