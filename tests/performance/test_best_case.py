"""The lower bound of the plan search: no fabric is faster than the best case of its group."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.errors import InfeasibleError, InputError
from netplan.levels import Level, LevelKind, gpu_count
from netplan.performance.iteration_model import ITERATION_MODELS, IterationModel
from netplan.performance.plan import SearchResult
from netplan.performance.proof import best_case, is_never_slower, search_best_case, time_designs
from netplan.performance.search import PlanSearch, search_plans
from netplan.performance.setting import Options, TrainedModel
from netplan.records import replace
from netplan.scenarios.reading import sizing_on
from netplan.topologies.build import build_fabric
from netplan.topologies.specs import FABRICS
from netplan.traffic.measured_links import MeasuredLinks
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.models import MODELS
from netplan.workloads.operations import Variant
from tests.performance.cases import FOURD, PTDP, small_model
from tests.topologies.kinds import DIRECT
from tests.turns import one_in

ROUNDING = 1e-12
POSITIONS = 16
SHAPES = ((16,), (1, 16), (4, 4), (2, 8), (8, 2), (2, 2, 4), (2, 2, 2, 2))
"""Levels beyond the HB domains; with uneven plans 16 positions are as good as any number."""
KINDS: tuple[LevelKind, ...] = ("switch", "mesh", "ring", "line")
RATES = st.sampled_from((1e9, 50e9, 100e9, 450e9, 3e12))
LATENCIES = st.sampled_from((0.0, 1e-6, 5e-6, 1e-3))


@st.composite
def iteration_models(draw: st.DrawFn) -> IterationModel:
    """Any mixture of the parts of the two presets, with any of the words of the overlap."""
    presets = st.sampled_from((FOURD, PTDP))
    words = {
        "bubble": draw(st.sampled_from(("layer", "compute"))),
        "hop": draw(st.sampled_from(("mean", "slowest"))),
        "data": draw(st.sampled_from(("overlapped", "exposed"))),
        "zero_stage": draw(st.sampled_from((0, 1, 2, 3))),
    }
    parts = {
        "compute": draw(presets).compute,
        "communication": draw(presets).communication,
        "overlap": draw(presets).overlap.changed(**words),
        "space": replace(
            draw(presets).space, divisibility=draw(st.sampled_from(("exact", "free", "free")))
        ),
    }
    return FOURD.changed(**parts)


@st.composite
def fabrics(draw: st.DrawFn, domain: int) -> tuple[Level, ...]:
    """Levels over HB domains of this size, with any kinds, rates and latencies."""
    sizes = (domain, *draw(st.sampled_from(SHAPES)))
    first: LevelKind = draw(st.sampled_from(("switch", "mesh")))
    kinds = [first, *(draw(st.sampled_from(KINDS)) for _ in sizes[1:])]
    return tuple(
        Level(kind, size, draw(RATES), draw(LATENCIES), draw(LATENCIES))
        for kind, size in zip(kinds, sizes, strict=True)
    )


@settings(deadline=None, max_examples=50)
@given(st.data(), iteration_models(), st.sampled_from((1, 2, 4)), st.sampled_from((1e12, 1e15)))
def test_no_fabric_beats_the_best_case(
    data: st.DataObject, assumptions: IterationModel, domain: int, flops_per_s: float
) -> None:
    group = [data.draw(fabrics(domain)) for _ in range(data.draw(st.integers(1, 3)))]
    batch, layers = data.draw(st.sampled_from(((64, 4), (64, 4), (50, 7), (9, 5))))
    # Wide layers and slow or fast GPUs: now communication counts, now computing.
    kv_heads = data.draw(st.sampled_from((None, 4)))
    model = small_model(batch=batch, layers=layers, kv_heads=kv_heads)
    training = TrainedModel(model, batch, flops_per_s, 1e12, assumptions, 1e14, 8e12)
    bound = search_best_case(PlanSearch(training), group)
    if bound is None:  # nothing divides
        assert assumptions.space.divisibility == "exact"
        return
    for levels in group:
        found = search_plans(training, levels)
        # The same plans fit: memory does not know the fabric.
        assert (found.enumerated > 0) == (bound.enumerated > 0)
        lower = bound.plans[0].iteration_time_s
        assert lower <= found.plans[0].iteration_time_s * (1 + ROUNDING)


@settings(deadline=None, max_examples=12)
@given(st.data(), st.sampled_from((1, 2, 4, 8)), st.sampled_from((1e12, 1e15)))
def test_no_switched_fabric_beats_the_best_case_on_measured_links(
    data: st.DataObject, domain: int, flops_per_s: float
) -> None:
    made_of = data.draw(st.sampled_from(("infiniband", "efa", "slingshot")))
    group = [
        tuple(
            replace(level, kind="switch", network_kind=made_of)
            for level in data.draw(fabrics(domain))
        )
        for _ in range(2)
    ]
    parts = FOURD.communication.changed(collectives="measured")
    space = replace(FOURD.space, divisibility="free")
    assumptions = FOURD.changed(communication=parts, space=space)
    links = MeasuredLinks.of(
        ACCELERATORS.load(data.draw(st.sampled_from(("h200", "b200", "tpu-v4"))))
    )
    training = TrainedModel(
        small_model(batch=64), 64, flops_per_s, 1e12, assumptions, 1e14, 8e12, links=links
    )
    bound = search_best_case(PlanSearch(training), group)
    assert bound is not None
    for levels in group:
        found = search_plans(training, levels)
        assert bound.plans[0].iteration_time_s <= found.plans[0].iteration_time_s * (1 + ROUNDING)


def test_rings_beside_measured_switches_are_all_searched() -> None:
    assumptions = FOURD.changed(communication=FOURD.communication.changed(collectives="measured"))
    training = TrainedModel.make(ACCELERATORS.load("h200"), small_model(batch=64), assumptions)
    domain, network = Level("switch", 8, 450e9), Level("switch", 4, 1e9)
    designs = [(1.0, (domain, replace(network, link_bytes_per_s=50e9)))]
    designs += [(2.0, (domain, network)), (3.0, (domain, replace(network, kind="ring")))]
    _, switched = time_designs(PlanSearch(training), designs[:2])
    _, whole = time_designs(PlanSearch(training), designs)
    assert (switched.bounds, whole.bounds, whole.run) == (1, 0, 3)


@pytest.mark.parametrize("rules", ["measured", "calibrated", "4d"])
def test_networks_of_unlike_kinds_are_all_searched(rules: str) -> None:
    model = MODELS.load("llama-3-8b")
    training = TrainedModel.make(
        ACCELERATORS.load("h100-80gb"), model, ITERATION_MODELS.load(rules)
    )
    domain, network = Level("switch", 8, 450e9), Level("switch", 2, 50e9)
    slow = replace(network, link_bytes_per_s=10e9)
    alike = [(1.0, (domain, network)), (2.0, (domain, slow))]
    unlike = [alike[0], (2.0, (domain, slow.as_found("efa")))]
    _, bounded = time_designs(PlanSearch(training), alike)
    _, whole = time_designs(PlanSearch(training), unlike)
    assert (bounded.bounds, whole.bounds, whole.run) == (1, 0, 2)
    assert not is_never_slower(alike[0][1], unlike[1][1])
    assert is_never_slower(*(tuple(level.as_found("efa") for level in one) for _, one in alike))


@settings(deadline=None, max_examples=120)
@given(st.data(), iteration_models(), st.sampled_from((1, 2, 4)), st.sampled_from((1e12, 1e15)))
def test_a_network_that_is_nowhere_slower_bounds_the_other(
    data: st.DataObject, assumptions: IterationModel, domain: int, flops_per_s: float
) -> None:
    other = data.draw(fabrics(domain))
    rate, latency = data.draw(RATES), data.draw(LATENCIES)
    one = (other[0], Level("switch", POSITIONS, rate, step_latency_s=latency))
    if not is_never_slower(one, other):
        return
    training = TrainedModel(small_model(batch=64), 64, flops_per_s, 1e12, assumptions, 1e14, 8e12)
    fast, slow = (search_plans(training, levels).plans[0] for levels in (one, other))
    assert fast.iteration_time_s <= slow.iteration_time_s * (1 + ROUNDING)


def test_bounds_do_not_hold_for_experts() -> None:
    """Tokens pay for the slowest level alone: 3/4 of them cross one of 4, 7/8 of 8, 15/16 of 16."""
    training = TrainedModel(small_model(batch=64), 64, 1e15, 1e12, FOURD, 1e14, 8e12)
    options = Options(Variant(experts=16, top_k=2), expert_degree=16)
    search = PlanSearch(training, options=options)
    four, eight = (Level("switch", size, 1e9) for size in (4, 8))
    wide, tall = (Level("switch", 2, 450e9), eight), (Level("switch", 1, 450e9), four, four)
    found, searches = time_designs(search, [(1.0, wide), (2.0, tall)])
    assert (searches.run, searches.spared) == (2, 0)
    slow, fast, bound = found[wide], found[tall], search_best_case(search, [tall])
    assert isinstance(slow, SearchResult)
    assert isinstance(fast, SearchResult)
    assert bound is not None
    assert fast.time_s < slow.time_s < bound.time_s


def test_what_is_nowhere_slower() -> None:
    domain = Level("switch", 8, 450e9, step_latency_s=2e-6)
    fast, thin = (Level("switch", 16, rate, step_latency_s=5e-6) for rate in (100e9, 25e9))
    rings = (domain, *(Level("ring", 4, 50e9, step_latency_s=5e-6) for _ in range(2)))
    assert is_never_slower((domain, fast), (domain, thin))
    assert is_never_slower((domain, fast), rings)
    assert not is_never_slower((domain, thin), rings)
    assert not is_never_slower(rings, (domain, thin))
    # Latency counts too, and that of the domain must be the lower one.
    slow_start = Level("switch", 16, 100e9, step_latency_s=6e-6)
    assert not is_never_slower((domain, slow_start), rings)
    at_once = Level("switch", 16, 100e9, step_latency_s=1e-6)
    assert not is_never_slower((domain, at_once), (domain, thin))
    # Other domains, other sizes.
    assert not is_never_slower((Level("mesh", 8, 450e9), fast), (domain, thin))
    assert not is_never_slower((domain, fast), (domain, Level("switch", 8, 25e9)))


@pytest.mark.parametrize("name", ["4d", "ptd-p"])
@pytest.mark.parametrize("gpus", one_in(2, (1024, 4096)))
def test_shipped_fabrics_do_not_beat_the_best_case(name: str, gpus: int) -> None:
    on, assumptions = ACCELERATORS.load("h100-80gb"), ITERATION_MODELS.load(name)
    training = TrainedModel.make(on, MODELS.load("gpt-175b"), assumptions, batch=2048)
    for hb_size in (1, 8, 64):
        sizing = sizing_on(on, gpus=gpus, radix=64, hb_size=hb_size)
        thin = sizing_on(on, gpus=gpus, radix=64, hb_size=hb_size, oversubscription=3.0)
        specs = {name: FABRICS.load(name) for name in FABRICS.paths()}
        # Graphs of GPUs are measured on their links, which takes seconds.
        names = [
            name for name, one in specs.items() if one.hb_size is None and one.family not in DIRECT
        ]
        built = [
            build_fabric(FABRICS.load(name), size) for name in names for size in (sizing, thin)
        ]
        # Where the last cubes of a torus are filled in part, fewer GPUs are timed.
        whole = [one for one in built if one.levels and gpu_count(one.levels) == gpus]
        group = list({fabric.levels: None for fabric in whole})
        assert len(group) > 3
        bound = search_best_case(PlanSearch(training), group)
        assert bound is not None
        for levels in group:
            time_s = search_plans(training, levels).plans[0].iteration_time_s
            assert bound.plans[0].iteration_time_s <= time_s * (1 + ROUNDING)


def test_two_levels_with_equal_latency_are_their_own_best_case() -> None:
    levels = Level("switch", 8, 450e9), Level("switch", 64, 50e9)
    assert best_case([levels]) == levels


def test_rates_count_all_links_of_a_gpu() -> None:
    mesh = Level("mesh", 8, 50e9), Level("ring", 4, 25e9), Level("ring", 2, 30e9)
    domain, network = best_case([mesh])
    assert (domain.kind, domain.link_bytes_per_s) == ("switch", 7 * 50e9)
    # A ring of four has two links; one of two has one.
    assert (network.size, network.link_bytes_per_s) == (8, 50e9)


def test_nothing_is_bounded_where_no_plan_uses_all_gpus() -> None:
    training = TrainedModel.make(ACCELERATORS.load("h100-80gb"), MODELS.load("gpt-22b"), PTDP)
    levels = Level("switch", 7, 450e9), Level("switch", 11, 50e9)
    with pytest.raises(InfeasibleError):
        search_plans(training, levels)
    assert search_best_case(PlanSearch(training), [levels]) is None


def test_fabrics_of_different_sizes_are_refused() -> None:
    small, large = (Level("switch", size, 450e9) for size in (8, 16))
    with pytest.raises(InputError, match="2 different sizes: group the fabrics first"):
        best_case([(small,), (large,)])
