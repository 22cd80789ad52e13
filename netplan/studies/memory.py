"""A limit on the memory of this process: too large an array raises MemoryError, and no more."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def limited(limit_bytes: int | None) -> Iterator[None]:
    """Let this process hold no more than ``limit_bytes`` while the block runs.

    The kernel limits addresses, of which libraries reserve far more than they use: what is
    reserved now comes on top of the limit. Systems without ``/proc`` go without a limit.

    Examples
    --------
    >>> with limited(None):
    ...     pass
    """
    statm = Path("/proc/self/statm")
    if limit_bytes is None or sys.platform == "win32" or not statm.exists():
        yield
        return
    import resource  # Unix only

    size_pages, resident_pages = map(int, statm.read_text(encoding="ascii").split()[:2])
    reserved_bytes = (size_pages - resident_pages) * resource.getpagesize()
    old, hard = resource.getrlimit(resource.RLIMIT_AS)
    allowed = [reserved_bytes + limit_bytes]
    allowed += [bound for bound in (old, hard) if bound != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min(allowed), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (old, hard))


def first_victim() -> None:
    """Ask the kernel to end this process before any other when memory runs out."""
    try:
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    except OSError:
        return  # not Linux: the kernel chooses
