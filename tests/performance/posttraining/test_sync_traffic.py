"""Who sends new weights to whom: against one that moves parameters one by one, and by hand."""

from collections import defaultdict
from collections.abc import Iterator
from math import lcm, prod
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.errors import InputError
from netplan.inputs.choices import SyncKind
from netplan.performance.posttraining.placed_weights import (
    LayerWeights,
    PlacedCopies,
    placed_copies,
    stages_of_layers,
)
from netplan.performance.posttraining.sync_traffic import (
    SyncPools,
    SyncScheme,
    gather_traffic,
    reshard_traffic,
    storage_bytes,
    sync_traffic,
    trajectory_traffic,
)
from netplan.performance.posttraining.synchronisation import (
    SYNC_KINDS,
    Receivers,
    Sending,
    SyncLinks,
    Weights,
    gather_bytes,
    reshard_bytes,
    sync_bound_s,
    sync_bytes,
)
from netplan.performance.serving.plans import ServingPlans, placed
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.graph import FabricGraph
from netplan.topologies.specs import FABRICS
from netplan.traffic.matrix import TrafficMatrix
from netplan.traffic.matrix_files import load_csv, load_npz, save_csv, save_npz
from netplan.traffic.placement import Degrees, Folding, Placement
from netplan.traffic.routing import Router
from netplan.traffic.statistics import kind_shares
from netplan.workloads.models import MODELS
from tests.traffic.matrix_ends import end_bytes

FEW = settings(max_examples=80, deadline=None)
WIDTH, NIC, HB = 2.0, 50e9, 450e9
LLAMA = LayerWeights.of(MODELS.load("llama-3-70b"), WIDTH)
DEEPSEEK = LayerWeights.of(MODELS.load("deepseek-v3"), WIDTH)
Cells = dict[tuple[int, int], float]


