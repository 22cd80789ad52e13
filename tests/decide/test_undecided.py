"""Where nothing is recommended: ranges of a difference that hold zero, limits by a hair."""

from itertools import combinations, product
from math import fsum, inf
from typing import Any

import pytest

import netplan
from netplan.costing.cabling import CABLING_BOOKS
from netplan.costing.fabric_bill import Bill, BillBooks, make_bill
from netplan.costing.prices import POWER_BOOKS, PRICE_BOOKS
from netplan.costing.pricing import difference_range
from netplan.costing.ranges import Range
from netplan.decide.candidates import Basis, Candidate, Rule, RunBudget
from netplan.decide.difference import differences
from netplan.decide.verdict import Verdict, decide
from netplan.questions.compare import compare
from netplan.reports.quantities import Scale
from netplan.topologies.fabric import Sizing
from netplan.topologies.specs import FABRICS

BOOKS = BillBooks(PRICE_BOOKS.load("2026"), POWER_BOOKS.load("2026"), CABLING_BOOKS.load("2026"))
MONEY = Scale(1e6, "M USD", 1)
FABRICS_COMPARED = ("rail-only", "rail-optimized", "dragonfly", "torus-2d", "hyperx")


def bill(fabric: str, gpus: int = 2048, radix: int = 64) -> Bill:
    """The bill of a fabric of HGX servers at the prices of 2026."""
    return make_bill(FABRICS.load(fabric), Sizing(gpus, radix, 8, 900e9, 50e9), BOOKS)


def at_corner(quote: Bill, ends: dict[str, str]) -> float:
    """Price of a bill with every part at one end of its range."""
    items = [item for item in quote.quote.items if item.price is not None]
    return fsum(getattr(item.total, ends[item.price.what]) for item in items if item.price)


@pytest.mark.parametrize("other", FABRICS_COMPARED[1:])
@pytest.mark.parametrize("radix", [32, 64])
def test_the_range_of_a_difference_is_that_of_all_corners(other: str, radix: int) -> None:
    first, second = bill("rail-only", radix=radix), bill(other, radix=radix)
    items = (*first.quote.items, *second.quote.items)
    parts = sorted({item.price.what for item in items if item.price is not None})
    assert len(parts) <= 10, "or the corners are too many to go through"
    apart = [
        at_corner(second, ends) - at_corner(first, ends)
        for corner in product(("low", "high"), repeat=len(parts))
        if (ends := dict(zip(parts, corner, strict=True)))
    ]
    margin = difference_range(first.quote, second.quote)
    assert margin.low == pytest.approx(min(apart), abs=0.01)
    assert margin.high == pytest.approx(max(apart), abs=0.01)
    assert margin.base == pytest.approx(second.capital.base - first.capital.base, abs=0.01)
    # It turns with its sides, and holds no more than the two ranges apart from each other.
    back = difference_range(second.quote, first.quote)
    assert (back.low, back.base, back.high) == pytest.approx(
        (-margin.high, -margin.base, -margin.low)
    )
    assert margin.low >= second.capital.low - first.capital.high - 0.01
    assert margin.high <= second.capital.high - first.capital.low + 0.01


def candidate(name: str, bill: Bill, time_s: float = inf) -> Candidate:
    """A fabric with its bill."""
    return Candidate(name, bill.capital.base, True, time_s, None, 50e9, bill=bill)


def verdict(*candidates: Candidate, rule: Rule = "price", run: RunBudget | None = None) -> Verdict:
    """What is decided."""
    decided = decide(candidates, Basis(rule, 0.05, run, MONEY))
    assert decided is not None
    return decided


