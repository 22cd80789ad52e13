"""A Python process that imports what this one does, and talks to it through pipes."""

import os
import pickle
import signal
import subprocess
import sys

KILLED = "the process was killed, probably for want of memory"


def start_module(
    module: str, *arguments: str, own_session: bool = False
) -> subprocess.Popen[bytes]:
    """Start ``python -m module``, its input and output being pipes.

    Parameters
    ----------
    module
        Name of the module.
    arguments
        What stands behind it on its command line.
    own_session
        Give it a process group of its own: Ctrl-C passes it by, and one signal ends it with all
        that it has started.
    """
    path = os.pathsep.join(folder for folder in sys.path if folder)
    return subprocess.Popen(  # noqa: S603 - this interpreter, and a module of netplan
        [sys.executable, "-m", module, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": path},
        start_new_session=own_session,
    )


def end_child(child: subprocess.Popen[bytes], patience_s: float = 0.0) -> int:
    """Wait for a child, end it when patience runs out, and return how it ended."""
    try:
        child.wait(patience_s)
    except subprocess.TimeoutExpired:
        child.kill()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except OSError:
                continue  # what was still to be written has no reader any more
    return child.wait()


def cause_of_death(code: int) -> str:
    """Say in words how a process ended.

    Examples
    --------
    >>> cause_of_death(-9)
    'the process was killed, probably for want of memory'
    >>> cause_of_death(-11), cause_of_death(3)
    ('the process was killed by SIGSEGV', 'the process ended itself with exit code 3')
    """
    if code == -signal.SIGKILL:
        return KILLED
    if code < 0:
        return f"the process was killed by {signal.Signals(-code).name}"
    return f"the process ended itself with exit code {code}"


def pickled(value: object) -> bytes:
    """Pickle for another process; with Dask's cloudpickle, a notebook's own classes too."""
    try:
        from cloudpickle import dumps
    except ImportError:
        from pickle import dumps
    data: bytes = dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    return data
