"""Traffic matrices: conservation, closed forms, published shares, heat maps, and bad input."""

import numpy as np
import pytest

from netplan.errors import InputError
from netplan.records import replace
from netplan.traffic.matrix import (
    KINDS,
    TRAINING_OF_A_STEP,
    TrafficMatrix,
    UniformGroups,
    combine,
    flows_matrix,
    no_traffic,
)
from netplan.traffic.patterns import Pattern, collective_traffic
from netplan.traffic.placement import Degrees, Placement
from netplan.traffic.statistics import hb_share, heat_map, idle_pairs_share, kind_shares, pair_count
from tests.traffic.matrix_ends import end_bytes


def dense(matrix: TrafficMatrix) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """The N x N cells."""
    listed = matrix.listed()
    cells = np.zeros((matrix.gpus, matrix.gpus))
    np.add.at(cells, (listed.source, listed.destination), listed.flow_bytes)
    return cells


def mixed_matrix(seed: int, gpus: int = 24) -> TrafficMatrix:
    """Flows of two kinds, and two partitions into uniform groups that overlap."""
    rng = np.random.default_rng(seed)
    source = rng.integers(0, gpus, 40)
    destination = (source + rng.integers(1, gpus, 40)) % gpus
    flows = [
        flows_matrix(
            gpus,
            source=source[part],
            destination=destination[part],
            flow_bytes=rng.random(20) + 0.1,
            kind=kind,
        )
        for part, kind in ((slice(20), "data"), (slice(20, 40), "expert"))
    ]
    groups = tuple(
        UniformGroups(
            rng.permutation(gpus)[: 4 * size].reshape(4, size).astype(np.int32),
            rng.random(),
            KINDS.index("expert"),
        )
        for size in (3, 5)
    )
    return replace(combine(flows), groups=groups)


@pytest.mark.parametrize("seed", range(5))
def test_statistics_of_groups_equal_those_of_all_cells(seed: int) -> None:
    matrix = mixed_matrix(seed)
    cells = dense(matrix)
    np.testing.assert_allclose(end_bytes(matrix), (cells.sum(axis=1), cells.sum(axis=0)))
    assert matrix.total_bytes == pytest.approx(cells.sum())
    assert pair_count(matrix) == np.count_nonzero(cells)
    assert idle_pairs_share(matrix) == pytest.approx(1 - np.count_nonzero(cells) / (24 * 23))
    domain = np.arange(24) // 6
    same = domain[:, None] == domain[None, :]
    assert hb_share(matrix, 6) == pytest.approx(cells[same].sum() / cells.sum())
    for blocks, size in ((1, 24), (5, 5), (24, 1)):
        sums = np.add.reduceat(
            np.add.reduceat(cells, range(0, 24, size)), range(0, 24, size), axis=1
        )
        np.testing.assert_allclose(heat_map(matrix, blocks), sums, atol=1e-12)
    # Blocks of a size of their own, the last one of 3 GPUs only.
    uneven = np.add.reduceat(np.add.reduceat(cells, range(0, 24, 7), 0), range(0, 24, 7), axis=1)
    np.testing.assert_allclose(heat_map(matrix, 4, 7), uneven, atol=1e-12)
    shares = {share.kind: share for share in kind_shares(matrix)}
    assert set(shares) == {"data", "expert"}
    expert = dense(matrix.of_kind("expert"))
    assert shares["expert"].pairs == np.count_nonzero(expert)
    assert shares["expert"].bytes_share == pytest.approx(expert.sum() / cells.sum())
    assert sum(share.bytes_share for share in shares.values()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "collective",
    ["all_gather", "reduce_scatter", "all_reduce", "all_to_all", "broadcast", "reduce"],
)
@pytest.mark.parametrize("pattern", ["ring", "direct", "hierarchical"])
def test_every_pattern_moves_its_closed_form(collective: str, pattern: Pattern) -> None:
    """6 members, 3 inside a domain x 2 across; D = 90 bytes."""
    placement = Placement((Degrees(tensor=2, data=3), Degrees(data=2)))
    matrix = collective_traffic(
        collective,  # type: ignore[arg-type]
        placement,
        ("data",),
        data_bytes=90.0,
        kind="data",
        pattern=pattern,
    )
    sent = {
        "ring": {"all_gather": 75, "all_reduce": 150, "all_to_all": 225},  # 5/6 D; 2x; 5/2 D
        "direct": {"all_gather": 75, "all_reduce": 150, "all_to_all": 75},  # 5/6 D; 2x; 5/6 D
        # 2/3 D inside + 1/2 x D/3 across; twice; 2/3 D + 1/2 D.
        "hierarchical": {"all_gather": 75, "all_reduce": 150, "all_to_all": 105},
    }[pattern]
    alike = ("reduce_scatter", "broadcast", "reduce")
    expected = sent["all_gather" if collective in alike else collective]
    for moved in end_bytes(matrix):
        np.testing.assert_allclose(moved, expected)
    # Only GPUs of the same tensor rank talk.
    listed = matrix.listed()
    assert np.array_equal(listed.source % 2, listed.destination % 2)


