"""The store: each point once, nothing half-written, every refusal one clear line."""

import json
import math
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.errors import InputError
from netplan.reports.quantities import Scalar
from netplan.studies.points import PointResult, point_sha256
from netplan.studies.store import Store
from tests.studies.toys import ROOT, Toy, done_points

TOY = Toy(100)
# Of all but surrogates: what UTF-8 can write, by default, takes a second to find out.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
SCALARS: st.SearchStrategy[Scalar] = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), TEXTS
)
OUTCOMES = st.one_of(
    st.builds(
        PointResult,
        st.integers(0, 99),
        st.dictionaries(TEXTS, SCALARS, max_size=4),
        st.none(),
        st.floats(0, 1e6),
        st.just(point_sha256("a1b2", {"x": 1})),
    ),
    st.builds(
        PointResult,
        st.integers(0, 99),
        st.none(),
        TEXTS,
        st.floats(0, 1e6),
        st.just(point_sha256("a1b2", {"x": 2})),
    ),
)


def good(index: int) -> PointResult:
    return PointResult(index, {"square": index * index}, None, 0.001)


def bad(index: int) -> PointResult:
    return PointResult(index, None, "ValueError: no such radix", 0.001)


def make(path: Path, toy: Toy = TOY) -> Store:
    return Store.begin(path / "toy.sqlite", toy, "1.0")


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(OUTCOMES, max_size=10), max_size=4))
def test_the_first_outcome_of_each_point_stays(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[PointResult]]
) -> None:
    first: dict[int, PointResult] = {}
    with make(tmp_path_factory.mktemp("store")) as store:
        for batch in batches:
            store.record(batch)
            for outcome in batch:
                first.setdefault(outcome.index, outcome)
        expected = [first[index] for index in sorted(first)]
        assert list(store.outcomes()) == expected
        assert done_points(store) == sorted(first)
        assert store.missing().tolist() == sorted(set(range(100)) - set(first))
        failures = [outcome for outcome in expected if outcome.error is not None]
        assert store.counts() == (len(expected), len(failures))
        assert store.failures(2) == failures[:2]
        assert len(store.failures(100)) == len(failures)


def test_numbers_that_json_does_not_know_come_back(tmp_path: Path) -> None:
    with make(tmp_path) as store:
        store.record([PointResult(0, {"a": math.nan, "b": -math.inf, "c": -0.0}, None, 0.0)])
        (outcome,) = store.outcomes()
    assert str(outcome.outputs) == "{'a': nan, 'b': -inf, 'c': -0.0}"


def test_a_store_goes_on_where_it_was(tmp_path: Path) -> None:
    with make(tmp_path) as store:
        store.record([good(3), bad(4)])
        meta = store.meta
    assert [file.name for file in tmp_path.iterdir()] == ["toy.sqlite"]  # no log, no lock
    with make(tmp_path) as store:
        assert store.meta == meta
        assert (meta.name, meta.netplan_version, meta.point_count) == ("toy", "1.0", 100)
        store.check(TOY, "1.0")
        assert list(store.outcomes()) == [good(3), bad(4)]


def test_each_row_knows_version_and_inputs(tmp_path: Path) -> None:
    sha256 = point_sha256("a1b2", {"x": 7})
    with make(tmp_path) as store:
        store.record([PointResult(7, {}, None, 0.0, sha256)])
    with sqlite3.connect(tmp_path / "toy.sqlite") as connection:
        row = connection.execute("SELECT netplan_version, hex(input_sha256) FROM outcomes")
        assert row.fetchall() == [("1.0", sha256.upper())]
    connection.close()


def test_readers_read_during_a_run(tmp_path: Path) -> None:
    with make(tmp_path) as store:
        store.record([good(1)])
        with Store.open(store.path) as reader:
            store.record([good(2)])
            assert reader.counts().done == len(list(reader.outcomes())) == 1  # as it was
            with pytest.raises(InputError, match=r"cannot be written: check the rights"):
                reader.record([good(5)])
            store.close()
        with Store.open(store.path) as reader:
            assert reader.counts().done == 2


def test_marks_go_with_their_outcome(tmp_path: Path) -> None:
    with make(tmp_path) as store:
        store.mark([1, 2, 3])
        store.mark([2])
        assert store.suspects() == {1: 1, 2: 2, 3: 1}
        store.record([good(1)])  # as by a cluster, which knows no marks
        store.record([good(2)], tried=[2])
        assert store.suspects() == {3: 1}


