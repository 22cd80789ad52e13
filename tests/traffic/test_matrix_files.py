"""Traffic matrices in files: round trips, and files that are no matrix."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from netplan.errors import InputError
from netplan.records import replace
from netplan.traffic.matrix import KINDS, TrafficMatrix, UniformGroups, flows_matrix
from netplan.traffic.matrix_files import load_csv, load_npz, save_csv, save_npz

HEADER = "source,destination,bytes,kind\n"


def example() -> TrafficMatrix:
    flows = flows_matrix(
        8, source=[0, 1, 7], destination=[1, 2, 0], flow_bytes=[0.1, 1e18 / 3, 5.0], kind="data"
    )
    members = np.array([[0, 2, 4], [1, 3, 5]], np.int32)
    return replace(flows, groups=(UniformGroups(members, 1 / 7, KINDS.index("expert")),))


def assert_same(first: TrafficMatrix, second: TrafficMatrix) -> None:
    assert first.gpus == second.gpus
    for name in ("source", "destination", "flow_bytes", "kind"):
        assert np.array_equal(getattr(first, name), getattr(second, name)), name


def test_csv_keeps_every_flow_exactly(tmp_path: Path) -> None:
    path = tmp_path / "traffic.csv"
    save_csv(example(), path)
    assert path.read_text().startswith(HEADER + "0,1,0.1,data\n")
    assert_same(load_csv(path, 8), example().listed())


def test_npz_keeps_groups_too(tmp_path: Path) -> None:
    path = tmp_path / "traffic.matrix"
    save_npz(example(), path)
    read = load_npz(path, 8)
    assert_same(read, example())
    (group,) = read.groups
    assert np.array_equal(group.members, example().groups[0].members)
    assert (group.pair_bytes, group.kind) == (1 / 7, KINDS.index("expert"))


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.floats(0, 1e30), max_size=7))
def test_any_amounts_survive_both_formats(tmp_path: Path, amounts: list[float]) -> None:
    gpus = np.arange(len(amounts))
    matrix = flows_matrix(8, source=gpus, destination=gpus + 1, flow_bytes=amounts)
    save_csv(matrix, tmp_path / "a.csv")
    save_npz(matrix, tmp_path / "a.npz")
    assert_same(load_csv(tmp_path / "a.csv", 8), matrix)
    assert_same(load_npz(tmp_path / "a.npz"), matrix)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "source,destination,bytes,kind, got nothing"),
        ("from,to\n0,1\n", "the header of a traffic matrix is source,destination,bytes,kind"),
        (HEADER + "0,1,5,gossip\n", ":2: unknown kind of traffic 'gossip'"),
        (HEADER + "0,1,5,data\n0,x,5,data\n", ":3: destination is 'x': give the whole number"),
        (HEADER + "0.5,1,5,data\n", ":2: source is '0.5': give the whole number"),
        (HEADER + "0,1,,data\n", ":2: bytes is '': give a number"),
        (HEADER + "0,1,-5,data\n", "flow 0 carries -5 bytes"),
        (HEADER + "0,8,5,data\n", "GPU 8 is not in a cluster of 8 GPUs"),
        (HEADER + "0,4294967297,5,data\n", "is not in a cluster of 8 GPUs"),
        (HEADER + "0,1,5,data\n0,1,5,data,9\n", ":3: 5 columns, a flow has 4"),
        (HEADER + "0,1,inf,data\n", "flow 0 carries inf bytes"),
        (HEADER + "0,1,5,data\n\n", ":3: 0 columns"),
    ],
)
def test_csv_files_that_are_no_matrix(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        load_csv(path, 8)
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_npz_files_that_are_no_matrix(tmp_path: Path) -> None:
    path = tmp_path / "traffic.npz"
    with pytest.raises(InputError, match="cannot be read"):
        load_npz(path)
    path.write_text("no archive")
    with pytest.raises(InputError, match="cannot be read"):
        load_npz(path)
    np.savez(path, gpus=8)
    with pytest.raises(InputError, match="array 'source' is missing"):
        load_npz(path)
    save_npz(example(), path)
    with pytest.raises(InputError, match="for 8 GPUs, the cluster has 16"):
        load_npz(path, 16)
    np.savez(path, gpus=2, source=[0], destination=[5], flow_bytes=[1.0], kind=[0])
    with pytest.raises(InputError, match="GPU 5 is not in a cluster of 2"):
        load_npz(path)


def test_a_matrix_too_long_for_csv_says_what_to_do(tmp_path: Path) -> None:
    everyone = UniformGroups(np.arange(8192, dtype=np.int32)[None], 1.0, 5)
    matrix = TrafficMatrix(
        8192,
        np.empty(0, np.int32),
        np.empty(0, np.int32),
        np.empty(0),
        np.empty(0, np.int8),
        (everyone,),
    )
    with pytest.raises(InputError, match=r"save it as \.npz"):
        save_csv(matrix, tmp_path / "long.csv")
    save_npz(matrix, tmp_path / "short.npz")
    assert load_npz(tmp_path / "short.npz").total_bytes == 8192 * 8191
