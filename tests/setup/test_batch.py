"""The batch of a scenario that says so many sequences a GPU."""

import pytest

import netplan


@pytest.mark.parametrize(
    ("model", "gpus", "batch"),
    [
        ("llama-3-8b", 64, 16),  # a quarter of a sequence a GPU
        ("gpt-oss-120b", 64, 4096),  # with experts the model's own
        ("deepseek-v3", 2048, 15360),
        ("gpt-oss-120b", 32768, 8192),  # of which a quarter a GPU is more
    ],
)
def test_mixtures_have_at_least_their_own_batch(model: str, gpus: int, batch: int) -> None:
    asked = {"gpus": gpus, "accelerator": "h100-80gb", "model": model}
    answer = netplan.search("hgx-b200", **asked)
    plan = answer.best.plan
    held = plan.data * plan.microbatches * plan.microbatch
    assert batch <= held < 1.2 * batch
    assert answer.to_dict()["inputs"]["batch"] == batch
    given = netplan.search("hgx-b200", **asked, batch=512)
    assert given.to_dict()["inputs"]["batch"] == 512
