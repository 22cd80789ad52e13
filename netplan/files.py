"""Files that are complete or not there at all."""

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from netplan.errors import InputError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give the path of a new file beside ``path``, and move it there when the block succeeds.

    If the block fails, or is interrupted, an older file of that name stays as it was. A link stays
    a link to the new file; a pipe or a device, such as `/dev/stdout`, is written to as it is.

    Raises
    ------
    InputError
        If the folder does not exist or cannot be written.

    Examples
    --------
    >>> folder = Path(tempfile.mkdtemp())
    >>> with replacing(folder / "answer.txt") as new:
    ...     _ = new.write_text("42")
    >>> [file.name for file in folder.iterdir()]
    ['answer.txt']
    """
    temporary = None
    try:
        if path.is_dir():
            raise IsADirectoryError(None, "it is a folder")
        if path.exists() and not path.is_file():
            yield path
            return
        place = path.resolve()
        handle, temporary = tempfile.mkstemp(dir=place.parent, prefix=".", suffix=f".{place.name}")
        os.close(handle)
        yield Path(temporary)
        # A file made by mkstemp is private; give it the rights that a plain open would.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)  # noqa: PTH101
        os.replace(temporary, place)  # noqa: PTH105
        temporary = None
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


def write_atomically(path: Path, content: bytes | Iterable[bytes]) -> None:
    """Write a whole file in one step, or into a pipe or a device; errors as :func:`replacing`."""
    with replacing(path) as new, new.open("wb") as file:
        file.writelines([content] if isinstance(content, bytes) else content)
        file.flush()
        if new.is_file():
            os.fsync(file.fileno())