def test_a_batch_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with make(tmp_path) as store:
        unwritable = PointResult(2, {"a": object()}, None, 0.0)  # type: ignore[dict-item]
        with pytest.raises(TypeError):
            store.record([good(1), unwritable])
        assert store.counts() == (0, 0)
        store.record([good(1)])
        assert store.counts() == (1, 0)


def test_full_disk(tmp_path: Path) -> None:
    with make(tmp_path) as store:
        store.record([good(1)])
        (pages,) = store._connection.execute("PRAGMA page_count").fetchone()
        store._connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(InputError, match=r"^\S*toy.sqlite: the disk is full: make room; .*$"):
            store.record([PointResult(2, {"a": "x" * 10_000}, None, 0.0), good(3)])
        assert list(store.outcomes()) == [good(1)]
    with make(tmp_path) as again:
        again.record([good(2)])
        assert again.counts().done == 2


def refused(path: Path, message: str) -> None:
    for way in (Store.open, lambda path: Store.begin(path, TOY, "1.0")):
        with pytest.raises(InputError, match=message) as refusal:
            way(path).close()
        assert "\n" not in str(refusal.value)
        assert not path.with_name(f"{path.name}.lock").exists()


def test_files_that_are_no_stores(tmp_path: Path) -> None:
    for missing in (tmp_path / "missing", tmp_path):
        with pytest.raises(InputError, match="there is no such store: start the study first"):
            Store.open(missing)
    text = tmp_path / "notes.txt"
    text.write_text("radix 64\n" * 1000)
    refused(text, r"notes.txt: is no store of a study: choose another --store")
    assert text.read_text() == "radix 64\n" * 1000
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE songs (name TEXT)")
    connection.close()
    before = other.read_bytes()
    refused(other, "other.sqlite: belongs to another program")
    assert other.read_bytes() == before


def test_a_later_format(tmp_path: Path) -> None:
    with make(tmp_path) as store:
        store._connection.execute("PRAGMA user_version = 9")
    refused(store.path, "has format 9, this netplan reads 2: use the netplan that made it")


