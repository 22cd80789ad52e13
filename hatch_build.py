"""Puts plotly's script into the wheel, so that pages have charts where plotly is not installed."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SCRIPT = "package_data/plotly.min.js"
PLACE = "netplan/_catalog/reports/templates/plotly.min.js"


class PlotlyScript(BuildHookInterface[Any]):
    """Takes the script from the plotly that builds the wheel; an editable install has its own."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the script to the files of a wheel."""
        found = find_spec("plotly")
        if version == "standard" and found and found.origin:
            build_data["force_include"][str(Path(found.origin).parent / SCRIPT)] = PLACE
