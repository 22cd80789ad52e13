"""Traffic matrices: conservation, closed forms, published shares, heat maps, and bad input."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from netplan.errors import InputError
from netplan.traffic.matrix import (
    KINDS,
    TrafficMatrix,
    UniformGroups,
    combine,
    flows_matrix,
    no_traffic,
)
from netplan.traffic.patterns import Pattern, collective_traffic
from netplan.traffic.placement import Degrees, Placement
from netplan.traffic.statistics import (
    hb_share,
    heat_map,
    idle_pairs_share,
    kind_shares,
    pair_count,
)
from netplan.traffic.training import (
    Schedule,
    collectives_of,
    training_traffic,
)
from netplan.workloads.models import MODELS

PUBLISHED = Path(__file__).parents[1] / "published" / "traffic_stats.csv"
GPT_1T = MODELS.load("gpt-1t")


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
    np.testing.assert_allclose(matrix.sent_bytes, cells.sum(axis=1))
    np.testing.assert_allclose(matrix.received_bytes, cells.sum(axis=0))
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
    shares = {share.kind: share for share in kind_shares(matrix)}
    assert set(shares) == {"data", "expert"}
    expert = dense(matrix.of_kind("expert"))
    assert shares["expert"].pairs == np.count_nonzero(expert)
    assert shares["expert"].bytes_share == pytest.approx(expert.sum() / cells.sum())
    assert sum(share.bytes_share for share in shares.values()) == pytest.approx(1.0)


def test_published_shares_of_megatron_strategies() -> None:
    with PUBLISHED.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2
    for row in rows:
        model = GPT_1T.model_copy(
            update={
                "hidden_size": int(row["h"]),
                "layers": int(row["l"]),
                "heads": int(row["heads"]),
                "sequence_length": int(row["s"]),
            }
        )
        t, p, d, gpus = (int(row[name]) for name in ("t", "p", "d", "N"))
        placement = Placement((Degrees(tensor=t), Degrees(data=d, pipeline=p)))
        schedule = Schedule(int(row["B"]), microbatch=int(row["b"]), interleave=int(row["v"]))
        matrix = training_traffic(model, schedule, placement, gpus)
        shares = {share.kind: share for share in kind_shares(matrix)}
        for kind, short in (("tensor", "tp"), ("data", "dp"), ("pipeline", "pp")):
            found = shares[kind]
            assert found.pair_bytes / 1e9 == pytest.approx(float(row[f"{short}_pair_GB"]), rel=1e-9)
            assert 100 * found.bytes_share == pytest.approx(
                float(row[f"{short}_share_pct"]), rel=1e-9
            )
            assert 100 * found.pairs_share == pytest.approx(
                float(row[f"{short}_pairs_pct"]), rel=1e-9
            )
        idle = 100 * idle_pairs_share(matrix)
        assert idle == pytest.approx(float(row["no_traffic_pairs_pct"]), rel=1e-9)
        # All tensor traffic is inside domains of 8, all other on rails (arXiv:2307.12169, 3.2).
        inside = matrix.source // 8 == matrix.destination // 8
        assert np.array_equal(inside, matrix.kind == KINDS.index("tensor"))
        assert np.array_equal(matrix.source[~inside] % 8, matrix.destination[~inside] % 8)


def test_hierarchical_all_reduce_stays_inside_domains_as_in_figure_5() -> None:
    """32 GPUs in each of 2 domains: (31/32) / (31/32 + 1/64) = 62/63 = 98.41 %."""
    placement = Placement((Degrees(tensor=8, data=32), Degrees(data=2, pipeline=8)))
    schedule = Schedule(batch=4096, data="hierarchical")
    matrix = training_traffic(GPT_1T, schedule, placement, 4096).of_kind("data")
    assert hb_share(matrix, 256) == pytest.approx(62 / 63, rel=1e-12)
    assert np.all(
        (matrix.source - matrix.destination)
        % 256
        * (matrix.source // 256 != matrix.destination // 256)
        == 0
    )


@pytest.mark.parametrize("collective", ["all_gather", "reduce_scatter", "all_reduce", "all_to_all"])
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
    expected = sent["all_gather" if collective == "reduce_scatter" else collective]
    np.testing.assert_allclose(matrix.sent_bytes, expected)
    np.testing.assert_allclose(matrix.received_bytes, expected)
    # Only GPUs of the same tensor rank talk.
    listed = matrix.listed()
    assert np.array_equal(listed.source % 2, listed.destination % 2)


def test_interleaving_returns_from_the_last_stage_to_the_first() -> None:
    """4 stages, v = 3: each edge carries 3 m D_p a way, the way back 2 m D_p."""
    model = GPT_1T.model_copy(update={"layers": 12})
    placement = Placement((Degrees(pipeline=4),))
    matrix = training_traffic(model, Schedule(batch=8, interleave=3), placement, 4)
    step = 8 * 2 * model.hidden_size * model.sequence_length
    cells = dense(matrix) / step
    expected = np.array([[0, 3, 0, 2], [3, 0, 3, 0], [0, 3, 0, 3], [2, 0, 3, 0]])
    np.testing.assert_allclose(cells, expected)
    # 2 stages: the way back is the edge itself, 3 forward and 2 of the gradients that wrap.
    two = training_traffic(
        model, Schedule(batch=8, interleave=3), Placement((Degrees(pipeline=2),)), 2
    )
    np.testing.assert_allclose(dense(two) / step, [[0, 5], [5, 0]])


def test_context_and_expert_traffic_by_hand() -> None:
    """A layer of h = 4 over 2 tensor x 2 context x 2 expert GPUs, one microbatch of 8 tokens."""
    model = GPT_1T.model_copy(
        update={"layers": 1, "hidden_size": 4, "heads": 2, "sequence_length": 8}
    )
    placement = Placement((Degrees(tensor=2, context=2, expert=2),))
    schedule = Schedule(batch=2, experts=4, experts_per_token=2, expert="direct")
    uses = {
        (u.kind, u.collective, u.dimensions): u.data_bytes * u.times
        for u in collectives_of(model, schedule, placement)
    }
    assert uses == {
        ("tensor", "all_gather", ("tensor",)): 4 * 2 * 8 * 4 / 2,  # 4 x 2 b h s / c
        ("tensor", "reduce_scatter", ("tensor",)): 4 * 2 * 8 * 4 / 2,
        ("context", "all_gather", ("context",)): 2 * 4 * 8 * 4 / 2,  # 2 x 4 b h s / t
        ("context", "reduce_scatter", ("context",)): 4 * 8 * 4 / 2,
        ("expert", "all_to_all", ("expert",)): 4 * 2 * 8 * 4 * 2 / 4,  # 4 x 2 b h s k / (t c)
        ("data", "all_reduce", ("data", "context", "expert")): 2 * 4 * 16 / 2,  # 4 h^2 weights
        ("data", "all_reduce", ("data", "context")): 2 * 8 * 16 * 4 / 2 / 2,  # 8 h^2, 4 experts
    }
    matrix = training_traffic(model, schedule, placement, 8)
    np.testing.assert_allclose(matrix.sent_bytes, matrix.received_bytes)
    assert [group.kind for group in matrix.groups] == [KINDS.index("expert")]


def test_a_large_plan_stays_sparse() -> None:
    placement = Placement((Degrees(tensor=8, data=32), Degrees(data=2, pipeline=64)))
    matrix = training_traffic(GPT_1T, Schedule(batch=4096, data="hierarchical"), placement, 32_768)
    # 3 rings a GPU (tensor, data inside, data across) and 2 directions of 63 stage borders.
    assert len(matrix.source) == 3 * 32_768 + 2 * 63 * 512
    np.testing.assert_allclose(matrix.sent_bytes.sum(), matrix.received_bytes.sum())


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


def test_placements_and_schedules_that_cannot_be() -> None:
    placement = Placement((Degrees(tensor=8), Degrees(data=3, pipeline=4)))
    with pytest.raises(InputError, match=r"covers 96 GPUs \(8 x 12\), the cluster has 128"):
        training_traffic(GPT_1T, Schedule(batch=96), placement, 128)
    with pytest.raises(InputError, match="a batch of 100 does not split into 3"):
        training_traffic(GPT_1T, Schedule(batch=100), placement, 96)
    with pytest.raises(InputError, match="128 layers do not split into 4 pipeline stages x 5"):
        training_traffic(GPT_1T, Schedule(batch=96, interleave=5), placement, 96)
    with pytest.raises(InputError, match="give 5 whole numbers"):
        Placement((Degrees(tensor=8, data=0),))
    with pytest.raises(InputError, match="give 1 to 8"):
        heat_map(no_traffic(8), 9)
