"""Formats of the catalog files: every key of every record, made from the structs that check them.

What a key means is said once, in the README of its folder (a row of a table, or a line that names
it) or in the docstring of its struct; this finds it there.
"""

import csv
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from msgspec import NODEFAULT, Meta, Struct, structs

from docs.generators.tables import Pages, code, markdown, table
from netplan.catalog import Catalog, Record, shipped_root
from netplan.inputs.option import Option
from netplan.questions.shelves import all_shelves
from netplan.reports.quantities import words
from netplan.studies.definition import STUDIES
from netplan.topologies.specs import FAMILIES, FabricSpec, families_of, family_named

FOLDERS = ("traffic", "topologies", "costing", "reports")
PLAIN = {str: "text", int: "whole number", float: "number", bool: "true or false"}
BOUNDS = {"gt": "above", "ge": "from", "lt": "below", "le": "to"}
FILLED_IN = {("FabricSpec", "stamp")}
HEADS = ("key", "takes", "meaning")
SECTIONS = {
    "model": ("models",),
    "accelerator": ("accelerators", "kernels"),
    "stack": ("stacks",),
    "serving-stack": ("serving-stacks",),
    "expert-skew": ("expert-skews",),
    "iteration-model": ("iteration-models",),
    "calibration": ("calibrations",),
    "kernels": ("kernels",),
    "memory": ("memories and links",),
    "link": ("links", "memories and links"),
    "fabric": ("Keys",),
    "design": ("Keys", "Keys of counted designs"),
    "scenario": ("Scenarios",),
    "floor-plan": ("Floor plans",),
    "network": ("Networks beside",),
    "prices": ("Prices and power",),
    "power": ("Prices and power",),
    "switch": ("Switches",),
    "cabling": ("Cabling",),
    "economics": ("Economics",),
    "failures": ("Failures",),
    "study": ("Studies",),
    "report": ("Reports",),
}
"""Sections of a folder's README that tell of the files of a role."""
EVERY_FILE = {
    "name": "Name of the record, that of its file without `.yaml`.",
    "aliases": "Other names by which the record is found.",
    "title": "One line for people.",
    "source": "Where the numbers are from.",
    "date": "Of the numbers: a year, a month or a day.",
    "notes": "What answers say beside the record.",
    "sources": "Where single values are from, by key.",
    "family": "Which kind of record the file is.",
    "low": "Low end of the range, in the unit of the row.",
    "high": "High end of the range, in the unit of the row.",
    "base": "The value that is taken, in the unit of the row.",
    "unit": "Unit of the values of the row.",
    "confidence": "How sure the value is.",
    "evidence": "What it is made of: shipping, announced, rumoured, derived or assumed.",
    "derived": "Keys whose values follow from others.",
    "assumed": "Keys whose values no source states.",
}


def catalog_pages() -> Pages:
    """One page a folder of catalogs: its README; and one page of keys for every role."""
    made = {f"files/{folder}.md": _readme(folder) for folder in FOLDERS}
    roles = {}
    for role, shelf in _shelves().items():
        roles[role] = f"files/keys-{role}.md"
        made[roles[role]] = "\n".join(_keys_page(role, shelf)) + "\n"
    return {"files/index.md": _index(_shelves()), **made}


def _shelves() -> dict[str, Catalog[Any]]:
    return dict(sorted({**all_shelves(), STUDIES.role: STUDIES}.items()))


def _index(shelves: dict[str, Catalog[Any]]) -> str:
    rows = [
        (f"[{role}](keys-{role}.md)", code(f"{one.folder}/"), str(len(one.paths())))
        for role, one in shelves.items()
    ]
    names = [*FOLDERS, *(f"keys-{role}" for role in shelves)]
    toc = "\n".join(["", "```{toctree}", ":hidden:", "", *names, "```", ""])
    return INDEX + table(["role", "folder", "files shipped"], rows) + toc


