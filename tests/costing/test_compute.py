"""Expanded memory and accelerators on the bill: by hand, and nothing where nobody asks."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan import compare, cost
from netplan.costing.fabric_bill import BillBooks, make_bill
from netplan.costing.materials import Compute, compute_lines
from netplan.costing.prices import POWER_BOOKS, PRICE_BOOKS, PriceBook
from netplan.costing.pricing import price_bill
from netplan.costing.ranges import Range
from netplan.errors import InputError, UnknownNameError
from netplan.records import RecordError, replace
from netplan.topologies.fabric import Sizing
from netplan.topologies.specs import FABRICS
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.technologies import MEMORIES
from tests.costing.test_pricing import CABLING

BOOK = PRICE_BOOKS.load("2026")
H100, TIER = ACCELERATORS.load("h100-80gb"), MEMORIES.load("comet-480gb")
ASKED: dict[str, Any] = {"gpus": 1024, "radix": 64, "accelerator": "h100-80gb", "prices": "2026"}
PRICED = [name for name in MEMORIES.paths() if MEMORIES.load(name).memory_bytes]


def test_memory_and_accelerators_by_hand() -> None:
    # 1,024 x 480 GB at 3.98, 7.03, 10.94 USD; 1,024 H100 at 32,251, 37,251, 38,126.
    chips, memory = (
        price_bill([line], BOOK).total for line in compute_lines(Compute(H100, TIER), 1024, 400.0)
    )
    assert memory == Range(480 * 1024 * 3.98, 480 * 1024 * 7.03, 480 * 1024 * 10.94)
    assert chips == Range(1024 * 32_251, 1024 * 37_251, 1024 * 38_126)


def test_a_part_of_a_gigabyte_is_a_whole_one() -> None:
    odd = replace(TIER, memory_bytes=255.2e9)
    assert [line.price_units for line in compute_lines(Compute(memory=odd), 8, 400.0)] == [256]


def test_they_are_added_to_the_network_and_nothing_else_moves() -> None:
    (alone,) = cost("rail-only-paper", **ASKED, fabrics=("rail-only",)).bills
    whole = cost(
        "rail-only-paper",
        **ASKED,
        fabrics=("rail-only",),
        expanded_memory="comet-480gb",
        networks=("accelerators",),
    )
    (counted,) = whole.bills
    assert counted.quote.items[: len(alone.quote.items)] == alone.quote.items
    assert counted.memory.base == 480 * 1024 * 7.03
    beside = counted.cost_of("memory", "accelerators").base
    assert beside == counted.memory.base + 1024 * 37_251
    assert counted.capital.base == pytest.approx(alone.capital.base + beside)
    # 700 W each; the power of the memory is not known, and said so.
    assert counted.draw.typical_w == pytest.approx(alone.draw.typical_w + 1024 * 700)
    assert [line.part for line in counted.unpowered_apart] == ["memory"]
    assert "racks of the servers" in whole.left_out
    assert "controllers, cards and slots of expanded memory" in whole.left_out


@settings(max_examples=30)
@given(
    st.sampled_from(["rail-only", "rail-optimized", "fat-tree", "torus-2d"]),
    st.integers(2, 512).map(lambda half: 8 * half),
    st.sampled_from(["2026", "rail-only-2023"]),
    st.sampled_from(PRICED),
)
def test_without_them_the_bill_is_what_it_was(
    fabric: str, gpus: int, prices: str, memory: str
) -> None:
    spec, sizing = FABRICS.load(fabric), Sizing(gpus, 64, 8, 450e9, 50e9)
    book = PRICE_BOOKS.load(prices)
    before = replace(
        book, prices=tuple(p for p in book.prices if p.part not in ("memory", "accelerator"))
    )
    books = BillBooks(book, POWER_BOOKS.load("2026"), CABLING)
    bill = make_bill(spec, sizing, books)
    assert bill.quote == make_bill(spec, sizing, replace(books, prices=before)).quote
    assert bill.cost_of("memory", "accelerators") == Range.point(0.0)
    compute = Compute(memory=MEMORIES.load(memory))
    counted = make_bill(spec, sizing, replace(books, compute=compute))
    assert counted.quote.items[:-1] == bill.quote.items
    assert counted.capital.base == pytest.approx(bill.capital.base + counted.memory.base, rel=1e-12)


def test_what_has_no_price_is_said_and_sets_the_bill_apart() -> None:
    question = {**ASKED, "accelerator": "h100-96gb-500w", "fabrics": ("rail-only",)}
    (bill,) = cost("rail-only-paper", **question, networks=("accelerators",)).bills
    assert [line.priced_as for line in bill.unpriced_apart] == ["accelerators (h100-96gb-500w)"]
    assert not bill.complete


def test_bad_input_in_one_line() -> None:
    with pytest.raises(InputError, match=r"ddr4: its file leaves the capacity open: take one of c"):
        cost("rail-only-paper", **ASKED, expanded_memory="ddr4")
    with pytest.raises(UnknownNameError, match="memory 'comet-480': did you mean comet-480gb"):
        cost("rail-only-paper", **ASKED, expanded_memory="comet-480")
    row = {
        "part": "memory",
        "unit": "USD/GB",
        "base": 5,
        "date": "2026",
        "source": "an offer",
        "confidence": "low",
    }
    book = {"name": "x", "title": "x", "source": "x", "date": "x", "currency": "USD"}
    with pytest.raises(RecordError, match="memory needs a model: its kind, such as ddr5"):
        PriceBook.read({**book, "prices": [row]})
    with pytest.raises(RecordError, match="unit must be 'USD/GB', got 'USD/each'"):
        PriceBook.read({**book, "prices": [{**row, "unit": "USD/each", "model": "ddr5"}]})


def test_memory_behind_a_gpu_changes_its_plan_and_its_price() -> None:
    # 1,024 GPUs of 80 GB: with more behind them a model of 1.03e12 parameters needs half the tensor
    # degree, so that gradients of twice the replicas pass in place of more layers' results.
    def row(memory: str) -> dict[str, Any]:
        answer = compare("comet-paper", fabrics=("comet-pods",), expanded_memory=memory)
        first: dict[str, Any] = answer.to_dict()["fabrics"][0]
        return first

    alone, larger = row("none"), row("comet-480gb")
    assert alone["memory_bytes"] < 80e9 < larger["memory_bytes"] < 560e9
    assert (alone["plan"]["tensor"], larger["plan"]["tensor"]) == (64, 32)
    assert larger["iteration_time_s"] == pytest.approx(0.9315 * alone["iteration_time_s"], rel=1e-3)
    assert alone["memory_cost"]["base"] == 0
    price_usd_per_gb = 7.03
    assert larger["memory_cost"]["base"] == pytest.approx(1024 * 480 * price_usd_per_gb)
