"""MFU of plans in parts that add up, with their reasons, against published runs."""

import csv
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import netplan
from netplan.calibration.published import published_runs
from netplan.catalog import shipped_root
from netplan.inputs.choices import Recompute
from netplan.performance.calibrated_run import peak_of
from netplan.performance.plan import Plan, PlanTime
from netplan.performance.setting import Options, Setting, TrainedModel
from netplan.performance.utilisation import (
    PeakLoss,
    UsualUtilisation,
    Utilisation,
    usual_utilisation,
    utilisation_of,
)
from netplan.reports.schema import plain_data
from netplan.traffic.placement import Degrees, Placement
from netplan.workloads.closed_forms import iteration_flops
from netplan.workloads.models import Model
from netplan.workloads.operations import Variant
from tests.performance.cases import FOURD, small_model

PIPELINE = Plan(Placement((Degrees(pipeline=4),)), 1, 4)


def setting_of(model: Model, batch: int, gpus: int, useful_s: float, **options: object) -> Setting:
    """GPUs of which so many take so long for the model's FLOPs at their peak."""
    peak = iteration_flops(model, batch).model / (gpus * useful_s)
    training = TrainedModel(model, batch, peak, 80e9, FOURD, 1e12, 1e12)
    return Setting(training, options=Options(**options))  # type: ignore[arg-type]


def timed_plan(plan: Plan, **parts_s: float) -> PlanTime:
    """A plan with a time of these parts."""
    return PlanTime(plan, sum(parts_s.values()), parts_s, 0.0, 0.0, 0.0)


def shares(utilisation: Utilisation) -> dict[str, float]:
    return {loss.cause: loss.share for loss in utilisation.causes}


def words(utilisation: Utilisation) -> dict[str, str]:
    return {loss.cause: loss.words for loss in utilisation.causes}


def test_four_microbatches_on_four_stages_wait_three_sevenths() -> None:
    # A stage takes 1 s a microbatch: (p - 1)/(m + p - 1) = 3/7 = 43 % of 7 s. Of 4 s of kernels 2 s
    # would do at the peak.
    setting = setting_of(small_model(layers=4), 4, 4, 2.0)
    lost = utilisation_of(setting, timed_plan(PIPELINE, compute=4.0, bubble=3.0), 4)
    assert lost.mfu == pytest.approx(2 / 7)
    assert shares(lost) == pytest.approx({"bubble": 3 / 7, "kernels": 2 / 7})
    assert lost.sentence() == (
        "MFU 29 %. Lost: bubble 43 % (4 microbatches on 4 stages), kernels 28 % (products and"
        " attention reach 50 % of the bf16 peak)."
    )


def test_idle_gpus_lose_their_share_of_everything() -> None:
    # A fifth of what is bought is idle, and the rest loses four fifths of what it lost.
    setting = setting_of(small_model(layers=4), 4, 4, 2.0)
    lost = utilisation_of(setting, timed_plan(PIPELINE, compute=4.0, bubble=4.0), 5)
    assert lost.mfu == pytest.approx(0.8 * 2 / 8)
    assert shares(lost) == pytest.approx({"bubble": 0.4, "kernels": 0.2, "idle": 0.2})
    assert words(lost)["idle"] == "1 of 5"


def test_five_layers_on_two_stages_leave_a_sixth() -> None:
    # 3 and 2 layers: stages work 2.5/3 of what the fuller one does. Of 6 s, 1 s is that; 5 s at
    # half of the peak.
    plan = Plan(Placement((Degrees(pipeline=2),)), 1, 4)
    setting = setting_of(small_model(layers=5), 4, 2, 2.5)
    lost = utilisation_of(setting, timed_plan(plan, compute=6.0), 2)
    assert shares(lost) == pytest.approx({"uneven_stages": 1 / 6, "kernels": 2.5 / 6})
    assert words(lost)["uneven_stages"] == "3 layers on 1 of 2, 2 on the others"


def test_five_sequences_on_two_replicas_leave_a_sixth() -> None:
    # Two replicas run three microbatches each, of which the last is empty: 5 of 6 slots.
    plan = Plan(Placement((Degrees(data=2),)), 1, 3)
    setting = setting_of(small_model(), 5, 2, 2.5)
    lost = utilisation_of(setting, timed_plan(plan, compute=4.5, memory=1.5), 2)
    # 5/6 of 1.5 s are vector operations; of 4.5 s 3.75 s compute, 2.5 s of them at the peak.
    expected = {"uneven_batch": 1 / 6, "memory": 1.25 / 6, "kernels": 1.25 / 6}
    assert shares(lost) == pytest.approx(expected)
    assert words(lost)["uneven_batch"] == "5 sequences in 3 microbatches of 1 on each replica"
    assert "67 %" in words(lost)["kernels"]


