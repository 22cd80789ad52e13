"""One page of everything that can be said: keys of a scenario, and what each question adds.

It stands in the checkout, so that pages have something to link to where no site was built; a test
writes it anew and compares.
"""

from collections.abc import Iterator
from typing import Any

from docs.generators.commands import questions
from docs.generators.tables import code, markdown, table
from netplan.cli.main import COMMANDS
from netplan.scenarios.scenario import Part, all_places
from netplan.setup.asking import facts_of, summary_of
from netplan.setup.own_inputs import Input
from netplan.setup.question import Question

PAGE = "reference/inputs.md"
"""Where it stands below `docs/`."""
HEADS = ("key", "flag", "meaning")
INTRODUCTION = """# Everything that you can say

A question is about a *scenario*: a cluster, its workload, and the books that it is counted with. A
scenario is one YAML file. Every key of it is a flag of the commands and a keyword of the Python
functions, too; these replace a single value.

<!-- file: cluster.yaml -->
```yaml
cluster: {gpus: 8192, accelerator: h200, radix: 64}
workload: {kind: training, model: llama-3-405b}
books: {prices: "2026"}
```

```bash
netplan compare cluster.yaml --gpus 16Ki
```

What a file leaves out is as in `hgx-b200`, the scenario of every command that names none.
`netplan catalog list scenario` lists those that are shipped, `netplan init hgx-b200 -o mine.yml`
writes a commented file to start from. A question takes what it has a use for:
`netplan compare --help-all` lists it. Flags may be written `16k` (16,000), `16Ki` (16,384) and
`1M`. This page is made from the code.
"""
PARTS: tuple[tuple[str, str, Part], ...] = (
    ("Cluster", "training", "cluster"),
    ("Workload: training", "training", "workload"),
    ("Workload: serving", "serving", "workload"),
    ("Books", "training", "books"),
)


def inputs_page() -> str:
    """The page."""
    return "\n".join(_page())


def _page() -> Iterator[str]:
    yield INTRODUCTION
    for title, workload, part in PARTS:
        known = {name: place for name, place in all_places(workload).items() if place.part == part}
        yield f"## {title}\n"
        yield table(
            HEADS,
            (
                _row(".".join(place.path), Input(name, place.option, place.default))
                for name, place in known.items()
            ),
        )
    yield "## What a question adds\n"
    yield (
        "Every question takes `--catalog DIR`, a folder of your own files that go before ours, and"
        " `--set ROLE.KEY=VALUE`, which replaces one value of a file; `--format`, `-o FILE` and"
        " `--details` say how the answer is shown.\n"
    )
    for name, question in sorted(questions().items()):
        yield from _question(name, question)
    yield "### Other commands\n"
    alone = {name.partition(" ")[0] for name in questions()}
    rows = [(code(f"netplan {name}"), markdown(COMMANDS[name])) for name in COMMANDS]
    yield table(
        ("command", "does"), [row for row in rows if row[0].strip("`").split()[1] not in alone]
    )


def _question(name: str, question: type[Question[Any]]) -> Iterator[str]:
    """A question: what it answers, its own inputs, and what it takes several of."""
    yield f"### netplan {name}\n"
    yield markdown(summary_of(question).partition("\n\n")[0]) + "\n"
    own = [
        one
        for one in question.inputs_known()
        if one.group == "question" and one.option.role == "input"
    ]
    if own:
        yield table(HEADS, (_row(one.name, one, question) for one in own))
    if question.varies:
        flags = [
            code(one.option.flag_of(one.name))
            for one in question.inputs_known()
            if one.name in question.varies
        ]
        yield f"May be given several times: {', '.join(flags)}.\n"


def _row(key: str, known: Input, question: type[Question[Any]] = Question) -> list[str]:
    """Row of an input: its key or keyword, its flag, what it means."""
    option = known.option
    flag = "" if option.argument else option.flag_of(known.name)
    older = dict.fromkeys(f"--{alias.replace('_', '-')}" for alias in option.aliases)
    names = " ".join(map(code, [flag, *(one for one in older if one != flag)]))
    facts = facts_of(question, known).strip(" []")
    said = markdown(option.help) + (f" *{markdown(facts)}*" if facts else "")
    return [code(key), names, said]
