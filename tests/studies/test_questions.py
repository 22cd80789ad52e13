"""Values of a study as inputs of its question."""

import pytest

from netplan.reports.quantities import Scalar
from netplan.studies.questions import answer, output


@pytest.mark.parametrize("gpus", [32, 32.0])
def test_whole_numbers_of_a_range_count_as_whole_numbers(gpus: float) -> None:
    point: dict[str, Scalar] = {
        "gpus": gpus,
        "accelerator": "b200",
        "model": "gpt-22b",
        "batch": 64,
    }
    found = answer("search", point, scenario="rail-only-paper")
    assert output(found, "gpus_used") == 32