INDEX = """# Catalog files

All that netplan knows of the world stands in YAML files that you can read, replace and add to. Four
pages tell what each folder holds, file by file: [traffic](traffic.md), [topologies](topologies.md),
[costing](costing.md) and [reports](reports.md). One page a role lists every key of its files, made
from the types that check them; unknown keys are errors, named with file and line.

`netplan catalog show NAME` prints a shipped file, which is the best start for one of your own, and
`netplan catalog check FILE` says all that is wrong with one. Your own files lie in a folder of the
same layout, named by `--catalog DIR` or `NETPLAN_CATALOG`, or are given by their path.

"""


def _readme(folder: str) -> str:
    """README of a folder, its links to files outside of the documentation as plain names."""
    text = (shipped_root() / folder / "README.md").read_text(encoding="utf-8")

    def plain(found: re.Match[str]) -> str:
        said, target = found[1], found[2]
        if target.startswith(("http", "#")):
            return found[0]
        other = re.fullmatch(r"\.\./(\w+)/README\.md(#.*)?", target)
        if other and other[1] in FOLDERS:
            return f"[{said}]({other[1]}.md{other[2] or ''})"
        return said if said.startswith("`") else f"{said} (`{target.removeprefix('../')}`)"

    return _levelled(re.sub(r"\[([^\]]*)\]\(([^)\s]*)\)", plain, text))


def _levelled(text: str) -> str:
    r"""Headings none of which is more than one level below the one before, as pages need them.

    Examples
    --------
    >>> _levelled("# a\n### b\n### c\n")
    '# a\n## b\n## c\n'
    """
    lines, taken = [], {0: 0}
    for line in text.splitlines(keepends=True):
        written = len(line) - len(line.lstrip("#")) if re.match(r"#+ ", line) else 0
        if written:
            taken = {level: at for level, at in taken.items() if level < written}
            taken[written] = max(taken.values()) + 1
        lines.append("#" * taken.get(written, 0) + line[written:])
    return "".join(lines)


def _keys_page(role: str, shelf: Catalog[Any]) -> Iterator[str]:
    """Every key of a role's files: of the record, then of what stands inside it."""
    yield f"# Keys: {role}\n"
    folder = shelf.folder.partition("/")[0]
    names = ", ".join(map(code, shelf.paths()))
    yield f"Files of `{shelf.folder}/`; what they hold is told in [{folder}]({folder}.md)."
    yield f"Shipped: {names}.\n"
    kinds = _kinds(shelf)
    for kind in kinds:
        if len(kinds) > 1:
            yield f"## {_title(kind)}\n"
        yield from _struct(kind, role, folder)
    for one in _inside(kinds):
        yield f"## {_title(one)}\n"
        yield from _struct(one, role, folder)


def _kinds(shelf: Catalog[Any]) -> list[type[Struct]]:
    """Types of a shelf's shipped records; most shelves have one."""
    records = [shelf.load(name) for name in shelf.paths()]
    # Families of fabrics share a page, which says who reads which key.
    found = {FabricSpec if isinstance(one, FabricSpec) else type(one) for one in records}
    found.discard(Record)
    return sorted(found, key=lambda kind: (kind is not shelf.schema, kind.__name__))


def _inside(kinds: list[type[Struct]]) -> list[type[Struct]]:
    """All structs inside others, each once, in the order of the keys."""
    found: list[type[Struct]] = []
    left = list(kinds)
    while left:
        for field in _fields(left.pop(0)):
            for one in _structs(field.type):
                if one not in found and one not in kinds:
                    found.append(one)
                    left.append(one)
    return found


def _structs(kind: Any) -> Iterator[type[Struct]]:  # noqa: ANN401 - types are values here
    if isinstance(kind, type) and issubclass(kind, Struct):
        yield kind
    for one in get_args(kind):
        yield from _structs(one)


