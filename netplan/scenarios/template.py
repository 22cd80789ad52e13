"""A scenario as a file to start from: every field, what it means, and what it is if left out.

Fields that a scenario sets, and the basic ones, stand as they are; all others are remarks with
their defaults, so that a line is set by taking its ``# `` away. The text reads back as the same
scenario.
"""

import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from inspect import cleandoc

from msgspec import Struct, structs

from netplan.documents import read_yaml_value
from netplan.inputs.option import Option
from netplan.records import replace
from netplan.scenarios.described import option_of, range_of
from netplan.scenarios.scenario import PARTS, WORKLOADS, Scenario

WIDTH = 100
"""Columns of the file [1]."""
INDENT, GAPS, NEW_LINE = "  ", "  ", "\n"
PLAIN = re.compile(
    r"(?=[^A-Za-z]*[A-Za-z])(?!(?i:y|n|yes|no|on|off|null|true|false)$)(?!0[xob])"
    r"[A-Za-z0-9][A-Za-z0-9._/+-]*"
)
"""Texts that YAML reads as they are, older versions too, unless it knows them as something else."""
FORMS = {
    "percent": "0.07 is 7 %",
    "ratio": "3 is 3:1",
    "quotient": "3 is 3:1",
    "numbers": "such as {pipeline: 64}",
}
"""How a file writes values of which a command line has another form, by their kind."""
QUOTED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff]")
"""Signs that YAML has only escaped, beside those that JSON escapes."""
TITLES = {
    "cluster": "What is bought: GPUs, HB domains, switches, cards, fabrics.",
    "workload": "What runs on it: kind is {kinds}; fields differ.",
    "books": "What it is counted with: prices, power, cabling, failures, economics.",
}
WORDS = {"fabric": "Fabric of questions about one.", "fabrics": "Fabrics side by side, or [all]."}
"""What fields mean in a file, where a flag has other words for it."""
FIXED_SPACE = "\u00a0"
"""Where a remark is not to be broken."""
THE_SAME = "the economics book's"
"""What several fields in a row say of their defaults."""
SET = "Single values of catalog files that are replaced, by ROLE.KEY (netplan catalog show NAME)."
EXAMPLE_SET = "{accelerator.memory_bytes: 96e9}"


def commented(scenario: Scenario, name: str = "") -> str:
    r"""A scenario as the text of a file to start from.

    Parameters
    ----------
    scenario
        Whose values it has.
    name
        What the file will be called, without its ending; the scenario's own name if empty.

    Returns
    -------
    str
        YAML of at most 100 columns, which reads back as the scenario under that name.

    Examples
    --------
    >>> lines = commented(Scenario.load("hgx-b200")).splitlines()
    >>> print(*lines[6:9], sep="\n")
    cluster:
      gpus: 32768 # GPUs in the cluster. [GPUs; from 1 to 4,194,304]
      accelerator: b200-1000w # On which GPU.
    """
    return "\n".join(_lines(scenario, name or scenario.name)) + "\n"


def _lines(scenario: Scenario, name: str) -> Iterator[str]:
    for key in ("name", "title", "source", "date", "evidence"):
        value = name if key == "name" else getattr(scenario, key) or ""
        if not value and key == "evidence":
            continue
        line = f"{key}: {written(value)}"
        # A line of a quoted text ends where a space was.
        yield from _wrapped(line, INDENT) if " " in value and GAPS not in value else [line]
    kinds = " or ".join(WORKLOADS)
    for part in PARTS:
        yield ""
        yield f"# {TITLES[part].format(kinds=kinds)}"
        yield f"{part}:"
        if part == "workload":
            yield f"{INDENT}kind: {scenario.kind}"
        yield from _part(getattr(scenario, part))
    yield ""
    yield f"# {SET}"
    yield f"set: {written(scenario.set)}" if scenario.set else f"# set: {EXAMPLE_SET}"


