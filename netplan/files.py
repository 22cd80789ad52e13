"""Files: read up to a bound, as UTF-8; written so that they are complete or not there at all."""

import csv
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import ClassVar

from netplan.errors import CatalogError, InputError, NetplanError

MAX_BYTES = 1 << 28
MAX_NAME = 80
"""Signs of a file's name in the refusal of one that may not be read [1]."""


class Reach:
    """Folders below which a file has to lie to be read, with all links followed; anywhere if none.

    A command reads what its user may read. Whoever calls a tool of a server may be somebody else.
    """

    folders: ClassVar[tuple[Path, ...]] = ()


def reachable(path: Path) -> Path:
    """The path itself, if a file there may be read: see :class:`Reach`.

    What is refused is so whether or not there is a file. Hidden names are, too, below the folders:
    keys and passwords stand in such files.

    Parameters
    ----------
    path
        Of a file or a folder, which need not exist.

    Returns
    -------
    Path
        As it was given, its links not replaced.

    Raises
    ------
    CatalogError
        If it leads out of the folders, or to what is neither a file of at most 256 MiB nor a
        folder.

    Examples
    --------
    >>> reachable(Path("mine.yaml")).name
    'mine.yaml'
    """
    if not Reach.folders:
        return path
    try:
        place = path.resolve()
    except (OSError, ValueError, RuntimeError):  # a ring of links, or a NUL
        raise CatalogError(f"{str(path)!r:.{MAX_NAME}} is no name of a file") from None
    below = [
        place.relative_to(folder).parts for folder in Reach.folders if place.is_relative_to(folder)
    ]
    if not any(not any(part.startswith(".") for part in parts) for parts in below):
        raise CatalogError(
            f"{str(path)!r:.{MAX_NAME}} may not be read here: name a record of the catalog, or a"
            " file that is not hidden below the working folder or a catalog folder"
        )
    with suppress(OSError):  # there is none, which reading says
        status = place.stat()
        if not (S_ISREG(status.st_mode) or S_ISDIR(status.st_mode)):
            raise CatalogError(f"{path}: no regular file: write what it gives into a file first")
        if S_ISREG(status.st_mode) and status.st_size > MAX_BYTES:
            raise CatalogError(f"{path}: larger than {MAX_BYTES >> 20} MiB: no file here is")
    return path


Version = tuple[int, int]
"""Time of the last change of a file [ns] and its size [bytes]."""

NO_VERSION: Version = (0, 0)
"""Of what is no file, or cannot be read: reading it says what is wrong."""


def version_of(path: Path) -> Version | None:
    """Version of a file; None of what is none, as where a name is too long for any."""
    try:
        status = os.stat(path)  # noqa: PTH116 - half the time of a path's own
    except (OSError, ValueError):
        return None
    return (status.st_mtime_ns, status.st_size) if S_ISREG(status.st_mode) else None


def read_bounded(path: Path, limit: int = MAX_BYTES, advice: str = "split the fabric") -> bytes:
    """Content of a file of at most so many bytes.

    Raises
    ------
    CatalogError
        If the file cannot be read or is larger.
    """
    try:
        with reachable(path).open("rb") as file:
            content = file.read(limit + 1)
    except OSError as error:
        raise CatalogError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError:  # a NUL in it
        raise CatalogError(f"{str(path)!r} is no name of a file") from None
    if len(content) > limit:
        raise CatalogError(f"{path}: larger than {limit >> 20} MiB: {advice}")
    return content


def text_of(path: Path, content: bytes) -> str:
    """Content of a file as text; CatalogError, with file and line, if it is not UTF-8."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise CatalogError(f"{path}:{line}: not UTF-8 text: save the file as UTF-8") from None


def read_lines(path: Path) -> list[str]:
    """Lines of a UTF-8 file of at most 256 MiB; errors as :func:`read_bounded`."""
    # Only line feeds end a line, so that the numbers agree with an editor's.
    text = text_of(path, read_bounded(path))
    return [line.removesuffix("\r") for line in text.split("\n")]


def csv_rows(
    path: Path,
    lines: Iterable[str],
    refusal: type[NetplanError] = CatalogError,
    *,
    skip_spaces: bool = False,
) -> Iterator[tuple[int, list[str]]]:
    """Number and cells of every line of a CSV file; what is none is refused, with file and line."""
    reader = csv.reader(lines, strict=True, skipinitialspace=skip_spaces)
    try:
        for cells in reader:
            yield reader.line_num, cells
    except csv.Error as error:
        raise refusal(f"{path}:{reader.line_num}: not CSV: {error}") from None


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
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with replacing(folder / "answer.txt") as new:
    ...     _ = new.write_text("42")
    >>> [file.name for file in folder.iterdir()]
    ['answer.txt']
    """
    temporary: Path | None = None
    try:
        with suppress(FileNotFoundError):
            # Says what is wrong with a name or a chain of links, too.
            if not S_ISREG(mode := path.stat().st_mode):
                _refuse_folder(mode)
                yield path
                return
        place = path.resolve()
        # Named before it is there: whenever a signal ends the writing, the file goes.
        temporary = place.with_name(f".netplan-{os.urandom(8).hex()}.part")
        temporary.touch(exist_ok=False)
        yield temporary
        temporary.replace(place)
        temporary = None
    except BrokenPipeError:
        raise  # a reader who has left is no failure
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def check_place(path: Path) -> None:
    """Refuse a place where no file can be, and write nothing; errors as :func:`replacing`."""
    try:
        with suppress(FileNotFoundError):
            if not S_ISREG(mode := path.stat().st_mode):
                _refuse_folder(mode)
                return
        folder = path.resolve().parent
        folder.stat()
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(None, "the folder may not be written")
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None


def _refuse_folder(mode: int) -> None:
    if S_ISDIR(mode):
        raise IsADirectoryError(None, "it is a folder")


def write_atomically(path: Path, content: bytes | Iterable[bytes]) -> None:
    """Write a whole file in one step, or into a pipe or a device; errors as :func:`replacing`."""
    with replacing(path) as new, new.open("wb") as file:
        file.writelines([content] if isinstance(content, bytes) else content)
        file.flush()
        if new.is_file():
            os.fsync(file.fileno())


def write_texts(
    folder: Path, texts: Mapping[str, str], *, force: bool = False, instead: str = "--name"
) -> tuple[Path, ...]:
    """Write files by their places in a folder, which is made, each as a whole.

    Raises
    ------
    InputError
        If one is there already and ``force`` is not said, or cannot be written; it asks for
        another of what is taken ``instead``.
    """
    paths = {folder / place: text for place, text in texts.items()}
    there = [str(path) for path in paths if path.exists()]
    if there and not force:
        raise InputError(f"{', '.join(there)}: already there: give another {instead}, or --force")
    # The first may name the others and comes last: whatever ends the writing, no file names one
    # that is missing.
    for path, text in reversed(paths.items()):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{path}: cannot be written: {error.strerror}") from None
        with replacing(path) as new:
            new.write_text(text, encoding="utf-8", newline="\n")
    return tuple(paths)
