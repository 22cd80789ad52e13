"""``netplan verify``: the list of its checks is true, and only what is asked for runs."""

import csv
import os
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import ceil
from pathlib import Path

import pytest

from docs.generators.verified import counted, verified_page
from netplan.errors import InputError
from netplan.published import verify as published_verify
from netplan.published.checks import CLOSE, Check, Recorded, record
from netplan.published.verify import Verification, verify
from netplan.records import asdict, replace

LIST = Path(__file__).parents[2] / "reports" / "published" / "checks.csv"


Suites = Mapping[str, Callable[[], tuple[Check, ...]]]


def test_every_check_stands_in_the_list_of_its_suite(suites: Suites) -> None:
    rows = [(suite, one) for suite, run in suites.items() for one in run()]
    if "NETPLAN_UPDATE_GOLDEN" in os.environ:
        with LIST.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, Recorded.__struct_fields__, lineterminator="\n")
            writer.writeheader()
            writer.writerows(_recorded(*row) for row in rows)
    with LIST.open(encoding="utf-8", newline="") as file:
        known = [(row["suite"], row["name"], row["source"]) for row in csv.DictReader(file)]
    found = [(suite, one.name, one.source) for suite, one in rows]
    assert known == found  # else NETPLAN_UPDATE_GOLDEN=1


def _recorded(suite: str, one: Check) -> dict[str, object]:
    """What is recorded of a row; of a new one, what it looks like, for a person to judge."""
    recorded = record().get((one.name, one.source))
    if recorded is not None:
        return asdict(replace(recorded, suite=suite))
    far = one.gap is not None and one.grade != "exact"
    error = CLOSE if one.grade == "close" else ceil(1000 * abs(one.gap or 0)) / 1000
    window = error if far else None
    return asdict(Recorded(suite, one.name, one.source, one.grade, window))


def test_only_what_is_asked_for_runs(suites: Suites, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = verify()
    ran: list[str] = []

    def watched(suite: str) -> Iterator[Check]:
        ran.append(suite)
        yield from suites[suite]()

    spies = {suite: partial(watched, suite) for suite in suites}
    monkeypatch.setattr(published_verify, "SUITES", spies)
    # A table, a name, a design, and a paper that two suites check.
    for text, needed in (
        ("table 2", ["rail-only"]),
        ("average path", ["paths"]),
        ("Frontier (", ["bandwidth", "designs"]),
        ("2307.12169, section", ["rail-only", "faults"]),
    ):
        ran.clear()
        found = verify(only=text)
        asked = [one for one in whole.checks if text.lower() in f"{one.name}\n{one.source}".lower()]
        assert list(found.checks) == asked != []
        assert ran == needed
    ran.clear()
    found = verify(grade="off", only="BLOOM-L72-h14336-a64-tp8-pp6-mb6")
    assert [one.name for one in found.checks] == ["BLOOM-L72-h14336-a64-tp8-pp6-mb6-b2016-02-25, s"]
    assert ran == ["measured runs"]
    found = verify(only=("2307.12169", "Eq. 20 | rail-only & Eq. 21"))
    assert sorted(check.source.rpartition(", ")[2] for check in found.checks) == [
        "Eq. 20",
        "Eq. 21",
    ]
    ran.clear()
    with pytest.raises(InputError, match="no check has this"):
        verify(only="no such check")
    assert not ran


def test_sources_close_their_parentheses() -> None:
    for row in record().values():
        paper = Verification((Check(row.name, row.source, "1", "1", "pass"),))
        for source in (row.source, *paper.papers):
            assert source.count("(") == source.count(")"), source


@pytest.mark.usefixtures("suites")
def test_the_documentation_has_the_table_of_today() -> None:
    found = verify()
    assert not found.failed
    page = LIST.parents[2] / "docs/background/verified.md"
    now = verified_page(found)
    if os.environ.get("NETPLAN_UPDATE_GOLDEN"):
        page.write_text(now, encoding="utf-8")
    assert page.read_text(encoding="utf-8") == now
    readme = LIST.parents[2] / "README.md"
    text = readme.read_text(encoding="utf-8")
    counts = re.compile(r"(checked by `netplan verify`: ).*?( \(\[which, and why\])")
    renewed = counts.sub(rf"\g<1>{counted(found)}\g<2>", text)
    if os.environ.get("NETPLAN_UPDATE_GOLDEN"):
        readme.write_text(renewed, encoding="utf-8")
    assert counts.search(text)
    assert readme.read_text(encoding="utf-8") == renewed


def test_the_verdict_and_what_differs_come_first() -> None:
    checks = (
        Check("leaves", "Paper A, Table 1", "4", "4", "pass"),
        Check("spines", "Paper A, Table 1", "2", "3", "fail"),
        Check(
            "cores", "Paper B, Fig. 2", "1", "2", "known", "the figure rounds", "off", 1.0, "two"
        ),
    )
    found = Verification(checks)
    assert (found.count("pass"), found.count("known"), found.exit_code) == (1, 1, 1)
    lines = found.text(80, details=True).splitlines()
    said = "1 exact, 0 close, 0 trend, 1 off, 0 source; 1 fail."
    assert lines.count(said) == 2
    assert (lines[2], lines[-1]) == (said, said)
    order = [lines.index(one) for one in ("Fails", "Off: netplan's model", "Paper A", "Paper B")]
    assert order == sorted(order)
    assert "Fig. 2, cores: the figure rounds." in lines[: lines.index("Paper A")]
