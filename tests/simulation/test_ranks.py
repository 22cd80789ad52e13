"""Files that say where ranks stand: what they name, and one line for each that is wrong."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netplan.errors import CatalogError
from netplan.simulation.ranks import read_ranks, snake, strided
from netplan.traffic.placement import Degrees, Placement


@given(st.lists(st.integers(1, 5), min_size=1, max_size=3))
def test_a_snake_goes_to_every_place_by_steps_to_neighbours(sizes: list[int]) -> None:
    order = snake(sizes)
    assert sorted(order.tolist()) == list(range(int(np.prod(sizes))))
    at = [np.unravel_index(place, sizes[::-1]) for place in order.tolist()]
    for one, two in pairwise(at):
        assert sum(abs(int(a) - int(b)) for a, b in zip(one, two, strict=True)) == 1


@given(st.lists(st.builds(Degrees, *[st.integers(1, 3)] * 5), min_size=1, max_size=2))
def test_strided_groups_stay_in_their_stage_evenly_apart(levels: list[Degrees]) -> None:
    placement = Placement(tuple(levels))
    takes = strided(placement)
    stages = placement.groups("tensor", "context", "expert", "data")
    assert np.array_equal(np.sort(takes[stages], axis=1), np.sort(stages, axis=1))
    groups, place = placement.groups("tensor"), np.empty(placement.gpus, int)
    place[np.sort(stages, axis=1)] = np.arange(stages.shape[1])
    steps = np.diff(place[takes[groups]], axis=1)
    assert (steps == stages.shape[1] // groups.shape[1]).all()


def test_ranks_follow_the_file(tmp_path: Path) -> None:
    path = tmp_path / "ranks.txt"
    path.write_text("# first those of the other host\n4-6, gpu-7\n\n3-gpu-0\n", encoding="utf-8")
    assert read_ranks(path, ranks=8, gpus=16).tolist() == [4, 5, 6, 7, 3, 2, 1, 0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0-2\n5 2\n", ":2: GPU 2 is there twice, see line 1"),
        ("0-4\n", ":1: more GPUs than the plan's 4 ranks"),
        ("0 1\n", "names 2 GPUs, the plan has 4 ranks"),
        ("", "names 0 GPUs, the plan has 4 ranks"),
        ("0-8\n", ":1: there is no GPU 8: the fabric has 0 to 7"),
        ("0\nleaf-1\n", ":2: 'leaf-1' names no GPU: write 5, gpu-5 or 0-7"),
        ("0-999999999\n", ":1: there is no GPU 999,999,999"),
    ],
)
def test_one_line_says_what_is_wrong(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "ranks.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CatalogError) as error:
        read_ranks(path, ranks=4, gpus=8)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match=r"ranks\.txt: cannot be read: No such file"):
        read_ranks(tmp_path / "ranks.txt", ranks=4, gpus=8)
