"""Values of a study as inputs of its question."""

import pytest

from netplan.studies.questions import answer, output


@pytest.mark.parametrize("gpus", [32, 32.0])
def test_whole_numbers_of_a_range_count_as_whole_numbers(gpus: float) -> None:
    found = answer("search", {"gpus": gpus, "accelerator": "b200", "model": "gpt-22b", "batch": 64})
    assert output(found, "gpus_used") == 32
