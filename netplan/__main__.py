"""The process ``netplan``, and ``python -m netplan``."""

import atexit
import gc
import os
import signal
import sys
import threading


def main() -> None:
    """Run the command line; Ctrl-C before it can answer ends the process without a word."""
    # Imports make many objects and no garbage: the collector's early passes cost a tenth.
    gc.set_threshold(200_000, 20, 20)
    # Arrays of numpy are small here: a second thread of OpenBLAS mostly waits, on a processor.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from netplan.cli.main import main as command_line  # noqa: PLC0415 - it takes a while

    try:
        command_line()
    except SystemExit as end:
        if isinstance(end.code, int) and not _awaited():
            # Taking down all that was imported costs a twentieth of a comparison.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(end.code)
        raise


def _awaited() -> bool:
    """Whether somebody waits for the end of the process: threads, handlers, a profiler."""
    watched = sys.gettrace() or sys.getprofile()
    return bool(watched or atexit._ncallbacks() or threading.active_count() > 1)  # noqa: SLF001


if __name__ == "__main__":
    main()
