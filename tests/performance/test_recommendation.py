"""Recommendation models under COMET (arXiv:2211.16648): branches, memory tiers, by hand."""

from itertools import pairwise
from math import ceil, inf
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.errors import CatalogError, InfeasibleError, InputError
from netplan.levels import Level
from netplan.performance.explain import plan_terms
from netplan.performance.iteration_model import ITERATION_MODELS
from netplan.performance.plan import PlanTime
from netplan.performance.search import search_plans
from netplan.performance.setting import Fixed, Options, Setting, TrainedModel
from netplan.performance.tiers import Expanded
from netplan.records import replace
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.families import RecommendationModel
from netplan.workloads.model_graphs import recommendation_graph
from netplan.workloads.models import WORKLOADS
from netplan.workloads.operations import Sharding
from netplan.workloads.spread import spread_program

PODS = Level("switch", 2, 300e9), Level("switch", 2, 31.25e9)
COMET = ITERATION_MODELS.load("comet")
A100 = ACCELERATORS.load("a100-comet")
LARGE: RecommendationModel = WORKLOADS.load("dlrm-1.2t")
SMALL = RecommendationModel(
    name="small",
    title="",
    source="",
    date="2026",
    family="recommendation",
    bottom=(13, 640, 320),
    top=(32, 2000, 1),
    tables=6,
    rows=1_000_000,
    embedding=32,
    pooled=3,
    exchange="pooled",
    interaction="dot",
    row_state_bytes=4,
    batch=4096,
)


def training(
    model: RecommendationModel = SMALL, batch: int = 16_384, **changes: object
) -> TrainedModel:
    found = TrainedModel.make(A100, model, COMET, batch=batch)
    return replace(found, **({"memory_bytes": inf} | changes))


def timed(run: TrainedModel, gpus: int, levels: tuple[Level, ...] = PODS) -> PlanTime:
    return search_plans(run, levels, options=Options(fixed=Fixed(expert=gpus))).best


