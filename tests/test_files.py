"""Files are written where they are named: links, pipes and devices stay what they are."""

import os
import threading
from pathlib import Path

import pytest

import netplan
from netplan.errors import CatalogError
from netplan.files import read_bounded, write_atomically


def test_a_pipe_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    write_atomically(pipe, b"answer")
    reader.join()
    assert found == [b"answer"]
    assert pipe.is_fifo()


def test_a_device_stays_a_device() -> None:
    write_atomically(Path(os.devnull), b"answer")
    assert Path(os.devnull).is_char_device()


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    real, link = tmp_path / "there" / "real.txt", tmp_path / "link.txt"
    link.symlink_to(real)
    for text in (b"first", b"second"):
        write_atomically(link, text)
        assert real.read_bytes() == text
        assert link.is_symlink()


def test_a_name_that_no_file_can_have_is_one_line() -> None:
    with pytest.raises(CatalogError, match=r"^'a\\x00b' is no name of a file$"):
        read_bounded(Path("a\0b"))
    with pytest.raises(CatalogError, match="is no name of a file"):
        netplan.simulate(
            "rail-only-paper", gpus=64, hb_size=8, model="gpt-22b", batch=64, placement="a\0b"
        )
