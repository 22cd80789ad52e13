"""What studies of PALM's tables and figures say, with its points beside them."""

from typing import Any

import pytest

from tests.studies.shipped import shipped

HANDOVER = "iteration-model.communication.handover"
ADAPTERS = "iteration-model.communication.adapters"
FACTOR = "iteration-model.memory.stationary_factor"


def rows_of(name: str) -> list[dict[str, Any]]:
    """Points of a study, whose values may be of any kind."""
    return [dict(row) for row in shipped(name).rows]


def test_rings_sum_up_at_their_source_and_broken_ones_in_adapters() -> None:
    rows = rows_of("adapter-tiles")
    time_s = {
        (row["fixed.tensor"], row[HANDOVER], row[ADAPTERS]): row["handovers.0.time_s"]
        for row in rows
    }
    assert len(time_s) == len(rows) == 16
    for adapters in (1, 2, 3, 4):
        assert time_s[12, "source", adapters] < time_s[12, "adapters", adapters]
        assert time_s[13, "adapters", adapters] < time_s[13, "source", adapters]
    # "with more adapters ... strategy 1 gradually improves by reducing broadcast time"
    for tiles in (12, 13):
        falling = [time_s[tiles, "source", adapters] for adapters in (1, 2, 3, 4)]
        assert falling == sorted(falling, reverse=True)
    for row in rows:
        assert row["handovers.0.adapters"] == row[ADAPTERS]
        assert row["handovers.0.hop_bytes"] >= row["handovers.0.sent_bytes"]
    printed = {value.published for value in shipped("adapter-tiles").published}
    assert printed == {"3.08", "0.813"}


@pytest.mark.slow
def test_the_map_of_the_text_has_the_snake_ahead() -> None:
    rows = {
        (row["model"], row["placement"]): row["sequences_per_s"]
        for row in rows_of("wafer-mapping")
        if row["accelerator.sram_bytes"] == 3.75e6
        and row["fabric.sizes"] == "[4, 5]"
        and (row["fixed.tensor"], row["groups"]) == (8, "near")
    }
    for model in ("t-18b", "t-145b"):
        assert 1.001 < rows[model, "snake"] / rows[model, "palm-lines"] < 1.005


def test_collectives_alone_keep_links_busy_least_at_degree_2() -> None:
    busy_s = {(row[FACTOR], row["fixed.tensor"]): row["busy_s"] for row in rows_of("wafer-network")}
    for factor, best in ((1e-9, 2), (0.005, 1)):
        degrees = {tensor: time for (of, tensor), time in busy_s.items() if of == factor}
        assert min(degrees, key=degrees.__getitem__) == best


def test_megatron_models_are_those_of_the_published_code() -> None:
    answer = shipped("megatron-on-gpus")
    rows = {row["model"]: row["sequences_per_s"] for row in rows_of("megatron-on-gpus")}
    assert rows["t-145b"] == pytest.approx(89.547, rel=3e-5)
    gaps = [value.gap for value in answer.published]
    assert len(gaps) == 12
    assert all(gap is not None and abs(gap) < 26 for gap in gaps)


def test_schedules_zero_and_optimizers_against_each_other() -> None:
    """Bubbles of 3 of 35 slots, halved by two stages a GPU; ZeRO 1 sends what none sends."""
    rows = {
        (row["schedule"], row["zero_stage"], row["optimizer"]): row
        for row in rows_of("pipeline-options")
    }
    time_s = {key: row["iteration_time_s"] for key, row in rows.items()}
    assert len(time_s) == 24
    for zero_stage in range(4):
        for optimizer in ("adam", "sgd"):
            gpipe, one_f, both = (
                time_s[schedule, zero_stage, optimizer]
                for schedule in ("gpipe", "1f1b", "interleaved")
            )
            assert gpipe == pytest.approx(one_f, rel=5e-3)
            assert both < min(gpipe, one_f)
        assert time_s["1f1b", zero_stage, "adam"] == time_s["1f1b", zero_stage, "sgd"]
    # 32 slots of work and 3 or 1.5 of bubble.
    assert time_s["1f1b", 0, "adam"] / time_s["interleaved", 0, "adam"] == pytest.approx(
        35 / 33.5, rel=0.01
    )
    for schedule in ("gpipe", "1f1b", "interleaved"):
        none, first, second, third = (time_s[schedule, stage, "adam"] for stage in range(4))
        assert first == pytest.approx(none, rel=0.01)
        assert none < second < third
    assert all(row["lower_bound_s"] <= row["iteration_time_s"] for row in rows.values())
