"""Equal sequences that a trainer is asked for: tokens, whole numbers, what packing pays."""

from pathlib import Path

import pytest

from netplan.questions.search import Search
from netplan.scenarios.reading import CatalogReader
from netplan.scenarios.scenario import Scenario
from netplan.setup.post_training import PostRun

JOB = {"kind": "post-training", "model": "qwen3-30b-a3b", "prompts": 128, "prompt_tokens": 100}


def run_of(lengths: str, **inputs: object) -> PostRun:
    cluster = {"gpus": 64, "accelerator": "h100-80gb"}
    job = JOB | {"answer_tokens": lengths} | inputs
    question = Search.make(Scenario.load({"cluster": cluster, "workload": job}))
    reader = CatalogReader(question.catalog, question.overrides)
    return PostRun(question, reader, "rail-optimized", {})


@pytest.mark.parametrize("lengths", ["2000:8000:16384", "741:2000:4000", "3100"])
@pytest.mark.parametrize("updates", [1, 4])
def test_degrees_divide_a_batch_of_as_many_tokens(lengths: str, updates: int) -> None:
    run = run_of(lengths, updates=updates)
    sequence, batch = run.trained_batch
    equal, count = run.equivalent
    assert abs(batch / (count / updates) - 1) <= 1 / 64
    assert 1 - 1 / 128 <= sequence * batch / (equal * count / updates) <= 1
    for number, parts in ((batch, 32), (sequence, 128)):
        step = 1
        while 2 * step * parts <= number:
            step *= 2
        assert number % step == 0, (number, step)


def test_packed_sequences_pay_for_padding_where_their_bins_have_a_size(tmp_path: Path) -> None:
    """2,047 of 1,900 + 100 tokens and one of 3,900 + 100: two a bin of 4,000, or 3 of 6,500."""
    path = tmp_path / "lengths.csv"
    path.write_text("length,count\n1900,2047\n3900,1\n")
    assert run_of(str(path)).used == 1.0
    assert run_of(str(path), pack=6500).used == pytest.approx(6000 / 6500, rel=0.01)
    padded = run_of(str(path), packing=False)
    assert padded.used == pytest.approx(2000 / 2002, rel=1e-3)
