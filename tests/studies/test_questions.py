"""Values of a study as inputs of its question."""

import pytest

from netplan.answers.outputs import output
from netplan.reports.quantities import Scalar
from netplan.studies.questions import ROLES, answer, shelf_of


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


def test_every_role_of_a_catalog_file_has_its_shelf() -> None:
    # iteration-model has simulated models, too, and model every workload.
    assert {role: shelf_of(role).role for role in ROLES} == {role: role for role in ROLES}
