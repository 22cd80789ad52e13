"""Makes a process of Linux or macOS as poor as one of Windows, before netplan is imported there.

Run with ``python -X warn_default_encoding``. What Windows lacks is taken away; what it forbids is
refused: a file that is replaced or removed while it is open, names that no file may have there,
files of Linux such as those of ``/proc``, and text files whose encoding is left to the system.
"""

import enum
import os
import select
import signal
import socket
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

LACKS: dict[object, str] = {
    os: "chown chroot ctermid fchown fork forkpty getegid geteuid getgid getgroups getloadavg"
    " getpgid getpgrp getpriority getsid getuid initgroups killpg lchown lockf mkfifo mknod nice"
    " openpty posix_fadvise posix_spawn pread pwrite readv register_at_fork sched_getaffinity"
    " sched_yield sendfile setgid setpgid setsid setuid statvfs sync sysconf sysconf_names ttyname"
    " uname wait wait3 wait4 writev O_DIRECTORY O_NOFOLLOW O_NONBLOCK O_SYNC",
    select: "epoll kqueue poll",
    signal: "alarm pause pthread_kill pthread_sigmask setitimer sigpending sigwait",
    socket: "AF_UNIX",
    time: "tzset",
}
"""What the modules of Python have on Linux and not on Windows."""

SIGNALS = {"SIGABRT", "SIGFPE", "SIGILL", "SIGINT", "SIGSEGV", "SIGTERM"}
CHOOSE = (
    "asyncio concurrent.futures multiprocessing numpy random selectors shutil ssl subprocess"
    " tempfile"
)
"""Modules that choose by the system when they are imported: they keep their choice."""

NO_MODULES = "_posixsubprocess crypt fcntl grp posix pty pwd readline resource syslog termios tty"
RESERVED = {
    "con",
    "prn",
    "aux",
    "nul",
    *(f"{port}{n}" for port in ("com", "lpt") for n in "123456789"),
}
OF_LINUX = ("/proc/", "/sys/", "/etc/", "/dev/")


def forbidden(name: str) -> bool:
    r"""Whether no file may have this name on Windows.

    >>> [forbidden(one) for one in ("plan.csv", "a:b", "nul.txt", "what?", "end.", "LPT1")]
    [False, True, True, True, True, True]
    """
    return (
        bool(set('<>:"/\\|?*') & set(name) or name.endswith((".", " ")) or not name.isprintable())
        or name.partition(".")[0].lower() in RESERVED
    )


def take_away() -> None:
    """Remove what Windows lacks."""
    for name in CHOOSE.split():
        import_module(name)
    for module, names in LACKS.items():
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)
    left = {name: one.value for name, one in signal.Signals.__members__.items() if name in SIGNALS}
    for name in {*signal.Signals.__members__} - {*left}:
        delattr(signal, name)
    signal.Signals = enum.IntEnum("Signals", left)  # type: ignore[misc]
    for name in NO_MODULES.split():
        sys.modules[name] = None  # type: ignore[assignment]


def open_files() -> Iterator[str]:
    """Paths that this process has open, where the system says so."""
    for one in Path("/proc/self/fd").glob("*"):
        try:
            yield str(one.readlink())
        except FileNotFoundError:  # that of the folder itself
            continue


def refuse(name: str) -> None:
    """Let a function of ``os`` that moves or removes files refuse those that are open."""
    real: Callable[..., object] = getattr(os, name)

    def refusing(*paths: object, **more: object) -> object:
        held = {*open_files()}
        for path in paths:
            if isinstance(path, str | os.PathLike) and os.path.realpath(path) in held:
                raise PermissionError(13, "The process cannot access the file", os.fspath(path))
        return real(*paths, **more)

    setattr(os, name, refusing)


def watch(event: str, found: tuple[object, ...]) -> None:
    """Refuse names that Windows does not allow, and netplan what only Linux has."""
    if event != "open" or not isinstance(found[0], str):
        return
    path, mode, flags = found[0], str(found[1] or ""), int(str(found[2]))
    writes = set("wax+") & {*mode} or flags & (os.O_WRONLY | os.O_RDWR)
    if writes and path != os.devnull and forbidden(Path(path).name):
        raise ValueError(f"no name of a file on Windows: {path}")
    caller = sys._getframe(1)
    while caller.f_back and "pathlib" in caller.f_code.co_filename:
        caller = caller.f_back
    asks = str(caller.f_globals.get("__name__")).startswith("netplan")
    if asks and path.startswith(OF_LINUX) and path != os.devnull:
        raise ValueError(f"a file of Linux: {path}")


def become() -> None:
    """Be as poor as a process of Windows from here on."""
    take_away()
    for name in ("remove", "rename", "replace", "unlink"):
        refuse(name)
    sys.addaudithook(watch)
    warnings.filterwarnings("error", category=EncodingWarning, module="netplan")


def ask(words: list[str]) -> int:
    """Run a command as the process ``netplan`` does; its exit code."""
    from netplan.cli.main import main  # noqa: PLC0415 - not before the process is poor

    sys.argv = ["netplan", *words]
    try:
        main(first_s=60.0)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0
