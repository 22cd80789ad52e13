"""Files are written where they are named: links, pipes and devices stay what they are."""

import os
import threading
from pathlib import Path

from netplan.files import write_atomically


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
