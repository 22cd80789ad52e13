"""Famous runs: what netplan is told of them, what it chooses, and the rule on its choices."""

from pathlib import Path
from statistics import median

import pytest

from netplan.performance import published_runs
from netplan.performance.iteration_model import ITERATION_MODELS
from netplan.performance.published_runs import published_rows
from netplan.published import checks, famous_runs
from netplan.published.checks import published
from netplan.published.famous_runs import (
    CHOICES,
    COUNTED,
    LEAST,
    MOST,
    TITLE,
    FamousChoice,
    choice_checks,
    choice_sections,
    chosen_plan,
    famous_choices,
)
from netplan.records import replace
from netplan.reports.schema import plain_data
from netplan.reports.sections import Table
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.models import MODELS

ASKED = {
    *("accelerator", "gpus", "hb_size", "network_kind", "model", "batch", "precision", "overrides")
}
REPLACED = {
    "accelerator.network_bytes_per_s",
    *(f"model.{name}" for name in ("sequence_length", "vocabulary", "heads", "rotary")),
}


def test_dense_rows_are_those_of_the_measured_runs_and_their_models_have_files() -> None:
    rows = {row["id"]: row for row in published_rows()}
    dense = [row for row in published("famous-runs") if row["kind"] == "dense"]
    assert len(dense) == 28
    for row in dense:
        run, model = rows[row["id"]], MODELS.load(row["model"])
        same = {
            "sequence": "seq",
            "vocabulary": "vocab",
            "batch": "global_batch",
            "gpus": "gpus",
            "seconds": "sec_per_iter",
            "tensor": "tp",
            "context": "cp",
            "pipeline": "pp",
            "data": "dp",
            "interleave": "vp",
            "microbatch": "micro_batch",
            "zero": "zero",
            "network_bytes_per_s": "network_bytes_per_s",
        }
        assert all(float(row[ours]) == float(run[theirs]) for ours, theirs in same.items())
        assert row["accelerator"] == run["accelerator"]
        assert (row["precision"], row["software"]) == (run["precision"], run["stack"])
        model = model.changed(heads=int(row["heads"]), rotary=row["rotary"] == "true")
        sizes = model.layers, model.hidden_size, model.inner_size, model.heads, model.key_heads
        names = ("layers", "hidden", "ffn", "heads", "kv_heads")
        assert sizes == tuple(int(float(run[name])) for name in names), row["id"]
        assert model.head_elements == float(run["head_dim"])
        assert model.gated_ffn is (run["gated"] == "True")
        assert model.rotates is (run["rotary"] == "True")


def test_rows_are_the_largest_and_fastest_of_their_source_accelerator_and_model() -> None:
    """The rule of the README, whatever netplan makes of the runs."""
    rows = {row["id"]: row for row in published_rows()}

    def size(row: dict[str, str]) -> tuple[float, float]:
        tokens = float(row["global_batch"]) * float(row["seq"])
        return float(row["gpus"]), tokens / float(row["gpus"]) / float(row["sec_per_iter"])

    chosen = {row["id"] for row in published("famous-runs")}
    for name in chosen & rows.keys():
        run = rows[name]
        keys = ("source", "accelerator", "layers", "hidden", "kv_heads")
        alike = [row for row in rows.values() if all(row[key] == run[key] for key in keys)]
        assert max(alike, key=size)["id"] == name
    large = {
        tuple(row[key] for key in ("source", "accelerator", "layers", "hidden"))
        for row in rows.values()
        if (row["layers"], row["hidden"]) in {("126.0", "16384.0"), ("96.0", "12288.0")}
        and row["heads"] in {"128.0", "96.0"}
        and row["source"] != "BIGSCIENCE"
    }
    listed = {
        tuple(rows[name][key] for key in ("source", "accelerator", "layers", "hidden"))
        for name in chosen & rows.keys()
    }
    assert large <= listed


def test_every_row_says_where_it_was_published_and_runs_on_a_known_accelerator() -> None:
    for row in published("famous-runs"):
        assert row["url"]
        assert row["software_year"].isdecimal()
        assert ACCELERATORS.load(row["accelerator"]).memory_bytes > 0
        degrees = ("tensor", "context", "pipeline", "data")
        gpus = 1
        for name in degrees:
            gpus *= int(row[name])
        assert gpus == int(row["gpus"])


