"""``optimize``: the front against brute force, its demands, its words on what is left out."""

from collections.abc import Mapping
from functools import cache
from itertools import product
from math import ceil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netplan
from netplan.costing.fabric_bill import make_bill
from netplan.errors import InfeasibleError, InputError, NetplanError
from netplan.levels import Level
from netplan.performance.iteration_model import ITERATION_MODELS
from netplan.performance.pareto import comparable
from netplan.performance.search import search_largest
from netplan.performance.setting import TrainedModel
from netplan.questions.optimizing.designs import Objective
from netplan.questions.optimizing.front import Optimization
from netplan.records import replace
from netplan.reports.charts import Chart
from netplan.reports.schema import plain_data
from netplan.scenarios.bill_books import read_books
from netplan.scenarios.reading import CatalogReader, sizing_on
from netplan.topologies.build import build_fabric
from netplan.topologies.specs import FABRICS
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.models import MODELS
from tests.turns import one_in

RATIOS = (1.0, 2.0, 3.0, 4.0)
Key = tuple[object, ...]
SMALL: dict[str, Any] = {"gpus": 512, "model": "gpt-22b", "batch": 512, "hb_sizes": (8, 32)}


def optimize(**question: Any) -> Optimization:  # noqa: ANN401
    """The question with whole prices, two switches, and the quicker of the iteration models."""
    usual: dict[str, Any] = {"prices": "2026", "iteration_model": "ptd-p"}
    if "switches" not in question:
        usual["radices"] = (64, 128)
    return netplan.optimize("rail-only-paper", **(usual | question))


def key_of(key: Mapping[str, object]) -> Key:
    """What a design is called; ratios that come to the same ports are one design."""
    return tuple(key[name] for name in ("fabric", "hb_size", "radix"))


def fronts(answer: Optimization) -> list[tuple[tuple[float, float], set[Key]]]:
    """Each point of the front, with all designs that lie on it."""
    return [
        (
            (comparable(value), comparable(time_s)),
            {key_of(plain_data(design)) for design in (row.design, *row.equal)},
        )
        for (value, time_s), row in zip(answer.points, answer.rows, strict=True)
    ]


def brute_force(  # noqa: PLR0913 - the question
    *,
    gpus: int,
    hb_sizes: tuple[int, ...],
    radices: tuple[int, ...] = (64, 128),
    objective: Objective = "cost",
    model: str = "gpt-22b",
    batch: int = 512,
    iteration_model: str = "ptd-p",
    prices: str = "2026",
) -> dict[Key, tuple[float, float]]:
    """Time every design by a search of its levels; what is priced and timed, by its key.

    The network's sum is its bill's, which has oracles of its own; the gear is counted here.
    """
    on = ACCELERATORS.load("gh200-96gb")
    found: dict[Key, tuple[float, float]] = {}
    scenario = netplan.Scenario.load("rail-only-paper").replace(prices=prices)
    books = read_books(scenario.cluster, scenario.books, CatalogReader())
    # Several sizes are weighed with the gear inside them, where the book has it.
    weighed = prices == "2026" and len(hb_sizes) > 1
    for name, size, radix, ratio in product(FABRICS.paths(), hb_sizes, radices, RATIOS):
        spec = FABRICS.load(name)
        # Only what is sold with the accelerator is in the space, unless it is named.
        others = spec.by_name_only or spec.built_with(on.name) or spec.support_for(on).unsold
        if spec.hb_size not in (None, *hb_sizes) or others:
            continue
        asked = sizing_on(on, gpus=gpus, radix=radix, hb_size=size, oversubscription=ratio)
        sizing = replace(asked, as_published=True)  # as the hall of the scenario says
        try:
            fabric = build_fabric(spec, sizing)
        except InputError:
            continue
        thinned = spec.family in ("clos", "rail-only") and len(fabric.tiers) > 1
        key = (
            name,
            fabric.sizing.hb_size,
            radix if fabric.tiers else None,
            ratio if thinned else None,
        )
        bill = make_bill(spec, sizing, books, fabric=fabric)
        whole = bill.complete and bill.priced
        if objective == "power":
            whole = bill.power_w is not None and not bill.unpowered_apart
        larger = fabric.sizing.hb_size > size  # counts at the size that it brings
        if not fabric.levels or not (whole or larger):
            continue
        value = bill.capital.base if objective == "cost" else bill.power_w or 0.0
        value += gear(fabric.sizing.hb_size, gpus, objective) if weighed else 0.0
        time_s = fastest_s(model, batch, iteration_model, fabric.levels)
        if time_s is not None:
            found[key] = comparable(value), comparable(time_s)
    return found