def _title(kind: type[Struct]) -> str:
    """Name of a struct in words.

    Examples
    --------
    >>> from netplan.workloads.accelerators import TrainingRates
    >>> _title(TrainingRates)
    'Training rates'
    """
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind.__name__)
    return apart[:1] + apart[1:].lower()


def _struct(kind: type[Struct], role: str, folder: str) -> Iterator[str]:
    """Its docstring, and a row a key."""
    yield markdown(_said(kind)) + "\n"
    rows = [
        (code(one.encode_name), _takes(one), _meaning(one, kind, role, folder))
        for one in _fields(kind)
    ]
    yield table(HEADS, rows) if rows else ""
    if kind is FabricSpec:
        yield from _families()


def _families() -> Iterator[str]:
    """A row a family: the keys that it reads beside those of all families."""
    yield "\n## Keys of each family\n"
    told = {one.encode_name: families_of(one.encode_name) for one in _fields(FabricSpec)}
    every = [key for key, families in told.items() if len(families) == len(FAMILIES)]
    yield f"Every family reads {', '.join(map(code, every))}. Other keys are refused.\n"
    rows = [
        (
            code(family),
            ", ".join(code(key) for key in told if key not in every and family in told[key]),
        )
        for family in FAMILIES
    ]
    yield table(["family", "keys of its own"], rows)


def _said(kind: type[Struct]) -> str:
    """A docstring up to its first section."""
    text = inspect.getdoc(kind) or ""
    return re.split(r"\n\n(?:Parameters|Examples|Raises|Notes)\n-+", text)[0].strip()


def _type(kind: Any) -> str:  # noqa: ANN401 - types are values here
    """A type in words."""
    inner = [one for one in get_args(kind) if one is not type(None)]
    if inner:
        return _of_several(get_origin(kind), inner)
    if isinstance(kind, type) and issubclass(kind, Struct):
        anchor = _title(kind).lower().replace(" ", "-")
        return f"[{_title(kind).lower()}](#{anchor})"
    return PLAIN.get(kind, getattr(kind, "__name__", str(kind)))


def _of_several(origin: Any, inner: list[Any]) -> str:  # noqa: ANN401 - types are values here
    """A type that is made from others."""
    if origin is Annotated:
        return " ".join([_type(inner[0]), *_bounds(inner[1:])])
    if origin is Literal:
        return ", ".join(code(str(one)) for one in inner)
    if origin is tuple:
        return f"list: {_type(inner[0])}"
    if origin is dict:
        return f"{_type(inner[0])} to {_type(inner[1])}"
    return " or ".join(dict.fromkeys(map(_type, inner)))


def _bounds(metas: list[Any]) -> Iterator[str]:
    for meta in metas:
        if isinstance(meta, Meta):
            for name, word in BOUNDS.items():
                if (bound := getattr(meta, name)) is not None:
                    yield f"{word} {bound:,g}"


def _takes(one: structs.FieldInfo) -> str:
    """Type, unit and default of a key."""
    option = _option(one)
    unit = option.unit if option else words(one.name).unit
    facts = _type(one.type) + (f" [{markdown(unit)}]" if unit else "")
    if one.required:
        return f"{facts}; **required**"
    known = one.default is not NODEFAULT and one.default not in (None, "", (), {})
    if not known or isinstance(one.default, Struct):
        return facts
    default = ", ".join(one.default) if isinstance(one.default, tuple) else str(one.default)
    return f"{facts}; default {code(default)}"


def _option(one: structs.FieldInfo) -> Option | None:
    """What is known of a key that is an input of questions."""
    facts = get_args(one.type) if get_origin(one.type) is Annotated else ()
    return next((fact for fact in facts if isinstance(fact, Option)), None)


