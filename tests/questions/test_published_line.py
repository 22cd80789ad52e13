"""The nearest published run beside a search: which it is, what is said of it, where nothing is."""

import json
from typing import Any

import pytest

import netplan
from netplan.inputs.choices import Precision
from netplan.performance.calibrated_run import Factors
from netplan.performance.error_bars import ErrorBar
from netplan.performance.plan import PlanTime
from netplan.performance.published_runs import AskedRun, nearest_row, published_rows
from netplan.questions.published_line import run_here
from netplan.records import replace
from netplan.reports.schema import plain_data
from netplan.reports.screen import MOST_LINES, WIDTH
from netplan.workloads.models import MODELS, Model
from tests.cli.command import netplan as command

LLAMA: dict[str, Any] = {"gpus": 16384, "model": "llama-3-405b", "batch": 2048}
KEYS = ("id", "seconds", "gpus", "plan", "precision", "url")
DGXC = "DGXC25.04.02-llama-3-405b-H100"
HERE = ("here_seconds", "here_memory_bytes", "here_verdict")


def nearest(
    model: str | Model, accelerator: str, gpus: int, batch: int, precision: Precision = "bf16"
) -> str | None:
    """Id of the nearest run."""
    known = MODELS.load(model) if isinstance(model, str) else model
    row = nearest_row(AskedRun(known, accelerator, gpus, batch, precision))
    return row["id"] if row else None


@pytest.mark.parametrize(
    ("model", "accelerator", "gpus", "batch", "precision", "expected"),
    [
        ("llama-3-405b", "h100-80gb", 16384, 2048, "bf16", "LLAMA3-T4-2"),
        # ln 11585/8192 = 0.347 and ln 16384/11585 = 0.347; of 11,000 GPUs the smaller is nearer.
        ("llama-3-405b", "h100-80gb", 11000, 2048, "bf16", "LLAMA3-T4-1"),
        # A batch of 128 sequences: 0 + 0 against ln 16 = 2.77 of the run with 2,048.
        ("llama-3-405b", "h100-80gb", 16384, 128, "bf16", "LLAMA3-T4-3"),
        # On 2,048 GPUs with a batch of 1,024 in bf16: ln 2 = 0.69; 8,192 GPUs with 2,048: ln 4.
        ("llama-3-405b", "h100-80gb", 2048, 2048, "bf16", f"{DGXC}-2048-bf16-g1024"),
        # A batch of 8,192: ln 4 of the run with 2,048 against ln 4 + ln 8 of that on 2,048 GPUs.
        ("llama-3-405b", "h100-80gb", 8192, 8192, "bf16", "LLAMA3-T4-1"),
        # With fp8 and a batch of 1,152: ln(1152/1024) = 0.12 against ln 4 of 512 GPUs with 1,152.
        ("llama-3-405b", "h100-80gb", 2048, 1152, "fp8", f"{DGXC}-2048-fp8-g1024"),
        # ln 5/4 + 0 of 512 GPUs with 1,152 against ln 5/4 + ln(1152/256) of the others on 512.
        ("llama-3-405b", "h100-80gb", 640, 1152, "fp8", "MLPERF50-405b-n64"),
        # 128 and 127 GPUs lie on both sides of 512/4.
        ("llama-3-405b", "h100-80gb", 128, 64, "bf16", f"{DGXC}-512-bf16-g256"),
        ("llama-3-405b", "h100-80gb", 127, 64, "bf16", None),
        # H200 and the H100 of 500 W are other parts than the H100 of 700 W.
        ("llama-3-405b", "h200", 724, 1152, "fp8", "MLPERF51-405b-H200-512"),
        ("llama-3-405b", "h200", 725, 1152, "fp8", "MLPERF51-405b-H200-1024"),
        ("llama-3-8b", "h100-96gb-500w", 32, 64, "bf16", "TITAN-8b-8-compile"),
        ("llama-3-405b", "gb300", 16384, 2048, "bf16", None),
        ("llama-3-405b", "mi300x", 512, 1152, "bf16", None),
        # Two runs on 512 GPUs with 2,048 sequences are as near: the faster, 9.535 s of 10.4757 s.
        ("gpt-175b", "h100-80gb", 512, 2048, "fp8", "MLPERF41-gpt3-H100-512"),
        # 40 GB and 80 GB are one family.
        ("gpt-175b", "a100-40gb", 64, 64, "bf16", "KORTH-175b-selective"),
        # As wide and deep as Llama 3 8B, but its layers have experts.
        ("mixtral-8x7b", "h100-80gb", 8, 128, "fp8", None),
    ],
)
def test_the_nearest_run(
    model: str, accelerator: str, gpus: int, batch: int, precision: Precision, expected: str | None
) -> None:
    assert nearest(model, accelerator, gpus, batch, precision) == expected