def test_a_damaged_store(tmp_path: Path) -> None:
    with make(tmp_path) as store:
        store.record([good(index) for index in range(100)])
    content = bytearray(store.path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    store.path.write_bytes(content)
    refused(store.path, "is damaged: restore a copy, or choose another --store")


def test_no_damage_shows_other_numbers(tmp_path: Path) -> None:
    """One byte in turn all over a store: the same outcomes, damaged ones left out, or refused."""
    with make(tmp_path) as store:
        store.record([good(index) for index in range(40)] + [bad(index) for index in range(40, 99)])
        whole, meta = {one.index: one for one in store.outcomes()}, store.meta
    content = store.path.read_bytes()
    damaged = refused_ = 0
    for at in range(0, len(content), 29):
        broken = bytearray(content)
        broken[at] ^= 1 << at % 8
        store.path.write_bytes(broken)
        try:
            with Store.open(store.path) as reader:
                left = {one.index: one for one in reader.outcomes()}
                lost = set(reader.damaged)
                assert reader.counts().done == len(left)
                assert reader.failures(2) == [one for one in left.values() if one.error][:2]
                assert reader.meta == meta
        except InputError:
            refused_ += 1
            continue
        assert left.items() <= whole.items()
        assert set(whole) - set(left) <= lost
        damaged += bool(lost)
    assert damaged > 20
    assert refused_ > 5


def test_damaged_outcomes_are_named_and_computed_again(tmp_path: Path) -> None:
    with make(tmp_path) as store:
        store.record([good(index) for index in range(100)])
        store._connection.execute("UPDATE outcomes SET outputs = '{}' WHERE point IN (3, 17)")
    with Store.open(store.path) as reader:
        assert (reader.damaged, reader.counts().done) == ([3, 17], 98)
        assert reader.missing().tolist() == [3, 17]
    with make(tmp_path) as again:
        assert again.damaged == [3, 17]
        assert again.missing().tolist() == [3, 17]
        again.record([good(3), good(17)])
    with Store.open(store.path) as reader:
        assert list(reader.outcomes()) == [good(index) for index in range(100)]
        assert reader.damaged == []


def test_a_damaged_text(tmp_path: Path) -> None:
    with make(tmp_path) as store:
        store._connection.execute("UPDATE meta SET value = CAST(x'22ff22' AS TEXT)")
    refused(store.path, "is damaged: restore a copy, or choose another --store")


def test_a_run_killed_before_its_first_word(tmp_path: Path) -> None:
    path = tmp_path / "toy.sqlite"
    path.touch()
    with pytest.raises(InputError, match="is empty: start the study anew"):
        Store.open(path)
    with Store.begin(path, TOY, "1.0") as store:
        store.record([good(1)])
    with Store.begin(path, TOY, "1.0") as store:
        assert list(store.outcomes()) == [good(1)]


@pytest.mark.parametrize("folder", ["missing", "toy.sqlite"])
def test_places_where_nothing_can_be_written(tmp_path: Path, folder: str) -> None:
    (tmp_path / "toy.sqlite").touch()
    with pytest.raises(InputError, match=r"toy.sqlite: cannot be written: (No such|Not a)"):
        make(tmp_path / folder)


def test_a_disk_that_is_full_at_once_is_left_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("netplan.studies.store.FORMAT", "1; no SQL")
    with pytest.raises(InputError, match=r"toy.sqlite: "):
        make(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("toy", "version", "message"),
    [
        (TOY, "1.1", r"made by netplan 1.0, this is 1.1: go on with netplan 1.0, or start anew"),
        (Toy(99), "1.0", r"made for another study, or the study toy has changed since"),
        (Toy(100, input_sha256="c3d4"), "1.0", r"the inputs of toy have changed .*a1b2, now c3d4"),
    ],
)
def test_results_are_not_mixed(tmp_path: Path, toy: Toy, version: str, message: str) -> None:
    with make(tmp_path) as store:
        store.record([good(1)])
        with pytest.raises(InputError, match=message) as refusal:
            store.check(toy, version)
    assert "--store" in str(refusal.value)


@pytest.mark.parametrize(
    ("toy", "version"), [(TOY, "1.1"), (Toy(99), "1.0"), (Toy(100, input_sha256="c3d4"), "1.0")]
)
def test_a_store_without_an_answer_begins_anew(tmp_path: Path, toy: Toy, version: str) -> None:
    with make(tmp_path) as store:
        store.record([bad(1), bad(98)])
        store.check(toy, version)
        assert (store.counts().done, len(store.missing())) == (0, toy.point_count)
        store.record([good(0)])
    path = tmp_path / "toy.sqlite"
    with Store.open(path) as store:
        assert store.meta.netplan_version == version
        assert (store.meta.point_count, store.meta.input_sha256) == (
            toy.point_count,
            toy.input_sha256,
        )
        assert [outcome.index for outcome in store.outcomes()] == [0]


def test_two_drivers_on_one_store(tmp_path: Path) -> None:
    message = rf"toy.sqlite: another run is writing to it \(process {os.getpid()}\): wait for it"
    with make(tmp_path) as store:
        with pytest.raises(InputError, match=message):
            make(tmp_path)
        store.record([good(1)])
    make(tmp_path).close()


def test_a_killed_driver_leaves_no_lock(tmp_path: Path) -> None:
    make(tmp_path).close()
    path = tmp_path / "toy.sqlite"
    holding = (
        "from pathlib import Path; from netplan.studies.store import Store\n"
        "from netplan.studies.points import PointResult\n"
        "from tests.studies.toys import Toy\n"
        f"store = Store.begin(Path({str(path)!r}), Toy(100), '1.0')\n"
        "store.record([PointResult(1, {'square': 1}, None, 0.001)])\n"
        "print('held', flush=True); input()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", holding], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(InputError, match=f"process {holder.pid}"):
            make(tmp_path)
        holder.send_signal(signal.SIGKILL)
    with Store.open(path) as store:
        assert list(store.outcomes()) == [good(1)]
    with make(tmp_path) as store:
        assert list(store.outcomes()) == [good(1)]


def test_an_outcome_is_a_result_or_an_error() -> None:
    for outputs, error in (({}, "both"), (None, None)):
        with pytest.raises(ValueError, match="outputs or an error"):
            PointResult(0, outputs, error, 0.0)


def test_the_definition_is_kept(tmp_path: Path) -> None:
    with make(tmp_path) as store:
        assert json.loads(store.meta.definition) == {"points": 100}
