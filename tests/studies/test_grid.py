"""Axes and grids against a brute-force product; sizes, conditions, wrong files."""

import pickle
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.errors import CatalogError, InputError, NetplanError
from netplan.records import RecordError
from netplan.studies.definition import STUDIES
from netplan.studies.grid import StudyAxis, make_grid

SIZES = st.lists(st.integers(1, 64), min_size=1, max_size=6, unique=True)


def axis(**given: object) -> StudyAxis:
    """An axis as a study file gives it."""
    return StudyAxis.read(given)


@given(SIZES, SIZES, SIZES)
@settings(max_examples=60)
def test_grid_is_the_filtered_product(a: list[int], b: list[int], c: list[int]) -> None:
    axes = (axis(input="a", values=a), axis(input="b", values=b), axis(input="c", values=c))
    wanted = [
        {"k": 7, "a": x, "b": y, "c": z}
        for x, y, z in product(a, b, c)
        if x <= y and (y + z) % 2 == 0
    ]
    conditions = ("a <= b", "(b + c) % 2 == 0")
    if not wanted:
        with pytest.raises(InputError, match="no point"):
            make_grid(axes, {"k": 7}, conditions)
        return
    grid = make_grid(axes, {"k": 7}, conditions)
    assert [point.inputs for point in grid.points(range(len(grid)))] == wanted
    # A point is found by its index alone.
    last = len(grid) - 1
    assert grid.points([last, 0])[0].inputs == wanted[-1]


def test_ranges_by_hand() -> None:
    doubled = axis(input="x", times={"from": 8, "to": 100, "factor": 2}, whole=True)
    assert [row[0] for row in doubled.rows] == [8, 16, 32, 64]
    log = axis(input="x", log={"from": 1, "to": 1000, "steps": 4})
    assert [row[0] for row in log.rows] == pytest.approx([1, 10, 100, 1000])
    linear = axis(input="x", linear={"from": 0, "to": 1, "steps": 5})
    assert [row[0] for row in linear.rows] == [0, 0.25, 0.5, 0.75, 1]
    rounded = axis(input="x", log={"from": 1, "to": 4, "steps": 9}, whole=True)
    assert [row[0] for row in rounded.rows] == [1, 2, 3, 4]
    # 1.1 ** 10 is a hair more than its decimal.
    tenth = axis(input="x", times={"from": 1, "to": 1.1**10, "factor": 1.1})
    assert len(tenth.rows) == 11


def test_zipped_inputs_vary_together() -> None:
    axes = (axis(zip={"model": ["one", "two"], "batch": [4, 8]}), axis(input="gpus", values=[1, 2]))
    found = [
        (point.inputs["model"], point.inputs["batch"], point.inputs["gpus"])
        for point in make_grid(axes, {}).points(range(4))
    ]
    assert found == [("one", 4, 1), ("one", 4, 2), ("two", 8, 1), ("two", 8, 2)]


def test_an_axis_varies_only_where_its_condition_holds() -> None:
    axes = (
        axis(input="fabric", values=["clos", "torus"]),
        axis(input="ratio", values=[1, 2, 3], when="fabric == 'clos'", otherwise=None),
        axis(input="side", values=[4], when="fabric == 'torus'", otherwise=0),
    )
    grid = make_grid(axes, {})
    found = [tuple(point.inputs.values()) for point in grid.points(range(len(grid)))]
    assert found == [("clos", 1, 0), ("clos", 2, 0), ("clos", 3, 0), ("torus", None, 4)]


def test_a_study_of_a_trillion_points_is_refused_before_it_is_laid_out() -> None:
    axes = tuple(
        axis(input=name, linear={"from": 0, "to": 1, "steps": 1_000_000}) for name in ("a", "b")
    )
    with pytest.raises(InputError, match=r"1,000,000,000,000 points.*take fewer values \(a 1,000"):
        make_grid(axes, {})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"input": "a"}, "one of values"),
        ({"input": "a", "values": [], "whole": True}, "no values"),
        ({"input": "a", "values": [1, 1]}, "twice"),
        ({"input": "a", "values": [1], "linear": {"from": 0, "to": 1, "steps": 2}}, "one of"),
        ({"values": [1]}, "names its input"),
        ({"zip": {"a": [1, 2], "b": [1]}}, "one length"),
        ({"input": "a", "times": {"from": 8, "to": 4, "factor": 2}}, "no values"),
        ({"input": "a", "times": {"from": 1, "to": 4, "factor": 1}}, "greater than 1"),
        ({"input": "a", "log": {"from": 0, "to": 4, "steps": 3}}, "greater than 0"),
    ],
)
def test_wrong_axes(given: dict[str, object], message: str) -> None:
    with pytest.raises(RecordError, match=message):
        StudyAxis.read(given)


GOOD = """\
name: mine
title: Mine
source: me
date: "2026"
ask: search
inputs: {accelerator: b200}
axes:
  - {input: gpus, values: [512, 1024]}
outputs: [iteration_time_s]
"""


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("outputs: [iteration_time_s]", "outputs: []", 9, "outputs"),
        ("values: [512, 1024]", "valeus: [512, 1024]", 8, "did you mean values"),
        ("ask: search", "ask: serch", 5, "unknown question 'serch': did you mean search"),
        ("{accelerator: b200}", "{gpus: 8}", 1, "both stays and varies"),
        ("outputs:", "conditions: [gpus <]\noutputs:", 1, "is no condition"),
        ("outputs:", "charts: [{kind: heat, title: t, x: gpus, y: mfu}]\noutputs:", 9, "needs it"),
        (
            "outputs:",
            "charts: [{kind: lines, title: t, x: gpus, y: mfu}]\noutputs:",
            1,
            "mfu neither varies nor is an output",
        ),
    ],
)
def test_wrong_files_name_file_and_line(
    tmp_path: Path, old: str, new: str, line: int, message: str
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD.replace(old, new), encoding="utf-8")
    with pytest.raises(CatalogError) as caught:
        STUDIES.load(str(path))
    assert f"mine.yaml:{line}: " in str(caught.value)
    assert message in str(caught.value)


def test_unknown_names_in_conditions_offer_the_nearest() -> None:
    with pytest.raises(NetplanError, match="did you mean gpus"):
        make_grid((axis(input="gpus", values=[8]),), {}, ("gpu > 4",))


def test_a_grid_travels_as_its_axes() -> None:
    axes = (axis(input="a", values=[*range(300)]), axis(input="b", values=[*range(300)]))
    grid = make_grid(axes, {"k": 1}, ("a <= b",))
    sent = pickle.dumps(grid)
    assert len(sent) < 10_000
    back = pickle.loads(sent)  # noqa: S301 - our own
    assert back.points([0, len(grid) - 1]) == grid.points([0, len(grid) - 1])
    assert len(back) == len(grid) == 300 * 301 // 2