def test_sums_and_scales() -> None:
    matrix = mixed_matrix(1)
    np.testing.assert_allclose(dense(matrix.scaled(3.0)), 3 * dense(matrix))
    np.testing.assert_allclose(dense(combine([matrix, matrix])), 2 * dense(matrix))
    with pytest.raises(InputError, match="sizes 8, 24"):
        combine([matrix, no_traffic(8)])
    with pytest.raises(InputError, match="got sizes none"):
        combine([])
    groups = (UniformGroups(np.arange(8192, dtype=np.int32)[None], 1.0, 0),)
    everyone = replace(no_traffic(8192), groups=groups)
    with pytest.raises(InputError, match="67,100,672 flows when written out"):
        everyone.listed(1000)


@pytest.mark.parametrize(
    ("source", "destination", "amount", "message"),
    [
        ([0], [8], [1.0], "destination: GPU 8 is not in a cluster of 8 GPUs"),
        ([-1], [2], [1.0], "source: GPU -1 is not"),
        ([1], [1], [1.0], "from GPU 1 to itself"),
        ([0], [1], [-1.0], "flow 0 carries -1 bytes"),
        ([0], [1], [np.nan], "flow 0 carries nan bytes"),
        ([0, 1], [1], [1.0], "differ in length"),
    ],
)
def test_flows_that_cannot_be(
    source: list[int], destination: list[int], amount: list[float], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        flows_matrix(8, source=source, destination=destination, flow_bytes=amount)


def test_groups_that_cannot_be() -> None:
    for members, amount, message in (
        ([[0, 1], [1, 2]], 1.0, "GPU 1 stands 2 times"),
        ([[0, 9]], 1.0, "GPU 9 is not in a cluster of 8"),
        ([[0, 1]], -1.0, "carries -1 bytes"),
    ):
        groups = UniformGroups(np.array(members, np.int32), amount, 0)
        with pytest.raises(InputError, match=message):
            replace(no_traffic(8), groups=(groups,))


def test_a_heat_map_has_no_more_blocks_than_gpus() -> None:
    with pytest.raises(InputError, match="give 1 to 8"):
        heat_map(no_traffic(8), 9)


def test_many_collectives_of_the_same_groups_cost_no_more() -> None:
    """Inclusion and exclusion doubles with every partition; equal ones are one."""
    members = np.arange(64, dtype=np.int32).reshape(8, 8)
    groups = tuple(UniformGroups(members, float(1 + i), 0) for i in range(40))
    matrix = replace(no_traffic(64), groups=groups)
    assert pair_count(matrix) == 64 * 7


def test_codes_in_files_stay_what_they_are() -> None:
    first = "tensor context data pipeline expert other cache rollout score sync sync-gather"
    second = "sync-storage trajectories train-tensor train-context train-data train-pipeline"
    assert " ".join(KINDS) == f"{first} {second} train-expert train-other"


@pytest.mark.parametrize("seed", range(3))
def test_bytes_stay_when_they_are_for_something_else(seed: int) -> None:
    matrix = mixed_matrix(seed)
    step = matrix.renamed(TRAINING_OF_A_STEP)
    np.testing.assert_array_equal(dense(step), dense(matrix))
    shares = {share.kind: share.total_bytes for share in kind_shares(matrix)}
    assert {share.kind: share.total_bytes for share in kind_shares(step)} == {
        "train-data": shares["data"],
        "train-expert": shares["expert"],
    }
    one = matrix.renamed("rollout")
    np.testing.assert_array_equal(dense(one), dense(matrix))
    assert [share.kind for share in kind_shares(one)] == ["rollout"]
    assert kind_shares(one)[0].pairs == pair_count(matrix)
    only = matrix.renamed({"data": "score"})
    assert [share.kind for share in kind_shares(only)] == ["expert", "score"]
    back = {name: kind for kind, name in TRAINING_OF_A_STEP.items()}
    np.testing.assert_array_equal(step.renamed(back).kind, matrix.kind)
    for names in ("gossip", {"gossip": "data"}, {"data": "gossip"}):
        with pytest.raises(InputError, match="unknown kind of traffic 'gossip'"):
            matrix.renamed(names)
