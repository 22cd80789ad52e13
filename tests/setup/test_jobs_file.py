"""Files of jobs: which GPUs they get, and one line for each thing that is wrong."""

from pathlib import Path

import pytest

from netplan.errors import CatalogError
from netplan.setup.jobs_file import read_jobs

ALONE = {"gpus": 32, "hb_size": 4}


def jobs(tmp_path: Path, text: str) -> list[list[int]]:
    """GPUs of each job of a file, on 32 GPUs in HB domains of 4."""
    path = tmp_path / "jobs.yaml"
    path.write_text(text, encoding="utf-8")
    return [one.gpus.tolist() for one in read_jobs(path, **ALONE)]


def test_jobs_take_the_next_free_gpus(tmp_path: Path) -> None:
    text = """
jobs:
  - {model: gpt-22b, gpus: 8}
  - {model: gpt-22b, placement: "4-8 31-29"}
  - {model: gpt-22b, gpus: 10, placement: line}
"""
    first, second, third = jobs(tmp_path, text)
    assert first == [0, 1, 2, 3, 9, 10, 11, 12]
    assert second == [4, 5, 6, 7, 8, 31, 30, 29]
    assert third == list(range(13, 23))


def test_jobs_that_alternate_deal_out_domains_in_turn(tmp_path: Path) -> None:
    text = """
jobs:
  - {name: a, model: gpt-22b, gpus: 8, placement: alternate}
  - {name: b, model: gpt-22b, gpus: 10, placement: alternate}
"""
    first, second = jobs(tmp_path, text)
    assert first == [*range(4), *range(8, 12)]
    assert second == [*range(4, 8), *range(12, 16), 16, 17]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("jobs:\n- {model: a, gpus: 20}\n- {model: b, gpus: 20}\n",
         "the jobs need 40 GPUs, the fabric has 32"),
        ("jobs:\n- {model: a, placement: 0-7}\n- {model: b, placement: 7-20}\n",
         ":3: GPU 7 is there twice, for a 1 too"),
        ("jobs:\n- {model: a, placement: 0-7 3-9}\n", ":2: GPU 3 is there twice"),
        ("jobs:\n- {model: a, placement: 0-40}\n", ":2: there is no GPU 40"),
        ("jobs:\n- {model: a, placement: left}\n", ":2: 'left' names no GPU"),
        ("jobs:\n- {model: a, placement: 0-7, gpus: 9}\n", "names 8 GPUs, and gpus says 9"),
        ("jobs:\n- {model: a}\n", ":2: a 1 has 0 GPUs: give 8 or more"),
        ("jobs: []\n", "0 jobs: give 1 to 1,000"),
        ("jobs:\n- {name: x, model: a, gpus: 8}\n- {name: x, model: b, gpus: 8}\n",
         ":3: a job before it is called x, too"),
        ("jobs:\n- {gpus: 8}\n", "model is missing"),
        ("jobs:\n- {model: a, gpus: 8, weight: 0}\n", ":2: jobs.0.weight: got 0: input"),
        ("jobs:\n- {model: a, gpu: 8}\n", "unknown key"),
        ("jobs:\n- {model: a, gpus: -8}\n", "greater than 0"),
    ],
)  # fmt: skip
def test_one_line_says_what_is_wrong(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(CatalogError) as error:
        jobs(tmp_path, text)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert "jobs.yaml:" in str(error.value)