def test_netplan_is_told_nothing_of_the_plan_or_the_time() -> None:
    for run in famous_runs.famous_runs():
        assert set(run.asked) - {"software_date"} == ASKED
        assert "software_date" in run.asked or not run.counts
        assert set(run.asked["overrides"]) == REPLACED


def test_plans_are_the_same_without_the_files_of_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = famous_choices()
    some = [choice for choice in known if choice.run.counts]
    assert len(some) >= 8
    monkeypatch.setattr(checks, "shipped_root", lambda: tmp_path)
    monkeypatch.setattr(published_runs, "shipped_rows", lambda place: (tmp_path / place).open())
    published_rows.cache_clear()
    with pytest.raises(FileNotFoundError):
        famous_runs.famous_runs()
    with pytest.raises(FileNotFoundError):
        published_rows()
    for choice in some:
        anew = chosen_plan(choice.run)
        assert (anew.reason, anew.seconds, anew.plan) == (
            choice.reason,
            choice.seconds,
            choice.plan,
        )


def taking(times: float, choice: FamousChoice) -> FamousChoice:
    """The choice if it took so many times the published seconds."""
    best = next(other.best for other in famous_choices() if other.best)
    return replace(choice, best=replace(best, iteration_time_s=times * choice.run.seconds))


def test_three_of_four_have_to_be_within_the_limits_and_seven_of_eight_are_aimed_at() -> None:
    counted = [choice for choice in famous_choices() if choice.run.counts]
    assert len(counted) == 17  # of which 7/8 are 14.9: fifteen; 3/4 are 12.75: thirteen
    assert all(choice.run.software in COUNTED for choice in counted)
    for far, verdict in ((2, "known"), (3, "known"), (4, "known"), (5, "fail")):
        within = [taking(LEAST, choice) for choice in counted[far:]]
        outside = [taking(MOST + 0.01, choice) for choice in counted[:far]]
        *single, rule = choice_checks((*outside, *within))
        assert (rule.expected, rule.got) == ("at least 15", f"{17 - far}")
        assert rule.verdict == verdict
        far_off = [row for row in single[:far] if row.grade != "off" and row.verdict != "fail"]
        assert not far_off  # a plan that takes longer than the run's own is worse than recorded


def test_bars_say_how_much_faster_chosen_plans_are() -> None:
    counted = [choice for choice in famous_choices() if choice.run.counts]
    ratios = [choice.ratio for choice in counted if choice.ratio is not None]
    assert len(ratios) == len(counted) == 17
    part = ITERATION_MODELS.load("calibrated").calibration
    assert part is not None
    assert part.errors.chosen == pytest.approx(median(ratios), abs=0.015)


def test_what_does_not_count_is_listed_with_its_reason() -> None:
    *single, rule = choice_checks(famous_choices())
    assert len(single) == 36
    assert rule.source == TITLE
    experts = [row for row in single if "wider bars" in row.reason]
    assert len(experts) == 4  # the others are off, each for a reason of its own
    found = [choice for choice in famous_choices() if not choice.run.dense]
    # Of five runs of DeepSeek-V3 on GPUs each within its bar.
    ratios = [choice.ratio for choice in found if choice.run.asked["model"] == "deepseek-v3"][:5]
    assert all(ratio is not None and 0.75 < ratio < 1.15 for ratio in ratios)
    assert len([row for row in single if "other software" in row.reason]) == 11
    off = [row.name.partition(",")[0] for row in single if row.grade == "off"]
    assert [name.partition("-")[0] for name in off] == [
        *("MLPERF41", "MB26.04.01", "MB26.06", "TPUv6e", "TPUv7")
    ]
    assert not [row for row in single if row.verdict == "fail"]
    unfound = [choice for choice in famous_choices() if choice.best is None]
    assert all(choice.reason.startswith("no plan is found: ") for choice in unfound)
    assert all(plain_data(choice)["chosen_s"] is None for choice in unfound)


def test_the_section_has_runs_that_count_others_and_mixtures() -> None:
    tables = [part for part in choice_sections(famous_choices()) if isinstance(part, Table)]
    assert [len(table.rows) for table in tables] == [17, 11, 8]
    assert [col.quantity.title for col in CHOICES] == [
        *("run", "published", "plan", "chosen", "times", "chosen plan")
    ]