def test_who_may_cost_less_is_not_beaten() -> None:
    bills = {name: bill(name, 32_768, 128) for name in (*FABRICS_COMPARED, "fat-tree", "slim-fly")}
    kinds = set()
    for (name, first), (other, second) in combinations(bills.items(), 2):
        decided = verdict(candidate(name, first), candidate(other, second))
        margin = difference_range(first.quote, second.quote)
        sure = margin.low > 0 or margin.high < 0
        kinds.add(decided.decision.kind)
        (change, *_) = decided.changes or (None,)
        if sure:
            cheap = name if margin.base > 0 else other
            assert (decided.fabric, decided.decision.kind) == (cheap, "buy"), (name, other)
            assert change is not None
            assert "No price in the book flips it: " in change.sentence
        else:
            assert (decided.fabric, decided.decision.kind) == (None, "undecided"), (name, other)
            assert set(decided.tied) == {name, other}
        if not sure and margin.base:
            start = f"Undecided: ask for offers on {' and '.join(decided.tied)}."
            assert decided.sentence.startswith(start)
            assert "by the prices of the book" in decided.sentence
    assert kinds == {"buy", "undecided"}
    # Fewer of everything: the ranges of the totals meet, that of the difference is above zero.
    rails, clos = bills["rail-only"], bills["fat-tree"]
    assert rails.capital.high > clos.capital.low
    assert difference_range(rails.quote, clos.quote).low > 0


def test_a_limit_that_tells_apart_by_a_hair_decides_nothing() -> None:
    def fabric(name: str, price: float, time_s: float) -> Candidate:
        return Candidate(name, price, True, time_s, None, 50e9)

    clos = fabric("clos", 100e6, 10.0)
    # 0.3 points inside the limit of 5 %, and 0.3 beyond it.
    for time_s in (10.47, 10.53):
        late = fabric("late", 60e6, time_s)
        decided = verdict(clos, late, rule="near-fastest")
        assert decided.fabric is None
        assert set(decided.tied) == {"clos", "late"}
        assert "less than a percent" in decided.sentence
    assert verdict(clos, fabric("late", 60e6, 10.35), rule="near-fastest").fabric == "late"
    assert verdict(clos, fabric("late", 60e6, 10.65), rule="near-fastest").fabric == "clos"
    # Dearer and as late: it never would win.
    assert verdict(clos, fabric("late", 160e6, 10.53), rule="near-fastest").fabric == "clos"


@pytest.mark.parametrize("gpus", [1024, 4096, 32_768])
@pytest.mark.parametrize("fabric", ["rail-only", "fat-tree", "dragonfly", "torus-2d", "torus-3d"])
def test_each_of_ten_questions_has_an_answer(fabric: str, gpus: int) -> None:
    asked: dict[str, Any] = {"gpus": gpus, "fabrics": (fabric,), "timing": False}
    decision = compare("hgx-b200", **asked).to_dict()["decision"]
    answers = decision["answers"]
    assert [*answers] == [
        *("order", "price", "runner_up", "flips", "prices_from", "missing", "gives_up"),
        *("supported_by", "spares", "growth"),
    ]
    assert all(text and text.endswith((".", "?")) for text in answers.values()), answers
    bought = decision["kind"] == "buy"
    assert bought == (fabric != "torus-3d"), "whose links of 66.7 Gb/s no book prices"
    orders = (f"{fabric}: ", f"{fabric} (no maker supports it): ")
    assert answers["order"].startswith(orders if bought else "Nothing is recommended")
    assert "a GPU" in answers["price"]
    assert f"To {2 * gpus:,} GPUs: " in answers["growth"]
    assert "95 %" in answers["spares"]


def test_growth_is_that_of_grow() -> None:
    answers = compare("hgx-b200", gpus=4096, timing=False, fabrics=("rail-only",))
    answers = answers.to_dict()["decision"]["answers"]
    grown = netplan.grow("hgx-b200", phases=(4096, 8192), fabrics=("rail-only",)).grown[0]
    bought = grown.steps[1].order.bought
    switches = sum(item.line.order for item in bought.items if item.line.category == "switches")
    assert f"{switches:,} switches" in answers["growth"]
    assert f"{bought.total.base / 1e6:.1f} M USD" in answers["growth"]
    assert f"{grown.ways[2].moved:,} cables move" in answers["growth"]


def test_the_parts_of_a_difference_and_the_rest_sum_to_it() -> None:
    first, second = bill("rail-only", 8192, 128), bill("dragonfly", 8192, 128)
    margin = difference_range(first.quote, second.quote)
    parts = differences(first, second)
    assert fsum(part.difference for part in parts) == pytest.approx(margin.base, abs=0.01)
    assert Range(margin.low, margin.base, margin.high).spread