def test_four_times_as_many_gpus_are_near_and_more_are_not() -> None:
    """A run on 16,384 has ln 4 + 0, others ln 16; with a GPU less two of those tie."""
    assert nearest("llama-3-405b", "h100-80gb", 4096, 128) == "LLAMA3-T4-3"
    tied = {f"{DGXC}-{gpus}-bf16-g{gpus // 2}" for gpus in (1024, 2048)}
    assert nearest("llama-3-405b", "h100-80gb", 4095, 128) in tied


def test_a_model_is_the_same_within_a_hundredth_of_its_sizes_or_by_name() -> None:
    llama = MODELS.load("llama-3-405b")
    asked = ("h100-80gb", 16384, 2048)
    assert nearest(llama.changed(layers=127, name="ours"), *asked) == "LLAMA3-T4-2"
    assert nearest(llama.changed(layers=128, name="ours"), *asked) is None
    assert nearest(llama.changed(kv_heads=16, name="ours"), *asked) is None
    assert nearest(llama.changed(layers=128, name="llama3-405b"), *asked) == "LLAMA3-T4-2"


def test_every_run_is_nearest_to_itself_or_ties_with_a_faster_one() -> None:
    for row in published_rows():
        run = run_here(row["id"]).run
        asked = AskedRun(
            run.model, run.accelerator.name, run.degrees.gpus, run.model.batch, run.precision
        )
        found = nearest_row(asked)
        assert found is not None
        same = ("gpus", "global_batch", "seq")
        assert all(float(found[key]) == float(row[key]) for key in same)
        assert float(found["sec_per_iter"]) <= run.seconds


def test_a_search_shows_the_run_and_its_time_here() -> None:
    answer = netplan.search("hgx-h100", **LLAMA)
    (run,) = answer.to_dict()["published"]
    assert tuple(run) == (*KEYS, *HERE)
    assert [run[key] for key in ("id", "seconds", "gpus", "precision")] == [
        *("LLAMA3-T4-2", 6.7211, 16384, "bf16")
    ]
    assert {run["plan"][name] for name in ("tensor", "pipeline", "data")} == {8, 16, 128}
    # The reference of the calibrated model has 10.285 s (1.53 times the published time).
    assert run["here_seconds"] == pytest.approx(1.53025 * 6.7211, rel=1e-5)
    (note,) = [text for text in answer.to_dict()["notes"] if text.startswith("published: ")]
    best = answer.best
    assert note == (
        "published: 6.72 s on 16,384 h100-80gb, TP8 PP16 DP128, batch 2,048, sequence 8,192, bf16"
        " (LLAMA3-T4-2, arXiv:2407.21783); that plan here: 5.98 s to 10.3 s with 8 to 1"
        " stages a GPU (not published), 76 GB, fit; best plan here:"
        f" {best.iteration_time_s:.3g} s, {best.plan.degrees}"
        + (f", {best.plan.interleave} stages a GPU" if best.plan.interleave > 1 else "")
    )
    for text in (answer.text(details=True), " ".join(answer.text().split())):
        assert "(LLAMA3-T4-2, arXiv:2407.21783)" in " ".join(text.split())


def test_the_first_screen_has_it_and_is_no_longer() -> None:
    done = command("search", "hgx-h100", "--model", "llama-3-405b", "--gpus", "16384")
    lines = done.stdout.splitlines()
    assert len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= WIDTH
    assert "published: 6.72 s on 16,384 h100-80gb, TP8 PP16 DP128" in done.stdout


