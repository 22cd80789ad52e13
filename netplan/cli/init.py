"""``netplan init``: a scenario as a file to start from."""

from inspect import cleandoc
from pathlib import Path

import click
from msgspec import to_builtins

from netplan.catalog import SUFFIX
from netplan.cli.commands import PathName, Strict, text
from netplan.cli.completion import completer_of
from netplan.cli.output import emit, say
from netplan.documents import read_yaml_value
from netplan.errors import InputError
from netplan.files import check_place, write_atomically
from netplan.inputs.readers import read_changes
from netplan.records import RecordError
from netplan.scenarios.scenario import DEFAULT, PARTS, Scenario, plain_name
from netplan.scenarios.template import commented

ENDINGS = (SUFFIX, ".yml")


def _init(
    scenario: str,
    output_file: Path | None,
    changes: tuple[str, ...],
    catalog: str | None,
    *,
    force: bool,
) -> None:
    """Write a scenario as a commented YAML file: what to buy, what runs on it, the books.

    Fields that people change most stand with their values, all others as remarks with their
    defaults. Every command takes the file in place of a scenario's name.

    \b
    Examples:
      netplan init -o cluster.yaml
      netplan init nvl72-gb200 --set gpus=8064 --set radix=64 -o cluster.yaml
    """
    chosen = _changed(Scenario.load(scenario, catalog), changes)
    if output_file is None or output_file == Path("-"):
        emit(commented(chosen), None)
        say(f"next: netplan init {scenario} -o cluster.yaml; netplan compare cluster.yaml")
        return
    if output_file.suffix not in ENDINGS:
        raise InputError(f"-o {output_file}: a scenario's file ends with {' or '.join(ENDINGS)}")
    check_place(output_file)
    if output_file.exists() and not force:
        raise InputError(f"{output_file} exists: give --force to replace it, or another name")
    write_atomically(output_file, commented(chosen, output_file.stem).encode())
    say(f"wrote {output_file}")
    say(f"next: netplan compare {output_file}")


def _changed(scenario: Scenario, changes: tuple[str, ...]) -> Scenario:
    """The scenario with other values of some inputs, and of catalog files.

    Raises
    ------
    InputError
        If there is no such input, or a value is out of its range.
    """
    given = read_changes("--set", changes)
    records = [name for name in given if "." in name and name.partition(".")[0] not in PARTS]
    settings: dict[str, str | float | bool] = {}
    for name in records:
        text = str(given.pop(name))
        value = read_yaml_value(text)  # a list or mapping stays its text
        settings[name] = value if isinstance(value, (float, int, bool)) else text
    inputs = {plain_name(name, scenario.kind): value for name, value in given.items()}
    changed = scenario.replace(**inputs)
    changed = changed.changed(set={**changed.set, **settings})
    if changes:
        changed = changed.changed(title=f"{scenario.title}, with {', '.join(changes)}")
    try:
        return Scenario.read(to_builtins(changed))
    except RecordError as error:
        raise InputError(f"--set {error}") from None


command = Strict(
    "init",
    callback=_init,
    params=[
        click.Argument(
            ["scenario"], type=text, default=DEFAULT, shell_complete=completer_of("scenario")
        ),
        click.Option(
            ["-o", "--output-file", "output_file"],
            type=PathName(path_type=Path),
            metavar="FILE",
            help="Write to a file, such as cluster.yaml; else to stdout.",
        ),
        click.Option(["--force"], is_flag=True, help="Replace a file that is there."),
        click.Option(
            ["--set", "changes"],
            multiple=True,
            metavar="NAME=VALUE",
            help="With another value of a field, or of a catalog file (repeatable).",
            shell_complete=completer_of("changes"),
        ),
        click.Option(["--catalog"], metavar="DIR", help="Your own catalog folder."),
    ],
    help=cleandoc(_init.__doc__ or ""),
    short_help="Write a scenario as a commented YAML file.",
)
