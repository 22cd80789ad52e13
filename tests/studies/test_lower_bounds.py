"""No study holds a partial sum without a mark: all shipped ones, with prices taken out of the book.

What has no price is looked up in the answers themselves, by a walk of this file's own.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import netplan
from netplan.costing.prices import PRICE_BOOKS
from netplan.studies.answer import study_answer
from netplan.studies.definition import STUDIES
from netplan.studies.lower_bounds import LOWER_BOUNDS, OF_POWER, bounds_of, counts_money, is_money
from netplan.studies.points import attempt
from netplan.studies.questions import point_answer
from netplan.studies.sessions import study
from netplan.studies.study import Study
from tests.studies.shipped import LONG, marked

PRICED = {
    *("clusters", "dataflow-design-space", "hb-gear-price", "hb-size", "optics-and-planes"),
    "post-training-sync",
    *("price-flip", "radix-and-size", "topology-design-space"),
}
"""Shipped studies that ask for money."""

TAKEN = ("switch_port", "switch", "transceiver", "hb_gear")


VARIED = {"price-flip": "transceiver", "hb-gear-price": "hb_gear"}
"""Parts whose price a study varies: they stay."""


def bare_catalog(folder: Path, study_name: str) -> Path:
    """A book of 2026 without the prices of switches, modules and gear inside HB domains."""
    path = folder / "costing" / "prices" / "2026.yaml"
    path.parent.mkdir(parents=True)
    book = PRICE_BOOKS.load("2026").to_dict()
    gone = {*TAKEN} - {VARIED.get(study_name)}
    book["prices"] = [
        {key: value for key, value in row.items() if value or key == "base"}
        for row in book["prices"]
        if row["part"] not in gone
    ]
    path.write_text(json.dumps(book), encoding="utf-8")  # JSON is YAML, too
    return folder


def lacking(data: object) -> Iterator[dict[str, Any]]:
    """Mappings anywhere in an answer that say that parts have no price."""
    if isinstance(data, dict):
        of_sums = ("cost_complete", "network_cost_complete", "step_cost_complete")
        whole = [data.get(name) for name in of_sums]
        if data.get("unpriced") or False in whole:
            yield data
        for value in data.values():
            yield from lacking(value)
    if isinstance(data, list):
        for value in data:
            yield from lacking(value)


def unpowered(data: object) -> bool:
    """Whether an answer says anywhere that parts of a network have no power."""
    if isinstance(data, dict):
        return data.get("power_complete") is False or any(map(unpowered, data.values()))
    return isinstance(data, list) and any(map(unpowered, data))


def test_these_studies_ask_for_money() -> None:
    every = [STUDIES.load(name) for name in STUDIES.paths()]
    assert {spec.name for spec in every if counts_money(spec)} == PRICED
    for spec in every:
        if spec.bill is not None:
            assert spec.name in PRICED


@pytest.mark.parametrize("name", marked(sorted(PRICED), {*LONG, "optics-and-planes"}))
def test_no_frame_of_a_study_holds_an_unmarked_partial_sum(name: str, tmp_path: Path) -> None:
    catalog = bare_catalog(tmp_path, name)
    asked = Study.load(name, catalog=catalog)
    last = asked.point_count - 1
    points = asked.points(sorted({0, last // 2, last}))
    outcomes = [attempt(asked, point) for point in points]
    frame = study_answer(asked, outcomes).to_frame()
    sums = 0
    for (_, row), point in zip(frame.reset_index().iterrows(), points, strict=True):
        data = point_answer(asked.spec, point.inputs, str(catalog), asked.base)
        named = bounds_of({LOWER_BOUNDS: row.get(LOWER_BOUNDS)})
        bill = data.get("bill") or data
        money = [
            out
            for out in asked.spec.outputs
            if isinstance(out, str) and is_money(out) and row[out] == row[out] and row[out]
        ]
        sums += len(money)
        if any(lacking(bill)):
            # Systems of DFModel are priced by units of their own, whatever the book lacks.
            other = ("system.", "gpu_hour")
            about_bill = [
                out for out in money if not (out.startswith(other) or out.endswith(other))
            ]
            assert set(about_bill) <= set(named), (point, named)
        elif unpowered(bill):
            assert named
            assert not OF_POWER.isdisjoint(".".join(named).split("."))
        else:
            assert not named
    assert sums or name == "radix-and-size"


def test_marks_in_every_form(tmp_path: Path) -> None:
    """Text, CSV, JSON and frame; the formula of a partial sum is one, too."""
    catalog = bare_catalog(tmp_path, "hb-size")
    few: dict[str, Any] = {"model": "llama-3-405b", "hb_size": [8, 72], "gpus": 2304}
    answer = study("hb-size", vary=few, catalog=catalog)
    marked = {"bill.capital.base", "network_usd", "usd_per_iteration", "usd_low", "usd_high"}
    for row in answer.to_dict()["rows"]:
        assert marked <= set(row[LOWER_BOUNDS].split("; "))
        assert "iteration_time_s" not in row[LOWER_BOUNDS]
    assert next(iter(answer.to_frame()[LOWER_BOUNDS])) == answer.rows[0][LOWER_BOUNDS]
    assert LOWER_BOUNDS in answer.csv().splitlines()[0]
    assert "≥" in answer.text()
    assert "(≥)" in answer.text()
    whole = study("hb-size", vary=few)
    assert not any(bounds_of(row) for row in whole.rows)
    assert "≥" not in whole.text()


def test_what_compares_partial_sums_is_marked_on_both_sides(tmp_path: Path) -> None:
    """Relative to HB 8: gear of 72 lacks a price, so the ratio of both does."""
    data = STUDIES.load("hb-gear-price").to_dict()
    data["inputs"] = {
        key: value for key, value in data["inputs"].items() if not key.startswith("prices.")
    } | {"prices": "rail-only-2023", "gpus": 4608}
    data["axes"] = [
        {"input": "model", "values": ["gpt-175b"]},
        {"input": "hb_size", "values": [8, 72]},
    ]
    data["about"], data["answers"], data["charts"], data["titles"] = [], [], [], None

    path = tmp_path / "mine.yaml"
    path.write_text(json.dumps(data | {"name": "mine"}), encoding="utf-8")
    rows = netplan.study(str(path)).rows
    assert "for_the_money" in bounds_of(rows[1])
