"""The process ``netplan``, and ``python -m netplan``."""

import gc
import signal


def main() -> None:
    """Run the command line; Ctrl-C before it can answer ends the process without a word."""
    # Imports make many objects and no garbage: the collector's early passes cost a tenth.
    gc.set_threshold(200_000, 20, 20)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from netplan.cli.main import main as command_line  # noqa: PLC0415 - it takes a while

    command_line()


if __name__ == "__main__":
    main()
