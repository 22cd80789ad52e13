"""``python -m netplan`` is the ``netplan`` command."""

from netplan.cli.main import main

if __name__ == "__main__":
    main()
