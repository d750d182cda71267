"""Settings of the documentation site; `make docs` builds it."""

import gc
import sys
import tomllib
from pathlib import Path

# Pages are trees of very many objects, and looking through them for garbage takes long.
gc.set_threshold(200_000, 50, 100)

here = Path(__file__).parent
sys.path.insert(0, str(here / "_ext"))

project = "cavity"
copyright = "the cavity developers"
pyproject = tomllib.loads((here.parent / "pyproject.toml").read_text())
version = release = pyproject["project"]["version"]

extensions = [
    "docstrings",
    "example",
    "mathml",
    "modules",
    "myst_parser",
    "quick",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_design",
]
exclude_patterns = ["_build"]

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_use_type_comments = False
autodoc_class_signature = "mixed"
autodoc_inherit_docstrings = False  # a method is told once, where it is abstract
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_custom_sections = [("To implement", "To implement")]
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80

toc_object_entries = False  # the navigation of every page would have thousands of them
smartquotes = False  # "rbf" is what one types; curling quotes takes a twentieth of the time

html_theme = "furo"
html_math_renderer = "mathml"  # readable without a network
html_title = "cavity"
html_show_sphinx = False
html_copy_source = False
html_use_index = False  # an index of thousands of names, which the search finds too
html_static_path = ["_static"]
html_css_files = ["cavity.css"]
html_search_scorer = str(here / "_static" / "scorer.js")