def test_the_head_makes_the_last_stage_the_slowest() -> None:
    setting = setting_of(small_model(), 4, 4, 2.0, variant=Variant(lm_head=True))
    lost = utilisation_of(setting, timed_plan(PIPELINE, compute=4.0), 4)
    # Of h = 512, s = 256, V = 1,000: a layer has 72 h^2 + 12 s h = 20.4 MFLOP a token and the head
    # 6 h V = 3.07 MFLOP, so that stages work (4 + 0.15)/4 of 1.15.
    head = 6 * 512 * 1000 / (72 * 512**2 + 12 * 256 * 512)
    assert shares(lost)["uneven_stages"] == pytest.approx(1 - (1 + head / 4) / (1 + head))
    assert words(lost)["uneven_stages"] == "head on the last stage"


def test_degrees_across_domains_are_named() -> None:
    levels = (Degrees(tensor=4, context=2), Degrees(tensor=4, data=2, expert=2))
    plan = Plan(Placement(levels), 1, 2)
    setting = setting_of(small_model(), 8, 128, 1.0, zero_stage=3)
    parts = {"compute": 2.0, "tensor_comm": 1.0, "expert_comm": 1.0, "data_comm": 0.5}
    lost = words(utilisation_of(setting, timed_plan(plan, **parts), 128))
    assert lost["tensor_comm"] == "TP 16 CP 2 over 4 HB domains"
    assert lost["expert_comm"] == "EP 2 over 2 HB domains"
    assert lost["data_comm"] == "ZeRO 3 gathers weights for all of 2 microbatches"


def test_gradients_are_those_of_a_gpu() -> None:
    # gpt-like: 12 h^2 a layer, two norms, the last one, and twice 512 x 1,000 words, 2 B each.
    plan = Plan(Placement((Degrees(tensor=2, data=2),)), 1, 8)
    setting = setting_of(small_model(), 16, 4, 1.0)
    lost = words(utilisation_of(setting, timed_plan(plan, compute=2.0, data_comm=1.0), 4))
    parameters = 4 * (12 * 512**2 + 2 * 512) + 512 + 2 * 512 * 1000
    assert 2 * parameters / 2 == pytest.approx(13.6e6, rel=0.01)
    assert lost["data_comm"] == "8 microbatches to hide 13.6 MB behind"


@pytest.mark.parametrize(
    ("recompute", "words_of_it"),
    [("full", "all layers"), ("half", "every other layer"), ("selective", "scores of attention")],
)
def test_what_is_computed_again_is_named(recompute: Recompute, words_of_it: str) -> None:
    setting = setting_of(small_model(), 4, 4, 1.0, variant=Variant(recompute=recompute))
    lost = utilisation_of(setting, timed_plan(PIPELINE, compute=3.0, recompute=1.0), 4)
    assert words(lost)["recompute"] == words_of_it
    assert shares(lost)["recompute"] == pytest.approx(0.25)


@given(
    st.dictionaries(
        st.sampled_from(("compute", "attention", "memory", "bubble", "data_comm", "host", "x")),
        st.floats(1e-3, 10.0),
        min_size=1,
    ),
    st.integers(4, 9),
    st.integers(1, 4),
)
def test_what_is_used_and_lost_is_all_there_is(
    parts: dict[str, float], gpus: int, batch: int
) -> None:
    setting = setting_of(small_model(layers=5), batch, 4, 0.5, variant=Variant(lm_head=True))
    lost = utilisation_of(setting, timed_plan(PIPELINE, **parts), gpus)
    assert lost.mfu + sum(loss.share for loss in lost.causes) == pytest.approx(1)


@pytest.mark.parametrize("model", ["llama-3-8b", "llama-3-70b"])
def test_plans_of_a_search_say_what_they_lose(model: str) -> None:
    answer = netplan.search("hgx-h100", gpus=1000, model=model, batch=1000, precision="fp8")
    best = answer.best
    lost = utilisation_of(answer.found.setting_of(best), best, 1000)
    assert lost.mfu == pytest.approx(best.mfu)
    assert lost.mfu + sum(loss.share for loss in lost.causes) == pytest.approx(1)
    assert lost.where == "h100-80gb in fp8"
    assert lost.usual == usual_utilisation("h100-80gb", "fp8")
    assert plain_data(lost)["usual_runs"] == 22


