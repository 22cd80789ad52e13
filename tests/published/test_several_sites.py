"""Rows of jobs over several sites: every one recorded, and none better than what was read."""

from netplan.published.checks import record
from netplan.published.several_sites import several_sites_checks


def test_every_row_is_recorded_as_what_its_source_lets_it_be() -> None:
    rows = [*several_sites_checks()]
    assert len(rows) == 8
    for row in rows:
        recorded = record()[row.name, row.source]
        assert recorded.suite == "several sites"
        assert row.grade == recorded.grade
        assert (row.verdict, bool(row.reason)) == ("known", True)