def gear(size: int, gpus: int, objective: Objective) -> float:
    """Gear of domains of up to 72 GH200: 450 GB/s each, ASICs of 3,600, 800 W; none on boards."""
    if size <= 8:
        return 0.0
    assert size <= 72
    asics = ceil(gpus / size) * ceil(size * 450 / 3600)
    if objective == "power":
        return asics * 800.0
    return asics * 3600 * 5.79 + gpus * 450 * 2.28


@cache
def fastest_s(
    model: str, batch: int, iteration_model: str, levels: tuple[Level, ...]
) -> float | None:
    """Time of the best plan on these levels [s]; none where no plan fits."""
    assumptions = ITERATION_MODELS.load(iteration_model)
    space = replace(assumptions.space, divisibility="free")
    assumptions = replace(assumptions, space=space)
    on = ACCELERATORS.load("gh200-96gb")
    training = TrainedModel.make(on, MODELS.load(model), assumptions, batch=batch)
    try:
        return search_largest(training, levels).plans[0].iteration_time_s
    except InfeasibleError:
        return None


def undominated(
    points: Mapping[Key, tuple[float, float]],
) -> list[tuple[tuple[float, float], set[Key]]]:
    """Points that no other beats, by comparing each with each."""
    values = set(points.values())
    kept = [
        one
        for one in values
        if not any(other[0] <= one[0] and other[1] <= one[1] and other != one for other in values)
    ]
    return [
        (one, {key[:3] for key, point in points.items() if point == one}) for one in sorted(kept)
    ]


