"""A user's own risk groups, from a YAML or CSV file.

YAML has the kind, so that ``chassis=2`` draws two of them, and the groups with their members; a
group that is more or less likely to fail than others has a weight besides::

    kind: chassis
    groups:
      chassis-1: [gpu-0, gpu-1, "rail-0/leaf-0"]
      chassis-2: {members: [domain-1, "gpu-9:1--rail-1/leaf-0:2"], weight: 3}

CSV has the header ``group,member`` or ``group,member,weight`` and one membership a line; the kind
is the name of the file. Members are parts by name, groups that the graph or the hall show included.

Failure scenarios: which parts fail, by name or so many at random.

=============================  ===============================================================
``gpu-5``, ``domain-7``, …     a part or a group, by name (`netplan.faults.damage.inventory`)
``links=10``                   ten parts of a kind at random, all alike; groups with weights are
                               drawn by weight
``gpu=0.1%``                   a share of the parts of a kind, rounded to the nearest number
``transceiver=gpu-5:1``        a part of this kind, where a name alone could be another
``gpu-5:1--leaf-0:6``, …       a link, as exports and cable plans write it
                               (`netplan.faults.damage.inventory`)
``@faults.txt``                all faults of a file
``@incidents.yaml``            one mode of the file, drawn by weight
=============================  ===============================================================

Kinds are those of `netplan.faults.damage.inventory`. Faults of a scenario come together: named ones
first, then the draws in their order, each from the parts that have not failed by themselves so far.

Files of faults are bounded, plain text, with lines in errors, since nobody has vouched for them. A
text file has one fault a line, as on the command line; empty lines and all after ``#`` are left
out. A CSV file has the header ``kind,what``: ``leaf,2`` is ``leaf=2``, and ``,gpu-5`` is ``gpu-5``.
A YAML file has modes of failure; each draw of the scenario takes one of them by its weight::

    modes:
      link: {weight: 7, faults: [link=1]}
      server: {weight: 1, faults: [domain=1, "link=2"]}
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from math import isfinite
from pathlib import Path

import numpy as np
from msgspec import Struct

from netplan.arrays import Floats, Ints
from netplan.documents import Document, read_yaml
from netplan.errors import CatalogError, InputError, NetplanError
from netplan.faults.damage.damage import Damage
from netplan.faults.damage.groups import RiskGroups, group_pairs
from netplan.faults.damage.inventory import Inventory, PartKind, PartNames, Parts, plain_link
from netplan.files import csv_rows, read_lines
from netplan.inputs.readers import number_or_nan
from netplan.topologies.graph import FabricGraph

CSV_HEADER = ("kind", "what")
MAX_LINES = 100_000
MAX_CHARACTERS = 400
"""Of one fault: two device names of a label, and a little."""


FaultText = tuple[str, str]
"""A fault as written, and where: ``file:3: `` or nothing."""


def read_fault_file(path: Path) -> tuple[FaultText, ...]:
    r"""Read a file of faults; by its ending, CSV or plain text.

    Raises
    ------
    CatalogError
        If the file cannot be read, is too large or is not UTF-8, or a line cannot be a fault: file
        and line.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "faults.txt"
    >>> _ = path.write_text("links=10  # at random\n\nrail-0/leaf-3\n")
    >>> [text for text, _ in read_fault_file(path)]
    ['links=10', 'rail-0/leaf-3']
    """
    lines = read_lines(path)
    if len(lines) > MAX_LINES:
        raise CatalogError(f"{path}:{MAX_LINES + 1}: more than {MAX_LINES:,} lines: split the file")
    if path.suffix.lower() == ".csv":
        rows = table_rows(path, lines, CSV_HEADER)
        faults = [(number, f"{kind}={what}" if kind else what) for number, (kind, what) in rows]
    else:
        texts = ((number, line.partition("#")[0].strip()) for number, line in enumerate(lines, 1))
        faults = [(number, text) for number, text in texts if text]
    for number, text in faults:
        if len(text) > MAX_CHARACTERS or not text.isprintable():
            raise CatalogError(
                f"{path}:{number}: {text[:40]!r} cannot be a fault: printable text of at most"
                f" {MAX_CHARACTERS} characters, such as gpu-5 or links=10"
            )
        if text.startswith("@"):
            raise CatalogError(
                f"{path}:{number}: a file of faults names no other file: got {text!r:.60}"
            )
    if not faults:
        raise CatalogError(f"{path}:1: the file names no faults")
    return tuple((text, f"{path}:{number}: ") for number, text in faults)


def table_rows(
    path: Path, lines: Sequence[str], *headers: tuple[str, ...]
) -> Iterator[tuple[int, list[str]]]:
    """Lines and cells of a CSV file; a second header leaves out the last column of the first.

    Raises
    ------
    CatalogError
        If the header is none of these, or a line has other fields or is not CSV: file and line.
    """
    reader = csv_rows(path, lines)
    header = tuple(cell.strip() for cell in next(reader, (1, []))[1])
    if header not in headers:
        optional = ", the last one if needed" if len(headers) > 1 else ""
        raise CatalogError(
            f"{path}:1: the header is {','.join(headers[0])}{optional}, got"
            f" {','.join(header)[:60]!r}"
        )
    for line, cells in reader:
        if not any(cells):
            continue
        if len(cells) != len(header):
            raise CatalogError(f"{path}:{line}: expected {len(header)} fields, got {len(cells)}")
        yield line, [cell.strip() for cell in cells]


COUNT = re.compile(r"[-+]?[0-9][0-9,_]*")
SHARE = re.compile(r"([-+]?[0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]{1,2})?)%")
MAX_DIGITS = 15


class FaultDraw(Struct, frozen=True):
    """So many parts of a kind at random; ``fault`` says as what this was asked, and where."""

    kind: PartKind
    count: int
    fault: FaultText


class FaultScenario(Struct, frozen=True, eq=False):
    """Faults that come together.

    Parameters
    ----------
    inventory
        The parts of the fabric.
    named
        Parts that fail for certain.
    draws
        Parts that fail at random.
    modes
        Sets of modes, with the chance of each [1], together 1; of each set one mode fails.
    """

    inventory: Inventory
    named: tuple[Parts, ...] = ()
    draws: tuple[FaultDraw, ...] = ()
    modes: "tuple[tuple[tuple[float, ...], tuple[FaultScenario, ...]], ...]" = ()

    @property
    def random(self) -> bool:
        """Whether one draw may differ from the next."""
        return bool(self.draws or self.modes)

    def parts(self, rng: np.random.Generator) -> tuple[Parts, ...]:
        """Parts that fail, with the random ones drawn.

        Raises
        ------
        InputError
            If more parts of a kind are drawn than are left.
        """
        failed = list(self.named)
        for draw in self.draws:
            failed.append(Parts(draw.kind, _pick(draw, failed, rng)))
        for chances, scenarios in self.modes:
            mode = scenarios[int(rng.choice(len(chances), p=np.array(chances)))]
            failed += mode.parts(rng)
        return tuple(failed)

    def damage(self, rng: np.random.Generator) -> Damage:
        """Damage of one draw; errors as :meth:`parts`."""
        return self.inventory.damage(self.parts(rng))


def read_scenario(faults: Iterable[str], inventory: Inventory) -> FaultScenario:
    """Read faults as written; named parts are looked up, random ones are left to be drawn.

    Parameters
    ----------
    faults
        One fault each, as in the table of this module.
    inventory
        The parts of the fabric.

    Raises
    ------
    NetplanError
        If a fault cannot be read, a part is unknown, or more parts fail than there are. The message
        is one line; for a fault from a file it begins with file and line.

    Examples
    --------
    >>> import netplan
    >>> cluster = netplan.Scenario.load("hgx-h100").replace(gpus=1024, radix=32)
    >>> graph = cluster.fabric("rail-only").graph()
    >>> scenario = read_scenario(["gpu-5", "leaves=2", "gpu=0.1%"], Inventory(graph))
    >>> [(draw.kind.name, draw.count) for draw in scenario.draws]
    [('leaf', 2), ('gpu', 1)]
    >>> int(scenario.damage(np.random.default_rng(0)).node_down.sum())
    4
    """
    names = PartNames(inventory)
    named: list[Parts] = []
    draws: list[FaultDraw] = []
    texts = [fault.strip() for fault in faults]
    modes = tuple(_read_modes(Path(text[1:]), inventory) for text in texts if _is_modes(text))
    for text, where in _all_texts(text for text in texts if not _is_modes(text)):
        left, equals, right = (part.strip() for part in plain_link(text).partition("="))
        try:
            kind = inventory.kind(left) if equals else None
            count = _count(text, right, kind) if kind else None
            if kind and count is not None:
                draws.append(FaultDraw(kind, count, (text, where)))
            else:
                named.append(names.find(right if kind else left, kind))
        except NetplanError as error:
            if not where:
                raise
            raise CatalogError(f"{where}{error}") from None
    return FaultScenario(inventory, tuple(named), tuple(draws), modes)


def _is_modes(text: str) -> bool:
    """Whether a fault is a file of weighted modes."""
    return text.startswith("@") and text.lower().endswith((".yaml", ".yml"))


def _read_modes(
    path: Path, inventory: Inventory
) -> tuple[tuple[float, ...], tuple[FaultScenario, ...]]:
    """Read a YAML file of weighted modes.

    Raises
    ------
    CatalogError
        If the file is malformed, a weight is negative or all are 0, or a fault is wrong: file and
        line.
    """
    document = read_yaml(path)
    data, line = document.data.get("modes"), document.line(["modes"])
    if set(document.data) != {"modes"} or not isinstance(data, dict) or not data:
        raise CatalogError(f"{path}:{line}: give modes, each with a weight and faults, and no more")
    weights: list[float] = []
    scenarios: list[FaultScenario] = []
    for name, mode in data.items():
        here = f"{path}:{document.line(['modes', name])}: mode {name!r:.40}"
        if not isinstance(mode, dict) or set(mode) != {"weight", "faults"}:
            raise CatalogError(f"{here} needs both a weight and faults, and nothing else")
        weight, faults = mode["weight"], mode["faults"]
        if not isinstance(weight, int | float) or not (isfinite(weight) and weight >= 0):
            raise CatalogError(f"{here}: got weight {weight!r:.40}, give a number from 0 on")
        if not isinstance(faults, list) or not faults:
            raise CatalogError(f"{here}: faults: give a list, such as [link=1]")
        texts = [str(fault) for fault in faults]
        if any(text.strip().startswith("@") for text in texts):
            raise CatalogError(f"{here}: a file of faults names no other file")
        try:
            scenarios.append(read_scenario(texts, inventory))
        except NetplanError as error:
            raise CatalogError(f"{here}: {error}") from None
        weights.append(weight)
    total = sum(weights)
    if total <= 0:
        raise CatalogError(f"{path}:{line}: give a mode whose weight is above 0")
    return tuple(weight / total for weight in weights), tuple(scenarios)


def parse_faults(
    faults: Iterable[str],
    graph: FabricGraph,
    *,
    groups: Sequence[RiskGroups] = (),
    rng: np.random.Generator | None = None,
) -> Damage:
    """Damage of some faults.

    Parameters
    ----------
    faults
        One fault each, as in the table of this module.
    graph
        The fabric.
    groups
        Risk groups besides those of the graph: racks, feeds, trays, a user's own.
    rng
        Draws the random parts; None takes a generator with seed 0.

    Raises
    ------
    NetplanError
        As :func:`read_scenario`.

    Examples
    --------
    >>> import netplan
    >>> cluster = netplan.Scenario.load("hgx-h100").replace(gpus=1024, radix=32)
    >>> graph = cluster.fabric("rail-only").graph()
    >>> damage = parse_faults(["gpu-0:1--rail-0/leaf-0:1", "links=10"], graph)
    >>> int(damage.link_down.sum()), int(damage.node_down.sum())
    (11, 0)
    """
    scenario = read_scenario(faults, Inventory(graph, tuple(groups)))
    return scenario.damage(np.random.default_rng(0) if rng is None else rng)


def _all_texts(faults: Iterable[str]) -> Iterable[FaultText]:
    """Faults one by one, those of files among them."""
    for text in faults:
        if text[:1] == "@" and text != "@":
            yield from read_fault_file(Path(text[1:]))
        elif text in ("", "@") or len(text) > MAX_CHARACTERS or not text.isprintable():
            raise InputError(
                f"{text[:40]!r} is no fault: name a part, such as gpu-5, or a number of parts,"
                " such as links=10"
            )
        else:
            yield text, ""


def _count(text: str, what: str, kind: PartKind) -> int | None:
    """Number of parts that a fault asks for; None if it names one."""
    there, least = len(kind.numbers), 0
    share = SHARE.fullmatch(what)
    if share:
        percent = float(share[1])
        if not 0 <= percent <= 100:  # noqa: PLR2004 - a share of all
            raise InputError(f"{text!r:.60}: a share is out of range: give 0% to 100%")
        count = int(there * percent / 100 + 0.5)
        least = 1 if percent else 0
    elif COUNT.fullmatch(what) and len(what) <= MAX_DIGITS:
        count = int(what.replace(",", "").replace("_", ""))
    elif not what or what[0] in "+-.0123456789":
        raise InputError(
            f"{text!r:.60}: give a whole number of parts, a share such as 0.1%, or a name"
        )
    else:
        return None
    if least <= count <= there:
        return count
    if count < least == 1:
        raise InputError(f"{text!r:.60}: that is less than one of {there:,}: give a whole number")
    raise InputError(
        f"{text!r:.60}: the fabric has {there:,} of kind {kind.name}, give 0 to {there:,}"
    )


def _pick(draw: FaultDraw, failed: Sequence[Parts], rng: np.random.Generator) -> Ints:
    """FaultDraw parts that have not failed by themselves so far."""
    kind = draw.kind
    # A leaf is a switch, but a port and the transceiver in it are two parts.
    taken = [
        parts.numbers
        for parts in failed
        if parts.kind.space == kind.space
        and parts.kind.groups is kind.groups
        and (kind.space != "end" or parts.kind.name == kind.name)
    ]
    pool = kind.numbers
    if any(len(numbers) for numbers in taken):
        pool = pool[~np.isin(pool, np.concatenate(taken))]
    chance: Floats | None = None
    if kind.groups is not None and kind.groups.weight is not None:
        weight = kind.groups.weight[pool]
        pool, weight = pool[weight > 0], weight[weight > 0]
        chance = weight / weight.sum() if len(pool) else None
    if draw.count > len(pool):
        text, where = draw.fault
        raise InputError(
            f"{where}{text!r:.60}: only {len(pool):,} of {len(kind.numbers):,}"
            f" of kind {kind.name} are left to fail: give at most {len(pool):,}"
        )
    return np.sort(rng.choice(pool, draw.count, replace=False, p=chance))


GROUP_HEADER = ("group", "member", "weight")
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
        kind, lines = path.stem, []
        for line, cells in table_rows(path, read_lines(path), GROUP_HEADER, GROUP_HEADER[:2]):
            group, member, *rest = cells
            weight = _weight(path, line, rest[0]) if rest and rest[0] else None
            lines.append(_membership(path, line, group, member, weight))
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
    for row in lines:
        listed_parts = parts.setdefault(row.group, [])
        if row.weight is not None and weights.setdefault(row.group, row.weight) != row.weight:
            raise CatalogError(f"{path}:{row.line}: group {row.group[:60]!r} has two weights")
        if row.member:
            try:
                listed_parts.append(names.find(row.member))
            except NetplanError as error:
                raise CatalogError(f"{path}:{row.line}: {error}") from None
    members: list[tuple[Ints, Ints]] = []
    for name, listed_parts in parts.items():
        if not listed_parts:
            line = next(row.line for row in lines if row.group == name)
            raise CatalogError(f"{path}:{line}: group {name[:60]!r} has no members: name some")
        damage = inventory.damage(listed_parts)
        members.append((np.flatnonzero(damage.node_down), np.flatnonzero(damage.link_down)))
    nodes, links = zip(*members, strict=True)
    weight = np.array([weights.get(name, 1.0) for name in parts]) if weights else None
    return RiskGroups(kind, tuple(parts), *group_pairs(nodes), *group_pairs(links), weight)


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
    return kind, [row for name in groups for row in _yaml_group(document, name)]


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
    weight = number_or_nan(value)
    if not (isfinite(weight) and weight >= 0):
        raise CatalogError(f"{path}:{line}: weight: got {value!r:.40}, give a number from 0 on")
    return weight
