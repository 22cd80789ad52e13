"""Headings name a file that stands for a record, not the way to it."""

from pathlib import Path
from typing import Any

import pytest

import netplan
from netplan.catalog import shipped_root
from netplan.reports.sections import Heading

RUN: dict[str, Any] = {"gpus": 64, "radix": 16, "hb_size": 8, "batch": 64}


@pytest.fixture
def model(tmp_path: Path) -> str:
    text = (shipped_root() / "traffic" / "models" / "gpt-22b.yaml").read_text(encoding="utf-8")
    path = tmp_path / "mine.yaml"
    path.write_text(text.replace("name: gpt-22b", "name: mine"), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("question", ["search", "loads", "traffic", "simulate", "compare"])
def test_a_heading_names_the_file_of_a_model(question: str, model: str) -> None:
    answer = getattr(netplan, question)("rail-only-paper", **RUN, model=model)
    (heading,) = (one for one in answer.sections() if isinstance(one, Heading))
    words = " ".join((heading.title, *heading.lines))
    assert "mine.yaml" in words
    assert str(Path(model).parent) not in words
    assert answer.to_dict()["inputs"]["model"] == model  # by which it is asked again


def test_a_heading_names_the_file_of_a_served_model(model: str) -> None:
    answer = netplan.serving(
        "serving-70b-h200", gpus=8, radix=16, accelerator="h100-80gb", model=model
    )
    (heading,) = (one for one in answer.sections() if isinstance(one, Heading))
    assert heading.title.startswith("Serving mine.yaml on 8 ")
