"""Pictures of pages for the site: ``python -m docs.generators.pictures [FOLDER]`` takes them anew.

Pages of the documentation say what is on a picture: the command above it makes the page, a comment
below it names the part that is shown, if not the first screen. Needs playwright and chromium, which
the site itself does not, so pictures lie in the repository.
"""

import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from netplan.cli.main import netplan as command_line
from netplan.explore.server import HOST, free_port

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

DOCS = Path(__file__).parents[1]
PICTURES = DOCS / "pictures"
CHROMIUM = "/usr/bin/chromium"
FLAGS = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage")
WIDTH, HEIGHT = 1000, 720
SHOWN = re.compile(
    r"```bash\n(netplan [^\n]*)\n```\n\n!\[[^\]]*\]\(\.\./pictures/(\w+)\.png\)"
    r"(?:\n\n<!-- part: ([^\n]*) -->)?"
)
WHAT_IF = "gpus=24576&fabrics=rail-only%2Crail-optimized%2Cdragonfly"
STILL = "*, *::before, *::after { animation: none !important; transition: none !important; }"


def pictures_of(text: str) -> Iterator[tuple[str, str, str]]:
    r"""Command, name and part of every picture of a page.

    Examples
    --------
    >>> text = "```bash\nnetplan doctor -o a.html\n```\n\n![A page](../pictures/a.png)\n"
    >>> list(pictures_of(text))
    [('netplan doctor -o a.html', 'a', '')]
    """
    yield from SHOWN.findall(text)


def take_pictures(browser: "Browser", text: str, folder: Path) -> None:
    """Make every page that a text shows, and its picture."""
    for command, name, part in pictures_of(text):
        with TemporaryDirectory() as made:
            page = _answered(command, Path(made))
            _photograph(browser, page.as_uri(), part, folder / f"{name}.png")


def _answered(command: str, folder: Path) -> Path:
    """The page that a command writes."""
    words = shlex.split(command)[1:]
    path = folder / words[words.index("-o") + 1]
    words[words.index("-o") + 1] = str(path)
    if words[0] == "study":
        words += ["--store", str(folder / "results.study")]
    command_line.main(words, standalone_mode=False)
    return path


def _photograph(browser: "Browser", address: str, part: str, path: Path) -> None:
    """A part of a page, or its first screen."""
    page = _opened(browser, address)
    page.locator("h1").first.wait_for()
    for chart in page.locator(".chart").all():
        chart.locator(".plot:visible").wait_for()
    section = page.locator("section", has=page.get_by_role("heading", name=part)).first
    (section if part else page).screenshot(path=path)
    page.context.close()


def _opened(browser: "Browser", address: str) -> "Page":
    size = {"width": WIDTH, "height": HEIGHT}
    page = browser.new_context(viewport=size, reduced_motion="reduce").new_page()  # type: ignore[arg-type]
    page.goto(address)
    page.add_style_tag(content=STILL)
    return page


def take_explore(browser: "Browser", path: Path) -> None:
    """Serve the what-if page, and take it with some GPUs and fabrics chosen."""
    port = free_port(0)
    words = [sys.executable, "-m", "netplan", "explore", "--no-browser", "--port", str(port)]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL) as server:  # noqa: S603 - ourselves
        try:
            _wait_for(port)
            page = _opened(browser, f"http://{HOST}:{port}/?{WHAT_IF}")
            page.set_viewport_size({"width": 1280, "height": 1000})
            page.get_by_text("costs least").first.wait_for(timeout=60_000)
            page.locator("img").first.wait_for()
            page.wait_for_timeout(2000)  # charts, and the space that they take
            page.screenshot(path=path)
            page.context.close()
        finally:
            server.terminate()


def _wait_for(port: int, tries: int = 300) -> None:
    """Until the page answers: a minute at most."""
    for _ in range(tries):
        with suppress(OSError), socket.create_connection((HOST, port)):
            return
        time.sleep(0.2)


def main(folder: Path = PICTURES) -> None:
    """Take all pictures of the site."""
    folder.mkdir(exist_ok=True)
    with import_module("playwright.sync_api").sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        for path in sorted((DOCS / "guide").glob("*.md")):
            take_pictures(browser, path.read_text(encoding="utf-8"), folder)
        take_explore(browser, folder / "explore.png")
        browser.close()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
