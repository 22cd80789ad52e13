"""The questions as tools of a program: what each takes, as a JSON schema, and its bounded answer.

Inputs and what these mean are made from the question classes, as the options of the command line
are. An answer comes as the text that a terminal shows, and as the JSON of the command.
"""

import json
from collections.abc import Mapping
from typing import Any

from netplan.cli.questions import QUESTION_COMMANDS
from netplan.errors import InputError
from netplan.inputs.option import Option
from netplan.reports.answer import Answer
from netplan.scenarios.scenario import DEFAULT, PARTS, Part
from netplan.setup.asking import facts_of, question_class
from netplan.setup.own_inputs import SCENARIO
from netplan.setup.question import Question

WIDTH = 100
"""Columns of an answer's text."""
MAX_JSON_BYTES, MAX_TEXT = 1 << 16, 1 << 15
"""Longest JSON of an answer that is sent [B], and longest text [signs]: more would fill the memory
of whoever asked. A comparison of nine fabrics takes 24 kB."""
PART_HELP: dict[Part, str] = {
    "cluster": "Inputs of what is bought, such as gpus, accelerator, radix, fabrics.",
    "workload": "kind (training or serving) and its inputs, such as model, batch, precision.",
    "books": "What is counted with, such as prices, power, failures.",
}
"""What stands in each part of an inline scenario, by the names of the inputs."""
NUMBER_KINDS = (
    *("real", "ratio", "quotient", "percent", "size", "batch", "whole-or-auto"),
    *("power", "power-or-share", "percent-or-cooling"),
)
PARTS_SCHEMA = {part: {"type": "object", "description": PART_HELP[part]} for part in PARTS}
SCENARIO_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"type": "string"},
        {"type": "object", "properties": PARTS_SCHEMA, "additionalProperties": False},
    ],
    "description": (
        "Cluster, workload and books of the question: a shipped name (catalog_list, role scenario),"
        " a file, or its parts inline; what these leave out is that of the default. Other inputs"
        f" stand in place of single ones of it. [default: {DEFAULT}]"
    ),
}
"""How a tool is told its scenario."""


def schema_of(question: type[Question[Any]]) -> dict[str, Any]:
    """JSON schema of a question's inputs.

    Examples
    --------
    >>> from netplan.questions.compare import Compare
    >>> made = schema_of(Compare)
    >>> made["required"], made["properties"]["gpus"]["minimum"]
    ([], 1)
    """
    known = question.inputs_known()
    properties: dict[str, Any] = {}
    for given in known:
        if given.name == SCENARIO:
            properties[given.name] = SCENARIO_SCHEMA
            continue
        made, option = _type_of(given.option), given.option
        if option.many or option.values > 1:
            made = {"type": "array", "items": made}
        about = f"{option.help}{facts_of(question, given)}"
        properties[given.name] = made | {"description": about}
    return {
        "type": "object",
        "properties": properties,
        "required": [given.name for given in known if given.needed],
        "additionalProperties": False,
    }


def _type_of(option: Option) -> dict[str, Any]:
    """Schema of one value of an input."""
    ends = {"minimum": option.low, "maximum": option.high}
    if option.kind == "whole":
        return {"type": "integer", **{key: end for key, end in ends.items() if end is not None}}
    if option.kind in NUMBER_KINDS:
        return {"type": ["number", "string"]}  # 3:1, 7%, 512MiB and 0.25/gpu are texts
    if option.kind == "flag":
        return {"type": "boolean"}
    if option.kind == "choice":
        return {"type": "string", "enum": [*option.choices]}
    if option.kind in ("settings", "numbers", "amounts", "changes"):
        return {"type": "object", "additionalProperties": {"type": ["string", "number"]}}
    return {"type": "string"}


def question_of(tool: str) -> type[Question[Any]]:
    """The class of a tool's question.

    Parameters
    ----------
    tool
        Its command, with underscores between words.

    Raises
    ------
    InputError
        If there is no such tool.

    Examples
    --------
    >>> question_of("compare").command
    'compare'
    """
    if tool not in QUESTION_COMMANDS:
        raise InputError(f"no tool {tool!r:.40}: known: {', '.join(QUESTION_COMMANDS)}")
    return question_class(tool)


def answered(tool: str, given: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Ask the question of a tool; its answer as text and as JSON, no longer than can be sent.

    Raises
    ------
    NetplanError
        If an input is not known or not allowed.

    Examples
    --------
    >>> text, data = answered("collective", {"kind": "all_gather", "gpus": 64,
    ...                                      "message_bytes": "1MiB"})
    >>> data["inputs"]["gpus"]
    64
    """
    question = question_of(tool)
    missing = [name for name in schema_of(question)["required"] if given.get(name) is None]
    if missing:
        raise InputError(f"{tool} needs {' and '.join(missing)}")
    asked: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if isinstance(settings := asked.get("overrides"), dict):  # texts, as a command line has them
        asked["overrides"] = {
            key: text if isinstance(text, str) else json.dumps(text)
            for key, text in settings.items()
        }
    for name, value in asked.items():
        if not is_text(value):
            raise InputError(f"{name}: half of a surrogate pair is no text")
    answer: Answer = question.make(**asked).answer()
    return bounded(answer.text(WIDTH), answer.to_dict())


def bounded(text: str, data: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """An answer of a length that can be sent: its longest parts go, and are named.

    Parameters
    ----------
    text
        What a terminal shows; its lines beyond :data:`MAX_TEXT` signs go.
    data
        The JSON; its longest values go until :data:`MAX_JSON_BYTES` hold the rest.

    Examples
    --------
    >>> bounded("drawn", {"links": 64, "svg": "<svg>" + 70_000 * " "})[1]
    {'links': 64, 'left_out_bytes': {'svg': 70007}}
    """
    if len(text) > MAX_TEXT:
        kept = text[:MAX_TEXT].rpartition("\n")[0]
        rest = text.count("\n") - kept.count("\n") - 1
        text = f"{kept}\n... {rest:,} more lines: ask for less, or run the command.\n"
    sizes = {name: len(json.dumps(value, default=str)) for name, value in data.items()}
    left_out: dict[str, int] = {}
    total = sum(sizes.values())
    for name in sorted(sizes, key=sizes.__getitem__, reverse=True):
        if total <= MAX_JSON_BYTES:
            break
        left_out[name], total = sizes[name], total - sizes[name]
    if not left_out:
        return text, data
    names = ", ".join(left_out)
    text = (
        f"{text}\nToo long for the JSON, and left out: {names}: ask for less, or run the command.\n"
    )
    kept_data = {name: value for name, value in data.items() if name not in left_out}
    return text, kept_data | {"left_out_bytes": left_out}


def is_text(value: object) -> bool:
    """Whether all texts of a value can be written as UTF-8.

    Parameters
    ----------
    value
        Anything that JSON may hold: its keys and texts at any depth count.

    Examples
    --------
    >>> is_text({"model": ["gpt-1t", None]}), is_text({"model": ["\\ud800"]})
    (True, False)
    """
    try:
        json.dumps(value, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        return False
    return True
