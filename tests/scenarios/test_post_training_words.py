"""Words of post-training: which mean something, and what is said of those that do not."""

import re

import pytest

from netplan.errors import InputError
from netplan.scenarios.post_training import read_copy_rate, read_rates, read_score, read_sync

REFUSED = {
    # Numbers so small that what is divided by them leaves the range of floats.
    "delta:1e-320": (read_sync, "--sync 'delta:1e-320': the share that has changed is 1e-12 to 1"),
    "delta:": (read_sync, "--sync 'delta:': the share"),
    "delta:1.01": (read_sync, "--sync 'delta:1.01': the share"),
    "1e-300": (read_copy_rate, "--sync-rate '1e-300': give bytes a second, 1 or more"),
    "1e-300:1e-300": (read_rates, "--storage-bytes-per-s '1e-300:1e-300': give bytes a second"),
    "1:": (read_rates, "--storage-bytes-per-s '1:': give bytes a second, 1 or more"),
    "40e9:inf": (read_rates, "--storage-bytes-per-s '40e9:inf': give"),
    "judge:llama-3-70b:-5": (read_score, "a judge writes a whole number of tokens, 1 to 4,194,304"),
    "judge:llama-3-70b:0": (read_score, "--score 'judge:llama-3-70b:0': a judge writes"),
    "judge:llama-3-70b:1.5": (read_score, "--score 'judge:llama-3-70b:1.5': a judge writes"),
    "judge:llama-3-70b:nan": (read_score, "--score 'judge:llama-3-70b:nan': a judge writes"),
    "rule:1e300": (read_score, "--score 'rule:1e300': give 0 to 1,000,000 seconds"),
    "rule:x": (read_score, "--score 'rule:x': give 0 to 1,000,000 seconds"),
    "none": (read_score, "--score none beside others: leave it out, or give it alone"),
}


@pytest.mark.parametrize("text", REFUSED)
def test_words_that_mean_nothing_are_refused_by_their_option(text: str) -> None:
    reader, message = REFUSED[text]
    with pytest.raises(InputError, match=re.escape(message)):
        reader(text)


def test_ends_of_ranges_are_read() -> None:
    assert read_sync("delta:1") == ("delta", 1.0)
    assert read_sync("delta:1e-12") == ("delta", 1e-12)
    assert read_rates("1:2") == (1.0, 2.0)
    assert read_copy_rate("1") == 1.0
    assert read_score("judge:llama-3-70b:1") == ("judge", "llama-3-70b", 1.0)
    assert read_score("rule:1e6") == ("rule", "", 1e6)