def test_it_can_be_left_out_and_is_left_out_where_no_run_is_near() -> None:
    for asked in (
        LLAMA | {"published": False},
        LLAMA | {"gpus": 65544},
        LLAMA | {"gpus": 1024, "batch": 1152, "iteration_model": "4d"},
        {"gpus": 64, "model": "gpt-22b", "batch": 64},
    ):
        answer = netplan.search("hgx-h100", **asked).to_dict()
        assert "published" not in answer
        assert not [text for text in answer["notes"] if "published:" in text]
    done = command(
        "search", "hgx-h100", "--no-published", "--gpus", "16384", "--format", "json", "--top", "1"
    )
    answer = json.loads(done.stdout)
    assert "published" not in answer
    assert answer["inputs"]["published"] is False
    assert "published" not in netplan.search("hgx-h100", **LLAMA).inputs


def slow(run: str, times: float) -> PlanTime:
    """A best plan that takes so many times the published time, known to 10 %."""
    shown, bar = run_here(run), ErrorBar(Factors(low=0.9, high=1.1), Factors(low=0.5, high=1.5), 0)
    return replace(shown.here, iteration_time_s=times * shown.run.seconds, error=bar)


def test_a_warning_stands_where_even_the_low_end_is_slower() -> None:
    name = "MLPERF51-405b-H200-512"
    shown = run_here(name)
    asked = AskedRun(MODELS.load("llama-3-405b"), "h200", 512, 1152, "fp8")

    def warned(times: float, **changed: Any) -> list[str]:  # noqa: ANN401 - any field
        lines = list(shown.lines(slow(name, times), asked._replace(**changed)))
        assert lines[-1].startswith("published: 50 s on 512 h200, TP4 CP2 PP8 DP8, 8 stages a GPU,")
        return lines[:-1]

    # Its low end is 0.9 of 1.12 = 1.008 published times, and of 1.11 = 0.999.
    assert warned(1.11) == []
    (said,) = warned(1.12)
    assert said == (
        "slower than published: the best plan takes 50.4 s or more, the run below 50 s with as many"
        " tokens a GPU"
    )
    # Half the GPUs have twice the tokens each, twice the batch too.
    assert shown.seconds_for(asked) == pytest.approx(50.0153)
    assert shown.seconds_for(asked._replace(gpus=256)) == pytest.approx(2 * 50.0153)
    assert shown.seconds_for(asked._replace(batch=2304)) == pytest.approx(2 * 50.0153)
    assert warned(2.2, gpus=256) == []
    # With less than a quarter of the tokens a GPU little is hidden, at any speed.
    assert shown.seconds_for(asked._replace(batch=288)) == pytest.approx(50.0153 / 4)
    assert shown.seconds_for(asked._replace(batch=287)) is None
    assert len(warned(9.0, batch=288)) == 1
    assert warned(9.0, batch=287) == []
    # Wider products and longer sequences take longer by themselves.
    longer = asked.model.changed(sequence_length=16384)
    assert warned(9.0, precision="bf16") == warned(9.0, model=longer) == []
    assert len(warned(9.0)) == 1


def test_sharded_weights_are_named_and_memory_is_that_of_the_reference() -> None:
    shown = run_here("TITAN-8b-8-compile")
    asked = AskedRun(MODELS.load("llama-3-8b"), "h100-96gb-500w", 8, 16, "bf16")
    line = list(shown.lines(slow(shown.run.name, 1.0), asked))[-1]
    assert ", TP1 PP1 DP8, ZeRO 3, batch 16," in line
    assert "pytorch/torchtitan)" in line
    tight = replace(shown, memory_bytes=88.3e9, verdict="tight")
    line = list(tight.lines(slow(shown.run.name, 1.0), asked))[-1]
    assert f"that plan here: {shown.here.time_text}, 88 GB, tight; best plan here:" in line
    assert plain_data(tight)["here_verdict"] == "tight"
    # Of a published run, bytes of the reference implementation.
    assert run_here("KORTH-22b-full").memory_bytes == pytest.approx(51274911232, rel=1e-6)


def test_rows_of_plans_give_way_to_the_run() -> None:
    """A long verdict, a faster plan that is tight, and a run with a long name and address."""
    text = netplan.search(
        "hgx-h100", gpus=64, model="llama-3-70b", batch=256, precision="fp8"
    ).text()
    assert len(text.splitlines()) <= MOST_LINES
    assert "published: 19.7 s on 64 h100-80gb, TP4 PP8 DP2, 5 stages a GPU, batch 256," in text
