"""A user's own risk groups, from a YAML or CSV file.

YAML has the kind, so that ``chassis=2`` draws two of them, and the groups with their members; a
group that is more or less likely to fail than others has a weight besides::

    kind: chassis
    groups:
      chassis-1: [gpu-0, gpu-1, "rail-0/leaf-0"]
      chassis-2: {members: [domain-1, "gpu-9:1--rail-1/leaf-0:2"], weight: 3}

CSV has the header ``group,member`` or ``group,member,weight`` and one membership a line; the kind
is the name of the file. Members are parts by name, groups that the graph or the hall show included.
"""

from collections.abc import Iterator
from math import isfinite
from pathlib import Path

import numpy as np
from msgspec import Struct

from netplan.arrays import Ints
from netplan.documents import Document, read_yaml
from netplan.errors import CatalogError, NetplanError
from netplan.faults.groups import RiskGroups, listed
from netplan.faults.inventory import Inventory, PartNames, Parts
from netplan.faults.scenario import MAX_CHARACTERS, csv_rows
from netplan.files import read_lines

CSV_HEADER = ("group", "member", "weight")
MAX_MEMBERS = 1_000_000


class Membership(Struct, frozen=True):
    """A line of a file: group, member (empty for a group's weight alone), weight or None."""

    line: int
    group: str
    member: str
    weight: float | None = None


def read_risk_groups(path: Path, inventory: Inventory) -> RiskGroups:
    r"""Read groups from a YAML or CSV file, by its ending.

    Parameters
    ----------
    path
        The file.
    inventory
        The parts of the fabric.

    Raises
    ------
    CatalogError
        If the file is malformed, a member is unknown, or a group has no members or two weights:
        file and line.

    Examples
    --------
    >>> import tempfile
    >>> from netplan import Scenario
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=1024, radix=32)
    >>> graph = scenario.fabric("rail-only").graph()
    >>> path = Path(tempfile.mkdtemp()) / "chassis.csv"
    >>> _ = path.write_text("group,member\nleft,domain-0\nleft,rail-0/leaf-0\nright,gpu-9:1\n")
    >>> groups = read_risk_groups(path, Inventory(graph))
    >>> groups.kind, groups.names, len(groups.node), len(groups.link)
    ('chassis', ('left', 'right'), 10, 1)
    """
    if path.suffix.lower() == ".csv":
        kind, lines = path.stem, list(_csv_lines(path))
    else:
        kind, lines = _yaml_lines(path)
    if not lines:
        raise CatalogError(f"{path}:1: the file holds no groups")
    if len(lines) > MAX_MEMBERS:
        raise CatalogError(f"{path}:1: more than {MAX_MEMBERS:,} members: split the file")
    if not kind or not kind.isprintable() or "=" in kind or len(kind) > MAX_CHARACTERS:
        raise CatalogError(f"{path}:1: {kind!r:.40} cannot be a kind of groups: give a plain word")
    return _groups(path, kind, lines, inventory)


def _groups(path: Path, kind: str, lines: list[Membership], inventory: Inventory) -> RiskGroups:
    """Look the members up."""
    names = PartNames(inventory)
    parts: dict[str, list[Parts]] = {}
    weights: dict[str, float] = {}
    for one in lines:
        found = parts.setdefault(one.group, [])
        if one.weight is not None and weights.setdefault(one.group, one.weight) != one.weight:
            raise CatalogError(f"{path}:{one.line}: group {one.group[:60]!r} has two weights")
        if one.member:
            try:
                found.append(names.find(one.member))
            except NetplanError as error:
                raise CatalogError(f"{path}:{one.line}: {error}") from None
    members: list[tuple[Ints, Ints]] = []
    for name, found in parts.items():
        if not found:
            line = next(one.line for one in lines if one.group == name)
            raise CatalogError(f"{path}:{line}: group {name[:60]!r} has no members: name some")
        damage = inventory.damage(found)
        members.append((np.flatnonzero(damage.node_down), np.flatnonzero(damage.link_down)))
    nodes, links = zip(*members, strict=True)
    weight = np.array([weights.get(name, 1.0) for name in parts]) if weights else None
    return RiskGroups(kind, tuple(parts), *listed(nodes), *listed(links), weight)


def _csv_lines(path: Path) -> Iterator[Membership]:
    """Memberships of a CSV file."""
    for line, cells in csv_rows(path, read_lines(path), CSV_HEADER, CSV_HEADER[:2]):
        group, member, *rest = cells
        weight = _weight(path, line, rest[0]) if rest and rest[0] else None
        yield _membership(path, line, group, member, weight)


def _yaml_lines(path: Path) -> tuple[str, list[Membership]]:
    """Kind and memberships of a YAML file."""
    document = read_yaml(path)
    for key in document.data:
        if key not in ("kind", "groups"):
            line = document.line([key])
            raise CatalogError(f"{path}:{line}: unknown key {key!r:.40}: known are kind, groups")
    kind, groups = document.data.get("kind"), document.data.get("groups")
    if not isinstance(kind, str):
        raise CatalogError(f"{path}:{document.line(['kind'])}: kind: give a word, such as chassis")
    if not isinstance(groups, dict) or not groups:
        raise CatalogError(f"{path}:{document.line(['groups'])}: groups: name some, with members")
    return kind, [one for name in groups for one in _yaml_group(document, name)]


def _yaml_group(document: Document, name: object) -> Iterator[Membership]:
    """Memberships of one group of a YAML file."""
    path, value = document.path, document.data["groups"][name]
    line = document.line(["groups", str(name)])
    location: list[str | int] = ["groups", str(name)]
    if isinstance(value, dict):
        if unknown := set(value) - {"members", "weight"}:
            key = min(map(str, unknown))
            raise CatalogError(f"{path}:{line}: unknown key {key!r:.40}: known: members, weight")
        if value.get("weight") is not None:
            weight = _weight(path, line, value["weight"])
            yield _membership(path, line, str(name), "", weight)
        value, location = value.get("members"), [*location, "members"]
    if not isinstance(value, list) or not value:
        raise CatalogError(f"{path}:{line}: group {str(name)[:60]!r} has no members: name some")
    for place, member in enumerate(value):
        here = document.line([*location, place])
        if not isinstance(member, str):
            raise CatalogError(f"{path}:{here}: got {member!r:.40}, give the name of a part")
        yield _membership(path, here, str(name), member.strip(), None)


def _membership(path: Path, line: int, group: str, member: str, weight: float | None) -> Membership:
    for text in (group, member):
        if len(text) > MAX_CHARACTERS or not text.isprintable():
            raise CatalogError(f"{path}:{line}: {text[:40]!r} cannot be a name: use plain text")
    if not group or (not member and weight is None):
        raise CatalogError(f"{path}:{line}: a group or a member is empty: name it")
    return Membership(line, group, member, weight)


def _weight(path: Path, line: int, value: object) -> float:
    """A weight: any number from 0 on."""
    try:
        weight = float(value) if isinstance(value, (str, int, float)) else -1.0
    except ValueError:
        weight = -1.0
    if not (isfinite(weight) and weight >= 0):
        raise CatalogError(f"{path}:{line}: weight: got {value!r:.40}, give a number from 0 on")
    return weight
