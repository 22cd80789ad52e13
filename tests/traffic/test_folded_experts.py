"""Traffic of experts that are folded over the ranks of a stage, against ranks one by one."""

from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest

import netplan
from netplan.errors import InputError
from netplan.records import replace
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.specs import FABRICS
from netplan.traffic.hierarchy import group_over
from netplan.traffic.matrix import TrafficMatrix
from netplan.traffic.patterns import merged_traffic
from netplan.traffic.placement import Degrees, Folding, Placement, spread_over
from netplan.traffic.routing import link_loads
from netplan.traffic.training import collectives_of, training_traffic, use_traffic
from netplan.workloads.models import Experts, Model
from netplan.workloads.operations import COPIES, EXPERTS, Sharding
from netplan.workloads.program import Program, TrainingMethod, folded, training_program

# Degrees inside a domain of eight and outside; x and e. The first group is smaller than a tensor
# group, the third lies on four domains, the fourth on two of which a stage has half.
PLACED = [
    ({"tensor": 4, "data": 2}, {"data": 4}, 2, 1),
    ({"tensor": 2, "context": 2, "data": 2}, {"data": 4}, 8, 1),
    ({"tensor": 2, "expert": 4}, {"expert": 2, "data": 2, "pipeline": 2}, 8, 2),
    ({"tensor": 2, "data": 2, "pipeline": 2}, {"data": 4}, 4, 2),
    ({"tensor": 8}, {"expert": 2, "data": 2}, 16, 1),
    ({"data": 8}, {"data": 4}, 32, 1),
]
HIDDEN, LATENT, SEQUENCE, LAYERS, CHOSEN = 64, 16, 32, 4, 3
MODEL = Model(
    name="few", title="", source="", date="", batch=8, hidden_size=HIDDEN, layers=LAYERS, heads=8,
    sequence_length=SEQUENCE, vocabulary=128,
    experts=Experts(count=32, per_token=CHOSEN, ffn_size=24, latent_size=LATENT),
)  # fmt: skip


def placed(inside: dict[str, int], outside: dict[str, int], x: int, e: int) -> Placement:
    return Placement((Degrees(**inside), Degrees(**outside)), folded=Folding(x, e))


def program_of(placement: Placement, **more: Any) -> Program:  # noqa: ANN401 - of a method
    totals, folding = placement.totals, placement.folded or Folding(1, 1)
    cut = Sharding.of(
        *(2, totals.tensor, totals.context, 1, totals.expert),
        experts_over=folding.over,
        expert_tensor=folding.shared_by,
    )
    method = TrainingMethod(strategy="2d" if totals.context > 1 else "1d", **more)
    return folded(training_program(MODEL, cut, method), exchanges=True)


def stages_of(placement: Placement) -> list[list[int]]:
    """Ranks of each stage in rising order, by counting digits of their numbers."""
    by_stage: dict[tuple[int, ...], list[int]] = {}
    for rank in range(placement.gpus):
        rest, stage = rank, []
        for level in placement.levels:
            for name, degree in level._asdict().items():
                rest, digit = divmod(rest, degree)
                stage += [digit] if name == "pipeline" else []
        by_stage.setdefault(tuple(stage), []).append(rank)
    return list(by_stage.values())


def cells(matrix: TrafficMatrix) -> dict[tuple[int, int], float]:
    listed = matrix.listed()
    found: dict[tuple[int, int], float] = {}
    ends = zip(listed.source.tolist(), listed.destination.tolist(), strict=True)
    for pair, amount in zip(ends, listed.flow_bytes.tolist(), strict=True):
        found[pair] = found.get(pair, 0.0) + amount
    return found


def same(some: dict[tuple[int, int], float], others: dict[tuple[int, int], float]) -> bool:
    return some.keys() == others.keys() and all(
        some[pair] == pytest.approx(others[pair], rel=1e-12) for pair in others
    )


@pytest.mark.parametrize(("inside", "outside", "x", "e"), PLACED)
def test_tokens_go_to_ranks_that_follow_each_other(
    inside: dict[str, int], outside: dict[str, int], x: int, e: int
) -> None:
    """Of 2 q k E bytes 1/x goes to each of x ranks e apart; dispatch, combine, and both back."""
    placement = placed(inside, outside, x, e)
    totals = placement.totals
    matrix = training_traffic(
        program_of(placement), placement, gpus=placement.gpus, microbatches=3, algorithm="direct"
    )
    rows = 2 * SEQUENCE / totals.context / totals.tensor
    runs = 3 * LAYERS / totals.pipeline
    pair_bytes = 4 * runs * 2 * LATENT * CHOSEN * rows / x
    expected = {
        (here, there): pair_bytes
        for ranks in stages_of(placement)
        for here, there in product(ranks, ranks)
        if here != there
        for at, other in [(ranks.index(here), ranks.index(there))]
        if at // (x * e) == other // (x * e) and at % e == other % e
    }
    assert same(cells(matrix.of_kind("expert")), expected)


