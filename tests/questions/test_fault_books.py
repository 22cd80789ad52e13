"""Failure books and unit counts in the answer: own books, switch models, the record by cause."""

from pathlib import Path
from typing import Any

import pytest

from netplan.errors import InputError, NetplanError
from netplan.faults.years.rates import FAILURE_BOOKS
from netplan.questions.faults import faults
from tests.questions.fault_cases import small


def test_a_rate_above_the_limit_names_file_and_line(tmp_path: Path) -> None:
    shipped = FAILURE_BOOKS.find("rsc-1")
    text = shipped.read_text(encoding="utf-8").replace("rsc-1", "mine")
    bad = tmp_path / "mine.yaml"
    bad.write_text(text.replace("2.3725", "2372.5"), encoding="utf-8")
    with pytest.raises((InputError, NetplanError), match=r"mine\.yaml:\d+"):
        small(failures=str(bad))


BOX = """
name: mine
title: Mine
source: tickets
date: "2026"
rates:
  - cause: Box
    kind: switch
    unit: {unit}
    base: 1
    date: "2026"
    source: tickets
    confidence: high
"""


@pytest.mark.parametrize("unit", ["switch", "leaf_switch", "upper_switch", "transceiver"])
def test_switches_of_an_own_book_are_leaves_and_spines(tmp_path: Path, unit: str) -> None:
    book = tmp_path / "mine.yaml"
    book.write_text(BOX.format(unit=unit), encoding="utf-8")
    fabric = small(failures=str(book), fabrics=("rail-optimized",)).fabrics[0]
    # 32 leaves of 32 GPUs and 16 spines, each once a year: every GPU loses its port once, by its
    # leaf alone; and twice by the modules of its link.
    cut_off = {"switch": 1024, "leaf_switch": 1024, "upper_switch": 0, "transceiver": 2048}
    assert fabric.gpus_cut_off_per_year == pytest.approx(cut_off[unit])
    stops = {"switch": 32, "leaf_switch": 32, "upper_switch": 16, "transceiver": 2048}
    assert fabric.forecast.interruptions_closed_form == pytest.approx(stops[unit])
    causes = {one.cause: one.failures_per_year for one in fabric.forecast.causes}
    if unit == "switch":
        assert causes == {"Box, leaf": 32, "Box, above the leaves": 16}


def test_a_switch_model_gives_the_radix_and_counts_its_modules() -> None:
    asked = {"radix": None, "switch": "qm9700", "fabrics": ("rail-optimized",), "timing": False}
    twin, plain = small(**asked), small(radix=64, fabrics=("rail-optimized",), timing=False)
    assert twin.inputs["radix"] == 64
    assert "switches qm9700 of 64 ports" in twin.text(100, details=True)
    counts = [
        {one.kind: one.units for one in answer.fabrics[0].forecast.spares}
        for answer in (twin, plain)
    ]
    # 1,024 cards, and 32 cages for 64 ports of 32 leaves and of 16 spines.
    assert [one["transceiver"] for one in counts] == [1024 + 48 * 32, 4096]
    assert twin.fabrics[0].gpus_cut_off_per_year == pytest.approx(
        plain.fabrics[0].gpus_cut_off_per_year
    )
    with pytest.raises(InputError, match="--switch qm9700 has 64 ports"):
        small(radix=128, switch="qm9700")


def test_causes_stand_beside_the_record() -> None:
    answer = faults(
        "rail-only-paper",
        gpus=16_384,
        radix=64,
        hb_size=8,
        fabrics=("rail-only",),
        timing=False,
        years=1,
    )
    found = {one.told_apart: one for one in answer.fabrics[0].record}
    # 35 network interruptions in 54 days are 236.6 a year; the book has two modules and a fibre a
    # host link, and 512 leaves: 16,384 x (2 x 0.00876 + 0.00458) + 512 x 0.00612.
    assert found["network"].recorded_per_year == pytest.approx(35 * 365 / 54)
    assert found["network"].interruptions_per_year == pytest.approx(365.2, abs=0.1)
    assert sum(one.interruptions_per_year for one in found.values()) == pytest.approx(
        answer.fabrics[0].forecast.interruptions_closed_form
    )
    assert "beside Llama 3's record for as many GPUs" in answer.text(100, details=True)
    record = small(failures="llama-3-54-days", fabrics=("rail-only",))
    assert record.fabrics[0].record == ()
    assert "beside Llama 3" not in record.text(100, details=True)


def test_why_causes_are_apart_is_said_by_the_book_in_use() -> None:
    # Of 4,608 GPUs most hosts are farther from their leaf than copper reaches, and have modules.
    given: dict[str, Any] = {"gpus": 4608, "fabrics": ("rail-optimized",), "timing": False}
    shown = faults("nvl72-gb200", **given, years=1).text(200, details=True)
    assert "host maintenance: Llama 3's servers have 8 GPUs; of larger HB domains each" in shown
    assert "modules are of Meta's study of 2025" in shown
    other = faults("nvl72-gb200", **given, years=1, failures="rsc-1")
    # RSC-1 counts servers of eight, and has no modules at all.
    assert any(row.differs for row in other.fabrics[0].record)
    text = other.text(200, details=True)
    assert "beside Llama 3's record" in text
    assert not [word for word in ("tray of 4", "Meta", "HPN", "book 2026") if word in text]


def test_a_book_without_rates_is_refused() -> None:
    with pytest.raises(InputError, match="failures crusoe-h200 has no rates"):
        small(failures="crusoe-h200")