def _part(struct: Struct, active: str = INDENT, remark: str = f"{INDENT}# ") -> Iterator[str]:
    """Fields of a part, basic ones first, then parts inside it.

    Lines begin with ``active`` where the scenario says them, else with ``remark``.
    """
    known = [(field, option_of(field.type)) for field in structs.fields(struct)]
    plain = [(field, option) for field, option in known if option is not None]
    for field, option in sorted(plain, key=lambda pair: not pair[1].basic):
        value = getattr(struct, field.name)
        is_set = option.basic or value != field.default
        yield from _field(active if is_set else remark, field, option, value)
    for field, input_ in known:
        if input_ is None:
            inner, about = getattr(struct, field.name), cleandoc(field.type.__doc__ or "")
            is_set = inner != field.default
            yield f"{active if is_set else remark}{field.name}: # {about.partition(NEW_LINE)[0]}"
            within = (active + INDENT, f"{active}{INDENT}# ") if is_set else (remark + INDENT,) * 2
            yield from _part(inner, *within)


def _field(start: str, field: structs.FieldInfo, option: Option, value: object) -> Iterator[str]:
    """One field with what it means, behind it or, where there is no room, above it."""
    line, about = f"{start}{field.name}: {written(value)}", meaning(field, option, value)
    if len(line) + len(about) + len(" # ") <= WIDTH:
        yield f"{line} # {about.replace(FIXED_SPACE, ' ')}"
        return
    above = f"{start.removesuffix('# ')}# "
    yield from (part.replace(FIXED_SPACE, " ") for part in _wrapped(above + about, above))
    yield from _wrapped(line, start + INDENT) if isinstance(value, tuple) else [line]


def _wrapped(text: str, indent: str) -> list[str]:
    """A text in lines of the file's width, which begin alike behind the first one."""
    return textwrap.wrap(
        text, WIDTH, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )


def meaning(field: structs.FieldInfo, option: Option, value: object) -> str:
    """What a field is: its help, unit, range and choices, and what holds if it says nothing.

    Parameters
    ----------
    field, option
        The field, and what is known of it.
    value
        Its value; a default that stands beside it is not said again.

    Returns
    -------
    str
        One line.
    """
    low, high = range_of(field.type)
    ranged = replace(
        option,
        unit=FORMS.get(option.kind, option.unit),
        low=low if option.low is None else option.low,
        high=high if option.high is None else option.high,
    )
    default = option.otherwise or (option.shown(field.default) if value != field.default else "")
    default = THE_SAME if default == "the same" else default
    words = WORDS.get(field.name, option.help.replace(" (repeatable)", ""))
    words = re.sub(r", (such )?as [0-9a-z=:%]+\.$", ".", words)
    off = "If false: " if option.flag.startswith("--no-") else ""
    facts = ranged.facts("" if field.name in WORDS else default)
    glued = f"{FIXED_SPACE}default:{FIXED_SPACE}"
    return f"{off}{words}{facts.replace(' default: ', glued)}"


def written(value: object) -> str:
    """A value as YAML on one line, which reads back as itself.

    Parameters
    ----------
    value
        Nothing, a number, a text, or a sequence or mapping of such.

    Returns
    -------
    str
        Its text.

    Examples
    --------
    >>> written("2026"), written(None), written(("rail-only", "no")), written({"tensor": 8})
    ('"2026"', 'null', '[rail-only, "no"]', '{tensor: 8}')
    """
    if isinstance(value, Mapping):
        return (
            f"{{{', '.join(f'{written(key)}: {written(inner)}' for key, inner in value.items())}}}"
        )
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(written, value))}]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (int, float)):
        return repr(value)
    text = str(value)
    if PLAIN.fullmatch(text) and read_yaml_value(text) == text:
        return text
    return QUOTED.sub(lambda sign: f"\\u{ord(sign[0]):04x}", json.dumps(text, ensure_ascii=False))