@pytest.mark.parametrize(("inside", "outside", "x", "e"), PLACED)
@pytest.mark.parametrize("zero", [0, 1])
def test_gradients_of_experts_are_summed_over_ranks_that_hold_the_same(
    inside: dict[str, int], outside: dict[str, int], x: int, e: int, zero: int
) -> None:
    """Of every weight (g - 1)/g goes to the next of g ranks, x e apart; twice, there and back.

    Both matrices of 16 x 24 and 24 x 16, and biases of 24 and 16, of 32/x experts; all others go
    over the data and context GPUs of their tensor place.
    """
    placement = placed(inside, outside, x, e)
    totals = placement.totals
    uses = collectives_of(program_of(placement, zero_stage=zero), placement, 3)
    sums = [use for use in uses if use.dimensions == COPIES]
    layers = LAYERS / totals.pipeline
    held = 2 * (32 / x) * (2 * LATENT * 24 / e + 24 / e + LATENT) * layers
    copies = placement.gpus // totals.pipeline // (x * e)
    expected: dict[tuple[int, int], float] = {}
    for ranks in stages_of(placement):
        for place in range(x * e):
            group = ranks[place :: x * e]
            following = zip(group, (*group[1:], group[0]), strict=True)
            expected |= dict.fromkeys(following, 2 * held * (copies - 1) / copies)
    found: dict[tuple[int, int], float] = {}
    for use in sums:
        for pair, amount in cells(use_traffic(use, placement, "ring", gpus=placement.gpus)).items():
            found[pair] = found.get(pair, 0.0) + amount * use.times
    assert same(found, expected if copies > 1 else {})
    others = {placement.degree(*use.dimensions) for use in uses if use.kind == "data"} - {copies}
    assert others <= {placement.gpus // totals.pipeline // totals.tensor}


@pytest.mark.parametrize(("inside", "outside", "x", "e"), PLACED)
def test_members_of_levels_are_those_that_lie_there(
    inside: dict[str, int], outside: dict[str, int], x: int, e: int
) -> None:
    placement = placed(inside, outside, x, e)
    domain = prod(placement.levels[0])
    for group in (EXPERTS, COPIES):
        members = placement.groups(*group)
        within, across = placement.splits(*group)
        assert placement.degree(*group) == members.shape[1] == within * across
        assert sorted(members.ravel().tolist()) == list(range(placement.gpus))
        for ranks in members.tolist():
            counts = np.bincount([rank // domain for rank in ranks])
            assert {*counts[counts > 0].tolist()} == {within}
        lying = group_over(placement, *group)
        assert lying.members.ravel().tolist() == [within, across]


def test_groups_that_fill_domains_unevenly_stand_at_the_outermost_level() -> None:
    """Four of six GPUs of a domain share tokens: the second group lies on two domains."""
    placement = placed({"data": 6}, {"data": 2}, 4, 1)
    assert placement.groups(*EXPERTS).tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert placement.splits(*EXPERTS) == (1, 4)
    assert placement.splits(*COPIES) == (1, 3)
    # Tensor groups that others lie between keep their members together.
    between = placed({"tensor": 2, "data": 3}, {"tensor": 2, "data": 2}, 1, 4)
    assert between.groups(*COPIES)[0].tolist() == [0, 2, 4, 12, 14, 16]
    assert between.splits(*COPIES) == (1, 6)


def test_experts_that_no_stage_holds_are_refused() -> None:
    with pytest.raises(InputError, match="a stage of 12 GPUs has no groups"):
        placed({"data": 6}, {"data": 2}, 8, 1).groups(*EXPERTS)
    with pytest.raises(InputError, match="no groups of folded experts"):
        Placement((Degrees(data=4),)).splits(*EXPERTS)


@pytest.mark.parametrize(
    ("sizes", "members", "apart", "found"),
    [
        ((8, 4), 16, 1, [(8, 1), (2, 1)]),
        ((8, 4), 4, 2, [(4, 2), (1, 1)]),
        ((8, 4), 2, 16, [(1, 8), (2, 2)]),
        ((8, 4, 4), 8, 8, [(1, 8), (4, 1), (2, 1)]),
        ((4, 2), 1, 8, [(1, 4), (1, 2)]),
    ],
)
def test_levels_are_filled_one_after_the_other(
    sizes: tuple[int, ...], members: int, apart: int, found: list[tuple[int, int]]
) -> None:
    assert [tuple(level) for level in spread_over(sizes, members, apart)] == found


@pytest.mark.parametrize(
    ("domain", "domains", "copies"), [(2, 2, 2), (2, 3, 2), (3, 2, 3), (4, 1, 3), (1, 4, 3)]
)
def test_a_row_goes_once_to_each_place(domain: int, domains: int, copies: int) -> None:
    """Against all ways in which copies of a row may choose among the GPUs of a group."""
    over = domain * domains
    chosen = [{*ways} for ways in product(range(over), repeat=copies)]
    own = 0  # a row of the first GPU
    out = np.mean([len({gpu // domain for gpu in gpus} - {own}) for gpus in chosen])
    within = np.mean([len(gpus - {own}) for gpus in chosen])
    placement = Placement(
        (Degrees(data=domain), Degrees(data=domains)), folded=Folding(over, 1, copies)
    )
    row_bytes = 96.0
    found = cells(merged_traffic(placement, data_bytes=row_bytes * copies, kind="expert"))
    for rank in range(over):
        sent = {there: amount for (here, there), amount in found.items() if here == rank}
        inside = sum(sent[there] for there in sent if there // domain == rank // domain)
        outside = sum(sent[there] for there in sent if there // domain != rank // domain)
        if 1 in (domain, domains):
            assert inside + outside == pytest.approx(row_bytes * within)
        else:
            assert inside == pytest.approx(row_bytes * within)
            assert outside == pytest.approx(row_bytes * out)
            assert {there % domain for there in sent if there // domain != rank // domain} == {
                rank % domain
            }


@pytest.mark.parametrize("merged_copies", [0, CHOSEN])
@pytest.mark.parametrize("algorithm", ["direct", "hierarchical"])
@pytest.mark.parametrize("fabric", ["fat-tree", "rail-optimized", "rail-only"])
def test_links_carry_what_ranks_send(fabric: str, algorithm: Any, merged_copies: int) -> None:  # noqa: ANN401 - names
    """Cards carry twice what crosses domains, HB links twice all other bytes: up and down.

    On rails a copy for another rail is forwarded inside its domain first, unless copies go to the
    own place of other domains, as merged and hierarchical ones do.
    """
    placement = placed({"tensor": 2, "data": 4}, {"data": 4}, 16, 1)
    placement = replace(placement, folded=Folding(16, 1, merged_copies))
    program = program_of(placement)
    matrix = training_traffic(program, placement, gpus=32, microbatches=3, algorithm=algorithm)
    sizing = Sizing(32, 16, 8, hb_bytes_per_s=450e9, network_bytes_per_s=50e9)
    loads = link_loads(expand(FABRICS.load(fabric), sizing), matrix.of_kind("expert"))
    pairs = cells(matrix.of_kind("expert"))
    crossing = sum(amount for (here, there), amount in pairs.items() if here // 8 != there // 8)
    inside = sum(pairs.values()) - crossing
    carried = {group.group: group.total_bytes for group in loads.by_group()}
    assert carried["host"] == pytest.approx(2 * crossing)
    forwards = fabric == "rail-only" and algorithm == "direct" and not merged_copies
    if forwards:  # seven of eight places of another domain are on other rails
        inside += crossing * 7 / 8
    assert carried["hb"] == pytest.approx(2 * inside)


@pytest.mark.parametrize("dispatcher", ["alltoall", "deepep"])
@pytest.mark.parametrize("fabric", ["fat-tree", "rail-only"])
def test_no_collective_of_a_plan_beats_its_bound(fabric: str, dispatcher: str) -> None:
    """Nor is the model faster than the links: experts on four domains of 8, a rate of 0.58 to 0.82.

    Merged copies cross once to each domain, so that less is bound to.
    """
    answer = netplan.loads(
        "hgx-h100",
        gpus=64,
        fabric=fabric,
        model="qwen3-30b-a3b",
        batch=64,
        dispatcher=dispatcher,
        fixed={"tensor": 2, "pipeline": 1, "expert": 32, "expert_tensor": 1},
        ignore_memory=True,
    ).to_dict()
    (exchange,) = [use for use in answer["collectives"] if use["kind"] == "expert"]
    assert exchange["members"] == 32
    for use in answer["collectives"]:
        assert use["busiest_s"] >= use["bound_s"] * (1 - 1e-9)
        assert use["analytic_s"] >= use["busiest_s"] * (1 - 1e-9)
    # 4,096 x 2 / 2 rows of 2,048 numbers of 2 bytes, eight copies; a start of 36 to 50 us.
    rows_bytes = exchange["data_bytes"] / 8
    share, domains = {"alltoall": (0.58, 8.0), "deepep": (0.82, 4 * (1 - (3 / 4) ** 8))}[dispatcher]
    start_s = {"alltoall": 50e-6, "deepep": 36e-6}[dispatcher]
    out_s = rows_bytes * domains * 3 / 4 / 50e9
    assert exchange["bound_s"] == pytest.approx(out_s, rel=1e-6)
    if fabric == "fat-tree":
        assert exchange["analytic_s"] == pytest.approx(start_s + out_s / share, rel=0.01)
