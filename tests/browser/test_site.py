"""The documentation as a site: it builds offline without a warning, and all of it is there."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pytest

from docs.generators.catalog_files import missing_meanings
from docs.generators.commands import questions
from netplan.questions.shelves import all_shelves
from netplan.reports.quantities import nomenclature

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).parents[2]
NEEDED = ("furo", "myst_parser", "numpydoc", "sphinx", "sphinx_copybutton")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not all(map(find_spec, NEEDED)), reason="needs the extra docs of the distribution"
    ),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; a warning is an error."""
    folder = tmp_path_factory.mktemp("site")
    words = ("-q", "-W", "--keep-going", "-b", "html", "-d", str(folder / "trees"))
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *words, "docs", str(folder / "html")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / "html"


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    """Scripts, styles, fonts and pictures are files of the site."""
    loads = re.compile(
        r"""<(?:script|img|source|iframe)[^>]*\ssrc=["'](?:https?:)?//"""
        r"""|<link[^>]*rel=["'](?:stylesheet|preload|preconnect|icon)["'][^>]*(?:https?:)?//"""
        r"""|url\(["']?(?:https?:)?//"""
    )
    files = [path for path in site.rglob("*") if path.suffix in (".html", ".css")]
    assert len(files) > 80
    assert [path.name for path in files if loads.search(path.read_text(encoding="utf-8"))] == []


def test_links_lead_somewhere(site: Path) -> None:
    lost = []
    for page in site.rglob("*.html"):
        for target in re.findall(r'href="([^"#?]+)[^"]*"', page.read_text(encoding="utf-8")):
            if re.match(r"[a-z]+:", target):
                continue
            if not (page.parent / unquote(target)).resolve().exists():
                lost.append(f"{page.name}: {target}")
    assert lost == []


def test_every_option_key_and_quantity_is_told(site: Path) -> None:
    made = site / "reference/made"
    for command, question in questions().items():
        page = (made / f"commands/{command.partition(' ')[0]}.html").read_text(encoding="utf-8")
        for one in question.inputs_known():
            assert f">{one.name}<" in page, (command, one.name)
    for role, shelf in all_shelves().items():
        page = (made / f"files/keys-{role}.html").read_text(encoding="utf-8")
        assert f">{shelf.schema.__struct_encode_fields__[-1]}<" in page, role
    assert (
        missing_meanings() == []
    )  # a row of the README, the docstring, or docs/generators/keys.csv
    page = (made / "nomenclature.html").read_text(encoding="utf-8")
    assert [name for name in nomenclature() if f">{name}<" not in page] == []


def test_every_drawing_is_in_its_page(site: Path) -> None:
    asked = (ROOT / "docs/guide/fabrics.md").read_text(encoding="utf-8").count("<!-- drawn:")
    page = (site / "guide/fabrics.html").read_text(encoding="utf-8")
    drawings = re.findall(r'<svg [^>]*role="img" aria-label="[^"]+"', page)
    assert len(drawings) == asked > 15
    assert "<!-- drawn" not in page
    assert (site / "_static/drawings.css").read_text(encoding="utf-8").count(".drawing {") >= 3


def test_the_functions_have_their_examples(site: Path) -> None:
    functions = site / "reference/made/functions"
    page = (functions / "topologies.families.clos.html").read_text(encoding="utf-8")
    assert "clos_counts" in page
    assert "&gt;&gt;&gt;" in page


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_pages_fit_and_ask_for_nothing(
    site: Path, browser: "Browser", width: int, scheme: str
) -> None:
    shown = browser.new_context(
        color_scheme="dark" if scheme == "dark" else "light",
        viewport={"width": width, "height": 900},
    )
    page = shown.new_page()
    faults: list[str] = []
    page.on(
        "request",
        lambda one: faults.append(one.url) if "://" in one.url.removeprefix("file://") else None,
    )
    page.on("console", lambda one: faults.append(one.text) if one.type == "error" else None)
    page.on("pageerror", lambda one: faults.append(str(one)))
    for name in (
        "index",
        "tutorials/buyer",
        "guide/fabrics",
        "guide/pages",
        "background/models",
        "reference/made/commands/faults",
    ):
        page.goto((site / f"{name}.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
    page.goto((site / "search.html").as_uri() + "?q=oversubscription")
    page.locator("ul.search li").first.wait_for()
    shown.close()
    assert faults == []
