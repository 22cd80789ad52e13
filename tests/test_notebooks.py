"""The notebooks run from the first cell to the last, and show every answer once."""

from pathlib import Path
from typing import Any

import pytest

import netplan
from netplan.reports.answer import Answer

NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples" / "notebooks").glob("*.ipynb"))


def answers(kind: type[Answer] = Answer) -> list[type[Answer]]:
    """All classes of answers."""
    below = kind.__subclasses__()
    return [*below, *(one for other in below for one in answers(other))]


def test_no_answer_shows_its_fields() -> None:
    for name in netplan.__all__:
        getattr(netplan, name)
    ours = [one for one in answers() if one.__module__.startswith("netplan.")]
    shown = [one.__name__ for one in ours if one.__repr__ is not Answer.__repr__]
    assert not [name for name in shown if not name.startswith("_")]


def test_an_answer_is_short_in_a_shell_and_whole_when_printed() -> None:
    answer = netplan.collective("hgx-h100", kind="all_reduce", gpus=64, message_bytes=2**20)
    assert repr(answer).startswith("<CollectiveAnswer: ")
    assert len(repr(answer)) < 200
    assert str(answer) == answer.text()


@pytest.mark.parametrize(
    ("question", "given", "title"),
    [
        ("optimize", {"gpus": 512, "model": "gpt-22b"}, "no other beats"),
        ("search", {"gpus": 512, "model": "gpt-22b"}, "Time of plan 1"),
        ("loads", {"gpus": 512, "hb_size": 8, "model": "gpt-22b"}, "Links of each group"),
        ("traffic", {"gpus": 512, "hb_size": 8, "model": "gpt-22b"}, "rows send"),
        ("faults", {"gpus": 512, "radix": 32, "model": "gpt-22b"}, "stopped no job"),
    ],
)
def test_answers_have_a_plot(question: str, given: dict[str, Any], title: str) -> None:
    figure = getattr(netplan, question)("rail-only-paper", **given).plot()
    assert title in figure.layout.title.text
    assert len(figure.data) >= 1


def test_loads_are_drawn_from_the_busiest_to_the_idlest() -> None:
    answer = netplan.loads("rail-only-paper", gpus=512, hb_size=8, model="gpt-22b")
    lines = {line.name: list(line.y) for line in answer.plot("link-loads").data}
    assert set(lines) == {group.group for group in answer.groups}
    assert max(map(max, lines.values())) == pytest.approx(100)
    for group in answer.groups:
        heights = lines[group.group]
        assert heights == sorted(heights, reverse=True)
        busiest = 100 * group.busiest_s / answer.link_loads.busiest_s
        assert heights[0] == pytest.approx(busiest)


def test_the_front_is_drawn_as_it_stands() -> None:
    answer = netplan.optimize(
        "rail-only-paper", gpus=512, model="gpt-22b", hb_sizes=[8], radices=(64, 128)
    )
    (drawn,) = (one for one in answer.plot("front").data if one.name == "Pareto front")
    assert list(drawn.x) == pytest.approx([price / 1e6 for price, _ in answer.points])
    assert list(drawn.y) == pytest.approx([time_s for _, time_s in answer.points])


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore")  # of Jupyter's own packages
def test_a_notebook_runs(path: Path) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    book = nbformat.read(path, as_version=4)
    assert not any(cell.get("outputs") for cell in book.cells)
    nbclient.NotebookClient(book, timeout=120, kernel_name="python3").execute()
    for cell in book.cells:
        shown = [one for one in cell.get("outputs", ()) if one.output_type != "stream"]
        assert len(shown) <= 1, cell.source
        if shown and "text/html" in shown[0].data and "plotly" not in str(shown[0].data)[:9000]:
            assert len(shown[0].data["text/plain"]) < 5000


def test_drawings_in_notebooks_have_their_colours() -> None:
    """Without the style of pages links would be invisible, and switches black."""
    shown = netplan.loads(
        "rail-only-paper", gpus=64, hb_size=8, radix=16, model="gpt-22b"
    )._repr_html_()
    assert 'class="drawing"' in shown
    assert ".drawing .wire" in shown
    assert ":root" not in shown  # the notebook's own colours stay
    assert (
        ".drawing"
        not in netplan.collective(
            "hgx-h100", kind="all_reduce", gpus=64, message_bytes=2**20
        )._repr_html_()
    )
