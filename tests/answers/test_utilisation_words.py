"""What a search says of the utilisation of its best plan: on the screen, in details, in JSON."""

import json

import pytest

import netplan
from tests.cli.command import netplan as command


def test_screen_details_and_json_say_the_same() -> None:
    asked = ("search", "hgx-h100", "--gpus", "64", "--model", "llama-3-8b")
    answer = json.loads(command(*asked, "--format", "json").stdout)
    lost = answer["utilisation"]
    assert lost["mfu"] == pytest.approx(answer["plans"][0]["mfu"])
    assert lost["mfu"] + sum(loss["share"] for loss in lost["causes"]) == pytest.approx(1)
    shares = [loss["share"] for loss in lost["causes"]]
    assert shares == sorted(shares, reverse=True)
    assert (lost["usual_low"], lost["usual_runs"], lost["warning"]) == (0.348, 18, None)
    best = netplan.search("hgx-h100", gpus=64, model="llama-3-8b")
    assert best.utilisation is not None
    for losses, words in ((2, asked), (3, (*asked, "--details"))):
        assert best.utilisation.sentence(losses) in " ".join(command(*words).stdout.split())
    largest = lost["causes"][0]["words"].partition(" %")[0]
    assert f"Lost: {largest} %" in best.utilisation.sentence()


def test_far_below_published_runs_the_screen_says_so() -> None:
    # Eight microbatches on 16 stages wait most of the time.
    asked = ("search", "hgx-h100", "--model", "llama-3-8b", "--gpus", "128", "--batch", "32")
    fixed = ("--fix", "pipeline=16", "--fix", "microbatch=1", "--fix", "tensor=1")
    shown = " ".join(command(*asked, *fixed).stdout.split())
    lost = json.loads(command(*asked, *fixed, "--format", "json").stdout)["utilisation"]
    assert lost["warning"] in shown
    below = " % is far below the 35 to 44 % of 18 published runs on h100-80gb in bf16"
    assert f"{below}: bubble " in shown
    details = " ".join(command(*asked, *fixed, "--details").stdout.split())
    assert f"{below}. Lost: bubble " in details
    assert lost["causes"][0]["words"].endswith("8 microbatches on 16 stages")


@pytest.mark.parametrize("more", [{}, {"instances": 8}])
def test_models_that_lie_on_all_gpus_alike_have_none(more: dict[str, int]) -> None:
    answer = netplan.search("comet-paper", gpus=64, model="dlrm-1.2t", **more)
    assert answer.utilisation is None
    assert "utilisation" not in answer.to_dict()
