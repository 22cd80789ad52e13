"""Links of pages to files of the checkout, which the site has pages of its own for.

On a code host a page leads to what lies in the repository: the README of a folder of catalogs, a
module, the table of quantities. The site leads to the page that is made from it.
"""

import re
from posixpath import join, normpath, relpath

from docs.generators.catalog_files import FOLDERS

MADE = "reference/made"
"""Folder of the made pages below `docs/`."""
LINK = re.compile(r"\[([^\]]*)\]\(([^)#\s]*)(#[^)\s]*)?\)")
KEYS = re.compile(r"Keys: ([\w-]+)")
README = re.compile(rf"\.\./({'|'.join(FOLDERS)})/README\.md")
MODULE = re.compile(r"\.\./netplan/([\w/]+)\.py")
QUANTITIES = "../reports/quantities.csv"


def site_links(text: str, page: str) -> str:
    """A page with its links as the site has them.

    Parameters
    ----------
    text
        The page, in Markdown.
    page
        Its path below `docs/`.

    Returns
    -------
    str
        The page, whose links to files of the checkout lead to what is made from them.

    Examples
    --------
    >>> site_links("[Keys: fabric](../../topologies/README.md#keys)", "guide/fabrics.md")
    '[Keys: fabric](../reference/made/files/keys-fabric.md)'
    >>> site_links("[`traffic.bounds`](../../netplan/traffic/bounds.py)", "guide/plans.md")
    '[`traffic.bounds`](../reference/made/functions/traffic.bounds.md)'
    """
    folder = page.rpartition("/")[0]

    def shown(found: re.Match[str]) -> str:
        said, target, anchor = found[1], found[2], found[3] or ""
        made = made_page(said, normpath(join(folder, target)), anchor) if target else ""
        return f"[{said}]({relpath(join(MADE, made), folder or '.')})" if made else found[0]

    return LINK.sub(shown, text)


def made_page(said: str, target: str, anchor: str) -> str:
    """The made page of a file, by its path seen from `docs/`; empty where there is none.

    Parameters
    ----------
    said
        Words of the link: those that name keys lead to the keys of their role.
    target, anchor
        Where it leads, and the heading there.

    Returns
    -------
    str
        Path below the folder of made pages, with the heading.
    """
    keys = KEYS.fullmatch(said)
    if readme := README.fullmatch(target):
        return f"files/keys-{keys[1]}.md" if keys else f"files/{readme[1]}.md{anchor}"
    if module := MODULE.fullmatch(target):
        return f"functions/{module[1].replace('/', '.')}.md"
    return f"nomenclature.md{anchor}" if target == QUANTITIES else ""
