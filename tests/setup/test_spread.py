"""One number of a model that lies on all GPUs alike in every question, and what none takes."""

from pathlib import Path
from typing import Any

import pytest

import netplan
from netplan.answers.outputs import output
from netplan.errors import InputError, NetplanError
from netplan.setup.placed_run import PlacedRun
from netplan.studies.questions import answer

MIXER = str(Path(__file__).parents[2] / "examples" / "mixer.yaml")
RUN: dict[str, Any] = {"model": "dlrm-793b", "gpus": 128, "radix": 64, "hb_size": 8}
ON: dict[str, Any] = RUN | {"accelerator": "h100-80gb"}


@pytest.mark.parametrize("model", ["dlrm-793b", "dlrm-332b", "fft-1t", "hpl-16k", MIXER])
def test_every_question_has_the_same_number(model: str) -> None:
    run = ON | {"model": model, "gpus": 256}
    time_s = netplan.search("rail-only-paper", **run, fabric="fat-tree").found.time_s
    (row,) = netplan.compare("rail-only-paper", **run, fabrics=("fat-tree",)).rows
    assert row.time_s == time_s
    loaded = netplan.loads("rail-only-paper", **run, fabric="fat-tree")
    sent = netplan.training_traffic("rail-only-paper", **run, fabric="fat-tree")
    for each in (loaded.run, sent.run):
        assert isinstance(each, PlacedRun)
        assert each.timed.iteration_time_s == time_s
    (broken,) = netplan.faults("rail-only-paper", **run, fabrics=("fat-tree",), years=1).fabrics
    assert broken.iteration_time_s == time_s
    del run["radix"], run["hb_size"]
    best = netplan.optimize(
        "rail-only-paper", **run, fabrics=("fat-tree",), hb_sizes=(8,), radices=(64,)
    ).rows
    assert time_s in [one.row.time_s for one in best]


def test_model_and_links_agree_on_the_exchange() -> None:
    found = netplan.loads("rail-only-paper", **ON, fabric="fat-tree")
    (exchange,) = [one for one in found.collectives if one.kind == "expert"]
    # The busiest port carries 15/16 of the rows of its GPU; messages get 70 % of the links.
    assert exchange.busiest_s == pytest.approx(857_088_000 * 15 / 16 / 50e9, rel=1e-12)
    assert exchange.analytic_s == pytest.approx(exchange.busiest_s / 0.7, rel=1e-12)
    assert exchange.bound_s <= exchange.busiest_s * (1 + 1e-12)


def test_a_part_of_the_cluster_may_be_faster_and_the_answer_says_so() -> None:
    run = ON | {"hb_size": 64, "accelerator": "b200"}
    found = netplan.search("rail-only-paper", **run)
    assert found.found.best.plan.gpus == 64
    whole = netplan.search("rail-only-paper", **run, fixed={"expert": 128}).found.time_s
    assert whole > found.found.time_s
    assert whole == netplan.search("rail-only-paper", **run, space="model").found.time_s
    assert any(note.startswith("On all 128 an iteration would take") for note in found.notes)
    fewer = netplan.search(
        "rail-only-paper", **run, fixed={"expert": 32}
    )  # slower than all: no reason is made up
    assert fewer.found.time_s > found.found.time_s
    assert sum(note.endswith("they exchange more over slower links.") for note in fewer.notes) == (
        whole > fewer.found.time_s
    )


def test_defaults_of_a_catalog_that_a_model_does_not_have_change_nothing(tmp_path: Path) -> None:
    file = tmp_path / "reports" / "defaults.yaml"
    file.parent.mkdir()
    file.write_text("common:\n  strategy: all\n")
    given = netplan.search("rail-only-paper", **ON, catalog=tmp_path).found
    assert given.enumerated == netplan.search("rail-only-paper", **ON).found.enumerated


def test_a_study_varies_the_model() -> None:
    times = {
        model: output(
            answer("search", RUN | {"model": model}, scenario="rail-only-paper"), "iteration_time_s"
        )
        for model in ("dlrm-793b", "dlrm-332b", "gpt-146b")
    }
    assert len(set(times.values())) == len(times)
    found = answer("search", RUN, scenario="rail-only-paper")
    assert output(found, "plan") == "TP1 x PP1 x DP1 x EP128, 1 x 512"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"strategy": "2d"}, "--strategy 2d means nothing for dlrm-793b"),
        ({"recompute": "full"}, "--recompute full means nothing"),
        ({"execution": "fused"}, "--execution fused means nothing"),
        ({"experts": 4}, "--experts 4 means nothing"),
        ({"mode": "published-code"}, "--mode published-code means nothing"),
        ({"iteration_model": "ptd-p"}, "take --iteration-model 4d"),
        ({"fixed": {"tensor": 2}}, "expert is all there is to fix"),
        ({"fixed": {"expert": 100}}, "no plan of dlrm-793b on 128 GPUs has expert 100"),
        ({"model": "fft-1t", "batch": 4}, "--batch 4 means nothing for fft-1t, of family fft"),
        ({"model": "fft-1t", "zero_stage": 3}, "--zero 3 means nothing"),
        ({"model": "dlrm-12t"}, "80 GB there are: use more GPUs or an expanded memory"),
        ({"model": "hpl-5m"}, "nearest needs 391 GB a GPU, 311 GB more than the 80 GB"),
        ({"model": "hpl-16k", "fixed": {"data": 2}}, "tensor and context is all there is to fix"),
        ({"model": MIXER, "recompute": "full"}, "--recompute full means nothing for mixer"),
        (
            {"model": MIXER, "fixed": {"tensor": 2}},
            "mixer is cut for 4 chips, not 2: leave chips out",
        ),
        ({"model": MIXER, "fixed": {"expert": 2}}, "microbatch and interleave is all there is"),
        ({"model": MIXER, "overrides": {"model.chips": "512"}}, "cut for 512 chips, and there are"),
        ({"model": MIXER, "accelerator": "b200", "execution": "fused"}, "has no sram_bytes"),
    ],
)
def test_what_a_search_does_not_take(given: dict[str, Any], message: str) -> None:
    with pytest.raises(NetplanError) as refusal:
        netplan.search("rail-only-paper", **{**ON, **given})
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_run_without_tokens_has_no_cost() -> None:
    with pytest.raises(InputError, match="has no tokens"):
        netplan.compare("rail-only-paper", **ON, rule="run-cost")
