"""Outputs in pages: each stands under a comment that names its command, which readers see."""

import re

COLUMNS = 80
"""Width of a line that needs no scrolling beside the contents of a page [1]."""
OUTPUT = re.compile(r"^<!-- (netplan [^\n]*) -->\n```text\n(.*?)^```", re.MULTILINE | re.DOTALL)
REMARK = re.compile(r"^((?:netplan|dask) [^\n]*?\S) +# ([^\n]*)$", re.MULTILINE)
LONG = re.compile(rf"^netplan [^\n]{{{COLUMNS - 8},}}$", re.MULTILINE)
FILE = re.compile(r"^<!-- file: (\S+) -->\n", re.MULTILINE)


def folded(command: str, prompt: str = "$ ") -> str:
    r"""A command on as many lines as it needs, each but the last with a sign that it goes on.

    Examples
    --------
    >>> print(folded("netplan compare --gpus 4096 --radix 64 --accelerator h100-80gb"
    ...              " --model llama-3-70b --prices 2026"))
    $ netplan compare --gpus 4096 --radix 64 --accelerator h100-80gb \
        --model llama-3-70b --prices 2026
    """
    first, *options = re.split(r" (?=-)", command)
    lines, line = [], prompt + first
    for option in options:
        if len(line) + len(option) + 3 > COLUMNS:
            lines.append(f"{line} \\")
            line = "   "
        line = f"{line} {option}"
    return "\n".join([*lines, line])


def shown_commands(text: str) -> str:
    r"""Put the command of every output into its block, names of files and remarks above theirs.

    Examples
    --------
    >>> print(shown_commands("<!-- netplan doctor -->\n```text\nall is well\n```\n"))
    ```console
    $ netplan doctor
    all is well
    ```
    <BLANKLINE>
    """
    text = REMARK.sub(r"# \2\n\1", FILE.sub(r"`\1`:\n\n", text))
    text = LONG.sub(lambda found: folded(found[0], prompt=""), text)
    return OUTPUT.sub(lambda found: f"```console\n{folded(found[1])}\n{found[2]}```", text)
