"""What a build adds: plotly's script to the wheel, and a README that is readable elsewhere.

The script is there so that pages have charts where plotly is not installed.
"""

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

SCRIPT = "package_data/plotly.min.js"
PLACE = "netplan/_catalog/reports/templates/plotly.min.js"
LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)([^)]+)\)")
WHERE = "\nPaths such as `docs/start.md` name files of the source archive.\n"


class PlotlyScript(BuildHookInterface[Any]):
    """Takes the script from the plotly that builds the wheel; an editable install has its own."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the script to the files of a wheel."""
        found = find_spec("plotly")
        if version == "standard" and found and found.origin:
            build_data["force_include"][str(Path(found.origin).parent / SCRIPT)] = PLACE


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