SPACES: dict[str, dict[str, Any]] = {
    "512": {"gpus": 512, "hb_sizes": (8, 32), "radices": (16, 32)},
    "no domains": {"gpus": 1024, "hb_sizes": (1, 4, 16), "radices": (16, 64)},
    "uneven": {"gpus": 200, "hb_sizes": (8, 16), "radices": (8, 10), "batch": 600},
    "squares": {"gpus": 900, "hb_sizes": (6, 8), "radices": (64,), "batch": 720},
    "4096": {"gpus": 4096, "hb_sizes": (8, 64), "model": "gpt-175b", "batch": 2048},
    "unpriced": {"gpus": 512, "hb_sizes": (8, 32), "radices": (16, 32), "prices": "rail-only-2023"},
}
IN_TURN = [
    (name, ("ptd-p", "4d")[(turn // 2 + second) % 2])
    for turn, name in enumerate(SPACES)
    for second in (0, 1)
]


@pytest.mark.parametrize(("name", "iteration_model"), one_in(4, IN_TURN))
def test_front_is_that_of_brute_force(name: str, iteration_model: str) -> None:
    question: dict[str, Any] = {"model": "gpt-22b", "batch": 512} | SPACES[name]
    question |= {"iteration_model": iteration_model}
    objectives: tuple[Objective, ...] = ("cost", "power")
    for objective in objectives:
        question |= {"objective": objective}
        answer = optimize(**question)
        assert fronts(answer) == undominated(brute_force(**question))
        searches = answer.tally.searches
        assert searches.run + searches.spared == searches.levels


def test_bounds_spare_searches_where_a_fast_network_costs_little() -> None:
    answer = optimize(gpus=4096, model="gpt-175b", prices="rail-only-2023")
    searches = answer.tally.searches
    assert searches.spared > searches.run + searches.bounds


@pytest.mark.parametrize("objective", one_in(2, ("cost", "power")))
def test_rows_agree_with_compare_to_the_digit(objective: Objective) -> None:
    answer = optimize(
        gpus=16_384, hb_sizes=(8,), accelerator="h100-80gb", objective=objective, batch=2048
    )
    assert len(answer.rows) > 2
    for row in answer.rows:
        for design in (row.design, *row.equal):
            key = plain_data(design)
            (other,) = netplan.compare(
                "rail-only-paper",
                gpus=16_384,
                radix=design.radix or 64,
                hb_size=8,
                accelerator="h100-80gb",
                fabrics=(str(key["fabric"]),),
                oversubscription=design.oversubscription,
                prices="2026",
                iteration_model="ptd-p",
                batch=2048,
            ).rows
            assert other.best is not None
            assert (other.cost, other.power_w) == (design.row.cost, design.row.power_w)
            if key["fabric"] == "rail-only" and other.fabric is not None:
                # 940 W of 128 ports, 8 W a module, 24.9 W a card.
                ports, modules = (
                    other.fabric.switches * (design.radix or 64),
                    other.fabric.transceivers,
                )
                by_hand = 940 / 128 * ports + 8 * modules + 24.9 * 16_384
                assert other.power_w == pytest.approx(by_hand)
            assert other.best.iteration_time_s == row.best.iteration_time_s
        assert row.row.notes == other.notes or row.equal


@cache
def small(budget: float | None) -> Optimization:
    return optimize(**SMALL, radices=(16, 32), budget=budget)


@settings(deadline=None, max_examples=5)
@given(st.floats(0.3, 1.5), st.floats(0.3, 1.5))
def test_a_larger_budget_only_adds_designs(first: float, second: float) -> None:
    dearest = small(None).points[-1][0]
    low, high = sorted((first * dearest, second * dearest))
    try:
        few = fronts(small(low))
    except InfeasibleError:
        return
    many = fronts(small(high))
    # What the smaller budget can pay for stays the front up to there.
    assert few == [point for point in many if point[0][0] <= comparable(low)]
    assert small(low).tally.feasible <= small(high).tally.feasible


@settings(deadline=None, max_examples=4)
@given(
    st.sets(st.sampled_from(("rail-only", "fat-tree", "dragonfly", "torus-2d")), min_size=1),
    st.sampled_from(("rail-optimized", "bcube", "torus-3d", "dragonfly")),
)
def test_a_further_fabric_never_removes_what_it_does_not_beat(few: set[str], more: str) -> None:
    names = tuple(sorted(few))
    before = fronts(optimize(**SMALL, radices=(16,), fabrics=names))
    try:
        both = fronts(optimize(**SMALL, radices=(16,), fabrics=(*names, more)))
    except NetplanError:
        pytest.fail("a space that grows stays feasible")
    now = [point for point, _ in both]
    for point, _ in before:
        beaten = any(a <= point[0] and b <= point[1] and (a, b) != point for a, b in now)
        assert (point in now) != beaten


def test_nothing_is_counted_twice() -> None:
    # Tori: no switches, no uplinks: one design a size. Rail-only of 64 domains on 64 ports: a tier.
    tori = optimize(**SMALL, fabrics=("torus-2d",))
    assert (tori.tally.size, tori.tally.built) == (2, 2)
    rails = optimize(gpus=512, model="gpt-22b", batch=512, hb_sizes=(8,), fabrics=("rail-only",))
    assert rails.tally.size == 2
    # DGX-2 brings domains of 16, whatever is asked; the names may come twice.
    dgx = optimize(**SMALL, fabrics=("dgx-2", "dgx-2"), oversubscriptions=(1.0, 1.0))
    assert (dgx.tally.size, dgx.rows[0].design.fabric.sizing.hb_size) == (2, 16)


def test_a_step_of_the_front_is_read_by_name() -> None:
    answer = small(None)
    step = answer.step(0)
    (paid, slow), (price, fast) = answer.points[:2]
    assert (step.faster, step.price) == (slow / fast - 1, price - paid)
    assert step.per_percent == pytest.approx((price - paid) / (100 * (slow / fast - 1)))


def test_domains_of_other_sizes_are_left_out_unless_named() -> None:
    answer = optimize(**SMALL)
    assert not {"dgx-1", "dgx-2", "nvl72"} & {*answer.inputs["fabrics"]}
    assert "dgx-superpod" in answer.inputs["fabrics"]
    others = "other accelerators: dgx-1 (v100-32gb), dgx-2 (v100-32gb), frontier (mi250x), nvl72"
    assert any(others in one for one in answer.notes)
    faster = {"accelerator.network_bytes_per_s": "50e9"}
    old = optimize(**SMALL | {"accelerator": "v100-32gb", "overrides": faster})
    assert "dgx-1" in old.inputs["fabrics"]
    assert any("HB domains of other sizes: dgx-2 (16)." in one for one in old.notes)
    named = optimize(**SMALL | {"fabrics": ("dgx-2",), "hb_sizes": (16,)})
    assert named.inputs["fabrics"] == ["dgx-2"]
    said = "In the space, as asked for, though built with other accelerators: dgx-2 (v100-32gb)."
    assert said in named.notes
    assert not any("as asked for" in one for one in answer.notes)


def test_default_domains_are_powers_of_two_and_the_accelerators_own() -> None:
    small_cluster = optimize(gpus=48, model="gpt-22b", accelerator="h100-80gb", batch=48)
    assert small_cluster.inputs["hb_sizes"] == [8, 16, 32]
    own = optimize(gpus=100, model="gpt-22b", batch=100)
    assert own.inputs["hb_sizes"] == [8, 16, 32, 64, 100]


def test_survivors_only() -> None:
    pair = SMALL | {"fabrics": ("fat-tree", "rail-optimized"), "hb_sizes": (8,)}
    pair |= {"oversubscriptions": (1.0,), "radices": (64,)}
    free, safe = optimize(**pair), optimize(**pair, survives_switch=True)
    # Both cost and train the same, but a server of the fat tree lies under one leaf.
    assert [one.choice.spec.name for one in free.rows[-1].equal] == ["rail-optimized"]
    assert not any(row.loss.survives for row in free.rows)
    assert all(row.loss.survives and not row.equal for row in safe.rows)
    (_, verdict) = safe.tally.constraints
    assert verdict.met + verdict.excluded == safe.tally.built
    assert verdict.met == safe.tally.feasible
    with pytest.raises(InfeasibleError, match="takes 100 % of an HB domain's ports"):
        optimize(**SMALL, fabrics=("fat-tree",), radices=(64,), survives_switch=True)


def test_verdicts_add_up() -> None:
    answer = optimize(**SMALL, radices=(16, 32), budget=2.5e6, max_power_w=35e3)
    tally = answer.tally
    names = [verdict.name for verdict in tally.constraints]
    assert names == ["complete", "max_power", "budget"]
    assert all(verdict.met + verdict.excluded == tally.built for verdict in tally.constraints)
    budget = tally.constraints[2]
    assert 0 < budget.alone < budget.excluded
    freed = optimize(**SMALL, radices=(16, 32), max_power_w=35e3)
    assert freed.tally.feasible - tally.feasible == budget.alone


OF_TOMAHAWK_5 = (
    *("2500s", "7060x6-64pe", "n9364e-sg2", "qfx5240-64od", "s9321-64eo", "sn5600", "sn5610"),
    *("tomahawk-ultra", "z9864f"),
)
"""Boxes of 51.2 Tb/s with 128 ports of 400G."""


def test_switch_models_and_their_delivery(tmp_path: Path) -> None:
    both = optimize(**SMALL, fabrics=("rail-only",), switches=("qm9700", "sn5600"))
    assert both.inputs["radices"] == [64, 128]
    sold = optimize(**SMALL, fabrics=("rail-only",), delivery="shipping")
    # 64 and 128 ports of 400G: all models that are sold, those known best first.
    names = sold.inputs["switches"]
    assert names[:2] == ["qm9700", "qm9790"]
    assert set(names) == {"qm9700", "qm9790", "sn5400", *OF_TOMAHAWK_5}
    verdict = sold.tally.constraints[1]
    assert (verdict.excluded, verdict.unknown) == (0, 0)
    # Of boxes that cost and draw the same the one known best is named.
    assert {row.design.switch.name for row in sold.rows if row.design.switch} <= {
        "qm9700",
        "qm9790",
        "sn5600",
        "sn5610",
        "2500s",
    }
    soon = optimize(
        **SMALL,
        fabrics=("rail-only",),
        switches=("qm9700", "qm9790"),
        max_lead_time_weeks=26,
        overrides={"qm9700.lead_time_weeks": "20", "qm9790.lead_time_weeks": "40"},
    )
    assert {row.design.switch.name for row in soon.rows if row.design.switch} == {"qm9700"}
    with pytest.raises(InfeasibleError, match="within 4 weeks: qm9700 unknown"):
        optimize(**SMALL, fabrics=("rail-only",), switches=("qm9700",), max_lead_time_weeks=4)
    with pytest.raises(InfeasibleError, match="32 ports no model in the catalog"):
        optimize(**SMALL, fabrics=("rail-only",), radices=(32,), delivery="shipping")
    direct = ("fat-tree", "torus-2d", "torus-3d")
    tori = optimize(**SMALL, fabrics=direct, radices=(32,), delivery="shipping")
    assert all(not row.design.fabric.tiers for row in tori.rows)
    folder = tmp_path / "costing" / "switches"
    folder.mkdir(parents=True)
    text = Path("costing/switches/qm9790.yaml").read_text(encoding="utf-8")
    (folder / "mine.yaml").write_text(
        text.replace("name: qm9790", "name: mine").replace("shipping", "announced")
    )
    for wanted, expected in (("shipping", False), ("announced", True)):
        found = optimize(
            **SMALL, fabrics=("rail-only",), radices=(64,), delivery=wanted, catalog=tmp_path
        )
        named = {
            one.switch.name if one.switch else None
            for row in found.rows
            for one in (row.design, *row.equal)
        }
        assert ("mine" in named) is expected


def test_unpriced_designs_prove_nothing() -> None:
    several = ("rail-only", "fat-tree", "dragonfly", "torus-2d", "torus-3d")
    answer = optimize(**SMALL, prices="rail-only-2023", fabrics=several)
    fabrics = {row.design.choice.spec.name for row in answer.rows}
    assert "dragonfly" not in fabrics
    (note,) = [note for note in answer.notes if note.startswith("Left out")]
    assert "copper cables (400G)" in note
    assert "transceivers (66.67G)" in note
    with pytest.raises(InfeasibleError, match="no design has its whole price"):
        optimize(**SMALL, prices="rail-only-2023", fabrics=("dragonfly",))
    # Their cost is not known, so a budget cannot be met, even if power is the objective.
    asked: dict[str, Any] = SMALL | {"prices": "rail-only-2023", "fabrics": several}
    by_power = optimize(**asked, objective="power", budget=1e9)
    assert by_power.tally.constraints[-1].unknown > 0


def test_free_domains_are_said_to_be_free(tmp_path: Path) -> None:
    free = optimize(**SMALL, prices="rail-only-2023")
    assert any("Larger HB domains look free" in note for note in free.notes)
    alone = optimize(**(SMALL | {"hb_sizes": (8,)}))
    assert not any("domains look" in note for note in alone.notes)
    folder = tmp_path / "costing" / "prices"
    folder.mkdir(parents=True)
    text = Path("costing/prices/2026.yaml").read_text(encoding="utf-8")
    row = (
        "prices:\n  - {part: hb_gear, unit: USD/GPU, base: 900, date: '2026', source: an offer,"
        " confidence: low}\n"
    )
    (folder / "mine.yaml").write_text(
        text.replace("name: 2026", "name: mine")
        .replace('name: "2026"', "name: mine")
        .replace("prices:\n", row, 1)
    )
    priced = optimize(**SMALL, prices="mine", catalog=tmp_path)
    assert priced.sizes.rows
    (row,) = priced.to_dict()["hb_sizes"][1:]
    assert row["gear_per_gpu"]["base"] == 900
    power = optimize(**SMALL, objective="power")
    assert any("Power holds the gear inside HB domains" in note for note in power.notes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"budget": -5.0}, "--budget is above 0, got -5"),
        ({"max_power_w": float("nan")}, "--max-power is above 0, got nan"),
        ({"max_lead_time_weeks": float("inf")}, "--max-lead-time is above 0, got inf"),
        ({"radices": (127,)}, "switch radix 127 cannot be used"),
        ({"hb_sizes": (1024,)}, "an HB domain of 1,024 GPUs is out of range: give 1 to 512"),
        ({"fabrics": ("rail-onyl",)}, "did you mean rail-only"),
        ({"oversubscriptions": (0.5,)}, "oversubscription 0.5:1 is out of range"),
        ({"objective": "speed"}, "unknown --for 'speed': use cost, power"),
        ({"delivery": "soon"}, "unknown --delivery 'soon': use shipping, announced"),
        ({"radices": (64,), "switches": ("qm9700",)}, "give one of them"),
        ({"switches": ("qm8700",)}, "add --nic 200 .* or take qm9700"),
        ({"switches": ("palomar",)}, "forwards no packets"),
        ({"gpus": 4}, "4 GPUs are out of range"),
    ],
)
def test_wrong_inputs(change: dict[str, Any], message: str) -> None:
    with pytest.raises(NetplanError, match=message) as error:
        optimize(**(SMALL | change))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        # 512 switch ports, 1,024 modules, 512 cards and fibres:
        # 512 (781 + 2 x 659 + 1,499 + 133.58) = 1,910,569 USD.
        (
            {"budget": 1e6, "fabrics": ("rail-only",), "radices": (64,)},
            r"rail-only, HB 8, radix 64, costs 1\.9 M USD, the limit is 1\.0 M USD: allow",
        ),
        (
            {"max_power_w": 10.0, "survives_switch": True},
            r"within --max-power: .* kW more, .* \(of \d+ designs that meet survival of any one",
        ),
        ({"fabrics": ("frontier",), "radices": (32,)}, "no design can be built: frontier"),
        ({"model": "gpt-1t", "gpus": 64}, "gpt-1t fits on no plan: the nearest needs"),
        (
            {"gpus": 64, "hb_sizes": (64,), "fabrics": ("torus-2d",), "model": "llama-3-8b"},
            "no design has a network, all GPUs are in one HB domain: give smaller ones",
        ),
        # Domains of 8 do not fill switches of 10 or 11 ports, and switches of 16 are too large.
        ({"gpus": 100, "fabrics": ("bcube",), "radices": (12,)}, "no design has an iteration time"),
    ],
)
def test_what_excludes_the_last_designs(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InfeasibleError, match=message):
        optimize(**(SMALL | change))