class Small(NamedTuple):
    """Two small pools as plain numbers: ranks in the order data, pipeline, expert, tensor."""

    trainer: tuple[int, int, int, int]
    rollout: tuple[int, int, int, int]
    layers: int
    domain: int

    @property
    def parameters(self) -> int:
        """Of a layer, of each kind, so that every cut is between two of them."""
        shards = [prod(pool[2:]) for pool in (self.trainer, self.rollout)]
        return lcm(*shards, *map(len, self.members))

    @property
    def members(self) -> list[list[int]]:
        """GPUs of servers by domain."""
        servers, size = range(self.first, self.gpus), self.domain
        domains = sorted({gpu // size for gpu in servers})
        return [[gpu for gpu in servers if gpu // size == domain] for domain in domains]

    @property
    def first(self) -> int:
        """The first GPU of a server: servers fill domains of their own."""
        return -(-prod(self.trainer) // self.domain) * self.domain

    @property
    def gpus(self) -> int:
        return self.first + prod(self.rollout)

    def owner(self, trains: bool, copy: int, layer: int, share: float, dense: bool) -> int:  # noqa: FBT001
        """GPU of a copy that has a parameter, which lies behind a share of its layer."""
        data, stages, experts, tensors = self.trainer if trains else self.rollout
        stage = next(
            s
            for s, mine in enumerate(np.array_split(np.arange(self.layers), stages))
            if layer in mine
        )
        place = int(share * experts * tensors + 1e-9)
        tensor, expert = divmod(place, experts) if dense else divmod(place, tensors)[::-1]
        rank = ((copy % data * stages + stage) * experts + expert) * tensors + tensor
        return rank if trains else self.first + rank

    def every(self) -> Iterator[tuple[int, float, bool]]:
        """Every parameter: its layer, the share of the layer before it, whether it is dense."""
        for layer in range(self.layers):
            for number in range(self.parameters):
                for dense in (True, False):
                    yield layer, number / self.parameters, dense

    def pools(self) -> SyncPools:
        return SyncPools(self._placed(True), self._placed(False), self.gpus, self.domain)

    def weights(self) -> LayerWeights:
        each = np.full(self.layers, float(self.parameters))
        return LayerWeights(each, each.copy(), 1.0)

    def _placed(self, trains: bool) -> PlacedCopies:  # noqa: FBT001
        data, stages, experts, tensors = self.trainer if trains else self.rollout
        inner = Degrees(tensor=tensors, expert=experts)
        levels = (inner, Degrees(pipeline=stages), Degrees(data=data))
        placement = Placement(levels, first=0 if trains else self.first)
        parts = np.array_split(np.arange(self.layers), stages)
        return placed_copies(placement, np.repeat(np.arange(stages), [len(part) for part in parts]))


def moved_one_by_one(small: Small, kind: SyncKind) -> Cells:
    """Bytes of every pair, where each parameter has one byte and finds its own way."""
    cells: Cells = defaultdict(float)
    copy_gpus = prod(small.rollout[1:])
    copies = small.rollout[0]
    for layer, share, dense in small.every():
        if kind in ("sharded", "delta") or (kind == "experts" and not dense):
            there: dict[int, int] = {}
            for copy in range(copies):
                taker = small.owner(False, copy, layer, share, dense)
                owner = small.owner(True, copy, layer, share, dense)
                cells[there.setdefault(taker // small.domain, owner), taker] += 1
                if there[taker // small.domain] == owner:
                    there[taker // small.domain] = taker
            continue
        source = small.owner(True, 0, layer, 0.0, dense)  # the first GPU of the stage
        for group in small.members:
            entry = group[int(share * len(group) + 1e-9)]
            if kind == "experts":
                copy = (entry - small.first) // copy_gpus
                source = small.owner(True, copy, layer, share, dense)
            if kind == "relay":
                for gpu in group:
                    cells[source, gpu] += 1
                continue
            cells[source, entry] += 1
            for gpu in group:
                if gpu != entry:
                    cells[entry, gpu] += 1
            source = entry  # of the next domain
    return cells


def cells_of(matrix: TrafficMatrix) -> Cells:
    """Bytes of every pair of a matrix."""
    cells: Cells = defaultdict(float)
    listed = matrix.listed()
    for source, destination, amount in zip(
        listed.source.tolist(), listed.destination.tolist(), listed.flow_bytes.tolist(), strict=True
    ):
        cells[source, destination] += amount
    return cells


def between_domains(matrix: TrafficMatrix, domain: int) -> float:
    """Bytes that leave HB domains."""
    cells = cells_of(matrix)
    return sum(amount for (a, b), amount in cells.items() if a // domain != b // domain)


degrees = st.sampled_from((1, 2, 3, 4))
SMALL = st.builds(
    Small,
    st.tuples(degrees, st.sampled_from((1, 2)), st.sampled_from((1, 2)), degrees),
    st.tuples(degrees, st.sampled_from((1, 2)), st.sampled_from((1, 2)), degrees),
    layers=st.integers(2, 3),
    domain=st.sampled_from((1, 2, 4, 8)),
).filter(lambda small: small.parameters <= 240)


@pytest.mark.parametrize("kind", SYNC_KINDS)
@settings(max_examples=15, deadline=None)
@given(small=SMALL)
def test_parameters_that_are_moved_one_by_one_take_the_same_ways(
    kind: SyncKind, small: Small
) -> None:
    changed = 0.2  # of a byte and four of its index: one byte a parameter, as of the others
    scheme = SyncScheme(kind=kind, changed=changed if kind == "delta" else 1.0)
    matrix = sync_traffic(small.weights(), small.pools(), scheme)
    expected = moved_one_by_one(small, kind)
    got = cells_of(matrix.of_kind("sync"))
    assert got.keys() == expected.keys()
    for pair, amount in expected.items():
        assert got[pair] == pytest.approx(amount, rel=1e-9), pair


@st.composite
def aligned_pools(draw: st.DrawFn) -> tuple[LayerWeights, SyncPools, Receivers]:
    """Pools that fill whole domains each, with unlike layers."""
    domain = draw(st.sampled_from((1, 2, 4, 8, 12, 72)))
    tensor, experts = draw(st.sampled_from((1, 2, 3, 4, 8))), draw(st.sampled_from((1, 2, 4, 9)))
    stages = draw(st.sampled_from((1, 2, 3)))
    copy_gpus = tensor * experts * stages
    copies = lcm(copy_gpus, domain) // copy_gpus * draw(st.integers(1, 3))
    layers = stages_of_layers(6, stages)
    levels = (
        Degrees(tensor=tensor, expert=experts),
        Degrees(pipeline=stages),
        Degrees(data=copies),
    )
    ways = draw(st.sampled_from(((1, 1, 1), (2, 3, 2), (4, 1, 3), (8, 2, 1))))
    t, e, p = ways
    data = domain * draw(st.integers(1, 2))
    trainer = Placement((Degrees(tensor=t, expert=e, data=data), Degrees(pipeline=p)))
    there = Placement(levels, first=trainer.gpus)
    pools = SyncPools(
        placed_copies(trainer, stages_of_layers(6, p), fully_sharded=draw(st.booleans())),
        placed_copies(there, layers),
        trainer.gpus + there.gpus,
        domain,
    )
    amounts = draw(st.lists(st.floats(1e6, 1e9), min_size=12, max_size=12))
    sharing = draw(
        st.sampled_from([copy_gpus, *(x for x in (1, 2, 4) if tensor * experts % x == 0)])
    )
    to = Receivers(copies=copies, copy_gpus=copy_gpus, expert_gpus=sharing, domain=domain)
    return LayerWeights(np.array(amounts[:6]), np.array(amounts[6:]), WIDTH), pools, to


@FEW
@given(aligned_pools(), st.sampled_from(SYNC_KINDS), st.sampled_from(("tensors", "buckets")))
def test_sums_are_those_of_the_formulas(
    case: tuple[LayerWeights, SyncPools, Receivers], kind: SyncKind, sending: Sending
) -> None:
    layers, pools, to = case
    changed = 0.03 if kind == "delta" else 1.0
    scheme = SyncScheme(kind=kind, changed=changed, sending=sending, expert_gpus=to.expert_gpus)
    expected = sync_bytes(layers.weights, to, kind, changed)
    matrix = sync_traffic(layers, pools, scheme).of_kind("sync")
    assert matrix.total_bytes == pytest.approx(expected.total, rel=1e-12)
    assert between_domains(matrix, pools.domain) == pytest.approx(expected.network, rel=1e-12)
    trainer = pools.trainer.gpus.ravel()
    received = end_bytes(matrix)[1]
    assert not received[trainer].any()
    if kind in ("full", "relay"):  # each GPU gets all, whatever layers are like
        assert received[pools.rollout.gpus.ravel()] == pytest.approx(expected.per_gpu, rel=1e-12)
    else:
        shape = (pools.rollout.copies, -1)
        copies = received[pools.rollout.gpus.reshape(shape)].sum(axis=1)
        assert copies == pytest.approx(expected.per_gpu * to.copy_gpus, rel=1e-12)


@FEW
@given(aligned_pools(), st.sampled_from(SYNC_KINDS))
def test_over_storage_a_copy_is_written_and_what_enters_domains_is_read(
    case: tuple[LayerWeights, SyncPools, Receivers], kind: SyncKind
) -> None:
    layers, pools, to = case
    changed = 0.03 if kind == "delta" else 1.0
    scheme = SyncScheme(kind=kind, changed=changed, expert_gpus=to.expert_gpus, storage=True)
    expected = sync_bytes(layers.weights, to, kind, changed)
    written, read = storage_bytes(layers, pools, scheme)
    assert read.sum() == pytest.approx(expected.network, rel=1e-12)
    copy_bytes = layers.weights.copy_bytes * (changed * 6 / 2 if kind == "delta" else 1)
    assert written.sum() == pytest.approx(copy_bytes, rel=1e-12)
    assert not written[pools.rollout.gpus].any()
    assert not read[pools.trainer.gpus].any()
    inside = sync_traffic(layers, pools, scheme)
    assert between_domains(inside, pools.domain) == 0
    assert inside.total_bytes == pytest.approx(
        expected.total - expected.network, abs=1e-6 * copy_bytes
    )
    # What goes on inside is the same, wherever it came from.
    over_network = sync_traffic(
        layers, pools, SyncScheme(kind=kind, changed=changed, expert_gpus=to.expert_gpus)
    )
    assert {share.kind for share in kind_shares(inside)} <= {"sync-storage"}
    within = {
        pair: amount
        for pair, amount in cells_of(over_network.of_kind("sync")).items()
        if pair[0] // pools.domain == pair[1] // pools.domain
    }
    assert cells_of(inside) == pytest.approx(within)


def pools_of_64(tensor: int, stages: int = 1) -> SyncPools:
    """64 GPUs that train and 64 that serve by eight, in domains of eight."""
    trainer = Placement(
        (Degrees(tensor=tensor), Degrees(data=64 // tensor // stages, pipeline=stages))
    )
    servers = Placement((Degrees(tensor=8), Degrees(data=8)), first=64)
    return SyncPools(
        placed_copies(trainer, stages_of_layers(80, stages)),
        placed_copies(servers, stages_of_layers(80, 1)),
        128,
        8,
    )


def test_eight_copies_by_hand() -> None:
    """141.1 GB in eight shards: 17.6 GB to each of 64 GPUs, from the GPU of the same shard."""
    matrix = sync_traffic(LLAMA, pools_of_64(8), SyncScheme())
    assert matrix.destination.tolist() == [gpu + 64 for gpu in matrix.source.tolist()]
    assert matrix.source.tolist() == list(range(64))
    assert matrix.flow_bytes == pytest.approx(np.full(64, 70_553_706_496 * 2 / 8))


def test_shards_of_four_stages_by_hand() -> None:
    """Of 16 GPUs in four stages, two replicas take turns: stages of 20 layers, ends with more.

    Each of eight servers has four senders a GPU, of which the first also has the embedding of
    128,256 x 8,192 words, the last the head, and one norm more.
    """
    matrix = sync_traffic(LLAMA, pools_of_64(8, 4), SyncScheme())
    words = 128_256 * 8192 * WIDTH
    inner = (70_553_706_496 * WIDTH - 2 * words - 8192 * WIDTH) / 4
    flows = cells_of(matrix)
    for stage, more in enumerate((words, 0, 0, words + 8192 * WIDTH)):
        for server in range(8):
            source = 16 * stage + 8 * (server % 2) + 3
            got = flows.pop((source, 64 + 8 * server + 3))
            assert got == pytest.approx((inner + more) / 8, rel=1e-12)
    assert len(flows) == 4 * 8 * 7


def test_a_full_copy_goes_from_domain_to_domain_by_hand() -> None:
    pools, copy_bytes = pools_of_64(8), LLAMA.weights.copy_bytes
    matrix = sync_traffic(LLAMA, pools, SyncScheme(kind="full"))
    flows = cells_of(matrix.of_kind("sync"))
    for rail in range(8):
        assert flows[0, 64 + rail] == pytest.approx(copy_bytes / 8)
        for domain in range(1, 8):
            before, behind = 64 + 8 * (domain - 1) + rail, 64 + 8 * domain + rail
            assert flows[before, behind] == pytest.approx(copy_bytes / 8)
    assert flows[64, 65] == flows[127, 120] == pytest.approx(copy_bytes / 8)
    assert len(flows) == 8 * 8 + 8 * 8 * 7
    gathered = cells_of(matrix.of_kind("sync-gather"))
    assert gathered == pytest.approx({(gpu, 0): copy_bytes / 8 for gpu in range(1, 8)})


def test_domains_of_fewer_gpus_pass_a_full_copy_on() -> None:
    """Servers of 2 + 4 + 3 GPUs of domains of four: ranges of halves, quarters and thirds."""
    servers = Placement((Degrees(tensor=9),), first=6)
    pools = SyncPools(
        placed_copies(Placement((Degrees(tensor=2),)), stages_of_layers(4, 1)),
        placed_copies(servers, stages_of_layers(4, 1)),
        15,
        4,
    )
    layers = LayerWeights.of_equal_layers(Weights(12.0, 0, 1.0), 4)
    flows = cells_of(sync_traffic(layers, pools, SyncScheme(kind="full")).of_kind("sync"))
    between = {pair: amount for pair, amount in flows.items() if pair[0] // 4 != pair[1] // 4}
    halves = {(0, 6): 6, (0, 7): 6, (6, 8): 3, (6, 9): 3, (7, 10): 3, (7, 11): 3}
    thirds = {(8, 12): 3, (9, 12): 1, (9, 13): 2, (10, 13): 2, (10, 14): 1, (11, 14): 3}
    assert between == pytest.approx(halves | thirds)
    assert flows[6, 7] == 6
    assert flows[8, 11] == 3
    assert flows[14, 12] == 4


def test_copies_in_one_domain_get_a_shard_from_the_first() -> None:
    """Two copies of four GPUs in a domain of eight: the second takes all of it inside."""
    servers = Placement((Degrees(tensor=4), Degrees(data=4)), first=8)
    pools = SyncPools(
        placed_copies(Placement((Degrees(tensor=4), Degrees(data=2))), stages_of_layers(4, 1)),
        placed_copies(servers, stages_of_layers(4, 1)),
        24,
        8,
    )
    layers = LayerWeights.of_equal_layers(Weights(8.0, 0, 1.0), 4)
    flows = cells_of(sync_traffic(layers, pools, SyncScheme()))
    # Copies 0 and 2 come first in their domains; both are even, so that replica 0 sends.
    expected = {(shard, first + shard): 2 for shard in range(4) for first in (8, 16)}
    expected |= {(first + shard, first + 4 + shard): 2 for shard in range(4) for first in (8, 16)}
    assert flows == pytest.approx(expected)


@pytest.mark.parametrize(("domain", "entering"), [(8, 8), (72, 64)])
def test_experts_enter_a_domain_as_often_as_it_has_gpus(domain: int, entering: int) -> None:
    """64 GPUs share the experts of deepseek-v3: a domain of eight takes 8/64 of them."""
    servers = Placement((Degrees(expert=8), Degrees(expert=8), Degrees(data=9)), first=576)
    trainer = Placement((Degrees(expert=8), Degrees(expert=8, data=9)))
    pools = SyncPools(
        placed_copies(trainer, stages_of_layers(61, 1)),
        placed_copies(servers, stages_of_layers(61, 1)),
        1152,
        domain,
    )
    weights = DEEPSEEK.weights
    matrix = sync_traffic(DEEPSEEK, pools, SyncScheme(kind="experts"))
    a_domain = (weights.dense + weights.expert * entering / 64) * WIDTH
    assert between_domains(matrix, domain) == pytest.approx(576 / domain * a_domain, rel=1e-12)
    received = end_bytes(matrix)[1][576:]
    assert received == pytest.approx((weights.dense + weights.expert / 64) * WIDTH, rel=1e-12)


@pytest.mark.parametrize("domain", [8, 4])
@pytest.mark.parametrize(
    ("sending", "expected"), [("tensors", 31 / 32), ("buckets", 7 / 8), ("pipelined", 0.0)]
)
def test_senders_of_all_gather_what_others_have(
    sending: Sending, expected: float, domain: int
) -> None:
    """Two stages of eight GPUs, tensor 4 x expert 2, of alike layers."""
    trainer = Placement((Degrees(tensor=4, expert=2), Degrees(pipeline=4, data=2)))
    servers = Placement((Degrees(tensor=8),), first=64)
    pools = SyncPools(
        placed_copies(trainer, stages_of_layers(8, 4)),
        placed_copies(servers, stages_of_layers(8, 1)),
        72,
        domain,
    )
    layers = LayerWeights.of_equal_layers(Weights(3e9, 5e9, WIDTH), 8)
    for kind in ("full", "relay"):
        scheme = SyncScheme(kind=kind, sending=sending)
        gathered = gather_traffic(layers, pools, scheme)
        assert gathered.total_bytes == pytest.approx(16e9 * expected, rel=1e-12)
        assert sync_traffic(layers, pools, scheme).of_kind("sync-gather").total_bytes == (
            gathered.total_bytes
        )
        sent = end_bytes(sync_traffic(layers, pools, scheme).of_kind("sync"))[0][:64]
        senders = {"tensors": 1, "buckets": 4, "pipelined": 64}[sending]
        assert np.count_nonzero(sent) == senders
        copies = 8 if kind == "relay" else 1
        assert sent[sent > 0] == pytest.approx(16e9 * copies / senders, rel=1e-12)
    per_stage = gather_bytes(layers.weights, stages=4, shards=8)
    buckets = gather_traffic(layers, pools, SyncScheme(kind="full"))
    assert end_bytes(buckets)[1].max() == pytest.approx(per_stage, rel=1e-12)
    assert gather_traffic(layers, pools, SyncScheme(kind="sharded")).total_bytes == 0


def rail_optimized(ratio: float) -> FabricGraph:
    """128 GPUs in domains of eight; leaves of eight ports down: two for each rail of 16 GPUs."""
    ports = 16 if ratio == 1 else 8 + int(8 / ratio)
    sizing = Sizing(128, ports, 8, HB, NIC, oversubscription=ratio)
    return expand(FABRICS.load("rail-optimized"), sizing)


@pytest.mark.parametrize("ratio", [1.0, 2.0, 4.0])
@pytest.mark.parametrize("kind", ["sharded", "experts", "delta"])
def test_links_carry_what_goes_over_the_network(kind: SyncKind, ratio: float) -> None:
    """Both pools on leaves of their own: all of it crosses the spine, and waits by its ratio."""
    pools = pools_of_64(8)
    scheme = SyncScheme(kind=kind, changed=0.02 if kind == "delta" else 1.0)
    graph = rail_optimized(ratio)
    sent = sync_bytes(LLAMA.weights, to := Receivers(copies=8, copy_gpus=8), kind, scheme.changed)
    loads = Router(graph).loads(sync_traffic(LLAMA, pools, scheme))
    groups = {group.group: group for group in loads.by_group()}
    # Up from a sender and down to a taker.
    assert groups["host"].total_bytes == pytest.approx(2 * sent.network, rel=1e-12)
    assert groups["leaf-spine"].total_bytes == pytest.approx(2 * sent.network, rel=1e-12)
    bound_s = sync_bound_s(sent, to, SyncLinks(senders=64, nic_bytes_per_s=NIC, hb_bytes_per_s=HB))
    first_term_s = sent.network / 64 / NIC
    assert bound_s == pytest.approx(max(first_term_s, sent.per_gpu / HB))
    assert groups["host"].busiest_s == pytest.approx(first_term_s, rel=1e-9)
    assert groups["leaf-spine"].busiest_s == pytest.approx(ratio * first_term_s, rel=1e-9)


@pytest.mark.parametrize(("stages", "sending"), [(1, "tensors"), (4, "buckets")])
def test_senders_of_a_full_copy_are_its_bound(stages: int, sending: Sending) -> None:
    layers = LayerWeights.of_equal_layers(LLAMA.weights, 80)
    scheme = SyncScheme(kind="full", sending=sending)
    matrix = sync_traffic(layers, pools_of_64(8, stages), scheme).of_kind("sync")
    to = Receivers(copies=8, copy_gpus=8)
    sent = sync_bytes(layers.weights, to, "full")
    bound_s = sync_bound_s(
        sent, to, SyncLinks(senders=stages, nic_bytes_per_s=NIC, hb_bytes_per_s=HB)
    )
    assert Router(rail_optimized(1.0)).loads(matrix).busiest_s == pytest.approx(bound_s, rel=1e-9)


def test_files_keep_the_kinds_of_a_synchronisation(tmp_path: Path) -> None:
    matrix = sync_traffic(LLAMA, pools_of_64(8), SyncScheme(kind="full"))
    save_npz(matrix, tmp_path / "sync.npz")
    save_csv(matrix, tmp_path / "sync.csv")
    shares = [(share.kind, share.total_bytes) for share in kind_shares(matrix)]
    assert [kind for kind, _ in shares] == ["sync", "sync-gather"]
    for read in (load_npz(tmp_path / "sync.npz"), load_csv(tmp_path / "sync.csv", 128)):
        assert [kind for kind, _ in shares] == [share.kind for share in kind_shares(read)]
        got = [share.total_bytes for share in kind_shares(read)]
        assert got == pytest.approx([amount for _, amount in shares], rel=1e-12)
        assert cells_of(read) == pytest.approx(cells_of(matrix))


def test_answers_go_to_data_ranks() -> None:
    """Three copies of attention and two data ranks: the middle one is for both."""
    servers = Placement((Degrees(tensor=4, expert=3),), first=8)
    trainer = Placement((Degrees(tensor=2, data=2), Degrees(pipeline=2)))
    cells = cells_of(trajectory_traffic(servers, trainer, 6000.0, 20).of_kind("trajectories"))
    assert cells == pytest.approx({(8, 0): 16e3, (12, 0): 8e3, (12, 2): 8e3, (16, 2): 16e3})


resharded = st.tuples(
    st.sampled_from((1, 2, 4, 8)), st.sampled_from((1, 2, 3)), st.sampled_from((1, 2, 4))
)


@FEW
@given(resharded, st.sampled_from((1, 2, 4, 8)), st.booleans(), st.booleans())
def test_gpus_in_turn_get_what_they_lack(
    degrees: tuple[int, int, int],
    shards: int,
    aligned: bool,  # noqa: FBT001
    alike: bool,  # noqa: FBT001
) -> None:
    tensor, stages, data = degrees
    placement = Placement((Degrees(tensor=tensor, data=data), Degrees(pipeline=stages)))
    layers = LayerWeights.of_equal_layers(Weights(8e9, 4e9, WIDTH), 6)
    if not alike:
        layers = LayerWeights(np.arange(1.0, 7.0) * 1e9, np.zeros(6), WIDTH)
    copies = placed_copies(placement, stages_of_layers(6, stages))
    if placement.gpus % shards:
        with pytest.raises(InputError, match="do not fill"):
            reshard_traffic(layers, copies, shards, gpus=placement.gpus)
        return
    matrix = reshard_traffic(layers, copies, shards, gpus=placement.gpus, aligned=aligned)
    moved = reshard_bytes(layers.weights, shards, stages=stages, shards=tensor, aligned=aligned)
    assert matrix.total_bytes == pytest.approx(moved * placement.gpus, rel=1e-12, abs=1e-3)
    # What a GPU gets and what it has are its share of all layers.
    stage_bytes = np.bincount(copies.stage, (layers.dense + layers.expert) * WIDTH, stages)
    both = max(tensor, shards) if aligned else tensor * shards
    received = end_bytes(matrix)[1]
    for stage in range(stages):
        mine = received[copies.gpus[:, stage].ravel()]
        assert mine == pytest.approx(
            layers.weights.copy_bytes / shards - stage_bytes[stage] / both, rel=1e-9, abs=1e-3
        )
    replica = np.zeros(placement.gpus, int)
    replica[copies.gpus] = np.arange(data)[:, None, None, None]
    assert all(replica[a] == replica[b] for a, b in cells_of(matrix))


def test_servers_stand_as_their_plan_places_them() -> None:
    """Six GPUs of each domain of eight; two idle ones of it get nothing."""
    plan = ServingPlans(*(np.array([degree]) for degree in (6, 1, 1, 1, 2)))
    servers = placed(plan, (8, 2), first=8)
    copies = placed_copies(servers, stages_of_layers(80, 1))
    assert copies.gpus.reshape(2, 6).tolist() == [[*range(8, 14)], [*range(16, 22)]]
    trainer = placed_copies(Placement((Degrees(tensor=8),)), stages_of_layers(80, 1))
    matrix = sync_traffic(LLAMA, SyncPools(trainer, copies, 24), SyncScheme())
    received = end_bytes(matrix)[1]
    assert received[[14, 15, 22, 23]].tolist() == [0, 0, 0, 0]
    assert received[8:14] == pytest.approx(LLAMA.weights.copy_bytes / 6)


def test_folded_experts_and_context_ranks_hold_what_their_ranks_say() -> None:
    """Experts over four ranks that follow each other, of two tensor groups; context is a copy."""
    placement = Placement(
        (Degrees(tensor=2, context=2, data=2), Degrees(pipeline=2)), folded=Folding(4, 1)
    )
    copies = placed_copies(placement, stages_of_layers(4, 2))
    assert copies.by_experts.tolist() == [
        [[0, 1, 2, 3], [8, 9, 10, 11]],
        [[4, 5, 6, 7], [12, 13, 14, 15]],
    ]
    # Ranks 0 and 2 have the first half of dense weights, and send a half of it each.
    assert copies.by_tensor[0, 0].tolist() == [0, 2, 1, 3]
    plain = Placement((Degrees(tensor=2, context=2, data=2), Degrees(pipeline=2)))
    assert placed_copies(plain, stages_of_layers(4, 2)).by_tensor[:, 0].tolist() == [
        [0, 1],
        [2, 3],
        [4, 5],
        [6, 7],
    ]


def test_wrong_pools_are_refused_in_one_line() -> None:
    stage = stages_of_layers(80, 1)
    trainer = placed_copies(Placement((Degrees(tensor=8),)), stage)
    servers = placed_copies(Placement((Degrees(tensor=8),), first=8), stage)
    with pytest.raises(InputError, match="GPU 0 is in the trainer's pool and"):
        SyncPools(trainer, trainer, 8)
    pools = SyncPools(trainer, servers, 16)
    with pytest.raises(InputError, match="unknown synchronisation 'gossip'"):
        sync_traffic(LLAMA, pools, SyncScheme(kind="gossip"))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="above 0 and at most 1"):
        sync_traffic(LLAMA, pools, SyncScheme(kind="delta", changed=0.0))
    with pytest.raises(InputError, match="3 GPUs share the experts of copies of 1 stages of 8"):
        sync_traffic(LLAMA, pools, SyncScheme(kind="experts", expert_gpus=3))
    with pytest.raises(InputError, match="weights of 61 layers, stages of 80"):
        sync_traffic(DEEPSEEK, pools, SyncScheme())
    six = placed_copies(Placement((Degrees(tensor=6, data=2),)), stage)
    with pytest.raises(InputError, match="no parts of each other"):
        reshard_traffic(LLAMA, six, 4, gpus=12)
    sharded = Placement((Degrees(data=8192),))
    with pytest.raises(InputError, match="67,108,864 flows, at most 16,777,216"):
        sync_traffic(
            LLAMA,
            SyncPools(
                placed_copies(sharded, stage, fully_sharded=True),
                placed_copies(Placement((Degrees(data=8192),), first=8192), stage),
                16384,
            ),
            SyncScheme(kind="relay", sending="pipelined"),
        )
