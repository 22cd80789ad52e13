"""Pages of the documentation that are made from the code: nobody writes them by hand."""

from pathlib import Path

from docs.generators.catalog_files import catalog_pages
from docs.generators.commands import command_pages
from docs.generators.functions import function_pages
from docs.generators.inputs import PAGE, inputs_page
from docs.generators.nomenclature import nomenclature_page
from docs.generators.rooms import PICTURE, rooms_picture
from docs.generators.seeds import PAGE as SEEDS
from docs.generators.seeds import seeds_page
from docs.generators.speed import PAGE as SPEED
from docs.generators.speed import speed_page
from docs.generators.tables import Pages

DOCS = Path(__file__).parents[1]


def made_pages() -> Pages:
    """All pages by their path below `reference/made`."""
    return {
        **command_pages(),
        **catalog_pages(),
        **function_pages(),
        "nomenclature.md": nomenclature_page(),
    }


def committed_pages() -> Pages:
    """Made files that stand in the checkout, by their path below `docs/`."""
    return {PAGE: inputs_page(), PICTURE: rooms_picture(), SPEED: speed_page(), SEEDS: seeds_page()}


def write_committed() -> None:
    """Write them anew: ``python -c "import docs.generators as g; g.write_committed()"``."""
    for name, text in committed_pages().items():
        (DOCS / name).parent.mkdir(exist_ok=True)
        (DOCS / name).write_text(text, encoding="utf-8")


def write_pages(folder: Path) -> None:
    """Write all pages; those that have not changed are left alone, so that builds stay short."""
    pages = made_pages()
    for old in folder.rglob("*.md"):
        if old.relative_to(folder).as_posix() not in pages:
            old.unlink()
    for name, text in pages.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
