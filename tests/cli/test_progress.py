"""Whatever may take over two seconds tells its share: each loop is seen at work on a small case."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, SupportsIndex

import pytest

import netplan
from netplan.progress import ProgressStage, UnderWay, through

SMALL: dict[str, Any] = {"gpus": 64, "radix": 16, "hb_size": 8}
RUN: dict[str, Any] = SMALL | {"model": "gpt-22b", "batch": 64, "fabric": "rail-only"}


class Told(list[ProgressStage]):
    """Loops under way, which remembers all that ever were."""

    def __init__(self) -> None:
        super().__init__()
        self.ever: list[ProgressStage] = []

    def append(self, step: ProgressStage) -> None:
        super().append(step)
        self.ever.append(step)

    def __delitem__(self, which: SupportsIndex | slice) -> None:
        super().__delitem__(which)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[Told]:
    loops = Told()
    monkeypatch.setattr(UnderWay, "steps", loops)
    yield loops
    assert loops == []  # a loop that is left would say that it is at work for ever


def written(to: str) -> Callable[[], object]:
    """An export, to its last line."""
    return lambda: list(
        netplan.export("rail-only-paper", to=to, **SMALL, fabric="rail-only").lines()
    )


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: netplan.cables("rail-only-paper", **SMALL, fabric="rail-only").csv(), "cables"),
        (
            lambda: netplan.cables("rail-only-paper", **SMALL, fabric="rail-only").xlsx(),
            "the file, 2 of 2",
        ),
        (written("graphml"), "links from number 0 on"),
        (written("edges"), "links from number 0 on"),
        (written("ibnetdiscover"), "devices"),
        (lambda: netplan.loads("rail-only-paper", **RUN), "the iteration, 3 of 3"),
        (lambda: netplan.loads("rail-only-paper", **RUN), "all_reduce of all GPUs, 2 of 2"),
        (
            lambda: netplan.grow("rail-only-paper", phases=[64, 128], radix=16, prices="2026"),
            "phase 2, 1 of 1",
        ),
        (
            lambda: netplan.faults("rail-only-paper", **SMALL, fabrics=["rail-only"], timing=False),
            "runs of years",
        ),
        (
            lambda: netplan.optimize(
                "rail-only-paper", gpus=512, hb_sizes=[8], model="gpt-22b", radices=(64, 128)
            ),
            "designs",
        ),
        (
            lambda: netplan.search("rail-only-paper", gpus=4096, model="gpt-175b"),
            "placements, 3 of 3",
        ),
        (lambda: netplan.simulate("rail-only-paper", **RUN), "microbatches"),
    ],
)
def test_a_loop_tells_how_far_it_is(told: Told, ask: Callable[[], object], said: str) -> None:
    ask()
    assert any(said in step.text for step in told.ever), [step.text for step in told.ever]
    assert all(step.of > 0 for step in told.ever)


def test_a_rehearsal_tells_its_steps(told: Told) -> None:
    from netplan.topologies.cabling.rehearsal import find_tools  # noqa: PLC0415

    if find_tools() is None:
        pytest.skip("needs opensm, ibsim and ibnetdiscover")
    netplan.cables(
        "rail-only-paper", gpus=16, radix=16, hb_size=8, fabric="fat-tree", rehearse=True
    )
    assert "it is found again, 2 of 2" in [step.text for step in told.ever]


def test_a_stream_that_is_left_ends_its_loop(told: Told, tmp_path: Path) -> None:
    stream = through(range(100), 100, "lines")
    for number in stream:
        if number == 50:
            assert UnderWay.share() == 0.5
            break
    stream.close()  # type: ignore[attr-defined]
    assert told.ever[0].text == "100 % of 100 lines"
    with (tmp_path / "more").open("w") as file:  # more than was expected is no error
        file.writelines(f"{one}\n" for one in through(range(9), 4, "lines"))
    assert len((tmp_path / "more").read_text().splitlines()) == 9