class ByHand:
    """Section by section in plain Python, on ``gpus`` of pods of two."""

    flops_per_s, bytes_per_s, sram_bytes = 624e12, 2039e9, 40e6
    inside, outside, chunks = 300e9, 31.25e9, COMET.communication.chunks

    def __init__(self, model: RecommendationModel, batch: int, gpus: int) -> None:
        self.model, self.gpus, self.batch = model, gpus, batch / gpus
        self.x, self.y = min(gpus, 2), max(gpus // 2, 1)
        self.vector_bytes = 2 * self.batch * model.tables * model.embedding
        self.row_bytes = self.vector_bytes * model.pooled

    def gemm_s(self, rows: float, inner: float, columns: float) -> float:
        u, v, w, s = 2 * rows * inner, 2 * inner * columns, 2 * rows * columns, self.sram_bytes
        traffic = min(ceil(u / s) * v + u, ceil(v / s) * u + v) + w
        return max(2 * rows * inner * columns / self.flops_per_s, traffic / self.bytes_per_s)

    def stack_s(self, sizes: tuple[int, ...]) -> tuple[float, list[float]]:
        """Seconds forward, and backward of each layer."""
        b = self.batch
        ahead = sum(self.gemm_s(b, k, n) for k, n in pairwise(sizes))
        return ahead, [self.gemm_s(b, n, k) + self.gemm_s(k, b, n) for k, n in pairwise(sizes)]

    def phased_s(self, size: float, ways: int, between: float) -> float:
        a = ways * (self.x - 1) / self.x * size / self.inside
        e = ways * (self.y - 1) / self.y * between / self.outside
        return a if self.y == 1 else max(a, e + a / self.chunks)

    def exchange_s(self) -> float:
        return self.phased_s(self.vector_bytes, 1, self.vector_bytes)

    def pairs_s(self) -> float:
        t, d = self.model.tables, self.model.embedding
        moved = 2 * self.batch * ((t + 1) * d + t * (t + 1) / 2)
        return max(t * (t + 1) * d * self.batch / self.flops_per_s, moved / self.bytes_per_s)

    def forward_s(self) -> float:
        tables_s = self.row_bytes / self.bytes_per_s + self.exchange_s()
        beside = max(self.stack_s(self.model.bottom)[0], tables_s)
        return beside + self.pairs_s() + self.stack_s(self.model.top)[0]

    def backward_s(self) -> tuple[float, float]:
        """Seconds of the backward pass, and what is left of its collectives behind it."""
        states = 4 * self.batch * self.model.tables * self.model.pooled
        update_s = 2 * (self.row_bytes + states) / self.bytes_per_s
        now, ready = 0.0, []
        for sizes, seconds in self.layers(self.model.top):
            now += seconds
            ready.append((now, sizes))
        start = now = now + 2 * self.pairs_s()
        for sizes, seconds in self.layers(self.model.bottom):
            now += seconds
            ready.append((now, sizes))
        end = max(now, start + self.exchange_s() + update_s)
        done = 0.0
        for there, (k, n) in ready:
            done = max(done, there) + self.phased_s(2 * k * n, 2, 2 * k * n / self.x)
        return end, max(done - end, 0.0)

    def layers(self, sizes: tuple[int, ...]) -> list[tuple[tuple[int, int], float]]:
        each = zip(pairwise(sizes), self.stack_s(sizes)[1], strict=True)
        return list(each)[::-1]

    @property
    def weights(self) -> int:
        return sum(k * n for one in (self.model.bottom, self.model.top) for k, n in pairwise(one))


@pytest.mark.parametrize("gpus", [1, 2, 4])
@pytest.mark.parametrize("embedding", [8, 32, 512])
def test_an_iteration_by_hand_on_two_levels(gpus: int, embedding: int) -> None:
    model = replace(SMALL, embedding=embedding)
    hand, found = ByHand(model, 16_384, gpus), timed(training(model), gpus)
    backward_s, left_s = hand.backward_s()
    update_s = 28 * hand.weights / 2039e9
    parts = found.breakdown_s
    assert parts["data_comm"] == pytest.approx(left_s, rel=1e-12, abs=1e-18)
    assert parts["update"] == pytest.approx(update_s, rel=1e-12)
    whole_s = hand.forward_s() + backward_s + left_s + update_s
    assert found.iteration_time_s == pytest.approx(whole_s, rel=1e-12)
    assert sum(found.phases_s.values()) == pytest.approx(whole_s, rel=1e-12)
    tables = 6 * 1_000_000 * (2 * embedding + 4) / gpus
    held = found.memory_parts_bytes
    assert held["weights"] + held["gradients"] + held["optimizer"] == tables + 16 * hand.weights
    # Inputs of the four layers, and the seven vectors that interact.
    kept = 2 * 16_384 / gpus * (13 + 640 + 32 + 2000 + 7 * embedding)
    assert held["activations"] == pytest.approx(kept, rel=1e-12)
    setting = Setting(training(model), options=Options(fixed=Fixed(expert=gpus)))
    terms = plan_terms(setting, PODS, found.plan)
    assert sum(term.seconds for term in terms) == pytest.approx(whole_s, rel=1e-12)


def test_the_longest_branch_counts_alone() -> None:
    short, long = (timed(training(replace(SMALL, embedding=width)), 4) for width in (1, 512))
    # A number a row: the bottom layers take longer, and nothing of the exchange is exposed.
    assert short.breakdown_s["expert_comm"] == 0
    # Else both exchanges are exposed in full.
    hand = ByHand(replace(SMALL, embedding=512), 16_384, 4)
    assert long.breakdown_s["expert_comm"] == pytest.approx(2 * hand.exchange_s(), rel=1e-12)


def test_interacting_pairs_are_counted_once_a_pass() -> None:
    # Products 13 x 640, 640 x 320, 32 x 2000, 2000 x 1; 21 pairs of 32 numbers.
    weights = 13 * 640 + 640 * 320 + 32 * 2000 + 2000
    assert SMALL.flops(1) == 6 * (weights + 21 * 32)
    plain = replace(SMALL, interaction="none")
    assert plain.flops(1) == 6 * weights
    graph = recommendation_graph(SMALL, 4)
    assert graph.flops.sum() == SMALL.flops(4096)
    assert graph.column("all_to_all_bytes").sum() == 2 * 2 * 4096 * 6 * 32 / 4
    assert graph.column("read_bytes").sum() == 2 * 2 * 4096 * 6 * 3 * 32


def test_pooled_vectors_are_rows_over_their_number() -> None:
    sent = []
    for exchange in ("pooled", "unpooled"):
        model = replace(SMALL, exchange=exchange)
        program = spread_program(model, Sharding.of(4096, tensor=1, expert=4))
        uses = program.collectives(stages=1, microbatches=1)
        sent.append(next(one.data_bytes for one in uses if one.kind == "expert"))
    assert sent[1] == 3 * sent[0] == 3 * 2 * 4096 * 6 * 32


def test_messages_of_the_public_workload() -> None:
    model: RecommendationModel = WORKLOADS.load("dlrm-astra-sim")
    weights = [2 * k * n for k, n in (*model.bottom_products, *model.top_products)]
    # all_reduces and the all_to_all of DLRM_HybridParallel.txt
    assert weights == [13312, 524288, 524288, 16384, 1064960, 524288, 524288]
    assert model.sent_bytes * model.batch == 98304


def test_fewer_gpus_hold_more_and_spill() -> None:
    expanded = Expanded(201e9, 1e12)
    run = training(LARGE, 32_768, memory_bytes=80e9, expanded=expanded)
    levels = Level("switch", 8, 300e9), Level("switch", 8, 31.25e9)
    found = search_plans(run, levels, top=99)
    assert [one.plan.gpus for one in found.plans] == [64, 32, 16]
    # 2 bytes of 600 tables x 21,505,376 rows x 93 numbers on each; 150 GB on 16.
    for one in found.plans:
        tables = 2 * 600 * 21_505_376 * 93 / one.plan.gpus
        assert one.memory_parts_bytes["weights"] == tables + 2 * 20 * 3375**2
        tiers = one.memory_tiers_bytes or {}
        spilled = sum(part["expanded"] for part in tiers.values())
        assert spilled == pytest.approx(max(one.memory_bytes - 80e9, 0), abs=1)
    # 300 GB of tables, 3.6 of layers, 1.0 of activations
    with pytest.raises(InfeasibleError, match=r"nearest needs 305 GB a GPU, 23.7 GB more"):
        search_plans(run, levels, options=Options(fixed=Fixed(expert=8)))


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from([8, 16, 32]),
    st.floats(100e9, 2039e9),
    st.floats(1.0, 3.0),
    st.sampled_from(["uniform", "states-first"]),
)
def test_more_memory_never_hurts(gpus: int, rate: float, times: float, policy: str) -> None:
    rules = replace(COMET, memory=replace(COMET.memory, policy=policy))
    levels = Level("switch", 8, 300e9), Level("switch", 8, 31.25e9)
    whole = training(LARGE, 32_768, assumptions=rules)

    def seconds(local: float, more: float, at: float) -> float:
        run = replace(whole, memory_bytes=local, expanded=Expanded(more, at) if more else None)
        return timed(run, gpus, levels).iteration_time_s

    spilled = seconds(40e9, 400e9, rate)
    rounding = 1 + 1e-12
    assert seconds(40e9, 400e9, min(times * rate, 2039e9)) <= spilled * rounding
    assert seconds(40e9 * times, 400e9, rate) <= spilled * rounding
    assert seconds(40e9, 400e9 * times, rate) == spilled
    # An expanded memory as fast as the local one is one memory.
    assert seconds(40e9, 400e9, 2039e9) == pytest.approx(seconds(440e9, 0, rate), rel=1e-12)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ("width: 8\nbottom: [8, 8]\ntop: [8, 1]", "all of the one and none of the other"),
        ("width: 8\nbottom_layers: 2", "all of the one and none of the other"),
        ("bottom: [8, 8]", "all of the one and none of the other"),
        ("bottom: [8]\ntop: [8, 1]", "got one number: give two or more"),
        ("bottom: [8, 8]\ntop: [8, 1]\nexchange: some", "exchange"),
        ("bottom: [8, 8]\ntop: [8, 1]\nrow_state_bytes: -4", "row_state_bytes"),
    ],
)
def test_files_that_describe_no_layers(keys: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    head = "name: mine\ntitle: t\nsource: s\ndate: '2026'\nfamily: recommendation\n"
    tables = "tables: 2\nrows: 8\nembedding: 4\npooled: 1\nbatch: 4\n"
    file.write_text(f"{head}{tables}{keys}\n")
    with pytest.raises(CatalogError, match=says) as error:
        WORKLOADS.load(str(file))
    assert "\n" not in str(error.value)


def test_models_that_no_products_are_tiled_of() -> None:
    with pytest.raises(InputError, match="transformers and recommendation models, and fft-1t is"):
        TrainedModel.make(A100, WORKLOADS.load("fft-1t"), COMET)