@cache
def _told(role: str, folder: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """What the README of a folder says of a role: rows of tables by their keys, and sentences."""
    text = (shipped_root() / folder / "README.md").read_text(encoding="utf-8")
    parts = re.split(r"^#+ ([^:\n]*).*\n", text, flags=re.MULTILINE)
    wanted = SECTIONS.get(role, ())
    mine = "\n".join(
        body for head, body in zip(parts[1::2], parts[2::2], strict=True) if head in wanted
    )
    rows: dict[str, str] = {}
    for row in re.findall(r"^\| (`.*) \|$", mine, re.MULTILINE):
        first, *_, last = re.split(r" \| ", row)
        for key in re.findall(r"`(\w+)`", first):
            rows.setdefault(key, last)
    cells = [row.split(" | ")[-1] for row in re.findall(r"^\| (.*) \|$", mine, re.MULTILINE)]
    prose = [line for line in mine.splitlines() if not line.startswith("|")]
    return rows, tuple(one for text in (*cells, *prose) for one in _sentences(text))


def _meaning(one: structs.FieldInfo, kind: type[Struct], role: str, folder: str) -> str:
    """What a key means; its name in words where nothing more is said."""
    said = _said_of(one, kind, role, folder)
    if said:
        return said
    said = words(one.encode_name).quantity
    return markdown(said[:1].upper() + said[1:] + ".")


def _said_of(one: structs.FieldInfo, kind: type[Struct], role: str, folder: str) -> str:
    """Help of its flag; its row in the README, its sentence in the docstring or the README."""
    if option := _option(one):
        return markdown(
            f"{option.help} Without it: {option.otherwise}." if option.otherwise else option.help
        )
    key = one.encode_name
    rows, sentences = _told(role, folder)
    if key in rows:
        return _without_links(rows[key])
    sentence = _sentence(key, kind)
    if sentence:
        return markdown(sentence)
    if key in EVERY_FILE:
        return EVERY_FILE[key]
    found = _without_links(next((one for one in sentences if f"`{key}`" in one), ""))
    return found or markdown(_elsewhere().get((kind.__name__, key), ""))


@cache
def _elsewhere() -> dict[tuple[str, str], str]:
    """What no README and no docstring says, by struct and key."""
    with Path(__file__).with_name("keys.csv").open(encoding="utf-8", newline="") as file:
        return {(row["struct"], row["key"]): row["meaning"] for row in csv.DictReader(file)}


def _fields(kind: type[Struct]) -> list[structs.FieldInfo]:
    """Keys of a struct, of all families of fabrics; what only a reader fills in is none."""
    kinds = [family_named(name) for name in FAMILIES] if kind is FabricSpec else [kind]
    fields = {one.name: one for each in kinds for one in structs.fields(each)}
    return [one for one in fields.values() if (kind.__name__, one.name) not in FILLED_IN]


def _sentence(key: str, kind: type[Struct]) -> str:
    """The part of a docstring's sentences that names a key, or its paragraph under Parameters."""
    text = inspect.getdoc(kind) or ""
    listed = re.search(rf"^(?:\w+, )*{key}(?:, \w+)*\n    (.*(?:\n    .*)*)", text, re.MULTILINE)
    if listed:
        return " ".join(listed[1].split())
    return next((one for one in _sentences(_said(kind)) if f"``{key}``" in one), "")


def _sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.;])\s+(?=[A-Z`])", " ".join(text.split()))


def _without_links(text: str) -> str:
    return re.sub(r"\[([^\]]*)\]\([^)\s]*\)", r"\1", text)


def missing_meanings() -> list[str]:
    """Keys of which nothing but their name is said: none, if the documentation is whole."""
    left = []
    for role, shelf in _shelves().items():
        folder = shelf.folder.partition("/")[0]
        kinds = _kinds(shelf)
        for kind in (*kinds, *_inside(kinds)):
            left += [
                f"{kind.__name__}.{one.encode_name}"
                for one in _fields(kind)
                if not _said_of(one, kind, role, folder)
            ]
    return sorted(set(left))