def test_tori_of_one_domain_are_left_out_for_having_no_network() -> None:
    asked: dict[str, Any] = {"gpus": 64, "hb_sizes": (64,), "model": "llama-3-8b", "batch": 64}
    asked |= {"radices": (64,), "fabrics": ("rail-optimized", "torus-2d", "torus-3d")}
    notes = optimize(**asked).text(details=True)
    assert "Left out, 2 designs of torus-2d, torus-3d: no network to buy, since all" in notes
    assert " for , " not in notes


def test_the_chart_shows_the_front_what_is_beaten_and_the_verdict() -> None:
    answer = optimize(**SMALL)
    chart = next(one for one in answer.sections() if isinstance(one, Chart))
    drawn = {str(series["name"]): series for series in chart.data}
    assert list(drawn) == ["beaten", "Pareto front", "the verdict's"]
    front, beaten = (
        list(zip(drawn[name]["x"], drawn[name]["y"], strict=True))  # type: ignore[call-overload]
        for name in ("Pareto front", "beaten")
    )
    assert len(front) == len(answer.rows)
    star = (drawn["the verdict's"]["x"], drawn["the verdict's"]["y"])
    assert star == tuple([value] for value in front[answer.knee or 0])
    # Each beaten design costs no less and is no faster than some design of the front.
    assert beaten
    for price, time_s in beaten:
        assert any(x <= price * (1 + 1e-9) and y <= time_s * (1 + 1e-9) for x, y in front)
    assert chart.said[0].startswith("On the front, from the left: 1 ")
    equal = sum(len(row.equal) for row in answer.rows)
    counted = len(front) + equal + len(beaten) + answer.spared + answer.tally.untimed
    assert counted == answer.tally.feasible