@pytest.mark.parametrize("stages", [7, 12, 24])
def test_stages_are_uneven_against_the_slowest(stages: int) -> None:
    """What a microbatch takes through all of them, but for the slowest one, is in the bubble."""
    fixed = {"pipeline": stages, "interleave": 1}
    answer = netplan.search("hgx-h100", gpus=1008, model="llama-3-70b", batch=1008, fixed=fixed)
    best, parts = answer.best, answer.best.breakdown_s
    kernels_s = parts["compute"] + parts["attention"] + parts["memory"]
    slowest_s = kernels_s + sum(parts[name] for name in ("tensor_comm", "recompute", "host"))
    slowest_s /= best.plan.microbatches
    even = (slowest_s + parts["bubble"]) / (stages * slowest_s)
    uneven = (1 - even) * kernels_s / best.iteration_time_s
    assert uneven > 0.03
    assert answer.utilisation is not None
    assert shares(answer.utilisation)["uneven_stages"] == pytest.approx(uneven, rel=0.1)


def test_far_below_published_runs_is_a_warning() -> None:
    usual = UsualUtilisation(40, 0.34, 0.52)
    bubble = PeakLoss("bubble", 0.6, "bubble", "4 microbatches on 16 stages")
    # 0.85 x 0.34 = 0.289.
    assert not Utilisation(0.29, (bubble,), usual, "H100 in bf16").warning
    assert Utilisation(0.18, (bubble,), usual, "H100 in bf16").warning == (
        "MFU 18 % is far below the 34 to 52 % of 40 published runs on H100 in bf16: bubble 60 %, 4"
        " microbatches on 16 stages."
    )
    # Kernels lose in published runs, too; but they are said where nothing else loses much.
    kernels, less = PeakLoss("kernels", 0.7, "kernels"), PeakLoss("bubble", 0.09, "bubble")
    both = Utilisation(0.1, (kernels, bubble), usual, "H100 in bf16").warning
    assert both.endswith("bubble 60 %, 4 microbatches on 16 stages.")
    assert Utilisation(0.1, (kernels, less), usual, "x").warning.endswith("on x: kernels 70 %.")
    assert plain_data(Utilisation(0.18, (bubble,))) == {
        "mfu": 0.18,
        "causes": [
            {"cause": "bubble", "share": 0.6, "words": "bubble 60 %: 4 microbatches on 16 stages"}
        ],
        "usual_low": None,
        "usual_high": None,
        "usual_runs": None,
        "warning": None,
    }


def test_mixtures_of_experts_have_no_published_run_to_be_held_to() -> None:
    setting = setting_of(small_model(), 4, 4, 0.1, variant=Variant(experts=8, top_k=2))
    timed = timed_plan(PIPELINE, compute=4.0)
    assert utilisation_of(setting, timed, 4, accelerator="h100-80gb").usual is None
    dense = utilisation_of(setting_of(small_model(), 4, 4, 0.1), timed, 4, accelerator="h100-80gb")
    assert dense.warning.startswith("MFU 2 % is far below the 35 to 44 % of 18 published runs")


def test_table_of_usual_utilisation_is_that_of_the_scored_runs() -> None:
    reached: dict[tuple[str, str], list[float]] = defaultdict(list)
    for run in published_runs():
        model = run.model
        peak = run.degrees.gpus * peak_of(run.accelerator, run.precision)
        mfu = iteration_flops(model, model.batch).model / (peak * run.seconds)
        reached[run.accelerator.name, run.precision].append(mfu)
    path = shipped_root() / "reports" / "published" / "utilisation.csv"
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    keys = [(row["accelerator"], row["precision"]) for row in rows]
    assert keys == sorted(reached)
    for key, row in zip(keys, rows, strict=True):
        low, high = np.percentile(np.array(reached[key]), [10, 90])
        expected = [f"{len(reached[key])}", f"{low:.4f}", f"{high:.4f}"]
        assert [row[name] for name in ("runs", "low", "high")] == expected
        assert usual_utilisation(*key) == UsualUtilisation(
            len(reached[key]), *map(float, expected[1:])
        )
    assert usual_utilisation("h100-80gb", "int4") is None
