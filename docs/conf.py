"""How Sphinx builds the documentation: offline, from this repository alone."""

import inspect
import sys
import warnings
from pathlib import Path

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from docs.generators import write_pages  # noqa: E402 - found by the path above
from docs.generators.drawings import shown_drawings, site_style  # noqa: E402
from docs.generators.links import site_links  # noqa: E402
from docs.generators.outputs import shown_commands  # noqa: E402
from netplan.version import __version__  # noqa: E402

project = "netplan"
author = "The netplan authors"
project_copyright = "The netplan authors"
version = release = __version__

# numpydoc reads the docstring of msgspec's own class too, which has a section that it lacks.
warnings.filterwarnings("ignore", "Unknown section Configuration")

extensions = ["myst_parser", "numpydoc", "sphinx.ext.autodoc", "sphinx_copybutton"]
exclude_patterns = ["README.md", "build", "_build"]
master_doc = "index"
language = "en"
smartquotes = False  # two hyphens begin an option, and are no dash
default_role = "code"

myst_enable_extensions = ["deflist", "dollarmath"]
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
add_module_names = False
python_use_unqualified_type_names = True

html_theme = "furo"
html_title = f"netplan {__version__}"
html_static_path = ["_static", "reference/made/static"]
html_css_files = ["netplan.css", "drawings.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_search_summary = False  # pages opened as files may not be fetched
html_math_renderer = "mathml"
copybutton_prompt_text = r"\$ |>>> "
copybutton_prompt_is_regexp = True
copybutton_line_continuation_character = "\\"
pygments_style = "tango"
pygments_dark_style = "github-dark"


def show_commands(_: Sphinx, name: str, source: list[str]) -> None:
    """Put the command above every output that a test keeps true, and drawings below theirs.

    Links to files of the checkout lead to the pages that are made from them.
    """
    source[0] = shown_commands(shown_drawings(site_links(source[0], f"{name}.md")))


def math_inline(self: nodes.NodeVisitor, node: nodes.Element) -> None:
    """Write a formula in a line as MathML, which browsers draw without any script."""
    self.body.append(tex2mathml(node.astext(), as_block=False))
    raise nodes.SkipNode


def math_block(self: nodes.NodeVisitor, node: nodes.Element) -> None:
    """Write a formula on lines of its own as MathML."""
    formula = tex2mathml(node.astext(), as_block=True)
    self.body.append(f'<div class="formula">{formula}</div>\n')
    raise nodes.SkipNode


def skip_builtin(*facts: object) -> bool | None:
    """Leave out what Python's modules in C gave a module of ours, whose signature may be none."""
    return True if inspect.isbuiltin(facts[3]) else None


def setup(app: Sphinx) -> None:
    """Write the pages that are made from the code, before Sphinx looks which there are."""
    app.add_html_math_renderer("mathml", (math_inline, None), (math_block, None))
    app.connect("source-read", show_commands)
    app.connect("autodoc-skip-member", skip_builtin)
    made = HERE / "reference" / "made"
    write_pages(made)
    (made / "static").mkdir(exist_ok=True)
    (made / "static" / "drawings.css").write_text(site_style(), encoding="utf-8")
