"""What a build adds: a README that is readable elsewhere."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)([^)]+)\)")
WHERE = "\nPaths such as `docs/start.md` name files of the source archive.\n"


class Readme(MetadataHookInterface):
    """Says where files are in place of links to them, which a package index has not."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Give the description of the package."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        plain = LINK.sub(lambda found: _said(*found.groups()), text)
        metadata["readme"] = {"content-type": "text/markdown", "text": plain + WHERE}


def _said(name: str, path: str) -> str:
    """A file's name and place; the place alone where both are one."""
    return f"`{path}`" if name == path else f"{name} (`{path}`)"
