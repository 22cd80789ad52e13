"""Reading graph files that nobody has vouched for: bounded in size, plain text, clear refusals."""

from pathlib import Path

from netplan.errors import CatalogError

MAX_FILE_BYTES = 1 << 28


def read_bounded(path: Path) -> bytes:
    """Content of a file of at most 256 MiB.

    Raises
    ------
    CatalogError
        If the file cannot be read or is larger.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise CatalogError(f"{path}: cannot be read: {error.strerror}") from None
    if len(content) > MAX_FILE_BYTES:
        raise CatalogError(f"{path}: larger than {MAX_FILE_BYTES >> 20} MiB: split the fabric")
    return content


def read_lines(path: Path) -> list[str]:
    """Lines of a UTF-8 file of at most 256 MiB.

    Raises
    ------
    CatalogError
        If the file cannot be read, is larger, or is not UTF-8.
    """
    content = read_bounded(path)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise CatalogError(f"{path}:{line}: not UTF-8 text: save the file as UTF-8") from None
    # Only line feeds end a line, so that the numbers agree with an editor's.
    return [line.removesuffix("\r") for line in text.split("\n")]
