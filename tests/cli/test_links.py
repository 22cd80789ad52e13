"""Links of the pages: in a checkout they lead to files, in the site to pages that are made.

With NETPLAN_UPDATE_GOLDEN=1 the made page of the checkout is written anew.
"""

import os
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from docs.generators import DOCS, committed_pages, made_pages, write_committed
from docs.generators.links import MADE, site_links

ROOT = Path(__file__).parents[2]
WRITTEN = {
    path: path.read_text(encoding="utf-8")
    for path in (
        *(ROOT / "README.md", ROOT / "CONTRIBUTING.md"),
        *sorted(ROOT.glob("*/README.md")),
        *sorted(path for path in DOCS.rglob("*.md") if DOCS / MADE not in path.parents),
    )
}
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
TREE = re.compile(r"^```\{toctree\}\n(.*?)^```", re.MULTILINE | re.DOTALL)


def anchors(text: str) -> set[str]:
    """Anchors of the headings of a page, as Markdown has them."""
    plain = (re.sub(r"[^\w\- ]", "", head.lower()) for head in HEADING.findall(text))
    return {head.replace(" ", "-") for head in plain}


pages_made = cache(made_pages)


@cache
def in_checkout() -> frozenset[Path]:
    """Files of a checkout; in a source archive those that are there."""
    if not (ROOT / ".git").exists():
        return frozenset(path for path in ROOT.rglob("*") if DOCS / MADE not in path.parents)
    done = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],  # noqa: S607 - as developers have it
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return frozenset(ROOT / name for name in done.stdout.splitlines())


@pytest.mark.parametrize("page", WRITTEN, ids=[str(path.relative_to(ROOT)) for path in WRITTEN])
def test_every_link_leads_to_a_file_and_a_heading_of_the_checkout(page: Path) -> None:
    lost = []
    for target, anchor in LINK.findall(WRITTEN[page]):
        path = (page.parent / target).resolve() if target else page
        known = WRITTEN.get(path, "")
        if path not in in_checkout() or (anchor and anchor not in anchors(known)):
            lost.append(f"{target}#{anchor}")
    assert lost == []


def test_in_the_site_links_lead_to_pages_and_headings_that_are_there() -> None:
    made = {f"{MADE}/{name}": text for name, text in pages_made().items()}
    pages = {
        path.relative_to(DOCS).as_posix(): text
        for path, text in WRITTEN.items()
        if DOCS in path.parents
    }
    known = {**pages, **made}
    lost, found = [], 0
    for page, text in pages.items():
        for target, anchor in LINK.findall(site_links(text, page)):
            name = os.path.normpath(Path(page).parent / target) if target else page
            found += name in made
            if name.endswith(".png"):
                continue
            if name not in known or (anchor and anchor not in anchors(known[name])):
                lost.append(f"{page}: {target}#{anchor}")
    assert lost == []
    assert found > 30  # the site has a page of its own for each


def test_every_page_stands_in_the_contents() -> None:
    """The made ones by their index."""
    index = WRITTEN[DOCS / "index.md"]
    listed = {
        f"{line}.md"
        for tree in TREE.findall(index)
        for line in tree.splitlines()
        if line and not line.startswith(":")
    }
    pages = {path.relative_to(DOCS).as_posix() for path in WRITTEN if DOCS in path.parents} - {
        "index.md",
        "background/seeds.md",
        "background/verified.md",
    }
    assert pages <= listed
    assert listed - pages <= {f"{MADE}/{name}" for name in pages_made()}


def test_the_made_page_of_the_checkout_is_that_of_today() -> None:
    if os.environ.get("NETPLAN_UPDATE_GOLDEN"):
        write_committed()
    for name, text in committed_pages().items():
        assert (DOCS / name).read_text(encoding="utf-8") == text, (
            "NETPLAN_UPDATE_GOLDEN=1 renews it"
        )
