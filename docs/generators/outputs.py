"""Outputs in pages: each stands under a comment that names its command, which readers see."""

import re

OUTPUT = re.compile(r"^<!-- (netplan [^\n]*) -->\n```text\n(.*?)^```", re.MULTILINE | re.DOTALL)


def shown_commands(text: str) -> str:
    r"""Put the command of every output into its block, as one would type it.

    Examples
    --------
    >>> print(shown_commands("<!-- netplan doctor -->\n```text\nall is well\n```\n"))
    ```console
    $ netplan doctor
    all is well
    ```
    <BLANKLINE>
    """
    return OUTPUT.sub(lambda found: f"```console\n$ {found[1]}\n{found[2]}```", text)
